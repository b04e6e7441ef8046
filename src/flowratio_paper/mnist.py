r"""Table 2, Fig. 9 to 14: images of q from a flow of p and q, by ratios in latent space (z) and in x.

Claim: with sampling-importance-resampling (SIR) from a flow of p and q, weights from latent space (z) draw more of the
target q than weights from x. Weights from x draw more than the flow alone. At perc = 1 the shares are .860, .754 and
.720 for digits, and .732, .528 and .493 for backgrounds. Command: `flowratio reproduce mnist --preset laptop --jobs 2`.
Cost: 74 minutes on two cores, several days for `paper`.

`diff-digits`: p are the ones and twos, q the zeros and sevens. `diff-background`: p are the digits of MNIST, white on
black, q the same in black on white. There are `perc` times as many images of q as of p. A MAF of 5 blocks is trained on
all of them. An MLP separates p from q. 1000 images are drawn toward q, by the weights

.. math:: \frac{q}{h} = \frac{1}{\pi r + 1 - \pi}, \qquad r = p/q, \quad \pi = \frac{n_p}{n_p + n_q}

A classifier of the attribute, an MLP fitted to images of p and q, counts the images of the target.

*What to expect.* A perfect flow draws a share perc / (1 + perc) of the target: .091, .2, .333, .5. The paper's regular
samples of digits have .406 to .720. Its classifier was fitted to values from 0 to 255 and applied to values from 0 to
1. Its code also swapped the mixing proportions. We use bytes for the classifier, and the equation above. A flow of few
steps also draws images that belong neither to p nor to q. On these a classifier of p and q guesses.

*Noise.* An estimator in latent space (z) is fitted to z of images with the noise of the flow's training: see
`image_distributions`. Each of its ten passes over pairs of images has new noise. If images of q are few, they are
repeated in a pass, with new noise too. Otherwise the ratio would memorize the noise.

*Against draws* is our own method. It weights the same candidates by the ratio of q to the draws of the flow. The other
weights use the mixture that a perfect flow would draw. See `flowratio.against_draws`. In z draws cost nothing. This
ratio has 30 passes, the others have the ten of the paper.

*Two stages* are our own method too. The weights from z select five of 100 candidates for each image. Only these are
decoded and weighted in x. *Against draws* then has a ratio of all training images to as many draws in x. It makes
images rarer that the flow draws too often, such as specks. The draws are decoded once, for the fit.

*Presets.* `paper` has the settings of the paper's appendix and the two hidden layers of its code. `laptop` has 5 blocks
with batch norm and one hidden layer of 1024 units, as in the paper's table. It has a maximum of 12 700 images of p, the
number of ones and twos. Its flows take 2000 steps of AdamW with an annealed rate of .003 and a weight decay of .1.
Weights are averaged over about the last tenth of the steps. The held-out likelihood of short runs decided on these
settings. In x every candidate is decoded, so `laptop` has 25 candidates for an image there, and 100 in z.

The ratios p/q are the same in all presets and in both spaces. They have the paper's three layers of 100 units, 10
epochs, batches of 64, and Adam at .001, annealed as in its code. Ours are pixels with one mean and one scale, 50 steps
of warm-up, clipped gradients and averaged weights. A tenth of the images selects the weights of a flow and of a ratio
in x. The ratio in latent space uses each of its codes once and keeps its last weights. In x a pass uses an image of q
four times or less, so a pass is shorter if images of q are few. There are perc times as many images of q as of p in
every cell: at perc = 1, digits have 12 188 of each.

*Verdicts.* All methods of a run share its flow, so that they are compared run by run. A difference counts if its
95 % interval is on one side of 0. The interval is that over the runs (Student), or that of the draws from the
candidates (Gaussian) if it is larger. One run is inconclusive.

*Outlier images.* A flow also draws specks, which the classifier of the attribute assigns to p or q. Images that are
brighter or darker than nearly all images of p and q are counted separately.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flowratio_paper.figure_style import (
    BLACK,
    BLUE,
    GRAY,
    GREEN,
    LIGHT_GRAY,
    ORANGE,
    PURPLE,
    VERMILION,
    legend_below,
    new_figure,
)
from flowratio_paper.image_distributions import BACKGROUND, DIGITS, TASKS
from flowratio_paper.images import sheets
from flowratio_paper.mnist_cells import MAF_BITS, MAF_LOGIT, METHODS, RATIOS, cell, published, recorded
from flowratio_paper.mnist_claims import claims_of
from flowratio_paper.reports import PaperTable, Report
from flowratio_paper.running import Outcome, Task
from flowratio_paper.stages import Workspace, read_arrays
from flowratio_paper.targeted_generation import IMAGES, Settings, folder_of, run_cell
from flowratio_paper.verdicts import of_runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Table 2, Fig. 9-14: images of a target from a flow of two samples, by SIR with importance weights (IW)"
TARGETS = {
    DIGITS: "zeros and sevens",
    BACKGROUND: "black digits on white",
}
_LOOKS = {  # marker and color of each method
    "z": ("s", BLUE),
    "draws": ("^", GREEN),
    "two-stage": ("v", ORANGE),
    "corrected": ("P", PURPLE),
    "x": ("o", VERMILION),
    "regular": ("D", GRAY),
}
_PERC = "perc: training images of the target\nfor each other training image"
PRESETS = {
    "quick": Settings(
        1,
        percs=(1.0,),
        rows=100,
        steps=200,
        n_blocks=2,
        hidden=(128,),
        batch_size=50,
        learning_rate=3e-3,
        weight_decay=0.1,
        ratio_epochs=50,
        draws_epochs=300,
        samples=100,
        candidates_z=20,
        candidates_x=10,
        attribute_rows=2000,
        test_rows=100,
    ),
    "laptop": Settings(
        3,
        rows=12_700,
        steps=2000,
        hidden=(1024,),
        learning_rate=3e-3,
        weight_decay=0.1,
        candidates_x=25,
        attribute_rows=12_700,
        test_rows=1000,
    ),
    "paper": Settings(3),
}


def tasks(settings: Settings) -> list[Task]:
    """Return one task for each flow."""
    return [
        {"task": task, "perc": perc, "seed": seed}
        for seed in range(settings.seeds)
        for perc in settings.percs
        for task in TASKS
    ]


def run(settings: Settings, task: Task, workspace: Workspace) -> dict[str, Any]:
    """Train a flow and its ratios, draw images by each method, and return the shares of the target."""
    return run_cell(settings, task, workspace)


def report(settings: Settings, outcomes: list[Outcome]) -> Report:
    """Return the shares with those of the paper, the quality of flow and weights, and the claims."""
    shares = [_table(settings, outcomes, task) for task in TASKS]
    behind = [_of_strange(settings, outcomes), _of_flows(settings, outcomes), _of_ratios(settings, outcomes)]
    return Report([*shares, *behind], claims_of(settings, outcomes))


def _table(settings: Settings, outcomes: list[Outcome], task: str) -> PaperTable:
    lines = []
    for method in recorded(outcomes):
        cells = []
        for perc in settings.percs:
            ours, paper = cell(settings, outcomes, task, method, perc), published(task, method, perc)
            theirs = "" if paper is None else f" [{paper:.3f}]"
            cells.append(f"{ours.shares.mean():.3f} ± {ours.error:.3f}{theirs}")
        lines.append([METHODS[method], *cells])
    lines.append(["no weights, perfect flow", *[f"{perc / (1 + perc):.3f}" for perc in settings.percs]])
    runs = of_runs(settings.seeds)
    runs += " ± standard error of the draws" if settings.seeds == 1 else ", or of the draws if larger"
    title = f"{task}: share of {TARGETS[task]} in {settings.samples} images ({runs}) [paper]"
    return PaperTable(title, ["method", *[f"perc = {perc:g}" for perc in settings.percs]], lines)


def _of_strange(settings: Settings, outcomes: list[Outcome]) -> PaperTable:
    """Return the share of strange images, and that of the target in these and in the others, as means."""
    lines = []
    for task, perc, _ in _cells(settings, outcomes):
        for method in recorded(outcomes):
            images = cell(settings, outcomes, task, method, perc)
            lines.append([task, f"{perc:g}", METHODS[method], f"{images.strange:.3f}", *images.target_shares])
    title = "Outlier images (brighter or darker than nearly all of p and q), and the share of the target (means)"
    return PaperTable(
        title, ["task", "perc", "method", "outliers", "target in outliers", "target in the others"], lines
    )


def _of_flows(settings: Settings, outcomes: list[Outcome]) -> PaperTable:
    """Return scores of flow and attribute classifier on test images, and seconds of the draws, as means over runs."""
    lines, methods = [], recorded(outcomes)
    for task, perc, results in _cells(settings, outcomes):
        flow = [np.mean([one["flow"][name] for one in results]) for name in ("logit", "bits")]
        seconds = [np.mean([one["methods"][method]["seconds"] for one in results]) for method in methods]
        line = [task, f"{perc:g}", "{} + {}".format(*results[0]["rows"]), f"{flow[0]:.1f}", f"{flow[1]:.3f}"]
        line.append(f"{np.mean([one['accuracy'] for one in results]):.4f}")
        lines.append([*line, *[f"{each:.1f}" for each in seconds]])
    lines.append(["MAF (5), published", "", "MNIST", f"{MAF_LOGIT:.1f}", f"{MAF_BITS:.2f}", *[""] * (1 + len(methods))])
    head = [
        "task",
        "perc",
        "images of p + q",
        "log-density in logit space (nats)",
        "bits per pixel",
        "attribute accuracy",
    ]
    head += [f"seconds, {name}" for name in methods]
    title = f"Flow and attribute classifier on test images, and seconds for {settings.samples} images (means)"
    return PaperTable(title, head, lines)


def _of_ratios(settings: Settings, outcomes: list[Outcome]) -> PaperTable:
    """Return scores of the ratios on test images, and effective shares of candidates, as means over runs."""
    lines = []
    for task, perc, results in _cells(settings, outcomes):
        for of in (method for method in RATIOS if method in recorded(outcomes)):
            ratio = [np.mean([one["ratio"][of][what] for one in results]) for what in ("loss", "accuracy")]
            draws = [np.mean([one["methods"][of][what] for one in results]) for what in ("effective", "unique")]
            line = [task, f"{perc:g}", RATIOS[of], *[f"{each:.3f}" for each in (*ratio, *draws)]]
            lines.append([*line, _tail(results, of)])
    title = (
        "Ratios on test images, and their weights: ESS as a share of the candidates, Pareto k̂ (means, -inf: no tail)"
    )
    return PaperTable(title, ["task", "perc", "ratio", "loss", "accuracy", "ESS", "distinct images", "k̂"], lines)


def _cells(settings: Settings, outcomes: list[Outcome]) -> Iterator[tuple[str, float, list[dict[str, Any]]]]:
    """Yield each task and perc, with the results of its runs."""
    for task in TASKS:
        for perc in settings.percs:
            yield task, perc, [one.result for one in outcomes if one.task["task"] == task and one.task["perc"] == perc]


def _tail(results: Sequence[dict[str, Any]], space: str) -> str:
    return f"{np.mean([float(one['methods'][space]['k_hat']) for one in results]):.2f}"


def draw(settings: Settings, outcomes: list[Outcome], keep: Path) -> dict[str, Figure]:
    """Return the shares with those of the paper, and sheets of 100 images of the first run, if they are on disk."""
    figures = {"": _draw_shares(settings, outcomes)}
    for task in TASKS:
        for perc in settings.percs:
            path = keep / folder_of({"task": task, "perc": perc, "seed": 0}) / f"{IMAGES}.entry.safetensors"
            if path.is_file():
                arrays = read_arrays(path)
                pages = {name: arrays[key] for key, name in METHODS.items() if key in arrays}
                title = f"Images toward the target ({TARGETS[task]}), perc = {perc:g}"
                figures[f"{task}-{perc:g}"] = sheets(pages, title)
    return figures


def _draw_shares(settings: Settings, outcomes: list[Outcome]) -> Figure:
    """Draw the methods side by side for each perc, so that equal shares do not hide each other."""
    figure = new_figure(4.8)
    row = figure.subplots(1, len(TASKS), sharey=True)
    at = np.arange(len(settings.percs))
    for axes, task in zip(row, TASKS, strict=True):
        methods = recorded(outcomes)
        for k, method in enumerate(methods):
            name, (marker, color) = METHODS[method], _LOOKS[method]
            cells = [cell(settings, outcomes, task, method, perc) for perc in settings.percs]
            means, errors = [one.shares.mean() for one in cells], [one.error for one in cells]
            x = at + 0.8 / len(methods) * (k - (len(methods) - 1) / 2)
            axes.errorbar(x, means, errors, label=name, fmt=marker, color=color, ms=6, capsize=2)
            theirs = [published(task, method, perc) for perc in settings.percs]
            if None not in theirs:
                axes.plot(x, theirs, marker, color=color, mfc="white", ms=6, label=f"{name}, paper")
        for place, perc in zip(at, settings.percs, strict=True):
            label = "no weights, perfect flow" if place == 0 else None
            axes.hlines(perc / (1 + perc), place - 0.4, place + 0.4, color=BLACK, lw=1, ls="--", label=label)
        for edge in at[1:] - 0.5:
            axes.axvline(edge, color=LIGHT_GRAY, lw=0.7)
        axes.grid(visible=False, axis="x")
        axes.set_xticks(at, [f"{perc:g}" for perc in settings.percs])
        axes.set(title=f"Target: {TARGETS[task]}", xlabel=_PERC, ylim=(0, 1.05))
    row[0].set_ylabel("share of the target\nin 1000 images")
    legend_below(figure, row[0], 3)
    return figure
