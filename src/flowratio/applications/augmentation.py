r"""Synthetic rows beside real ones: how much each synthetic row should count for what is learned from both.

With p the real rows and q the synthetic ones, a mean over the first is a weighted mean over the second,

.. math:: \mathrm{mean}_p\, g = \mathrm{mean}_q\, r g, \qquad w_i \propto r(x_i)^\gamma

so that a synthetic row counts less where a generator draws too many, or rows that could not be real.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np

from flowratio._support.validation import RandomState, seed_from
from flowratio.applications.crossfit import CrossFitted, Sample, check_folds, chosen_ratio, cross_fit, folds
from flowratio.ratios.base import OverlapWarning, are_few, effective_draws
from flowratio.ratios.inverse import InverseRatio
from flowratio.ratios.registry import is_ready, log_ratio_of
from flowratio.samples.stacking import check_samples
from flowratio.weights import effective_sample_size, flatten, self_normalize

_LARGEST = np.finfo(np.float64).max


def augmentation_weights(
    X_real: Any,
    X_synthetic: Any,
    ratio: Any = None,
    *,
    gamma: float | None = None,
    normalize: Literal["mean", "sum"] | None = "mean",
    n_folds: int = 5,
    random_state: RandomState = None,
) -> np.ndarray:
    r"""Return weights of synthetic rows, (n_synthetic, d) to (n_synthetic,), in the order of the rows.

    .. math:: w_i \propto r(x_i)^\gamma, \qquad r = p/q

    p is the real sample (y = 1), q the synthetic one. A ratio that has seen a row knows it to be synthetic: here each
    row is weighted by a ratio that was fitted without it. Real rows need no weights: theirs is 1. If the weights rest
    on a handful of synthetic rows, an `OverlapWarning` says so.

    Parameters
    ----------
    X_real, X_synthetic
        Rows of both samples, of shapes (n_real, d) and (n_synthetic, d). Labels, if there are any, are left aside.
    ratio
        A ratio, or its name: of x, or of z by a `FeaturizedRatio`. One that is fitted (real rows are y = 1), or a
        fitted pipeline that ends with one, is used as it is, and should have been fitted to other rows. None for what
        `AutoRatio` chooses in a minute.
    gamma
        The power to which ratios are raised, 0 or more: below 1 weights become more alike. The paper takes 0.2 in z.
        None for 1.
    normalize
        `"mean"`: their mean is 1, as a `sample_weight` beside real rows of weight 1; `"sum"`: their sum is 1; None:
        they are :math:`r^\gamma` itself.
    n_folds
        Parts of the samples: a row is weighted by a ratio that was fitted without its part.
    random_state
        Seed of the folds and of the ratio.

    References
    ----------
    .. [1] Grover et al. (2019). *Bias Correction of Learned Generative Models using Likelihood-Free Importance
       Weighting.* NeurIPS.
    .. [2] Choi, Liao, Ermon (2021). *Featurized Density Ratio Estimation.* UAI.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X_real, X_synthetic = rng.normal(0.5, 1, size=(1000, 2)), rng.normal(0, 1, size=(3000, 2))
    >>> w = augmentation_weights(X_real, X_synthetic, "logistic", random_state=0)
    >>> bool(abs(np.average(X_synthetic.mean(axis=1), weights=w) - 0.5) < 0.1)
    True

    For a learner that takes weights, real rows count 1:

    >>> X, sample_weight = np.concatenate([X_real, X_synthetic]), np.concatenate([np.ones(1000), w])

    For a network that is trained by batches, rows can be drawn by their weights instead:

    >>> from torch.utils.data import WeightedRandomSampler
    >>> sampler = WeightedRandomSampler(sample_weight.tolist(), num_samples=4000)
    """
    if normalize not in ("mean", "sum", None):
        raise ValueError(f"`normalize` is {normalize!r}: give 'mean', 'sum' or None.")
    flatten([0.0], 1.0 if gamma is None else gamma)  # refused before anything is fitted
    if isinstance(ratio, InverseRatio):
        raise TypeError(f"`ratio` is {ratio!r}, which is synthetic/real: give the ratio real/synthetic.")
    if is_ready(ratio):
        log_p, log_r = (np.asarray(log_ratio_of(ratio)(X), np.float64) for X in (X_real, X_synthetic))
    else:
        A_real, A_synthetic = check_samples(X_real, X_synthetic, names=("X_real", "X_synthetic"))
        found = _held_out(A_real, A_synthetic, ratio, n_folds, seed_from(random_state))
        log_p, log_r = found.log_p, found.log_q
    power = 1.0 if gamma is None else float(gamma)
    log_w, n = flatten(log_r, power), len(log_r)
    draws = min(effective_sample_size(log_w), effective_draws(log_p, np.ones(len(log_p)), log_r, np.ones(n), n, power))
    if are_few(draws, n):
        warnings.warn(
            f"{draws:.3g} effective rows of {n}: real and synthetic rows hardly overlap, and the weights rest on a "
            "handful of synthetic rows. Use a `gamma` below 1, or a better generator.",
            OverlapWarning,
            stacklevel=2,
        )
    if normalize is None:
        return np.exp(np.minimum(log_w, np.log(_LARGEST)))
    return self_normalize(log_w, total=len(log_w) if normalize == "mean" else 1.0)


def _held_out(X_real: np.ndarray, X_synthetic: np.ndarray, ratio: Any, n_folds: Any, seed: int) -> CrossFitted:
    """Return log r of both samples by ratios that have not seen the row."""
    n_folds = check_folds(n_folds, min(len(X_real), len(X_synthetic)))
    rng = np.random.default_rng([seed, 0])
    p, q = (Sample(X, np.ones(len(X)), folds(len(X), n_folds, rng)) for X in (X_real, X_synthetic))
    return cross_fit(chosen_ratio(ratio, p, q, seed), p, q, seed)
