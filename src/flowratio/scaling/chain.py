"""Several scalers, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from sklearn.base import clone

from flowratio.scaling.base import Scaler
from flowratio.scaling.curves import Pair


class ScalerChain(Scaler):
    """Apply several scalers, one after the other. Their log-determinants add up. An empty chain is the identity.

    `steps` are the scalers, in the order in which they act. `fit` clones them. The step after a `Dequantizer` is fitted
    to its noisy rows, so that a pixel that is always black still varies.

    Examples
    --------
    >>> from flowratio.scaling import Dequantizer, Logit, Standardizer
    >>> images = ScalerChain([Dequantizer(), Logit(), Standardizer()]).fit([[0, 255], [128, 7], [255, 0]])
    >>> images.inverse_transform(images.transform([[3, 200]])).tolist()
    [[3.0, 200.0]]
    """

    def __init__(self, steps: Sequence[Scaler]) -> None:
        self.steps = steps

    @property
    def stochastic(self) -> bool:
        return any(step.stochastic for step in self.steps)

    def _fit(self, X: np.ndarray, names: Sequence[str] | None) -> None:
        if not all(isinstance(step, Scaler) for step in self.steps):
            raise ValueError(f"`steps` is {self.steps!r}. Use a list of scalers, such as [Logit(), Standardizer()].")
        steps: list[Scaler] = []
        rng = np.random.default_rng(0)
        for step in self.steps:
            X = steps[-1].forward(X, rng)[0] if steps else X
            steps.append(cast(Scaler, clone(step)).fit_array(X, names))
            names = None if names is None else steps[-1].get_feature_names_out(names).tolist()
            self.n_features_out_ = steps[-1].n_features_out_
        self.steps_ = steps

    def _forward(self, X: np.ndarray, rng: np.random.Generator | None) -> Pair:
        log_det = np.zeros(len(X))
        for step in self.steps_:
            X, term = step.forward(X, rng)
            log_det += term
        return X, log_det

    def _inverse(self, Z: np.ndarray) -> Pair:
        log_det = np.zeros(len(Z))
        for step in reversed(self.steps_):
            Z, term = step.inverse(Z)
            log_det += term
        return Z, log_det
