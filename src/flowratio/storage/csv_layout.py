"""The layout of a CSV file: its separator, its header, and where its rows begin."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from flowratio._support.errors import ArgumentError
from flowratio._support.wording import listed
from flowratio.samples.files import unreadable

_HEAD_BYTES = 1 << 20  # contains the header, and the rows that determine the separator
_N_LINES = 6  # lines that determine the separator
_BOM = b"\xef\xbb\xbf"
_SEPARATORS = (",", ";", "\t", "|")
_OTHER_SEPARATORS = {None: "white space", ":": "':'", "^": "'^'", "~": "'~'"}  # of files that are refused


@dataclass(frozen=True)
class CsvLayout:
    """The layout of a CSV file."""

    separator: str
    columns: list[str]
    offset: int  # bytes before the first row
    n_rows: int  # estimated from the first rows


def csv_layout(path: Path, name: str, usual: str = ",") -> CsvLayout:
    """Detect the layout of a CSV file in UTF-8. Errors call it `name`. The `usual` separator is used if it fits."""
    with open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
    text, size = _decoded(head, path, name), path.stat().st_size
    separator = _separator(text, usual)
    records = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        header, n_lines = next((record for record in records if record), []), records.line_num
    except csv.Error as error:
        raise ValueError(f"{name} has a header without end ({error}). Its first line must name the columns.") from error
    lines = io.StringIO(text, newline="").readlines()
    if n_lines == len(lines) and len(head) < size:
        raise ValueError(f"{name} has a header of over {_HEAD_BYTES >> 20} MB. Its first line must name the columns.")
    _check_header(header, lines[n_lines : n_lines + _N_LINES], name)
    offset = len(_BOM) * head.startswith(_BOM) + len("".join(lines[:n_lines]).encode())
    if offset == size:
        raise no_rows(name)
    return CsvLayout(separator, header, offset, max(1, (len(lines) - n_lines) * size // len(head)))


def safe_separator(separator: str, columns: Sequence[str]) -> str:
    """Return `separator`, or a comma if a name of a column contains a separator, so that the file can be read."""
    return "," if any(mark in name for name in columns for mark in _SEPARATORS) else separator


def line_of(path: Path, layout: CsvLayout, row: int) -> int | None:
    """Return the line of a CSV file on which a row, counted from 0, begins, or None. The header is line 1."""
    with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
        records = csv.reader(file, delimiter=layout.separator)
        blank_counts, position, start = len(layout.columns) == 1, -2, 0  # the header comes first
        with suppress(csv.Error):  # a value that is too long
            for record in records:
                position += bool(record) or (blank_counts and position > -2)
                if position == row and (record or blank_counts):
                    return start + 1
                start = records.line_num
    return None


def _decoded(head: bytes, path: Path, name: str) -> str:
    """Return the beginning of a text file as text, without a character that is cut in two at its end."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(head.removeprefix(_BOM), final=len(head) < _HEAD_BYTES)
    except UnicodeDecodeError as error:
        raise not_utf8(path, name) or unreadable(name, "CSV", error) from error
    if "\0" in text:
        raise ArgumentError("encoding", f"{name} has zero bytes: it is not in UTF-8. Set `encoding`, such as utf-16.")
    return text


def not_utf8(path: Path, name: str) -> ValueError | None:
    """Return an error that names the place where a file is not in UTF-8. None if it is in UTF-8."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                place = f"byte {error.start + 1} of line {number} is 0x{line[error.start]:02x}"
                message = f"{name} is not in UTF-8 ({place}). Set `encoding`, such as latin-1, or save it in UTF-8."
                return ArgumentError("encoding", message)
    return None


def _separator(text: str, usual: str) -> str:
    """Return the usual separator if all first rows then have as many values as the header, or one that fits better."""
    lengths = {separator: _lengths(text, separator) for separator in dict.fromkeys((usual, *_SEPARATORS))}
    fitting = {separator: n[0] for separator, n in lengths.items() if n[0] > 1 and len(set(n)) == 1}
    if usual in fitting or (not fitting and lengths[usual][0] > 1):
        return usual
    return max(fitting or lengths, key=lambda separator: lengths[separator][0])


def _lengths(text: str, separator: str) -> list[int]:
    """Return the number of values in each of the first rows. [0] if there are no rows."""
    records = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        return [len(record) for record in islice(records, _N_LINES) if record] or [0]
    except csv.Error:  # a value that is too long: all of a wide header, for a separator that is not there
        return [0]


def _check_header(header: list[str], lines: list[str], name: str) -> None:
    """Refuse a first line of numbers, and a file with another separator."""
    if all(map(_is_number, header)) and not all(column.strip().isdigit() for column in header):
        raise ValueError(f"{name} begins with the numbers {listed(header)}. Its first line must name the columns.")
    for separator, words in _OTHER_SEPARATORS.items():
        values = [line.split(separator) for line in (*header, *lines)]
        alike = len(header) == 1 < len(values[0]) and len({*map(len, values)}) == 1 < len(values)
        if alike and all(map(_is_number, chain.from_iterable(values[1:]))):
            rule = "The separator must be a comma, semicolon, tab or |. Write it as CSV"
            raise ValueError(f"{name} has only one column, in which {words} separates numbers. {rule}.")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class NoRowsError(ValueError):
    """A table without rows."""


def no_rows(name: str) -> NoRowsError:
    """Return the error of a table without rows."""
    return NoRowsError(f"{name} has a header but no rows. A table must have at least one row.")
