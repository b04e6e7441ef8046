"""The state of a run in a folder: arrays and numbers in one file that is replaced as a whole."""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from flowratio._support.atomic import remove_temporaries, replacing

_FILE = "checkpoint.safetensors"
_SHARE = 0.02  # of the time of a run, that may go into writing


class Checkpoint:
    """Where a run keeps its state, so that it survives a kill.

    Parameters
    ----------
    folder
        The folder; it is made if it does not exist.
    seconds
        Time between two writes, or fifty times what the last of them took, if that is longer: a large state must not
        slow the run. At 0 every occasion is taken.
    fingerprint
        What tells this run from others, as JSON knows it: a state of another run is refused.
    """

    def __init__(self, folder: Path, seconds: float, fingerprint: dict[str, Any]) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OSError(
                error.errno,
                f"`checkpoint` is {folder}, where no folder can be made ({error.strerror}): give the path of a folder "
                "that can be written.",
            ) from error
        self.path, self.seconds = folder / _FILE, seconds
        self.fingerprint = json.loads(json.dumps(fingerprint))
        self.written, self.cost = time.monotonic(), 0.0

    def is_due(self) -> bool:
        """Tell whether it is time for the next write."""
        return time.monotonic() - self.written >= (max(self.seconds, self.cost / _SHARE) if self.seconds else 0.0)

    def write(self, numbers: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Replace the state; if that fails the run goes on, with a warning."""
        try:
            self._replace(numbers, arrays)
        except (OSError, SafetensorError) as error:
            warnings.warn(f"The checkpoint was not written: {error}", RuntimeWarning, stacklevel=5)
        self.written = time.monotonic()

    def _replace(self, numbers: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        started = time.monotonic()
        metadata = {"fingerprint": json.dumps(self.fingerprint), "numbers": json.dumps(numbers)}
        with replacing(self.path) as temporary:
            save_file(arrays, temporary, metadata)
        self.cost = time.monotonic() - started

    def begin(
        self, numbers: dict[str, Any], arrays: dict[str, np.ndarray]
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the state that the folder keeps, or else keep and return the one given."""
        remove_temporaries(self.path)
        if not self.path.exists():
            self._replace(numbers, arrays)  # a folder that cannot be written is an error now, not after hours
            return numbers, arrays
        try:
            with safe_open(self.path, framework="np") as file:
                metadata = file.metadata() or {}
                kept = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
            there, kept_numbers = json.loads(metadata["fingerprint"]), json.loads(metadata["numbers"])
        except (SafetensorError, KeyError, ValueError) as error:
            raise ValueError(
                f"{self.path} is no checkpoint of flowratio, or is damaged ({error}): delete it to start again."
            ) from error
        here = self.fingerprint
        different = sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name))
        if different:
            raise ValueError(
                f"`checkpoint` folder {self.path.parent} belongs to another run: it differs in {', '.join(different)}. "
                "Give another folder, or delete this one to start again."
            )
        if kept_numbers.keys() != numbers.keys() or _kinds(kept) != _kinds(arrays):
            raise ValueError(f"{self.path} is damaged: it holds another state than it says. Delete it to start again.")
        return kept_numbers, kept


def _kinds(arrays: dict[str, np.ndarray]) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: (str(array.dtype), array.shape) for name, array in arrays.items()}
