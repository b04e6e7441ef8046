"""Two normal laws, three apart: estimates in x and in z beside the truth.

The motivating example of the paper: p = N(0, I) and q = N((3, 3), I), so that log r(x) = 9 − 3 (x₁ + x₂) in closed
form. Each panel shows estimated against true log r on fresh rows, for one method in x (above) and in the latent space
of one flow (below). The two samples hardly overlap, and methods that look at neighbours only, such as trees and
kernels, have nothing to go by between them. Here p and q are exactly normal in x: a method that assumes so is hard to
beat, and loses by the detour through z.
"""

from __future__ import annotations

import warnings

import numpy as np
from matplotlib.figure import Figure

from flowratio import FeaturizedRatio, FlowFeaturizer, OverlapWarning, plot_estimates
from flowratio.ratios.registry import new_ratio


def main(n: int = 2000) -> Figure:
    """Draw errors of four ratios, in x and in z."""
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(0, 1, (n, 2)), rng.normal(3, 1, (n, 2))
    X = np.concatenate([rng.normal(0, 1, (n, 2)), rng.normal(3, 1, (n, 2))])  # fresh rows
    truth = 9 - 3 * X.sum(axis=1)
    featurizer = FlowFeaturizer(random_state=0).fit(np.concatenate([X_p, X_q]))

    names = ["logistic", "mlp", "boosting", "telescoping"]
    figure = Figure(figsize=(13, 7), layout="constrained")
    panels = figure.subplots(2, len(names), sharex=True, sharey=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)  # it is right, and known here
        for name, (above, below) in zip(names, panels.T, strict=True):
            in_x = new_ratio(name, 0).fit_samples(X_p, X_q)
            in_z = FeaturizedRatio(name, featurizer=featurizer, random_state=0).fit_samples(X_p, X_q)
            for ratio, axes, space in ((in_x, above, "x"), (in_z, below, "z")):
                plot_estimates(ratio.log_ratio(X), truth, axes=axes)
                axes.set_title(f"{name} in {space}")
                axes.label_outer()
    return figure


if __name__ == "__main__":
    main().savefig("plot_1_toy.png")
