from __future__ import annotations

import numpy as np
import pytest

from flowratio_paper.raw_network import RawNetwork


def _samples(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(0.5, 1.0, (n, 2)), rng.normal(-0.5, 1.0, (n, 2))


def test_log_ratio_is_that_of_two_gaussians() -> None:
    X_p, X_q = _samples(4000)
    ratio = RawNetwork(30, 256, 2e-3, 1e-3, 1 / 9, random_state=0).fit_samples(X_p, X_q)
    rows = np.random.default_rng(1).normal(size=(2000, 2))
    # log r = x1 + x2; a linear fit to 4000 rows each is off by sqrt(3 / 4000) = .03, a network by a few times that
    assert np.sqrt(np.mean((ratio.log_ratio(rows) - rows.sum(axis=1)) ** 2)) < 0.3
    assert ratio.history_.best_epoch in ratio.history_.epoch


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_are_not_standardized() -> None:
    X_p, X_q = _samples(200)
    ratios = [
        RawNetwork(1, 64, 1e-9, 0.0, 1 / 9, random_state=0).fit_samples(scale * X_p, scale * X_q) for scale in (1, 100)
    ]
    # the first weights have hardly moved: the same network in both units
    assert ratios[0].log_ratio(X_p) == pytest.approx(ratios[1].log_ratio(X_p), abs=1e-4)
