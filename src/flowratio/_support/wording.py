"""Names as people read them, and phrases that several messages share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from enum import Enum
from unicodedata import category

LONGEST_PATH = 200  # characters of a path in a message. Its end has the name of the file
_LONGEST_NAME = 60  # characters of the name of a column or of a category
_MAX_LISTED = 8
_JOINERS = "\u200c\u200d"  # parts of Persian words and of emoji


class Words(str, Enum):
    """An enum whose members print as their words."""

    def __str__(self) -> str:
        return self.value


def shown(name: object, longest: int = _LONGEST_NAME) -> str:
    """Return a name for people: control characters are escaped, and the middle of a long name is left out."""
    text = str(name)
    text = escaped(text if len(text) <= 2 * longest else text[:longest] + text[-longest:])
    n_last = longest // 3
    return text if len(text) <= longest else f"{text[: longest - n_last - 1]}…{text[-n_last:]}"


def escaped(text: str) -> str:
    r"""Return a text with visible characters only. Others become \n, \x1b or \u202e."""
    return "".join(letter.encode("unicode_escape").decode() if _is_hidden(letter) else letter for letter in text)


def _is_hidden(letter: str) -> bool:
    """Return whether a character moves, hides or reverses text. Spaces of any width and joiners of letters do not."""
    return not letter.isprintable() and category(letter) != "Zs" and letter not in _JOINERS


def quoted(name: object) -> str:
    """Return a name in quotes: text as people can read it, any other value as its `repr`."""
    if not isinstance(name, str):
        return shown(repr(name))
    mark = '"' if "'" in name else "'"
    return f"{mark}{shown(name)}{mark}"


def listed(names: Sequence[object]) -> str:
    """Return names in quotes, the first 8 of them."""
    return first_of([quoted(name) for name in names], _MAX_LISTED)


def first_of(phrases: Sequence[str], most: int) -> str:
    """Return the first phrases, and how many more there are: "a, b and 3 more"."""
    more = f" and {len(phrases) - most} more" * (len(phrases) > most)
    return ", ".join(phrases[:most]) + more


def more_columns(n: int, most: int) -> str:
    """Return the line after the first columns of a table with n of them. Empty if the table has all."""
    return f"… and {counted(n - most, 'more column')}" if n > most else ""


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, such as "1 warning" and "2 warnings"."""
    return f"{n} {noun if n == 1 else plural or f'{noun}s'}"


def in_percent(share: float, digits: int = 0) -> str:
    """Return a share in percent, such as "50 %". A share may be negative, as a relative error is."""
    return f"{100 * share:.{digits}f} %"


def nearest(name: object, choices: Iterable[str]) -> str:
    """Return the question whether the nearest of the choices was meant, after a space, or an empty text."""
    near = get_close_matches(str(name), list(choices), 1)
    return f" Did you mean {quoted(near[0])}?" if near else ""


def check_distinct(columns: Sequence[str], table: str) -> None:
    """Refuse a table with two columns of the same name."""
    duplicates = sorted({column for column in columns if columns.count(column) > 1})
    if duplicates:
        raise ValueError(f"{table} has more than one column {listed(duplicates)}. Give each column its own name.")
