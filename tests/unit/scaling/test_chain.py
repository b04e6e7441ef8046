"""Chains of scalers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from flowratio.scaling.base import ScalingWarning
from flowratio.scaling.chain import ScalerChain
from flowratio.scaling.gaussianizer import Gaussianizer
from flowratio.scaling.images import Dequantizer, Logit
from flowratio.scaling.standardizer import Standardizer


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
        twin: Any = clone(chain)
        assert [step.get_params() for step in twin.steps] == [{"levels": 300}, {"lam": 0.01}]
        assert not hasattr(chain.steps[0], "n_features_in_")

    def test_names_travel(self, transfusion: pd.DataFrame):
        X = transfusion
        chain = ScalerChain([Standardizer(), Gaussianizer()])
        with pytest.warns(ScalingWarning, match="'Monetary'"):
            chain.fit(X)
        assert chain.get_feature_names_out().tolist() == ["Recency", "Frequency", "Time"]
        assert chain.set_output(transform="pandas").transform(X).columns.tolist() == ["Recency", "Frequency", "Time"]
        with pytest.raises(ValueError, match="feature names"):
            chain.transform(X[X.columns[::-1]])

    def test_columns_that_two_steps_leave_out_are_one_warning(self, transfusion: pd.DataFrame):
        chain = ScalerChain([Standardizer(), Gaussianizer()])
        with pytest.warns(ScalingWarning, match="'Monetary'") as record:
            chain.fit(transfusion)
        assert len(record) == 1
        changed = transfusion.assign(Site=transfusion["Site"] + (np.arange(len(transfusion)) == 3))
        with pytest.warns(ScalingWarning, match="In 1 of 300 rows") as record:
            chain.transform(changed)
        assert len(record) == 1
        chain.forward(changed.to_numpy(np.float64))  # a warning would be an error here
        quiet = ScalerChain([Dequantizer(), Standardizer()]).fit_array(np.eye(9)[:, :3] * 5)
        assert quiet.fit_message().startswith("The largest value is 5, but 255 is possible.")

    def test_wrong_steps(self):
        with pytest.raises(ValueError, match="`steps` is"):
            ScalerChain([np.log]).fit(self.images())  # pyright: ignore[reportArgumentType]

    def test_no_step_is_the_identity(self):
        X = np.array([[1.0, -2.0], [3.0, 4.0]])
        Z, log_det = ScalerChain([]).fit(X).forward(X)
        np.testing.assert_array_equal(Z, X)
        np.testing.assert_array_equal(log_det, [0.0, 0.0])
