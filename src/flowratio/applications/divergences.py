r"""Divergences between two samples, each as the bound that a ratio of rows not seen attains, with a standard error.

Every f-divergence has a variational form, with the conjugate f* of f, that is stationary at the true ratio:

.. math:: D_f = \mathrm{mean}_q f(r) \ge \mathrm{mean}_p f'(\hat r) - \mathrm{mean}_q f^*(f'(\hat r))

An error of the estimated log-ratio then enters squared only, and the standard error is that of two means.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.special import expit, log_expit, ndtri

from flowratio._support.validation import RandomState, is_number, seed_from
from flowratio.applications.crossfit import (
    FEWEST_ROWS,
    CrossFitted,
    Sample,
    check_folds,
    chosen_ratio,
    cross_fit,
    folds,
)
from flowratio.samples.stacking import check_samples
from flowratio.samples.weighting import checked_weights, counts, is_whole, mean_and_error

Verdict = Literal["trustworthy", "lower bound", "near the ln n ceiling", "unstable"]
Kind = Literal["kl", "reverse-kl", "js", "pearson", "tv", "hellinger"]
KINDS: dict[str, str] = {
    "kl": "KL(p ‖ q)",
    "reverse-kl": "KL(q ‖ p)",
    "js": "Jensen–Shannon divergence",
    "pearson": "Pearson χ²(p ‖ q)",
    "tv": "total variation",
    "hellinger": "squared Hellinger distance",
}
_LARGEST = {"js": math.log(2), "tv": 1.0, "hellinger": 1.0}
_LARGE_GAP = 0.25  # share of the divergence that fitted rows may show beyond rows not seen
_SMALL = 0.05  # what is not worth a warning, in nats or without a unit
_SOME = 0.05  # share of rows that are too many
_FEW = 5  # rows on the side of the other sample, below which nothing is known of what the two share
_FEW_DRAWS = 50  # that squares of ratios must be worth


@dataclass(frozen=True, eq=False)
class Divergence:
    """A divergence between two samples, how well it is known, and whether to trust it. It prints as two lines.

    Parameters
    ----------
    kind
        One of `KINDS`.
    value
        In nats where there is a logarithm; never below 0.
    standard_error
        Of the value before it is cut off at 0.
    raw
        That value: the middle of the two that follow; the first of them, if they are far apart.
    held_out
        The bound from rows not seen. It may be negative where p and q can hardly be told apart.
    in_sample
        The same on the rows that were fitted: the more it is above `held_out`, the more the ratio has overfitted.
    confirmed
        The part of `held_out` that needs no trust in the form of the ratio: the bound of ratios up to √n.
    verdict
        `"trustworthy"`; `"lower bound"`, where the samples share too few rows to tell how much larger the divergence
        is; `"near the ln n ceiling"`, the same for Kullback–Leibler, whose value then rests on the form of the ratio;
        or `"unstable"`, where fitted rows tell another story.
    reason
        Why, in a sentence.
    log_p, log_q
        log r of the rows of p and of q of positive weight, by models that have not seen them, of shapes (n_p,) and
        (n_q,).
    """

    kind: Kind
    value: float
    standard_error: float
    raw: float
    held_out: float
    in_sample: float
    confirmed: float
    verdict: Verdict
    reason: str
    log_p: np.ndarray
    log_q: np.ndarray

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return an interval that covers the divergence with this probability, if its estimate is normal.

        Where the verdict is a bound or a ceiling, or the ratio is wrong, it reaches from what is confirmed to the
        largest value there is, which is infinite for `"kl"`, `"reverse-kl"` and `"pearson"`.
        """
        largest = _LARGEST.get(self.kind, math.inf)
        low, _ = interval(min(self.raw, self.confirmed), self.standard_error, level, largest)
        if self.verdict in ("lower bound", "near the ln n ceiling") or is_wrong(self.held_out, self.standard_error):
            return low, largest
        return interval(self.raw, self.standard_error, level, largest)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it but log r, with the interval of 95 %, ready for JSON: None is an end that is open."""
        numbers = {"value": self.value, "standard_error": self.standard_error, "raw": self.raw}
        bounds = {"held_out": self.held_out, "in_sample": self.in_sample, "confirmed": self.confirmed}
        told = {"interval": with_open_ends(self.interval()), "verdict": self.verdict, "reason": self.reason}
        return {"kind": self.kind, **numbers, **bounds, **told}

    def __str__(self) -> str:
        unit = " nats" if self.kind in ("kl", "reverse-kl", "js") else ""
        value = f"{KINDS[self.kind]}: {self.value:.4g} ± {self.standard_error:.2g}{unit}"
        return f"{value} (95 %: {spoken(self.interval())})\n{self.verdict}: {self.reason}"

    __repr__ = __str__


def interval(raw: float, standard_error: float, level: float, largest: float = math.inf) -> tuple[float, float]:
    """Return the two ends of a normal interval, cut off at 0 and at the largest value that there is."""
    if not (is_number(level) and 0 < level < 1):
        raise ValueError(f"`level` is {level!r}: give a probability between 0 and 1, such as 0.95.")
    reach = float(ndtri(0.5 + level / 2)) * standard_error
    return min(max(raw - reach, 0.0), largest), min(max(raw + reach, 0.0), largest)


def is_wrong(held_out: float, standard_error: float) -> bool:
    """Return whether a ratio does worse than none on rows not seen: what it bounds from below is never negative."""
    return held_out < -max(_SMALL, 2 * standard_error)


def spoken(ends: tuple[float, float]) -> str:
    """Return an interval in words.

    Examples
    --------
    >>> spoken((0.25, 1.5)), spoken((0.25, math.inf))
    ('0.25 to 1.5', '0.25 or more')
    """
    low, high = ends
    return f"{low:.4g} or more" if high == math.inf else f"{low:.4g} to {high:.4g}"


def with_open_ends(ends: tuple[float, float]) -> list[float | None]:
    """Return an interval for JSON, which knows no infinity: None is an end that is open."""
    return [end if math.isfinite(end) else None for end in ends]


def divergence(
    X_p: Any,
    X_q: Any,
    kind: Kind = "kl",
    *,
    ratio: Any = None,
    n_folds: int = 10,
    sample_weight_p: Any = None,
    sample_weight_q: Any = None,
    random_state: RandomState = None,
    verbose: bool = False,
) -> Divergence:
    r"""Estimate how far p is from q, from a sample of each, cross-fitted.

    Parameters
    ----------
    X_p, X_q
        Rows drawn from p and from q, of shapes (n_p, d) and (n_q, d).
    kind
        `"kl"` for KL(p ‖ q), `"reverse-kl"` for KL(q ‖ p), `"js"` for Jensen–Shannon, each in nats; `"pearson"` for
        :math:`\chi^2 = \mathrm{mean}_q (r - 1)^2`; `"tv"` for total variation and `"hellinger"` for
        :math:`1 - \mathrm{mean}_q \sqrt r`, both from 0 to 1.
    ratio
        Any ratio, or its name; None for what `AutoRatio` chooses.
    n_folds
        Parts of the samples: a row is scored by a ratio that was fitted without its part.
    sample_weight_p, sample_weight_q
        How often each row counts, of shapes (n_p,) and (n_q,); 1 if None.
    random_state
        Seed of the folds and of the ratio.
    verbose
        Whether to show progress bars.

    Notes
    -----
    All but Kullback–Leibler and Pearson are means of bounded numbers, or of numbers with a variance. The correction
    mean_q r of KL is ruled by few rows where p and q are far apart. There each row is damped by 1 / (1 + r/√n): what
    is left is mean_p log r, whose error is that of the ratio, and the standard error has a part for it, from the
    spread of the models of the folds. Pearson's divergence is the bound of ratios up to √n: beyond that no sample of
    this size can tell it.

    On rows not seen the bound is too low, by what the ratio lost to its own noise, and on fitted rows it is too high
    by as much. The value is the middle of the two, and half of the squared gap is a part of the variance. For a ratio
    of the right form intervals of 95 % then cover in 91 to 98 % of samples of some hundred rows, from hardly apart to
    three standard deviations; in nearly all where p = q, in about 90 % for 50 rows of each, and for Pearson's beyond
    one standard deviation. They fail for a ratio of the wrong form: then the value is too low, and nothing tells of it.

    Whole weights say how often a row is there, so that twos on all rows are twice the sample. Of other weights a
    common factor does not matter: they are worth (Σw)² / Σw² rows. Rows of weight 0 are left out.

    References
    ----------
    .. [1] Nguyen, Wainwright, Jordan (2010). *Estimating divergence functionals and the likelihood ratio.* IEEE TIT.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X_p, X_q = rng.normal(1, 1, (2000, 2)), rng.normal(0, 1, (2000, 2))
    >>> found = divergence(X_p, X_q, ratio="logistic", random_state=0)  # KL = 1
    >>> abs(found.value - 1) < 3 * found.standard_error
    True
    """
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"`kind` is {kind!r}: give one of {', '.join(KINDS)}.")
    p, q, seed = two_samples(X_p, X_q, sample_weight_p, sample_weight_q, n_folds, random_state)
    chosen = chosen_ratio(ratio, p, q, seed, verbose)
    return estimate(kind, cross_fit(chosen, p, q, seed, verbose), p, q)


def two_samples(
    X_p: Any, X_q: Any, sample_weight_p: Any, sample_weight_q: Any, n_folds: Any, random_state: RandomState
) -> tuple[Sample, Sample, int]:
    """Return two samples of rows of positive weight, with weights that count rows, and folds; and the seed."""
    A_p, A_q = check_samples(X_p, X_q)
    seed = seed_from(random_state)
    (A_p, w_p), (A_q, w_q) = _weighted(A_p, sample_weight_p, "p"), _weighted(A_q, sample_weight_q, "q")
    k = check_folds(n_folds, min(len(A_p), len(A_q)))
    if (np.concatenate([A_p, A_q]) == A_p[0]).all():
        raise ValueError("All rows of `X_p` and `X_q` are the same: there is no ratio. Give a column that varies.")
    rng = np.random.default_rng([seed, 0, 7])
    return Sample(A_p, w_p, folds(len(A_p), k, rng)), Sample(A_q, w_q, folds(len(A_q), k, rng)), seed


def _weighted(A: np.ndarray, given: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows (n, d) of positive weight, and how often each is there, (n,)."""
    try:
        given = None if given is None else np.asarray(given, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`sample_weight_{name}` is not a list of numbers ({error}): give one a row.") from error
    w = checked_weights(given, len(A), f"sample_weight_{name}")
    n = np.count_nonzero(w)
    if n < FEWEST_ROWS:
        of = "" if given is None else f" of positive `sample_weight_{name}`"
        raise ValueError(f"`X_{name}` has {n} rows{of}: give at least {FEWEST_ROWS} of each sample.")
    return A[w > 0], counts(w[w > 0])


def estimate(kind: Kind, found: CrossFitted, p: Sample, q: Sample) -> Divergence:
    """Return a divergence from log-ratios of rows not seen; weights of the samples count rows."""
    if kind == "reverse-kl":
        swapped = estimate("kl", found.swapped(), q, p)
        return replace(swapped, kind=kind, log_p=found.log_p, log_q=found.log_q)
    reach, terms = math.sqrt(q.w.sum()), _TERMS[kind]
    of_p, of_q = terms(found.log_p, found.log_q, reach)
    held_out = float(p.w @ of_p / p.w.sum() + q.w @ of_q / q.w.sum())
    fitted_p, fitted_q = terms(found.each_p, found.each_q, reach)
    n_folds = len(fitted_p)
    in_sample = sum(mean_without(k, fitted_p[k], p) + mean_without(k, fitted_q[k], q) for k in range(n_folds)) / n_folds
    gap = in_sample - held_out
    lent_p, lent_q = terms(np.median(found.log_q, keepdims=True), np.median(found.log_p, keepdims=True), reach)
    variance = _error(of_p, lent_p, p) ** 2 + _error(of_q, lent_q, q) ** 2 + gap**2 / 2
    confirmed = held_out
    if kind == "kl":
        left = found.each_p @ (p.w / p.w.sum() * expit(found.log_p - math.log(reach)))
        without = np.array([mean_without(k, of_p, p) + mean_without(k, of_q, q) for k in range(n_folds)])
        variance += variance_of_fits(without, left)
        of_p, of_q = clipped_terms(found.log_p, found.log_q, reach)
        confirmed = float(p.w @ of_p / p.w.sum() + q.w @ of_q / q.w.sum())
    error = math.sqrt(variance)
    verdict, reason = _judged(kind, held_out, gap, error, found, p, q)
    raw = held_out if verdict == "unstable" else held_out + gap / 2
    value = min(max(raw, 0.0), _LARGEST.get(kind, math.inf))
    return Divergence(
        kind, value, error, raw, held_out, in_sample, confirmed, verdict, reason, found.log_p, found.log_q
    )


def _error(values: np.ndarray, lent: np.ndarray, sample: Sample) -> float:
    """Return the standard error of a mean of values (n,), with one row (1,) lent by the other sample.

    Of rows that are all alike none knows what others would be: with the lent row a share of 0 of n has an error of 1/n.
    """
    values, w = np.concatenate([values, lent]), np.append(sample.w, 1.0)
    share = w / w.sum()
    if not is_whole(w):
        return float(mean_and_error(values, share)[1])
    return math.sqrt(share @ (values - share @ values) ** 2 / (w.sum() - 1))


def _judged(
    kind: Kind, held_out: float, gap: float, error: float, found: CrossFitted, p: Sample, q: Sample
) -> tuple[Verdict, str]:
    n_p, n_q = p.w.sum(), q.w.sum()
    shared = p.w[found.log_p <= 0].sum() + q.w[found.log_q >= 0].sum()
    bound: Verdict = "near the ln n ceiling" if kind == "kl" else "lower bound"
    if shared < _FEW:
        told = f"the samples are told apart but for {shared:.3g} of {n_p + n_q:.0f} rows"
        return bound, f"{told}: how far apart they are, no sample of this size can tell."
    beyond = p.w[found.log_p > math.log(n_q)].sum() / n_p
    if kind == "kl" and beyond > _SOME:
        told = f"{beyond:.0%} of the rows have a ratio above the {n_q:.0f} rows of the other sample"
        return bound, f"{told}, which cannot confirm it: there the value rests on the form of the ratio."
    if kind == "pearson" and (told := _cut(found, p, q)):
        return bound, told
    if is_wrong(held_out, error):
        return "unstable", f"on rows not seen the ratio does worse than none ({held_out:.3g}): give another."
    if gap > max(_LARGE_GAP * abs(held_out), _SMALL):
        told = f"the ratio shows {held_out + gap:.3g} on the rows it was fitted to, and {held_out:.3g} on others"
        return "unstable", f"{told}: it has overfitted. Give more rows, or a simpler ratio."
    if abs(held_out + gap / 2) < 2 * error:
        return "trustworthy", "the interval holds 0: this ratio sees no difference."
    return "trustworthy", f"fitted rows and others agree to {abs(gap):.2g}, and {shared:.0f} rows are where both are."


def _cut(found: CrossFitted, p: Sample, q: Sample) -> str:
    """Return why squares of ratios are too large for their mean to be known; nothing, if they are not."""
    n_q = q.w.sum()
    cut = p.w[found.log_p > math.log(n_q) / 2].sum() + q.w[found.log_q > math.log(n_q) / 2].sum()
    if cut > 0:
        return f"{cut:.3g} rows have a ratio above √n = {math.sqrt(n_q):.3g}, at which it is cut off."
    squares = np.exp(2 * (found.log_q - found.log_q.max()))
    draws = (q.w @ squares) ** 2 / (q.w @ squares**2)
    if draws < _FEW_DRAWS:
        return f"the squares of the ratios are worth {draws:.0f} draws: larger ones are hardly seen yet."
    return ""


def mean_without(k: int, values: np.ndarray, sample: Sample) -> float:
    """Return the mean of the values (n,) of all rows but those of a fold."""
    rest = sample.w * (sample.fold != k)
    return float(rest @ values / rest.sum())


def variance_of_fits(without: np.ndarray, of_fits: np.ndarray) -> float:
    """Return what fits add to the variance of an estimate, by the jackknife over folds.

    A variance from k folds is itself uncertain: it is raised by (k + 1) / (k - 1), about as Student's law asks.

    Parameters
    ----------
    without
        The estimate without the rows of each fold, of shape (n_folds,).
    of_fits
        What the fit without the fold adds to it, of shape (n_folds,).
    """
    k = len(without)
    return max(_jackknife(without + of_fits) - _jackknife(without), 0.0) * (k + 1) / (k - 1)


def _jackknife(without: np.ndarray) -> float:
    return float(np.square(without - without.mean()).sum()) * (len(without) - 1) / len(without)


def kl_terms(log_p: np.ndarray, log_q: np.ndarray, reach: float) -> tuple[np.ndarray, np.ndarray]:
    r"""Return what rows of p and of q, (n_p,) and (n_q,), add to KL(p ‖ q).

    .. math:: \mathrm{mean}_p \Big[\log r + \frac{1}{1 + r/m}\Big] - \mathrm{mean}_q \frac{r}{1 + r/m}

    For the true ratio the two fractions cancel, whatever m is, which is `reach`.
    """
    log_m = math.log(reach)
    return log_p + expit(log_m - log_p), -reach * expit(log_q - log_m)


def clipped_terms(log_p: np.ndarray, log_q: np.ndarray, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """Return what rows of p and of q, (n_p,) and (n_q,), add to the bound of KL(p ‖ q) by ratios up to `reach`."""
    log_m = math.log(reach)
    return np.minimum(log_p, log_m) + 1, -np.exp(np.minimum(log_q, log_m))


def _js_terms(log_p: np.ndarray, log_q: np.ndarray, reach: float) -> tuple[np.ndarray, np.ndarray]:
    return (math.log(2) + log_expit(log_p)) / 2, (math.log(2) + log_expit(-log_q)) / 2


def _pearson_terms(log_p: np.ndarray, log_q: np.ndarray, reach: float) -> tuple[np.ndarray, np.ndarray]:
    r_p, r_q = (np.exp(np.minimum(log_r, math.log(reach))) for log_r in (log_p, log_q))
    return 2 * (r_p - 1), 1 - r_q**2


def _tv_terms(log_p: np.ndarray, log_q: np.ndarray, reach: float) -> tuple[np.ndarray, np.ndarray]:
    return (log_p > 0).astype(np.float64), -(log_q > 0).astype(np.float64)


def _hellinger_terms(log_p: np.ndarray, log_q: np.ndarray, reach: float) -> tuple[np.ndarray, np.ndarray]:
    largest = 2 * math.log(reach)
    return (1 - np.exp(np.minimum(-log_p, largest) / 2)) / 2, (1 - np.exp(np.minimum(log_q, largest) / 2)) / 2


_TERMS: dict[str, Callable[[np.ndarray, np.ndarray, float], tuple[np.ndarray, np.ndarray]]] = {
    "kl": kl_terms,
    "js": _js_terms,
    "pearson": _pearson_terms,
    "tv": _tv_terms,
    "hellinger": _hellinger_terms,
}
