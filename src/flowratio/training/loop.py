"""The one training loop. Epoch e draws from a generator seeded by (seed, e): a resumed run gives the same bits."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from flowratio._support.progress import Steps, display
from flowratio.samples.rows import ArrayRows, Rows
from flowratio.training.checkpoint import Checkpoint
from flowratio.training.run import Callback, History, Loss, Recipe, Run

Prepare: TypeAlias = Callable[[np.ndarray, np.random.Generator], np.ndarray]

_BLOCK_BYTES = 32 << 20  # rows are read in blocks of this size, then split into batches
_ROUND_STEPS = 20  # minimum number of steps between two evaluations of the held-out loss


def train(
    model: nn.Module,
    loss: Loss,
    rows: Rows | np.ndarray,
    held_out: np.ndarray,
    recipe: Recipe,
    *,
    seed: int,
    prepare: Prepare | None = None,
    verbose: bool = False,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 30.0,
    callback: Callback | None = None,
) -> History:
    """Fit the parameters of a model to rows, and leave it in evaluation mode with the best weights.

    Parameters
    ----------
    model, loss
        The module whose parameters are fitted, and the mean loss of a batch of shape (b, d).
    rows, held_out
        Rows to fit, or an array of them, and held-out rows, (m, d), which decide when to stop and select the weights.
    recipe, seed, prepare, verbose
        Settings of the loop, and seed of the order of the rows and of all noise. `prepare` is applied to each block of
        rows, with a generator for noise. `verbose` shows a progress bar.
    checkpoint, checkpoint_seconds
        Folder that stores the state of the run, so that it survives a kill, and seconds between two writes.
    callback
        Called after each evaluation on held-out rows with the model, in evaluation mode with the weights that were
        scored, and the number of epochs. The callback must not change the model. A `TimeLimit` ends the run in time.
    """
    rows = ArrayRows(rows) if isinstance(rows, np.ndarray) else rows
    run = Run(model, loss, recipe, callback)
    held_out, store = prepare(held_out, np.random.default_rng(seed)) if prepare else held_out, None
    if checkpoint is not None:
        store = Checkpoint(Path(checkpoint), checkpoint_seconds, _fingerprint(run, rows, held_out, seed))
        run.resume(*store.begin(*run.state()))
    held_out_batch = torch.as_tensor(held_out).to(run.weights)
    run.score_start(held_out_batch)
    n_steps = _n_batches(rows.n_rows, recipe.batch_size)
    every = math.ceil(_ROUND_STEPS / n_steps)
    with _progress_bar(recipe.max_epochs, verbose) as show:
        while not run.history.stop_reason:
            batches = _batches(rows, recipe.batch_size, run.weights, prepare, seed, run.epoch)
            run.take_epoch(batches, n_steps * recipe.max_epochs, store)
            if run.epoch % every == 0 or run.epoch >= recipe.max_epochs or run.is_over():
                run.close_round(held_out_batch)
            show(run)
        show(run, done=True)
    if store is not None:
        store.write(*run.state())
    run.finish()
    return run.history


def _n_batches(n_rows: int, batch_size: int) -> int:
    return max(1, round(n_rows / batch_size))


def _batches(
    rows: Rows, batch_size: int, like: Tensor, prepare: Prepare | None, seed: int, epoch: int
) -> Iterator[Tensor]:
    """Yield the batches of one epoch, of nearly equal size, with the type and the device of `like`."""
    rng = np.random.default_rng([seed, epoch, 3])
    max_rows = max(1, _BLOCK_BYTES // (4 * rows.n_features * batch_size)) * batch_size
    for block in _joined(rows.shuffled(rng, max_rows), batch_size):
        tensor = torch.as_tensor(prepare(block, rng) if prepare else block).to(like)
        yield from tensor.tensor_split(_n_batches(len(tensor), batch_size))


def _joined(blocks: Iterator[np.ndarray], batch_size: int) -> Iterator[np.ndarray]:
    """Join a last block that is shorter than a batch to the block before it."""
    pending = next(blocks)
    for block in blocks:
        if len(block) < batch_size:
            pending = np.concatenate([pending, block])
        else:
            yield pending
            pending = block
    yield pending


def _fingerprint(run: Run, rows: Rows, held_out: np.ndarray, seed: int) -> dict[str, Any]:
    """Describe a run, so that the checkpoint of another run is refused."""
    return {
        "model": [[type(module).__name__, _settings(module)] for module in run.model.modules()],
        "parameters": [list(p.shape) for p in run.parameters],
        "rows": [rows.n_rows, rows.n_features],
        "rows to fit": _digest(next(rows.blocks(rows.n_rows if isinstance(rows, ArrayRows) else 1000))),
        "held-out rows": _digest(held_out),
        "first weights": _digest(run.weights.cpu().numpy()),
        "seed": seed,
        **asdict(run.recipe),
    }


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def _settings(module: nn.Module) -> dict[str, Any]:
    """Return the arguments that a module was built with, such as `max_log_scale`."""
    plain = {name: value for name, value in vars(module).items() if isinstance(value, int | float | str | None)}
    return {name: value for name, value in plain.items() if name != "training" and not name.startswith("_")}


@contextmanager
def _progress_bar(max_epochs: int, verbose: bool) -> Iterator[Callable[..., None]]:
    """Show the epoch, the remaining time and the loss on standard error if `verbose`."""
    steps = Steps(max_epochs, "epochs")

    def show(run: Run, done: bool = False) -> None:
        losses = run.history.held_out_loss
        steps.completed, steps.total = run.epoch, run.epoch if done else max_epochs  # also after an early stop
        steps.note = f"held-out loss {losses[-1]:.4f}" if losses else ""

    with display(steps, verbose):
        yield show
