"""How often verdicts are right: 756 cross-fitted diagnoses of ratios whose truth has a closed form.

Claim: fits with the verdict *reliable* have a median error of log r on p's rows below 0.1 nats², and none above 1. At
least 9 of 10 fits with the verdict *do not use* are truly unusable.

The error is the mean square of cross-fitted minus true log r over the rows of p. A fit is truly unusable if one of
these holds:

- Its error is above 1 nats².
- Its error is 0.1 nats² above that of r = 1 everywhere.
- A weighted column mean of q is more than 0.25 standard deviations of p from the true mean of p.
- The effective sample size of the true ratio on the rows of q is below 10.

Thresholds were chosen on half of the problems, by a hash of the name, with seeds 0 and 1. The table shows both halves.
benchmarks/README.md lists the rules that were changed after we had seen the other half.

`run` appends a line to results/verdicts.jsonl for every fit, and skips fits that are in the file. `table` prints the
counts. Without a command, both run.
Cost: about 25 minutes of processor time.
Command: python benchmarks/verdicts.py [run | table] [--out FILE] [--limit-seconds 600]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from _timing import one_thread
from _verdict_cases import Case, cases

from flowratio.diagnostics.diagnosis import Diagnosis, diagnosis_of
from flowratio.diagnostics.evaluation import Evaluation, cross_fitted
from flowratio.samples.two_samples import two_samples
from flowratio.weights import effective_sample_size, self_normalize

FILE = Path(__file__).resolve().parents[1] / "results" / "verdicts.jsonl"
LARGEST_ERROR, WORSE, LARGEST_SHIFT, FEWEST = 1.0, 0.1, 0.25, 10.0  # beyond them a fit is truly unusable
N_TRUTH = 100_000  # rows of p for its true means
VERDICTS = ("reliable", "use with care", "do not use")


def evaluated(case: Case) -> tuple[Evaluation, dict[str, float]]:
    """Cross-fit a case, and return held-out log-ratios with the truth about them."""
    X_p, X_q = case.problem.draw(case.seed)
    evaluation = cross_fitted(case.method, two_samples(X_p, X_q), case.seed)
    true_p, true_q = case.problem.log_r(X_p), case.problem.log_r(X_q)
    log_p, log_q = evaluation.log_r[: len(X_p)], evaluation.log_r[len(X_p) :]
    rows = case.problem.p.draw(N_TRUTH, np.random.default_rng([case.seed, case.problem.number, 9]))
    shift = (self_normalize(log_q) @ X_q - rows.mean(axis=0)) / rows.std(axis=0)
    truth = {
        "error": float(np.mean((log_p - true_p) ** 2)),
        "error_of_one": float(np.mean(true_p**2)),
        "shift": float(np.abs(shift).max()),
        "true_ess": effective_sample_size(true_q),
    }
    return evaluation, truth


def is_unusable(line: dict[str, Any]) -> bool:
    """Return whether a fit is truly unusable, by the definition above."""
    is_wrong = line["error"] > min(LARGEST_ERROR, line["error_of_one"] + WORSE)
    return is_wrong or line["shift"] > LARGEST_SHIFT or line["true_ess"] < FEWEST


def line_of(case: Case, diagnosis: Diagnosis, truth: dict[str, float], seconds: float) -> dict[str, Any]:
    """Return a line of the file: the case, the truth, the verdict and the numbers behind it."""
    problem, overlap, rest = case.problem, diagnosis.overlap, diagnosis.residual
    named = {"key": case.key, "problem": problem.name, "method": case.method, "half": case.half}
    numbers = {
        "n_p": problem.n_p,
        "n_q": problem.n_q,
        "d": problem.d,
        **truth,
        "score": diagnosis.score,
        "ess": overlap.ess_q,
        "headroom": overlap.headroom,
        "k_hat": overlap.k_hat_q,
        "stability": diagnosis.stability,
        "gain": rest.gain,
        "gain_z": rest.z,
        "n_overlap": rest.n_overlap,
        "seconds": seconds,
    }
    rounded = {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in numbers.items()}
    rounded = {k: v if not isinstance(v, float) or np.isfinite(v) else None for k, v in rounded.items()}
    return {**named, **rounded, "verdict": str(diagnosis.verdict), "warnings": diagnosis.warnings}


def run(path: Path, limit: float) -> None:
    """Run the cases that the file does not have, until these seconds are over."""
    end, lines = time.monotonic() + limit, read(path)
    there = {line["key"] for line in lines}
    one_thread()
    with path.open("a", encoding="utf-8") as file:
        for case in cases():
            if case.key in there or time.monotonic() > end:
                continue
            start = time.process_time()
            evaluation, truth = evaluated(case)
            line = line_of(case, diagnosis_of(evaluation, 1, case.seed), truth, time.process_time() - start)
            file.write(json.dumps(line) + "\n")
            file.flush()


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def table(lines: list[dict[str, Any]]) -> str:
    """Return the counts of each verdict in both halves, and whether the claims hold."""
    rows = ["| half | verdict | fits | median error | largest error | truly unusable |", "|---|---|---|---|---|---|"]
    for half in ("design", "report", "all"):
        for verdict in VERDICTS:
            part = [one for one in lines if half in (one["half"], "all") and one["verdict"] == verdict]
            if part:
                errors = [one["error"] for one in part]
                unusable = np.mean([is_unusable(one) for one in part])
                numbers = f"{np.median(errors):.3g} | {max(errors):.3g} | {100 * unusable:.0f} %"
                rows.append(f"| {half} | {verdict} | {len(part)} | {numbers} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="?", choices=("run", "table", "both"), default="both")
    parser.add_argument("--out", type=Path, default=FILE)
    parser.add_argument("--limit-seconds", type=float, default=float("inf"))
    arguments = parser.parse_args()
    if arguments.command != "table":
        run(arguments.out, arguments.limit_seconds)
    print(table(read(arguments.out)))


if __name__ == "__main__":
    main()
