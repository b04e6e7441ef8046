"""The files of a command, restricted to columns. It loads no torch, so that a mistake is reported at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flowratio._support.errors import ArgumentError
from flowratio.cli.options import TextOptions

if TYPE_CHECKING:
    import polars as pl


def read_tables(
    paths: Sequence[str], columns: Sequence[str] | None, exclude: Sequence[str] | None, text: TextOptions
) -> list[pl.DataFrame]:
    """Read columns of the files (None for all), without those to exclude, which must be in at least one file."""
    from flowratio.cli.headers import check_excluded
    from flowratio.storage.reading import read_table

    tables = [read_table(path, columns, encoding=text.encoding) for path in paths]
    names = [name for path, table in zip(paths, tables, strict=True) for name in _all_columns(path, table, text)]
    check_excluded(exclude, names, paths)
    tables = [table.drop(exclude or (), strict=False) for table in tables]
    for path, table in zip(paths, tables, strict=True):
        if not table.columns:
            fault = f"No column of {path} is left. Keep at least one with `columns` and `exclude`."
            raise ArgumentError(("columns", "exclude"), fault)
    return tables


def _all_columns(path: str, table: pl.DataFrame, text: TextOptions) -> list[str]:
    from flowratio.cli.headers import header_of

    columns = header_of(path, text.encoding).columns
    return table.columns if columns is None else columns
