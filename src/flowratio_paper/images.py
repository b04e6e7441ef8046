"""Images of handwritten digits, read from the files in which they are published, and sheets of images."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from flowratio_paper.data import find

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIDE = 28  # pixels
PIXELS = SIDE * SIDE
_FILES = {"train": "train", "test": "t10k"}
_DPI = 110  # at which experiments save their figures


def mnist(part: Literal["train", "test"]) -> tuple[np.ndarray, np.ndarray]:
    """Return the digits of MNIST, 0 for paper and 255 for ink, uint8 of shape (n, 784), and labels, of shape (n,).

    Parameters
    ----------
    part
        `"train"` for 60 000 of them, `"test"` for 10 000.
    """
    if part not in _FILES:
        raise ValueError(f"`part` is {part!r}: give 'train' or 'test'.")
    paths = [find(f"mnist/{_FILES[part]}-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1")]
    images, labels = (read_idx(path) for path in paths)
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise ValueError(
            f"{paths[0]} has images of shape {images.shape}, and {paths[1]} labels of shape {labels.shape}: there must "
            "be a label for each image. Put the right files in their place."
        )
    return flat(images, str(paths[0])), labels.astype(int)


def read_idx(path: Path) -> np.ndarray:
    """Return the array of an IDX file of bytes, under gzip: four bytes of kind, sizes of the axes, values.

    Parameters
    ----------
    path
        Of the file.
    """
    try:
        content = gzip.decompress(path.read_bytes())
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is no gzip file, or is damaged ({error}): put the right one in its place.") from error
    n_axes = content[3] if content[:3] == b"\0\0\x08" and len(content) > 3 else 0  # 8 is the kind of bytes
    shape = tuple(np.frombuffer(content, ">u4", n_axes, 4).tolist()) if len(content) >= 4 + 4 * n_axes else ()
    values = content[4 + 4 * n_axes :]
    if not n_axes or not shape or len(values) != math.prod(shape):
        raise ValueError(
            f"{path} is no IDX file of bytes, or is damaged: it has {len(values)} values for an array of shape "
            f"{shape}. Put the right one in its place."
        )
    return np.frombuffer(values, np.uint8).reshape(shape)


def flat(images: Any, name: str = "`images`") -> np.ndarray:
    """Return images of 28 × 28 pixels as rows, (n, 28, 28) or (n, 784) to (n, 784).

    Parameters
    ----------
    images
        Of whole numbers from 0 to 255.
    name
        What an error calls them.
    """
    images = np.asarray(images)
    if images.shape[1:] not in ((SIDE, SIDE), (PIXELS,)):
        raise ValueError(
            f"{name} has shape {images.shape}: images must be of {SIDE} × {SIDE} pixels, (n, {SIDE}, {SIDE}) or "
            f"(n, {PIXELS}). Scale them to this size."
        )
    if images.dtype != np.uint8:
        raise ValueError(
            f"{name} has values of type {images.dtype}: pixels must be bytes, from 0 to 255. Scale them to that range "
            "and give `images.astype(np.uint8)`."
        )
    return images.reshape(len(images), PIXELS)


def tiled(images: Any) -> np.ndarray:
    """Return 100 images side by side as one, (100, 784) to (289, 289): ten by ten with a grey line between.

    Parameters
    ----------
    images
        Bytes, 100 rows.
    """
    images = flat(images)
    if len(images) != 100:
        raise ValueError(f"`images` has {len(images)} rows: a sheet is of 100, ten by ten.")
    step = SIDE + 1
    page = np.full((10 * step - 1, 10 * step - 1), 128, np.uint8)
    for k, image in enumerate(images):
        top, left = step * (k // 10), step * (k % 10)
        page[top : top + SIDE, left : left + SIDE] = image.reshape(SIDE, SIDE)
    return page


def sheets(images: dict[str, Any], title: str = "") -> Figure:
    """Draw sheets of 100 images side by side, a dot for each pixel, in eight greys: files stay small.

    Parameters
    ----------
    images
        By what is written above each sheet: bytes of shape (100, 784).
    title
        Of all of it.
    """
    from matplotlib.figure import Figure

    pages = {name: tiled(some) for name, some in images.items()}
    size, gap, head = 10 * (SIDE + 1) - 1, 12, 24 + 18 * bool(title)
    width, height = len(pages) * (size + gap) + gap, size + head + gap
    figure = Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI)
    for k, (name, page) in enumerate(pages.items()):
        axes = figure.add_axes(((gap + k * (size + gap)) / width, gap / height, size / width, size / height))
        axes.imshow(page >> 5, cmap="gray", vmin=0, vmax=7, interpolation="nearest")
        axes.set_title(name, fontsize=9, pad=4)
        axes.axis("off")
    if title:
        figure.text(0.5, 1 - 4 / height, title, ha="center", va="top", fontsize=10)
    return figure
