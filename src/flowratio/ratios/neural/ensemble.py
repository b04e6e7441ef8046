"""A small ensemble of smooth networks, trained side by side: the mean of their outputs is log r."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from flowratio._support.types import Matrix
from flowratio.flows.base import like
from flowratio.ratios.neural.networks import MAX_HELD_OUT, Network, PairedRows, paired
from flowratio.samples.rows import Rows
from flowratio.samples.two_samples import TwoSamples
from flowratio.training.loop import train
from flowratio.training.run import Callback, History, Recipe

_STEPS, _PATIENT_STEPS = 2000, 200  # of a run, and without progress before it stops
_BATCHES, _BATCH_PAIRS = 20, (32, 1024)  # batches in a pass, and smallest and largest number of pairs in one
_UNBOUNDED = 1e30  # of a box without limits: the mean of weights over steps cannot take an infinite value
_MIN_EPOCHS, _MIN_PATIENCE = 10, 2  # of many rows, where a pass has many steps


class SmoothEnsemble(Network):
    r"""The mean of several networks with SiLU, each with a linear term, (n, d) to (n, 1).

    .. math:: f(x) = \frac1k \sum_j \big( g_j(\min(\max(x, l), u)) + a_j^\top x \big)

    The last layers and the linear terms start at 0, so that training starts at r = 1. The networks see x clamped to the
    box from l to u of the training rows: far outside it f is linear. The initial weights come from `generator`, by
    default of seed 0.

    Examples
    --------
    >>> SmoothEnsemble(3)(torch.ones(5, 3)).abs().max().item()
    0.0
    """

    low: Tensor
    high: Tensor

    def __init__(
        self,
        n_features: int,
        hidden: Sequence[int] = (64, 64, 64),
        n_members: int = 3,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.n_features, self.hidden, self.n_members, self.n_outputs = n_features, tuple(hidden), n_members, 1
        sizes = (n_features, *hidden, 1)
        if min(*sizes, n_members) < 1:
            raise ValueError(f"{n_members} networks have layers of {sizes} units. Use 1 or more of each.")
        self.width = n_members * max(sizes)
        generator = generator or torch.Generator().manual_seed(0)
        bounds = [1 / math.sqrt(n_in) for n_in in sizes[:-2]] + [0.0]  # the last layer starts at 0
        self.matrices, self.biases = nn.ParameterList(), nn.ParameterList()
        for (n_in, n_out), bound in zip(pairwise(sizes), bounds, strict=True):
            for parameters, rows in ((self.matrices, n_in), (self.biases, 1)):
                start = torch.empty(n_members, rows, n_out).uniform_(-bound, bound, generator=generator)
                parameters.append(nn.Parameter(start))
        self.slopes = nn.Parameter(torch.zeros(n_members, n_features, 1))
        for name in ("low", "high"):
            self.register_buffer(name, torch.full((n_features,), _UNBOUNDED if name == "high" else -_UNBOUNDED))

    def clamp_to(self, X: Matrix) -> None:
        """Let the networks see rows clamped to the range of these rows, (n, d)."""
        for buffer, values in ((self.low, X.min(axis=0)), (self.high, X.max(axis=0))):
            buffer.copy_(torch.as_tensor(values))

    def members(self, x: Tensor) -> Tensor:
        """Return the output of each network, (n, d) or rows for each, (k, n, d), to (k, n)."""
        x = x.expand(self.n_members, *x.shape[-2:])
        h = torch.clamp(x, self.low, self.high)
        for k, (matrix, bias) in enumerate(zip(self.matrices, self.biases, strict=True)):
            h = torch.baddbmm(bias, silu(h) if k else h, matrix)
        return (h + x @ self.slopes)[..., 0]

    def forward(self, x: Tensor) -> Tensor:
        return self.members(x).mean(0)[:, None]


def ensemble_recipe(n: int, settings: Mapping[str, Any]) -> Recipe:
    """Return the settings of the training for passes of n pairs, with defaults for those not in `settings`."""
    n_pairs = math.ceil(settings["batch_size"] / 2) if "batch_size" in settings else n // _BATCHES
    n_pairs = n_pairs if "batch_size" in settings else min(max(n_pairs, _BATCH_PAIRS[0]), _BATCH_PAIRS[1])
    n_steps = max(1, round(n / n_pairs))  # of a pass
    max_epochs = settings.get("max_epochs", max(_MIN_EPOCHS, math.ceil(_STEPS / n_steps)))
    patience = min(max_epochs, max(_MIN_PATIENCE, math.ceil(_PATIENT_STEPS / n_steps)))
    return Recipe(
        max_epochs=max_epochs,
        batch_size=n_pairs,
        learning_rate=settings.get("learning_rate", 2e-3),
        weight_decay=settings.get("weight_decay", 0.03),
        schedule="constant",
        patience=settings.get("patience", patience),
        start_counts=True,
    )


class SideBySide(Rows):
    """Pairs of each network side by side, (m, 2 d k): every network has its own order and its own held-out rows."""

    def __init__(self, parts: Sequence[PairedRows]) -> None:
        self.parts = parts
        self.n_rows, self.n_features = min(part.n_rows for part in parts), sum(part.n_features for part in parts)

    def blocks(self, max_rows: int) -> Iterator[Matrix]:
        return map(_joined, zip(*[part.blocks(max_rows) for part in self.parts], strict=False))

    def shuffled(self, rng: np.random.Generator, max_rows: int) -> Iterator[Matrix]:
        return map(_joined, zip(*[part.shuffled(rng, max_rows) for part in self.parts], strict=False))

    def sample(self, n: int, rng: np.random.Generator) -> Matrix:
        return next(self.shuffled(rng, min(n, self.n_rows)))

    def split(self, n_held_out: int, rng: np.random.Generator) -> tuple[SideBySide, Matrix]:
        """Hold out rows of every part by itself."""
        rest, held_out = zip(*[part.split(n_held_out, rng) for part in self.parts], strict=True)
        return SideBySide(rest), _joined(held_out)


def _joined(blocks: Sequence[Matrix]) -> Matrix:
    n = min(map(len, blocks))  # groups of rows may give the networks slightly different numbers of them
    return np.hstack([block[:n] for block in blocks])


def ensemble_loss(network: SmoothEnsemble) -> Callable[[Tensor], Tensor]:
    """Return the mean loss of all networks on their own pairs, (b, 2 d k)."""
    k, d = network.n_members, network.n_features
    sign = torch.tensor([-1.0, 1.0], device=like(network).device)

    def loss(pairs: Tensor) -> Tensor:
        x = pairs.view(-1, k, 2, d).transpose(0, 1).reshape(k, -1, d)
        return softplus(sign * network.members(x).view(k, -1, 2)).mean()

    return loss


def train_ensemble(
    network: SmoothEnsemble,
    samples: TwoSamples,
    recipe: Recipe,
    *,
    seed: int,
    validation_fraction: float = 0.15,
    callback: Callback | None = None,
    verbose: bool = False,
) -> History:
    """Train every network to separate p from q. Each has its own held-out rows. All stop by their mean loss."""
    network.clamp_to(samples.X)
    pairs = paired(samples)
    n_held_out = min(round(validation_fraction * pairs.n_rows), MAX_HELD_OUT)
    rest, held_out = SideBySide([pairs] * network.n_members).split(n_held_out, np.random.default_rng([seed, 0, 2]))
    options: dict[str, Any] = {"seed": seed, "verbose": verbose, "callback": callback}
    return train(network, ensemble_loss(network), rest, held_out, recipe, **options)
