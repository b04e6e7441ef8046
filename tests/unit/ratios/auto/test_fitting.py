from __future__ import annotations

import math

import numpy as np
import pytest

from flowratio.ratios.auto.fitting import Entrant, thinned
from flowratio.ratios.auto.results import Candidate


def entrant(*timings: tuple[int, float], score_seconds: float = 0.0) -> Entrant:
    return Entrant(Candidate("some", False), None, timings=[*timings], score_seconds=score_seconds)


def test_thinned_rows_are_evenly_spaced_and_the_larger_sample_loses_first() -> None:
    rows = np.arange(0, 2000, 2)  # 100 rows of p, then 900 of q
    np.testing.assert_array_equal(thinned(rows, 200, 1000), rows)
    some = thinned(rows, 200, 300)
    assert np.count_nonzero(some < 200) == 100
    assert np.count_nonzero(some >= 200) == 200
    assert np.isin(some, rows).all()
    assert (np.diff(some) > 0).all()
    assert np.diff(some[some >= 200]).max() <= 10  # every 4.5th of every second
    few = thinned(rows, 200, 50)
    assert np.count_nonzero(few < 200) == np.count_nonzero(few >= 200) == 25


def test_one_trial_is_taken_to_grow_with_the_rows() -> None:
    one = entrant((500, 2.0))
    assert one.expected_seconds(500) == 2
    assert one.expected_seconds(2000) == 8
    assert one.rows_within(4.0, 2000) == 1000
    assert one.rows_within(8.0, 2000) == 2000
    assert one.rows_within(1.0, 2000) == 0  # less than a trial took


def test_two_trials_show_the_growth() -> None:
    assert entrant((500, 1.0), (2000, 4.0)).expected_seconds(8000) == pytest.approx(16)
    assert entrant((500, 1.0), (2000, 8.0)).expected_seconds(8000) == pytest.approx(64)  # n to the power 1.5
    assert entrant((500, 1.0), (2000, 64.0)).expected_seconds(8000) == pytest.approx(8 * 64)  # the largest power
    assert entrant((500, 1.0), (2000, 1.0)).expected_seconds(8000) == pytest.approx(4**0.6)  # the least one
    assert entrant((500, 1.0), (2000, 4.0)).rows_within(8.0, 8000) == 4000


def test_scores_take_time_that_does_not_depend_on_the_fit() -> None:
    one = entrant((500, 2.0), score_seconds=3.0)
    assert one.expected_seconds(1000) == 7
    assert one.rows_within(5.0, 1000) == 500
    assert one.rows_within(4.9, 1000) == 0


def test_nothing_measured_is_no_obstacle() -> None:
    assert entrant().expected_seconds(10**6) == 0
    assert entrant().rows_within(math.inf, 1000) == 1000
