"""The error of log r on held-out rows, and the time of the fit, for each of our ratios and for those of the peers.

Claim (`kliep`): the error of our `KLIEP` is not larger than that of the best KLIEP among the peers, on each of four
problems, as a median of 3 seeds. `all` runs every method at n = 1k, 3k, 10k with one seed, except the slowest fits.
q = N(0, I), p = N(μ1, I), with n rows of each. The error is the mean squared difference from the true log r on 2000
other rows of q. A method that cannot score new rows is scored on the rows of q of its fit. The true log r is linear in
x. Our `KLIEP` has a log-linear start, so it has the right form here. That of the peers does not. One thread.
Cost: about 12 minutes. Command: python benchmarks/ratio_errors.py [kliep] [all]
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from functools import partial

import numpy as np
from _peers import Fit, adapt_kmm, adapts, boosting, densratios, grid, hep_boosting, load_peers, logistic, skadas
from _ratio_problems import OURS, PROBLEMS, Shift, ours
from _tables import print_table, run_sections, short, verdict
from _timing import one_thread, timed

SIZES = (1_000, 3_000, 10_000)
SEEDS = (0, 1, 2)

KLIEPS: dict[str, Fit] = {
    "KLIEP": ours("KLIEP"),
    "ADAPT KLIEP": adapts("KLIEP"),
    "ADAPT KLIEP, a grid": adapts("KLIEP", grid(9)),
    "densratio KLIEP": densratios("KLIEP"),
    "skada KLIEP": skadas("KLIEP", {"gamma": 1.0}),
}

# a peer, and the largest n at which it is run
PEERS: dict[str, tuple[Fit, int]] = {
    "LogisticRegression": (logistic, 10_000),
    "HistGradientBoosting": (boosting, 10_000),
    "hep_ml GBReweighter": (hep_boosting, 10_000),
    "densratio uLSIF": (densratios("uLSIF"), 3_000),
    "densratio KLIEP": (densratios("KLIEP"), 10_000),
    "ADAPT KMM, one QP": (adapt_kmm, 1_000),
    "ADAPT KLIEP": (adapts("KLIEP"), 10_000),
    "ADAPT KLIEP, a grid": (adapts("KLIEP", grid(9)), 3_000),
    "ADAPT ULSIF": (adapts("ULSIF"), 10_000),
    "ADAPT ULSIF, a grid": (adapts("ULSIF", grid(7), grid(7)), 3_000),
    "skada KDE": (skadas("Density"), 10_000),
    "skada Gaussian": (skadas("Gaussian"), 10_000),
    "skada Discriminator": (skadas("Discriminator"), 10_000),
    "skada KLIEP": (skadas("KLIEP", {"gamma": 1.0}), 10_000),
    "skada KMM": (skadas("KMM"), 3_000),
}
ON_FITTED_ROWS = ("ADAPT KMM, one QP", "skada KMM")


def fit_and_error(name: str, fit: Fit, problem: Shift, n: int, seed: int) -> tuple[float, float]:
    """Return the seconds to fit and to weight the rows of q, and the error of log r."""
    X_p, X_q = problem.draw(n, seed)
    score, to_fit = timed(partial(fit, X_p, X_q, seed))
    _, to_score = timed(partial(score, X_q))
    return to_fit + to_score, problem.error(score, X_q if name in ON_FITTED_ROWS else problem.held_out(seed))


def kliep_rows() -> Iterator[list[str]]:
    for title, problem in PROBLEMS.items():
        n = 2_000 if title == "Fig. 2" else 3_000
        errors = {
            name: [fit_and_error(name, fit, problem, n, seed)[1] for seed in SEEDS] for name, fit in KLIEPS.items()
        }
        middle = {name: float(np.median(values)) for name, values in errors.items()}
        best = min(error for name, error in middle.items() if name != "KLIEP")
        cells = [f"{short(middle[name])} ({', '.join(map(short, values))})" for name, values in errors.items()]
        yield [title, f"{n:,}", *cells, short(best), verdict(middle["KLIEP"] <= best)]


def kliep() -> None:
    print(f"\nKLIEP: mean squared error of log r on held-out rows of q, median (and all) of {len(SEEDS)} seeds")
    print_table(["problem", "n", *KLIEPS, "bound", "ours"], kliep_rows())


def method_row(name: str, fit: Fit, largest: int) -> list[str]:
    cells = []
    for title in ("d=2, KL 1", "d=10, KL 5", "d=10, KL 1"):
        measurements = [
            fit_and_error(name, fit, PROBLEMS[title], n, 0) if n <= largest else (math.nan, math.nan) for n in SIZES
        ]
        cells += [" / ".join(map(short, values)) for values in zip(*measurements, strict=True)]
    return [name, *cells[:4], cells[5]]


def every_method() -> None:
    print("\nEvery method at n = 1k / 3k / 10k, one seed: seconds to fit and to weight the rows of q, error of log r")
    rows = [(name, ours(name), max(SIZES)) for name in OURS]
    rows += [(name, fit, largest) for name, (fit, largest) in PEERS.items()]
    header = ["method", "s, d=2", "error, d=2, KL 1", "s, d=10", "error, d=10, KL 5", "error, d=10, KL 1"]
    print_table(header, (method_row(*row) for row in rows))


def main() -> None:
    sections = {"kliep": kliep, "all": every_method}
    one_thread()
    print(load_peers())
    run_sections(sections)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # p and q of these problems hardly overlap, so the ratios warn
    main()
