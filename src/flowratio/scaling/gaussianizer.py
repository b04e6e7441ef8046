"""Gaussianize each column."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from flowratio._support.chunks import chunks
from flowratio.scaling.base import Scaler
from flowratio.scaling.curves import Curve, Pair, fit_curve, straight_curve
from flowratio.scaling.standardizer import Standardizer

_MAX_ROWS = 200_000  # rows that the curves are fitted to


class Gaussianizer(Scaler):
    """Gaussianize each column: a monotone spline maps its quantiles to those of a Gaussian, and tails extrapolate.

    Constant columns and linear combinations are left out, as in `Standardizer`. `flowratio.scaling.curves` has the
    formulas.

    Parameters
    ----------
    n_knots
        Maximum number of knots of a curve, at least 2. The default is n^0.4, from 5 to 64.
    sparing
        If True, a column is only standardized if its curve gains little over a Gaussian density: less than ½ log n per
        knot in log-likelihood [1]_.

    References
    ----------
    .. [1] Schwarz (1978). *Estimating the dimension of a model.*

    Examples
    --------
    >>> x = np.exp(np.linspace(-2, 2, 101)).reshape(-1, 1)
    >>> Z = Gaussianizer().fit_transform(x)
    >>> bool(abs(np.mean(Z**3)) < 0.05 < np.mean((x - x.mean()) ** 3) / x.std() ** 3)
    True
    """

    def __init__(self, n_knots: int | None = None, *, sparing: bool = False) -> None:
        self.n_knots = n_knots
        self.sparing = sparing

    def _fit(self, X: np.ndarray, names: Sequence[str] | None) -> None:
        if self.n_knots is not None and self.n_knots < 2:
            raise ValueError(f"`n_knots` is {self.n_knots}. Use an integer of 2 or more, or None.")
        standardizer = Standardizer().fit_array(X, names)
        n = min(len(X), _MAX_ROWS)
        n_knots = self.n_knots or int(np.clip(n**0.4, 5, 64))
        rows = np.sort(np.random.default_rng(0).choice(len(X), n, replace=False)) if n < len(X) else np.arange(n)
        curves = []
        for j in standardizer.columns_:
            column = X[:, j]
            ends = [column.min(), column.max()] if n < len(X) else []
            x = np.concatenate([column[rows], ends], dtype=np.float64)
            curve, line = fit_curve(x, n_knots), straight_curve(standardizer.mean_[j], standardizer.scale_[j])
            gain = curve.log_likelihood(x) - line.log_likelihood(x) if self.sparing else np.inf
            curves.append(curve if gain > 0.5 * len(curve.x) * np.log(len(x)) else line)
        self.steps_ = [standardizer]
        self.n_features_out_ = len(curves)
        self.knots_x_, self.knots_t_, self.slopes_ = (np.concatenate([curve[k] for curve in curves]) for k in range(3))
        self.rates_ = np.stack([curve.rates for curve in curves])
        self.ends_ = np.cumsum([len(curve.x) for curve in curves])

    def _forward(self, X: np.ndarray, rng: np.random.Generator | None) -> Pair:
        return self._map(self.steps_[0].select(X), Curve.forward)

    def _inverse(self, Z: np.ndarray) -> Pair:
        X, log_det = self._map(Z, Curve.inverse)
        return self.steps_[0].rebuild(X), log_det

    def _map(self, A: np.ndarray, through: Callable[[Curve, np.ndarray], Pair]) -> Pair:
        """Map each column by its curve, in chunks of rows that stay in the cache."""
        parts = [np.split(knots, self.ends_[:-1]) for knots in (self.knots_x_, self.knots_t_, self.slopes_)]
        curves = [Curve(*parts) for parts in zip(*parts, self.rates_, strict=True)]
        B, log_det = np.empty_like(A), np.zeros(len(A))
        for part in chunks(len(A), 1):
            for j, curve in enumerate(curves):
                B[part, j], log_slope = through(curve, A[part, j])
                log_det[part] += log_slope
        return B, log_det
