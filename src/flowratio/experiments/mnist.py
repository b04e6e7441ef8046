r"""Table 2, Fig. 9 to 14: images of q drawn from a flow of p and q, by a ratio of z and by a ratio of x.

Claim: sampling-importance-resampling (SIR) from a flow of both laws brings more images of the target q by a ratio of z
(digits .860, background .732 at perc = 1) than by a ratio of x (.754, .528), and these more than the flow by itself
(.720, .493). Command: `flowratio reproduce mnist --preset laptop --jobs 2`. Cost: about an hour on two cores; some
days for `paper`.

`diff-digits`: p are the ones and twos, q the zeros and sevens. `diff-background`: p are the digits of MNIST, white on
black, q the same in black on white. There are `perc` times as many images of q as of p. A MAF of 5 blocks is trained on
all of them, an MLP tells p from q, and 1000 images are drawn toward q, by the weights

.. math:: \frac{q}{h} = \frac{1}{\pi r + 1 - \pi}, \qquad r = p/q, \quad \pi = \frac{n_p}{n_p + n_q}

A classifier of the attribute, an MLP that has seen images of both laws, says how many of them are of the target.

*What to expect.* A perfect flow draws a share perc / (1 + perc) of the target: .091, .2, .333, .5. The paper's regular
samples of digits have .406 to .720: its code showed images of values from 0 to 1 to a classifier that had learned 0 to
255, and swapped the mixing proportions. We show the classifier bytes, as it has learned them, and take the equation
above. On an image that is neither law, such as a flow of few steps draws, any classifier of two laws only guesses.

*Noise.* A ratio of z is fitted to z of images with the noise that the flow was trained with: see `image_laws`. Of each
image it sees five draws, twice each, for ten passes over the images: with one draw it learns the noise by heart. On a
flow of another seed at perc = .25 five draws in the place of one brought .51 of the target for .41 (digits), and .95
for .76 (background).

*Presets.* `paper` has the settings of the paper's appendix and the two hidden layers of its code. `laptop` has 5 blocks
with batch norm and one hidden layer of 1024 units, as the paper's table reads, at most 12 700 images of p, as there are
ones and twos, and two runs. Its flows take 2000 steps of AdamW at a rate of .003 that is annealed, with a weight decay
of .1, and their weights are averaged over about the last tenth of them. The held-out likelihood of short runs decided
on these: one layer is better than two, batch norm than none, and of the rates .0015 and .004 the higher. In x every
candidate is decoded; `laptop` has 25 of them for an image there, and 100 in z.

The ratios are alike in all presets and in both spaces: the paper's three layers of 100 units, its 10 epochs, batches of
64, Adam at .001, annealed as in its code. Of our own are pixels of one mean and one scale, 50 steps of warm-up, clipped
gradients and averaged weights. What is kept of a flow and a ratio, a tenth of the images decides, never the attribute.
There are perc times as many images of q as of p in every cell: at perc = 1, digits have 12 188 of each.

*Verdicts.* All methods of a run share its flow, so that they are compared run by run. A difference counts beyond two
standard errors: that over the runs, or that of counts in so many draws if it is larger. One run tells nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flowratio.experiments.image_laws import BACKGROUND, DIGITS, TASKS
from flowratio.experiments.images import sheets
from flowratio.experiments.running import Claim, Done, Report, Table, Task, beyond, every, of_runs, standard_error
from flowratio.experiments.targeted_generation import PERCS, Settings, run_cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Table 2, Fig. 9-14: images of a target law from a flow of two, by ratios of z and of x"
METHODS = {"z": "SIR with IW(z)", "x": "SIR with IW(x)", "regular": "regular sampling"}
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
# Papamakarios, Pavlakou, Murray (2017): MAF of 5 blocks, test images of MNIST; nats of logits, bits of a pixel
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
        samples=100,
        candidates_z=20,
        candidates_x=10,
        attribute_rows=2000,
        test_rows=100,
    ),
    "laptop": Settings(
        2,
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


def run(settings: Settings, task: Task, keep: Path) -> dict[str, Any]:
    """Train a flow and two ratios, draw images by the three methods, and return the shares of the target."""
    return run_cell(settings, task, keep)


def shares(done: Sequence[Done], task: str, method: str, perc: float) -> np.ndarray:
    """Return the share of the target in each run of a cell."""
    cell = [one.result for one in done if one.task["task"] == task and one.task["perc"] == perc]
    return np.array([result["methods"][method]["share"] for result in cell])


def error_of_share(values: np.ndarray, samples: int) -> float:
    """Return the standard error of the mean of shares: that of the runs, or that of the draws if it is larger.

    Parameters
    ----------
    values
        Shares, one for each run.
    samples
        Images that each is a share of.
    """
    return max(_of_draws(values, samples), float(standard_error(values, 0.0)))


def _of_draws(values: np.ndarray, samples: int) -> float:
    """Return the standard error of the mean of shares that is left if all runs are alike: that of counts."""
    mean = float(values.mean())
    return math.sqrt(mean * (1 - mean) / (samples * len(values)))


@dataclass(frozen=True)
class Gain:
    """What there is more of the target, run by run.

    Parameters
    ----------
    by_run
        Differences of shares, of shape (t,).
    of_draws
        Standard error of their mean that the number of draws leaves.
    """

    by_run: np.ndarray
    of_draws: float

    @property
    def holds(self) -> bool | None:
        """Whether it is above 0; None within two standard errors, over runs or of draws, and for one run."""
        return None if abs(self.by_run.mean()) <= 2 * self.of_draws else beyond(self.by_run)

    def __str__(self) -> str:
        return f"{self.by_run.mean():+.3f} ± {max(self.of_draws, float(standard_error(self.by_run, 0.0))):.3f}"


def report(settings: Settings, done: list[Done]) -> Report:
    """Return the shares beside the paper's, what flow and weights are worth, and the claims."""
    return Report(
        [*[_table(settings, done, task) for task in TASKS], _details(settings, done)], _claims(settings, done)
    )


def _published(task: str, method: str, perc: float) -> float | None:
    return PAPER[task][method][PERCS.index(perc)] if perc in PERCS else None


def _table(settings: Settings, done: list[Done], task: str) -> Table:
    lines = []
    for method, name in METHODS.items():
        cells = []
        for perc in settings.percs:
            ours, paper = shares(done, task, method, perc), _published(task, method, perc)
            beside = "" if paper is None else f" [{paper:.3f}]"
            cells.append(f"{ours.mean():.3f} ± {error_of_share(ours, settings.samples):.3f}{beside}")
        lines.append([name, *cells])
    lines.append(["a perfect flow", *[f"{perc / (1 + perc):.3f}" for perc in settings.percs]])
    runs = of_runs(settings.seeds)
    runs += " ± standard error of the draws" if settings.seeds == 1 else ", or of the draws if that is larger"
    title = f"{task}: share of the target in {settings.samples} images, {runs} [paper]"
    return Table(title, ["method", *[f"perc = {perc:g}" for perc in settings.percs]], lines)


def _details(settings: Settings, done: list[Done]) -> Table:
    """Return what is behind the shares, means over runs."""
    lines = []
    for task in TASKS:
        for perc in settings.percs:
            results = [one.result for one in done if one.task["task"] == task and one.task["perc"] == perc]
            flow = [np.mean([result["flow"][name] for result in results]) for name in ("logit", "bits")]
            line = [task, f"{perc:g}", "{} + {}".format(*results[0]["rows"]), f"{flow[0]:.1f}", f"{flow[1]:.3f}"]
            line.append(f"{np.mean([result['accuracy'] for result in results]):.4f}")
            for space in ("z", "x"):
                loss, right = (np.mean([one["ratio"][space][key] for one in results]) for key in ("loss", "accuracy"))
                kept, unique = (
                    np.mean([one["methods"][space][key] for one in results]) for key in ("effective", "unique")
                )
                line.append(f"{loss:.3f}, {right:.3f}; {kept:.2f}, {unique:.2f}, {_tail(results, space)}")
            seconds = [np.mean([one["methods"][method]["seconds"] for one in results]) for method in METHODS]
            lines.append([*line, ", ".join(f"{each:.1f}" for each in seconds)])
    lines.append(["MAF (5), published", "", "MNIST, test", f"{MAF_LOGIT:.1f}", f"{MAF_BITS:.2f}", "", "", "", ""])
    title = (
        "Test images: log-density of the flow in logit space and bits of a pixel, accuracy of the classifier of the "
        "attribute; of each ratio the loss and accuracy on test images, then the effective share of the candidates, "
        "the share of distinct images drawn, and Pareto k̂ of the weights (– if they have no tail); seconds "
        f"by the clock in which {settings.samples} images are drawn"
    )
    head = ["task", "perc", "images of p + q", "nats", "bits", "attribute", "ratio of z", "ratio of x"]
    return Table(title, [*head, "seconds: z, x, regular"], lines)


def _tail(results: Sequence[dict[str, Any]], space: str) -> str:
    found = [one["methods"][space]["k_hat"] for one in results]
    return "–" if any(k is None for k in found) else f"{np.mean(found):.2f}"


def _claims(settings: Settings, done: list[Done]) -> list[Claim]:
    claims = [_claim_of_order(settings, done, task, "z", "regular") for task in TASKS]
    claims += [_claim_of_order(settings, done, task, "x", "regular") for task in TASKS]
    return [*claims, _claim_of_spaces(settings, done), *_claims_of_level(settings, done), _claim_of_flow(done)]


def _gains(settings: Settings, done: list[Done], task: str, better: str, other: str) -> dict[float, Gain]:
    """Return by perc what a method has more of the target than another."""
    found = {}
    for perc in settings.percs:
        pair = [shares(done, task, method, perc) for method in (better, other)]
        of_draws = math.hypot(*[_of_draws(values, settings.samples) for values in pair])
        found[perc] = Gain(pair[0] - pair[1], of_draws)
    return found


def _claim_of_order(settings: Settings, done: list[Done], task: str, better: str, other: str) -> Claim:
    gains = _gains(settings, done, task, better, other)
    verdicts = [gain.holds for gain in gains.values()]
    holds = every(verdicts)
    return Claim(f"{task}: {METHODS[better]} is above {METHODS[other]} at every perc", holds, _told(gains))


def _claim_of_spaces(settings: Settings, done: list[Done]) -> Claim:
    gains = {f"{task} {p:g}": g for task in TASKS for p, g in _gains(settings, done, task, "z", "x").items()}
    verdicts, needed = [gain.holds for gain in gains.values()], 0.75 * len(gains)
    n_above, n_open = verdicts.count(True), verdicts.count(None)
    holds = True if n_above >= needed else None if n_above + n_open >= needed else False
    words = f"{METHODS['z']} is above {METHODS['x']} in three cells of four or more"
    return Claim(words, holds, f"{n_above} of {len(gains)}, {n_open} cannot be told: {_told(gains)}")


def _claims_of_level(settings: Settings, done: list[Done]) -> list[Claim]:
    claims = []
    for task in TASKS:
        ours, paper = shares(done, task, "z", settings.percs[-1]), _published(task, "z", settings.percs[-1])
        if paper is not None:
            words = f"{task}: {METHODS['z']} is above the paper's {paper:.3f} at perc = {settings.percs[-1]:g}"
            gain = Gain(ours - paper, _of_draws(ours, settings.samples))
            claims.append(Claim(words, gain.holds, f"{ours.mean():.3f}, {gain}"))
    return claims


def _claim_of_flow(done: list[Done]) -> Claim:
    """Return whether the flow is as good as the published one, where both can be compared.

    Inverted images have the same density as those they were made from, in logit space too, and which of both an image
    is costs log 2 nats at most: the mixtures of `diff-background` are MNIST as a whole.
    """
    found = [one for one in done if one.task["task"] == BACKGROUND]
    seeds = sorted({one.task["seed"] for one in found})
    nats, bits = (
        np.array([np.mean([one.result["flow"][name] for one in found if one.task["seed"] == seed]) for seed in seeds])
        for name in ("logit", "bits")
    )
    words = f"{BACKGROUND}: the flow is above the log-density that was published for a MAF of MNIST"
    error = f" ± {standard_error(nats):.1f}" if len(nats) > 1 else ""
    told = f"{nats.mean():.1f}{error} nats of logits and {bits.mean():.2f} bits of a pixel"
    return Claim(words, beyond(nats - MAF_LOGIT), f"{told}, published {MAF_LOGIT} and {MAF_BITS}")


def _told(gains: Mapping[Any, Gain]) -> str:
    return ", ".join(f"{name} {gain}" for name, gain in gains.items())


def draw(settings: Settings, done: list[Done], keep: Path) -> dict[str, Figure]:
    """Return the shares beside the paper's, and sheets of 100 images of the first run, where they are kept."""
    figures = {"": _draw_shares(settings, done)}
    for task in TASKS:
        for perc in settings.percs:
            path = keep / f"{task}-{perc:g}.npz"
            if path.is_file():
                with np.load(path) as kept:
                    images = {METHODS[name]: kept[name] for name in METHODS}
                figures[f"{task}-{perc:g}"] = sheets(images, f"{task}, perc = {perc:g}")
    return figures


def _draw_shares(settings: Settings, done: list[Done]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    row = figure.subplots(1, len(TASKS), sharey=True)
    for axes, task in zip(row, TASKS, strict=True):
        for method, marker, fill in zip(METHODS, "sov", ("black", "white", "0.6"), strict=True):
            values = [shares(done, task, method, perc) for perc in settings.percs]
            means, errors = [one.mean() for one in values], [error_of_share(one, settings.samples) for one in values]
            name = METHODS[method]
            axes.plot(PERCS, PAPER[task][method], ":", marker=marker, color="0.6", mfc="none", label=f"{name}, paper")
            axes.errorbar(settings.percs, means, errors, fmt=f"-{marker}", color="black", mfc=fill, label=name)
        grid = np.linspace(0.08, 1, 50)
        axes.plot(grid, grid / (1 + grid), "--", color="0.4", lw=1, label="a perfect flow")
        axes.set(title=task, xlabel="perc: images of q for each of p", ylim=(0, 1.02))
    row[0].set_ylabel("share of the target")
    handles, labels = row[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False)
    return figure
