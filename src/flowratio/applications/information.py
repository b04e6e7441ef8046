r"""Mutual information: the divergence of rows (x, y) as they came from rows whose y was dealt out anew.

.. math:: I(X; Y) = \mathrm{KL}\big(p(x, y) \,\|\, p(x)\, p(y)\big)

Given Z, y is dealt out among rows that are near in z. In rows q of such a deal x depends on z alone, so that

.. math:: I(X; Y \mid Z) = \mathrm{KL}\big(p(x, y, z) \,\|\, q(x, y, z)\big)
                           - \mathrm{KL}\big(p(y, z) \,\|\, q(y, z)\big)

whatever the deal is. The nearer the rows, the smaller is the second divergence, and what a ratio may miss of it.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy.spatial import KDTree
from scipy.special import expit, ndtri
from scipy.stats import rankdata

from flowratio._support.errors import ArgumentError
from flowratio._support.validation import RandomState, seed_from
from flowratio.applications.crossfit import FEWEST_ROWS, Sample, check_folds, chosen_ratio, cross_fit, folds
from flowratio.applications.divergences import (
    clipped_terms,
    interval,
    is_wrong,
    kl_terms,
    mean_without,
    spoken,
    variance_of_fits,
    with_open_ends,
)
from flowratio.samples.stacking import to_matrix

Verdict = Literal["trustworthy", "near the ln n ceiling", "unstable"]
_N_DEALS = 8  # rows of the product for each row of the sample, on which ratios are judged
_N_NEAR = 4  # the same, where y is dealt out among rows near in z
_FAR = 0.05  # squared distance of such rows, as a share of that of any two
_BLIND = ("logistic", "lda", "additive")  # sums of what columns tell alone, which the joint law and the product share
_UNSEEN = 3.0  # n times the nats of a pair of columns that chance hides: a correlation of 2.4 standard errors
_LARGE_GAP = 0.25  # share of the information that fitted rows may show beyond rows not seen
_LARGE_ERROR = 0.25  # of the information
_SMALL = 0.05  # nats that are not worth a warning
_SOME = 0.05  # share of rows that are too many
_MOST_FITTED = 20_000  # rows of the product, if n is not larger
_MOST_DEALT = 2_000_000  # rows of the product


@dataclass(frozen=True, eq=False)
class MutualInformation:
    """An estimate of mutual information, and whether to trust it. It prints as two lines.

    Parameters
    ----------
    nats
        The information; never below 0.
    standard_error
        Of the estimate before it is cut off at 0, in nats.
    raw
        That estimate: the middle of the two that follow; the first of them, if they are far apart.
    held_out
        A bound from rows not seen. It may be negative where there is little information, or none.
    in_sample
        The same on the rows that were fitted: the more it is above `held_out`, the more the ratio has overfitted.
    confirmed
        The part of `held_out` that needs no trust in the form of the ratio: the bound of ratios up to √n.
    resolution
        Nats that chance hides in a sample of this size, so that no ratio finds them; no part of the standard error.
    verdict
        `"trustworthy"`; `"near the ln n ceiling"`, where rows are too few to confirm a ratio this large, and the value
        rests on the form of the ratio; or `"unstable"`, where folds disagree, fitted rows tell another story, or rows
        near in Z are too few.
    reason
        Why, in a sentence.
    """

    nats: float
    standard_error: float
    raw: float
    held_out: float
    in_sample: float
    confirmed: float
    resolution: float
    verdict: Verdict
    reason: str

    @property
    def bits(self) -> float:
        """The information in bits."""
        return self.nats / math.log(2)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return an interval in nats that covers the truth with this probability, if the estimate is normal.

        Its upper end has room for the `resolution`. Near the ceiling, or if the ratio is wrong, it reaches from what is
        confirmed to infinity.
        """
        low, _ = interval(self.raw, self.standard_error, level)
        if self.verdict == "near the ln n ceiling" or is_wrong(self.held_out, self.standard_error):
            return min(low, interval(self.confirmed, self.standard_error, level)[0]), math.inf
        return low, interval(self.raw, math.hypot(self.standard_error, self.resolution), level)[1]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, with bits and the interval of 95 %, ready for JSON: None is an end that is open."""
        return {**asdict(self), "bits": self.bits, "interval": with_open_ends(self.interval())}

    def __str__(self) -> str:
        value = f"{self.nats:.4g} ± {self.standard_error:.2g} nats ({self.bits:.4g} bits)"
        return f"{value}, 95 %: {spoken(self.interval())} nats\n{self.verdict}: {self.reason}"

    __repr__ = __str__


def mutual_information(
    X: Any,
    Y: Any,
    Z: Any = None,
    *,
    ratio: Any = None,
    n_folds: int = 10,
    random_state: RandomState = None,
    verbose: bool = False,
) -> MutualInformation:
    r"""Estimate I(X; Y), or I(X; Y | Z) if Z is given, cross-fitted, with a standard error and a verdict.

    p is the joint sample: rows (x, y) as they came. q is the product: rows of x with the y of another row. r = p/q is
    learned on some folds, and judged on the others; y is dealt out within folds, so that no row of a judged fold was
    seen in any company.

    Parameters
    ----------
    X, Y
        Rows of the two variables, of shapes (n, d_x) or (n,), and (n, d_y) or (n,).
    Z
        What is known already, of shape (n, d_z) or (n,); None for nothing.
    ratio
        Any ratio that can tell how columns go together, or its name, such as `"qda"`, `"quadratic"`, `"boosting"` or
        `"mlp"`; None for what `AutoRatio` chooses.
    n_folds
        Parts of the rows.
    random_state
        Seed of the folds, of the deals and of the ratio.
    verbose
        Whether to show progress bars.

    Notes
    -----
    Every column is first replaced by its normal scores. Information does not change by a monotone map of a column, and
    so neither does the estimate: units, logarithms and heavy tails do not matter.

    What a ratio cannot express is missing from the estimate, and no standard error tells of it: for large n, I(X; Y)
    is at most the truth. I(X; Y | Z) is the difference of two such estimates, and what the ratio misses of the second
    is added to it. That is little where rows near in z, of the same fold, differ little: the verdict is `"unstable"`
    where they do not, as they will for many columns of Z. Fewer folds bring them nearer.

    The error of a bound of the type of `divergence` is of second order in that of log r, up to
    ratios of √n; beyond them it rests on log r itself. Rows of the sample alone can confirm no more than about ln n
    nats: above that the verdict says so.

    References
    ----------
    .. [1] Nguyen, Wainwright, Jordan (2010). *Estimating divergence functionals and the likelihood ratio.* IEEE TIT.
    .. [2] McAllester, Stratos (2020). *Formal Limitations on the Measurement of Mutual Information.* AISTATS.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> y = 0.8 * x + 0.6 * rng.normal(size=2000)  # I = -log(1 - 0.64) / 2 = 0.51 nats
    >>> found = mutual_information(x, np.exp(y), ratio="qda", random_state=0)
    >>> abs(found.raw - 0.5108) < 3 * found.standard_error, found.verdict
    (True, 'trustworthy')
    """
    _check_ratio(ratio)
    parts = _scores_of(X, Y, Z)
    x, y = parts[:2]
    n, seed = len(x), seed_from(random_state)
    rng = np.random.default_rng([seed, 0, 9])
    fold = folds(n, check_folds(n_folds, n), rng)
    for name, part in (("X", x), ("Y", y)):
        if not part.any():  # normal scores of a constant are 0
            return _nothing(f"`{name}` is constant, and tells nothing.")
    resolution = _UNSEEN * math.sqrt(x.shape[1] * y.shape[1]) / n
    if Z is None:
        deals = np.array([_dealt(fold, rng) for _ in range(_n_deals(n))])
        return _summary(_information(x, y, deals, ratio, fold, seed, verbose), resolution)
    z = parts[2]
    deals = _dealt_near(z, fold, min(_n_deals(n), _N_NEAR), rng)
    whole = _information(np.column_stack([x, z]), y, deals, ratio, fold, seed, verbose)
    return _summary(whole.minus(_information(z, y, deals, ratio, fold, seed, verbose)), resolution, _distance(z, deals))


def _nothing(reason: str) -> MutualInformation:
    return MutualInformation(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, "trustworthy", reason)


def _check_ratio(ratio: Any) -> None:
    name = ratio if isinstance(ratio, str) else getattr(ratio, "classifier", None)
    if isinstance(name, str) and name in _BLIND:
        raise ArgumentError(
            "ratio",
            f"`ratio` is {name!r}, which is additive in the columns, so it cannot show dependence between them. Use a "
            "ratio with interactions, such as 'qda', 'quadratic', 'boosting' or 'mlp'.",
        )


@dataclass(frozen=True, eq=False)
class _Found:
    """Parts of an estimate of a divergence from dealt rows."""

    rows: np.ndarray  # (n,): what rows add; their mean is the estimate
    without: np.ndarray  # (n_folds,): the estimate without the rows of a fold
    of_fits: np.ndarray  # (n_folds,): what a fit without the fold adds beyond the reach of the correction
    in_sample: float
    confirmed: float
    beyond: float  # share of rows with a ratio above n
    taken_off: float = 0.0  # nats of the second divergence, if this is a difference

    def minus(self, other: _Found) -> _Found:
        taken_off = float(other.rows.mean())
        return _Found(
            self.rows - other.rows,
            self.without - other.without,
            self.of_fits - other.of_fits,
            self.in_sample - other.in_sample,
            self.confirmed - taken_off,
            max(self.beyond, other.beyond),
            taken_off,
        )


def _information(
    x: np.ndarray, y: np.ndarray, deals: np.ndarray, ratio: Any, fold: np.ndarray, seed: int, verbose: bool
) -> _Found:
    """Estimate the divergence of rows (x, y), (n, d_x) and (n, d_y), from the same with y dealt out, (m, n)."""
    n = len(x)
    p = Sample(np.column_stack([x, y]), np.ones(n), fold)
    X_q = np.concatenate([np.column_stack([x, y[deal]]) for deal in deals])
    n_fitted = n * int(np.clip(_MOST_FITTED // n, 1, len(deals)))  # all of it is judged
    q = Sample(X_q, np.repeat([1.0, 0.0], [n_fitted, len(X_q) - n_fitted]), np.tile(fold, len(deals)))
    some = Sample(X_q[:n_fitted], q.w[:n_fitted], q.fold[:n_fitted])
    found = cross_fit(chosen_ratio(ratio, p, some, seed, verbose), p, q, seed, verbose)
    reach = math.sqrt(len(X_q))
    of_p, of_q = kl_terms(found.log_p, found.log_q, reach)
    rows = of_p + _by_row(of_q.reshape(deals.shape), deals)
    left = found.each_p @ expit(found.log_p - math.log(reach)) / n
    without = np.array([mean_without(k, rows, p) for k in range(len(left))])
    fitted_p, fitted_q = kl_terms(found.each_p, found.each_q[:, :n], reach)
    in_sample = [mean_without(k, part, p) for k, part in enumerate(fitted_p + fitted_q)]
    confirmed = sum(float(part.mean()) for part in clipped_terms(found.log_p, found.log_q, reach))
    beyond = float(np.mean(found.log_p > math.log(n)))
    return _Found(rows, without, left, float(np.mean(in_sample)), confirmed, beyond)


def _n_deals(n: int) -> int:
    return int(np.clip(_MOST_DEALT // n, 1, _N_DEALS))


def _dealt(fold: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return another row of the same fold for every row, of shape (n,): all of a fold move on by some places."""
    deal = np.empty(len(fold), np.int64)
    for k in range(int(fold.max()) + 1):
        rows = rng.permutation(np.flatnonzero(fold == k))
        deal[rows] = np.roll(rows, int(rng.integers(1, len(rows))))
    return deal


def _dealt_near(z: np.ndarray, fold: np.ndarray, m: int, rng: np.random.Generator) -> np.ndarray:
    """Return the rows of the same fold that are nearest in z (n, d_z) to every row, of shape (m, n), or fewer."""
    z = z + 1e-6 * rng.normal(size=z.shape)  # chance decides among rows of the same z
    m = min(m, int(np.bincount(fold).min()) - 1)
    deals = np.empty((m, len(z)), np.int64)
    for k in range(int(fold.max()) + 1):
        rows = np.flatnonzero(fold == k)
        near = np.asarray(KDTree(z[rows]).query(z[rows], m + 1)[1])  # (rows, m + 1): the first is the row itself
        deals[:, rows] = rows[near[:, 1:]].T
    return deals


def _distance(z: np.ndarray, deals: np.ndarray) -> float:
    """Return the mean squared distance of dealt rows (m, n) in a column of z (n, d), as a share of that of any two."""
    spread = 2 * z.var(axis=0)
    return float(max(np.square(z - z[deals]).mean(axis=(0, 1))[spread > 0] / spread[spread > 0], default=0.0))


def _by_row(terms: np.ndarray, deals: np.ndarray) -> np.ndarray:
    """Share terms of dealt rows (m, n) out to the rows whose x they have, and whose y: (n,), of the same mean.

    What a row adds to a mean over pairs is what it adds as the first of a pair and as the second.
    """
    by_y = np.zeros(terms.shape[1])
    for deal, term in zip(deals, terms, strict=True):
        by_y += np.bincount(deal, term, len(by_y)) / len(deals)
    return terms.mean(axis=0) + by_y - terms.mean()


def _summary(found: _Found, resolution: float, distance: float = 0.0) -> MutualInformation:
    held_out, n = float(found.rows.mean()), len(found.rows)
    gap = found.in_sample - held_out
    variance = float(found.rows.var(ddof=1)) / n + gap**2 / 2 + variance_of_fits(found.without, found.of_fits)
    error = math.sqrt(variance)
    verdict, reason = _judged(held_out, error, found, resolution, distance)
    raw = held_out if verdict == "unstable" else held_out + gap / 2
    return MutualInformation(
        max(raw, 0.0), error, raw, held_out, found.in_sample, found.confirmed, resolution, verdict, reason
    )


def _judged(held_out: float, error: float, found: _Found, resolution: float, distance: float) -> tuple[Verdict, str]:
    n, gap = len(found.rows), found.in_sample - held_out
    least = max(2 * resolution, _SMALL)
    if is_wrong(held_out, error):
        told = f"on rows not seen the ratio does worse than none ({held_out:.3g} nats)"
        return "unstable", f"{told}: it has the wrong form. Give another, such as 'boosting'."
    if gap > max(_LARGE_GAP * abs(held_out), least):
        told = f"the ratio shows {found.in_sample:.3g} nats on the rows it was fitted to, and {held_out:.3g} on others"
        return "unstable", f"{told}: it has overfitted. Give more rows, or a simpler ratio."
    if distance > _FAR or found.taken_off > max(_LARGE_GAP * abs(held_out), least):
        told = (
            f"rows near in Z still differ by {distance:.0%} of the distance of any two, and {found.taken_off:.2g} nats"
        )
        return "unstable", f"{told} were taken off for it: what the ratio missed of these is added. Give more rows."
    if error > max(_LARGE_ERROR * abs(held_out), least):
        return "unstable", f"folds disagree, and the standard error is {error:.2g} nats. Give more rows."
    if found.beyond > _SOME:
        told = f"{found.beyond:.0%} of the rows have a ratio above n = {n}, which no product of {n} rows confirms"
        return "near the ln n ceiling", f"{told}: there the value rests on the form of the ratio."
    if abs(held_out + gap / 2) < 2 * error:
        return "trustworthy", "the interval holds 0: this ratio sees no information."
    told = f"fitted rows and others agree to {abs(gap):.2g} nats, and n = {n} is large enough"
    return "trustworthy", f"{told}. What a ratio of this form cannot express is missing: compare with another."


def _scores_of(X: Any, Y: Any, Z: Any) -> list[np.ndarray]:
    """Check the variables, and return the normal scores of their columns, each of shape (n, d)."""
    given = {"X": X, "Y": Y} if Z is None else {"X": X, "Y": Y, "Z": Z}
    parts = {name: to_matrix(_as_column(value, name), name) for name, value in given.items()}
    n = len(parts["X"])
    if n < FEWEST_ROWS:
        raise ArgumentError("X", f"`X` has {n} rows. Use at least {FEWEST_ROWS}.")
    for name, part in parts.items():
        if len(part) != n:
            raise ArgumentError(
                (name, "X"), f"`{name}` has {len(part)} rows but `X` has {n}. Give one row of each for every draw."
            )
        if not np.isfinite(part).all():
            raise ValueError(f"`{name}` holds NaN or infinite values: drop these rows of all variables, or fill them.")
    return [ndtri((rankdata(part, axis=0) - 0.5) / n) for part in parts.values()]


def _as_column(value: Any, name: str) -> Any:
    """Turn one variable given as (n,) into a column."""
    shape = getattr(value, "shape", None) or np.shape(value)
    if len(shape) == 0:
        raise ValueError(f"`{name}` is {value!r}: give its rows, one for every draw, of shape (n,) or (n, d).")
    return np.asarray(value).reshape(-1, 1) if len(shape) == 1 else value
