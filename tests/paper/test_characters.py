from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from flowratio_paper.characters import build, grouped, main, read, split

# 3 characters of 22 drawings each, in turn; the first two pixels show which
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
    with pytest.raises(ValueError, match=r"some.npz is not a file of drawings, or is damaged .*label"):
        read(path)
    alone = io.BytesIO()
    np.save(alone, IMAGES)
    for damaged in (content[:-100], b"", b"no archive", alone.getvalue()):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"some.npz is not a file of drawings, or is damaged"):
            read(path)
    np.savez(path, images=np.array([None, IMAGES], object), label=LABELS)  # a pickle, which is not loaded
    with pytest.raises(ValueError, match=r"is not a file of drawings, or is damaged .*allow_pickle"):
        read(path)


def test_drawings_of_another_size_and_without_labels_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "some.npz"
    np.savez(path, images=np.zeros((66, 105, 105), np.uint8), label=LABELS)
    with pytest.raises(ValueError, match=r"some.npz has the shape \(66, 105, 105\)\. Use images of 28 × 28 pixels"):
        read(path)
    np.savez(path, images=IMAGES, label=LABELS[:-1])
    with pytest.raises(ValueError, match=r"images of shape \(66, 28, 28\) but labels of shape \(65,\)"):
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
    with pytest.raises(ValueError, match=r"Class 1 of 3 has 19 drawings\. The split needs 20 of each"):
        grouped(IMAGES, labels, 3)
    with pytest.raises(ValueError, match=r"Class 3 of 4 has 0 drawings.*Use fewer classes"):
        grouped(IMAGES, LABELS, 4)


# in the order of the file: the background first, then by name
CHARACTERS = (
    "images_background/Korean/character01",
    "images_background/Korean/character02",
    "images_background/Tifinagh/character01",
    "images_evaluation/Angelic/character01",
)


def ink(character: int, drawer: int) -> np.ndarray:
    """Return where a drawing has ink, (105, 105)."""
    return np.random.default_rng([character, drawer]).random((105, 105)) < 0.3


def draw(path: Path, where: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.where(where, 0, 255).astype(np.uint8)).convert("1").save(path)  # black on white, of one bit


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """Write drawings as they are published, the last ones first."""
    folder = tmp_path / "omniglot"
    for k in reversed(range(len(CHARACTERS))):
        for drawer in range(20, 0, -1):
            draw(folder / CHARACTERS[k] / f"{99 - k:04}_{drawer:02}.png", ink(k, drawer))
    (folder / CHARACTERS[0] / "readme.txt").write_text("no drawing")
    return folder


def cell(where: np.ndarray, i: int, j: int) -> float:
    """Return the mean ink, from 0 to 255, of the pixels whose centres are in a cell of 3.75 × 3.75."""
    rows, columns = ([k for k in range(105) if at < (k + 0.5) / 3.75 <= at + 1] for at in (i, j))
    return 255 * float(np.mean([where[row, column] for row in rows for column in columns]))


def test_the_file_is_made_from_published_drawings(published: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "drawings.npz"
    assert build(published, out) == 4
    images, labels = read(out)
    assert np.array_equal(labels, np.repeat(np.arange(4), 20))
    for place in (0, 1, 19, 20, 59, 60, 79):  # some of each character, in the order of characters and drawers
        where = ink(place // 20, place % 20 + 1)
        expected = [[cell(where, i, j) for j in range(28)] for i in range(28)]
        # rounded to whole numbers along rows, and then along columns
        np.testing.assert_allclose(images[place].reshape(28, 28), expected, rtol=0, atol=1)
    with np.load(out) as arrays:
        assert (arrays["images"].dtype, arrays["label"].dtype) == (np.uint8, np.uint16)
    assert [path.name for path in out.parent.iterdir()] == ["drawings.npz"]


@pytest.mark.parametrize("part", ["images_background", "images_evaluation/Angelic"])
def test_a_missing_folder_is_named(part: str, published: Path, tmp_path: Path) -> None:
    (published / part).rename(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=r"is not a folder of folders\. Unzip images_background.zip and .*brendenlake"):
        build(published, tmp_path / "drawings.npz")
    assert not (tmp_path / "drawings.npz").exists()


def test_a_character_without_20_drawings_is_named(published: Path, tmp_path: Path) -> None:
    missing = published / CHARACTERS[1] / "0098_07.png"
    missing.rename(published / CHARACTERS[1] / "0098_21.png")
    with pytest.raises(ValueError, match=r"Korean/character02 has 20 drawings, of the drawers 01, .* 06, 08, .* 21\. "):
        build(published, tmp_path / "drawings.npz")
    (published / CHARACTERS[1] / "0098_21.png").unlink()
    with pytest.raises(ValueError, match=r"Korean/character02 has 19 drawings.*There must be 20.*Unzip them again"):
        build(published, tmp_path / "drawings.npz")


def test_other_images_are_named(published: Path, tmp_path: Path) -> None:
    path = published / CHARACTERS[2] / "0097_03.png"
    draw(path, np.zeros((28, 30), bool))
    with pytest.raises(ValueError, match=r"0097_03.png has 30 × 28 pixels\. The published drawings have 105 × 105"):
        build(published, tmp_path / "drawings.npz")
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(ValueError, match=r"0097_03.png is not an image, or is damaged"):
        build(published, tmp_path / "drawings.npz")


def test_without_pillow_it_says_so(published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match="pip install pillow"):
        build(published, tmp_path / "drawings.npz")


def test_the_command_ends_with_what_it_made_or_why_not(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "drawings.npz"
    with pytest.raises(SystemExit) as ending:
        main([str(published), str(out)])
    assert ending.value.code == 0
    assert f"80 drawings of 4 characters: {out}" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ending:
        main([str(tmp_path / "nowhere"), str(out)])
    assert ending.value.code == 2
    assert "nowhere/images_background is not a folder of folders" in capsys.readouterr().err
