"""Estimates of mutual information: Gaussians whose information has a closed form, and each way of training."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import nn

    from flowratio import FlowFeaturizer

TELESCOPING = "separate, telescoping"
POINTS = 20  # of a curve against epochs


@dataclass(frozen=True)
class Settings:
    """Settings of the experiment.

    Parameters
    ----------
    seeds
        Number of repetitions.
    columns, correlation
        d and ρ.
    rows, held_out_rows
        Joint rows to fit, and held-out joint rows. As many rows are test rows for the estimate.
    from_paper
        Whether flow and MLP are trained by the settings of the paper, not by those of the library.
    epochs, flow_epochs, joint_epochs
        Epochs of the MLP, of the flow before it, and of both together.
    hidden
        Widths of the MLP.
    penalties
        Penalties of the weights of the MLP. The held-out loss selects one.
    alphas
        Weights α of joint training. 1 is discriminative training.
    methods
        Other ratios, by name. "auto" for the choice of the library.
    curve_rows, curve_correlations, curve_columns, curve_runs
        For the curves: joint rows, every ρ (with d as above), every d (with ρ as above), and runs of each for a seed.
    """

    seeds: int
    columns: int = 20
    correlation: float = 0.9
    rows: int = 80_000
    held_out_rows: int = 10_000
    from_paper: bool = False
    epochs: int = 16
    flow_epochs: int = 8
    joint_epochs: int = 8
    hidden: tuple[int, ...] = (200, 200, 200)
    penalties: tuple[float, ...] = (0.0, 1e-4, 5e-4)
    alphas: tuple[float, ...] = (0.1, 0.5, 0.9, 1.0)
    methods: tuple[str, ...] = ("auto", "telescoping", "difference")
    curve_rows: int = 5000
    curve_correlations: tuple[float, ...] = (0.0, 0.3, 0.5, 0.7, 0.9, 0.95, 0.99)
    curve_columns: tuple[int, ...] = (1, 2, 5, 10, 20)
    curve_runs: int = 3


def truth(d: int, rho: float) -> float:
    """Return the mutual information of d pairs of Gaussian columns with correlation rho, in nats."""
    return -0.5 * d * math.log1p(-(rho**2))


def draw_joint(n: int, d: int, rho: float, rng: np.random.Generator) -> np.ndarray:
    """Return rows (x, y) of the joint distribution, of shape (n, 2 d)."""
    x, noise = rng.normal(size=(2, n, d))
    return np.hstack([x, rho * x + math.sqrt(1 - rho**2) * noise])


def product(joint: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the same rows, (n, 2 d), with y permuted."""
    d = joint.shape[1] // 2
    return np.hstack([joint[:, :d], joint[rng.permutation(len(joint)), d:]])


def log_ratio(rows: np.ndarray, rho: float) -> np.ndarray:
    """Return log r of the joint distribution over the product, (n, 2 d) to (n,)."""
    x, y = np.hsplit(rows, 2)
    form = (rho**2 * (x**2 + y**2) - 2 * rho * x * y).sum(axis=1) / (2 * (1 - rho**2))
    return truth(x.shape[1], rho) - form


class Data:
    """Rows of a seed: those to fit (the library holds out some of them), and test rows for the estimate."""

    def __init__(self, settings: Settings, seed: int) -> None:
        rng = np.random.default_rng([seed, 4])
        shape = settings.columns, settings.correlation
        self.settings, self.seed = settings, seed
        self.joint = draw_joint(settings.rows + settings.held_out_rows, *shape, rng)
        self.product = product(self.joint, rng)
        self.test = draw_joint(settings.held_out_rows, *shape, rng)
        self.log_r = log_ratio(self.test, settings.correlation)

    def estimate(self, log_r: np.ndarray) -> dict[str, float]:
        """Return the estimate from log r of the test rows, its standard error, and the error of log r itself."""
        log_r_error = math.sqrt(np.square(log_r - self.log_r).mean())
        error = float(log_r.std(ddof=1)) / math.sqrt(len(log_r))
        return {"nats": _round(log_r.mean()), "standard_error": _round(error), "log_r_error": _round(log_r_error)}


def run_curve(settings: Settings, d: int, rho: float) -> dict[str, Any]:
    """Estimate from new rows for each run, by a ratio whose form contains the truth."""
    from flowratio import mutual_information

    estimates = []
    for k in range(settings.seeds * settings.curve_runs):
        rows = draw_joint(settings.curve_rows, d, rho, np.random.default_rng([k, d, round(1000 * rho)]))
        estimates.append(mutual_information(*np.hsplit(rows, 2), ratio="qda", random_state=k))
    return {
        "nats": [_round(one.raw) for one in estimates],
        "standard_errors": [_round(one.standard_error) for one in estimates],
        "verdicts": [str(one.verdict) for one in estimates],
    }


def run_own(data: Data, method: str) -> dict[str, Any]:
    """Estimate by `mutual_information` from all rows, cross-fitted, or by another ratio from the rows to fit."""
    from flowratio import FlowDifferenceRatio, TelescopingRatio, mutual_information

    if method in ("auto", "qda"):
        rows = np.vstack([data.joint, data.test])
        ratio = None if method == "auto" else method
        estimate = mutual_information(*np.hsplit(rows, 2), ratio=ratio, random_state=data.seed)
        error = _round(estimate.standard_error)
        return {"nats": _round(estimate.raw), "standard_error": error, "verdict": str(estimate.verdict)}
    kinds = {"telescoping": TelescopingRatio, "difference": FlowDifferenceRatio}
    ratio = kinds[method](random_state=data.seed).fit_samples(data.joint, data.product)
    return data.estimate(ratio.log_ratio(data.test))


def _flow(settings: Settings, max_epochs: int, seed: int) -> FlowFeaturizer:
    from flowratio import FlowFeaturizer
    from flowratio_paper.settings import paper_featurizer

    flow = paper_featurizer("mi", seed) if settings.from_paper else FlowFeaturizer(random_state=seed)
    return flow.set_params(max_epochs=max_epochs, validation_fraction=_share_held_out(settings))


def _share_held_out(settings: Settings) -> float:
    return settings.held_out_rows / (settings.rows + settings.held_out_rows)


def run_classifiers(data: Data, joint: np.ndarray, product_: np.ndarray, test: np.ndarray) -> list[dict[str, Any]]:
    """Train an MLP in x, or in z, (n, 2 d), for each penalty."""
    return [_run_classifier(data, penalty, joint, product_, test) for penalty in data.settings.penalties]


def _run_classifier(
    data: Data, penalty: float, joint: np.ndarray, product_: np.ndarray, test: np.ndarray
) -> dict[str, Any]:
    from flowratio import NetworkRatio

    settings, weights = data.settings, Weights()
    ratio = NetworkRatio(
        "relu",
        hidden=settings.hidden,
        max_epochs=settings.epochs,
        patience=settings.epochs,  # for the whole curve: the best epoch is restored in any case
        batch_size=256 if settings.from_paper else None,  # the paper's 128 is of each sample
        learning_rate=2e-4 if settings.from_paper else None,
        l2_penalty=penalty,
        validation_fraction=_share_held_out(settings),
        random_state=data.seed,
        callback=lambda model, epoch: weights.record(model, epoch),
    ).fit_samples(joint, product_)
    estimate = _estimate(data, ratio, test)
    curve = weights.curve(ratio.network_, estimate["kept_epoch"], lambda: ratio.log_ratio(test).mean())
    return {"penalty": penalty, **estimate, **curve}


def run_separate(data: Data) -> dict[str, Any]:
    """Train the flow, then in z the MLP for each penalty, and a telescoping ratio."""
    from flowratio import TelescopingRatio

    flow = _flow(data.settings, data.settings.flow_epochs, data.seed).fit(np.vstack([data.joint, data.product]))
    joint, product_, test = map(flow.transform, (data.joint, data.product, data.test))
    telescoping = TelescopingRatio(random_state=data.seed).fit_samples(joint, product_)
    runs = run_classifiers(data, joint, product_, test)
    return {"runs": runs, TELESCOPING: data.estimate(telescoping.log_ratio(test))}


def run_joint(data: Data, alpha: float) -> dict[str, Any]:
    """Return the estimate of a flow and a classifier that are trained together."""
    from torch import nn

    from flowratio import JointFeaturizedRatio

    settings, weights = data.settings, Weights()
    flow = _flow(settings, settings.joint_epochs, data.seed).set_params(patience=settings.joint_epochs)
    ratio = JointFeaturizedRatio(
        alpha,
        network="relu",
        featurizer=flow,
        hidden=settings.hidden,
        random_state=data.seed,
        callback=lambda model, epoch: weights.record(model, epoch),
    ).fit_samples(data.joint, data.product)
    both = nn.ModuleList([ratio.featurizer_.flow_, ratio.network_])
    estimate = _estimate(data, ratio, data.test)
    curve = weights.curve(both, estimate["kept_epoch"], lambda: ratio.log_ratio(data.test).mean())
    return {"alpha": alpha, **estimate, **curve}


def _estimate(data: Data, ratio: Any, test: np.ndarray) -> dict[str, Any]:
    """Return the estimate of a fitted ratio, and the held-out loss of its best epoch."""
    history = ratio.history_
    loss = history.held_out_loss[history.epoch.index(history.best_epoch)]
    return {**data.estimate(ratio.log_ratio(test)), "held_out_loss": loss, "kept_epoch": history.best_epoch}


class Weights:
    """The weights of a network after each epoch."""

    def __init__(self) -> None:
        self.states: dict[int, dict[str, Any]] = {}

    def record(self, model: nn.Module, epoch: int) -> None:
        """Record the weights after an epoch: the callback of a training."""
        self.states[epoch] = {name: value.clone() for name, value in model.state_dict().items()}

    def curve(self, model: nn.Module, best: int, estimate: Callable[[], float]) -> dict[str, Any]:
        """Return the estimates at up to 21 epochs, with the best one, whose weights the model has in the end."""
        epochs = list(self.states)
        points = {epochs[round(k)] for k in np.linspace(0, len(epochs) - 1, POINTS)} | {best}
        estimates = {}
        for epoch in [*sorted(points), best]:
            model.load_state_dict(self.states[epoch])
            estimates[epoch] = _round(estimate())
        return {"epochs": list(estimates), "curve": list(estimates.values())}


def _round(value: Any) -> float:
    return round(float(value), 5)
