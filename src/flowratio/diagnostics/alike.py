"""What is true of weights if no check finds a difference between p and q: they are not needed."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from flowratio._support.types import Matrix
from flowratio.diagnostics.balance import Balance
from flowratio.diagnostics.overlap import Overlap
from flowratio.diagnostics.scored_sample import Separation
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.diagnostics.verdict import Finding

_NONE = "The checks of this ratio find no difference between p and q"

_MAX_ROWS, _MAX_COLUMNS = 20_000, 100  # of the check of correlations
_MIN_ROWS = 10


class Noise(NamedTuple):
    """Whether log r is noise."""

    is_equal: bool  # no difference is found between p and q
    is_constant: bool  # and log r is nearly constant


def is_distinguished(score: float, score_error: float) -> bool:
    """Return whether a held-out score is more than 3 standard errors, and more than rounding, above 0."""
    return score > max(THRESHOLDS.z * score_error, THRESHOLDS.rounding)


def is_alike(
    score: tuple[float, float],
    corrected: tuple[float, float],
    own_z: float,
    left: Separation,
    balance: Balance,
    overlap: Overlap,
    rows: tuple[Matrix, Matrix],
) -> bool:
    """Return whether r = 1 agrees with all checks.

    `score` is the held-out score and its standard error, `corrected` that of the ratio after the correction of a
    flexible classifier, which also sees dependence. `own_z` is the evidence of a separation by log r, and `left` the
    separation by a classifier after weighting. `rows` are those of p and q, whose correlations are compared.
    """
    error = math.sqrt(1 / overlap.n_p + 1 / overlap.n_q)  # of a standardized mean difference
    chance = float(-ndtri(THRESHOLDS.alpha / 2 / len(balance.before)))
    is_seen = corrected[0] > max(THRESHOLDS.residual * corrected[1], THRESHOLDS.rounding)
    is_different = is_distinguished(*score) or is_seen or max(own_z, left.z) > THRESHOLDS.z
    is_balanced = bool((np.abs(balance.before) <= chance * error).all())
    return not is_different and is_balanced and have_same_correlations(*rows)


def have_same_correlations(X_p: Matrix, X_q: Matrix) -> bool:
    """Return whether no rank correlation of two columns differs by more than chance, at the level of a test.

    Fisher's transformation of a rank correlation has a variance of about 1.06 / (n - 3).
    """
    X_p, X_q = (X[:_MAX_ROWS, :_MAX_COLUMNS] for X in (X_p, X_q))
    if X_p.shape[1] < 2 or min(len(X_p), len(X_q)) < _MIN_ROWS:
        return True
    i, j = np.triu_indices(X_p.shape[1], 1)
    with np.errstate(invalid="ignore", divide="ignore"):  # constant columns
        rho_p, rho_q = (np.corrcoef(rankdata(X, axis=0), rowvar=False)[i, j] for X in (X_p, X_q))
        size = np.abs(np.arctanh(rho_p) - np.arctanh(rho_q))
    error = math.sqrt(1.06 * (1 / (len(X_p) - 3) + 1 / (len(X_q) - 3)))
    return not bool((size > -ndtri(THRESHOLDS.alpha / 2 / len(i)) * error).any())


def evidence_of(own: Separation, overlap: Overlap, is_cross_fitted: bool) -> float:
    """Return the standard errors by which log r separates p from q, in either direction.

    Cross-fitted log-ratios without signal are negatively correlated with the labels: a row that is held out is missing
    in the mean of its own sample. For such log-ratios a negative separation is no evidence if they hardly vary.
    """
    return own.z if is_cross_fitted and is_harmless(overlap) else abs(own.z)


def is_harmless(overlap: Overlap) -> bool:
    """Return whether log r is nearly constant: weights leave at least 90 % of the rows as effective sample size."""
    return overlap.ess_q >= THRESHOLDS.harmless * overlap.n_q


def weights_not_needed(overlap: Overlap) -> tuple[list[Finding], list[str]]:
    """Return what to know about weights that are not needed, as problems and as notes."""
    size = f"The effective sample size is {overlap.ess_q:.0f} of {overlap.n_q:.0f}"
    if is_harmless(overlap):
        return [], [f"{_NONE}. Weights are not needed. All weights are near 1. {size}."]
    return [Finding(f"{_NONE}, so these weights only add noise. {size}. Do not use weights.", False)], []
