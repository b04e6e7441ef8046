r"""What every ratio shares: the checks, the units, the class odds, the score.

A ratio is a two-class scikit-learn classifier. Its log-ratio is the logit of the posterior less that of the prior:

.. math:: \log r(x) = \log\frac{p(x)}{q(x)}
                    = \log\frac{P(y = 1 \mid x)}{P(y = 0 \mid x)} - \log\frac{P(y = 1)}{P(y = 0)}
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from types import MethodType
from typing import Any, Literal

import numpy as np
from scipy.special import expit, log_expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from typing_extensions import Self

from flowratio._support.validation import unchanged_on_failure
from flowratio.samples.stacking import stack
from flowratio.samples.weighting import (
    checked_weights,
    counts,
    distinct_rows,
    log_mean_exp,
    repeated,
    weighted_moments,
    without_factor,
)
from flowratio.weights import effective_sample_size_of_ratio, is_small, ratios_from_logs, self_normalize

_FLOATS: Any = [np.float64, np.float32]  # types that are kept; others become the first
_CHUNK_ROWS, _CHUNK_VALUES = 8192, 1 << 20  # rows scored at a time, and values of x in them at most
_FARTHEST = 1e6  # standard deviations: beyond it rows are scored as if they stood there
_FARTHEST_MAPPED = 1e4  # the same, for rows that a flow maps
_OVERLAP_ROWS = 5_000  # rows of each sample on which the overlap is looked at


class OverlapWarning(UserWarning):
    """So few rows of q lie where p does that anything weighted by r rests on a handful of them."""


class _Method:
    """A method that stays one if a setting has its name: the setting is kept beside it, for `get_params` to find.

    `FeaturizedRatio(ratio=…)` has a setting `ratio`, and a method `ratio(X)` as all ratios have.
    """

    def __init__(self, function: Callable[[Any, Any], np.ndarray]) -> None:
        self.function, self.__doc__ = function, function.__doc__

    def __get__(self, instance: Any, owner: type) -> Any:
        return self.function if instance is None else MethodType(self.function, instance)

    def __set__(self, instance: Any, value: Any) -> None:
        vars(instance)[self.function.__name__] = value


class RatioEstimator(ClassifierMixin, BaseEstimator, ABC):
    """Estimate r(x) = p(x) / q(x): p is the sample with y = 1 (the numerator), q that with y = 0.

    A method writes `_fit` and `_log_ratio`; both see standardized rows, so that units never matter. `_fit` sees rows
    in an order of their own, and weights that count them: the order in which they came does not matter, and a row of
    weight 2 is a row that is there twice. Weights of a sample that are not whole numbers count as many rows as they
    are worth (Kish's effective number): a factor of theirs does not matter.

    Attributes
    ----------
    classes_
        The two labels, sorted: p is the second, q the first.
    log_odds_
        log(n_p / n_q), the prior that is taken out of the ratio; of weights where rows have them.
    mean_, scale_
        What rows are standardized by, of shape (d,): both samples count one half. A constant column has scale `inf`:
        it says nothing about the ratio, and is ignored.
    effective_draws_
        How many equally weighted rows of q the ratio leaves, as far as the training rows tell.
    """

    classes_: np.ndarray
    n_features_in_: int
    log_odds_: float
    mean_: np.ndarray
    scale_: np.ndarray
    effective_draws_: float
    _inverse_draws: float

    _own_units = False  # whether `_fit` and `_log_ratio` see rows in the units they came in, not standardized
    _sign = 1  # log r is this times the log of (second class : first class)
    _takes_draws = False  # whether `fit_draws` helps: not if rows are held out one by one, or counted as so many
    _n_draws = 1  # of each row that `_fit` sees, one draw of all rows of a sample after the other

    @property
    def _rows(self) -> Literal["given", "distinct", "repeated"]:
        """What `_fit` sees: rows as they came, distinct rows, or these as often as whole weights say.

        The last is for methods that draw, split or count rows.
        """
        return "repeated"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to labelled rows.

        Parameters
        ----------
        X
            Rows of both samples, of shape (n, d).
        y
            1 on rows of p, 0 on rows of q, of shape (n,). Of two other labels, the larger is p.
        sample_weight
            How often each row counts, of shape (n,), on rows of both samples; 1 if None.
        """
        with unchanged_on_failure(self):
            self._fit_checked(X, y, sample_weight)
        return self

    def fit_samples(self, X_p: Any, X_q: Any, sample_weight_p: Any = None, sample_weight_q: Any = None) -> Self:
        """Fit to two samples, r = p/q.

        Parameters
        ----------
        X_p, X_q
            Rows drawn from p (the numerator) and from q, of shapes (n_p, d) and (n_q, d).
        sample_weight_p, sample_weight_q
            How often each row counts, of shapes (n_p,) and (n_q,); 1 if None.
        """
        X, y = stack(X_p, X_q)
        w = None
        if sample_weight_p is not None or sample_weight_q is not None:
            n_p = int(y.sum())
            given = ((sample_weight_p, n_p, "sample_weight_p"), (sample_weight_q, len(y) - n_p, "sample_weight_q"))
            w = np.concatenate([checked_weights(*of) for of in given])
        with unchanged_on_failure(self):
            self._fit_checked(X, y, w)
        return self

    def fit_draws(self, draws: Sequence[np.ndarray], y: np.ndarray, w: np.ndarray) -> Self:
        """Fit to several draws of the same rows, such as z of images with noise: a row is held out in all of them.

        Parameters
        ----------
        draws
            Rows of both samples, each of shape (n, d), in an order of their own.
        y, w
            Labels and positive weights, of shape (n,).
        """
        self._n_draws = len(draws)
        try:
            return self.fit(np.concatenate(draws), np.tile(y, len(draws)), np.tile(w, len(draws)))
        finally:
            del self._n_draws

    def _fit_checked(self, X: Any, y: Any, sample_weight: Any) -> None:
        X, y = validate_data(self, X, y, dtype=_FLOATS, ensure_min_samples=2)
        self.classes_, is_p = _two_classes(y)
        X, w, n_p = _p_first(X, is_p, _checked_weights(sample_weight, X), self.classes_)
        total_p, total_q = w[:n_p].sum(), w[n_p:].sum()
        self.log_odds_ = math.log(total_p / total_q)
        share = np.concatenate([w[:n_p] / (2 * total_p), w[n_p:] / (2 * total_q)])
        self.mean_, self.scale_ = self._centre_and_scale(X, share)
        Z, w = self._standardized(X), np.concatenate([counts(w[:n_p]), counts(w[n_p:])])
        X = self._bounded(X) if self._own_units else Z
        if self._rows != "given" and self._n_draws == 1:  # draws are of rows in an order of their own
            samples = [without_factor(*distinct_rows(X[of], w[of], Z[of])) for of in (slice(n_p), slice(n_p, None))]
            if self._rows == "repeated":
                samples = [repeated(*sample) for sample in samples]
            X, w = (np.concatenate(parts) for parts in zip(*samples, strict=True))
            n_p = len(samples[0][0])
        self._fit(X, np.repeat([1, 0], [n_p, len(X) - n_p]), w)
        self._check_overlap(X[:n_p], w[:n_p], X[n_p:], w[n_p:])

    @abstractmethod
    def _fit(self, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> None:
        """Fit to standardized rows (n, d), those of p first; labels (n,) 1 and 0; positive weights (n,) that count."""

    @abstractmethod
    def _log_ratio(self, X: np.ndarray) -> np.ndarray:
        """Return log r of standardized rows, (n, d) to (n,), finite."""

    def _centre_and_scale(self, X: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what rows (n, d), of weights (n,) that add up to one half in each sample, are standardized by."""
        return weighted_moments(X, share)

    def _standardized(self, X: np.ndarray) -> np.ndarray:
        """Standardize rows, (n, d), in float64; no value is farther from 0 than any method can bear."""
        with np.errstate(over="ignore"):
            Z = (X - self.mean_) / self.scale_
        return np.clip(Z, -_FARTHEST, _FARTHEST, out=Z)

    def _bounded(self, X: np.ndarray) -> np.ndarray:
        """Return rows in their own units, (n, d), in float64, none farther off than a map of them can bear."""
        reach = _FARTHEST_MAPPED * np.where(np.isfinite(self.scale_), self.scale_, 0.0)  # constant columns say nothing
        return np.clip(X.astype(np.float64, copy=False), self.mean_ - reach, self.mean_ + reach)

    def _seen(self, X: np.ndarray) -> np.ndarray:
        """Return rows as `_log_ratio` sees them, (n, d)."""
        return self._bounded(X) if self._own_units else self._standardized(X)

    def log_ratio(self, X: Any) -> np.ndarray:
        """Return log r(x) = log p(x) - log q(x) in nats: (n, d) to (n,), float64, finite for every finite row."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=_FLOATS, reset=False)
        log_r = np.empty(len(X))
        for part in chunks(*X.shape):
            log_r[part] = self._log_ratio(self._seen(X[part]))
        return log_r

    def score_samples(self, X: Any) -> np.ndarray:
        """Return log r(x): `log_ratio`, by the name that a `Pipeline` passes on."""
        return self.log_ratio(X)

    @_Method
    def ratio(self, X: Any) -> np.ndarray:
        """Return r(x) = p(x) / q(x): (n, d) to (n,). What is too large for a float is the largest float."""
        return ratios_from_logs(self.log_ratio(X))

    def weights(self, X: Any, normalize: Literal["mean", "sum"] | None = "mean") -> np.ndarray:
        """Return weights that turn rows of q into a sample of p: (n, d) to (n,).

        Parameters
        ----------
        X
            Rows of q, of shape (n, d).
        normalize
            `"mean"`: their mean is 1; `"sum"`: their sum is 1; None: they are r(x) itself.
        """
        if normalize is None:
            return self.ratio(X)
        if normalize not in ("mean", "sum"):
            raise ValueError(f"`normalize` is {normalize!r}: give 'mean', 'sum' or None.")
        log_r = self.log_ratio(X)
        return self_normalize(log_r, total=len(log_r) if normalize == "mean" else 1.0)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the logit of the second class: log r plus the log-odds of the training sample, (n, d) to (n,)."""
        return self._sign * self.log_ratio(X) + self.log_odds_

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the posterior of both classes under the odds of the training sample, (n, d) to (n, 2)."""
        logit = self.decision_function(X)
        return np.column_stack([expit(-logit), expit(logit)])

    def predict(self, X: Any) -> np.ndarray:
        """Return the more probable class, (n, d) to (n,)."""
        likely = self.decision_function(X) > 0
        return self.classes_[likely.astype(int)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        r"""Return how much the ratio tells, in nats: on average at most the Jensen-Shannon divergence of p and q.

        .. math:: S(r) = \log 2 + \tfrac12 \mathrm{mean}_p \log\frac{r}{1 + r}
                         + \tfrac12 \mathrm{mean}_q \log\frac{1}{1 + r}

        the log-likelihood of y with both classes counting one half, above that of a coin. Why this one:

        - It is proper. Its expectation is greatest at the true ratio and at no other, and is then the divergence of
          Jensen and Shannon, between 0 (p = q) and log 2 (disjoint). r = 1 everywhere scores 0; less than 0 is worse
          than no ratio at all.
        - It does not hang on units, on n_p : n_q, or on a method's own objective, so that all ratios can be compared.
        - No row can spoil it: the loss of a row grows as log r, whereas the mean of r over q, in objectives of the
          type of KLIEP, is ruled by the few largest. It therefore has a standard error worth the name.
        - It sees the scale of r. A ratio that is off by a factor pays for it.

        It hardly tells good from better where p and q are far apart: every good ratio is then near log 2. `kl_score`,
        the other one, still does, if n is large. Both can be the `scoring` of a `GridSearchCV`.

        Parameters
        ----------
        X, y
            Labelled rows that were not fitted, of shapes (n, d) and (n,); both labels must be there.
        sample_weight
            How often each row counts, of shape (n,).
        """
        log_r, is_p, w = self._scored(X, y, sample_weight)
        told = [np.average(log_expit(s * log_r[of]), weights=w[of]) for s, of in ((1, is_p), (-1, ~is_p))]
        return float(math.log(2) + 0.5 * sum(told))

    def _scored(self, X: Any, y: Any, sample_weight: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return log r, where the numerator is, and weights, each of shape (n,)."""
        log_r, y = self.log_ratio(X), np.asarray(y)
        if y.shape != log_r.shape:
            raise ValueError(f"`y` has shape {y.shape} but `X` has {len(log_r)} rows: give one label a row.")
        found = np.unique(y)
        if not np.array_equal(found, self.classes_):
            raise ValueError(
                f"`y` has the labels {found.tolist()}, but the ratio was fitted to {self.classes_.tolist()}: a score "
                "needs rows of both samples. Use stratified folds."
            )
        w = _checked_weights(sample_weight, log_r)
        is_p = y == self.classes_[(1 + self._sign) // 2]
        if not (w[is_p].any() and w[~is_p].any()):
            raise ValueError("`sample_weight` is zero on all rows of a class: a score needs rows of both samples.")
        return log_r, is_p, w

    def inverse(self) -> RatioEstimator:
        """Return 1/r = q/p, without another fit. It shares what was fitted with this one."""
        from flowratio.ratios.inverse import InverseRatio

        check_is_fitted(self)
        inverse = InverseRatio(self)
        inverse.estimator_ = self
        inverse.effective_draws_ = self._inverse_draws
        inverse._inverse_draws = self.effective_draws_
        shared = ("classes_", "log_odds_", "n_features_in_", "feature_names_in_", "mean_", "scale_")
        vars(inverse).update({name: getattr(self, name) for name in shared if hasattr(self, name)})
        return inverse

    def _check_overlap(self, X_p: np.ndarray, w_p: np.ndarray, X_q: np.ndarray, w_q: np.ndarray) -> None:
        n_q = w_q.sum()
        every_p, every_q = (slice(None, None, math.ceil(len(X) / _OVERLAP_ROWS)) for X in (X_p, X_q))
        log_p, log_q = (
            np.concatenate([self._log_ratio(X[part]) for part in chunks(*X.shape)])
            for X in (X_p[every_p], X_q[every_q])
        )
        self.effective_draws_ = effective_sample_size_of_ratio(log_p, w_p[every_p], log_q, w_q[every_q], n_q)
        self._inverse_draws = effective_sample_size_of_ratio(-log_q, w_q[every_q], -log_p, w_p[every_p], w_p.sum())
        if is_small(self.effective_draws_, n_q):
            warnings.warn(
                f"{self.effective_draws_:.3g} effective draws of {n_q:.0f}: p and q hardly overlap, and weights rest "
                "on a handful of rows of q. Compare `score` with log 2 = 0.69, drop columns that tell p from q by "
                "their construction, or use `RULSIF`, whose relative ratio is bounded.",
                OverlapWarning,
                stacklevel=4,
            )

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        direction = "p/q" if self._sign == 1 else "q/p"
        label = self.classes_.tolist()[1] if hasattr(self, "classes_") else 1
        return f"<{super().__repr__(N_CHAR_MAX)}: r = {direction}, p is y = {label!r}>"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def kl_score(ratio: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    r"""Return the objective of KLIEP on held-out rows, in nats: for large n at most the divergence KL(p ‖ q).

    .. math:: \mathrm{mean}_p \log r - \log \mathrm{mean}_q\, r

    A factor of r cancels. Its second term is ruled by the largest ratios on rows of q: trust it for large n and
    moderate divergences. `RatioEstimator.score` says why it is not the score.

    Parameters
    ----------
    ratio
        A fitted ratio, or a pipeline that ends with one.
    X, y
        Labelled rows that were not fitted, of shapes (n, d) and (n,).
    sample_weight
        How often each row counts, of shape (n,).
    """
    last = ratio.steps[-1][1] if hasattr(ratio, "steps") else ratio
    if not isinstance(last, RatioEstimator):
        raise TypeError(f"`ratio` is {ratio!r}: give a ratio of flowratio, or a pipeline that ends with one.")
    X = X if last is ratio else ratio[:-1].transform(X)
    log_r, is_p, w = last._scored(X, y, sample_weight)
    return float(np.average(log_r[is_p], weights=w[is_p]) - log_mean_exp(log_r[~is_p], w[~is_p]))


def chunks(n_rows: int, n_features: int) -> Iterator[slice]:
    """Yield slices over rows, so long that a chunk fits in the cache of a machine, and in its memory many times."""
    size = min(_CHUNK_ROWS, max(64, _CHUNK_VALUES // n_features))
    for start in range(0, n_rows, size):
        yield slice(start, start + size)


def _two_classes(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the two labels, sorted, and where the second is, of shape (n,)."""
    check_classification_targets(y)
    classes = np.unique(y)
    if len(classes) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is multiclass: `y` must have two labels, "
            f"1 on rows of p and 0 on rows of q, but has {len(classes)}."
        )
    if len(classes) == 1:
        raise ValueError(
            f"`y` has one class only, {classes.tolist()[0]!r}: a ratio needs rows of p (1) and of q (0). "
            "Use `X, y = stack(X_p, X_q)`."
        )
    return classes, y == classes[1]


def _checked_weights(sample_weight: Any, X: np.ndarray) -> np.ndarray:
    if sample_weight is None:
        return np.ones(len(X))
    w = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (w < 0).any():
        raise ValueError(
            f"`sample_weight` is negative on {np.count_nonzero(w < 0)} rows, {w.min():g} at the least: weights count "
            "rows, and must be 0 or more."
        )
    return w


def _p_first(X: np.ndarray, is_p: np.ndarray, w: np.ndarray, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Put the rows of p before those of q, without rows of weight zero; return also the number of the first."""
    positive = w > 0
    chosen = [np.flatnonzero(is_p & positive), np.flatnonzero(~is_p & positive)]
    for rows, label in zip(chosen, classes[::-1].tolist(), strict=True):
        n = len(rows)
        if n == 0 or (n == 1 and w[rows].sum() < 2):  # a row of weight 2 is a row that is there twice
            raise ValueError(
                f"The class {label!r} of `y` has {n} row{'s' * (n != 1)} of positive weight: a sample must have at "
                "least 2 rows. Give more rows of this class."
            )
    n_p = len(chosen[0])
    if positive.all() and is_p[:n_p].all():
        return X, w, n_p
    order = np.concatenate(chosen)
    return X[order], w[order], n_p
