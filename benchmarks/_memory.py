"""How the benchmarks measure memory: resident pages of this process, as Linux counts them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path


def resident_mb(name: str) -> float:
    """Return the resident memory now (`VmRSS`) or at its peak (`VmHWM`)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


def added_mb(work: Callable[[], object]) -> float:
    """Return how far the resident memory rises above where it is now while a piece of work runs."""
    ctypes.CDLL(None).malloc_trim(0)  # pages that were freed but kept would hide what the work asks for
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = resident_mb("VmRSS")
    work()
    return resident_mb("VmHWM") - before
