"""Networks whose output is log r, and their training as classifiers of p against q."""

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

from flowratio._support.chunks import chunks
from flowratio._support.types import Matrix, Vector
from flowratio.flows.base import like
from flowratio.samples.rows import Rows
from flowratio.samples.two_samples import TwoSamples
from flowratio.samples.weighting import systematic
from flowratio.training.loop import train
from flowratio.training.run import Callback, History, Recipe

_CHUNK_VALUES = 1 << 21  # maximum number of values of a layer when rows are evaluated
_MIN_HELD_OUT, MAX_HELD_OUT = 64, 20_000  # rows of a sample. The minimum needs four times as many rows
SETTLE = 150  # steps of a classifier whose weights do not count: three times the warm-up of the learning rate
_MAX_PAIRS = 4  # pairs that one row of the smaller sample is in
_RECIPE_SETTINGS = ("max_epochs", "batch_size", "learning_rate", "weight_decay", "patience")


class Network(nn.Module, ABC):
    """A map from rows to outputs, (n, d) to (n, k), whose widest layer has `width` values.

    A subclass stores each argument of its `__init__` except `generator` in an attribute of the same name, for `config`.
    """

    n_features: int
    n_outputs: int
    width: int

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Map rows to outputs, (n, d) to (n, k)."""

    def config(self) -> dict[str, Any]:
        """Return the arguments that build this network again, before its weights are loaded."""
        names = inspect.signature(type(self).__init__).parameters
        return {name: getattr(self, name) for name in names if name not in ("self", "generator")}


class MLP(Network):
    """Hidden layers with ReLU, then a linear layer. The initial weights come from `generator`, by default of seed 0.

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
            raise ValueError(f"The layers of the network have {sizes} units. Each layer must have 1 or more.")
        self.width = max(sizes)
        generator = generator or torch.Generator().manual_seed(0)
        layers: list[nn.Module] = []
        for n_in, n_out in pairwise(sizes):
            layers += [_initialized(skip_init(nn.Linear, n_in, n_out), generator), nn.ReLU()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class CNN(Network):
    """Blocks of a 3 × 3 convolution, batch norm, ReLU and 2 × 2 pooling, then a linear layer. Rows are images.

    `shape` is channels, height and width of an image, the last index running fastest in a row. `hidden` has the number
    of filters of each block. Choi et al. (2021) use four blocks of 64 for 28 × 28. An image that is one pixel high or
    wide is not pooled. The initial weights come from `generator`, by default of seed 0.

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
            advice = "Use channels, height and width of an image, and the number of filters of one or more blocks."
            raise ValueError(f"`shape` is {self.shape} and `hidden` is {self.hidden}. {advice}")
        channels, *size = self.shape
        self.n_features = math.prod(self.shape)
        self.width = max(channels, *hidden) * math.prod(size)
        generator = generator or torch.Generator().manual_seed(0)
        layers: list[nn.Module] = []
        for n_in, n_out in zip((channels, *hidden), hidden, strict=False):
            # batch norm subtracts the mean, so a bias would have no effect
            convolution = skip_init(nn.Conv2d, n_in, n_out, 3, padding=1, bias=False)
            layers += [_initialized(convolution, generator), nn.BatchNorm2d(n_out), nn.ReLU()]
            if min(size) > 1:
                layers.append(nn.MaxPool2d(2))
                size = [side // 2 for side in size]
        self.blocks = nn.Sequential(*layers)
        self.output = _initialized(skip_init(nn.Linear, self.hidden[-1] * math.prod(size), n_outputs), generator)

    def forward(self, x: Tensor) -> Tensor:
        channels, height, width = self.shape
        # channels run fastest in memory, which makes convolutions on a CPU fast
        pixels = x.view(-1, channels, height * width).transpose(1, 2).flatten(1)
        images = pixels.view(-1, height, width, channels).permute(0, 3, 1, 2)
        return self.output(self.blocks(images).flatten(1))


def _initialized(layer: nn.Module, generator: torch.Generator) -> nn.Module:
    """Draw weights and bias of a layer as torch does by default, but from this generator."""
    bound = 1 / math.sqrt(layer.get_parameter("weight")[0].numel())
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -bound, bound, generator=generator)
    return layer


def new_network(d: int, shape: Sequence[int] | None, hidden: Sequence[int], seed: int) -> Network:
    """Return a network for d columns with new weights: a CNN if rows are images of this shape, an MLP otherwise."""
    generator = torch.Generator().manual_seed(seed)
    return MLP(d, hidden, generator=generator) if shape is None else CNN(shape, hidden, generator=generator)


def choose_hidden(n: int, d: int) -> tuple[int, int, int]:
    """Return three widths for d columns and n rows of the smaller sample, for many rows as in Choi et al. (2021)."""
    width = 32 if n < 500 else 64 if n < 2000 else max(100, min(10 * d, 200))
    return width, width, width


def choose_decay(n: float) -> float:
    """Return the weight decay of a classifier, where n is the effective size of the smaller sample."""
    return min(max(300 / n, 0.03), 1.0)


def recipe_settings(estimator: Any) -> dict[str, Any]:
    """Return the training settings of an estimator that are not None, for `choose_recipe`."""
    return {name: getattr(estimator, name) for name in _RECIPE_SETTINGS if getattr(estimator, name) is not None}


def choose_recipe(n: int, settings: Mapping[str, Any], images: bool = False) -> Recipe:
    """Return the settings of the training loop for passes of n pairs, with defaults for those not in `settings`.

    For images, where steps are slow, the defaults are those of Choi et al. (2021) with fewer steps.
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


class PairedRows(Rows):
    """Pairs of a row of p and a row of q, side by side, (m, 2 d). A batch of them is half p and half q.

    There are as many pairs as rows in the larger sample, but a row of the smaller sample is in four pairs or fewer. A
    network memorizes rows that come more often in a pass. Each shuffle draws new pairs, rows in proportion to their
    weights. Rows with the same number in `groups`, of shapes (n_p,) and (n_q,), are held out together.
    """

    def __init__(
        self,
        X_p: Matrix,
        w_p: Vector,
        X_q: Matrix,
        w_q: Vector,
        n_rows: int | None = None,
        groups: tuple[Vector, Vector] | None = None,
    ) -> None:
        self.samples = ((X_p, w_p), (X_q, w_q))
        self.n_rows, self.groups = n_rows or n_pairs(len(X_p), len(X_q)), groups
        self.n_features = 2 * X_p.shape[1]

    def blocks(self, max_rows: int) -> Iterator[Matrix]:
        return self._pairs([systematic(w, self.n_rows, 0.5) for _, w in self.samples], max_rows)

    def shuffled(self, rng: np.random.Generator, max_rows: int) -> Iterator[Matrix]:
        positions = [rng.permutation(systematic(w, self.n_rows, rng.random())) for _, w in self.samples]
        return self._pairs(positions, max_rows)

    def sample(self, n: int, rng: np.random.Generator) -> Matrix:
        return next(self.shuffled(rng, min(n, self.n_rows)))

    def split(self, n_held_out: int, rng: np.random.Generator) -> tuple[PairedRows, Matrix]:
        """Hold out a share of each sample, more of a small one. Groups stay together. A single row is in both."""
        rest, held_out = [], []
        n_held_out_pairs = 1
        for k, (X, w) in enumerate(self.samples):
            group = np.arange(len(X)) if self.groups is None else np.unique(self.groups[k], return_inverse=True)[1]
            size = int(group.max()) + 1
            n = max(round(n_held_out * size / self.n_rows), min(_MIN_HELD_OUT, size // 4), 1)
            n = min(n, max(size - 1, 1))
            positions = np.flatnonzero(np.isin(group, rng.permutation(size)[:n]))
            held_out += [X[positions], w[positions]]
            rest += [X, w] if size == 1 else [np.delete(X, positions, axis=0), np.delete(w, positions)]
            n_held_out_pairs = max(n_held_out_pairs, len(positions))
        return PairedRows(*rest), next(PairedRows(*held_out, n_rows=n_held_out_pairs).blocks(n_held_out_pairs))

    def _pairs(self, positions: Sequence[Vector], max_rows: int) -> Iterator[Matrix]:
        for start in range(0, self.n_rows, max_rows):
            part = slice(start, start + max_rows)
            yield np.hstack([X[of[part]] for (X, _), of in zip(self.samples, positions, strict=True)])


def n_pairs(n_p: int, n_q: int) -> int:
    """Return the number of pairs in a pass over both samples."""
    return min(max(n_p, n_q), _MAX_PAIRS * min(n_p, n_q))


def paired(samples: TwoSamples) -> PairedRows:
    """Return pairs of a row of p and a row of q, in float32."""
    X, n_p, groups = samples.X.astype(np.float32), samples.n_p, samples.groups
    sides = None if groups is None else (groups[:n_p], groups[n_p:])
    return PairedRows(X[:n_p], samples.w_p, X[n_p:], samples.w_q, groups=sides)


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
    """Train a network of one output to separate p from q: its output is log r. Batches of `recipe` are pairs."""
    rows = paired(samples)
    n_held_out = min(round(validation_fraction * rows.n_rows), MAX_HELD_OUT)
    rest, held_out = rows.split(n_held_out, np.random.default_rng([seed, 0, 2]))
    sign = torch.tensor([-1.0, 1.0], device=like(network).device)

    def loss(pairs: Tensor) -> Tensor:  # (b, 2 d)
        return softplus(sign * network(pairs.view(-1, network.n_features)).view(-1, 2)).mean()

    return train(network, loss, rest, held_out, recipe, seed=seed, verbose=verbose, callback=callback)


@torch.no_grad()
def evaluate(network: Network, X: Matrix) -> Matrix:
    """Return the outputs of a network, (n, d) to (n, k). In float64 they do not depend on how rows are batched."""
    kind = like(network)
    out = np.empty((len(X), network.n_outputs))
    for part in chunks(len(X), network.width, _CHUNK_VALUES):
        out[part] = network(torch.tensor(X[part], dtype=kind.dtype, device=kind.device)).cpu().numpy()
    return out
