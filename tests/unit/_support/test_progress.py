from __future__ import annotations

import math
import re
import time
from collections.abc import Callable

import pytest

from flowratio._support import progress as module
from flowratio._support.progress import Steps, in_words, progress, uneven_progress


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(61.2, "about 1:01 left"), (3725, "about 1:02:05 left"), (-1, "about 0:00 left"), (math.inf, "")],
)
def test_time_left_in_words(seconds: float, text: str) -> None:
    assert in_words(seconds) == text


def test_the_time_left_is_that_of_earlier_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(5, "folds", start=0.0)
    monkeypatch.setattr(time, "monotonic", lambda: 20.0)
    assert str(steps) == "0/5 folds"
    steps.advance()
    assert str(steps) == "1/5 folds, about 1:20 left"


@pytest.mark.parametrize("columns", [50, 120])
def test_the_bar_fits_the_terminal(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(columns))
    with uneven_progress(18, "steps", verbose=True, seconds_left=lambda left: 61.0) as begin:
        begin("telescoping of normal columns")
    out, err = capsys.readouterr()
    frames = re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", err).strip())
    assert out == ""
    assert max(map(len, frames)) <= columns
    assert "0/18 steps, about 1:01 left, now" in frames[0]
    assert ("telescoping of normal columns" in frames[0]) == (columns > 50)
    assert {len(re.findall("[━╸╺]", frame)) for frame in frames} == {10}
    assert frames[-1].split() == ["━" * 10, "18/18", "steps"]


def lines_of(step: Callable[[], None], capsys: pytest.CaptureFixture[str], n_least: int) -> str:
    """Return what appears on standard error during one step, until it has some lines or states of a line."""
    step()
    text, deadline = "", time.monotonic() + 20
    while len(re.findall(r"[\r\n]", text)) < n_least and time.monotonic() < deadline:
        text += capsys.readouterr().err
        time.sleep(0.01)
    return text


def test_without_a_terminal_a_line_is_printed_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "_LINE_SECONDS", 0.05)
    monkeypatch.setattr(module, "_SHORTEST", 0.0)
    with progress(3, "folds", verbose=True) as step:
        text = lines_of(step, capsys, 3)
    assert set(re.sub(r"about \d+:\d\d", "about 0:00", text).splitlines()) == {"flowratio: 1/3 folds, about 0:00 left"}
    monkeypatch.setattr(module, "_SHORTEST", math.inf)
    with progress(3, "folds", verbose=True):
        time.sleep(0.2)
    assert capsys.readouterr().err == ""  # not for a short task


def test_in_a_notebook_a_line_of_text_is_written_again_and_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr(module, "_NOTEBOOK_SECONDS", 0.02)
    monkeypatch.setattr(module, "_SHORTEST", 0.0)
    with progress(3, "folds", verbose=True) as step:
        text = lines_of(step, capsys, 2)
    assert re.match(r"\r1/3 folds, about \d+:\d\d left\r1/3", text)
    assert capsys.readouterr().err.endswith("\n")


def test_a_failure_ends_the_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LINE_SECONDS", 0.01)
    with pytest.raises(ZeroDivisionError), progress(3, "folds", verbose=True):
        raise ZeroDivisionError
