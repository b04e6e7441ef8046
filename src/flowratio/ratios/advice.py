"""What to do about a ratio of the wrong form, and what the automatic choice behind a ratio did not try."""

from __future__ import annotations

from typing import Any

from flowratio.ratios.inverse import InverseRatio
from flowratio.ratios.registry import RATIOS, RatioEntry, named_ratio

_FLEXIBLE = ("quadratic", "boosting", "auto")


def advice_on_form(ratio: Any) -> str:
    """Return advice to use a ratio that is more flexible, without the one that was used.

    It is empty after an automatic choice, which has tried them. `ratio` may be a name, a pipeline, or None for
    `AutoRatio()`.
    """
    own = _last(ratio)
    if _untried(own) is not None:
        return ""
    names = [repr(name) for name in _FLEXIBLE if not _is_entry(own, RATIOS[name])]
    return f"Use a more flexible ratio, such as {', '.join(names[:-1])} or {names[-1]}."


def untried_note(ratio: Any) -> str:
    """Return what the automatic choice behind a ratio did not try. Empty if it tried all, or if there was none."""
    return _untried(_last(ratio)) or ""


def _untried(ratio: Any) -> str | None:
    """Return what an automatic choice did not try. None if there was no automatic choice."""
    return ratio.untried() if hasattr(ratio, "untried") else None  # their classes import torch


def _last(ratio: Any) -> Any:
    if ratio is None or isinstance(ratio, str):
        return named_ratio(ratio or "auto")
    last = ratio.steps[-1][1] if hasattr(ratio, "steps") else ratio
    return _last(getattr(last, "estimator_", last.estimator)) if isinstance(last, InverseRatio) else last


def _is_entry(ratio: Any, entry: RatioEntry) -> bool:
    """Return whether a ratio has the class and the settings of an entry."""
    same_class = type(ratio).__name__ == entry.cls
    return same_class and all(getattr(ratio, name, None) == value for name, value in entry.settings.items())
