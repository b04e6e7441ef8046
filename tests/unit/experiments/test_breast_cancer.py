from __future__ import annotations

import numpy as np

from flowratio.experiments.breast_cancer import split


def test_the_source_keeps_few_benign_rows_and_the_target_all() -> None:
    n = 40_000
    X = np.arange(n, dtype=float)[:, None]
    y = (np.arange(n) % 2 == 0).astype(int)
    trial = split(X, y, np.random.default_rng(0))
    assert len(trial.X_target) == 30_000
    assert np.array_equal(trial.X_test, trial.X_target)
    assert not set(trial.X_source[:, 0]) & set(trial.X_target[:, 0])
    for rows, labels in ((trial.X_source, trial.y_source), (trial.X_test, trial.y_test)):
        assert np.array_equal(labels, (rows[:, 0] % 2 == 0).astype(int))
    # of 5000 rows of each class in the rest; the standard errors are 21
    assert abs(np.sum(trial.y_source == 1) - 500) < 100
    assert abs(np.sum(trial.y_source == 0) - 4500) < 100
