"""Pairs of samples whose log r = log p/q has a closed form, and a check that it is the right one.

The code that draws rows and the formula of the density are independent. `failures` compares the two. The true ratio,
and no other, has mean_q[h r / (1 + r)] = mean_p[h / (1 + r)] for every function h. Both sides are bounded, so the check
also works if r has no variance. With h = 1 on the bins of a histogram it checks the whole density, and the direction of
the ratio. Where the variance is finite, mean_q[r] = 1, mean_p[1/r] = 1 and mean_q[r x] = mean_p[x] are checked too.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy import stats
from scipy.linalg import solve_triangular
from scipy.special import expit, logsumexp

N_HELD_OUT = 2_000  # rows of p, and as many of q
N_CHECKED = 200_000
N_BINS, FEWEST = 10, 100  # a bin with fewer rows of p or of q has no useful standard error
LARGEST_Z = 5.5  # standard errors: 2500 Gaussian means exceed it in 1 of 10 000 runs


class Density(ABC):
    """A distribution with rows to draw and a density in closed form."""

    @abstractmethod
    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw rows, (n, d)."""

    @abstractmethod
    def log_density(self, X: np.ndarray) -> np.ndarray:
        """Return the log-density of rows, (n, d) to (n,)."""

    def kl(self, other: Density) -> float:
        """Return KL(self ‖ other), here by Monte Carlo."""
        X = self.draw(N_CHECKED, np.random.default_rng(0))
        return float(np.mean(self.log_density(X) - other.log_density(X)))


@dataclass(frozen=True, eq=False)
class Gaussian(Density):
    """N(mean, cov), of shapes (d,) and (d, d)."""

    mean: np.ndarray
    cov: np.ndarray

    @cached_property
    def factor(self) -> np.ndarray:
        """The lower factor of Cholesky, (d, d)."""
        return np.linalg.cholesky(self.cov)

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return self.mean + rng.standard_normal((n, len(self.mean))) @ self.factor.T

    def log_density(self, X: np.ndarray) -> np.ndarray:
        U = solve_triangular(self.factor, (X - self.mean).T, lower=True)  # (d, n)
        return -0.5 * (U**2).sum(axis=0) - np.log(np.diag(self.factor)).sum() - 0.5 * len(U) * math.log(2 * math.pi)

    def kl(self, other: Density) -> float:
        if not isinstance(other, Gaussian):
            return super().kl(other)
        A = solve_triangular(other.factor, self.factor, lower=True)
        u = solve_triangular(other.factor, self.mean - other.mean, lower=True)
        return float(0.5 * ((A**2).sum() + u @ u - len(u)) - np.log(np.diag(A)).sum())


@dataclass(frozen=True, eq=False)
class Mixture(Density):
    """A mixture of densities, each with its probability."""

    shares: tuple[float, ...]
    parts: tuple[Density, ...]

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        counts = rng.multinomial(n, self.shares)
        rows = [part.draw(count, rng) for part, count in zip(self.parts, counts, strict=True)]
        return rng.permutation(np.concatenate(rows))

    def log_density(self, X: np.ndarray) -> np.ndarray:
        each = np.array([part.log_density(X) for part in self.parts])
        return np.asarray(logsumexp(each + np.log(self.shares)[:, None], axis=0))


@dataclass(frozen=True, eq=False)
class Bent(Density):
    """A chain of bananas: x₁ = u₁, xᵢ₊₁ = uᵢ₊₁ + bend (uᵢ² − 1), with Gaussian u. The Jacobian is 1."""

    base: Gaussian
    bend: float

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        U = self.base.draw(n, rng)
        return np.column_stack([U[:, 0], U[:, 1:] + self.bend * (U[:, :-1] ** 2 - 1)])

    def log_density(self, X: np.ndarray) -> np.ndarray:
        U = X.copy()
        for i in range(1, U.shape[1]):
            U[:, i] -= self.bend * (U[:, i - 1] ** 2 - 1)
        return self.base.log_density(U)

    def kl(self, other: Density) -> float:
        if isinstance(other, Bent) and other.bend == self.bend:
            return self.base.kl(other.base)
        return super().kl(other)


@dataclass(frozen=True, eq=False)
class LogNormal(Density):
    """exp of a Gaussian, column by column."""

    base: Gaussian

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return np.exp(self.base.draw(n, rng))

    def log_density(self, X: np.ndarray) -> np.ndarray:
        log_X = np.log(X)
        return self.base.log_density(log_X) - log_X.sum(axis=1)

    def kl(self, other: Density) -> float:
        return self.base.kl(other.base) if isinstance(other, LogNormal) else super().kl(other)


@dataclass(frozen=True, eq=False)
class Ring(Density):
    """A log-normal radius around the origin of the plane, exp(N(log radius, spread²)), and an even angle."""

    radius: float
    spread: float

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        r, angle = self.radius * np.exp(self.spread * rng.standard_normal(n)), rng.uniform(0, 2 * math.pi, n)
        return np.column_stack([r * np.cos(angle), r * np.sin(angle)])

    def log_density(self, X: np.ndarray) -> np.ndarray:
        log_r = np.log(np.hypot(X[:, 0], X[:, 1]))
        u = (log_r - math.log(self.radius)) / self.spread
        # of the radius, N(u) / (spread r). Of the plane, that over 2 π r
        return -0.5 * u**2 - math.log(self.spread) - 1.5 * math.log(2 * math.pi) - 2 * log_r


@dataclass(frozen=True, eq=False)
class Columns(Density):
    """Independent columns, each with a distribution of `scipy.stats`."""

    distributions: tuple[Any, ...]

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return np.column_stack([distribution.rvs(n, random_state=rng) for distribution in self.distributions])

    def log_density(self, X: np.ndarray) -> np.ndarray:
        return np.sum([distribution.logpdf(x) for distribution, x in zip(self.distributions, X.T, strict=True)], axis=0)


@dataclass(frozen=True, eq=False)
class Problem:
    """Two distributions and the sizes of two samples.

    Defaults may be chosen on the problems of the group "design". Those of "report" test the defaults. With `twins` the
    two samples are the same rows.
    """

    number: int
    name: str
    p: Density
    q: Density
    n_p: int
    n_q: int
    group: Literal["design", "report"]
    twins: bool = False

    @property
    def n(self) -> int:
        """Rows of the larger sample."""
        return max(self.n_p, self.n_q)

    @cached_property
    def d(self) -> int:
        """Number of columns."""
        return self.p.draw(1, np.random.default_rng(0)).shape[1]

    @cached_property
    def kl(self) -> float:
        """KL(p ‖ q) in nats."""
        return self.p.kl(self.q)

    def draw(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw the two samples, (n_p, d) and (n_q, d)."""
        rng = np.random.default_rng([seed, self.number, 0])
        X_p = self.p.draw(self.n_p, rng)
        return X_p, X_p.copy() if self.twins else self.q.draw(self.n_q, rng)

    def held_out(self, seed: int) -> np.ndarray:
        """Draw other rows, those of p first: (2 · N_HELD_OUT, d)."""
        rng = np.random.default_rng([seed, self.number, 1])
        return np.concatenate([self.p.draw(N_HELD_OUT, rng), self.q.draw(N_HELD_OUT, rng)])

    def log_r(self, X: np.ndarray) -> np.ndarray:
        """Return the true log p/q of rows, (n, d) to (n,)."""
        return self.p.log_density(X) - self.q.log_density(X)


def gaussian(d: int, mean: float = 0.0, scale: float = 1.0) -> Gaussian:
    return Gaussian(np.full(d, mean), scale**2 * np.eye(d))


def paired(n_pairs: int, rho: float) -> Gaussian:
    """Return a Gaussian whose column i is correlated with column i + n_pairs."""
    eye = np.eye(n_pairs)
    return Gaussian(np.zeros(2 * n_pairs), np.block([[eye, rho * eye], [rho * eye, eye]]))


def rotated(mean: float, scales: np.ndarray) -> Gaussian:
    """Return a Gaussian with these scales along axes that are not columns."""
    R = stats.ortho_group.rvs(len(scales), random_state=np.random.default_rng(5))
    return Gaussian(np.full(len(scales), mean), (R * scales**2) @ R.T)


def equal_correlations(d: int, mean: float, scale: float, rho: float) -> Gaussian:
    return Gaussian(np.full(d, mean), scale**2 * ((1 - rho) * np.eye(d) + rho))


def hidden(d: int, columns: tuple[int, ...], mean: float, scale: float) -> Gaussian:
    """Return a standard Gaussian, except for a few columns."""
    means, scales = np.zeros(d), np.ones(d)
    means[list(columns)], scales[list(columns)] = mean, scale
    return Gaussian(means, np.diag(scales**2))


def two_bumps(d: int, distance: float, share: float) -> Mixture:
    return Mixture((share, 1 - share), (gaussian(d), gaussian(d, distance)))


def four_bumps(shares: tuple[float, ...]) -> Mixture:
    """Return a mixture of four Gaussians in five columns with these shares."""
    means = 2.0 * np.array([[1, 1, 0, 0, 0], [-1, 1, 1, 0, 0], [0, -1, 1, 1, 0], [0, 0, -1, -1, 1]])
    scales = (1.0, 0.8, 1.2, 0.9)
    return Mixture(shares, tuple(Gaussian(m, s**2 * np.eye(5)) for m, s in zip(means, scales, strict=True)))


def spiral(turn: float, width: float, n_parts: int = 24) -> Mixture:
    """Return bumps along an arm that winds around the origin, turned by an angle."""
    angles = np.linspace(0.5 * math.pi, 3 * math.pi, n_parts)
    centers = 0.35 * angles[:, None] * np.column_stack([np.cos(angles + turn), np.sin(angles + turn)])
    return Mixture((1 / n_parts,) * n_parts, tuple(Gaussian(c, width**2 * np.eye(2)) for c in centers))


def gammas(first: float, last: float, scale: float, d: int = 10) -> Columns:
    """Return gamma columns, whose shapes go from the first to the last."""
    return Columns(tuple(stats.gamma(shape, scale=scale) for shape in np.linspace(first, last, d)))


def shifted(number: int, d: int, kl: float, n: int, group: Literal["design", "report"]) -> Problem:
    p = gaussian(d, math.sqrt(2 * kl / d))
    return Problem(number, f"shift, KL {kl:g}", p, gaussian(d), n, n, group)


def one_dimension() -> Mixture:
    return Mixture((0.6, 0.4), (gaussian(1, -1.2, 0.5), gaussian(1, 1.5, 0.7)))


_SCALES = np.geomspace(0.5, 2, 5)
_BENT_P, _CHAIN_P = Gaussian(np.array([1.0, -1.0]), 0.49 * np.eye(2)), gaussian(10, 0.95, 0.7)
_T3, _T4 = Columns((stats.t(3),) * 5), Columns((stats.t(4, loc=0.7, scale=1.3),) * 5)

PROBLEMS = (
    shifted(1, 2, 1, 1_000, "design"),
    shifted(2, 10, 5, 3_000, "report"),
    shifted(3, 20, 9, 5_000, "design"),
    Problem(4, "the paper's toy", gaussian(2), gaussian(2, 3.0), 20_000, 20_000, "report"),
    Problem(5, "covariance", rotated(0.0, _SCALES), gaussian(5), 2_000, 2_000, "design"),
    Problem(6, "correlation", paired(5, 0.8), gaussian(10), 3_000, 3_000, "report"),
    Problem(7, "the paper's Table 5", two_bumps(2, 3.0, 0.99), two_bumps(2, 3.0, 0.01), 1_000, 1_000, "report"),
    Problem(
        8, "four bumps", four_bumps((0.55, 0.3, 0.1, 0.05)), four_bumps((0.05, 0.1, 0.3, 0.55)), 3_000, 3_000, "design"
    ),
    Problem(9, "banana", Bent(_BENT_P, 1.0), Bent(gaussian(2), 1.0), 2_000, 2_000, "design"),
    Problem(10, "ring", Ring(3.0, 0.2), Ring(2.0, 0.3), 3_000, 3_000, "report"),
    Problem(11, "spiral", spiral(0.0, 0.35), spiral(2 * math.pi / 3, 0.45), 3_000, 3_000, "design"),
    Problem(12, "heavy tails", _T3, _T4, 3_000, 3_000, "design"),
    Problem(
        13,
        "log-normal",
        LogNormal(equal_correlations(5, 0.5, 0.6, 0.6)),
        LogNormal(equal_correlations(5, 0.0, 0.8, 0.3)),
        2_000,
        2_000,
        "report",
    ),
    Problem(14, "gammas", gammas(2.0, 6.5, 1.0), gammas(1.5, 2.5, 1.2), 5_000, 5_000, "design"),
    Problem(15, "hidden in 2 of 20", hidden(20, (3, 11), 1.5, 0.7), gaussian(20), 3_000, 3_000, "report"),
    Problem(16, "joint, product 10 + 10", paired(10, 0.6), gaussian(20), 10_000, 10_000, "design"),
    Problem(17, "joint, product 20 + 20", paired(20, 0.5), gaussian(40), 10_000, 10_000, "report"),
    Problem(18, "identical samples", gaussian(5), gaussian(5), 1_000, 1_000, "design", twins=True),
    Problem(19, "one dimension", one_dimension(), gaussian(1, 0.3, 1.6), 300, 300, "report"),
    Problem(20, "unequal n", rotated(0.6, np.geomspace(0.6, 1.4, 5)), gaussian(5), 300, 10_000, "design"),
    Problem(21, "ten bananas in a chain", Bent(_CHAIN_P, 0.5), Bent(gaussian(10), 0.5), 20_000, 20_000, "report"),
)


def failures(problem: Problem) -> Iterator[str]:
    """Yield what is wrong with a problem's closed form or its draws."""
    rng = np.random.default_rng([7, problem.number])
    X_p, X_q = problem.p.draw(N_CHECKED, rng), problem.q.draw(N_CHECKED, rng)
    yield from _wrong_shapes(problem)
    yield from _unlike_scipy(problem, X_p[:1000])
    log_p, log_q = problem.log_r(X_p), problem.log_r(X_q)
    if not np.isfinite(np.concatenate([log_p, log_q])).all():
        yield "log r is not finite"
    prob_p, prob_q = expit(-log_p), expit(log_q)
    if abs(z := _z(prob_q, prob_p)) > LARGEST_Z:
        yield f"mean_q r / (1 + r) and mean_p 1 / (1 + r): {z:.1f} standard errors apart"
    columns = zip([*X_p.T, log_p], [*X_q.T, log_q], strict=True)
    for i, (h_p, h_q) in enumerate(columns):  # the last is log r itself
        for k, (in_p, in_q) in enumerate(_bins(h_p, h_q)):
            if abs(z := _z(in_q * prob_q, in_p * prob_p)) > LARGEST_Z:
                yield f"column {i}, bin {k}: {z:.1f} standard errors"
    yield from _wrong_means(X_p, X_q, log_p, log_q)


def _bins(h_p: np.ndarray, h_q: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the rows of p and of q in each bin that has enough of both. Bins have equal numbers of pooled rows."""
    edges = np.unique(np.quantile(np.concatenate([h_p, h_q]), np.linspace(0, 1, N_BINS + 1)[1:-1]))
    of_p, of_q = (np.searchsorted(edges, h) for h in (h_p, h_q))
    for k in range(len(edges) + 1):
        if min(np.count_nonzero(of_p == k), np.count_nonzero(of_q == k)) >= FEWEST:
            yield of_p == k, of_q == k


def _z(left: np.ndarray, right: np.ndarray | float) -> float:
    """Return the difference of two means in standard errors. It is 0 if they are the same number."""
    difference = float(np.mean(left) - np.mean(right))
    error = math.sqrt(np.var(left) / len(left) + np.var(right) / N_CHECKED)
    return difference / error if abs(difference) > 1e-12 else 0.0


def _wrong_shapes(problem: Problem) -> Iterator[str]:
    (X_p, X_q), held_out = problem.draw(0), problem.held_out(0)
    if (X_p.shape, X_q.shape) != ((problem.n_p, problem.d), (problem.n_q, problem.d)):
        yield f"samples of shapes {X_p.shape}, {X_q.shape}"
    if held_out.shape != (2 * N_HELD_OUT, problem.d) or np.isin(held_out[:, 0], [*X_p[:, 0], *X_q[:, 0]]).any():
        yield "held-out rows are among those that were fitted, or too few"


def _unlike_scipy(problem: Problem, X: np.ndarray) -> Iterator[str]:
    for distribution in (problem.p, problem.q):
        expected = _scipy_log_density(distribution, X)
        if expected is not None and not np.allclose(distribution.log_density(X), expected, rtol=1e-9, atol=1e-9):
            yield f"{type(distribution).__name__} is not the density of scipy"


def _scipy_log_density(distribution: Density, X: np.ndarray) -> np.ndarray | None:
    """Return the log-density from SciPy, or None if SciPy does not have it: `Bent` has only its draws."""
    scipy_stats: Any = stats  # its stubs do not know arrays
    if isinstance(distribution, Gaussian):
        return scipy_stats.multivariate_normal(distribution.mean, distribution.cov).logpdf(X)
    if isinstance(distribution, Mixture):
        each: Any = [_scipy_log_density(part, X) for part in distribution.parts]
        return np.log(np.average(np.exp(each), axis=0, weights=distribution.shares))
    if isinstance(distribution, Ring):
        r = np.hypot(*X.T)
        return scipy_stats.lognorm(distribution.spread, scale=distribution.radius).logpdf(r) - np.log(2 * math.pi * r)
    if isinstance(distribution, LogNormal):  # the first column, then the logs of the others given the first
        mean, cov = distribution.base.mean, distribution.base.cov
        first = scipy_stats.lognorm(math.sqrt(cov[0, 0]), scale=math.exp(mean[0])).logpdf(X[:, 0])
        slope, log_X = cov[1:, 0] / cov[0, 0], np.log(X)
        rest = log_X[:, 1:] - (log_X[:, :1] - mean[0]) * slope
        conditional = scipy_stats.multivariate_normal(mean[1:], cov[1:, 1:] - np.outer(slope, cov[0, 1:]))
        return first + conditional.logpdf(rest) - log_X[:, 1:].sum(axis=1)
    return None


def _wrong_means(X_p: np.ndarray, X_q: np.ndarray, log_p: np.ndarray, log_q: np.ndarray) -> Iterator[str]:
    """Yield the means of r, 1/r and r x that are off, where the weights leave 2 % of the rows in effect."""
    for name, log_r in (("mean_q r", log_q), ("mean_p 1/r", -log_p)):
        r = np.exp(log_r)
        effective = r.sum() ** 2 / (r @ r)
        if effective < 0.02 * len(r):
            continue
        if abs(z := _z(r, 1.0)) > LARGEST_Z:
            yield f"{name} is {r.mean():.4f}, {z:.1f} standard errors from 1"
        x_from, x_to = (X_q, X_p) if name == "mean_q r" else (X_p, X_q)
        for i in range(x_from.shape[1]):
            if abs(z := _z(r * x_from[:, i], x_to[:, i])) > LARGEST_Z:
                yield f"{name} x, column {i}: {z:.1f} standard errors"
