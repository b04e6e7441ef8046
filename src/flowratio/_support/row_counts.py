"""Weights as counts of rows: integers count, and others have an effective number of rows."""

from __future__ import annotations

import numpy as np

from flowratio._support.types import Vector


def is_whole(w: Vector) -> bool:
    """Return whether all weights are integers."""
    return bool(w.max() < 2**53 and np.array_equal(w, np.round(w)))  # every larger float is an integer


def counts(w: Vector) -> Vector:
    """Return weights that count rows. Integers do. Others are scaled to a sum of their effective sample size."""
    if is_whole(w):
        return w
    w = w / w.max()
    return w * (w.sum() / (w @ w))
