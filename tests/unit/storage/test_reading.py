from __future__ import annotations

import csv
import gzip
import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal

from flowratio._support.errors import ArgumentError
from flowratio.storage.reading import open_table, place_in, read_table

FRAME = pl.DataFrame(
    {
        "age": [31, None, 45, 28, 60],
        "job": ["clerk", "écrivain", None, 'a "b", c', "line\nbreak"],
        "height": pl.Series([1.7, 1.8, float("nan"), 1.6, 1.5], dtype=pl.Float32),
        "since": [date(2020, 1, k) for k in range(1, 6)],
    }
)
MATRIX = np.arange(12.0).reshape(4, 3)


def batches(path: Path, rows: int = 65_536) -> Iterator[pl.DataFrame]:
    with open_table(path) as table:
        yield from table.frames(rows=rows)


def written(path: Path, frame: pl.DataFrame = FRAME) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(frame.to_arrow(), path, row_group_size=2)
    else:
        frame.write_csv(path, separator="\t" if path.suffix == ".tsv" else ",")
    return path


def as_text(frame: pl.DataFrame) -> pl.DataFrame:
    """Return what a CSV file holds of a frame; what is empty is a gap, if it is not quoted."""
    header, *rows = csv.reader(io.StringIO(frame.write_csv(), newline=""))
    gaps = [[value is None for value in row] for row in frame.rows()]
    rows = [[None if gap else cell for gap, cell in zip(*row, strict=True)] for row in zip(gaps, rows, strict=True)]
    return pl.DataFrame(rows, dict.fromkeys(header, pl.String), orient="row")


@pytest.fixture
def csv_of(tmp_path: Path) -> Callable[[str | bytes], Path]:
    def make(content: str | bytes) -> Path:
        path = tmp_path / "rows.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return make


class TestOneColumn:
    """A line is a row: one with nothing on it is a gap."""

    @pytest.mark.parametrize(
        ("content", "cells"),
        [
            ("x\n\n1\n2\n", [None, "1", "2"]),
            ("x\n1\n2\n\n", ["1", "2", None]),
            ("x\n1\n\n\n2", ["1", None, None, "2"]),
            ("x\r\n1\r\n\r\n2\r\n", ["1", None, "2"]),
            ('x\n1\n""\n2\n', ["1", "", "2"]),
            ("x\n\n\n", [None, None]),
        ],
    )
    def test_blank_lines_are_gaps(self, csv_of: Callable[[str | bytes], Path], content: str, cells: list[str]) -> None:
        assert read_table(csv_of(content))["x"].to_list() == cells

    def test_what_is_written_is_read(self, tmp_path: Path) -> None:
        path = written(tmp_path / "rows.csv", FRAME[["age"]])
        assert read_table(path)["age"].to_list() == ["31", None, "45", "28", "60"]
        with open_table(path) as table:
            assert [len(frame) for frame in table.frames(rows=2, skip=1)] == [2, 2]

    def test_of_more_columns_they_are_nothing(self, csv_of: Callable[[str | bytes], Path]) -> None:
        assert read_table(csv_of("x,y\n1,2\n\n3,4\n\n")).rows() == [("1", "2"), ("3", "4")]


class TestFormats:
    @pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.parquet"])
    def test_all_rows_come_back(self, tmp_path: Path, name: str) -> None:
        path = written(tmp_path / name)
        assert_frame_equal(read_table(path), FRAME if name == "rows.parquet" else as_text(FRAME))

    def test_types_of_parquet_are_kept(self, tmp_path: Path) -> None:
        assert read_table(written(tmp_path / "rows.parquet")).schema == FRAME.schema

    def test_a_compressed_csv_is_the_csv(self, tmp_path: Path) -> None:
        path = written(tmp_path / "rows.csv")
        packed = tmp_path / "rows.csv.gz"
        packed.write_bytes(gzip.compress(path.read_bytes()))
        assert_frame_equal(read_table(packed), read_table(path))

    @pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4", "<f2", "<i4", "|b1", "|u1", np.longdouble])
    @pytest.mark.parametrize("order", ["C", "F"])
    def test_arrays_of_all_types(self, tmp_path: Path, dtype: str, order: str) -> None:
        X = np.asfortranarray(MATRIX.astype(dtype)) if order == "F" else MATRIX.astype(dtype)
        np.save(tmp_path / "rows.npy", X)
        np.savez(tmp_path / "rows.npz", X)
        for name in ("rows.npy", "rows.npz"):
            frame = read_table(tmp_path / name)
            assert frame.columns == ["x1", "x2", "x3"]
            assert np.array_equal(frame.to_numpy(), X)

    def test_single_precision_and_gaps_of_an_array_are_kept(self, tmp_path: Path) -> None:
        X = np.array([[1.0, np.nan]], np.float32)
        np.save(tmp_path / "rows.npy", X)
        frame = read_table(tmp_path / "rows.npy")
        assert frame.dtypes == [pl.Float32, pl.Float32]
        assert np.array_equal(frame.to_numpy(), X, equal_nan=True)

    def test_of_several_arrays_the_one_named_x(self, tmp_path: Path) -> None:
        np.savez_compressed(tmp_path / "rows.npz", y=np.ones(4), X=MATRIX)
        assert np.array_equal(read_table(tmp_path / "rows.npz").to_numpy(), MATRIX)

    def test_vectors_are_columns(self, tmp_path: Path) -> None:
        age, height = np.array([31, 45, 28]), np.array([1.7, np.nan, 1.6], np.float32)
        np.save(tmp_path / "one.npy", age)
        np.savez(tmp_path / "one.npz", age)
        np.savez(tmp_path / "named.npz", age=age)
        np.savez_compressed(tmp_path / "two.npz", height=height, age=age)
        for name, column in (("one.npy", "x1"), ("one.npz", "x1"), ("named.npz", "age")):
            assert_frame_equal(read_table(tmp_path / name), pl.DataFrame({column: age}))
        both = pl.DataFrame({"height": height, "age": age})
        assert_frame_equal(read_table(tmp_path / "two.npz"), both)
        with open_table(tmp_path / "two.npz") as table:
            assert_frame_equal(pl.concat(table.frames(["age", "height"], rows=2, skip=1)), both[["age", "height"]][1:])

    def test_content_tells_where_the_ending_does_not(self, tmp_path: Path) -> None:
        np.save(tmp_path / "rows.npy", MATRIX)
        for name in ("rows.csv", "rows.parquet"):
            written(tmp_path / name)
        for name in ("rows.csv", "rows.parquet", "rows.npy"):
            expected = read_table(tmp_path / name)
            (tmp_path / "rows.data").write_bytes((tmp_path / name).read_bytes())
            assert_frame_equal(read_table(tmp_path / "rows.data"), expected)

    def test_an_index_of_pandas_is_no_column_but_can_be_asked_for(self, tmp_path: Path) -> None:
        table = FRAME.to_pandas().set_index("age")
        table.to_csv(tmp_path / "rows.csv", index_label="")
        table.to_parquet(tmp_path / "rows.parquet")
        for name, index in (("rows.csv", ""), ("rows.parquet", "age")):
            assert read_table(tmp_path / name).columns == ["job", "height", "since"]
            assert read_table(tmp_path / name, columns=[index, "job"]).columns == [index, "job"]
            assert next(batches(tmp_path / name)).width == 4


class TestCsv:
    def test_text_is_not_interpreted(self, csv_of: Callable[..., Path]) -> None:
        frame = read_table(csv_of('a,b\n007,NA\n"",1e3\n null ,TRUE\n'))
        assert frame.rows() == [("007", "NA"), ("", "1e3"), (" null ", "TRUE")]

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    @pytest.mark.parametrize("last", [True, False])
    @pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
    def test_line_ends_and_byte_order_mark(
        self, csv_of: Callable[..., Path], end: str, last: bool, mark: bytes
    ) -> None:
        text = end.join(["ä,b", "1,2", "", "3,4"]) + end * last
        frame = read_table(csv_of(mark + text.encode()))
        assert frame.columns == ["ä", "b"]
        assert frame.rows() == [("1", "2"), ("3", "4")]

    def test_quotes_in_header_and_rows(self, csv_of: Callable[..., Path]) -> None:
        frame = read_table(csv_of('"a, ""b""\nc",d\n"x\n\ny, z",1\n'))
        assert frame.columns == ['a, "b"\nc', "d"]
        assert frame.rows() == [("x\n\ny, z", "1")]

    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    def test_rows_are_told_by_their_lines(self, csv_of: Callable[..., Path], end: str) -> None:
        path = csv_of(end.join(["", "a,b", "1,2", "", '"x', 'y",4', "5,6", ""]))
        assert [place_in(path, row) for row in range(4)] == [
            *[f"line {line} of {path}" for line in (3, 5, 7)],
            f"row 4 of {path}",
        ]
        path = csv_of(end.join(["a", "", "1", ""]))
        assert [place_in(path, row) for row in (0, 1)] == [f"line {line} of {path}" for line in (2, 3)]

    def test_rows_of_other_files_are_counted_from_one(self, tmp_path: Path) -> None:
        path = written(tmp_path / "rows.parquet")
        assert place_in(path, 0) == f"row 1 of {path}"
        assert place_in("-", 4) == "row 5 of standard input"

    def test_a_wide_table(self, tmp_path: Path) -> None:
        frame = pl.DataFrame({f"a long name of column {j}": ["1", "2"] for j in range(9000)})
        assert_frame_equal(read_table(written(tmp_path / "rows.csv", frame)), frame)

    def test_a_file_of_many_blocks(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        frame = pl.DataFrame({"n": range(2000), "text": ["é\n,"] * 2000})
        path = written(tmp_path / "rows.csv", frame)
        monkeypatch.setattr("flowratio.storage.csv_table._BLOCK_BYTES", 100)
        assert_frame_equal(pl.concat(batches(path, rows=77)), as_text(frame))


class TestEncoding:
    @pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8", "utf-8-sig"])
    def test_text_in_another_encoding(self, csv_of: Callable[..., Path], encoding: str) -> None:
        path = csv_of("née;b\r\nä;2\r\n\r\né;x\r\n".encode(encoding))
        frame = read_table(path, encoding=encoding)
        assert frame.columns == ["née", "b"]
        assert frame.rows() == [("ä", "2"), ("é", "x")]
        assert place_in(path, 1, encoding) == f"line 4 of {path}"

    def test_a_compressed_file(self, tmp_path: Path) -> None:
        (tmp_path / "rows.csv.gz").write_bytes(gzip.compress("a,b\né,2\n".encode("latin-1")))
        assert read_table(tmp_path / "rows.csv.gz", encoding="latin-1").rows() == [("é", "2")]

    def test_other_formats_have_none(self, tmp_path: Path) -> None:
        path = written(tmp_path / "rows.parquet")
        assert_frame_equal(read_table(path, encoding="latin-1"), FRAME)

    @pytest.mark.parametrize("encoding", ["utf9", "", "base64", "a\0b"])
    def test_an_unknown_one_is_refused(self, csv_of: Callable[..., Path], encoding: str) -> None:
        with pytest.raises(ArgumentError, match=r"`encoding` is '.*'\. Use the name of a text encoding"):
            read_table(csv_of("a,b\n1,2\n"), encoding=encoding)

    def test_a_file_in_another_one_is_refused(self, csv_of: Callable[..., Path]) -> None:
        path = csv_of(b"a,b\n\xe9,2\n")
        for encoding in (None, "ascii", "utf-16"):
            with pytest.raises(ArgumentError, match=rf"{path} is not in .*et `encoding`") as error:
                read_table(path, encoding=encoding)
            assert len(str(error.value).splitlines()) == 1


class TestBatches:
    @pytest.fixture(params=["rows.csv", "rows.parquet", "rows.npy"])
    def path(self, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
        path = tmp_path / request.param
        frame = pl.DataFrame({f"x{j}": np.arange(23) + 100 * j for j in (1, 2, 3)})
        if path.suffix == ".npy":
            np.save(path, frame.to_numpy())
        else:
            written(path, frame)
        return path

    @pytest.mark.parametrize("rows", [1, 4, 23, 24])
    def test_all_but_the_last_are_full(self, path: Path, rows: int) -> None:
        frames = list(batches(path, rows=rows))
        assert [len(frame) for frame in frames] == [min(rows, 23 - start) for start in range(0, 23, rows)]
        assert_frame_equal(pl.concat(frames), read_table(path))

    @pytest.mark.parametrize("skip", [0, 1, 2, 7, 22, 23])
    def test_rows_can_be_passed_over(self, path: Path, skip: int) -> None:
        with open_table(path) as table:
            rest = list(table.frames(["x3", "x1"], rows=5, skip=skip))
        assert sum(map(len, rest)) == 23 - skip
        if rest:
            assert_frame_equal(pl.concat(rest), read_table(path, columns=["x3", "x1"])[skip:])

    def test_number_of_rows(self, path: Path) -> None:
        with open_table(path) as table:
            # of a CSV file it is an estimate: the header's bytes count as if they were rows
            assert abs(table.n_rows - 23) <= 2 * (path.suffix == ".csv")

    def test_a_batch_of_no_rows_is_refused(self, path: Path) -> None:
        with pytest.raises(ValueError, match=r"`rows` is 0\. Use an integer of 1 or more"):
            next(batches(path, rows=0))


class TestColumns:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return written(tmp_path / "rows.parquet")

    def test_chosen_and_left_out(self, path: Path) -> None:
        assert read_table(path, columns=["since", "age"]).columns == ["since", "age"]
        assert read_table(path, exclude=["since", "age"]).columns == ["job", "height"]
        assert read_table(path, columns=["since", "age"], exclude=["age"]).columns == ["since"]

    def test_names_with_dots(self, tmp_path: Path) -> None:
        path = written(tmp_path / "dots.parquet", pl.DataFrame({"a.b": [1], "a": [2], "a.c": [3]}))
        assert read_table(path, columns=["a.c", "a"]).rows() == [(3, 2)]

    def test_an_unknown_name_is_met_with_the_nearest(self, path: Path) -> None:
        with pytest.raises(ValueError, match=r"`columns` has 'heigth', .* Did you mean 'height'\?"):
            read_table(path, columns=["heigth"])
        with pytest.raises(
            ValueError, match=r"`exclude` has 'zzz', .* Its columns are 'age', 'job', 'height', 'since'"
        ):
            read_table(path, exclude=["zzz"])

    def test_one_must_be_left(self, path: Path) -> None:
        with pytest.raises(ValueError, match=r"No column of .* is left"):
            read_table(path, exclude=FRAME.columns)


def test_standard_input_is_read_once_and_used_twice() -> None:
    code = """
from flowratio.storage.reading import open_table
with open_table("-") as table:
    print([frame.rows() for _ in range(2) for frame in table.frames(rows=2)], table.name)
"""
    run = subprocess.run([sys.executable, "-c", code], input=b"a;b\n1;2\n", capture_output=True, check=True)
    assert run.stdout.decode() == "[[('1', '2')], [('1', '2')]] standard input\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are of POSIX")
def test_a_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"a,b\n1,2\n",))
    writer.start()
    assert read_table(tmp_path / "pipe").rows() == [("1", "2")]
    writer.join()


class TestBadFiles:
    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b"", "is empty"),
            (b"a,b\n", "has a header but no rows"),
            (b"a,b\n\n\n", "has a header but no rows"),
            (b"a,b,a\n1,2,3\n", "more than one column 'a'"),
            (b"a,,\n1,2,3\n", "more than one column ''"),
            (b"a,b\n1,2\n1,2,3\n", "has 3 values in line 3, but its header has 2 names"),
            (b"a,b\n1,2\n1\n", "has 1 values in line 3"),
            (b"a,b\n1,2\n\xe9,3\n", r"is not in UTF-8 \(byte 1 of line 3 is 0xe9\)\. Set `encoding`"),
            ("a,b\n1,2\n".encode("utf-16"), r"is not in UTF-8 \(byte 1 of line 1 is 0xff\)"),
            (b"a\0,b\n1,2\n", "has zero bytes"),
            (b"a b c\n1 2 3\n4 5 6\n", "only one column, in which white space separates numbers"),
            (b"0.5,1.5\n2.5,3.5\n", "begins with the numbers '0.5', '1.5'"),
            (b'a,b\n1,"2\n3,4\n', "has a quote that is not closed"),
            (b'a,b\n1,"2\n' + b"x,y\n" * 2_000, "has a quote that is not closed"),
            (b"x" * 2_000_000, "has a header without end"),
            (b"ab," * 500_000, "a header of over 1 MB"),
        ],
    )
    def test_csv(self, csv_of: Callable[..., Path], content: bytes, words: str) -> None:
        path = csv_of(content)
        with pytest.raises(ValueError, match=words) as error:
            read_table(path)
        assert str(path) in str(error.value)

    def test_a_row_that_is_too_long_is_told_by_its_line(
        self, csv_of: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("flowratio.storage.csv_table._BLOCK_BYTES", 1000)
        path = csv_of("a,b\n" + '1,2\n\n1,"x\ny"\n' * 500 + "1,2,3\n" + "1,2\n" * 500)
        with pytest.raises(ValueError, match="has 3 values in line 2002, but its header has 2 names"):
            read_table(path)

    def test_a_quote_that_is_not_closed_in_a_long_file(
        self, csv_of: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("flowratio.storage.csv_table._BLOCK_BYTES", 1000)
        path = csv_of("a,b\n" + "1,2\n" * 500 + '1,"2\n' + "x,y\n" * 5000)
        with pytest.raises(ValueError, match="has a quote that is not closed"):
            read_table(path)

    def test_parquet(self, tmp_path: Path) -> None:
        path = written(tmp_path / "rows.parquet")
        whole = path.read_bytes()
        for content, words in ((b"", "is empty"), (whole[:-9], "as Parquet"), (b"PAR1", "as Parquet")):
            path.write_bytes(content)
            with pytest.raises(ValueError, match=rf"{path}.*{words}"):
                read_table(path)

    def test_parquet_without_rows_or_with_text_that_is_none(self, tmp_path: Path) -> None:
        path = written(tmp_path / "rows.parquet", FRAME[:0])
        with pytest.raises(ValueError, match="no rows"):
            read_table(path)
        text = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe"))
        pq.write_table(pa.table({"a": text}), path)
        with pytest.raises(ValueError, match=r"cannot be read as Parquet .*UTF8"):
            read_table(path)

    @pytest.mark.parametrize(
        ("array", "words"),
        [
            (np.ones(0), r"has shape \(0,\)"),
            (np.ones((2, 2, 2)), r"has shape \(2, 2, 2\)"),
            (np.ones((0, 2)), "at least one row"),
            (np.array([[None, {}]]), "Python objects"),
            (np.array([["a", "b"]]), "Rows must be numbers"),
            (np.ones((2, 2), complex), "Rows must be numbers"),
        ],
    )
    def test_arrays(self, tmp_path: Path, array: np.ndarray, words: str) -> None:
        np.save(tmp_path / "rows.npy", array, allow_pickle=True)
        np.savez(tmp_path / "rows.npz", X=array, allow_pickle=True)
        for name in ("rows.npy", "rows.npz"):
            with pytest.raises(ValueError, match=rf"{tmp_path / name}.*{words}"):
                read_table(tmp_path / name)

    def test_archives(self, tmp_path: Path) -> None:
        path = tmp_path / "rows.npz"
        np.savez(path, a=MATRIX, b=MATRIX)
        words = (
            r"has the arrays 'a' of shape \(4, 3\), 'b' of shape \(4, 3\)\. It must have one array, or one named 'X'"
        )
        with pytest.raises(ValueError, match=words):
            read_table(path)
        np.savez(path, a=np.ones(3), b=np.ones(4))
        with pytest.raises(
            ValueError, match=r"'a' of shape \(3,\), 'b' of shape \(4,\)\. .* vectors of the same length"
        ):
            read_table(path)
        np.savez(path, a=np.ones(2), b=np.array(["x", "y"]))
        with pytest.raises(ValueError, match=str(path)):
            read_table(path)
        np.savez(path)
        with pytest.raises(ValueError, match="without arrays"):
            read_table(path)

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match=r"^There is no file .*none.csv\. Check the path"):
            read_table(tmp_path / "none.csv")
        with pytest.raises(FileNotFoundError, match=r"is a folder without files"):
            read_table(tmp_path)


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """Change a few bytes: replaced, flipped, left out, doubled, cut off, or awkward ones put in."""
    changed = bytearray(data)
    for _ in range(rng.integers(1, 5)):
        start = int(rng.integers(len(changed) + 1))
        span = slice(start, start + int(rng.integers(1, 20)))
        match int(rng.integers(6)):
            case 0:
                changed[start : start + 1] = rng.bytes(1)
            case 1:
                changed[start : start + 1] = bytes(b ^ 1 << int(rng.integers(8)) for b in changed[start : start + 1])
            case 2:
                del changed[span]
            case 3:
                changed[start:start] = changed[span]
            case 4:
                del changed[start:]
            case _:
                changed[start:start] = rng.choice(list(b'\0\xff",;\t\n\r|\x80-0'), 3).astype(np.uint8).tobytes()
    return bytes(changed)


def error_of(path: Path) -> str | None:
    """Read a file to its end; return the words of the error, if there is one of those that may be."""
    try:
        for _ in batches(path, rows=3):
            pass
    except (ValueError, OSError) as error:
        return str(error)
    return None


@pytest.mark.filterwarnings("ignore:Reading `.npy` or `.npz` file required additional header parsing")
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_no_bytes_lead_to_anything_but_rows_or_one_line(tmp_path: Path) -> None:
    frame = FRAME.with_columns(FRAME["job"].cast(pl.Categorical).alias("kind"))
    good = [written(tmp_path / f"rows.{ending}") for ending in ("csv", "tsv")]
    good.append(written(tmp_path / "groups.parquet", frame))
    frame.write_parquet(tmp_path / "plain.parquet", compression="uncompressed")
    np.save(tmp_path / "rows.npy", MATRIX)
    np.savez(tmp_path / "one.npz", MATRIX)
    np.savez_compressed(tmp_path / "two.npz", X=MATRIX, y=MATRIX[0])
    np.save(tmp_path / "vector.npy", MATRIX[0])
    np.savez(tmp_path / "vectors.npz", a=MATRIX[0], b=MATRIX[1])
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(good[0].read_bytes()))
    good += [tmp_path / name for name in ("plain.parquet", "rows.npy", "one.npz", "two.npz", "rows.csv.gz")]
    good += [tmp_path / name for name in ("vector.npy", "vectors.npz")]
    frame.write_ipc(tmp_path / "rows.feather")
    frame.write_ipc_stream(tmp_path / "stream.arrow")
    frame.write_ndjson(tmp_path / "rows.jsonl")
    good += [tmp_path / name for name in ("rows.feather", "stream.arrow", "rows.jsonl")]
    rng, n_read = np.random.default_rng(0), 0
    for k in range(2400):
        path = good[k % len(good)]
        bad = path.with_name(f"bad-{path.name}")
        content = mutated(path.read_bytes(), rng)
        bad.write_bytes(content)
        words = error_of(bad)
        n_read += words is None
        assert words is None or (str(bad) in words and len(words.splitlines()) == 1), (content, words)
    assert 100 < n_read < 1000  # mutants are neither all harmless nor all broken
