"""Excel workbooks. Reading needs fastexcel, and writing one for a test needs xlsxwriter."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from flowratio.storage.reading import read_table

FRAME = pl.DataFrame(
    {
        "age": [31, None, 45],
        "job": ["clerk", "écrivain", None],
        "height": [1.75, 1.5, 2.25],
        "since": [date(2020, 1, k) for k in range(1, 4)],
    }
)


def workbook(path: Path, *sheets: pl.DataFrame) -> Path:
    xlsxwriter = pytest.importorskip("xlsxwriter")
    pytest.importorskip("fastexcel")
    with xlsxwriter.Workbook(path) as book:
        for frame in sheets:
            frame.write_excel(book)
    return path


def test_without_the_package_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowratio.storage.excel.find_spec", lambda name: None)
    (tmp_path / "rows.xlsx").write_bytes(b"PK\x03\x04")
    with pytest.raises(ValueError, match=r'is an Excel workbook.* pip install "flowratio\[excel\]", or save'):
        read_table(tmp_path / "rows.xlsx")


def test_the_first_sheet_is_read_with_its_types(tmp_path: Path) -> None:
    path = workbook(tmp_path / "rows.xlsx", FRAME, pl.DataFrame({"other": [1]}))
    assert_frame_equal(read_table(path), FRAME)
    (tmp_path / "no ending").write_bytes(path.read_bytes())
    assert_frame_equal(read_table(tmp_path / "no ending"), FRAME)


def test_a_column_without_a_name_is_an_index(tmp_path: Path) -> None:
    pytest.importorskip("xlsxwriter")
    path = workbook(tmp_path / "rows.xlsx", FRAME)
    FRAME.to_pandas().to_excel(path, engine="xlsxwriter")
    assert read_table(path).columns == FRAME.columns
    assert read_table(path, columns=["", "age"]).columns == ["", "age"]


def test_a_sheet_without_rows_and_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.xlsx"
    for sheet in (FRAME[:0], pl.DataFrame()):
        with pytest.raises(ValueError, match=r"rows\.xlsx has a header but no rows"):
            read_table(workbook(path, sheet))
    content = workbook(path, FRAME).read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=rf"{path} cannot be read as Excel") as error:
        read_table(path)
    assert len(str(error.value).splitlines()) == 1


def test_a_folder_of_workbooks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for k in range(3):
        workbook(tmp_path / f"{k}.xlsx", FRAME[k : k + 1])
    assert_frame_equal(read_table(tmp_path), FRAME)  # a part with only missing values has no type
    assert caplog.records == []
