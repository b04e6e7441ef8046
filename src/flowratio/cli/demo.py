"""The motivating example of the paper: p = N(0, I) and q = N((3, 3), I), whose log-ratio is known."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from flowratio._support.atomic import replacing
from flowratio._support.types import Matrix, Vector
from flowratio.diagnostics.plots import plot_estimates, plot_latent
from flowratio.ratios.auto.auto import AutoRatio
from flowratio.ratios.featurized.featurized import FeaturizedRatio
from flowratio.ratios.neural.network_ratio import NetworkRatio
from flowratio.report.model import Model, check_model_folder, fit_tables
from flowratio.report.page import write_report

SHIFT = 3.0  # mean of both columns of q, the mean of p is 0
NEAR = 5.0  # |log r| below which r is not extreme
_BUDGET = 30.0  # seconds of the automatic choice
_CANDIDATES = ["lda", "logistic", "qda", "kliep", "boosting", "mlp", "mlp in z", "kliep in z"]  # one of each family
_SHOWN = 1000  # rows of each sample in the figure


class Estimate(NamedTuple):
    """Log-ratios of new rows, (n,), with mean squared errors: of all rows, and of rows with |log r| below 5."""

    name: str
    log_r: Vector
    error: float
    error_near: float
    seconds: float


def true_log_ratio(X: Matrix) -> Vector:
    """Return log r in closed form, (n, 2) to (n,): ½|x − m|² − ½|x|² with m = (3, 3), which is 9 − 3 (x1 + x2)."""
    return SHIFT**2 - SHIFT * X.sum(axis=1)


def run_demo(out: Path, rows: int, seed: int, command: str, verbose: bool) -> tuple[list[Estimate], Model]:
    """Fit ratios in x, in z and by the automatic choice, and write the figure, the model and its page to a folder."""
    check_model_folder(out / "model")
    rng = np.random.default_rng(seed)
    X_p, X_q, *new_rows = (rng.normal(mean, 1, (rows, 2)) for mean in (0, SHIFT, 0, SHIFT))
    X = np.concatenate(new_rows)  # for the errors
    in_x = NetworkRatio("mlp", random_state=seed, verbose=verbose)
    in_z = FeaturizedRatio("mlp", random_state=seed, verbose=verbose)
    estimates = []
    for name, ratio in (("a network in x", in_x), ("the same network in z", in_z)):
        start = time.perf_counter()
        ratio.fit_samples(X_p, X_q)
        seconds = time.perf_counter() - start
        estimates.append(_estimate(name, X, ratio.log_ratio(X), seconds))
    files = ("N((0, 0), I)", "N((3, 3), I)")
    auto = AutoRatio(_CANDIDATES, n_folds=2, time_budget=_BUDGET)
    P, Q, table = (pl.DataFrame(sample, schema=["x1", "x2"]) for sample in (X_p, X_q, X))
    model = fit_tables(P, Q, auto, seed=seed, files=files, command=command, verbose=verbose)
    estimates.append(_estimate("AutoRatio", X, model.ratio.log_ratio(table), model.evidence["origin"]["seconds"]))
    model.save(out / "model")
    write_report(model.evidence, out / "report.html")
    _save_figure(X, in_z.featurizer_.transform(X), estimates, out / "ratios.png")
    return estimates, model


def _estimate(name: str, X: Matrix, log_r: Vector, seconds: float) -> Estimate:
    truth = true_log_ratio(X)
    squares = (log_r - truth) ** 2
    return Estimate(name, log_r, float(squares.mean()), float(squares[np.abs(truth) < NEAR].mean()), seconds)


def _save_figure(X: Matrix, Z: Matrix, estimates: list[Estimate], path: Path) -> None:
    """Plot the rows before and after the flow, and each estimate against the truth."""
    from matplotlib.figure import Figure

    n = len(X) // 2
    shown = np.concatenate([np.arange(min(n, _SHOWN)), n + np.arange(min(n, _SHOWN))])
    truth = true_log_ratio(X)[shown]
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    above, below = np.ravel(figure.subfigures(2, 1, squeeze=False))
    for axes, V, title in zip(above.subplots(1, 2), (X, Z), ("data x", "latent z"), strict=True):
        plot_latent(V[shown], truth, axes)
        axes.set(title=title, xlabel="first column", ylabel="second column")
    for axes, estimate in zip(below.subplots(1, 3, sharex=True, sharey=True), estimates, strict=True):
        plot_estimates(estimate.log_r[shown], truth, NEAR, axes)
        axes.get_legend().remove()  # the title has the error
        axes.set(title=f"{estimate.name}: error {estimate.error:.3g} nats²")
        axes.label_outer()
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=130)
