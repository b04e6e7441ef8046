r"""Rational-quadratic spline flows: a monotone spline maps each coordinate. Its shape depends on other coordinates.

On [−B, B] a spline has K bins of widths :math:`w_k` and heights :math:`h_k`, with derivatives :math:`\delta_k` at the
knots :math:`(x_k, y_k)`. Outside it is the identity, and the outermost derivatives are 1 [1]_. In bin k, with
:math:`s = h_k / w_k` and :math:`u = (x - x_k) / w_k`,

.. math:: z = y_k + h_k \frac{s u^2 + \delta_k u(1 - u)}{s + (\delta_k + \delta_{k+1} - 2s)\, u(1 - u)}

Learned constants first shift and scale each coordinate, so that a long tail fits inside the bound.

.. [1] Durkan, Bekasov, Murray, Papamakarios (2019). *Neural Spline Flows.*
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flowratio._support.validation import check_count, check_positive
from flowratio.flows.base import Flow, Pair, check_shape
from flowratio.flows.coupling import CouplingFlow
from flowratio.flows.masked import MaskedNet

# soft bound c on the raw parameters, c·tanh(·/c), so that the map can be inverted in float32 far from the data
_MAX_RAW = 2.0


def rational_quadratic(x: Tensor, params: Tensor, bound: float) -> Pair:
    """Map x, (…, m), through its spline: z, and the log-derivative of x → z, each of the shape of x.

    Of params, (…, 3K − 1, m), K are the widths and K the heights, through a softmax, and K − 1 the inner derivatives,
    through an exponential. Zeros give the identity.
    """
    value = x.clamp(-bound, bound) + bound
    left, bottom, width, height, *slopes = _locate(value, params, bound, searched=0)
    u, s = (value - left) / width, height / width
    num = torch.addcmul(slopes[0] * u * (1 - u), s * u, u)
    den, log_slope = _denominator_and_log_slope(u, s, *slopes)
    inside = x.abs() < bound
    return torch.where(inside, torch.addcdiv(bottom - bound, height * num, den), x), log_slope * inside


def rational_quadratic_inverse(z: Tensor, params: Tensor, bound: float) -> Pair:
    """Map z back through its spline: x, and the log-derivative of x → z (not of z → x), each of the shape of z."""
    value = z.clamp(-bound, bound) + bound
    left, bottom, width, height, *slopes = _locate(value, params, bound, searched=1)
    s, rise = height / width, value - bottom
    bend = rise * (slopes[0] + slopes[1] - 2 * s)
    # a u² + b u = c with c ≥ 0. This form of the root has no difference of nearly equal numbers in float32
    a, b, c = height * (s - slopes[0]) + bend, height * slopes[0] - bend, s * rise
    root = torch.addcmul(b * b, a, c, value=4).clamp(min=torch.finfo(z.dtype).tiny).sqrt()
    u = torch.where(b < 0, root - b, 2 * c) / torch.where(b < 0, 2 * a, root + b)
    _, log_slope = _denominator_and_log_slope(u, s, *slopes)
    inside = z.abs() < bound
    return torch.where(inside, torch.addcmul(left - bound, u, width), z), log_slope * inside


def _locate(value: Tensor, params: Tensor, bound: float, *, searched: int) -> tuple[Tensor, ...]:
    """Find the bin of each value, counted from −bound, among the widths (`searched` = 0) or the heights (1).

    Return x_k + B, y_k + B, width, height, and the derivatives at both edges, each of the shape of the values.
    """
    n_bins = (params.shape[-2] + 1) // 3
    logits = (params[..., : 2 * n_bins, :] / _MAX_RAW).tanh() * _MAX_RAW
    sizes = logits.unflatten(-2, (2, n_bins)).softmax(-2) * (2 * bound)
    knots = sizes.cumsum(-2)  # right and upper edges, (…, 2, K, m)
    index = (knots[..., searched, :-1, :] <= value.unsqueeze(-2)).sum(-2, keepdim=True)  # (…, 1, m)
    both = index.unsqueeze(-3).expand(*sizes.shape[:-2], 1, -1)
    size = sizes.gather(-2, both).squeeze(-2)  # (…, 2, m)
    edge = knots.gather(-2, both).squeeze(-2) - size
    # a raw zero at both ends: derivative 1, where the identity begins
    raw = F.pad(params[..., 2 * n_bins :, :], (0, 0, 1, 1)).gather(-2, torch.cat([index, index + 1], -2))
    slopes = ((raw / _MAX_RAW).tanh() * _MAX_RAW).exp()
    return *edge.unbind(-2), *size.unbind(-2), *slopes.unbind(-2)


def _denominator_and_log_slope(u: Tensor, s: Tensor, slope_0: Tensor, slope_1: Tensor) -> Pair:
    """Return the spline's denominator, and log of its derivative s²(δ₁u² + 2su(1−u) + δ₀(1−u)²) / denominator²."""
    v = 1 - u
    uv = u * v
    den = torch.addcmul(s, slope_0 + slope_1 - 2 * s, uv)
    inner = torch.addcmul(torch.addcmul(2 * s * uv, slope_1 * u, u), slope_0 * v, v)
    return den, ((s / den).square() * inner).log()


class SplineMAF(Flow):
    """Autoregressive spline flow: the spline of each coordinate depends on the coordinates before it.

    Parameters
    ----------
    n_features, n_blocks, hidden, generator
        As in `MAF`.
    n_bins, bound
        Each spline has n_bins bins on [−bound, bound] and is the identity outside. Scale the data first.

    Examples
    --------
    >>> flow, x = SplineMAF(3), torch.tensor([[0.5, -1.0, 2.0]])
    >>> torch.allclose(flow.inverse(flow(x)[0])[0], x, atol=1e-5)
    True
    """

    def __init__(
        self,
        n_features: int,
        *,
        n_blocks: int = 3,
        hidden: Sequence[int] = (128, 128),
        n_bins: int = 8,
        bound: float = 5.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(n_features)
        check_shape(n_blocks, hidden)
        check_count(n_bins, "n_bins", least=2)
        check_positive(bound, "bound")
        self.n_blocks, self.hidden, self.n_bins, self.bound = n_blocks, hidden, n_bins, bound
        generator = generator or torch.Generator()  # the global generator is never used
        self._nets = [MaskedNet(n_features, 3 * n_bins - 1, hidden, generator) for _ in range(n_blocks)]
        self.nets = nn.ModuleList(self._nets)
        shape = n_blocks, n_features
        self.shifts, self.log_scales = nn.Parameter(torch.zeros(shape)), nn.Parameter(torch.zeros(shape))

    def forward(self, x: Tensor) -> Pair:
        log_slopes = -self.log_scales.sum(0)  # (d,), then (n, d), in any order of the columns
        for net, shift, scale in self._blocks():
            x = (x - shift) / scale
            x, log_slope = rational_quadratic(x, net(x), self.bound)
            log_slopes = log_slopes + log_slope
            x = x.flip(1)
        return x, log_slopes.sum(1)

    @torch.no_grad()
    def inverse(self, z: Tensor) -> Pair:
        x, log_det = z, -self.log_scales.sum()
        for net, shift, scale in reversed(self._blocks()):
            x, share = net.invert(x.flip(1), lambda params, z: rational_quadratic_inverse(z, params, self.bound))
            x = torch.addcmul(shift, x, scale)
            log_det = log_det + share
        return x, log_det

    def _blocks(self) -> list[tuple[MaskedNet, Tensor, Tensor]]:
        return list(zip(self._nets, self.shifts, self.log_scales.exp(), strict=True))


class SplineCoupling(CouplingFlow):
    """Coupling spline flow: the splines of one part of the coordinates depend on the rest. Each direction is one pass.

    Parameters
    ----------
    n_features, n_blocks, hidden, n_bins, bound, generator
        As in `SplineMAF`. With one block, d//2 of the coordinates are never mapped.

    Examples
    --------
    >>> flow, x = SplineCoupling(3), torch.tensor([[0.5, -1.0, 2.0]])
    >>> torch.allclose(flow.inverse(flow(x)[0])[0], x, atol=1e-5)
    True
    """

    def __init__(
        self,
        n_features: int,
        *,
        n_blocks: int = 6,
        hidden: Sequence[int] = (128, 128),
        n_bins: int = 8,
        bound: float = 5.0,
        generator: torch.Generator | None = None,
    ) -> None:
        check_count(n_bins, "n_bins", least=2)
        check_positive(bound, "bound")
        super().__init__(n_features, 3 * n_bins - 1, n_blocks, hidden, generator)
        self.n_bins, self.bound = n_bins, bound
        shape = n_blocks, n_features - n_features // 2
        self.shifts, self.log_scales = nn.Parameter(torch.zeros(shape)), nn.Parameter(torch.zeros(shape))

    def _map(self, block: int, params: Tensor, x: Tensor, inverse: bool) -> Pair:
        shift, log_scale = self.shifts[block], self.log_scales[block]
        if inverse:
            x, log_slope = rational_quadratic_inverse(x, params, self.bound)
            return torch.addcmul(shift, x, log_scale.exp()), log_slope - log_scale
        z, log_slope = rational_quadratic((x - shift) * torch.exp(-log_scale), params, self.bound)
        return z, log_slope - log_scale
