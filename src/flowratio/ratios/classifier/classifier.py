r"""A classifier of p against q is a ratio: its logit, less the log-odds of the sample it was fitted to.

.. math:: \log r(x) = \log\frac{P(y = 1 \mid x)}{P(y = 0 \mid x)} - \log\frac{n_p}{n_q}
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import logit
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from flowratio._support.validation import (
    RandomState,
    check_n_folds,
    check_training_settings,
    is_count,
    is_number,
    seed_from,
)
from flowratio.ratios.base import RatioEstimator
from flowratio.ratios.classifier.calibration import CALIBRATORS
from flowratio.ratios.classifier.presets import NEWTON_COLUMNS, PRESETS
from flowratio.samples.weighting import weighted_moments

if TYPE_CHECKING:
    from flowratio.training.run import History

_NETWORKS = ("mlp", "cnn")
CLASSIFIERS = (*PRESETS, *_NETWORKS)
_RECIPE_SETTINGS = ("max_epochs", "batch_size", "learning_rate", "weight_decay", "patience")
_NETWORK_SETTINGS = ("hidden", *_RECIPE_SETTINGS, "l2_penalty", "validation_fraction", "image_shape")
_CHECKED_ROWS = 1_000  # rows on which logits are compared with probabilities


class ClassifierRatio(RatioEstimator):
    """Estimate r(x) = p(x) / q(x), p is y = 1, by a classifier that tells rows of p from rows of q.

    Its logit is used as it is, never by way of p / (1 - p), and the log-odds of the sample are taken out.

    Parameters
    ----------
    classifier
        `"logistic"` (log r linear in x), `"quadratic"` (of second order in x: exact for two Gaussians), `"lda"` and
        `"qda"` (the same two, from normal laws), `"additive"` (a sum of curves, one for each column), `"boosting"`
        (trees), `"mlp"` (a network of three hidden layers), `"cnn"` (a network for images), or any classifier of
        scikit-learn that has `predict_proba`. It is cloned.
    calibration
        `"isotonic"` (any increasing function) or `"sigmoid"` (a line) bring the logits in line with rows that the
        classifier has not seen; None leaves them as they are. A classifier that has only `decision_function`, such as
        a support vector machine, needs one of them.
    n_folds
        Folds of the calibration: that many classifiers are fitted beside the one that is kept.
    hidden
        For networks: widths of the hidden layers, by default three of 32 to 200 units, or filters of the convolutions,
        by default four times 64.
    max_epochs, batch_size, learning_rate, weight_decay, patience
        For networks: settings of the training; chosen from the data if None. A batch is half p and half q.
    l2_penalty
        For networks: the λ of a term λ/2 · |weights|² in the loss, as the code of [2]_ has it, in place of
        `weight_decay`, which shrinks the weights after each step and is no part of the loss.
    validation_fraction
        For networks: share of the rows held out to decide when to stop, 0.1 if None.
    image_shape
        For networks: channels, height and width of the image in a row. If None: one square channel for `"cnn"`, and no
        image for `"mlp"`, which standardizes each column by itself.
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

    Networks are chosen for d columns, and n rows of the smaller sample, alike in x and in latent space: three hidden
    layers, 32 wide below 500 rows, 64 below 2000, else 100, or 10 d up to 200; batches of 256 to 2048 rows, 1000 steps
    or 10 epochs; a learning rate of 0.002; a weight decay of 300/n, from 0.03 to 1; and the run ends when a sixth of
    the epochs brought nothing on a tenth of the rows, held out of it. The first 150 steps, or a sixth of all, are not
    kept: few held-out rows may like best what has hardly learned anything.

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
        l2_penalty: float | None = None,
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
        self.l2_penalty = l2_penalty
        self.validation_fraction = validation_fraction
        self.image_shape = image_shape
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    @property
    def _rows(self) -> Literal["given", "repeated"]:
        exact = self.classifier == "logistic" and self.calibration is None and self.n_features_in_ <= NEWTON_COLUMNS
        return "given" if exact else "repeated"  # its optimum is one of the weighted sample, whatever the order

    @property
    def _takes_draws(self) -> bool:
        return self.classifier in ("logistic", *_NETWORKS)

    def _centre_and_scale(self, X: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, scale = weighted_moments(X, share)
        if self.classifier != "cnn" and self.image_shape is None:
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
            self.calibrator_ = CALIBRATORS[self.calibration](scores, y, w)
        self.classifier_, self.readout_, self.history_ = fitted(X, y, w, seed)

    def _log_ratio(self, X: np.ndarray) -> np.ndarray:
        log_r = self.readout_(self.classifier_, X)
        return log_r if self.calibrator_ is None else self.calibrator_(log_r)

    def _folds(self, y: np.ndarray, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield masks of the rows to fit and of those to score, (n,), in each sample as many as in the other folds."""
        n_p, n_q = int(y.sum()) // self._n_draws, int((1 - y).sum()) // self._n_draws
        n_folds = min(self.n_folds, n_p, n_q)
        if n_folds < 2:
            raise ValueError(
                "`calibration` needs at least 2 rows of each sample, of which one is set aside: give more "
                "rows, or `calibration=None`."
            )
        # random ones: neighbours in the order of the rows are alike, and a row next to those fitted is hardly held out
        fold_of = np.concatenate([np.tile(rng.permutation(n), self._n_draws) for n in (n_p, n_q)]) % n_folds
        for k in range(n_folds):
            yield fold_of != k, fold_of == k

    def _fit_sklearn(self, X: np.ndarray, y: np.ndarray, w: np.ndarray, seed: int) -> tuple[Any, Readout, None]:
        seed %= 2**32  # as scikit-learn wants it
        if isinstance(self.classifier, str):
            preset = PRESETS[self.classifier](X, y, seed)
            _fit_weighted(preset, X, y, w)
            return preset, Readout("decision_function", _log_odds(y, w), math.inf), None
        classifier: Any = clone(self.classifier)
        params = classifier.get_params()
        open_ = [name for name in params if name.split("__")[-1] == "random_state" and params[name] is None]
        classifier.set_params(**dict.fromkeys(open_, seed))
        w = w * self._class_weights(classifier, y, w)
        order = np.random.default_rng(0).permutation(len(X))  # folds inside it may be cut as the rows come
        _fit_weighted(classifier, X[order], y[order], w[order])
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
        if not (of_q > 0 and of_p > 0):
            raise ValueError(f"`classifier` has `class_weight` {rule}: a ratio needs both classes. Give positive ones.")
        return np.where(y == 1, of_p, of_q)

    def _fit_network(self, X: np.ndarray, y: np.ndarray, w: np.ndarray, seed: int) -> tuple[Any, Readout, History]:
        from flowratio.flows.base import choose_device
        from flowratio.ratios.neural.networks import (
            SETTLE,
            choose_decay,
            choose_hidden,
            choose_recipe,
            n_pairs,
            new_network,
            train_classifier,
        )

        settings = {name: getattr(self, name) for name in _RECIPE_SETTINGS if getattr(self, name) is not None}
        n_p, n_q, d = int(y.sum()), int((1 - y).sum()), X.shape[1]
        n_least = min(n_p, n_q) // self._n_draws
        images = self.classifier == "cnn"
        chosen = {} if images else {"weight_decay": choose_decay(n_least)}
        recipe = replace(choose_recipe(n_pairs(n_p, n_q), chosen | settings, images), settle=SETTLE)
        if self.l2_penalty is not None:
            recipe = replace(recipe, optimizer="adam", weight_decay=float(self.l2_penalty))
        hidden = self.hidden or ((64, 64, 64, 64) if images else choose_hidden(n_least, d))
        shape = self._checked_shape(d) if images or self.image_shape is not None else None
        network = new_network(d, shape if images else None, hidden, seed).to(choose_device(self.device))
        history = train_classifier(
            network,
            X,
            y,
            w,
            recipe,
            seed=seed,
            validation_fraction=0.1 if self.validation_fraction is None else self.validation_fraction,
            n_draws=self._n_draws,
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
        shape = tuple(self.image_shape) if isinstance(self.image_shape, list | tuple) else (self.image_shape,)
        if len(shape) != 3 or not all(map(is_count, shape)) or math.prod(shape) != d:
            raise ValueError(
                f"`image_shape` is {shape} but `X` has {d} columns: give channels, height and width, whose product is "
                "the number of columns."
            )
        return shape

    def _check_settings(self) -> None:
        if isinstance(self.classifier, str):
            if self.classifier not in CLASSIFIERS:
                raise ValueError(
                    f"`classifier` is {self.classifier!r}: give one of {', '.join(CLASSIFIERS)}, or a classifier of "
                    "scikit-learn."
                )
        else:
            _check_classifier(self.classifier, self.calibration is not None)
        if self.calibration is not None and self.calibration not in CALIBRATORS:
            raise ValueError(f"`calibration` is {self.calibration!r}: give 'isotonic', 'sigmoid' or None.")
        check_n_folds(self.n_folds)
        self._check_network_settings()

    def _check_network_settings(self) -> None:
        for name in () if self.classifier in _NETWORKS else _NETWORK_SETTINGS:
            if getattr(self, name) is not None:
                raise ValueError(
                    f"`{name}` is {getattr(self, name)!r}, but `classifier` is {self.classifier!r}: it is a setting of "
                    "'mlp' and 'cnn'. Leave it out, or set it in a classifier of your own."
                )
        check_training_settings(self)
        penalty = self.l2_penalty
        if penalty is None:
            return
        if not (is_number(penalty) and 0 <= penalty < math.inf):
            raise ValueError(f"`l2_penalty` is {penalty!r}: give a number of 0 or more, or None for `weight_decay`.")
        if self.weight_decay is not None:
            raise ValueError(
                f"`l2_penalty` is {penalty} and `weight_decay` is {self.weight_decay}: the one is in place of the "
                "other. Give one of them."
            )


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

    def __post_init__(self) -> None:
        if self.method not in ("decision_function", "predict_log_proba", "predict_proba", "network"):
            raise ValueError(f"`method` is {self.method!r}, by which no classifier is read.")

    def __call__(self, classifier: Any, X: np.ndarray) -> np.ndarray:
        """Return log r of rows, (n, d) to (n,)."""
        if self.method == "network":
            from flowratio.ratios.neural.networks import evaluate

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
    else:
        raise ValueError(
            f"`sample_weight` or `class_weight` gives weights of {w.min():g} to {w.max():g}, but the `fit` of {last!r} "
            "takes no `sample_weight`: give whole numbers, which become repeated rows (a million at most), or another "
            "classifier."
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
