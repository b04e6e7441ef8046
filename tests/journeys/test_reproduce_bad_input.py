from __future__ import annotations

import io
import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from urllib.error import URLError

import pytest

from flowratio.experiments import data

Run = Callable[..., tuple[int, str, str]]


def refused(run: Run, name: str, folder: Path) -> str:
    """Return the one line with which an experiment ends."""
    code, out, err = run("reproduce", name, "-o", folder, "--jobs", "1", "--quiet")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1, err
    assert err.startswith("flowratio: ")
    return err


@pytest.mark.parametrize(
    ("given", "meant"), [("theroy", "theory"), ("mixture", "mixtures"), ("breast_cancer", "breast-cancer")]
)
def test_an_unknown_experiment(given: str, meant: str, run: Run, tmp_path: Path) -> None:
    assert f"Did you mean {meant}?" in refused(run, given, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_results_of_another_commit(run: Run, tmp_path: Path) -> None:
    assert run("reproduce", "motivating", "-o", tmp_path, "--jobs", "1", "--quiet")[0] == 0
    path = tmp_path / "motivating-quick.json"
    kept = json.loads(path.read_text())
    path.write_text(json.dumps({**kept, "commit": "0123456789ab"}))
    words = refused(run, "motivating", tmp_path)
    assert "of commit 0123456789ab" in words
    assert "--restart" in words
    assert run("reproduce", "motivating", "-o", tmp_path, "--jobs", "1", "--quiet", "--restart")[0] == 0
    assert json.loads(path.read_text())["commit"] == kept["commit"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Leave an empty cache as the only folder of data."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(data, "cache", lambda: folder)
    monkeypatch.setattr(data, "folders", lambda: [folder])
    return folder


def test_no_data_and_no_network(run: Run, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def urlopen(request: object, timeout: float) -> object:
        raise URLError("no route to host")

    monkeypatch.setattr(data, "urlopen", urlopen)
    words = refused(run, "breast-cancer", tmp_path)
    assert "uci/breast-cancer-wisconsin.data is not on this machine" in words
    assert "no route to host" in words
    assert "FLOWRATIO_DATA" in words


def test_a_damaged_download(run: Run, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "urlopen", lambda request, timeout: io.BytesIO(b"<html>"))
    words = refused(run, "breast-cancer", tmp_path)
    assert sha256(b"<html>").hexdigest() in words
    assert data.FILES["uci/breast-cancer-wisconsin.data"].sha256 in words
    assert not cache.exists()
