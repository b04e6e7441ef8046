from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from flowratio.flows.base import Flow
from flowratio.flows.spline import SplineCoupling, SplineMAF, rational_quadratic, rational_quadratic_inverse

KINDS = [SplineMAF, SplineCoupling]


def perturbed(kind: type[SplineMAF | SplineCoupling], d: int, *, n_blocks: int = 3, spread: float = 0.05) -> Flow:
    """A small flow in float64, away from its start near the identity."""
    generator = torch.Generator().manual_seed(0)
    flow = kind(d, n_blocks=n_blocks, hidden=(16, 16), n_bins=5, generator=generator).double()
    state = {
        name: value + spread * torch.randn(value.shape, generator=generator, dtype=torch.float64)
        for name, value in flow.state_dict().items()
    }
    flow.load_state_dict(state)
    return flow


def rows(n: int, d: int, scale: float = 1.5) -> Tensor:
    return scale * torch.randn(n, d, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def raw_splines(n: int, spread: float, n_bins: int = 8) -> tuple[Tensor, Tensor]:
    """Values in and around [−5, 5], of shape (n, 3), and raw parameters."""
    generator = torch.Generator().manual_seed(2)
    x = 12 * torch.rand(n, 3, generator=generator, dtype=torch.float64) - 6
    return x, spread * torch.randn(n, 3 * n_bins - 1, 3, generator=generator, dtype=torch.float64)


def spline_by_hand(x: float, raw: np.ndarray, bound: float) -> float:
    """The formula of Durkan et al., eq. 4, for one value, with the constraints written out."""
    k = (len(raw) + 1) // 3
    if abs(x) >= bound:
        return x
    raw = 2 * np.tanh(raw / 2)  # the soft bound
    shares = [np.exp(part) / np.exp(part).sum() for part in (raw[:k], raw[k : 2 * k])]
    knots = [np.concatenate([[-bound], -bound + 2 * bound * np.cumsum(share)]) for share in shares]
    slopes = [1.0, *np.exp(raw[2 * k :]), 1.0]
    j = max(i for i in range(k) if knots[0][i] <= x)
    width, height = knots[0][j + 1] - knots[0][j], knots[1][j + 1] - knots[1][j]
    s, u = height / width, (x - knots[0][j]) / width
    top = height * (s * u**2 + slopes[j] * u * (1 - u))
    return knots[1][j] + top / (s + (slopes[j + 1] + slopes[j] - 2 * s) * u * (1 - u))


def test_spline_is_the_formula_by_hand() -> None:
    x, params = raw_splines(100, spread=1.5)
    z, _ = rational_quadratic(x, params, 5.0)
    expected = [[spline_by_hand(float(x[i, j]), params[i, :, j].numpy(), 5.0) for j in range(3)] for i in range(100)]
    assert torch.allclose(z, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-11)


def test_log_slope_is_that_of_autograd() -> None:
    x, params = raw_splines(500, spread=1.5)
    x.requires_grad_()
    z, log_slope = rational_quadratic(x, params, 5.0)
    (slope,) = torch.autograd.grad(z.sum(), x)  # each z depends on its own x alone
    assert torch.allclose(slope.log(), log_slope, rtol=0, atol=1e-9)


def test_raw_zeros_give_the_identity() -> None:
    x, params = raw_splines(100, spread=0)
    z, log_slope = rational_quadratic(x, params, 5.0)
    assert torch.allclose(z, x, rtol=0, atol=1e-13)
    assert log_slope.abs().max() < 1e-13


def test_spline_joins_the_identity_smoothly() -> None:
    _, params = raw_splines(50, spread=1.0)
    for edge in (-5.0, 5.0):
        inside = torch.full((50, 3), edge * (1 - 1e-9), dtype=torch.float64)
        z, log_slope = rational_quadratic(inside, params, 5.0)
        # 5e-9 away; next to the edge the slope is near 1, and its logarithm moves by at most some 1e3 per unit
        assert (z - edge).abs().max() < 1e-8
        assert log_slope.abs().max() < 1e-5
        for x in (torch.full((50, 3), edge), torch.full((50, 3), 1e6 * edge)):
            z, log_slope = rational_quadratic(x, params.float(), 5.0)
            assert torch.equal(z, x)
            assert torch.equal(log_slope, torch.zeros_like(x))


@pytest.mark.parametrize("spread", [0.5, 2.0])
def test_inverse_of_the_spline_in_float64(spread: float) -> None:
    x, params = raw_splines(500, spread)
    z, log_slope = rational_quadratic(x, params, 5.0)
    again, log_slope_back = rational_quadratic_inverse(z, params, 5.0)
    # rounding of z, 1e-15, over the smallest slopes, about 1e-6 at the wide spread
    assert (again - x).abs().max() < 1e-9
    assert (log_slope_back - log_slope).abs().max() < 1e-8


@pytest.mark.parametrize("spread", [0.5, 3.0])
def test_inverse_of_the_spline_is_stable_in_float32(spread: float) -> None:
    z, params = (t.float() for t in raw_splines(2000, spread))
    x, log_slope = rational_quadratic_inverse(z, params, 5.0)
    again, _ = rational_quadratic(x, params, 5.0)
    # x carries a rounding error of 3e-7, which the slope takes to z: nothing beyond that is lost
    assert ((again - z).abs() / log_slope.exp().clamp(min=1)).max() < 5e-6


def test_gradients_of_spline_and_inverse_are_right() -> None:
    x, params = (t.requires_grad_() for t in raw_splines(2, spread=1.0, n_bins=3))
    assert torch.autograd.gradcheck(lambda x, p: rational_quadratic(x, p, 5.0), (x, params))
    assert torch.autograd.gradcheck(lambda x, p: rational_quadratic_inverse(x, p, 5.0), (x, params))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 2, 5])
def test_log_det_is_that_of_the_jacobian(kind: type[SplineMAF | SplineCoupling], d: int) -> None:
    flow, x = perturbed(kind, d), rows(5, d)
    _, log_det = flow(x)
    for row, value in zip(x, log_det, strict=True):
        jacobian = torch.as_tensor(torch.autograd.functional.jacobian(lambda r: flow(r[None])[0][0], row))
        assert torch.allclose(torch.linalg.slogdet(jacobian)[1], value, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 2, 5, 40])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_inverse_both_ways(
    kind: type[SplineMAF | SplineCoupling], d: int, dtype: torch.dtype, tolerance: float
) -> None:
    flow, x = perturbed(kind, d, spread=0.03).to(dtype), rows(200, d).to(dtype)
    for there, back in ((flow.forward, flow.inverse), (flow.inverse, flow.forward)):
        y, log_det = there(x)
        again, log_det_back = back(y)
        assert (again - x).abs().max() < tolerance
        assert (log_det_back - log_det).abs().max() < tolerance * d


def test_a_masked_block_is_triangular() -> None:
    flow, d = perturbed(SplineMAF, 6, n_blocks=1), 6
    for row in rows(5, d):
        jacobian = torch.as_tensor(torch.autograd.functional.jacobian(lambda r: flow(r[None])[0][0], row))
        jacobian = jacobian.flip(0)  # the block reverses its outputs
        assert torch.equal(jacobian, jacobian.tril())
        assert (jacobian.diagonal() > 0).all()
        assert (jacobian.tril(-1).abs() > 0).sum() > d  # and not diagonal


@pytest.mark.parametrize("kind", KINDS)
def test_density_integrates_to_one_in_one_dimension(kind: type[SplineMAF | SplineCoupling]) -> None:
    flow = perturbed(kind, 1, spread=0.5)
    grid = torch.linspace(-30, 30, 20_001, dtype=torch.float64)
    with torch.no_grad():
        density = flow.log_prob(grid[:, None]).exp()
    # the density is continuous with kinks at the knots: the error is a few times the step squared, 1e-5
    assert float(torch.trapezoid(density, grid)) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_density_integrates_to_one_in_two_dimensions(kind: type[SplineMAF | SplineCoupling]) -> None:
    flow = perturbed(kind, 2)
    axis = torch.linspace(-12, 12, 601, dtype=torch.float64)
    with torch.no_grad():
        density = flow.log_prob(torch.cartesian_prod(axis, axis)).exp().view(601, 601)
    # kinks at the knots and at those of the ReLU networks: an error well below the step squared, 1.6e-3
    assert float(torch.trapezoid(torch.trapezoid(density, axis), axis)) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_reach_every_parameter(kind: type[SplineMAF | SplineCoupling]) -> None:
    flow = perturbed(kind, 4)
    flow.log_prob(rows(500, 4)).sum().backward()
    for name, parameter in flow.named_parameters():
        assert parameter.grad is not None, name
        # weights that a mask hides are zero; a ReLU unit may sleep on all rows, but not half of them
        assert (parameter.grad[parameter != 0] != 0).float().mean() > 0.5, name


@pytest.mark.parametrize("kind", KINDS)
def test_one_column_takes_the_shape_of_two_modes(kind: type[SplineMAF | SplineCoupling]) -> None:
    # ½N(−1.5, 0.5²) + ½N(1.5, 0.5²) by quadrature, so that there is no sampling error
    x = torch.linspace(-4, 4, 201, dtype=torch.float64)
    normal = torch.distributions.Normal(torch.tensor(0.0, dtype=torch.float64), 0.5)
    p = 0.5 * (normal.log_prob(x - 1.5).exp() + normal.log_prob(x + 1.5).exp())
    weight = p / p.sum()
    flow = kind(1, n_blocks=2, hidden=(2,), generator=torch.Generator().manual_seed(0)).double()
    optimizer = torch.optim.Adam(flow.parameters(), lr=0.1)
    for _ in range(120):
        optimizer.zero_grad()
        (-weight * flow.log_prob(x[:, None])).sum().backward()
        optimizer.step()
    with torch.no_grad():
        kl = float((weight * (p.log() - flow.log_prob(x[:, None]))).sum())
    # the nearest normal, of variance 2.5, is at KL = ½log(2πe·2.5) − H = 0.48; the spline comes far nearer
    assert 0 < kl < 0.03


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 7])
def test_starts_near_the_identity(kind: type[SplineMAF | SplineCoupling], d: int) -> None:
    x = rows(200, d, scale=1).float()
    z, log_det = kind(d, generator=torch.Generator().manual_seed(0))(x)
    z = z.flip(1) if kind is SplineMAF else z  # three reversals are one
    # raw parameters of about 0.1 move a knot of the middle by about 0.1, and three blocks or six a bit more
    assert (z - x).square().mean() < 0.2
    assert log_det.square().mean() < 0.2 * d


@pytest.mark.parametrize("kind", KINDS)
def test_same_generator_same_bits_and_the_global_state_stays(kind: type[SplineMAF | SplineCoupling]) -> None:
    before = torch.get_rng_state()
    flows = [kind(3, generator=torch.Generator().manual_seed(seed)) for seed in (5, 5, 6)]
    flows += [kind(3), kind(3)]
    draws = [flow.sample(4, torch.Generator().manual_seed(0)) for flow in flows]
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert torch.equal(draws[3], draws[4])


@pytest.mark.parametrize("kind", KINDS)
def test_config_and_state_rebuild_the_flow(kind: type[SplineMAF | SplineCoupling]) -> None:
    flow, x = perturbed(kind, 3), rows(10, 3)
    assert flow.config() == {"n_features": 3, "n_blocks": 3, "hidden": (16, 16), "n_bins": 5, "bound": 5.0}
    again = kind(**flow.config()).double()
    again.load_state_dict(flow.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(flow(x), again(x), strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_features": 0}, "`n_features` is 0"),
        ({"n_features": 2, "n_blocks": 0}, "`n_blocks` is 0"),
        ({"n_features": 2, "hidden": ()}, r"`hidden` is \(\)"),
        ({"n_features": 2, "n_bins": 1}, "`n_bins` is 1"),
        ({"n_features": 2, "bound": 0.0}, "`bound` is 0.0"),
        ({"n_features": 2, "bound": math.inf}, "`bound` is inf"),
    ],
)
def test_bad_arguments_are_named(
    kind: type[SplineMAF | SplineCoupling], arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**arguments)
