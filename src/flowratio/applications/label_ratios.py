r"""Ratios of several samples to draws of a flow in latent space (z), by one network that distinguishes all of them.

A network has an output for each of k samples and one for draws g. The differences of its logits are ratios,

.. math:: \log \frac{p_j}{g} = f_j(z) - f_g(z)

if it is trained with as many rows of each. What distinguishes the samples from each other also distinguishes them from
draws, so such a network is better than one for a sample and draws alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import logsumexp
from torch import Tensor
from torch.nn.functional import cross_entropy

from flowratio._support.types import Matrix, Vector
from flowratio.ratios.neural.networks import MLP, evaluate
from flowratio.training.loop import train
from flowratio.training.run import Recipe

Draw = Callable[[int, np.random.Generator], Matrix]


@dataclass(frozen=True, eq=False)
class LabelRatios:
    """Ratios of samples, and of their mixture, to draws."""

    network: MLP  # in float64, with k + 1 outputs
    log_shares: Vector  # log of the share of each sample in the mixture, (k,). -inf for samples that do not count

    def log_ratio(self, Z: Matrix) -> Vector:
        """Return log of mixture / draws of codes, (n, d_z) to (n,)."""
        logits = evaluate(self.network, np.asarray(Z, np.float64))
        return logsumexp(logits[:, :-1] + self.log_shares, axis=1) - logits[:, -1]

    def of(self, j: int) -> LabelRatios:
        """Return the ratio of one of the samples to draws."""
        return replace(self, log_shares=np.where(np.arange(len(self.log_shares)) == j, 0.0, -np.inf))


def fit_label_ratios(
    codes: Sequence[Matrix],
    held_out: Sequence[Matrix],
    draw: Draw,
    shares: Vector,
    recipe: Recipe,
    seed: int,
    verbose: bool = False,
) -> LabelRatios:
    """Train the network on codes of each sample, (n_j, d_z), and on new draws in every pass.

    `held_out` are codes of other rows, which select the weights, and `draw` returns m draws, (m, d_z). A pass is over
    the largest sample, and repeats the codes of the others.
    """
    k, d = len(codes), codes[0].shape[1]
    network = MLP(d, n_outputs=k + 1, generator=torch.Generator().manual_seed(seed))

    def with_draws(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:  # (b, k d) to (b, (k + 1) d)
        return np.hstack([rows, draw(len(rows), rng).astype(np.float32)])

    def loss(rows: Tensor) -> Tensor:
        kinds = torch.arange(k + 1, device=rows.device).repeat(len(rows))  # the k samples, g, the k samples, g, …
        return cross_entropy(network(rows.reshape(-1, d)), kinds)

    rows = _side_by_side(codes), _side_by_side(held_out)
    train(network, loss, *rows, recipe, seed=seed, prepare=with_draws, verbose=verbose)
    return LabelRatios(network.double().eval(), np.log(shares))


def _side_by_side(samples: Sequence[Matrix]) -> np.ndarray:
    """Return all rows of the largest sample next to rows of the others, which are repeated: (n, k d), in float32."""
    n = max(map(len, samples))
    return np.hstack([rows[np.arange(n) % len(rows)].astype(np.float32, copy=False) for rows in samples])
