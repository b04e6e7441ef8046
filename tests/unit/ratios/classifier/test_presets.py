from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import log_expit
from sklearn.linear_model import LogisticRegression

from flowratio import ClassifierRatio
from flowratio.ratios.classifier import presets
from flowratio.ratios.classifier.presets import Hinges, NewtonLogisticRegression, TunedLogisticRegression, newton


def test_newton_finds_the_optimum_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(5000, 3)), rng.exponential(size=5000)  # more rows than fit at a time
    y = (X[:, 0] + rng.logistic(size=5000) > 0.5).astype(int)
    ours = NewtonLogisticRegression(2.0).fit(X, y, w)
    theirs = LogisticRegression(C=2.0, tol=1e-10, solver="newton-cholesky").fit(X, y, w)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-7)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-7)


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e6])
def test_newton_converges_where_a_line_parts_the_samples(C: float) -> None:
    X = np.array([[-3.0], [-1.0], [1.0], [50.0]])
    penalty = np.array([1 / C, 0.0])
    y, w = np.array([0.0, 0.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.0, 1000.0])
    theta = newton(X, y, w, penalty)
    p = 1 / (1 + np.exp(-(X[:, 0] * theta[0] + theta[1])))
    gradient = np.array([w @ ((p - y) * X[:, 0]) + theta[0] / C, w @ (p - y)])
    np.testing.assert_allclose(gradient, 0, atol=1e-7)


# The penalty that the rows choose


def two_samples(n: int, d: int, shift: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows that differ in the first column, those of p first, and labels."""
    X, y = np.random.default_rng(seed).normal(size=(2 * n, d)), np.repeat([1, 0], n)
    X[:n, 0] += shift
    return X, y


def test_tuned_is_newton_with_the_penalty_that_was_chosen() -> None:
    X, y = two_samples(60, 20, 1.0, 0)
    w = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    tuned = TunedLogisticRegression().fit(X, y, w)
    plain = NewtonLogisticRegression(tuned.C_).fit(X, y, w)
    np.testing.assert_allclose(tuned.decision_function(X), plain.decision_function(X), rtol=0, atol=1e-10)


def test_tuned_holds_back_where_columns_are_many() -> None:
    def loss(model: NewtonLogisticRegression, seed: int) -> float:
        X, y = two_samples(1000, 40, 1.0, seed + 100)
        return -float(log_expit(np.where(y == 1, 1, -1) * model.decision_function(X)).mean())

    gains = []
    for seed in range(10):
        rows = two_samples(40, 40, 1.0, seed)  # 40 columns for 80 rows: a plane parts them by chance
        gains.append(
            loss(NewtonLogisticRegression(10.0).fit(*rows), seed) - loss(TunedLogisticRegression().fit(*rows), seed)
        )
    # r = 1 has a loss of log 2; rows that are parted are told by a margin of several nats, right or wrong
    assert np.mean(gains) > 0.5
    assert min(gains) > -0.05


def test_tuned_bears_a_handful_of_rows() -> None:
    for n_p, n_q in ((1, 1), (1, 2), (2, 3), (1, 7), (7, 1)):
        X, y = np.arange(n_p + n_q, dtype=float)[:, None], np.repeat([1, 0], [n_p, n_q])
        assert np.isfinite(TunedLogisticRegression().fit(X, y).decision_function(X)).all()


# Curves of columns


def test_hinges_are_smooth_with_straight_tails() -> None:
    X = np.random.default_rng(0).normal(size=(500, 2))
    hinges = Hinges().fit(X)
    k = len(hinges.knots_)
    x = np.linspace(-1e4, 1e4, 2001)
    out = hinges.transform(np.column_stack([x, x]))
    assert out.shape == (2001, 2 * (k + 1))
    np.testing.assert_array_equal(out[:, :2], np.column_stack([x, x]))
    bends = np.diff(out[:, 2:], 2, axis=0)
    far = np.abs(x[1:-1]) > 1000
    np.testing.assert_allclose(bends[far], 0, atol=1e-4)  # √(x² + δ²) - |x| = δ²/2x, of δ < 1
    np.testing.assert_allclose(bends.sum(axis=0), 2 * 10, rtol=1e-3)  # the slope goes from -1 to 1, x by steps of 10
    step = 1e-4
    x = np.linspace(-3, 3, 601)
    slopes = (
        hinges.transform(np.column_stack([x + step, x])) - hinges.transform(np.column_stack([x - step, x]))
    ) / step
    slopes = slopes[:, 2::2] / 2  # of the hinges of the first column, (601, k)
    # no corner: the slope of a hinge of half-width δ turns by at most dx/δ
    assert (np.abs(np.diff(slopes, axis=0)) < 0.01 / hinges.widths_[:, 0] + 1e-6).all()


def test_hinges_of_a_column_do_not_hang_on_others() -> None:
    X = np.random.default_rng(0).normal(size=(100, 2))
    other = np.column_stack([X[:, 0], 5 * X[:, 1] ** 3])
    np.testing.assert_array_equal(Hinges().fit_transform(X)[:, ::2], Hinges().fit_transform(other)[:, ::2])


def test_hinges_of_columns_with_few_values() -> None:
    X = np.column_stack([np.zeros(50), np.arange(50) % 2, np.arange(50.0)])
    assert np.isfinite(Hinges().fit_transform(X)).all()


def test_additive_finds_curves_that_a_line_does_not() -> None:
    rng = np.random.default_rng(0)
    n, shape_p, shape_q = 2000, np.array([3.0, 2.0]), np.array([2.0, 4.0])
    X_p, X_q = rng.gamma(shape_p, size=(n, 2)), rng.gamma(shape_q, size=(n, 2))
    X = np.concatenate([rng.gamma(shape_p, size=(n, 2)), rng.gamma(shape_q, size=(n, 2))])
    log_r = np.log(X) @ (shape_p - shape_q) + np.log([1 / 2, 6.0]).sum()  # Γ(2)/Γ(3), Γ(4)/Γ(2)
    errors = {
        name: np.mean((ClassifierRatio(name).fit_samples(X_p, X_q).log_ratio(X) - log_r) ** 2)
        for name in ("additive", "logistic")
    }
    # log r has a mean square of 2.6; 15 parameters cost 2 · 15/2000 = 0.015 where p and q are close, and a few times as
    # much here; log x bends away from any straight tail at 0
    assert errors["additive"] < 0.15
    assert errors["additive"] < errors["logistic"] / 2


def test_additive_knows_no_products() -> None:
    rng = np.random.default_rng(0)
    X_q = rng.normal(size=(2000, 2))
    X_p = rng.normal(size=(2000, 2)) @ np.linalg.cholesky([[1.0, 0.8], [0.8, 1.0]]).T
    # both columns are standard normal in both samples: only a product tells them apart
    assert np.std(ClassifierRatio("additive").fit_samples(X_p, X_q).log_ratio(X_q)) < 0.3
    assert np.std(ClassifierRatio("quadratic").fit_samples(X_p, X_q).log_ratio(X_q)) > 1
    assert np.std(ClassifierRatio("qda").fit_samples(X_p, X_q).log_ratio(X_q)) > 1


def test_knots_that_are_the_same_count_once() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=400), rng.random(400) < 0.3, np.maximum(rng.normal(size=400), 0)])
    hinges = Hinges().fit(X)
    # seven knots; none of a column of two values; of the last, half of which is 0, those above it and one at 0
    assert hinges.used_.sum(axis=0).tolist() == [7, 0, 4]
    F = hinges.transform(X)
    assert F.shape == (400, 3 + 11)
    assert np.linalg.matrix_rank(F) == 14


# Many columns


def test_more_columns_than_rows_have_the_optimum_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presets, "NEWTON_COLUMNS", 64)
    X, y = two_samples(30, 200, 1.0, 0)  # 60 rows: as many unknowns
    X[1] = X[0]  # the rows do not span 60 dimensions
    w = np.random.default_rng(1).exponential(size=60)
    ours = NewtonLogisticRegression(0.5).fit(X, y, w)
    theirs = LogisticRegression(C=0.5, tol=1e-10, max_iter=10_000).fit(X, y, w)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=0, atol=1e-6)


def correlated(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of p, whose columns 3 and 7 have a correlation of 0.8, then rows of q, and labels."""
    X, y = two_samples(n, d, 0.0, seed)
    X[:n, 7] = 0.8 * X[:n, 3] + 0.6 * X[:n, 7]
    return X, y


def test_products_of_many_columns_are_chosen() -> None:
    X, y = correlated(2000, 60, 0)
    products = presets.Products(1000).fit(X, y)
    squares = {(k, k) for k in range(60)}
    pairs = {tuple(pair) for pair in products.pairs_.T.tolist()}
    assert squares | {(3, 7)} <= pairs
    assert len(pairs) < 60 + 1 + 5  # of 1770 products, noise exceeds the limit of 3.9 standard errors in 0.2 on average
    features = products.transform(X[:5])
    np.testing.assert_array_equal(features[:, :60], X[:5])
    for k, (a, b) in enumerate(products.pairs_.T):
        np.testing.assert_array_equal(features[:, 60 + k], X[:5, a] * X[:5, b])
    assert len(presets.Products(10).fit(X, y).pairs_.T) == 10


def test_quadratic_of_many_columns_learns_a_product_among_thousands() -> None:
    ratio = ClassifierRatio("quadratic").fit(*correlated(2000, 60, 0))
    X, y = correlated(2000, 60, 1)
    u, v = X[:, 3], X[:, 7]
    truth = 0.5 * (u**2 + v**2 - (u**2 - 1.6 * u * v + v**2) / 0.36) - 0.5 * math.log(0.36)
    best = math.log(2) + log_expit(np.where(y == 1, truth, -truth)).mean()  # 0.13
    # about 120 coefficients that are noise cost 120/8000 = 0.015 nats
    assert best - 0.04 < ratio.score(X, y) < best


def test_quadratic_of_too_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presets, "_MAX_VALUES", 3000)
    X = np.random.default_rng(0).normal(size=(300, 4))  # 14 columns and products need 4200 values
    ratio = ClassifierRatio("quadratic").fit_samples(X[:150], X[150:])
    assert len(ratio.classifier_[0].pairs_.T) <= 6
    X = np.random.default_rng(0).normal(size=(600, 4))
    with pytest.raises(ValueError, match="'quadratic' with 600 rows of 4 columns, which need too much memory"):
        ClassifierRatio("quadratic").fit_samples(X[:300], X[300:])


def test_many_columns_have_fewer_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(100, 3))
    assert Hinges().fit_transform(X).shape == (100, 3 * 8)
    monkeypatch.setattr(presets, "_MANY_COLUMNS", 2)
    assert Hinges().fit_transform(X).shape == (100, 3 * 3)
