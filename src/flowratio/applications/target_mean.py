"""The mean over p of a value that was measured on rows of q only: weighted and doubly robust, with a standard error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flowratio._support.types import TableLike, Vector, VectorLike
from flowratio._support.validation import RandomState, seed_from
from flowratio.applications.copied_columns import warn_of_copies
from flowratio.applications.crossfit import ratio_to_fit
from flowratio.applications.outcome_model import Measurement, better_prediction, check_outcome_model, prediction_of
from flowratio.applications.treatment import HeldOutRatios, content_folds, cross_fitted
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
from flowratio.applications.weighted_means import (
    MeanEstimate,
    Method,
    Reference,
    Share,
    Tangent,
    checked_method,
    checked_values,
    estimate_of,
    row_counts,
    weighted_mean,
)
from flowratio.diagnostics.balance import Balance, table_balance
from flowratio.diagnostics.compared_columns import compared_columns
from flowratio.diagnostics.evaluation import prepared_design
from flowratio.diagnostics.scored_sample import ScoredSample
from flowratio.diagnostics.trust import is_confirmed
from flowratio.diagnostics.verdict import Finding, verdict_of
from flowratio.ratios.shared_support import kish
from flowratio.samples.pairing import check_pairs
from flowratio.samples.two_samples import TwoSamples, two_samples
from flowratio.samples.weighting import checked_weights
from flowratio.weights import self_normalize


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TargetMean(MeanEstimate):
    """The mean over p of a value that was measured on rows of q. It prints as two lines.

    `weighted` is the mean of rows of q that are weighted by r, and `unweighted` the mean of rows of q.
    """

    balance: Balance  # differences of the columns of p and q, before and after weighting
    overlap: SourceOverlap  # effective sample size and tail of the weights
    log_ratio: Vector  # held-out log r of the rows of q with a positive weight
    outcome_model: str  # what predicted the value

    def to_dict(self) -> dict[str, Any]:
        """Return everything except log r, ready for JSON."""
        sizes = {"effective_sample_size": self.overlap.ess, "n_q": self.overlap.n}
        return {**super().to_dict(), **sizes, "balance": balance_rows(self.balance)}

    def _title(self) -> str:
        return "Target mean"


def target_mean(
    X_p: TableLike,
    X_q: TableLike,
    values_q: VectorLike,
    *,
    method: Method | str = "doubly-robust",
    ratio: Any = None,
    outcome_model: Any = None,
    n_folds: int = 5,
    sample_weight_p: VectorLike | None = None,
    sample_weight_q: VectorLike | None = None,
    random_state: RandomState = None,
    verbose: bool = False,
) -> TargetMean:
    r"""Estimate the mean over p, the target, of a value y that was measured on rows of q only.

    The distribution of x may differ between p and q. The mean of y given x must be the same. With r = p/q, shares
    :math:`s_i \propto r(x_i)` of the rows of q, and a prediction m of y:

    .. math:: \hat\theta_{\text{Hájek}} = \sum_{i \in q} s_i y_i, \qquad
              \hat\theta_{\text{DR}} = \mathrm{mean}_p\, m + \sum_{i \in q} s_i (y_i - m(x_i))

    Ratio and predictions of a row come from models that were not fitted to it. The doubly robust estimate is right if
    the ratio or the predictions are right.

    Parameters
    ----------
    X_p, X_q
        Rows of p and of q, of shapes (n_p, d) and (n_q, d): arrays, or tables with text, dates and missing values.
    values_q
        The value of each row of q, (n_q,): an outcome, a loss, or 0 and 1. For losses of held-out predictions, the
        result is the error on the target. For the difference of two losses, it compares two models.
    method
        `"doubly-robust"`, or `"hajek"` for the weighted mean.
    ratio
        A ratio, or its name. None for what `AutoRatio()` chooses, which takes 1–4 minutes.
    outcome_model
        An unfitted estimator of scikit-learn that predicts the value from the encoded columns, or `"linear"` (ridge or
        logistic regression), `"quadratic"` (the same with products of columns) or `"boosting"`. None for the best of
        the three on held-out rows.
    n_folds, random_state, verbose
        Number of folds of the cross-fit, seed of folds and models, and whether to show progress bars.
    sample_weight_p, sample_weight_q
        Weights of the rows, (n_p,) and (n_q,). Integer weights are counts. Other weights are relative.

    Notes
    -----
    The interval is that of Student's distribution. If a handful of rows decide, it has few degrees of freedom and is
    wider than 2 standard errors. A warning is issued if a column of X_q is a copy of the values.

    References
    ----------
    .. [1] Robins, Rotnitzky, Zhao (1994). *Estimation of regression coefficients when some regressors are not always
       observed.* JASA.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X_p, X_q = rng.normal(0.5, 1, (1000, 2)), rng.normal(0, 1, (2000, 2))
    >>> values_q = X_q[:, 0] + rng.normal(size=2000)  # the mean over p is 0.5
    >>> mean = target_mean(X_p, X_q, values_q, ratio="logistic", outcome_model="linear", random_state=0)
    >>> abs(mean.value - 0.5) < 3 * mean.standard_error, mean.standard_error < 0.1
    (True, True)
    """
    way = checked_method(method)
    check_pairs({"X_q": X_q, "values_q": values_q})
    seed, samples = seed_from(random_state), two_samples(X_p, X_q, sample_weight_p, sample_weight_q)
    warn_of_copies(values_q, X_q, "X_q", "values_q")
    w, values_q = _weights_and_values(samples, values_q, sample_weight_p, sample_weight_q)
    values = np.concatenate([np.zeros(samples.n_p), values_q])
    check_outcome_model(outcome_model, values_q)
    fold = content_folds(samples, values, n_folds, np.random.default_rng([seed, 0, 11]))
    scores = cross_fitted(ratio_to_fit(ratio, samples, seed, verbose), samples, fold, seed, verbose)
    log_r = scores.log_r
    is_q, counts = samples.y == 0, row_counts(w[: samples.n_p], w[samples.n_p :])
    source, target = np.zeros(len(w)), np.where(is_q, 0.0, w)
    source[is_q] = self_normalize((log_r + np.log(w))[is_q])
    measurement = Measurement(samples.X, values, is_q, w, fold, samples.codes)
    prediction = prediction_of(outcome_model, measurement, source, seed)
    other = None if outcome_model is None else better_prediction(prediction, measurement, source, seed)
    mean, reference = (
        weighted_mean(values, one.values, target / target.sum(), Share(source, 1.0), counts)
        for one in (prediction, other or prediction)
    )
    tangent = Tangent(samples.plain, ~is_q, w, log_r + samples.log_odds)
    estimate = estimate_of(mean, way, counts, tangent, other and Reference(reference, other.model))
    overlap = source_overlap("rows of `X_q`", log_r[~is_q], w[~is_q], log_r[is_q], w[is_q])
    table = _balance(samples, w, log_r)
    findings = [*_findings(samples, w, scores, overlap, table, seed), *estimate.findings]
    return TargetMean(
        value=estimate.value,
        standard_error=estimate.spread.error,
        verdict=verdict_of(findings),
        reason=reason_of(findings, good_words([overlap], table)),
        method=way,
        weighted=mean.hajek,
        unweighted=float(w[is_q] @ values_q / w[is_q].sum()),
        degrees_of_freedom=estimate.spread.df,
        balance=table,
        overlap=overlap,
        log_ratio=log_r[is_q],
        outcome_model=prediction.model,
    )


def _weights_and_values(
    samples: TwoSamples, values_q: VectorLike, sample_weight_p: VectorLike | None, sample_weight_q: VectorLike | None
) -> tuple[Vector, Vector]:
    """Return the weights of the input, (n,), and the values, (n_q,), without rows of weight 0."""
    w_p = samples.w_p if sample_weight_p is None else np.asarray(sample_weight_p, np.float64)
    n_q = samples.n_q if sample_weight_q is None else len(np.asarray(sample_weight_q))
    w_q = checked_weights(sample_weight_q, n_q, "sample_weight_q")
    values = checked_values(values_q, n_q, "values_q", "X_q")
    return np.concatenate([w_p[w_p > 0], w_q[w_q > 0]]), values[w_q > 0]


def _findings(
    samples: TwoSamples, w: Vector, scores: HeldOutRatios, overlap: SourceOverlap, table: Balance, seed: int
) -> list[Finding]:
    """Return what is wrong with the weights."""
    rest = form_check(samples, w, scores, seed)
    return [
        *size_findings("rows of `X_p`", kish(np.zeros(samples.n_p), w[: samples.n_p])),
        *overlap_findings(overlap, "rows of `X_p`"),
        *balance_findings(table, overlap.ess, is_confirmed(rest)),
        *form_findings(rest, ("rows of `X_p`", "rows of `X_q`")),
        *rarity_findings(samples),
    ]


def _balance(samples: TwoSamples, w: Vector, log_r: Vector) -> Balance:
    p, q = (ScoredSample(samples.X[of], log_r[of], w[of] / w[of].sum()) for of in samples.parts)
    rows_p, rows_q = (np.arange(len(w))[of] for of in samples.parts)
    return table_balance(p, q, compared_columns(prepared_design(samples), samples.encoder), (rows_p, rows_q))
