"""The one reader of NPY and Parquet files: ranges of rows in bounded memory, and errors that name the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from flowratio._support.types import Matrix, PathLike
from flowratio._support.wording import quoted

if TYPE_CHECKING:
    import pyarrow as pa

_SPAN_ROWS = 4096  # rows of an NPY file that stay neighbors in a shuffle
_ADVICE = {"NPY": "Write it again with np.save(path, X), where X is a matrix of numbers."}


class NpyFile:
    """An array of numbers in an NPY file. Errors call it `name`, or its path if that is None."""

    columns = None

    def __init__(self, path: PathLike, name: str | None = None) -> None:
        self.path, self.name = Path(path), str(path) if name is None else name
        with named_errors(self.name, "NPY"):
            header = np.lib.format.open_memmap(self.path, mode="r")
        self.dtype, self.shape, self._offset = header.dtype, header.shape, header.offset
        self._order = "C" if header.flags.c_contiguous else "F"
        self.n_rows = header.shape[0] if header.shape else 0

    def check(self) -> None:
        check_matrix(self.shape, self.dtype, self.name)

    @property
    def float_type(self) -> np.dtype:
        return float_type(self.dtype)

    def read(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return rows by range or by position, of shape (n, d). A vector is one column."""
        # mapped again for each read: pages that a map has touched count as resident until it is closed
        values = np.memmap(self.path, self.dtype, "r", self._offset, self.shape, "F" if self._order == "F" else "C")
        return values[rows] if values.ndim > 1 else values[rows][:, None]

    def spans(self, max_rows: int) -> list[slice]:
        """Return the ranges of rows that are neighbors in a shuffle, in file order."""
        return list(ranges(0, self.n_rows, min(_SPAN_ROWS, max(64, max_rows // 16))))

    def matrices(self, span: slice, max_rows: int) -> Iterator[Matrix]:
        """Yield the rows of a span as floats, at most `max_rows` at a time."""
        return (np.array(self.read(part), self.float_type) for part in ranges(span.start, span.stop, max_rows))

    def take(self, positions: np.ndarray) -> Matrix:
        """Return rows by their sorted positions, of shape (n, d)."""
        X = np.empty((len(positions), self.shape[1]), self.float_type)
        for part in ranges(0, len(positions), _SPAN_ROWS):
            X[part] = self.read(positions[part])
        return X


class ParquetFile:
    """A table in a Parquet file, with the methods of `NpyFile`. Its row groups are neighbors in a shuffle."""

    def __init__(self, path: PathLike, name: str | None = None) -> None:
        import pyarrow.parquet as pq

        self.path, self.name = Path(path), str(path) if name is None else name
        with named_errors(self.name, "Parquet"), pq.ParquetFile(self.path) as file:
            self.schema, self._footer = file.schema_arrow, file.metadata
            index = (self.schema.pandas_metadata or {}).get("index_columns", [])
            sizes = [self._footer.row_group(k).num_rows for k in range(self._footer.num_row_groups)]
        self.index = [name for name in self.schema.names if name in index]  # what pandas wrote to number the rows
        self.columns = [name for name in self.schema.names if name not in index]
        self._starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])  # of the row groups
        self.n_rows = int(self._starts[-1])

    def check(self) -> None:
        from pyarrow import types

        number = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
        fields = [self.schema.field(name) for name in self.columns]
        others = [
            f"{quoted(field.name)} ({field.type})" for field in fields if not any(is_(field.type) for is_ in number)
        ]
        if others:
            raise ValueError(f"{self.name} has columns that are not numbers: {', '.join(others)}. Encode or drop them.")
        check_matrix((self.n_rows, len(fields)), self.float_type, self.name)

    @property
    def float_type(self) -> np.dtype:
        import pyarrow as pa

        is_single = all(self.schema.field(name).type == pa.float32() for name in self.columns)
        return np.dtype(np.float32 if is_single else np.float64)

    def batches(
        self, columns: Sequence[str], max_rows: int, start: int = 0, stop: int | None = None, use_threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows from `start` on, at most `max_rows` at a time. `stop` is the end of a row group, or None."""
        import pyarrow.parquet as pq

        first = int(np.searchsorted(self._starts[1:], start, side="right"))
        last = int(np.searchsorted(self._starts, self.n_rows if stop is None else stop))
        skip, groups, names = start - int(self._starts[first]), list(range(first, last)), list(columns)
        # a buffered reader holds a few pages of each column of the row group, not all of it
        source = pq.ParquetFile(self.path, metadata=self._footer, buffer_size=2**18, pre_buffer=False)
        with named_errors(self.name, "Parquet"), source as file:
            for batch in file.iter_batches(max_rows, row_groups=groups, columns=names, use_threads=use_threads):
                skipped = min(skip, len(batch))
                skip -= skipped
                yield batch.slice(skipped).select(names)

    def spans(self, max_rows: int) -> list[slice]:
        return [slice(start, stop) for start, stop in pairwise(self._starts.tolist()) if start < stop]

    def matrices(self, span: slice, max_rows: int) -> Iterator[Matrix]:
        import pyarrow as pa

        dtype = self.float_type
        for batch in self.batches(self.columns, max_rows, span.start, span.stop, use_threads=False):
            X = np.empty((batch.num_rows, len(self.columns)), dtype)
            with named_errors(self.name, "Parquet"):
                for j, column in enumerate(batch.columns):
                    X[:, j] = column.cast(pa.from_numpy_dtype(dtype), safe=False).to_numpy(zero_copy_only=False)
            yield X

    def take(self, positions: np.ndarray) -> Matrix:
        X, n_done = np.empty((len(positions), len(self.columns)), self.float_type), 0
        for span in self.spans(0):
            start, last = span.start, np.searchsorted(positions, span.stop)
            pieces = self.matrices(span, _SPAN_ROWS)
            while n_done < last:
                piece = next(pieces)
                part = positions[n_done : np.searchsorted(positions, start + len(piece))]
                X[n_done : n_done + len(part)] = piece[part - start]
                start, n_done = start + len(piece), n_done + len(part)
        return X


def ranges(start: int, stop: int, size: int) -> Iterator[slice]:
    """Yield slices of `size` rows from `start` to `stop`. The last one may be shorter."""
    return (slice(first, min(first + size, stop)) for first in range(start, stop, size))


def check_matrix(shape: tuple[int, ...], dtype: np.dtype, name: str) -> None:
    """Refuse an array that is not a matrix of numbers with at least one row and one column."""
    if dtype.kind not in "fiub":
        raise ValueError(f"{name} is an array of dtype {dtype}. Rows must be numbers. Convert it to float first.")
    if len(shape) != 2:
        raise ValueError(f"{name} has shape {shape}. It must be a matrix with one row per draw. Use reshape(n, d).")
    if 0 in shape:
        raise ValueError(f"{name} has shape {shape}. It must have at least one row and one column.")


def float_type(dtype: np.dtype) -> np.dtype:
    """Return float32 for float32, and float64 for all others."""
    return np.dtype(np.float32 if dtype.kind == "f" and dtype.itemsize == 4 else np.float64)


@contextmanager
def named_errors(name: str, kind: str, *others: type[BaseException]) -> Iterator[None]:
    """Turn whatever a reader of files raises into one line that names the file."""
    try:
        yield
    except (Exception, *others) as error:
        if isinstance(error, OSError) and error.errno:
            raise type(error)(f"Cannot read {name} ({error.strerror}). Check the file.") from error
        raise unreadable(name, kind, error) from error


def unreadable(name: str, kind: str, error: BaseException) -> ValueError:
    """Return what a reader of files raised as one line that names the file."""
    reason = " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__
    return ValueError(f"{name} cannot be read as {kind} ({reason}). {_ADVICE.get(kind, 'Write the file again.')}")
