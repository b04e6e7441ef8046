"""The whitener, and the shrinkage of correlations."""

from __future__ import annotations

import numpy as np
import pytest

from flowratio.scaling.whitener import Whitener, noise_share, shrunk_correlation


class TestWhitener:
    def test_many_rows_are_white_after_it(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(5000, 3)) @ np.array([[1.0, 0.9, 0.0], [0.0, 0.44, 0.0], [0.0, 0.0, 1e-3]]) + 7
        Z = Whitener().fit_transform(X)
        # shrinkage leaves about λ of the correlation, and λ is about d²/(n Σ R²) = 0.001
        np.testing.assert_allclose(np.cov(Z, rowvar=False), np.eye(3), atol=0.05)

    def test_log_det_is_that_of_the_matrix(self):
        X = np.random.default_rng(0).normal(size=(50, 4)) @ np.diag([1e-4, 1.0, 10.0, 1e4])
        whitener = Whitener().fit(X)
        Z, log_det = whitener.forward(X)
        np.testing.assert_allclose(log_det, np.linalg.slogdet(whitener.unmixing_)[1], rtol=1e-12)
        back, log_det_back = whitener.inverse(Z)
        np.testing.assert_allclose(back, X, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(log_det, log_det_back)

    def test_first_columns_do_not_hear_of_later_ones(self):
        X = np.random.default_rng(0).normal(size=(100, 3)) @ np.ones((3, 3)) + np.random.default_rng(1).normal(
            size=(100, 3)
        )
        assert np.array_equal(Whitener().fit(X).unmixing_, np.tril(Whitener().fit(X).unmixing_))

    def test_independent_columns_of_few_rows_are_left_alone(self):
        """The expected sum of squares of chance correlations is what λ takes away: the mean share is near one."""
        shares = []
        for seed in range(50):
            X = np.random.default_rng(seed).normal(size=(30, 10))
            mixing = Whitener().fit(X).mixing_ / X.std(0)[:, None]
            R = np.atleast_2d(np.corrcoef(X, rowvar=False))
            shares.append(1 - (mixing @ mixing.T)[0, 1] / R[0, 1])
        assert np.mean(shares) > 0.7

    def test_a_constant_column_is_refused(self):
        with pytest.raises(ValueError, match="constant column"):
            Whitener().fit([[1.0, 2.0], [1.0, 3.0]])


class TestShrinkage:
    def test_follows_the_formula(self):
        X = np.random.default_rng(0).normal(size=(40, 5)) @ np.triu(np.ones((5, 5)))
        R = np.atleast_2d(np.corrcoef(X, rowvar=False))
        n, off = 37.0, ~np.eye(5, dtype=bool)
        share = ((1 - R[off] ** 2) ** 2).sum() / n / (R[off] ** 2).sum()
        shrunk, signal = shrunk_correlation(R, n)
        assert signal == pytest.approx(1 - share)
        np.testing.assert_allclose(shrunk, np.where(off, (1 - share) * R, 1.0), rtol=1e-14)

    def test_is_never_singular_and_never_turns_a_sign(self):
        ones = np.ones((3, 3))
        shrunk, signal = shrunk_correlation(ones, 1e12, min_share=1e-6)
        assert signal == 1 - 1e-6
        np.linalg.cholesky(shrunk)
        identity, signal = shrunk_correlation(np.eye(3), 10.0)
        assert signal == 0
        np.testing.assert_array_equal(identity, np.eye(3))

    def test_share_of_noise(self):
        assert noise_share(1.0, 4.0) == 0.25
        assert noise_share(9.0, 4.0) == noise_share(9.0, 0.0) == 1.0
        assert noise_share(0.0, 4.0, 1e-6) == 1e-6
