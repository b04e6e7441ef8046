"""Two samples, checked once for all later stages: rows of p, then rows of q, as one matrix with weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.base import clone

from flowratio._support.row_counts import counts
from flowratio._support.types import Matrix, TableLike, Vector, VectorLike
from flowratio.samples.containers import needs_encoding, to_tables
from flowratio.samples.pairing import check_pairs
from flowratio.samples.stacking import check_samples, column_names, has_names
from flowratio.samples.weighting import (
    MAX_REPEATED,
    checked_weights,
    coprime,
    distinct_rows,
    repeated,
    weighted_moments,
)

if TYPE_CHECKING:
    import polars as pl

    from flowratio.tables.encoder import TableEncoder

FARTHEST = 1e6  # standard deviations: rows beyond it are treated as if they were there
_FARTHEST_MAPPED = 1e4  # the same limit for rows that a flow maps


@dataclass(frozen=True, eq=False)
class TwoSamples:
    """Rows of p (the numerator, y = 1), then rows of q (y = 0)."""

    X: Matrix  # (n, d), the rows of p first
    n_p: int  # number of rows of p
    w: Vector  # positive weights that count rows, (n,)
    log_odds: float  # log(n_p / n_q), from the weights of the input
    groups: Vector | None = None  # (n,), rows with the same number are held out together. None if each row stands alone
    names: tuple[str, ...] | None = None  # of the d columns
    encoder: TableEncoder | None = None  # that made the matrix from a mixed table. None if the input was a matrix
    codes: tuple[int, ...] = ()  # positions of columns with codes of categories, which a ratio replaces by log-odds

    @classmethod
    def of(
        cls, X: Matrix, is_p: Vector, w: Vector, names: Sequence[str] | None = None, encoder: TableEncoder | None = None
    ) -> TwoSamples:
        """Put the rows of p first, by the mask `is_p` (n,), and leave out rows of weight zero."""
        rows = [np.flatnonzero(of & (w > 0)) for of in (is_p, ~is_p)]
        for name, positions in zip(("p (class 1)", "q (class 0)"), rows, strict=True):
            n = len(positions)
            if n == 0 or (n == 1 and w[positions].sum() < 2):  # a row of weight 2 counts as two rows
                problem = f"The sample {name} has {n} row{'s' * (n != 1)} of positive weight"
                raise ValueError(f"{problem}. Each sample must have at least 2 such rows.")
        n_p = len(rows[0])
        if not ((w > 0).all() and is_p[:n_p].all()):
            order = np.concatenate(rows)
            X, w = X[order], w[order]
        codes = () if encoder is None else encoder.codes_
        return cls(X, n_p, *_counted(w, n_p), None, None if names is None else tuple(map(str, names)), encoder, codes)

    @property
    def n_q(self) -> int:
        return len(self.X) - self.n_p

    @property
    def n_least(self) -> int:
        """Number of rows of the smaller sample. Rows of one group count once."""
        return min(self._sizes)

    @property
    def n_effective(self) -> float:
        """Effective number of rows, by the weights, of the sample with fewer. Rows of one group count once."""
        shares = (w.sum() ** 2 / (len(w) * np.square(w).sum()) for w in (self.w_p, self.w_q))
        return min(n * share for n, share in zip(self._sizes, shares, strict=True))

    @property
    def _sizes(self) -> tuple[int, int]:
        if self.groups is None:
            return self.n_p, self.n_q
        n_p, n_q = (len(np.unique(self.groups[part])) for part in self.parts)
        return n_p, n_q

    @property
    def parts(self) -> tuple[slice, slice]:
        return slice(None, self.n_p), slice(self.n_p, None)  # the rows of p, and those of q

    @cached_property
    def y(self) -> Vector:
        return np.repeat([1, 0], [self.n_p, self.n_q])  # (n,)

    @property
    def column_names(self) -> list[str]:
        """Names of the d columns, x1, x2 and so on if the input has none."""
        return list(self.names or [f"x{j + 1}" for j in range(self.X.shape[1])])

    @property
    def plain(self) -> Matrix:
        """The columns that are not codes of categories, (n, d - k)."""
        return np.delete(self.X, self.codes, axis=1)

    @property
    def X_p(self) -> Matrix:
        return self.X[: self.n_p]  # (n_p, d)

    @property
    def X_q(self) -> Matrix:
        return self.X[self.n_p :]  # (n_q, d)

    @property
    def w_p(self) -> Vector:
        return self.w[: self.n_p]  # (n_p,)

    @property
    def w_q(self) -> Vector:
        return self.w[self.n_p :]  # (n_q,)

    def part(self, rows: Vector) -> TwoSamples:
        """Return some of the rows, by their sorted positions or by a mask of shape (n,)."""
        positions = np.flatnonzero(rows) if rows.dtype == bool else rows
        n_p = int(np.searchsorted(positions, self.n_p))
        groups = None if self.groups is None else self.groups[positions]
        w, log_odds = _counted(self.w[positions], n_p)
        return replace(self, X=self.X[positions], n_p=n_p, w=w, groups=groups, log_odds=log_odds)

    def mapped(self, *maps: Callable[[Matrix], Matrix]) -> TwoSamples:
        """Return the rows after a map from (n, d) to (n, d_z), such as x → z.

        Several maps, such as one with noise, give several versions of each row, as one group.
        """
        images = [function(self.X) for function in maps]
        if len(images) == 1:
            return replace(self, X=images[0], names=None, encoder=None, codes=())
        X = np.concatenate([image[part] for part in self.parts for image in images])
        ids = np.arange(len(self.X)) if self.groups is None else self.groups
        w, groups = (np.concatenate([np.tile(v[part], len(images)) for part in self.parts]) for v in (self.w, ids))
        return TwoSamples(X, self.n_p * len(images), w, self.log_odds, groups)

    def first_of_groups(self) -> TwoSamples:
        """Return one row of each group: for methods that count rows or hold them out one by one."""
        if self.groups is None:
            return self
        return replace(self.part(np.sort(np.unique(self.groups, return_index=True)[1])), groups=None)

    def moments(self) -> tuple[Vector, Vector]:
        """Return mean and standard deviation (`inf` for a constant) of each column, (d,). Samples count one half."""
        share = np.concatenate([w / (2 * w.sum()) for w in (self.w_p, self.w_q)])
        return weighted_moments(self.X, share)

    def standardized(self, mean: Vector, scale: Vector) -> TwoSamples:
        return replace(self, X=standardized(self.X, mean, scale))

    def bounded(self, mean: Vector, scale: Vector) -> TwoSamples:
        return replace(self, X=bounded(self.X, mean, scale))

    def reordered(self, by: Matrix | None = None, *, repeat: bool) -> TwoSamples:
        """Merge equal rows, and order rows so that the order of the input does not matter. Groups stay unchanged.

        `by` are the rows in standard units, (n, d), if `X` has others. They decide the order. With `repeat`, a row
        comes as often as its integer weight: for methods that draw, split or count rows.
        """
        if self.groups is not None:
            return self
        samples = []
        most = max(MAX_REPEATED, len(self.X)) if self.codes else MAX_REPEATED
        for part in self.parts:
            X, w = distinct_rows(self.X[part], self.w[part], None if by is None else by[part])
            if not self.codes:  # rows of categories alone are often equal, and not copies of each other
                X, w = coprime(X, w)
            samples.append(repeated(X, w, most) if repeat else (X, w))
        (X_p, w_p), (X_q, w_q) = samples
        return replace(self, X=np.concatenate([X_p, X_q]), w=np.concatenate([w_p, w_q]), n_p=len(X_p))


def _counted(w: Vector, n_p: int) -> tuple[Vector, float]:
    """Return weights that count rows, (n,), and the log-odds of the weights."""
    w_p, w_q = w[:n_p], w[n_p:]
    return np.concatenate([counts(w_p), counts(w_q)]), math.log(w_p.sum() / w_q.sum())


def standardized(X: Matrix, mean: Vector, scale: Vector) -> Matrix:
    """Standardize rows, (n, d), in float64. No value is farther from 0 than any method can handle."""
    with np.errstate(over="ignore"):
        Z = np.subtract(X, mean, order="C")  # sums over rows then round alike for frames and arrays
        Z /= scale
    return np.clip(Z, -FARTHEST, FARTHEST, out=Z)


def bounded(X: Matrix, mean: Vector, scale: Vector) -> Matrix:
    """Return rows in their own units, (n, d), in float64, none farther out than a flow can map."""
    reach = _FARTHEST_MAPPED * np.where(np.isfinite(scale), scale, 0.0)  # constant columns carry no information
    return np.clip(X.astype(np.float64, order="C", copy=False), mean - reach, mean + reach)


def two_samples(
    X_p: TableLike,
    X_q: TableLike,
    sample_weight_p: VectorLike | None = None,
    sample_weight_q: VectorLike | None = None,
    *,
    encoder: TableEncoder | None = None,
    blind: bool = False,
    arguments: tuple[str, str] = ("X_p", "X_q"),
) -> TwoSamples:
    """Check two samples, encode mixed tables, and return one `TwoSamples`.

    X_p and X_q are arrays or tables of shapes (n_p, d) and (n_q, d), or (n_p,) and (n_q,) for one column. Their weights
    of shapes (n_p,) and (n_q,) are 1 if None. `encoder` has settings or is fitted: with None, only mixed tables are
    encoded. `blind` fits it without the labels, so that labels can be permuted. `arguments` are the names in errors.
    """
    name_p, name_q = (argument.replace("X", "sample_weight") for argument in arguments)
    check_pairs({arguments[0]: X_p, name_p: sample_weight_p})
    check_pairs({arguments[1]: X_q, name_q: sample_weight_q})
    X_p, X_q = to_tables(X_p, X_q)
    if encoder is not None or needs_encoding(X_p, X_q):
        frame, y = pooled_tables(X_p, X_q, arguments, encoder)
    else:
        A_p, A_q = check_samples(X_p, X_q, names=arguments)
        frame, y = np.concatenate([A_p, A_q]), np.repeat([1, 0], [len(A_p), len(A_q)])
    w_p = checked_weights(sample_weight_p, int(y.sum()), name_p)
    w = np.concatenate([w_p, checked_weights(sample_weight_q, len(y) - len(w_p), name_q)])
    if isinstance(frame, np.ndarray):
        names = column_names(X_p, frame.shape[1]) if has_names(X_p) else None
        return TwoSamples.of(frame, y == 1, w, names)
    frame, y, w = positive_rows(frame, y, w)
    encoder = fitted_encoder(frame, None if blind else y, encoder, w)
    return TwoSamples.of(encoder.encode(frame)[0], y == 1, w, encoder.names_, encoder)


def pooled_tables(
    X_p: TableLike,
    X_q: TableLike,
    arguments: tuple[str, str] = ("X_p", "X_q"),
    encoder: TableEncoder | None = None,
) -> tuple[pl.DataFrame, Vector]:
    """Return the rows of two mixed tables as one frame, and their labels. Columns are matched by name.

    Both must write numbers and dates in one format, that of the `encoder` if it has one. A fitted encoder knows them.
    """
    from flowratio.tables.cells import check_formats, pooled, to_frame
    from flowratio.tables.hints import warn_of_spellings
    from flowratio.tables.recognition import GUESS

    P, Q = to_frame(X_p, arguments[0]), to_frame(X_q, arguments[1])
    for frame, argument in zip((P, Q), arguments, strict=True):
        if frame.height < 2 or not frame.width:
            raise ValueError(f"`{argument}` has shape {frame.shape}. A sample must have at least 2 rows and 1 column.")
    frame = pooled(P, Q, arguments)
    if not hasattr(encoder, "columns_"):
        text_format = getattr(encoder, "text_format", None) or GUESS
        check_formats(P, Q, arguments, text_format)
        warn_of_spellings(P, Q, arguments, text_format)
    return frame, np.repeat([1, 0], [P.height, Q.height])


def positive_rows(frame: pl.DataFrame, y: Vector, w: Vector) -> tuple[pl.DataFrame, Vector, Vector]:
    """Return the rows of a table with positive weight, their labels, and their weights."""
    positive = w > 0
    if positive.all() or not positive.any():  # weights that are all 0 are refused later
        return frame, y, w
    return frame[np.flatnonzero(positive)], y[positive], w[positive]


def fitted_encoder(
    frame: pl.DataFrame, y: Vector | None, encoder: TableEncoder | None = None, w: Vector | None = None
) -> TableEncoder:
    """Return an encoder of a mixed table with labels y and weights w. A fitted `encoder` is used unchanged."""
    from flowratio.tables.encoder import TableEncoder

    table_encoder: Any = TableEncoder() if encoder is None else encoder
    if not hasattr(table_encoder, "columns_"):
        table_encoder = cast(Any, clone(table_encoder)).fit(frame, y, w)
    if not table_encoder.names_:
        raise ValueError("Every column is constant or an identifier. Use at least one other column, one that varies.")
    return table_encoder
