"""The motivating example of the paper: p = N(0, I) and q = N((3, 3), I), whose log-ratio is known."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from flowratio._support.atomic import replacing
from flowratio._support.types import Matrix, Vector
from flowratio.diagnostics.plots import plot_estimates, plot_latent
from flowratio.ratios.auto.auto import AutoRatio
from flowratio.ratios.featurized.featurized import FeaturizedRatio
from flowratio.ratios.neural.network_ratio import NetworkRatio

SHIFT = 3.0  # mean of both columns of q, the mean of p is 0
NEAR = 5.0  # |log r| below which r is not extreme
CANDIDATES = ["logistic", "qda", "kliep", "boosting"]  # one of each fast family
_SHOWN = 1000  # rows of each sample in the figure


class Estimate(NamedTuple):
    """Log-ratios of new rows, (n,), with mean squared errors: of all rows, and of rows with |log r| below 5."""

    name: str
    log_r: Vector
    error: float
    error_near: float


def true_log_ratio(X: Matrix) -> Vector:
    """Return log r in closed form, (n, 2) to (n,): ½|x − m|² − ½|x|² with m = (3, 3), which is 9 − 3 (x1 + x2)."""
    return SHIFT**2 - SHIFT * X.sum(axis=1)


def estimates_of(rows: int, seed: int, figure: Path, verbose: bool) -> list[Estimate]:
    """Fit ratios to this many rows of p and q: in x, in latent space z, and by the automatic choice. Write a figure."""
    rng = np.random.default_rng(seed)
    X_p, X_q, *new_rows = (rng.normal(mean, 1, (rows, 2)) for mean in (0, SHIFT, 0, SHIFT))
    X = np.concatenate(new_rows)  # for the errors
    in_z = FeaturizedRatio("mlp", features="z", base=None, random_state=seed, verbose=verbose)  # as in the paper
    ratios = {
        "network in x": NetworkRatio("mlp", random_state=seed, verbose=verbose),
        "network in latent space z": in_z,
        "automatic choice": AutoRatio(CANDIDATES, time_budget=None, random_state=seed, verbose=verbose),
    }
    estimates = [_estimate(name, X, ratio.fit_samples(X_p, X_q).log_ratio(X)) for name, ratio in ratios.items()]
    _save_figure(X, in_z.featurizer_.transform(X), estimates, figure)
    return estimates


def _estimate(name: str, X: Matrix, log_r: Vector) -> Estimate:
    truth = true_log_ratio(X)
    squares = (log_r - truth) ** 2
    return Estimate(name, log_r, float(squares.mean()), float(squares[np.abs(truth) < NEAR].mean()))


def _save_figure(X: Matrix, Z: Matrix, estimates: list[Estimate], path: Path) -> None:
    """Plot the rows before and after the flow, and each estimate against the truth."""
    from matplotlib.figure import Figure

    n = len(X) // 2
    rows = np.concatenate([np.arange(min(n, _SHOWN)), n + np.arange(min(n, _SHOWN))])
    truth = true_log_ratio(X)[rows]
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    above, below = np.ravel(figure.subfigures(2, 1, squeeze=False))
    for axes, V, title in zip(above.subplots(1, 2), (X, Z), ("data x", "latent space z"), strict=True):
        plot_latent(V[rows], truth, axes)
        axes.set(title=title, xlabel="first column", ylabel="second column")
    for axes, estimate in zip(below.subplots(1, 3, sharex=True, sharey=True), estimates, strict=True):
        plot_estimates(estimate.log_r[rows], truth, NEAR, axes)
        axes.get_legend().remove()  # the title has the error
        axes.set(title=f"{estimate.name}\nerror {estimate.error:.3g} nats²")
        axes.label_outer()
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=130)
