from __future__ import annotations

from flowratio.ratios.auto.schedule import affordable


def test_enough_time_for_all() -> None:
    assert affordable([0.3, 0.1, 0.2], [0.0, 0.01, 0.01], [1.0, 2.0, 3.0], 24.0, 4) == ({0, 1, 2}, 4)


def test_the_best_comes_first_then_the_highest_score_per_second() -> None:
    scores, errors, costs = [0.30, 0.10, 0.29, 0.20], [0.0, 0.001, 0.001, 0.001], [5.0, 0.1, 4.0, 1.0]
    assert affordable(scores, errors, costs, 24.5, 4) == ({0, 1, 3}, 4)  # 20, 0.4 and 4 seconds
    assert affordable(scores, errors, costs, 20.0, 4) == ({0}, 4)


def test_the_best_gets_fewer_folds_if_it_is_clearly_better() -> None:
    scores, errors, costs = [0.30, 0.10, 0.25], [0.0, 0.01, 0.01], [5.0, 0.1, 2.0]
    assert affordable(scores, errors, costs, 11.0, 4) == ({0, 1}, 2)
    assert affordable(scores, errors, costs, 4.0, 4) == ({0, 1, 2}, 0)  # the first fold decides


def test_one_that_is_as_good_and_fast_comes_before_a_slow_one() -> None:
    scores, errors, costs = [0.30, 0.10, 0.29], [0.0, 0.01, 0.01], [5.0, 0.1, 2.0]
    assert affordable(scores, errors, costs, 11.0, 4) == ({1, 2}, 4)


def test_fits_without_a_measurable_time_are_free() -> None:
    assert affordable([0.3, 0.1], [0.0, 0.1], [0.0, 0.0], 1e-3, 4) == ({0, 1}, 4)
