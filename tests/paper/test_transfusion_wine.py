from __future__ import annotations

import numpy as np
import pytest

from flowratio_paper.transfusion_wine import PAPER, PAPER_SPREAD, PRESETS, split, tasks


def test_the_source_keeps_rows_by_their_distance_from_the_mean() -> None:
    X = np.random.default_rng(0).normal(5.0, 100.0, (80_000, 2))
    trial = split(X, np.zeros(len(X), int), np.random.default_rng(1))
    assert len(trial.X_target) == 60_000
    assert np.concatenate([trial.X_target, trial.X_source]).std(axis=0) == pytest.approx([1, 1], abs=0.02)
    # N(0, 1) times exp(-x²/20) is N(0, 10/11); 1/(1 + 1/10) of the rows stay; errors of shares .002, of variances .01
    assert len(trial.X_source) / 20_000 == pytest.approx(10 / 11, abs=0.01)
    assert trial.X_source.var(axis=0) == pytest.approx([10 / 11, 10 / 11], abs=0.04)


@pytest.mark.parametrize(("preset", "of_text"), [("quick", 1), ("laptop", 5), ("paper", 30)])
def test_wine_as_in_the_text_has_few_trials_but_in_the_paper(preset: str, of_text: int) -> None:
    listed, seeds = tasks(PRESETS[preset]), PRESETS[preset].seeds
    assert {table: sum(task["table"] == table for task in listed) for table in ("blood", "wine-text", "wine-code")} == {
        "blood": seeds,
        "wine-text": of_text,
        "wine-code": seeds,
    }


def test_every_published_error_has_a_spread() -> None:
    for table, rows in PAPER.items():
        assert PAPER_SPREAD[table].keys() == rows.keys()
