from __future__ import annotations

import sys

import pytest

from flowratio.cli.console import leave


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
