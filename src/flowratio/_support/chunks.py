"""Rows in pieces that fit in memory."""

from __future__ import annotations

from collections.abc import Iterator

_MAX_ROWS, _MIN_ROWS = 8192, 64
_MAX_VALUES = 1 << 20


def chunks(n_rows: int, n_columns: int, max_values: int = _MAX_VALUES) -> Iterator[slice]:
    """Yield slices over rows, each with at most 8192 rows and about `max_values` values."""
    size = min(_MAX_ROWS, max(_MIN_ROWS, max_values // n_columns))
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))
