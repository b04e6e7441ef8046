"""Claim: a column of 50,000 categories in two samples of 500,000 rows takes seconds and bounded memory.

Cost: 15 seconds on one core. Command: `python benchmarks/categories.py`. It prints seconds and the peak of the memory
that each step adds: the encoding of the table, the log-odds of the categories, a fit of logistic regression, and the
log-ratios of all rows. The encoded matrix of 24 columns alone has 192 MB.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from _memory import added_mb

from flowratio import ClassifierRatio
from flowratio.ratios.categories import with_category_odds
from flowratio.samples.two_samples import two_samples


def shops(n: int, n_shops: int, first: int, rng: np.random.Generator) -> pl.DataFrame:
    """Return a table with equally frequent shops, from `first` on, and two columns of numbers."""
    names = pl.Series([f"s{k}" for k in range(first, first + n_shops)])
    return pl.DataFrame({"shop": names[rng.integers(0, n_shops, n)], "x": rng.normal(size=n), "y": rng.normal(size=n)})


def measured(name: str, work: Callable[[], Any]) -> Any:
    """Print how long a piece of work takes and how much memory it adds at its peak, and return its result."""
    results: list[Any] = []
    start = time.perf_counter()
    peak = added_mb(lambda: results.append(work()))
    print(f"{name:<28} {time.perf_counter() - start:6.1f} s {peak:8.0f} MB", flush=True)
    return results[0]


def main(n_rows: int, n_shops: int) -> None:
    rng, n = np.random.default_rng(0), n_rows // 2
    n_each = 2 * n_shops // 3  # two thirds of the shops are in each sample, one third is in both
    P, Q = (shops(n, n_each, first, rng) for first in (0, n_shops - n_each))
    print(f"{n_rows:,} rows, {n_shops:,} categories")
    samples = measured("encode the tables", lambda: two_samples(P, Q))
    odds, _ = measured("log-odds of categories", lambda: with_category_odds(samples))
    ratio = measured("fit logistic regression", lambda: ClassifierRatio("logistic").fit_prepared(samples))
    log_r = measured("log-ratios of all rows", lambda: ratio.log_ratio_prepared(samples.X))
    is_only_in_p = odds.replaced(samples.X_p)[:, samples.codes[0] + 1] > 0
    means = [float(log_r[: samples.n_p][rows].mean()) for rows in (is_only_in_p, ~is_only_in_p)]
    print(f"mean log-ratio of rows of p: {means[0]:.2f} in shops that are only in p, {means[1]:.2f} in other shops")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--categories", type=int, default=50_000)
    settings = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main(settings.rows, settings.categories)
