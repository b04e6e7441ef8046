"""Is a ratio any good? Overlap, identities, calibration, balance, importance, figures: they read, change nothing."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flowratio.diagnostics.diagnosis import Diagnosis, diagnose
    from flowratio.diagnostics.plots import (
        plot_balance,
        plot_estimates,
        plot_importance,
        plot_latent,
        plot_log_ratios,
        plot_reliability,
        plot_weights,
    )

__all__ = [
    "Diagnosis",
    "diagnose",
    "plot_balance",
    "plot_estimates",
    "plot_importance",
    "plot_latent",
    "plot_log_ratios",
    "plot_reliability",
    "plot_weights",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "plots" if name.startswith("plot_") else "diagnosis"
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value  # the next look-up does not come here
    return value
