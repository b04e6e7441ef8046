"""The variables of mutual information: arrays and mixed tables as matrices of the same rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import rankdata

from flowratio._support.callers import warn_caller
from flowratio._support.errors import ArgumentError, ArgumentWarning
from flowratio._support.types import Matrix
from flowratio._support.wording import listed, quoted
from flowratio.applications.margins import is_continuous
from flowratio.applications.result import LeftOut
from flowratio.samples.containers import library_of, needs_encoding, to_table
from flowratio.samples.pairing import check_pairs
from flowratio.samples.stacking import to_matrix
from flowratio.tables.detection import is_mixed
from flowratio.tables.identifiers import identifier_columns

if TYPE_CHECKING:
    from flowratio.tables.encoder import TableEncoder

_ROWS_PER_CATEGORY, _MAX_CATEGORIES = 25, 200  # rarer categories of a text column count as one
_FEWEST_IN_ORDER = 10  # rows: two independent columns have the same order of fewer rows by chance


@dataclass(frozen=True, eq=False)
class _Part:
    """One variable as a matrix."""

    matrix: Matrix  # (n, d)
    labels: list[str]  # (d,): names of the columns in quotes, or their numbers in an array
    grouped: dict[str, float] = field(default_factory=dict)
    is_missing: np.ndarray | bool = False  # (n,): whether a value of the row is missing
    constants: list[str] = field(default_factory=list)  # labels of constant columns, which may not be in the matrix
    left_out: LeftOut = field(default_factory=LeftOut)  # identifiers


@dataclass(frozen=True, eq=False)
class Variables:
    """Matrices of the same n rows, and what was grouped to make them."""

    names: tuple[str, ...]
    parts: list[Matrix]  # each (n, d)
    labels: list[list[str]]  # of the columns of each part
    grouped: dict[str, float]  # share of rows by text column whose category counts as "(other)"
    n_missing: int  # rows with a missing value
    left_out: LeftOut  # identifiers

    @property
    def n(self) -> int:
        return len(self.parts[0])

    def copies(self) -> str:
        """Return a sentence on the first continuous column of X that determines one of Y. Empty if there is none."""
        orders: dict[bytes, int] = {}
        (x, y), n = self.parts[:2], self.n
        for j in np.flatnonzero(is_continuous(x)) if n >= _FEWEST_IN_ORDER else ():
            ranks = rankdata(x[:, j])
            orders |= {ranks.tobytes(): j, (n + 1 - ranks).tobytes(): j}
        for k in np.flatnonzero(is_continuous(y)) if orders else ():
            if (j := orders.get(rankdata(y[:, k]).tobytes())) is not None:
                return _copy(self.labels[0][j], self.labels[1][k], bool((x[:, j] == y[:, k]).all()))
        return ""

    def constant(self) -> str | None:
        """Return the name of the first of X and Y that does not vary."""
        pairs = zip(self.names[:2], self.parts, strict=False)
        return next((name for name, part in pairs if (part == part[:1]).all()), None)


def variables_of(values: dict[str, Any]) -> Variables:
    """Check variables of shapes (n,) or (n, d), and encode tables. X comes first."""
    check_pairs(values)
    parts = {name: _part(value, name) for name, value in values.items()}
    matrices = {name: part.matrix for name, part in parts.items()}
    n = len(matrices["X"])
    for name, part in matrices.items():
        if len(part) != n:
            text = f"`{name}` has {len(part)} rows but `X` has {n}. All variables must have the same rows."
            raise ArgumentError((name, "X"), text)
        if not np.isfinite(part).all():
            raise ValueError(f"`{name}` has infinite values. Drop these rows in all variables, or replace the values.")
    for name, part in parts.items():
        _warn_of_constants(part.constants, name)
    grouped = {name: share for part in parts.values() for name, share in part.grouped.items()}
    is_missing, left_out = np.zeros(n, bool), LeftOut()
    for part in parts.values():
        is_missing |= part.is_missing
        left_out = left_out.joined(part.left_out)
    labels = [part.labels for part in parts.values()]
    return Variables(tuple(parts), list(matrices.values()), labels, grouped, int(is_missing.sum()), left_out)


def _copy(of_x: str, of_y: str, is_equal: bool) -> str:
    if is_equal:
        label = f" {of_x}" * (of_x == of_y)
        return f"`X` and `Y` hold the same column{label}. The information of a continuous column on itself is infinite."
    columns = f"Column {of_x} of `X` and column {of_y} of `Y`"
    return f"{columns} sort the rows alike. If one of them determines the other, the mutual information is infinite."


def _warn_of_constants(labels: list[str], name: str) -> None:
    for label in labels[:1]:
        rest = f" So {'is' if len(labels) == 2 else 'are'} {len(labels) - 1} more." * (len(labels) > 1)
        text = f"Column {label} of `{name}` is constant, so it has no information.{rest}"
        warn_caller(ArgumentWarning(name, text))


def _part(value: Any, name: str) -> _Part:
    """Check and encode a variable."""
    shape = getattr(value, "shape", None) or np.shape(value)
    if len(shape) == 0:
        raise ValueError(f"`{name}` is {value!r}. Give its rows, of shape (n,) or (n, d).")
    value = to_table(value)
    is_alone = np.shape(value)[1:] == (1,)  # it may be an index or a time, which is no identifier then
    if not (is_mixed(value) if is_alone else needs_encoding(value)):
        return _numeric_part(value, name)
    from flowratio.tables.encoder import TableEncoder

    encoder = TableEncoder(max_categories=min(max(len(value) // _ROWS_PER_CATEGORY, 20), _MAX_CATEGORIES)).fit(value)
    _refuse_identifiers(encoder, name)
    left_out = LeftOut.of(encoder, name)
    matrix, _ = encoder.encode(value)
    constants = [quoted(column.name) for column in encoder.columns_ if column.kind == "constant" and not column.parts]
    if not matrix.shape[1]:  # every column is constant
        return _Part(np.zeros((len(matrix), 1)), constants, constants=constants, left_out=left_out)
    codes, columns = encoder.category_codes(matrix), [column for column in encoder.columns_ if column.rare]
    grouped = {one.name: float(np.mean(codes[one.name].codes >= len(one.categories))) for one in columns}
    places = [encoder.missing_position(k) for k in range(len(encoder.columns_))]
    is_missing = np.any(matrix[:, [place for place in places if place is not None]] > 0.5, axis=1)
    labels = [quoted(label) for label in encoder.get_feature_names_out()]  # codes of categories have no order
    return _Part(np.delete(matrix, encoder.codes_, axis=1), labels, grouped, is_missing, constants, left_out)


def identifier_text(place: str, column: str) -> str:
    """Return the warning of an identifier that is used."""
    problem = f"{place} has {quoted(column)}, which looks like an identifier, with distinct integers"
    return f"{problem}. It is used. To ignore it, leave it out."


def _numeric_part(value: Any, name: str) -> _Part:
    """Return a table of numbers as a matrix. A single column that is an identifier is used, with a warning."""
    matrix, is_named = to_matrix(value, name), library_of(value) is not None
    for column in identifier_columns(value) if is_named else ():
        warn_caller(ArgumentWarning(name, identifier_text(f"`{name}`", column)))
    columns = value.columns if is_named else range(1, matrix.shape[1] + 1)
    labels = [quoted(column) if is_named else str(column) for column in columns]
    is_constant = (matrix == matrix[:1]).all(axis=0)
    return _Part(matrix, labels, constants=[label for label, same in zip(labels, is_constant, strict=True) if same])


def _refuse_identifiers(encoder: TableEncoder, name: str) -> None:
    """Refuse a variable of which nothing is left without its identifiers."""
    identifiers = [column.name for column in encoder.columns_ if column.kind == "identifier"]
    if not identifiers or any(column.kind not in ("identifier", "constant") for column in encoder.columns_):
        return
    is_text = all(column.form.kind == "category" for column in encoder.columns_ if column.kind == "identifier")
    what = "text in which most rows have their own value" if is_text else "identifiers"
    problem = f"`{name}` has only {what}, in {listed(identifiers)}, so it was left out"
    advice = "categories that occur several times" if is_text else "convert integers to float, such as 12.0"
    raise ArgumentError(name, f"{problem}. Give numbers, or {advice}.")
