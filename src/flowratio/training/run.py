"""The state of a training run, and the steps that change it."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor, nn

from flowratio.training.checkpoint import Arrays, Checkpoint, Numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Loss: TypeAlias = Callable[[Tensor], Tensor]
Callback: TypeAlias = Callable[[nn.Module, int], None]

_CHECK_STEPS = 50  # steps between two checks that the loss is finite
_EVALUATION_ROWS = 4096
_NUMBERS = ("n_losses", "epoch", "step_in_epoch", "n_steps", "rate_factor", "rate")
_NUMBERS += ("best_loss", "progress_loss", "progress_epoch")
_MAX_RESTARTS, _RESTART_FACTOR = 3, 0.2
# private to torch, but its optimizers spend more time on bookkeeping than on one vector. None in some versions
_FUSED = {name: getattr(torch.ops.aten, f"_fused_{name}_", None) for name in ("adamw", "adam")}


@dataclass(frozen=True)
class TimeLimit:
    """A callback that ends a training run after `seconds` seconds. The model gets the best weights so far."""

    seconds: float
    callback: Callback | None = None  # is called as well

    def __call__(self, model: nn.Module, epoch: int) -> None:
        if self.callback is not None:
            self.callback(model, epoch)


class TrainingDiverged(RuntimeError):
    """The loss is not finite, and lower learning rates did not help."""


@dataclass(frozen=True)
class Recipe:
    """Settings of the training loop.

    Parameters
    ----------
    max_epochs, batch_size
        Maximum number of passes over the rows, and rows of one step.
    learning_rate, weight_decay, optimizer
        Highest learning rate of Adam, and weight decay: decoupled in `"adamw"`, added to the gradient in `"adam"`.
    schedule, warm_up
        `"constant"`, or `"cosine"`, which lowers the rate to zero over `max_epochs`, after a rise over `warm_up` steps.
    patience, min_gain, settle
        Training stops after `patience` epochs in which the held-out loss did not fall by `min_gain`. Weights of the
        first `settle` steps, up to a sixth of all, are never selected: a barely trained network can look best.
    start_counts
        Whether the weights before the first step can be selected, such as those of a network that begins at r = 1.
    clip_norm, average, tolerance
        `clip_norm` is the maximum length of the gradient. `average` averages the weights over about the last tenth of
        the steps. If the loss falls by more than `tolerance` in the last tenth of `max_epochs`, there is a
        `ConvergenceWarning`.
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
    start_counts: bool = False
    clip_norm: float = 5.0
    average: bool = True
    tolerance: float = 0.01


@dataclass
class History:
    """Losses of a training run: one value for each evaluation on held-out rows, and the seconds up to then."""

    epoch: list[int] = field(default_factory=list)
    train_loss: list[float] = field(default_factory=list)
    held_out_loss: list[float] = field(default_factory=list)
    learning_rate: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    n_restarts: int = 0
    best_epoch: int = 0  # the model has the weights of this epoch
    stop_reason: Literal["", "max_epochs", "patience", "time"] = ""

    def plot(self) -> Figure:
        """Draw both losses against the epoch."""
        from flowratio._support.figures import new_figure

        figure = new_figure(6, 3.5)
        axes = figure.add_subplot(xlabel="epoch", ylabel="loss (nats per row)")
        axes.plot(self.epoch, self.train_loss, "--", color="0.5", label="training")
        axes.plot(self.epoch, self.held_out_loss, "-", color="black", label="held out")
        axes.axvline(self.best_epoch, color="0.5", linestyle=":", label="best")
        axes.legend(frameon=False)
        return figure


@torch.no_grad()
def adam_step(
    weights: Tensor, gradient: Tensor, moments: list[Tensor], n_steps: Tensor, rate: float, recipe: Recipe
) -> None:
    """Take one step of Adam in place: weights, gradient, and the moments of the gradient and its square, (m,) each."""
    state = [weights], [gradient], [moments[0]], [moments[1]], [], [n_steps]
    settings: dict[str, Any] = {"lr": rate, "beta1": 0.9, "beta2": 0.999, "weight_decay": recipe.weight_decay}
    settings |= {"eps": 1e-8, "amsgrad": False, "maximize": False}
    divisor = (gradient.norm() / recipe.clip_norm).clamp_(min=1.0)
    kernel = _FUSED[recipe.optimizer]
    if kernel is not None:
        n_steps += 1
        kernel(*state, **settings, grad_scale=divisor.float(), found_inf=None)
        return
    from torch.optim.adam import adam
    from torch.optim.adamw import adamw

    gradient /= divisor
    {"adam": adam, "adamw": adamw}[recipe.optimizer](*state, **settings, foreach=False)


class Run:
    """The state of a run, which a checkpoint stores, and the steps that change it."""

    def __init__(self, model: nn.Module, loss: Loss, recipe: Recipe, callback: Callback | None = None) -> None:
        self.model, self.loss, self.recipe, self.callback = model, loss, recipe, callback
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        # one vector holds all parameters and one all gradients: one step of the optimizer, one norm, one copy
        self.weights = torch.cat([p.detach().flatten() for p in self.parameters])
        self.gradient = torch.zeros_like(self.weights)
        self.slopes = self._parts(self.gradient)
        self._point()
        names, state = {name for name, _ in model.named_parameters()}, model.state_dict(keep_vars=True)
        buffers = [b for name, b in state.items() if name not in names and b.is_floating_point()]
        self.live = [self.weights, *buffers]
        self.average, self.best = _clones(self.live), _clones(self.live)
        self.moments = [torch.zeros_like(self.weights), torch.zeros_like(self.weights)]
        self.n_adam_steps = self.weights.new_zeros(())  # since the moments were zero
        self.loss_sum = self.weights.new_zeros(())
        self.n_losses = self.epoch = self.step_in_epoch = self.n_steps = 0
        self.best_loss, self.rate_factor, self.rate = math.inf, 1.0, 0.0
        self.progress_loss, self.progress_epoch = math.inf, 0
        self.started, self.history = time.perf_counter(), History()

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

    def take_epoch(self, batches: Iterator[Tensor], total: int, checkpoint: Checkpoint | None) -> None:
        """Take the remaining steps of one epoch, and restart after a loss that is not finite."""
        self.model.train()
        for i, batch in enumerate(batches):
            if i < self.step_in_epoch:  # the run was killed after this step
                continue
            self._step(batch, total)
            if self.step_in_epoch % _CHECK_STEPS == 0 and not math.isfinite(self.loss_sum.item()):
                break
            if self.is_over():
                break
            if checkpoint is not None and checkpoint.is_due():
                checkpoint.write(*self.state())
        self.epoch, self.step_in_epoch = self.epoch + 1, 0
        if not math.isfinite(self.loss_sum.item()):
            self._restart()

    def is_over(self) -> bool:
        """Return whether the time of a `TimeLimit` is over."""
        return isinstance(self.callback, TimeLimit) and time.perf_counter() - self.started > self.callback.seconds

    def _step(self, batch: Tensor, total: int) -> None:
        loss = self.loss(batch)
        self.gradient.zero_()
        for p, slope in zip(self.parameters, self.slopes, strict=True):
            p.grad = slope  # added to in place, not allocated in each step
        loss.backward()
        self.rate = self._learning_rate(total)
        adam_step(self.weights, self.gradient, self.moments, self.n_adam_steps, self.rate, self.recipe)
        if self.recipe.average:
            for average, value in zip(self.average, self.live, strict=True):
                average.lerp_(value.detach(), 10 / (self.n_steps + 10))
        self.loss_sum += loss.detach()
        self.n_losses += 1
        self.n_steps += 1
        self.step_in_epoch += 1

    def _restart(self) -> None:
        """Continue from the best weights so far at a lower learning rate."""
        self.history.n_restarts += 1
        if self.history.n_restarts > _MAX_RESTARTS:
            what = f"The loss is not finite after {self.n_steps} steps and {_MAX_RESTARTS} restarts at lower rates. Use"
            raise TrainingDiverged(f"{what} a `learning_rate` below {self.recipe.learning_rate:g}, or remove outliers.")
        self.rate_factor *= _RESTART_FACTOR
        _copy(self.best, self.live)
        _copy(self.best, self.average)
        for moment in (*self.moments, self.n_adam_steps, self.loss_sum):
            moment.zero_()
        self.n_losses = 0

    @torch.no_grad()
    def score_start(self, held_out: Tensor) -> None:
        """Let the weights before the first step be the best so far. A resumed run has done it."""
        if self.recipe.start_counts and self.n_steps == 0:
            self.model.eval()
            loss = self._mean_loss(held_out)
            self.best_loss = self.progress_loss = loss if math.isfinite(loss) else math.inf

    def _mean_loss(self, held_out: Tensor) -> float:
        parts = held_out.split(_EVALUATION_ROWS)
        return sum(self.loss(part).item() * len(part) for part in parts) / len(held_out)

    @torch.no_grad()
    def close_round(self, held_out: Tensor) -> None:
        """Score the weights on held-out rows, store them if they are the best, and decide whether to stop."""
        if self.n_losses:  # none after a restart
            current = _clones(self.live)
            if self.recipe.average:
                _copy(self.average, self.live)
            self.model.eval()
            loss = self._mean_loss(held_out)
            if math.isfinite(loss):
                self._record(loss)
                if self.callback is not None:
                    self.callback(self.model, self.epoch)
                _copy(current, self.live)
            else:
                self._restart()
        if self.is_over():
            self.history.stop_reason = "time"
        elif self.epoch >= self.recipe.max_epochs:
            self.history.stop_reason = "max_epochs"
        elif self.epoch - self.progress_epoch >= self.recipe.patience:
            self.history.stop_reason = "patience"

    def _record(self, loss: float) -> None:
        history = self.history
        history.epoch.append(self.epoch)
        history.train_loss.append(self.loss_sum.item() / self.n_losses)
        history.held_out_loss.append(loss)
        history.learning_rate.append(self.rate)
        history.seconds.append(time.perf_counter() - self.started)
        self.loss_sum.zero_()
        self.n_losses = 0
        total = self.n_steps * self.recipe.max_epochs / self.epoch
        if self.n_steps < min(self.recipe.settle, total / 6) and not self.is_over():
            self.progress_epoch = self.epoch
            return
        if loss < self.progress_loss - self.recipe.min_gain:
            self.progress_loss, self.progress_epoch = loss, self.epoch
        if loss < self.best_loss:
            self.best_loss, history.best_epoch = loss, self.epoch
            _copy(self.live, self.best)

    def finish(self) -> None:
        """Leave the model with the best weights, each parameter in its own memory, and warn if it did not converge."""
        if not self.history.epoch:
            raise TrainingDiverged("No held-out loss was finite. Use a lower `learning_rate`.")
        _copy(self.best, self.live)
        self._point()
        for p in self.parameters:
            p.data, p.grad = p.data.clone(), None
        self.model.eval()
        losses = self.history.held_out_loss
        fall = losses[-1 - math.ceil(len(losses) / 10)] - losses[-1] if len(losses) > 1 else math.inf
        if self.history.stop_reason == "max_epochs" and fall > self.recipe.tolerance:
            what = f"Training ended at `max_epochs` = {self.recipe.max_epochs}"
            message = f"{what}, but the held-out loss ({losses[-1]:.4g}) was still falling. Use a larger `max_epochs`."
            warnings.warn(message, ConvergenceWarning, stacklevel=6)  # the caller of an estimator's `fit`

    def state(self) -> tuple[Numbers, Arrays]:
        """Return the state of the run: numbers for JSON, and arrays."""
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        numbers |= {"seconds": time.perf_counter() - self.started, "history": asdict(self.history)}
        return numbers, {name: tensor.detach().cpu().numpy() for name, tensor in self._tensors().items()}

    def _tensors(self) -> dict[str, Tensor]:
        lists = {"live": self.live, "average": self.average, "best": self.best, "moment": self.moments}
        tensors = {f"{name}.{i}": tensor for name, tensors in lists.items() for i, tensor in enumerate(tensors)}
        return {**tensors, "n_adam_steps": self.n_adam_steps, "loss_sum": self.loss_sum}

    @torch.no_grad()
    def resume(self, numbers: Numbers, arrays: Arrays) -> None:
        """Continue from what `state` returned."""
        self.history = History(**numbers["history"])
        self.started = time.perf_counter() - numbers["seconds"]
        for name in _NUMBERS:
            setattr(self, name, numbers[name])
        for name, tensor in self._tensors().items():
            tensor.copy_(torch.tensor(arrays[name]))


def _clones(tensors: list[Tensor]) -> list[Tensor]:
    return [tensor.detach().clone() for tensor in tensors]


@torch.no_grad()
def _copy(source: list[Tensor], target: list[Tensor]) -> None:
    for a, b in zip(source, target, strict=True):
        b.copy_(a)
