"""Two Gaussians, and invertible maps of their rows under which the densities of z = f(x) have a closed form."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import torch
from scipy import stats

from flowratio import MAF, Flow, FlowFeaturizer, SplineMAF

Density = Callable[[np.ndarray], np.ndarray]

# r is bounded
MEAN_P, SCALE_P = np.array([0.8, -0.5]), np.array([0.7, 0.9])
MEAN_Q, SCALE_Q = np.array([0.0, 0.2]), np.array([1.4, 1.2])


def draw_normal(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of p and of q, (n, 2) each."""
    return rng.normal(MEAN_P, SCALE_P, (n, 2)), rng.normal(MEAN_Q, SCALE_Q, (n, 2))


def log_p(X: np.ndarray) -> np.ndarray:
    """Return the log-density of p, (n, 2) to (n,)."""
    return stats.norm.logpdf(X, MEAN_P, SCALE_P).sum(axis=1)


def log_q(X: np.ndarray) -> np.ndarray:
    """Return the log-density of q, (n, 2) to (n,)."""
    return stats.norm.logpdf(X, MEAN_Q, SCALE_Q).sum(axis=1)


SHEAR, SHIFT = np.array([[2.0, -0.3], [0.5, 0.1]]), np.array([3.0, -1.0])


def _sheared(mean: np.ndarray, scale: np.ndarray) -> Density:
    return stats.multivariate_normal(SHEAR @ mean + SHIFT, SHEAR @ np.diag(scale**2) @ SHEAR.T).logpdf


def _log_normal(mean: np.ndarray, scale: np.ndarray) -> Density:
    return lambda Z: stats.lognorm.logpdf(Z, scale, scale=np.exp(mean)).sum(axis=1)


def _johnson(mean: np.ndarray, scale: np.ndarray) -> Density:
    return lambda Z: stats.johnsonsu.logpdf(Z, -mean / scale, 1 / scale).sum(axis=1)


def _folded(mean: np.ndarray, scale: np.ndarray) -> Density:
    def log_density(Z: np.ndarray) -> np.ndarray:  # two points of x share one of z
        both = [stats.norm.logpdf(Z * [sign, 1], mean, scale).sum(axis=1) for sign in (1, -1)]
        return np.logaddexp(*both)

    return log_density


FOLD = "fold (not invertible)"
# by name: the map of rows, and the log-density of z for Gaussian x of a mean and standard deviations
KNOWN_MAPS: dict[str, tuple[Density, Callable[[np.ndarray, np.ndarray], Density]]] = {
    "affine": (lambda X: X @ SHEAR.T.astype(X.dtype) + SHIFT.astype(X.dtype), _sheared),
    "exponential": (np.exp, _log_normal),
    "hyperbolic sine": (np.sinh, _johnson),
    FOLD: (lambda X: np.column_stack([np.abs(X[:, 0]), X[:, 1]]), _folded),
}
FLOWS: dict[str, type[Flow]] = {"maf": MAF, "spline": SplineMAF}
FLOW_MAPS = {f"{name}, {state}": (name, state) for name in FLOWS for state in ("random", "trained")}
MAPS = (*(name for name in KNOWN_MAPS if name != FOLD), *FLOW_MAPS, FOLD)


def random_flow(name: str, seed: int) -> Flow:
    """Return a flow in float64 with large random weights, so that the map is far from the identity."""
    make: Any = FLOWS[name]
    flow = make(2, n_blocks=3, hidden=(16,), generator=torch.Generator().manual_seed(seed)).double().eval()
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.mul_(2)
    return flow


@cache  # once in each process
def trained_flow(name: str, rows: int, epochs: int | None, seed: int) -> FlowFeaturizer:
    """Return a flow that is trained on rows of p and q which are used for nothing else."""
    X = np.concatenate(draw_normal(np.random.default_rng([seed, 0]), rows))
    return FlowFeaturizer(name, scaling="none", max_epochs=epochs, random_state=seed).fit(X)


def in_latent_space(name: str, flow: Flow | None, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log p_Z and log q_Z at z = f(x), (n,) each. The map computes in the type of the rows.

    Parameters
    ----------
    name
        One of `KNOWN_MAPS`. Ignored if there is a flow.
    flow
        The map, or None for the one of that name.
    X
        Rows of x, of shape (n, 2).
    """
    if flow is None:
        f, density = KNOWN_MAPS[name]
        Z = f(X).astype(float)
        return density(MEAN_P, SCALE_P)(Z), density(MEAN_Q, SCALE_Q)(Z)
    rows = torch.from_numpy(X)
    flow = deepcopy(flow).to(rows.dtype)
    with torch.no_grad():
        z, log_det = flow(rows)
        x, log_det_back = flow.inverse(z)
    by_inverse = log_p(x.double().numpy()) - log_det_back.double().numpy()
    return by_inverse, log_q(X.astype(float)) - log_det.double().numpy()
