"""The interface of every flow: x to z and back, with the log-determinant."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import chain
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from flowratio._support.validation import check_count, check_hidden

Pair: TypeAlias = tuple[Tensor, Tensor]


class Flow(nn.Module, ABC):
    r"""An invertible map z = f(x) between data x and a standard Gaussian z, each with d = `n_features` columns.

    .. math:: \log p(x) = \log p_Z(f(x)) + \log\left|\det \partial f / \partial x\right|

    A subclass writes `forward` and `inverse`, and stores each argument of its `__init__` except `generator`, unchanged,
    in an attribute of the same name, so that `config` can rebuild it.
    """

    def __init__(self, n_features: int) -> None:
        super().__init__()
        check_count(n_features, "n_features")
        self.n_features = n_features

    @abstractmethod
    def forward(self, x: Tensor) -> Pair:
        """Map x to z: (n, d) to (n, d), and the log-determinant of x → z, of shape (n,)."""

    @abstractmethod
    def inverse(self, z: Tensor) -> Pair:
        """Map z to x: (n, d) to (n, d), and the log-determinant of x → z (not of z → x), of shape (n,)."""

    def base_log_prob(self, z: Tensor) -> Tensor:
        """Log-density of the latent variable, (n, d) to (n,): a standard Gaussian by default."""
        return _NormalLogProb.apply(z)

    def base_sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw n latent rows, of shape (n, d). Without a generator, every call gives other rows."""
        generator, kind = generator or new_generator(), like(self)
        # drawn on the CPU, so that a seed gives the same rows on every device
        return torch.randn(n, self.n_features, generator=generator, dtype=kind.dtype).to(kind.device)

    def log_prob(self, x: Tensor) -> Tensor:
        """Log-density of rows of x, (n, d) to (n,)."""
        z, log_det = self(x)
        return self.base_log_prob(z) + log_det

    @torch.no_grad()
    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw n rows of x, of shape (n, d)."""
        return self.inverse(self.base_sample(n, generator))[0]

    def config(self) -> dict[str, Any]:
        """Return the arguments that build this flow again, without its weights."""
        names = inspect.signature(type(self).__init__).parameters
        return {name: getattr(self, name) for name in names if name not in ("self", "generator")}


def like(module: nn.Module) -> Tensor:
    """Return a tensor of the type and on the device of a module."""
    tensors = (t for t in chain(module.parameters(), module.buffers()) if t.is_floating_point())
    return next(tensors, torch.empty(0))


def check_shape(n_blocks: int, hidden: Sequence[int]) -> None:
    """Refuse a flow without blocks, or networks without hidden layers."""
    check_count(n_blocks, "n_blocks")
    check_hidden(hidden)


def new_generator() -> torch.Generator:
    """Return a generator with a random seed, so that the global generator is never used."""
    generator = torch.Generator()
    generator.seed()
    return generator


class _NormalLogProb(torch.autograd.Function):
    """Log-density of the standard Gaussian as one node of the graph, which saves time in every training step."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        ctx.save_for_backward(z)
        return z.square().sum(1).mul_(-0.5).sub_(0.5 * z.shape[1] * math.log(2 * math.pi))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        (z,) = ctx.saved_tensors
        return z * -grads[0][:, None]


def choose_device(name: str) -> torch.device:
    """Return the device of a name. `"auto"` is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"`device` is {name!r}, which torch cannot use here. Use 'auto' or 'cpu'.") from error
