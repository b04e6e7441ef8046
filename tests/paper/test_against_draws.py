from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flowratio import Recipe
from flowratio_paper import against_draws
from flowratio_paper.against_draws import fit_against_draws


def _codes(mean: float, k: int, n: int) -> np.ndarray:
    return np.random.default_rng(round(10 * mean) % 7).normal(mean, 1, (k, n, 2)).astype(np.float32)


def test_log_ratio_is_that_of_the_target_to_a_gaussian() -> None:
    # p = N(-1, I), q = N(1, I), draws N(0, I): log q/g = z1 + z2 - 1, whatever p is, and however few q are
    ratio = fit_against_draws(_codes(-1, 4, 2000), _codes(1, 20, 400), 10, 0)
    Z = np.random.default_rng(1).normal(0.5, 0.7, (2000, 2))
    error = ratio.log_ratio(Z) - (Z.sum(axis=1) - 1)
    # the mean of 7200 codes of 360 images is off by 1/sqrt(7200): these have noise alone, and no images
    assert np.sqrt(np.mean(error**2)) < 0.3
    again = fit_against_draws(_codes(-1, 4, 2000), _codes(1, 20, 400), 10, 0)
    assert np.array_equal(again.log_ratio(Z), ratio.log_ratio(Z))


def test_no_image_has_codes_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: dict[str, Any] = {}

    def record(model: Any, loss: Any, rows: Any, held_out: np.ndarray, recipe: Recipe, **settings: Any) -> None:
        calls.update(rows=rows, held_out=held_out, epochs=recipe.max_epochs)

    monkeypatch.setattr(against_draws, "train", record)
    of_p, of_q = (
        np.tile(np.arange(start, start + n), (k, 1))[..., None] for start, n, k in ((0, 40, 3), (100, 10, 12))
    )
    fit_against_draws(of_p, of_q, 5, 0)
    for column in (0, 1):
        assert not set(calls["rows"][:, column]) & set(calls["held_out"][:, column])
    assert len(np.unique(calls["rows"][:, 0])) == 36
    assert len(np.unique(calls["held_out"])) == 5
    assert calls["epochs"] == 5
