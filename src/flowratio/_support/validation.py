"""Checks of arguments, one function for each rule. A `random_state` becomes a seed, a failed fit changes nothing."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from flowratio._support.errors import ArgumentError
from flowratio._support.wording import nearest

RandomState: TypeAlias = int | np.random.RandomState | np.random.Generator | None


def seed_from(random_state: RandomState) -> int:
    """Return one integer for any `random_state`. The global generator of NumPy stays unchanged."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, numbers.Integral) and 0 <= random_state < 2**63:
        return int(random_state)
    raise _error("random_state", random_state, "an integer of 0 or more, a NumPy generator, or None")


def is_count(value: Any) -> bool:
    """Return whether a value is an integer of 1 or more."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 1


def is_number(value: Any) -> bool:
    """Return whether a value is a real number and not a boolean."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def check_count(value: Any, name: str, least: int = 1, optional: bool = False) -> None:
    """Refuse a value that is not an integer of at least `least`. With `optional`, None is allowed too."""
    _require(is_count(value) and value >= least, value, name, f"an integer of {least} or more", optional)


def check_positive(value: Any, name: str, optional: bool = False) -> None:
    """Refuse a value that is not a finite number above 0. With `optional`, None is allowed too."""
    _require(is_number(value) and 0 < value < math.inf, value, name, "a finite number above 0", optional)


def check_nonnegative(value: Any, name: str, optional: bool = False) -> None:
    """Refuse a value that is not a finite number of 0 or more. With `optional`, None is allowed too."""
    _require(is_number(value) and 0 <= value < math.inf, value, name, "a finite number of 0 or more", optional)


def check_fraction(value: Any, name: str, optional: bool = False) -> None:
    """Refuse a value that is not strictly between 0 and 1. With `optional`, None is allowed too."""
    _require(is_number(value) and 0 < value < 1, value, name, "a number between 0 and 1", optional)


def check_choice(value: Any, name: str, choices: Sequence[str]) -> None:
    """Refuse a value that is not one of the choices, and suggest the nearest one."""
    if not isinstance(value, str) or value not in choices:
        raise ArgumentError(name, f"`{name}` is {value!r}. Use one of {', '.join(choices)}.{nearest(value, choices)}")


def check_n_folds(n_folds: Any) -> None:
    """Refuse a number of folds that is not an integer of 2 or more."""
    check_count(n_folds, "n_folds", least=2)


def check_hidden(hidden: Any) -> None:
    """Refuse widths of hidden layers that are neither None nor integers of 1 or more."""
    if hidden is not None and not (isinstance(hidden, list | tuple) and hidden and all(map(is_count, hidden))):
        raise _error("hidden", hidden, "the widths of one or more layers, such as (64, 64)")


def check_training_settings(estimator: Any, counts: Sequence[str] = ()) -> None:
    """Check the settings of a network or a flow and of its training, and `counts`. Each may be None."""
    for name in (*counts, "max_epochs", "batch_size", "patience"):
        check_count(getattr(estimator, name), name, optional=True)
    check_positive(estimator.learning_rate, "learning_rate", optional=True)
    check_nonnegative(estimator.weight_decay, "weight_decay", optional=True)
    check_hidden(estimator.hidden)
    check_fraction(estimator.validation_fraction, "validation_fraction", optional=True)


def _require(holds: bool, value: Any, name: str, rule: str, optional: bool) -> None:
    if not holds and not (value is None and optional):
        raise _error(name, value, rule, optional)


def _error(name: str, value: Any, rule: str, optional: bool = False) -> ArgumentError:
    return ArgumentError(name, f"`{name}` is {value!r}. Use {rule}{', or None for the default' * optional}.")


@contextmanager
def unchanged_on_failure(estimator: Any) -> Iterator[None]:
    """Restore the attributes of an estimator if the block fails: a refit that fails keeps the earlier fit."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
