from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flowratio.experiments.image_laws import BACKGROUND, DIGITS, TASKS
from flowratio.experiments.mnist import (
    PAPER,
    PERCS,
    PRESETS,
    draw,
    error_of_share,
    report,
    shares,
    tasks,
)
from flowratio.experiments.running import Done
from flowratio.experiments.targeted_generation import Settings, new_flow


def _done(settings: Settings, share: Any) -> list[Done]:
    """Return runs in which a method has the share that a function of task, perc and method gives."""
    runs = []
    for task in tasks(settings):
        ratio = {"loss": 0.3, "accuracy": 0.9}
        methods = {
            method: {
                "share": share(task["task"], task["perc"], method),
                "effective": 0.5,
                "unique": 0.99,
                "k_hat": None if method == "regular" else 0.1,
            }
            for method in PAPER[DIGITS]
        }
        flow = {"logit": -1290.0, "bits": 1.8, "epochs": 3, "best_epoch": 3, "seconds": 1.0}
        result = {"rows": [100, 50], "accuracy": 0.99, "flow": flow, "ratio": {"x": ratio, "z": ratio}}
        runs.append(Done(task, {**result, "methods": methods}, 1.0))
    return runs


def _paper(task: str, perc: float, method: str) -> float:
    return PAPER[task][method][PERCS.index(perc)]


def test_every_cell_has_its_runs() -> None:
    for preset, n in (("quick", 2), ("laptop", 16), ("paper", 24)):
        assert len({tuple(task.values()) for task in tasks(PRESETS[preset])}) == n


def test_perc_outside_0_and_1_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`perc` is 1\.5"):
        Settings(1, percs=(0.5, 1.5))


def test_the_paper_preset_is_the_paper() -> None:
    flow = new_flow(PRESETS["paper"], 24_000, 0, Path("flow"))
    recipe = flow.recipe(24_000, 784)
    assert (recipe.max_epochs, recipe.batch_size, recipe.learning_rate, recipe.weight_decay) == (200, 100, 1e-4, 1e-6)
    assert flow.hidden == (1024, 1024)
    assert flow.scaling == "image"
    assert (PRESETS["laptop"].n_blocks, PRESETS["laptop"].hidden) == (5, (1024,))


def test_the_steps_of_a_flow_do_not_depend_on_its_images() -> None:
    settings = Settings(1, steps=1000, batch_size=90)
    for n, epochs in ((10_000, 10), (50_000, 2), (1_000_000, 1)):
        assert new_flow(settings, n, 0, Path("flow")).max_epochs == epochs


def test_the_standard_error_is_that_of_runs_or_of_draws() -> None:
    assert error_of_share(np.array([0.4, 0.6]), 1000) == pytest.approx(0.1)
    assert error_of_share(np.array([0.5, 0.5]), 1000) == pytest.approx(math.sqrt(0.25 / 2000))
    assert error_of_share(np.array([0.5]), 100) == pytest.approx(0.05)


def test_the_paper_s_own_numbers_get_its_own_verdicts() -> None:
    settings = Settings(3)
    done = _done(settings, _paper)
    assert shares(done, DIGITS, "z", 1.0).tolist() == [0.86] * 3
    found = report(settings, done)
    verdicts = {claim.words: claim.holds for claim in found.claims}
    for task in TASKS:
        assert verdicts[
            f"{task}: SIR with IW(z) is above regular sampling at every perc, by two standard errors or more"
        ]
    # .085 and .084: x is no better than nothing on backgrounds of few images
    assert not verdicts[
        f"{BACKGROUND}: SIR with IW(x) is above regular sampling at every perc, by two standard errors or more"
    ]
    assert verdicts["SIR with IW(z) is above SIR with IW(x) in three cells of four or more"]  # all but digits at .25
    assert verdicts[f"{DIGITS}: SIR with IW(z) has the paper's 0.860 or more at perc = 1"]
    digits, background, details = found.tables
    assert digits.lines[0][-1] == "0.860 ± 0.006 [0.860]"  # sqrt(.86 * .14 / 3000)
    assert background.lines[-1][1:] == ["0.091", "0.200", "0.333", "0.500"]
    assert details.lines[0][-1] == "0.300, 0.900; 0.50, 0.99, 0.10"
    assert details.lines[-1][3:5] == ["-1300.5", "1.89"]


def test_the_other_way_round_nothing_holds() -> None:
    settings = Settings(2)
    found = report(settings, _done(settings, lambda task, perc, method: {"z": 0.1, "x": 0.2, "regular": 0.3}[method]))
    holds = {claim.words: claim.holds for claim in found.claims}
    assert [words for words, verdict in holds.items() if verdict] == [
        f"{BACKGROUND}: the flow reaches the log-density that was published for a MAF of MNIST"
    ]


def test_sheets_are_drawn_where_they_are_kept(tmp_path: Path) -> None:
    settings = Settings(1)
    done = _done(settings, _paper)
    assert list(draw(settings, done, tmp_path)) == [""]
    images = np.zeros((100, 784), np.uint8)
    np.savez(tmp_path / f"{DIGITS}-0.25.npz", z=images, x=images, regular=images)
    figures = draw(settings, done, tmp_path)
    assert list(figures) == ["", f"{DIGITS}-0.25"]
    assert [axes.get_title() for axes in figures[f"{DIGITS}-0.25"].axes] == [
        "SIR with IW(z)",
        "SIR with IW(x)",
        "regular sampling",
    ]
