"""The ratio and the files of a command: read, restricted to columns, and parsed. Errors name the file and the line."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from flowratio._support.errors import ArgumentError
from flowratio._support.wording import counted, listed, shown
from flowratio.applications.variables import identifier_text
from flowratio.cli.headers import check_excluded, check_roles, header_of
from flowratio.cli.options import TextOptions
from flowratio.ratios.registry import named_ratio
from flowratio.report.model import places_named
from flowratio.storage.reading import read_table
from flowratio.tables.cells import check_formats, pooled
from flowratio.tables.encoder import TableEncoder
from flowratio.tables.formats import Kind


def named_method(name: str, budget: float | None = None) -> Any:
    """Return the unfitted ratio that `--method` names. `"auto"` has `budget` seconds to choose."""
    ratio = named_ratio(name)
    return ratio.set_params(time_budget=budget) if "time_budget" in ratio.get_params(deep=False) else ratio


def read_tables(
    paths: Sequence[str], columns: Sequence[str] | None, exclude: Sequence[str] | None, text: TextOptions
) -> list[pl.DataFrame]:
    """Read columns of the files (None for all), without those to exclude, which must be in at least one file."""
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
    columns = header_of(path, text.encoding).columns
    return table.columns if columns is None else columns


def divided(
    path: str, table: pl.DataFrame, x: Sequence[str] | None, y: Sequence[str], z: Sequence[str] | None = None
) -> list[pl.DataFrame]:
    """Return the columns of X, of Y and, with `z`, of Z of one table. Without `x`, X has all other columns."""
    check_roles({"x": x, "y": y, "given": z}, table.columns, path)
    of_y, of_z = (table.select(list(dict.fromkeys(names or ()))) for names in (y, z))
    rest = table.drop(of_y.columns).drop(of_z.columns)
    of_x = table.select(list(dict.fromkeys(x))) if x else _without_identifiers_of(rest)
    if not of_x.columns:
        names, verb = (("y",), "`y` has") if z is None else (("y", "given"), "`y` and `given` have")
        raise ArgumentError(("x", *names), f"{verb} all columns of {path}. Leave at least one column for X.")
    return [of_x, of_y] if z is None else [of_x, of_y, of_z]


def _without_identifiers_of(table: pl.DataFrame) -> pl.DataFrame:
    """Return the columns of a table that are not identifiers, unless no other column is left."""
    if not table.columns:
        return table
    encoder = TableEncoder().fit(table)  # it names identifiers in a warning
    return table.select(_without_identifiers(encoder)) if encoder.used_columns() else table


def parsed(paths: Sequence[str], tables: Sequence[pl.DataFrame], encoder: TableEncoder | None) -> list[pl.DataFrame]:
    """Return the tables with the types that a fitted encoder reads. Without an encoder they stay unchanged."""
    if encoder is None:
        return list(tables)
    typed = []
    for path, table in zip(paths, tables, strict=True):
        absent = [name for name in encoder.used_columns() if name not in table.columns]
        if absent:
            raise ValueError(f"{path} has no column {listed(absent)}. It must have all columns that the model uses.")
        with places_named((path, path), len(table)):
            encoder.transform(table)  # refuses a cell that cannot be read
            typed.append(encoder.parse(table))
    return typed


def comparable(paths: Sequence[str], tables: Sequence[pl.DataFrame], text: TextOptions) -> list[pl.DataFrame]:
    """Return one or two tables with the types of their columns: text is read in one format for both.

    Columns of identifiers are left out of two tables, unless no other column is left.
    """
    first, last, names = tables[0], tables[-1], (paths[0], paths[-1])
    with places_named(names, len(first), text.encoding):
        rows = pooled(first, last, names) if len(tables) > 1 else first  # refuses different columns
        if len(tables) > 1:
            check_formats(first, last, names, text.format)
        labels = np.repeat([1, 0], [len(first), len(last)]) if len(tables) > 1 else None
        with warnings.catch_warnings():
            if len(tables) == 1:  # all columns are used
                warnings.filterwarnings("ignore", "Left out")
            encoder = TableEncoder(text_format=text.format).fit(rows, labels)
        used = encoder.used_columns() if len(tables) > 1 else []
        typed = [encoder.parse(table).select(_without_identifiers(encoder) if used else pl.all()) for table in tables]
    for name in encoder.identifiers() if len(tables) == 1 else ():
        if typed[0][name].dtype.is_numeric():  # text is left out later, with a warning
            warnings.warn(identifier_text(paths[0], name), stacklevel=2)
    return typed


def _without_identifiers(encoder: TableEncoder) -> list[str]:
    return [column.name for column in encoder.columns_ if column.kind is not Kind.IDENTIFIER]


def column_kinds(encoder: TableEncoder) -> str:
    """Return a line for each kind of column, with the names of its columns."""
    kinds: dict[str, list[str]] = {}
    for column in encoder.columns_:
        kinds.setdefault(column.kind, []).append(column.name)
    notes = {"constant": " (left out)", "identifier": " (left out)"}
    lines = [f"  {kind}: {', '.join(map(shown, names))}{notes.get(kind, '')}" for kind, names in kinds.items()]
    return "\n".join([f"Columns, encoded as {counted(len(encoder.names_), 'column')} of numbers:", *lines])
