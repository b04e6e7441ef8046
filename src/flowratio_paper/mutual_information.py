r"""Fig. 4 and 8: mutual information of two Gaussian variables of 20 columns, by each way of training.

Claim: a classifier in latent space (z), trained after the flow, is nearest to the truth. Joint training is close to it
for large α. A classifier in x and discriminative training stay far below. At the end of the paper's figure separate has
11.0 after a peak of 14.1, joint 12.7, discriminative 8.1, baseline 7.8. Cost: about 50 minutes on two cores. Command:
`flowratio reproduce mutual-information --preset laptop --jobs 2`.

x and y have 20 columns, and the k-th columns of x and y have the correlation ρ = .9. The ratio is r = p/q. Here p is
the joint distribution, and q is the product of the marginals (y permuted). The estimate is the mean of log r on 10,000
joint test rows. The true value is

.. math:: I = -\tfrac{d}{2} \log(1 - \rho^2) = 16.607, \qquad \mathrm{Var}_p \log r = d \rho^2

nats, not the 16.67 that the paper prints. A mean may be right by luck. So the tables also show the root mean squared
error of log r, which has a closed form.

*Why curves rise and fall.* Nearly all rows are separated, and the loss of the exact ratio is .0006. Rows with logits of
10 or of 16 add almost no loss. The loss of a network is several times larger (.003 in x, .012 in z), because product
rows have logits up to 11. A penalty on the weights shrinks the logits of all rows. The held-out loss falls, and so does
the estimate, far below the true value. Without a penalty the estimate in z grows beyond the true value. So the penalty
decides the estimates (the paper's 5e-4 gives about the paper's numbers). The held-out loss prefers a penalty that leads
far below the true value. Early stopping cannot prevent the fall in the paper's figure: the loss and the estimate fall
together. Intermediate distributions between p and q (telescoping) need no penalty. In z, their log r of single rows is
still wrong by several nats.

*Differences from the paper.* As in the paper, 80,000 joint and as many product rows are fitted, and 10,000 of each
decide when to stop. `paper` has its settings: MAF of 5 blocks with batch norm and 200 epochs, and MLP of three layers
of 200 units. The MLP has 200 epochs of batches of 128 pairs at 2e-4, and the penalty of 5e-4 only. A block has two
hidden layers, as in the paper's code, where its table has `n_hidden` 1. MLPs in x and in z are trained by the recipe of
the library (warm-up, a cosine of the learning rate, clipped gradients, averaged weights). Joint training in `paper` has
none of these. `laptop` trains flows by the recipe of the library, and the MLP for fewer epochs of larger batches.
Several penalties are shown, and the held-out loss selects one. Joint training has the weight decay of the flow's
recipe, not these penalties. The last weights are shown next to the best ones. Estimates of the library are shown next
to those of the paper, with standard errors, over ρ and d too. "Our goal" is a limit that we set, not the paper.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t

from flowratio_paper.information_figures import Curves, draw_epochs, draw_over_problems
from flowratio_paper.information_runs import (
    TELESCOPING,
    Data,
    Settings,
    run_classifiers,
    run_curve,
    run_joint,
    run_own,
    run_separate,
    truth,
)
from flowratio_paper.reports import Claim, PaperTable, Report
from flowratio_paper.running import Outcome, Task
from flowratio_paper.stages import Workspace
from flowratio_paper.verdicts import Answer, beyond, every, of_runs, standard_error, with_error

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure


TITLE = "Fig. 4 and 8: mutual information of 20 + 20 columns, by baseline, separate, joint and discriminative training"


PRESETS = {
    "quick": Settings(
        1,
        columns=3,
        rows=2000,
        held_out_rows=1000,
        epochs=12,
        flow_epochs=4,
        joint_epochs=4,
        hidden=(64, 64, 64),
        penalties=(0.0, 5e-3),
        alphas=(0.9, 1.0),
        methods=("qda",),
        curve_rows=2000,
        curve_correlations=(0.0, 0.5, 0.9),
        curve_columns=(1, 3),
        curve_runs=2,
    ),
    "laptop": Settings(10),
    "paper": Settings(10, from_paper=True, epochs=200, flow_epochs=200, joint_epochs=200, penalties=(5e-4,)),
}
BASELINE, SEPARATE, DISCRIMINATIVE = "baseline", "separate", "discriminative"
PAPER_TRUTH, PAPER_COLUMNS = 16.67, 20
PAPER = {BASELINE: "7.8", SEPARATE: "11.0", "joint .9": "12.7", DISCRIMINATIVE: "8.1"}  # at the end, read off Fig. 4
_LINES = ("--", ":", "-")  # by penalty: the last one is the paper's
NEAR, NEAREST, FALL = 0.10, 0.01, 0.05  # shares of the truth, and of a peak
FAR = 3  # standard errors: a correct one is exceeded in one run of 370


def strategies(settings: Settings) -> list[str]:
    """Return the names of the ways of training in tables."""
    return [BASELINE, SEPARATE, *[_named(alpha) for alpha in settings.alphas]]


def _named(alpha: float) -> str:
    return DISCRIMINATIVE if alpha == 1 else f"joint {alpha:g}".replace("0.", ".")


def tasks(settings: Settings) -> list[Task]:
    """Return the curves over ρ and d, then our own methods and the strategies, for each seed."""
    pairs = [(settings.columns, rho) for rho in settings.curve_correlations]
    pairs += [(d, settings.correlation) for d in settings.curve_columns]
    seeds = range(settings.seeds)
    curve = [{"part": "curve", "columns": d, "correlation": rho} for d, rho in dict.fromkeys(pairs)]
    own = [{"part": "own", "method": method, "seed": seed} for seed in seeds for method in settings.methods]
    ways = [{"part": "strategy", "strategy": way, "seed": seed} for seed in seeds for way in strategies(settings)]
    return [*curve, *own, *ways]


def run(settings: Settings, task: Task, workspace: Workspace) -> dict[str, Any]:
    """Run one of the three kinds of tasks."""
    if task["part"] == "curve":
        return run_curve(settings, task["columns"], task["correlation"])
    data = Data(settings, task["seed"])
    if task["part"] == "own":
        return run_own(data, task["method"])
    way = task["strategy"]
    if way == BASELINE:
        return {"runs": run_classifiers(data, data.joint, data.product, data.test)}
    if way == SEPARATE:
        return run_separate(data)
    alpha = next(alpha for alpha in settings.alphas if _named(alpha) == way)
    return {"runs": [run_joint(data, alpha)]}


def selected(result: dict[str, Any]) -> dict[str, Any]:
    """Return the run of a strategy with the lowest held-out loss among its penalties."""
    return min(result["runs"], key=lambda one: one["held_out_loss"])


def peak_and_end(one: dict[str, Any]) -> tuple[float, float]:
    """Return the highest estimate of a run over its epochs, and the last."""
    return max(one["curve"]), one["curve"][-1]


def report(settings: Settings, outcomes: list[Outcome]) -> Report:
    """Return the estimates with those of the paper, by strategy, by penalty and by ρ and d, and the claims."""
    by_way = {way: [selected(result) for result in _results(outcomes, "strategy", way)] for way in strategies(settings)}
    by_method = {TELESCOPING: [result[TELESCOPING] for result in _results(outcomes, "strategy", SEPARATE)]}
    by_method |= {method: _results(outcomes, "method", method) for method in settings.methods}
    curve = [one for one in outcomes if one.task["part"] == "curve"]
    tables = [
        _table_of_strategies(settings, by_way),
        _table_of_penalties(settings, outcomes),
        _table_of_own(settings, by_method),
        _table_of_curve(curve),
    ]
    claims = [
        *_claims_of_truth(settings),
        _claim_of_separate(settings, "an MLP of z, penalty by held-out loss", by_way[SEPARATE]),
        *[
            _claim_of_separate(settings, f"an MLP of z, penalty {penalty:g}", _runs_at(outcomes, SEPARATE, k))
            for k, penalty in enumerate(settings.penalties)
        ],
        _claim_of_separate(settings, "telescoping in z", by_method[TELESCOPING]),
        *_claims_of_order(settings, by_way),
        *[_claim_at_penalty(settings, outcomes, k) for k in range(len(settings.penalties))],
        *[_claim_of_fall(way, runs) for way, runs in by_way.items()],
        *[
            _claim_of_fall(f"{SEPARATE}, penalty {penalty:g}", _runs_at(outcomes, SEPARATE, k))
            for k, penalty in enumerate(settings.penalties)
        ],
        *[_claim_of_own(settings, method, by_method[method]) for method in settings.methods],
        *_claims_of_errors([one for one in curve if one.task["correlation"] > 0]),  # else 0 is found, without error
    ]
    return Report(tables, claims)


def _results(outcomes: list[Outcome], name: str, value: str) -> list[dict[str, Any]]:
    """Return the results of tasks with this value under this name."""
    return [one.result for one in outcomes if one.task.get(name) == value]


def _runs_at(outcomes: list[Outcome], way: str, k: int) -> list[dict[str, Any]]:
    """Return the runs of a strategy with the k-th penalty."""
    return [result["runs"][k] for result in _results(outcomes, "strategy", way)]


def _cell(values: Sequence[float]) -> str:
    """Return mean ± standard error over runs."""
    return with_error(np.asarray(values, float), ".2f")


def _off(settings: Settings, values: Sequence[float]) -> float:
    return float(np.mean(values)) / truth(settings.columns, settings.correlation) - 1


def _table_of_strategies(settings: Settings, by_way: dict[str, list[dict[str, Any]]]) -> PaperTable:
    lines = []
    for way, runs in by_way.items():
        nats = [one["nats"] for one in runs]
        peaks, ends = zip(*map(peak_and_end, runs), strict=True)
        lines.append(
            [
                way,
                PAPER.get(way, "") if settings.columns == PAPER_COLUMNS else "",
                _cell(nats),
                f"{100 * _off(settings, nats):+.1f} %",
                _cell(peaks),
                _cell(ends),
                ", ".join(str(one["kept_epoch"]) for one in runs),
                _cell([one["log_r_error"] for one in runs]),
            ]
        )
    runs_ = f"{truth(settings.columns, settings.correlation):.3f} nats is the true value, {of_runs(settings.seeds)}"
    head = [
        "training",
        "paper, last epoch",
        "best epoch",
        "relative error",
        "peak",
        "last epoch",
        "best epochs",
        "error of log r",
    ]
    return PaperTable(f"Mutual information by strategy, {runs_}", head, lines)


def _table_of_penalties(settings: Settings, outcomes: list[Outcome]) -> PaperTable:
    lines = []
    for way in (BASELINE, SEPARATE):
        results = _results(outcomes, "strategy", way)
        for k, penalty in enumerate(settings.penalties):
            runs = [result["runs"][k] for result in results]
            peaks, ends = zip(*map(peak_and_end, runs), strict=True)
            loss = np.mean([one["held_out_loss"] for one in runs])
            n_selected = sum(selected(result)["penalty"] == penalty for result in results)
            cells = [_cell([one["nats"] for one in runs]), _cell(peaks), _cell(ends), f"{loss:.4f}", str(n_selected)]
            lines.append([way, f"{penalty:g}", *cells])
    head = ["training", "penalty", "best epoch", "peak", "last epoch", "held-out loss", "times selected"]
    return PaperTable(
        "Mutual information by penalty of the weights (paper: 5e-4), and how often the held-out loss selected it",
        head,
        lines,
    )


def _table_of_own(settings: Settings, by_method: dict[str, list[dict[str, Any]]]) -> PaperTable:
    exact = truth(settings.columns, settings.correlation)
    lines = []
    for method, results in by_method.items():
        nats, errors = ([one[name] for one in results] for name in ("nats", "standard_error"))
        by_run = ", ".join(f"{value:.3f} ± {error:.3f}" for value, error in zip(nats, errors, strict=True))
        scores = ", ".join(f"{(value - exact) / error:+.1f}" for value, error in zip(nats, errors, strict=True))
        lines.append(
            [
                method,
                _cell(nats),
                f"{100 * _off(settings, nats):+.2f} %",
                by_run,
                scores,
                results[0].get("verdict", ""),
            ]
        )
    head = ["ratio", "estimate", "relative error", "runs ± their standard errors", "error / standard error", "verdict"]
    runs = "one run" if settings.seeds == 1 else f"{settings.seeds} runs"
    title = f"Mutual information by other ratios of the library, {runs}. The standard errors of auto and qda"
    return PaperTable(
        f"{title} are those of `mutual_information`, the others are those of the mean of log r", head, lines
    )


def _table_of_curve(curve: list[Outcome]) -> PaperTable:
    lines = []
    for one in curve:
        d, rho = one.task["columns"], one.task["correlation"]
        nats, errors = np.array(one.result["nats"]), np.array(one.result["standard_errors"])
        scores = _scores(one)
        cells = [f"{truth(d, rho):.4f}", f"{nats.mean():.4f}", f"{nats.std(ddof=1):.4f}", f"{errors.mean():.4f}"]
        lines.append(
            [str(d), f"{rho:g}", *cells, f"{100 * np.mean(np.abs(scores) <= 2):.0f} %", one.result["verdicts"][0]]
        )
    head = [
        "d",
        "ρ",
        "true value",
        "mean estimate",
        "standard deviation",
        "mean standard error",
        "runs within 2 of them",
        "verdict",
    ]
    n = len(curve[0].result["nats"])
    return PaperTable(f'`mutual_information(…, ratio="qda")` over ρ and d, {n} runs each', head, lines)


def _scores(one: Outcome) -> np.ndarray:
    """Return how many of their standard errors the estimates of a point are off, of shape (n_runs,)."""
    nats, errors = np.array(one.result["nats"]), np.array(one.result["standard_errors"])
    return (nats - truth(one.task["columns"], one.task["correlation"])) / errors


def _claims_of_truth(settings: Settings) -> list[Claim]:
    """Return whether the paper's truth is the truth, if the columns are as many as the paper's."""
    if settings.columns != PAPER_COLUMNS:
        return []
    exact = truth(settings.columns, settings.correlation)
    words = f"the mutual information is {PAPER_TRUTH} nats, as the paper prints"
    return [Claim(words, Answer.of(abs(exact - PAPER_TRUTH) < 0.005), f"{exact:.3f} in closed form")]


def _offs(settings: Settings, runs: Sequence[dict[str, Any]]) -> np.ndarray:
    """Return how far runs are from the truth, as shares of it, of shape (n_runs,)."""
    return np.array([one["nats"] for one in runs]) / truth(settings.columns, settings.correlation) - 1


def _within(off: np.ndarray, limit: float) -> Answer:
    """Return whether the mean of runs, (n_runs,), is between -limit and limit, by the 95 % t-interval."""
    return every([beyond(off + limit), beyond(limit - off)])


def _claim_of_separate(settings: Settings, words: str, runs: list[dict[str, Any]]) -> Claim:
    nats, off = [one["nats"] for one in runs], _offs(settings, runs)
    measured = f"{_cell(nats)}, {100 * off.mean():+.1f} %. Runs: {', '.join(f'{value:.2f}' for value in nats)}"
    words = f"our goal: separate training, {words}, is within {100 * NEAR:.0f} % of the true value"
    return Claim(words, _within(off, NEAR), measured)


def _claims_of_order(settings: Settings, by_way: dict[str, list[dict[str, Any]]]) -> list[Claim]:
    """Return whether separate training is nearest to the truth, and whether joint training is so for the largest α."""
    together = {_named(alpha): by_way[_named(alpha)] for alpha in sorted(settings.alphas) if alpha < 1}
    claims = [
        _nearest(
            settings,
            "Fig. 4: separate training is nearer to the true value than every other strategy",
            SEPARATE,
            by_way,
        )
    ]
    if len(together) > 1:
        words = "Fig. 8: among joint trainings, the largest α is nearest to the true value"
        claims.append(_nearest(settings, words, list(together)[-1], together))
    return claims


def _nearest(settings: Settings, words: str, ours: str, by_way: dict[str, list[dict[str, Any]]]) -> Claim:
    """Return the claim that a way is nearer to the truth than each of the others, by run."""
    off = {way: np.abs(_offs(settings, runs)) for way, runs in by_way.items()}
    log_r_errors = {way: float(np.mean([one["log_r_error"] for one in runs])) for way, runs in by_way.items()}
    verdicts = {way: beyond(off[way] - off[ours]) for way in off if way != ours}
    others = [f"{way} {100 * off[way].mean():.1f} % ({verdict})" for way, verdict in verdicts.items()]
    measured = f"relative error, mean over runs: {ours} {100 * off[ours].mean():.1f} %, against {', '.join(others)}"
    nearest = min(log_r_errors, key=lambda way: log_r_errors[way])
    return Claim(words, every(list(verdicts.values())), f"{measured}. The error of log r is lowest for {nearest}")


def _claim_at_penalty(settings: Settings, outcomes: list[Outcome], k: int) -> Claim:
    """Return whether, with the same penalty for both, z is nearer to the truth than x, by run."""
    runs = {way: _runs_at(outcomes, way, k) for way in (BASELINE, SEPARATE)}
    cells = {way: _cell([one["nats"] for one in ones]) for way, ones in runs.items()}
    off = {way: _offs(settings, ones) for way, ones in runs.items()}
    measured = ", ".join(f"{way} {cells[way]}, {100 * off[way].mean():+.1f} %" for way in runs)
    answer = beyond(np.abs(off[BASELINE]) - np.abs(off[SEPARATE]))
    return Claim(
        f"with a penalty of {settings.penalties[k]:g}, separate training is nearer to the true value than the baseline",
        answer,
        measured,
    )


def _claim_of_fall(way: str, runs: list[dict[str, Any]]) -> Claim:
    """Return whether the best epoch is close to the peak of each run."""
    best_below = max(1 - one["nats"] / peak_and_end(one)[0] for one in runs)
    end_below = max(1 - peak_and_end(one)[1] / peak_and_end(one)[0] for one in runs)
    measured = (
        f"selected epoch: maximum {100 * best_below:.1f} % below the peak, last epoch: {100 * end_below:.1f} % below"
    )
    words = f"{way}: early stopping selects an estimate within {100 * FALL:.0f} % of the peak, in each run"
    return Claim(words, Answer.of(best_below <= FALL), measured)


def _claim_of_own(settings: Settings, method: str, results: list[dict[str, Any]]) -> Claim:
    exact, off = truth(settings.columns, settings.correlation), _offs(settings, results)
    worst = max(abs(one["nats"] - exact) / one["standard_error"] for one in results)
    measured = f"{100 * off.mean():+.2f} %, maximum {worst:.1f} standard errors in a run"
    words = f"our goal: {method} is within {100 * NEAREST:.0f} % of the true value"
    words += f", and each run within {FAR} standard errors"
    return Claim(words, every([_within(off, NEAREST), Answer.of(worst <= FAR)]), measured)


def _claims_of_errors(curve: list[Outcome]) -> list[Claim]:
    """Return whether estimates agree with their standard errors, and whether they have no bias.

    A Gaussian has 95 % within two standard errors. A point is biased if a t-test of its runs rejects the true value.
    The significance level is 5 % for all points together.
    """
    scores = np.concatenate([_scores(one) for one in curve])
    share, size = float(np.mean(np.abs(scores) <= 2)), float(np.sqrt(np.mean(scores**2)))
    measured = f"{100 * share:.0f} % of {len(scores)} runs within two, root mean square {size:.2f} standard errors"
    # three binomial standard errors below 95 %: standard errors that are too large are safe
    least = 0.95 - 3 * math.sqrt(0.95 * 0.05 / len(scores))
    words = "our goal: over ρ and d the standard errors are not too small"
    of_errors = Claim(words, Answer.of(share >= least), measured)
    biased = []
    for one in curve:
        d, rho = one.task["columns"], one.task["correlation"]
        off = np.array(one.result["nats"]) - truth(d, rho)
        if abs(off.mean()) > t.isf(0.025 / len(curve), len(off) - 1) * standard_error(off, math.inf):
            biased.append(f"d = {d}, ρ = {rho:g}: {with_error(off, '+.3f')}")
    measured = f"biased: {', '.join(biased)} nats" if biased else f"none of {len(curve)} points is biased beyond chance"
    n_runs = min(len(one.result["nats"]) for one in curve)
    words = "our goal: over ρ and d the estimates have no bias"
    return [of_errors, Claim(words, Answer.INCONCLUSIVE if n_runs < 2 else Answer.of(not biased), measured)]


def draw(settings: Settings, outcomes: list[Outcome], keep: Path) -> dict[str, Figure]:
    """Return the estimate against epochs by way of training, and our own against ρ and against d."""
    exact = truth(settings.columns, settings.correlation)
    apart = [curve for way in (BASELINE, SEPARATE) for curve in _curves_of(settings, outcomes, way)]
    together = [curve for way in strategies(settings)[2:] for curve in _curves_of(settings, outcomes, way)]
    points = [(one.task, np.array(one.result["nats"]), _scores(one)) for one in outcomes if one.task["part"] == "curve"]
    return {
        "": draw_epochs({"Network in x or in z": apart, "Joint and discriminative training": together}, exact),
        "curves": draw_over_problems(points, settings.columns, settings.correlation),
    }


def _curves_of(settings: Settings, outcomes: list[Outcome], way: str) -> list[Curves]:
    """Return the runs of a way of training, for each penalty if it has several."""
    results = _results(outcomes, "strategy", way)
    n_penalties = len(results[0]["runs"])
    paper = f" [{PAPER[way]}]" if way in PAPER and settings.columns == PAPER_COLUMNS else ""
    if n_penalties == 1:
        return [Curves(f"{way}{paper}", way, "-", [result["runs"][0] for result in results])]
    return [
        Curves(
            f"{way}, λ = {penalty:g}{paper * (k == n_penalties - 1)}", way, _LINES[k % 3], _runs_at(outcomes, way, k)
        )
        for k, penalty in enumerate(settings.penalties)
    ]
