"""The standardizer against closed forms."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from flowratio.scaling.base import ScalingWarning
from flowratio.scaling.standardizer import Standardizer


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

    def test_transfusion_columns_are_left_out_and_said(self, transfusion: pd.DataFrame):
        X = transfusion
        with pytest.warns(
            ScalingWarning, match=r"2 of 5.*'Monetary' \(a linear combination of 'Frequency'\).*'Site' \(constant\)"
        ):
            scaler = Standardizer().fit(X)
        assert scaler.n_features_out_ == 3
        assert scaler.get_feature_names_out().tolist() == ["Recency", "Frequency", "Time"]
        Z, log_det = scaler.forward(X.to_numpy())
        X_back, _ = scaler.inverse(Z)
        np.testing.assert_allclose(X_back, X, rtol=1e-12, atol=1e-12)
        values = X[["Recency", "Frequency", "Time"]].to_numpy()
        np.testing.assert_allclose(log_det, -np.log(values.std(axis=0)).sum())

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
        assert scaler.columns_.tolist() == [0, 1, 2]
        assert scaler.redundant_.tolist() == [3, 4, 5]

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
        with pytest.warns(ScalingWarning, match=r"column 1 \(constant\), column 2 \(constant\)"):
            scaler = Standardizer().fit(X)
        np.testing.assert_allclose(scaler.inverse(scaler.forward(X)[0])[0], X, rtol=1e-14)

    def test_constants_are_rebuilt_to_the_bit(self):
        X = np.column_stack([np.random.default_rng(7).normal(size=3000), np.full(3000, 0.1)])  # a sum of tenths rounds
        with pytest.warns(ScalingWarning, match="constant"):
            scaler = Standardizer().fit(X)
        np.testing.assert_array_equal(scaler.inverse(scaler.forward(X)[0])[0][:, 1], X[:, 1])

    def test_rows_off_the_plane_are_counted(self, transfusion: pd.DataFrame):
        X = transfusion
        with pytest.warns(ScalingWarning, match="2 of 5 columns are left out of z"):
            scaler = Standardizer().fit(X)
        scaler.transform(X)
        X.loc[3, "Monetary"] += 1
        X.loc[[5, 8], "Site"] = 5
        with pytest.warns(ScalingWarning, match="In 3 of 300 rows, columns that were constant"):
            scaler.transform(X)

    def test_arrays_are_fitted_and_mapped_without_a_warning(self, transfusion: pd.DataFrame):
        X = transfusion.to_numpy(np.float64, copy=True)
        scaler = Standardizer().fit_array(X, list(transfusion.columns))  # a warning would be an error here
        assert scaler.fit_message().startswith("2 of 5 columns are left out of z: column 2 (a linear combination")
        X[[4, 7], 4] = 9
        assert np.flatnonzero(scaler.off_plane(X)).tolist() == [4, 7]
        np.testing.assert_array_equal(scaler.select(X), X[:, [0, 1, 3]])
        scaler.inverse(scaler.forward(X)[0])
        assert not Standardizer().fit_array(X[:, :2]).fit_message()

    def test_nothing_varies(self):
        with pytest.raises(ValueError, match="Every column of `X` is constant"):
            Standardizer().fit(np.ones((5, 2)))

    def test_values_too_large(self):
        with pytest.raises(ValueError, match=r"The maximum is 1e\+300"):
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
