r"""The affine coupling flow (RealNVP): one part of the coordinates decides how to scale and shift the rest.

A block does not change part a and maps part b,

.. math:: z_b = (x_b - \mu(x_a))\, e^{-\alpha(x_a)}, \qquad \log|\det| = -\sum \alpha(x_a)

so that both directions cost one pass of a plain network [1]_. Part a is the first d//2 coordinates in one block and the
last d//2 in the next.

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

from flowratio.flows.base import Flow, check_shape

# the output layer starts this much smaller than the others, so that a flow starts near the identity
_OUTPUT_GAIN = 0.03


class Conditioner(nn.Module):
    """A ReLU network from n_inputs coordinates to k = n_params parameters of each of m = n_outputs others.

    Without inputs (d = 1) the parameters are free constants.

    Examples
    --------
    >>> net = Conditioner(2, 5, 3, (16,), torch.Generator().manual_seed(0))
    >>> net(torch.zeros(10, 2)).shape
    torch.Size([10, 5, 3])
    """

    def __init__(
        self, n_inputs: int, n_params: int, n_outputs: int, hidden: Sequence[int], generator: torch.Generator
    ) -> None:
        super().__init__()
        self.n_params, self.n_outputs = n_params, n_outputs
        widths = [n_inputs, *hidden, n_params * n_outputs] if n_inputs else [0, n_params * n_outputs]
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for layer, (n_in, n_out) in enumerate(pairwise(widths), start=2):
            gain = (_OUTPUT_GAIN if layer == len(widths) else 1.0) / math.sqrt(max(n_in, 1))
            self.biases.append(nn.Parameter(gain * (2 * torch.rand(n_out, generator=generator) - 1)))
            if n_in:
                weight = torch.randn(n_out, n_in, generator=generator)
                self.weights.append(nn.Parameter(gain * math.sqrt(2) * weight))

    def forward(self, x: Tensor) -> Tensor:
        """Return the parameters, (n, n_inputs) to (n, k, m)."""
        *hidden, bias = self.biases
        if not len(self.weights):
            return bias.view(self.n_params, self.n_outputs).expand(len(x), -1, -1)
        *hidden_weights, weight = self.weights
        h = x
        for hidden_weight, hidden_bias in zip(hidden_weights, hidden, strict=True):
            h = F.linear(h, hidden_weight, hidden_bias).relu_()
        return F.linear(h, weight, bias).view(len(x), self.n_params, self.n_outputs)


class CouplingFlow(Flow):
    """Coupling blocks. A subclass maps a coordinate by its n_params parameters, and back."""

    def __init__(
        self, n_features: int, n_params: int, n_blocks: int, hidden: Sequence[int], generator: torch.Generator | None
    ) -> None:
        super().__init__(n_features)
        check_shape(n_blocks, hidden)
        self.n_blocks, self.hidden = n_blocks, hidden
        self._n_inputs = n_features // 2
        sizes = self._n_inputs, n_params, n_features - self._n_inputs
        source = generator or torch.Generator()  # the global generator is never used
        self.nets = nn.ModuleList(Conditioner(*sizes, hidden, source) for _ in range(n_blocks))

    @abstractmethod
    def _map(self, block: int, params: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map x to z by a block's parameters (n, k, m): z and log-derivatives of x → z, (n, m) each."""

    @abstractmethod
    def _unmap(self, block: int, params: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Map z to x by a block's parameters (n, k, m): x and log-derivatives of x → z, (n, m) each."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self._walk(x, range(self.n_blocks), inverse=False)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        return self._walk(z, reversed(range(self.n_blocks)), inverse=True)

    def _walk(self, x: Tensor, blocks: Iterable[int], *, inverse: bool) -> tuple[Tensor, Tensor]:
        transform = self._unmap if inverse else self._map
        sizes = [self._n_inputs, self.n_features - self._n_inputs]
        log_slopes: list[Tensor] = []
        for block in blocks:
            first, last = x.split(sizes if block % 2 == 0 else sizes[::-1], dim=1)
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
    n_features, n_blocks
        Number of columns d, and of coupling blocks. With one block, d//2 of the coordinates are never mapped.
    hidden
        Widths of the hidden layers of each block's network.
    max_log_scale
        Soft bound c on the log-scales, α = c·tanh(a/c), so that the map is finite far from the data.
    generator
        Source of the initial weights, by default with torch's default seed.

    Examples
    --------
    >>> flow = RealNVP(3, generator=torch.Generator().manual_seed(0))
    >>> x = torch.tensor([[0.5, -1.0, 2.0]])
    >>> torch.allclose(flow.inverse(flow(x)[0])[0], x, atol=1e-5)
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
            raise ValueError(f"`max_log_scale` is {max_log_scale}. Use a number above 0.")
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
