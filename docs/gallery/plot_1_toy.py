"""Two Gaussians, three apart: estimates in x and in z.

This is the motivating example of the paper: p = N(0, I) and q = N((3, 3), I), so log r(x) = 9 − 3 (x₁ + x₂). Each
panel shows estimated and true log r on held-out rows. The upper row has estimates in x, the lower row estimates in
the latent space (z) of one flow. The two samples hardly overlap. Trees and kernels use neighboring rows, and there
are hardly any between the samples. Here p and q are exactly Gaussian in x, so log r is linear in x. Logistic
regression, the network and telescoping are therefore more accurate in x. Boosting is about equally accurate in both.
Some estimates of logistic regression in z are beyond the panel.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure

from flowratio import FeaturizedRatio, FlowFeaturizer, OverlapWarning, plot_estimates
from flowratio.ratios.registry import new_ratio


def main(n: int = 2000) -> Figure:
    """Draw errors of four ratios, in x and in z."""
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(0, 1, (n, 2)), rng.normal(3, 1, (n, 2))
    X = np.concatenate([rng.normal(0, 1, (n, 2)), rng.normal(3, 1, (n, 2))])  # held-out rows
    truth = 9 - 3 * X.sum(axis=1)
    featurizer = FlowFeaturizer(random_state=0).fit(np.concatenate([X_p, X_q]))

    names = ["logistic", "mlp", "boosting", "telescoping"]
    figure = Figure(figsize=(13, 7), layout="constrained")
    panels = figure.subplots(2, len(names), sharex=True, sharey=True)
    errors = {}  # root mean square, in nats
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)  # expected here
        for name, (above, below) in zip(names, panels.T, strict=True):
            in_x = new_ratio(name, 0).fit_samples(X_p, X_q)
            in_z = FeaturizedRatio(name, features="z", base=None, featurizer=featurizer, random_state=0)
            in_z.fit_samples(X_p, X_q)
            for ratio, axes, space in ((in_x, above, "x"), (in_z, below, "z")):
                log_r = ratio.log_ratio(X)
                errors[name, space] = np.sqrt(np.mean((log_r - truth) ** 2))
                plot_estimates(log_r, truth, axes=axes)
                axes.set(title=f"{name} in {space}", xlim=(-26, 26), ylim=(-45, 70))
                axes.label_outer()
    if n >= 2000:  # the caption
        for name in ("logistic", "mlp", "telescoping"):
            np.testing.assert_array_less(errors[name, "x"], errors[name, "z"])
        np.testing.assert_allclose(errors["boosting", "x"], errors["boosting", "z"], rtol=0.2)
    return figure


if __name__ == "__main__":
    with matplotlib.style.context(Path(__file__).with_name("gallery.mplstyle")):
        main().savefig("plot_1_toy.png")
