"""Seconds and memory of the ratios, compared with their peers in one run.

Claims:
- kmm: at n = 3000 at least 20 × faster than ADAPT's KMM as one quadratic program. The objective is not larger (within
  1e-6 of its size) for the same rows, kernel and bounds. n = 100 000 takes under 60 s and 2 GB.
- kliep: at n = 10 000, with the search for its bandwidth, at least 10 × faster than ADAPT's KLIEP with a grid of the
  same size.
- ulsif: at n = 10 000, with its whole grid, at least 20 × faster than the grids of densratio and ADAPT. Under 100 MB.
- logistic: `ClassifierRatio("logistic")` fits within 1.1 × of the time of scikit-learn's `LogisticRegression`.
- memory: every ratio scores 10⁶ × 10 rows with under 500 MB added.

q = N(0, I), p = N(1, I), n rows of each, d = 2 and 10. Seconds are processor time. The memory of ours is the peak of a
separate process, above its memory before the task. One thread. Cost: about 12 minutes.
Command: python benchmarks/ratios.py [kmm] [kliep] [ulsif] [logistic] [memory]
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from _memory import added_mb
from _peers import adapt_kmm_weights, adapts, densratios, grid, load_peers, skada_kmm_weights
from _ratio_problems import OURS, PROBLEMS
from _tables import print_table, run_sections, short, verdict
from _timing import Result, all_turns, one_thread, timed
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel

import flowratio

N_SCORED = 1_000_000
N_ROUNDS = 101
DIMENSIONS = {2: PROBLEMS["d=2, KL 1"], 10: PROBLEMS["d=10, KL 5"]}


def at_least(bound: float, times: float) -> str:
    return f"{bound:g} {verdict(times >= bound)}"


def median_seconds(work: Callable[[], object], n_rounds: int = 3) -> float:
    """Return the median of a few rounds, after one to warm up."""
    work()
    return float(np.median([timed(work)[1] for _ in range(n_rounds)]))


def measured(work: Callable[[], Result]) -> tuple[Result, float, float]:
    """Return the result of a function, its seconds, and the MB that it added at its peak."""
    results: list[tuple[Result, float]] = []
    mb = added_mb(lambda: results.append(timed(work)))
    return *results[0], mb


def alone(task: str, name: str, n: int, d: int) -> tuple[float, float]:
    """Return seconds and added MB of a task in a separate process."""
    command = [sys.executable, __file__, "alone", task, name, str(n), str(d)]
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    seconds, mb = json.loads(result.stdout.splitlines()[-1])
    return seconds, mb


def alone_main(task: str, name: str, n: int, d: int) -> None:
    """Print seconds and added MB of one task."""
    X_p, X_q = DIMENSIONS[d].draw(n, 0)
    ratio = OURS[name](0)
    if task == "fit":
        OURS[name](1).fit_samples(X_p[:100], X_q[:100])  # imports do not count
        _, seconds, mb = measured(partial(ratio.fit_samples, X_p, X_q))
    else:
        X = np.random.default_rng(1).standard_normal((N_SCORED, d))
        ratio.fit_samples(X_p, X_q).log_ratio(X[:1000])
        _, seconds, mb = measured(partial(ratio.log_ratio, X))
    print(json.dumps([seconds, mb]))


def objective(beta: np.ndarray, K: np.ndarray, kappa: np.ndarray) -> float:
    return float(0.5 * beta @ K @ beta - kappa @ beta)


def violation(beta: np.ndarray, max_weight: float, tolerance: float) -> float:
    """Return by how much weights leave the box, or their mean the slab around 1."""
    return float(max(0, -beta.min(), beta.max() - max_weight, abs(beta.mean() - 1) - tolerance))


def kmm_rows(n: int) -> Iterator[list[str]]:
    max_weight, tolerance = 1000.0, 1 - 1 / math.sqrt(n)  # of all three by default
    for d, problem in DIMENSIONS.items():
        X_p, X_q = problem.draw(n, 0)
        gamma, bandwidth = 1 / d, math.sqrt(d / 2)  # ADAPT's default, in its words and in ours
        exact = flowratio.KMM(bandwidth, max_weight=max_weight, tolerance=tolerance, gap=1e-6)
        default = flowratio.KMM(bandwidth, max_weight=max_weight, tolerance=tolerance)
        mine, quick = (median_seconds(partial(ratio.fit_samples, X_p, X_q)) for ratio in (exact, default))
        X_p, X_q = (X_p - exact.mean_) / exact.scale_, exact.rows_
        K, kappa = rbf_kernel(X_q, gamma=gamma), rbf_kernel(X_q, X_p, gamma=gamma).sum(axis=1)
        settings = (X_p, X_q, gamma, max_weight, tolerance)
        solutions = {
            "ADAPT": timed(partial(adapt_kmm_weights, *settings)),
            "`KMM(gap=1e-6)`": (exact.q_weights_, mine),
            "`KMM()`": (default.q_weights_, quick),
            "skada": timed(partial(skada_kmm_weights, *settings)),
        }
        best = objective(solutions["ADAPT"][0], K, kappa)
        for name, (beta, seconds) in solutions.items():
            above = (objective(beta, K, kappa) - best) / abs(best)
            faster = at_least(20, seconds / mine) if name == "ADAPT" else "–"
            close = f"1e-6 {verdict(above <= 1e-6)}" if name == "`KMM(gap=1e-6)`" else "–"
            outside = f"{violation(beta, max_weight, tolerance):.0e}"
            yield [f"{d}", name, short(seconds), short(seconds / mine), faster, f"{above:.1e}", close, outside]


def large_kmm_rows(n: int) -> Iterator[list[str]]:
    for d in DIMENSIONS:
        seconds, mb = alone("fit", "KMM", n, d)
        yield [
            f"{d}",
            f"{n:,}",
            short(seconds),
            f"60 {verdict(seconds < 60)}",
            f"{mb:.0f}",
            f"2048 {verdict(mb < 2048)}",
        ]


def kmm() -> None:
    n = 3_000
    print(f"\nKMM, n = {n:,}, the same standardized rows, kernel, B and ε. The objective is ½βᵀKβ − κᵀβ")
    header = [
        "d",
        "method",
        "seconds",
        "× ours",
        "bound",
        "objective, share above ADAPT's",
        "bound",
        "β outside B, ε by",
    ]
    print_table(header, kmm_rows(n))
    print("\n`KMM()` on many rows")
    print_table(["d", "n", "seconds", "bound", "MB added", "bound"], large_kmm_rows(100_000))


def kliep_rows(n: int) -> Iterator[list[str]]:
    for d, problem in DIMENSIONS.items():
        X_p, X_q = problem.draw(n, 0)
        X = problem.held_out(0)
        ratio = flowratio.KLIEP(random_state=0)
        mine = median_seconds(partial(ratio.fit_samples, X_p, X_q))
        n_bandwidths = int(np.isfinite(ratio.scores_[:, 0]).sum())  # besides inf, no kernels
        yield [f"{d}", "`KLIEP`", f"{n_bandwidths}", short(mine), "", "", short(problem.error(ratio.log_ratio, X))]
        peers = {"ADAPT": adapts("KLIEP", grid(n_bandwidths)), "densratio": densratios("KLIEP")}
        for name, fit in peers.items():
            score, seconds = timed(partial(fit, X_p, X_q, 0))
            size, bound = (f"{n_bandwidths}", at_least(10, seconds / mine)) if name == "ADAPT" else ("its own", "–")
            yield [f"{d}", name, size, short(seconds), short(seconds / mine), bound, short(problem.error(score, X))]


def kliep() -> None:
    n = 10_000
    print(f"\nKLIEP with the search for its bandwidth, n = {n:,}")
    print_table(["d", "method", "bandwidths", "seconds", "× ours", "bound", "error of log r"], kliep_rows(n))


def ulsif_rows(n: int) -> Iterator[list[str]]:
    peers = {"densratio": (densratios("uLSIF"), "9 × 9"), "ADAPT": (adapts("ULSIF", grid(7), grid(7)), "7 × 7")}
    for d, problem in DIMENSIONS.items():
        X_p, X_q = problem.draw(n, 0)
        X = problem.held_out(0)
        ratio = flowratio.ULSIF(random_state=0)
        mine = median_seconds(partial(ratio.fit_samples, X_p, X_q))
        mb = alone("fit", "ULSIF", n, d)[1]
        size = f"{len(ratio.bandwidths_)} × {len(ratio.regularizations_)}"
        error = short(problem.error(ratio.log_ratio, X))
        yield [f"{d}", "`ULSIF`", size, short(mine), "", "", f"{mb:.0f}", f"100 {verdict(mb < 100)}", error]
        for name, (fit, size) in peers.items():
            score, seconds, mb = measured(partial(fit, X_p, X_q, 0))
            times, error = seconds / mine, short(problem.error(score, X))
            yield [f"{d}", name, size, short(seconds), short(times), at_least(20, times), f"{mb:.0f}", "", error]


def ulsif() -> None:
    n = 10_000
    print(f"\nuLSIF with its whole grid, bandwidths × regularizations, n = {n:,}")
    header = ["d", "method", "grid", "seconds", "× ours", "bound", "MB added", "bound", "error of log r"]
    print_table(header, ulsif_rows(n))


def logistic_rows() -> Iterator[list[str]]:
    for d, problem in DIMENSIONS.items():
        for n in (1_000, 3_000, 10_000):
            X, y = flowratio.stack(*problem.draw(n, 0))
            ratio, plain = flowratio.ClassifierRatio("logistic"), LogisticRegression()
            fits = {"ours": partial(ratio.fit, X, y), "theirs": partial(plain.fit, X, y)}
            scores = {"ours": partial(ratio.log_ratio, X), "theirs": partial(plain.decision_function, X)}
            cells: list[str] = []
            for contestants, bound in ((fits, 1.1), (scores, math.inf)):
                all_turns(contestants, 5)  # warm up
                turns = all_turns(contestants, N_ROUNDS, time.process_time)
                mine, theirs = (1000 * float(np.median(seconds)) for seconds in turns.values())
                cells += [short(theirs), short(mine), short(mine / theirs)]
                cells += [f"{bound} {verdict(mine <= bound * theirs)}"] if bound < math.inf else []
            yield [f"{d}", f"{n:,}", *cells]


def logistic() -> None:
    print(f'\n`ClassifierRatio("logistic")` compared with `LogisticRegression()`: median of {N_ROUNDS} rounds, in ms')
    fit, score = (["scikit-learn", "ours", f"ratio, {what}"] for what in ("fit", "score of all rows"))
    print_table(["d", "n", *fit, "bound", *score], logistic_rows())


def memory_rows(n: int, d: int) -> Iterator[list[str]]:
    for name in OURS:
        seconds, mb = alone("score", name, n, d)
        yield [f"`{name}`", short(seconds), f"{mb:.0f}", f"500 {verdict(mb < 500)}"]


def memory() -> None:
    n, d = 2_000, 10
    print(f"\nlog r of {N_SCORED:,} × {d} rows, fitted to {n:,} of each sample. 8 MB of the memory are log r itself")
    print_table(["method", "seconds", "MB added", "bound"], memory_rows(n, d))


def main() -> None:
    sections = {"kmm": kmm, "kliep": kliep, "ulsif": ulsif, "logistic": logistic, "memory": memory}
    print(load_peers())
    run_sections(sections)


if __name__ == "__main__":
    one_thread()
    warnings.simplefilter("ignore")  # p and q of these problems hardly overlap, so the ratios warn
    if sys.argv[1:2] == ["alone"]:
        alone_main(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        main()
