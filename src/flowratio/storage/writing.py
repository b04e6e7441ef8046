"""Write tables to CSV and Parquet files that are complete, or unchanged."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, TypeAlias, cast

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from polars.exceptions import PolarsError

from flowratio._support.atomic import replacing
from flowratio._support.types import PathLike
from flowratio._support.wording import quoted
from flowratio.storage.outputs import TABLE_ENDINGS, check_output
from flowratio.tables.formats import PER_SECOND

Frames: TypeAlias = Iterable[pl.DataFrame]
Metadata: TypeAlias = Mapping[bytes, bytes]
_PANDAS = b"pandas"
_NOT_IN_CSV = (pl.List, pl.Array, pl.Struct, pl.Binary, pl.Object)


def check_types(columns: pl.Schema, path: PathLike) -> None:
    """Refuse columns that a CSV file cannot store, such as lists."""
    if Path(path).suffix.lower() == ".parquet":
        return
    for name, dtype in columns.items():
        if isinstance(dtype, _NOT_IN_CSV):
            target = "standard output" if os.fspath(path) == "-" else path
            reason = f"because CSV cannot store column {quoted(name)} of type {dtype}"
            raise ValueError(f"Cannot write {target}, {reason}. Write to a name that ends with .parquet.")


def write_table(frames: Frames, path: PathLike, metadata: Metadata | None = None, separator: str = ",") -> None:
    """Write frames with the same columns, one after the other, to a file that is complete, or unchanged.

    The path ends with .csv or .parquet, or is "-" for CSV on standard output. Durations are seconds in CSV. `metadata`
    is for Parquet, such as the index of pandas.
    """
    check_output(path, TABLE_ENDINGS, standard_output=True)
    first = next(frames := iter(frames), None)
    if first is None:
        raise ValueError(f"There are no rows to write to {path}. Give at least one frame.")
    check_types(first.schema, path)
    frames = chain([first], frames)
    try:
        if os.fspath(path) == "-":
            _write_csv(frames, sys.stdout.buffer, separator)
            sys.stdout.buffer.flush()
            return
        with replacing(path) as temporary:
            if Path(path).suffix.lower() == ".csv":
                with open(temporary, "wb") as file:
                    _write_csv(frames, file, separator)
            else:
                _write_parquet(frames, first.schema, temporary, metadata)
    except (pa.ArrowException, PolarsError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"Cannot write {path} ({reason}). Leave such columns out, or write another format.") from error


def _write_parquet(frames: Frames, columns: pl.Schema, path: Path, metadata: Metadata | None) -> None:
    schema = pl.DataFrame(schema=columns).to_arrow().schema.with_metadata(dict(metadata or {}) or None)
    # a dictionary of numbers takes time and saves no space
    texts = [name for name, dtype in columns.items() if not dtype.is_numeric()]
    with pq.ParquetWriter(path, schema, use_dictionary=cast(bool, texts or False)) as writer:
        for frame in frames:
            writer.write_table(frame.to_arrow().cast(schema))


def with_numbers(metadata: Metadata, names: Sequence[str]) -> dict[bytes, bytes]:
    """Return the metadata of a Parquet file with new columns of floats, also for pandas."""
    extended = dict(metadata)
    if _PANDAS in extended:
        try:
            description = json.loads(extended[_PANDAS])
            description["columns"] += [_pandas_column(name, "float64", "float64") for name in names]
            extended[_PANDAS] = json.dumps(description).encode()
        except (ValueError, TypeError, KeyError):  # pandas could not read it either
            del extended[_PANDAS]
    return extended


def _pandas_column(name: str, pandas_type: str, numpy_type: str) -> dict[str, str | None]:
    types = {"pandas_type": pandas_type, "numpy_type": numpy_type, "metadata": None}
    return {"name": name, "field_name": name, **types}


def for_pandas(table: pl.DataFrame) -> dict[bytes, bytes]:
    """Return metadata with which pandas reads integers and booleans with missing values as such."""
    types = {column.name: column.dtype for column in table if column.has_nulls()}
    kinds = {name: "boolean" if dtype == pl.Boolean else str(dtype) for name, dtype in types.items()}
    nullable = [name for name, dtype in types.items() if dtype.is_integer() or dtype == pl.Boolean]
    columns = [_pandas_column(name, kinds[name].lower(), kinds[name]) for name in nullable]
    return {_PANDAS: json.dumps({"index_columns": [], "column_indexes": [], "columns": columns}).encode()}


def _write_csv(frames: Frames, file: IO[bytes], separator: str) -> None:
    for k, frame in enumerate(frames):
        units = {name: dtype.time_unit for name, dtype in frame.schema.items() if isinstance(dtype, pl.Duration)}
        seconds = [pl.col(name).cast(pl.Int64).cast(pl.Float64) / PER_SECOND[unit] for name, unit in units.items()]
        text = frame.with_columns(seconds).write_csv(include_header=k == 0, separator=separator)
        file.write(text.encode())
