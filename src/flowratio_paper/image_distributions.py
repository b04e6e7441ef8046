r"""Two distributions of images, p and q, their densities under a flow, and a classifier that distinguishes them.

A flow learns the logit of (x + u) / 256, with new uniform noise u in every pass. `FlowFeaturizer.transform` uses
u = ½. Dark pixels are then at the center of their mode, where draws z ~ N(0, I) of the flow hardly ever are. To weight
such draws, fit the ratio to z of images with noise: `FlowFeaturizer.encode` with an `rng`. `FeaturizedRatio` does so by
itself. p and q have the same noise, so the noise does not change the ratio.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flowratio import MLP, FlowFeaturizer, Recipe, ScalerChain
from flowratio_paper.image_classifier import ImageClassifier, fit_classifier
from flowratio_paper.images import PIXELS, flat

DIGITS, BACKGROUND = "diff-digits", "diff-background"
TASKS = (DIGITS, BACKGROUND)
_HELD_OUT = 0.1
_ROWS = 2000  # mapped at a time


def check_perc(perc: Any) -> None:
    """Raise a ValueError if `perc` is not a size of q in units of the size of p."""
    if not (isinstance(perc, int | float) and 0 < perc <= 1):
        raise ValueError(
            f"`perc` is {perc!r}. It is the size of q in units of the size of p. Use a number above 0 and up to 1, "
            "such as 0.25."
        )


def distributions(task: str, images: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the images of p and of the target q, of shapes (n_p, 784) and (n_q, 784).

    Parameters
    ----------
    task
        `"diff-digits"`: ones and twos, zeros and sevens. `"diff-background"`: all images, all images inverted.
    images, labels
        Bytes of shape (n, 784) or (n, 28, 28), and digits, of shape (n,).
    """
    if task not in TASKS:
        raise ValueError(f"`task` is {task!r}. Use one of {', '.join(TASKS)}.")
    images = flat(images)
    if task == BACKGROUND:
        return images, 255 - images
    return images[np.isin(labels, (1, 2))], images[np.isin(labels, (0, 7))]


def two_samples(
    images_p: np.ndarray, images_q: np.ndarray, perc: float, rows: int | None, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw images of p, and perc times as many of q. If q has too few images, draw fewer of p.

    Parameters
    ----------
    images_p, images_q
        All images of p and q, of shapes (n_p, 784) and (n_q, 784).
    perc
        Images of q for each image of p, above 0 and up to 1.
    rows
        Maximum number of images of p. None for all.
    rng
        Generator of the draws.
    """
    check_perc(perc)
    n_p = min(len(images_p), rows or len(images_p), int(len(images_q) / perc))
    n_q = min(len(images_q), round(perc * n_p))
    if n_q < 2:
        raise ValueError(f"`perc` is {perc}, which leaves {n_p} images of p and {n_q} of q. Use a larger `perc`.")
    positions = [np.sort(rng.permutation(len(X))[:n]) for X, n in ((images_p, n_p), (images_q, n_q))]
    return images_p[positions[0]], images_q[positions[1]]


def log_densities(featurizer: FlowFeaturizer, images: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return log-densities of images with uniform noise, of shape (n,) each.

    `"logit"` is that of the logits, with λ = 1e-6, in nats, as in Papamakarios et al. (2017). `"bits"` is the negative
    log-density in bits per pixel: a bound on the length of a code for the bytes.

    Parameters
    ----------
    featurizer
        Fitted, with `scaling="image"`.
    images
        Bytes, of shape (n, 784).
    rng
        Generator of the noise.
    """
    flow_alone = FlowFeaturizer(featurizer.flow_, scaling="none").fit(np.zeros((2, PIXELS), np.float32))
    nats, log_det = np.empty(len(images)), np.empty(len(images))
    for start in range(0, len(images), _ROWS):
        part = slice(start, start + _ROWS)
        scaled, log_det[part] = featurizer.scaler_.forward(images[part].astype(float), rng)
        nats[part] = flow_alone.score_samples(scaled.astype(np.float32))
    chain = featurizer.scaler_
    if not isinstance(chain, ScalerChain):
        raise TypeError('`featurizer` does not scale images. Use `scaling="image"`.')
    standardizer_log_det = chain.steps_[-1].forward(np.zeros((1, PIXELS)))[1]
    return {"logit": nats + standardizer_log_det, "bits": -(nats + log_det) / (PIXELS * math.log(2))}


def strange(images: np.ndarray, *samples: np.ndarray) -> np.ndarray:
    """Return which images are far brighter or darker than those of all samples, of shape (n,).

    A flow also draws specks that belong to no sample, and a classifier of two samples assigns them to one of the two.
    An image is strange if its mean brightness is outside the range of 998 of 1000 images, for every sample.

    Parameters
    ----------
    images
        Of shape (n, 784).
    samples
        Images of each sample, of shape (m, 784).

    Examples
    --------
    >>> dark, bright = np.full((9, 784), 20), np.full((9, 784), 230)
    >>> strange(np.array([784 * [20], 784 * [120], 784 * [230]]), dark, bright).tolist()
    [False, True, False]
    """
    means, is_usual = images.mean(axis=1), np.zeros(len(images), bool)
    for sample in samples:
        low, high = np.quantile(sample.mean(axis=1), (0.001, 0.999))
        is_usual |= (low <= means) & (means <= high)
    return ~is_usual


def attribute_classifier(
    train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray], rows: int | None, epochs: int
) -> tuple[ImageClassifier, float]:
    """Return a classifier of p and the target q, whose class is 1, and its accuracy on test images.

    It is the paper's MLP of three layers of 100 units, with Adam at 2e-4 and batches of 128. It is fitted to as many
    images of q as of p, and is the same in every run.

    Parameters
    ----------
    train, test
        Images of p and of q, from `distributions`.
    rows
        Maximum number of images of p to fit. None for all.
    epochs
        Maximum number of passes. The lowest loss on a tenth of the images decides.
    """
    rng = np.random.default_rng(9)
    images, is_target = _with_labels(*two_samples(*train, 1.0, rows, rng))
    is_held_out = rng.random(len(images)) < _HELD_OUT
    recipe = Recipe(
        epochs, batch_size=128, learning_rate=2e-4, optimizer="adam", schedule="constant", patience=epochs, warm_up=0
    )
    classifier = fit_classifier(
        MLP(PIXELS, (100, 100, 100), 2),
        images[~is_held_out],
        is_target[~is_held_out],
        held_out=(images[is_held_out], is_target[is_held_out]),
        recipe=recipe,
        seed=0,
    )
    return classifier, classifier.accuracy(*_with_labels(*test))


def _with_labels(images_p: np.ndarray, images_q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([images_p, images_q]), np.repeat([0, 1], [len(images_p), len(images_q)])
