"""The masked network: degrees, masks, panels and the incremental inverse, each against brute force."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from flowratio.flows import masked
from flowratio.flows.masked import MaskedNet, hidden_degrees


def make(d: int, k: int, hidden: tuple[int, ...], seed: int = 0) -> MaskedNet:
    net = MaskedNet(d, k, hidden, torch.Generator().manual_seed(seed)).double()
    with torch.no_grad():  # an output layer that is not small, so that errors show
        net.theta.copy_(torch.randn(len(net.theta), generator=torch.Generator().manual_seed(seed)) * 0.5 * net.mask)
    return net


def plain(net: MaskedNet, theta: Tensor, x: Tensor) -> Tensor:
    """The same network by whole layers, with the mask applied, under autograd."""
    weights, biases = net._views(theta * net.mask)
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        x = torch.relu(x @ weight.T + bias)
    return (x @ weights[-1].T + biases[-1]).view(len(x), net.n_params, net.n_features)


@pytest.fixture(params=[False, True], ids=["whole", "panels"])
def panels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param:
        monkeypatch.setattr(masked, "_PANEL_WEIGHTS", 0)
        monkeypatch.setattr(masked, "_PANEL_ROWS", 5)
    return request.param


@pytest.mark.parametrize(("d", "n_units"), [(1, 3), (2, 4), (5, 4), (5, 11), (9, 3)])
def test_degrees_are_sorted_and_in_range(d: int, n_units: int) -> None:
    degrees = hidden_degrees(d, n_units)
    assert len(degrees) == n_units
    assert (degrees.diff() >= 0).all()
    assert degrees[0] == 1
    assert degrees[-1] <= max(d - 1, 1)
    if n_units >= d - 1 and d > 1:
        assert set(degrees.tolist()) == set(range(1, d))


@pytest.mark.parametrize("hidden", [(7,), (13, 9), (6, 8, 7)])
@pytest.mark.parametrize("d", [1, 2, 6, 17])
def test_values_and_gradients_are_those_of_plain_autograd(panels: bool, d: int, hidden: tuple[int, ...]) -> None:
    net = make(d, 3, hidden)
    assert (net._panels is not None) == panels
    x = torch.randn(11, d, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    pull = torch.randn(11, 3, d, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    out, expected = net(x), plain(net, net.theta, x)
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    ours = torch.autograd.grad((out * pull).sum(), [x, net.theta])
    theirs = torch.autograd.grad((expected * pull).sum(), [x, net.theta])
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("d", [2, 6])
def test_parameters_see_earlier_coordinates_only(d: int) -> None:
    net = make(d, 2, (24, 24))
    x = torch.randn(d, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    jacobian = torch.autograd.functional.jacobian(lambda v: net(v[None])[0], x)
    assert isinstance(jacobian, Tensor)  # (k, output coordinate, input coordinate)
    assert torch.equal(jacobian, jacobian.tril(-1))
    assert (jacobian.abs().sum(0) > 0).equal(torch.ones(d, d, dtype=torch.bool).tril(-1))


@pytest.mark.parametrize(("d", "coordinates", "rows"), [(1, 32, 1024), (5, 2, 4), (5, 32, 1024), (40, 7, 5)])
def test_inverse_undoes_an_affine_map(monkeypatch: pytest.MonkeyPatch, d: int, coordinates: int, rows: int) -> None:
    monkeypatch.setattr(masked, "_INVERSE_COORDINATES", coordinates)
    monkeypatch.setattr(masked, "_INVERSE_ROWS", rows)
    net = make(d, 2, (23, 17))
    x = torch.randn(13, d, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    shift, log_scale = (0.1 * net(x)).unbind(1)
    z = (x + shift) * log_scale.exp()

    def solve(params: Tensor, z_i: Tensor) -> tuple[Tensor, Tensor]:
        m, a = 0.1 * params
        return z_i * torch.exp(-a) - m, a

    back, log_det = net.invert(z, solve)
    torch.testing.assert_close(back, x, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(log_det, log_scale.sum(1), rtol=1e-9, atol=1e-9)


def test_loaded_weights_are_masked() -> None:
    net = make(5, 2, (8,))
    net.load_state_dict({"theta": torch.ones_like(net.theta)})
    assert torch.equal(net.theta.detach(), net.mask)


def test_views_follow_the_parameter_to_new_memory() -> None:
    net = make(3, 2, (8,))
    x = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    before = net(x)
    net.theta.data = 2 * net.theta.data.clone()
    assert not torch.allclose(net(x), before)
    torch.testing.assert_close(net(x), plain(net, net.theta, x))


@pytest.mark.parametrize("hidden", [(), (0,), (5, -1)])
def test_hidden_layers_are_checked(hidden: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="Use the widths of one or more layers"):
        MaskedNet(3, 2, hidden)
