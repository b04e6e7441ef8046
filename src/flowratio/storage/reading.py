"""Tables in files, read whole or in batches: CSV, Parquet, NPY and NPZ.

Whatever the bytes of a file, it is read, or it is a ValueError or an OSError of one line that names it.
"""

from __future__ import annotations

import gzip
import math
import os
import shutil
import sys
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, cast

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
from polars.exceptions import PanicException

from flowratio._support.errors import ArgumentError
from flowratio._support.validation import is_count
from flowratio._support.wording import check_distinct, listed
from flowratio.samples.rows import NpyRows
from flowratio.storage.csv_layout import csv_layout, line_of, no_rows, not_utf8, unreadable

BATCH_ROWS = 65_536
_BLOCK_BYTES = 1 << 22  # of a CSV file that are parsed at a time: no row may be longer than two of them
_KINDS = {
    **dict.fromkeys((".csv", ".tsv", ".tab", ".txt"), "CSV"),
    **dict.fromkeys((".parquet", ".pq"), "Parquet"),
    ".npy": "NPY",
    ".npz": "NPZ",
    ".gz": "gzip",
}
_BEGINNINGS = {b"PAR1": "Parquet", b"\x93NUMPY": "NPY", b"PK\x03\x04": "NPZ", b"\x1f\x8b": "gzip"}


class Table(ABC):
    """A table in a file.

    Attributes
    ----------
    name
        What errors call it: its path, or standard input.
    columns
        Names of the columns, in order.
    index
        Those of them that pandas wrote to number the rows: they say nothing about them.
    n_rows
        Number of rows; of a CSV file an estimate from its size.
    metadata
        What a Parquet file says of itself, by key, such as how pandas reads it.
    separator
        What stands between two values of a CSV file; a comma for other formats.
    """

    index: Sequence[str] = ()
    n_rows: int
    metadata: Mapping[bytes, bytes] = {}
    separator: str = ","

    def __init__(self, path: Path, name: str, columns: list[str]) -> None:
        self.path, self.name, self.columns = path, name, columns
        check_distinct(columns, name)
        if not columns:
            raise ValueError(f"{name} has no columns: a table must have at least one.")

    def known(self, names: Sequence[str], argument: str = "columns") -> list[str]:
        """Return names of columns, each once, or say which of them is not there and what is near."""
        for name in names:
            if name not in self.columns:
                near = get_close_matches(str(name), self.columns, n=3)
                way_out = f"Did you mean {listed(near)}?" if near else f"It has {listed(self.columns)}."
                text = f"`{argument}` names {name!r}, which is not a column of {self.name}. {way_out}"
                raise ArgumentError(argument, text)
        return list(dict.fromkeys(names))

    def frames(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS, skip: int = 0
    ) -> Iterator[pl.DataFrame]:
        """Yield the table in frames of `rows` rows, the last of them shorter; memory holds a few of them.

        Parameters
        ----------
        columns
            Names of the columns, in the order to come; all if None.
        rows
            Rows of a frame.
        skip
            Rows to pass over first; where the format allows it, they are not read.
        """
        if not is_count(rows):
            raise ValueError(f"`rows` is {rows!r}: a batch must hold at least 1 row.")
        names = self.columns if columns is None else self.known(columns)
        return self._rebatched(self._pieces(names, rows, skip), rows, skip)

    def _rebatched(self, pieces: Iterator[pl.DataFrame], rows: int, n_seen: int) -> Iterator[pl.DataFrame]:
        held, n_held = [], 0
        for piece in pieces:
            n_seen += len(piece)
            while len(piece):
                held.append(piece[: rows - n_held])
                n_held, piece = n_held + len(held[-1]), piece[rows - n_held :]
                if n_held == rows:
                    yield pl.concat(held)
                    held, n_held = [], 0
        if held:
            yield pl.concat(held)
        if n_seen == 0:
            raise no_rows(self.name)

    def place(self, row: int) -> str:
        """Return the words for a row, counted from 0: that of a table is counted from 1; of CSV, the line is told."""
        return f"row {row + 1} of {self.name}"

    @abstractmethod
    def _pieces(self, names: list[str], rows: int, skip: int) -> Iterator[pl.DataFrame]:
        """Yield columns in frames of any length, from row `skip` on."""


class _CsvTable(Table):
    """A CSV file. Every column is text, as it stands there: quotes are taken off, blank lines are left out.

    In a file of one column a blank line is a gap.
    """

    def __init__(self, path: Path, name: str, separator: str) -> None:
        self.layout = csv_layout(path, name, separator)
        super().__init__(path, name, self.layout.columns)
        self.index = [column for column in self.columns if not column]
        self.n_rows, self.separator = self.layout.n_rows, self.layout.separator

    def _pieces(self, names: list[str], rows: int, skip: int) -> Iterator[pl.DataFrame]:
        bad: list[pc.InvalidRow] = []
        end = ""  # the last value, so far

        def refuse(row: pc.InvalidRow) -> str:
            bad.append(row)
            return "error"

        types, last = dict.fromkeys(self.columns, pa.string()), self.columns[-1]
        read = list(dict.fromkeys([*names, last]))
        options = (
            pc.ReadOptions(column_names=self.columns, block_size=_BLOCK_BYTES, use_threads=False),
            pc.ParseOptions(
                delimiter=self.layout.separator,
                newlines_in_values=True,
                ignore_empty_lines=len(self.columns) > 1,
                invalid_row_handler=refuse,
            ),
            # a cell with nothing in it, not even quotes, is a gap, and is written so again
            pc.ConvertOptions(
                column_types=types,
                include_columns=read,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
            ),
        )
        try:
            with pa.OSFile(str(self.path)) as file:
                file.seek(self.layout.offset)
                for batch in pc.open_csv(file, *options):
                    skipped = min(skip, len(batch))
                    skip -= skipped
                    yield _frame(batch.slice(skipped).select(names))
                    end = (batch.column(last)[-1].as_py() or "") if len(batch) else ""
        except pa.ArrowInvalid as error:
            raise self._error(bad, error) from error
        if len(end.splitlines()) > 1 and not self._ends_with_quote():
            raise self._unclosed()

    def place(self, row: int) -> str:
        line = line_of(self.path, self.layout, row)
        return super().place(row) if line is None else f"line {line} of {self.name}"

    def _ends_with_quote(self) -> bool:
        with open(self.path, "rb") as file:
            file.seek(max(self.layout.offset, self.path.stat().st_size - 4096))
            return file.read().rstrip().endswith(b'"')

    def _unclosed(self) -> ValueError:
        return ValueError(f"{self.name} has a quote that is not closed: what follows it is no row. Close it.")

    def _error(self, bad: list[pc.InvalidRow], error: Exception) -> ValueError:
        if bad:
            row = bad[0]
            line = line_of(self.path, self.layout, (row.number or 1) - 1)
            where = f"row {row.number} below the header" if line is None else f"line {line}"
            return ValueError(
                f"{self.name} has {row.actual_columns} values in {where}, and its header has {row.expected_columns} "
                "names: every row must have as many. Look for a stray separator or quote."
            )
        if "Empty CSV" in str(error):
            return no_rows(self.name)
        if "straddl" in str(error):  # a row of more than two blocks
            return self._unclosed()
        return not_utf8(self.path, self.name) or unreadable(self.name, "CSV", error)


class _ParquetTable(Table):
    """A Parquet file: columns have the types that they have there."""

    def __init__(self, path: Path, name: str) -> None:
        with _errors_named(name, "Parquet"), pq.ParquetFile(path) as file:
            schema, self.footer = file.schema_arrow, file.metadata
            index = (schema.pandas_metadata or {}).get("index_columns", [])
            groups = range(self.footer.num_row_groups)
            sizes = [self.footer.row_group(k).num_rows for k in groups]
        super().__init__(path, name, schema.names)
        self.index = [column for column in schema.names if column in index]
        self.metadata = schema.metadata or {}
        self.starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        self.n_rows = int(self.starts[-1])
        if self.n_rows == 0:
            raise no_rows(name)

    def _pieces(self, names: list[str], rows: int, skip: int) -> Iterator[pl.DataFrame]:
        first = int(np.searchsorted(self.starts[1:], skip, side="right"))
        skip -= int(self.starts[first])
        # a buffered reader holds a few pages of each column of the row group, not all of it
        source = pq.ParquetFile(self.path, metadata=self.footer, buffer_size=2**18, pre_buffer=False)
        with _errors_named(self.name, "Parquet"), source as file:
            groups = list(range(first, len(self.starts) - 1))
            for batch in file.iter_batches(rows, row_groups=groups, columns=names):
                skipped = min(skip, len(batch))
                skip -= skipped
                batch.validate(full=True)  # text that is not UTF-8 would be read by polars as if it were
                yield _frame(batch.slice(skipped).select(names))


class _ArrayTable(Table):
    """Arrays in `.npy` files, memory-mapped: one matrix with columns x1, x2, ..., or vectors, each of them a column.

    Parameters
    ----------
    paths
        The files, by the name of the array.
    name
        What errors call the table.
    """

    def __init__(self, paths: list[tuple[str, Path]], name: str) -> None:
        self.arrays = [_Array.open(path, name) for _, path in paths]
        shapes: list[tuple[int, ...]] = [array.shape for array in self.arrays]
        if len(shapes) > 1 and (len({*shapes}) > 1 or len(shapes[0]) > 1):
            found = ", ".join(f"{key!r} of shape {shape}" for (key, _), shape in zip(paths[:8], shapes, strict=False))
            raise ValueError(
                f"{name} has the arrays {found}: it must have one, or one named 'X', or vectors of the same length, "
                "which are its columns. Save these alone."
            )
        columns = [key for key, _ in paths]
        if len(shapes[0]) > 1 or columns in (["X"], ["arr_0"]):
            columns = [f"x{j}" for j in range(1, self.arrays[0].n_columns + 1)]
        super().__init__(paths[0][1], name, columns)
        self.n_rows = self.arrays[0].shape[0]

    def _pieces(self, names: list[str], rows: int, skip: int) -> Iterator[pl.DataFrame]:
        for start in range(skip, self.n_rows, rows):
            blocks = [array.block(start, rows) for array in self.arrays]
            columns = [(block, j) for block in blocks for j in range(block.shape[1])]
            chosen = [columns[self.columns.index(name)] for name in names]
            values = [np.array(block[:, j], _type_of_polars(block.dtype)) for block, j in chosen]
            yield pl.DataFrame(dict(zip(names, values, strict=True)))


@dataclass(frozen=True)
class _Array:
    """A matrix or a vector of numbers in a `.npy` file."""

    path: Path
    dtype: np.dtype[Any]
    offset: int
    shape: tuple[int, ...]
    order: Literal["C", "F"]

    @classmethod
    def open(cls, path: Path, name: str) -> _Array:
        try:
            mapped = np.lib.format.open_memmap(path, mode="r")
            is_vector = mapped.ndim == 1 and len(mapped) > 0 and mapped.dtype.kind in "biuf"
            if is_vector:
                return cls(path, mapped.dtype, mapped.offset, mapped.shape, "C")
        except Exception:  # whatever a header makes that is no literal of Python; the next says what is wrong
            pass
        try:
            dtype, offset, shape, order = NpyRows(path).layout
        except ValueError as error:
            raise ValueError(" ".join(str(error).replace(str(path), name).split())) from error
        except Exception as error:
            raise unreadable(name, "NPY", error) from error
        return cls(path, dtype, offset, shape, "F" if order == "F" else "C")

    @property
    def n_columns(self) -> int:
        return math.prod(self.shape[1:])

    def block(self, start: int, rows: int) -> np.ndarray:
        """Return some rows, of shape (n, d); of a vector d is 1."""
        # mapped anew for each read: pages that a map has touched count as resident until it is closed
        mapped = np.memmap(self.path, self.dtype, "r", self.offset, self.shape, self.order)
        return mapped[start : start + rows].reshape(-1, self.n_columns)


def _type_of_polars(dtype: np.dtype[Any]) -> np.dtype[Any]:
    kept = {("f", 2): np.float32, ("f", 16): np.float64}  # types that polars has not
    return np.dtype(kept.get((dtype.kind, dtype.itemsize), dtype.newbyteorder("=")))


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether a path can be read once only: "-", which is standard input, or a pipe."""
    return os.fspath(path) == "-" or Path(path).is_fifo()


@contextmanager
def open_table(path: str | os.PathLike[str]) -> Iterator[Table]:
    """Open a table, to read it in batches as often as needed.

    Standard input, a compressed CSV file and an NPZ archive are unpacked to a temporary file, which is removed at the
    end.

    Parameters
    ----------
    path
        A file that ends with .csv, .tsv, .csv.gz, .parquet, .npy or .npz; what ends otherwise is known by its first
        bytes. "-" is standard input.

    Examples
    --------
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "rows.npy"
    ...     np.save(path, np.arange(6.0).reshape(3, 2))
    ...     with open_table(path) as table:
    ...         table.columns, [frame.rows() for frame in table.frames(rows=2)]
    (['x1', 'x2'], [[(0.0, 1.0), (2.0, 3.0)], [(4.0, 5.0)]])
    """
    is_stdin = os.fspath(path) == "-"
    name = "standard input" if is_stdin else str(path)
    with TemporaryDirectory(prefix="flowratio-") as folder:
        path, unpacked = Path(path), Path(folder) / "table"
        if is_stream(path):
            with (
                nullcontext(sys.stdin.buffer) if is_stdin else open(path, "rb") as stream,
                open(unpacked, "wb") as file,
            ):
                shutil.copyfileobj(stream, file)
            path = unpacked
        kind, separator = _kind(path, name), "\t" if path.suffix.lower() in (".tsv", ".tab") else ","
        if kind == "gzip":
            with _errors_named(name, kind), gzip.open(path) as packed, open(unpacked, "wb") as file:
                shutil.copyfileobj(packed, file)
            separator = "\t" if path.stem.lower().endswith((".tsv", ".tab")) else ","
            path = unpacked
            kind = _kind(path, name)
        if kind in ("NPY", "NPZ"):
            yield _ArrayTable([("X", path)] if kind == "NPY" else _unpacked(path, name, Path(folder)), name)
        else:
            yield _ParquetTable(path, name) if kind == "Parquet" else _CsvTable(path, name, separator)


def read_table(
    path: str | os.PathLike[str], columns: Sequence[str] | None = None, exclude: Sequence[str] | None = None
) -> pl.DataFrame:
    r"""Read a table from a file: text columns from CSV, typed ones from Parquet, x1, x2, ... from NPY and NPZ.

    An NPZ archive may hold vectors of the same length as well: its columns, by their names.

    Parameters
    ----------
    path
        A file that ends with .csv, .tsv, .csv.gz, .parquet, .npy or .npz; what ends otherwise is known by its first
        bytes. "-" is standard input.
    columns
        Names of the columns to read; all if None, but for an index that pandas wrote.
    exclude
        Names of columns to leave out.

    Examples
    --------
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "people.csv"
    ...     _ = path.write_text("age,job\n31,clerk\n,nurse\n")
    ...     read_table(path).rows(), read_table(path, exclude=["age"]).columns
    ([('31', 'clerk'), (None, 'nurse')], ['job'])
    """
    with open_table(path) as table:
        names = [name for name in table.columns if name not in table.index] if columns is None else columns
        left_out = table.known(exclude or (), "exclude")
        kept = [name for name in table.known(names) if name not in left_out]
        if not kept:
            text = f"No column of {table.name} is left. `columns` and `exclude` must leave at least one."
            raise ArgumentError(("columns", "exclude"), text)
        return pl.concat(table.frames(kept), rechunk=True)


def place_in(path: str | os.PathLike[str], row: int) -> str:
    """Return the words for a row of a file, counted from 0, as `Table.place` does."""
    if is_stream(path) or not Path(path).is_file():
        return f"row {row + 1} of {'standard input' if os.fspath(path) == '-' else path}"
    with open_table(path) as table:
        return table.place(row)


def batches(
    path: str | os.PathLike[str], columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
) -> Iterator[pl.DataFrame]:
    """Read a table in frames of `rows` rows, the last of them shorter, in memory of a few of them.

    Parameters
    ----------
    path
        A file, as for `read_table`.
    columns
        Names of the columns to read; all if None.
    rows
        Rows of a frame.
    """
    with open_table(path) as table:
        yield from table.frames(columns, rows)


def _kind(path: Path, name: str) -> str:
    """Return the kind of a file, by its ending or else by its first bytes, once it is known to have some."""
    if not path.exists():
        raise FileNotFoundError(f"There is no file {name}. Check the path.")
    if path.is_dir():
        raise IsADirectoryError(f"{name} is a folder. Give the path of one file.")
    try:
        with open(path, "rb") as file:
            beginning = file.read(8)
    except OSError as error:
        raise type(error)(f"Cannot read {name} ({error.strerror}). Check its permissions.") from error
    if not beginning:
        raise ValueError(f"{name} is empty (0 bytes): a table must have at least one row. Write it anew.")
    by_content = next((kind for magic, kind in _BEGINNINGS.items() if beginning.startswith(magic)), "CSV")
    return _KINDS.get(path.suffix.lower(), by_content)


def _unpacked(path: Path, name: str, folder: Path) -> list[tuple[str, Path]]:
    """Unpack the arrays of an archive, or the one named X alone; return their names and files."""
    with _errors_named(name, "NPZ"), zipfile.ZipFile(path) as archive:
        arrays = [member for member in archive.namelist() if member.endswith(".npy")]
        chosen = ["X.npy"] if "X.npy" in arrays else arrays
        files = [folder / f"{k}.npy" for k in range(len(chosen))]
        for member, target in zip(chosen, files, strict=True):
            with archive.open(member) as packed, open(target, "wb") as file:
                shutil.copyfileobj(packed, file)
    if not arrays:
        raise ValueError(f"{name} is an archive without arrays: write it with np.savez(path, X=...), or as CSV.")
    return [(member.removesuffix(".npy"), target) for member, target in zip(chosen, files, strict=True)]


def _frame(batch: pa.RecordBatch) -> pl.DataFrame:
    frame = cast(pl.DataFrame, pl.from_arrow(batch))
    frame.columns = batch.schema.names  # also an empty one, for which polars makes up another
    return frame


@contextmanager
def _errors_named(name: str, kind: str) -> Iterator[None]:
    """Turn whatever a reader of files raises into one line that names the file."""
    try:
        yield
    except (Exception, PanicException) as error:
        if isinstance(error, OSError) and error.errno:
            raise type(error)(f"Cannot read {name} ({error.strerror}). Check the file.") from error
        raise unreadable(name, kind, error) from error
