"""`diagnose(ratio, X_p, X_q)`: everything that two samples can tell about a ratio, in one object."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import log_expit

from flowratio._support.validation import RandomState, is_count, seed_from
from flowratio.diagnostics.balance import Balance, balance, leftover
from flowratio.diagnostics.identities import Identities, identities
from flowratio.diagnostics.importance import Importance, importance
from flowratio.diagnostics.overlap import Overlap, overlap
from flowratio.diagnostics.reliability import Calibration, calibration
from flowratio.diagnostics.scored_sample import Scored, Separation, separation
from flowratio.diagnostics.summary import summary_of
from flowratio.diagnostics.verdict import (
    Verdict,
    direction,
    few_draws,
    imbalanced,
    log_factor_of,
    miscalibrated,
    out_of_range,
    verdict_of,
    wrong_scale,
)
from flowratio.ratios.registry import log_ratio_of
from flowratio.ratios.table_ratio import TableRatio
from flowratio.samples.stacking import column_names, stack
from flowratio.samples.weighting import checked_weights, counts, mean_and_error, repeated

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What two samples tell about a ratio r = p/q; p is y = 1. `diagnose` makes one.

    Attributes
    ----------
    verdict
        `"good"`, `"usable with care"` or `"do not trust"`, for rows of q that are weighted by r.
    warnings
        Why it is not `"good"`, in words.
    n_p, n_q
        Numbers of rows.
    score, score_error
        `RatioEstimator.score` of the rows in nats, from 0 (r tells nothing) to log 2, and its standard error.
    direction
        In what share of pairs of a row of p and one of q the former has the larger log r.
    overlap
        Effective draws, Pareto k̂, and rows beyond the other sample; of r without the constant by which it is off, if
        that is beyond chance.
    identities
        mean_q r = 1, mean_p 1/r = 1, and mean_q[r / (1 + r)] = mean_p[1 / (1 + r)].
    calibration
        The reliability curve of class probabilities under even odds.
    balance
        Standardized differences of columns before and after weighting.
    leftover
        How well a classifier still tells p from weighted q.
    importance
        Which columns move log r.
    log_p, log_q
        log r of the rows of p and of q, of shapes (n_p,) and (n_q,).
    log_w
        Log-weights of rows of q: r times how often they count. A row of whole weight k is there k times.
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
    calibration: Calibration
    balance: Balance
    leftover: Separation
    importance: Importance
    log_p: np.ndarray
    log_q: np.ndarray
    log_w: np.ndarray

    def summary(self) -> str:
        """Return a text for people: the verdict, its reasons, then the numbers."""
        return summary_of(self)

    def plot(self) -> Figure:
        """Return a figure: log r under p and q, reliability, weights, balance, importance."""
        from flowratio.diagnostics.plots import plot_diagnosis

        return plot_diagnosis(self)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it but log r and weights as plain numbers, texts and lists, ready for JSON.

        Flags become the positions of the rows that are flagged, and what is not a finite number becomes None.
        """
        kept = [field.name for field in fields(self) if not field.name.startswith("log_")]
        return {name: _plain(getattr(self, name)) for name in kept}

    def __repr__(self) -> str:
        return f"<Diagnosis: {self.verdict}, {len(self.warnings)} warnings>"


def diagnose(
    ratio: Any,
    X_p: Any,
    X_q: Any,
    *,
    sample_weight_p: Any = None,
    sample_weight_q: Any = None,
    n_repeats: int = 3,
    random_state: RandomState = None,
) -> Diagnosis:
    """Say whether a fitted ratio can be trusted, and why not.

    Give rows that the ratio was *not* fitted to. Rows that it has seen make any ratio look good, an overfitted one more
    than others, and that they were seen cannot be told from the rows. Nothing is fitted again and nothing is changed.

    The verdict is about weights r on rows of q, which make a sample of p of them. For weights 1/r on rows of p, call
    `diagnose(ratio.inverse(), X_q, X_p)`.

    Parameters
    ----------
    ratio
        A fitted ratio r = p/q; p is y = 1. Any object with `log_ratio(X)`, or a pipeline that ends with one.
    X_p, X_q
        Rows of p and of q, held out, of shapes (n_p, d) and (n_q, d); tables for a `TableRatio`, whose balance is that
        of the encoded columns, and whose importance is that of the columns of the table.
    sample_weight_p, sample_weight_q
        How often each row counts, of shapes (n_p,) and (n_q,); 1 if None.
    n_repeats
        How often each column is permuted to see whether it moves log r.
    random_state
        Draws permutations, and the folds of the test after weighting.

    Examples
    --------
    >>> from flowratio.ratios import ClassifierRatio
    >>> rng = np.random.default_rng(0)
    >>> X_p, X_q = rng.normal([1.0, 0.0], 1, (1000, 2)), rng.normal(0, 1, (1000, 2))
    >>> ratio = ClassifierRatio("logistic").fit_samples(X_p[:500], X_q[:500])
    >>> diagnosis = diagnose(ratio, X_p[500:], X_q[500:], random_state=0)
    >>> diagnosis.verdict, diagnosis.importance.columns.tolist()
    ('good', [0, 1])
    >>> diagnose(ratio.inverse(), X_p[500:], X_q[500:], random_state=0).warnings[0][:29]
    'The ratio may be inverted: lo'
    """
    log_ratio = log_ratio_of(ratio)
    if not is_count(n_repeats):
        raise ValueError(f"`n_repeats` is {n_repeats!r}: give a whole number of 1 or more.")
    seed = seed_from(random_state)
    names, groups = None, None
    if isinstance(ratio, TableRatio):
        encoder, log_ratio = ratio.encoder_, ratio.ratio_.log_ratio
        names, groups = encoder.names_, encoder.groups_
        X_p, X_q = encoder.transform(X_p), encoder.transform(X_q)
    X, y = stack(X_p, X_q)
    n_p = int(y.sum())
    log_r = _checked(log_ratio(X), len(y))
    A = np.asarray(X, np.float64)
    Z = _in_own_range(A)
    p, rows_p = _scored(Z[:n_p], log_r[:n_p], sample_weight_p, "p")
    q, rows_q = _scored(Z[n_p:], log_r[n_p:], sample_weight_q, "q")
    names = _names(ratio, X) if names is None else names
    rng_folds, rng_columns = (np.random.default_rng([seed, k]) for k in range(2))
    told = importance(
        lambda rows: _checked(log_ratio(_in_form_of(X, rows)), len(rows)),
        A[np.concatenate([rows_p, n_p + rows_q])],
        np.concatenate([p.share, q.share]) / 2,
        names if groups is None else [column.name for column in ratio.encoder_.columns_],
        n_repeats,
        rng_columns,
        groups,
    )
    return _judged(p, q, log_r[:n_p], log_r[n_p:], names, told, rng_folds)


def _judged(
    p: Scored,
    q: Scored,
    log_p: np.ndarray,
    log_q: np.ndarray,
    names: list[str],
    told: Importance,
    rng: np.random.Generator,
) -> Diagnosis:
    """Put the parts together, and judge them; log r is of all rows as they were given."""
    score, score_error = _score(p, q)
    own = separation(p.log_r, p.share, q.log_r, q.share)
    same, curve = identities(p, q), calibration(p, q)
    log_c = log_factor_of(same.bounded)  # it is taken out before the rest is judged: weights do not suffer from it
    log_w, p, q = q.log_weights(), p.divided(log_c), q.divided(log_c)
    found, shape = overlap(p, q, log_p - log_c, log_q - log_c), calibration(p, q) if log_c else curve
    columns, left = balance(p, q, names, found.inflation), leftover(p, q, rng, found.inflation)
    findings = [
        *direction(own, *_score(p, q)),
        *miscalibrated(shape),
        *few_draws(found),
        *out_of_range(p, q, names),
        *wrong_scale(same, found),
        *imbalanced(columns, left, shape, found.ess_q),
    ]
    return Diagnosis(
        verdict_of(findings),
        [finding.words for finding in findings],
        len(log_p),
        len(log_q),
        score,
        score_error,
        own,
        found,
        same,
        curve,
        columns,
        left,
        told,
        log_p,
        log_q,
        log_w,
    )


def _score(p: Scored, q: Scored) -> tuple[float, float]:
    """Return the score of `RatioEstimator.score`, and its standard error."""
    told_p, error_p = mean_and_error(log_expit(p.log_r), p.share)
    told_q, error_q = mean_and_error(log_expit(-q.log_r), q.share)
    return float(math.log(2) + (told_p + told_q) / 2), float(np.hypot(error_p, error_q) / 2)


def _checked(log_r: Any, n: int) -> np.ndarray:
    log_r = np.asarray(log_r, np.float64)
    if log_r.shape != (n,) or not np.isfinite(log_r).all():
        n_nan, n_infinite = np.count_nonzero(np.isnan(log_r)), np.count_nonzero(np.isinf(log_r))
        raise ValueError(
            f"`ratio.log_ratio(X)` has shape {log_r.shape}, {n_nan} values of it NaN and {n_infinite} infinite, for "
            f"{n} rows: it must return one finite number a row."
        )
    return log_r


def _in_own_range(X: np.ndarray) -> np.ndarray:
    """Return rows in units of the largest difference from the first: no square overflows or vanishes."""
    D = X / 2 - X[0] / 2
    largest = np.abs(D).max(axis=0)
    return D / np.where(largest > 0, largest, 1.0)


def _scored(X: np.ndarray, log_r: np.ndarray, sample_weight: Any, name: str) -> tuple[Scored, np.ndarray]:
    """Return the rows of positive weight, and their positions; a row of weight 2 is there twice."""
    w = checked_weights(sample_weight, len(X), f"sample_weight_{name}")
    rows, w = repeated(np.flatnonzero(w > 0), counts(w[w > 0]))
    if len(rows) < 2:
        raise ValueError(f"`sample_weight_{name}` leaves {len(rows)} rows of positive weight: at least 2 are needed.")
    return Scored(X[rows], log_r[rows], w / w.sum()), rows


def _names(ratio: Any, X: Any) -> list[str]:
    names = getattr(ratio, "feature_names_in_", None)
    return column_names(X, X.shape[1]) if names is None else [str(name) for name in names]


def _in_form_of(X: Any, A: np.ndarray) -> Any:
    """Return rows as a data frame with the columns of X, if X is one, so that names are checked as they were."""
    if isinstance(X, np.ndarray):
        return A.astype(X.dtype, copy=False)
    if type(X).__module__.startswith("pandas"):
        return type(X)(A, columns=X.columns)
    return type(X)(A, schema=X.columns, orient="row")


def _plain(value: Any) -> Any:
    """Turn results into numbers, texts, lists and dictionaries."""
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
