from __future__ import annotations

import numpy as np
import pytest

from flowratio_paper.verdicts import Answer, Gain, beyond, every, of_runs


@pytest.mark.parametrize(
    ("differences", "answer"),
    [
        ([1.0, 1.1, 0.9], Answer.YES),
        ([-1.0, -1.1, -0.9], Answer.NO),
        ([1.0, -0.5, 0.2], Answer.INCONCLUSIVE),
        ([5.0], Answer.INCONCLUSIVE),
    ],
)
def test_beyond_two_standard_errors(differences: list[float], answer: Answer) -> None:
    assert beyond(np.array(differences)) is answer


def test_one_run_is_no_mean() -> None:
    assert of_runs(1) == "one run"
    assert of_runs(1, "trial") == "one trial"
    assert of_runs(30, "trial") == "mean ± standard error of 30 trials"


def test_a_gain_within_its_error_or_of_one_run_is_inconclusive() -> None:
    assert Gain(np.array([0.1, 0.1]), of_draws=0.04).verdict is Answer.YES
    assert Gain(np.array([-0.1, -0.1]), of_draws=0.04).verdict is Answer.NO
    assert Gain(np.array([0.1, 0.1]), of_draws=0.06).verdict is Answer.INCONCLUSIVE
    assert (
        Gain(np.array([0.3, 0.08]), of_draws=0.01).verdict is Answer.INCONCLUSIVE
    )  # .19, and an error of .11 over runs
    assert Gain(np.array([0.5]), of_draws=0.01).verdict is Answer.INCONCLUSIVE
    assert str(Gain(np.array([0.3, 0.08]), of_draws=0.01)) == "+0.190 ± 0.110"


def test_what_all_runs_share_comes_on_top_of_their_spread() -> None:
    runs = np.array([0.07, 0.13])  # .1 ± .03
    assert Gain(runs).verdict is Answer.YES
    assert Gain(runs, shared=0.0399).verdict is Answer.YES  # hypot(.03, .04) = .05
    assert Gain(runs, shared=0.0401).verdict is Answer.INCONCLUSIVE
    assert str(Gain(runs, of_draws=0.03, shared=0.04)) == "+0.100 ± 0.050"
    assert str(Gain(runs[:1], shared=0.04)) == "+0.070 ± 0.040, one run"


def test_every_is_no_if_one_is_no_and_yes_if_all_are() -> None:
    yes, no, inconclusive = Answer
    assert every([yes, inconclusive, no]) is no
    assert every([yes, inconclusive]) is inconclusive
    assert every([yes, yes]) is yes


def test_the_opposite_claim_has_the_opposite_answer() -> None:
    yes, no, inconclusive = Answer
    assert [one.opposite for one in Answer] == [no, yes, inconclusive]
    assert (Answer.of(True), Answer.of(False)) == (yes, no)
    assert [f"{one}" for one in Answer] == ["yes", "no", "inconclusive"]
