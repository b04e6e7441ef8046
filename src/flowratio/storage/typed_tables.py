"""Files whose columns have types: Parquet, Arrow (Feather) and arrays of NumPy."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
from polars.exceptions import PanicException

from flowratio._support.wording import quoted
from flowratio.samples.files import NpyFile, ParquetFile, check_matrix, named_errors
from flowratio.storage.table_file import Frames, TableFile, batch_frame, index_columns

_ARROW = "Arrow"


class ParquetTable(TableFile):
    """A Parquet file. Columns have the types that they have there."""

    def __init__(self, path: Path, name: str) -> None:
        self.file = ParquetFile(path, name)
        super().__init__(path, name, self.file.schema.names)
        self.index, self.n_rows = self.file.index, self.file.n_rows
        self.metadata = self.file.schema.metadata or {}

    def pieces(self, names: list[str], rows: int, skip: int) -> Frames:
        for batch in self.file.batches(names, rows, skip):
            with named_errors(self.name, "Parquet", PanicException):
                batch.validate(full=True)  # text that is not UTF-8 would be read by polars as if it were
                frame = batch_frame(batch)
            yield frame


class ArrowTable(TableFile):
    """An Arrow file (Feather). Columns have the types that they have there."""

    def __init__(self, path: Path, name: str) -> None:
        with self._reader(path, name) as reader:
            schema = reader.schema
            columns, self.index = schema.names, index_columns(schema)  # refused here if they are not in UTF-8
            self._sizes = [reader.get_batch(k).num_rows for k in range(reader.num_record_batches)]
        super().__init__(path, name, columns)
        self.n_rows, self.metadata = sum(self._sizes), schema.metadata or {}

    @staticmethod
    @contextmanager
    def _reader(path: Path, name: str) -> Iterator[pa.RecordBatchFileReader]:
        with named_errors(name, _ARROW, PanicException), pa.memory_map(str(path)) as file:
            yield pa.ipc.open_file(file)

    def pieces(self, names: list[str], rows: int, skip: int) -> Frames:
        for k, size in enumerate(self._sizes):
            start, skip = min(skip, size), max(0, skip - size)
            if start == size:
                continue
            # mapped again for each batch: pages that a map has touched count as resident until it is closed
            with self._reader(self.path, self.name) as reader:
                batch = reader.get_batch(k).select(names)
                for first in range(start, size, rows):
                    part = batch.slice(first, min(rows, size - first))
                    part.validate(full=True)
                    yield batch_frame(part)


def arrow_file(path: Path, name: str, copy: Path) -> Path:
    """Return a file of Arrow: the file itself, or a copy of a stream of Arrow."""
    with open(path, "rb") as file:
        if file.read(6) == b"ARROW1":
            return path
    with named_errors(name, _ARROW), pa.OSFile(str(path)) as source, pa.OSFile(str(copy), "wb") as sink:
        stream = pa.ipc.open_stream(source)
        with pa.ipc.new_file(sink, stream.schema) as writer:
            for batch in stream:
                writer.write_batch(batch)
    return copy


class ArrayTable(TableFile):
    """Arrays in NPY files: one matrix with columns x1, x2, ..., or vectors, each of them a column."""

    def __init__(self, paths: list[tuple[str, Path]], name: str) -> None:
        self.arrays = [NpyFile(path, name) for _, path in paths]
        shapes = [array.shape for array in self.arrays]
        for array, shape in zip(self.arrays, shapes, strict=True):
            check_matrix((*shape, 1) if len(shape) == 1 and shape[0] else shape, array.dtype, name)
        if len(shapes) > 1 and (len({*shapes}) > 1 or len(shapes[0]) > 1):
            arrays = ", ".join(
                f"{quoted(key)} of shape {shape}" for (key, _), shape in zip(paths[:8], shapes, strict=False)
            )
            rule = "It must have one array, or one named 'X', or vectors of the same length, which are its columns"
            raise ValueError(f"{name} has the arrays {arrays}. {rule}. Save these alone.")
        columns = [key for key, _ in paths]
        if len(shapes[0]) > 1 or columns in (["X"], ["arr_0"]):
            columns = [f"x{j + 1}" for j in range(math.prod(shapes[0][1:]))]
        super().__init__(paths[0][1], name, columns)
        self.n_rows = self.arrays[0].n_rows

    def pieces(self, names: list[str], rows: int, skip: int) -> Frames:
        for start in range(skip, self.n_rows, rows):
            blocks = [array.read(slice(start, start + rows)) for array in self.arrays]
            columns = [block[:, j] for block in blocks for j in range(block.shape[1])]
            values = {name: columns[self.columns.index(name)] for name in names}
            yield pl.DataFrame({name: np.array(column, _polars_type(column.dtype)) for name, column in values.items()})


def _polars_type(dtype: np.dtype) -> np.dtype:
    nearest = {("f", 2): np.float32, ("f", 16): np.float64}  # polars does not have these types
    return np.dtype(nearest.get((dtype.kind, dtype.itemsize), dtype.newbyteorder("=")))
