"""A column of two samples in plain numbers: missing values, moments and a histogram, or shares of categories."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl

from flowratio._support.numbers import finite, rounded
from flowratio._support.types import Vector
from flowratio.applications.category_shares import category_shares, changed_categories, frequent_categories
from flowratio.tables.columns import Column

_BINS = 24
_FARTHEST = 1e300  # differences of values up to here are floats
_OUTER = 0.005  # share of the rows on either side that the outermost bars of a histogram include


def described(column: Column, p: pl.Series, q: pl.Series) -> dict[str, Any]:
    """Describe parsed cells of both samples: missing values, and numbers (dates as days since 1970) or categories."""
    missing = {"p": finite(p.null_count() / len(p)), "q": finite(q.null_count() / len(q))}
    description = {"name": column.name, "kind": column.kind, "missing": missing}
    n_rows, p, q = (len(p), len(q)), p.drop_nulls(), q.drop_nulls()
    if column.kind not in ("number", "integer", "date"):
        shares = category_shares(_categories(column, p), _categories(column, q))
        if column.kind == "category":
            description["changes"] = changed_categories(shares, len(p), len(q), n_rows)
        return {**description, "categories": frequent_categories(shares)}
    values_p, values_q = _numbers(p), _numbers(q)
    moments = {"p": _moments(values_p), "q": _moments(values_q)}
    return {**description, "numbers": moments, "histogram": _histogram(values_p, values_q)}


def _numbers(cells: pl.Series) -> Vector:
    """Return cells as floats, of shape (n,): dates as days since 1970."""
    if cells.dtype.is_temporal():
        return cells.dt.epoch("us").cast(pl.Float64).to_numpy() / 86_400e6
    return cells.cast(pl.Float64).to_numpy()


def _categories(column: Column, cells: pl.Series) -> pl.Series:
    if column.kind == "identifier":
        return pl.Series(["a value of its own"] * len(cells), dtype=pl.String)
    if column.kind == "boolean":
        cells = cells.cast(pl.Float64) > 0.5
    words = cells.cast(pl.String)
    return words.str.strip_suffix(".0") if cells.dtype.is_float() else words


def _moments(values: Vector) -> dict[str, Any] | None:
    """Return mean, standard deviation and the five quartiles, None if there are no values."""
    if not len(values):
        return None
    unit = 2.0 ** max(0, math.frexp(np.abs(values).max())[1] - 500)  # squares of larger values overflow
    values = values / unit
    quartiles = np.quantile(values, [0, 0.25, 0.5, 0.75, 1])
    # 12 digits: a second before midnight of a date, in days since 1970, is not the next day
    exact = [finite(value * unit, 12) for value in (values.mean(), *quartiles)]
    return {"mean": exact[0], "sd": finite(values.std() * unit), "quartiles": exact[1:]}


def _histogram(p: Vector, q: Vector) -> dict[str, list[Any]] | None:
    """Return the share of rows in each bar, with common edges. The outermost bars include all values beyond."""
    pooled = np.clip(np.concatenate([p, q]), -_FARTHEST, _FARTHEST)
    if not len(pooled):
        return None
    low, high = np.quantile(pooled, [_OUTER, 1 - _OUTER])
    low, high = (low, high) if high > low else (float(pooled.min()), float(pooled.max()))
    if high == low:
        low, high = low - max(1.0, abs(low)) / 2, high + max(1.0, abs(low)) / 2
    if not np.any(pooled % 1) and max(-low, high) < 2**53:  # bars of integers have integer widths
        width = math.ceil((high - low + 1) / _BINS)
        edges = math.floor(low) - 0.5 + width * np.arange(math.ceil((high - math.floor(low) + 1) / width) + 1)
    else:
        edges = np.linspace(low, high, _BINS + 1)
    counts = [np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0] / max(len(values), 1) for values in (p, q)]
    return {"edges": edges.tolist(), "p": rounded(counts[0]), "q": rounded(counts[1])}
