r"""What an invertible map does not change: the ratio, the bias of an estimator, its consistency (Section 4).

Claim: all three, which the paper proves and does not measure. Cost: 2 minutes on two cores. Command:
`flowratio reproduce theory --preset laptop --jobs 2`.

*Lemma 1.* p(x)/q(x) = p_Z(z)/q_Z(z) for z = f(x). Maps for which the densities of z have a closed form are compared
with these. For flows the density of z under p comes from the inverse and its Jacobian at z. The density under q comes
from the map and its Jacobian at x. Terms cancel only by the lemma. A fold, which is not invertible, shows that the
check can fail.

*Corollary 1.* p is constant in each of 16 cells of the unit square, and q is uniform. So counts in cells estimate r(x)
itself. The map carries the cells to z. If the mass Q of q in a cell is known,

.. math:: \hat r = \frac{N_p / n}{Q}, \qquad \mathrm{E}\, \hat r = r .

With rows of q instead, no estimator is unbiased for every q, as the corollary requires. The mean of any statistic of n
rows is a polynomial in Q, and 1/Q is not. A close estimator has the mean

.. math:: \hat r = \frac{N_p}{n} \frac{n + 1}{N_q + 1}, \qquad \mathrm{E}\, \hat r = r\, \big(1 - (1 - Q)^{n+1}\big) .

The cell of z is that of f⁻¹(z), so counts in x and in z are the same by construction. Only a wrong inverse would show.
A fold of the square, under which two cells share one, is the control that differs.

*Corollary 2.* The error of log r against n, in x and in the latent space of a flow that was trained on other rows.
KLIEP, a network and boosted trees can be consistent for any p and q, as the corollary asks. Quadratic logistic
regression is consistent for Gaussians only, and p and q are not Gaussian in z.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.special import expit, logit

from flowratio import KLIEP, ClassifierRatio, Flow, NetworkRatio, RatioEstimator
from flowratio_paper.known_maps import (
    FLOW_MAPS,
    FOLD,
    MAPS,
    Density,
    draw_normal,
    in_latent_space,
    log_p,
    log_q,
    random_flow,
    trained_flow,
)
from flowratio_paper.reports import Claim, PaperTable, Report
from flowratio_paper.running import Outcome, Task
from flowratio_paper.stages import Workspace
from flowratio_paper.theory_figures import draw_bias, draw_consistency, draw_maps
from flowratio_paper.verdicts import Answer, beyond, with_error

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

TITLE = "Lemma 1 and its corollaries: ratio, lack of bias and consistency under invertible maps (Section 4)"


@dataclass(frozen=True)
class Settings:
    """How much is run.

    Parameters
    ----------
    flow_rows, flow_epochs
        Rows of each sample on which flows are trained, and epochs. None for those of the library.
    resamples, bias_rows
        Draws of corollary 1 for each seed, and rows of each sample in them.
    methods, sizes
        Ratios of corollary 2, and rows of each sample.
    seeds
        How often all of it is repeated.
    """

    flow_rows: int
    flow_epochs: int | None
    resamples: int
    bias_rows: int
    methods: tuple[str, ...]
    sizes: tuple[int, ...]
    seeds: int


PRESETS = {
    "quick": Settings(300, 3, 1000, 50, ("quadratic", "kliep", "boosting"), (100, 1000), 2),
    "laptop": Settings(
        2000, None, 2000, 50, ("quadratic", "kliep", "mlp", "boosting"), (100, 300, 1000, 3000, 10_000), 10
    ),
    "paper": Settings(
        50_000, None, 10_000, 50, ("quadratic", "kliep", "mlp", "boosting"), (100, 300, 1000, 3000, 10_000, 30_000), 30
    ),
}

NEAR = 3.0  # |log r| up to which errors are taken: consistency is one of each x, and rows come there as n grows
_N_TEST = 2000  # rows of each sample
_N_SHOWN = 60  # rows of a figure
_EXACT, _SINGLE = 1e-8, 1e-2  # what rounding may come to in log r, in float64 and float32
_LIMIT = 4.0  # standard errors: one of 500 checks of 32 numbers passes it by chance


# Lemma 1


def _run_lemma(settings: Settings, name: str, seed: int) -> dict[str, Any]:
    flow = None
    if name in FLOW_MAPS:
        kind, state = FLOW_MAPS[name]
        if state == "random":
            flow = random_flow(kind, seed)
        else:
            flow = trained_flow(kind, settings.flow_rows, settings.flow_epochs, seed).flow_
    X = np.concatenate(draw_normal(np.random.default_rng([seed, 1]), _N_TEST))
    result: dict[str, Any] = {}
    for kind in ("float32", "float64"):
        rows = X.astype(kind)
        exact = rows.astype(float)
        p_of_z, q_of_z = in_latent_space(name, flow, rows)
        in_x, in_z = log_p(exact) - log_q(exact), p_of_z - q_of_z
        result[kind] = float(np.abs(in_z - in_x).max())
        if kind == "float64":
            result["jacobian"] = round(float(np.abs(q_of_z - log_q(exact)).max()), 3)
            if seed == 0:
                every = slice(None, None, len(X) // _N_SHOWN)
                result |= {"in_x": in_x[every].round(3).tolist(), "in_z": in_z[every].round(3).tolist()}
    return result


# Corollary 1

SIDE = 4  # cells along each column
N_CELLS = SIDE**2
P_OF_CELLS = np.arange(1.0, N_CELLS + 1) / (N_CELLS * (N_CELLS + 1) / 2)
R_OF_CELLS = P_OF_CELLS * N_CELLS  # everywhere in a cell
SPACES = {"x": "x", "logit": "z, a logit of each column", "flow": "z, a flow after it"}
FOLDED = "fold"  # the control
ESTIMATORS = {"known": "mass of q known", "both": "two samples", "plain": "plain counts"}


def draw_cells(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of p, which is constant in each cell, and of the uniform q, (n, 2) each."""
    corners = np.column_stack(np.divmod(rng.choice(N_CELLS, n, p=P_OF_CELLS), SIDE))
    return (corners + rng.random((n, 2))) / SIDE, rng.random((n, 2))


def cells_of(X: np.ndarray, space: str, flow: Flow) -> np.ndarray:
    """Return the cell in which the image of each row lies, (n, 2) to (n,)."""
    edges = np.arange(1, SIDE) / SIDE
    if space == "logit":
        X, edges = logit(X), logit(edges)  # the edges in z are straight
    elif space == "flow":
        with torch.no_grad():  # they are curved: the cell of z is that of f⁻¹(z)
            z, _ = flow(torch.from_numpy(logit(X)))
            X = expit(flow.inverse(z)[0].numpy())
    i, j = np.searchsorted(edges, X, side="right").T
    return i * SIDE + j


def estimates(n_p: np.ndarray, n_q: np.ndarray, n: int) -> dict[str, np.ndarray]:
    """Return r of each cell by each of `ESTIMATORS`, from counts of n rows of each sample."""
    return {
        "known": n_p / n * N_CELLS,
        "both": n_p / n * (n + 1) / (n_q + 1),
        "plain": n_p / np.maximum(n_q, 1),
    }


def expected(estimator: str, n: int) -> float:
    """Return the exact mean of an estimator by r, in any cell. For plain counts, without a closed form, return 1."""
    return 1 - (1 - 1 / N_CELLS) ** (n + 1) if estimator == "both" else 1.0


def _run_bias(settings: Settings, seed: int) -> dict[str, Any]:
    n, m = settings.bias_rows, settings.resamples
    samples = draw_cells(np.random.default_rng([seed, 2]), n * m)
    flow = random_flow("maf", seed)
    result: dict[str, Any] = {}
    for space in SPACES:
        counts = []
        for X in samples:
            cells = np.repeat(np.arange(m), n) * N_CELLS + cells_of(X, space, flow)
            counts.append(np.bincount(cells, minlength=m * N_CELLS).reshape(m, N_CELLS))
        result[space] = {name: _moments(r) for name, r in estimates(counts[0], counts[1], n).items()}
        if space == "x":
            result[FOLDED] = {"known": _moments(estimates(folded(counts[0]), folded(counts[1]), n)["known"])}
    return result


def folded(counts: np.ndarray) -> np.ndarray:
    """Return the counts, (m, 16), of a square that is folded in the middle: cells that meet have the mean of both."""
    square = counts.reshape(-1, SIDE, SIDE)
    return ((square + square[:, ::-1]) / 2).reshape(counts.shape)


def _moments(r: np.ndarray) -> dict[str, list[float]]:
    by_r = np.column_stack([r / R_OF_CELLS, (r / R_OF_CELLS).mean(axis=1)])  # the cells, and their mean
    moments = {"mean": by_r.mean(axis=0), "variance": by_r.var(axis=0)}
    return {key: values.round(5).tolist() for key, values in moments.items()}


# Corollary 2


def new_ratio(method: str, seed: int) -> RatioEstimator:
    """Return a ratio of `Settings.methods`, not yet fitted."""
    if method == "kliep":
        return KLIEP(random_state=seed)
    return NetworkRatio(method, random_state=seed) if method == "mlp" else ClassifierRatio(method, random_state=seed)


def _run_consistency(settings: Settings, method: str, seed: int) -> dict[str, Any]:
    latent = trained_flow("maf", settings.flow_rows, settings.flow_epochs, 0)  # one map for all
    X = np.concatenate(draw_normal(np.random.default_rng([0, 3]), _N_TEST))
    truth = log_p(X) - log_q(X)
    X, truth = X[np.abs(truth) < NEAR], truth[np.abs(truth) < NEAR]
    maps: dict[str, Density] = {"x": lambda rows: rows, "z": latent.transform}
    errors: dict[str, list[float]] = {space: [] for space in maps}
    for n in settings.sizes:
        X_p, X_q = draw_normal(np.random.default_rng([seed, 4, n]), n)
        for space, f in maps.items():
            ratio = new_ratio(method, seed).fit_samples(f(X_p), f(X_q))
            errors[space].append(float(f"{np.mean((ratio.log_ratio(f(X)) - truth) ** 2):.5g}"))
    return errors


def tasks(settings: Settings) -> list[Task]:
    """Return a task for each map, draw of the counts, and ratio, by seed."""
    seeds = range(settings.seeds)
    lemma = [{"part": "lemma", "map": name, "seed": seed} for name in MAPS for seed in seeds]
    bias = [{"part": "bias", "seed": seed} for seed in seeds]
    consistency = [
        {"part": "consistency", "method": method, "seed": seed} for method in settings.methods for seed in seeds
    ]
    return [*bias, *consistency, *lemma]


def run(settings: Settings, task: Task, workspace: Workspace) -> dict[str, Any]:
    """Run one part for a seed."""
    if task["part"] == "lemma":
        return _run_lemma(settings, task["map"], task["seed"])
    if task["part"] == "bias":
        return _run_bias(settings, task["seed"])
    return _run_consistency(settings, task["method"], task["seed"])


def report(settings: Settings, outcomes: list[Outcome]) -> Report:
    """Return a table and verdicts for the lemma and for each corollary."""
    parts = (_lemma(outcomes), _unbiased(settings, outcomes), _consistent(settings, outcomes))
    return Report([table for table, _ in parts], [claim for _, claims in parts for claim in claims])


def _results(outcomes: list[Outcome], task: Task) -> list[dict[str, Any]]:
    """Return the results of the tasks with these values."""
    return [one.result for one in outcomes if task.items() <= one.task.items()]


def _lemma(outcomes: list[Outcome]) -> tuple[PaperTable, list[Claim]]:
    lines, worst = [], {}
    for name in MAPS:
        results = _results(outcomes, {"part": "lemma", "map": name})
        worst[name] = {kind: max(one[kind] for one in results) for kind in ("float64", "float32", "jacobian")}
        numbers = worst[name]
        cells = [f"{numbers['float64']:.1e}", f"{numbers['float32']:.1e}", f"{numbers['jacobian']:.2f}"]
        lines.append([name, *cells, str(len(results))])
    head = ["map", "float64", "float32", "largest log-Jacobian", "runs"]
    title = f"Lemma 1: largest |log r in z - log r in x| of {2 * _N_TEST} rows (the paper proves 0)"
    claims = []
    for kind, limit in (("float64", _EXACT), ("float32", _SINGLE)):
        most = max(worst[name][kind] for name in MAPS if name != FOLD)
        words = f"Lemma 1: no invertible map changes log r by more than {limit:g} (rounding in {kind})"
        claims.append(Claim(words, Answer.of(most < limit), f"largest difference of log r {most:.1e}"))
    words = "a map that is not invertible changes the ratio"
    claims.append(Claim(words, Answer.of(worst[FOLD]["float64"] > 0.1), f"{worst[FOLD]['float64']:.2f} under a fold"))
    return PaperTable(title, head, lines), claims


def mean_and_error(settings: Settings, outcomes: list[Outcome], space: str, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of estimate / r and its standard error over all draws, by cell and for their mean, (17,) each."""
    results = [one[space][name] for one in _results(outcomes, {"part": "bias"})]
    means, variances = (np.array([one[key] for one in results]) for key in ("mean", "variance"))
    variance = variances.mean(axis=0) + means.var(axis=0)  # within and between seeds
    return means.mean(axis=0), np.sqrt(variance / (len(results) * settings.resamples))


def _unbiased(settings: Settings, outcomes: list[Outcome]) -> tuple[PaperTable, list[Claim]]:
    n, n_draws = settings.bias_rows, settings.resamples * len(_results(outcomes, {"part": "bias"}))
    lines, farthest = [], {}
    for name, words in ESTIMATORS.items():
        for space, where in SPACES.items():
            mean, error = mean_and_error(settings, outcomes, space, name)
            far = farthest[name, space] = float(np.abs((mean - expected(name, n)) / error).max())
            exact = "unknown" if name == "plain" else f"{100 * (expected(name, n) - 1):+.2f} %"
            lines.append(
                [
                    words,
                    where,
                    f"{100 * (mean[-1] - 1):+.2f} % ± {100 * error[-1]:.2f} %",
                    exact,
                    f"{far:.1f}",
                    str(n_draws),
                ]
            )
    head = ["estimator", "space", "bias", "exact", "largest distance of a cell, in standard errors", "draws"]
    title = (
        f"Corollary 1: counts in {N_CELLS} cells of {n} + {n} rows (plain counts: distance from no bias). Cells of z "
        "are images of cells of x, so x and z have the same counts by construction"
    )

    def verdict(name: str, words: str) -> Claim:
        far = max(farthest[name, space] for space in SPACES)
        return Claim(
            words, Answer.of(far < _LIMIT), f"maximum {far:.1f} standard errors from the exact mean in {N_CELLS} cells"
        )

    claims = [
        verdict("known", "Corollary 1: an estimator without bias in x has no bias in z"),
        verdict("both", "counts of two samples have their exact mean, in x and in z"),
    ]
    mean, error = mean_and_error(settings, outcomes, "x", "both")
    words = "counts of two samples have no bias, as the corollary assumes for an estimator"
    near = abs(mean[-1] - 1) <= _LIMIT * error[-1]
    claims.append(
        Claim(
            words,
            Answer.of(near),
            f"{100 * (mean[-1] - 1):+.1f} % ± {100 * error[-1]:.1f} %: 1/Q is not a polynomial in Q",
        )
    )
    if all(FOLDED in one for one in _results(outcomes, {"part": "bias"})):  # runs of earlier versions have no control
        mean, error = mean_and_error(settings, outcomes, FOLDED, "known")
        far = float(np.abs((mean - 1) / error).max())
        cells = [f"{100 * (mean[-1] - 1):+.2f} % ± {100 * error[-1]:.2f} %", "not 0", f"{far:.1f}", str(n_draws)]
        lines.append([ESTIMATORS["known"], "z, a fold (not invertible)", *cells])
        words = "a map that is not invertible causes a bias"
        claims.append(Claim(words, Answer.of(far > _LIMIT), f"{far:.1f} standard errors in one cell under a fold"))
    return PaperTable(title, head, lines), claims


def slopes(settings: Settings, errors: np.ndarray) -> np.ndarray:
    """Return those of log error against log n by least squares, of shape (runs,) for errors (runs, sizes)."""
    return np.polyfit(np.log(settings.sizes), np.log(errors).T, 1)[0]


def _errors(outcomes: list[Outcome], method: str, space: str) -> np.ndarray:
    return np.array(
        [one[space] for one in _results(outcomes, {"part": "consistency", "method": method})]
    )  # (runs, sizes)


def _consistent(settings: Settings, outcomes: list[Outcome]) -> tuple[PaperTable, list[Claim]]:
    lines, claims = [], []
    for method in settings.methods:
        rates = {}
        for space in ("x", "z"):
            errors = _errors(outcomes, method, space)
            rates[space] = slopes(settings, errors)
            rate = with_error(rates[space], ".2f")
            lines.append([method, space, *(with_error(one, ".4f") for one in errors.T), rate, str(len(errors))])
            if (method, space) != ("quadratic", "z"):  # for which the corollary supposes nothing
                words = f"Corollary 2: the error of {method} falls with n in {space}"
                claims.append(Claim(words, beyond(-rates[space]), f"as n to the power {rate}"))
        if method == "quadratic":
            more = rates["z"] - rates["x"]
            words = "the error of quadratic, which is consistent in x only, falls in z as fast as in x"
            measured = f"powers of n differ by {with_error(more, '+.2f')}"
            claims.append(Claim(words, beyond(more).opposite, measured))
    head = ["ratio", "space", *(f"n = {n}" for n in settings.sizes), "power of n", "runs"]
    return PaperTable(f"Corollary 2: mean squared error of log r where |log r| < {NEAR:g}", head, lines), claims


def draw(settings: Settings, outcomes: list[Outcome], keep: Path) -> dict[str, Figure]:
    """Draw the lemma and each corollary."""
    lemma = {name: _results(outcomes, {"part": "lemma", "map": name}) for name in MAPS}
    known, both = (
        {where: mean_and_error(settings, outcomes, space, name) for space, where in SPACES.items()}
        for name in ("known", "both")
    )
    n = settings.bias_rows
    panels = {
        f"{ESTIMATORS['known']}: no bias": (known, expected("known", n)),
        f"{ESTIMATORS['both']}: a bias of {100 * (expected('both', n) - 1):.1f} %": (both, expected("both", n)),
    }
    errors = {method: {space: _errors(outcomes, method, space) for space in "xz"} for method in settings.methods}
    return {
        "lemma-1": draw_maps(lemma, FOLD),
        "corollary-1": draw_bias(panels, R_OF_CELLS, n),
        "corollary-2": draw_consistency(errors, settings.sizes, NEAR),
    }
