r"""Mutual information: the divergence of the rows (x, y) from rows with shuffled y.

.. math:: I(X; Y) = \mathrm{KL}\big(p(x, y) \,\|\, p(x)\, p(y)\big)

Given Z, y is shuffled among rows that are near in z, which makes rows q, whatever the deal is:

.. math:: I(X; Y \mid Z) = \mathrm{KL}(p(x, y, z) \,\|\, q(x, y, z)) - \mathrm{KL}(p(y, z) \,\|\, q(y, z))
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial import KDTree
from scipy.special import expit, ndtri
from scipy.stats import rankdata

from flowratio._support.errors import ArgumentError
from flowratio._support.types import Matrix, TableLike, Vector, VectorLike
from flowratio._support.validation import RandomState, seed_from
from flowratio.applications.crossfit import FEWEST_ROWS, check_folds, cross_fit, ratio_to_fit
from flowratio.applications.divergences import clipped_terms, kl_terms, variance_of_fits
from flowratio.applications.result import BoundEstimate, Conclusion, Limit, bounds_of, interval_text, is_wrong
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.diagnostics.verdict import Verdict
from flowratio.ratios.registry import is_additive, new_ratio
from flowratio.samples.containers import to_table
from flowratio.samples.folding import folds
from flowratio.samples.stacking import to_matrix
from flowratio.samples.two_samples import TwoSamples
from flowratio.tables.detection import is_mixed

_N_DEALS = 8  # shuffled rows for each row of the sample, on which ratios are scored
_N_NEAR = 4  # the same, where y is shuffled among rows near in z
_UNSEEN = 3.0  # n times the nats of a pair of columns that chance hides: a correlation of 2.4 standard errors
_MOST_FITTED = 20_000  # shuffled rows, if n is not larger
_MOST_DEALT = 2_000_000  # shuffled rows


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MutualInformation(BoundEstimate):
    """An estimate of mutual information in nats. It prints as two lines.

    `resolution` is what chance hides in a sample of this size, in nats. The upper end of the interval has room for it.
    """

    resolution: float

    @property
    def bits(self) -> float:
        """The information in bits."""
        return self.value / math.log(2)

    def _upper_error(self) -> float:
        return math.hypot(self.standard_error, self.resolution)

    def to_dict(self) -> dict[str, Any]:
        """Return everything, with bits and the interval of 95 %, ready for JSON. An open end is None."""
        return {**super().to_dict(), "resolution": self.resolution, "bits": self.bits}

    def __str__(self) -> str:
        value = f"{self.value:.4g} ± {self.standard_error:.2g} nats ({self.bits:.4g} bits)"
        return f"{value}, 95 %: {interval_text(self.interval())} nats\n{self.verdict}: {self.reason}"


def mutual_information(
    X: TableLike | VectorLike,
    Y: TableLike | VectorLike,
    Z: TableLike | VectorLike | None = None,
    *,
    ratio: Any = None,
    n_folds: int = 10,
    random_state: RandomState = None,
    verbose: bool = False,
) -> MutualInformation:
    r"""Estimate I(X; Y), or I(X; Y | Z), by cross-fitting, with a standard error and a verdict.

    p is the joint sample: the rows (x, y). q is the product: rows of x with the y of another row. r = p/q is fitted on
    some folds, and scored on the others. y is shuffled within folds, so that no value of a scored fold was fitted.

    Parameters
    ----------
    X, Y
        Rows of the two variables, of shapes (n, d_x) or (n,), and (n, d_y) or (n,): arrays, or tables with text, dates
        and missing values. Each indicator of a category counts as a column.
    Z
        Variables to condition on, of shape (n, d_z) or (n,). None for I(X; Y).
    ratio
        A ratio, or its name, that sees how columns depend on each other, such as `"qda"`, `"quadratic"`, `"boosting"`
        or `"mlp"`. None for what `AutoRatio()` chooses.
    n_folds, random_state, verbose
        Number of folds, seed of the folds, of the shuffles and of the ratio, and whether to show progress bars.

    Notes
    -----
    Every column is first replaced by its normal scores, so a monotone map of a column changes nothing. The estimate
    lacks what the ratio cannot express: for large n the estimate of I(X; Y) is a lower bound. I(X; Y | Z) is the
    difference of two such estimates. If rows near in z still differ, as they do for many columns of Z, the verdict is
    `DO_NOT_USE`. Fewer folds bring them nearer. n rows can confirm no more than about ln n nats: above that the verdict
    is `CARE`, and `limit` is `Limit.CEILING`.

    References
    ----------
    .. [1] Nguyen, Wainwright, Jordan (2010). *Estimating divergence functionals and the likelihood ratio.* IEEE TIT.
    .. [2] McAllester, Stratos (2020). *Formal Limitations on the Measurement of Mutual Information.* AISTATS.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> y = 0.8 * x + 0.6 * rng.normal(size=2000)  # I = -log(1 - 0.64) / 2 = 0.51 nats
    >>> information = mutual_information(x, np.exp(y), ratio="qda", random_state=0)
    >>> abs(information.raw - 0.5108) < 3 * information.standard_error, str(information.verdict)
    (True, 'reliable')
    """
    _check_ratio(ratio)
    parts = _normal_scores(X, Y, Z)
    x, y = parts[:2]
    n, seed = len(x), seed_from(random_state)
    rng = np.random.default_rng([seed, 0, 9])
    fold = folds(n, check_folds(n_folds, n), rng)
    for name, part in (("X", x), ("Y", y)):
        if not part.any():  # normal scores of a constant are 0
            nothing = _Parts(np.zeros(2), np.zeros(2), np.zeros(2), 0.0, 0.0, 0.0)
            return replace(_result(nothing, 0.0), reason=f"`{name}` is constant, so there is no information.")
    resolution, n_deals = _UNSEEN * math.sqrt(x.shape[1] * y.shape[1]) / n, int(np.clip(_MOST_DEALT // n, 1, _N_DEALS))
    if Z is None:
        deals = np.array([_deal(fold, rng) for _ in range(n_deals)])
        return _result(_information(x, y, deals, ratio, fold, seed, verbose), resolution)
    z = parts[2]
    deals = _nearest_deals(z, fold, min(n_deals, _N_NEAR), rng)
    whole = _information(np.column_stack([x, z]), y, deals, ratio, fold, seed, verbose)
    return _result(whole.minus(_information(z, y, deals, ratio, fold, seed, verbose)), resolution, _distance(z, deals))


def _check_ratio(ratio: Any) -> None:
    if is_additive(new_ratio(ratio, 0)):  # the joint distribution and the product have the same columns
        preset = getattr(ratio, "classifier", ratio)
        name = repr(preset) if isinstance(preset, str) else type(ratio).__name__
        problem = f"`ratio` is {name}, a sum over columns, which sees no dependence between them"
        raise ArgumentError("ratio", f"{problem}. Use a ratio such as 'qda', 'quadratic', 'boosting' or 'mlp'.")


@dataclass(frozen=True, eq=False)
class _Parts:
    """Parts of an estimate of a divergence from shuffled rows."""

    rows: Vector  # (n,): what rows add; their mean is the estimate
    without: Vector  # (n_folds,): the estimate without the rows of a fold
    of_fits: Vector  # (n_folds,): what a fit without the fold adds beyond the reach of the correction
    in_sample: float
    confirmed: float
    beyond: float  # share of rows with a ratio above n
    subtracted: float = 0.0  # nats of the second divergence, if this is a difference

    def minus(self, other: _Parts) -> _Parts:
        subtracted = float(other.rows.mean())
        names, beyond = ("rows", "without", "of_fits", "in_sample"), max(self.beyond, other.beyond)
        differences: dict[str, Any] = {name: getattr(self, name) - getattr(other, name) for name in names}
        return _Parts(**differences, confirmed=self.confirmed - subtracted, beyond=beyond, subtracted=subtracted)


def _information(x: Matrix, y: Matrix, deals: Matrix, ratio: Any, fold: Vector, seed: int, verbose: bool) -> _Parts:
    """Estimate the divergence of rows (x, y), (n, d_x) and (n, d_y), from the same with y shuffled, (m, n)."""
    n = len(x)
    X_q = np.concatenate([np.column_stack([x, y[deal]]) for deal in deals])
    fold_q = np.tile(fold, len(deals))
    n_fitted = n * int(np.clip(_MOST_FITTED // n, 1, len(deals)))  # all of X_q is scored
    X = np.concatenate([np.column_stack([x, y]), X_q[:n_fitted]])
    samples = TwoSamples(X, n, np.ones(len(X)), math.log(n / n_fitted))
    all_folds, more = np.concatenate([fold, fold_q[:n_fitted]]), (X_q[n_fitted:], fold_q[n_fitted:])
    scores = cross_fit(ratio_to_fit(ratio, samples, seed, verbose), samples, all_folds, seed, verbose, more)
    p, q, reach = scores.p, scores.q, math.sqrt(len(X_q))
    of_p, of_q = kl_terms(p.log_r, q.log_r, reach)
    rows = of_p + _by_row(of_q.reshape(deals.shape), deals)
    of_fits = p.each @ expit(p.log_r - math.log(reach)) / n
    without = np.array([p.mean_without(k, rows) for k in range(len(of_fits))])
    fitted_p, fitted_q = kl_terms(p.each, q.each[:, :n], reach)
    in_sample = [p.mean_without(k, part) for k, part in enumerate(fitted_p + fitted_q)]
    confirmed = sum(float(part.mean()) for part in clipped_terms(p.log_r, q.log_r, reach))
    beyond = float(np.mean(p.log_r > math.log(n)))
    return _Parts(rows, without, of_fits, float(np.mean(in_sample)), confirmed, beyond)


def _deal(fold: Vector, rng: np.random.Generator) -> Vector:
    """Return another row of the same fold for every row, of shape (n,): the rows of a fold are rotated."""
    deal = np.empty(len(fold), np.int64)
    for k in range(int(fold.max()) + 1):
        rows = rng.permutation(np.flatnonzero(fold == k))
        deal[rows] = np.roll(rows, int(rng.integers(1, len(rows))))
    return deal


def _nearest_deals(z: Matrix, fold: Vector, m: int, rng: np.random.Generator) -> Matrix:
    """Return the rows of the same fold that are nearest in z (n, d_z) to every row, of shape (m, n), or fewer."""
    z = z + 1e-6 * rng.normal(size=z.shape)  # random order of rows with the same z
    m = min(m, int(np.bincount(fold).min()) - 1)
    deals = np.empty((m, len(z)), np.int64)
    for k in range(int(fold.max()) + 1):
        rows = np.flatnonzero(fold == k)
        near = np.asarray(KDTree(z[rows]).query(z[rows], m + 1)[1])  # (rows, m + 1): the first is the row itself
        deals[:, rows] = rows[near[:, 1:]].T
    return deals


def _distance(z: Matrix, deals: Matrix) -> float:
    """Return the mean squared distance of dealt rows (m, n) in a column of z (n, d), as a share of that of any two."""
    spread = 2 * z.var(axis=0)
    return float(max(np.square(z - z[deals]).mean(axis=(0, 1))[spread > 0] / spread[spread > 0], default=0.0))


def _by_row(terms: Matrix, deals: Matrix) -> Vector:
    """Assign terms of dealt rows (m, n) to the rows that their x and their y come from: (n,), of the same mean."""
    by_y = np.zeros(terms.shape[1])
    for deal, term in zip(deals, terms, strict=True):
        by_y += np.bincount(deal, term, len(by_y)) / len(deals)
    return terms.mean(axis=0) + by_y - terms.mean()


def _result(parts: _Parts, resolution: float, distance: float = 0.0) -> MutualInformation:
    held_out, n = float(parts.rows.mean()), len(parts.rows)
    excess = parts.in_sample - held_out
    variance = float(parts.rows.var(ddof=1)) / n + excess**2 / 2 + variance_of_fits(parts.without, parts.of_fits)
    error = math.sqrt(variance)
    conclusion = _conclusion(held_out, error, parts, resolution, distance)
    bounds = bounds_of(held_out, parts.in_sample, parts.confirmed, error, conclusion)
    return MutualInformation(resolution=resolution, **bounds)


def _conclusion(held_out: float, error: float, parts: _Parts, resolution: float, distance: float) -> Conclusion:
    n, excess = len(parts.rows), parts.in_sample - held_out
    least = max(2 * resolution, THRESHOLDS.small)
    tolerance = max(THRESHOLDS.overfit * abs(held_out), least)
    reason = ""
    if is_wrong(held_out, error):
        reason = f"on held-out rows the ratio does worse than none ({held_out:.3g} nats). Use 'boosting', or another."
    elif excess > tolerance:
        reason = f"the ratio is overfitted: {parts.in_sample:.3g} nats on fitted rows, {held_out:.3g} on held-out rows."
        reason += " Use more rows, or a simpler ratio."
    elif distance > THRESHOLDS.neighbors or parts.subtracted > tolerance:
        reason = f"rows near in Z still differ by {distance:.0%} of the distance of any two, and {parts.subtracted:.2g}"
        reason += " nats were subtracted for it. The estimate includes what the ratio missed of these. Use more rows."
    elif error > max(THRESHOLDS.standard_error * abs(held_out), least):
        reason = f"the folds disagree, and the standard error is {error:.2g} nats. Use more rows."
    if reason:
        return Conclusion(Verdict.DO_NOT_USE, Limit.NONE, reason)
    if parts.beyond > THRESHOLDS.too_large:
        reason = f"{parts.beyond:.0%} of the rows have a ratio above n = {n}, which {n} rows cannot confirm. "
        return Conclusion(Verdict.CARE, Limit.CEILING, f"{reason}The value depends on the form of the ratio.")
    if abs(held_out + excess / 2) < 2 * error:
        return Conclusion(Verdict.RELIABLE, Limit.NONE, "the interval includes 0. This ratio sees no information.")
    reason = f"fitted and held-out rows agree to {abs(excess):.2g} nats, and n = {n} is large enough. The estimate"
    return Conclusion(
        Verdict.RELIABLE, Limit.NONE, f"{reason} lacks what this ratio cannot express: compare with another."
    )


def _normal_scores(X: Any, Y: Any, Z: Any) -> list[Matrix]:
    """Check the variables, encode tables, and return the normal scores of the columns, each of shape (n, d)."""
    variables = {"X": X, "Y": Y} if Z is None else {"X": X, "Y": Y, "Z": Z}
    parts = {name: _matrix(value, name) for name, value in variables.items()}
    n = len(parts["X"])
    if n < FEWEST_ROWS:
        raise ValueError(f"`X` has {n} rows. Give at least {FEWEST_ROWS}.")
    for name, part in parts.items():
        if len(part) != n:
            text = f"`{name}` has {len(part)} rows but `X` has {n}. All variables must have the same rows."
            raise ArgumentError((name, "X"), text)
        if not np.isfinite(part).all():
            raise ValueError(f"`{name}` has infinite values. Drop these rows in all variables, or replace the values.")
    return [ndtri((rankdata(part, axis=0) - 0.5) / n) for part in parts.values()]


def _matrix(value: Any, name: str) -> Matrix:
    """Return a variable, of shape (n,) or (n, d), as a matrix."""
    shape = getattr(value, "shape", None) or np.shape(value)
    if len(shape) == 0:
        raise ValueError(f"`{name}` is {value!r}. Give its rows, of shape (n,) or (n, d).")
    value = to_table(value)
    if not is_mixed(value):
        return to_matrix(value, name)
    from flowratio.tables.encoder import TableEncoder

    matrix = TableEncoder().fit_transform(value)
    return matrix if matrix.shape[1] else np.zeros((len(matrix), 1))  # every column is constant
