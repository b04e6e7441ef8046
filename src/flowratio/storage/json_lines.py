"""JSON lines: one JSON object per line. Its keys are columns, and a key that a line does not have is a missing value.

The file is parsed once, to a temporary file of Arrow. A column has one type: booleans, integers, floats or text.
Numbers next to text become text, and so do lists and objects, as JSON writes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from flowratio.samples.files import named_errors
from flowratio.storage.csv_layout import not_utf8
from flowratio.storage.table_file import BATCH_ROWS
from flowratio.storage.typed_tables import ArrowTable

_LARGEST = 2**63  # beyond it an integer is a float
_NUMBERS = (pl.Boolean, pl.Int64, pl.Float64)


class JsonLinesTable(ArrowTable):
    """A file of JSON lines in UTF-8, as a table. `copy` is the temporary file."""

    def __init__(self, path: Path, name: str, copy: Path) -> None:
        schema, self._has_blank_lines = _types(path, name)
        with named_errors(name, "JSON lines"):
            _convert(path, name, schema, copy)
        super().__init__(copy, name)

    def place(self, row: int) -> str:
        return super().place(row) if self._has_blank_lines else f"line {row + 1} of {self.name}"


def _types(path: Path, name: str) -> tuple[dict[str, Any], bool]:
    """Return the type of each column, and whether there are blank lines."""
    types: dict[str, Any] = {}
    has_blank_lines = False
    for row, (number, record) in enumerate(_records(path, name), 1):
        has_blank_lines |= row != number
        for key, value in record.items():
            types[key] = _common(types.get(key), _type(value))
    return {key: dtype or pl.Null for key, dtype in types.items()}, has_blank_lines


def _type(value: object) -> Any:
    if value is None:
        return None
    if isinstance(value, bool):
        return pl.Boolean
    if isinstance(value, int):
        return pl.Int64 if -_LARGEST <= value < _LARGEST else pl.Float64
    return pl.Float64 if isinstance(value, float) else pl.String


def _common(a: Any, b: Any) -> Any:
    """Return a type for the values of two types. None is the type of missing values."""
    if a is None or b is None or a == b:
        return b if a is None else a
    return pl.Float64 if a in _NUMBERS and b in _NUMBERS else pl.String


def _records(path: Path, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a file, each with the number of its line."""
    try:
        with open(path, encoding="utf-8-sig", newline="\n") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError) as error:
                    reason = f"line {number} of {name} is not JSON ({' '.join(str(error).split())})"
                    raise ValueError(f"{reason}. Each line must be one JSON object. Fix this line.") from error
                if not isinstance(record, dict):
                    reason = f"line {number} of {name} is JSON, but not an object"
                    raise ValueError(f"{reason}. Each line must be one object, such as {{'age': 31}}.")
                yield number, record
    except UnicodeDecodeError as error:
        raise not_utf8(path, name) or error from error


def _convert(path: Path, name: str, schema: dict[str, Any], copy: Path) -> None:
    records = (record for _, record in _records(path, name))
    types = pl.DataFrame(schema=schema).to_arrow().schema
    with pa.OSFile(str(copy), "wb") as sink, pa.ipc.new_file(sink, types) as writer:
        while block := list(islice(records, BATCH_ROWS)):
            frame = pl.DataFrame([_column(key, dtype, block) for key, dtype in schema.items()])
            writer.write_table(frame.to_arrow().cast(types))


def _column(key: str, dtype: Any, records: list[dict[str, Any]]) -> pl.Series:
    return pl.Series(key, [_value(record.get(key), dtype) for record in records], dtype)


def _value(value: Any, dtype: Any) -> Any:
    if value is None:
        return None
    if dtype == pl.Float64:
        try:
            return float(value)
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")
    return value if dtype != pl.String or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
