"""Runs that are killed and resume from their checkpoint."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from flowratio._support import journal
from flowratio.flows import MAF
from flowratio.samples.rows import ArrayRows
from flowratio.training import checkpoint
from flowratio.training.loop import train
from flowratio.training.run import Recipe


class Killed(Exception):
    """Stands for a kill in the middle of a run."""


class Job:
    """A run of a flow with running statistics and noise, that can be killed at a call of its loss."""

    X = np.random.default_rng(5).normal(size=(240, 2)).astype(np.float32)
    recipe = Recipe(4, 20, 0.02, patience=1000, clip_norm=1.0, tolerance=math.inf)

    def __init__(
        self,
        recipe: Recipe | None = None,
        bound: float | None = 5.0,
        seed: int = 0,
        shift: float = 0.0,
        n_blocks: int = 2,
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.flow = MAF(2, n_blocks=n_blocks, hidden=(6,), batch_norm=True, max_log_scale=bound, generator=generator)
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
            patch.setattr(checkpoint.Checkpoint, "is_due", lambda self: next(steps) % 7 == 0)
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
        assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.entry.safetensors", "journal.json"]

    def test_other_files_in_the_folder_stay(self, whole: tuple[Any, ...], tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text("mine")
        assert Job().run(tmp_path) == whole
        assert (tmp_path / "config.json").read_text() == "mine"

    def test_folder_is_made(self, tmp_path: Path) -> None:
        with pytest.raises(Killed):
            Job().run(tmp_path / "a" / "b", kill_at=1)
        assert (tmp_path / "a" / "b" / "checkpoint.entry.safetensors").is_file()

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
        before = (tmp_path / "checkpoint.entry.safetensors").read_bytes()
        with pytest.raises(ValueError, match=rf"belongs to another run\. It differs in {named}\. Use another folder"):
            other().run(tmp_path)
        assert (tmp_path / "checkpoint.entry.safetensors").read_bytes() == before

    def test_another_model_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(Killed):
            Job().run(tmp_path, kill_at=15)
        with pytest.raises(ValueError, match=r"belongs to another run\. It differs in .*model, .*parameters"):
            Job(n_blocks=3).run(tmp_path)

    @pytest.mark.parametrize("damage", ["cut", "empty", "text", "foreign"])
    def test_a_damaged_or_foreign_file_is_refused(self, tmp_path: Path, damage: str) -> None:
        with pytest.raises(Killed):
            Job().run(tmp_path, kill_at=15)
        path = tmp_path / "checkpoint.entry.safetensors"
        whole = path.read_bytes()
        if damage == "foreign":
            save_file({"weights": torch.zeros(3)}, path)
        else:
            path.write_bytes({"cut": whole[:-100], "empty": b"", "text": b"not a checkpoint at all"}[damage])
        before = path.read_bytes()
        with pytest.raises(ValueError, match=r"checkpoint\.entry\.safetensors is damaged .* Delete it to compute it"):
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
        state = checkpoint.Checkpoint(tmp_path, seconds, {})
        state.write({}, {})
        if due:
            now[0] += due - 0.01
            assert not state.is_due()
        now[0] += 0.02
        assert state.is_due()

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
        before = (tmp_path / "checkpoint.entry.safetensors").read_bytes()
        with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as records:
            warnings.simplefilter("always")
            patch.setattr(journal, "save_file", full_disk)
            assert Job().run(tmp_path) == whole
        assert {w.category for w in records} == {RuntimeWarning}
        assert "The checkpoint was not written" in str(records[0].message)
        assert "No space left" in str(records[0].message)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.entry.safetensors", "journal.json"]
        assert (tmp_path / "checkpoint.entry.safetensors").read_bytes() == before
        again = Job()
        assert again.run(tmp_path) == whole
        assert again.n_calls > 20


def full_disk(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
    """Write half of a file, then fail."""
    del tensors, metadata
    path.write_bytes(b"half of a")
    raise OSError(28, "No space left on device")
