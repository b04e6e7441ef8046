"""How mutual information is estimated in the experiment: normal laws of known information, and each way of training."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import nn

    from flowratio.latent.featurizer import FlowFeaturizer
    from flowratio.ratios.classifier.classifier import ClassifierRatio

BRIDGES = "separate, bridges"
POINTS = 20  # of a curve against epochs


@dataclass(frozen=True)
class Settings:
    """Settings of the experiment.

    Parameters
    ----------
    seeds
        How often everything is repeated.
    columns, correlation
        d and ρ.
    rows, held_out_rows
        Joint rows to fit, and joint rows to stop by; as many are there to estimate on.
    from_paper
        Whether flow and MLP are trained by the paper's settings, not by the library's.
    epochs, flow_epochs, joint_epochs
        Of the MLP, of the flow before it, and of both together.
    hidden
        Widths of the MLP.
    penalties
        Of the weights of the MLP, from which the held-out loss chooses.
    alphas
        Of joint training; 1 is the discriminative one.
    methods
        Ratios that stand beside these, by name; "auto" for what the library chooses.
    curve_rows, curve_correlations, curve_columns, curve_runs
        Joint rows, every ρ (with d as above), every d (with ρ as above), and runs of each for a seed, for the curves.
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
    """Return the mutual information of d pairs of normal columns that correlate by rho, in nats."""
    return -0.5 * d * math.log1p(-(rho**2))


def draw_joint(n: int, d: int, rho: float, rng: np.random.Generator) -> np.ndarray:
    """Return rows (x, y) of the joint law, of shape (n, 2 d)."""
    x, noise = rng.normal(size=(2, n, d))
    return np.hstack([x, rho * x + math.sqrt(1 - rho**2) * noise])


def product(joint: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the same rows, (n, 2 d), with y permuted."""
    d = joint.shape[1] // 2
    return np.hstack([joint[:, :d], joint[rng.permutation(len(joint)), d:]])


def log_ratio(rows: np.ndarray, rho: float) -> np.ndarray:
    """Return log r of the joint law over the product, (n, 2 d) to (n,)."""
    x, y = np.hsplit(rows, 2)
    form = (rho**2 * (x**2 + y**2) - 2 * rho * x * y).sum(axis=1) / (2 * (1 - rho**2))
    return truth(x.shape[1], rho) - form


class Data:
    """Rows of a seed: those to fit, of which the library holds some out to stop by, and those to estimate on."""

    def __init__(self, settings: Settings, seed: int) -> None:
        rng = np.random.default_rng([seed, 4])
        law = settings.columns, settings.correlation
        self.settings, self.seed = settings, seed
        self.joint = draw_joint(settings.rows + settings.held_out_rows, *law, rng)
        self.product = product(self.joint, rng)
        self.test = draw_joint(settings.held_out_rows, *law, rng)
        self.log_r = log_ratio(self.test, settings.correlation)

    def estimate(self, log_r: np.ndarray) -> dict[str, float]:
        """Return the estimate from log r of the test rows, its standard error, and the error of log r itself."""
        wrong = math.sqrt(np.square(log_r - self.log_r).mean())
        error = float(log_r.std(ddof=1)) / math.sqrt(len(log_r))
        return {"nats": _round(log_r.mean()), "standard_error": _round(error), "log_r_error": _round(wrong)}


def run_curve(settings: Settings, d: int, rho: float) -> dict[str, Any]:
    """Estimate from new rows, again and again, by the form of ratio that has the truth in it."""
    from flowratio.applications.information import mutual_information

    found = []
    for k in range(settings.seeds * settings.curve_runs):
        rows = draw_joint(settings.curve_rows, d, rho, np.random.default_rng([k, d, round(1000 * rho)]))
        found.append(mutual_information(*np.hsplit(rows, 2), ratio="qda", random_state=k))
    return {
        "nats": [_round(one.raw) for one in found],
        "standard_errors": [_round(one.standard_error) for one in found],
        "verdicts": [one.verdict for one in found],
    }


def run_own(data: Data, method: str) -> dict[str, Any]:
    """Estimate by `mutual_information` from all rows, cross-fitted, or by another ratio from the rows to fit."""
    from flowratio.applications.information import mutual_information
    from flowratio.ratios.neural.difference import FlowDifferenceRatio
    from flowratio.ratios.neural.telescoping import TelescopingRatio

    if method in ("auto", "qda"):
        rows = np.vstack([data.joint, data.test])
        ratio = None if method == "auto" else method
        found = mutual_information(*np.hsplit(rows, 2), ratio=ratio, random_state=data.seed)
        error = _round(found.standard_error)
        return {"nats": _round(found.raw), "standard_error": error, "verdict": found.verdict}
    kinds = {"telescoping": TelescopingRatio, "difference": FlowDifferenceRatio}
    ratio = kinds[method](random_state=data.seed).fit_samples(data.joint, data.product)
    return data.estimate(ratio.log_ratio(data.test))


def _flow(settings: Settings, max_epochs: int, seed: int) -> FlowFeaturizer:
    from flowratio.latent.featurizer import FlowFeaturizer

    made = FlowFeaturizer.from_paper("mi", seed) if settings.from_paper else FlowFeaturizer(random_state=seed)
    return made.set_params(max_epochs=max_epochs, validation_fraction=_share_held_out(settings))


def _share_held_out(settings: Settings) -> float:
    return settings.held_out_rows / (settings.rows + settings.held_out_rows)


def _classifier(settings: Settings, penalty: float, seed: int) -> ClassifierRatio:
    from flowratio.ratios.classifier.classifier import ClassifierRatio

    return ClassifierRatio(
        "mlp",
        hidden=settings.hidden,
        max_epochs=settings.epochs,
        patience=settings.epochs,  # the whole curve is wanted; the best epoch is kept in any case
        batch_size=256 if settings.from_paper else None,  # the paper's 128 is of each sample
        learning_rate=2e-4 if settings.from_paper else None,
        l2_penalty=penalty,
        validation_fraction=_share_held_out(settings),
        random_state=seed,
    )


def run_classifiers(data: Data, joint: np.ndarray, product_: np.ndarray, test: np.ndarray) -> list[dict[str, Any]]:
    """Train an MLP of x, or of z, (n, 2 d), for each penalty."""
    return [_run_classifier(data, penalty, joint, product_, test) for penalty in data.settings.penalties]


def _run_classifier(
    data: Data, penalty: float, joint: np.ndarray, product_: np.ndarray, test: np.ndarray
) -> dict[str, Any]:
    from flowratio.training.run import watching

    ratio, weights = _classifier(data.settings, penalty, data.seed), Weights()
    with watching(weights):
        ratio.fit_samples(joint, product_)
    told = _told(data, ratio, test)
    curve = weights.curve(ratio.classifier_, told["kept_epoch"], lambda: ratio.log_ratio(test).mean())
    return {"penalty": penalty, **told, **curve}


def run_separate(data: Data) -> dict[str, Any]:
    """Train the flow, then in z the MLP for each penalty, and bridges."""
    from flowratio.ratios.neural.telescoping import TelescopingRatio

    flow = _flow(data.settings, data.settings.flow_epochs, data.seed).fit(np.vstack([data.joint, data.product]))
    joint, product_, test = map(flow.transform, (data.joint, data.product, data.test))
    bridges = TelescopingRatio(random_state=data.seed).fit_samples(joint, product_)
    runs = run_classifiers(data, joint, product_, test)
    return {"runs": runs, BRIDGES: data.estimate(bridges.log_ratio(test))}


def run_joint(data: Data, alpha: float) -> dict[str, Any]:
    """Return what flow and classifier give that are trained together."""
    from torch import nn

    from flowratio.ratios.featurized.joint import JointFeaturizedRatio
    from flowratio.training.run import watching

    settings, weights = data.settings, Weights()
    flow = _flow(settings, settings.joint_epochs, data.seed).set_params(patience=settings.joint_epochs)
    ratio = JointFeaturizedRatio(alpha, featurizer=flow, hidden=settings.hidden, random_state=data.seed)
    with watching(weights):
        ratio.fit_samples(data.joint, data.product)
    both = nn.ModuleList([ratio.featurizer_.flow_, ratio.network_])
    told = _told(data, ratio, data.test)
    curve = weights.curve(both, told["kept_epoch"], lambda: ratio.log_ratio(data.test).mean())
    return {"alpha": alpha, **told, **curve}


def _told(data: Data, ratio: Any, test: np.ndarray) -> dict[str, Any]:
    """Return what the kept weights give, and the held-out loss by which they were kept."""
    history = ratio.history_
    loss = history.held_out_loss[history.epoch.index(history.best_epoch)]
    return {**data.estimate(ratio.log_ratio(test)), "held_out_loss": loss, "kept_epoch": history.best_epoch}


class Weights:
    """The weights of a network after each epoch, as `watching` shows them."""

    def __init__(self) -> None:
        self.states: dict[int, dict[str, Any]] = {}

    def __call__(self, model: nn.Module, epoch: int) -> None:
        self.states[epoch] = {name: value.clone() for name, value in model.state_dict().items()}

    def curve(self, model: nn.Module, kept: int, estimate: Callable[[], float]) -> dict[str, Any]:
        """Return the estimate at some epochs, the kept one among them; the model has its own weights in the end."""
        epochs = list(self.states)
        shown = {epochs[round(k)] for k in np.linspace(0, len(epochs) - 1, POINTS)} | {kept}
        found = {}
        for epoch in [*sorted(shown), kept]:
            model.load_state_dict(self.states[epoch])
            found[epoch] = _round(estimate())
        return {"epochs": list(found), "curve": list(found.values())}


def _round(value: Any) -> float:
    return round(float(value), 5)
