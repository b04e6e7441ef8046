"""The ratio and the parsed tables of a command. Errors name the file and the line."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import polars as pl

from flowratio._support.errors import ArgumentError
from flowratio._support.wording import counted, listed, shown
from flowratio.applications.result import LeftOut
from flowratio.applications.variables import identifier_text
from flowratio.cli.headers import check_roles
from flowratio.cli.options import TextOptions
from flowratio.ratios.registry import named_ratio
from flowratio.report.model import places_named
from flowratio.tables.cells import check_formats, pooled
from flowratio.tables.encoder import IdentifierWarning, TableEncoder
from flowratio.tables.formats import Kind


def named_method(name: str, budget: float | None = None) -> Any:
    """Return the unfitted ratio that `--method` names. `"auto"` has `budget` seconds to choose."""
    ratio = named_ratio(name)
    return ratio.set_params(time_budget=budget) if "time_budget" in ratio.get_params(deep=False) else ratio


def divided(
    path: str, table: pl.DataFrame, x: Sequence[str] | None, y: Sequence[str], z: Sequence[str] | None = None
) -> list[pl.DataFrame]:
    """Return the columns of X, of Y and, with `z`, of Z of one table. Without `x`, X has all other columns."""
    check_roles({"x": x, "y": y, "given": z}, table.columns, path)
    of_y, of_z = (table.select(list(dict.fromkeys(names or ()))) for names in (y, z))
    of_x = table.select(list(dict.fromkeys(x))) if x else table.drop(of_y.columns).drop(of_z.columns)
    if not of_x.columns:
        names, verb = (("y",), "`y` has") if z is None else (("y", "given"), "`y` and `given` have")
        raise ArgumentError(("x", *names), f"{verb} all columns of {path}. Leave at least one column for X.")
    return [of_x, of_y] if z is None else [of_x, of_y, of_z]


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


def comparable(
    paths: Sequence[str], tables: Sequence[pl.DataFrame], text: TextOptions
) -> tuple[list[pl.DataFrame], LeftOut]:
    """Return two tables with the types of their columns: text is read in one format for both.

    Columns of identifiers are left out, unless no other column is left. The result names them, so no warning does.
    """
    encoder, typed = _typed(paths, tables, text)
    if not encoder.used_columns():
        return typed, LeftOut()
    names = [column.name for column in encoder.columns_ if column.kind is not Kind.IDENTIFIER]
    return [table.select(names) for table in typed], LeftOut.of(encoder)


def variable(
    path: str, table: pl.DataFrame, name: str, chosen: bool, text: TextOptions
) -> tuple[pl.DataFrame, LeftOut]:
    """Return a variable of mutual information as `comparable` does.

    Integers that the user has chosen, or that are all a variable has, are used even if they look like identifiers. Then
    a note names them.
    """
    encoder, (typed,) = _typed([path], [table], text)
    left_out = LeftOut.of(encoder, name)
    if left_out.names and encoder.used_columns() and not chosen:
        return typed.drop(left_out.names), left_out
    for column in left_out.names:
        if typed[column].dtype.is_numeric():  # text is left out later, and the result names it
            warnings.warn(identifier_text(path, column), stacklevel=2)
    return typed, LeftOut()


def _typed(
    paths: Sequence[str], tables: Sequence[pl.DataFrame], text: TextOptions
) -> tuple[TableEncoder, list[pl.DataFrame]]:
    """Return an encoder of one or two tables, and the tables with the types that it reads."""
    first, last, names = tables[0], tables[-1], (paths[0], paths[-1])
    with places_named(names, len(first), text.encoding):
        rows = pooled(first, last, names) if len(tables) > 1 else first  # refuses different columns
        if len(tables) > 1:
            check_formats(first, last, names, text.format)
        labels = np.repeat([1, 0], [len(first), len(last)]) if len(tables) > 1 else None
        with result_names_identifiers():
            encoder = TableEncoder(text_format=text.format).fit(rows, labels)
        return encoder, [encoder.parse(table) for table in tables]


@contextmanager
def result_names_identifiers() -> Iterator[None]:
    """Issue no warning of identifiers: the result that is printed names them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifierWarning)
        yield


def column_kinds(encoder: TableEncoder) -> str:
    """Return a line for each kind of column, with the names of its columns."""
    kinds: dict[str, list[str]] = {}
    for column in encoder.columns_:
        kinds.setdefault(column.kind, []).append(column.name)
    notes = {"constant": " (left out)", "identifier": " (left out)"}
    lines = [f"  {kind}: {', '.join(map(shown, names))}{notes.get(kind, '')}" for kind, names in kinds.items()]
    return "\n".join([f"Columns, encoded as {counted(len(encoder.names_), 'column')} of numbers:", *lines])
