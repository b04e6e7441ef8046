"""The style of all figures: color-blind safe colors (Okabe and Ito), and text that is readable 700 pixels wide."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLACK, GRAY, LIGHT_GRAY = "#000000", "#5f5f5f", "#b0b0b0"
ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE = "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7"
OF_P, OF_Q = BLUE, ORANGE
OF_SPACE = {"none": GRAY, "x": VERMILION, "z": BLUE, "z, our flow": GREEN}
MARKERS = {"none": "D", "x": "o", "z": "s", "z, our flow": "^"}
WIDTH = 8.0  # inches
_DPI = 130
_STYLE: Any = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.labelsize": 10,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10.5,
    "figure.dpi": _DPI,
    "figure.labelsize": 10,
    "figure.titlesize": 12,
    "font.size": 10,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.7,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "savefig.dpi": "figure",
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
}


def style() -> AbstractContextManager[None]:
    """Return a context in which matplotlib draws in this style. It restores the settings of the caller."""
    from matplotlib import rc_context

    return rc_context(_STYLE)


def new_figure(height: float, title: str = "") -> Figure:
    """Return a figure of the width of a page, with this height in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    if title:
        figure.suptitle(title)
    return figure


def legend_below(figure: Figure, axes: Axes, n_columns: int) -> None:
    """Draw one legend of all panels below them, where it hides nothing."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=n_columns)


def label_at_right(axes: Axes, labels: Sequence[tuple[float, str, str]], gap: float) -> None:
    """Write labels to the right of the axes, in order of their height, so that none hides another.

    Parameters
    ----------
    axes
        Axes of matplotlib.
    labels
        Height in data units, text and color of each.
    gap
        Smallest distance of two labels, in data units.
    """
    ordered = sorted(labels)
    heights = spread([height for height, _, _ in ordered], gap)
    for at, (height, text, color) in zip(heights, ordered, strict=True):
        axes.annotate(
            text,
            xy=(1.0, height),
            xytext=(1.06, at),
            xycoords=axes.get_yaxis_transform(),
            textcoords=axes.get_yaxis_transform(),
            color=color,
            va="center",
            fontsize=9.5,
            arrowprops={"arrowstyle": "-", "color": color, "lw": 0.7},
            annotation_clip=False,
        )


def spread(heights: Sequence[float], gap: float) -> np.ndarray:
    """Return ascending heights, moved as little as possible, with a distance of `gap` or more.

    Examples
    --------
    >>> spread([1.0, 1.0, 5.0], 1.0)
    array([0.5, 1.5, 5. ])
    """
    groups: list[tuple[float, int]] = []  # center and number of the labels that touch
    for height in heights:
        groups.append((float(height), 1))
        while len(groups) > 1 and groups[-1][0] - groups[-2][0] < gap * (groups[-1][1] + groups[-2][1]) / 2:
            (b, n_b), (a, n_a) = groups.pop(), groups.pop()
            groups.append(((a * n_a + b * n_b) / (n_a + n_b), n_a + n_b))
    return np.concatenate([center + gap * (np.arange(n) - (n - 1) / 2) for center, n in groups])
