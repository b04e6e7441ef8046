from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flowratio import Recipe
from flowratio_paper import omniglot
from flowratio_paper.augmentation_trials import (
    DATA,
    GAMMAS,
    MIXTURE,
    SYNTHETIC,
    classifier_recipe,
    new_flow,
    new_ratio,
    weighted,
)
from flowratio_paper.omniglot import PAPER, PRESETS, SELECTED, above, accuracies, draw, report, tasks
from flowratio_paper.reports import Report
from flowratio_paper.running import Outcome, reproduce
from flowratio_paper.stages import Workspace
from flowratio_paper.verdicts import Answer

TEST = {DATA: 0.7, SYNTHETIC: 0.4, MIXTURE: 0.72}
Z = {0.1: 0.724, 0.2: 0.75, 0.5: 0.71, 1.0: 0.6}


def _outcome(seed: int, shift: float, best: float) -> Outcome:
    """Return a run with accuracies that are known; the loss on validation is lowest for one γ."""
    accuracy = TEST | {weighted("x", gamma): 0.74 for gamma in GAMMAS["x"]}
    accuracy |= {weighted("z", gamma): value for gamma, value in Z.items()}
    settings: dict[str, Any] = {
        name: {
            "test": value + shift,
            "validation": value,
            "loss": 1.0 - (name == weighted("z", best)),
            "by_character": [5 * value] * 200,
        }
        for name, value in accuracy.items()
    }
    settings[DATA]["recognized"] = [1, 0]
    worth = {f"{gamma:g}": 0.9 for gamma in GAMMAS["z"]}
    ratio = {"auc": 0.8, "auc_recognized": 0.6, "mean_real": 0.5, "mean_made": -0.5, "effective": worth}
    result = {"settings": settings, "ratios": {"x": ratio, "z": ratio}, "bits": {"real": 1.0, "made": 2.0}}
    return Outcome({"seed": seed}, {**result, "gap": [4.0, 1.0]}, 1.0)


OUTCOMES = [_outcome(0, 0.01, best=0.2), _outcome(1, -0.01, best=0.1)]


def test_validation_chooses_gamma_in_each_run() -> None:
    assert accuracies(OUTCOMES, SELECTED).tolist() == pytest.approx([0.76, 0.714])
    assert accuracies(OUTCOMES, MIXTURE).tolist() == pytest.approx([0.73, 0.71])
    assert accuracies(OUTCOMES, MIXTURE, "validation").tolist() == [0.72, 0.72]


def test_accuracies_stand_beside_the_papers() -> None:
    actual = report(PRESETS["laptop"], OUTCOMES)
    lines = {line[0]: line for line in actual.tables[0].lines}
    assert set(PAPER) < set(lines)
    # 0.73 and 0.71: mean .72, standard error .02 / 2
    assert lines[MIXTURE] == [MIXTURE, "0.767", "0.720 ± 0.010", "0.720 ± 0.000"]
    assert lines[SELECTED][1:3] == ["", "0.737 ± 0.023"]
    assert "200 characters" in actual.tables[0].title
    # the γ that validation chose: .03 and .004 more than the mixture, half an interval of .17
    assert [claim.verdict for claim in actual.claims] == [
        Answer.YES,
        Answer.INCONCLUSIVE,
        Answer.YES,
        Answer.YES,
        Answer.YES,
        Answer.YES,
    ]


def test_a_difference_within_its_error_is_inconclusive() -> None:
    # selected minus mixture: .03 and .004, half an interval of .17; minus data: .05 and .024; minus x: .01 and -.016
    assert above("more", OUTCOMES, SELECTED, MIXTURE).verdict is Answer.INCONCLUSIVE
    assert above("more", OUTCOMES, SELECTED, DATA).verdict is Answer.INCONCLUSIVE
    assert above("more", OUTCOMES, MIXTURE, DATA).verdict is Answer.YES  # .02 in both runs
    assert above("more", OUTCOMES, SELECTED, weighted("x", 1)).verdict is Answer.INCONCLUSIVE
    assert above("more", OUTCOMES, SYNTHETIC, DATA).verdict is Answer.NO
    assert above("more", OUTCOMES[:1], MIXTURE, DATA).verdict is Answer.INCONCLUSIVE
    assert "one run" in above("more", OUTCOMES[:1], MIXTURE, DATA).measured


def test_a_difference_that_depends_on_few_characters_is_inconclusive() -> None:
    outcomes = [_outcome(seed, 0.0, best=0.2) for seed in range(3)]
    for one in outcomes:  # .02 more in every run, by one character of 50: a standard error of .02 over the characters
        actual = one.result["settings"][MIXTURE], one.result["settings"][DATA]
        actual[0].update(test=0.02, by_character=[5] + 49 * [0])
        actual[1].update(test=0.0, by_character=50 * [0])
    claim = above("more", outcomes, MIXTURE, DATA)
    assert claim.verdict is Answer.INCONCLUSIVE
    assert claim.measured.endswith("+0.020 (-0.019 to +0.059)")


def test_what_cannot_be_told_leaves_the_rest() -> None:
    outcomes = [_outcome(seed, 0.0, best=0.2) for seed in range(3)]
    for one, auc in zip(outcomes, (0.5, None, 0.7), strict=True):
        one.result["ratios"] = {"x": {**one.result["ratios"]["x"], "auc_recognized": auc}}
        one.result["ratios"]["z"] = {**one.result["ratios"]["x"], "auc_recognized": None}
    x, z = report(PRESETS["laptop"], outcomes).tables[1].lines
    assert (x[2], z[2]) == ("0.600 ± 0.100", "–")


def test_figures(tmp_path: Path) -> None:
    assert list(draw(PRESETS["laptop"], OUTCOMES, tmp_path)) == [""]  # no drawings are there


def test_one_run_has_no_bars(tmp_path: Path) -> None:
    bars: list[Any] = [
        draw(PRESETS["laptop"], outcomes, tmp_path)[""].axes[0].containers for outcomes in (OUTCOMES, OUTCOMES[:1])
    ]
    assert [container.has_xerr for each in bars for container in each] == [True, False]


def test_presets() -> None:
    assert tasks(PRESETS["laptop"])[-1] == {"seed": PRESETS["laptop"].seeds - 1}
    assert PRESETS["laptop"].seeds >= 3
    assert PRESETS["laptop"].classes >= 200
    for settings in PRESETS.values():
        assert settings.per_class % 10 == 0


def test_the_paper_preset_is_the_paper() -> None:
    settings = PRESETS["paper"]
    assert (settings.seeds, settings.classes, settings.per_class, settings.folds) == (3, 1200, 50, 1)
    dagan = settings.dagan
    assert (dagan.noise, dagan.batch_size, dagan.learning_rate, dagan.critic_rate) == (100, 100, 1e-4, 1e-4)
    assert dagan.steps * dagan.batch_size == 200 * 1200 * 10  # epochs of all drawings
    flow = new_flow(settings, 0, Path("flow"))
    new_maf: Any = flow.flow
    recipe = flow.recipe_for(72_000, 784)
    assert (recipe.max_epochs, recipe.batch_size, recipe.optimizer, recipe.schedule) == (200, 100, "adam", "constant")
    assert (recipe.learning_rate, recipe.weight_decay, recipe.average) == (1e-4, 1e-6, False)
    # n_hidden = 2 in the paper's table is three layers in its code, and what is recorded is what is run
    assert new_maf(784).hidden == settings.flow_hidden == (1024, 1024, 1024)
    recorded = (settings.flow_batch, settings.flow_rate, settings.flow_decay)
    assert recorded == (recipe.batch_size, recipe.learning_rate, recipe.weight_decay)
    ratio = new_ratio(settings, 0)
    assert (ratio.network, ratio.hidden, ratio.max_epochs, ratio.batch_size) == ("cnn", (64,) * 4, 10, 64)
    assert (ratio.learning_rate, ratio.l2_penalty, ratio.weight_decay) == (1e-3, 0.0, None)
    plain = {"optimizer": "adam", "schedule": "constant", "patience": 100, "warm_up": 0, "average": False}
    assert classifier_recipe(settings, 100) == Recipe(100, 64, 1e-3, clip_norm=math.inf, **plain)
    assert settings.classifier_steps * settings.batch_size == 100 * 1200 * 60


def test_laptop_says_what_it_runs() -> None:
    settings = PRESETS["laptop"]
    flow = new_flow(settings, 0, Path("flow"))
    recipe = flow.recipe_for(12_000, 784)
    assert (recipe.batch_size, recipe.learning_rate, recipe.weight_decay, recipe.optimizer) == (128, 1e-3, 0.3, "adamw")
    assert flow.hidden == (512, 512)
    assert new_ratio(settings, 0).l2_penalty is None
    assert classifier_recipe(settings, 8) == Recipe(8, 64, 1e-3, patience=3)


def test_a_restart_forgets_what_stages_have_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(omniglot, "run", lambda settings, task, workspace: {})
    monkeypatch.setattr(omniglot, "report", lambda settings, outcomes: Report())
    monkeypatch.setattr(omniglot, "draw", lambda settings, outcomes, keep: {})
    stage = tmp_path / "omniglot-quick" / "seed-0" / "journal.json"
    stage.parent.mkdir(parents=True)
    stage.write_text("{}")
    reproduce("omniglot", "quick", tmp_path, verbose=False)
    assert stage.exists()
    reproduce("omniglot", "quick", tmp_path, restart=True, verbose=False)
    assert not stage.exists()


def test_the_checkpoints_of_another_task_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = np.zeros((200, 784), np.uint8)
    monkeypatch.setattr(omniglot, "find", lambda name: Path(name))
    monkeypatch.setattr(omniglot, "read", lambda path: (images, np.repeat(np.arange(10), 20)))
    monkeypatch.setattr(omniglot, "generate", lambda *_: pytest.fail("refused before anything is trained"))
    with Workspace(tmp_path).journal("seed-0", {"seed": 1}):
        pass
    with pytest.raises(ValueError, match=r"seed-0 belongs to another run\. It differs in .*seed"):
        omniglot.run(PRESETS["quick"], {"seed": 0}, Workspace(tmp_path))
