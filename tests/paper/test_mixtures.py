from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from flowratio_paper.adaptation_trials import TrialSettings
from flowratio_paper.mixtures import BY_CLASS, EXACT, SHARE, draw_rows, exact_error, log_ratio, report
from flowratio_paper.running import Outcome
from flowratio_paper.verdicts import Answer

EXACT_WORDS = "not in the paper: by the held-out score, no ratio is significantly better than the exact one"


def test_rows_have_exactly_the_shares() -> None:
    X, y = draw_rows(0.01, 1000, np.random.default_rng(0))
    assert X.shape == (1000, 2)
    assert y.sum() == 10
    # standard errors .32 and .03
    assert X[y == 1].mean(axis=0) == pytest.approx([0, 0], abs=1.3)
    assert X[y == 0].mean(axis=0) == pytest.approx([3, 3], abs=0.13)


def test_log_ratio_is_that_of_the_densities() -> None:
    X = np.random.default_rng(0).normal(1.5, 3.0, (50, 2))
    zero, three = (multivariate_normal([m, m]).pdf(X) for m in (0.0, 3.0))
    target, source = 0.99 * zero + 0.01 * three, 0.01 * zero + 0.99 * three
    assert log_ratio(X) == pytest.approx(np.log(target / source), abs=1e-9)


def test_exact_weights_leave_the_error_of_the_source_on_the_target() -> None:
    X, y = draw_rows(1 - SHARE, 200_000, np.random.default_rng(0))
    zero, three = (multivariate_normal([m, m]).pdf(X) for m in (0.0, 3.0))
    predicted = SHARE * zero > (1 - SHARE) * three  # the right answer on the source
    # the standard error of a share of .148 of 200,000 rows is .0008
    assert exact_error() == pytest.approx(np.mean(predicted != (y == 1)), abs=0.004)
    assert exact_error() == pytest.approx(0.148, abs=0.001)


def _verdicts(n: int, errors: dict[str, float], exact: float) -> dict[str, Answer]:
    """Return verdicts of n runs with these errors in x, z and without weights, by one candidate of each method."""
    settings = TrialSettings(n, methods=("KMM", "KLIEP"), spaces=("x", "z"))
    outcomes = []
    for seed in range(n):
        chance = 0.001 * (-1) ** seed
        one = {s: {"errors": [[errors[s] + chance]], "source_errors": [[0.1]], "log_r_errors": [1.0]} for s in "xz"}
        result = {space: {"KMM": {**actual, "scores": [0.0]}, "KLIEP": actual} for space, actual in one.items()}
        result |= {"none": [errors["none"]], EXACT: [exact], BY_CLASS: [0.0]}
        outcomes.append(Outcome({"seed": seed}, result, 0.0))
    return {claim.words: claim.verdict for claim in report(settings, outcomes).claims}


def test_verdicts() -> None:
    actual = _verdicts(4, {"x": 0.16, "z": 0.04, "none": 0.24}, 0.15)
    assert actual["Table 5 (KMM, oracle): weights from z are better than weights from x"] is Answer.YES
    assert actual["Table 5 (KLIEP, held-out score): weights from x are better than no weights"] is Answer.YES
    assert actual["our goal: KMM in z has an error below 0.06, held-out score"] is Answer.YES
    assert actual["KMM, IWCV: z is at least as good as x"] is Answer.YES
    assert actual[EXACT_WORDS] is Answer.NO
    actual = _verdicts(4, {"x": 0.16, "z": 0.17, "none": 0.16}, 0.15)
    assert actual["Table 5 (KMM, oracle): weights from z are better than weights from x"] is Answer.NO
    assert actual["Table 5 (KMM, oracle): weights from x are better than no weights"] is Answer.INCONCLUSIVE
    assert actual["our goal: KLIEP in z has an error below 0.125, held-out score"] is Answer.NO
    assert actual[EXACT_WORDS] is Answer.YES


def test_one_run_is_inconclusive() -> None:
    assert set(_verdicts(1, {"x": 0.16, "z": 0.04, "none": 0.24}, 0.15).values()) == {Answer.INCONCLUSIVE}
