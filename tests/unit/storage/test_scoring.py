from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from filelock import FileLock
from polars.testing import assert_frame_equal

from flowratio._support.atomic import replacing, short_name
from flowratio._support.journal import Journal
from flowratio.ratios.classifier.classifier import ClassifierRatio
from flowratio.storage.reading import read_table
from flowratio.storage.scoring import ScoringSummary, _log_mean_and_ess, score_file
from flowratio.storage.table_file import TableFile
from flowratio.storage.writing import write_table
from flowratio.weights import cap, effective_sample_size, self_normalize, temper


class Linear:
    """log r = a x1 - x2, by an object that is no estimator; it breaks down after some batches."""

    def __init__(self, a: float = 1.0, n_batches: int = 10**9, error: type[BaseException] = RuntimeError) -> None:
        self.a, self.n_left, self.error = a, n_batches, error
        self.lock = threading.Lock()
        self.sizes: list[int] = []

    def log_ratio(self, frame: pl.DataFrame) -> np.ndarray:
        with self.lock:
            self.n_left -= 1
            self.sizes.append(len(frame))
        if self.n_left < 0:
            raise self.error("broken")
        x = frame.select(pl.col("x1", "x2").cast(pl.Float64)).to_numpy()
        return self.a * x[:, 0] - x[:, 1]


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    X = np.random.default_rng(0).normal(size=(103, 2))
    return pl.DataFrame({"id": [f"r{i}" for i in range(103)], "x1": X[:, 0], "x2": X[:, 1]})


@pytest.fixture
def source(rows: pl.DataFrame, tmp_path: Path) -> Path:
    rows.write_parquet(tmp_path / "rows.parquet", row_group_size=17)
    return tmp_path / "rows.parquet"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def scratch_of(out: Path) -> Path:
    return out.with_name(f".{short_name(out)}.flowratio-partial")


class TestScores:
    def test_they_are_those_of_the_model_in_order(self, rows: pl.DataFrame, source: Path, tmp_path: Path) -> None:
        scored = score_file(Linear(), source, tmp_path / "out.parquet", batch_rows=10)
        log_r = Linear().log_ratio(rows)
        weight = self_normalize(log_r, total=len(rows))
        expected = rows.with_columns(pl.Series("log_ratio", log_r), pl.Series("weight", weight))
        written = read_table(tmp_path / "out.parquet")
        assert_frame_equal(written[["id", "log_ratio"]], expected[["id", "log_ratio"]], check_exact=True)
        assert_frame_equal(written, expected, rel_tol=1e-12)  # the order of a sum of 103 weights
        assert (scored.rows, scored.resumed, scored.note, scored.unseen) == (103, 0, None, {})
        assert scored.effective_sample_size == pytest.approx(effective_sample_size(log_r), rel=1e-12)
        assert names(tmp_path) == ["out.parquet", "rows.parquet"]

    @pytest.mark.parametrize("workers", [1, 2, 3])
    @pytest.mark.parametrize("batch_rows", [1, 50, 103, 1000])
    def test_they_do_not_depend_on_batches_and_workers(
        self, source: Path, tmp_path: Path, workers: int, batch_rows: int
    ) -> None:
        out = tmp_path / "out.parquet"
        score_file(Linear(), source, out, workers=workers, batch_rows=batch_rows)
        written = read_table(out)
        score_file(Linear(), source, out)
        assert_frame_equal(written, read_table(out), rel_tol=1e-12)

    def test_text_gives_the_same_as_types(self, rows: pl.DataFrame, source: Path, tmp_path: Path) -> None:
        rows.write_csv(tmp_path / "rows.csv")
        outs = []
        for name in ("rows.csv", "rows.parquet"):
            score_file(Linear(), tmp_path / name, tmp_path / "out.csv", batch_rows=10)
            outs.append((tmp_path / "out.csv").read_bytes())
        assert outs[0] == outs[1]

    def test_scores_alone(self, source: Path, tmp_path: Path) -> None:
        score_file(Linear(), source, tmp_path / "all.parquet", batch_rows=10)
        score_file(Linear(), source, tmp_path / "only.parquet", batch_rows=10, scores_only=True)
        assert_frame_equal(read_table(tmp_path / "only.parquet"), read_table(tmp_path / "all.parquet")[:, 3:])

    def test_ratios_that_no_float_holds(self, rows: pl.DataFrame, tmp_path: Path) -> None:
        far = rows.with_columns(x2=pl.col("x2") - 5000.0)
        far.write_parquet(tmp_path / "rows.parquet")
        score_file(Linear(), tmp_path / "rows.parquet", tmp_path / "out.parquet", batch_rows=10)
        weight = read_table(tmp_path / "out.parquet")["weight"].to_numpy()
        # log r is near 5000, with steps of 1e-12
        assert weight == pytest.approx(self_normalize(Linear().log_ratio(rows), total=103), rel=1e-11)

    def test_single_precision_is_kept(self, rows: pl.DataFrame, tmp_path: Path) -> None:
        rows.with_columns(pl.col("x1", "x2").cast(pl.Float32)).write_parquet(tmp_path / "rows.parquet")
        score_file(Linear(), tmp_path / "rows.parquet", tmp_path / "out.parquet")
        assert read_table(tmp_path / "out.parquet").dtypes[1:] == [pl.Float32, pl.Float32, pl.Float64, pl.Float64]

    def test_standard_input_and_output(self, rows: pl.DataFrame, tmp_path: Path) -> None:
        code = """
import sys
from flowratio.storage.scoring import score_file
sys.path.insert(0, sys.argv[1])
from test_scoring import Linear
score_file(Linear(), "-", "-", batch_rows=10)
"""
        command = [sys.executable, "-c", code, str(Path(__file__).parent)]
        run = subprocess.run(command, input=rows.write_csv().encode(), capture_output=True, check=True)
        rows.write_csv(tmp_path / "rows.csv")
        score_file(Linear(), tmp_path / "rows.csv", tmp_path / "out.csv", batch_rows=10)
        assert run.stdout == (tmp_path / "out.csv").read_bytes()


@pytest.mark.parametrize(
    ("rows", "effective", "is_said"),
    [(1, 1.0, False), (3, 1.5, True), (3, 2.5, False), (5000, 49.0, True), (5000, 51.0, False)],
)
def test_weights_of_a_few_rows_are_told(rows: int, effective: float, is_said: bool) -> None:
    assert (
        "a few rows have nearly all of the weight" in str(ScoringSummary(rows, 1.0, effective, {}, 0, None))
    ) == is_said


class TestModels:
    def test_a_ratio_of_a_frame_finds_its_columns(self, rows: pl.DataFrame, source: Path, tmp_path: Path) -> None:
        X = rows[["x2", "x1"]]
        ratio = ClassifierRatio().fit_samples(X[:50], X[50:])
        score_file(ratio, source, tmp_path / "out.parquet", batch_rows=10)
        log_r = read_table(tmp_path / "out.parquet")["log_ratio"].to_numpy()
        assert log_r == pytest.approx(ratio.log_ratio(X), rel=1e-12)  # products of other numbers of rows

    @pytest.mark.parametrize("index", ["id", None])
    def test_pandas_finds_its_index_again(self, rows: pl.DataFrame, tmp_path: Path, index: str | None) -> None:
        frame = rows.to_pandas()
        frame["kind"] = pd.Categorical(["a", "b", "a"] * 34 + ["b"])
        frame = frame.set_index(index) if index else frame
        frame.to_parquet(tmp_path / "rows.parquet")
        score_file(Linear(), tmp_path / "rows.parquet", tmp_path / "out.parquet", batch_rows=10)
        written = pd.read_parquet(tmp_path / "out.parquet")
        assert [*written.columns] == [*frame.columns, "log_ratio", "weight"]
        pd.testing.assert_frame_equal(written.drop(columns=["log_ratio", "weight"]), frame, check_exact=True)
        assert written["log_ratio"].to_numpy() == pytest.approx(Linear().log_ratio(rows), abs=0)
        score_file(Linear(), tmp_path / "rows.parquet", tmp_path / "only.parquet", scores_only=True)
        assert [*pd.read_parquet(tmp_path / "only.parquet").columns] == ["log_ratio", "weight"]

    @pytest.mark.parametrize("workers", [1, 2])
    def test_a_bad_cell_is_told_by_its_line(self, tmp_path: Path, workers: int) -> None:
        P, Q = pl.DataFrame({"x": np.arange(27.0)}), pl.DataFrame({"x": np.arange(27.0) + 3})
        ratio = ClassifierRatio("logistic", random_state=0).fit_samples(P, Q)
        rows = pl.DataFrame({"x": [*map(str, range(40)), "old", *map(str, range(10))]})
        for name, place in (("rows.csv", "line 42"), ("rows.parquet", "row 41")):
            write_table([rows], tmp_path / name)
            with pytest.raises(ValueError, match=f"Column 'x' has 'old' in {place} of {tmp_path / name}, which is no"):
                score_file(ratio, tmp_path / name, tmp_path / "out.csv", batch_rows=7, workers=workers)

    def test_numbers_of_a_csv_file_are_read_for_a_ratio_of_numbers(self, rows: pl.DataFrame, tmp_path: Path) -> None:
        X = rows[["x2", "x1"]]
        ratio = ClassifierRatio().fit_samples(X[:50], X[50:])
        rows.write_csv(tmp_path / "rows.csv")
        score_file(ratio, tmp_path / "rows.csv", tmp_path / "out.parquet", batch_rows=10)
        log_r = read_table(tmp_path / "out.parquet")["log_ratio"].to_numpy()
        assert log_r == pytest.approx(ratio.log_ratio(X), rel=1e-12)

    @pytest.mark.parametrize(("cell", "words"), [("", "a missing value"), ("inf", "'inf'"), ("1,5", "'1,5'")])
    def test_a_ratio_of_numbers_needs_finite_numbers(self, tmp_path: Path, cell: str, words: str) -> None:
        P, Q = pl.DataFrame({"x": np.arange(27.0)}), pl.DataFrame({"x": np.arange(27.0) + 3})
        ratio = ClassifierRatio("logistic", random_state=0).fit_samples(P, Q)
        write_table([pl.DataFrame({"x": ["1", "2.5", cell, "3"], "id": list("abcd")})], tmp_path / "rows.csv")
        with pytest.raises(ValueError, match=rf"Column 'x' has {words} in line 4 of .*rows\.csv.*Fix this value"):
            score_file(ratio, tmp_path / "rows.csv", tmp_path / "out.csv")

    @pytest.mark.parametrize(("word", "is_spelling"), [("Clerk", True), ("judge", False)])
    def test_new_categories_that_differ_in_case_get_a_hint(self, tmp_path: Path, word: str, is_spelling: bool) -> None:
        P = pl.DataFrame({"job": ["clerk", "nurse", "clerk"] * 9, "x": np.arange(27.0)})
        Q = pl.DataFrame({"job": ["nurse", "clerk", "nurse"] * 9, "x": np.arange(27.0) + 3})
        ratio = ClassifierRatio("logistic", random_state=0).fit_samples(P, Q)
        Q.with_columns(job=pl.col("job").replace("clerk", word)).write_parquet(tmp_path / "rows.parquet")
        summary = score_file(ratio, tmp_path / "rows.parquet", tmp_path / "out.csv", batch_rows=6)
        assert summary.unseen == {"job": 9}
        text = "Column 'job' has 'Clerk', and 'clerk' at fit. They differ only in case or white space"
        assert (text in str(summary)) == is_spelling
        assert len(summary.to_dict()["hints"]) == is_spelling

    @pytest.mark.parametrize("scores_only", [True, False])
    def test_a_hint_does_not_read_the_file_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scores_only: bool
    ) -> None:
        P = pl.DataFrame({"job": ["clerk", "nurse", "clerk"] * 9, "x": np.arange(27.0)})
        ratio = ClassifierRatio("logistic", random_state=0).fit_samples(P, P.with_columns(x=pl.col("x") + 3))
        P.with_columns(job=pl.col("job").str.to_titlecase()).write_parquet(tmp_path / "rows.parquet")
        frames, requests = TableFile.frames, []

        def counted(table: TableFile, columns: Any = None, rows: int = 0, skip: int = 0) -> Any:
            requests.append(columns)
            return frames(table, columns, rows, skip)

        monkeypatch.setattr(TableFile, "frames", counted)
        arguments: tuple[Any, ...] = (ratio, tmp_path / "rows.parquet", tmp_path / "out.parquet")
        summary = score_file(*arguments, batch_rows=6, scores_only=scores_only)
        assert summary.hints[0].startswith("Column 'job' has 'Clerk', and 'clerk' at fit.")
        assert [names for names in requests if names is not None] == [["job", "x"]]

    def test_a_table_ratio_counts_what_is_new(self, tmp_path: Path) -> None:
        P = pl.DataFrame({"job": ["clerk", "nurse", "clerk"] * 9, "x": np.arange(27.0)})
        Q = pl.DataFrame({"job": ["nurse", "clerk", "nurse"] * 9, "x": np.arange(27.0) + 3})
        ratio = ClassifierRatio("logistic", random_state=0).fit_samples(P, Q)
        Q[:20].with_columns(job=pl.when(pl.col("x") < 10).then(pl.lit("judge")).otherwise("job")).write_csv(
            tmp_path / "rows.csv"
        )
        scored = score_file(ratio, tmp_path / "rows.csv", tmp_path / "out.csv", batch_rows=6)
        assert scored.unseen == {"job": 7}
        assert "unseen at fit: 7 rows of 'job'" in str(scored)
        assert json.loads(json.dumps(scored.to_dict()))["rows"] == 20
        with pytest.warns(UserWarning, match="job"):
            log_r = ratio.log_ratio(read_table(tmp_path / "rows.csv"))
        written = read_table(tmp_path / "out.csv")["log_ratio"].cast(pl.Float64).to_numpy()
        assert written == pytest.approx(log_r, rel=1e-12)


class TestResuming:
    @pytest.mark.parametrize("ending", ["csv", "parquet"])
    @pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
    def test_a_run_that_broke_down_goes_on(
        self, rows: pl.DataFrame, source: Path, tmp_path: Path, ending: str, error: type[BaseException]
    ) -> None:
        whole, out = tmp_path / f"whole.{ending}", tmp_path / f"out.{ending}"
        rows.write_csv(tmp_path / "rows.csv")
        source = tmp_path / f"rows.{ending}"
        score_file(Linear(), source, whole, batch_rows=10)
        out.write_text("old")
        with pytest.raises(error):
            score_file(Linear(n_batches=5, error=error), source, out, batch_rows=10, workers=1)
        assert out.read_text() == "old"
        model = Linear()
        scored = score_file(model, source, out, batch_rows=10)
        assert scored.resumed == 50
        assert "resumed: 50 rows" in str(scored)
        assert sorted(model.sizes) == [3] + [10] * 6  # the first batch, to know the model, and those to do
        assert out.read_bytes() == whole.read_bytes()
        assert not [name for name in names(tmp_path) if name.startswith(".")]

    def test_counts_of_new_levels_are_kept(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        P = pl.DataFrame({"job": ["clerk", "nurse"] * 9, "x": np.arange(18.0)})
        ratio = ClassifierRatio("logistic", random_state=0).fit_samples(P, P.with_columns(x=pl.col("x") + 2))
        P.with_columns(job=pl.lit("Clerk")).write_csv(tmp_path / "rows.csv")
        arguments: tuple[Any, ...] = (ratio, tmp_path / "rows.csv", tmp_path / "out.csv")

        def fail(*_: Any) -> None:
            raise RuntimeError

        with monkeypatch.context() as patched:
            patched.setattr("flowratio.storage.scoring.write_table", fail)
            with pytest.raises(RuntimeError):
                score_file(*arguments, batch_rows=5)
        scored = score_file(*arguments, batch_rows=5)
        assert (scored.resumed, scored.unseen) == (18, {"job": 18})
        assert scored.hints[0].startswith("Column 'job' has 'Clerk', and 'clerk' at fit.")

    @pytest.mark.parametrize("change", ["model", "source", "batch_rows", "model_folder"])
    def test_another_run_starts_anew(self, rows: pl.DataFrame, source: Path, tmp_path: Path, change: str) -> None:
        folder, out = tmp_path / "model", tmp_path / "out.parquet"
        folder.mkdir()
        (folder / "model.json").write_text("one")
        with pytest.raises(RuntimeError):
            score_file(Linear(n_batches=5), source, out, model_folder=folder, batch_rows=10)
        if change == "model_folder":
            (folder / "model.json").write_text("other")
        if change == "source":
            rows[::-1].write_parquet(source)
        batch_rows, model = 11 if change == "batch_rows" else 10, Linear(2.0 if change == "model" else 1.0)
        scored = score_file(model, source, out, model_folder=folder, batch_rows=batch_rows)
        assert scored.resumed == 0
        assert scored.note is not None
        assert scored.note in str(scored)
        score_file(model, source, tmp_path / "fresh.parquet", batch_rows=batch_rows)
        assert out.read_bytes() == (tmp_path / "fresh.parquet").read_bytes()

    @pytest.mark.parametrize("damage", ["half a line", "half a batch", "other values", "no manifest"])
    def test_a_damaged_scratch_folder_is_used_as_far_as_it_is_whole(
        self, source: Path, tmp_path: Path, damage: str
    ) -> None:
        out, scratch = tmp_path / "out.parquet", scratch_of(tmp_path / "out.parquet")
        score_file(Linear(), source, tmp_path / "whole.parquet", batch_rows=10)
        with pytest.raises(RuntimeError):
            score_file(Linear(n_batches=5), source, out, batch_rows=10, workers=1)
        lines, values = scratch / "log_ratio.batches.jsonl", scratch / "log_ratio.batches.f64"
        if damage == "half a line":
            lines.write_bytes(lines.read_bytes()[:-5])
        elif damage == "half a batch":
            values.write_bytes(values.read_bytes()[:-40])
        elif damage == "other values":
            values.write_bytes(values.read_bytes()[:170] + b"?" * 8 + values.read_bytes()[178:])
        else:
            (scratch / "journal.json").unlink()
        scored = score_file(Linear(), source, out, batch_rows=10)
        assert scored.resumed == {"half a line": 40, "half a batch": 40, "other values": 20, "no manifest": 0}[damage]
        assert out.read_bytes() == (tmp_path / "whole.parquet").read_bytes()

    def test_what_a_kill_while_writing_left_is_removed(self, source: Path, tmp_path: Path) -> None:
        with replacing(tmp_path / "out.parquet") as temporary:
            (tmp_path / "left").write_text(temporary.name)
        (tmp_path / (tmp_path / "left").read_text()).touch()
        score_file(Linear(), source, tmp_path / "out.parquet")
        assert names(tmp_path) == ["left", "out.parquet", "rows.parquet"]


class TestTwoRuns:
    """A run that waits in the midst of its rows, or of its writing, while another one starts."""

    def meanwhile(self, source: Path, out: Path, other: Callable[[], Any]) -> None:
        class Waiting(Linear):
            def log_ratio(self, frame: pl.DataFrame) -> np.ndarray:
                if len(self.sizes) == 5:
                    other()
                return super().log_ratio(frame)

        score_file(Waiting(), source, out, batch_rows=10, workers=1)

    @pytest.mark.skipif(sys.platform == "win32", reason="there is no flock")
    @pytest.mark.parametrize("kind", ["file", "pipe"])
    def test_the_same_output_is_refused(self, rows: pl.DataFrame, source: Path, tmp_path: Path, kind: str) -> None:
        out, refused = tmp_path / "out.parquet", []

        def other() -> None:
            given = source
            if kind == "pipe":
                given = tmp_path / "pipe"
                os.mkfifo(given)
                threading.Thread(target=given.write_bytes, args=(rows.write_csv().encode(),)).start()
            with pytest.raises(
                BlockingIOError, match=r"^Another run is writing .*out\.parquet\. Wait until it ends, or "
            ):
                score_file(Linear(), given, out, batch_rows=10)
            refused.append(given)

        self.meanwhile(source, out, other)
        assert len(refused) == 1
        assert read_table(out)["id"].to_list() == rows["id"].to_list()
        assert {*names(tmp_path)} - {"pipe"} == {"out.parquet", "rows.parquet"}

    def test_names_with_the_same_end_are_apart(self, rows: pl.DataFrame, source: Path, tmp_path: Path) -> None:
        east, west = (tmp_path / f"{side}{'_scored' * 8}.parquet" for side in ("east", "west"))
        self.meanwhile(source, east, lambda: score_file(Linear(2.0), source, west, batch_rows=10))
        for a, out in ((1.0, east), (2.0, west)):
            log_r = Linear(a).log_ratio(rows)
            assert read_table(out)["log_ratio"].to_numpy() == pytest.approx(log_r, rel=1e-12)
        assert names(tmp_path) == sorted([east.name, west.name, "rows.parquet"])

    def test_without_locks_rows_are_counted(
        self, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def acquire(*_: Any, **__: Any) -> None:
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr(FileLock, "acquire", acquire)
        out = tmp_path / "out.parquet"

        def other() -> None:
            with open(scratch_of(out) / "log_ratio.batches.f64", "ab") as values:
                values.write(bytes(80))

        with pytest.raises(ValueError, match=r"has 113 values, but this run wrote 103\. Another run wrote there"):
            self.meanwhile(source, out, other)
        assert names(tmp_path) == ["rows.parquet"]

    @pytest.mark.skipif(sys.platform == "win32", reason="there is no flock")
    def test_the_lock_of_a_run_that_ended_meanwhile_is_no_lock(
        self, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import fcntl

        out, ended = tmp_path / "out.parquet", []

        def flock(handle: int, operation: int) -> None:
            if not ended:  # between the opening of its lock and this
                (scratch_of(out) / "journal.lock").unlink()
                scratch_of(out).rmdir()
                ended.append(handle)
            own_flock(handle, operation)

        own_flock = fcntl.flock
        monkeypatch.setattr(fcntl, "flock", flock)
        with Journal(scratch_of(out), {}) as journal:
            with pytest.raises(BlockingIOError, match="Another run"):
                Journal(scratch_of(out), {})
            journal.clear()
        assert len(ended) == 1
        assert names(tmp_path) == ["rows.parquet"]


CHILD = """
import sys, time
from flowratio.storage.scoring import score_file
sys.path.insert(0, sys.argv[1])
from test_scoring import Linear

class Slow(Linear):
    def log_ratio(self, frame):
        time.sleep(0.02)
        return super().log_ratio(frame)

score_file(Slow(), sys.argv[2], sys.argv[3], batch_rows=2)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_run_that_is_killed_goes_on(rows: pl.DataFrame, source: Path, tmp_path: Path) -> None:
    out, lines = tmp_path / "out.parquet", scratch_of(tmp_path / "out.parquet") / "log_ratio.batches.jsonl"
    command = [sys.executable, "-c", CHILD, str(Path(__file__).parent), str(source), str(out)]
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})
    while process.poll() is None and not (lines.exists() and lines.read_bytes().count(b"\n") >= 5):
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not out.exists()
    scored = score_file(Linear(), source, out, batch_rows=2)
    assert 10 <= scored.resumed < 103
    score_file(Linear(), source, tmp_path / "whole.parquet", batch_rows=2)
    assert out.read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert names(tmp_path) == ["out.parquet", "rows.parquet", "whole.parquet"]


class TestRefused:
    def refused(self, source: Path, out: Path, words: str, model: Any = None, **settings: Any) -> None:
        before = names(source.parent)
        with pytest.raises((ValueError, OSError), match=words):
            score_file(model or Linear(), source, out, **settings)
        assert names(source.parent) == before

    def test_settings(self, source: Path, tmp_path: Path) -> None:
        self.refused(source, tmp_path / "out.csv", "`workers` is 0", workers=0)
        self.refused(source, tmp_path / "out.csv", "`batch_rows` is 0", batch_rows=0)
        self.refused(source, tmp_path / "out.xlsx", r"must end with \.csv or \.parquet")
        self.refused(source, tmp_path / "none" / "out.csv", "Make sure that its folder exists")

    def test_columns(self, rows: pl.DataFrame, source: Path, tmp_path: Path) -> None:
        ratio = ClassifierRatio().fit_samples(rows[["x1", "x2"]][:50], rows[["x1", "x2"]][50:])
        rows.drop("x2").write_parquet(source)
        self.refused(source, tmp_path / "out.csv", "has no column 'x2'.* all 2 columns", ratio)
        rows.rename({"id": "weight"}).write_parquet(source)
        self.refused(source, tmp_path / "out.csv", "has a column 'weight', which the scores would replace")
        score_file(Linear(), source, tmp_path / "out.csv", scores_only=True)

    def test_rows_that_are_bad_leave_nothing(self, rows: pl.DataFrame, source: Path, tmp_path: Path) -> None:
        path = tmp_path / "bad.csv"
        path.write_text(rows.write_csv() + "1,2\n")
        self.refused(path, tmp_path / "out.csv", "has 2 values in line 105", batch_rows=10)
        rows.with_columns(x1=pl.lit(float("nan"))).write_parquet(source)
        self.refused(source, tmp_path / "out.csv", "103 of them not finite. It must return one finite value per row")

    @pytest.mark.parametrize("n_rows", [90, 99, 101, 110])
    def test_a_source_that_changes_meanwhile(
        self, rows: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_rows: int
    ) -> None:
        path, out = tmp_path / "rows.csv", tmp_path / "out.csv"
        rows[:100].write_csv(path)

        def meanwhile(frames: Any, target: Path, metadata: Any, separator: str) -> None:
            pl.concat([rows, rows])[:n_rows].write_csv(path)
            write_table(frames, target, metadata, separator)

        monkeypatch.setattr("flowratio.storage.scoring.write_table", meanwhile)
        with pytest.raises(ValueError, match="was changed while it was read"):
            score_file(Linear(), path, out, batch_rows=10)
        assert names(tmp_path) == ["rows.csv"]


@pytest.mark.parametrize("shift", [0.0, 5000.0, -5000.0])
@pytest.mark.parametrize("order", [np.sort, lambda x: np.sort(x)[::-1]])
def test_sums_in_one_pass(shift: float, order: Callable[[np.ndarray], np.ndarray]) -> None:
    log_r = order(np.random.default_rng(1).normal(scale=30.0, size=1000)) + shift
    log_mean, ess = _log_mean_and_ess(np.array_split(log_r, 7))
    # log r has steps of up to 1e-12 there
    assert log_mean == pytest.approx(np.logaddexp.reduce(log_r) - np.log(1000), rel=1e-12)
    assert ess == pytest.approx(effective_sample_size(log_r), rel=1e-10)


@pytest.mark.parametrize(("gamma", "largest"), [(0.5, None), (1.0, 2.0), (0.7, 1.5)])
def test_weights_are_flattened_and_truncated(gamma: float, largest: float | None, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    P, Q = (pl.DataFrame({"x": rng.normal(mean, 1, 500)}) for mean in (1.5, 0.0))
    ratio = ClassifierRatio("logistic").fit_samples(P, Q)
    Q.write_parquet(tmp_path / "q.parquet")
    settings = {"gamma": gamma, "largest": largest, "batch_rows": 64}
    found = score_file(ratio, tmp_path / "q.parquet", tmp_path / "out.parquet", **settings)  # pyright: ignore[reportArgumentType]
    log_w = temper(ratio.log_ratio(Q), gamma)
    log_w = log_w if largest is None else cap(log_w, largest)
    written = pl.read_parquet(tmp_path / "out.parquet")
    np.testing.assert_allclose(written["weight"], self_normalize(log_w, total=500), rtol=1e-9)
    np.testing.assert_allclose(written["log_ratio"], ratio.log_ratio(Q), rtol=1e-12)
    assert found.effective_sample_size == pytest.approx(effective_sample_size(log_w), rel=1e-9)


@pytest.mark.parametrize("settings", [{"gamma": -1.0}, {"largest": 0.0}])
def test_bad_weights_are_refused_before_any_row_is_read(settings: dict[str, float], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        score_file(None, tmp_path / "none.csv", tmp_path / "out.csv", **settings)  # pyright: ignore[reportArgumentType]


class TestParts:
    @pytest.fixture(params=["parquet", "csv"])
    def folder(self, rows: pl.DataFrame, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
        folder = tmp_path / "rows"
        folder.mkdir()
        for k, start in enumerate(range(0, 103, 30)):
            part = rows[start : start + 30]
            path = folder / f"part-{k}.{request.param}"
            part.write_csv(path) if request.param == "csv" else part.write_parquet(path)
        return folder

    def test_a_folder_is_scored_like_one_file(self, source: Path, folder: Path, tmp_path: Path) -> None:
        score_file(Linear(), source, tmp_path / "whole.csv", batch_rows=10)
        for path in (folder, f"{folder}/part-*"):
            score_file(Linear(), path, tmp_path / "out.csv", batch_rows=10)
            assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()

    def test_a_run_that_broke_down_resumes(self, folder: Path, tmp_path: Path) -> None:
        score_file(Linear(), folder, tmp_path / "whole.csv", batch_rows=10)
        with pytest.raises(RuntimeError):
            score_file(Linear(n_batches=5), folder, tmp_path / "out.csv", batch_rows=10, workers=1)
        summary = score_file(Linear(), folder, tmp_path / "out.csv", batch_rows=10)
        assert summary.resumed == 50
        assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()

    def test_another_part_starts_again(self, folder: Path, tmp_path: Path) -> None:
        with pytest.raises(RuntimeError):
            score_file(Linear(n_batches=5), folder, tmp_path / "out.csv", batch_rows=10, workers=1)
        last = sorted(folder.iterdir())[-1]
        last.rename(last.with_name(f"part-9{last.suffix}"))
        summary = score_file(Linear(), folder, tmp_path / "out.csv", batch_rows=10)
        assert (summary.resumed, summary.rows) == (0, 103)
        assert summary.note is not None

    def test_a_bad_cell_is_named_by_its_part(self, folder: Path, rows: pl.DataFrame, tmp_path: Path) -> None:
        ratio = ClassifierRatio("logistic").fit_samples(rows[["x1"]], rows[["x1"]] + 1)
        path, bad = sorted(folder.iterdir())[1], rows[30:60].with_columns(x1=pl.when(pl.col("id") != "r41").then("x1"))
        bad.write_csv(path) if path.suffix == ".csv" else bad.write_parquet(path)
        place = f"line 13 of {path}" if path.suffix == ".csv" else f"row 12 of {path}"
        with pytest.raises(ValueError, match=f"Column 'x1' has a missing value in {place}"):
            score_file(ratio, folder, tmp_path / "out.csv", batch_rows=7)

    def test_the_output_is_not_the_source(self, tmp_path: Path) -> None:
        rows = pl.DataFrame({"x1": [0.0, 1.0, 2.0, 3.0]})
        rows.write_csv(tmp_path / "rows.csv")
        ratio = ClassifierRatio("logistic").fit_samples(rows, rows + 1)
        with pytest.raises(ValueError, match=r"rows\.csv is the file to score, and would be replaced"):
            score_file(ratio, tmp_path / "rows.csv", tmp_path / "rows.csv")
        assert pl.read_csv(tmp_path / "rows.csv").columns == ["x1"]

    def test_the_output_is_not_a_part(self, folder: Path, tmp_path: Path) -> None:
        first = sorted(folder.iterdir())[0]
        for path, out in ((folder, folder / "out.csv"), (f"{folder}/part*", first)):
            with pytest.raises(ValueError, match=r"would be a part of .* Write to a file in another folder"):
                score_file(Linear(), path, out)
        score_file(Linear(), f"{folder}/part*", folder / "out.csv")
