from __future__ import annotations

from pathlib import Path

import pytest

from flowratio.storage.csv_layout import CsvLayout, csv_layout, line_of, listed, not_utf8, safe_separator


def layout_of(folder: Path, text: str | bytes, usual: str = ",") -> CsvLayout:
    (folder / "rows.csv").write_bytes(text.encode() if isinstance(text, str) else text)
    return csv_layout(folder / "rows.csv", "rows.csv", usual)


@pytest.mark.parametrize(
    ("text", "separator", "columns"),
    [
        ("a,b\n1,2\n", ",", ["a", "b"]),
        ("a;b\n1,5;2,5\n", ";", ["a", "b"]),
        ("a\tb\n1\t2\n", "\t", ["a", "b"]),
        ("a|b\n1|2\n", "|", ["a", "b"]),
        ("price, EUR;b;c\n1,5;2,5;3,5\n", ";", ["price, EUR", "b", "c"]),
        ('"a;b",c\n"1;2",3\n', ",", ["a;b", "c"]),
        ("a,b;c\n1,2;3\n", ",", ["a", "b;c"]),
        ("a;b\n1;2;3\n", ";", ["a", "b"]),  # the second line is wrong, not the separator
        ("a,b\n1,2;3;4\n5;6\n", ",", ["a", "b"]),
        ("full name\nAda Lovelace\n", ",", ["full name"]),
        ("0,1,2\n5,6,7\n", ",", ["0", "1", "2"]),  # names that pandas gives
    ],
)
def test_the_separator_that_fits(tmp_path: Path, text: str, separator: str, columns: list[str]) -> None:
    layout = layout_of(tmp_path, text)
    assert (layout.separator, layout.columns) == (separator, columns)


def test_the_usual_one_comes_first(tmp_path: Path) -> None:
    assert layout_of(tmp_path, "a\tb,c\n1\t2,3\n", "\t").separator == "\t"
    assert layout_of(tmp_path, "a\tb,c\n1\t2,3\n", ",").separator == ","


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("header", ["a,b\n", "ä,b\r\n", "\n\n'a',b\r", '"a\n""b",c\n'])
def test_rows_begin_where_the_header_ends(tmp_path: Path, mark: bytes, header: str) -> None:
    before = mark + header.encode()
    assert layout_of(tmp_path, before + b"1,2\n").offset == len(before)


def test_the_number_of_rows_is_near(tmp_path: Path) -> None:
    # two megabytes, of which one is looked at; lines grow from 6 to 10 bytes
    n = 200_000
    layout = layout_of(tmp_path, "a,b\n" + "".join(f"{i},{i % 7}xx\n" for i in range(n)))
    assert 0.8 * n < layout.n_rows < 1.2 * n


def test_where_a_file_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes("a,ä\n1,2\n".encode() + b"3,4\xc3\n")
    assert str(not_utf8(path, "rows.csv")).startswith("rows.csv is not in UTF-8 (byte 4 of line 3 is 0xc3).")
    path.write_bytes("a,ä\n".encode())
    assert not_utf8(path, "rows.csv") is None


def test_a_character_on_the_edge_of_what_is_looked_at(tmp_path: Path) -> None:
    for shift in range(3):
        layout = layout_of(tmp_path, "a,b\n" + "x" * shift + "1,é\n" * 300_000)
        assert layout.columns == ["a", "b"]


@pytest.mark.parametrize("text", ["a b\n1 2\n3 4\n", "a:b\n1:2\n", "a^b\n1^2\n"])
def test_other_separators_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"separates numbers\. The separator must be a comma"):
        layout_of(tmp_path, text)


def test_long_lists_are_cut() -> None:
    assert listed(["a", "b"]) == "'a', 'b'"
    assert listed([str(i) for i in range(11)]).endswith("'7' and 3 more")


def test_line_of_a_row_below_a_break_and_a_blank_line(tmp_path: Path) -> None:
    layout = layout_of(tmp_path, 'a,b\n1,"x\ny"\n\n3,z\n')
    assert [line_of(tmp_path / "rows.csv", layout, row) for row in range(3)] == [2, 5, None]


def test_separator_in_a_name_makes_a_comma_safe() -> None:
    assert safe_separator(";", ["age", "height"]) == ";"
    assert safe_separator(";", ["age", "height, in m"]) == ","
