r"""A classifier of p against q is a ratio: its logit, less the log-odds of the sample it was fitted to.

.. math:: \log r(x) = \log\frac{P(y = 1 \mid x)}{P(y = 0 \mid x)} - \log\frac{n_p}{n_q}
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.utils.validation import has_fit_parameter
from typing_extensions import Self

from flowratio.ratios.base import RatioEstimator, weighted_moments
from flowratio.settings import RandomState, is_count, seed_from

if TYPE_CHECKING:
    from flowratio.training import History

_NETWORKS = ("mlp", "cnn")
_NETWORK_SETTINGS = (
    *("hidden", "max_epochs", "batch_size", "learning_rate", "weight_decay", "patience", "validation_fraction"),
    "image_shape",
)
_NEWTON_COLUMNS = 256  # beyond them first-order steps are cheaper than the Hessian
_NEWTON_ROWS = 1024  # rows that are differentiated at a time
_MAX_PRODUCTS = 1 << 27  # values of the second-order polynomial of all rows, at most
_CHECKED_ROWS = 1_000  # rows on which logits are compared with probabilities


class ClassifierRatio(RatioEstimator):
    """Estimate r(x) = p(x) / q(x), p is y = 1, by a classifier that tells rows of p from rows of q.

    Its logit is used as it is, never by way of p / (1 - p), and the log-odds of the sample are taken out.

    Parameters
    ----------
    classifier
        `"logistic"` (log r linear in x), `"quadratic"` (of second order in x: exact for two Gaussians), `"boosting"`
        (trees), `"mlp"` (a network of three hidden layers), `"cnn"` (a network for images), or any classifier of
        scikit-learn that has `predict_proba`. It is cloned.
    calibration
        `"isotonic"` (any increasing function) or `"sigmoid"` (a line) bring the logits in line with rows that the
        classifier has not seen; None leaves them as they are. A classifier that has only `decision_function`, such as
        a support vector machine, needs one of them.
    n_folds
        Folds of the calibration: that many classifiers are fitted beside the one that is kept.
    hidden
        For networks: widths of the hidden layers, by default three of 100 units, or filters of the convolutions, by
        default four times 64.
    max_epochs, batch_size, learning_rate, weight_decay, patience
        For networks: settings of the training; chosen from the data if None. A batch is half p and half q.
    validation_fraction
        For networks: share of the rows held out to decide when to stop, 0.1 if None.
    image_shape
        For `"cnn"`: channels, height and width of the image in a row; one square channel if None.
    random_state
        Seed: the same gives the same bits on the same machine. Global generators are never used. Of a given classifier
        it fills in the `random_state` that is None.
    device
        For networks: `"auto"` for a GPU if there is one, or a name that torch knows.
    verbose
        For networks: whether to show a progress bar.

    Attributes
    ----------
    classifier_
        The fitted classifier of scikit-learn, or the fitted network.
    readout_
        How log r is read off it.
    calibrator_
        The function that calibrates log r; None without calibration.
    history_
        For networks, losses by epoch, with `plot`; None for others.

    Notes
    -----
    Trees and neighbours tell probabilities of 0 and 1, whose logit is infinite. A frequency among n rows cannot be told
    from 0 if it is below 1/n: such logits become log(1 + n), or the largest that the training rows have.

    Rows are standardized before any classifier sees them, images by one mean and one scale for all pixels. Weights go
    to the classifier as `sample_weight`; where it takes none, whole ones become repeated rows.

    References
    ----------
    .. [1] Bickel, Brückner, Scheffer (2009). *Discriminative learning under covariate shift.* JMLR.
    .. [2] Choi, Liao, Ermon (2021). *Featurized Density Ratio Estimation.* UAI.
    .. [3] Platt (1999). *Probabilistic outputs for support vector machines.*

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X_p, X_q = rng.normal(1.0, 1.0, size=(2000, 1)), rng.normal(0.0, 1.0, size=(2000, 1))
    >>> ratio = ClassifierRatio().fit_samples(X_p, X_q)
    >>> ratio.log_ratio([[0.5], [2.5]]).round(1).tolist()  # the truth is x - 1/2
    [0.0, 2.0]
    """

    def __init__(
        self,
        classifier: str | BaseEstimator = "logistic",
        *,
        calibration: Literal["isotonic", "sigmoid"] | None = None,
        n_folds: int = 5,
        hidden: Sequence[int] | None = None,
        max_epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        patience: int | None = None,
        validation_fraction: float | None = None,
        image_shape: Sequence[int] | None = None,
        random_state: RandomState = None,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.classifier = classifier
        self.calibration = calibration
        self.n_folds = n_folds
        self.hidden = hidden
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.image_shape = image_shape
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    @property
    def _needs_distinct(self) -> bool:
        exact = self.classifier == "logistic" and self.calibration is None and self.n_features_in_ <= _NEWTON_COLUMNS
        return not exact  # its optimum is one of the weighted sample, whatever the order of the rows

    def _centre_and_scale(self, X: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, scale = weighted_moments(X, share)
        if self.classifier != "cnn":
            return mean, scale
        varies = np.isfinite(scale)
        centre, top = mean[varies].mean(), scale[varies].max()
        spread = top * np.sqrt(np.mean((scale[varies] / top) ** 2 + ((mean[varies] - centre) / top) ** 2))
        return np.full_like(mean, centre), np.where(varies, spread, np.inf)

    def _fit(self, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> None:
        self._check_settings()
        seed = seed_from(self.random_state)
        fitted = self._fit_network if self.classifier in _NETWORKS else self._fit_sklearn
        self.calibrator_ = None
        if self.calibration is not None:
            scores = np.empty(len(X))
            for k, (rest, fold) in enumerate(self._folds(y, np.random.default_rng(seed))):
                classifier, readout, _ = fitted(X[rest], y[rest], w[rest], seed + k + 1)
                scores[fold] = readout(classifier, X[fold])
            self.calibrator_ = _CALIBRATORS[self.calibration](scores, y, w)
        self.classifier_, self.readout_, self.history_ = fitted(X, y, w, seed)

    def _log_ratio(self, X: np.ndarray) -> np.ndarray:
        log_r = self.readout_(self.classifier_, X)
        return log_r if self.calibrator_ is None else self.calibrator_(log_r)

    def _folds(self, y: np.ndarray, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield masks of the rows to fit and of those to score, (n,), in each sample as many as in the other folds."""
        n_p, n_q = int(y.sum()), int((1 - y).sum())
        n_folds = min(self.n_folds, n_p, n_q)
        if n_folds < 2:
            raise ValueError(
                "`calibration` needs at least 2 different rows of each sample, of which one is set aside: give more "
                "rows, or `calibration=None`."
            )
        # random ones: neighbours in the order of the rows are alike, and a row next to those fitted is hardly held out
        fold_of = np.concatenate([rng.permutation(n_p), rng.permutation(n_q)]) % n_folds
        for k in range(n_folds):
            yield fold_of != k, fold_of == k

    def _fit_sklearn(self, X: np.ndarray, y: np.ndarray, w: np.ndarray, seed: int) -> tuple[Any, Readout, None]:
        seed %= 2**32  # as scikit-learn wants it
        if isinstance(self.classifier, str):
            preset = _PRESETS[self.classifier](X, y, seed)
            _fit_weighted(preset, X, y, w)
            return preset, Readout("decision_function", _log_odds(y, w), math.inf), None
        classifier: Any = clone(self.classifier)
        params = classifier.get_params()
        open_ = [name for name in params if name.split("__")[-1] == "random_state" and params[name] is None]
        classifier.set_params(**dict.fromkeys(open_, seed))
        w = w * self._class_weights(classifier, y, w)
        _fit_weighted(classifier, X, y, w)
        rows = X[:: math.ceil(len(X) / _CHECKED_ROWS)]
        return classifier, _choose_readout(classifier, rows, _prior_log_odds(classifier, y, w), w.sum()), None

    def _class_weights(self, classifier: Any, y: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Take `class_weight` off a classifier and return it as weights of rows, (n,), whose sums are then known."""
        name = f"{_last_step(classifier)[0]}class_weight"
        given = {
            key: value
            for key, value in classifier.get_params().items()
            if key.split("__")[-1] == "class_weight" and value is not None
        }
        rule = given.pop(name, None)
        if given:
            raise ValueError(
                f"`classifier` has {next(iter(given))!r} set, deep inside: the odds that it changes cannot be taken "
                "out of the ratio. Leave it None: the odds of the samples are taken out in any case."
            )
        if rule is None:
            return np.ones(len(y))
        classifier.set_params(**{name: None})
        if isinstance(rule, str):  # "balanced", in trees also "balanced_subsample"
            return np.where(y == 1, w.sum() / (2 * w[y == 1].sum()), w.sum() / (2 * w[y == 0].sum()))
        of_q, of_p = (rule.get(label, 1.0) for label in self.classes_.tolist())
        return np.where(y == 1, of_p, of_q)

    def _fit_network(self, X: np.ndarray, y: np.ndarray, w: np.ndarray, seed: int) -> tuple[Any, Readout, History]:
        from flowratio.ratios.networks import choose_device, choose_recipe, new_network, train_classifier

        settings = {name: getattr(self, name) for name in _NETWORK_SETTINGS[1:6] if getattr(self, name) is not None}
        recipe = choose_recipe(int(max(y.sum(), (1 - y).sum())), settings, images=self.classifier == "cnn")
        shape = None if self.classifier == "mlp" else self._checked_shape(X.shape[1])
        network = new_network(X.shape[1], shape, self.hidden, seed).to(choose_device(self.device))
        history = train_classifier(
            network,
            X,
            y,
            w,
            recipe,
            seed=seed,
            validation_fraction=0.1 if self.validation_fraction is None else self.validation_fraction,
            verbose=self.verbose,
        )
        return network, Readout("network", 0.0, math.inf), history

    def _checked_shape(self, d: int) -> tuple[int, ...]:
        if self.image_shape is None:
            side = math.isqrt(d)
            if side**2 != d:
                raise ValueError(
                    f"`X` has {d} columns, which are no square image: give `image_shape`, such as (3, 32, 32) for "
                    "three channels of 32 × 32."
                )
            return 1, side, side
        shape = tuple(self.image_shape)
        if len(shape) != 3 or not all(map(is_count, shape)) or math.prod(shape) != d:
            raise ValueError(
                f"`image_shape` is {shape} but `X` has {d} columns: give channels, height and width, whose product is "
                "the number of columns."
            )
        return shape

    def _check_settings(self) -> None:
        names = (*_PRESETS, *_NETWORKS)
        if isinstance(self.classifier, str):
            if self.classifier not in names:
                raise ValueError(
                    f"`classifier` is {self.classifier!r}: give one of {', '.join(names)}, or a classifier of "
                    "scikit-learn."
                )
        else:
            _check_classifier(self.classifier, self.calibration is not None)
        if self.calibration is not None and self.calibration not in _CALIBRATORS:
            raise ValueError(f"`calibration` is {self.calibration!r}: give 'isotonic', 'sigmoid' or None.")
        if not (is_count(self.n_folds) and self.n_folds >= 2):
            raise ValueError(f"`n_folds` is {self.n_folds!r}: give a whole number of 2 or more.")
        self._check_network_settings()

    def _check_network_settings(self) -> None:
        of = {"mlp": _NETWORK_SETTINGS[:-1], "cnn": _NETWORK_SETTINGS}.get(str(self.classifier), ())
        for name in _NETWORK_SETTINGS:
            value = getattr(self, name)
            if value is None:
                continue
            if name not in of:
                users = "'cnn'" if name == "image_shape" else "'mlp' and 'cnn'"
                raise ValueError(
                    f"`{name}` is {value!r}, but `classifier` is {self.classifier!r}: it is a setting of {users}. "
                    "Leave it out, or set it in a classifier of your own."
                )
            is_good, rule = _RULES.get(name, (is_count, "a whole number of 1 or more"))
            if not is_good(value):
                raise ValueError(f"`{name}` is {value!r}: give {rule}, or None to leave it to us.")


def _is_between(low: float, high: float) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, numbers.Real) and low < float(value) < high


_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "hidden": (
        lambda hidden: isinstance(hidden, list | tuple) and bool(hidden) and all(map(is_count, hidden)),
        "the widths of one or more layers, such as (100, 100, 100)",
    ),
    "learning_rate": (_is_between(0, math.inf), "a number above 0"),
    "weight_decay": (_is_between(-math.ulp(0.0), math.inf), "a number of 0 or more"),
    "validation_fraction": (_is_between(0, 1), "a number between 0 and 1"),
    "image_shape": (lambda shape: isinstance(shape, list | tuple), "channels, height and width"),
}


@dataclass(frozen=True)
class Readout:
    """How log r is read off a fitted classifier.

    Parameters
    ----------
    method
        `"decision_function"`, `"predict_log_proba"`, `"predict_proba"`, or `"network"` for the output of a network.
    log_odds
        Log-odds of the sample, to be taken out of the logit.
    bound
        What an infinite logit becomes.
    """

    method: Literal["decision_function", "predict_log_proba", "predict_proba", "network"]
    log_odds: float
    bound: float

    def __call__(self, classifier: Any, X: np.ndarray) -> np.ndarray:
        """Return log r of rows, (n, d) to (n,)."""
        if self.method == "network":
            from flowratio.ratios.networks import evaluate

            return evaluate(classifier, X)[:, 0]
        if self.method == "decision_function":
            return np.asarray(classifier.decision_function(X), np.float64) - self.log_odds
        log_r = _logit(classifier, self.method, X) - self.log_odds
        return np.nan_to_num(log_r, nan=0.0, posinf=self.bound, neginf=-self.bound)


def _logit(classifier: Any, method: str, X: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):  # trees take the logarithm of 0
        told = np.asarray(getattr(classifier, method)(X), np.float64)  # (n, 2)
        log_q, log_p = (np.log(told) if method == "predict_proba" else told).T
    return log_p - log_q


def _choose_readout(classifier: Any, X: np.ndarray, log_odds: float, n: float) -> Readout:
    """Choose the logit itself where there is one, and logs of probabilities otherwise.

    A decision function is the logit only if the probabilities say the same: that of a support vector machine is not.
    """
    if not hasattr(classifier, "predict_proba"):
        return Readout("decision_function", 0.0, math.inf)  # calibrated: its scale does not matter
    method = "predict_log_proba" if hasattr(classifier, "predict_log_proba") else "predict_proba"
    told = _logit(classifier, method, X)
    if hasattr(classifier, "decision_function"):
        scores = np.asarray(classifier.decision_function(X), np.float64)
        if np.allclose(*(np.clip(values, -10, 10) for values in (scores, told)), rtol=0, atol=1e-3):
            return Readout("decision_function", log_odds, math.inf)
    finite = told[np.isfinite(told)] - log_odds
    return Readout(method, log_odds, float(np.abs(finite).max(initial=math.log1p(n))))


def _check_classifier(classifier: Any, calibrated: bool) -> None:
    if not (hasattr(classifier, "fit") and hasattr(classifier, "get_params")):
        raise TypeError(f"`classifier` is {classifier!r}: give a name or a classifier of scikit-learn.")
    if hasattr(classifier, "predict_proba"):
        return
    if not hasattr(classifier, "decision_function"):
        raise TypeError(
            f"`classifier` is {classifier!r}, which has neither `predict_proba` nor `decision_function`: give a "
            "classifier that has one of them."
        )
    if not calibrated:
        raise ValueError(
            f"`classifier` is {classifier!r}, which has no `predict_proba`: its `decision_function` is a score, not "
            "log-odds. Give `calibration='sigmoid'` or 'isotonic'."
        )


def _last_step(classifier: Any) -> tuple[str, Any]:
    """Return the prefix of the settings of the classifier at the end of a pipeline, and this classifier."""
    prefix = ""
    while isinstance(classifier, Pipeline):
        name, classifier = classifier.steps[-1]
        prefix += f"{name}__"
    return prefix, classifier


def _fit_weighted(classifier: Any, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> None:
    prefix, last = _last_step(classifier)
    if (w == 1).all():
        classifier.fit(X, y)
    elif has_fit_parameter(last, "sample_weight"):
        classifier.fit(X, y, **{f"{prefix}sample_weight": w})
    elif (w == np.round(w)).all():
        counts = w.astype(np.int64)
        classifier.fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    else:
        raise ValueError(
            f"`sample_weight` or `class_weight` gives weights that are no whole numbers, but the `fit` of {last!r} "
            "takes no `sample_weight`: give whole numbers, which become repeated rows, or another classifier."
        )


def _prior_log_odds(classifier: Any, y: np.ndarray, w: np.ndarray) -> float:
    """Return the log-odds that a fitted classifier took for granted: its own prior if it has one."""
    _, last = _last_step(classifier)
    for name in ("priors_", "class_prior_"):
        if hasattr(last, name):
            return float(logit(getattr(last, name)[1]))
    if hasattr(last, "class_log_prior_"):
        return float(np.diff(last.class_log_prior_)[0])
    return _log_odds(y, w)


def _log_odds(y: np.ndarray, w: np.ndarray) -> float:
    return math.log(w[y == 1].sum() / w[y == 0].sum())


class NewtonLogisticRegression(LogisticRegression):
    """Logistic regression by Newton's method: to the last digits, and in a few passes over the rows.

    Parameters
    ----------
    C
        Inverse of the penalty on the squared coefficients, in units of one row.
    """

    def __init__(self, C: float = 1.0) -> None:
        super().__init__(C=C)

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Self:
        """Fit to rows (n, d), labels (n,) of 0 and 1, and weights (n,)."""
        if X.shape[1] > _NEWTON_COLUMNS:
            return super().fit(X, y, sample_weight)
        w = np.ones(len(X)) if sample_weight is None else sample_weight
        penalty = np.append(np.full(X.shape[1], 1 / self.C), 0.0)
        theta = _newton(X, y.astype(np.float64), w, penalty)
        self.classes_, self.n_features_in_ = np.array([0, 1]), X.shape[1]
        self.coef_, self.intercept_ = theta[None, :-1], theta[-1:]
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """Return the logit of rows, (n, d) to (n,); the checks of scikit-learn took as long as the product."""
        return X @ self.coef_[0] + self.intercept_[0]


def _newton(X: np.ndarray, y: np.ndarray, w: np.ndarray, penalty: np.ndarray) -> np.ndarray:
    """Return coefficients and intercept of least penalized logistic loss, of shape (d + 1,)."""
    theta = np.zeros(len(penalty))
    if len(X) > 4 * _NEWTON_ROWS:  # every eighth row tells where to begin
        theta = _newton(X[::8], y[::8], 8 * w[::8], penalty)
    gradient, hessian = _derivatives(theta, X, y, w, penalty)
    while True:
        step = -np.linalg.solve(hessian, gradient)
        if np.abs(step).max() < 1e-5 * max(1.0, np.abs(theta).max()):
            return theta + step  # each step squares the error: this one leaves rounding
        while True:
            new_gradient, hessian = _derivatives(theta + step, X, y, w, penalty)
            if new_gradient @ step <= -0.5 * (gradient @ step):
                break
            step /= 2  # the loss is convex: beyond its minimum along the step
        theta, gradient = theta + step, new_gradient


def _derivatives(
    theta: np.ndarray, X: np.ndarray, y: np.ndarray, w: np.ndarray, penalty: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    gradient, hessian = penalty * theta, np.diag(penalty)
    A = np.ones((min(_NEWTON_ROWS, len(X)), len(theta)))  # rows, and 1 for the intercept
    for start in range(0, len(X), _NEWTON_ROWS):
        part = slice(start, start + _NEWTON_ROWS)
        a = A[: len(X[part])]
        a[:, :-1] = X[part]
        p = expit(a @ theta)
        gradient += (w[part] * (p - y[part])) @ a
        hessian += a.T @ (a * (w[part] * p * (1 - p))[:, None])
    return gradient, hessian


def _logistic(X: np.ndarray, y: np.ndarray, seed: int) -> Any:
    del X, y, seed
    return NewtonLogisticRegression(_PENALTY)


def _quadratic(X: np.ndarray, y: np.ndarray, seed: int) -> Any:
    del y, seed
    n_products = X.shape[1] * (X.shape[1] + 3) // 2
    if n_products * len(X) > _MAX_PRODUCTS:
        raise ValueError(
            f"`classifier` is 'quadratic' with {len(X)} rows of {X.shape[1]} columns: {n_products} products of columns "
            "for each row need too much memory. Give fewer columns, or `classifier='mlp'`."
        )
    return make_pipeline(
        PolynomialFeatures(2, include_bias=False), StandardScaler(), NewtonLogisticRegression(_PENALTY)
    )


def _boosting(X: np.ndarray, y: np.ndarray, seed: int) -> Any:
    """Return many small trees, stopped where held-out rows say: large trees tell p from q too surely."""
    del X
    stops: Any = bool(min(y.sum(), (1 - y).sum()) >= 40)  # of fewer rows too few are held out to tell
    return HistGradientBoostingClassifier(
        max_iter=1000 if stops else 50,
        max_leaf_nodes=4,
        l2_regularization=1.0,
        early_stopping=stops,
        n_iter_no_change=20,
        random_state=seed % 2**32,
    )


# weak: log r of two far samples is steep, and what holds the slope back is most of its error there
_PENALTY = 10.0
_PRESETS: dict[str, Callable[[np.ndarray, np.ndarray, int], Any]] = {
    "logistic": _logistic,
    "quadratic": _quadratic,
    "boosting": _boosting,
}


@dataclass(frozen=True)
class IsotonicCalibrator:
    """An increasing function of the score, linear between its knots.

    Parameters
    ----------
    scores, log_r
        Where the knots are, and log r there, of shape (k,).
    """

    scores: np.ndarray
    log_r: np.ndarray

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        return np.interp(scores, self.scores, self.log_r)


@dataclass(frozen=True)
class SigmoidCalibrator:
    """A line, log r = slope · score + intercept."""

    slope: float
    intercept: float

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        return self.slope * scores + self.intercept


def _isotonic(scores: np.ndarray, y: np.ndarray, w: np.ndarray) -> IsotonicCalibrator:
    """Fit posteriors under even odds. Where no row of n is, a share of 1/(n + 1) may be: log r is finite."""
    n_p, n_q = w[y == 1].sum(), w[y == 0].sum()
    line = IsotonicRegression().fit(scores, y, np.where(y == 1, w / n_p, w / n_q))
    with np.errstate(divide="ignore"):
        log_r = np.clip(logit(line.y_thresholds_), -math.log1p(n_p), math.log1p(n_q))
    return IsotonicCalibrator(line.X_thresholds_, log_r)


def _sigmoid(scores: np.ndarray, y: np.ndarray, w: np.ndarray) -> SigmoidCalibrator:
    """Fit a logistic regression under even odds, to labels drawn in from 0 and 1 as Platt does [3]_."""
    n_p, n_q = w[y == 1].sum(), w[y == 0].sum()
    target = np.where(y == 1, (n_p + 1) / (n_p + 2), 1 / (n_q + 2))
    share = (n_p + n_q) * np.where(y == 1, w / n_p, w / n_q) / 2
    centre = scores.mean()
    scale = max(np.abs(scores - centre).max(), np.finfo(np.float64).tiny)
    slope, intercept = _newton((scores[:, None] - centre) / scale, target, share, np.array([1e-6, 0.0]))
    return SigmoidCalibrator(float(slope / scale), float(intercept - slope * centre / scale))


_CALIBRATORS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], Any]] = {
    "isotonic": _isotonic,
    "sigmoid": _sigmoid,
}
