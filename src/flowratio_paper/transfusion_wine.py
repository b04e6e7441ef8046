r"""Table 1: KLIEP on the Blood Transfusion and Wine Quality tables, weights from x and from latent space (z).

Claim: KLIEP weights from z or from x do not improve the error here, and weights from z do not raise it. Errors are .233
to .235 for blood, and .304, .260, .265 and .290 in z for wine. Cost: 10 minutes on two cores. Command: `flowratio
reproduce transfusion-wine --preset laptop`.

In each of 30 trials three quarters of the table are the target. From the rest a source keeps a row with probability
:math:`e^{-\|x - \bar x\|^2 / 20}`, x in standard units. SVC(rbf, gamma=.1) of x, with C of .1, 1, 10 and 100.

*Which wine?* The paper's text has the white wines and the label "quality 5 or more". 96 of 100 wines have it, so errors
of .26 are not plausible. Its code has red and white wines and the label "above 5", which agrees with the published
errors. Both are run, `wine-text` and `wine-code`. The `laptop` preset has 5 trials of the first, because all of its
errors are close to the share of the other label. The text counts 5 and 12 input features. With the label there are 5
and 12 columns, without it 4 and 11.

*Which units?* In the original units hardly a row would be kept, because the column Monetary of the blood table goes to
12,500. All rows are standardized once, by one scaler. Monetary is 250 times Frequency, so the flow gets a singular
covariance. For the breast cancer table the paper standardized source and target separately. One more row shows the
errors without weights after that.

*What is the paper's ±?* We read it as the standard deviation over trials. If .0274 were the standard error of 30
trials, trials would spread by .15. Chance on 561 rows alone spreads an error of .235 by .018.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from flowratio_paper.adaptation_trials import (
    HONEST,
    PENALTIES,
    Comparison,
    Trial,
    TrialSettings,
    as_published,
    at_least_as_good,
    cells,
    draw_errors,
    errors,
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
from flowratio_paper.verdicts import of_runs

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

TITLE = "Table 1: KLIEP on Blood Transfusion and Wine Quality, importance weights from x and from z"


@dataclass(frozen=True)
class Settings(TrialSettings):
    """What is compared in each trial: KLIEP, which chooses its bandwidth itself.

    Parameters
    ----------
    text_trials
        Maximum number of trials of `wine-text`.
    """

    gammas: tuple[float, ...] = ()
    methods: tuple[str, ...] = ("KLIEP",)
    spaces: tuple[str, ...] = ("x", "z")
    text_trials: int = 30


PRESETS = {
    "quick": Settings(1, flow_epochs=1),
    "laptop": Settings(30, methods=("KLIEP", "KLIEP, our start"), text_trials=5),
    "paper": Settings(30),
}
WIDTH = 20.0
SEPARATE_SCALING = "none, separate scaling"
_NAMES = {"none": "no weights", "x": "weights from x", "z": "weights from z"}
_TITLES = {
    "blood": "Blood transfusion",
    "wine-text": "Wine, label of the text",
    "wine-code": "Wine, label of the code",
}
_WINE = {"none": (0.302, 0.257, 0.262, 0.289), "x": (0.304, 0.262, 0.266, 0.290), "z": (0.304, 0.260, 0.265, 0.290)}
PAPER = {
    "blood": {
        "none": (0.235, 0.235, 0.234, 0.234),
        "x": (0.235, 0.235, 0.234, 0.233),
        "z": (0.235, 0.235, 0.234, 0.234),
    },
    "wine-text": _WINE,
    "wine-code": _WINE,
}
_WINE_SPREAD = {
    # printed are .0274, as for blood, and .0933, which look like misprints. .0123, as for x, and .00933 are stricter
    "none": (0.0123, 0.0074, 0.00863, 0.00933),
    "x": (0.0123, 0.0105, 0.0113, 0.0103),
    "z": (0.0120, 0.00937, 0.00817, 0.00987),
}
PAPER_SPREAD = {
    "blood": {
        "none": (0.0274, 0.0274, 0.0287, 0.0285),
        "x": (0.0274, 0.0274, 0.0282, 0.0284),
        "z": (0.0274, 0.0274, 0.0283, 0.0282),
    },
    "wine-text": _WINE_SPREAD,
    "wine-code": _WINE_SPREAD,
}


def read_blood() -> tuple[np.ndarray, np.ndarray]:
    """Return the donors, of shape (748, 4), and whether they gave blood, of shape (748,)."""
    table = np.loadtxt(find("uci/transfusion.data"), delimiter=",", skiprows=1)
    return table[:, :4], table[:, 4].astype(int)


def read_wine_text() -> tuple[np.ndarray, np.ndarray]:
    """Return the white wines, of shape (4898, 11), and whether their quality is 5 or more, of shape (4898,)."""
    return _wine(("white",), 5)


def read_wine_code() -> tuple[np.ndarray, np.ndarray]:
    """Return all wines, of shape (6497, 11), and whether their quality is above 5, of shape (6497,)."""
    return _wine(("red", "white"), 6)


def _wine(colors: Sequence[str], least: int) -> tuple[np.ndarray, np.ndarray]:
    paths = [find(f"uci/winequality-{color}.csv") for color in colors]
    table = np.concatenate([np.loadtxt(path, delimiter=";", skiprows=1) for path in paths])
    return table[:, :11], (table[:, 11] >= least).astype(int)


READ: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "blood": read_blood,
    "wine-text": read_wine_text,
    "wine-code": read_wine_code,
}


def split(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> Trial:
    """Return three quarters as the target, and a part of the rest, with few rows far out, as the source.

    Parameters
    ----------
    X, y
        The table, in its own units, of shape (n, d), and labels, of shape (n,).
    rng
        Generator of the split and the selection.
    """
    X = StandardScaler().fit_transform(X)
    target, rest = np.split(rng.permutation(len(X)), [3 * len(X) // 4])
    squares = np.sum((X[rest] - X[rest].mean(axis=0)) ** 2, axis=1)
    source = rest[rng.random(len(rest)) < np.exp(-squares / WIDTH)]
    return Trial(X[source], y[source], X[target], X[target], y[target])


def tasks(settings: Settings) -> list[Task]:
    """Return one task for each table and trial."""
    n_text = min(settings.text_trials, settings.seeds)
    trials = {"blood": settings.seeds, "wine-text": n_text, "wine-code": settings.seeds}
    return [{"table": table, "seed": seed} for table, n in trials.items() for seed in range(n)]


def run(settings: Settings, task: Task, workspace: Workspace) -> dict[str, Any]:
    """Split a table, and return errors by C without weights and with those of each method."""
    trial = split(*READ[task["table"]](), np.random.default_rng([task["seed"], 1]))
    machines = support_vector_machines()
    return {
        SEPARATE_SCALING: errors(machines, scaled(trial, "separate"), None),
        **run_trial(trial, machines, settings, task["seed"]),
    }


def report(settings: Settings, outcomes: list[Outcome]) -> Report:
    """Return the errors with those of the paper, and the claims."""
    whole = Report()
    for table in READ:
        results = [one.result for one in outcomes if one.task["table"] == table]
        whole.tables.append(_table(settings, table, results))
        whole.claims.extend(_claims(settings, table, results))
    return whole


def _table(settings: Settings, table: str, results: Sequence[dict[str, Any]]) -> PaperTable:
    lines = [["none", "", *cells(unweighted(results), PAPER[table]["none"])]]
    lines.append([SEPARATE_SCALING, "", *cells(_separately_scaled(results), PAPER[table]["none"])])
    for method in settings.methods:
        for space in settings.spaces:
            published = PAPER[table].get(space) if method == "KLIEP" else None
            lines.append([method, space, *cells(selected(results, space, method, HONEST), published)])
    title = f"{table}: error on the target, {of_runs(len(results), 'trial')} [paper]"
    return PaperTable(title, ["weights by", "space", *[f"C = {C:g}" for C in PENALTIES]], lines)


def _separately_scaled(results: Sequence[dict[str, Any]]) -> np.ndarray:
    return np.array([result[SEPARATE_SCALING] for result in results])


def _claims(settings: Settings, table: str, results: Sequence[dict[str, Any]]) -> list[Claim]:
    claims = []
    without = {"none": unweighted(results), SEPARATE_SCALING: _separately_scaled(results)}
    of_paper = {**without, **{s: selected(results, s, "KLIEP", HONEST) for s in settings.spaces}}
    for name, ours in of_paper.items():
        words = f"{table}, {_NAMES.get(name, name)}: the errors agree with the paper"
        row = "none" if name == SEPARATE_SCALING else name
        claims.append(as_published(words, ours, PAPER[table][row], PAPER_SPREAD[table][row]))
    pairs = {space: (of_paper[space], of_paper["none"]) for space in settings.spaces}
    words = f"Table 1 ({table}, KLIEP): weights from x or z bring no significant improvement"
    claims.append(never(words, Comparison.BETTER, pairs))
    words = f"Table 1 ({table}, KLIEP): weights from z do not raise the error"
    pairs = {f"z against {_NAMES[other]}": (of_paper["z"], of_paper[other]) for other in ("none", "x")}
    claims.append(never(words, Comparison.WORSE, pairs))
    labels = [f"C = {C:g}" for C in PENALTIES]
    for method in settings.methods:
        of = {space: selected(results, space, method, HONEST) for space in settings.spaces}
        for other, other_errors in (("x", of["x"]), ("no weights", unweighted(results))):
            words = f"{table}: {method} in z is at least as good as {other}"
            claims.append(at_least_as_good(words, of["z"], other_errors, labels))
    return claims


def draw(settings: Settings, outcomes: list[Outcome], keep: Path) -> dict[str, Figure]:
    """Return errors against C by table, with the paper's, on one scale."""
    figure = new_figure(4.4)
    row = figure.subplots(1, len(READ), sharey=True)
    for axes, (table, title) in zip(row, _TITLES.items(), strict=True):
        results = [one.result for one in outcomes if one.task["table"] == table]
        ours = {space: selected(results, space, "KLIEP", HONEST) for space in settings.spaces}
        draw_errors(axes, {"none": unweighted(results), **ours}, PAPER[table])
        axes.set(title=f"{title}\n({len(results)} trial{'s' * (len(results) > 1)})", xlabel="C of the classifier")
    row[0].set_ylabel("error rate on the target")
    row[0].set_ylim(0, None)
    legend_below(figure, row[0], 3)
    return {"": figure}
