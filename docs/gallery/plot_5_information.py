"""Mutual information and correlation.

Two blocks of five columns have pairwise correlation ρ, so I(X; Y) = −(5/2) log(1 − ρ²) nats. The columns are
transformed by exp, which does not change the mutual information. Bars are ±1.96 standard errors. `"qda"` has the
right form after Gaussianizing each column, and all its bars include the true value. `"boosting"` does not have the
right form, so its estimates are too low for ρ > 0. Open markers are estimates whose verdict is not *reliable*.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure

from flowratio import mutual_information


def main(n: int = 1500) -> Figure:
    """Draw estimates of mutual information and the true curve."""
    rng = np.random.default_rng(0)
    rhos = np.array([0.0, 0.3, 0.5, 0.7, 0.85])
    truth = -2.5 * np.log1p(-(rhos**2))
    figure = Figure(figsize=(6.5, 4.5), layout="constrained")
    axes = figure.add_subplot()
    excess = {"qda": [], "boosting": []}  # above the true value, in standard errors
    fine = np.linspace(0, 0.88, 200)
    axes.plot(fine, -2.5 * np.log1p(-(fine**2)), "--", color="black", label="true value")
    X, noise = rng.normal(size=(2, n, 5))
    for ratio, color, offset in (("qda", "C0", -0.006), ("boosting", "C1", 0.006)):
        for k, rho in enumerate(rhos):
            Y = np.exp(rho * X + np.sqrt(1 - rho**2) * noise)
            estimate = mutual_information(X, Y, ratio=ratio, n_folds=3, random_state=0)
            excess[ratio].append((estimate.value - truth[k]) / max(estimate.standard_error, 0.001))
            axes.errorbar(
                rho + offset,
                estimate.value,
                1.96 * estimate.standard_error,
                fmt="o",
                color=color,
                markerfacecolor=color if estimate.verdict == "reliable" else "white",
                capsize=3,
                label=ratio if k == 0 else None,
            )
    axes.set(xlabel="correlation ρ of each pair", ylabel="mutual information I(X; Y) (nats)")
    axes.set_ylim(-0.2, truth.max() + 0.5)
    axes.legend()
    if n >= 1500:  # the caption
        np.testing.assert_array_less(np.abs(excess["qda"]), 1.96)
        np.testing.assert_array_less(excess["boosting"][1:], 0)
    return figure


if __name__ == "__main__":
    with matplotlib.style.context(Path(__file__).with_name("gallery.mplstyle")):
        main().savefig("plot_5_information.png")
