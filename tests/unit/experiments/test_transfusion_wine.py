from __future__ import annotations

import numpy as np
import pytest

from flowratio.experiments.transfusion_wine import PRESETS, TEXT_TRIALS, split, tasks


def test_the_source_keeps_rows_by_their_distance_from_the_mean() -> None:
    X = np.random.default_rng(0).normal(5.0, 100.0, (80_000, 2))
    trial = split(X, np.zeros(len(X), int), np.random.default_rng(1))
    assert len(trial.X_target) == 60_000
    assert np.concatenate([trial.X_target, trial.X_source]).std(axis=0) == pytest.approx([1, 1], abs=0.02)
    # N(0, 1) times exp(-x²/20) is N(0, 10/11); 1/(1 + 1/10) of the rows stay; errors of shares .002, of variances .01
    assert len(trial.X_source) / 20_000 == pytest.approx(10 / 11, abs=0.01)
    assert trial.X_source.var(axis=0) == pytest.approx([10 / 11, 10 / 11], abs=0.04)


def test_wine_as_in_the_text_has_few_trials() -> None:
    listed = tasks(PRESETS["laptop"])
    assert {table: sum(task["table"] == table for task in listed) for table in ("blood", "wine-text", "wine-code")} == {
        "blood": 30,
        "wine-text": TEXT_TRIALS,
        "wine-code": 30,
    }
