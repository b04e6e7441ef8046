"""A line where the target is.

A model that is too simple must choose where to be right. Labels are known for source rows (grey) only; the model is
used on target rows, farther right. A straight line fitted to the source as it is lies flat between both ends of the
curve. Weighted by r = target/source it follows the part that matters. A model that is flexible enough to be right
everywhere gains nothing from weights, as the boosted trees show, and pays for them in variance.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression

from flowratio import ImportanceWeighted


def main(n: int = 1000) -> Figure:
    """Draw two models, fitted to the source as it is and weighted toward the target."""
    rng = np.random.default_rng(0)
    X, X_target = rng.normal(0.8, 0.8, (n, 1)), rng.normal(1.8, 0.4, (n, 1))
    y, y_target = (np.sin(2 * rows[:, 0]) + rng.normal(0, 0.2, n) for rows in (X, X_target))

    figure = Figure(figsize=(11, 4.3), layout="constrained")
    models = {"a line": LinearRegression(), "boosted trees": HistGradientBoostingRegressor(random_state=0)}
    grid = np.linspace(-0.8, 3, 200)[:, None]
    for axes, (name, model) in zip(figure.subplots(1, 2, sharey=True), models.items(), strict=True):
        plain = clone(model).fit(X, y)
        weighted = ImportanceWeighted(model, "quadratic", random_state=0).fit(X, y, X_target=X_target)
        axes.plot(X[:, 0], y, ".", color="0.75", markersize=3, label="source, with labels")
        axes.plot(X_target[:, 0], np.full(n, -2.1), "|", color="black", alpha=0.2, label="target, without")
        for fitted, style, words in ((plain, "--", "as it is"), (weighted, "-", "weighted")):
            error = np.mean((fitted.predict(X_target) - y_target) ** 2)
            axes.plot(grid[:, 0], fitted.predict(grid), style, label=f"{words}: error on target {error:.3f}")
        axes.set(title=name, xlabel="x", xlim=(-0.8, 3), ylim=(-2.3, 2))
        axes.legend(loc="upper right", fontsize="small")
    return figure


if __name__ == "__main__":
    main().savefig("plot_4_covariate_shift.png")
