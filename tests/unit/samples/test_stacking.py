"""Two samples: labels, data frames, and each kind of bad input."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from typing import Any, cast

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from flowratio.samples.stacking import check_samples, column_names, stack
from flowratio.tables.cells import to_frame

P = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
Q = np.array([[6.0, 7.0], [8.0, 9.0]])
NAMES = ["age", "height"]


def as_pandas(X: np.ndarray, names: list[str]) -> pd.DataFrame:
    return pd.DataFrame(X, columns=pd.Index(names))


def as_polars(X: np.ndarray, names: list[str]) -> pl.DataFrame:
    return pl.DataFrame(X, schema=names, orient="row")


def test_p_comes_first_with_label_one():
    X, y = stack(P, Q)
    np.testing.assert_array_equal(X, np.vstack([P, Q]))
    np.testing.assert_array_equal(y, [1, 1, 1, 0, 0])
    assert y.dtype.kind == "i"


@pytest.mark.parametrize("convert", [np.ndarray.tolist, np.asfortranarray, lambda X: as_pandas(X, NAMES)])
def test_mixed_forms_give_an_array(convert):
    X, _ = stack(convert(P), Q)
    assert type(X) is np.ndarray
    np.testing.assert_array_equal(X, np.vstack([P, Q]))


@pytest.mark.parametrize("frame", [as_pandas, as_polars])
def test_frames_of_one_kind_give_that_kind(frame):
    X, y = stack(frame(P, NAMES), frame(Q, NAMES))
    assert type(X) is type(frame(P, NAMES))
    assert list(X.columns) == NAMES
    np.testing.assert_array_equal(X.to_numpy(), np.vstack([P, Q]))
    np.testing.assert_array_equal(y, [1, 1, 1, 0, 0])


def test_square_polars_frame_keeps_its_orientation():
    values = np.arange(16).reshape(4, 4)
    X, _ = stack(as_polars(values[:2], list("abcd")), as_polars(values[2:], list("abcd")))
    np.testing.assert_array_equal(X.to_numpy(), values)


def test_pandas_index_is_left_behind():
    X, _ = stack(as_pandas(P, NAMES).set_index(pd.Index([7, 8, 9])), as_pandas(Q, NAMES))
    assert X.index.tolist() == [0, 1, 2, 3, 4]


def test_frames_of_two_kinds_are_compared_by_name():
    X, _ = stack(as_pandas(P, NAMES), as_polars(Q, NAMES))
    assert type(X) is np.ndarray
    other, _ = stack(as_pandas(P, NAMES), as_polars(Q[:, ::-1], NAMES[::-1]))
    np.testing.assert_array_equal(other, X)
    with pytest.raises(ValueError, match="'sex' only in `X_q`"):
        stack(as_pandas(P, NAMES), as_polars(Q, ["age", "sex"]))


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.uint64, np.int64, bool, np.longdouble])
def test_number_types_become_float64(dtype):
    X, _ = stack(P.astype(dtype), Q.astype(dtype))
    assert X.dtype == np.float64
    np.testing.assert_array_equal(X, np.vstack([P, Q]).astype(dtype).astype(float))


@pytest.mark.parametrize("frame", [None, as_pandas, as_polars])
def test_float32_stays(frame):
    single_p, single_q = P.astype(np.float32), Q.astype(np.float32)
    if frame is not None:
        single_p, single_q = frame(single_p, NAMES), frame(single_q, NAMES)
    A_p, A_q = check_samples(single_p, single_q)
    assert A_p.dtype == A_q.dtype == np.float32
    assert stack(P, single_q)[0].dtype == np.float64


@pytest.mark.parametrize("library", [pd, pl])
def test_mixed_columns_of_a_frame(library):
    p = library.DataFrame({"flag": [True, False], "count": [1, 2], "x": [0.5, 1.5]})
    q = library.DataFrame({"flag": [1, 0], "count": [3.5, 4.5], "x": [7, 8]})
    X, _ = stack(p, q)
    assert X.to_numpy().tolist() == [[1, 1, 0.5], [0, 2, 1.5], [1, 3.5, 7], [0, 4.5, 8]]


def test_nullable_pandas_columns():
    good = pd.DataFrame({"a": pd.array([1, 2], dtype="Int64"), "b": pd.array([True, False], dtype="boolean")})
    assert stack(good, good)[0].to_numpy().tolist() == [[1, 1], [2, 0], [1, 1], [2, 0]]
    bad = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": pd.array([True, False], dtype="boolean")})
    np.testing.assert_array_equal(stack(good, bad)[0].to_numpy(), [[1, 1], [2, 0], [1, 1], [np.nan, 0]])


def test_number_of_columns():
    with pytest.raises(
        ValueError, match=r"^`X_p` has 2 columns but `X_q` has 3\. Both samples must have the same columns\.$"
    ):
        stack(P, np.ones((4, 3)))


@pytest.mark.parametrize("frame", [as_pandas, as_polars])
@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["age", "weight"], r"'height' only in `X_p`, 'weight' only in `X_q`"),
        (["age", "height", "sex"], r"\('sex' only in `X_q`\)"),
        (["age"], r"\('height' only in `X_p`\)"),
    ],
)
def test_columns_that_differ(frame, names, message):
    with pytest.raises(ValueError, match=message):
        stack(frame(P, NAMES), frame(np.ones((3, len(names))), names))


@pytest.mark.parametrize("frame", [as_pandas, as_polars])
def test_columns_are_matched_by_name(frame):
    X, _ = stack(frame(P, NAMES), frame(Q[:, ::-1], NAMES[::-1]))
    assert list(X.columns) == NAMES
    np.testing.assert_array_equal(X.to_numpy(), np.vstack([P, Q]))


def test_two_columns_of_one_name_are_not_matched():
    with pytest.raises(ValueError, match=r"`X_p` has more than one column 'age'"):
        stack(as_pandas(np.ones((3, 3)), ["age", "age", "sex"]), as_pandas(np.ones((3, 3)), ["sex", "age", "age"]))


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinite_values(bad):
    X = np.ones((5, 2))
    X[3, 1] = X[4, 0] = bad
    with pytest.raises(ValueError, match=r"`X_q` has 2 infinite values, the first in row 3 .*column 1"):
        stack(P, X)
    with pytest.raises(ValueError, match=r"`X_p` has 2 .* row 3 .*column 'height'"):
        stack(as_polars(X, NAMES), as_polars(P, NAMES))


def test_missing_values_stay():
    X, _ = stack(pl.DataFrame({"age": [1, None]}), pl.DataFrame({"age": [1, 2]}))
    np.testing.assert_array_equal(X["age"].to_numpy(), [1, np.nan, 1, 2])
    masked = np.ma.MaskedArray(P, mask=P == 3)
    expected = np.where(P == 3, np.nan, P)
    np.testing.assert_array_equal(stack(masked, Q)[0], np.vstack([expected, Q]))
    np.testing.assert_array_equal(stack(expected, Q)[0], np.vstack([expected, Q]))


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_rows(n):
    with pytest.raises(ValueError, match=rf"`X_q` has shape \({n}, 2\).*at least 2 rows"):
        stack(P, Q[:n])


def test_no_columns():
    with pytest.raises(ValueError, match=r"`X_p` has shape \(3, 0\)"):
        stack(P[:, :0], Q[:, :0])


VALUES, OTHERS = [0.5, 1.5, 2.5], [3.0, 4.0]
VECTORS = {
    "list": list,
    "tuple": tuple,
    "array": np.array,
    "unnamed series of pandas": pd.Series,
    "unnamed series of polars": pl.Series,
    "Arrow array": pa.array,
    "Arrow chunks": lambda values: pa.chunked_array([values]),
}


@pytest.mark.parametrize("form", VECTORS)
def test_values_of_one_column(form):
    convert = VECTORS[form]
    X, y = stack(convert(VALUES), convert(OTHERS))
    assert type(X) is np.ndarray
    np.testing.assert_array_equal(X, [[0.5], [1.5], [2.5], [3.0], [4.0]])
    np.testing.assert_array_equal(y, [1, 1, 1, 0, 0])
    np.testing.assert_array_equal(stack(convert(VALUES), [[3.0], [4.0]])[0], X)


@pytest.mark.parametrize("library", [pd, pl])
def test_series_keep_a_name(library):
    p, q = library.Series(VALUES), library.Series(OTHERS)
    p = p.rename("income") if library is pd else p.alias("income")
    X, _ = stack(p, q.rename("income 2024") if library is pd else q.alias("income 2024"))
    assert type(X) is library.DataFrame
    assert list(X.columns) == ["income"]
    assert list(stack(q, p)[1]) == [1, 1, 0, 0, 0]
    with pytest.warns(UserWarning, match="Column 'income' has numbers in `X_p`, such as '0.5', and text in `X_q`"):
        text, _ = stack(p, ["high", "low"])
    assert list(text.columns) == ["income"]


def test_one_column_needs_one_column():
    with pytest.raises(ValueError, match="`X_p` has 1 columns but `X_q` has 2"):
        stack(VALUES, Q)


def test_other_dimensions():
    with pytest.raises(ValueError, match=r"`X_p` is 3-D.*`X_p.reshape\(len\(X_p\), -1\)`"):
        stack(np.ones((4, 3, 2)), Q)


def test_ragged_lists():
    with pytest.raises(ValueError, match=r"`X_p` is not a matrix.*All rows must have the same length"):
        stack([[1.0, 2.0], [3.0]], Q)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.array([[1, 2], [2, 3]], dtype=object), r"`X_p` has dtype object although .*`.astype\(float\)`"),
        (np.array([[1j, 2], [2, 3]]), r"`X_p` has dtype complex128 in columns 0, 1\."),
        (pd.DataFrame({"x1": [1j, 2], "x2": ["a", "b"]}), r"Column 'x1' has complex numbers\."),
        (pd.DataFrame({f"c{k}": ["x", "y"] for k in range(20)}), r"'c0', .*'c7' and 12 more only in `X_p`"),
    ],
)
def test_values_that_are_not_numbers(X, message):
    with pytest.raises(ValueError, match=message):
        stack(X, Q)


MIXED = pl.DataFrame({"age": [31.0, None, 54.0], "job": ["clerk", "baker", None], "born": [date(1990, 5, 1)] * 3})
TABLES = {"polars": lambda X: X, "pandas": pl.DataFrame.to_pandas, "Arrow": pl.DataFrame.to_arrow}


@pytest.mark.parametrize("library", TABLES)
def test_mixed_tables_of_one_library_give_that_library(library):
    convert = TABLES[library]
    reordered = MIXED[:2].select("job", "born", "age")
    X, y = stack(convert(MIXED), convert(reordered))
    assert type(X) is type(convert(MIXED))
    np.testing.assert_array_equal(y, [1, 1, 1, 0, 0])
    expected = pl.concat([MIXED, MIXED[:2]])
    assert to_frame(X).with_columns(pl.col("born").cast(pl.Date)).equals(expected)


def test_mixed_tables_of_two_libraries_give_polars():
    X, _ = stack(MIXED, MIXED.to_pandas())
    assert isinstance(X, pl.DataFrame)
    assert X["job"].to_list() == ["clerk", "baker", None] * 2


def test_arrays_of_text_give_an_array():
    X, _ = stack([[1, "a"], [2, "b"]], np.array([["3", "c"], ["4", "d"]]))
    assert X.tolist() == [["1", "a"], ["2", "b"], ["3", "c"], ["4", "d"]]
    with pytest.warns(UserWarning, match="Column 'x2' has text in `X_p`, such as 'a', and numbers in `X_q`"):
        X, _ = stack(np.array([[1, "a"], [2, "b"]], dtype=object), Q)
    assert X.tolist()[:3] == [[1, "a"], [2, "b"], [6.0, 7.0]]


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.coo_array])
def test_sparse(form):
    with pytest.raises(TypeError, match=r"`X_q` is a sparse matrix.*`X_q.toarray\(\)`"):
        stack(P, form(Q))


def test_inputs_stay_as_they_are():
    original = P.copy()
    X, _ = stack(P, Q)
    X[:] = -1
    np.testing.assert_array_equal(P, original)


def test_no_data_frame_library_is_imported():
    code = (
        "import sys, flowratio.samples.stacking; flowratio.samples.stacking.stack([[1], [2]], [[3], [4]]); "
        "print({'pandas', 'polars'} & {*sys.modules})"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "set()"


def test_columns_of_an_array_are_numbered() -> None:
    assert column_names(np.zeros((5, 2)), 2) == ["x1", "x2"]


@pytest.mark.parametrize(
    ("X", "advice"),
    [
        ("new.csv", "is a path, not rows and columns. Read the file first"),
        (pl.LazyFrame({"a": [1.0]}), "is a LazyFrame, not rows and columns. Call its method collect"),
        ({"a": [1.0, 2.0]}, "is a dict, not rows and columns. Use a data frame"),
        (3.0, "is a float, not rows and columns. Use an array"),
        (None, "is a NoneType, not rows and columns. Use an array"),
    ],
)
def test_objects_that_are_not_rows(X: object, advice: str) -> None:
    with pytest.raises(TypeError, match=advice):
        stack(cast("Any", X), cast("Any", X))


def test_a_misspelled_column_has_a_suggestion() -> None:
    P, Q = (pd.DataFrame({name: [1.0, 2.0, 3.0]}) for name in ("prise", "price"))
    with pytest.raises(ValueError, match=r"Drop or rename them\. Did you mean 'price'\?"):
        stack(P, Q)
