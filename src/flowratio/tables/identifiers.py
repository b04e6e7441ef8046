"""Which columns of integers are identifiers: one rule for files, data frames and arrays. polars is not imported."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from flowratio._support.types import Matrix, Vector

_THING = (
    r"(?:account|case|client|customer|invoice|item|line|member|order|patient|person|product|record|row|serial|user)"
)
_NAME = re.compile(
    rf"(?:^|[^a-z])(?:id|key|uuid|guid|rowid|row)$|^id[^a-z]|^(?:nr|no|number|index)$|{_THING}[^a-z]*(?:id|nr|no|num|number|index)$",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"[a-z](?:Id|ID|Key)$")
_MIN_COUNTER = 50  # rows of a column that can count the rows
_MIN_RUN = 100  # rows of a column with any name. Fewer consecutive numbers may be weeks or years
_FEW_ROWS = 10  # of each array, that rule out most columns
_CONSECUTIVE = 0.9  # share of the numbers of a run that follow another one
_MAX_SPAN = 2.5  # range of a run over its number of rows: a part of the rows of a table is a run too


def are_identifiers(name: str, x: Vector) -> bool:
    """Return whether integers of both samples, (n,), are identifiers.

    They are different in all rows, and the name is that of an identifier, such as "order_id", or they rise or fall from
    row to row, with hardly any missing number. Other columns, such as a time in seconds or a rank, may be measured.
    """
    has_name = bool(_NAME.search(name) or _CAMEL.search(name))
    if len(x) < (_MIN_COUNTER if has_name else _MIN_RUN):
        return False
    return (has_name or (_are_ordered(x) and _span(x) <= _MAX_SPAN * len(x))) and _are_distinct(x)


def counts_rows(x: Vector) -> bool:
    """Return whether integers, (n,), can count the rows of one sample or two."""
    if len(x) < _MIN_COUNTER or _are_ordered(x):
        return len(x) >= _MIN_COUNTER
    if 2 * _span(x) < len(x) or _span(x) * _CONSECUTIVE > len(x):  # quick: many equal numbers, or many missing ones
        return False
    # nearly all of them are consecutive in any order, each of them once, or once in each sample
    values, n = np.unique(x, return_counts=True)
    return n.max() <= 2 and bool(np.mean(np.diff(values) == 1) > _CONSECUTIVE)


def _span(x: Vector) -> float:
    """Return how many integers lie in the range of x, or in the ranges of two runs that both rise or both fall."""
    steps = np.diff(x)
    breaks = np.flatnonzero(steps <= 0) if np.count_nonzero(steps > 0) >= len(steps) / 2 else np.flatnonzero(steps >= 0)
    runs = np.split(x, breaks + 1) if len(breaks) == 1 else [x]
    return sum(float(run.max()) - float(run.min()) + 1 for run in runs)


def _are_ordered(x: Vector) -> bool:
    """Return whether numbers rise or fall from row to row, but for one step, where the other sample begins."""
    steps = np.diff(x)
    return bool(min(np.count_nonzero(steps <= 0), np.count_nonzero(steps >= 0)) <= 1)


def _are_distinct(x: Vector) -> bool:
    return bool((np.diff(np.sort(x)) > 0).all())


def identifier_columns(P: Any, Q: Any | None = None) -> list[str]:
    """Return the columns of integers of data frames with the rows of both samples that are identifiers."""
    frames = [frame for frame in (P, Q) if frame is not None]
    if any(not hasattr(frame, "columns") or not hasattr(frame, "dtypes") for frame in frames):
        return []
    return [str(name) for name in P.columns if _is_identifier(name, frames)]


def _is_identifier(name: Any, frames: list[Any]) -> bool:
    if any(name not in frame.columns for frame in frames):
        return False
    columns = [frame[name] for frame in frames]
    if not all(getattr(column, "ndim", 1) == 1 and _has_integers(column.dtype) for column in columns):
        return False
    return are_identifiers(str(name), np.concatenate([np.asarray(column) for column in columns]))


def _has_integers(dtype: Any) -> bool:
    """Return whether a type of polars or pandas is one of integers."""
    return dtype.is_integer() if hasattr(dtype, "is_integer") else getattr(dtype, "kind", "") in ("i", "u")


def counting_columns(*arrays: Matrix) -> list[int]:
    """Return the columns of arrays with the rows of both samples, (n, d) each, whose integers count the rows."""
    few = np.concatenate([A[:_FEW_ROWS] for A in arrays])
    columns = np.flatnonzero(_are_whole(few) & (few[0] != few[1:]).all(axis=0))  # a quick look at all columns
    values = ((int(j), np.concatenate([A[:, j] for A in arrays])) for j in columns)
    return [
        j
        for j, x in values
        if len(x) >= _MIN_RUN and _are_whole(x) and _span(x) * _CONSECUTIVE <= len(x) and _are_distinct(x)
    ]


def untyped_numbers(A: np.ndarray) -> Matrix:
    """Return the numbers of an array, (n, d), whose type does not show whether they are integers. Others are NaN.

    The integers of an array of objects have a type of their own, and `TableEncoder` judges them.
    """
    if A.dtype.kind in "iuf":
        return np.ma.filled(np.ma.asarray(A, np.float64), np.nan) if isinstance(A, np.ma.MaskedArray) else A
    values = np.full(A.shape, np.nan)
    for j in range(A.shape[1] if A.dtype.kind == "O" else 0):
        if all(isinstance(value, float | np.floating) for value in A[:, j]):
            values[:, j] = A[:, j]
    return values


def _are_whole(A: np.ndarray) -> np.ndarray:
    """Return whether all values of each column are integers, (n, …) to (…)."""
    return (np.round(A) == A).all(axis=0)
