"""A permutation test: exact under the null, never 0, and it names the columns that drive a difference."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest

from flowratio import ClassifierRatio, RatioEstimator
from flowratio.applications.testing import two_sample_test


def test_p_values_are_uniform_under_the_null() -> None:
    found = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X_p, X_q = rng.standard_t(4, (30, 2)), rng.standard_t(4, (40, 2))
        found.append(two_sample_test(X_p, X_q, "logistic", n_permutations=39, random_state=seed).p_value)
    # multiples of 1/40: spread evenly below each of them they are uniform
    spread = np.array(found) - np.random.default_rng(0).uniform(0, 1 / 40, 200)
    assert kstest(spread, "uniform").pvalue > 0.001


@pytest.mark.parametrize("ratio", ["logistic", "lda", "qda", "boosting", ClassifierRatio("logistic")])
def test_a_shift_is_noticed_and_named(ratio: str | RatioEstimator) -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(size=(150, 4)), rng.normal(size=(200, 4))
    X_p[:, 2] += 1.5
    columns = ["a", "b", "shifted", "d"]
    found = two_sample_test(
        pd.DataFrame(X_p, columns=columns), pd.DataFrame(X_q, columns=columns), ratio, n_permutations=19, random_state=0
    )
    assert found.p_value == 1 / 20
    assert found.drivers.names[0] == "shifted"
    assert found.drivers.share[0] > 0.8
    assert "shifted" in str(found)


def test_a_change_of_correlation_is_noticed_by_qda_only() -> None:
    rng = np.random.default_rng(0)
    X_q = rng.normal(size=(400, 2))
    X_p = rng.normal(size=(400, 2)) @ np.linalg.cholesky([[1, 0.7], [0.7, 1]]).T
    assert two_sample_test(X_p, X_q, "qda", n_permutations=39, random_state=0).p_value == 1 / 40
    assert two_sample_test(X_p, X_q, "logistic", n_permutations=39, random_state=0).p_value > 0.05


def test_identical_samples_are_not_rejected() -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    assert two_sample_test(X, X, n_permutations=19, random_state=0).p_value > 0.05


def test_a_column_that_is_constant_and_one_that_tells_all() -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = np.ones((50, 3)), np.ones((50, 3))
    X_p[:, 1], X_q[:, 1] = rng.normal(size=50), rng.normal(size=50) + 100
    found = two_sample_test(X_p, X_q, n_permutations=19, random_state=0)
    assert found.p_value == 1 / 20
    assert found.drivers.names[0] == "x2"
    assert np.isfinite(found.statistic)


def test_the_statistic_is_the_score_of_rows_not_seen() -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(1, 1, (20_000, 1)), rng.normal(0, 1, (20_000, 1))
    found = two_sample_test(X_p, X_q, "logistic", n_permutations=1, random_state=0)
    assert found.statistic == pytest.approx(0.1112, abs=0.005)  # Jensen–Shannon; its standard error is 0.002


def test_same_seed_same_numbers() -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(size=(50, 2)), rng.normal(size=(60, 2))
    one, two = (two_sample_test(X_p, X_q, n_permutations=9, random_state=3) for _ in range(2))
    assert one.p_value == two.p_value
    np.testing.assert_array_equal(one.null, two.null)
    np.testing.assert_array_equal(one.drivers.effect, two.drivers.effect)


def test_progress_is_shown_if_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(size=(20, 2)), rng.normal(size=(20, 2))
    two_sample_test(X_p, X_q, n_permutations=5, random_state=0)
    assert capsys.readouterr() == ("", "")
    two_sample_test(X_p, X_q, n_permutations=5, random_state=0, verbose=True)
    assert "permutations" in capsys.readouterr().err


def test_bad_input() -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match="`n_permutations` is 0: give a whole number of 1 or more"):
        two_sample_test(X, X, n_permutations=0)
    with pytest.raises(ValueError, match="`X_p` has 2 columns but `X_q` has 1"):
        two_sample_test(X, X[:, :1])
    with pytest.raises(ValueError, match="smaller sample has 3 rows"):
        two_sample_test(X, X[:3])
    with pytest.raises(ValueError, match="`ratio` is 'qdaa'"):
        two_sample_test(X, X, "qdaa")
    with pytest.raises(ValueError, match="40 missing or infinite values"):
        two_sample_test(np.full((20, 2), np.nan), X)
