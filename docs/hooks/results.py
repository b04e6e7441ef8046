"""Hook of mkdocs: the figures of results/, for the pages that show them."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

RESULTS = Path(__file__).parents[2] / "results"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the figures."""
    for path in sorted(RESULTS.glob("*-laptop*.png")):
        files.append(File.generated(config, f"results/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, **more: object) -> str:
    """Replace the paths of the figures by those on the site."""
    return markdown.replace("](../results/", "](results/")
