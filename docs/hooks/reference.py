"""Hook of mkdocs: the reference lists the public names of the package, which are written in the package alone."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import flowratio
from flowratio._support.lazy import public_names

API = Path(__file__).parents[1] / "api"
MARK = re.compile(r"^<!-- names of: (.*) -->$", re.MULTILINE)
SUMMARY = re.compile(r"^<!-- summary of: (\w+\.md) -->$", re.MULTILINE)


def expanded(markdown: str) -> str:
    """Replace each mark of a page.

    `<!-- names of: stages -->` becomes an entry for each public name of these stages. `<!-- summary of: page -->`
    becomes a table of the names on that page, with one line for each.
    """
    markdown = SUMMARY.sub(lambda mark: summary(mark[1]), markdown)
    return MARK.sub(lambda mark: "\n\n".join(f"::: {path}" for path in paths_of(mark[1].split())), markdown)


def paths_of(stages: list[str]) -> list[str]:
    """Return the public names of some stages, each with its module, in the order of the path."""
    modules = public_names(Path(flowratio.__file__))
    return [f"{module}.{name}" for name, module in modules.items() if module.split(".")[1] in stages]


def summary(page: str) -> str:
    """Return a table with name, link and first docstring line of each public name on a page of the reference."""
    marks = MARK.findall((API / page).read_text(encoding="utf-8"))
    paths = [path for mark in marks for path in paths_of(mark.split())]
    rows = [f"| [`{name_of(path)}`]({page}#{path}) | {first_line(name_of(path))} |" for path in paths]
    return "\n".join(["| name | what it is |", "|---|---|", *rows])


def name_of(path: str) -> str:
    """Return the last part of a dotted path."""
    return path.rpartition(".")[2]


def first_line(name: str) -> str:
    """Return the first line of the docstring of a public name, as the text of a table cell."""
    line = (inspect.getdoc(getattr(flowratio, name)) or "").partition("\n")[0]
    return re.sub(r" \[\d+\]_", "", line).replace("|", "\\|")  # without citations


def on_page_markdown(markdown: str, **more: object) -> str:
    """Expand the marks of a page."""
    return expanded(markdown)
