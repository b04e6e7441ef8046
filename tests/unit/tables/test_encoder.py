from __future__ import annotations

import datetime as dt
import warnings
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from flowratio.diagnostics.diagnosis import diagnose
from flowratio.ratios.classifier.classifier import ClassifierRatio
from flowratio.ratios.inverse import InverseRatio
from flowratio.ratios.table_ratio import TableRatio, UnseenWarning
from flowratio.scaling.discrete import Lattice
from flowratio.storage.saving import load, save
from flowratio.tables.cells import cells_of, pooled, read, to_frame
from flowratio.tables.columns import Column
from flowratio.tables.encoder import TableEncoder


def mixed(n: int = 60, seed: int = 0) -> pl.DataFrame:
    """Draw a table with a column of every kind, and gaps in three of them."""
    rng = np.random.default_rng(seed)
    days = [dt.date(2024, 1, 1) + dt.timedelta(days=int(k)) for k in rng.integers(0, 400, n)]
    times = [dt.datetime(2024, 1, 1) + dt.timedelta(seconds=int(k)) for k in rng.integers(0, 10**7, n)]
    jobs = rng.choice(["clerk", "baker", "judge", "nurse"], n).tolist()
    jobs[:4] = ["clerk", "baker", "judge", "nurse"]
    return pl.DataFrame(
        {
            "income": rng.normal(size=n),
            "age": pl.Series([None if k % 7 == 3 else int(v) for k, v in enumerate(rng.integers(18, 90, n))]),
            "smoker": (rng.random(n) < 0.5).tolist(),
            "job": pl.Series([None if k % 9 == 5 else job for k, job in enumerate(jobs)]),
            "sex": rng.choice(["f", "m"], n).tolist(),
            "day": days,
            "time": pl.Series([None if k % 11 == 2 else time for k, time in enumerate(times)], dtype=pl.Datetime("us")),
            "year": [2024] * n,
        }
    )


def as_text(frame: pl.DataFrame, gap: str = "") -> pl.DataFrame:
    """Return a table as a file of text has it."""
    return frame.select(pl.all().cast(pl.String).fill_null(gap))


def bare(column: Column) -> Column:
    """Return a column without the type and the way of writing of the table that it was learned from."""
    return replace(column, dtype="", pattern="")


def test_every_kind_comes_back() -> None:
    frame = mixed()
    encoder = TableEncoder().fit(frame)
    kinds = ["number", "integer", "boolean", "category", "category", "date", "date", "constant"]
    assert [column.kind for column in encoder.columns_] == kinds
    back = encoder.inverse_transform(encoder.transform(frame))
    assert back.equals(frame)
    assert back.schema == frame.schema


def test_encoded_columns_and_their_groups() -> None:
    encoder = TableEncoder().fit(mixed())
    jobs = [name for name in encoder.names_ if name.startswith("job = ")]
    most = next(column.fill for column in encoder.columns_ if column.name == "job")
    assert {*jobs} == {"job = baker", "job = clerk", "job = judge", "job = nurse"} - {f"job = {most}"}
    assert {"age", "age is missing", "job is missing", "time is missing"} <= {*encoder.names_}
    assert sum(name.startswith("sex = ") for name in encoder.names_) == 1  # of two levels, one tells both
    assert not any(name.startswith("year") for name in encoder.names_)
    of = [encoder.columns_[k].name for k in encoder.groups_]
    assert all(name.startswith(column) for name, column in zip(encoder.names_, of, strict=True))
    assert encoder.get_feature_names_out().tolist() == encoder.names_


def test_values_of_the_matrix() -> None:
    frame = pl.DataFrame(
        {
            "age": [30, None, 50, 40],
            "on": [True, False, True, True],
            "job": ["a", "b", "c", "a"],
            "day": ["1970-01-02", "1970-01-03 12:00", "1970/01/04", "1970-01-04T00:00:00+06:00"],
        }
    )
    matrix = TableEncoder().fit_transform(frame)
    expected = [
        [30.0, 0.0, 1.0, 0.0, 0.0, 1.0],
        [40.0, 1.0, 0.0, 1.0, 0.0, 2.5],
        [50.0, 0.0, 1.0, 0.0, 1.0, 3.0],
        [40.0, 0.0, 1.0, 0.0, 0.0, 2.75],
    ]
    assert matrix.tolist() == expected


@pytest.mark.parametrize("gap", ["", "NA", " nan ", "NULL", "None", "?"])
def test_text_pandas_pyarrow_and_polars_are_the_same(gap: str) -> None:
    frame = mixed()
    encoder = TableEncoder().fit(frame)
    matrix = encoder.transform(frame)
    for other in (as_text(frame, gap), frame.to_pandas(), frame.to_arrow()):
        fresh = TableEncoder().fit(other)
        assert fresh.names_ == encoder.names_
        assert [bare(column) for column in fresh.columns_] == [bare(column) for column in encoder.columns_]
        assert np.array_equal(fresh.transform(other), matrix)
        assert np.array_equal(encoder.transform(other), matrix)  # fitted to one, applied to another


def german(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table as a spreadsheet of Germany writes it, with words for gaps, as text."""
    swap = str.maketrans({",": ".", ".": ","})
    income = [f"{1e5 * value:,.2f}".translate(swap) + " €" for value in frame["income"].to_list()]
    return as_text(frame).with_columns(
        income=pl.Series(income),
        age=frame["age"].cast(pl.String).fill_null("unknown"),
        smoker=frame["smoker"].cast(pl.String).str.to_uppercase(),
        day=frame["day"].dt.strftime("%d.%m.%Y"),
        time=frame["time"].dt.strftime("%-d.%-m.%Y %H:%M:%S").fill_null("--"),
    )


def test_a_table_as_people_write_it_is_the_table() -> None:
    frame = mixed(200).with_columns(income=(1e5 * pl.col("income")).round(2))
    text = german(frame.with_columns(pl.col("income") / 1e5))
    encoder = TableEncoder().fit(text)
    plain = TableEncoder().fit(frame)
    assert [column.kind for column in encoder.columns_] == [column.kind for column in plain.columns_]
    assert encoder.columns_[0].read_as == "number 1.234,5 €"
    assert encoder.names_ == plain.names_
    assert np.array_equal(encoder.transform(text), plain.transform(frame))
    assert np.array_equal(encoder.transform(frame), plain.transform(frame))  # types are read as they are
    log_r = TableRatio("logistic").fit_samples(frame[:100], frame[100:]).log_ratio(frame)
    assert np.array_equal(TableRatio("logistic").fit_samples(text[:100], text[100:]).log_ratio(text), log_r)
    parsed = encoder.parse(text)
    assert parsed["age"].null_count() == frame["age"].null_count()
    assert np.array_equal(encoder.transform(parsed), plain.transform(frame))
    back = encoder.restore(encoder.inverse_transform(encoder.transform(text)))
    assert back[["income", "sex", "day"]].equals(text[["income", "sex", "day"]])
    assert back["time"].fill_null("--").to_list() == text["time"].to_list()


def test_the_format_at_fit_is_the_format() -> None:
    encoder = TableEncoder().fit(pl.DataFrame({"a": ["1,5", "2,25"], "d": ["31.12.2023", "1.2.2024"]}))
    assert encoder.transform(pl.DataFrame({"a": ["3,5", "4"], "d": ["2.1.1970"] * 2})).tolist() == [[3.5, 1], [4, 1]]
    with pytest.raises(ValueError, match=r"'a' has '1.234' in row 1 .*, which is no number as in 1234,5: all of it"):
        encoder.transform(pl.DataFrame({"a": ["1,5", "1.234"], "d": ["", ""]}))
    with pytest.raises(ValueError, match=r"'d' has '2023-12-31' in row 0 .*, which is no date as DD.MM.YYYY: all"):
        encoder.transform(pl.DataFrame({"a": [1.0], "d": ["2023-12-31"]}))


def test_words_for_gaps_are_gaps_among_numbers_and_levels_among_words() -> None:
    words = ["-", "--", ".", "?", "missing", "Unknown", "n/a", "#N/A"]
    frame = pl.DataFrame(
        {
            "n": [*words, "1.5", "2.5"],
            "d": [*words, "2024-01-01", "2024-01-02"],
            "b": [*words, "true", "false"],
            "c": [*words, "a", "b"],
        }
    )
    encoder = TableEncoder(max_levels=50).fit(frame)  # without a warning
    assert [column.kind for column in encoder.columns_] == ["number", "date", "boolean", "category"]
    assert all(column.gaps for column in encoder.columns_)
    empty = frame.with_columns(pl.col("n", "d", "b").replace(dict.fromkeys(words, "")))
    assert np.array_equal(TableEncoder(max_levels=50).fit_transform(empty), encoder.transform(frame))
    assert {"-", "--", ".", "missing", "Unknown", "a", "b"} == {*encoder.columns_[3].levels}
    fresh = TableEncoder().fit(pl.DataFrame({"n": ["1", "2"], "k": ["5", "5"]}))
    matrix, unseen = fresh.encode(pl.DataFrame({"n": ["-", "2"], "k": ["5", "unknown"]}))
    assert matrix.tolist() == [[1.0], [2.0]]
    assert unseen == {"n": 1, "k": 1}


def test_dots_that_look_like_thousands_are_a_warning() -> None:
    cells = [*(f"{k}.{100 + k}" for k in range(1, 40)), "987"]
    with pytest.warns(UserWarning, match=r"'a' has '1.101' and others like it, .* decimal point. If it stands between"):
        encoder = TableEncoder().fit(pl.DataFrame({"a": cells}))
    assert encoder.transform(pl.DataFrame({"a": ["1.101"]})).tolist() == [[1.101]]


def test_dots_in_a_few_amounts_of_money_are_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"'a' has '\$3.459' and others like it, .* decimal point"):
        encoder = TableEncoder().fit(pl.DataFrame({"a": ["$3.459", "$3.599", "$4"]}))
    assert encoder.transform(pl.DataFrame({"a": ["$3.459", "$4"]})).tolist() == [[3.459], [4.0]]


def test_one_number_in_two_ways_is_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"'a' is taken for categories, as '1,1' and '1,10' would be one number"):
        encoder = TableEncoder().fit(pl.DataFrame({"a": ["2,3", "1,1", "1,10", "2,3"]}))
    assert encoder.columns_[0].levels == ("2,3", "1,1", "1,10")


def test_samples_in_two_formats_are_refused() -> None:
    rng = np.random.default_rng(0)
    P = pl.DataFrame({"a": [f"{value:.1f}".replace(".", ",") for value in rng.normal(size=50)]})
    Q = pl.DataFrame({"a": rng.normal(size=50).round(1)})
    with pytest.raises(ValueError, match=r"'a' has '.*,.*' in `X_p` \(a number as in 1234,5\) and '.*' in `X_q`"):
        TableRatio("logistic").fit_samples(P, Q)


def test_dates_stay_in_years_that_can_be_written() -> None:
    cells = ["31.12.9999", "1.1.2024", "2.1.2024 12:30"]
    for texts in (cells, cells[:2], ["9999-12-31", "2024-01-01"], ["9999-12-31 06:00", "2024-01-01 12:30"]):
        encoder = TableEncoder().fit(pl.DataFrame({"d": texts}))
        drawn = encoder.inverse_transform(np.array([[-1e12], [-8e5], [19723.0], [2932896.9], [3e6], [1e12]]))
        assert drawn["d"].dt.year().to_list() == [1, 1, 2024, 9999, 9999, 9999]
        days = encoder.transform(encoder.restore(drawn))[:, 0]  # what is written is read again
        assert days[[1, 2]].tolist() == [-719162.0, 19723.0]
        assert np.all(days[3:] >= 2932896.0)
    typed = pl.DataFrame({"d": pl.Series([dt.datetime(2024, 1, k) for k in (1, 2)], dtype=pl.Datetime("ns"))})
    encoder = TableEncoder().fit(typed)
    assert encoder.restore(encoder.inverse_transform(np.array([[1e12]]))).schema == typed.schema


def test_rare_levels_without_counts_stay_others() -> None:
    column = Column("w", "category", "category", "a", levels=("a",), rare=("b", "c"), n_levels=3)
    assert column.restore(pl.Series(["a", "(other)"]), np.random.default_rng(0)).to_list() == ["a", "(other)"]


def test_a_constant_that_changes_is_read_as_it_is_encoded() -> None:
    fitted = pl.DataFrame(
        {"year": ["2024"] * 3, "on": ["true"] * 3, "x": ["1", "2", "4"], "day": ["1.1.2024", "-", ""]}
    )
    encoder = TableEncoder().fit(fitted)
    new = pl.DataFrame(
        {"year": ["soon", "2024", "-"], "on": ["maybe", "TRUE", ""], "x": ["1", "2", "3"], "day": ["later", "-", ""]}
    )
    matrix, unseen = encoder.encode(new)
    assert unseen == {"year": 2, "on": 2, "day": 1}
    parsed = encoder.parse(new)
    assert parsed["year"].to_list() == ["soon", "2024", None]
    assert parsed["on"].to_list() == ["maybe", "TRUE", None]
    again = encoder.encode(parsed)
    assert np.array_equal(again[0], matrix)
    assert again[1] == unseen


def test_codes_with_leading_zeros_keep_their_width() -> None:
    frame = pl.DataFrame({"zip": ["01234", "99501", "00501"], "n": ["10", "99", "50"], "c": ["007"] * 3})
    encoder = TableEncoder().fit(frame)
    back = encoder.restore(encoder.inverse_transform(encoder.transform(frame)))
    assert (back["zip"].to_list(), back["c"].to_list()) == (frame["zip"].to_list(), ["007"] * 3)
    assert back["n"].to_list() == [10, 99, 50]
    assert encoder.restore(encoder.inverse_transform(np.array([[-7.0, 1.0]])))["zip"].to_list() == ["00000"]


def test_durations_and_times_are_seconds() -> None:
    span, time = dt.timedelta(hours=1, milliseconds=500), dt.time(0, 1, 30)
    frame = pl.DataFrame({"span": [span, None, 2 * span], "time": [time, dt.time(2), dt.time(3)]})
    expected = [[3600.5, 0, 90], [3600.5, 1, 7200], [7201, 0, 10800]]
    encoder = TableEncoder().fit(frame)
    for other in (frame, frame.with_columns(pl.col("span").cast(pl.Duration("ns"))), frame.to_pandas()):
        assert encoder.transform(other).tolist() == TableEncoder().fit_transform(other).tolist() == expected
    assert encoder.restore(encoder.inverse_transform(expected)).equals(frame)
    for unit in ("s", "ms", "ns", "m"):
        spans = np.array([[60, 120], [180, 240]], "timedelta64[s]").astype(f"timedelta64[{unit}]")
        assert TableEncoder().fit_transform(spans).tolist() == [[60, 120], [180, 240]]


def test_levels_that_share_one_are_drawn_as_often_as_they_were() -> None:
    counts = {"a": 500, "b": 300, "c": 60, "d": 30, "e": 10}
    frame = pl.DataFrame({"w": [word for word, n in counts.items() for _ in range(n)]})
    encoder = TableEncoder(max_levels=2).fit(frame)
    matrix = np.repeat(encoder.transform(frame), 20, axis=0)
    table = encoder.restore(encoder.inverse_transform(matrix), random_state=1)
    assert np.array_equal(encoder.transform(table), matrix)
    found = dict(table["w"].value_counts().iter_rows())
    assert (found["a"], found["b"]) == (10_000, 6_000)
    for word in "cde":
        share = counts[word] / 100
        assert found[word] / 2000 == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 2000))
    assert table.equals(encoder.restore(encoder.inverse_transform(matrix), random_state=1))


def test_too_many_levels_stay_others() -> None:
    frame = pl.DataFrame({"w": [f"u{k}" for k in range(1500)] * 3 + ["v"] * 50})
    encoder = TableEncoder(max_levels=2).fit(frame)
    back = encoder.restore(encoder.inverse_transform(encoder.transform(frame)))
    assert back["w"].to_list().count("(other)") == 3 * 1499
    assert "u7" not in str(encoder.columns_)  # no list of identifiers is kept


def test_types_and_decimals_come_back() -> None:
    zone = pl.Series([dt.datetime(2024, 1, 1, 12), None, dt.datetime(2024, 7, 1)]).dt.replace_time_zone("Europe/Berlin")
    frame = pl.DataFrame(
        {
            "byte": pl.Series([1, None, 200], dtype=pl.UInt8),
            "single": pl.Series([0.5, 1.25, 7.0], dtype=pl.Float32),
            "whole": [1.0, 2.0, 5.0],
            "large": pl.Series([1, 2, 2**40], dtype=pl.UInt64),
            "price": pl.Series([Decimal("0.25"), None, Decimal("7.50")], dtype=pl.Decimal(12, 2)),
            "size": pl.Series(["low", "very high", None], dtype=pl.Enum(["low", "very high"])),
            "moment": zone,
            "day": pl.Series([dt.datetime(2024, 1, k) for k in (1, 2, 3)], dtype=pl.Datetime("ms")),
        }
    )
    for samples in (frame, pooled(frame, frame)):
        encoder = TableEncoder().fit(samples)
        assert encoder.restore(encoder.inverse_transform(encoder.transform(frame))).equals(frame)
    noise = encoder.transform(frame) + 0.004
    made = encoder.inverse_transform(noise)
    assert made["single"].to_list() == [0.5, 1.25, 7.0]  # two decimals
    assert encoder.restore(made).schema == frame.schema


def test_arrays_have_columns_by_number() -> None:
    X = np.array([[1.5, 2.0], [np.nan, 3.0], [2.5, 3.0]])
    encoder = TableEncoder().fit(X)
    assert encoder.names_ == ["x1", "x1 is missing", "x2"]
    assert encoder.transform(X).tolist() == [[1.5, 0.0, 2.0], [1.5, 1.0, 3.0], [2.5, 0.0, 3.0]]


def test_order_of_columns_and_extra_ones_do_not_matter() -> None:
    frame = mixed()
    encoder = TableEncoder().fit(frame)
    other = frame.select([*reversed(frame.columns)]).with_columns(extra=pl.lit("x"))
    assert np.array_equal(encoder.transform(other), encoder.transform(frame))
    with pytest.raises(ValueError, match="no column 'age', 'job'"):
        encoder.transform(frame.drop("job", "age"))


def test_frequent_levels_are_told_apart_and_others_share_one() -> None:
    words = ["a"] * 5 + ["b"] * 4 + ["c"] * 3 + ["d"] * 2 + ["e"]
    encoder = TableEncoder(max_levels=2).fit(pl.DataFrame({"w": words}))
    assert encoder.names_ == ["w = b", "w = (other)"]
    scored = pl.DataFrame({"w": ["a", "d", "e", "new", None]})
    matrix, unseen = encoder.encode(scored)
    assert matrix.tolist() == [[0, 0], [0, 1], [0, 1], [0, 1], [0, 0]]
    assert unseen == encoder.unseen(scored) == {"w": 2}  # the level "new", and a gap where there were none
    assert encoder.inverse_transform(matrix)["w"].to_list() == ["a", "(other)", "(other)", "(other)", "a"]


def test_a_new_level_without_others_counts_as_the_most_frequent() -> None:
    encoder = TableEncoder().fit(pl.DataFrame({"two": ["a", "a", "b"], "three": ["u", "v", "v"], "k": [1, 1, 1]}))
    matrix, unseen = encoder.encode(pl.DataFrame({"two": ["z", "b"], "three": ["v", "w"], "k": [1, 2]}))
    assert matrix.tolist() == [[0.0, 0.0], [1.0, 0.0]]
    assert unseen == {"two": 1, "three": 1, "k": 1}


def test_gaps_at_scoring_are_filled_and_counted() -> None:
    encoder = TableEncoder().fit(pl.DataFrame({"a": [1.0, 2.0, 9.0], "b": [True, True, False]}))
    assert encoder.names_ == ["a", "b"]
    matrix, unseen = encoder.encode(
        pl.DataFrame({"a": [None, 5.0], "b": [None, None]}, schema_overrides={"b": pl.Boolean})
    )
    assert matrix.tolist() == [[2.0, 1.0], [5.0, 1.0]]
    assert unseen == {"a": 1, "b": 2}


def test_one_value_and_gaps_leave_the_gaps() -> None:
    frame = pl.DataFrame({"a": [5, None, 5], "b": ["x", "x", None], "c": [None, None, None], "d": [1, 2, 3]})
    encoder = TableEncoder().fit(frame)
    assert encoder.names_ == ["a is missing", "b is missing", "d"]
    assert [column.kind for column in encoder.columns_] == ["constant", "constant", "constant", "integer"]
    back = encoder.inverse_transform(encoder.transform(frame))
    assert back.rows() == frame.rows()


def test_decoding_takes_the_nearest() -> None:
    encoder = TableEncoder().fit(pl.DataFrame({"k": [1, 2, None], "w": ["a", "b", "c"], "s": ["f", "m", "f"]}))
    X = [[1.6, 0.4, 0.9, 0.6, 0.51], [-7.4, 0.6, 0.6, 0.7, 0.49], [1.0, 0.0, -0.3, 0.4, 0.0]]
    back = encoder.inverse_transform(X)
    assert back.rows() == [(2, "b", "m"), (None, "c", "f"), (1, "a", "f")]
    assert encoder.nearest(X).tolist() == [[2, 0, 1, 0, 1], [1, 1, 0, 1, 0], [1, 0, 0, 0, 0]]  # the gap is filled
    with pytest.raises(ValueError, match="5 columns"):
        encoder.inverse_transform([[1.0]])


def test_noise_within_the_cells_is_undone() -> None:
    frame = pl.DataFrame({"w": [*"aaabbbcccddd", None, None] * 5})
    X = TableEncoder().fit_transform(frame)
    noisy = Lattice.learn(X).jitter(X, np.random.default_rng(0))
    assert TableEncoder().fit(frame).inverse_transform(noisy)["w"].to_list() == frame["w"].to_list()


def test_a_design_of_categories_has_full_rank() -> None:
    frame = pl.DataFrame({"a": ["u", "v", "w", None] * 6, "b": [*"xxxyyz"] * 4, "c": ["l", "m", "m"] * 8})
    X = TableEncoder().fit_transform(frame)
    assert np.linalg.matrix_rank(np.column_stack([np.ones(len(X)), X])) == 1 + X.shape[1]


def test_names_of_the_matrix_are_distinct() -> None:
    frame = pl.DataFrame(
        {
            "inc": [1.5, None, 2.5, 2.5],
            "inc is missing": [3, 1, 2, 2],
            "job": ["a", "a", "b", "c"],
            "job = b": [1.0, 0.5, 0.7, 0.7],
            "job = b (2)": [1.0, 0.5, 0.7, None],
        }
    )
    assert TableEncoder().fit(frame).names_ == [
        *["inc", "inc is missing (2)", "inc is missing", "job = b (3)", "job = c", "job = b", "job = b (2)"],
        "job = b (2) is missing",
    ]


def test_a_few_words_in_a_column_of_numbers_are_a_warning() -> None:
    ages = [str(20 + k % 7) for k in range(58)]
    with pytest.warns(
        UserWarning, match=r"'age' is taken for categories, as 2 of its 60 .* no numbers .* such as 'old'"
    ):
        TableEncoder().fit(pl.DataFrame({"age": [*ages, "old", "young"]}))
    days = [f"2024-01-{1 + k % 28:02}" for k in range(59)]
    with pytest.warns(
        UserWarning, match=r"'day' is taken for categories, as 1 of its 60 .* no dates .* such as 'soon'"
    ):
        TableEncoder().fit(pl.DataFrame({"day": [*days, "soon"]}))
    TableEncoder().fit(pl.DataFrame({"code": [*"1234abcd"] * 5}))  # half of them: categories, without a word


def test_values_far_outside_the_range_are_counted() -> None:
    encoder = TableEncoder().fit(pl.DataFrame({"a": [1.0, 2.0, 3.0], "k": [0, 5, 10], "d": ["2024-01-01"] * 2 + [""]}))
    scored = pl.DataFrame({"a": [23.0, 23.1, -19.1, 1e308], "k": [110, -100, 111, 0], "d": ["2024-01-01"] * 4})
    matrix, unseen = encoder.encode(scored)  # ten times the range of 2, or of 10, on either side
    assert unseen == {"a outside the range at fit": 3, "k outside the range at fit": 1}
    assert matrix[:, 0].tolist() == scored["a"].to_list()


def test_samples_that_differ_in_type_are_reconciled() -> None:
    P = pl.DataFrame(
        {"a": [1, 2], "b": [1.0, 2.5], "c": [True, False], "d": [dt.date(2024, 1, 1)] * 2, "e": [1.0, 2.0]}
    )
    Q = pl.DataFrame({"e": ["x", "2"], "d": ["2024-01-02", ""], "c": [3, 4], "b": ["7", "NA"], "a": [0.5, None]})
    encoder = TableEncoder().fit(pooled(P, Q))
    assert [column.kind for column in encoder.columns_] == ["number", "number", "integer", "date", "category"]
    assert encoder.columns_[4].levels == ("2", "1", "x")


def test_errors_name_column_value_and_row() -> None:
    encoder = TableEncoder().fit(pl.DataFrame({"age": ["1", "2"], "day": ["2024-01-01", "2024-01-02"]}))
    with pytest.raises(ValueError, match=r"'age' has 'old' in row 1 .* no number"):
        encoder.transform(pl.DataFrame({"age": ["1", "old"], "day": ["", ""]}))
    with pytest.raises(ValueError, match=r"'day' has '7.0' in row 0 .* no date"):
        encoder.transform(pl.DataFrame({"age": [1.0], "day": [7]}))
    with pytest.raises(ValueError, match=r"'age' is infinite in row 2 "):
        encoder.transform(pl.DataFrame({"age": ["1", "", "1e400"], "day": ["", "", ""]}))
    with pytest.raises(ValueError, match="'a' is infinite in row 1 "):
        TableEncoder().fit(pl.DataFrame({"a": [1.0, np.inf, 2.0]}))
    with pytest.raises(ValueError, match=r"'a' is of type List"):
        TableEncoder().fit(pl.DataFrame({"a": [[1], [2]]}))
    with pytest.raises(ValueError, match="more than one column 'a'"):
        to_frame(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(ValueError, match="more than one column 'a'"):
        to_frame(pa.table([[1], [2]], names=["a", "a"]))
    with pytest.raises(ValueError, match="`max_levels` is 0"):
        TableEncoder(max_levels=0).fit(pl.DataFrame({"a": [1, 2]}))
    for bad in ("a.csv", {"a": [1]}):
        with pytest.raises(TypeError, match="data frame"):
            TableEncoder().fit(bad)


def test_columns_that_differ_are_named() -> None:
    P, Q = pl.DataFrame({"a": [1, 2], "b": [1, 2]}), pl.DataFrame({"a": [1, 2], "c": [1, 2]})
    with pytest.raises(ValueError, match=r"'b' only in `X_p`, 'c' only in `X_q`.*`exclude`"):
        TableRatio("logistic").fit_samples(P, Q)


def test_free_text_is_a_warning() -> None:
    frame = pl.DataFrame({"id": [f"u{k}" for k in range(100)]})
    frame = pl.concat([frame, pl.DataFrame({"id": ["nothing"] * 50})])
    with pytest.warns(UserWarning, match="'id' has 101 levels in 150 rows"):
        encoder = TableEncoder(max_levels=3).fit(frame)
    assert len(encoder.names_) == 3


def test_text_of_which_most_rows_have_their_own_is_left_out() -> None:
    rng = np.random.default_rng(0)
    people = [f"u{k}" for k in range(300)] + [f"v{k % 50}" for k in range(100)] + ["w"] * 19
    frame = pl.DataFrame({"who": [*people, None], "x": rng.normal(size=420)})
    with pytest.warns(UserWarning, match=r"^Left out, as most rows have a value of their own.*: 'who'\. To use"):
        encoder = TableEncoder().fit(frame)
    assert [column.kind for column in encoder.columns_] == ["identifier", "number"]
    assert encoder.names_ == ["who is missing", "x"]
    new = pl.DataFrame({"who": ["someone", None], "x": [1.0, 2.0]})
    assert encoder.encode(new)[0].tolist() == [[0, 1], [1, 2]]
    assert encoder.unseen(new) == {}
    back = encoder.restore(encoder.inverse_transform(encoder.transform(new)))
    assert back["who"].to_list() == ["(other)", None]
    assert np.array_equal(encoder.transform(back), encoder.transform(new))
    # a level of 5 % of the rows is worth a look
    kept = pl.DataFrame({"who": [*people, *["w"] * 5]})
    with pytest.warns(UserWarning, match="'who' has 351 levels"):
        assert TableEncoder().fit(kept).columns_[0].kind == "category"
    with (
        pytest.warns(UserWarning, match="Left out"),
        pytest.raises(ValueError, match="Every column of `X` is constant or an identifier"),
    ):
        TableRatio("logistic").fit_samples(frame[["who"]][:200], frame[["who"]][200:419])


def test_numbers_that_count_the_rows_are_a_warning() -> None:
    rng = np.random.default_rng(0)
    counts = {
        "two runs": np.r_[10_000:10_040, 0:60],
        "in disorder": rng.permutation(100) + 7,
        "each sample from 0 on": np.r_[rng.permutation(50), rng.permutation(50)],
        "falling": np.arange(0, -300, -3),
    }
    for values in counts.values():
        with pytest.warns(UserWarning, match=r"'n' has a value of its own in every row: .* with `exclude`"):
            assert TableEncoder().fit(pl.DataFrame({"n": values})).columns_[0].kind == "integer"
    others = {"age": rng.integers(18, 90, 100), "income": rng.integers(0, 10**6, 100), "size": np.arange(100.0)}
    TableEncoder().fit(pl.DataFrame(others))  # warnings are errors here
    TableEncoder().fit(pl.DataFrame({"few": np.arange(49)}))


def test_numbers_are_confined_to_what_was_there() -> None:
    n = 60
    frame = pl.DataFrame(
        {
            "zip": pl.Series(["02139", "10001", "94105"] * (n // 3)),
            "hours": [20, 40, None] * (n // 3),
            "x": np.linspace(-1, 2, n),
            "job": ["a", "b"] * (n // 2),
        }
    )
    encoder = TableEncoder().fit(frame)
    assert encoder.columns_[0].values == (2139.0, 10001.0, 94105.0)
    assert encoder.columns_[2].values == ()
    X = np.array([[6000.0, 29.0, 0.2, -7.0, 0.6], [6100.0, 31.0, 0.9, 0.5, 0.1], [1e9, -3.0, 0.0, 9.0, 0.9]])
    back = encoder.restore(encoder.inverse_transform(encoder.confined(X)))
    assert back.rows() == [("02139", 20, -1.0, "b"), ("10001", None, 0.5, "a"), ("94105", 20, 2.0, "b")]
    assert np.array_equal(encoder.confined(encoder.transform(frame)), encoder.transform(frame))


def test_words_after_a_blank_keep_it() -> None:
    P = pl.DataFrame({"work": [" Private", " State", " ?"] * 5, "in": [" US"] * 15, "some": [" a", "b", "c"] * 5})
    encoder = TableEncoder().fit(pooled(P, P))
    assert encoder.columns_[0].levels == ("Private", "State")
    back = encoder.restore(encoder.inverse_transform(encoder.transform(P[:3])))
    assert back.rows() == [(" Private", " US", "a"), (" State", " US", "b"), (None, " US", "c")]


def test_reading_times_keeps_microseconds() -> None:
    moment = dt.datetime(2049, 12, 31, 23, 59, 59, 999_999)
    frame = pl.DataFrame({"t": [moment, dt.datetime(1901, 1, 1)]})
    encoder = TableEncoder().fit(frame)
    assert encoder.inverse_transform(encoder.transform(frame)).equals(frame)
    assert read(cells_of(pl.Series(["2050-01-01T01:59:59.999999+02:00"])), "date")[0] == encoder.transform(frame)[0, 0]


JOBS = {"clerk": (60, 30), "baker": (20, 30), "judge": (20, 40)}  # rows of p and of q


def samples(scale: int = 20) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return two tables whose ratio is known: the job alone tells them apart."""
    made = []
    for k in (0, 1):
        jobs = [job for job, n in JOBS.items() for _ in range(scale * n[k])]
        noise = np.random.default_rng(k).normal(size=len(jobs))
        made.append(pl.DataFrame({"job": jobs, "noise": noise}))
    return made[0], made[1]


def test_a_planted_shift_is_found() -> None:
    P, Q = samples()
    ratio = TableRatio("logistic").fit_samples(P.select("job"), Q.select("job"))
    truth = np.log([60 / 30, 20 / 30, 20 / 40])
    # one parameter a level: at the optimum the ratio is that of the counts, but for a slight ridge
    assert np.allclose(ratio.log_ratio(pl.DataFrame({"job": [*JOBS]})), truth, atol=0.02)
    weights = ratio.weights(Q)
    for job, (n, _) in JOBS.items():
        assert weights[(Q["job"] == job).to_numpy()].sum() / len(Q) == pytest.approx(n / 100, abs=0.01)


def test_labels_samples_and_frames_agree() -> None:
    P, Q = samples(2)
    X, y = pl.concat([P, Q]), np.repeat([1, 0], [len(P), len(Q)])
    log_r = TableRatio("logistic").fit_samples(P, Q).log_ratio(X)
    assert np.array_equal(TableRatio("logistic").fit(X, y).log_ratio(X), log_r)
    other = TableRatio("logistic").fit_samples(P.to_pandas(), as_text(Q.select("noise", "job")))
    assert np.array_equal(other.log_ratio(as_text(X)), log_r)
    assert other.score(X, y) == pytest.approx(TableRatio("logistic").fit(X, y).score(X, y), abs=0)
    assert np.array_equal(other.score_samples(X), log_r)


def test_an_encoder_of_more_rows_is_used_as_it_is() -> None:
    P, Q = samples(1)
    more = pooled(P, pl.concat([Q, pl.DataFrame({"job": ["pilot"], "noise": [0.0]})]))
    encoder = TableEncoder().fit(more)
    ratio = TableRatio("logistic").fit_samples(P, Q, encoder=encoder)
    assert ratio.encoder_ is encoder
    assert ratio.log_ratio(more).shape == (201,)  # no level is new: warnings are errors


def test_weights_count_rows() -> None:
    P, Q = samples(2)
    twice = pl.concat([P, P.head(50)])
    w = np.r_[np.full(50, 2.0), np.ones(len(P) - 50)]
    weighted = TableRatio("logistic").fit_samples(P, Q, sample_weight_p=w).log_ratio(Q)
    assert np.allclose(weighted, TableRatio("logistic").fit_samples(twice, Q).log_ratio(Q), atol=1e-9)
    with pytest.raises(ValueError, match="`sample_weight_q` has shape"):
        TableRatio("logistic").fit_samples(P, Q, sample_weight_q=[1.0])


def test_inverse_is_minus_log_r() -> None:
    P, Q = samples(2)
    ratio = TableRatio("logistic").fit_samples(P, Q)
    inverse = ratio.inverse()
    assert np.array_equal(inverse.log_ratio(Q), -ratio.log_ratio(Q))
    assert "r = p/q" in repr(ratio)
    assert "r = q/p" in repr(inverse)
    again: Any = clone(inverse)
    assert np.allclose(again.fit_samples(P, Q).log_ratio(Q), -ratio.log_ratio(Q), atol=1e-9)
    assert np.array_equal(inverse.inverse().log_ratio(Q), ratio.log_ratio(Q))
    assert "r = p/q" in repr(clone(inverse.inverse()))


def test_settings_and_clones() -> None:
    ratio = TableRatio(ClassifierRatio("logistic"), max_levels=5, random_state=3)
    fresh: Any = clone(ratio)
    assert fresh.get_params()["ratio__classifier"] == "logistic"
    assert fresh.get_params(deep=False)["max_levels"] == 5
    P, Q = samples(1)
    with pytest.raises(ValueError, match=r"`ratio` is 'logistics': give a ratio, or one of"):
        TableRatio("logistics").fit_samples(P, Q)
    with pytest.raises(ValueError, match="Every column of `X` is constant"):
        TableRatio("logistic").fit_samples(pl.DataFrame({"a": [1, 1]}), pl.DataFrame({"a": [1.0, 1.0]}))
    assert TableRatio().get_params(deep=False)["ratio"] is None


def test_unseen_levels_are_a_warning_that_counts() -> None:
    P, Q = samples(1)
    ratio = TableRatio("logistic").fit_samples(P, Q)
    with pytest.warns(UnseenWarning, match=r"'job' \(2 rows\), 'noise' \(1 row\)"):
        log_r = ratio.log_ratio(pl.DataFrame({"job": ["pilot", "poet", "clerk"], "noise": [0.0, None, 0.0]}))
    assert np.isfinite(log_r).all()


def test_saved_is_loaded(tmp_path: Path) -> None:
    frame = mixed(200)
    P, Q = frame.head(100), frame.tail(100)
    encoder = TableEncoder(max_levels=2).fit(german(frame))
    save(encoder, tmp_path / "encoder")
    assert load(tmp_path / "encoder").columns_ == encoder.columns_
    assert np.array_equal(load(tmp_path / "encoder").transform(german(frame)), encoder.transform(german(frame)))
    for ratio in (TableRatio("logistic", random_state=0), TableRatio(InverseRatio(ClassifierRatio("logistic")))):
        ratio.fit_samples(P, Q)
        save(ratio, tmp_path / "model")
        loaded = load(tmp_path / "model")
        assert loaded.encoder_.columns_ == ratio.encoder_.columns_
        assert all(isinstance(column, Column) for column in loaded.encoder_.columns_)
        assert np.array_equal(loaded.log_ratio(Q), ratio.log_ratio(Q))
        assert repr(loaded) == repr(ratio)


def test_diagnosis_of_tables() -> None:
    P, Q = samples(5)
    ratio = TableRatio("logistic").fit_samples(P, Q)
    held_p, held_q = samples(4)
    found = diagnose(ratio, held_p, held_q.to_pandas(), random_state=0)
    assert found.importance.names == ["job", "noise"]  # the two columns of the job are one
    assert found.importance.columns.tolist() == [0, 1]
    assert sorted(found.balance.names) == sorted(ratio.encoder_.names_)
    assert found.importance.share[0] > 0.95
    assert np.array_equal(found.log_p, ratio.log_ratio(held_p))
    assert diagnose(ratio.inverse(), held_q, held_p, random_state=0).verdict == found.verdict


def random_frame(rng: np.random.Generator, n: int) -> pl.DataFrame:
    """Draw a small table of anything that a file may hold."""
    cells: list[Any] = ["", "NA", "a", "b", "x" * 50, "1", "2.5", "-1e300", "inf", "true", "2024-01-01", "ü", " ", "0"]
    made: list[pl.Series] = []
    for j in range(int(rng.integers(1, 5))):
        kind = rng.integers(0, 5)
        if kind == 0:
            values: Any = rng.choice(rng.choice(cells, 4), n).tolist()
        elif kind == 1:
            values = np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n) * 10.0 ** rng.integers(-5, 9))
        elif kind == 2:
            values = [None if u < 0.3 else bool(u < 0.6) for u in rng.random(n)]
        elif kind == 3:
            values = [None if u < 0.1 else dt.date(2000, 1, 1) + dt.timedelta(days=int(1e4 * u)) for u in rng.random(n)]
        else:
            values = rng.integers(0, 3, n)
        made.append(pl.Series(f"c{j}", values))
    return pl.DataFrame(made)


def test_any_table_is_a_finite_matrix_or_a_value_error() -> None:
    rng = np.random.default_rng(0)
    n_encoded = 0
    for _ in range(100):
        n = int(rng.integers(1, 30))
        frame, other = random_frame(rng, n), random_frame(rng, n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            try:
                encoder = TableEncoder(max_levels=int(rng.integers(1, 4))).fit(frame)
            except ValueError:
                continue
        matrix, unseen = encoder.encode(frame)
        assert np.isfinite(matrix).all()
        assert not unseen
        assert matrix.shape == (n, len(encoder.names_))
        back = encoder.inverse_transform(matrix)
        assert np.array_equal(encoder.transform(back), matrix) or "(other)" in str(back.rows())
        try:
            assert np.isfinite(encoder.transform(other)).all()
        except ValueError:
            continue
        n_encoded += 1
    assert n_encoded > 10  # most tables can be encoded, and many by another's encoder
