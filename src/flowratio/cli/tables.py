"""The files of a command, restricted to columns. Importing it loads no torch, so that a mistake is reported at once."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from flowratio._support.errors import ArgumentError
from flowratio._support.wording import nearest, quoted
from flowratio.cli.options import TextOptions
from flowratio.storage.reading import open_table, read_table


def read_tables(
    paths: Sequence[str], columns: Sequence[str] | None, exclude: Sequence[str] | None, text: TextOptions
) -> list[pl.DataFrame]:
    """Read columns of the files (None for all), without those to exclude, which must be in at least one file."""
    tables = [read_table(path, columns, encoding=text.encoding) for path in paths]
    names = {name for path, table in zip(paths, tables, strict=True) for name in _all_columns(path, table, text)}
    for name in exclude or ():
        if name not in names:
            fault = f"`exclude` names {quoted(name)}, which is not a column of {' or '.join(paths)}."
            raise ArgumentError("exclude", fault + nearest(name, names))
    tables = [table.drop(exclude or (), strict=False) for table in tables]
    for path, table in zip(paths, tables, strict=True):
        if not table.columns:
            fault = f"No column of {path} is left. Keep at least one with `columns` and `exclude`."
            raise ArgumentError(("columns", "exclude"), fault)
    return tables


def _all_columns(path: str, table: pl.DataFrame, text: TextOptions) -> list[str]:
    if path == "-":
        return table.columns
    with open_table(path, text.encoding) as file:
        return list(file.columns)
