"""The first sheet of an Excel workbook. Its first row names the columns."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import polars as pl
from polars.exceptions import NoDataError, PanicException

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
        try:
            frame = pl.read_excel(path, sheet_id=1, engine="calamine", infer_schema_length=None)
        except NoDataError:
            frame = pl.DataFrame()
    if frame.is_empty():
        raise no_rows(name)
    frame.columns = ["" if column.startswith(_UNNAMED) else column for column in frame.columns]
    return FrameTable(frame, path, name)
