from __future__ import annotations

import os

import pytest

# Before torch is imported: the tests run in several processes, and one thread each is faster than all of them each.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# No window is opened by a figure.
os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress bars are shown as on a terminal."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
