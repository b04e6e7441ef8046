"""The stages of long tasks, in a folder next to the results: a task that was killed resumes with the next stage."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from flowratio import Journal

_ENDINGS = (".entry.json", ".entry.safetensors")  # of the entries of a journal


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path, then rename it to `path`: a reader finds the old file or the new one."""
    temporary = path.with_name(f".{secrets.token_hex(4)}.{path.name}")
    try:
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, f"Cannot write {path} ({error.strerror}). Use another --out.") from error
    finally:
        temporary.unlink(missing_ok=True)


class Workspace:
    """The folder in which a task records its stages.

    Parameters
    ----------
    folder
        The folder of the experiment. It is created by the first journal.

    Attributes
    ----------
    earlier_seconds
        Processor seconds of stages that an earlier process recorded.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.earlier_seconds = folder, 0.0

    @contextmanager
    def journal(self, name: str, about: dict[str, Any]) -> Iterator[Journal]:
        """Open the journal of a task, in a folder of this name.

        Parameters
        ----------
        name
            Name of the folder.
        about
            What its entries depend on. A journal of another task is refused.
        """
        with Journal(self.folder / name, about) as journal:
            entries = [path.name.rpartition(".entry.")[0] for path in _entries(self.folder / name)]
            self.earlier_seconds += sum(journal.read(entry).seconds for entry in entries)
            yield journal


def _entries(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.endswith(_ENDINGS)]


def count_stages(folder: Path) -> int:
    """Return how many stages of long tasks are on disk, for a progress bar that counts whole tasks.

    Parameters
    ----------
    folder
        The folder of the experiment.
    """
    try:
        return sum(len(_entries(task)) for task in folder.iterdir() if task.is_dir())
    except OSError:  # there is none, or a task removes its checkpoint at this moment
        return 0


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an entry whose journal is closed.

    Parameters
    ----------
    path
        The .safetensors file.
    """
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path} is damaged ({error}). Delete it to compute it again.") from error


def forget(results: Path) -> None:
    """Let an experiment start again. Its stages are removed, and its results stay until a new one replaces them.

    Until then a folder next to the results marks them as forgotten: a run that is killed before resumes as a new one.

    Parameters
    ----------
    results
        The file of the results. Its stages are in the folder of the same name without the ending.
    """
    keep, mark = results.with_suffix(""), _mark(results)
    if not results.exists() and not keep.exists():
        return
    with _removing(keep):
        if keep.exists():
            keep.rename(mark / secrets.token_hex(4) if mark.exists() else mark)  # in one step: never half of it
        mark.mkdir(exist_ok=True)
    with _removing(mark):
        for stages in mark.iterdir():
            shutil.rmtree(stages) if stages.is_dir() else stages.unlink()


def is_forgotten(results: Path) -> bool:
    """Return whether the results in a file were forgotten, and no new one has replaced them."""
    return _mark(results).exists()


def end_forgetting(results: Path) -> None:
    """Mark the results in a file as new."""
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
            f"{folder} has stages to be forgotten, and cannot be removed ({error.strerror or error}). Remove it by "
            "hand and run the same command again, or use another --out."
        ) from error
