"""Cases of `verdicts.py`: pairs of distributions with a closed form, sample sizes and cheap methods."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from _accuracy_problems import (
    PROBLEMS,
    Columns,
    Gaussian,
    Mixture,
    Problem,
    equal_correlations,
    gaussian,
    hidden,
    paired,
    two_bumps,
)
from scipy import stats

METHODS = ("logistic", "lda", "qda", "quadratic", "additive", "boosting", "kliep", "ulsif", "mlp")
SIZES = (200, 500, 1_000, 2_000, 5_000)
LARGEST = {"mlp": 2_000, "kliep": 2_000, "ulsif": 2_000}  # rows, for slow methods
_OF_ACCURACY = (1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 19)


def _own() -> tuple[Problem, ...]:
    """Return problems of everyday shifts: small, none at all, skewed, with a rare group, in an interaction."""
    small, crossed = gaussian(8, 0.12), paired(2, 0.7)
    skewed = tuple(stats.gamma(shape) for shape in (2.0, 3.0, 4.0))
    scaled = tuple(stats.gamma(shape, scale=1.25) for shape in (2.0, 3.0, 4.0))
    bounded = Columns((stats.beta(2, 3), stats.beta(4, 2), stats.beta(1.5, 1.5)))
    rare = Mixture((0.97, 0.03), (gaussian(3), Gaussian(np.array([2.5, 2.5, 0.0]), 0.25 * np.eye(3))))
    rows = {
        "none": (gaussian(5), gaussian(5)),
        "none, 20 columns": (gaussian(20), gaussian(20)),
        "small shift": (small, gaussian(8)),
        "shift of 15": (gaussian(15, 0.25), gaussian(15)),
        "interaction": (crossed, gaussian(4)),
        "scales": (hidden(6, (0, 1), 0.0, 1.4), gaussian(6)),
        "narrow": (hidden(4, (0,), 0.5, 0.5), gaussian(4)),
        "skewed": (Columns(scaled), Columns(skewed)),
        "bounded": (bounded, Columns((stats.beta(2, 2),) * 3)),
        "rare group": (rare, gaussian(3)),
        "mixed groups": (two_bumps(3, 2.0, 0.7), two_bumps(3, 2.0, 0.3)),
        "correlated shift": (equal_correlations(6, 0.5, 1.0, 0.5), equal_correlations(6, 0.0, 1.0, 0.5)),
        "heavy against light": (Columns((stats.t(3),) * 2), gaussian(2, 0.0, 1.5)),
        "far": (gaussian(3, 2.0), gaussian(3)),
    }
    return tuple(Problem(100 + k, name, p, q, 0, 0, "report") for k, (name, (p, q)) in enumerate(rows.items()))


@dataclass(frozen=True)
class Case:
    """A method on two samples of a problem."""

    problem: Problem
    method: str
    seed: int

    @property
    def key(self) -> str:
        return f"{self.problem.name}|{self.problem.n_p}|{self.problem.n_q}|{self.method}|{self.seed}"

    @property
    def half(self) -> Literal["design", "report"]:
        """The group of the problem, by a hash of its name. Thresholds were chosen on the group "design"."""
        return "design" if hashlib.sha256(self.problem.name.encode()).digest()[0] % 2 else "report"


def cases() -> Iterator[Case]:
    """Yield every method on every problem, with sizes that change from one to the next."""
    problems = [one for one in PROBLEMS if one.number in _OF_ACCURACY] + list(_own())
    for seed in (0, 1, 2):
        for k, problem in enumerate(problems):
            for j, method in enumerate(METHODS):
                n = min(SIZES[(k + 2 * j + 3 * seed) % len(SIZES)], LARGEST.get(method, math.inf))
                n_p = int(n) if (k + j) % 4 else max(185, int(n) // 5)  # unequal in every fourth case
                yield Case(replace(problem, n_p=n_p, n_q=int(n)), method, seed)
