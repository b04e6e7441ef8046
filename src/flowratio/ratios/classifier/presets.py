"""The classifiers that have a name: logistic regression of columns, curves or products, Gaussian densities, trees."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit, log_expit
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from typing_extensions import Self

from flowratio._support.chunks import chunks
from flowratio._support.errors import ArgumentError
from flowratio._support.types import Matrix, Vector
from flowratio.ratios.classifier.gaussian import GaussianDiscriminant

NEWTON_COLUMNS = 1024  # with more columns, first-order steps are cheaper than the Hessian
_NEWTON_ROWS, _MAX_STEPS = 1024, 50  # rows of one block of the derivatives
_MAX_FEATURES = 1024  # columns and products of the quadratic polynomial
_MAX_VALUES = 1 << 27  # largest number of values of the quadratic polynomial of all rows


class NewtonLogisticRegression(LogisticRegression):
    """Logistic regression by Newton's method, exact to rounding. C is the inverse of the penalty, in units of one row.

    `benchmarks/replacements.py` compares it with the solver newton-cholesky of scikit-learn.
    """

    def __init__(self, C: float = 1.0) -> None:
        super().__init__(C=C, tol=1e-8, max_iter=10_000)

    def fit(self, X: Matrix, y: Vector, sample_weight: Vector | None = None) -> Self:
        """Fit to rows (n, d), labels (n,) of 0 and 1, and weights (n,)."""
        if min(X.shape) > NEWTON_COLUMNS:
            return super().fit(X, y, sample_weight)
        w = np.ones(len(X)) if sample_weight is None else sample_weight
        if X.shape[1] <= NEWTON_COLUMNS:
            theta = self._newton(X, y, w)
        else:  # the coefficients are a combination of the rows, so there are as many unknowns as rows
            rotated, back = _rotated(X)
            theta = self._newton(rotated, y, w)
            theta = np.append(back @ theta[:-1], theta[-1])
        self.classes_, self.n_features_in_ = np.array([0, 1]), X.shape[1]
        self.coef_, self.intercept_ = theta[None, :-1], theta[-1:]
        return self

    def _newton(self, X: Matrix, y: Vector, w: Vector) -> np.ndarray:
        return newton(X, y.astype(np.float64), w, np.append(np.full(X.shape[1], 1 / self.C), 0.0))

    def decision_function(self, X: Matrix) -> np.ndarray:
        """Return the logit of rows, (n, d) to (n,), without the checks of scikit-learn, which double its time."""
        return X @ self.coef_[0] + self.intercept_[0]


class TunedLogisticRegression(NewtonLogisticRegression):
    """Logistic regression with the weakest penalty whose held-out loss is within a standard error of the best."""

    C_: float  # inverse of the penalty: 10, 1, 0.1, … or 0.0001. Every fifth row is held out to select it

    def fit(self, X: Matrix, y: Vector, sample_weight: Vector | None = None) -> Self:
        """Fit to rows (n, d), labels (n,) of 0 and 1, and weights (n,)."""
        w = np.ones(len(X)) if sample_weight is None else sample_weight
        held_out = np.zeros(len(X), bool)
        for label in (0, 1):
            held_out[np.flatnonzero(y == label)[2::5]] = True
        if not 0 < held_out.sum() < len(X) or len(np.unique(y[~held_out])) < 2:
            self.C_ = self.C
            return super().fit(X, y, sample_weight)
        sign, v = np.where(y[held_out] == 1, 1.0, -1.0), w[held_out] / w[held_out].sum()
        losses: list[np.ndarray] = []
        for C in _PENALTIES:
            model = NewtonLogisticRegression(C).fit(X[~held_out], y[~held_out], w[~held_out])
            losses.append(-log_expit(sign * model.decision_function(X[held_out])))
            if len(losses) > 1 and v @ losses[-1] > v @ losses[-2]:
                break
        best = min(losses, key=lambda loss: v @ loss)
        excess = [loss - best for loss in losses]
        self.C_ = next(C for C, e in zip(_PENALTIES, excess, strict=False) if (v @ e) ** 2 <= v**2 @ (e - v @ e) ** 2)
        last = NewtonLogisticRegression(self.C_).fit(X, y, w)
        self.classes_, self.n_features_in_ = last.classes_, last.n_features_in_
        self.coef_, self.intercept_ = last.coef_, last.intercept_
        return self


def _rotated(X: Matrix) -> tuple[Matrix, Matrix]:
    """Return rows in an orthonormal basis of their span, (n, d) to (n, m), and the basis, (d, m)."""
    values, vectors = np.linalg.eigh(X @ X.T)
    large = values > 1e-12 * values[-1]
    lengths = np.sqrt(values[large])
    return vectors[:, large] * lengths, X.T @ (vectors[:, large] / lengths)


def newton(X: Matrix, y: Vector, w: Vector, penalty: Vector) -> np.ndarray:
    """Minimize the logistic loss of rows (n, d), labels from 0 to 1 (n,) and weights (n,).

    Returns coefficients and intercept, (d + 1,), on whose squares there is a penalty, (d + 1,).
    """
    theta = np.zeros(len(penalty))
    if len(X) > 4 * _NEWTON_ROWS:  # every eighth row of each class gives the start
        some = np.concatenate([np.flatnonzero(y > 0.5)[::8], np.flatnonzero(y <= 0.5)[::8]])
        theta = newton(X[some], y[some], 8 * w[some], penalty)
    gradient, hessian = _derivatives(theta, X, y, w, penalty)
    for _ in range(_MAX_STEPS):
        # if every row is classified with certainty, the Hessian is singular to rounding
        hessian.flat[:: len(theta) + 1] += 1e-12 * np.trace(hessian)
        step = -np.linalg.solve(hessian, gradient)
        if np.abs(step).max() < 1e-5 * max(1.0, np.abs(theta).max()):
            return theta + step  # each step squares the error, so the rest is rounding
        new_gradient = gradient
        for _ in range(_MAX_STEPS):
            new_gradient, hessian = _derivatives(theta + step, X, y, w, penalty)
            if new_gradient @ step <= -0.5 * (gradient @ step):
                break
            step /= 2  # beyond the minimum along the step, as the loss is convex
        theta, gradient = theta + step, new_gradient
    return theta  # with huge weights, rounding dominates


def _derivatives(theta: Vector, X: Matrix, y: Vector, w: Vector, penalty: Vector) -> tuple[np.ndarray, np.ndarray]:
    gradient, hessian = penalty * theta, np.diag(penalty)
    A = np.ones((min(_NEWTON_ROWS, len(X)), len(theta)))  # rows, and 1 for the intercept
    for part in chunks(len(X), 1, _NEWTON_ROWS):
        a = A[: len(X[part])]
        a[:, :-1] = X[part]
        p = expit(a @ theta)
        gradient += (w[part] * (p - y[part])) @ a
        hessian += a.T @ (a * (w[part] * p * (1 - p))[:, None])
    return gradient, hessian


def _quadratic(X: Matrix, y: Vector, seed: int) -> Any:
    del y, seed
    n, d = X.shape
    if d * (d + 3) // 2 <= min(_MAX_FEATURES, _MAX_VALUES // n):
        return make_pipeline(PolynomialFeatures(2, include_bias=False), StandardScaler(), TunedLogisticRegression())
    n_products = min(max(_MAX_FEATURES - d, d), _MAX_VALUES // n - d)
    if n_products < d:
        problem = f"`classifier` is 'quadratic' with {n} rows of {d} columns, which need too much memory"
        raise ArgumentError("classifier", f"{problem}. Use fewer columns, or `NetworkRatio('mlp')`.")
    return make_pipeline(Products(n_products), StandardScaler(), TunedLogisticRegression())


class Products(TransformerMixin, BaseEstimator):
    r"""Columns, their squares, and the products of pairs of columns whose means differ between the samples.

    The squared difference of the means of a product, in units of its standard error, must exceed 2 log(m) for m
    products, which noise alone rarely does. Products that are noise make a fit worse. The logarithm of the ratio of two
    Gaussians is a sum of products, but all products of many columns take too long. `n_products` is the maximum number
    of squares and products.
    """

    pairs_: np.ndarray  # positions of both factors of each product, (2, m)

    def __init__(self, n_products: int = 1000) -> None:
        self.n_products = n_products

    def fit(self, X: Matrix, y: Vector) -> Self:
        """Choose products for rows (n, d) of two samples, by labels (n,)."""
        means, noise = [], []
        for rows in (X[y == 1], X[y == 0]):
            mean = rows.T @ rows / len(rows)  # (d, d)
            squares = np.square(rows)
            means.append(mean)
            noise.append(np.maximum(squares.T @ squares / len(rows) - mean**2, 0.0) / len(rows))
        strength = np.square(means[0] - means[1]) / (noise[0] + noise[1] + 1e-12)
        np.fill_diagonal(strength, np.inf)  # squares bend log r of every column
        i, j = np.tril_indices(X.shape[1])
        strength = strength[i, j]
        n_products = min(self.n_products, np.count_nonzero(strength > 2 * math.log(len(strength))))
        best = np.sort(np.argsort(-strength, kind="stable")[:n_products])
        self.pairs_ = np.vstack([j[best], i[best]])
        return self

    def transform(self, X: Matrix) -> np.ndarray:
        """Return columns and products of rows, (n, d) to (n, d + m)."""
        return np.hstack([X, X[:, self.pairs_[0]] * X[:, self.pairs_[1]]])


class Hinges(TransformerMixin, BaseEstimator):
    r"""Smooth hinges of every column. Their sums are curves with straight tails.

    .. math:: x_j, \quad \sqrt{(x_j - t_{jk})^2 + \delta_{jk}^2} \qquad (k = 1, \dots, K)

    with the knots t at quantiles of the column, and δ half the distance to the next knot. Equal knots count once. A
    column with two values has no knots, because every curve on it is a line. More than 500 columns have fewer knots.
    `benchmarks/replacements.py` compares hinges with the splines of scikit-learn.
    """

    knots_: np.ndarray  # t, (K, d)
    widths_: np.ndarray  # δ, (K, d)
    used_: np.ndarray  # whether each hinge is used, (K, d)

    def fit(self, X: Matrix, y: Any = None) -> Self:
        """Set the knots for rows (n, d). `y` is not used."""
        del y
        self.knots_ = np.quantile(X, _KNOTS if X.shape[1] <= _MANY_COLUMNS else _FEW_KNOTS, axis=0)
        steps = np.diff(self.knots_, axis=0)
        self.widths_ = np.maximum(0.5 * np.minimum(np.vstack([steps, steps[-1:]]), np.vstack([steps[:1], steps])), 1e-3)
        low, high = X.min(axis=0), X.max(axis=0)
        has_two_values = ((low == X) | (high == X)).all(axis=0)
        self.used_ = np.vstack([np.ones_like(steps[:1], dtype=bool), steps > 0]) & ~has_two_values
        return self

    def transform(self, X: Matrix) -> np.ndarray:
        """Return columns and hinges of rows, (n, d) to (n, d + m)."""
        hinges = zip(self.knots_, self.widths_, self.used_, strict=True)
        return np.hstack([X, *(np.hypot(X[:, used] - t[used], width[used]) for t, width, used in hinges)])


def _boosting(X: Matrix, y: Vector, seed: int) -> Any:
    """Return many small trees, stopped early on held-out rows. Large trees are overconfident."""
    del X
    stops: Any = bool(min(y.sum(), (1 - y).sum()) >= 40)  # with fewer rows the held-out rows are too few
    return HistGradientBoostingClassifier(
        max_iter=1000 if stops else 50,
        max_leaf_nodes=4,
        l2_regularization=1.0,
        early_stopping=stops,
        n_iter_no_change=20,
        random_state=seed % 2**32,
    )


# weak: log r of two distant samples is steep, and most of its error there comes from the penalty
_PENALTY = 10.0
_PENALTIES = (10.0, 1.0, 0.1, 0.01, 0.001, 0.0001)
_KNOTS = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)
_FEW_KNOTS = (0.25, 0.75)
_MANY_COLUMNS = 500  # with more columns, seven curves for each take too much memory and time
# name -> factory of rows (n, d), labels (n,) and a seed
PRESETS: dict[str, Callable[[Matrix, Vector, int], Any]] = {
    "logistic": lambda X, y, seed: NewtonLogisticRegression(_PENALTY),
    "lda": lambda X, y, seed: GaussianDiscriminant(shared=True),
    "quadratic": _quadratic,
    "qda": lambda X, y, seed: GaussianDiscriminant(),
    "additive": lambda X, y, seed: make_pipeline(Hinges(), StandardScaler(), TunedLogisticRegression()),
    "boosting": _boosting,
}
