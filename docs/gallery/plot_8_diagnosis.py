"""Diagnosis of a good and of a bad ratio.

Two ratios of the same samples are checked on the same held-out rows. The upper row is a quadratic ratio, which has
the right form. The lower row is naive Bayes, which assumes that columns are independent. They are not, so its
probabilities are overconfident: the reliability curve leaves the diagonal, and weighted rows of q overshoot the means
of p. Only the scale of its log-ratios is wrong, but weights depend on this scale. `ClassifierRatio(…,
calibration="sigmoid")` fixes most of it: the error of the reliability curve falls by more than half.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import matplotlib.style
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
        "naive Bayes": ClassifierRatio(GaussianNB()),
    }
    figure = Figure(figsize=(13, 8.4), layout="constrained")
    errors = {}
    parts: Any = figure.subfigures(2, 1)
    for part, (name, ratio) in zip(parts, ratios.items(), strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverlapWarning)  # of weights that are too extreme
            ratio.fit_samples(X_p[:n], X_q[:n])
        diagnosis = diagnose(ratio, X_p[n:], X_q[n:], random_state=0)
        first, second, third = part.subplots(1, 3)
        plot_log_ratios(diagnosis.log_p, diagnosis.log_q, axes=first)
        plot_reliability(diagnosis.reliability, axes=second)
        plot_balance(diagnosis.balance, axes=third)
        part.suptitle(f"{name}: {diagnosis.verdict}", fontweight="bold")
        errors[name] = diagnosis.reliability.error
    if n >= 2000:  # the caption
        calibrated = ClassifierRatio(GaussianNB(), calibration="sigmoid").fit_samples(X_p[:n], X_q[:n])
        errors["calibrated"] = diagnose(calibrated, X_p[n:], X_q[n:], random_state=0).reliability.error
        np.testing.assert_array_less(errors["calibrated"], errors["naive Bayes"] / 2)
    return figure


if __name__ == "__main__":
    with matplotlib.style.context(Path(__file__).with_name("gallery.mplstyle")):
        main().savefig("plot_8_diagnosis.png")
