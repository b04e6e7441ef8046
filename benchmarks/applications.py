"""Accuracy of the applications: mutual information, domain adaptation and two-sample tests, compared with peers.

Claims: `mutual_information` is the most accurate method for 5 columns or more. On the target, `ImportanceWeighted` is
at least as good as the fit without weights and as the peers. A test of 10 000 rows of 20 columns with 200 permutations
takes under 20 s.

information  Absolute error of the mutual information I in nats. Gaussians with ρ ∈ {.1, .5, .9, .99} and d ∈ {1, 5,
             20}, n = 2000, 3 seeds. Ours is run with "qda" and with `AutoRatio`. The peer is `mutual_info_regression`
             of scikit-learn (nearest neighbors). It takes one column of each side, so I is the sum over the d
             independent pairs. It knows which columns belong together, and ours does not.
peers        The same error for ρ ∈ {.5, .9}, d ∈ {5, 20} and one seed, for latentmi and torch-mist. Both have their
             defaults, except that torch-mist has smile, two layers of 64 and 100 epochs. Both need NumPy 1. Make an
             environment for them with `pip install torch-mist latentmi pandas zuko`, and put our source on its path.
adaptation   Three tables of scikit-learn with a biased split, 10 seeds: see `_adaptation.py`. It needs `.[peers]`.
testing      Seconds of `two_sample_test`, and those of SciPy's permutation test of a mean difference.
Cost: about 40, 10, 5 and 1 minutes.
Command: python benchmarks/applications.py [information] [peers] [adaptation] [testing]
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from itertools import product

import numpy as np
from _tables import print_table, run_sections
from _timing import one_thread, versions
from sklearn.feature_selection import mutual_info_regression

from flowratio import mutual_information, two_sample_test

N, SEEDS = 2_000, range(3)
RHOS, WIDTHS = (0.1, 0.5, 0.9, 0.99), (1, 5, 20)


def gaussians(d: int, rho: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, d])
    x = rng.normal(size=(N, d))
    return x, rho * x + math.sqrt(1 - rho**2) * rng.normal(size=(N, d))


def by_neighbors(x: np.ndarray, y: np.ndarray, seed: int) -> tuple[float, float]:
    pairs = zip(x.T, y.T, strict=True)
    return sum(mutual_info_regression(a[:, None], b, random_state=seed)[0] for a, b in pairs), math.nan


def by_ratio(ratio: str | None) -> Callable[[np.ndarray, np.ndarray, int], tuple[float, float]]:
    def run(x: np.ndarray, y: np.ndarray, seed: int) -> tuple[float, float]:
        estimate = mutual_information(x, y, ratio=ratio, random_state=seed)
        return estimate.value, estimate.standard_error

    return run


def information() -> None:
    methods = {
        "nearest neighbors, pair by pair": by_neighbors,
        "ours, qda": by_ratio("qda"),
        "ours, AutoRatio": by_ratio(None),
    }
    rows = []
    for d, rho in product(WIDTHS, RHOS):
        truth = -d / 2 * math.log(1 - rho**2)
        row = [f"{d}", f"{rho:g}", f"{truth:.3f}"]
        for run in methods.values():
            since = time.perf_counter()
            estimates = np.array([run(*gaussians(d, rho, seed), seed) for seed in SEEDS])
            error = np.abs(estimates[:, 0] - truth).mean()
            claim = "" if math.isnan(estimates[0, 1]) else f" (± {estimates[:, 1].mean():.3f})"
            row.append(f"{error:.3f}{claim}, {(time.perf_counter() - since) / len(SEEDS):.1f} s")
        rows.append(row)
        print("  ".join(row), flush=True)
    print_table(["d", "ρ", "I", *methods], rows)


def peers() -> None:
    setattr(np, "NaN", np.nan)  # noqa: B010 - latentmi 0.1.3 asks for a name that NumPy 2 has dropped
    try:
        lmi, estimate_mi = import_module("latentmi.lmi"), import_module("torch_mist").estimate_mi
    except ImportError:
        print("latentmi and torch-mist are not installed. See the top of this file.")
        return

    def by_latentmi(x: np.ndarray, y: np.ndarray) -> float:
        with redirect_stdout(StringIO()):
            return float(np.nanmean(lmi.estimate(x, y)[0]))

    def by_mist(x: np.ndarray, y: np.ndarray) -> float:
        rows = (x.astype(np.float32), y.astype(np.float32))
        with redirect_stdout(StringIO()):
            estimate = estimate_mi(rows, estimator="smile", hidden_dims=[64, 64], max_epochs=100, verbose=False)
        return float(estimate[0] if isinstance(estimate, tuple) else estimate)

    methods = {
        "latentmi": by_latentmi,
        "torch-mist, smile": by_mist,
        "ours, qda": lambda x, y: mutual_information(x, y, ratio="qda", random_state=0).value,
    }
    rows = []
    for d, rho in product(WIDTHS[1:], (0.5, 0.9)):
        truth = -d / 2 * math.log(1 - rho**2)
        row = [f"{d}", f"{rho:g}", f"{truth:.3f}"]
        for run in methods.values():
            since = time.perf_counter()
            row.append(f"{abs(run(*gaussians(d, rho, 0)) - truth):.3f}, {time.perf_counter() - since:.1f} s")
        rows.append(row)
        print("  ".join(row), flush=True)
    print_table(["d", "ρ", "I", *methods], rows)


def testing() -> None:
    from scipy.stats import permutation_test

    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(size=(10_000, 20)), rng.normal(size=(10_000, 20))
    X_p[:, 3] += 0.05
    rows = []
    for ratio in (None, "logistic", "qda"):
        since = time.perf_counter()
        test = two_sample_test(X_p, X_q, ratio, n_permutations=200, random_state=0)
        seconds = time.perf_counter() - since
        name = f"two_sample_test, {ratio or 'by default'}"
        rows.append([name, f"{seconds:.1f}", f"{test.p_value:.3f}", ", ".join(test.drivers.clear) or "-"])

    def distance(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.square(a.mean(axis=0) - b.mean(axis=0)).sum())

    def of_deal(order: np.ndarray, rest: np.ndarray) -> float:
        return distance(X[order], X[rest])

    X, index = np.concatenate([X_p, X_q]), np.arange(20_000)
    since = time.perf_counter()
    halves = (index[:10_000], index[10_000:])
    peer = permutation_test(halves, of_deal, n_resamples=200, vectorized=False, rng=rng, alternative="greater")
    rows.append(["SciPy, distance of means", f"{time.perf_counter() - since:.1f}", f"{peer.pvalue:.3f}", ""])
    print_table(["test", "seconds", "p", "changed columns"], rows)


def adaptation() -> None:
    from _adaptation import covariate_shift  # it needs the peers

    covariate_shift(seeds=range(10))


if __name__ == "__main__":
    one_thread()
    print(versions())
    run_sections({"testing": testing, "adaptation": adaptation, "information": information, "peers": peers})
