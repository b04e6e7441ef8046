r"""A classifier of images into k classes, with weights of the images.

.. math:: L = \frac1n \sum_i w_i \, \big(-\log \mathrm{softmax}(f(x_i))_{y_i}\big)
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from flowratio import CNN, MLP, History, Recipe, train

_CHUNK_ROWS = 1000


@torch.no_grad()
def outputs(network: MLP | CNN, X: np.ndarray) -> np.ndarray:
    """Return the outputs of a network, (n, d) to (n, k), in float64, so that they do not depend on the batches."""
    exact = deepcopy(network).double().eval()
    parts = torch.from_numpy(np.asarray(X, np.float64)).split(_CHUNK_ROWS)
    return torch.cat([exact(part) for part in parts]).numpy()


@dataclass(frozen=True)
class ImageClassifier:
    """A fitted network, and the scaling of the images before it.

    Parameters
    ----------
    network
        Its outputs are the logits of the classes.
    mean, scale
        Mean and standard deviation of all pixels that it was fitted to.
    history
        Losses by epoch.
    """

    network: MLP | CNN
    mean: float
    scale: float
    history: History

    def logits(self, images: Any) -> np.ndarray:
        """Return the logits of images, (n, d) or (n, height, width) to (n, k)."""
        return outputs(self.network, (_as_rows(images, self.network, "images") - self.mean) / self.scale)

    def predict(self, images: Any) -> np.ndarray:
        """Return the classes of images, of shape (n,)."""
        return self.logits(images).argmax(axis=1)

    def accuracy(self, images: Any, labels: Any) -> float:
        """Return the share of images whose class is predicted. `labels` has shape (n,)."""
        return float(np.mean(self.predict(images) == np.asarray(labels)))


def fit_classifier(
    network: MLP | CNN,
    images: Any,
    labels: Any,
    *,
    held_out: tuple[Any, Any],
    recipe: Recipe,
    seed: int,
    weights: Any = None,
) -> ImageClassifier:
    """Train a network to classify images, up to the lowest loss on the held-out images.

    Parameters
    ----------
    network
        A network with k outputs and initial weights.
    images
        Of shape (n, d) or (n, height, width), in any unit. They are standardized by one mean and one scale.
    labels
        Classes from 0 to k - 1, of shape (n,).
    held_out
        Other images and their classes, which decide when to stop.
    recipe
        Settings of the training.
    seed
        Seed of the order of the images.
    weights
        Weights of the images, 0 or more, of shape (n,). None for 1 each.

    Examples
    --------
    >>> images, labels = np.repeat(np.eye(2), 40, axis=0), np.repeat([0, 1], 40)
    >>> recipe = Recipe(max_epochs=50, batch_size=16, learning_rate=0.03)
    >>> classifier = fit_classifier(MLP(2, (8,), 2), images, labels, held_out=(images, labels), recipe=recipe, seed=0)
    >>> classifier.accuracy(images, labels)
    1.0
    """
    X, X_held_out = _as_rows(images, network, "images"), _as_rows(held_out[0], network, "held_out")
    y = _checked_labels(labels, len(X), network, "labels")
    y_held_out = _checked_labels(held_out[1], len(X_held_out), network, "held_out")
    w = _checked_weights(weights, len(X))
    mean, scale = float(X.mean(dtype=np.float64)), float(X.std(dtype=np.float64)) or 1.0
    rows = _joined((X - mean) / scale, y, w)
    rows_held_out = _joined((X_held_out - mean) / scale, y_held_out, np.ones(len(y_held_out)))

    def loss(rows: Tensor) -> Tensor:  # (b, d + 2)
        logits, y, w = network(rows[:, :-2]), rows[:, -2].long(), rows[:, -1]
        return (w * cross_entropy(logits, y, reduction="none")).mean()

    history = train(network, loss, rows, rows_held_out, recipe, seed=seed)
    return ImageClassifier(network, mean, scale, history)


def _joined(X: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return images, classes and weights as the columns of one array, (n, d + 2)."""
    return np.column_stack([X, y.astype(np.float32), w.astype(np.float32)])  # exact for up to 2²⁴ classes


def _as_rows(images: Any, network: MLP | CNN, name: str) -> np.ndarray:
    images = np.asarray(images)
    if images.ndim < 2 or len(images) == 0 or math.prod(images.shape[1:]) != network.n_features:
        raise ValueError(
            f"`{name}` has the shape {images.shape}. Use one or more images of {network.n_features} pixels, the size "
            "that the network takes."
        )
    return images.reshape(len(images), -1).astype(np.float32)


def _checked_labels(labels: Any, n: int, network: MLP | CNN, name: str) -> np.ndarray:
    labels = np.asarray(labels)
    if labels.shape != (n,):
        raise ValueError(f"`{name}` has {n} images but labels of shape {labels.shape}. Use one label for each image.")
    k = network.n_outputs
    if not np.issubdtype(labels.dtype, np.integer) or labels.min() < 0 or labels.max() >= k:
        raise ValueError(
            f"`{name}` has classes from {labels.min()} to {labels.max()} ({labels.dtype}), but the network has {k} "
            f"outputs. Use integers from 0 to {k - 1}."
        )
    return labels


def _checked_weights(weights: Any, n: int) -> np.ndarray:
    w = np.ones(n) if weights is None else np.asarray(weights, np.float64)
    if w.shape != (n,) or not np.isfinite(w).all() or w.min() < 0 or w.max() == 0:
        raise ValueError(
            f"`weights` has the shape {w.shape}, or values that are negative, not finite or all 0. Use {n} finite "
            "numbers of 0 or more, one for each image."
        )
    return w
