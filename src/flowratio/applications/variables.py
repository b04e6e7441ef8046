"""The variables of mutual information: arrays and mixed tables as matrices of the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flowratio._support.errors import ArgumentError
from flowratio._support.types import Matrix
from flowratio._support.wording import listed
from flowratio.samples.containers import to_table
from flowratio.samples.pairing import check_pairs
from flowratio.samples.stacking import to_matrix
from flowratio.tables.detection import is_mixed

if TYPE_CHECKING:
    from flowratio.tables.encoder import TableEncoder

_ROWS_PER_CATEGORY, _MAX_CATEGORIES = 25, 200  # rarer categories of a text column count as one


@dataclass(frozen=True, eq=False)
class Variables:
    """Matrices of the same n rows, and what was grouped to make them."""

    names: tuple[str, ...]
    parts: list[Matrix]  # each (n, d)
    grouped: dict[str, float]  # share of rows by text column whose category counts as "(other)"

    @property
    def n(self) -> int:
        return len(self.parts[0])

    def constant(self) -> str | None:
        """Return the name of the first of X and Y that does not vary."""
        pairs = zip(self.names[:2], self.parts, strict=False)
        return next((name for name, part in pairs if (part == part[:1]).all()), None)


def variables_of(values: dict[str, Any]) -> Variables:
    """Check variables of shapes (n,) or (n, d), and encode tables. X comes first."""
    check_pairs(values)
    parts: dict[str, Matrix] = {}
    grouped: dict[str, float] = {}
    for name, value in values.items():
        parts[name], shares = _matrix(value, name)
        grouped |= shares
    n = len(parts["X"])
    for name, part in parts.items():
        if len(part) != n:
            text = f"`{name}` has {len(part)} rows but `X` has {n}. All variables must have the same rows."
            raise ArgumentError((name, "X"), text)
        if not np.isfinite(part).all():
            raise ValueError(f"`{name}` has infinite values. Drop these rows in all variables, or replace the values.")
    return Variables(tuple(parts), list(parts.values()), grouped)


def _matrix(value: Any, name: str) -> tuple[Matrix, dict[str, float]]:
    """Return a variable as a matrix, and the share of rows in "(other)" by text column."""
    shape = getattr(value, "shape", None) or np.shape(value)
    if len(shape) == 0:
        raise ValueError(f"`{name}` is {value!r}. Give its rows, of shape (n,) or (n, d).")
    value = to_table(value)
    if not is_mixed(value):
        return to_matrix(value, name), {}
    from flowratio.tables.encoder import TableEncoder

    encoder = TableEncoder(max_categories=min(max(len(value) // _ROWS_PER_CATEGORY, 20), _MAX_CATEGORIES)).fit(value)
    _refuse_identifiers(encoder, name)
    matrix, _ = encoder.encode(value)
    if not matrix.shape[1]:  # every column is constant
        return np.zeros((len(matrix), 1)), {}
    codes, columns = encoder.category_codes(matrix), [column for column in encoder.columns_ if column.rare]
    grouped = {one.name: float(np.mean(codes[one.name].codes >= len(one.categories))) for one in columns}
    return np.delete(matrix, encoder.codes_, axis=1), grouped  # codes of categories have no order


def _refuse_identifiers(encoder: TableEncoder, name: str) -> None:
    """Refuse a variable of which nothing is left without its identifiers."""
    identifiers = [column.name for column in encoder.columns_ if column.kind == "identifier"]
    if not identifiers or any(column.kind not in ("identifier", "constant") for column in encoder.columns_):
        return
    problem = (
        f"`{name}` has only text in which most rows have their own value, in {listed(identifiers)}, so it was left out"
    )
    raise ArgumentError(name, f"{problem}. Give numbers, or categories that occur several times.")
