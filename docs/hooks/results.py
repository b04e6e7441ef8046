"""Hook of mkdocs: the figures and tables of results/, for the pages that show or link them."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

RESULTS = Path(__file__).parents[2] / "results"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add figures and tables."""
    kinds = ("*-laptop*.png", "*-laptop.md", "*-paper.md", "latent-space.*")
    for path in sorted(path for kind in kinds for path in RESULTS.glob(kind)):
        files.append(File.generated(config, f"results/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **more: object) -> str:
    """Replace the paths by those on the site. The search does not show pages of tables."""
    if page.file.src_uri.startswith("results/"):
        page.meta["search"] = {"exclude": True}
    depth = page.file.src_uri.count("/")
    return markdown.replace(f"]({'../' * (depth + 1)}results/", f"]({'../' * depth}results/")
