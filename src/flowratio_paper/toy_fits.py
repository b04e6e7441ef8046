"""The fits of the toy problem: networks in x and in z with each penalty, joint ones, `AutoRatio`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flowratio import AutoRatio, ClassifierRatio, FeaturizedRatio, JointFeaturizedRatio, NetworkRatio, stack
from flowratio_paper.raw_network import RawNetwork
from flowratio_paper.settings import paper_featurizer

if TYPE_CHECKING:
    from flowratio import FlowFeaturizer

RAW, X, SEPARATE, DISCRIMINATIVE, AUTO = "raw x", "standardized x", "separate", "discriminative", "AutoRatio"
LOGISTIC_X, LOGISTIC_Z = "logistic in x", "logistic in z"
SHIFT, TEST_ROWS, HELD_OUT = 3.0, 5000, 1 / 9


@dataclass(frozen=True)
class Settings:
    """Rows of each sample, penalties in x and z, of the paper and of joint training, and steps of the training."""

    seeds: int
    rows: int = 45_000
    penalties: tuple[float, ...] = (0.0, 1e-4, 2e-4, 5e-4, 1e-3)
    paper_penalty: float = 5e-4
    joint_penalties: tuple[float, ...] = (0.0, 5e-4)
    alphas: tuple[float, ...] = (0.01, 0.1, 0.5, 0.7, 0.9)
    epochs: int = 100
    batch_size: int = 256  # the paper's 128 is of each sample
    learning_rate: float = 2e-4
    flow_epochs: int = 100
    flow_batch_size: int = 100
    flow_learning_rate: float = 1e-4
    auto_rows: int = 45_000
    candidates: tuple[str, ...] = ("lda", "logistic", "qda", "quadratic", "additive", "boosting", "mlp", "mlp in z")


def log_ratio(rows: np.ndarray) -> np.ndarray:
    """Return the true log r, (n, 2) to (n,)."""
    return SHIFT**2 - SHIFT * rows.sum(axis=1)


def draw_samples(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return n rows of p and n of q, of shape (n, 2) each."""
    return rng.normal(size=(n, 2)), rng.normal(SHIFT, 1.0, size=(n, 2))


def draw_test(seed: int) -> np.ndarray:
    """Return test rows, those of p first."""
    return stack(*draw_samples(TEST_ROWS, np.random.default_rng([seed, 2, 1])))[0]


def joint(alpha: float) -> str:
    """Return the name of joint training with this weight of the classifier."""
    return f"joint {alpha:g}"


def joint_scaled(alpha: float) -> str:
    """Return the name of the same with the penalty α λ, λ being the paper's."""
    return f"{joint(alpha)}, penalty α λ"


def fits(settings: Settings, part: str, seed: int) -> Iterator[Fit]:
    """Yield the ratios of a part: method, penalty, the fitted ratio, and numbers of its training.

    Parameters
    ----------
    settings
        Settings of the fits.
    part
        `RAW`, `X`, `SEPARATE`, `AUTO`, `DISCRIMINATIVE`, or a name from `joint`.
    seed
        Seed of rows and fits.
    """
    X_p, X_q = draw_samples(settings.rows, np.random.default_rng([seed, 2, 0]))
    if part == AUTO:
        return _automatic(settings, X_p, X_q, seed)
    if part == RAW:
        return _in_raw_x(settings, X_p, X_q, seed)
    if part in (X, SEPARATE):
        return _in_space(settings, X_p, X_q, part, seed)
    alphas = {DISCRIMINATIVE: 1.0} | {joint(alpha): alpha for alpha in settings.alphas}
    return _trained_together(settings, X_p, X_q, alphas[part], seed)


Fit = tuple[str, float | None, Any, dict[str, Any]]


def _in_raw_x(settings: Settings, X_p: np.ndarray, X_q: np.ndarray, seed: int) -> Iterator[Fit]:
    """Yield networks of rows in their own units, for each penalty."""
    for penalty in settings.penalties:
        ratio = RawNetwork(
            settings.epochs, settings.batch_size, settings.learning_rate, penalty, HELD_OUT, random_state=seed
        ).fit_samples(X_p, X_q)
        yield RAW, penalty, ratio, _of_training(ratio.history_)


def _in_space(settings: Settings, X_p: np.ndarray, X_q: np.ndarray, part: str, seed: int) -> Iterator[Fit]:
    """Yield logistic regression, and networks for each penalty, in standardized x or in the latent space of a flow."""
    flow = new_flow(settings, seed).fit(stack(X_p, X_q)[0]) if part == SEPARATE else None

    def fitted(estimator: ClassifierRatio | NetworkRatio) -> Any:
        ratio = estimator if flow is None else FeaturizedRatio(estimator, featurizer=flow, random_state=seed)
        return ratio.fit_samples(X_p, X_q)

    yield LOGISTIC_X if flow is None else LOGISTIC_Z, None, fitted(ClassifierRatio("logistic")), {}
    for penalty in settings.penalties:
        network = NetworkRatio(
            "relu",
            hidden=(100, 100, 100),
            max_epochs=settings.epochs,
            batch_size=settings.batch_size,
            learning_rate=settings.learning_rate,
            patience=settings.epochs,
            l2_penalty=penalty,
            validation_fraction=HELD_OUT,
            random_state=seed,
        )
        ratio = fitted(network)
        yield part, penalty, ratio, _of_training((ratio if flow is None else ratio.ratio_).history_)


def _trained_together(settings: Settings, X_p: np.ndarray, X_q: np.ndarray, alpha: float, seed: int) -> Iterator[Fit]:
    """Yield flow and network in one training, for each of its penalties, and for the paper's times α."""
    method = DISCRIMINATIVE if alpha == 1 else joint(alpha)
    penalties = [(method, penalty) for penalty in settings.joint_penalties]
    if alpha < 1:
        penalties.append((joint_scaled(alpha), alpha * settings.paper_penalty))
    for name, penalty in penalties:
        flow = new_flow(settings, seed).set_params(weight_decay=penalty)
        ratio = JointFeaturizedRatio(alpha, network="relu", featurizer=flow, hidden=(100, 100, 100), random_state=seed)
        ratio.fit_samples(X_p, X_q)
        yield name, penalty, ratio, _of_training(ratio.history_)


def _automatic(settings: Settings, X_p: np.ndarray, X_q: np.ndarray, seed: int) -> Iterator[Fit]:
    """Yield the automatic choice, without a time limit, so that it does not depend on the machine."""
    ratio = AutoRatio(settings.candidates, time_budget=None, random_state=seed)
    ratio.fit_samples(X_p[: settings.auto_rows], X_q[: settings.auto_rows])
    weights = [round(float(weight), 3) for weight in ratio.shares_]
    yield (
        AUTO,
        None,
        ratio,
        {"stack": dict(zip(ratio.names_, weights, strict=True)), "verdict": str(ratio.results_.verdict)},
    )


def new_flow(settings: Settings, seed: int) -> FlowFeaturizer:
    """Return the paper's flow, with the steps of the preset."""
    return paper_featurizer("toy", seed).set_params(
        max_epochs=settings.flow_epochs,
        batch_size=settings.flow_batch_size,
        learning_rate=settings.flow_learning_rate,
        validation_fraction=HELD_OUT,
    )


def _of_training(history: Any) -> dict[str, Any]:
    """Return the best epoch and its held-out loss."""
    loss = history.held_out_loss[history.epoch.index(history.best_epoch)]
    return {"held_out": float(loss), "best_epoch": history.best_epoch}
