"""Whether weighted rows represent a target: overlap, balance of the columns, and the form of the ratio."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_expit, ndtri

from flowratio._support.types import Matrix, Vector
from flowratio.diagnostics.balance import Balance, leftover
from flowratio.diagnostics.scored_sample import ScoredSample
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.diagnostics.verdict import Finding
from flowratio.samples.two_samples import TwoSamples
from flowratio.weights import effective_sample_size, effective_sample_size_of_ratio, largest_k_hat, pareto_smooth

_FEWEST_ESS = 50.0  # effective sample size from which an interval of a weighted mean covers at its rate
_DOMINANCE = 0.05  # share of the largest squared weight. Below it, distinct weights may look like a heavy tail
_DOMINANCE_GRAVE = 0.2  # the same share: one row has a fifth of the variance
_RARE = 0.05  # share of rows with a rare category that matters
_LARGEST_AUC = 0.55  # of a classifier after weighting: the bounded weights leave less to see than the ratio itself


class SourceOverlap(NamedTuple):
    """How far measured rows represent the target."""

    name: str  # of the measured rows, in words
    n: float  # number of rows, or effective sample size of their own weights
    ess: float  # effective sample size after weighting
    k_hat: float  # shape of the tail of the weights
    beyond: float  # share of the target where fewer than one measured row is expected
    largest: float  # share of the largest weight
    dominance: float  # share of the largest squared weight: far above 0 if one row decides


def source_overlap(
    name: str, log_target: Vector, w_target: Vector, log_source: Vector, w_source: Vector
) -> SourceOverlap:
    """Measure overlap by log(target / source) and weights of target rows, each (m,), and of source rows, each (n,)."""
    n = effective_sample_size(np.log(w_source))
    log_w = log_source + np.log(w_source)
    ess = effective_sample_size_of_ratio(log_target, w_target, log_source, w_source, n)
    beyond = float(w_target @ (log_target > math.log(n)) / w_target.sum())
    largest = float(np.exp(log_w.max() - np.logaddexp.reduce(log_w)))
    dominance = float(np.exp(2 * log_w.max() - np.logaddexp.reduce(2 * log_w)))
    return SourceOverlap(name, n, ess, pareto_smooth(log_w).k_hat, beyond, largest, dominance)


def overlap_findings(source: SourceOverlap, target: str) -> list[Finding]:
    """Return what is wrong with the overlap. `target` names the target in words."""
    findings = []
    size = f"The effective sample size of the {source.name} is {source.ess:.3g} of {source.n:.0f}"
    if source.ess < _FEWEST_ESS and source.ess < 0.9 * source.n:
        words = f"{size}, and one row has {source.largest:.0%} of the weight. A handful of rows decide."
        findings.append(Finding(words, source.ess <= THRESHOLDS.fewest_ess))
    elif source.n < THRESHOLDS.small_ess:
        findings.append(Finding(f"There are {source.n:.0f} {source.name}, too few for a reliable interval.", False))
    largest = largest_k_hat(source.n)
    if math.isfinite(source.k_hat) and source.k_hat > largest and source.dominance > _DOMINANCE:
        words = f"Pareto k̂ of the weights of the {source.name} is {source.k_hat:.2f}, above {largest:.2g}: the"
        words = f"{words} tail of the weights is too heavy for a reliable interval."
        grave = source.k_hat > THRESHOLDS.heavy_k_hat and source.dominance > _DOMINANCE_GRAVE
        findings.append(Finding(words, grave))
    if source.beyond > THRESHOLDS.beyond:
        words = f"{source.beyond:.1%} of the {target} lie where fewer than one of the {source.name} is expected."
        findings.append(Finding(words, source.beyond > THRESHOLDS.beyond_grave))
    return findings


def reason_of(findings: Sequence[Finding], otherwise: str) -> str:
    """Return why an estimate has its verdict, the grave findings first."""
    ordered = sorted(findings, key=lambda finding: not finding.grave)
    return " ".join(finding.words for finding in ordered) or otherwise


def plain_columns(samples: TwoSamples) -> tuple[Matrix, list[str]]:
    """Return the columns of the matrix that are not codes of categories, and their names."""
    codes = samples.codes
    names = samples.names or [f"x{j + 1}" for j in range(samples.X.shape[1])]
    plain = [j for j in range(samples.X.shape[1]) if j not in codes]
    return samples.X[:, plain], [names[j] for j in plain]


def balance_findings(table: Balance, ess: float) -> list[Finding]:
    """Return which columns differ after weighting, beyond chance, if the effective sample size is at least 10."""
    if ess < THRESHOLDS.fewest_ess:
        return []
    size = np.abs(table.after)
    chance = float(-ndtri(THRESHOLDS.chance / 2 / len(size))) + THRESHOLDS.skew
    bad = np.flatnonzero((size > THRESHOLDS.difference) & (size > chance * table.standard_error))
    if not len(bad):
        return []
    worst = bad[np.argsort(-size[bad], kind="stable")]
    changes = [f"{table.names[j]} ({table.before[j]:+.2f} to {table.after[j]:+.2f})" for j in worst[:3]]
    more = f" and {len(bad) - 3} more" * (len(bad) > 3)
    problem = f"After weighting, standardized mean differences are above {THRESHOLDS.difference} in"
    words = f"{problem} {', '.join(changes)}{more}. Try a more flexible `ratio`, such as 'quadratic' or 'boosting'."
    return [Finding(words, float(size[bad].max()) > THRESHOLDS.difference_grave)]


def form_findings(samples: TwoSamples, w: Vector, log_r: Vector, seed: int) -> list[Finding]:
    """Test the form of the ratio where both samples are: p weighted by 1/(1 + r) and q by r/(1 + r) are the same."""
    X, _ = plain_columns(samples)
    part_p, part_q = samples.parts
    p = ScoredSample(X[part_p], log_expit(-log_r[part_p]), w[part_p] / w[part_p].sum())
    q = ScoredSample(X[part_q], log_expit(log_r[part_q]), w[part_q] / w[part_q].sum())
    if min(effective_sample_size(sample.log_weights()) for sample in (p, q)) < THRESHOLDS.small_ess:
        return []  # there are too few rows where both samples are. The overlap shows it
    p = p.tilted()
    p = p._replace(X=p.X[p.share > 0], log_r=p.log_r[p.share > 0], share=p.share[p.share > 0])
    rest = leftover(p, q, np.random.default_rng([seed, 0, 13]))
    if rest.z <= THRESHOLDS.z or rest.auc <= _LARGEST_AUC:
        return []
    problem = "The ratio has the wrong form: after weighting, a simple classifier still distinguishes the groups in"
    words = f"{problem} {rest.auc:.0%} of pairs (50 % is a guess). Try a more flexible `ratio`, such as 'quadratic'."
    return [Finding(words, False)]


def rarity_findings(samples: TwoSamples) -> list[Finding]:
    """Return which columns have many rows with a category that is too rare for a ratio of its own."""
    shares = {} if samples.encoder is None else samples.encoder.rare_shares_
    columns = [f"{name} ({share:.0%} of the rows)" for name, share in shares.items() if share > _RARE]
    if not columns:
        return []
    words = f"Categories with fewer than 5 rows cannot be balanced, in {', '.join(columns[:3])}."
    return [Finding(f"{words} Merge such categories.", False)]


def good_words(overlap: Sequence[SourceOverlap], table: Balance) -> str:
    """Return what speaks for the weights."""
    sizes = " and ".join(f"{group.ess:.0f} of {group.n:.0f} {group.name}" for group in overlap)
    largest = f"the largest standardized mean difference after weighting is {np.abs(table.after).max():.2f}"
    return f"the effective sample size is {sizes}, and {largest}."


def balance_rows(table: Balance) -> list[dict[str, Any]]:
    """Return the differences of each column, ready for JSON."""
    rows = zip(table.names, table.before.tolist(), table.after.tolist(), table.standard_error.tolist(), strict=True)
    return [{"column": name, "before": b, "after": a, "standard_error": error} for name, b, a, error in rows]
