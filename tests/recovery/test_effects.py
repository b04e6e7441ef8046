"""Average effects and target means with a known truth: the estimates are unbiased, and their errors are honest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flowratio import average_effect, target_mean

N_DRAWS = 40
SETTINGS: dict[str, Any] = {"ratio": "lda", "outcome_model": "linear"}


def errors(quantity: str) -> tuple[np.ndarray, int]:
    """Return estimates minus truth in standard errors, (n,), and how many intervals of 95 % miss.

    x is N(±0.4, 1) in the groups, each half of the rows, and the effect is 1 + x: 1.4 on the treated, 1 on all rows. By
    symmetry it is 1 where the groups overlap.
    """
    truth = {"att": 1.4, "ate": 1.0, "overlap": 1.0, "target mean": 0.8}[quantity]
    scores, n_missed = [], 0
    for seed in range(N_DRAWS):
        rng = np.random.default_rng([seed, 5])
        t = rng.random(300) < 0.5
        x = rng.normal(np.where(t, 0.4, -0.4), 1)
        y = 2 * x + t * (1 + x) + rng.normal(size=300)
        X = np.column_stack([x, rng.normal(size=300)])
        result: Any = (
            target_mean(X[t], X[~t], y[~t], random_state=seed, **SETTINGS)
            if quantity == "target mean"
            else average_effect(X, t, y, quantity, random_state=seed, **SETTINGS)
        )
        scores.append((result.value - truth) / result.standard_error)
        low, high = result.interval()
        n_missed += not low <= truth <= high
    return np.array(scores), n_missed


@pytest.mark.parametrize("quantity", ["att", "ate", "overlap", "target mean"])
def test_standard_errors_are_honest(quantity: str) -> None:
    scores, n_missed = errors(quantity)
    # a mean of 40 has a standard error of 0.16, a standard deviation one of 0.11
    assert abs(scores.mean()) < 4 * 0.16
    assert 1 - 4 * 0.11 < scores.std() < 1 + 4 * 0.11
    assert n_missed <= 8  # 2 expected: more than 8 in 1 of 5000 runs
