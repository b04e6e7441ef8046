"""The training loop on models so small that every number it gives is known."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from matplotlib.figure import Figure
from safetensors.torch import save_file
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor, nn

from flowratio._support import journal
from flowratio.flows import MAF
from flowratio.samples.rows import ArrayRows, Rows, open_rows
from flowratio.training import checkpoint
from flowratio.training import loop as training
from flowratio.training.loop import train
from flowratio.training.run import History, Recipe, TrainingDiverged

LIKE = torch.empty(0)


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


class TestBatches:
    @pytest.mark.parametrize("kind", ["array", "npy", "parquet"])
    def test_each_row_once_an_epoch(self, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(training, "_BLOCK_BYTES", 4 * 2 * 300)  # 300 rows: an epoch has several blocks
        X = np.arange(2 * 1007, dtype=np.float32).reshape(-1, 2)
        rows = as_rows(X, kind, tmp_path)
        for epoch in range(3):
            batches = list(training._batches(rows, 30, LIKE, None, 5, epoch))
            seen = torch.cat(batches)[:, 0].numpy()
            assert np.array_equal(np.sort(seen), X[:, 0])
            assert not np.array_equal(seen, X[:, 0])
            assert {len(batch) for batch in batches} <= set(range(26, 36))

    @pytest.mark.parametrize(("n_rows", "sizes"), [(100, {25}), (104, {26}), (115, {23}), (7, {7}), (1, {1})])
    def test_are_of_nearly_equal_size(self, n_rows: int, sizes: set[int]) -> None:
        batches = list(training._batches(ArrayRows(normal(n_rows)), 25, LIKE, None, 0, 0))
        assert {len(batch) for batch in batches} == sizes
        assert len(batches) == training._n_batches(n_rows, 25)

    def test_are_a_function_of_seed_and_epoch(self) -> None:
        rows = ArrayRows(normal(100))

        def noisy(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
            return X + rng.random(X.shape)

        def draw(seed: int, epoch: int) -> Tensor:
            return torch.cat(list(training._batches(rows, 10, LIKE, noisy, seed, epoch)))

        assert torch.equal(draw(0, 0), draw(0, 0))
        assert not torch.equal(draw(0, 0), draw(0, 1))
        assert not torch.equal(draw(0, 0), draw(1, 0))


class TestStopping:
    def test_best_weights_are_restored(self) -> None:
        # the point travels from 0 to the rows at 10, and passes the held-out rows at 3 on its way
        held_out = normal(50, mean=3.0, seed=1)
        model = Point()
        history = fit(
            model, normal(500, mean=10.0), settings(max_epochs=60, learning_rate=0.02, patience=5), held_out=held_out
        )
        assert history.stopped == "patience"
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
        assert history.stopped == "max_epochs"
        for values in (history.train_loss, history.held_out_loss, history.learning_rate, history.seconds):
            assert len(values) == len(epochs)
        assert all(np.diff([0.0, *history.seconds]) > 0)

    def test_held_out_loss_is_the_mean_over_its_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(training, "_EVALUATION_ROWS", 7)
        held_out = normal(50, mean=1.0)
        history = fit(Point(), normal(20), settings(max_epochs=1, learning_rate=0.0), held_out=held_out)
        assert history.held_out_loss[0] == pytest.approx(0.5 * np.square(held_out).sum(1).mean(), rel=1e-6)

    def test_training_loss_is_the_mean_over_the_steps_of_a_round(self) -> None:
        X = normal(500, mean=1.0)
        history = fit(Point(), X, settings(max_epochs=2, learning_rate=0.0))
        assert history.train_loss == pytest.approx([0.5 * np.square(X).sum(1).mean()] * 2, rel=1e-5)

    def test_says_that_it_was_cut_short(self) -> None:
        with pytest.warns(ConvergenceWarning, match=r"`max_epochs` = 5 while the held-out loss still fell"):
            fit(Point(start=9.0), normal(500), settings(max_epochs=5, tolerance=0.01))
        with pytest.warns(ConvergenceWarning, match="`max_epochs` = 1"):
            fit(Point(), normal(20), settings(max_epochs=1, tolerance=0.01))

    def test_says_nothing_where_it_converged(self) -> None:
        history = fit(Point(start=0.5), normal(500), settings(max_epochs=30, tolerance=0.01, schedule="cosine"))
        assert history.stopped == "max_epochs"  # a warning would be an error here


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
        with pytest.raises(
            TrainingDiverged, match=r"nor after 3 restarts .* lower `learning_rate` than 0\.01, or look"
        ):
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


class TestSeeds:
    @staticmethod
    def run(seed: int) -> tuple[Tensor, History]:
        flow = MAF(2, n_blocks=2, hidden=(8,), batch_norm=True, generator=torch.Generator().manual_seed(0))

        def noisy(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
            return X + 0.01 * rng.random(X.shape, np.float32)

        history = fit(
            flow, normal(500), settings(max_epochs=3), loss=lambda x: -flow.log_prob(x).mean(), prepare=noisy, seed=seed
        )
        return torch.cat([value.flatten() for value in flow.state_dict().values()]), history

    def test_same_seed_same_bits(self) -> None:
        (a, history_a), (b, history_b), (c, _) = self.run(3), self.run(3), self.run(4)
        assert torch.equal(a, b)
        assert history_a.held_out_loss == history_b.held_out_loss
        assert not torch.equal(a, c)

    def test_global_generators_stay(self) -> None:
        before = torch.get_rng_state(), str(np.random.get_state())  # noqa: NPY002 - to see it untouched
        self.run(0)
        assert torch.equal(torch.get_rng_state(), before[0])
        assert str(np.random.get_state()) == before[1]  # noqa: NPY002


@pytest.mark.parametrize(("settle", "kept"), [(0, 20), (50, 60), (150, 100)])
def test_weights_are_kept_only_after_the_run_has_settled(settle: int, kept: int) -> None:
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    # the weight goes from 0 to 1, and held-out rows like 0 best: the first round that counts is kept. A round is 20
    # steps, and the run settles after a sixth of its 600 steps at the latest
    recipe = Recipe(600, 4, 1e-3, settle=settle, patience=600, tolerance=math.inf)
    ones, zeros = np.tile([1.0, 1.0], (4, 1)), np.tile([1.0, 0.0], (4, 1))
    history = train(
        model, lambda x: (model(x[:, :1]) - x[:, 1:]).square().mean(), ArrayRows(ones), zeros, recipe, seed=0
    )
    assert history.best_epoch == kept
    assert history.held_out_loss == sorted(history.held_out_loss)


class TestHistory:
    def test_plot_draws_both_losses_and_the_epoch_kept(self) -> None:
        history = History([1, 2, 3], [3.0, 2.0, 1.0], [3.0, 1.5, 2.0], [0.1] * 3, [1.0, 2.0, 3.0], best_epoch=2)
        figure = history.plot()
        assert isinstance(figure, Figure)
        (axes,) = figure.axes
        train_line, held_out_line, kept = axes.lines
        assert np.array_equal(train_line.get_xydata(), [[1, 3], [2, 2], [3, 1]])
        assert np.array_equal(held_out_line.get_xydata(), [[1, 3], [2, 1.5], [3, 2]])
        assert list(np.asarray(kept.get_xdata())) == [2, 2]
        assert axes.get_xlabel() == "epoch"

    @pytest.mark.usefixtures("terminal")
    @pytest.mark.parametrize("verbose", [False, True])
    def test_progress_is_shown_on_standard_error_if_asked_for(
        self, verbose: bool, capsys: pytest.CaptureFixture[str]
    ) -> None:
        history = fit(Point(), normal(500), settings(max_epochs=3), verbose=verbose)
        shown = capsys.readouterr()
        assert shown.out == ""
        if verbose:
            assert "3/3" in shown.err
            assert f"{history.held_out_loss[-1]:.4f}" in shown.err
        else:
            assert shown.err == ""


def as_rows(X: np.ndarray, kind: str, folder: Path) -> Rows:
    if kind == "array":
        return ArrayRows(X)
    if kind == "npy":
        np.save(folder / "rows.npy", X)
        return open_rows(folder / "rows.npy")
    pl.DataFrame(X, schema=[f"x{j}" for j in range(X.shape[1])]).write_parquet(
        folder / "rows.parquet", row_group_size=100
    )
    return open_rows(folder / "rows.parquet")


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_rows_of_a_file_train_as_well_as_rows_in_memory(kind: str, tmp_path: Path) -> None:
    X = normal(1000, mean=1.0)
    recipe = settings(max_epochs=20, learning_rate=0.05, schedule="cosine")
    for source in ("array", kind):
        model = Point()
        fit(model, X, recipe, rows=as_rows(X, source, tmp_path), loss=best_is_last(model))
        # the optimum is the mean; where the rate falls to zero over an epoch, little of the noise of batches is left
        assert model.w.tolist() == pytest.approx(X.mean(0).tolist(), abs=0.02)


class Killed(Exception):
    """Stands for a kill in the middle of a run."""


class Job:
    """A run of a flow with running statistics and noise, that can be killed at a call of its loss."""

    X = normal(240, seed=5)
    recipe = settings(max_epochs=4, average=True, learning_rate=0.02, clip_norm=1.0, schedule="cosine")

    def __init__(self, recipe: Recipe | None = None, bound: float | None = 5.0, seed: int = 0, shift: float = 0.0):
        generator = torch.Generator().manual_seed(seed)
        self.flow = MAF(2, n_blocks=2, hidden=(6,), batch_norm=True, max_log_scale=bound, generator=generator)
        self.used, self.shift, self.seed, self.n_calls = recipe or self.recipe, shift, seed, 0

    def noisy(self, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return X + self.shift + 0.01 * rng.random(X.shape, np.float32)

    def run(self, folder: Path | None, *, kill_at: int | None = None, nan_at: int | None = None) -> tuple[Any, ...]:
        """Return all that the run gives: the state of the flow, and the history without its times."""

        def loss(x: Tensor) -> Tensor:
            self.n_calls += 1
            if self.n_calls == kill_at:
                raise Killed
            value = -self.flow.log_prob(x).mean()
            return value * math.nan if self.n_calls == nan_at else value

        history = train(
            self.flow,
            loss,
            ArrayRows(self.X[40:]),
            self.X[:40],
            self.used,
            seed=self.seed,
            prepare=self.noisy,
            checkpoint=folder,
            checkpoint_seconds=0.0,
        )
        state = {name: value.tolist() for name, value in self.flow.state_dict().items()}
        return state, dataclasses.asdict(dataclasses.replace(history, seconds=[])), len(history.seconds)


N_CALLS = 42  # of the loss: 10 steps an epoch, and a look at held-out rows after the second and the fourth


@pytest.fixture(scope="module")
def whole() -> tuple[Any, ...]:
    job = Job()
    result = job.run(None)
    assert job.n_calls == N_CALLS
    return result


class TestCheckpoint:
    def test_changes_no_bits(self, whole: tuple[Any, ...], tmp_path: Path) -> None:
        assert Job().run(tmp_path) == whole

    @pytest.mark.parametrize("kill_at", [1, 2, 6, 10, 11, 20, 21, 22, 27, 41, 42])
    def test_a_killed_run_goes_on_to_the_same_bits(self, whole: tuple[Any, ...], tmp_path: Path, kill_at: int) -> None:
        with pytest.raises(Killed):
            Job().run(tmp_path, kill_at=kill_at)
        again = Job()
        assert again.run(tmp_path) == whole
        # a look at held-out rows that was cut off, or done after the last checkpoint, is done again
        assert again.n_calls - (N_CALLS - kill_at + 1) in (0, 1)

    def test_a_run_killed_again_and_again(self, whole: tuple[Any, ...], tmp_path: Path) -> None:
        for kill_at in (3, 9, 4, 12):
            with pytest.raises(Killed):
                Job().run(tmp_path, kill_at=kill_at)
        assert Job().run(tmp_path) == whole

    def test_steps_after_the_last_checkpoint_are_taken_again(
        self, whole: tuple[Any, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        steps = iter(range(1, 1000))
        with monkeypatch.context() as patch:
            patch.setattr(training.Checkpoint, "is_due", lambda self: next(steps) % 7 == 0)
            with pytest.raises(Killed):
                Job().run(tmp_path, kill_at=28)
        again = Job()
        assert again.run(tmp_path) == whole
        assert again.n_calls == N_CALLS - 22  # the 21st step was the 22nd call

    def test_a_restart_survives_a_kill(self, tmp_path: Path) -> None:
        whole = Job().run(None, nan_at=24)
        assert whole[1]["n_restarts"] == 1
        with pytest.raises(Killed):
            Job().run(tmp_path, nan_at=24, kill_at=36)
        assert Job().run(tmp_path) == whole

    def test_a_finished_run_is_taken_as_it_is(self, whole: tuple[Any, ...], tmp_path: Path) -> None:
        Job().run(tmp_path)
        again = Job()
        assert again.run(tmp_path) == whole
        assert again.n_calls == 0
        assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.safetensors", "journal.json"]

    def test_folder_is_made(self, tmp_path: Path) -> None:
        with pytest.raises(Killed):
            Job().run(tmp_path / "a" / "b", kill_at=1)
        assert (tmp_path / "a" / "b" / "checkpoint.safetensors").is_file()

    @pytest.mark.parametrize(
        ("other", "named"),
        [
            (lambda: Job(dataclasses.replace(Job.recipe, max_epochs=5)), "max_epochs"),
            (lambda: Job(dataclasses.replace(Job.recipe, clip_norm=math.inf)), "clip_norm"),
            (lambda: Job(seed=1), "first weights, held-out rows, seed"),  # the noise has that seed too
            (lambda: Job(bound=None), "model"),
            (lambda: Job(bound=4.0), "model"),
            (lambda: Job(shift=1.0), "held-out rows"),
        ],
        ids=["epochs", "clip", "seed", "no bound", "bound", "scaling"],
    )
    def test_another_run_is_refused_and_the_file_stays(
        self, tmp_path: Path, other: Callable[[], Job], named: str
    ) -> None:
        with pytest.raises(Killed):
            Job().run(tmp_path, kill_at=15)
        before = (tmp_path / "checkpoint.safetensors").read_bytes()
        with pytest.raises(ValueError, match=rf"belongs to another run\. It differs in {named}\. Use another folder"):
            other().run(tmp_path)
        assert (tmp_path / "checkpoint.safetensors").read_bytes() == before

    def test_another_model_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(Killed):
            Job().run(tmp_path, kill_at=15)
        with pytest.raises(ValueError, match=r"belongs to another run\. It differs in .*model, .*parameters"):
            fit(Point(), normal(200), settings(), checkpoint=tmp_path)

    @pytest.mark.parametrize("damage", ["cut", "empty", "text", "foreign"])
    def test_a_damaged_or_foreign_file_is_refused(self, tmp_path: Path, damage: str) -> None:
        with pytest.raises(Killed):
            Job().run(tmp_path, kill_at=15)
        path = tmp_path / "checkpoint.safetensors"
        whole = path.read_bytes()
        if damage == "foreign":
            save_file({"weights": torch.zeros(3)}, path)
        else:
            path.write_bytes({"cut": whole[:-100], "empty": b"", "text": b"not a checkpoint at all"}[damage])
        before = path.read_bytes()
        with pytest.raises(ValueError, match=r"checkpoint\.safetensors is damaged .* Delete it to compute it again"):
            Job().run(tmp_path)
        assert path.read_bytes() == before

    @pytest.mark.parametrize("below", ["", "folder"])
    def test_a_folder_that_cannot_be_made_is_an_error_before_training(self, tmp_path: Path, below: str) -> None:
        (tmp_path / "file").write_text("not a folder")
        job = Job()
        with pytest.raises(OSError, match=r"Cannot write to .*file.* Use a folder that can be written"):
            job.run(tmp_path / "file" / below)
        assert job.n_calls == 0
        assert (tmp_path / "file").read_text() == "not a folder"

    @pytest.mark.parametrize(
        ("seconds", "cost", "due"), [(30.0, 0.1, 30.0), (30.0, 0.6, 30.0), (30.0, 4.0, 200.0), (0.0, 4.0, 0.0)]
    )
    def test_a_fiftieth_of_the_time_at_most_goes_into_writing(
        self, seconds: float, cost: float, due: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = [1000.0]

        def save_file(arrays: Any, path: Path, metadata: Any) -> None:
            now[0] += cost

        monkeypatch.setattr(checkpoint, "time", SimpleNamespace(monotonic=lambda: now[0]))
        monkeypatch.setattr(journal, "save_file", save_file)
        kept = checkpoint.Checkpoint(tmp_path, seconds, {})
        kept.write({}, {})
        if due:
            now[0] += due - 0.01
            assert not kept.is_due()
        now[0] += 0.02
        assert kept.is_due()

    def test_a_write_that_fails_at_first_is_an_error(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(journal, "save_file", full_disk)
        job = Job()
        with pytest.raises(OSError, match="No space left"):
            job.run(tmp_path)
        assert job.n_calls == 0

    def test_a_write_that_fails_later_is_a_warning_and_the_old_file_stays_whole(
        self, whole: tuple[Any, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(Killed):
            Job().run(tmp_path, kill_at=15)
        before = (tmp_path / "checkpoint.safetensors").read_bytes()
        with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            patch.setattr(journal, "save_file", full_disk)
            assert Job().run(tmp_path) == whole
        assert {w.category for w in caught} == {RuntimeWarning}
        assert "The checkpoint was not written" in str(caught[0].message)
        assert "No space left" in str(caught[0].message)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.safetensors", "journal.json"]
        assert (tmp_path / "checkpoint.safetensors").read_bytes() == before
        again = Job()
        assert again.run(tmp_path) == whole
        assert again.n_calls > 20


def full_disk(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
    """Write half of a file, then fail."""
    del tensors, metadata
    path.write_bytes(b"half of a")
    raise OSError(28, "No space left on device")
