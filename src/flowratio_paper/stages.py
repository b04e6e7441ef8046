"""What the stages of a long task have given, in a folder: a task that was killed goes on with the next stage."""

from __future__ import annotations

import json
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from flowratio._support.atomic import replacing
from flowratio_paper.data import arrays_of

Made = TypeVar("Made")
_COSTS: ContextVar[dict[Path, float] | None] = ContextVar("costs", default=None)


@contextmanager
def earlier_seconds() -> Iterator[dict[Path, float]]:
    """Yield the processor seconds, by file, of stages that an earlier process has made and that are read inside."""
    costs: dict[Path, float] = {}
    token = _COSTS.set(costs)
    try:
        yield costs
    finally:
        _COSTS.reset(token)


class Stages:
    """A folder with what the stages of a run have given, so that a run that was killed goes on where it was.

    Parameters
    ----------
    folder
        It is made if it does not exist.
    about
        What tells this run from others, as JSON knows it: what another run left is refused.
    """

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        here = json.loads(json.dumps(about))
        path = folder / "run.json"
        if not path.exists():
            with replacing(path) as temporary:
                temporary.write_text(json.dumps(here))
        there = _read(path, json.loads, f"the folder {folder}")  # it cannot be made from what is there
        if there != here:
            different = sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name))
            raise ValueError(
                f"{folder} has checkpoints of another run: it differs in {', '.join(different)}. Delete the folder to "
                "start again, or give another --out."
            )

    def numbers(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return numbers and texts that are there, or else make and keep them."""
        path = self.folder / f"{name}.json"

        def write(temporary: Path, made: dict[str, Any]) -> None:
            temporary.write_text(json.dumps(made))

        self._keep(path, make, write)
        return _read(path, json.loads)

    def arrays(self, name: str, make: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """Return arrays that are there, or else make and keep them."""
        path = self.folder / f"{name}.npz"

        def write(temporary: Path, made: dict[str, np.ndarray]) -> None:
            np.savez_compressed(temporary, **made)  # pyright: ignore[reportArgumentType] - names of our own

        self._keep(path, make, write)
        return read_arrays(path)

    def _keep(self, path: Path, make: Callable[[], Made], write: Callable[[Path, Made], None]) -> None:
        """Make a stage that is not there, or not with what it took, and write both."""
        cost, costs = path.with_name(f"{path.name}.seconds"), _COSTS.get()
        if path.exists() and cost.exists():
            if costs is not None:
                costs.setdefault(path, _read(cost, float))
            return
        started = time.process_time()
        made = make()
        with replacing(path) as temporary:
            write(temporary, made)
            with replacing(cost) as temporary_cost:
                temporary_cost.write_text(f"{time.process_time() - started:.3f}")
        if costs is not None:
            costs[path] = 0.0  # they are of this process


def _read(path: Path, parse: Callable[[str], Any], delete: str = "it") -> Any:
    try:
        return parse(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}): delete {delete} to make it again.") from error


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a file that a stage has left.

    Parameters
    ----------
    path
        Of the .npz file.
    """
    try:
        with path.open("rb") as file:
            return arrays_of(file)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is damaged ({error}): delete it to make it again.") from error


def forget(results: Path) -> None:
    """Let an experiment start anew: stages are removed, and results are left alone until a new one replaces them.

    Until then a folder beside them marks them as forgotten: a run that is killed before is gone on with as a new one.

    Parameters
    ----------
    results
        The file of the results; its stages are in the folder of its name without the ending.
    """
    keep, mark = results.with_suffix(""), _mark(results)
    if not results.exists() and not keep.exists():
        return
    with _removing(keep):
        if keep.exists():
            keep.rename(mark / secrets.token_hex(4) if mark.exists() else mark)  # in one step: none is left half-way
        mark.mkdir(exist_ok=True)
    with _removing(mark):
        for stages in mark.iterdir():
            shutil.rmtree(stages) if stages.is_dir() else stages.unlink()


def is_forgotten(results: Path) -> bool:
    """Return whether the results in a file were forgotten, and no new one has replaced them."""
    return _mark(results).exists()


def end_forgetting(results: Path) -> None:
    """Say that the results in a file are new ones."""
    if is_forgotten(results):
        with _removing(_mark(results)):
            shutil.rmtree(_mark(results))


def _mark(results: Path) -> Path:
    return results.with_suffix(".forgotten")


@contextmanager
def _removing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OSError(
            f"{folder}, with stages to be forgotten, cannot be removed ({error.strerror or error}): remove it by hand "
            "and give the same line again, or give another --out."
        ) from error
