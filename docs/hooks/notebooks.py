"""Hook of mkdocs: execute every notebook of docs/notebooks/, and show it as a page with its outputs."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from library_files import ROOT
from notebook_runs import stored_run

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
TAGS = {"table", "caption", "thead", "tbody", "tr", "th", "td", "p", "strong", "ul", "li"}
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page, the images and the file of each notebook to the files of the site."""
    from mkdocs.structure.files import File

    for path in NOTEBOOKS:
        page, images = page_of(stored_run(path), path)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=page))
        for name, image in images.items():
            files.append(File.generated(config, f"notebooks/{name}", content=image))
    return files


def page_of(notebook: Any, path: Path) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as Markdown, and its images by name."""
    images: dict[str, bytes] = {}
    parts, heading = [], path.stem
    for cell in notebook.cells:
        heading = (HEADING.findall(cell.source) or [heading])[-1] if cell.cell_type == "markdown" else heading
        alt = cell.metadata.get("alt", heading)
        parts += [cell.source] if cell.cell_type == "markdown" else code_parts(cell, path.stem, alt, images)
        if len(parts) == 1:  # below the title
            parts.append(f"This page is a notebook with its outputs. [Download the notebook]({path.name}).")
    return "\n\n".join(parts) + "\n", images


def code_parts(cell: Any, stem: str, alt: str, images: dict[str, bytes]) -> Iterator[str]:
    """Yield the code of a cell and its outputs. Images are added to `images`."""
    yield fenced("py", cell.source)  # the blocks of other pages are fenced as `python` and run on their own
    for output in cell.outputs:
        if output.get("name") == "stderr":  # progress
            continue
        data = output.get("data", {})
        if "image/png" in data:
            name = f"{stem}-{len(images) + 1}.png"
            images[name] = base64.b64decode(data["image/png"])
            yield f"![{alt}]({name})"
        elif is_table(data.get("text/html", "")):
            yield plain_html(data["text/html"])
        elif text := data.get("text/plain") or output.get("text"):
            yield fenced('text title="Output"', text)


def fenced(language: str, text: str) -> str:
    """Return a block of code or of output."""
    return f"````{language}\n{text.rstrip()}\n````"


def is_table(html: str) -> bool:
    """Return whether an output is a table without scripts. Others are shown as text."""
    return "<table" in html and "<script" not in html


def plain_html(html: str) -> str:
    """Return the tables, lists and paragraphs of an output, without styles and any other attributes."""
    parser = PlainParser()
    parser.feed(html)
    parser.close()
    return f'<div class="notebook-output">{"".join(parser.parts)}</div>'


class PlainParser(HTMLParser):
    """Collect the text and the allowed tags of HTML. Of the attributes, only the scope of header cells stays."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.is_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.is_style = tag == "style"
        scope = dict(attrs).get("scope")
        if tag in TAGS:
            self.parts.append(f'<{tag} scope="{scope}">' if scope in ("row", "col") else f"<{tag}>")

    def handle_endtag(self, tag: str) -> None:
        self.is_style = False
        if tag in TAGS:
            self.parts.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if not self.is_style:
            self.parts.append(escape(data, quote=False).replace("\n", " "))
