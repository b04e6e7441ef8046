"""The published files of handwritten digits, and sheets of images."""

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
_DPI = 110  # of sheets: a dot of the figure for each pixel of an image


def mnist(part: Literal["train", "test"]) -> tuple[np.ndarray, np.ndarray]:
    """Return the digits of MNIST, 0 for paper and 255 for ink, uint8 of shape (n, 784), and labels, of shape (n,).

    Parameters
    ----------
    part
        `"train"` for 60 000 of them, `"test"` for 10 000.
    """
    if part not in _FILES:
        raise ValueError(f"`part` is {part!r}. Use 'train' or 'test'.")
    paths = [find(f"mnist/{_FILES[part]}-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1")]
    images, labels = (read_idx(path) for path in paths)
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise ValueError(
            f"{paths[0]} has images of shape {images.shape}, but {paths[1]} has labels of shape {labels.shape}. There "
            "must be one label for each image. Replace both by the published files."
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
        raise ValueError(f"{path} is not a gzip file, or is damaged ({error}). Replace it.") from error
    n_axes = content[3] if content[:3] == b"\0\0\x08" and len(content) > 3 else 0  # 8 is the kind of bytes
    shape = tuple(np.frombuffer(content, ">u4", n_axes, 4).tolist()) if len(content) >= 4 + 4 * n_axes else ()
    values = content[4 + 4 * n_axes :]
    if not n_axes or not shape or len(values) != math.prod(shape):
        raise ValueError(
            f"{path} is not an IDX file of bytes, or is damaged. It has {len(values)} values for an array of shape "
            f"{shape}. Replace it."
        )
    return np.frombuffer(values, np.uint8).reshape(shape)


def flat(images: Any, name: str = "`images`") -> np.ndarray:
    """Return images of 28 × 28 pixels as rows, (n, 28, 28) or (n, 784) to (n, 784).

    Parameters
    ----------
    images
        Integers from 0 to 255, of type uint8.
    name
        Their name in an error.
    """
    images = np.asarray(images)
    if images.shape[1:] not in ((SIDE, SIDE), (PIXELS,)):
        raise ValueError(
            f"{name} has the shape {images.shape}. Use images of {SIDE} × {SIDE} pixels, of shape (n, {SIDE}, {SIDE}) "
            f"or (n, {PIXELS})."
        )
    if images.dtype != np.uint8:
        raise ValueError(
            f"{name} has values of type {images.dtype}. Use bytes from 0 to 255: scale the pixels to that range and "
            "pass `images.astype(np.uint8)`."
        )
    return images.reshape(len(images), PIXELS)


def tiled(images: Any) -> np.ndarray:
    """Return one image of 10 × 10 images with gray lines between them, (100, 784) to (289, 289).

    Parameters
    ----------
    images
        Bytes, 100 rows.
    """
    images = flat(images)
    if len(images) != 100:
        raise ValueError(f"`images` has {len(images)} rows. A sheet has 100 images.")
    step = SIDE + 1
    page = np.full((10 * step - 1, 10 * step - 1), 128, np.uint8)
    for k, image in enumerate(images):
        top, left = step * (k // 10), step * (k % 10)
        page[top : top + SIDE, left : left + SIDE] = image.reshape(SIDE, SIDE)
    return page


def sheets(images: dict[str, Any], title: str = "") -> Figure:
    """Draw sheets of 100 images side by side, a dot for each pixel, in eight grays for small files.

    Parameters
    ----------
    images
        By the title of each sheet: bytes of shape (100, 784).
    title
        Title of the figure.
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
