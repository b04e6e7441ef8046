"""`diagnose(ratio, X_p, X_q)`: all checks of a ratio by two samples, in one object."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import log_expit

from flowratio._support.row_counts import counts
from flowratio._support.types import Matrix, TableLike, Vector, VectorLike
from flowratio._support.validation import RandomState, check_count, check_n_folds, seed_from
from flowratio._support.wording import counted
from flowratio.diagnostics import alike, trust
from flowratio.diagnostics import verdict as rules
from flowratio.diagnostics.balance import Balance, leftover, table_balance
from flowratio.diagnostics.compared_columns import compared_columns
from flowratio.diagnostics.diagnosis_html import html_of
from flowratio.diagnostics.evaluation import Evaluation, cross_fitted, held_out, needs_fit
from flowratio.diagnostics.identities import Identities, identities
from flowratio.diagnostics.importance import Importance, importance
from flowratio.diagnostics.overlap import Overlap, overlap, stability, with_absent_rows
from flowratio.diagnostics.reliability import Reliability, reliability
from flowratio.diagnostics.remedies import Remedy, confirmed_remedy
from flowratio.diagnostics.residual import Residual, residual
from flowratio.diagnostics.scored_sample import ScoredSample, Separation, separation
from flowratio.diagnostics.summary import short_text, summary_of
from flowratio.diagnostics.verdict import Verdict, log_factor_of, verdict_of
from flowratio.samples.category_counts import is_absent_in_other
from flowratio.samples.separating import separating_columns
from flowratio.samples.two_samples import TwoSamples, two_samples
from flowratio.samples.weighting import mean_and_error, repeated

_MAX_RESIDUAL = 50_000  # rows of each sample on which a wrong form is looked for
_FEWEST_SEPARATED = 10  # rows of each sample, below which a column can separate them by chance

_Samples = tuple[ScoredSample, ScoredSample]  # of p and of q
_Positions = tuple[Vector, Vector]  # of their rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Checks of a ratio r = p/q by two samples. p is y = 1. `diagnose` returns one.

    Attributes
    ----------
    verdict, warnings, remedy, notes
        Whether to weight rows of q by r: `Verdict.RELIABLE`, `CARE` or `DO_NOT_USE`, and why not, in words. A change of
        the weights that held-out rows confirm, or None. `advice` has it in words. Notes do not lower the verdict: that
        no difference is found, identifiers that were left out, and what an `AutoRatio` did not try.
    n_p, n_q, score, score_error
        Numbers of rows, and `RatioEstimator.score` of the rows in nats (0 = identical, 0.69 = fully separable).
    flexible_score, flexible_error
        The same score after the correction of a flexible classifier, which shows what the ratio misses.
    direction, leftover
        Share of pairs in which the row of p has the larger log r, and in which a classifier is right after weighting.
    overlap, identities
        Effective sample size, Pareto k̂, and rows beyond the other sample, without a constant factor by which r is off.
        Then mean_q r = 1, mean_p 1/r = 1, and mean_q[r / (1 + r)] = mean_p[1 / (1 + r)].
    separating
        Names of the columns that alone separate the samples. Repeat without them.
    reliability, balance, importance
        Class probabilities under even odds, differences of columns before and after weighting, columns that move log r.
    residual, stability
        What a flexible classifier still finds after the ratio. Jackknife variance of log r over the models of the
        folds in nats², mean over rows of p, or None for a ratio that was fitted before.
    n_folds, grouping
        Number of folds of the cross-fit, 0 for a ratio that was fitted before. Share of rows by text column whose
        category is too rare for an estimate of its own.
    log_p, log_q, log_w
        log r of the rows of p, (n_p,), and of q, (n_q,). Log-weights of rows of q: r times the weight of the row. A row
        of integer weight k is there k times.
    """

    verdict: Verdict
    warnings: list[str]
    remedy: Remedy | None
    notes: list[str]
    n_p: int
    n_q: int
    score: float
    score_error: float
    flexible_score: float
    flexible_error: float
    direction: Separation
    overlap: Overlap
    separating: list[str]
    identities: Identities
    reliability: Reliability
    balance: Balance
    leftover: Separation
    importance: Importance
    residual: Residual
    stability: float | None
    n_folds: int
    grouping: dict[str, float]
    log_p: Vector
    log_q: Vector
    log_w: Vector

    @property
    def advice(self) -> list[str]:
        """What held-out rows confirm to be better, in words. Empty if there is nothing."""
        return [] if self.remedy is None else [self.remedy.in_python()]

    def summary(self) -> str:
        """Return a text: the verdict, its reasons, then all numbers. `print(diagnosis)` is shorter."""
        return summary_of(self)

    def plot(self) -> Figure:
        """Return a figure: log r under p and q, reliability, weights, balance, importance."""
        from flowratio.diagnostics.plots import plot_diagnosis

        return plot_diagnosis(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything except log r and weights, ready for JSON: flags as positions, None if not finite.

        The advice has options of the command line.
        """
        names = [field.name for field in fields(self) if field.name not in ("log_p", "log_q", "log_w")]
        document = {name: _plain(getattr(self, name)) for name in names}
        del document["residual"]["log_correction"]
        return {**document, "advice": [] if self.remedy is None else [self.remedy.on_command_line()]}

    def _repr_html_(self) -> str:
        return html_of(self)

    def __str__(self) -> str:
        return short_text(self)

    def __repr__(self) -> str:
        return f"<Diagnosis: {self.verdict}, {counted(len(self.warnings), 'warning')}>"


def diagnose(
    ratio: Any,
    X_p: TableLike,
    X_q: TableLike,
    *,
    sample_weight_p: VectorLike | None = None,
    sample_weight_q: VectorLike | None = None,
    n_folds: int = 5,
    n_repeats: int = 3,
    random_state: RandomState = None,
) -> Diagnosis:
    """Check whether a ratio is reliable, and why not.

    Give an unfitted ratio, or its name, and all rows: it is cross-fitted, so every row gets its log r from a model that
    was not fitted to it. Or give a fitted ratio and held-out rows. On rows that the ratio was fitted to, any ratio
    looks good. The verdict is about weights r on rows of q, which turn them into a sample of p. For weights 1/r on rows
    of p, swap the samples, or call `diagnose(ratio.inverse(), X_q, X_p)`.

    Parameters
    ----------
    ratio
        A ratio r = p/q (p is y = 1), fitted or not, or its name. Any object with `log_ratio(X)`, or a fitted pipeline
        that ends with one. An `AutoRatio` chooses once, on all rows, and its choice is cross-fitted.
    X_p, X_q
        Rows of p and of q, of shapes (n_p, d) and (n_q, d): arrays or tables. For a fitted ratio they are held-out
        rows, in the form that the ratio was fitted to. For tables, balance compares every category of a text column.
    sample_weight_p, sample_weight_q
        Weights of the rows, of shapes (n_p,) and (n_q,). All weights are 1 if None.
    n_folds
        Number of folds to cross-fit an unfitted ratio. Each model is fitted to at most 100 000 rows of each sample.
    n_repeats, random_state
        How often each column is permuted to measure its importance. Seed of these permutations and of all folds.

    Examples
    --------
    >>> from flowratio import ClassifierRatio
    >>> rng = np.random.default_rng(0)
    >>> X_p, X_q = rng.normal([1.0, 0.0], 1, (1000, 2)), rng.normal(0, 1, (1000, 2))
    >>> diagnosis = diagnose(ClassifierRatio("logistic"), X_p, X_q, random_state=0)
    >>> str(diagnosis.verdict), diagnosis.importance.columns.tolist()
    ('reliable', [0, 1])
    """
    check_count(n_repeats, "n_repeats")
    seed = seed_from(random_state)
    if needs_fit(ratio):
        check_n_folds(n_folds)
        samples = two_samples(X_p, X_q, sample_weight_p, sample_weight_q)
        return diagnosis_of(cross_fitted(ratio, samples, seed, n_folds), n_repeats, seed)
    return diagnosis_of(held_out(ratio, X_p, X_q, sample_weight_p, sample_weight_q), n_repeats, seed)


def diagnosis_of(evaluation: Evaluation, n_repeats: int = 3, seed: int = 0, *, is_different: bool = False) -> Diagnosis:
    """Run all checks on held-out log-ratios. `is_different` is whether a two-sample test finds a difference."""
    design, n_p, log_r = evaluation.design, evaluation.n_p, evaluation.log_r
    A = design.matrix
    with np.errstate(invalid="ignore"):
        D = A / 2 - A[0] / 2
    largest = np.abs(D).max(axis=0)
    Z = D / np.where(largest > 0, largest, 1.0)  # within ±1, so that no square overflows or vanishes
    p, rows_p = _scored(Z[:n_p], log_r[:n_p], evaluation.w[:n_p], "p")
    q, rows_q = _scored(Z[n_p:], log_r[n_p:], evaluation.w[n_p:], "q")
    rows, share = A[np.concatenate([rows_p, n_p + rows_q])], np.concatenate([p.share, q.share]) / 2
    names, groups, rng = design.columns, design.groups, np.random.default_rng([seed, 1])
    effects = importance(evaluation.log_ratio, rows, share, names, n_repeats, rng, groups)
    return _diagnosis(evaluation, (p, q), (rows_p, n_p + rows_q), effects, seed, is_different)


def _diagnosis(
    evaluation: Evaluation, samples: _Samples, rows: _Positions, effects: Importance, seed: int, is_different: bool
) -> Diagnosis:
    """Run all checks and reach the verdict. `rows` are the positions of the rows of the samples."""
    (p, q), (log_p, log_q) = samples, np.split(evaluation.log_r, [evaluation.n_p])
    own, score = separation(p.log_r, p.share, q.log_r, q.share), _score(p, q)
    means, curve = identities(p, q), reliability(p, q)
    log_c = log_factor_of(means.bounded)  # taken out before the other checks: weights do not depend on it
    log_w = (weighted := _weighted(evaluation, q, rows[1])).log_weights()
    p, q, weighted = p.divided(log_c), q.divided(log_c), weighted.divided(log_c)
    shape = reliability(p, q) if log_c else curve
    shared = overlap(p, q, log_p - log_c, log_q - log_c, _each_weight(evaluation, rows[1]), weighted)
    shared, separating = with_absent_rows(shared, _absent_rows(evaluation), evaluation.w), _separating(evaluation)
    columns = _balance(evaluation, p, weighted, rows, shared.inflation_q)
    names, (plain_p, plain_q) = _without_codes(evaluation, p, q)
    plain_w, known = plain_q._replace(log_r=weighted.log_r), trust.fitted_rows(evaluation.fitted_share)
    left = leftover(plain_p, plain_w, np.random.default_rng([seed, 0]), shared.inflation_q)
    rest = _residual(evaluation, plain_p, plain_q, rows, log_c, seed)
    spread = None if evaluation.each is None else stability(evaluation.each[:, rows[0]], p.share)
    scores = score, _score(*_corrected(p, q, rest.log_correction))
    own_z = alike.evidence_of(own, shared, evaluation.n_folds > 0)
    is_equal = not is_different and alike.is_alike(*scores, own_z, left, columns, shared, (plain_p.X, plain_q.X))
    noise = alike.Noise(is_equal, is_equal and alike.is_harmless(shared))
    not_needed, notes = alike.weights_not_needed(shared) if is_equal else ([], [])
    beyond = rules.out_of_range(plain_p, plain_q, names) or rules.far_out(plain_p, plain_q, names)
    is_apart = bool(separating) or shared.is_absent or any(finding.grave for finding in beyond)  # nothing helps
    of_fit = [
        *beyond,
        *(known or _wrong_shape(shape, rest, _deviation(p, q), beyond, evaluation.advice, noise)),
        *trust.unstable(spread),
        *rules.low_overlap(shared),
        *rules.wrong_scale(means, shared),
        *rules.imbalanced(columns, left, shape, shared.ess_q, trust.is_confirmed(rest), is_apart),
    ]
    inverted = [] if noise.is_constant else rules.direction(own, *_score(p, q))
    # columns that separate the samples are the cause of the other problems
    findings = [*inverted, *(rules.separated(separating) or of_fit), *trust.grouped(evaluation.rare_shares)]
    verdict, rng = verdict_of(not_needed + findings), np.random.default_rng([seed, 3])
    return Diagnosis(
        verdict=verdict,
        warnings=[finding.words for finding in not_needed + rules.grave_first(findings)],
        remedy=None if verdict is Verdict.RELIABLE or known or is_apart else confirmed_remedy(plain_p, plain_w, rng),
        notes=[*notes, *filter(None, [trust.identifier_note(evaluation.encoder), evaluation.note])],
        n_p=len(log_p),
        n_q=len(log_q),
        **_named_scores(*scores),
        direction=own,
        overlap=shared,
        separating=separating,
        identities=means,
        reliability=curve,
        balance=columns,
        leftover=left,
        importance=effects,
        residual=rest,
        stability=spread,
        n_folds=evaluation.n_folds,
        grouping=evaluation.rare_shares,
        log_p=log_p,
        log_q=log_q,
        log_w=log_w,
    )


def _named_scores(own: tuple[float, float], flexible: tuple[float, float]) -> dict[str, float]:
    names = ("score", "score_error", "flexible_score", "flexible_error")
    return dict(zip(names, (*own, *flexible), strict=True))


def _corrected(p: ScoredSample, q: ScoredSample, log_correction: Vector) -> _Samples:
    """Return the samples with log r after the correction of a flexible classifier, (n_p + n_q,)."""
    of_p, of_q = np.split(log_correction, [len(p.log_r)])
    return p._replace(log_r=p.log_r + of_p), q._replace(log_r=q.log_r + of_q)


def _wrong_shape(
    curve: Reliability, rest: Residual, deviation: float, beyond: list[rules.Finding], advice: str, noise: alike.Noise
) -> list[rules.Finding]:
    """Check slope and form. No slope and no other ratio helps with columns that separate, and one advice is enough.

    If no difference is found, log r is noise. Its slope does not matter unless it is grave. That of a log r that is
    nearly constant never matters.
    """
    is_apart = any(finding.grave for finding in beyond)
    slope = [] if is_apart or noise.is_constant else rules.miscalibrated(curve) or trust.wrong_slope(curve, deviation)
    form = trust.wrong_form(rest, "" if is_apart or slope else advice)
    return [*(finding for finding in slope if finding.grave or not noise.is_equal), *form]


def _balance(
    evaluation: Evaluation, p: ScoredSample, weighted: ScoredSample, rows: _Positions, inflation: float
) -> Balance:
    return table_balance(p, weighted, compared_columns(evaluation.design, evaluation.encoder), rows, inflation)


def _separating(evaluation: Evaluation) -> list[str]:
    """Return the names of the columns that alone separate the samples, if chance cannot be the reason."""
    if min(evaluation.n_p, len(evaluation.w) - evaluation.n_p) < _FEWEST_SEPARATED:
        return []
    design, is_p = evaluation.design, np.arange(len(evaluation.w)) < evaluation.n_p
    samples = TwoSamples.of(design.matrix, is_p, evaluation.w, design.names, evaluation.encoder)
    return [column.name for column in separating_columns(samples)]


def _absent_rows(evaluation: Evaluation) -> Vector:
    """Return which rows have a category that clearly does not occur in the other sample, (n,)."""
    is_absent = np.zeros(len(evaluation.w), bool)
    texts = {} if evaluation.encoder is None else evaluation.encoder.category_codes(evaluation.design.matrix)
    for codes, _ in texts.values():
        is_absent |= is_absent_in_other(codes, evaluation.n_p, evaluation.w)
    return is_absent


def _each_weight(evaluation: Evaluation, rows: Vector) -> Matrix | None:
    """Return log r as weights of rows of q by the model of each fold, (n_folds, n). None without folds."""
    if evaluation.each is None or evaluation.fold is None or evaluation.as_weight is None:
        return None
    each = evaluation.each[:, rows]
    each[evaluation.fold[rows], np.arange(len(rows))] = evaluation.as_weight[rows]
    return each


def _weighted(evaluation: Evaluation, q: ScoredSample, rows: Vector) -> ScoredSample:
    """Return the rows of q with log r as their weights."""
    return q if evaluation.as_weight is None else q._replace(log_r=evaluation.as_weight[rows])


def _without_codes(
    evaluation: Evaluation, p: ScoredSample, q: ScoredSample
) -> tuple[list[str], tuple[ScoredSample, ScoredSample]]:
    """Return names and samples without codes of categories: their means and ranges have no meaning."""
    codes = () if evaluation.encoder is None else evaluation.encoder.codes_
    if not codes:
        return evaluation.design.names, (p, q)
    plain = [j for j in range(p.X.shape[1]) if j not in codes]
    names = [evaluation.design.names[j] for j in plain]
    return names, (p._replace(X=p.X[:, plain]), q._replace(X=q.X[:, plain]))


def _deviation(p: ScoredSample, q: ScoredSample) -> float:
    """Return the standard deviation of log r, both samples counting one half."""
    log_r, half = np.concatenate([p.log_r, q.log_r]), np.concatenate([p.share, q.share]) / 2
    return float(np.sqrt(half @ (log_r - half @ log_r) ** 2))


def _score(p: ScoredSample, q: ScoredSample) -> tuple[float, float]:
    """Return the score of `RatioEstimator.score`, and its standard error."""
    mean_p, error_p = mean_and_error(log_expit(p.log_r), p.share)
    mean_q, error_q = mean_and_error(log_expit(-q.log_r), q.share)
    return float(math.log(2) + (mean_p + mean_q) / 2), float(np.hypot(error_p, error_q) / 2)


def _residual(
    evaluation: Evaluation, p: ScoredSample, q: ScoredSample, rows: _Positions, log_factor: float, seed: int
) -> Residual:
    """Look for a wrong form of a ratio that is divided by a factor, on some of many rows."""
    is_p = np.repeat([True, False], [len(rows[0]), len(rows[1])])
    rng = np.random.default_rng([seed, 4])
    some = np.concatenate([rng.permutation(len(of)) < _MAX_RESIDUAL for of in rows])
    positions = np.concatenate(rows)[some]
    log_r, w = np.concatenate([p.log_r, q.log_r]), np.concatenate([p.share * p.n, q.share * q.n])
    fold = None if evaluation.fold is None else evaluation.fold[positions]
    each = None if evaluation.each is None else evaluation.each[:, positions] - log_factor
    X = np.concatenate([p.X, q.X])[some]
    return residual(X, log_r[some], is_p[some], w[some], seed, fold=fold, each=each)


def _scored(X: Matrix, log_r: Vector, w: Vector, name: str) -> tuple[ScoredSample, np.ndarray]:
    """Return the rows of positive weight, and their positions. A row of weight 2 is there twice."""
    rows, w = repeated(np.flatnonzero(w > 0), counts(w[w > 0]))
    if len(rows) < 2:
        raise ValueError(f"`sample_weight_{name}` is positive on {len(rows)} rows. At least 2 are needed.")
    return ScoredSample(X[rows], log_r[rows], w / w.sum()), rows


def _plain(value: Any) -> Any:
    """Turn results into numbers, texts, lists and dictionaries."""
    if isinstance(value, Enum):
        return value.value
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(np.flatnonzero(value).tolist() if value.dtype == bool else value.tolist())
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
