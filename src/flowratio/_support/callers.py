"""Warnings that point to the line of the user, however deep in the package they are issued."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

_OWN = {"flowratio", "sklearn", "joblib", "contextlib"}  # packages whose lines say nothing to the user


def warn_caller(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Issue a warning for the first line outside the package. A `message` that is a warning has its own category."""
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _OWN:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
