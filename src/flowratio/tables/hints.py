"""Hints about two tables that may mean the same and write it in different ways."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from flowratio._support.callers import warn_caller
from flowratio._support.errors import ArgumentWarning
from flowratio._support.wording import quoted
from flowratio.tables.cells import cells_of
from flowratio.tables.formats import CellFormat, Kind, TextFormat, words
from flowratio.tables.recognition import GUESS, doubt_about_categories, recognize

_NOUNS = {Kind.NUMBER: "numbers", Kind.INTEGER: "numbers", Kind.DATE: "dates", Kind.BOOLEAN: "booleans"}


def warn_of_spellings(
    P: pl.DataFrame, Q: pl.DataFrame, names: tuple[str, str] = ("X_p", "X_q"), text_format: TextFormat = GUESS
) -> None:
    """Warn of columns of two tables that have the same columns, but write the same values in different ways.

    Categories may differ only in case or white space. A column of numbers, dates or booleans may be text in the other
    table, so that both become categories. `names` are those of the two tables.
    """
    for text in hints(P, Q, names, text_format):
        warn_caller(ArgumentWarning(names, text))


def hints(P: pl.DataFrame, Q: pl.DataFrame, names: tuple[str, str], text_format: TextFormat = GUESS) -> Iterator[str]:
    """Yield the text of each warning of `warn_of_spellings`."""
    for column in P.columns:
        a, b = (cells_of(table[column]).drop_nulls() for table in (P, Q))
        if pl.String not in (a.dtype, b.dtype) or a.is_empty() or b.is_empty():
            continue
        forms = recognize(a, text_format), recognize(b, text_format)
        n_categories = sum(form.kind is Kind.CATEGORY for form in forms)
        if n_categories == 2:
            yield from _other_spelling(a, b, names)
        elif n_categories == 1:
            yield from _other_kind(a, b, forms, names, text_format)


def _other_kind(
    a: pl.Series, b: pl.Series, forms: tuple[CellFormat, CellFormat], names: tuple[str, str], text_format: TextFormat
) -> Iterator[str]:
    both = pl.concat([words(a), words(b)])
    if recognize(both, text_format).kind is not Kind.CATEGORY or doubt_about_categories(both, text_format) is not None:
        return  # words for missing values, or few cells, of which `TableEncoder` warns
    places = [
        f"{_NOUNS.get(form.kind, 'text')} in `{name}`, such as {quoted(_example(cells, forms))}"
        for cells, form, name in zip((a, b), forms, names, strict=True)
    ]
    effect = "Both are used as categories. If it is the same variable, write it in one way, or drop the column."
    yield f"Column {quoted(a.name)} has {places[0]}, and {places[1]}. {effect}"


def _example(cells: pl.Series, forms: tuple[CellFormat, CellFormat]) -> str:
    """Return a cell that the format of the other sample cannot read, or else the first."""
    text = words(cells)
    for form in forms:
        if form.kind is not Kind.CATEGORY:
            odd = text.filter(form.read(text).is_null())
            text = odd if len(odd) else text
    return text[0]


def _other_spelling(a: pl.Series, b: pl.Series, names: tuple[str, str]) -> Iterator[str]:
    """Yield a hint if a category of one sample is in the other one only with another case or other white space."""
    tables = [pl.DataFrame({"text": cells.unique().sort()}).with_columns(key=_key()) for cells in (a, b)]
    pairs = tables[0].join(tables[1], on="key").filter(pl.col("text") != pl.col("text_right"))
    is_new = ~pl.col("text").is_in(tables[1]["text"].implode()) | ~pl.col("text_right").is_in(
        tables[0]["text"].implode()
    )
    pairs = pairs.filter(is_new).sort("text", "text_right")
    if pairs.is_empty():
        return
    pair = pairs.row(0, named=True)
    places = f"{quoted(pair['text'])} in `{names[0]}` and {quoted(pair['text_right'])} in `{names[1]}`"
    n_more = len(pairs) - 1
    more = f", and {n_more} more such pair{'s' * (n_more > 1)}" * bool(n_more)
    rule = "They differ only in case or white space, and count as different categories. Write them in one way."
    yield f"Column {quoted(a.name)} has {places}{more}. {rule}"


def hint_of_new_category(cells: pl.Series, categories: tuple[str, ...]) -> str | None:
    """Return a hint if a new category differs from one at fit only in case or white space. None if there is none."""
    words = pl.DataFrame({"text": cells_of(cells).drop_nulls().cast(pl.String).unique()})
    new = words.filter(~pl.col("text").is_in(list(categories))).with_columns(key=_key())
    pairs = new.join(pl.DataFrame({"text": list(categories)}).with_columns(key=_key()), on="key").sort("text")
    if pairs.is_empty():
        return None
    text, category = pairs["text"][0], pairs["text_right"][0]
    rule = "They differ only in case or white space, and count as different categories. Write them as at fit."
    return f"Column {quoted(cells.name)} has {quoted(text)}, and {quoted(category)} at fit. {rule}"


def _key() -> pl.Expr:
    return pl.col("text").str.to_lowercase().str.replace_all(r"\s+", " ").str.strip_chars()
