"""How the benchmarks time: one thread, contestants by turns, the best of a few rounds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import torch


def one_thread() -> None:
    """Give this process one thread, for us and for the peer."""
    torch.set_num_threads(1)


def versions() -> str:
    """Return what the figures depend on, in one line."""
    import zuko

    return (
        f"torch {torch.__version__}, zuko {zuko.__version__}, {torch.get_num_threads()} thread, {os.cpu_count()} cores"
    )


def by_turns(contestants: dict[str, Callable[[], object]], n_rounds: int = 5) -> dict[str, float]:
    """Run each contestant once to warm up, then all by turns; return the seconds of the best round of each."""
    for contestant in contestants.values():
        contestant()
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(n_rounds):
        for name, contestant in contestants.items():
            start = time.perf_counter()
            contestant()
            best[name] = min(best[name], time.perf_counter() - start)
    return best
