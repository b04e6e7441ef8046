"""Columns that drift.

The rows are benign cases of scikit-learn's breast cancer table, in two halves: every other row. In the second half,
"mean smoothness" is 10 % too high, which is 0.7 of its standard deviation. Left: the test statistic and its
distribution under shuffled labels. Right: how much each column changed, with standard errors. The changed column
comes first. It is the only one with a p-value of 0.05 or less after the correction for 30 columns (dark bar).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer

from flowratio import two_sample_test


def main(n: int = 200) -> Figure:
    """Draw a test with n permutations, and the columns that drive the difference."""
    table: Any = load_breast_cancer(as_frame=True)
    benign = table.data[table.target == 1]
    before, after = benign.iloc[::2], benign.iloc[1::2].copy()
    after["mean smoothness"] *= 1.1
    test = two_sample_test(after, before, n_permutations=n, random_state=0)

    figure = Figure(figsize=(12, 5.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.hist(test.null, 20, color="C5", label="shuffled labels")
    left.axvline(test.statistic, color="C3", linewidth=2, label=f"true labels: p = {test.p_value:.3f}")
    left.set(xlabel="test statistic", ylabel="number of permutations", title="Do the halves differ?")
    left.legend()
    test.drivers.draw(right)
    right.set_title("Which columns changed?")
    if n >= 200:  # the caption
        np.testing.assert_equal(test.drivers.clear, ["mean smoothness"])
    return figure


if __name__ == "__main__":
    with matplotlib.style.context(Path(__file__).with_name("gallery.mplstyle")):
        main().savefig("plot_6_drift.png")
