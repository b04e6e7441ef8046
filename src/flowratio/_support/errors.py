"""Errors that carry the argument they are about, so that the command line can name its option instead."""

from __future__ import annotations


class ArgumentError(ValueError):
    """An argument that cannot be used.

    Parameters
    ----------
    argument
        Name of the argument in Python, such as `"n_folds"`. The message names it in backticks.
    message
        What is wrong, what is allowed, what to do.

    Examples
    --------
    >>> error = ArgumentError("n_folds", "`n_folds` is 1. Use an integer of 2 or more.")
    >>> error.argument, error.renamed("--folds")
    ('n_folds', '`--folds` is 1. Use an integer of 2 or more.')
    """

    def __init__(self, argument: str, message: str) -> None:
        super().__init__(message)
        self.argument = argument

    def renamed(self, option: str) -> str:
        """Return the message with another name for the argument."""
        return str(self).replace(f"`{self.argument}`", f"`{option}`")
