from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.special import logit
from scipy.stats import norm

from flowratio import Flow, FlowFeaturizer
from flowratio_paper import image_distributions
from flowratio_paper.image_distributions import (
    BACKGROUND,
    DIGITS,
    attribute_classifier,
    distributions,
    log_densities,
    two_samples,
)


class _Identity(Flow):
    def forward(self, x):
        return x, x.new_zeros(len(x))

    def inverse(self, z):
        return z, z.new_zeros(len(z))


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (300, 784), dtype=np.uint8)


@pytest.fixture
def featurizer(images: np.ndarray) -> FlowFeaturizer:
    """Return one whose flow does nothing."""
    return FlowFeaturizer(_Identity(784), scaling="image").fit(images)


def test_the_distributions_of_both_tasks(images: np.ndarray) -> None:
    labels = np.arange(300) % 10
    of_p, of_q = distributions(DIGITS, images, labels)
    assert (of_p == images[(labels == 1) | (labels == 2)]).all()
    assert (of_q == images[(labels == 0) | (labels == 7)]).all()
    of_p, of_q = distributions(BACKGROUND, images, labels)
    assert (of_p == images).all()
    assert (of_p.astype(int) + of_q == 255).all()


def test_unknown_tasks_and_other_images_are_refused(images: np.ndarray) -> None:
    with pytest.raises(ValueError, match="diff-digits, diff-background"):
        distributions("diff-color", images, np.zeros(300))
    with pytest.raises(ValueError, match=r"shape \(300, 783\)\. Use images of 28 × 28"):
        distributions(DIGITS, images[:, 1:], np.zeros(300))


def test_q_has_perc_times_as_many_images_as_p(images: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    of_p, of_q = two_samples(images, 255 - images, 0.25, 40, rng)
    assert (len(of_p), len(of_q)) == (40, 10)
    assert len(np.unique(of_p, axis=0)) == 40  # none twice
    # as many of p as there are images of q for: a perfect flow draws the share perc / (1 + perc) of q in any case
    assert [len(X) for X in two_samples(images, images[:90], 1.0, None, rng)] == [90, 90]
    assert [len(X) for X in two_samples(images, images[:90], 0.5, 200, rng)] == [180, 90]


@pytest.mark.parametrize("perc", [0, -0.1, 1.01, math.nan, "1"])
def test_perc_is_above_0_and_at_most_1(images: np.ndarray, perc: float) -> None:
    with pytest.raises(ValueError, match=r"`perc` is .* above 0 and up to 1"):
        two_samples(images, images, perc, None, np.random.default_rng(0))


def test_perc_must_leave_images_of_q(images: np.ndarray) -> None:
    with pytest.raises(ValueError, match="leaves 40 images of p and 0 of q"):
        two_samples(images, images, 0.01, 40, np.random.default_rng(0))


def test_log_densities_against_those_of_normal_logits(
    featurizer: FlowFeaturizer, images: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_distributions, "_ROWS", 128)  # the images are cut into three parts
    actual = log_densities(featurizer, images, np.random.default_rng(1))
    x = (images + np.random.default_rng(1).random(images.shape)) / 256
    y = 1e-6 + (1 - 2e-6) * x
    scaler = vars(featurizer.scaler_)["steps_"][-1]
    of_logits = norm.logpdf(logit(y), scaler.mean_, scaler.scale_).sum(axis=1)
    assert actual["logit"] == pytest.approx(of_logits, abs=0.01)  # float32, of 784 terms
    of_bytes = of_logits - np.log(y * (1 - y)).sum(axis=1) + 784 * math.log((1 - 2e-6) / 256)
    assert actual["bits"] == pytest.approx(-of_bytes / 784 / math.log(2), abs=1e-4)


def test_the_classifier_of_the_attribute_is_accurate(images: np.ndarray) -> None:
    dark = images // 2
    classifier, accuracy = attribute_classifier(
        (dark[:200], 255 - dark[:200]), (dark[200:], 255 - dark[200:]), None, 20
    )
    assert accuracy == 1.0
    assert classifier.predict(255 - dark[200:]).tolist() == [1] * 100


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_checkpoint_of_another_task_is_refused(images: np.ndarray, tmp_path: Path) -> None:
    settings = {"scaling": "image", "n_blocks": 1, "hidden": (16,), "max_epochs": 1, "random_state": 0}
    flow = FlowFeaturizer(**settings, checkpoint=tmp_path)
    flow.fit(np.concatenate(two_samples(images, 255 - images, 1.0, 50, np.random.default_rng(0))))
    with pytest.raises(ValueError, match=r"belongs to another run\. It differs in .*rows to fit"):
        flow.fit(np.concatenate(two_samples(images, images[:20], 1.0, 50, np.random.default_rng(0))))
