"""What a path stands for: standard input, a pipe, one file, or the parts of a table in a folder or of a pattern.

Only the standard library is imported, so that the command line can check its files at once.
"""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from flowratio._support.errors import ArgumentError
from flowratio._support.wording import quoted
from flowratio.storage.file_kinds import FileKind, file_kind
from flowratio.storage.model_files import MODEL_FILE

if TYPE_CHECKING:
    from flowratio._support.types import PathLike

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # how Hive writes a missing value in the name of a folder


class Part(NamedTuple):
    """A file of a table in several files, with the columns that the names of its folders have, such as year=2024."""

    path: Path
    values: dict[str, str | None]


def is_stream(path: PathLike) -> bool:
    """Return whether a path can be read only once: "-", which is standard input, or a pipe."""
    return os.fspath(path) == "-" or Path(path).is_fifo()


def is_source(path: PathLike) -> bool:
    """Return whether a path is a file or a folder that exists, or a pattern with a match."""
    return Path(path).exists() or (_is_pattern(path) and bool(_matches(path)))


def parts_of(path: PathLike) -> list[Part] | None:
    """Return the files of a folder or of a pattern, in sorted order. None for one file and for a stream.

    Subfolders count. Names that begin with "." or "_" do not. An existing file is never a pattern.
    """
    name = os.fspath(path)
    if is_stream(path):
        return None
    if Path(path).is_dir():
        files = list(_files_in(Path(path)))
        if Path(path) / MODEL_FILE in files:
            raise ValueError(f"{name} is the folder of a model. A table must be a file or a folder of tables.")
        if not files:
            raise FileNotFoundError(f"{name} is a folder without files. Use a table, or a folder of tables.")
        return _checked([_part(file, Path(path)) for file in files], name)
    if Path(path).exists() or not _is_pattern(path):
        return None
    matches = _matches(path)
    if not matches:
        raise FileNotFoundError(f"No file matches {name}. Check the pattern.")
    return _checked([_part(file, _root(path)) for file in matches], name)


def check_source(path: PathLike) -> None:
    """Refuse a path that is not a table, by names and first bytes only. A stream is not read."""
    if is_stream(path):
        return
    parts = parts_of(path)
    if parts is None:
        file_kind(Path(path), str(path))


def check_sources(paths: Sequence[PathLike]) -> None:
    """Refuse paths of one command that are not tables, or two of which are standard input."""
    if [os.fspath(path) for path in paths].count("-") > 1:
        raise ValueError("Only one of the files can be standard input (-). Use a path for the others.")
    for path in paths:
        check_source(path)


def check_apart(out: PathLike, source: PathLike) -> None:
    """Refuse an output that is its source, a part of it, or would become one."""
    target, folder = Path(os.path.realpath(out)), Path(os.path.realpath(source))
    if os.fspath(out) == "-":
        return
    parts = parts_of(source)
    if parts is None and target == folder and target.is_file():
        raise ArgumentError("out", f"{out} is the file to score, and would be replaced. Write to another file.")
    if parts is None:
        return
    files = {os.path.realpath(part.path) for part in parts}
    if (folder.is_dir() and target.is_relative_to(folder)) or str(target) in files:
        raise ArgumentError("out", f"{out} would be a part of {source}. Write to a file in another folder.")


def source_state(path: PathLike) -> Any:
    """Return what changes when the files of a source change, ready for JSON: a digest of paths, sizes and times."""
    parts = parts_of(path)
    files = [Path(path)] if parts is None else [part.path for part in parts]
    digest = hashlib.sha256()
    for file in files:
        state = os.stat(file)
        digest.update(repr((os.path.realpath(file), state.st_size, state.st_mtime_ns)).encode())
    return [os.path.realpath(path), len(files), digest.hexdigest()]


def _files_in(folder: Path) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        raise type(error)(f"Cannot read the folder {error.filename} ({error.strerror}). Check its permissions.")

    for place, folders, names in os.walk(folder, onerror=fail):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        yield from (Path(place) / name for name in names if not name.startswith((".", "_")))


def _is_pattern(path: PathLike) -> bool:
    return glob.has_magic(os.fspath(path))


def _matches(path: PathLike) -> list[Path]:
    paths = [Path(match) for match in glob.glob(os.fspath(path), recursive=True)]
    paths = [one for one in paths if not one.name.startswith("_")]
    return [file for one in paths for file in (_files_in(one) if one.is_dir() else [one])]


def _root(path: PathLike) -> Path:
    """Return the folders of a pattern before the first one with a wildcard."""
    folders = Path(path).parent.parts
    n = next((k for k, folder in enumerate(folders) if glob.has_magic(folder)), len(folders))
    return Path(*folders[:n])


def _part(file: Path, root: Path) -> Part:
    pairs = [folder.partition("=") for folder in file.relative_to(root).parts[:-1] if "=" in folder]
    return Part(file, {key: None if value == _NO_VALUE else unquote(value) for key, _, value in pairs})


def _checked(parts: list[Part], name: str) -> list[Part]:
    """Return parts in sorted order, each once. Refuse parts of different kinds."""
    parts = [part for _, part in sorted({part.path.as_posix(): part for part in parts}.items())]
    kinds: dict[FileKind, str] = {}
    for part in parts:
        kinds.setdefault(file_kind(part.path, str(part.path)), part.path.name)
        if len(kinds) > 1:
            examples = " and ".join(f"{quoted(file)} ({kind.value})" for kind, file in kinds.items())
            rule = "All parts of a table must be of one kind. Move the others, or use a pattern such as '*.parquet'"
            raise ValueError(f"{name} has files of different kinds: {examples}. {rule}.")
    return parts
