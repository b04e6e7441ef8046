"""How much of many estimates is sampling noise, if the true values of some of them are 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from flowratio._support.types import Vector

_TINY = 1e-16  # least noise
_N_SPREADS, _EM_STEPS = 24, 30
_RAREST = 1e-6  # share of entries
_MAX_ENTRIES = 1 << 15  # entries that decide about the spread. More take seconds and change little


@dataclass(frozen=True)
class Noisy:
    """Values (m,) and the squares of their standard errors, (m,)."""

    value: np.ndarray
    noise: np.ndarray

    def minus(self, other: Noisy) -> Noisy:
        """Return the differences."""
        return Noisy(self.value - other.value, self.noise + other.noise)

    def share_of_noise(self, other: Noisy) -> np.ndarray:
        """Return the share of the noise of a difference that comes from the first."""
        return self.noise / np.maximum(self.noise + other.noise, _TINY)

    def moved_to(self, other: Noisy, share: np.ndarray | float) -> Noisy:
        """Return the values after a share of the way to another."""
        value = self.value + share * (other.value - self.value)
        return Noisy(value, (1 - share) ** 2 * self.noise + share**2 * other.noise)


def expected_noise_shares(entries: Noisy) -> np.ndarray:
    """Return the expected share of noise of each entry, if some are noise only. A grid and EM maximize likelihood."""
    shares, nonzero = np.ones_like(entries.value), entries.value != 0  # entries of constant columns are 0
    if not nonzero.any():
        return shares
    squares, noise = np.square(entries.value[nonzero]), np.maximum(entries.noise[nonzero], _TINY)
    least, most = 0.02 * float(np.median(noise)), 2 * float(squares.max())
    spreads = np.geomspace(least, max(most, 2 * least), _N_SPREADS)[:, None]  # variances
    some, counts = _representatives(squares / noise)
    signal, gain = _gains(squares[some], noise[some], spreads)
    zero = log_odds = np.full_like(spreads, 0.5)  # share of entries whose true value is 0
    n = float(counts.sum())
    for _ in range(_EM_STEPS):
        log_odds = np.log(1 / zero - 1)
        alive = expit(log_odds + gain)
        # as if one more entry were not 0, because few entries carry little information
        zero = np.maximum(((1 - alive) * counts).sum(axis=1, keepdims=True) / (n + 1), _RAREST)
    likelihood = (np.logaddexp(np.log(zero), np.log1p(-zero) + gain) * counts).sum(axis=1) + np.log1p(-zero[:, 0])
    best = int(likelihood.argmax())
    signal, gain = _gains(squares, noise, spreads[best])
    shares[nonzero] = 1 - expit(log_odds[best] + gain) * signal
    return shares


def _gains(squares: Vector, noise: Vector, spreads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of each entry that is not noise, and the log-likelihood ratio of a true value other than 0."""
    signal = spreads / (noise + spreads)  # (k, m)
    return signal, 0.5 * (np.log1p(-np.minimum(signal, 1 - 1e-8)) + signal * squares / noise)


def _representatives(strength: Vector) -> tuple[Vector, Vector]:
    """Return positions of entries, and the number of entries that each stands for: (m,) to (k,) and (k,).

    If there are many entries, these are the strongest ones, which may be rare, and an even sample of the others.
    """
    m = len(strength)
    if m <= _MAX_ENTRIES:
        return np.arange(m), np.ones(m)
    order = np.argsort(-strength, kind="stable")
    strong, rest = order[: _MAX_ENTRIES // 2], order[_MAX_ENTRIES // 2 :]
    some = rest[np.linspace(0, len(rest) - 1, _MAX_ENTRIES // 2).astype(np.int64)]
    counts = np.concatenate([np.ones(len(strong)), np.full(len(some), len(rest) / len(some))])
    return np.concatenate([strong, some]), counts
