"""Tables in several files: folders, subfolders with values in their names, and patterns."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from flowratio.storage.reading import open_table, place_in, read_table
from flowratio.storage.sources import parts_of

FRAME = pl.DataFrame({"n": range(23), "word": [f"w{k}" for k in range(23)], "x": np.linspace(0, 1, 23)})
CUTS = [(0, 5), (5, 6), (6, 23)]


def write(frame: pl.DataFrame, path: Path) -> None:
    match path.suffix:
        case ".parquet":
            frame.write_parquet(path, row_group_size=4)
        case ".csv":
            frame.write_csv(path)
        case ".gz":
            path.write_bytes(gzip.compress(frame.write_csv().encode()))
        case ".feather":
            frame.write_ipc(path)
        case ".jsonl":
            frame.write_ndjson(path)
        case _:
            np.save(path, frame[["n", "x"]].to_numpy())


@pytest.fixture(params=["parquet", "csv", "csv.gz", "feather", "jsonl", "npy"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    (tmp_path / "rows").mkdir()
    for k, (start, stop) in enumerate(CUTS):
        write(FRAME[start:stop], tmp_path / "rows" / f"part-{k}.{request.param}")
    write(FRAME, tmp_path / f"whole.{request.param}")
    return tmp_path / "rows"


def whole(folder: Path) -> pl.DataFrame:
    return read_table(next(folder.parent.glob("whole.*")))


class TestRows:
    def test_a_folder_and_a_pattern_are_the_whole(self, folder: Path) -> None:
        (folder / "_SUCCESS").touch()
        (folder / ".part-0.crc").write_bytes(b"1")
        for path in (folder, f"{folder}/part-*", f"{folder}/*-[0-2].*", f"{folder.parent}/**/part-?.*", f"{folder}*"):
            assert_frame_equal(read_table(path), whole(folder))
        assert_frame_equal(read_table(f"{folder}/part-[02]*"), pl.concat([whole(folder)[:5], whole(folder)[6:]]))

    @pytest.mark.parametrize("rows", [1, 4, 23, 100])
    @pytest.mark.parametrize("skip", [0, 3, 5, 6, 22, 23])
    def test_batches_cross_parts(self, folder: Path, rows: int, skip: int) -> None:
        with open_table(folder) as table:
            names = table.columns[::-1]
            frames = list(table.frames(names, rows=rows, skip=skip))
            assert table.count_rows() == 23
        assert [len(frame) for frame in frames] == [min(rows, 23 - start) for start in range(skip, 23, rows)]
        if frames:
            assert_frame_equal(pl.concat(frames), whole(folder)[names][skip:])

    def test_a_row_is_named_by_its_part(self, folder: Path) -> None:
        is_csv = "csv" in str(next(folder.iterdir()))
        is_json = next(folder.iterdir()).suffix == ".jsonl"
        paths = sorted(folder.iterdir())
        word, header = ("line" if is_csv or is_json else "row"), int(is_csv)
        for row, (part, position) in {0: (0, 1), 4: (0, 5), 5: (1, 1), 6: (2, 1), 22: (2, 17)}.items():
            assert place_in(folder, row) == f"{word} {position + header} of {paths[part]}"
        assert place_in(f"{folder}/*", 5) == place_in(folder, 5)

    def test_parts_are_sorted(self, tmp_path: Path) -> None:
        for name in ("b/2.csv", "a/9.csv", "b/10.csv", "c.csv"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(f"name\n{name}\n")
        assert read_table(tmp_path)["name"].to_list() == ["a/9.csv", "b/10.csv", "b/2.csv", "c.csv"]


class TestFoldersWithValues:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        for k, name in enumerate(["year=2023/city=Aix", "year=2024/city=S%C3%A3o%20Tom%C3%A9", "year=2024/city=Z=1"]):
            (tmp_path / "rows" / name).mkdir(parents=True)
            pl.DataFrame({"n": [k, 10 * k]}).write_parquet(tmp_path / "rows" / name / "part-0.parquet")
        return tmp_path / "rows"

    def test_they_are_columns(self, folder: Path) -> None:
        expected = {"n": [0, 0, 1, 10, 2, 20], "year": ["2023"] * 2 + ["2024"] * 4}
        expected["city"] = ["Aix"] * 2 + ["São Tomé"] * 2 + ["Z=1"] * 2
        for path in (folder, f"{folder}/year=*", f"{folder}/*/*/part-*.parquet"):
            assert_frame_equal(read_table(path), pl.DataFrame(expected))
        assert read_table(folder, columns=["city"])["city"].to_list() == expected["city"]
        assert read_table(folder, columns=["year", "n"]).columns == ["year", "n"]
        assert read_table(folder / "year=2023").columns == ["n", "city"]

    def test_a_missing_value_and_a_column_of_the_file(self, folder: Path) -> None:
        (folder / "year=2024" / "city=Z=1").rename(folder / "year=2024" / "city=__HIVE_DEFAULT_PARTITION__")
        assert read_table(folder)["city"].to_list() == ["Aix", "Aix", "São Tomé", "São Tomé", None, None]
        for path in folder.rglob("*.parquet"):
            pl.DataFrame({"year": [1]}).write_parquet(path)
        assert read_table(folder, columns=["year"])["year"].to_list() == [1, 1, 1]

    def test_all_parts_must_have_them(self, folder: Path) -> None:
        pl.DataFrame({"n": [1]}).write_parquet(folder / "zero.parquet")
        with pytest.raises(ValueError, match=r"zero\.parquet has other columns than .*: 'year', 'city' only in part-0"):
            read_table(folder)


class TestTypes:
    def test_types_of_numbers_are_joined(self, tmp_path: Path) -> None:
        columns = ([1, 2], [0.5], [None])
        for k, values in enumerate(columns):
            pl.DataFrame({"x": values, "word": ["a"] * len(values)}).write_parquet(tmp_path / f"{k}.parquet")
        frame = pl.DataFrame({"x": [1.0, 2.0, 0.5, None], "word": ["a"] * 4})
        assert_frame_equal(read_table(tmp_path), frame)
        with open_table(tmp_path) as table:
            assert [one.schema for one in table.frames(rows=1)] == [frame.schema] * 4

    def test_categories_of_two_parts(self, tmp_path: Path) -> None:
        for k, word in enumerate("ab"):
            frame = pl.DataFrame({"w": pl.Series([word], dtype=pl.Enum([word]))})
            frame.write_parquet(tmp_path / f"{k}.parquet")
        assert read_table(tmp_path)["w"].cast(pl.String).to_list() == ["a", "b"]

    def test_other_types_are_refused(self, tmp_path: Path) -> None:
        pl.DataFrame({"x": [1]}).write_parquet(tmp_path / "a.parquet")
        pl.DataFrame({"x": [[1]]}).write_parquet(tmp_path / "b.parquet")
        with pytest.raises(
            ValueError, match=r"Column 'x' of .*b\.parquet has type List\(Int64\), but other parts have"
        ):
            read_table(tmp_path)

    def test_an_index_of_pandas_is_left_out(self, tmp_path: Path) -> None:
        for k in range(2):
            pd.DataFrame({"x": [k, k]}, index=pd.Index(["a", "b"], name="who")).to_parquet(tmp_path / f"{k}.parquet")
        assert read_table(tmp_path).columns == ["x"]
        assert read_table(tmp_path, columns=["who", "x"]).rows() == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]


class TestRefusals:
    @pytest.mark.parametrize("ending", ["csv", "parquet"])
    def test_a_part_without_rows_is_left_out(self, tmp_path: Path, ending: str) -> None:
        for k, frame in enumerate([FRAME[:0], FRAME, FRAME[:0]]):
            write(frame, tmp_path / f"{k}.{ending}")
        assert len(read_table(tmp_path)) == 23
        (tmp_path / f"1.{ending}").unlink()
        with pytest.raises(ValueError, match="no rows"):
            read_table(tmp_path)

    def test_other_columns_name_the_part(self, tmp_path: Path) -> None:
        for k, frame in enumerate([FRAME, FRAME, FRAME.rename({"x": "y"})]):
            write(frame, tmp_path / f"{k}.csv")
        words = r"2\.csv has other columns than .*0\.csv: 'x' only in 0\.csv, 'y' only in 2\.csv\. All parts"
        with pytest.raises(ValueError, match=words):
            read_table(tmp_path)
        write(FRAME[FRAME.columns[::-1]], tmp_path / "2.csv")  # another order is fine
        assert len(read_table(tmp_path)) == 69

    def test_different_kinds_name_two_files(self, tmp_path: Path) -> None:
        write(FRAME, tmp_path / "a.csv")
        write(FRAME, tmp_path / "b.parquet")
        words = (
            r"has files of different kinds: 'a\.csv' \(CSV\) and 'b\.parquet' \(Parquet\)\. .* such as '\*\.parquet'"
        )
        with pytest.raises(ValueError, match=words):
            read_table(tmp_path)
        assert len(read_table(f"{tmp_path}/*.parquet")) == 23

    def test_nothing_is_there(self, tmp_path: Path) -> None:
        (tmp_path / "_SUCCESS").touch()
        with pytest.raises(FileNotFoundError, match="is a folder without files"):
            read_table(tmp_path)
        with pytest.raises(FileNotFoundError, match=r"^No file matches .*part-\*\.csv\. Check the pattern"):
            read_table(tmp_path / "part-*.csv")
        (tmp_path / "model.json").touch()
        with pytest.raises(ValueError, match="is the folder of a model"):
            read_table(tmp_path)

    def test_a_bad_part_is_named(self, tmp_path: Path) -> None:
        write(FRAME, tmp_path / "a.csv")
        (tmp_path / "b.csv").write_text("n,word,x\n1,2,3\n1,2\n")
        with pytest.raises(ValueError, match=r"b\.csv has 2 values in line 3"):
            read_table(tmp_path)
        (tmp_path / "b.csv").write_bytes(b"")
        with pytest.raises(ValueError, match=r"b\.csv is empty"):
            read_table(tmp_path)

    @pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="the administrator may read every folder")
    def test_a_folder_that_cannot_be_read(self, tmp_path: Path) -> None:
        (tmp_path / "rows").mkdir(mode=0)
        with pytest.raises(PermissionError, match="Cannot read the folder"):
            read_table(tmp_path / "rows")


class TestOddNames:
    @pytest.mark.parametrize(
        "name", ["a b.csv", "π.csv", "[ab].csv", "what?.csv", "*.csv", "x=1.csv", "a'b\".csv", "%41.csv"]
    )
    def test_an_existing_file_is_no_pattern(self, tmp_path: Path, name: str) -> None:
        (tmp_path / "a.csv").write_text("n\nother\n")
        (tmp_path / name).write_text("n\nthis\n")
        assert read_table(tmp_path / name)["n"].to_list() == ["this"]
        assert parts_of(tmp_path / name) is None
        folder = tmp_path / f"folder {name}"
        folder.mkdir()
        (folder / name).write_text("n\nthis\n")
        assert read_table(folder)["n"].to_list() == ["this"]
