"""What every estimator does with its settings: a `random_state` becomes a seed, a failed fit changes nothing."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

RandomState: TypeAlias = int | np.random.RandomState | np.random.Generator | None


def seed_from(random_state: RandomState) -> int:
    """Turn any `random_state` into one integer, without a look at the global generator.

    Examples
    --------
    >>> seed_from(7)
    7
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, numbers.Integral) and 0 <= random_state < 2**63:
        return int(random_state)
    raise ValueError(f"`random_state` is {random_state!r}: give an integer of 0 or more, a NumPy generator, or None.")


def is_count(value: Any) -> bool:
    """Whether a value is a whole number of 1 or more.

    Examples
    --------
    >>> is_count(3), is_count(0), is_count(True), is_count(2.0)
    (True, False, False, False)
    """
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 1


def is_number(value: Any) -> bool:
    """Whether a value is a real number, and not True or False.

    Examples
    --------
    >>> is_number(3), is_number(0.5), is_number(True), is_number("3")
    (True, True, False, False)
    """
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def check_n_folds(n_folds: Any) -> None:
    """Refuse a number of folds that is not a whole number of 2 or more."""
    if not (is_count(n_folds) and n_folds >= 2):
        raise ValueError(f"`n_folds` is {n_folds!r}: give a whole number of 2 or more.")


def check_hidden(hidden: Any) -> None:
    """Refuse widths of hidden layers that are neither None nor whole numbers of 1 or more."""
    if hidden is not None and not (isinstance(hidden, list | tuple) and hidden and all(map(is_count, hidden))):
        raise ValueError(f"`hidden` is {hidden!r}: give the widths of one or more layers, such as (64, 64).")


def check_training_settings(estimator: Any, counts: Sequence[str] = ()) -> None:
    """Refuse settings of a network or a flow, and of its training, that are neither None nor sound.

    Parameters
    ----------
    estimator
        Has the settings `hidden`, `max_epochs`, `batch_size`, `learning_rate`, `weight_decay`, `patience` and
        `validation_fraction`.
    counts
        Names of other settings that are whole numbers of 1 or more, or None.
    """
    for name in (*counts, "max_epochs", "batch_size", "patience"):
        value = getattr(estimator, name)
        if value is not None and not is_count(value):
            raise ValueError(f"`{name}` is {value!r}: give a whole number of 1 or more, or None to leave it to us.")
    for name, is_good, rule in (
        ("learning_rate", lambda rate: 0 < rate < math.inf, "above 0"),
        ("weight_decay", lambda decay: 0 <= decay < math.inf, "of 0 or more"),
    ):
        value = getattr(estimator, name)
        if value is not None and not (is_number(value) and is_good(value)):
            raise ValueError(f"`{name}` is {value!r}: give a number {rule}, or None to leave it to us.")
    check_hidden(estimator.hidden)
    fraction = estimator.validation_fraction
    if fraction is not None and not (is_number(fraction) and 0 < fraction < 1):
        raise ValueError(f"`validation_fraction` is {fraction}: it must lie between 0 and 1.")


@contextmanager
def unchanged_on_failure(estimator: Any) -> Iterator[None]:
    """Leave an estimator as it was if what is done inside fails: a refit that fails loses no fit."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
