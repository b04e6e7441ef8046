"""Center and scale each column, without the columns that others determine."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve_triangular

from flowratio.scaling.curves import SMALLEST, Pair

if TYPE_CHECKING:
    pass
from flowratio.scaling.base import _SILENT, Scaler, ScalingWarning

_LARGEST = 1e300  # sums of values above it overflow


class Standardizer(Scaler):
    r"""Centre and scale each column; leave out the columns that the others tell exactly.

    .. math:: z_j = (x_j - m_j) / s_j, \qquad \log|\det| = -\sum_j \log s_j

    over the kept columns. A column that is constant, or a linear combination of earlier columns, up to rounding, has no
    density of its own: it is left out of z and rebuilt by `inverse`, and a `ScalingWarning` says so. The
    log-determinant, and the density that follows from it, is then with respect to the kept columns. Combinations are
    looked for while rows outnumber kept columns by more than six: fewer rows fit one by chance.

    Attributes
    ----------
    mean_, scale_
        Mean and standard deviation of every column, of shape (d,); 0 is the deviation of constants.
    kept_, dropped_
        Positions of the columns in z, of shape (d_z,), and of those left out.
    coef_
        Coefficients of the standardized left-out columns on z, of shape (d - d_z, d_z); zero for constants.

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
            raise ValueError(f"`X` holds values of size {size.max():.1e}: the limit is {_LARGEST}. Change the units.")
        constant = high - low <= np.maximum(8 * eps * size, 2 * SMALLEST)
        if constant.all():
            raise ValueError("Every column of `X` is constant: there is no density. Give at least one that varies.")
        self.mean_, self.scale_, correlation = _moments(X, np.where(constant, 1.0, high - low))
        self.scale_[constant] = 0.0
        slack = np.maximum(1e-10, (4 * eps * size / np.where(constant, 1.0, self.scale_)) ** 2)
        basis, found = _combinations(correlation, slack, np.flatnonzero(~constant), len(X))
        found = _confirmed(X, self.mean_, self.scale_, basis, found) if found else found
        self.dropped_ = np.array(sorted([*np.flatnonzero(constant), *found]), dtype=np.int64)
        self.kept_ = np.setdiff1d(np.arange(X.shape[1]), self.dropped_)
        self.n_features_out_ = len(self.kept_)
        self.coef_ = np.zeros((len(self.dropped_), len(self.kept_)))
        for j, b in found.items():
            self.coef_[np.searchsorted(self.dropped_, j), np.searchsorted(self.kept_, basis[: len(b)])] = b
        if len(self.dropped_) and not _SILENT.get():
            warnings.warn(self._left_out(names), ScalingWarning, stacklevel=2)

    def _left_out(self, names: Sequence[str] | None) -> str:
        label = [f"column {j}" if names is None else repr(str(names[j])) for j in range(self.n_features_in_)]
        said = []
        for j, coef in zip(self.dropped_[:8], self.coef_, strict=False):
            terms = [label[self.kept_[k]] for k in np.flatnonzero(np.abs(coef) > 1e-6)]
            terms = terms if len(terms) <= 8 else [*terms[:7], f"{len(terms) - 7} more"]
            said.append(f"{label[j]} ({'a linear combination of ' + ', '.join(terms) if terms else 'constant'})")
        more = [f"and {len(self.dropped_) - 8} more"] * (len(self.dropped_) > 8)
        return (
            f"Left out of z ({len(self.dropped_)} of {self.n_features_in_} columns), to be rebuilt by `inverse`: "
            f"{'; '.join(said + more)}. Densities are with respect to the other columns."
        )

    def select(self, X: np.ndarray) -> np.ndarray:
        """Return the kept columns, (n, d) to (n, d_z), and warn of rows off the plane that the others must lie in."""
        if not len(self.dropped_):
            return X
        kept = np.take(X, self.kept_, axis=1)
        if _SILENT.get():
            return kept
        distance = np.abs(X[:, self.dropped_] - self._combined(kept))
        allowed = 1e-3 * self.scale_[self.dropped_] + 1e-6 * np.abs(
            self.mean_[self.dropped_]
        )  # the rounding of float32
        n_off = np.count_nonzero((distance > allowed).any(axis=1))
        if n_off:
            warnings.warn(
                f"{n_off} of {len(X)} rows lie off the plane of the fitted rows: their columns that are constant or "
                "linear combinations there are ignored. Fit on rows of both samples, or drop these columns.",
                ScalingWarning,
                stacklevel=2,
            )
        return kept

    def rebuild(self, kept: np.ndarray) -> np.ndarray:
        """Return all columns from the kept ones, (n, d_z) to (n, d)."""
        X = np.empty((len(kept), self.n_features_in_))
        X[:, self.kept_], X[:, self.dropped_] = kept, self._combined(kept)
        return X

    def _combined(self, kept: np.ndarray) -> np.ndarray:
        Z = (kept - self.mean_[self.kept_]) / self.scale_[self.kept_]
        return self.mean_[self.dropped_] + self.scale_[self.dropped_] * (Z @ self.coef_.T)

    def _names_out(self, names: np.ndarray) -> np.ndarray:
        return names[self.kept_]

    def _forward(self, X: np.ndarray, rng: np.random.Generator | None) -> Pair:
        Z = (self.select(X) - self.mean_[self.kept_]) / self.scale_[self.kept_]
        return Z, np.full(len(X), -np.log(self.scale_[self.kept_]).sum())

    def _inverse(self, Z: np.ndarray) -> Pair:
        kept = self.mean_[self.kept_] + self.scale_[self.kept_] * Z
        return self.rebuild(kept), np.full(len(Z), -np.log(self.scale_[self.kept_]).sum())


def _chunks(X: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the rows in float64, about a million numbers at a time."""
    size = max(1, 2**20 // X.shape[1])
    return (X[start : start + size].astype(np.float64, copy=False) for start in range(0, len(X), size))


def _moments(X: np.ndarray, unit: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return means, standard deviations and correlations; `unit` is the range of each column, against overflow."""
    mean = unit * (np.sum([(rows / unit).sum(axis=0) for rows in _chunks(X)], axis=0) / len(X))
    total, gram = np.zeros(X.shape[1]), np.zeros((X.shape[1], X.shape[1]))
    for rows in _chunks(X):
        U = (rows - mean) / unit
        total += U.sum(axis=0)
        gram += U.T @ U
    shift = total / len(X)  # what rounding took from the mean of values far from zero
    covariance = gram / len(X) - np.outer(shift, shift)
    std = np.sqrt(np.diag(covariance).clip(0))
    safe = np.where(std > 0, std, 1.0)
    return mean + unit * shift, unit * std, covariance / np.outer(safe, safe)


def _combinations(
    correlation: np.ndarray, slack: np.ndarray, columns: np.ndarray, n_rows: int
) -> tuple[list[int], dict[int, np.ndarray]]:
    """Walk a Cholesky factorization in column order; a column that adds no variance depends on those before it.

    Returns the columns that add variance, and the coefficients of each other column on the first of them.
    """
    L = np.zeros_like(correlation)
    basis: list[int] = []
    found: dict[int, np.ndarray] = {}
    for j in columns.tolist():
        k = len(basis)
        if n_rows - k <= 6:
            break
        left = correlation[j, j] - L[j, :k] @ L[j, :k]
        if left > slack[j]:
            L[j:, k] = (correlation[j:, j] - L[j:, :k] @ L[j, :k]) / np.sqrt(left)
            basis.append(j)
        else:
            found[j] = solve_triangular(L[basis, :k].T, L[j, :k])
    return basis, found


def _confirmed(
    X: np.ndarray, mean: np.ndarray, scale: np.ndarray, basis: list[int], found: dict[int, np.ndarray]
) -> dict[int, np.ndarray]:
    """Return the combinations that hold within rounding on every row."""
    columns = list(found)
    B = np.zeros((len(basis), len(columns)))
    for k, b in enumerate(found.values()):
        B[: len(b), k] = b
    some = X[:: max(1, len(X) // 4096), columns].astype(np.float64)
    middle = np.subtract(*np.quantile(some, [0.75, 0.25], axis=0))
    # a few huge values must not hide what the other rows say: the unit is the width of the middle half
    tolerance = 1e-6 * np.where(middle > 0, np.minimum(middle, scale[columns]), scale[columns])
    worst = np.full(len(columns), -np.inf)
    for rows in _chunks(X):
        rebuilt = mean[columns] + scale[columns] * ((rows[:, basis] - mean[basis]) / scale[basis] @ B)
        size = np.abs(rows[:, columns]) + scale[columns] * (np.abs(rows[:, basis]) / scale[basis] @ np.abs(B))
        error = np.abs(rows[:, columns] - rebuilt) - 2 * np.finfo(X.dtype).eps * size
        worst = np.maximum(worst, error.max(axis=0))
    return {j: b for (j, b), fits in zip(found.items(), worst <= tolerance, strict=True) if fits}
