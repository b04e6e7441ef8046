"""The figures of docs/what-is-a-density-ratio.md: run `python docs/figures/density_ratio.py` to draw them again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from flowratio import effective_sample_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

P, Q = "#1b4f9c", "#e08a3c"  # blue and orange: distinct for color-blind readers, and in grey
BINS = [*map(float, range(6, 96, 2))]  # years
OLD, NEW, STD = 35.0, 41.0, 8.0  # mean ages, and their standard deviation, in years


def ages(n: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Return the ages of the new file, p, and of the old file, q, each of shape (n,)."""
    rng = np.random.default_rng(0)
    old, new = rng.normal(OLD, STD, n), rng.normal(NEW, STD, n)
    return new, old


def true_log_ratio(age: np.ndarray, mean: float = NEW) -> np.ndarray:
    """Return log r of Gaussian ages, (n,) to (n,). The mean is that of the new file."""
    return (mean - OLD) / STD**2 * (age - (mean + OLD) / 2)


def draw_histograms(axes: Axes, new: np.ndarray, old: np.ndarray, weights: np.ndarray | None = None) -> None:
    """Draw the rows of both files for each bin of ages. The weights are those of the old file, with mean 1."""
    label = "old file (q)" if weights is None else "old file (q), weighted"
    axes.hist(old, BINS, weights=weights, color=Q, alpha=0.6, label=label)
    axes.hist(new, BINS, histtype="step", color=P, linewidth=2, label="new file (p)")
    axes.set(xlabel="age (years)", ylabel="rows per 2 years", xlim=(5, 75))
    axes.set_ylim(0, 1.3 * axes.get_ylim()[1])  # room for the legend
    axes.legend(frameon=False, loc="upper right")


def ratio_figure() -> Figure:
    """Draw two histograms, and their ratio on a logarithmic scale."""
    new, old = ages()
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_histograms(left, new, old)
    left.set_title("Two files: how many rows at each age?")
    n_new, n_old = (np.histogram(values, BINS)[0] for values in (new, old))
    has_both = (n_new > 0) & (n_old > 0)
    middle = np.array(BINS[:-1]) + 1
    quotient = n_new[has_both] / n_old[has_both]
    right.bar(middle[has_both], quotient - 1, 1.8, bottom=1, color=np.where(quotient > 1, P, Q), alpha=0.7)
    right.plot(middle, np.exp(true_log_ratio(middle)), color="black", label="true r")
    right.axhline(1, color="black", linewidth=1, linestyle=":")
    right.set(xlabel="age (years)", ylabel="density ratio r", yscale="log", ylim=(0.01, 100), xlim=(5, 75))
    right.set_yticks([0.01, 0.1, 1, 10], ["0.01", "0.1", "1", "10"])
    right.set_title("Their ratio: rows of p divided by rows of q")
    right.text(7, 12, "above 1:\nmore common in p", color=P)
    right.text(42, 0.1, "below 1:\nmore common in q", color="#a84a00")
    right.legend(frameon=False, loc="lower right")
    return figure


def weights_figure() -> Figure:
    """Draw the old file before and after weighting."""
    new, old = ages()
    w = np.exp(true_log_ratio(old))
    w /= w.mean()
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    draw_histograms(left, new, old)
    draw_histograms(right, new, old, w)
    left.set_title(f"Before: mean age {old.mean():.1f} in q, {new.mean():.1f} in p")
    right.set_title(f"After: weighted mean age {np.average(old, weights=w):.1f} in q, {new.mean():.1f} in p")
    left.set_ylim(0, 290)
    right.label_outer()
    return figure


def overlap_figure() -> Figure:
    """Draw the weighted old file for new files that are farther and farther away."""
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    rng = np.random.default_rng(1)
    _, old = ages()
    for axes, mean in zip(figure.subplots(1, 3), (41.0, 51.0, 61.0), strict=True):
        log_w = true_log_ratio(old, mean)
        w = np.exp(log_w - log_w.max())
        axes.hist(old, BINS, histtype="step", color="#a84a00", linestyle=":", linewidth=1.5, label="old file (q)")
        draw_histograms(axes, rng.normal(mean, STD, len(old)), old, w / w.mean())
        ess = f"ESS {effective_sample_size(log_w):.0f} of {len(old)}"
        axes.set(title=f"Mean age {mean:.0f} in p: {ess}", xlim=(5, 95))
    return figure


FIGURES = {"two-histograms": ratio_figure, "weighted-rows": weights_figure, "lost-overlap": overlap_figure}

if __name__ == "__main__":
    for name, figure in FIGURES.items():
        figure().savefig(Path(__file__).with_name(f"{name}.png"), dpi=110)
