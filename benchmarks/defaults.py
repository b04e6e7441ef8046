"""`FlowFeaturizer()` with its defaults, from 200 × 1 to 1 M × 100: held-out log-likelihood and the truth, and seconds.

Claim: the defaults need no tuning. Rows are drawn from ½N(0, S) + ½N(m, S), where neighboring columns are correlated
by .6. The means are 4 standard deviations of the first column apart. Units of the columns differ from 1e-3 to 1e3. The
comparison is a Gaussian with the mean and covariance of the rows, scored on the same held-out rows. One thread.
Cost: about 10 minutes. Command: python benchmarks/defaults.py
"""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import numpy as np
from _timing import one_thread, versions
from scipy.stats import multivariate_normal

from flowratio import FlowFeaturizer

N_HELD_OUT = 10_000


def main() -> None:
    one_thread()
    print(versions())
    for n, d in ((200, 1), (1_000, 5), (20_000, 20), (1_000_000, 100)):
        rng = np.random.default_rng(d)
        covariance: Any = 0.6 ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
        root = np.linalg.cholesky(covariance)
        units = 10.0 ** rng.integers(-3, 4, d)
        mean = np.eye(d)[0] * 4
        total = n + N_HELD_OUT
        X = rng.standard_normal((total, d)) @ root.T + mean * (rng.random((total, 1)) < 0.5)
        held_out = X[n:]
        parts = [multivariate_normal.logpdf(held_out, m, covariance) for m in (np.zeros(d), mean)]
        truth = float(np.logaddexp(*parts).mean() - math.log(2) - np.log(units).sum())
        moments: Any = X[:n].mean(0), np.atleast_2d(np.cov(X[:n], rowvar=False))
        gaussian = float(np.mean(multivariate_normal.logpdf(held_out, *moments)) - np.log(units).sum())
        start = time.perf_counter()
        with warnings.catch_warnings(record=True) as records:
            warnings.simplefilter("always")
            featurizer = FlowFeaturizer(random_state=0).fit(X[:n] * units)
        seconds = time.perf_counter() - start
        score = featurizer.score(held_out * units)
        notes = f" ({len(records)} warnings)" if records else ""
        print(
            f"{n:>9,} × {d:<3d}: {score:.3f}, {truth - score:.3f} below the truth "
            f"(a Gaussian: {truth - gaussian:.3f}), {seconds:.0f} s{notes}",
            flush=True,
        )


if __name__ == "__main__":
    main()
