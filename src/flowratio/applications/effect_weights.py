r"""Weights that make treated rows and controls comparable, from the density ratio of the two groups.

With r = p/q, p the treated rows and q the controls, the odds of the propensity e(x) = P(treated | x) are

.. math:: \frac{e(x)}{1 - e(x)} = r(x)\, \frac{n_1}{n_0}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from flowratio._support import markup
from flowratio._support.types import TableLike, Vector, VectorLike
from flowratio._support.validation import RandomState, check_choice, seed_from
from flowratio.applications.crossfit import ratio_to_fit
from flowratio.applications.treatment import Groups, HeldOutRatios, content_folds, cross_fitted, treatment_groups
from flowratio.applications.weight_checks import (
    SourceOverlap,
    balance_findings,
    balance_rows,
    form_check,
    form_findings,
    good_words,
    overlap_findings,
    rarity_findings,
    reason_of,
    size_findings,
    source_overlap,
)
from flowratio.applications.weighted_means import Share
from flowratio.diagnostics.balance import Balance, table_balance
from flowratio.diagnostics.compared_columns import compared_columns
from flowratio.diagnostics.diagnosis_html import balance_table
from flowratio.diagnostics.evaluation import prepared_design
from flowratio.diagnostics.scored_sample import ScoredSample
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.diagnostics.trust import is_confirmed
from flowratio.diagnostics.verdict import Finding, Verdict, differing, verdict_of, verdict_text
from flowratio.ratios.shared_support import kish
from flowratio.samples.weighting import log_mean_exp
from flowratio.weights import self_normalize

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Estimand = Literal["att", "ate", "overlap"]
ESTIMANDS: dict[str, str] = {
    "att": "average effect on the treated (ATT)",
    "ate": "average effect on all rows (ATE)",
    "overlap": "average effect where the groups overlap (ATO)",
}
TARGETS: dict[str, str] = {"att": "treated rows", "ate": "rows", "overlap": "rows"}


@dataclass(frozen=True, eq=False, repr=False)
class EffectWeights:
    """Weights that make treated rows and controls comparable. `effect_weights` returns one.

    Attributes
    ----------
    estimand, verdict, reason, findings
        The population that the weighted groups represent, whether to use the weights, and why not, in words and one by
        one.
    weights, log_ratio, propensity
        Of each row of the input, of shape (n,). The weights have mean 1 in each group. They include the sample weights.
        log r and e(x) come from models that were not fitted to the row. They are NaN on rows of weight 0.
    ess_treated, ess_control
        Effective sample size of the weights of each group.
    balance
        Standardized mean differences between the groups, before and after weighting, for each column.
    overlap
        Effective sample size, Pareto k̂ and rows without a counterpart, for each group that is weighted.
    """

    estimand: Estimand
    verdict: Verdict
    reason: str
    findings: tuple[Finding, ...]
    weights: Vector
    log_ratio: Vector
    propensity: Vector
    ess_treated: float
    ess_control: float
    balance: Balance
    overlap: tuple[SourceOverlap, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return everything except what is there for each row, ready for JSON."""
        return {
            "estimand": self.estimand,
            "verdict": self.verdict.value,
            "reason": self.reason,
            "ess_treated": self.ess_treated,
            "ess_control": self.ess_control,
            "balance": balance_rows(self.balance),
            "overlap": [{**group._asdict(), "k_hat": _finite(group.k_hat)} for group in self.overlap],
        }

    def plot(self) -> Figure:
        """Return a figure of the standardized mean differences before and after weighting."""
        from flowratio.diagnostics.plots import plot_balance

        return plot_balance(self.balance)

    def __str__(self) -> str:
        return f"{self._sizes()}\n{verdict_text(self.verdict, self.reason)}"

    def _sizes(self) -> str:
        worst = f"largest difference {np.abs(self.balance.before).max():.2f} before and"
        after = float(np.abs(self.balance.after).max())
        worst = f"{worst} {after:.2f} after weighting"
        worst += " (within chance)" * bool(after > THRESHOLDS.difference and not len(differing(self.balance)[0]))
        sizes = f"effective sample size {self.ess_treated:.0f} treated, {self.ess_control:.0f} controls"
        return f"Weights for the {ESTIMANDS[self.estimand]}: {sizes}, {worst}"

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        verdict = markup.lead(f"Verdict: {self.verdict}.", self.reason)
        return verdict + markup.paragraph(f"{self._sizes()}.") + balance_table(self.balance, "treated minus controls")


def effect_weights(
    X: TableLike,
    treatment: VectorLike,
    estimand: Estimand | str = "att",
    *,
    ratio: Any = None,
    n_folds: int = 5,
    sample_weight: VectorLike | None = None,
    random_state: RandomState = None,
    verbose: bool = False,
) -> EffectWeights:
    r"""Return weights that make treated rows and controls comparable.

    The odds of the propensity are :math:`e/(1 - e) = r\, n_1/n_0`, where r = p/q is the density ratio of treated rows
    (p) to controls (q). The weights before normalization are

    ============ ================ ===================
    estimand     treated rows     controls
    ============ ================ ===================
    `"att"`      1                e / (1 - e)
    `"ate"`      1 / e            1 / (1 - e)
    `"overlap"`  1 - e            e
    ============ ================ ===================

    Parameters
    ----------
    X
        Covariates of all rows, (n, d), measured before the treatment: an array, or a table with text, dates and missing
        values. Do not include the outcome, or anything that the treatment changes.
    treatment
        1 or True on treated rows, 0 or False on controls, (n,).
    estimand
        The population to represent: `"att"` for the treated rows, `"ate"` for all rows, `"overlap"` for the rows that
        could be in either group. Overlap weights are bounded, so use them if the groups differ a lot.
    ratio
        A ratio, or its name. None for what `AutoRatio()` chooses, which takes 1–4 minutes.
    n_folds, random_state, verbose
        Number of folds of the cross-fit, seed of the folds and of the ratio, and whether to show progress bars.
    sample_weight
        Weights of the rows, (n,). Integer weights are counts. Other weights are relative. All weights are 1 if None.

    Notes
    -----
    Large weights are reported in `overlap` and in the verdict. They are not clipped.

    References
    ----------
    .. [1] Rosenbaum, Rubin (1983). *The central role of the propensity score in observational studies.* Biometrika.
    .. [2] Li, Morgan, Zaslavsky (2018). *Balancing covariates via propensity score weighting.* JASA.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> treatment = rng.random(2000) < 1 / (1 + np.exp(-X[:, 0]))  # more likely if the first column is large
    >>> weights = effect_weights(X, treatment, "att", ratio="logistic", random_state=0)
    >>> weights.balance.before.round(1).tolist(), bool(abs(weights.balance.after).max() < 0.1)
    ([0.9, -0.1], True)
    """
    name: Any = checked_estimand(estimand)
    seed, groups = seed_from(random_state), treatment_groups(X, treatment, sample_weight)
    fold = content_folds(groups.samples, None, n_folds, np.random.default_rng([seed, 0, 11]))
    ratio = ratio_to_fit(ratio, groups.samples, seed, verbose)
    return weights_of(name, groups, cross_fitted(ratio, groups.samples, fold, seed, verbose), seed)


class Shares(NamedTuple):
    """Shares of the rows with sum 1, of shape (m,): of the target, and of each weighted group, 0 outside."""

    target: Vector
    treated: Share
    controls: Share


def checked_estimand(estimand: Any) -> str:
    """Return one of `ESTIMANDS`, in lower case."""
    name = estimand.lower() if isinstance(estimand, str) else estimand
    check_choice({"ato": "overlap"}.get(name, name) if isinstance(name, str) else name, "estimand", list(ESTIMANDS))
    return {"ato": "overlap"}.get(name, name)


def _log_factors(estimand: str, logit: Vector) -> tuple[Vector, Vector]:
    """Return log-weights of treated rows and of controls at all rows, each (m,)."""
    log_e, log_rest = log_expit(logit), log_expit(-logit)
    if estimand == "att":
        return np.zeros_like(logit), logit
    return (-log_e, -log_rest) if estimand == "ate" else (log_rest, log_e)


def shares_of(estimand: str, groups: Groups, log_r: Vector) -> Shares:
    r"""Return the shares of the rows. The target of overlap weights has shares of :math:`(T - e)^2`.

    Their mean given x is e (1 - e). With them a doubly robust estimate is a regression of residuals on residuals
    (Robinson 1988), whose error does not depend on that of e to first order.
    """
    is_treated, logit = groups.is_treated, log_r + groups.samples.log_odds
    log_w, e = np.log(groups.w), expit(logit)
    slopes = {"att": (0.0, 1.0), "ate": (e - 1, e), "overlap": (-e, 1 - e)}[estimand]
    both = []
    for rows, log_g, slope in zip((is_treated, ~is_treated), _log_factors(estimand, logit), slopes, strict=True):
        share = np.zeros(len(logit))
        share[rows] = self_normalize((log_g + log_w)[rows])
        both.append(Share(share, slope))
    treated, controls = both
    if estimand == "att":
        return Shares(treated.of, treated._replace(is_target=True), controls)
    factor = np.square(is_treated - e) if estimand == "overlap" else 1.0
    target = groups.w * factor
    if not target.any():  # the ratio separates the groups completely
        target = groups.w
    return Shares(target / target.sum(), treated, controls)


def weights_of(estimand: Estimand, groups: Groups, scores: HeldOutRatios, seed: int) -> EffectWeights:
    """Return the weights of all rows of the input, with their checks, from held-out log r."""
    log_r, is_treated = scores.log_r, groups.is_treated
    logit = log_r + groups.samples.log_odds
    shares = shares_of(estimand, groups, log_r)
    weights = shares.treated.of * is_treated.sum() + shares.controls.of * (~is_treated).sum()
    parts = zip((is_treated, ~is_treated), _log_factors(estimand, logit), strict=True)
    ess_treated, ess_control = (kish(log_g[of], groups.w[of]) for of, log_g in parts)
    overlap = _overlap(estimand, groups, log_r)
    table = _balance(estimand, groups, logit)
    findings = [finding for group in overlap for finding in overlap_findings(group, TARGETS[estimand])]
    if estimand == "att":  # otherwise both groups are weighted, and their overlap has their sizes
        findings += size_findings("treated rows", kish(np.zeros(is_treated.sum()), groups.w[is_treated]))
    rest = form_check(groups.samples, groups.w, scores, seed)
    findings += balance_findings(table, min(group.ess for group in overlap), is_confirmed(rest))
    findings += form_findings(rest, ("treated rows", "controls")) + rarity_findings(groups.samples)
    return EffectWeights(
        estimand,
        verdict_of(findings),
        reason_of(findings, good_words(overlap, table)),
        tuple(findings),
        weights=groups.in_input_order(weights, 0.0),
        log_ratio=groups.in_input_order(log_r, np.nan),
        propensity=groups.in_input_order(expit(logit), np.nan),
        ess_treated=ess_treated,
        ess_control=ess_control,
        balance=table,
        overlap=overlap,
    )


def _overlap(estimand: str, groups: Groups, log_r: Vector) -> tuple[SourceOverlap, ...]:
    """Return how far each weighted group represents the target."""
    is_treated, w, log_odds = groups.is_treated, groups.w, groups.samples.log_odds
    factors = _log_factors(estimand, log_r + log_odds)
    target = w * is_treated if estimand == "att" else w
    if estimand == "overlap":
        target = self_normalize(np.log(w) + log_expit(log_r + log_odds) + log_expit(-log_r - log_odds))
    result = []
    for name, rows, log_g, sign in (
        ("treated rows", is_treated, factors[0], 1),
        ("controls", ~is_treated, factors[1], -1),
    ):
        if estimand == "att" and rows is is_treated:
            continue  # they are the target
        if estimand == "overlap":
            log_g = log_g - log_mean_exp(log_g[rows], w[rows])
        else:  # the density of the target divided by that of the group
            log_g = log_r if estimand == "att" else log_g + log_expit(sign * log_odds)
        at = target > 0
        result.append(source_overlap(name, log_g[at], target[at], log_g[rows], w[rows]))
    return tuple(result)


def _balance(estimand: str, groups: Groups, logit: Vector) -> Balance:
    """Return differences between the groups before and after both are weighted, in units of before."""
    samples, w, log_g = groups.samples, groups.w, np.where(groups.is_treated, *_log_factors(estimand, logit))
    columns = compared_columns(prepared_design(samples), samples.encoder)
    p, q = (ScoredSample(samples.X[of], log_g[of], w[of] / w[of].sum()) for of in samples.parts)
    rows_p, rows_q = (np.arange(len(w))[of] for of in samples.parts)
    return table_balance(p, q, columns, (rows_p, rows_q), target=p.tilted())


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
