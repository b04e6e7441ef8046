from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from flowratio.flows.base import choose_device
from flowratio.ratios.neural.networks import (
    CNN,
    MLP,
    Network,
    PairedRows,
    choose_decay,
    choose_hidden,
    choose_recipe,
    evaluate,
    n_pairs,
    new_network,
    paired,
    recipe_settings,
    train_classifier,
)
from flowratio.samples.two_samples import TwoSamples
from flowratio.training.loop import _batches
from flowratio.training.run import Recipe

NETWORKS = [MLP(5, (7, 6), 2), CNN((2, 8, 8), (4, 4, 4, 4), 3), CNN((1, 28, 28), (4, 4, 4, 4))]


def _samples(n_p: int, n_q: int, d: int = 2, shift: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(shift, 1, (n_p, d)), rng.normal(0, 1, (n_q, d))])
    return X, np.repeat([1, 0], [n_p, n_q]), np.ones(n_p + n_q)


def _two_samples(n_p: int, n_q: int) -> TwoSamples:
    X, y, w = _samples(n_p, n_q)
    return TwoSamples.of(X, y == 1, w)


def _global_state() -> str:
    state: Any = np.random.get_state(legacy=False)  # noqa: NPY002
    return f"{state['state']['key'].tolist()} {state['state']['pos']}"


@pytest.mark.parametrize("network", NETWORKS)
def test_config_and_weights_rebuild_a_network(network: Network) -> None:
    again = type(network)(**network.config())
    again.load_state_dict(network.state_dict())
    x = torch.randn(3, network.n_features, generator=torch.Generator().manual_seed(1))
    out = network.eval()(x)
    assert out.shape == (3, network.n_outputs)
    assert torch.equal(out, again.eval()(x))


def test_weights_come_from_the_generator_and_not_from_the_global_one() -> None:
    before = torch.get_rng_state()
    for make in (lambda g: MLP(3, (4,), generator=g), lambda g: CNN((1, 6, 6), (2, 2), generator=g)):
        one, same, other = (make(torch.Generator().manual_seed(k)) for k in (1, 1, 2))
        assert all(torch.equal(a, b) for a, b in zip(one.parameters(), same.parameters(), strict=True))
        assert not torch.equal(next(one.parameters()), next(other.parameters()))
        fixed, default = make(torch.Generator().manual_seed(0)), make(None)
        assert all(torch.equal(a, b) for a, b in zip(fixed.parameters(), default.parameters(), strict=True))
    assert torch.equal(torch.get_rng_state(), before)


def test_the_cnn_of_the_paper_ends_with_64_values() -> None:
    network = CNN((1, 28, 28))
    kinds = [type(layer) for layer in network.blocks]
    assert kinds == 4 * [nn.Conv2d, nn.BatchNorm2d, nn.ReLU, nn.MaxPool2d]
    assert network.get_parameter("output.weight").shape == (1, 64)


def test_a_row_has_an_image_channel_by_channel() -> None:
    for shape in ((1, 6, 4), (3, 6, 4)):
        network, rows = CNN(shape, (5, 2), 3).eval(), torch.randn(7, 24 * shape[0], generator=torch.Generator())
        by_hand = network.output(network.blocks(rows.view(7, *shape).contiguous()).flatten(1))
        torch.testing.assert_close(network(rows), by_hand)


def test_small_images_do_not_vanish() -> None:
    assert evaluate(CNN((1, 3, 5), (2, 2, 2, 2)), np.ones((4, 15))).shape == (4, 1)


def test_the_mlp_of_the_paper_has_three_hidden_layers() -> None:
    network = new_network(2, None, choose_hidden(2_000, 2), 0)
    assert isinstance(network, MLP)
    assert [tuple(p.shape) for p in network.parameters() if p.ndim == 2] == [(100, 2), (100, 100), (100, 100), (1, 100)]


@pytest.mark.parametrize(("n", "d", "width"), [(300, 5, 32), (1_000, 5, 64), (5_000, 2, 100), (5_000, 20, 200)])
def test_width_grows_with_rows_and_columns(n: int, d: int, width: int) -> None:
    assert choose_hidden(n, d) == (width, width, width)
    assert choose_hidden(80_000, 40) == (200, 200, 200)  # as in the paper


def test_decay_falls_with_the_rows() -> None:
    assert [choose_decay(n) for n in (10, 300, 3_000, 10**6)] == [1.0, 1.0, 0.1, 0.03]


@pytest.mark.parametrize("make", [lambda: MLP(2, (4, 0)), lambda: CNN((8, 8)), lambda: CNN((1, 8, 8), ())])
def test_bad_shapes_are_refused(make: Callable[[], Network]) -> None:
    with pytest.raises(ValueError, match=r"must have 1 or more|Use channels, height and width"):
        make()


@pytest.mark.parametrize(("n_p", "n_q"), [(50, 50), (500, 30), (7, 400)])
def test_every_batch_is_half_p_and_half_q(n_p: int, n_q: int) -> None:
    X, y, w = _samples(n_p, n_q)
    X[:, 0] = y  # the label of a row
    rows = PairedRows(X[y == 1], w[y == 1], X[y == 0], w[y == 0])
    batches = list(_batches(rows, 32, torch.zeros(1), None, 0, 0))
    assert sum(map(len, batches)) == min(max(n_p, n_q), 4 * min(n_p, n_q))
    for batch in batches:
        assert batch.view(-1, 2)[:, 0].tolist() == [1.0, 0.0] * len(batch)


def test_rows_are_drawn_as_often_as_their_weights_say() -> None:
    w_p, w_q = np.array([1.0, 2.0, 5.0]), np.array([0.25, 0.75])
    rows = PairedRows(np.array([[0.0], [1.0], [2.0]]), w_p, np.array([[0.0], [1.0]]), w_q)
    rows.n_rows = 8  # whole counts: every shuffle has them
    pairs = np.concatenate(list(rows.shuffled(np.random.default_rng(0), 3)))
    assert np.bincount(pairs[:, 0].astype(int)).tolist() == [1, 2, 5]
    assert np.bincount(pairs[:, 1].astype(int)).tolist() == [2, 6]
    rows.n_rows = 2  # fractions: right on average; sd of a share below sqrt(.25 / 2000) = .011
    draws = [np.concatenate(list(rows.shuffled(np.random.default_rng(k), 9))) for k in range(1000)]
    share = np.bincount(np.concatenate(draws)[:, 0].astype(int)) / 2000
    assert np.abs(share - w_p / 8).max() < 0.05


def test_held_out_rows_are_apart_and_of_both_samples() -> None:
    X, y, w = _samples(40, 200)
    X[:, 0] = np.arange(len(X))
    rows = PairedRows(X[y == 1], w[y == 1], X[y == 0], w[y == 0])
    rest, held_out = rows.split(56, np.random.default_rng(0))  # of the 160 pairs in which each row of p is four times
    for column, (part, _), n in ((0, rest.samples[0], 40), (2, rest.samples[1], 200)):
        aside, fitted = set(held_out[:, column]), set(part[:, 0])
        assert (len(aside), len(fitted)) == (0.35 * n, 0.65 * n)
        assert not aside & fitted
    assert rows.sample(5, np.random.default_rng(0)).shape == (5, 4)


def test_groups_are_held_out_together() -> None:
    samples = _two_samples(40, 60).mapped(lambda X: X, lambda X: X + 0.1, lambda X: X + 0.2)
    assert samples.groups is not None
    ids = np.repeat(samples.groups[:, None], 2, axis=1).astype(float)
    rows = paired(TwoSamples(ids, samples.n_p, samples.w, samples.log_odds, samples.groups))
    rest, held_out = rows.split(30, np.random.default_rng(0))
    for column, (part, _) in ((0, rest.samples[0]), (2, rest.samples[1])):
        counts = np.unique(part[:, 0], return_counts=True)[1]
        assert (counts == 3).all()  # all versions of a row, or none of them
        assert not set(part[:, 0]) & set(held_out[:, column])
    assert samples.n_least == 40
    assert rows.n_rows == n_pairs(120, 180)


def test_callback_sees_every_evaluation() -> None:
    calls: list[tuple[Any, int]] = []
    network = MLP(2, (4,))
    recipe = choose_recipe(100, {"max_epochs": 60})
    history = train_classifier(network, _two_samples(100, 100), recipe, seed=0, callback=lambda *a: calls.append(a))
    assert [epoch for _, epoch in calls] == history.epoch
    assert all(model is network for model, _ in calls)


def test_the_only_row_of_a_sample_is_fitted_and_held_out() -> None:
    rows = PairedRows(np.ones((1, 1)), np.array([3.0]), np.zeros((4, 1)), np.ones(4))
    rest, held_out = rows.split(1, np.random.default_rng(0))
    assert held_out.tolist() == [[1.0, 0.0]]
    assert next(rest.blocks(9)).tolist() == 3 * [[1.0, 0.0]]


def test_the_output_is_log_r_whatever_the_odds() -> None:
    samples = _two_samples(3000, 300)
    network = MLP(2, (32, 32, 32))
    history = train_classifier(network, samples, choose_recipe(3000, {}), seed=0)
    log_r = evaluate(network, samples.X_q)[:, 0]
    truth = samples.X_q.sum(axis=1) - 1
    # odds of 10 left in would be an error of 2.3; 300 rows of q leave one of about sqrt(3 / 300) for a linear fit
    assert abs(np.mean(log_r - truth)) < 0.5
    assert np.corrcoef(log_r, truth)[0, 1] > 0.95
    assert min(history.held_out_loss) < 0.55  # log 2 is a coin, 0.48 the truth


def test_loss_is_the_balanced_logistic_loss() -> None:
    samples = _two_samples(64, 64)
    network = MLP(2, (4,))
    recipe = Recipe(max_epochs=1, batch_size=48, learning_rate=1e-12, average=False, warm_up=0, tolerance=math.inf)
    history = train_classifier(network, samples, recipe, seed=0, validation_fraction=0.25)
    f = evaluate(network, samples.X)[:, 0]
    rest = np.logaddexp(0, np.where(samples.y == 1, -f, f)).mean()
    # of all rows, 3/4 are fitted and 1/4 held out; weights that hardly move, and float32
    assert 0.75 * history.train_loss[0] + 0.25 * history.held_out_loss[0] == pytest.approx(rest, rel=1e-5)


def test_same_seed_same_bits_and_the_global_generators_rest() -> None:
    samples = _two_samples(100, 80)
    torch_state, numpy_state = torch.get_rng_state(), _global_state()
    recipe = replace(choose_recipe(100, {"max_epochs": 20}), tolerance=math.inf)
    outputs = []
    for seed in (3, 3, 4):
        network = new_network(2, None, (8, 8), seed)
        train_classifier(network, samples, recipe, seed=seed)
        outputs.append(evaluate(network, samples.X))
    assert np.array_equal(outputs[0], outputs[1])
    assert not np.array_equal(outputs[0], outputs[2])
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert _global_state() == numpy_state


@pytest.mark.parametrize("network", NETWORKS)
def test_outputs_do_not_depend_on_how_rows_are_batched(network: Network) -> None:
    network = type(network)(**network.config()).double().eval()
    X = np.random.default_rng(0).normal(size=(50, network.n_features))
    alone = np.concatenate([evaluate(network, X[i : i + 1]) for i in range(len(X))])
    # float64 rounding of sums of a few hundred products
    np.testing.assert_allclose(evaluate(network, X), alone, rtol=0, atol=1e-12)


def test_settings_reach_the_recipe() -> None:
    settings = {"max_epochs": 7, "batch_size": 100, "learning_rate": 0.5, "weight_decay": 0.0, "patience": 3}
    assert recipe_settings(SimpleNamespace(**settings)) == settings
    assert recipe_settings(SimpleNamespace(**{**settings, "patience": None})).keys() == settings.keys() - {"patience"}
    recipe = choose_recipe(1000, settings)
    assert (recipe.max_epochs, recipe.batch_size, recipe.learning_rate) == (7, 50, 0.5)  # pairs: two rows each
    assert (recipe.weight_decay, recipe.patience) == (0.0, 3)


@pytest.mark.parametrize("n", [2, 100, 5_000, 1_000_000])
def test_chosen_runs_are_of_moderate_length(n: int) -> None:
    recipe = choose_recipe(n, {})
    n_steps = recipe.max_epochs * max(1, round(n / recipe.batch_size))
    assert 1_000 <= n_steps <= 10_000
    images = choose_recipe(n, {}, images=True)
    assert images.batch_size == 32
    assert images.max_epochs * max(1, round(n / 32)) >= 300


def test_unknown_devices_are_refused() -> None:
    assert choose_device("cpu") == torch.device("cpu")
    with pytest.raises(ValueError, match="`device` is 'toaster'"):
        choose_device("toaster")
