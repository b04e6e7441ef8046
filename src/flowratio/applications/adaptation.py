"""Covariate shift: learn from labelled rows of a source, and be right on a target of which only x is known.

p is the target, the numerator of r = p/q, and q the source: a row of the source counts as r(x) rows of the target.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.metrics import get_scorer
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, _safe_indexing, check_consistent_length, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, has_fit_parameter, validate_data
from typing_extensions import Self

from flowratio.applications.crossfit import Sample, check_folds, cross_fit, folds
from flowratio.ratios import AutoRatio
from flowratio.ratios.featurized import is_fitted
from flowratio.ratios.names import fitted, new_ratio
from flowratio.samples import stack
from flowratio.settings import RandomState, is_number, seed_from, unchanged_on_failure
from flowratio.weights import effective_sample_size, flatten, pareto_smooth, self_normalize


class ResampledWarning(UserWarning):
    """The estimator takes no weights, and was fitted to rows that were drawn by weight."""


def _estimator_has(name: str) -> Callable[[Any], bool]:
    """Tell `available_if` whether the estimator inside has a method."""

    def has(self: Any) -> bool:
        getattr(getattr(self, "estimator_", self.estimator), name)  # its own AttributeError says what is missing
        return True

    return has


class ImportanceWeighted(MetaEstimatorMixin, BaseEstimator):
    r"""Fit any estimator of scikit-learn to labelled source rows, weighted so that they stand for a target.

    The law of y given x is taken to be the same in both; only that of x differs. Then the risk on the target p is a
    risk on the source q, weighted by the ratio r = p/q, p is the target:

    .. math:: E_p\, \ell(f(x), y) = E_q\, r(x)\, \ell(f(x), y)

    Weights help where the estimator is too simple to be right everywhere, and must choose where. They cost variance:
    see `effective_sample_size_`, and a `gamma` below 1.

    Parameters
    ----------
    estimator
        A classifier or regressor, or a pipeline that ends with one; it is cloned. One whose `fit` takes no
        `sample_weight` is fitted to as many rows, drawn by weight, and a `ResampledWarning` says so.
    ratio
        The ratio: a name such as `"logistic"` or `"boosting"`, a ratio, or any object with `fit(X, y)` and
        `log_ratio(X)`; it is cloned. One that is fitted already, y = 1 on the target, is used as it is, also by clones:
        then leave out `X_target`. None for `AutoRatio()`.
    n_folds
        None: all rows are weighted by one ratio. A number of 2 or more: each row of the source by a ratio that was
        fitted without it. In trials on small tables this made the error on the target larger, by the few rows that it
        weights most; it helped networks that learn by heart which rows are of the source.
    gamma
        The weights are r to this power: 1 for no bias, 0 for no weights, between them less variance.
    smooth
        Whether to replace the largest weights by quantiles of a generalized Pareto law.
    random_state
        Seed of the ratio, where it has none of its own, of the folds and of the resampling.
    verbose
        Whether to show the progress bar of the ratio, if it has one.

    Attributes
    ----------
    estimator_
        The fitted estimator.
    ratio_
        The ratio p/q, target over source, fitted to all rows.
    weights_
        Weights that the estimator was fitted with, of shape (n,): `sample_weight` times r to the power of `gamma`.
        They add up to what `sample_weight` adds up to; without one their mean is 1.
    effective_sample_size_
        How many equally weighted rows they are worth.
    k_hat_
        Shape of the tail of r to the power of `gamma`: above 0.7 weighted means are not to be trusted.

    Notes
    -----
    *Pipelines.* Put the pipeline inside, `ImportanceWeighted(make_pipeline(StandardScaler(), SVC()))`: its last step is
    given the weights, and `X_target` comes in the units of `X`. As the last step of a pipeline it needs
    `make_pipeline(…, transform_input=["X_target"])`, metadata routing, and `set_fit_request(X_target=True)`: without
    these the steps before it transform `X` and not `X_target`. If routing is enabled, the steps of a pipeline inside
    must say by `set_fit_request(sample_weight=…)` which of them take weights.

    *Cross-validation.* `cross_validate(model, X, y, params={"X_target": X_target})` fits a ratio for each fold.
    scikit-learn cuts whatever has as many rows as `X` into folds, `X_target` too if it happens to have that many. Give
    a ratio that is fitted already, and no `X_target`: it is fitted once, and nothing is cut. It sees no y. Scores are
    of source rows: `TargetScorer` makes them scores of the target.

    References
    ----------
    .. [1] Shimodaira (2000). *Improving predictive inference under covariate shift by weighting the log-likelihood
       function.* Journal of Statistical Planning and Inference.
    .. [2] Sugiyama, Suzuki, Kanamori (2012). *Density Ratio Estimation in Machine Learning.* Cambridge.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X, X_target = rng.normal(0, 1, size=(2000, 1)), rng.normal(1, 0.5, size=(2000, 1))
    >>> y = X[:, 0] ** 2  # the best line has the slope 0 where the source is, and 2 where the target is
    >>> model = ImportanceWeighted(LinearRegression(), "quadratic").fit(X, y, X_target=X_target)
    >>> model.estimator_.coef_.round(1).tolist()
    [2.0]
    """

    estimator_: Any
    ratio_: Any
    weights_: np.ndarray
    effective_sample_size_: float
    k_hat_: float
    n_features_in_: int
    feature_names_in_: np.ndarray

    def __init__(
        self,
        estimator: Any,
        ratio: Any = None,
        *,
        n_folds: int | None = None,
        gamma: float = 1.0,
        smooth: bool = False,
        random_state: RandomState = None,
        verbose: bool = False,
    ) -> None:
        self.estimator = estimator
        self.ratio = ratio
        self.n_folds = n_folds
        self.gamma = gamma
        self.smooth = smooth
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_clone__(self) -> Self:
        """Clone, but for a ratio that is fitted: clones share what was fitted."""
        made: Any = super().__sklearn_clone__()
        if is_fitted(self.ratio):
            made.ratio = self.ratio
        return made

    def set_params(self, **params: Any) -> Self:
        """Set settings, also those of `estimator` and `ratio`, as `estimator__…` and `ratio__…`."""
        inside = [name for name in params if name.startswith("ratio__")]
        if inside and is_fitted(params.get("ratio", self.ratio)):
            raise ValueError(
                f"`{inside[0]}` is given, but `ratio` is fitted already, and is used as it is: give one that is not, "
                "such as `clone(ratio)`."
            )
        return super().set_params(**params)

    def fit(self, X: Any, y: Any, X_target: Any = None, sample_weight: Any = None) -> Self:
        """Weight the source rows toward the target, and fit the estimator to them.

        Parameters
        ----------
        X, y
            Labelled rows of the source, of shapes (n, d) and (n,). The columns must be numbers.
        X_target
            Rows of the target, of shape (n_target, d), without labels: the same columns in the same order. None if the
            ratio is fitted already.
        sample_weight
            How often each source row counts, of shape (n,); 1 if None. The array is not changed.
        """
        with unchanged_on_failure(self):
            self._fit(X, y, X_target, sample_weight)
        return self

    def _fit(self, X: Any, y: Any, X_target: Any, sample_weight: Any) -> None:
        self._check_settings(X_target)
        check_consistent_length(X, y)
        counts = _checked_weights(sample_weight, X)
        validate_data(self, X, skip_check_array=True)  # names and number of the columns
        seed = seed_from(self.random_state)
        log_w = flatten(self._log_ratio(X, X_target, counts, seed), self.gamma)  # (n,)
        log_w[counts == 0] = -np.inf
        smoothed = pareto_smooth(log_w)
        with np.errstate(divide="ignore"):
            log_w = (smoothed.log_w if self.smooth else log_w) + np.log(counts)
        self.k_hat_ = smoothed.k_hat
        self.effective_sample_size_ = effective_sample_size(log_w)
        self.weights_ = self_normalize(log_w, total=float(counts.sum()))
        self.estimator_ = _fit_weighted(clone(self.estimator), X, y, self.weights_.copy(), seed)

    def _log_ratio(self, X: Any, X_target: Any, counts: np.ndarray, seed: int) -> np.ndarray:
        """Return log r of the source rows, (n,)."""
        if X_target is None:
            self.ratio_ = self.ratio
            return self.ratio_.log_ratio(X)
        pooled, is_p = stack(X_target, X, names=("X_target", "X"))
        n_p = len(is_p) - len(counts)
        w = np.concatenate([np.ones(n_p), counts])
        n_folds = 1 if self.n_folds is None else check_folds(self.n_folds, min(n_p, int(np.count_nonzero(counts))))
        self.ratio_ = new_ratio(AutoRatio() if self.ratio is None else self.ratio, seed, self.verbose)
        if not has_fit_parameter(self.ratio_, "sample_weight"):
            pooled = np.asarray(pooled)  # rows are repeated, which data frames cannot be
        fitted(self.ratio_, pooled, is_p, w)
        if n_folds == 1:
            return self.ratio_.log_ratio(pooled)[n_p:]
        rng = np.random.default_rng([seed, 1])
        rows = np.asarray(pooled)
        p = Sample(rows[:n_p], w[:n_p], folds(n_p, n_folds, rng))
        q = Sample(rows[n_p:], counts, folds(len(counts), n_folds, rng))
        ratio = self.ratio_.chosen() if isinstance(self.ratio_, AutoRatio) else self.ratio  # the choice is made once
        return cross_fit(ratio, p, q, seed).log_q

    def _check_settings(self, X_target: Any) -> None:
        if isinstance(self.estimator, type) or not hasattr(self.estimator, "fit"):
            raise TypeError(f"`estimator` is {self.estimator!r}: give an estimator, such as `LogisticRegression()`.")
        if not (is_number(self.gamma) and 0 <= self.gamma < np.inf):
            raise ValueError(f"`gamma` is {self.gamma!r}: give a number of 0 or more.")
        ready = is_fitted(self.ratio)
        if X_target is None and not ready:
            raise ValueError("`X_target` is None: give unlabelled rows of the target, or a `ratio` that is fitted.")
        if ready and (X_target is not None or self.n_folds is not None):
            raise ValueError(
                "`ratio` is fitted already, and is used as it is: leave out `X_target` and `n_folds`, or give a ratio "
                "that is not fitted, such as `clone(ratio)`."
            )

    @property
    def classes_(self) -> np.ndarray:
        """The labels, of a classifier."""
        check_is_fitted(self)
        return self.estimator_.classes_

    @available_if(_estimator_has("predict"))
    def predict(self, X: Any) -> np.ndarray:
        """Predict y for rows of the target, by the fitted estimator."""
        check_is_fitted(self)
        return self.estimator_.predict(X)

    @available_if(_estimator_has("predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes, by the fitted estimator."""
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    @available_if(_estimator_has("predict_log_proba"))
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the log-probabilities of the classes, by the fitted estimator."""
        check_is_fitted(self)
        return self.estimator_.predict_log_proba(X)

    @available_if(_estimator_has("decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the decision function of the fitted estimator."""
        check_is_fitted(self)
        return self.estimator_.decision_function(X)

    @available_if(_estimator_has("score"))
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the score of the fitted estimator on labelled rows as they are: no weights but those given."""
        check_is_fitted(self)
        if sample_weight is None:
            return self.estimator_.score(X, y)
        return self.estimator_.score(X, y, sample_weight=sample_weight)

    def __sklearn_tags__(self) -> Tags:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.target_tags = inner.target_tags
        return tags


class TargetScorer:
    r"""Score a model on labelled source rows as if they were of the target: importance-weighted validation.

    Each row counts by its ratio r = p/q, p is the target, and the weights are divided by their sum. On held-out rows
    this estimates the score on the target, where a plain score is that on the source. It is a `scoring` of
    `cross_validate` and of `GridSearchCV`.

    .. math:: \sum_i r(x_i)\, s(f(x_i), y_i) \Big/ \sum_i r(x_i)

    Parameters
    ----------
    scoring
        Name of a scorer of scikit-learn, or what `make_scorer` returns; its metric must take `sample_weight`.
    ratio
        A ratio that was fitted to rows of the target (y = 1) and of the source. It needs no labels, so that it may see
        the rows that are scored. Its columns are those that the model is given.

    References
    ----------
    .. [1] Sugiyama, Krauledat, Müller (2007). *Covariate shift adaptation by importance weighted cross validation.*
       JMLR.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from sklearn.model_selection import cross_val_score
    >>> from flowratio.ratios import ClassifierRatio
    >>> rng = np.random.default_rng(0)
    >>> X, X_target = rng.normal(0, 1, size=(2000, 1)), rng.normal(1, 0.5, size=(2000, 1))
    >>> y = np.maximum(X[:, 0], 0)
    >>> ratio = ClassifierRatio("quadratic").fit_samples(X_target, X)
    >>> scoring = TargetScorer("neg_mean_absolute_error", ratio)
    >>> scores = cross_val_score(ImportanceWeighted(LinearRegression(), ratio), X, y, scoring=scoring)
    >>> bool(scores.mean() > cross_val_score(LinearRegression(), X, y, scoring=scoring).mean())
    True
    """

    def __init__(self, scoring: Any, ratio: Any) -> None:
        scorer: Any = get_scorer(scoring)
        metric = getattr(scorer, "_score_func", None)
        if metric is None:
            raise TypeError(f"`scoring` is {scoring!r}: give the name of a scorer, or what `make_scorer` returns.")
        if "sample_weight" not in inspect.signature(metric).parameters:
            raise ValueError(f"`scoring` is {scoring!r}, whose metric takes no `sample_weight`: give one that does.")
        if not is_fitted(ratio) or not hasattr(ratio, "log_ratio"):
            raise ValueError(f"`ratio` is {ratio!r}: give a ratio that is fitted, by `fit_samples(X_target, X)`.")
        self.scorer, self.ratio = scorer, ratio

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the weighted score of a fitted estimator on labelled source rows."""
        w = self_normalize(self.ratio.log_ratio(X), total=len(y)) * _checked_weights(sample_weight, X)
        return self.scorer(estimator, X, y, sample_weight=w)

    def __repr__(self) -> str:
        return f"TargetScorer({self.scorer!r}, {self.ratio!r})"

    def _accept_sample_weight(self) -> bool:
        return True  # searches ask for it


def _fit_weighted(estimator: Any, X: Any, y: Any, w: np.ndarray, seed: int) -> Any:
    """Fit an estimator to weighted rows; to rows that are drawn by weight if it takes none."""
    name = _name_of_weights(estimator)
    if name is not None:
        routed = get_config()["enable_metadata_routing"]
        return estimator.fit(X, y, **{"sample_weight" if routed else name: w})
    drawn = _systematic(w, np.random.default_rng([seed, 2]))
    warnings.warn(
        f"{type(estimator).__name__} takes no `sample_weight`: it is fitted to {len(w)} rows that are drawn by weight, "
        f"{len(np.unique(drawn))} of them distinct. An estimator that takes weights loses less.",
        ResampledWarning,
        stacklevel=4,
    )
    return estimator.fit(_safe_indexing(X, drawn), _safe_indexing(y, drawn))


def _name_of_weights(estimator: Any) -> str | None:
    """Return by which name `fit` takes weights, which of a pipeline are those of its last step; None if it takes none.

    What passes keywords on to an estimator inside, as searches do, takes weights if that one does.
    """
    if isinstance(estimator, Pipeline):
        step, last = estimator.steps[-1]
        name = _name_of_weights(last)
        return None if name is None else f"{step}__{name}"
    if has_fit_parameter(estimator, "sample_weight"):
        return "sample_weight"
    parameters = inspect.signature(estimator.fit).parameters.values()
    inside = getattr(estimator, "estimator", getattr(estimator, "regressor", None))
    if inside is None or all(parameter.kind is not inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return _name_of_weights(inside)


def _systematic(w: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw as many rows as there are weights, each as often as its weight says but for a fraction: indices, (n,)."""
    share = np.cumsum(w) / w.sum()
    drawn = np.searchsorted(share, (rng.random() + np.arange(len(w))) / len(w), side="right")
    return np.minimum(drawn, np.flatnonzero(w)[-1])  # rounding may leave the sum below 1


def _checked_weights(sample_weight: Any, X: Any) -> np.ndarray:
    w = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (w < 0).any() or not w.any():
        found = f"negative on {np.count_nonzero(w < 0)} rows" if (w < 0).any() else "zero on all rows"
        raise ValueError(f"`sample_weight` is {found}: weights count rows, and some must be above 0.")
    return w
