r"""Columns that take few values: the cell of each value, noise within it, and the way back.

A flow is a continuous density. On a column of few values its likelihood has no bound: it grows for ever as the density
gathers in spikes. Uniform noise within the cells of the values, from midpoint to midpoint, takes that away, and the
best density :math:`\rho` is known: :math:`\rho(k)\,\Delta_k = P(k)`, where :math:`\Delta_k` is the width of the cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from typing_extensions import Self

_MOST_VALUES = 100
_ROWS_PER_VALUE = 5
_FIRST_ROWS = 1000  # enough to tell most columns that are continuous


@dataclass(frozen=True, eq=False)
class Lattice:
    """The columns of a matrix that take few values, and these values.

    Parameters
    ----------
    columns
        Positions of the columns, of shape (k,).
    values
        The values of each, at least 2, sorted.

    Examples
    --------
    >>> X = np.column_stack([np.arange(40) % 4, np.linspace(0.0, 1.0, 40)])
    >>> lattice = Lattice.learn(X)
    >>> lattice.columns.tolist(), lattice.values[0].tolist()
    ([0], [0.0, 1.0, 2.0, 3.0])
    >>> bool(np.array_equal(lattice.snap(lattice.jitter(X, np.random.default_rng(0))), X))
    True
    """

    columns: np.ndarray
    values: tuple[np.ndarray, ...]

    @classmethod
    def learn(cls, X: np.ndarray) -> Self:
        """Find the columns that take 2 to 100 values, each on 5 rows on average or more.

        Parameters
        ----------
        X
            Rows, of shape (n, d).
        """
        found: dict[int, np.ndarray] = {}
        for j in range(X.shape[1]):
            if len(np.unique(X[:_FIRST_ROWS, j])) > _MOST_VALUES:
                continue
            values = np.unique(X[:, j])
            if 2 <= len(values) <= min(_MOST_VALUES, len(X) // _ROWS_PER_VALUE):
                found[j] = values.astype(np.float64)
        return cls(np.array([*found], dtype=np.int64), tuple(found.values()))

    def ordered(self, first: np.ndarray) -> Self:
        """Return the same, with some columns (k,) before the others: their noise does not depend on these."""
        order = np.argsort(~np.isin(self.columns, first), kind="stable")
        return type(self)(self.columns[order], tuple(self.values[k] for k in order))

    def jitter(self, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return rows, (n, d), with uniform noise in these columns: a value is anywhere in its cell.

        A cell reaches from the midpoint to the value below to the midpoint to the value above; the first and the last
        cell reach as far on one side of their value as on the other.

        Parameters
        ----------
        X
            Rows, of shape (n, d). A value that is not known is moved as the nearest one is.
        rng
            Draws the noise.
        """
        X = X.copy()
        for j, values in zip(self.columns, self.values, strict=True):
            half = np.diff(values) / 2
            below, above = np.r_[half[0], half], np.r_[half, half[-1]]
            k = _nearest(X[:, j], values)
            X[:, j] += rng.random(len(X)) * (below + above)[k] - below[k]
        return X

    def snap(self, X: np.ndarray) -> np.ndarray:
        """Return rows, (n, d), in which these columns have the nearest of their values."""
        X = X.copy()
        for j, values in zip(self.columns, self.values, strict=True):
            X[:, j] = values[_nearest(X[:, j], values)]
        return X


def _nearest(x: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the position of the nearest value, (n,) to (n,)."""
    return np.searchsorted((values[1:] + values[:-1]) / 2, x)
