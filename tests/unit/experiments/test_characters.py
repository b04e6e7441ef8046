from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flowratio.experiments.characters import grouped, read, split

# 3 characters of 22 drawings each, in turn; the first two pixels tell which
LABELS = np.tile(np.arange(3), 22)
IMAGES = np.zeros((66, 28, 28), np.uint8)
IMAGES[:, 0, 0], IMAGES[:, 0, 1] = LABELS, np.repeat(np.arange(22), 3)


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "some.npz"
    np.savez(path, images=IMAGES, label=LABELS.astype(np.uint16))
    images, labels = read(path)
    assert images.shape == (66, 784)
    assert images.dtype == np.uint8
    assert np.array_equal(labels, LABELS)


def test_damaged_and_other_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "some.npz"
    np.savez(path, images=IMAGES, label=LABELS)
    content = path.read_bytes()
    np.savez(path, images=IMAGES)
    with pytest.raises(ValueError, match=r"some.npz is no file of drawings, or is damaged .*label"):
        read(path)
    for damaged in (content[:-100], b"", b"no archive"):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"some.npz is no file of drawings, or is damaged"):
            read(path)
    np.savez(path, images=np.array([None, IMAGES], object), label=LABELS)  # a pickle, which is not loaded
    with pytest.raises(ValueError, match=r"is no file of drawings, or is damaged .*allow_pickle"):
        read(path)


def test_drawings_of_another_size_and_without_labels_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "some.npz"
    np.savez(path, images=np.zeros((66, 105, 105), np.uint8), label=LABELS)
    with pytest.raises(ValueError, match=r"some.npz has shape \(66, 105, 105\): images must be of 28 × 28 pixels"):
        read(path)
    np.savez(path, images=IMAGES, label=LABELS[:-1])
    with pytest.raises(ValueError, match=r"images of shape \(66, 28, 28\) and labels of shape \(65,\)"):
        read(path)


def test_drawings_are_grouped_in_their_order() -> None:
    drawings = grouped(IMAGES, LABELS, 2)
    assert drawings.shape == (2, 20, 784)
    assert np.array_equal(drawings[:, :, 0], np.repeat([[0], [1]], 20, axis=1))
    assert np.array_equal(drawings[:, :, 1], [np.arange(20)] * 2)


def test_the_split_is_10_5_and_5() -> None:
    parts = split(grouped(IMAGES, LABELS, 3))
    expected = {"training": np.arange(10), "validation": np.arange(10, 15), "test": np.arange(15, 20)}
    assert parts.keys() == expected.keys()
    for name, (images, labels) in parts.items():
        assert np.array_equal(images[:, 0], labels)
        assert np.array_equal(labels, np.repeat(np.arange(3), len(expected[name])))
        assert np.array_equal(images[:, 1], np.tile(expected[name], 3))


def test_a_class_of_too_few_drawings_is_named() -> None:
    labels = LABELS.copy()
    labels[np.flatnonzero(labels == 1)[:3]] = 0
    with pytest.raises(ValueError, match="Class 1 of 3 has 19 drawings: the split takes 20 of each"):
        grouped(IMAGES, labels, 3)
    with pytest.raises(ValueError, match=r"Class 3 of 4 has 0 drawings.*Give more drawings, or fewer classes"):
        grouped(IMAGES, LABELS, 4)
