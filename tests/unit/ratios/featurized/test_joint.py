"""JointFeaturizedRatio: its loss in plain NumPy, what it trains on, and the flow that it leaves."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import log_expit

from flowratio import ScalingWarning, load, save
from flowratio.flows import MAF
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.featurized import joint as module
from flowratio.ratios.featurized.joint import JointFeaturizedRatio, _JointLoss
from flowratio.ratios.neural.ensemble import SmoothEnsemble
from flowratio.ratios.neural.networks import MLP, evaluate
from flowratio.samples.stacking import stack
from flowratio.scaling.standardizer import Standardizer

# most runs here are cut short on purpose
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::flowratio.ratios.base.OverlapWarning"),
]
ALPHAS = [0.01, 0.3, 0.5, 1.0]
both_networks = pytest.mark.parametrize("network", ["mlp", "relu"])


def flow(**changed: Any) -> FlowFeaturizer:
    return FlowFeaturizer(**{"n_blocks": 2, "hidden": (8,), "max_epochs": 3, "patience": 3, **changed})


def quick(alpha: Any = 0.5, **changed: Any) -> JointFeaturizedRatio:
    return JointFeaturizedRatio(alpha, **{"featurizer": flow(), "hidden": (8,), "random_state": 0, **changed})


def two_samples(n_p: int = 80, n_q: int = 120) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n_p, 2)) + 1.0, rng.normal(size=(n_q, 2))


X, Y = stack(*two_samples())
X_NEW = np.random.default_rng(1).normal(size=(50, 2))


class TestLoss:
    """The flow and the network have random weights in float64; a batch has seven pairs."""

    flow = MAF(2, n_blocks=2, hidden=(8,), generator=torch.Generator().manual_seed(1)).double()
    network = MLP(2, (6, 5), generator=torch.Generator().manual_seed(2)).double()
    pairs = torch.tensor(np.random.default_rng(0).normal(size=(7, 4)))

    def loss(self, alpha: float, share_p: float = 0.5) -> _JointLoss:
        share = torch.tensor([share_p, 1 - share_p], dtype=torch.float64)
        return _JointLoss(self.flow, self.network, "z", alpha, share)

    @torch.no_grad()
    def parts(self, share_p: float) -> tuple[float, float]:
        """Return L_sup and L_flow, sample by sample in NumPy."""
        layers: Any = self.network.layers
        loss_of, log_p = {}, {}
        for of, rows, sign in (("p", self.pairs[:, :2], 1), ("q", self.pairs[:, 2:], -1)):
            z, log_det = (t.numpy() for t in self.flow(rows))
            hidden = z
            for layer in (layers[0], layers[2]):
                hidden = np.maximum(hidden @ layer.weight.numpy().T + layer.bias.numpy(), 0)
            log_r = (hidden @ layers[4].weight.numpy().T + layers[4].bias.numpy())[:, 0]
            loss_of[of] = -log_expit(sign * log_r).mean()
            log_p[of] = (log_det - 0.5 * (z**2).sum(axis=1) - math.log(2 * math.pi)).mean()
        return (loss_of["p"] + loss_of["q"]) / 2, -(share_p * log_p["p"] + (1 - share_p) * log_p["q"])

    @pytest.mark.parametrize("share_p", [0.5, 0.9])
    @pytest.mark.parametrize("alpha", ALPHAS)
    def test_is_the_weighted_sum(self, alpha: float, share_p: float) -> None:
        of_ratio, of_flow = self.parts(share_p)
        expected = alpha * of_ratio + (1 - alpha) * of_flow
        assert self.loss(alpha, share_p)(self.pairs).item() == pytest.approx(expected, rel=1e-12)

    @pytest.mark.parametrize("alpha", ALPHAS)
    def test_flow_runs_once_a_step(self, alpha: float) -> None:
        calls: list[int] = []
        handle = self.flow.register_forward_hook(lambda *args: calls.append(len(args[1][0])))
        self.loss(alpha)(self.pairs)
        handle.remove()
        assert calls == [14]

    def gradients(self, loss: torch.Tensor) -> list[torch.Tensor]:
        parameters = [*self.flow.parameters(), *self.network.parameters()]
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        return [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, gradients, strict=True)]

    def test_alpha_of_one_leaves_the_likelihood_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        likelihood = self.gradients(-self.flow.log_prob(self.pairs.view(-1, 2)).mean())
        of_one, of_some = (self.gradients(self.loss(alpha)(self.pairs)) for alpha in (1.0, 0.3))
        assert any(g.abs().max() > 1e-3 for g in of_one[: len([*self.flow.parameters()])])  # the flow learns from y
        for one, some, log_p in zip(of_one, of_some, likelihood, strict=True):
            torch.testing.assert_close(some, 0.3 * one + 0.7 * log_p, rtol=1e-9, atol=1e-12)

        def fail(z: torch.Tensor) -> torch.Tensor:
            raise AssertionError

        monkeypatch.setattr(self.flow, "base_log_prob", fail)
        self.loss(1.0)(self.pairs)

    @pytest.mark.parametrize("features", ["z", "x+z"])
    @pytest.mark.parametrize("alpha", [0.3, 1.0])
    @torch.no_grad()
    def test_networks_of_an_ensemble_have_a_loss_each(self, alpha: float, features: str) -> None:
        network = SmoothEnsemble(2 if features == "z" else 4, (6,), generator=torch.Generator().manual_seed(3)).double()
        for k, parameter in enumerate(network.parameters()):  # the last layers start at 0
            parameter += torch.randn(parameter.shape, generator=torch.Generator().manual_seed(k), dtype=torch.float64)
        losses, log_p = np.zeros((2, 3)), np.zeros(2)  # of p and q, by network
        for k, rows in enumerate((self.pairs[:, :2], self.pairs[:, 2:])):
            z, log_det = self.flow(rows)
            inputs = z if features == "z" else torch.cat([rows, z], dim=1)
            losses[k] = -log_expit((1 - 2 * k) * network.members(inputs).numpy()).mean(axis=1)
            log_p[k] = (log_det - 0.5 * (z**2).sum(dim=1) - math.log(2 * math.pi)).mean()
        loss = _JointLoss(self.flow, network, features, alpha, torch.tensor([0.5, 0.5], dtype=torch.float64))
        expected = alpha * losses.mean() - (1 - alpha) * log_p.mean()
        assert loss(self.pairs).item() == pytest.approx(expected, rel=1e-12)
        assert losses.mean(axis=0).std() > 0.01  # the loss of the mean would be another number


class Trained:
    """Stands for `train`, and stores its arguments."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.original = module.train
        monkeypatch.setattr(module, "train", self)

    def __call__(self, model: Any, loss: Any, rows: Any, held_out: Any, recipe: Any, **settings: Any) -> Any:
        self.loss, self.rows, self.held_out, self.recipe = loss, rows, held_out, recipe
        return self.original(model, loss, rows, held_out, recipe, **settings)


class TestTraining:
    @pytest.mark.parametrize(("n_p", "n_q"), [(40, 200), (200, 40), (60, 60)])
    @pytest.mark.parametrize("mixture", ["pooled", "balanced"])
    def test_share_of_the_samples_in_the_likelihood(
        self, mixture: Any, n_p: int, n_q: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        trained = Trained(monkeypatch)
        X_p, X_q = two_samples(n_p, n_q)
        model = quick(mixture=mixture, featurizer=flow(scaling="standard")).fit_samples(X_p, X_q)
        share = n_p / (n_p + n_q) if mixture == "pooled" else 0.5
        assert trained.loss.share.tolist() == pytest.approx([share, 1 - share])
        scaler: Any = model.featurizer_.scaler_
        # what scales the rows sees the same mixture; a row is there once or twice in place of its weight
        expected = share * X_p.mean(axis=0) + (1 - share) * X_q.mean(axis=0)
        np.testing.assert_allclose(scaler.mean_, expected, atol=1e-9 if mixture == "pooled" else 0.1)

    def test_pairs_are_scaled_rows_of_p_and_q(self, monkeypatch: pytest.MonkeyPatch) -> None:
        trained = Trained(monkeypatch)
        model = quick(featurizer=flow(scaling="standard", batch_size=32)).fit(X, Y)
        pairs = np.concatenate([next(trained.rows.blocks(500)), trained.held_out])
        for k, rows in enumerate((X[Y == 1], X[Y == 0])):
            scaled = model.featurizer_.scaled(rows)
            assert {*map(tuple, pairs[:, 2 * k : 2 * k + 2])} == {*map(tuple, scaled)}
        assert trained.recipe.batch_size == 16  # pairs

    def test_weights_count_in_the_shares(self, monkeypatch: pytest.MonkeyPatch) -> None:
        trained = Trained(monkeypatch)
        quick().fit(X, Y, sample_weight=np.where(Y == 1, 3, np.arange(len(Y)) % 2 + 1))
        # a factor that all weights of a sample have in common does not count
        assert trained.loss.share.tolist() == pytest.approx([80 / 260, 180 / 260])

    def test_noise_is_drawn_again_in_each_pass(self) -> None:
        rng = np.random.default_rng(0)
        pixels = rng.integers(0, 256, (150, 4))
        pixels[:70] //= 2
        model = quick(featurizer=flow(scaling="image")).fit(pixels, np.arange(150) < 70)
        np.testing.assert_array_equal(model.featurizer_.inverse_transform(model.featurizer_.transform(pixels)), pixels)
        assert np.isfinite(model.log_ratio(pixels)).all()

    @pytest.mark.parametrize(("alpha", "network"), [(0.5, "mlp"), (1, "mlp"), (1.0, "relu")])
    def test_recovers_a_shift(self, alpha: float, network: str) -> None:
        rng = np.random.default_rng(0)
        X_p, X_q = rng.normal(size=(1000, 2)) + 1, rng.normal(size=(1000, 2))
        settings: Any = {"network": network, "hidden": (32,), "featurizer": flow(max_epochs=40, patience=40)}
        model = quick(alpha, **settings).fit_samples(X_p, X_q)
        X = rng.normal(0.5, 1.0, size=(2000, 2))
        truth = X.sum(axis=1) - 1
        # var log r = 2; a linear log r of 2000 rows is off by 3·4/2000 = 0.006 nats², a network by several times that:
        # the limit of 0.2 is a tenth of the variance, which is the error of r = 1
        assert np.mean((model.log_ratio(X) - truth) ** 2) < 0.2

    def test_flow_of_a_small_alpha_is_a_density(self) -> None:
        rng = np.random.default_rng(0)
        X_p, X_q = rng.normal(size=(1000, 2)) + 1, rng.normal(size=(1000, 2))
        model = quick(0.1, featurizer=flow(max_epochs=30, patience=30)).fit_samples(X_p, X_q)
        rows = np.concatenate([X_p, X_q])
        densities = [np.exp(-0.5 * ((rows - m) ** 2).sum(axis=1)) / (2 * np.pi) for m in (0, 1)]
        truth = np.log(np.mean(densities, axis=0)).mean()
        # the mixture of two overlapping Gaussians is easy for the flow; a Gaussian of the same moments loses 0.02
        assert model.featurizer_.score(rows) == pytest.approx(truth, abs=0.1)

    @both_networks
    def test_callback_sees_every_evaluation(self, network: str) -> None:
        calls: list[tuple[Any, int]] = []
        settings: Any = {"featurizer": flow(max_epochs=60), "network": network}
        model = quick(**settings, callback=lambda *a: calls.append(a)).fit(X, Y)
        assert [epoch for _, epoch in calls] == model.history_.epoch
        classes = [MAF, SmoothEnsemble if network == "mlp" else MLP]
        assert all([type(part) for part in parts] == classes for parts, _ in calls)
        plain = quick(**settings).fit(X, Y)
        np.testing.assert_array_equal(plain.log_ratio(X_NEW), model.log_ratio(X_NEW))

    @both_networks
    def test_same_seed_same_bits(self, network: str) -> None:
        fits = (quick(random_state=seed, network=network).fit(X, Y).log_ratio(X_NEW) for seed in (0, 0, 1))
        a, b, c = fits
        np.testing.assert_array_equal(a, b)
        assert not np.array_equal(a, c)

    def test_a_killed_run_resumes_to_the_same_bits(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        loss, calls, kill_at = _JointLoss.__call__, [0], [0]

        def counted(self: _JointLoss, pairs: torch.Tensor) -> torch.Tensor:
            calls[0] += 1
            if calls[0] == kill_at[0]:
                raise KeyboardInterrupt
            return loss(self, pairs)

        monkeypatch.setattr(_JointLoss, "__call__", counted)
        monkeypatch.setattr("flowratio.training.checkpoint.Checkpoint.is_due", lambda self: True)
        whole = quick(featurizer=flow(max_epochs=20)).fit(X, Y)
        n_calls, calls[0], kill_at[0] = calls[0], 0, 12
        with_checkpoint = flow(max_epochs=20, checkpoint=tmp_path)
        with pytest.raises(KeyboardInterrupt):
            quick(featurizer=with_checkpoint).fit(X, Y)
        again = quick(featurizer=with_checkpoint).fit(X, Y)
        assert calls[0] - n_calls in (1, 2)  # the step that was cut off is taken again, or a look at held-out rows too
        np.testing.assert_array_equal(again.log_ratio(X_NEW), whole.log_ratio(X_NEW))
        np.testing.assert_array_equal(again.featurizer_.transform(X_NEW), whole.featurizer_.transform(X_NEW))
        assert again.history_.held_out_loss == whole.history_.held_out_loss


class TestFeaturizer:
    @pytest.mark.parametrize("alpha", [0.2, 1.0])
    @pytest.mark.parametrize(("network", "features"), [("mlp", None), ("mlp", "z"), ("relu", None), ("relu", "x+z")])
    def test_has_codes_densities_and_samples(self, alpha: float, network: str, features: Any) -> None:
        model = quick(alpha, network=network, features=features).fit(X, Y)
        featurizer = model.featurizer_
        Z = featurizer.transform(X_NEW)
        np.testing.assert_allclose(featurizer.inverse_transform(Z), X_NEW, rtol=0, atol=1e-9)  # in float64
        scaled, log_det = featurizer.scaler_.forward(X_NEW)
        with torch.no_grad():
            expected = featurizer.flow_.log_prob(torch.tensor(scaled)).numpy() + log_det
        is_latent = (features or {"mlp": "x+z", "relu": "z"}[network]) == "z"
        assert model.is_latent() == is_latent
        log_r = evaluate(model.network_, Z if is_latent else np.hstack([scaled, Z]))[:, 0]
        np.testing.assert_allclose(featurizer.score_samples(X_NEW), expected, rtol=0, atol=1e-12)
        np.testing.assert_allclose(model.log_ratio(X_NEW), log_r, rtol=0, atol=1e-12)
        assert featurizer.sample(5, random_state=0).shape == (5, 2)
        assert featurizer.history_ is model.history_

    @both_networks
    def test_network_and_flow_are_both_trained(self, network: str) -> None:
        # an ensemble keeps its first weights if no step is better on held-out rows: here 40 steps are
        model = quick(1.0, network=network, featurizer=flow(max_epochs=40, patience=40)).fit(X, Y)
        begun, generator = flow(random_state=0).initialize(X), torch.Generator().manual_seed(0)
        first = SmoothEnsemble(4, (8,), generator=generator) if network == "mlp" else MLP(2, (8,), generator=generator)
        for trained, new in ((model.featurizer_.flow_, begun.flow_), (model.network_, first)):
            moved = [(p - q).abs().max().item() for p, q in zip(trained.parameters(), new.parameters(), strict=True)]
            assert max(moved) > 1e-3

    @both_networks
    def test_is_saved_with_the_ratio(self, network: str, tmp_path: Path) -> None:
        model = quick(network=network).fit(X, Y)
        save(model, tmp_path)
        loaded = load(tmp_path)
        np.testing.assert_array_equal(loaded.log_ratio(X_NEW), model.log_ratio(X_NEW))
        np.testing.assert_array_equal(
            loaded.featurizer_.sample(5, random_state=0), model.featurizer_.sample(5, random_state=0)
        )
        assert loaded.history_ == model.history_

    def test_frames_give_it_names(self) -> None:
        frame = pd.DataFrame(X, columns=pd.Index(["age", "height"]))
        model = quick().fit(frame, Y)
        assert list(model.featurizer_.feature_names_in_) == ["age", "height"]
        assert model.featurizer_.transform(frame).shape == (200, 2)

    def test_constant_and_collinear_columns_are_left_out_without_a_warning(self) -> None:
        rows = np.column_stack([X, np.full(len(X), 4.0), X.sum(axis=1)])
        model = quick().fit(rows, Y)
        assert model.featurizer_.transform(rows).shape == (200, 2)
        assert np.isfinite(model.log_ratio(rows + np.array([0, 0, 1.0, 5.0]))).all()
        with pytest.warns(ScalingWarning, match="200 of 200 rows"):  # the map itself is not silent
            model.featurizer_.transform(rows + np.array([0, 0, 1.0, 5.0]))

    def test_the_featurizer_stays_unchanged(self) -> None:
        featurizer = flow()
        quick(featurizer=featurizer).fit(X, Y)
        assert not hasattr(featurizer, "flow_")
        assert featurizer.random_state is None

    def test_defaults(self) -> None:
        settings: Any = {"featurizer": flow(), "random_state": 0}
        model = JointFeaturizedRatio(**settings).fit(X, Y)
        assert (type(model.network_), model.network_.hidden) == (SmoothEnsemble, (64, 64, 64))
        assert (model.features_, model.network_.n_features) == ("x+z", 4)
        plain = JointFeaturizedRatio(network="relu", **settings).fit(X, Y)
        assert (type(plain.network_), plain.network_.hidden) == (MLP, (32, 32, 32))  # 80 rows of p
        assert (plain.features_, plain.network_.n_features) == ("z", 2)


class TestBadSettings:
    def test_alpha_of_zero_points_to_separate_training(self) -> None:
        for alpha in (0, 0.0, -0.0):
            with pytest.raises(ValueError, match=r"`alpha` is 0, which leaves the ratio out .*\. Use `Featur"):
                quick(alpha).fit(X, Y)

    @pytest.mark.parametrize("alpha", [1.5, -1, -1e-9, "a", True, False, None, math.nan, math.inf])
    def test_alpha(self, alpha: Any) -> None:
        with pytest.raises(ValueError, match=r"`alpha` is .*\. Use a number above 0 and at most 1"):
            quick(alpha).fit(X, Y)

    @pytest.mark.parametrize("featurizer", [flow().initialize(X), FlowFeaturizer(MAF(2))], ids=["fitted", "pretrained"])
    def test_fitted_flows(self, featurizer: FlowFeaturizer) -> None:
        with pytest.raises(
            ValueError, match=r"`featurizer` is fitted or has a pretrained flow, .*, or `FeaturizedRatio`"
        ):
            quick(featurizer=featurizer).fit(X, Y)

    @pytest.mark.parametrize("featurizer", ["maf", FlowFeaturizer, Standardizer()], ids=str)
    def test_no_flows(self, featurizer: Any) -> None:
        with pytest.raises(TypeError, match=r"`featurizer` is .*\. Use a `FlowFeaturizer`, or None"):
            quick(featurizer=featurizer).fit(X, Y)

    @pytest.mark.parametrize("hidden", [(), (0,), 8, "8", (8.0,), (True,)])
    def test_hidden(self, hidden: Any) -> None:
        with pytest.raises(ValueError, match=r"`hidden` is .* the widths of one or more layers"):
            quick(hidden=hidden).fit(X, Y)

    @pytest.mark.parametrize(("name", "choices"), [("network", "mlp, relu"), ("features", "z, x[+]z")])
    def test_names(self, name: str, choices: str) -> None:
        with pytest.raises(ValueError, match=rf"`{name}` is 'x'. Use one of {choices}"):
            quick(**{name: "x"}).fit(X, Y)

    def test_mixture(self) -> None:
        with pytest.raises(ValueError, match=r"`mixture` is 'half'. Use one of pooled, balanced"):
            quick(mixture="half").fit(X, Y)
