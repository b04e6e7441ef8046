"""Curved data before and after the flow.

Rows lie along a parabola: p to the right, q to the left. The true r = p/q is known. A flow that was trained on both
samples maps the rows to a round cloud. The dashed line is r = 1. The flow maps this line too, because the ratio of a
row x and of its code z is the same number. Right: the error of log r on held-out rows, for methods in x and in latent
space (z), on a logarithmic scale. Four of the five methods have a smaller error in z. The network (mlp) does not,
because it can follow the curve in x.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure

from flowratio import FeaturizedRatio, FlowFeaturizer, OverlapWarning
from flowratio.ratios.registry import new_ratio


def draw(n: int, mean: float, rng: np.random.Generator) -> np.ndarray:
    """Return rows of a bent Gaussian, of shape (n, 2)."""
    u, v = rng.normal(mean, 1, n), rng.normal(mean / 4, 0.3, n)
    return np.column_stack([u, u**2 + v])


def true_log_ratio(X: np.ndarray) -> np.ndarray:
    """Return log r between the means 0.6 and −0.6, (n, 2) to (n,): the bend cancels."""
    u, v = X[:, 0], X[:, 1] - X[:, 0] ** 2
    return 2 * 0.6 * u + 2 * 0.15 * v / 0.3**2


def main(n: int = 1500) -> Figure:
    """Draw rows in x and in z, and the errors of some ratios in both."""
    rng = np.random.default_rng(0)
    X_p, X_q = draw(n, 0.6, rng), draw(n, -0.6, rng)
    X = np.concatenate([draw(n, 0.6, rng), draw(n, -0.6, rng)])  # held-out rows
    featurizer = FlowFeaturizer(random_state=0).fit(np.concatenate([X_p, X_q]))

    figure = Figure(figsize=(11, 3.8), layout="constrained")
    first, second, third = figure.subplots(1, 3)
    across = np.linspace(-2.2, 2.2, 300)
    level = np.column_stack([across, across**2 - 4 * 0.3**2 * across])  # r = 1
    for axes, name, to in ((first, "x", np.asarray), (second, "z", featurizer.transform)):
        axes.plot(*to(X_p).T, "o", color="C0", markersize=1.5, label="p")
        axes.plot(*to(X_q).T, "+", color="C1", markersize=4, label="q", zorder=1.5)
        axes.plot(*to(level).T, "--", color="black", linewidth=2, label="r = 1")
        axes.set(title=f"Rows in {name}", xlabel=f"{name}₁", ylabel=f"{name}₂")
    first.legend(loc="upper center", markerscale=3)

    names = ["logistic", "kliep", "ulsif", "boosting", "mlp"]
    errors = np.empty((2, len(names)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)  # of ratios that are wrong
        for k, name in enumerate(names):
            in_z = FeaturizedRatio(name, features="z", base=None, featurizer=featurizer, random_state=0)
            for row, ratio in enumerate([new_ratio(name, 0), in_z]):
                off = ratio.fit_samples(X_p, X_q).log_ratio(X) - true_log_ratio(X)
                errors[row, k] = np.sqrt(np.mean(off**2))
    at = np.arange(len(names))
    for offset, row, style in ((-0.2, 0, {"color": "C2", "label": "in x"}), (0.2, 1, {"color": "C3", "label": "in z"})):
        bars = third.bar(at + offset, errors[row], 0.4, **style)
        third.bar_label(bars, fmt="%.2f", fontsize=7)
    third.set_xticks(at, names)
    third.set(title="Error of log r", ylabel="root mean squared error (nats)", yscale="log", ylim=(0.3, 12))
    third.legend()
    if n >= 1500:  # the caption
        np.testing.assert_array_less(errors[1, :4], errors[0, :4])
        np.testing.assert_array_less(0.9, errors[1, 4] / errors[0, 4])
    return figure


if __name__ == "__main__":
    with matplotlib.style.context(Path(__file__).with_name("gallery.mplstyle")):
        main().savefig("plot_2_latent.png")
