r"""The stages of an experiment on augmentation: generated drawings, ratios of x and of z, weights, classifiers.

r = p/q, with p the real drawings (y = 1) and q the generated ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from flowratio.applications.crossfit import cross_fit
from flowratio.flows.base import new_generator
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.classifier.classifier import ClassifierRatio
from flowratio.ratios.neural.networks import CNN
from flowratio.samples.two_samples import two_samples
from flowratio.scaling.chain import ScalerChain
from flowratio.scaling.images import Dequantizer, Logit
from flowratio.scaling.standardizer import Standardizer
from flowratio.training.run import Recipe
from flowratio.weights import effective_sample_size, self_normalize, temper
from flowratio_paper.characters import TRAINING, Part
from flowratio_paper.dagan import Dagan, DaganSettings
from flowratio_paper.image_classifier import fit_classifier
from flowratio_paper.image_laws import log_densities
from flowratio_paper.images import SIDE

DATA, SYNTHETIC, MIXTURE = "data only", "synthetic only", "mixture"
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
        Characters, the first ones.
    per_class
        Generated drawings of each, a multiple of 10.
    dagan
        Of the generator.
    flow_blocks, flow_hidden, flow_epochs, flow_batch, flow_rate, flow_decay
        Of the flow; `flow_epochs` None for the 200 epochs, and the other settings, of the paper.
    filters, rate
        Of each of the four layers of a CNN, and the learning rate of its training.
    plain
        Whether CNNs are trained as the paper says, by Adam for all epochs; if not, by AdamW, the ratios with a weight
        decay of .3, and until a part of the epochs brought nothing. The rate of a plain classifier is constant, its
        gradients are not clipped and its weights not averaged.
    ratio_epochs
        Passes of a ratio over both samples, at most.
    folds
        Parts of the drawings, each weighted by a ratio that was fitted without it; 1 to fit one ratio to all.
    classifier_steps, batch_size
        Steps of a classifier, at most, and drawings of each.
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
    """Train the generator and let it make the same number of drawings from each real one.

    Returns the generated `images`, (m, 784); `source`, (m,), the position of the real drawing that each was made from;
    and `gaps`, what the critic told apart in each twentieth of the training.

    Parameters
    ----------
    settings
        Of the generator.
    training
        Real drawings and their characters.
    seed
        Of everything random.
    checkpoint
        Folder that keeps the training.
    """
    images, labels = training
    dagan = Dagan(images, labels, settings.dagan, seed=seed).train(checkpoint)
    source = np.repeat(np.arange(len(images)), settings.per_class // TRAINING)
    gaps = [part.mean() for part in np.array_split(dagan.gaps, min(20, len(dagan.gaps)))]
    return {"images": dagan.generate(images[source], seed), "source": source, "gaps": np.round(gaps, 4)}


def ratio_of_x(settings: Settings, training: Part, made: dict[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Return log r = log p/q, p the real drawings, of `real` and `made` ones, by CNNs that see pixels."""
    return log_ratios(settings, training[0], made["images"], made["source"], seed)


def ratio_of_z(
    settings: Settings, parts: dict[str, Part], made: dict[str, np.ndarray], seed: int, checkpoint: Path
) -> dict[str, np.ndarray]:
    """Return the same by CNNs that see z, and the flow's bits for each pixel of unseen real drawings and of made ones.

    Parameters
    ----------
    settings
        Of flow and ratio.
    parts
        Real drawings, as `split` gives them.
    made
        Generated ones, as `generate` gives them.
    seed
        Of everything random.
    checkpoint
        Folder that keeps the training of the flow.
    """
    pooled = _ink(np.concatenate([parts["training"][0], made["images"]]))
    flow = new_flow(settings, seed, checkpoint).fit(pooled)
    Z, n = flow.transform(pooled), len(parts["training"][0])
    found = log_ratios(settings, Z[:n], Z[n:], made["source"], seed)
    rng, first = np.random.default_rng([seed, 0, 6]), made["images"][first_of_each(made["source"])]
    for kind, images in (("real", parts["validation"][0]), ("made", first)):
        found[f"bits_{kind}"] = log_densities(flow, _ink(images), rng)["bits"].mean()
    return found


def _ink(drawings: np.ndarray) -> np.ndarray:
    """Return drawings in black and white as the flow takes them: 1 for ink, 0 for paper."""
    return (drawings // 255).astype(np.float32)


def new_flow(settings: Settings, seed: int, checkpoint: Path) -> FlowFeaturizer:
    """Return the flow, not yet fitted."""
    scaling = ScalerChain([Dequantizer(levels=2), Logit(), Standardizer()])
    if settings.flow_epochs is None:
        paper = FlowFeaturizer.from_paper("omniglot", random_state=seed)
        return paper.set_params(scaling=scaling, checkpoint=checkpoint)
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


def new_ratio(settings: Settings, seed: int) -> ClassifierRatio:
    """Return the ratio, alike for x and z, not yet fitted."""
    return ClassifierRatio(
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
    settings: Settings, real: np.ndarray, made: np.ndarray, source: np.ndarray, seed: int
) -> dict[str, np.ndarray]:
    """Return log r of `real` and `made` rows, each by a CNN that has seen neither the row nor any of its source.

    When a CNN stops, a random tenth of its own rows decides, among which are siblings of rows that it learns from: it
    may stop late. The rows that it weights are of other sources, so that this does not favour them.

    Parameters
    ----------
    settings
        Of the ratio and the folds.
    real, made
        Rows of x or z, of shapes (n, 784) and (m, 784).
    source
        Position of the real row from which each was made, of shape (m,).
    seed
        Of the ratio.
    """
    ratio = new_ratio(settings, seed)
    if settings.folds == 1:
        ratio.fit_samples(real, made)
        return {"real": ratio.log_ratio(real), "made": ratio.log_ratio(made)}
    fold = np.arange(len(real)) % TRAINING % settings.folds  # in each character as many
    scores = cross_fit(ratio, two_samples(real, made), np.concatenate([fold, fold[source]]), seed)
    return {"real": scores.p.log_r, "made": scores.q.log_r}


def first_of_each(source: np.ndarray) -> np.ndarray:
    """Return the positions of the first rows that were made from each real one, of shape (n,); `source` has (m,)."""
    return np.unique(source, return_index=True)[1]


def of_ratio(log_p: np.ndarray, log_q: np.ndarray, recognized: Sequence[int]) -> dict[str, Any]:
    """Return how far a ratio tells real rows from generated ones, and what its weights of these are worth.

    Parameters
    ----------
    log_p, log_q
        Log-ratios of real rows and of generated ones, as many from each real one in its order, of shapes (n,), (m,).
    recognized
        1 where a classifier of real rows takes the first row that was made from one for the same class, else 0, of
        shape (n,).
    """
    return {
        "auc": _auc(np.repeat([1, 0], [len(log_p), len(log_q)]), np.concatenate([log_p, log_q])),
        "auc_recognized": _auc(recognized, log_q.reshape(len(recognized), -1)[:, 0]),
        "mean_real": float(log_p.mean()),
        "mean_made": float(log_q.mean()),
        "effective": {f"{g:g}": effective_sample_size(temper(log_q, g)) / len(log_q) for g in GAMMAS["z"]},
    }


def _auc(is_one: Sequence[int] | np.ndarray, values: np.ndarray) -> float | None:
    """Return the share of pairs in which the one of class 1 has the larger value; None if a class is not there."""
    return float(roc_auc_score(is_one, values)) if len(np.unique(is_one)) == 2 else None


def weights_by_setting(log_r: dict[str, np.ndarray]) -> dict[str, np.ndarray | None]:
    """Return the weights of generated rows in each setting, by its name; None where all count 1.

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
    """Return how a classifier is trained for so many epochs at most."""
    if not settings.plain:
        return Recipe(epochs, settings.batch_size, settings.rate, patience=math.ceil(epochs / 3))
    return Recipe(
        epochs,
        settings.batch_size,
        settings.rate,
        optimizer="adam",
        schedule="constant",
        patience=epochs,
        warm_up=0,
        clip_norm=math.inf,
        average=False,
    )


def train_one(
    settings: Settings,
    name: str,
    parts: dict[str, Part],
    made: dict[str, np.ndarray],
    weights: np.ndarray | None,
    seed: int,
) -> dict[str, Any]:
    """Train a classifier in one setting, and return its accuracies, and how many test drawings of each are right.

    Parameters
    ----------
    settings
        Of the classifier.
    name
        Of the setting.
    parts, made
        Real and generated drawings, as `split` and `generate` give them.
    weights
        Of generated ones; None for 1.
    seed
        Of first weights and order.
    """
    images, labels = parts["training"]
    of_made = made["images"], labels[made["source"]]
    rows = {DATA: [parts["training"]], SYNTHETIC: [of_made]}.get(name, [parts["training"], of_made])
    X, y = (np.concatenate(both) for both in zip(*rows, strict=True))
    epochs = math.ceil(settings.classifier_steps * settings.batch_size / len(X))
    generator = new_generator().manual_seed(seed)
    network = CNN((1, SIDE, SIDE), (settings.filters,) * 4, settings.classes, generator=generator)
    found = fit_classifier(
        network,
        X,
        y,
        held_out=parts["validation"],
        recipe=classifier_recipe(settings, epochs),
        seed=seed,
        weights=None if weights is None else np.concatenate([np.ones(len(images)), weights]),
    )
    right = {part: found.predict(parts[part][0]) == parts[part][1] for part in ("validation", "test")}
    result: dict[str, Any] = {part: float(one.mean()) for part, one in right.items()}
    result["by_character"] = np.bincount(parts["test"][1], right["test"]).astype(int).tolist()
    if name == DATA:  # which generated drawings it takes for what they were made from
        first = first_of_each(made["source"])
        result["recognized"] = (found.predict(of_made[0][first]) == of_made[1][first]).astype(int).tolist()
    return {**result, "loss": min(found.history.held_out_loss), "best_epoch": found.history.best_epoch}
