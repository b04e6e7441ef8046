from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from flowratio import NetworkRatio
from flowratio_paper.information_runs import TELESCOPING, Weights, draw_joint, log_ratio, product, truth
from flowratio_paper.mutual_information import (
    BASELINE,
    PRESETS,
    SEPARATE,
    _claims_of_truth,
    draw,
    peak_and_end,
    report,
    selected,
    strategies,
    tasks,
)
from flowratio_paper.running import Outcome
from flowratio_paper.verdicts import Answer


def test_truth_is_not_what_the_paper_prints() -> None:
    assert truth(20, 0.9) == pytest.approx(-10 * math.log(0.19))
    assert round(truth(20, 0.9), 3) == 16.607
    assert truth(7, 0.0) == 0


def test_log_ratio_is_that_of_densities() -> None:
    rho, rows = 0.7, np.random.default_rng(0).normal(size=(50, 6))
    covariance = np.kron([[1, rho], [rho, 1]], np.eye(3))
    forms = [np.einsum("ni,ij,nj->n", rows, np.linalg.inv(one), rows) for one in (covariance, np.eye(6))]
    log_dets = [np.linalg.slogdet(one)[1] for one in (covariance, np.eye(6))]
    assert log_ratio(rows, rho) == pytest.approx((forms[1] - forms[0] + log_dets[1] - log_dets[0]) / 2)


def test_mean_and_spread_of_log_ratio() -> None:
    d, rho, n = 5, 0.9, 40_000
    log_r = log_ratio(draw_joint(n, d, rho, np.random.default_rng(0)), rho)
    spread = math.sqrt(d) * rho
    assert abs(log_r.mean() - truth(d, rho)) < 4 * spread / math.sqrt(n)
    # the standard error of a standard deviation is about spread · √((kurtosis - 1) / 4 n), and the kurtosis is below 9
    assert abs(log_r.std() - spread) < 4 * spread * math.sqrt(8 / (4 * n))


def test_product_keeps_the_marginals_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    joint = draw_joint(2000, 2, 0.9, rng)
    rows = product(joint, rng)
    assert (rows[:, :2] == joint[:, :2]).all()
    assert (np.sort(rows[:, 2:], axis=0) == np.sort(joint[:, 2:], axis=0)).all()
    assert abs(np.corrcoef(rows[:, 0], rows[:, 2])[0, 1]) < 4 / math.sqrt(2000)


def test_the_paper_is_run_by_its_settings() -> None:
    paper = PRESETS["paper"]
    assert strategies(paper) == ["baseline", "separate", "joint .1", "joint .5", "joint .9", "discriminative"]
    assert (paper.rows, paper.held_out_rows, paper.epochs, paper.flow_epochs) == (80_000, 10_000, 200, 200)
    assert (paper.hidden, paper.penalties) == ((200, 200, 200), (5e-4,))
    keys = [tuple(task.items()) for task in tasks(paper)]
    assert len(set(keys)) == len(keys)
    assert sum(task["part"] == "strategy" for task in tasks(paper)) == 10 * 6


def test_curve_of_weights_ends_with_those_that_were_kept() -> None:
    X_p, X_q = np.random.default_rng(0).normal([[[0.5]], [[0.0]]], size=(2, 300, 1))
    weights = Weights()
    ratio = NetworkRatio(
        "mlp",
        max_epochs=60,
        patience=60,
        random_state=0,
        callback=lambda model, epoch: weights.record(model, epoch),
    ).fit_samples(X_p, X_q)
    before, history = ratio.log_ratio(X_p), ratio.history_
    assert history is not None
    assert list(weights.states) == history.epoch
    actual = weights.curve(ratio.network_, history.best_epoch, lambda: float(ratio.log_ratio(X_p).mean()))
    assert (ratio.log_ratio(X_p) == before).all()
    assert actual["epochs"] == sorted(actual["epochs"])
    assert {history.epoch[0], history.best_epoch, history.epoch[-1]} <= set(actual["epochs"])
    assert actual["curve"][actual["epochs"].index(history.best_epoch)] == pytest.approx(before.mean(), abs=1e-5)
    assert len(set(actual["curve"])) > 1


def test_weights_are_copies() -> None:
    layer, weights = torch.nn.Linear(1, 1), Weights()
    weights.record(layer, 1)
    with torch.no_grad():
        layer.weight += 1
    weights.record(layer, 2)
    assert weights.states[2]["weight"].item() == pytest.approx(weights.states[1]["weight"].item() + 1)


def _run(nats: float, curve: list[float], loss: float = 0.1, penalty: float = 0.0) -> dict[str, object]:
    return {
        "penalty": penalty,
        "nats": nats,
        "standard_error": 0.1,
        "log_r_error": 1.0,
        "held_out_loss": loss,
        "kept_epoch": 1,
        "epochs": list(range(1, len(curve) + 1)),
        "curve": curve,
    }


def test_the_held_out_loss_chooses_the_penalty() -> None:
    runs = [_run(3.0, [3.0], 0.2), _run(2.0, [2.0], 0.1, 5e-3)]
    assert selected({"runs": runs})["penalty"] == 5e-3
    assert peak_and_end(_run(2.0, [1.0, 2.5, 2.0])) == (2.5, 2.0)


SETTINGS = replace(PRESETS["quick"], seeds=3, alphas=(0.1, 0.9, 1.0))
EXACT = truth(SETTINGS.columns, SETTINGS.correlation)


def _ways(chance: float) -> dict[str, list[dict[str, object]]]:
    """Return runs of each way; the first has the least loss."""
    return {
        "baseline": [_run(0.8 * EXACT, [EXACT, 0.8 * EXACT]), _run(0.5 * EXACT, [0.5 * EXACT], 0.2, 5e-3)],
        "separate": [
            _run((0.95 + chance) * EXACT, [0.98 * EXACT, 0.5 * EXACT]),
            _run((0.5 + chance) * EXACT, [0.6 * EXACT, 0.5 * EXACT], 0.2, 5e-3),
        ],
        "joint .1": [_run((0.7 + 4 * chance) * EXACT, [0.7 * EXACT])],
        "joint .9": [_run(0.7 * EXACT, [0.7 * EXACT])],
        "discriminative": [_run(1.2 * EXACT, [1.2 * EXACT])],
    }


def _outcomes(shift: float = 0.0, errors: tuple[float, ...] = (0.1, -0.1, 0.1, -0.1)) -> list[Outcome]:
    """Return results of known numbers; `shift` is that of the curve, `errors` what its runs are off beside."""
    outcomes = []
    for task in tasks(SETTINGS):
        chance = 0.01 * (task.get("seed", 0) - 1)
        if task["part"] == "curve":
            nats = [truth(task["columns"], task["correlation"]) + shift + error for error in errors]
            if task["correlation"] == 0:
                nats = [0.0] * len(errors)  # never wrong
            numbers = {"standard_errors": [0.1] * len(errors), "verdicts": ["trustworthy"] * len(errors)}
            outcomes.append(Outcome(task, {"nats": nats, **numbers}, 0.0))
        elif task["part"] == "own":
            nats = EXACT * (1 + chance / 100)
            outcomes.append(Outcome(task, {"nats": nats, "standard_error": 0.002, "verdict": "trustworthy"}, 0.0))
        else:
            # -.08 ± .06 of the truth: within a tenth or not
            bridges = {"nats": (0.92 + 10 * chance) * EXACT, "standard_error": 0.1, "log_r_error": 1.0}
            outcomes.append(Outcome(task, {"runs": _ways(chance)[task["strategy"]], TELESCOPING: bridges}, 0.0))
    return outcomes


def test_claims() -> None:
    claims = {claim.words: claim.verdict for claim in report(SETTINGS, _outcomes()).claims}
    # chosen by loss, by penalty, and bridges
    assert [claims[words] for words in claims if "separate training, " in words] == [
        Answer.YES,
        Answer.YES,
        Answer.NO,
        Answer.INCONCLUSIVE,
    ]
    assert claims["Fig. 4: separate training is nearer to the true value than every other strategy"] is Answer.YES
    assert (
        claims["Fig. 8: among joint trainings, the largest α is nearest to the true value"] is Answer.INCONCLUSIVE
    )  # the same but for chance
    at_penalty = [claims[words] for words in claims if words.startswith("with a penalty")]
    assert at_penalty == [Answer.YES, Answer.INCONCLUSIVE]  # both have one half in the second
    of_fall = {words.split(":")[0]: claims[words] for words in claims if "early stopping" in words}
    assert of_fall == {
        "baseline": Answer.NO,
        "separate": Answer.YES,
        "joint .1": Answer.NO,
        "joint .9": Answer.YES,
        "discriminative": Answer.YES,
        f"separate, penalty {SETTINGS.penalties[0]:g}": Answer.YES,
        f"separate, penalty {SETTINGS.penalties[1]:g}": Answer.NO,
    }
    assert [claims[words] for words in claims if words.startswith("our goal: qda")] == [Answer.YES]
    assert not [words for words in claims if "as the paper prints" in words]  # which is of 20 columns


@pytest.mark.parametrize(
    ("shift", "errors", "honest", "unbiased"),
    [
        (0.0, (0.1, -0.1, 0.1, -0.1), True, True),
        (0.15, (0.001, -0.001, 0.001, -0.001), True, False),  # within two standard errors, and always to one side
        (0.0, (0.5, -0.5, 0.5, -0.5), False, True),  # all runs but those at ρ = 0 are five off
    ],
)
def test_standard_errors_and_bias(shift: float, errors: tuple[float, ...], honest: bool, unbiased: bool) -> None:
    claims = {claim.words: claim.verdict for claim in report(SETTINGS, _outcomes(shift, errors)).claims}
    assert claims["our goal: over ρ and d the standard errors are not too small"] is Answer.of(honest)
    assert claims["our goal: over ρ and d the estimates have no bias"] is Answer.of(unbiased)


def test_every_penalty_and_strategy_has_a_label_of_its_own() -> None:
    panels = draw(SETTINGS, _outcomes(), Path())[""].axes
    labels = [text.get_text() for axes in panels for text in axes.texts]
    ways = [f"{way}, λ = {penalty:g}" for way in (BASELINE, SEPARATE) for penalty in SETTINGS.penalties]
    assert {label for label in labels if "true" not in label} == {*ways, *strategies(SETTINGS)[2:]}
    for axes in panels:
        heights = sorted(text.get_position()[1] for text in axes.texts)
        assert np.diff(heights).min() > 0  # no label hides another
    looks = [(line.get_color(), line.get_linestyle()) for line in panels[0].lines if line.get_linestyle() != "None"]
    assert len(set(looks)) == len(looks) == len(ways) + 1


def test_the_truth_of_the_paper_is_judged_for_its_columns() -> None:
    (claim,) = _claims_of_truth(PRESETS["laptop"])
    assert (claim.verdict, claim.measured) == (Answer.NO, "16.607 in closed form")
