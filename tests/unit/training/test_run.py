"""The state of a run, on models so small that every number is known."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor, nn

from flowratio.flows import MAF
from flowratio.samples.rows import ArrayRows
from flowratio.training import run
from flowratio.training.loop import train
from flowratio.training.run import History, Recipe, TimeLimit, TrainingDiverged


class Point(nn.Module):
    """A point that is pulled to the mean of the rows; it counts its steps, and remembers the batches."""

    def __init__(self, d: int = 2, start: float = 0.0) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.full((d,), start))
        self.batches: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.batches.append(x)
        return 0.5 * (x - self.w).square().sum(1).mean()


def normal(n: int, d: int = 2, mean: float = 0.0, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(mean, 1.0, (n, d)).astype(np.float32)


def settings(**changed: Any) -> Recipe:
    """A recipe in which every part that can be left out is."""
    plain: dict[str, Any] = {"max_epochs": 10, "batch_size": 20, "learning_rate": 0.01, "schedule": "constant"}
    plain |= {"patience": 1000, "clip_norm": math.inf, "average": False, "tolerance": math.inf}
    return Recipe(**{**plain, **changed})


def fit(model: nn.Module, X: np.ndarray, recipe: Recipe, **arguments: Any) -> History:
    arguments = {"loss": model, "rows": ArrayRows(X), "held_out": X[:50], "seed": 0, **arguments}
    return train(model, recipe=recipe, **arguments)


def best_is_last(model: Point) -> Callable[[Tensor], Tensor]:
    """The loss of a point, better at each look at held-out rows: so that the last weights are the ones kept."""
    looks = iter(range(1_000_000))
    return lambda x: model(x) if model.training else torch.tensor(-float(next(looks)))


def warm(step: int) -> float:
    return min(1.0, (step + 1) / 50)


class TestAdamStep:
    @pytest.mark.parametrize("weight_decay", [0.0, 0.3])
    @pytest.mark.parametrize("optimizer", ["adam", "adamw"])
    def test_fused_kernel_and_torch_optim_agree(
        self, optimizer: Any, weight_decay: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert run._FUSED[optimizer] is not None  # or this test compares nothing
        recipe = settings(optimizer=optimizer, weight_decay=weight_decay, clip_norm=1.0)
        ends = []
        for kernels in (run._FUSED, {"adam": None, "adamw": None}):
            monkeypatch.setattr(run, "_FUSED", kernels)
            generator = torch.Generator().manual_seed(0)
            weights = torch.randn(100, generator=generator)
            moments, n_steps = [torch.zeros(100), torch.zeros(100)], torch.zeros(())
            for _ in range(50):
                # from shorter than the limit to twenty times as long
                gradient = torch.randn(100, generator=generator) * 10 ** (2 * torch.rand((), generator=generator) - 1.5)
                run.adam_step(weights, gradient, moments, n_steps, 0.05, recipe)
            assert n_steps.item() == 50
            ends.append(torch.cat([weights, *moments]))
        # float32: a rounding of 6e-8 a step
        torch.testing.assert_close(ends[0], ends[1], rtol=2e-5, atol=1e-6)


class TestSteps:
    @pytest.mark.parametrize("clip_norm", [math.inf, 0.05])
    @pytest.mark.parametrize("weight_decay", [0.0, 0.3])
    @pytest.mark.parametrize("optimizer", ["adam", "adamw"])
    def test_equal_those_of_torch(self, optimizer: Any, weight_decay: float, clip_norm: float) -> None:
        X, n_epochs = normal(200, mean=1.0), 12
        model = Point(start=3.0)
        recipe = settings(
            max_epochs=n_epochs, optimizer=optimizer, weight_decay=weight_decay, learning_rate=0.1, clip_norm=clip_norm
        )
        fit(model, X, recipe, loss=best_is_last(model))

        w = nn.Parameter(torch.full((2,), 3.0))
        kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[optimizer]
        reference = kind([w], lr=0.1, weight_decay=weight_decay)
        assert len(model.batches) == 10 * n_epochs
        for step, batch in enumerate(model.batches):
            reference.param_groups[0]["lr"] = 0.1 * warm(step)
            reference.zero_grad()
            (0.5 * (batch - w).square().sum(1).mean()).backward()
            torch.nn.utils.clip_grad_norm_([w], clip_norm)
            reference.step()
        # float32, with sums in another order, over 120 steps that contract to the same point
        assert torch.allclose(model.w, w, rtol=1e-5, atol=1e-5)

    def test_clipping_is_felt(self) -> None:
        X = normal(200, mean=1.0)
        X[:20] *= 1000  # gradients of very different lengths: Adam's own scaling does not hide a cut
        ends = []
        for clip_norm in (math.inf, 0.1):
            model = Point(start=3.0)
            fit(model, X, settings(clip_norm=clip_norm, learning_rate=0.1), loss=best_is_last(model))
            ends.append(model.w.detach())
        assert float((ends[0] - ends[1]).abs().max()) > 0.1

    def test_decoupled_decay_shrinks_by_a_known_factor(self) -> None:
        model = Point(start=2.0)
        loss = best_is_last(model)
        recipe = settings(weight_decay=0.5, learning_rate=0.1)
        fit(model, normal(200), recipe, loss=lambda x: 0.0 * loss(x) if model.training else loss(x))
        expected = 2.0 * math.prod(1 - 0.1 * warm(step) * 0.5 for step in range(100))
        assert model.w.tolist() == pytest.approx([expected] * 2, rel=1e-5)

    def test_average_over_about_the_last_tenth_of_the_steps(self) -> None:
        recipe, X = settings(learning_rate=0.1), normal(200, mean=1.0)
        path: list[Tensor] = []
        model = Point(start=3.0)
        loss = best_is_last(model)

        def remember(x: Tensor) -> Tensor:
            if model.training:
                path.append(model.w.detach().clone())
            return loss(x)

        fit(model, X, recipe, loss=remember)
        path.append(model.w.detach().clone())
        averaged = Point(start=3.0)
        fit(averaged, X, dataclasses.replace(recipe, average=True), loss=best_is_last(averaged))
        expected = torch.full((2,), 3.0)
        for n, w in enumerate(path[1:]):
            expected += (w - expected) * 10 / (n + 10)
        assert torch.allclose(averaged.w, expected, rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("schedule", ["cosine", "constant"])
    def test_learning_rate_follows_its_schedule(self, schedule: Any) -> None:
        n_epochs, n_steps = 8, 25
        history = fit(Point(), normal(500), settings(max_epochs=n_epochs, schedule=schedule, learning_rate=0.2))
        last = [n_steps * (e + 1) - 1 for e in range(n_epochs)]
        total = n_epochs * n_steps
        falls = [0.5 * (1 + math.cos(math.pi * k / total)) if schedule == "cosine" else 1.0 for k in last]
        assert history.learning_rate == pytest.approx([0.2 * warm(k) * f for k, f in zip(last, falls, strict=True)])

    def test_parameters_that_need_no_gradient_stay(self) -> None:
        model = Point(start=1.0)
        model.fixed = nn.Parameter(torch.tensor([7.0]), requires_grad=False)
        model.unused = nn.Parameter(torch.tensor([5.0]))
        fit(model, normal(200), settings())
        assert model.fixed.tolist() == [7.0]
        assert model.unused.tolist() == [5.0]
        assert model.w.tolist() != [1.0, 1.0]

    def test_gradients_that_a_loss_throws_away_are_not_missed(self) -> None:
        model, other = Point(start=1.0), Point(start=1.0)
        fit(model, normal(200), settings())

        def loss(x: Tensor) -> Tensor:
            other.zero_grad()  # sets them to None
            return other(x)

        fit(other, normal(200), settings(), loss=loss)
        assert torch.equal(model.w, other.w)


class TestStopping:
    def test_best_weights_are_restored(self) -> None:
        # the point travels from 0 to the rows at 10, and passes the held-out rows at 3 on its way
        held_out = normal(50, mean=3.0, seed=1)
        model = Point()
        history = fit(
            model, normal(500, mean=10.0), settings(max_epochs=60, learning_rate=0.02, patience=5), held_out=held_out
        )
        assert history.stop_reason == "patience"
        best = min(history.held_out_loss)
        assert history.held_out_loss[0] > best < history.held_out_loss[-1]
        with torch.no_grad():
            assert model(torch.as_tensor(held_out)).item() == best
        assert history.best_epoch == history.epoch[history.held_out_loss.index(best)]
        assert history.epoch[-1] == history.best_epoch + 5

    def test_buffers_are_restored_with_the_weights(self) -> None:
        class Counter(Point):
            steps: Tensor

            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("steps", torch.zeros(()))

            def forward(self, x: Tensor) -> Tensor:
                if self.training:
                    self.steps += 1
                return super().forward(x)

        model = Counter()
        recipe = settings(max_epochs=60, learning_rate=0.02, patience=5)
        history = fit(model, normal(500, mean=10.0), recipe, held_out=normal(50, mean=3.0))
        assert model.steps.item() == 25 * history.best_epoch

    def test_leaves_a_model_ready_for_use(self) -> None:
        model = MAF(2, n_blocks=2, hidden=(8,), generator=torch.Generator())
        fit(model, normal(200), settings(max_epochs=2), loss=lambda x: -model.log_prob(x).mean())
        assert not model.training
        assert all(p.grad is None and p.requires_grad for p in model.parameters())
        storages = {p.untyped_storage().data_ptr() for p in model.parameters()}
        assert len(storages) == len(list(model.parameters()))
        assert all(p.untyped_storage().nbytes() == 4 * p.numel() for p in model.parameters())

    @pytest.mark.parametrize(("n_rows", "epochs"), [(500, [1, 2, 3, 4, 5, 6, 7]), (100, [4, 7]), (20, [7])])
    def test_held_out_rows_are_scored_once_a_round(self, n_rows: int, epochs: list[int]) -> None:
        # 25 steps an epoch are a round; with 5 it takes 4 epochs, with 1 it takes 20; the last epoch closes a round
        history = fit(Point(), normal(n_rows), settings(max_epochs=7))
        assert history.epoch == epochs
        assert history.stop_reason == "max_epochs"
        for values in (history.train_loss, history.held_out_loss, history.learning_rate, history.seconds):
            assert len(values) == len(epochs)
        assert all(np.diff([0.0, *history.seconds]) > 0)

    def test_held_out_loss_is_the_mean_over_its_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(run, "_EVALUATION_ROWS", 7)
        held_out = normal(50, mean=1.0)
        history = fit(Point(), normal(20), settings(max_epochs=1, learning_rate=0.0), held_out=held_out)
        assert history.held_out_loss[0] == pytest.approx(0.5 * np.square(held_out).sum(1).mean(), rel=1e-6)

    def test_training_loss_is_the_mean_over_the_steps_of_a_round(self) -> None:
        X = normal(500, mean=1.0)
        history = fit(Point(), X, settings(max_epochs=2, learning_rate=0.0))
        assert history.train_loss == pytest.approx([0.5 * np.square(X).sum(1).mean()] * 2, rel=1e-5)

    def test_says_that_it_was_cut_short(self) -> None:
        with pytest.warns(ConvergenceWarning, match=r"`max_epochs` = 5, but the held-out loss .* was still falling"):
            fit(Point(start=9.0), normal(500), settings(max_epochs=5, tolerance=0.01))
        with pytest.warns(ConvergenceWarning, match="`max_epochs` = 1"):
            fit(Point(), normal(20), settings(max_epochs=1, tolerance=0.01))

    def test_says_nothing_where_it_converged(self) -> None:
        history = fit(Point(start=0.5), normal(500), settings(max_epochs=30, tolerance=0.01, schedule="cosine"))
        assert history.stop_reason == "max_epochs"  # a warning would be an error here


class TestTimeLimit:
    @pytest.fixture(autouse=True)
    def _one_second_a_look(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seconds = itertools.count()
        monkeypatch.setattr(run, "time", SimpleNamespace(perf_counter=lambda: float(next(seconds))))

    def test_a_run_ends_within_an_epoch(self) -> None:
        model = Point(start=9.0)
        history = fit(model, normal(500), settings(max_epochs=100), callback=TimeLimit(10.0))
        assert history.stop_reason == "time"
        assert history.epoch == [1]
        assert len(model.batches) == 11  # of 25 in an epoch. The clock is read after each step
        assert model.w.max() < 9  # the weights of the last step

    def test_weights_that_have_not_settled_are_better_than_none(self) -> None:
        model = Point(start=9.0)
        fit(model, normal(500), settings(max_epochs=100, settle=1000), callback=TimeLimit(10.0))
        assert model.w.max() < 9

    def test_enough_time_changes_nothing(self) -> None:
        models = Point(start=1.0), Point(start=1.0)
        looks: list[int] = []
        limit = TimeLimit(1e9, lambda model, epoch: looks.append(epoch))
        histories = [
            fit(m, normal(500), settings(max_epochs=5), callback=c) for m, c in zip(models, (None, limit), strict=True)
        ]
        assert torch.equal(models[0].w, models[1].w)
        assert histories[0].held_out_loss == histories[1].held_out_loss
        assert looks == [1, 2, 3, 4, 5]


class TestRestarts:
    @staticmethod
    def bad_at(model: Point, steps: set[int], value: float = math.nan) -> Callable[[Tensor], Tensor]:
        """The loss of a point, but not finite at some of its training steps, counted from 0."""
        return lambda x: model(x) * (value if model.training and len(model.batches) in steps else 1.0)

    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_goes_on_from_the_best_weights_at_a_lower_rate(self, value: float) -> None:
        model = Point(start=5.0)
        recipe = settings(max_epochs=40, learning_rate=0.05)
        history = fit(model, normal(500), recipe, loss=self.bad_at(model, {130}, value))
        assert history.n_restarts == 1
        assert 6 not in history.epoch  # the epoch that failed is not scored
        assert history.learning_rate[4] == pytest.approx(0.05)
        assert history.learning_rate[5] == pytest.approx(0.01)
        assert history.held_out_loss[5] < history.held_out_loss[4]  # from where it was, not from the start
        assert np.isfinite(history.train_loss).all()
        assert float(model.w.detach().abs().max()) < 0.3  # five steps of the last rate, and the error of the mean

    def test_a_bad_loss_is_noticed_before_the_epoch_is_over(self) -> None:
        model = Point()
        fit(model, normal(10_000), settings(max_epochs=2), loss=self.bad_at(model, {30}))
        assert len(model.batches) == 50 + 500

    def test_gives_up_after_three(self) -> None:
        model = Point()
        with pytest.raises(TrainingDiverged, match=r"and 3 restarts .* Use a `learning_rate` below 0\.01, or remove"):
            fit(model, normal(500), settings(), loss=self.bad_at(model, {10, 40, 70, 110}))
        model = Point()
        history = fit(model, normal(500), settings(), loss=self.bad_at(model, {10, 40, 70}))
        assert history.n_restarts == 3

    def test_a_bad_held_out_loss_is_a_restart_too(self) -> None:
        model = Point(start=5.0)
        looks = iter(range(100))

        def loss(x: Tensor) -> Tensor:
            return model(x) if model.training or next(looks) != 2 else torch.tensor(math.nan)

        history = fit(model, normal(500), settings(max_epochs=12, learning_rate=0.1), loss=loss)
        assert history.n_restarts == 1
        assert history.epoch == [1, 2, *range(4, 13)]
        assert min(history.held_out_loss) == history.held_out_loss[-1]

    def test_no_finite_held_out_loss_at_all(self) -> None:
        model = Point()

        def loss(x: Tensor) -> Tensor:
            return model(x) if model.training else torch.tensor(math.inf)

        with pytest.raises(TrainingDiverged, match=r"No held-out loss was finite.*`learning_rate`"):
            fit(model, normal(500), settings(max_epochs=2), loss=loss)


@pytest.mark.parametrize(("settle", "best_epoch"), [(0, 20), (50, 60), (150, 100)])
def test_weights_are_kept_only_after_the_run_has_settled(settle: int, best_epoch: int) -> None:
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    # the weight goes from 0 to 1, and held-out rows like 0 best: the first round that counts is kept. A round is 20
    # steps, and the run settles after a sixth of its 600 steps at the latest
    recipe = Recipe(600, 4, 1e-3, settle=settle, patience=600, tolerance=math.inf)
    ones, zeros = np.tile([1.0, 1.0], (4, 1)), np.tile([1.0, 0.0], (4, 1))
    history = train(
        model, lambda x: (model(x[:, :1]) - x[:, 1:]).square().mean(), ArrayRows(ones), zeros, recipe, seed=0
    )
    assert history.best_epoch == best_epoch
    assert history.held_out_loss == sorted(history.held_out_loss)


@pytest.mark.parametrize("patience", [600, 3])
def test_weights_before_the_first_step_can_be_the_best(patience: int) -> None:
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    ones, zeros = np.tile([1.0, 1.0], (4, 1)), np.tile([1.0, 0.0], (4, 1))
    recipe = Recipe(600, 4, 1e-3, start_counts=True, patience=patience, tolerance=math.inf)  # held-out rows like 0 best
    history = train(
        model, lambda x: (model(x[:, :1]) - x[:, 1:]).square().mean(), ArrayRows(ones), zeros, recipe, seed=0
    )
    assert model.weight.item() == 0
    assert history.best_epoch == 0
    assert history.epoch[-1] == max(patience, 20)  # the start counts for the patience, and a round is 20 steps


def test_a_start_without_a_finite_loss_is_not_the_best() -> None:
    model, calls = Point(start=0.5), [0]

    def loss(x: Tensor) -> Tensor:
        calls[0] += 1
        return model(x) * (math.nan if calls[0] == 1 else 1.0)

    history = fit(model, normal(500), settings(start_counts=True), loss=loss)
    assert history.best_epoch > 0
    assert np.abs(model.w.detach().numpy()).max() < 0.5  # it has moved from its start toward the mean, 0


class TestHistory:
    def test_plot_draws_both_losses_and_the_epoch_kept(self) -> None:
        history = History([1, 2, 3], [3.0, 2.0, 1.0], [3.0, 1.5, 2.0], [0.1] * 3, [1.0, 2.0, 3.0], best_epoch=2)
        figure = history.plot()
        assert isinstance(figure, Figure)
        (axes,) = figure.axes
        train_line, held_out_line, line = axes.lines
        assert np.array_equal(train_line.get_xydata(), [[1, 3], [2, 2], [3, 1]])
        assert np.array_equal(held_out_line.get_xydata(), [[1, 3], [2, 1.5], [3, 2]])
        assert list(np.asarray(line.get_xdata())) == [2, 2]
        assert axes.get_xlabel() == "epoch"
