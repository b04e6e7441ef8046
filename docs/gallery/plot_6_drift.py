"""Which columns drift.

The rows are benign cases of scikit-learn's breast cancer table, split at random into two halves. In the second half,
"mean smoothness" is 5 % too high, which is a third of its standard deviation. Left: the test statistic and its
distribution under shuffled labels. Right: how much each column changed, with standard errors. The changed column comes
first. Dark bars have a p-value of 0.05 or less after the correction for 30 columns.
"""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer

from flowratio import two_sample_test


def main(n: int = 200) -> Figure:
    """Draw a test with n permutations, and the columns that drive the difference."""
    table: Any = load_breast_cancer(as_frame=True)
    benign = table.data[table.target == 1].sample(frac=1, random_state=0)
    before, after = benign.iloc[::2], benign.iloc[1::2].copy()
    after["mean smoothness"] *= 1.05
    test = two_sample_test(after, before, n_permutations=n, random_state=0)

    figure = Figure(figsize=(12, 5.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.hist(test.null, 20, color="0.8", edgecolor="0.4", label="shuffled labels")
    left.axvline(test.value, color="black", label=f"true labels: p = {test.p_value:.3f}")
    left.set(xlabel="statistic", ylabel="permutations", title="Is there a difference?")
    left.legend()
    test.drivers.draw(right)
    right.set_title("Where is it?")
    return figure


if __name__ == "__main__":
    main().savefig("plot_6_drift.png")
