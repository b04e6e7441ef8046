"""Seconds to reach a held-out log-likelihood, compared with a plain training loop of zuko with the same stopping rule.

Claim: our flow reaches the bound in half the time of zuko, or less, on two densities. The toy mixture is ½N(0, I) +
½N([3, 3], I) with 80 000 rows, and its bound is 0.01 nats below the truth. The mixture of joint and product has 20 + 20
dimensions, ρ = .9 and 160 000 rows, and its bound is 0.35 nats. zuko has a MAF of 5 blocks, hidden (100, 100), Adam at
1e-3 and batches of 256. Ours is `FlowFeaturizer` with its defaults, from raw rows. Both score the same 20 000 held-out
rows after each epoch, and the time includes this. The first score within the bound counts. The truth is the closed-form
density on these rows. One thread. 2 seeds for the first density, and 1 for the second. Cost: about 5 minutes.
Command: python benchmarks/quality.py
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import torch
import zuko
from _timing import one_thread, versions

from flowratio import FlowFeaturizer
from flowratio.samples.rows import ArrayRows
from flowratio.training.loop import train

N_HELD_OUT = 20_000
MAX_EPOCHS = 30


def log_normal(X: np.ndarray) -> np.ndarray:
    """Log-density of the standard normal, (n, d) to (n,)."""
    return -0.5 * (X**2).sum(1) - 0.5 * X.shape[1] * math.log(2 * math.pi)


def toy(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows of the toy mixture, and their true log-density."""
    X = rng.standard_normal((n, 2)) + 3.0 * (rng.random((n, 1)) < 0.5)
    return X, np.logaddexp(log_normal(X), log_normal(X - 3)) - math.log(2)


def joint_and_product(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows of the mixture of joint and product, and their true log-density."""
    rho, d = 0.9, 20
    spread = math.sqrt(1 - rho**2)
    a, b = rng.standard_normal((n, d)), rng.standard_normal((n, d))
    b = np.where(rng.random((n, 1)) < 0.5, rho * a + spread * b, b)
    joint = log_normal((b - rho * a) / spread) - d * math.log(spread)
    return np.hstack([a, b]), log_normal(a) + np.logaddexp(joint, log_normal(b)) - math.log(2)


def ours(X: np.ndarray, held_out: np.ndarray, target: float, seed: int) -> list[tuple[float, float]]:
    """Do what `FlowFeaturizer(random_state=seed).fit(X)` does, but score our rows, as long as it goes on by itself."""
    start = time.perf_counter()
    featurizer = FlowFeaturizer(random_state=seed)
    scaler = featurizer._new_scaler().fit(X)
    rows, scored = scaler.forward(X)[0].astype(np.float32), scaler.forward(held_out)
    flow = featurizer._new_flow(X.shape[1], len(X), seed)
    recipe = featurizer.recipe_for(len(X), X.shape[1])
    offset = time.perf_counter() - start
    history = train(flow, lambda x: -flow.log_prob(x).mean(), ArrayRows(rows), scored[0], recipe, seed=seed)
    log_det = float(scored[1].mean())
    return [(offset + s, log_det - loss) for s, loss in zip(history.seconds, history.held_out_loss, strict=True)]


def zukos(X: np.ndarray, held_out: np.ndarray, target: float, seed: int) -> list[tuple[float, float]]:
    """Return (seconds, held-out log-likelihood) after each epoch, until the target is met."""
    torch.manual_seed(seed)
    start = time.perf_counter()
    mean, std = X.mean(0), X.std(0)
    rows, scored = (torch.from_numpy((A - mean) / std).float() for A in (X, held_out))
    flow = zuko.flows.MAF(X.shape[1], transforms=5, hidden_features=(100, 100))
    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-3)
    curve: list[tuple[float, float]] = []
    while len(curve) < MAX_EPOCHS and (not curve or curve[-1][1] < target):
        for x in rows[torch.randperm(len(rows))].split(256):
            optimizer.zero_grad()
            loss = -flow().log_prob(x).mean()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            score = torch.cat([flow().log_prob(x) for x in scored.split(4096)]).mean().item() - float(np.log(std).sum())
        curve.append((time.perf_counter() - start, score))
    return curve


def first(curve: list[tuple[float, float]], target: float) -> float:
    """Return the seconds at which the target was first met."""
    return next((seconds for seconds, score in curve if score >= target), math.inf)


def compare(name: str, draw: Callable[..., tuple[np.ndarray, np.ndarray]], n: int, bound: float, n_seeds: int) -> None:
    ratios: list[float] = []
    for seed in range(n_seeds):
        rng = np.random.default_rng(seed)
        X, _ = draw(n, rng)
        held_out, log_p = draw(N_HELD_OUT, rng)
        truth = float(log_p.mean())
        mine, theirs = (run(X, held_out, truth - bound, seed) for run in (ours, zukos))
        mine_first, theirs_first = first(mine, truth - bound), first(theirs, truth - bound)
        there = "within" if theirs_first < math.inf else "not within"
        theirs_first = min(theirs_first, theirs[-1][0])  # if zuko never got there: less than it would need
        ratios.append(mine_first / theirs_first)
        print(
            f"{name}, seed {seed}: truth {truth:.4f}. Ours is within {bound} after {mine_first:.1f} s, ends at "
            f"{mine[-1][1]:.4f} after {mine[-1][0]:.1f} s. zuko is {there} {bound} after {theirs_first:.1f} s "
            f"({len(theirs)} epochs, {theirs[-1][1]:.4f}). Ratio {ratios[-1]:.2f}"
        )
    print(f"{name}: worst ratio of {len(ratios)} seeds {max(ratios):.2f} (target: 0.5)")


def main() -> None:
    one_thread()
    print(versions())
    compare("toy", toy, 80_000, 0.01, 2)
    compare("joint and product", joint_and_product, 160_000, 0.35, 1)


if __name__ == "__main__":
    main()
