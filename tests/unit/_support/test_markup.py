"""HTML for notebooks: accessible, escaped, shortened, without colors."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from flowratio._support.markup import lead, paragraph, points, table


def test_a_table_has_a_caption_and_named_rows_and_columns() -> None:
    page = table("Balance", ("column", "before"), [("age", "+0.4"), ("city", "0.0")])
    assert re.sub(" style='text-align:left'", "", page) == (
        "<table><caption>Balance</caption>"
        "<thead><tr><th scope='col'>column</th><th scope='col'>before</th></tr></thead>"
        "<tbody><tr><th scope='row'>age</th><td>+0.4</td></tr><tr><th scope='row'>city</th><td>0.0</td></tr></tbody>"
        "</table>"
    )
    assert "thead" not in table("Numbers", (), [("value", "1")])


def test_empty_parts_are_left_out() -> None:
    assert paragraph("") == points([]) == ""
    assert points(["a", "b"]) == "<ul><li>a</li><li>b</li></ul>"


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a\x1b[31mb\u202e", "x" * 5_000, "' onload='x"])
def test_names_are_escaped_and_shortened(name: str) -> None:
    page = table(name, (name,), [(name, name)]) + lead(name, name) + paragraph(name) + points([name])
    tags = re.findall(r"<(\w+)([^<>]*)>", page)
    assert {tag for tag, _ in tags} <= {
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "p",
        "strong",
        "ul",
        "li",
    }
    assert {attributes for _, attributes in tags} <= {
        "", " style='text-align:left'", " scope='col' style='text-align:left'", " scope='row' style='text-align:left'"
    }  # fmt: skip
    assert not re.search(r"[\x00-\x1f\u202e]", page)
    assert len(page) < 10_000
    HTMLParser().feed(page)
