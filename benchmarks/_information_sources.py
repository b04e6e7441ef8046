"""Distributions of (x, y) with known mutual information, each with two independent descriptions.

One description draws rows, and the other one is log r = log p(x, y) / (p(x) p(y)) of a row. The truth is a closed form,
or a sum over a grid. The mean of log r over drawn rows is a second way to the truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from _information_tasks import Source, flip_information, gaussian, rho_of, student, student_constant
from scipy.special import digamma, gammaincinv, gammaln, i0e, i1e, log_ndtr, ndtr, ndtri

Array = np.ndarray


def _normal(z: Any) -> Any:
    return -0.5 * z**2 - 0.5 * math.log(2 * math.pi)


def _log(p: Array) -> Array:
    return np.log(np.maximum(p, 1e-300))


# ---- elliptical distributions


def gaussian_source(rhos: Any, extra: int = 0) -> Source:
    """Pairs of Gaussian columns with these correlations, and columns of noise."""
    rhos = np.atleast_1d(rhos)

    def log_ratio(x: Array, y: Array) -> Array:
        x, y = x[:, : len(rhos)], y[:, : len(rhos)]
        v = 1 - rhos**2
        return np.sum(-0.5 * np.log(v) - (rhos**2 * (x**2 + y**2) - 2 * rhos * x * y) / (2 * v), axis=1)

    return Source(abs(float(0.5 * np.log1p(-(rhos**2)).sum())), partial(gaussian, rhos, extra=extra), log_ratio)


def nats_source(nats: float, d: int = 1, extra: int = 0) -> Source:
    return gaussian_source([rho_of(nats / d)] * d, extra)


def sum_source(nats: float, d: int) -> Source:
    """One Gaussian y that is correlated with the sum of d columns of x."""
    rho = rho_of(nats)

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        x = rng.normal(size=(n, d))
        y = rho * x.sum(axis=1) / math.sqrt(d) + math.sqrt(1 - rho**2) * rng.normal(size=n)
        return x, y[:, None]

    one = gaussian_source(rho)
    return Source(nats, draw, lambda x, y: one.log_ratio(x.sum(axis=1, keepdims=True) / math.sqrt(d), y))


def student_source(df: float, d: int, nats: float | None) -> Source:
    constant = student_constant(df, d, d)
    rho = 0.0 if nats is None else rho_of((nats - constant) / d)

    def log_ratio(x: Array, y: Array) -> Array:
        of_x, of_y = np.square(x).sum(axis=1), np.square(y).sum(axis=1)
        joint = np.sum(x**2 + y**2 - 2 * rho * x * y, axis=1) / (1 - rho**2)
        sizes, signs = (2 * d, d, d), (1, -1, -1)
        parts = [
            sign * (gammaln((df + k) / 2) - (df + k) / 2 * np.log1p(s / df))
            for k, s, sign in zip(sizes, (joint, of_x, of_y), signs, strict=True)
        ]
        return np.sum(parts, axis=0) + gammaln(df / 2) - d / 2 * math.log(1 - rho**2)

    return Source(constant if nats is None else nats, partial(student, df, [rho] * d), log_ratio)


# ---- y = f(x) + noise


def cauchy_noise(nats: float) -> Source:
    """Cauchy x plus Cauchy noise of width c: I = log(1 + 1/c)."""
    c = 1 / math.expm1(nats)

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        x = rng.standard_cauchy((n, 1))
        return x, x + c * rng.standard_cauchy((n, 1))

    def log_ratio(x: Array, y: Array) -> Array:
        wide = np.log1p((y / (1 + c)) ** 2) + math.log(1 + c)
        return (wide - np.log1p(((y - x) / c) ** 2) - math.log(c))[:, 0]

    return Source(nats, draw, log_ratio)


def exponential_noise() -> Source:
    """Exponential x plus exponential noise: I is Euler's constant."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        x = rng.exponential(size=(n, 1))
        return x, x + rng.exponential(size=(n, 1))

    return Source(-float(digamma(1)), draw, lambda x, y: (x - np.log(y))[:, 0])


def uniform_noise_source(width: float, d: int) -> Source:
    """Uniform columns plus uniform noise in (-ε, ε), ε up to 1/2: I = d (ε - log 2ε)."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        x = rng.random((n, d))
        return x, x + rng.uniform(-width, width, (n, d))

    def log_ratio(x: Array, y: Array) -> Array:
        return -np.log(np.minimum(y + width, 1) - np.maximum(y - width, 0)).sum(axis=1)

    return Source(d * (width - math.log(2 * width)), draw, log_ratio)


def product_noise(scale: float, n_columns: int) -> Source:
    """Return y = x₁ x₂ + noise, and further columns of x. Given x₁, y is a Gaussian of variance x₁² + scale²."""
    widths = np.sqrt(ndtri((np.arange(4000) + 0.5) / 4000) ** 2 + scale**2)
    grid = np.linspace(-25, 25, 20_001)
    density = np.mean([np.exp(_normal(grid / w)) / w for w in widths], axis=0)
    entropy = -np.sum(density * _log(density)) * (grid[1] - grid[0])

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        x = rng.normal(size=(n, n_columns))
        return x, (x[:, 0] * x[:, 1] + scale * rng.normal(size=n))[:, None]

    def log_ratio(x: Array, y: Array) -> Array:
        log_conditional = _normal((y[:, 0] - x[:, 0] * x[:, 1]) / scale) - math.log(scale)
        return log_conditional - _log(np.interp(y[:, 0], grid, density))

    return Source(float(entropy) - 0.5 * math.log(2 * math.pi * math.e * scale**2), draw, log_ratio)


def gated(nats: float, n_columns: int) -> Source:
    """Return y that is correlated with x₂ where x₁ is positive, and with x₃ elsewhere. y is a Gaussian."""
    rho = rho_of(nats)
    one = gaussian_source(rho)

    def choice(x: Array) -> Array:
        return np.where(x[:, 0] > 0, x[:, 1], x[:, 2])[:, None]

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        x = rng.normal(size=(n, n_columns))
        return x, rho * choice(x) + math.sqrt(1 - rho**2) * rng.normal(size=(n, 1))

    return Source(nats, draw, lambda x, y: one.log_ratio(choice(x), y))


def angle_source(concentration: float) -> Source:
    """Two angles that differ by a von Mises variable."""
    k = concentration
    log_i0 = math.log(float(i0e(k))) + k

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        x = rng.uniform(0, 2 * np.pi, (n, 1))
        return x, (x + rng.vonmises(0, k, (n, 1))) % (2 * np.pi)

    return Source(k * float(i1e(k) / i0e(k)) - log_i0, draw, lambda x, y: (k * np.cos(x - y) - log_i0)[:, 0])


# ---- copulas


def copula_source(draw: Any, log_density: Callable[[Array, Array], Array], truth: float | None = None) -> Source:
    """Return a copula by its log-density at normal scores. The truth is a closed form, or a sum over a grid."""
    if truth is None:
        z = np.linspace(-8, 8, 1601)
        p = np.exp(_normal(z)) * (z[1] - z[0])
        log_c = log_density(z[:, None], z[None, :])
        truth = float(np.sum(p[:, None] * p * np.exp(log_c) * log_c))
    return Source(truth, draw, lambda x, y: log_density(x, y)[:, 0])


def clayton(theta: float) -> Source:
    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        g = rng.gamma(1 / theta, size=(n, 1))
        u, v = (np.exp(-np.log1p(rng.exponential(size=(n, 1)) / g) / theta) for _ in range(2))
        return ndtri(u), ndtri(v)

    def log_density(x: Array, y: Array) -> Array:
        a, b = -log_ndtr(x), -log_ndtr(y)
        total = np.exp(theta * a) + np.exp(theta * b) - 1
        return math.log1p(theta) + (1 + theta) * (a + b) - (2 + 1 / theta) * np.log(total)

    log_total = float(digamma(2 + 1 / theta) - digamma(1 / theta))
    return copula_source(draw, log_density, math.log1p(theta) + 2 * (1 + theta) - (2 + 1 / theta) * log_total)


def gumbel(theta: float) -> Source:
    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        alpha, angle, w = 1 / theta, rng.uniform(0, np.pi, (n, 1)), rng.exponential(size=(n, 1))
        stable = (np.sin((1 - alpha) * angle) / w) ** (theta - 1) * np.sin(alpha * angle) / np.sin(angle) ** theta
        u, v = (np.exp(-((rng.exponential(size=(n, 1)) / stable) ** alpha)) for _ in range(2))
        return ndtri(u), ndtri(v)

    def log_density(x: Array, y: Array) -> Array:
        a, b = -log_ndtr(x), -log_ndtr(y)
        s = a**theta + b**theta
        t = s ** (1 / theta)
        power = (theta - 1) * (np.log(a) + np.log(b)) + (2 / theta - 2) * np.log(s)
        return a + b - t + power + np.log1p((theta - 1) / t)

    return copula_source(draw, log_density)


def frank(theta: float) -> Source:
    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        u, t = rng.random((n, 1)), rng.random((n, 1))
        e = np.exp(-theta * u)
        return ndtri(u), ndtri(-np.log1p(t * math.expm1(-theta) / (t + e * (1 - t))) / theta)

    def log_density(x: Array, y: Array) -> Array:
        u, v = ndtr(x), ndtr(y)
        base = -math.expm1(-theta) - np.expm1(-theta * u) * np.expm1(-theta * v)
        return math.log(-theta * math.expm1(-theta)) - theta * (u + v) - 2 * np.log(base)

    return copula_source(draw, log_density)


def checkerboard(k: int, flip: float) -> Source:
    """Return k × k cells of equal margins. Only cells of one color have rows, except for a share `flip`. k is even."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        i, color = rng.integers(0, k, n), rng.random(n) < flip
        j = 2 * rng.integers(0, k // 2, n) + (i + color) % 2
        return (i + rng.random(n))[:, None], (j + rng.random(n))[:, None]

    def log_ratio(x: Array, y: Array) -> Array:
        is_other = (np.floor(x) + np.floor(y))[:, 0] % 2 == 1
        return np.where(is_other, math.log(2 * flip), math.log(2 - 2 * flip))

    return Source(flip_information(flip), draw, log_ratio)


def triangle() -> Source:
    """Uniform where y < x: I = 1 - log 2."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        u = np.sort(rng.random((n, 2)), axis=1)
        return u[:, 1:], u[:, :1]

    return Source(1 - math.log(2), draw, lambda x, y: -(math.log(2) + np.log(x) + np.log1p(-y))[:, 0])


def disc() -> Source:
    """Uniform in a disc."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        r, angle = np.sqrt(rng.random((n, 1))), rng.uniform(0, 2 * np.pi, (n, 1))
        return r * np.cos(angle), r * np.sin(angle)

    def log_ratio(x: Array, y: Array) -> Array:
        return (math.log(math.pi / 4) - 0.5 * (np.log1p(-(x**2)) + np.log1p(-(y**2))))[:, 0]

    return Source(math.log(math.pi / 4) - float(digamma(1.5) - digamma(2)), draw, log_ratio)


def mixture(parts: list[tuple[float, tuple[float, float], tuple[float, float, float]]]) -> Source:
    """Return a mixture of Gaussians in the plane: shares, means, and (variance, covariance, variance)."""

    def densities(x: Any, y: Any) -> tuple[Any, Any, Any]:
        joint, of_x, of_y = 0.0, 0.0, 0.0
        for share, (m, k), (a, b, c) in parts:
            u, v, det = x - m, y - k, a * c - b * b
            joint = joint + share * np.exp(-(c * u * u - 2 * b * u * v + a * v * v) / (2 * det)) / (
                2 * math.pi * math.sqrt(det)
            )
            of_x = of_x + share * np.exp(_normal(u / math.sqrt(a))) / math.sqrt(a)
            of_y = of_y + share * np.exp(_normal(v / math.sqrt(c))) / math.sqrt(c)
        return joint, of_x, of_y

    def log_ratio(x: Array, y: Array) -> Array:
        joint, of_x, of_y = densities(x, y)
        return (_log(joint) - _log(of_x) - _log(of_y))[:, 0]

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        part, rows = rng.choice(len(parts), n, p=[share for share, _, _ in parts]), rng.normal(size=(n, 2))
        for k, (_, mean, (a, b, c)) in enumerate(parts):
            root = np.linalg.cholesky([[a, b], [b, c]])
            rows[part == k] = rows[part == k] @ root.T + mean
        return rows[:, :1], rows[:, 1:]

    grid = np.linspace(-10, 10, 2001)
    joint, of_x, of_y = densities(grid[:, None], grid[None, :])
    terms = joint * (_log(joint) - _log(of_x) - _log(of_y))
    return Source(float(terms.sum()) * (grid[1] - grid[0]) ** 2, draw, log_ratio)


# ---- discrete variables


def table_source(table: Array) -> Source:
    """Two discrete variables with this table of probabilities."""
    table = table / table.sum()
    log_r = _log(table) - np.log(table.sum(axis=1, keepdims=True) * table.sum(axis=0))

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        x, y = np.unravel_index(rng.choice(table.size, n, p=table.ravel()), table.shape)
        return x[:, None].astype(float), y[:, None].astype(float)

    return Source(
        max(float(np.sum(table * log_r)), 0.0), draw, lambda x, y: log_r[x[:, 0].astype(int), y[:, 0].astype(int)]
    )


def normal_table(nats: float, k: int, m: int) -> Array:
    """Return the probabilities of a Gaussian pair in k × m bins of equal margins."""
    rho, u = rho_of(nats), (np.arange(400 * m) + 0.5) / (400 * m)
    edges = ndtri(np.linspace(0, 1, k + 1))
    conditional = np.diff(ndtr((edges - rho * ndtri(u)[:, None]) / math.sqrt(1 - rho**2)), axis=1)
    return conditional.reshape(m, 400, k).mean(axis=1).T / m


def label_source(shares: Array, means: Array, extra: int = 0) -> Source:
    """Return labels x, and y that is a Gaussian around the label's mean in the plane (k, 2), plus columns of noise."""
    shares, grid = shares / shares.sum(), [np.linspace(m.min() - 8, m.max() + 8, 1201) for m in means.T]
    of = [np.exp(_normal(g[:, None] - m)) * (g[1] - g[0]) for g, m in zip(grid, means.T, strict=True)]
    density = np.einsum("ak,bk,k->ab", *of, shares)
    cell = math.prod(g[1] - g[0] for g in grid)
    truth = float(-np.sum(density * (_log(density) - math.log(cell)))) - math.log(2 * math.pi * math.e)

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        label, y = rng.choice(len(shares), n, p=shares), rng.normal(size=(n, 2 + extra))
        y[:, :2] += means[label]
        return label[:, None].astype(float), y

    def log_ratio(x: Array, y: Array) -> Array:
        conditional = np.exp(_normal(y[:, None, :2] - means).sum(axis=2))  # (n, k)
        return np.log(conditional[np.arange(len(y)), x[:, 0].astype(int)]) - np.log(conditional @ shares)

    return Source(truth, draw, log_ratio)


def counts_source(shape: float) -> Source:
    """Return x ~ Gamma(shape), y ~ Poisson(x), which has a negative binomial distribution."""
    u, k = (np.arange(40_000) + 0.5) / 40_000, np.arange(200)

    def log_ratio(x: Array, y: Array) -> Array:
        x, y = x[:, 0], y[:, 0]
        return y * np.log(x) - x - gammaln(y + shape) + gammaln(shape) + (shape + y) * math.log(2)

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        x = rng.gamma(shape, size=(n, 1))
        return x, rng.poisson(x).astype(float)

    x = gammaincinv(shape, u)
    p = np.exp(k * np.log(x[:, None]) - x[:, None] - gammaln(k + 1))
    marginal = p.mean(axis=0)
    return Source(float(np.mean(np.sum(p * (_log(p) - _log(marginal)), axis=1))), draw, log_ratio)


def zeros_source(table: Array, nats: float) -> Source:
    """Return x and y that are 0 by a 2 × 2 table of (x is 0, y is 0). Where neither is, they are a Gaussian pair."""
    zeros, pair = table_source(table), nats_source(nats)

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        (a, b), (x, y) = zeros.draw(rng, n), pair.draw(rng, n)
        y = np.where(a == 1, rng.normal(size=(n, 1)), y)
        return np.where(a == 1, 0, np.exp(x)), np.where(b == 1, 0, np.exp(y))

    def log_ratio(x: Array, y: Array) -> Array:
        both = (x > 0) & (y > 0)
        inner = pair.log_ratio(*(np.log(np.where(both, v, 1)) for v in (x, y)))
        return zeros.log_ratio((x == 0) * 1.0, (y == 0) * 1.0) + np.where(both[:, 0], inner, 0)

    return Source(zeros.truth + float(table[0, 0] / table.sum()) * nats, draw, log_ratio)
