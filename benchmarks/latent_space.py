"""When does latent space help? The errors of accuracy.py by kind of data, in x, in z, in both, and over a base.

It draws from results/accuracy.jsonl, which `python benchmarks/accuracy.py run` writes, and measures nothing itself.
It writes results/latent-space.md and results/latent-space.png, for docs/when-latent-space-helps.md.
Cost: less than 10 seconds.
Command: python benchmarks/latent_space.py
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from _accuracy_problems import PROBLEMS
from accuracy import RESULTS, Table, digits, geometric_mean, markdown, records

METHODS = {
    "mlp": "network in x",
    "z mlp": "network in z",
    "x+z mlp": "network in x and z",
    "featurized": "network in x and z, over a base",
    "telescoping": "telescoping in x",
    "z telescoping": "telescoping in z",
}
KINDS = {
    "Gaussian": (1, 2, 3, 4, 5, 6, 15, 16, 17, 20),
    "mixture of Gaussians": (7, 8, 19),
    "curved, skewed or heavy-tailed": (9, 10, 11, 12, 13, 14, 21),
}
NOTE = "Mean squared error of log r in nats², mean over the seeds. Geometric means count an error below 0.0001 as that."


def errors(table: Table) -> dict[str, np.ndarray]:
    """Return the errors of each method that was run, one for each problem."""
    columns = {name: table.column(name) for name in METHODS if name in {method.name for method in table.methods}}
    return {name: column for name, column in columns.items() if np.isfinite(column).any()}


def rows_of(numbers: tuple[int, ...], complete: np.ndarray) -> list[int]:
    """Return the positions of problems that every method was run on."""
    return [i for i, problem in enumerate(PROBLEMS) if problem.number in numbers and complete[i]]


def report(columns: dict[str, np.ndarray]) -> str:
    complete = np.array([all(map(math.isfinite, errors)) for errors in zip(*columns.values(), strict=True)])
    groups = {**KINDS, "all problems with r ≠ 1": tuple(number for numbers in KINDS.values() for number in numbers)}
    means = []
    for kind, numbers in groups.items():
        rows = rows_of(numbers, complete)
        values = [geometric_mean(column[rows]) if rows else math.nan for column in columns.values()]
        means.append([kind, str(len(rows)), *map(digits, values)])
    header = [METHODS[name] for name in columns]
    kind_of = {number: kind for kind, numbers in KINDS.items() for number in numbers}
    each = [
        [p.name, kind_of.get(p.number, "equal samples"), str(p.d), str(p.n), f"{p.kl:.1f}"]
        + [digits(column[i]) for column in columns.values()]
        for i, p in enumerate(PROBLEMS)
    ]
    parts = ["# When latent space helps", NOTE, "## By kind of data, geometric means"]
    parts += [markdown(["kind of data", "problems", *header], means), "## Every problem"]
    parts.append(markdown(["problem", "kind of data", "d", "n", "KL(p ‖ q)", *header], each))
    return "\n\n".join([*parts, "This page is written by `python benchmarks/latent_space.py`."]) + "\n"


def draw(columns: dict[str, np.ndarray], path: Path) -> None:
    """Draw the error of each method relative to the network in x."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    kinds = [(kind, i) for kind, numbers in KINDS.items() for i, p in enumerate(PROBLEMS) if p.number in numbers]
    figure, axes = plt.subplots(figsize=(8, 6.5), layout="constrained")
    styles = {"z mlp": ("s", "#E69F00"), "x+z mlp": ("^", "#56B4E9"), "featurized": ("o", "#0072B2")}
    for name, (marker, color) in styles.items():
        if name in columns:
            values = [columns[name][i] / columns["mlp"][i] for _, i in kinds]
            axes.plot(values, range(len(kinds)), marker, color=color, label=METHODS[name], markersize=7)
    axes.axvline(1, color="0.3", linewidth=1)
    axes.set_xscale("log")
    labels = [f"{PROBLEMS[i].name} (d = {PROBLEMS[i].d}, KL {PROBLEMS[i].kl:.1f})" for _, i in kinds]
    axes.set_yticks(range(len(kinds)), labels, fontsize=8)
    for k in range(1, len(kinds)):
        if kinds[k][0] != kinds[k - 1][0]:
            axes.axhline(k - 0.5, color="0.7", linestyle=":", linewidth=1)
    axes.invert_yaxis()
    axes.set_xlabel("error of log r, relative to the network in x (below 1: better)")
    axes.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    columns = errors(Table.of(records(), "error"))
    (RESULTS / "latent-space.md").write_text(report(columns))
    draw(columns, RESULTS / "latent-space.png")
    print(report(columns))


if __name__ == "__main__":
    main()
