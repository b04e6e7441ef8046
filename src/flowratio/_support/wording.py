"""Phrases that several messages share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

_MAX_LISTED = 8


def listed(names: Sequence[object]) -> str:
    """Return names in quotes, the first 8 of them."""
    more = f" and {len(names) - _MAX_LISTED} more" * (len(names) > _MAX_LISTED)
    return ", ".join(map(repr, names[:_MAX_LISTED])) + more


def counted(n: int, noun: str) -> str:
    """Return a number with its noun, such as "1 warning" and "2 warnings"."""
    return f"{n} {noun}{'s' * (n != 1)}"


def nearest(name: object, choices: Iterable[str]) -> str:
    """Return the question whether the nearest of the choices was meant, after a space, or an empty text."""
    near = get_close_matches(str(name), list(choices), 1)
    return f" Did you mean {near[0]!r}?" if near else ""


def check_distinct(columns: Sequence[str], table: str) -> None:
    """Refuse a table with two columns of the same name."""
    duplicates = sorted({column for column in columns if columns.count(column) > 1})
    if duplicates:
        raise ValueError(f"{table} has more than one column {listed(duplicates)}. Give each column its own name.")
