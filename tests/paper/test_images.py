from __future__ import annotations

import gzip
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from flowratio_paper import data, images
from flowratio_paper.data import DataFile
from flowratio_paper.images import flat, mnist, read_idx, sheets, tiled

NAMES = ("mnist/t10k-images-idx3-ubyte.gz", "mnist/t10k-labels-idx1-ubyte.gz")


def _idx(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return gzip.compress(head + array.astype(np.uint8).tobytes(), mtime=0)


def _put(folder: Path, monkeypatch: pytest.MonkeyPatch, pictures: np.ndarray, labels: np.ndarray) -> None:
    """Put files of these arrays in place of MNIST, and let their checksums be known."""
    expected = {}
    for name, array in zip(NAMES, (pictures, labels), strict=True):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(_idx(array))
        expected[name] = DataFile(sha256((folder / name).read_bytes()).hexdigest(), "")
    monkeypatch.setenv(data.VARIABLE, str(folder))
    monkeypatch.setattr(images, "find", lambda name: data.find(name, expected))


def test_digits_and_labels_come_as_they_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (5, 28, 28))
    _put(tmp_path, monkeypatch, pictures, np.array([3, 1, 4, 1, 5]))
    actual, labels = mnist("test")
    assert actual.dtype == np.uint8
    assert actual.shape == (5, 784)
    assert (actual.reshape(5, 28, 28) == pictures).all()
    assert labels.tolist() == [3, 1, 4, 1, 5]


def test_a_damaged_file_is_refused_by_its_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(data.VARIABLE, str(tmp_path))
    (tmp_path / "mnist").mkdir()
    (tmp_path / NAMES[0]).write_bytes(_idx(np.zeros((2, 28, 28))))
    with pytest.raises(ValueError, match=f"SHA-256 .* must be {data.FILES[NAMES[0]].sha256}") as error:
        mnist("test")
    assert NAMES[0] in str(error.value)


def test_images_of_another_size_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _put(tmp_path, monkeypatch, np.zeros((5, 32, 32)), np.zeros(5))
    with pytest.raises(ValueError, match=r"idx3-ubyte.gz has the shape \(5, 32, 32\)\. Use images of 28 × 28"):
        mnist("test")


def test_every_image_needs_a_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _put(tmp_path, monkeypatch, np.zeros((5, 28, 28)), np.zeros(4))
    with pytest.raises(ValueError, match="one label for each image"):
        mnist("test")


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(ValueError, match="'train' or 'test'"):
        mnist("validation")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"no gzip", "not a gzip file"),
        (_idx(np.zeros((2, 3)))[:-9], "not a gzip file"),
        (gzip.compress(b"", mtime=0), "not an IDX file"),
        (gzip.compress(b"\0\0\x08\x02\0\0", mtime=0), "not an IDX file"),
        (gzip.compress(b"\0\0\x0d\x01\0\0\0\x01\0\0\0\0", mtime=0), "not an IDX file"),  # floats
        (gzip.compress(b"\0\0\x08\x01\0\0\0\x03ab", mtime=0), r"2 values for an array of shape \(3,\)"),
    ],
)
def test_what_is_no_idx_file_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "images.gz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=reason) as error:
        read_idx(path)
    assert str(path) in str(error.value)


def test_pixels_are_bytes() -> None:
    assert flat(np.zeros((2, 28, 28), np.uint8)).shape == (2, 784)
    with pytest.raises(ValueError, match=r"float64\. Use bytes from 0 to 255"):
        flat(np.zeros((2, 784)))


def test_a_sheet_has_the_images_row_by_row() -> None:
    pictures = np.arange(100, dtype=np.uint8)[:, None].repeat(784, axis=1)
    page = tiled(pictures)
    assert page.shape == (289, 289)
    assert page[0, 29] == 1  # the second image, behind a line
    assert page[29, 0] == 10
    assert page[288, 288] == 99
    assert page[28, 0] == page[0, 28] == 128
    with pytest.raises(ValueError, match=r"99 rows\. A sheet has 100"):
        tiled(pictures[:99])


def test_a_sheet_has_a_dot_for_each_pixel() -> None:
    pictures = np.zeros((100, 784), np.uint8)
    figure = sheets({"left": pictures, "right": pictures}, "both")
    figure.canvas.draw()
    for axes in figure.axes:
        assert axes.get_window_extent().size == pytest.approx([289, 289])
    assert [axes.get_title() for axes in figure.axes] == ["left", "right"]
