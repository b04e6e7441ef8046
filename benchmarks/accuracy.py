"""The error of log r on 21 problems whose ratio has a closed form, for our ratios and for those of other libraries.

Claims: the error of `AutoRatio()`, a geometric mean over the problems, is not above that of an oracle. The oracle picks
the best peer for each problem. On no problem is the error more than 1.25 × that of the best peer.
`FeaturizedRatio("mlp")` has half the error of the same network in x, or less, on the problems with KL ≥ 5.

"relu" is the network of the paper. "featurized" is `FeaturizedRatio("mlp")` with its defaults: x and z, over a base.

The error is the mean squared difference from the true log r on 2000 other rows of p and 2000 other rows of q. A second
error has only rows with |log r| < 5. There are three seeds. Seconds are processor time of the fit, on one thread. A
flow that several ratios share counts in full for each. Defaults were chosen on the problems of the group "design" only.

`run` appends a line to results/accuracy.jsonl for every fit, and skips fits that are in the file. `table` writes
results/accuracy.md and results/accuracy.png from these lines. Without a command, both run. `check` compares every
closed form with draws and with SciPy.
Cost: `check` about 1 minute, the peers about 1 hour of processor time, `table` less than 1 minute.
Command: python benchmarks/accuracy.py [check | table]
         python benchmarks/accuracy.py run [--methods peers,x,z,AutoRatio] [--problems 1,19] [--seeds 0,1,2]
                                           [--group design|report|all] [--limit-seconds 60]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from _accuracy_problems import N_HELD_OUT, PROBLEMS, Problem, failures
from _peers import FIELD, Fit, Score, load_peers
from _ratio_problems import ours
from _tables import short
from _timing import one_thread, timed, use_processor_time, versions

import flowratio

RESULTS = Path(__file__).resolve().parents[1] / "results"
NEAR = 5.0  # |log r| of the rows of the second error
FLOOR = 1e-4  # an error below it is no better: identical samples can be exact
LARGE_KL = 5.0 - 1e-9
NOTE = f"""Mean squared error of log r on {N_HELD_OUT} other rows of p and as many of q, in nats², mean over the seeds
{{seeds}}. Geometric means and relative errors count an error below {FLOOR:g} as that: identical samples can be exact.
A geometric mean is over the problems that a method could be run on. Their number is in brackets. "× oracle" compares it
with the best peer on the same problems. Seconds are the sum of the means over seeds, with one thread. A method with an
asterisk cannot score new rows. Its error is that on the rows of q of the fit, and the oracle does not use it. This page
is written by `python benchmarks/accuracy.py table`."""
Run = Callable[[Problem, int], tuple[Score, float, float]]  # a fitted ratio, its seconds, those of a shared flow
Kind = Literal["peers", "x", "z", "joint", "auto"]


@dataclass(frozen=True)
class Method:
    """A ratio, its cost, and the largest sample that it is run on.

    Seconds are approximate, for 1000 rows, and grow as a power of n. With `on_fitted`, it can only score the rows of q
    of the fit.
    """

    name: str
    kind: Kind
    run: Run
    seconds: float
    power: float = 1.0
    largest: int = sys.maxsize
    on_fitted: bool = False

    def suits(self, problem: Problem) -> bool:
        """Return whether it is run on a problem."""
        return problem.n <= self.largest

    def estimate(self, problem: Problem) -> float:
        """Return the approximate seconds of a fit."""
        return self.seconds * (problem.n / 1000) ** self.power


def plain(fit: Fit) -> Run:
    def run(problem: Problem, seed: int) -> tuple[Score, float, float]:
        score, seconds = timed(partial(fit, *problem.draw(seed), seed))
        return score, seconds, 0.0

    return run


@cache
def shared_flow(problem: Problem, seed: int) -> tuple[flowratio.FlowFeaturizer, float]:
    """Fit a flow to the pooled rows, once for all ratios. Return it and its seconds."""
    return timed(partial(flowratio.FlowFeaturizer(random_state=seed).fit, np.concatenate(problem.draw(seed))))


def latent(ratio: Any, **settings: Any) -> Run:
    """Return a ratio in the latent space of the shared flow, with settings of `FeaturizedRatio`."""

    def run(problem: Problem, seed: int) -> tuple[Score, float, float]:
        featurizer, flow_seconds = shared_flow(problem, seed)
        model = flowratio.FeaturizedRatio(ratio, featurizer=featurizer, random_state=seed, **settings)
        model, seconds = timed(partial(model.fit_samples, *problem.draw(seed)))
        return model.log_ratio, seconds + flow_seconds, flow_seconds

    return run


def estimator(make: Callable[[int], Any]) -> Run:
    """Return an estimator of ours, made from a seed."""
    return plain(lambda X_p, X_q, seed: make(seed).fit_samples(X_p, X_q).log_ratio)


# name, seconds, power, largest sample
PEERS = tuple(
    Method(name, "peers", plain(FIELD[name]), seconds, power, largest, on_fitted="KMM" in name)
    for name, seconds, power, largest in (
        ("sklearn logistic", 0.02, 1.0, sys.maxsize),
        ("sklearn quadratic", 0.2, 1.0, sys.maxsize),
        ("sklearn boosting", 0.4, 0.3, sys.maxsize),
        ("sklearn MLP", 0.7, 1.0, sys.maxsize),
        ("hep_ml GBReweighter", 0.3, 1.0, sys.maxsize),
        ("ADAPT KLIEP", 0.4, 1.0, sys.maxsize),
        ("ADAPT KLIEP grid", 7.0, 0.8, 5_000),
        ("ADAPT uLSIF", 0.03, 1.0, sys.maxsize),
        ("ADAPT KMM", 2.0, 3.0, 1_000),
        ("densratio KLIEP", 1.0, 0.5, sys.maxsize),
        ("densratio uLSIF", 2.0, 1.7, 3_000),
        ("skada Gaussian", 0.02, 1.0, sys.maxsize),
        ("skada KDE", 0.2, 2.0, sys.maxsize),
        ("skada KLIEP", 0.03, 1.0, sys.maxsize),
        ("skada Discriminator", 0.02, 1.0, sys.maxsize),
        ("skada KMM", 0.25, 2.2, 1_000),
        ("zuko MAFs", 5.0, 0.8, sys.maxsize),
    )
)
OURS = (
    Method("lda", "x", plain(ours('ClassifierRatio("lda")')), 0.02),
    Method("logistic", "x", plain(ours('ClassifierRatio("logistic")')), 0.02),
    Method("qda", "x", plain(ours('ClassifierRatio("qda")')), 0.02),
    Method("quadratic", "x", plain(ours('ClassifierRatio("quadratic")')), 0.1),
    Method("additive", "x", plain(ours('ClassifierRatio("additive")')), 0.1),
    Method("boosting", "x", plain(ours('ClassifierRatio("boosting")')), 1.0, 0.5),
    Method("mlp", "x", plain(ours('NetworkRatio("mlp")')), 2.0),
    Method("relu", "x", plain(ours('NetworkRatio("relu")')), 2.0),
    Method("KMM", "x", plain(ours("KMM")), 0.5, 1.5, 10_000),
    Method("KLIEP", "x", plain(ours("KLIEP")), 0.3),
    Method("ULSIF", "x", plain(ours("ULSIF")), 0.3),
    Method("RULSIF", "x", plain(ours("RULSIF")), 0.3),
    Method("difference", "x", plain(ours("FlowDifferenceRatio")), 4.0, 0.5),
    Method("telescoping", "x", plain(ours("TelescopingRatio")), 4.0, 0.5),
    Method("z logistic", "z", latent("logistic"), 3.0, 0.5),
    Method("z relu", "z", latent(flowratio.NetworkRatio("relu")), 5.0, 0.7),
    Method("z mlp", "z", latent("mlp", features="z", base=None), 5.0, 0.7),
    Method("x+z mlp", "z", latent("mlp", base=None), 5.0, 0.7),
    Method("featurized", "z", latent("mlp"), 7.0, 0.7),
    Method("z kliep", "z", latent("kliep"), 3.5, 0.5),
    Method("z ulsif", "z", latent("ulsif"), 3.5, 0.5),
    Method("z kmm", "z", latent("kmm"), 3.5, 1.0, 10_000),
    Method("z telescoping", "z", latent("telescoping"), 7.0, 0.5),
    Method("joint .5", "joint", estimator(lambda s: flowratio.JointFeaturizedRatio(0.5, random_state=s)), 5.0, 0.7),
    Method("joint 1", "joint", estimator(lambda s: flowratio.JointFeaturizedRatio(1, random_state=s)), 5.0, 0.7),
    Method("AutoRatio", "auto", estimator(lambda s: flowratio.AutoRatio(random_state=s)), 60.0, 0.7),
)
METHODS = (*PEERS, *OURS)


def measured(problem: Problem, method: Method, seed: int) -> dict[str, Any]:
    """Fit, and return the errors and seconds, None if there are none, and a message if the method fails."""
    record: dict[str, Any] = dict.fromkeys(("error", "error_near", "error_p", "error_q", "seconds", "flow_seconds"))
    try:
        score, seconds, flow_seconds = method.run(problem, seed)
        X = problem.draw(seed)[1] if method.on_fitted else problem.held_out(seed)
        log_r = np.asarray(score(X), np.float64)
    except Exception as error:
        return record | {"message": f"{type(error).__name__}: {str(error)[:200]}"}
    record |= {"seconds": round(seconds, 4), "flow_seconds": round(flow_seconds, 4)}
    if n_lost := np.count_nonzero(~np.isfinite(log_r)):
        return record | {"message": f"log r is not finite on {n_lost} of {len(X)} rows"}
    truth = problem.log_r(X)
    square, near = (log_r - truth) ** 2, np.abs(truth) < NEAR
    n_p = 0 if method.on_fitted else N_HELD_OUT
    parts = {"error": square, "error_near": square[near], "error_p": square[:n_p], "error_q": square[n_p:]}
    return record | {name: float(part.mean()) if len(part) else None for name, part in parts.items()} | {"message": ""}


def append(record: dict[str, Any]) -> None:
    """Add a line to the results, in one piece."""
    RESULTS.mkdir(exist_ok=True)
    file = os.open(RESULTS / "accuracy.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(file, (json.dumps(record) + "\n").encode())
    finally:
        os.close(file)


def records() -> list[dict[str, Any]]:
    path = RESULTS / "accuracy.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(methods: Sequence[Method], problems: Sequence[Problem], seeds: Sequence[int], limit: float) -> None:
    """Run the fits that are missing, seed by seed, the cheapest first."""
    there = {(record["problem"], record["method"], record["seed"]) for record in records()}
    cells = [
        (problem, method, seed)
        for seed in seeds
        for problem in problems
        for method in methods
        if method.suits(problem) and method.estimate(problem) <= limit
    ]
    cells = [cell for cell in cells if (cell[0].number, cell[1].name, cell[2]) not in there]
    cells.sort(key=lambda cell: (seeds.index(cell[2]), cell[1].estimate(cell[0])))
    line = f"flowratio {flowratio.__version__}, {versions()}"
    line += f", {load_peers()}" if any(method.kind == "peers" for method in methods) else ""
    print(f"{len(cells)} fits to do, {len(there)} lines are there\n{line}", flush=True)
    for i, (problem, method, seed) in enumerate(cells):
        record = measured(problem, method, seed)
        what = {"problem": problem.number, "name": problem.name, "method": method.name, "seed": seed}
        append(what | {key: float(f"{v:.4g}") if isinstance(v, float) else v for key, v in record.items()})
        result = record["message"] or f"error {digits(record['error'])}, |log r| < 5 {digits(record['error_near'])}"
        seconds = "–" if record["seconds"] is None else f"{record['seconds']:.2f} s"
        print(
            f"[{i + 1}/{len(cells)}] {problem.number} {problem.name}, {method.name}, {seed}: {result}, {seconds}",
            flush=True,
        )


def digits(value: float | None) -> str:
    """Write a number with two digits that count, however small. A dash if there is none."""
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.2g}" if abs(value) < 1 else short(value)


@dataclass(frozen=True, eq=False)
class Table:
    """Errors of one region, means over seeds, of shape (problems, methods). NaN if there is none."""

    methods: tuple[Method, ...]
    errors: np.ndarray

    @classmethod
    def of(cls, lines: Iterable[dict[str, Any]], region: str) -> Table:
        latest = {(line["problem"], line["method"], line["seed"]): line for line in lines}
        cells: dict[tuple[int, str], list[float]] = {}
        for (number, name, _), line in latest.items():
            cells.setdefault((number, name), []).append(math.nan if line[region] is None else line[region])
        methods = tuple(method for method in METHODS if any(name == method.name for _, name in cells))
        errors = [[np.mean(cells.get((p.number, m.name), [math.nan])) for m in methods] for p in PROBLEMS]
        return cls(methods, np.array(errors).reshape(len(PROBLEMS), len(methods)))

    @property
    def field(self) -> np.ndarray:
        """The errors of the peers, (problems, methods). NaN for ours, and for a method that cannot score new rows."""
        return np.where([m.kind == "peers" and not m.on_fitted for m in self.methods], self.errors, math.nan)

    @property
    def oracle(self) -> np.ndarray:
        """The error of the best peer of every problem, (problems,)."""
        return np.fmin.reduce(self.field, axis=1, initial=math.nan)

    def best_peer(self, row: int) -> str:
        """Return the name of the best peer of a problem."""
        return next((m.name for m, e in zip(self.methods, self.field[row], strict=True) if e == self.oracle[row]), "–")

    def column(self, name: str) -> np.ndarray:
        """Return the errors of a method, (problems,)."""
        names = [method.name for method in self.methods]
        return self.errors[:, names.index(name)] if name in names else np.full(len(PROBLEMS), math.nan)


def geometric_mean(errors: np.ndarray) -> float:
    """Return the geometric mean of the errors that there are, none below the floor."""
    finite = errors[np.isfinite(errors)]
    return float(np.exp(np.log(np.maximum(finite, FLOOR)).mean())) if len(finite) else math.nan


def relative(errors: np.ndarray, to: np.ndarray) -> np.ndarray:
    return np.maximum(errors, FLOOR) / np.maximum(to, FLOOR)


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (header, *rows)]
    return "\n".join([lines[0], "|---" * len(header) + "|", *lines[1:]])


def problem_table(table: Table) -> str:
    auto = table.column("AutoRatio")
    rows = [
        [
            *(f"{p.number}", p.name, p.group, f"{p.d}", f"{p.n_p}" if p.n_p == p.n_q else f"{p.n_p}, {p.n_q}"),
            *(f"{p.kl:.2f}", table.best_peer(i), digits(table.oracle[i]), digits(auto[i])),
            digits(relative(auto, table.oracle)[i]),
        ]
        for i, p in enumerate(PROBLEMS)
    ]
    header = ["", "problem", "group", "d", "n", "KL(p ‖ q)", "best peer", "its error", "AutoRatio", "× best peer"]
    return markdown(header, rows)


def method_table(table: Table, seconds: Table) -> str:
    rows = [
        [
            method.name + ("*" if method.on_fitted else ""),
            *map(digits, table.errors[:, k]),
            f"{digits(geometric_mean(table.errors[:, k]))} ({np.isfinite(table.errors[:, k]).sum()})",
            digits(geometric_mean(relative(table.errors[:, k], table.oracle))),
            digits(float(np.nansum(seconds.column(method.name)))),
        ]
        for k, method in enumerate(table.methods)
    ]
    rows.append(["oracle of peers", *map(digits, table.oracle), digits(geometric_mean(table.oracle)), "1", ""])
    header = ["method", *(f"{p.number}" for p in PROBLEMS), "geometric mean (of)", "× oracle", "seconds"]
    return markdown(header, rows)


def summary(table: Table) -> str:
    """Compare `AutoRatio` with the oracle, on all problems and on each half."""
    auto = table.column("AutoRatio")
    lines = []
    for group in ("all", "design", "report"):
        rows = np.array([group in ("all", p.group) for p in PROBLEMS]) & np.isfinite(auto + table.oracle)
        if not rows.any():
            lines.append(f"- {group}: `AutoRatio` or the peers have not been run.")
            continue
        times = np.where(rows, relative(auto, table.oracle), -math.inf)
        worst = int(times.argmax())
        mine, best = geometric_mean(auto[rows]), geometric_mean(table.oracle[rows])
        lines.append(
            f"- {group}, {rows.sum()} problems: `AutoRatio` {digits(mine)}, oracle of peers {digits(best)}, ratio "
            f"{digits(mine / best)} (target: 1). Worst problem: {digits(times[worst])} × the best peer, on "
            f"{PROBLEMS[worst].name} (target: 1.25)."
        )
    return "\n".join(lines)


def network_table(table: Table) -> str:
    """Return the network in x, in z, and in both over a base, and the network of the paper, where KL is large."""
    names = ["relu", "z relu", "mlp", "z mlp", "x+z mlp", "featurized", "telescoping"]
    columns = [table.column(name) for name in names]
    columns.append(relative(columns[5], columns[2]))
    far = [i for i, p in enumerate(PROBLEMS) if p.kl >= LARGE_KL]
    rows = [[PROBLEMS[i].name, *(digits(column[i]) for column in columns)] for i in far]
    rows.append(["geometric mean", *(digits(geometric_mean(column[far])) for column in columns)])
    return markdown(["problem", *names, "featurized : mlp"], rows)


def missing(lines: Iterable[dict[str, Any]], seeds: Sequence[int]) -> str:
    """List the methods with missing fits: their means are over fewer seeds."""
    there = Counter((line["method"], line["seed"]) for line in lines)
    n_fits = {m.name: sum(m.suits(problem) for problem in PROBLEMS) for m in METHODS}
    few = {name: [there[name, seed] for seed in seeds] for name in n_fits}
    return "\n".join(
        f"- {name}: {', '.join(f'{n} of {n_fits[name]} (seed {seed})' for n, seed in zip(counts, seeds, strict=True))}"
        for name, counts in few.items()
        if any(n < n_fits[name] for n in counts)
    )


def report() -> str:
    lines = records()
    everywhere, near, seconds = (Table.of(lines, region) for region in ("error", "error_near", "seconds"))
    failed = sorted({f"- {r['method']}, {r['name']}: {r['message']}" for r in lines if r["message"]})
    seeds = sorted({record["seed"] for record in lines})
    return "\n\n".join(
        [
            "# Accuracy of log r",
            NOTE.format(seeds=", ".join(f"{seed}" for seed in seeds)),
            problem_table(everywhere),
            "## AutoRatio against the oracle, all rows",
            summary(everywhere),
            "## AutoRatio against the oracle, rows with |log r| < 5",
            summary(near),
            f"## A network in z and in x, KL ≥ {LARGE_KL:.0f}",
            network_table(everywhere),
            "## Every method, all rows",
            method_table(everywhere, seconds),
            "## Every method, rows with |log r| < 5",
            method_table(near, seconds),
            "## What failed",
            "\n".join(failed) or "Nothing.",
            "## Missing fits",
            missing(lines, seeds) or "Nothing.",
            "## Versions",
            f"flowratio {flowratio.__version__}, {versions()}, {load_peers()}",
        ]
    )


def draw_heat_map(table: Table, path: Path) -> None:
    """Draw log10 of the error relative to the best method of each problem."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    comparable = [not method.on_fitted for method in table.methods]
    best = np.fmin.reduce(table.errors[:, comparable], axis=1, initial=math.nan)
    height = np.log10(relative(table.errors, best[:, None]))
    n_methods, n_peers = len(table.methods), sum(m.kind == "peers" for m in table.methods)
    figure, axes = plt.subplots(figsize=(4.2 + 0.36 * n_methods, 9), layout="constrained")
    axes.set_facecolor("0.85")
    image = axes.imshow(height, cmap="viridis_r", vmin=0, vmax=3, aspect="auto")
    for i, k in zip(*np.nonzero(np.isfinite(height)), strict=True):
        shade = "white" if height[i, k] > 1.5 else "black"
        axes.text(k, i, f"{height[i, k]:.1f}", ha="center", va="center", fontsize=6, color=shade)
    axes.axvline(n_peers - 0.5, color="red", linewidth=2)
    names = [m.name + ("*" if m.on_fitted else "") for m in table.methods]
    axes.set_xticks(range(n_methods), names, rotation=60, ha="right", rotation_mode="anchor", fontsize=8)
    labels = [f"{p.name} (d {p.d}, n {p.n_p}, KL {p.kl:.1f})" for p in PROBLEMS]
    axes.set_yticks(range(len(PROBLEMS)), labels, fontsize=8)
    axes.set_title(
        "log₁₀ of the error of log r over that of the best (left of the line: peers, right: ours, gray: not run)"
    )
    figure.colorbar(image, extend="max", fraction=0.03, pad=0.01)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def write_table() -> None:
    if not records():
        sys.exit("There are no results yet: `python benchmarks/accuracy.py run` measures them.")
    for name, write in (
        ("accuracy.md", lambda path: path.write_text(report() + "\n")),
        ("accuracy.png", lambda path: draw_heat_map(Table.of(records(), "error"), path)),
    ):
        new = RESULTS / f".{name.replace('.', '-new.')}"
        write(new)
        new.replace(RESULTS / name)
        print(RESULTS / name)


def check() -> None:
    """Print what is wrong with the problems, and fail if anything is."""
    wrong = 0
    for problem in PROBLEMS:
        problems = list(failures(problem))
        wrong += len(problems)
        print(f"{problem.number} {problem.name}, KL {problem.kl:.2f}: {', '.join(problems) or 'right'}", flush=True)
    sys.exit(1 if wrong else 0)


def selection(text: str, kind: str, items: dict[str, list[Any]]) -> list[Any]:
    """Return what comma-separated names stand for, each once."""
    names = text.split(",")
    if unknown := [name for name in names if name not in items]:
        sys.exit(f"{', '.join(unknown)}: no such {kind}. Choose from {', '.join(items)}.")
    return list(dict.fromkeys(item for name in names for item in items[name]))


def main() -> None:
    parser = argparse.ArgumentParser(description="The error of log r: `run`, then `table`. `check` tests the problems.")
    parser.add_argument("command", nargs="?", choices=("run", "table", "check"), help="if none: run, then table")
    parser.add_argument("--methods", default="all", help="names, or peers, x, z, joint, auto, all, separated by commas")
    parser.add_argument("--problems", default="all", help="numbers, separated by commas")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--group", default="all", choices=("design", "report", "all"))
    parser.add_argument("--limit-seconds", type=float, default=math.inf, help="skip fits that take longer (estimate)")
    arguments = parser.parse_args()
    if arguments.command in ("table", "check"):
        return {"table": write_table, "check": check}[arguments.command]()
    methods: dict[str, list[Method]] = {"all": list(METHODS)}
    for method in METHODS:
        methods.setdefault(method.kind, []).append(method)
        methods[method.name] = [method]
    problems = {"all": list(PROBLEMS)} | {f"{p.number}": [p] for p in PROBLEMS}
    in_group = [p for p in selection(arguments.problems, "problem", problems) if arguments.group in ("all", p.group)]
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    run(selection(arguments.methods, "method", methods), in_group, seeds, arguments.limit_seconds)
    return None if arguments.command else write_table()


if __name__ == "__main__":
    one_thread()
    use_processor_time()  # the budget of the automatic choice
    warnings.simplefilter("ignore")  # p and q of some problems hardly overlap, so the ratios warn
    main()
