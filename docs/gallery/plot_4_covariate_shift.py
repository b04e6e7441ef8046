"""Linear model under covariate shift.

Labels are known for source rows (grey) only. The model is used on target rows, farther right. A straight line that is
fitted to the unweighted source is nearly flat. With weights r = target/source, the line follows the curve where the
target is, and the error on the target falls from 0.68 to 0.08. A flexible model fits the curve everywhere. The error
of boosted trees is the same with and without weights, 0.05.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression

from flowratio import ImportanceWeighted


def main(n: int = 1000) -> Figure:
    """Draw two models, fitted to the source without and with weights."""
    rng = np.random.default_rng(0)
    X, X_target = rng.normal(0.8, 0.8, (n, 1)), rng.normal(1.8, 0.4, (n, 1))
    y, y_target = (np.sin(2 * rows[:, 0]) + rng.normal(0, 0.2, n) for rows in (X, X_target))

    figure = Figure(figsize=(11, 4.3), layout="constrained")
    errors = []  # mean square
    models = {"Line": LinearRegression(), "Boosted trees": HistGradientBoostingRegressor(random_state=0)}
    grid = np.linspace(-0.8, 3, 200)[:, None]
    for axes, (name, model) in zip(figure.subplots(1, 2, sharey=True), models.items(), strict=True):
        plain = clone(model).fit(X, y)
        weighted = ImportanceWeighted(model, "quadratic", random_state=0).fit(X, y, X_target=X_target)
        axes.plot(X[:, 0], y, ".", color="0.75", markersize=3, label="source, with labels")
        axes.plot(X_target[:, 0], np.full(n, -2.1), "|", color="black", alpha=0.2, label="target, without labels")
        for fitted, style, words in ((plain, "C1--", "unweighted"), (weighted, "C0-", "weighted")):
            error = np.mean((fitted.predict(X_target) - y_target) ** 2)
            errors.append(error)
            axes.plot(grid[:, 0], fitted.predict(grid), style, label=f"{words}: error on target {error:.2f}")
        axes.set(title=name, xlabel="x", ylabel="y", xlim=(-0.8, 3), ylim=(-2.3, 2.4))
        axes.legend(loc="upper right", fontsize="small")
        axes.label_outer()
    if n >= 1000:  # the caption
        np.testing.assert_allclose(errors, [0.68, 0.08, 0.05, 0.05], atol=0.006)
    return figure


if __name__ == "__main__":
    with matplotlib.style.context(Path(__file__).with_name("gallery.mplstyle")):
        main().savefig("plot_4_covariate_shift.png")
