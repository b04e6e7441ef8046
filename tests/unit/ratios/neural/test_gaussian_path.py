"""The path of Gaussians between two samples."""

from __future__ import annotations

import numpy as np
import pytest

from flowratio.ratios.neural.gaussian_path import GaussianPath, gaussian_path
from flowratio.samples.two_samples import two_samples


def one_column(mean_p: float, variance_p: float, mean_q: float, variance_q: float) -> GaussianPath:
    moments = (np.array([value]) for value in (mean_p, mean_q, variance_p, variance_q))
    return GaussianPath(np.eye(1), *moments, normal=np.array([True]))


def path_of(X_p: np.ndarray, X_q: np.ndarray) -> GaussianPath:
    return gaussian_path(two_samples(X_p, X_q))


def test_linear_and_angular_coefficients_are_those_of_the_definition():
    path = one_column(1.0, 1.0, -1.0, 1.0)
    np.testing.assert_allclose(path.coefficients(4, "linear"), [0, 0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(path.coefficients(2, "angular"), [0, np.sqrt(0.5), 1])


def test_lengths_have_their_closed_forms():
    # equal variances: x_k runs straight from mean to mean in units of the deviation
    _, length = one_column(3.0, 4.0, -3.0, 4.0).lengths()
    assert length[-1] == pytest.approx(3.0, rel=1e-3)
    # equal means: |log v_p/v_q| / sqrt 2
    _, length = one_column(0.0, 1e-4, 0.0, 1.0).lengths()
    assert length[-1] == pytest.approx(np.log(1e4) / np.sqrt(2), rel=1e-3)


def test_even_waymarks_are_equally_far_apart():
    path = one_column(0.0, 1e-4, 0.0, 1.0)
    _, variance = path.moments(path.coefficients(6, "even"))
    np.testing.assert_allclose(np.diff(np.log(variance[:, 0])), np.log(1e4) / 6, rtol=0.01)


def test_sampling_noise_is_subtracted_from_the_length():
    rng = np.random.default_rng(3)
    _, length = path_of(rng.normal(size=(200, 10)), rng.normal(size=(200, 10))).lengths()
    # without it the mean alone would add sqrt(10·2/200) = 0.3, the covariances sqrt(55·4/200/2) = 0.7
    assert length[-1] < 0.4


def test_heavy_tails_have_no_gaussian_part():
    rng = np.random.default_rng(4)
    X_p, X_q = rng.standard_t(2, size=(1000, 1)), rng.normal(size=(1000, 1))
    assert path_of(X_q, X_q + 1).normal.all()
    assert not path_of(X_p, X_q).normal.any()


def test_weights_count_rows():
    rng = np.random.default_rng(5)
    X_p, X_q = rng.normal(size=(100, 3)), rng.normal(0.5, 2.0, size=(80, 3))
    w = rng.integers(1, 4, 100)
    weighted = gaussian_path(two_samples(X_p, X_q, w))
    repeated = path_of(np.repeat(X_p, w, axis=0), X_q)
    # weights that differ have a smaller effective number of rows than repetitions, which changes the shrinkage only
    np.testing.assert_allclose(weighted.variance_p, repeated.variance_p, rtol=0.1)
    assert weighted.lengths()[1][-1] == pytest.approx(repeated.lengths()[1][-1], rel=0.1)
