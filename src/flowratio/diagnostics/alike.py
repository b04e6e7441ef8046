"""What is true of weights if no check finds a difference between p and q: they are not needed."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from flowratio.diagnostics.balance import Balance
from flowratio.diagnostics.overlap import Overlap
from flowratio.diagnostics.residual import Residual
from flowratio.diagnostics.scored_sample import Separation
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.diagnostics.verdict import Finding

_NONE = "No difference found between p and q"


def is_distinguished(score: float, score_error: float) -> bool:
    """Return whether a held-out score is more than 3 standard errors, and more than rounding, above 0."""
    return score > max(THRESHOLDS.z * score_error, THRESHOLDS.rounding)


def is_alike(
    score: tuple[float, float], own: Separation, left: Separation, rest: Residual, balance: Balance, overlap: Overlap
) -> bool:
    """Return whether r = 1 agrees with all checks. `score` is the held-out score and its standard error.

    `own` and `left` are the separations by log r and by a classifier after weighting.
    """
    error = math.sqrt(1 / overlap.n_p + 1 / overlap.n_q)  # of a standardized mean difference
    chance = float(-ndtri(THRESHOLDS.chance / 2 / len(balance.before))) + THRESHOLDS.skew
    corrected = score[0] + max(rest.gain, 0.0), math.hypot(score[1], rest.standard_error)  # score of a flexible ratio
    is_different = is_distinguished(*score) or is_distinguished(*corrected) or max(abs(own.z), left.z) > THRESHOLDS.z
    return not is_different and bool((np.abs(balance.before) <= chance * error).all())


def weights_not_needed(overlap: Overlap) -> tuple[list[Finding], list[str]]:
    """Return what to know about weights that are not needed, as problems and as notes."""
    size = f"The effective sample size is {overlap.ess_q:.0f} of {overlap.n_q:.0f}"
    if overlap.ess_q >= THRESHOLDS.harmless * overlap.n_q:
        return [], [f"{_NONE}: weights are not needed. All weights are near 1. {size}."]
    return [Finding(f"{_NONE}: these weights only add noise. {size}. Use no weights.", False)], []
