from __future__ import annotations

import datetime as dt
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from flowratio._support.errors import ArgumentError
from flowratio.scaling.discrete import DiscreteColumns
from flowratio.storage.saving import load, save
from flowratio.tables.cells import pooled, to_frame
from flowratio.tables.encoder import TableEncoder
from flowratio.tables.formats import CellFormat, Kind, TextFormat


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
        assert fresh.columns_ == encoder.columns_
        assert np.array_equal(fresh.transform(other), matrix)
        assert np.array_equal(encoder.transform(other), matrix)  # fitted to one, applied to another


def german(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table as a spreadsheet of Germany writes it, with words for missing values."""
    swap = str.maketrans({",": ".", ".": ","})
    income = [f"{1e5 * value:,.2f}".translate(swap) for value in frame["income"].to_list()]
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
    encoder = TableEncoder(text_format=TextFormat(decimal=",")).fit(text)
    plain = TableEncoder().fit(frame)
    assert [column.kind for column in encoder.columns_] == [column.kind for column in plain.columns_]
    assert encoder.columns_[0].form == CellFormat(Kind.NUMBER, ",", thousands=True)
    assert encoder.names_ == plain.names_
    assert np.array_equal(encoder.transform(text), plain.transform(frame))
    assert np.array_equal(encoder.transform(frame), plain.transform(frame))  # types are read as they are
    parsed = encoder.parse(text)
    assert parsed["age"].null_count() == frame["age"].null_count()
    assert np.array_equal(encoder.transform(parsed), plain.transform(frame))
    back = encoder.inverse_transform(encoder.transform(text))
    assert back.equals(frame)
    assert back.schema == frame.schema


def test_the_format_at_fit_is_the_format() -> None:
    encoder = TableEncoder().fit(pl.DataFrame({"a": ["1,5", "2,25"], "d": ["31.12.2023", "1.2.2024"]}))
    assert encoder.transform(pl.DataFrame({"a": ["3,5", "4"], "d": ["2.1.1970"] * 2})).tolist() == [[3.5, 1], [4, 1]]
    with pytest.raises(
        ValueError, match=r"'a' has '1.234' in row 1 .*, which is not a number such as 1234,5\. All values"
    ):
        encoder.transform(pl.DataFrame({"a": ["1,5", "1.234"], "d": ["", ""]}))
    with pytest.raises(
        ValueError, match=r"'d' has '2023-12-31' in row 0 .*, which is not a date such as 31\.01\.2024\. All"
    ):
        encoder.transform(pl.DataFrame({"a": [1.0], "d": ["2023-12-31"]}))


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


@pytest.mark.parametrize("n", [2, 4])
def test_arrays_have_the_columns_at_fit(n: int) -> None:
    encoder = TableEncoder().fit([[1.5, 2.0, 3.0], [2.5, 3.0, 5.0]])
    with pytest.raises(ValueError, match=rf"^`X` has {n} columns, but the table that was fitted has 3\.$"):
        encoder.encode(np.ones((5, n)))
    wider = to_frame(np.ones((5, 4)))
    for table in (wider, wider.to_pandas(), wider.to_arrow(), wider.to_arrow().to_batches()[0]):
        assert encoder.transform(table).shape == (5, 3)


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
    noisy = DiscreteColumns.learn(X).jitter(X, np.random.default_rng(0))
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


def test_samples_that_differ_in_type_are_reconciled() -> None:
    P = pl.DataFrame(
        {"a": [1, 2], "b": [1.0, 2.5], "c": [True, False], "d": [dt.date(2024, 1, 1)] * 2, "e": [1.0, 2.0]}
    )
    Q = pl.DataFrame({"e": ["x", "2"], "d": ["2024-01-02", ""], "c": [3, 4], "b": ["7", "NA"], "a": [0.5, None]})
    encoder = TableEncoder().fit(pooled(P, Q))
    assert [column.kind for column in encoder.columns_] == ["number", "number", "integer", "date", "category"]
    assert encoder.columns_[4].categories == ("2", "1", "x")


def test_errors_name_column_value_and_row() -> None:
    encoder = TableEncoder().fit(pl.DataFrame({"age": ["1", "2"], "day": ["2024-01-01", "2024-01-02"]}))
    with pytest.raises(ValueError, match=r"'age' has 'old' in row 1 .* not a number"):
        encoder.transform(pl.DataFrame({"age": ["1", "old"], "day": ["", ""]}))
    with pytest.raises(ValueError, match=r"'day' has '7.0' in row 0 .* not a date"):
        encoder.transform(pl.DataFrame({"age": [1.0], "day": [7]}))
    with pytest.raises(ValueError, match=r"'age' is infinite in row 2 "):
        encoder.transform(pl.DataFrame({"age": ["1", "", "1e400"], "day": ["", "", ""]}))
    with pytest.raises(ValueError, match="'a' is infinite in row 1 "):
        TableEncoder().fit(pl.DataFrame({"a": [1.0, np.inf, 2.0]}))
    with pytest.raises(ValueError, match=r"'a' has type List"):
        TableEncoder().fit(pl.DataFrame({"a": [[1], [2]]}))
    with pytest.raises(ValueError, match="more than one column 'a'"):
        to_frame(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(ValueError, match="more than one column 'a'"):
        to_frame(pa.table([[1], [2]], names=["a", "a"]))
    with pytest.raises(ValueError, match="`max_categories` is 0"):
        TableEncoder(max_categories=0).fit(pl.DataFrame({"a": [1, 2]}))
    for bad in ("a.csv", {"a": [1]}):
        with pytest.raises(TypeError, match="data frame"):
            TableEncoder().fit(bad)


def test_saved_is_loaded(tmp_path: Path) -> None:
    frame = mixed(200)
    encoder = TableEncoder(2, TextFormat(decimal=",", date_format="%d.%m.%Y")).fit(german(frame))
    save(encoder, tmp_path / "encoder")
    loaded = load(tmp_path / "encoder")
    assert loaded.columns_ == encoder.columns_
    assert loaded.text_format == encoder.text_format
    assert all(isinstance(column.kind, Kind) and isinstance(column.form.kind, Kind) for column in loaded.columns_)
    assert np.array_equal(loaded.transform(german(frame)), encoder.transform(german(frame)))
    assert loaded.inverse_transform(loaded.transform(frame)).equals(encoder.inverse_transform(encoder.transform(frame)))


def random_frame(rng: np.random.Generator, n: int) -> pl.DataFrame:
    """Draw a small table of anything that a file may hold."""
    cells: list[Any] = ["", "NA", "a", "b", "x" * 50, "1", "2.5", "-1e300", "inf", "true", "2024-01-01", "ü", " ", "0"]
    columns: list[pl.Series] = []
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
        columns.append(pl.Series(f"c{j}", values))
    return pl.DataFrame(columns)


def test_any_table_is_a_finite_matrix_or_a_value_error() -> None:
    rng = np.random.default_rng(0)
    n_encoded = 0
    for _ in range(100):
        n = int(rng.integers(1, 30))
        frame, other = random_frame(rng, n), random_frame(rng, n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            try:
                encoder = TableEncoder(max_categories=int(rng.integers(1, 4))).fit(frame)
            except ValueError:
                continue
        matrix, unseen = encoder.encode(frame)
        assert np.isfinite(matrix).all()
        assert not unseen
        assert matrix.shape == (n, len(encoder.names_))
        back = encoder.inverse_transform(matrix)
        assert np.array_equal(encoder.encode(back)[0], matrix) or "(other)" in str(back.rows())
        try:
            assert np.isfinite(encoder.transform(other)).all()
        except ValueError:
            continue
        n_encoded += 1
    assert n_encoded > 10  # most tables can be encoded, and many by another's encoder


def test_labels_keep_categories_of_the_smaller_sample() -> None:
    words, y = ["a"] * 60 + ["b"] * 50 + ["c"] * 6 + ["d"] * 5, [0] * 110 + [1] * 11
    frame = pl.DataFrame({"w": words})
    assert TableEncoder(2).fit(frame).names_ == ["w = b", "w = (other)", "w (category)"]
    for labels in (y, np.array(y, bool), pl.Series(y)):
        assert TableEncoder(2).fit(frame, labels).names_ == ["w = c", "w = (other)", "w (category)"]
    for labels in (np.zeros(121), np.arange(121)):  # not two samples
        assert TableEncoder(2).fit(frame, labels).names_ == ["w = b", "w = (other)", "w (category)"]
    with pytest.raises(ArgumentError, match=r"`y` has shape \(3,\) for 121 rows"):
        TableEncoder().fit(frame, [0, 1, 1])


def test_settings_of_text_reach_the_columns() -> None:
    frame = pl.DataFrame({"pay": ["1,234", "987", "5,000"], "day": ["01/02/2024", "03/04/2024", "05/06/2024"]})
    with pytest.raises(ArgumentError, match=r"'pay' has numbers such as '1,234'.* Set `decimal`"):
        TableEncoder().fit(frame)
    with pytest.raises(ArgumentError, match=r"'day' has dates such as '01/02/2024'.* Set `date_format`"):
        TableEncoder(text_format=TextFormat(decimal=".")).fit(frame)
    encoder = TableEncoder(text_format=TextFormat(".", "%m/%d/%Y")).fit(frame)
    back = encoder.inverse_transform(encoder.transform(frame))
    days = [dt.date(2024, 1, 2), dt.date(2024, 3, 4), dt.date(2024, 5, 6)]
    assert back.to_dict(as_series=False) == {"pay": [1234, 987, 5000], "day": days}
    assert encoder.parse(frame)["day"].to_list() == [dt.datetime(day.year, day.month, day.day) for day in days]


def weighted_table(seed: int, n: int = 300) -> tuple[pl.DataFrame, np.ndarray, np.ndarray]:
    """Draw a table with a rare category in most rows, labels, and weights of 0 to 6."""
    rng = np.random.default_rng(seed)
    shops = [f"s{k}" for k in (rng.exponential(25, n)).astype(int)]
    pay = [None if u < 0.1 else float(v) for u, v in zip(rng.random(n), rng.integers(0, 15, n), strict=True)]
    codes = [f"id {k}" for k in range(n)]  # of their own, unless weights count them several times
    frame = pl.DataFrame({"shop": shops, "pay": pl.Series(pay), "code": codes})
    return frame, (rng.random(n) < 0.3).astype(int), rng.integers(0, 7, n).astype(float)


@pytest.mark.filterwarnings("ignore:Column 'code' has")
@pytest.mark.parametrize("has_labels", [True, False])
def test_integer_weights_count_rows(has_labels: bool) -> None:
    frame, y, w = weighted_table(0)
    rows = np.repeat(np.arange(len(w)), w.astype(int))
    weighted = TableEncoder(5).fit(frame, y if has_labels else None, w)
    repeated = TableEncoder(5).fit(frame[rows], y[rows] if has_labels else None)
    assert weighted.columns_ == repeated.columns_
    assert weighted.rare_shares_ == repeated.rare_shares_
    assert weighted.columns_[2].kind is Kind.CATEGORY


def test_rows_of_weight_zero_are_ignored() -> None:
    frame, y, w = weighted_table(1)
    rows = np.flatnonzero(w)
    frame = frame.drop("code").with_columns(pay=pl.when(pl.Series(w > 0)).then("pay").otherwise(1e6))
    ones = TableEncoder(5).fit(frame, y, w > 0)
    assert ones.columns_ == TableEncoder(5).fit(frame[rows], y[rows]).columns_
    for bad in (w[1:], -w, 0 * w, w + np.inf):
        with pytest.raises(ArgumentError, match=r"`sample_weight` has shape .* Use 300 finite weights of 0 or more"):
            TableEncoder().fit(frame, y, bad)


def test_the_scale_of_fractional_weights_does_not_matter() -> None:
    frame, y, w = weighted_table(2)
    w = 0.1 + w * np.random.default_rng(0).random(len(w))
    with pytest.warns(UserWarning, match="Left out 'code'"):  # rows still have their own value
        encoder = TableEncoder(5).fit(frame, y, w)
    with pytest.warns(UserWarning, match="Left out 'code'"):
        other = TableEncoder(5).fit(frame, y, 1e-3 * w)
    assert encoder.columns_[0].all_categories == other.columns_[0].all_categories
    assert encoder.rare_shares_ == pytest.approx(other.rare_shares_)
    # brute force: effective rows of each sample, and the weighted share of the rows of rare categories
    n = w * np.where(y, *(w[y == k].sum() / (w[y == k] @ w[y == k]) for k in (1, 0)))
    shops = frame["shop"].to_numpy()
    is_rare = np.array([n[shops == shop].sum() < 5 for shop in shops])
    share = sum(np.average(is_rare[y == k], weights=w[y == k]) for k in (0, 1)) / 2
    assert encoder.rare_shares_ == pytest.approx({"shop": share})
