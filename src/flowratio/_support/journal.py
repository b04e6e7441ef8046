"""Resume after a kill: a folder in which a run records its progress."""

from __future__ import annotations

import errno
import json
import re
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from flowratio._support.atomic import replacing
from flowratio._support.types import PathLike

Value = TypeVar("Value")
_MANIFEST, _LOCK, _FORMAT = "journal.json", "journal.lock", "flowratio journal"
_TEMPORARY = r"(\.[0-9a-f]{8}\.[0-9a-f]{8}\.)"  # begins the name of what a kill left
_OWN = re.compile(_TEMPORARY + r"?(journal\.json|.+\.entry\.(json|safetensors)|.+\.batches\.(jsonl|f64))")
_N_ATTEMPTS = 5  # to lock a folder that other runs remove
_WAIT = 0.1  # seconds to wait for the lock of a run that ends at this moment
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS)


@dataclass(frozen=True)
class Entry:
    """A JSON value and arrays of numbers by name, and the processor time that their computation took."""

    value: Any
    arrays: dict[str, np.ndarray]
    seconds: float


class Journal(AbstractContextManager["Journal"]):
    """A folder in which a run records its progress, so that it resumes after a kill.

    `journal.json` describes the run. Each entry is a file that is replaced as a whole, such as `mean.entry.json`, or a
    list of batches with checksums. Other files in the folder stay. A journal is locked until `close`: a second run that
    opens it is refused.

    Parameters
    ----------
    folder, label
        The folder, which is created if it does not exist, and how errors name it.
    about, restart
        What the entries depend on, as JSON. A journal of another run is refused, or cleared with `restart`, and
        `is_restarted` is then True.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with Journal(folder, {"seed": 0}) as journal:
    ...         first = journal.entry("mean", lambda: 1.5)
    ...     with Journal(folder, {"seed": 0}) as journal:
    ...         first, journal.entry("mean", lambda: 99.0)
    (1.5, 1.5)
    """

    is_restarted: bool = False

    def __init__(
        self, folder: PathLike, about: dict[str, Any], *, restart: bool = False, label: PathLike | None = None
    ) -> None:
        self.folder, self.about = Path(folder), json.loads(json.dumps(about))
        self._lock = _locked(self.folder, self.folder if label is None else label)
        try:
            for path in self.folder.iterdir():
                if _is_own(path) and re.match(_TEMPORARY, path.name):
                    path.unlink(missing_ok=True)
            self._begin(restart)
        except BaseException:
            self.close()
            raise

    def _begin(self, restart: bool) -> None:
        try:
            differences = self._differences()
            problem = f"belongs to another run. It differs in {', '.join(differences)}" if differences else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            problem = f"is not the journal of a run, or is damaged ({error})"
        if problem and not restart:
            raise ValueError(f"{self.folder} {problem}. Use another folder, or delete this one to start again.")
        if problem:
            self.restart()
        elif not (self.folder / _MANIFEST).exists():
            self._write_manifest()

    def _differences(self) -> list[str]:
        """Return the names of what differs from the run that wrote the folder."""
        path = self.folder / _MANIFEST
        if not path.exists():
            if any(map(_is_own, self.folder.iterdir())):
                raise FileNotFoundError(f"{_MANIFEST} is missing")
            return []
        document = json.loads(path.read_bytes())
        if document["format"] != _FORMAT:
            raise ValueError(f"its format is not {_FORMAT!r}")
        here, there = self.about, document["about"]
        return sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name))

    def _write_manifest(self) -> None:
        with replacing(self.folder / _MANIFEST) as temporary:
            temporary.write_text(json.dumps({"format": _FORMAT, "about": self.about}))

    def restart(self) -> None:
        """Clear the journal, and begin it again for this run."""
        self.clear()
        self.is_restarted = True
        self._write_manifest()

    def entry(self, name: str, make: Callable[[], Value]) -> Value:
        """Return the value of an entry, as JSON reads it. Compute and record it with `make` if it is missing."""
        return self._entry(name, lambda: (make(), None)).value

    def arrays(self, name: str, make: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """Return the arrays of an entry. Compute and record them if they are missing."""
        return self._entry(name, lambda: (None, make())).arrays

    def _entry(self, name: str, make: Callable[[], tuple[Any, dict[str, np.ndarray] | None]]) -> Entry:
        if not self.has(name):
            start = time.process_time()
            value, arrays = make()
            self.write(name, value, arrays, seconds=time.process_time() - start)
        return self.read(name)

    def has(self, name: str) -> bool:
        """Return whether there is an entry of this name."""
        return any(self._path(name, ending).exists() for ending in ("entry.json", "entry.safetensors"))

    def write(self, name: str, value: Any, arrays: dict[str, np.ndarray] | None = None, seconds: float = 0.0) -> None:
        """Write or replace an entry: a value alone as JSON, with arrays as safetensors."""
        if arrays is None:
            with replacing(self._path(name, "entry.json")) as temporary:
                temporary.write_text(json.dumps({"seconds": round(seconds, 3), "value": value}))
            return
        metadata = {"seconds": f"{seconds:.3f}", "value": json.dumps(value)}
        arrays = {key: np.asarray(array, order="C") for key, array in arrays.items()}
        with replacing(self._path(name, "entry.safetensors")) as temporary:
            save_file(arrays, temporary, metadata)

    def read(self, name: str) -> Entry:
        """Return an entry that is there."""
        path = self._path(name, "entry.safetensors")
        try:
            if not path.exists():
                path = self._path(name, "entry.json")
                document = json.loads(path.read_bytes())
                return Entry(document["value"], {}, float(document["seconds"]))
            with safe_open(path, framework="np") as file:
                metadata = file.metadata() or {}
                arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a dict
            return Entry(json.loads(metadata["value"]), arrays, float(metadata["seconds"]))
        except (SafetensorError, KeyError, ValueError, TypeError) as error:
            raise ValueError(f"{path} is damaged ({error}). Delete it to compute it again.") from error

    def batches(self, name: str) -> Batches:
        """Return the list of batches of this name, without what a kill left incomplete."""
        return Batches(self._path(name, "batches.f64"), self._path(name, "batches.jsonl"))

    def clear(self) -> None:
        """Remove the manifest and all entries, also those of journals in subfolders. Other files stay."""
        for path in sorted(self.folder.iterdir(), key=lambda path: path.name != _MANIFEST):  # the manifest first
            if _is_own(path):
                path.unlink(missing_ok=True)
            elif (path / _MANIFEST).is_file() and _FORMAT.encode() in (path / _MANIFEST).read_bytes():
                with Journal(path, {}, restart=True) as journal:
                    journal.clear()

    def close(self) -> None:
        """Release the lock. Remove the folder if it is empty."""
        with suppress(OSError):  # before the release: a later lock of this name is another run's
            (self.folder / _LOCK).unlink()
        if self._lock is not None:
            self._lock.release()
        with suppress(OSError):
            self.folder.rmdir()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _path(self, name: str, ending: str) -> Path:
        return self.folder / f"{name}.{ending}"


class Batches:
    """Float64 values in batches that are appended to a file, each with a note.

    A batch counts once it has a line of JSON with its number of values and their checksum.
    """

    def __init__(self, values: Path, lines: Path) -> None:
        self.values, self.lines, self.n_values = values, lines, 0
        self.notes: list[Any] = []
        values.touch()
        lines.touch()
        complete = b""
        with open(values, "rb+") as file:
            for line in lines.read_bytes().splitlines(keepends=True):
                try:
                    batch = json.loads(line)
                    n, checksum, note = batch["values"], batch["crc32"], batch["note"]
                    if zlib.crc32(file.read(8 * n)) != checksum or not line.endswith(b"\n"):
                        break
                except (ValueError, KeyError, TypeError):
                    break
                complete += line
                self.n_values += n
                self.notes.append(note)
            file.truncate(8 * self.n_values)
        lines.write_bytes(complete)

    def append(self, values: np.ndarray, note: Any = None) -> None:
        """Append a batch of shape (n,). It survives a kill of the process once this returns."""
        data = np.asarray(values, np.float64).tobytes()
        with open(self.values, "ab") as file:
            file.write(data)
        with open(self.lines, "a") as file:
            file.write(json.dumps({"values": len(values), "crc32": zlib.crc32(data), "note": note}) + "\n")
        self.n_values += len(values)
        self.notes.append(note)

    def blocks(self, size: int) -> Iterator[np.ndarray]:
        """Yield all values in blocks of `size` values. The last block may be shorter."""
        with open(self.values, "rb") as file:
            while len(block := np.frombuffer(file.read(8 * size))):
                yield block

    def check(self) -> None:
        """Refuse a file that another run has changed."""
        n_stored = self.values.stat().st_size / 8
        if n_stored != self.n_values:
            numbers = f"has {n_stored:,.0f} values, but this run wrote {self.n_values:,}"
            raise ValueError(f"{self.values} {numbers}. Another run wrote there. Start again after it has ended.")


def _is_own(path: Path) -> bool:
    return _OWN.fullmatch(path.name) is not None and path.is_file()


def _locked(folder: Path, label: PathLike) -> FileLock | None:
    """Create a folder and lock it. None on a file system without locks."""
    lock = FileLock(folder / _LOCK, thread_local=False)
    for attempt in count():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=_WAIT)
            return lock
        except Timeout as error:
            message = f"Another run is writing {label}. Wait until it ends, or choose another path."
            raise BlockingIOError(message) from error
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return None
            if error.errno == errno.ENOENT and attempt < _N_ATTEMPTS:  # a run that ended has just removed the folder
                continue
            message = f"Cannot write to {folder} ({error.strerror}). Use a folder that can be written."
            raise OSError(error.errno, message) from error
    return None
