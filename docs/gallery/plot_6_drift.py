"""Which columns drift.

Benign cases of scikit-learn's breast cancer table, in two halves that were drawn by chance. In the second half one
instrument has gone wrong: "mean smoothness" is 5 % too high, a third of its standard deviation. Left: the statistic of
the test beside what permuted labels give. Right: how much each column moves log r. The column that was changed is named
first; ones that go with it say where the change shows against what the other columns lead one to expect.
"""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer

from flowratio import plot_importance, two_sample_test


def main(n: int = 200) -> Figure:
    """Draw a permutation test, and the columns that drive it; n is the number of permutations."""
    table: Any = load_breast_cancer(as_frame=True)
    benign = table.data[table.target == 1].sample(frac=1, random_state=0)
    before, after = benign.iloc[::2], benign.iloc[1::2].copy()
    after["mean smoothness"] *= 1.05
    found = two_sample_test(after, before, "logistic", n_permutations=n, random_state=0)

    figure = Figure(figsize=(12, 5.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.hist(found.null, 20, color="0.8", edgecolor="0.4", label="labels permuted")
    left.axvline(found.statistic, color="black", label=f"labels as given: p = {found.p_value:.3f}")
    left.set(xlabel="statistic", ylabel="permutations", title="Is there a difference?")
    left.legend()
    plot_importance(found.drivers, axes=right)
    right.set_title("Where is it?")
    return figure


if __name__ == "__main__":
    main().savefig("plot_6_drift.png")
