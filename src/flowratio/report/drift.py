"""Do two tables differ? A two-sample test on a part of their rows, as plain numbers for the evidence."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import polars as pl

from flowratio.applications.plain_changes import correlations
from flowratio.applications.testing import two_sample_test
from flowratio.diagnostics import alike
from flowratio.diagnostics.thresholds import THRESHOLDS

_CELLS = 100_000  # rows times columns of each table: about a second
_ROWS = (500, 5_000)  # fewest and most rows of each table
_WIDE = 150  # columns from which on there are fewer permutations, because a permutation takes longer
_PERMUTATIONS, _FEW_PERMUTATIONS = 200, 99
_DRIVERS = 30  # columns in the result, the clearest change first


def drift_test(P: pl.DataFrame, Q: pl.DataFrame) -> dict[str, Any] | None:
    """Test whether the rows of two parsed tables have the same distribution. None if no column varies."""
    n_rows = min(max(_CELLS // max(P.width, 1), _ROWS[0]), _ROWS[1])
    rng = np.random.default_rng(0)
    P, Q = (table[np.sort(rng.permutation(len(table))[:n_rows])] for table in (P, Q))
    n_permutations = _PERMUTATIONS if P.width < _WIDE else _FEW_PERMUTATIONS
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about columns: the fit has issued them
            test = two_sample_test(P, Q, n_permutations=n_permutations, random_state=0)
    except ValueError:  # these rows are all equal
        return None
    drivers = [{**one, **correlations(one, P, Q)} for one in test.drivers.to_list()[:_DRIVERS]]
    numbers = {"p_value": test.p_value, "n_permutations": len(test.null), "n_p": len(P), "n_q": len(Q)}
    numbers["n_clear"] = len(test.drivers.clear)
    return {**numbers, "note": test.note, "drivers": [_plain(one) for one in drivers]}


def _plain(driver: dict[str, Any]) -> dict[str, Any]:
    """Return the same with None for numbers that are not finite."""
    is_bad = {key: isinstance(value, float) and not math.isfinite(value) for key, value in driver.items()}
    return {key: None if is_bad[key] else value for key, value in driver.items()}


def differs(evidence: dict[str, Any]) -> bool:
    """Return whether the files differ: by the test, or because the model distinguishes held-out rows."""
    return is_significant(evidence["test"]) or is_distinguished(evidence["diagnosis"])


def is_significant(test: dict[str, Any] | None) -> bool:
    """Return whether the p-value of the test is 0.05 or less."""
    return test is not None and test["p_value"] <= THRESHOLDS.alpha


def is_distinguished(diagnosis: dict[str, Any]) -> bool:
    """Return whether a held-out score is more than 3 standard errors above 0: of the model, or of a flexible one."""
    names = ("score", "score_error"), ("flexible_score", "flexible_error")
    scores = [(diagnosis[score], diagnosis[error]) for score, error in names]
    return any(None not in pair and alike.is_distinguished(*pair) for pair in scores)
