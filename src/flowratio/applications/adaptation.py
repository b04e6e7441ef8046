"""Covariate shift: learn from labelled rows of a source, and be right on a target of which only x is known.

p is the target, the numerator of r = p/q, and q the source: a row of the source counts as r(x) rows of the target.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.metrics import get_scorer
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, _safe_indexing, check_consistent_length, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples, check_is_fitted, has_fit_parameter, validate_data
from typing_extensions import Self

from flowratio._support.validation import RandomState, is_number, seed_from, unchanged_on_failure
from flowratio.applications.crossfit import Sample, check_folds, cross_fit, folds
from flowratio.ratios.auto.auto import AutoRatio
from flowratio.ratios.base import OverlapWarning, are_few, effective_draws
from flowratio.ratios.registry import fitted, is_ready, log_ratio_of, new_ratio
from flowratio.samples.stacking import stack
from flowratio.samples.weighting import checked_weights
from flowratio.weights import effective_sample_size, flatten, pareto_smooth, self_normalize

# methods of scikit-learn that pass keywords on to the estimator inside; the others need metadata routing for it
_PASS_ON = (
    "BaseSearchCV.fit",
    "BaseSuccessiveHalving.fit",
    "FrozenEstimator.fit",
    "RFE.fit",
    "TransformedTargetRegressor.fit",
)


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
        `log_ratio(X)`; it is cloned. One that is fitted already, y = 1 on the target, or a fitted pipeline that ends
        with one, is used as it is, also by clones: then leave out `X_target`. None for `AutoRatio()`.
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
        How many equally weighted rows they are worth. The weights alone do not notice that no source row lies where
        the target does, but its rows do: the smaller number counts, and an `OverlapWarning` says if it is a handful. A
        ratio that is fitted already tells by its own `effective_draws_`.
    k_hat_
        Shape of the tail of r to the power of `gamma`, on source rows alone: above `weights.largest_k_hat(n)` weighted
        means are not to be trusted; inf if there are too few rows to tell.

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
        if is_ready(self.ratio):
            made.ratio = self.ratio
        return made

    def set_params(self, **params: Any) -> Self:
        """Set settings, also those of `estimator` and `ratio`, as `estimator__…` and `ratio__…`."""
        inside = [name for name in params if name.startswith("ratio__")]
        if inside and is_ready(params.get("ratio", self.ratio)):
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
        counts = checked_weights(sample_weight, _num_samples(X), "sample_weight")
        validate_data(self, X, skip_check_array=True)  # names and number of the columns
        seed = seed_from(self.random_state)
        log_p, log_q = self._log_ratios(X, X_target, counts, seed)
        log_w = flatten(log_q, self.gamma)  # (n,)
        log_w[counts == 0] = -np.inf
        smoothed = pareto_smooth(log_w)
        with np.errstate(divide="ignore"):
            log_w = (smoothed.log_w if self.smooth else log_w) + np.log(counts)
        self.k_hat_ = smoothed.k_hat
        n = float(counts.sum() ** 2 / (counts @ counts))
        self.effective_sample_size_ = min(effective_sample_size(log_w), self._draws(log_p, log_q, counts, n))
        self.weights_ = self_normalize(log_w, total=float(counts.sum()))
        if are_few(self.effective_sample_size_, n):
            warnings.warn(
                f"{self.effective_sample_size_:.3g} effective rows of {n:.0f}: source and target hardly overlap, and "
                "the weights rest on a handful of source rows. Drop columns that tell them apart by their "
                "construction, or use a `gamma` below 1.",
                OverlapWarning,
                stacklevel=3,
            )
        self.estimator_ = _fit_weighted(clone(self.estimator), X, y, self.weights_.copy(), seed)

    def _draws(self, log_p: np.ndarray | None, log_q: np.ndarray, counts: np.ndarray, n: float) -> float:
        """Return how many of n source rows are left as far as rows of the target tell."""
        if log_p is None:
            last = self.ratio_.steps[-1][1] if hasattr(self.ratio_, "steps") else self.ratio_
            return getattr(last, "effective_draws_", n) if self.gamma >= 1 else n
        seen = counts > 0
        return effective_draws(log_p, np.ones(len(log_p)), log_q[seen], counts[seen], n, self.gamma)

    def _log_ratios(self, X: Any, X_target: Any, counts: np.ndarray, seed: int) -> tuple[np.ndarray | None, np.ndarray]:
        """Return log r of the rows of the target, if there are any, and of the source, (n_target,) and (n,)."""
        if X_target is None:
            self.ratio_ = self.ratio
            return None, np.asarray(log_ratio_of(self.ratio_)(X), np.float64)
        pooled, is_p = stack(X_target, X, names=("X_target", "X"))
        n_p = len(is_p) - len(counts)
        w = np.concatenate([np.ones(n_p), counts])
        n_folds = 1 if self.n_folds is None else check_folds(self.n_folds, min(n_p, int(np.count_nonzero(counts))))
        self.ratio_ = new_ratio(AutoRatio() if self.ratio is None else self.ratio, seed, self.verbose)
        if not has_fit_parameter(self.ratio_, "sample_weight"):
            pooled = np.asarray(pooled)  # rows are repeated, which data frames cannot be
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverlapWarning)  # it is told once, of the weights
            fitted(self.ratio_, pooled, is_p, w)
        if n_folds == 1:
            log_r = np.asarray(self.ratio_.log_ratio(pooled), np.float64)
            return log_r[:n_p], log_r[n_p:]
        rng = np.random.default_rng([seed, 1])
        rows = np.asarray(pooled)
        p = Sample(rows[:n_p], w[:n_p], folds(n_p, n_folds, rng))
        q = Sample(rows[n_p:], counts, folds(len(counts), n_folds, rng))
        ratio = self.ratio_.selection() if isinstance(self.ratio_, AutoRatio) else self.ratio  # the choice is made once
        found = cross_fit(ratio, p, q, seed)
        return found.log_p, found.log_q

    def _check_settings(self, X_target: Any) -> None:
        if isinstance(self.estimator, type) or not hasattr(self.estimator, "fit"):
            raise TypeError(f"`estimator` is {self.estimator!r}: give an estimator, such as `LogisticRegression()`.")
        if not hasattr(_last_step(self.estimator), "fit"):
            raise TypeError(
                f"`estimator` is a pipeline that ends with {_last_step(self.estimator)!r}: its last step must be a "
                "classifier or a regressor."
            )
        if not isinstance(self.smooth, bool | np.bool_):
            raise ValueError(f"`smooth` is {self.smooth!r}: give True or False.")
        if not (is_number(self.gamma) and 0 <= self.gamma < np.inf):
            raise ValueError(f"`gamma` is {self.gamma!r}: give a number of 0 or more.")
        ready = is_ready(self.ratio)
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
        if not is_ready(ratio):
            raise ValueError(f"`ratio` is {ratio!r}: give a ratio that is fitted, by `fit_samples(X_target, X)`.")
        self.scorer, self.ratio = scorer, ratio

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the weighted score of a fitted estimator on labelled source rows."""
        counts = checked_weights(sample_weight, _num_samples(X), "sample_weight")
        w = self_normalize(log_ratio_of(self.ratio)(X), total=len(y)) * counts
        return self.scorer(estimator, X, y, sample_weight=w)

    def get_metadata_routing(self) -> Any:
        """Return what the scorer inside asks for, where metadata are routed."""
        return self.scorer.get_metadata_routing()

    def set_score_request(self, *, sample_weight: bool | str | None) -> Self:
        """Ask for weights of rows, where metadata are routed: True, False, None for an error, or their name."""
        self.scorer = copy(self.scorer).set_score_request(sample_weight=sample_weight)
        return self

    def __repr__(self) -> str:
        return f"TargetScorer({self.scorer!r}, {self.ratio!r})"

    def _accept_sample_weight(self) -> bool:
        return True  # searches ask for it


def _fit_weighted(estimator: Any, X: Any, y: Any, w: np.ndarray, seed: int) -> Any:
    """Fit an estimator to weighted rows; to rows that are drawn by weight if it takes none."""
    refuses = _refusing(estimator)
    if refuses is None:
        return estimator.fit(X, y, **{"sample_weight" if _is_routed() else _name_of_weights(estimator): w})
    needs_routing = _has_keywords(refuses) and _inside(refuses)
    drawn = _systematic(w, np.random.default_rng([seed, 2]))
    warnings.warn(
        f"{type(refuses).__name__} takes no `sample_weight`{' without metadata routing' if needs_routing else ''}: "
        f"{'it' if refuses is estimator else type(estimator).__name__} is fitted to {len(w)} rows that are drawn by "
        f"weight, {len(np.unique(drawn))} of them distinct. An estimator that takes weights loses less.",
        ResampledWarning,
        stacklevel=4,
    )
    return estimator.fit(_safe_indexing(X, drawn), _safe_indexing(y, drawn))


def _refusing(estimator: Any) -> Any:
    """Return the estimator that takes no weights, this one or one inside that would be given them; None if all do."""
    inside = _inside(estimator)
    if isinstance(estimator, Pipeline) or _passes_on(estimator):
        return next((found for part in inside if (found := _refusing(part)) is not None), None)
    if not has_fit_parameter(estimator, "sample_weight") and not hasattr(estimator, "estimators"):
        return estimator
    for part in inside:
        if isinstance(part, Pipeline) and not _is_routed():
            return part  # it knows weights by the names of its steps only
    return next((found for part in inside if (found := _refusing(part)) is not None), None)


def _inside(estimator: Any) -> list[Any]:
    """Return the estimators that an estimator fits, where it is made of others."""
    if isinstance(estimator, Pipeline):
        return [estimator.steps[-1][1]]
    many = [part for _, part in getattr(estimator, "estimators", [])]
    one = [getattr(estimator, name, None) for name in ("estimator", "regressor", "final_estimator")]
    return [part for part in (*many, *one) if hasattr(part, "fit")]  # not those that are None or 'drop'


def _passes_on(estimator: Any) -> bool:
    """Return whether `fit` passes keywords that it does not know on to the estimator inside."""
    if not _has_keywords(estimator) or hasattr(estimator, "estimators"):
        return False
    if not (hasattr(estimator, "estimator") or hasattr(estimator, "regressor")):
        return False
    fit = type(estimator).fit
    return not fit.__module__.startswith("sklearn.") or fit.__qualname__ in _PASS_ON or _is_routed()


def _has_keywords(estimator: Any) -> bool:
    parameters = inspect.signature(estimator.fit).parameters.values()
    return any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)


def _is_routed() -> bool:
    return get_config()["enable_metadata_routing"]


def _name_of_weights(estimator: Any) -> str:
    """Return by which name `fit` takes weights, which of a pipeline are those of its last step."""
    if isinstance(estimator, Pipeline):
        step, last = estimator.steps[-1]
        return f"{step}__{_name_of_weights(last)}"
    if has_fit_parameter(estimator, "sample_weight") or not _passes_on(estimator) or not _inside(estimator):
        return "sample_weight"
    return _name_of_weights(_inside(estimator)[0])


def _last_step(estimator: Any) -> Any:
    """Return the last step of a pipeline, or of the pipeline that is its last step; any other estimator as it is."""
    return _last_step(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def _systematic(w: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw as many rows as there are weights, each as often as its weight says but for a fraction: indices, (n,)."""
    share = np.cumsum(w) / w.sum()
    drawn = np.searchsorted(share, (rng.random() + np.arange(len(w))) / len(w), side="right")
    return np.minimum(drawn, np.flatnonzero(w)[-1])  # rounding may leave the sum below 1
