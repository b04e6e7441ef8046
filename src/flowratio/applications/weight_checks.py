"""Whether weighted rows represent a target: overlap, balance of the columns, and the form of the ratio."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from flowratio._support.callers import warn_caller
from flowratio._support.row_counts import counts
from flowratio._support.types import Vector
from flowratio._support.wording import in_percent
from flowratio.applications.treatment import HeldOutRatios
from flowratio.diagnostics.balance import Balance
from flowratio.diagnostics.residual import Residual, residual
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.diagnostics.trust import grouped, is_confirmed, wrong_form
from flowratio.diagnostics.verdict import Finding, differing, grave_first
from flowratio.ratios.shared_support import kish
from flowratio.samples.two_samples import TwoSamples
from flowratio.samples.weighting import repeated
from flowratio.weights import effective_sample_size_of_ratio, largest_k_hat, pareto_smooth

_FEWEST_ESS = 50.0  # effective sample size from which an interval of a weighted mean covers at its rate
_DOMINANCE = 0.05  # share of the largest squared weight. Below it, distinct weights may look like a heavy tail
_DOMINANCE_GRAVE = 0.2  # the same share: one row has a fifth of the variance
_INVERTED = 3.0  # standard errors by which the mean log r of source rows exceeds 0, its largest possible value
_MOST_CHECKED = 20_000  # rows of each sample on which a wrong form is looked for


class SourceOverlap(NamedTuple):
    """How far measured rows represent the target."""

    name: str  # of the measured rows, in words
    n: float  # number of rows, or effective sample size of their own weights
    ess: float  # effective sample size after weighting (Kish)
    inflation: float  # factor by which these rows understate errors of weighted means, according to the target
    k_hat: float  # shape of the tail of the weights
    beyond: float  # share of the target where fewer than one measured row is expected
    largest: float  # share of the largest weight
    dominance: float  # share of the largest squared weight: far above 0 if one row decides


def source_overlap(
    name: str, log_target: Vector, w_target: Vector, log_source: Vector, w_source: Vector
) -> SourceOverlap:
    """Measure overlap by log(target / source) and weights of target rows, each (m,), and of source rows, each (n,)."""
    n, ess = kish(np.zeros(len(w_source)), w_source), kish(log_source, w_source)
    log_w = log_source + np.log(w_source)
    inflation = math.sqrt(ess / effective_sample_size_of_ratio(log_target, w_target, log_source, w_source, n))
    beyond = float(w_target @ (log_target > math.log(n)) / w_target.sum())
    largest = float(np.exp(log_w.max() - np.logaddexp.reduce(log_w)))
    dominance = float(np.exp(2 * log_w.max() - np.logaddexp.reduce(2 * log_w)))
    return SourceOverlap(name, n, ess, inflation, pareto_smooth(log_w).k_hat, beyond, largest, dominance)


def overlap_findings(source: SourceOverlap, target: str) -> list[Finding]:
    """Return what is wrong with the overlap. `target` names the target in words."""
    findings = []
    size = f"The effective sample size of the {source.name} is {source.ess:.3g} of {source.n:.0f}"
    if source.ess < _FEWEST_ESS and source.ess < 0.9 * source.n:
        words = f"{size}, and one row has {in_percent(source.largest)} of the weight. A handful of rows decide."
        findings.append(Finding(words, source.ess <= THRESHOLDS.fewest_ess))
    else:
        findings += size_findings(source.name, source.n)
    largest = largest_k_hat(source.n)
    if math.isfinite(source.k_hat) and source.k_hat > largest and source.dominance > _DOMINANCE:
        words = f"Pareto k̂ of the weights of the {source.name} is {source.k_hat:.2f}, above {largest:.2g}: the"
        words = f"{words} tail of the weights is too heavy for a reliable interval."
        grave = source.k_hat > THRESHOLDS.heavy_k_hat and source.dominance > _DOMINANCE_GRAVE
        findings.append(Finding(words, grave))
    if source.inflation > THRESHOLDS.inflation:
        words = f"The {target} have larger ratios than the {source.name} show. Standard errors of weighted means are"
        words = f"{words} about {source.inflation:.1f} times as large as the {source.name} suggest."
        findings.append(Finding(words, False))
    if source.beyond > THRESHOLDS.beyond:
        words = (
            f"{in_percent(source.beyond, 1)} of the {target} lie where fewer than one of the {source.name} is expected."
        )
        findings.append(Finding(words, source.beyond > THRESHOLDS.beyond_grave))
    return findings


def warn_of_inversion(log_source: Vector, w_source: Vector, target: str, source: str) -> None:
    r"""Issue a warning if a fitted ratio looks like source/target, by log r and weights of source rows, each (n,).

    For r = target/source the mean of log r over the source is :math:`-\mathrm{KL}(\text{source} \,\|\, \text{target})`,
    which is never positive. `target` and `source` are the arguments of `fit_samples`.
    """
    positive = w_source > 0
    log_r, w = log_source[positive], w_source[positive]
    n = kish(np.zeros(len(w)), w)
    mean = float(np.average(log_r, weights=w))
    error = math.sqrt(float(np.average((log_r - mean) ** 2, weights=w)) / n)
    if n < THRESHOLDS.fewest_ess or mean <= _INVERTED * error:
        return
    problem = f"`ratio` looks inverted: the mean of log r over the rows of `{source}` is {mean:.2g} ± {error:.1g}"
    rule = f"It cannot be positive for a ratio that was fitted with `fit_samples({target}, {source})`"
    warn_caller(f"{problem}. {rule}. If the samples were swapped, use `ratio.inverse()`.")


def warn_of_swapped_samples(log_target: Vector, log_source: Vector, arguments: tuple[str, str]) -> None:
    r"""Issue a warning if log r, up to a constant, is smaller on rows of the target than on rows of the source.

    For r = target/source the difference of the means is the sum of the KL divergences in both directions. The vectors
    have the shapes (m,) and (n,). Rows with -inf do not count. `arguments` are the names of both.
    """
    target, source = (log_r[np.isfinite(log_r)] for log_r in (log_target, log_source))
    if min(len(target), len(source)) < THRESHOLDS.fewest_ess:
        return
    difference = float(target.mean() - source.mean())
    error = math.sqrt(target.var() / len(target) + source.var() / len(source))
    if difference >= -_INVERTED * error or difference > -THRESHOLDS.rounding:
        return
    problem = f"`ratio` looks inverted: the mean of `{arguments[0]}` is {-difference:.2g} ± {error:.1g} below that of"
    rule = "It is above for a ratio of target to source. If the samples were swapped, use `ratio.inverse()`"
    warn_caller(f"{problem} `{arguments[1]}`. {rule}.")


def size_findings(name: str, n: float) -> list[Finding]:
    """Return whether a group is too small for an interval, whatever its weights. `n` is its effective sample size."""
    if n >= THRESHOLDS.small_ess:
        return []
    return [Finding(f"There are {n:.0f} {name}, too few for a reliable interval.", n < THRESHOLDS.fewest_ess)]


def reason_of(findings: Sequence[Finding], otherwise: str) -> str:
    """Return why an estimate has its verdict, the grave findings first."""
    return " ".join(finding.words for finding in grave_first(findings)) or otherwise


def balance_findings(table: Balance, ess: float, is_confirmed: bool) -> list[Finding]:
    """Return which columns differ after weighting, beyond chance, if the effective sample size is at least 10.

    A more flexible ratio is advice only if held-out rows have confirmed that it is better.
    """
    if ess < THRESHOLDS.fewest_ess:
        return []
    worst, words = differing(table)
    if not len(worst):
        return []
    advice = " Try a more flexible `ratio`, such as 'quadratic' or 'boosting'." * is_confirmed
    return [Finding(f"{words}{advice}", float(np.abs(table.after[worst]).max()) > THRESHOLDS.difference_grave)]


def form_check(samples: TwoSamples, w: Vector, scores: HeldOutRatios, seed: int) -> Residual:
    """Look for what a flexible classifier finds beyond the ratio, on some of many rows. `w` are weights, (n,)."""
    X = samples.plain
    rng, parts = np.random.default_rng([seed, 0, 13]), []
    for part in samples.parts:
        rows, shares = repeated(np.arange(len(w))[part], counts(w[part]))  # a row of weight 2 is there twice
        some = np.sort(rng.permutation(len(rows))[:_MOST_CHECKED])
        parts.append((rows[some], shares[some]))
    rows, shares = (np.concatenate(both) for both in zip(*parts, strict=True))
    is_p = rows < samples.n_p
    return residual(X[rows], scores.log_r[rows], is_p, shares, seed, fold=scores.fold[rows], each=scores.each[:, rows])


def form_findings(rest: Residual, names: tuple[str, str]) -> list[Finding]:
    """Return whether the ratio has a wrong form, or which of p and q has too few rows to find it. `names` are words."""
    if is_confirmed(rest) or rest.n_overlap >= THRESHOLDS.fewest_overlap:
        return wrong_form(rest)
    name = names[0] if rest.n_p <= rest.n_q else names[1]
    size = f"The effective sample size of the {name} in the overlap is {rest.n_overlap:.0f}"
    words = f"{size}, below {THRESHOLDS.fewest_overlap:.0f}: a wrong form of the ratio cannot be excluded."
    return [Finding(f"{words} Get more {name}.", False)]


def rarity_findings(samples: TwoSamples) -> list[Finding]:
    """Return which columns have many rows with a category that is too rare for a ratio of its own."""
    return [] if samples.encoder is None else grouped(samples.encoder.rare_shares_)


def good_words(overlap: Sequence[SourceOverlap], table: Balance) -> str:
    """Return what speaks for the weights."""
    sizes = " and ".join(f"{group.ess:.0f} of {group.n:.0f} {group.name}" for group in overlap)
    size = float(np.abs(table.after).max())
    largest = f"the largest standardized mean difference after weighting is {size:.2f}"
    chance = " (within chance)" * (size > THRESHOLDS.difference)  # otherwise it would be a finding
    return f"the effective sample size is {sizes}, and {largest}{chance}."


def balance_rows(table: Balance) -> list[dict[str, Any]]:
    """Return the differences of each column, ready for JSON."""
    rows = zip(table.names, table.before.tolist(), table.after.tolist(), table.standard_error.tolist(), strict=True)
    return [{"column": name, "before": b, "after": a, "standard_error": error} for name, b, a, error in rows]
