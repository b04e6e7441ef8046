"""A diagnosis in a notebook."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from flowratio import ClassifierRatio, Diagnosis, diagnose

LONG = "<b>" + "n" * 300


def diagnosis(shift: float) -> Diagnosis:
    rng = np.random.default_rng(0)
    P, Q = (
        pl.DataFrame(
            {LONG: rng.normal(mean, 1, 400), "city": rng.choice(["a", "b\x1b"], 400), "x": rng.normal(size=400)}
        )
        for mean in (shift, 0.0)
    )
    return diagnose(ClassifierRatio("logistic"), P, Q, n_repeats=1, random_state=0)


def test_the_verdict_is_first_and_tables_have_captions() -> None:
    page = diagnosis(0.5)._repr_html_()
    assert page.startswith(
        "<p><strong>Verdict: reliable.</strong> No check speaks against weighting q (`X_q`) to match p (`X_p`).</p>"
        "<table>"
    )
    assert re.findall(r"<caption[^>]*>(.*?)</caption>", page) == [
        "Checks of the ratio r = p/q",
        "Standardized mean differences, p minus q (good within ±0.1)",
        "Columns that move log r",
    ]
    assert "effective sample size (ESS)" in page
    assert not re.search(r"color|background|#[0-9a-f]{3}", page)


def test_names_are_escaped_and_shortened() -> None:
    page = diagnosis(0.5)._repr_html_()
    assert "&lt;b&gt;nnn" in page
    assert "<b>" not in page
    assert "n" * 100 not in page
    assert "\x1b" not in page


def test_reasons_are_listed() -> None:
    bad = diagnosis(9.0)
    page = bad._repr_html_()
    assert page.startswith("<p><strong>Verdict: do not use.</strong>")
    assert page.count("<li>") == len(bad.warnings) + len(bad.advice) > 0
