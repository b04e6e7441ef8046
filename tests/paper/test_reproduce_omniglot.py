from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flowratio_paper import data
from flowratio_paper.augmentation_trials import DATA
from flowratio_paper.characters import read
from flowratio_paper.omniglot import FILE, PAPER
from flowratio_paper.running import reproduce

try:
    IMAGES, LABELS = read(data.find(FILE))
except OSError as error:
    pytest.skip(str(error), allow_module_level=True)


def test_the_drawings() -> None:
    assert IMAGES.shape == (32_460, 784)
    assert LABELS.max() == 1622
    assert 0.05 < (IMAGES > 127).mean() < 0.15  # ink is bright


def test_quick(tmp_path: Path) -> None:
    report, paths = reproduce("omniglot", "quick", tmp_path, verbose=False)
    assert [path.name for path in paths] == [
        "omniglot-quick.json",
        "omniglot-quick.png",
        "omniglot-quick-drawings.png",
    ]
    assert sum(path.stat().st_size for path in paths[1:]) < 500_000
    (result,) = _results(paths[0])
    accuracy = {name: one["test"] for name, one in result["settings"].items()}
    assert set(PAPER) <= set(accuracy)
    # of ten characters: a generator of 60 steps makes copies with faults, which are still their characters
    assert min(accuracy.values()) > 0.2
    assert accuracy[DATA] > 0.4
    for ratio in result["ratios"].values():
        assert 0 < ratio["effective"]["1"] <= ratio["effective"]["0.2"] <= 1
        assert (
            0.35 < ratio["auc"] < 0.7
        )  # near copies: no grey value, and no tone, distinguishes them from real drawings
    assert 0 < max(result["bits"].values()) < 1  # of black and white
    assert [len(table.lines) for table in report.tables] == [10, 2, 5]
    assert len(report.claims) == 6
    _goes_on_to_the_same(tmp_path, paths[0], result)


def _goes_on_to_the_same(folder: Path, path: Path, result: dict[str, Any]) -> None:
    """Run it again as if it had been killed: what is left is used, and what is missing is made again."""
    stages = folder / "omniglot-quick" / "seed-0"
    times = {file.name: file.stat().st_mtime_ns for file in stages.glob("*.*")}
    missing = {"ratio-x.entry.safetensors", "classifier-3.entry.json"}
    for file in (path, *(stages / name for name in missing)):
        file.unlink()
    reproduce("omniglot", "quick", folder, verbose=False)
    assert _results(path) == [result]
    again = {file.name: file.stat().st_mtime_ns for file in stages.glob("*.*")}
    assert {name for name in times if again[name] != times[name]} == missing


def _results(path: Path) -> list[dict[str, Any]]:
    return [one["result"] for one in json.loads(path.read_text())["runs"]]


def test_a_damaged_file_is_named_with_its_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data" / FILE
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not the drawings")
    monkeypatch.setenv(data.VARIABLE, str(tmp_path / "data"))
    with pytest.raises(ValueError, match=r"omniglot28.npz has the SHA-256 .* must be a76f2cf0") as error:
        reproduce("omniglot", "quick", tmp_path, verbose=False)
    assert "\n" not in str(error.value)
