"""The Gaussianizer against derivatives by differences, and numerical integrals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from flowratio.scaling.base import ScalingWarning
from flowratio.scaling.gaussianizer import Gaussianizer

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
    def test_log_det_by_differences(self, check_log_det: Any, shape):
        X = draw(shape)
        scaler = Gaussianizer().fit(X)
        x = scaler.inverse(np.linspace(-6, 6, 997).reshape(-1, 1))[0]
        # central differences over 1e-4 in z: error of about 1e-8 from curvature and 1e-12 from rounding, but more where
        # the slope bends at a knot, and where 1e9 leaves 1e-7 of 1
        slope = np.exp(scaler.forward(x)[1])[:, None]
        check_log_det(scaler, x, 1e-4 / slope, atol=5e-3 if shape == "huge" else 2e-3)

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

    def test_leaves_out_what_the_standardizer_leaves_out(self, transfusion: pd.DataFrame):
        X = transfusion
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
