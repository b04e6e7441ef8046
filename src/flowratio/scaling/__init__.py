"""Stage 2: x ↔ scaled x, with the log-determinant. A new scaler is its file, its line here, and its test file."""

from __future__ import annotations

from collections.abc import Callable

from flowratio.scaling.base import Scaler
from flowratio.scaling.chain import ScalerChain
from flowratio.scaling.gaussianizer import Gaussianizer
from flowratio.scaling.images import Dequantizer, Logit
from flowratio.scaling.standardizer import Standardizer
from flowratio.scaling.whitener import Whitener

__all__ = ["SCALINGS", "Dequantizer", "Gaussianizer", "Logit", "Scaler", "ScalerChain", "Standardizer", "Whitener"]

SCALINGS: dict[str, Callable[[], Scaler]] = {
    "standard": Standardizer,
    "gaussian": Gaussianizer,
    "white": lambda: ScalerChain([Gaussianizer(sparing=True), Whitener()]),
    "image": lambda: ScalerChain([Dequantizer(), Logit(), Standardizer()]),
    "none": lambda: ScalerChain([]),
}
