from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pytest

Run = Callable[..., tuple[int, str, str]]

# Before torch is imported: the tests run in several processes, and one thread each is faster than all of them each.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# No window is opened by a figure.
os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress bars are shown as on a terminal."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run the command line in this process: its exit code, standard output and standard error."""
    from flowratio.cli import app as cli

    def run(*args: object) -> tuple[int, str, str]:
        capfdbinary.readouterr()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["flowratio", *map(str, args)])
            with pytest.raises(SystemExit) as ending:
                cli.main()
        code = ending.value.code
        assert isinstance(code, int)
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return run
