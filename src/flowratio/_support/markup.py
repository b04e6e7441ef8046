"""HTML for notebooks. It has no colors, so that it is readable in light and dark themes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from flowratio._support.wording import shown

_LONGEST_CELL = 300  # characters
_LONGEST_TEXT = 2_000


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. The first cell of each row names the row. An empty `head` has no row of its own."""
    names = "".join(_cell("th scope='col'", text) for text in head)
    body = "".join(_row(name, cells) for name, *cells in rows)
    top = f"<thead><tr>{names}</tr></thead>" if head else ""
    return f"<table>{_cell('caption', caption)}{top}<tbody>{body}</tbody></table>"


def lead(answer: str, reason: str) -> str:
    """Return a paragraph with the answer in bold, and its reason."""
    reason = f"{reason[:1].upper()}{reason[1:]}"
    return f"<p><strong>{_text(answer, _LONGEST_CELL)}</strong> {_text(reason, _LONGEST_TEXT)}</p>"


def paragraph(text: str) -> str:
    """Return a paragraph, or an empty text."""
    return f"<p>{_text(text, _LONGEST_TEXT)}</p>" if text else ""


def points(texts: Sequence[str]) -> str:
    """Return a list, or an empty text."""
    return f"<ul>{''.join(f'<li>{_text(text, _LONGEST_TEXT)}</li>' for text in texts)}</ul>" if texts else ""


def _row(name: str, cells: Sequence[str]) -> str:
    head, rest = _cell("th scope='row'", name), "".join(_cell("td", text) for text in cells)
    return f"<tr>{head}{rest}</tr>"


def _cell(tag: str, text: str) -> str:
    """Return an element whose text is on the left: notebooks align cells to the right."""
    return f"<{tag} style='text-align:left'>{_text(text, _LONGEST_CELL)}</{tag.split()[0]}>"


def _text(text: str, longest: int) -> str:
    return escape(shown(text, longest))
