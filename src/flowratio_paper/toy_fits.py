"""The fits of the toy problem: networks in x and in z with each penalty, joint ones, `AutoRatio`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flowratio.ratios.classifier.classifier import ClassifierRatio
from flowratio.samples.stacking import stack

if TYPE_CHECKING:
    from flowratio.latent.featurizer import FlowFeaturizer
    from flowratio.ratios.base import RatioEstimator

RAW, X, SEPARATE, DISCRIMINATIVE, AUTO = "raw x", "standardized x", "separate", "discriminative", "AutoRatio"
LOGISTIC_X, LOGISTIC_Z = "logistic in x", "logistic in z"
SHIFT, TEST_ROWS, HELD_OUT = 3.0, 5000, 1 / 9


@dataclass(frozen=True)
class Settings:
    """Rows of each sample; penalties in x and z, that of the paper, those of joint training; steps of the training."""

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


class RawRatio(ClassifierRatio):
    """A ratio by a classifier of rows as they come: nothing is standardized before it."""

    def _centre_and_scale(self, X: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(X.shape[1]), np.ones(X.shape[1])


def log_ratio(rows: np.ndarray) -> np.ndarray:
    """Return the true log r, (n, 2) to (n,)."""
    return SHIFT**2 - SHIFT * rows.sum(axis=1)


def draw_samples(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return n rows of p and n of q, of shape (n, 2) each."""
    return rng.normal(size=(n, 2)), rng.normal(SHIFT, 1.0, size=(n, 2))


def draw_test(seed: int) -> np.ndarray:
    """Return fresh rows, those of p first."""
    return stack(*draw_samples(TEST_ROWS, np.random.default_rng([seed, 2, 1])))[0]


def joint(alpha: float) -> str:
    """Return the name of joint training with this weight of the classifier."""
    return f"joint {alpha:g}"


def fits(settings: Settings, part: str, seed: int) -> Iterator[Fit]:
    """Yield the ratios of a part: method, penalty, the fitted ratio, and what its training tells.

    Parameters
    ----------
    settings
        Of the fits.
    part
        `RAW`, `X`, `SEPARATE`, `AUTO`, `DISCRIMINATIVE`, or what `joint` gives.
    seed
        Of rows and fits.
    """
    X_p, X_q = draw_samples(settings.rows, np.random.default_rng([seed, 2, 0]))
    if part == AUTO:
        return _auto(settings, X_p, X_q, seed)
    if part in (RAW, X, SEPARATE):
        return _in_space(settings, X_p, X_q, part, seed)
    alpha = 1.0 if part == DISCRIMINATIVE else float(part.split()[1])
    return _trained_together(settings, X_p, X_q, alpha, seed)


Fit = tuple[str, float | None, "RatioEstimator", dict[str, Any]]


def _in_space(settings: Settings, X_p: np.ndarray, X_q: np.ndarray, part: str, seed: int) -> Iterator[Fit]:
    """Yield networks in x, or in the latent space of one flow, for each penalty, and logistic regression there."""
    from flowratio.ratios.featurized.featurized import FeaturizedRatio

    flow = new_flow(settings, seed).fit(stack(X_p, X_q)[0]) if part == SEPARATE else None
    kind = RawRatio if part == RAW else ClassifierRatio

    def placed(ratio: ClassifierRatio) -> RatioEstimator:
        made = ratio if flow is None else FeaturizedRatio(ratio, featurizer=flow, random_state=seed)
        return made.fit_samples(X_p, X_q)

    if part != RAW:
        yield LOGISTIC_X if flow is None else LOGISTIC_Z, None, placed(ClassifierRatio("logistic")), {}
    for penalty in settings.penalties:
        network = kind(
            "mlp",
            hidden=(100, 100, 100),
            max_epochs=settings.epochs,
            batch_size=settings.batch_size,
            learning_rate=settings.learning_rate,
            patience=settings.epochs,
            l2_penalty=penalty,
            validation_fraction=HELD_OUT,
            random_state=seed,
        )
        ratio: Any = placed(network)
        yield part, penalty, ratio, _of_training((ratio if flow is None else ratio.ratio_).history_)


def _trained_together(settings: Settings, X_p: np.ndarray, X_q: np.ndarray, alpha: float, seed: int) -> Iterator[Fit]:
    """Yield flow and network in one training, for each of its penalties."""
    from flowratio.ratios.featurized.joint import JointFeaturizedRatio

    method = DISCRIMINATIVE if alpha == 1 else joint(alpha)
    for penalty in settings.joint_penalties:
        flow = new_flow(settings, seed).set_params(weight_decay=penalty)
        ratio = JointFeaturizedRatio(alpha, featurizer=flow, hidden=(100, 100, 100), random_state=seed)
        ratio.fit_samples(X_p, X_q)
        yield method, penalty, ratio, _of_training(ratio.history_)


def _auto(settings: Settings, X_p: np.ndarray, X_q: np.ndarray, seed: int) -> Iterator[Fit]:
    """Yield the automatic choice; it has no limit of time, by which a slow machine would choose otherwise."""
    from flowratio.ratios.auto.auto import AutoRatio

    ratio = AutoRatio(settings.candidates, time_budget=None, random_state=seed)
    ratio.fit_samples(X_p[: settings.auto_rows], X_q[: settings.auto_rows])
    weights = [round(float(weight), 3) for weight in ratio.weights_]
    yield AUTO, None, ratio, {"stack": dict(zip(ratio.names_, weights, strict=True)), "verdict": ratio.results_.verdict}


def new_flow(settings: Settings, seed: int) -> FlowFeaturizer:
    """Return the paper's flow, with the steps of the preset."""
    from flowratio.latent.featurizer import FlowFeaturizer

    return FlowFeaturizer.from_paper("toy", random_state=seed).set_params(
        max_epochs=settings.flow_epochs,
        batch_size=settings.flow_batch_size,
        learning_rate=settings.flow_learning_rate,
        validation_fraction=HELD_OUT,
    )


def _of_training(history: Any) -> dict[str, Any]:
    """Return the epoch whose weights were kept, and the held-out loss there."""
    loss = history.held_out_loss[history.epoch.index(history.best_epoch)]
    return {"held_out": float(loss), "best_epoch": history.best_epoch}
