"""Rows in blocks, from memory or from a file too large for it."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path

import numpy as np

from flowratio.samples.weighting import systematic

_SPAN_ROWS = 4096  # rows of a .npy file that stay neighbours in a shuffle
_N_OPEN = 4  # row groups of a Parquet file that are read by turns in a shuffle


class Rows(ABC):
    """Rows of a float matrix that come in blocks, so that a pass holds no more than a few blocks beside the source.

    Values are float32 where the source is float32, and float64 otherwise. Every method that takes `rng` gives the same
    rows for the same state of it, and uses it before it returns: what is read later does not depend on it.
    """

    n_rows: int
    n_features: int
    feature_names: list[str] | None = None

    @abstractmethod
    def blocks(self, max_rows: int) -> Iterator[np.ndarray]:
        """Yield all rows in order, in blocks of `max_rows` rows; the last may be shorter."""

    @abstractmethod
    def shuffled(self, rng: np.random.Generator, max_rows: int) -> Iterator[np.ndarray]:
        """Yield each row once, in random order, in blocks of `max_rows` rows; the last may be shorter.

        Rows of a file are read in spans of neighbours (for Parquet, its row groups). Spans come in random order and are
        mixed within a block, so that a file in some order is mixed well if a block holds many spans.
        """

    @abstractmethod
    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw `n` distinct rows in random order, of shape (n, d); all rows if `n` is at least `n_rows`."""

    @abstractmethod
    def split(self, n_held_out: int, rng: np.random.Generator) -> tuple[Rows, np.ndarray]:
        """Set random rows aside: the rest as `Rows`, and the rows held out, of shape (n_held_out, d)."""

    def _draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        if n < 0:
            raise ValueError(f"`n` is {n}: the number of rows to draw must be 0 or more.")
        return rng.choice(self.n_rows, n, replace=False) if n < self.n_rows else rng.permutation(self.n_rows)

    def _check_held_out(self, n: int) -> None:
        if not 0 < n < self.n_rows:
            raise ValueError(f"`n_held_out` is {n}: with {self.n_rows} rows it must be from 1 to {self.n_rows - 1}.")

    def _draw_held_out(self, n: int, rng: np.random.Generator) -> np.ndarray:
        self._check_held_out(n)
        return np.sort(rng.choice(self.n_rows, n, replace=False))


class ArrayRows(Rows):
    """Rows of an array in memory, gathered block by block and never copied as a whole.

    Parameters
    ----------
    X
        Rows, of shape (n, d).
    feature_names
        Names of the columns, of length d, if there are any.
    index
        Positions in `X` of the rows that count, of shape (m,); all rows if None.

    Examples
    --------
    >>> rows = ArrayRows(np.arange(6.0).reshape(3, 2))
    >>> [block.tolist() for block in rows.blocks(2)]
    [[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0]]]
    """

    def __init__(self, X: np.ndarray, feature_names: list[str] | None = None, index: np.ndarray | None = None) -> None:
        _check_matrix(X.shape, X.dtype, "`X`")
        self.X = X.astype(_float_type(X.dtype), copy=False)
        self.index = index
        self.n_rows = len(X) if index is None else len(index)
        self.n_features = X.shape[1]
        self.feature_names = feature_names

    def blocks(self, max_rows: int) -> Iterator[np.ndarray]:
        spans = _spans(self.n_rows, max_rows)
        return (self.X[span] if self.index is None else self.X[self.index[span]] for span in spans)

    def shuffled(self, rng: np.random.Generator, max_rows: int) -> Iterator[np.ndarray]:
        order = rng.permutation(self.n_rows)
        return (self._take(order[span]) for span in _spans(self.n_rows, max_rows))

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return self._take(self._draw(n, rng))

    def split(self, n_held_out: int, rng: np.random.Generator) -> tuple[Rows, np.ndarray]:
        held_out = self._draw_held_out(n_held_out, rng)
        rest = np.delete(np.arange(self.n_rows) if self.index is None else self.index, held_out)
        return ArrayRows(self.X, self.feature_names, rest), self._take(held_out)

    def _take(self, positions: np.ndarray) -> np.ndarray:
        return self.X[positions if self.index is None else self.index[positions]]

    def mapped(self, X: np.ndarray) -> ArrayRows:
        """Return the same rows of another array, such as the one here after scaling."""
        return ArrayRows(X, index=self.index)


class WeightedRows(ArrayRows):
    """Rows of an array that come as often as their weights say, in every pass anew.

    A pass draws a row n times its share of the weight, rounded up or down: the rest is left to chance. A row is held
    out as a whole, however often it comes.

    Parameters
    ----------
    X
        Rows, of shape (m, d).
    w
        Positive weights, of shape (m,).
    n_rows
        Rows of a pass, n; None for the number of rows that are there.

    Examples
    --------
    >>> rows = WeightedRows(np.array([[1.0], [2.0]]), np.array([1.0, 3.0]), 4)
    >>> next(rows.blocks(10)).ravel().tolist()
    [1.0, 2.0, 2.0, 2.0]
    """

    def __init__(self, X: np.ndarray, w: np.ndarray, n_rows: int | None = None) -> None:
        super().__init__(X)
        self.w = w
        self.n_rows = n_rows or len(X)

    def blocks(self, max_rows: int) -> Iterator[np.ndarray]:
        drawn = systematic(self.w, self.n_rows, 0.5)
        return (self.X[drawn[span]] for span in _spans(self.n_rows, max_rows))

    def shuffled(self, rng: np.random.Generator, max_rows: int) -> Iterator[np.ndarray]:
        drawn = rng.permutation(systematic(self.w, self.n_rows, rng.random()))
        return (self.X[drawn[span]] for span in _spans(self.n_rows, max_rows))

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return self.X[systematic(self.w, self.n_rows, rng.random())[self._draw(n, rng)]]

    def split(self, n_held_out: int, rng: np.random.Generator) -> tuple[Rows, np.ndarray]:
        self._check_held_out(n_held_out)
        n = min(max(1, round(n_held_out * len(self.X) / self.n_rows)), len(self.X) - 1)
        aside = np.sort(rng.permutation(len(self.X))[:n])
        rest = np.delete(self.X, aside, axis=0), np.delete(self.w, aside)
        kept = WeightedRows(*rest, self.n_rows - n_held_out)
        kept.feature_names = self.feature_names
        return kept, next(WeightedRows(self.X[aside], self.w[aside], n_held_out).blocks(n_held_out))

    def mapped(self, X: np.ndarray) -> ArrayRows:
        return WeightedRows(X, self.w, self.n_rows)


class FileRows(Rows):
    """Rows of a file, all but those in `excluded`, read in bounded memory and checked for finite values.

    Parameters
    ----------
    path
        The file.
    excluded
        Sorted positions in the file of the rows that do not count, of shape (m,).
    """

    dtype: np.dtype

    def __init__(self, path: str | os.PathLike[str], excluded: np.ndarray | None = None) -> None:
        self.path = Path(path)
        self.excluded = np.empty(0, dtype=np.int64) if excluded is None else excluded
        self.n_rows = self._open() - len(self.excluded)

    @abstractmethod
    def _open(self) -> int:
        """Check the file, set `n_features`, `feature_names` and `dtype`, and return the number of rows in it."""

    @abstractmethod
    def _spans(self, max_rows: int) -> list[slice]:
        """Return the ranges of rows that are read in one go, in file order."""

    @abstractmethod
    def _read(self, span: slice, max_rows: int) -> Iterator[np.ndarray]:
        """Yield the rows of a span in order, at most `max_rows` at a time."""

    def blocks(self, max_rows: int) -> Iterator[np.ndarray]:
        _check_block(max_rows)
        pieces = (self._kept(span, max_rows) for span in self._spans(max_rows))
        return self._pooled(chain.from_iterable(pieces), max_rows, None)

    def shuffled(self, rng: np.random.Generator, max_rows: int) -> Iterator[np.ndarray]:
        _check_block(max_rows)
        own = np.random.default_rng(rng.integers(2**63))
        spans = self._spans(max_rows)
        pieces = (self._kept(spans[k], max(1, max_rows // _N_OPEN)) for k in own.permutation(len(spans)))
        return self._pooled(_by_turns(pieces), max_rows, own)

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        drawn = self._draw(n, rng)
        order = np.argsort(drawn)
        X = np.empty((len(drawn), self.n_features), self.dtype)
        X[order] = self._take(self._positions(drawn[order]))
        return X

    def split(self, n_held_out: int, rng: np.random.Generator) -> tuple[Rows, np.ndarray]:
        held_out = self._positions(self._draw_held_out(n_held_out, rng))
        return type(self)(self.path, np.union1d(self.excluded, held_out)), self._take(held_out)

    def _positions(self, ranks: np.ndarray) -> np.ndarray:
        # the k-th excluded row moves all ranks from excluded[k] - k on by one
        return ranks + np.searchsorted(self.excluded - np.arange(len(self.excluded)), ranks, side="right")

    def _take(self, positions: np.ndarray) -> np.ndarray:
        """Gather rows by their sorted positions in the file; spans that hold none of them are not read."""
        X, done = np.empty((len(positions), self.n_features), self.dtype), 0
        for span in self._spans(16 * _SPAN_ROWS):
            start, last = span.start, np.searchsorted(positions, span.stop)
            pieces = self._read(span, _SPAN_ROWS)
            while done < last:
                piece = next(pieces)
                wanted = positions[done : np.searchsorted(positions, start + len(piece))]
                X[done : done + len(wanted)] = self._checked(piece[wanted - start], wanted)
                start, done = start + len(piece), done + len(wanted)
        return X

    def _kept(self, span: slice, max_rows: int) -> Iterator[np.ndarray]:
        start = span.start
        for piece in self._read(span, max_rows):
            positions = np.arange(start, start + len(piece))
            out = self.excluded[slice(*np.searchsorted(self.excluded, (start, start + len(piece))))] - start
            start += len(piece)
            if len(out):
                positions, piece = np.delete(positions, out), np.delete(piece, out, axis=0)
            yield self._checked(piece, positions)

    def _checked(self, X: np.ndarray, positions: np.ndarray) -> np.ndarray:
        if not np.isfinite(X).all():
            i, j = np.argwhere(~np.isfinite(X))[0]
            column = j if self.feature_names is None else repr(self.feature_names[j])
            raise ValueError(
                f"{self.path} holds {X[i, j]} in row {positions[i]} (counted from 0), column {column}: every value "
                "must be finite. Drop or fill such rows first."
            )
        return X

    def _pooled(
        self, pieces: Iterable[np.ndarray], max_rows: int, rng: np.random.Generator | None
    ) -> Iterator[np.ndarray]:
        """Pool pieces into blocks of `max_rows` rows, each of them shuffled if there is an `rng`."""
        pool, filled = np.empty((min(max_rows, self.n_rows), self.n_features), self.dtype), 0
        for piece in pieces:
            while len(piece):
                taken = piece[: len(pool) - filled]
                pool[filled : filled + len(taken)] = taken
                filled, piece = filled + len(taken), piece[len(taken) :]
                if filled == len(pool):
                    yield pool.copy() if rng is None else pool[rng.permutation(filled)]
                    filled = 0
        if filled:
            yield pool[:filled].copy() if rng is None else pool[rng.permutation(filled)]


class NpyRows(FileRows):
    """Rows of a `.npy` file, memory-mapped.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     np.save(Path(folder) / "rows.npy", np.arange(6.0).reshape(3, 2))
    ...     [block.tolist() for block in NpyRows(Path(folder) / "rows.npy").blocks(2)]
    [[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0]]]
    """

    def _open(self) -> int:
        try:
            mapped = np.lib.format.open_memmap(self.path, mode="r")
        except (ValueError, EOFError, OverflowError, TypeError) as error:
            raise ValueError(
                f"{self.path} cannot be read as a .npy file ({error}). Write it anew with np.save(path, X), where X is "
                "a matrix of numbers."
            ) from error
        _check_matrix(mapped.shape, mapped.dtype, str(self.path))
        self.n_features = mapped.shape[1]
        self.dtype = _float_type(mapped.dtype)
        self.layout = (mapped.dtype, mapped.offset, mapped.shape, "C" if mapped.flags.c_contiguous else "F")
        return len(mapped)

    def _map(self) -> np.ndarray:
        # mapped anew for each read: pages that a map has touched count as resident until it is closed
        dtype, offset, shape, order = self.layout
        return np.memmap(self.path, dtype, "r", offset, shape, order)

    def _spans(self, max_rows: int) -> list[slice]:
        n = self.n_rows + len(self.excluded)
        return list(_spans(n, min(_SPAN_ROWS, max(64, max_rows // 16))))

    def _read(self, span: slice, max_rows: int) -> Iterator[np.ndarray]:
        for part in _spans(span.stop - span.start, max_rows):
            yield np.array(self._map()[span.start + part.start : span.start + part.stop], self.dtype)

    def _take(self, positions: np.ndarray) -> np.ndarray:
        X = np.empty((len(positions), self.n_features), self.dtype)
        for part in _spans(len(positions), _SPAN_ROWS):
            X[part] = self._checked(np.asarray(self._map()[positions[part]], self.dtype), positions[part])
        return X


class ParquetRows(FileRows):
    """Rows of a Parquet file whose columns are all numbers; an index that pandas stored is left out.

    Row groups of ten to a hundred thousand rows are best: they are the spans of a shuffle.

    Examples
    --------
    >>> import polars as pl
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     pl.DataFrame({"age": [31, 45], "height": [1.7, 1.8]}).write_parquet(Path(folder) / "rows.parquet")
    ...     rows = ParquetRows(Path(folder) / "rows.parquet")
    ...     rows.feature_names, next(rows.blocks(10)).tolist()
    (['age', 'height'], [[31.0, 1.7], [45.0, 1.8]])
    """

    def _open(self) -> int:
        import pyarrow as pa
        import pyarrow.parquet as pq
        from pyarrow import types

        with self._errors_named(), pq.ParquetFile(self.path) as file:
            schema, self.metadata = file.schema_arrow, file.metadata
        index = (schema.pandas_metadata or {}).get("index_columns", [])
        fields = [field for field in schema if field.name not in index]
        number = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
        others = [f"{field.name!r} ({field.type})" for field in fields if not any(is_(field.type) for is_ in number)]
        if others:
            raise ValueError(f"{self.path} has columns that are not numbers: {', '.join(others)}. Encode or drop them.")
        single = all(field.type == pa.float32() for field in fields)
        self.dtype = np.dtype(np.float32 if single else np.float64)
        self.feature_names = [field.name for field in fields]
        self.n_features = len(fields)
        _check_matrix((self.metadata.num_rows, len(fields)), self.dtype, str(self.path))
        sizes = [self.metadata.row_group(k).num_rows for k in range(self.metadata.num_row_groups)]
        self.group_starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        return self.metadata.num_rows

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno:
                raise
            reason = str(error).splitlines()[0]
            raise ValueError(f"{self.path} cannot be read as a Parquet file ({reason}). Write it anew.") from error

    def _spans(self, max_rows: int) -> list[slice]:
        return [slice(a, b) for a, b in zip(self.group_starts[:-1], self.group_starts[1:], strict=True) if a < b]

    def _read(self, span: slice, max_rows: int) -> Iterator[np.ndarray]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        group = int(np.searchsorted(self.group_starts, span.start, side="right")) - 1
        to = pa.from_numpy_dtype(self.dtype)
        # a buffered reader holds a few pages of each column of the row group, not all of it
        source = pq.ParquetFile(self.path, metadata=self.metadata, buffer_size=2**18, pre_buffer=False)
        with self._errors_named(), source as file:
            for batch in file.iter_batches(max_rows, row_groups=[group], columns=self.feature_names, use_threads=False):
                X = np.empty((batch.num_rows, self.n_features), self.dtype)
                for j, name in enumerate(self.feature_names or []):
                    X[:, j] = batch.column(name).cast(to, safe=False).to_numpy(zero_copy_only=False)
                yield X


def open_rows(path: str | os.PathLike[str]) -> Rows:
    """Open a file of rows, `.npy` or `.parquet`, without reading it into memory.

    Parameters
    ----------
    path
        The file: a matrix of numbers, one row per draw.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     np.save(Path(folder) / "rows.npy", np.ones((5, 2), dtype=np.float32))
    ...     open_rows(Path(folder) / "rows.npy").n_rows
    5
    """
    path = Path(path)
    kinds = {".npy": NpyRows, ".parquet": ParquetRows}
    if path.suffix.lower() not in kinds:
        raise ValueError(f"{path} ends with {path.suffix!r}: rows are read from files that end with .npy or .parquet.")
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}. Check the path.")
    if not path.is_file():
        raise ValueError(f"{path} is a folder. Give the path of one .npy or .parquet file.")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty (0 bytes): its writing was cut short. Write it anew.")
    return kinds[path.suffix.lower()](path)


def _by_turns(streams: Iterable[Iterator[np.ndarray]]) -> Iterator[np.ndarray]:
    """Read a few streams by turns, and open the next one when one of them ends."""
    waiting = iter(streams)
    reading = deque(islice(waiting, _N_OPEN))
    while reading:
        stream = reading.popleft()
        piece = next(stream, None)
        if piece is None:
            reading.extend(islice(waiting, 1))
        else:
            reading.append(stream)
            yield piece


def _spans(n_rows: int, max_rows: int) -> Iterator[slice]:
    _check_block(max_rows)
    return (slice(start, min(start + max_rows, n_rows)) for start in range(0, n_rows, max_rows))


def _check_block(max_rows: int) -> None:
    if max_rows < 1:
        raise ValueError(f"`max_rows` is {max_rows}: a block must hold at least 1 row.")


def _check_matrix(shape: tuple[int, ...], dtype: np.dtype, name: str) -> None:
    if dtype.kind not in "fiub":
        raise ValueError(f"{name} is an array of dtype {dtype}: rows must be numbers. Convert it to float first.")
    if len(shape) != 2:
        raise ValueError(f"{name} has shape {shape}: it must be a matrix with one row per draw. Use reshape(n, d).")
    if 0 in shape:
        raise ValueError(f"{name} has shape {shape}: it must have at least one row and one column.")


def _float_type(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.float32 if dtype.kind == "f" and dtype.itemsize == 4 else np.float64)
