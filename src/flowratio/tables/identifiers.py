"""Which columns of integers are identifiers: one rule for files, data frames and arrays. polars is not imported."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from flowratio._support.types import Matrix, Vector

_NAME = re.compile(r"(?:^|[^a-z])(?:id|key|nr|no|num|uuid|guid|index|row|rowid|number)$", re.IGNORECASE)
_CAMEL = re.compile(r"[a-z](?:Id|ID|Key|Nr|No|Num|Index|Number)$")
_MIN_COUNTER = 50  # rows of a column that can count the rows
_MIN_RUN = 100  # rows of a column without a telling name. Fewer consecutive numbers may be weeks or years
_FEW_ROWS = 10  # of each array, that rule out most columns
_CONSECUTIVE = 0.9  # share of the numbers of a run that follow another one


def are_identifiers(name: str, x: Vector) -> bool:
    """Return whether integers of both samples, (n,), are identifiers.

    They are different in all rows, and the name ends like that of an identifier, such as "order_id", or they are
    consecutive numbers in any order. Other columns, such as a time in seconds, may have been measured.
    """
    has_name = bool(_NAME.search(name) or _CAMEL.search(name))
    if len(x) < (_MIN_COUNTER if has_name else _MIN_RUN):
        return False
    values = np.unique(x)
    return len(values) == len(x) and (has_name or _are_consecutive(values))


def counts_rows(x: Vector) -> bool:
    """Return whether integers, (n,), can count the rows of one sample or two."""
    steps = np.diff(x)
    # they rise or fall from row to row, but for one step, where the other sample begins
    if len(x) < _MIN_COUNTER or min(np.count_nonzero(steps <= 0), np.count_nonzero(steps >= 0)) <= 1:
        return len(x) >= _MIN_COUNTER
    # nearly all of them are consecutive in any order, each of them once, or once in each sample
    values, n = np.unique(x, return_counts=True)
    return n.max() <= 2 and _are_consecutive(values)


def identifier_columns(P: Any, Q: Any | None = None) -> list[str]:
    """Return the columns of integers of data frames with the rows of both samples that are identifiers."""
    frames = [frame for frame in (P, Q) if frame is not None]
    if any(not hasattr(frame, "columns") or not hasattr(frame, "dtypes") for frame in frames):
        return []
    return [name for name in map(str, P.columns) if _is_identifier(name, frames)]


def _is_identifier(name: str, frames: list[Any]) -> bool:
    if any(name not in frame.columns for frame in frames):
        return False
    columns = [frame[name] for frame in frames]
    if not all(getattr(column, "ndim", 1) == 1 and _has_integers(column.dtype) for column in columns):
        return False
    return are_identifiers(name, np.concatenate([np.asarray(column) for column in columns]))


def _has_integers(dtype: Any) -> bool:
    """Return whether a type of polars or pandas is one of integers."""
    return dtype.is_integer() if hasattr(dtype, "is_integer") else getattr(dtype, "kind", "") in ("i", "u")


def counting_columns(*arrays: Matrix) -> list[int]:
    """Return the columns of arrays with the rows of both samples, (n, d) each, whose integers count the rows."""
    few = np.concatenate([A[:_FEW_ROWS] for A in arrays])
    columns = np.flatnonzero(_are_whole(few) & (few[0] != few[1:]).all(axis=0))  # a quick look at all columns
    values = ((int(j), np.concatenate([A[:, j] for A in arrays])) for j in columns)
    return [j for j, x in values if _are_whole(x) and are_identifiers("", x)]


def _are_whole(A: np.ndarray) -> np.ndarray:
    """Return whether all values of each column are integers, (n, …) to (…)."""
    return (np.round(A) == A).all(axis=0)


def _are_consecutive(values: Vector) -> bool:
    """Return whether nearly all of the sorted numbers, (n,), follow another one."""
    return bool(np.mean(np.diff(values) == 1) > _CONSECUTIVE)
