"""Files of other programs are recognized by their names and by their first bytes."""

from __future__ import annotations

import gzip
import io
import sqlite3
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from flowratio.storage.file_kinds import FileKind, file_kind
from flowratio.storage.reading import read_table

RULE = "A table must be CSV, Parquet, Feather, JSON lines, Excel (.xlsx), NPY or NPZ"


def zipped(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, "a,b\n1,2\n")
    return buffer.getvalue()


def tarred(name: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo(name)
        info.size = 8
        archive.addfile(info, io.BytesIO(b"a,b\n1,2\n"))
    return buffer.getvalue()


BY_CONTENT = [
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "an old Excel workbook (.xls)", ".xlsx or as CSV"),
    (b"$FL2@(#) SPSS DATA FILE" + b"\0" * 99, "an SPSS file", "as CSV in SPSS"),
    (b"<stata_dta><header><release>118", "a Stata file", "pandas.read_stata"),
    (b"\x73\x02\x01\0\x05\0" + b"\0" * 99, "a Stata file", "pandas.read_stata"),
    (b"\x80\x04\x95\x0c\0\0\0\0\0\0\0}\x94.", "a pickle, which is never loaded", "to_parquet"),
    (b"RDX3\nX\n\0\0", "an R data file", "write.csv"),
    (gzip.compress(b"X\n\0\0\0\x03\0\x04", mtime=0), "an R data file", "write.csv"),
    (b"\x89HDF\r\n\x1a\n\0\0", "an HDF5 file", "pandas.read_hdf"),
    (b"SQLite format 3\0" + b"\0" * 99, "an SQLite database", "as CSV"),
    (b"\0\1\2\3\4\5\6\7DUCK@\0\0\0", "a DuckDB database", "COPY"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n", "a Git LFS pointer", "`git lfs pull`"),
    (b"%PDF-1.7\n", "a PDF document", "as CSV"),
    (b"\n<!DOCTYPE html><html><body>404", "a web page (HTML)", "Download the file itself"),
    (b"<?xml version='1.0'?><rows/>", "an XML file", "as CSV"),
    (b"BZh91AY&SY\0\0", "compressed in a way that is not gzip", "Unpack it"),
    (b"\x28\xb5\x2f\xfd\0\0", "compressed in a way that is not gzip", "Unpack it"),
    (b"FEA1\0\0\0\0FEA1", "a Feather file of version 1", "as Parquet"),
    (b"\x89PNG\r\n\x1a\n", "an image", "np.save"),
    (zipped("word/document.xml"), "a Word document", "as CSV"),
    (zipped("mimetype", "content.xml"), "an OpenDocument file", ".xlsx or as CSV"),
    (zipped("xl/workbook.bin"), "a binary Excel workbook", ".xlsx or as CSV"),
    (zipped("rows.csv", "b", "c", "d"), "a zip archive of 'rows.csv', 'b', 'c', …", "Unpack it"),
    (tarred("rows.csv"), "a tar archive", "Unpack it"),
]


class TestOtherPrograms:
    @pytest.mark.parametrize("name", ["rows", "rows.csv", "rows.data", "rows.parquet"])
    @pytest.mark.parametrize(("content", "what", "advice"), BY_CONTENT)
    def test_content_is_named(self, tmp_path: Path, name: str, content: bytes, what: str, advice: str) -> None:
        if content.startswith(b"\x1f\x8b"):  # gzip shows its content only when it is unpacked
            name = f"{Path(name).stem}.gz"
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=r"\. ") as error:
            read_table(tmp_path / name)
        text = str(error.value)
        assert text.startswith(f"{tmp_path / name} is {what}")
        assert RULE in text
        assert advice in text
        assert "np.savez" not in text

    @pytest.mark.parametrize(
        ("ending", "what"),
        [
            (".xls", "an old Excel workbook"),
            (".ods", "an OpenDocument file"),
            (".sav", "an SPSS file"),
            (".dta", "a Stata file"),
            (".pkl", "a pickle"),
            (".rds", "an R data file"),
            (".h5", "an HDF5 file"),
            (".docx", "a Word document"),
            (".html", "a web page"),
            (".pdf", "a PDF document"),
            (".sqlite", "an SQLite database"),
            (".json", "one JSON document"),
            (".zst", "compressed"),
        ],
    )
    def test_names_are_enough(self, tmp_path: Path, ending: str, what: str) -> None:
        path = tmp_path / f"rows{ending.upper()}"
        path.write_bytes(b"[1, 2]\n")
        with pytest.raises(ValueError, match=f"is {what}"):
            read_table(path)

    def test_no_pickle_is_loaded(self, tmp_path: Path) -> None:
        command = f"cos\nmkdir\n(V{tmp_path / 'run'}\ntR.".encode()  # makes a folder when it is loaded
        for protocol in range(2, 6):
            (tmp_path / "rows.csv").write_bytes(bytes([0x80, protocol]) + command)
            with pytest.raises(ValueError, match="never loaded"):
                read_table(tmp_path / "rows.csv")
        np.save(tmp_path / "rows.npy", np.array([{}], object), allow_pickle=True)
        content = (tmp_path / "rows.npy").read_bytes()
        (tmp_path / "rows.npy").write_bytes(content[: content.index(b"\x80")] + b"\x80\x02" + command)
        with pytest.raises(ValueError, match="cannot be read as NPY"):
            read_table(tmp_path / "rows.npy")
        assert not (tmp_path / "run").exists()

    def test_a_real_database(self, tmp_path: Path) -> None:
        connection = sqlite3.connect(tmp_path / "rows.db")
        connection.execute("create table people (age int)")
        connection.close()
        with pytest.raises(ValueError, match="is an SQLite database"):
            read_table(tmp_path / "rows.db")


class TestEndings:
    @pytest.mark.parametrize("ending", [".parquet", ".xlsx", ".feather", ".npy", ".npz", ".csv.gz"])
    def test_text_with_the_ending_of_a_binary_file_is_named(self, tmp_path: Path, ending: str) -> None:
        path = tmp_path / f"rows{ending}"
        path.write_text("name,größe\nWörth,2\n", encoding="utf-8")
        with pytest.raises(ValueError, match=rf"rows{ending} is a CSV file\. Rename it to rows\.csv\."):
            read_table(path)
        path.write_text('{"a": 1}\n{"a": 2}\n', encoding="utf-8")
        with pytest.raises(ValueError, match=r"is a JSON lines file\. Rename it to rows.*\.jsonl\."):
            read_table(path)

    def test_json_lines_with_the_ending_of_csv_are_named(self, tmp_path: Path) -> None:
        path = tmp_path / "rows.csv"
        path.write_text('{"a": 1}\n{"a": 2}\n', encoding="utf-8")
        with pytest.raises(ValueError, match=r"rows\.csv is a JSON lines file\. Rename it to rows\.jsonl\."):
            read_table(path)
        path.write_text('{"a"},b\n1,2\n', encoding="utf-8")  # no JSON
        assert read_table(path).columns == ['{"a"}', "b"]

    def test_an_ending_that_does_not_fit_is_named(self, tmp_path: Path) -> None:
        path = tmp_path / "rows.csv"
        pl.DataFrame({"a": [1, 2]}).write_parquet(path)
        with pytest.raises(ValueError, match=r"rows\.csv is a Parquet file\. Rename it to rows\.parquet\."):
            read_table(path)
        path.write_bytes(zipped("xl/workbook.xml"))
        with pytest.raises(ValueError, match=r"is an Excel file\. Rename it to rows\.xlsx\."):
            read_table(path)

    @pytest.mark.parametrize(
        "header", ["PAR1,PAR2", "FEA1,FEA2", "species,DUCK", "ORC,b", "X,b", "<a>,b", "{a,b", "1AY&SY,b", "abc;1AY&SY"]
    )
    def test_text_that_looks_like_a_mark_is_text(self, tmp_path: Path, header: str) -> None:
        (tmp_path / "rows").write_text(f"{header}\n1,2\n" if "," in header else f"{header}\n1;2\n")
        assert read_table(tmp_path / "rows").rows() == [("1", "2")]

    def test_json_lines_have_several_names(self, tmp_path: Path) -> None:
        for name in ("rows.json", "rows", "rows.jsonl", "rows.ndjson"):
            (tmp_path / name).write_bytes(b'\n{"a": 1}\n{"a": 2}\n')
            assert file_kind(tmp_path / name, name) is FileKind.JSON_LINES
        (tmp_path / "rows.json").write_text('{\n "a": [1, 2]\n}\n')
        with pytest.raises(ValueError, match=r"is one JSON document\. .* Write one JSON object per line"):
            read_table(tmp_path / "rows.json")
