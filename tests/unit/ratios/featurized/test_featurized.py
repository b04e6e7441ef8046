"""FeaturizedRatio against the two steps by hand, and what it does with maps and ratios of all kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from flowratio import load, save
from flowratio.flows import MAF
from flowratio.latent import featurizer as featurizer_module
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.base import RatioEstimator
from flowratio.ratios.classifier.classifier import ClassifierRatio
from flowratio.ratios.featurized import featurized as module
from flowratio.ratios.featurized.featurized import FeaturizedRatio, is_fitted, mixture_rows
from flowratio.ratios.kernel.kliep import KLIEP
from flowratio.ratios.neural.network_ratio import NetworkRatio
from flowratio.ratios.neural.networks import PairedRows
from flowratio.ratios.registry import RATIOS, new_ratio
from flowratio.samples.rows import WeightedRows
from flowratio.samples.stacking import stack
from flowratio.samples.two_samples import TwoSamples
from flowratio.scaling.base import Pair, Scaler, ScalingWarning
from flowratio.scaling.chain import ScalerChain
from flowratio.scaling.gaussianizer import Gaussianizer
from flowratio.scaling.images import Dequantizer, Logit
from flowratio.scaling.standardizer import Standardizer

# most runs here are cut short on purpose
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::flowratio.ratios.base.OverlapWarning"),
]


def flow(**changed: Any) -> FlowFeaturizer:
    return FlowFeaturizer(**{"n_blocks": 2, "hidden": (8,), "max_epochs": 3, "patience": 3, **changed})


def quick(estimator: Any = "logistic", **changed: Any) -> FeaturizedRatio:
    return FeaturizedRatio(estimator, **{"featurizer": flow(), "random_state": 0, **changed})


def two_samples(n_p: int = 80, n_q: int = 120, d: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n_p, d)) + 0.7, rng.normal(size=(n_q, d))


X, Y = stack(*two_samples())
X_NEW = np.random.default_rng(1).normal(size=(50, 2))


class Recorder(Scaler):
    """A map that changes nothing, and stores the rows that it was fitted to."""

    rows_: np.ndarray

    def _fit(self, X: np.ndarray, names: Any) -> None:
        self.rows_ = X

    def _forward(self, X: np.ndarray, rng: Any) -> Pair:
        return X, np.zeros(len(X))

    def _inverse(self, Z: np.ndarray) -> Pair:
        return Z, np.zeros(len(Z))


def rows_of_the_map(**settings: Any) -> np.ndarray:
    """Return the rows of X, Y that a map is fitted to."""
    fitted = FeaturizedRatio("logistic", featurizer=Recorder(), **settings).fit(X, Y)
    assert isinstance(fitted.featurizer_, Recorder)
    return fitted.featurizer_.rows_


def searched(model: Any, grid: Any) -> Any:
    settings: Any = {"cv": 2, "error_score": "raise"}
    return GridSearchCV(model, grid, **settings).fit(X, Y)


class TrainedFlows:
    """Stands for `train`, and counts its calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.original, self.calls = featurizer_module.train, []
        monkeypatch.setattr(featurizer_module, "train", self)

    def __call__(self, *args: Any, **settings: Any) -> Any:
        self.calls.append(args)
        return self.original(*args, **settings)


@pytest.fixture
def trained_flows(monkeypatch: pytest.MonkeyPatch) -> TrainedFlows:
    return TrainedFlows(monkeypatch)


class TestAlgorithm:
    @pytest.mark.parametrize("name", ["logistic", "mlp"])
    def test_is_a_flow_of_all_rows_then_a_ratio_of_z(self, name: str) -> None:
        ratio = ClassifierRatio(name) if name == "logistic" else NetworkRatio("mlp", hidden=(8,), max_epochs=5)
        model = quick(ratio, features="z", base=None).fit(X, Y)
        rows = rows_of_the_map()  # both samples, in an order of their own
        assert sorted(rows.tolist()) == sorted(X.tolist())
        by_hand = flow(random_state=0).fit(rows)
        by_hand.flow_.double()
        of_z: Any = clone(ratio)
        of_z.set_params(random_state=0).fit(by_hand.transform(X), Y)
        np.testing.assert_array_equal(model.featurizer_.transform(X), by_hand.transform(X))
        np.testing.assert_allclose(model.log_ratio(X_NEW), of_z.log_ratio(by_hand.transform(X_NEW)), rtol=0, atol=1e-9)

    @pytest.mark.parametrize("ratio", ["logistic", "kliep", "mlp"])
    def test_ratio_of_x_is_the_ratio_of_z(self, ratio: str) -> None:
        model = quick(ratio, features="z", base=None).fit(X, Y)
        np.testing.assert_array_equal(
            model.log_ratio(X_NEW), model.ratio_.log_ratio(model.featurizer_.transform(X_NEW))
        )

    def test_default_is_an_mlp_of_a_default_flow(self) -> None:
        model = FeaturizedRatio(random_state=0).fit(X, Y)
        assert repr(model.ratio_) == repr(NetworkRatio("mlp", random_state=0))
        assert repr(model.featurizer_) == repr(FlowFeaturizer(random_state=0))

    def test_a_map_to_normal_columns_makes_a_ratio_of_logs_linear(self) -> None:
        rng = np.random.default_rng(0)
        X_p, X_q = np.exp(rng.normal(1.0, 1.0, (2000, 1))), np.exp(rng.normal(0.0, 1.0, (2000, 1)))
        log_x = np.linspace(-1, 2, 31)
        models = FeaturizedRatio("quadratic", featurizer=Gaussianizer()), ClassifierRatio("quadratic")
        errors = [model.fit_samples(X_p, X_q).log_ratio(np.exp(log_x)[:, None]) - (log_x - 0.5) for model in models]
        # three coefficients of 4000 rows, each known to about 0.04, and a curve; a quadratic in x follows no logarithm
        assert np.abs(errors[0]).max() < 0.25
        assert np.abs(errors[1]).max() > 0.5

    def test_far_rows_are_finite(self) -> None:
        far = np.array([[1e300, 0.0], [-1e300, 1e300], [1e12, 0.0], [0.0, -1e8]])
        for name in ("logistic", "mlp"):
            assert np.isfinite(quick(name).fit(X, Y).log_ratio(far)).all()

    def test_random_state_fills_in_where_there_is_none(self) -> None:
        model = quick("mlp", featurizer=flow(random_state=5), random_state=3).fit(X, Y)
        assert isinstance(model.featurizer_, FlowFeaturizer)
        assert (model.ratio_.random_state, model.featurizer_.random_state) == (3, 5)

    def test_what_is_given_is_not_fitted(self) -> None:
        featurizer, ratio = flow(), NetworkRatio("mlp", hidden=(4,), max_epochs=1)
        quick(ratio, featurizer=featurizer).fit(X, Y)
        assert not hasattr(featurizer, "flow_")
        assert not hasattr(ratio, "network_")
        assert (featurizer.random_state, ratio.random_state) == (None, None)


@pytest.fixture
def latent_samples(monkeypatch: pytest.MonkeyPatch) -> list[TwoSamples]:
    """Return the samples that ratios of z are fitted to."""
    recorded: list[TwoSamples] = []

    def fit_prepared(ratio: Any, samples: TwoSamples) -> Any:
        recorded.append(samples)
        return original(ratio, samples)

    original = module.fit_prepared
    monkeypatch.setattr(module, "fit_prepared", fit_prepared)
    return recorded


@pytest.fixture
def classifier_rows(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Return the rows that classifiers are fitted to."""
    recorded: list[np.ndarray] = []

    def fitted(self: ClassifierRatio, X: np.ndarray, *rest: Any) -> Any:
        recorded.append(X)
        return original(self, X, *rest)

    original = ClassifierRatio._fitted
    monkeypatch.setattr(ClassifierRatio, "_fitted", fitted)
    return recorded


class TestImages:
    """Bytes, of which a flow learns x + u, with u uniform."""

    @pytest.mark.parametrize("name", ["logistic", "mlp"])
    def test_the_ratio_is_fitted_where_the_flow_draws(self, name: str, latent_samples: list[TwoSamples]) -> None:
        images = 80.0 * np.random.default_rng(0).integers(0, 4, (200, 2))
        model, again = (quick(name, featurizer=flow(scaling="image")).fit(images, Y) for _ in range(2))
        samples, others = latent_samples
        assert len(np.unique(samples.X, axis=0)) == 200 * 5  # each with noise of its own, where there are 16 images
        assert sorted(model.featurizer_.inverse_transform(samples.X).tolist()) == sorted(5 * images.tolist())
        assert model.ratio_.log_odds_ == pytest.approx(np.log(80 / 120))
        assert samples.groups is not None
        assert (np.unique(samples.groups, return_counts=True)[1] == 5).all()
        np.testing.assert_array_equal(others.X, samples.X)
        np.testing.assert_array_equal(again.log_ratio(images), model.log_ratio(images))

    @pytest.mark.parametrize("name", ["ulsif", "telescoping"])
    def test_other_ratios_are_fitted_to_one_version(self, name: str, latent_samples: list[TwoSamples]) -> None:
        images = 80.0 * np.random.default_rng(0).integers(0, 4, (200, 2))
        model = quick(name, featurizer=flow(scaling="image")).fit(images, Y)
        (samples,) = latent_samples
        assert samples.groups is None
        assert len(np.unique(samples.X, axis=0)) == 200
        assert sorted(model.featurizer_.inverse_transform(samples.X).tolist()) == sorted(images.tolist())

    def test_classifiers_that_count_rows_are_fitted_to_one_version(self, classifier_rows: list[np.ndarray]) -> None:
        images = 80.0 * np.random.default_rng(0).integers(0, 4, (200, 2))
        quick("boosting", featurizer=flow(scaling="image")).fit(images, Y)
        (Z,) = classifier_rows
        assert len(Z) == len(np.unique(Z, axis=0)) == 200

    def test_an_image_is_on_one_side_of_a_split(self, monkeypatch: pytest.MonkeyPatch) -> None:
        splits: list[tuple[np.ndarray, np.ndarray]] = []

        def split(rows: PairedRows, n: int, rng: np.random.Generator) -> tuple[PairedRows, np.ndarray]:
            rest, held_out = original(rows, n, rng)
            splits.append((np.concatenate([X for X, _ in rest.samples]), held_out.reshape(-1, 2)))
            return rest, held_out

        original = PairedRows.split
        monkeypatch.setattr(PairedRows, "split", split)
        images = np.random.default_rng(0).permutation(256 * 256)[:201, None] // [[256, 1]] % 256  # no two are equal
        chain = ScalerChain([Dequantizer(), Standardizer()])
        ratio = NetworkRatio("relu", hidden=(4,), max_epochs=2)
        model = quick(ratio, featurizer=chain).fit(images, np.arange(201) < 83)
        (parts,) = splits
        of_z = (model.ratio_.mean_ + model.ratio_.scale_ * part for part in parts)
        rest, held_out = (set(map(tuple, model.featurizer_.inverse_transform(Z).tolist())) for Z in of_z)
        assert not rest & held_out
        assert len(parts[0]) == 5 * len(rest)

    @pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
    def test_an_image_is_in_one_fold_of_a_calibration(
        self, calibration: Any, classifier_rows: list[np.ndarray]
    ) -> None:
        images = np.random.default_rng(0).permutation(256 * 256)[:201, None] // [[256, 1]] % 256  # no two are equal
        chain = ScalerChain([Dequantizer(), Standardizer()])
        model = quick(ClassifierRatio("logistic", calibration=calibration, n_folds=3), featurizer=chain)
        model.fit(images, np.arange(201) < 83)
        n_images = []
        for Z in classifier_rows:
            rows = model.featurizer_.inverse_transform(model.ratio_.mean_ + model.ratio_.scale_ * Z)
            counts = np.unique(rows, axis=0, return_counts=True)[1]
            assert (counts == 5).all()  # all versions of an image, or none of them
            n_images.append(len(counts))
        assert len(n_images) == 4  # three folds, and all rows
        assert max(n_images) == 201
        assert sum(n_images) == 3 * 201

    def test_weights_are_those_of_repeated_images(self) -> None:
        images, w = 80.0 * np.random.default_rng(0).integers(0, 4, (200, 2)), 1 + np.arange(200) % 3
        often = np.repeat(np.arange(200), w)
        models = [quick("mlp", featurizer=ScalerChain([Dequantizer(), Logit(), Standardizer()])) for _ in range(2)]
        models[0].fit(images, Y, sample_weight=w)
        models[1].fit(images[often], Y[often])
        np.testing.assert_array_equal(models[0].log_ratio(images), models[1].log_ratio(images))

    def test_a_scaling_warning_is_issued_once(self) -> None:
        images = np.random.default_rng(0).integers(0, 17, (200, 3))
        images[:, 2] = 0  # a constant column is left out without a warning
        with pytest.warns(ScalingWarning, match=r"16.*255") as warnings:
            quick("mlp", featurizer=flow(scaling="image")).fit(images, Y)
        assert len([warning for warning in warnings if warning.category is ScalingWarning]) == 1


class TestGivenMaps:
    def test_pretrained_flow_is_used_unchanged(self, trained_flows: TrainedFlows) -> None:
        featurizer = MAF(2, n_blocks=2, hidden=(8,), generator=torch.Generator().manual_seed(3)).eval()
        before = [p.clone() for p in featurizer.parameters()]
        model = quick(featurizer=FlowFeaturizer(featurizer)).fit(X, Y)
        assert isinstance(model.featurizer_, FlowFeaturizer)
        assert model.featurizer_.history_ is None
        assert not trained_flows.calls
        for p, q in zip(featurizer.parameters(), before, strict=True):
            assert torch.equal(p, q)
        with torch.no_grad():
            Z = featurizer.double()(torch.tensor(X_NEW))[0].numpy()
        np.testing.assert_allclose(model.featurizer_.transform(X_NEW), Z, rtol=0, atol=1e-12)

    def test_five_ratios_of_one_fitted_map_train_no_flow(self, trained_flows: TrainedFlows) -> None:
        featurizer = flow(random_state=0).fit(X)
        before = featurizer.transform(X)
        assert len(trained_flows.calls) == 1
        for name in ("logistic", "quadratic", "lda", "kliep", "ulsif"):
            model = FeaturizedRatio(name, featurizer=featurizer).fit(X, Y)
            np.testing.assert_allclose(model.featurizer_.transform(X), before, rtol=0, atol=1e-5)  # float32 against 64
            assert model.featurizer_ is not featurizer  # that one stays in float32
        assert len(trained_flows.calls) == 1
        np.testing.assert_array_equal(featurizer.transform(X), before)

    def test_featurizer_of_another_ratio_is_shared_to_the_bit(self, trained_flows: TrainedFlows) -> None:
        first = quick().fit(X, Y)
        second = quick("quadratic", featurizer=first.featurizer_).fit(X, Y)
        assert len(trained_flows.calls) == 1
        np.testing.assert_array_equal(second.featurizer_.transform(X_NEW), first.featurizer_.transform(X_NEW))

    def test_clones_share_a_fitted_map_and_no_other(self) -> None:
        featurizer = flow(random_state=0).fit(X)
        model = FeaturizedRatio(KLIEP(), featurizer=featurizer)
        twin: Any = clone(model)
        assert twin.featurizer.flow_ is featurizer.flow_
        assert twin.estimator is not model.estimator
        other: Any = clone(quick())
        assert isinstance(other.featurizer, FlowFeaturizer)
        assert not hasattr(other.featurizer, "flow_")

    def test_search_with_a_fitted_map_trains_no_flow(self, trained_flows: TrainedFlows) -> None:
        featurizer = flow(random_state=0).fit(X)
        model = FeaturizedRatio(ClassifierRatio(), featurizer=featurizer)
        grid: Any = {"estimator__classifier": ["logistic", "lda"]}
        search = searched(model, grid)
        assert search.best_estimator_.featurizer.flow_ is featurizer.flow_
        assert len(trained_flows.calls) == 1

    def test_settings_of_a_fitted_map_are_not_searched(self) -> None:
        featurizer = flow(random_state=0).fit(X)
        model = FeaturizedRatio("logistic", featurizer=featurizer)
        with pytest.raises(
            ValueError, match=r"`featurizer__n_blocks` is set, but `featurizer` is fitted and is used unchanged"
        ):
            model.set_params(featurizer__n_blocks=7)
        twin: Any = clone(model)
        twin.featurizer.n_blocks = 7
        assert featurizer.n_blocks != 7
        model.set_params(featurizer=flow(), featurizer__n_blocks=3)
        assert model.get_params()["featurizer__n_blocks"] == 3

    def test_clones_have_the_metadata_requests(self) -> None:
        with config_context(enable_metadata_routing=True):
            model: Any = quick().set_fit_request(sample_weight=True)
            twin: Any = clone(model)
            assert twin.get_metadata_routing().fit.requests["sample_weight"] is True

    def test_a_flow_by_a_function_is_saved(self, tmp_path: Path) -> None:
        featurizer = FlowFeaturizer(flow=lambda d: MAF(d, n_blocks=1, hidden=(4,)), max_epochs=2, patience=2)
        model = FeaturizedRatio("logistic", featurizer=featurizer, random_state=0).fit(X, Y)
        save(model, tmp_path)
        np.testing.assert_array_equal(load(tmp_path).log_ratio(X), model.log_ratio(X))

    @pytest.mark.parametrize("scaler", [Gaussianizer(), Gaussianizer().fit(np.exp(2 * X))], ids=["new", "fitted"])
    def test_a_scaler_is_a_map(self, scaler: Gaussianizer) -> None:
        rows = np.exp(X)
        by_hand = scaler if is_fitted(scaler) else Gaussianizer().fit(rows)
        model = FeaturizedRatio("logistic", featurizer=scaler).fit(rows, Y)
        of_z = ClassifierRatio("logistic").fit(by_hand.transform(rows), Y)
        np.testing.assert_allclose(model.log_ratio(rows), of_z.log_ratio(by_hand.transform(rows)), rtol=0, atol=1e-9)

    def test_images_come_as_whole_numbers(self) -> None:
        rng = np.random.default_rng(0)
        pixels = rng.integers(0, 256, (150, 9))
        pixels[:, 4] = 17  # a pixel that never changes
        pixels[:70] //= 2
        model = quick(featurizer=flow(scaling="image")).fit(pixels, np.arange(150) < 70)
        assert isinstance(model.featurizer_, FlowFeaturizer)
        Z = model.featurizer_.transform(pixels)
        np.testing.assert_array_equal(model.featurizer_.inverse_transform(Z), pixels)
        assert np.isfinite(model.log_ratio(pixels)).all()

    def test_frames_give_names_to_the_map_and_no_warnings(self) -> None:
        frame = pd.DataFrame(X, columns=pd.Index(["age", "height"]))
        for base in (flow(), Gaussianizer()):
            model = quick(featurizer=base).fit(frame, Y)
            featurizer: Any = model.featurizer_
            assert list(featurizer.feature_names_in_) == ["age", "height"]
            np.testing.assert_array_equal(model.ratio_.log_ratio(featurizer.transform(frame)), model.log_ratio(frame))
            again = FeaturizedRatio("lda", featurizer=featurizer).fit(frame, Y)
            assert np.isfinite(again.log_ratio(frame)).all()

    def test_constant_and_collinear_columns_change_nothing(self) -> None:
        def wider(X: np.ndarray, value: float) -> np.ndarray:
            return np.column_stack([X, np.full(len(X), value), X.sum(axis=1), 3 * X[:, 0] - 1])

        model = quick().fit(wider(X, 4.0), Y)
        assert model.featurizer_.transform(wider(X, 4.0)).shape == (200, 2)
        log_r = model.log_ratio(wider(X_NEW, 4.0))
        np.testing.assert_array_equal(model.log_ratio(wider(X_NEW, -3.0)), log_r)
        # the order of the rows, and with it the training of three epochs, is another with other columns
        assert np.corrcoef(log_r, quick().fit(X, Y).log_ratio(X_NEW))[0, 1] > 0.99


class TestMixture:
    def test_pooled_rows_are_all_rows(self) -> None:
        assert sorted(rows_of_the_map(mixture="pooled").tolist()) == sorted(X.tolist())

    @pytest.mark.parametrize(("n_p", "n_q"), [(200, 20), (20, 200), (30, 30)])
    @pytest.mark.parametrize("mixture", ["pooled", "balanced"])
    def test_share_of_p_in_what_the_flow_sees(
        self, mixture: Any, n_p: int, n_q: int, trained_flows: TrainedFlows
    ) -> None:
        rng = np.random.default_rng(0)
        X_p, X_q = rng.uniform(1, 2, (n_p, 1)), rng.uniform(-2, -1, (n_q, 1))
        quick(featurizer=flow(scaling="standard"), mixture=mixture).fit_samples(X_p, X_q)
        (_, _, rest, held_out, _), *others = trained_flows.calls
        assert not others
        share = n_p / (n_p + n_q) if mixture == "pooled" else 0.5
        shuffled = np.concatenate(list(rest.shuffled(np.random.default_rng(1), 50)))
        rows = np.concatenate([shuffled, held_out])
        assert len(rows) == n_p + n_q
        middle = (rows.min() + rows.max()) / 2  # between q and p
        # a row is held out as a whole, and with it a twentieth of the weight of its sample; they are one or two of 20
        assert np.mean(rows > middle) == pytest.approx(share, abs=1e-9 if mixture == "pooled" else 0.08)

    def test_weights_of_rows_in_the_mixture(self) -> None:
        y, w = np.repeat([1, 0], [3, 5]), np.array([1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 4.0, 9.0])

        def in_mixture(w: np.ndarray, mixture: str) -> np.ndarray:
            rows = mixture_rows(TwoSamples(np.arange(8.0)[:, None], 3, w, 0.0), mixture)
            return rows.w if isinstance(rows, WeightedRows) else np.ones(8)

        np.testing.assert_array_equal(in_mixture(w, "pooled"), w)
        balanced = in_mixture(w, "balanced")
        assert balanced[y == 1].sum() == pytest.approx(balanced[y == 0].sum())
        np.testing.assert_allclose(balanced[y == 0] / balanced[3], w[y == 0])
        even = np.where(y == 1, 5.0, 3.0)
        np.testing.assert_allclose(in_mixture(even, "balanced"), even)  # 15 rows of each already
        np.testing.assert_array_equal(in_mixture(np.ones(8), "pooled"), 1)

    @pytest.mark.parametrize("mixture", ["pooled", "balanced"])
    def test_weights_that_are_not_whole_reach_the_map(self, mixture: Any) -> None:
        w = np.random.default_rng(0).uniform(0.5, 4, len(X))
        model = FeaturizedRatio("logistic", featurizer=Standardizer(), mixture=mixture)
        scaler: Any = model.fit(X, Y, sample_weight=w).featurizer_
        # weights of each sample count as many rows as they are worth
        worth = [of.sum() / (of @ of) for of in (w[Y == 1], w[Y == 0])]
        share = w * np.where(Y == 1, *worth)
        if mixture == "balanced":
            share /= np.where(Y == 1, share[Y == 1].sum(), share[Y == 0].sum())
        # rows come once or twice in place of their weights: 200 rows leave a rounding of about 0.3/√200 in the mean
        np.testing.assert_allclose(scaler.mean_, np.average(X, axis=0, weights=share), atol=0.06)


class TestNestedSettings:
    def test_estimator_is_a_parameter_and_ratio_a_method(self) -> None:
        featurizer = ClassifierRatio("lda")
        model = quick(featurizer)
        assert model.estimator is featurizer
        assert model.get_params()["estimator__classifier"] == "lda"
        names = {"estimator", "featurizer", "features", "base", "mixture", "random_state", "verbose"}
        assert model.get_params(deep=False).keys() == names
        np.testing.assert_allclose(model.fit(X, Y).ratio(X_NEW), np.exp(model.log_ratio(X_NEW)))
        assert "estimator=ClassifierRatio(classifier='lda')" in repr(model).replace("\n", "").replace(" ", "")
        model.set_params(estimator="quadratic")
        assert model.estimator == "quadratic"
        assert model.fit(X, Y).ratio_.classifier == "quadratic"

    def test_clone_has_the_settings(self) -> None:
        model = quick(ClassifierRatio("lda")).set_params(estimator__classifier="quadratic")
        twin: Any = clone(model)
        assert twin.get_params()["estimator__classifier"] == "quadratic"
        assert twin.estimator is not model.estimator

    def test_settings_of_a_name_are_refused(self) -> None:
        with pytest.raises(ValueError, match=r"`estimator__hidden` is set, but `estimator` is 'mlp', which has no set"):
            quick("mlp").set_params(estimator__hidden=(8,))
        with pytest.raises(ValueError, match=r"`featurizer__n_blocks` is set, but `featurizer` is None"):
            FeaturizedRatio("mlp").set_params(featurizer__n_blocks=2)
        model = quick("mlp").set_params(estimator=NetworkRatio("mlp"), estimator__hidden=(8,))
        assert model.get_params()["estimator__hidden"] == (8,)

    @pytest.mark.parametrize("estimator", ["logistic", KLIEP(n_centers=10)], ids=str)
    def test_save_stores_both(self, estimator: Any, tmp_path: Path) -> None:
        model = quick(estimator).fit(X, Y)
        save(model, tmp_path)
        loaded = load(tmp_path)
        assert repr(loaded) == repr(model)
        np.testing.assert_array_equal(loaded.ratio(X_NEW), model.ratio(X_NEW))
        np.testing.assert_array_equal(loaded.featurizer_.transform(X_NEW), model.featurizer_.transform(X_NEW))
        again: Any = clone(loaded)
        assert repr(again) == repr(clone(model))

    def test_search_over_estimators(self) -> None:
        grid: Any = {"estimator": ["logistic", ClassifierRatio("lda"), KLIEP(n_centers=10)]}
        search = searched(quick(), grid)
        best = search.best_params_["estimator"]
        expected = ClassifierRatio if isinstance(best, str) else type(best)
        assert isinstance(search.best_estimator_.ratio_, expected)
        assert len(search.cv_results_["mean_test_score"]) == 3

    def test_search_over_nested_settings(self) -> None:
        grid: Any = {"estimator__classifier": ["logistic", "quadratic"], "featurizer__n_blocks": [1, 2]}
        search = searched(quick(ClassifierRatio()), grid)
        assert search.best_estimator_.ratio_.classifier == search.best_params_["estimator__classifier"]
        assert search.best_estimator_.featurizer_.n_blocks == search.best_params_["featurizer__n_blocks"]
        assert len(set(search.cv_results_["mean_test_score"])) == 4

    def test_search_in_a_pipeline(self) -> None:
        pipeline = make_pipeline(StandardScaler(), quick(ClassifierRatio()))
        grid: Any = {"featurizedratio__estimator__classifier": ["logistic", "lda"]}
        grid |= {"featurizedratio__featurizer__max_epochs": [1, 2]}
        search = searched(pipeline, grid)
        best = search.best_estimator_[-1]
        assert best.featurizer_.max_epochs == search.best_params_["featurizedratio__featurizer__max_epochs"]
        np.testing.assert_array_equal(search.score_samples(X), best.log_ratio(search.best_estimator_[0].transform(X)))


class Means:
    """A ratio with the two methods and nothing else: that of two Gaussians of unit covariance."""

    def fit(self, Z: np.ndarray, y: np.ndarray) -> Means:
        self.mean_p, self.mean_q = Z[y == 1].mean(axis=0), Z[y == 0].mean(axis=0)
        return self

    def log_ratio(self, Z: np.ndarray) -> np.ndarray:
        return Z @ (self.mean_p - self.mean_q) - (self.mean_p @ self.mean_p - self.mean_q @ self.mean_q) / 2


class Broken(Means):
    def __init__(self, output: Any) -> None:
        self.output = output

    def log_ratio(self, Z: np.ndarray) -> np.ndarray:
        return self.output


class TestRatios:
    def test_any_object_with_the_two_methods(self) -> None:
        featurizer = Means()
        model = quick(featurizer).fit(X, Y)
        by_hand = Means().fit(model.featurizer_.transform(X), Y)
        np.testing.assert_allclose(
            model.log_ratio(X_NEW), by_hand.log_ratio(model.featurizer_.transform(X_NEW)), rtol=0, atol=1e-12
        )
        assert not hasattr(featurizer, "mean_p")  # a copy was fitted
        clone(model)

    def test_object_without_weights_takes_whole_ones(self) -> None:
        w = np.random.default_rng(0).integers(1, 3, len(X))
        weighted = quick(Means()).fit(X, Y, sample_weight=w)
        repeated = quick(Means()).fit(np.repeat(X, w, axis=0), np.repeat(Y, w))
        np.testing.assert_allclose(weighted.log_ratio(X_NEW), repeated.log_ratio(X_NEW), rtol=0, atol=1e-9)
        with pytest.raises(ValueError, match=r"`sample_weight` is set, but .*Means.* takes no weights. Use integers"):
            quick(Means()).fit(X, Y, sample_weight=w + np.linspace(0, 0.5, len(w)))

    @pytest.mark.parametrize(("output", "shape"), [(np.full(200, np.nan), 200), (np.zeros((200, 1)), 0), (0.0, 0)])
    def test_object_that_gives_no_log_ratios(self, output: Any, shape: int) -> None:
        with pytest.raises(ValueError, match=rf"{shape} of them not finite. It must return one finite number for each"):
            quick(Broken(output)).fit(X, Y).log_ratio(X)

    @pytest.mark.parametrize("name", RATIOS)
    def test_names(self, name: str) -> None:
        ratio = new_ratio(name, 7)
        assert isinstance(ratio, RatioEstimator)
        assert ratio.get_params().get("random_state", 7) == 7

    @pytest.mark.parametrize("name", ["boosting", "additive", "kmm", "ulsif", "rulsif"])
    def test_names_are_ratios_of_z(self, name: str) -> None:
        model = quick(name).fit(X, Y)
        of_z = new_ratio(name, 0).fit(model.featurizer_.transform(X), Y)
        expected = of_z.log_ratio(model.featurizer_.transform(X_NEW))
        np.testing.assert_allclose(model.log_ratio(X_NEW), expected, rtol=0, atol=1e-6)

    def test_new_ratio_of_an_object_is_a_clone_with_a_seed(self) -> None:
        original = KLIEP(n_centers=7)
        ratio = new_ratio(original, 5, verbose=True)
        assert ratio is not original
        assert (ratio.n_centers, ratio.random_state, original.random_state) == (7, 5, None)
        assert new_ratio(KLIEP(random_state=2), 5).random_state == 2
        assert new_ratio("mlp", 5, verbose=True).verbose is True
        assert new_ratio("mlp", 5).verbose is False


class TestBadSettings:
    @pytest.mark.parametrize("name", ["mpl", "Logistic"])
    def test_unknown_names(self, name: str) -> None:
        with pytest.raises(ValueError, match=rf"`estimator` is '{name}'\..* Use a ratio, or one of lda, .*telescoping"):
            quick(name).fit(X, Y)

    @pytest.mark.parametrize("estimator", [KLIEP, 3, StandardScaler()], ids=str)
    def test_no_ratios(self, estimator: Any) -> None:
        with pytest.raises(
            TypeError, match=r"`estimator` is .*\. Use an object with `fit\(X, y\)` and `log_ratio\(X\)`"
        ):
            quick(estimator).fit(X, Y)

    @pytest.mark.parametrize(
        "featurizer", ["maf", FlowFeaturizer, StandardScaler(), StandardScaler().fit(X), nn.Linear(2, 2)], ids=str
    )
    def test_no_maps(self, featurizer: Any) -> None:
        with pytest.raises(TypeError, match=r"`featurizer` is .*\. Use a `FlowFeaturizer`"):
            quick(featurizer=featurizer).fit(X, Y)

    @pytest.mark.parametrize("mixture", ["half", None, 0.5])
    def test_unknown_mixtures(self, mixture: Any) -> None:
        with pytest.raises(ValueError, match=r"`mixture` is .*\. Use one of pooled, balanced"):
            quick(mixture=mixture).fit(X, Y)

    def test_map_of_another_width(self) -> None:
        for featurizer in (flow().fit(np.column_stack([X, X[:, :1] ** 2])), Standardizer().fit(X[:, :1])):
            with pytest.raises(ValueError, match=r"`featurizer` was fitted to [13] columns, but `X` has 2\. Fit it to"):
                quick(featurizer=featurizer).fit(X, Y)

    def test_map_of_other_columns(self) -> None:
        featurizer = flow().fit(pd.DataFrame(X, columns=pd.Index(["age", "height"])))
        frame = pd.DataFrame(X, columns=pd.Index(["height", "weight"]))
        with pytest.raises(
            ValueError, match=r"other columns: `X` has 'height' instead of 'age', 'weight' instead of 'height'\."
        ):
            quick(featurizer=featurizer).fit(frame, Y)

    def test_pretrained_flow_of_another_dimension(self) -> None:
        with pytest.raises(ValueError, match=r"`flow` maps 3 columns, but the data have 2"):
            quick(featurizer=FlowFeaturizer(MAF(3))).fit(X, Y)

    def test_failed_fit_leaves_the_model_unchanged(self) -> None:
        model = quick().fit(X, Y)
        log_r = model.log_ratio(X_NEW)
        with pytest.raises(ValueError, match="`flow` is 'glow'"):
            model.set_params(featurizer__flow="glow").fit(X, Y)
        np.testing.assert_array_equal(model.log_ratio(X_NEW), log_r)
