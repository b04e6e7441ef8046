"""The first sheet of an Excel workbook. Its first row names the columns."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl
from polars.exceptions import PanicException

from flowratio.samples.files import named_errors
from flowratio.storage.csv_layout import no_rows
from flowratio.storage.table_file import FrameTable

_UNNAMED = "__UNNAMED__"  # how fastexcel calls a column without a name, with its number


def excel_table(path: Path, name: str) -> FrameTable:
    """Read the first sheet as a table. Columns with several types become text. Errors call the file `name`."""
    if find_spec("fastexcel") is None:
        advice = 'Install it with pip install "flowratio[excel]", or save the sheet as CSV'
        raise ValueError(f"{name} is an Excel workbook, and the package fastexcel reads such files. {advice}.")
    with named_errors(name, "Excel", PanicException):
        cells = _sheet(path, raise_if_empty=False, read_options={"dtypes": "string"})
        empty = [column for column in cells.columns if cells[column].null_count() == len(cells)]
        # fastexcel logs a warning for each column whose type it cannot infer
        types = dict.fromkeys(empty, pl.String)
        frame = _sheet(path, schema_overrides=types, infer_schema_length=None) if len(cells) else cells
    if frame.is_empty():
        raise no_rows(name)
    frame = frame.with_columns(pl.lit(None).alias(column) for column in empty)
    frame.columns = ["" if column.startswith(_UNNAMED) else column for column in frame.columns]
    return FrameTable(frame, path, name)


def _sheet(path: Path, **options: Any) -> pl.DataFrame:
    return pl.read_excel(path, sheet_id=1, engine="calamine", **options)
