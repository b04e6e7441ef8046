r"""Invertible scalers between data and what a flow likes: z, and the log-determinant of x → z.

With a density of z, that of x is

.. math:: \log p(x) = \log p_Z(z(x)) + \log\left|\det \partial z / \partial x\right|

so that a scaler changes no ratio of densities.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import expit
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from flowratio.curves import SMALLEST, Curve, Pair, fit_curve, straight_curve

if TYPE_CHECKING:
    from typing_extensions import Self

_LARGEST = 1e300  # sums of values above it overflow
_MAX_ROWS = 200_000  # rows that the curves of a Gaussianizer are fitted to


class ScalingWarning(UserWarning):
    """Columns are left out of z, rows contradict the relations that rebuild these, or most levels are not used."""


_SILENT: ContextVar[bool] = ContextVar("silent", default=False)


@contextmanager
def silent_scaling() -> Iterator[None]:
    """Give no warning of columns that others tell inside, in this thread: a ratio does not need them."""
    before = _SILENT.set(True)
    try:
        yield
    finally:
        _SILENT.reset(before)


class Scaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator, ABC):
    """An invertible map between data x and scaled data z, in float64.

    `fit`, `transform` and `inverse_transform` take arrays and data frames as scikit-learn does. `forward` and `inverse`
    take arrays, check only their columns, and add the log-determinant, always that of x → z.
    """

    n_features_in_: int
    n_features_out_: int

    @property
    def stochastic(self) -> bool:
        """Whether `forward` adds noise when it is given an `rng`."""
        return False

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to rows of shape (n, d), at least 2; `y` is not used."""
        X = validate_data(self, X, dtype=(np.float64, np.float32), ensure_min_samples=2)
        return self.fit_array(X, getattr(self, "feature_names_in_", None))

    def fit_array(self, X: np.ndarray, names: Sequence[str] | None = None) -> Self:
        """Fit to a checked float array of shape (n, d), whose columns may have names."""
        self.n_features_in_ = self.n_features_out_ = X.shape[1]
        self._fit(X, names)
        return self

    def forward(self, X: np.ndarray, rng: np.random.Generator | None = None) -> Pair:
        """Map x to z: (n, d) to (n, d_z), and the log-determinant of x → z, of shape (n,)."""
        check_is_fitted(self)
        return self._forward(_checked(X, "X", self.n_features_in_), rng)

    def inverse(self, Z: np.ndarray) -> Pair:
        """Map z to x: (n, d_z) to (n, d), and the log-determinant of x → z (not of z → x), of shape (n,)."""
        check_is_fitted(self)
        return self._inverse(_checked(Z, "Z", self.n_features_out_))

    def transform(self, X: Any) -> np.ndarray:
        """Map x to z, (n, d) to (n, d_z), without noise."""
        check_is_fitted(self)
        return self.forward(np.asarray(validate_data(self, X, dtype=np.float64, reset=False)))[0]

    def inverse_transform(self, Z: Any) -> np.ndarray:
        """Map z to x, (n, d_z) to (n, d)."""
        return self.inverse(np.asarray(check_array(Z)))[0]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns of z, of shape (d_z,)."""
        return self._names_out(np.asarray(super().get_feature_names_out(input_features)))

    def _names_out(self, names: np.ndarray) -> np.ndarray:
        return names

    @abstractmethod
    def _fit(self, X: np.ndarray, names: Sequence[str] | None) -> None: ...

    @abstractmethod
    def _forward(self, X: np.ndarray, rng: np.random.Generator | None) -> Pair: ...

    @abstractmethod
    def _inverse(self, Z: np.ndarray) -> Pair: ...


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


class Gaussianizer(Scaler):
    r"""Bring each column to a normal shape by a smooth, strictly increasing curve.

    The `Standardizer` says which columns are kept. Each of them goes through a curve of its own, a monotone spline
    between quantiles with tails that extrapolate: `flowratio.curves` has the formulas.

    Parameters
    ----------
    n_knots
        Largest number of knots of a curve, at least 2; by default n^0.4, within 5 and 64.
    sparing
        Whether a column is only standardized where a curve would tell no more than chance: where the log-likelihood of
        its rows gains less than ½ log n for each knot on a normal density [1]_.

    References
    ----------
    .. [1] Schwarz (1978). *Estimating the dimension of a model.*

    Examples
    --------
    >>> x = np.exp(np.linspace(-2, 2, 101)).reshape(-1, 1)
    >>> Z = Gaussianizer().fit_transform(x)
    >>> bool(abs(np.mean(Z**3)) < 0.05 < np.mean((x - x.mean()) ** 3) / x.std() ** 3)
    True
    """

    def __init__(self, n_knots: int | None = None, *, sparing: bool = False) -> None:
        self.n_knots = n_knots
        self.sparing = sparing

    def _fit(self, X: np.ndarray, names: Sequence[str] | None) -> None:
        if self.n_knots is not None and self.n_knots < 2:
            raise ValueError(f"`n_knots` is {self.n_knots}: a curve needs at least 2 knots.")
        standardizer = Standardizer().fit_array(X, names)
        n = min(len(X), _MAX_ROWS)
        n_knots = self.n_knots or int(np.clip(n**0.4, 5, 64))
        rows: Any = slice(None)
        if n < len(X):
            rows = np.sort(np.random.default_rng(0).choice(len(X), n, replace=False))
        curves = []
        for j in standardizer.kept_:
            column = X[:, j]
            x = np.concatenate([column[rows], [column.min(), column.max()]]) if n < len(X) else column
            x = x.astype(np.float64)
            curve, line = fit_curve(x, n_knots), straight_curve(standardizer.mean_[j], standardizer.scale_[j])
            gain = curve.log_likelihood(x) - line.log_likelihood(x) if self.sparing else np.inf
            curves.append(curve if gain > 0.5 * len(curve.x) * np.log(len(x)) else line)
        self.steps_ = [standardizer]
        self.n_features_out_ = len(curves)
        self.knots_x_, self.knots_t_, self.slopes_ = (np.concatenate([curve[k] for curve in curves]) for k in range(3))
        self.rates_ = np.stack([curve.rates for curve in curves])
        self.ends_ = np.cumsum([len(curve.x) for curve in curves])

    def _names_out(self, names: np.ndarray) -> np.ndarray:
        return names[self.steps_[0].kept_]

    def _forward(self, X: np.ndarray, rng: np.random.Generator | None) -> Pair:
        return self._map(self.steps_[0].select(X), Curve.forward)

    def _inverse(self, Z: np.ndarray) -> Pair:
        kept, log_det = self._map(Z, Curve.inverse)
        return self.steps_[0].rebuild(kept), log_det

    def _map(self, A: np.ndarray, through: Callable[[Curve, np.ndarray], Pair]) -> Pair:
        """Send each column through its curve, in spans of rows that stay in the cache."""
        parts = [np.split(knots, self.ends_[:-1]) for knots in (self.knots_x_, self.knots_t_, self.slopes_)]
        curves = [Curve(*parts) for parts in zip(*parts, self.rates_, strict=True)]
        B, log_det = np.empty_like(A), np.zeros(len(A))
        for start in range(0, len(A), 2**14):
            span = slice(start, start + 2**14)
            for j, curve in enumerate(curves):
                B[span, j], log_slope = through(curve, A[span, j])
                log_det[span] += log_slope
        return B, log_det


class Whitener(Scaler):
    r"""Remove the correlations of the columns, in their order: z = L⁻¹ (x − m), with L triangular.

    .. math:: L L^\top = D\,((1 - \lambda) R + \lambda I)\,D, \qquad \log|\det| = -\sum_j \log L_{jj}

    R holds the correlations and D the standard deviations. λ is the share of the off-diagonal sum of squares of R that
    is owed to chance, :math:`\sum_{i \ne j} (1 - R_{ij}^2)^2 / n` of it [1]_: a few rows do not make correlations.

    Attributes
    ----------
    mean_
        Means, of shape (d,).
    mixing_, unmixing_
        L and its inverse, of shape (d, d).

    References
    ----------
    .. [1] Schäfer, Strimmer (2005). *A shrinkage approach to large-scale covariance matrix estimation.*

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(1000, 1))
    >>> Z = Whitener().fit_transform(np.hstack([x, x + 0.1 * rng.normal(size=(1000, 1))]))
    >>> bool(abs(np.corrcoef(Z, rowvar=False)[0, 1]) < 0.01)
    True
    """

    def _fit(self, X: np.ndarray, names: Sequence[str] | None) -> None:
        del names
        n, d = X.shape
        self.mean_ = X.mean(axis=0, dtype=np.float64)
        centred = X - self.mean_
        scale = np.sqrt(np.mean(centred**2, axis=0))
        if not scale.all():
            raise ValueError("`X` has a constant column: standardize first, which leaves it out.")
        R = centred.T @ centred / n / np.outer(scale, scale)
        off = ~np.eye(d, dtype=bool)
        chance = np.sum((1 - R[off] ** 2) ** 2) / n
        share = min(1.0, max(chance / max(np.sum(R[off] ** 2), 1e-300), 1e-9))  # never singular
        self.mixing_ = np.linalg.cholesky((1 - share) * R + share * np.eye(d)) * scale[:, None]
        self.unmixing_ = solve_triangular(self.mixing_, np.eye(d), lower=True)

    def _forward(self, X: np.ndarray, rng: np.random.Generator | None) -> Pair:
        return (X - self.mean_) @ self.unmixing_.T, self._log_det(len(X))

    def _inverse(self, Z: np.ndarray) -> Pair:
        return Z @ self.mixing_.T + self.mean_, self._log_det(len(Z))

    def _log_det(self, n: int) -> np.ndarray:
        return np.full(n, -np.log(np.diag(self.mixing_)).sum())


class Dequantizer(Scaler):
    r"""Spread whole numbers over unit intervals: z = (x + u) / levels, with u uniform on [0, 1).

    Without an `rng`, u is ½, and each row is mapped by itself.

    Parameters
    ----------
    levels
        Number of values: x is 0, 1, …, levels - 1. A warning is given where the largest is below a quarter of this.

    Examples
    --------
    >>> Dequantizer(levels=4).fit_transform([[0, 3], [2, 1]]).tolist()
    [[0.125, 0.875], [0.625, 0.375]]
    """

    def __init__(self, levels: int = 256) -> None:
        self.levels = levels

    @property
    def stochastic(self) -> bool:
        return True

    def _fit(self, X: np.ndarray, names: Sequence[str] | None) -> None:
        if self.levels < 2:
            raise ValueError(f"`levels` is {self.levels}: there must be at least 2.")
        self._check(X)
        top = int(X.max(initial=0))
        if 0 < top < self.levels // 4:
            warnings.warn(
                f"No value is above {top}, where {self.levels - 1} could be: if {top} is the largest that there is, "
                "rows that are made may be above it. In the place of 'image', give "
                f"scaling=ScalerChain([Dequantizer(levels={top + 1}), Logit(), Standardizer()]).",
                ScalingWarning,
                stacklevel=2,
            )

    def _check(self, X: np.ndarray) -> None:
        top = self.levels - 1
        rule = (
            f"must be whole numbers from 0 to {top}. Multiply images in [0, 1] by {top} and round, or change `levels`."
        )
        _check_values(X, (X >= 0) & (top >= X) & (np.floor(X) == X), rule)

    def _forward(self, X: np.ndarray, rng: np.random.Generator | None) -> Pair:
        self._check(X)
        noise = 0.5 if rng is None else rng.random(X.shape)
        return (X + noise) / self.levels, np.full(len(X), -X.shape[1] * np.log(self.levels))

    def _inverse(self, Z: np.ndarray) -> Pair:
        X = np.floor(Z * self.levels).clip(0, self.levels - 1)
        return X, np.full(len(Z), -Z.shape[1] * np.log(self.levels))


class Logit(Scaler):
    r"""Open the interval [0, 1] to the real line.

    .. math:: z = \log \frac{y}{1 - y}, \qquad y = \lambda + (1 - 2\lambda) x

    Values of z that no x reaches are brought back to 0 or 1.

    Parameters
    ----------
    lam
        λ, above 0 and below ½: keeps z finite at 0 and 1.

    Examples
    --------
    >>> Logit(lam=0.1).fit([[0.0], [1.0]]).transform([[0.5]]).tolist()
    [[0.0]]
    """

    def __init__(self, lam: float = 1e-6) -> None:
        self.lam = lam

    def _fit(self, X: np.ndarray, names: Sequence[str] | None) -> None:
        if not 0 < self.lam < 0.5:
            raise ValueError(f"`lam` is {self.lam}: it must be above 0 and below 0.5.")
        self._check(X)

    def _check(self, X: np.ndarray) -> None:
        rule = "must be from 0 to 1. Divide by the largest possible value, or put a `Dequantizer` before."
        _check_values(X, (X >= 0) & (X <= 1), rule)

    def _forward(self, X: np.ndarray, rng: np.random.Generator | None) -> Pair:
        self._check(X)
        width = 1 - 2 * self.lam
        log_y, log_rest = np.log(self.lam + width * X), np.log(self.lam + width * (1 - X))
        return log_y - log_rest, X.shape[1] * np.log(width) - (log_y + log_rest).sum(axis=1)

    def _inverse(self, Z: np.ndarray) -> Pair:
        width = 1 - 2 * self.lam
        log_det = Z.shape[1] * np.log(width) + (np.logaddexp(0, Z) + np.logaddexp(0, -Z)).sum(axis=1)
        return ((expit(Z) - self.lam) / width).clip(0, 1), log_det


class ScalerChain(Scaler):
    """One scaler after the other; log-determinants add up. No scaler at all is the identity.

    `fit` gives the steps after a `Dequantizer` noised rows, so that a pixel which is always black still varies.

    Parameters
    ----------
    steps
        Scalers, the first to act first. They are cloned.

    Examples
    --------
    >>> images = ScalerChain([Dequantizer(), Logit(), Standardizer()]).fit([[0, 255], [128, 7], [255, 0]])
    >>> images.inverse_transform(images.transform([[3, 200]])).tolist()
    [[3.0, 200.0]]
    """

    def __init__(self, steps: Sequence[Scaler]) -> None:
        self.steps = steps

    @property
    def stochastic(self) -> bool:
        return any(step.stochastic for step in self.steps)

    def _names_out(self, names: np.ndarray) -> np.ndarray:
        for step in self.steps_:
            names = step.get_feature_names_out(names)
        return names

    def _fit(self, X: np.ndarray, names: Sequence[str] | None) -> None:
        if not all(isinstance(step, Scaler) for step in self.steps):
            raise ValueError(f"`steps` is {self.steps!r}: it must be a list of scalers of `flowratio.scaling`.")
        self.steps_: list[Scaler] = []
        rng = np.random.default_rng(0)
        for step in self.steps:
            X = self.steps_[-1].forward(X, rng)[0] if self.steps_ else X
            fitted: Any = clone(step)
            self.steps_.append(fitted.fit_array(X, names))
            names = None if names is None else fitted.get_feature_names_out(names).tolist()
            self.n_features_out_ = fitted.n_features_out_

    def _forward(self, X: np.ndarray, rng: np.random.Generator | None) -> Pair:
        log_det = np.zeros(len(X))
        for step in self.steps_:
            X, part = step.forward(X, rng)
            log_det += part
        return X, log_det

    def _inverse(self, Z: np.ndarray) -> Pair:
        log_det = np.zeros(len(Z))
        for step in reversed(self.steps_):
            Z, part = step.inverse(Z)
            log_det += part
        return Z, log_det


def _checked(X: np.ndarray, name: str, n_features: int) -> np.ndarray:
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != n_features:
        raise ValueError(f"`{name}` has shape {X.shape}: this scaler takes rows of {n_features} columns.")
    return X


def _check_values(X: np.ndarray, good: np.ndarray, rule: str) -> None:
    if not good.all():
        i, j = np.unravel_index(np.argmin(good), X.shape)
        raise ValueError(f"`X` holds {X[i, j]} (row {i}, column {j}, counted from 0): values {rule}")
