r"""Invertible scalers between data and what a flow likes: z, and the log-determinant of x → z.

With a density of z, that of x is

.. math:: \log p(x) = \log p_Z(z(x)) + \log\left|\det \partial z / \partial x\right|

so that a scaler changes no ratio of densities.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from flowratio.scaling.curves import Pair

if TYPE_CHECKING:
    from typing_extensions import Self


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


def _checked(X: np.ndarray, name: str, n_features: int) -> np.ndarray:
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != n_features:
        raise ValueError(f"`{name}` has shape {X.shape}: this scaler takes rows of {n_features} columns.")
    return X
