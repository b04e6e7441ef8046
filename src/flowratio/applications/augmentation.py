"""Synthetic rows next to real ones: how much each synthetic row should count in training."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np

from flowratio._support.errors import ArgumentError
from flowratio._support.types import TableLike, Vector
from flowratio._support.validation import RandomState, seed_from
from flowratio.applications.crossfit import cross_fit, folds_of, ratio_to_fit
from flowratio.applications.weight_checks import warn_of_inversion
from flowratio.ratios.base import OverlapWarning
from flowratio.ratios.inverse import InverseRatio
from flowratio.ratios.registry import is_ready, log_ratio_of
from flowratio.ratios.shared_support import shared_support
from flowratio.samples.two_samples import TwoSamples, two_samples
from flowratio.weights import ratios_from_logs, self_normalize, temper


def augmentation_weights(
    X_real: TableLike,
    X_synthetic: TableLike,
    ratio: Any = None,
    *,
    gamma: float | None = None,
    normalize: Literal["mean", "sum"] | None = "mean",
    n_folds: int = 5,
    random_state: RandomState = None,
) -> Vector:
    r"""Return weights of synthetic rows, (n_synthetic, d) to (n_synthetic,), in the order of the rows.

    .. math:: w_i \propto r(x_i)^\gamma, \qquad r = p/q

    p is the real sample (y = 1), q the synthetic one. Each row is weighted by a ratio that was fitted without it. A
    synthetic row counts less where a generator draws too many rows, or unrealistic ones. Real rows have the weight 1.
    An `OverlapWarning` is issued if the weights depend on a handful of synthetic rows, or if part of the real rows lies
    where there are hardly any synthetic rows. It names columns that alone separate the samples.

    Parameters
    ----------
    X_real, X_synthetic
        Rows of both samples, of shapes (n_real, d) and (n_synthetic, d), or (n_real,) and (n_synthetic,) for one
        column, without labels: arrays, or tables with text, dates and missing values, matched by name.
    ratio
        A ratio, or its name. A fitted ratio (real rows are y = 1), or a fitted pipeline that ends with one, is used
        unchanged: fit it to other rows. A warning is issued if it looks inverted. None for what `AutoRatio()` chooses.
    gamma
        The power of the ratios, 0 or more. Below 1 weights become more equal. The paper uses 0.2 in latent space. None
        for 1.
    normalize
        `"mean"`: their mean is 1, for use as `sample_weight` next to real rows of weight 1. `"sum"`: their sum is 1.
        None: they are :math:`r^\gamma` itself.
    n_folds, random_state
        Number of folds, and seed of the folds and of the ratio.

    References
    ----------
    .. [1] Grover et al. (2019). *Bias Correction of Learned Generative Models using … Importance Weighting.* NeurIPS.
    .. [2] Choi, Liao, Ermon (2021). *Featurized Density Ratio Estimation.* UAI.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X_real, X_synthetic = rng.normal(0.5, 1, size=(1000, 2)), rng.normal(0, 1, size=(3000, 2))
    >>> w = augmentation_weights(X_real, X_synthetic, "logistic", random_state=0)
    >>> bool(abs(np.average(X_synthetic.mean(axis=1), weights=w) - 0.5) < 0.1)
    True
    >>> sample_weight = np.concatenate([np.ones(1000), w])  # of X_real and X_synthetic, for an estimator
    """
    if normalize not in ("mean", "sum", None):
        raise ArgumentError("normalize", f"`normalize` is {normalize!r}. Use 'mean', 'sum' or None.")
    power = 1.0 if gamma is None else gamma
    temper([0.0], power)  # refused before anything is fitted
    if isinstance(ratio, InverseRatio) and not is_ready(ratio):
        raise TypeError(f"`ratio` is {ratio!r}, which is synthetic/real. Give the ratio real/synthetic.")
    if is_ready(ratio):
        samples = None
        log_p, log_q = (np.asarray(log_ratio_of(ratio)(X), np.float64) for X in (X_real, X_synthetic))
        warn_of_inversion(log_q, np.ones(len(log_q)), "X_real", "X_synthetic")
    else:
        samples, seed = two_samples(X_real, X_synthetic, arguments=("X_real", "X_synthetic")), seed_from(random_state)
        fold = folds_of(samples, n_folds, np.random.default_rng([seed, 0]))
        scores = cross_fit(ratio_to_fit(ratio, samples, seed), samples, fold, seed)
        log_p, log_q = scores.p.log_r, scores.q.log_weights
    log_w, n = temper(log_q, power), len(log_q)
    support = shared_support(log_p, np.ones(len(log_p)), log_q, np.ones(n), power)
    if support.is_poor:
        samples = samples or _silent_samples(X_real, X_synthetic)
        text = support.problem(samples, ("X_real", "X_synthetic"), "Use a `gamma` below 1, or a better generator.")
        warnings.warn(text, OverlapWarning, stacklevel=2)
    if normalize is None:
        return ratios_from_logs(log_w)
    return self_normalize(log_w, total=n if normalize == "mean" else 1.0)


def _silent_samples(X_real: TableLike, X_synthetic: TableLike) -> TwoSamples:
    """Return both samples, to name columns for a fitted ratio, which has encoded its rows in its own way."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return two_samples(X_real, X_synthetic, arguments=("X_real", "X_synthetic"))
