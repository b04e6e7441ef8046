"""Discrete columns: the cell of each value, uniform noise within it, and the way back.

Without noise the likelihood of a flow has no maximum, because the density can form ever narrower spikes. With uniform
noise within cells, from midpoint to midpoint, the best density at a value times the width of its cell is P(value).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from typing_extensions import Self

from flowratio.scaling.base import Scaler
from flowratio.scaling.chain import ScalerChain
from flowratio.scaling.images import Dequantizer, Logit
from flowratio.scaling.standardizer import Standardizer

_MAX_VALUES, _ROWS_PER_VALUE = 100, 5
_FIRST_ROWS = 1000  # enough to recognize most continuous columns


@dataclass(frozen=True, eq=False)
class DiscreteColumns:
    """The discrete columns of a matrix and their values."""

    columns: np.ndarray  # (k,): positions
    values: tuple[np.ndarray, ...]  # sorted, of each column

    @classmethod
    def learn(cls, X: np.ndarray) -> Self:
        """Find the columns of rows (n, d) with 2 to 100 values, on average 5 rows or more for each value."""
        values_of: dict[int, np.ndarray] = {}
        for j in range(X.shape[1]):
            if len(np.unique(X[:_FIRST_ROWS, j])) > _MAX_VALUES:
                continue
            values = np.unique(X[:, j])
            if 2 <= len(values) <= min(_MAX_VALUES, len(X) // _ROWS_PER_VALUE):
                values_of[j] = values.astype(np.float64)
        return cls(np.array([*values_of], dtype=np.int64), tuple(values_of.values()))

    @classmethod
    def spread(cls, X: np.ndarray, rng: np.random.Generator) -> tuple[Self | None, np.ndarray]:
        """Return the discrete columns of rows (n, d), and the rows with noise. Linear combinations stay so."""
        discrete = cls.learn(X)
        if not len(discrete.columns):
            return None, X
        plane = Standardizer().fit_array(X)
        order = np.argsort(~np.isin(discrete.columns, plane.columns_), kind="stable")  # noise of independent ones first
        discrete = cls(discrete.columns[order], tuple(discrete.values[k] for k in order))
        X = discrete.jitter(X, rng)
        return discrete, plane.rebuild(X[:, plane.columns_]) if len(plane.redundant_) else X

    def jitter(self, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return rows, (n, d), with each discrete value spread uniformly over its cell, or the cell of the nearest."""
        X = X.copy()
        for j, values in zip(self.columns, self.values, strict=True):
            half = np.diff(values) / 2
            below, above = np.r_[half[0], half], np.r_[half, half[-1]]  # the outermost cells are symmetric
            k = _nearest(X[:, j], values)
            X[:, j] += rng.random(len(X)) * (below + above)[k] - below[k]
        return X

    def snap(self, X: np.ndarray) -> np.ndarray:
        """Return rows, (n, d), with the discrete columns rounded to the nearest of their values."""
        X = X.copy()
        for j, values in zip(self.columns, self.values, strict=True):
            X[:, j] = values[_nearest(X[:, j], values)]
        return X


def takes_noise(scaler: Scaler) -> bool:
    """Return whether a scaler maps values between those of the data, and adds no noise itself."""
    steps = scaler.steps if isinstance(scaler, ScalerChain) else [scaler]
    return not any(isinstance(step, Dequantizer | Logit) for step in steps)


def _nearest(x: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the position of the nearest value, (n,) to (n,)."""
    return np.searchsorted((values[1:] + values[:-1]) / 2, x)
