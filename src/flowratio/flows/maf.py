"""The masked autoregressive flow (MAF): masked affine maps, the order of the coordinates reversed after each.

The backward pass is written by hand: on tables the number of operations decides the time of a training step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from flowratio.flows.base import Flow, Pair, check_shape
from flowratio.flows.masked import MaskedNet

_Tape: TypeAlias = tuple[list[Tensor], Tensor | None, Tensor, Tensor]  # of a block: inputs, tanh(a/c), exp(a), z

_EPS = 1e-5  # added to the variance, as in torch
_MOMENTUM = 0.1  # share of the newest batch in the running statistics, as in torch


class MAF(Flow):
    r"""Masked autoregressive flow [1]_: each coordinate is shifted and scaled by functions of those before it.

    .. math:: z_i = (x_i + m_i(x_{<i}))\, e^{a_i(x_{<i})}, \qquad \log\left|\det\right| = \sum_i a_i

    Parameters
    ----------
    n_features, n_blocks, hidden
        Number of columns d, number of masked blocks, and widths of the hidden layers of each block. The order of the
        coordinates is reversed after each block.
    batch_norm
        Whether batch normalization follows each block. Training uses the statistics of the batch, evaluation and the
        inverse use their running averages.
    max_log_scale
        Soft bound c on the log-scales, c·tanh(·/c), so that the map is finite far from the data, or None.
    generator
        Source of the initial weights, by default with torch's default seed.

    References
    ----------
    .. [1] Papamakarios, Pavlakou, Murray (2017). *Masked Autoregressive Flow for Density Estimation.*

    Examples
    --------
    >>> flow, x = MAF(3), torch.tensor([[0.5, -1.0, 2.0]])
    >>> torch.allclose(flow.inverse(flow(x)[0])[0], x, atol=1e-5)
    True
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self,
        n_features: int,
        *,
        n_blocks: int = 5,
        hidden: Sequence[int] = (100, 100),
        batch_norm: bool = False,
        max_log_scale: float | None = 2.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(n_features)
        check_shape(n_blocks, hidden)
        if max_log_scale is not None and max_log_scale <= 0:
            raise ValueError(f"`max_log_scale` is {max_log_scale}. Use a number above 0, or None.")
        self.n_blocks, self.hidden = n_blocks, hidden
        self.batch_norm, self.max_log_scale = batch_norm, max_log_scale
        generator = generator or torch.Generator()  # the global generator is never used
        self._nets = [MaskedNet(n_features, 2, hidden, generator) for _ in range(n_blocks)]
        self.nets = nn.ModuleList(self._nets)
        if batch_norm:
            zeros = torch.zeros(n_blocks, n_features)
            self.norm_log_scale, self.norm_shift = nn.Parameter(zeros.clone()), nn.Parameter(zeros.clone())
            self.register_buffer("running_mean", zeros)
            self.register_buffer("running_var", torch.ones_like(zeros))

    def forward(self, x: Tensor) -> Pair:
        if self.batch_norm and self.training and len(x) < 2:
            raise ValueError("Batch normalization cannot train on a batch of 1 row. Use a larger `batch_size`.")
        norm = (self.norm_log_scale, self.norm_shift) if self.batch_norm else (None, None)
        if not torch.is_grad_enabled():  # no tape: memory is that of one block
            return _run(self, x, self._norms(*norm), norm[0], None)
        return _MAFFunction.apply(x, self, *norm, *(net.theta for net in self._nets))

    @torch.no_grad()
    def inverse(self, z: Tensor) -> Pair:
        if self.batch_norm and self.training:
            raise RuntimeError("The inverse of batch normalization needs running statistics. Call `.eval()` first.")
        log_det = z.new_zeros(len(z))
        for block in range(self.n_blocks - 1, -1, -1):
            z = z.flip(1)
            if self.batch_norm:
                std = (self.running_var[block] + _EPS).sqrt()
                log_scale = self.norm_log_scale[block] - std.log()
                z = (z - self.norm_shift[block]) * torch.exp(-log_scale) + self.running_mean[block]
                log_det += log_scale.sum()
            z, share = self._nets[block].invert(z, self._solve)
            log_det += share
        return z, log_det

    def _norms(self, log_scale: Tensor | None, shift: Tensor | None) -> list[_Norm]:
        if log_scale is None or shift is None:
            return []
        parts = (log_scale.exp().unbind(), shift.unbind(), self.running_mean.unbind(), self.running_var.unbind())
        return [_Norm(*part, self.training) for part in zip(*parts, strict=True)]

    def _solve(self, params: Tensor, z: Tensor) -> Pair:
        shift, log_scale = params
        if self.max_log_scale is not None:
            log_scale = (log_scale / self.max_log_scale).tanh_().mul_(self.max_log_scale)
        return torch.addcmul(-shift, z, torch.exp(-log_scale)), log_scale


class _Norm:
    """Batch normalization of one block, by the statistics of the batch in training and by running ones otherwise."""

    def __init__(self, gamma: Tensor, shift: Tensor, mean: Tensor, var: Tensor, training: bool) -> None:
        self.gamma, self.shift, self.running, self.training = gamma, shift, (mean, var), training
        self.mean = self.inverse_std = mean

    def forward(self, z: Tensor) -> Tensor:
        """Normalize z, (n, d), and in training move the running statistics."""
        y, self.mean, self.inverse_std = torch.native_batch_norm(
            z, self.gamma, self.shift, *self.running, self.training, _MOMENTUM, _EPS
        )
        if not self.training:
            self.mean, self.inverse_std = self.running[0], (self.running[1] + _EPS).rsqrt_()
        return y

    def backward(self, z: Tensor, grad: Tensor, total: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of z, of log γ and of the shift. `total` sums the gradients of the log-determinants."""
        grad_z, grad_gamma, grad_shift = torch.ops.aten.native_batch_norm_backward(
            grad, z, self.gamma, *self.running, self.mean, self.inverse_std, self.training, _EPS, [True, True, True]
        )
        if self.training:  # the log-determinant has −½ Σ log(v + ε), whose gradient is −(z − mean)/(n (v + ε))
            grad_z.addcmul_(z - self.mean, self.inverse_std.square().mul_(total), value=-1 / len(z))
        return grad_z, grad_gamma.mul_(self.gamma), grad_shift


def _run(flow: MAF, x: Tensor, norms: list[_Norm], norm_log_scale: Tensor | None, tapes: list[_Tape] | None) -> Pair:
    """Map x through all blocks outside autograd, and append to `tapes` what the backward pass needs."""
    log_scales = torch.zeros_like(x)  # their sum over blocks, in any order of the coordinates
    for block, net in enumerate(flow._nets):
        inputs, out = net.run(x)
        shift, log_scale = out.split(flow.n_features, 1)
        bounded = None
        if flow.max_log_scale is not None:
            bounded = (log_scale / flow.max_log_scale).tanh_()
            log_scale = bounded * flow.max_log_scale
        log_scales += log_scale
        scale = log_scale.exp()
        z = (x + shift).mul_(scale)
        if tapes is not None:
            tapes.append((inputs, bounded, scale, z))
        x = (norms[block].forward(z) if norms else z).flip(1)
    log_det = log_scales.sum(1)
    if norm_log_scale is not None:
        log_det += norm_log_scale.sum() + torch.cat([norm.inverse_std for norm in norms]).log_().sum()
    return x, log_det


class _MAFFunction(torch.autograd.Function):
    """The forward pass of all blocks, and its backward pass by hand."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, flow: MAF, norm_log_scale: Tensor | None, norm_shift: Tensor | None, *thetas: Tensor
    ) -> Pair:
        ctx.flow, ctx.tapes, ctx.norms = flow, [], flow._norms(norm_log_scale, norm_shift)
        return _run(flow, x, ctx.norms, norm_log_scale, ctx.tapes)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        flow: MAF = ctx.flow
        grad, grad_log_det = grads
        total = grad_log_det.sum()
        grad_thetas: list[Tensor] = []
        grad_norms: list[list[Tensor]] = []
        for block in range(flow.n_blocks - 1, -1, -1):
            inputs, bounded, scale, z = ctx.tapes[block]
            grad = grad.flip(1)
            if ctx.norms:
                grad, *grad_norm = ctx.norms[block].backward(z, grad, total)
                grad_norms.append(grad_norm)
            grad_x = grad * scale  # z = (x + m) exp(a): ∂z/∂x = ∂z/∂m = exp(a), ∂z/∂a = z
            grad_a = torch.addcmul(grad_log_det[:, None], grad, z)
            if bounded is not None:
                grad_a = torch.ops.aten.tanh_backward(grad_a, bounded)
            needs_x, grad_out = block > 0 or ctx.needs_input_grad[0], torch.cat((grad_x, grad_a), 1)
            grad_in, grad_theta = flow._nets[block].pull(inputs, grad_out, needs_x)
            grad_thetas.append(grad_theta)
            grad = grad_x if grad_in is None else grad_x.add_(grad_in)
        grad_log_scale = grad_norm_shift = None
        if grad_norms:
            grad_log_scale, grad_norm_shift = (torch.stack(g[::-1]) for g in zip(*grad_norms, strict=True))
            grad_log_scale += total
        return grad, None, grad_log_scale, grad_norm_shift, *reversed(grad_thetas)
