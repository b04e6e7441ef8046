from __future__ import annotations

import numpy as np
import pytest

from flowratio._support.row_counts import counts, is_whole


def test_integers_count_and_others_have_an_effective_number() -> None:
    whole, w = np.array([0.0, 3.0, 2.0]), np.array([0.5, 1.5, 0.7])
    assert is_whole(whole)
    assert counts(whole) is whole
    assert not is_whole(w)
    assert counts(w).sum() == pytest.approx(w.sum() ** 2 / (w @ w))
    np.testing.assert_allclose(counts(w), counts(1e-6 * w))
