"""Numbers, dates and shares as text for people."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import numpy as np

_MOST_DAYS = 1e8  # from 1970: the dates of JavaScript end there
_MOST_DIGITS = 8  # to show that two numbers differ
_GROUPED = 10_000  # integers from here on are written in groups of three digits: 2024 can be a year


def plain_spaces(text: str) -> str:
    """Return a text without the narrow and fixed spaces of a page, which a terminal may not show."""
    return text.translate({0x202F: ",", 0xA0: " "})


def sig(value: float | None, digits: int = 3) -> str:
    """Write a number with this many significant digits."""
    if not value or not math.isfinite(value):
        return "0" if value == 0 else "–"
    rounded = float(f"{value:.{digits - 1}e}")
    power = math.floor(math.log10(abs(rounded)))
    if not -4 <= power < 6:
        mantissa, exponent = f"{rounded:.{digits - 1}e}".split("e")
        return f"{mantissa.replace('-', '−')}e{int(exponent)}"
    return f"{rounded:,.{max(0, digits - 1 - power)}f}".replace(",", "\u202f").replace("-", "−")


def signed(value: float | None) -> str:
    """Write a difference with its sign and two decimals, up to 1000."""
    if value is None:
        return "–"
    if abs(value) > 1000:
        return "> 1000" if value > 0 else "< −1000"
    text = f"{value:+.2f}".replace("-", "−")
    return text[1:] if float(f"{value:.2f}") == 0 else text


def fixed(value: float | None, digits: int = 4) -> str:
    """Write a score with this many decimals."""
    return "–" if value is None else f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")


def count(value: float) -> str:
    """Write a number of rows, in groups of three digits."""
    return f"{value:,.0f}".replace(",", "\u202f") if value >= 9.5 or value == round(value) else sig(value, 2)


def percent(share: float | None) -> str:
    """Write a share in percent."""
    if share is None:
        return "–"
    if 0 < share < 0.001:
        return "<\u00a00.1\u00a0%"
    if 0.9995 <= share < 1:
        return ">\u00a099.9\u00a0%"
    return f"{100 * share:.{1 if 0 < share < 0.0995 or 0.99 < share < 1 else 0}f}\u00a0%"


def moment(date: str) -> str:
    """Write a date in ISO form for people. Any other text stays unchanged."""
    try:
        when = datetime.fromisoformat(date)
    except ValueError:
        return date
    return f"{when.day} {when:%B %Y, %H:%M} {when.tzname() or ''}".rstrip()


def in_units(column: dict[str, Any], value: float | None, digits: int = 3) -> str:
    """Write a value of a column in its own units: days since 1970 as a date, integers in full."""
    if value is None:
        return "–"
    if column["kind"] == "date":
        return str(np.datetime64(math.floor(min(max(value, -_MOST_DAYS), _MOST_DAYS)), "D"))
    if value == round(value) and abs(value) < 1e6:
        return f"{value:,.0f}".replace(",", "\u202f" if abs(value) >= _GROUPED else "").replace("-", "−")
    return sig(value, digits)


def pair(column: dict[str, Any], before: float | None, after: float | None) -> tuple[str, str]:
    """Write two values of a column with as many digits as it takes to see that they differ."""
    digits = (3, *range(4, _MOST_DIGITS + 1))
    texts = [(in_units(column, before, n), in_units(column, after, n)) for n in digits]
    return next((text for text in texts if text[0] != text[1]), texts[0])


def shares(before: float, after: float) -> tuple[str, str]:
    """Write two shares in percent, with as many decimals as it takes to see that they differ."""
    if all(share == 0 or 0.01 <= share <= 0.99 or share == 1 for share in (before, after)):
        whole = f"{100 * before:.0f}\u00a0%", f"{100 * after:.0f}\u00a0%"
        if whole[0] != whole[1]:
            return whole
    texts = percent(before), percent(after)
    if texts[0] != texts[1] or before == after:
        return texts
    return f"{100 * before:.2f}\u00a0%", f"{100 * after:.2f}\u00a0%"


def finite(value: float, digits: int = 4) -> float | None:
    """Round to significant digits, None for a number that is not finite."""
    rounded = float(f"{value:.{digits}g}")
    return rounded if math.isfinite(rounded) else float(value) if math.isfinite(value) else None


def rounded(values: Iterable[float], digits: int = 4) -> list[float | None]:
    """Round many numbers. Integers lose their point, which takes less space."""
    rounded = [finite(value, digits) for value in values]
    return [int(value) if value is not None and value == int(value) else value for value in rounded]
