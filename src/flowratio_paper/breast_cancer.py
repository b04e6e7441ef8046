r"""Table 6 and Figure 3: KMM and KLIEP on the Breast Cancer Wisconsin table, weights from x and from latent space (z).

Claim: KMM weights from z give a support vector machine a lower error than weights from x or no weights. The lowest
errors are .418, .532 and .537. KLIEP is no better than no weights. Cost: 10 minutes on two cores. Command:
`flowratio reproduce breast-cancer --preset laptop`.

683 rows without missing values, 9 columns. In each of 30 trials three quarters of the rows are the target. From the
rest a source keeps a benign row with probability .1 and a malignant one with .9. SVC(rbf, gamma=.1) of x, with C of .1,
1, 10 and 100.

*Scaling.* The paper standardizes after the subsampling. Its errors of .4 to .6 suggest that source and target are
standardized separately. The same row then has different values in source and target, and the error hardly depends on
weights. Both are shown: `separate`, as in the paper, and `shared`, one scaler for all rows. Rows are kept by their
label, so y given x differs between the samples. Weights by x, even exact ones, do not correct that.

*Differences from the paper.* Its code selected γ and B of KMM by the error on labeled target rows. We also show a
selection without target labels. KLIEP differs from the published one, see `adaptation_trials`. "Our goal" is a limit
that we set, not the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from flowratio_paper.adaptation_trials import (
    FIXED,
    HONEST,
    IWCV,
    ORACLE,
    PENALTIES,
    Comparison,
    Trial,
    TrialSettings,
    as_published,
    at_least_as_good,
    cells,
    choices,
    draw_errors,
    mostly_better,
    never,
    run_trial,
    scaled,
    selected,
    support_vector_machines,
    unweighted,
)
from flowratio_paper.data import find
from flowratio_paper.figure_style import legend_below, new_figure
from flowratio_paper.reports import Claim, PaperTable, Report
from flowratio_paper.running import Outcome, Task
from flowratio_paper.stages import Workspace
from flowratio_paper.verdicts import Answer, beyond, every, of_runs

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

TITLE = "Table 6, Figure 3: KMM and KLIEP on Breast Cancer Wisconsin, importance weights from x and from z"
PRESETS = {
    "quick": TrialSettings(2, gammas=(0.1,), bounds=(10.0, 1000.0), spaces=("x", "z"), flow_epochs=4),
    "laptop": TrialSettings(30, methods=("KMM", "KLIEP", "KLIEP, our start")),
    "paper": TrialSettings(30, methods=("KMM", "KLIEP"), spaces=("x", "z")),
}
SCALINGS = ("separate", "shared")
KEPT_BENIGN, KEPT_MALIGNANT = 0.1, 0.9
BEST_IN_PAPER, SMALL = 0.418, 0.06
# errors by C. The standard deviations are those without weights
PAPER = {
    "none": (0.616, 0.537, 0.591, 0.587),
    "KMM": {"x": (0.596, 0.532, 0.577, 0.576), "z": (0.630, 0.418, 0.421, 0.424)},
    "KLIEP": {"x": (0.519, 0.589, 0.588, 0.587), "z": (0.650, 0.55, 0.590, 0.586)},
}
PAPER_SPREAD = (0.0940, 0.167, 0.104, 0.114)


def read_table() -> tuple[np.ndarray, np.ndarray]:
    """Return the cells, of shape (683, 9), and whether they are benign, of shape (683,)."""
    table = np.genfromtxt(find("uci/breast-cancer-wisconsin.data"), delimiter=",")  # "?" becomes NaN
    table = table[~np.isnan(table).any(axis=1)]
    return table[:, 1:10], (table[:, 10] == 2).astype(int)


def split(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> Trial:
    """Return three quarters as the target, and a part of the rest, with few benign rows, as the source."""
    order = rng.permutation(len(X))
    target, rest = np.split(order, [3 * len(X) // 4])
    source = rest[rng.random(len(rest)) < np.where(y[rest] == 1, KEPT_BENIGN, KEPT_MALIGNANT)]
    return Trial(X[source], y[source], X[target], X[target], y[target])


def tasks(settings: TrialSettings) -> list[Task]:
    """Return one task for each trial and scaling."""
    return [{"seed": seed, "scaling": scaling} for seed in range(settings.seeds) for scaling in SCALINGS]


def run(settings: TrialSettings, task: Task, workspace: Workspace) -> dict[str, Any]:
    """Split the table, and return errors by C without weights and with those of each method."""
    trial = split(*read_table(), np.random.default_rng([task["seed"], 6]))
    return run_trial(scaled(trial, task["scaling"]), support_vector_machines(), settings, task["seed"])


def report(settings: TrialSettings, outcomes: list[Outcome]) -> Report:
    """Return the errors of both scalings with those of the paper, and the claims."""
    by_scaling = {name: [one.result for one in outcomes if one.task["scaling"] == name] for name in SCALINGS}
    tables = [_table(settings, scaling, results) for scaling, results in by_scaling.items()]
    claims = [*_claims_of_paper(by_scaling["separate"]), _claim_of_scaling(by_scaling["shared"])]
    for space in settings.spaces[1:]:
        claims += [_claim_of_best(by_scaling["separate"], space, one) for one in (HONEST, IWCV, FIXED, ORACLE)]
    for scaling, results in by_scaling.items():
        claims += _claims_of_order(settings, scaling, results)
    return Report(tables, claims)


def _table(settings: TrialSettings, scaling: str, results: Sequence[dict[str, Any]]) -> PaperTable:
    is_paper = scaling == "separate"
    lines = [["none", "", "", *cells(unweighted(results), PAPER["none"] if is_paper else None)]]
    for method in settings.methods:
        for choice in choices(method):
            for space in settings.spaces:
                published = PAPER.get(method, {}).get(space) if is_paper and choice == _paper_choice(method) else None
                lines.append([method, choice, space, *cells(selected(results, space, method, choice), published)])
    source = " [paper]" if is_paper else ", which the paper does not have"
    title = f"{scaling.capitalize()} scaling: error on the target, {of_runs(len(results), 'trial')}{source}"
    return PaperTable(title, ["weights by", "selected by", "space", *[f"C = {C:g}" for C in PENALTIES]], lines)


def _paper_choice(method: str) -> str:
    return ORACLE if method == "KMM" else HONEST


def _claims_of_paper(results: Sequence[dict[str, Any]]) -> list[Claim]:
    """Return the claims of the paper on its table: KMM with the oracle, and KLIEP, with separate scaling."""
    none, labels = unweighted(results), [f"C = {C:g}" for C in PENALTIES]
    kmm, kliep = ({s: selected(results, s, name, _paper_choice(name)) for s in "xz"} for name in ("KMM", "KLIEP"))
    words = "Table 6 (separate scaling): without weights the errors agree with the paper"
    table = "Table 6 (KMM, oracle, separate scaling)"
    ways = {"z": kmm["z"], "x": kmm["x"], "no weights": none}
    least = {name: values[:, values.mean(axis=0).argmin()] for name, values in ways.items()}
    gains = [beyond(least[name] - least["z"]) for name in ("x", "no weights")]
    measured = ", ".join(f"{name} {cells(values[:, None])[0]}" for name, values in least.items())
    return [
        as_published(words, none, PAPER["none"], PAPER_SPREAD),
        mostly_better(
            f"{table}: weights from z are better than weights from x for nearly all C", kmm["z"], kmm["x"], labels
        ),
        mostly_better(f"{table}: weights from z are better than no weights for nearly all C", kmm["z"], none, labels),
        Claim(f"{table}: weights from z have the lowest error over C", every(gains), measured),
        never(
            "Table 6 (KLIEP, separate scaling): weights from x or z bring no significant improvement",
            Comparison.BETTER,
            {space: (kliep[space], none) for space in "xz"},
        ),
    ]


def _claim_of_scaling(shared: Sequence[dict[str, Any]]) -> Claim:
    least = unweighted(shared)[:, 1:]
    words = f"not in the paper: with shared scaling, the error without weights is below {SMALL:g} for C of 1 or more"
    return Claim(words, every([beyond(SMALL - values) for values in least.T]), ", ".join(cells(least)))


def _claim_of_best(results: Sequence[dict[str, Any]], space: str, choice: str) -> Claim:
    """Return whether KMM in z is below the paper's best, for one C or more."""
    values = selected(results, space, "KMM", choice)
    verdicts = [beyond(BEST_IN_PAPER - one) for one in values.T]
    answer = next((one for one in (Answer.YES, Answer.INCONCLUSIVE) if one in verdicts), Answer.NO)
    goal = f"KMM in {space} is below the paper's best, {BEST_IN_PAPER}, for one C or more"
    words = f"our goal: {goal}, separate scaling, {choice}"
    return Claim(words, answer, ", ".join(cells(values)))


def _claims_of_order(settings: TrialSettings, scaling: str, results: Sequence[dict[str, Any]]) -> list[Claim]:
    """Return whether z is at least as good as x, and x as no weights."""
    labels = [f"C = {C:g}" for C in PENALTIES]
    claims = []
    for method in settings.methods:
        for choice in dict.fromkeys((HONEST, IWCV, _paper_choice(method))):
            ours = {"no weights": unweighted(results)}
            for space in settings.spaces:
                ours[space] = selected(results, space, method, choice)
                other = "no weights" if space == "x" else "x"
                words = f"{scaling} scaling: {method} in {space} is at least as good as {other}, {choice}"
                claims.append(at_least_as_good(words, ours[space], ours[other], labels))
    return claims


def draw(settings: TrialSettings, outcomes: list[Outcome], keep: Path) -> dict[str, Figure]:
    """Return errors against C by scaling and method, with the paper's: Figure 3 and similar ones."""
    panels = [("KMM", HONEST), *((method, _paper_choice(method)) for method in ("KMM", "KLIEP"))]
    panels = [(method, choice) for method, choice in panels if method in settings.methods]
    figure = new_figure(6.6)
    grid = figure.subplots(len(SCALINGS), len(panels), sharex=True, sharey=True, squeeze=False)
    for row, scaling in zip(grid, SCALINGS, strict=True):
        results = [one.result for one in outcomes if one.task["scaling"] == scaling]
        for axes, (method, choice) in zip(row, panels, strict=True):
            ours = {space: selected(results, space, method, choice) for space in settings.spaces}
            is_paper = scaling == "separate" and choice == _paper_choice(method)
            paper = {"none": PAPER["none"], **PAPER[method]} if is_paper else {}
            draw_errors(axes, {"none": unweighted(results), **ours}, paper)
            axes.set_title(f"{scaling} scaling\n{method}, {choice}")
        row[0].set_ylabel("error rate on the target")
    for axes in grid[-1]:
        axes.set_xlabel("C of the classifier")
    grid[0, 0].set_ylim(0, None)
    legend_below(figure, grid[0, 1 if len(panels) > 1 else 0], 3)
    return {"": figure}
