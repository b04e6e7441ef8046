"""A convex combination of log-ratios is what its name says."""

from __future__ import annotations

import numpy as np
import pytest

from flowratio import AutoRatio, ClassifierRatio, ConvexRatio

RNG = np.random.default_rng(0)
X_P, X_Q = RNG.normal(0.5, 0.9, (200, 2)), RNG.normal(0, 1, (300, 2))


def test_it_is_the_combination() -> None:
    parts = [ClassifierRatio(name).fit_samples(X_P, X_Q).log_ratio(X_Q) for name in ("logistic", "qda")]
    equal = ConvexRatio(["logistic", ClassifierRatio("qda")]).fit_samples(X_P, X_Q)
    np.testing.assert_allclose(equal.log_ratio(X_Q), (parts[0] + parts[1]) / 2, rtol=0, atol=1e-9)
    shrunk = ConvexRatio(["logistic", "qda"], [0.5, 0.2]).fit_samples(X_P, X_Q)
    np.testing.assert_allclose(shrunk.log_ratio(X_Q), 0.5 * parts[0] + 0.2 * parts[1], rtol=0, atol=1e-9)


def test_the_selection_can_be_fitted_again() -> None:
    auto = AutoRatio(["logistic", "qda"], random_state=0).fit_samples(X_P, X_Q)
    selection = auto.selection()
    assert list(selection.shares or []) == auto.shares_.tolist()
    whole = selection.fit_samples(X_P, X_Q)
    # folds of 4/5 of the rows, and all of them
    assert np.corrcoef(whole.log_ratio(X_Q), auto.log_ratio(X_Q))[0, 1] > 0.99


def test_the_selection_may_be_empty() -> None:
    X = np.random.default_rng(0).normal(size=(400, 2))
    auto = AutoRatio(["logistic"], random_state=0).fit(X, np.repeat([1, 0], 200))
    assert auto.names_ == []
    assert "r = 1" in auto.results_.verdict
    assert not auto.selection().fit(X, np.repeat([1, 0], 200)).log_ratio(X).any()


@pytest.mark.parametrize("shares", [[0.5], [0.9, 0.2], [-0.1, 0.5], [np.nan, 0.5], ["a", 0.5]])
def test_bad_shares(shares: list[float]) -> None:
    with pytest.raises(ValueError, match=r"`shares` is .*\. Use one number from 0 to 1 for each of the 2 ratios"):
        ConvexRatio(["logistic", "qda"], shares).fit_samples(X_P, X_Q)


def test_bad_ratios() -> None:
    with pytest.raises(ValueError, match=r"`ratios` is 'logistic'. Use a list"):
        ConvexRatio("logistic").fit_samples(X_P, X_Q)
    with pytest.raises(ValueError, match=r"`ratios` is 'logstic'. Did you mean 'logistic'"):
        ConvexRatio(["logstic"]).fit_samples(X_P, X_Q)
