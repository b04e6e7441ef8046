"""Invertible scalers: x to z with the log-determinant of x → z, and back. They do not change a ratio of densities."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from typing_extensions import Self

from flowratio._support.types import Matrix, TableLike
from flowratio.scaling.curves import Pair


class ScalingWarning(UserWarning):
    """Columns are left out of z, rows contradict the fitted relations between columns, or integers are very small."""


class Scaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator, ABC):
    """An invertible map between data x and scaled data z, in float64.

    `fit`, `transform` and `inverse_transform` check tables and may warn. The other methods take checked arrays.
    """

    n_features_in_: int
    n_features_out_: int
    steps_: Any = ()  # fitted scalers that a scaler consists of

    @property
    def stochastic(self) -> bool:
        """Whether `forward` adds noise if it gets an `rng`."""
        return False

    def fit(self, X: TableLike, y: Any = None) -> Self:
        """Fit to rows of shape (n, d), at least 2. `y` is not used."""
        rows = np.asarray(validate_data(self, cast(Any, X), dtype=(np.float64, np.float32), ensure_min_samples=2))
        names = getattr(self, "feature_names_in_", None)
        self.fit_array(rows, names)
        if message := self.fit_message(names):
            warnings.warn(message, ScalingWarning, stacklevel=2)
        return self

    def fit_array(self, X: Matrix, names: Sequence[str] | None = None) -> Self:
        """Fit to a checked float array of shape (n, d), with names for its columns or without."""
        self.n_features_in_ = self.n_features_out_ = X.shape[1]
        self._fit(X, names)
        return self

    def fit_message(self, names: Sequence[str] | None = None) -> str:
        """Return a warning about the fit, such as columns that are left out, or an empty string."""
        messages = []
        for step in self.steps_:
            messages.append(step.fit_message(names))
            names = None if names is None else step.get_feature_names_out(names).tolist()
        return " ".join(filter(None, messages))

    def off_plane(self, X: Matrix) -> np.ndarray:
        """Return which rows contradict the fitted relations between columns, (n, d) to booleans (n,)."""
        off = np.zeros(len(X), bool)
        for step in self.steps_:
            off |= step.off_plane(X)
            X = step.forward(X)[0]
        return off

    def off_plane_message(self, blocks: Iterable[Matrix]) -> str:
        """Return a warning about rows that contradict the fitted relations between columns, or an empty string."""
        if self.n_features_out_ == self.n_features_in_:
            return ""
        masks = [self.off_plane(block) for block in blocks]
        n_off, n_rows = sum(int(mask.sum()) for mask in masks), sum(map(len, masks))
        columns = "columns that were constant in the fit, or a linear combination of others, have different values"
        advice = "These columns are ignored. Fit on rows of both samples, or drop these columns."
        return f"In {n_off} of {n_rows} rows, {columns}. {advice}" if n_off else ""

    def forward(self, X: Matrix, rng: np.random.Generator | None = None) -> Pair:
        """Map x to z: (n, d) to (n, d_z), and the log-determinant of x → z, of shape (n,)."""
        check_is_fitted(self)
        return self._forward(_checked(X, "X", self.n_features_in_), rng)

    def inverse(self, Z: Matrix) -> Pair:
        """Map z to x: (n, d_z) to (n, d), and the log-determinant of x → z (not of z → x), of shape (n,)."""
        check_is_fitted(self)
        return self._inverse(_checked(Z, "Z", self.n_features_out_))

    def transform(self, X: TableLike) -> Matrix:
        """Map x to z, (n, d) to (n, d_z), without noise."""
        check_is_fitted(self)
        rows = np.asarray(validate_data(self, cast(Any, X), dtype=np.float64, reset=False))
        if message := self.off_plane_message([rows]):
            warnings.warn(message, ScalingWarning, stacklevel=2)
        return self.forward(rows)[0]

    def inverse_transform(self, Z: TableLike) -> Matrix:
        """Map z to x, (n, d_z) to (n, d)."""
        return self.inverse(np.asarray(check_array(Z)))[0]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns of z, of shape (d_z,)."""
        names = np.asarray(super().get_feature_names_out(input_features))
        for step in self.steps_:
            names = step.get_feature_names_out(names)
        return names

    @abstractmethod
    def _fit(self, X: Matrix, names: Sequence[str] | None) -> None: ...

    @abstractmethod
    def _forward(self, X: Matrix, rng: np.random.Generator | None) -> Pair: ...

    @abstractmethod
    def _inverse(self, Z: Matrix) -> Pair: ...


def _checked(X: Matrix, name: str, n_features: int) -> Matrix:
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != n_features:
        raise ValueError(f"`{name}` has shape {X.shape}. Use rows with {n_features} columns.")
    return X
