"""A table in a file or in several, read in frames of any number of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, cast

import polars as pl
import pyarrow as pa

from flowratio._support.errors import ArgumentError
from flowratio._support.validation import check_count
from flowratio._support.wording import check_distinct, listed, nearest, quoted
from flowratio.storage.csv_layout import no_rows

Frames: TypeAlias = Iterator[pl.DataFrame]
BATCH_ROWS = 65_536


class TableFile(ABC):
    """A table in a file. Errors call it by its `name`."""

    index: Sequence[str] = ()  # columns that pandas wrote to number the rows
    n_rows: int  # for CSV, an estimate from the size of the file
    metadata: Mapping[bytes, bytes] = {}  # of a Parquet or Arrow file, such as how pandas reads it
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
                problem = f"`{argument}` has {quoted(name)}, which is not a column of {self.name}."
                raise ArgumentError(argument, f"{problem}{advice}")
        return list(dict.fromkeys(names))

    def frames(self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS, skip: int = 0) -> Frames:
        """Yield columns in frames of `rows` rows, after the first `skip` rows. The last frame may be shorter."""
        check_count(rows, "rows")
        names = self.columns if columns is None else self.checked_names(columns)
        return self._rebatched(self.pieces(names, rows, skip), rows, skip)

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

    def schema(self) -> pl.Schema:
        """Return the types of the columns."""
        return next(self.frames(rows=1)).schema

    def count_rows(self) -> int:
        """Return the exact number of rows. A CSV file is read for it."""
        return self.n_rows

    def place(self, row: int) -> str:
        """Return how errors name a row, counted from 0: the line of a text file, or the row counted from 1."""
        return f"row {row + 1} of {self.name}"

    @abstractmethod
    def pieces(self, names: list[str], rows: int, skip: int) -> Frames:
        """Yield columns in frames of any length, from row `skip` on."""


class FrameTable(TableFile):
    """A table that was read as a whole. A column without a name is an index."""

    def __init__(self, frame: pl.DataFrame, path: Path, name: str) -> None:
        super().__init__(path, name, frame.columns)
        self.frame, self.n_rows = frame, len(frame)
        self.index = [column for column in self.columns if not column]

    def pieces(self, names: list[str], rows: int, skip: int) -> Frames:
        yield self.frame[skip:].select(names)


def index_columns(schema: pa.Schema) -> list[str]:
    """Return the columns that pandas wrote to number the rows."""
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in schema.names if name in index]


def batch_frame(batch: pa.RecordBatch) -> pl.DataFrame:
    """Return a batch of Arrow as a frame of polars."""
    frame = cast(pl.DataFrame, pl.from_arrow(batch))
    frame.columns = batch.schema.names  # also an empty one, for which polars makes up another
    return frame
