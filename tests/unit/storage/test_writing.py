from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from flowratio.storage.outputs import TABLE_ENDINGS, check_output
from flowratio.storage.reading import open_table, read_table
from flowratio.storage.writing import for_pandas, with_numbers, write_table

FRAME = pl.DataFrame(
    {
        "age": [31, None, 45, 28, 60],
        "job": ["clerk", "écrivain", None, 'a "b", c', "line\nbreak"],
        "since": [date(2020, 1, k) for k in range(1, 6)],
    }
)


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    write_table([FRAME[:2], FRAME[2:]], tmp_path / name)
    expected = FRAME if name == "rows.parquet" else FRAME.cast(pl.String)
    assert_frame_equal(read_table(tmp_path / name), expected)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_floats_come_back_to_the_last_bit(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal(1000) * 10.0 ** np.arange(-300, 300, 0.6)
    write_table([pl.DataFrame({"x": x})], tmp_path / "x.csv")
    assert np.array_equal(read_table(tmp_path / "x.csv")["x"].cast(pl.Float64), x)


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_a_failure_leaves_the_old_file(tmp_path: Path, name: str) -> None:
    def broken() -> Iterator[pl.DataFrame]:
        yield FRAME
        raise RuntimeError

    (tmp_path / name).write_text("old")
    with pytest.raises(RuntimeError):
        write_table(broken(), tmp_path / name)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "old")]


def test_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write_table([FRAME[["age"]], FRAME[["age"]]], "-")
    assert capfdbinary.readouterr().out == b"age\n31\n\n45\n28\n60\n31\n\n45\n28\n60\n"


def test_types_that_a_format_has_not(tmp_path: Path) -> None:
    frame = pl.DataFrame({"a": [[1, 2]]})
    with pytest.raises(ValueError, match=r"^Cannot write .* store column 'a' of type List.*\.parquet\.$") as error:
        write_table([frame], tmp_path / "rows.csv")
    assert "\n" not in str(error.value)
    write_table([frame], tmp_path / "rows.parquet")
    assert_frame_equal(read_table(tmp_path / "rows.parquet"), frame)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_durations_are_seconds_in_csv(tmp_path: Path, unit: Literal["ms", "us", "ns"]) -> None:
    spans = pl.Series("wait", [timedelta(hours=1, milliseconds=500), None, timedelta(0)], pl.Duration(unit))
    write_table([spans.to_frame()], tmp_path / "rows.csv")
    assert read_table(tmp_path / "rows.csv")["wait"].to_list() == ["3600.5", None, "0.0"]


def test_separators_and_what_they_stand_in_come_back(tmp_path: Path) -> None:
    frame = FRAME.with_columns(job=pl.Series(["a;b", "1,5", None, "c", "d\te"])).cast(pl.String)
    for separator in (";", "\t", "|"):
        write_table([frame[:2], frame[2:]], tmp_path / "rows.csv", separator=separator)
        assert (tmp_path / "rows.csv").read_text().startswith(f"age{separator}job{separator}since\n")
        assert_frame_equal(read_table(tmp_path / "rows.csv"), frame)


def test_pandas_reads_whole_numbers_and_truth_values_with_gaps(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"n": [1, None], "m": [1, 2], "b": [True, None], "x": [0.5, None]}, schema_overrides={"n": pl.UInt8}
    )
    write_table([frame], tmp_path / "rows.parquet", for_pandas(frame))
    read = pd.read_parquet(tmp_path / "rows.parquet")
    assert [str(dtype) for dtype in read.dtypes] == ["UInt8", "int64", "boolean", "float64"]
    assert_frame_equal(pl.read_parquet(tmp_path / "rows.parquet"), frame)


def test_what_a_file_says_of_itself_is_kept(tmp_path: Path) -> None:
    write_table([FRAME[:2], FRAME[2:]], tmp_path / "rows.parquet", {b"made by": b"hand", b"pandas": b"{}"})
    with open_table(tmp_path / "rows.parquet") as table:
        assert dict(table.metadata) == {b"made by": b"hand", b"pandas": b"{}"}
    for broken in (b"{", b"{}", b"[]", b"\xff"):
        assert with_numbers({b"made by": b"hand", b"pandas": broken}, ["weight"]) == {b"made by": b"hand"}


def test_bad_paths_are_refused(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="it is a folder"):
        check_output(tmp_path, TABLE_ENDINGS)
    with pytest.raises(FileNotFoundError, match=r"^Cannot write .*Make sure that its folder exists"):
        check_output(tmp_path / "none" / "rows.csv", TABLE_ENDINGS)
    with pytest.raises(ValueError, match=r"must end with \.csv or \.parquet"):
        check_output(tmp_path / "rows.xlsx", TABLE_ENDINGS)
    with pytest.raises(ValueError, match="no rows to write"):
        write_table([], tmp_path / "rows.csv")
    check_output(tmp_path / "page.html", [".html"])
    assert not list(tmp_path.iterdir())


def test_standard_output_is_refused_where_a_file_is_needed(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"^Cannot write to standard output \('-'\)\. Use .* end with \.html or \.htm\.$"
    ):
        check_output("-", [".html", ".htm"])
    with pytest.raises(ValueError, match=r"Its name must end with \.html\.$"):
        check_output(tmp_path / "page.csv", [".html"])
    with pytest.raises(ValueError, match=r"must end with \.csv or \.parquet, or be '-'\.$"):
        check_output(tmp_path / "page.html", TABLE_ENDINGS, standard_output=True)
    check_output("-", TABLE_ENDINGS, standard_output=True)
