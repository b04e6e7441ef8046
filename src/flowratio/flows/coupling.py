"""Coupling flows: the map of one part of the coordinates depends on the rest. RealNVP scales and shifts."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flowratio._support.validation import check_positive
from flowratio.flows.base import Flow, Pair, check_shape

_OUTPUT_GAIN = 0.03  # the output layer starts this much smaller than the others: a flow starts near the identity


class Conditioner(nn.Module):
    """A ReLU network, (n, n_inputs) to (n, k, m): k parameters of each of m outputs, constants if n_inputs is 0."""

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
        *hidden, bias = self.biases
        if not len(self.weights):
            return bias.view(self.n_params, self.n_outputs).expand(len(x), -1, -1)
        *hidden_weights, weight = self.weights
        for hidden_weight, hidden_bias in zip(hidden_weights, hidden, strict=True):
            x = F.linear(x, hidden_weight, hidden_bias).relu_()
        return F.linear(x, weight, bias).view(len(x), self.n_params, self.n_outputs)


class CouplingFlow(Flow):
    """Coupling blocks, which map the last coordinates by the first d//2, then the first by the last d//2, in turn."""

    def __init__(
        self, n_features: int, n_params: int, n_blocks: int, hidden: Sequence[int], generator: torch.Generator | None
    ) -> None:
        super().__init__(n_features)
        check_shape(n_blocks, hidden)
        self.n_blocks, self.hidden = n_blocks, hidden
        self._n_inputs = n_features // 2
        sizes = self._n_inputs, n_params, n_features - self._n_inputs
        generator = generator or torch.Generator()  # the global generator is never used
        self.nets = nn.ModuleList(Conditioner(*sizes, hidden, generator) for _ in range(n_blocks))

    @abstractmethod
    def _map(self, block: int, params: Tensor, x: Tensor, inverse: bool) -> Pair:
        """Map x to z, or z to x, by params, (n, k, m): the result and the log-derivatives of x → z, (n, m) each."""

    def forward(self, x: Tensor) -> Pair:
        return self._walk(x, inverse=False)

    def inverse(self, z: Tensor) -> Pair:
        return self._walk(z, inverse=True)

    def _walk(self, x: Tensor, inverse: bool) -> Pair:
        sizes = [self._n_inputs, self.n_features - self._n_inputs]
        log_slopes: list[Tensor] = []
        for block in range(self.n_blocks)[:: -1 if inverse else 1]:
            first, last = x.split(sizes if block % 2 == 0 else sizes[::-1], dim=1)
            if block % 2 == 0:
                last, log_slope = self._map(block, self.nets[block](first), last, inverse)
            else:
                first, log_slope = self._map(block, self.nets[block](last), first, inverse)
            x = torch.cat([first, last], dim=1)
            log_slopes.append(log_slope)
        return x, torch.cat(log_slopes, dim=1).sum(1)


class RealNVP(CouplingFlow):
    r"""Affine coupling flow [1]_: functions of part a scale and shift part b. Each direction costs one pass.

    .. math:: z_b = (x_b - \mu(x_a))\, e^{-\alpha(x_a)}, \qquad \log|\det| = -\sum \alpha(x_a)

    Parameters
    ----------
    n_features, n_blocks, hidden, max_log_scale, generator
        As in `MAF`. With one block, d//2 of the coordinates are never mapped.

    References
    ----------
    .. [1] Dinh, Sohl-Dickstein, Bengio (2017). *Density estimation using Real NVP.*

    Examples
    --------
    >>> flow, x = RealNVP(3), torch.tensor([[0.5, -1.0, 2.0]])
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
        check_positive(max_log_scale, "max_log_scale")
        super().__init__(n_features, 2, n_blocks, hidden, generator)
        self.max_log_scale = max_log_scale

    def _map(self, block: int, params: Tensor, x: Tensor, inverse: bool) -> Pair:
        shift, raw = params.unbind(1)
        minus_alpha = (raw / self.max_log_scale).tanh() * -self.max_log_scale
        if inverse:
            return torch.addcmul(shift, x, (-minus_alpha).exp()), minus_alpha
        return (x - shift) * minus_alpha.exp(), minus_alpha
