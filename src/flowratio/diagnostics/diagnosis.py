"""`diagnose(ratio, X_p, X_q)`: all checks of a ratio by two samples, in one object."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import log_expit
from sklearn.utils.validation import _num_samples, check_is_fitted

from flowratio._support.types import Matrix, TableLike, Vector, VectorLike
from flowratio._support.validation import RandomState, check_count, seed_from
from flowratio.diagnostics import verdict as rules
from flowratio.diagnostics.balance import Balance, balance, leftover
from flowratio.diagnostics.identities import Identities, identities
from flowratio.diagnostics.importance import Importance, importance
from flowratio.diagnostics.overlap import Overlap, overlap
from flowratio.diagnostics.reliability import Reliability, reliability
from flowratio.diagnostics.scored_sample import ScoredSample, Separation, separation
from flowratio.diagnostics.summary import summary_of
from flowratio.diagnostics.verdict import Verdict, log_factor_of, verdict_of
from flowratio.ratios.base import Design, RatioEstimator
from flowratio.ratios.registry import design_of, is_ready, log_ratio_of
from flowratio.samples.containers import to_tables
from flowratio.samples.stacking import stack, to_matrix
from flowratio.samples.weighting import checked_weights, counts, mean_and_error, repeated
from flowratio.tables.detection import is_mixed

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Checks of a ratio r = p/q by two samples; p is y = 1. `diagnose` returns one.

    Attributes
    ----------
    verdict, warnings
        Whether to weight rows of q by r: `Verdict.RELIABLE`, `CARE` or `DO_NOT_USE`, and why not, in words.
    n_p, n_q, score, score_error
        Numbers of rows, and `RatioEstimator.score` of the rows in nats (0 = identical, 0.69 = fully separable).
    direction, leftover
        Share of pairs in which the row of p has the larger log r, and in which a classifier is right after weighting.
    overlap, identities
        Effective sample size, Pareto k̂, and rows beyond the other sample, without a constant factor by which r is off;
        mean_q r = 1, mean_p 1/r = 1, and mean_q[r / (1 + r)] = mean_p[1 / (1 + r)].
    reliability, balance, importance
        Class probabilities under even odds, differences of columns before and after weighting, columns that move log r.
    log_p, log_q, log_w
        log r of the rows of p, (n_p,), and of q, (n_q,). Log-weights of rows of q: r times the weight of the row. A row
        of integer weight k is there k times.
    """

    verdict: Verdict
    warnings: list[str]
    n_p: int
    n_q: int
    score: float
    score_error: float
    direction: Separation
    overlap: Overlap
    identities: Identities
    reliability: Reliability
    balance: Balance
    leftover: Separation
    importance: Importance
    log_p: Vector
    log_q: Vector
    log_w: Vector

    def summary(self) -> str:
        """Return a text: the verdict, its reasons, then the numbers."""
        return summary_of(self)

    def plot(self) -> Figure:
        """Return a figure: log r under p and q, reliability, weights, balance, importance."""
        from flowratio.diagnostics.plots import plot_diagnosis

        return plot_diagnosis(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything except log r and weights, ready for JSON: flags as positions, None if not finite."""
        names = [field.name for field in fields(self) if field.name not in ("log_p", "log_q", "log_w")]
        return {name: _plain(getattr(self, name)) for name in names}

    def __repr__(self) -> str:
        return f"<Diagnosis: {self.verdict}, {len(self.warnings)} warnings>"


def diagnose(
    ratio: Any,
    X_p: TableLike,
    X_q: TableLike,
    *,
    sample_weight_p: VectorLike | None = None,
    sample_weight_q: VectorLike | None = None,
    n_repeats: int = 3,
    random_state: RandomState = None,
) -> Diagnosis:
    """Check whether a fitted ratio is reliable, and why not.

    Give held-out rows: on rows that the ratio was fitted to, any ratio looks good. The verdict is about weights r on
    rows of q, which turn them into a sample of p. For weights 1/r on rows of p, call
    `diagnose(ratio.inverse(), X_q, X_p)`.

    Parameters
    ----------
    ratio
        A fitted ratio r = p/q; p is y = 1. Any object with `log_ratio(X)`, or a pipeline that ends with one.
    X_p, X_q
        Held-out rows of p and of q, of shapes (n_p, d) and (n_q, d): arrays or tables, as the ratio was fitted to. For
        mixed tables balance is about the encoded columns, and importance about the columns of the table.
    sample_weight_p, sample_weight_q
        Weights of the rows, of shapes (n_p,) and (n_q,). All weights are 1 if None.
    n_repeats, random_state
        How often each column is permuted to measure its importance. Seed of these permutations and of all folds.

    Examples
    --------
    >>> from flowratio import ClassifierRatio
    >>> rng = np.random.default_rng(0)
    >>> X_p, X_q = rng.normal([1.0, 0.0], 1, (1000, 2)), rng.normal(0, 1, (1000, 2))
    >>> ratio = ClassifierRatio("logistic").fit_samples(X_p[:500], X_q[:500])
    >>> diagnosis = diagnose(ratio, X_p[500:], X_q[500:], random_state=0)
    >>> str(diagnosis.verdict), diagnosis.importance.columns.tolist()
    ('reliable', [0, 1])
    """
    check_count(n_repeats, "n_repeats")
    log_ratio_of(ratio)  # refuse what is not a ratio
    if not is_ready(ratio):
        check_is_fitted(ratio)
    seed = seed_from(random_state)
    design, n_p, log_ratio = _design(ratio, X_p, X_q)
    A = design.matrix
    log_r = _checked(log_ratio(A), len(A))
    D = A / 2 - A[0] / 2
    largest = np.abs(D).max(axis=0)
    Z = D / np.where(largest > 0, largest, 1.0)  # within ±1, so that no square overflows or vanishes
    p, rows_p = _scored(Z[:n_p], log_r[:n_p], sample_weight_p, "p")
    q, rows_q = _scored(Z[n_p:], log_r[n_p:], sample_weight_q, "q")
    rows, share = A[np.concatenate([rows_p, n_p + rows_q])], np.concatenate([p.share, q.share]) / 2
    names, groups, rng = design.columns, design.groups, np.random.default_rng([seed, 1])
    effects = importance(lambda B: _checked(log_ratio(B), len(B)), rows, share, names, n_repeats, rng, groups)
    return _diagnosis(p, q, log_r[:n_p], log_r[n_p:], design.names, effects, seed)


def _design(ratio: Any, X_p: TableLike, X_q: TableLike) -> tuple[Design, int, Callable[[Matrix], Any]]:
    """Return the rows as a ratio sees them, those of p, then those of q, with n_p, and log r of such rows."""
    X_p, X_q = to_tables(X_p, X_q)
    samples = {"X_p": X_p, "X_q": X_q}
    if getattr(ratio, "encoder_", None) is not None:
        P, Q = (_table_design(ratio, X, name) for name, X in samples.items())
        return P._replace(matrix=np.concatenate([P.matrix, Q.matrix])), len(P.matrix), ratio.log_ratio_prepared
    mixed = [name for name, X in samples.items() if is_mixed(X)]
    if mixed and hasattr(ratio, "steps"):
        return _last_design(ratio, X_p, X_q)
    try:
        X, y = stack(X_p, X_q)
        if mixed and np.isnan(to_matrix(X, mixed[0])).any():
            raise ValueError(f"`{mixed[0]}` has missing values.")
    except ValueError as error:
        if not mixed:
            raise
        problem = f"`{mixed[0]}` has text, dates or missing values, which `ratio` was not fitted to"
        raise ValueError(f"{problem}. Drop or fill these values, or fit the ratio to such a table.") from error
    design = design_of(ratio, X)
    design = design._replace(matrix=np.asarray(design.matrix, np.float64))
    if isinstance(ratio, RatioEstimator):
        return design, int(y.sum()), ratio.log_ratio_prepared
    log_ratio = log_ratio_of(ratio)  # of another library: it gets rows in the form of the input
    return design, int(y.sum()), lambda A: log_ratio(_in_form_of(X, A))


def _table_design(ratio: Any, X: TableLike, name: str) -> Design:
    if (n := _num_samples(X)) < 2:
        raise ValueError(f"`{name}` has {n} row{'s' * (n != 1)}. A sample must have at least 2 rows.")
    return ratio.design(X)


def _last_design(pipeline: Any, X_p: TableLike, X_q: TableLike) -> tuple[Design, int, Callable[[Matrix], Any]]:
    """Return the same for the last step of a pipeline, on rows that the other steps transform."""
    first = pipeline[:-1]
    design, n_p, log_ratio = _design(pipeline[-1], first.transform(X_p), first.transform(X_q))
    if all(hasattr(step, "get_feature_names_out") for step in first):
        names = [str(name) for name in first.get_feature_names_out()]
        design = design._replace(names=names, columns=names)
    return design, n_p, log_ratio


def _diagnosis(
    p: ScoredSample, q: ScoredSample, log_p: Vector, log_q: Vector, names: list[str], effects: Importance, seed: int
) -> Diagnosis:
    """Run all checks and reach the verdict; `log_p` and `log_q` are of all input rows."""
    own = separation(p.log_r, p.share, q.log_r, q.share)
    (score, score_error), means, curve = _score(p, q), identities(p, q), reliability(p, q)
    log_c = log_factor_of(means.bounded)  # taken out before the other checks: weights do not depend on it
    log_w, p, q = q.log_weights(), p.divided(log_c), q.divided(log_c)
    shared, shape = overlap(p, q, log_p - log_c, log_q - log_c), reliability(p, q) if log_c else curve
    columns = balance(p, q, names, shared.inflation)
    left = leftover(p, q, np.random.default_rng([seed, 0]), shared.inflation)
    findings = [
        *rules.direction(own, *_score(p, q)),
        *rules.miscalibrated(shape),
        *rules.low_overlap(shared),
        *rules.out_of_range(p, q, names),
        *rules.wrong_scale(means, shared),
        *rules.imbalanced(columns, left, shape, shared.ess_q),
    ]
    return Diagnosis(
        verdict=verdict_of(findings),
        warnings=[finding.words for finding in findings],
        n_p=len(log_p),
        n_q=len(log_q),
        score=score,
        score_error=score_error,
        direction=own,
        overlap=shared,
        identities=means,
        reliability=curve,
        balance=columns,
        leftover=left,
        importance=effects,
        log_p=log_p,
        log_q=log_q,
        log_w=log_w,
    )


def _score(p: ScoredSample, q: ScoredSample) -> tuple[float, float]:
    """Return the score of `RatioEstimator.score`, and its standard error."""
    mean_p, error_p = mean_and_error(log_expit(p.log_r), p.share)
    mean_q, error_q = mean_and_error(log_expit(-q.log_r), q.share)
    return float(math.log(2) + (mean_p + mean_q) / 2), float(np.hypot(error_p, error_q) / 2)


def _checked(log_r: Any, n: int) -> Vector:
    log_r = np.asarray(log_r, np.float64)
    if log_r.shape != (n,) or not np.isfinite(log_r).all():
        values = f"{np.count_nonzero(np.isnan(log_r))} NaN and {np.count_nonzero(np.isinf(log_r))} infinite values"
        problem = f"`ratio.log_ratio(X)` has shape {log_r.shape} for {n} rows, with {values}"
        raise ValueError(f"{problem}. It must return one finite number for each row.")
    return log_r


def _scored(X: Matrix, log_r: Vector, sample_weight: VectorLike | None, name: str) -> tuple[ScoredSample, np.ndarray]:
    """Return the rows of positive weight, and their positions. A row of weight 2 is there twice."""
    w = checked_weights(sample_weight, len(X), f"sample_weight_{name}")
    rows, w = repeated(np.flatnonzero(w > 0), counts(w[w > 0]))
    if len(rows) < 2:
        raise ValueError(f"`sample_weight_{name}` is positive on {len(rows)} rows. At least 2 are needed.")
    return ScoredSample(X[rows], log_r[rows], w / w.sum()), rows


def _in_form_of(X: Any, A: Matrix) -> Any:
    """Return rows as a data frame with the columns of X, if X is one, so that the ratio can check the names."""
    if isinstance(X, np.ndarray):
        return A.astype(X.dtype, copy=False)
    if type(X).__module__.startswith("pandas"):
        return type(X)(A, columns=X.columns)
    return type(X)(A, schema=X.columns, orient="row")


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
