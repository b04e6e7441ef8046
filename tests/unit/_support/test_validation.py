"""Settings: seeds from every `random_state`, counts, and fits that fail without a trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flowratio._support.validation import is_count, seed_from, unchanged_on_failure


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
