"""Covariate shift: fit to labeled rows of a source for use on a target without labels.

p is the target, the numerator of r = p/q, and q the source: a row of the source counts as r(x) rows of the target.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import Tags, check_consistent_length, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data
from typing_extensions import Self

from flowratio._support.types import TableLike, Vector, VectorLike
from flowratio._support.validation import RandomState, check_nonnegative, seed_from, unchanged_on_failure
from flowratio.applications.copied_columns import warn_of_copies
from flowratio.applications.crossfit import check_folds, cross_fit, fit_prepared, log_ratio_prepared
from flowratio.applications.refused_columns import refusal_of_text
from flowratio.applications.weight_checks import warn_of_inversion
from flowratio.applications.weighted_fit import fit_weighted, last_step
from flowratio.ratios.auto.auto import AutoRatio
from flowratio.ratios.base import OverlapWarning, RatioEstimator
from flowratio.ratios.registry import is_ready, log_ratio_of, new_ratio
from flowratio.ratios.shared_support import LIMITS, SharedSupport, shared_support
from flowratio.samples.folding import folds
from flowratio.samples.pairing import check_pairs
from flowratio.samples.two_samples import TwoSamples, two_samples
from flowratio.samples.weighting import checked_weights
from flowratio.weights import effective_sample_size, pareto_smooth, self_normalize, temper


def _estimator_has(name: str) -> Callable[[Any], bool]:
    """Return a check for `available_if`: whether the estimator inside has a method."""

    def has(self: Any) -> bool:
        getattr(getattr(self, "estimator_", self.estimator), name)  # its AttributeError names what is missing
        return True

    return has


def _method_of_estimator(name: str, doc: str) -> Any:
    """Return a method of rows X that calls the method of the fitted estimator, available if there is one."""

    def method(self: Any, X: TableLike) -> Vector:
        check_is_fitted(self)
        return getattr(self.estimator_, name)(X)

    method.__name__, method.__doc__ = name, doc
    return available_if(_estimator_has(name))(method)


class ImportanceWeighted(MetaEstimatorMixin, BaseEstimator):
    r"""Fit any estimator of scikit-learn to labeled source rows that are weighted to represent a target.

    The distribution of y given x must be the same in both. Only that of x may differ. Then the risk on the target p is
    a risk on the source q, weighted by the ratio r = p/q, p is the target:

    .. math:: E_p\, \ell(f(x), y) = E_q\, r(x)\, \ell(f(x), y)

    Weights help if the estimator is too simple to be right everywhere. They add variance.

    Parameters
    ----------
    estimator
        A classifier or regressor, or a pipeline that ends with one. It is cloned. If its `fit` takes no
        `sample_weight`, it is fitted to rows resampled by weight, with a `ResampledWarning`.
    ratio
        A ratio, its name, such as `"logistic"` or `"boosting"`, or any object with `fit(X, y)` and `log_ratio(X)`. It
        is cloned. A fitted ratio, y = 1 on the target, or a fitted pipeline that ends with one, is used unchanged, also
        by clones: then leave out `X_target`. A warning is issued if it looks inverted. None for `AutoRatio()`.
    n_folds
        None: one ratio weights all rows. 2 or more: each row of the source is weighted by a ratio that was fitted
        without it. On small tables this increased the error on the target. It helped networks that memorize the rows.
    gamma, smooth
        The weights are r to the power of `gamma`: 1 for no bias, 0 for no weights, between them less variance. `smooth`
        replaces the largest weights by quantiles of a generalized Pareto distribution.
    random_state, verbose
        Seed of the ratio, if it has none of its own, of folds and of the resampling. Whether to show a progress bar.

    Attributes
    ----------
    estimator_, ratio_
        The fitted estimator, and the ratio p/q, target over source, fitted to all rows.
    sample_weight_
        Weights that the estimator was fitted with, of shape (n,): `sample_weight` times r to the power of `gamma`. They
        add up to the sum of `sample_weight`. Without one their mean is 1.
    effective_sample_size_, k_hat_
        Effective sample size of the weights. An `OverlapWarning` is issued if it is small, or if part of the target
        lies where the source has hardly any rows.
        Pareto k̂ of the weights. Above `weights.largest_k_hat(n)` weighted means are not reliable. inf for few rows.

    Notes
    -----
    Put a pipeline inside, `ImportanceWeighted(make_pipeline(StandardScaler(), SVC()))`: its last step receives the
    weights. As the last step of a pipeline it needs `make_pipeline(…, transform_input=["X_target"])`, metadata routing,
    and `set_fit_request(X_target=True)`. `cross_validate(model, X, y, params={"X_target": X_target})` fits a ratio for
    each fold, and splits `X_target` if it has as many rows as `X`. To avoid both, give a fitted ratio and no
    `X_target`. Scores are about source rows: `TargetScorer` estimates scores on the target.

    References
    ----------
    .. [1] Shimodaira (2000). *Improving predictive inference under covariate shift …* J. Stat. Planning and Inference.
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

    ratio_: Any
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
        """Clone everything except a fitted ratio, which clones share."""
        copy: Any = super().__sklearn_clone__()
        if is_ready(self.ratio):
            copy.ratio = self.ratio
        return copy

    def set_params(self, **params: Any) -> Self:
        """Set settings, also those of `estimator` and `ratio`, as `estimator__…` and `ratio__…`."""
        inside = [name for name in params if name.startswith("ratio__")]
        if inside and is_ready(params.get("ratio", self.ratio)):
            raise ValueError(f"`{inside[0]}` cannot be set, because `ratio` is fitted. Use `clone(ratio)`.")
        return super().set_params(**params)

    def fit(
        self, X: TableLike, y: Any, X_target: TableLike | None = None, sample_weight: VectorLike | None = None
    ) -> Self:
        """Weight the source rows toward the target, and fit the estimator to them.

        Parameters
        ----------
        X, y, sample_weight
            Labeled rows of the source, of shapes (n, d) and (n,), and their weights, all 1 if None. A table may have
            text, dates and missing values, if the estimator takes them.
        X_target
            Rows of the target, of shape (n_target, d), without labels: the same columns. None if the ratio is fitted.
        """
        with unchanged_on_failure(self):
            self._fit(X, y, X_target, sample_weight)
        return self

    def _fit(self, X: Any, y: Any, X_target: TableLike | None, sample_weight: VectorLike | None) -> None:
        self._check_settings(X_target)
        check_consistent_length(X, y)
        check_pairs({"X": X, "y": y, "sample_weight": sample_weight})
        counts = checked_weights(sample_weight, _num_samples(X), "sample_weight")
        validate_data(self, X, skip_check_array=True)  # names and number of the columns
        seed = seed_from(self.random_state)
        log_p, log_q, samples = self._log_ratios(X, X_target, counts, seed)
        log_w = temper(log_q, self.gamma)  # (n,)
        log_w[counts == 0] = -np.inf
        smoothed = pareto_smooth(log_w)
        with np.errstate(divide="ignore"):
            log_w = (smoothed.log_w if self.smooth else log_w) + np.log(counts)
        self.k_hat_ = smoothed.k_hat
        self.effective_sample_size_ = effective_sample_size(log_w)
        self.sample_weight_ = self_normalize(log_w, total=float(counts.sum()))
        self._warn_of_overlap(log_p, log_q, counts, samples)
        warn_of_copies(y, X, "X", "y")
        try:
            with warnings.catch_warnings():
                if samples is not None and samples.encoder is not None and (text := samples.encoder.identifier_text()):
                    warnings.filterwarnings("ignore", re.escape(text))  # issued once, for the ratio
                self.estimator_ = fit_weighted(clone(self.estimator), X, y, self.sample_weight_.copy(), seed)
        except (TypeError, ValueError) as error:
            if (refusal := refusal_of_text(self.estimator, X, y)) is not None:
                raise refusal from error
            raise

    def _warn_of_overlap(self, log_p: Vector | None, log_q: Vector, counts: Vector, samples: TwoSamples | None) -> None:
        """Issue a warning if the weights depend on a handful of source rows, or miss a part of the target."""
        n, is_far = float(counts.sum() ** 2 / (counts @ counts)), None
        if log_p is not None:
            w_p, positive = np.ones(len(log_p)), counts > 0
            is_far = shared_support(log_p, w_p, log_q[positive], counts[positive], self.gamma).is_far
        elif self.gamma >= 1 and (share := getattr(last_step(self.ratio_), "uncovered_share_", 0.0)):
            is_far = np.arange(1000) < 1000 * share  # the ratio counted them
        support = SharedSupport(self.effective_sample_size_, n, is_far)
        if support.is_poor:
            text = support.problem(samples, ("the target", "the source"), f"Use a `gamma` below 1, or see {LIMITS}.")
            warnings.warn(text, OverlapWarning, stacklevel=4)

    def _log_ratios(
        self, X: Any, X_target: Any, counts: Vector, seed: int
    ) -> tuple[Vector | None, Vector, TwoSamples | None]:
        """Return log r of the rows of the target, (n_target,), and of the source, (n,), and both samples.

        With a fitted ratio there is neither a target nor a pair of samples.
        """
        if X_target is None:
            self.ratio_ = self.ratio
            log_q = np.asarray(log_ratio_of(self.ratio_)(X), np.float64)
            warn_of_inversion(log_q, counts, "X_target", "X")
            return None, log_q, None
        samples = two_samples(X_target, X, None, counts, arguments=("X_target", "X"))
        if self.n_folds is not None:
            check_folds(self.n_folds, min(samples.n_p, samples.n_q))
        self.ratio_ = new_ratio(AutoRatio() if self.ratio is None else self.ratio, seed, self.verbose)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverlapWarning)  # issued once, about the weights
            warnings.filterwarnings("ignore", ".* consecutive integers, .* like identifiers")  # issued above
            if isinstance(self.ratio_, RatioEstimator):  # it remembers the columns
                self.ratio_.fit_samples(X_target, X, None, counts, encoder=samples.encoder)
            else:
                fit_prepared(self.ratio_, samples)
        log_r = self._scores(samples, counts > 0, seed)
        log_q = np.zeros(len(counts))
        log_q[counts > 0] = log_r[samples.n_p :]
        return log_r[: samples.n_p], log_q, samples

    def _scores(self, samples: TwoSamples, is_positive: Vector, seed: int) -> Vector:
        """Return log r of all rows of positive weight, of shape (n,)."""
        if self.n_folds is None:
            return log_ratio_prepared(self.ratio_, samples.X)
        k, rng = check_folds(self.n_folds, min(samples.n_p, samples.n_q)), np.random.default_rng([seed, 1])
        fold = np.concatenate([folds(samples.n_p, k, rng), folds(len(is_positive), k, rng)[is_positive]])
        ratio = self.ratio_.selection() if isinstance(self.ratio_, AutoRatio) else self.ratio  # the choice is made once
        scores = cross_fit(ratio, samples, fold, seed)
        return np.concatenate([scores.p.log_r, scores.q.log_r])

    def _check_settings(self, X_target: TableLike | None) -> None:
        if isinstance(self.estimator, type) or not hasattr(self.estimator, "fit"):
            raise TypeError(f"`estimator` is {self.estimator!r}. Give an estimator, such as `LogisticRegression()`.")
        if not hasattr(last := last_step(self.estimator), "fit"):
            raise TypeError(f"`estimator` is a pipeline that ends with {last!r}. It must end with an estimator of y.")
        if not isinstance(self.smooth, bool | np.bool_):
            raise ValueError(f"`smooth` is {self.smooth!r}. Use True or False.")
        check_nonnegative(self.gamma, "gamma")
        ready = is_ready(self.ratio)
        if X_target is None and not ready:
            raise ValueError("`X_target` is None. Give unlabeled rows of the target, or a fitted `ratio`.")
        if ready and (X_target is not None or self.n_folds is not None):
            raise ValueError("`ratio` is fitted. Leave out `X_target` and `n_folds`, or give `clone(ratio)`.")

    @property
    def classes_(self) -> Vector:
        """The labels, of a classifier."""
        check_is_fitted(self)
        return self.estimator_.classes_

    predict = _method_of_estimator("predict", "Predict y for rows of the target.")
    predict_proba = _method_of_estimator("predict_proba", "Return the probabilities of the classes.")
    predict_log_proba = _method_of_estimator("predict_log_proba", "Return the log-probabilities of the classes.")
    decision_function = _method_of_estimator("decision_function", "Return the decision function of the estimator.")

    @available_if(_estimator_has("score"))
    def score(self, X: TableLike, y: Any, sample_weight: VectorLike | None = None) -> float:
        """Return the score of the fitted estimator on labeled rows, without weights of the ratio."""
        check_is_fitted(self)
        return self.estimator_.score(X, y, **({} if sample_weight is None else {"sample_weight": sample_weight}))

    def __sklearn_tags__(self) -> Tags:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        for name in ("estimator_type", "classifier_tags", "regressor_tags", "target_tags"):
            setattr(tags, name, getattr(inner, name))
        return tags
