"""Predictions of a value by models that were not fitted to the same rows: one half of a doubly robust estimate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler
from typing_extensions import Self

from flowratio._support.errors import ArgumentError
from flowratio._support.types import Matrix, Vector
from flowratio._support.validation import check_choice
from flowratio.applications.weighted_fit import fit_weighted
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.ratios.registry import seeded_like, silent
from flowratio.samples.folding import folds
from flowratio.samples.weighting import mean_and_error

MODELS = ("linear", "quadratic", "boosting")
_ALPHAS = np.logspace(-3, 4, 15)  # penalties of a ridge regression of standardized columns
_SHRINKAGE = 10.0  # rows of the overall mean that are added to each category
_N_FOLDS = 5  # of the rows whose category means are learned from other rows
_TREES: dict[str, dict[str, Any]] = {
    "boosting": {"max_iter": 100, "max_leaf_nodes": 15},
    "shallow boosting": {"max_iter": 40, "max_leaf_nodes": 8, "learning_rate": 0.2},  # a third of the time
}
_SMOOTH: dict[str, Any] = {"l2_regularization": 1.0, "early_stopping": False}
_MOST_PRODUCTS = 250  # squares and products of columns: with more columns there are squares only
_FARTHEST = 5.0  # standard deviations of a column: a product of two values farther out would decide alone


class Prediction(NamedTuple):
    """Predicted values of rows, of shape (n,), and the name of the model."""

    values: Vector
    model: str


class Measurement(NamedTuple):
    """The rows on which a value was measured, among all rows. Every vector is of shape (n,)."""

    X: Matrix  # of all rows, (n, d)
    values: Vector  # of all rows. They count on the measured rows only
    rows: np.ndarray  # which rows are measured
    w: Vector  # weights of all rows
    fold: np.ndarray
    codes: tuple[int, ...] = ()  # positions of the columns with codes of categories


def is_binary(values: Vector) -> bool:
    """Return whether all values are 0 or 1, and both occur."""
    return bool(np.isin(values, (0.0, 1.0)).all() and np.ptp(values) > 0)


def check_outcome_model(model: Any, values: Vector) -> None:
    """Refuse what is not a name, None, or an unfitted estimator of these values, (n,)."""
    if isinstance(model, str):
        check_choice(model, "outcome_model", MODELS)
    elif model is not None:
        if isinstance(model, type) or not all(callable(getattr(model, name, None)) for name in ("fit", "predict")):
            advice = f"an estimator of scikit-learn, such as `RandomForestRegressor()`, or one of {', '.join(MODELS)}"
            raise TypeError(f"`outcome_model` is {model!r}. Use {advice}.")
        if is_classifier(model) and not is_binary(values):
            problem = f"`outcome_model` is {model!r}, a classifier, but the values are not 0 and 1"
            raise ArgumentError("outcome_model", f"{problem}. Use a regressor.")
        if is_classifier(model) and not callable(getattr(model, "predict_proba", None)):
            problem = f"`outcome_model` is {model!r}, a classifier without `predict_proba`"
            raise ArgumentError("outcome_model", f"{problem}. Use one with probabilities, or a regressor.")


def prediction_of(model: Any, measurement: Measurement, share: Vector, seed: int) -> Prediction:
    """Predict the values of all rows by cross-fitting. None for the best of `MODELS`.

    The best one has the smallest squared error on held-out rows by their share, (n,): the error on the target.
    """
    if model is not None:
        name = model if isinstance(model, str) else type(model).__name__
        return Prediction(_cross_fitted(model, measurement, seed), name)
    return _best({name: name for name in _usable(measurement.X)}, measurement, share, seed)


def _usable(X: Matrix) -> Sequence[str]:
    """Return the models of rows (n, d): only trees accept missing values."""
    return MODELS if np.isfinite(X).all() else ("boosting",)


def _best(models: Mapping[str, str], measurement: Measurement, share: Vector, seed: int) -> Prediction:
    """Return the best prediction, with its name. `models` has the kind of `_new` for each name."""
    predictions = [Prediction(_cross_fitted(kind, measurement, seed), name) for name, kind in models.items()]
    return min(predictions, key=lambda one: float(share @ np.square(measurement.values - one.values)))


def better_prediction(prediction: Prediction, measurement: Measurement, share: Vector, seed: int) -> Prediction | None:
    """Return the best prediction by other `MODELS`, if its squared error on held-out rows is smaller beyond chance.

    Errors count by the share of the rows, (n,). The two errors of a row are compared. Boosting is shallow here.
    """
    names = [name for name in _usable(measurement.X) if name != prediction.model]
    if not names:
        return None
    models = {name: "shallow boosting" if name == "boosting" else name for name in names}
    best = _best(models, measurement, share, seed)
    squares = [np.square(measurement.values - one.values) for one in (prediction, best)]
    gains = (squares[0] - squares[1])[share > 0]
    gain, error = mean_and_error(gains, share[share > 0])
    return best if gain > THRESHOLDS.residual * error else None


def _cross_fitted(model: Any, measurement: Measurement, seed: int) -> Vector:
    prediction = np.empty(len(measurement.X))
    with silent():
        for k in np.unique(measurement.fold):
            at = measurement.fold == k
            prediction[at] = _fitted_values(
                model, measurement._replace(rows=measurement.rows & ~at), measurement.X[at], seed
            )
    return prediction


def _fitted_values(model: Any, measurement: Measurement, X: Matrix, seed: int) -> Vector:
    """Return predictions of rows (m, d) by a model that is fitted to the measured rows."""
    rows = measurement.rows
    values, w = measurement.values[rows], measurement.w[rows]
    if np.ptp(values) == 0:
        return np.full(len(X), values[0])
    estimator = _new(model, is_binary(values), measurement.codes, X.shape[1], seed)
    labels = values.astype(int) if is_classifier(estimator) else values
    if np.ptp(w) == 0:
        estimator.fit(measurement.X[rows], labels)
    else:
        estimator = fit_weighted(estimator, measurement.X[rows], labels, w / w.mean(), seed)
    if is_classifier(estimator):
        return np.asarray(estimator.predict_proba(X)[:, 1], np.float64)
    return np.asarray(estimator.predict(X), np.float64).reshape(len(X))


def _new(model: Any, binary: bool, codes: Sequence[int], d: int, seed: int) -> Any:
    """Return an unfitted estimator. Codes of categories become the mean value of the category, cross-fitted."""
    seed %= 2**32
    means: Any = FunctionTransformer()
    if codes:
        plain = [j for j in range(d) if j not in codes]
        encoding = ("codes", _CategoryMeans(seed), list(codes))
        means = ColumnTransformer([("plain", "passthrough", plain), encoding])
    if not isinstance(model, str):
        own = seeded_like(clone(model), seed, verbose=False)
        return Pipeline([("means", means), ("model", own)]) if codes else own
    if model in _TREES:
        classes = HistGradientBoostingRegressor, HistGradientBoostingClassifier
        last: Any = classes[binary](random_state=seed, **_SMOOTH, **_TREES[model])
    else:
        last = LogisticRegression(max_iter=500) if binary else RidgeCV(_ALPHAS)
    products: list[Any] = _products(d) if model == "quadratic" else []
    return Pipeline([("means", means), ("scale", StandardScaler()), *products, ("model", last)])


def _products(d: int) -> list[tuple[str, Any]]:
    """Return the steps from d standardized columns to standardized squares and products."""
    bounded = FunctionTransformer(np.clip, kw_args={"a_min": -_FARTHEST, "a_max": _FARTHEST})
    every = PolynomialFeatures(2, include_bias=False)
    squares = FunctionTransformer(_with_squares)
    return [
        ("bounds", bounded),
        ("products", every if d * (d + 3) // 2 <= _MOST_PRODUCTS else squares),
        ("scale products", StandardScaler()),
    ]


def _with_squares(X: Matrix) -> Matrix:
    return np.hstack([X, X**2])


class _CategoryMeans(TransformerMixin, BaseEstimator):
    """Replace codes of categories, (n, k), by shrunken mean values. Those of fitted rows come from other rows."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def fit(self, X: Matrix, y: Vector) -> Self:
        self.mean_ = float(np.mean(y))
        self.means_ = [_means_of(column, y, self.mean_) for column in X.T]
        return self

    def transform(self, X: Matrix) -> Matrix:
        columns = [
            [means.get(code, self.mean_) for code in column]
            for means, column in zip(self.means_, X.T.tolist(), strict=True)
        ]
        return np.array(columns).T

    def fit_transform(self, X: Matrix, y: Vector) -> Matrix:  # pyright: ignore[reportIncompatibleMethodOverride]
        fold = folds(len(X), min(_N_FOLDS, len(X)), np.random.default_rng(self.seed))
        result = np.empty(X.shape)
        for k in range(int(fold.max()) + 1):
            rest = fold != k
            result[~rest] = type(self)().fit(X[rest], y[rest]).transform(X[~rest])
        self.fit(X, y)
        return result


def _means_of(codes: Vector, y: Vector, mean: float) -> dict[float, float]:
    """Return the shrunken mean value of each category."""
    names, position = np.unique(codes, return_inverse=True)
    totals, sizes = np.bincount(position, y), np.bincount(position)
    return dict(zip(names.tolist(), ((totals + _SHRINKAGE * mean) / (sizes + _SHRINKAGE)).tolist(), strict=True))
