from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from flowratio_paper import images
from flowratio_paper.image_distributions import BACKGROUND, TASKS
from flowratio_paper.running import reproduce

try:
    IMAGES, LABELS = images.mnist("test")
except OSError as error:
    pytest.skip(str(error), allow_module_level=True)


def test_the_digits() -> None:
    assert IMAGES.shape == (10_000, 784)
    assert set(LABELS) == set(range(10))


def test_quick(tmp_path: Path) -> None:
    report, paths = reproduce("mnist", "quick", tmp_path, verbose=False)
    sheets = [f"mnist-quick-{task}-1.png" for task in TASKS]
    assert [path.name for path in paths] == ["mnist-quick.json", "mnist-quick.png", *sheets]
    results = {one["task"]["task"]: one["result"] for one in json.loads(paths[0].read_text())["runs"]}
    assert list(results) == list(TASKS)
    for result in results.values():
        assert result["rows"] == [100, 100]
        assert result["accuracy"] > 0.95
        assert 1 < result["flow"]["bits"] < 8
        assert set(result["methods"]) == {"z", "draws", "two-stage", "corrected", "x", "regular"}
        for of in ("z", "draws", "corrected", "x"):
            assert result["ratio"][of]["loss"] < math.log(2)  # better than no ratio
    methods = results[BACKGROUND]["methods"]
    assert methods["x"]["share"] > methods["regular"]["share"] + 0.1  # dark or bright is easily distinguished
    assert not list((tmp_path / "mnist-quick").glob("*/flow"))  # no checkpoint is left
    assert sum(path.stat().st_size for path in paths[1:]) < 500_000
    assert len(report.tables) == 5
