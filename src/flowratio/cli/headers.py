"""The names of columns that a command gets, checked against the headers of its files before it imports torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flowratio._support.errors import ArgumentError
from flowratio._support.wording import listed, nearest, quoted
from flowratio.cli.options import names_in
from flowratio.storage.reading import open_table
from flowratio.storage.sources import is_source, is_stream


class Header(NamedTuple):
    """The columns of a file. Those of a stream, which can be read only once, are not known: None."""

    path: str
    columns: list[str] | None
    row_numbers: Sequence[str] = ()  # columns that pandas wrote as the index

    def without(self, names: Sequence[str]) -> list[str] | None:
        """Return the columns that a command uses, without some of them."""
        return None if self.columns is None else [c for c in self.columns if c not in (*self.row_numbers, *names)]


def header_of(path: str, encoding: str | None) -> Header:
    """Read the columns of a file."""
    if is_stream(path):
        return Header(path, None)
    with open_table(path, encoding) as table:
        return Header(path, list(table.columns), table.index)


def columns_given(given: str, path: str, exclude: Sequence[str] | None, encoding: str | None) -> list[str] | None:
    """Return the columns of a file that `--given` names. None if it is the path of a file. Others are refused."""
    names, columns = names_in([given]) or [], header_of(path, encoding).without(exclude or ())
    absent = [name for name in names if columns is not None and name not in columns]
    if columns is not None and not absent:
        return names
    if is_stream(given) or is_source(given):
        return None
    if columns is None:  # of a stream, whose columns are checked when it is read
        return names
    problem = f"`given` has {quoted(absent[0])}, which is neither a column of {path} nor a file"
    advice = f"Use columns of the file, {listed(columns)}, or the path of a file."
    raise ArgumentError("given", f"{problem}. {advice}{nearest(absent[0], columns)}")


def check_columns(
    paths: Sequence[str],
    roles: Mapping[str, Sequence[str] | None],
    exclude: Sequence[str] | None,
    encoding: str | None,
) -> None:
    """Refuse names that the headers of the files do not have. `roles` are names in the first file by argument."""
    headers = [header_of(path, encoding) for path in paths]
    if all(header.columns is not None for header in headers):
        check_excluded(exclude, [name for header in headers for name in header.columns or ()], paths)
    columns = headers[0].without(exclude or ())
    if columns is not None:
        check_roles(roles, columns, paths[0])


def check_roles(roles: Mapping[str, Sequence[str] | None], columns: Sequence[str], path: str) -> None:
    """Refuse names that are not columns of a file, and a column with two roles. `roles` are names by argument."""
    role_of: dict[str, str] = {}
    for argument, names in roles.items():
        absent = [name for name in names or () if name not in columns]
        if absent:
            problem = f"`{argument}` has {listed(absent)}, which {path} does not have"
            advice = f"Use columns of the file: {listed(columns)}.{nearest(absent[0], columns)}"
            raise ArgumentError(argument, f"{problem}. {advice}")
        for name in names or ():
            if (other := role_of.setdefault(name, argument)) != argument:
                problem = f"`{other}` and `{argument}` both have {quoted(name)}"
                raise ArgumentError((other, argument), f"{problem}. Name each column in one of them.")


def check_excluded(exclude: Sequence[str] | None, names: Sequence[str], paths: Sequence[str]) -> None:
    """Refuse names to exclude that are no columns of the files, whose columns are `names`."""
    for name in exclude or ():
        if name not in names:
            fault = f"`exclude` names {quoted(name)}, which is not a column of {' or '.join(dict.fromkeys(paths))}."
            raise ArgumentError("exclude", fault + nearest(name, names))
