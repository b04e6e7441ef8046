"""The figures of docs/what-is-a-density-ratio.md: they can be drawn, and the page quotes their numbers."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scripts import loaded

from flowratio import FeaturizedRatio, FlowFeaturizer, OverlapWarning
from flowratio.ratios.registry import new_ratio

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "what-is-a-density-ratio.md").read_text(encoding="utf-8")
MAX_BYTES = 150_000


def script(name: str) -> ModuleType:
    return loaded(DOCS / "figures" / f"{name}.py")


def test_every_figure_of_the_page_has_a_function() -> None:
    names = re.findall(r"\(figures/([\w-]+)\.png\)", PAGE)
    assert names == list(script("density_ratio").FIGURES)
    for path in [DOCS / "latent-idea.png", *(DOCS / "figures").glob("*.png")]:
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size < MAX_BYTES, f"{path.name} is too large for the repository"


@pytest.mark.parametrize("name", ["two-histograms", "weighted-rows", "lost-overlap"])
def test_figures_are_drawn_and_labelled(name: str) -> None:
    figure = script("density_ratio").FIGURES[name]()
    assert all(axes.get_xlabel() and axes.get_title() for axes in figure.axes)
    figure.canvas.draw()


def test_effective_sample_sizes_of_the_figure_are_those_of_the_rows() -> None:
    titles = [axes.get_title() for axes in script("density_ratio").overlap_figure().axes]
    _, old = script("density_ratio").ages()
    for title, mean in zip(titles, (41, 51, 61), strict=True):
        w = np.exp((mean - 35) / 64 * (old - old.max()))
        assert title == f"Mean age {mean} in p: ESS {w.sum() ** 2 / np.sum(w**2):.0f} of 2000"


def test_true_ratio_of_the_banana_is_that_of_its_densities() -> None:
    """The mean of r over rows of q is 1, and r is 1 on the line that is drawn."""
    banana = script("latent_idea")
    X = banana.draw(100_000, np.zeros(2), 1.0, np.random.default_rng(0))
    assert np.exp(banana.true_log_ratio(X)).mean() == pytest.approx(1, abs=0.03)  # 4 standard errors
    np.testing.assert_allclose(banana.true_log_ratio(banana.equal_density()), 0, atol=1e-12)


def test_page_quotes_the_errors_in_x_and_in_z() -> None:
    """Kernels gain in latent space, boosted trees lose: the page has both."""
    banana, rng = script("latent_idea"), np.random.default_rng(0)
    figure = banana.main()
    sizes = [float(re.findall(r"error ([\d.]+)", axes.texts[0].get_text())[0]) for axes in figure.axes[2:]]
    q = (np.zeros(2), 1.0)
    X_p, X_q = banana.draw(2000, banana.MEAN, banana.STD, rng), banana.draw(2000, *q, rng)
    X = np.concatenate([banana.draw(2000, banana.MEAN, banana.STD, rng), banana.draw(2000, *q, rng)])
    featurizer = FlowFeaturizer(random_state=0).fit(np.concatenate([X_p, X_q]))
    trees = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)
        for ratio in (new_ratio("boosting", 0), FeaturizedRatio("boosting", featurizer=featurizer, random_state=0)):
            off = ratio.fit_samples(X_p, X_q).log_ratio(X) - banana.true_log_ratio(X)
            trees.append(float(np.sqrt(np.mean(off**2))))
    quoted = re.findall(r"error (?:is|of) ([\d.]+) nats\s+in x\s+and\s+([\d.]+)\s+nats\s+in z", PAGE.replace("\n", " "))
    assert len(quoted) == 3  # the description of the figure, kernels, trees
    for pair, errors in zip(quoted, (sizes, sizes, trees), strict=True):
        assert [float(error) for error in pair] == pytest.approx(errors, rel=0.1)  # other machines round differently
    assert sizes[1] < sizes[0]
    assert trees[1] > trees[0]
