"""A base ratio underneath another one: the identity, cross-fitting, weights, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.decomposition import PCA

from flowratio import load, save
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.base import RatioEstimator, Requires
from flowratio.ratios.classifier.classifier import ClassifierRatio
from flowratio.ratios.featurized import featurized as module
from flowratio.ratios.featurized.base_ratio import base_log_ratio, fit_base, is_better_over_base, n_left, over_base
from flowratio.ratios.featurized.featurized import FeaturizedRatio
from flowratio.ratios.neural.network_ratio import NetworkRatio
from flowratio.samples.two_samples import TwoSamples
from flowratio.scaling.chain import ScalerChain
from flowratio.scaling.images import Dequantizer
from flowratio.scaling.standardizer import Standardizer

# most runs here are cut short on purpose
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::flowratio.ratios.base.OverlapWarning"),
]


class Linear(RatioEstimator):
    """log r = slope times that of N(1, 1) to N(0, 1) in each column, plus a shift. It learns nothing."""

    requires = Requires(units="own", rows="given")

    def __init__(self, slope: float = 1.0, shift: float = 0.0) -> None:
        self.slope, self.shift = slope, shift

    def _fit(self, samples: TwoSamples) -> None:
        self.n_rows_ = len(samples.X)

    def _log_ratio(self, X: np.ndarray) -> np.ndarray:
        return self.slope * truth(X) + self.shift


class Memory(RatioEstimator):
    """log r is 1000 on the rows of its fit, and the truth on others."""

    requires = Requires(units="own", rows="given")

    def _fit(self, samples: TwoSamples) -> None:
        self.rows_ = samples.X

    def _log_ratio(self, X: np.ndarray) -> np.ndarray:
        return np.where(is_in(X, self.rows_), 1000.0, truth(X))


class Recorder(RatioEstimator):
    """r = 1. It stores the samples of its fit, several noisy versions of each row."""

    requires = Requires(units="own", rows="given", noise=True)

    def _fit(self, samples: TwoSamples) -> None:
        self.samples_ = samples

    def _log_ratio(self, X: np.ndarray) -> np.ndarray:
        return np.zeros(len(X))


def truth(X: np.ndarray) -> np.ndarray:
    return X.sum(axis=1) - X.shape[1] / 2


def is_in(X: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return np.isin(X[:, 0], rows[:, 0])


def gaussians(n_p: int = 300, n_q: int = 400, d: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(1, 1, (n_p, d)), rng.normal(0, 1, (n_q, d))


def samples_of(X_p: np.ndarray, X_q: np.ndarray, w: Any = None) -> TwoSamples:
    X = np.concatenate([X_p, X_q])
    return TwoSamples.of(X, np.arange(len(X)) < len(X_p), np.ones(len(X)) if w is None else w)


def linear_map(estimator: Any = "logistic", **settings: Any) -> FeaturizedRatio:
    return FeaturizedRatio(estimator, **{"featurizer": Standardizer(), "random_state": 0, **settings})


def flow(**changed: Any) -> FlowFeaturizer:
    return FlowFeaturizer(**{"n_blocks": 2, "hidden": (8,), "max_epochs": 3, "patience": 3, **changed})


X_P, X_Q = gaussians()
X_NEW = np.random.default_rng(1).normal(0.5, 1.5, size=(500, 2))


class TestWeights:
    @pytest.mark.parametrize("base", [lambda x: x, lambda x: 3 * x - 1, np.sin, np.zeros_like])
    def test_rest_is_r_divided_by_the_base(self, base: Any) -> None:
        # a fine grid with the densities of N(1, 1) and N(0, 1) as weights stands for infinitely many rows
        x = np.linspace(-8, 9, 2001)
        p, q = (np.exp(-0.5 * (x - mean) ** 2) for mean in (1, 0))
        b = base(x)
        samples = samples_of(x[:, None], x[:, None], np.concatenate([p, q]) + 1e-300)
        rest, constant = over_base(samples, np.concatenate([b, b]))
        w_p, w_q = (w / w.sum() for w in (rest.w_p, rest.w_q))
        log_r = b + constant + np.log(w_p / w_q)
        inside = np.abs(b) < 15  # the smallest weight, 1e-9, is exp(-20)
        np.testing.assert_allclose(log_r[inside], (x - 0.5)[inside], rtol=0, atol=1e-4)
        by_hand = math.log((p @ expit(-b)) / p.sum()) - math.log((q @ expit(b)) / q.sum())
        assert constant == pytest.approx(by_hand, abs=1e-6)

    @pytest.mark.parametrize("size", [0.1, 3.0, 1000.0])
    def test_are_positive_bounded_and_of_the_same_total(self, size: float) -> None:
        w = np.random.default_rng(0).integers(1, 5, 700).astype(float)
        samples = samples_of(X_P, X_Q, w)
        log_base = size * np.random.default_rng(1).normal(size=700)
        rest, _ = over_base(samples, log_base)
        assert rest.w_p.sum() == pytest.approx(samples.w_p.sum())
        assert rest.w_q.sum() == pytest.approx(samples.w_q.sum())
        assert rest.log_odds == samples.log_odds
        assert rest.w.min() > 0
        for part, sign in zip(samples.parts, (-1, 1), strict=True):
            tilt = rest.w[part] / samples.w[part]
            share = np.average(expit(sign * log_base[part]), weights=samples.w[part])
            np.testing.assert_allclose(tilt * share, np.maximum(expit(sign * log_base[part]), 1e-9), rtol=1e-6)
        np.testing.assert_array_equal(rest.X, samples.X)

    def test_effective_rows_that_are_left(self) -> None:
        samples, log_base = samples_of(X_P, X_Q), truth(np.concatenate([X_P, X_Q]))
        tilts = expit(-truth(X_P)), expit(truth(X_Q))
        assert n_left(samples, log_base) == pytest.approx(min(t.sum() ** 2 / np.square(t).sum() for t in tilts))
        assert n_left(samples, np.zeros(700)) == pytest.approx(300)
        only_wrong = np.where(np.arange(700) % 350 < 10, 0.0, np.where(samples.y == 1, 30.0, -30.0))
        assert n_left(samples, only_wrong) == pytest.approx(10)
        assert n_left(samples, np.where(samples.y == 1, 800.0, -800.0)) == 0

    def test_a_base_of_1_changes_nothing(self) -> None:
        samples = samples_of(X_P, X_Q)
        rest, constant = over_base(samples, np.zeros(700))
        np.testing.assert_allclose(rest.w, samples.w, rtol=1e-12)
        assert constant == pytest.approx(0, abs=1e-12)


class TestCrossFit:
    def test_no_row_is_scored_by_a_model_that_saw_it(self) -> None:
        samples = samples_of(X_P, X_Q)
        base = fit_base([Memory()], samples, 0)
        assert base.shares.tolist() == pytest.approx([1.0])
        np.testing.assert_allclose(base.log_r, truth(samples.X), rtol=0, atol=1e-12)
        folds = base.models[0]
        assert len(folds) == 5
        held_out = [~is_in(samples.X, model.rows_) for model in folds]
        np.testing.assert_array_equal(np.sum(held_out, axis=0), 1)  # each row once
        for of_fold in held_out:  # a fold has the same share of both samples
            assert [of_fold[part].sum() for part in samples.parts] == [60, 80]

    def test_score_of_new_rows_is_the_mean_over_folds_and_ratios(self) -> None:
        samples = samples_of(X_P, X_Q)
        base = fit_base(["lda", "qda"], samples, 0)
        models = [[ClassifierRatio("lda").fit_samples(X_P[k::2], X_Q[k::2]) for k in (0, 1)] for _ in range(2)]
        by_hand = sum(
            share * np.mean([model.log_ratio(X_NEW) for model in folds], axis=0)
            for share, folds in zip((0.3, 0.6), models, strict=True)
        )
        np.testing.assert_allclose(base_log_ratio(models, np.array([0.3, 0.6]), X_NEW), by_hand, rtol=0, atol=1e-12)
        # two Gaussians of equal covariance: log r is linear, of 3 coefficients. Its mean squared error is about
        # 3 / (0.2 · 700) = 0.02 nats², and four times that is beyond chance
        assert np.mean((base_log_ratio(base.models, base.shares, X_NEW) - truth(X_NEW)) ** 2) < 0.09

    def test_rows_of_a_group_are_in_one_fold(self) -> None:
        samples = samples_of(X_P, X_Q)
        samples = replace(samples, groups=np.arange(700) // 4)
        for model in fit_base([Memory()], samples, 0).models[0]:
            seen = is_in(samples.X, model.rows_).reshape(-1, 4)
            assert (seen.all(axis=1) | ~seen.any(axis=1)).all()

    def test_no_base_if_the_samples_are_equal_or_tiny(self) -> None:
        rng = np.random.default_rng(0)
        same = fit_base(["lda"], samples_of(rng.normal(size=(300, 2)), rng.normal(size=(300, 2))), 0)
        assert not same.models
        assert not same.log_r.any()
        tiny = fit_base(["lda"], samples_of(X_P[:3], X_Q), 0)
        assert not tiny.models
        assert tiny.log_r.shape == (403,)

    def test_many_rows_have_two_folds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("flowratio.ratios.featurized.base_ratio._MANY_ROWS", 699)
        assert len(fit_base([Linear()], samples_of(X_P, X_Q), 0).models[0]) == 2


class TestEstimate:
    def test_an_exact_base_is_kept(self) -> None:
        model = linear_map(Linear(0.0), base=Linear()).fit_samples(X_P, X_Q)  # the estimator is r = 1
        np.testing.assert_allclose(model.log_ratio(X_NEW), truth(X_NEW) + model.base_constant_, rtol=0, atol=1e-12)
        tilts = expit(-truth(X_P)), expit(truth(X_Q))  # their means are equal for infinitely many rows
        errors = [tilt.std() / tilt.mean() / math.sqrt(len(tilt)) for tilt in tilts]
        assert abs(model.base_constant_) < 4 * math.hypot(*errors)  # four standard errors, here about 0.2

    @pytest.mark.parametrize("base", [Linear(1.0, 1.5), Linear(0.5), Linear(1.0, -1.0)], ids=repr)
    @pytest.mark.parametrize("features", ["z", "x+z"])
    def test_a_wrong_base_is_repaired(self, base: Linear, features: Any) -> None:
        X_p, X_q = gaussians(2000, 2000)
        held_out = np.concatenate(gaussians(1000, 1000, seed=1))
        model = linear_map(base=base, features=features).fit_samples(X_p, X_q)
        assert len(model.base_models_) == 1
        # the rest is linear with 3 coefficients: 3 / (0.2 · 4000) = 0.004 nats² for rows of equal weight. The tilt
        # halves their effective number, and 5 times the mean is beyond the 0.999 quantile of χ² with 3 degrees
        limit = 0.04
        assert np.mean((model.log_ratio(held_out) - truth(held_out)) ** 2) < limit
        unrepaired = base_log_ratio(model.base_models_, model.base_shares_, held_out)
        assert np.mean((unrepaired - truth(held_out)) ** 2) > limit

    def test_equals_the_steps_by_hand(self) -> None:
        model = linear_map(base="lda", features="x+z").fit_samples(X_P, X_Q)
        Z = module.encoded(model.featurizer_, X_NEW)
        by_hand = np.mean([m.log_ratio_prepared(X_NEW) for m in model.base_models_[0]], axis=0) * model.base_shares_[0]
        by_hand += model.base_constant_ + model.ratio_.log_ratio(np.hstack([X_NEW, Z]))
        np.testing.assert_allclose(model.log_ratio(X_NEW), by_hand, rtol=0, atol=1e-9)

    @pytest.mark.parametrize("slope", [4.0, 20.0, 1000.0])  # also if the weights of all rows are the least
    def test_a_base_that_separates_the_samples_is_not_used(self, slope: float) -> None:
        model = linear_map(base=Linear(slope)).fit_samples(X_P + 5, X_Q - 5)
        assert model.base_models_ == []
        assert model.base_constant_ == 0
        plain = linear_map(base=None).fit_samples(X_P + 5, X_Q - 5)
        np.testing.assert_array_equal(model.log_ratio(X_NEW), plain.log_ratio(X_NEW))

    @pytest.mark.parametrize("estimator", ["logistic", "kliep", NetworkRatio("mlp", hidden=(4,), max_epochs=3)])
    def test_weights_are_repetitions(self, estimator: Any) -> None:
        w_p, w_q = (np.random.default_rng(k).integers(1, 4, size=n) for k, n in ((0, 300), (1, 400)))
        model = linear_map(estimator, base=["lda", "qda"], features="x+z").fit_samples(X_P, X_Q, w_p, w_q)
        assert model.base_models_
        weighted = model.log_ratio(X_NEW)
        repeated = model.fit_samples(np.repeat(X_P, w_p, axis=0), np.repeat(X_Q, w_q, axis=0)).log_ratio(X_NEW)
        np.testing.assert_allclose(weighted, repeated, rtol=0, atol=1e-9)
        assert np.abs(weighted - model.fit_samples(X_P, X_Q).log_ratio(X_NEW)).max() > 1e-3

    def test_same_seed_same_bits_in_any_order(self) -> None:
        rng = np.random.default_rng(0)
        fits = [(X_P, X_Q), (X_P, X_Q), (rng.permutation(X_P), rng.permutation(X_Q))]
        a, b, c = (linear_map(base=["lda"]).fit_samples(*rows) for rows in fits)
        np.testing.assert_array_equal(a.log_ratio(X_NEW), b.log_ratio(X_NEW))
        np.testing.assert_allclose(a.log_ratio(X_NEW), c.log_ratio(X_NEW), rtol=0, atol=1e-9)

    def test_inverse(self) -> None:
        model = linear_map(base="lda").fit_samples(X_P, X_Q)
        np.testing.assert_array_equal(model.inverse().log_ratio(X_NEW), -model.log_ratio(X_NEW))

    def test_versions_of_a_row_have_one_weight(self) -> None:
        rng = np.random.default_rng(0)
        images = rng.permutation(256 * 256)[:200, None] // [[256, 1]] % 256  # no two are equal
        images[:80] //= 2
        images = np.unique(images, axis=0)
        y = np.arange(len(images)) < 80
        chain = ScalerChain([Dequantizer(), Standardizer()])
        model = linear_map(Recorder(), featurizer=chain, base="lda", features="x+z").fit(images, y)
        samples = model.ratio_.samples_
        assert model.base_models_
        assert len(samples.X) == 5 * len(images)
        assert len(np.unique(samples.w)) > 20
        for part in samples.parts:
            for group in np.unique(samples.groups[part]):
                rows = samples.groups[part] == group
                assert len(np.unique(samples.w[part][rows])) == 1
                assert len(np.unique(samples.X[part][rows, :2], axis=0)) == 1  # x has no noise, and z has
                assert len(np.unique(samples.X[part][rows, 2:], axis=0)) == 5

    def test_mixed_tables(self) -> None:
        rng = np.random.default_rng(0)
        n, cities = 400, np.array([f"city {k}" for k in range(150)])
        frame = pd.DataFrame(
            {"age": rng.normal(40, 10, 2 * n), "kind": rng.choice(["a", "b"], 2 * n), "city": rng.choice(cities, 2 * n)}
        )
        y = np.arange(2 * n) < n
        frame.loc[y, "age"] += 10.0
        model = linear_map(base=["lda", "additive"], features="x+z").fit(frame, y)
        assert model.base_models_
        log_r = model.log_ratio(frame)
        # N(50, 100) to N(40, 100): a linear log r of variance 1 under each, which r = 1 misses
        expected = (frame["age"].to_numpy() - 45) / 10
        assert np.mean((log_r - expected) ** 2) < 0.25 * expected.var()


class TestChoice:
    def test_an_exact_base_is_better_than_none(self) -> None:
        samples = samples_of(X_P, X_Q)
        assert is_better_over_base(lambda: Linear(0.0), samples, truth(samples.X), 0)
        assert not is_better_over_base(lambda: Linear(0.0), samples, -truth(samples.X), 0)

    def test_judges_are_not_fitted(self) -> None:
        fits: list[Memory] = []

        def new() -> Memory:
            fits.append(Memory())
            return fits[-1]

        samples = samples_of(X_P, X_Q)
        is_better_over_base(new, samples, np.zeros(700), 0)
        for model in fits:
            seen = is_in(samples.X, model.rows_)
            assert [(~seen[part]).sum() for part in samples.parts] == [60, 80]

    def network(self, **settings: Any) -> FeaturizedRatio:
        network = NetworkRatio("mlp", hidden=(4,), max_epochs=3)
        return FeaturizedRatio(network, **{"featurizer": flow(), "random_state": 0, **settings})

    def test_networks_have_a_base_by_default(self) -> None:
        model = self.network().fit_samples(X_P, X_Q)  # a network of three epochs cannot do without
        assert model.base_models_
        assert model.base_shares_.sum() <= 1 + 1e-9
        assert not model.is_latent()

    @pytest.mark.parametrize(
        "settings",
        [
            {"base": None},
            {"base": []},
            {"estimator": "logistic"},
            {"estimator": NetworkRatio("relu", hidden=(4,), max_epochs=3)},
            {"featurizer": Standardizer()},
        ],
        ids=str,
    )
    def test_others_have_none(self, settings: Any) -> None:
        model = self.network().set_params(**settings).fit_samples(X_P, X_Q)
        assert model.base_models_ == []

    def test_many_columns_have_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_MAX_BASE_COLUMNS", 1)
        assert self.network().fit_samples(X_P, X_Q).base_models_ == []

    def test_a_base_that_does_not_help_is_left_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "is_better_over_base", lambda *args: False)
        assert self.network().fit_samples(X_P, X_Q).base_models_ == []
        assert self.network(base=["lda"]).fit_samples(X_P, X_Q).base_models_  # a base that you name is always used


class TestFeatures:
    @pytest.mark.parametrize("featurizer", [flow(), Standardizer()], ids=["flow", "scaler"])
    def test_x_and_z_stand_next_to_each_other(self, featurizer: Any) -> None:
        model = linear_map(Recorder(), featurizer=featurizer, features="x+z").fit_samples(X_P, X_Q)
        X = model.ratio_.samples_.X
        assert X.shape == (700, 4)
        assert sorted(X[:, :2].tolist()) == sorted(np.concatenate([X_P, X_Q]).tolist())
        np.testing.assert_allclose(X[:, 2:], module.encoded(model.featurizer_, X[:, :2]), rtol=0, atol=1e-9)
        assert not model.is_latent()

    @pytest.mark.parametrize(
        ("settings", "features"),
        [
            ({}, "x+z"),
            ({"features": "z"}, "z"),
            ({"estimator": "logistic"}, "z"),
            ({"estimator": NetworkRatio("relu", hidden=(4,), max_epochs=2)}, "z"),
            ({"featurizer": Standardizer()}, "z"),
            ({"featurizer": flow(scaling="image")}, "z"),  # noise: z is another space than x
        ],
        ids=str,
    )
    def test_defaults(self, settings: Any, features: str) -> None:
        rng = np.random.default_rng(0)
        pixels = rng.integers(0, 256, (120, 4))
        pixels[:50] //= 2
        network = NetworkRatio("mlp", hidden=(4,), max_epochs=2)
        settings = {"estimator": network, "featurizer": flow(), "base": None, **settings}
        model = FeaturizedRatio(random_state=0, **settings).fit(pixels, np.arange(120) < 50)
        assert model.features_ == features
        assert model.is_latent() == (features == "z")
        assert model.ratio_.n_features_in_ == (8 if features == "x+z" else 4)

    def test_a_base_makes_the_ratio_not_latent(self) -> None:
        assert linear_map(features="z").fit_samples(X_P, X_Q).is_latent()
        assert not linear_map(features="z", base="lda").fit_samples(X_P, X_Q).is_latent()

    def test_additive_only_with_an_additive_base(self) -> None:
        assert linear_map("additive").is_additive()
        assert linear_map("additive", base=["additive", ClassifierRatio("lda")], features="x+z").is_additive()
        assert not linear_map("additive", base="qda").is_additive()


class TestBadSettings:
    @pytest.fixture(autouse=True)
    def no_flow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Settings are checked before a flow is trained."""

        def fail(*args: Any, **settings: Any) -> Any:
            raise AssertionError

        monkeypatch.setattr("flowratio.latent.featurizer.train", fail)

    @pytest.mark.parametrize("wrap", [lambda ratio: ratio, lambda ratio: ["lda", ratio]], ids=["alone", "list"])
    def test_a_fitted_base(self, wrap: Any) -> None:
        fitted = ClassifierRatio("lda").fit_samples(X_P, X_Q)
        with pytest.raises(ValueError, match=r"`base` has .*, which is fitted\. .* Use an unfitted ratio"):
            FeaturizedRatio("logistic", base=wrap(fitted)).fit_samples(X_P, X_Q)

    @pytest.mark.parametrize("base", ["lda2", ["lda", "nothing"], ("Auto",)], ids=str)
    def test_unknown_names(self, base: Any) -> None:
        with pytest.raises(ValueError, match=r"`base` is '(lda2|nothing|Auto)'\..* Use a ratio, or one of lda, "):
            FeaturizedRatio("logistic", base=base).fit_samples(X_P, X_Q)

    @pytest.mark.parametrize("base", [3, ClassifierRatio, Standardizer(), [None]], ids=str)
    def test_no_ratios(self, base: Any) -> None:
        with pytest.raises(TypeError, match=r"`base` is .*\. Use (an object with `fit\(X, y\)`|ratios)"):
            FeaturizedRatio("logistic", base=base).fit_samples(X_P, X_Q)

    def test_an_estimator_without_weights(self) -> None:
        class Foreign:
            def fit(self, X: Any, y: Any) -> Foreign:
                return self

            def log_ratio(self, X: Any) -> Any:
                return np.zeros(len(X))

        with pytest.raises(ValueError, match=r"`base` is set, but .* takes no weights\. Use `base=None`"):
            FeaturizedRatio(Foreign(), base="lda").fit_samples(X_P, X_Q)
        assert linear_map(Foreign()).fit_samples(X_P, X_Q).base_models_ == []

    @pytest.mark.parametrize("features", ["x", "z+x", "", 3])
    def test_features(self, features: Any) -> None:
        with pytest.raises(ValueError, match=r"`features` is .*\. Use one of z, x\+z"):
            FeaturizedRatio("logistic", features=features).fit_samples(X_P, X_Q)

    def test_featurizers_of_other_libraries(self) -> None:
        with pytest.raises(TypeError, match=r"`featurizer` is PCA\(\)\. Use a `FlowFeaturizer`, a scaler of flowratio"):
            FeaturizedRatio("logistic", featurizer=PCA(), features="x+z").fit_samples(X_P, X_Q)  # type: ignore[arg-type]


class TestSaving:
    @pytest.mark.parametrize("features", ["z", "x+z"])
    def test_a_base_of_several_ratios(self, features: Any, tmp_path: Path) -> None:
        rng = np.random.default_rng(0)
        X_p, X_q = 0.7 * X_P, np.exp(0.5 * X_Q) * rng.choice([-1, 1], X_Q.shape)
        base = ["lda", ClassifierRatio("qda"), "additive"]
        model = linear_map(base=base, features=features).fit_samples(X_p, X_q)
        assert model.base_models_
        save(model, tmp_path)
        loaded = load(tmp_path)
        np.testing.assert_array_equal(loaded.log_ratio(X_NEW), model.log_ratio(X_NEW))
        assert [len(folds) for folds in loaded.base_models_] == [5] * len(model.base_models_)
        np.testing.assert_array_equal(loaded.base_shares_, model.base_shares_)
        assert (loaded.features_, loaded.base_constant_) == (features, model.base_constant_)
        assert loaded.is_latent() == model.is_latent()

    def test_the_default(self, tmp_path: Path) -> None:
        network = NetworkRatio("mlp", hidden=(4,), max_epochs=3)
        model = FeaturizedRatio(network, featurizer=flow(), random_state=0).fit_samples(X_P, X_Q)
        assert model.base_models_
        save(model, tmp_path)
        loaded = load(tmp_path)
        np.testing.assert_array_equal(loaded.log_ratio(X_NEW), model.log_ratio(X_NEW))
        np.testing.assert_array_equal(loaded.fit_samples(X_P, X_Q).log_ratio(X_NEW), model.log_ratio(X_NEW))
