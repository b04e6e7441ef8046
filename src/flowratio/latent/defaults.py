"""Settings of a flow that are chosen from the number of rows and columns."""

from __future__ import annotations

import math
from collections.abc import Sequence

_STEPS = 3000  # of the optimizer, in a run of default length


def _hidden(n: int, d: int) -> tuple[int, int]:
    """Return the widths of two hidden layers: wide enough that every coordinate has units of its own."""
    width = max(32, math.ceil(1.25 * d)) if n < 1_000 else max(64, 2 ** math.ceil(math.log2(2 * d)))
    width = min(width, 1024)
    return width, width


def _batch_size(n: int) -> int:
    """Return about 150 batches an epoch, of 64 to 1024 rows."""
    return int(min(max(2 ** round(math.log2(n / 150)), 64), 1024))


def _max_epochs(n: int, batch_size: int) -> int:
    return int(min(max(math.ceil(_STEPS * batch_size / n), 3), 400))


def _learning_rate(batch_size: int, hidden: Sequence[int]) -> float:
    """Return a rate that grows with the root of the batch size, as Adam's noise allows, and falls for wide layers."""
    return 5e-3 * min(math.sqrt(batch_size / 256), 2.0) * min(1.0, math.sqrt(256 / max(hidden)))


def _weight_decay(n: int) -> float:
    """Return a decay that fades for large tables: on small ones early stopping alone overfits."""
    return min(1.0, 5_000 / n)
