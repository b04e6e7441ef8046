"""Pretrained flows of zuko, nflows and normflows with the interface of flowratio.

Their log-determinant is that of the direction that runs. Ours is always that of x → z. No package is imported here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, TypeAlias, cast

import torch
from torch import Tensor, nn
from torch.distributions import Distribution, Independent, Normal

from flowratio.flows.base import Flow, Pair, like, new_generator

Gaussian: TypeAlias = tuple[Tensor | float, Tensor | float]  # location and scale
# attributes of layers and bases of nflows and normflows that need a context or a class
_CONTEXT = ("context_layer", "context_features", "context_encoder", "_context_encoder", "num_classes")


def adapt(flow: nn.Module) -> Flow:
    """Return a flow with our interface that shares the parameters of an unconditional flow over rows (n, d)."""
    if isinstance(flow, Flow):
        return flow
    for adapter, name in ((ZukoFlow, "Flow"), (NFlowsFlow, "Flow"), (NormflowsFlow, "NormalizingFlow")):
        if _comes_from(flow, adapter.package, name):
            return adapter(flow)
    kind = f"{type(flow).__module__}.{type(flow).__qualname__}"
    rule = "Use a `Flow` of zuko or nflows, a `normflows.NormalizingFlow`, or write a subclass of `flowratio.Flow`."
    raise TypeError(f"`flow` is a {kind}. {rule}")


def _comes_from(module: nn.Module, package: str, name: str) -> bool:
    """Return whether a class or one of its parents is the named one of the package."""
    return any(c.__name__ == name and c.__module__.partition(".")[0] == package for c in type(module).__mro__)


class AdaptedFlow(Flow):
    """A flow of another package, which is a submodule, and the shape of one row, which must be (d,)."""

    package: ClassVar[str]

    def __init__(self, flow: nn.Module, shape: tuple[int, ...]) -> None:
        if len(shape) != 1:
            raise ValueError(f"`flow` is over arrays of shape {shape}. Flatten the data, and use a base of shape (d,).")
        super().__init__(shape[0])
        self.flow: Any = flow  # the package need not be installed, so there is no type to name

    @abstractmethod
    def _encode(self, x: Tensor) -> Pair: ...  # z, and the log-determinant of x → z

    @abstractmethod
    def _decode(self, z: Tensor) -> Pair: ...  # x, and the log-determinant of z → x

    @abstractmethod
    def _base(self) -> Any: ...  # the distribution of z

    @staticmethod
    @abstractmethod
    def _gaussian(base: Any) -> Gaussian | None: ...  # None for a base that is not a diagonal Gaussian

    def forward(self, x: Tensor) -> Pair:
        with self._explained("x to z"):
            z, log_det = self._encode(x)
        return z, _per_row(log_det, len(x))

    def inverse(self, z: Tensor) -> Pair:
        with self._explained("z to x"):
            x, log_det = self._decode(z)
        return x, -_per_row(log_det, len(z))

    def base_log_prob(self, z: Tensor) -> Tensor:
        return self._base().log_prob(z)

    def base_sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        generator, base = generator or new_generator(), self._base()
        if (gaussian := self._gaussian(base)) is not None:
            return gaussian[0] + gaussian[1] * super().base_sample(n, generator)
        seed = int(torch.randint(2**62, (), generator=generator))
        with seeded(seed, like(self).device):
            return base.sample((n,) if isinstance(base, Distribution) else n).to(like(self))

    def config(self) -> dict[str, Any]:
        raise TypeError(f"A flow of {self.package} cannot be rebuilt. Build and load it with {self.package}.")

    @contextmanager
    def _explained(self, direction: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # nflows has its own class for a missing inverse
            if not isinstance(error, NotImplementedError) and type(error).__name__ != "InverseNotAvailable":
                raise
            what = f"{self.package} cannot map {direction} with this flow ({type(error).__name__}: {error})."
            rule = "Use layers that have an inverse, and call `.eval()` on a flow with batch statistics."
            raise NotImplementedError(f"{what} {rule}") from error


class ZukoFlow(AdaptedFlow):
    """An unconditional `zuko.flows.Flow`."""

    package = "zuko"

    def __init__(self, flow: nn.Module) -> None:
        try:
            shape = _run_row_zuko(flow)
        except Exception as error:
            what = f"`flow` does not run without a context ({error})."
            raise ValueError(f"{what} Use an unconditional flow of zuko, built with `context=0`.") from error
        super().__init__(flow, shape)

    def _encode(self, x: Tensor) -> Pair:
        return self.flow().transform.call_and_ladj(x)

    def _decode(self, z: Tensor) -> Pair:
        return self.flow().transform.inv.call_and_ladj(z)

    def _base(self) -> Any:
        return self.flow().base

    @staticmethod
    def _gaussian(base: Any) -> Gaussian | None:
        while isinstance(base, Independent):
            base = base.base_dist
        return (base.loc, base.scale) if type(base) is Normal else None


class NFlowsFlow(AdaptedFlow):
    """An unconditional `nflows.flows.Flow`."""

    package = "nflows"

    def __init__(self, flow: nn.Module) -> None:
        _refuse_context(flow, self.package)
        base: Any = flow._distribution
        # the Gaussians of nflows have a shape, and one of them cannot be sampled
        super().__init__(flow, tuple(getattr(base, "_shape", None) or _sample_shape(base, flow)))

    def _encode(self, x: Tensor) -> Pair:
        return self.flow._transform(x)

    def _decode(self, z: Tensor) -> Pair:
        return self.flow._transform.inverse(z)

    def _base(self) -> Any:
        return self.flow._distribution

    @staticmethod
    def _gaussian(base: Any) -> Gaussian | None:
        if type(base).__name__ == "DiagonalNormal":
            return base.mean_, base.log_std_.exp()
        return (0.0, 1.0) if type(base).__name__ == "StandardNormal" else None


class NormflowsFlow(AdaptedFlow):
    """An unconditional `normflows.NormalizingFlow`."""

    package = "normflows"

    def __init__(self, flow: nn.Module) -> None:
        _refuse_context(flow, self.package)
        super().__init__(flow, _sample_shape(cast(Any, flow).q0, flow))

    def _encode(self, x: Tensor) -> Pair:
        return self._walk(x, [layer.inverse for layer in reversed(self.flow.flows)])

    def _decode(self, z: Tensor) -> Pair:
        return self._walk(z, list(self.flow.flows))

    @staticmethod
    def _walk(x: Tensor, layers: list[Callable[[Tensor], Pair]]) -> Pair:
        log_det = x.new_zeros(len(x))  # the package itself adds in float32
        for layer in layers:
            x, term = layer(x)
            log_det = log_det + term
        return x, log_det

    def _base(self) -> Any:
        return self.flow.q0

    @staticmethod
    def _gaussian(base: Any) -> Gaussian | None:
        if type(base).__name__ != "DiagGaussian":
            return None
        return base.loc, base.log_scale.exp() * (1.0 if base.temperature is None else base.temperature)


def _per_row(log_det: Tensor, n: int) -> Tensor:
    """Return the log-determinant, (n,), from one number, (n,), or the terms of a coordinatewise map, (n, d)."""
    return (log_det.sum(1) if log_det.dim() == 2 else log_det).expand(n)


def _refuse_context(flow: nn.Module, package: str) -> None:
    """Refuse a conditional flow. Some layers also run without their context, but give another density."""
    embedding = getattr(flow, "_embedding_net", None)
    conditional = [] if embedding is None or isinstance(embedding, nn.Identity) else [embedding]
    conditional += [m for m in flow.modules() if any(getattr(m, name, None) is not None for name in _CONTEXT)]
    if conditional or _comes_from(flow, package, "ConditionalNormalizingFlow"):
        names = ", ".join(sorted({type(module).__name__ for module in conditional or [flow]}))
        raise ValueError(f"`flow` needs a context or a class ({names} of {package}). Use an unconditional flow.")


def _sample_shape(base: Any, flow: nn.Module) -> tuple[int, ...]:
    """Return the shape of a row of the base, without a change of torch's global state."""
    with torch.no_grad(), seeded(0, like(flow).device):
        return tuple(base.sample(2).shape[1:])


def _run_row_zuko(flow: nn.Module) -> tuple[int, ...]:
    """Map one row, since zuko builds lazily, and return its shape. Every module stays in its mode."""
    modes, kind = [(module, module.training) for module in flow.modules()], like(flow)
    flow.eval()
    try:
        with torch.no_grad(), seeded(0, kind.device):
            density = flow()
            shape = tuple(density.base.event_shape)
            density.transform(kind.new_zeros(1, *shape))
    finally:
        for module, mode in modes:
            module.training = mode
    return shape


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's global generators inside the block alone."""
    cuda = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        torch.default_generator.manual_seed(seed)
        if cuda:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield
