"""Tables in files, read whole or in batches: one file, or the parts of a folder or of a pattern.

Any file is read, or raises a ValueError or an OSError of one line that names the file.
"""

from __future__ import annotations

import codecs
import gzip
import os
import shutil
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TypeAlias, cast

import polars as pl

from flowratio._support.errors import ArgumentError
from flowratio._support.types import PathLike
from flowratio.samples.files import named_errors
from flowratio.storage.csv_layout import no_rows
from flowratio.storage.csv_table import CsvTable
from flowratio.storage.excel import excel_table
from flowratio.storage.file_kinds import FileKind, file_kind
from flowratio.storage.json_lines import JsonLinesTable
from flowratio.storage.parts import PartsTable
from flowratio.storage.sources import Part, is_source, is_stream, parts_of
from flowratio.storage.table_file import TableFile
from flowratio.storage.typed_tables import ArrayTable, ArrowTable, ParquetTable, arrow_file

Names: TypeAlias = Sequence[str]
_COPIED_BYTES = 1 << 22  # at a time


@contextmanager
def open_table(path: PathLike, encoding: str | None = None) -> Iterator[TableFile]:
    """Open a table, to read it in batches as often as needed, with the path and encoding of `read_table`.

    Standard input, a compressed file, JSON lines and an NPZ archive are unpacked to a temporary file. The parts of a
    table are read one after the other.
    """
    check_encoding(encoding)
    parts = parts_of(path)

    def opened(part: Part) -> AbstractContextManager[TableFile]:
        return _open_file(part.path, encoding)

    if parts is not None:
        yield PartsTable(str(path), parts, opened)
        return
    with _open_file(path, encoding) as table:
        yield table


@contextmanager
def _open_file(path: PathLike, encoding: str | None) -> Iterator[TableFile]:
    is_stdin = os.fspath(path) == "-"
    name = "standard input" if is_stdin else str(path)
    with TemporaryDirectory(prefix="flowratio-") as folder:
        path, unpacked = Path(path), Path(folder)
        ending = path.suffix
        if is_stream(path):
            with nullcontext(sys.stdin.buffer) if is_stdin else open(path, "rb") as stream:
                path = _copied(stream, unpacked / "stream")
        kind = file_kind(path, name, ending)
        if kind is FileKind.GZIP:
            ending = Path(path.stem).suffix
            with named_errors(name, kind.value), gzip.open(path) as stream:
                path = _copied(cast(IO[bytes], stream), unpacked / "content")
            kind = file_kind(path, name, ending)
        table = _table(kind, path, name, encoding, ending, unpacked)
        if table.n_rows == 0:
            raise no_rows(name)
        yield table


def _table(kind: FileKind, path: Path, name: str, encoding: str | None, ending: str, unpacked: Path) -> TableFile:
    """Return the table of a file of a known kind. Copies are written to the folder `unpacked`."""
    match kind:
        case FileKind.PARQUET:
            return ParquetTable(path, name)
        case FileKind.ARROW:
            return ArrowTable(arrow_file(path, name, unpacked / "table.arrow"), name)
        case FileKind.NPY:
            return ArrayTable([("X", path)], name)
        case FileKind.NPZ:
            return ArrayTable(_arrays_of(path, name, unpacked), name)
        case FileKind.EXCEL:
            return excel_table(path, name)
        case FileKind.JSON_LINES:
            return JsonLinesTable(_in_utf8(path, name, encoding, unpacked / "text"), name, unpacked / "table.arrow")
        case FileKind.GZIP:
            raise ValueError(f"{name} is compressed twice. Unpack it once, and use the file in it.")
        case FileKind.CSV:
            separator = "\t" if ending.lower() in (".tsv", ".tab") else ","
            return CsvTable(_in_utf8(path, name, encoding, unpacked / "text"), name, separator)


def read_table(
    path: PathLike, columns: Names | None = None, exclude: Names | None = None, *, encoding: str | None = None
) -> pl.DataFrame:
    """Read a table: text columns from CSV, typed ones from Parquet and Feather, x1, x2, ... from NPY and NPZ.

    The path is a file, a folder of files with the same columns, a pattern such as "part-*.parquet", or "-" for standard
    input. Files are CSV, Parquet, Feather (Arrow), JSON lines, Excel (the first sheet), NPY or NPZ. CSV and JSON lines
    may be compressed (.gz), and are in UTF-8 if `encoding` is None. The first bytes decide for other endings. Vectors
    of the same length in an NPZ archive are columns with their names. All `columns` are read if None, except an index
    that pandas wrote.
    """
    with open_table(path, encoding) as table:
        names = [name for name in table.columns if name not in table.index] if columns is None else columns
        excluded = table.checked_names(exclude or (), "exclude")
        names = [name for name in table.checked_names(names) if name not in excluded]
        if not names:
            rule = "`columns` and `exclude` must leave at least one"
            raise ArgumentError("exclude", f"No column of {table.name} is left. {rule}.")
        return pl.concat(table.frames(names), rechunk=True)


def place_in(path: PathLike, row: int, encoding: str | None = None) -> str:
    """Return how errors name a row of a file, counted from 0, as `TableFile.place` does."""
    if is_stream(path) or not is_source(path):
        return f"row {row + 1} of {'standard input' if os.fspath(path) == '-' else path}"
    with open_table(path, encoding) as table:
        return table.place(row)


def check_encoding(encoding: str | None) -> None:
    """Refuse an encoding that Python does not know."""
    try:
        "".encode("utf-8" if encoding is None else encoding)
    except (LookupError, ValueError, TypeError) as error:
        message = f"`encoding` is {encoding!r}. Use the name of a text encoding, such as utf-8, latin-1 or cp1252."
        raise ArgumentError("encoding", message) from error


def _in_utf8(path: Path, name: str, encoding: str | None, copy: Path) -> Path:
    """Return a text file in UTF-8: the file itself, or a copy of it."""
    if encoding is None or codecs.lookup(encoding).name == "utf-8":
        return path
    try:
        with open(path, encoding=encoding, newline="") as source, open(copy, "w", encoding="utf-8", newline="") as file:
            shutil.copyfileobj(source, file, _COPIED_BYTES)
    except UnicodeError as error:
        message = f"{name} is not in the encoding {encoding} ({error}). Set `encoding` to the encoding of the file."
        raise ArgumentError("encoding", message) from error
    return copy


def _copied(stream: IO[bytes], target: Path) -> Path:
    with open(target, "wb") as file:
        shutil.copyfileobj(stream, file)
    return target


def _arrays_of(path: Path, name: str, folder: Path) -> list[tuple[str, Path]]:
    """Unpack the arrays of an archive, or only the one named X. Return their names and files."""
    with named_errors(name, FileKind.NPZ.value), zipfile.ZipFile(path) as archive:
        members = [member for member in archive.namelist() if member.endswith(".npy")]
        members = ["X.npy"] if "X.npy" in members else members
        arrays = [(member.removesuffix(".npy"), folder / f"{k}.npy") for k, member in enumerate(members)]
        for key, target in arrays:
            with archive.open(f"{key}.npy") as stream:
                _copied(stream, target)
    if not arrays:
        raise ValueError(f"{name} is an archive without arrays. Write it with np.savez(path, X=...), or write CSV.")
    return arrays
