r"""The stages of an experiment on augmentation: generated drawings, ratios in x and in z, weights, classifiers.

r = p/q, with p the real drawings (y = 1) and q the generated ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from flowratio import (
    CNN,
    Dequantizer,
    FlowFeaturizer,
    Logit,
    NetworkRatio,
    Recipe,
    ScalerChain,
    Standardizer,
    effective_sample_size,
    self_normalize,
    temper,
)
from flowratio_paper.characters import TRAINING, Part
from flowratio_paper.dagan import Dagan, DaganSettings
from flowratio_paper.image_classifier import fit_classifier
from flowratio_paper.image_distributions import log_densities
from flowratio_paper.images import SIDE
from flowratio_paper.settings import paper_featurizer, paper_recipe

DATA, SYNTHETIC, MIXTURE = "data only", "synthetic only", "mixture"
Generated = dict[str, np.ndarray]  # from `generate`
GAMMAS = {"x": (1.0, 0.2), "z": (0.1, 0.2, 0.5, 1.0)}
_DAGAN = DaganSettings(  # 200 epochs of the paper
    channels=64,
    noise=100,
    steps=24_000,
    critic_steps=5,
    batch_size=100,
    learning_rate=1e-4,
    critic_rate=1e-4,
)


@dataclass(frozen=True)
class Settings:
    """Sizes of the experiment.

    Parameters
    ----------
    seeds
        Runs.
    classes
        Number of characters, from the first on.
    per_class
        Generated drawings of each, a multiple of 10.
    dagan
        Settings of the generator.
    flow_blocks, flow_hidden, flow_epochs, flow_batch, flow_rate, flow_decay
        Settings of the flow. If `flow_epochs` is None, those of the paper, with 200 epochs.
    filters, rate
        Filters of each of the four layers of a CNN, and the learning rate of its training.
    plain
        Whether CNNs are trained as in the paper, by Adam for all epochs. If not, by AdamW with early stopping, the
        ratios with a weight decay of .3. A plain classifier has a constant rate, and neither clipped gradients nor
        averaged weights.
    ratio_epochs
        Maximum number of passes of a ratio over both samples.
    folds
        Parts of the drawings, each weighted by a ratio that was fitted without it. 1 to fit one ratio to all.
    classifier_steps, batch_size
        Maximum number of steps of a classifier, and drawings of each step.
    """

    seeds: int
    classes: int = 1200
    per_class: int = 50
    dagan: DaganSettings = _DAGAN
    flow_blocks: int = 5
    flow_hidden: tuple[int, ...] = (1024, 1024, 1024)
    flow_epochs: int | None = None
    flow_batch: int = 100
    flow_rate: float = 1e-4
    flow_decay: float = 1e-6
    filters: int = 64
    rate: float = 1e-3
    plain: bool = True
    ratio_epochs: int = 10
    folds: int = 1
    classifier_steps: int = 112_500  # 100 passes over the mixture
    batch_size: int = 64


def weighted(space: str, gamma: float) -> str:
    """Return the name of the setting with weights from x or z, to the power γ."""
    return f"mixture + IW({space}), γ = {gamma:g}"


def generate(settings: Settings, training: Part, seed: int, checkpoint: Path) -> dict[str, np.ndarray]:
    """Train the generator, and generate the same number of drawings from each real one.

    Returns the generated `images`, (m, 784), and `source`, (m,), the position of the real drawing of each. `gaps` has
    the gap of the critic in each twentieth of the training.

    Parameters
    ----------
    settings
        Settings of the generator.
    training
        Real drawings and their characters.
    seed
        Seed of everything random.
    checkpoint
        Folder that stores the training.
    """
    images, labels = training
    dagan = Dagan(images, labels, settings.dagan, seed=seed).train(checkpoint)
    source = np.repeat(np.arange(len(images)), settings.per_class // TRAINING)
    gaps = [part.mean() for part in np.array_split(dagan.gaps, min(20, len(dagan.gaps)))]
    return {"images": dagan.generate(images[source], seed), "source": source, "gaps": np.round(gaps, 4)}


def ratio_in_x(settings: Settings, training: Part, generated: Generated, seed: int) -> dict[str, np.ndarray]:
    """Return log r = log p/q, p the real drawings, of `real` and generated (`made`) ones, by CNNs of pixels."""
    return log_ratios(settings, training[0], generated["images"], generated["source"], seed)


def ratio_in_z(
    settings: Settings, parts: dict[str, Part], generated: Generated, seed: int, checkpoint: Path
) -> dict[str, np.ndarray]:
    """Return log r by CNNs of z, and the bits per pixel of validation drawings and of generated ones.

    Parameters
    ----------
    settings
        Settings of flow and ratio.
    parts
        Real drawings, from `split`.
    generated
        Generated drawings, from `generate`.
    seed
        Seed of everything random.
    checkpoint
        Folder that stores the training of the flow.
    """
    pooled = _ink(np.concatenate([parts["training"][0], generated["images"]]))
    flow = new_flow(settings, seed, checkpoint).fit(pooled)
    Z, n = flow.transform(pooled), len(parts["training"][0])
    arrays = log_ratios(settings, Z[:n], Z[n:], generated["source"], seed)
    rng, first = np.random.default_rng([seed, 0, 6]), generated["images"][first_of_each(generated["source"])]
    for kind, images in (("real", parts["validation"][0]), ("made", first)):
        arrays[f"bits_{kind}"] = log_densities(flow, _ink(images), rng)["bits"].mean()
    return arrays


def _ink(drawings: np.ndarray) -> np.ndarray:
    """Return black and white drawings as the flow takes them: 1 for ink, 0 for paper."""
    return (drawings // 255).astype(np.float32)


def new_flow(settings: Settings, seed: int, checkpoint: Path) -> FlowFeaturizer:
    """Return the flow, not yet fitted."""
    scaling = ScalerChain([Dequantizer(levels=2), Logit(), Standardizer()])
    if settings.flow_epochs is None:
        return paper_featurizer("omniglot", seed).set_params(scaling=scaling, checkpoint=checkpoint)
    return FlowFeaturizer(
        scaling=scaling,
        n_blocks=settings.flow_blocks,
        hidden=settings.flow_hidden,
        max_epochs=settings.flow_epochs,
        batch_size=settings.flow_batch,
        learning_rate=settings.flow_rate,
        weight_decay=settings.flow_decay,
        random_state=seed,
        checkpoint=checkpoint,
    )


def new_ratio(settings: Settings, seed: int) -> NetworkRatio:
    """Return the ratio, the same for x and z, not yet fitted."""
    return NetworkRatio(
        "cnn",
        hidden=(settings.filters,) * 4,
        max_epochs=settings.ratio_epochs,
        batch_size=64,
        learning_rate=settings.rate,
        l2_penalty=0.0 if settings.plain else None,
        patience=settings.ratio_epochs if settings.plain else None,
        random_state=seed,
    )


def log_ratios(
    settings: Settings, real: np.ndarray, generated: np.ndarray, source: np.ndarray, seed: int
) -> dict[str, np.ndarray]:
    """Return log r of `real` and generated (`made`) rows, each by a CNN fitted to rows of other sources.

    A random tenth of the rows of a CNN decides when it stops. Some of these rows share a source with rows that it is
    fitted to, so it may stop late. The rows that it weights have other sources, so they have no advantage from it.

    Parameters
    ----------
    settings
        Settings of the ratio and the folds.
    real, generated
        Rows of x or z, of shapes (n, 784) and (m, 784).
    source
        Position of the real row that each was generated from, of shape (m,).
    seed
        Seed of the ratio.
    """
    if settings.folds == 1:
        ratio = new_ratio(settings, seed).fit_samples(real, generated)
        return {"real": ratio.log_ratio(real), "made": ratio.log_ratio(generated)}
    fold = np.arange(len(real)) % TRAINING % settings.folds  # the same number of each character
    log_p, log_q = np.empty(len(real)), np.empty(len(generated))
    for k in range(settings.folds):
        in_p, in_q = fold == k, fold[source] == k
        ratio = new_ratio(settings, seed).fit_samples(real[~in_p], generated[~in_q])
        log_p[in_p], log_q[in_q] = ratio.log_ratio(real[in_p]), ratio.log_ratio(generated[in_q])
    return {"real": log_p, "made": log_q}


def first_of_each(source: np.ndarray) -> np.ndarray:
    """Return the position of the first generated row of each real one, (m,) to (n,)."""
    return np.unique(source, return_index=True)[1]


def of_ratio(log_p: np.ndarray, log_q: np.ndarray, recognized: Sequence[int]) -> dict[str, Any]:
    """Return how well a ratio distinguishes real and generated rows, and the effective sample size of its weights.

    Parameters
    ----------
    log_p, log_q
        Log-ratios of real rows and of generated ones, in the order of their sources, of shapes (n,) and (m,).
    recognized
        1 where a classifier of real rows predicts the class of the first row generated from each, of shape (n,).
    """
    return {
        "auc": _auc(np.repeat([1, 0], [len(log_p), len(log_q)]), np.concatenate([log_p, log_q])),
        "auc_recognized": _auc(recognized, log_q.reshape(len(recognized), -1)[:, 0]),
        "mean_real": float(log_p.mean()),
        "mean_made": float(log_q.mean()),
        "effective": {f"{g:g}": effective_sample_size(temper(log_q, g)) / len(log_q) for g in GAMMAS["z"]},
    }


def _auc(is_one: Sequence[int] | np.ndarray, values: np.ndarray) -> float | None:
    """Return the share of pairs in which class 1 has the larger value. None if a class is missing."""
    return float(roc_auc_score(is_one, values)) if len(np.unique(is_one)) == 2 else None


def weights_by_setting(log_r: dict[str, np.ndarray]) -> dict[str, np.ndarray | None]:
    """Return the weights of generated rows in each setting, by name. None for weights of 1.

    Parameters
    ----------
    log_r
        Log-ratios of the generated rows in x and in z, of shape (m,) each.
    """
    weights: dict[str, np.ndarray | None] = {DATA: None, SYNTHETIC: None, MIXTURE: None}
    for space, gammas in GAMMAS.items():
        for gamma in gammas:
            log_w = temper(log_r[space], gamma)
            weights[weighted(space, gamma)] = self_normalize(log_w, total=len(log_w))
    return weights


def classifier_recipe(settings: Settings, epochs: int) -> Recipe:
    """Return the training of a classifier with this maximum number of epochs."""
    if not settings.plain:
        return Recipe(epochs, settings.batch_size, settings.rate, patience=math.ceil(epochs / 3))
    return replace(paper_recipe(epochs), batch_size=settings.batch_size, learning_rate=settings.rate, weight_decay=0.0)


def train_one(
    settings: Settings,
    name: str,
    parts: dict[str, Part],
    generated: Generated,
    weights: np.ndarray | None,
    seed: int,
) -> dict[str, Any]:
    """Train a classifier in one setting, and return its accuracies, and the right test drawings by character.

    Parameters
    ----------
    settings
        Settings of the classifier.
    name
        Name of the setting.
    parts, generated
        Real and generated drawings, from `split` and `generate`.
    weights
        Weights of generated drawings. None for 1.
    seed
        Seed of the initial weights and the order.
    """
    images, labels = parts["training"]
    synthetic = generated["images"], labels[generated["source"]]
    rows = {DATA: [parts["training"]], SYNTHETIC: [synthetic]}.get(name, [parts["training"], synthetic])
    X, y = (np.concatenate(both) for both in zip(*rows, strict=True))
    epochs = math.ceil(settings.classifier_steps * settings.batch_size / len(X))
    generator = torch.Generator().manual_seed(seed)
    network = CNN((1, SIDE, SIDE), (settings.filters,) * 4, settings.classes, generator=generator)
    classifier = fit_classifier(
        network,
        X,
        y,
        held_out=parts["validation"],
        recipe=classifier_recipe(settings, epochs),
        seed=seed,
        weights=None if weights is None else np.concatenate([np.ones(len(images)), weights]),
    )
    right = {part: classifier.predict(parts[part][0]) == parts[part][1] for part in ("validation", "test")}
    result: dict[str, Any] = {part: float(one.mean()) for part, one in right.items()}
    result["by_character"] = np.bincount(parts["test"][1], right["test"]).astype(int).tolist()
    if name == DATA:  # generated drawings whose class it predicts
        first = first_of_each(generated["source"])
        result["recognized"] = (classifier.predict(synthetic[0][first]) == synthetic[1][first]).astype(int).tolist()
    history = classifier.history
    return {**result, "loss": min(history.held_out_loss), "best_epoch": history.best_epoch}
