"""Figures of the committed results: labels, visible series, one style."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flowratio_paper import NAMES
from flowratio_paper.figure_style import spread, style
from flowratio_paper.running import Outcome, experiment

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module", params=NAMES)
def figures(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Figure]:
    return drawn(request.param, tmp_path_factory.mktemp("empty"))


def drawn(name: str, folder: Path) -> dict[str, Figure]:
    content = json.loads((RESULTS / f"{name}-laptop.json").read_text(encoding="utf-8"))
    module = experiment(name)
    settings = replace(module.PRESETS["laptop"], seeds=content["settings"]["seeds"])
    by_task = {json.dumps(run["task"]): Outcome(**run) for run in content["runs"]}
    outcomes = [by_task[json.dumps(task)] for task in module.tasks(settings)]
    with style():
        return module.draw(settings, outcomes, folder)


def visible(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.axison and axes.get_label() != "<colorbar>"]


def test_every_axis_has_a_label_and_every_figure_a_title(figures: dict[str, Figure]) -> None:
    for part, figure in figures.items():
        panels = visible(figure)
        titles = [figure.get_suptitle(), *(axes.get_title() for axes in panels)]
        assert any(titles), part
        bottom = [axes for axes in panels if (spec := axes.get_subplotspec()) is None or spec.is_last_row()]
        assert all(axes.get_xlabel() for axes in bottom), part
        left = [axes for axes in panels if (spec := axes.get_subplotspec()) is None or spec.is_first_col()]
        assert figure.get_supylabel() or all(axes.get_ylabel() for axes in left), part


def test_panels_of_errors_share_their_range(tmp_path: Path) -> None:
    for name in ("breast-cancer", "transfusion-wine"):
        (figure,) = drawn(name, tmp_path).values()
        assert len({(axes.get_ylim(), axes.get_yscale()) for axes in visible(figure)}) == 1, name


def test_no_series_of_mnist_hides_another(tmp_path: Path) -> None:
    for axes in drawn("mnist", tmp_path)[""].axes:
        methods = [bars.lines[0].get_xdata() for bars in axes.containers]  # pyright: ignore[reportAttributeAccessIssue]
        positions = np.concatenate(methods)
        assert len(methods) == 4
        assert np.diff(np.sort(positions)).min() > 0.15


def test_each_panel_of_the_toy_problem_has_the_error_of_the_table(tmp_path: Path) -> None:
    content = json.loads((RESULTS / "toy-laptop.json").read_text(encoding="utf-8"))
    cells = [cell for table in (content["tables"][0], content["tables"][2]) for line in table["lines"] for cell in line]
    texts = [text.get_text() for axes in visible(drawn("toy", tmp_path)[""]) for text in axes.texts]
    assert len(texts) == 12
    for text in texts:
        assert any(cell.startswith(text.removeprefix("error ")) for cell in cells), text


def test_labels_are_spread_and_keep_their_order() -> None:
    heights = spread([0.0, 0.1, 0.2, 5.0, 5.05], 1.0)
    assert np.diff(heights).min() >= 1 - 1e-12
    assert heights[:3].mean() == pytest.approx(0.1)
    assert spread([1.0, 3.0], 1.0).tolist() == [1.0, 3.0]


def test_the_style_is_restored() -> None:
    before = mpl.rcParams.copy()
    with style():
        assert mpl.rcParams["axes.grid"]
    assert mpl.rcParams == before
