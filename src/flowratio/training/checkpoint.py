"""The state of a training run in a journal: arrays and numbers in one file that is replaced as a whole."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from safetensors import SafetensorError

from flowratio._support.journal import Journal

Numbers: TypeAlias = dict[str, Any]  # for JSON
Arrays: TypeAlias = dict[str, np.ndarray]

_ENTRY = "checkpoint"
_SHARE = 0.02  # of the time of a run, that may go into writing


class Checkpoint:
    """The state of a run in a folder, so that the run resumes after a kill.

    The time between two writes is `seconds`, and at least 50 times the duration of the last write. 0 writes on every
    occasion. The fingerprint, as JSON, is what the state depends on. The state of another run is refused.
    """

    def __init__(self, folder: Path, seconds: float, fingerprint: dict[str, Any]) -> None:
        self.folder, self.seconds, self.fingerprint = folder, seconds, fingerprint
        self.written, self.cost = time.monotonic(), 0.0

    def is_due(self) -> bool:
        """Return whether it is time for the next write."""
        return time.monotonic() - self.written >= (max(self.seconds, self.cost / _SHARE) if self.seconds else 0.0)

    def write(self, numbers: Numbers, arrays: Arrays) -> None:
        """Replace the state. If that fails the run continues, with a warning."""
        start = time.monotonic()
        try:
            with Journal(self.folder, self.fingerprint) as journal:  # locked while it is written, not all the time
                journal.write(_ENTRY, numbers, arrays)
            self.cost = time.monotonic() - start
        except (OSError, SafetensorError) as error:
            warnings.warn(f"The checkpoint was not written. {error}", RuntimeWarning, stacklevel=5)
        self.written = time.monotonic()

    def begin(self, numbers: Numbers, arrays: Arrays) -> tuple[Numbers, Arrays]:
        """Return the state in the folder. If there is none, write and return this first state."""
        with Journal(self.folder, self.fingerprint) as journal:
            if not journal.has(_ENTRY):
                journal.write(_ENTRY, numbers, arrays)  # a folder that cannot be written is an error now, not later
                return numbers, arrays
            entry = journal.read(_ENTRY)
        if entry.value.keys() != numbers.keys() or _types(entry.arrays) != _types(arrays):
            raise ValueError(f"{self.folder} has a checkpoint that does not fit this run. Delete it to start again.")
        return entry.value, entry.arrays


def _types(arrays: Arrays) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: (str(array.dtype), array.shape) for name, array in arrays.items()}
