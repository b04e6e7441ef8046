"""The columns that a balance table compares: numbers, and every category of every text column."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from flowratio._support.types import Matrix, Vector
from flowratio.ratios.base import Design

if TYPE_CHECKING:
    from flowratio.tables.encoder import TableEncoder


class Categories(NamedTuple):
    """A text column: the category of each row, and their names."""

    source: int  # position of the source column
    codes: Vector  # (n,): −1 for a missing value or a category that did not occur at fit
    names: tuple[str, ...]  # of all categories, the most frequent first


class ComparedColumns(NamedTuple):
    """Columns of a design matrix without indicators of categories, and text columns with all their categories."""

    names: list[str]  # of the m compared columns: the plain ones, then the categories column by column
    sources: Vector  # (m,): position of the source column of each
    plain: Vector  # positions of columns of the matrix
    categories: list[Categories]

    def values(self, matrix: Matrix, j: int) -> Vector:
        """Return a compared column of the rows of the matrix, (n,): numbers, or 1 where the row has the category."""
        if j < len(self.plain):
            return matrix[:, self.plain[j]]
        j -= len(self.plain)
        for column in self.categories:
            if j < len(column.names):
                return (column.codes == j).astype(np.float64)
            j -= len(column.names)
        raise IndexError(j)


def compared_columns(design: Design, encoder: TableEncoder | None) -> ComparedColumns:
    """Return the columns to compare. Indicators of categories give way to all categories, rare ones included."""
    if encoder is None:
        return ComparedColumns(list(design.names), np.asarray(design.groups), np.arange(len(design.names)), [])
    columns = {name: source for source, name in enumerate(design.columns)}
    categories = [Categories(columns[name], *one) for name, one in encoder.category_codes(design.matrix).items()]
    is_text = {one.source for one in categories}
    plain = [
        j
        for j, source in enumerate(design.groups)
        if source not in is_text or j == encoder.missing_position(int(source))
    ]
    names = [design.names[j] for j in plain]
    names += [f"{design.columns[one.source]} = {category}" for one in categories for category in one.names]
    sources = [np.asarray(design.groups)[plain], *(np.full(len(one.names), one.source) for one in categories)]
    return ComparedColumns(names, np.concatenate(sources).astype(int), np.array(plain, int), categories)
