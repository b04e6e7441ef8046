from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from flowratio_paper.stages import Workspace, count_stages, read_arrays, replacing


def test_a_stage_is_run_once(tmp_path: Path) -> None:
    arrays = {"a": np.arange(3), "b": np.array([0.5])}
    with Workspace(tmp_path / "new").journal("seed-0", {"seed": 0}) as first:
        assert first.entry("loss", lambda: {"value": 0.1, "name": "γ"}) == {"value": 0.1, "name": "γ"}
        first.arrays("rows", lambda: arrays)
    with Workspace(tmp_path / "new").journal("seed-0", {"seed": 0}) as again:
        assert again.entry("loss", lambda: pytest.fail("it is there")) == {"value": 0.1, "name": "γ"}
        stored = again.arrays("rows", lambda: pytest.fail("they are there"))
    assert stored.keys() == arrays.keys()
    assert all(np.array_equal(stored[name], arrays[name]) for name in arrays)


def test_a_stage_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with Workspace(tmp_path).journal("seed-0", {"seed": 0}) as journal:
        with pytest.raises(ZeroDivisionError):
            journal.entry("broken", lambda: {"value": 1 // 0})
        with pytest.raises(ZeroDivisionError):
            journal.arrays("broken", lambda: {"value": np.array(1 // 0)})
    assert [path.name for path in (tmp_path / "seed-0").iterdir()] == ["journal.json"]
    assert count_stages(tmp_path) == 0


def test_stages_of_another_task_are_refused(tmp_path: Path) -> None:
    about = {"seed": 0, "classes": 10, "hidden": (1, 2)}
    for _ in range(2):
        with Workspace(tmp_path).journal("seed-0", about):
            pass
    with (
        pytest.raises(ValueError, match=r"seed-0 belongs to another run\. It differs in classes, seed\."),
        Workspace(tmp_path).journal("seed-0", {**about, "seed": 1, "classes": 20}),
    ):
        pass


@pytest.mark.parametrize("name", ["loss.entry.json", "rows.entry.safetensors"])
def test_a_damaged_file_is_named(name: str, tmp_path: Path) -> None:
    def both() -> None:
        with Workspace(tmp_path).journal("seed-0", {}) as journal:
            journal.entry("loss", dict)
            journal.arrays("rows", dict)

    both()
    path = tmp_path / "seed-0" / name
    path.write_text("{")
    with pytest.raises(ValueError, match=rf"{name} is damaged .*\. Delete it to compute it again"):
        both()
    path.unlink()
    both()


def test_seconds_of_earlier_stages_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "process_time", lambda: now[0])

    def of(seconds: float) -> dict[str, float]:
        now[0] += seconds
        return {}

    def run(n_stages: int) -> float:
        """Run stages of 10 s, 20 s, ..., and return the seconds of those that were there."""
        workspace = Workspace(tmp_path)
        with workspace.journal("seed-0", {}) as journal:
            for k in range(1, n_stages + 1):
                journal.entry(f"stage-{k}", lambda k=k: of(10 * k))
                journal.entry(f"stage-{k}", lambda: pytest.fail("it is there"))  # and not of an earlier process
        return workspace.earlier_seconds

    assert run(2) == 0
    assert now == [30]
    assert run(3) == 30
    assert now == [60]
    assert run(3) == 60
    assert now == [60]


def test_without_its_description_a_run_does_not_resume(tmp_path: Path) -> None:
    with Workspace(tmp_path).journal("seed-0", {}):
        pass
    (tmp_path / "seed-0" / "journal.json").write_text("{")
    with (
        pytest.raises(ValueError, match=r"seed-0.* damaged .*start again"),
        Workspace(tmp_path).journal("seed-0", {}),
    ):
        pass


def test_arrays_of_a_damaged_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "seed-0" / "rows.entry.safetensors"
    with Workspace(tmp_path).journal("seed-0", {}) as journal:
        journal.arrays("rows", lambda: {"a": np.arange(90)})
    assert np.array_equal(read_arrays(path)["a"], np.arange(90))
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ValueError, match=r"rows.entry.safetensors is damaged .*\. Delete it to compute it again"):
        read_arrays(path)


def test_stages_of_long_tasks_are_counted(tmp_path: Path) -> None:
    assert count_stages(tmp_path / "nothing") == 0
    names = (
        "seed-0/journal.json",
        "seed-0/flow/state.entry.json",
        "seed-0/rows.entry.safetensors",
        "seed-1/ratio-x.entry.json",
        "a.json",
    )
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert count_stages(tmp_path) == 2


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text("old")

    def write(text: str) -> None:
        with replacing(path) as temporary:
            temporary.write_text(text)
            assert path.read_text() == "old"
            if not text:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write("")
    assert [one.name for one in tmp_path.iterdir()] == ["results.json"]
    write("new")
    assert path.read_text() == "new"


def test_a_folder_in_the_place_of_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "results.json").mkdir()
    with (
        pytest.raises(OSError, match=r"Cannot write .*results\.json \(.*\)\. Use another --out"),
        replacing(tmp_path / "results.json") as temporary,
    ):
        temporary.write_text("new")
