from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.classifier.classifier import ClassifierRatio
from flowratio.scaling.chain import ScalerChain
from flowratio.scaling.discrete import DiscreteColumns
from flowratio.scaling.images import Dequantizer, Logit
from flowratio.scaling.standardizer import Standardizer
from flowratio.storage.saving import load, save

# runs of few epochs are cut short on purpose
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def test_only_columns_of_few_values_are_found() -> None:
    rng = np.random.default_rng(0)
    n = 1000
    X = np.column_stack(
        [
            rng.integers(0, 5, n),  # few values
            rng.normal(size=n),  # continuous
            np.full(n, 3.0),  # constant
            np.arange(n) % 100,  # 100 values of 10 rows
            np.arange(n) % 101,  # too many values
            rng.integers(0, 2, n) * 0.1,  # two values
        ]
    )
    discrete = DiscreteColumns.learn(X)
    assert discrete.columns.tolist() == [0, 3, 5]
    assert [len(values) for values in discrete.values] == [5, 100, 2]
    assert DiscreteColumns.learn(X[:499]).columns.tolist() == [0, 5]  # fewer than 5 rows a value


def test_a_value_is_anywhere_in_its_cell() -> None:
    values = np.array([0.0, 1.0, 4.0])
    X = np.repeat(values, 20_000)[:, None]
    moved = DiscreteColumns.learn(X).jitter(X, np.random.default_rng(0)).reshape(3, -1)
    cells = [(-0.5, 0.5), (0.5, 2.5), (2.5, 5.5)]
    for x, (low, high) in zip(moved, cells, strict=True):
        assert low <= x.min()
        assert x.max() <= high
        # uniform: the largest distance of the distribution function is below 2 / √n with probability 1 - 7e-4
        assert np.abs(np.sort((x - low) / (high - low)) - np.linspace(0, 1, len(x))).max() < 2 / np.sqrt(len(x))


def test_noise_leaves_other_columns_and_the_rows_given_alone() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 3, 60), rng.normal(size=60)])
    before = X.copy()
    discrete = DiscreteColumns.learn(X)
    moved = discrete.jitter(X, rng)
    assert np.array_equal(X, before)
    assert np.array_equal(moved[:, 1], X[:, 1])
    assert (moved[:, 0] != X[:, 0]).all()
    assert np.array_equal(discrete.snap(moved), X)
    assert discrete.snap(np.array([[-9.0, 0.3], [1.4, 0.3], [77.0, 0.3]]))[:, 0].tolist() == [0.0, 1.0, 2.0]


def test_an_unknown_value_keeps_its_distance_from_the_nearest() -> None:
    discrete = DiscreteColumns(np.array([0]), (np.array([0.0, 1.0]),))
    moved = discrete.jitter(np.full((1000, 1), 50.0), np.random.default_rng(0))
    assert 49.5 <= moved.min() <= 49.6
    assert 50.4 <= moved.max() <= 50.5


def table(n: int, seed: int) -> np.ndarray:
    """Draw rows of two columns of small whole numbers, the second of which hangs on the first."""
    rng = np.random.default_rng(seed)
    first = rng.binomial(4, 0.5, n)
    return np.column_stack([first, first + rng.integers(0, 3, n)]).astype(float)


@pytest.fixture(scope="module")
def fitted() -> FlowFeaturizer:
    return FlowFeaturizer(hidden=(32,), max_epochs=20, random_state=0).fit(table(2000, 0))


def test_density_times_the_cell_is_the_probability(fitted: FlowFeaturizer) -> None:
    points = np.array([[i, i + j] for i in range(5) for j in range(3)], float)
    pmf = np.repeat(np.array([1, 4, 6, 4, 1]) / 16, 3) / 3
    density = np.exp(fitted.score_samples(points))  # cells of width 1
    # 2000 rows give 15 probabilities to about 0.03 in total variation; the flow rounds off steps of the density
    assert 0.5 * np.abs(density - pmf).sum() < 0.15


def test_the_likelihood_does_not_run_away(fitted: FlowFeaturizer) -> None:
    rows = table(2000, 1)
    # the entropy: log 3, and that of a binomial. No density of noisy rows can have more than minus it on average; at
    # the centres of cells a flow that rounds off the steps may be a little above
    p = np.array([1, 4, 6, 4, 1]) / 16
    entropy = np.log(3) - (p * np.log(p)).sum()
    assert -entropy - 0.3 < fitted.score(rows) < -entropy + 0.2
    spiky = FlowFeaturizer(hidden=(32,), max_epochs=20, random_state=0, dequantize=False).fit(table(2000, 0))
    assert spiky.discrete_ is None
    assert spiky.score(rows) > -entropy + 0.5  # and it would go on


def test_samples_are_values_that_were_there(fitted: FlowFeaturizer) -> None:
    draws = fitted.sample(500, random_state=0)
    assert np.array_equal(draws, np.round(draws))
    assert set(draws[:, 0].tolist()) <= {0.0, 1.0, 2.0, 3.0, 4.0}
    # the mean of 500 rows has a standard error of 0.045; 0.15 leaves room for the flow
    assert abs(draws[:, 0].mean() - 2.0) < 0.15


def test_transform_adds_no_noise_and_keeps_values_apart(fitted: FlowFeaturizer) -> None:
    points = np.array([[i, i + j] for i in range(5) for j in range(3)], float)
    Z = fitted.transform(points)
    assert np.array_equal(Z, fitted.transform(points))
    gaps = np.linalg.norm(Z[:, None] - Z[None], axis=2) + np.eye(len(Z))
    assert gaps.min() > 0.05
    assert np.allclose(fitted.inverse_transform(Z), points, atol=1e-3)


def test_the_ratio_in_z_is_that_of_the_probabilities(fitted: FlowFeaturizer) -> None:
    rng = np.random.default_rng(2)
    X_q = table(4000, 3)
    tilt = np.exp(0.4 * X_q[:, 0])
    X_p = X_q[rng.choice(len(X_q), 4000, p=tilt / tilt.sum())]
    ratio = ClassifierRatio("boosting", random_state=0).fit_samples(fitted.transform(X_p), fitted.transform(X_q))
    points = np.array([[i, i + 1] for i in range(1, 5)], float)
    p = np.array([1, 4, 6, 4, 1]) / 16
    truth = 0.4 * points[:, 0] - np.log(p @ np.exp(0.4 * np.arange(5)))
    # cells of 80 rows or more in each sample: a standard error of at most 0.16 in log r; three of them
    assert np.abs(ratio.log_ratio(fitted.transform(points)) - truth).max() < 0.48


def test_tables_without_such_columns_give_the_same_bits() -> None:
    X = np.random.default_rng(0).normal(size=(300, 2))
    on, off = (
        FlowFeaturizer(max_epochs=2, patience=2, random_state=0, dequantize=flag).fit(X) for flag in (True, False)
    )
    assert on.discrete_ is None
    assert np.array_equal(on.transform(X), off.transform(X))


def test_scalers_that_have_noise_or_bounds_get_none() -> None:
    X = np.random.default_rng(0).integers(0, 2, (200, 2)).astype(float)
    for scaling in (ScalerChain([Dequantizer(levels=2), Logit(), Standardizer()]), Logit(lam=0.1)):
        featurizer = FlowFeaturizer(max_epochs=1, patience=1, random_state=0, scaling=scaling).fit(X)
        assert featurizer.discrete_ is None


def test_a_checkpoint_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    X = table(300, 0)
    results = [
        FlowFeaturizer(max_epochs=3, patience=3, random_state=0, checkpoint=path).fit(X).transform(X)
        for path in (None, tmp_path, tmp_path)
    ]
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


def test_files_learn_the_same_values(tmp_path: Path) -> None:
    X = table(300, 0)
    np.save(tmp_path / "rows.npy", X)
    featurizer = FlowFeaturizer(max_epochs=1, patience=1, random_state=0).fit(tmp_path / "rows.npy")
    assert featurizer.discrete_ is not None
    assert featurizer.discrete_.columns.tolist() == [0, 1]


def test_saved_is_loaded(fitted: FlowFeaturizer, tmp_path: Path) -> None:
    save(fitted, tmp_path)
    loaded = load(tmp_path)
    assert np.array_equal(loaded.sample(50, random_state=1), fitted.sample(50, random_state=1))
    assert np.array_equal(loaded.discrete_.columns, [0, 1])
