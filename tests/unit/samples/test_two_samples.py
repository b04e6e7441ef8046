"""Two samples: p first, weights that count, groups, units, mixed tables."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from flowratio.samples.two_samples import TwoSamples, two_samples
from flowratio.samples.weighting import weighted_moments


def samples(n_p: int = 6, n_q: int = 9, d: int = 2, seed: int = 0) -> TwoSamples:
    rng = np.random.default_rng(seed)
    return two_samples(rng.normal(1, 1, (n_p, d)), rng.normal(0, 1, (n_q, d)))


def test_rows_of_p_come_first_and_rows_of_weight_zero_are_left_out() -> None:
    X, is_p = np.arange(12.0).reshape(6, 2), np.array([False, True, False, True, True, False])
    both = TwoSamples.of(X, is_p, np.array([1.0, 2.0, 0.0, 1.0, 1.0, 1.0]))
    assert both.X[:, 0].tolist() == [2.0, 6.0, 8.0, 0.0, 10.0]
    assert both.y.tolist() == [1, 1, 1, 0, 0]
    assert both.w.tolist() == [2.0, 1.0, 1.0, 1.0, 1.0]
    assert both.log_odds == pytest.approx(math.log(4 / 2))


@pytest.mark.parametrize(
    ("w", "words"), [([1, 1, 1, 0, 0], "The sample q .* has 0 rows"), ([1, 0, 0, 1, 1], "has 1 row ")]
)
def test_a_sample_needs_two_rows(w: list[float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TwoSamples.of(np.eye(5), np.arange(5) < 3, np.array(w, float))


def test_part_by_mask_and_by_position() -> None:
    both = samples()
    mask = np.arange(15) % 2 == 0
    part = both.part(mask)
    np.testing.assert_array_equal(part.X, both.X[mask])
    np.testing.assert_array_equal(part.y, both.y[mask])
    np.testing.assert_array_equal(both.part(np.flatnonzero(mask)).X, part.X)
    assert part.log_odds == pytest.approx(math.log(part.n_p / part.n_q))


def test_several_maps_give_groups_that_belong_to_one_row() -> None:
    both = samples()
    tripled = both.mapped(lambda X: X, lambda X: X + 10, lambda X: X + 20)
    assert (tripled.n_p, tripled.n_q, tripled.n_least) == (18, 27, 6)
    assert tripled.groups is not None
    for group in np.unique(tripled.groups):
        rows = tripled.X[tripled.groups == group]
        np.testing.assert_allclose(rows - rows[0], np.repeat([[0.0], [10.0], [20.0]], 2, axis=1))
    np.testing.assert_array_equal(tripled.first_of_groups().X, both.X)
    assert tripled.reordered(repeat=True) is tripled  # rows in groups are in order already


def test_effective_rows_of_each_sample_by_its_own_weights() -> None:
    both = samples(6, 900)
    assert both.n_effective == pytest.approx(6)
    w = np.concatenate([np.ones(6), np.where(np.arange(900) < 90, 1.0, 1e-9)])  # as good as 90 rows of q
    assert replace(both, w=w).n_effective == pytest.approx(6)  # those of p stay the fewest
    w = np.concatenate([[3.0, 1.0, 1.0, 1.0, 1.0, 1.0], np.ones(900)])
    assert replace(both, w=7 * w).n_effective == pytest.approx(8**2 / 14)
    doubled = both.mapped(lambda X: X, lambda X: X)
    assert doubled.n_effective == pytest.approx(6)


def test_moments_count_both_samples_one_half() -> None:
    both = samples(6, 900)
    share = np.concatenate([np.full(6, 1 / 12), np.full(900, 1 / 1800)])
    for ours, theirs in zip(both.moments(), weighted_moments(both.X, share), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    standard = both.standardized(*both.moments())
    np.testing.assert_allclose(share @ standard.X, 0, atol=1e-12)
    np.testing.assert_allclose(share @ standard.X**2, 1, rtol=1e-12)


def test_order_of_rows_does_not_matter_after_reordering() -> None:
    both = samples()
    order = np.concatenate([np.arange(6)[::-1], 6 + np.arange(9)[::-1]])
    other = TwoSamples(both.X[order], both.n_p, both.w, both.log_odds)
    np.testing.assert_array_equal(both.reordered(repeat=False).X, other.reordered(repeat=False).X)


def test_integer_weights_are_repetitions() -> None:
    X = np.arange(5.0)[:, None]
    both = TwoSamples.of(X, np.arange(5) < 2, np.array([1.0, 3.0, 2.0, 1.0, 1.0])).reordered(repeat=True)
    assert sorted(both.X_p.ravel()) == [0.0, 1.0, 1.0, 1.0]
    assert sorted(both.X_q.ravel()) == [2.0, 2.0, 3.0, 4.0]
    assert (both.w == 1).all()


def test_mixed_tables_are_encoded_once_and_matched_by_name() -> None:
    P = pl.DataFrame({"job": ["clerk", "nurse", None, "clerk"], "age": [31, 45, 28, 50]})
    Q = pl.DataFrame({"age": [22, 61, 39], "job": ["nurse", "nurse", "clerk"]})
    both = two_samples(P, Q)
    assert both.encoder is not None
    assert list(both.names or ()) == both.encoder.names_
    np.testing.assert_array_equal(both.X_q, both.encoder.transform(Q))
    with pytest.raises(ValueError, match="'job' only in `X_real`"):
        two_samples(P, Q.drop("job"), arguments=("X_real", "X_synthetic"))


def test_numeric_input_has_no_encoder() -> None:
    both = two_samples([[1.0], [2.0]], [[3.0], [4.0]], sample_weight_q=[1, 2])
    assert both.encoder is None
    assert both.w.tolist() == [1, 1, 1, 2]
    with pytest.raises(ValueError, match=r"`sample_weight_p` has shape \(3,\)"):
        two_samples([[1.0], [2.0]], [[3.0], [4.0]], sample_weight_p=[1, 2, 3])
