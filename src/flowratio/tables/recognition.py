"""Which format the text of a column has: guessed where it is unambiguous, refused where a setting must decide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from flowratio._support.errors import ArgumentError, ArgumentWarning
from flowratio._support.wording import quoted
from flowratio.tables.formats import DAY_FIRST, CellFormat, Kind, TextFormat, numbers

GUESS = TextFormat()
_CATEGORY = CellFormat(Kind.CATEGORY)
_ISO_DATE = CellFormat(Kind.DATE)
# in any case. Among numbers, dates or booleans these words are missing values, elsewhere they are categories
_WORDS_FOR_MISSING = {
    *("-", "--", "---", "–", "—", ".", "..", "...", "n.a.", "n.a", "n.d.", "missing", "unknown", "unk", "undefined"),
    *("unspecified", "not available", "not applicable", "not known", "no data", "no value"),
}
_DATE_FORMATS = ("%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", DAY_FIRST, "%m.%d.%Y")  # recognized, not guessed
_WHOLE = float(2**53)  # beyond, every float is whole
_FEW = 0.1  # maximum share of odd cells in a column of numbers that look like a mistake
_N_FIRST, _N_SAMPLE = 20, 200  # cells that rule out most formats
_MIN_DOTS = 20  # numbers with a dot that make a warning worth it
_AROUND = r"[\s+-]*"
_SIGN = "[€$£¥₹%()−]"
_NUMBER_WITH_SIGN = rf"^(?:{_SIGN}|{_AROUND})*[0-9][0-9.,'’\s]*(?:{_SIGN}|\s)*$"


def recognize(cells: pl.Series, text_format: TextFormat = GUESS) -> CellFormat:
    """Return the format in which all cells of a column can be read, but for words for missing values, such as "-"."""
    cells = cells.drop_nulls()
    if cells.dtype == pl.Boolean or cells.dtype == pl.Datetime:
        return CellFormat(Kind.BOOLEAN) if cells.dtype == pl.Boolean else _ISO_DATE
    if cells.dtype != pl.String:
        return _with_integers(CellFormat(Kind.NUMBER), cells)
    form = _recognize_text(cells, text_format)
    if form.kind is not Kind.CATEGORY:
        return form
    others = cells.filter(~is_word_for_missing(cells))
    return form if len(others) == len(cells) else _recognize_text(others, text_format)


def is_word_for_missing(cells: pl.Series) -> pl.Series:
    """Return whether cells of text are words for a missing value that can be categories as well."""
    return cells.str.to_lowercase().is_in(_WORDS_FOR_MISSING)


def _recognize_text(cells: pl.Series, text_format: TextFormat) -> CellFormat:
    if cells.is_empty():
        return _CATEGORY
    if cells.str.to_lowercase().is_in(["true", "false"]).all():
        return CellFormat(Kind.BOOLEAN)
    for form in _formats(text_format):
        if form.read(cells.head(_N_FIRST)).null_count() or (values := form.read(cells)).null_count():
            continue
        if form.kind is Kind.DATE:
            return form
        is_guess = text_format.decimal is None and form.decimal == ","
        is_ambiguous = is_guess and (equal_numbers(cells) is not None or mark_before_three(cells) == ",")
        is_category = is_ambiguous or (form.thousands and _are_addresses(cells))
        return _CATEGORY if is_category else _with_integers(form, values)
    return _CATEGORY


def _are_addresses(cells: pl.Series) -> bool:
    """Return whether cells such as 192.168.100.101 are not numbers."""
    return bool(cells.str.contains(r"^[0-9]+(?:\.[0-9]+){3}$").any() and not cells.str.contains(",").any())


def _formats(text_format: TextFormat) -> list[CellFormat]:
    """Return the formats of numbers and dates that are tried, in this order."""
    decimal, date_format = text_format.decimal, text_format.date_format
    forms = [] if date_format is None else [CellFormat(Kind.DATE, date_format=date_format)]
    if decimal is None:
        forms += [CellFormat(Kind.NUMBER), CellFormat(Kind.NUMBER, ",")]
    else:
        forms += [CellFormat(Kind.NUMBER, decimal), CellFormat(Kind.NUMBER, decimal, thousands=True)]
    return [*forms, _ISO_DATE, CellFormat(Kind.DATE, date_format=DAY_FIRST)]


def _with_integers(form: CellFormat, values: pl.Series) -> CellFormat:
    x = values.to_numpy()
    return replace(form, kind=Kind.INTEGER) if ((x == np.round(x)) & (np.abs(x) < _WHOLE)).all() else form


def equal_numbers(cells: pl.Series) -> tuple[str, str] | None:
    """Return two different texts with a comma that are one number if it is a decimal comma. None if there are none."""
    is_candidate = cells.str.contains(",", literal=True) & ~cells.str.contains("^[+-][0,]*$")  # -0,0 is no other number
    texts = cells.filter(is_candidate).unique(maintain_order=True)
    values = numbers(texts, ",")
    duplicates = values.filter(values.is_duplicated() & values.is_not_null())
    if duplicates.is_empty():
        return None
    pair = texts.filter((values == duplicates[0]).fill_null(False))
    return pair[0], pair[1]


def mark_before_three(cells: pl.Series) -> str | None:
    """Return the dot or comma that can be a decimal mark or a thousands separator. None if there is none.

    Three digits follow each mark, and no number without a mark has more than three digits.
    """
    for mark in ".,":
        number = rf"(?:[1-9][0-9]{{0,2}}[{mark}][0-9]{{3}}|[0-9]{{1,3}})"
        if cells.str.contains(mark, literal=True).any() and cells.str.contains(f"^{_AROUND}{number}$").all():
            return mark
    return None


def has_long_integers(cells: pl.Series) -> bool:
    """Return whether all numbers are whole and without marks, and at least one has four digits."""
    return bool(cells.str.contains(f"^{_AROUND}[0-9]+$").all() and cells.str.contains("[0-9]{4}").any())


def doubt_about_numbers(cells: pl.Series, text_format: TextFormat) -> Warning | None:
    """Return a warning if dots that are read as decimal points can be thousands separators."""
    n_dots = int(cells.str.contains(".", literal=True).sum())
    if text_format.decimal or not _MIN_DOTS <= n_dots < len(cells) or mark_before_three(cells) != ".":
        return None
    example = cells.filter(cells.str.contains(".", literal=True))[0]
    advice = "The dot is read as a decimal point. If it is a thousands separator, set `decimal` to ','."
    text = f"Column {quoted(cells.name)} has {quoted(example)} and integers without a dot. {advice}"
    return ArgumentWarning("decimal", text)


def doubt_about_categories(cells: pl.Series, text_format: TextFormat) -> Warning | None:
    """Return a warning if categories look like numbers or dates with mistakes. Refuse those that need a setting."""
    prefix = f"Column {quoted(cells.name)} is encoded as categories, because"
    form = _nearest(cells, text_format)
    if form is None:
        if cells.str.contains(_NUMBER_WITH_SIGN).all() and cells.str.contains(_SIGN).any():
            example = cells.filter(cells.str.contains(_SIGN))[0]
            text = f"{prefix} its values have signs, such as {quoted(example)}. If these are numbers, remove the signs."
            return UserWarning(text)
        return None
    is_odd = form.read(cells).is_null()
    if 0 < is_odd.sum() <= _FEW * len(cells):
        noun = "dates" if form.kind is Kind.DATE else "numbers"
        problem = f"{is_odd.sum()} of its {len(cells)} values are not {noun}, such as {quoted(cells.filter(is_odd)[0])}"
        return UserWarning(f"{prefix} {problem}. If the column has {noun}, fix these values or leave them empty.")
    if is_odd.any():
        return None
    pair = equal_numbers(cells) if form.kind is Kind.NUMBER and text_format.decimal is None else None
    if pair is not None:
        problem = f"{quoted(pair[0])} and {quoted(pair[1])} would be the same number"
        text = f"{prefix} {problem}. If the comma is a decimal mark, set `decimal` to ','."
        return ArgumentWarning("decimal", text)
    raise _needs_setting(cells, form, text_format)


def _nearest(cells: pl.Series, text_format: TextFormat) -> CellFormat | None:
    """Return the format in which most cells can be read. None if they do not look like numbers or dates."""
    grouped = [CellFormat(Kind.NUMBER, decimal, thousands=True) for decimal in (".", ",")]
    dates = [CellFormat(Kind.DATE, date_format=date_format) for date_format in _DATE_FORMATS]
    forms = list(dict.fromkeys([*_formats(text_format), *_formats(GUESS), *grouped, *dates]))
    sample = cells.sample(min(len(cells), _N_SAMPLE), seed=0)
    n_odd = [form.read(sample).null_count() for form in forms]
    best = int(np.argmin(n_odd))
    return None if n_odd[best] > 2 * _FEW * len(sample) or _are_addresses(cells) else forms[best]


def _needs_setting(cells: pl.Series, form: CellFormat, text_format: TextFormat) -> ArgumentError:
    """Return the error about a column of numbers or dates that the settings do not allow to read."""
    if form.kind is Kind.DATE:
        argument, noun, setting, example = "date_format", "dates", text_format.date_format, cells[0]
        options = [f for f in _DATE_FORMATS if not CellFormat(Kind.DATE, date_format=f).read(cells).null_count()]
    else:
        argument, noun, setting, options = "decimal", "numbers", text_format.decimal, [".", ","]
        example = cells.filter(cells.str.contains("[^0-9eE+-]"))[0]
    problem = f"They do not fit `{argument}` {setting!r}." if setting else "This format is not guessed."
    advice = f"Set `{argument}` to {' or '.join(map(repr, options))}, or drop the column with `exclude`."
    return ArgumentError(
        argument, f"Column {quoted(cells.name)} has {noun} such as {quoted(example)}. {problem} {advice}"
    )
