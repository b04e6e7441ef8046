r"""The masked autoregressive flow (MAF): masked affine maps, the order of the coordinates reversed after each.

A block shifts and scales each coordinate by what a masked network makes of the coordinates before it,

.. math:: z_i = (x_i - \mu_i(x_{<i}))\, e^{-\alpha_i(x_{<i})},
          \qquad \log\left|\det\right| = -\sum_i \alpha_i

and batch normalization may follow it [1]_. The backward pass of the whole flow is written by hand: at the
sizes of tables, a training step costs the number of its operations, not their arithmetic.

References
----------
.. [1] Papamakarios, Pavlakou, Murray (2017). *Masked Autoregressive Flow for Density Estimation.*
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from flowratio.flows.base import Flow
from flowratio.flows.masked import MaskedNet

_EPS = 1e-5  # added to the variance, as in torch
_MOMENTUM = 0.1  # share of the newest batch in the running statistics, as in torch


class MAF(Flow):
    """Masked autoregressive flow.

    Parameters
    ----------
    n_features
        Number of columns d.
    n_blocks
        Number of masked blocks; the order of the coordinates is reversed after each.
    hidden
        Widths of the hidden layers of each block's network.
    batch_norm
        Whether batch normalization follows each block: by the statistics of the batch in training, by their
        running averages in evaluation and in the inverse.
    max_log_scale
        Soft bound c on the log-scales, α = c·tanh(a/c), which keeps the map finite far from the data; `None` for
        no bound.
    generator
        Source of the initial weights; the global generator is never used.

    Examples
    --------
    >>> flow = MAF(3, generator=torch.Generator().manual_seed(0)).eval()
    >>> x = torch.tensor([[0.5, -1.0, 2.0]])
    >>> z, log_det = flow(x)
    >>> bool((flow.inverse(z)[0] - x).abs().max() < 1e-5)
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
        max_log_scale: float | None = 5.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(n_features)
        if n_blocks < 1:
            raise ValueError(f"`n_blocks` is {n_blocks}: a flow needs at least 1 block.")
        if max_log_scale is not None and max_log_scale <= 0:
            raise ValueError(f"`max_log_scale` is {max_log_scale}: give a positive bound, or None for no bound.")
        self.n_blocks, self.hidden = n_blocks, hidden
        self.batch_norm, self.max_log_scale = batch_norm, max_log_scale
        self._nets = [MaskedNet(n_features, 2, hidden, generator) for _ in range(n_blocks)]
        self.nets = nn.ModuleList(self._nets)
        if batch_norm:
            self.norm_log_scale = nn.Parameter(torch.zeros(n_blocks, n_features))
            self.norm_shift = nn.Parameter(torch.zeros(n_blocks, n_features))
            self.register_buffer("running_mean", torch.zeros(n_blocks, n_features))
            self.register_buffer("running_var", torch.ones(n_blocks, n_features))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map x to z: (n, d) to (n, d), and the log-determinant of x → z, of shape (n,)."""
        thetas = [net.theta for net in self._nets]
        norm = (self.norm_log_scale, self.norm_shift) if self.batch_norm else (None, None)
        return _MAFFunction.apply(x, self, *norm, *thetas)

    @torch.no_grad()
    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Map z to x: (n, d) to (n, d), and the log-determinant of x → z, of shape (n,)."""
        if self.batch_norm and self.training:
            raise RuntimeError("Batch normalization is inverted by its running statistics: call `.eval()` first.")
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

    def _solve(self, params: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        mu, log_scale = params
        if self.max_log_scale is not None:
            log_scale = torch.tanh(log_scale / self.max_log_scale).mul_(self.max_log_scale)
        return torch.addcmul(mu, z, log_scale.exp()), -log_scale


class _Tape(NamedTuple):
    """What one block leaves for the backward pass; all (n, d) but the statistics of the batch, (d,)."""

    inputs: list[Tensor]
    bounded: Tensor | None  # α/c, where the log-scale is bounded
    scale: Tensor  # exp(−α)
    z: Tensor
    mean: Tensor | None
    inverse_std: Tensor | None


class _MAFFunction(torch.autograd.Function):
    """The forward pass of all blocks, and its backward pass by hand."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, flow: MAF, log_scale: Tensor | None, shift: Tensor | None, *thetas: Tensor
    ) -> tuple[Tensor, Tensor]:
        d, bound = flow.n_features, flow.max_log_scale
        ctx.flow, ctx.training, ctx.tape = flow, flow.training, []
        ctx.gamma = None if log_scale is None else log_scale.exp()
        log_det = x.new_zeros(len(x))
        for block, net in enumerate(flow._nets):
            inputs, out = net.run(x)
            mu, alpha = out[:, :d], out[:, d:]
            bounded = None
            if bound is not None:
                bounded = torch.tanh(alpha / bound)
                alpha = bounded * bound
            log_det -= alpha.sum(1)
            scale = torch.exp(-alpha)
            z = (x - mu).mul_(scale)
            x, mean, inverse_std = _normalize(flow, block, z, ctx.gamma, shift)
            ctx.tape.append(_Tape(inputs, bounded, scale, z, mean, inverse_std))
            x = x.flip(1)
        if log_scale is not None:
            log_det += log_scale.sum() + torch.stack([tape.inverse_std for tape in ctx.tape]).log_().sum()
        return x, log_det

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        flow: MAF = ctx.flow
        grad, grad_log_det = grads
        n, d = grad.shape
        total = grad_log_det.sum()
        grad_thetas: list[Tensor] = []
        grad_norms: list[tuple[Tensor, Tensor]] = []
        for block in range(flow.n_blocks - 1, -1, -1):
            tape: _Tape = ctx.tape[block]
            grad = grad.flip(1)
            if flow.batch_norm:
                grad, *grad_norm = _normalize_backward(ctx, block, tape, grad, total)
                grad_norms.append(grad_norm)
            grad_x = grad * tape.scale  # z = (x − μ) exp(−α): ∂z/∂x = −∂z/∂μ = exp(−α), ∂z/∂α = −z
            grad_out = grad.new_empty(n, 2 * d)
            torch.neg(grad_x, out=grad_out[:, :d])
            grad_alpha = torch.addcmul(grad_log_det[:, None], grad, tape.z).neg_()
            if tape.bounded is not None:
                grad_alpha.addcmul_(grad_alpha, tape.bounded.square_(), value=-1)
            grad_out[:, d:] = grad_alpha
            needs_x = block > 0 or ctx.needs_input_grad[0]
            grad_in, grad_theta = flow._nets[block].pull(tape.inputs, grad_out, needs_x)
            grad_thetas.append(grad_theta)
            grad = grad_x if grad_in is None else grad_x.add_(grad_in)
        grad_log_scale = grad_shift = None
        if grad_norms:
            grad_gamma, grad_shift = (torch.stack(g[::-1]) for g in zip(*grad_norms, strict=True))
            grad_log_scale = grad_gamma.mul_(ctx.gamma).add_(total)
        return grad, None, grad_log_scale, grad_shift, *reversed(grad_thetas)


def _normalize(flow: MAF, block: int, z: Tensor, gamma: Tensor | None, shift: Tensor | None) -> tuple[Any, Any, Any]:
    """Batch-normalize z, (n, d), and move the running statistics if in training."""
    if gamma is None or shift is None:
        return z, None, None
    mean, var = flow.running_mean[block], flow.running_var[block]
    out = torch.native_batch_norm(z, gamma[block], shift[block], mean, var, flow.training, _MOMENTUM, _EPS)
    return out if flow.training else (out[0], mean, (var + _EPS).rsqrt_())


def _normalize_backward(ctx: Any, block: int, tape: _Tape, grad: Tensor, total: Tensor) -> list[Tensor]:
    """Pull a gradient back through batch normalization: to z, to its scale γ and to its shift.

    In training the log-determinant has −½ Σ log v of the batch in it, whose gradient is −(z − m)/(n (v + ε)).
    """
    flow, z, mean, inverse_std = ctx.flow, tape.z, tape.mean, tape.inverse_std
    mean_run, var_run = flow.running_mean[block], flow.running_var[block]
    grad_z, grad_gamma, grad_shift = torch.ops.aten.native_batch_norm_backward(
        grad, z, ctx.gamma[block], mean_run, var_run, mean, inverse_std, ctx.training, _EPS, [True, True, True]
    )
    if ctx.training:
        grad_z.addcmul_(z - mean, inverse_std.square().mul_(total), value=-1 / len(z))
    return [grad_z, grad_gamma, grad_shift]
