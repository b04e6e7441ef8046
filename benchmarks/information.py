"""Mutual information on 132 distributions with known truth, 0 to 10 nats, 2 to 50 columns: coverage and error.

Claims: intervals of *reliable* results cover the truth in at least 93 % of the cases, and the median absolute error is
at most half of that of 0.1.0. `results/information.md` shows whether they hold. The method was designed on the 80 tasks
of `_information_tasks.py`. Nothing was chosen on the 52 tasks of `_information_report_tasks.py`, the report half.
Results are appended to `results/information.jsonl`. A run resumes where the last one stopped.
Cost of the report half: about 15 minutes for each seed, one thread, and 50 minutes for 0.1.0. Commands:

    python benchmarks/information.py --half report --seeds 3      # run what is missing, and write the tables
    python benchmarks/information.py --half report --seeds 0      # write the tables only
    python benchmarks/information.py --half report --seeds 1 --baseline PATH    # the code in PATH/src, as "0.1.0"
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from _information_report_tasks import report_tasks
from _information_tasks import Task, tasks
from scipy.stats import binomtest

RESULTS = Path(__file__).parent.parent / "results" / "information.jsonl"
HERE, BASELINE = "this version", "0.1.0"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="draws of each task. 0 prints the tables only")
    parser.add_argument("--tasks", default="", help="only tasks whose name has this text")
    parser.add_argument("--half", choices=["design", "report"], help="only this half of the tasks")
    parser.add_argument("--baseline", type=Path, help="a checkout of 0.1.0, whose code to run instead")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--version", default=HERE, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.baseline is not None:
        arguments = [a for a in sys.argv[1:] if a != "--baseline" and Path(a) != options.baseline]
        environment = {**os.environ, "PYTHONPATH": str(options.baseline.resolve() / "src")}
        command = [sys.executable, __file__, *arguments, "--version", BASELINE]
        raise SystemExit(subprocess.run(command, env=environment, check=False).returncode)
    selection = [t for t in all_tasks() if options.tasks in t.name and options.half in (None, t.half)]
    run(selection, options.seeds, options.version, options.results)
    records = load(options.results)
    report(selection, records, options.version)
    if options.half == "report":
        names = {task.name for task in selection}
        text = page([r for r in records if r["task"] in names])
        options.results.with_suffix(".md").write_text(text)


def all_tasks() -> list[Task]:
    """Return the tasks of both halves, the report half in an order by hash: a run that stops early has a fair mix."""
    return [*tasks(), *sorted(report_tasks(), key=lambda task: task.key)]


def load(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(selection: list[Task], n_seeds: int, version: str, path: Path) -> None:
    """Run what is missing, seed by seed."""
    runs = {(r["task"], r["seed"], r["version"]) for r in load(path)}
    for seed in range(n_seeds):
        for task in selection:
            if (task.name, seed, version) not in runs:
                record = {"task": task.name, "seed": seed, "version": version, **measure(task, seed, version)}
                path.parent.mkdir(exist_ok=True)
                with path.open("a") as file:
                    file.write(json.dumps(record) + "\n")
                print(line(task, record), flush=True)


def measure(task: Task, seed: int, version: str) -> dict[str, Any]:
    import polars as pl
    from threadpoolctl import threadpool_limits

    from flowratio import mutual_information

    if version == BASELINE:  # its budget of 240 seconds counts processor time, so that other processes do not matter
        race: Any = import_module("flowratio.ratios.auto.race")
        race.time = SimpleNamespace(perf_counter=time.process_time)
    x, y = task.sample(seed)
    X, Y = (pl.DataFrame(v.tolist(), orient="row") if v.dtype == object else v for v in (x, y))
    with threadpool_limits(1):
        start = time.process_time()
        result = mutual_information(X, Y, random_state=seed)
        seconds = time.process_time() - start
    low, high = result.interval()
    return {
        "n": task.n,
        **oracle(task, seed),
        "truth": task.truth,
        "value": result.value,
        "standard_error": result.standard_error,
        "low": low,
        "high": high if math.isfinite(high) else None,
        "verdict": str(result.verdict),
        "limit": str(result.limit.value),
        "seconds": round(seconds, 1),
        "reason": result.reason,
    }


def oracle(task: Task, seed: int) -> dict[str, float]:
    """Return the estimate by the true log r of the same rows, and its standard error: the efficient limit."""
    log_r = task.log_ratios(seed)
    if log_r is None:
        return {}
    return {"oracle": float(log_r.mean()), "limit_error": float(log_r.std()) / math.sqrt(task.n)}


def covers(record: dict[str, Any]) -> bool:
    high = math.inf if record["high"] is None else record["high"]
    return record["low"] - 1e-9 <= record["truth"] <= high + 1e-9  # truths from sums have rounding errors


def line(task: Task, r: dict[str, Any]) -> str:
    value = f"{r['truth']:7.3f} {r['value']:7.3f} ± {r['standard_error']:.3f}"
    mark = "covered" if covers(r) else "MISSED"
    return (
        f"{task.name:34.34} {task.half:6} {value} {r['verdict']:13} {r['limit']:12.12} {mark:8} {r['seconds']:6.1f} s"
    )


def report(selection: list[Task], records: list[dict[str, Any]], version: str) -> None:
    """Print each task with its last seed, and the claims by half."""
    names = {task.name: task for task in selection}
    records = [r for r in records if r["task"] in names]
    own = [r for r in records if r["version"] == version]
    for r in sorted(own, key=lambda r: (list(names).index(r["task"]), r["seed"])):
        print(line(names[r["task"]], r))
    for half in ("design", "report"):
        both = {
            v: [r for r in records if r["version"] == v and names[r["task"]].half == half] for v in (BASELINE, HERE)
        }
        shared = {(r["task"], r["seed"]) for r in both[BASELINE]} & {(r["task"], r["seed"]) for r in both[HERE]}
        for v, part in both.items():
            if part:
                print(f"{half:6} {v:12}: {summary(part)}")
        errors = {
            v: np.median([abs(r["value"] - r["truth"]) for r in part if (r["task"], r["seed"]) in shared])
            for v, part in both.items()
            if shared
        }
        if errors:
            ratio = errors[HERE] / errors[BASELINE]
            print(f"{half:6} median absolute error on {len(shared)} shared draws: {ratio:.2f} of that of {BASELINE}")


def page(records: list[dict[str, Any]]) -> str:
    """Return the results of the report half as a page."""
    out = ["# Mutual information: the report half", "", "Written by `python benchmarks/information.py --half report`."]
    out += ["Errors are in nats. The oracle is the mean of the true log r of the same rows, the efficient limit.", ""]
    out += ["| version | draws | tasks | reliable | reliable that cover | 95 % range | median error | seconds |"]
    out += ["|---|---|---|---|---|---|---|---|"]
    for version in (HERE, BASELINE):
        part = [r for r in records if r["version"] == version]
        reliable = [r for r in part if r["verdict"] == "reliable"]
        k, m = sum(map(covers, reliable)), len(reliable)
        low, high = binomtest(k, max(m, 1)).proportion_ci(0.95, "exact")
        cells = [version, len(part), len({r["task"] for r in part}), m, f"{k} ({100 * k / max(m, 1):.0f} %)"]
        cells += [
            f"{100 * low:.0f} % to {100 * high:.0f} %",
            f"{median_error(part):.4f}",
            f"{np.mean([r['seconds'] for r in part]):.0f}",
        ]
        out.append(f"| {' | '.join(map(str, cells))} |")
    own, base = ({(r["task"], r["seed"]): r for r in records if r["version"] == v} for v in (HERE, BASELINE))
    shared = own.keys() & base.keys()
    errors = [median_error([part[key] for key in shared]) for part in (own, base)]
    oracle_error = float(np.median([abs(own[key]["oracle"] - own[key]["truth"]) for key in shared]))
    out += ["", f"Median absolute error on {len(shared)} shared draws: {errors[0]:.4f} in {HERE}, {errors[1]:.4f} in"]
    out += [f"{BASELINE}, a ratio of {errors[0] / errors[1]:.2f} (target: 0.5). The oracle has {oracle_error:.4f}.", ""]
    out += ["Every draw of this version, the largest errors first:", ""]
    out += [
        "| task | seed | n | truth | estimate | interval | oracle | verdict | 0.1.0 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for key, r in sorted(own.items(), key=lambda item: -abs(item[1]["value"] - item[1]["truth"])):
        high = "open" if r["high"] is None else f"{r['high']:.3f}"
        verdict = r["verdict"] + ("" if covers(r) else ", **misses**")
        value = f"{r['value']:.3f} ± {r['standard_error']:.3f}"
        cells = [key[0].removeprefix("fresh "), key[1], r["n"], f"{r['truth']:.3f}", value, f"{r['low']:.3f} to {high}"]
        cells += [f"{r['oracle']:.3f}", verdict, f"{base[key]['value']:.3f}" if key in base else ""]
        out.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(out) + "\n"


def median_error(records: list[dict[str, Any]]) -> float:
    return float(np.median([abs(r["value"] - r["truth"]) for r in records]))


def summary(records: list[dict[str, Any]]) -> str:
    reliable = [r for r in records if r["verdict"] == "reliable"]
    coverage = f"{100 * np.mean([covers(r) for r in reliable]):.1f} %" if reliable else "–"
    error = np.median([abs(r["value"] - r["truth"]) for r in records])
    seconds = np.mean([r["seconds"] for r in records])
    return (
        f"{len(records)} draws, {len(reliable)} reliable, of which {coverage} cover. "
        f"Median absolute error {error:.4f}, {seconds:.1f} s on average"
    )


if __name__ == "__main__":
    main()
