"""The figures of mutual information: estimates against epochs, and against correlation and dimension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flowratio_paper.figure_style import (
    BLACK,
    BLUE,
    GRAY,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    label_at_right,
    legend_below,
    new_figure,
)
from flowratio_paper.information_runs import truth

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLORS = {"baseline": VERMILION, "separate": BLUE, "discriminative": PURPLE}
_OTHER_COLORS = (SKY, GREEN, ORANGE)


@dataclass(frozen=True)
class Curves:
    """Estimates over epochs, of some runs with the same settings.

    Parameters
    ----------
    label
        Label in the figure.
    way
        Way of training, which decides the color.
    line
        Style of the line.
    runs
        Results with "epochs", "curve", "kept_epoch" and "nats".
    """

    label: str
    way: str
    line: str
    runs: Sequence[Mapping[str, Any]]


def draw_epochs(panels: Mapping[str, Sequence[Curves]], exact: float) -> Figure:
    """Draw estimates against epochs: the mean over runs as a line, each best epoch as a point, labels at the right."""
    figure = new_figure(5.0, "Mutual information during training [paper: last epoch of its figure]")
    row = figure.subplots(1, len(panels), sharey=True)
    highest = max(max(one["curve"]) for groups in panels.values() for group in groups for one in group.runs)
    for axes, (name, groups) in zip(row, panels.items(), strict=True):
        labels = [_draw_group(axes, group, k) for k, group in enumerate(groups)]
        axes.axhline(exact, color=BLACK, lw=1.2)
        axes.set(
            title=name, xlabel="epoch (line: mean of runs,\npoints: best epoch of each run)", ylim=(0, 1.05 * highest)
        )
        label_at_right(axes, [*labels, (exact, f"true value {exact:.1f}", BLACK)], 0.055 * highest)
    row[0].set_ylabel("estimate (nats)")
    return figure


def _draw_group(axes: Axes, group: Curves, k: int) -> tuple[float, str, str]:
    """Draw the runs of a group, and return the height, text and color of their label."""
    color = _COLORS.get(group.way, _OTHER_COLORS[k % len(_OTHER_COLORS)])
    mean = np.mean([one["curve"] for one in group.runs], axis=0)
    axes.plot(group.runs[0]["epochs"], mean, group.line, color=color)
    for one in group.runs:
        axes.plot(one["kept_epoch"], one["nats"], "o", color=color, ms=5.5, mec="white", mew=0.6)
    return float(mean[-1]), group.label, color


def draw_over_problems(
    points: Sequence[tuple[Mapping[str, Any], np.ndarray, np.ndarray]], columns: int, correlation: float
) -> Figure:
    """Draw estimates over ρ and over d, and their distance from the true value in standard errors.

    Parameters
    ----------
    points
        Task, estimates and distances, of shape (n_runs,) each, of every problem.
    columns, correlation
        d of the problems over ρ, and ρ of those over d.
    """
    figure = new_figure(5.6, 'mutual_information(…, ratio="qda") on Gaussian data')
    grid = figure.subplots(2, 2, sharex="col", sharey="row", height_ratios=(2, 1))
    panels = (("correlation", "columns", columns), ("columns", "correlation", correlation))
    for (upper, lower), (along, other, value) in zip(grid.T, panels, strict=True):
        ones = sorted((one for one in points if one[0][other] == value), key=lambda one: one[0][along])
        at = np.array([task[along] for task, _, _ in ones])
        fine = np.linspace(at[0], at[-1], 300)
        exact = [truth(columns, rho) for rho in fine] if along == "correlation" else truth(1, value) * fine
        upper.plot(fine, exact, "-", color=BLACK, lw=1.2, label="true value")
        means = [nats.mean() for _, nats, _ in ones]
        upper.plot(at, means, "o", color=BLUE, ms=6, label=f"mean of {len(ones[0][1])} runs")
        scores = np.array([one for _, _, one in ones])  # (points, runs)
        lower.plot(np.repeat(at, scores.shape[1]), scores.ravel(), "_", color=BLUE, ms=8, mew=1.4)
        lower.axhline(0, color=BLACK, lw=1)
        for limit in (-2, 2):
            lower.axhline(limit, color=GRAY, lw=1, linestyle=":")
        name = {"correlation": f"correlation ρ (d = {value})", "columns": f"dimension d (ρ = {value})"}[along]
        lower.set_xlabel(name)
    grid[0, 0].set_ylabel("mutual information (nats)")
    grid[1, 0].set_ylabel("error of each run\n(standard errors)")
    legend_below(figure, grid[0, 0], 2)
    return figure
