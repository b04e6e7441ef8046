from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from flowratio import MAF, AgainstDraws, Flow, FlowFeaturizer, History, TargetedSample
from flowratio_paper import targeted_generation
from flowratio_paper.image_distributions import DIGITS, log_densities
from flowratio_paper.mnist import PRESETS
from flowratio_paper.stages import Workspace
from flowratio_paper.targeted_generation import Settings, draw_images, run_cell


class _Mirror(Flow):
    """z = -x: a ratio that is asked in the wrong space gives the wrong side."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return -x, x.new_zeros(len(x))

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        return -z, z.new_zeros(len(z))


class _Exact:
    """The ratio of two distributions, each constant relative to the Gaussian h of the flow, on either side of 0.

    With perc = .25 the share of p is π = .8. Let q/h be 1.6 where z > 0, and .4 elsewhere; then p/h = (1 - .2 q/h) / .8
    is .85 and 1.15, and a share .8 of q has z > 0, a share .425 of p, and one half of what the flow draws.
    """

    def __init__(self, sign: int) -> None:
        self.sign = sign

    def log_ratio(self, X: np.ndarray) -> np.ndarray:
        return np.log(np.where(self.sign * X[:, 0] > 0, 0.85 / 1.6, 1.15 / 0.4))


class _ToDraws:
    """q/h of the same, as q/g: this flow draws what it has learned."""

    def log_ratio(self, Z: np.ndarray) -> np.ndarray:
        return np.log(np.where(Z[:, 0] > 0, 1.6, 0.4))


class _TwiceAsOften:
    """h/g of images: the flow draws each of them twice as often as it should, which changes nothing."""

    def log_ratio(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), math.log(0.5))


class _Sides:
    """A classifier of the attribute that takes images with z > 0, so x < 0, for the target."""

    def predict(self, X: np.ndarray) -> np.ndarray:
        return (X[:, 0] < 0).astype(int)


@pytest.fixture(scope="module")
def draws() -> dict[str, TargetedSample]:
    featurizer = FlowFeaturizer(_Mirror(2), scaling="none").fit(np.zeros((2, 2)))
    settings = Settings(1, samples=4000, candidates_z=20, candidates_x=20)
    ratios: Any = {"z": _Exact(1), "x": _Exact(-1), "draws": _ToDraws()}
    ratios["corrected"] = AgainstDraws(featurizer, _TwiceAsOften(), "x", 0.1, 0.01)
    return draw_images(settings, featurizer, ratios, 0.8, 0)[0]


_WEIGHTED = ("z", "draws", "two-stage", "corrected", "x")


# five standard errors of 4000 draws of 80 000 candidates: 5 sqrt(.16 (1/4000 + 1/80 000)) = .033
@pytest.mark.parametrize(("method", "share"), [*[(one, 0.8) for one in _WEIGHTED], ("regular", 0.5)])
def test_draws_have_the_share_of_the_target_that_q_has(draws: Any, method: str, share: float) -> None:
    classifier: Any = _Sides()
    usual = np.array([[-9.0], [9.0]])  # the range of all draws
    actual = targeted_generation._of_draw(draws[method], classifier, (usual, usual))
    assert actual["share"] == pytest.approx(share, abs=0.04)
    # weights of 1.6 and .4 on one half each: their mean, squared, over the mean of their squares
    worth = 1.0 if method == "regular" else 1 / (0.5 * 1.6**2 + 0.5 * 0.4**2)
    two_stage = method in ("two-stage", "corrected")
    if two_stage:  # chances are .8 of the roots in units of their mean, 4/3 and 2/3, plus .2
        worth = 1 / (0.5 * 1.6**2 / (0.8 * 4 / 3 + 0.2) + 0.5 * 0.4**2 / (0.8 * 2 / 3 + 0.2))
    assert actual["effective"] == pytest.approx(worth, abs=0.02)
    assert (actual["unique"] == 1) == (method == "regular")
    assert actual["candidates"] == 4000 * (1 if method == "regular" else 5 if two_stage else 20)
    assert actual["k_hat"] == "-inf"  # weights of two values have no tail
    again = targeted_generation._of_draw(draws[method]._replace(k_hat=0.3), classifier, (usual,))
    assert again["k_hat"] == 0.3
    assert again["strange"] == again["strange_target"] == 0


def test_strange_images_are_counted_apart(draws: Any) -> None:
    classifier: Any = _Sides()
    bright = np.full((9, 2), 0.5)  # as no draw is: all are strange
    actual = targeted_generation._of_draw(draws["z"], classifier, (bright,))
    assert actual["strange"] == 1
    assert actual["strange_target"] == actual["share"]


def test_loss_and_accuracy_of_a_ratio() -> None:
    ratio: Any = _Exact(1)
    of_p, of_q = np.array([[1.0], [-1.0], [-1.0], [-1.0]]), np.array([[1.0], [-1.0]])
    actual = targeted_generation._of_ratio(ratio, of_p, of_q)
    right_q, right_p = (-math.log(odds / (1 + odds)) for odds in (1.6 / 0.85, 1.15 / 0.4))
    wrong_p, wrong_q = (-math.log(1 / (1 + odds)) for odds in (1.6 / 0.85, 1.15 / 0.4))
    assert actual["loss"] == pytest.approx(((wrong_p + 3 * right_p) / 4 + (right_q + wrong_q) / 2) / 2)
    assert actual["accuracy"] == pytest.approx((3 / 4 + 1 / 2) / 2)


def test_a_flow_is_scored_on_the_mixture_that_it_learned() -> None:
    images = np.random.default_rng(0).integers(0, 256, (80, 784)).astype(np.float32)
    pair = [images[:40], np.maximum(images[40:], 100)]
    featurizer = FlowFeaturizer(_Mirror(784), scaling="image").fit(images)
    featurizer.history_ = History(epoch=[1, 2, 3], best_epoch=2, seconds=[0.5, 1.0, 1.5])
    actual = targeted_generation._of_flow(featurizer, pair, 0.25, np.random.default_rng(1))
    rng = np.random.default_rng(1)
    p, q = (log_densities(featurizer, X, rng) for X in pair)
    assert abs(p["logit"].mean() - q["logit"].mean()) > 10
    for name in ("logit", "bits"):
        assert actual[name] == pytest.approx(0.8 * p[name].mean() + 0.2 * q[name].mean())
    assert (actual["epochs"], actual["best_epoch"], actual["seconds"]) == (3, 2, 1.5)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put noise in place of MNIST."""
    images = np.random.default_rng(0).integers(0, 256, (2000, 784), dtype=np.uint8)
    monkeypatch.setattr(targeted_generation, "mnist", lambda part: (images, np.arange(2000) % 10))


@pytest.mark.usefixtures("few")
def test_a_flow_of_another_commit_is_not_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Begun(Exception):
        pass

    class Flows:
        def fit(self, X: np.ndarray) -> None:
            assert X.dtype == np.float32
            raise Begun

    task = {"task": DIGITS, "perc": 1.0, "seed": 0}
    monkeypatch.setattr(targeted_generation, "new_flow", lambda *_: Flows())
    for commit in ("old", "old"):
        monkeypatch.setattr(targeted_generation, "commit", lambda commit=commit: commit)
        with pytest.raises(Begun):
            run_cell(PRESETS["quick"], task, Workspace(tmp_path))
    monkeypatch.setattr(targeted_generation, "commit", lambda: "new")
    with pytest.raises(ValueError, match=r"diff-digits-1-0 belongs to another run\. It differs in commit\."):
        run_cell(PRESETS["quick"], task, Workspace(tmp_path))


@pytest.mark.filterwarnings("ignore")  # noise has no ratio, and next to no training, as in `running._run`
@pytest.mark.usefixtures("few")
def test_a_cell_that_was_killed_goes_on_with_its_flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task, settings = {"task": DIGITS, "perc": 1.0, "seed": 0}, replace(PRESETS["quick"], steps=40, hidden=(16,))
    classifier: Any = _Sides()
    monkeypatch.setattr(targeted_generation, "_of_attribute", lambda *_: (classifier, 0.9))
    monkeypatch.setattr(targeted_generation, "commit", lambda: "one")
    whole = run_cell(settings, task, Workspace(tmp_path / "whole"))
    assert run_cell(settings, task, Workspace(tmp_path / "whole")) == whole  # from the disk
    assert not list((tmp_path / "whole").glob("*/flow"))

    class Killed(Exception):
        pass

    def kill(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as until:
        until.setattr(targeted_generation, "new_ratio", kill)
        with pytest.raises(Killed):
            run_cell(settings, task, Workspace(tmp_path / "killed"))
    checkpoint = tmp_path / "killed" / f"{DIGITS}-1-0" / "flow"
    before = {path.name: path.read_bytes() for path in checkpoint.iterdir()}
    assert before
    with monkeypatch.context() as until:
        until.setattr(MAF, "log_prob", lambda flow, x: pytest.fail("the flow is not trained again"))
        until.setattr(targeted_generation, "new_ratio", kill)
        with pytest.raises(Killed):
            run_cell(settings, task, Workspace(tmp_path / "killed"))
    again = run_cell(settings, task, Workspace(tmp_path / "killed"))
    for result in (whole, again):
        result["flow"].pop("seconds")
        for method in result["methods"].values():
            method.pop("seconds")
    assert again == whole


@pytest.mark.usefixtures("few")
def test_the_classifier_of_the_attribute_is_trained_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(targeted_generation, "attribute_classifier", lambda *arguments: calls.append(arguments[2:]))
    targeted_generation._of_attribute.cache_clear()
    for rows in (100, 100, 200):
        targeted_generation._of_attribute(DIGITS, rows, 1)
    targeted_generation._of_attribute.cache_clear()  # it is no classifier
    assert calls == [(100, 1), (200, 1)]
