"""Settings: seeds from every `random_state`, counts, and fits that fail without a trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flowratio._support.errors import ArgumentError
from flowratio._support.validation import (
    check_choice,
    check_count,
    check_fraction,
    check_hidden,
    check_n_folds,
    check_nonnegative,
    check_positive,
    is_count,
    is_number,
    seed_from,
    unchanged_on_failure,
)


@pytest.mark.parametrize("seed", [0, 7, 2**63 - 1, np.int64(7), np.uint8(255)])
def test_integer_is_its_own_seed(seed: Any) -> None:
    assert seed_from(seed) == int(seed)
    assert type(seed_from(seed)) is int


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_generator_gives_a_seed_and_moves_on(make: Any) -> None:
    stream = make(3)
    first, second = seed_from(stream), seed_from(stream)
    assert first != second
    assert seed_from(make(3)) == first
    assert 0 <= first < 2**31


def test_none_is_a_new_seed_each_time_and_leaves_the_global_generator_alone() -> None:
    before: Any = np.random.get_state()  # noqa: NPY002
    assert len({seed_from(None) for _ in range(20)}) > 1
    after: Any = np.random.get_state()  # noqa: NPY002
    np.testing.assert_array_equal(before[1], after[1])
    assert before[2] == after[2]


@pytest.mark.parametrize("seed", [-1, 2**63, 1.0, "0", (1,)])
def test_other_seeds_are_refused(seed: Any) -> None:
    with pytest.raises(ValueError, match=r"`random_state` is .*\. Use an integer of 0 or more, a NumPy generator"):
        seed_from(seed)


@pytest.mark.parametrize("value", [1, 3, np.int32(2), np.uint8(1)])
def test_counts(value: Any) -> None:
    assert is_count(value)


@pytest.mark.parametrize("value", [0, -1, True, 1.0, np.float64(2), "1", None, np.int64(0), [1]])
def test_what_is_no_count(value: Any) -> None:
    assert not is_count(value)


@pytest.mark.parametrize(
    ("check", "good", "bad", "rule"),
    [
        (check_count, [1, np.int64(7)], [0, -1, 1.0, True, "1", None], "an integer of 1 or more"),
        (check_positive, [1e-9, 3], [0, -1.0, np.nan, np.inf, True, "1", None], "a finite number above 0"),
        (check_nonnegative, [0, 0.5], [-1e-9, np.nan, np.inf, None], "a finite number of 0 or more"),
        (check_fraction, [1e-9, 0.5], [0, 1, 1.0, np.nan, None], "a number between 0 and 1"),
    ],
)
def test_one_check_for_each_rule(check: Any, good: list[Any], bad: list[Any], rule: str) -> None:
    for value in good:
        check(value, "size")
    for value in bad:
        with pytest.raises(ArgumentError) as raised:
            check(value, "size")
        assert (raised.value.argument, str(raised.value)) == ("size", f"`size` is {value!r}. Use {rule}.")
    check(None, "size", optional=True)
    with pytest.raises(ArgumentError, match=r", or None for the default\.$"):
        check(-1, "size", optional=True)


def test_folds_layers_and_choices() -> None:
    check_n_folds(2)
    with pytest.raises(ArgumentError, match=r"`n_folds` is 1\. Use an integer of 2 or more\."):
        check_n_folds(1)
    for hidden in ((), (8, 0), 64, "8"):
        with pytest.raises(ArgumentError, match=r"`hidden` is .*\. Use the widths of one or more layers"):
            check_hidden(hidden)
    check_choice("kl", "kind", ["kl", "js"])
    with pytest.raises(ArgumentError, match=r"`kind` is 'kll'\. Use one of kl, js\. Did you mean 'kl'\?"):
        check_choice("kll", "kind", ["kl", "js"])


class Model:
    """Something with attributes."""

    def __init__(self) -> None:
        self.setting = 1
        self.fitted_ = np.zeros(2)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_failure_brings_every_attribute_back(error: type[BaseException]) -> None:
    model: Any = Model()
    fitted = model.fitted_

    def spoil() -> None:
        with unchanged_on_failure(model):
            model.fitted_ = np.ones(2)
            model.new_ = 1
            del model.setting
            raise error

    with pytest.raises(error):
        spoil()
    assert vars(model).keys() == {"setting", "fitted_"}
    assert model.fitted_ is fitted


def test_success_is_kept() -> None:
    model: Any = Model()
    with unchanged_on_failure(model):
        model.new_ = 1
    assert model.new_ == 1


def test_booleans_and_text_are_no_numbers() -> None:
    assert [is_number(value) for value in (3, 0.5, True, "3")] == [True, True, False, False]
