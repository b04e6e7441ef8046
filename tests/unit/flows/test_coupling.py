from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from flowratio.flows.coupling import Conditioner, RealNVP


def perturbed(d: int, *, spread: float = 0.06, n_blocks: int = 4, max_log_scale: float = 5.0) -> RealNVP:
    """A small flow in float64, away from its start near the identity."""
    generator = torch.Generator().manual_seed(0)
    flow = RealNVP(d, n_blocks=n_blocks, hidden=(16, 16), max_log_scale=max_log_scale, generator=generator).double()
    state = {
        name: value + spread * torch.randn(value.shape, generator=generator, dtype=torch.float64)
        for name, value in flow.state_dict().items()
    }
    flow.load_state_dict(state)
    return flow


def rows(n: int, d: int, scale: float = 1.5) -> torch.Tensor:
    return scale * torch.randn(n, d, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_log_det_is_that_of_the_jacobian(d: int) -> None:
    flow, x = perturbed(d), rows(5, d)
    _, log_det = flow(x)
    for row, value in zip(x, log_det, strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda r: flow(r[None])[0][0], row)
        assert torch.allclose(torch.linalg.slogdet(torch.as_tensor(jacobian))[1], value, rtol=0, atol=1e-10)


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_inverse_both_ways(d: int, dtype: torch.dtype, tolerance: float) -> None:
    flow, x = perturbed(d).to(dtype), rows(200, d).to(dtype)
    for there, back in ((flow.forward, flow.inverse), (flow.inverse, flow.forward)):
        y, log_det = there(x)
        again, log_det_back = back(y)
        assert (again - x).abs().max() < tolerance
        assert (log_det_back - log_det).abs().max() < tolerance


def test_density_integrates_to_one_in_one_dimension() -> None:
    flow = perturbed(1, spread=0.5)
    grid = torch.linspace(-60, 60, 20_001, dtype=torch.float64)
    with torch.no_grad():
        density = flow.log_prob(grid[:, None]).exp()
    # a normal density, summed with steps far below its width: exact to rounding
    assert float(torch.trapezoid(density, grid)) == pytest.approx(1, abs=1e-9)


def test_density_integrates_to_one_in_two_dimensions() -> None:
    flow = perturbed(2, spread=0.1)
    axis = torch.linspace(-15, 15, 801, dtype=torch.float64)
    with torch.no_grad():
        density = flow.log_prob(torch.cartesian_prod(axis, axis)).exp().view(801, 801)
    # the density has the kinks of the ReLU networks: the error is a part of the step squared, 1.4e-3
    assert float(torch.trapezoid(torch.trapezoid(density, axis), axis)) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("d", [1, 4])
def test_gradients_reach_every_parameter(d: int) -> None:
    flow = perturbed(d)
    flow.log_prob(rows(200, d)).sum().backward()
    for name, parameter in flow.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_a_block_is_the_affine_map_of_its_formula() -> None:
    flow, x = perturbed(5, n_blocks=1, max_log_scale=0.5), rows(20, 5)
    mu, a = flow.nets[0](x[:, :2]).unbind(1)
    alpha = 0.5 * torch.tanh(a / 0.5)
    z, log_det = flow(x)
    assert torch.equal(z[:, :2], x[:, :2])
    assert torch.allclose(z[:, 2:], (x[:, 2:] - mu) * torch.exp(-alpha), rtol=0, atol=1e-12)
    assert torch.allclose(log_det, -alpha.sum(1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("d", [2, 3, 4, 5])
def test_two_blocks_map_every_coordinate(d: int) -> None:
    x = rows(20, d)
    assert ((perturbed(d, n_blocks=2)(x)[0] - x).abs().max(0).values > 1e-3).all()


def test_the_log_scale_is_bounded_far_from_the_data() -> None:
    flow = perturbed(3, n_blocks=2, max_log_scale=1.5)
    z, log_det = flow(rows(50, 3, scale=1e8))
    assert torch.isfinite(z).all()
    assert log_det.abs().max() <= 2 * 2 * 1.5  # blocks × mapped coordinates × bound


@pytest.mark.parametrize("d", [1, 7])
def test_starts_near_the_identity(d: int) -> None:
    x = rows(200, d, scale=1).float()
    z, log_det = RealNVP(d, generator=torch.Generator().manual_seed(0))(x)
    # each block adds noise of about 0.03·√2 to a column, and 8 of them about 0.1
    assert (z - x).square().mean() < 0.1
    assert log_det.square().mean() < 0.1 * d


def test_same_generator_same_bits_and_the_global_state_stays() -> None:
    before = torch.get_rng_state()
    flows = [RealNVP(3, generator=torch.Generator().manual_seed(seed)) for seed in (5, 5, 6)]
    flows += [RealNVP(3), RealNVP(3)]
    draws = [flow.sample(4, torch.Generator().manual_seed(0)) for flow in flows]
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert torch.equal(draws[3], draws[4])


def test_config_and_state_rebuild_the_flow() -> None:
    flow, x = perturbed(3, max_log_scale=2.0), rows(10, 3)
    again = RealNVP(**flow.config()).double()
    again.load_state_dict(flow.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(flow(x), again(x), strict=True))
    assert flow.config() == {"n_features": 3, "n_blocks": 4, "hidden": (16, 16), "max_log_scale": 2.0}


def test_the_inverse_has_gradients() -> None:
    flow, z = perturbed(2), rows(3, 2)
    for row in z:
        forward = torch.autograd.functional.jacobian(lambda r: flow(r[None])[0][0], flow.inverse(row[None])[0][0])
        backward = torch.autograd.functional.jacobian(lambda r: flow.inverse(r[None])[0][0], row)
        product = torch.as_tensor(forward) @ torch.as_tensor(backward)
        assert torch.allclose(product, torch.eye(2, dtype=torch.float64), rtol=0, atol=1e-10)


def test_conditioner_without_inputs_gives_free_constants() -> None:
    assert Conditioner(2, 5, 3, (16,), torch.Generator().manual_seed(0))(torch.zeros(10, 2)).shape == (10, 5, 3)
    net = Conditioner(0, 4, 3, (8,), torch.Generator().manual_seed(0))
    out = net(torch.empty(5, 0))
    assert out.shape == (5, 4, 3)
    assert torch.equal(out, out[:1].expand(5, 4, 3))
    assert torch.equal(out[0].flatten(), net.biases[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_features": 0}, "`n_features` is 0"),
        ({"n_features": 2, "n_blocks": 0}, "`n_blocks` is 0"),
        ({"n_features": 2, "hidden": ()}, r"`hidden` is \(\)"),
        ({"n_features": 2, "hidden": (8, 0)}, r"`hidden` is \(8, 0\)"),
        ({"n_features": 2, "max_log_scale": 0.0}, "`max_log_scale` is 0.0"),
        ({"n_features": 2, "max_log_scale": math.nan}, "`max_log_scale` is nan"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RealNVP(**arguments)
