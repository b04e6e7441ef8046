r"""Tables 3 and 4, Fig. 7: real drawings of characters with generated ones, and weights of the generated ones.

Claim: a classifier of characters, fitted to real and generated drawings, is best with weights from latent space (z,
.784). Next are no weights (.767), weights from x (.765), real drawings alone (.756), and generated drawings alone
(.557). Command: `flowratio reproduce omniglot --preset laptop --jobs 2`. Cost: about an hour on two cores, a week or
more for `paper`.

Of the 20 drawings of a character the first 10 are for training, 5 decide when to stop, 5 are the test. A DAGAN, trained
on the first 10, generates 50 drawings of each character, 5 from each of the 10. A MAF is trained on real and generated
drawings. A CNN separates the two in x, and another in z, reshaped to 28 × 28. With r = p/q, p the real drawings and q
the generated ones, a generated drawing has the weight

.. math:: w_i \propto r(x_i)^\gamma, \qquad \mathrm{mean}\, w = 1

where the paper has γ = 1 in x and γ = .2 in z. Real drawings have the weight 1. We also show all γ in z, and the γ with
the lowest loss on validation drawings. γ = .2 in x separates the effect of z from the effect of γ.

*A ratio that was fitted to a drawing* recognizes it. Here no ratio weights a drawing that it was fitted to. A real
drawing and all drawings that were generated from it are in the same fold. (The paper's ratios were fitted to the
drawings that they weight. `paper` does the same.) The flow is fitted to all drawings, but does not know which are real.
Every seed repeats everything, the DAGAN too.

*Other differences from the paper*, in all presets: see `dagan` for the generator. Drawings are black and white, because
any other value would show which ones were generated. z is taken at the middle of a value. Ratios stop by a random tenth
of their rows (the paper: by 5 real and 5 generated drawings). Their rate is annealed, as in its code, and their weights
are averaged. Weights have the mean 1 in x and in z (the paper: the sum 1 in each batch in x, and r^γ itself in z). All
classifiers have the same maximum number of steps, also those of fewer drawings. The flow's "n_hidden 2" is, in the
paper's code, three hidden layers, as in `paper`.

`laptop` has the first 200 characters instead of 1200, and half the filters. Its generator is smaller, has 2000 steps
and may bend drawings. Its flow has two hidden layers of 512 units, without batch norm, and 15 epochs of AdamW. A ratio
is fitted to half the drawings (2 folds) in 5 passes instead of 10, by AdamW with a weight decay of .3. A classifier
takes a maximum of 27 passes over the mixture instead of 100, and ends after nine passes without progress. Its rate
rises and is annealed, with clipped gradients and averaged weights. `paper` has plain Adam, and a generator that only
paints.

*Verdicts.* All settings of a run share its drawings, so that they are compared run by run. A difference counts if
its 95 % interval is on one side of 0. The interval joins that over the runs (Student) and that over the characters
(Gaussian), as all runs have the same test drawings. One run is inconclusive.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flowratio_paper.augmentation_trials import (
    DATA,
    GAMMAS,
    MIXTURE,
    SYNTHETIC,
    Settings,
    generate,
    of_ratio,
    ratio_in_x,
    ratio_in_z,
    train_one,
    weighted,
    weights_by_setting,
)
from flowratio_paper.characters import TEST, black_and_white, grouped, read, split
from flowratio_paper.dagan import DaganSettings
from flowratio_paper.data import find
from flowratio_paper.figure_style import BLUE, VERMILION, legend_below, new_figure
from flowratio_paper.images import PIXELS, sheets
from flowratio_paper.reports import Claim, PaperTable, Report
from flowratio_paper.running import Outcome, Task, commit
from flowratio_paper.stages import Workspace, read_arrays
from flowratio_paper.verdicts import Gain, of_runs, standard_error, with_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Tables 3 and 4, Fig. 7: generated drawings of Omniglot's characters, weighted by ratios of x and of z"
FILE = "omniglot/omniglot28.npz"
GENERATED = "generated"  # entry of the generated drawings
PAPER_GAMMA = {"x": 1.0, "z": 0.2}
SELECTED = "mixture + IW(z), γ of lowest validation loss"
PAPER_CLASSES = 1200
PARTS = ("test", "validation")
PAPER = {
    DATA: 0.756,
    SYNTHETIC: 0.557,
    MIXTURE: 0.767,
    weighted("x", PAPER_GAMMA["x"]): 0.765,
    weighted("z", PAPER_GAMMA["z"]): 0.784,
}
PRESETS = {
    "quick": Settings(
        1,
        classes=10,
        per_class=10,
        dagan=DaganSettings(
            channels=8,
            noise=8,
            steps=60,
            critic_steps=1,
            batch_size=16,
            learning_rate=1e-3,
            critic_rate=3e-3,
            warp=0.2,
            paint=0.1,
        ),
        flow_blocks=2,
        flow_hidden=(64,),
        flow_epochs=4,
        flow_batch=128,
        flow_rate=1e-3,
        flow_decay=0.3,
        filters=8,
        rate=5e-3,
        plain=False,
        ratio_epochs=40,
        folds=2,
        classifier_steps=150,
        batch_size=32,
    ),
    "laptop": Settings(
        3,
        classes=200,
        dagan=DaganSettings(
            channels=32,
            noise=64,
            steps=2000,
            critic_steps=2,
            batch_size=32,
            learning_rate=2e-4,
            critic_rate=5e-4,
            warp=0.2,
            paint=0.02,
        ),
        flow_hidden=(512, 512),
        flow_epochs=15,
        flow_batch=128,
        flow_rate=1e-3,
        flow_decay=0.3,
        filters=32,
        plain=False,
        ratio_epochs=5,
        folds=2,
        classifier_steps=5000,
    ),
    "paper": Settings(3),
}


def tasks(settings: Settings) -> list[Task]:
    """Return one task for each run."""
    return [{"seed": seed} for seed in range(settings.seeds)]


def run(settings: Settings, task: Task, workspace: Workspace) -> dict[str, Any]:
    """Train the generator, the flow, the ratios and the classifiers. Return accuracies and numbers of each stage."""
    seed, parts = task["seed"], split(_drawings(settings))
    about = {name: value for name, value in asdict(settings).items() if name != "seeds"}
    with workspace.journal(f"seed-{seed}", {**about, **task, "commit": commit()}) as journal:
        dagan, flow = journal.folder / "dagan", journal.folder / "flow"
        generated = journal.arrays(GENERATED, lambda: generate(settings, parts["training"], seed, dagan))
        log_r = {
            "x": journal.arrays("ratio-x", lambda: ratio_in_x(settings, parts["training"], generated, seed)),
            "z": journal.arrays("ratio-z", lambda: ratio_in_z(settings, parts, generated, seed, flow)),
        }
        for checkpoint in (dagan, flow):  # large, and no longer needed
            shutil.rmtree(checkpoint, ignore_errors=True)
        by_setting: dict[str, Any] = {}
        for name, weights in weights_by_setting({space: one["made"] for space, one in log_r.items()}).items():
            by_setting[name] = journal.entry(
                f"classifier-{len(by_setting)}",
                lambda name=name, weights=weights: train_one(settings, name, parts, generated, weights, seed),
            )
    recognized = by_setting[DATA]["recognized"]
    return {
        "settings": by_setting,
        "ratios": {space: of_ratio(one["real"], one["made"], recognized) for space, one in log_r.items()},
        "bits": {kind: log_r["z"][f"bits_{kind}"].item() for kind in ("real", "made")},
        "gap": generated["gaps"].tolist(),
    }


def _drawings(settings: Settings) -> np.ndarray:
    """Return the drawings of all characters, of shape (k, 20, 784)."""
    return black_and_white(grouped(*read(find(FILE)), settings.classes))


def runs_of(outcomes: Sequence[Outcome], name: str) -> list[dict[str, Any]]:
    """Return the result of a setting in each run. `SELECTED` is the γ with the lowest validation loss."""
    runs = [one.result["settings"] for one in outcomes]
    if name != SELECTED:
        return [one[name] for one in runs]
    names = [weighted("z", gamma) for gamma in GAMMAS["z"]]
    return [min((one[name] for name in names), key=lambda result: result["loss"]) for one in runs]


def accuracies(outcomes: Sequence[Outcome], name: str, part: str = "test") -> np.ndarray:
    """Return the accuracy of each run in a setting, of shape (t,)."""
    return np.array([one[part] for one in runs_of(outcomes, name)])


def right_by_character(outcomes: Sequence[Outcome], name: str) -> np.ndarray:
    """Return the accuracy of a setting by character, a mean over runs, of shape (k,)."""
    return np.mean([one["by_character"] for one in runs_of(outcomes, name)], axis=0) / TEST


def report(settings: Settings, outcomes: list[Outcome]) -> Report:
    """Return accuracies with those of the paper, the quality of ratios and generator, and the claims."""
    names = [*outcomes[0].result["settings"], SELECTED]
    lines = [
        [
            name,
            f"{PAPER[name]:.3f}" if name in PAPER else "",
            *[with_error(accuracies(outcomes, name, of)) for of in PARTS],
        ]
        for name in names
    ]
    title = f"Accuracy on {settings.classes} characters: {of_runs(len(outcomes))}"
    table = PaperTable(title, ["setting", f"paper, {PAPER_CLASSES} characters", *PARTS], lines)
    return Report([table, _of_ratios(outcomes), _of_generator(outcomes)], _claims(outcomes))


def _of_ratios(outcomes: list[Outcome]) -> PaperTable:
    lines = []
    for space in GAMMAS:
        ratios = [one.result["ratios"][space] for one in outcomes]
        names = ("auc", "auc_recognized", "mean_real", "mean_made")
        numbers = [np.array([one[name] for one in ratios if one[name] is not None]) for name in names]
        shares = [np.array([one["effective"][f"{gamma:g}"] for one in ratios]) for gamma in GAMMAS["z"]]
        lines.append([space, *[with_error(values) if len(values) else "–" for values in (*numbers, *shares)]])
    head = [
        "space",
        "AUC, real over generated",
        "AUC, recognized over others",
        "mean log r, real",
        "mean log r, generated",
    ]
    return PaperTable(
        "Ratios of real to generated drawings, and the effective sample size of the weights (ESS, as a share)",
        [*head, *[f"ESS, γ = {gamma:g}" for gamma in GAMMAS["z"]]],
        lines,
    )


def _of_generator(outcomes: list[Outcome]) -> PaperTable:
    bits = [np.array([one.result["bits"][kind] for one in outcomes]) for kind in ("real", "made")]
    gap = np.array([[one.result["gap"][k] for k in (0, -1)] for one in outcomes])
    recognized = np.array([np.mean(one["recognized"]) for one in runs_of(outcomes, DATA)])
    return PaperTable(
        "Generator and flow",
        ["what", of_runs(len(outcomes))],
        [
            ["generated drawings whose character the classifier of real ones predicts", with_error(recognized)],
            ["critic's gap in the first twentieth of the steps", with_error(gap[:, 0])],
            ["critic's gap in the last twentieth", with_error(gap[:, 1])],
            ["flow: bits for each pixel of validation drawings", with_error(bits[0])],
            ["flow: bits for each pixel of generated drawings", with_error(bits[1])],
        ],
    )


def _claims(outcomes: list[Outcome]) -> list[Claim]:
    z, x = weighted("z", PAPER_GAMMA["z"]), weighted("x", PAPER_GAMMA["x"])
    return [
        above("weights from z, with the paper's γ, are better than no weights", outcomes, z, MIXTURE),
        above(
            "weights from z, with the γ of lowest validation loss, are better than no weights",
            outcomes,
            SELECTED,
            MIXTURE,
        ),
        above("weights from z are better than weights from x, each with the paper's γ", outcomes, z, x),
        above("weights from z are better than weights from x with the same γ", outcomes, z, weighted("x", 0.2)),
        above("real and generated drawings are better than real ones alone", outcomes, MIXTURE, DATA),
        above("real drawings alone are better than generated ones alone", outcomes, DATA, SYNTHETIC),
    ]


def above(words: str, outcomes: list[Outcome], better: str, worse: str) -> Claim:
    """Return the claim that one setting has a higher test accuracy than another.

    Parameters
    ----------
    words
        The claim.
    done
        Runs. Both settings of a run have the same drawings.
    better, worse
        Names of the settings.
    """
    by_character = right_by_character(outcomes, better) - right_by_character(outcomes, worse)
    gain = Gain(accuracies(outcomes, better) - accuracies(outcomes, worse), shared=float(standard_error(by_character)))
    return Claim(words, gain.verdict, f"{better} minus {worse}: {gain}")


def draw(settings: Settings, outcomes: list[Outcome], keep: Path) -> dict[str, Figure]:
    """Return the accuracies, and a sheet of real and generated drawings if these are on disk."""
    figures = {"": _draw_accuracies(settings, outcomes)}
    path = keep / f"seed-{outcomes[0].task['seed']}" / f"{GENERATED}.entry.safetensors"
    if path.exists() and settings.classes >= 10:
        figures["drawings"] = _draw_sheets(settings, path)
    return figures


def _draw_accuracies(settings: Settings, outcomes: list[Outcome]) -> Figure:
    names = [*outcomes[0].result["settings"], SELECTED]
    values = [accuracies(outcomes, name) for name in names]
    figure = new_figure(0.36 * len(names) + 1.4)
    axes = figure.subplots()
    axes.set(xlabel="test accuracy", ylabel="training drawings", title="Accuracy of a classifier of characters")
    rows = np.arange(len(names))[::-1]
    for row, runs in zip(rows, values, strict=True):
        axes.plot(runs, np.full(len(runs), row), "|", color=BLUE, ms=10)
    bars = [float(standard_error(runs)) for runs in values] if len(outcomes) > 1 else None
    means = [runs.mean() for runs in values]
    label = f"{settings.classes} characters, {of_runs(len(outcomes))}"
    axes.errorbar(means, rows, xerr=bars, fmt="o", color=BLUE, ms=6, capsize=3, label=label)
    paper = [(PAPER[name], row) for name, row in zip(names, rows, strict=True) if name in PAPER]
    axes.plot(*np.transpose(paper), "D", color=VERMILION, mfc="none", ms=7, label=f"paper, {PAPER_CLASSES} characters")
    axes.set_yticks(rows, [_plain(name) for name in names])
    legend_below(figure, axes, 2)
    return figure


def _plain(name: str) -> str:
    """Return the label of a setting in the figure."""
    labels = {DATA: "real drawings", SYNTHETIC: "generated drawings", MIXTURE: "both, no weights"}
    if name in labels:
        return labels[name]
    weights = name.removeprefix("mixture + ").replace("IW(x)", "weights from x").replace("IW(z)", "weights from z")
    return f"both, {weights.replace('γ of lowest', 'γ by')}"


def _draw_sheets(settings: Settings, path: Path) -> Figure:
    """Draw ten drawings of ten characters in rows, real ones on the left and generated ones on the right."""
    drawings = _drawings(settings)
    generated = read_arrays(path)["images"].reshape(settings.classes, settings.per_class, PIXELS)
    some = np.linspace(0, settings.classes - 1, 10).astype(int)
    each = np.arange(10) * (settings.per_class // 10)  # one from each real drawing
    pages = {"real": drawings[some, :10], "generated from those on the left": generated[some][:, each]}
    return sheets({name: page.reshape(-1, PIXELS) for name, page in pages.items()})
