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
weights use the mixture that a perfect flow would draw. See `against_draws`. In z draws cost nothing. A ratio in x would
have to decode them. This ratio has 30 passes, the others have the ten of the paper.

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

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flowratio_paper.figure_style import BLACK, BLUE, GRAY, GREEN, LIGHT_GRAY, VERMILION, legend_below, new_figure
from flowratio_paper.image_distributions import BACKGROUND, DIGITS, TASKS
from flowratio_paper.images import sheets
from flowratio_paper.reports import Claim, PaperTable, Report
from flowratio_paper.running import Outcome, Task
from flowratio_paper.stages import Workspace, read_arrays
from flowratio_paper.targeted_generation import IMAGES, PERCS, Settings, folder_of, run_cell
from flowratio_paper.verdicts import Answer, Gain, beyond, every, of_runs, standard_error, with_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Table 2, Fig. 9-14: images of a target from a flow of two samples, by SIR with importance weights (IW)"
TARGETS = {
    DIGITS: "zeros and sevens",
    BACKGROUND: "black digits on white",
}
# candidates of the flow are resampled by their weights (sampling-importance-resampling, SIR)
METHODS = {
    "z": "weights from z",
    "draws": "weights from z (against draws)",
    "x": "weights from x",
    "regular": "no weights",
}
_MARKERS, _COLORS = "s^oD", (BLUE, GREEN, VERMILION, GRAY)  # of `METHODS`
_PERC = "perc: training images of the target\nfor each other training image"
RATIOS = {"z": "p/q in z", "draws": "q to draws of the flow in z", "x": "p/q in x"}
PAPER = {
    DIGITS: {
        "z": (0.447, 0.518, 0.777, 0.860),
        "x": (0.441, 0.528, 0.639, 0.754),
        "regular": (0.406, 0.457, 0.596, 0.720),
    },
    BACKGROUND: {
        "z": (0.186, 0.377, 0.580, 0.732),
        "x": (0.085, 0.202, 0.345, 0.528),
        "regular": (0.084, 0.196, 0.304, 0.493),
    },
}
# Papamakarios, Pavlakou, Murray (2017): MAF of 5 blocks, test images of MNIST. Nats of logits, bits of a pixel
MAF_LOGIT, MAF_BITS = -1300.5, 1.89
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


@dataclass(frozen=True)
class Cell:
    """The draws of a method in the runs of one task and perc.

    Parameters
    ----------
    draws
        By run: see `targeted_generation`.
    samples
        Images of each run.
    weighted
        Whether they were resampled from candidates by weights.
    """

    draws: list[dict[str, Any]]
    samples: int
    weighted: bool

    @property
    def shares(self) -> np.ndarray:
        """Share of the target in each run, of shape (t,)."""
        return np.array([one["share"] for one in self.draws])

    @property
    def of_draws(self) -> float:
        r"""Standard error of their mean if all runs are alike.

        For n images and an effective sample size of m, the variance of a share s is about :math:`s (1 - s) (1/n +
        1/m)`. Without weights it is :math:`s (1 - s) / n`. Weights of the target are larger than the others, so this is
        too large for s near 1 and too small for s near 0.
        """
        mean = float(self.shares.mean())
        sizes = [one["effective"] * one["candidates"] if self.weighted else math.inf for one in self.draws]
        return math.sqrt(mean * (1 - mean) * sum(1 / self.samples + 1 / m for m in sizes)) / len(self.draws)

    @property
    def error(self) -> float:
        """Standard error of the mean share: that over the runs, or that of the draws if it is larger."""
        return max(self.of_draws, float(standard_error(self.shares, 0.0)))

    @property
    def strange(self) -> float:
        """Share of strange images, a mean over runs."""
        return float(np.mean([one["strange"] for one in self.draws]))

    @property
    def target_shares(self) -> tuple[str, str]:
        """Share of the target in strange images, and in the others. A dash if there are none."""
        strange = float(np.mean([one["strange_target"] for one in self.draws]))
        parts = (strange, self.strange), (self.shares.mean() - strange, 1 - self.strange)
        first, second = (f"{target / share:.3f}" if share > 0 else "–" for target, share in parts)
        return first, second


def cell(settings: Settings, outcomes: Sequence[Outcome], task: str, method: str, perc: float) -> Cell:
    """Return the draws of a method for a task and perc, run by run."""
    draws = [one.result["methods"][method] for one in outcomes if one.task["task"] == task and one.task["perc"] == perc]
    return Cell(draws, settings.samples, weighted=method != "regular")


def report(settings: Settings, outcomes: list[Outcome]) -> Report:
    """Return the shares with those of the paper, the quality of flow and weights, and the claims."""
    shares = [_table(settings, outcomes, task) for task in TASKS]
    behind = [_of_strange(settings, outcomes), _of_flows(settings, outcomes), _of_ratios(settings, outcomes)]
    return Report([*shares, *behind], _claims(settings, outcomes))


def _published(task: str, method: str, perc: float) -> float | None:
    return PAPER[task][method][PERCS.index(perc)] if method in PAPER[task] and perc in PERCS else None


def _table(settings: Settings, outcomes: list[Outcome], task: str) -> PaperTable:
    lines = []
    for method, name in METHODS.items():
        cells = []
        for perc in settings.percs:
            ours, paper = cell(settings, outcomes, task, method, perc), _published(task, method, perc)
            published = "" if paper is None else f" [{paper:.3f}]"
            cells.append(f"{ours.shares.mean():.3f} ± {ours.error:.3f}{published}")
        lines.append([name, *cells])
    lines.append(["no weights, perfect flow", *[f"{perc / (1 + perc):.3f}" for perc in settings.percs]])
    runs = of_runs(settings.seeds)
    runs += " ± standard error of the draws" if settings.seeds == 1 else ", or of the draws if larger"
    title = f"{task}: share of {TARGETS[task]} in {settings.samples} images ({runs}) [paper]"
    return PaperTable(title, ["method", *[f"perc = {perc:g}" for perc in settings.percs]], lines)


def _of_strange(settings: Settings, outcomes: list[Outcome]) -> PaperTable:
    """Return the share of strange images, and that of the target in these and in the others, as means."""
    lines = []
    for task, perc, _ in _cells(settings, outcomes):
        for method, name in METHODS.items():
            images = cell(settings, outcomes, task, method, perc)
            lines.append([task, f"{perc:g}", name, f"{images.strange:.3f}", *images.target_shares])
    title = "Outlier images (brighter or darker than nearly all of p and q), and the share of the target (means)"
    return PaperTable(
        title, ["task", "perc", "method", "outliers", "target in outliers", "target in the others"], lines
    )


def _of_flows(settings: Settings, outcomes: list[Outcome]) -> PaperTable:
    """Return scores of flow and attribute classifier on test images, and seconds of the draws, as means over runs."""
    lines = []
    for task, perc, results in _cells(settings, outcomes):
        flow = [np.mean([one["flow"][name] for one in results]) for name in ("logit", "bits")]
        seconds = [np.mean([one["methods"][method]["seconds"] for one in results]) for method in METHODS]
        line = [task, f"{perc:g}", "{} + {}".format(*results[0]["rows"]), f"{flow[0]:.1f}", f"{flow[1]:.3f}"]
        line.append(f"{np.mean([one['accuracy'] for one in results]):.4f}")
        lines.append([*line, *[f"{each:.1f}" for each in seconds]])
    lines.append(["MAF (5), published", "", "MNIST", f"{MAF_LOGIT:.1f}", f"{MAF_BITS:.2f}", *[""] * (1 + len(METHODS))])
    head = [
        "task",
        "perc",
        "images of p + q",
        "log-density in logit space (nats)",
        "bits per pixel",
        "attribute accuracy",
    ]
    head += [f"seconds, {name}" for name in METHODS]
    title = f"Flow and attribute classifier on test images, and seconds for {settings.samples} images (means)"
    return PaperTable(title, head, lines)


def _of_ratios(settings: Settings, outcomes: list[Outcome]) -> PaperTable:
    """Return scores of the ratios on test images, and effective shares of candidates, as means over runs."""
    lines = []
    for task, perc, results in _cells(settings, outcomes):
        for of, name in RATIOS.items():
            ratio = [np.mean([one["ratio"][of][what] for one in results]) for what in ("loss", "accuracy")]
            draws = [np.mean([one["methods"][of][what] for one in results]) for what in ("effective", "unique")]
            line = [task, f"{perc:g}", name, *[f"{each:.3f}" for each in (*ratio, *draws)]]
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


def _claims(settings: Settings, outcomes: list[Outcome]) -> list[Claim]:
    weighted = [method for method in METHODS if method != "regular"]
    return [
        *[_claim_of_order(settings, outcomes, task, method, "regular") for method in weighted for task in TASKS],
        *[_claim_of_spaces(settings, outcomes, better, other) for better, other in (("z", "x"), ("draws", "x"))],
        _claim_of_spaces(settings, outcomes, "draws", "z"),
        *_claims_of_level(settings, outcomes),
        *_claims_of_flow(settings, outcomes),
    ]


def _gains(settings: Settings, outcomes: list[Outcome], task: str, better: str, other: str) -> dict[str, Gain]:
    """Return the gain of a method over another for each perc."""
    gains = {}
    for perc in settings.percs:
        one, two = (cell(settings, outcomes, task, method, perc) for method in (better, other))
        gains[f"perc {perc:g}"] = Gain(one.shares - two.shares, math.hypot(one.of_draws, two.of_draws))
    return gains


def _claim_of_order(settings: Settings, outcomes: list[Outcome], task: str, better: str, other: str) -> Claim:
    gains = _gains(settings, outcomes, task, better, other)
    answer = every([gain.verdict for gain in gains.values()])
    return Claim(
        f"{task}: {METHODS[better]} draw more of the target than {METHODS[other]} at every perc", answer, _listed(gains)
    )


def _claim_of_spaces(settings: Settings, outcomes: list[Outcome], better: str, other: str) -> Claim:
    gains = {f"{task}, {p}": g for task in TASKS for p, g in _gains(settings, outcomes, task, better, other).items()}
    verdicts, n_least = [gain.verdict for gain in gains.values()], 0.75 * len(gains)
    n_above, n_open = verdicts.count(Answer.YES), verdicts.count(Answer.INCONCLUSIVE)
    answer = Answer.of(n_above >= n_least)
    if answer is Answer.NO and n_above + n_open >= n_least:
        answer = Answer.INCONCLUSIVE
    words = f"{METHODS[better]} draw more of the target than {METHODS[other]} in at least three of four cells"
    return Claim(words, answer, f"{n_above} of {len(gains)}, {n_open} inconclusive: {_listed(gains)}")


def _claims_of_level(settings: Settings, outcomes: list[Outcome]) -> list[Claim]:
    claims, perc = [], settings.percs[-1]
    for method in ("z", "draws"):
        for task in TASKS:
            ours, paper = cell(settings, outcomes, task, method, perc), _published(task, "z", perc)
            if paper is not None:
                words = (
                    f"{task}: {METHODS[method]} draw more of the target than the paper's {paper:.3f} at perc = {perc:g}"
                )
                gain = Gain(ours.shares - paper, ours.of_draws)
                claims.append(Claim(words, gain.verdict, f"{ours.shares.mean():.3f}, {gain}"))
    return claims


def _claims_of_flow(settings: Settings, outcomes: list[Outcome]) -> list[Claim]:
    """Return whether flows are as good as the published one, for comparable images.

    An inverted image has the density of the original, in logit space too, and a mixture of both costs log 2 nats or
    less. So the mixtures of `diff-background` are comparable with all of MNIST.
    """
    claims = []
    for perc in settings.percs:
        flows = [one.result["flow"] for one in outcomes if one.task["task"] == BACKGROUND and one.task["perc"] == perc]
        nats, bits = (np.array([one[name] for one in flows]) for name in ("logit", "bits"))
        words = f"{BACKGROUND}, perc = {perc:g}: the flow is above the log-density published for a MAF of MNIST"
        measured = f"{with_error(nats, '.1f')} nats in logit space and {bits.mean():.3f} bits per pixel"
        claims.append(Claim(words, beyond(nats - MAF_LOGIT), f"{measured}, published {MAF_LOGIT} and {MAF_BITS}"))
    return claims


def _listed(gains: Mapping[Any, Gain]) -> str:
    return ", ".join(f"{name} {gain}" for name, gain in gains.items())


def draw(settings: Settings, outcomes: list[Outcome], keep: Path) -> dict[str, Figure]:
    """Return the shares with those of the paper, and sheets of 100 images of the first run, if they are on disk."""
    figures = {"": _draw_shares(settings, outcomes)}
    for task in TASKS:
        for perc in settings.percs:
            path = keep / folder_of({"task": task, "perc": perc, "seed": 0}) / f"{IMAGES}.entry.safetensors"
            if path.is_file():
                arrays = read_arrays(path)
                pages = {METHODS[name]: arrays[name] for name in METHODS}
                title = f"Images toward the target ({TARGETS[task]}), perc = {perc:g}"
                figures[f"{task}-{perc:g}"] = sheets(pages, title)
    return figures


def _draw_shares(settings: Settings, outcomes: list[Outcome]) -> Figure:
    """Draw the methods side by side for each perc, so that equal shares do not hide each other."""
    figure = new_figure(4.8)
    row = figure.subplots(1, len(TASKS), sharey=True)
    at = np.arange(len(settings.percs))
    for axes, task in zip(row, TASKS, strict=True):
        for k, (method, name) in enumerate(METHODS.items()):
            cells = [cell(settings, outcomes, task, method, perc) for perc in settings.percs]
            means, errors, x = [one.shares.mean() for one in cells], [one.error for one in cells], at + 0.2 * (k - 1.5)
            look: Any = {"fmt": _MARKERS[k], "color": _COLORS[k], "ms": 6, "capsize": 2}
            axes.errorbar(x, means, errors, label=name, **look)
            published = [_published(task, method, perc) for perc in settings.percs]
            if None not in published:
                axes.plot(x, published, _MARKERS[k], color=_COLORS[k], mfc="white", ms=6, label=f"{name}, paper")
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
