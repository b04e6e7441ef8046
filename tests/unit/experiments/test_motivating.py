from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from flowratio.experiments.motivating import exact_rows, needed_rows


@pytest.mark.parametrize("m", [0.5, 2.0, 6.0])
def test_with_so_many_rows_one_at_x_below_zero_has_the_probability_delta(m: float) -> None:
    # 1 - (1 - P)^n = δ, by P(x ≤ 0) and by the bound on it
    for n, probability in ((exact_rows(m), norm.cdf(-m)), (needed_rows(m), np.exp(-(m**2) / 2))):
        assert -np.expm1(n * np.log1p(-probability)) == pytest.approx(0.05, rel=1e-9)
    assert needed_rows(m) < exact_rows(m)
