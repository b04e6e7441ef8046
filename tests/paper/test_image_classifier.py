from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from flowratio import CNN, MLP, Recipe
from flowratio_paper.image_classifier import ImageClassifier, fit_classifier

RECIPE = Recipe(max_epochs=15, batch_size=32, learning_rate=0.01)


def _bars(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images of 6 × 6 in grey values: noise, and a bright bar that stands, lies, or is not there."""
    rng = np.random.default_rng(seed)
    labels, at = np.arange(n) % 3, rng.integers(0, 6, n)
    images = rng.uniform(0, 100, (n, 6, 6))
    for image, label, k in zip(images, labels, at, strict=True):
        if label < 2:
            (image if label else image.T)[k] = 250
    return images, labels


def _fit(network: MLP | CNN, weights: Any = None, seed: int = 0) -> ImageClassifier:
    return fit_classifier(network, *_bars(300, 0), held_out=_bars(90, 1), recipe=RECIPE, seed=seed, weights=weights)


def test_images_are_told_apart() -> None:
    actual = _fit(CNN((1, 6, 6), (8, 8), 3))
    images, labels = _bars(150, 2)
    assert actual.logits(images).shape == (150, 3)
    assert actual.accuracy(images, labels) > 0.95
    assert actual.accuracy(images, labels) == np.mean(actual.predict(images.reshape(150, 36)) == labels)
    assert actual.accuracy(images, (labels + 1) % 3) < 0.05


def test_the_unit_of_the_images_does_not_matter() -> None:
    (images, labels), (held_images, held_labels) = _bars(300, 0), _bars(90, 1)
    scaled = fit_classifier(
        MLP(36, (16,), 3),
        images / 255,
        labels,
        held_out=(held_images / 255, held_labels),
        recipe=RECIPE,
        seed=0,
    )
    # float32: the same up to rounding, which 150 steps make larger
    np.testing.assert_allclose(scaled.logits(images / 255), _fit(MLP(36, (16,), 3)).logits(images), atol=0.05)


def test_the_best_held_out_loss_is_kept_and_global_generators_are_not_touched() -> None:
    state = torch.get_rng_state()
    actual = _fit(MLP(36, (16,), 3))
    images, labels = _bars(90, 1)
    logits = actual.logits(images)
    loss = -np.mean(logits[np.arange(90), labels] - np.log(np.exp(logits).sum(axis=1)))
    assert loss == pytest.approx(min(actual.history.held_out_loss), abs=1e-4)
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(_fit(MLP(36, (16,), 3)).logits(images), logits)


def test_images_of_weight_zero_teach_nothing() -> None:
    images, labels = _bars(300, 0)
    errors = np.where(np.arange(300) < 150, labels, (labels + 1) % 3)  # the second half
    test_images, test_labels = _bars(150, 2)

    def accuracy(weights: np.ndarray) -> float:
        change = {"held_out": _bars(90, 1), "recipe": RECIPE, "seed": 0}
        network = CNN((1, 6, 6), (8, 8), 3)
        return fit_classifier(network, images, errors, weights=weights, **change).accuracy(test_images, test_labels)

    right_half = (np.arange(300) < 150).astype(float)
    assert accuracy(2 * right_half) > 0.9
    assert accuracy(2 * (1 - right_half)) < 0.1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": np.zeros((4, 5, 5))}, r"`images` has the shape \(4, 5, 5\)\. Use one or more images of 36"),
        ({"images": np.zeros((0, 6, 6)), "labels": np.zeros(0, int)}, r"`images` has the shape \(0, 6, 6\)"),
        ({"labels": np.zeros(3, int)}, r"`labels` has 4 images but labels of shape \(3,\)"),
        (
            {"labels": np.array([0, 1, 2, 3])},
            r"`labels` has classes from 0 to 3 .* 3 outputs\. Use integers from 0 to 2",
        ),
        ({"labels": np.array([0, 1, 2, -1])}, "`labels` has classes from -1 to 2"),
        ({"labels": np.array([0.5, 1, 2, 0])}, "`labels` has classes from 0.0 to 2.0"),
        ({"held_out": (np.zeros((2, 7)), np.zeros(2, int))}, r"`held_out` has the shape \(2, 7\)"),
        ({"held_out": (np.zeros((2, 36)), np.array([0, 9]))}, "`held_out` has classes from 0 to 9"),
        ({"weights": np.ones(3)}, r"`weights` has the shape \(3,\).*Use 4 finite numbers of 0 or more"),
        ({"weights": np.array([1, 1, 1, -1.0])}, "`weights` .* negative, not finite or all 0"),
        ({"weights": np.array([1, 1, 1, np.nan])}, "`weights` .* negative, not finite or all 0"),
        ({"weights": np.zeros(4)}, "`weights` .* all 0"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], message: str) -> None:
    images, labels = _bars(4, 0)
    settings = {"images": images, "labels": labels, "held_out": (images, labels), "recipe": RECIPE, "seed": 0}
    with pytest.raises(ValueError, match=message):
        fit_classifier(MLP(36, (8,), 3), **(settings | change))
