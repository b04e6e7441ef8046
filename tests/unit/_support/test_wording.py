from __future__ import annotations

import pytest

from flowratio._support.wording import counted, first_of, listed, more_columns, nearest, quoted, shown
from flowratio.applications.column_changes import ChangeKind
from flowratio.applications.result import Limit
from flowratio.diagnostics.verdict import Verdict
from flowratio.ratios.auto.results import Status
from flowratio.tables.formats import Kind


def test_long_list_is_cut() -> None:
    assert (listed(["age", "job"]), listed(range(10))) == ("'age', 'job'", "0, 1, 2, 3, 4, 5, 6, 7 and 2 more")


def test_nearest_choice_is_suggested() -> None:
    assert (nearest("agee", ["age", "job"]), nearest("x", ["age", "job"])) == (" Did you mean 'age'?", "")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("größe (m²)", "größe (m²)"),
        ("a\x1b[31mb\nc\t\0", "a\\x1b[31mb\\nc\\t\\x00"),
        ("\u202egpj.exe", "\\u202egpj.exe"),  # reverses the text that follows it
        ("bad\udc80", "bad\\udc80"),  # a byte of a file name that is not UTF-8
        ("x" * 5000 + "end", "x" * 39 + "…" + "x" * 17 + "end"),
        (7, "7"),
    ],
)
def test_names_are_escaped_and_shortened(name: object, text: str) -> None:
    assert shown(name) == text
    assert len(shown("y" * 300, 200)) == 200


def test_names_in_quotes() -> None:
    assert [quoted(name) for name in ("it's", "a\nb", 3, None)] == ['"it\'s"', "'a\\nb'", "3", "None"]


def test_first_phrases_and_more_columns() -> None:
    assert first_of(["a", "b"], 2) == "a, b"
    assert first_of(["a", "b", "c", "d"], 2) == "a, b and 2 more"
    assert [more_columns(n, 2) for n in (2, 3, 5)] == ["", "… and 1 more column", "… and 3 more columns"]
    assert [counted(n, "category", "categories") for n in (0, 1, 2)] == ["0 categories", "1 category", "2 categories"]


def test_enums_print_as_their_words() -> None:
    members = Limit.LOWER_BOUND, ChangeKind.MISSING, Status.NO_TIME, Kind.NUMBER, Verdict.CARE
    assert [str(member) for member in members] == [
        "lower bound",
        "missing values",
        "no time",
        "number",
        "use with care",
    ]
    assert f"{Limit.CEILING}" == "near the ln n ceiling"
