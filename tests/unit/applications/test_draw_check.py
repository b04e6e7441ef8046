"""Draws against real rows: a wrong component is found with its share, and good draws pass."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from flowratio import check_draws


def rows(n: int, seed: int, share: float = 0.0, d: int = 3) -> np.ndarray:
    """Return Gaussian rows. A share of them has another mean: 5 in the last column."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[: int(share * n), -1] += 5
    return X


def test_good_draws_pass() -> None:
    for seed in range(5):
        check = check_draws(rows(500, 2 * seed), rows(600, 2 * seed + 1), random_state=seed)
        assert str(check.verdict) == "reliable"
        assert abs(check.value - 0.5) < 4 * check.standard_error
        assert check.unlike < 0.03 + 3 * check.unlike_error


@pytest.mark.parametrize(("share", "verdict"), [(0.1, "use with care"), (0.35, "do not use")])
def test_a_wrong_component_is_found_with_its_share(share: float, verdict: str) -> None:
    check = check_draws(rows(1000, 0), rows(1000, 1, share), random_state=0)
    assert str(check.verdict) == verdict
    # of the component, 1 % lies where real rows are at least half as frequent
    assert abs(check.unlike - share) < 4 * check.unlike_error + 0.02
    worst = np.argsort(check.log_draws)[: int(share * 500)]
    assert np.mean(worst < share * 1000) > 0.95  # the draws in question come first


def test_a_form_that_only_trees_see_is_found() -> None:
    """Draws inside a ring of real rows have the same means."""
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 2000)
    ring = np.column_stack([np.cos(angle), np.sin(angle)])
    radius = np.where(np.arange(1000) < 300, 0.3, 1.0)[:, None]
    check = check_draws(ring[:1000], ring[1000:] * radius, random_state=0)
    assert abs(check.unlike - 0.3) < 0.06
    blind = check_draws(ring[:1000], ring[1000:] * radius, ratio="lda", random_state=0)
    assert blind.unlike < 0.05


def test_few_rows_are_not_reliable() -> None:
    check = check_draws(rows(40, 0), rows(60, 1), random_state=0)
    assert str(check.verdict) == "use with care"
    assert "can go unseen" in check.reason


def test_tables_with_text() -> None:
    rng = np.random.default_rng(0)
    real = pl.DataFrame({"kind": rng.choice(["a", "b"], 800), "x": rng.normal(size=800)})
    draws = pl.DataFrame({"kind": rng.choice(["a", "b", "c"], 800, p=[0.3, 0.3, 0.4]), "x": rng.normal(size=800)})
    check = check_draws(real, draws, random_state=0)
    assert abs(check.unlike - 0.4) < 0.08
    assert str(check.verdict) == "do not use"


def test_the_result_is_ready_for_json_figures_and_pages() -> None:
    check = check_draws(rows(100, 0), rows(100, 1), ratio="lda", random_state=0)
    facts = json.loads(json.dumps(check.to_dict()))
    assert facts["n_draws"] == 100
    assert check.plot().axes
    assert "DrawCheck" in check._repr_html_()
    assert "(0.5 = perfect draws" in str(check)
    low, high = check.interval()
    assert 0 <= low < check.value < high <= 1
