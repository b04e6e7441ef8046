"""The figures of Lemma 1 and its corollaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from flowratio_paper.figure_style import BLUE, GRAY, GREEN, OF_SPACE, ORANGE, VERMILION, legend_below, new_figure
from flowratio_paper.verdicts import standard_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TITLES = {"kliep": "KLIEP", "mlp": "network", "boosting": "boosted trees", "quadratic": "quadratic logistic"}


def draw_maps(runs: Mapping[str, Sequence[Mapping[str, Any]]], control: str) -> Figure:
    """Draw log r in z against log r in x for each map. The control is not invertible."""
    n_columns = -(-len(runs) // 2)
    figure = new_figure(5.0, "An invertible map does not change log r")
    grid = figure.subplots(2, n_columns, sharex=True, sharey=True)
    for axes, (name, results) in zip(grid.flat, runs.items(), strict=True):
        first, worst = results[0], max(one["float64"] for one in results)
        ends = [min(first["in_x"]), max(first["in_x"])]
        axes.plot(ends, ends, color=GRAY, linewidth=1)
        color = VERMILION if name == control else BLUE
        axes.plot(first["in_x"], first["in_z"], "o", color=color, mfc="none", ms=4)
        axes.set_title(f"{name}\nlargest difference {worst:.2g}", fontsize=9.5)
    for axes in grid[-1]:
        axes.set_xlabel("log r in x (nats)")
    figure.supylabel("log r in z (nats)")
    return figure


def draw_bias(
    panels: Mapping[str, tuple[Mapping[str, tuple[np.ndarray, np.ndarray]], float]], r: np.ndarray, n: int
) -> Figure:
    """Draw the mean of estimate / r with two standard errors by cell and space, and its exact value.

    Parameters
    ----------
    panels
        By title: the means and standard errors, (17,) each, of each space, and the exact mean.
    r
        Ratio of each cell, of shape (16,).
    n
        Rows of each sample.
    """
    figure = new_figure(4.2, f"Counts in 16 cells, {n} rows of each sample (bars: two standard errors)")
    row = figure.subplots(1, len(panels), sharey=True)
    for axes, (title, (by_space, exact)) in zip(row, panels.items(), strict=True):
        looks = zip(by_space.items(), "os^", (VERMILION, BLUE, GREEN), strict=True)
        for k, ((space, (mean, error)), marker, color) in enumerate(looks):
            at = r + 0.035 * (k - 1)  # side by side: the values are the same
            axes.errorbar(at, mean[:-1], 2 * error[:-1], fmt=marker, color=color, ms=4, lw=1, label=space)
        axes.axhline(1, color=GRAY, linewidth=1, label="no bias")
        axes.axhline(exact, color=ORANGE, linestyle="--", linewidth=1.2, label="exact mean")
        axes.set(title=title, xlabel="true r in the cell")
    row[0].set_ylabel("mean estimate / true r")
    legend_below(figure, row[0], 3)
    return figure


def draw_consistency(errors: Mapping[str, Mapping[str, np.ndarray]], sizes: Sequence[int], near: float) -> Figure:
    """Draw errors of log r against n, (runs, sizes) by method and space, with the slope of each line."""
    figure = new_figure(3.6, f"Error of log r against the number of rows (test rows with |log r| below {near:g})")
    row = np.atleast_1d(figure.subplots(1, len(errors), sharey=True))
    for axes, (method, by_space) in zip(row, errors.items(), strict=True):
        for (space, values), marker in zip(by_space.items(), "os", strict=True):
            power = np.polyfit(np.log(sizes), np.log(values).T, 1)[0].mean()
            bars = standard_error(values) if len(values) > 1 else None
            label = f"{space}: n to the power {power:.2f}"
            color = OF_SPACE[space]
            axes.errorbar(sizes, values.mean(axis=0), bars, fmt=f"{marker}-", color=color, ms=4.5, label=label)
        axes.set(xscale="log", yscale="log", xlabel="rows of each sample", title=_TITLES.get(method, method))
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), fontsize=9, handlelength=1.2)
    row[0].set_ylabel("mean squared error\nof log r (nats²)")
    return figure
