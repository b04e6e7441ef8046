from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from flowratio.ratios.neural.network_ratio import NetworkRatio
from flowratio.ratios.neural.networks import CNN, PairedRows
from flowratio.samples.stacking import stack
from flowratio.samples.two_samples import two_samples
from flowratio.storage.saving import load, save

# small samples a standard deviation or more apart: the warning is right, and tested elsewhere
pytestmark = pytest.mark.filterwarnings("ignore::flowratio.ratios.base.OverlapWarning")
SHORT: dict[str, Any] = {"hidden": (16, 16), "max_epochs": 30}


def _shifted(n_p: int, n_q: int, d: int = 2, shift: float = 1.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(shift, 1, (n_p, d)), rng.normal(0, 1, (n_q, d))


def _truth(X: np.ndarray, shift: float = 1.0) -> np.ndarray:
    return shift * X.sum(axis=1) - X.shape[1] * shift**2 / 2


def _global_state() -> str:
    state: Any = np.random.get_state(legacy=False)  # noqa: NPY002
    return f"{state['state']['key'].tolist()} {state['state']['pos']} {torch.get_rng_state().sum()}"


def _error(ratio: NetworkRatio, X: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean((ratio.log_ratio(X) - truth) ** 2))


def test_log_r_of_a_mean_shift() -> None:
    _, held_out = _shifted(2, 2000, seed=1)
    ratio = NetworkRatio("mlp", random_state=0).fit_samples(*_shifted(2000, 2000))
    assert _error(ratio, held_out, _truth(held_out)) < 0.15  # 1 is the error of log r = 0 within a factor of two


def test_log_r_of_a_change_of_scale() -> None:
    rng = np.random.default_rng(0)
    X_p, X_q, held_out = 0.6 * rng.normal(size=(2000, 2)), rng.normal(size=(2000, 2)), rng.normal(size=(2000, 2))
    truth = -2 * np.log(0.6) + 0.5 * (1 - 1 / 0.36) * (held_out**2).sum(axis=1)  # of variance 3.2
    assert _error(NetworkRatio("mlp", random_state=0).fit_samples(X_p, X_q), held_out, truth) < 0.4


def test_the_odds_of_the_samples_are_taken_out() -> None:
    X_p, X_q = _shifted(5000, 500)
    ratio = NetworkRatio("mlp", random_state=0).fit_samples(X_p, X_q)
    # odds left in would be an error of log 10 = 2.3 in log r
    assert abs(np.mean(ratio.log_ratio(X_q) - _truth(X_q))) < 0.5
    assert np.log(np.mean(ratio.ratio(X_q))) == pytest.approx(0, abs=0.5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_weights_are_repetitions() -> None:
    X, y = stack(*_shifted(60, 50))
    w = np.random.default_rng(0).integers(1, 4, size=len(X))
    ratio = NetworkRatio("mlp", random_state=0, **SHORT)
    weighted = ratio.fit(X, y, w).log_ratio(X)
    repeated = ratio.fit(np.repeat(X, w, axis=0), np.repeat(y, w)).log_ratio(X)
    np.testing.assert_allclose(weighted, repeated, rtol=0, atol=1e-9)
    assert np.abs(weighted - ratio.fit(X, y).log_ratio(X)).max() > 1e-3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_same_seed_same_bits_in_any_order() -> None:
    X, y = stack(*_shifted(150, 120))
    order = np.random.default_rng(0).permutation(len(X))
    state = _global_state()
    fits = [
        NetworkRatio("mlp", random_state=seed, **SHORT).fit(X[rows], y[rows]).log_ratio(X)
        for seed, rows in ((0, slice(None)), (0, slice(None)), (0, order), (1, slice(None)))
    ]
    assert np.array_equal(fits[0], fits[1])
    np.testing.assert_allclose(fits[0], fits[2], rtol=0, atol=1e-6)  # float32 rounding of means may grow in training
    assert not np.array_equal(fits[0], fits[3])
    assert _global_state() == state


def test_a_penalty_is_part_of_the_loss_and_a_decay_is_not() -> None:
    X_p, X_q = _shifted(400, 400)
    free, penalized, none, decayed = (
        NetworkRatio("relu", hidden=(16, 16), random_state=0).set_params(**{name: value}).fit_samples(X_p, X_q)
        for name in ("l2_penalty", "weight_decay")
        for value in (0.0, 1.0)
    )
    # log r = 0 has the loss log 2; the truth gains less than 0.25, and weights that do so cost more than that
    assert np.abs(penalized.log_ratio(X_q)).max() < 0.01
    assert np.abs(decayed.log_ratio(X_q)).max() > 1
    np.testing.assert_allclose(free.log_ratio(X_q), none.log_ratio(X_q), rtol=0, atol=1e-4)  # float32, two kernels


def test_the_penalty_of_an_ensemble_counts_for_each_network() -> None:
    # with one column and a penalty that only a linear term can pay, each slope a has the closed form of ridge logistic
    X_p, X_q = _shifted(400, 400, d=1)
    ratio = NetworkRatio("mlp", hidden=(4, 4), l2_penalty=1.0, random_state=0).fit_samples(X_p, X_q)
    u_p, u_q = ((X - ratio.mean_) / ratio.scale_ for X in (X_p, X_q))

    def slope_of_ridge(a: float) -> float:
        return 0.5 * np.mean(u_p / (1 + np.exp(a * u_p))) - 0.5 * np.mean(u_q / (1 + np.exp(-a * u_q))) - a

    root = brentq(slope_of_ridge, 0.0, 1.0)
    values = ratio.log_ratio(ratio.mean_ + ratio.scale_ * np.array([[-1.0], [1.0]]))
    assert (values[1] - values[0]) / 2 == pytest.approx(root, rel=0.3)  # each network leaves out 15 % of the rows


def test_log_r_is_linear_far_outside_the_samples() -> None:
    ratio = NetworkRatio("mlp", random_state=0).fit_samples(*_shifted(300, 300))
    direction = np.array([[0.6, -0.8]])
    far = ratio.log_ratio(np.array([[100.0], [200.0], [300.0]]) * direction)
    assert far[2] - far[1] == pytest.approx(far[1] - far[0], rel=1e-6, abs=1e-9)


def test_equal_samples_have_a_ratio_of_1() -> None:
    X, _ = _shifted(300, 2)
    assert np.abs(NetworkRatio("mlp", random_state=0).fit_samples(X, X).log_ratio(X)).max() < 0.2


def test_one_network_of_another_kind() -> None:
    with pytest.raises(ValueError, match="`n_networks` is 3"):
        NetworkRatio("relu", n_networks=3).fit_samples(*_shifted(20, 20))
    one = NetworkRatio("mlp", n_networks=1, hidden=(4,), random_state=0).fit_samples(*_shifted(60, 60))
    assert one.network_.config()["n_members"] == 1


def test_a_penalty_is_saved(tmp_path: Path) -> None:
    X_p, X_q = _shifted(60, 60)
    ratio = NetworkRatio("mlp", hidden=(8,), l2_penalty=1e-3, random_state=0).fit_samples(X_p, X_q)
    save(ratio, tmp_path)
    loaded = load(tmp_path)
    assert loaded.get_params()["l2_penalty"] == 1e-3
    assert np.array_equal(loaded.log_ratio(X_q), ratio.log_ratio(X_q))


def _images(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Noise with a bright square, upright in p and lying in q, at any place; a frame stays dark."""
    images = []
    for height, width in ((8, 3), (3, 8)):
        X = np.zeros((n, 28, 28))
        X[:, 1:-1, 1:-1] = rng.uniform(0, 0.3, size=(n, 26, 26))
        for image in X:
            i, j = rng.integers(2, 18, size=2)
            image[i : i + height, j : j + width] += 0.6
        images.append(255 * X.reshape(n, -1))
    return images[0], images[1]


def test_cnn_learns_from_few_images() -> None:
    rng = np.random.default_rng(0)
    ratio = NetworkRatio("cnn", hidden=(8, 8, 8, 8), max_epochs=40, batch_size=40, learning_rate=0.01)
    ratio.set_params(random_state=0).fit_samples(*_images(80, rng))
    assert isinstance(ratio.network_, CNN)
    assert ratio.score(*stack(*_images(100, rng))) > 0.4  # the maximum is log 2 = 0.69, and r = 1 scores 0
    frame = np.zeros((28, 28), dtype=bool)
    frame[[0, -1]] = frame[:, [0, -1]] = True
    assert np.isinf(ratio.scale_[frame.ravel()]).all()
    X = _images(3, rng)[0]
    noisy = X + 100 * frame.ravel()
    assert np.array_equal(ratio.log_ratio(X), ratio.log_ratio(noisy))  # constant pixels are ignored


@pytest.mark.filterwarnings("ignore")  # one epoch
def test_a_network_of_images_has_one_mean_and_one_scale() -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = (rng.normal([0.0, 5.0, 9.0, 0.0], [1.0, 4.0, 0.1, 1.0], (200, 4)) for _ in range(2))
    ratio = NetworkRatio("mlp", hidden=(4,), max_epochs=1, random_state=0).fit_samples(X_p, X_q)
    assert ratio.pixel_scale_ is None
    ratio.set_params(image_shape=(1, 2, 2)).fit_samples(X_p, X_q)
    pooled = np.concatenate([X_p, X_q])
    standardized = (pooled - ratio.mean_) / ratio.scale_
    # one mean and one scale for all pixels, also after the standardization of each column
    expected = (pooled - pooled.mean()) / pooled.std()
    assert ratio.pixel_scale_ is not None
    np.testing.assert_allclose(standardized * ratio.pixel_scale_ + ratio.pixel_shift_, expected, rtol=0, atol=1e-9)


def test_images_of_other_shapes() -> None:
    X_p, X_q = _shifted(20, 20, d=24)
    ratio = NetworkRatio("cnn", hidden=(2, 2), max_epochs=2, random_state=0)
    with pytest.raises(ValueError, match=r"`X` has 24 columns, which is not a square image. Set `image_shape`"):
        ratio.fit_samples(X_p, X_q)
    with pytest.raises(ValueError, match=r"`image_shape` is \(3, 3, 3\) but `X` has 24 columns"):
        ratio.set_params(image_shape=(3, 3, 3)).fit_samples(X_p, X_q)
    with pytest.warns(UserWarning, match="max_epochs|overlap"):
        ratio.set_params(image_shape=(2, 3, 4)).fit_samples(X_p, X_q)
    assert isinstance(ratio.network_, CNN)
    assert ratio.network_.shape == (2, 3, 4)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_groups_are_held_out_together(monkeypatch: pytest.MonkeyPatch) -> None:
    splits: list[tuple[np.ndarray, np.ndarray]] = []

    def split(rows: PairedRows, n: int, rng: np.random.Generator) -> tuple[PairedRows, np.ndarray]:
        rest, held_out = original(rows, n, rng)
        splits.append((np.concatenate([X for X, _ in rest.samples]), held_out.reshape(-1, 2)))
        return rest, held_out

    original = PairedRows.split
    monkeypatch.setattr(PairedRows, "split", split)
    rng = np.random.default_rng(0)
    noise = [lambda X: X + 1e-6 * rng.normal(size=X.shape)] * 4
    samples = two_samples(*_shifted(80, 90)).mapped(*noise)
    ratio = NetworkRatio("mlp", random_state=0, **SHORT).fit_prepared(samples)
    assert len(splits) == 3
    for parts in splits:
        rows, copies = (set(map(tuple, (X * ratio.scale_ + ratio.mean_).round(3).tolist())) for X in parts)
        assert not rows & copies
        assert len(parts[0]) == 4 * len(rows)
    assert len({tuple(np.sort(held_out[:, 0])) for _, held_out in splits}) == 3  # each network has rows of its own


def test_callback_sees_every_evaluation() -> None:
    X_p, X_q = _shifted(200, 200)
    calls: list[tuple[Any, int]] = []
    ratio = NetworkRatio("mlp", hidden=(8,), random_state=0, callback=lambda *a: calls.append(a))
    ratio.fit_samples(X_p, X_q)
    assert len(calls) > 1
    assert [epoch for _, epoch in calls] == ratio.history_.epoch
    assert all(module is ratio.network_ for module, _ in calls)
    plain = NetworkRatio("mlp", hidden=(8,), random_state=0).fit_samples(X_p, X_q)
    np.testing.assert_array_equal(plain.log_ratio(X_q), ratio.log_ratio(X_q))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"network": "rnn"}, "`network` is 'rnn'. Use one of mlp, cnn"),
        ({"network": None}, "`network` is None. Use one of mlp, cnn"),
        ({"image_shape": (1, 1, 3)}, r"`image_shape` is \(1, 1, 3\) but `X` has 2 columns"),
        ({"image_shape": 2}, r"`image_shape` is \(2,\) but `X` has 2 columns"),
        ({"hidden": ()}, "`hidden` is"),
        ({"max_epochs": 0}, "`max_epochs` is 0"),
        ({"weight_decay": -1.0}, "`weight_decay` is -1.0"),
        ({"l2_penalty": -1.0}, "`l2_penalty` is -1.0. Use a finite number of 0 or more, or None"),
        ({"l2_penalty": True}, "`l2_penalty` is True. Use a finite number of 0 or more"),
        ({"l2_penalty": math.inf}, "`l2_penalty` is inf. Use a finite number of 0 or more"),
        (
            {"l2_penalty": 0.0, "weight_decay": 0.0},
            "`l2_penalty` is 0.0 and `weight_decay` is 0.0. Only one of them can be set",
        ),
        ({"validation_fraction": 1.0}, "`validation_fraction` is 1.0"),
        ({"device": "toaster"}, "`device` is 'toaster'"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NetworkRatio(**settings).fit_samples(*_shifted(10, 10))


def test_a_refit_has_a_new_network_and_history() -> None:
    X_p, X_q = _shifted(60, 60)
    ratio = NetworkRatio("mlp", random_state=0).fit_samples(X_p, X_q)
    network, history = ratio.network_, ratio.history_
    assert len(history.held_out_loss) > 1
    ratio.fit_samples(X_p, X_q)
    assert ratio.network_ is not network
    assert ratio.history_ is not history


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_clone_and_search() -> None:
    X, y = stack(*_shifted(60, 60))
    ratio = NetworkRatio("mlp", random_state=0, **SHORT)
    twin: Any = clone(ratio)
    assert twin.get_params() == ratio.get_params()
    settings: Any = {"cv": 2, "error_score": "raise"}
    search = GridSearchCV(ratio, {"hidden": [(4,), (8, 8)]}, **settings).fit(X, y)
    assert search.best_estimator_.network_.hidden == search.best_params_["hidden"]
