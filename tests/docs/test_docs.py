"""README and docs: every Python block runs, every command exists, every public name is in the reference."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import typer.main
from matplotlib.figure import Figure

import flowratio
from flowratio.cli import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
SCRIPTS = sorted((DOCS / "gallery").glob("plot_*.py"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run_in_order(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Top to bottom in one namespace, in an empty folder."""
    text = page.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    blocks = list(BLOCK.finditer(text))
    assert len(blocks) == text.count("```python") > 0
    namespace: dict[str, object] = {"__name__": page.stem}
    for block in blocks:
        # blank lines in front: a traceback gives the line of the page
        source = "\n" * text.count("\n", 0, block.start(1)) + block[1]
        exec(compile(source, str(page), "exec"), namespace)  # noqa: S102


def commands(page: Path) -> Iterator[list[str]]:
    """Yield the words after `flowratio` of each command on a page, up to a pipe."""
    for block in CONSOLE.findall(page.read_text(encoding="utf-8")):
        for line in re.sub(r"\n +", " ", block).splitlines():
            words = shlex.split(line.replace("[", " ").replace("]", " "), comments=True)
            if words[:2] == ["$", "flowratio"]:
                yield words[2 : words.index("|") if "|" in words else None]


def test_commands_and_their_options_exist() -> None:
    known = typer.main.get_group(app).commands
    found = [(page.name, words) for page in PAGES for words in commands(page)]
    assert {words[0] for _, words in found} == set(known)  # and none is left out
    for page, (name, *words) in found:
        options = {option for parameter in known[name].params for option in parameter.opts}
        used = {word for word in words if word.startswith("-") and word != "-"}
        assert used <= options, f"{page}: {name}"


def test_reference_has_every_public_name_in_the_order_of_the_path() -> None:
    pages = re.findall(r"api/\w+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    names = [name for page in pages for name in re.findall(r"^::: (.*)$", (DOCS / page).read_text(), re.MULTILINE)]
    assert names == [f"flowratio.{name}" for name in flowratio.__all__]


def loaded(script: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(script.stem, script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_gallery_scripts_run(script: Path) -> None:
    """On few rows: that they draw something; the build draws them in full."""
    figure = loaded(script).main(n=100)
    assert isinstance(figure, Figure)
    assert all(axes.has_data() for axes in figure.get_axes())
