r"""What every ratio shares: checks, units, class odds and one score.

A ratio is a two-class scikit-learn classifier. Its log-ratio is the logit of the posterior minus that of the prior:

.. math:: \log r(x) = \log\frac{p(x)}{q(x)}
                    = \log\frac{P(y = 1 \mid x)}{P(y = 0 \mid x)} - \log\frac{P(y = 1)}{P(y = 0)}
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, cast

import numpy as np
from scipy.special import expit, log_expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data
from typing_extensions import Self

from flowratio._support.chunks import chunks
from flowratio._support.types import Matrix, TableLike, Vector, VectorLike
from flowratio._support.validation import unchanged_on_failure
from flowratio._support.wording import quoted
from flowratio.ratios.categories import CategoryOdds, with_category_odds
from flowratio.ratios.labels import labels_of_rows, refuse_second_sample, row_weights, two_classes
from flowratio.ratios.shared_support import LIMITS, SharedSupport, kish, shared_support, with_separate_ranges
from flowratio.samples.containers import in_order, is_arrow_table, is_vector, needs_encoding, to_table, to_tables
from flowratio.samples.pairing import check_pairs
from flowratio.samples.row_digests import remembered_digests
from flowratio.samples.stacking import column_names, has_names, stack
from flowratio.samples.two_samples import (
    TwoSamples,
    bounded,
    fitted_encoder,
    pooled_tables,
    positive_rows,
    standardized,
)
from flowratio.samples.weighting import checked_weights
from flowratio.tables.detection import is_mixed
from flowratio.weights import ratios_from_logs, self_normalize

if TYPE_CHECKING:
    from flowratio.latent.featurizer import FlowFeaturizer
    from flowratio.ratios.inverse import InverseRatio
    from flowratio.tables.encoder import TableEncoder

_FLOATS: Any = [np.float64, np.float32]  # types that stay. Others become the first
_OF_PUBLIC_FIT = ("effective_sample_size_", "inverse_sample_size_", "uncovered_share_", "row_digests_")


class OverlapWarning(UserWarning):
    """So few rows of q lie where p does that anything weighted by r depends on a handful of them."""


@dataclass(frozen=True)
class Requires:
    """What a method needs of the rows that its `_fit` receives."""

    # columns of mean 0 and deviation 1, or the units of the input. `_log_ratio` gets the same
    units: Literal["standard", "own"] = "standard"
    # the order of the input, or equal rows merged in an order of their own, or these as often as their integer weight.
    # Log-odds in the place of codes change the order of "given" rows too, see `with_category_odds`
    rows: Literal["given", "distinct", "repeated"] = "repeated"
    noise: bool = False  # whether several noisy versions of each row help: one group of `TwoSamples.groups`
    # cross-fitted log-odds in the place of codes of categories, or the codes, for a ratio that passes rows on to others
    categories: Literal["odds", "codes"] = "odds"


class Design(NamedTuple):
    """The matrix that a ratio computes with, and where its columns come from."""

    matrix: Matrix  # encoded rows, (n, m)
    names: list[str]  # of the m columns
    groups: Vector  # position in `columns` of the source column of each column, (m,)
    columns: list[str]  # names of the source columns
    unseen: dict[str, int]  # rows with a category or a missing value that did not occur at fit, by source column


class RowScores(NamedTuple):
    """Log-ratios of rows, of shape (n,), and the number of rows by column with something unseen at fit."""

    log_r: Vector
    unseen: dict[str, int]


class RatioEstimator(ClassifierMixin, BaseEstimator, ABC):
    """Estimate r(x) = p(x) / q(x): p is the sample with y = 1 (the numerator), q the sample with y = 0.

    A method writes `_fit` and `_log_ratio`, and declares in `requires` what rows it needs. Arrays and tables of pandas,
    polars and Arrow are accepted. Text, dates, booleans and missing values are encoded once, in `fit`. Integer weights
    are counts. Other weights are relative: their scale does not matter.

    Attributes
    ----------
    encoder_, classes_
        The `TableEncoder` of a mixed table, or None if the input was all numbers. The two labels: q, then p.
    log_odds_, mean_, scale_
        log(n_p / n_q), with weights if there are any, which is taken out of the ratio. Mean and deviation of each
        column, (d,), both samples counting one half. Constant columns have scale `inf` and are ignored.
    category_odds_
        The `CategoryOdds` that replace codes of text columns with many categories. None if there are none.
    effective_sample_size_, inverse_sample_size_
        Effective sample size of the training rows of q weighted by r, and of those of p weighted by 1/r.
    uncovered_share_
        Share of the training rows of p, by weight, that lie where q has hardly any rows. 0 if the weights represent p.
    row_digests_
        Digests of up to 1000 training rows, by which `diagnose` recognizes them. Empty if many rows are equal.
    """

    requires: ClassVar[Requires] = Requires()
    _direction: ClassVar[str] = "p/q"
    encoder_: TableEncoder | None
    category_odds_: CategoryOdds | None = None

    def fit(
        self,
        X: TableLike,
        y: VectorLike,
        sample_weight: VectorLike | None = None,
        *,
        encoder: TableEncoder | None = None,
    ) -> Self:
        """Fit to labeled rows.

        Parameters
        ----------
        X, y, sample_weight
            Rows of both samples, (n, d), labels (1 or True on rows of p, 0 or False on rows of q), (n,), and weights of
            the rows, (n,). All weights are 1 if None.
        encoder
            A `TableEncoder` with settings of your own, or a fitted one. None for the default settings.
        """
        refuse_second_sample(y)
        check_pairs({"X": X, "y": y, "sample_weight": sample_weight})
        X = to_table(X) if is_arrow_table(X) else X
        with unchanged_on_failure(self):
            mixed = encoder is not None or needs_encoding(X)
            self._fit_public(self._two_samples(X, y, sample_weight, encoder, mixed, has_names(X)))
        return self

    def fit_samples(
        self,
        X_p: TableLike,
        X_q: TableLike,
        sample_weight_p: VectorLike | None = None,
        sample_weight_q: VectorLike | None = None,
        *,
        encoder: TableEncoder | None = None,
    ) -> Self:
        """Fit to two samples, r = p/q.

        Parameters
        ----------
        X_p, X_q, sample_weight_p, sample_weight_q
            Rows of p (the numerator) and of q, (n_p, d) and (n_q, d), or (n_p,) and (n_q,) for one column, and their
            weights, (n_p,) and (n_q,). Columns of tables are matched by name. All weights are 1 if None.
        encoder
            A `TableEncoder` with settings of your own, or a fitted one. None for the default settings.
        """
        check_pairs({"X_p": X_p, "sample_weight_p": sample_weight_p})
        check_pairs({"X_q": X_q, "sample_weight_q": sample_weight_q})
        X_p, X_q = to_tables(X_p, X_q)
        mixed = encoder is not None or needs_encoding(X_p, X_q)
        X, y = pooled_tables(X_p, X_q, encoder=encoder) if mixed else stack(X_p, X_q)
        w = None
        if sample_weight_p is not None or sample_weight_q is not None:
            n_p = int(y.sum())
            w_p = checked_weights(sample_weight_p, n_p, "sample_weight_p")
            w = np.concatenate([w_p, checked_weights(sample_weight_q, len(y) - n_p, "sample_weight_q")])
        with unchanged_on_failure(self):
            self._fit_public(self._two_samples(X, y, w, encoder, mixed, has_names(X_p)))
        return self

    def _two_samples(
        self,
        X: TableLike,
        y: VectorLike,
        sample_weight: VectorLike | None,
        encoder: TableEncoder | None,
        mixed: bool,
        named: bool,
    ) -> TwoSamples:
        """Check labeled rows, encode a mixed table, and remember the columns. Those of arrays have no names."""
        if mixed:
            return self._encoded(X, y, sample_weight, encoder, named)
        rows: Any = (X, y)
        matrix, labels = map(np.asarray, validate_data(self, *rows, dtype=_FLOATS, ensure_min_samples=2))
        self.encoder_, names = None, getattr(self, "feature_names_in_", None)
        self.classes_, w = two_classes(labels), row_weights(sample_weight, matrix)
        return TwoSamples.of(matrix, labels == self.classes_[1], w, names)

    def _encoded(
        self,
        X: TableLike,
        y: VectorLike,
        sample_weight: VectorLike | None,
        encoder: TableEncoder | None,
        named: bool,
    ) -> TwoSamples:
        from flowratio.tables.cells import to_frame

        frame = to_frame(X)
        labels = labels_of_rows(y, frame.height)
        self.classes_ = two_classes(labels)
        frame, labels, w = positive_rows(frame, labels, row_weights(sample_weight, labels))
        self.encoder_, self.n_features_in_ = fitted_encoder(frame, labels, encoder, w), frame.width
        vars(self).pop("feature_names_in_", None)
        if named:
            self.feature_names_in_ = np.array(frame.columns, dtype=object)
        matrix, _ = self.encoder_.encode(frame)
        return TwoSamples.of(matrix, labels == self.classes_[1], w, self.encoder_.names_, self.encoder_)

    def _fit_public(self, samples: TwoSamples) -> None:
        self._fit_units(samples)
        self.row_digests_ = remembered_digests(samples.X)
        rows = self._overlap_rows(samples)
        support = self._measure_overlap(rows, samples.n_p / rows.n_p, samples.n_q / rows.n_q)
        if support.is_poor:
            advice = f"Use `RULSIF`, which is bounded, or see {LIMITS}."
            warnings.warn(support.problem(rows, advice=advice), OverlapWarning, stacklevel=3)

    def fit_prepared(self, samples: TwoSamples) -> Self:
        """Fit to samples that are checked and encoded already, as a part of another estimator. It never warns."""
        with unchanged_on_failure(self):
            for name in ("feature_names_in_", *_OF_PUBLIC_FIT):
                vars(self).pop(name, None)
            self.encoder_, self.classes_, self.n_features_in_ = None, np.array([0, 1]), samples.X.shape[1]
            self._fit_units(samples)
        return self

    def _fit_units(self, samples: TwoSamples) -> None:
        """Prepare rows and fit to them. A method overrides this hook to act before the rows are prepared."""
        self._fit(self._prepare_rows(samples))

    def _prepare_rows(self, samples: TwoSamples) -> TwoSamples:
        """Fit units and odds of categories, and return rows in the form that `requires` asks for."""
        self.log_odds_, self.category_odds_ = samples.log_odds, None
        if samples.codes and self.requires.categories == "odds":
            self.category_odds_, samples = with_category_odds(samples)
        self.mean_, self.scale_ = samples.moments()
        rows = standard = samples.standardized(self.mean_, self.scale_)
        if self.requires.units == "own":
            rows = samples.bounded(self.mean_, self.scale_)
        if self.requires.rows != "given":  # equal rows with codes are in different folds
            rows = rows.reordered(standard.X, repeat=self.requires.rows == "repeated" or bool(rows.codes))
        return rows

    @abstractmethod
    def _fit(self, samples: TwoSamples) -> None:
        """Fit to rows in the form that `requires` declares."""

    @abstractmethod
    def _log_ratio(self, X: Matrix) -> Vector:
        """Return log r of rows in the units of `requires`, (n, d) to (n,), finite."""

    def _in_units(self, X: Matrix) -> Matrix:
        return (standardized if self.requires.units == "standard" else bounded)(X, self.mean_, self.scale_)

    def design(self, X: TableLike) -> Design:
        """Check rows, and return the matrix that the ratio computes with, with names and groups of its columns."""
        check_is_fitted(self)
        X = self._table(X)
        if self.encoder_ is not None:
            matrix, unseen = self.encoder_.encode(X)
            if not len(matrix):
                raise ValueError("`X` has 0 rows. Give at least one row.")
            columns = [column.name for column in self.encoder_.columns_]
            return Design(matrix, list(self.encoder_.names_), self.encoder_.groups_, columns, unseen)
        rows: Any = X
        try:
            matrix = np.asarray(validate_data(self, rows, dtype=_FLOATS, reset=False))
        except ValueError as error:
            if not is_mixed(X):
                raise
            problem = "`X` has text, dates or missing values, but the ratio was fitted to numbers without them"
            raise ValueError(f"{problem}. Fit it with such rows, or with `encoder=TableEncoder()`.") from error
        names = getattr(self, "feature_names_in_", None)
        columns = column_names(X, matrix.shape[1]) if names is None else [str(name) for name in names]
        return Design(matrix, columns, np.arange(len(columns)), columns, {})

    def _table(self, X: TableLike) -> Any:
        """Return rows as a table with the columns in their order at fit. For one column, (n,) is accepted too."""
        names = list(getattr(self, "feature_names_in_", ()))
        if is_vector(X):
            return to_table(X, names[0] if names else None) if self.n_features_in_ == 1 else X
        return in_order(to_table(X), names)

    def score_rows(self, X: TableLike) -> RowScores:
        """Return log r of rows, and where they hold something unseen at fit. It does not warn."""
        design = self.design(X)
        return RowScores(self.log_ratio_prepared(design.matrix), design.unseen)

    def log_ratio(self, X: TableLike) -> Vector:
        """Return log r(x) = log p(x) - log q(x) in nats: (n, d) to (n,), float64, finite for every finite row."""
        scores = self.score_rows(X)
        if scores.unseen:
            from flowratio.tables.encoder import UnseenWarning

            columns = [f"{quoted(name)} ({n} row{'s' * (n != 1)})" for name, n in list(scores.unseen.items())[:8]]
            problem = "`X` has categories, missing values or far values that did not occur at fit"
            effect = "New categories count as '(other)' or as the most frequent one. Their effect is unknown."
            warnings.warn(f"{problem}, in {', '.join(columns)}. {effect}", UnseenWarning, stacklevel=2)
        return scores.log_r

    def log_ratio_prepared(self, X: Matrix) -> Vector:
        """Return log r of rows of the design matrix that are checked already, (n, m) to (n,)."""
        log_r, odds = np.empty(len(X)), self.category_odds_
        for part in chunks(*X.shape):
            rows = X[part] if odds is None else odds.replaced(X[part])
            log_r[part] = self._log_ratio(self._in_units(rows))
        return log_r

    def score_samples(self, X: TableLike) -> Vector:
        """Return log r(x): `log_ratio`, by the name that a `Pipeline` passes on."""
        return self.log_ratio(X)

    def ratio(self, X: TableLike) -> Vector:
        """Return r(x) = p(x) / q(x): (n, d) to (n,). A ratio too large for a float is the largest float."""
        return ratios_from_logs(self.log_ratio(X))

    def weights(self, X: TableLike, normalize: Literal["mean", "sum"] | None = "mean") -> Vector:
        """Return weights that turn rows of q into a sample of p: (n, d) to (n,).

        With `normalize="mean"` their mean is 1, with `"sum"` their sum is 1. With None they are r(x) itself.
        """
        if normalize not in ("mean", "sum", None):
            raise ValueError(f"`normalize` is {normalize!r}. Use 'mean', 'sum' or None.")
        log_r = self.log_ratio(X)
        if normalize is None:
            return ratios_from_logs(log_r)
        return self_normalize(log_r, total=len(log_r) if normalize == "mean" else 1.0)

    def decision_function(self, X: TableLike) -> Vector:
        """Return the logit of y = 1: log r plus the log-odds of the training sample, (n, d) to (n,)."""
        return self.log_ratio(X) + self.log_odds_

    def predict_proba(self, X: TableLike) -> Matrix:
        """Return the posterior of both classes under the odds of the training sample, (n, d) to (n, 2)."""
        return expit(np.multiply.outer(self.decision_function(X), [-1.0, 1.0]))

    def predict(self, X: TableLike) -> Vector:
        """Return the more probable class, (n, d) to (n,)."""
        is_p = self.decision_function(X) > 0
        return self.classes_[is_p.astype(int)]

    def score(self, X: TableLike, y: VectorLike, sample_weight: VectorLike | None = None) -> float:
        r"""Return how well the ratio separates p from q, in nats: 0 for r = 1, at most log 2 = 0.69.

        .. math:: S(r) = \log 2 + \tfrac12 \mathrm{mean}_p \log\frac{r}{1 + r}
                         + \tfrac12 \mathrm{mean}_q \log\frac{1}{1 + r}

        This is the log-likelihood of y with both classes counting one half, minus that of a coin. Its expectation is
        largest at the true ratio, where it is the Jensen-Shannon divergence of p and q. It does not depend on units or
        n_p : n_q, so it compares all ratios. If p and q are far apart every good ratio scores near log 2, and
        `kl_score` distinguishes better. `X`, `y` and `sample_weight` are held-out rows, as in `fit`, with both labels.
        """
        log_r, is_p, w = self.labeled_scores(X, y, sample_weight)
        gains = [np.average(log_expit(s * log_r[of]), weights=w[of]) for s, of in ((1, is_p), (-1, ~is_p))]
        return float(math.log(2) + 0.5 * sum(gains))

    def labeled_scores(
        self, X: TableLike, y: VectorLike, sample_weight: VectorLike | None = None
    ) -> tuple[Vector, Vector, Vector]:
        """Return log r, whether a row belongs to the numerator, and weights of labeled rows, each of shape (n,)."""
        check_pairs({"X": X, "y": y, "sample_weight": sample_weight})
        log_r, y = self.log_ratio(X), np.asarray(y)
        if y.shape != log_r.shape:
            raise ValueError(f"`y` has shape {y.shape} but `X` has {len(log_r)} rows. Give one label for each row.")
        labels = np.unique(y)
        if not np.array_equal(labels, self.classes_):
            difference = f"`y` has the labels {labels.tolist()}, but the ratio was fitted to {self.classes_.tolist()}"
            raise ValueError(f"{difference}. A score needs rows of both samples. Use stratified folds.")
        w = row_weights(sample_weight, log_r)
        is_p = y == self.classes_[1]
        if not (w[is_p].any() and w[~is_p].any()):
            raise ValueError("`sample_weight` is zero on all rows of a class. A score needs rows of both samples.")
        return log_r, is_p, w

    def mixture_flow(self) -> FlowFeaturizer | None:
        """Return the flow of the mixture of both samples, if the ratio has one. It maps rows of `flow_rows`."""
        return None

    def mixture_odds(self) -> CategoryOdds | None:
        """Return what replaces codes of categories before the flow of the ratio. None if nothing does."""
        return self.category_odds_

    def flow_rows(self, X: Matrix, flow: FlowFeaturizer) -> Matrix:
        """Return rows of the design matrix as a flow takes them: that of the ratio, or one of the design matrix."""
        odds = self.mixture_odds()
        return X if odds is None or flow.n_features_in_ == X.shape[1] else odds.replaced(X)

    def is_additive(self) -> bool:
        """Return whether log r is a sum over columns, so that it cannot see dependence. It needs no fit."""
        return False

    def inverse(self) -> InverseRatio | RatioEstimator:
        """Return 1/r = q/p without another fit. It shares the fitted state with this ratio."""
        from flowratio.ratios.inverse import InverseRatio

        check_is_fitted(self)
        inverse = InverseRatio(cast("Any", clone(self)))
        inverse.estimator_ = self
        return inverse

    def _overlap_rows(self, samples: TwoSamples) -> TwoSamples:
        """Return the rows that show the overlap of the samples: all of them, unless scoring takes too long."""
        return samples

    def _measure_overlap(self, rows: TwoSamples, times_p: float, times_q: float) -> SharedSupport:
        """Measure the effective sample sizes of r on q and of 1/r on p, which have so many times the rows."""
        log_p, log_q = (self.log_ratio_prepared(X) for X in (rows.X_p, rows.X_q))
        support = with_separate_ranges(shared_support(log_p, rows.w_p, log_q, rows.w_q), rows)
        support = support._replace(ess=support.ess * times_q, n=support.n * times_q)
        self.effective_sample_size_, self.inverse_sample_size_ = support.ess, kish(-log_p, rows.w_p) * times_p
        self.uncovered_share_ = support.far_share
        return support

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"<{super().__repr__(N_CHAR_MAX)}: r = {self._direction}, p is y = 1>"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.allow_nan = tags.input_tags.string = True
        return tags
