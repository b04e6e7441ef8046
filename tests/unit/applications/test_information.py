"""Mutual information of Gaussians is -d/2 log(1 - ρ²); it does not change by monotone maps of columns."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from flowratio import AutoRatio, ClassifierRatio, ConvexRatio, FeaturizedRatio, InverseRatio
from flowratio._support.errors import ArgumentError
from flowratio.applications import information
from flowratio.applications.dependence import Dependence
from flowratio.applications.information import MutualInformation, mutual_information
from flowratio.applications.result import Conclusion, LeftOut, Limit, bounds_of
from flowratio.applications.shuffles import by_row, distance, nearest_rows, shuffled
from flowratio.applications.variables import Variables
from flowratio.diagnostics.verdict import Verdict
from flowratio.scaling import Gaussianizer, ScalerChain, Standardizer, Whitener


def gaussian(n: int, d: int, rho: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return x, rho * x + math.sqrt(1 - rho**2) * rng.normal(size=(n, d))


@pytest.mark.parametrize("d", [1, 5])
@pytest.mark.parametrize("rho", [0.0, 0.1, 0.5, 0.9, 0.99])
def test_gaussians(d: int, rho: float) -> None:
    truth = -d / 2 * math.log(1 - rho**2)
    found = mutual_information(*gaussian(1500, d, rho, 0), ratio="qda", random_state=0)
    room = found.resolution if 0 < rho < 0.5 else 0.0  # a correlation of 0.1 may be taken for chance
    assert abs(found.raw - truth) < 3 * math.hypot(found.standard_error, room)
    assert found.standard_error < 0.02 + 0.03 * d  # log r has the standard deviation ρ √d, and 1500 rows
    assert found.bits == pytest.approx(found.value / math.log(2))
    low, high = found.interval(0.997)
    assert low <= max(truth, 0) <= high
    # with d = 5 and ρ = 0.9, log r is above log n in 6 % of the rows
    assert found.verdict == ("use with care" if truth > 4 else "reliable")
    assert found.limit == ("near the ln n ceiling" if truth > 4 else "none")
    assert (high == math.inf) == (truth > 4)
    json.dumps(found.to_dict(), allow_nan=False)


def test_twenty_columns() -> None:
    found = mutual_information(*gaussian(1500, 20, 0.5, 0), ratio="qda", n_folds=4, random_state=0)
    assert abs(found.raw - 10 * math.log(4 / 3)) < 3 * found.standard_error
    assert found.standard_error < 0.2


@pytest.mark.parametrize("ratio", ["qda", "boosting"])
def test_independent_variables_and_hardly_dependent_ones(ratio: str) -> None:
    found = mutual_information(*gaussian(1000, 1, 0.0, 1), random_state=0, ratio=ratio, n_folds=5)
    assert found.interval()[0] == 0
    assert found.value < 0.02
    assert "the value is not clearly above 0" in str(found)
    seen = mutual_information(*gaussian(1000, 1, 0.3, 1), random_state=0, ratio=ratio, n_folds=5)
    assert seen.interval()[0] > 0  # the truth is 0.047 nats
    assert seen.interval()[1] > 0.047
    assert "not clearly above 0" not in str(seen)


def test_intervals_cover_and_standard_errors_are_those_of_the_estimate() -> None:
    n, replications = 200, 60
    for rho in (0.0, 0.5):
        truth = -0.5 * math.log(1 - rho**2)
        made = [
            mutual_information(*gaussian(n, 1, rho, seed), ratio="qda", n_folds=3, random_state=seed)
            for seed in range(replications)
        ]
        hits = sum(low <= truth <= high for low, high in (found.interval() for found in made))
        assert hits >= 52  # 95 %, less two standard errors of 2.8 % and the 3 % allowed
        told = np.median([found.standard_error for found in made])
        assert np.std([found.raw for found in made]) < 3 * told if rho else told < made[0].resolution / 2


@pytest.mark.parametrize(
    ("ratio", "name"),
    [
        ("logistic", "'logistic'"),
        ("lda", "'lda'"),
        ("additive", "'additive'"),
        ("additive after gaussianizing", "'additive after gaussianizing'"),
        (ClassifierRatio("logistic"), "'logistic'"),
        (InverseRatio(ClassifierRatio("lda")), "InverseRatio"),
        (ConvexRatio(["lda", ClassifierRatio("additive")]), "ConvexRatio"),
        (AutoRatio(["lda", "logistic"]), "AutoRatio"),
        (FeaturizedRatio("lda", featurizer=ScalerChain([Gaussianizer(), Standardizer()])), "FeaturizedRatio"),
    ],
)
def test_ratios_that_see_no_information_are_refused(ratio: Any, name: str) -> None:
    words = f"`ratio` is {name}, a sum over columns, which sees no dependence between them. Use a ratio such as"
    with pytest.raises(ArgumentError, match=words) as error:
        mutual_information(*gaussian(100, 1, 0.95, 0), ratio=ratio)
    assert error.value.arguments == ("ratio",)


def test_ratios_that_see_dependence() -> None:
    whitened = FeaturizedRatio("lda", featurizer=ScalerChain([Standardizer(), Whitener()]))
    convex = ConvexRatio(["lda", "qda"])
    for ratio in (ClassifierRatio("qda"), whitened, FeaturizedRatio("lda"), convex, InverseRatio(convex), AutoRatio()):
        assert not ratio.is_additive()


def test_the_ratio_may_be_chosen() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    candidates = AutoRatio(["logistic", "qda", "quadratic", "boosting"])
    found = mutual_information(x, x**2 + 0.5 * rng.normal(size=400), ratio=candidates, n_folds=3, random_state=0)
    # a curve that no correlation shows; trees of 400 rows see some of it, and the estimate is a bound
    assert 0.3 < found.raw < _information_of_a_parabola() + 3 * found.standard_error


def _information_of_a_parabola() -> float:
    """Return h(y) - h(e), for y = x² + e, by sums over grids."""
    e, x, y = 0.5, np.linspace(-7, 7, 2001), np.linspace(-4, 40, 8801)
    p_x = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])
    p_y = np.exp(-((y[:, None] - x**2) ** 2) / (2 * e**2)) @ p_x / (e * math.sqrt(2 * math.pi))
    entropy = -np.sum(p_y * np.log(p_y + 1e-300)) * (y[1] - y[0])
    return float(entropy - 0.5 * math.log(2 * math.pi * math.e * e**2))


def test_monotone_maps_change_nothing() -> None:
    x, y = gaussian(300, 2, 0.7, 0)
    plain = mutual_information(x, y, ratio="qda", n_folds=3, random_state=0)
    bent = mutual_information(np.exp(3 * x), 1e6 * y**3 + 5, ratio="qda", n_folds=3, random_state=0)
    assert (plain.raw, plain.standard_error) == (bent.raw, bent.standard_error)


def test_information_is_symmetric() -> None:
    x, y = gaussian(1000, 1, 0.8, 0)
    there, back = (mutual_information(*pair, ratio="qda", random_state=0) for pair in ((x, y), (y, x)))
    assert there.raw == pytest.approx(back.raw, abs=there.standard_error)


def test_conditional_information_of_a_chain() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=1500)
    z = 0.9 * x + math.sqrt(1 - 0.81) * rng.normal(size=1500)
    y = 0.9 * z + math.sqrt(1 - 0.81) * rng.normal(size=1500)
    through = mutual_information(x, y, z, ratio="qda", random_state=0)  # x → z → y: nothing is left
    assert abs(through.raw) < 3 * through.standard_error
    assert through.standard_error < 0.05
    # y beside z tells of x: I(x; z | y) = I(x; z) - I(x; y)
    truth = -0.5 * math.log(1 - 0.81) + 0.5 * math.log(1 - 0.9**4)
    beside = mutual_information(x, z, y, ratio="qda", random_state=0)
    assert abs(beside.raw - truth) < 3 * beside.standard_error
    assert beside.value > 0.2


def test_conditional_information_is_no_more_than_the_truth() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=1500)
    z, y = x**2 + 0.02 * rng.normal(size=1500), x + 0.1 * rng.normal(size=1500)  # 0.656 nats, by sums over a grid
    wrong = mutual_information(x, y, z, ratio="qda", n_folds=5, random_state=0)  # sees nothing of a parabola
    assert wrong.verdict == "do not use"
    assert wrong.raw < 0.656 + 2 * wrong.standard_error
    low, high = wrong.interval()
    assert low <= 0.656 <= high


def test_conditional_information_of_trees() -> None:
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 1200)  # rows of the same z are as near as can be
    x = rng.normal(size=1200)
    y = np.where(z == 1, x, -x) + rng.normal(size=1200)  # given z, a correlation of ±√½; without it, none
    found = mutual_information(x, y, z, ratio="boosting", n_folds=3, random_state=0)
    # trees of 1200 rows see the half of it, and the estimate is a bound
    assert 0.17 < found.raw < 0.5 * math.log(2) + 2 * found.standard_error
    assert found.limit != "near the ln n ceiling"


def test_too_many_columns_to_condition_on_are_announced() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(400, 6))
    x, y = (z.sum(axis=1) + rng.normal(size=400) for _ in range(2))
    found = mutual_information(x, y, z, ratio="qda", n_folds=3, random_state=0)
    assert found.verdict == "do not use"
    assert "rows near in Z still differ" in found.reason


def test_rows_near_in_z_are_dealt() -> None:
    rng = np.random.default_rng(0)
    z, fold = rng.normal(size=(60, 2)), np.arange(60) % 3
    deals = nearest_rows(z, fold, 4, rng)
    for i in range(60):
        others = np.flatnonzero((fold == fold[i]) & (np.arange(60) != i))
        nearest = others[np.argsort(np.square(z[others] - z[i]).sum(axis=1))[:4]]
        assert set(deals[:, i]) == set(nearest)
    assert nearest_rows(z, fold, 100, rng).shape == (19, 60)
    same = nearest_rows(np.zeros((60, 1)), fold, 1, rng)
    assert len(np.unique(same)) > 30  # chance decides
    assert (distance(z, deals) < 0.5, distance(np.zeros((60, 1)), same)) == (True, 0.0)
    assert distance(z, np.array([rng.permutation(60) for _ in range(200)])) == pytest.approx(1, abs=0.1)


def test_constants_tell_nothing() -> None:
    x = np.random.default_rng(0).normal(size=50)
    for pair, name in (((np.zeros(50), x), "X"), ((x, np.ones(50)), "Y")):
        with pytest.warns(UserWarning, match=f"Column 1 of `{name}` is constant"):
            found = mutual_information(*pair, ratio="qda")
        assert (found.value, found.reason) == (0.0, f"`{name}` is constant, so there is no information.")


def test_identifiers_are_no_constants() -> None:
    y = np.random.default_rng(0).normal(size=60)
    names = pl.DataFrame({"who": [f"id {k}" for k in range(60)], "year": ["2024"] * 60})
    for table in (names, names.with_columns(who=pl.when(pl.Series(y) > 1).then(None).otherwise("who"))):
        with (
            pytest.warns(UserWarning, match="Left out 'who'"),
            pytest.raises(ArgumentError, match=r"^`X` has only text in which most rows have their own value, in 'who'"),
        ):
            mutual_information(table, y, ratio="qda")


def test_overfitting_is_called_by_its_name() -> None:
    from sklearn.neighbors import KNeighborsClassifier

    x, y = gaussian(300, 5, 0.3, 0)
    found = mutual_information(x, y, ratio=ClassifierRatio(KNeighborsClassifier(3)), n_folds=3, random_state=0)
    assert found.verdict == "do not use"
    assert "overfitted" in found.reason
    assert "Use more rows, or a simpler ratio." in found.reason
    assert found.raw == found.held_out


def test_deals_stay_within_folds_and_move_every_row() -> None:
    fold = np.random.default_rng(0).permutation(103) % 5
    deal = shuffled(fold, np.random.default_rng(1))
    assert sorted(deal) == list(range(103))
    assert (deal != np.arange(103)).all()
    np.testing.assert_array_equal(fold[deal], fold)


def test_what_rows_add_to_a_mean_over_pairs() -> None:
    rng = np.random.default_rng(0)
    deals = np.array([rng.permutation(6) for _ in range(3)])
    a, b = rng.normal(size=6), rng.normal(size=6)
    rows = by_row(a + b[deals], deals)  # a sum of what x and y bring: each row adds its own
    np.testing.assert_allclose(rows, a + b + b[deals].mean(axis=0) + _a_of_y(a, deals) - a.mean() - b.mean())
    assert rows.mean() == pytest.approx(a.mean() + b.mean())


def _a_of_y(a: np.ndarray, deals: np.ndarray) -> np.ndarray:
    out = np.zeros(len(a))
    for deal in deals:
        for i, j in enumerate(deal):
            out[j] += a[i] / len(deals)
    return out


def test_frames_and_columns() -> None:
    x, y = gaussian(100, 1, 0.8, 0)
    expected = mutual_information(x, y, ratio="qda", n_folds=2, random_state=0)
    for one, other in (
        (x[:, 0], y[:, 0]),
        (x[:, 0].tolist(), pd.Series(y[:, 0])),
        (pd.DataFrame({"x": x[:, 0]}), pl.DataFrame({"y": y[:, 0]})),
        (pl.Series(x[:, 0]), y),
    ):
        assert mutual_information(one, other, ratio="qda", n_folds=2, random_state=0).raw == expected.raw


def test_bad_input() -> None:
    x, y = gaussian(50, 2, 0.5, 0)
    with pytest.raises(ValueError, match=r"`Y` has 49 rows but `X` has 50\. All variables must have the same rows"):
        mutual_information(x, y[:49])
    with pytest.raises(ValueError, match="`Z` has 10 rows"):
        mutual_information(x, y, y[:10])
    with pytest.raises(ValueError, match="`X` has infinite values"):
        mutual_information(np.where(x > 2, np.inf, x), y)
    with pytest.raises(ValueError, match=r"`X` is 5\. Give its rows"):
        mutual_information(5, 3)
    with pytest.raises(ValueError, match=r"`X` has 3 rows\. Give at least 4"):
        mutual_information(x[:3], y[:3])
    with pytest.raises(ValueError, match=r"`n_folds` is 2\.5"):
        mutual_information(x, y, n_folds=2.5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"3 rows\. Give at least 4"):
        mutual_information(x[:3], y[:3])


def test_a_ratio_of_the_wrong_form_gives_a_lower_bound() -> None:
    rng = np.random.default_rng(0)
    scale = np.sqrt(1 / rng.chisquare(1, size=1500))  # Student pairs without correlation: 0.224 nats
    result = mutual_information(
        scale * rng.normal(size=1500), scale * rng.normal(size=1500), ratio="qda", random_state=0
    )
    assert (result.verdict, result.limit) == ("use with care", "lower bound")
    assert "a flexible check finds" in result.reason
    low, high = result.interval()
    assert low <= 0.224 <= high == math.inf


def test_categories_that_count_as_one_are_announced() -> None:
    rng = np.random.default_rng(0)
    code = rng.integers(0, 60, 600)
    y = (code % 2 + rng.normal(size=600)).astype(float)
    shops = pl.DataFrame({"shop": [f"s{k}" for k in code]})
    result = mutual_information(shops, y, ratio="qda", n_folds=2, random_state=0)
    assert "of the rows of 'shop'" in result.reason
    assert result.verdict != "reliable"
    few = mutual_information(pl.DataFrame({"shop": [f"s{k % 5}" for k in code]}), y, ratio="qda", n_folds=2)
    assert "count as one" not in few.reason


@pytest.mark.parametrize(("nu", "truth"), [(2.0, 0.0827), (3.0, 0.0428)])
def test_a_ratio_that_misses_dependence_in_the_tails_gives_a_lower_bound(nu: float, truth: float) -> None:
    rng, n = np.random.default_rng(1), 8000
    x, y = (rng.normal(size=(n, 2)) * np.sqrt(nu / rng.chisquare(nu, n))[:, None]).T
    result = mutual_information(x, y, ratio="qda", n_folds=3, random_state=0)
    assert result.held_out < truth / 2
    assert result.verdict == "use with care"
    assert result.limit == "lower bound"
    assert result.interval()[1] == math.inf


def test_a_lower_bound_includes_what_flexible_learners_confirm() -> None:
    """No copula shows this curve. With few rows the value is a bound, and its lower end is far above 0."""
    rng = np.random.default_rng(0)
    x = rng.random(600)
    result = mutual_information(x, np.sin(6 * x) + 0.3 * rng.normal(size=600), n_folds=3, random_state=0)
    assert result.limit == "lower bound"
    assert result.confirmed > 0.5
    assert 0.3 < result.interval()[0] < 0.863  # the truth


def test_rounding_is_printed_as_zero() -> None:
    conclusion = Conclusion(Verdict.RELIABLE, Limit.NONE, "a table of counts.")
    result = MutualInformation(resolution=0.0, **bounds_of(0.00333, 0.00333, 0.0, 1.7e-7, conclusion))
    assert str(result).startswith("Mutual information: 0.00333 nats, 0.0048 bits")


@pytest.mark.parametrize(
    ("value", "error", "resolution", "limit", "text"),
    [
        (0.363, 0.016, 0.0, Limit.NONE, "0.363 ± 0.016 nats, 0.524 bits (95 % interval: 0.3316 to 0.3944 nats)"),
        (0.0, 8.1e-4, 0.1, Limit.NONE, "0 (95 % interval: 0 to 0.196 nats)"),
        (0.001, 8.1e-4, 0.1, Limit.NONE, "0.001 nats, 0.00144 bits (95 % interval: 0 to 0.197 nats)"),
        (0.0, 0.0, 0.0, Limit.NONE, "0 (95 % interval: 0 to 0 nats)"),
        (0.0, 0.0, 0.1, Limit.LOWER_BOUND, "0 nats or more (95 % interval: from 0 nats, upper end unknown)"),
        (7.43, 0.0, 0.1, Limit.LOWER_BOUND, "7.43 nats, 10.7 bits (95 % interval: from 7.43 nats, upper end unknown)"),
        (1.0, 0.1, 0.1, Limit.CEILING, "1 nats, 1.44 bits (95 % interval: from 0.804 nats, upper end unknown)"),
    ],
)
def test_the_standard_error_is_printed_if_the_interval_follows_from_it(
    value: float, error: float, resolution: float, limit: Limit, text: str
) -> None:
    bounds = bounds_of(value, value, value, error, Conclusion(Verdict.CARE, limit, "a table of counts."))
    assert str(MutualInformation(resolution=resolution, **bounds)).startswith(f"Mutual information: {text}\n")


def test_a_ratio_that_sees_nothing_of_a_dependence_is_a_lower_bound_in_plain_words() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=600)
    result = mutual_information(x, x**2 + 0.3 * rng.normal(size=600), ratio="qda", n_folds=4, random_state=0)
    assert str(result).startswith("Mutual information: 0 nats or more (95 % interval: from 0 nats, upper end unknown)")
    assert "The ratio sees no dependence, so its result is only a lower bound: a flexible check finds" in str(result)
    assert "±" not in str(result)
    assert result.standard_error < 0.01  # that of the bound, in which log r is about 0
    numbers = dict(result._numbers())
    assert numbers["estimate"] == "0, a lower bound"
    assert float(numbers["standard error"]) < 0.01


def test_a_lower_bound_has_the_standard_error_of_the_bound() -> None:
    """Student pairs with a correlation: the ratio of Gaussians is a valid bound, and what it misses is no noise."""
    rng = np.random.default_rng(0)
    scale = np.sqrt(1 / rng.chisquare(1, size=1500))
    x = rng.normal(size=1500)
    result = mutual_information(scale * x, scale * (x + rng.normal(size=1500)), ratio="qda", random_state=0)
    assert result.limit == "lower bound"
    assert result.standard_error < 0.1  # log r has a deviation of about 1, and 1500 rows, 0.026, and fits differ
    low, _ = result.interval()
    assert 0 < low < result.value
    assert f"(95 % interval: from {low:.4g} nats, upper end unknown)" in str(result)


def test_a_ratio_of_one_is_explained() -> None:
    x, y, z = np.random.default_rng(0).normal(size=(3, 600))
    result = mutual_information(x, y, z, ratio="qda", random_state=0)
    assert str(result).startswith("Mutual information: 0 (95 % interval: 0 to ")
    assert "The upper end of the interval is what 600 rows can hide." in result.reason
    assert "the ratio is about 1 on all held-out rows, which shows no information." in result.reason
    assert result.interval()[1] > 0


@pytest.mark.parametrize(("ratio", "advice"), [(None, "Use more rows."), ("qda", "Use another ratio, or the default.")])
def test_the_default_is_not_advised_to_those_who_use_it(
    monkeypatch: pytest.MonkeyPatch, ratio: str | None, advice: str
) -> None:
    rng = np.random.default_rng(0)
    x, y, z = rng.normal(size=(3, 60))
    parts = information._Parts(rng.normal(1, 0.1, 60), np.ones(5), np.zeros(5), 1.0, 1.0, 0.0, 0.5, 0.1, 60.0)
    nothing = replace(parts, rows=np.zeros(60), missing=0.0, in_sample=0.0, confirmed=0.0)
    both = iter([parts, nothing])
    monkeypatch.setattr(information, "_information", lambda *arguments: next(both))
    monkeypatch.setattr(information, "distance", lambda *arguments: 0.0)
    result = mutual_information(x, y, z, ratio=ratio, random_state=0)
    assert "The ratio has the wrong form" in result.reason
    assert result.reason.endswith(advice)


def test_a_simpler_ratio_is_not_advised_to_those_who_gave_none() -> None:
    rows, nothing = np.random.default_rng(0).normal(0.1, 0.1, 60), np.zeros(60)
    dependence = Dependence(rows, 2.0, 0.1, "Gaussian copula of normal scores", 0.0, math.inf, 0.0, 0.0)
    assert information._flexible_result(dependence, 0.05).reason.endswith(" on held-out rows. Use more rows.")
    parts = information._Parts(rows, nothing[:5], nothing[:5], 2.0, 0.1, 0.0, 0.0, 0.0, 60.0)
    for advice, end in ((information._MORE_ROWS, "Use more rows."), (information._ANOTHER, "or a simpler ratio.")):
        assert information._result(parts, 0.05, advice).reason.endswith(end)


def test_the_upper_side_of_a_conditional_interval_is_longer() -> None:
    """Ratios can miss information. The default found 0.345 of 0.385 nats of a curve, with 2000 rows."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=1000)
    x = z + rng.normal(size=1000)
    y = z + 0.8 * x + rng.normal(size=1000)
    result = mutual_information(x, y, z, ratio="qda", random_state=0)
    low, high = result.interval()
    assert result.verdict == "reliable"
    assert low < 0.5 * math.log(1.64) < high
    assert (high - result.raw) / (result.raw - low) == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("ratio", [None, "qda"])
def test_the_same_column_twice_is_recognized(ratio: str | None) -> None:
    age = pd.Series(np.random.default_rng(0).normal(size=80), name="age")
    result = mutual_information(age, age, ratio=ratio, n_folds=2, random_state=0)
    assert "`X` and `Y` hold the same column 'age'." in result.reason
    assert (result.verdict == "reliable", result.interval()[1]) == (False, math.inf)
    assert "±" not in str(result)


def test_a_note_on_rare_categories_hides_no_other_note() -> None:
    rows = np.random.default_rng(0).normal(size=(2, 60, 1))
    left_out = LeftOut(("id",), "In `X`: left out 'id'.")
    variables = Variables(("X", "Y"), [*rows], [["'job'"], ["'pay'"]], {"job": 0.2}, 3, left_out)
    bounds = bounds_of(1.0, 1.0, 1.0, 0.1, Conclusion(Verdict.RELIABLE, Limit.NONE, "two rows agree."))
    result = information._with_notes(MutualInformation(resolution=0.0, **bounds), variables)
    assert (result.verdict, result.left_out) == ("use with care", ("id",))
    assert result.reason.startswith("The rare categories of text columns count as one: 20 % of the rows of 'job'.")
    note = "A value is missing in 3 of 60 rows. Missing counts as a value of its own."
    assert result.reason.endswith(f"{note} In `X`: left out 'id'.")


def test_missing_values_are_counted_in_the_reason() -> None:
    x, y = gaussian(100, 1, 0.5, 0)
    x[:7] = np.nan
    result = mutual_information(x, y, ratio="qda", n_folds=2, random_state=0)
    note = "A value is missing in 7 of 100 rows. Missing counts as a value of its own."
    assert result.reason.endswith(note)
    assert "missing" not in mutual_information(x[7:], y[7:], ratio="qda", n_folds=2, random_state=0).reason


def test_reasons_of_the_default_in_plain_words() -> None:
    rows = np.random.default_rng(0).normal(1.0, 0.1, 400)
    parts = Dependence(rows, 1.0, 1.0, "t-copula of normal scores", 0.0, math.inf, 0.0, 0.0)

    def reason(**changes: float) -> str:
        return information._flexible_conclusion(replace(parts, **changes), 1.0, 0.01, 0.001).reason

    assert reason() == "boosting and a network find nothing that a t-copula of normal scores misses."
    text = "boosting and a network find 0.04 nats that a t-copula of normal scores misses. They differ by 0.01 nats."
    assert reason(gain=0.04, disagreement=0.01) == text
    assert "grew by 0.2 nats, and more rows may change it." in reason(growth=0.2)
    text = "only 60 pairs of x and y from different rows look like real rows. That is too few to confirm the value"
    assert text in reason(effective_size=60.0)


def test_all_frequent_categories_of_text_count() -> None:
    rng = np.random.default_rng(0)
    city = rng.integers(0, 40, 3000)  # more than the 20 indicators of an encoded table
    channel = np.where(rng.random(3000) < 0.6, city % 4, rng.integers(0, 4, 3000))
    result = mutual_information([f"city {k}" for k in city], [f"channel {k}" for k in channel], random_state=0)
    truth = 0.7 * math.log(0.7 / 0.25) + 0.3 * math.log(0.1 / 0.25)
    assert result.verdict == "reliable"
    assert abs(result.value - truth) < 3 * result.standard_error < 0.15
