"""Permutation importance against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from flowratio.diagnostics.importance import Importance, importance

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1500, 4)) * [1.0, 2.0, 0.5, 1.0]
EVEN = np.full(1500, 1 / 1500)
NAMES = ["a", "b", "c", "d"]


def test_effect_is_the_standard_deviation_of_the_term_of_a_sum() -> None:
    slopes = np.array([1.0, -2.0, 0.5, 0.0])
    effects = importance(lambda A: A @ slopes, X, EVEN, NAMES, 5, np.random.default_rng(0))
    assert effects.names == ["b", "a", "c", "d"]
    assert effects.columns.tolist() == [1, 0, 2, 3]
    # half of the mean of (x - x')² over a permutation is the variance, to 1/√(5·1500) and the rows' own
    expected = np.abs(slopes * X.std(axis=0))[effects.columns]
    np.testing.assert_allclose(effects.effect, expected, rtol=0.05)
    np.testing.assert_allclose(effects.share, expected**2 / (expected**2).sum(), rtol=0.1)
    assert (np.abs(effects.effect - expected) <= 5 * effects.standard_error + 1e-12).all()


def test_product_of_two_columns_gives_both_the_total_effect() -> None:
    effects = importance(lambda A: A[:, 0] * A[:, 3], X, EVEN, NAMES, 5, np.random.default_rng(0))
    assert set(effects.names[:2]) == {"a", "d"}
    np.testing.assert_allclose(effects.effect[:2], 1.0, rtol=0.1)  # E x² E y² = 1
    assert effects.effect[2:].tolist() == [0.0, 0.0]


def test_nothing_moves_a_constant() -> None:
    effects = importance(lambda A: np.zeros(len(A)), X, EVEN, NAMES, 1, np.random.default_rng(0))
    assert effects.effect.tolist() == effects.share.tolist() == effects.standard_error.tolist() == [0.0] * 4


def test_rows_count_by_their_weights() -> None:
    two = np.concatenate([np.zeros((900, 1)), np.ones((100, 1))])
    share = np.repeat([0.5 / 900, 0.5 / 100], [900, 100])
    effects = importance(lambda A: A[:, 0], two, share, ["a"], 20, np.random.default_rng(0))
    assert effects.effect[0] == pytest.approx(0.5, rel=0.03)  # a fair coin; 0.3 if each row counted as one


def test_few_calls_and_few_rows() -> None:
    sizes: list[int] = []

    def log_ratio(A: np.ndarray) -> np.ndarray:
        sizes.append(len(A))
        return A[:, 0]

    many = np.random.default_rng(0).normal(size=(50_000, 3))
    importance(log_ratio, many, np.full(50_000, 1 / 50_000), ["a", "b", "c"], 3, np.random.default_rng(0))
    assert sizes == [2000, 18_000]
    sizes.clear()
    wide = np.random.default_rng(0).normal(size=(5000, 500))
    importance(log_ratio, wide, np.full(5000, 1 / 5000), ["x"] * 500, 3, np.random.default_rng(0))
    assert sum(sizes) <= 1_001_000


def test_same_seed_same_numbers() -> None:
    one, two = (importance(lambda A: A[:, 0] ** 2, X, EVEN, NAMES, 2, np.random.default_rng(3)) for _ in range(2))
    assert one.effect.tolist() == two.effect.tolist()


def test_columns_of_a_group_are_permuted_together() -> None:
    # two columns that add up to 1, as levels of a category do: together they do not move the sum, apart each would
    first = RNG.integers(0, 2, 1500)
    both = np.column_stack([first, 1 - first, X[:, 0]]).astype(float)
    groups = np.array([2, 2, 5])
    effects = importance(
        lambda A: A[:, 0] + A[:, 1] + A[:, 2], both, EVEN, [*"uvwxyz"], 5, np.random.default_rng(0), groups
    )
    assert effects.names == ["z", "w"]
    assert effects.columns.tolist() == [5, 2]
    assert effects.effect[1] == 0.0
    assert effects.effect[0] == pytest.approx(X[:, 0].std(), rel=0.05)
    tilted = importance(lambda A: A[:, 0] - A[:, 1], both, EVEN, [*"uvwxyz"], 5, np.random.default_rng(0), groups)
    assert tilted.effect[0] == pytest.approx(2 * first.std(), rel=0.05)  # ±1 by a coin


def test_every_column_for_itself_is_the_default() -> None:
    def slope(A: np.ndarray) -> np.ndarray:
        return A @ np.arange(4.0)

    effects = [importance(slope, X, EVEN, NAMES, 2, np.random.default_rng(0), of) for of in (None, np.arange(4))]
    assert np.array_equal(effects[0].effect, effects[1].effect)
    assert effects[0].names == effects[1].names


def test_the_text_is_a_table_of_the_first_ten_columns() -> None:
    d = 12
    names = ["income", *(f"x{j}" for j in range(1, d))]
    table = Importance(names, np.arange(d), np.full(d, 0.5), np.full(d, 0.012), np.full(d, 1 / d))
    lines = str(table).splitlines()
    assert lines[:3] == ["column  effect (nats)  share", "income  0.50 ± 0.01    8 %", "x1      0.50 ± 0.01    8 %"]
    assert lines[11:] == ["… and 2 more columns"]
