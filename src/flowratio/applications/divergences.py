r"""Divergences between two samples, each as the bound that a ratio of rows not seen attains, with a standard error.

Every f-divergence has a variational form, with the conjugate f* of f, that is stationary at the true ratio:

.. math:: D_f = \mathrm{mean}_q f(r) \ge \mathrm{mean}_p f'(\hat r) - \mathrm{mean}_q f^*(f'(\hat r))

An error of the estimated log-ratio then enters squared only, and the standard error is that of two means.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import expit, log_expit, ndtri

from flowratio.applications.crossfit import CrossFitted, Sample, check_folds, chosen_ratio, cross_fit, folds
from flowratio.samples import check_samples, checked_weights
from flowratio.settings import RandomState, seed_from

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


@dataclass(frozen=True)
class Divergence:
    """A divergence between two samples, and how well it is known. It prints as a line.

    Parameters
    ----------
    kind
        One of `KINDS`.
    value
        In nats where there is a logarithm; never below 0.
    standard_error
        Of the value before it is cut off at 0.
    raw
        That value: on rows not seen it may be negative where p and q can hardly be told apart.
    log_p, log_q
        log r of the rows of p and of q, by models that have not seen them, of shapes (n_p,) and (n_q,).
    """

    kind: Kind
    value: float
    standard_error: float
    raw: float
    log_p: np.ndarray
    log_q: np.ndarray

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return an interval that covers the divergence with this probability, if its estimate is normal."""
        return interval(self.raw, self.standard_error, level, _LARGEST.get(self.kind, math.inf))

    def __str__(self) -> str:
        unit = " nats" if self.kind in ("kl", "reverse-kl", "js") else ""
        low, high = self.interval()
        name = KINDS[self.kind]
        return f"{name}: {self.value:.4g} ± {self.standard_error:.2g}{unit} (95 %: {low:.4g} to {high:.4g})"

    __repr__ = __str__


def interval(raw: float, standard_error: float, level: float, largest: float = math.inf) -> tuple[float, float]:
    """Return the two ends of a normal interval, cut off at 0 and at the largest value that there is."""
    if not 0 < level < 1:
        raise ValueError(f"`level` is {level!r}: give a probability between 0 and 1, such as 0.95.")
    reach = float(ndtri(0.5 + level / 2)) * standard_error
    return min(max(raw - reach, 0.0), largest), min(max(raw + reach, 0.0), largest)


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

    Notes
    -----
    All but Kullback–Leibler and Pearson are means of bounded numbers, or of numbers with a variance. The correction
    mean_q r of KL is ruled by few rows where p and q are far apart. There each row is damped by 1 / (1 + r/√n): what
    is left is mean_p log r, whose error is that of the ratio, and the standard error has a part for it, from the
    spread of the models of the folds. Pearson's divergence is the bound of ratios up to √n: beyond that no sample of
    this size can tell it.

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
    if kind not in KINDS:
        raise ValueError(f"`kind` is {kind!r}: give one of {', '.join(KINDS)}.")
    p, q, seed = two_samples(X_p, X_q, sample_weight_p, sample_weight_q, n_folds, random_state)
    return estimate(kind, cross_fit(chosen_ratio(ratio, p, q, seed), p, q, seed), p, q)


def two_samples(
    X_p: Any, X_q: Any, sample_weight_p: Any, sample_weight_q: Any, n_folds: Any, random_state: RandomState
) -> tuple[Sample, Sample, int]:
    """Return two samples with weights and folds, and the seed."""
    A_p, A_q = check_samples(X_p, X_q)
    seed = seed_from(random_state)
    weights = [
        checked_weights(given, len(A), f"sample_weight_{name}")
        for given, A, name in ((sample_weight_p, A_p, "p"), (sample_weight_q, A_q, "q"))
    ]
    k = check_folds(n_folds, min(len(A_p), len(A_q)))
    rng = np.random.default_rng([seed, 0, 7])
    p, q = (Sample(A, w, folds(len(A), k, rng)) for A, w in zip((A_p, A_q), weights, strict=True))
    return p, q, seed


def estimate(kind: Kind, found: CrossFitted, p: Sample, q: Sample) -> Divergence:
    """Return a divergence from log-ratios of rows not seen."""
    if kind == "reverse-kl":
        swapped = estimate("kl", found.swapped(), q, p)
        return Divergence(kind, swapped.value, swapped.standard_error, swapped.raw, found.log_p, found.log_q)
    reach = math.sqrt(len(found.log_q))
    of_p, of_q = _TERMS[kind](found.log_p, found.log_q, reach)
    (mean_p, variance_p), (mean_q, variance_q) = mean_and_variance(of_p, p.w), mean_and_variance(of_q, q.w)
    raw, variance = mean_p + mean_q, variance_p + variance_q
    if kind == "kl":
        left = found.each_p @ (p.w / p.w.sum() * expit(found.log_p - math.log(reach)))
        without = [mean_without(k, of_p, p) + mean_without(k, of_q, q) for k in range(len(left))]
        variance += max(jackknife(without + left) - jackknife(np.array(without)), 0.0)
    value = min(max(raw, 0.0), _LARGEST.get(kind, math.inf))
    return Divergence(kind, value, math.sqrt(variance), raw, found.log_p, found.log_q)


def mean_and_variance(values: np.ndarray, w: np.ndarray) -> tuple[float, float]:
    """Return the mean of values (n,) with weights (n,), and the square of its standard error."""
    share = w / w.sum()
    mean = float(share @ values)
    return mean, float(share**2 @ (values - mean) ** 2) * len(values) / max(len(values) - 1, 1)


def mean_without(k: int, values: np.ndarray, sample: Sample) -> float:
    """Return the mean of the values (n,) of all rows but those of a fold."""
    rest = sample.w * (sample.fold != k)
    return float(rest @ values / rest.sum())


def jackknife(without: np.ndarray) -> float:
    """Return the variance of an estimate, given its values without each of the folds."""
    return float(np.square(without - without.mean()).sum()) * (len(without) - 1) / len(without)


def kl_terms(log_p: np.ndarray, log_q: np.ndarray, reach: float) -> tuple[np.ndarray, np.ndarray]:
    r"""Return what rows of p and of q, (n_p,) and (n_q,), add to KL(p ‖ q).

    .. math:: \mathrm{mean}_p \Big[\log r + \frac{1}{1 + r/m}\Big] - \mathrm{mean}_q \frac{r}{1 + r/m}

    For the true ratio the two fractions cancel, whatever m is, which is `reach`.
    """
    log_m = math.log(reach)
    return log_p + expit(log_m - log_p), -reach * expit(log_q - log_m)


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
