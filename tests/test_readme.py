"""Every Python block of the README, top to bottom in one namespace, in an empty folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_python_blocks_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = README.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    blocks = list(BLOCK.finditer(text))
    assert len(blocks) == text.count("```python")
    namespace: dict[str, object] = {"__name__": "readme"}
    for block in blocks:
        # blank lines in front: a traceback gives the line of the README
        source = "\n" * text.count("\n", 0, block.start(1)) + block[1]
        exec(compile(source, str(README), "exec"), namespace)  # noqa: S102
