"""Verdicts where no difference is found."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from flowratio.diagnostics.alike import have_same_correlations, is_distinguished
from flowratio.diagnostics.balance import Balance
from flowratio.diagnostics.diagnosis import diagnose, diagnosis_of
from flowratio.diagnostics.evaluation import held_out
from flowratio.diagnostics.summary import score_text
from flowratio.diagnostics.verdict import Verdict, verdict_text
from flowratio.ratios.classifier.classifier import ClassifierRatio


class Noise:
    """log r that has nothing to do with the rows."""

    def __init__(self, size: float) -> None:
        self.size = size

    def log_ratio(self, X: Any) -> np.ndarray:
        return self.size * np.random.default_rng(int(1e6 * abs(X[0, 0]))).normal(size=len(X))


def draw(n: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(n, 2)), rng.normal(size=(n, 2))


def test_weights_near_one_are_not_needed_and_reliable() -> None:
    diagnosis = diagnose(Noise(0.2), *draw(), random_state=0)  # its slope is 0 ± 0.1: far too steep
    assert (diagnosis.verdict, diagnosis.warnings) == ("reliable", [])
    assert diagnosis.notes[0].startswith(
        "The checks of this ratio find no difference between p and q. Weights are not needed."
    )


def test_weights_that_only_add_noise_are_used_with_care() -> None:
    diagnosis = diagnose(Noise(0.5), *draw(), random_state=0)
    assert diagnosis.verdict != "reliable"
    assert "these weights only add noise" in diagnosis.warnings[0]
    assert not any("flexible ratio" in text for text in diagnosis.warnings)


def test_few_rows_show_too_little() -> None:
    diagnosis = diagnose(Noise(0.1), *draw(60), random_state=0)
    assert diagnosis.verdict == "use with care"
    assert "a wrong form of the ratio cannot be excluded" in diagnosis.warnings[0]


def test_a_difference_that_a_test_finds_is_not_denied() -> None:
    evaluation = held_out(Noise(0.2), *draw())
    assert diagnosis_of(evaluation).verdict == "reliable"
    diagnosis = diagnosis_of(evaluation, is_different=True)
    assert diagnosis.verdict == "use with care"
    assert "overconfident" in diagnosis.warnings[0]
    assert diagnosis.notes == []


def test_a_column_that_differs_is_a_difference() -> None:
    X_p, X_q = draw()
    diagnosis = diagnose(Noise(0.05), X_p + np.array([0.3, 0.0]), X_q, random_state=0)
    assert not any("No difference found" in text for text in [*diagnosis.notes, *diagnosis.warnings])


@pytest.mark.parametrize("seed", [21, 57])  # of 60 pairs, those whose folds order 52 % and 53 % of pairs wrongly
def test_noise_of_folds_is_not_an_inverted_ratio(seed: int) -> None:
    rng = np.random.default_rng(seed)
    diagnosis = diagnose("logistic", rng.normal(size=(3000, 5)), rng.normal(size=(3000, 5)), random_state=0)
    assert diagnosis.direction.z < -3
    assert (diagnosis.verdict, diagnosis.warnings) == ("reliable", [])
    assert "Weights are not needed" in diagnosis.notes[0]


class Swapped(ClassifierRatio):
    """1/r in place of r."""

    def _log_ratio(self, X: Any) -> np.ndarray:
        return -super()._log_ratio(X)


def test_an_inverted_ratio_of_similar_samples_is_found() -> None:
    X_p, X_q = draw()
    diagnosis = diagnose(Swapped("logistic"), X_p + np.array([0.2, 0.0]), X_q, random_state=0)
    assert diagnosis.overlap.ess_q > 0.9 * 3000  # nearly constant
    assert diagnosis.verdict == "do not use"
    assert diagnosis.warnings[0].startswith("The ratio may be inverted")


def test_an_inverted_ratio_of_held_out_rows_is_found() -> None:
    X_p, X_q = draw(20_000)
    X_p[:, 0] += 0.05
    ratio = ClassifierRatio("logistic").fit_samples(X_q + np.array([-0.1, 0.0]), X_q)
    diagnosis = diagnose(ratio, X_p, X_q, random_state=0)
    assert diagnosis.direction.z < -3
    assert diagnosis.verdict == "do not use"


def test_a_row_far_out_is_a_finding_also_if_no_difference_is_found() -> None:
    """Tails that differ in a handful of rows are no noise: their log r is extrapolated."""
    P, Q = draw()
    P[0, 1] = 10.0
    diagnosis = diagnose("logistic", P, Q, random_state=0)
    words = "Rows of p lie far from every row of q in x2 (1 row): their log r is extrapolated."
    assert (diagnosis.verdict, diagnosis.warnings) == ("use with care", [words])


@pytest.mark.parametrize(
    ("score", "error", "is_different"), [(1e-17, 1e-18, False), (0.002, 0.001, False), (0.01, 0.001, True)]
)
def test_a_score_of_rounding_is_no_difference(score: float, error: float, is_different: bool) -> None:
    assert is_distinguished(score, error) is is_different


def test_a_score_within_chance_of_zero_is_zero() -> None:
    texts = [score_text(-0.002, 0.003), score_text(0.168, 0.0055), score_text(-0.769, 0.01)]
    assert texts == ["0.000 ± 0.003", "0.168 ± 0.005", "-0.769 ± 0.010"]


def test_one_form_of_a_verdict() -> None:
    assert verdict_text(Verdict.CARE, "the tail is heavy.") == "Verdict: use with care. The tail is heavy."
    assert verdict_text("reliable", "") == "Verdict: reliable."


def test_printed_diagnosis_is_short() -> None:
    diagnosis = diagnose("logistic", *draw(500), random_state=0)
    diagnosis = replace(diagnosis, warnings=["One.", "Two."], verdict=Verdict.CARE, remedy=None, notes=["Three."])
    lines = str(diagnosis).splitlines()
    assert lines[0].startswith("Verdict: use with care. Read")
    assert lines[1:3] == ["- One.", "- Two."]
    assert lines[3].startswith("Effective sample size (ESS): ")
    assert lines[4].startswith("Largest difference of column means: ")
    assert lines[5:] == ["Note: Three."]
    assert repr(diagnosis) == "<Diagnosis: use with care, 2 warnings>"


@pytest.mark.parametrize(
    ("after", "words"), [(0.13, "0.13 ± 0.11 (within chance)"), (0.08, "0.08 ± 0.11"), (0.9, "0.90 ± 0.11")]
)
def test_a_difference_within_chance_is_printed_with_its_error(after: float, words: str) -> None:
    one = np.ones(2)
    balance = Balance(["a", "b"], np.array([1.03, 0.0]), np.array([after, 0.0]), 0.11 * one, one, one)
    diagnosis = replace(diagnose("logistic", *draw(500), random_state=0), balance=balance)
    line = f"Largest difference of column means: 1.03 before and {words} after weighting, in standard"
    assert f"{line} deviations (good up to 0.1)." in str(diagnosis).splitlines()


@pytest.mark.parametrize("kind", ["correlation", "mean"])
def test_a_difference_that_the_ratio_misses_is_not_called_none(kind: str) -> None:
    rng = np.random.default_rng(4)
    P, Q = rng.normal(size=(600, 3)), rng.normal(size=(600, 3))
    if kind == "correlation":  # z of the change is 0.42 / sqrt(2 / 597) = 7
        P[:, 1] = 0.4 * P[:, 0] + math.sqrt(1 - 0.4**2) * P[:, 1]
    else:  # 4.3 standard errors
        P[:, 0] += 0.25
    diagnosis = diagnose("logistic", P, Q, n_repeats=1, random_state=0)
    assert not any("no difference" in note for note in diagnosis.notes)


def test_correlations_of_one_distribution_differ_by_chance_only() -> None:
    rng = np.random.default_rng(0)
    pairs = [rng.standard_t(3, size=(2, 200, 4)) for _ in range(200)]
    share = np.mean([have_same_correlations(P, Q) for P, Q in pairs])
    assert share > 0.9  # 0.95, with a standard error of 0.015
