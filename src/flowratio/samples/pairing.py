"""Rows of several objects that belong together by position: the labels of pandas must not contradict it.

Only pandas has labels of rows. If two objects have the same labels in another order, pairing by position would pair
wrong rows. Other labels, such as those of a part of a table and a new count from 0, contradict nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

from flowratio._support.errors import ArgumentError
from flowratio.samples.containers import library_of


def check_pairs(rows: Mapping[str, Any]) -> None:
    """Refuse objects of pandas whose rows have the same labels in another order. `rows` are objects by argument.

    Objects of other kinds, and None, are not compared.
    """
    indexes = {name: value.index for name, value in rows.items() if _has_labels(value)}
    for (first, index), (second, other) in combinations(indexes.items(), 2):
        if not index.equals(other) and _have_same_labels(index, other):
            problem = f"`{first}` and `{second}` have the same index in another order, so their rows would be paired"
            by_label = f" To pair rows by label, use `{second}.loc[{first}.index]`." * other.is_unique
            advice = "To pair them by position, use `reset_index(drop=True)` on both."
            raise ArgumentError((first, second), f"{problem} wrongly.{by_label} {advice}")


def _has_labels(value: Any) -> bool:
    libraries = (library_of(value, kind) for kind in ("DataFrame", "Series"))
    return any(library is not None and library.__name__ == "pandas" for library in libraries)


def _have_same_labels(index: Any, other: Any) -> bool:
    return len(index) == len(other) and bool(index.isin(other).all()) and bool(other.isin(index).all())
