from __future__ import annotations

import numpy as np
import pytest
import torch

from flowratio.flows.maf import MAF
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.base import OverlapWarning
from flowratio.ratios.neural.difference import FlowDifferenceRatio, _repeated

# the training is too short to converge here, and the tails of such flows give single rows large ratios
pytestmark = [
    pytest.mark.filterwarnings("ignore::flowratio.ratios.base.OverlapWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
QUICK = FlowFeaturizer(n_blocks=2, hidden=(16, 16), max_epochs=20, patience=20)


def quick() -> FlowDifferenceRatio:
    return FlowDifferenceRatio(QUICK, random_state=0)


def two_samples(n: int = 300, d: int = 2, shift: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(n, d)) + shift, rng.normal(size=(n, d))


def test_gaussian_shift_has_its_closed_form():
    X_p, X_q = two_samples(1000)
    ratio = quick().fit_samples(X_p, X_q)
    X = np.random.default_rng(2).normal(0.5, 1.0, size=(2000, 2))
    truth = X.sum(axis=1) - 1
    # var log r = 2; two Gaussians with 5 estimated moments each would be off by about 2·5/1000 per nat², the flows
    # add to that: the limit is a twentieth of the variance, which is the error of r = 1
    assert np.mean((ratio.log_ratio(X) - truth) ** 2) < 0.1


def test_change_of_covariance_has_its_closed_form():
    rng = np.random.default_rng(3)
    X_p, X_q = 0.5 * rng.normal(size=(1000, 1)), rng.normal(size=(1000, 1))
    X = np.linspace(-1, 1, 41)[:, None]
    truth = np.log(2) - 1.5 * X[:, 0] ** 2
    assert np.abs(quick().fit_samples(X_p, X_q).log_ratio(X) - truth).max() < 0.3  # truth runs from -0.8 to 0.7


def test_weights_carry_the_moments_of_q_to_those_of_p():
    X_p, X_q = two_samples(1000, d=1, shift=0.7)
    w = quick().fit_samples(X_p, X_q).weights(X_q)
    # the weighted mean has a standard error of sqrt(var_p(x) e^0.49 / 1000) = 0.04
    assert np.average(X_q[:, 0], weights=w) == pytest.approx(X_p.mean(), abs=0.15)


def test_swapped_samples_negate_log_r():
    X_p, X_q = two_samples()
    X = np.concatenate([X_p, X_q])
    forward, backward = quick().fit_samples(X_p, X_q), quick().fit_samples(X_q, X_p)
    np.testing.assert_allclose(forward.log_ratio(X), -backward.log_ratio(X), atol=1e-9)


def test_one_sample_twice_has_a_ratio_of_one():
    X, _ = two_samples()
    assert np.abs(quick().fit_samples(X, X).log_ratio(X)).max() < 1e-12


def test_column_that_only_p_holds_constant_gives_large_but_finite_ratios():
    X_p, X_q = two_samples(100, shift=0.0)
    X_p[:, 1] = 0.3
    ratio = quick().fit_samples(X_p, X_q)
    log_p, log_q = ratio.log_ratio(X_p), ratio.log_ratio(X_q)
    assert np.isfinite(log_p).all()
    assert np.isfinite(log_q).all()
    # a density of width 1e-4 against one of width 1; rows of q are many such widths away
    assert np.median(log_p) > 3
    assert np.median(log_q) < -100


def test_columns_that_are_combinations_of_others_in_both_samples_are_left_out():
    X_p, X_q = two_samples()
    wide_p, wide_q = (np.column_stack([X, X.sum(axis=1), np.ones(len(X))]) for X in (X_p, X_q))
    ratio = quick().fit_samples(wide_p, wide_q)
    assert ratio.columns_.tolist() == [0, 1]
    # with them, the narrow directions would add tens of nats; var log r = 2
    assert np.median(np.abs(ratio.log_ratio(wide_q) - (X_q.sum(axis=1) - 1))) < 0.5


def test_more_columns_than_rows_stay_finite():
    rng = np.random.default_rng(4)
    X_p, X_q = rng.normal(size=(20, 300)), rng.normal(size=(20, 300))
    ratio = quick().fit_samples(X_p, X_q)
    assert np.isfinite(ratio.log_ratio(np.concatenate([X_p, X_q, 1e9 * X_p]))).all()


def test_one_row_of_weight_three_is_a_sample():
    _, X_q = two_samples(50)
    X, y = np.concatenate([[[1.0, 1.0]], X_q]), np.repeat([1, 0], [1, 50])
    w = np.where(y == 1, 3.0, 1.0)
    with pytest.warns(OverlapWarning):
        ratio = quick().fit(X, y, w)
    assert np.isfinite(ratio.log_ratio(X)).all()


def test_far_rows_are_scored_at_the_box_around_the_training_rows():
    X_p, X_q = two_samples()
    ratio = quick().fit_samples(X_p, X_q)
    far = np.array([[1e12, 0.0], [1e3, 0.0]])
    edge = ratio.mean_ + ratio.scale_ * np.array([ratio.high_[0], -ratio.mean_[1] / ratio.scale_[1]])
    np.testing.assert_allclose(ratio.log_ratio(far), ratio.log_ratio(edge[None])[0], rtol=1e-9)
    reached = X_p[:, 0].max() + ratio.scale_[0]  # the larger of the samples, and one standard deviation
    assert edge[0] == pytest.approx(max(reached, X_q[:, 0].max() + ratio.scale_[0]))


def test_whole_weights_are_repetitions():
    X_p, X_q = two_samples(60)
    w = np.random.default_rng(5).integers(1, 4, 60)
    weighted = quick().fit_samples(X_p, X_q, sample_weight_p=w)
    repeated = quick().fit_samples(np.repeat(X_p, w, axis=0), X_q)
    np.testing.assert_allclose(weighted.log_ratio(X_q), repeated.log_ratio(X_q), atol=1e-9)


def test_weights_repeat_rows_in_proportion():
    X, w = np.arange(4.0)[:, None], np.array([0.5, 0.25, 0.25, 1.0])
    counts = np.bincount(_repeated(np.repeat(X, 100, axis=0), np.repeat(w, 100)).ravel().astype(int))
    assert counts.tolist() == [100, 50, 50, 200]  # 400 rows of a total weight of 200
    assert len(_repeated(X, np.full(4, 1e9))) == 200_000


def test_a_seed_decides_all_bits_and_global_generators_are_left_alone():
    X_p, X_q = two_samples(80)
    before = torch.random.get_rng_state(), np.random.get_state(legacy=False)["state"]["key"]  # noqa: NPY002
    first, second = (quick().fit_samples(X_p, X_q).log_ratio(X_q) for _ in range(2))
    other = FlowDifferenceRatio(QUICK, random_state=1).fit_samples(X_p, X_q).log_ratio(X_q)
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state(legacy=False)["state"]["key"], before[1])  # noqa: NPY002


def test_user_featurizer_stays_as_it_was():
    X_p, X_q = two_samples(50)
    featurizer = FlowFeaturizer(max_epochs=2, patience=2)
    FlowDifferenceRatio(featurizer, random_state=0).fit_samples(X_p, X_q)
    assert not hasattr(featurizer, "flow_")
    assert featurizer.random_state is None


def test_the_callback_follows_both_flows():
    X_p, X_q = two_samples(50)
    flows: list[torch.nn.Module] = []
    featurizer = FlowFeaturizer(n_blocks=1, hidden=(8,), max_epochs=2, patience=2)
    ratio = FlowDifferenceRatio(featurizer, random_state=0, callback=lambda flow, epoch: flows.append(flow))
    ratio.fit_samples(X_p, X_q)
    assert len({*map(id, flows)}) == 2
    assert featurizer.callback is None


def test_checkpoints_of_the_two_flows_are_kept_apart(tmp_path):
    X_p, X_q = two_samples(50)
    featurizer = FlowFeaturizer(n_blocks=1, max_epochs=20, patience=20, random_state=3, checkpoint=tmp_path)
    runs = [FlowDifferenceRatio(featurizer, random_state=0).fit_samples(X_p, X_q).log_ratio(X_q) for _ in range(2)]
    assert {path.name for path in tmp_path.iterdir()} == {"p", "q"}
    assert np.array_equal(runs[0], runs[1])


@pytest.mark.parametrize(
    ("featurizer", "message"),
    [
        ("maf", "Use a `FlowFeaturizer`"),
        (FlowFeaturizer(MAF(2)), "pretrained flow"),
        (FlowFeaturizer(scaling="image"), "standardized rows"),
    ],
)
def test_bad_featurizers_are_refused(featurizer, message):
    with pytest.raises(ValueError, match=message):
        FlowDifferenceRatio(featurizer).fit_samples(*two_samples(20))
