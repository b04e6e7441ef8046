"""Drawings of Omniglot's characters, read from a file, and their split into training, validation and test."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from flowratio.experiments.images import PIXELS, flat

TRAINING, VALIDATION, TEST = 10, 5, 5  # drawings of each character
Part = tuple[np.ndarray, np.ndarray]  # drawings, of shape (n, 784), and their characters, of shape (n,)


def read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return drawings, bytes of shape (n, 784), 0 for paper and 255 for ink, and characters, of shape (n,).

    Parameters
    ----------
    path
        Of a file of NumPy with the arrays `images` and `label`.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            images, labels = arrays["images"], arrays["label"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} is no file of drawings, or is damaged ({error}): it must be an .npz file with the arrays `images` "
            "and `label`. Put the right one in its place."
        ) from error
    if labels.shape != images.shape[:1]:
        raise ValueError(f"{path} has images of shape {images.shape} and labels of shape {labels.shape}: give a pair.")
    return flat(images, str(path)), labels.astype(int)


def grouped(images: Any, labels: Any, classes: int) -> np.ndarray:
    """Return the first 20 drawings of the first characters, in their order, of shape (classes, 20, 784).

    Parameters
    ----------
    images, labels
        Bytes of shape (n, 784) or (n, 28, 28), and characters from 0 on, of shape (n,).
    classes
        How many characters.
    """
    images, labels = flat(images), np.asarray(labels)
    needed = TRAINING + VALIDATION + TEST
    found = [np.flatnonzero(labels == label)[:needed] for label in range(classes)]
    for label, positions in enumerate(found):
        if len(positions) < needed:
            raise ValueError(
                f"Class {label} of {classes} has {len(positions)} drawings: the split takes {needed} of each, "
                f"{TRAINING} for training, {VALIDATION} for validation and {TEST} for the test. Give more drawings, or "
                "fewer classes."
            )
    return images[np.array(found)]


def split(drawings: np.ndarray) -> dict[str, Part]:
    """Return drawings and characters for training, validation and test: (k, 20, 784) to three pairs of arrays."""
    ends = {"training": (0, TRAINING), "validation": (TRAINING, -TEST), "test": (-TEST, None)}
    parts = {name: drawings[:, slice(*between)] for name, between in ends.items()}
    labels = np.arange(len(drawings))
    return {name: (part.reshape(-1, PIXELS), np.repeat(labels, part.shape[1])) for name, part in parts.items()}
