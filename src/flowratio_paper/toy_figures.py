"""The figures of the toy problem: estimates against the truth, latent spaces, and the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from flowratio_paper.figure_style import BLUE, GRAY, LIGHT_GRAY, OF_P, OF_Q, legend_below, new_figure
from flowratio_paper.toy_fits import AUTO, LOGISTIC_X, LOGISTIC_Z, RAW, SEPARATE, X
from flowratio_paper.verdicts import with_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CUT = 40  # estimates beyond it are drawn at the edge
_NEAR = 5.0
_TITLE = "Estimated and true log r of 300 test rows\n(error: mean squared error on all test rows, ± standard error)"
_TITLES = {
    RAW: "network in raw x",
    X: "network in standardized x",
    SEPARATE: "network in z, separate",
    LOGISTIC_X: "logistic regression in x",
    LOGISTIC_Z: "logistic regression in z",
    AUTO: "AutoRatio",
}


def draw_estimates(log_r: Mapping[str, Any], truth: np.ndarray, errors: Mapping[str, np.ndarray]) -> Figure:
    """Draw estimates against the true log r, each (n,), with the mean squared error over seeds in each panel."""
    figure = new_figure(2.1 * -(-len(log_r) // 4) + 1.0, _TITLE)
    ends, is_near = [-22, 22], np.abs(truth) < _NEAR
    for axes, name in _panels(figure, list(log_r), shared=True):
        estimate = np.clip(log_r[name], -_CUT, _CUT)
        axes.plot(ends, ends, color=GRAY, linewidth=1, label="equal")
        axes.plot(truth[~is_near], estimate[~is_near], ".", color=LIGHT_GRAY, ms=4, label="|log r| of 5 or more")
        axes.plot(truth[is_near], estimate[is_near], ".", color=BLUE, ms=4, label="|log r| below 5")
        error = with_error(errors[name], ".3g", ".2g")
        axes.text(0.04, 0.96, f"error {error}", transform=axes.transAxes, va="top", fontsize=9, fontweight="bold")
        axes.set_ylim(-_CUT, _CUT)
        _label_bottom(axes, "true log r (nats)")
    figure.supylabel(f"estimated log r (nats), cut at ±{_CUT}")
    legend_below(figure, figure.axes[0], 3)
    return figure


def draw_encodings(rows: Mapping[str, np.ndarray]) -> Figure:
    """Draw rows (n, 2) of x and of the latent space of each method, those of p first."""
    figure = new_figure(2.1 * -(-len(rows) // 4) + 0.9, "Where the flow of each method moves the rows of p and q")
    for axes, name in _panels(figure, list(rows), shared=False):
        _scatter(axes, rows[name])
        _label_bottom(axes, "first coordinate")
    figure.supylabel("second coordinate of x or z")
    legend_below(figure, figure.axes[0], 2)
    return figure


def draw_data(rows: np.ndarray, log_r: np.ndarray, log_r_of_all: np.ndarray) -> Figure:
    """Draw test rows (n, 2), the same rows colored by log r (n,), and a histogram of log r of all test rows."""
    figure = new_figure(3.2)
    left, middle, right = figure.subplots(1, 3)
    _scatter(left, rows)
    legend_below(figure, left, 2)
    points = middle.scatter(*rows.T, c=log_r, cmap="cividis", s=14, linewidths=0)
    figure.colorbar(points, ax=middle, label="true log r (nats)")
    left.set(title="Two samples", xlabel="x₁", ylabel="x₂")
    middle.set(title="True log r", xlabel="x₁", ylabel="x₂")
    for part, color, name in zip(np.split(log_r_of_all, 2), (OF_P, OF_Q), ("rows of p", "rows of q"), strict=True):
        right.hist(part, bins=np.linspace(-30, 30, 41).tolist(), color=color, alpha=0.75, label=name)
    right.axvspan(-_NEAR, _NEAR, color=LIGHT_GRAY, alpha=0.4, linewidth=0)
    share = float(np.mean(np.abs(log_r_of_all) < _NEAR))
    title = f"{100 * share:.0f} % of test rows have\n|log r| below {_NEAR:g} (shaded)"
    right.set(title=title, xlabel="true log r (nats)", ylabel="test rows")
    return figure


def _panels(figure: Figure, names: list[str], shared: bool) -> Iterator[tuple[Axes, str]]:
    """Yield axes for each name, four in a row, with its title."""
    grid = figure.subplots(-(-len(names) // 4), 4, sharex=shared, sharey=shared, squeeze=False)
    for axes in grid.flat[len(names) :]:
        axes.set_axis_off()
    for axes, name in zip(grid.flat, names, strict=False):
        axes.set_title(_TITLES.get(name, name.replace("joint ", "joint, α = ")), fontsize=9.5)
        yield axes, name


def _label_bottom(axes: Axes, text: str) -> None:
    spec = axes.get_subplotspec()
    if spec is not None and spec.is_last_row():
        axes.set_xlabel(text, fontsize=9.5)


def _scatter(axes: Axes, rows: np.ndarray) -> None:
    of_p, of_q = np.split(rows, 2)
    axes.plot(*of_p.T, "o", color=OF_P, markersize=3, label="rows of p")
    axes.plot(*of_q.T, "^", color=OF_Q, markersize=3.5, label="rows of q")
