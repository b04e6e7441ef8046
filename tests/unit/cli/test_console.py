from __future__ import annotations

import sys
import warnings
from io import BytesIO, TextIOWrapper

import pytest

from flowratio._support.errors import ArgumentError, ArgumentWarning
from flowratio.cli.console import leave, messages


@pytest.mark.parametrize(
    ("words", "way_on"),
    [
        (["reproduce", "toy"], "The same command resumes."),
        (["reproduce", "toy", "--restart"], "The same command without --restart resumes."),
        (["fit", "p.csv", "q.csv"], "The same command starts again from the beginning."),
    ],
)
def test_after_an_interrupt_the_next_step_is_named(
    words: list[str], way_on: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["flowratio", *words])
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # which `leave` would set for good
    with pytest.raises(SystemExit) as left:
        leave(interrupted)
    assert left.value.code == 130
    assert capsys.readouterr().err.strip().endswith(way_on)


def test_a_terminal_without_utf_8_shows_what_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = TextIOWrapper(BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with pytest.raises(SystemExit) as left:
        leave(lambda: sys.stdout.write("median age: 41 → 47\n") and 0)
    stream.flush()
    assert (left.value.code, stream.buffer.getvalue()) == (0, b"median age: 41 ? 47\n")  # type: ignore[attr-defined]


def test_errors_and_warnings_name_options(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        with messages({"exclude": "--exclude", "ratio": "--method"}):
            for _ in range(2):  # a warning is printed once
                warnings.warn(ArgumentWarning("exclude", "Drop it\nwith `exclude`."), stacklevel=1)
            warnings.warn("A plain text about `exclude` stays unchanged.", UserWarning, stacklevel=1)
            raise ArgumentError("ratio", "`ratio` is 'x'. Drop columns with `exclude`.")

    with pytest.raises(ValueError, match=r"^`--method` is 'x'\. Drop columns with `--exclude`\.$"):
        command()
    assert capsys.readouterr().err.splitlines() == [
        "flowratio: note: Drop it with `--exclude`.",
        "flowratio: note: A plain text about `exclude` stays unchanged.",
    ]


@pytest.mark.parametrize("error", [ValueError("is wrong.\nFix it."), ArgumentError("n", "is wrong. Fix it.")])
def test_an_error_is_one_line_and_exit_code_2(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with pytest.raises(SystemExit) as left:
        leave(fail)
    assert left.value.code == 2
    assert capsys.readouterr().err == "flowratio: is wrong. Fix it.\n"
