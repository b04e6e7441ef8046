from __future__ import annotations

import io
import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from urllib.error import URLError

import pytest

from flowratio import Journal
from flowratio_paper import NAMES, data, motivating, running

Run = Callable[..., tuple[int, str, str]]


def refused(run: Run, name: str, folder: Path) -> str:
    """Return the one line with which an experiment ends."""
    code, out, err = run("reproduce", name, "-o", folder, "--jobs", "1", "--quiet")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1, err
    assert err.startswith("flowratio: ")
    return err


@pytest.mark.parametrize(
    ("name", "meant"), [("theroy", "theory"), ("mixture", "mixtures"), ("breast_cancer", "breast-cancer")]
)
def test_an_unknown_experiment(name: str, meant: str, run: Run, tmp_path: Path) -> None:
    assert f"Did you mean '{meant}'?" in refused(run, name, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_results_of_another_commit(run: Run, tmp_path: Path) -> None:
    assert run("reproduce", "motivating", "-o", tmp_path, "--jobs", "1", "--quiet")[0] == 0
    path = tmp_path / "motivating-quick.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "commit": "0123456789ab"}))
    words = refused(run, "motivating", tmp_path)
    assert "of commit 0123456789ab" in words
    assert "--restart" in words
    assert run("reproduce", "motivating", "-o", tmp_path, "--jobs", "1", "--quiet", "--restart")[0] == 0
    assert json.loads(path.read_text())["commit"] == content["commit"]


def test_a_restart_that_is_interrupted_goes_on_without_the_word(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> dict[str, object]:
        raise KeyboardInterrupt

    line = ("reproduce", "motivating", "-o", tmp_path, "--jobs", "1", "--quiet")
    assert run(*line)[0] == 0
    path = tmp_path / "motivating-quick.json"
    before = path.read_text()
    with monkeypatch.context() as patch:
        patch.setattr(motivating, "run", interrupted)
        code, _, err = run(*line, "--restart")
        assert code == 130
        assert "Every file is unchanged or complete. The same command without --restart resumes" in err
        assert path.read_text() == before
        assert run(*line)[0] == 130  # old results are not taken for new ones
    assert run(*line)[0] == 0
    assert [one.name for one in tmp_path.iterdir() if one.is_dir()] == []


def test_a_restart_of_all_is_one_of_those_that_were_not_reached(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    old = [tmp_path / f"{name}-quick.json" for name in NAMES]
    for path in old:
        path.write_text("old results")
    monkeypatch.setattr(running, "reproduce", interrupted)
    assert run("reproduce", "all", "-o", tmp_path, "--quiet", "--restart")[0] == 130
    monkeypatch.undo()
    assert all(path.read_text() == "old results" for path in old)
    for path in old:
        results = running.ResultsFile(path, {})
        results.resume()  # it would refuse them
        assert results.outcomes == {}


def test_processes_that_begin_after_a_change_of_the_package(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    actual = running.commit()
    monkeypatch.setattr(running, "commit", lambda: "aaaa")  # in this process, and not in those that it starts
    code, _, err = run("reproduce", "motivating", "-o", tmp_path, "--jobs", "2", "--quiet")
    assert (code, err.count("\n")) == (2, 1)
    assert f"A process of --jobs has commit {actual}, but the run began with aaaa" in err
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Leave an empty cache as the only folder of data."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(data, "cache", lambda: folder)
    monkeypatch.setattr(data, "folders", lambda: [folder])
    return folder


@pytest.mark.parametrize(
    ("name", "file"),
    [("breast-cancer", "uci/breast-cancer-wisconsin.data"), ("mnist", "mnist/train-images-idx3-ubyte.gz")],
)
def test_no_data_and_no_network(
    name: str, file: str, run: Run, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def urlopen(request: object, timeout: float) -> object:
        raise URLError("no route to host")

    monkeypatch.setattr(data, "urlopen", urlopen)
    words = refused(run, name, tmp_path)
    assert f"{file} is not on this machine" in words
    assert "no route to host" in words
    assert "FLOWRATIO_DATA" in words


def test_without_data_a_restart_leaves_old_results(run: Run, cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "omniglot-quick.json"
    path.write_text("old results")
    code, _, err = run("reproduce", "omniglot", "-o", tmp_path, "--jobs", "1", "--quiet", "--restart")
    assert (code, err.count("\n")) == (2, 1)
    assert path.read_text() == "old results"
    assert "is not on this machine" in refused(run, "omniglot", tmp_path)  # and is not gone on with


def test_drawings_have_no_public_home(run: Run, cache: Path, tmp_path: Path) -> None:
    words = refused(run, "omniglot", tmp_path)
    assert "omniglot/omniglot28.npz is not on this machine, and has no public home" in words
    path = cache / "omniglot" / "omniglot28.npz"
    assert f"`python -m flowratio_paper.characters FOLDER {path}`" in words


def test_results_cannot_go_into_a_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a-file"
    path.write_text("")
    assert f"{path} is a file. Give a folder" in refused(run, "motivating", path)


@pytest.mark.parametrize(
    ("name", "file"),
    [("breast-cancer", "uci/breast-cancer-wisconsin.data"), ("mnist", "mnist/train-images-idx3-ubyte.gz")],
)
def test_a_damaged_download(
    name: str, file: str, run: Run, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "urlopen", lambda request, timeout: io.BytesIO(b"<html>"))
    words = refused(run, name, tmp_path)
    assert sha256(b"<html>").hexdigest() in words
    assert data.FILES[file].sha256 in words
    assert not cache.exists()


@pytest.mark.parametrize(
    ("name", "file"),
    [("mnist", "mnist/train-images-idx3-ubyte.gz"), ("omniglot", "omniglot/omniglot28.npz")],
)
def test_a_damaged_file_of_images(name: str, file: str, run: Run, cache: Path, tmp_path: Path) -> None:
    (cache / file).parent.mkdir(parents=True)
    (cache / file).write_bytes(b"cut off")
    words = refused(run, name, tmp_path)
    assert f"{cache / file} has the SHA-256 {sha256(b'cut off').hexdigest()}" in words
    assert "Remove or replace it" in words


@pytest.mark.parametrize(
    ("name", "file", "folder"),
    [
        ("mnist", "mnist/train-images-idx3-ubyte.gz", "diff-digits-1-0"),
        ("omniglot", "omniglot/omniglot28.npz", "seed-0"),
    ],
)
def test_checkpoints_of_another_task(name: str, file: str, folder: str, run: Run, tmp_path: Path) -> None:
    try:
        data.find(file)
    except OSError as error:
        pytest.skip(str(error))
    folder_of_task = tmp_path / f"{name}-quick" / folder
    with Journal(folder_of_task, {"seed": 1}):
        pass
    words = refused(run, name, tmp_path)
    assert f"{folder_of_task} belongs to another run. It differs in" in words
    assert "delete this one to start again" in words
