"""The state of a training run, and the steps that change it."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor, nn

from flowratio.training.checkpoint import Checkpoint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Loss = Callable[[Tensor], Tensor]

Watch = Callable[[nn.Module, int], None]

_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)

_CHECK_STEPS = 50  # a loss that is not finite is noticed after at most so many steps

_EVALUATION_ROWS = 4096

_MAX_RESTARTS = 3

_RESTART_FACTOR = 0.2


class TrainingDiverged(RuntimeError):
    """The loss stopped being a finite number, and lower learning rates did not help."""


@dataclass(frozen=True)
class Recipe:
    """Settings of the loop.

    Parameters
    ----------
    max_epochs
        Passes over the rows at most.
    batch_size
        Rows of a step.
    learning_rate
        Step size of Adam at its highest.
    weight_decay
        Decay of the weights: decoupled for `"adamw"`, added to the gradient for `"adam"`.
    optimizer
        `"adamw"` or `"adam"`.
    schedule
        `"cosine"` lowers the learning rate to zero over `max_epochs`; `"constant"` leaves it.
    patience
        Epochs without progress before the run ends. The best weights are restored at the end.
    min_gain
        How much the held-out loss must fall to count as progress.
    warm_up
        Steps over which the learning rate rises to its value.
    settle
        Steps before which no weights are kept and patience does not count, at most a sixth of all: few held-out rows
        may like best what has hardly learned anything.
    clip_norm
        Length of the longest gradient: a longer one is cut to it.
    average
        Whether the weights are averaged over about the last tenth of the steps before they are scored and kept.
    tolerance
        A run that ends at `max_epochs` while the held-out loss still fell by more than this over the last tenth of
        its epochs has not converged, and a warning says so.
    """

    max_epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float = 0.0
    optimizer: Literal["adamw", "adam"] = "adamw"
    schedule: Literal["cosine", "constant"] = "cosine"
    patience: int = 20
    min_gain: float = 0.0
    warm_up: int = 50
    settle: int = 0
    clip_norm: float = 5.0
    average: bool = True
    tolerance: float = 0.01


@dataclass
class History:
    """What happened: a number for each time the held-out loss was computed, and the seconds up to then."""

    epoch: list[int] = field(default_factory=list)
    train_loss: list[float] = field(default_factory=list)
    held_out_loss: list[float] = field(default_factory=list)
    learning_rate: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    n_restarts: int = 0
    best_epoch: int = 0  # whose weights were kept
    stopped: str = ""

    def plot(self) -> Figure:
        """Draw both losses against the epoch."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6, 3.5), layout="constrained")
        axes = figure.add_subplot(xlabel="epoch", ylabel="loss (nats a row)")
        axes.plot(self.epoch, self.train_loss, "--", color="0.5", label="training")
        axes.plot(self.epoch, self.held_out_loss, "-", color="black", label="held out")
        axes.axvline(self.best_epoch, color="0.5", linestyle=":", label="kept")
        axes.legend(frameon=False)
        return figure


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Have a function see every model that is trained inside, each time that its held-out loss was computed.

    It is called with the model, in evaluation mode and with the weights that were scored, and with the number of epochs
    up to then. It must leave the model as it is.

    Parameters
    ----------
    watch
        The function.

    Examples
    --------
    >>> from flowratio.ratios import ClassifierRatio
    >>> seen = []
    >>> X_p, X_q = np.random.default_rng(0).normal(size=(2, 100, 1))
    >>> with watching(lambda model, epoch: seen.append(epoch)):
    ...     ratio = ClassifierRatio("mlp", max_epochs=40, random_state=0).fit_samples(X_p, X_q)
    >>> seen == ratio.history_.epoch
    True
    """
    before = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(before)


class _Run:
    """The state of a run, all that a checkpoint must keep, and the moves that change it."""

    def __init__(self, model: nn.Module, loss: Loss, recipe: Recipe) -> None:
        self.model, self.loss, self.recipe = model, loss, recipe
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        # one vector under all parameters, and one under their gradients: one step of the optimizer, one norm, one copy
        self.weights = torch.cat([p.detach().flatten() for p in self.parameters])
        self.gradient = torch.zeros_like(self.weights)
        self.slopes = self._parts(self.gradient)
        self._point()
        trained = {name for name, _ in model.named_parameters()}
        state = model.state_dict(keep_vars=True)
        self.buffers = [b for name, b in state.items() if name not in trained and b.is_floating_point()]
        self.average, self.best = self.weights.clone(), self.weights.clone()
        self.average_buffers, self.best_buffers = ([b.clone() for b in self.buffers] for _ in range(2))
        self.moments = [torch.zeros_like(self.average), torch.zeros_like(self.average)]
        self.n_moved = self.average.new_zeros(())  # steps since the moments began
        self.loss_sum = self.weights.new_zeros(())
        self.n_losses = self.epoch = self.step_in_epoch = self.n_steps = 0
        self.best_loss, self.rate_factor, self.rate = math.inf, 1.0, 0.0
        self.progress_loss, self.progress_epoch = math.inf, 0
        self.started = time.perf_counter()
        self.history = History()

    def _point(self) -> None:
        """Make every parameter a view of its part of the weights."""
        for p, part in zip(self.parameters, self._parts(self.weights), strict=True):
            p.data = part

    def _parts(self, vector: Tensor) -> list[Tensor]:
        """Return views of a vector, one like each parameter."""
        parts = vector.split([p.numel() for p in self.parameters])
        return [part.view_as(p) for p, part in zip(self.parameters, parts, strict=True)]

    def _learning_rate(self, total: int) -> float:
        rate = self.recipe.learning_rate * self.rate_factor * min(1.0, (self.n_steps + 1) / max(self.recipe.warm_up, 1))
        if self.recipe.schedule == "cosine":
            rate *= 0.5 * (1 + math.cos(math.pi * min(1.0, self.n_steps / total)))
        return rate

    def take_epoch(self, batches: Iterator[Tensor], total: int, kept: Checkpoint | None) -> None:
        """Take those steps of one epoch that are not taken yet, and notice a loss that is not finite."""
        self.model.train()
        for i, batch in enumerate(batches):
            if i < self.step_in_epoch:  # taken before the run was killed
                continue
            self._step(batch, total)
            if self.step_in_epoch % _CHECK_STEPS == 0 and not math.isfinite(self.loss_sum.item()):
                break
            if kept is not None and kept.is_due():
                kept.write(*self.state())
        self.epoch += 1
        self.step_in_epoch = 0
        if not math.isfinite(self.loss_sum.item()):
            self._restart()

    def _step(self, batch: Tensor, total: int) -> None:
        loss = self.loss(batch)
        self.gradient.zero_()
        for p, slope in zip(self.parameters, self.slopes, strict=True):
            p.grad = slope  # what is added to in its place is not allocated anew in each step
        loss.backward()
        self.rate = self._learning_rate(total)
        self._move()
        if self.recipe.average:
            for average, now in zip((self.average, *self.average_buffers), (self.weights, *self.buffers), strict=True):
                average.lerp_(now, 10 / (self.n_steps + 10))
        self.loss_sum += loss.detach()
        self.n_losses += 1
        self.n_steps += 1
        self.step_in_epoch += 1

    @torch.no_grad()
    def _move(self) -> None:
        """Take one step of Adam, by the kernel that is beneath torch's own optimizers.

        Those spend longer on their own bookkeeping than on a vector of this size, and load a compiler at their first
        step. The kernel divides the gradient by `grad_scale`, which clips it at no cost.
        """
        self.n_moved += 1
        kernels = torch.ops.aten._fused_adamw_, torch.ops.aten._fused_adam_
        kernels[self.recipe.optimizer == "adam"](
            [self.weights],
            [self.gradient],
            [self.moments[0]],
            [self.moments[1]],
            [],
            [self.n_moved],
            lr=self.rate,
            beta1=0.9,
            beta2=0.999,
            weight_decay=self.recipe.weight_decay,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
            grad_scale=(self.gradient.norm() / self.recipe.clip_norm).clamp_(min=1.0).float(),
            found_inf=None,
        )

    def _restart(self) -> None:
        """Go back to the best weights so far, and on at a lower learning rate."""
        self.history.n_restarts += 1
        if self.history.n_restarts > _MAX_RESTARTS:
            raise TrainingDiverged(
                f"The loss was not finite after {self.n_steps} steps, nor after {_MAX_RESTARTS} restarts at lower "
                f"learning rates: give a lower `learning_rate` than {self.recipe.learning_rate:g}, or look for extreme "
                "values in the data."
            )
        self.rate_factor *= _RESTART_FACTOR
        self._set(self.best, self.best_buffers)
        self.average.copy_(self.best)
        self.average_buffers = [b.clone() for b in self.best_buffers]
        for moment in (*self.moments, self.n_moved, self.loss_sum):
            moment.zero_()
        self.n_losses = 0

    @torch.no_grad()
    def _set(self, weights: Tensor, buffers: list[Tensor]) -> None:
        self.weights.copy_(weights)
        for buffer, value in zip(self.buffers, buffers, strict=True):
            buffer.copy_(value)

    @torch.no_grad()
    def close_round(self, held_out: Tensor) -> None:
        """Score the weights on held-out rows, keep them if they are the best, and decide whether to go on."""
        if self.n_losses:  # none if it has just been restarted
            current = self.weights.clone(), [b.clone() for b in self.buffers]
            if self.recipe.average:
                self._set(self.average, self.average_buffers)
            self.model.eval()
            parts = held_out.split(_EVALUATION_ROWS)
            loss = sum(self.loss(part).item() * len(part) for part in parts) / len(held_out)
            if math.isfinite(loss):
                self._record(loss)
                if (watch := _watch.get()) is not None:
                    watch(self.model, self.epoch)
                self._set(*current)
            else:
                self._restart()
        if self.epoch >= self.recipe.max_epochs:
            self.history.stopped = "max_epochs"
        elif self.epoch - self.progress_epoch >= self.recipe.patience:
            self.history.stopped = "patience"

    def _record(self, loss: float) -> None:
        history = self.history
        history.epoch.append(self.epoch)
        history.train_loss.append(self.loss_sum.item() / self.n_losses)
        history.held_out_loss.append(loss)
        history.learning_rate.append(self.rate)
        history.seconds.append(time.perf_counter() - self.started)
        self.loss_sum.zero_()
        self.n_losses = 0
        if not self._is_settled():
            self.progress_epoch = self.epoch
            return
        if loss < self.progress_loss - self.recipe.min_gain:
            self.progress_loss, self.progress_epoch = loss, self.epoch
        if loss < self.best_loss:
            self.best_loss, history.best_epoch = loss, self.epoch
            self.best.copy_(self.weights)
            self.best_buffers = [b.clone() for b in self.buffers]

    def _is_settled(self) -> bool:
        total = self.n_steps * self.recipe.max_epochs / self.epoch
        return self.n_steps >= min(self.recipe.settle, total / 6)

    def finish(self) -> None:
        """Leave the model with the best weights, each parameter in its own memory, and say if it is not done."""
        if not self.history.epoch:
            raise TrainingDiverged("No held-out loss was finite: give a lower `learning_rate`.")
        self._set(self.best, self.best_buffers)
        self._point()
        for p in self.parameters:
            p.data, p.grad = p.data.clone(), None
        self.model.eval()
        losses = self.history.held_out_loss
        fell = losses[-1 - math.ceil(len(losses) / 10)] - losses[-1] if len(losses) > 1 else math.inf
        if self.history.stopped == "max_epochs" and fell > self.recipe.tolerance:
            warnings.warn(
                f"Training ended at `max_epochs` = {self.recipe.max_epochs} while the held-out loss still fell "
                f"(to {losses[-1]:.4g}): a larger `max_epochs` may do better.",
                ConvergenceWarning,
                stacklevel=6,  # the caller of an estimator's `fit`
            )

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return all that a run is made of: numbers as JSON knows them, and arrays."""
        names = ("n_losses", "epoch", "step_in_epoch", "n_steps", "rate_factor", "rate")
        names += ("best_loss", "progress_loss", "progress_epoch")
        state = {name: getattr(self, name) for name in names}
        numbers = state | {"seconds": time.perf_counter() - self.started, "history": asdict(self.history)}
        return numbers, {name: tensor.detach().cpu().numpy() for name, tensor in self._tensors().items()}

    def _tensors(self) -> dict[str, Tensor]:
        tensors = {"weights": self.weights, "average": self.average, "best": self.best}
        tensors |= {"first_moment": self.moments[0], "second_moment": self.moments[1], "n_moved": self.n_moved}
        tensors |= {"loss_sum": self.loss_sum}
        for i, buffers in enumerate(zip(self.buffers, self.average_buffers, self.best_buffers, strict=True)):
            tensors |= {f"{name}.{i}": b for name, b in zip(("buffer", "average", "best"), buffers, strict=True)}
        return tensors

    @torch.no_grad()
    def resume(self, numbers: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Take over a state that `state` gave."""
        self.history = History(**numbers["history"])
        self.started = time.perf_counter() - numbers["seconds"]
        for name in numbers.keys() - {"history", "seconds"}:
            setattr(self, name, numbers[name])
        for name, tensor in self._tensors().items():
            tensor.copy_(torch.tensor(arrays[name]))
