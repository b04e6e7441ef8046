"""Hints about two tables that write the same values in different ways."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import polars as pl
import pytest

from flowratio import ClassifierRatio, TableEncoder, divergence
from flowratio._support.errors import ArgumentWarning
from flowratio.tables.hints import hints

NAMES = ("old.csv", "new.csv")


def of_columns(a: list[Any], b: list[Any]) -> list[str]:
    return list(hints(pl.DataFrame({"job": a}), pl.DataFrame({"job": b}), NAMES))


@pytest.mark.parametrize(
    ("a", "b"),
    [("Clerk", "clerk"), ("New York", "new  york "), ("CAFÉ", "café"), ("night\tshift", "night shift")],
)
def test_case_and_white_space(a: str, b: str) -> None:
    (hint,) = of_columns([a, "baker", "baker"], ["baker", b, b])
    assert hint.startswith(
        f"Column 'job' has {a!r} in `old.csv` and {b.strip()!r} in `new.csv`. They differ only in case"
    )


def test_pairs_are_counted() -> None:
    (hint,) = of_columns(["Clerk", "Judge", "BAKER"], ["clerk", "judge", "baker"])
    assert "'BAKER' in `old.csv` and 'baker' in `new.csv`, and 2 more such pairs." in hint


def test_a_category_of_both_with_another_spelling_in_one() -> None:
    (hint,) = of_columns(["Clerk", "clerk"], ["clerk", "baker"])
    assert "'Clerk' in `old.csv` and 'clerk' in `new.csv`" in hint


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (["clerk", "baker"], ["judge", "clerk"]),
        (["Clerk", "clerk"], ["clerk", "Clerk"]),  # both tables distinguish them
        ([" clerk", "baker"], ["clerk ", "baker"]),  # outer blanks are not part of a category
        ([None, "a"], [None, None]),
        ([1, 2], [3.5, 4.5]),
        (["1", "2"], [3, 4]),  # text that is read as numbers
        (["-", "unknown"], [3, 4]),  # words for missing values
        (["yes", "no"], ["no", "yes"]),
    ],
)
def test_no_hint(a: list[Any], b: list[Any]) -> None:
    assert of_columns(a, b) == []


@pytest.mark.parametrize(
    ("a", "words", "example"),
    [
        ([31, 40], "numbers", "31"),
        (["31.5", "40"], "numbers", "31.5"),
        (["2024-01-31", "2024-02-01"], "dates", "2024-01-31"),
        ([True, False], "booleans", "true"),
    ],
)
def test_another_kind(a: list[Any], words: str, example: str) -> None:
    b = ["thirty", "forty"]
    place = f"{words} in `old.csv`, such as {example!r}"
    (hint,) = of_columns(a, b)
    assert hint.lower().startswith(f"column 'job' has {place}, and text in `new.csv`, such as 'thirty'. both are used")
    (hint,) = of_columns(b, a)
    assert "text in `old.csv`, such as 'thirty', and" in hint


def test_the_example_is_what_does_not_fit() -> None:
    (hint,) = of_columns([1, 2, 3], ["1", "2", "a"])
    assert "text in `new.csv`, such as 'a'" in hint


def test_few_odd_cells_have_one_warning() -> None:
    rng = np.random.default_rng(0)
    P, Q = (pl.DataFrame({"x": rng.normal(size=200), "n": rng.integers(0, 9, 200)}) for _ in range(2))
    Q = Q.with_columns(
        n=pl.when(pl.arange(0, pl.len()) < 3).then(pl.lit("nine")).otherwise(pl.col("n").cast(pl.String))
    )
    with pytest.warns(UserWarning, match="3 of its 400 values are not numbers") as records:
        ClassifierRatio().fit_samples(P, Q)
    assert len(records) == 1


@pytest.mark.filterwarnings("ignore::flowratio.ratios.base.OverlapWarning")  # 'Clerk' is in one sample only
def test_ratios_and_functions_warn_once_with_their_own_names() -> None:
    rng = np.random.default_rng(0)
    P, Q = (
        pl.DataFrame({"x": rng.normal(size=60), "job": rng.choice(jobs, 60, p=[0.1, 0.9])})
        for jobs in (["Clerk", "b"], ["clerk", "b"])
    )
    with pytest.warns(UserWarning, match="Column 'job' has 'Clerk' in `X_p` and 'clerk' in `X_q`") as records:
        model = ClassifierRatio().fit_samples(P, Q)
    assert [record.filename for record in records if record.category is ArgumentWarning] == [__file__]
    with pytest.warns(UserWarning, match="'Clerk' in `X_p`") as records:
        divergence(P, Q, ratio="logistic", n_folds=2, random_state=0)
    assert len(records) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder = TableEncoder().fit(P)
        ClassifierRatio().fit_samples(P, P, encoder=encoder)
        model.log_ratio(Q)  # the hint is about the fit
