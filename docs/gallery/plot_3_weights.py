"""Effective sample size and weighted means.

Rows of q = N(0, I) with four columns are weighted toward p, a shifted Gaussian. Left: the farther p is, the fewer
rows carry the weight. With the true ratio the effective sample size is n exp(−2 KL) on average. Rows of q alone
cannot show that hardly any of them lies where p is. At 4 nats they give an effective sample size above 10, and the
true one is below 2. `effective_sample_size_of_ratio` also uses rows of p, and follows the theory. Right: the mean of
the first column under p, from weights r and from smoothed, capped or tempered weights. From 1 nat on, all of them are
too low, and √r is lowest. At 3 nats the mean with weights r is more than 10 % too low, although k̂ is below 0.7.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure

from flowratio import (
    ClassifierRatio,
    OverlapWarning,
    cap,
    effective_sample_size,
    pareto_smooth,
    self_normalize,
    temper,
)
from flowratio.weights import effective_sample_size_of_ratio


def main(n: int = 2000) -> Figure:
    """Draw the effective sample size and weighted means over the distance of p and q."""
    rng = np.random.default_rng(0)
    X_q, ones = rng.normal(0, 1, (n, 4)), np.ones(n)
    divergences = np.array([0.0, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0])  # KL(p ‖ q)
    shifts = np.sqrt(2 * divergences / 4)  # of each of four columns
    changes = {
        "r": lambda log_r: log_r,
        "r, Pareto-smoothed": lambda log_r: pareto_smooth(log_r).log_w,
        "r, capped at √n": cap,
        "√r": lambda log_r: temper(log_r, 0.5),
    }
    draws, of_both, k_hat, means = [], [], [], {name: [] for name in changes}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)  # what this figure is about
        for shift in shifts:
            X_p = rng.normal(shift, 1, (n, 4))
            ratio = ClassifierRatio("logistic").fit_samples(X_p, X_q)
            log_r = ratio.log_ratio(X_q)
            of_both.append(effective_sample_size_of_ratio(ratio.log_ratio(X_p), ones, log_r, ones, n))
            draws.append(effective_sample_size(log_r))
            k_hat.append(pareto_smooth(log_r).k_hat)
            for name, change in changes.items():
                means[name].append(self_normalize(change(log_r)) @ X_q[:, 0])

    figure = Figure(figsize=(11, 4.3), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.semilogy(divergences, n * np.exp(-2 * divergences), "--", color="black", label="theory, n exp(−2 KL)")
    left.semilogy(divergences, draws, "o-", label="from rows of q")
    left.semilogy(divergences, of_both, "s-", label="from rows of p and q")
    for x, y, k in zip(divergences[4:], draws[4:], k_hat[4:], strict=True):
        left.annotate(f"k̂ {k:.1f}", (x, y), (4, 8), textcoords="offset points")
    left.set(xlabel="KL(p ‖ q) (nats)", ylabel=f"effective sample size of {n} rows", title="Effective sample size")
    left.set_xlim(-0.2, 4.6)
    left.legend()
    right.plot(divergences, shifts, "--", color="black", label="true mean")
    for (name, values), style in zip(means.items(), ["o-", "s-", "^-", "x-"], strict=True):
        right.plot(divergences, values, style, markersize=5, label=name)
    right.set(xlabel="KL(p ‖ q) (nats)", ylabel="mean (standard deviations)", title="Weighted mean of the first column")
    right.legend()
    if n >= 2000:  # the caption
        np.testing.assert_array_less([10, of_both[-1]], [draws[-1], 2])
        np.testing.assert_array_less([means[name][4:] for name in changes], np.tile(shifts[4:], (4, 1)))
        np.testing.assert_array_less([means["r"][7], k_hat[7]], [0.9 * shifts[7], 0.7])
        for name in list(changes)[:3]:
            np.testing.assert_array_less(means["√r"][4:], means[name][4:])
    return figure


if __name__ == "__main__":
    with matplotlib.style.context(Path(__file__).with_name("gallery.mplstyle")):
        main().savefig("plot_3_weights.png")
