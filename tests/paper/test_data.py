from __future__ import annotations

import io
from hashlib import sha256
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest

from flowratio_paper import data
from flowratio_paper.data import FILES, DataFile, find

CONTENT = b"1,2\n3,4\n"
FILES_OF_TEST = {"some/table.csv": DataFile(sha256(CONTENT).hexdigest(), "https://data.example/table.csv")}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Leave the cache as the only folder, and no network."""
    folder = tmp_path / "cache"
    monkeypatch.delenv(data.VARIABLE, raising=False)
    monkeypatch.setattr(data, "cache", lambda: folder)
    monkeypatch.setattr(data, "folders", lambda: [folder])
    monkeypatch.setattr(data, "urlopen", _no_network)
    return folder


def _no_network(request: object, timeout: float) -> object:
    raise URLError("no route to host")


def _answer(content: bytes) -> object:
    return lambda request, timeout: io.BytesIO(content)


def test_a_download_is_kept_in_the_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "urlopen", _answer(CONTENT))
    path = find("some/table.csv", FILES_OF_TEST)
    assert path == cache / "some/table.csv"
    assert path.read_bytes() == CONTENT
    monkeypatch.setattr(data, "urlopen", _no_network)
    assert find("some/table.csv", FILES_OF_TEST) == path


def test_a_damaged_download_is_refused_and_not_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "urlopen", _answer(CONTENT[:-1]))
    with pytest.raises(ValueError, match=f"{sha256(CONTENT[:-1]).hexdigest()}.*{sha256(CONTENT).hexdigest()}") as error:
        find("some/table.csv", FILES_OF_TEST)
    assert "\n" not in str(error.value)
    assert not list(cache.rglob("*.csv"))


def test_a_file_on_this_machine_is_checked_too(cache: Path) -> None:
    path = cache / "some/table.csv"
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT + b"5,6\n")
    with pytest.raises(ValueError, match=f"table.csv has the SHA-256 .* must be {sha256(CONTENT).hexdigest()}"):
        find("some/table.csv", FILES_OF_TEST)


def test_without_a_network_one_line_says_what_to_do(cache: Path) -> None:
    with pytest.raises(OSError, match=r"no route to host.*FLOWRATIO_DATA") as error:
        find("some/table.csv", FILES_OF_TEST)
    assert "\n" not in str(error.value)
    assert "https://data.example/table.csv" in str(error.value)


def test_a_cache_that_cannot_be_made_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "urlopen", _answer(CONTENT))
    cache.write_bytes(b"")
    with pytest.raises(OSError, match=r"cache/some cannot be created.*FLOWRATIO_DATA"):
        find("some/table.csv", FILES_OF_TEST)


def test_the_variable_names_the_first_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(data.VARIABLE, str(tmp_path))
    assert data.folders()[0] == tmp_path
    assert data.folders()[-1] == data.cache()
    (tmp_path / "some").mkdir()
    (tmp_path / "some/table.csv").write_bytes(CONTENT)
    assert find("some/table.csv", FILES_OF_TEST) == tmp_path / "some/table.csv"


def test_the_variable_must_name_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(data.VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(OSError, match=r"FLOWRATIO_DATA is .*nowhere.* not a folder"):
        data.folders()


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a data file of the experiments"):
        find("uci/iris.data")


def test_every_file_has_a_checksum_and_a_home() -> None:
    for name, file in FILES.items():
        assert len(bytes.fromhex(file.sha256)) == 32
        if name != "omniglot/omniglot28.npz":  # was made from the public drawings
            assert file.url.startswith(("https://archive.ics.uci.edu/", "https://ossci-datasets.s3.amazonaws.com/"))
            assert file.url.endswith(Path(name).name)


def test_of_arrays_the_values_are_checked_and_not_the_file(cache: Path) -> None:
    path, images, label = cache / "some.npz", np.arange(8, dtype=np.uint8), np.arange(4, dtype=np.uint16)
    files = {"some.npz": DataFile(sha256(images.tobytes() + label.tobytes()).hexdigest(), "", ("images", "label"))}
    cache.mkdir()
    for save in (np.savez, np.savez_compressed):
        save(path, images=images, label=label)
        assert find("some.npz", files) == path
    content = path.read_bytes()
    path.write_bytes(content[:-30])
    damaged = sha256(content[:-30]).hexdigest()
    with pytest.raises(ValueError, match=f"SHA-256 {damaged}.*{files['some.npz'].sha256} of its arrays images and"):
        find("some.npz", files)
    np.savez(path, images=images[::-1], label=label)
    other = sha256(images[::-1].tobytes() + label.tobytes()).hexdigest()
    with pytest.raises(ValueError, match=f"SHA-256 {other}.*{files['some.npz'].sha256} of its arrays"):
        find("some.npz", files)


def test_the_recipe_of_a_file_without_a_home_is_told(cache: Path) -> None:
    with pytest.raises(OSError, match=r"no public home.*brendenlake/omniglot.*FLOWRATIO_DATA") as error:
        find("omniglot/omniglot28.npz")
    path = cache / "omniglot" / "omniglot28.npz"
    assert f"`python -m flowratio_paper.characters FOLDER {path}`" in str(error.value)


def test_a_file_without_a_home_must_be_put_in_place(cache: Path) -> None:
    files = {"some/table.csv": DataFile(sha256(CONTENT).hexdigest(), "")}
    with pytest.raises(OSError, match=f"no public home.*{sha256(CONTENT).hexdigest()}.*FLOWRATIO_DATA") as error:
        find("some/table.csv", files)
    assert "\n" not in str(error.value)
    assert str(cache / "some/table.csv") in str(error.value)
    (cache / "some").mkdir(parents=True)
    (cache / "some/table.csv").write_bytes(CONTENT)
    assert find("some/table.csv", files) == cache / "some/table.csv"
