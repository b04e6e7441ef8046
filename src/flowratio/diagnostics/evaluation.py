"""Held-out log-ratios of all rows: by a fitted ratio on other rows, or by cross-fitting an unfitted ratio."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import _num_samples, check_is_fitted

from flowratio._support.types import Matrix, TableLike, Vector, VectorLike
from flowratio.ratios.advice import advice_on_form, untried_note
from flowratio.ratios.base import Design, RatioEstimator
from flowratio.ratios.fold_scores import cross_fit, folds_of, ratio_to_fit
from flowratio.ratios.registry import design_of, is_ready, log_ratio_of, log_ratio_prepared
from flowratio.samples.containers import to_tables
from flowratio.samples.row_digests import share_of_known_rows
from flowratio.samples.stacking import stack, to_matrix
from flowratio.samples.two_samples import TwoSamples
from flowratio.samples.weighting import checked_weights
from flowratio.tables.detection import is_mixed

if TYPE_CHECKING:
    from flowratio.tables.encoder import TableEncoder

MAX_FITTED = 100_000  # rows of each sample that a model of a fold is fitted to. All rows are scored


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Rows of both samples, those of p first, with log-ratios by models that were not fitted to them."""

    design: Design  # their matrix, (n, m), with names and sources of its columns
    n_p: int  # number of rows of p
    w: Vector  # weights of the rows, (n,)
    log_r: Vector  # (n,)
    log_ratio: Callable[[Matrix], Vector]  # of other rows of the matrix, for the importance of columns
    encoder: TableEncoder | None = None  # of the table that the matrix comes from
    fold: Vector | None = None  # (n,): the fold of each row. None if the ratio was fitted before
    each: Matrix | None = None  # (n_folds, n): log r of all rows by the model of each fold
    fitted_share: float = 0.0  # share of the training rows of a fitted ratio that are among these rows
    as_weight: Vector | None = None  # (n,): log r as weights of rows, see `FoldScores.as_weight`
    advice: str = ""  # on a ratio of the wrong form
    note: str = ""  # what an automatic choice of the ratio did not try

    @property
    def n_folds(self) -> int:
        return 0 if self.each is None else len(self.each)

    @property
    def rare_shares(self) -> dict[str, float]:
        """By name of a text column, the share of the rows whose category is too rare to be estimated."""
        return {} if self.encoder is None else dict(self.encoder.rare_shares_)


def needs_fit(ratio: Any) -> bool:
    """Return whether to cross-fit a ratio: a name, or an unfitted ratio."""
    return isinstance(ratio, str) or not (ratio is None or is_ready(ratio) or hasattr(ratio, "steps"))


def cross_fitted(
    ratio: Any, samples: TwoSamples, seed: int, n_folds: int = 5, *, model: Any = None, verbose: bool = False
) -> Evaluation:
    """Score every row by a model that was not fitted to it. An `AutoRatio` chooses once, on all rows.

    `model` is the ratio that was fitted to all rows, if there is one. Columns matter as they do there.
    """
    rng = np.random.default_rng([seed, 2])
    fold = folds_of(samples, n_folds, rng)
    unfitted = ratio_to_fit(ratio, samples, seed, verbose)
    scores = cross_fit(unfitted, samples, fold, seed, verbose, fitted=_some_rows(samples, rng))
    last = scores.model if model is None else model
    return Evaluation(
        prepared_design(samples),
        samples.n_p,
        samples.w,
        np.concatenate([scores.p.log_r, scores.q.log_r]),
        (lambda A: np.zeros(len(A))) if last is None else partial(log_ratio_prepared, last),
        samples.encoder,
        fold,
        np.hstack([scores.p.each, scores.q.each]),
        as_weight=np.concatenate([scores.p.log_weights, scores.q.log_weights]),
        advice=advice_on_form(unfitted),
        note=untried_note(unfitted),
    )


def prepared_design(samples: TwoSamples) -> Design:
    """Return the matrix of both samples, (n, m), with names and sources of its columns."""
    X = np.asarray(samples.X, np.float64)
    if samples.encoder is None:
        names = samples.column_names
        return Design(X, names, np.arange(len(names)), names, {})
    columns = [column.name for column in samples.encoder.columns_]
    return Design(X, list(samples.encoder.names_), samples.encoder.groups_, columns, {})


def _some_rows(samples: TwoSamples, rng: np.random.Generator) -> Vector | None:
    """Return a mask (n,) of the rows that models are fitted to, None for all rows."""
    if max(samples.n_p, samples.n_q) <= MAX_FITTED:
        return None
    return np.concatenate([rng.permutation(n) < MAX_FITTED for n in (samples.n_p, samples.n_q)])


def held_out(
    ratio: Any,
    X_p: TableLike,
    X_q: TableLike,
    sample_weight_p: VectorLike | None = None,
    sample_weight_q: VectorLike | None = None,
) -> Evaluation:
    """Score rows that a fitted ratio was not fitted to."""
    log_ratio_of(ratio)  # refuse what is not a ratio
    if not is_ready(ratio):
        check_is_fitted(ratio)
    design, n_p, log_ratio = _design(ratio, X_p, X_q)
    A = design.matrix
    w_p = checked_weights(sample_weight_p, n_p, "sample_weight_p")
    w = np.concatenate([w_p, checked_weights(sample_weight_q, len(A) - n_p, "sample_weight_q")])

    def checked(B: Matrix) -> Vector:
        return _checked(log_ratio(B), len(B))

    public = ratio if hasattr(ratio, "row_digests_") else getattr(ratio, "estimator_", ratio)  # of an inverse
    fitted_share = share_of_known_rows(getattr(public, "row_digests_", np.zeros(0)), A)
    encoder = getattr(ratio, "encoder_", None)
    advice, note = advice_on_form(ratio), untried_note(ratio)
    return Evaluation(design, n_p, w, checked(A), checked, encoder, fitted_share=fitted_share, advice=advice, note=note)


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


def _checked(log_r: Any, n: int) -> Vector:
    log_r = np.asarray(log_r, np.float64)
    if log_r.shape != (n,) or not np.isfinite(log_r).all():
        values = f"{np.count_nonzero(np.isnan(log_r))} NaN and {np.count_nonzero(np.isinf(log_r))} infinite values"
        problem = f"`ratio.log_ratio(X)` has shape {log_r.shape} for {n} rows, with {values}"
        raise ValueError(f"{problem}. It must return one finite number for each row.")
    return log_r


def _in_form_of(X: Any, A: Matrix) -> Any:
    """Return rows as a data frame with the columns of X, if X is one, so that the ratio can check the names."""
    if isinstance(X, np.ndarray):
        return A.astype(X.dtype, copy=False)
    if type(X).__module__.startswith("pandas"):
        return type(X)(A, columns=X.columns)
    return type(X)(A, schema=X.columns, orient="row")
