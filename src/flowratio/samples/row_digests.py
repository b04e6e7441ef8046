"""Short digests of rows, to recognize rows that a ratio was fitted to."""

from __future__ import annotations

import numpy as np

from flowratio._support.types import Matrix, Vector

_MOST_ROWS = 1000  # that are remembered
_DISTINCT = 0.9  # share of the remembered rows: rows of few categories occur in other samples too


def row_digests(X: Matrix) -> Vector:
    """Return an integer for each row, (n, d) to (n,): equal for equal rows, different for others except by chance."""
    bits = np.ascontiguousarray(X + 0.0, np.float64).view(np.uint64)  # −0 becomes 0
    factors = np.random.default_rng(0).integers(2**63, size=X.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    return ((bits ^ (bits >> np.uint64(32))) * factors).sum(axis=1, dtype=np.uint64).view(np.int64)


def remembered_digests(X: Matrix) -> Vector:
    """Return the digests of some rows, evenly spaced, (m,). None of them if many rows are equal."""
    rows = np.unique(np.linspace(0, len(X) - 1, _MOST_ROWS).astype(np.int64))
    digests = np.unique(row_digests(X[rows]))
    return digests if len(digests) > _DISTINCT * len(rows) else digests[:0]


def share_of_known_rows(digests: Vector, X: Matrix) -> float:
    """Return which share of remembered digests, (m,), occurs among rows, (n, d). 0 if many of these rows are equal."""
    others = row_digests(X)
    is_rare = len(np.unique(others)) > _DISTINCT * len(others)  # otherwise equal rows are chance
    return float(np.isin(digests, others).mean()) if len(digests) and is_rare else 0.0
