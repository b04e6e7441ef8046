"""Drawings of Omniglot's characters: the file that the experiment reads, and its split.

The drawings are published at https://github.com/brendenlake/omniglot, as python/images_background.zip and
python/images_evaluation.zip. Unzip both into one folder, then run
`python -m flowratio_paper.characters FOLDER OUT.npz` to write the file.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flowratio_paper.data import arrays_of
from flowratio_paper.images import PIXELS, SIDE, flat
from flowratio_paper.stages import replacing

PARTS = ("images_background", "images_evaluation")
PUBLISHED_SIDE = 105  # pixels
TRAINING, VALIDATION, TEST = 10, 5, 5  # drawings of each character
DRAWINGS = TRAINING + VALIDATION + TEST
_INK = 64  # a quarter of a pixel: thin strokes stay whole
Part = tuple[np.ndarray, np.ndarray]  # drawings, of shape (n, 784), and their characters, of shape (n,)


def build(folder: Path, out: Path) -> int:
    """Write the file of drawings from the published ones, and return the number of characters.

    The alphabets of the background come first, then those of the evaluation. Alphabets, characters and drawers are in
    the order of their names. Ink is 255 and paper 0. Each of 28 × 28 pixels is the mean of those centered in it.

    Parameters
    ----------
    folder
        Has the folders `images_background` and `images_evaluation`, of ALPHABET/CHARACTER/NNNN_DD.png.
    out
        The file, with the arrays `images`, bytes of shape (n, 28, 28), and `label`, of shape (n,).
    """
    characters = [character for part in PARTS for alphabet in _within(folder / part) for character in _within(alphabet)]
    paths = [path for character in characters for path in _drawings(character)]
    images = np.array([_scaled_down(path) for path in paths])
    labels = np.repeat(np.arange(len(characters), dtype=np.uint16), DRAWINGS)
    out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(out) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, images=images, label=labels)
    return len(characters)


def _within(folder: Path) -> list[Path]:
    """Return the folders in a folder, in the order of their names."""
    folders = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    if not folders:
        raise ValueError(
            f"{folder} is not a folder of folders. Unzip {' and '.join(f'{part}.zip' for part in PARTS)} of "
            "https://github.com/brendenlake/omniglot (python/) into one folder, and use that folder."
        )
    return folders


def _drawings(character: Path) -> list[Path]:
    """Return the drawings of a character by drawer, from 1 to 20."""
    paths = sorted(character.glob("[0-9]*.png"))
    drawers = [path.stem.rpartition("_")[2] for path in paths]
    if drawers != [f"{drawer:02}" for drawer in range(1, DRAWINGS + 1)]:
        raise ValueError(
            f"{character} has {len(paths)} drawings, of the drawers {', '.join(drawers)}. There must be {DRAWINGS}, "
            f"NNNN_01.png to NNNN_{DRAWINGS}.png. Unzip them again."
        )
    return paths


def _scaled_down(path: Path) -> np.ndarray:
    """Return a published drawing, black on white, as ink of 255 on paper of 0, of shape (28, 28)."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("Pillow, which reads the drawings, is missing. Run `pip install pillow`.") from error
    try:
        with Image.open(path) as image:
            gray = np.asarray(image.convert("L"))
    except (OSError, SyntaxError) as error:  # what Pillow raises for a damaged PNG
        raise ValueError(f"{path} is not an image, or is damaged ({error}). Unzip it again.") from error
    if gray.shape != (PUBLISHED_SIDE, PUBLISHED_SIDE):
        raise ValueError(
            f"{path} has {gray.shape[1]} × {gray.shape[0]} pixels. The published drawings have "
            f"{PUBLISHED_SIDE} × {PUBLISHED_SIDE}. Unzip it again."
        )
    return np.asarray(Image.fromarray(255 - gray).resize((SIDE, SIDE), Image.Resampling.BOX))


def read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return drawings, bytes of shape (n, 784), 0 for paper and 255 for ink, and characters, of shape (n,).

    Parameters
    ----------
    path
        An NPZ file with the arrays `images` and `label`.
    """
    try:
        with path.open("rb") as file:
            images, labels = arrays_of(file, ("images", "label")).values()
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{path} is not a file of drawings, or is damaged ({error}). Use an .npz file with the arrays `images` and "
            "`label`."
        ) from error
    if labels.shape != images.shape[:1]:
        raise ValueError(
            f"{path} has images of shape {images.shape} but labels of shape {labels.shape}. Use one for each image."
        )
    return flat(images, str(path)), labels.astype(int)


def grouped(images: Any, labels: Any, classes: int) -> np.ndarray:
    """Return the first 20 drawings of the first characters, in their order, of shape (classes, 20, 784).

    Parameters
    ----------
    images, labels
        Bytes of shape (n, 784) or (n, 28, 28), and characters from 0 on, of shape (n,).
    classes
        Number of characters.
    """
    images, labels = flat(images), np.asarray(labels)
    by_label = [np.flatnonzero(labels == label)[:DRAWINGS] for label in range(classes)]
    for label, positions in enumerate(by_label):
        if len(positions) < DRAWINGS:
            raise ValueError(
                f"Class {label} of {classes} has {len(positions)} drawings. The split needs {DRAWINGS} of each class, "
                f"{TRAINING} for training, {VALIDATION} for validation and {TEST} for the test. Use fewer classes."
            )
    return images[np.array(by_label)]


def black_and_white(images: np.ndarray) -> np.ndarray:
    """Return drawings with only ink, 255, and paper, 0, like the published ones: bytes of any shape to the same.

    A published drawing has no gray. Scaling it down gives some gray values far more often than others. An image that
    was bent has other gray values, so these alone would show which image was generated.

    Examples
    --------
    >>> black_and_white(np.array([0, 48, 64, 255], np.uint8)).tolist()
    [0, 0, 255, 255]
    """
    return np.where(images >= _INK, 255, 0).astype(np.uint8)


def split(drawings: np.ndarray) -> dict[str, Part]:
    """Return drawings and characters for training, validation and test: (k, 20, 784) to three pairs of arrays."""
    ends = {"training": (0, TRAINING), "validation": (TRAINING, -TEST), "test": (-TEST, None)}
    parts = {name: drawings[:, slice(*between)] for name, between in ends.items()}
    labels = np.arange(len(drawings))
    return {name: (part.reshape(-1, PIXELS), np.repeat(labels, part.shape[1])) for name, part in parts.items()}


def main(words: Sequence[str] | None = None) -> None:
    """Write the file of drawings from the command line.

    Parameters
    ----------
    words
        Its arguments. None for those of this process.
    """
    parser = argparse.ArgumentParser(
        prog="python -m flowratio_paper.characters", description="Write the file of Omniglot's drawings."
    )
    parser.add_argument("folder", metavar="FOLDER", type=Path, help=f"has {' and '.join(PARTS)}, unzipped")
    parser.add_argument("out", metavar="OUT.npz", type=Path, help="the file to write")
    arguments = parser.parse_args(words)
    try:
        n_characters = build(arguments.folder, arguments.out)
    except (OSError, ValueError, ImportError) as error:
        parser.error(str(error))
    parser.exit(message=f"{DRAWINGS * n_characters} drawings of {n_characters} characters: {arguments.out}\n")


if __name__ == "__main__":
    main()
