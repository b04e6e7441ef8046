"""What changed in a column, in its own units: old → new."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy.stats import spearmanr

from flowratio._support.numbers import fixed, pair, plain_spaces, shares
from flowratio._support.types import TableLike, Vector
from flowratio._support.wording import counted
from flowratio.applications.column_changes import ChangeKind, ColumnChanges
from flowratio.applications.column_descriptions import described
from flowratio.samples.containers import to_tables
from flowratio.tables.cells import cells_of, to_frame
from flowratio.tables.columns import Column
from flowratio.tables.encoder import TableEncoder
from flowratio.tables.formats import CellFormat, Kind

_CATEGORIES = 2  # new and vanished categories of a column that are listed


class Change(NamedTuple):
    """A change of a column, in its own units."""

    column: str
    what: str  # such as "median age" or "citizen = No"
    before: str  # in the file of q
    after: str  # in the file of p
    note: str = ""  # such as "new"
    is_dependence: bool = False  # whether it is about two columns

    def __str__(self) -> str:
        values = f": {self.before} → {self.after}" * bool(self.before)
        return f"{self.what}{values}{f' ({self.note})' * bool(self.note)}"


def values_of(changes: ColumnChanges, X_p: TableLike, X_q: TableLike, encoder: TableEncoder | None) -> list[str]:
    """Return the change of each clearly changed column in its own units, from q to p. Empty for other columns."""
    P, Q = (to_frame(table) for table in to_tables(X_p, X_q))
    if encoder is None:
        columns = {name: _of_numbers(name, P, Q) for name in P.columns}
    else:
        P, Q, columns = encoder.parse(P), encoder.parse(Q), {column.name: column for column in encoder.columns_}
    texts = []
    for driver in changes.to_list():
        name = driver["column"]
        if name not in changes.clear or name not in columns:  # or the name of a group of columns
            texts.append("")
            continue
        column = described(columns[name], cells_of(P[name]), cells_of(Q[name]))
        driver |= correlations(driver, P, Q)
        texts.append(plain_spaces(", ".join(map(str, changes_of_column(column, driver, [driver])))))
    return texts


def _of_numbers(name: str, P: pl.DataFrame, Q: pl.DataFrame) -> Column:
    values = np.concatenate([P[name].to_numpy(), Q[name].to_numpy()])
    kind = Kind.INTEGER if values.dtype.kind in "iub" or not np.any(values % 1) else Kind.NUMBER
    return Column(name, kind, CellFormat(kind), None)


def changes_of_column(
    column: dict[str, Any], driver: dict[str, Any], drivers: Sequence[dict[str, Any]]
) -> list[Change]:
    """Return what changed in a column. `driver` is its result of the test, one of the `drivers`."""
    name, kind = column["name"], ChangeKind(driver["kind"])
    if kind is ChangeKind.CORRELATION:
        return [] if _is_repeated(driver, drivers) else [_change_of_correlation(driver)]
    categories = _changed_categories(column)
    of_missing = abs(column["missing"]["p"] - column["missing"]["q"])
    is_larger = any(of_missing > abs(one["p"] - one["q"]) for one in categories[:1])
    is_text = bool(column.get("categories"))
    if kind is ChangeKind.MISSING or is_larger or not (is_text or _has_values(column)):
        return [Change(name, f"missing values of {name}", *shares(column["missing"]["q"], column["missing"]["p"]))]
    if not is_text:
        return [_change_of_numbers(column, kind)]
    if not categories:
        return [Change(name, f"categories of {name}", "", "", "too few rows to say which ones")]
    changes = [
        Change(name, f"{name} = {one['category']}", *shares(one["q"], one["p"]), one["note"]) for one in categories
    ]
    n_more = column["changes"]["n_clear"] - len(changes) if "changes" in column else 0
    if n_more > 0 and len(column["categories"]) > 2:  # of two categories, one says it all
        more = f"{counted(n_more, 'more category', 'more categories')} changed"
        changes[-1] = changes[-1]._replace(note=", ".join(filter(None, [changes[-1].note, more])))
    return changes


def _is_repeated(driver: dict[str, Any], drivers: Sequence[dict[str, Any]]) -> bool:
    """Return whether a column before this one has the same change of a correlation."""
    before = drivers[: drivers.index(driver)]
    is_correlation = {
        one["column"] for one in before if one["kind"] == driver["kind"] and one["partner"] == driver["column"]
    }
    return driver["partner"] in is_correlation


def _change_of_correlation(driver: dict[str, Any]) -> Change:
    before, after = (fixed(driver.get(sample), 2) for sample in "qp")
    return Change(
        driver["column"], f"rank correlation of {driver['column']} and {driver['partner']}", before, after, "", True
    )


def _changed_categories(column: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the clearly new and vanished categories of a column, or the one that changed most. Of a boolean, true."""
    changes = column.get("changes")
    if changes is None:
        true_first = sorted(column.get("categories", []), key=lambda one: one["category"] != "true")
        return [{**one, "note": ""} for one in true_first[:1]]
    absent = [{**one, "note": kind} for kind in ("new", "vanished") for one in changes[kind] if one["is_clear"]]
    absent.sort(key=lambda one: -one["p"] - one["q"])
    return absent[:_CATEGORIES] or [{**one, "note": ""} for one in changes["changed"][:1]]


def is_zero_or_one(column: dict[str, Any]) -> bool:
    """Return whether a column of integers has no other values than 0 and 1. Its mean is then the share of 1."""
    moments = [one for one in column.get("numbers", {}).values() if one is not None]
    ends = [(one["quartiles"][0], one["quartiles"][4]) for one in moments]
    return column["kind"] == "integer" and all(low >= 0 and high <= 1 for low, high in ends)


def _has_values(column: dict[str, Any]) -> bool:
    return all(column.get("numbers", {}).get(sample) is not None for sample in "pq")


def _change_of_numbers(column: dict[str, Any], kind: ChangeKind) -> Change:
    """Return the change of the share of 1, of the median or mean, or of the middle half of the values."""
    name, p, q = column["name"], column["numbers"]["p"], column["numbers"]["q"]
    if is_zero_or_one(column):
        return Change(name, f"{name} = 1", *shares(q["mean"], p["mean"]))
    if kind is ChangeKind.MEAN:
        medians = pair(column, q["quartiles"][2], p["quartiles"][2])
        if medians[0] != medians[1]:
            return Change(name, f"median {name}", *medians)
        return Change(name, f"mean {name}", *pair(column, q["mean"], p["mean"]))
    low, high = (pair(column, q["quartiles"][k], p["quartiles"][k]) for k in (1, 3))
    texts = [f"{low[k]} to {high[k]}" for k in (0, 1)]
    if texts[0] != texts[1]:
        return Change(name, f"middle half of {name}", texts[0], texts[1])
    return Change(name, f"standard deviation of {name}", *pair({"kind": "number"}, q["sd"], p["sd"]))


def correlations(driver: dict[str, Any], P: pl.DataFrame, Q: pl.DataFrame) -> dict[str, Any]:
    """Return the rank correlations of two columns in both tables, if their correlation changed and both are numbers."""
    if driver["kind"] != ChangeKind.CORRELATION.value:
        return {}
    values = [[_numbers(table[driver[key]]) for key in ("column", "partner")] for table in (P, Q)]
    if any(one is None for pair in values for one in pair):
        return {}
    return {"p": _rank_correlation(*values[0]), "q": _rank_correlation(*values[1])}


def _rank_correlation(a: Any, b: Any) -> float:
    """Return the rank correlation of the rows with both values, (n,). NaN if they do not vary."""
    rows = np.isfinite(a) & np.isfinite(b)
    a, b = a[rows], b[rows]
    if len(a) < 3 or a.min() == a.max() or b.min() == b.max():
        return math.nan
    result: Any = spearmanr(a, b)
    return float(result.statistic)


def _numbers(cells: pl.Series) -> Vector | None:
    """Return numbers and dates as floats, (n,), NaN if missing. None for text."""
    if not (cells.dtype.is_numeric() or cells.dtype.is_temporal()):
        return None
    numbers = cells.to_physical().cast(pl.Float64).fill_null(math.nan).to_numpy()
    return numbers if np.nanmin(numbers, initial=math.inf) < np.nanmax(numbers, initial=-math.inf) else None
