"""Feather and other files of Arrow."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

from flowratio.storage.reading import open_table, read_table

FRAME = pl.DataFrame(
    {
        "age": [31, None, 45, 28, 60],
        "job": ["clerk", "écrivain", None, "a", "b"],
        "kind": pl.Series(["x", "y", "x", None, "z"], dtype=pl.Categorical),
        "height": pl.Series([1.7, 1.8, float("nan"), 1.6, 1.5], dtype=pl.Float32),
        "since": [date(2020, 1, k) for k in range(1, 6)],
    }
)


@pytest.mark.parametrize("name", ["rows.feather", "rows.arrow", "rows.ipc", "rows"])
@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_types_are_kept(tmp_path: Path, name: str, compression: Literal["uncompressed", "lz4", "zstd"]) -> None:
    FRAME.write_ipc(tmp_path / name, compression=compression)
    assert_frame_equal(read_table(tmp_path / name), FRAME)


@pytest.mark.parametrize("name", ["rows.arrow", "rows.arrows", "rows"])
def test_a_stream_of_arrow(tmp_path: Path, name: str) -> None:
    FRAME.write_ipc_stream(tmp_path / name)
    assert_frame_equal(read_table(tmp_path / name), FRAME)


@pytest.mark.parametrize("rows", [1, 3, 100])
@pytest.mark.parametrize("skip", [0, 1, 4, 6, 11, 12])
def test_batches(tmp_path: Path, rows: int, skip: int) -> None:
    frame = pl.DataFrame({"a": np.arange(12), "b": [f"{k}" for k in range(12)]})
    with pa.OSFile(str(tmp_path / "rows.arrow"), "wb") as sink, pa.ipc.new_file(sink, frame.to_arrow().schema) as file:
        file.write_table(frame.to_arrow(), max_chunksize=5)
    with open_table(tmp_path / "rows.arrow") as table:
        assert table.n_rows == 12
        frames = list(table.frames(["b", "a"], rows=rows, skip=skip))
    assert [len(one) for one in frames] == [min(rows, 12 - start) for start in range(skip, 12, rows)]
    if frames:
        assert_frame_equal(pl.concat(frames), frame[["b", "a"]][skip:])


def test_an_index_of_pandas_is_left_out(tmp_path: Path) -> None:
    table = pa.Table.from_pandas(pd.DataFrame({"x": [1, 2]}, index=pd.Index(["a", "b"], name="who")))
    with pa.OSFile(str(tmp_path / "rows.feather"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)
    assert read_table(tmp_path / "rows.feather").columns == ["x"]
    assert read_table(tmp_path / "rows.feather", columns=["who"])["who"].to_list() == ["a", "b"]


def test_bad_files(tmp_path: Path) -> None:
    path = tmp_path / "rows.feather"
    FRAME.write_ipc(path)
    content = path.read_bytes()
    for bad, words in ((b"", "is empty"), (content[:-20], "as Arrow"), (b"a,b\n1,2\n", "is a CSV file")):
        path.write_bytes(bad)
        with pytest.raises(ValueError, match=rf"{path}.*{words}"):
            read_table(path)
    FRAME[:0].write_ipc(path)
    with pytest.raises(ValueError, match="no rows"):
        read_table(path)
