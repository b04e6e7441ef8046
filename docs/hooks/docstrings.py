"""Extension of Griffe: what the docstrings write in reStructuredText, as Markdown."""

from __future__ import annotations

import re
import textwrap
from typing import Any

from griffe import Class, Extension, Object

FORMULA = re.compile(r"^( *)\.\. math:: *(.*(?:\n\1 +\S.*)*)", re.MULTILINE)
IN_LINE = re.compile(r":math:`([^`]+)`")
SOURCE = re.compile(r"^( *)\.\. \[(\d+)\] (.*(?:\n\1 +\S.*)*)", re.MULTILINE)
CITED = re.compile(r"\[(\d+)\]_")


def as_markdown(text: str) -> str:
    """Return a docstring with its formulas, sources and citations in Markdown."""
    text = FORMULA.sub(_fenced, text)
    text = IN_LINE.sub(lambda match: f"`#!math {' '.join(match[1].split())}`", text)
    text = SOURCE.sub(lambda match: f"{match[1]}{match[2]}. {' '.join(match[3].split())}", text)
    return CITED.sub(r"\\[\1\\]", text)


def _fenced(match: re.Match[str]) -> str:
    return textwrap.indent(f"```math\n{' '.join(match[2].split())}\n```", match[1])


class Markdown(Extension):
    """Rewrite the docstring of every object that is read."""

    def on_object(self, *, obj: Object, **more: Any) -> None:
        """Rewrite one docstring before it is cut into sections."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)
            if isinstance(obj, Class) and any(
                str(base) == "NamedTuple" for base in obj.bases
            ):  # Griffe sees no parameters there
                obj.docstring.value = obj.docstring.value.replace("Parameters\n----------", "Attributes\n----------")
