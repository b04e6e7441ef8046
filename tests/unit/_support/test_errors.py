"""Errors that carry their arguments: renamed, and sent from worker processes."""

from __future__ import annotations

import copy
import warnings

import pytest

from flowratio._support.errors import ArgumentError, ArgumentWarning, renamed


def test_argument_error_is_a_value_error_with_its_arguments() -> None:
    error = ArgumentError(("columns", "exclude"), "`columns` and `exclude` leave no column.")
    assert isinstance(error, ValueError)
    assert (error.argument, error.arguments) == ("columns", ("columns", "exclude"))
    assert error.renamed("--columns") == "`--columns` and `exclude` leave no column."


def test_argument_error_survives_a_worker_process() -> None:
    error = copy.copy(ArgumentError("n_folds", "`n_folds` is 1."))  # by `__reduce__`, as a worker process sends it
    assert (type(error), error.arguments, str(error)) == (ArgumentError, ("n_folds",), "`n_folds` is 1.")


def test_only_names_in_backticks_are_renamed() -> None:
    error = ArgumentError("ratio", "`ratio` is 'ratio', a ratio.")
    assert renamed(error, {"ratio": "--method"}) == "`--method` is 'ratio', a ratio."


@pytest.mark.parametrize("message", [ValueError("`ratio` is 1."), UserWarning("`ratio` is 1."), "`ratio` is 1."])
def test_messages_without_arguments_stay_unchanged(message: Exception | str) -> None:
    assert renamed(message, {"ratio": "--method"}) == "`ratio` is 1."


def test_warning_carries_its_argument() -> None:
    with pytest.warns(ArgumentWarning) as records:
        warnings.warn(ArgumentWarning("exclude", "Drop it with `exclude`."), stacklevel=1)
    message = records[0].message
    assert isinstance(message, ArgumentWarning)
    assert renamed(message, {"exclude": "--exclude"}) == "Drop it with `--exclude`."
