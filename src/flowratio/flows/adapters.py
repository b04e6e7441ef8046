r"""Flows of other packages behind our interface: zuko, nflows and normflows.

The packages agree on the density and differ in the direction. With f the map from x to z,

=========  ===========================  ==========================
package    its `transform` or `flows`   its log-determinant
=========  ===========================  ==========================
zuko       x → z                        of the direction it is run
nflows     x → z                        of the direction it is run
normflows  z → x                        of the direction it is run
=========  ===========================  ==========================

and here `log_det` is always that of x → z. None of the packages is imported: a flow is known by the module its class
comes from.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Independent, Normal

from flowratio.flows.base import Flow, like, new_generator

# what the layers and bases of nflows and normflows hold if they need a context or a class
_CONTEXT = ("context_layer", "context_features", "context_encoder", "_context_encoder", "num_classes")


def adapt(flow: nn.Module) -> Flow:
    """Return a flow with our interface; one of zuko, nflows or normflows is wrapped and shares its parameters.

    Parameters
    ----------
    flow
        A `flowratio.Flow`, returned as it is; a `zuko.flows.Flow`, an `nflows.flows.Flow` or a
        `normflows.NormalizingFlow`, each without a context and over rows (n, d).

    Examples
    --------
    >>> from flowratio.flows.maf import MAF
    >>> flow = MAF(3)
    >>> adapt(flow) is flow
    True
    """
    if isinstance(flow, Flow):
        return flow
    if _comes_from(flow, "zuko", "Flow"):
        return ZukoFlow(flow)
    if _comes_from(flow, "nflows", "Flow"):
        return NFlowsFlow(flow)
    if _comes_from(flow, "normflows", "NormalizingFlow"):
        return NormflowsFlow(flow)
    kind = f"{type(flow).__module__}.{type(flow).__qualname__}"
    raise TypeError(
        f"`flow` is a {kind}: flows of flowratio, `zuko.flows.Flow`, `nflows.flows.Flow` and "
        "`normflows.NormalizingFlow` are known. Write a subclass of `flowratio.Flow` with `forward` and `inverse`."
    )


def _comes_from(module: nn.Module, package: str, name: str) -> bool:
    """Tell whether a class or one of its parents is the named one of the package."""
    return any(c.__name__ == name and c.__module__.partition(".")[0] == package for c in type(module).__mro__)


class AdaptedFlow(Flow):
    """A flow of another package; a subclass knows its package.

    Parameters
    ----------
    flow
        The flow, kept as a submodule: its parameters train, and move with `.to`.
    n_features
        Number of columns d.
    """

    package: str

    def __init__(self, flow: nn.Module, n_features: int) -> None:
        super().__init__(n_features)
        self.flow: Any = flow  # of a package that need not be installed: no type to name

    @abstractmethod
    def _encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map x to z, and the log-determinant of x → z."""

    @abstractmethod
    def _decode(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Map z to x, and the log-determinant of z → x."""

    @abstractmethod
    def _normal(self) -> tuple[Tensor | float, Tensor | float] | None:
        """Return location and scale, each a number or of shape (d,) or (1, d), if the base is a diagonal normal."""

    @abstractmethod
    def _draw(self, n: int) -> Tensor:
        """Draw n rows from a base that is no diagonal normal, with torch's global generator."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map x to z: (n, d) to (n, d), and the log-determinant of x → z, of shape (n,)."""
        with self._explained("x to z"):
            z, log_det = self._encode(x)
        return z, log_det.expand(len(x))

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Map z to x: (n, d) to (n, d), and the log-determinant of x → z, of shape (n,)."""
        with self._explained("z to x"):
            x, log_det = self._decode(z)
        return x, -log_det.expand(len(z))

    def base_sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw n latent rows, of shape (n, d); from a new generator with a random seed if none is given."""
        generator = generator or new_generator()
        kind = like(self)
        normal = self._normal()
        if normal is not None:
            # drawn on the CPU, so that a seed gives the same rows on every device
            noise = torch.randn(n, self.n_features, generator=generator, dtype=kind.dtype).to(kind.device)
            return normal[0] + normal[1] * noise
        seed = int(torch.randint(2**62, (), generator=generator))
        with seeded(seed, kind.device):
            return self._draw(n).to(kind)

    def config(self) -> dict[str, Any]:
        """Refuse: what built the flow is known to its package alone."""
        raise TypeError(
            f"A flow of {self.package} cannot be rebuilt from its arguments: build it there, load its weights "
            "(`load_state_dict`), and adapt it again."
        )

    @contextmanager
    def _explained(self, direction: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            # nflows has a class of its own for a missing inverse
            if not isinstance(error, NotImplementedError) and type(error).__name__ != "InverseNotAvailable":
                raise
            raise NotImplementedError(
                f"{self.package} cannot map {direction} with this {type(self.flow).__name__} "
                f"({type(error).__name__}: {error}). A flow here runs in both directions: take layers that "
                "have an inverse, and call `.eval()` where batch statistics are in the way."
            ) from error


class ZukoFlow(AdaptedFlow):
    """An unconditional flow of zuko.

    Parameters
    ----------
    flow
        A `zuko.flows.Flow` over rows of shape (n, d).
    """

    package = "zuko"

    def __init__(self, flow: nn.Module) -> None:
        try:
            shape = _run_row_zuko(flow)
        except Exception as error:
            raise ValueError(
                f"`flow` is a {type(flow).__name__} of zuko that does not run without a context ({error}): only "
                "unconditional flows are taken. Build it with `context=0`."
            ) from error
        super().__init__(flow, _n_features(shape, self.package))

    def _encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z, log_det = self.flow().transform.call_and_ladj(x)
        return z, _sum_columns(log_det)

    def _decode(self, z: Tensor) -> tuple[Tensor, Tensor]:
        x, log_det = self.flow().transform.inv.call_and_ladj(z)
        return x, _sum_columns(log_det)

    def base_log_prob(self, z: Tensor) -> Tensor:
        """Log-density of the latent variable, (n, d) to (n,)."""
        return self.flow().base.log_prob(z)

    def _normal(self) -> tuple[Tensor | float, Tensor | float] | None:
        base = self.flow().base
        while isinstance(base, Independent):
            base = base.base_dist
        return (base.loc, base.scale) if type(base) is Normal else None

    def _draw(self, n: int) -> Tensor:
        return self.flow().base.sample((n,))


class NFlowsFlow(AdaptedFlow):
    """An unconditional flow of nflows.

    Parameters
    ----------
    flow
        An `nflows.flows.Flow` over rows of shape (n, d).
    """

    package = "nflows"

    def __init__(self, flow: nn.Module) -> None:
        _refuse_context(flow, self.package)
        base: Any = flow._distribution
        # the normals of nflows know their shape, and one of them cannot be sampled
        shape = getattr(base, "_shape", None) or _drawn_shape(base.sample, flow)
        super().__init__(flow, _n_features(tuple(shape), self.package))

    def _encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.flow._transform(x)

    def _decode(self, z: Tensor) -> tuple[Tensor, Tensor]:
        return self.flow._transform.inverse(z)

    def base_log_prob(self, z: Tensor) -> Tensor:
        """Log-density of the latent variable, (n, d) to (n,)."""
        return self.flow._distribution.log_prob(z)

    def _normal(self) -> tuple[Tensor | float, Tensor | float] | None:
        base = self.flow._distribution
        kind = type(base).__name__
        if kind == "StandardNormal":
            return 0.0, 1.0
        return (base.mean_, base.log_std_.exp()) if kind == "DiagonalNormal" else None

    def _draw(self, n: int) -> Tensor:
        return self.flow._distribution.sample(n)


class NormflowsFlow(AdaptedFlow):
    """An unconditional flow of normflows.

    Parameters
    ----------
    flow
        A `normflows.NormalizingFlow` over rows of shape (n, d).
    """

    package = "normflows"

    def __init__(self, flow: nn.Module) -> None:
        _refuse_context(flow, self.package)
        base: Any = flow.q0
        super().__init__(flow, _n_features(_drawn_shape(base.sample, flow), self.package))

    def _encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self._walk(x, [layer.inverse for layer in reversed(self.flow.flows)])

    def _decode(self, z: Tensor) -> tuple[Tensor, Tensor]:
        return self._walk(z, list(self.flow.flows))

    @staticmethod
    def _walk(x: Tensor, layers: list[Callable[[Tensor], tuple[Tensor, Tensor]]]) -> tuple[Tensor, Tensor]:
        log_det = x.new_zeros(len(x))  # the package's own walk adds in float32
        for layer in layers:
            x, term = layer(x)
            log_det = log_det + term
        return x, log_det

    def base_log_prob(self, z: Tensor) -> Tensor:
        """Log-density of the latent variable, (n, d) to (n,)."""
        return self.flow.q0.log_prob(z)

    def _normal(self) -> tuple[Tensor | float, Tensor | float] | None:
        base = self.flow.q0
        if type(base).__name__ != "DiagGaussian":
            return None
        temperature = 1.0 if base.temperature is None else base.temperature
        return base.loc, base.log_scale.exp() * temperature

    def _draw(self, n: int) -> Tensor:
        return self.flow.q0.sample(n)


def _sum_columns(log_det: Tensor) -> Tensor:
    """Sum the terms of a coordinatewise map; other maps give (n,) already."""
    return log_det.sum(1) if log_det.dim() == 2 else log_det


def _n_features(shape: tuple[int, ...], package: str) -> int:
    if len(shape) != 1:
        raise ValueError(
            f"`flow` is a flow of {package} over arrays of shape {shape}: only flows over rows of d numbers are taken. "
            "Flatten the data, and build the flow with a base of shape (d,)."
        )
    return shape[0]


def _refuse_context(flow: nn.Module, package: str) -> None:
    """Refuse a conditional flow: some layers run without their context too, and give another density."""
    embedding = getattr(flow, "_embedding_net", None)
    conditional = [] if embedding is None or isinstance(embedding, nn.Identity) else [embedding]
    for module in flow.modules():
        if any(getattr(module, name, None) is not None for name in _CONTEXT):
            conditional.append(module)
    if conditional or _comes_from(flow, package, "ConditionalNormalizingFlow"):
        names = sorted({type(module).__name__ for module in conditional or [flow]})
        raise ValueError(
            f"`flow` is a flow of {package} that waits for a context or a class ({', '.join(names)}): only "
            "unconditional flows are taken. Build it without."
        )


def _drawn_shape(draw: Callable[[int], Tensor], flow: nn.Module) -> tuple[int, ...]:
    """Draw two rows to see their shape, and leave torch's global state as it was."""
    with torch.no_grad(), seeded(0, like(flow).device):
        return tuple(draw(2).shape[1:])


def _run_row_zuko(flow: nn.Module) -> tuple[int, ...]:
    """Return the shape of the base of a zuko flow, once a row of that shape has passed through: it builds lazily."""
    kind = like(flow)
    with torch.no_grad(), seeded(0, kind.device), _eval(flow):
        density = flow()
        shape = tuple(density.base.event_shape)
        density.transform(kind.new_zeros(1, *shape))
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


@contextmanager
def _eval(flow: nn.Module) -> Iterator[None]:
    """Run the block in evaluation mode, and leave every module as it was."""
    modes = [(module, module.training) for module in flow.modules()]
    flow.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
