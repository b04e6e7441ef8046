"""Coverage of target means and average effects: settings with known truth, and intervals draw by draw.

Claim: 95 % intervals cover the truth in 93 to 97 % of 200 draws, or the verdict is not *reliable*. Cost: 20 minutes on
one core. `python benchmarks/_effect_settings.py` resumes from `results/coverage_effects.jsonl`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from _tables import print_table
from scipy.stats import beta

from flowratio import average_effect, target_mean

RESULTS = Path(__file__).parents[1] / "results" / "coverage_effects.jsonl"
N_DRAWS = 200
N_TRUTH = 2_000_000  # rows from which the truth is computed: its error is a hundredth of a standard error
Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class Setting:
    """Columns of n rows with a treatment (True for p), the outcome without it, and its effect."""

    n: int
    share: float  # of treated rows, p
    columns: Callable[[np.random.Generator, np.ndarray], Columns]  # given the treatment, (n,)
    baseline: Callable[[Columns], np.ndarray]
    effect: Callable[[Columns], np.ndarray]
    odds: Callable[[Columns], np.ndarray]  # log r up to a constant
    ratio: str
    noise: Callable[[np.random.Generator, int], np.ndarray] = lambda rng, n: rng.normal(size=n)
    binary: bool = False
    outcome_model: str | None = "linear"  # None for the default, which also tries boosting
    table: Callable[[Columns], Any] = lambda columns: np.column_stack(list(columns.values()))


def _gaussian(shift: list[float]) -> Callable[[np.random.Generator, np.ndarray], Columns]:
    def columns(rng: np.random.Generator, treated: np.ndarray) -> Columns:
        return {f"x{j}": rng.normal(size=len(treated)) + m * treated for j, m in enumerate(shift)}

    return columns


def _skewed(rng: np.random.Generator, treated: np.ndarray) -> Columns:
    scale = np.where(treated, 1.25, 1.0)
    return {"a": rng.gamma(2, scale), "b": np.exp(rng.normal(0.4 * treated, 0.8))}


def _discrete(rng: np.random.Generator, treated: np.ndarray) -> Columns:
    odds = np.where(treated, 0.55, 0.4)
    return {"k": rng.binomial(5, odds).astype(float), "b": (rng.random(len(treated)) < 0.3 + 0.3 * treated) * 1.0}


def _mixed(rng: np.random.Generator, treated: np.ndarray) -> Columns:
    shares = np.where(treated[:, None], [0.4, 0.3, 0.2, 0.1], [0.25, 0.25, 0.25, 0.25])
    city = (rng.random(len(treated))[:, None] > shares.cumsum(axis=1)).sum(axis=1).clip(0, 3)
    return {
        "city": city,
        "age": rng.normal(40 + 4 * treated, 10),
        "missing": rng.random(len(treated)) < np.where(treated, 0.1, 0.2),
    }


def _mixed_table(columns: Columns) -> pl.DataFrame:
    city = [("Bonn", "Köln", "Ulm", "Mainz")[k] for k in columns["city"]]
    age = [None if missing else round(a, 3) for a, missing in zip(columns["age"], columns["missing"], strict=True)]
    return pl.DataFrame({"city": city, "age": age})


def _of_age(columns: Columns, value: float) -> np.ndarray:
    """Return standardized ages, and another value where they are missing: all that a table shows."""
    return np.where(columns["missing"], value, (columns["age"] - 40) / 10)


def _logit(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-values))


def _narrow(rng: np.random.Generator, treated: np.ndarray) -> Columns:
    return {"a": rng.normal(0, np.where(treated, 0.6, 1.0)), "b": rng.normal(0.3 * treated, 1)}


def _pairs(rng: np.random.Generator, treated: np.ndarray) -> Columns:
    """Return columns with log r = 0.25 · x0 · x1 + 0.5 · x2, up to a constant."""
    rho = 0.25 * treated  # x0 and x1 have the precision matrix ((1, -ρ), (-ρ, 1))
    a, b = rng.normal(size=(2, len(treated)))
    x0 = a / np.sqrt(1 - rho**2)
    return {"x0": x0, "x1": rho * x0 + b, "x2": rng.normal(0.5 * treated)}


SETTINGS: dict[str, Setting] = {
    "gaussian": Setting(
        1000,
        0.5,
        _gaussian([0.6, -0.4, 0.0]),
        lambda c: c["x0"] + 0.5 * c["x1"],
        lambda c: 1 + 0.5 * c["x0"],
        lambda c: 0.6 * c["x0"] - 0.4 * c["x1"],
        "logistic",
    ),
    "skewed": Setting(
        1000,
        0.5,
        _skewed,
        lambda c: np.log(c["a"]) + np.sqrt(c["b"]),
        lambda c: 1 + 0.3 * c["a"],
        lambda c: 0.2 * c["a"] + 0.625 * np.log(c["b"]),
        "additive",
        lambda rng, n: rng.exponential(size=n) - 1,
        outcome_model=None,
    ),
    "discrete": Setting(
        1000,
        0.5,
        _discrete,
        lambda c: _logit(0.4 * c["k"] - 1.5 + 0.5 * c["b"]),
        lambda c: _logit(0.4 * c["k"] - 0.9 + 0.5 * c["b"]) - _logit(0.4 * c["k"] - 1.5 + 0.5 * c["b"]),
        lambda c: c["k"] * np.log(0.55 / 0.45 * 0.6 / 0.4) + c["b"] * np.log(0.6 / 0.4 * 0.7 / 0.3),
        "logistic",
        binary=True,
    ),
    "mixed table": Setting(
        1000,
        0.5,
        _mixed,
        lambda c: np.array([0.0, 1.0, -1.0, 0.5])[c["city"]] + _of_age(c, 0.5),
        lambda c: 0.5 + 0.5 * (c["city"] == 0),
        lambda c: (
            np.log(np.array([1.6, 1.2, 0.8, 0.4]))[c["city"]]
            + np.where(c["missing"], np.log(0.1 / 0.2), np.log(0.9 / 0.8) + 0.4 * _of_age(c, 0.0) - 0.08)
        ),
        "logistic",
        table=_mixed_table,
    ),
    "unequal n": Setting(
        3000,
        0.05,
        _gaussian([0.5, 0.5]),
        lambda c: c["x0"] + c["x1"],
        lambda c: 1 + 0.5 * c["x1"],
        lambda c: 0.5 * c["x0"] + 0.5 * c["x1"],
        "quadratic",
    ),
    "weak overlap": Setting(
        1000,
        0.5,
        _gaussian([2.0, 0.0]),
        lambda c: c["x0"],
        lambda c: 1 + 0.5 * c["x0"],
        lambda c: 2.0 * c["x0"],
        "logistic",
    ),
    "wrong form": Setting(  # a logistic ratio cannot see that p is narrow
        1000,
        0.5,
        _narrow,
        lambda c: c["a"] ** 2,
        lambda c: 1 + 0.5 * c["a"] ** 2,
        lambda c: 0.5 * c["a"] ** 2 * (1 - 1 / 0.36) + 0.3 * c["b"],
        "logistic",
        outcome_model=None,
    ),
    "shared interaction": Setting(  # ratio and outcome model miss the same product
        2000,
        1 / 3,
        _pairs,
        lambda c: 2 * c["x0"] * c["x1"] + c["x2"],
        lambda c: np.ones(len(c["x0"])),
        lambda c: 0.25 * c["x0"] * c["x1"] + 0.5 * c["x2"],
        "logistic",
    ),
}


@cache
def truth(name: str) -> dict[str, float]:
    """Return the truth of each quantity, from rows without noise."""
    setting, rng = SETTINGS[name], np.random.default_rng(2024)
    treated = rng.random(N_TRUTH) < setting.share
    columns = setting.columns(rng, treated)
    effect, baseline, log_r = setting.effect(columns), setting.baseline(columns), setting.odds(columns)
    log_r = log_r - np.log(np.mean(np.exp(log_r[~treated])))
    e = _logit(log_r + np.log(setting.share / (1 - setting.share)))
    return {
        "target mean": float(baseline[treated].mean()),
        "att": float(effect[treated].mean()),
        "ate": float(effect.mean()),
        "overlap": float(np.average(effect, weights=e * (1 - e))),
    }


def effect_draw(setting: str, seed: int) -> list[dict[str, Any]]:
    """Return the estimates of one draw, with intervals of 95 % and verdicts."""
    case, rng = SETTINGS[setting], np.random.default_rng([seed, 77])
    treated = rng.random(case.n) < case.share
    columns = case.columns(rng, treated)
    mean = case.baseline(columns) + treated * case.effect(columns)
    y = (rng.random(case.n) < mean) * 1.0 if case.binary else mean + case.noise(rng, case.n)
    X = case.table(columns)
    rows = []
    p, q = np.flatnonzero(treated), np.flatnonzero(~treated)
    for method in ("doubly-robust", "hajek"):
        settings: dict[str, Any] = {"method": method, "ratio": case.ratio, "random_state": seed}
        settings |= {"outcome_model": case.outcome_model}
        results: dict[str, Any] = {"target mean": target_mean(X[p], X[q], y[q], **settings)}
        for estimand in ("att", "ate", "overlap") if method == "doubly-robust" else ("att",):
            results[estimand] = average_effect(X, treated, y, estimand, **settings)
        for quantity, result in results.items():
            low, high = result.interval()
            row = {"quantity": f"{quantity}, {method}", "setting": setting, "truth": truth(setting)[quantity]}
            row |= {"low": low, "high": high, "value": result.value, "standard_error": result.standard_error}
            rows.append({**row, "verdict": result.verdict.value})
    return rows


def coverage_table(rows: list[dict[str, Any]]) -> None:
    """Print the coverage of each quantity in each setting: of all draws, and of the reliable ones."""
    lines = []
    for key in dict.fromkeys((row["setting"], row["quantity"]) for row in rows):
        some = [row for row in rows if (row["setting"], row["quantity"]) == key]
        covers = np.array([row["low"] <= row["truth"] <= row["high"] for row in some])
        reliable = np.array([row["verdict"] == "reliable" for row in some])
        error = np.array([row["value"] - row["truth"] for row in some])
        claimed = np.median([row["standard_error"] for row in some])
        k, m = int(covers[reliable].sum()), int(reliable.sum())
        chance = f"{beta.ppf(0.025, k, m - k + 1):.2f}–{beta.ppf(0.975, k + 1, m - k):.2f}" if 0 < k < m else "–"
        share = f"{k / m:.3f}" if m else "–"
        spread = f"{error.mean():+.3f}", f"{error.std():.3f}", f"{claimed:.3f}"
        lines.append([*key, str(len(some)), *spread, f"{covers.mean():.3f}", f"{reliable.mean():.2f}", share, chance])
    head = ["setting", "quantity", "draws", "bias", "spread", "standard error", "coverage", "reliable"]
    print_table([*head, "coverage if reliable", "95 % range of it"], lines)


def main() -> None:
    """Run the draws that are missing, and print the coverage."""
    names, n_draws = sys.argv[2:] or list(SETTINGS), int(sys.argv[1]) if len(sys.argv) > 1 else N_DRAWS
    RESULTS.parent.mkdir(exist_ok=True)
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    rows = [json.loads(line) for line in lines]
    runs = {(row["setting"], row["seed"]) for row in rows}
    with RESULTS.open("a", encoding="utf-8") as file:
        for seed in range(n_draws):
            for name in names:
                if (name, seed) not in runs:
                    for row in effect_draw(name, seed):
                        rows.append({"seed": seed, **row})
                        file.write(json.dumps(rows[-1]) + "\n")
                    file.flush()
    coverage_table([row for row in rows if row["setting"] in names])


if __name__ == "__main__":
    main()
