"""A good ratio, and one not to trust.

Two ratios of the same samples, judged on the same held-out rows. Above a quadratic ratio, which has the right form.
Below naive Bayes, which takes columns for independent that are not, and counts what they share several times: its
probabilities are too sure, the reliability curve leaves the diagonal, and rows of q that are weighted by it overshoot
the means of p. What is wrong is the scale of its answers, and weights are nothing but
that scale. `ClassifierRatio(…, calibration="sigmoid")` would mend most of it.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.naive_bayes import GaussianNB

from flowratio import ClassifierRatio, OverlapWarning, diagnose, plot_balance, plot_log_ratios, plot_reliability


def main(n: int = 2000) -> Figure:
    """Draw three panels of a diagnosis, for two ratios."""
    rng = np.random.default_rng(0)
    covariance = 0.7 + 0.3 * np.eye(4)
    X_p = rng.multivariate_normal([0.5, 0.5, 0.4, 0.4], covariance, 2 * n)
    X_q = rng.multivariate_normal([0.0, 0.0, 0.0, 0.0], covariance, 2 * n)
    ratios = {
        "quadratic": ClassifierRatio("quadratic"),
        "naive Bayes, as it is": ClassifierRatio(GaussianNB()),
    }
    figure = Figure(figsize=(13, 8.4), layout="constrained")
    parts: Any = figure.subfigures(2, 1)
    for part, (name, ratio) in zip(parts, ratios.items(), strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverlapWarning)  # of weights that are too extreme
            ratio.fit_samples(X_p[:n], X_q[:n])
        found = diagnose(ratio, X_p[n:], X_q[n:], random_state=0)
        first, second, third = part.subplots(1, 3)
        plot_log_ratios(found.log_p, found.log_q, axes=first)
        plot_reliability(found.reliability, axes=second)
        plot_balance(found.balance, axes=third)
        part.suptitle(f"{name}: {found.verdict}", fontweight="bold")
    return figure


if __name__ == "__main__":
    main().savefig("plot_8_diagnosis.png")
