r"""The one loop: it seeds, steps, stops and checkpoints, for flows, classifiers and joint objectives alike.

Everything random in epoch e is drawn from a generator seeded by (seed, e). A run is a function of its seed, and a
run that was killed goes on from its checkpoint to the same bits as one that was not.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from flowratio._support.progress import bar
from flowratio.samples.rows import ArrayRows, Rows
from flowratio.training.checkpoint import Checkpoint
from flowratio.training.run import History, Loss, Recipe, _Run

if TYPE_CHECKING:
    pass

Prepare = Callable[[np.ndarray, np.random.Generator], np.ndarray]

_BLOCK_BYTES = 32 << 20  # rows are gathered in blocks of this size, and cut into batches from there
_ROUND_STEPS = 20  # the held-out loss is computed once an epoch, or after so many steps where epochs are shorter


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
) -> History:
    """Fit the parameters of a model to rows, and leave it in evaluation mode with the best weights.

    Parameters
    ----------
    model
        The module whose parameters are fitted, on the device where the work is done.
    loss
        Takes a batch of rows, of shape (b, d), and returns their mean loss.
    rows
        Rows to fit, or an array of them, of shape (n, d).
    held_out
        Rows that decide when to stop and which weights to keep, of shape (m, d).
    recipe
        Settings of the loop.
    seed
        Decides the order of the rows and all noise.
    prepare
        Applied to each block of rows, with a generator for noise, before it is cut into batches.
    verbose
        Whether to show a progress bar.
    checkpoint
        Folder that keeps the state of the run, so that it survives a kill; None for none.
    checkpoint_seconds
        Seconds between two writes of it; more for a large state, so that a fiftieth of the time at most goes into them.
    """
    rows = ArrayRows(rows) if isinstance(rows, np.ndarray) else rows
    run = _Run(model, loss, recipe)
    kept = None
    held_out = prepare(held_out, np.random.default_rng(seed)) if prepare else held_out
    if checkpoint is not None:
        kept = Checkpoint(Path(checkpoint), checkpoint_seconds, _fingerprint(run, rows, held_out, seed))
        run.resume(*kept.begin(*run.state()))
    scored = torch.as_tensor(held_out).to(run.weights)
    n_steps = _n_batches(rows.n_rows, recipe.batch_size)
    every = math.ceil(_ROUND_STEPS / n_steps)
    with _progress_bar(recipe.max_epochs, verbose) as show:
        while not run.history.stopped:
            batches = _batches(rows, recipe.batch_size, run.weights, prepare, seed, run.epoch)
            run.take_epoch(batches, n_steps * recipe.max_epochs, kept)
            if run.epoch % every == 0 or run.epoch >= recipe.max_epochs:
                run.close_round(scored)
            show(run)
        show(run, done=True)
    if kept is not None:
        kept.write(*run.state())
    run.finish()
    return run.history


def _n_batches(n_rows: int, batch_size: int) -> int:
    return max(1, round(n_rows / batch_size))


def _batches(
    rows: Rows, batch_size: int, like: Tensor, prepare: Prepare | None, seed: int, epoch: int
) -> Iterator[Tensor]:
    """Yield the batches of one epoch, of nearly equal size: a last batch of a few rows would only be noise.

    They have the type and the device of `like`.
    """
    rng = np.random.default_rng([seed, epoch, 3])
    max_rows = max(1, _BLOCK_BYTES // (4 * rows.n_features * batch_size)) * batch_size
    for block in _joined(rows.shuffled(rng, max_rows), batch_size):
        tensor = torch.as_tensor(prepare(block, rng) if prepare else block).to(like)
        yield from tensor.tensor_split(_n_batches(len(tensor), batch_size))


def _joined(blocks: Iterator[np.ndarray], batch_size: int) -> Iterator[np.ndarray]:
    """Join a last block that is shorter than a batch to the block before it."""
    held = next(blocks)
    for block in blocks:
        if len(block) < batch_size:
            held = np.concatenate([held, block])
        else:
            yield held
            held = block
    yield held


def _fingerprint(run: _Run, rows: Rows, held_out: np.ndarray, seed: int) -> dict[str, Any]:
    """Describe a run so that a checkpoint of another one is told from its own; the held-out rows are prepared ones."""
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
    """Return the numbers and switches that a module was built with, such as `max_log_scale`."""
    plain = {name: value for name, value in vars(module).items() if isinstance(value, int | float | str | None)}
    return {name: value for name, value in plain.items() if name != "training" and not name.startswith("_")}


@contextmanager
def _progress_bar(max_epochs: int, verbose: bool) -> Iterator[Callable[..., None]]:
    """Show epoch, loss and time left on standard error, if asked to."""
    if not verbose:
        yield lambda run, done=False: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("epochs, held-out loss {task.fields[loss]}, at most"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with bar(*columns) as progress:
        task = progress.add_task("training", total=max_epochs, loss="–")

        def show(run: _Run, done: bool = False) -> None:
            losses = run.history.held_out_loss
            total = run.epoch if done else max_epochs  # a run that stops early is done, too
            progress.update(task, completed=run.epoch, total=total, loss=f"{losses[-1]:.4f}" if losses else "–")

        yield show
