"""Notebooks: figures, tables and progress in a fresh kernel, and the notebooks of the docs with their pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))
SETUP = """
import time
import numpy as np
import polars as pl
import flowratio as fr
from flowratio._support import progress as steps

rng = np.random.default_rng(0)
P, Q = (
    pl.DataFrame({"age": rng.normal(mean, 1, 200), "city<b>": rng.choice(["a", "b", None], 200)}) for mean in (0.5, 0)
)
treatment = rng.random(400) < 0.5
both = pl.concat([P, Q])
test = fr.two_sample_test(P, Q, n_permutations=19, random_state=0)
divergence = fr.divergence(P, Q, ratio="logistic", n_folds=2, random_state=0)
information = fr.mutual_information(P["age"], Q["age"], ratio="qda", n_folds=2, random_state=0)
effect = fr.average_effect(both, treatment, rng.normal(both["age"]), ratio="logistic", n_folds=2, random_state=0)
diagnosis = fr.diagnose("logistic", P, Q, n_folds=2, n_repeats=1, random_state=0)
ratio = fr.AutoRatio(["logistic", "lda"], random_state=0).fit_samples(P, Q)
"""
FIGURES = ["test", "divergence", "information", "effect", "diagnosis"]
TABLES = [*FIGURES, "test.drivers", "ratio.results_", "ratio", "fr.ClassifierRatio()", "fr.FeaturizedRatio()"]
PROGRESS = """
steps._SHORTEST, steps._NOTEBOOK_SECONDS = 0.0, 0.02
with steps.progress(2, "folds", True) as advance:
    advance()
    time.sleep(0.2)
    advance()
"""
INLINE = "import matplotlib.pyplot as plt\ntest.plot()"
DRAWN_INTO = "figure, axes = plt.subplots()\nfigure_of_axes = fr.plot_weights(diagnosis.log_w, axes)"


VERDICTS = {  # what the text of the notebooks claims
    "covariate-shift": ["<strong>Verdict: reliable.</strong>", "Verdict: do not use."],
    "drift": [
        "<strong>The files differ</strong> (p =",
        "<strong>Verdict: reliable.</strong>",
        "<strong>No difference found</strong> (p =",
    ],
    "mutual-information": ["<strong>Verdict: reliable.</strong>", "<strong>Verdict: use with care.</strong>"],
}


@pytest.fixture(scope="module")
def runs() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(NOTEBOOKS[0].parents[1] / "hooks"))
        yield import_module("notebook_runs")


@pytest.fixture(scope="module")
def outputs(runs: ModuleType) -> dict[str, list[Any]]:
    """The outputs of cells in a fresh kernel, by their code."""
    sources = [SETUP, *(f"{name}.plot()" for name in FIGURES), *TABLES, PROGRESS, INLINE, DRAWN_INTO]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    return {cell.source: cell.outputs for cell in runs.executed(notebook).cells}


def test_figures_are_shown_without_pyplot(outputs: dict[str, list[Any]]) -> None:
    for name in FIGURES:
        (output,) = outputs[f"{name}.plot()"]
        assert "image/png" in output.data, name


def test_figures_are_shown_once_with_pyplot(outputs: dict[str, list[Any]]) -> None:
    for source in (INLINE, DRAWN_INTO):
        (output,) = outputs[source]
        assert "image/png" in output.data, source


def test_results_and_estimators_are_tables(outputs: dict[str, list[Any]]) -> None:
    for name in TABLES:
        (output,) = outputs[name]
        assert "<table" in output.data["text/html"], name
        assert "city<b>" not in output.data["text/html"], name


def test_progress_is_a_line_without_a_warning(outputs: dict[str, list[Any]]) -> None:
    (output,) = outputs[PROGRESS]
    assert output.name == "stderr"
    assert output.text.split("\r")[-1].rstrip() == "2/2 folds"
    others = [one for source, cell in outputs.items() for one in cell if source != PROGRESS]
    assert not any(one.output_type == "stream" for one in others)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_without_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert 8 <= len(notebook.cells) <= 15
    assert not any(cell.outputs or cell.execution_count for cell in code)
    assert all(cell.metadata.get("alt") for cell in code if re.search(r"plot\w*\(", cell.source.splitlines()[-1]))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run_and_become_pages(runs: ModuleType, path: Path) -> None:
    notebook = runs.executed(nbformat.read(path, as_version=4))
    assert not any("Warning" in text for text in runs.error_texts(notebook))
    page, images = import_module("notebooks").page_of(notebook, path)
    assert page.startswith("# ")
    assert all(verdict in page for verdict in VERDICTS[path.stem])
    n_figures = sum("alt" in cell.metadata for cell in notebook.cells)
    assert len(images) == page.count("\n![") == n_figures >= 2
    assert not re.search(r"<(script|style|img)|style=|<(Notebook)?Figure", page)


def test_html_of_pages_is_plain(runs: ModuleType) -> None:
    plain = import_module("notebooks").plain_html
    html = "<style>td { color: red }</style><table border='1'><th scope='col' onclick='x'>a &lt; b</th></table><a>c</a>"
    expected = '<table><th scope="col">a &lt; b</th></table>c'
    assert plain(html) == f'<div class="notebook-output">{expected}</div>'
    assert not import_module("notebooks").is_table("<table></table><script></script>")


def test_a_stored_run_is_used_again(runs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "one.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# One")]), path)
    monkeypatch.setattr(runs, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(runs, "executed", lambda notebook: notebook)
    first = runs.stored_run(path)
    monkeypatch.setattr(runs, "executed", None)
    assert runs.stored_run(path) == first
