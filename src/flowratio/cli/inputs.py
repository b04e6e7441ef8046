"""The ratio and the parsed tables of a command. Errors name the file and the line."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from flowratio._support.errors import ArgumentError
from flowratio._support.wording import counted, listed, nearest, shown
from flowratio.cli.options import TextOptions
from flowratio.ratios.registry import named_ratio
from flowratio.report.model import places_named
from flowratio.tables.cells import check_formats, pooled
from flowratio.tables.encoder import TableEncoder
from flowratio.tables.formats import Kind


def named_method(name: str, budget: float | None = None) -> Any:
    """Return the unfitted ratio that `--method` names. `"auto"` has `budget` seconds to choose."""
    ratio = named_ratio(name)
    return ratio.set_params(time_budget=budget) if "time_budget" in ratio.get_params(deep=False) else ratio


def divided(path: str, table: pl.DataFrame, x: Sequence[str] | None, y: Sequence[str]) -> list[pl.DataFrame]:
    """Return the columns of X and of Y of one table. Without `x`, X has all columns that are not in Y."""
    for argument, names in (("x", x or ()), ("y", y)):
        absent = [name for name in names if name not in table.columns]
        if absent:
            problem = f"`{argument}` has {listed(absent)}, which {path} does not have"
            advice = f"Use columns of the file: {listed(table.columns)}.{nearest(absent[0], table.columns)}"
            raise ArgumentError(argument, f"{problem}. {advice}")
    of_y = table.select(list(dict.fromkeys(y)))
    of_x = table.select(list(dict.fromkeys(x))) if x else _without_identifiers_of(table.drop(of_y.columns))
    if not of_x.columns:
        raise ArgumentError(("x", "y"), f"`y` has all columns of {path}. Leave at least one column for X.")
    return [of_x, of_y]


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
        return [encoder.parse(table).select(_without_identifiers(encoder) if used else pl.all()) for table in tables]


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
