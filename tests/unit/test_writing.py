from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from flowratio.reading import open_table, read_table
from flowratio.writing import TABLE_ENDINGS, check_output, with_numbers, write_table

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
    with pytest.raises(ValueError, match=r"Cannot write .*Leave such columns out") as caught:
        write_table([frame], tmp_path / "rows.csv")
    assert "\n" not in str(caught.value)
    write_table([frame], tmp_path / "rows.parquet")
    assert_frame_equal(read_table(tmp_path / "rows.parquet"), frame)


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
        ValueError, match=r"^Cannot write to standard output \('-'\): give .* end with \.html or \.htm\.$"
    ):
        check_output("-", [".html", ".htm"])
    with pytest.raises(ValueError, match=r"its name must end with \.html\.$"):
        check_output(tmp_path / "page.csv", [".html"])
    with pytest.raises(ValueError, match=r"must end with \.csv or \.parquet, or be '-'\.$"):
        check_output(tmp_path / "page.html", TABLE_ENDINGS, standard_output=True)
    check_output("-", TABLE_ENDINGS, standard_output=True)
