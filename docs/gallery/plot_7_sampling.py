"""New rows of p or of q from one flow.

The flow was trained on both samples without labels: p is the upper moon and q the lower one. A ratio in latent space
weights the codes of new rows, toward p or toward q. Only the selected codes are decoded. The moons hardly overlap,
but the weights p/h of rows of the mixture h are bounded, unlike r. Rows between the moons are errors of the flow. A
ratio cannot fix rows where neither sample is.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import matplotlib.style
from matplotlib.figure import Figure
from sklearn.datasets import make_moons

from flowratio import FeaturizedRatio, FlowFeaturizer, OverlapWarning, TargetedSampler


def main(n: int = 2000) -> Figure:
    """Draw the two samples, and new rows toward each."""
    X, moon = make_moons(2 * n, noise=0.12, random_state=0)
    X_p, X_q = X[moon == 0], X[moon == 1]
    flow = FlowFeaturizer(flow="spline", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)
        ratio = FeaturizedRatio("boosting", featurizer=flow, random_state=0).fit_samples(X_p, X_q)
    sampler = TargetedSampler(ratio, random_state=0)

    figure = Figure(figsize=(13, 3.6), layout="constrained")
    panels = figure.subplots(1, 4, sharex=True, sharey=True)
    panels[0].plot(*X_p[:800].T, "o", color="C0", markersize=2, label="p")
    panels[0].plot(*X_q[:800].T, "+", color="C1", markersize=4, label="q")
    panels[0].set_title("Two samples")
    panels[0].legend(loc="upper right", markerscale=2)
    titles = {None: "New rows of the flow", "p": "New rows of p", "q": "New rows of q"}
    colors = {None: "C2", "p": "C0", "q": "C1"}
    for axes, (toward, title) in zip(panels[1:], titles.items(), strict=True):
        sample = sampler.draw(800, toward=toward)
        axes.plot(*sample.X.T, "o", color=colors[toward], markersize=2)
        axes.set_title(f"{title} ({100 * sample.unique_share:.0f} % distinct)")
    panels[0].set(xlim=(-1.7, 2.7), ylim=(-1.2, 1.7), ylabel="x₂")
    for axes in panels:
        axes.set_xlabel("x₁")
    return figure


if __name__ == "__main__":
    with matplotlib.style.context(Path(__file__).with_name("gallery.mplstyle")):
        main().savefig("plot_7_sampling.png")
