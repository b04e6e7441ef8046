from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from flowratio import MAF
from flowratio_paper.image_distributions import BACKGROUND, DIGITS, TASKS
from flowratio_paper.mnist import PRESETS, draw, report, tasks
from flowratio_paper.mnist_cells import METHODS, PAPER, RATIOS, Cell, cell
from flowratio_paper.running import Outcome
from flowratio_paper.targeted_generation import PERCS, Settings, new_flow, new_ratio
from flowratio_paper.verdicts import Answer


def _outcome(settings: Settings, share: Any) -> list[Outcome]:
    """Return runs in which a method has the share that a function of task, perc and method gives."""
    runs = []
    for task in tasks(settings):
        ratio = {"loss": 0.3, "accuracy": 0.9}
        methods = {
            method: {
                "share": share(task["task"], task["perc"], method),
                "strange": 0.1,
                "strange_target": 0.06,
                "effective": 0.5,
                "candidates": 1_000_000_000,  # as good as no resampling
                "unique": 0.99,
                "k_hat": "-inf" if method == "regular" else 0.1,
                "seconds": 1.25,
            }
            for method in METHODS
        }
        flow = {"logit": -1290.0, "bits": 1.8, "epochs": 3, "best_epoch": 3, "seconds": 1.0}
        result = {"rows": [100, 50], "accuracy": 0.99, "flow": flow, "ratio": dict.fromkeys(RATIOS, ratio)}
        runs.append(Outcome(task, {**result, "methods": methods}, 1.0))
    return runs


def _paper(task: str, perc: float, method: str) -> float:
    return PAPER[task][{"draws": "z", "two-stage": "x", "corrected": "x"}.get(method, method)][PERCS.index(perc)]


def test_every_cell_has_its_runs() -> None:
    for preset, n in (("quick", 2), ("laptop", 24), ("paper", 24)):
        assert len({tuple(task.values()) for task in tasks(PRESETS[preset])}) == n


def test_perc_outside_0_and_1_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`perc` is 1\.5"):
        Settings(1, percs=(0.5, 1.5))


def test_the_paper_preset_is_the_paper() -> None:
    flow = new_flow(PRESETS["paper"], 24_000, 0, Path("flow"))
    recipe = flow.recipe_for(24_000, 784)
    assert (recipe.max_epochs, recipe.batch_size, recipe.learning_rate, recipe.weight_decay) == (200, 100, 1e-4, 1e-6)
    assert (recipe.optimizer, recipe.schedule, recipe.average) == ("adam", "constant", False)
    assert flow.scaling == "image"
    new_maf: Any = flow.flow
    maf = new_maf(784)
    assert isinstance(maf, MAF)
    assert (maf.n_blocks, maf.batch_norm) == (5, True)
    settings = PRESETS["paper"]  # what is recorded is what is run
    assert (settings.n_blocks, settings.hidden, settings.batch_size) == (5, maf.hidden, recipe.batch_size)
    assert (settings.learning_rate, settings.weight_decay) == (recipe.learning_rate, recipe.weight_decay)
    assert (settings.seeds, settings.rows, settings.percs) == (3, None, (0.1, 0.25, 0.5, 1.0))
    assert (settings.samples, settings.candidates_z, settings.candidates_x) == (1000, 100, 100)
    assert (settings.attribute_rows, settings.attribute_epochs, settings.test_rows) == (None, 10, None)


@pytest.mark.parametrize("preset", PRESETS)
def test_the_ratio_is_the_paper_s(preset: str) -> None:
    ratio = new_ratio(PRESETS[preset].ratio_epochs, 0)
    assert (ratio.network, ratio.hidden, ratio.batch_size) == ("relu", (100, 100, 100), 64)
    assert (ratio.learning_rate, ratio.l2_penalty, ratio.image_shape) == (1e-3, 0.0, (1, 28, 28))
    assert ratio.max_epochs == (50 if preset == "quick" else 10)


@pytest.mark.parametrize("name", ["ratio_epochs", "draws_epochs"])
def test_passes_are_so_many_for_each_draw_of_the_noise(name: str) -> None:
    epochs: Any = {name: 35}
    with pytest.raises(ValueError, match=rf"`{name}` is 35. Use a multiple of `noises`, which is 10"):
        Settings(1, **epochs)


def test_the_flow_of_the_laptop_preset() -> None:
    flow = new_flow(PRESETS["laptop"], 25_400, 0, Path("flow"))
    recipe = flow.recipe_for(22_860, 784)
    assert (recipe.max_epochs, recipe.batch_size, recipe.learning_rate, recipe.weight_decay) == (9, 100, 3e-3, 0.1)
    assert (recipe.optimizer, recipe.schedule, recipe.average) == ("adamw", "cosine", True)
    new_maf: Any = flow.flow
    maf = new_maf(784)
    assert isinstance(maf, MAF)
    assert (maf.n_blocks, maf.hidden, maf.batch_norm) == (5, (1024,), True)


def test_the_steps_of_a_flow_do_not_depend_on_its_images() -> None:
    settings = Settings(1, steps=1000, batch_size=90)
    for n, epochs in ((10_000, 10), (50_000, 2), (1_000_000, 1)):
        assert new_flow(settings, n, 0, Path("flow")).max_epochs == epochs


def test_the_standard_error_is_that_of_runs_or_of_draws() -> None:
    def error(shares: list[float], samples: int, weighted: bool = False) -> float:
        return Cell([{"share": s, "effective": 0.2, "candidates": 500} for s in shares], samples, weighted).error

    assert error([0.4, 0.6], 1000) == pytest.approx(0.1)
    assert error([0.5, 0.5], 1000) == pytest.approx(math.sqrt(0.25 / 2000))
    assert error([0.5], 100) == pytest.approx(0.05)
    assert error([0.5], 100, weighted=True) == pytest.approx(0.05 * math.sqrt(2))  # candidates worth 100 are chance


def test_all_images_may_be_outliers() -> None:
    images = {"share": 1.0, "strange": 1.0, "strange_target": 1.0, "effective": 1.0, "candidates": 10}
    assert Cell([images], 10, False).target_shares == ("1.000", "–")
    plain = {**images, "share": 0.5, "strange": 0.0, "strange_target": 0.0}
    assert Cell([plain], 10, False).target_shares == ("–", "0.500")
    assert Cell([images, plain], 10, False).target_shares == ("1.000", "0.500")


def test_the_paper_s_own_numbers_get_its_own_verdicts() -> None:
    settings = Settings(3)
    outcomes = _outcome(settings, _paper)
    assert cell(settings, outcomes, DIGITS, "z", 1.0).shares.tolist() == [0.86] * 3
    actual = report(settings, outcomes)
    verdicts = {claim.words: claim.verdict for claim in actual.claims}
    for task in TASKS:
        assert verdicts[f"{task}: weights from z draw more of the target than no weights at every perc"] is Answer.YES
    # .085 and .084: x is no better than no weights on backgrounds of few images
    assert (
        verdicts[f"{BACKGROUND}: weights from x draw more of the target than no weights at every perc"]
        is Answer.INCONCLUSIVE
    )
    # all but digits at .1 and .25, where .006 and -.010 are within the error of 3000 draws
    assert (
        verdicts["weights from z draw more of the target than weights from x in at least three of four cells"]
        is Answer.YES
    )
    assert (
        verdicts[
            "weights from z (against draws) draw more of the target than weights from z in at least three of four cells"
        ]
        is Answer.INCONCLUSIVE
    )
    for method in ("weights from z", "weights from z (against draws)"):
        assert (
            verdicts[f"{DIGITS}: {method} draw more of the target than the paper's 0.860 at perc = 1"]
            is Answer.INCONCLUSIVE
        )
    assert all(len(line) == len(table.head) for table in actual.tables for line in table.lines)
    digits, background, strange, flows, ratios = actual.tables
    assert digits.lines[0][-1] == "0.860 ± 0.006 [0.860]"  # sqrt(.86 * .14 / 3000)
    assert background.lines[-1][1:] == ["0.091", "0.200", "0.333", "0.500"]
    # .06 of .86, and a tenth of all images
    assert strange.lines[18] == [DIGITS, "1", "weights from z", "0.100", "0.600", "0.889"]
    assert ratios.lines[3][2:] == ["p/q in x", "0.300", "0.900", "0.500", "0.990", "0.10"]
    assert flows.lines[0][-4:] == ["1.2", "1.2", "1.2", "1.2"]
    assert flows.lines[-1][3:5] == ["-1300.5", "1.89"]


def test_the_title_says_what_the_errors_are() -> None:
    titles = [report(Settings(n), _outcome(Settings(n), _paper)).tables[0].title for n in (1, 2)]
    assert titles[0].endswith("images (one run ± standard error of the draws) [paper]")
    assert titles[1].endswith("(mean ± standard error of 2 runs, or of the draws if larger) [paper]")


METHOD_SHARES = {"draws": 0.1, "two-stage": 0.15, "corrected": 0.15, "z": 0.2, "x": 0.3, "regular": 0.4}


def test_the_other_way_round_nothing_holds() -> None:
    settings = Settings(2)
    actual = report(settings, _outcome(settings, lambda task, perc, method: METHOD_SHARES[method]))
    verdicts = {claim.words: claim.verdict for claim in actual.claims}
    for perc in PERCS:
        flow = f"{BACKGROUND}, perc = {perc:g}: the flow is above the log-density published for a MAF of MNIST"
        assert verdicts.pop(flow) is Answer.YES
    for task in TASKS:  # as many outliers in all methods
        fewer = f"{task}: weights from z, then x (against draws) draw fewer outliers than weights from x at every perc"
        assert verdicts.pop(fewer) is Answer.INCONCLUSIVE
    assert set(verdicts.values()) == {Answer.NO}


def test_two_stages_are_compared_with_weights_from_x() -> None:
    settings = Settings(3)
    outcomes = _outcome(settings, lambda task, perc, method: {"x": 0.9, "corrected": 0.95}.get(method, 0.899))
    for one in outcomes:
        methods = one.result["methods"]
        methods["corrected"]["strange"], methods["x"]["seconds"] = 0.01, 5.0
    verdicts = {claim.words: claim.verdict for claim in report(settings, outcomes).claims}
    two, corrected = "weights from z, then x", "weights from z, then x (against draws)"
    for task in TASKS:
        words = f"{task}: {two} draw as much of the target as weights from x, within the 95 % interval, at every perc"
        assert verdicts[words] is Answer.YES
        assert verdicts[f"{task}: {corrected} draw fewer outliers than weights from x at every perc"] is Answer.YES
    for method in (two, corrected):  # 1.25 of 5 seconds
        assert verdicts[f"{method} take a third of the time of weights from x or less, in every cell"] is Answer.YES
    assert verdicts[f"{DIGITS}: {corrected} draw more of the target than 0.93 at perc = 1"] is Answer.YES


def test_results_of_an_earlier_version_have_fewer_methods() -> None:
    settings = Settings(3)
    outcomes = _outcome(settings, _paper)
    for one in outcomes:
        for method in ("two-stage", "corrected"):
            del one.result["methods"][method]
    actual = report(settings, outcomes)
    assert len(actual.tables[0].lines) == 5
    assert not any("then x" in claim.words for claim in actual.claims)
    assert not any("then x" in str(table) for table in actual.tables)
    assert list(draw(settings, outcomes, Path("nowhere"))) == [""]


def test_methods_are_compared_run_by_run() -> None:
    runs = {"z": np.array([0.5, 0.9]), "x": np.array([0.4, 0.8]), "regular": np.array([0.8, 0.4])}
    settings = Settings(2, percs=(1.0,), samples=1000)
    outcomes = _outcome(settings, lambda task, perc, method: 0.0)
    for one in outcomes:
        for method, values in runs.items():
            one.result["methods"][method]["share"] = float(values[one.task["seed"]])
    verdicts = {claim.words: claim.verdict for claim in report(settings, outcomes).claims}
    # z minus x is .1 in both runs, though each varies by .4; z minus regular is -.3 and .5
    assert (
        verdicts["weights from z draw more of the target than weights from x in at least three of four cells"]
        is Answer.YES
    )
    assert (
        verdicts[f"{DIGITS}: weights from z draw more of the target than no weights at every perc"]
        is Answer.INCONCLUSIVE
    )


def test_sheets_are_drawn_where_they_are_kept(tmp_path: Path) -> None:
    settings = Settings(1)
    outcomes = _outcome(settings, _paper)
    assert list(draw(settings, outcomes, tmp_path)) == [""]
    images = np.zeros((100, 784), np.uint8)
    path = tmp_path / f"{DIGITS}-0.25-0" / "images.entry.safetensors"
    path.parent.mkdir()
    save_file(dict.fromkeys(METHODS, images), path)
    figures = draw(settings, outcomes, tmp_path)
    assert list(figures) == ["", f"{DIGITS}-0.25"]
    assert [axes.get_title() for axes in figures[f"{DIGITS}-0.25"].axes] == [
        "weights from z",
        "weights from z (against draws)",
        "weights from z, then x",
        "weights from z, then x (against draws)",
        "weights from x",
        "no weights",
    ]
    path.write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"images.entry.safetensors is damaged .*\. Delete it to compute it again"):
        draw(settings, outcomes, tmp_path)
