"""Pairs of rows of one fold, and what they weigh, compared with brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest

from flowratio.applications.shuffles import TiltedProduct, pairs_by_row, pairs_of_folds


def product(n: int = 40) -> TiltedProduct:
    fold = np.arange(n) % 2
    pairs = pairs_of_folds(fold, 2, np.random.default_rng(0))
    i, j = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    return TiltedProduct(i, j, np.sin(i * 1.0) + np.cos(j * 2.0))


def test_all_pairs_of_different_rows_of_a_fold() -> None:
    t = product(20)
    expected = {(a, b) for a in range(20) for b in range(20) if a != b and a % 2 == b % 2}
    assert set(zip(t.i.tolist(), t.j.tolist(), strict=True)) == expected
    assert len(t.i) == len(expected)


def test_the_mean_ratio_and_what_rows_add_to_it() -> None:
    t = product()
    r = np.exp(t.log_r)
    assert t.log_z == pytest.approx(math.log(r.mean()))
    assert t.effective_size == pytest.approx(r.sum() ** 2 / (r**2).sum())
    influence = t.influence(40)
    assert influence.mean() == pytest.approx(0, abs=1e-12)
    # without a row, -log Z changes by about -influence / n
    for row in (0, 7):
        rest = (t.i != row) & (t.j != row)
        change = -math.log(r[rest].mean()) + t.log_z
        assert change == pytest.approx(-influence[row] / 40, abs=0.01)  # of second order: (2 / 20)²


def test_pairs_are_drawn_in_proportion_to_the_ratio() -> None:
    t = product()
    counts = np.bincount(t.draw(100_000, np.random.default_rng(0)), minlength=len(t.i))
    expected = 100_000 * np.exp(t.log_r - t.log_z) / len(t.i)
    assert np.abs(counts - expected).max() <= 1  # evenly spread: each pair has its share, rounded


def test_terms_of_pairs_by_row() -> None:
    t = product()
    terms = np.random.default_rng(1).normal(size=len(t.i))
    rows = pairs_by_row(terms, t.i, t.j, 40)
    direct = np.zeros(40)
    for i, j, term in zip(t.i, t.j, terms - terms.mean(), strict=True):
        direct[i] += 40 / len(terms) * term
        direct[j] += 40 / len(terms) * term
    np.testing.assert_allclose(rows, direct)
    assert rows.mean() == pytest.approx(0, abs=1e-12)
