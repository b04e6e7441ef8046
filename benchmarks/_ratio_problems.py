"""The problems that the ratios are measured on, with known log r, and our ratios by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from _peers import Fit, Score

import flowratio

N_HELD_OUT = 2_000


@dataclass(frozen=True)
class Shift:
    """q = N(0, I) and p = N(shift · 1, I) in d dimensions. KL(p ‖ q) is d · shift² / 2."""

    d: int
    shift: float

    def draw(self, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw n rows of p and n of q."""
        rng = np.random.default_rng(seed)
        return self.shift + rng.standard_normal((n, self.d)), rng.standard_normal((n, self.d))

    def held_out(self, seed: int) -> np.ndarray:
        """Draw other rows of q."""
        return np.random.default_rng([seed, 1]).standard_normal((N_HELD_OUT, self.d))

    def log_r(self, X: np.ndarray) -> np.ndarray:
        return self.shift * X.sum(axis=1) - self.d * self.shift**2 / 2

    def error(self, score: Score, X: np.ndarray) -> float:
        """Return the mean squared error of log r on rows."""
        return float(np.mean((score(X) - self.log_r(X)) ** 2))


PROBLEMS = {
    "d=2, KL 1": Shift(2, 1.0),
    "d=10, KL 5": Shift(10, 1.0),
    "d=10, KL 1": Shift(10, math.sqrt(0.2)),
    "Fig. 2": Shift(2, 3.0),  # the paper's: N(0, I) and N([3, 3], I)
}

OURS: dict[str, Callable[[int], flowratio.RatioEstimator]] = {
    "KMM": lambda seed: flowratio.KMM(random_state=seed),
    "KLIEP": lambda seed: flowratio.KLIEP(random_state=seed),
    "ULSIF": lambda seed: flowratio.ULSIF(random_state=seed),
    "RULSIF": lambda seed: flowratio.RULSIF(random_state=seed),
    'ClassifierRatio("lda")': lambda seed: flowratio.ClassifierRatio("lda", random_state=seed),
    'ClassifierRatio("qda")': lambda seed: flowratio.ClassifierRatio("qda", random_state=seed),
    'ClassifierRatio("additive")': lambda seed: flowratio.ClassifierRatio("additive", random_state=seed),
    'ClassifierRatio("logistic")': lambda seed: flowratio.ClassifierRatio("logistic", random_state=seed),
    'ClassifierRatio("quadratic")': lambda seed: flowratio.ClassifierRatio("quadratic", random_state=seed),
    'ClassifierRatio("boosting")': lambda seed: flowratio.ClassifierRatio("boosting", random_state=seed),
    'NetworkRatio("mlp")': lambda seed: flowratio.NetworkRatio("mlp", random_state=seed),
    "FlowDifferenceRatio": lambda seed: flowratio.FlowDifferenceRatio(random_state=seed),
    "TelescopingRatio": lambda seed: flowratio.TelescopingRatio(random_state=seed),
}


def ours(name: str) -> Fit:
    """Return one of our ratios, with its defaults, in the form of a peer."""
    return lambda X_p, X_q, seed: OURS[name](seed).fit_samples(X_p, X_q).log_ratio
