"""Is a ratio any good? Overlap, identities, calibration, balance, importance, figures: they read, change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowratio.lazy import lazily

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

_MODULES = {
    "diagnosis": ["diagnose", "Diagnosis"],
    "plots": [name for name in __all__ if name.startswith("plot_")],
}
__getattr__, __dir__ = lazily(__name__, _MODULES)
