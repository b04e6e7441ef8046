r"""Streams of rows through a fitted ratio: log r and weights of files that no memory holds.

A weight is a row's ratio over the mean of all rows,

.. math:: w_i = r(x_i) \Big/ \frac1n \sum_j r(x_j)

so that a file is read twice: once for log r, which is kept in a scratch folder beside the output, once to write it
with both columns. A run that was killed goes on from its scratch folder, which one run at a time may use.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
import time
import warnings
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from itertools import count, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np
import polars as pl

import flowratio
from flowratio._support.atomic import beside, remove_temporaries
from flowratio._support.errors import ArgumentError
from flowratio._support.progress import progress
from flowratio._support.validation import is_count
from flowratio._support.wording import listed
from flowratio.ratios.table_ratio import TableRatio, UnseenWarning
from flowratio.storage.csv_layout import safe_separator
from flowratio.storage.reading import BATCH_ROWS, Table, is_stream, open_table
from flowratio.storage.writing import TABLE_ENDINGS, check_output, check_types, with_numbers, write_table
from flowratio.tables.cells import CellError
from flowratio.weights import flatten, truncate

if sys.platform == "win32":
    fcntl = None
else:
    import fcntl

Item = TypeVar("Item")
Result = TypeVar("Result")
_ADDED = ("log_ratio", "weight")
_LOCK = "lock"
_FEW_DRAWS, _FEW_OF_ROWS = 2.0, 0.01  # effective rows, and their share, below which weights are those of a few rows


@dataclass(frozen=True)
class Scored:
    """What `score_file` did.

    Parameters
    ----------
    rows
        Rows that were written.
    seconds
        Time that it took.
    effective_sample_size
        How many equally weighted rows the weights are worth.
    unseen
        Rows, by column, with a level or a gap that was not there at fit.
    resumed
        Rows whose log r was there already, from a run that did not end.
    note
        What became of an earlier run that did not end, if it could not be used.
    """

    rows: int
    seconds: float
    effective_sample_size: float
    unseen: dict[str, int]
    resumed: int
    note: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        share = self.effective_sample_size / self.rows
        lines = [
            f"rows: {self.rows:,} in {self.seconds:.1f} s",
            f"effective sample size of the weights: {self.effective_sample_size:,.0f} ({share:.1%} of the rows)",
        ]
        if self.rows > 1 and self.effective_sample_size < max(_FEW_DRAWS, _FEW_OF_ROWS * self.rows):
            lines.append(
                "a few rows have nearly all of the weight: look at those with the largest `log_ratio`, which may be "
                "errors, and flatten or truncate the weights"
            )
        if self.resumed:
            lines.append(f"resumed: {self.resumed:,} rows were scored before")
        lines += [f"unseen at fit: {n:,} row{'s' * (n != 1)} of {name!r}" for name, n in self.unseen.items()]
        return "\n".join([*lines, *([self.note] if self.note else [])])


def score_file(
    model: Any,
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    model_folder: str | os.PathLike[str] | None = None,
    gamma: float = 1.0,
    largest: float | None = None,
    scores_only: bool = False,
    batch_rows: int = BATCH_ROWS,
    workers: int = 2,
    verbose: bool = False,
) -> Scored:
    r"""Add `log_ratio`, in nats, and `weight`, of mean 1, to each row of a file of any size; r = p/q, p is y = 1.

    Rows leave in their order; memory holds a few batches. The output is whole or as it was before. A run that was
    killed goes on where it was if it is started again with the same model, source and output; standard input cannot be
    resumed. While a run is at work, another one to the same output is refused.

    Parameters
    ----------
    model
        A fitted `TableRatio`, or another object with `log_ratio(frame)`, finite, such as a ratio that was fitted to a
        data frame.
    source
        CSV, Parquet, NPY, NPZ, or "-" for standard input, as of `read_table`.
    out
        A file that ends with .csv or .parquet, or "-" for CSV on standard output. CSV has the separator of a CSV
        source; durations of Parquet are seconds in it.
    model_folder
        The folder from which the model was loaded: a run is resumed only if it holds the same model still. Without it,
        models are told apart by their log r of the first batch.
    gamma
        The weight is of r^γ, as of `flatten`: below 1, more rows count, and the balance is less.
    largest
        Weights above this cap, in units of their mean, are lowered to it, as of `truncate`; None for no cap.
    scores_only
        Whether to leave out the columns of the source.
    batch_rows
        Rows that are scored at a time.
    workers
        Batches that are scored at the same time, each in a thread.
    verbose
        Whether to show a progress bar on standard error.

    Examples
    --------
    >>> from flowratio.ratios import ClassifierRatio
    >>> P, Q = pl.DataFrame({"x": [1.0, 2.0, 3.0]}), pl.DataFrame({"x": [0.0, 1.0, 2.0]})
    >>> ratio = ClassifierRatio().fit_samples(P, Q)
    >>> with TemporaryDirectory() as folder:
    ...     Q.write_parquet(Path(folder) / "rows.parquet")
    ...     scored = score_file(ratio, Path(folder) / "rows.parquet", Path(folder) / "weights.parquet")
    ...     written = pl.read_parquet(Path(folder) / "weights.parquet")
    >>> written.columns, round(written["weight"].mean(), 6), scored.rows
    (['x', 'log_ratio', 'weight'], 1.0, 3)
    """
    start = time.perf_counter()
    check_output(out, TABLE_ENDINGS, standard_output=True)
    for name, value in (("batch_rows", batch_rows), ("workers", workers)):
        if not is_count(value):
            raise ValueError(f"`{name}` is {value!r}: give a whole number of 1 or more.")
    truncate(flatten([0.0], gamma), largest)  # refused before any row is read
    with open_table(source) as table, _scratch_folder(source, out) as folder:
        columns = _columns_of(model, table, scores_only)
        if not scores_only:
            check_types(next(table.frames(rows=1)).schema, out)
        scratch = _Scratch(folder, _manifest(model_folder, source, columns, batch_rows))
        n_batches = math.ceil(table.n_rows / batch_rows)
        try:
            with progress(n_batches if scores_only else 2 * n_batches, "Scoring", verbose) as advance:
                resumed = _score_all(model, table, columns, scratch, batch_rows, workers, advance)
                scratch.check()
                frames, ess = _weighed(lambda: scratch.blocks(batch_rows), gamma, largest)
                if not scores_only:
                    frames = _beside(_ahead(table.frames(rows=batch_rows)), frames, table.name, advance)
                metadata = None if scores_only else with_numbers(table.metadata, _ADDED)
                write_table(frames, out, metadata, safe_separator(table.separator, table.columns))
        except ValueError:  # bad rows stay bad: there is nothing to resume
            scratch.remove()
            raise
        scratch.remove()
    return Scored(scratch.n_rows, time.perf_counter() - start, ess, dict(scratch.unseen), resumed, scratch.note)


class _Scratch:
    """log r of the rows so far, in a folder of its own.

    A batch counts once its line is there, with its number of rows and the checksum of its values: what a kill left
    half is cut off.

    Parameters
    ----------
    folder
        The folder; it is made if it does not exist.
    manifest
        What the values depend on. A folder of another one is emptied, and `note` says so.
    """

    n_rows: int
    unseen: Counter[str]
    note: str | None = None

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder, self.manifest = folder, manifest
        self.values, self.lines = folder / "log_ratio.f64", folder / "batches.jsonl"
        self.told = folder / "manifest.json"
        self.n_rows, self.unseen = 0, Counter()
        if not (self.values.exists() or self.told.exists()):
            self._make()
        elif self._read_manifest() != manifest:
            self.restart()
        else:
            self._resume()

    def restart(self) -> None:
        """Forget what is there: it is of another model, source or setting."""
        self.remove()
        self.n_rows, self.unseen = 0, Counter()
        self.note = "note: an earlier run to this output did not end, with another model or source; started anew"
        self._make()

    def add(self, log_r: np.ndarray, unseen: dict[str, int]) -> None:
        """Append a batch; it is there for good when this returns, also if the process is killed."""
        with open(self.values, "ab") as file:
            file.write(log_r.tobytes())
        line = {"rows": len(log_r), "crc32": zlib.crc32(log_r.tobytes()), "unseen": unseen}
        with open(self.lines, "a") as file:
            file.write(json.dumps(line) + "\n")
        self.n_rows += len(log_r)
        self.unseen.update(unseen)

    def blocks(self, rows: int) -> Iterator[np.ndarray]:
        """Yield log r of all rows in blocks of `rows` rows; the last may be shorter."""
        with open(self.values, "rb") as file:
            while len(block := np.frombuffer(file.read(8 * rows))):
                yield block

    def check(self) -> None:
        """Refuse values that are not one of each row that was read."""
        n_kept = self.values.stat().st_size / 8
        if n_kept != self.n_rows:
            raise ValueError(
                f"{self.n_rows:,} rows were read, but {self.folder} has log r of {n_kept:,.0f}: another run wrote "
                "there as well. Start again when no other is at work."
            )

    def remove(self) -> None:
        """Remove what is there."""
        for path in (self.told, self.lines, self.values):
            path.unlink(missing_ok=True)

    def _make(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.values.touch()
        self.lines.touch()
        self.told.write_text(json.dumps(self.manifest))  # last: a folder without it is not used

    def _read_manifest(self) -> Any:
        try:
            return json.loads(self.told.read_bytes())
        except (OSError, ValueError):
            return None

    def _resume(self) -> None:
        """Count the batches that are whole, and cut off the rest."""
        kept = b""
        with open(self.values, "rb+") as values:
            for line in self.lines.read_bytes().splitlines(keepends=True):
                try:
                    batch = json.loads(line)
                    is_whole = zlib.crc32(values.read(8 * batch["rows"])) == batch["crc32"]
                except (ValueError, KeyError, TypeError):
                    break
                if not (is_whole and line.endswith(b"\n")):
                    break
                kept += line
                self.n_rows += batch["rows"]
                self.unseen.update(batch["unseen"])
            values.truncate(8 * self.n_rows)
        self.lines.write_bytes(kept)


@contextmanager
def _scratch_folder(source: str | os.PathLike[str], out: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield where to keep log r: beside the output, or where it is removed if there is no way to resume."""
    with (
        nullcontext() if os.fspath(out) == "-" else _locked_folder(out) as kept,
        TemporaryDirectory(prefix="flowratio-") as lost,
    ):
        yield Path(lost) / "scratch" if kept is None or is_stream(source) else kept


@contextmanager
def _locked_folder(out: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a folder beside the output that no other run uses meanwhile; it is removed if nothing is in it then."""
    target = Path(os.path.realpath(out))
    folder = target.with_name(f".{beside(target)}.flowratio-partial")
    handle = _lock(folder, out)
    try:
        remove_temporaries(out)  # what a run left that was killed while it wrote
        yield folder
    finally:
        with suppress(OSError):  # a run that has just begun has made its own lock there
            if os.listdir(folder) in ([], [_LOCK]):
                (folder / _LOCK).unlink(missing_ok=True)
                folder.rmdir()
        if handle is not None:
            os.close(handle)


def _lock(folder: Path, out: str | os.PathLike[str]) -> int | None:
    """Make the folder and lock it until the handle is closed, if by a kill; None where there are no locks."""
    while True:
        folder.mkdir(exist_ok=True)
        if fcntl is None:
            return None
        try:
            handle = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o666)
        except FileNotFoundError:  # a run that ended has just removed the folder
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(handle)
            raise BlockingIOError(f"Another run writes {out}: wait for its end, or choose another path.") from error
        except OSError:  # a file system without locks
            return handle
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.stat(folder / _LOCK)):
                return handle
        os.close(handle)  # that of a run which has ended, and has removed it


def _manifest(
    model_folder: str | os.PathLike[str] | None, source: str | os.PathLike[str], columns: list[str], batch_rows: int
) -> dict[str, Any]:
    """Return what tells a run from others: log r of the same manifest are the same."""
    model = None if model_folder is None else (Path(model_folder) / "model.json").read_bytes()
    state = None if is_stream(source) else os.stat(source)
    return {
        "flowratio": flowratio.__version__,
        "model": None if model is None else hashlib.sha256(model).hexdigest(),
        "source": None if state is None else [os.path.realpath(source), state.st_size, state.st_mtime_ns],
        "columns": columns,
        "batch_rows": batch_rows,
    }


def _columns_of(model: Any, table: Table, scores_only: bool) -> list[str]:
    """Return the columns that a model needs, once they are known to be there, and the new ones not to be."""
    taken = [name for name in _ADDED if name in table.columns]
    if taken and not scores_only:
        raise ArgumentError(
            "scores_only",
            f"{table.name} has a column {taken[0]!r}, which the scores would replace. Rename it, or leave out the "
            "columns of the source (`scores_only`).",
        )
    if isinstance(model, TableRatio):
        needed = [column.name for column in model.encoder_.columns_]
    else:
        needed = list(getattr(model, "feature_names_in_", table.columns))
    missing = [name for name in needed if name not in table.columns]
    if missing:
        raise ValueError(
            f"{table.name} has no column {listed(missing)}: a file to score must have all {len(needed)} columns that "
            "the model was fitted to."
        )
    return needed


def _score_all(
    model: Any,
    table: Table,
    columns: list[str],
    scratch: _Scratch,
    batch_rows: int,
    workers: int,
    advance: Callable[[], None],
) -> int:
    """Bring log r of all rows to the scratch folder; return how many were there before."""
    if scratch.n_rows:
        log_r, _ = _score(model, next(table.frames(columns, batch_rows)), table, 0)
        if log_r.tobytes() != next(scratch.blocks(batch_rows)).tobytes():
            scratch.restart()  # another model
    resumed = scratch.n_rows
    for _ in range(resumed // batch_rows):
        advance()
    starts = count(resumed, batch_rows)
    batches = zip(table.frames(columns, batch_rows, resumed), starts, strict=False)
    with warnings.catch_warnings(), ThreadPoolExecutor(workers) as pool:
        warnings.simplefilter("ignore", UnseenWarning)  # they are counted here
        for log_r, unseen in _mapped(pool, lambda batch: _score(model, batch[0], table, batch[1]), batches, workers):
            scratch.add(log_r, unseen)
            advance()
    return resumed


def _score(model: Any, frame: pl.DataFrame, table: Table, start: int) -> tuple[np.ndarray, dict[str, int]]:
    """Return log r of the rows of a frame, from row `start` of a table on, of shape (n,), and how many are new."""
    if isinstance(model, TableRatio):
        try:
            matrix, unseen = model.encoder_.encode(frame)
        except CellError as error:
            raise error.at(table.place(start + error.row)) from error
        log_r = model.ratio_.log_ratio(matrix)
    else:
        log_r, unseen = model.log_ratio(frame), {}
    log_r = np.asarray(log_r, np.float64)
    if log_r.shape != (len(frame),) or not np.isfinite(log_r).all():
        raise ValueError(
            f"`model` gave log r of shape {log_r.shape} for {len(frame)} rows: give one finite value a row."
        )
    return log_r, unseen


def _mapped(
    pool: ThreadPoolExecutor, function: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Iterator[Result]:
    """Yield a function of each item, in order; each worker has one, and one more waits."""
    pending: deque[Future[Result]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()


def _ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Yield items, the next of which is made in a thread meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item


def _log_mean_and_ess(blocks: Iterable[np.ndarray]) -> tuple[float, float]:
    """Return the log of the mean ratio, and the effective sample size of the weights, in one pass over log r."""
    n, largest, total, squares = 0, -math.inf, 0.0, 0.0
    for log_r in blocks:
        before, largest = largest, max(largest, float(log_r.max()))
        shrink = math.exp(before - largest)
        total = total * shrink + float(np.exp(log_r - largest).sum())
        squares = squares * shrink**2 + float(np.exp(2 * (log_r - largest)).sum())
        n += len(log_r)
    return largest + math.log(total / n), total**2 / squares


def _weighed(
    blocks: Callable[[], Iterable[np.ndarray]], gamma: float, largest: float | None
) -> tuple[Iterator[pl.DataFrame], float]:
    """Return log r and weights, a frame for each block, and the effective sample size of the weights."""

    def log_w(log_r: np.ndarray) -> np.ndarray:
        return np.minimum(gamma * log_r, cap)

    cap = math.inf
    log_mean, ess = _log_mean_and_ess(map(log_w, blocks()))
    if largest is not None:
        cap = log_mean + math.log(largest)
        log_mean, ess = _log_mean_and_ess(map(log_w, blocks()))
    columns = ((log_r, np.exp(log_w(log_r) - log_mean)) for log_r in blocks())
    return (pl.DataFrame(dict(zip(_ADDED, pair, strict=True))) for pair in columns), ess


def _beside(
    frames: Iterator[pl.DataFrame], scores: Iterator[pl.DataFrame], name: str, advance: Callable[[], None]
) -> Iterator[pl.DataFrame]:
    """Yield the frames of the source with their scores beside them."""
    for frame, added in zip_longest(frames, scores):
        if frame is None or added is None or len(frame) != len(added):
            raise ValueError(f"{name} was changed while it was read. Start again when it is complete.")
        yield frame.hstack(added)
        advance()
