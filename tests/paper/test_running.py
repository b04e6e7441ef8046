from __future__ import annotations

import errno
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from matplotlib.figure import Figure

from flowratio_paper import running, stages
from flowratio_paper.reports import Claim, PaperTable, Report
from flowratio_paper.running import Outcome, commit, reproduce
from flowratio_paper.stages import Workspace
from flowratio_paper.verdicts import Answer


@dataclass(frozen=True)
class Settings:
    size: int
    seeds: int


class Squares(ModuleType):
    """An experiment that squares its seeds, and counts what it runs."""

    TITLE = "Squares"

    def __init__(self) -> None:
        super().__init__("flowratio_paper.squares")
        self.PRESETS = {"quick": Settings(3, 2)}
        self.ran: list[int] = []
        self.breaks_at = -1

    def tasks(self, settings: Settings) -> list[dict[str, Any]]:
        return [{"seed": seed} for seed in range(settings.seeds)]

    def run(self, settings: Settings, task: dict[str, Any], workspace: Workspace) -> dict[str, Any]:
        if task["seed"] == self.breaks_at:
            raise KeyboardInterrupt
        self.ran.append(task["seed"])
        return {"square": task["seed"] ** 2}

    def report(self, settings: Settings, outcomes: list[Outcome]) -> Report:
        lines = [[str(one.task["seed"]), str(one.result["square"])] for one in outcomes]
        return Report([PaperTable("Squares", ["seed", "square"], lines)], [Claim("they grow", Answer.YES, "0, 1")])

    def draw(self, settings: Settings, outcomes: list[Outcome], keep: Path) -> dict[str, Figure]:
        return {"": Figure(figsize=(1, 1)), "again": Figure(figsize=(1, 1))}


@pytest.fixture
def squares(monkeypatch: pytest.MonkeyPatch) -> Squares:
    module = Squares()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(running, "commit", lambda: "aaaa")
    return module


def run(folder: Path, seeds: int | None = None, restart: bool = False) -> tuple[Report, list[Path]]:
    return reproduce("squares", "quick", folder, seeds=seeds, restart=restart, verbose=False)


def test_one_file_has_settings_versions_commit_and_every_number(squares: Squares, tmp_path: Path) -> None:
    report, paths = run(tmp_path / "new")
    assert [path.name for path in paths] == ["squares-quick.json", "squares-quick.png", "squares-quick-again.png"]
    content = json.loads(paths[0].read_text())
    assert content["settings"] == {"size": 3, "seeds": 2}
    assert content["commit"] == "aaaa"
    assert {"python", "numpy", "torch"} <= content["versions"].keys()
    assert [one["result"] for one in content["runs"]] == [{"square": 0}, {"square": 1}]
    assert content["tables"][0]["lines"] == [["0", "0"], ["1", "1"]]
    assert str(report).splitlines()[-1] == "yes: they grow (0, 1)"


def test_what_was_run_is_not_run_again(squares: Squares, tmp_path: Path) -> None:
    squares.breaks_at = 1
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
    squares.breaks_at = -1
    run(tmp_path)
    run(tmp_path, seeds=3)  # more of the same
    assert squares.ran == [0, 1, 2]
    run(tmp_path, restart=True)
    assert squares.ran == [0, 1, 2, 0, 1]
    squares.breaks_at = 0
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, restart=True)
    squares.breaks_at = -1
    run(tmp_path)  # without the word, and nothing of old is left
    assert squares.ran == [0, 1, 2, 0, 1, 0, 1]


@pytest.mark.parametrize("report_only", [False, True])
def test_results_of_another_preset_are_refused_by_its_name(squares: Squares, tmp_path: Path, report_only: bool) -> None:
    squares.PRESETS["paper"] = Settings(3, 2)  # the same settings, but for the name
    path = run(tmp_path)[1][0].rename(tmp_path / "squares-paper.json")
    before = path.read_text()
    with pytest.raises(ValueError, match=r"squares-paper\.json has results of the preset quick, but this is paper\."):
        reproduce("squares", "paper", tmp_path, report_only=report_only, verbose=False)
    assert path.read_text() == before
    path.write_text(json.dumps({**json.loads(before), "preset": "paper", "experiment": "cubes"}))
    with pytest.raises(ValueError, match=r"results of the experiment cubes, but this is squares\. Use --restart"):
        reproduce("squares", "paper", tmp_path, verbose=False)


def test_old_results_stay_until_there_is_a_new_one(squares: Squares, tmp_path: Path) -> None:
    path = run(tmp_path)[1][0]
    before = path.read_text()
    for name in ("seed-0/journal.json", "sheet.npz"):
        (tmp_path / "squares-quick" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "squares-quick" / name).touch()
    squares.breaks_at = 0
    for restart in (True, False, True):  # and killed each time
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, restart=restart)
        assert path.read_text() == before
        assert (tmp_path / "squares-quick").exists() is not restart
        (tmp_path / "squares-quick").mkdir(exist_ok=True)  # with stages of the task that was killed
    reproduce("squares", "quick", tmp_path, report_only=True, verbose=False)  # they can still be told
    squares.breaks_at = 1
    squares.ran.clear()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
    assert [one["task"]["seed"] for one in json.loads(path.read_text())["runs"]] == [0]
    squares.breaks_at = -1
    run(tmp_path)
    assert squares.ran == [0, 1]
    assert not (tmp_path / "squares-quick.forgotten").exists()


def test_a_restart_of_nothing_leaves_nothing(squares: Squares, tmp_path: Path) -> None:
    squares.breaks_at = 0
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "new", restart=True)
    assert not (tmp_path / "new").exists()


def test_stages_that_cannot_be_removed_are_named_and_not_used(
    squares: Squares, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rmtree(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    before = run(tmp_path)[1][0].read_text()
    (tmp_path / "squares-quick" / "seed-0").mkdir(parents=True)
    monkeypatch.setattr(stages.shutil, "rmtree", rmtree)
    with pytest.raises(
        OSError, match=r"quick.forgotten has stages .* cannot be removed \(Permission denied\)\. Remove it by hand"
    ):
        run(tmp_path, restart=True)
    assert (tmp_path / "squares-quick.json").read_text() == before
    assert not (tmp_path / "squares-quick").exists()
    assert squares.ran == [0, 1]


def test_the_cost_is_that_of_all_stages(squares: Squares, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(running.time, "process_time", lambda: now[0])

    def stage(seconds: float) -> dict[str, int]:
        now[0] += seconds
        return {"square": 0}

    def runs(settings: Settings, task: dict[str, Any], workspace: Workspace) -> dict[str, Any]:
        now[0] += 1  # what every process does
        with workspace.journal(f"seed-{task['seed']}", task) as journal:
            journal.entry("first", lambda: stage(10))
            if task["seed"] == squares.breaks_at:
                raise KeyboardInterrupt
            return journal.entry("second", lambda: stage(100))

    squares.run, squares.breaks_at = runs, 1
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
    squares.breaks_at = -1
    path = run(tmp_path)[1][0]
    assert [one["seconds"] for one in json.loads(path.read_text())["runs"]] == [111, 111]


def test_results_of_another_commit_are_not_gone_on_with(
    squares: Squares, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = run(tmp_path)[1][0].read_text()
    monkeypatch.setattr(running, "commit", lambda: "bbbb")
    with pytest.raises(ValueError, match=r"results of commit aaaa, but this is bbbb\. Use --restart"):
        run(tmp_path)
    assert (tmp_path / "squares-quick.json").read_text() == before
    run(tmp_path, restart=True)
    assert json.loads((tmp_path / "squares-quick.json").read_text())["commit"] == "bbbb"


def test_the_command_is_that_which_ran_something(
    squares: Squares, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words, seeds, numbers in (("one", 2, "one"), ("two", 2, "one"), ("three", 3, "three")):
        monkeypatch.setattr(sys, "argv", ["flowratio", words])
        run(tmp_path, seeds=seeds)
        assert json.loads((tmp_path / "squares-quick.json").read_text())["command"] == f"flowratio {numbers}"
    with pytest.raises(ValueError, match=r"squares-quick\.json does not exist\. Omit --report"):
        reproduce("squares", "quick", tmp_path / "other", report_only=True, verbose=False)


def test_a_process_with_other_code_is_refused(squares: Squares, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"--jobs has commit aaaa, but the run began with bbbb.*or use --restart"):
        running._run("squares", squares.PRESETS["quick"], {"seed": 0}, tmp_path, "bbbb")
    assert squares.ran == []


def test_a_report_is_of_runs_of_any_commit(squares: Squares, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path)
    monkeypatch.setattr(running, "commit", lambda: "bbbb")
    reproduce("squares", "quick", tmp_path, report_only=True, verbose=False)
    content = json.loads((tmp_path / "squares-quick.json").read_text())
    assert (content["commit"], content["reported_by"]) == ("aaaa", "bbbb")
    assert squares.ran == [0, 1]
    with pytest.raises(ValueError, match=r"lacks 1 of 3 tasks\. Omit --report"):
        reproduce("squares", "quick", tmp_path, seeds=3, report_only=True, verbose=False)
    run(tmp_path / "more", seeds=3)
    reproduce("squares", "quick", tmp_path / "more", report_only=True, verbose=False)
    content = json.loads((tmp_path / "more" / "squares-quick.json").read_text())
    assert content["settings"]["seeds"] == len(content["runs"]) == 3  # all that there are, if none are named


def test_results_of_other_versions_are_not_gone_on_with(
    squares: Squares, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path)
    monkeypatch.setattr(running, "versions", lambda: {"numpy": "0.1"})
    with pytest.raises(ValueError, match=r"results of versions python .*, but this is numpy 0\.1\. Use --restart"):
        run(tmp_path)


def test_tasks_of_all_seeds_are_run_again_if_there_are_more(squares: Squares, tmp_path: Path) -> None:
    squares.tasks = lambda settings: [{"all": 7}]
    squares.run = lambda settings, task, workspace: squares.ran.append(settings.seeds) or {"square": 0}
    squares.report = lambda settings, outcomes: Report()
    run(tmp_path)
    run(tmp_path)
    run(tmp_path, seeds=3)
    assert squares.ran == [2, 3]


def test_the_commit_is_that_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "src" / "flowratio_paper" / "running.py"
    file.parent.mkdir(parents=True)
    file.write_text("1")

    def git(*words: str) -> str:
        settings = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        command = ["git", "-C", str(tmp_path), *settings, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def now() -> str:
        commit.cache_clear()
        return commit()

    monkeypatch.setattr(running, "__file__", str(file))
    git("init", "-q")
    assert now() == version("flowratio")  # files of another project, as of an environment inside of it
    git("add", "-A")
    git("commit", "-qm", "package")
    first = git("rev-parse", "--short=12", "HEAD")
    assert now() == first
    (tmp_path / "page.md").write_text("a page")
    git("add", "-A")
    git("commit", "-qm", "page")
    assert now() == first  # what is no part of the package has no part in a number
    changes = []
    for text in ("2", "3"):
        file.write_text(text)
        changes.append(now())
    assert all(one.startswith(f"{first}-changed-") for one in changes)
    assert changes[0] != changes[1]
    file.write_text("4")
    assert commit() == changes[1]  # what was changed since is not what runs
    commit.cache_clear()


def test_results_of_other_settings_are_not_gone_on_with(squares: Squares, tmp_path: Path) -> None:
    run(tmp_path)
    squares.PRESETS = {"quick": Settings(4, 2)}
    with pytest.raises(ValueError, match=r"results of other settings\. Use --restart"):
        run(tmp_path)


def _without(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda content: {key: value for key, value in content.items() if key != name}


@pytest.mark.parametrize(
    "change",
    [
        _without("runs"),
        _without("commit"),
        lambda content: [content],
        lambda content: {**content, "settings": []},
        lambda content: {
            **content,
            "settings": {"size": 3, "seeds": 1},
            "runs": [{"task": 0, "result": {}, "seconds": 1}],
        },
    ],
    ids=["no runs", "no commit", "a list", "no settings", "no task"],
)
def test_a_file_that_is_no_result_is_named(squares: Squares, tmp_path: Path, change: Callable[..., Any]) -> None:
    path = run(tmp_path)[1][0]
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(ValueError, match=r"squares-quick\.json is not a result .* or is damaged.*use --restart"):
        run(tmp_path)


def test_a_file_that_is_no_json_is_named(squares: Squares, tmp_path: Path) -> None:
    (tmp_path / "squares-quick.json").write_bytes(b'\xff{"cut')
    with pytest.raises(ValueError, match=r"squares-quick\.json is not a result .* or is damaged.*use --restart"):
        run(tmp_path)


@pytest.mark.parametrize("result", [{}, None, {"square": []}], ids=["no number", "nothing", "no list"])
def test_runs_that_cannot_be_read_are_named(squares: Squares, tmp_path: Path, result: Any) -> None:
    squares.draw = lambda settings, outcomes, keep: {str(one.result["square"] + 0): Figure() for one in outcomes}
    path = run(tmp_path)[1][0]
    content = json.loads(path.read_text())
    content["runs"][1]["result"] = result
    path.write_text(json.dumps(content))
    for report_only in (False, True):
        with pytest.raises(ValueError, match=r"squares-quick\.json has results that cannot be read .*Use --restart"):
            reproduce("squares", "quick", tmp_path, report_only=report_only, verbose=False)
        assert json.loads(path.read_text())["runs"] == content["runs"]
    run(tmp_path, restart=True)


def test_a_bug_of_a_report_is_no_fault_of_the_file(squares: Squares, tmp_path: Path) -> None:
    squares.run = lambda settings, task, workspace: {}
    with pytest.raises(KeyError, match="square"):
        run(tmp_path)


def test_a_folder_in_the_place_of_the_file_is_named(squares: Squares, tmp_path: Path) -> None:
    (tmp_path / "squares-quick.json").mkdir()
    with pytest.raises(OSError, match=r"squares-quick\.json cannot be read .*\. Use another --out"):
        run(tmp_path)


def test_a_table_for_a_page() -> None:
    table = PaperTable("Errors", ["space", "error"], [["x", "0.1"], ["in z", "0.02"]])
    assert str(table) == "Errors\nspace  error\nx      0.1\nin z   0.02"
    assert table.markdown() == "| space | error |\n| --- | --- |\n| x | 0.1 |\n| in z | 0.02 |"
