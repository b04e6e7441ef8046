"""Progress of an experiment without a terminal: a line at the start, and one line a minute."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from flowratio_paper import progress


def test_lines_without_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.01)
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "flow.entry.json").touch()
    lines: list[str] = []
    with progress.progress(3, "toy", True, tmp_path) as step:
        step()
        for _ in range(1000):  # until the thread has printed two lines
            lines += capsys.readouterr().err.splitlines()
            if len(lines) > 2:
                break
            time.sleep(0.01)
    assert lines[0] == "flowratio: toy, 0/3 tasks, stages done: 1"
    assert len(lines) > 2
    assert set(lines[1:]) == {"flowratio: toy, 1/3 tasks, stages done: 1"}


def test_quiet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress(3, "toy", False, tmp_path) as step:
        step()
    assert capsys.readouterr().err == ""
