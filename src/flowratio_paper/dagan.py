r"""A generator of images like a given one, after the DAGAN of Antoniou, Storkey and Edwards (2017), of our own.

The generator G takes a real image x and noise; the critic C is shown x beside another real image x' of the same class,
or beside what was made from x. With the gradient penalty of Gulrajani et al. (2017), at a random point between the two,

.. math:: \max_C \; \mathrm{mean}\, C(x, x') - \mathrm{mean}\, C(x, G(x, u)) - \lambda \, \mathrm{mean}
          \big(\lVert \nabla_2 C(x, \tilde x) \rVert - 1\big)^2, \qquad \max_G \; \mathrm{mean}\, C(x, G(x, u))

A copy of x is no way out for G: no two drawings of a class are the same, and the critic sees both. No class is named:
G can be given an image of a class that it never saw.

Where we part from the published network: it is smaller; what it learns is added to x, so that it begins with copies;
layers are normalized within each image and not over a batch, so that what is made from an image does not depend on the
others; there is no dropout; the gradient of the critic is bounded with respect to the second image alone; images are
made by weights averaged over about the last tenth of the steps.

*Grey values.* What is made takes the values that real images take, in the training too, where gradients pass as if it
did not (straight through): by any other value a critic, or a ratio, would tell it at once, whatever it shows.

*Short training* (`warp`, `paint`). The first that a critic sees is that what was made is too much like x, and specks
are the shortest way to be unlike it: in a thousand steps strokes fall to pieces and do not come back. Two drawings of a
character differ by where its strokes run. So G may first bend x by a continuous field, and paint little on it.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import grid_sample, interpolate, leaky_relu
from torch.nn.utils import skip_init

from flowratio.training.checkpoint import Checkpoint
from flowratio.training.run import TrainingDiverged
from flowratio_paper.images import PIXELS, SIDE, flat

_CHECKPOINT_SECONDS = 60.0
_GENERATED_ROWS = 256  # at a time
_SLOPE = 0.2  # of leaky ReLU below 0
_TOO_FAR = 10 * 2 * SIDE  # no two images are farther apart than 2 SIDE, nor is what a critic of slope 1 says of them
_GROUPS = 4  # of channels, that are normalized together


@dataclass(frozen=True, kw_only=True)
class DaganSettings:
    """Settings of the networks and their training.

    Parameters
    ----------
    channels
        Of the widest layers at 14 × 14 pixels; there are twice as many at 7 × 7. A multiple of 8.
    noise
        Numbers of noise that go into an image.
    steps
        Of the generator.
    critic_steps
        Of the critic before each.
    batch_size
        Images of a step.
    learning_rate, critic_rate
        Of Adam, with the decays 0 and 0.9, for the generator and the critic. With few steps of the critic for each of
        the generator it must be the faster one (Heusel et al., 2017), or it praises what was made.
    penalty
        λ, the weight of the gradient penalty.
    warp
        How far away a pixel may be taken from before it is painted on, along each axis, in halves of the side; 0 for an
        image that is not bent.
    paint
        Factor of what is painted: below 1 it is learned more slowly.
    """

    channels: int
    noise: int
    steps: int
    critic_steps: int
    batch_size: int
    learning_rate: float
    critic_rate: float
    penalty: float = 10.0
    warp: float = 0.0
    paint: float = 1.0


class Generator(nn.Module):
    """Two layers down to 7 × 7, where noise comes in, and two layers up, each beside the one of its size going down.

    What comes out is added to the image that came in, bent or not: the change is learned.

    Parameters
    ----------
    settings
        `channels`, `noise`, `warp` and `paint`.
    values
        That pixels take, in rising order, in [-1, 1].
    generator
        Source of the initial weights.
    """

    values: Tensor

    def __init__(self, settings: DaganSettings, values: Tensor, generator: torch.Generator) -> None:
        super().__init__()
        self.register_buffer("values", values, persistent=False)
        c, noise, self.warp, self.paint = settings.channels, settings.noise, settings.warp, settings.paint
        self.down_1 = skip_init(nn.Conv2d, 1, c, 4, 2, 1)
        self.down_2 = skip_init(nn.Conv2d, c, 2 * c, 4, 2, 1)
        self.noise = skip_init(nn.Linear, noise, c * 49)
        self.merge = skip_init(nn.Conv2d, 3 * c, 2 * c, 3, 1, 1)
        self.up_2 = skip_init(nn.ConvTranspose2d, 4 * c, c, 4, 2, 1)
        self.up_1 = skip_init(nn.ConvTranspose2d, 2 * c, c // 2, 4, 2, 1)
        self.output = skip_init(nn.Conv2d, c // 2, 1, 3, 1, 1)
        self.field = skip_init(nn.Conv2d, 2 * c, 2, 3, 1, 1) if self.warp else None
        self.norms = nn.ModuleList([nn.GroupNorm(_GROUPS, n) for n in (2 * c, 2 * c, c, c // 2)])
        _draw_weights(self, generator)
        for last in (self.output, self.field):
            if last is not None:
                nn.init.zeros_(last.get_parameter("weight"))  # the first images are copies

    def forward(self, x: Tensor, u: Tensor) -> Tensor:
        """Make images from images, (n, 1, 28, 28), and noise, (n, k); pixels take the given values."""
        down_1 = leaky_relu(self.down_1(x), _SLOPE)  # (n, c, 14, 14)
        down_2 = leaky_relu(self.norms[0](self.down_2(down_1)), _SLOPE)  # (n, 2 c, 7, 7)
        noise = self.noise(u).view(len(u), -1, 7, 7)
        merged = leaky_relu(self.norms[1](self.merge(torch.cat([down_2, noise], 1))), _SLOPE)
        up_2 = leaky_relu(self.norms[2](self.up_2(torch.cat([merged, down_2], 1))), _SLOPE)  # (n, c, 14, 14)
        up_1 = leaky_relu(self.norms[3](self.up_1(torch.cat([up_2, down_1], 1))), _SLOPE)  # (n, c / 2, 28, 28)
        made = 1.1 * torch.tanh(torch.atanh(self._bent(x, merged) / 1.1) + self.paint * self.output(up_1))
        return _nearest(made, self.values) + (made - made.detach())  # its values, and its gradient

    def _bent(self, x: Tensor, features: Tensor) -> Tensor:
        """Take each pixel from elsewhere, by a field of 7 × 7 knots from edge to edge; beyond the edge is paper."""
        if self.field is None:
            return x
        field = self.warp * torch.tanh(self.field(features))  # (n, 2, 7, 7)
        field = interpolate(field, (SIDE, SIDE), mode="bilinear", align_corners=True)
        line = torch.linspace(-1, 1, SIDE, device=x.device)
        points = torch.stack(torch.meshgrid(line, line, indexing="xy"), -1)  # (28, 28, 2)
        return grid_sample(x + 1, points + field.permute(0, 2, 3, 1), align_corners=True) - 1


class Critic(nn.Module):
    """Three layers, each of half the size, and a number: how much a pair of images looks like two real ones.

    Parameters
    ----------
    channels
        As in `DaganSettings`.
    generator
        Source of the initial weights.
    """

    def __init__(self, channels: int, generator: torch.Generator) -> None:
        super().__init__()
        c = channels
        self.layers = nn.ModuleList(
            [
                skip_init(nn.Conv2d, 2, c, 4, 2, 1),
                skip_init(nn.Conv2d, c, 2 * c, 4, 2, 1),
                skip_init(nn.Conv2d, 2 * c, 2 * c, 3, 2, 1),
            ]
        )
        self.output = skip_init(nn.Linear, 2 * c * 16, 1)
        _draw_weights(self, generator)

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        """Judge pairs of images, each of shape (n, 1, 28, 28), by a number, (n,)."""
        hidden = torch.cat([x, other], 1)
        for layer in self.layers:
            hidden = leaky_relu(layer(hidden), _SLOPE)
        return self.output(hidden.flatten(1)).squeeze(1)


def _nearest(x: Tensor, values: Tensor) -> Tensor:
    """Return of some values, in rising order, those that are nearest to x."""
    return values[torch.bucketize(x.contiguous(), (values[1:] + values[:-1]) / 2)]


def _draw_weights(model: nn.Module, generator: torch.Generator) -> None:
    """Draw weights that keep the size of what passes through, from a generator of our own."""
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            nn.init.kaiming_normal_(parameter, _SLOPE, generator=generator)
        elif not name.startswith("norms"):
            nn.init.zeros_(parameter)


def same_class(labels: np.ndarray, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return positions of n images, and for each the position of another one of its class, each of shape (n,).

    Parameters
    ----------
    labels
        Classes, of shape (m,).
    rng
        Source of the draw.
    n
        How many.
    """
    order = np.argsort(labels, kind="stable")
    _, first, size = np.unique(labels[order], return_index=True, return_counts=True)
    if size.min() < 2:
        raise ValueError("A class has one image only: give two or more of each, of which one is made from another.")
    rank = rng.integers(0, len(labels), n)
    of = np.searchsorted(first, rank, side="right") - 1
    other = (rank - first[of] + rng.integers(1, size[of])) % size[of] + first[of]
    return order[rank], order[other]


class Dagan:
    """A generator of images, and what trains it.

    Parameters
    ----------
    images
        Real images, bytes of shape (n, 784).
    labels
        Their classes, of shape (n,).
    settings
        Of networks and training.
    seed
        Of everything random: step k draws from a generator seeded by (seed, k).

    Attributes
    ----------
    gaps
        Mean of the critic on real pairs less that on made ones, before each step of the generator.
    """

    def __init__(self, images: Any, labels: Any, settings: DaganSettings, *, seed: int) -> None:
        self.images, self.labels = flat(images), np.asarray(labels)
        if self.labels.shape != (len(self.images),):
            raise ValueError(
                f"`labels` has shape {self.labels.shape} for {len(self.images)} images: give one for each."
            )
        if settings.channels < 8 or settings.channels % 8:
            raise ValueError(f"`channels` is {settings.channels}: give a multiple of 8.")
        for name in ("noise", "critic_steps", "batch_size"):
            if getattr(settings, name) < 1:
                raise ValueError(f"`{name}` is {getattr(settings, name)}: give 1 or more.")
        self.settings, self.seed, self.gaps = settings, seed, list[float]()
        values, weights = _as_values(np.unique(self.images)), torch.Generator().manual_seed(seed)
        self.generator = Generator(settings, values, weights)
        self.critic = Critic(settings.channels, weights)
        self.average = Generator(settings, values, weights)
        self.average.load_state_dict(self.generator.state_dict())
        self._movers = _Adam(self.generator, settings.learning_rate), _Adam(self.critic, settings.critic_rate)

    def train(self, checkpoint: Path | None = None) -> Dagan:
        """Take the steps that are not taken yet.

        Parameters
        ----------
        checkpoint
            Folder that keeps the state, so that a run that was killed goes on from there to the same bits; None for
            none.
        """
        kept = None
        if checkpoint is not None:
            kept = Checkpoint(checkpoint, _CHECKPOINT_SECONDS, self._fingerprint())
            self._resume(*kept.begin(*self._state()))
        x = _as_input(self.images)
        while len(self.gaps) < self.settings.steps:
            self._step(x)
            if kept is not None and kept.is_due():
                kept.write(*self._state())
        if kept is not None:
            kept.write(*self._state())
        return self

    def _step(self, x: Tensor) -> None:
        """Move the critic so many times, then the generator once, then its average."""
        rng, mover, critic_mover = np.random.default_rng([self.seed, len(self.gaps)]), *self._movers
        gap = math.nan
        for _ in range(self.settings.critic_steps):
            of, other = same_class(self.labels, rng, self.settings.batch_size)
            with torch.no_grad():
                made = self.generator(x[of], self._noise(rng, len(of)))
            gap, loss = self._critic_loss(x[of], x[other], made, rng)
            critic_mover.move(loss)
        if not abs(gap) < _TOO_FAR:
            raise TrainingDiverged(
                f"The critic lost its bound after {len(self.gaps)} steps, with a gap of {gap:.3g}: give lower rates "
                f"than {self.settings.learning_rate:g} and {self.settings.critic_rate:g}."
            )
        of, _ = same_class(self.labels, rng, self.settings.batch_size)
        mover.move(-self.critic(x[of], self.generator(x[of], self._noise(rng, len(of)))).mean())
        self.gaps.append(round(gap, 4))
        with torch.no_grad():
            for average, now in zip(self.average.parameters(), self.generator.parameters(), strict=True):
                average.lerp_(now, 10 / (len(self.gaps) + 10))

    def _critic_loss(self, x: Tensor, other: Tensor, made: Tensor, rng: np.random.Generator) -> tuple[float, Tensor]:
        """Return how far the critic tells pairs apart, and its loss with the gradient penalty."""
        of_real, of_made = self.critic(torch.cat([x, x]), torch.cat([other, made])).chunk(2)
        at = torch.from_numpy(rng.random((len(x), 1, 1, 1), np.float32))
        between = torch.lerp(other, made, at).requires_grad_()
        (slope,) = torch.autograd.grad(self.critic(x, between).sum(), between, create_graph=True)
        penalty = ((slope.flatten(1).norm(dim=1) - 1) ** 2).mean()
        gap = of_real.mean() - of_made.mean()
        return gap.item(), self.settings.penalty * penalty - gap

    def _noise(self, rng: np.random.Generator, n: int) -> Tensor:
        return torch.from_numpy(rng.standard_normal((n, self.settings.noise), np.float32))

    @torch.no_grad()
    def generate(self, images: Any, seed: int) -> np.ndarray:
        """Make an image from each image, bytes of shape (n, 784) to the same, of grey values that real ones have.

        Parameters
        ----------
        images
            Real images; one that is given twice gives two images.
        seed
            Of the noise.
        """
        x, rng = _as_input(flat(images)), np.random.default_rng([seed, 0, 5])  # no step has a third word
        parts = [self.average(part, self._noise(rng, len(part))) for part in x.split(_GENERATED_ROWS)]
        grey = 127.5 * (torch.cat(parts).numpy().reshape(len(x), PIXELS) + 1)
        return np.rint(grey).astype(np.uint8)

    def _fingerprint(self) -> dict[str, Any]:
        digest = [hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest() for a in (self.images, self.labels)]
        return {"kind": "DAGAN", "images": digest[0], "labels": digest[1], "seed": self.seed, **asdict(self.settings)}

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return {"gaps": self.gaps}, {name: tensor.detach().numpy() for name, tensor in self._tensors().items()}

    def _tensors(self) -> dict[str, Tensor]:
        models = {"generator": self.generator, "critic": self.critic, "average": self.average}
        tensors = {f"{part}.{name}": p for part, model in models.items() for name, p in model.named_parameters()}
        for part, mover in zip(("generator", "critic"), self._movers, strict=True):
            for kind, moments in (("first", mover.first), ("second", mover.second), ("n", mover.n_moved)):
                tensors |= {f"{part}.{kind}.{k}": moment for k, moment in enumerate(moments)}
        return tensors

    @torch.no_grad()
    def _resume(self, numbers: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        self.gaps = list(numbers["gaps"])
        for name, tensor in self._tensors().items():
            tensor.copy_(torch.tensor(arrays[name]))


class _Adam:
    """Adam with the decays of WGAN-GP, by the kernel that is beneath torch's own: its state is easily kept.

    Parameters
    ----------
    model
        Whose parameters it moves.
    learning_rate
        Size of a step.
    """

    def __init__(self, model: nn.Module, learning_rate: float) -> None:
        self.parameters, self.learning_rate = list(model.parameters()), learning_rate
        self.first, self.second = ([torch.zeros_like(p) for p in self.parameters] for _ in range(2))
        self.n_moved = [torch.zeros(()) for _ in self.parameters]

    def move(self, loss: Tensor) -> None:
        """Take a step down a loss."""
        slopes = torch.autograd.grad(loss, self.parameters)
        with torch.no_grad():
            for n in self.n_moved:
                n += 1
            torch.ops.aten._fused_adam_(
                self.parameters,
                list(slopes),
                self.first,
                self.second,
                [],
                self.n_moved,
                lr=self.learning_rate,
                beta1=0.0,
                beta2=0.9,
                weight_decay=0.0,
                eps=1e-8,
                amsgrad=False,
                maximize=False,
                grad_scale=None,
                found_inf=None,
            )


def _as_input(images: np.ndarray) -> Tensor:
    """Return images as the networks take them: (n, 784) bytes to (n, 1, 28, 28) in [-1, 1]."""
    return _as_values(images).view(-1, 1, SIDE, SIDE)


def _as_values(grey: np.ndarray) -> Tensor:
    """Return bytes as numbers in [-1, 1], of the same shape."""
    return torch.from_numpy(grey.astype(np.float32) / 127.5 - 1)
