from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from flowratio_paper.stages import Stages, earlier_seconds, read_arrays


def test_a_stage_is_run_once(tmp_path: Path) -> None:
    first, again = Stages(tmp_path / "new", {"seed": 0}), Stages(tmp_path / "new", {"seed": 0})
    assert first.numbers("loss", lambda: {"value": 0.1, "name": "γ"}) == {"value": 0.1, "name": "γ"}
    assert again.numbers("loss", lambda: pytest.fail("it is there")) == {"value": 0.1, "name": "γ"}
    made = {"a": np.arange(3), "b": np.array(0.5)}
    first.arrays("rows", lambda: made)
    kept = again.arrays("rows", lambda: pytest.fail("they are there"))
    assert kept.keys() == made.keys()
    assert all(np.array_equal(kept[name], made[name]) for name in made)


def test_a_stage_that_fails_leaves_nothing(tmp_path: Path) -> None:
    stages = Stages(tmp_path, {"seed": 0})
    with pytest.raises(ZeroDivisionError):
        stages.numbers("broken", lambda: {"value": 1 // 0})
    with pytest.raises(ZeroDivisionError):
        stages.arrays("broken", lambda: {"value": np.array(1 // 0)})
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_what_another_run_left_is_refused(tmp_path: Path) -> None:
    Stages(tmp_path, {"seed": 0, "classes": 10, "hidden": (1, 2)})
    Stages(tmp_path, {"seed": 0, "classes": 10, "hidden": (1, 2)})
    with pytest.raises(ValueError, match=r"checkpoints of another run: it differs in classes, seed. Delete the folder"):
        Stages(tmp_path, {"seed": 1, "classes": 20, "hidden": (1, 2)})


@pytest.mark.parametrize("name", ["loss.json", "rows.npz", "loss.json.seconds", "rows.npz.seconds"])
def test_a_damaged_file_is_named(name: str, tmp_path: Path) -> None:
    stages = Stages(tmp_path, {})

    def both() -> None:
        with earlier_seconds():
            stages.numbers("loss", dict)
            stages.arrays("rows", dict)

    both()
    (tmp_path / name).write_text("{")
    with pytest.raises(ValueError, match=rf"{name} is damaged .*: delete it to make it again"):
        both()
    (tmp_path / name).unlink()
    both()


def test_what_a_stage_took_is_kept_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "process_time", lambda: now[0])

    def of(seconds: float) -> dict[str, float]:
        now[0] += seconds
        return {}

    def run(n_stages: int) -> float:
        """Run stages of 10 s, 20 s, ..., and return the seconds of those that were there."""
        stages = Stages(tmp_path, {})
        with earlier_seconds() as earlier:
            for k in range(1, n_stages + 1):
                stages.numbers(f"stage-{k}", lambda k=k: of(10 * k))
                stages.numbers(f"stage-{k}", lambda: pytest.fail("it is there"))  # and not of an earlier process
        return sum(earlier.values())

    assert run(2) == 0
    assert now == [30]
    assert run(3) == 30
    assert now == [60]
    assert run(3) == 60
    assert now == [60]


def test_without_what_tells_it_from_others_a_run_is_not_gone_on_with(tmp_path: Path) -> None:
    Stages(tmp_path / "seed-0", {})
    (tmp_path / "seed-0" / "run.json").write_text("{")
    with pytest.raises(ValueError, match=r"run.json is damaged .*: delete the folder .*seed-0 to make it again"):
        Stages(tmp_path / "seed-0", {})


def test_arrays_that_cannot_be_unpacked_are_damaged(tmp_path: Path) -> None:
    stages = Stages(tmp_path, {})
    made = {"a": np.arange(90)}
    stages.arrays("rows", lambda: made)
    path, n_damaged = tmp_path / "rows.npz", 0
    whole = path.read_bytes()
    for k in range(len(whole)):  # a byte of headers, of what is packed, of checksums, of the index at the end
        path.write_bytes(whole[:k] + bytes([whole[k] ^ 0xFF]) + whole[k + 1 :])
        try:
            (found,) = stages.arrays("rows", dict).values()
        except ValueError as error:
            assert "rows.npz is damaged" in str(error)  # noqa: PT017 - some bytes, as of dates, do not matter
            n_damaged += 1
        else:
            assert np.array_equal(found, made["a"])
    assert n_damaged > len(whole) / 2


def test_an_array_that_stands_alone_is_no_file_of_a_stage(tmp_path: Path) -> None:
    with (tmp_path / "rows.npz").open("wb") as file:
        np.save(file, np.arange(3))
    with pytest.raises(ValueError, match=r"rows.npz is damaged .*: delete it to make it again"):
        read_arrays(tmp_path / "rows.npz")
