"""Two samples, checked once: rows of p, then rows of q, as one matrix with weights.

`RatioEstimator.fit` and every application build one `TwoSamples`. What comes after, such as a ratio in latent space or
a candidate of `AutoRatio`, receives that object, or a part of it, and checks nothing again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from flowratio._support.types import Matrix, TableLike, Vector, VectorLike
from flowratio.samples.stacking import check_samples, column_names
from flowratio.samples.weighting import (
    checked_weights,
    counts,
    distinct_rows,
    repeated,
    weighted_moments,
    without_factor,
)
from flowratio.tables.detection import is_mixed

if TYPE_CHECKING:
    import polars as pl

    from flowratio.tables.encoder import TableEncoder

FARTHEST = 1e6  # standard deviations: rows beyond it are treated as if they were there
_FARTHEST_MAPPED = 1e4  # the same limit for rows that a flow maps


@dataclass(frozen=True, eq=False)
class TwoSamples:
    """Rows of p (the numerator, y = 1), then rows of q (y = 0).

    Parameters
    ----------
    X
        Rows, of shape (n, d). Those of p come first.
    n_p
        Number of rows of p.
    w
        Positive weights that count rows, of shape (n,).
    log_odds
        log(n_p / n_q), from the weights as they were given.
    groups
        Rows with the same number must be held out together, of shape (n,). None if each row stands alone.
    names
        Names of the d columns, if there are any.
    encoder
        The encoder that made the matrix from a mixed table. None if the input was a matrix.
    """

    X: Matrix
    n_p: int
    w: Vector
    log_odds: float
    groups: Vector | None = None
    names: tuple[str, ...] | None = None
    encoder: TableEncoder | None = None

    @classmethod
    def of(
        cls,
        X: Matrix,
        is_p: Vector,
        w: Vector,
        names: Sequence[str] | None = None,
        encoder: TableEncoder | None = None,
    ) -> TwoSamples:
        """Put the rows of p first, and leave out rows of weight zero.

        Parameters
        ----------
        X, is_p, w
            Checked rows, whether each belongs to p, and its weight of 0 or more: shapes (n, d), (n,) and (n,).
        names, encoder
            As in the class.
        """
        rows = [np.flatnonzero(of & (w > 0)) for of in (is_p, ~is_p)]
        for label, positions in zip(("1 (p)", "0 (q)"), rows, strict=True):
            n = len(positions)
            if n == 0 or (n == 1 and w[positions].sum() < 2):  # a row of weight 2 counts as two rows
                raise ValueError(
                    f"The class {label} of `y` has {n} row{'s' * (n != 1)} of positive weight. Each sample must have "
                    "at least 2 rows. Give more rows of this class."
                )
        n_p = len(rows[0])
        if not ((w > 0).all() and is_p[:n_p].all()):
            order = np.concatenate(rows)
            X, w = X[order], w[order]
        log_odds = math.log(w[:n_p].sum() / w[n_p:].sum())
        w = np.concatenate([counts(w[:n_p]), counts(w[n_p:])])
        return cls(X, n_p, w, log_odds, None, None if names is None else tuple(map(str, names)), encoder)

    @property
    def n_q(self) -> int:
        """Number of rows of q."""
        return len(self.X) - self.n_p

    @property
    def n_least(self) -> int:
        """Number of rows of the smaller sample. Rows of one group count once."""
        if self.groups is None:
            return min(self.n_p, self.n_q)
        return min(len(np.unique(part)) for part in (self.groups[: self.n_p], self.groups[self.n_p :]))

    @cached_property
    def y(self) -> Vector:
        """Labels: 1 on rows of p, 0 on rows of q, of shape (n,)."""
        return np.repeat([1, 0], [self.n_p, self.n_q])

    @property
    def X_p(self) -> Matrix:
        """Rows of p, of shape (n_p, d)."""
        return self.X[: self.n_p]

    @property
    def X_q(self) -> Matrix:
        """Rows of q, of shape (n_q, d)."""
        return self.X[self.n_p :]

    @property
    def w_p(self) -> Vector:
        """Weights of the rows of p, of shape (n_p,)."""
        return self.w[: self.n_p]

    @property
    def w_q(self) -> Vector:
        """Weights of the rows of q, of shape (n_q,)."""
        return self.w[self.n_p :]

    def part(self, rows: Vector) -> TwoSamples:
        """Return some of the rows, by their sorted positions or by a mask of shape (n,)."""
        positions = np.flatnonzero(rows) if rows.dtype == bool else rows
        n_p = int(np.searchsorted(positions, self.n_p))
        groups = None if self.groups is None else self.groups[positions]
        w = self.w[positions]
        log_odds = math.log(w[:n_p].sum() / w[n_p:].sum())
        w = np.concatenate([counts(w[:n_p]), counts(w[n_p:])])
        return replace(self, X=self.X[positions], n_p=n_p, w=w, groups=groups, log_odds=log_odds)

    def mapped(self, *maps: Callable[[Matrix], Matrix]) -> TwoSamples:
        """Return the rows after a map, such as x → z. Several maps give several versions of each row, as one group.

        Parameters
        ----------
        maps
            Functions from (n, d) to (n, d_z). A map with noise may come more than once.
        """
        images = [function(self.X) for function in maps]
        if len(images) == 1:
            return replace(self, X=images[0], names=None, encoder=None)
        parts = slice(None, self.n_p), slice(self.n_p, None)
        X = np.concatenate([image[part] for part in parts for image in images])
        w = np.concatenate([np.tile(self.w[part], len(images)) for part in parts])
        ids = np.arange(len(self.X)) if self.groups is None else self.groups
        groups = np.concatenate([np.tile(ids[part], len(images)) for part in parts])
        return TwoSamples(X, self.n_p * len(images), w, self.log_odds, groups)

    def first_of_groups(self) -> TwoSamples:
        """Return one row of each group: for methods that count rows or hold them out one by one."""
        if self.groups is None:
            return self
        return replace(self.part(np.sort(np.unique(self.groups, return_index=True)[1])), groups=None)

    def moments(self) -> tuple[Vector, Vector]:
        """Return mean and standard deviation of each column, of shape (d,), with both samples counting one half.

        The deviation of a constant column is `inf`: such a column says nothing about the ratio.
        """
        share = np.concatenate([w / (2 * w.sum()) for w in (self.w_p, self.w_q)])
        return weighted_moments(self.X, share)

    def standardized(self, mean: Vector, scale: Vector) -> TwoSamples:
        """Return the rows with mean 0 and deviation 1 in each column."""
        return replace(self, X=standardized(self.X, mean, scale))

    def bounded(self, mean: Vector, scale: Vector) -> TwoSamples:
        """Return the rows in their own units, none farther out than a flow can map."""
        return replace(self, X=bounded(self.X, mean, scale))

    def reordered(self, by: Matrix | None = None, *, repeat: bool) -> TwoSamples:
        """Merge equal rows and put the rows in an order of their own, so that the order of the input does not matter.

        Rows in groups stay as they are.

        Parameters
        ----------
        by
            The rows in standard units, of shape (n, d), if `X` has others. They decide the order.
        repeat
            Whether a row comes as often as its integer weight: for methods that draw, split or count rows.
        """
        if self.groups is not None:
            return self
        samples = []
        for part in (slice(None, self.n_p), slice(self.n_p, None)):
            X, w = without_factor(*distinct_rows(self.X[part], self.w[part], None if by is None else by[part]))
            samples.append(repeated(X, w) if repeat else (X, w))
        (X_p, w_p), (X_q, w_q) = samples
        return replace(self, X=np.concatenate([X_p, X_q]), w=np.concatenate([w_p, w_q]), n_p=len(X_p))


def standardized(X: Matrix, mean: Vector, scale: Vector) -> Matrix:
    """Standardize rows, (n, d), in float64. No value is farther from 0 than any method can handle."""
    with np.errstate(over="ignore"):
        Z = (X - mean) / scale
    return np.clip(Z, -FARTHEST, FARTHEST, out=Z)


def bounded(X: Matrix, mean: Vector, scale: Vector) -> Matrix:
    """Return rows in their own units, (n, d), in float64, none farther out than a flow can map."""
    reach = _FARTHEST_MAPPED * np.where(np.isfinite(scale), scale, 0.0)  # constant columns say nothing
    return np.clip(X.astype(np.float64, copy=False), mean - reach, mean + reach)


def two_samples(
    X_p: TableLike,
    X_q: TableLike,
    sample_weight_p: VectorLike | None = None,
    sample_weight_q: VectorLike | None = None,
    *,
    encoder: TableEncoder | None = None,
    arguments: tuple[str, str] = ("X_p", "X_q"),
) -> TwoSamples:
    """Check two samples, encode mixed tables, and return one `TwoSamples`.

    Parameters
    ----------
    X_p, X_q
        Rows of p and of q, of shapes (n_p, d) and (n_q, d): arrays, or tables of pandas, polars or Arrow.
    sample_weight_p, sample_weight_q
        Weights of the rows, of shapes (n_p,) and (n_q,). All weights are 1 if None.
    encoder
        An encoder with other settings than the default ones, or a fitted one. None to encode only if it is necessary.
    arguments
        What errors call the two samples.
    """
    if encoder is not None or is_mixed(X_p) or is_mixed(X_q):
        frame, y = pooled_tables(X_p, X_q, arguments)
        encoder = fitted_encoder(frame, y, encoder)
        X, names = encoder.transform(frame), encoder.names_
    else:
        A_p, A_q = check_samples(X_p, X_q, names=arguments)
        X, y = np.concatenate([A_p, A_q]), np.repeat([1, 0], [len(A_p), len(A_q)])
        names = column_names(X_p, X.shape[1])
    n_p = int(y.sum())
    w = [
        checked_weights(weight, n, argument.replace("X", "sample_weight"))
        for weight, n, argument in zip((sample_weight_p, sample_weight_q), (n_p, len(y) - n_p), arguments, strict=True)
    ]
    return TwoSamples.of(X, y == 1, np.concatenate(w), names, encoder)


def pooled_tables(
    X_p: TableLike, X_q: TableLike, arguments: tuple[str, str] = ("X_p", "X_q")
) -> tuple[pl.DataFrame, Vector]:
    """Return the rows of two mixed tables as one frame, and their labels. Columns are matched by name."""
    from flowratio.tables.cells import check_formats, pooled, to_frame

    P, Q = to_frame(X_p, arguments[0]), to_frame(X_q, arguments[1])
    for frame, argument in zip((P, Q), arguments, strict=True):
        if frame.height < 2 or not frame.width:
            raise ValueError(f"`{argument}` has shape {frame.shape}. A sample must have at least 2 rows and 1 column.")
    frame = pooled(P, Q, arguments)
    check_formats(P, Q, arguments)
    return frame, np.repeat([1, 0], [P.height, Q.height])


def fitted_encoder(frame: pl.DataFrame, y: Vector, encoder: TableEncoder | None = None) -> TableEncoder:
    """Return an encoder of a mixed table. A table without a column that can differ is refused.

    Parameters
    ----------
    frame, y
        Rows of both samples, and their labels.
    encoder
        An encoder with other settings than the default ones. A fitted one is used unchanged.
    """
    from flowratio.tables.encoder import TableEncoder

    fitted: Any = TableEncoder() if encoder is None else encoder
    if not hasattr(fitted, "columns_"):
        unfitted: Any = clone(fitted)
        fitted = unfitted.fit(frame, y)
    if not fitted.names_:
        raise ValueError(
            "Every column is constant or an identifier, so there is no ratio. Give at least one column that varies."
        )
    return fitted
