"""Rows in blocks against the array that was written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flowratio.samples.rows import ArrayRows, Rows, WeightedRows, open_rows
from flowratio.samples.weighting import systematic

N, D = 1000, 3


def table(dtype: type = np.float64) -> np.ndarray:
    """Rows that name themselves: the first column is the row number."""
    X = np.random.default_rng(0).normal(size=(N, D)).astype(dtype)
    X[:, 0] = np.arange(N)
    return X


def write_parquet(path: Path, X: np.ndarray, row_group_size: int = 64) -> Path:
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    pq.write_table(pa.table(columns), path, row_group_size=row_group_size)
    return path


@pytest.fixture(params=["array", "npy", "npy, Fortran order", "parquet", "parquet, one group"])
def rows(request: pytest.FixtureRequest, tmp_path: Path) -> Rows:
    X = table()
    if request.param == "array":
        return ArrayRows(X)
    if request.param.startswith("npy"):
        np.save(tmp_path / "rows.npy", np.asfortranarray(X) if "Fortran" in request.param else X)
        return open_rows(tmp_path / "rows.npy")
    return open_rows(write_parquet(tmp_path / "rows.parquet", X, N if "one" in request.param else 64))


class TestRows:
    @pytest.mark.parametrize("max_rows", [1, 7, 64, 100, 999, 1000, 5000])
    def test_blocks_in_order(self, rows, max_rows):
        blocks = list(rows.blocks(max_rows))
        assert [len(block) for block in blocks[:-1]] == [max_rows] * ((N - 1) // max_rows)
        np.testing.assert_array_equal(np.concatenate(blocks), table())

    @pytest.mark.parametrize("max_rows", [1, 7, 100, 1000, 5000])
    def test_shuffled_gives_each_row_once(self, rows, max_rows):
        blocks = list(rows.shuffled(np.random.default_rng(1), max_rows))
        assert [len(block) for block in blocks[:-1]] == [max_rows] * ((N - 1) // max_rows)
        X = np.concatenate(blocks)
        np.testing.assert_array_equal(X[np.argsort(X[:, 0])], table())

    def test_shuffled_mixes(self, rows):
        X = np.concatenate(list(rows.shuffled(np.random.default_rng(1), 500)))
        # of 999 pairs of neighbours about one stays in a random order of 1000; spans of a file leave a few more
        assert np.count_nonzero(np.diff(X[:, 0]) == 1) < 15

    def test_shuffled_spreads_a_sorted_file(self, rows, request):
        first = next(rows.shuffled(np.random.default_rng(1), 500))[:, 0]
        if "one group" in request.node.name:  # one group is one span: there is no way to begin in its middle
            np.testing.assert_array_equal(np.sort(first), np.arange(500))
            return
        # 8 groups of 64 rows of 1000, without replacement: the mean has a standard error of 75
        assert abs(first.mean() - N / 2) < 250

    def test_same_state_same_blocks(self, rows):
        first, second = (np.concatenate(list(rows.shuffled(np.random.default_rng(5), 90))) for _ in range(2))
        np.testing.assert_array_equal(first, second)
        other = np.concatenate(list(rows.shuffled(np.random.default_rng(6), 90)))
        assert not np.array_equal(first, other)

    def test_shuffled_uses_the_rng_before_it_returns(self, rows):
        rng = np.random.default_rng(5)
        blocks = rows.shuffled(rng, 90)
        state = rng.bit_generator.state
        for _ in blocks:
            pass
        assert rng.bit_generator.state == state

    @pytest.mark.parametrize("n", [0, 1, 10, 300, 999])
    def test_sample(self, rows, n):
        X = rows.sample(n, np.random.default_rng(2))
        assert X.shape == (n, D)
        assert len(set(X[:, 0])) == n
        np.testing.assert_array_equal(X, table()[X[:, 0].astype(int)])
        np.testing.assert_array_equal(X, rows.sample(n, np.random.default_rng(2)))

    @pytest.mark.parametrize("n", [1000, 2000])
    def test_sample_of_all_rows(self, rows, n):
        X = rows.sample(n, np.random.default_rng(2))
        np.testing.assert_array_equal(X[np.argsort(X[:, 0])], table())
        assert not np.array_equal(X, table())

    def test_sample_is_uniform(self, rows):
        rng = np.random.default_rng(3)
        means = [rows.sample(50, rng)[:, 0].mean() for _ in range(20)]
        # a mean of 50 has standard error 40, that of 20 such means 9
        assert abs(np.mean(means) - 499.5) < 36

    def test_split(self, rows):
        rng = np.random.default_rng(4)
        rest, held_out = rows.split(200, rng)
        assert rest.n_rows == 800
        assert (rest.n_features, rest.feature_names) == (rows.n_features, rows.feature_names)
        assert held_out.shape == (200, D)
        for blocks in (rest.blocks(77), rest.shuffled(rng, 77)):
            X = np.concatenate([*blocks, held_out])
            np.testing.assert_array_equal(X[np.argsort(X[:, 0])], table())
        assert rows.n_rows == N

    def test_split_of_a_split(self, rows):
        rng = np.random.default_rng(4)
        rest, first = rows.split(200, rng)
        rest, second = rest.split(300, rng)
        third = rest.sample(500, rng)
        X = np.concatenate([first, second, third])
        np.testing.assert_array_equal(X[np.argsort(X[:, 0])], table())
        np.testing.assert_array_equal(np.sort(third[:, 0]), np.concatenate(list(rest.blocks(10)))[:, 0])

    @pytest.mark.parametrize("n", [0, N, N + 1])
    def test_split_leaves_something(self, rows, n):
        with pytest.raises(ValueError, match=rf"`n_held_out` is {n}\. .* from 1 to 999"):
            rows.split(n, np.random.default_rng(0))

    def test_wrong_counts(self, rows):
        with pytest.raises(ValueError, match="`max_rows` is 0"):
            list(rows.blocks(0))
        with pytest.raises(ValueError, match="`max_rows` is 0"):
            list(rows.shuffled(np.random.default_rng(0), 0))
        with pytest.raises(ValueError, match="`n` is -1"):
            rows.sample(-1, np.random.default_rng(0))

    def test_blocks_of_a_file_are_free_to_change(self, rows):
        if isinstance(rows, ArrayRows):
            assert np.shares_memory(next(rows.blocks(100)), rows.X)
            return
        first, *_ = blocks = list(rows.blocks(100))
        first[:] = -1
        np.testing.assert_array_equal(blocks[1], table()[100:200])
        np.testing.assert_array_equal(next(rows.blocks(100)), table()[:100])


class TestSystematic:
    @pytest.mark.parametrize("phase", [0.0, 0.3, 0.5, 0.999])
    @pytest.mark.parametrize("n", [1, 7, 100, 12_345])
    def test_counts_are_shares_rounded_up_or_down(self, n: int, phase: float) -> None:
        w = np.random.default_rng(0).exponential(size=50)
        draws = systematic(w, n, phase)
        assert draws.shape == (n,)
        assert (np.diff(draws) >= 0).all()
        counts, expected = np.bincount(draws, minlength=50), n * w / w.sum()
        assert len(counts) == 50
        assert (np.abs(counts - expected) < 1 + 1e-9).all()

    def test_whole_shares_are_exact_at_every_phase(self) -> None:
        w = np.array([3.0, 1.0, 2.0])
        for phase in np.linspace(0.01, 0.99, 50):
            assert np.bincount(systematic(w, 12, phase)).tolist() == [6, 2, 4]

    def test_chance_rounds_without_bias(self) -> None:
        w, rng = np.array([0.3, 0.45, 1.7, 0.05]), np.random.default_rng(0)
        counts = [np.bincount(systematic(w, 3, rng.random()), minlength=4) for _ in range(4000)]
        # a count is one of two neighbours: its mean over 4000 phases has a standard error below 0.5/√4000 = 0.008
        np.testing.assert_allclose(np.mean(counts, axis=0), 3 * w / w.sum(), atol=0.03)

    def test_equal_weights_give_each_row_once(self) -> None:
        for phase in (0.01, 0.5, 0.99):
            assert systematic(np.full(1000, 0.1), 1000, phase).tolist() == list(range(1000))


class TestWeightedRows:
    w = np.where(np.arange(N) < 100, 9.0, 1.0)  # 100 rows have half of the weight

    @pytest.mark.parametrize("max_rows", [1, 64, 999, 5000])
    def test_a_pass_has_rows_as_often_as_their_weights_say(self, max_rows: int) -> None:
        rows, rng = WeightedRows(table(), self.w, 1800), np.random.default_rng(0)
        for blocks in (list(rows.blocks(max_rows)), list(rows.shuffled(rng, max_rows))):
            assert [len(block) for block in blocks[:-1]] == [max_rows] * (1799 // max_rows)
            X = np.concatenate(blocks)
            assert np.bincount(X[:, 0].astype(int)).tolist() == self.w.tolist()
            np.testing.assert_array_equal(X, table()[X[:, 0].astype(int)])

    def test_a_pass_has_as_many_rows_as_there_are(self) -> None:
        rows = WeightedRows(table(), self.w)
        assert rows.n_rows == N
        first, second = (np.concatenate(list(rows.shuffled(np.random.default_rng(k), 90))) for k in (0, 1))
        for X in (first, second):
            assert np.count_nonzero(X[:, 0] < 100) == pytest.approx(500, abs=1)
        # 900 rows share 500 places: those that come are others in every pass
        assert set(first[:, 0]) != set(second[:, 0])
        assert np.count_nonzero(np.diff(first[:, 0]) == 0) < 30  # mixed: copies are no neighbours

    def test_same_state_same_rows(self) -> None:
        rows = WeightedRows(table(), self.w)
        for draw in (lambda rng: np.concatenate(list(rows.shuffled(rng, 90))), lambda rng: rows.sample(90, rng)):
            a, b, c = (draw(np.random.default_rng(k)) for k in (5, 5, 6))
            np.testing.assert_array_equal(a, b)
            assert not np.array_equal(a, c)

    @pytest.mark.parametrize("n", [0, 1, 300, 1000, 5000])
    def test_sample_is_of_a_pass(self, n: int) -> None:
        X = WeightedRows(table(), self.w).sample(n, np.random.default_rng(2))
        assert X.shape == (min(n, N), D)
        if n >= 300:  # half of 300 without replacement of 1000: a standard deviation of 7
            assert np.mean(X[:, 0] < 100) == pytest.approx(0.5, abs=0.1)

    def test_a_row_is_held_out_as_a_whole(self) -> None:
        rows = WeightedRows(table(), self.w, 1800)
        rows.feature_names = ["a", "b", "c"]
        rest, held_out = rows.split(450, np.random.default_rng(4))
        assert (rest.n_rows, held_out.shape, rest.feature_names) == (1350, (450, D), ["a", "b", "c"])
        values = {*np.concatenate(list(rest.blocks(100)))[:, 0]}
        aside = {*held_out[:, 0]}
        assert not values & aside
        assert len(aside) == pytest.approx(250, abs=10)  # a quarter of the rows, but for the lightest
        # rows of both kinds are aside as in all: 25 ± 4 of the heavy ones, half of the weight
        assert np.mean(held_out[:, 0] < 100) == pytest.approx(0.5, abs=0.15)

    def test_mapped_keeps_weights_and_length(self) -> None:
        rows = WeightedRows(table(), self.w, 1800)
        np.testing.assert_array_equal(next(rows.mapped(-table()).blocks(5000)), -next(rows.blocks(5000)))

    def test_wrong_counts(self) -> None:
        rows, rng = WeightedRows(table(), self.w), np.random.default_rng(0)
        with pytest.raises(ValueError, match="`n` is -1"):
            rows.sample(-1, rng)
        for n in (0, N):
            with pytest.raises(ValueError, match=rf"`n_held_out` is {n}\. .* from 1 to 999"):
                rows.split(n, rng)
        with pytest.raises(ValueError, match="`max_rows` is 0"):
            rows.blocks(0)

    def test_two_rows_are_split(self) -> None:
        rest, held_out = WeightedRows(np.array([[1.0], [2.0]]), np.array([5.0, 1.0]), 6).split(
            2, np.random.default_rng(0)
        )
        assert sorted([*{*held_out.ravel()}, *{*next(rest.blocks(9)).ravel()}]) == [1.0, 2.0]


class TestTypes:
    @pytest.mark.parametrize(
        ("dtype", "expected"),
        [
            ("f4", "f4"),
            (">f4", "f4"),
            ("f8", "f8"),
            (">f8", "f8"),
            ("f2", "f8"),
            ("i8", "f8"),
            ("u1", "f8"),
            ("?", "f8"),
        ],
    )
    def test_npy(self, tmp_path, dtype, expected):
        X = np.arange(12).reshape(4, 3).astype(dtype)
        np.save(tmp_path / "a.npy", X)
        for rows in (open_rows(tmp_path / "a.npy"), ArrayRows(X)):
            for block in (
                next(rows.blocks(9)),
                rows.sample(9, np.random.default_rng(0)),
                next(rows.shuffled(np.random.default_rng(0), 9)),
            ):
                assert block.dtype == np.dtype(expected)
            np.testing.assert_array_equal(next(rows.blocks(9)), X.astype(float))

    def test_parquet(self, tmp_path):
        columns = {
            "single": pa.array([1.5, 2.5], pa.float32()),
            "whole": pa.array([2**40, -1], pa.int64()),
            "flag": pa.array([True, False]),
            "money": pa.array([1, 2], pa.decimal128(10, 2)),
            "a.dot": pa.array([1, 2], pa.uint8()),
        }
        pq.write_table(pa.table(columns), tmp_path / "a.parquet")
        rows = open_rows(tmp_path / "a.parquet")
        block = next(rows.blocks(9))
        assert block.dtype == np.float64
        assert rows.feature_names == list(columns)
        assert block.tolist() == [[1.5, 2**40, 1, 1, 1], [2.5, -1, 0, 2, 2]]
        write_parquet(tmp_path / "b.parquet", np.ones((3, 2), np.float32))
        assert next(open_rows(tmp_path / "b.parquet").blocks(9)).dtype == np.float32

    def test_parquet_of_pandas_and_polars(self, tmp_path):
        pd.DataFrame({"a": [1, 2, 3], "b": [4.0, 5.0, 6.0]}).iloc[[2, 0]].to_parquet(tmp_path / "a.parquet")
        assert next(open_rows(tmp_path / "a.parquet").blocks(9)).tolist() == [[3, 6], [1, 4]]
        pl.DataFrame({"a": [1, 2], "b": [4.0, 5.0]}).write_parquet(tmp_path / "B.PARQUET")
        assert next(open_rows(str(tmp_path / "B.PARQUET")).blocks(9)).tolist() == [[1, 4], [2, 5]]

    def test_empty_row_groups(self, tmp_path):
        schema = pa.schema({"a": pa.float64()})
        with pq.ParquetWriter(tmp_path / "a.parquet", schema) as writer:
            for values in ([], [1.0, 2.0], [], [3.0]):
                writer.write_table(pa.table({"a": values}, schema), row_group_size=2)
        rows = open_rows(tmp_path / "a.parquet")
        assert np.concatenate(list(rows.blocks(2))).ravel().tolist() == [1, 2, 3]
        assert sorted(rows.sample(3, np.random.default_rng(0)).ravel()) == [1, 2, 3]


class TestBadFiles:
    @pytest.mark.parametrize("kind", ["npy", "parquet"])
    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_values_that_are_not_finite(self, tmp_path, kind, bad):
        X = table()
        X[700, 2] = bad
        path = tmp_path / f"rows.{kind}"
        np.save(path, X) if kind == "npy" else write_parquet(path, X)
        rows = open_rows(path)
        column = "2" if kind == "npy" else "'x2'"
        message = rf"rows\.{kind} has {bad} in row 700 \(counted from 0\), column {column}\."
        for read in (
            lambda: list(rows.blocks(100)),
            lambda: list(rows.shuffled(np.random.default_rng(0), 300)),
            lambda: rows.sample(N, np.random.default_rng(0)),
            # with rows set aside, the number is still that of the file
            lambda: list(rows.split(300, np.random.default_rng(0))[0].blocks(50)),
        ):
            with pytest.raises(ValueError, match=message):
                read()

    def test_missing_values_of_parquet(self, tmp_path):
        pl.DataFrame({"a": [1, 2, None]}).write_parquet(tmp_path / "a.parquet")
        with pytest.raises(ValueError, match=r"has nan in row 2 .*column 'a'"):
            list(open_rows(tmp_path / "a.parquet").blocks(10))

    def test_columns_that_are_not_numbers(self, tmp_path):
        pl.DataFrame({"a": [1], "name": ["x"], "tags": [[1]]}).write_parquet(tmp_path / "a.parquet")
        with pytest.raises(ValueError, match=r"not numbers: 'name' \(.*string.*\), 'tags' \(.*list"):
            open_rows(tmp_path / "a.parquet")

    @pytest.mark.parametrize("name", ["none.npy", "none.parquet"])
    def test_missing(self, tmp_path, name):
        with pytest.raises(FileNotFoundError, match=f"There is no file .*{name}"):
            open_rows(tmp_path / name)

    def test_unknown_suffix(self, tmp_path):
        with pytest.raises(ValueError, match=r"ends with '\.xls'.*\.npy or \.parquet"):
            open_rows(tmp_path / "a.xls")

    def test_folder(self, tmp_path):
        (tmp_path / "a.npy").mkdir()
        with pytest.raises(ValueError, match="is a folder"):
            open_rows(tmp_path / "a.npy")

    @pytest.mark.parametrize("name", ["a.npy", "a.parquet"])
    def test_empty(self, tmp_path, name):
        (tmp_path / name).touch()
        with pytest.raises(ValueError, match=r"is empty \(0 bytes\)"):
            open_rows(tmp_path / name)

    @pytest.mark.parametrize("name", ["a.npy", "a.parquet"])
    @pytest.mark.parametrize("n_bytes", [3, 9, 40, 5000])
    def test_truncated(self, tmp_path, name, n_bytes):
        path = tmp_path / name
        np.save(path, table()) if name == "a.npy" else write_parquet(path, table())
        path.write_bytes(path.read_bytes()[:n_bytes])
        with pytest.raises(ValueError, match=rf"{name} cannot be read as .*Write (the file|it) again"):
            open_rows(path)

    @pytest.mark.parametrize("name", ["a.npy", "a.parquet"])
    def test_foreign(self, tmp_path, name):
        (tmp_path / name).write_bytes(b"PK\x03\x04 something else" * 10)
        with pytest.raises(ValueError, match=r"cannot be read as (NPY|Parquet)"):
            open_rows(tmp_path / name)

    def test_parquet_that_breaks_half_way(self, tmp_path):
        path = write_parquet(tmp_path / "a.parquet", table())
        data = bytearray(path.read_bytes())
        data[200:12_000] = b"\xff" * 11_800  # pages, not the footer
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"a\.parquet cannot be read as Parquet"):
            list(open_rows(path).blocks(100))

    def test_pickled_objects_are_not_loaded(self, tmp_path):
        np.save(tmp_path / "a.npy", np.array([[print, 1]], dtype=object), allow_pickle=True)
        with pytest.raises(ValueError, match=r"Python objects.*matrix of numbers"):
            open_rows(tmp_path / "a.npy")

    @pytest.mark.parametrize(
        ("X", "message"),
        [
            (np.ones(5), r"has shape \(5,\)\. It must be a matrix"),
            (np.ones((2, 2, 2)), r"has shape \(2, 2, 2\)\. It must be a matrix"),
            (np.ones((0, 3)), r"has shape \(0, 3\)\. It must have at least one row"),
            (np.ones((3, 0)), r"has shape \(3, 0\)\. It must have at least one row"),
            (np.array([["a", "b"]]), r"dtype <U1\. Rows must be numbers"),
            (np.ones((3, 2), complex), r"dtype complex128\. Rows must be numbers"),
        ],
    )
    def test_wrong_arrays(self, tmp_path, X, message):
        np.save(tmp_path / "a.npy", X)
        with pytest.raises(ValueError, match=rf"a\.npy .*{message}"):
            open_rows(tmp_path / "a.npy")
        with pytest.raises(ValueError, match=f"`X` .*{message}"):
            ArrayRows(X)

    def test_no_rows_in_parquet(self, tmp_path):
        pl.DataFrame({"a": []}, schema={"a": pl.Float64}).write_parquet(tmp_path / "a.parquet")
        with pytest.raises(ValueError, match=r"has shape \(0, 1\)"):
            open_rows(tmp_path / "a.parquet")


class TestMemory:
    def test_array_is_not_copied(self):
        X = table()
        rows = ArrayRows(X)
        rest, _ = rows.split(10, np.random.default_rng(0))
        assert isinstance(rest, ArrayRows)
        assert np.shares_memory(rest.X, X)

    def test_one_giant_row_group_is_streamed(self, tmp_path):
        X = np.random.default_rng(0).normal(size=(200_000, 10))
        columns = {f"x{j}": X[:, j] for j in range(10)}
        pq.write_table(pa.table(columns), tmp_path / "a.parquet", data_page_size=2**16, use_dictionary=False)
        del columns, X
        rows, n, peak, before = open_rows(tmp_path / "a.parquet"), 0, 0, pa.total_allocated_bytes()
        for block in rows.shuffled(np.random.default_rng(0), 5000):
            n, peak = n + len(block), max(peak, pa.total_allocated_bytes() - before)
        assert n == 200_000
        # the group is 16 MB; for each of 10 columns there may be a buffer of 0.26 MB and a few pages of 0.07 MB
        assert 0 < peak < 5e6
