"""Errors that carry the arguments they are about, so that the command line can name its options instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class _AboutArguments(Exception):
    def __init__(self, argument: str | Sequence[str], message: str) -> None:
        super().__init__(message)
        self.arguments = (argument,) if isinstance(argument, str) else tuple(argument)


class ArgumentError(_AboutArguments, ValueError):
    """An argument that cannot be used, or several. The message names each argument in backticks."""

    @property
    def argument(self) -> str:
        return self.arguments[0]

    def renamed(self, option: str) -> str:
        return renamed(self, {self.argument: option})

    def __reduce__(self) -> tuple[Any, ...]:
        return ArgumentError, (self.arguments, str(self))  # a worker process sends it with both


class ArgumentWarning(_AboutArguments, UserWarning):
    """A warning that names arguments in backticks."""


def renamed(message: Warning | Exception | str, names: Mapping[str, str]) -> str:
    """Return the text of an error or a warning with other names for its `arguments`. Without these, it is unchanged.

    An argument that the text does not name, such as that of a function which read the data, is named at the end.
    """
    text, arguments = str(message), getattr(message, "arguments", ())
    unnamed = [argument for argument in arguments if f"`{argument}`" not in text and argument in names]
    for argument, name in names.items() if arguments else ():
        text = text.replace(f"`{argument}`", f"`{name}`")
    return " ".join([text, *(f"See `{names[argument]}`." for argument in unnamed)])
