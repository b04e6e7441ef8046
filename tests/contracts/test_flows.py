"""What every flow in `FLOWS` promises, with each of its switches; and the gradients that MAF writes by hand."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from flowratio.flows import FLOWS, MAF, Flow
from flowratio.flows import masked as masked_module
from flowratio.flows.masked import MaskedNet


class Variant(NamedTuple):
    """A flow, and one of its switches turned from where it stands by default."""

    name: str
    switch: dict[str, bool]

    def build(self, d: int, seed: int | None = 0, **arguments: Any) -> Flow:
        generator = {} if seed is None else {"generator": torch.Generator().manual_seed(seed)}
        return FLOWS[self.name](d, **{"n_blocks": 3, "hidden": (16, 16), **self.switch, **arguments, **generator})


def variants() -> list[Variant]:
    result: list[Variant] = []
    for name, flow in FLOWS.items():
        switches = {
            key: not p.default for key, p in inspect.signature(flow).parameters.items() if isinstance(p.default, bool)
        }
        result += [Variant(name, {}), *(Variant(name, {key: value}) for key, value in switches.items())]
    return result


VARIANTS = variants()
every_flow = pytest.mark.parametrize(
    "variant", VARIANTS, ids=[" ".join([v.name, *(f"{k}={on}" for k, on in v.switch.items())]) for v in VARIANTS]
)
every_d = pytest.mark.parametrize("d", [1, 2, 5])


def rows(n: int, d: int, seed: int = 1, scale: float = 1.5) -> Tensor:
    return scale * torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def perturb(flow: Flow, spread: float = 0.1) -> Flow:
    """Move a flow away from where it starts, in float64 and evaluation mode; running statistics have seen rows."""
    generator = torch.Generator().manual_seed(3)
    flow.double()
    state = flow.state_dict()
    for name, parameter in flow.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        state[name] = parameter.detach() + spread * noise
    flow.load_state_dict(state)  # weights that a mask hides stay zero
    flow.train()
    with torch.no_grad():
        for seed in range(30):
            flow(rows(100, flow.n_features, seed=100 + seed))
    return flow.eval()


def masks(flow: Flow) -> dict[str, Tensor]:
    nets = {name: module for name, module in flow.named_modules() if isinstance(module, MaskedNet)}
    return {f"{name}.theta": net.mask for name, net in nets.items()}


def jacobians(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Slopes of a function that maps each row by itself, (n, d) to (n, …): (n, …, d)."""
    slopes = torch.autograd.functional.jacobian(lambda x: function(x).sum(0), x)  # (…, n, d)
    return torch.as_tensor(slopes).movedim(-2, 0)


def global_states() -> tuple[bytes, str]:
    return torch.get_rng_state().numpy().tobytes(), str(np.random.get_state())  # noqa: NPY002 - to see it untouched


def test_batch_norm_is_among_the_switches() -> None:
    assert Variant("maf", {"batch_norm": True}) in VARIANTS


@every_flow
@every_d
def test_log_det_is_that_of_the_jacobian(variant: Variant, d: int) -> None:
    flow, x = perturb(variant.build(d)), rows(50, d)
    expected = torch.linalg.slogdet(jacobians(lambda x: flow(x)[0], x))[1]
    # the determinant of a product of a few triangular matrices with entries near 1, in float64
    assert torch.allclose(flow(x)[1], expected, rtol=0, atol=1e-10)


@every_flow
@every_d
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)], ids=["64", "32"])
def test_inverse_both_ways_with_the_log_det_of_x_to_z(
    variant: Variant, d: int, dtype: torch.dtype, tolerance: float
) -> None:
    # the digits lost are those of the stretch: in float32 the map is closer to where a flow starts
    spread = 0.1 if dtype == torch.float64 else 0.03
    flow, x = perturb(variant.build(d), spread).to(dtype), rows(300, d).to(dtype)
    with torch.no_grad():
        for there, back in ((flow.forward, flow.inverse), (flow.inverse, flow.forward)):
            y, log_det = there(x)
            again, log_det_back = back(y)
            assert y.shape == x.shape
            assert log_det.shape == (300,)
            assert float((again - x).abs().max()) < tolerance
            assert float((log_det_back - log_det).abs().max()) < tolerance


@every_flow
@every_d
def test_rows_do_not_see_each_other_in_evaluation(variant: Variant, d: int) -> None:
    flow, x = perturb(variant.build(d)), rows(20, d)
    z, log_det = flow(x)
    for i in range(20):
        z_i, log_det_i = flow(x[i : i + 1])
        assert torch.allclose(z_i[0], z[i], rtol=0, atol=1e-12)
        assert torch.allclose(log_det_i[0], log_det[i], rtol=0, atol=1e-12)


@every_flow
def test_density_integrates_to_one_in_one_dimension(variant: Variant) -> None:
    flow = perturb(variant.build(1), spread=0.4)
    with torch.no_grad():
        ends = flow.inverse(torch.tensor([[-9.0], [9.0]], dtype=torch.float64))[0].flatten().sort().values
        grid = torch.linspace(float(ends[0]), float(ends[1]), 20_001, dtype=torch.float64)
        density = flow.log_prob(grid[:, None]).exp()
    # beyond |z| = 9 lie 2e-19; the density has kinks at knots at most: the rule errs by a part of the step squared,
    # (30 / 20000)² = 2e-6, times the few kinks' jumps in slope
    assert float(torch.trapezoid(density, grid)) == pytest.approx(1, abs=2e-6)


@every_flow
def test_density_integrates_to_one_in_two_dimensions(variant: Variant) -> None:
    flow = perturb(variant.build(2))
    angle = torch.linspace(0, 2 * math.pi, 721, dtype=torch.float64)[:, None]
    with torch.no_grad():
        edge = torch.cat([r * torch.cat([angle.cos(), angle.sin()], 1) for r in (4.0, 5.0)])
        low, high = flow.inverse(edge)[0].aminmax(dim=0)
        axes = [torch.linspace(float(a), float(b), 401, dtype=torch.float64) for a, b in zip(low, high, strict=True)]
        density = flow.log_prob(torch.cartesian_prod(*axes)).exp().view(401, 401)
    total = float(torch.trapezoid(torch.trapezoid(density, axes[1]), axes[0]))
    # outside the circle |z| = 5 lie exp(-12.5) = 4e-6, and the map takes its inside into the box; the kinks of ReLU
    # networks cost a part of the step squared, (20 / 400)² = 2.5e-3; a log-determinant off by 0.01 would cost 1e-2
    assert total == pytest.approx(1, abs=1e-3)


@every_flow
@pytest.mark.parametrize("d", [2, 5])
def test_gradients_reach_every_unmasked_parameter(variant: Variant, d: int) -> None:
    reached: dict[str, Tensor] = {}
    values: dict[str, Tensor] = {}
    for seed in range(14):  # two units may never be active together, but not in each of fourteen networks
        flow = perturb(variant.build(d, seed))
        flow.log_prob(rows(400, d, scale=3)).sum().backward()
        values = {name: torch.ones_like(p) for name, p in flow.named_parameters()} | masks(flow)
        for name, p in flow.named_parameters():
            assert p.grad is not None, name
            reached[name] = (p.grad != 0) | reached.get(name, torch.tensor(False))
    for name, mask in values.items():
        assert torch.equal(reached[name], mask != 0), name


@every_flow
def test_gradients_reach_parameters_with_one_column(variant: Variant) -> None:
    flow = perturb(variant.build(1))
    flow.log_prob(rows(500, 1)).sum().backward()
    # what would see other columns sees none: constants alone are learned, a shift and a scale at least, in each block
    n_reached = sum(int((p.grad != 0).sum()) for p in flow.parameters() if p.grad is not None)
    assert n_reached >= 3 * 2


@every_flow
@every_d
@pytest.mark.parametrize("training", [False, True])
def test_gradients_are_slopes_of_the_loss(variant: Variant, d: int, training: bool) -> None:
    flow, x = perturb(variant.build(d)).train(training), rows(30, d).requires_grad_()
    generator = torch.Generator().manual_seed(5)
    weights = torch.randn(30, generator=generator, dtype=torch.float64)
    point = [x, *flow.parameters()]
    grads = torch.autograd.grad((flow.log_prob(x) * weights).sum(), point, materialize_grads=True)
    values = masks(flow)
    hidden = [torch.ones_like(x), *(values.get(name, torch.ones_like(p)) for name, p in flow.named_parameters())]
    directions = [m * torch.randn(m.shape, generator=generator, dtype=torch.float64) for m in hidden]
    slope = sum(float((g * v).sum()) for g, v in zip(grads, directions, strict=True))

    @torch.no_grad()
    def loss(step: float) -> float:
        for p, v in zip(point, directions, strict=True):
            p += step * v
        value = float((flow.log_prob(x) * weights).sum())
        for p, v in zip(point, directions, strict=True):
            p -= step * v
        return value

    step = 1e-7  # so short that no kink of a ReLU network is crossed
    # rounding costs 1e-16 · |loss| / step, some 1e-6 of a slope as large as the loss
    assert (loss(step) - loss(-step)) / (2 * step) == pytest.approx(slope, rel=1e-5, abs=1e-5)


@every_flow
@pytest.mark.parametrize("hidden", [(16,), (16, 11), (16, 9, 16)])
def test_a_masked_block_is_autoregressive(variant: Variant, hidden: tuple[int, ...]) -> None:
    d = 5
    flow = perturb(variant.build(d, n_blocks=1, hidden=hidden))
    nets = [module for module in flow.modules() if isinstance(module, MaskedNet)]
    below = torch.ones(d, d, dtype=torch.bool).tril(-1)
    x = rows(40, d)
    for net in nets:
        reached = jacobians(net, x).abs().sum(0)  # of every parameter of coordinate i in x_j, (k, d, d)
        assert (reached[:, ~below] == 0).all()  # to the last bit: row i and columns from i on
        assert (reached[:, below] > 0).all()
    if nets:
        blocks = jacobians(lambda x: flow(x)[0].flip(1), x)  # the order is reversed after a block
        assert (blocks.triu(1) == 0).all()
        assert (blocks.diagonal(dim1=1, dim2=2) > 0).all()


@every_flow
def test_same_generator_same_bits_and_global_generators_stay(variant: Variant) -> None:
    before = global_states()
    flows = [variant.build(3, seed).eval() for seed in (5, 5, 6, None, None)]
    x = rows(10, 3).float()
    with torch.no_grad():
        z = [flow(x)[0] for flow in flows]
    draws = [flow.sample(7, torch.Generator().manual_seed(0)) for flow in flows]
    assert global_states() == before
    for values in (z, draws):
        assert torch.equal(values[0], values[1])
        assert not torch.equal(values[0], values[2])
        assert torch.equal(values[3], values[4])
    other = flows[0].sample(7, torch.Generator().manual_seed(1))
    assert not torch.equal(other, draws[0])


@every_flow
def test_samples_have_the_density_of_the_flow(variant: Variant) -> None:
    flow = perturb(variant.build(2))
    x = flow.sample(4000, torch.Generator().manual_seed(0))
    with torch.no_grad():
        z, _ = flow(x)
    # standard errors of a mean and of a second moment of 4000 normals: 0.016 and 0.022
    assert float(z.mean(0).abs().max()) < 0.08
    assert float((z.T @ z / 4000 - torch.eye(2)).abs().max()) < 0.1


@every_flow
def test_config_and_state_rebuild_the_flow(variant: Variant) -> None:
    flow, x = perturb(variant.build(3)), rows(10, 3)
    config = flow.config()
    assert config == {**config, "n_features": 3, "n_blocks": 3, "hidden": (16, 16), **variant.switch}
    again = type(flow)(**config).double().eval()
    again.load_state_dict(flow.state_dict())
    for a, b in zip(flow(x), again(x), strict=True):
        assert torch.equal(a, b)


@every_flow
def test_a_copy_has_weights_of_its_own(variant: Variant) -> None:
    flow, x = perturb(variant.build(3)), rows(10, 3)
    z = flow(x)[0].detach()
    twin = copy.deepcopy(flow)
    with torch.no_grad():
        for p in flow.parameters():
            p *= 1.5
    assert not torch.equal(flow(x)[0], z)
    assert torch.equal(twin(x)[0], z)
    # a copy whose weights move to where those of the first flow were: memory is used again once a flow is gone
    twin = copy.deepcopy(flow)
    with torch.no_grad():
        for p, q in zip(flow.parameters(), twin.parameters(), strict=True):
            p *= 1.5
            q.data = p.data
    assert torch.equal(twin(x)[0], flow(x)[0])


@every_flow
def test_far_rows_stay_finite(variant: Variant) -> None:
    flow = variant.build(3).eval()
    x = 1e6 * rows(50, 3).float()
    with torch.no_grad():
        z, log_det = flow(x)
        assert torch.isfinite(z).all()
        assert torch.isfinite(log_det).all()
        assert torch.isfinite(flow.inverse(x)[0]).all()


@every_flow
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"n_features": 0}, "`n_features` is 0"),
        ({"n_features": 2, "n_blocks": 0}, "`n_blocks` is 0"),
        ({"n_features": 2, "hidden": ()}, r"`hidden` is \(\)"),
        ({"n_features": 2, "hidden": (8, 0)}, r"`hidden` is \(8, 0\)"),
    ],
)
def test_bad_arguments_are_named(variant: Variant, arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        FLOWS[variant.name](**{**variant.switch, **arguments})


def maf(d: int, hidden: tuple[int, ...], bound: float | None, batch_norm: bool) -> MAF:
    flow = MAF(d, n_blocks=3, hidden=hidden, max_log_scale=bound, batch_norm=batch_norm, generator=torch.Generator())
    perturb(flow)
    return flow


def plain_maf(flow: MAF, x: Tensor, training: bool) -> tuple[Tensor, Tensor]:
    """The equations of the flow and nothing else, left to autograd."""
    log_det = x.new_zeros(len(x))
    for k, net in enumerate(flow._nets):
        weights, biases = net._views(net.theta * net.mask)
        h = x
        for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            h = (h if layer == 0 else h.relu()) @ weight.T + bias
        shift, log_scale = h.chunk(2, 1)
        if flow.max_log_scale is not None:
            log_scale = flow.max_log_scale * torch.tanh(log_scale / flow.max_log_scale)
        z, log_det = (x + shift) * log_scale.exp(), log_det + log_scale.sum(1)
        if flow.batch_norm:
            mean, var = flow.running_mean[k], flow.running_var[k]
            if training:
                mean, var = z.mean(0), z.var(0, correction=0)
            z = (z - mean) / (var + 1e-5).sqrt() * flow.norm_log_scale[k].exp() + flow.norm_shift[k]
            log_det = log_det + (flow.norm_log_scale[k] - 0.5 * (var + 1e-5).log()).sum()
        x = z.flip(1)
    return x, log_det


@pytest.mark.parametrize("panels", [False, True], ids=["whole", "panels"])
@pytest.mark.parametrize("d", [1, 2, 5, 17])
@pytest.mark.parametrize("hidden", [(20,), (20, 13), (9, 20, 6)])
@pytest.mark.parametrize("bound", [None, 5.0])
@pytest.mark.parametrize(("batch_norm", "training"), [(False, True), (True, False), (True, True)])
def test_maf_by_hand_equals_maf_by_autograd(
    monkeypatch: pytest.MonkeyPatch,
    panels: bool,
    d: int,
    hidden: tuple[int, ...],
    bound: float | None,
    batch_norm: bool,
    training: bool,
) -> None:
    if panels:
        monkeypatch.setattr(masked_module, "_PANEL_WEIGHTS", 1)
        monkeypatch.setattr(masked_module, "_PANEL_ROWS", 7)
    flow = maf(d, hidden, bound, batch_norm).train(training)
    assert all((net._panels is not None) == panels for net in flow._nets)
    x = rows(11, d).requires_grad_()
    inputs = [x, *flow.parameters()]
    on_z, on_log_det = rows(11, d, seed=2), rows(11, 1, seed=3)[:, 0]
    expected = plain_maf(flow, x, training)  # first: the other call moves the running statistics
    output = flow(x)
    for a, b in zip(output, expected, strict=True):
        assert torch.allclose(a, b, rtol=1e-10, atol=1e-10)
    grads, expected_grads = (
        torch.autograd.grad((z * on_z).sum() + (log_det * on_log_det).sum(), inputs, materialize_grads=True)
        for z, log_det in (output, expected)
    )
    for a, b in zip(grads, expected_grads, strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-9)
    # x is often a constant: its gradient is left out then, and the others stay what they are
    z, log_det = flow(x.detach())
    if training == batch_norm:
        for a, b in zip(
            torch.autograd.grad((z * on_z).sum() + (log_det * on_log_det).sum(), inputs[1:]), grads[1:], strict=True
        ):
            assert torch.allclose(a, b, rtol=1e-9, atol=1e-9)


def test_maf_batch_norm_moves_its_running_statistics_as_torch_does() -> None:
    flow = MAF(3, n_blocks=1, hidden=(8,), batch_norm=True, generator=torch.Generator()).double()
    norm = torch.nn.BatchNorm1d(3).double()
    flow.train()
    for seed in range(5):
        x = rows(50, 3, seed)
        shift, log_scale = flow._nets[0](x).unbind(1)
        norm((x + shift) * (2 * torch.tanh(log_scale / 2)).exp())
        flow(x)
    for ours, theirs in ((flow.running_mean[0], norm.running_mean), (flow.running_var[0], norm.running_var)):
        assert theirs is not None
        assert torch.allclose(ours, theirs, rtol=1e-12, atol=1e-12)
    before = flow.running_mean.clone()
    flow.eval()(rows(50, 3))
    assert torch.equal(flow.running_mean, before)


def test_maf_batch_norm_normalizes_the_batch_in_training() -> None:
    flow = maf(4, (16, 16), 5.0, True).train()
    with torch.no_grad():
        flow.norm_log_scale.zero_()
        flow.norm_shift.zero_()
        z, _ = flow(rows(500, 4))
    # var / (var + 1e-5) is 1 within 1e-3 as long as no variance is below 0.01
    assert float(z.mean(0).abs().max()) < 1e-10
    assert float((z.var(0, correction=0) - 1).abs().max()) < 1e-3


def test_maf_batch_norm_is_not_inverted_in_training() -> None:
    flow = maf(2, (8,), 5.0, True).train()
    with pytest.raises(RuntimeError, match=r"Call `.eval\(\)` first"):
        flow.inverse(rows(3, 2))


def test_maf_needs_a_positive_bound() -> None:
    with pytest.raises(ValueError, match="`max_log_scale` is -1"):
        MAF(2, max_log_scale=-1)


@pytest.mark.parametrize("d", [3, 70])
def test_the_inverse_does_not_depend_on_the_size_of_its_parts(monkeypatch: pytest.MonkeyPatch, d: int) -> None:
    flow, z = maf(d, (40, 40), 5.0, False), rows(50, d, scale=0.5)
    whole = flow.inverse(z)
    monkeypatch.setattr(masked_module, "_INVERSE_COORDINATES", 4)
    monkeypatch.setattr(masked_module, "_INVERSE_ROWS", 7)
    for a, b in zip(flow.inverse(z), whole, strict=True):
        # the order of the sums differs, and a map of 70 coordinates amplifies that
        assert torch.allclose(a, b, rtol=1e-8, atol=1e-8)
