"""Distributions of (x, y) with known mutual information on which nothing was chosen, for `information.py`.

The standard deviation of the true log r is the efficient limit: no estimator that does not know r does better.
Command:

    python benchmarks/_information_report_tasks.py    # compare two ways to the truth: 10 seconds
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from _information_sources import (
    angle_source,
    cauchy_noise,
    checkerboard,
    clayton,
    counts_source,
    disc,
    exponential_noise,
    frank,
    gated,
    gaussian_source,
    gumbel,
    label_source,
    mixture,
    nats_source,
    normal_table,
    product_noise,
    student_source,
    sum_source,
    table_source,
    triangle,
    uniform_noise_source,
    zeros_source,
)
from _information_tasks import Source, Task
from scipy.special import log_ndtr, ndtr

Array = np.ndarray
Map = Callable[[Array], Array]


def _same(x: Array) -> Array:
    return x


def new(name: str, n: int, source: Source, f: Map = _same, g: Map = _same) -> Task:
    """Return a task of rows (f(x), g(y)). A map of x alone, or of y alone, changes no mutual information."""

    def draw(rng: np.random.Generator, size: int) -> tuple[Array, Array]:
        x, y = source.draw(rng, size)
        return f(x), g(y)

    return Task(name, n, source.truth, draw, "report", source)


# ---- maps of one side


def text(prefix: str, digits: int = 0) -> Map:
    """Return a map of codes to text. With `digits`, a code becomes two columns: code // digits and code % digits."""

    def f(codes: Array) -> Array:
        columns = [codes] if not digits else [codes // digits, codes % digits]
        return np.hstack([np.array([[f"{prefix}{int(c)}"] for c in part[:, 0]], dtype=object) for part in columns])

    return f


def pareto(tail: float) -> Map:
    return lambda z: np.exp(-log_ndtr(-z) / tail)


def roll(z: Array) -> Array:
    """Return a swiss roll of the first column: a point on a curve in the plane. Other columns follow."""
    t = 3 + 9 * ndtr(z[:, :1])
    return np.hstack([t * np.cos(t), t * np.sin(t), z[:, 1:]])


def half_cube(z: Array) -> Array:
    return np.sign(z) * np.abs(z) ** 1.5


def circle(t: Array) -> Array:
    return np.hstack([np.cos(t), np.sin(t)])


def redundant(x: Array) -> Array:
    """Return 4 d columns: x and functions of x, which add nothing."""
    return np.hstack([x, x**2, np.sin(3 * x), x * np.roll(x, 1, axis=1)])


def rotated(seed: int, d: int) -> Map:
    matrix = np.random.default_rng(seed).normal(size=(d, d))
    return lambda x: x @ matrix


def report_tasks() -> list[Task]:
    """Return all tasks."""
    rng = np.random.default_rng(11)
    square, sparse = rng.gamma(0.7, size=(8, 8)) + 0.03, rng.gamma(0.3, size=(15, 10)) + 0.01
    corners = np.array([[-1.5, 0.0], [1.5, 0.0], [0.0, 2.0], [0.0, -1.0], [3.0, 3.0]])
    line = np.array([[a + 2.5 * b, 0.0] for a in (-1.0, 0.0, 1.2) for b in (0.0, 1.0)])
    two = [(0.6, (-1.0, -1.0), (0.5, 0.35, 0.5)), (0.4, (1.5, 1.0), (0.3, -0.25, 0.4))]
    stripes = [(0.2, (2.0 * k - 4, -1.5 * (-1) ** k), (0.3, 0.2, 0.5)) for k in range(5)]
    wide = [(0.7, (0.0, 0.0), (1.0, 0.8, 1.0)), (0.3, (0.0, 0.0), (6.0, -4.0, 6.0))]
    return [
        new("fresh Student df=1.5 1x1 3 nats", 4000, student_source(1.5, 1, 3.0)),
        new("fresh Student df=2.5 4x4 2.5 nats", 5000, student_source(2.5, 4, 2.5)),
        new("fresh Student df=6 10x10, no correlation", 5000, student_source(6, 10, None)),
        new("fresh Student df=3 1x1 8 nats", 10_000, student_source(3, 1, 8.0)),
        new("fresh half-cube of Student df=2 2x2 5 nats", 6000, student_source(2, 2, 5.0), half_cube, half_cube),
        new("fresh log-normal 3 nats", 3000, nats_source(3.0), lambda z: np.exp(2 * z), lambda z: np.exp(-z)),
        new("fresh log-normal 2x2 6 nats", 8000, nats_source(6.0, 2), np.exp, np.exp),
        new("fresh Pareto 1.5 nats", 2000, nats_source(1.5), pareto(0.8), pareto(3)),
        new("fresh Pareto 7 nats", 10_000, nats_source(7.0), pareto(1.5), pareto(1.5)),
        new("fresh Cauchy plus Cauchy 1.2 nats", 3000, cauchy_noise(1.2)),
        new("fresh Cauchy plus Cauchy 5 nats", 8000, cauchy_noise(5.0)),
        new("fresh uniform margins 3 nats", 1500, nats_source(3.0), ndtr, ndtr),
        new("fresh uniform margins 7 nats", 7000, nats_source(7.0), ndtr, ndtr),
        new("fresh uniform margins 3x3 6 nats", 6000, nats_source(6.0, 3), ndtr, ndtr),
        new(
            "fresh arcsine margins 9.5 nats", 10_000, nats_source(9.5), lambda z: np.sin(np.pi * (ndtr(z) - 0.5)), ndtr
        ),
        new("fresh uniform noise 2 columns", 5000, uniform_noise_source(0.2, 2)),
        new("fresh uniform noise 3.5 nats", 8000, uniform_noise_source(0.0153, 1)),
        new("fresh exponential plus exponential", 3000, exponential_noise()),
        new("fresh triangle", 2500, triangle()),
        new("fresh disc", 5000, disc()),
        new("fresh Clayton 2", 2000, clayton(2.0)),
        new("fresh Clayton 8 of exponentials", 6000, clayton(8.0), lambda z: -log_ndtr(-z), np.exp),
        new("fresh Gumbel 3", 4000, gumbel(3.0)),
        new("fresh Frank 10", 3000, frank(10.0), ndtr, ndtr),
        new("fresh checkerboard 4x4", 4000, checkerboard(4, 0.15)),
        new("fresh angles on circles", 4000, angle_source(4.0), circle, circle),
        new("fresh wrapped angles", 5000, angle_source(10.0)),
        new("fresh swiss roll 2 nats", 5000, nats_source(2.0), roll),
        new("fresh swiss roll 4 nats with uniform y", 8000, nats_source(4.0), roll, ndtr),
        new("fresh half-cube 3x3 1 nat", 3000, nats_source(1.0, 3), half_cube, rotated(21, 3)),
        new("fresh two Gaussians", 1500, mixture(two)),
        new("fresh five clusters", 4000, mixture(stripes)),
        new("fresh wide and narrow", 6000, mixture(wide)),
        new("fresh table 8x8", 3000, table_source(square)),
        new("fresh table 15x10 of two texts", 6000, table_source(sparse), text("a"), text("b")),
        new("fresh bins 6x6 of 1 nat", 1500, table_source(normal_table(1.0, 6, 6))),
        new("fresh bins 20x5 of 2 nats", 5000, table_source(normal_table(2.0, 20, 5))),
        new("fresh five labels of 3 columns", 2500, label_source(np.ones(5), corners, 1), g=rotated(22, 3)),
        new("fresh five labels as text", 800, label_source(np.array([5, 1, 1, 2, 2]), corners), text("c")),
        new("fresh two text columns", 4000, label_source(np.ones(6), line), text("t", 2)),
        new("fresh Poisson counts", 3000, counts_source(3.0)),
        new("fresh zeros of both", 5000, zeros_source(np.array([[0.5, 0.1], [0.1, 0.3]]), 1.5)),
        new("fresh product in 20 columns", 8000, product_noise(0.4, 20)),
        new("fresh product in 3 columns", 4000, product_noise(0.3, 3)),
        new("fresh gate in 30 columns", 10_000, gated(0.8, 30)),
        new("fresh gate in 3 columns", 5000, gated(1.5, 3)),
        new("fresh sum of 49 columns", 4000, sum_source(0.7, 49), half_cube, np.exp),
        new("fresh 40 columns and 10", 6000, nats_source(2.0, 4, 6), redundant),
        new("fresh sparse 25x25 0.3 nats", 8000, nats_source(0.3, 1, 24)),
        new("fresh Gaussian 0.1 nats", 500, nats_source(0.1)),
        new("fresh independent 5x5", 3000, gaussian_source([0.0] * 5), rotated(23, 5), np.exp),
        new("fresh independent label", 700, table_source(np.outer([3, 2, 1], [1, 1, 4, 4])), text("d")),
    ]


def main() -> None:
    """Compare truths with means of log r over 400,000 drawn rows, by their standard errors."""
    for task in report_tasks():
        source: Any = task.source
        log_r = source.log_ratio(*source.draw(np.random.default_rng(0), 400_000))
        z = (log_r.mean() - task.truth) / max(log_r.std() / math.sqrt(len(log_r)), 1e-12)
        print(f"{task.name:46} {task.truth:8.4f} {z:6.1f}  limit {log_r.std() / math.sqrt(task.n):.4f}", flush=True)


if __name__ == "__main__":
    main()
