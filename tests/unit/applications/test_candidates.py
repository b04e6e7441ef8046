"""Candidates of a flow: each is decoded with the chance that its weight in the second stage assumes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from flowratio.applications.candidates import resampled, to_decode


def test_candidates_are_decoded_with_their_chances() -> None:
    log_w = np.log(np.random.default_rng(0).pareto(1.5, 40))
    n_seeds, counts, chance = 4000, np.zeros(40), np.full(40, np.nan)
    for seed in range(n_seeds):
        selection = to_decode(log_w, 12, np.random.default_rng(seed))
        counts[selection.positions] += 1
        chance[selection.positions] = np.exp(selection.log_chance)
        assert len(np.unique(selection.positions)) == len(selection.positions) == 12
    assert chance.max() == pytest.approx(1)
    assert chance.sum() == pytest.approx(12)
    # of 40 shares of 4000 seeds, none is five standard errors off
    assert (np.abs(counts / n_seeds - chance) <= 5 * np.sqrt(chance * (1 - chance) / n_seeds) + 1e-9).all()


def test_chances_are_by_the_root_of_the_weight_and_a_fifth_equal() -> None:
    # 100 candidates of weight 1, 100 of weight 4. Their roots in units of the mean are 2/3 and 4/3
    log_w = np.repeat(np.log([1.0, 4.0]), 100)
    selection = to_decode(log_w, 40, np.random.default_rng(0))
    expected = 0.2 * (0.8 * np.array([2 / 3, 4 / 3]) + 0.2)  # 40 of 200
    np.testing.assert_allclose(np.exp(selection.log_chance), expected[selection.positions // 100], rtol=1e-12)


def test_weights_of_zero_have_a_chance() -> None:
    # 100 candidates of weight 0, 100 of weight 2: s = .2 and 1.8, and their chances for m = 40 are .04 and .36
    selection = to_decode(np.repeat([-np.inf, 0.0], 100), 40, np.random.default_rng(0))
    chance = np.exp(selection.log_chance)
    np.testing.assert_allclose(chance, np.where(selection.positions < 100, 0.04, 0.36), rtol=1e-12)
    assert np.count_nonzero(selection.positions < 100) == 4


def test_large_weights_have_the_chance_one() -> None:
    log_w = np.concatenate([np.full(3, 50.0), np.zeros(97)])
    for seed in range(20):
        selection = to_decode(log_w, 10, np.random.default_rng(seed))
        np.testing.assert_array_equal(selection.positions[:3], [0, 1, 2])
        np.testing.assert_allclose(selection.log_chance[:3], 0, atol=1e-12)
        # the other 7 of 97 have equal chances
        np.testing.assert_allclose(selection.log_chance[3:], math.log(7 / 97), rtol=1e-6)


@pytest.mark.parametrize("m", [5, 6])
def test_all_are_decoded_if_there_are_no_more(m: int) -> None:
    selection = to_decode(np.array([0.0, -np.inf, 1.0, 2.0, 3.0]), m, np.random.default_rng(0))
    np.testing.assert_array_equal(selection.positions, np.arange(5))
    np.testing.assert_array_equal(selection.log_chance, np.zeros(5))


def test_weighted_means_over_the_decoded_are_those_over_all() -> None:
    # the sum of w f / c over the decoded has the expectation of the sum of w f over all, whatever the first weights are
    rng = np.random.default_rng(1)
    log_w, w, f = rng.normal(size=60), rng.exponential(size=60), rng.normal(size=60)
    sums = []
    for seed in range(3000):
        positions, log_chance = to_decode(log_w, 15, np.random.default_rng(seed))
        sums.append(np.sum(w[positions] * f[positions] * np.exp(-log_chance)))
    assert np.mean(sums) == pytest.approx(np.sum(w * f), abs=4 * np.std(sums) / math.sqrt(3000))


def test_without_replacement_the_first_row_is_a_draw_by_weight() -> None:
    # of 3 candidates with weights 1 : 2 : 5; 600 seeds, 4 standard errors
    log_w = np.log([1.0, 2.0, 5.0])
    first = [resampled(log_w, 2, False, np.random.default_rng(seed))[0] for seed in range(600)]
    share = np.bincount(first, minlength=3) / 600
    assert (np.abs(share - [0.125, 0.25, 0.625]) < 4 * np.sqrt(share * (1 - share) / 600)).all()
