r"""A classifier of p against q is a ratio: its logit minus the log-odds of the sample that it was fitted to.

.. math:: \log r(x) = \log\frac{P(y = 1 \mid x)}{P(y = 0 \mid x)} - \log\frac{n_p}{n_q}
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import logit
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from flowratio._support.errors import ArgumentError
from flowratio._support.types import Matrix, Vector
from flowratio._support.validation import RandomState, check_n_folds, seed_from
from flowratio.ratios.base import RatioEstimator, Requires
from flowratio.ratios.classifier.calibration import CALIBRATORS, Calibrator
from flowratio.ratios.classifier.presets import NEWTON_COLUMNS, PRESETS
from flowratio.samples.folding import random_ranks
from flowratio.samples.two_samples import TwoSamples

_CHECKED_ROWS = 1_000  # rows on which logits are compared with probabilities


class ClassifierRatio(RatioEstimator):
    """Estimate r(x) = p(x) / q(x), p is y = 1, by a classifier that separates rows of p from rows of q.

    The logit of the classifier is used directly, never p / (1 - p). The log-odds of the sample are subtracted.

    Parameters
    ----------
    classifier
        A name, or any scikit-learn classifier with `predict_proba`, which is cloned. `"logistic"` and `"lda"` have log
        r linear in x. `"quadratic"` and `"qda"` have log r quadratic in x, exact for two Gaussians. `"lda"` and `"qda"`
        fit Gaussian densities. `"additive"` is a sum of curves, one for each column. `"boosting"` is gradient boosting.
        For networks use `NetworkRatio`.
    calibration
        `"isotonic"` (any increasing function) or `"sigmoid"` (a line) corrects the logits on held-out rows. None leaves
        them unchanged. A classifier that has only `decision_function`, such as a support vector machine, needs one.
    n_folds
        Number of folds of the calibration. One more classifier is fitted for each fold.
    random_state
        Seed. The same seed gives the same results, to the last bit, on the same machine. It also replaces each
        `random_state` of `classifier` that is None.

    Attributes
    ----------
    classifier_, readout_, calibrator_
        The fitted classifier, its method that gives log r, and the function that calibrates log r, or None.

    Notes
    -----
    The logit of a probability of 0 or 1, which trees return, is infinite. It becomes log(1 + n) for n training rows, or
    the largest finite logit of these rows. Rows are standardized before the fit. Weights go to the classifier as
    `sample_weight`. If it takes no weights, integer weights become repeated rows.

    References
    ----------
    .. [1] Bickel, Brückner, Scheffer (2009). *Discriminative learning under covariate shift.* JMLR.
    .. [2] Platt (1999). *Probabilistic outputs for support vector machines.*

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X_p, X_q = rng.normal(1.0, 1.0, size=(2000, 1)), rng.normal(0.0, 1.0, size=(2000, 1))
    >>> ClassifierRatio().fit_samples(X_p, X_q).log_ratio([[0.5], [2.5]]).round(1).tolist()  # x - 1/2
    [0.0, 2.0]
    """

    requires = Requires(rows="given", noise=True)
    calibrator_: Calibrator | None

    def __init__(
        self,
        classifier: str | BaseEstimator = "logistic",
        *,
        calibration: Literal["isotonic", "sigmoid"] | None = None,
        n_folds: int = 5,
        random_state: RandomState = None,
    ) -> None:
        self.classifier, self.calibration = classifier, calibration
        self.n_folds, self.random_state = n_folds, random_state

    def _fit(self, samples: TwoSamples) -> None:
        self._check_settings()
        seed = seed_from(self.random_state)
        if self.classifier != "logistic":  # other classifiers count rows, or hold them out one by one
            samples = samples.first_of_groups()
        exact = self.classifier == "logistic" and self.calibration is None and samples.X.shape[1] <= NEWTON_COLUMNS
        if not exact:  # the optimum of a few columns does not depend on the order of the rows
            samples = samples.reordered(repeat=True)
        self.calibrator_ = None if self.calibration is None else self._calibrator(samples, self.calibration, seed)
        self.classifier_, self.readout_ = self._fitted(samples.X, samples.y, samples.w, seed)

    def _log_ratio(self, X: Matrix) -> Vector:
        log_r = self.readout_(self.classifier_, X)
        return log_r if self.calibrator_ is None else self.calibrator_(log_r)

    def is_additive(self) -> bool:
        return isinstance(self.classifier, str) and self.classifier in ("logistic", "lda", "additive")

    def _folds(self, samples: TwoSamples, rng: np.random.Generator) -> Vector:
        """Return the fold of each row, (n,), with equal shares of each sample in all folds."""
        n_folds = min(self.n_folds, samples.n_least)
        if n_folds < 2:
            problem = "`calibration` needs at least 2 rows of each sample, because one of them is held out"
            raise ArgumentError("calibration", f"{problem}. Give more rows, or use `calibration=None`.")
        return random_ranks(samples, rng) % n_folds

    def _calibrator(self, samples: TwoSamples, name: str, seed: int) -> Calibrator:
        fold = self._folds(samples, np.random.default_rng(seed))
        X, y, w, scores = samples.X, samples.y, samples.w, np.empty(len(samples.X))
        for k in range(int(fold.max()) + 1):
            rest, held_out = fold != k, fold == k
            classifier, readout = self._fitted(X[rest], y[rest], w[rest], seed + k + 1)
            scores[held_out] = readout(classifier, X[held_out])
        return CALIBRATORS[name](scores, y, w)

    def _fitted(self, X: Matrix, y: Vector, w: Vector, seed: int) -> tuple[Any, Readout]:
        seed %= 2**32  # the range of scikit-learn
        if isinstance(self.classifier, str):
            preset = PRESETS[self.classifier](X, y, seed)
            _fit_weighted(preset, X, y, w)
            return preset, Readout("decision_function", _log_odds(y, w), math.inf)
        classifier: Any = clone(self.classifier)
        params = classifier.get_params()
        unseeded = [name for name in params if name.split("__")[-1] == "random_state" and params[name] is None]
        classifier.set_params(**dict.fromkeys(unseeded, seed))
        w = w * self._class_weights(classifier, y, w)
        order = np.random.default_rng(0).permutation(len(X))  # its own folds may be blocks of rows
        _fit_weighted(classifier, X[order], y[order], w[order])
        rows = X[:: math.ceil(len(X) / _CHECKED_ROWS)]
        return classifier, _choose_readout(classifier, rows, _prior_log_odds(classifier, y, w), w.sum())

    def _class_weights(self, classifier: Any, y: Vector, w: Vector) -> Vector:
        """Remove `class_weight` from a classifier and return it as weights of rows, (n,)."""
        name = f"{_last_step(classifier)[0]}class_weight"
        params = {key: value for key, value in classifier.get_params().items() if value is not None}
        rules = {key: value for key, value in params.items() if key.split("__")[-1] == "class_weight"}
        rule = rules.pop(name, None)
        if rules:
            problem = f"`classifier` has {next(iter(rules))!r} set in a nested estimator"
            raise ArgumentError("classifier", f"{problem}, so its class odds cannot be removed. Set it to None.")
        if rule is None:
            return np.ones(len(y))
        classifier.set_params(**{name: None})
        if isinstance(rule, str):  # "balanced", in trees also "balanced_subsample"
            return np.where(y == 1, w.sum() / (2 * w[y == 1].sum()), w.sum() / (2 * w[y == 0].sum()))
        of_q, of_p = (rule.get(label, 1.0) for label in self.classes_.tolist())
        if not (of_q > 0 and of_p > 0):
            raise ArgumentError("classifier", f"`classifier` has `class_weight` {rule}. Use positive weights.")
        return np.where(y == 1, of_p, of_q)

    def _check_settings(self) -> None:
        name = self.classifier
        if not isinstance(name, str):
            _check_classifier(name, self.calibration is not None)
        elif name not in PRESETS:
            rest = f". Use one of {', '.join(PRESETS)}, or a scikit-learn classifier."
            if name in ("mlp", "cnn"):
                rest = f", which is a network. Use `NetworkRatio({name!r})`."
            raise ArgumentError("classifier", f"`classifier` is {name!r}{rest}")
        if self.calibration not in (None, *CALIBRATORS):
            problem = f"`calibration` is {self.calibration!r}"
            raise ArgumentError("calibration", f"{problem}. Use 'isotonic', 'sigmoid' or None.")
        check_n_folds(self.n_folds)


@dataclass(frozen=True)
class Readout:
    """The method of a fitted classifier that gives log r, the log-odds to subtract, and a bound for infinite logits."""

    method: Literal["decision_function", "predict_log_proba", "predict_proba"]
    log_odds: float
    bound: float

    def __post_init__(self) -> None:
        if self.method not in ("decision_function", "predict_log_proba", "predict_proba"):
            raise ValueError(f"`method` is {self.method!r}. Use decision_function, predict_log_proba or predict_proba.")

    def __call__(self, classifier: Any, X: Matrix) -> Vector:
        """Return log r of rows, (n, d) to (n,)."""
        if self.method == "decision_function":
            return np.asarray(classifier.decision_function(X), np.float64) - self.log_odds
        log_r = _logit(classifier, self.method, X) - self.log_odds
        return np.nan_to_num(log_r, nan=0.0, posinf=self.bound, neginf=-self.bound)


def _logit(classifier: Any, method: str, X: Matrix) -> Vector:
    with np.errstate(divide="ignore"):  # trees take the logarithm of 0
        output = np.asarray(getattr(classifier, method)(X), np.float64)  # (n, 2)
        log_q, log_p = (np.log(output) if method == "predict_proba" else output).T
    return log_p - log_q


def _choose_readout(classifier: Any, X: Matrix, log_odds: float, n: float) -> Readout:
    """Return the decision function if it is the logit, unlike that of an SVM, and logs of probabilities otherwise."""
    if not hasattr(classifier, "predict_proba"):
        return Readout("decision_function", 0.0, math.inf)  # it is calibrated, so its scale does not matter
    method = "predict_log_proba" if hasattr(classifier, "predict_log_proba") else "predict_proba"
    logits = _logit(classifier, method, X)
    if hasattr(classifier, "decision_function"):
        scores = np.asarray(classifier.decision_function(X), np.float64)
        if np.allclose(*(np.clip(values, -10, 10) for values in (scores, logits)), rtol=0, atol=1e-3):
            return Readout("decision_function", log_odds, math.inf)
    finite = logits[np.isfinite(logits)] - log_odds
    return Readout(method, log_odds, float(np.abs(finite).max(initial=math.log1p(n))))


def _check_classifier(classifier: Any, calibrated: bool) -> None:
    if not (hasattr(classifier, "fit") and hasattr(classifier, "get_params")):
        raise TypeError(f"`classifier` is {classifier!r}. Use a name or a scikit-learn classifier.")
    if hasattr(classifier, "predict_proba"):
        return
    if not hasattr(classifier, "decision_function"):
        missing = "neither `predict_proba` nor `decision_function`"
        raise TypeError(f"`classifier` is {classifier!r}, which has {missing}. Use one that has one of them.")
    if not calibrated:
        problem = "no `predict_proba`. Its `decision_function` is a score, not log-odds"
        advice = "Use `calibration='sigmoid'` or 'isotonic'."
        raise ArgumentError("classifier", f"`classifier` is {classifier!r}, which has {problem}. {advice}")


def _last_step(classifier: Any) -> tuple[str, Any]:
    """Return the classifier at the end of a pipeline, and the prefix of its settings before it."""
    prefix = ""
    while isinstance(classifier, Pipeline):
        name, classifier = classifier.steps[-1]
        prefix += f"{name}__"
    return prefix, classifier


def _fit_weighted(classifier: Any, X: Matrix, y: Vector, w: Vector) -> None:
    prefix, last = _last_step(classifier)
    if (w == 1).all():
        classifier.fit(X, y)
    elif has_fit_parameter(last, "sample_weight"):
        classifier.fit(X, y, **{f"{prefix}sample_weight": w})
    else:
        weights = f"`sample_weight` or `class_weight` gives weights of {w.min():g} to {w.max():g}"
        problem = f"but the `fit` of {last!r} takes no `sample_weight`"
        advice = "Use integer weights with a sum up to a million, which become repeated rows, or another classifier."
        raise ArgumentError("sample_weight", f"{weights}, {problem}. {advice}")


def _prior_log_odds(classifier: Any, y: Vector, w: Vector) -> float:
    """Return the prior log-odds of a fitted classifier: its own if it has any, otherwise those of the sample."""
    _, last = _last_step(classifier)
    for name in ("priors_", "class_prior_"):
        if hasattr(last, name):
            return float(logit(getattr(last, name)[1]))
    if hasattr(last, "class_log_prior_"):
        return float(np.diff(last.class_log_prior_)[0])
    return _log_odds(y, w)


def _log_odds(y: Vector, w: Vector) -> float:
    return math.log(w[y == 1].sum() / w[y == 0].sum())
