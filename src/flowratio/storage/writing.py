"""Tables to files that are whole or as they were before: CSV and Parquet."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, cast

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from polars.exceptions import PolarsError

from flowratio._support.atomic import replacing
from flowratio.tables.formats import PER_SECOND

_PANDAS = b"pandas"
TABLE_ENDINGS = (".csv", ".parquet")
_NOT_IN_CSV = (pl.List, pl.Array, pl.Struct, pl.Binary, pl.Object)


def check_output(path: str | os.PathLike[str], endings: Sequence[str], *, standard_output: bool = False) -> None:
    """Refuse a path that could not be written, before the work that leads to it.

    Parameters
    ----------
    path
        A file in a folder that can be written.
    endings
        What its name may end with, such as `TABLE_ENDINGS`.
    standard_output
        Whether it may be "-", standard output, as well.
    """
    rule = f"end with {' or '.join(endings)}"
    if os.fspath(path) == "-":
        if standard_output:
            return
        raise ValueError(f"Cannot write to standard output ('-'): give the path of a file. Its name must {rule}.")
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"Cannot write {path}: it is a folder. Give the path of a file.")
    if target.suffix.lower() not in endings:
        other = ", or be '-'" if standard_output else ""
        raise ValueError(f"Cannot write {path}: its name must {rule}{other}.")
    try:
        with TemporaryFile(dir=Path(os.path.realpath(target)).parent):
            pass
    except OSError as error:
        reason = f"Cannot write {path} ({error.strerror}). Make sure that its folder exists and can be written."
        raise type(error)(reason) from error


def check_types(columns: pl.Schema, path: str | os.PathLike[str]) -> None:
    """Refuse columns that the format of a file has not: lists and the like in CSV."""
    if Path(path).suffix.lower() == ".parquet":
        return
    for name, dtype in columns.items():
        if isinstance(dtype, _NOT_IN_CSV):
            target = "standard output" if os.fspath(path) == "-" else path
            raise ValueError(
                f"Cannot write {target}: column {name!r} is of type {dtype}, which CSV has not. Write Parquet, to a "
                "name that ends with .parquet."
            )


def write_table(
    frames: Iterable[pl.DataFrame],
    path: str | os.PathLike[str],
    metadata: Mapping[bytes, bytes] | None = None,
    separator: str = ",",
) -> None:
    r"""Write frames, one after the other, to a file that is whole or as it was before.

    Parameters
    ----------
    frames
        One or more frames with the same columns. In CSV, durations are seconds.
    path
        A file that ends with .csv or .parquet, or "-" for CSV on standard output.
    metadata
        What a Parquet file says of itself, such as the index of pandas, by key.
    separator
        What stands between two values of CSV.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> frames = [pl.DataFrame({"x": [1, 2]}), pl.DataFrame({"x": [3]})]
    >>> with TemporaryDirectory() as folder:
    ...     write_table(frames, Path(folder) / "rows.csv")
    ...     (Path(folder) / "rows.csv").read_text()
    'x\n1\n2\n3\n'
    """
    check_output(path, TABLE_ENDINGS, standard_output=True)
    frames = iter(frames)
    first = next(frames, None)
    if first is None:
        raise ValueError(f"There are no rows to write to {path}: give at least one frame.")
    check_types(first.schema, path)
    everything = chain([first], frames)
    try:
        if os.fspath(path) == "-":
            _write_csv(everything, sys.stdout.buffer, separator)
            sys.stdout.buffer.flush()
            return
        with replacing(path) as temporary:
            if Path(path).suffix.lower() == ".csv":
                with open(temporary, "wb") as file:
                    _write_csv(everything, file, separator)
            else:
                _write_parquet(everything, first.schema, temporary, metadata)
    except (pa.ArrowException, PolarsError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"Cannot write {path} ({reason}). Leave such columns out, or write another format.") from error


def _write_parquet(
    frames: Iterable[pl.DataFrame], columns: pl.Schema, path: Path, metadata: Mapping[bytes, bytes] | None
) -> None:
    schema = pl.DataFrame(schema=columns).to_arrow().schema.with_metadata(dict(metadata or {}) or None)
    # a dictionary of numbers takes time and saves no room
    others = [name for name, dtype in columns.items() if not dtype.is_numeric()]
    with pq.ParquetWriter(path, schema, use_dictionary=cast(bool, others or False)) as writer:
        for frame in frames:
            writer.write_table(frame.to_arrow().cast(schema))


def with_numbers(metadata: Mapping[bytes, bytes], names: Sequence[str]) -> dict[bytes, bytes]:
    """Return what a Parquet file says of itself once columns of floats are added, also to pandas.

    Examples
    --------
    >>> made = with_numbers({b"pandas": b'{"index_columns": ["id"], "columns": []}'}, ["weight"])
    >>> described = json.loads(made[b"pandas"])
    >>> described["index_columns"], described["columns"][0]["name"]
    (['id'], 'weight')
    """
    made = dict(metadata)
    if _PANDAS in made:
        try:
            described = json.loads(made[_PANDAS])
            types = {"pandas_type": "float64", "numpy_type": "float64", "metadata": None}
            described["columns"] += [{"name": name, "field_name": name, **types} for name in names]
            made[_PANDAS] = json.dumps(described).encode()
        except (ValueError, TypeError, KeyError):  # it is none that pandas could read
            del made[_PANDAS]
    return made


def for_pandas(table: pl.DataFrame) -> dict[bytes, bytes]:
    """Return what a Parquet file says to pandas, so that whole numbers and truth values with gaps stay such there.

    Examples
    --------
    >>> table = pl.DataFrame({"n": [1, None], "x": [0.5, None]})
    >>> [column["numpy_type"] for column in json.loads(for_pandas(table)[b"pandas"])["columns"]]
    ['Int64']
    """
    kept = {
        name: "boolean" if dtype == pl.Boolean else str(dtype)
        for name, dtype in table.schema.items()
        if (dtype.is_integer() or dtype == pl.Boolean) and table[name].has_nulls()
    }
    columns = [
        {"name": name, "field_name": name, "pandas_type": kind.lower(), "numpy_type": kind, "metadata": None}
        for name, kind in kept.items()
    ]
    return {_PANDAS: json.dumps({"index_columns": [], "column_indexes": [], "columns": columns}).encode()}


def _write_csv(frames: Iterable[pl.DataFrame], file: IO[bytes], separator: str) -> None:
    for k, frame in enumerate(frames):
        seconds = [
            pl.col(name).cast(pl.Int64).cast(pl.Float64) / PER_SECOND[dtype.time_unit]
            for name, dtype in frame.schema.items()
            if isinstance(dtype, pl.Duration)
        ]
        text = frame.with_columns(seconds).write_csv(include_header=k == 0, separator=separator)
        file.write(text.encode())
