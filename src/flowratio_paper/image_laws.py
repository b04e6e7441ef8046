r"""Two laws of images, p and q, what a flow of both makes of them, and a classifier that tells them apart.

A flow learns (x + u) / 256, with u uniform and new in every pass, by way of a logit. `FlowFeaturizer.transform` puts an
image at u = ½. There dark pixels lie amid their mode, and draws z ~ N(0, I) of the flow hardly ever do: a ratio of z
that is to weight such draws must be fitted to z of images with noise, as `FlowFeaturizer.encode` gives them with an
`rng`, and as `FeaturizedRatio` does by itself. As p and q have the same noise, it changes no ratio.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.neural.networks import MLP
from flowratio.training.run import Recipe
from flowratio_paper.image_classifier import ImageClassifier, fit_classifier
from flowratio_paper.images import PIXELS, flat

DIGITS, BACKGROUND = "diff-digits", "diff-background"
TASKS = (DIGITS, BACKGROUND)
_HELD_OUT = 0.1
_ROWS = 2000  # images that are mapped at a time


def check_perc(perc: Any) -> None:
    """Refuse what is no size of q in units of the size of p."""
    if not (isinstance(perc, int | float) and 0 < perc <= 1):
        raise ValueError(
            f"`perc` is {perc!r}: it is the size of q in units of that of p, and must be above 0 and at most 1. Give a "
            "number such as 0.25."
        )


def laws(task: str, images: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the images of p and those of q, the target, of shapes (n_p, 784) and (n_q, 784).

    Parameters
    ----------
    task
        `"diff-digits"`: ones and twos, zeros and sevens. `"diff-background"`: all as they are, all inverted.
    images, labels
        Bytes of shape (n, 784) or (n, 28, 28), and digits, of shape (n,).
    """
    if task not in TASKS:
        raise ValueError(f"`task` is {task!r}: give one of {', '.join(TASKS)}.")
    images = flat(images)
    if task == BACKGROUND:
        return images, 255 - images
    return images[np.isin(labels, (1, 2))], images[np.isin(labels, (0, 7))]


def two_samples(
    of_p: np.ndarray, of_q: np.ndarray, perc: float, rows: int | None, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw images of p, and perc times as many of q; fewer of p where there are not so many of q.

    Parameters
    ----------
    of_p, of_q
        All images of the laws, of shapes (n_p, 784) and (n_q, 784).
    perc
        Images of q for each image of p, above 0 and at most 1.
    rows
        Images of p at most; None for all.
    rng
        Of the draws.
    """
    check_perc(perc)
    n_p = min(len(of_p), rows or len(of_p), int(len(of_q) / perc))
    n_q = min(len(of_q), round(perc * n_p))
    if n_q < 2:
        raise ValueError(f"`perc` is {perc} with {n_p} images of p, {n_q} of q: give a larger one, or more images.")
    return of_p[np.sort(rng.permutation(len(of_p))[:n_p])], of_q[np.sort(rng.permutation(len(of_q))[:n_q])]


def log_densities(featurizer: FlowFeaturizer, images: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return log-densities of images with uniform noise, of shape (n,) each.

    `"logit"` is that of the logits, with λ = 1e-6, in nats, as Papamakarios et al. (2017) have it; `"bits"` is that of
    the pixels, in bits for each, with the sign changed: a bound on the length of a code for the bytes.

    Parameters
    ----------
    featurizer
        Fitted, with `scaling="image"`.
    images
        Bytes, of shape (n, 784).
    rng
        Of the noise.
    """
    flow_alone = FlowFeaturizer(featurizer.flow_, scaling="none").fit(np.zeros((2, PIXELS), np.float32))
    nats, log_det = np.empty(len(images)), np.empty(len(images))
    for start in range(0, len(images), _ROWS):
        part = slice(start, start + _ROWS)
        scaled, log_det[part] = featurizer.scaler_.forward(images[part].astype(float), rng)
        nats[part] = flow_alone.score_samples(scaled.astype(np.float32))
    standardizer: Any = vars(featurizer.scaler_)["steps_"][-1]
    of_standardizer = standardizer.forward(np.zeros((1, PIXELS)))[1]
    return {"logit": nats + of_standardizer, "bits": -(nats + log_det) / (PIXELS * math.log(2))}


def strange(images: np.ndarray, *of_laws: np.ndarray) -> np.ndarray:
    """Return which images are as bright as hardly any image of a law, of shape (n,).

    A flow also draws specks all over, which are of neither law, and of which a classifier of two laws says one or the
    other. Strange is what has a mean brightness outside the range of 998 of 1000 images, for every law.

    Parameters
    ----------
    images
        Of shape (n, 784).
    of_laws
        Images of each law, of shape (m, 784).

    Examples
    --------
    >>> dark, bright = np.full((9, 784), 20), np.full((9, 784), 230)
    >>> strange(np.array([784 * [20], 784 * [120], 784 * [230]]), dark, bright).tolist()
    [False, True, False]
    """
    means, known = images.mean(axis=1), np.zeros(len(images), bool)
    for law in of_laws:
        low, high = np.quantile(law.mean(axis=1), (0.001, 0.999))
        known |= (low <= means) & (means <= high)
    return ~known


def attribute_classifier(
    train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray], rows: int | None, epochs: int
) -> tuple[ImageClassifier, float]:
    """Return a classifier of both laws, 1 for the target, and its accuracy on test images.

    It is the paper's MLP of three layers of 100 units, with Adam at 2e-4 and batches of 128. It sees as many images of
    q as of p, and is the same in every run.

    Parameters
    ----------
    train, test
        Images of p and of q, as `laws` gives them.
    rows
        Images of p to learn from, at most; None for all.
    epochs
        Passes over them; what is kept has the least loss on a tenth of the images.
    """
    rng = np.random.default_rng(9)
    images, is_target = _labelled(*two_samples(*train, 1.0, rows, rng))
    aside = rng.random(len(images)) < _HELD_OUT
    recipe = Recipe(
        epochs, batch_size=128, learning_rate=2e-4, optimizer="adam", schedule="constant", patience=epochs, warm_up=0
    )
    fitted = fit_classifier(
        MLP(PIXELS, (100, 100, 100), 2),
        images[~aside],
        is_target[~aside],
        held_out=(images[aside], is_target[aside]),
        recipe=recipe,
        seed=0,
    )
    return fitted, fitted.accuracy(*_labelled(*test))


def _labelled(of_p: np.ndarray, of_q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([of_p, of_q]), np.repeat([0, 1], [len(of_p), len(of_q)])
