from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from flowratio_paper.motivating import LIKELIHOOD, METHODS, Settings, exact_rows, needed_rows, report
from flowratio_paper.running import Outcome
from flowratio_paper.verdicts import Answer


@pytest.mark.parametrize("m", [0.5, 2.0, 6.0])
def test_with_so_many_rows_one_at_x_below_zero_has_the_probability_delta(m: float) -> None:
    # 1 - (1 - P)^n = δ, by P(x ≤ 0) and by the bound on it
    for n, probability in ((exact_rows(m), norm.cdf(-m)), (needed_rows(m), np.exp(-(m**2) / 2))):
        assert -np.expm1(n * np.log1p(-probability)) == pytest.approx(0.05, rel=1e-9)
    assert needed_rows(m) < exact_rows(m)


def _outcome(m: float, slopes: list[float | None]) -> Outcome:
    by_method = dict.fromkeys(METHODS, [1.0] * len(slopes)) | {LIKELIHOOD: slopes}
    return Outcome({"m": m}, {"slopes": by_method, "separable": slopes.count(None) / len(slopes)}, 0.0)


def test_every_shift_is_judged() -> None:
    # the paper's bound has 3.37e6 rows at m = 6, 153 at 4, 23 at 3.5 and .055 at 1; the exact one 220 at 3.5
    settings = Settings((1.0, 3.5, 4.0, 6.0), 1000, 8)
    outcomes = [
        _outcome(1.0, [1.1] * 8),
        _outcome(3.5, [None] * 7 + [1.1]),
        _outcome(4.0, [1.1] * 8),
        _outcome(6.0, [None] * 8),
    ]
    paper, exact = (report(settings, outcomes).claims[k : k + 3] for k in (0, 3))
    assert [claim.verdict for claim in paper] == [Answer.YES, Answer.YES, Answer.NO]
    assert paper[2].measured == "yes for m of 1. no for m of 3.5"  # draws without overlap count as wrong
    assert [claim.verdict for claim in exact] == [
        Answer.NO,
        Answer.NO,
        Answer.YES,
    ]  # m = 4 has too few rows by it, and overlaps
    assert exact[0].measured == "yes for m of 6. no for m of 4"
    outcomes[1] = _outcome(3.5, [None] * 4 + [1.1] * 4)
    assert report(settings, outcomes).claims[2].verdict is Answer.INCONCLUSIVE
