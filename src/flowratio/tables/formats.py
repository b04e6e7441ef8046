"""Numbers and dates as people write them: 1.234,56 and 12.5% and € 7; 31.12.2023 and 12/31/2023 5:30 PM.

A column has one format, found once of all its cells; each is then a pattern that a cell matches, or is no number.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl

_CURRENCIES = ("€", "$", "£", "¥", "₹")
_SIGNS = ("%", *_CURRENCIES)
_SPACES = "[ \u00a0\u2009\u202f]"  # plain, no-break, thin, narrow no-break
# between thousands, and before decimals, in the order in which they are tried
_NUMBERS: dict[str, tuple[str, str]] = {
    "1234.5": ("", "."),
    "1,234.5": (",", "."),
    "1234,5": ("", ","),
    "1.234,5": (r"\.", ","),
    "1 234.5": (_SPACES, "."),
    "1 234,5": (_SPACES, ","),
    "1'234.5": ("['’]", "."),
    "1'234,5": ("['’]", ","),
}
NUMBER_FORMATS = tuple(f"{body}{sign and ' '}{sign}" for sign in ("", *_SIGNS) for body in _NUMBERS)
DATE_FORMATS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y")
_ISO = r"[0-9]{4}(?:-[0-9]{2}-|/[0-9]{2}/)[0-9]{2}"
_TIME = (
    r"(?:(?<between>T|,? )(?<hours>[01]?[0-9]|2[0-3]):(?<minutes>[0-5][0-9])"
    r"(?::(?<seconds>[0-5][0-9](?:\.[0-9]{1,9})?))?"
    r"(?: ?(?<half>[AaPp])[Mm])?(?<zone>Z|(?<sign>[+-])(?<zone_hours>[0-9]{2}):?(?<zone_minutes>[0-5][0-9]))?)?"
)
_AROUND = rf"[{''.join(_SIGNS)}\s()+−-]*"  # what may stand before and after a number
_DAY = 86_400.0  # seconds
PER_SECOND = {"ms": 1e3, "us": 1e6, "ns": 1e9}
_LONGEST_DATE = len("2024-01-31")
_LOOKED_AT = 20  # cells that rule out most formats
_FEWEST_DOTS = 20  # in numbers without a currency, that make a warning worth it


def found(column: pl.Series, expression: pl.Expr) -> pl.Series:
    """Return an expression of a column, worked out in one go, and what occurs twice in it once."""
    return column.to_frame().lazy().select(expression.alias(column.name)).collect().to_series()


def none_of(cells: pl.Series) -> pl.Series:
    """Return as many gaps as there are cells."""
    return pl.Series(cells.name, [None], pl.Float64).extend_constant(None, max(0, len(cells) - 1)).head(len(cells))


def plain_numbers(cells: pl.Series) -> pl.Series:
    """Return cells as floats, text as programs write it, such as 1234.5 and 1e-3; others are nulls."""
    if cells.dtype == pl.Datetime:
        return none_of(cells)
    return found(cells, pl.col(cells.name).cast(pl.Float64, strict=False).fill_nan(None))


def numbers(cells: pl.Series, form: str) -> pl.Series:
    """Return cells as floats, text in one of `NUMBER_FORMATS`; what is not in it is null.

    Examples
    --------
    >>> numbers(pl.Series(["1.234,5", "-7", "1,5", "1.23"]), "1.234,5").to_list()
    [1234.5, -7.0, 1.5, None]
    >>> numbers(pl.Series(["€ 1,250.50", "3 €", "-€2", "(€2)", "4"]), "1,234.5 €").to_list()
    [1250.5, 3.0, -2.0, -2.0, None]
    """
    if cells.dtype != pl.String:
        return plain_numbers(cells)
    thousands, decimal, sign = _parts(form)
    text = pl.col(cells.name)
    plain = text.str.replace("[−(]", "-").str.replace(")", "", literal=True)
    if thousands or sign:
        plain = plain.str.replace_all(rf"[^0-9{decimal}eE+-]", "")
    if decimal == ",":
        plain = plain.str.replace(",", ".", literal=True)
    value = plain.cast(pl.Float64, strict=False)
    return found(cells, pl.when(text.str.contains(_number_pattern(form))).then(value))


def _parts(form: str) -> tuple[str, str, str]:
    """Return what stands between thousands, a pattern, and before decimals, and the sign."""
    body, sign = (form[:-2], form[-1]) if form[-1] in _SIGNS else (form, "")
    return *_NUMBERS[body], sign


def _number_pattern(form: str) -> str:
    thousands, decimal, sign = _parts(form)
    whole = r"[0-9]+"
    if thousands:  # in India all groups but the last are of two digits
        groups = rf"(?:{thousands}[0-9]{{2,3}})*" if thousands == "," else rf"(?:{thousands}[0-9]{{3}})*"
        whole = rf"(?:[1-9][0-9]{{0,2}}{groups}{thousands}[0-9]{{3}}|[0-9]+)"
    decimal = re.escape(decimal)
    number = rf"(?:{whole}(?:{decimal}[0-9]*)?|{decimal}[0-9]+)(?:[eE][+-]?[0-9]+)?"
    if not sign:
        return rf"^(?:[+−-]?{number}|\({number}\))$"
    sign = re.escape(sign)
    before, after = rf"(?:[+−-]?{sign}\s*|{sign}\s*[+−-]){number}", rf"[+−-]?{number}\s*{sign}"
    negative = rf"\((?:{sign}\s*{number}|{number}\s*{sign})\)|{sign}\s*\({number}\)|\({number}\)\s*{sign}"
    return rf"^(?:{before}|{after}|{negative})$"


def number_format(known: pl.Series) -> str | None:
    """Return the first of `NUMBER_FORMATS` that all cells of text are in, None if there is none.

    There is none either if a comma would make one number of two texts, such as 1,1 and 1,10, nor of dots that part four
    groups or more, as in 192.168.100.101, unless a cell has a decimal comma.

    Examples
    --------
    >>> columns = (["1,234", "987"], ["1,234", "0,5"], ["1,5", "2"], ["1.234.567", "1"], ["5%", "7.5 %"], ["5%", "7"])
    >>> [number_format(pl.Series(column)) for column in columns]
    ['1,234.5', '1234,5', '1234,5', '1.234,5', '1234.5 %', None]
    """
    some = known.head(_LOOKED_AT).to_list()
    forms = [form for form in NUMBER_FORMATS if share_of_numbers(some, form) == 1.0]
    first = next((form for form in forms if not numbers(known, form).null_count()), None)
    if first == "1234,5" and one_number_twice(known) is not None:
        return None
    if first == "1.234,5" and known.str.contains(r"\..*\..*\.").any() and not known.str.contains(",").any():
        return None
    return first


def one_number_twice(known: pl.Series) -> tuple[str, str] | None:
    """Return two texts with a comma that differ, but are one number if it is a decimal comma; None if there are none.

    Examples
    --------
    >>> one_number_twice(pl.Series(["1,1", "2", "1,10"])), one_number_twice(pl.Series(["2", "2,0", "3,5"]))
    (('1,1', '1,10'), None)
    """
    is_plain = known.str.contains(",", literal=True) & ~known.str.contains("^[+−-][0,]*$")  # minus zero is no other
    texts = known.filter(is_plain).unique(maintain_order=True)
    values = numbers(texts, "1234,5")
    twice = texts.filter(values.is_duplicated() & values.is_not_null())
    if twice.is_empty():
        return None
    alike = texts.filter((values == numbers(twice.head(1), "1234,5")[0]).fill_null(False))
    return alike[0], alike[1]


def share_of_numbers(cells: list[str], form: str) -> float:
    """Return the share of a few cells that are in one of `NUMBER_FORMATS`."""
    return _share(cells, _number_pattern(form))


def share_of_dates(cells: list[str], form: str | None) -> float:
    """Return the share of a few cells that look like dates in one of `DATE_FORMATS`, or as programs write them."""
    return _share(cells, _date_pattern(form))


def _share(cells: list[str], pattern: str) -> float:
    compiled = re.compile(pattern.replace("(?<", "(?P<"))
    return sum(compiled.match(cell) is not None for cell in cells) / len(cells)


def looks_like_thousands(known: pl.Series) -> bool:
    """Return whether numbers may have dots between thousands: three digits follow each, and some have none.

    A few dots are enough in amounts of money, which seldom have three decimals.
    """
    n_dotted = int(known.str.contains(".", literal=True).sum())
    fewest = 1 if known[0].strip("0123456789.,+−-() ") in _CURRENCIES else _FEWEST_DOTS
    return fewest <= n_dotted < len(known) and mark_before_three(known) == "."


def mark_before_three(known: pl.Series) -> str | None:
    """Return the dot or comma that may stand before decimals or between thousands; None if there is no such one.

    Three digits follow each, and no number without it has more than three.

    Examples
    --------
    >>> [mark_before_three(pl.Series(cells)) for cells in (["1.234", "7"], ["-1,234"], ["1.234", "1.5"], ["1", "2"])]
    ['.', ',', None, None]
    """
    for mark in ".,":
        number = rf"(?:[1-9][0-9]{{0,2}}[{mark}][0-9]{{3}}|[0-9]{{1,3}})"
        if known.str.contains(mark, literal=True).any() and known.str.contains(f"^{_AROUND}{number}{_AROUND}$").all():
            return mark
    return None


def has_thousands_unparted(known: pl.Series) -> bool:
    """Return whether all numbers are whole, written without marks, and some of four digits or more.

    Examples
    --------
    >>> has_thousands_unparted(pl.Series(["1234", "5"])), has_thousands_unparted(pl.Series(["1234", "5.5"]))
    (True, False)
    """
    return bool(known.str.contains(f"^{_AROUND}[0-9]+{_AROUND}$").all() and known.str.contains("[0-9]{4}").any())


def digits_of_codes(known: pl.Series) -> int:
    """Return how many digits all cells have, if they are two or more and some begin with 0; 0 if it is not so.

    Examples
    --------
    >>> digits_of_codes(pl.Series(["01234", "99501"])), digits_of_codes(pl.Series(["10", "99"]))
    (5, 0)
    """
    digits = len(known[0])
    is_code = digits > 1 and known.str.starts_with("0").any() and known.str.contains(f"^[0-9]{{{digits}}}$").all()
    return digits if is_code else 0


def days(cells: pl.Series, form: str | None = None) -> pl.Series:
    """Return dates as days since 1970, text in one of `DATE_FORMATS`, or as 2024-01-31 or 2024/01/31; others are null.

    Examples
    --------
    >>> days(pl.Series(["2.1.1970", "03.01.1970 12:00", "31.2.1970", "1970-01-02"]), "%d.%m.%Y").to_list()
    [1.0, 2.5, None, None]
    >>> days(pl.Series(["1/2/1970 6:00 PM", "01/02/1970 12:00 AM"]), "%m/%d/%Y").to_list()
    [1.75, 1.0]
    """
    if cells.dtype == pl.Datetime:
        return _in_days(cells.dt.epoch("us").cast(pl.Float64))
    if cells.dtype != pl.String:
        return none_of(cells)
    if not (cells.str.len_bytes() > _LONGEST_DATE).any():  # no time of day: patterns without groups are faster
        text = pl.col(cells.name)
        date = pl.when(text.str.contains(_date_pattern(form, ""))).then(text)
        return found(cells, _date(date, form).cast(pl.Int32).cast(pl.Float64))
    parts = pl.col(cells.name).str.extract_groups(_date_pattern(form))
    date, sign, half = (parts.struct.field(name) for name in ("date", "sign", "half"))
    hours, minutes, seconds, zone_hours, zone_minutes = (
        parts.struct.field(name).cast(pl.Float64).fill_null(0.0)
        for name in ("hours", "minutes", "seconds", "zone_hours", "zone_minutes")
    )
    # of twelve hours, the twelfth comes first; there is no thirteenth
    of_half = pl.when(hours.is_between(1, 12)).then(hours % 12 + 12.0 * half.is_in(["p", "P"]))
    hours = pl.when(half.is_null()).then(hours).otherwise(of_half)
    ahead = pl.when(sign == "+").then(1.0).otherwise(-1.0)
    seconds = 3600 * (hours - ahead * zone_hours) + 60 * (minutes - ahead * zone_minutes) + seconds
    day = _date(date, form).cast(pl.Int32).cast(pl.Float64)
    return _in_days(found(cells, day * (1e6 * _DAY) + (1e6 * seconds).round()))


def _date(text: pl.Expr, form: str | None) -> pl.Expr:
    if form is None:
        text = text.str.replace_all("/", "-", literal=True)
    return text.str.to_date(form or "%Y-%m-%d", strict=False)


def _date_pattern(form: str | None, time: str = _TIME) -> str:
    date = _ISO if form is None else re.sub("%[dm]", "[0-9]{1,2}", re.escape(form).replace("%Y", r"[0-9]{4}"))
    return rf"^(?<date>{date}){time}$"


def _in_days(microseconds: pl.Series) -> pl.Series:
    # NumPy rounds the quotient correctly, to a third of a microsecond; a product with 1 / _DAY would not
    quotient = pl.Series(microseconds.name, microseconds.fill_null(0.0).to_numpy() / (1e6 * _DAY))
    return quotient.set(microseconds.is_null(), None)


def date_format(known: pl.Series) -> str | None:
    """Return the one of `DATE_FORMATS` that all cells of text are in, None if there is none.

    If day and month may be either way round in every cell, the day comes first, unless the second number is the same in
    all of them and the first is not: then they are the first days of months.

    Examples
    --------
    >>> columns = (["31/12/2023", "1/2/2023"], ["12/31/2023"], ["01/02/2023", "05/03/2023"], ["1/1/2023", "2/1/2023"])
    >>> [date_format(pl.Series(column)) for column in columns]
    ['%d/%m/%Y', '%m/%d/%Y', '%d/%m/%Y', '%m/%d/%Y']
    """
    some = known.head(_LOOKED_AT).to_list()
    alike = [form for form in DATE_FORMATS if share_of_dates(some, form) == 1.0]
    fitting = [form for form in alike if not days(known, form).null_count()]
    if len(fitting) < 2:
        return fitting[0] if fitting else None
    first, second = (known.str.extract(r"^([0-9]+)\D([0-9]+)", k).cast(pl.Int64).n_unique() for k in (1, 2))
    return fitting[second == 1 < first]


def pattern_of_dates(known: pl.Series, form: str | None) -> str:
    """Return how dates are written, in the words of `strftime`, with a time of day as that of the first that has one.

    All cells are looked at: one day or month without a leading zero leaves out those of all.

    Examples
    --------
    >>> pattern_of_dates(pl.Series(["3.1.2024 12:30"]), "%d.%m.%Y"), pattern_of_dates(pl.Series(["2024/01/31"]), None)
    ('%-d.%-m.%Y %H:%M', '%Y/%m/%d')
    """
    date = form or ("%Y/%m/%d" if "/" in known[0] else "%Y-%m-%d")
    if form and known.str.contains(r"^[0-9]\D|^[0-9]+\D[0-9]\D").any():
        date = date.replace("%d", "%-d").replace("%m", "%-m")
    parts = known.str.extract_groups(_date_pattern(form)).struct.unnest().filter(pl.col("hours").is_not_null())
    if parts.is_empty():
        return date
    time = parts.row(0, named=True)
    clock = f"{'%I' if time['half'] else '%H'}:%M{':%S' if time['seconds'] else ''}"
    digits = int(parts["seconds"].fill_null("").str.len_bytes().cast(pl.Int64).max()) - len("59.")
    clock += "" if digits < 1 else "%.3f" if digits <= 3 else "%.6f"
    zone = {"Z": "Z", None: ""}.get(time["zone"], "+00:00")  # all are brought to one
    return f"{date}{time['between']}{clock}{' %p' if time['half'] else ''}{zone}"


def written_numbers(values: np.ndarray, form: str, decimals: int | None, example: str) -> list[str]:
    """Write numbers in one of `NUMBER_FORMATS`, with as many decimals, and the sign where an example has it.

    Examples
    --------
    >>> written_numbers(np.array([1234567.5, -2.0]), "1.234,5 €", 2, "3 €")
    ['1.234.567,50 €', '-2,00 €']
    """
    _, decimal, sign = _parts(form)
    thousands = form[1] if form[1] in ",. '" else ""
    swap = str.maketrans({",": thousands, ".": decimal})
    digits = [f"{value:,.{decimals}f}" if decimals is not None else f"{value:,}" for value in values.tolist()]
    plain = [text.translate(swap) for text in digits]
    if not sign:
        return plain
    before = re.match(rf"^{re.escape(sign)}\s*", example)
    after = re.search(rf"\s*{re.escape(sign)}$", example)
    head, tail = before.group() if before else "", after.group() if after and not before else ""
    return [f"{head}{text}{tail}" if head or tail else f"{sign}{text}" for text in plain]
