"""Scalers for images: integers to intervals, and intervals to the real line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from flowratio.scaling.base import Scaler
from flowratio.scaling.curves import Pair


class Dequantizer(Scaler):
    """Spread integers over unit intervals: z = (x + u) / levels, with u uniform on [0, 1), or ½ without an `rng`.

    x is 0, 1, …, `levels` - 1. `fit` warns if the largest value is below a quarter of `levels`.

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
            raise ValueError(f"`levels` is {self.levels}. Use an integer of 2 or more.")
        self._check(X)
        self.largest_ = int(X.max(initial=0))

    def fit_message(self, names: Sequence[str] | None = None) -> str:
        what = f"The largest value is {self.largest_}, but {self.levels - 1} is possible. Sampled rows may exceed it."
        chain = f"ScalerChain([Dequantizer(levels={self.largest_ + 1}), Logit(), Standardizer()])"
        is_low = 0 < self.largest_ < self.levels // 4
        return f"{what} If {self.largest_} is the maximum, use scaling={chain} instead of 'image'." if is_low else ""

    def _check(self, X: np.ndarray) -> None:
        top = self.levels - 1
        rule = f"integers from 0 to {top}. Multiply images in [0, 1] by {top} and round, or change `levels`."
        _check_values(X, (X >= 0) & (top >= X) & (np.floor(X) == X), rule)

    def _forward(self, X: np.ndarray, rng: np.random.Generator | None) -> Pair:
        self._check(X)
        noise = 0.5 if rng is None else rng.random(X.shape)
        return (X + noise) / self.levels, np.full(len(X), -X.shape[1] * np.log(self.levels))

    def _inverse(self, Z: np.ndarray) -> Pair:
        X = np.floor(Z * self.levels).clip(0, self.levels - 1)
        return X, np.full(len(Z), -Z.shape[1] * np.log(self.levels))


class Logit(Scaler):
    r"""Map the interval [0, 1] to the real line by the logit. `inverse` maps values of z outside the range to 0 or 1.

    .. math:: z = \log \frac{y}{1 - y}, \qquad y = \lambda + (1 - 2\lambda) x

    `lam` is λ, above 0 and below ½, which makes z finite at 0 and 1.

    Examples
    --------
    >>> Logit(lam=0.1).fit([[0.0], [1.0]]).transform([[0.5]]).tolist()
    [[0.0]]
    """

    def __init__(self, lam: float = 1e-6) -> None:
        self.lam = lam

    def _fit(self, X: np.ndarray, names: Sequence[str] | None) -> None:
        if not 0 < self.lam < 0.5:
            raise ValueError(f"`lam` is {self.lam}. Use a number above 0 and below 0.5.")
        self._check(X)

    def _check(self, X: np.ndarray) -> None:
        rule = "numbers from 0 to 1. Divide by the largest possible value, or use a `Dequantizer` first."
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


def _check_values(X: np.ndarray, good: np.ndarray, rule: str) -> None:
    if not good.all():
        i, j = np.unravel_index(np.argmin(good), X.shape)
        raise ValueError(f"`X` holds {X[i, j]} (row {i}, column {j}, counted from 0). Use {rule}")
