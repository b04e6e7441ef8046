from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run the command line in this process: its exit code, standard output and standard error."""
    from flowratio import cli

    def run(*args: object) -> tuple[int, str, str]:
        capfdbinary.readouterr()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["flowratio", *map(str, args)])
            with pytest.raises(SystemExit) as left:
                cli.main()
        code = left.value.code
        assert isinstance(code, int)
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return run
