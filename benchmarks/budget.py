"""Time budgets: whether `AutoRatio(time_budget=b)` ends in time, and whether it is as good as boosting alone.

Claims: it ends within 1.2 b or b + 5 seconds, for 200 to 10⁶ rows of both samples together and 2 to 2000 columns. With
60 seconds its score on 20 000 other rows is never more than two standard errors below that of boosting alone.

The seconds are those of the whole fit, with all checks, the combination and the measure of overlap. Boosting alone has
no limit. Every line of results/budget.jsonl is one fit, with the candidates that ran. Fits in this file are printed and
not run again, so a run that was killed resumes. Use a quiet machine, or `--processor-time`. The budget is then
processor time on one thread, which is about the time on a quiet machine.
Cost: the sum of the budgets, about 35 minutes, and 10 minutes for boosting.
Command: python benchmarks/budget.py [--grid design] [--cells 200x2000,21000x23] [--budgets 10,60]
                                    [--processor-time] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _timing import one_thread, use_processor_time
from scipy.special import log_expit

from flowratio import AutoRatio, ClassifierRatio

OUT = Path(__file__).resolve().parents[1] / "results" / "budget.jsonl"
Draw = Callable[[int, int, int, bool], np.ndarray]
N_HELD_OUT = 10_000  # rows of each sample
# rows of both samples, columns, budgets in seconds
GRID = (
    (200, 2, (10, 60)),
    (200, 2000, (10, 30, 60)),
    (2_000, 20, (10, 60)),
    (4_000, 500, (30, 60)),
    (21_000, 23, (10, 60)),
    (10_000, 2000, (60,)),
    (100_000, 50, (60, 240)),
    (1_000_000, 2, (60,)),
    (1_000_000, 20, (60, 240)),
)
# other sizes and other data, on which nothing was chosen
REPORT_GRID = (
    (200, 10, (10, 60)),
    (500, 1500, (20, 60)),
    (3_000, 100, (10, 60)),
    (8_000, 300, (30, 60)),
    (30_000, 8, (10, 60)),
    (50_000, 40, (60,)),
    (300_000, 100, (60,)),
    (1_000_000, 5, (60,)),
    (1_000_000, 30, (60,)),
)


def draw_skewed(n: int, d: int, seed: int, is_p: bool) -> np.ndarray:
    """Return rows (n, d): skewed, correlated and discrete columns. p has another mean, threshold and product."""
    rng = np.random.default_rng([seed, n, d, is_p])
    X = rng.standard_normal((n, d))
    X[:, 1:] += 0.5 * X[:, :-1]
    if is_p:
        X[:, 0] += 0.3
        X[:, 1] += 0.8 * (X[:, 0] > 1)
        if d > 3:
            X[:, 3] += 0.4 * X[:, 2]
    X[:, 0::4] = np.exp(X[:, 0::4])
    X[:, 2::5] = np.round(X[:, 2::5])
    return X


def draw_clusters(n: int, d: int, seed: int, is_p: bool) -> np.ndarray:
    """Return rows (n, d): three clusters with heavy tails. p has other shares, a wider cluster and another product."""
    rng = np.random.default_rng([7, seed, n, d, is_p])
    cluster = rng.choice(3, n, p=[0.5, 0.3, 0.2] if is_p else [0.35, 0.35, 0.3])
    X = rng.standard_t(4, (n, d)) * (1 + 0.4 * ((cluster == 2) & is_p))[:, None]
    X[:, : d // 2] += np.array([-1.5, 0.0, 1.5])[cluster][:, None] / math.sqrt(d // 2)
    X[:, -1] += (0.5 if is_p else -0.1) * X[:, 0] * X[:, 1]
    X[:, 1::6] = np.abs(X[:, 1::6])
    X[:, 4::7] = X[:, 4::7] > 0.5
    return X


def losses(ratio: Any, X: np.ndarray, is_p: np.ndarray) -> np.ndarray:
    return -log_expit(np.where(is_p, 1, -1) * ratio.log_ratio(X))


def fit(ratio: Any, n: int, d: int, draw: Draw) -> tuple[dict[str, Any], np.ndarray]:
    """Fit a ratio, and return its seconds and score, and its losses on other rows."""
    X_p, X_q = draw(n // 2, d, 0, True), draw(n // 2, d, 0, False)
    wall, processor = time.perf_counter(), time.process_time()
    ratio.fit_samples(X_p, X_q)
    seconds = {"seconds": time.perf_counter() - wall, "processor_seconds": time.process_time() - processor}
    n_new = min(N_HELD_OUT, 20_000_000 // d)
    X, is_p = np.concatenate([draw(n_new, d, 1, True), draw(n_new, d, 1, False)]), np.arange(2 * n_new) < n_new
    loss = losses(ratio, X, is_p)
    return {**seconds, "score": math.log(2) - float(loss.mean())}, loss


def standard_error(gains: np.ndarray) -> float:
    p, q = np.split(gains, 2)
    return 0.5 * math.sqrt(p.var() / len(p) + q.var() / len(q))


def entry(
    n: int, d: int, budget: float, draw: Draw, of_boosting: tuple[dict[str, Any], np.ndarray], clock: str
) -> dict[str, Any]:
    ratio = AutoRatio(time_budget=budget, random_state=0)
    result, loss = fit(ratio, n, d, draw)
    boosting, boosting_loss = of_boosting
    gains = boosting_loss - loss
    seconds = result["processor_seconds" if clock == "processor" else "seconds"]
    candidates = [[one.name, one.status.value, one.detail, one.score, one.seconds] for one in ratio.results_.candidates]
    return {
        **result,
        "n": n,
        "d": d,
        "budget": budget,
        "clock": clock,
        "boosting": boosting,
        "in_time": seconds <= max(1.2 * budget, budget + 5),
        "gain": float(gains.mean()),
        "standard_error": standard_error(gains),
        "stack": dict(zip(ratio.names_, map(float, ratio.shares_), strict=True)),
        "verdict": ratio.results_.verdict,
        "candidates": candidates,
        "load": os.getloadavg()[0],
    }


def show(line: dict[str, Any]) -> None:
    seconds = line["processor_seconds" if line["clock"] == "processor" else "seconds"]
    tried = sum(status in ("scored", "stopped early", "not needed") for _, status, *_ in line["candidates"])
    gain, error = line["gain"], line["standard_error"]
    flag = "" if line["in_time"] else "  TOO LATE"
    flag += "  WORSE THAN BOOSTING" if gain < -2 * error and line["budget"] >= 60 else ""
    print(
        f"{line['n']:>8} x {line['d']:<5} budget {line['budget']:>4} s: {seconds:6.1f} s, {tried:>2} of "
        f"{len(line['candidates'])} candidates, score {line['score']:.4f}, boosting {line['boosting']['score']:.4f} "
        f"({gain:+.4f} ± {error:.4f}){flag}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--grid", choices=["design", "report"], default="report")
    parser.add_argument("--cells", default="", help="such as 200x2000,21000x23")
    parser.add_argument("--budgets", default="", help="such as 10,60")
    parser.add_argument("--processor-time", action="store_true")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    cells, budgets = filter(None, options.cells.split(",")), filter(None, options.budgets.split(","))
    cell_names, seconds = {*cells}, {*map(float, budgets)}
    clock = "processor" if options.processor_time else "wall"
    one_thread()
    if options.processor_time:
        use_processor_time()
    lines = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    ready = {(line["n"], line["d"], line["budget"], line["clock"]): line for line in lines}
    warnings.simplefilter("ignore")
    draw, grid = (draw_clusters, REPORT_GRID) if options.grid == "report" else (draw_skewed, GRID)
    for n, d, all_budgets in grid:
        if cell_names and f"{n}x{d}" not in cell_names:
            continue
        of_boosting = None
        for budget in all_budgets:
            if seconds and budget not in seconds:
                continue
            line = ready.get((n, d, budget, clock))
            if line is None:
                of_boosting = of_boosting or fit(ClassifierRatio("boosting", random_state=0), n, d, draw)
                line = entry(n, d, budget, draw, of_boosting, clock)
                with options.out.open("a") as file:
                    file.write(json.dumps(line) + "\n")
            show(line)


if __name__ == "__main__":
    main()
