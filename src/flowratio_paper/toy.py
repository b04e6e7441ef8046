r"""Figures 2, 5 and 6: two Gaussians in the plane that hardly overlap, log r by networks in x and in latent space (z).

Claim: the network in z, after a flow that was trained first (separate training), has the most accurate log r. Flow and
network trained together (joint) are next, best with the smallest weight of the classifier. The network in x, and a flow
trained by the loss of the classifier alone (discriminative), are worst. Cost: about 45 minutes on two cores. Command:
`flowratio reproduce toy --preset laptop`.

p = N([0, 0], I), q = N([3, 3], I), so :math:`\log r = 9 - 3 (x_1 + x_2)` is linear in x. Each sample has
45,000 rows, and a ninth of them decides when to stop. Errors are those on 5000 + 5000 test rows, all of them and those
with :math:`|\log r| < 5`.

*What decides.* Five of six rows have :math:`|\log r| > 5`. There the loss of a classifier is below .007, its gradient
is almost zero, and networks extrapolate. With a penalty λ/2 |w|² the network bends: it is steeper between the samples
than outside. In x, where the truth is a plane, it is too flat in the tails. In z the truth bends too. A flow to a
Gaussian closes the space between the samples, so log r is steep there and flat outside. If the flow acts along the line
of the means alone, the slopes are about 40 and 5 per unit of z. Without a penalty the network in z is too steep. So the
penalty decides. All networks are shown with each of the same penalties, and with the one that held-out rows select,
which cannot see the tails. We did not show why the penalty bends the network. Our guess is ReLU units that overlap
between the samples. Logistic regression in x is exact.

*Weight decay in joint training.* The loss of the classifier has the weight α, the penalty has not. So the network has
the effective penalty λ/α, a hundred times the paper's at α = .01. Joint training is also shown with the penalty α λ.

*Differences from the paper.* Its table has a weight decay of 5e-4, which its code did not use equally in x and z. Its
baseline has x in its own units. The library standardizes x before any network: both are shown. A block of the flow has
two hidden layers, as in the paper's code, where its table has `n_hidden` 1. Networks in x and in z are trained by the
recipe of the library. It has a warm-up, a cosine schedule, clipped gradients, and weights averaged over the last tenth
of the steps. Joint ones are trained by the paper's recipe of the flow, which has none of these, with one penalty on
flow and network. The `laptop` preset has fewer and larger steps than the paper, in flow and networks, and 5000 rows of
each sample for `AutoRatio`. "Our goal" is a limit that we set, not the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from flowratio_paper.reports import Claim, PaperTable, Report
from flowratio_paper.running import Outcome, Task
from flowratio_paper.stages import Workspace
from flowratio_paper.toy_figures import draw_data, draw_encodings, draw_estimates
from flowratio_paper.toy_fits import (
    AUTO,
    DISCRIMINATIVE,
    LOGISTIC_X,
    LOGISTIC_Z,
    RAW,
    SEPARATE,
    TEST_ROWS,
    Settings,
    X,
    draw_test,
    fits,
    joint,
    joint_scaled,
    log_ratio,
)
from flowratio_paper.verdicts import Answer, beyond, every, of_runs, with_error, with_interval

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

TITLE = "Figures 2, 5, 6: log r of two Gaussians in the plane, by networks in x and z, and by simpler models"
NEAR = 5.0  # |log r| below which rows are near the boundary
LIMITS = {SEPARATE: 0.5, AUTO: 0.05}  # our goals
# mean squared error of log r on all rows by the authors' code, run again, by method and penalty
AUTHORS = {
    (RAW, 5e-4): 8.7,
    (RAW, 0.0): 2.4,
    (X, 5e-4): 7.7,
    (X, 0.0): 1.75,
    (SEPARATE, 5e-4): 0.85,
    (SEPARATE, 0.0): 1.98,
}
AUTHORS_PLAIN = {LOGISTIC_X: 0.003, LOGISTIC_Z: 151.0}
_POINTS = 150  # test rows of each sample that are drawn

PRESETS = {
    "quick": Settings(
        1,
        rows=2500,
        penalties=(0.0, 5e-4),
        alphas=(0.1,),
        epochs=8,
        learning_rate=2e-3,
        flow_epochs=4,
        flow_batch_size=200,
        flow_learning_rate=2e-3,
        auto_rows=1500,
        candidates=("lda", "logistic", "qda", "quadratic"),
    ),
    "laptop": Settings(
        10,
        epochs=25,
        batch_size=1024,
        learning_rate=2e-3,
        flow_epochs=10,
        flow_batch_size=1000,
        flow_learning_rate=1.5e-3,
        auto_rows=5000,
    ),
    "paper": Settings(10),
}


def errors(estimated: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """Return the mean squared error of log r on all rows, the same near the boundary, and the absolute one there."""
    difference, near = estimated - truth, np.abs(truth) < NEAR
    squared, absolute = difference**2, np.abs(difference)
    return {
        "all": float(squared.mean()),
        "near": float(squared[near].mean()),
        "near_absolute": float(absolute[near].mean()),
    }


def strategies(settings: Settings) -> list[str]:
    """Return the names of the paper's networks."""
    return [RAW, X, SEPARATE, *map(joint, settings.alphas), DISCRIMINATIVE]


def tasks(settings: Settings) -> list[Task]:
    """Return a task for each strategy, and one for the automatic choice, of each seed."""
    parts = (*strategies(settings), AUTO)
    return [{"seed": seed, "part": part} for seed in range(settings.seeds) for part in parts]


def run(settings: Settings, task: Task, workspace: Workspace) -> dict[str, Any]:
    """Fit the ratios of a part. Return their errors and, for the first seed, points of the figures."""
    seed, test = task["seed"], draw_test(task["seed"])
    rows, points = [], {}
    for method, penalty, ratio, training in fits(settings, task["part"], seed):
        log_r = ratio.log_ratio(test)
        rows.append({"method": method, "penalty": penalty, **errors(log_r, log_ratio(test)), **training})
        if seed == 0 and penalty in (None, settings.paper_penalty):
            points[method] = _points(ratio, test, log_r)
    return {"fits": rows, "points": points}


def _points(ratio: Any, test: np.ndarray, log_r: np.ndarray) -> dict[str, Any]:
    """Return log r and, with a flow, z of 300 test rows in 4 digits."""
    few = figure_rows()
    points: dict[str, Any] = {"log_r": _rounded(log_r[few])}
    if hasattr(ratio, "featurizer_"):
        points["z"] = [_rounded(column) for column in ratio.featurizer_.transform(test[few]).T]
    return points


def figure_rows() -> np.ndarray:
    """Return the positions of the test rows in the figures, those of p first."""
    return np.concatenate([np.arange(_POINTS), TEST_ROWS + np.arange(_POINTS)])


def _rounded(values: np.ndarray) -> list[float]:
    return [float(f"{value:.4g}") for value in values]


def values(outcomes: Sequence[Outcome], method: str, penalty: float | None, name: str) -> np.ndarray:
    """Return a number of a method by seed, of shape (s,), or (0,) if it was not run with this penalty."""
    fits = [fit for one in outcomes for fit in one.result["fits"] if fit["method"] == method]
    return np.array([fit[name] for fit in fits if fit["penalty"] == penalty])


def by_held_out_loss(outcomes: Sequence[Outcome], method: str) -> tuple[np.ndarray, list[float]]:
    """Return errors on all rows by seed, (s,), of the penalty with the lowest held-out loss, and these penalties."""
    best = []
    for one in outcomes:
        fits = [fit for fit in one.result["fits"] if fit["method"] == method and fit["penalty"] is not None]
        if fits:
            best.append(min(fits, key=lambda fit: fit["held_out"]))
    return np.array([fit["all"] for fit in best]), [fit["penalty"] for fit in best]


def report(settings: Settings, outcomes: list[Outcome]) -> Report:
    """Return errors by method and penalty, with those of the authors' code, and the claims."""
    runs = of_runs(settings.seeds)
    head = ["network", *(f"λ = {penalty:g}" for penalty in settings.penalties)]
    everywhere, near = [], []
    for method in strategies(settings):
        cells = [_cell(values(outcomes, method, one, "all"), AUTHORS.get((method, one))) for one in settings.penalties]
        errors_of, penalties = by_held_out_loss(outcomes, method)
        everywhere.append([method, *cells, f"{_cell(errors_of)} (λ: {', '.join(f'{one:g}' for one in penalties)})"])
        parts = [
            [values(outcomes, method, one, name) for name in ("near", "near_absolute")] for one in settings.penalties
        ]
        near.append([method, *(" / ".join(map(_cell, two)).strip(" /") for two in parts)])
    plain = [
        [
            method,
            _cell(values(outcomes, method, None, "all"), AUTHORS_PLAIN.get(method)),
            *(_cell(values(outcomes, method, None, name)) for name in ("near", "near_absolute")),
        ]
        for method in (LOGISTIC_X, LOGISTIC_Z, AUTO)
    ]
    tables = [
        PaperTable(f"Mean squared error of log r: {runs} [authors' code]", [*head, "λ by held-out loss"], everywhere),
        PaperTable(f"Errors of log r where |log r| < {NEAR:g}: squared / absolute", head, near),
        PaperTable(f"Other models: {runs} [authors' code]", ["model", "all", "near", "near, absolute"], plain),
        *_table_of_scaled(settings, outcomes),
    ]
    return Report(tables, _claims(settings, outcomes))


def _scaled(settings: Settings, outcomes: list[Outcome]) -> dict[str, np.ndarray]:
    """Return errors on all rows by seed, (s,), of joint training with the penalty α λ. Older results have none."""
    penalty = settings.paper_penalty
    errors_of = {
        joint(one): values(outcomes, joint_scaled(one), one * penalty, "all") for one in sorted(settings.alphas)
    }
    return errors_of if all(map(len, errors_of.values())) else {}


def _table_of_scaled(settings: Settings, outcomes: list[Outcome]) -> list[PaperTable]:
    penalty = settings.paper_penalty
    lines = [
        [name, _cell(values(outcomes, name, penalty, "all")), _cell(errors_of)]
        for name, errors_of in _scaled(settings, outcomes).items()
    ]
    title = "Joint training: mean squared error of log r with the penalty λ, and with α λ"
    return [PaperTable(title, ["network", f"λ = {penalty:g}", f"α λ, λ = {penalty:g}"], lines)] if lines else []


def _cell(errors_of: np.ndarray, authors: float | None = None) -> str:
    if not len(errors_of):
        return ""
    return with_error(errors_of, ".3g", ".2g") + ("" if authors is None else f" [{authors:g}]")


def _claims(settings: Settings, outcomes: list[Outcome]) -> list[Claim]:
    fixed = settings.paper_penalty
    by_loss, _ = by_held_out_loss(outcomes, SEPARATE)
    best = min(settings.penalties, key=lambda one: values(outcomes, SEPARATE, one, "all").mean())
    oracle = values(outcomes, SEPARATE, best, "all")
    claims = []
    for penalty in settings.penalties:
        z = values(outcomes, SEPARATE, penalty, "all")
        for name in (RAW, X):
            words = f"λ = {penalty:g}: the network is better in z than in {name}"
            claims.append(_less(words, z, values(outcomes, name, penalty, "all")))
    for name in (RAW, X):
        words = f"λ by held-out loss: the network is better in z than in {name}"
        claims.append(_less(words, by_loss, by_held_out_loss(outcomes, name)[0]))
    claims += _claims_of_order(settings, outcomes)
    limit = LIMITS[SEPARATE]
    words = f"our goal: separate training has an error below {limit:g}"
    return [
        *claims,
        _below(f"{words}, λ = {fixed:g} as in the paper", values(outcomes, SEPARATE, fixed, "all"), limit),
        _below(f"{words}, λ by held-out loss", by_loss, limit),
        _below(f"{words}, best λ (oracle: {best:g})", oracle, limit),
        _below(
            f"our goal: AutoRatio has an error below {LIMITS[AUTO]:g}",
            values(outcomes, AUTO, None, "all"),
            LIMITS[AUTO],
        ),
    ]


def _claims_of_order(settings: Settings, outcomes: list[Outcome]) -> list[Claim]:
    claims = []
    for penalty in settings.joint_penalties:
        errors_of = {name: values(outcomes, name, penalty, "all") for name in strategies(settings)}
        together = {name: errors_of[name] for name in map(joint, sorted(settings.alphas))}
        best = {SEPARATE: errors_of.pop(SEPARATE)}
        worst = {name: errors_of[name] for name in (RAW, DISCRIMINATIVE)}
        smallest = dict([next(iter(together.items()))])
        rest = {name: ours for name, ours in together.items() if name not in smallest}
        claims.append(_ordered(f"λ = {penalty:g}: separate training is the best strategy", best, errors_of))
        if rest:
            claims.append(_ordered(f"λ = {penalty:g}: among joint trainings, the smallest α is best", smallest, rest))
        words = f"λ = {penalty:g}: the network in raw x and discriminative training are worst"
        claims.append(_ordered(words, best | together, worst))
    scaled = list(_scaled(settings, outcomes).items())
    if len(scaled) > 1:
        words = "not in the paper: with the penalty α λ, among joint trainings, the smallest α is best"
        claims.append(_ordered(words, dict(scaled[:1]), dict(scaled[1:])))
        words = (
            f"not in the paper: {scaled[0][0]} is better with the penalty α λ than with λ = {settings.paper_penalty:g}"
        )
        claims.append(_less(words, scaled[0][1], values(outcomes, scaled[0][0], settings.paper_penalty, "all")))
    networks = [values(outcomes, name, one, "all") for name in strategies(settings) for one in settings.penalties]
    network = min((one for one in networks if len(one)), key=np.mean)
    linear, latent = (values(outcomes, name, None, "all") for name in (LOGISTIC_X, LOGISTIC_Z))
    best = _less("logistic regression in x is better than the best network", linear, network)
    return [*claims, best, _less("logistic regression is worse in z than in x", linear, latent)]


def _below(words: str, ours: np.ndarray, limit: float) -> Claim:
    return Claim(words, beyond(limit - ours), with_interval(ours, ".3g"))


def _less(words: str, ours: np.ndarray, other: np.ndarray) -> Claim:
    """Return the claim that errors are lower than others of the same seeds."""
    measured = f"{ours.mean():.3g} against {other.mean():.3g}, difference {with_interval(other - ours, '.3g')}"
    return Claim(words, beyond(other - ours), measured)


def _ordered(words: str, low: Mapping[str, np.ndarray], high: Mapping[str, np.ndarray]) -> Claim:
    """Return the claim that each of these errors, (s,) by name, is lower than each of others of the same seeds."""
    verdicts = [beyond(other - ours) for ours in low.values() for other in high.values()]
    means = sorted((float(errors_of.mean()), name) for name, errors_of in (*low.items(), *high.items()))
    errors_by_name = ", ".join(f"{name} {mean:.3g}" for mean, name in means)
    counts = ", ".join(f"{verdict} {verdicts.count(verdict)}" for verdict in Answer)
    return Claim(words, every(verdicts), f"{errors_by_name}. Of {len(verdicts)} pairs: {counts}")


def draw(settings: Settings, outcomes: list[Outcome], keep: Path) -> dict[str, Figure]:
    """Return estimates against the truth (Fig. 2, 5), encodings (Fig. 6) and the data (Fig. 5)."""
    points: dict[str, Any] = {}
    for one in outcomes:
        points |= one.result["points"]
    test = draw_test(0)[figure_rows()]
    names = [*strategies(settings), LOGISTIC_X, LOGISTIC_Z, AUTO]
    with_z = [SEPARATE, *map(joint, settings.alphas), DISCRIMINATIVE]
    errors_of = {name: _drawn_errors(settings, outcomes, name) for name in names}
    return {
        "": draw_estimates({name: points[name]["log_r"] for name in names}, log_ratio(test), errors_of),
        "encodings": draw_encodings({"x": test} | {name: np.transpose(points[name]["z"]) for name in with_z}),
        "data": draw_data(test, log_ratio(test), log_ratio(draw_test(0))),
    }


def _drawn_errors(settings: Settings, outcomes: list[Outcome], name: str) -> np.ndarray:
    """Return the errors by seed of a method in the figure: those with the paper's penalty, if it has one."""
    return values(outcomes, name, None if name in (LOGISTIC_X, LOGISTIC_Z, AUTO) else settings.paper_penalty, "all")
