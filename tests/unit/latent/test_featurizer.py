"""FlowFeaturizer: what it takes, what it refuses and in which words, and the bookkeeping around flow and scaler."""

from __future__ import annotations

import dataclasses
import io
import math
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
import zuko
from numpy.random import default_rng
from scipy.integrate import trapezoid
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from torch import nn

from flowratio.flows import FLOWS, MAF
from flowratio.latent import featurizer as module
from flowratio.latent.defaults import hidden_widths
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.samples.rows import ArrayRows, WeightedRows
from flowratio.scaling.base import ScalingWarning
from flowratio.scaling.gaussianizer import Gaussianizer
from flowratio.scaling.standardizer import Standardizer
from flowratio.storage.saving import load, save
from flowratio.training.run import Recipe

# most runs here are cut short on purpose
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def normal(n: int = 200, d: int = 2, seed: int = 0) -> np.ndarray:
    return default_rng(seed).normal(size=(n, d))


def small(**changed: Any) -> FlowFeaturizer:
    return FlowFeaturizer(**{"n_blocks": 2, "hidden": (8,), "max_epochs": 2, "random_state": 0, **changed})


def pretrained(d: int = 2) -> MAF:
    return MAF(d, n_blocks=2, hidden=(8,), generator=torch.Generator().manual_seed(3)).eval()


def images(n: int = 60, d: int = 4) -> np.ndarray:
    return default_rng(0).integers(0, 256, (n, d)).astype(float)


class TestMaps:
    @pytest.mark.parametrize("scaling", ["auto", "standard", "gaussian", "none"])
    @pytest.mark.parametrize("flow", FLOWS)
    def test_inverse_both_ways(self, flow: str, scaling: str) -> None:
        X = np.exp(normal())
        fitted = small(flow=flow, scaling=scaling).fit(X)
        Z = fitted.transform(X)
        assert Z.shape == X.shape
        # the flow runs in float32
        np.testing.assert_allclose(fitted.inverse_transform(Z), X, rtol=1e-3, atol=1e-3)
        Z = normal(seed=1)
        np.testing.assert_allclose(fitted.transform(fitted.inverse_transform(Z)), Z, atol=1e-3)

    @pytest.mark.parametrize("scaling", ["standard", "gaussian"])
    def test_density_integrates_to_one_in_the_units_of_the_data(self, scaling: str) -> None:
        X = 1e3 + 50 * np.exp(0.5 * normal())
        fitted = small(scaling=scaling, max_epochs=30).fit(X)
        # almost all of the density: the smallest value is 1000, the largest of so many is below 1000 + 50 e^2.5
        axis = np.linspace(600, 2600, 801)
        grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
        density = np.exp(fitted.score_samples(grid)).reshape(801, 801)
        total = trapezoid(trapezoid(density, axis), axis)
        # steps of 2.5 are a tenth of the density's width; a lost Jacobian would be a factor of thousands
        assert total == pytest.approx(1, abs=0.02)

    def test_log_density_adds_the_log_determinants_of_scaler_and_flow(self) -> None:
        X = 3 + 5 * normal()
        fitted = small().fit(X)
        scaled, log_det = fitted.scaler_.forward(X)
        with torch.no_grad():
            expected = fitted.flow_.log_prob(torch.as_tensor(scaled).float()).double().numpy() + log_det
        np.testing.assert_allclose(fitted.score_samples(X), expected, rtol=0, atol=1e-5)
        assert fitted.score(X) == pytest.approx(expected.mean(), abs=1e-5)

    def test_chunks_change_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        X = normal()
        fitted = small().fit(X)
        whole = fitted.transform(X), fitted.score_samples(X), fitted.inverse_transform(X)
        monkeypatch.setattr(module, "_CHUNK_VALUES", 26)
        parts = fitted.transform(X), fitted.score_samples(X), fitted.inverse_transform(X)
        for a, b in zip(whole, parts, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
        # the rows that are fitted are scaled in chunks too
        np.testing.assert_allclose(small().fit(X).transform(X), whole[0], rtol=0, atol=1e-5)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int64, np.uint8, bool])
    def test_takes_numbers_of_every_type(self, dtype: Any) -> None:
        X = default_rng(0).integers(0, 2 if dtype is bool else 9, (200, 2)).astype(dtype)
        fitted = small().fit(X)
        Z = fitted.transform(X)
        assert Z.dtype == (np.float32 if dtype is np.float32 else np.float64)
        np.testing.assert_allclose(Z, fitted.transform(X.astype(float)), atol=1e-4)
        assert fitted.inverse_transform(Z).dtype == Z.dtype

    def test_takes_values_as_large_as_a_billion(self) -> None:
        X = 1e9 * (1 + normal())
        fitted = small().fit(X)
        np.testing.assert_allclose(fitted.inverse_transform(fitted.transform(X)), X, rtol=1e-4, atol=1e5)
        assert np.isfinite(fitted.score_samples(X)).all()

    @pytest.mark.parametrize("flow", FLOWS)
    def test_rows_far_from_the_data_stay_finite(self, flow: str) -> None:
        fitted = small(flow=flow).fit(normal())
        far = 1e6 * normal(seed=1)
        assert np.isfinite(fitted.transform(far)).all()
        assert np.isfinite(fitted.score_samples(far)).all()

    @pytest.mark.parametrize("flow", FLOWS)
    def test_one_column(self, flow: str) -> None:
        X = normal(d=1)
        fitted = small(flow=flow).fit(X)
        np.testing.assert_allclose(fitted.inverse_transform(fitted.transform(X)), X, atol=1e-3)

    @pytest.mark.parametrize("n", [2, 3, 5])
    def test_a_handful_of_rows(self, n: int) -> None:
        X = normal(n, 3)
        assert np.isfinite(small().fit(X).transform(X)).all()


class TestSample:
    def test_has_the_moments_of_the_density(self) -> None:
        X = default_rng(0).normal([5.0, -3.0], [2.0, 0.1], (1000, 2))
        draws = small(max_epochs=20).fit(X).sample(4000, random_state=0)
        # standard errors are 0.03 σ for the mean of 1000 rows; the fit of a short run adds its own
        np.testing.assert_allclose((draws.mean(0) - [5, -3]) / [2, 0.1], 0, atol=0.15)
        np.testing.assert_allclose(draws.std(0) / [2, 0.1], 1, atol=0.15)

    def test_is_a_function_of_its_seed(self) -> None:
        fitted = small().fit(normal())
        assert fitted.sample().shape == (1, 2)
        assert np.array_equal(fitted.sample(5, 3), fitted.sample(5, 3))
        assert not np.array_equal(fitted.sample(5, 3), fitted.sample(5, 4))
        assert not np.array_equal(fitted.sample(5), fitted.sample(5))
        assert np.array_equal(fitted.sample(5, default_rng(1)), fitted.sample(5, default_rng(1)))

    @pytest.mark.parametrize("n", [0, -3])
    def test_needs_a_positive_number(self, n: int) -> None:
        with pytest.raises(ValueError, match=rf"`n` is {n}. Use an integer of 1 or more"):
            small().fit(normal()).sample(n)


class TestRandomState:
    @pytest.mark.parametrize("flow", [*FLOWS, lambda d: zuko.flows.MAF(d, transforms=2, hidden_features=(8,))])
    def test_same_seed_same_bits_and_global_generators_stay(self, flow: Any) -> None:
        X = normal()
        before = torch.get_rng_state(), str(np.random.get_state())  # noqa: NPY002 - to see it untouched
        Z = []
        for seed in (0, 0, 1):
            fitted = small(flow=flow, random_state=seed).fit(X)
            fitted.sample(3, random_state=seed)
            fitted.score_samples(X)
            fitted.inverse_transform(X)
            Z.append(fitted.transform(X))
        assert torch.equal(torch.get_rng_state(), before[0])
        assert str(np.random.get_state()) == before[1]  # noqa: NPY002
        assert np.array_equal(Z[0], Z[1])
        assert not np.array_equal(Z[0], Z[2])

    def test_without_a_seed_each_run_is_another(self) -> None:
        X = normal()
        a, b = (small(random_state=None).fit_transform(X) for _ in range(2))
        assert not np.array_equal(a, b)

    def test_takes_generators_of_numpy(self) -> None:
        X = normal()
        for kind in (default_rng, np.random.RandomState):
            a, b = (small(random_state=kind(3)).fit_transform(X) for _ in range(2))
            assert np.array_equal(a, b)

    @pytest.mark.parametrize("random_state", [-1, 1.5, "seed", 2**63])
    def test_refuses_others(self, random_state: Any) -> None:
        with pytest.raises(ValueError, match=r"`random_state` is "):
            small(random_state=random_state).fit(normal())


class TestPretrained:
    def test_is_used_as_it_is(self) -> None:
        flow, X = pretrained(), normal()
        before = {name: value.clone() for name, value in flow.state_dict().items()}
        fitted = FlowFeaturizer(flow).fit(X)
        assert fitted.history_ is None
        x = torch.as_tensor(X).float()
        with torch.no_grad():
            np.testing.assert_allclose(fitted.transform(X), flow(x)[0].numpy(), rtol=0, atol=1e-6)
            np.testing.assert_allclose(fitted.score_samples(X), flow.log_prob(x).numpy(), rtol=0, atol=1e-5)
        for name, value in flow.state_dict().items():
            assert torch.equal(value, before[name])

    def test_in_double_precision_is_run_in_it(self) -> None:
        flow, X = pretrained().double(), normal()
        fitted = FlowFeaturizer(flow).fit(X)
        np.testing.assert_allclose(fitted.inverse_transform(fitted.transform(X)), X, rtol=0, atol=1e-12)

    def test_may_have_a_scaler_before_it(self) -> None:
        X = 100 + 5 * normal()
        fitted = FlowFeaturizer(pretrained(), scaling="standard").fit(X)
        scaled, log_det = Standardizer().fit(X).forward(X)
        with torch.no_grad():
            expected = fitted.flow_.log_prob(torch.as_tensor(scaled).float()).numpy() + log_det
        np.testing.assert_allclose(fitted.score_samples(X), expected, rtol=0, atol=1e-5)

    def test_of_another_package(self) -> None:
        with torch.random.fork_rng():
            flow = zuko.flows.MAF(2, transforms=2, hidden_features=(8,))
        X = normal()
        with torch.no_grad():
            expected = flow().log_prob(torch.as_tensor(X).float()).numpy()
        np.testing.assert_allclose(FlowFeaturizer(flow).fit(X).score_samples(X), expected, rtol=0, atol=1e-5)

    def test_of_another_dimension_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"`flow` maps 3 columns, but the data have 2. Use a flow for 2"):
            FlowFeaturizer(pretrained(3)).fit(normal())
        X = normal()
        X[:, 1] = 7
        with (
            pytest.warns(ScalingWarning),
            pytest.raises(ValueError, match="maps 2 columns, but the data have 1 after scaling"),
        ):
            FlowFeaturizer(pretrained(), scaling="standard").fit(X)

    def test_function_with_a_generator_gets_the_seed(self) -> None:
        X = normal()
        weights = [small(flow=MAF, random_state=seed).initialize(X).flow_.state_dict() for seed in (0, 0, 1)]
        name = "nets.0.theta"
        assert torch.equal(weights[0][name], weights[1][name])
        assert not torch.equal(weights[0][name], weights[2][name])
        expected = MAF(2, generator=torch.Generator().manual_seed(1)).state_dict()
        assert torch.equal(weights[2][name], expected[name])

    def test_module_that_is_no_flow_is_refused(self) -> None:
        with pytest.raises(TypeError, match=r"write a subclass of `flowratio\.Flow`"):
            FlowFeaturizer(nn.Linear(2, 2)).fit(normal())

    def test_function_that_makes_a_flow_is_trained(self) -> None:
        X = normal()
        fitted = small(flow=lambda d: MAF(d, n_blocks=1, hidden=(4,))).fit(X)
        assert fitted.history_ is not None
        assert fitted.flow_.n_features == 2


class TestSettings:
    def test_given_ones_reach_flow_and_loop(self) -> None:
        X = normal(500)
        fitted = FlowFeaturizer(
            "coupling", n_blocks=3, hidden=(5, 7), max_epochs=4, batch_size=20, learning_rate=0.01, random_state=0
        ).fit(X)
        assert fitted.flow_.config()["n_blocks"] == 3
        assert fitted.flow_.config()["hidden"] == (5, 7)
        assert fitted.history_ is not None
        assert fitted.history_.epoch[-1] == 4
        recipe = FlowFeaturizer(
            max_epochs=4, batch_size=20, learning_rate=0.01, weight_decay=0.5, patience=2, hidden=(8,)
        ).recipe_for(450, 2)
        assert (recipe.max_epochs, recipe.batch_size, recipe.learning_rate) == (4, 20, 0.01)
        assert (recipe.weight_decay, recipe.patience) == (0.5, 2)
        assert FlowFeaturizer(batch_size=100).recipe_for(2_000, 3).max_epochs == 150  # 3000 steps

    @pytest.mark.parametrize(("n", "d"), [(1, 1), (200, 1), (2_000, 5), (50_000, 20), (1_000_000, 100)])
    def test_defaults_fit_any_table(self, n: int, d: int) -> None:
        recipe = FlowFeaturizer().recipe_for(n, d)
        assert 3 <= recipe.max_epochs <= 400
        assert 64 <= recipe.batch_size <= 1024
        assert 1e-4 < recipe.learning_rate < 2e-2
        assert 3 <= recipe.patience <= recipe.max_epochs
        width, *others = hidden_widths(n, d)
        assert others == [width]
        assert d < width <= 1024

    def test_recipe_replaces_all_that_is_chosen(self) -> None:
        recipe = Recipe(7, 30, 0.02, weight_decay=0.1, optimizer="adam", schedule="constant", average=False)
        assert FlowFeaturizer(recipe=recipe).recipe_for(10_000, 2) == recipe
        changed = FlowFeaturizer(recipe=recipe, max_epochs=3, weight_decay=0.0).recipe_for(10_000, 2)
        assert changed == dataclasses.replace(recipe, max_epochs=3, weight_decay=0.0)
        twin: Any = clone(FlowFeaturizer(recipe=recipe))
        assert twin.recipe == recipe
        fitted = small(recipe=recipe, max_epochs=None).fit(normal(500))
        assert fitted.history_ is not None
        assert fitted.history_.epoch[-1] == 7
        assert fitted.history_.learning_rate[-1] == 0.02

    def test_recipe_and_function_give_the_bits_of_the_named_settings(self) -> None:
        X = normal(500)
        recipe = small().recipe_for(450, 2)
        named = small().fit(X)
        general = FlowFeaturizer(partial(MAF, n_blocks=2, hidden=(8,)), recipe=recipe, random_state=0).fit(X)
        np.testing.assert_array_equal(general.transform(X), named.transform(X))

    def test_settings_of_the_paper_give_its_numbers(self) -> None:
        """Batch normalization, Adam at a constant rate, no averaging: numbers of the version that had them built in."""
        X = default_rng(0).normal(size=(300, 2)) * [2.0, 0.5] + [1.0, -3.0]
        recipe = Recipe(
            4, 100, 1e-4, 1e-6, "adam", "constant", patience=4, warm_up=0, clip_norm=math.inf, average=False
        )
        flow = partial(MAF, hidden=(100, 100), batch_norm=True, max_log_scale=None)
        fitted = FlowFeaturizer(flow, recipe=recipe, scaling="standard", dequantize=False, random_state=0).fit(X)
        Z = [[-0.13251040875911713, 0.22087298333644867], [0.14876937866210938, 0.6638572216033936]]
        np.testing.assert_allclose(fitted.transform(X[:2]), Z, rtol=1e-5)  # the same bits on the same machine
        assert fitted.history_ is not None
        assert fitted.history_.held_out_loss == pytest.approx([2.890958547592163], rel=1e-6)
        np.testing.assert_allclose(fitted.score_samples(X[:2]), [-1.9733087907391278, -2.1222503225165097], rtol=1e-5)
        np.testing.assert_allclose(fitted.inverse_transform(fitted.transform(X)), X, atol=1e-3)

    def test_callback_sees_the_flow_and_is_not_saved(self, tmp_path: Path) -> None:
        epochs: list[int] = []

        def look(flow: nn.Module, epoch: int) -> None:
            assert isinstance(flow, MAF)
            assert not flow.training
            epochs.append(epoch)

        X = normal(500)
        fitted = small(max_epochs=30, callback=look).fit(X)
        assert fitted.history_ is not None
        assert epochs == fitted.history_.epoch
        np.testing.assert_array_equal(fitted.transform(X), small(max_epochs=30).fit(X).transform(X))
        save(fitted, tmp_path)
        loaded = load(tmp_path)
        assert loaded.callback is None
        np.testing.assert_array_equal(loaded.transform(X), fitted.transform(X))

    @pytest.mark.parametrize(
        ("setting", "words"),
        [
            ({"flow": "glow"}, "`flow` is 'glow'. Use a flow, a function, or one of maf"),
            ({"scaling": "robust"}, "`scaling` is 'robust'. Use a scaler, or one of auto, standard"),
            ({"device": "abacus"}, "`device` is 'abacus', which torch cannot use here. Use 'auto' or 'cpu'"),
            ({"recipe": "paper"}, "`recipe` is 'paper'. Use a `flowratio.Recipe` or None"),
            ({"validation_fraction": 0.0}, "`validation_fraction` is 0.0"),
            ({"validation_fraction": 1.0}, "`validation_fraction` is 1.0"),
            ({"validation_fraction": -0.1}, "`validation_fraction` is -0.1"),
            ({"max_epochs": 0}, "`max_epochs` is 0"),
            ({"max_epochs": -3}, "`max_epochs` is -3"),
            ({"max_epochs": 2.5}, "`max_epochs` is 2.5"),
            ({"batch_size": 0}, "`batch_size` is 0"),
            ({"batch_size": -1}, "`batch_size` is -1"),
            ({"patience": 0}, "`patience` is 0"),
            ({"n_blocks": 0}, "`n_blocks` is 0"),
            ({"n_blocks": -2}, "`n_blocks` is -2"),
            ({"learning_rate": 0.0}, "`learning_rate` is 0.0"),
            ({"learning_rate": -1e-3}, "`learning_rate` is -0.001"),
            ({"learning_rate": np.nan}, "`learning_rate` is nan"),
            ({"learning_rate": np.inf}, "`learning_rate` is inf"),
            ({"weight_decay": -1.0}, "`weight_decay` is -1.0"),
            ({"hidden": ()}, r"`hidden` is \(\)"),
            ({"hidden": (8, -1)}, r"`hidden` is \(8, -1\)"),
            ({"hidden": 64}, "`hidden` is 64"),
        ],
    )
    def test_bad_ones_are_named(self, setting: dict[str, Any], words: str) -> None:
        with pytest.raises(ValueError, match=words):
            small(**setting).fit(normal())

    @pytest.mark.parametrize(
        ("n", "fraction", "n_held_out"), [(1000, 0.3, 300), (100, 0.1, 25), (5, 0.9, 4), (2, 0.1, 1)]
    )
    def test_held_out_rows(self, n: int, fraction: float, n_held_out: int, monkeypatch: pytest.MonkeyPatch) -> None:
        arguments: dict[str, Any] = {}

        def watch(flow: Any, loss: Any, rows: ArrayRows, held_out: np.ndarray, recipe: Any, **others: Any) -> None:
            arguments.update(rows=rows.n_rows, held_out=held_out)

        monkeypatch.setattr(module, "train", watch)
        X = normal(n)
        small(validation_fraction=fraction, scaling="none").fit(X)
        assert arguments["held_out"].shape == (n_held_out, 2)
        assert arguments["rows"] == n - n_held_out

    def test_scaler_given_is_not_fitted_itself(self) -> None:
        scaler = Gaussianizer(n_knots=9)
        fitted = small(scaling=scaler).fit(normal())
        assert isinstance(fitted.scaler_, Gaussianizer)
        assert fitted.scaler_ is not scaler
        assert not hasattr(scaler, "n_features_in_")

    def test_says_that_it_was_cut_short(self) -> None:
        X = normal(2000)
        X[:, 1] = X[:, 0] + 0.1 * X[:, 1]
        with pytest.warns(ConvergenceWarning, match="`max_epochs` = 2, but the held-out loss .* was still falling"):
            small().set_params(scaling="standard").fit(X)

    @pytest.mark.usefixtures("terminal")
    @pytest.mark.parametrize("verbose", [False, True])
    def test_verbose_shows_progress_on_standard_error(self, verbose: bool, capsys: pytest.CaptureFixture[str]) -> None:
        small(verbose=verbose).fit(normal())
        output = capsys.readouterr()
        assert output.out == ""
        assert ("2/2" in output.err) == verbose

    def test_checkpoint_of_a_finished_fit_is_taken_and_of_another_refused(self, tmp_path: Path) -> None:
        X = normal()
        Z = small().fit_transform(X)
        model = small(checkpoint=tmp_path / "run")
        for _ in range(2):
            assert np.array_equal(model.fit_transform(X), Z)
        for other, named in (
            (model.set_params(max_epochs=3), "max_epochs"),
            (small(checkpoint=tmp_path / "run", scaling="gaussian"), "held-out rows"),
            (small(checkpoint=tmp_path / "run", flow="spline"), "model, parameters"),
        ):
            with pytest.raises(ValueError, match=rf"belongs to another run\. It differs in .*{named}"):
                other.fit(X)


class TestImages:
    def test_round_trip(self) -> None:
        X = images()
        fitted = small(scaling="image").fit(X)
        Z = fitted.transform(X)
        assert np.array_equal(Z, fitted.transform(X))  # no noise outside the training
        assert np.array_equal(fitted.inverse_transform(Z), X)
        draws = fitted.sample(50, random_state=0)
        assert np.array_equal(draws, np.round(draws).clip(0, 255))

    def test_codes_with_noise_stand_for_the_same_images(self) -> None:
        X = images()
        fitted = small(scaling="image").fit(X)
        Z, other = (fitted.encode(X, np.random.default_rng(seed)) for seed in (1, 2))
        assert (other != Z).all()
        assert np.array_equal(fitted.inverse_transform(Z), X)
        of_bytes = fitted.encode(X.astype(np.uint8), np.random.default_rng(1))
        np.testing.assert_allclose(of_bytes, Z, rtol=1e-5, atol=1e-5)  # the flow is in float32

    def test_a_pixel_that_is_always_black_is_no_trouble(self) -> None:
        X = images()
        X[:, 1] = 0
        assert np.isfinite(small(scaling="image").fit(X).transform(X)).all()

    @pytest.mark.parametrize("bad", [-1.0, 256.0, 0.5])
    def test_values_outside_are_refused(self, bad: float) -> None:
        X = images()
        fitted = small(scaling="image").fit(X)
        X[3, 2] = bad
        words = rf"`X` holds {bad} \(row 3, column 2, counted from 0\). Use integers from 0 to 255"
        with pytest.raises(ValueError, match=words):
            small(scaling="image").fit(X)
        with pytest.raises(ValueError, match=words):
            fitted.transform(X)


class TestBadRows:
    @pytest.mark.parametrize(
        ("X", "words"),
        [
            (np.empty((0, 2)), r"0 sample\(s\)"),
            (np.empty((5, 0)), r"0 feature\(s\)"),
            (np.ones((1, 2)), r"minimum of 2 is required"),
            (np.ones(5), "Expected 2D array"),
            (np.ones((4, 2, 2)), "dim 3"),
            (np.array([[1.0, np.nan], [2.0, 3.0]]), "NaN"),
            (np.array([[1.0, np.inf], [2.0, 3.0]]), "infinity"),
            (np.array([["a", "b"], ["c", "d"]]), "could not convert string"),
            (np.array([[1, "b"], [2, "d"]], dtype=object), "could not convert string"),
            (np.array([[1, None], [2, 3]], dtype=object), "NaN|NoneType"),
            (np.ones((4, 2)) * 1j, "Complex data not supported"),
            (np.full((5, 2), 3.0), "constant"),
            ("rows.csv", r"ends with '\.csv'\. Use a file that ends with \.npy or \.parquet"),
        ],
        ids=lambda value: None,
    )
    def test_are_refused(self, X: Any, words: str) -> None:
        with pytest.raises((ValueError, TypeError), match=words):
            small().fit(X)

    def test_sparse_ones_are_refused(self) -> None:
        with pytest.raises(TypeError, match="Sparse data was passed"):
            small().fit(csr_array(normal()))

    def test_objects_that_are_numbers_are_taken(self) -> None:
        X = normal()
        assert np.array_equal(small().fit_transform(X.astype(object)), small().fit_transform(X))

    @pytest.mark.parametrize("method", ["transform", "score_samples", "score"])
    def test_are_refused_after_the_fit(self, method: str) -> None:
        fitted = small().fit(normal())
        call = getattr(fitted, method)
        with pytest.raises(ValueError, match="X has 3 features, but FlowFeaturizer is expecting 2"):
            call(normal(d=3))
        with pytest.raises(ValueError, match="NaN"):
            call(np.array([[np.nan, 1.0]]))
        with pytest.raises(ValueError, match=r"0 sample\(s\)"):
            call(np.empty((0, 2)))

    def test_inverse_needs_the_columns_of_the_latent_space(self) -> None:
        fitted = small().fit(normal())
        with pytest.raises(ValueError, match="`Z` has 3 columns, but the latent space has 2"):
            fitted.inverse_transform(normal(d=3))
        with pytest.raises(ValueError, match="NaN"):
            fitted.inverse_transform(np.array([[np.nan, 1.0]]))

    @pytest.mark.parametrize("library", [pd, pl])
    def test_swapped_columns_are_refused(self, library: Any) -> None:
        frame = library.DataFrame({"age": normal()[:, 0], "height": normal()[:, 1]})
        fitted = small().fit(frame)
        assert list(fitted.feature_names_in_) == ["age", "height"]
        with pytest.raises(ValueError, match="Feature names must be in the same order as they were in fit"):
            fitted.transform(frame[["height", "age"]])
        renamed = library.DataFrame({"age": normal()[:, 0], "weight": normal()[:, 1]})
        with pytest.raises(ValueError, match="Feature names unseen at fit time"):
            fitted.transform(renamed)

    @pytest.mark.parametrize("method", ["transform", "inverse_transform", "score_samples", "score"])
    def test_nothing_before_the_fit(self, method: str) -> None:
        with pytest.raises(NotFittedError):
            getattr(small(), method)(normal())
        with pytest.raises(NotFittedError):
            small().sample(3)

    def test_constant_columns_are_left_out_with_a_warning(self) -> None:
        X = normal(d=3)
        X[:, 1] = 4.0
        with pytest.warns(ScalingWarning, match=r"1 of 3 columns.*column 1 \(constant\)"):
            fitted = small().fit(X)
        Z = fitted.transform(X)
        assert Z.shape == (200, 2)
        np.testing.assert_allclose(fitted.inverse_transform(Z), X, atol=1e-3)
        assert list(fitted.get_feature_names_out()) == ["flowfeaturizer0", "flowfeaturizer1"]
        assert fitted.sample(5, random_state=0)[:, 1].tolist() == [4.0] * 5


class TestFiles:
    @staticmethod
    def write(X: np.ndarray, kind: str, folder: Path) -> Path:
        path = folder / f"rows.{kind}"
        if kind == "npy":
            np.save(path, X)
        else:
            pl.DataFrame(X, schema=["age", "height"]).write_parquet(path, row_group_size=300)
        return path

    @pytest.mark.parametrize("as_text", [False, True])
    @pytest.mark.parametrize("kind", ["npy", "parquet"])
    def test_train_as_well_as_rows_in_memory(self, kind: str, as_text: bool, tmp_path: Path) -> None:
        X = default_rng(0).normal([50.0, 1.7], [10.0, 0.1], (2000, 2))
        path = self.write(X, kind, tmp_path)
        rows: Any = pd.DataFrame(X, columns=["age", "height"]) if kind == "parquet" else X
        scores = [small(max_epochs=10).fit(source).score(rows) for source in (rows, str(path) if as_text else path)]
        entropy = np.log(2 * np.pi * np.e) + np.log(10 * 0.1)
        # the mean log-density of 2000 rows has a standard error of 1/√2000 = 0.022
        assert scores[0] == pytest.approx(-entropy, abs=0.1)
        assert scores[1] == pytest.approx(scores[0], abs=0.02)

    def test_of_images_get_noise_in_each_epoch(self, tmp_path: Path) -> None:
        np.save(tmp_path / "rows.npy", images().astype(np.uint8))
        fitted = small(scaling="image").fit(tmp_path / "rows.npy")
        assert np.array_equal(fitted.inverse_transform(fitted.transform(images())), images())

    def test_same_seed_same_bits(self, tmp_path: Path) -> None:
        path = self.write(normal(2000), "parquet", tmp_path)
        X = pd.DataFrame(normal(), columns=["age", "height"])
        a, b = (small().fit(path).transform(X) for _ in range(2))
        assert np.array_equal(a, b)

    def test_names_of_parquet_columns_are_kept(self, tmp_path: Path) -> None:
        fitted = small().fit(self.write(normal(), "parquet", tmp_path))
        assert list(fitted.feature_names_in_) == ["age", "height"]
        with pytest.raises(ValueError, match="same order"):
            fitted.transform(pd.DataFrame(normal(), columns=["height", "age"]))
        fitted.fit(self.write(normal(), "npy", tmp_path))
        assert not hasattr(fitted, "feature_names_in_")
        fitted.transform(normal())

    def test_that_are_no_good_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match="There is no file"):
            small().fit(tmp_path / "none.npy")
        (tmp_path / "folder.npy").mkdir()
        with pytest.raises(ValueError, match="is a folder"):
            small().fit(tmp_path / "folder.npy")
        for kind, format_name in (("npy", "NPY"), ("parquet", "Parquet")):
            path = self.write(normal(), kind, tmp_path)
            path.write_bytes(path.read_bytes()[:50])
            with pytest.raises(ValueError, match=rf"cannot be read as {format_name} \(.*\)\. Write "):
                small().fit(path)
            path = self.write(normal(1), kind, tmp_path)
            with pytest.raises(ValueError, match=r"has 1 row. Use at least 2 rows"):
                small().fit(path)
            X = normal()
            X[7, 1] = np.nan
            with pytest.raises(ValueError, match=r"has nan in row 7 .*\. Every value must be finite"):
                small().fit(self.write(X, kind, tmp_path))


class TestRows:
    def test_rows_of_an_array_are_that_array(self) -> None:
        X = normal()
        a, b = small().fit(X), small().fit(ArrayRows(X, ["age", "height"]))
        assert list(b.feature_names_in_) == ["age", "height"]
        np.testing.assert_array_equal(a.flow_(torch.ones(1, 2))[0].detach(), b.flow_(torch.ones(1, 2))[0].detach())

    def test_rows_that_do_not_count_are_not_seen(self) -> None:
        X = normal()
        X[::2] += 1e3
        index = np.arange(1, 200, 2)
        fitted = small().fit(ArrayRows(X, index=index))
        np.testing.assert_array_equal(fitted.transform(X[index]), small().fit(X[index]).transform(X[index]))

    def test_weights_are_shares_of_the_density(self) -> None:
        X = np.concatenate([normal(600) + 4, normal(200) - 4])
        w = np.repeat([1.0, 3.0], [600, 200])
        fitted = small(scaling="gaussian", max_epochs=10).fit(WeightedRows(X, w))
        # both clusters weigh 600: the mean is 0, but for the means of 600 and 200 rows, 0.08; without weights it is 2
        scaler: Any = fitted.scaler_
        assert scaler.steps_[0].mean_ == pytest.approx(np.zeros(2), abs=0.3)
        draws = fitted.sample(2000, random_state=0)
        assert np.mean(draws[:, 0] > 0) == pytest.approx(0.5, abs=0.1)

    def test_columns_left_out_of_rows_are_no_warning(self) -> None:
        X = normal(d=3)
        X[:, 1] = 4.0
        fitted = small().fit(ArrayRows(X))  # a warning would be an error here
        quiet = small().initialize(ArrayRows(X))
        assert fitted._n_features_out == quiet._n_features_out == 2
        X[:7, 1] = 5.0
        np.testing.assert_array_equal(fitted.encode(X)[7:], fitted.transform(X[7:]))
        fitted.log_density(X)
        for method in (fitted.transform, fitted.score_samples):
            with pytest.warns(ScalingWarning, match="In 7 of 200 rows, columns that were constant") as record:
                method(X)
            assert len(record) == 1
        with pytest.warns(ScalingWarning, match="1 of 3 columns are left out of z") as record:
            small().initialize(normal(d=3) * [1, 0, 1])
        assert len(record) == 1

    def test_one_row_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"`X` has 1 row. Use at least 2 rows"):
            small().fit(ArrayRows(normal(1)))


class TestInitialize:
    def test_scaling_is_fitted_and_the_flow_is_where_training_starts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        X = np.exp(normal())
        first: list[torch.Tensor] = []

        def look(flow: nn.Module, *args: Any, **settings: Any) -> None:
            first.extend(p.detach().clone() for p in flow.parameters())

        begun = small().initialize(X)
        monkeypatch.setattr(module, "train", look)
        fitted = small().fit(X)
        assert first
        for p, q in zip(begun.flow_.parameters(), first, strict=True):
            assert torch.equal(p, q)
        np.testing.assert_array_equal(begun.scaler_.transform(X), fitted.scaler_.transform(X))

    def test_it_is_a_map_already(self) -> None:
        X = np.exp(normal())
        begun = small().initialize(X)
        assert begun.history_ is None
        assert not begun.flow_.training
        np.testing.assert_allclose(begun.inverse_transform(begun.transform(X)), X, rtol=1e-3)
        assert begun.sample(3, random_state=0).shape == (3, 2)
        again = small().fit(X).initialize(X)  # what was trained is forgotten
        np.testing.assert_array_equal(again.transform(X), begun.transform(X))

    def test_failure_leaves_the_model_as_it_was(self) -> None:
        fitted = small().fit(normal())
        Z = fitted.transform(normal())
        with pytest.raises(ValueError, match="`flow` is 'glow'"):
            fitted.set_params(flow="glow").initialize(5 * normal())
        np.testing.assert_array_equal(fitted.transform(normal()), Z)


def test_pretrained_flow_takes_a_file_too(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", normal())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = FlowFeaturizer(pretrained()).fit(tmp_path / "rows.npy")
    assert fitted.n_features_in_ == 2


class TestAfterReview:
    """Cases that were wrong once."""

    @staticmethod
    def fitted() -> FlowFeaturizer:
        X = np.random.default_rng(0).normal(size=(200, 2))
        return FlowFeaturizer(hidden=(8,), n_blocks=2, max_epochs=20, random_state=0).fit(X)

    def test_whole_numbers_in_latent_space_keep_their_decimals_in_x(self) -> None:
        featurizer = self.fitted()
        whole = featurizer.inverse_transform([[0, 1], [1, -1]])
        np.testing.assert_array_equal(whole, featurizer.inverse_transform([[0.0, 1.0], [1.0, -1.0]]))
        assert (whole != np.round(whole)).any()

    def test_a_fit_that_fails_leaves_the_model_as_it_was(self) -> None:
        featurizer = self.fitted()
        X = np.random.default_rng(1).normal(size=(50, 2))
        Z = featurizer.transform(X)
        with pytest.raises(ValueError, match="`flow` is 'glow'"):
            featurizer.set_params(flow="glow").fit(100 * X[:, :1])
        np.testing.assert_array_equal(featurizer.transform(X), Z)

    def test_a_float64_flow_trains(self) -> None:
        X = np.random.default_rng(0).normal(size=(200, 2))
        featurizer = FlowFeaturizer(lambda d: MAF(d, hidden=(8,)).double(), max_epochs=20, random_state=0).fit(X)
        np.testing.assert_allclose(featurizer.inverse_transform(featurizer.transform(X)), X, atol=1e-10)

    def test_one_row_batches_with_batch_norm_are_named(self) -> None:
        with pytest.raises(ValueError, match="batch of 1 row"):
            FlowFeaturizer(partial(MAF, batch_norm=True), random_state=0).fit([[0.0, 1.0], [1.0, 3.0]])

    def test_a_checkpoint_needs_a_seed(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="`random_state` is None, but `checkpoint` needs a fixed seed"):
            FlowFeaturizer(checkpoint=tmp_path).fit(np.random.default_rng(0).normal(size=(50, 2)))

    @pytest.mark.parametrize("hidden", ["64", (64.0,), (True,), 64])
    def test_widths_are_whole_numbers(self, hidden: Any) -> None:
        with pytest.raises(ValueError, match="`hidden` is"):
            FlowFeaturizer(hidden=hidden).fit(np.zeros((5, 2)))

    def test_pretrained_flows_with_trainable_bases_give_densities_and_stay_as_they_were(self) -> None:
        import nflows.distributions
        import nflows.flows
        import nflows.transforms
        import normflows

        X = np.random.default_rng(0).normal(size=(20, 2))
        theirs = [
            nflows.flows.Flow(nflows.transforms.IdentityTransform(), nflows.distributions.DiagonalNormal([2])),
            normflows.NormalizingFlow(normflows.distributions.DiagGaussian(2), [normflows.flows.Permute(2)]),
        ]
        for flow in theirs:
            flow.train()
            log_p = FlowFeaturizer(flow).fit(X).score_samples(X)
            np.testing.assert_allclose(log_p, -0.5 * (X**2).sum(1) - np.log(2 * np.pi), rtol=1e-5)
            assert flow.training

    def test_a_copy_by_way_of_bytes_is_small_and_equal(self) -> None:
        import joblib

        featurizer = self.fitted()
        path = io.BytesIO()
        joblib.dump(featurizer.flow_, path)
        n_bytes = sum(p.numel() for p in featurizer.flow_.parameters()) * 4
        assert len(path.getvalue()) < 3 * n_bytes + 50_000  # weights and mask, and what describes them
