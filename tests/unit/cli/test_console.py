from __future__ import annotations

import sys

import pytest

from flowratio.cli.console import leave


@pytest.mark.parametrize(
    ("words", "way_on"),
    [
        (["reproduce", "toy"], "The same line goes on where it was."),
        (["reproduce", "toy", "--restart"], "The same line without --restart goes on where it was."),
        (["fit", "p.csv", "q.csv"], "The same line starts it again."),
    ],
)
def test_who_interrupts_is_told_how_to_go_on(
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
