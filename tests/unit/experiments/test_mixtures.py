from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from flowratio.experiments.mixtures import SHARE, draw_rows, exact_error, log_ratio


def test_rows_have_exactly_the_shares() -> None:
    X, y = draw_rows(0.01, 1000, np.random.default_rng(0))
    assert X.shape == (1000, 2)
    assert y.sum() == 10
    # standard errors .32 and .03
    assert X[y == 1].mean(axis=0) == pytest.approx([0, 0], abs=1.3)
    assert X[y == 0].mean(axis=0) == pytest.approx([3, 3], abs=0.13)


def test_log_ratio_is_that_of_the_densities() -> None:
    X = np.random.default_rng(0).normal(1.5, 3.0, (50, 2))
    zero, three = (multivariate_normal([m, m]).pdf(X) for m in (0.0, 3.0))
    target, source = 0.99 * zero + 0.01 * three, 0.01 * zero + 0.99 * three
    assert log_ratio(X) == pytest.approx(np.log(target / source), abs=1e-9)


def test_exact_weights_leave_the_error_of_the_source_on_the_target() -> None:
    X, y = draw_rows(1 - SHARE, 200_000, np.random.default_rng(0))
    zero, three = (multivariate_normal([m, m]).pdf(X) for m in (0.0, 3.0))
    predicted = SHARE * zero > (1 - SHARE) * three  # the right answer on the source
    # the standard error of a share of .148 of 200,000 rows is .0008
    assert exact_error() == pytest.approx(np.mean(predicted != (y == 1)), abs=0.004)
    assert exact_error() == pytest.approx(0.148, abs=0.001)
