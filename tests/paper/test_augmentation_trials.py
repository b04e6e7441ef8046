from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flowratio_paper import augmentation_trials
from flowratio_paper.augmentation_trials import (
    DATA,
    MIXTURE,
    SYNTHETIC,
    Settings,
    generate,
    log_ratios,
    of_ratio,
    train_one,
    weighted,
    weights_by_setting,
)
from flowratio_paper.characters import split
from flowratio_paper.dagan import DaganSettings

TINY = Settings(
    1,
    classes=3,
    per_class=20,
    dagan=DaganSettings(
        channels=8,
        noise=4,
        steps=1,
        critic_steps=1,
        batch_size=100,
        learning_rate=1e-4,
        critic_rate=1e-4,
    ),
    plain=False,
)
SOURCE = np.repeat(np.arange(30), 2)


def _drawings() -> np.ndarray:
    """Three characters of 20 drawings, each a noise of its own."""
    return np.random.default_rng(0).integers(0, 256, (3, 20, 784)).astype(np.uint8)


def test_each_real_drawing_is_the_source_of_as_many(tmp_path: Path) -> None:
    generated = generate(TINY, split(_drawings())["training"], 0, tmp_path)
    assert generated["images"].shape == (60, 784)
    assert generated["images"].dtype == np.uint8
    assert np.array_equal(generated["source"], SOURCE)
    assert generated["gaps"].shape == (1,)
    again = generate(TINY, split(_drawings())["training"], 0, tmp_path)
    assert np.array_equal(again["images"], generated["images"])


def test_a_drawing_and_all_that_came_of_it_are_left_out_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Folds:
        """A ratio whose log-ratio of a row is whether it was fitted to the source of the row."""

        def fit_samples(self, real: np.ndarray, generated: np.ndarray) -> Folds:
            self.sources = set(real[:, 0])
            assert self.sources == set(generated[:, 0])
            # half of the drawings of each character
            assert np.bincount(real[:, 0].astype(int) // 10).tolist() == [5, 5, 5]
            return self

        def log_ratio(self, rows: np.ndarray) -> np.ndarray:
            return np.isin(rows[:, 0], list(self.sources)).astype(float)

    monkeypatch.setattr(augmentation_trials, "new_ratio", lambda settings, seed: Folds())
    real = np.arange(30.0)[:, None]
    log_r = log_ratios(replace(TINY, folds=2), real, real[SOURCE], SOURCE, 0)
    assert {name: values.tolist() for name, values in log_r.items()} == {"real": [0.0] * 30, "made": [0.0] * 60}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::flowratio.ratios.base.OverlapWarning")  # pixels separate the samples
def test_the_ratio_is_real_over_made() -> None:
    rng = np.random.default_rng(0)
    real, generated = (rng.normal(0, 0.3, (n, 784)).astype(np.float32) for n in (30, 60))
    real[:, 300:500] += 1
    settings = replace(TINY, filters=8, rate=5e-3, ratio_epochs=30)
    for folds in (1, 2):
        actual = log_ratios(replace(settings, folds=folds), real, generated, SOURCE, 0)
        assert actual["real"].mean() > actual["made"].mean() + 0.5
        assert of_ratio(actual["real"], actual["made"], [0, 1] * 15)["auc"] > 0.95


def test_what_a_ratio_is_worth() -> None:
    actual = of_ratio(np.array([0.0, 2.0]), np.log([1.0, 4.0, 1.0]), [1, 1, 0])
    # r of made rows is 1, 4, 1: (1 + 4 + 1)² / (1 + 16 + 1) = 2 of 3; with roots 1, 2, 1: 16 / 6
    assert actual["effective"]["1"] == pytest.approx(2 / 3)
    assert actual["effective"]["0.5"] == pytest.approx(16 / 18)
    assert actual["auc"] == pytest.approx((3 + 2 * 0.5) / 6)  # of six pairs three are right, and two are even
    assert actual["auc_recognized"] == (1 + 0.5) / 2  # 4 over 1, and 1 beside 1
    assert of_ratio(np.zeros(2), np.zeros(4), [1, 1])["auc_recognized"] is None  # all are
    assert of_ratio(np.zeros(2), np.array([1.0, 9, 0, 9]), [1, 0])["auc_recognized"] == 1  # the first of two each
    assert (actual["mean_real"], actual["mean_made"]) == pytest.approx((1.0, np.log(4) / 3))


def test_weights_have_the_mean_1_and_the_power() -> None:
    log_r = {"x": np.log([1.0, 2.0, 3.0]), "z": np.log([1.0, 1.0, 32.0])}
    weights = weights_by_setting(log_r)
    assert [name for name, w in weights.items() if w is None] == [DATA, SYNTHETIC, MIXTURE]
    assert weights[weighted("x", 1)] == pytest.approx([0.5, 1.0, 1.5])
    assert weights[weighted("z", 0.2)] == pytest.approx([0.75, 0.75, 1.5])  # 32^.2 = 2
    assert list(weights)[3:] == [weighted("x", g) for g in (1, 0.2)] + [weighted("z", g) for g in (0.1, 0.2, 0.5, 1)]


@pytest.mark.parametrize(("name", "n_real", "n_made"), [(DATA, 30, 0), (SYNTHETIC, 0, 60), (MIXTURE, 30, 60)])
def test_who_learns_from_what(name: str, n_real: int, n_made: int, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = _arguments(name, None, monkeypatch)
    assert len(arguments["images"]) == n_real + n_made
    assert np.array_equal(arguments["images"][:n_real].reshape(-1, 784), split(_drawings())["training"][0][:n_real])
    assert (arguments["images"][n_real:] == 7).all()
    assert np.array_equal(arguments["labels"][n_real:], (SOURCE // 10)[:n_made])
    assert arguments["weights"] is None
    assert (
        arguments["epochs"] * len(arguments["images"])
        >= 100 * 64
        > (arguments["epochs"] - 1) * len(arguments["images"])
    )


def test_only_generated_rows_are_weighted(monkeypatch: pytest.MonkeyPatch) -> None:
    w = np.linspace(0, 2, 60)
    arguments = _arguments(weighted("z", 0.2), w, monkeypatch)
    assert np.array_equal(arguments["weights"], np.concatenate([np.ones(30), w]))


def _arguments(name: str, weights: np.ndarray | None, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return what a classifier is given in a setting."""
    arguments: dict[str, Any] = {}

    class Fitted:
        history = type("History", (), {"held_out_loss": [2.0, 1.0], "best_epoch": 2})

        def predict(self, images: np.ndarray) -> np.ndarray:
            return np.zeros(len(images), int)

    def fit(network: Any, images: Any, labels: Any, *, held_out: Any, recipe: Any, seed: int, weights: Any) -> Fitted:
        arguments.update(images=images, labels=labels, weights=weights, epochs=recipe.max_epochs)
        assert np.array_equal(held_out[0], split(_drawings())["validation"][0])
        return Fitted()

    monkeypatch.setattr(augmentation_trials, "fit_classifier", fit)
    generated = {"images": np.full((60, 784), 7, np.uint8), "source": SOURCE}
    settings = replace(TINY, classifier_steps=100)
    result = train_one(settings, name, split(_drawings()), generated, weights, 0)
    # all are taken for the first of three characters, also what was first made of each of 30 real drawings
    of_made = {"recognized": [1] * 10 + [0] * 20} if name == DATA else {}
    right = {"validation": 5 / 15, "test": 5 / 15, "by_character": [5, 0, 0]}
    assert result == {**right, **of_made, "loss": 1.0, "best_epoch": 2}
    return arguments
