"""From numbers to words: what is wrong with a ratio, and whether it can be trusted.

A finding must be beyond chance and large enough to matter: of a million rows every estimate is beyond chance wrong, and
of fifty rows every one looks large. All rules look at weights r on rows of q; for 1/r, diagnose the inverse ratio.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.special import ndtri

from flowratio.diagnostics.balance import Balance
from flowratio.diagnostics.identities import BoundedIdentity, Identities
from flowratio.diagnostics.overlap import FEWEST_DRAWS, Overlap
from flowratio.diagnostics.reliability import Calibration
from flowratio.diagnostics.scored_sample import Scored, Separation
from flowratio.ratios.base import are_few
from flowratio.weights import largest_k_hat

Verdict: TypeAlias = Literal["good", "usable with care", "do not trust"]

_BEYOND = 0.15  # share of rows of p beyond all of q in a column: of normal laws 2 deviations apart, 14 % of 1000
_Z = 3.0  # standard errors that are beyond chance
_Z_SKEWED = 4.0  # the same for means of r and 1/r, whose errors are skewed
_CHANCE = 1e-3  # p-values that are
_SLOPE = 1.15  # a factor of log r that matters
_FEWEST_ROWS = 25  # of fewer no tail can be told


class Finding(NamedTuple):
    """Something wrong, in words, and whether it is so wrong that the ratio is not to be trusted."""

    words: str
    grave: bool


def verdict_of(findings: list[Finding]) -> Verdict:
    """Return the verdict.

    Examples
    --------
    >>> verdict_of([]), verdict_of([Finding("few rows", grave=False)])
    ('good', 'usable with care')
    """
    if any(finding.grave for finding in findings):
        return "do not trust"
    return "usable with care" if findings else "good"


def direction(own: Separation, score: float, score_error: float) -> list[Finding]:
    """Look whether rows of p have the larger log r, and whether r tells more than r = 1 does."""
    if own.auc < 0.5 and own.z < -_Z:
        return [
            Finding(
                f"The ratio may be inverted: log r is larger on rows of q than on rows of p in {1 - own.auc:.0%} of "
                "pairs. r = p/q and p is y = 1: look whether the samples were swapped, or take 1/r.",
                True,
            )
        ]
    if score < -_Z * score_error - 0.01:  # an estimate of r = 1 is a little worse than 1
        return [
            Finding(
                f"The ratio tells less than none: its score is {score:.3g} nats, and r = 1 everywhere has 0. It is "
                "overfitted, or these rows are from other distributions than those that were fitted.",
                True,
            )
        ]
    return []


def few_draws(found: Overlap) -> list[Finding]:
    """Look at effective draws, the tail of the weights, and rows of p beyond q."""
    findings = []
    if are_few(found.draws_q, found.n_q):
        findings.append(
            Finding(
                f"{found.draws_q:.3g} effective draws of {found.n_q:.0f}: weighted means rest on a handful of rows of "
                "q. Get more rows of q, or temper the weights: flatten or truncate them.",
                found.draws_q <= FEWEST_DRAWS,
            )
        )
    largest = largest_k_hat(found.n_q)
    if found.k_hat_q == math.inf and (found.n_q < _FEWEST_ROWS or found.draws_q <= found.n_q / 2):
        few = "rows" if found.n_q < _FEWEST_ROWS else "distinct weights"
        findings.append(
            Finding(
                f"Too few {few} to tell the tail: Pareto k̂ is unknown, and {found.draws_q:.3g} effective draws of "
                f"{found.n_q:.0f} are all that is known of the weights.",
                False,
            )
        )
    elif math.isfinite(found.k_hat_q) and found.k_hat_q > largest:
        findings.append(
            Finding(
                f"Pareto k̂ of the weights is {found.k_hat_q:.2f}, above {largest:.2g}: their upper tail is so heavy "
                "that weighted means and their standard errors cannot be trusted. Smooth or truncate them.",
                found.k_hat_q > 1,
            )
        )
    if found.share_p_beyond_q > 0.01:
        findings.append(
            Finding(
                f"{np.count_nonzero(found.p_beyond_q)} rows of p ({found.share_p_beyond_q:.1%}) lie where fewer than "
                "one row of q is expected: no row of q can stand for them.",
                found.share_p_beyond_q > 0.25,
            )
        )
    return findings


def out_of_range(p: Scored, q: Scored, names: list[str]) -> list[Finding]:
    """Look for columns in which rows of p lie beyond every row of q: whatever the ratio is, no weight reaches them."""
    low, high = q.X.min(axis=0), q.X.max(axis=0)
    share = 1 - p.share @ ((low <= p.X) & (high >= p.X))  # (d,)
    chance = 2 / (len(q.X) + 1)  # if p were q
    beyond = [j for j in np.argsort(-share, kind="stable") if share[j] > _BEYOND + 3 * chance]
    if not beyond:
        return []
    listed = ", ".join(f"{names[j]} ({share[j]:.0%})" for j in beyond[:3])
    more = f" and {len(beyond) - 3} more" if len(beyond) > 3 else ""
    return [
        Finding(
            f"Rows of p lie beyond every row of q in {listed}{more}: no row of q can stand for them. Judge p only "
            "where q is, or leave the column out.",
            bool(share.max() > 0.4),
        )
    ]


def log_factor_of(found: BoundedIdentity) -> float:
    """Return the log of the constant by which r is off, 0 where it is not beyond chance or does not matter."""
    return found.log_factor if abs(found.z) > _Z and abs(found.log_factor) > math.log(1.2) else 0.0


def wrong_scale(found: Identities, seen: Overlap) -> list[Finding]:
    """Look at the three identities; at those of r and 1/r only where their errors can be trusted."""
    log_factor = log_factor_of(found.bounded)
    if log_factor:
        larger, cure = ("large", "Divide") if log_factor > 0 else ("small", "Multiply")
        return [
            Finding(
                f"r is too {larger} by a factor of about {_factor(abs(log_factor))}: mean_q[r / (1 + r)] is "
                f"{found.bounded.mean_q:.3f} but mean_p[1 / (1 + r)] is {found.bounded.mean_p:.3f}, "
                f"{errors(found.bounded.z)} apart. {cure} it by this constant; self-normalized weights do not suffer "
                "from it.",
                False,
            )
        ]
    means = ("mean_q r", found.ratio_q, seen.reliable_q), ("mean_p 1/r", found.inverse_p, seen.reliable_p)
    for name, of, reliable in means:
        if reliable and abs(of.z) > _Z_SKEWED and abs(of.log_mean) > math.log(1.25):
            size = f"{name} is {_factor(of.log_mean)}, {errors(of.z)} from 1"
            return [Finding(f"{size}: the largest or smallest ratios are off.", False)]
    return []


def _lean(slope: float, slope_error: float) -> Literal["the wrong way", "too surely", "too timidly"] | None:
    """Return how a ratio tells p from q, if log r should be multiplied by a number that is not 1."""
    if abs(slope - 1) < _Z * slope_error or 1 / _SLOPE < slope < _SLOPE:
        return None
    if slope < 0:
        return "the wrong way"
    return "too surely" if slope < 1 else "too timidly"


def calibration_cure(slope: float, slope_error: float) -> str:
    """Say what to do about class probabilities that are off, by `Calibration.slope` and its error.

    Examples
    --------
    >>> calibration_cure(2.0, 0.1)
    'Fit with a weaker penalty, or a richer ratio'
    """
    return {
        "the wrong way": "Turn it over: take 1/r",
        "too surely": "Fit with a stronger penalty or more rows, or calibrate",
        "too timidly": "Fit with a weaker penalty, or a richer ratio",
        None: "Try another ratio, or calibrate",
    }[_lean(slope, slope_error)]


def miscalibrated(found: Calibration) -> list[Finding]:
    """Look at the reliability curve of a ratio that is off by no constant."""
    excess, how = found.error - found.noise, _lean(found.slope, found.slope_error)
    if found.p_value >= _CHANCE or excess < 0.025:
        return []
    told = f"r tells p from q {how}, and log r should be {found.slope:.2g} times what it is" if how else "see `plot()`"
    return [
        Finding(
            f"Class probabilities are off by {found.error:.3f} on average, and by chance would be by "
            f"{found.noise:.3f}: {told}. {calibration_cure(found.slope, found.slope_error)}.",
            excess > 0.1,
        )
    ]


def imbalanced(found: Balance, left: Separation, curve: Calibration, ess_q: float) -> list[Finding]:
    """Look at what is left between p and weighted q; of fewer than ten effective draws nothing can be said."""
    if ess_q < FEWEST_DRAWS:
        return []
    findings = []
    size = np.abs(found.after)
    chance = float(-ndtri(_CHANCE / 2 / len(size))) + 0.5  # weights are skewed, and so are means of a few draws
    bad = np.flatnonzero((size > 0.1) & (size > chance * found.standard_error))
    if len(bad):
        worst = bad[np.argsort(-size[bad])]
        listed = ", ".join(f"{found.names[j]} ({found.before[j]:+.2f} to {found.after[j]:+.2f})" for j in worst[:3])
        more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
        findings.append(
            Finding(
                f"Weighting leaves standardized mean differences above 0.1 in {len(bad)} of {len(size)} columns: "
                f"{listed}{more}. {_cure(curve, [found.names[j] for j in worst[:3]])}",
                float(size[bad].max()) > 0.5,
            )
        )
    if left.z > _Z and left.auc > 0.6:
        cure = "" if findings else f" {_cure(curve, _odd_columns(found))}"
        findings.append(
            Finding(
                f"After weighting a simple classifier still tells p from q: it is right in {left.auc:.0%} of pairs of "
                f"held-out rows, {errors(left.z)} above one half.{cure}",
                left.auc > 0.7,
            )
        )
    return findings


def _cure(curve: Calibration, columns: list[str]) -> str:
    """Say what to do about columns that weighting leaves apart."""
    how = _lean(curve.slope, curve.slope_error)
    if how is not None:
        return f"The ratio tells p from q {how}: mend that first."
    missing = f"it misses what {' and '.join(columns)} tell{'s' * (len(columns) == 1)}"
    return f"Try a richer ratio, such as 'quadratic' or 'boosting': {missing}."


def _odd_columns(found: Balance) -> list[str]:
    """Name up to three columns whose mean or spread differs most after weighting."""
    off = np.maximum(np.abs(found.after), np.abs(np.log(found.deviation_after)))
    return [found.names[j] for j in np.argsort(-off, kind="stable")[:3] if off[j] >= off.max() / 2]


def errors(z: float) -> str:
    """Write how many standard errors something is off, whichever way.

    Examples
    --------
    >>> errors(-3.21), errors(1e6)
    ('3.2 standard errors', 'over 1000 standard errors')
    """
    return f"{abs(z):.1f} standard errors" if abs(z) < 1000 else "over 1000 standard errors"


def _factor(log_size: float) -> str:
    """Write a number by its log: in digits where they are few.

    Examples
    --------
    >>> _factor(1.1), _factor(800.0)
    ('3', 'e^800')
    """
    return f"{math.exp(log_size):.3g}" if abs(log_size) < 20 else f"e^{log_size:.0f}"
