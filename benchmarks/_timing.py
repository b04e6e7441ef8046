"""How the benchmarks measure time: one thread, alternating methods, the best of a few rounds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import TypeVar

import torch
from threadpoolctl import threadpool_limits

Result = TypeVar("Result")


def one_thread() -> None:
    """Use one thread in this process and in those that it starts, for us and for the peers."""
    for name in ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "TF_NUM_INTRAOP", "TF_NUM_INTEROP"):
        os.environ[f"{name}_THREADS"] = "1"
    threadpool_limits(1)
    torch.set_num_threads(1)


def versions() -> str:
    """Return the versions that the numbers depend on, in one line."""
    import zuko

    return (
        f"torch {torch.__version__}, zuko {zuko.__version__}, {torch.get_num_threads()} thread, {os.cpu_count()} cores"
    )


def by_turns(contestants: dict[str, Callable[[], object]], n_rounds: int = 5) -> dict[str, float]:
    """Run each method once to warm up, then all in turn. Return the seconds of the best round of each."""
    for contestant in contestants.values():
        contestant()
    return {name: min(seconds) for name, seconds in all_turns(contestants, n_rounds).items()}


def all_turns(
    contestants: dict[str, Callable[[], object]], n_rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Run all methods in turn. Return the seconds of every round of each."""
    rounds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(n_rounds):
        for name, contestant in contestants.items():
            start = clock()
            contestant()
            rounds[name].append(clock() - start)
    return rounds


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """Return the result of a function, and its seconds of processor time, of all threads."""
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def use_processor_time() -> None:
    """Let budgets count seconds of the processor, so that other work on the machine does not matter."""
    from flowratio.ratios.auto import auto, fitting, race
    from flowratio.training import run

    for module in (auto, fitting, race, run):
        vars(module)["time"] = SimpleNamespace(perf_counter=time.process_time, monotonic=time.monotonic)
