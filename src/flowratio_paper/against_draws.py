r"""The ratio of the target q to the draws of a flow, in latent space (z): q/g, with g the distribution of the draws.

The weights q/h are correct for candidates from the mixture h of p and q. An imperfect flow draws from another
distribution g, which is N(0, I) in z. Some of its candidates belong neither to p nor to q. A ratio p/q that was fitted
to codes of images still assigns them to p or q. A network with three outputs distinguishes codes of p, codes of q and
draws. The differences of its logits are the ratios of the three,

.. math:: \log \frac{q}{g} = f_q(z) - f_g(z)

if it is fitted to as many rows of each. A class for p makes the ratio clearly better than q and draws alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from flowratio import MLP, Recipe, train
from flowratio_paper.image_classifier import outputs

_HELD_OUT = 0.1  # of the images
_P, _Q, _G = range(3)  # outputs


@dataclass(frozen=True)
class AgainstDraws:
    """log q/g of z. A `TargetedSampler` takes it with `proportion=0` and `toward="p"`, its numerator.

    Parameters
    ----------
    network
        Fitted, with three outputs: codes of p, codes of q, draws.
    """

    network: MLP

    def log_ratio(self, Z: np.ndarray) -> np.ndarray:
        """Return log q/g, (n, d) to (n,)."""
        logits = outputs(self.network, Z)
        return logits[:, _Q] - logits[:, _G]


def fit_against_draws(codes_p: np.ndarray, codes_q: np.ndarray, epochs: int, seed: int) -> AgainstDraws:
    """Distinguish codes of p, codes of q and draws from N(0, I), by the paper's MLP. Each pass has new draws.

    Parameters
    ----------
    codes_p, codes_q
        Codes of the same images with several draws of the noise, of shapes (k, n_p, d) and (l, n_q, d). A tenth of the
        images, with all their codes, is held out to select the weights.
    epochs
        Passes over the larger sample.
    seed
        Seed of the initial weights, the order and the draws.
    """
    (rows_p, held_out_p), (rows_q, held_out_q) = (_split(codes) for codes in (codes_p, codes_q))
    d = codes_p.shape[2]
    network = MLP(d, n_outputs=3, generator=torch.Generator().manual_seed(seed))

    def with_draws(pairs: np.ndarray, rng: np.random.Generator) -> np.ndarray:  # (b, 2 d) to (b, 3 d)
        return np.hstack([pairs, rng.standard_normal((len(pairs), d), np.float32)])

    def loss(triples: Tensor) -> Tensor:
        kinds = torch.arange(3, device=triples.device).repeat(len(triples))  # p, q, g, p, q, g, …
        return cross_entropy(network(triples.reshape(-1, d)), kinds)

    recipe = Recipe(epochs, 64, 1e-3, optimizer="adam", patience=epochs)
    rows, held_out = _paired(rows_p, rows_q), _paired(held_out_p, held_out_q)
    train(network, loss, rows, held_out, recipe, seed=seed, prepare=with_draws)
    return AgainstDraws(network)


def _split(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the codes of most images, (m, d), and one code of each held-out image, (l, d)."""
    n_held_out = max(1, round(_HELD_OUT * codes.shape[1]))
    return codes[:, n_held_out:].reshape(-1, codes.shape[2]), codes[0, :n_held_out]


def _paired(rows_p: np.ndarray, rows_q: np.ndarray) -> np.ndarray:
    """Return all rows of the larger sample next to rows of the other, which are repeated: (n, 2 d)."""
    n = max(len(rows_p), len(rows_q))
    return np.hstack([rows[np.arange(n) % len(rows)] for rows in (rows_p, rows_q)])
