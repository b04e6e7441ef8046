r"""One cell of targeted generation: a flow of p and q, ratios of z and of x, and images drawn toward q.

Of N candidates that the flow draws, n are drawn by the weights q/h, h the mixture that the flow has learned. A ratio of
z weights candidates as they are, and only the chosen are decoded; for a ratio of x all are. A ratio of q to what the
flow draws, in z, weights candidates by what they are, and not by what they would be if the flow were perfect.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from flowratio._support.atomic import replacing
from flowratio.applications.generation import TargetedSample, TargetedSampler
from flowratio.flows import MAF
from flowratio.flows.base import new_generator
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.classifier.classifier import ClassifierRatio
from flowratio_paper.against_draws import fit_against_draws
from flowratio_paper.image_classifier import ImageClassifier
from flowratio_paper.image_laws import (
    TASKS,
    attribute_classifier,
    check_perc,
    laws,
    log_densities,
    strange,
    two_samples,
)
from flowratio_paper.images import SIDE, mnist
from flowratio_paper.running import Task, commit
from flowratio_paper.stages import Stages

PERCS = (0.1, 0.25, 0.5, 1.0)
PARTS: tuple[Literal["train", "test"], ...] = ("train", "test")
SHEET = 100  # images of the first run that are kept


@dataclass(frozen=True)
class Settings:
    """Sizes of the experiment.

    Parameters
    ----------
    seeds
        Runs.
    percs
        Images of q for each image of p, above 0 and at most 1.
    rows
        Images of p at most; None for all.
    steps
        Of the training of the flow; None for the flow, the epochs and the settings of the paper.
    n_blocks, hidden, batch_size, learning_rate, weight_decay
        Of the flow and its training; the paper's if `steps` is None.
    ratio_epochs
        Passes of the ratios of x and z over pairs of images of p and q, a multiple of `noises`.
    noises
        Draws of the noise for each image of p, and as many codes of q, that a ratio of z is fitted to: so many of its
        passes differ.
    draws_epochs
        Passes of the ratio to what the flow draws, a multiple of `noises`.
    samples
        Images that each method draws.
    candidates_z, candidates_x
        Candidates for each of these.
    attribute_rows, attribute_epochs
        Images of p that the classifier of the attribute learns from, at most, and passes over them.
    test_rows
        Test images of p, and of q, on which flow and ratio are scored; None for all.
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
                raise ValueError(f"`{name}` is {epochs}: it must be a multiple of `noises`, which is {self.noises}.")


def run_cell(settings: Settings, task: Task, keep: Path) -> dict[str, Any]:
    """Train a flow and its ratios, draw images by each method, and return the shares of the target."""
    about = {key: value for key, value in asdict(settings).items() if key not in ("seeds", "percs")}
    name = f"{task['task']}-{task['perc']:g}"
    stages = Stages(keep / f"{name}-{task['seed']}", {**about, **task, "commit": commit()})
    flow = stages.folder / "flow"
    result = stages.numbers("result", lambda: _cell(settings, task, flow, keep / f"{name}.npz"))
    shutil.rmtree(flow, ignore_errors=True)  # hundreds of megabytes, of no more use
    return result


def _cell(settings: Settings, task: Task, checkpoint: Path, sheets: Path) -> dict[str, Any]:
    seed, perc = task["seed"], task["perc"]
    rng, (all_train, all_test) = np.random.default_rng([seed, 8]), (laws(task["task"], *mnist(part)) for part in PARTS)
    train = [X.astype(np.float32) for X in two_samples(*all_train, perc, settings.rows, rng)]
    test = [X.astype(np.float32) for X in two_samples(*all_test, 1.0, settings.test_rows, rng)]
    featurizer = new_flow(settings, sum(map(len, train)), seed, checkpoint).fit(np.concatenate(train))
    codes = [encoded(featurizer, X, settings.noises * max(map(len, train)), rng) for X in train]
    test_latents = [featurizer.encode(X, rng) for X in test]
    ratios = {
        "z": new_ratio(settings.ratio_epochs // settings.noises, seed).fit_samples(*map(np.concatenate, codes)),
        "x": new_ratio(settings.ratio_epochs, seed).fit_samples(*train),
        "draws": fit_against_draws(codes[0], codes[1], settings.draws_epochs // settings.noises, seed),
    }
    drawn, seconds = draw_images(settings, featurizer, ratios, len(train[0]) / sum(map(len, train)), seed)
    classifier, accuracy = _of_attribute(task["task"], settings.attribute_rows, settings.attribute_epochs)
    if seed == 0:
        _write_sheets(sheets, drawn)
    return {
        "rows": [len(X) for X in train],
        "accuracy": accuracy,
        "flow": _of_flow(featurizer, test, perc, rng),
        "ratio": {
            "z": _of_ratio(ratios["z"], *test_latents),
            "x": _of_ratio(ratios["x"], *test),
            "draws": _of_ratio(ratios["draws"], test_latents[1], rng.standard_normal(test_latents[1].shape)),
        },
        "methods": {one: {**_of_drawn(drawn[one], classifier, all_train), "seconds": seconds[one]} for one in drawn},
    }


def encoded(featurizer: FlowFeaturizer, images: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return about n codes of images, each with noise of its own: (m, 784) to (k, m, 784).

    Parameters
    ----------
    featurizer
        The flow, fitted.
    images
        Bytes, of shape (m, 784).
    n
        How many codes, in whole draws of the noise for all images.
    rng
        Of the noise.
    """
    return np.array([featurizer.encode(images, rng).astype(np.float32) for _ in range(round(n / len(images)))])


@lru_cache(maxsize=len(TASKS))
def _of_attribute(task: str, rows: int | None, epochs: int) -> tuple[ImageClassifier, float]:
    """Return the classifier of a task and its accuracy, which are the same in every run: it is trained once."""
    train, test = (laws(task, *mnist(part)) for part in PARTS)
    return attribute_classifier(train, test, rows, epochs)


def new_flow(settings: Settings, n: int, seed: int, checkpoint: Path) -> FlowFeaturizer:
    """Return the flow for n images, not yet fitted.

    Parameters
    ----------
    settings
        Of the flow.
    n
        Images, of which a tenth is held out.
    seed
        Of the flow.
    checkpoint
        Folder that keeps its training.
    """
    if settings.steps is None:
        return FlowFeaturizer.from_paper("mnist", random_state=seed).set_params(checkpoint=checkpoint)
    return FlowFeaturizer(
        lambda d: MAF(
            d,
            n_blocks=settings.n_blocks,
            hidden=settings.hidden,
            batch_norm=True,
            generator=new_generator().manual_seed(seed),
        ),
        scaling="image",
        max_epochs=max(1, round(settings.steps * settings.batch_size / (0.9 * n))),
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        random_state=seed,
        checkpoint=checkpoint,
    )


def new_ratio(epochs: int, seed: int) -> ClassifierRatio:
    """Return the ratio of the paper, alike for x and z, not yet fitted.

    All pixels have one mean and one scale: by its own, a pixel that is dark in all images but a few would come as
    hundreds of standard deviations from an image of the flow in which it is not.
    """
    return ClassifierRatio(
        "mlp",
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
    """Draw images toward q, by each of the ratios, and from the flow as it is; and say how long each took.

    Parameters
    ----------
    settings
        Numbers of images and candidates.
    featurizer
        The flow of both laws, fitted.
    ratios
        p/q of `"z"` and of `"x"`, and q to the flow's `"draws"`, in z, fitted.
    proportion
        Share of p in the images that the flow has learned.
    seed
        Of the draws.
    """

    def of(ratio: Any, share: float, space: Literal["z", "x"], n: int) -> TargetedSampler:
        return TargetedSampler(ratio, featurizer, space=space, proportion=share, n_candidates=n, random_state=seed)

    of_z = of(ratios["z"], proportion, "z", settings.candidates_z)
    to_draws = of(ratios["draws"], 0.0, "z", settings.candidates_z)
    of_x = of(ratios["x"], proportion, "x", settings.candidates_x)
    draws: dict[str, tuple[TargetedSampler, Literal["p", "q"] | None]]
    draws = {"z": (of_z, "q"), "draws": (to_draws, "p"), "x": (of_x, "q"), "regular": (of_z, None)}
    drawn, seconds = dict[str, TargetedSample](), dict[str, float]()
    for method, (sampler, toward) in draws.items():
        started = time.perf_counter()
        drawn[method] = sampler.draw(settings.samples, toward)
        seconds[method] = round(time.perf_counter() - started, 3)
    return drawn, seconds


def _of_drawn(
    drawn: TargetedSample, classifier: ImageClassifier, of_laws: Sequence[np.ndarray]
) -> dict[str, float | str]:
    is_target, is_strange = classifier.predict(drawn.X) == 1, strange(drawn.X, *of_laws)
    return {
        "share": float(np.mean(is_target)),
        "strange": float(np.mean(is_strange)),
        "strange_target": float(np.mean(is_strange & is_target)),
        "effective": drawn.effective_sample_size / len(drawn.log_w),
        "candidates": len(drawn.log_w),
        "unique": drawn.unique_share,
        "k_hat": drawn.k_hat if math.isfinite(drawn.k_hat) else str(drawn.k_hat),  # which JSON does not know
    }


def _of_ratio(ratio: Any, of_p: np.ndarray, of_q: np.ndarray) -> dict[str, float]:
    """Return loss and accuracy on unseen rows of numerator and denominator, each sample counting one half."""
    log_p, log_q = ratio.log_ratio(of_p), ratio.log_ratio(of_q)
    losses, right = (np.logaddexp(0, -log_p), np.logaddexp(0, log_q)), (log_p > 0, log_q < 0)
    return {
        "loss": float(np.mean([one.mean() for one in losses])),
        "accuracy": float(np.mean([one.mean() for one in right])),
    }


def _of_flow(
    featurizer: FlowFeaturizer, test: Sequence[np.ndarray], perc: float, rng: np.random.Generator
) -> dict[str, Any]:
    """Return the mean log-density of test images, mixed as the flow has learned them, and how long it learned."""
    p, q = (log_densities(featurizer, X, rng) for X in test)
    mean = {name: float((p[name].mean() + perc * q[name].mean()) / (1 + perc)) for name in p}
    history: Any = featurizer.history_
    return {**mean, "epochs": history.epoch[-1], "best_epoch": history.best_epoch, "seconds": history.seconds[-1]}


def _write_sheets(path: Path, drawn: dict[str, TargetedSample]) -> None:
    with replacing(path) as temporary:
        kept: dict[str, Any] = {name: one.X[:SHEET].astype(np.uint8) for name, one in drawn.items()}
        np.savez_compressed(temporary, **kept)
