from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

from flowratio._support.journal import Journal

ABOUT = {"seed": 0, "rows": [10, 2]}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def never() -> Any:
    raise AssertionError("it is there already")


class TestEntries:
    def test_they_are_computed_once(self, tmp_path: Path) -> None:
        X = np.arange(6, dtype=np.float32).reshape(2, 3).T
        with Journal(tmp_path / "run", ABOUT) as journal:
            assert not journal.has("scores")
            assert journal.entry("scores", lambda: {"a": (1, 2)}) == {"a": [1, 2]}
            journal.arrays("rows", lambda: {"X": X, "y": np.array([True, False])})
        with Journal(tmp_path / "run", ABOUT) as journal:
            assert journal.entry("scores", never) == {"a": [1, 2]}
            arrays = journal.arrays("rows", never)
            assert np.array_equal(arrays["X"], X)
            assert arrays["X"].dtype == np.float32
            assert arrays["y"].tolist() == [True, False]

    def test_one_is_replaced_as_a_whole(self, tmp_path: Path) -> None:
        with Journal(tmp_path, ABOUT) as journal:
            journal.write("state", {"step": 1}, {"w": np.zeros(3)})
            journal.write("state", {"step": 2}, {"w": np.ones(3)})
            entry = journal.read("state")
        assert entry.value == {"step": 2}
        assert entry.arrays["w"].tolist() == [1.0, 1.0, 1.0]
        assert names(tmp_path) == ["journal.json", "state.entry.safetensors"]

    def test_the_time_of_an_earlier_process_is_recorded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = iter([10.0, 12.5])
        monkeypatch.setattr("flowratio._support.journal.time.process_time", lambda: next(clock))
        with Journal(tmp_path, ABOUT) as journal:
            journal.entry("mean", lambda: 1.0)
            assert journal.read("mean").seconds == 2.5

    def test_one_whose_computation_fails_is_not_there(self, tmp_path: Path) -> None:
        with Journal(tmp_path, ABOUT) as journal:
            with pytest.raises(AssertionError):
                journal.entry("mean", never)
            assert not journal.has("mean")

    @pytest.mark.parametrize("ending", ["json", "safetensors"])
    @pytest.mark.parametrize("content", [b"", b"[]", b"{", b"other"])
    def test_a_damaged_one_is_refused(self, tmp_path: Path, ending: str, content: bytes) -> None:
        with Journal(tmp_path, ABOUT) as journal:
            (tmp_path / f"mean.entry.{ending}").write_bytes(content)
            with pytest.raises(ValueError, match=rf"mean\.entry\.{ending} is damaged .*Delete it to compute it again"):
                journal.read("mean")

    def test_what_a_kill_left_is_removed(self, tmp_path: Path) -> None:
        Journal(tmp_path, ABOUT).close()
        for name in ("mean.entry.json", "journal.json", "model.json"):  # the last one is of another writer
            (tmp_path / f".0123abcd.0123abcd.{name}").write_text("half")
        with Journal(tmp_path, ABOUT):
            assert names(tmp_path) == [".0123abcd.0123abcd.model.json", "journal.json", "journal.lock"]


class TestRuns:
    def test_another_run_is_refused_and_nothing_changes(self, tmp_path: Path) -> None:
        with Journal(tmp_path, ABOUT) as journal:
            journal.entry("mean", lambda: 1.0)
        with pytest.raises(ValueError, match=r"belongs to another run. It differs in name, seed\. Use another folder"):
            Journal(tmp_path, {**ABOUT, "seed": 1, "name": "x"})
        with Journal(tmp_path, ABOUT) as journal:
            assert journal.entry("mean", never) == 1.0

    def test_another_run_is_cleared_on_request(self, tmp_path: Path) -> None:
        with Journal(tmp_path, ABOUT) as journal:
            journal.entry("mean", lambda: 1.0)
            assert not journal.is_restarted
        with Journal(tmp_path, {"seed": 1}, restart=True) as journal:
            assert journal.is_restarted
            assert journal.entry("mean", lambda: 2.0) == 2.0

    @pytest.mark.parametrize("content", [None, b"", b"[]", b"{}", b'{"format": "other", "about": {}}'])
    def test_a_damaged_manifest(self, tmp_path: Path, content: bytes | None) -> None:
        with Journal(tmp_path, ABOUT) as journal:
            journal.entry("mean", lambda: 1.0)
        (tmp_path / "journal.json").unlink() if content is None else (tmp_path / "journal.json").write_bytes(content)
        with pytest.raises(ValueError, match="is not the journal of a run, or is damaged"):
            Journal(tmp_path, ABOUT)
        with Journal(tmp_path, ABOUT, restart=True) as journal:
            assert journal.is_restarted
            assert not journal.has("mean")

    def test_clear_leaves_other_files_and_enters_subfolders(self, tmp_path: Path) -> None:
        files = {"a.jsonl", "b.f64", "c.safetensors", "config.json", "lock", "mine/journal.json"}
        (tmp_path / "mine").mkdir()
        for name in files:
            (tmp_path / name).write_text("mine")
        with Journal(tmp_path, ABOUT) as journal, Journal(tmp_path / "flow", ABOUT) as below:
            journal.entry("mean", lambda: 1.0)
            below.entry("mean", lambda: 1.0)
            below.close()
            journal.batches("log_ratio").append(np.ones(2))
            journal.restart()
            assert names(tmp_path) == sorted({*files, "mine", "journal.json", "journal.lock"} - {"mine/journal.json"})
            journal.clear()
        Journal(tmp_path, {"seed": 1}, restart=True).close()
        assert all((tmp_path / name).read_text() == "mine" for name in files)


class TestLock:
    def test_a_second_run_is_refused_until_the_first_one_ends(self, tmp_path: Path) -> None:
        with Journal(tmp_path, ABOUT):
            with pytest.raises(BlockingIOError, match=rf"^Another run is writing {tmp_path}\. Wait until it ends"):
                Journal(tmp_path, ABOUT)
            with pytest.raises(BlockingIOError, match=r"^Another run is writing out\.csv"):
                Journal(tmp_path, ABOUT, label="out.csv")
        Journal(tmp_path, ABOUT).close()

    def test_a_refused_journal_is_not_locked(self, tmp_path: Path) -> None:
        Journal(tmp_path, ABOUT).close()
        with pytest.raises(ValueError, match="another run"):
            Journal(tmp_path, {})
        Journal(tmp_path, ABOUT).close()

    def test_a_file_system_without_locks(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def acquire(*_: Any, **__: Any) -> None:
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr(FileLock, "acquire", acquire)
        with Journal(tmp_path, ABOUT) as journal:
            assert journal.entry("mean", lambda: 1.0) == 1.0

    @pytest.mark.parametrize("below", ["", "folder"])
    def test_a_folder_that_cannot_be_made(self, tmp_path: Path, below: str) -> None:
        (tmp_path / "file").write_text("not a folder")
        with pytest.raises(OSError, match=r"Cannot write to .*file.* Use a folder that can be written"):
            Journal(tmp_path / "file" / below, ABOUT)

    def test_an_empty_folder_is_removed(self, tmp_path: Path) -> None:
        with Journal(tmp_path / "run", ABOUT) as journal:
            journal.clear()
        assert names(tmp_path) == []


class TestBatches:
    def filled(self, journal: Journal) -> None:
        batches = journal.batches("log_ratio")
        for k in range(3):
            batches.append(np.full(4, float(k)), {"k": k})

    def test_they_survive(self, tmp_path: Path) -> None:
        with Journal(tmp_path, ABOUT) as journal:
            self.filled(journal)
        with Journal(tmp_path, ABOUT) as journal:
            batches = journal.batches("log_ratio")
            batches.check()
            assert (batches.n_values, batches.notes) == (12, [{"k": 0}, {"k": 1}, {"k": 2}])
            assert [len(block) for block in batches.blocks(5)] == [5, 5, 2]
            assert np.concatenate([*batches.blocks(5)]).tolist() == [0.0] * 4 + [1.0] * 4 + [2.0] * 4

    @pytest.mark.parametrize(
        ("damage", "n_values"), [("half a line", 8), ("half a batch", 8), ("other values", 4), ("other line", 4)]
    )
    def test_what_is_incomplete_is_cut_off(self, tmp_path: Path, damage: str, n_values: int) -> None:
        with Journal(tmp_path, ABOUT) as journal:
            self.filled(journal)
        lines, values = tmp_path / "log_ratio.batches.jsonl", tmp_path / "log_ratio.batches.f64"
        if damage == "half a line":
            lines.write_bytes(lines.read_bytes()[:-5])
        elif damage == "half a batch":
            values.write_bytes(values.read_bytes()[:-8])
        elif damage == "other values":
            values.write_bytes(values.read_bytes()[:40] + b"?" * 8 + values.read_bytes()[48:])
        else:
            text = lines.read_text().splitlines()
            lines.write_text("\n".join([text[0], json.dumps({"values": 4}), text[2], ""]))
        with Journal(tmp_path, ABOUT) as journal:
            batches = journal.batches("log_ratio")
            assert batches.n_values == n_values
            assert values.stat().st_size == 8 * n_values
            batches.append(np.ones(2))
        with Journal(tmp_path, ABOUT) as journal:
            assert journal.batches("log_ratio").n_values == n_values + 2

    def test_values_of_another_run_are_noticed(self, tmp_path: Path) -> None:
        with Journal(tmp_path, ABOUT) as journal:
            self.filled(journal)
            batches = journal.batches("log_ratio")
            with open(tmp_path / "log_ratio.batches.f64", "ab") as file:
                file.write(bytes(16))
            with pytest.raises(ValueError, match=r"has 14 values, but this run wrote 12\. Another run wrote there"):
                batches.check()
