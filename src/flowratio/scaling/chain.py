"""Several scalers, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from flowratio.scaling.curves import Pair

if TYPE_CHECKING:
    pass
from flowratio.scaling.base import Scaler


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
            raise ValueError(f"`steps` is {self.steps!r}: it must be a list of scalers of `flowratio.scaling.base`.")
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
