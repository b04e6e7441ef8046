"""Center and scale each column, without the columns that others determine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from scipy.linalg import solve_triangular

from flowratio._support.chunks import chunks
from flowratio._support.types import Matrix, Vector
from flowratio.scaling.base import Scaler
from flowratio.scaling.curves import SMALLEST, Pair

Coefficients: TypeAlias = dict[int, np.ndarray]
_LARGEST = 1e300  # sums of larger values overflow
_MAX_LISTED = 8


class Standardizer(Scaler):
    r"""Center and scale each column, and leave out the columns that other columns determine exactly.

    .. math:: z_j = (x_j - m_j) / s_j, \qquad \log|\det| = -\sum_j \log s_j

    A column has no density if it is constant, or a linear combination of earlier columns, up to rounding. It is left
    out of z, `inverse` rebuilds it, and `fit` issues a `ScalingWarning`. Densities refer to the other columns.
    Combinations are searched only if there are at least 7 more rows than columns. Fewer rows fit one by chance.

    Attributes
    ----------
    mean_, scale_
        Mean and standard deviation of every column, of shape (d,). The deviation of a constant is 0.
    columns_, redundant_, coef_
        Positions of the columns of z, and of the columns that are left out. The coefficients predict the standardized
        columns that are left out from z, of shape (d - d_z, d_z). They are 0 for constants.

    Examples
    --------
    >>> scaler = Standardizer().fit([[1.0, 10.0], [3.0, 40.0], [2.0, 10.0]])
    >>> scaler.transform([[2.0, 20.0]]).tolist()
    [[0.0, 0.0]]
    """

    def _fit(self, X: np.ndarray, names: Sequence[str] | None) -> None:
        low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
        size, eps = np.maximum(np.abs(low), np.abs(high)), float(np.finfo(X.dtype).eps)
        if size.max() > _LARGEST:
            raise ValueError(f"`X` has values of size {size.max():.1e}. The maximum is {_LARGEST}. Change the units.")
        constant = high - low <= np.maximum(8 * eps * size, 2 * SMALLEST)
        if constant.all():
            raise ValueError("Every column of `X` is constant. Use at least one column that varies.")
        self.mean_, self.scale_, correlation = _moments(X, np.where(constant, 1.0, high - low))
        self.scale_[constant] = 0.0
        slack = np.maximum(1e-10, (4 * eps * size / np.where(constant, 1.0, self.scale_)) ** 2)
        basis, coefficients = _combinations(correlation, slack, np.flatnonzero(~constant), len(X))
        if coefficients:
            coefficients = self._confirmed(X, basis, coefficients)
        self.redundant_ = np.array(sorted([*np.flatnonzero(constant), *coefficients]), dtype=np.int64)
        self.columns_ = np.setdiff1d(np.arange(X.shape[1]), self.redundant_)
        self.n_features_out_ = len(self.columns_)
        self.coef_ = np.zeros((len(self.redundant_), len(self.columns_)))
        for j, b in coefficients.items():
            self.coef_[np.searchsorted(self.redundant_, j), np.searchsorted(self.columns_, basis[: len(b)])] = b

    def _confirmed(self, X: np.ndarray, basis: list[int], coefficients: Coefficients) -> Coefficients:
        """Return the combinations that hold within rounding on every row."""
        mean, scale, columns = self.mean_, self.scale_, list(coefficients)
        B = np.zeros((len(basis), len(columns)))
        for k, b in enumerate(coefficients.values()):
            B[: len(b), k] = b
        sample = X[:: max(1, len(X) // 4096), columns].astype(np.float64)
        middle = np.subtract(*np.quantile(sample, [0.75, 0.25], axis=0))
        # the unit is the interquartile range, so that a few huge values do not hide the other rows
        tolerance = 1e-6 * np.where(middle > 0, np.minimum(middle, scale[columns]), scale[columns])
        worst = np.full(len(columns), -np.inf)
        for part in chunks(*X.shape):
            rows = X[part].astype(np.float64, copy=False)
            rebuilt = mean[columns] + scale[columns] * ((rows[:, basis] - mean[basis]) / scale[basis] @ B)
            size = np.abs(rows[:, columns]) + scale[columns] * (np.abs(rows[:, basis]) / scale[basis] @ np.abs(B))
            error = np.abs(rows[:, columns] - rebuilt) - 2 * np.finfo(X.dtype).eps * size
            worst = np.maximum(worst, error.max(axis=0))
        return {j: b for (j, b), fits in zip(coefficients.items(), worst <= tolerance, strict=True) if fits}

    def fit_message(self, names: Sequence[str] | None = None) -> str:
        if not len(self.redundant_):
            return ""
        label = [f"column {j}" if names is None else repr(str(names[j])) for j in range(self.n_features_in_)]
        reasons = []
        for j, coef in zip(self.redundant_[:_MAX_LISTED], self.coef_, strict=False):
            terms = [label[self.columns_[k]] for k in np.flatnonzero(np.abs(coef) > 1e-6)]
            terms = terms if len(terms) <= _MAX_LISTED else [*terms[:7], f"{len(terms) - 7} more"]
            reasons.append(f"{label[j]} ({'a linear combination of ' + ', '.join(terms) if terms else 'constant'})")
        if len(self.redundant_) > _MAX_LISTED:
            reasons.append(f"and {len(self.redundant_) - _MAX_LISTED} more")
        what = f"{len(self.redundant_)} of {self.n_features_in_} columns are left out of z: {', '.join(reasons)}."
        return f"{what} `inverse` rebuilds them. Densities refer to the other columns."

    def off_plane(self, X: np.ndarray) -> np.ndarray:
        if not len(self.redundant_):
            return np.zeros(len(X), bool)
        distance = np.abs(X[:, self.redundant_] - self._combined(X[:, self.columns_]))
        mean, scale = self.mean_[self.redundant_], self.scale_[self.redundant_]
        return np.any(distance > 1e-3 * scale + 1e-6 * np.abs(mean), axis=1)  # 1e-6: the rounding of float32

    def select(self, X: np.ndarray) -> np.ndarray:
        """Return the columns of z, not yet scaled, (n, d) to (n, d_z)."""
        return np.take(X, self.columns_, axis=1) if len(self.redundant_) else X

    def rebuild(self, X: np.ndarray) -> np.ndarray:
        """Return all columns from those that `select` returns, (n, d_z) to (n, d)."""
        full = np.empty((len(X), self.n_features_in_))
        full[:, self.columns_], full[:, self.redundant_] = X, self._combined(X)
        return full

    def _combined(self, X: np.ndarray) -> np.ndarray:
        Z = (X - self.mean_[self.columns_]) / self.scale_[self.columns_]
        return self.mean_[self.redundant_] + self.scale_[self.redundant_] * (Z @ self.coef_.T)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        return super().get_feature_names_out(input_features)[self.columns_]

    def _forward(self, X: np.ndarray, rng: np.random.Generator | None) -> Pair:
        scale = self.scale_[self.columns_]
        return (self.select(X) - self.mean_[self.columns_]) / scale, np.full(len(X), -np.log(scale).sum())

    def _inverse(self, Z: np.ndarray) -> Pair:
        scale = self.scale_[self.columns_]
        return self.rebuild(self.mean_[self.columns_] + scale * Z), np.full(len(Z), -np.log(scale).sum())


def _moments(X: np.ndarray, unit: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return means, standard deviations and correlations. `unit`, the range of each column, prevents overflow."""
    parts = list(chunks(*X.shape))
    mean = unit * (np.sum([(X[part] / unit).sum(axis=0) for part in parts], axis=0) / len(X))
    total, gram = np.zeros(X.shape[1]), np.zeros((X.shape[1], X.shape[1]))
    for part in parts:
        U = (X[part] - mean) / unit
        total += U.sum(axis=0)
        gram += U.T @ U
    shift = total / len(X)  # rounding error of the mean of values far from zero
    covariance = gram / len(X) - np.outer(shift, shift)
    std = np.sqrt(np.diag(covariance).clip(0))
    safe = np.where(std > 0, std, 1.0)
    return mean + unit * shift, unit * std, covariance / np.outer(safe, safe)


def _combinations(R: Matrix, slack: Vector, columns: Vector, n_rows: int) -> tuple[list[int], Coefficients]:
    """Return the columns that add variance, by Cholesky in column order, and the coefficients of others on them."""
    L = np.zeros_like(R)
    basis: list[int] = []
    coefficients: Coefficients = {}
    for j in columns.tolist():
        k = len(basis)
        if n_rows - k <= 6:
            break
        left = R[j, j] - L[j, :k] @ L[j, :k]
        if left > slack[j]:
            L[j:, k] = (R[j:, j] - L[j:, :k] @ L[j, :k]) / np.sqrt(left)
            basis.append(j)
        else:
            coefficients[j] = solve_triangular(L[basis, :k].T, L[j, :k])
    return basis, coefficients
