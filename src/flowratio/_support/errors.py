"""Errors that carry the arguments they are about, so that the command line can name its options instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class ArgumentError(ValueError):
    """An argument that cannot be used.

    Parameters
    ----------
    argument
        Name of the argument in Python, such as `"n_folds"`, or the names of several arguments.
    message
        What is wrong, what is allowed, what to do. It names each argument in backticks.

    Examples
    --------
    >>> error = ArgumentError("n_folds", "`n_folds` is 1. Use an integer of 2 or more.")
    >>> error.argument, error.renamed("--folds")
    ('n_folds', '`--folds` is 1. Use an integer of 2 or more.')
    """

    def __init__(self, argument: str | Sequence[str], message: str) -> None:
        super().__init__(message)
        self.arguments = (argument,) if isinstance(argument, str) else tuple(argument)

    @property
    def argument(self) -> str:
        """The first argument that the error is about."""
        return self.arguments[0]

    def renamed(self, option: str) -> str:
        """Return the message with another name for the first argument."""
        return renamed(self, {self.argument: option})

    def __reduce__(self) -> tuple[Any, ...]:
        return ArgumentError, (self.arguments, str(self))  # a worker process sends it with both


class ArgumentWarning(UserWarning):
    """A warning that names arguments in backticks. The parameters are those of `ArgumentError`."""

    def __init__(self, argument: str | Sequence[str], message: str) -> None:
        super().__init__(message)
        self.arguments = (argument,) if isinstance(argument, str) else tuple(argument)


def renamed(message: Warning | Exception | str, names: Mapping[str, str]) -> str:
    """Return the text of an error or a warning with other names for its arguments.

    Parameters
    ----------
    message
        An error or a warning. The text stays unchanged if it is not about arguments: if it has no `arguments`.
    names
        The other name of each argument. An argument that is not there keeps its name.

    Examples
    --------
    >>> error = ArgumentError(("columns", "exclude"), "`columns` and `exclude` leave no column.")
    >>> renamed(error, {"columns": "--columns", "exclude": "--exclude"})
    '`--columns` and `--exclude` leave no column.'
    """
    text = str(message)
    for argument, name in names.items() if getattr(message, "arguments", ()) else ():
        text = text.replace(f"`{argument}`", f"`{name}`")
    return text
