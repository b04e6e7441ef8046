"""What a column holds, how it is encoded and decoded, and what warns of it."""

from __future__ import annotations

import datetime as dt
from contextlib import nullcontext
from decimal import Decimal

import numpy as np
import polars as pl
import pytest

from flowratio.tables.cells import pooled
from flowratio.tables.columns import Column, RowWeights, learn_column
from flowratio.tables.encoder import TableEncoder
from flowratio.tables.formats import CellFormat, Kind, days


def test_words_for_missing_values_depend_on_the_column() -> None:
    words = ["-", "--", ".", "?", "missing", "Unknown", "n/a", "#N/A"]
    frame = pl.DataFrame(
        {
            "n": [*words, "1.5", "2.5"],
            "d": [*words, "2024-01-01", "2024-01-02"],
            "b": [*words, "true", "false"],
            "c": [*words, "a", "b"],
        }
    )
    encoder = TableEncoder(max_categories=50).fit(frame)  # without a warning
    assert [column.kind for column in encoder.columns_] == ["number", "date", "boolean", "category"]
    assert all(column.has_missing for column in encoder.columns_)
    empty = frame.with_columns(pl.col("n", "d", "b").replace(dict.fromkeys(words, "")))
    assert np.array_equal(TableEncoder(max_categories=50).fit_transform(empty), encoder.transform(frame))
    assert {"-", "--", ".", "missing", "Unknown", "a", "b"} == {*encoder.columns_[3].categories}
    fresh = TableEncoder().fit(pl.DataFrame({"n": ["1", "2"], "k": ["5", "5"]}))
    matrix, unseen = fresh.encode(pl.DataFrame({"n": ["-", "2"], "k": ["5", "unknown"]}))
    assert matrix.tolist() == [[1.0], [2.0]]
    assert unseen == {"n": 1, "k": 1}


def test_dots_that_look_like_thousands_are_a_warning() -> None:
    cells = [*(f"{k}.{100 + k}" for k in range(1, 40)), "987"]
    with pytest.warns(
        UserWarning, match=r"'a' has '1.101' and integers without a dot.* decimal point\. If it is a thousands sep"
    ):
        encoder = TableEncoder().fit(pl.DataFrame({"a": cells}))
    assert encoder.transform(pl.DataFrame({"a": ["1.101"]})).tolist() == [[1.101]]


def test_one_number_in_two_ways_is_a_warning() -> None:
    with pytest.warns(
        UserWarning, match=r"'a' is encoded as categories, because '1,1' and '1,10' would be the same number"
    ):
        encoder = TableEncoder().fit(pl.DataFrame({"a": ["2,3", "1,1", "1,10", "2,3"]}))
    assert encoder.columns_[0].categories == ("2,3", "1,1", "1,10")


def test_dates_stay_in_years_that_can_be_written() -> None:
    cells = ["31.12.9999", "1.1.2024", "2.1.2024 12:30"]
    for texts in (cells, cells[:2], ["9999-12-31", "2024-01-01"], ["9999-12-31 06:00", "2024-01-01 12:30"]):
        encoder = TableEncoder().fit(pl.DataFrame({"d": texts}))
        draws = encoder.inverse_transform(np.array([[-1e12], [-8e5], [19723.0], [2932896.9], [3e6], [1e12]]))
        assert draws["d"].dt.year().to_list() == [1, 1, 2024, 9999, 9999, 9999]
        days = encoder.transform(draws)[:, 0]
        assert days[[1, 2]].tolist() == [-719162.0, 19723.0]
        assert np.all(days[3:] >= 2932896.0)


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


def test_codes_with_leading_zeros_are_integers() -> None:
    frame = pl.DataFrame({"zip": ["01234", "99501", "00501"], "n": ["10", "99", "50"], "c": ["007"] * 3})
    encoder = TableEncoder().fit(frame)
    assert encoder.transform(frame)[:, 0].tolist() == [1234.0, 99501.0, 501.0]
    assert encoder.inverse_transform(encoder.transform(frame)).rows() == [(1234, 10, 7), (99501, 99, 7), (501, 50, 7)]


def test_durations_and_times_are_seconds() -> None:
    span, time = dt.timedelta(hours=1, milliseconds=500), dt.time(0, 1, 30)
    frame = pl.DataFrame({"span": [span, None, 2 * span], "time": [time, dt.time(2), dt.time(3)]})
    expected = [[3600.5, 0, 90], [3600.5, 1, 7200], [7201, 0, 10800]]
    encoder = TableEncoder().fit(frame)
    for other in (frame, frame.with_columns(pl.col("span").cast(pl.Duration("ns"))), frame.to_pandas()):
        assert encoder.transform(other).tolist() == TableEncoder().fit_transform(other).tolist() == expected
    assert encoder.inverse_transform(np.array(expected))["span"].to_list() == [3600.5, None, 7201.0]
    for unit in ("s", "ms", "ns", "m"):
        spans = np.array([[60, 120], [180, 240]], "timedelta64[s]").astype(f"timedelta64[{unit}]")
        assert TableEncoder().fit_transform(spans).tolist() == [[60, 120], [180, 240]]


def test_every_category_is_remembered() -> None:
    frame = pl.DataFrame({"w": [f"u{k}" for k in range(1500)] * 3 + ["v"] * 50 + [None]})
    encoder = TableEncoder(max_categories=2).fit(frame)
    assert encoder.names_ == ["w = u0", "w = (other)", "w (category)", "w is missing"]
    assert encoder.codes_ == (2,)
    matrix, _ = encoder.encode(frame)
    assert encoder.inverse_transform(matrix).equals(frame)
    codes, names = encoder.category_codes(matrix)["w"]
    assert len(names) == 1501
    assert names[0] == "v"
    assert codes[-1] == -1
    assert [names[code] for code in codes[:-1]] == frame["w"].to_list()[:-1]
    assert np.array_equal(codes, matrix[:, 2])
    new = pl.DataFrame({"w": ["someone"]})
    assert encoder.unseen(new) == {"w": 1}
    assert encoder.encode(new)[0].tolist() == [[0, 1, -1, 0]]
    assert encoder.nearest(encoder.encode(new)[0]).tolist() == [[0, 1, -1, 0]]


def test_codes_are_no_numbers_so_a_pipeline_does_not_get_them() -> None:
    words = ["b", "a", "a", "c", "d", None, "a", "b"] * 2
    frame = pl.DataFrame({"w": words, "n": range(16), "v": [*words[::-1]]})
    encoder = TableEncoder(max_categories=2).fit(frame)
    assert encoder.codes_ == (2, 7)
    names = ["w = b", "w = (other)", "w is missing", "n", "v = b", "v = (other)", "v is missing"]
    assert encoder.get_feature_names_out().tolist() == names
    matrix = encoder.transform(frame)
    assert np.array_equal(matrix, np.delete(encoder.encode(frame)[0], [2, 7], axis=1))
    back = encoder.inverse_transform(matrix)
    assert back["w"].to_list() == ["b", "a", "a", "(other)", "(other)", None, "a", "b"] * 2
    assert back["v"].to_list() == back["w"].to_list()[::-1]
    assert np.array_equal(encoder.nearest(matrix), matrix)


def test_positions_of_indicators_of_missing_values() -> None:
    frame = pl.DataFrame({"a": [1, None, 2], "a is missing": ["x", "y", "x"], "b": ["u", None, "v"], "c": [3, 4, 9]})
    encoder = TableEncoder().fit(frame)
    assert encoder.names_ == ["a", "a is missing (2)", "a is missing = y", "b = v", "b is missing", "c"]
    assert [encoder.missing_position(k) for k in range(4)] == [1, None, 4, None]


def test_codes_that_are_drawn_become_categories() -> None:
    words = ["a"] * 9 + ["b"] * 8 + ["c"] * 7 + ["d"] * 6 + ["e"] * 5
    encoder = TableEncoder(max_categories=2).fit(pl.DataFrame({"w": words}))
    draws = [[0.1, 0.9, 2.6], [0.0, 1.2, 9.0], [0.9, 0.6, 4.0], [0.4, 0.3, 4.0], [0.0, 0.8, -0.9]]
    rows = encoder.confined(np.array(draws))
    assert encoder.inverse_transform(rows)["w"].to_list() == ["d", "e", "b", "e", "a"]
    assert encoder.inverse_transform(np.array(draws[-1:]))["w"].to_list() == ["(other)"]


def test_few_categories_have_codes_too() -> None:
    encoder = TableEncoder().fit(pl.DataFrame({"w": ["a", "a", "b", None], "n": [1, 2, 3, 4]}))
    assert encoder.codes_ == ()
    matrix = encoder.transform(pl.DataFrame({"w": ["b", None, "a"], "n": [1, 1, 1]}))
    assert [(text, one.codes.tolist(), one.names) for text, one in encoder.category_codes(matrix).items()] == [
        ("w", [1, -1, 0], ("a", "b"))
    ]


def test_the_share_of_rare_categories() -> None:
    # of 100 rows of p 10 have their own value, of 50 rows of q 30 have one of 10 values of 3 rows
    words = [*["a"] * 90, *(f"p{k}" for k in range(10)), *["a"] * 16, *[f"q{k % 10}" for k in range(30)], *["b"] * 4]
    y = np.repeat([1, 0], [100, 50])
    encoder = TableEncoder().fit(pl.DataFrame({"w": words, "v": ["u", "v", "w"] * 50}), y)
    assert encoder.rare_shares_ == {"w": pytest.approx((10 / 100 + 34 / 50) / 2)}
    without = TableEncoder().fit(pl.DataFrame({"w": words}))
    assert without.rare_shares_ == {"w": pytest.approx(44 / 150)}


def test_text_with_half_of_its_values_unique_is_used() -> None:
    rng = np.random.default_rng(0)
    half = [*(f"u{k}" for k in range(500)), *(f"v{k}" for k in rng.integers(0, 100, 500))]
    twice = [f"u{k % 500}" for k in range(1000)]
    y = rng.permutation(np.repeat([1, 0], 500))
    with pytest.warns(UserWarning, match=r"like free text\. .*rows have a category with fewer than 5 rows\. All"):
        encoder = TableEncoder().fit(pl.DataFrame({"who": half}), y)
    assert encoder.columns_[0].kind == "category"
    counts = dict(zip(*np.unique(half, return_counts=True), strict=True))
    assert encoder.rare_shares_["who"] == pytest.approx(np.mean([counts[name] < 5 for name in half]))
    encoder = TableEncoder().fit(pl.DataFrame({"who": twice}), np.repeat([1, 0, 1, 0], 250))  # twice in one sample
    assert encoder.rare_shares_ == {"who": 1.0}
    with pytest.warns(UserWarning, match="Left out 'who'"):  # once in each sample: an identifier
        encoder = TableEncoder().fit(pl.DataFrame({"who": twice}), np.repeat([1, 0], 500))
    assert encoder.rare_shares_ == {}


def test_types_and_decimals_of_decoded_columns() -> None:
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
    types = [pl.Int64, pl.Float64, pl.Int64, pl.Int64, pl.Float64, pl.String, pl.Datetime("us"), pl.Date]
    for table in (frame, pooled(frame, frame)):
        encoder = TableEncoder().fit(table)
        back = encoder.inverse_transform(encoder.transform(frame) + 0.004)
        assert back.dtypes == types
        assert back["single"].to_list() == [0.5, 1.25, 7.0]  # two decimals
        assert back["price"].to_list() == [0.25, None, 7.5]
        assert back["large"].to_list() == [1, 2, 2**40]
    moments = encoder.inverse_transform(encoder.transform(frame))["moment"].to_list()
    assert moments == zone.dt.convert_time_zone("UTC").dt.replace_time_zone(None).to_list()


def test_frequent_categories_have_an_indicator_and_others_share_one() -> None:
    words = ["a"] * 5 + ["b"] * 4 + ["c"] * 3 + ["d"] * 2 + ["e"]
    encoder = TableEncoder(max_categories=2).fit(pl.DataFrame({"w": words}))
    assert encoder.names_ == ["w = b", "w = (other)", "w (category)"]
    scored = pl.DataFrame({"w": ["a", "d", "e", "new", None]})
    matrix, unseen = encoder.encode(scored)
    assert matrix.tolist() == [[0, 0, 0], [0, 1, 3], [0, 1, 4], [0, 1, -1], [0, 0, -1]]
    assert unseen == encoder.unseen(scored) == {"w": 2}  # the category "new", and a missing value where there were none
    assert encoder.inverse_transform(matrix)["w"].to_list() == ["a", "d", "e", "(other)", "a"]


def test_a_new_category_without_others_counts_as_the_most_frequent() -> None:
    encoder = TableEncoder().fit(pl.DataFrame({"two": ["a", "a", "b"], "three": ["u", "v", "v"], "k": [1, 1, 1]}))
    matrix, unseen = encoder.encode(pl.DataFrame({"two": ["z", "b"], "three": ["v", "w"], "k": [1, 2]}))
    assert matrix.tolist() == [[0.0, 0.0], [1.0, 0.0]]
    assert unseen == {"two": 1, "three": 1, "k": 1}


def test_new_missing_values_are_filled_and_counted() -> None:
    encoder = TableEncoder().fit(pl.DataFrame({"a": [1.0, 2.0, 9.0], "b": [True, True, False]}))
    assert encoder.names_ == ["a", "b"]
    matrix, unseen = encoder.encode(
        pl.DataFrame({"a": [None, 5.0], "b": [None, None]}, schema_overrides={"b": pl.Boolean})
    )
    assert matrix.tolist() == [[2.0, 1.0], [5.0, 1.0]]
    assert unseen == {"a": 1, "b": 2}


def test_one_value_and_missing_values_leave_the_indicator() -> None:
    frame = pl.DataFrame({"a": [5, None, 5], "b": ["x", "x", None], "c": [None, None, None], "d": [1, 2, 3]})
    encoder = TableEncoder().fit(frame)
    assert encoder.names_ == ["a is missing", "b is missing", "d"]
    assert [column.kind for column in encoder.columns_] == ["constant", "constant", "constant", "integer"]
    back = encoder.inverse_transform(encoder.transform(frame))
    assert back.rows() == frame.rows()


def test_a_few_words_in_a_column_of_numbers_are_a_warning() -> None:
    ages = [str(20 + k % 7) for k in range(58)]
    with pytest.warns(
        UserWarning, match=r"'age' is encoded as categories, because 2 of its 60 .* not numbers.* such as 'old'"
    ):
        TableEncoder().fit(pl.DataFrame({"age": [*ages, "old", "young"]}))
    days = [f"2024-01-{1 + k % 28:02}" for k in range(59)]
    with pytest.warns(
        UserWarning, match=r"'day' is encoded as categories, because 1 of its 60 .* not dates.* such as 'soon'"
    ):
        TableEncoder().fit(pl.DataFrame({"day": [*days, "soon"]}))
    TableEncoder().fit(pl.DataFrame({"code": [*"1234abcd"] * 5}))  # half of them: categories, without a word


def test_values_far_outside_the_range_are_counted() -> None:
    encoder = TableEncoder().fit(pl.DataFrame({"a": [1.0, 2.0, 3.0], "k": [0, 5, 10], "d": ["2024-01-01"] * 2 + [""]}))
    scored = pl.DataFrame({"a": [23.0, 23.1, -19.1, 1e308], "k": [110, -100, 111, 0], "d": ["2024-01-01"] * 4})
    matrix, unseen = encoder.encode(scored)  # ten times the range of 2, or of 10, on either side
    assert unseen == {"a outside the range at fit": 3, "k outside the range at fit": 1}
    assert matrix[:, 0].tolist() == scored["a"].to_list()


def test_free_text_is_a_warning() -> None:
    frame = pl.DataFrame({"id": [f"u{k}" for k in range(100)]})
    frame = pl.concat([frame, pl.DataFrame({"id": ["nothing"] * 50})])
    with pytest.warns(UserWarning, match="'id' has 101 categories in 150 rows"):
        encoder = TableEncoder(max_categories=3).fit(frame)
    assert encoder.names_ == ["id = u0", "id = u1", "id = (other)", "id (category)"]


def test_text_of_which_most_rows_have_their_own_is_left_out() -> None:
    rng = np.random.default_rng(0)
    people = [f"u{k}" for k in range(300)] + [f"v{k % 50}" for k in range(100)] + ["w"] * 19
    frame = pl.DataFrame({"who": [*people, None], "x": rng.normal(size=420)})
    with pytest.warns(UserWarning, match=r"^Left out 'who', because most rows have their own value.* To use"):
        encoder = TableEncoder().fit(frame)
    assert [column.kind for column in encoder.columns_] == ["identifier", "number"]
    assert encoder.names_ == ["who is missing", "x"]
    new = pl.DataFrame({"who": ["someone", None], "x": [1.0, 2.0]})
    assert encoder.encode(new)[0].tolist() == [[0, 1], [1, 2]]
    assert encoder.unseen(new) == {}
    back = encoder.inverse_transform(encoder.transform(new))
    assert back["who"].to_list() == ["(other)", None]
    assert np.array_equal(encoder.transform(back), encoder.transform(new))
    # a category of 5 % of the rows is informative
    frequent = pl.DataFrame({"who": [*people, *["w"] * 5]})
    with pytest.warns(UserWarning, match="'who' has 351 categories"):
        assert TableEncoder().fit(frequent).columns_[0].kind == "category"


def test_numbers_that_count_the_rows_are_a_warning() -> None:
    rng = np.random.default_rng(0)
    counts = {
        "each sample from 0 on": np.r_[rng.permutation(50), rng.permutation(50)],
        "falling": np.arange(0, -300, -3),
        "in any order": rng.permutation(100) + 7,
    }
    for values in counts.values():
        with pytest.warns(UserWarning, match=r"'n' has a different value in every row.* drop the column\."):
            assert TableEncoder().fit(pl.DataFrame({"n": values})).columns_[0].kind == "integer"
    for values in (np.r_[10_000:10_040, 0:60], np.arange(107, 7, -1)):  # surely identifiers
        table = pl.DataFrame({"n": values, "x": np.arange(100.0) ** 2})
        with pytest.warns(UserWarning, match="Left out 'n'"):
            assert TableEncoder().fit(table).columns_[0].kind == "identifier"
    others = {"age": rng.integers(18, 90, 100), "income": rng.integers(0, 10**6, 100), "size": np.arange(100.0)}
    TableEncoder().fit(pl.DataFrame(others))  # warnings are errors here
    TableEncoder().fit(pl.DataFrame({"few": np.arange(49)}))


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("n", np.r_[100_000:100_200, 0:200], "identifier"),  # consecutive
        ("n", np.r_[0:390, 500:510], "identifier"),
        ("n", np.random.default_rng(0).permutation(np.r_[0:390, 500:510]), "integer"),  # it may be a rank
        ("order_id", np.r_[0:2000:5], "identifier"),
        ("Nr", np.r_[400:0:-1] * 7, "identifier"),
        ("seconds", 1_700_000_000 + np.cumsum(np.random.default_rng(0).integers(2, 90, 400)), "integer"),
        ("humid", np.r_[0:2000:5], "integer"),
        ("id", np.r_[0:200, 0:200], "integer"),  # equal in both samples
    ],
)
@pytest.mark.filterwarnings("ignore:Column:UserWarning")
def test_integers_that_are_surely_identifiers_are_left_out(name: str, values: np.ndarray, kind: str) -> None:
    frame, is_p = pl.DataFrame({name: values, "x": np.arange(400.0) % 7}), np.arange(400) < 200
    with nullcontext() if kind == "integer" else pytest.warns(UserWarning, match=f"Left out '{name}', because"):
        encoder = TableEncoder().fit(frame, is_p)
    assert encoder.columns_[0].kind == kind
    assert encoder.names_ == ([name, "x"] if kind == "integer" else ["x"])
    assert encoder.inverse_transform(encoder.transform(frame)).schema[name].is_integer()


def test_cents_are_no_identifiers() -> None:
    cents = np.random.default_rng(0).permutation(10**6)[:200]
    TableEncoder().fit(pl.DataFrame({"cents": cents}), np.arange(200) < 100)  # warnings are errors here


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
    back = encoder.inverse_transform(encoder.confined(X))
    assert back.rows() == [(2139, 20, -1.0, "b"), (10001, None, 0.5, "a"), (94105, 20, 2.0, "b")]
    assert np.array_equal(encoder.confined(encoder.transform(frame)), encoder.transform(frame))


def test_reading_times_keeps_microseconds() -> None:
    moment = dt.datetime(2049, 12, 31, 23, 59, 59, 999_999)
    frame = pl.DataFrame({"t": [moment, dt.datetime(1901, 1, 1)]})
    encoder = TableEncoder().fit(frame)
    assert encoder.inverse_transform(encoder.transform(frame)).equals(frame)
    assert days(pl.Series(["2050-01-01T01:59:59.999999+02:00"]))[0] == encoder.transform(frame)[0, 0]


def test_each_sample_counts_one_half() -> None:
    words = ["a"] * 60 + ["b"] * 50 + ["c"] * 6 + ["d"] * 5
    is_p = np.r_[np.zeros(110, bool), np.ones(11, bool)]  # c and d are in the small sample only
    assert learn_column(pl.Series("w", words), 2).categories == ("a", "b")
    of_p, of_q = (RowWeights.equal(len(words), of) for of in (is_p, ~is_p))
    assert learn_column(pl.Series("w", words), 2, rows=of_p).categories == ("a", "c")  # 60/110, 6/11
    assert learn_column(pl.Series("w", words), 3, rows=of_q).categories == ("a", "c", "b")
    order = np.random.default_rng(0).permutation(len(words))
    mixed = pl.Series("w", [words[k] for k in order] + [None] * 7)
    column = learn_column(mixed, 2, rows=RowWeights.equal(len(mixed), np.r_[is_p[order], np.zeros(7, bool)]))
    assert (column.categories, column.rare, column.fill) == (("c", "a"), ("d", "b"), "c")  # 6/11, 60/117


def test_names_of_the_columns_of_the_matrix() -> None:
    categories = ("clerk", "baker", "judge")
    column = Column("job", Kind.CATEGORY, CellFormat(Kind.CATEGORY), "clerk", True, categories, n_categories=3)
    assert column.parts == ["job = baker", "job = judge", "job is missing"]
    column = learn_column(pl.Series("age", ["31", "", "54", "29"]), 20)
    assert (column.kind, column.fill, column.parts) == (Kind.INTEGER, 31.0, ["age", "age is missing"])
