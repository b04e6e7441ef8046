r"""Mutual information: the divergence of rows (x, y) as they came from rows whose y was dealt out anew.

.. math:: I(X; Y) = \mathrm{KL}\big(p(x, y) \,\|\, p(x)\, p(y)\big), \qquad I(X; Y \mid Z) = I(X; Y, Z) - I(X; Z)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import expit, ndtri
from scipy.stats import rankdata

from flowratio.applications.crossfit import Sample, check_folds, chosen_ratio, cross_fit, folds
from flowratio.applications.divergences import interval, jackknife, kl_terms, mean_without
from flowratio.samples import to_matrix
from flowratio.settings import RandomState, seed_from

Verdict = Literal["trustworthy", "near the ln n ceiling", "unstable"]
_N_DEALS = 8  # rows of the product for each row of the sample, on which ratios are judged
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
    verdict
        `"trustworthy"`; `"near the ln n ceiling"`, where rows are too few to confirm a ratio this large, and the value
        rests on the form of the ratio; or `"unstable"`, where folds disagree or fitted rows tell another story.
    reason
        Why, in a sentence.
    """

    nats: float
    standard_error: float
    raw: float
    held_out: float
    in_sample: float
    verdict: Verdict
    reason: str

    @property
    def bits(self) -> float:
        """The information in bits."""
        return self.nats / math.log(2)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return an interval in nats that covers the truth with this probability, if the estimate is normal."""
        return interval(self.raw, self.standard_error, level)

    def __str__(self) -> str:
        low, high = self.interval()
        value = f"{self.nats:.4g} ± {self.standard_error:.2g} nats ({self.bits:.4g} bits)"
        return f"{value}, 95 %: {low:.4g} to {high:.4g} nats\n{self.verdict}: {self.reason}"

    __repr__ = __str__


def mutual_information(
    X: Any,
    Y: Any,
    Z: Any = None,
    *,
    ratio: Any = None,
    n_folds: int = 10,
    random_state: RandomState = None,
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
        Any ratio, or its name; None for what `AutoRatio` chooses.
    n_folds
        Parts of the rows.
    random_state
        Seed of the folds, of the deals and of the ratio.

    Notes
    -----
    Every column is first replaced by its normal scores. Information does not change by a monotone map of a column, and
    so neither does the estimate: units, logarithms and heavy tails do not matter.

    What a ratio cannot express is missing from the estimate, and no standard error tells of it: for large n the value
    is at most the truth. The error of a bound of the type of `divergence` is of second order in that of log r, up to
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
    parts = _scores_of(X, Y, Z)
    n = len(parts[0])
    seed = seed_from(random_state)
    rng = np.random.default_rng([seed, 0, 9])
    fold = folds(n, check_folds(n_folds, n), rng)
    x, y = parts[:2]
    if Z is None:
        return _summary(_information(x, y, ratio, fold, seed, rng), n)
    z = parts[2]
    with_both = _information(x, np.column_stack([y, z]), ratio, fold, seed, rng)
    return _summary(with_both.minus(_information(x, z, ratio, fold, seed, rng)), n)


@dataclass(frozen=True, eq=False)
class _Found:
    """Parts of an estimate of I: what rows add (n,), what it is without each fold, and on fitted rows."""

    rows: np.ndarray  # (n,): their mean is the estimate
    without: np.ndarray  # (n_folds,): the estimate without the rows of a fold
    of_fits: np.ndarray  # (n_folds,): what a fit without the fold adds beyond the reach of the correction
    in_sample: float
    beyond: float  # share of rows with a ratio above n
    resolution: float  # nats that such a sample hardly shows

    def minus(self, other: _Found) -> _Found:
        return _Found(
            self.rows - other.rows,
            self.without - other.without,
            self.of_fits - other.of_fits,
            self.in_sample - other.in_sample,
            max(self.beyond, other.beyond),
            math.hypot(self.resolution, other.resolution),
        )


def _information(
    x: np.ndarray, y: np.ndarray, ratio: Any, fold: np.ndarray, seed: int, rng: np.random.Generator
) -> _Found:
    """Estimate I(X; Y) from rows (n, d_x) and (n, d_y), and keep the parts."""
    n = len(x)
    deals = np.array([_dealt(fold, rng) for _ in range(int(np.clip(_MOST_DEALT // n, 1, _N_DEALS)))])  # (m, n)
    p = Sample(np.column_stack([x, y]), np.ones(n), fold)
    X_q = np.concatenate([np.column_stack([x, y[deal]]) for deal in deals])
    n_fitted = n * int(np.clip(_MOST_FITTED // n, 1, len(deals)))  # all of it is judged
    q = Sample(X_q, np.repeat([1.0, 0.0], [n_fitted, len(X_q) - n_fitted]), np.tile(fold, len(deals)))
    some = Sample(X_q[:n_fitted], q.w[:n_fitted], q.fold[:n_fitted])
    found = cross_fit(chosen_ratio(ratio, p, some, seed), p, q, seed)
    reach = math.sqrt(len(X_q))
    of_p, of_q = kl_terms(found.log_p, found.log_q, reach)
    rows = of_p + _by_row(of_q.reshape(deals.shape), deals)
    left = found.each_p @ expit(found.log_p - math.log(reach)) / n
    without = np.array([mean_without(k, rows, p) for k in range(len(left))])
    in_sample = [
        np.mean(part_p[fold != k]) + np.mean(part_q[fold != k])
        for k, (part_p, part_q) in enumerate(
            zip(*kl_terms(found.each_p, found.each_q[:, :n], reach), strict=True),
        )
    ]
    beyond = float(np.mean(found.log_p > math.log(n)))
    resolution = _UNSEEN * math.sqrt(x.shape[1] * y.shape[1]) / n
    return _Found(rows, without, left, float(np.mean(in_sample)), beyond, resolution)


def _dealt(fold: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return another row of the same fold for every row, of shape (n,): all of a fold move on by some places."""
    deal = np.empty(len(fold), np.int64)
    for k in range(int(fold.max()) + 1):
        rows = rng.permutation(np.flatnonzero(fold == k))
        deal[rows] = np.roll(rows, int(rng.integers(1, len(rows))))
    return deal


def _by_row(terms: np.ndarray, deals: np.ndarray) -> np.ndarray:
    """Share terms of dealt rows (m, n) out to the rows whose x they have, and whose y: (n,), of the same mean.

    What a row adds to a mean over pairs is what it adds as the first of a pair and as the second.
    """
    by_y = np.zeros(terms.shape[1])
    for deal, term in zip(deals, terms, strict=True):
        by_y[deal] += term / len(deals)
    return terms.mean(axis=0) + by_y - terms.mean()


def _summary(found: _Found, n: int) -> MutualInformation:
    held_out = float(found.rows.mean())
    gap = found.in_sample - held_out
    variance = float(found.rows.var(ddof=1)) / n + (gap / 2) ** 2 + found.resolution**2
    variance += max(jackknife(found.without + found.of_fits) - jackknife(found.without), 0.0)
    error = math.sqrt(variance)
    verdict, reason = _judged(held_out, error, found, n)
    raw = held_out if verdict == "unstable" else held_out + gap / 2
    return MutualInformation(max(raw, 0.0), error, raw, held_out, found.in_sample, verdict, reason)


def _judged(held_out: float, error: float, found: _Found, n: int) -> tuple[Verdict, str]:
    gap = found.in_sample - held_out
    if gap > max(_LARGE_GAP * abs(held_out), 2 * found.resolution, _SMALL):
        told = f"the ratio shows {found.in_sample:.3g} nats on the rows it was fitted to, and {held_out:.3g} on others"
        return "unstable", f"{told}: it has overfitted. Give more rows, or a simpler ratio."
    if error > max(_LARGE_ERROR * abs(held_out), 2 * found.resolution, _SMALL):
        return "unstable", f"folds disagree, and the standard error is {error:.2g} nats. Give more rows."
    if found.beyond > _SOME:
        told = f"{found.beyond:.0%} of the rows have a ratio above n = {n}, which no product of {n} rows confirms"
        return "near the ln n ceiling", f"{told}: there the value rests on the form of the ratio."
    if abs(held_out) < 2 * error:
        return "trustworthy", "the interval holds 0: no information is seen."
    return "trustworthy", f"fitted rows and others agree to {abs(gap):.2g} nats, and n = {n} is large enough."


def _scores_of(X: Any, Y: Any, Z: Any) -> list[np.ndarray]:
    """Check the variables, and return the normal scores of their columns, each of shape (n, d)."""
    given = {"X": X, "Y": Y} if Z is None else {"X": X, "Y": Y, "Z": Z}
    parts = {name: to_matrix(_as_column(value), name) for name, value in given.items()}
    n = len(parts["X"])
    for name, part in parts.items():
        if len(part) != n:
            raise ValueError(f"`{name}` has {len(part)} rows but `X` has {n}: give one row of each for every draw.")
        if not np.isfinite(part).all():
            raise ValueError(f"`{name}` holds NaN or infinite values: drop these rows of all variables, or fill them.")
    return [ndtri((rankdata(part, axis=0) - 0.5) / n) for part in parts.values()]


def _as_column(value: Any) -> Any:
    """Turn one variable given as (n,) into a column."""
    shape = getattr(value, "shape", None) or np.shape(value)
    return np.asarray(value).reshape(-1, 1) if len(shape) == 1 else value
