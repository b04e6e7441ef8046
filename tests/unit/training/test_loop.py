"""The training loop: batches, seeds, files, the callback and the progress bar."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor, nn

from flowratio.flows import MAF
from flowratio.samples.rows import ArrayRows, Rows, open_rows
from flowratio.training import loop
from flowratio.training.loop import train
from flowratio.training.run import History, Recipe

LIKE = torch.empty(0)


class Point(nn.Module):
    """A point that is pulled to the mean of the rows."""

    def __init__(self, d: int = 2, start: float = 0.0) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.full((d,), start))

    def forward(self, x: Tensor) -> Tensor:
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


class TestBatches:
    @pytest.mark.parametrize("kind", ["array", "npy", "parquet"])
    def test_each_row_once_an_epoch(self, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(loop, "_BLOCK_BYTES", 4 * 2 * 300)  # 300 rows: an epoch has several blocks
        X = np.arange(2 * 1007, dtype=np.float32).reshape(-1, 2)
        rows = as_rows(X, kind, tmp_path)
        for epoch in range(3):
            batches = list(loop._batches(rows, 30, LIKE, None, 5, epoch))
            values = torch.cat(batches)[:, 0].numpy()
            assert np.array_equal(np.sort(values), X[:, 0])
            assert not np.array_equal(values, X[:, 0])
            assert {len(batch) for batch in batches} <= set(range(26, 36))

    @pytest.mark.parametrize(("n_rows", "sizes"), [(100, {25}), (104, {26}), (115, {23}), (7, {7}), (1, {1})])
    def test_are_of_nearly_equal_size(self, n_rows: int, sizes: set[int]) -> None:
        batches = list(loop._batches(ArrayRows(normal(n_rows)), 25, LIKE, None, 0, 0))
        assert {len(batch) for batch in batches} == sizes
        assert len(batches) == loop._n_batches(n_rows, 25)

    def test_are_a_function_of_seed_and_epoch(self) -> None:
        rows = ArrayRows(normal(100))

        def noisy(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
            return X + rng.random(X.shape)

        def draw(seed: int, epoch: int) -> Tensor:
            return torch.cat(list(loop._batches(rows, 10, LIKE, noisy, seed, epoch)))

        assert torch.equal(draw(0, 0), draw(0, 0))
        assert not torch.equal(draw(0, 0), draw(0, 1))
        assert not torch.equal(draw(0, 0), draw(1, 0))


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


class TestCallback:
    def test_sees_the_model_each_time_that_it_is_scored(self) -> None:
        model, held_out = Point(start=9.0), normal(50)
        losses: list[float] = []
        epochs: list[int] = []

        def look(module: nn.Module, epoch: int) -> None:
            assert module is model
            assert not module.training
            losses.append(module(torch.as_tensor(held_out)).item())
            epochs.append(epoch)

        history = fit(model, normal(500), settings(max_epochs=7, average=True), held_out=held_out, callback=look)
        assert epochs == history.epoch == [1, 2, 3, 4, 5, 6, 7]
        assert losses == pytest.approx(history.held_out_loss, rel=1e-6)  # the averaged weights, which were scored

    def test_changes_no_bits(self) -> None:
        models = Point(start=3.0), Point(start=3.0)
        for model, callback in zip(models, (None, lambda model, epoch: None), strict=True):
            fit(model, normal(500), settings(), callback=callback)
        assert torch.equal(models[0].w, models[1].w)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("verbose", [False, True])
def test_progress_is_shown_on_standard_error_if_asked_for(verbose: bool, capsys: pytest.CaptureFixture[str]) -> None:
    history = fit(Point(), normal(500), settings(max_epochs=3), verbose=verbose)
    output = capsys.readouterr()
    assert output.out == ""
    if verbose:
        assert "3/3" in output.err
        assert f"{history.held_out_loss[-1]:.4f}" in output.err
    else:
        assert output.err == ""


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_rows_of_a_file_train_as_well_as_rows_in_memory(kind: str, tmp_path: Path) -> None:
    X = normal(1000, mean=1.0)
    recipe = settings(max_epochs=20, learning_rate=0.05, schedule="cosine")
    for source in ("array", kind):
        model = Point()
        fit(model, X, recipe, rows=as_rows(X, source, tmp_path), held_out=X)
        # the optimum is the mean; where the rate falls to zero over an epoch, little of the noise of batches is left
        assert model.w.tolist() == pytest.approx(X.mean(0).tolist(), abs=0.02)
