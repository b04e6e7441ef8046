from __future__ import annotations

import numpy as np
import pytest

from flowratio.ratios.classifier.calibration import isotonic, sigmoid


def test_isotonic_knots_are_shares_under_even_odds() -> None:
    scores, y = np.array([0.0, 0.0, 1.0, 1.0, 2.0]), np.array([0, 1, 1, 0, 1])
    w = np.array([3.0, 1.0, 2.0, 1.0, 1.0])  # p: 1, 2, 1 of 4; q: 3, 1, 0 of 4
    line = isotonic(scores, y, w)
    # nothing of q at 2, where a quarter of p is: 1/4 to 1/5, but not less than before
    np.testing.assert_allclose(line(np.array([-9.0, 0.0, 1.0, 2.0, 9.0])), np.log([1 / 3, 1 / 3, 2, 2, 2]))
    w[4] = 9.0  # now three quarters of p
    assert isotonic(scores, y, w)(np.array([2.0]))[0] == pytest.approx(np.log(9 / 12 * 5))


def test_sigmoid_finds_the_line_and_knows_no_odds() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(1, 1, 40_000), rng.normal(0, 1, 4_000)])
    line = sigmoid(10 * x + 3, np.repeat([1, 0], [40_000, 4_000]), np.ones(44_000))
    # log r = x - 1/2; the slope has an error of about 2 / sqrt(4000)
    assert 10 * line.slope == pytest.approx(1, abs=0.1)
    assert 3 * line.slope + line.intercept == pytest.approx(-0.5, abs=0.1)
    parted = sigmoid(np.array([-1.0, -2.0, 1.0, 2.0]), np.array([0, 0, 1, 1]), np.ones(4))
    assert 0 < parted.slope < 10  # labels of 3/4 and 1/4 keep it finite
