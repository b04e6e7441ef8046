r"""Networks whose output is log r, and the way they are trained as classifiers of p against q.

.. math:: L(f) = \tfrac12 \mathrm{mean}_p \log(1 + e^{-f}) + \tfrac12 \mathrm{mean}_q \log(1 + e^{f})

has its minimum at f = log p/q, r = p/q, p is y = 1: both samples count one half, so that no odds are to be taken out.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus
from torch.nn.utils import skip_init

from flowratio._support.types import Vector
from flowratio.flows.base import like
from flowratio.samples.rows import Rows
from flowratio.samples.two_samples import TwoSamples
from flowratio.samples.weighting import systematic
from flowratio.training.loop import train
from flowratio.training.run import Callback, History, Recipe

_CHUNK_VALUES = 1 << 21  # values of a layer at most when rows are evaluated
_FEWEST_HELD_OUT, MAX_HELD_OUT = 64, 20_000  # rows of a sample, the former if it has four times as many
SETTLE = 150  # steps of a classifier that are not kept: three times those in which the learning rate rises
_MOST_PAIRS = 4  # that one row of the smaller sample is in


class Network(nn.Module, ABC):
    """A map from rows to outputs, (n, d) to (n, k).

    A subclass stores each argument of its `__init__`, untouched, in an attribute of the same name (all but
    `generator`), so that `config` can rebuild it.

    Attributes
    ----------
    n_features
        Number of columns d.
    n_outputs
        Number of outputs k.
    width
        Values of a row in the widest layer.
    """

    n_features: int
    n_outputs: int
    width: int

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Map rows to outputs, (n, d) to (n, k)."""

    def config(self) -> dict[str, Any]:
        """Return the arguments that build this network anew, before its weights are loaded."""
        names = inspect.signature(type(self).__init__).parameters
        return {name: getattr(self, name) for name in names if name not in ("self", "generator")}


class MLP(Network):
    """Hidden layers with ReLU, then a linear one. Choi et al. (2021) use three of 100 units (200 for 40 columns).

    Parameters
    ----------
    n_features
        Number of columns d.
    hidden
        Widths of the hidden layers.
    n_outputs
        Number of outputs k.
    generator
        Source of the initial weights; None for a new one of seed 0. The global generator is never used.

    Examples
    --------
    >>> MLP(3, (16, 16), 2)(torch.zeros(5, 3)).shape
    torch.Size([5, 2])
    """

    def __init__(
        self,
        n_features: int,
        hidden: Sequence[int] = (100, 100, 100),
        n_outputs: int = 1,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.n_features, self.hidden, self.n_outputs = n_features, tuple(hidden), n_outputs
        sizes = (n_features, *hidden, n_outputs)
        if min(sizes) < 1:
            raise ValueError(f"The layers of a network have {sizes} units: each must have 1 or more.")
        self.width = max(sizes)
        generator = generator or torch.Generator().manual_seed(0)
        layers: list[nn.Module] = []
        for n_in, n_out in pairwise(sizes):
            layers += [_drawn(skip_init(nn.Linear, n_in, n_out), generator), nn.ReLU()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class CNN(Network):
    """Blocks of a 3 × 3 convolution, batch norm, ReLU and 2 × 2 pooling, then a linear layer: rows are images.

    Choi et al. (2021) use four blocks of 64 filters for images of 28 × 28, of which the last leaves one pixel. Blocks
    behind which an image would vanish do not pool.

    Parameters
    ----------
    shape
        Channels, height and width of an image. A row has its values in this order, the last running fastest.
    hidden
        Number of filters of each block.
    n_outputs
        Number of outputs k.
    generator
        Source of the initial weights; None for a new one of seed 0. The global generator is never used.

    Examples
    --------
    >>> CNN((1, 28, 28))(torch.zeros(5, 784)).shape
    torch.Size([5, 1])
    """

    def __init__(
        self,
        shape: Sequence[int],
        hidden: Sequence[int] = (64, 64, 64, 64),
        n_outputs: int = 1,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.shape, self.hidden, self.n_outputs = tuple(shape), tuple(hidden), n_outputs
        if len(self.shape) != 3 or not self.hidden or min(*self.shape, *hidden, n_outputs) < 1:
            raise ValueError(
                f"`shape` is {self.shape}, `hidden` {self.hidden}: give channels, height and width of an image, and "
                "the number of filters of one or more blocks."
            )
        channels, *size = self.shape
        self.n_features = math.prod(self.shape)
        self.width = max(channels, *hidden) * math.prod(size)
        generator = generator or torch.Generator().manual_seed(0)
        layers: list[nn.Module] = []
        for n_in, n_out in zip((channels, *hidden), hidden, strict=False):
            # batch norm takes the mean out again: a bias would do nothing
            convolution = skip_init(nn.Conv2d, n_in, n_out, 3, padding=1, bias=False)
            layers += [_drawn(convolution, generator), nn.BatchNorm2d(n_out), nn.ReLU()]
            if min(size) > 1:
                layers.append(nn.MaxPool2d(2))
                size = [side // 2 for side in size]
        self.blocks = nn.Sequential(*layers)
        self.output = _drawn(skip_init(nn.Linear, self.hidden[-1] * math.prod(size), n_outputs), generator)

    def forward(self, x: Tensor) -> Tensor:
        channels, height, width = self.shape
        # channels run fastest in memory: so convolutions on a CPU are fast
        pixels = x.view(-1, channels, height * width).transpose(1, 2).flatten(1)
        images = pixels.view(-1, height, width, channels).permute(0, 3, 1, 2)
        return self.output(self.blocks(images).flatten(1))


def _drawn(layer: nn.Module, generator: torch.Generator) -> nn.Module:
    """Draw weights and bias of a layer as torch does by itself, but from a generator of our own."""
    weight, bias = layer.get_parameter("weight"), dict(layer.named_parameters()).get("bias")
    bound = 1 / math.sqrt(weight[0].numel())
    for parameter in (weight, bias):
        if parameter is not None:
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
    return layer


def choose_hidden(n: int, d: int) -> tuple[int, int, int]:
    """Return the widths of three hidden layers for d columns, and n rows of the smaller sample.

    They are 32 wide below 500 rows, 64 below 2000, else 100, or 10 d up to 200: few rows cannot tell what many units
    do, and many columns ask for them. Choi et al. (2021) have 100 for 2 columns and 200 for 40.
    """
    width = 32 if n < 500 else 64 if n < 2000 else max(100, min(10 * d, 200))
    return width, width, width


def new_network(d: int, shape: Sequence[int] | None, hidden: Sequence[int], seed: int) -> Network:
    """Return a network for d columns with new weights: a CNN if rows are images of this shape, an MLP otherwise."""
    generator = torch.Generator().manual_seed(seed)
    if shape is None:
        return MLP(d, hidden, generator=generator)
    return CNN(shape, hidden, generator=generator)


class PairedRows(Rows):
    """Pairs of a row of p and a row of q, side by side, (m, 2 d): a batch of them is half p and half q.

    There are as many pairs as rows in the larger sample, but no row of the smaller one is in more than four of them: a
    pass in which few rows come again and again learns them by heart. Each shuffle draws the pairs anew, and draws a row
    as often as its share of the weight says, but for a fraction that is left to chance.

    Parameters
    ----------
    X_p, w_p
        Rows of p and their positive weights, of shapes (n_p, d) and (n_p,).
    X_q, w_q
        Rows of q and their positive weights, of shapes (n_q, d) and (n_q,).
    n_rows
        Number of pairs; None for the rule above.
    groups
        Rows with the same number are held out together, of shapes (n_p,) and (n_q,). None if each row stands alone.

    Examples
    --------
    >>> rows = PairedRows(np.array([[1.0], [2.0]]), np.ones(2), np.array([[7.0]]), np.ones(1))
    >>> next(rows.blocks(10)).tolist()
    [[1.0, 7.0], [2.0, 7.0]]
    """

    def __init__(
        self,
        X_p: np.ndarray,
        w_p: np.ndarray,
        X_q: np.ndarray,
        w_q: np.ndarray,
        n_rows: int | None = None,
        groups: tuple[Vector, Vector] | None = None,
    ) -> None:
        self.samples = ((X_p, w_p), (X_q, w_q))
        self.n_rows, self.groups = n_rows or n_pairs(len(X_p), len(X_q)), groups
        self.n_features = 2 * X_p.shape[1]

    def blocks(self, max_rows: int) -> Iterator[np.ndarray]:
        return self._gathered([systematic(w, self.n_rows, 0.5) for _, w in self.samples], max_rows)

    def shuffled(self, rng: np.random.Generator, max_rows: int) -> Iterator[np.ndarray]:
        drawn = [rng.permutation(systematic(w, self.n_rows, rng.random())) for _, w in self.samples]
        return self._gathered(drawn, max_rows)

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return next(self.shuffled(rng, min(n, self.n_rows)))

    def split(self, n_held_out: int, rng: np.random.Generator) -> tuple[PairedRows, np.ndarray]:
        """Set the same share of each sample aside, more of a small one; the only row of a sample stays in both.

        Rows of one group are on one side: a network recognizes a row under any noise.
        """
        rest, held_out = [], []
        n_most = 1
        for k, (X, w) in enumerate(self.samples):
            group = np.arange(len(X)) if self.groups is None else np.unique(self.groups[k], return_inverse=True)[1]
            size = int(group.max()) + 1
            n = max(round(n_held_out * size / self.n_rows), min(_FEWEST_HELD_OUT, size // 4), 1)
            n = min(n, max(size - 1, 1))
            aside = np.flatnonzero(np.isin(group, rng.permutation(size)[:n]))
            held_out += [X[aside], w[aside]]
            rest += [X, w] if size == 1 else [np.delete(X, aside, axis=0), np.delete(w, aside)]
            n_most = max(n_most, len(aside))
        return PairedRows(*rest), next(PairedRows(*held_out, n_rows=n_most).blocks(n_most))

    def _gathered(self, positions: Sequence[np.ndarray], max_rows: int) -> Iterator[np.ndarray]:
        for start in range(0, self.n_rows, max_rows):
            part = slice(start, start + max_rows)
            yield np.hstack([X[of[part]] for (X, _), of in zip(self.samples, positions, strict=True)])


def n_pairs(n_p: int, n_q: int) -> int:
    """Return how many pairs are a pass over both samples."""
    return min(max(n_p, n_q), _MOST_PAIRS * min(n_p, n_q))


def choose_recipe(n: int, settings: Mapping[str, Any], images: bool = False) -> Recipe:
    """Return the settings of the loop for passes of n pairs; those that are not given are chosen.

    Chosen are batches of 256 to 2048 rows, 1000 steps or 10 epochs, a learning rate of 0.002, a weight decay of 0.3,
    and patience of a sixth of the epochs. For images, whose steps are dear, batches of 64, 300 steps or 10 epochs, and
    a rate of 0.001 (Choi et al., 2021).

    Parameters
    ----------
    n
        Pairs of a row of p and a row of q in a pass, as `n_pairs` has it.
    settings
        Those that are given: `max_epochs`, `batch_size` (rows, half p and half q), `learning_rate`, `weight_decay` and
        `patience`.
    images
        Whether rows are images for a CNN.
    """
    batch_size = settings.get("batch_size", 64 if images else 2 * min(max(128, n // 50), 1024))
    pairs, n_steps = max(1, batch_size // 2), 300 if images else 1000
    max_epochs = settings.get("max_epochs", max(10, math.ceil(n_steps / max(1, round(n / pairs)))))
    return Recipe(
        max_epochs=max_epochs,
        batch_size=pairs,
        learning_rate=settings.get("learning_rate", 1e-3 if images else 2e-3),
        weight_decay=settings.get("weight_decay", 0.3),
        patience=settings.get("patience", max(5, max_epochs // 6)),
        min_gain=1e-4,
    )


def choose_decay(n: int) -> float:
    """Return the weight decay of a classifier for n rows of the smaller sample: 300/n, from 0.03 to 1.

    On nine pairs of samples with 300 to 10 000 rows and 2 to 20 columns, in x and in the latent space of a flow, a
    factor of 10 in the decay or of 2 in the width changed errors by a tenth to a third, either way: the step at which a
    run stops, which held-out rows decide, is what counts.
    """
    return min(max(300 / n, 0.03), 1.0)


def train_classifier(
    network: Network,
    samples: TwoSamples,
    recipe: Recipe,
    *,
    seed: int,
    validation_fraction: float = 0.1,
    callback: Callback | None = None,
    verbose: bool = False,
) -> History:
    """Train a network of one output to separate p from q, so that its output is log r, r = p/q.

    Parameters
    ----------
    network
        The network, on the device where the work is done.
    samples
        Standardized rows in an order of their own. Rows of one group are held out together.
    recipe
        Settings of the loop. A batch is half p and half q.
    seed
        Decides the order of the rows.
    validation_fraction
        Share of the rows of each sample held out to decide when to stop. Small samples hold out more.
    callback
        Called with the network and the number of epochs after each held-out evaluation.
    verbose
        Whether to show a progress bar.
    """
    rows = paired(samples)
    n_held_out = min(round(validation_fraction * rows.n_rows), MAX_HELD_OUT)
    rest, held_out = rows.split(n_held_out, np.random.default_rng([seed, 0, 2]))
    sign = torch.tensor([-1.0, 1.0], device=like(network).device)

    def loss(pairs: Tensor) -> Tensor:  # (b, 2 d)
        return softplus(sign * network(pairs.view(-1, network.n_features)).view(-1, 2)).mean()

    return train(network, loss, rest, held_out, recipe, seed=seed, verbose=verbose, callback=callback)


def paired(samples: TwoSamples) -> PairedRows:
    """Return pairs of a row of p and a row of q, in float32."""
    X, n_p, groups = samples.X.astype(np.float32), samples.n_p, samples.groups
    sides = None if groups is None else (groups[:n_p], groups[n_p:])
    return PairedRows(X[:n_p], samples.w_p, X[n_p:], samples.w_q, groups=sides)


@torch.no_grad()
def evaluate(network: Network, X: np.ndarray) -> np.ndarray:
    """Return the outputs of a network, (n, d) to (n, k).

    Parameters
    ----------
    network
        The network, in float64, so that how rows are batched does not change its outputs.
    X
        Rows, of shape (n, d).
    """
    kind = like(network)
    out = np.empty((len(X), network.n_outputs))
    size = max(1, _CHUNK_VALUES // network.width)
    for start in range(0, len(X), size):
        x = torch.tensor(X[start : start + size], dtype=kind.dtype, device=kind.device)
        out[start : start + size] = network(x).cpu().numpy()
    return out
