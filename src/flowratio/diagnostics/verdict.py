"""From numbers to a verdict: what is wrong with a ratio, and whether to use weights r on rows of q.

A finding must be beyond chance and large enough to matter. For weights 1/r, diagnose the inverse.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from flowratio._support.types import Vector
from flowratio._support.wording import Words, first_of, in_percent, shown
from flowratio.diagnostics.balance import Balance
from flowratio.diagnostics.identities import BoundedIdentity, Identities
from flowratio.diagnostics.overlap import Overlap
from flowratio.diagnostics.reliability import Reliability
from flowratio.diagnostics.scored_sample import ScoredSample, Separation
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.weights import is_small, largest_k_hat


class Verdict(Words):
    """Whether to use an estimate."""

    RELIABLE = "reliable"
    CARE = "use with care"
    DO_NOT_USE = "do not use"


class TestVerdict(Words):
    """What a two-sample test concludes, at the level 0.05."""

    __test__ = False  # pytest takes a class of this name for tests
    DIFFER = "the files differ"
    NO_DIFFERENCE = "no difference found"


class Lean(Words):
    """How a ratio is wrong if log r must be multiplied by a number that is not 1."""

    INVERTED = "inverted"
    OVERCONFIDENT = "overconfident"
    UNDERCONFIDENT = "underconfident"
    NONE = "neither"


_NAMED = 3  # columns that a finding names
_NO_SPREAD = 1000.0  # standardized difference from which on a column hardly varies within the samples
_ADVICE = {
    Lean.INVERTED: "Use 1/r instead",
    Lean.OVERCONFIDENT: "Fit with a stronger penalty or more rows, or calibrate",
    Lean.UNDERCONFIDENT: "Fit with a weaker penalty, or use a more flexible ratio",
    Lean.NONE: "Try another ratio, or calibrate",
}


class Finding(NamedTuple):
    """A problem in words, and whether it is so grave that the ratio should not be used."""

    words: str
    grave: bool


def grave_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings, those that decide a verdict *do not use* first."""
    return sorted(findings, key=lambda finding: not finding.grave)


def verdict_of(findings: list[Finding]) -> Verdict:
    """Return the verdict."""
    if any(finding.grave for finding in findings):
        return Verdict.DO_NOT_USE
    return Verdict.CARE if findings else Verdict.RELIABLE


def verdict_text(verdict: Verdict | TestVerdict | str, reason: str) -> str:
    """Return a verdict and its reason as sentences, as every result prints them."""
    return f"Verdict: {verdict}. {reason[:1].upper()}{reason[1:]}".rstrip()


def direction(own: Separation, score: float, score_error: float) -> list[Finding]:
    """Check that rows of p have the larger log r, and that r scores more than r = 1."""
    if own.auc < 0.5 and own.z < -THRESHOLDS.z:
        words = f"The ratio may be inverted: rows of q have the larger log r in {in_percent(1 - own.auc)} of pairs."
        return [Finding(f"{words} r = p/q and p is y = 1. Check whether the samples are swapped, or use 1/r.", True)]
    if score < -THRESHOLDS.z * score_error - THRESHOLDS.worse_than_none:
        words = f"The ratio is worse than no ratio: its score is {score:.3g} nats, and r = 1 everywhere scores 0."
        return [Finding(f"{words} It is overfitted, or these rows come from other distributions.", True)]
    return []


def separated(columns: list[str]) -> list[Finding]:
    """Name the columns that alone separate the samples: all other problems can have this cause."""
    if not columns:
        return []
    names, verb, them = first_of(list(map(shown, columns)), _NAMED), "separates", "this column"
    if len(columns) > 1:
        verb, them = "separate", "these columns"
    words = f"{names} alone {verb} p and q: p and q do not overlap, and no weights can turn rows of q into rows of p."
    return [Finding(f"{words} Repeat without {them}.", True)]


def low_overlap(overlap: Overlap) -> list[Finding]:
    """Check the effective sample size, the tail of the weights, and rows of p beyond q."""
    if overlap.is_absent:
        words = "By this ratio, p and q do not overlap: q has hardly any rows where p lies, and no weights can turn"
        return [Finding(f"{words} rows of q into rows of p. Get more rows of q that look like p.", True)]
    findings = []
    size = f"The effective sample size is {overlap.ess_text} of {overlap.n_q:.0f}"
    if is_small(overlap.ess_q, overlap.n_q):
        words = f"{size}: weighted means depend on a handful of rows of q. Get more rows of q that look like p."
        findings.append(Finding(words, overlap.ess_q <= THRESHOLDS.fewest_ess))
    if overlap.headroom < THRESHOLDS.headroom:
        words = f"log n_q − KL(p ‖ q) is {overlap.headroom:.2g} nats, below {THRESHOLDS.headroom:g}: q has too few rows"
        words += " where p lies. Get more rows of q that look like p."
        findings.append(Finding(words, overlap.headroom < THRESHOLDS.headroom_grave))
    largest, few = largest_k_hat(overlap.n_q), overlap.n_q < THRESHOLDS.fewest_in_tail
    if overlap.k_hat_q == math.inf and (few or overlap.ess_q <= overlap.n_q / 2):
        words = f"Too few {'rows' if few else 'distinct weights'} to fit the tail of the weights: Pareto k̂ is unknown."
        findings.append(Finding(f"{words} {size}.", False))
    elif math.isfinite(overlap.k_hat_q) and overlap.k_hat_q > largest:
        words = f"Pareto k̂ of the weights is {overlap.k_hat_q:.2f}, above {largest:.2g}: their tail is too heavy for"
        words += " reliable weighted means and standard errors."
        is_heavy = overlap.k_hat_q > THRESHOLDS.heavy_k_hat and overlap.ess_q <= overlap.n_q / 2
        findings.append(Finding(words, is_heavy))
    if overlap.inflation_q > THRESHOLDS.inflation:
        words = "Rows of p have larger ratios than the rows of q show. Standard errors of weighted means are about"
        findings.append(Finding(f"{words} {overlap.inflation_q:.1f} times as large as rows of q suggest.", False))
    if overlap.share_p_beyond_q > THRESHOLDS.beyond:
        rows = f"{np.count_nonzero(overlap.p_beyond_q)} rows of p ({in_percent(overlap.share_p_beyond_q, 1)})"
        words = (
            f"{rows} have no counterpart: fewer than one such row of q is expected, or no row of q has their category."
        )
        findings.append(Finding(words, overlap.share_p_beyond_q > THRESHOLDS.beyond_grave))
    return findings


def out_of_range(p: ScoredSample, q: ScoredSample, names: list[str]) -> list[Finding]:
    """Find columns in which rows of p lie beyond every row of q: no weights can represent them."""
    low, high = q.X.min(axis=0), q.X.max(axis=0)
    share = 1 - p.share @ ((low <= p.X) & (high >= p.X))  # (d,)
    chance = 2 / (len(q.X) + 1)  # if p were q
    beyond = [j for j in np.argsort(-share, kind="stable") if share[j] > THRESHOLDS.outside + 3 * chance]
    if not beyond:
        return []
    columns = first_of([f"{shown(names[j])} ({in_percent(share[j])})" for j in beyond], _NAMED)
    words = f"Rows of p lie beyond every row of q in {columns}: no row of q represents them."
    words += " Draw conclusions about p only where q is, or drop the column."
    return [Finding(words, bool(share.max() > THRESHOLDS.outside_grave))]


def far_out(p: ScoredSample, q: ScoredSample, names: list[str]) -> list[Finding]:
    """Find rows of p so far from q that log r is extrapolated, however few they are."""
    low, high = q.X.min(axis=0), q.X.max(axis=0)
    reach = THRESHOLDS.far * (high - low)
    n_far: Any = np.count_nonzero((low - reach > p.X) | (high + reach < p.X), axis=0)  # (d,)
    far = [j for j in np.argsort(-n_far, kind="stable") if n_far[j]]
    if not far:
        return []
    rows = first_of([f"{shown(names[j])} ({n_far[j]} row{'s' if n_far[j] > 1 else ''})" for j in far], _NAMED)
    return [Finding(f"Rows of p lie far from every row of q in {rows}: their log r is extrapolated.", False)]


def log_factor_of(bounded: BoundedIdentity) -> float:
    """Return the log of the constant by which r is off, 0 where it is not beyond chance or does not matter."""
    matters = abs(bounded.z) > THRESHOLDS.z and abs(bounded.log_factor) > math.log(THRESHOLDS.factor)
    return bounded.log_factor if matters else 0.0


def wrong_scale(means: Identities, overlap: Overlap) -> list[Finding]:
    """Check the three identities. Those of r and 1/r count only where their standard errors are reliable."""
    log_factor = log_factor_of(means.bounded)
    if log_factor:
        size, remedy = ("large", "Divide") if log_factor > 0 else ("small", "Multiply")
        problem = f"r is too {size} by a factor of about {_factor(abs(log_factor))}"
        mean_q, mean_p, z = f"{means.bounded.mean_q:.3f}", f"{means.bounded.mean_p:.3f}", errors(means.bounded.z)
        words = f"{problem}: mean_q[r / (1 + r)] is {mean_q} but mean_p[1 / (1 + r)] is {mean_p}, {z} apart. {remedy}"
        return [Finding(f"{words} it by this constant. Self-normalized weights do not change.", False)]
    checks = ("mean_q r", means.ratio_q, overlap.reliable_q), ("mean_p 1/r", means.inverse_p, overlap.reliable_p)
    for name, of, is_reliable in checks:
        matters = abs(of.z) > THRESHOLDS.z_skewed and abs(of.log_mean) > math.log(THRESHOLDS.factor_of_mean)
        if is_reliable and matters:
            size = f"{name} is {_factor(of.log_mean)}, {errors(of.z)} from 1"
            return [Finding(f"{size}: the largest or smallest ratios are wrong.", False)]
    return []


def lean_of(slope: float, slope_error: float) -> Lean:
    """Return how a ratio is wrong, by `Reliability.slope` and its standard error."""
    if abs(slope - 1) < THRESHOLDS.z * slope_error or 1 / THRESHOLDS.slope < slope < THRESHOLDS.slope:
        return Lean.NONE
    if slope < -THRESHOLDS.z * slope_error:
        return Lean.INVERTED
    return Lean.OVERCONFIDENT if slope < 1 else Lean.UNDERCONFIDENT


def reliability_advice(slope: float, slope_error: float) -> str:
    """Return what to do about wrong class probabilities, by `Reliability.slope` and its standard error."""
    return _ADVICE[lean_of(slope, slope_error)]


def miscalibrated(curve: Reliability) -> list[Finding]:
    """Check the reliability curve of a ratio that is off by no constant."""
    excess, lean = curve.error - curve.noise, lean_of(curve.slope, curve.slope_error)
    if curve.p_value >= THRESHOLDS.chance or excess < THRESHOLDS.reliability:
        return []
    slope = curve.slope if lean is Lean.INVERTED else max(curve.slope, 0.0)
    factor = f"the ratio is {lean}, and log r should be multiplied by {slope:.2g}"
    how = "see `plot()`" if lean is Lean.NONE else factor
    words = f"Class probabilities are off by {curve.error:.3f} on average, by chance {curve.noise:.3f}: {how}."
    return [Finding(f"{words} {_ADVICE[lean]}.", excess > THRESHOLDS.reliability_grave)]


def imbalanced(
    balance: Balance,
    left: Separation,
    curve: Reliability,
    ess_q: float,
    is_confirmed: bool = True,
    is_apart: bool = False,
) -> list[Finding]:
    """Check what differs between p and weighted q, if the effective sample size is at least 10.

    Columns that the ratio misses are named only if held-out rows have confirmed that another one is better. If the
    samples are apart, no other ratio helps, so there is no advice.
    """
    if ess_q < THRESHOLDS.fewest_ess:
        return []
    findings = []
    size, (worst, words) = np.abs(balance.after), differing(balance)
    if len(worst):
        is_apart = is_apart or bool(size.max() >= _NO_SPREAD)
        remedy = "" if is_apart else _remedy(curve, [balance.names[j] for j in worst[:3]], is_confirmed)
        findings.append(Finding(f"{words}{remedy}", float(size[worst].max()) > THRESHOLDS.difference_grave))
    else:
        findings.extend(_worse(balance, size))
    if left.z > THRESHOLDS.z and left.auc > THRESHOLDS.auc:
        remedy = "" if findings or is_apart else _remedy(curve, _odd_columns(balance), is_confirmed)
        problem = "After weighting, a simple classifier still distinguishes p from q"
        size = f"it is right in {in_percent(left.auc)} of held-out pairs, {errors(left.z)} above one half."
        findings.append(Finding(f"{problem}: {size}{remedy}", left.auc > THRESHOLDS.auc_grave))
    return findings


def differing(balance: Balance) -> tuple[Vector, str]:
    """Return the columns that differ after weighting, beyond chance and enough to matter, the worst first, in words."""
    size = np.abs(balance.after)
    chance = float(-ndtri(THRESHOLDS.chance / 2 / len(size))) + THRESHOLDS.skew
    columns = np.flatnonzero((size > THRESHOLDS.difference) & (size > chance * balance.standard_error))
    columns = columns[np.argsort(-size[columns], kind="stable")]
    problem = f"standardized mean differences are above {THRESHOLDS.difference} in {len(columns)} of {len(size)}"
    return columns, f"After weighting, {problem} columns: {first_of(_changes(balance, columns), _NAMED)}."


def is_within_chance(balance: Balance) -> bool:
    """Return whether no column differs after weighting by more than chance, enough to matter."""
    return not len(differing(balance)[0]) and not _worse(balance, np.abs(balance.after))


def _changes(balance: Balance, columns: Iterable[int]) -> list[str]:
    return [
        f"{shown(balance.names[j])} ({_difference(balance.before[j])} before, {_difference(balance.after[j])} after)"
        for j in columns
    ]


def _difference(size: float) -> str:
    """Write a standardized difference. That of a column without spread has no meaningful size."""
    return f"{size:+.2f}" if abs(size) < _NO_SPREAD else f"beyond {math.copysign(_NO_SPREAD, size):+.0f}"


def _worse(balance: Balance, size: Vector) -> list[Finding]:
    """Find columns that differ more after weighting than before."""
    chance = float(-ndtri(THRESHOLDS.worse / 2 / len(size)))
    is_worse = (
        (size > THRESHOLDS.difference) & (size > np.abs(balance.before)) & (size > chance * balance.standard_error)
    )
    worse = [j for j in np.argsort(-size, kind="stable") if is_worse[j]]
    if not worse:
        return []
    return [Finding(f"Weighting moves columns of q away from p: {first_of(_changes(balance, worse), _NAMED)}.", False)]


def _remedy(curve: Reliability, columns: list[str], is_confirmed: bool) -> str:
    """Return what to do about columns that differ after weighting, nothing where held-out rows confirm nothing."""
    lean = lean_of(curve.slope, curve.slope_error)
    if lean is not Lean.NONE:
        return f" The ratio is {lean}. {_ADVICE[lean]}."
    return f" The ratio misses {' and '.join(columns)}." * is_confirmed


def _odd_columns(balance: Balance) -> list[str]:
    """Return the names of up to three columns whose mean or spread differs most after weighting."""
    off = np.maximum(np.abs(balance.after), np.abs(np.log(balance.deviation_after)))
    return [balance.names[j] for j in np.argsort(-off, kind="stable")[:3] if off[j] >= off.max() / 2]


def errors(z: float) -> str:
    """Write how many standard errors something is off, in either direction."""
    return f"{abs(z):.1f} standard errors" if abs(z) < 1000 else "over 1000 standard errors"


def _factor(log_size: float) -> str:
    """Write a number by its log."""
    return f"{math.exp(log_size):.3g}" if abs(log_size) < 20 else f"e^{log_size:.0f}"
