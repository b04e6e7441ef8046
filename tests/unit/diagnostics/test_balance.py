"""Standardized differences by hand, and a classifier that can tell p from weighted q only where it should."""

from __future__ import annotations

import numpy as np
import pytest

from flowratio.diagnostics.balance import Balance, leftover, table_balance
from flowratio.diagnostics.compared_columns import Categories, ComparedColumns
from flowratio.diagnostics.scored_sample import ScoredSample


def sample(X: np.ndarray, log_r: np.ndarray) -> ScoredSample:
    return ScoredSample(X, log_r, np.full(len(X), 1 / len(X)))


def balance(p: ScoredSample, q: ScoredSample, names: list[str], inflation: float = 1.0) -> Balance:
    """Compare all columns of a matrix."""
    columns = ComparedColumns(names, np.arange(len(names)), np.arange(len(names)), [])
    return table_balance(p, q, columns, (np.arange(len(p.X)), len(p.X) + np.arange(len(q.X))), inflation)


def normal(n: int, d: int, shift: float, seed: int, power: float = 1.0) -> tuple[ScoredSample, ScoredSample]:
    """Return rows of N(shift e_1, I) and N(0, I) with their log r, times a power."""
    rng = np.random.default_rng(seed)
    X_p, X_q = rng.normal(size=(n, d)), rng.normal(size=(n, d))
    X_p[:, 0] += shift
    p, q = (sample(X, power * (shift * X[:, 0] - shift**2 / 2)) for X in (X_p, X_q))
    return p, q


def test_differences_by_hand() -> None:
    rng = np.random.default_rng(0)
    p, q = sample(rng.normal(1, 2, (30, 2)), np.zeros(30)), sample(rng.normal(0, 1, (40, 2)), rng.normal(size=40))
    differences = balance(p, q, ["a", "b"])
    scale = np.sqrt((p.X.var(axis=0) + q.X.var(axis=0)) / 2)
    w = np.exp(q.log_r)
    mean_w = np.average(q.X, axis=0, weights=w)
    np.testing.assert_allclose(differences.before, (p.X.mean(axis=0) - q.X.mean(axis=0)) / scale)
    np.testing.assert_allclose(differences.after, (p.X.mean(axis=0) - mean_w) / scale)
    np.testing.assert_allclose(differences.deviation_before, q.X.std(axis=0) / p.X.std(axis=0))
    spread = np.sqrt(np.average((q.X - mean_w) ** 2, axis=0, weights=w))
    np.testing.assert_allclose(differences.deviation_after, spread / p.X.std(axis=0))


def test_categories_are_compared_as_their_indicators_are() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(-1, 4, 900)  # -1 is a missing value
    indicators = (codes[:, None] == np.arange(4)).astype(float)
    X = np.column_stack([rng.normal(size=900), indicators])
    p, q = sample(X[:400], np.zeros(400)), sample(X[400:], rng.normal(size=500))
    by_matrix = balance(p, q, ["x", "a", "b", "c", "d"], 1.3)
    names = ["x", "t = a", "t = b", "t = c", "t = d"]
    text = Categories(1, codes, ("a", "b", "c", "d"))
    columns = ComparedColumns(names, np.array([0, 1, 1, 1, 1]), np.array([0]), [text])
    by_codes = table_balance(p, q, columns, (np.arange(400), np.arange(400, 900)), 1.3)
    assert by_codes.names == names
    for field in ("before", "after", "standard_error", "deviation_before", "deviation_after"):
        np.testing.assert_allclose(getattr(by_codes, field), getattr(by_matrix, field), atol=1e-12)
    np.testing.assert_array_equal(columns.values(X, 3), indicators[:, 2])


def test_many_categories_need_no_matrix() -> None:
    rng = np.random.default_rng(0)
    codes, n = rng.integers(0, 50_000, 20_000), 10_000
    text = Categories(0, codes, tuple(map(str, range(50_000))))
    columns = ComparedColumns(list(text.names), np.zeros(50_000, int), np.array([], int), [text])
    p, q = (sample(np.zeros((n, 0)), np.zeros(n)) for _ in range(2))
    differences = table_balance(p, q, columns, (np.arange(n), np.arange(n, 2 * n)))
    counts = np.bincount(codes[:n], minlength=50_000) - np.bincount(codes[n:], minlength=50_000)
    np.testing.assert_array_equal(np.sign(differences.before), np.sign(counts))
    assert differences.worst(3).shape == (3,)


def test_units_and_origin_of_columns_do_not_matter() -> None:
    p, q = normal(200, 3, 1.0, 0)
    units, origin = np.array([1e-6, 1.0, 1e6]), np.array([1e3, -1e5, 1e9])
    plain = balance(p, q, ["a", "b", "c"])
    other = balance(p._replace(X=p.X * units + origin), q._replace(X=q.X * units + origin), ["a", "b", "c"])
    np.testing.assert_allclose(other.after, plain.after, atol=1e-6)  # 1e-6 on 1e3 keeps seven digits
    np.testing.assert_allclose(other.standard_error, plain.standard_error, rtol=1e-6)


def test_standard_error_is_the_spread_of_the_difference_after_weighting() -> None:
    differences = [balance(*normal(300, 1, 0.6, seed), ["a"]) for seed in range(400)]
    after = np.array([one.after[0] for one in differences])
    assert np.mean([one.standard_error[0] for one in differences]) == pytest.approx(
        after.std(), rel=0.12
    )  # 3.5 % is its own
    assert after.mean() == pytest.approx(0, abs=4 * after.std() / 20 + 0.01)  # and a bias of order 1/n


def test_constant_columns_are_balanced_or_far_apart() -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(size=(20, 3)), rng.normal(size=(20, 3))
    X_p[:, 0] = X_q[:, 0] = 7.0
    X_p[:, 1], X_q[:, 1] = 1.0, 2.0
    X_p[:, 2] = 5.0
    differences = balance(sample(X_p, np.zeros(20)), sample(X_q, np.zeros(20)), ["same", "apart", "fixed in p"])
    assert differences.before[:2].tolist() == [0.0, -1e6]
    assert differences.deviation_before.tolist() == [1.0, 1.0, 1e6]
    assert np.isfinite(differences.standard_error).all()


def test_classifier_finds_nothing_after_weighting_by_the_true_ratio() -> None:
    z = np.array([leftover(*normal(500, 2, 0.7, seed), np.random.default_rng(seed)).z for seed in range(100)])
    # a standard deviation of 100 values is known to 7 %, a mean to 0.1
    assert z.mean() == pytest.approx(0, abs=0.4)
    assert z.std() == pytest.approx(1, abs=0.25)
    assert z.max() < 3.3


@pytest.mark.parametrize("power", [0.0, 0.3, -1.0])
def test_classifier_finds_what_a_wrong_ratio_leaves(power: float) -> None:
    differences = leftover(*normal(1000, 3, 1.0, 0, power), np.random.default_rng(0))
    assert differences.z > 5


def test_classifier_finds_a_difference_of_variances() -> None:
    rng = np.random.default_rng(0)
    p, q = sample(rng.normal(0, 2, (600, 2)), np.zeros(600)), sample(rng.normal(size=(600, 2)), np.zeros(600))
    assert leftover(p, q, rng).auc > 0.7


def test_many_rows_and_columns_are_thinned_out() -> None:
    rng = np.random.default_rng(0)
    p = sample(rng.normal([0.5, 0.0], 1, (12_000, 2)), np.zeros(12_000))
    q = sample(rng.normal(size=(11_000, 2)), np.zeros(11_000))
    differences = leftover(p, q, np.random.default_rng(0))
    # Φ(0.5 / √2), with an error of 10 000 rows
    assert differences.auc == pytest.approx(0.638, abs=4 * differences.standard_error)
    assert differences.standard_error == pytest.approx(0.0039 * np.sqrt(2), rel=0.1)
    wide = sample(rng.normal(size=(60, 300)), np.zeros(60)), sample(rng.normal(size=(60, 300)), np.zeros(60))
    assert abs(leftover(*wide, np.random.default_rng(0)).z) < 4


def test_two_rows_and_one_weight_give_finite_numbers() -> None:
    X = np.array([[0.0], [1.0]])
    p, q = sample(X, np.array([800.0, -800.0])), sample(X, np.array([800.0, -800.0]))
    differences = leftover(p, q, np.random.default_rng(0))
    assert np.isfinite([differences.auc, differences.standard_error, differences.z]).all()
    assert np.isfinite(balance(p, q, ["a"]).after).all()


def test_standard_error_with_weights_in_both_samples() -> None:
    """Of 400 draws the ratio of the mean standard error to the spread has a standard error of 1/√800 = 0.035."""
    after, error = [], []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        p, q = (sample(rng.normal(size=(200, 1)), np.zeros(200)) for _ in range(2))
        p, q = (one._replace(log_r=0.3 * one.X[:, 0]) for one in (p, q))
        columns = ComparedColumns(["a"], np.arange(1), np.arange(1), [])
        one = table_balance(p, q, columns, (np.arange(200), 200 + np.arange(200)), target=p.tilted())
        after.append(one.after[0])
        error.append(one.standard_error[0])
    assert np.mean(error) / np.std(after) == pytest.approx(1, abs=0.14)


def test_a_category_without_rows_in_a_small_sample_has_an_error() -> None:
    """Of 150 rows, 4 are expected and none is there by chance with 2 %: 2 standard errors."""
    sizes = (150, 4000)
    columns = ComparedColumns(["a", "b"], np.zeros(2, int), np.zeros(0, int), [])
    codes = np.concatenate([np.zeros(150, int), (np.arange(4000) < 104).astype(int)])
    columns = columns._replace(categories=[Categories(0, codes, ("a", "b"))])
    p, q = (ScoredSample(np.zeros((n, 0)), np.zeros(n), np.full(n, 1 / n)) for n in sizes)
    balance = table_balance(p, q, columns, (np.arange(150), 150 + np.arange(4000)))
    assert abs(balance.after[1]) / balance.standard_error[1] == pytest.approx(2.0, abs=0.1)
