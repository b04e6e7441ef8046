r"""Score files that do not fit in memory: log r and a weight for each row.

A weight is the ratio of a row over the mean ratio of all rows,

.. math:: w_i = r(x_i) \Big/ \frac1n \sum_j r(x_j)

so a file is read twice: once for log r, which is stored in a journal next to the output, and once to write the output.
"""

from __future__ import annotations

import hashlib
import math
import os
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import count, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias, TypeVar

import numpy as np
import polars as pl

import flowratio
from flowratio._support.atomic import remove_temporaries, short_name
from flowratio._support.errors import ArgumentError
from flowratio._support.journal import Batches, Journal
from flowratio._support.progress import progress
from flowratio._support.types import PathLike, Vector
from flowratio._support.validation import check_count
from flowratio._support.wording import in_percent, listed, quoted
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.storage.csv_layout import safe_separator
from flowratio.storage.outputs import TABLE_ENDINGS, check_output
from flowratio.storage.reading import open_table
from flowratio.storage.sources import check_apart, is_stream, source_state
from flowratio.storage.table_file import BATCH_ROWS, Frames, TableFile
from flowratio.storage.writing import check_types, with_numbers, write_table
from flowratio.tables.cells import CellError, cells_of
from flowratio.tables.encoder import TableEncoder
from flowratio.tables.formats import Kind, numbers
from flowratio.tables.hints import hint_of_new_category
from flowratio.weights import check_cap, log_cap, temper

Item = TypeVar("Item")
Result = TypeVar("Result")
Note: TypeAlias = dict[str, dict[str, Any]]  # by column: the number of "unseen" rows, and "hints" on spellings
_NEW_COLUMNS = ("log_ratio", "weight")
_ENTRY = "log_ratio"
_NOTES = 2  # version of the notes of a batch in the journal
_LOW_ESS = "a few rows have nearly all of the weight: check those with the largest `log_ratio`, and temper or cap them"
_NOT_RESUMED = "note: an earlier run to this output had another model, source or setting, and was not resumed"


@dataclass(frozen=True)
class ScoringSummary:
    """Result of `score_file`."""

    rows: int
    seconds: float
    effective_sample_size: float  # number of equally weighted rows with the same information
    unseen: dict[str, int]  # by column, rows with a category or a missing value that did not occur at fit
    resumed: int  # rows whose log r came from an earlier run that was killed
    note: str | None  # why an earlier run that was killed could not be resumed
    hints: tuple[str, ...] = ()  # on categories that differ from those at fit only in case or white space

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        ess = self.effective_sample_size
        is_low = self.rows > 1 and ess < max(THRESHOLDS.fewest_in_file, THRESHOLDS.fewest_share_in_file * self.rows)
        lines = [
            f"rows: {self.rows:,} in {self.seconds:.1f} s",
            f"effective sample size of the weights: {ess:,.0f} ({in_percent(ess / self.rows, 1)} of the rows)",
            *[_LOW_ESS] * is_low,
            *[f"resumed: {self.resumed:,} rows were scored before"] * bool(self.resumed),
            *(f"unseen at fit: {n:,} row{'s' * (n != 1)} of {quoted(name)}" for name, n in self.unseen.items()),
        ]
        return "\n".join([*lines, *self.hints, *([self.note] if self.note else [])])


def score_file(
    ratio: Any,
    source: PathLike,
    out: PathLike,
    *,
    model_folder: PathLike | None = None,
    gamma: float = 1.0,
    largest: float | None = None,
    scores_only: bool = False,
    batch_rows: int = BATCH_ROWS,
    workers: int = 2,
    encoding: str | None = None,
    verbose: bool = False,
) -> ScoringSummary:
    r"""Add `log_ratio`, in nats, and `weight`, with mean 1, to each row of a file of any size. r = p/q, p is y = 1.

    `weight` is r divided by the mean of r over the rows of the source. Weights of separately scored files are not
    comparable: score one file with all rows, or use `log_ratio`.

    Rows stay in order, and only a few batches are in memory. The output is complete, or unchanged. If a run was killed,
    start it again with the same ratio, source and output: it resumes, except for standard input. A second run to the
    same output is refused while the first one runs.

    Parameters
    ----------
    ratio
        A fitted ratio, or another object with `log_ratio(frame)`, finite.
    source
        A file, a folder of parts, a pattern such as "part-*.parquet", or "-" for standard input: CSV, Parquet, Feather,
        JSON lines, Excel, NPY or NPZ. Parts are read in sorted order.
    out
        A file that ends with .csv or .parquet, or "-" for CSV on standard output. CSV has the separator of a CSV
        source. Durations of Parquet become seconds in CSV.
    model_folder
        The folder from which the ratio was loaded. A run resumes only if the folder still has the same model. Without
        it, the log r of the first batch must agree.
    gamma, largest
        The weight uses r^γ, as in `temper`. The maximum is `largest` times the mean, as in `cap`. None for no cap.
    scores_only, verbose
        Whether to leave out the columns of the source, and to show a progress bar on standard error.
    batch_rows, workers
        Rows of a batch, and batches that are scored at the same time, each in a thread.
    encoding
        Encoding of a CSV source, such as "latin-1". UTF-8 if None.

    Examples
    --------
    >>> from flowratio import ClassifierRatio
    >>> P, Q = pl.DataFrame({"x": [1.0, 2.0, 3.0]}), pl.DataFrame({"x": [0.0, 1.0, 2.0]})
    >>> ratio = ClassifierRatio().fit_samples(P, Q)
    >>> with TemporaryDirectory() as folder:
    ...     Q.write_parquet(Path(folder) / "rows.parquet")
    ...     summary = score_file(ratio, Path(folder) / "rows.parquet", Path(folder) / "weights.parquet")
    ...     output = pl.read_parquet(Path(folder) / "weights.parquet")
    >>> output.columns, round(output["weight"].mean(), 6), summary.rows
    (['x', 'log_ratio', 'weight'], 1.0, 3)
    """
    start = time.perf_counter()
    check_output(out, TABLE_ENDINGS, standard_output=True)
    check_count(batch_rows, "batch_rows")
    check_count(workers, "workers")
    temper([0.0], gamma)  # refused before any row is read
    if largest is not None:
        check_cap(largest)
    check_apart(out, source)
    with open_table(source, encoding) as table:
        columns = _columns_of(ratio, table, scores_only)
        if not scores_only:
            check_types(table.schema(), out)
        settings = {"columns": columns, "batch_rows": batch_rows, "encoding": encoding}
        about = _about(model_folder, source, settings)
        n_batches = math.ceil(table.n_rows / batch_rows) * (1 if scores_only else 2)
        with _journal(out, about) as journal, progress(n_batches, "batches", verbose) as advance:
            log_r, resumed = _score_all(_Scorer(ratio, table, columns, batch_rows), journal, workers, advance)
            log_r.check()
            frames, ess = _score_frames(lambda: log_r.blocks(batch_rows), gamma, largest)
            if not scores_only:
                frames = _joined(_ahead(table.frames(rows=batch_rows)), frames, table.name, advance)
            metadata = None if scores_only else with_numbers(table.metadata, _NEW_COLUMNS)
            write_table(frames, out, metadata, safe_separator(table.separator, table.columns))
            journal.clear()
        unseen = sum((Counter(note["unseen"]) for note in log_r.notes), Counter())
        hints = {name: text for note in reversed(log_r.notes) for name, text in note["hints"].items()}  # the first
    note = _NOT_RESUMED if journal.is_restarted else None
    return ScoringSummary(
        log_r.n_values,
        time.perf_counter() - start,
        ess,
        dict(unseen),
        resumed,
        note,
        tuple(hints[name] for name in unseen if name in hints),
    )


@contextmanager
def _journal(out: PathLike, about: dict[str, Any]) -> Iterator[Journal]:
    """Yield the journal of a run, in a hidden folder next to the output."""
    with TemporaryDirectory(prefix="flowratio-") as temporary:
        target = Path(os.path.realpath(out))
        is_stdout = os.fspath(out) == "-"
        folder = (
            Path(temporary) / "journal" if is_stdout else target.with_name(f".{short_name(target)}.flowratio-partial")
        )
        with Journal(folder, about, restart=True, label=out) as journal:
            if not is_stdout:
                remove_temporaries(out)  # of a run that was killed while it wrote the output
            try:
                yield journal
            except ValueError:  # bad rows stay bad: there is nothing to resume
                journal.clear()
                raise


def _about(model_folder: PathLike | None, source: PathLike, settings: dict[str, Any]) -> dict[str, Any]:
    model = None if model_folder is None else (Path(model_folder) / "model.json").read_bytes()
    digest = None if model is None else hashlib.sha256(model).hexdigest()
    # a stream cannot be read again, so that it never resumes
    identity = secrets.token_hex(8) if is_stream(source) else source_state(source)
    return {"flowratio": flowratio.__version__, "model": digest, "source": identity, "notes": _NOTES, **settings}


def _columns_of(ratio: Any, table: TableFile, scores_only: bool) -> list[str]:
    """Return the columns that a ratio needs. Refuse a table without them, or with the new columns."""
    duplicates = [name for name in _NEW_COLUMNS if name in table.columns]
    if duplicates and not scores_only:
        problem = f"{table.name} has a column {quoted(duplicates[0])}, which the scores would replace."
        raise ArgumentError("scores_only", f"{problem} Rename it, or leave out all columns with `scores_only`.")
    names = [str(name) for name in getattr(ratio, "feature_names_in_", table.columns)]
    encoder = getattr(ratio, "encoder_", None)
    needed = names if encoder is None else encoder.used_columns()
    missing = [name for name in needed if name not in table.columns]
    if missing:
        advice = f"A file to score must have all {len(needed)} columns that the model uses. Add what is missing."
        raise ValueError(f"{table.name} has no column {listed(missing)}. {advice}")
    return [name for name in names if name in table.columns]


@dataclass(frozen=True)
class _Scorer:
    """log r of the rows of a table, a batch at a time."""

    ratio: Any
    table: TableFile
    columns: list[str]
    batch_rows: int

    def batches(self, skip: int = 0) -> Iterator[tuple[pl.DataFrame, int]]:
        """Yield the frames from row `skip` on, each with the number of its first row."""
        frames = self.table.frames(self.columns, self.batch_rows, skip)
        return zip(frames, count(skip, self.batch_rows), strict=False)

    def __call__(self, batch: tuple[pl.DataFrame, int]) -> tuple[Vector, Note]:
        """Return log r of a batch, of shape (n,), and a note on what did not occur at fit."""
        frame, start = batch
        try:
            if hasattr(self.ratio, "score_rows"):
                is_numeric = hasattr(self.ratio, "encoder_") and self.ratio.encoder_ is None
                scores = self.ratio.score_rows(frame.select(map(_finite, frame)) if is_numeric else frame)
                log_r, unseen = scores.log_r, scores.unseen
            else:
                log_r, unseen = self.ratio.log_ratio(frame), {}
        except CellError as error:
            raise error.at(self.table.place(start + error.row)) from error
        log_r = np.asarray(log_r, np.float64)
        if log_r.shape != (len(frame),) or not np.isfinite(log_r).all():
            n_bad = np.count_nonzero(~np.isfinite(log_r))
            problem = f"log r of shape {log_r.shape} for {len(frame)} rows, {n_bad} of them not finite"
            raise ValueError(f"`ratio` returned {problem}. It must return one finite value per row.")
        return log_r, {"unseen": dict(unseen), "hints": self._hints(frame, unseen)}

    def _hints(self, frame: pl.DataFrame, unseen: Mapping[str, int]) -> dict[str, str]:
        """Return a hint by text column with a new category that is one at fit, written in another way."""
        encoder: TableEncoder | None = getattr(self.ratio, "encoder_", None)
        columns = [] if encoder is None else [one for one in encoder.columns_ if one.name in unseen]
        texts = {
            one.name: hint_of_new_category(frame[one.name], one.all_categories)
            for one in columns
            if one.kind is Kind.CATEGORY
        }
        return {name: text for name, text in texts.items() if text}


def _finite(column: pl.Series) -> pl.Series:
    """Return a column as floats, for a ratio of numbers. A CSV file has them as text."""
    if (column.dtype.is_float() or column.dtype.is_integer()) and not column.has_nulls() and column.is_finite().all():
        return column
    cells = cells_of(column)
    values = numbers(cells)
    is_wrong = ~values.is_finite().fill_null(False)
    if is_wrong.any():
        row = int(is_wrong.arg_max() or 0)
        is_missing = cells[row] is None
        raise CellError(
            f"Column {quoted(column.name)} has {'a missing value' if is_missing else quoted(str(cells[row]))} in ",
            row,
            f"{'' if is_missing else ', which is not a finite number'}. The model was fitted to numbers without "
            "missing values. Fix this value, or drop the row.",
        )
    return values


def _score_all(scorer: _Scorer, journal: Journal, workers: int, advance: Callable[[], None]) -> tuple[Batches, int]:
    """Write log r of all rows to the journal. Return it, and the number of rows that were there before."""
    log_r = journal.batches(_ENTRY)
    if log_r.n_values:
        first, _ = scorer(next(scorer.batches()))
        if first.tobytes() != next(log_r.blocks(scorer.batch_rows)).tobytes():
            journal.restart()  # another ratio
            log_r = journal.batches(_ENTRY)
    resumed = log_r.n_values
    for _ in range(resumed // scorer.batch_rows):
        advance()
    with ThreadPoolExecutor(workers) as pool:
        for values, note in _mapped(pool, scorer, scorer.batches(resumed), workers):
            log_r.append(values, note)
            advance()
    return log_r, resumed


def _mapped(
    pool: ThreadPoolExecutor, function: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Iterator[Result]:
    """Yield a function of each item, in order. Each worker has one item, and one more waits."""
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
    """Yield items, and compute the next one in a thread."""
    with ThreadPoolExecutor(1) as pool:
        upcoming = pool.submit(next, items, None)
        while (item := upcoming.result()) is not None:
            upcoming = pool.submit(next, items, None)
            yield item


def _log_mean_and_ess(blocks: Iterable[Vector]) -> tuple[float, float]:
    """Return the log of the mean ratio, and the effective sample size of the weights, in one pass over log r."""
    n, largest, total, squares = 0, -math.inf, 0.0, 0.0
    for log_r in blocks:
        before, largest = largest, max(largest, float(log_r.max()))
        shrink = math.exp(before - largest)
        total = total * shrink + float(np.exp(log_r - largest).sum())
        squares = squares * shrink**2 + float(np.exp(2 * (log_r - largest)).sum())
        n += len(log_r)
    return largest + math.log(total / n), total**2 / squares


def _score_frames(blocks: Callable[[], Iterable[Vector]], gamma: float, largest: float | None) -> tuple[Frames, float]:
    """Return log r and weights, a frame for each block, and the effective sample size of the weights."""

    def tempered() -> Iterator[Vector]:
        return (gamma * log_r for log_r in blocks())

    limit = math.inf if largest is None else log_cap(tempered, largest)
    log_mean, ess = _log_mean_and_ess(np.minimum(log_w, limit) for log_w in tempered())
    columns = ((log_r, np.exp(np.minimum(gamma * log_r, limit) - log_mean)) for log_r in blocks())
    return (pl.DataFrame(dict(zip(_NEW_COLUMNS, pair, strict=True))) for pair in columns), ess


def _joined(frames: Frames, scores: Frames, name: str, advance: Callable[[], None]) -> Frames:
    for frame, columns in zip_longest(frames, scores):
        if frame is None or columns is None or len(frame) != len(columns):
            raise ValueError(f"{name} was changed while it was read. Start again when it is complete.")
        yield frame.hstack(columns)
        advance()
