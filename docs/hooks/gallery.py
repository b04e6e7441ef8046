"""Hook of mkdocs: run every script of the gallery, and put its words, its figure and its code on one page."""

from __future__ import annotations

import ast
import importlib.util
import warnings
from pathlib import Path
from typing import Any

import matplotlib.style
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "docs" / "gallery").glob("plot_*.py"))
STYLE = ROOT / "docs" / "gallery" / "gallery.mplstyle"
FIGURES = ROOT / "build" / "gallery"  # stays between builds
HEAD = """# Gallery

Click on a figure to see it in full size, with its description and code. The build of this page draws every figure, and
checks the numbers and comparisons in the descriptions. To draw one yourself, run `python docs/gallery/NAME.py`. It
writes `NAME.png` to the current folder.
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page and the figures of the gallery to the files of the site."""
    for script in SCRIPTS:
        files.append(File.generated(config, f"gallery/{script.stem}.png", abs_src_path=str(figure_of(script))))
    sources = {script.name: script.read_text(encoding="utf-8") for script in SCRIPTS}
    page = HEAD + thumbnails(sources) + "".join(section(name, source) for name, source in sources.items())
    files.append(File.generated(config, "gallery/index.md", content=page))
    return files


def thumbnails(sources: dict[str, str]) -> str:
    """Return a grid of small figures that link to their sections."""
    stems = {name.removesuffix(".py"): title_and_words(source)[0] for name, source in sources.items()}
    links = [f'<a href="#{stem}"><img src="{stem}.png" alt="">{title}</a>' for stem, title in stems.items()]
    return '\n<div class="thumbnails">\n' + "\n".join(links) + "\n</div>\n"


def title_and_words(source: str) -> tuple[str, str]:
    """Return the first line of a script's docstring, without its full stop, and the other lines."""
    title, _, words = (ast.get_docstring(ast.parse(source)) or "").partition("\n")
    return title.removesuffix("."), words


def section(name: str, source: str) -> str:
    """Return the part of the page that one script gets: its docstring, its figure, its code."""
    title, words = title_and_words(source)
    stem = name.removesuffix(".py")
    code = source.split('"""', 2)[2].strip()
    figure = f"[![{title}]({stem}.png)]({stem}.png)"
    return f'\n## {title} {{ #{stem} }}\n{words}\n\n{figure}\n\n??? example "{name}"\n\n{fenced(code)}\n'


def fenced(code: str) -> str:
    """Return code as a block inside a box that opens."""
    return "\n".join("    " + line for line in ["```python", *code.splitlines(), "```"])


def figure_of(script: Path) -> Path:
    """Return the path of a script's figure. Run the script if it, the style or the library is newer than the figure."""
    path = FIGURES / f"{script.stem}.png"
    newest = max(file.stat().st_mtime for file in [script, STYLE, *(ROOT / "src").rglob("*.py")])
    if not path.exists() or path.stat().st_mtime < newest:
        path.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings(), matplotlib.style.context(STYLE):
            warnings.simplefilter("error")
            loaded(script).main().savefig(path)
    return path


def loaded(script: Path) -> Any:
    """Import a script from its path, without running what stands under `__main__`."""
    spec = importlib.util.spec_from_file_location(script.stem, script)
    if spec is None or spec.loader is None:
        raise ImportError(f"{script} is no Python file.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
