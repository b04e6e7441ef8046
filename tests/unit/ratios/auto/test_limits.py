from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from flowratio import (
    ClassifierRatio,
    FeaturizedRatio,
    FlowDifferenceRatio,
    FlowFeaturizer,
    Gaussianizer,
    NetworkRatio,
    TelescopingRatio,
)
from flowratio.ratios.auto.limits import _limits, can_be_limited, fit_limited, was_cut
from flowratio.samples.two_samples import TwoSamples, two_samples

FOREVER: dict[str, Any] = {"max_epochs": 10**6, "patience": 10**6}


def samples() -> TwoSamples:
    rng = np.random.default_rng(0)
    return two_samples(rng.normal(1, 1, (60, 2)), rng.normal(size=(60, 2)))


def endless_flow() -> FlowFeaturizer:
    return FlowFeaturizer(n_blocks=1, hidden=(8,), **FOREVER)


def test_training_can_be_limited_and_other_fits_cannot() -> None:
    for ratio in ("mlp", "telescoping", "difference", "mlp in z", "kliep in z", FeaturizedRatio("lda")):
        assert can_be_limited(ratio)
    for ratio in ("lda", "boosting", "kliep", "additive after gaussianizing", "magic", ClassifierRatio, object()):
        assert not can_be_limited(ratio)
    assert not can_be_limited(FeaturizedRatio("lda", featurizer=Gaussianizer()))
    assert can_be_limited(FeaturizedRatio("mlp", featurizer=Gaussianizer()))


@pytest.mark.parametrize(
    ("settings", "share"),
    [
        ({}, 0.3 / 3),  # after the flow: with a base, without it, and the final fit
        ({"base": None}, 0.3),
        ({"base": "lda"}, 0.3),
        ({"estimator": NetworkRatio("relu")}, 0.3),
        ({"featurizer": FlowFeaturizer().initialize(np.eye(4))}, 1 / 3),  # a fitted flow takes no time
        ({"featurizer": Gaussianizer()}, 1.0),
    ],
    ids=str,
)
def test_time_is_shared_among_the_fits_that_take_place(settings: dict[str, Any], share: float) -> None:
    limits = _limits(FeaturizedRatio("mlp").set_params(**settings), 10.0)
    assert limits["estimator"].callback.seconds == pytest.approx(10 * share)


@pytest.mark.parametrize(
    "ratio",
    [
        NetworkRatio("mlp", **FOREVER),
        TelescopingRatio(**FOREVER),
        FlowDifferenceRatio(endless_flow()),
        FeaturizedRatio("logistic", featurizer=endless_flow()),
        FeaturizedRatio(NetworkRatio("mlp", **FOREVER), featurizer=Gaussianizer()),
    ],
    ids=["mlp", "telescoping", "difference", "logistic in z", "mlp of Gaussian columns"],
)
def test_training_ends_and_settings_stay(ratio: Any) -> None:
    before = repr(ratio)
    model = fit_limited(ratio, samples(), 0.2)
    assert model is ratio
    assert was_cut(model)
    assert np.isfinite(model.log_ratio(np.zeros((3, 2)))).all()
    assert repr(model) == before
    for part in (model, getattr(model, "ratio_", None), getattr(model, "featurizer_", None)):
        assert getattr(part, "callback", None) is None


def test_the_callback_of_the_user_is_called_and_stays() -> None:
    epochs: list[int] = []

    def follow(_: Any, epoch: int) -> None:
        epochs.append(epoch)

    model = fit_limited(NetworkRatio("mlp", callback=follow, **FOREVER), samples(), 0.2)
    assert epochs
    assert model.callback is follow


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_enough_time_changes_nothing() -> None:
    limits = (60.0, math.inf)
    models = [fit_limited(NetworkRatio("mlp", max_epochs=3, random_state=0), samples(), limit) for limit in limits]
    X = np.random.default_rng(1).normal(size=(20, 2))
    np.testing.assert_array_equal(models[0].log_ratio(X), models[1].log_ratio(X))
    assert not was_cut(models[0])
