r"""The masked network: one pass gives every coordinate parameters that depend only on the coordinates before it.

Units are sorted by degree, the number of coordinates a unit may see [1]_. Every weight matrix is then a staircase: row
r sees only the first `reach[r]` columns. Masked weights are zero and get no gradient. Large layers multiply panel by
panel and skip what lies above the stairs. The inverse computes no unit twice: it costs about one forward pass.

.. [1] Germain, Gregor, Murray, Larochelle (2015). *MADE: Masked Autoencoder for Distribution Estimation.*
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from flowratio.flows.base import Pair, check_shape

_PANEL_WEIGHTS = 1 << 18  # smaller networks multiply whole layers, since panels have an overhead
_PANEL_ROWS = 128
_INVERSE_COORDINATES = 32  # coordinates solved between two large products of the inverse
_INVERSE_ROWS = 1024  # rows solved together, so that they fit the cache

Solve: TypeAlias = Callable[[Tensor, Tensor], Pair]  # parameters, (k, m), and z, (m,), to x and the log-slope, (m,)
Panel: TypeAlias = tuple[int, int, int]  # a, b, c: rows a:b of a weight matrix see only the first c columns


def hidden_degrees(n_features: int, n_units: int) -> Tensor:
    """Return the sorted degrees of a hidden layer: 1…d−1 in turn, or evenly spread where units are fewer."""
    n_degrees = max(n_features - 1, 1)
    units = torch.arange(n_units)
    degrees = units % n_degrees if n_units >= n_degrees else units * n_degrees // n_units
    return degrees.sort().values + 1


class MaskedNet(nn.Module):
    """A ReLU network from x to k = n_params parameters of each coordinate, functions of the coordinates before it.

    All weights and biases are views of one parameter, `theta`. The default generator has torch's default seed.
    """

    mask: Tensor

    def __init__(
        self, n_features: int, n_params: int, hidden: Sequence[int], generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        check_shape(1, hidden)
        self.n_features, self.n_params = n_features, n_params
        coordinates = torch.arange(1, n_features + 1)
        self._degrees = [hidden_degrees(n_features, width) for width in hidden]
        below = [coordinates, *self._degrees[:-1]]
        # reach[r]: number of units of the layer below that row r sees. An output must not see its own coordinate
        self._reach = [torch.searchsorted(a, b, right=True) for a, b in zip(below, self._degrees, strict=True)]
        self._reach.append(torch.searchsorted(self._degrees[-1], coordinates).repeat(n_params))
        widths = [n_features, *hidden, n_params * n_features]
        self._shapes = list(zip(widths[1:], widths, strict=False))
        self._sizes = [size for n_out, n_in in self._shapes for size in (n_out * n_in, n_out)]
        self.theta = nn.Parameter(torch.empty(sum(self._sizes)))
        self._panels = self._cut_panels() if len(self.theta) >= _PANEL_WEIGHTS else None
        masks: list[Tensor] = []
        for (n_out, n_in), reach in zip(self._shapes, self._reach, strict=True):
            masks += [(torch.arange(n_in) < reach[:, None]).flatten(), torch.ones(n_out, dtype=torch.bool)]
        self.register_buffer("mask", torch.cat(masks).to(self.theta.dtype), persistent=False)
        self._cached: tuple[list[Tensor], list[Tensor]] = ([], [])
        self._transposed: list[Tensor] = []
        self._initialize(generator or torch.Generator())
        self.register_load_state_dict_post_hook(_hide)

    @torch.no_grad()
    def _initialize(self, generator: torch.Generator) -> None:
        """Draw weights, scaled by the number of inputs that a row sees. The output starts small."""
        last = len(self._shapes) - 1
        for layer, (weight, bias) in enumerate(zip(*self.layers(), strict=True)):
            gain = 0.1 if layer == last else math.sqrt(2)
            fan_in = self._reach[layer].clamp(min=1)[:, None]
            weight.copy_(torch.randn(weight.shape, generator=generator) * gain / fan_in.sqrt())
            bias.copy_((2 * torch.rand(bias.shape, generator=generator) - 1) * (0 if layer == last else 1))
        self.theta.mul_(self.mask)

    def _cut_panels(self) -> list[list[Panel]]:
        panels: list[list[Panel]] = []
        for (n_out, _), reach in zip(self._shapes, self._reach, strict=True):
            # the reach starts at 0 for each of the k parameters, and no panel crosses from one to the next
            group = self.n_features if reach is self._reach[-1] else n_out
            size = math.ceil(group / math.ceil(group / _PANEL_ROWS))
            starts = [g + s for g in range(0, n_out, group) for s in range(0, group, size)]
            panels.append([(a, b, int(reach[b - 1])) for a, b in pairwise([*starts, n_out])])
        return panels

    def layers(self) -> tuple[list[Tensor], list[Tensor]]:
        """Return views of the weights, (n_out, n_in) each, and of the biases, (n_out,) each."""
        weights, _ = self._cached
        # theta may have moved: to another device or type, into a longer vector, or into a copy of this module
        if not weights or weights[0].data_ptr() != self.theta.data_ptr():
            self._cached = self._views(self.theta.detach())
            self._transposed = [weight.t() for weight in self._cached[0]]
        return self._cached

    def _views(self, vector: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        parts = vector.split(self._sizes)
        weights = [part.view(shape) for part, shape in zip(parts[::2], self._shapes, strict=True)]
        return weights, list(parts[1::2])

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the views, which a copy builds itself and a file would store as copies of the weights."""
        return {**vars(self), "_cached": ([], []), "_transposed": []}

    def forward(self, x: Tensor) -> Tensor:
        """Return the parameters of every coordinate, (n, d) to (n, k, d)."""
        out: Tensor = _MaskedNetFunction.apply(x, self, self.theta)
        return out.view(len(x), self.n_params, self.n_features)

    def run(self, x: Tensor) -> tuple[list[Tensor], Tensor]:
        """Run the layers outside autograd: the input of each, for `pull`, and the output, (n, k·d)."""
        _, biases = self.layers()
        inputs = [x]
        for layer, bias in enumerate(biases[:-1]):
            inputs.append(self._multiply(layer, bias, inputs[-1]).relu_())
        return inputs, self._multiply(len(biases) - 1, biases[-1], inputs[-1])

    def pull(self, inputs: list[Tensor], grad: Tensor, needs_x: bool) -> tuple[Tensor | None, Tensor]:
        """Return the gradients of x, if it is needed, and of `theta` from that of the output, (n, k·d)."""
        weights, _ = self.layers()
        grad_theta = grad.new_empty(len(self.theta))
        grad_weights, grad_biases = self._views(grad_theta)
        for layer in range(len(weights) - 1, -1, -1):
            torch.sum(grad, 0, out=grad_biases[layer])
            self._multiply_weight(layer, grad, inputs[layer], grad_weights[layer])
            if layer == 0 and not needs_x:
                return None, grad_theta.mul_(self.mask)
            grad = self._multiply_back(layer, grad, weights[layer])
            if layer:
                grad = torch.ops.aten.threshold_backward(grad, inputs[layer], 0)
        return grad, grad_theta.mul_(self.mask)

    def _multiply(self, layer: int, bias: Tensor, h: Tensor) -> Tensor:
        weight = self._transposed[layer]  # (n_in, n_out)
        if self._panels is None:
            return torch.addmm(bias, h, weight)
        out = h.new_empty(len(h), len(bias))
        for a, b, c in self._panels[layer]:
            torch.addmm(bias[a:b], h[:, :c], weight[:c, a:b], out=out[:, a:b])
        return out

    def _multiply_weight(self, layer: int, grad: Tensor, h: Tensor, out: Tensor) -> None:
        if self._panels is None:
            torch.mm(grad.t(), h, out=out)
            return
        for a, b, c in self._panels[layer]:
            torch.mm(grad[:, a:b].t(), h[:, :c], out=out[a:b, :c])
            out[a:b, c:] = 0

    def _multiply_back(self, layer: int, grad: Tensor, weight: Tensor) -> Tensor:
        if self._panels is None:
            return grad @ weight
        out = grad.new_zeros(len(grad), weight.shape[1])
        for a, b, c in self._panels[layer]:
            out[:, :c].addmm_(grad[:, a:b], weight[a:b, :c])
        return out

    @torch.no_grad()
    def invert(self, z: Tensor, solve: Solve) -> Pair:
        """Find x coordinate by coordinate: (n, d) to (n, d), and the log-determinant, of shape (n,)."""
        x, log_det = zip(*(self._invert_rows(part, solve) for part in z.split(_INVERSE_ROWS)), strict=True)
        return torch.cat(x), torch.cat(log_det)

    def _invert_rows(self, z: Tensor, solve: Solve) -> Pair:
        z = z.t().contiguous()  # (d, m): a coordinate, or a unit, is one contiguous row
        values = [z.new_empty(n_in, z.shape[1]) for _, n_in in self._shapes]  # x, then each hidden layer
        log_det = z.new_zeros(z.shape[1])
        for first in range(0, self.n_features, _INVERSE_COORDINATES):
            last = min(first + _INVERSE_COORDINATES, self.n_features)
            self._invert_panel(first, last, values, log_det, z, solve)
        return values[0].t().contiguous(), log_det

    def _invert_panel(
        self, first: int, last: int, values: list[Tensor], log_det: Tensor, z: Tensor, solve: Solve
    ) -> None:
        """Solve coordinates first…last−1 from the units that see only coordinates before them."""
        weights, biases = self.layers()
        w_out, b_out = (t.view(self.n_params, self.n_features, -1) for t in (weights[-1], biases[-1]))
        # units of degree first + j, complete once that many coordinates are, lie at edges[j-1] : edges[j]
        steps = torch.arange(first, last + 1)
        edges = [torch.searchsorted(degrees, steps, right=True).tolist() for degrees in self._degrees]
        done = [first, *(edge[0] for edge in edges)]
        for layer, edge in enumerate(edges):  # the part of complete units in this panel: one product a layer
            a, b, c = edge[0], edge[-1], done[layer]
            out = values[layer + 1][a:b]
            torch.addmm(biases[layer][a:b, None], weights[layer][a:b, :c], values[layer][:c], out=out)
        c = done[-1]
        units = values[-1][:c].expand(self.n_params, -1, -1)
        params = torch.baddbmm(b_out[:, first:last], w_out[:, first:last, :c], units)  # (k, last - first, m)
        for j in range(last - first):
            now = edges[-1][j]
            p = torch.addmm(params[:, j], w_out[:, first + j, c:now], values[-1][c:now]) if now > c else params[:, j]
            values[0][first + j], share = solve(p, z[first + j])
            log_det += share
            stop = first + j + 1
            for layer, edge in enumerate(edges):  # units that this coordinate completes
                a, b, start = edge[j], edge[j + 1], done[layer]
                if a < b:
                    new = values[layer + 1][a:b]
                    new.addmm_(weights[layer][a:b, start:stop], values[layer][start:stop]).relu_()
                stop = b


def _hide(net: MaskedNet, _: Any) -> None:
    """Set every masked weight to zero after loading."""
    with torch.no_grad():
        net.theta.mul_(net.mask)


class _MaskedNetFunction(torch.autograd.Function):
    """`MaskedNet.run`, with `MaskedNet.pull` as its backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, net: MaskedNet, theta: Tensor) -> Tensor:
        ctx.net = net
        ctx.inputs, out = net.run(x)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        grad_x, grad_theta = ctx.net.pull(ctx.inputs, grads[0].contiguous(), ctx.needs_input_grad[0])
        return grad_x, None, grad_theta
