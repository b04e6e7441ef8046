r"""The affine coupling flow (RealNVP): one part of the coordinates says how to scale and shift the rest.

A block leaves the part a as it is and maps the part b,

.. math:: z_b = (x_b - \mu(x_a))\, e^{-\alpha(x_a)}, \qquad \log|\det| = -\sum \alpha(x_a)

so that both directions cost one pass of a plain network [1]_. The part a is the first d//2 coordinates in one block and
the last d//2 in the next: this is a reversal of the order between the blocks, without moving anything.

References
----------
.. [1] Dinh, Sohl-Dickstein, Bengio (2017). *Density estimation using Real NVP.*
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flowratio.flows.base import Flow

# the output layer starts this much smaller than the others, so that a flow starts near the identity
_OUTPUT_GAIN = 0.03


class Conditioner(nn.Module):
    """A ReLU network from the given coordinates to the parameters of the others.

    Without any given coordinate (d = 1) the parameters are free constants.

    Parameters
    ----------
    n_given
        Number of given coordinates; may be 0.
    n_params
        Number of parameters k of each other coordinate.
    n_moved
        Number m of the other coordinates.
    hidden
        Widths of the hidden layers.
    generator
        Source of the initial weights.

    Examples
    --------
    >>> net = Conditioner(2, 5, 3, (16,), torch.Generator().manual_seed(0))
    >>> net(torch.zeros(10, 2)).shape
    torch.Size([10, 5, 3])
    """

    def __init__(
        self, n_given: int, n_params: int, n_moved: int, hidden: Sequence[int], generator: torch.Generator
    ) -> None:
        super().__init__()
        if not hidden or min(hidden) < 1:
            raise ValueError(f"`hidden` is {tuple(hidden)}: give at least one hidden layer, each of 1 unit or more.")
        self.n_params, self.n_moved = n_params, n_moved
        widths = [n_given, *hidden, n_params * n_moved] if n_given else [0, n_params * n_moved]
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for layer, (n_in, n_out) in enumerate(pairwise(widths), start=2):
            gain = (_OUTPUT_GAIN if layer == len(widths) else 1.0) / math.sqrt(max(n_in, 1))
            self.biases.append(nn.Parameter(gain * (2 * torch.rand(n_out, generator=generator) - 1)))
            if n_in:
                weight = torch.randn(n_out, n_in, generator=generator)
                self.weights.append(nn.Parameter(gain * math.sqrt(2) * weight))

    def forward(self, given: Tensor) -> Tensor:
        """Return the parameters, (n, n_given) to (n, k, m)."""
        *hidden, bias = self.biases
        if not len(self.weights):
            return bias.view(self.n_params, self.n_moved).expand(len(given), -1, -1)
        *hidden_weights, weight = self.weights
        h = given
        for hidden_weight, hidden_bias in zip(hidden_weights, hidden, strict=True):
            h = F.linear(h, hidden_weight, hidden_bias).relu_()
        return F.linear(h, weight, bias).view(len(given), self.n_params, self.n_moved)


class CouplingFlow(Flow):
    """The walk through coupling blocks; a subclass says how parameters map a coordinate, and back.

    Parameters
    ----------
    n_features
        Number of columns d.
    n_params
        Number of parameters k of the map of one coordinate.
    n_blocks
        Number of blocks. Two or more, or d//2 of the coordinates are never mapped.
    hidden
        Widths of the hidden layers of each block's network.
    generator
        Source of the initial weights; `None` for a new one with torch's default seed.
    """

    def __init__(
        self,
        n_features: int,
        n_params: int,
        n_blocks: int,
        hidden: Sequence[int],
        generator: torch.Generator | None,
    ) -> None:
        super().__init__(n_features)
        if n_blocks < 1:
            raise ValueError(f"`n_blocks` is {n_blocks}: a flow needs at least 1 block.")
        self.n_blocks, self.hidden = n_blocks, hidden
        self._n_given = n_features // 2
        n_moved = n_features - self._n_given
        source = torch.Generator() if generator is None else generator  # the global generator is never used
        self.nets = nn.ModuleList(
            Conditioner(self._n_given, n_params, n_moved, hidden, source) for _ in range(n_blocks)
        )

    @abstractmethod
    def _map(self, block: int, params: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map x to z by a block's parameters (n, k, m): (n, m) to (n, m), and log-derivatives of x → z, (n, m)."""

    @abstractmethod
    def _unmap(self, block: int, params: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Map z to x by a block's parameters (n, k, m): (n, m) to (n, m), and log-derivatives of x → z, (n, m)."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map x to z: (n, d) to (n, d), and the log-determinant of x → z, of shape (n,)."""
        return self._walk(x, range(self.n_blocks), inverse=False)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Map z to x: (n, d) to (n, d), and the log-determinant of x → z, of shape (n,)."""
        return self._walk(z, reversed(range(self.n_blocks)), inverse=True)

    def _walk(self, x: Tensor, blocks: Iterable[int], *, inverse: bool) -> tuple[Tensor, Tensor]:
        transform = self._unmap if inverse else self._map
        n_given, n_moved = self._n_given, self.n_features - self._n_given
        log_slopes: list[Tensor] = []
        for block in blocks:
            first, last = x.split([n_given, n_moved] if block % 2 == 0 else [n_moved, n_given], dim=1)
            if block % 2 == 0:
                last, log_slope = transform(block, self.nets[block](first), last)
            else:
                first, log_slope = transform(block, self.nets[block](last), first)
            x = torch.cat([first, last], dim=1)
            log_slopes.append(log_slope)
        return x, torch.cat(log_slopes, dim=1).sum(1)


class RealNVP(CouplingFlow):
    """Affine coupling flow.

    Parameters
    ----------
    n_features
        Number of columns d.
    n_blocks
        Number of coupling blocks; the two ends of the coordinates change roles after each. Two or more, or d//2 of the
        coordinates are never mapped.
    hidden
        Widths of the hidden layers of each block's network.
    max_log_scale
        Soft bound c on the log-scales, α = c·tanh(a/c), which keeps the map finite far from the data.
    generator
        Source of the initial weights; `None` for a new one with torch's default seed. The global generator is never
        used.

    Examples
    --------
    >>> flow = RealNVP(3, generator=torch.Generator().manual_seed(0))
    >>> x = torch.tensor([[0.5, -1.0, 2.0]])
    >>> z, log_det = flow(x)
    >>> bool((flow.inverse(z)[0] - x).abs().max() < 1e-5)
    True
    """

    def __init__(
        self,
        n_features: int,
        *,
        n_blocks: int = 8,
        hidden: Sequence[int] = (128, 128),
        max_log_scale: float = 2.0,
        generator: torch.Generator | None = None,
    ) -> None:
        if not max_log_scale > 0:
            raise ValueError(f"`max_log_scale` is {max_log_scale}: the bound on the log-scales must be above 0.")
        super().__init__(n_features, 2, n_blocks, hidden, generator)
        self.max_log_scale = max_log_scale

    def _map(self, block: int, params: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        shift, minus_alpha = self._shift_and_slope(params)
        return (x - shift) * minus_alpha.exp(), minus_alpha

    def _unmap(self, block: int, params: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        shift, minus_alpha = self._shift_and_slope(params)
        return torch.addcmul(shift, z, (-minus_alpha).exp()), minus_alpha

    def _shift_and_slope(self, params: Tensor) -> tuple[Tensor, Tensor]:
        """Return μ and −α, each of shape (n, m)."""
        shift, raw = params.unbind(1)
        return shift, (raw / self.max_log_scale).tanh() * -self.max_log_scale
