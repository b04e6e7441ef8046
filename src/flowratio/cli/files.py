"""The files of a command: read, restricted to columns, and parsed, with errors that name the file and the line."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from flowratio._support.errors import ArgumentError
from flowratio._support.wording import listed, nearest
from flowratio.cli.options import TextOptions, check_standard_input
from flowratio.report.model import places_named
from flowratio.storage.reading import open_table, read_table
from flowratio.tables.cells import check_formats, pooled
from flowratio.tables.encoder import TableEncoder


def read_tables(
    paths: Sequence[str], columns: Sequence[str] | None, exclude: Sequence[str] | None, text: TextOptions
) -> list[pl.DataFrame]:
    """Read the files of a command.

    Parameters
    ----------
    paths
        Paths of the files.
    columns
        Names of the columns to read from every file. All if None.
    exclude
        Names of columns to leave out. Each must be in at least one file.
    text
        How text files are written.
    """
    check_standard_input(*paths)
    tables = [_read(path, columns, text) for path in paths]
    names = {name for path, table in zip(paths, tables, strict=True) for name in _all_columns(path, table)}
    for name in exclude or ():
        if name not in names:
            text_ = f"`exclude` names {name!r}, which is not a column of {' or '.join(paths)}.{nearest(name, names)}"
            raise ArgumentError("exclude", text_)
    tables = [table.drop(exclude or (), strict=False) for table in tables]
    for path, table in zip(paths, tables, strict=True):
        if not table.columns:
            text_ = f"No column of {path} is left. Keep at least one with `columns` and `exclude`."
            raise ArgumentError(("columns", "exclude"), text_)
    return tables


def _read(path: str, columns: Sequence[str] | None, text: TextOptions) -> pl.DataFrame:
    del text  # until `read_table` takes an encoding
    return read_table(path, columns)


def _all_columns(path: str, table: pl.DataFrame) -> list[str]:
    if path == "-":
        return table.columns
    with open_table(path) as file:
        return list(file.columns)


def parsed(paths: Sequence[str], tables: Sequence[pl.DataFrame], encoder: TableEncoder | None) -> list[pl.DataFrame]:
    """Return the tables with the types that a fitted encoder reads. Without an encoder they stay unchanged."""
    if encoder is None:
        return list(tables)
    typed = []
    for path, table in zip(paths, tables, strict=True):
        absent = [column.name for column in encoder.columns_ if column.name not in table.columns]
        if absent:
            raise ValueError(f"{path} has no column {listed(absent)}. It must have all columns of the model.")
        with places_named((path, path), len(table)):
            encoder.transform(table)  # refuses a cell that cannot be read
            typed.append(encoder.parse(table))
    return typed


def encoded(paths: Sequence[str], tables: Sequence[pl.DataFrame]) -> tuple[list[pl.DataFrame], list[str]]:
    """Return one or two tables as numbers, encoded alike, and the column of the file for each of their columns."""
    first, last = tables[0], tables[-1]
    with places_named((paths[0], paths[-1]), len(first)):
        if len(tables) > 1:
            check_formats(first, last, (paths[0], paths[-1]))
        encoder = TableEncoder().fit(pooled(first, last, (paths[0], paths[-1])) if len(tables) > 1 else first)
        if len(tables) > 1 and not encoder.names_:
            raise ValueError("Every column is constant or an identifier. Give at least one column that varies.")
        matrices = [pl.DataFrame(encoder.transform(table), schema=encoder.names_) for table in tables]
    return matrices, [encoder.columns_[k].name for k in encoder.groups_]
