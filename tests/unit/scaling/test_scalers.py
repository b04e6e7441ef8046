"""Scalers against derivatives by differences, closed forms, and numerical integrals."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logit
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from flowratio.scaling.base import Scaler, ScalingWarning
from flowratio.scaling.chain import ScalerChain
from flowratio.scaling.gaussianizer import Gaussianizer
from flowratio.scaling.images import Dequantizer, Logit
from flowratio.scaling.standardizer import Standardizer
from flowratio.scaling.whitener import Whitener

N = 3000
SHAPES = {
    "normal": lambda rng, n: rng.normal(size=n),
    "lognormal": lambda rng, n: np.exp(rng.normal(size=n)),
    "cauchy": lambda rng, n: rng.standard_cauchy(n),
    "gamma": lambda rng, n: rng.gamma(0.5, size=n),
    "bimodal": lambda rng, n: rng.normal(size=n) + 8 * (rng.random(n) < 0.3),
    "uniform": lambda rng, n: rng.random(n),
    "integer": lambda rng, n: rng.poisson(3, n).astype(float),
    "binary": lambda rng, n: (rng.random(n) < 0.2).astype(float),
    "zeros": lambda rng, n: np.where(rng.random(n) < 0.6, 0.0, rng.gamma(2, size=n)),
    "huge": lambda rng, n: 1e9 + rng.normal(size=n),
}


def draw(shape: str, n: int = N) -> np.ndarray:
    return SHAPES[shape](np.random.default_rng(7), n).reshape(-1, 1)


def transfusion_like(n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    frequency = rng.poisson(5, n) + 1
    return pd.DataFrame(
        {
            "Recency": rng.poisson(9, n),
            "Frequency": frequency,
            "Monetary": 250 * frequency,
            "Time": rng.poisson(30, n) + frequency,
            "Site": np.full(n, 4),
        }
    )


def anew(scaler: Scaler) -> Any:
    return clone(scaler)


def check_log_det_of_columns(scaler: Scaler, X: np.ndarray, step: np.ndarray, atol: float) -> None:
    """Compare log_det with central differences; valid for maps that act on each column by itself."""
    up, down = scaler.forward(X + step)[0], scaler.forward(X - step)[0]
    width = (X + step) - (X - step)  # what the rounding of X left of 2 * step
    _, log_det = scaler.forward(X)
    np.testing.assert_allclose(log_det, np.log((up - down) / width).sum(axis=1), atol=atol)


class TestStandardizer:
    def test_equals_the_closed_form(self):
        X = np.random.default_rng(0).normal([3.0, -2.0, 0.0], [1.0, 10.0, 0.1], (50, 3))
        Z, log_det = Standardizer().fit(X).forward(X)
        np.testing.assert_allclose(Z, (X - X.mean(axis=0)) / X.std(axis=0), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(log_det, np.full(50, -np.log(X.std(axis=0)).sum()), rtol=1e-12)

    def test_inverse_both_ways(self):
        X = np.random.default_rng(0).normal(5, 2, (40, 3))
        scaler = Standardizer().fit(X)
        Z, log_det = scaler.forward(X)
        X_back, log_det_back = scaler.inverse(Z)
        np.testing.assert_allclose(X_back, X, rtol=1e-14)
        np.testing.assert_array_equal(log_det_back, log_det)
        np.testing.assert_allclose(scaler.forward(scaler.inverse(Z)[0])[0], Z, atol=1e-13)

    @pytest.mark.parametrize(("unit", "shift"), [(1e-4, 0.0), (1e4, 0.0), (1.0, 1e6), (1e-280, 0.0), (1e280, 0.0)])
    def test_units_change_nothing_but_log_det(self, unit, shift):
        X = np.random.default_rng(1).gamma(2, size=(500, 3))
        Z, log_det = Standardizer().fit(X).forward(X)
        Z_units, log_det_units = Standardizer().fit(unit * X + shift).forward(unit * X + shift)
        # the shift rounds X to 1e6 * 2^-53 = 1.1e-10; the standard deviation is 1.4, and |z| below 10
        np.testing.assert_allclose(Z_units, Z, atol=1e-9)
        np.testing.assert_allclose(log_det_units, log_det - 3 * np.log(unit), atol=1e-9)

    def test_large_values_keep_their_digits(self):
        small = np.random.default_rng(2).integers(-1000, 1000, (400, 2)) / 1024  # exact beside 1e9
        scaler = Standardizer().fit(1e9 + small)
        # the difference to the mean is exact up to the rounding of the mean itself, 1e9 * 2^-53
        np.testing.assert_allclose(scaler.mean_ - 1e9, small.mean(axis=0), atol=1.2e-7)
        np.testing.assert_allclose(scaler.scale_, small.std(axis=0), rtol=1e-9)

    def test_transfusion_columns_are_left_out_and_said(self):
        X = transfusion_like()
        with pytest.warns(
            ScalingWarning, match=r"2 of 5.*'Monetary' \(a linear combination of 'Frequency'\).*'Site' \(constant\)"
        ):
            scaler = Standardizer().fit(X)
        assert scaler.n_features_out_ == 3
        assert scaler.get_feature_names_out().tolist() == ["Recency", "Frequency", "Time"]
        Z, log_det = scaler.forward(X.to_numpy())
        X_back, _ = scaler.inverse(Z)
        np.testing.assert_allclose(X_back, X, rtol=1e-12, atol=1e-12)
        kept = X[["Recency", "Frequency", "Time"]].to_numpy()
        np.testing.assert_allclose(log_det, -np.log(kept.std(axis=0)).sum())

    @pytest.mark.parametrize(
        ("unit", "dtype"),
        [
            *((unit, np.float64) for unit in (1e-150, 1e-4, 1.0, 1e4, 1e150)),
            *((u, np.float32) for u in (1e-4, 1.0, 1e4)),
        ],
    )
    def test_combination_is_found_in_any_units(self, unit, dtype):
        X = np.random.default_rng(4).normal(size=(500, 4))
        X[:, 2] = unit * (X[:, 0] - 3 * X[:, 1] + 5)
        with pytest.warns(ScalingWarning, match=r"column 2 \(a linear combination of column 0, column 1\)"):
            scaler = Standardizer().fit(X.astype(dtype))
        # rounding alone parts float32 rows from the plane: 6e-8 of values of up to 20 standard deviations
        X_back, _ = scaler.inverse(scaler.forward(X)[0])
        np.testing.assert_allclose(X_back, X, rtol=1e-5 if dtype == np.float32 else 1e-10, atol=1e-5 * min(unit, 1))

    def test_earlier_columns_are_kept(self):
        X = np.random.default_rng(5).normal(size=(100, 3))
        X = np.column_stack([X, X.sum(axis=1), X[:, 0] - X[:, 2], X[:, 1]])
        with pytest.warns(ScalingWarning):
            scaler = Standardizer().fit(X)
        assert scaler.kept_.tolist() == [0, 1, 2]
        assert scaler.dropped_.tolist() == [3, 4, 5]

    @pytest.mark.parametrize("noise", [1e-5, 1e-4])
    def test_nearly_collinear_columns_are_kept(self, noise):
        rng = np.random.default_rng(6)
        x = rng.normal(size=(1000, 1))
        scaler = Standardizer().fit(np.hstack([x, x + noise * rng.normal(size=x.shape)]))
        assert scaler.n_features_out_ == 2

    def test_one_row_off_the_plane_keeps_the_column(self):
        x = np.random.default_rng(6).normal(size=1000)
        X = np.column_stack([x, 2 * x])
        X[17, 1] += 1e-4  # residual variance 2.5e-12 of a standardized column: only the rows tell
        assert Standardizer().fit(X).n_features_out_ == 2

    def test_one_huge_row_makes_no_columns_collinear(self):
        X = np.random.default_rng(6).normal(size=(1000, 2))
        X[0] = 1e20
        assert Standardizer().fit(X).n_features_out_ == 2

    def test_few_rows_make_no_columns_collinear(self):
        X = np.random.default_rng(6).normal(size=(6, 20))
        assert Standardizer().fit(X).n_features_out_ == 20
        assert Standardizer().fit(X[:2]).n_features_out_ == 20

    def test_constant_up_to_rounding(self):
        rng = np.random.default_rng(7)
        tenth = np.where(rng.random(100) < 0.5, 0.3, 0.1 + 0.2)
        X = np.column_stack([rng.normal(size=100), tenth, 1e9 + 1e-6 * rng.integers(0, 2, 100)])
        with pytest.warns(ScalingWarning, match=r"column 1 \(constant\); column 2 \(constant\)"):
            scaler = Standardizer().fit(X)
        np.testing.assert_allclose(scaler.inverse(scaler.forward(X)[0])[0], X, rtol=1e-14)

    def test_constants_are_rebuilt_to_the_bit(self):
        X = np.column_stack([np.random.default_rng(7).normal(size=3000), np.full(3000, 0.1)])  # a sum of tenths rounds
        with pytest.warns(ScalingWarning, match="constant"):
            scaler = Standardizer().fit(X)
        np.testing.assert_array_equal(scaler.inverse(scaler.forward(X)[0])[0][:, 1], X[:, 1])

    def test_rows_off_the_plane_are_counted(self):
        X = transfusion_like()
        with pytest.warns(ScalingWarning, match="Left out"):
            scaler = Standardizer().fit(X)
        scaler.transform(X)
        X.loc[3, "Monetary"] += 1
        X.loc[[5, 8], "Site"] = 5
        with pytest.warns(ScalingWarning, match="3 of 300 rows lie off the plane"):
            scaler.transform(X)

    def test_nothing_varies(self):
        with pytest.raises(ValueError, match="Every column of `X` is constant"):
            Standardizer().fit(np.ones((5, 2)))

    def test_values_too_large(self):
        with pytest.raises(ValueError, match=r"the limit is 1e\+300"):
            Standardizer().fit([[0.0], [1e305]])

    def test_float32_rows_give_the_moments_of_float64(self):
        X = np.random.default_rng(8).normal(100, 1, (5000, 2)).astype(np.float32)
        scaler = Standardizer().fit(X)
        np.testing.assert_allclose(scaler.mean_, X.astype(np.float64).mean(axis=0), rtol=1e-13)
        np.testing.assert_allclose(scaler.scale_, X.astype(np.float64).std(axis=0), rtol=1e-11)

    def test_chunks_do_not_show(self):
        X = np.random.default_rng(9).normal(size=(2**18 + 5, 5))  # two chunks of 2^20 numbers
        scaler = Standardizer().fit(X)
        np.testing.assert_allclose(scaler.scale_, X.std(axis=0), rtol=1e-12)
        np.testing.assert_allclose(scaler.mean_, X.mean(axis=0), atol=1e-14)


class TestGaussianizer:
    @pytest.mark.parametrize("shape", SHAPES)
    def test_comes_out_normal(self, shape):
        X = draw(shape)
        Z = Gaussianizer().fit_transform(X)
        # the scores have mean 0 and variance 1, and the curve follows them but for its smoothness between knots
        assert abs(Z.mean()) < 0.01
        assert abs(Z.std() - 1) < 0.02
        if shape not in ("binary", "zeros"):  # whose atoms no increasing map can spread
            # beyond the 8 outermost rows on each side the curve is a guess, so the tolerance is wide
            assert abs(stats.skew(Z[:, 0])) < 0.2
            assert abs(stats.kurtosis(Z[:, 0])) < 0.5
            assert np.abs(Z).max() < 6

    @pytest.mark.parametrize("shape", ["lognormal", "cauchy", "gamma", "zeros"])
    def test_skewness_falls(self, shape):
        X = draw(shape)
        Z = Gaussianizer().fit_transform(X)
        assert abs(stats.skew(Z[:, 0])) < 0.7 * abs(stats.skew(X[:, 0]))

    @pytest.mark.parametrize("shape", SHAPES)
    def test_log_det_by_differences(self, shape):
        X = draw(shape)
        scaler = Gaussianizer().fit(X)
        x = scaler.inverse(np.linspace(-6, 6, 997).reshape(-1, 1))[0]
        # central differences over 1e-4 in z: error of about 1e-8 from curvature and 1e-12 from rounding, but more where
        # the slope bends at a knot, and where 1e9 leaves 1e-7 of 1
        slope = np.exp(scaler.forward(x)[1])[:, None]
        check_log_det_of_columns(scaler, x, 1e-4 / slope, atol=5e-3 if shape == "huge" else 2e-3)

    @pytest.mark.parametrize("shape", SHAPES)
    def test_inverse_both_ways(self, shape):
        X = draw(shape)
        scaler = Gaussianizer().fit(X)
        Z, log_det = scaler.forward(X)
        X_back, log_det_back = scaler.inverse(Z)
        np.testing.assert_allclose(X_back, X, rtol=1e-9, atol=1e-9 * np.median(np.abs(X)))
        np.testing.assert_allclose(log_det_back, log_det, atol=1e-7)
        z = np.linspace(-30, 30, 2001).reshape(-1, 1)
        x, _ = scaler.inverse(z)
        assert np.isfinite(x).all()
        # 1e9 rounds x to 1.2e-7, and the slope is about 1
        np.testing.assert_allclose(scaler.forward(x)[0], z, atol=1e-6 if shape == "huge" else 1e-9)

    @pytest.mark.parametrize("shape", SHAPES)
    def test_strictly_increasing(self, shape):
        scaler = Gaussianizer().fit(draw(shape))
        z = np.linspace(-12, 12, 4001)
        assert (np.diff(scaler.inverse(z.reshape(-1, 1))[0][:, 0]) > 0).all()
        x = np.linspace(-20, 40, 4001) + (1e9 if shape == "huge" else 0)
        assert (np.diff(scaler.forward(x.reshape(-1, 1))[0][:, 0]) > 0).all()

    @pytest.mark.parametrize("shape", SHAPES)
    def test_slope_is_continuous_at_knots(self, shape):
        scaler = Gaussianizer().fit(draw(shape))
        knots = scaler.knots_x_[:, None]
        t = scaler.knots_t_
        # near a knot the log-slope changes by its derivative (below 1e3 per unit of z here) times the distance in z
        near = 1e-7 * np.diff(t).min()
        left, right = (scaler.inverse((t + side * near)[:, None]) for side in (-1, 1))
        np.testing.assert_allclose(left[1], right[1], atol=1e-3)
        np.testing.assert_allclose(scaler.forward(knots)[0][:, 0], t, atol=1e-12)
        np.testing.assert_allclose(np.exp(scaler.forward(knots)[1]), scaler.slopes_, rtol=1e-9)

    @pytest.mark.parametrize("shape", SHAPES)
    def test_density_integrates_to_one(self, shape):
        scaler = Gaussianizer().fit(draw(shape))
        # Simpson's rule in x, on a grid that follows the map: panels of 1e-3 in z, none of them across a knot
        grid = np.union1d(np.linspace(-9, 9, 18001), scaler.knots_t_)
        edges = scaler.inverse(grid.reshape(-1, 1))[0][:, 0]
        panels = np.stack([edges[:-1], (edges[:-1] + edges[1:]) / 2, edges[1:]])
        z, log_det = scaler.forward(panels.reshape(-1, 1))
        density = np.exp(stats.norm.logpdf(z[:, 0]) + log_det).reshape(panels.shape)
        total = (np.diff(edges) / 6 * (density * [[1], [4], [1]]).sum(axis=0)).sum()
        # 1e9 rounds the panels of width 1e-3 to 1.2e-7, at random
        assert abs(total - 1) < (1e-4 if shape == "huge" else 1e-8)

    @pytest.mark.parametrize(("shape", "rate"), [("normal", 0.0), ("uniform", 0.0), ("lognormal", 1.0)])
    def test_tails_extrapolate(self, shape, rate):
        X = draw(shape, 100_000)
        scaler = Gaussianizer().fit(X)
        # log-normal: dlog(slope)/dz is -1 everywhere; its estimate rests on some 50 rows, so 30 % is two errors
        np.testing.assert_allclose(scaler.rates_[0, 1], rate, atol=0.35)
        if shape == "lognormal":
            assert (
                3 < np.log(scaler.inverse(np.array([[5.0]]))[0][0, 0]) < 7
            )  # the truth is 5; a straight line gives 4.6
        if shape == "normal":
            assert 4.5 < scaler.inverse(np.array([[5.0]]))[0][0, 0] < 6

    def test_heavy_tail_tames_a_row_at_infinity(self):
        X = draw("normal")
        X[0] = 1e30
        Z = Gaussianizer().fit_transform(X)
        assert np.abs(Z).max() < 8
        # a normal column maps to itself: the body to the error of a quantile, about 4 / sqrt(n)
        body = np.abs(X) < 2
        np.testing.assert_allclose(Z[body], X[body], atol=0.08)

    @pytest.mark.parametrize(("unit", "shift"), [(1e-4, 0.0), (1e4, 0.0), (1.0, 1e6), (1e-280, 0.0), (1e280, 0.0)])
    @pytest.mark.parametrize("shape", ["normal", "lognormal", "integer", "bimodal"])
    def test_units_change_nothing_but_log_det(self, shape, unit, shift):
        X = draw(shape)
        Z, log_det = Gaussianizer().fit(X).forward(X)
        Z_units, log_det_units = Gaussianizer().fit(unit * X + shift).forward(unit * X + shift)
        # the shift rounds X to 1.1e-10, the slopes are below 1e3
        np.testing.assert_allclose(Z_units, Z, atol=1e-6)
        np.testing.assert_allclose(log_det_units, log_det - np.log(unit), atol=1e-5)

    def test_decreasing_twin(self):
        X = draw("gamma", 3001)  # an even number of rows has no row in the middle
        np.testing.assert_allclose(Gaussianizer().fit_transform(-X), -Gaussianizer().fit_transform(X), atol=1e-9)

    def test_ties_share_their_mean_rank(self):
        X = np.repeat([0.0, 1.0, 2.0, 5.0], [40, 30, 20, 10]).reshape(-1, 1)
        Z = Gaussianizer().fit_transform(X)
        score = stats.norm.ppf([0.2, 0.55, 0.8, 0.95])[np.repeat(np.arange(4), [40, 30, 20, 10])]
        np.testing.assert_allclose(Z[:, 0], (score - score.mean()) / score.std(), atol=1e-12)

    def test_values_of_any_size(self):
        """Likelihoods, say, from below the smallest normal number to 1."""
        X = 10.0 ** np.random.default_rng(1).uniform(-320, 0, (2000, 1))
        scaler = Gaussianizer().fit(X)
        Z, log_det = scaler.forward(X)
        assert np.isfinite(Z).all()
        assert np.isfinite(log_det).all()
        order = np.argsort(X[:, 0])
        assert (np.diff(Z[order, 0]) > -1e-14).all()  # between two knots lie many decades: flat up to rounding
        large = X > 1e-3
        np.testing.assert_allclose(scaler.inverse(Z)[0][large], X[large], rtol=1e-6)

    @pytest.mark.parametrize("n", [2, 3, 5, 10])
    def test_few_rows(self, n):
        X = np.exp(np.random.default_rng(1).normal(size=(n, 2)))
        scaler = Gaussianizer().fit(X)
        Z, _ = scaler.forward(X)
        np.testing.assert_allclose(scaler.inverse(Z)[0], X, rtol=1e-12)
        np.testing.assert_array_equal(np.argsort(Z, axis=0), np.argsort(X, axis=0))

    def test_leaves_out_what_the_standardizer_leaves_out(self):
        X = transfusion_like()
        with pytest.warns(ScalingWarning, match="'Monetary'"):
            scaler = Gaussianizer().fit(X)
        assert scaler.get_feature_names_out().tolist() == ["Recency", "Frequency", "Time"]
        np.testing.assert_allclose(scaler.inverse_transform(scaler.transform(X)), X, rtol=1e-9, atol=1e-9)

    def test_subsample_of_many_rows(self):
        X = np.random.default_rng(2).normal(size=(200_003, 1))
        X[77] = 50.0
        scaler = Gaussianizer().fit(X)
        Z, _ = scaler.forward(X)
        assert abs(Z.mean()) < 0.01
        assert abs(Z.std() - 1) < 0.01
        assert Z.max() < 10
        np.testing.assert_array_equal(Gaussianizer().fit(X).knots_x_, scaler.knots_x_)

    def test_rare_value_beyond_the_subsample(self):
        X = np.zeros((400_000, 1))
        X[123_456] = 1.0  # a subsample of half the rows may miss it
        scaler = Gaussianizer().fit(X)
        np.testing.assert_array_equal(scaler.inverse(scaler.forward(X[123_450:123_460])[0])[0], X[123_450:123_460])

    def test_number_of_knots(self):
        X = draw("normal")
        assert len(Gaussianizer(n_knots=7).fit(X).knots_x_) == 7
        with pytest.raises(ValueError, match="`n_knots` is 1"):
            Gaussianizer(n_knots=1).fit(X)


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
        with pytest.raises(ValueError, match="whole numbers"):
            Dequantizer().fit(np.zeros((3, 2))).forward(X)

    def test_many_levels_of_which_few_are_used(self):
        X = np.array([[0, 16], [3, 7]])
        with pytest.warns(
            ScalingWarning, match=r"No value is above 16, where 255 could be.*Dequantizer\(levels=17\), Logit"
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

    def test_log_det_by_differences(self):
        X = np.random.default_rng(0).uniform(0.01, 0.99, (50, 3))
        # curvature: 2 / 3 * (1e-6 / 0.01)^2 < 1e-8; rounding: 1e-16 / 1e-6
        check_log_det_of_columns(Logit().fit(X), X, np.full(X.shape, 1e-6), atol=1e-8)

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


class TestScalerChain:
    def images(self) -> np.ndarray:
        X = np.random.default_rng(0).integers(0, 256, (200, 6)).astype(float)
        X[:, 0] = 0  # a border pixel
        return X

    def test_log_dets_add_up(self):
        X = self.images()
        chain = ScalerChain([Dequantizer(), Logit(), Standardizer()]).fit(X)
        Z, total = chain.forward(X, np.random.default_rng(1))
        Y, rng = X, np.random.default_rng(1)
        expected = np.zeros(len(X))
        for step in chain.steps_:
            Y, log_det = step.forward(Y, rng)
            expected += log_det
        np.testing.assert_array_equal(Z, Y)
        np.testing.assert_allclose(total, expected, rtol=1e-14)
        X_back, total_back = chain.inverse(Z)
        np.testing.assert_array_equal(X_back, X)
        # the logit of a pixel near 255 loses up to six digits: see its own test
        np.testing.assert_allclose(total_back, total, atol=1e-8)

    def test_border_pixels_are_not_constant(self):
        chain = ScalerChain([Dequantizer(), Standardizer()]).fit(self.images())
        assert chain.n_features_out_ == 6
        # u / 256 with u uniform has standard deviation 1 / (256 sqrt(12)); 200 rows know it to 5 %
        np.testing.assert_allclose(vars(chain.steps_[1])["scale_"][0], 1 / (256 * np.sqrt(12)), rtol=0.15)

    def test_same_fit_each_time(self):
        first, second = (ScalerChain([Dequantizer(), Gaussianizer()]).fit(self.images()) for _ in range(2))
        np.testing.assert_array_equal(first.transform(self.images()), second.transform(self.images()))

    def test_stochastic(self):
        assert ScalerChain([Dequantizer(), Logit()]).stochastic
        assert not ScalerChain([Standardizer(), Gaussianizer()]).stochastic

    def test_clone_and_given_steps_stay_unfitted(self):
        chain = ScalerChain([Dequantizer(levels=300), Logit(lam=0.01)])
        chain.fit(self.images())
        twin = anew(chain)
        assert [step.get_params() for step in twin.steps] == [{"levels": 300}, {"lam": 0.01}]
        assert not hasattr(chain.steps[0], "n_features_in_")

    def test_names_travel(self):
        X = transfusion_like()
        chain = ScalerChain([Standardizer(), Gaussianizer()])
        with pytest.warns(ScalingWarning, match="'Monetary'"):
            chain.fit(X)
        assert chain.get_feature_names_out().tolist() == ["Recency", "Frequency", "Time"]
        assert chain.set_output(transform="pandas").transform(X).columns.tolist() == ["Recency", "Frequency", "Time"]
        with pytest.raises(ValueError, match="feature names"):
            chain.transform(X[X.columns[::-1]])

    def test_wrong_steps(self):
        with pytest.raises(ValueError, match="`steps` is"):
            ScalerChain([np.log]).fit(self.images())  # pyright: ignore[reportArgumentType]

    def test_no_step_is_the_identity(self):
        X = np.array([[1.0, -2.0], [3.0, 4.0]])
        Z, log_det = ScalerChain([]).fit(X).forward(X)
        np.testing.assert_array_equal(Z, X)
        np.testing.assert_array_equal(log_det, [0.0, 0.0])


SCALERS = [Standardizer(), Gaussianizer(), Dequantizer(levels=2), Logit(), ScalerChain([Logit(), Gaussianizer()])]


@pytest.mark.parametrize("scaler", SCALERS, ids=lambda scaler: type(scaler).__name__)
class TestEveryScaler:
    def test_one_column(self, scaler):
        X = np.tile([[0.0], [1.0]], (10, 1))
        fitted = anew(scaler).fit(X)
        Z, log_det = fitted.forward(X)
        assert Z.shape == (20, 1)
        assert log_det.shape == (20,)
        assert Z.dtype == log_det.dtype == np.float64
        np.testing.assert_allclose(fitted.inverse(Z)[0], X, atol=1e-12)

    def test_not_fitted(self, scaler):
        for call in (scaler.forward, scaler.inverse, scaler.transform, scaler.inverse_transform):
            with pytest.raises(NotFittedError):
                call(np.zeros((2, 2)))

    def test_wrong_number_of_columns(self, scaler):
        fitted = anew(scaler).fit(np.tile([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]], (5, 1)))
        for call in (fitted.forward, fitted.inverse):
            with pytest.raises(ValueError, match=r"`[XZ]` has shape \(4, 3\).*2 columns"):
                call(np.zeros((4, 3)))
        with pytest.raises(ValueError, match="3 features"):
            fitted.transform(np.zeros((4, 3)))

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64, np.uint8, bool])
    def test_number_types(self, scaler, dtype):
        X = np.tile([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]], (5, 1))
        np.testing.assert_allclose(
            anew(scaler).fit_transform(X.astype(dtype)), anew(scaler).fit_transform(X), atol=1e-12
        )

    @pytest.mark.parametrize(
        "X", [np.empty((0, 2)), [[0.0, 1.0]], [[0.0], [np.nan]], [[0.0], [np.inf]], [["a"], ["b"]]]
    )
    def test_bad_rows(self, scaler, X):
        with pytest.raises(ValueError, match=r"sample|NaN|infinity|convert"):
            anew(scaler).fit(X)

    def test_fitted_state_is_plain(self, scaler):
        fitted = anew(scaler).fit(np.tile([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]], (5, 1)))
        todo = [fitted]
        while todo:
            for value in vars(todo.pop()).values():
                if isinstance(value, (list, tuple)) and all(isinstance(item, Scaler) for item in value):
                    todo.extend(value)
                elif isinstance(value, np.ndarray):
                    assert value.dtype.kind in "fi"
                else:
                    json.dumps(value)

    def test_input_stays_as_it_is(self, scaler):
        X = np.tile([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]], (5, 1))
        kept = X.copy()
        fitted = anew(scaler).fit(X)
        Z = fitted.transform(X)
        Z_kept = Z.copy()
        fitted.inverse(Z)
        np.testing.assert_array_equal(X, kept)
        np.testing.assert_array_equal(Z, Z_kept)


def test_no_warning_without_cause():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ScalerChain([Standardizer(), Gaussianizer()]).fit_transform(np.random.default_rng(0).normal(size=(300, 5)))


class TestSparing:
    """Columns that a curve would not describe better than a line are standardized and no more."""

    @staticmethod
    def columns(n):
        rng = np.random.default_rng(0)
        return np.column_stack(
            [rng.normal(5, 2, n), np.exp(rng.normal(size=n)), rng.normal(size=n) + 6 * (rng.random(n) < 0.5)]
        )

    @pytest.mark.parametrize("n", [300, 20_000])
    def test_normal_columns_stay_as_they_are(self, n):
        X = self.columns(n)
        sparing, full = Gaussianizer(sparing=True).fit(X), Gaussianizer().fit(X)
        Z, _ = sparing.forward(X)
        np.testing.assert_allclose(Z[:, 0], (X[:, 0] - X[:, 0].mean()) / X[:, 0].std(), atol=1e-12)
        np.testing.assert_array_equal(Z[:, 1:], full.forward(X)[0][:, 1:])

    def test_units_do_not_change_the_choice(self):
        X = self.columns(1000)
        Z = Gaussianizer(sparing=True).fit_transform(X)
        for unit in (1e-4, 1e4):
            np.testing.assert_allclose(Gaussianizer(sparing=True).fit_transform(unit * X), Z, atol=1e-9)


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
