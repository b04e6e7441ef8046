"""JSON lines as tables."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from flowratio._support.errors import ArgumentError
from flowratio.storage.reading import open_table, place_in, read_table


def lines(path: Path, *records: object) -> Path:
    path.write_text("".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records), encoding="utf-8")
    return path


def test_types_are_those_of_all_lines(tmp_path: Path) -> None:
    records = [
        {"n": 1, "x": 1, "b": True, "mixed": 1, "flag": True, "big": 2**70, "none": None, "nested": {"k": [1, "é"]}},
        {"n": None, "x": 0.5, "b": None, "mixed": "é", "flag": 2, "big": 1, "later": "2024-01-31"},
        {"mixed": False, "nested": [1.5, None]},
    ]
    expected = pl.DataFrame(
        {
            "n": [1, None, None],
            "x": [1.0, 0.5, None],
            "b": [True, None, None],
            "mixed": ["1", "é", "false"],
            "flag": [1.0, 2.0, None],
            "big": [2.0**70, 1.0, None],
            "none": [None, None, None],
            "nested": ['{"k": [1, "é"]}', None, "[1.5, null]"],
            "later": [None, "2024-01-31", None],
        }
    )
    assert_frame_equal(read_table(lines(tmp_path / "rows.jsonl", *records)), expected)


def test_types_do_not_depend_on_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowratio.storage.json_lines.BATCH_ROWS", 3)
    path = lines(tmp_path / "rows.jsonl", *({"n": k if k < 10 else k + 0.5, f"only{k}": k} for k in range(11)))
    with open_table(path) as table:
        frames = list(table.frames(["n"], rows=4))
        assert table.n_rows == 11
    assert pl.concat(frames)["n"].to_list() == [*range(10), 10.5]


def test_integers_that_no_float_holds(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(f'{{"n": 1{"0" * 400}}}\n{{"n": -1{"0" * 400}}}\n')
    assert read_table(tmp_path / "rows.jsonl")["n"].to_list() == [float("inf"), float("-inf")]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", None])
@pytest.mark.parametrize("packed", [False, True])
def test_encodings_and_compression(tmp_path: Path, encoding: str | None, packed: bool) -> None:
    content = '{"né": "é"}\r\n\r\n{"né": "b"}'.encode(encoding or "utf-8-sig")
    path = tmp_path / ("rows.ndjson.gz" if packed else "rows.ndjson")
    path.write_bytes(gzip.compress(content) if packed else content)
    assert read_table(path, encoding=encoding).rows() == [("é",), ("b",)]
    assert place_in(path, 1, encoding) == f"row 2 of {path}"  # there is a blank line


def test_a_row_is_named_by_its_line(tmp_path: Path) -> None:
    path = lines(tmp_path / "rows.jsonl", {"a": 1}, {"a": 2})
    assert place_in(path, 1) == f"line 2 of {path}"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"a": 1}\n{"a": \n', r"line 2 of .* is not JSON \(Expecting value.* Each line must be one JSON object"),
        (b'{"a": 1}\n[1]\n', "line 2 of .* is JSON, but not an object"),
        (b"\n\n", "has a header but no rows|has no columns"),
        (b'{"a": "\xe9"}\n', r"is not in UTF-8 \(byte 8 of line 1 is 0xe9\)\. Set `encoding`"),
        (b"[" * 100_000, "line 1 of .* is not JSON"),
        (b'{"a": "\\ud800"}\n', "cannot be read as JSON lines"),
        (b"{}\n", "has no columns"),
    ],
)
def test_bad_lines(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=words) as error:
        read_table(path)
    assert str(path) in str(error.value)
    assert len(str(error.value).splitlines()) == 1
    if b"\xe9" in content:
        assert isinstance(error.value, ArgumentError)
        assert read_table(path, encoding="latin-1").rows() == [("é",)]
