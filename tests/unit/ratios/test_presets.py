from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from flowratio.ratios.presets import NewtonLogisticRegression, newton


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
