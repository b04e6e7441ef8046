"""How often 95 % intervals cover the truth: 8 settings of divergences, 6 of mutual information, 200 draws of each.

Claim: among results that are called *reliable*, intervals cover the truth in 93 to 97 % of the draws, or the verdict is
not *reliable*. With 200 draws the standard error of a coverage is 1.5 %. Truths are closed forms, or sums over grids.
One cross-fit serves all divergences of a draw. Results are appended to `results/coverage.jsonl`. A run resumes where
the last one stopped.
Cost: about 10 minutes, one thread. Commands:

    python benchmarks/coverage.py --draws 200
    python benchmarks/coverage.py --draws 200 --settings gaussian skewed
    python benchmarks/coverage.py --draws 0                                  # print the table only
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.special import gammaln
from threadpoolctl import threadpool_limits

from flowratio import mutual_information
from flowratio.applications.crossfit import cross_fit, folds_of, ratio_to_fit
from flowratio.applications.divergences import Kind, estimate, flexible_check
from flowratio.applications.result import Result
from flowratio.applications.support import with_support
from flowratio.samples.two_samples import two_samples

RESULTS = Path(__file__).parent.parent / "results" / "coverage.jsonl"
KINDS: tuple[Kind, ...] = ("kl", "js", "tv", "hellinger")
LEVEL = 0.95


@dataclass(frozen=True)
class Setting:
    """Two distributions, a ratio to fit, and the true divergences."""

    name: str
    ratio: str
    draw: Callable[[np.random.Generator], tuple[Any, Any]]  # rows of p, and of q
    truth: dict[str, float]  # by kind


# ---- true divergences


def divergences(p: np.ndarray, q: np.ndarray) -> dict[str, float]:
    """Return the divergences of two tables of probabilities of the same shape."""
    p, q = p.ravel() / p.sum(), q.ravel() / q.sum()
    m = (p + q) / 2

    def kl(a: np.ndarray, b: np.ndarray) -> float:
        inside = a > 0
        return float(np.sum(a[inside] * np.log(a[inside] / np.maximum(b[inside], 1e-300))))

    return {
        "kl": kl(p, q),
        "js": (kl(p, m) + kl(q, m)) / 2,
        "tv": float(np.abs(p - q).sum()) / 2,
        "hellinger": 1 - float(np.sqrt(p * q).sum()),
    }


def gaussians(shift: float, scale: float = 1.0) -> dict[str, float]:
    """Return the divergences of N(shift, scale²) from N(0, 1), by sums over a fine grid."""
    x = np.linspace(-12, 12 + shift, 200_001)
    return divergences(np.exp(-(((x - shift) / scale) ** 2) / 2) / scale, np.exp(-(x**2) / 2))


def gammas(shape_p: float, shape_q: float) -> dict[str, float]:
    """Return the divergences of two gamma distributions, by sums over a grid of log x."""
    t = np.linspace(-30, 8, 400_001)
    return divergences(*(np.exp(a * t - np.exp(t) - gammaln(a)) for a in (shape_p, shape_q)))


# ---- draws


def gaussian_rows(shift: float, d: int, n_p: int, n_q: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Draw N(shift · e₁, I) and N(0, I) in d columns."""
    X_p, X_q = rng.normal(size=(n_p, d)), rng.normal(size=(n_q, d))
    X_p[:, 0] += shift
    return X_p, X_q


TABLE_P = np.array([0.30, 0.25, 0.20, 0.10, 0.10, 0.05])
TABLE_Q = np.array([0.15, 0.20, 0.20, 0.15, 0.10, 0.20])
SHIFT = 0.5  # of the number in the mixed table


def discrete_rows(rng: np.random.Generator) -> tuple[Any, Any]:
    names = np.array(list("abcdef"))
    return tuple(pl.DataFrame({"category": rng.choice(names, 500, p=p)}) for p in (TABLE_P, TABLE_Q))  # pyright: ignore


def mixed_rows(rng: np.random.Generator) -> tuple[Any, Any]:
    frames = []
    for p, shift in ((TABLE_P, SHIFT), (TABLE_Q, 0.0)):
        numbers, text = rng.normal(shift, 1, 500), rng.choice(np.array(list("abcdef")), 500, p=p)
        frames.append(pl.DataFrame({"number": numbers, "category": text}))
    return frames[0], frames[1]


def mixed_truth() -> dict[str, float]:
    x = np.linspace(-9, 9, 4_001)
    p, q = (np.outer(t, np.exp(-((x - m) ** 2) / 2)) for t, m in ((TABLE_P, SHIFT), (TABLE_Q, 0.0)))
    return divergences(p, q)


def wide_rows(rng: np.random.Generator) -> tuple[Any, Any]:
    return rng.normal(0, 1.6, (600, 1)), rng.normal(0, 1, (600, 1))


def settings() -> list[Setting]:
    """Return all settings."""

    def skewed(rng: np.random.Generator) -> tuple[Any, Any]:
        return np.log(rng.gamma(3.0, size=(500, 1))), np.log(rng.gamma(2.0, size=(500, 1)))

    def gauss(shift: float, d: int, n_p: int, n_q: int) -> Callable[[np.random.Generator], tuple[Any, Any]]:
        return partial(gaussian_rows, shift, d, n_p, n_q)

    return [
        Setting("gaussian", "logistic", gauss(0.7, 3, 500, 500), gaussians(0.7)),
        Setting("gaussian, qda", "qda", gauss(0.7, 3, 500, 500), gaussians(0.7)),
        Setting("skewed", "additive", skewed, gammas(3.0, 2.0)),
        Setting("discrete", "logistic", discrete_rows, divergences(TABLE_P, TABLE_Q)),
        Setting("mixed table", "logistic", mixed_rows, mixed_truth()),
        Setting("unequal n", "logistic", gauss(0.7, 3, 200, 2000), gaussians(0.7)),
        Setting("weak overlap", "logistic", gauss(2.5, 2, 1000, 1000), gaussians(2.5)),
        Setting("wrong form", "logistic", wide_rows, gaussians(0.0, 1.6)),
    ]


# ---- mutual information


@dataclass(frozen=True)
class Pairs:
    """A joint distribution, a ratio, and the true mutual information."""

    name: str
    ratio: str
    draw: Callable[[np.random.Generator], tuple[Any, Any]]
    truth: float


def correlated(rho: float, d: int, n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    x = rng.normal(size=(n, d))
    return x, rho * x + math.sqrt(1 - rho**2) * rng.normal(size=(n, d))


JOINT = np.array([[0.30, 0.05, 0.05], [0.05, 0.20, 0.05], [0.02, 0.08, 0.20]])


def joint_rows(rng: np.random.Generator) -> tuple[Any, Any]:
    x, y = np.unravel_index(rng.choice(9, 600, p=JOINT.ravel()), JOINT.shape)
    return pl.DataFrame({"x": np.array(list("abc"))[x]}), pl.DataFrame({"y": np.array(list("uvw"))[y]})


def student_rows(rng: np.random.Generator) -> tuple[Any, Any]:
    x, y = rng.normal(size=(2, 800, 1)) * np.sqrt(1 / rng.chisquare(1, size=(800, 1)))
    return x, y


def pairs() -> list[Pairs]:
    """Return all settings of mutual information."""
    discrete = JOINT * np.log(JOINT / (JOINT.sum(axis=1, keepdims=True) * JOINT.sum(axis=0)))
    return [
        Pairs("gaussian", "qda", lambda rng: correlated(0.6, 1, 500, rng), -0.5 * math.log(1 - 0.36)),
        Pairs("three columns", "qda", lambda rng: correlated(0.6, 3, 800, rng), -1.5 * math.log(1 - 0.36)),
        Pairs("skewed", "qda", lambda rng: tuple(map(np.exp, correlated(0.8, 1, 500, rng))), -0.5 * math.log(0.36)),  # pyright: ignore
        Pairs("discrete", "quadratic", joint_rows, float(discrete.sum())),
        Pairs("independent", "qda", lambda rng: correlated(0.0, 1, 500, rng), 0.0),
        Pairs("wrong form", "qda", student_rows, 0.2242),
    ]


# ---- runs


def results_of_setting(setting: Setting, seed: int) -> Iterator[tuple[str, Result, float]]:
    """Cross-fit once, and yield every divergence with its truth."""
    X_p, X_q = setting.draw(np.random.default_rng([seed, 19]))
    samples = two_samples(X_p, X_q)
    fold = folds_of(samples, 5, np.random.default_rng([seed, 0, 7]))
    scores = cross_fit(ratio_to_fit(setting.ratio, samples, seed), samples, fold, seed)
    check = flexible_check(samples, fold, scores, seed)
    for kind in KINDS:
        yield kind, with_support(estimate(kind, scores, check), samples), setting.truth[kind]


def results_of_pairs(setting: Pairs, seed: int) -> Iterator[tuple[str, Result, float]]:
    X, Y = setting.draw(np.random.default_rng([seed, 20]))
    yield "mi", mutual_information(X, Y, ratio=setting.ratio, n_folds=5, random_state=seed), setting.truth


# A quantity is a name, its settings, and a function of a setting and a seed that yields (quantity, result, truth).
QUANTITIES: list[tuple[str, list[Any], Callable[[Any, int], Iterator[tuple[str, Result, float]]]]] = [
    ("divergence", settings(), results_of_setting),
    ("mutual information", pairs(), results_of_pairs),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200, help="draws of each setting. 0 prints the table only")
    parser.add_argument("--settings", nargs="*", help="only these settings")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    runs = {(r["group"], r["setting"], r["seed"]) for r in load(options.results)}
    with threadpool_limits(1):
        for group, all_settings, results_of in QUANTITIES:
            for setting in all_settings:
                if options.settings is None or setting.name in options.settings:
                    for seed in range(options.draws):
                        if (group, setting.name, seed) not in runs:
                            append(options.results, group, setting.name, seed, results_of(setting, seed))
                    print(f"{group}, {setting.name}: done", flush=True)
    report(load(options.results))


def load(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def append(path: Path, group: str, setting: str, seed: int, results: Iterator[tuple[str, Result, float]]) -> None:
    """Write all quantities of a draw as one line: verdict, and whether the interval and the Gaussian one cover."""
    record: dict[str, Any] = {"group": group, "setting": setting, "seed": seed, "quantities": {}}
    for name, result, truth in results:
        low, high = result.interval(LEVEL)
        record["quantities"][name] = {
            "truth": round(truth, 5),
            "value": round(result.value, 5),
            "standard_error": round(result.standard_error, 5),
            "verdict": str(result.verdict),
            "covered": bool(low <= truth <= high),
        }
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")


def report(records: list[dict[str, Any]]) -> None:
    """Print the coverage of reliable results of every setting and quantity."""
    cells: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for record in records:
        for quantity, result in record["quantities"].items():
            cells.setdefault((record["group"], record["setting"], quantity), []).append(result)
    print(f"{'setting':30} {'quantity':10} {'truth':>7} {'median':>7} {'reliable':>9} {'of which covered':>17}")
    pooled: dict[str, list[bool]] = {}
    for (group, setting, quantity), results in cells.items():
        reliable = [r["covered"] for r in results if r["verdict"] == "reliable"]
        pooled.setdefault(quantity, []).extend(reliable)
        rate = f"{100 * np.mean(reliable):.1f} %" if reliable else "–"
        name, median = f"{group}: {setting}", np.median([r["value"] for r in results])
        share = f"{len(reliable)}/{len(results)}"
        print(f"{name:30.30} {quantity:10} {results[0]['truth']:7.3f} {median:7.3f} {share:>9} {rate:>17}")
    for quantity, covered in pooled.items():
        if covered:
            print(f"all settings, {quantity}: {100 * np.mean(covered):.1f} % of {len(covered)} reliable results cover")


if __name__ == "__main__":
    main()
