from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import expit
from sklearn.base import BaseEstimator
from torch import Tensor
from typing_extensions import Self

from flowratio import (
    AutoRatio,
    ClassifierRatio,
    FeaturizedRatio,
    FlowFeaturizer,
    JointFeaturizedRatio,
    NetworkRatio,
    RatioEstimator,
    Standardizer,
    Whitener,
    load,
    save,
)
from flowratio.flows import MAF, Flow
from flowratio.ratios.advice import untried_note
from flowratio.ratios.auto import auto, fitting, race
from flowratio.ratios.auto.auto import BudgetWarning
from flowratio.ratios.auto.results import AutoResults, Candidate, Status
from flowratio.ratios.base import OverlapWarning
from flowratio.ratios.registry import RATIOS
from flowratio.samples.two_samples import TwoSamples, two_samples

pytestmark = pytest.mark.filterwarnings("ignore::flowratio.ratios.base.OverlapWarning")

SHIFT = np.array([1.0, -0.5])


def draw(n_p: int = 200, n_q: int = 250, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of p = N(SHIFT, I) and of q = N(0, I) with their labels."""
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(size=(n_p, 2)) + SHIFT, rng.normal(size=(n_q, 2))])
    return X, np.repeat([1, 0], [n_p, n_q])


def named(ratio: AutoRatio) -> dict[str, Candidate]:
    return {one.name: one for one in ratio.results_.candidates}


def race_of(X: np.ndarray, y: np.ndarray, budget: float | None) -> race.Race:
    return race.Race(TwoSamples.of(X, y == 1, np.ones(len(X))), np.arange(len(X)) % 5, 0, budget)


class Clock:
    """Seconds that pass only where a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Fake(BaseEstimator):
    """A fixed log-ratio, slope · x, that is not a class of flowratio but has the methods.

    Parameters
    ----------
    slope
        Factor of log r. The true log r has 1.
    error
        Message of the error of its fit. Empty for none.
    seconds
        Time of its fit for each row.
    """

    fits: ClassVar[list[tuple[float, np.ndarray]]] = []
    clock: ClassVar[Clock] = Clock()

    def __init__(self, slope: float = 1.0, error: str = "", seconds: float = 0.0) -> None:
        self.slope = slope
        self.error = error
        self.seconds = seconds

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Self:
        self.clock.now += self.seconds * len(X)
        self.fits.append((self.slope, X))
        if self.error:
            raise RuntimeError(self.error)
        return self

    def log_ratio(self, X: np.ndarray) -> np.ndarray:
        return self.slope * (X @ SHIFT - SHIFT @ SHIFT / 2)


@pytest.fixture(autouse=True)
def _no_fits() -> Iterator[None]:
    Fake.fits.clear()
    yield
    Fake.fits.clear()


def fits(slope: float) -> list[np.ndarray]:
    """Return the rows of each fit of the fake with this slope."""
    return [X for one, X in Fake.fits if one == slope]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (auto, race, fitting):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=clock))
    monkeypatch.setattr(Fake, "clock", clock)
    return clock


class Unbend(Flow):
    """z = (x₁, x₂ - 2 x₁²): a fixed map."""

    def __init__(self) -> None:
        super().__init__(2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.stack([x[:, 0], x[:, 1] - 2 * x[:, 0] ** 2], dim=1), x.new_zeros(len(x))

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        return torch.stack([z[:, 0], z[:, 1] + 2 * z[:, 0] ** 2], dim=1), z.new_zeros(len(z))


def small_flow() -> FlowFeaturizer:
    return FlowFeaturizer(n_blocks=2, hidden=(8,), max_epochs=3, patience=3)


# Scores and combination


def test_every_candidate_has_a_score_or_a_note_and_a_line_in_the_table() -> None:
    candidates = {"good": Fake(), "bad": Fake(-5.0), "broken": Fake(2.0, error="no such luck"), "plain": "logistic"}
    ratio = AutoRatio(candidates, random_state=0).fit(*draw())
    entries = named(ratio)
    assert entries.keys() == candidates.keys()
    table = str(ratio.results_)
    for name, one in entries.items():
        assert math.isfinite(one.score) != bool(one.note)
        assert (one.status is Status.SCORED) == math.isfinite(one.score)
        assert math.isnan(one.standard_error) == math.isnan(one.score)
        assert one.seconds >= 0
        assert any(line.startswith(f"{name} ") and one.note in line for line in table.splitlines())
    scores = [one.score for one in ratio.results_.candidates if not one.note]
    assert scores == sorted(scores, reverse=True)
    assert all(one.note for one in ratio.results_.candidates[len(scores) :])
    assert ratio.results_.verdict in table
    assert repr(ratio.results_) == table
    weights = {name: one.weight for name, one in entries.items() if one.weight}
    assert weights == dict(zip(ratio.names_, ratio.shares_.tolist(), strict=True))


def test_candidates_are_scored_on_held_out_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race, "_MIN_ROWS_TO_STOP", 1000)  # 124 rows may stop either of them by chance
    X, y = draw(53, 71)
    ratio = AutoRatio({"fake": Fake(), "logistic": "logistic"}, random_state=3, time_budget=None).fit(X, y)
    fitted = [{tuple(row) for row in rows.tolist()} for rows in fits(1.0)]
    everything = {tuple(row) for row in X.tolist()}
    aside = [everything - rows for rows in fitted]
    assert len(aside) == 5
    assert set.union(*aside) == everything
    assert sum(map(len, aside)) == len(everything)  # each row is held out once
    log_r, is_p = np.empty(len(X)), y == 1
    for rows in aside:
        test = np.array([tuple(row) in rows for row in X.tolist()])
        assert 0 < is_p[test].sum() < test.sum()
        log_r[test] = ClassifierRatio("logistic").fit(X[~test], y[~test]).log_ratio(X[test])
    losses = -np.log(expit(np.where(is_p, 1, -1) * log_r))
    by_hand = math.log(2) - 0.5 * (losses[is_p].mean() + losses[~is_p].mean())
    entry = named(ratio)["logistic"]
    assert entry.score == pytest.approx(by_hand, abs=1e-9)
    error = 0.5 * math.sqrt(losses[is_p].var() / is_p.sum() + losses[~is_p].var() / (~is_p).sum())
    assert entry.standard_error == pytest.approx(error, rel=1e-6)
    in_sample = ClassifierRatio("logistic").fit(X, y).score(X, y)
    assert entry.score < in_sample - 1e-4  # the score of training rows is higher


def test_log_ratio_is_the_weighted_mean_of_the_models() -> None:
    X, y = draw()
    halves = {"first": Fake(0.4), "second": Fake(1.8), "logistic": ClassifierRatio("logistic")}
    ratio = AutoRatio(halves, random_state=0).fit(X, y)
    fits = [np.array([model.log_ratio(X) for model in models]) for models in ratio.models_]
    weights = [share / (1 + each.var(axis=0, ddof=1) / 64) for share, each in zip(ratio.shares_, fits, strict=True)]
    means = [each.mean(axis=0) for each in fits]
    by_hand = ratio.shares_.sum() * np.einsum("kn,kn->n", weights, means) / np.sum(weights, axis=0)
    np.testing.assert_allclose(ratio.log_ratio(X), by_hand, rtol=0, atol=1e-12)
    assert all(len(models) == 5 for models in ratio.models_)
    assert (ratio.shares_ > 0).all()
    assert ratio.shares_.sum() <= 1 + 1e-12


def test_a_candidate_whose_fits_disagree_counts_less() -> None:
    """Held-out rows of the losing sample hardly see how extreme a log-ratio is: -500 or -10 cost nearly the same."""
    X, y = draw()
    ratio = AutoRatio({"first": Fake(0.4), "second": Fake(1.8)}, random_state=0).fit(X, y)
    row, truth = np.array([[-10.0, -10.0]]), Fake().log_ratio(np.array([[-10.0, -10.0]]))[0]
    ratio.shares_, ratio.models_ = np.array([0.5, 0.5]), [[Fake(1.0), Fake(1.0)], [Fake(1.0), Fake(99.0)]]
    variance = (98 * truth) ** 2 / 2
    second = 0.5 / (1 + variance / 64)
    expected = (0.5 * truth + second * 50 * truth) / (0.5 + second)
    assert ratio.log_ratio(row)[0] == pytest.approx(expected, rel=1e-12)
    assert abs(expected / truth - 1) < 0.03  # it would be 24.5 by the mean
    ratio.shares_, ratio.models_ = np.array([0.25, 0.5]), [[Fake(1.0)], [Fake(99.0)]]  # one fold does not show it
    assert ratio.log_ratio(row)[0] == pytest.approx((0.25 + 0.5 * 99) * truth)
    ratio.shares_, ratio.models_ = np.array([0.5, 0.5]), 2 * [[Fake(1.0), Fake(1e200)]]
    assert np.isfinite(ratio.log_ratio(row)).all()


def test_two_halves_of_the_truth_are_put_together() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(1, 1, (1000, 2)), rng.normal(0, 1, (1000, 2))])
    y = np.repeat([1, 0], 1000)

    class OneColumn(Fake):
        def log_ratio(self, X: np.ndarray) -> np.ndarray:
            return 2 * X[:, int(self.slope)] - 1

    candidates = {"x₁": OneColumn(0.0), "x₂": OneColumn(1.0)}
    ratio = AutoRatio(candidates, random_state=0).fit(X, y)
    np.testing.assert_allclose(ratio.shares_, 0.5, atol=0.1)  # log r = x₁ + x₂ - 1; a weight is known to 0.03
    best = AutoRatio(candidates, combine="best", random_state=0).fit(X, y)
    assert len(best.names_) == 1
    assert best.shares_.tolist() == [1.0]


def test_of_two_equal_candidates_the_first_is_used() -> None:
    for order in (["a", "b"], ["b", "a"]):
        candidates = {name: Fake() for name in order}
        best = AutoRatio(candidates, combine="best", random_state=0).fit(*draw(400, 400))
        assert best.names_ == order[:1]
        stack = AutoRatio(candidates, random_state=0).fit(*draw(400, 400))
        assert stack.names_[0] == order[0]
        assert stack.shares_[0] >= 800 / 1800  # those of a stack of few, beside any others


def test_identical_samples() -> None:
    candidates = ["lda", "logistic", "qda", "additive", "boosting"]
    names = []
    for seed in range(4):
        X = np.random.default_rng(seed).normal(size=(800, 2))
        ratio = AutoRatio(candidates, random_state=0).fit(X, np.repeat([1, 0], 400))
        names += ratio.names_
        # a peer gives ratios of 0.13 to 8 here
        assert np.abs(ratio.log_ratio(X)).max() < (1e-12 if not ratio.names_ else math.log(2))
    assert len(names) <= 1  # r = 1 is better than all of them, but for chance


# The flow


def banana(n: int, bent: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal([0.0, 1.0], 1.0, (n, 2)), rng.normal(size=(n, 2))])
    if bent:
        X[:, 1] += 2 * X[:, 0] ** 2
    return X, np.repeat([1, 0], n)


@pytest.mark.parametrize("bent", [True, False])
def test_the_verdict_on_the_flow(bent: bool) -> None:
    candidates = {
        "logistic": ClassifierRatio("logistic"),
        "logistic in z": FeaturizedRatio("logistic", featurizer=FlowFeaturizer(Unbend())),
    }
    # log r = z₂ - 1/2 if bent: x₂ has a variance of 8 beside it. Without a bend x₂ is log r, and z has that variance
    ratio = AutoRatio(candidates, random_state=0).fit(*banana(500, bent))
    entries = named(ratio)
    assert [one.in_latent_space for one in (entries["logistic"], entries["logistic in z"])] == [False, True]
    assert ratio.names_[np.argmax(ratio.shares_)] == ("logistic in z" if bent else "logistic")
    expected = r"The flow helped: .* clearly worse after \d of 5 folds\." if bent else r"The flow did not help: .*"
    assert re.fullmatch(expected, ratio.results_.verdict)


def test_joint_training_is_of_a_latent_space() -> None:
    joint = JointFeaturizedRatio(featurizer=small_flow(), hidden=(8,))
    ratio = AutoRatio({"joint": joint}, n_folds=2, random_state=0).fit(*draw())
    assert named(ratio)["joint"].in_latent_space
    assert "was scored" not in ratio.results_.verdict


def test_the_verdict_without_a_flow() -> None:
    ratio = AutoRatio(["logistic"], random_state=0).fit(*draw())
    assert ratio.results_.verdict == ""  # the flow is not the question
    assert not str(ratio.results_).endswith("\n")


def test_candidates_of_one_latent_space_train_one_flow_a_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    featurizers: list[FlowFeaturizer] = []
    fit = FlowFeaturizer.fit

    def counted(self: FlowFeaturizer, X: Any, y: Any = None) -> FlowFeaturizer:
        featurizers.append(self)
        return fit(self, X, y)

    monkeypatch.setattr(FlowFeaturizer, "fit", counted)
    in_z = {f"{name} in z": FeaturizedRatio(name, featurizer=small_flow()) for name in ("logistic", "lda", "qda")}
    other = FeaturizedRatio("lda", featurizer=small_flow().set_params(n_blocks=1))
    AutoRatio(in_z, n_folds=3, random_state=0).fit(*draw())
    assert len(featurizers) == 3
    AutoRatio({**in_z, "another flow": other}, n_folds=3, random_state=0).fit(*draw())
    assert 3 + 4 <= len(featurizers) <= 3 + 6  # the other one may be stopped early


def test_latent_spaces_are_compared_by_value() -> None:
    def key(**settings: Any) -> str | None:
        return fitting.latent_space_key(FeaturizedRatio("lda", featurizer=small_flow().set_params(**settings)))

    def follow(_: Any) -> None: ...

    assert key(callback=follow) == key(callback=follow) != key(callback=lambda _: None)
    assert key(hidden=(8,) * 40) == key(hidden=(8,) * 40) != key(hidden=(8,) * 39 + (9,))  # the repr has 30 of them
    assert key() != key(scaling=Standardizer()) != key(scaling=Whitener())
    ratios = [FeaturizedRatio("lda", featurizer=featurizer) for featurizer in (None, Standardizer(), Whitener())]
    ratios += [FeaturizedRatio("lda", mixture="balanced"), FeaturizedRatio("lda", random_state=1)]
    assert len({*map(fitting.latent_space_key, ratios)}) == 5


def test_a_shared_flow_changes_nothing() -> None:
    X, y = draw()
    in_z = {f"{name} in z": FeaturizedRatio(name, featurizer=small_flow()) for name in ("logistic", "lda")}
    settings: dict[str, Any] = {"n_folds": 2, "random_state": 0}
    together = named(AutoRatio(in_z, **settings).fit(X, y))
    alone = named(AutoRatio({"lda in z": in_z["lda in z"]}, **settings).fit(X, y))
    assert together["lda in z"].score == pytest.approx(alone["lda in z"].score, abs=1e-9)


# Time, failures, and what cannot win


def test_a_budget_too_short_for_anything() -> None:
    X, y = draw()
    with pytest.warns(BudgetWarning, match=r"`time_budget` is 1e-09 seconds, too short.*logistic"):
        ratio = AutoRatio(["lda", "mlp"], time_budget=1e-9, random_state=0).fit(X, y)
    assert ratio.names_ == ["logistic"]
    np.testing.assert_allclose(
        ratio.log_ratio(X), ClassifierRatio("logistic").fit(X, y).log_ratio(X), rtol=0, atol=1e-9
    )
    assert {"lda", "mlp", "logistic"} == named(ratio).keys()
    assert all(one.note for one in ratio.results_.candidates)
    assert ratio.results_.verdict.startswith("No candidate was scored. ")
    assert named(ratio)["logistic"].status is Status.BASELINE
    assert named(ratio)["mlp"].status is Status.NO_TIME


def test_one_fold_of_each_comes_before_five_of_any(clock: Clock) -> None:
    candidates = {"a": Fake(), "b": Fake(0.9), "c": Fake(1.1)}
    AutoRatio(candidates, time_budget=100.0, random_state=0).fit(*draw())
    slopes = [slope for slope, _ in Fake.fits]
    assert slopes[:3] == [1.0, 0.9, 1.1]
    assert slopes[3:6] == [1.0, 0.9, 1.1]
    assert len(slopes) == 15


def test_a_slow_candidate_is_not_fitted_again(clock: Clock) -> None:
    candidates = {"fast": Fake(), "slow": Fake(0.9, seconds=1.0), "late": Fake(0.8)}
    ratio = AutoRatio(candidates, time_budget=500.0, random_state=0).fit(*draw())
    assert len(fits(0.9)) == 1  # 360 seconds. 450 rows are too few for a trial
    assert len(fits(1.0)) == len(fits(0.8)) == 5
    entries = named(ratio)
    assert entries["fast"].status is entries["late"].status is Status.SCORED
    assert entries["slow"].status is Status.NO_TIME
    assert re.fullmatch(r"no time: 1 of 5 folds, about 18\d\d s needed", entries["slow"].note)
    assert entries["slow"].seconds == pytest.approx(360, rel=0.1)
    # 360 seconds that are over and 1800 that are needed, with a margin of a quarter
    note = "The budget was enough to try 2 of 3 candidates in full, and the best are used."
    note += " All would take a budget of about 2700 s."
    assert ratio.results_.verdict.endswith(note)
    assert ratio.untried() == ratio.selection().untried() == note
    assert untried_note(ratio.inverse()) == note
    assert clock.now < 500


def test_a_slow_candidate_is_fitted_to_fewer_rows(clock: Clock) -> None:
    X, y = draw(4000, 4000)
    candidates = {"slow": Fake(0.9, seconds=0.05), "fast": Fake(), "late": Fake(0.8, seconds=1e-4)}
    ratio = AutoRatio(candidates, time_budget=500.0, random_state=0).fit(X, y)
    assert [slope for slope, X in Fake.fits if len(X) > 6000][:2] == [1.0, 0.8]  # the cheapest first
    entries = named(ratio)
    assert entries["late"].status is Status.SCORED
    rows = [len(X) for X in fits(0.9)]
    assert rows[0] == 500  # a trial of 25 seconds. All rows of a fold would take 320
    assert 1000 <= rows[1] < 6000
    assert "fitted to" in entries["slow"].note
    assert clock.now < 500


def test_a_candidate_that_is_too_slow_for_a_trial_is_left_out(clock: Clock) -> None:
    candidates = {"fast": Fake(), "slow": Fake(0.9, seconds=1.0), "late": Fake(0.8)}
    ratio = AutoRatio(candidates, time_budget=1000.0, random_state=0).fit(*draw(4000, 4000))
    assert [len(rows) for rows in fits(0.9)] == [500]  # seconds, for a share of about 250
    assert named(ratio)["slow"].status is Status.NO_TIME
    assert named(ratio)["slow"].note == "no time: first fold needs about 6.4e+03 s"
    assert named(ratio)["late"].status is Status.SCORED
    assert clock.now < 1000


def test_one_fold_of_each_comes_before_more_folds_of_any(clock: Clock) -> None:
    fast = {f"fast {k}": Fake(1.0 - k / 100) for k in range(3)}
    slow = {f"slow {k}": Fake(-0.5 - k / 10, seconds=0.02) for k in range(4)}
    ratio = AutoRatio({**fast, **slow}, time_budget=100.0, random_state=0).fit(*draw(4000, 4000))
    n_folds = [sum(len(X) not in (500, 2000) for X in fits(one.slope)) for one in (*fast.values(), *slow.values())]
    assert n_folds == [5, 5, 5, 1, 1, 0, 0]  # 20 seconds for 1000 rows, more than a share of 12 seconds
    assert all(slope > 0 for slope, _ in Fake.fits[-12:])  # more folds come last
    assert named(ratio)["slow 3"].note == "no time: first fold needs about 1.3e+02 s"
    assert clock.now < 100


def test_no_candidate_is_fitted_when_the_time_is_over(clock: Clock) -> None:
    candidates = {"slow": Fake(0.9, seconds=1.0), "late": Fake(0.8)}
    ratio = AutoRatio(candidates, time_budget=200.0, random_state=0).fit(*draw())
    assert [len(rows) for rows in fits(0.9)] == [360]
    assert fits(0.8) == []
    assert named(ratio)["late"].note == "no time: first fold needs about 3.6e+02 s"  # as long as the other one
    assert named(ratio)["slow"].status is Status.SCORED  # on the one fold that there is
    assert len(ratio.models_[0]) == 1


def test_the_best_candidate_gets_the_folds_that_there_is_time_for(clock: Clock) -> None:
    candidates = {"wrong": Fake(-2.0), "best": Fake(1.0, seconds=0.1)}
    ratio = AutoRatio(candidates, time_budget=120.0, random_state=0).fit(*draw())
    assert len(fits(1.0)) == 3  # 36 seconds each
    assert "best" in ratio.names_
    assert all(len(models) == 3 for models in ratio.models_)
    assert clock.now < 120


def test_time_that_is_left_buys_more_rows_for_the_best(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race, "_SCORED_ROWS", 1000)  # one fold is enough for a score
    slopes = {"best": 1.0, "wrong": -0.5, "worse": -0.7, "bad": -0.9}
    candidates = {name: Fake(slope, seconds=0.002) for name, slope in slopes.items()}
    AutoRatio(candidates, time_budget=60.0, random_state=0).fit(*draw(10_000, 10_000))
    rows = [len(X) for X in fits(1.0)]  # two trials, a fit to as many rows as its share allows, and one to more
    assert rows[:2] == [500, 2000]
    assert 1.5 * rows[2] <= rows[3] < 16_000
    assert len(rows) == 4
    assert clock.now < 60


def test_the_training_of_a_network_ends_in_time() -> None:
    X, y = draw()
    mlp = NetworkRatio("mlp", max_epochs=10**6, patience=10**6)  # hours
    ratio = AutoRatio({"logistic": "logistic", "mlp": mlp}, n_folds=2, time_budget=2.0, random_state=0).fit(X, y)
    assert "training cut short" in named(ratio)["mlp"].note
    for models in ratio.models_:
        for model in models:
            assert getattr(model, "callback", None) is None  # the limit is not a setting of the result


def test_without_a_budget_there_is_no_trial(clock: Clock) -> None:
    AutoRatio({"slow": Fake(seconds=10.0)}, time_budget=None, random_state=0).fit(*draw(4000, 4000))
    assert all(len(rows) > 6000 for rows in fits(1.0))


def test_one_that_fails_stops_no_other() -> None:
    candidates = {"broken": Fake(2.0, error="no such luck"), "good": Fake()}
    ratio = AutoRatio(candidates, random_state=0).fit(*draw())
    assert ratio.names_ == ["good"]
    assert named(ratio)["broken"].status is Status.FAILED
    assert named(ratio)["broken"].note == "failed: no such luck"
    assert len(fits(2.0)) == 1


def test_all_fail() -> None:
    candidates = {"one": Fake(error="no such luck"), "two": Fake(error="a bad\nday")}
    with pytest.raises(
        ValueError,
        match=r"All 2 candidates have failed \(one: no such luck; two: a bad day\)\. Fix the data, or use others",
    ):
        AutoRatio(candidates, random_state=0).fit(*draw())


def test_log_ratios_that_are_not_finite_are_a_failure() -> None:
    class Broken(Fake):
        def log_ratio(self, X: np.ndarray) -> np.ndarray:
            return np.where(X[:, 0] > 1, np.nan, 0.0)

    ratio = AutoRatio({"broken": Broken(), "good": Fake()}, random_state=0).fit(*draw())
    assert named(ratio)["broken"].status is Status.FAILED
    assert ratio.names_ == ["good"]


def test_a_hopeless_candidate_is_stopped_early() -> None:
    ratio = AutoRatio({"good": Fake(), "bad": Fake(-5.0)}, random_state=0).fit(*draw())
    assert 1 <= len(fits(-5.0)) < 5
    assert named(ratio)["bad"].status is Status.STOPPED
    assert re.fullmatch(r"stopped early: after [1-4] of 5 folds", named(ratio)["bad"].note)
    assert math.isnan(named(ratio)["bad"].score)


def test_many_rows_are_not_scored_on_all_folds() -> None:
    ratio = AutoRatio({"fake": Fake()}, random_state=0, time_budget=None).fit(*draw(30_000, 30_000))
    assert 1 <= len(ratio.models_[0]) == len(fits(1.0)) < 5


# What holds for all ratios


def exact() -> AutoRatio:
    return AutoRatio(["logistic", "lda", "qda", "additive"], n_folds=3, random_state=0)


def test_whole_weights_count_rows() -> None:
    X, y = draw(120, 150)
    w = np.random.default_rng(1).integers(1, 4, len(X))
    weighted, repeated = exact().fit(X, y, w), exact().fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    assert weighted.names_ == repeated.names_
    np.testing.assert_allclose(weighted.log_ratio(X), repeated.log_ratio(X), rtol=0, atol=1e-6)
    assert np.abs(weighted.log_ratio(X) - exact().fit(X, y).log_ratio(X)).max() > 1e-3


def test_weights_reach_the_scores() -> None:
    X, y = draw()
    w = np.random.default_rng(1).integers(1, 4, len(X))
    ratio = AutoRatio({"fake": Fake()}, random_state=0).fit(X, y, w)
    losses = -np.log(expit(np.where(y == 1, 1, -1) * Fake().log_ratio(X)))
    by_hand = math.log(2) - 0.5 * sum(np.average(losses[y == k], weights=w[y == k]) for k in (0, 1))
    assert named(ratio)["fake"].score == pytest.approx(by_hand, abs=1e-9)


def test_the_order_of_rows_does_not_matter() -> None:
    X, y = draw()
    order = np.random.default_rng(1).permutation(len(X))
    plain, shuffled = exact().fit(X, y), exact().fit(X[order], y[order])
    np.testing.assert_allclose(shuffled.log_ratio(X), plain.log_ratio(X), rtol=0, atol=1e-6)


def test_a_seed_gives_the_same_bits() -> None:
    X, y = draw()
    candidates = ["logistic", FeaturizedRatio("lda", featurizer=small_flow()), ClassifierRatio("boosting")]
    first, second = (AutoRatio(candidates, n_folds=2, random_state=5).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(first.log_ratio(X), second.log_ratio(X))
    assert [one.score for one in first.results_.candidates] == [one.score for one in second.results_.candidates]
    other = AutoRatio(["logistic"], n_folds=2, random_state=6).fit(X, y)
    assert other.results_.candidates[0].score != named(first)["logistic"].score  # other folds


def test_saved_is_loaded(tmp_path: Path) -> None:
    X, y = banana(300, bent=True)
    in_z = FeaturizedRatio("logistic", featurizer=small_flow())
    ratio = AutoRatio({"logistic": "logistic", "qda": "qda", "in z": in_z}, n_folds=2, random_state=0).fit(X, y)
    save(ratio, tmp_path)
    again: Any = load(tmp_path)
    np.testing.assert_array_equal(again.log_ratio(X), ratio.log_ratio(X))
    assert str(again.results_) == str(ratio.results_)
    assert again.names_ == ratio.names_


# Settings


def test_candidates_come_as_names_as_ratios_and_by_name() -> None:
    X, y = draw()
    logistic = ClassifierRatio("logistic")
    scores = []
    for candidates in (["logistic"], [logistic], {"mine": logistic}, {"mine": "logistic"}, ("logistic",)):
        ratio = AutoRatio(candidates, random_state=0).fit(X, y)
        scores.append(ratio.results_.candidates[0].score)
        if isinstance(candidates, dict):
            assert ratio.names_ == ["mine"]
    assert len(set(scores)) == 1
    assert not hasattr(logistic, "classes_")  # the candidate itself is never fitted
    assert not RATIOS["rulsif"].candidate
    assert AutoRatio(["rulsif"], random_state=0).fit(X, y).results_.candidates[0].name == "rulsif"


def test_default_candidates_are_named_ratios() -> None:
    ratios = AutoRatio()._candidates()
    assert [*ratios] == [name for name, entry in RATIOS.items() if entry.candidate]
    assert all(isinstance(ratio, RatioEstimator) for ratio in ratios.values())
    assert any(isinstance(ratio, FeaturizedRatio) for ratio in ratios.values())
    assert all(ratio.get_params(deep=False).get("random_state") is None for ratio in ratios.values())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"candidates": "logistic"}, "`candidates` is 'logistic'"),
        ({"candidates": []}, "`candidates`"),
        ({"candidates": {}}, "`candidates`"),
        ({"candidates": 3}, "`candidates` is 3"),
        ({"candidates": ["logistic", "magic"]}, "`candidates` is 'magic'.*logistic"),
        ({"candidates": {"mine": "magic"}}, "mine: .*magic"),
        ({"candidates": [ClassifierRatio]}, "have failed.*log_ratio"),
        ({"combine": "mean"}, "`combine` is 'mean'.*Use one of stack, best"),
        ({"n_folds": 1}, "`n_folds` is 1"),
        ({"n_folds": 2.5}, "`n_folds` is 2.5"),
        ({"n_folds": True}, "`n_folds` is True"),
        ({"time_budget": 0}, "`time_budget` is 0"),
        ({"time_budget": -1.0}, "`time_budget` is -1"),
        ({"time_budget": math.nan}, "`time_budget` is nan"),
        ({"time_budget": "long"}, "`time_budget` is 'long'"),
        ({"random_state": "a"}, "`random_state` is 'a'"),
    ],
)
def test_bad_settings(settings: dict[str, Any], words: str) -> None:
    ratio = AutoRatio(**{"candidates": ["logistic"], **settings})
    with pytest.raises((ValueError, TypeError), match=words):
        ratio.fit(*draw(20, 20))
    assert not hasattr(ratio, "results_")


def test_it_is_silent_unless_verbose(capfd: pytest.CaptureFixture[str]) -> None:
    AutoRatio(["logistic", "qda"], random_state=0).fit(*draw())
    assert capfd.readouterr() == ("", "")
    AutoRatio(["logistic", "qda"], random_state=0, verbose=True).fit(*draw())
    assert capfd.readouterr() == ("", "")  # no terminal, no bar


@pytest.mark.usefixtures("terminal")
def test_the_bar_has_the_candidate_at_work_and_a_time_left_that_falls(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    candidates = {f"number {k}": Fake(1 - k / 10, seconds=0.01) for k in range(6)}
    AutoRatio(candidates, time_budget=120.0, random_state=0, verbose=True).fit(*draw())
    out, err = capsys.readouterr()
    assert out == ""
    err = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", err)
    steps = re.findall(r"(\d)/7 steps, about (\d):(\d\d) left, now number (\d)", err)
    left: dict[int, int] = {}
    for n_steps, minutes, seconds, number in steps:
        assert n_steps == number
        left.setdefault(int(n_steps), 60 * int(minutes) + int(seconds))
    # a fit to 360 rows takes 3.6 seconds: what is left of the budget, and from the middle on of the 30 fits
    assert left == {0: 120, 1: 116, 2: 113, 3: 109, 4: 94, 5: 90}
    assert re.search(r"6/7 steps, about 1:\d\d left, now more folds of the best", err)


def test_the_time_left_is_within_the_budget(clock: Clock) -> None:
    X, y = draw()
    one = race_of(X, y, 20.0)
    assert one.expected_left(2) == 20
    one.durations = [3.0]
    assert one.expected_left(2) == 20  # nothing but the budget is known
    assert one.expected_left(1) == 12  # four more folds
    clock.now += 9
    assert one.expected_left(1) == 3
    one.step_start = clock.now
    assert one.expected_left(1) == 11  # of the budget
    clock.now += 12
    assert one.expected_left(1) == 0
    assert race_of(X, y, None).expected_left(2) == math.inf


def test_the_time_of_a_combination_is_not_that_of_a_candidate(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = draw()
    choose = race.choose_stack

    def slow(*arguments: Any) -> np.ndarray:
        clock.now += 100
        return choose(*arguments)

    monkeypatch.setattr(race, "choose_stack", slow)
    one = race_of(X, y, None)
    one.run({name: Fake(1 - k / 100, seconds=0.01) for k, name in enumerate(("first", "second"))})
    assert clock.now > 100
    assert [candidate.seconds for candidate in one.candidates] == pytest.approx([18, 18])  # 5 fits to 360 rows


def test_pretrained_flows_of_one_kind_are_not_shared() -> None:
    X, y = draw()
    first, second = (FlowFeaturizer(flow=MAF(2, generator=torch.Generator().manual_seed(k))) for k in (0, 1))
    ratios = {
        "first": FeaturizedRatio("kliep", featurizer=first),
        "second": FeaturizedRatio("kliep", featurizer=second),
    }
    both = AutoRatio(ratios, random_state=0, combine="best").fit(X, y)
    alone = AutoRatio({"second": ratios["second"]}, random_state=0).fit(X, y)
    scores = {one.name: one.score for one in both.results_.candidates}
    assert scores["second"] == alone.results_.candidates[0].score
    assert scores["first"] != scores["second"]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fitted_map_of_other_columns_is_refused() -> None:
    X, y = draw()
    frame = pd.DataFrame(X, columns=["a", "b"])
    featurizer = FlowFeaturizer(max_epochs=2, patience=2, random_state=0).fit(frame)
    candidates = ["logistic", FeaturizedRatio("logistic", featurizer=featurizer)]
    with pytest.raises(ValueError, match=r"`featurizer` was fitted to other columns: `X` has 'b' instead of 'a'"):
        AutoRatio(candidates, random_state=0).fit(frame[["b", "a"]], y)


def test_few_rows_do_not_settle_the_race() -> None:
    rng = np.random.default_rng(0)
    X, y = np.concatenate([rng.normal(1.5, 1, (12, 1)), rng.normal(size=(12, 1))]), np.repeat([1, 0], 12)
    ratio = AutoRatio(["lda", "logistic", "qda"], random_state=0).fit(X, y)
    assert all(one.status is not Status.NOT_NEEDED for one in ratio.results_.candidates)


def test_a_race_that_is_settled_ends() -> None:
    rng = np.random.default_rng(0)
    X, y = np.concatenate([rng.normal(20, 1, (200, 1)), rng.normal(size=(200, 1))]), np.repeat([1, 0], 200)
    ratio = AutoRatio(["lda", "qda"], random_state=0).fit(X, y)
    assert ratio.names_ == ["lda"]
    assert ratio.results_.candidates[1].status is Status.NOT_NEEDED
    assert ratio.results_.candidates[1].note == "not needed"
    assert str(ratio.results_).count("Not needed: the others separate p and q already.") == 1


def test_candidates_of_one_class_have_names_of_their_own() -> None:
    ratio = AutoRatio([ClassifierRatio("logistic"), ClassifierRatio("lda")], random_state=0).fit(*draw())
    assert {one.name for one in ratio.results_.candidates} == {"ClassifierRatio", "ClassifierRatio'"}


def test_groups_are_in_one_fold() -> None:
    X, y = draw(60, 80)
    samples = two_samples(X[y == 1], X[y == 0]).mapped(lambda X: X, lambda X: X + 1e-9, lambda X: X - 1e-9)
    AutoRatio({"fake": Fake()}, time_budget=None, random_state=0).fit_prepared(samples)
    assert len(fits(1.0)) == 5
    for rows in fits(1.0):
        counts = np.unique(rows.round(6), axis=0, return_counts=True)[1]
        assert (counts == 3).all()  # all versions of a row, or none of them


# The table


def results() -> AutoResults:
    rows = [
        Candidate("a <b>", False, 0.25, 0.01, 1.5, 0.75),
        Candidate("slow", True, status=Status.NO_TIME, detail="about 30 s needed"),
        Candidate("late", True, status=Status.NO_TIME),
    ]
    return AutoResults(rows, "The flow helped: +0.0123 ± 0.0040 nats of score.")


def test_notes_of_candidates() -> None:
    assert [one.note for one in results().candidates] == ["", "no time: about 30 s needed", "no time"]


def test_table_as_a_frame() -> None:
    frame = results().to_frame()
    assert frame.columns[:3] == ["name", "in_latent_space", "score"]
    assert frame["name"].to_list() == ["a <b>", "slow", "late"]
    assert frame["score"][0] == 0.25
    assert math.isnan(frame["score"][1])
    assert frame["status"].to_list() == ["scored", "no time", "no time"]
    assert frame["detail"].to_list() == ["", "about 30 s needed", ""]
    assert AutoResults().to_frame().columns == frame.columns
    fit = AutoRatio(["logistic", "qda"], random_state=0).fit(*draw()).results_.to_frame()
    assert set(fit["name"]) == {"logistic", "qda"}
    assert fit["weight"].sum() == pytest.approx(1)


def test_table_in_a_notebook() -> None:
    html = results()._repr_html_()
    assert html.count("<tr>") == 4
    assert html.count("<th ") == 6 + 3
    assert "a &lt;b&gt;" in html
    assert "<b>" not in html
    assert re.findall(r"<td[^>]*>([^<>]*)</td>", html)[:4] == ["0.2500", "0.0100", "1.50", "0.75"]
    assert "no time: about 30 s needed" in html
    rest = "The rest, 0.25, is the weight of r = 1, which shrinks log r toward 0."
    assert html.startswith("<p>The flow helped: +0.0123 ± 0.0040 nats of score.</p><table>")
    assert html.endswith(f"</table><p>{rest}</p>")


def test_the_budget_includes_the_preparation_of_rows(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    original = TwoSamples.moments

    def slow(samples: TwoSamples) -> Any:
        clock.now += 100.0
        return original(samples)

    monkeypatch.setattr(TwoSamples, "moments", slow)
    with pytest.warns(BudgetWarning, match="too short"):
        AutoRatio(["lda"], time_budget=50.0, random_state=0).fit(*draw())


def test_many_rows_measure_the_overlap_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    # log r = x·m − |m|²/2 with |m| = 0.5: the squares of r have a relative variance of e^{4|m|²} − 1 = 1.7, so
    # the ESS of 5,000 rows has a relative standard error of about sqrt(1.7 / 5,000) = 0.018: 0.1 is more than 5 of them
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 2)) + np.repeat([[0.3, -0.4], [0.0, 0.0]], 20_000, axis=0)
    y = np.repeat([1, 0], 20_000)
    whole = AutoRatio(["lda"], random_state=0).fit(X, y)
    monkeypatch.setattr(auto, "_OVERLAP_ROWS", 10_000)
    part = AutoRatio(["lda"], random_state=0).fit(X, y)
    for name in ("effective_sample_size_", "inverse_sample_size_"):
        assert getattr(part, name) != getattr(whole, name)
        assert getattr(part, name) == pytest.approx(getattr(whole, name), rel=0.1)


@pytest.mark.filterwarnings("default::flowratio.ratios.base.OverlapWarning")
def test_a_part_of_the_rows_names_the_column_that_separates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "_OVERLAP_ROWS", 200)
    X, y = draw(500, 700)
    X[:, 1] += 50 * (y == 1)
    with pytest.warns(OverlapWarning, match="of 700, because column `x2` separates"):
        AutoRatio(["lda"], random_state=0).fit(X, y)


def test_equal_rows_are_in_different_folds() -> None:
    """Of a column with few values, every value is in every fold. The true score is that of the exact ratio."""
    rng = np.random.default_rng(0)
    shares = np.array([8, 7, 6, 5, 4, 3, 2, 1]) / 36
    x_p, x_q = rng.choice(8, 2000, p=shares), rng.choice(8, 2000, p=shares[::-1])
    ratio = AutoRatio(["lda", "boosting"], random_state=0).fit_samples(x_p.astype(float), x_q.astype(float))
    # each sample counts one half: log 2 − mean log(1 + 1/r) over p and log(1 + r) over q
    log_r = np.log(shares / shares[::-1])
    truth = math.log(2) + 0.5 * (shares @ np.log(expit(log_r)) + shares[::-1] @ np.log(expit(-log_r)))
    best = max(ratio.results_.candidates, key=lambda one: one.score)
    assert abs(best.score - truth) < 3 * best.standard_error + 0.01
    assert ratio.names_


def test_a_perfect_candidate_ends_the_race() -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(60, 1, (200, 2)), rng.normal(0, 1, (200, 2))
    ratio = AutoRatio(["lda", "boosting"], random_state=0).fit_samples(X_p, X_q)
    assert ratio.names_ == ["lda"]
    assert ratio.shares_.tolist() == [1.0]
    assert named(ratio)["boosting"].status is Status.NOT_NEEDED


def test_warnings_of_a_short_budget_name_the_line_of_the_caller() -> None:
    with pytest.warns(BudgetWarning, match="too short") as record:
        AutoRatio(["lda"], time_budget=1e-9, random_state=0).fit(*draw())
    assert [Path(one.filename).name for one in record] == ["test_auto.py"]
