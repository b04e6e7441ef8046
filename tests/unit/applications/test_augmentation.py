"""Weights of synthetic rows: where the ratio is known, the weighted rows have the moments of the real ones."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from flowratio.applications.augmentation import augmentation_weights
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.auto.auto import AutoRatio
from flowratio.ratios.base import OverlapWarning, Requires
from flowratio.ratios.classifier.classifier import ClassifierRatio
from flowratio.ratios.featurized.featurized import FeaturizedRatio
from flowratio.ratios.inverse import InverseRatio
from flowratio.samples.stacking import stack
from flowratio.samples.two_samples import TwoSamples
from flowratio.weights import effective_sample_size, self_normalize

RNG = np.random.default_rng(0)
SHIFT = np.array([0.6, -0.4])
X_REAL, X_SYNTHETIC = RNG.normal(size=(1500, 2)) + SHIFT, RNG.normal(size=(3000, 2))
LOG_R = X_SYNTHETIC @ SHIFT - SHIFT @ SHIFT / 2  # of N(SHIFT, I) to N(0, I)


def weights(ratio: Any = "logistic", **changed: Any) -> np.ndarray:
    return augmentation_weights(X_REAL, X_SYNTHETIC, ratio, **{"random_state": 0, **changed})


class Memory(ClassifierRatio):
    """A ratio that knows the rows it was fitted to: log r is -50 on those of q, and 0 on rows not seen."""

    requires: ClassVar[Requires] = Requires(units="own")
    rows_: Any

    def _fit(self, samples: TwoSamples) -> None:
        self.rows_ = {row.tobytes() for row in samples.X_q}

    def _log_ratio(self, X: np.ndarray) -> np.ndarray:
        return np.array([-50.0 if row.tobytes() in self.rows_ else 0.0 for row in X])


class TestTruth:
    @pytest.mark.parametrize("n_folds", [2, 5])
    def test_weighted_mean_is_that_of_real_rows(self, n_folds: int) -> None:
        w = weights(n_folds=n_folds)
        result = np.average(X_SYNTHETIC, axis=0, weights=w)
        # logistic regression matches the means of p it was fitted to; the weighted mean has the variance of p over
        # the effective draws, the mean of the real rows that of p over n
        error = math.sqrt(1 / effective_sample_size(LOG_R) + 1 / len(X_REAL))
        assert (np.abs(result - SHIFT) < 4 * error).all()
        assert (np.abs(X_SYNTHETIC.mean(axis=0) - SHIFT) > 4 * error).all()

    def test_weights_are_ratios(self) -> None:
        # a logistic regression on 2250 rows, a third of p: a coefficient has the error 1 / sqrt(2250 * 2/9) = 0.045
        error = np.abs(np.log(weights(normalize=None)) - LOG_R)
        assert (error < 4 * 0.05 * np.sqrt(1 + np.square(X_SYNTHETIC).sum(axis=1))).all()

    def test_latent_space(self) -> None:
        flow = FlowFeaturizer(n_blocks=1, hidden=(8,), max_epochs=5, patience=5, random_state=0)
        w = weights(FeaturizedRatio("logistic", featurizer=flow, random_state=0))
        # as above, and a flow of five epochs
        assert (np.abs(np.average(X_SYNTHETIC, axis=0, weights=w) - SHIFT) < 0.15).all()

    def test_default_is_chosen_by_auto_ratio(self, monkeypatch: pytest.MonkeyPatch) -> None:
        budgets = []
        original = AutoRatio.fit_prepared

        def fit_prepared(self: AutoRatio, samples: TwoSamples) -> AutoRatio:
            budgets.append(self.time_budget)
            self.candidates = ["logistic"]  # the others take their time
            return original(self, samples)

        monkeypatch.setattr(AutoRatio, "fit_prepared", fit_prepared)
        w = augmentation_weights(X_REAL[:300], X_SYNTHETIC[:300], random_state=0)
        assert budgets == [AutoRatio().time_budget]
        assert np.corrcoef(np.log(w), LOG_R[:300])[0, 1] > 0.9

    def test_each_row_is_weighted_by_a_ratio_that_has_not_seen_it(self) -> None:
        np.testing.assert_array_equal(weights(Memory()), np.ones(3000))
        fitted = Memory().fit_samples(X_REAL, X_SYNTHETIC)
        assert (fitted.log_ratio(X_SYNTHETIC) == -50).all()  # or the line above would say nothing

    def test_downstream_learner_gains(self) -> None:
        # a third of the synthetic rows has labels turned over, and stands apart from the real ones
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(600, 2)), np.ones(600, int)
        y[X[:, 0] < 0] = 0
        wrong = np.arange(600) < 200
        X_synthetic = np.where(wrong[:, None], 2 * X - [0, 6], X + 0.1 * rng.normal(size=X.shape))
        y_synthetic = np.where(wrong, 1 - y, y)
        w = augmentation_weights(X, X_synthetic, "quadratic", random_state=0)
        plain = LogisticRegression().fit(X_synthetic, y_synthetic).score(X, y)
        assert LogisticRegression().fit(X_synthetic, y_synthetic, sample_weight=w).score(X, y) > plain + 0.05


class TestSettings:
    def test_normalization(self) -> None:
        mean, total, raw = (weights(normalize=how) for how in ("mean", "sum", None))
        assert mean.mean() == pytest.approx(1, rel=1e-12)
        assert total.sum() == pytest.approx(1, rel=1e-12)
        np.testing.assert_allclose(raw / raw.sum(), total, rtol=1e-12)

    def test_flattening(self) -> None:
        np.testing.assert_array_equal(weights(gamma=0), np.ones(3000))
        raw = weights(normalize=None)
        np.testing.assert_allclose(weights(gamma=0.2, normalize=None), raw**0.2, rtol=1e-12)
        np.testing.assert_array_equal(weights(gamma=1), weights())

    def test_extreme_ratios_stay_finite(self) -> None:
        class Far(ClassifierRatio):
            def log_ratio(self, X: Any) -> np.ndarray:
                return 1e5 * np.asarray(X)[:, 0]

        fitted = Far("logistic").fit_samples(X_REAL, X_SYNTHETIC)
        for normalize in ("mean", "sum", None):
            with pytest.warns(OverlapWarning, match="of 3000, because X_real and X_synthetic hardly overlap"):
                w = weights(fitted, normalize=normalize)
            assert np.isfinite(w).all()

    def test_fitted_ratio_is_used_as_it_is(self) -> None:
        fitted = ClassifierRatio("logistic").fit_samples(X_REAL[:700], X_SYNTHETIC[:700])
        expected = self_normalize(fitted.log_ratio(X_SYNTHETIC), total=3000)
        np.testing.assert_array_equal(weights(fitted), expected)
        np.testing.assert_array_equal(weights(fitted, random_state=5), expected)

    def test_fitted_pipelines_and_tables_are_ratios(self) -> None:
        X, y = stack(X_REAL, X_SYNTHETIC)
        pipeline = make_pipeline(StandardScaler(), ClassifierRatio("logistic")).fit(X, y)
        np.testing.assert_allclose(weights(pipeline), self_normalize(pipeline.score_samples(X_SYNTHETIC), total=3000))
        real, synthetic = (
            pd.DataFrame({"a": rows[:, 0], "b": np.where(rows[:, 1] > 0, "u", "v")}) for rows in (X_REAL, X_SYNTHETIC)
        )
        table = ClassifierRatio("logistic").fit_samples(real, synthetic)
        np.testing.assert_allclose(augmentation_weights(real, synthetic, table), table.weights(synthetic))

    def test_few_rows_that_take_all_weight_are_told(self) -> None:
        far = np.random.default_rng(1).normal(12, 1, size=(200, 2))
        with pytest.warns(
            OverlapWarning, match="100 % of the rows of X_real .* columns `x1` and `x2` separate"
        ) as records:
            augmentation_weights(far, X_SYNTHETIC[:200], "logistic", random_state=0)
        assert records[-1].filename == __file__
        flat = augmentation_weights(far, X_SYNTHETIC[:200], "logistic", gamma=0, random_state=0)
        np.testing.assert_allclose(flat, 1.0)

    def test_frames_give_the_weights_of_arrays_and_nothing_is_changed(self) -> None:
        real, synthetic = (pd.DataFrame(X, columns=["a", "b"]) for X in (X_REAL, X_SYNTHETIC))
        synthetic.index = synthetic.index[::-1]
        before = synthetic.copy()
        w = augmentation_weights(real, synthetic, "logistic", random_state=0)
        assert type(w) is np.ndarray
        np.testing.assert_array_equal(w, weights())
        pd.testing.assert_frame_equal(synthetic, before)
        fitted = ClassifierRatio("logistic").fit_samples(real, synthetic)
        assert augmentation_weights(real, synthetic, fitted).shape == (3000,)  # no warning about names

    def test_weights_stand_in_the_order_of_the_rows(self) -> None:
        fitted = ClassifierRatio("logistic").fit_samples(X_REAL, X_SYNTHETIC)
        order = np.random.default_rng(1).permutation(3000)
        mixed = augmentation_weights(X_REAL, X_SYNTHETIC[order], fitted)
        np.testing.assert_allclose(mixed, weights(fitted)[order], rtol=1e-12)
        assert np.corrcoef(np.log(weights()), LOG_R)[0, 1] > 0.99  # and where they are cross-fitted

    def test_seeds(self) -> None:
        np.testing.assert_array_equal(weights(), weights())
        assert not np.array_equal(weights(), weights(random_state=1))

    def test_batches_of_torch_are_drawn_by_the_weights(self) -> None:
        import torch
        from torch.utils.data import WeightedRandomSampler

        w = weights()
        generator = torch.Generator().manual_seed(0)
        draws = list(WeightedRandomSampler(w.tolist(), 20_000, generator=generator))
        result = X_SYNTHETIC[draws].mean(axis=0)
        # 4 standard errors of a mean of 20 000 draws of unit variance
        assert (np.abs(result - np.average(X_SYNTHETIC, axis=0, weights=w)) < 4 / math.sqrt(20_000)).all()


class TestBadInput:
    @pytest.mark.parametrize("gamma", [-0.1, math.nan, math.inf, "0.2"])
    def test_power(self, gamma: Any) -> None:
        with pytest.raises(ValueError, match=r"`gamma` is .*\. Use a finite number of 0 or more"):
            weights(gamma=gamma)

    def test_normalization(self) -> None:
        with pytest.raises(ValueError, match=r"`normalize` is 'max'\. Use 'mean', 'sum' or None"):
            weights(normalize="max")

    @pytest.mark.parametrize("n_folds", [0, 1, 2.5])
    def test_folds(self, n_folds: Any) -> None:
        with pytest.raises(ValueError, match="`n_folds` is"):
            weights(n_folds=n_folds)

    def test_columns(self) -> None:
        with pytest.raises(ValueError, match="`X_real` has 1 columns but `X_synthetic` has 2"):
            augmentation_weights(X_REAL[:, :1], X_SYNTHETIC, "logistic")
        frames = pd.DataFrame(X_REAL, columns=["a", "b"]), pd.DataFrame(X_SYNTHETIC, columns=["b", "a"])
        by_name = augmentation_weights(frames[0], frames[1][["a", "b"]], "logistic", random_state=0)
        np.testing.assert_array_equal(augmentation_weights(*frames, "logistic", random_state=0), by_name)
        with pytest.raises(ValueError, match="'c' only in `X_synthetic`"):
            augmentation_weights(frames[0], frames[1].rename(columns={"a": "c"}), "logistic")
        fitted = ClassifierRatio("logistic").fit_samples(X_REAL[:, :1], X_SYNTHETIC[:, :1])
        with pytest.raises(ValueError, match="2 features"):
            weights(fitted)

    @pytest.mark.parametrize("is_fitted", [False, True])
    def test_a_column_of_text_with_other_categories_is_named(self, is_fitted: bool) -> None:
        real, synthetic = ({"x": np.arange(300) % 7, "kind": list(words) * 100} for words in ("abc", "abd"))
        frames = pl.DataFrame(real), pl.DataFrame(synthetic)
        ratio = ClassifierRatio("logistic")
        with pytest.warns(OverlapWarning, match="because column `kind` has categories in p that do not occur in q"):
            augmentation_weights(*frames, ratio.fit_samples(*frames) if is_fitted else ratio, random_state=0)

    def test_empty(self) -> None:
        with pytest.raises(ValueError, match=r"`X_synthetic` has shape \(0, 2\)"):
            augmentation_weights(X_REAL, X_SYNTHETIC[:0], "logistic")
        with pytest.raises(ValueError, match=r"`X_real` has shape \(0, 2\)"):
            augmentation_weights(X_REAL[:0], X_SYNTHETIC, "logistic")

    def test_infinite_values(self) -> None:
        X = X_REAL.copy()
        X[3, 1] = np.inf
        with pytest.raises(ValueError, match="`X_real` has 1 infinite values"):
            augmentation_weights(X, X_SYNTHETIC, "logistic")

    def test_ratio(self) -> None:
        with pytest.raises(ValueError, match=r"`ratio` is 'logit'\. Did you mean 'logistic'\? Use a ratio"):
            weights("logit")
        with pytest.raises(TypeError, match=r"`ratio` is 3\. Use an object with `fit\(X, y\)` and `log_ratio\(X\)`"):
            weights(3)
        fitted = ClassifierRatio("logistic").fit_samples(X_REAL, X_SYNTHETIC)
        with pytest.warns(UserWarning, match=r"looks inverted.*fit_samples\(X_real, X_synthetic\)"):
            weights(fitted.inverse())
        swapped = ClassifierRatio("logistic").fit_samples(X_SYNTHETIC, X_REAL)
        np.testing.assert_allclose(weights(swapped.inverse()), weights(fitted), rtol=1e-3)
        with pytest.raises(TypeError, match="which is synthetic/real"):
            weights(InverseRatio(ClassifierRatio("logistic")))
