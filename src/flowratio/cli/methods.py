"""The ratio that `--method` names."""

from __future__ import annotations

from typing import Any

from flowratio.ratios.registry import named_ratio


def named_method(name: str, budget: float | None = None) -> Any:
    """Return the unfitted ratio of a name.

    Parameters
    ----------
    name
        A name of the registry, with hyphens or spaces.
    budget
        Seconds that `"auto"` has to choose.
    """
    ratio = named_ratio(name)
    return ratio.set_params(time_budget=budget) if "time_budget" in ratio.get_params(deep=False) else ratio
