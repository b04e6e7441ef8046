"""Distributions of (x, y) with known mutual information, written from formulas, for `information.py`.

Truths are closed forms, or sums over grids. A map of x alone, or of y alone, changes no mutual information. The method
was designed on these tasks. Nothing was chosen on those of `_information_report_tasks.py`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, gammaln, ndtr, ndtri

Pair = tuple[np.ndarray, np.ndarray]
Draw = Callable[[np.random.Generator, int], Pair]


@dataclass(frozen=True)
class Source:
    """Mutual information in nats, rows (x, y), and log r = log p(x, y) / (p(x) p(y)) of rows."""

    truth: float
    draw: Draw
    log_ratio: Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Task:
    """A distribution, the number of rows to draw, and its mutual information in nats."""

    name: str
    n: int
    truth: float
    draw: Draw
    half: str = "design"  # or "report": nothing was chosen on it
    source: Source | None = None

    @property
    def key(self) -> list[int]:
        """Numbers from the name, for seeds and for a random order of tasks."""
        return list(hashlib.sha256(self.name.encode()).digest()[:4])

    def sample(self, seed: int) -> Pair:
        """Return n rows of x and of y."""
        return self.draw(np.random.default_rng([seed, *self.key]), self.n)

    def log_ratios(self, seed: int) -> np.ndarray | None:
        """Return the true log r of the same rows, (n,). Their mean is the estimate of an oracle."""
        if self.source is None:
            return None
        return self.source.log_ratio(*self.source.draw(np.random.default_rng([seed, *self.key]), self.n))


# ---- elliptical distributions


def rho_of(nats: float) -> float:
    """Return the correlation of a Gaussian pair with this information."""
    return math.sqrt(-math.expm1(-2 * nats))


def gaussian(rhos: Any, rng: np.random.Generator, n: int, extra: int = 0) -> Pair:
    """Draw pairs of columns with these correlations, and `extra` more columns of noise in x and in y."""
    rhos = np.atleast_1d(rhos)
    x = rng.normal(size=(n, len(rhos)))
    y = rhos * x + np.sqrt(1 - rhos**2) * rng.normal(size=x.shape)
    return np.hstack([x, rng.normal(size=(n, extra))]), np.hstack([y, rng.normal(size=(n, extra))])


def student_constant(df: float, d_x: int, d_y: int) -> float:
    """Return the information of Student vectors without correlation."""

    def f(v: float) -> float:
        return float(gammaln(v / 2) - v / 2 * digamma(v / 2))

    return f(df) + f(df + d_x + d_y) - f(df + d_x) - f(df + d_y)


def student(df: float, rhos: Any, rng: np.random.Generator, n: int) -> Pair:
    x, y = gaussian(rhos, rng, n)
    scale = np.sqrt(df / rng.chisquare(df, size=(n, 1)))
    return x * scale, y * scale


def student_task(df: float, d: int, nats: float | None, n: int) -> Task:
    constant = student_constant(df, d, d)
    rho = 0.0 if nats is None else rho_of((nats - constant) / d)
    truth = constant if nats is None else nats
    name = f"Student df={df:g} {d}x{d} {truth:.2f} nats"
    return Task(name, n, truth, partial(student, df, [rho] * d))


def mixed(seed: int, d: int, nats: float, rng: np.random.Generator, n: int) -> Pair:
    """Draw d × d Gaussian columns, each side multiplied by a matrix."""
    maps = np.random.default_rng(seed).normal(size=(2, d, d))
    x, y = gaussian([rho_of(nats / d)] * d, rng, n)
    return x @ maps[0], y @ maps[1]


def mapped(draw: Draw, f: Callable[[np.ndarray], np.ndarray], g: Callable[[np.ndarray], np.ndarray]) -> Draw:
    def new(rng: np.random.Generator, n: int) -> Pair:
        x, y = draw(rng, n)
        return f(x), g(y)

    return new


def spiral(speed: float, x: np.ndarray) -> np.ndarray:
    """Rotate the first two columns by an angle that grows with their length."""
    angle = speed * np.hypot(x[:, 0], x[:, 1])
    c, s = np.cos(angle), np.sin(angle)
    return np.column_stack([c * x[:, 0] - s * x[:, 1], s * x[:, 0] + c * x[:, 1], x[:, 2:]])


# ---- one column against another: y = f(x) + noise


def entropy_of_sum(f: Callable[[np.ndarray], np.ndarray], scale: float | Callable[[np.ndarray], np.ndarray]) -> float:
    """Return the mutual information of x and f(x) + scale(x) · e, for Gaussian x and e, by sums over grids."""
    x = ndtri((np.arange(20_000) + 0.5) / 20_000)
    centers = f(x)
    widths: Any = scale(x) if callable(scale) else np.full(len(x), scale)
    low, high = (centers - 8 * widths).min(), (centers + 8 * widths).max()
    y = np.linspace(low, high, 6_001)
    density = np.zeros(len(y))
    for part in np.array_split(np.arange(len(x)), 100):
        z = (y[:, None] - centers[part]) / widths[part]
        density += (np.exp(-0.5 * z**2) / (widths[part] * math.sqrt(2 * math.pi))).sum(axis=1) / len(x)
    entropy = -np.sum(density * np.log(np.maximum(density, 1e-300))) * (y[1] - y[0])
    return float(entropy - 0.5 * math.log(2 * math.pi * math.e) - np.log(widths).mean())


def additive(
    f: Callable[[np.ndarray], np.ndarray],
    scale: float | Callable[[np.ndarray], np.ndarray],
    rng: np.random.Generator,
    n: int,
) -> Pair:
    x = rng.normal(size=n)
    widths: Any = scale(x) if callable(scale) else scale
    return x[:, None], (f(x) + widths * rng.normal(size=n))[:, None]


def additive_task(name: str, f: Callable[[np.ndarray], np.ndarray], scale: Any, n: int) -> Task:
    return Task(name, n, entropy_of_sum(f, scale), partial(additive, f, scale))


def _root(f: Callable[[float], float], low: float, high: float) -> float:
    root: Any = brentq(f, low, high, xtol=1e-15)
    return float(root)


def uniform_noise(width: float, rng: np.random.Generator, n: int) -> Pair:
    x = rng.random((n, 1))
    return x, x + rng.uniform(-width, width, (n, 1))


def uniform_noise_task(nats: float, n: int) -> Task:
    """Y = x + uniform noise: I = ε - log 2ε for ε up to 1/2, and 1 / 4ε above."""
    width = 1 / (4 * nats) if nats < 0.5 else _root(lambda e: e - math.log(2 * e) - nats, 1e-9, 0.5)
    return Task(f"additive uniform noise {nats:g} nats", n, nats, partial(uniform_noise, width))


def gamma_exponential(shape: float, rng: np.random.Generator, n: int) -> Pair:
    # the logs of Gamma(a): log of Gamma(a + 1) plus log(u) / a, which does not underflow
    log_x = np.log(rng.gamma(shape + 1, size=(n, 1))) + np.log(rng.random((n, 1))) / shape
    return log_x, np.log(rng.exponential(size=(n, 1))) - log_x


def gamma_exponential_task(nats: float, n: int) -> Task:
    """X ~ Gamma(a), y | x ~ Exponential of rate x: I = ψ(a + 1) - log a. Both are given as logs."""
    shape = _root(lambda a: float(digamma(a + 1)) - math.log(a) - nats, 1e-6, 1e4)
    return Task(f"gamma-exponential {nats:g} nats", n, nats, partial(gamma_exponential, shape))


# ---- discrete variables


def table_task(name: str, table: np.ndarray, n: int, text: bool) -> Task:
    """Return a task of two discrete variables with this table of probabilities."""
    table = table / table.sum()
    independent = table.sum(axis=1, keepdims=True) * table.sum(axis=0)
    truth = float(np.sum(table * np.log(np.maximum(table, 1e-300) / independent)))

    def draw(rng: np.random.Generator, size: int) -> Pair:
        cell = rng.choice(table.size, size, p=table.ravel())
        x, y = np.unravel_index(cell, table.shape)
        if text:
            return np.array([f"a{k}" for k in x], dtype=object)[:, None], y[:, None].astype(float)
        return x[:, None].astype(float), y[:, None].astype(float)

    return Task(name, n, truth, draw)


def label_task(name: str, means: np.ndarray, n: int, n_columns: int = 1) -> Task:
    """X is one of k labels with equal probability, y = mean of the label + Gaussian noise in its first column."""
    y = np.linspace(means.min() - 9, means.max() + 9, 20_001)
    density = np.mean(np.exp(-0.5 * (y[:, None] - means) ** 2), axis=1) / math.sqrt(2 * math.pi)
    entropy = -np.sum(density * np.log(np.maximum(density, 1e-300))) * (y[1] - y[0])
    truth = float(entropy - 0.5 * math.log(2 * math.pi * math.e))

    def draw(rng: np.random.Generator, size: int) -> Pair:
        label = rng.integers(0, len(means), size)
        noise = rng.normal(size=(size, n_columns))
        noise[:, 0] += means[label]
        return label[:, None].astype(float), noise

    return Task(name, n, truth, draw)


def quantized_task(nats: float, n_bins: int, n: int) -> Task:
    """X is a Gaussian in bins of equal probability, y is correlated with the Gaussian."""
    rho = rho_of(nats)
    y = np.linspace(-8, 8, 8_001)
    p_y = np.exp(-(y**2) / 2) / math.sqrt(2 * math.pi) * (y[1] - y[0])
    edges = ndtri(np.linspace(0, 1, n_bins + 1))
    p = np.diff(ndtr((edges - rho * y[:, None]) / math.sqrt(1 - rho**2)), axis=1)  # of bins given y
    entropy = -np.sum(p_y[:, None] * p * np.log(np.maximum(p, 1e-300)))
    truth = math.log(n_bins) - float(entropy)

    def draw(rng: np.random.Generator, size: int) -> Pair:
        a, b = gaussian(rho, rng, size)
        return np.floor(ndtr(a) * n_bins), b

    return Task(f"quantized normal {n_bins} bins {nats:g} nats", n, truth, draw)


def zero_inflated(share: float, rng: np.random.Generator, n: int) -> Pair:
    x = rng.exponential(size=(n, 1))
    return x, np.where(rng.random((n, 1)) < share, 0, rng.poisson(x)).astype(float)


def zero_inflated_truth(share: float) -> float:
    """Return I(x; y), x ~ Exp(1), y = 0 with this probability and Poisson(x) otherwise, by sums over grids."""
    x = -np.log1p(-(np.arange(200_000) + 0.5) / 200_000)
    k = np.arange(60)
    p = (1 - share) * np.exp(k * np.log(x[:, None]) - x[:, None] - gammaln(k + 1))
    p[:, 0] += share
    mean = p.mean(axis=0)
    return float(np.mean(np.sum(p * np.log(np.maximum(p, 1e-300) / np.maximum(mean, 1e-300)), axis=1)))


def xor(n_columns: int, flip: float, noise: bool, rng: np.random.Generator, n: int) -> Pair:
    """Draw y with the sign of x₁ x₂, except for a share `flip` of the rows. Other columns are noise."""
    x = rng.normal(size=(n, n_columns))
    sign = np.sign(x[:, 0] * x[:, 1]) * np.where(rng.random(n) < flip, -1, 1)
    y = sign * np.abs(rng.normal(size=n)) if noise else sign
    return x, y[:, None]


def flip_information(flip: float) -> float:
    entropy = 0.0 if flip in (0.0, 1.0) else -flip * math.log(flip) - (1 - flip) * math.log1p(-flip)
    return math.log(2) - entropy


# ---- mixtures in the plane


def mixture_task(name: str, parts: list[tuple[float, tuple[float, float], tuple[float, float, float]]], n: int) -> Task:
    """Return a task of a mixture of Gaussians in the plane: shares, means, and (variance, covariance, variance)."""
    grid = np.linspace(-9, 9, 1_801)
    step = grid[1] - grid[0]
    joint = np.zeros((len(grid), len(grid)))
    for share, (m, k), (a, b, c) in parts:
        det = a * c - b * b
        u, v = grid[:, None] - m, grid[None, :] - k
        joint += share * np.exp(-(c * u * u - 2 * b * u * v + a * v * v) / (2 * det)) / (2 * math.pi * math.sqrt(det))
    joint *= step**2
    independent = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    inside = joint > 1e-290
    truth = float(np.sum(joint[inside] * np.log(joint[inside] / independent[inside])))

    def draw(rng: np.random.Generator, size: int) -> Pair:
        part = rng.choice(len(parts), size, p=[share for share, _, _ in parts])
        rows = np.empty((size, 2))
        for k, (_, mean, (a, b, c)) in enumerate(parts):
            of = part == k
            rows[of] = rng.multivariate_normal(mean, [[a, b], [b, c]], int(of.sum()))
        return rows[:, :1], rows[:, 1:]

    return Task(name, n, truth, draw)


def ring_parts(radius: float, width: float) -> list[tuple[float, tuple[float, float], tuple[float, float, float]]]:
    """Return a ring as a mixture of 60 Gaussians: an exact mixture, nearly a ring."""
    angles = 2 * math.pi * np.arange(60) / 60
    v = width**2
    return [(1 / 60, (radius * math.cos(t), radius * math.sin(t)), (v, 0.0, v)) for t in angles]


def independent(d_x: int, d_y: int, heavy: bool, rng: np.random.Generator, n: int) -> Pair:
    if heavy:
        return rng.standard_cauchy((n, d_x)), np.exp(2 * rng.normal(size=(n, d_y)))
    return rng.normal(size=(n, d_x)), rng.normal(size=(n, d_y))


def _wiggle(x: np.ndarray) -> np.ndarray:
    return x + 0.4 * np.sin(x) + 0.2 * np.sin(1.7 * x + 1) + 0.03 * np.sin(3.3 * x - 2.5)  # increasing


def _same(x: np.ndarray) -> np.ndarray:
    return x


def tasks() -> list[Task]:
    """Return all tasks."""
    one = {nats: partial(gaussian, rho_of(nats)) for nats in (0.02, 0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0)}
    table = np.random.default_rng(5).gamma(0.6, size=(5, 5)) + 0.02
    wide = np.random.default_rng(6).gamma(1.0, size=(12, 4)) + 0.05
    sphere = spiral_draw(1.02, 3)
    return [
        Task("Gaussian 0.02 nats", 2000, 0.02, one[0.02]),
        Task("Gaussian 0.5 nats", 1000, 0.5, one[0.5]),
        Task("Gaussian 2 nats", 5000, 2.0, one[2.0]),
        Task("Gaussian 6 nats", 10_000, 6.0, one[6.0]),
        Task("Gaussian 10 nats", 10_000, 10.0, one[10.0]),
        Task("uniform margins 1 nat", 2000, 1.0, mapped(one[1.0], ndtr, ndtr)),
        Task("uniform margins 4 nats", 10_000, 4.0, mapped(one[4.0], ndtr, ndtr)),
        Task("uniform margins 6 nats", 10_000, 6.0, mapped(one[6.0], ndtr, ndtr)),
        Task("uniform margins 8 nats", 10_000, 8.0, mapped(one[8.0], ndtr, ndtr)),
        Task("uniform margins 10 nats", 10_000, 10.0, mapped(one[10.0], ndtr, ndtr)),
        Task("exponential margins 2 nats", 2000, 2.0, mapped(one[2.0], np.exp, np.exp)),
        Task("wiggled margins 4 nats", 5000, 4.0, mapped(one[4.0], _wiggle, _same)),
        Task(
            "cubic map 0.5 nats", 2000, 0.5, mapped(one[0.5], lambda x: x**3, lambda y: np.sign(y) * np.abs(y) ** 1.5)
        ),
        student_task(1, 1, None, 5000),
        student_task(1, 1, 2.0, 5000),
        student_task(1, 1, 6.0, 10_000),
        student_task(1, 1, 10.0, 10_000),
        student_task(2, 1, 4.0, 5000),
        student_task(2, 2, 1.0, 5000),
        student_task(2, 3, 3.0, 10_000),
        student_task(3, 5, None, 5000),
        student_task(5, 2, 2.0, 5000),
        Task(
            "asinh of Student df=1 1x1 1 nat",
            5000,
            1.0,
            mapped(student_task(1, 1, 1.0, 1).draw, np.arcsinh, np.arcsinh),
        ),
        uniform_noise_task(0.33, 2000),
        uniform_noise_task(1.0, 5000),
        uniform_noise_task(3.0, 10_000),
        uniform_noise_task(6.0, 10_000),
        gamma_exponential_task(0.3, 2000),
        gamma_exponential_task(2.0, 5000),
        gamma_exponential_task(5.0, 10_000),
        Task("spiral of 3x3 1.02 nats", 10_000, 1.02, sphere),
        Task("spiral of 2x2 0.7 nats", 5000, 0.7, spiral_draw(0.7, 2)),
        Task("spiral of 2x1 0.5 nats", 10_000, 0.5, mapped(partial(gaussian_2x1, 0.5), partial(spiral, 1.5), _same)),
        additive_task("parabola", np.square, 0.5, 2000),
        additive_task("sine", lambda x: np.sin(3 * x), 0.3, 5000),
        additive_task("absolute value", np.abs, 0.2, 5000),
        additive_task("heteroscedastic", lambda x: 0 * x, lambda x: np.exp(x), 5000),
        additive_task("cubic with small noise", lambda x: x**3, 0.1, 5000),
        table_task("table 5x5", table, 2000, text=False),
        table_task("table 12x4 of text", wide, 5000, text=True),
        label_task("four labels", np.array([-3.0, -1.0, 1.0, 3.0]), 2000),
        label_task("two labels, ten columns", np.array([-0.7, 0.7]), 2000, 10),
        quantized_task(1.0, 8, 2000),
        quantized_task(3.0, 16, 5000),
        Task("zero-inflated Poisson", 5000, zero_inflated_truth(0.15), partial(zero_inflated, 0.15)),
        Task("XOR of 2 columns", 2000, flip_information(0.1), partial(xor, 2, 0.1, False)),
        Task("XOR in 5 columns", 5000, flip_information(0.1), partial(xor, 5, 0.1, True)),
        Task("XOR in 10 columns", 5000, flip_information(0.05), partial(xor, 10, 0.05, False)),
        mixture_task("cross", [(0.5, (0.0, 0.0), (1, 0.95, 1)), (0.5, (0.0, 0.0), (1, -0.95, 1))], 5000),
        mixture_task("ring", ring_parts(2.0, 0.3), 5000),
        mixture_task(
            "three clusters",
            [(0.3, (-2.0, 0.0), (0.3, 0.1, 1)), (0.3, (0.0, 2.0), (1, 0, 0.3)), (0.4, (2.0, -1), (0.5, 0.4, 0.5))],
            2000,
        ),
        mixture_task("outliers", [(0.8, (0.0, 0.0), (1, 0.9, 1)), (0.2, (0.0, 0.0), (4, 0, 4))], 5000),
        Task("independent 1x1", 1000, 0.0, partial(independent, 1, 1, False)),
        Task("independent 10x10", 2000, 0.0, partial(independent, 10, 10, False)),
        Task("independent heavy tails 3x3", 5000, 0.0, partial(independent, 3, 3, True)),
        Task("mixed columns 3x3 2 nats", 2000, 2.0, partial(mixed, 1, 3, 2.0)),
        Task("mixed columns 5x5 5 nats", 10_000, 5.0, partial(mixed, 2, 5, 5.0)),
        Task("sparse 10x10 1 nat", 5000, 1.0, partial(gaussian, [rho_of(0.5)] * 2, extra=8)),
        Task("sparse 25x25 1 nat", 5000, 1.0, partial(gaussian, [rho_of(0.5)] * 2, extra=23)),
        Task("dense 25x25 3 nats", 5000, 3.0, partial(mixed, 3, 25, 3.0)),
        *later_tasks(),
    ]


def later_tasks() -> list[Task]:
    """Return tasks that were written after the method was designed."""
    nine = np.random.default_rng(7).gamma(0.8, size=(9, 6)) + 0.05
    return [
        Task("uniform margins 5 nats", 5000, 5.0, mapped(partial(gaussian, rho_of(5.0)), ndtr, ndtr)),
        Task("uniform margins 9 nats", 10_000, 9.0, mapped(partial(gaussian, rho_of(9.0)), ndtr, ndtr)),
        Task("mixed columns 2x2 3 nats", 2000, 3.0, partial(mixed, 4, 2, 3.0)),
        student_task(3, 1, 3.0, 2000),
        student_task(4, 3, 1.5, 5000),
        student_task(1, 2, 5.0, 10_000),
        uniform_noise_task(2.0, 2000),
        uniform_noise_task(4.5, 5000),
        gamma_exponential_task(1.0, 2000),
        gamma_exponential_task(3.5, 5000),
        additive_task("letter W", lambda x: x**4 - 2 * x**2, 0.7, 5000),
        additive_task("fast sine", lambda x: np.sin(5 * x), 0.4, 5000),
        additive_task("square root of noise", lambda x: x, lambda x: 0.1 + np.abs(x), 2000),
        table_task("table 9x6", nine, 2000, text=False),
        label_task("three labels, five columns", np.array([-1.5, 0.0, 1.5]), 1000, 5),
        quantized_task(2.0, 6, 1000),
        mixture_task("four clusters", [(0.25, (a, b), (0.4, 0, 0.4)) for a in (-2.0, 2.0) for b in (a, 0.0)], 2000),
        Task("sparse 20x20 0.6 nats", 5000, 0.6, partial(gaussian, [rho_of(0.3)] * 2, extra=18)),
        Task("independent 2x5", 1000, 0.0, partial(independent, 2, 5, True)),
        Task("spiral of 2x2 2 nats", 5000, 2.0, spiral_draw(2.0, 2)),
    ]


def gaussian_2x1(nats: float, rng: np.random.Generator, n: int) -> Pair:
    """Draw x of two columns, and y of one, that is correlated with their sum."""
    x = rng.normal(size=(n, 2))
    rho = rho_of(nats)
    y = rho * x.sum(axis=1) / math.sqrt(2) + math.sqrt(1 - rho**2) * rng.normal(size=n)
    return x, y[:, None]


def spiral_draw(nats: float, d: int) -> Draw:
    """Return d × d Gaussian columns with all information in the first pair, whose x is a spiral."""
    rhos = np.array([rho_of(nats)] + [0.0] * (d - 1))
    return mapped(partial(gaussian, rhos), partial(spiral, 1.0), _same)
