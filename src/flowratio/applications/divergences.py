r"""Divergences between two samples, with standard errors, by bounds that a cross-fitted ratio reaches.

Every f-divergence has a variational form, with the conjugate f* of f, that is stationary at the true ratio:

.. math:: D_f = \mathrm{mean}_q f(r) \ge \mathrm{mean}_p f'(\hat r) - \mathrm{mean}_q f^*(f'(\hat r))

The error of the estimated log-ratio enters squared, and the standard error is that of two means.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.special import expit, log_expit

from flowratio._support.row_counts import is_whole
from flowratio._support.types import TableLike, Vector, VectorLike
from flowratio._support.validation import RandomState, check_choice, seed_from
from flowratio._support.wording import in_percent
from flowratio.applications.crossfit import FEWEST_ROWS, CrossFitted, FoldScores, cross_fit, folds_of, ratio_to_fit
from flowratio.applications.result import BoundEstimate, Conclusion, LeftOut, Limit, bounds_of, interval_text, is_wrong
from flowratio.applications.support import with_support
from flowratio.diagnostics.residual import residual
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.diagnostics.verdict import Verdict, verdict_text
from flowratio.ratios.advice import advice_on_form, untried_note
from flowratio.ratios.shared_support import kish
from flowratio.samples.two_samples import TwoSamples, two_samples
from flowratio.samples.weighting import mean_and_error

Kind = Literal["kl", "reverse-kl", "js", "pearson", "tv", "hellinger"]
KINDS: dict[str, str] = {
    "kl": "KL(p ‖ q)",
    "reverse-kl": "KL(q ‖ p)",
    "js": "Jensen–Shannon divergence",
    "pearson": "Pearson χ²(p ‖ q)",
    "tv": "total variation",
    "hellinger": "squared Hellinger distance",
}
LARGEST = {"js": math.log(2), "tv": 1.0, "hellinger": 1.0}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Divergence(BoundEstimate):
    """A divergence between two samples, in nats where it has a logarithm. It prints as two lines.

    `log_p` and `log_q` are held-out log r of the rows of positive weight, of shapes (n_p,) and (n_q,).
    """

    kind: Kind
    log_p: Vector
    log_q: Vector

    def _largest(self) -> float:
        return LARGEST.get(self.kind, math.inf)

    def to_dict(self) -> dict[str, Any]:
        """Return everything except log r, ready for JSON. An open end of the interval is None."""
        return {"kind": self.kind, **super().to_dict()}

    def _unit(self) -> str:
        return "nats" if self.kind in ("kl", "reverse-kl", "js") else ""

    def _title(self) -> str:
        return f"{KINDS[self.kind]} ({self._unit()})".removesuffix(" ()")

    def __str__(self) -> str:
        value = f"{KINDS[self.kind]}: {self.value:.3g} ± {self.standard_error:.2g} {self._unit()}".rstrip()
        value += " or more" * (self.limit is Limit.LOWER_BOUND)
        return f"{value} (95 % interval: {interval_text(self.interval())})\n{verdict_text(self.verdict, self.reason)}"


def divergence(
    X_p: TableLike,
    X_q: TableLike,
    kind: Kind | str = "kl",
    *,
    ratio: Any = None,
    n_folds: int = 10,
    sample_weight_p: VectorLike | None = None,
    sample_weight_q: VectorLike | None = None,
    random_state: RandomState = None,
    verbose: bool = False,
) -> Divergence:
    r"""Estimate how far p is from q, from a sample of each, by cross-fitting.

    Parameters
    ----------
    X_p, X_q
        Rows drawn from p and from q, of shapes (n_p, d) and (n_q, d): arrays, or tables with text, dates and missing
        values.
    kind
        `"kl"` for KL(p ‖ q), `"reverse-kl"` for KL(q ‖ p), `"js"` for Jensen–Shannon, each in nats. `"pearson"` for
        :math:`\chi^2 = \mathrm{mean}_q (r - 1)^2`. `"tv"` for total variation and `"hellinger"` for
        :math:`1 - \mathrm{mean}_q \sqrt r`, both from 0 to 1. Upper case and underscores work too.
    ratio
        A ratio, or its name. None for what `AutoRatio()` chooses in 1 to 4 minutes, before the folds are fitted. For an
        answer in seconds, give a name such as `"logistic"` or `"additive"`.
    n_folds, random_state, verbose
        Number of folds, seed of the folds and of the ratio, and whether to show progress bars, with the time left.
    sample_weight_p, sample_weight_q
        Weights of the rows, of shapes (n_p,) and (n_q,). Integer weights are counts. Other weights are relative: their
        scale does not matter. Rows of weight 0 are left out. All weights are 1 if None.

    Notes
    -----
    A few large ratios would decide mean_q r. For KL they are damped by 1 / (1 + r/√n), for Pearson cut off at √n.

    On held-out rows the bound is too low by the noise of the ratio, and on fitted rows too high by as much. The value
    is the mean of the two. For a ratio of the wrong form the value is too low. A flexible classifier (boosting and a
    polynomial, on the same folds) looks for what the ratio misses. What it finds widens the interval. If that is more
    than noise, the value is a lower bound, and the verdict is `CARE`. `benchmarks/coverage.py` measures how often
    intervals of reliable results cover the truth.

    References
    ----------
    .. [1] Nguyen, Wainwright, Jordan (2010). *Estimating divergence functionals and the likelihood ratio.* IEEE TIT.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X_p, X_q = rng.normal(1, 1, (2000, 2)), rng.normal(0, 1, (2000, 2))
    >>> kl = divergence(X_p, X_q, "KL", ratio="logistic", random_state=0)  # the true value is 1
    >>> abs(kl.value - 1) < 3 * kl.standard_error
    True
    """
    name: Any = kind.lower().replace("_", "-") if isinstance(kind, str) else kind
    check_choice(name, "kind", list(KINDS))
    seed = seed_from(random_state)
    samples = checked_samples(X_p, X_q, sample_weight_p, sample_weight_q)
    fold = folds_of(samples, n_folds, np.random.default_rng([seed, 0, 7]))
    ratio = ratio_to_fit(ratio, samples, seed, verbose)
    scores = cross_fit(ratio, samples, fold, seed, verbose)
    check = replace(flexible_check(samples, fold, scores, seed), advice=advice_on_form(ratio))
    result = with_support(estimate(name, scores, check), samples)
    result = replace(result, reason=f"{result.reason} {untried_note(ratio)}".strip())
    return LeftOut.of(samples.encoder).added_to(result)


def checked_samples(
    X_p: TableLike, X_q: TableLike, sample_weight_p: VectorLike | None, sample_weight_q: VectorLike | None
) -> TwoSamples:
    """Return two samples with enough rows of positive weight, in which something varies."""
    samples = two_samples(X_p, X_q, sample_weight_p, sample_weight_q)
    for name, n, weights in (("p", samples.n_p, sample_weight_p), ("q", samples.n_q, sample_weight_q)):
        if n < FEWEST_ROWS:
            positive = "" if weights is None else f" of positive `sample_weight_{name}`"
            raise ValueError(f"`X_{name}` has {n} rows{positive}. Give at least {FEWEST_ROWS} rows of each sample.")
    if (samples.X[0] == samples.X).all():
        raise ValueError("All rows of `X_p` and `X_q` are equal, so there is no ratio. Give a column that varies.")
    return samples


@dataclass(frozen=True, eq=False)
class FlexibleCheck:
    """What a flexible classifier finds beyond a ratio: estimates of log(r / r̂) of the rows of p and of q."""

    p: Vector  # (n_p,)
    q: Vector  # (n_q,)
    overlap: float  # effective rows in the overlap, on which the check rests
    advice: str = ""  # on a ratio of the wrong form

    def swapped(self) -> FlexibleCheck:
        """Return the same of q/p."""
        return replace(self, p=-self.q, q=-self.p)


def flexible_check(samples: TwoSamples, fold: Vector, scores: CrossFitted, seed: int) -> FlexibleCheck:
    """Fit a flexible classifier to what a ratio leaves, on the same folds (n,)."""
    log_r = np.concatenate([scores.p.log_r, scores.q.log_r])
    n_shared = scores.p.w @ expit(-scores.p.log_r) + scores.q.w @ expit(scores.q.log_r)
    if n_shared < THRESHOLDS.fewest_shared:  # every classifier separates the samples
        return FlexibleCheck(np.zeros(samples.n_p), np.zeros(samples.n_q), 0.0)
    rows, each = samples.plain, np.hstack([scores.p.each, scores.q.each])
    left = residual(rows, log_r, samples.y == 1, samples.w, seed, fold=fold, each=each)
    of_p, of_q = (left.log_correction[part] for part in samples.parts)
    return FlexibleCheck(of_p, of_q, left.n_overlap)


def estimate(kind: Kind, scores: CrossFitted, check: FlexibleCheck) -> Divergence:
    """Return a divergence from cross-fitted log-ratios and the check of their form. Weights count rows."""
    p, q = scores.p, scores.q
    if kind == "reverse-kl":
        return replace(estimate("kl", scores.swapped(), check.swapped()), kind=kind, log_p=p.log_r, log_q=q.log_r)
    reach, terms = math.sqrt(q.w.sum()), _TERMS[kind]
    of_p, of_q = terms(p.log_r, q.log_r, reach)
    held_out = p.mean(of_p) + q.mean(of_q)
    fitted_p, fitted_q = terms(p.each, q.each, reach)
    n_folds = len(fitted_p)
    in_sample = sum(p.mean_without(k, fitted_p[k]) + q.mean_without(k, fitted_q[k]) for k in range(n_folds)) / n_folds
    excess = in_sample - held_out
    lent_p, lent_q = terms(np.median(q.log_r, keepdims=True), np.median(p.log_r, keepdims=True), reach)
    # half of the excess is added to the estimate. For total variation it depends on the sign of log r, and is noisier
    variance = _error(of_p, lent_p, p) ** 2 + _error(of_q, lent_q, q) ** 2 + excess**2 / (2 if kind == "tv" else 4)
    confirmed = held_out
    if kind == "kl":
        of_fits = p.each @ (p.w / p.w.sum() * expit(p.log_r - math.log(reach)))
        without = np.array([p.mean_without(k, of_p) + q.mean_without(k, of_q) for k in range(n_folds)])
        variance += variance_of_fits(without, of_fits)
        confirmed = p.mean((clipped := clipped_terms(p.log_r, q.log_r, reach))[0]) + q.mean(clipped[1])
    error = min(math.sqrt(variance), LARGEST.get(kind, math.inf))
    conclusion = _conclusion(kind, held_out, excess, error, scores)
    if conclusion.verdict is Verdict.RELIABLE:  # otherwise the form of the ratio is not the first problem
        more_p, more_q = terms(p.log_r + check.p, q.log_r + check.q, reach)
        missing = max(p.mean(more_p) + q.mean(more_q) - held_out, 0.0)
        noise = math.hypot(_error(more_p - of_p, lent_p - lent_p, p), _error(more_q - of_q, lent_q - lent_q, q))
        largest = min(2 * error, max(2.5 * noise, THRESHOLDS.missing * abs(held_out)))
        conclusion = _confirmed(conclusion, missing, largest, check.overlap, min(p.w.sum(), q.w.sum()), check.advice)
        if conclusion.limit is Limit.NONE:  # otherwise what is missing is above the lower end of the interval
            error = math.hypot(error, max(missing - noise, 0.0))
        if not (p.log_r.any() or q.log_r.any()):
            error = max(error, noise, _unseen(kind, min(p.w.sum(), q.w.sum())))
    bounds = bounds_of(held_out, in_sample, confirmed, error, conclusion, LARGEST.get(kind, math.inf))
    return Divergence(kind=kind, log_p=p.log_r, log_q=q.log_r, **bounds)


def _unseen(kind: Kind, n: float) -> float:
    """Return the divergence of two Gaussians whose means differ by about 1.4 standard errors of n rows each.

    No sample of n rows shows it, so it is the error of r = 1.
    """
    return math.sqrt(1 / (math.pi * n)) if kind == "tv" else 1 / n


def _error(values: Vector, lent: Vector, sample: FoldScores) -> float:
    """Return the standard error of a mean of values (n,), with one lent by the other sample: the next may differ."""
    values, w = np.concatenate([values, lent]), np.append(sample.w, 1.0)
    share = w / w.sum()
    if not is_whole(w):
        return float(mean_and_error(values, share)[1])
    return math.sqrt(share @ (values - share @ values) ** 2 / (w.sum() - 1))


def _conclusion(kind: Kind, held_out: float, excess: float, error: float, scores: CrossFitted) -> Conclusion:
    p, q = scores.p, scores.q
    n_p, n_q = p.w.sum(), q.w.sum()
    n_shared = p.w[p.log_r <= 0].sum() + q.w[q.log_r >= 0].sum()
    limit = Limit.CEILING if kind == "kl" else Limit.LOWER_BOUND
    if n_shared < THRESHOLDS.fewest_shared:
        reason = f"the ratio separates the samples except for {n_shared:.3g} of {n_p + n_q:.0f} rows. No sample of "
        return Conclusion(Verdict.CARE, limit, f"{reason}this size can show how far apart they are.")
    share = p.w[p.log_r > math.log(n_q)].sum() / n_p
    if kind == "kl" and is_above(share, THRESHOLDS.too_large, n_p):
        reason = (
            f"{in_percent(share)} of the rows have a ratio above {n_q:.0f}, the number of rows of the other sample,"
        )
        return Conclusion(Verdict.CARE, limit, f"{reason} which cannot confirm it. The value depends on its form.")
    if kind == "pearson" and (reason := _cut(scores)):
        return Conclusion(Verdict.CARE, limit, reason)
    if is_wrong(held_out, error):
        reason = f"on held-out rows the ratio does worse than none ({held_out:.3g}). Use another ratio."
        return Conclusion(Verdict.DO_NOT_USE, Limit.NONE, reason)
    if excess > max(THRESHOLDS.overfit * abs(held_out), THRESHOLDS.small):
        reason = f"the ratio is overfitted: {held_out + excess:.3g} on fitted rows, {held_out:.3g} on held-out rows. "
        return Conclusion(Verdict.DO_NOT_USE, Limit.LOWER_BOUND, f"{reason}Use more rows, or a simpler ratio.")
    value = abs(held_out + excess / 2)
    if error > max(2 * THRESHOLDS.standard_error * value, THRESHOLDS.small):
        reason = f"the standard error of {error:.2g} is more than half of the value. Use more rows."
        return Conclusion(Verdict.CARE, Limit.NONE, reason)
    reason = f"fitted and held-out rows agree to {abs(excess):.2g}, and {n_shared:.0f} rows lie where both samples are."
    if value < 2 * error:
        reason = "the interval includes 0, so the value is not clearly above 0."
    return Conclusion(Verdict.RELIABLE, Limit.NONE, reason)


def _confirmed(
    conclusion: Conclusion, missing: float, largest: float, overlap: float, n_least: float, advice: str
) -> Conclusion:
    """Return a conclusion that holds only if a flexible check finds no more than `largest` beyond the ratio."""
    if missing > max(largest, THRESHOLDS.misfit):
        reason = f"the value is a lower bound. The ratio has the wrong form: a flexible check finds {missing:.2g} more."
        return Conclusion(Verdict.CARE, Limit.LOWER_BOUND, f"{reason} {advice}".strip())
    if overlap < min(THRESHOLDS.fewest_checked, n_least / 4):
        reason = f"the value is a lower bound. The effective sample size of the overlap is {overlap:.0f}, too small to"
        return Conclusion(Verdict.CARE, Limit.LOWER_BOUND, f"{reason} check the form of the ratio.")
    return conclusion._replace(reason=f"{conclusion.reason} A flexible check finds {missing:.2g} more.")


def _cut(scores: CrossFitted) -> str:
    """Return why squared ratios are too large for a reliable mean. The text is empty if they are not."""
    p, q = scores.p, scores.q
    n_q = q.w.sum()
    n_cut = p.w[p.log_r > math.log(n_q) / 2].sum() + q.w[q.log_r > math.log(n_q) / 2].sum()
    if n_cut > 0:
        return f"{n_cut:.3g} rows have a ratio above √n = {math.sqrt(n_q):.3g}, where it is cut off."
    ess = kish(2 * q.log_r, q.w)
    if ess < THRESHOLDS.fewest_squares:
        return f"the effective sample size of the squared ratios is {ess:.0f}. Larger ratios may be missing."
    return ""


def is_above(share: float, largest: float, n: float) -> bool:
    """Return whether a share of n rows may be above a limit: it is, or by less than two standard errors it is not."""
    return share > 0 and share + 2 * math.sqrt(share * (1 - share) / n) > largest


def variance_of_fits(without: Vector, of_fits: Vector) -> float:
    """Return what fits add to the variance of an estimate, by the jackknife over folds.

    `without` is the estimate without the rows of each fold, and `of_fits` what the fit without the fold adds to it, of
    shape (n_folds,). With k folds the variance is raised by (k + 1) / (k - 1), about as Student's distribution asks.
    """
    k = len(without)
    jackknife = [float(np.square(v - v.mean()).sum()) * (k - 1) / k for v in (without + of_fits, without)]
    return max(jackknife[0] - jackknife[1], 0.0) * (k + 1) / (k - 1)


def kl_terms(log_p: Vector, log_q: Vector, reach: float) -> tuple[Vector, Vector]:
    r"""Return what rows of p and of q, (n_p,) and (n_q,), add to KL(p ‖ q).

    .. math:: \mathrm{mean}_p \Big[\log r + \frac{1}{1 + r/m}\Big] - \mathrm{mean}_q \frac{r}{1 + r/m}

    For the true ratio the two fractions cancel, whatever m is. m is `reach`.
    """
    log_m = math.log(reach)
    return log_p + expit(log_m - log_p), -reach * expit(log_q - log_m)


def clipped_terms(log_p: Vector, log_q: Vector, reach: float) -> tuple[Vector, Vector]:
    """Return what rows of p and of q, (n_p,) and (n_q,), add to the bound of KL(p ‖ q) by ratios up to `reach`."""
    log_m = math.log(reach)
    return np.minimum(log_p, log_m) + 1, -np.exp(np.minimum(log_q, log_m))


def _pearson_terms(log_p: Vector, log_q: Vector, reach: float) -> tuple[Vector, Vector]:
    r_p, r_q = (np.exp(np.minimum(log_r, math.log(reach))) for log_r in (log_p, log_q))
    return 2 * (r_p - 1), 1 - r_q**2


def _hellinger_terms(log_p: Vector, log_q: Vector, reach: float) -> tuple[Vector, Vector]:
    largest = 2 * math.log(reach)
    return (1 - np.exp(np.minimum(-log_p, largest) / 2)) / 2, (1 - np.exp(np.minimum(log_q, largest) / 2)) / 2


_TERMS: dict[str, Callable[[Vector, Vector, float], tuple[Vector, Vector]]] = {
    "kl": kl_terms,
    "js": lambda log_p, log_q, _: ((math.log(2) + log_expit(log_p)) / 2, (math.log(2) + log_expit(-log_q)) / 2),
    "pearson": _pearson_terms,
    "tv": lambda log_p, log_q, _: ((log_p > 0).astype(np.float64), -(log_q > 0).astype(np.float64)),
    "hellinger": _hellinger_terms,
}
