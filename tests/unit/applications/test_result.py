"""Results of all estimates share value, standard error, interval, verdict, reason, dictionary, figure and HTML."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from flowratio import (
    Divergence,
    Limit,
    MutualInformation,
    TwoSampleTest,
    Verdict,
    divergence,
    mutual_information,
    two_sample_test,
)
from flowratio.applications.result import Result, gaussian_interval

PARTS: dict[str, Any] = {
    "value": 1.0,
    "standard_error": 0.1,
    "raw": 1.0,
    "held_out": 0.9,
    "in_sample": 1.1,
    "confirmed": 0.7,
}


def bound(**changes: Any) -> MutualInformation:
    settings = {"limit": Limit.NONE, "verdict": Verdict.RELIABLE, "reason": "a < b", "resolution": 0.0}
    return MutualInformation(**{**PARTS, **settings, **changes})


def draw(shift: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(shift, 1, (60, 2)), rng.normal(0, 1, (80, 2))


@pytest.fixture(scope="module", params=["divergence", "information", "test"])
def result(request: pytest.FixtureRequest) -> Result:
    X_p, X_q = draw()
    if request.param == "divergence":
        return divergence(X_p, X_q, "js", ratio="logistic", random_state=0)
    if request.param == "information":
        return mutual_information(X_p[:, 0], X_p[:, 0] + X_p[:, 1], ratio="qda", n_folds=3, random_state=0)
    return two_sample_test(X_p, X_q, n_permutations=39, random_state=0)


def test_all_results_have_the_same_parts(result: Result) -> None:
    assert math.isfinite(result.value)
    assert result.standard_error > 0
    low, high = result.interval(0.9)
    assert result.interval(0.99)[0] <= low <= high <= result.interval(0.99)[1]
    numbers = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert numbers["verdict"] == str(result.verdict)
    ends = [end if math.isfinite(end) else None for end in result.interval()]  # an open end is None
    assert numbers["interval"] == ends
    assert {"value", "standard_error", "reason"} <= set(numbers)
    assert repr(result) == str(result)
    for level in (0, 1, "0.9"):
        with pytest.raises(ValueError, match=r"`level` is .*\. Use a number between 0 and 1"):
            result.interval(level)  # pyright: ignore[reportArgumentType]


def test_results_cannot_be_changed(result: Result) -> None:
    with pytest.raises(AttributeError):
        result.value = 3.0  # pyright: ignore[reportAttributeAccessIssue]


def test_a_figure_shows_the_estimate(result: Result) -> None:
    figure = result.plot()
    (axes,) = figure.axes
    assert axes.get_title() == str(result.verdict).capitalize()
    (line,) = [line for line in axes.lines if line.get_color() == "black"]
    assert np.asarray(line.get_xdata(), float)[0] == pytest.approx(getattr(result, "statistic", result.value))
    figure.canvas.draw()


def test_html_is_escaped() -> None:
    page = bound()._repr_html_()
    assert page.startswith("<p><strong>Verdict: reliable.</strong> A &lt; b</p>")
    assert "0.804 to 1.196" in page


def test_an_interval_is_gaussian_and_cut_off() -> None:
    low, high = gaussian_interval(1.0, 0.1, 0.95)
    assert (low, high) == (pytest.approx(0.804, abs=1e-3), pytest.approx(1.196, abs=1e-3))
    assert gaussian_interval(0.0, 0.1, 0.95)[0] == 0.0
    assert gaussian_interval(0.65, 0.1, 0.95, math.log(2))[1] == math.log(2)


@pytest.mark.parametrize("limit", [Limit.LOWER_BOUND, Limit.CEILING])
def test_a_limit_opens_the_interval(limit: Limit) -> None:
    low, high = bound(limit=limit, verdict=Verdict.CARE).interval()
    assert (low, high) == (pytest.approx(0.7 - 0.196, abs=1e-3), math.inf)
    assert bound(limit=limit).to_dict()["interval"][1] is None
    assert "0.504 or more" in bound(limit=limit)._repr_html_()
    wrong = Divergence(
        **{**PARTS, "held_out": -1.0}, kind="js", log_p=np.zeros(1), log_q=np.zeros(1),
        limit=Limit.NONE, verdict=Verdict.DO_NOT_USE, reason="",
    )  # fmt: skip
    assert wrong.interval()[1] == math.log(2)


def test_resolution_widens_the_upper_end_only() -> None:
    plain, coarse = bound().interval(), bound(resolution=0.5).interval()
    assert coarse[0] == plain[0]
    assert coarse[1] > plain[1] + 0.5


def test_the_interval_of_a_p_value_is_binomial() -> None:
    found = two_sample_test(*draw(0.1), n_permutations=60, random_state=1)
    m, b = 60, round(found.p_value * 61) - 1
    assert 0 < b < m
    low, high = found.interval(0.9)
    assert binom.sf(b - 1, m, low) == pytest.approx(0.05)
    assert binom.cdf(b, m, high) == pytest.approx(0.05)
    assert found.standard_error == pytest.approx(math.sqrt(found.value * (1 - found.value) / 61))


@pytest.mark.parametrize("shift", [0.0, 0.1, 2.0])
def test_the_interval_of_a_test_is_that_of_its_value(shift: float) -> None:
    test = two_sample_test(*draw(shift), n_permutations=39, random_state=1)
    numbers = test.to_dict()
    assert numbers["interval"][0] <= numbers["value"] <= numbers["interval"][1]
    assert numbers["value"] == numbers["p_value"] == test.p_value
    assert numbers["statistic"] == test.statistic


def test_verdicts_of_a_test() -> None:
    found = two_sample_test(*draw(2.0), n_permutations=39, random_state=0)
    assert found.verdict == "the files differ"
    assert str(found).startswith("The files differ (p = 0.025, 39 permutations). Largest change")
    assert found.interval()[0] == 0.0
    unchanged = two_sample_test(*draw(0.0), n_permutations=39, random_state=0)
    assert "Largest changes" not in str(unchanged)
    same = TwoSampleTest.to_dict(unchanged)
    assert same["verdict"] == "no difference found"
    assert same["drivers"] == []
