from __future__ import annotations

import numpy as np
import pytest

from flowratio_paper.verdicts import Gain, beyond, of_runs


@pytest.mark.parametrize(
    ("differences", "found"),
    [([1.0, 1.1, 0.9], True), ([-1.0, -1.1, -0.9], False), ([1.0, -0.5, 0.2], None), ([5.0], None)],
)
def test_beyond_two_standard_errors(differences: list[float], found: bool | None) -> None:
    assert beyond(np.array(differences)) is found


def test_one_run_is_no_mean() -> None:
    assert of_runs(1) == "one run"
    assert of_runs(1, "trial") == "one trial"
    assert of_runs(30, "trial") == "mean ± standard error of 30 trials"


def test_a_gain_within_its_error_or_of_one_run_tells_nothing() -> None:
    assert Gain(np.array([0.1, 0.1]), of_draws=0.04).holds is True
    assert Gain(np.array([-0.1, -0.1]), of_draws=0.04).holds is False
    assert Gain(np.array([0.1, 0.1]), of_draws=0.06).holds is None
    assert Gain(np.array([0.3, 0.08]), of_draws=0.01).holds is None  # .19, and an error of .11 over runs
    assert Gain(np.array([0.5]), of_draws=0.01).holds is None
    assert str(Gain(np.array([0.3, 0.08]), of_draws=0.01)) == "+0.190 ± 0.110"


def test_what_all_runs_share_comes_on_top_of_their_spread() -> None:
    runs = np.array([0.07, 0.13])  # .1 ± .03
    assert Gain(runs).holds is True
    assert Gain(runs, shared=0.0399).holds is True  # hypot(.03, .04) = .05
    assert Gain(runs, shared=0.0401).holds is None
    assert str(Gain(runs, of_draws=0.03, shared=0.04)) == "+0.100 ± 0.050"
    assert str(Gain(runs[:1], shared=0.04)) == "+0.070 ± 0.040, one run"
