r"""One cell of targeted generation: a flow of p and q, ratios in latent space (z) and in x, and images drawn toward q.

The flow draws N candidates, and n of them are selected by the weights q/h, with h the mixture of p and q. The ratio
in latent space weights the candidates directly, and only the selected candidates are decoded. For a ratio in x all are
decoded. In two stages the ratio in latent space selects five candidates for each image, and the ratio in x weights
these. Ratios to the draws of the flow, of q in z and of both samples in x, correct for an imperfect flow: see
`flowratio.against_draws`.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from flowratio import (
    MAF,
    AgainstDraws,
    FlowFeaturizer,
    Journal,
    NetworkRatio,
    Recipe,
    TargetedSample,
    TargetedSampler,
    against_draws,
)
from flowratio_paper.image_classifier import ImageClassifier
from flowratio_paper.image_distributions import (
    TASKS,
    attribute_classifier,
    check_perc,
    distributions,
    log_densities,
    strange,
    two_samples,
)
from flowratio_paper.images import SIDE, mnist
from flowratio_paper.running import Task, commit
from flowratio_paper.settings import paper_featurizer
from flowratio_paper.stages import Workspace

PERCS = (0.1, 0.25, 0.5, 1.0)
PARTS: tuple[Literal["train", "test"], ...] = ("train", "test")
SHEET = 100  # images of the first run that are recorded
IMAGES = "images"  # their entry


@dataclass(frozen=True)
class Settings:
    """Sizes of the experiment.

    Parameters
    ----------
    seeds
        Runs.
    percs
        Images of q for each image of p, above 0 and up to 1.
    rows
        Maximum number of images of p. None for all.
    steps
        Steps of the training of the flow. None for the flow and the training of the paper.
    n_blocks, hidden, batch_size, learning_rate, weight_decay
        Settings of the flow and its training. Ignored if `steps` is None.
    ratio_epochs
        Passes of the ratios in x and z over pairs of images of p and q, a multiple of `noises`.
    noises
        Draws of the noise for each image of p, and as many codes of q, for the ratio in latent space. So many of its
        passes differ.
    draws_epochs
        Passes of the ratio to the draws of the flow, a multiple of `noises`.
    samples
        Images that each method draws.
    candidates_z, candidates_x
        Candidates for each of these images.
    attribute_rows, attribute_epochs
        Maximum number of images of p for the classifier of the attribute, and its passes over them.
    test_rows
        Test images of p, and of q, for the scores of flow and ratio. None for all.
    """

    seeds: int
    percs: tuple[float, ...] = PERCS
    rows: int | None = None
    steps: int | None = None
    n_blocks: int = 5
    hidden: tuple[int, ...] = (1024, 1024)
    batch_size: int = 100
    learning_rate: float = 1e-4
    weight_decay: float = 1e-6
    ratio_epochs: int = 10
    noises: int = 10
    draws_epochs: int = 30
    samples: int = 1000
    candidates_z: int = 100
    candidates_x: int = 100
    attribute_rows: int | None = None
    attribute_epochs: int = 10
    test_rows: int | None = None

    def __post_init__(self) -> None:
        for perc in self.percs:
            check_perc(perc)
        for name, epochs in (("ratio_epochs", self.ratio_epochs), ("draws_epochs", self.draws_epochs)):
            if epochs % self.noises:
                raise ValueError(f"`{name}` is {epochs}. Use a multiple of `noises`, which is {self.noises}.")


def folder_of(task: Task) -> str:
    """Return the name of the folder of a task."""
    return f"{task['task']}-{task['perc']:g}-{task['seed']}"


def run_cell(settings: Settings, task: Task, workspace: Workspace) -> dict[str, Any]:
    """Train a flow and its ratios, draw images by each method, and return the shares of the target."""
    about = {key: value for key, value in asdict(settings).items() if key not in ("seeds", "percs")}
    with workspace.journal(folder_of(task), {**about, **task, "commit": commit()}) as journal:
        result = journal.entry("result", lambda: _cell(settings, task, journal))
        shutil.rmtree(journal.folder / "flow", ignore_errors=True)  # hundreds of megabytes, no longer needed
    return result


def _cell(settings: Settings, task: Task, journal: Journal) -> dict[str, Any]:
    seed, perc, checkpoint = task["seed"], task["perc"], journal.folder / "flow"
    rng = np.random.default_rng([seed, 8])
    all_train, all_test = (distributions(task["task"], *mnist(part)) for part in PARTS)
    train = [X.astype(np.float32) for X in two_samples(*all_train, perc, settings.rows, rng)]
    test = [X.astype(np.float32) for X in two_samples(*all_test, 1.0, settings.test_rows, rng)]
    featurizer = new_flow(settings, sum(map(len, train)), seed, checkpoint).fit(np.concatenate(train))
    ratios = _ratios(settings, featurizer, train, rng, seed)
    test_latents = [featurizer.encode(X, rng) for X in test]
    n_mixture = len(test[0]), round(perc * len(test[1]))
    mixture = np.concatenate([X[:n] for X, n in zip(test, n_mixture, strict=True)])
    draws, seconds = draw_images(settings, featurizer, ratios, len(train[0]) / sum(map(len, train)), seed)
    classifier, accuracy = _of_attribute(task["task"], settings.attribute_rows, settings.attribute_epochs)
    if seed == 0:
        journal.write(IMAGES, None, {name: one.X[:SHEET].astype(np.uint8) for name, one in draws.items()})
    return {
        "rows": [len(X) for X in train],
        "accuracy": accuracy,
        "flow": _of_flow(featurizer, test, perc, rng),
        "ratio": {
            "z": _of_ratio(ratios["z"], *test_latents),
            "x": _of_ratio(ratios["x"], *test),
            "draws": _of_ratio(ratios["draws"], test_latents[1], rng.standard_normal(test_latents[1].shape)),
            "corrected": _of_ratio(ratios["corrected"], mixture, featurizer.sample(len(test[0]), rng)),
        },
        "methods": {one: {**_of_draw(draws[one], classifier, all_train), "seconds": seconds[one]} for one in draws},
    }


def _ratios(
    settings: Settings, featurizer: FlowFeaturizer, train: Sequence[np.ndarray], rng: np.random.Generator, seed: int
) -> dict[str, Any]:
    """Fit p/q in z and in x, q to the draws of the flow in z, and both samples to the draws in x."""
    codes = [codes_of(featurizer, X, settings.noises * max(map(len, train)), rng) for X in train]
    ratios: dict[str, Any] = {
        "z": new_ratio(settings.ratio_epochs // settings.noises, seed).fit_samples(*map(np.concatenate, codes)),
        "x": new_ratio(settings.ratio_epochs, seed).fit_samples(*train),
    }
    both, is_q = np.concatenate(train), np.repeat([0, 1], [len(X) for X in train])
    epochs = settings.draws_epochs // settings.noises
    recipe = Recipe(epochs, 64, 1e-3, optimizer="adam", patience=epochs)
    fitted = against_draws(featurizer, both, is_q, n_versions=settings.noises, recipe=recipe, random_state=seed)
    ratios["draws"] = fitted.of(1)
    in_x = new_ratio(settings.ratio_epochs, seed)
    ratios["corrected"] = against_draws(featurizer, both, ratio=in_x, space="x", random_state=seed)
    return ratios


def codes_of(featurizer: FlowFeaturizer, images: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return about n codes of images, each with its own noise: (m, 784) to (k, m, 784).

    Parameters
    ----------
    featurizer
        The flow, fitted.
    images
        Bytes, of shape (m, 784).
    n
        Number of codes, rounded to whole draws of the noise for all images.
    rng
        Generator of the noise.
    """
    return np.array([featurizer.encode(images, rng).astype(np.float32) for _ in range(round(n / len(images)))])


@lru_cache(maxsize=len(TASKS))
def _of_attribute(task: str, rows: int | None, epochs: int) -> tuple[ImageClassifier, float]:
    """Return the classifier of a task and its accuracy. It is the same in every run, and is trained once."""
    train, test = (distributions(task, *mnist(part)) for part in PARTS)
    return attribute_classifier(train, test, rows, epochs)


def new_flow(settings: Settings, n: int, seed: int, checkpoint: Path) -> FlowFeaturizer:
    """Return the flow for n images, not yet fitted.

    Parameters
    ----------
    settings
        Settings of the flow.
    n
        Number of images. A tenth of them is held out.
    seed
        Seed of the flow.
    checkpoint
        Folder that stores its training.
    """
    if settings.steps is None:
        return paper_featurizer("mnist", seed).set_params(checkpoint=checkpoint)
    return FlowFeaturizer(
        partial(MAF, n_blocks=settings.n_blocks, hidden=settings.hidden, batch_norm=True),
        scaling="image",
        max_epochs=max(1, round(settings.steps * settings.batch_size / (0.9 * n))),
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        random_state=seed,
        checkpoint=checkpoint,
    )


def new_ratio(epochs: int, seed: int) -> NetworkRatio:
    """Return the ratio of the paper, the same for x and z, not yet fitted.

    All pixels have one mean and one scale. Some pixels are dark in nearly all images. With its own scale, such a pixel
    would be hundreds of standard deviations away where an image of the flow is bright.
    """
    return NetworkRatio(
        "relu",
        hidden=(100, 100, 100),
        max_epochs=epochs,
        batch_size=64,
        learning_rate=1e-3,
        l2_penalty=0.0,
        patience=epochs,
        image_shape=(1, SIDE, SIDE),
        random_state=seed,
    )


def draw_images(
    settings: Settings, featurizer: FlowFeaturizer, ratios: Mapping[str, Any], proportion: float, seed: int
) -> tuple[dict[str, TargetedSample], dict[str, float]]:
    """Draw images toward q by each method, and from the flow alone. Return the draws, and seconds of each.

    Parameters
    ----------
    settings
        Numbers of images and candidates.
    featurizer
        The flow of p and q, fitted.
    ratios
        p/q in `"z"` and in `"x"`, q to the `"draws"` of the flow in z, and for `"corrected"` images both samples to
        the draws in x, fitted.
    proportion
        Share of p in the images that the flow was fitted to.
    seed
        Seed of the draws.
    """

    def of(ratio: Any, n: int = settings.candidates_z, **options: Any) -> TargetedSampler:
        options = {"proportion": proportion, "random_state": seed, **options}
        return TargetedSampler(ratio, featurizer, n_candidates=n, **options)

    correction: AgainstDraws = ratios["corrected"]
    samplers: dict[str, tuple[TargetedSampler, Literal["p", "q"] | None]] = {
        "z": (of(ratios["z"]), "q"),
        "draws": (of(ratios["draws"], proportion=0.0), "p"),
        "two-stage": (of(ratios["z"], refine=ratios["x"]), "q"),
        "corrected": (of(ratios["z"], refine=ratios["x"], correction=correction), "q"),
        "x": (of(ratios["x"], settings.candidates_x, space="x"), "q"),
        "regular": (of(ratios["z"]), None),
    }
    draws, seconds = dict[str, TargetedSample](), dict[str, float]()
    for method, (sampler, toward) in samplers.items():
        start = time.perf_counter()
        draws[method] = sampler.draw(settings.samples, toward)
        seconds[method] = round(time.perf_counter() - start, 3)
    return draws, seconds


def _of_draw(
    draw: TargetedSample, classifier: ImageClassifier, samples: Sequence[np.ndarray]
) -> dict[str, float | str]:
    is_target, is_strange = classifier.predict(draw.X) == 1, strange(draw.X, *samples)
    return {
        "share": float(np.mean(is_target)),
        "strange": float(np.mean(is_strange)),
        "strange_target": float(np.mean(is_strange & is_target)),
        "effective": draw.effective_sample_size / len(draw.log_w),
        "candidates": len(draw.log_w),
        "unique": draw.unique_share,
        "k_hat": draw.k_hat if math.isfinite(draw.k_hat) else str(draw.k_hat),  # JSON has no infinity
    }


def _of_ratio(ratio: Any, X_p: np.ndarray, X_q: np.ndarray) -> dict[str, float]:
    """Return loss and accuracy on test rows of numerator and denominator, each sample counting one half."""
    log_p, log_q = ratio.log_ratio(X_p), ratio.log_ratio(X_q)
    losses, is_right = (np.logaddexp(0, -log_p), np.logaddexp(0, log_q)), (log_p > 0, log_q < 0)
    return {
        "loss": float(np.mean([one.mean() for one in losses])),
        "accuracy": float(np.mean([one.mean() for one in is_right])),
    }


def _of_flow(
    featurizer: FlowFeaturizer, test: Sequence[np.ndarray], perc: float, rng: np.random.Generator
) -> dict[str, Any]:
    """Return the mean log-density of test images, in the mixture of the flow, and the cost of its training."""
    p, q = (log_densities(featurizer, X, rng) for X in test)
    mean = {name: float((p[name].mean() + perc * q[name].mean()) / (1 + perc)) for name in p}
    history: Any = featurizer.history_
    return {**mean, "epochs": history.epoch[-1], "best_epoch": history.best_epoch, "seconds": history.seconds[-1]}
