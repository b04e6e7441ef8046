"""The figure docs/latent-idea.png: run `python docs/figures/latent_idea.py` to draw it again.

Rows lie along a parabola, as in the problem "banana" of results/accuracy.md: p to the right, q around 0. The true
r = p/q is known. Above: the rows in x, and in the latent space (z) of a flow. Below: estimated against true log r on
held-out rows, for the same method (KLIEP, a sum of kernels) in x and in z.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from flowratio import KLIEP, FeaturizedRatio, FlowFeaturizer, OverlapWarning

if TYPE_CHECKING:
    from matplotlib.axes import Axes

P, Q, LINE = "#1b4f9c", "#e08a3c", "black"
MEAN, STD = np.array([1.0, -1.0]), 0.7  # of p before it is bent. q has mean 0 and standard deviation 1


def draw(n: int, mean: np.ndarray, std: float, rng: np.random.Generator) -> np.ndarray:
    """Return rows of a bent Gaussian, of shape (n, 2)."""
    return bent(mean + std * rng.standard_normal((n, 2)))


def true_log_ratio(X: np.ndarray) -> np.ndarray:
    """Return log r, (n, 2) to (n,): that of the Gaussians before they are bent."""
    u = np.column_stack([X[:, 0], X[:, 1] - X[:, 0] ** 2 + 1])
    return 0.5 * (u**2).sum(axis=1) - 0.5 * (((u - MEAN) / STD) ** 2).sum(axis=1) - 2 * np.log(STD)


def equal_density() -> np.ndarray:
    """Return rows where r = 1, of shape (300, 2): a circle that is bent."""
    center = MEAN / (1 - STD**2)  # log r is quadratic, with its maximum there
    radius = np.sqrt(2 * true_log_ratio(bent(center[None]))[0] / (1 / STD**2 - 1))
    angle = np.linspace(0, 2 * np.pi, 300)
    return bent(center + radius * np.column_stack([np.cos(angle), np.sin(angle)]))


def bent(U: np.ndarray) -> np.ndarray:
    """Bend rows, (n, 2) to (n, 2)."""
    return np.column_stack([U[:, 0], U[:, 1] + U[:, 0] ** 2 - 1])


def main(n: int = 2000) -> Figure:
    """Draw rows and estimates in x and in z."""
    rng = np.random.default_rng(0)
    X_p, X_q = draw(n, MEAN, STD, rng), draw(n, np.zeros(2), 1.0, rng)
    X = np.concatenate([draw(n, MEAN, STD, rng), draw(n, np.zeros(2), 1.0, rng)])  # held-out rows
    featurizer = FlowFeaturizer(random_state=0).fit(np.concatenate([X_p, X_q]))
    in_z = FeaturizedRatio(KLIEP(random_state=0), featurizer=featurizer, random_state=0)
    figure = Figure(figsize=(8, 7.4), layout="constrained")
    above, below = figure.subplots(2, 2)
    draw_rows(above[0], X_p, X_q, equal_density(), "x", "In x the rows lie on a curve")
    Z_p, Z_q, line = (featurizer.transform(rows) for rows in (X_p, X_q, equal_density()))
    draw_rows(above[1], Z_p, Z_q, line, "z", "In latent space (z) they are round")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)
        for axes, ratio, space in ((below[0], KLIEP(random_state=0), "x"), (below[1], in_z, "z")):
            draw_estimates(axes, ratio.fit_samples(X_p, X_q).log_ratio(X), true_log_ratio(X), space)
    return figure


def draw_rows(axes: Axes, p: np.ndarray, q: np.ndarray, line: np.ndarray, name: str, title: str) -> None:
    """Draw rows of p and q, and the line r = 1."""
    some = slice(400)  # more hide each other
    axes.plot(*q[some].T, "o", color=Q, markersize=2.5, alpha=0.7, label="q")
    axes.plot(*p[some].T, "+", color=P, markersize=4, label="p")
    axes.plot(*line.T, color=LINE, linewidth=1.5, label="r = 1")
    low, high = np.quantile(np.concatenate([p, q]), [0.002, 0.998], axis=0)
    axes.set(title=title, xlabel=f"{name}₁", ylabel=f"{name}₂", xlim=(low[0] - 0.5, high[0] + 0.5))
    axes.set_ylim(low[1] - 0.5, high[1] + 0.25 * (high[1] - low[1]))  # room for the legend
    axes.legend(loc="upper center", ncols=3, markerscale=2)


def draw_estimates(axes: Axes, log_r: np.ndarray, truth: np.ndarray, space: str) -> None:
    """Draw estimated against true log r, and print the error."""
    error = np.sqrt(np.mean((log_r - truth) ** 2))
    axes.plot(truth[::3], log_r[::3], "o", color="0.35", markersize=2, alpha=0.6)
    axes.plot([-19, 4], [-19, 4], color=LINE, linewidth=1, linestyle="--", label="exact")
    axes.text(0.04, 0.8, f"error {error:.2f} nats\n(root mean square)", transform=axes.transAxes, weight="bold")
    axes.set(title=f"KLIEP in {space}", xlabel="true log r (nats)", ylabel="estimated log r (nats)")
    axes.set(xlim=(-19, 4), ylim=(-19, 4))
    axes.legend(frameon=False, loc="lower right")


if __name__ == "__main__":
    main().savefig(Path(__file__).parents[1] / "latent-idea.png", dpi=100)
