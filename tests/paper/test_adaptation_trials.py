from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from flowratio import KMM, OverlapWarning
from flowratio_paper import adaptation_trials
from flowratio_paper.adaptation_trials import (
    FIXED,
    HONEST,
    IWCV,
    ORACLE,
    Comparison,
    Trial,
    TrialSettings,
    as_published,
    at_least_as_good,
    bandwidth,
    cells,
    comparisons,
    errors,
    mostly_better,
    never,
    run_trial,
    scaled,
    selected,
    source_errors,
    unweighted,
)
from flowratio_paper.verdicts import Answer, standard_error

BETTER, EQUAL, OPEN, WORSE = Comparison
# two trials, two candidates, two classifiers
ERRORS = [[[0.1, 0.4], [0.3, 0.2]], [[0.2, 0.6], [0.1, 0.5]]]
RESULTS = [
    {"none": [0.5, 0.5], "x": {"KMM": {"errors": one, "scores": scores, "source_errors": [[0.1, 0.2], [0.1, 0.0]]}}}
    for one, scores in zip(ERRORS, ([0.0, 1.0], [3.0, 2.0]), strict=True)
]


@pytest.fixture
def trial() -> Trial:
    rng = np.random.default_rng(0)
    X_target = rng.normal(0.7, 1.0, (150, 2))
    X_source = rng.normal(0.0, 1.0, (100, 2))
    return Trial(X_source, (X_source[:, 0] > 0).astype(int), X_target, X_target, (X_target[:, 0] > 0).astype(int))


def test_an_honest_choice_follows_the_scores() -> None:
    assert selected(RESULTS, "x", "KMM", HONEST).tolist() == [[0.3, 0.2], [0.2, 0.6]]


def test_iwcv_takes_the_least_error_on_the_source_and_the_first_of_equals() -> None:
    assert selected(RESULTS, "x", "KMM", IWCV).tolist() == [[0.1, 0.2], [0.2, 0.5]]


def test_source_errors_count_held_out_rows_by_weight(trial: Trial) -> None:
    # rows of the class 1 have all the weight: the other class is never seen, and theirs is always right
    only = np.where(trial.y_source == 1, 1.0, 1e-9)
    assert source_errors([LogisticRegression()], trial, only, 0) == [0.0]
    labels = np.random.default_rng(1).integers(0, 2, len(trial.y_source))  # nothing to learn
    blind = replace(trial, y_source=labels)
    # half are wrong; the standard error of 100 rows is .05
    assert source_errors([LogisticRegression()], blind, np.ones(100), 0)[0] == pytest.approx(0.5, abs=0.2)


def test_an_oracle_takes_the_least_error_of_each_trial_and_classifier() -> None:
    assert selected(RESULTS, "x", "KMM", ORACLE).tolist() == [[0.1, 0.2], [0.1, 0.5]]


def test_an_oracle_for_all_trials_takes_the_least_mean() -> None:
    assert selected(RESULTS, "x", "KMM", FIXED).tolist() == [[0.1, 0.2], [0.2, 0.5]]


def test_without_scores_the_first_candidate_is_the_honest_one() -> None:
    results = [{"x": {"KLIEP": {"errors": one}}} for one in ERRORS]
    assert selected(results, "x", "KLIEP", HONEST).tolist() == [[0.1, 0.4], [0.2, 0.6]]


def test_cells_show_mean_standard_error_and_paper() -> None:
    values = np.array([[0.1], [0.3]])  # standard deviation √2/10, error 1/10
    assert cells(values, [0.236]) == [".200 ± .100 [.236]"]
    assert cells(values[:1]) == [".100"]
    assert standard_error(values) == pytest.approx([0.1])


# differences of two trials, with half an interval of 12.7 errors: -.15 ± .064, .1 ± 1.27, .15 ± .064, 0
OURS = {BETTER: [0.345, 0.355], OPEN: [0.5, 0.7], WORSE: [0.645, 0.655], EQUAL: [0.5, 0.5]}


def _ours(*names: Comparison) -> tuple[np.ndarray, np.ndarray]:
    return np.array([OURS[name] for name in names]).T, np.full((2, len(names)), 0.5)


def test_differences_count_beyond_the_t_interval() -> None:
    names = [BETTER, OPEN, WORSE, EQUAL]
    ours, other = _ours(*names)
    assert comparisons(ours, other) == names
    assert comparisons(ours[:1], other[:1]) == [OPEN] * 4  # one trial is inconclusive


@pytest.mark.parametrize(
    ("names", "as_good", "mostly"),
    [
        ((BETTER, BETTER, BETTER, WORSE), Answer.NO, Answer.YES),
        ((BETTER, BETTER, BETTER, OPEN), Answer.YES, Answer.YES),
        ((BETTER, BETTER, OPEN, OPEN), Answer.YES, Answer.INCONCLUSIVE),
        ((BETTER, BETTER, WORSE, OPEN), Answer.NO, Answer.INCONCLUSIVE),
        ((BETTER, EQUAL, EQUAL, OPEN), Answer.YES, Answer.NO),
        ((OPEN, EQUAL, OPEN, OPEN), Answer.INCONCLUSIVE, Answer.INCONCLUSIVE),
        ((EQUAL, EQUAL, EQUAL, EQUAL), Answer.YES, Answer.NO),
    ],
)
def test_verdicts_over_classifiers(names: tuple[Comparison, ...], as_good: Answer, mostly: Answer) -> None:
    ours, other = _ours(*names)
    assert at_least_as_good("", ours, other, "abcd").verdict is as_good
    assert mostly_better("", ours, other, "abcd").verdict is mostly


def test_differences_are_counted() -> None:
    measured = at_least_as_good("", *_ours(BETTER, WORSE, WORSE), "abc").measured
    worse = "+0.150 (+0.086 to +0.214)"
    assert measured == f"better 1, worse 2. Difference: a -0.150 (-0.214 to -0.086), b {worse}, c {worse}"
    alone = at_least_as_good("", *_ours(OPEN), "a").measured
    assert alone == "inconclusive: difference +0.100 (-1.171 to +1.371)"


def test_nothing_is_significantly_better() -> None:
    pairs = {"x": _ours(OPEN, EQUAL), "z": _ours(WORSE, OPEN)}
    assert never("", BETTER, pairs).verdict is Answer.YES
    assert never("", WORSE, pairs).verdict is Answer.NO
    assert never("", WORSE, pairs).measured == "x: equal 1, inconclusive 1. z: inconclusive 1, worse 1"
    assert never("", BETTER, {"x": (np.zeros((1, 2)), np.ones((1, 2)))}).verdict is Answer.INCONCLUSIVE


def test_published_within_the_interval_of_welch() -> None:
    ours = np.array([[0.1], [0.3]])  # .2 ± .1, and a quantile of 12.7 if the paper has no error
    assert as_published("", ours, [1.4], [0.0]).verdict is Answer.YES
    assert as_published("", ours, [1.5], [0.0]).verdict is Answer.NO
    assert as_published("", ours, [1.0], [3.0]).verdict is Answer.YES  # an error of .55 with 29 degrees of freedom
    assert as_published("", ours, [1.5], [3.0]).verdict is Answer.NO
    assert as_published("", ours[:1], [0.1], [0.0]).verdict is Answer.INCONCLUSIVE


def test_gamma_becomes_a_bandwidth_in_standard_units(trial: Trial) -> None:
    p, q = trial.X_target, trial.X_source
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)
        ratio = KMM(bandwidth(0.3, p, q)).fit_samples(p, q)
    # both columns have nearly one scale: σ² in their units is 1/(2γ)
    assert ratio.bandwidth_ * ratio.scale_.mean() == pytest.approx((2 * 0.3) ** -0.5, rel=0.05)


def test_one_scaler_keeps_the_shift_and_two_remove_it(trial: Trial) -> None:
    shared, separate = scaled(trial, "shared"), scaled(trial, "separate")
    both = np.concatenate([shared.X_target, shared.X_source])
    assert both.mean(axis=0) == pytest.approx([0, 0], abs=1e-12)
    assert both.std(axis=0) == pytest.approx([1, 1])
    assert np.all(shared.X_target.mean(axis=0) - shared.X_source.mean(axis=0) > 0.3)
    for X in (separate.X_target, separate.X_source, separate.X_test):
        assert X.mean(axis=0) == pytest.approx([0, 0], abs=1e-12)
        assert X.std(axis=0) == pytest.approx([1, 1])


def test_weights_are_of_target_over_source(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    used = []

    def weighed(classifiers: object, of: Trial, weights: np.ndarray | None) -> list[float]:
        used.append(weights)
        return [0.0]

    monkeypatch.setattr(adaptation_trials, "errors", weighed)
    settings = TrialSettings(1, gammas=(0.5,), bounds=(100.0,), spaces=("x",))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the quadratic program leaves few rows a weight
        run_trial(trial, [LogisticRegression()], settings, 0)
    plain, *weights = used
    assert plain is None
    assert len(weights) == 2 * 1 + 2 * 2  # KMM twice; KLIEP twice, with its own width and that of the grid
    halfway = (trial.X_target.mean() + trial.X_source.mean()) / 2
    for w in weights:
        assert np.average(trial.X_source.mean(axis=1), weights=w) > halfway


def test_errors_count_wrong_test_rows(trial: Trial) -> None:
    model = LogisticRegression().fit(trial.X_source, trial.y_source)
    rate = np.mean(model.predict(trial.X_test) != trial.y_test)
    assert errors([LogisticRegression()], trial, None) == [round(float(rate), 4)]
    only = np.where(trial.y_source == 1, 1.0, 1e-9)  # rows of one class are all that count
    assert errors([LogisticRegression()], trial, only) == [round(float(np.mean(trial.y_test == 0)), 4)]


def test_unweighted_errors_are_by_trial() -> None:
    assert unweighted(RESULTS).shape == (2, 2)
