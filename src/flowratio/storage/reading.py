"""Tables in files, read whole or in batches: CSV, Parquet, NPY and NPZ.

Any file is read, or raises a ValueError or an OSError of one line that names the file.
"""

from __future__ import annotations

import codecs
import gzip
import math
import os
import shutil
import sys
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TypeAlias, cast

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as pc
from polars.exceptions import PanicException

from flowratio._support.errors import ArgumentError
from flowratio._support.types import PathLike
from flowratio._support.validation import check_count
from flowratio._support.wording import check_distinct, listed, nearest
from flowratio.samples.files import NpyFile, ParquetFile, check_matrix, named_errors, unreadable
from flowratio.storage.csv_layout import csv_layout, line_of, no_rows, not_utf8

Frames: TypeAlias = Iterator[pl.DataFrame]
Names: TypeAlias = Sequence[str]
BATCH_ROWS = 65_536
_OPEN_QUOTE = "{} has a quote that is not closed. Close it."
_BLOCK_BYTES = 1 << 22  # of a CSV file that are parsed at a time: no row may be longer than two of them
_Kind = Enum("_Kind", {"CSV": "CSV", "PARQUET": "Parquet", "NPY": "NPY", "NPZ": "NPZ", "GZIP": "gzip"})
_ENDINGS = {
    **dict.fromkeys((".csv", ".tsv", ".tab", ".txt"), _Kind.CSV),
    **dict.fromkeys((".parquet", ".pq"), _Kind.PARQUET),
    ".npy": _Kind.NPY,
    ".npz": _Kind.NPZ,
    ".gz": _Kind.GZIP,
}
_FIRST_BYTES = {b"PAR1": _Kind.PARQUET, b"\x93NUMPY": _Kind.NPY, b"PK\x03\x04": _Kind.NPZ, b"\x1f\x8b": _Kind.GZIP}


class TableFile(ABC):
    """A table in a file. Errors call it by its `name`."""

    index: Sequence[str] = ()  # columns that pandas wrote to number the rows
    n_rows: int  # for CSV, an estimate from the size of the file
    metadata: Mapping[bytes, bytes] = {}  # of a Parquet file, such as how pandas reads it
    separator: str = ","  # of a CSV file

    def __init__(self, path: Path, name: str, columns: list[str]) -> None:
        self.path, self.name, self.columns = path, name, columns
        check_distinct(columns, name)
        if not columns:
            raise ValueError(f"{name} has no columns. A table must have at least one.")

    def checked_names(self, names: Sequence[str], argument: str = "columns") -> list[str]:
        """Return names of columns, each once. Refuse a name that is not a column, and suggest similar ones."""
        for name in names:
            if name not in self.columns:
                advice = nearest(name, self.columns) or f" Its columns are {listed(self.columns)}."
                problem = f"`{argument}` has {name!r}, which is not a column of {self.name}."
                raise ArgumentError(argument, f"{problem}{advice}")
        return list(dict.fromkeys(names))

    def frames(self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS, skip: int = 0) -> Frames:
        """Yield columns in frames of `rows` rows, after the first `skip` rows. The last frame may be shorter."""
        check_count(rows, "rows")
        names = self.columns if columns is None else self.checked_names(columns)
        return self._rebatched(self._pieces(names, rows, skip), rows, skip)

    def _rebatched(self, pieces: Frames, rows: int, n_read: int) -> Frames:
        parts, n = [], 0
        for piece in pieces:
            n_read += len(piece)
            while len(piece):
                parts.append(piece[: rows - n])
                n, piece = n + len(parts[-1]), piece[rows - n :]
                if n == rows:
                    yield pl.concat(parts)
                    parts, n = [], 0
        if parts:
            yield pl.concat(parts)
        if n_read == 0:
            raise no_rows(self.name)

    def place(self, row: int) -> str:
        """Return how errors name a row, counted from 0: the line of a CSV file, or the row counted from 1."""
        return f"row {row + 1} of {self.name}"

    @abstractmethod
    def _pieces(self, names: list[str], rows: int, skip: int) -> Frames:
        """Yield columns in frames of any length, from row `skip` on."""


class _CsvTable(TableFile):
    """A CSV file of unchanged text. A blank line is left out, or is a missing value if there is one column."""

    def __init__(self, path: Path, name: str, separator: str) -> None:
        self.layout = csv_layout(path, name, separator)
        super().__init__(path, name, self.layout.columns)
        self.index = [column for column in self.columns if not column]
        self.n_rows, self.separator = self.layout.n_rows, self.layout.separator

    def _pieces(self, names: list[str], rows: int, skip: int) -> Frames:
        bad_rows: list[pc.InvalidRow] = []

        def refuse(row: pc.InvalidRow) -> str:
            bad_rows.append(row)
            return "error"

        reading = pc.ReadOptions(column_names=self.columns, block_size=_BLOCK_BYTES, use_threads=False)
        parsing = pc.ParseOptions(delimiter=self.separator, newlines_in_values=True, invalid_row_handler=refuse)
        parsing.ignore_empty_lines = len(self.columns) > 1
        conversion = pc.ConvertOptions(strings_can_be_null=True, null_values=[""])
        conversion.quoted_strings_can_be_null = False  # a missing value has not even quotes, and is written so again
        conversion.column_types = dict.fromkeys(self.columns, pa.string())
        last_column, last_value = self.columns[-1], ""
        conversion.include_columns = list(dict.fromkeys([*names, last_column]))
        try:
            with pa.OSFile(str(self.path)) as file:
                file.seek(self.layout.offset)
                for batch in pc.open_csv(file, reading, parsing, conversion):
                    skipped = min(skip, len(batch))
                    skip -= skipped
                    yield _frame(batch.slice(skipped).select(names))
                    last_value = (batch.column(last_column)[-1].as_py() or "") if len(batch) else ""
        except pa.ArrowInvalid as error:
            raise self._error(bad_rows, error) from error
        if len(last_value.splitlines()) > 1 and not self._ends_with_quote():
            raise ValueError(_OPEN_QUOTE.format(self.name))

    def place(self, row: int) -> str:
        line = line_of(self.path, self.layout, row)
        return super().place(row) if line is None else f"line {line} of {self.name}"

    def _ends_with_quote(self) -> bool:
        with open(self.path, "rb") as file:
            file.seek(max(self.layout.offset, self.path.stat().st_size - 4096))
            return file.read().rstrip().endswith(b'"')

    def _error(self, bad_rows: list[pc.InvalidRow], error: Exception) -> ValueError:
        if bad_rows:
            row = bad_rows[0]
            line = line_of(self.path, self.layout, (row.number or 1) - 1)
            where = f"row {row.number} below the header" if line is None else f"line {line}"
            counts = f"{row.actual_columns} values in {where}, but its header has {row.expected_columns} names"
            return ValueError(f"{self.name} has {counts}. Both must agree. Look for a stray separator or quote.")
        with open(self.path, "rb") as file:
            file.seek(self.layout.offset)
            n_quotes, n_bytes = 0, 0
            while block := file.read(_BLOCK_BYTES):
                n_quotes, n_bytes = n_quotes + block.count(b'"'), n_bytes + len(block.strip())
        if n_bytes == 0:
            return no_rows(self.name)
        if n_quotes % 2:
            return ValueError(_OPEN_QUOTE.format(self.name))
        return not_utf8(self.path, self.name) or unreadable(self.name, "CSV", error)


class _ParquetTable(TableFile):
    """A Parquet file. Columns have the types that they have there."""

    def __init__(self, path: Path, name: str) -> None:
        self.file = ParquetFile(path, name)
        super().__init__(path, name, self.file.schema.names)
        self.index, self.n_rows = self.file.index, self.file.n_rows
        self.metadata = self.file.schema.metadata or {}
        if self.n_rows == 0:
            raise no_rows(name)

    def _pieces(self, names: list[str], rows: int, skip: int) -> Frames:
        for batch in self.file.batches(names, rows, skip):
            with named_errors(self.name, "Parquet", PanicException):
                batch.validate(full=True)  # text that is not UTF-8 would be read by polars as if it were
                frame = _frame(batch)
            yield frame


class _ArrayTable(TableFile):
    """Arrays in NPY files: one matrix with columns x1, x2, ..., or vectors, each of them a column."""

    def __init__(self, paths: list[tuple[str, Path]], name: str) -> None:
        self.arrays = [NpyFile(path, name) for _, path in paths]
        shapes = [array.shape for array in self.arrays]
        for array, shape in zip(self.arrays, shapes, strict=True):
            check_matrix((*shape, 1) if len(shape) == 1 and shape[0] else shape, array.dtype, name)
        if len(shapes) > 1 and (len({*shapes}) > 1 or len(shapes[0]) > 1):
            arrays = ", ".join(f"{key!r} of shape {shape}" for (key, _), shape in zip(paths[:8], shapes, strict=False))
            rule = "It must have one array, or one named 'X', or vectors of the same length, which are its columns"
            raise ValueError(f"{name} has the arrays {arrays}. {rule}. Save these alone.")
        columns = [key for key, _ in paths]
        if len(shapes[0]) > 1 or columns in (["X"], ["arr_0"]):
            columns = [f"x{j + 1}" for j in range(math.prod(shapes[0][1:]))]
        super().__init__(paths[0][1], name, columns)
        self.n_rows = self.arrays[0].n_rows

    def _pieces(self, names: list[str], rows: int, skip: int) -> Frames:
        for start in range(skip, self.n_rows, rows):
            blocks = [array.read(slice(start, start + rows)) for array in self.arrays]
            columns = [block[:, j] for block in blocks for j in range(block.shape[1])]
            values = {name: columns[self.columns.index(name)] for name in names}
            yield pl.DataFrame({name: np.array(column, _polars_type(column.dtype)) for name, column in values.items()})


def _polars_type(dtype: np.dtype) -> np.dtype:
    nearest = {("f", 2): np.float32, ("f", 16): np.float64}  # polars does not have these types
    return np.dtype(nearest.get((dtype.kind, dtype.itemsize), dtype.newbyteorder("=")))


def is_stream(path: PathLike) -> bool:
    """Return whether a path can be read only once: "-", which is standard input, or a pipe."""
    return os.fspath(path) == "-" or Path(path).is_fifo()


@contextmanager
def open_table(path: PathLike, encoding: str | None = None) -> Iterator[TableFile]:
    """Open a table, to read it in batches as often as needed, with the path and encoding of `read_table`.

    Standard input, a compressed CSV file and an NPZ archive are unpacked to a temporary file.
    """
    is_stdin = os.fspath(path) == "-"
    name = "standard input" if is_stdin else str(path)
    check_encoding(encoding)
    with TemporaryDirectory(prefix="flowratio-") as folder:
        path, copy = Path(path), Path(folder) / "table"
        if is_stream(path):
            with nullcontext(sys.stdin.buffer) if is_stdin else open(path, "rb") as stream:
                path = _copied(stream, copy)
        kind, separator = _kind(path, name), "\t" if path.suffix.lower() in (".tsv", ".tab") else ","
        if kind is _Kind.GZIP:
            separator = "\t" if path.stem.lower().endswith((".tsv", ".tab")) else ","
            with named_errors(name, kind.value), gzip.open(path) as stream:
                path = _copied(cast(IO[bytes], stream), copy.with_name("content"))
            kind = _kind(path, name)
        if kind is _Kind.NPY:
            yield _ArrayTable([("X", path)], name)
        elif kind is _Kind.NPZ:
            yield _ArrayTable(_arrays_of(path, name, Path(folder)), name)
        elif kind is _Kind.PARQUET:
            yield _ParquetTable(path, name)
        else:
            yield _CsvTable(_in_utf8(path, name, encoding, copy.with_name("text")), name, separator)


def read_table(
    path: PathLike, columns: Names | None = None, exclude: Names | None = None, *, encoding: str | None = None
) -> pl.DataFrame:
    """Read a table from a file: text columns from CSV, typed ones from Parquet, x1, x2, ... from NPY and NPZ.

    Vectors of the same length in an NPZ archive are columns with their names. "-" is standard input. The first bytes
    decide for other endings than .csv, .tsv, .csv.gz, .parquet, .npy and .npz. All `columns` are read if None, except
    an index that pandas wrote. CSV is in UTF-8 if `encoding` is None.
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
    if is_stream(path) or not Path(path).is_file():
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
            shutil.copyfileobj(source, file, _BLOCK_BYTES)
    except UnicodeError as error:
        message = f"{name} is not in the encoding {encoding} ({error}). Set `encoding` to the encoding of the file."
        raise ArgumentError("encoding", message) from error
    return copy


def _copied(stream: IO[bytes], target: Path) -> Path:
    with open(target, "wb") as file:
        shutil.copyfileobj(stream, file)
    return target


def _kind(path: Path, name: str) -> _Kind:
    """Return the kind of a file, by its ending or else by its first bytes."""
    if not path.exists():
        raise FileNotFoundError(f"There is no file {name}. Check the path.")
    if path.is_dir():
        raise IsADirectoryError(f"{name} is a folder. Use the path of one file.")
    try:
        with open(path, "rb") as file:
            beginning = file.read(8)
    except OSError as error:
        raise type(error)(f"Cannot read {name} ({error.strerror}). Check its permissions.") from error
    if not beginning:
        raise ValueError(f"{name} is empty (0 bytes). A table must have at least one row. Write the file again.")
    by_content = next((kind for magic, kind in _FIRST_BYTES.items() if beginning.startswith(magic)), _Kind.CSV)
    return _ENDINGS.get(path.suffix.lower(), by_content)


def _arrays_of(path: Path, name: str, folder: Path) -> list[tuple[str, Path]]:
    """Unpack the arrays of an archive, or only the one named X. Return their names and files."""
    with named_errors(name, _Kind.NPZ.value), zipfile.ZipFile(path) as archive:
        members = [member for member in archive.namelist() if member.endswith(".npy")]
        members = ["X.npy"] if "X.npy" in members else members
        arrays = [(member.removesuffix(".npy"), folder / f"{k}.npy") for k, member in enumerate(members)]
        for key, target in arrays:
            with archive.open(f"{key}.npy") as stream:
                _copied(stream, target)
    if not arrays:
        raise ValueError(f"{name} is an archive without arrays. Write it with np.savez(path, X=...), or write CSV.")
    return arrays


def _frame(batch: pa.RecordBatch) -> pl.DataFrame:
    frame = cast(pl.DataFrame, pl.from_arrow(batch))
    frame.columns = batch.schema.names  # also an empty one, for which polars makes up another
    return frame
