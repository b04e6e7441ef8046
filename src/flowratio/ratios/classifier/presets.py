"""The classifiers that have a name: logistic regression of columns, of their curves or products; normal laws; trees."""

from __future__ import annotations

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

from flowratio.ratios.classifier.gaussian import GaussianDiscriminant

NEWTON_COLUMNS = 256  # beyond them first-order steps are cheaper than the Hessian
_NEWTON_ROWS = 1024  # rows that are differentiated at a time
_MAX_STEPS = 50
_MAX_PRODUCTS = 1 << 27  # values of the second-order polynomial of all rows, at most


class NewtonLogisticRegression(LogisticRegression):
    """Logistic regression by Newton's method: to the last digits, and in a few passes over the rows.

    Parameters
    ----------
    C
        Inverse of the penalty on the squared coefficients, in units of one row.
    """

    def __init__(self, C: float = 1.0) -> None:
        super().__init__(C=C, tol=1e-8, max_iter=10_000)

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Self:
        """Fit to rows (n, d), labels (n,) of 0 and 1, and weights (n,)."""
        if X.shape[1] > NEWTON_COLUMNS:
            return super().fit(X, y, sample_weight)
        w = np.ones(len(X)) if sample_weight is None else sample_weight
        penalty = np.append(np.full(X.shape[1], 1 / self.C), 0.0)
        theta = newton(X, y.astype(np.float64), w, penalty)
        self.classes_, self.n_features_in_ = np.array([0, 1]), X.shape[1]
        self.coef_, self.intercept_ = theta[None, :-1], theta[-1:]
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """Return the logit of rows, (n, d) to (n,); the checks of scikit-learn took as long as the product."""
        return X @ self.coef_[0] + self.intercept_[0]


class TunedLogisticRegression(NewtonLogisticRegression):
    """Logistic regression whose penalty is chosen on every fifth row: for columns so many that it matters.

    It is the weakest one that is within a standard error of the best.

    Attributes
    ----------
    C_
        The inverse of the penalty that was chosen, among 10, 1, 0.1, … 0.0001.
    """

    C_: float

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Self:
        """Fit to rows (n, d), labels (n,) of 0 and 1, and weights (n,)."""
        w = np.ones(len(X)) if sample_weight is None else sample_weight
        aside = np.zeros(len(X), bool)
        for label in (0, 1):
            aside[np.flatnonzero(y == label)[2::5]] = True
        if not 0 < aside.sum() < len(X) or len(np.unique(y[~aside])) < 2:
            self.C_ = self.C
            return super().fit(X, y, sample_weight)
        sign, v = np.where(y[aside] == 1, 1.0, -1.0), w[aside] / w[aside].sum()
        losses: list[np.ndarray] = []
        for C in _PENALTIES:
            tried = NewtonLogisticRegression(C).fit(X[~aside], y[~aside], w[~aside])
            losses.append(-log_expit(sign * tried.decision_function(X[aside])))
            if len(losses) > 1 and v @ losses[-1] > v @ losses[-2]:
                break
        best = min(losses, key=lambda loss: v @ loss)
        gains = [loss - best for loss in losses]  # the weakest penalty that is level with the best one
        self.C_ = next(C for C, g in zip(_PENALTIES, gains, strict=False) if (v @ g) ** 2 <= v**2 @ (g - v @ g) ** 2)
        last = NewtonLogisticRegression(self.C_).fit(X, y, w)
        self.classes_, self.n_features_in_ = last.classes_, last.n_features_in_
        self.coef_, self.intercept_ = last.coef_, last.intercept_
        return self


def newton(X: np.ndarray, y: np.ndarray, w: np.ndarray, penalty: np.ndarray) -> np.ndarray:
    """Return coefficients and intercept of least penalized logistic loss, of shape (d + 1,).

    Parameters
    ----------
    X
        Rows, of shape (n, d).
    y
        Labels between 0 and 1, of shape (n,).
    w
        Weights, of shape (n,).
    penalty
        Of the squares of coefficients and intercept, of shape (d + 1,).
    """
    theta = np.zeros(len(penalty))
    if len(X) > 4 * _NEWTON_ROWS:  # every eighth row of each class tells where to begin
        some = np.concatenate([np.flatnonzero(y > 0.5)[::8], np.flatnonzero(y <= 0.5)[::8]])
        theta = newton(X[some], y[some], 8 * w[some], penalty)
    gradient, hessian = _derivatives(theta, X, y, w, penalty)
    for _ in range(_MAX_STEPS):
        # where every row is told without doubt the Hessian is singular to rounding
        hessian.flat[:: len(theta) + 1] += 1e-12 * np.trace(hessian)
        step = -np.linalg.solve(hessian, gradient)
        if np.abs(step).max() < 1e-5 * max(1.0, np.abs(theta).max()):
            return theta + step  # each step squares the error: this one leaves rounding
        new_gradient = gradient
        for _ in range(_MAX_STEPS):
            new_gradient, hessian = _derivatives(theta + step, X, y, w, penalty)
            if new_gradient @ step <= -0.5 * (gradient @ step):
                break
            step /= 2  # the loss is convex: beyond its minimum along the step
        theta, gradient = theta + step, new_gradient
    return theta  # weights so large that rounding hides the rest


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
    return make_pipeline(PolynomialFeatures(2, include_bias=False), StandardScaler(), TunedLogisticRegression())


class Hinges(TransformerMixin, BaseEstimator):
    r"""Smooth hinges of every column, whose sums are curves with straight tails: an additive model of columns.

    .. math:: x_j, \quad \sqrt{(x_j - t_{jk})^2 + \delta_{jk}^2} \qquad (k = 1, \dots, K)

    with the knots t at quantiles of the column, and δ half the distance to the next knot. Knots that are the same count
    once, and a column of two values, on which every curve is a line, has none.

    Attributes
    ----------
    knots_, widths_
        Of shape (K, d).
    told_
        Whether each of them counts, of shape (K, d).
    """

    knots_: np.ndarray
    widths_: np.ndarray
    told_: np.ndarray

    def fit(self, X: np.ndarray, y: Any = None) -> Self:
        """Set the knots for rows (n, d); `y` is not used."""
        del y
        self.knots_ = np.quantile(X, _KNOTS, axis=0)
        gaps = np.diff(self.knots_, axis=0)
        self.widths_ = np.maximum(0.5 * np.minimum(np.vstack([gaps, gaps[-1:]]), np.vstack([gaps[:1], gaps])), 1e-3)
        low, high = X.min(axis=0), X.max(axis=0)
        of_two = ((low == X) | (high == X)).all(axis=0)
        self.told_ = np.vstack([np.ones_like(gaps[:1], dtype=bool), gaps > 0]) & ~of_two
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Map rows to their hinges, (n, d) to (n, d + m), if m of the K d count."""
        parts = zip(self.knots_, self.widths_, self.told_, strict=True)
        return np.hstack([X, *(np.hypot(X[:, of] - t[of], width[of]) for t, width, of in parts)])


def _lda(X: np.ndarray, y: np.ndarray, seed: int) -> Any:
    del X, y, seed
    return GaussianDiscriminant(shared=True)


def _qda(X: np.ndarray, y: np.ndarray, seed: int) -> Any:
    del X, y, seed
    return GaussianDiscriminant()


def _additive(X: np.ndarray, y: np.ndarray, seed: int) -> Any:
    del X, y, seed
    return make_pipeline(Hinges(), StandardScaler(), TunedLogisticRegression())


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
_PENALTIES = (10.0, 1.0, 0.1, 0.01, 0.001, 0.0001)
_KNOTS = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)
PRESETS: dict[str, Callable[[np.ndarray, np.ndarray, int], Any]] = {
    "logistic": _logistic,
    "lda": _lda,
    "quadratic": _quadratic,
    "qda": _qda,
    "additive": _additive,
    "boosting": _boosting,
}
