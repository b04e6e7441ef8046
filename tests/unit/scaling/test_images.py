"""Scalers of images against closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import logit

from flowratio.scaling.base import ScalingWarning
from flowratio.scaling.images import Dequantizer, Logit


class TestDequantizer:
    def test_round_trip_and_log_det(self):
        X = np.random.default_rng(0).integers(0, 256, (30, 4)).astype(float)
        scaler = Dequantizer().fit(X)
        for rng in (None, np.random.default_rng(1)):
            Z, log_det = scaler.forward(X, rng)
            assert ((Z >= 0) & (Z < 1)).all()
            np.testing.assert_array_equal(scaler.inverse(Z)[0], X)
            np.testing.assert_allclose(log_det, -4 * np.log(256))
            np.testing.assert_array_equal(scaler.inverse(Z)[1], log_det)

    def test_noise_is_uniform_and_from_the_rng(self):
        X = np.zeros((4000, 1))
        scaler = Dequantizer(levels=2).fit(X)
        u = 2 * scaler.forward(X, np.random.default_rng(2))[0][:, 0]
        np.testing.assert_array_equal(u, np.random.default_rng(2).random(4000))
        assert stats.kstest(u, "uniform").pvalue > 0.01

    def test_without_rng_a_subset_is_mapped_as_in_the_whole(self):
        X = np.arange(20.0).reshape(10, 2)
        scaler = Dequantizer(levels=20).fit(X)
        np.testing.assert_array_equal(scaler.transform(X)[3:5], scaler.transform(X[3:5]))
        np.testing.assert_allclose(scaler.transform(X), (X + 0.5) / 20)

    def test_values_beyond_the_range_are_brought_back(self):
        scaler = Dequantizer(levels=4).fit([[0], [3]])
        assert scaler.inverse(np.array([[-0.2], [1.0], [1.7]]))[0].ravel().tolist() == [0, 3, 3]

    @pytest.mark.parametrize("value", [-1.0, 256.0, 0.5])
    def test_wrong_values(self, value):
        X = np.zeros((3, 2))
        X[2, 1] = value
        with pytest.raises(ValueError, match=rf"`X` holds {value} \(row 2, column 1.*from 0 to 255.*`levels`"):
            Dequantizer().fit(X)
        with pytest.raises(ValueError, match="Use integers from 0 to 255"):
            Dequantizer().fit(np.zeros((3, 2))).forward(X)

    def test_many_levels_of_which_few_are_used(self):
        X = np.array([[0, 16], [3, 7]])
        with pytest.warns(
            ScalingWarning, match=r"largest value is 16, but 255 is possible.*Dequantizer\(levels=17\), Logit"
        ):
            Dequantizer().fit(X)
        Dequantizer(levels=17).fit(X)

    def test_too_few_levels(self):
        with pytest.raises(ValueError, match="`levels` is 1"):
            Dequantizer(levels=1).fit([[0], [0]])


class TestLogit:
    def test_equals_the_closed_form(self):
        X = np.random.default_rng(0).random((20, 3))
        Z, _ = Logit(lam=0.05).fit(X).forward(X)
        np.testing.assert_allclose(Z, logit(0.05 + 0.9 * X), rtol=1e-12, atol=1e-12)

    def test_log_det_by_differences(self, check_log_det: Any):
        X = np.random.default_rng(0).uniform(0.01, 0.99, (50, 3))
        # curvature: 2 / 3 * (1e-6 / 0.01)^2 < 1e-8; rounding: 1e-16 / 1e-6
        check_log_det(Logit().fit(X), X, np.full(X.shape, 1e-6), atol=1e-8)

    def test_borders_are_exact(self):
        scaler = Logit(lam=1e-6).fit([[0.0], [1.0]])
        Z, log_det = scaler.forward(np.array([[0.0], [1.0]]))
        np.testing.assert_allclose(Z[:, 0], [logit(1e-6), -logit(1e-6)], rtol=1e-14)
        np.testing.assert_allclose(log_det, np.log((1 - 2e-6) / (1e-6 * (1 - 1e-6))), rtol=1e-14)

    def test_inverse_both_ways(self):
        X = np.vstack([np.random.default_rng(0).random((50, 2)), [[0.0, 1.0]]])
        scaler = Logit().fit(X)
        Z, log_det = scaler.forward(X)
        X_back, log_det_back = scaler.inverse(Z)
        np.testing.assert_allclose(X_back, X, atol=1e-15)
        # near 1, y is known to 1e-16 of 1, that is to 1e-10 of 1 - y
        np.testing.assert_allclose(log_det_back, log_det, atol=1e-9)

    def test_far_z_stays_in_range(self):
        X, log_det = Logit().fit([[0.0], [1.0]]).inverse(np.array([[-800.0], [800.0]]))
        assert X.ravel().tolist() == [0.0, 1.0]
        np.testing.assert_allclose(log_det, 800 + np.log(1 - 2e-6))

    @pytest.mark.parametrize("value", [-0.01, 1.5])
    def test_wrong_values(self, value):
        with pytest.raises(ValueError, match=rf"`X` holds {value} \(row 1, column 0.*from 0 to 1.*Dequantizer"):
            Logit().fit([[0.5], [value]])

    @pytest.mark.parametrize("lam", [0.0, 0.5])
    def test_wrong_lam(self, lam):
        with pytest.raises(ValueError, match="`lam` is"):
            Logit(lam=lam).fit([[0.5], [0.1]])
