"""Hook of mkdocs: the reference lists the public names of the package, which are written in the package alone."""

from __future__ import annotations

import re
from pathlib import Path

import flowratio
from flowratio._support.lazy import public_names

MARK = re.compile(r"^<!-- names of: (.*) -->$", re.MULTILINE)


def expanded(markdown: str) -> str:
    """Replace `<!-- names of: stages -->` by an entry for each public name of these stages."""
    return MARK.sub(lambda mark: "\n\n".join(f"::: {path}" for path in paths_of(mark[1].split())), markdown)


def paths_of(stages: list[str]) -> list[str]:
    """Return the public names of some stages, each with its module, in the order of the path."""
    modules = public_names(Path(flowratio.__file__))
    return [f"{module}.{name}" for name, module in modules.items() if module.split(".")[1] in stages]


def on_page_markdown(markdown: str, **more: object) -> str:
    """Expand the marks of a page."""
    return expanded(markdown)
