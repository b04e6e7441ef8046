"""The three identities: they hold for the true ratio, and tell the factor of another."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from flowratio.diagnostics.identities import identities
from flowratio.diagnostics.scored_sample import ScoredSample


def sample(log_r: np.ndarray) -> ScoredSample:
    return ScoredSample(np.zeros((len(log_r), 1)), log_r, np.full(len(log_r), 1 / len(log_r)))


def normal(rng: np.random.Generator, n_p: int, n_q: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
    """Return log r on rows of N(shift, 1) and of N(0, 1)."""
    return shift * rng.normal(shift, 1, n_p) - shift**2 / 2, shift * rng.normal(0, 1, n_q) - shift**2 / 2


def test_z_scores_are_standard_normal_for_the_true_ratio() -> None:
    rng = np.random.default_rng(0)
    results = []
    for _ in range(500):
        log_p, log_q = normal(rng, 300, 500, 0.5)
        same = identities(sample(log_p), sample(log_q))
        results.append([same.ratio_q.z, same.inverse_p.z, same.bounded.z])
    for z in np.array(results).T:
        assert stats.kstest(z, "norm").pvalue > 1e-3
    # both sides of the error are the larger of two estimates: a little too large is allowed, too small is not
    assert np.std(results, axis=0) == pytest.approx([0.95, 0.95, 1.0], abs=0.12)


@pytest.mark.parametrize("factor", [3.0, 0.2])
def test_factor_is_recovered_with_unequal_samples(factor: float) -> None:
    log_p, log_q = (x + math.log(factor) for x in normal(np.random.default_rng(1), 4000, 1000, 1.0))
    same = identities(sample(log_p), sample(log_q))
    # Bennett's variance is at most that of either mean of r: (e - 1) / 1000
    assert same.bounded.log_factor == pytest.approx(math.log(factor), abs=4 * math.sqrt((math.e - 1) / 1000))
    assert same.ratio_q.log_mean == pytest.approx(math.log(factor), abs=4 * math.sqrt((math.e - 1) / 1000))
    assert same.ratio_q.mean == pytest.approx(math.exp(same.ratio_q.log_mean))
    assert np.sign(same.bounded.z) == np.sign(math.log(factor))
    assert abs(same.bounded.z) > 10


def test_factor_makes_the_bounded_identity_hold() -> None:
    rng = np.random.default_rng(0)
    log_p, log_q = rng.normal(1, 2, 30), rng.normal(-2, 3, 40)
    c = identities(sample(log_p), sample(log_q)).bounded.log_factor
    shifted = identities(sample(log_p - c), sample(log_q - c)).bounded
    assert shifted.mean_q == pytest.approx(shifted.mean_p, abs=1e-8)
    assert shifted.log_factor == pytest.approx(0, abs=1e-6)


def test_rows_that_miss_the_tail_do_not_understate_the_error() -> None:
    # of q no row has a large ratio, but rows of p tell that there are such
    p, q = sample(np.full(100, 3.0)), sample(np.full(100, 0.0))
    same = identities(p, q)
    assert same.ratio_q.standard_error == pytest.approx(math.sqrt((math.exp(3.0) - 1) / 100))


@pytest.mark.parametrize(("log_p", "log_q"), [(800.0, -800.0), (-800.0, 800.0), (800.0, 800.0), (-800.0, -800.0)])
def test_log_ratios_of_hundreds_give_finite_numbers(log_p: float, log_q: float) -> None:
    same = identities(sample(np.full(5, log_p)), sample(np.full(4, log_q)))
    for part in (same.ratio_q, same.inverse_p, same.bounded):
        assert all(math.isfinite(value) for value in vars(part).values())
    assert math.isfinite(same.ratio_q.mean)
