r"""Two Gaussians in one dimension that move apart, and logistic regression, which has the right form (Section 3.1).

Claim: with fewer rows than a bound that grows as exp(m²/2), the samples do not overlap and the slope of log r goes to
infinity. Cost: half a minute on one core. Command: `flowratio reproduce motivating --preset laptop`.

p = N(m, 1) and q = N(−m, 1), so that log r = 2mx. Among n rows of each sample there is a row of p at x ≤ 0 with a
probability of δ or less while

.. math:: n < \frac{\log(1 - \delta)}{\log(1 - e^{-m^2/2})}

(Appendix B). Without such rows a line separates the samples, and the slope of maximum likelihood is infinite. Not in
the paper: the exact probability Φ(−m) in place of its bound, and whether ten times the rows are enough. We also compare
the two linear ratios of the library with maximum likelihood.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import log_ndtr
from sklearn.linear_model import LogisticRegression

from flowratio import ClassifierRatio
from flowratio_paper.figure_style import BLUE, GRAY, ORANGE, VERMILION, new_figure
from flowratio_paper.reports import Claim, PaperTable, Report
from flowratio_paper.running import Outcome, Task
from flowratio_paper.stages import Workspace
from flowratio_paper.verdicts import Answer, beyond, every

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Motivating example in one dimension: slope of log r, and the rows that it needs (Section 3.1, Appendix B)"
DELTA = 0.05
_LARGEST = 1e3  # times the true slope: where an infinite one is drawn
_SHIFT = "m (means of p and q: m and −m)"


@dataclass(frozen=True)
class Settings:
    """Means of p, rows of each sample, and seeds."""

    shifts: tuple[float, ...]
    rows: int
    seeds: int


PRESETS = {
    "quick": Settings((1.0, 3.0, 6.0), 300, 5),
    "laptop": Settings((0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0), 1000, 100),
    "paper": Settings((0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0), 10_000, 200),
}
LIKELIHOOD = "maximum likelihood"
METHODS: dict[str, Any] = {
    LIKELIHOOD: LogisticRegression(C=1e10, max_iter=2000, tol=1e-8),  # the penalty is too small to matter
    "logistic": "logistic",
    "lda": "lda",
}


def needed_rows(m: float, delta: float = DELTA) -> float:
    """Return the number of rows of p with one at x ≤ 0 with a probability of delta, by the bound of the paper."""
    return float(np.log1p(-delta) / np.log1p(-np.exp(-(m**2) / 2)))


def exact_rows(m: float, delta: float = DELTA) -> float:
    """Return the same with the exact P(x ≤ 0) = Φ(−m)."""
    return float(np.log1p(-delta) / np.log1p(-np.exp(log_ndtr(-m))))


def tasks(settings: Settings) -> list[Task]:
    """Return a task for each mean."""
    return [{"m": m} for m in settings.shifts]


def run(settings: Settings, task: Task, workspace: Workspace) -> dict[str, Any]:
    """Fit linear ratios to samples of each seed."""
    m, n = task["m"], settings.rows
    slopes: dict[str, list[float | None]] = {name: [] for name in METHODS}
    n_separable = 0
    for seed in range(settings.seeds):
        rng = np.random.default_rng([seed, round(100 * m)])
        X_p, X_q = rng.normal(m, 1, (n, 1)), rng.normal(-m, 1, (n, 1))
        separable = bool(X_p.min() > X_q.max())
        n_separable += separable
        for name, method in METHODS.items():
            if name == LIKELIHOOD and separable:
                slopes[name].append(None)  # infinite: any steeper line is more likely
                continue
            low, high = ClassifierRatio(method).fit_samples(X_p, X_q).log_ratio([[-1.0], [1.0]])
            slopes[name].append(round(float(high - low) / (4 * m), 5))
    return {"slopes": slopes, "separable": n_separable / settings.seeds}


def report(settings: Settings, outcomes: list[Outcome]) -> Report:
    """Return slopes, relative to the true one, by m."""
    lines = []
    for one in outcomes:
        m = one.task["m"]
        cells = ["{1:.3g} ({0:.3g}, {2:.3g})".format(*_spread(one, name)) for name in METHODS]
        rows = f"{one.result['separable']:.2f}", f"{needed_rows(m):.3g}", f"{exact_rows(m):.3g}"
        lines.append([f"{m:g}", *cells, *rows])
    too_few = f"n below which {100 * (1 - DELTA):.0f} % of draws have no row of p at x ≤ 0"
    head = ["m", *METHODS, "samples without overlap", f"{too_few}, bound of the paper", f"{too_few}, exact"]
    title = f"Slope / true slope 2m, median (10 %, 90 %) of {settings.seeds} draws of {settings.rows} + {settings.rows}"
    return Report([PaperTable(title, head, lines)], _claims(settings, outcomes))


def _claims(settings: Settings, outcomes: list[Outcome]) -> list[Claim]:
    claims = []
    for name, rows in (("the paper's bound", needed_rows), ("the exact number", exact_rows)):
        few = [one for one in outcomes if rows(one.task["m"]) > settings.rows]
        many = [one for one in outcomes if rows(one.task["m"]) < settings.rows / 10]
        # no row of p at x ≤ 0 and none of q at x ≥ 0: two chances of δ
        words = f"with fewer rows than {name}, samples do not overlap in {100 * (1 - 2 * DELTA):.0f} % of draws or more"
        claims.append(_by_shift(words, few, lambda slopes: np.isinf(slopes) - (1 - 2 * DELTA)))
        words = f"with fewer rows than {name}, the slope of maximum likelihood is infinite in most draws"
        claims.append(_by_shift(words, few, lambda slopes: np.isinf(slopes) - 0.5))
        words = f"not in the paper: with ten times {name}, the slope is within 20 % of the true one in most draws"
        claims.append(_by_shift(words, many, lambda slopes: (np.abs(slopes - 1) < 0.2) - 0.5))
    return [claim for claim in claims if claim.measured]


def _by_shift(words: str, outcomes: list[Outcome], excess: Callable[[np.ndarray], np.ndarray]) -> Claim:
    """Return the claim that an excess, (seeds,) from slopes, is above 0 for every m."""
    verdicts = {one.task["m"]: beyond(excess(_slopes(one, LIKELIHOOD))) for one in outcomes}
    shifts = {verdict: [f"{m:g}" for m in verdicts if verdicts[m] is verdict] for verdict in Answer}
    measured = ". ".join(f"{verdict} for m of {', '.join(ms)}" for verdict, ms in shifts.items() if ms)
    return Claim(words, every(list(verdicts.values())), measured)


def _slopes(one: Outcome, name: str) -> np.ndarray:
    """Return slopes by the true one, of shape (seeds,)."""
    return np.array([np.inf if slope is None else slope for slope in one.result["slopes"][name]])


def _spread(one: Outcome, name: str) -> np.ndarray:
    """Return three quantiles, each of them one of the slopes."""
    return np.quantile(_slopes(one, name), [0.1, 0.5, 0.9], method="nearest")


def draw(settings: Settings, outcomes: list[Outcome], keep: Path) -> dict[str, Figure]:
    """Draw slopes and needed rows against m."""
    figure = new_figure(4.4)
    left, right = figure.subplots(1, 2)
    _draw_slopes(left, settings, outcomes)
    shifts = [one.task["m"] for one in outcomes]
    fine = np.linspace(min(shifts), max(shifts), 100)
    right.plot(fine, [needed_rows(m) for m in fine], "-", color=VERMILION, label="bound of the paper")
    right.plot(fine, [exact_rows(m) for m in fine], "--", color=BLUE, label="exact number")
    right.axhline(settings.rows, color=GRAY, linewidth=1.2, linestyle=":", label=f"{settings.rows} rows, used here")
    title = f"With fewer rows, {100 * (1 - DELTA):.0f} % of draws\nhave no row of p at x ≤ 0"
    right.set(yscale="log", xlabel=_SHIFT, ylabel="rows of each sample", title=title)
    for axes in (left, right):
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    return {"": figure}


def _draw_slopes(axes: Axes, settings: Settings, outcomes: list[Outcome]) -> None:
    shifts = [one.task["m"] for one in outcomes]
    for name, style, color in zip(METHODS, ("o-", "s-", "^-"), (VERMILION, ORANGE, BLUE), strict=True):
        slopes = np.clip([_spread(one, name) for one in outcomes], 1 / _LARGEST, _LARGEST)
        axes.plot(shifts, slopes[:, 1], style, color=color, markersize=5, label=name)
        axes.fill_between(shifts, slopes[:, 0], slopes[:, 2], color=color, alpha=0.2, linewidth=0)
    axes.axhline(1, color=GRAY, linewidth=1.2, linestyle=":", label="true slope")
    title = (
        f"Slope of log r from {settings.rows} rows of each sample\n(median, and 10 to 90 % of {settings.seeds} draws)"
    )
    axes.set(yscale="log", xlabel=_SHIFT, ylabel="estimated slope / true slope", title=title)
    axes.set_yticks([0.1, 1, 10, 100, _LARGEST], ["0.1", "1", "10", "100", "infinite"])
