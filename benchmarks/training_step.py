"""Seconds of a training step: a MAF of 5 blocks compared with zuko's of the same size, a CNN compared with plain torch.

Claims: a step takes 0.5 × zuko's time or less at d = 2 and hidden (100, 100), 0.6 × at d = 40, and 1.0 × at d = 784 and
hidden (1024, 1024). Batches have 100 rows, and there is one thread. Batch normalization adds 0.3 × to our time or less.
Ours is the whole loop that users run: it gathers rows, clips the gradient and averages the weights. zuko's is the plain
loop of its tutorial, with rows gathered once. The CNN has four layers of 64 filters, and a step has 64 images of 28 ×
28. It takes 0.8 × the time of the same layers in a plain loop of torch, or less. Cost: about 1 minute.
Command: python benchmarks/training_step.py
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import zuko
from _timing import by_turns, one_thread, versions
from torch import nn
from torch.nn.functional import softplus

from flowratio import MAF
from flowratio.ratios.neural.networks import CNN
from flowratio.samples.rows import ArrayRows
from flowratio.training.loop import train
from flowratio.training.run import Recipe

BATCH, IMAGES = 100, 64
# columns, hidden layers, steps of a round, largest ratio to zuko
CASES = ((2, (100, 100), 300, 0.5), (40, (100, 100), 300, 0.6), (784, (1024, 1024), 8, 1.0))


def ours(X: np.ndarray, hidden: tuple[int, ...], batch_norm: bool) -> Callable[[], object]:
    flow = MAF(X.shape[1], hidden=hidden, batch_norm=batch_norm, generator=torch.Generator().manual_seed(0))
    # two epochs would score held-out rows twice. One epoch with two held-out rows adds almost no time
    recipe = Recipe(max_epochs=1, batch_size=BATCH, learning_rate=1e-3, tolerance=float("inf"))
    return lambda: train(flow, lambda x: -flow.log_prob(x).mean(), ArrayRows(X), X[:2], recipe, seed=0)


def zukos(X: np.ndarray, hidden: tuple[int, ...]) -> Callable[[], object]:
    flow = zuko.flows.MAF(X.shape[1], transforms=5, hidden_features=hidden)
    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-3)

    def epoch() -> None:
        for x in torch.from_numpy(X)[torch.randperm(len(X))].split(BATCH):
            optimizer.zero_grad()
            loss = -flow().log_prob(x).mean()
            loss.backward()
            optimizer.step()

    return epoch


def our_cnn(X: np.ndarray) -> Callable[[], object]:
    network = CNN((1, 28, 28))
    recipe = Recipe(max_epochs=1, batch_size=IMAGES, learning_rate=1e-3, tolerance=float("inf"))
    return lambda: train(network, lambda x: softplus(network(x)).mean(), ArrayRows(X), X[:2], recipe, seed=0)


def plain_cnn(X: np.ndarray) -> Callable[[], object]:
    layers = [
        layer
        for n_in in (1, 64, 64, 64)
        for layer in (nn.Conv2d(n_in, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2))
    ]
    network = nn.Sequential(nn.Unflatten(1, (1, 28, 28)), *layers, nn.Flatten(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)

    def epoch() -> None:
        for x in torch.from_numpy(X)[torch.randperm(len(X))].split(IMAGES):
            optimizer.zero_grad()
            softplus(network(x)).mean().backward()
            optimizer.step()

    return epoch


def main() -> None:
    one_thread()
    print(versions())
    for d, hidden, n_steps, bound in CASES:
        X = np.random.default_rng(0).standard_normal((n_steps * BATCH, d)).astype(np.float32)
        contestants = {"zuko": zukos(X, hidden), "ours": ours(X, hidden, False), "norm": ours(X, hidden, True)}
        seconds = by_turns(contestants)
        zuko_ms, ours_ms, norm_ms = (1e3 * seconds[name] / n_steps for name in ("zuko", "ours", "norm"))
        print(
            f"d = {d:3d}, hidden {hidden}: zuko {zuko_ms:7.2f} ms, ours {ours_ms:7.2f} ms, "
            f"ratio {ours_ms / zuko_ms:.2f} (target: {bound}), with batch norm {norm_ms:7.2f} ms, "
            f"ratio to ours without {norm_ms / ours_ms:.2f} (target: 1.3)"
        )
    n_steps = 10
    X = np.random.default_rng(0).standard_normal((n_steps * IMAGES, 784)).astype(np.float32)
    seconds = by_turns({"torch": plain_cnn(X), "ours": our_cnn(X)})
    torch_ms, ours_ms = (1e3 * seconds[name] / n_steps for name in ("torch", "ours"))
    print(
        f"CNN, {IMAGES} images: torch {torch_ms:7.2f} ms, ours {ours_ms:7.2f} ms, ratio {ours_ms / torch_ms:.2f} "
        "(target: 0.8)"
    )


if __name__ == "__main__":
    main()
