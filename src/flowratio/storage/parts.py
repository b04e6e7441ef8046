"""A table in several files with the same columns, read one file after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeAlias

import polars as pl
from polars.exceptions import PolarsError

from flowratio._support.wording import listed, quoted
from flowratio.storage.csv_layout import NoRowsError, no_rows
from flowratio.storage.sources import Part
from flowratio.storage.table_file import Frames, TableFile

Opener: TypeAlias = Callable[[Part], AbstractContextManager[TableFile]]


class PartsTable(TableFile):
    """A table in parts. `opened` opens one of them. Only one part is open at a time.

    Names of folders such as year=2024 are columns of text, unless the files have such a column. A part without rows is
    left out. Columns of two types of numbers get a common type.
    """

    def __init__(self, name: str, parts: Sequence[Part], opened: Opener) -> None:
        self._opened, self._schema, self.n_rows = opened, pl.Schema(), 0
        self.parts: list[Part] = []
        for part in parts:
            try:
                with opened(part) as table:
                    self._add(part, table)
            except NoRowsError:
                continue
        if not self.parts:
            raise no_rows(name)
        super().__init__(Path(name), name, self._schema.names())

    def _add(self, part: Part, table: TableFile) -> None:
        schema = pl.Schema({**table.schema(), **{key: pl.String() for key in part.values if key not in table.columns}})
        if self.parts:
            self._schema = _common_schema(self._schema, schema, self.parts[0].path, part.path)
        else:
            self._schema, self.index = schema, table.index
            self.metadata, self.separator = table.metadata, table.separator
        self.n_rows += table.n_rows
        self.parts.append(part)

    def schema(self) -> pl.Schema:
        return self._schema

    def count_rows(self) -> int:
        return sum(map(self._count, self.parts))

    def _count(self, part: Part) -> int:
        with self._opened(part) as table:
            return table.count_rows()

    def pieces(self, names: list[str], rows: int, skip: int) -> Frames:
        types = pl.Schema({name: self._schema[name] for name in names})
        for part in self.parts:
            if skip and (n := self._count(part)) <= skip:
                skip -= n
                continue
            with self._opened(part) as table:
                own = [name for name in names if name in table.columns] or table.columns[:1]
                for piece in table.pieces(own, rows, skip):
                    values = [pl.lit(part.values[name], pl.String).alias(name) for name in names if name not in own]
                    yield piece.with_columns(values).select(names).cast(types)
            skip = 0

    def place(self, row: int) -> str:
        for part in self.parts:
            with self._opened(part) as table:
                n = table.count_rows()
                if row < n:
                    return table.place(row)
            row -= n
        return super().place(row)


def _common_schema(a: pl.Schema, b: pl.Schema, first: Path, part: Path) -> pl.Schema:
    """Return the types of columns that two parts have in common. Refuse different columns."""
    only = [[name for name in one if name not in other] for one, other in ((a, b), (b, a))]
    if only[0] or only[1]:
        notes = [f"{listed(only[0])} only in {first.name}"] * bool(only[0])
        notes += [f"{listed(only[1])} only in {part.name}"] * bool(only[1])
        rule = "All parts of a table must have the same columns. Move this part, or write it again"
        raise ValueError(f"{part} has other columns than {first}: {', '.join(notes)}. {rule}.")
    return pl.Schema({name: _common_type(name, a[name], b[name], part) for name in a})


def _common_type(name: str, a: pl.DataType, b: pl.DataType, part: Path) -> pl.DataType:
    if a == b:
        return a
    try:
        if a.is_nested() or b.is_nested():
            raise TypeError
        empty = [pl.DataFrame(schema={name: dtype}) for dtype in (a, b)]
        return pl.concat(empty, how="vertical_relaxed").schema[name]
    except (PolarsError, TypeError) as error:
        texts = (pl.String, pl.Categorical, pl.Enum)
        if a in texts and b in texts:
            return pl.String()
        rule = "All parts of a table must have the same types. Write this part again"
        raise ValueError(f"Column {quoted(name)} of {part} has type {b}, but other parts have {a}. {rule}.") from error
