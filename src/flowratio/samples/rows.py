"""Rows in blocks, from memory or from a file too large for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

import numpy as np

from flowratio._support.errors import ArgumentError
from flowratio._support.types import Matrix, PathLike, Vector
from flowratio._support.validation import check_count
from flowratio.samples.files import NpyFile, ParquetFile, check_matrix, float_type, ranges
from flowratio.samples.weighting import systematic

_N_OPEN = 4  # row groups of a Parquet file that are read in turn in a shuffle
_FILES = {".npy": NpyFile, ".parquet": ParquetFile}


class Rows(ABC):
    """Rows of a float matrix that come in blocks, so that a pass needs memory for a few blocks only.

    Values are float32 if the source is float32, and float64 otherwise. Every method that takes `rng` returns the same
    rows for the same state of `rng`, and uses it before it returns.
    """

    n_rows: int
    n_features: int
    feature_names: list[str] | None = None

    @abstractmethod
    def blocks(self, max_rows: int) -> Iterator[Matrix]:
        """Yield all rows in order, in blocks of `max_rows` rows. The last block may be shorter."""

    @abstractmethod
    def shuffled(self, rng: np.random.Generator, max_rows: int) -> Iterator[Matrix]:
        """Yield each row once, in random order, in blocks of `max_rows` rows. The last block may be shorter.

        A file is read in spans of neighbors (for Parquet, row groups), which are mixed within a block.
        """

    @abstractmethod
    def sample(self, n: int, rng: np.random.Generator) -> Matrix:
        """Draw `n` distinct rows in random order, of shape (n, d). All rows if `n` is at least `n_rows`."""

    @abstractmethod
    def split(self, n_held_out: int, rng: np.random.Generator) -> tuple[Rows, Matrix]:
        """Hold out random rows. Return the other rows, and the held-out rows of shape (n_held_out, d)."""

    def _draw(self, n: int, rng: np.random.Generator) -> Vector:
        if n < 0:
            raise ArgumentError("n", f"`n` is {n}. Use 0 or more rows.")
        return rng.choice(self.n_rows, n, replace=False) if n < self.n_rows else rng.permutation(self.n_rows)

    def _check_held_out(self, n: int) -> None:
        if not 0 < n < self.n_rows:
            raise ArgumentError("n_held_out", f"`n_held_out` is {n}. Use an integer from 1 to {self.n_rows - 1}.")

    def _draw_held_out(self, n: int, rng: np.random.Generator) -> Vector:
        self._check_held_out(n)
        return np.sort(rng.choice(self.n_rows, n, replace=False))


class ArrayRows(Rows):
    """Rows of an array (n, d), gathered by block. `index` are the positions of the rows to use, all if None."""

    def __init__(self, X: Matrix, feature_names: list[str] | None = None, index: Vector | None = None) -> None:
        check_matrix(X.shape, X.dtype, "`X`")
        self.X, self.index, self.feature_names = X.astype(float_type(X.dtype), copy=False), index, feature_names
        self.n_rows, self.n_features = len(X) if index is None else len(index), X.shape[1]

    def blocks(self, max_rows: int) -> Iterator[Matrix]:
        return map(self._take, _blocks(self.n_rows, max_rows))

    def shuffled(self, rng: np.random.Generator, max_rows: int) -> Iterator[Matrix]:
        order = rng.permutation(self.n_rows)
        return (self._take(order[span]) for span in _blocks(self.n_rows, max_rows))

    def sample(self, n: int, rng: np.random.Generator) -> Matrix:
        return self._take(self._draw(n, rng))

    def split(self, n_held_out: int, rng: np.random.Generator) -> tuple[Rows, Matrix]:
        held_out = self._draw_held_out(n_held_out, rng)
        rest = np.delete(np.arange(self.n_rows) if self.index is None else self.index, held_out)
        return ArrayRows(self.X, self.feature_names, rest), self._take(held_out)

    def _take(self, positions: Vector | slice) -> Matrix:
        return self.X[positions if self.index is None else self.index[positions]]

    def mapped(self, X: Matrix) -> ArrayRows:
        """Return the same rows of another array, such as the scaled one."""
        return ArrayRows(X, index=self.index)


class WeightedRows(ArrayRows):
    """Rows of an array (m, d), each as often as its positive weight (m,) requires, resampled for every pass.

    A pass of n rows repeats a row n times its share of the weight, rounded up or down at random. All copies of a row
    are held out together.
    """

    def __init__(self, X: Matrix, w: Vector, n_rows: int | None = None) -> None:
        super().__init__(X)
        self.w, self.n_rows = w, n_rows or len(X)

    def blocks(self, max_rows: int) -> Iterator[Matrix]:
        positions = systematic(self.w, self.n_rows, 0.5)
        return (self.X[positions[span]] for span in _blocks(self.n_rows, max_rows))

    def shuffled(self, rng: np.random.Generator, max_rows: int) -> Iterator[Matrix]:
        positions = rng.permutation(systematic(self.w, self.n_rows, rng.random()))
        return (self.X[positions[span]] for span in _blocks(self.n_rows, max_rows))

    def sample(self, n: int, rng: np.random.Generator) -> Matrix:
        return self.X[systematic(self.w, self.n_rows, rng.random())[self._draw(n, rng)]]

    def split(self, n_held_out: int, rng: np.random.Generator) -> tuple[Rows, Matrix]:
        self._check_held_out(n_held_out)
        n = min(max(1, round(n_held_out * len(self.X) / self.n_rows)), len(self.X) - 1)
        held_out = np.sort(rng.permutation(len(self.X))[:n])
        X, w = np.delete(self.X, held_out, axis=0), np.delete(self.w, held_out)
        rest = WeightedRows(X, w, self.n_rows - n_held_out)
        rest.feature_names = self.feature_names
        return rest, next(WeightedRows(self.X[held_out], self.w[held_out], n_held_out).blocks(n_held_out))

    def mapped(self, X: Matrix) -> ArrayRows:
        return WeightedRows(X, self.w, self.n_rows)


class FileRows(Rows):
    """Rows of a file of numbers, read in bounded memory and checked for finite values.

    `excluded` are the sorted positions of the rows to leave out, (m,). An index that pandas stored is left out.
    """

    def __init__(self, file: NpyFile | ParquetFile, excluded: Vector | None = None) -> None:
        file.check()
        self.file = file
        self.excluded = np.empty(0, dtype=np.int64) if excluded is None else excluded
        self.n_rows = file.n_rows - len(self.excluded)
        self.n_features = file.shape[1] if isinstance(file, NpyFile) else len(file.columns)
        self.feature_names = file.columns

    def blocks(self, max_rows: int) -> Iterator[Matrix]:
        check_count(max_rows, "max_rows")
        pieces = (self._pieces(span, max_rows) for span in self.file.spans(max_rows))
        return self._pooled(chain.from_iterable(pieces), max_rows, None)

    def shuffled(self, rng: np.random.Generator, max_rows: int) -> Iterator[Matrix]:
        check_count(max_rows, "max_rows")
        own = np.random.default_rng(rng.integers(2**63))
        spans = self.file.spans(max_rows)
        pieces = (self._pieces(spans[k], max(1, max_rows // _N_OPEN)) for k in own.permutation(len(spans)))
        return self._pooled(_by_turns(pieces), max_rows, own)

    def sample(self, n: int, rng: np.random.Generator) -> Matrix:
        ranks = self._draw(n, rng)
        order = np.argsort(ranks)
        X = np.empty((len(ranks), self.n_features), self.file.float_type)
        X[order] = self._take(self._positions(ranks[order]))
        return X

    def split(self, n_held_out: int, rng: np.random.Generator) -> tuple[Rows, Matrix]:
        held_out = self._positions(self._draw_held_out(n_held_out, rng))
        return FileRows(self.file, np.union1d(self.excluded, held_out)), self._take(held_out)

    def _positions(self, ranks: Vector) -> Vector:
        # the k-th excluded row moves all ranks from excluded[k] - k on by one
        return ranks + np.searchsorted(self.excluded - np.arange(len(self.excluded)), ranks, side="right")

    def _take(self, positions: Vector) -> Matrix:
        return self._checked(self.file.take(positions), positions)

    def _pieces(self, span: slice, max_rows: int) -> Iterator[Matrix]:
        start = span.start
        for piece in self.file.matrices(span, max_rows):
            positions = np.arange(start, start + len(piece))
            out = self.excluded[slice(*np.searchsorted(self.excluded, (start, start + len(piece))))] - start
            start += len(piece)
            if len(out):
                positions, piece = np.delete(positions, out), np.delete(piece, out, axis=0)
            yield self._checked(piece, positions)

    def _checked(self, X: Matrix, positions: Vector) -> Matrix:
        if not np.isfinite(X).all():
            i, j = np.argwhere(~np.isfinite(X))[0]
            column = j if self.feature_names is None else repr(self.feature_names[j])
            place = f"{X[i, j]} in row {positions[i]} (counted from 0), column {column}"
            raise ValueError(f"{self.file.name} has {place}. Every value must be finite. Drop or fill such rows.")
        return X

    def _pooled(self, pieces: Iterable[Matrix], max_rows: int, rng: np.random.Generator | None) -> Iterator[Matrix]:
        """Pool pieces into blocks of `max_rows` rows. Shuffle each block if there is an `rng`."""
        pool, n = np.empty((min(max_rows, self.n_rows), self.n_features), self.file.float_type), 0
        for piece in pieces:
            while len(piece):
                part = piece[: len(pool) - n]
                pool[n : n + len(part)] = part
                n, piece = n + len(part), piece[len(part) :]
                if n == len(pool):
                    yield pool.copy() if rng is None else pool[rng.permutation(n)]
                    n = 0
        if n:
            yield pool[:n].copy() if rng is None else pool[rng.permutation(n)]


def open_rows(path: PathLike) -> Rows:
    """Open a matrix of numbers in a file, `.npy` or `.parquet`, without reading it into memory."""
    path = Path(path)
    if path.suffix.lower() not in _FILES:
        raise ValueError(f"{path} ends with {path.suffix!r}. Use a file that ends with .npy or .parquet.")
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}. Check the path.")
    if not path.is_file():
        raise ValueError(f"{path} is a folder. Use the path of one .npy or .parquet file.")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty (0 bytes). Write the file again.")
    return FileRows(_FILES[path.suffix.lower()](path))


def _by_turns(streams: Iterable[Iterator[Matrix]]) -> Iterator[Matrix]:
    """Read a few streams in turn, and open the next stream when one of them ends."""
    waiting = iter(streams)
    streams_in_use = deque(islice(waiting, _N_OPEN))
    while streams_in_use:
        stream = streams_in_use.popleft()
        piece = next(stream, None)
        if piece is None:
            streams_in_use.extend(islice(waiting, 1))
        else:
            streams_in_use.append(stream)
            yield piece


def _blocks(n_rows: int, max_rows: int) -> Iterator[slice]:
    check_count(max_rows, "max_rows")
    return ranges(0, n_rows, max_rows)
