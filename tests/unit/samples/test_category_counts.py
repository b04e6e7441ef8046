from __future__ import annotations

import numpy as np

from flowratio.samples.category_counts import differs_clearly, is_absent_in_other


def test_new_and_vanished_categories_are_clear() -> None:
    n_p, n_q = np.array([125, 0, 900, 3075]), np.array([0, 120, 880, 3000])
    assert differs_clearly(n_p, n_q).tolist() == [True, True, False, False]


def test_few_rows_are_chance_in_unequal_samples() -> None:
    """A normal approximation would find 1 row of 150 against 0 of 4000 to be 5 standard errors off."""
    assert differs_clearly(np.array([1, 149]), np.array([0, 4000])).tolist() == [False, False]
    assert differs_clearly(np.array([6, 144]), np.array([0, 4000])).tolist() == [True, False]


def test_false_alarms_are_rare() -> None:
    """The level holds for all categories together: of 200 tests at 5 % at most 10 ± 3 × 3.1 raise an alarm."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(40, 0.5))
    counts = [(rng.multinomial(150, shares), rng.multinomial(4000, shares)) for _ in range(200)]
    assert sum(differs_clearly(*pair).any() for pair in counts) <= 19


def test_no_rows() -> None:
    assert differs_clearly(np.zeros(0), np.zeros(0)).tolist() == []
    assert differs_clearly(np.zeros(2), np.zeros(2)).tolist() == [False, False]


def test_rows_of_absent_categories() -> None:
    """Category 2 is new, category 3 vanished, category 4 has one row, which can be chance. -1 is a missing value."""
    codes = np.repeat([0, 2, 4, -1, 0, 3, -1], [80, 20, 1, 9, 90, 30, 9])
    expected = np.repeat([False, True, False, False, False, True, False], [80, 20, 1, 9, 90, 30, 9])
    assert is_absent_in_other(codes, 110, np.ones(len(codes))).tolist() == expected.tolist()
    weights = np.where(codes == 2, 0.0, 1.0)
    assert not is_absent_in_other(codes, 110, weights)[:110].any()
