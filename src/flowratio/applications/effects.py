"""Average effects of a treatment from observational data: weighted means and doubly robust, with standard errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flowratio._support.types import TableLike, Vector, VectorLike
from flowratio._support.validation import RandomState, seed_from
from flowratio.applications.copied_columns import refuse_copies
from flowratio.applications.crossfit import ratio_to_fit
from flowratio.applications.effect_weights import (
    ESTIMANDS,
    EffectWeights,
    Estimand,
    Shares,
    checked_estimand,
    shares_of,
    weights_of,
)
from flowratio.applications.outcome_model import (
    Measurement,
    Prediction,
    better_prediction,
    check_outcome_model,
    prediction_of,
)
from flowratio.applications.treatment import Groups, content_folds, cross_fitted, treatment_groups
from flowratio.applications.weight_checks import balance_rows, good_words, reason_of
from flowratio.applications.weighted_means import (
    MeanEstimate,
    Method,
    Reference,
    Tangent,
    WeightedMean,
    checked_method,
    checked_values,
    estimate_of,
    row_counts,
    weighted_mean,
)
from flowratio.diagnostics.balance import Balance
from flowratio.diagnostics.verdict import verdict_of
from flowratio.samples.pairing import check_pairs

_ADVICE = (
    "The estimated effect would be 0. Drop the column. If it was measured before the treatment, use the change since "
    "then as `outcome`."
)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AverageEffect(MeanEstimate):
    """An average effect of a treatment. It prints as two lines.

    `weighted` is the difference of weighted means, and `unweighted` the difference of means without weights.
    """

    estimand: Estimand
    weights: EffectWeights
    outcome_model: str  # what predicted the outcome

    @property
    def balance(self) -> Balance:
        """Standardized mean differences between the groups, before and after weighting."""
        return self.weights.balance

    def to_dict(self) -> dict[str, Any]:
        """Return everything except what is there for each row, ready for JSON."""
        sizes = {"ess_treated": self.weights.ess_treated, "ess_control": self.weights.ess_control}
        balance = balance_rows(self.weights.balance)
        return {"estimand": self.estimand, **super().to_dict(), **sizes, "balance": balance}

    def _title(self) -> str:
        words = ESTIMANDS[self.estimand]
        return words[0].upper() + words[1:]


def average_effect(
    X: TableLike,
    treatment: VectorLike,
    outcome: VectorLike,
    estimand: Estimand | str = "att",
    *,
    method: Method | str = "doubly-robust",
    ratio: Any = None,
    outcome_model: Any = None,
    n_folds: int = 5,
    sample_weight: VectorLike | None = None,
    random_state: RandomState = None,
    verbose: bool = False,
) -> AverageEffect:
    r"""Estimate the average effect of a treatment, if X has all common causes of treatment and outcome.

    Weights from the density ratio r = p/q of treated rows (p) to controls (q) make both groups comparable, see
    `effect_weights`. With their shares s, with sum 1 in each group, and the shares t of the target:

    .. math:: \hat\tau_{\text{Hájek}} = \sum_{T = 1} s_i y_i - \sum_{T = 0} s_i y_i, \qquad
              \hat\tau_{\text{DR}} = \sum_i t_i (m_1 - m_0)(x_i)
                  + \sum_{T = 1} s_i (y_i - m_1(x_i)) - \sum_{T = 0} s_i (y_i - m_0(x_i))

    m is a prediction of the outcome in each group. Ratio and predictions of a row come from models that were not fitted
    to it. The doubly robust estimate is right if the ratio or the predictions are right.

    Parameters
    ----------
    X, treatment, estimand, ratio
        As in `effect_weights`: covariates, (n, d), 0 or 1 for each row, (n,), and the population of the average.
    outcome
        A number for each row, (n,). Outcomes of 0 and 1 are predicted by a classifier. A copy of it in X is refused.
    method
        `"doubly-robust"`, or `"hajek"` for the difference of weighted means.
    outcome_model
        An unfitted estimator of scikit-learn that predicts the outcome from the encoded columns, or `"linear"` (ridge
        or logistic regression), `"quadratic"` (the same with products of columns) or `"boosting"`. None for the best of
        the three on held-out rows.
    n_folds, random_state, verbose
        Number of folds of the cross-fit, seed of folds and models, and whether to show progress bars.
    sample_weight
        Weights of the rows, (n,). Integer weights are counts. Other weights are relative. All weights are 1 if None.

    Notes
    -----
    The standard error is that of the influence function. The interval is that of Student's distribution, with the
    degrees of freedom of Satterthwaite. With few of them, it is wider than 2 standard errors. If another model predicts
    the outcome better than `outcome_model` on held-out rows, the difference of the two estimates is part of the
    standard error. Beyond chance it lowers the verdict.

    References
    ----------
    .. [1] Robins, Rotnitzky, Zhao (1994). *Estimation of regression coefficients when some regressors are not always
       observed.* JASA.
    .. [2] Chernozhukov et al. (2018). *Double/debiased machine learning for treatment and structural parameters.*
    .. [3] Robinson (1988). *Root-N-consistent semiparametric regression.* Econometrica. For `estimand="overlap"`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> treatment = rng.random(2000) < 1 / (1 + np.exp(-X[:, 0]))
    >>> outcome = 1.0 * treatment + 2 * X[:, 0] + rng.normal(size=2000)  # the true effect is 1
    >>> effect = average_effect(X, treatment, outcome, ratio="logistic", outcome_model="linear", random_state=0)
    >>> round(effect.unweighted, 1), abs(effect.value - 1) < 3 * effect.standard_error
    (2.7, True)
    """
    name: Any = checked_estimand(estimand)
    way = checked_method(method)
    check_pairs({"X": X, "outcome": outcome})
    seed, groups = seed_from(random_state), treatment_groups(X, treatment, sample_weight)
    numbers = checked_values(outcome, groups.n, "outcome", "X")
    refuse_copies(numbers, X, "outcome", _ADVICE)
    values = numbers[groups.order]
    check_outcome_model(outcome_model, values)
    fold = content_folds(groups.samples, values, n_folds, np.random.default_rng([seed, 0, 11]))
    ratio = ratio_to_fit(ratio, groups.samples, seed, verbose)
    scores = cross_fitted(ratio, groups.samples, fold, seed, verbose)
    weights, shares = weights_of(name, groups, scores, seed), shares_of(name, groups, scores.log_r)
    mean, model, reference = _difference(groups, shares, values, outcome_model, fold, seed)
    logit = scores.log_r + groups.samples.log_odds
    tangent = Tangent(groups.samples.plain, groups.is_treated, groups.w, logit)
    estimate = estimate_of(mean, way, row_counts(*_of_groups(groups)), tangent, reference)
    findings = [*weights.findings, *estimate.findings]
    return AverageEffect(
        value=estimate.value,
        standard_error=estimate.spread.error,
        verdict=verdict_of(findings),
        reason=reason_of(findings, good_words(weights.overlap, weights.balance)),
        method=way,
        weighted=mean.hajek,
        unweighted=_unweighted(groups, values),
        degrees_of_freedom=estimate.spread.df,
        estimand=name,
        weights=weights,
        outcome_model=model,
    )


def _of_groups(groups: Groups) -> tuple[Vector, Vector]:
    n_p = groups.samples.n_p
    return groups.w[:n_p], groups.w[n_p:]


def _unweighted(groups: Groups, values: Vector) -> float:
    (w_p, w_q), n_p = _of_groups(groups), groups.samples.n_p
    return float(w_p @ values[:n_p] / w_p.sum() - w_q @ values[n_p:] / w_q.sum())


def _difference(
    groups: Groups, shares: Shares, values: Vector, model: Any, fold: np.ndarray, seed: int
) -> tuple[WeightedMean, str, Reference | None]:
    """Return the mean outcome of the target under treatment minus that without it, the model, and a better one."""
    counts, X, codes = row_counts(*_of_groups(groups)), groups.samples.X, groups.samples.codes
    means, references, names, better = [], [], [], []
    for k, (rows, share) in enumerate(((groups.is_treated, shares.treated), (~groups.is_treated, shares.controls))):
        prediction, other = Prediction(np.zeros(len(values)), ""), None
        if not share.is_target:
            measurement = Measurement(X, values, rows, groups.w, fold, codes)
            prediction = prediction_of(model, measurement, share.of, seed + k)
            other = None if model is None else better_prediction(prediction, measurement, share.of, seed + k)
            names.append(prediction.model)
            better += [other.model] if other else []
        for one, results in ((prediction, means), (other or prediction, references)):
            results.append(weighted_mean(values, one.values, shares.target, share, counts))
    reference = Reference(references[0].minus(references[1]), " and ".join(dict.fromkeys(better))) if better else None
    return means[0].minus(means[1]), " and ".join(dict.fromkeys(names)), reference
