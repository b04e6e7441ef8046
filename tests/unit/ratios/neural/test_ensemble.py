"""SmoothEnsemble and its training: outputs and losses in plain NumPy, own held-out rows, and the settings."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit, log_expit

from flowratio.ratios.neural.ensemble import (
    SideBySide,
    SmoothEnsemble,
    ensemble_loss,
    ensemble_recipe,
    train_ensemble,
)
from flowratio.ratios.neural.network_ratio import NetworkRatio
from flowratio.ratios.neural.networks import PairedRows, evaluate, paired
from flowratio.samples.two_samples import TwoSamples
from flowratio.storage.saving import load, save
from flowratio.training.loop import train

D, N_MEMBERS = 3, 4


def random_ensemble(hidden: tuple[int, ...] = (6, 5), n_members: int = N_MEMBERS) -> SmoothEnsemble:
    """Return a network in float64 whose parameters are all random, the last layers and linear terms too."""
    network, generator = SmoothEnsemble(D, hidden, n_members).double(), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return network


def member_by_hand(network: SmoothEnsemble, j: int, X: np.ndarray) -> np.ndarray:
    """Return the output of one network, (n, d) to (n,)."""
    h = np.clip(X, network.low.numpy(), network.high.numpy())
    for k, (matrix, bias) in enumerate(zip(network.matrices, network.biases, strict=True)):
        h = (h if k == 0 else h * expit(h)) @ matrix[j].detach().numpy() + bias[j].detach().numpy()
    return (h + X @ network.slopes[j].detach().numpy())[:, 0]


def samples_of(n_p: int = 150, n_q: int = 120, d: int = D, shift: float = 1.0, seed: int = 0) -> TwoSamples:
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(shift, 1, (n_p, d)), rng.normal(0, 1, (n_q, d))])
    return TwoSamples.of(X, np.arange(len(X)) < n_p, np.ones(len(X)))


class TestOutput:
    X = np.random.default_rng(0).normal(size=(20, D))

    @pytest.mark.parametrize("hidden", [(6, 5), (7,)])
    @pytest.mark.parametrize("n_members", [1, 3])
    def test_is_the_mean_of_the_networks(self, hidden: tuple[int, ...], n_members: int) -> None:
        network = random_ensemble(hidden, n_members)
        single = np.array([member_by_hand(network, j, self.X) for j in range(n_members)])
        np.testing.assert_allclose(network.members(torch.tensor(self.X)).detach().numpy(), single, rtol=1e-12)
        np.testing.assert_allclose(evaluate(network, self.X)[:, 0], single.mean(axis=0), rtol=1e-12)
        assert n_members == 1 or single.std(axis=0).min() > 1e-3

    def test_networks_see_the_range_of_the_training_rows(self) -> None:
        network, far = random_ensemble(), 50 * self.X
        before = evaluate(network, far)
        network.clamp_to(self.X)
        assert network.low.tolist() == self.X.min(axis=0).tolist()
        assert network.high.tolist() == self.X.max(axis=0).tolist()
        single = np.array([member_by_hand(network, j, far) for j in range(N_MEMBERS)])
        np.testing.assert_allclose(evaluate(network, far)[:, 0], single.mean(axis=0), rtol=1e-12)
        assert np.abs(evaluate(network, far) - before).max() > 1

    def test_each_network_can_have_its_own_rows(self) -> None:
        network, X = random_ensemble(), np.random.default_rng(1).normal(size=(N_MEMBERS, 8, D))
        expected = [member_by_hand(network, j, X[j]) for j in range(N_MEMBERS)]
        np.testing.assert_allclose(network.members(torch.tensor(X)).detach().numpy(), expected, rtol=1e-12)

    def test_starts_at_0_with_networks_that_differ(self) -> None:
        network = SmoothEnsemble(D, (6, 5), 2, generator=torch.Generator().manual_seed(0))
        assert not evaluate(network, 100 * self.X).any()
        first = network.matrices[0].detach()
        assert not torch.equal(first[0], first[1])
        assert first.abs().max() <= 1 / math.sqrt(D)
        same, other = (SmoothEnsemble(D, (6, 5), 2, generator=torch.Generator().manual_seed(k)) for k in (0, 1))
        assert torch.equal(same.matrices[0], first)
        assert not torch.equal(other.matrices[0], first)

    def test_training_starts_with_a_gradient(self) -> None:
        network = SmoothEnsemble(D, (6, 5))
        loss = ensemble_loss(network)(torch.randn(9, 2 * D * 3, generator=torch.Generator().manual_seed(0)))
        last, slopes = torch.autograd.grad(loss, [network.matrices[2], network.slopes])
        assert last.abs().amax(dim=(1, 2)).min() > 1e-3
        assert slopes.abs().amax(dim=(1, 2)).min() > 1e-3

    @pytest.mark.parametrize(("hidden", "n_members"), [((4, 0), 3), ((4,), 0)])
    def test_bad_sizes(self, hidden: tuple[int, ...], n_members: int) -> None:
        with pytest.raises(ValueError, match=r"Use 1 or more of each"):
            SmoothEnsemble(D, hidden, n_members)


class TestLoss:
    def test_is_the_mean_of_the_losses_on_own_pairs(self) -> None:
        network = random_ensemble()
        pairs = np.random.default_rng(2).normal(size=(11, 2 * D * N_MEMBERS))
        losses = []
        for j in range(N_MEMBERS):
            own = pairs[:, 2 * D * j : 2 * D * (j + 1)]
            log_r_p, log_r_q = (member_by_hand(network, j, rows) for rows in (own[:, :D], own[:, D:]))
            losses.append((-log_expit(log_r_p).mean() - log_expit(-log_r_q).mean()) / 2)
        # softplus of torch is linear above 20, where it leaves out exp(-20) = 2e-9
        assert ensemble_loss(network)(torch.tensor(pairs)).item() == pytest.approx(np.mean(losses), rel=0, abs=3e-9)

    def test_is_log_2_at_the_start(self) -> None:
        network = SmoothEnsemble(D)
        assert ensemble_loss(network)(torch.ones(5, 2 * D * 3)).item() == pytest.approx(math.log(2))


class TestRows:
    def test_each_network_holds_out_rows_of_its_own(self) -> None:
        samples = samples_of(d=1)
        X_p, X_q = ({*samples.X[part, 0].astype(np.float32).tolist()} for part in samples.parts)
        rest, held_out = SideBySide([paired(samples)] * 3).split(40, np.random.default_rng(0))
        fitted = next(rest.blocks(10**6))
        assert fitted.shape[1] == held_out.shape[1] == 6
        for k, rows in enumerate((X_p, X_q)):
            held = [{*held_out[:, 2 * j + k].tolist()} for j in range(3)]
            for j in range(3):
                assert held[j] <= rows
                assert not held[j] & {*fitted[:, 2 * j + k].tolist()}
                assert held[j] != held[j - 1]
                # each part still has all of its other rows
                part: Any = rest.parts[j]
                assert {*part.samples[k][0][:, 0].tolist()} == rows - held[j]

    def test_each_network_has_an_order_of_its_own(self) -> None:
        rows = SideBySide([paired(samples_of(d=1))] * 2)
        assert (rows.n_rows, rows.n_features) == (150, 4)
        for blocks in (rows.shuffled(np.random.default_rng(0), 40), [rows.sample(100, np.random.default_rng(0))]):
            batch = np.concatenate(list(blocks))
            assert not np.array_equal(batch[:, :2], batch[:, 2:])
        assert len(np.concatenate(list(rows.shuffled(np.random.default_rng(0), 40)))) == 150

    def test_versions_of_a_row_are_held_out_together(self) -> None:
        samples = samples_of(40, 40, d=1)
        groups = np.concatenate([np.arange(40) // 4, 100 + np.arange(40) // 4])
        samples = dataclasses.replace(samples, groups=groups)
        group_of = dict(zip(samples.X[:, 0].astype(np.float32).tolist(), groups, strict=True))
        rest, held_out = SideBySide([paired(samples)] * 2).split(8, np.random.default_rng(0))
        fitted = next(rest.blocks(10**6))
        for column in range(4):
            own = [{group_of[value] for value in rows[:, column].tolist()} for rows in (held_out, fitted)]
            assert not own[0] & own[1]

    def test_parts_of_different_length_are_cut(self) -> None:
        parts = [PairedRows(np.ones((n, 1)), np.ones(n), np.ones((n, 1)), np.ones(n)) for n in (9, 7)]
        rows = SideBySide(parts)
        assert rows.n_rows == 7
        assert sum(len(block) for block in rows.blocks(5)) == 7


class TestRecipe:
    @pytest.mark.parametrize(
        ("n", "batch_size", "max_epochs", "patience"),
        [
            (100, 32, 667, 67),  # batches of 32 pairs, 3 in a pass
            (2_000, 100, 100, 10),  # a twentieth of the pairs: 2000 steps, 200 without progress
            (20_000, 1_000, 100, 10),
            (100_000, 1_024, 21, 3),  # batches of 1024 pairs, 98 in a pass
            (1_000_000, 1_024, 10, 2),  # the fewest passes
        ],
    )
    def test_defaults(self, n: int, batch_size: int, max_epochs: int, patience: int) -> None:
        recipe = ensemble_recipe(n, {})
        assert (recipe.batch_size, recipe.max_epochs, recipe.patience) == (batch_size, max_epochs, patience)
        assert recipe.start_counts
        assert (recipe.settle, recipe.schedule, recipe.learning_rate) == (0, "constant", 2e-3)

    def test_settings_of_the_user(self) -> None:
        settings = {"batch_size": 64, "max_epochs": 7, "learning_rate": 0.1, "weight_decay": 0.5}
        recipe = ensemble_recipe(1_000, settings)
        assert (recipe.batch_size, recipe.max_epochs, recipe.learning_rate, recipe.weight_decay) == (32, 7, 0.1, 0.5)
        assert recipe.patience == 7  # it cannot be longer than the training
        assert ensemble_recipe(1_000, {"patience": 3}).patience == 3

    def test_decay_depends_on_effective_rows(self) -> None:
        samples = samples_of(3_000, 3_000)
        w = np.where(np.arange(6_000) % 10 == 0, 1.0, 1e-6)  # as good as 300 rows of each
        weighted = dataclasses.replace(samples, w=w)
        ratio = NetworkRatio("mlp")
        assert ratio._recipe(samples).weight_decay == pytest.approx(0.1)
        assert ratio._recipe(weighted).weight_decay == pytest.approx(1.0, rel=1e-3)


class TestTraining:
    short = dataclasses.replace(ensemble_recipe(150, {"max_epochs": 24}), tolerance=math.inf)

    def trained(self, samples: TwoSamples, recipe: Any = None, **settings: Any) -> tuple[SmoothEnsemble, Any]:
        network = SmoothEnsemble(D, (8,), generator=torch.Generator().manual_seed(0))
        return network, train_ensemble(network, samples, recipe or self.short, seed=0, **settings)

    def test_reports_the_mean_loss_on_own_held_out_rows(self) -> None:
        samples = samples_of()
        network, history = self.trained(samples)
        _, held_out = SideBySide([paired(samples)] * 3).split(round(0.15 * 150), np.random.default_rng([0, 0, 2]))
        with torch.no_grad():
            loss = ensemble_loss(network)(torch.tensor(held_out)).item()
        assert history.best_epoch in history.epoch
        assert loss == pytest.approx(history.held_out_loss[history.epoch.index(history.best_epoch)], rel=1e-6)
        np.testing.assert_array_equal(network.low.numpy(), samples.X.min(axis=0).astype(np.float32))

    def test_r_of_1_stays_if_no_step_is_better(self) -> None:
        samples = samples_of()
        wrong = dataclasses.replace(self.short, learning_rate=100.0, max_epochs=2, patience=2)  # steps are far too long
        network, history = self.trained(samples, wrong)
        assert min(history.held_out_loss) > math.log(2)
        assert history.best_epoch == 0
        assert not evaluate(network, samples.X).any()

    def test_without_start_counts_some_step_is_used(self) -> None:
        samples = samples_of()
        wrong = dataclasses.replace(self.short, learning_rate=100.0, max_epochs=2, patience=2, start_counts=False)
        network, history = self.trained(samples, wrong)
        assert history.best_epoch > 0
        assert evaluate(network, samples.X).any()

    @pytest.mark.parametrize("kill_at", [1, 2, 40, 70])
    def test_a_killed_run_resumes_to_the_same_bits(
        self, kill_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("flowratio.training.checkpoint.Checkpoint.is_due", lambda self: True)
        rows, held_out = SideBySide([paired(samples_of())] * 3).split(22, np.random.default_rng(0))

        def run(folder: Path | None, kill_at: int | None = None) -> tuple[SmoothEnsemble, Any, int]:
            network = SmoothEnsemble(D, (8,), generator=torch.Generator().manual_seed(0))
            loss, calls = ensemble_loss(network), [0]

            def counted(pairs: torch.Tensor) -> torch.Tensor:
                calls[0] += 1
                if calls[0] == kill_at:
                    raise KeyboardInterrupt
                return loss(pairs)

            history = train(network, counted, rows, held_out, self.short, seed=0, checkpoint=folder)
            return network, dataclasses.replace(history, seconds=[]), calls[0]

        whole, history, n_calls = run(None)
        assert n_calls > 70
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, kill_at)
        again, history_again, n_calls_again = run(tmp_path)
        states = (network.state_dict().values() for network in (whole, again))
        assert all(torch.equal(a, b) for a, b in zip(*states, strict=True))
        assert history_again == history
        assert n_calls_again <= n_calls - kill_at + 2  # the cut step, and a look at held-out rows before it


@pytest.mark.filterwarnings("ignore::flowratio.ratios.base.OverlapWarning")
@pytest.mark.parametrize("settings", [{}, {"n_networks": 2, "hidden": (5,)}])
def test_saved_and_loaded_bits(settings: Any, tmp_path: Path) -> None:
    samples = samples_of(60, 60)
    ratio = NetworkRatio("mlp", random_state=0, **settings).fit_samples(samples.X_p, samples.X_q)
    save(ratio, tmp_path)
    loaded = load(tmp_path)
    assert type(loaded.network_) is SmoothEnsemble
    assert loaded.network_.config() == ratio.network_.config()
    rows = np.vstack([samples.X, 100 * samples.X])  # the box is saved too
    np.testing.assert_array_equal(loaded.log_ratio(rows), ratio.log_ratio(rows))
