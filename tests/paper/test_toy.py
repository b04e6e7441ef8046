from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from flowratio import History
from flowratio_paper.running import Outcome
from flowratio_paper.toy import PRESETS, by_held_out_loss, errors, report, strategies, tasks, values
from flowratio_paper.toy_fits import (
    AUTO,
    DISCRIMINATIVE,
    LOGISTIC_X,
    LOGISTIC_Z,
    RAW,
    SEPARATE,
    Settings,
    X,
    _of_training,
    draw_samples,
    draw_test,
    fits,
    joint,
    joint_scaled,
    log_ratio,
    new_flow,
)
from flowratio_paper.verdicts import Answer

SETTINGS = Settings(2, penalties=(0.0, 5e-4), alphas=(0.1, 0.9))
# errors on all rows, without a penalty and with one
KNOWN = {
    RAW: (2.5, 9.5),
    X: (2.0, 8.0),
    SEPARATE: (3.0, 0.4),
    "joint 0.1": (4.0, 0.6),
    "joint 0.9": (5.0, 7.0),
    DISCRIMINATIVE: (9.0, 9.0),
}


def _fit(method: str, penalty: float | None, error: float, held_out: float) -> dict[str, Any]:
    numbers = {"all": error, "near": error / 4, "near_absolute": error / 5, "held_out": held_out}
    return {"method": method, "penalty": penalty, **numbers}


def _outcomes(changes: dict[str, tuple[float, float]] | None = None) -> list[Outcome]:
    """Return results in which held-out rows choose no penalty in x, and the penalty elsewhere."""
    outcomes = []
    for task in tasks(SETTINGS):
        part, sign = task["part"], (-1) ** task["seed"]
        plain = {X: (LOGISTIC_X, 0.003), SEPARATE: (LOGISTIC_Z, 100.0), AUTO: (AUTO, 0.004)}
        fits = [_fit(plain[part][0], None, plain[part][1], 0.0)] if part in plain else []
        if part != AUTO:
            for k, error in enumerate((KNOWN | (changes or {}))[part]):
                held_out = 0.05 + 0.01 * (k if part in (RAW, X) else -k)
                fits.append(_fit(part, SETTINGS.penalties[k], error + 0.005 * sign, held_out))
        outcomes.append(Outcome(task, {"fits": fits, "points": {}}, 1.0))
    return outcomes


def test_log_ratio_is_that_of_the_densities() -> None:
    rows = np.random.default_rng(0).normal(1.5, 2.0, (50, 2))
    zero, three = (multivariate_normal([m, m]).logpdf(rows) for m in (0.0, 3.0))
    assert log_ratio(rows) == pytest.approx(zero - three, abs=1e-9)


def test_p_comes_first_and_test_rows_are_fresh() -> None:
    X_p, X_q = draw_samples(4000, np.random.default_rng([0, 2, 0]))
    assert log_ratio(X_p).mean() == pytest.approx(9, abs=0.3)  # standard error sqrt(18 / 4000) = .07
    assert log_ratio(X_q).mean() == pytest.approx(-9, abs=0.3)
    test = draw_test(0)
    assert test.shape == (10_000, 2)
    assert log_ratio(test[:5000]).mean() == pytest.approx(9, abs=0.3)
    assert not np.isin(X_p[:, 0], test[:, 0]).any()
    assert np.array_equal(test, draw_test(0))
    assert not np.array_equal(test, draw_test(1))


def test_errors_by_region() -> None:
    truth = np.array([-12.0, -4.0, 0.0, 4.0, 5.0])
    difference = np.array([3.0, 1.0, -1.0, 2.0, 0.0])
    assert errors(truth + difference, truth) == {"all": 3.0, "near": 2.0, "near_absolute": 4 / 3}


def test_the_paper_preset_has_the_tables_of_the_paper() -> None:
    settings = PRESETS["paper"]
    assert (settings.epochs, settings.learning_rate, settings.paper_penalty) == (100, 2e-4, 5e-4)
    assert settings.paper_penalty in settings.penalties
    recipe = new_flow(settings, 0).recipe_for(80_000, 2)
    assert (recipe.max_epochs, recipe.batch_size, recipe.learning_rate) == (100, 100, 1e-4)
    assert (recipe.optimizer, recipe.weight_decay) == ("adam", 1e-6)


@pytest.mark.parametrize("settings", PRESETS.values(), ids=PRESETS)
def test_every_network_has_a_task_for_each_seed(settings: Settings) -> None:
    actual = [json.dumps(task) for task in tasks(settings)]
    assert len(set(actual)) == len(actual) == settings.seeds * (len(settings.alphas) + 5)
    assert 0.0 in settings.penalties
    assert settings.paper_penalty in settings.penalties


def test_held_out_rows_choose_the_penalty() -> None:
    outcomes = _outcomes()
    assert by_held_out_loss(outcomes, X)[1] == [0.0, 0.0]
    assert by_held_out_loss(outcomes, SEPARATE)[1] == [5e-4, 5e-4]
    np.testing.assert_allclose(by_held_out_loss(outcomes, SEPARATE)[0], [0.405, 0.395])
    np.testing.assert_allclose(values(outcomes, X, 5e-4, "all"), [8.005, 7.995])


def test_tables_and_verdicts() -> None:
    reported = report(SETTINGS, _outcomes())
    first, near, plain = reported.tables
    assert [line[0] for line in first.lines] == strategies(SETTINGS)
    assert first.lines[1][1:] == ["2 ± 0.005 [1.75]", "8 ± 0.005 [7.7]", "2 ± 0.005 (λ: 0, 0)"]
    assert near.lines[1][1] == "0.5 ± 0.0012 / 0.4 ± 0.001"
    assert plain.lines[0][1] == "0.003 ± 0 [0.003]"
    verdict = {claim.words: claim.verdict for claim in reported.claims}
    assert verdict["our goal: separate training has an error below 0.5, λ = 0.0005 as in the paper"] is Answer.YES
    assert verdict["our goal: AutoRatio has an error below 0.05"] is Answer.YES
    assert verdict["λ = 0: the network is better in z than in standardized x"] is Answer.NO
    assert verdict["λ = 0.0005: the network is better in z than in standardized x"] is Answer.YES
    assert verdict["λ = 0.0005: the network is better in z than in raw x"] is Answer.YES
    assert verdict["λ = 0: separate training is the best strategy"] is Answer.NO
    assert verdict["λ = 0.0005: separate training is the best strategy"] is Answer.YES
    assert verdict["λ = 0.0005: among joint trainings, the smallest α is best"] is Answer.YES
    assert (
        verdict["λ = 0: the network in raw x and discriminative training are worst"] is Answer.NO
    )  # joint ones are worse
    assert verdict["λ = 0.0005: the network in raw x and discriminative training are worst"] is Answer.YES
    assert verdict["logistic regression in x is better than the best network"] is Answer.YES
    assert verdict["logistic regression is worse in z than in x"] is Answer.YES


def test_verdicts_turn_with_the_numbers() -> None:
    reported = report(SETTINGS, _outcomes({SEPARATE: (3.0, 0.7), "joint 0.9": (1.0, 0.1)}))
    verdict = {claim.words: claim.verdict for claim in reported.claims}
    assert verdict["our goal: separate training has an error below 0.5, λ by held-out loss"] is Answer.NO
    assert verdict["λ = 0.0005: separate training is the best strategy"] is Answer.NO
    assert verdict["λ = 0.0005: among joint trainings, the smallest α is best"] is Answer.NO


def test_order_is_judged_by_run() -> None:
    # joint 0.1 and 0.9 have the same error but for chance: which is best is inconclusive
    outcomes = _outcomes({"joint 0.9": (4.0, 0.595)})
    for one in outcomes:
        if one.task["part"] == "joint 0.9":
            for fit in one.result["fits"]:
                fit["all"] += 0.005 * (-1) ** one.task["seed"]
    verdict = {claim.words: claim.verdict for claim in report(SETTINGS, outcomes).claims}
    assert verdict["λ = 0.0005: among joint trainings, the smallest α is best"] is Answer.INCONCLUSIVE
    assert verdict["λ = 0.0005: separate training is the best strategy"] is Answer.YES


def test_joint_training_with_a_penalty_that_is_scaled_by_alpha() -> None:
    outcomes = _outcomes()
    assert len(report(SETTINGS, outcomes).tables) == 3  # results without these fits
    for one in outcomes:
        for alpha in SETTINGS.alphas:
            if one.task["part"] == joint(alpha):
                error = 1.0 + alpha + 0.001 * (-1) ** one.task["seed"]
                one.result["fits"].append(_fit(joint_scaled(alpha), alpha * SETTINGS.paper_penalty, error, 0.0))
    reported = report(SETTINGS, outcomes)
    assert [line[2] for line in reported.tables[3].lines] == ["1.1 ± 0.001", "1.9 ± 0.001"]
    verdict = {claim.words: claim.verdict for claim in reported.claims}
    assert (
        verdict["not in the paper: with the penalty α λ, among joint trainings, the smallest α is best"] is Answer.YES
    )
    words = "not in the paper: joint 0.1 is better with the penalty α λ than with λ = 0.0005"
    assert verdict[words] is Answer.of(KNOWN[joint(0.1)][1] > 1.1)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_penalty_of_joint_training_is_scaled_by_alpha() -> None:
    settings = replace(PRESETS["quick"], rows=300, flow_epochs=1)
    penalties = {method: penalty for method, penalty, _, _ in fits(settings, joint(0.1), 0)}
    assert penalties == {joint(0.1): 5e-4, joint_scaled(0.1): pytest.approx(5e-5)}
    assert {method for method, *_ in fits(settings, DISCRIMINATIVE, 0)} == {DISCRIMINATIVE}


def test_one_run_is_inconclusive() -> None:
    outcomes = [one for one in _outcomes() if one.task["seed"] == 0]
    reported = report(replace(SETTINGS, seeds=1), outcomes)
    assert {claim.verdict for claim in reported.claims} == {Answer.INCONCLUSIVE}
    assert "log r: one run [" in reported.tables[0].title
    best = next(claim for claim in reported.claims if "smallest α" in claim.words)
    assert best.measured.endswith("Of 1 pairs: yes 0, no 0, inconclusive 1")


def test_the_held_out_loss_is_that_of_the_kept_epoch() -> None:
    history = History(epoch=[1, 2, 3], held_out_loss=[0.1, 0.3, 0.2], best_epoch=3)  # the first is before settling
    assert _of_training(history) == {"held_out": 0.2, "best_epoch": 3}
