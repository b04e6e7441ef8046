"""What the stages of a long task have given, in a folder: a task that was killed goes on with the next stage."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from flowratio.experiments.data import arrays_of
from flowratio.files import replacing

_RUN = "run"


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
        there = self.numbers(_RUN, lambda: here)
        if there != here:
            different = sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name))
            raise ValueError(
                f"{folder} has checkpoints of another run: it differs in {', '.join(different)}. Delete the folder to "
                "start again, or give another --out."
            )

    def numbers(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return numbers and texts that are there, or else make and keep them."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            made = json.dumps(make())
            with replacing(path) as temporary:
                temporary.write_text(made)
        try:
            return json.loads(path.read_text())
        except ValueError as error:  # what tells this run from others cannot be made from what is there
            what = f"the folder {self.folder}" if name == _RUN else "it"
            raise ValueError(f"{path} is damaged ({error}): delete {what} to make it again.") from error

    def arrays(self, name: str, make: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """Return arrays that are there, or else make and keep them."""
        path = self.folder / f"{name}.npz"
        if not path.exists():
            made = make()
            with replacing(path) as temporary:
                np.savez_compressed(temporary, **made)  # pyright: ignore[reportArgumentType] - names of our own
        return read_arrays(path)


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
