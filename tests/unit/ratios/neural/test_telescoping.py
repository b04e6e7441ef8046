from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from flowratio.ratios.neural.gaussian_path import GaussianPath
from flowratio.ratios.neural.networks import Network, evaluate
from flowratio.ratios.neural.telescoping import StepNetwork, TelescopingRatio, step_losses, waymarks

# p and q are far apart on purpose, and 20 epochs are few
pytestmark = [
    pytest.mark.filterwarnings("ignore::flowratio.ratios.base.OverlapWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def two_samples(n: int = 500, d: int = 2, shift: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(n, d)) + shift, rng.normal(size=(n, d))


def quick(n_bridges: int | None = None, random_state: int = 0) -> TelescopingRatio:
    return TelescopingRatio(n_bridges, hidden=(32, 32), max_epochs=20, random_state=random_state)


def one_column(mean_p: float, variance_p: float, mean_q: float, variance_q: float) -> GaussianPath:
    moments = (np.array([value]) for value in (mean_p, mean_q, variance_p, variance_q))
    return GaussianPath(np.eye(1), *moments, normal=np.array([True]))


@pytest.mark.parametrize("mixing", ["even", "linear", "angular"])
def test_waymarks_begin_at_p_and_end_at_q_exactly(mixing):
    alpha = one_column(1.0, 0.1, -1.0, 1.9).coefficients(5, mixing)
    pairs = torch.tensor(np.random.default_rng(0).normal(size=(50, 6)))
    x = waymarks(pairs, torch.tensor(alpha))
    assert x.shape == (6, 50, 3)
    assert torch.equal(x[0], pairs[:, :3])
    assert torch.equal(x[-1], pairs[:, 3:])
    assert (np.diff(alpha) > 0).all()


def test_waymarks_have_the_moments_of_their_path():
    rng = np.random.default_rng(2)
    pairs = np.hstack([rng.normal(1, 0.5, size=(100_000, 1)), rng.normal(-1, 2.0, size=(100_000, 1))])
    alpha = np.array([0.0, 0.3, 0.8, 1.0])
    x = waymarks(torch.tensor(pairs), torch.tensor(alpha))[:, :, 0].numpy()
    mean, variance = one_column(1.0, 0.25, -1.0, 4.0).moments(alpha)
    # five standard errors: of a mean 2/sqrt(1e5) = 0.006, of a variance sqrt(2/1e5) of it
    np.testing.assert_allclose(x.mean(axis=1), mean[:, 0], atol=0.032)
    np.testing.assert_allclose(x.var(axis=1), variance[:, 0], rtol=0.023)


def test_gaussian_part_is_the_log_ratio_of_two_gaussians():
    path = one_column(0.5, 0.2, -0.5, 1.5)
    network = StepNetwork(1, (8,), 3)
    network.begin_at(path, path.coefficients(3, "even"))
    x = np.linspace(-3, 3, 25)[:, None]
    truth = (x[:, 0] + 0.5) ** 2 / 3.0 - (x[:, 0] - 0.5) ** 2 / 0.4 + 0.5 * np.log(1.5 / 0.2)
    np.testing.assert_allclose(evaluate(network, x).sum(axis=1), truth, rtol=1e-5, atol=1e-5)  # stored in float32
    bound = network.bound.item()
    assert bound == pytest.approx(0.5 + 4 * np.sqrt(1.5))
    far = evaluate(network, np.array([[bound], [1e6]]))
    np.testing.assert_allclose(far[0], far[1], rtol=1e-6)


def test_losses_are_those_of_a_classifier_for_each_pair_of_neighbours():
    class Linear(Network):
        n_features, n_outputs, width = 2, 3, 3

        def forward(self, x: Tensor) -> Tensor:
            return x @ torch.tensor([[1.0, -2.0, 0.5], [0.3, 1.0, 2.0]], dtype=x.dtype)

    x = torch.tensor(np.random.default_rng(5).normal(size=(4, 7, 2)))
    for k, loss in enumerate(step_losses(Linear(), x)):
        above, below = Linear()(x[k])[:, k].numpy(), Linear()(x[k + 1])[:, k].numpy()
        expected = 0.5 * np.mean(np.log1p(np.exp(-above))) + 0.5 * np.mean(np.log1p(np.exp(below)))
        assert loss.item() == pytest.approx(expected, rel=1e-12)


def test_callback_sees_every_evaluation():
    calls = []
    X_p, X_q = two_samples(80)
    settings = {"hidden": (8,), "max_epochs": 60, "random_state": 0}
    ratio = TelescopingRatio(2, callback=lambda *a: calls.append(a), **settings).fit_samples(X_p, X_q)
    assert [epoch for _, epoch in calls] == ratio.history_.epoch
    assert all(module is ratio.network_ for module, _ in calls)
    plain = TelescopingRatio(2, **settings).fit_samples(X_p, X_q)
    np.testing.assert_array_equal(plain.log_ratio(X_q), ratio.log_ratio(X_q))


def test_near_samples_need_one_step_and_far_ones_more():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(400, 3))
    assert quick().fit_samples(X[:200], X[200:]).n_bridges_ == 1
    assert quick().fit_samples(X, X).n_bridges_ == 1
    ratio = quick().fit_samples(*two_samples(300, d=2, shift=6 / np.sqrt(2)))
    assert ratio.path_length_ == pytest.approx(6, rel=0.1)
    assert ratio.n_bridges_ in (4, 5)
    assert ratio.mixing_.shape == (ratio.n_bridges_ + 1,)
    assert quick().fit_samples(*two_samples(60, d=1, shift=100.0)).n_bridges_ == 20


def test_far_shift_has_its_closed_form():
    shift = 6 / np.sqrt(2)  # KL = 18
    X_p, X_q = two_samples(1000, shift=shift)
    ratio = quick().fit_samples(X_p, X_q)
    rng = np.random.default_rng(7)
    X = np.concatenate([rng.normal(size=(500, 2)) + shift, rng.normal(size=(500, 2))])
    truth = shift * X.sum(axis=1) - shift**2
    # log r = δ x - δ²/2 with δ = 6: estimated variances, off by sqrt(2/1000), alone move the 18 nats by 0.8
    assert np.mean((ratio.log_ratio(X) - truth) ** 2) < 1.5


def test_narrow_in_wide_has_its_closed_form_on_p():
    rng = np.random.default_rng(8)
    ratio = quick().fit_samples(rng.normal(0, 0.01, size=(1000, 1)), rng.normal(size=(1000, 1)))
    x = rng.normal(0, 0.01, size=(500, 1))
    truth = np.log(100) - 0.5 * (x[:, 0] / 0.01) ** 2 + 0.5 * x[:, 0] ** 2
    # a log-variance off by sqrt(2/1000) would make it 0.001; a plain network of 20 epochs is off by whole nats
    assert np.mean((ratio.log_ratio(x) - truth) ** 2) < 0.2


def test_network_learns_what_gaussians_miss():
    rng = np.random.default_rng(9)
    X_p = np.where(rng.random((2000, 1)) < 0.5, 1.0, -1.0) + 0.4 * rng.normal(size=(2000, 1))
    X_q = np.sqrt(1.16) * rng.normal(size=(2000, 1))  # the same mean and variance: Gaussians see no difference
    x = np.linspace(-2, 2, 81)[:, None]
    log_p = np.logaddexp(-0.5 * ((x - 1) / 0.4) ** 2, -0.5 * ((x + 1) / 0.4) ** 2) - np.log(2 * 0.4)
    truth = (log_p + 0.5 * x**2 / 1.16 + 0.5 * np.log(1.16))[:, 0]
    ratio = TelescopingRatio(random_state=0).fit_samples(X_p, X_q)
    assert ratio.n_bridges_ == 1
    # truth has a variance of about 0.6 on this grid
    assert np.mean((ratio.log_ratio(x) - truth) ** 2) < 0.15


def test_weights_carry_the_moments_of_q_to_those_of_p():
    X_p, X_q = two_samples(2000, d=1, shift=0.7)
    w = quick().fit_samples(X_p, X_q).weights(X_q)
    # the weighted mean has a standard error of sqrt(var_p(x) e^0.49 / 2000) = 0.03
    assert np.average(X_q[:, 0], weights=w) == pytest.approx(X_p.mean(), abs=0.12)


@pytest.mark.parametrize("n_bridges", [1, 3])
def test_whole_weights_are_repetitions(n_bridges):
    X_p, X_q = two_samples(60)
    w = np.random.default_rng(10).integers(1, 4, 60)
    weighted = quick(n_bridges).fit_samples(X_p, X_q, sample_weight_p=w)
    repeated = quick(n_bridges).fit_samples(np.repeat(X_p, w, axis=0), X_q)
    np.testing.assert_allclose(weighted.log_ratio(X_q), repeated.log_ratio(X_q), atol=1e-9)


def test_a_seed_decides_all_bits_and_global_generators_are_left_alone():
    X_p, X_q = two_samples(80)
    before = torch.random.get_rng_state(), np.random.get_state(legacy=False)["state"]["key"]  # noqa: NPY002
    first, second, other = (quick(2, seed).fit_samples(X_p, X_q).log_ratio(X_q) for seed in (0, 0, 1))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state(legacy=False)["state"]["key"], before[1])  # noqa: NPY002


def test_many_columns_and_far_rows_stay_finite():
    rng = np.random.default_rng(11)
    X_p, X_q = rng.normal(size=(20, 900)), rng.normal(size=(20, 900))
    ratio = quick().fit_samples(X_p, X_q)
    assert ratio.n_bridges_ == 1
    assert np.isfinite(ratio.log_ratio(np.concatenate([X_p, 1e9 * X_q]))).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_bridges": 0}, "`n_bridges` is 0"),
        ({"mixing": "cubic"}, "`mixing` is 'cubic'"),
        ({"hidden": ()}, "`hidden` is"),
        ({"max_epochs": 1.5}, "`max_epochs` is 1.5"),
        ({"learning_rate": 0.0}, "`learning_rate` is 0.0"),
        ({"weight_decay": -1.0}, "`weight_decay` is -1.0"),
        ({"validation_fraction": 1.0}, "`validation_fraction` is 1.0"),
        ({"device": "abacus"}, "`device` is 'abacus'"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        TelescopingRatio(**settings).fit_samples(*two_samples(20))
