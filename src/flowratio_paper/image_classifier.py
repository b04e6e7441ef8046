r"""A classifier of images into k classes, trained by the one loop, that counts some images more than others.

.. math:: L = \frac1n \sum_i w_i \, \big(-\log \mathrm{softmax}(f(x_i))_{y_i}\big)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor
from torch.nn.functional import cross_entropy

from flowratio.ratios.neural.networks import Network, evaluate
from flowratio.samples.rows import ArrayRows
from flowratio.training.loop import train
from flowratio.training.run import History, Recipe


@dataclass(frozen=True)
class ImageClassifier:
    """A network that is fitted, and the scaling of the images before it.

    Parameters
    ----------
    network
        Its outputs are the logits of the classes.
    mean, scale
        One of each for all pixels, of the images that it was fitted to.
    history
        Losses by epoch.
    """

    network: Network
    mean: float
    scale: float
    history: History

    def logits(self, images: Any) -> np.ndarray:
        """Return the logits of images, (n, d) or (n, height, width) to (n, k)."""
        return evaluate(self.network, (_as_rows(images, self.network, "images") - self.mean) / self.scale)

    def predict(self, images: Any) -> np.ndarray:
        """Return the classes of images, of shape (n,)."""
        return self.logits(images).argmax(axis=1)

    def accuracy(self, images: Any, labels: Any) -> float:
        """Return the share of images whose class is predicted; `labels` has shape (n,)."""
        return float(np.mean(self.predict(images) == np.asarray(labels)))


def fit_classifier(
    network: Network,
    images: Any,
    labels: Any,
    *,
    held_out: tuple[Any, Any],
    recipe: Recipe,
    seed: int,
    weights: Any = None,
) -> ImageClassifier:
    """Train a network to classify images, and keep it where the loss on the held-out images is lowest.

    Parameters
    ----------
    network
        One of k outputs, with new weights.
    images
        Of shape (n, d) or (n, height, width), in any unit: they are standardized by one mean and one scale.
    labels
        Classes from 0 to k - 1, of shape (n,).
    held_out
        Images and classes that decide when to stop; none of them may be among the others.
    recipe
        Settings of the loop.
    seed
        Decides the order of the images.
    weights
        How much each image counts, 0 or more, of shape (n,); 1 for each if None.

    Examples
    --------
    >>> from flowratio.ratios.neural.networks import MLP
    >>> images, labels = np.repeat(np.eye(2), 40, axis=0), np.repeat([0, 1], 40)
    >>> recipe = Recipe(max_epochs=50, batch_size=16, learning_rate=0.03)
    >>> found = fit_classifier(MLP(2, (8,), 2), images, labels, held_out=(images, labels), recipe=recipe, seed=0)
    >>> found.accuracy(images, labels)
    1.0
    """
    X, X_held_out = _as_rows(images, network, "images"), _as_rows(held_out[0], network, "held_out")
    y = _checked_labels(labels, len(X), network, "labels")
    y_held_out = _checked_labels(held_out[1], len(X_held_out), network, "held_out")
    w = _checked_weights(weights, len(X))
    mean, scale = float(X.mean(dtype=np.float64)), float(X.std(dtype=np.float64)) or 1.0
    rows = _joined((X - mean) / scale, y, w)
    aside = _joined((X_held_out - mean) / scale, y_held_out, np.ones(len(y_held_out)))

    def loss(rows: Tensor) -> Tensor:  # (b, d + 2)
        logits, y, w = network(rows[:, :-2]), rows[:, -2].long(), rows[:, -1]
        return (w * cross_entropy(logits, y, reduction="none")).mean()

    history = train(network, loss, ArrayRows(rows), aside, recipe, seed=seed)
    return ImageClassifier(network, mean, scale, history)


def _joined(X: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return images, classes and weights side by side, as the loop takes them: (n, d + 2)."""
    return np.column_stack([X, y.astype(np.float32), w.astype(np.float32)])  # exact for up to 2²⁴ classes


def _as_rows(images: Any, network: Network, name: str) -> np.ndarray:
    images = np.asarray(images)
    if images.ndim < 2 or len(images) == 0 or math.prod(images.shape[1:]) != network.n_features:
        raise ValueError(
            f"`{name}` has the shape {images.shape}, but the network takes images of {network.n_features} pixels: give "
            "one or more of that size."
        )
    return images.reshape(len(images), -1).astype(np.float32)


def _checked_labels(labels: Any, n: int, network: Network, name: str) -> np.ndarray:
    labels = np.asarray(labels)
    if labels.shape != (n,):
        raise ValueError(f"`{name}` has {n} images but labels of shape {labels.shape}: give one for each.")
    k = network.n_outputs
    if not np.issubdtype(labels.dtype, np.integer) or labels.min() < 0 or labels.max() >= k:
        raise ValueError(
            f"`{name}` has classes from {labels.min()} to {labels.max()} ({labels.dtype}), but the network has {k} "
            f"outputs: give whole numbers from 0 to {k - 1}."
        )
    return labels


def _checked_weights(weights: Any, n: int) -> np.ndarray:
    w = np.ones(n) if weights is None else np.asarray(weights, np.float64)
    if w.shape != (n,) or not np.isfinite(w).all() or w.min() < 0 or w.max() == 0:
        raise ValueError(
            f"`weights` must have {n} finite numbers of 0 or more, not all 0, one for each image; it has the shape "
            f"{w.shape}."
        )
    return w
