r"""A ratio of the target to what a flow draws, in z, where draws cost nothing: q/g, with g the law of the draws.

Weights q/h are right for candidates of the mixture h of p and q. A flow that is not perfect draws from another law, g,
N(0, I) in z: among its candidates are some of neither law, of which a ratio p/q that has only seen codes of images says
one or the other. A network of three outputs that tells codes of p, codes of q and draws apart has in the differences of
its logits all ratios of the three,

.. math:: \log \frac{q}{g} = f_q(z) - f_g(z)

if it has seen as many of each. That p is a class of its own is worth much: q and draws alone are told apart by less.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from flowratio.flows.base import new_generator
from flowratio.ratios.neural.networks import MLP, Network, PairedRows, evaluate
from flowratio.training.loop import train
from flowratio.training.run import Recipe

_HELD_OUT = 0.1  # of the images
_P, _Q, _G = range(3)  # outputs


@dataclass(frozen=True)
class AgainstDraws:
    """log q/g of z; a `TargetedSampler` takes it with `proportion=0` and goes toward its numerator.

    Parameters
    ----------
    network
        Fitted, of three outputs: codes of p, codes of q, draws.
    """

    network: Network

    def log_ratio(self, Z: np.ndarray) -> np.ndarray:
        """Return log q/g, (n, d) to (n,)."""
        logits = evaluate(self.network, Z)
        return logits[:, _Q] - logits[:, _G]


def fit_against_draws(codes_p: np.ndarray, codes_q: np.ndarray, epochs: int, seed: int) -> AgainstDraws:
    """Tell codes of p, codes of q and draws from N(0, I) apart, by the paper's MLP; new draws in each pass.

    Parameters
    ----------
    codes_p, codes_q
        Codes of the same images with several draws of the noise, of shapes (k, n_p, d) and (l, n_q, d). A tenth of the
        images, with all their codes, decides which weights are kept.
    epochs
        Passes over pairs of codes, as many as there are in the larger sample.
    seed
        Of first weights, order and draws.
    """
    (rows_p, aside_p), (rows_q, aside_q) = (_split(codes) for codes in (codes_p, codes_q))
    rows = _paired(rows_p, rows_q, max(len(rows_p), len(rows_q)))
    n_aside = max(len(aside_p), len(aside_q))
    held_out = next(_paired(aside_p, aside_q, n_aside).blocks(n_aside))
    d = codes_p.shape[2]
    network = MLP(d, n_outputs=3, generator=new_generator().manual_seed(seed))

    def with_draws(pairs: np.ndarray, rng: np.random.Generator) -> np.ndarray:  # (b, 2 d) to (b, 3 d)
        return np.hstack([pairs, rng.standard_normal((len(pairs), d), np.float32)])

    def loss(triples: Tensor) -> Tensor:
        kinds = torch.arange(3, device=triples.device).repeat(len(triples))  # p, q, g, p, q, g, …
        return cross_entropy(network(triples.reshape(-1, d)), kinds)

    recipe = Recipe(epochs, 64, 1e-3, optimizer="adam", patience=epochs)
    train(network, loss, rows, held_out, recipe, seed=seed, prepare=with_draws)
    return AgainstDraws(network)


def _split(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the codes of most images, (m, d), and one of each of the others: no image has codes in both."""
    n_aside = max(1, round(_HELD_OUT * codes.shape[1]))
    return codes[:, n_aside:].reshape(-1, codes.shape[2]), codes[0, :n_aside]


def _paired(of_p: np.ndarray, of_q: np.ndarray, n: int) -> PairedRows:
    return PairedRows(of_p, np.ones(len(of_p)), of_q, np.ones(len(of_q)), n_rows=n)
