from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import nflows.distributions
import nflows.flows
import nflows.transforms
import normflows as nf
import pytest
import torch
import zuko
from torch import Tensor, nn

from flowratio.flows.adapters import AdaptedFlow, adapt
from flowratio.flows.maf import MAF

D = 3

# nflows inverts a triangular matrix by a function that torch has renamed
pytestmark = pytest.mark.filterwarnings("ignore:torch.triangular_solve is deprecated:UserWarning")


@contextmanager
def seeded() -> Iterator[None]:
    """The packages draw from torch's global generator: lend them a seeded one, and put the old state back."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        yield


def zuko_element_wise() -> nn.Module:
    """A map of each coordinate by itself, whose log-determinant comes by columns, and a correlated normal base."""
    loc, tril = torch.tensor([1.0, 0.0, -1.0]), torch.eye(3) + torch.ones(3, 3).tril(-1)
    base = zuko.lazy.UnconditionalDistribution(torch.distributions.MultivariateNormal, loc, scale_tril=tril)
    affine = zuko.transforms.MonotonicAffineTransform
    transform = zuko.lazy.UnconditionalTransform(affine, torch.full((3,), 0.5), torch.tensor([0.1, 0.2, -0.3]))
    return zuko.lazy.Flow(transform, base)


def nflows_with(base: nn.Module) -> nn.Module:
    transforms = nflows.transforms
    parts = [
        transforms.MaskedAffineAutoregressiveTransform(D, 8),
        transforms.LULinear(D),
        transforms.MaskedPiecewiseRationalQuadraticAutoregressiveTransform(D, 8, tails="linear", tail_bound=4.0),
    ]
    return nflows.flows.Flow(transforms.CompositeTransform(parts), base)


def nflows_diagonal() -> nn.Module:
    base = nflows.distributions.DiagonalNormal([D])
    base.mean_.data += torch.tensor([1.0, -1.0, 0.5])
    base.log_std_.data += torch.tensor([0.3, -0.4, 0.2])
    return nflows_with(base)


def normflows_with(base: nn.Module) -> nn.Module:
    layers: list[nn.Module] = []
    for mask in ([1.0, 0.0, 1.0], [0.0, 1.0, 0.0]):
        scale, shift = nf.nets.MLP([D, 8, D]), nf.nets.MLP([D, 8, D])
        affine: Any = nf.flows.AffineConstFlow(D)  # its log-determinant is one number
        nn.init.constant_(affine.s, 0.3)
        layers += [nf.flows.MaskedAffineFlow(torch.tensor(mask), shift, scale), affine]
    layers += [nf.flows.LULinearPermute(D), nf.flows.MaskedAffineAutoregressive(D, 8)]
    return nf.NormalizingFlow(base, layers)


def normflows_trainable() -> nn.Module:
    base = nf.distributions.DiagGaussian(D)
    base.loc.data += torch.tensor([1.0, -2.0, 0.5])
    base.log_scale.data += torch.tensor([0.5, -0.5, 0.2])
    return normflows_with(base)


def normflows_mixture() -> nn.Module:
    return normflows_with(nf.distributions.GaussianMixture(2, D, loc=[[2.0, 0, 0], [-2.0, 0, 0]]))


FLOWS: dict[str, Callable[[], nn.Module]] = {
    "zuko MAF": lambda: zuko.flows.MAF(D, hidden_features=(8, 8)),
    "zuko NSF": lambda: zuko.flows.NSF(D, hidden_features=(8,)),
    "zuko NCSF, uniform base": lambda: zuko.flows.NCSF(D, hidden_features=(8,)),
    "zuko RealNVP": lambda: zuko.flows.RealNVP(D, hidden_features=(8,)),
    "zuko of one map, correlated base": zuko_element_wise,
    "nflows MAF": lambda: nflows.flows.MaskedAutoregressiveFlow(D, 8, 2, 1, batch_norm_between_layers=True),
    "nflows RealNVP": lambda: nflows.flows.SimpleRealNVP(D, 8, 2, 1),
    "nflows mixed, standard base": lambda: nflows_with(nflows.distributions.StandardNormal([D])),
    "nflows mixed, diagonal base": nflows_diagonal,
    "normflows, fixed base": lambda: normflows_with(nf.distributions.DiagGaussian(D, trainable=False)),
    "normflows, trainable base": normflows_trainable,
    "normflows, mixture base": normflows_mixture,
}


def build(name: str) -> nn.Module:
    """The package's flow in evaluation and float64, with running statistics that batch normalization might have."""
    with seeded():
        flow = FLOWS[name]().double().eval()
    for buffer_name, buffer in flow.named_buffers():
        if buffer_name.endswith("running_var"):
            buffer.fill_(1.7)
    return flow


def own_log_prob(flow: nn.Module, x: Tensor) -> Tensor:
    density: Any = flow() if isinstance(flow, zuko.lazy.Flow) else flow
    return density.log_prob(x)


def own_sample(flow: Any, n: int) -> Tensor:
    with seeded(), torch.no_grad():
        if isinstance(flow, zuko.lazy.Flow):
            return flow().sample((n,))
        if isinstance(flow, nf.NormalizingFlow):
            return flow.sample(n)[0]
        return deepcopy(flow).float().sample(n)  # nflows draws in float32


def rows(n: int) -> Tensor:
    """Rows in [−2, 2]: a circular flow is one-to-one on [−π, π] alone."""
    return 4 * torch.rand(n, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64) - 2


@pytest.mark.parametrize("name", FLOWS)
def test_log_prob_is_that_of_the_package(name: str) -> None:
    flow, x = build(name), rows(100)
    adapted = adapt(flow)
    assert adapted.n_features == D
    assert torch.allclose(adapted.log_prob(x), own_log_prob(flow, x), rtol=0, atol=1e-10)
    adapted, x = adapted.float(), x.float()
    assert torch.allclose(adapted.log_prob(x), own_log_prob(flow, x), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", FLOWS)
def test_inverse_both_ways(name: str) -> None:
    flow, x = adapt(build(name)), rows(100)
    # zuko inverts some maps by bisection, to 1e-6
    for there, back in ((flow.forward, flow.inverse), (flow.inverse, flow.forward)):
        y, log_det = there(x)
        again, log_det_back = back(y)
        assert log_det.shape == (100,)
        assert (y - x).abs().max() > 1e-3
        assert torch.allclose(again, x, rtol=0, atol=1e-6)
        assert torch.allclose(log_det_back, log_det, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", FLOWS)
def test_log_det_is_that_of_the_jacobian(name: str) -> None:
    flow = adapt(build(name))
    for row in rows(3):
        jacobian = torch.as_tensor(torch.autograd.functional.jacobian(lambda r: flow(r[None])[0][0], row))
        assert torch.allclose(torch.linalg.slogdet(jacobian)[1], flow(row[None])[1][0], rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", [name for name in FLOWS if "diagonal" not in name])
def test_samples_follow_the_package(name: str) -> None:
    n = 4000
    flow = build(name)
    adapted = adapt(flow)
    before = torch.get_rng_state()
    ours = adapted.sample(n, torch.Generator().manual_seed(0))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(ours, adapted.sample(n, torch.Generator().manual_seed(0)))
    assert not torch.equal(ours, adapted.sample(n, torch.Generator().manual_seed(1)))
    theirs = own_sample(flow, n).double()
    # means and mean squares, each within 5 standard errors of the difference of two samples of n
    for power in (1, 2):
        a, b = ours**power, theirs**power
        error = ((a.var(0) + b.var(0)) / n).sqrt()
        assert ((a.mean(0) - b.mean(0)).abs() < 5 * error).all()


def test_a_diagonal_base_of_nflows_is_sampled_though_the_package_cannot() -> None:
    flow = build("nflows mixed, diagonal base")
    z = adapt(flow).base_sample(20_000, torch.Generator().manual_seed(0))
    base: Any = flow._distribution
    with pytest.raises(NotImplementedError):
        base.sample(1)
    # 5 standard errors: σ/√n of a mean, σ/√(2n) of a standard deviation
    scale = base.log_std_.exp()[0]
    assert ((z.mean(0) - base.mean_[0]).abs() < 5 * scale / 20_000**0.5).all()
    assert ((z.std(0) - scale).abs() < 5 * scale / 40_000**0.5).all()


def test_the_temperature_of_a_base_is_kept() -> None:
    flow = build("normflows, trainable base")
    base: Any = flow.q0
    base.temperature = 0.5
    z = adapt(flow).base_sample(20_000, torch.Generator().manual_seed(0))
    scale = 0.5 * base.log_scale.exp()[0]
    assert ((z.std(0) - scale).abs() < 5 * scale / 40_000**0.5).all()


@pytest.mark.parametrize("name", FLOWS)
def test_parameters_are_shared_and_train(name: str) -> None:
    flow = build(name)
    adapted = adapt(flow).train()
    assert {id(p) for p in adapted.parameters()} == {id(p) for p in flow.parameters()}
    assert all(module.training for module in flow.modules())
    adapted.log_prob(rows(50)).sum().backward()
    assert any(p.grad is not None and p.grad.abs().max() > 0 for p in flow.parameters())


def test_adapting_leaves_the_flow_and_the_global_state_as_they_were() -> None:
    with seeded():  # batch statistics in the network of a flow would be moved by a row passed in training
        batch_norm = zuko.flows.MAF(D, hidden_features=(8,), activation=lambda: nn.BatchNorm1d(8))
    for flow in (batch_norm, *(build(name).train() for name in FLOWS)):
        state = {key: value.clone() for key, value in flow.state_dict().items()}
        before = torch.get_rng_state()
        adapt(flow)
        assert torch.equal(torch.get_rng_state(), before)
        assert all(torch.equal(value, state[key]) for key, value in flow.state_dict().items())
        assert all(module.training for module in flow.modules())


def test_one_column_works() -> None:
    with seeded():
        flows: list[nn.Module] = [
            zuko.flows.MAF(1, hidden_features=(8,)),
            nflows.flows.Flow(
                nflows.transforms.PointwiseAffineTransform(0.3, 2.0), nflows.distributions.StandardNormal([1])
            ),
            nf.NormalizingFlow(nf.distributions.DiagGaussian(1), [nf.flows.AffineConstFlow(1)]),
        ]
    x = torch.linspace(-2, 2, 9)[:, None]
    for flow in flows:
        adapted = adapt(flow)
        assert adapted.n_features == 1
        assert torch.allclose(adapted.log_prob(x), own_log_prob(flow, x), atol=1e-6)
        assert torch.allclose(adapted.inverse(adapted(x)[0])[0], x, atol=1e-6)


def test_own_flow_is_returned_as_it_is() -> None:
    flow = MAF(2)
    assert adapt(flow) is flow


def test_an_adapted_flow_has_no_config() -> None:
    with pytest.raises(TypeError, match="A flow of zuko cannot be rebuilt"):
        adapt(build("zuko MAF")).config()


def test_an_unknown_module_is_refused() -> None:
    with pytest.raises(TypeError, match=r"is a torch.nn.modules.linear.Linear. Use .* subclass of `flowratio.Flow`"):
        adapt(nn.Linear(2, 2))


def conditional_embedding() -> nn.Module:
    base = nflows.distributions.StandardNormal([D])
    return nflows.flows.Flow(nflows.transforms.LULinear(D), base, embedding_net=nn.Linear(2, 2))


CONDITIONAL: dict[str, Callable[[], nn.Module]] = {
    "zuko MAF": lambda: zuko.flows.MAF(D, 2),
    "zuko of one column": lambda: zuko.flows.MAF(1, 2),
    "zuko RealNVP": lambda: zuko.flows.RealNVP(D, 2),
    # runs without its context, and silently gives the density of another flow
    "nflows layer": lambda: nflows.flows.Flow(
        nflows.transforms.MaskedAffineAutoregressiveTransform(D, 8, context_features=2),
        nflows.distributions.StandardNormal([D]),
    ),
    "nflows base": lambda: nflows.flows.Flow(
        nflows.transforms.LULinear(D), nflows.distributions.ConditionalDiagonalNormal([D])
    ),
    "nflows embedding": conditional_embedding,
    "normflows": lambda: nf.ConditionalNormalizingFlow(nf.distributions.DiagGaussian(D), []),
    "normflows layer": lambda: nf.NormalizingFlow(
        nf.distributions.DiagGaussian(D), [nf.flows.MaskedAffineAutoregressive(D, 8, context_features=2)]
    ),
    "normflows class": lambda: nf.NormalizingFlow(nf.distributions.ClassCondDiagGaussian(D, 2), []),
}


@pytest.mark.parametrize("name", CONDITIONAL)
def test_a_conditional_flow_is_refused(name: str) -> None:
    with seeded():
        flow = CONDITIONAL[name]()
    with pytest.raises(ValueError, match="Use an unconditional flow"):
        adapt(flow)


def test_a_flow_over_images_is_refused() -> None:
    image = (3, 4, 4)
    flows = [
        nf.NormalizingFlow(nf.distributions.DiagGaussian(image), []),
        nflows.flows.Flow(nflows.transforms.IdentityTransform(), nflows.distributions.StandardNormal(image)),
    ]
    for flow in flows:
        with pytest.raises(ValueError, match=r"over arrays of shape \(3, 4, 4\)"):
            adapt(flow)


def test_a_missing_inverse_is_explained() -> None:
    with seeded():
        planar = adapt(nf.NormalizingFlow(nf.distributions.DiagGaussian(D), [nf.flows.Planar((D,))]))
        batch_norm = adapt(nflows.flows.MaskedAutoregressiveFlow(D, 8, 2, 1, batch_norm_between_layers=True))
    with pytest.raises(NotImplementedError, match=r"normflows cannot map x to z .* no algebraic inverse"):
        planar.log_prob(rows(2).float())
    with pytest.raises(
        NotImplementedError, match=r"nflows cannot map z to x .* only available in eval mode.*`\.eval\(\)`"
    ):
        batch_norm.sample(2, torch.Generator().manual_seed(0))


def test_other_errors_of_the_package_pass_through() -> None:
    flow = adapt(build("zuko MAF"))
    assert isinstance(flow, AdaptedFlow)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        flow(rows(2)[:, :2])
