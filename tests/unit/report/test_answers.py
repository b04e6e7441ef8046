from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest

from flowratio.cli.fit_text import answers
from flowratio.ratios.classifier.classifier import ClassifierRatio
from flowratio.report.answers import (
    MAX_CHANGES,
    candidate_sentence,
    changed_columns,
    changes_of,
    drift_sentence,
    more_changes,
    size_sentence,
    with_file_names,
)
from flowratio.report.evidence import Origin, gather
from flowratio.report.page import html

ORIGIN: Origin = {
    "command": "flowratio fit new.csv old.csv -o model",
    "date": "2026-01-02T03:04:05+00:00",
    "seed": 3,
    "seconds": 1.5,
    "file_p": "data/new.csv",
    "file_q": "data/old.csv",
    "n_p": 600,
    "n_q": 600,
    "proportion": 0.5,
}


def evidence_of(P: pl.DataFrame, Q: pl.DataFrame) -> dict[str, Any]:
    ratio = ClassifierRatio("logistic", random_state=0).fit_samples(P[:300], Q[:300])
    return gather(ratio, P[300:], Q[300:], origin=ORIGIN)


def table(n: int, rng: np.random.Generator, *, age: float, share: float, start: date, missing: float) -> pl.DataFrame:
    is_missing = rng.random(n) < missing
    days = rng.integers(0, 900, n)
    return pl.DataFrame(
        {
            "age": np.round(rng.normal(age, 9, n)),
            "citizen": np.where(rng.random(n) < share, "No", "Yes").tolist(),
            "since": [start + timedelta(days=int(day)) for day in days],
            "income": [None if no else float(x) for no, x in zip(is_missing, rng.normal(50, 9, n), strict=True)],
            "member": (rng.random(n) < share).tolist(),
            "owner": (rng.random(n) < share).astype(int),
            "noise": rng.normal(size=n),
        }
    )


def test_changes_are_in_their_own_units_from_q_to_p() -> None:
    rng = np.random.default_rng(0)
    P = table(2300, rng, age=41, share=0.09, start=date(2021, 7, 1), missing=0.4)
    Q = table(2300, rng, age=34, share=0.23, start=date(2021, 1, 1), missing=0.1)
    evidence = evidence_of(P, Q)
    texts = {text.split(":")[0]: text.split(": ")[1].replace("\u00a0", " ") for text in changed_columns(evidence)}
    shares = {"citizen = No", "member = true", "owner = 1"}
    assert set(texts) == {"median age", "median since", "missing values of income", *shares}
    assert texts["median age"] == "34 → 41"
    before, after = (float(share.removesuffix(" %")) for share in texts["citizen = No"].split(" → "))
    assert (before, after) == (pytest.approx(23, abs=4), pytest.approx(9, abs=3))  # four standard errors of 2000 rows
    assert all(re.fullmatch(r"\d+ % → \d+ %", text) for name, text in texts.items() if name in shares)
    days = [date.fromisoformat(day) for day in texts["median since"].split(" → ")]
    assert (days[1] - days[0]).days == pytest.approx(181, abs=45)  # four standard errors of two medians of 2000 days
    assert drift_sentence(evidence) == "The files differ (p = 0.005, 200 permutations)."
    assert "of new.csv and one of old.csv" in size_sentence(evidence)


def test_spread_and_correlation() -> None:
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(2, 2300, 2))
    Q = pl.DataFrame({"a": Z[0, :, 0], "b": Z[0, :, 1], "wide": rng.normal(10, 1, 2300)})
    P = pl.DataFrame({"a": Z[1, :, 0], "b": Z[1] @ [0.8, 0.6], "wide": rng.normal(10, 3, 2300)})
    evidence = evidence_of(P, Q)
    texts = changed_columns(evidence)
    for driver in evidence["test"]["drivers"]:
        driver["change"] = "in other words"
    assert changed_columns(evidence) == texts  # words for people do not decide
    assert any(text.startswith("middle half of wide: 9.") for text in texts)
    correlation = next(text for text in texts if text.startswith("rank correlation of a and b: "))
    before, after = (float(value.replace("−", "-")) for value in correlation.split(": ")[1].split(" → "))
    assert (before, after) == (pytest.approx(0, abs=0.1), pytest.approx(0.79, abs=0.05))  # four standard errors


def test_many_changes_are_counted() -> None:
    rng = np.random.default_rng(3)
    P, Q = (pl.DataFrame(rng.normal(mean, 1, (900, 10)), schema=[f"x{k}" for k in range(10)]) for mean in (0.4, 0))
    evidence = evidence_of(P, Q)
    assert len(changed_columns(evidence)) == MAX_CHANGES == 8
    assert more_changes(evidence, 8) == "and 2 more columns"
    assert answers(evidence).splitlines()[2 + 8] == "  and 2 more columns"
    assert "and 2 more columns, see the table" in html(evidence)
    assert more_changes(evidence, 10) == ""


def test_no_difference() -> None:
    rng = np.random.default_rng(2)
    P, Q = (pl.DataFrame({"a": rng.normal(size=900), "b": rng.normal(size=900)}) for _ in "pq")
    evidence = evidence_of(P, Q)
    assert changed_columns(evidence) == []
    assert drift_sentence(evidence).startswith("No difference found (p = 0.")


def test_difference_that_only_the_model_finds() -> None:
    rng = np.random.default_rng(2)
    P, Q = (pl.DataFrame({"a": rng.normal(size=900), "b": rng.normal(size=900)}) for _ in "pq")
    evidence = evidence_of(P, Q)
    evidence["diagnosis"] |= {"score": 0.3, "score_error": 0.01}
    assert drift_sentence(evidence).startswith("The files differ. The model distinguishes held-out rows")
    assert changed_columns(evidence) != []


@pytest.mark.parametrize(
    ("statuses", "words"),
    [
        (["scored", "scored"], "All 2 candidates were tried."),
        (["scored"], "The only candidate was tried."),
        (
            ["scored", "no time", "no time", "failed", "stopped early"],
            "3 of 5 candidates were not fully tried: 2 for lack of time, 1 after an error."
            " 1 was stopped early for a clearly worse score.",
        ),
    ],
)
def test_candidates_that_were_not_tried(statuses: list[str], words: str) -> None:
    assert candidate_sentence({"table": [{"status": status} for status in statuses]}) == words


def test_names_of_columns_are_legible() -> None:
    rng = np.random.default_rng(0)
    name, word = "a\x1b[31m\u202e\n" + "x" * 3000, "b" * 2000 + "\x07"
    shares = ([0.8, 0.2], [0.2, 0.8])
    P, Q = (pl.DataFrame({name: rng.choice([word, "c"], 800, p=share).tolist()}) for share in shares)
    (text,) = changed_columns(evidence_of(P, Q))
    assert text.isprintable() or text.replace("\u00a0", " ").isprintable()
    assert text.startswith(r"a\x1b[31m\u202e\nxxx")
    assert len(text) < 250


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rows of p lie where a row of q is", "rows of new.csv lie where a row of old.csv is"),
        ("where p and q overlap", "where new.csv and old.csv overlap"),
        ("Rows of p differ in p (4%), p-value 1, of p = x", "Rows of new.csv differ in p (4%), p-value 1, of p = x"),
    ],
)
def test_sentences_name_the_files(text: str, words: str) -> None:
    assert with_file_names(text, dict(ORIGIN)) == words


CITIES = [f"City{k:02}" for k in range(30)]


def cities(n: int, rng: np.random.Generator, share_new: float = 0.0) -> pl.DataFrame:
    """Return rows of 30 cities. One of them is frequent. Two other cities are new and have equal shares."""
    shares = np.concatenate([[0.13], np.full(29, 0.03)]) * (1 - share_new)
    names = [*CITIES, "Newtown", "Portville"]
    return pl.DataFrame({"city": rng.choice(names, n, p=[*shares, share_new / 2, share_new / 2]).tolist()})


def test_new_categories_come_first() -> None:
    rng = np.random.default_rng(0)
    evidence = evidence_of(cities(4000, rng, 0.06), cities(4000, rng))
    texts = [text.replace("\u00a0", " ") for text in changed_columns(evidence)]
    assert {text.split(":")[0] for text in texts[:2]} == {"city = Newtown", "city = Portville"}
    assert all(re.match(r"city = \w+: 0 % → [2-4](\.\d)? % \(new", text) for text in texts)  # 4 standard errors of 3 %
    swapped = evidence_of(cities(4000, rng), cities(4000, rng, 0.06))
    assert all(re.search(r"→ 0 % \(vanished", text.replace("\u00a0", " ")) for text in changed_columns(swapped))


def test_chance_changes_of_categories_are_not_named() -> None:
    rng = np.random.default_rng(1)
    P, Q = cities(450, rng, 0.06), cities(4000, rng)
    column = next(one for one in evidence_of(P, Q)["columns"] if one["name"] == "city")
    assert {one["category"] for one in column["changes"]["changed"]} == set()
    evidence = evidence_of(P, Q)
    assert {change.what for change in changes_of(evidence)} <= {"city = Newtown", "city = Portville"}
    next(one for one in evidence["columns"] if one["name"] == "city")["changes"] |= {"new": [], "n_clear": 0}
    assert changed_columns(evidence) == ["categories of city (too few rows to say which ones)"]


def test_many_changed_categories_are_counted() -> None:
    rng = np.random.default_rng(0)
    shares = np.full(40, 1 / 40)
    moved = shares + np.repeat([0.02, -0.02, 0.0], [8, 8, 24])
    names = [f"City{k:02}" for k in range(40)]
    P, Q = (pl.DataFrame({"city": rng.choice(names, 3000, p=of).tolist()}) for of in (moved, shares))
    (text,) = changed_columns(evidence_of(P, Q))
    match = re.fullmatch(r"city = (City\d\d): .* → .* \((\d+) more categories changed\)", text)
    assert match is not None
    assert 12 <= int(match[2]) <= 15  # 16 changed, each by more than 4 standard errors
    assert int(match[1].removeprefix("City")) < 16


def test_a_correlation_is_listed_once() -> None:
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(2, 2300, 2))
    Q = pl.DataFrame({"a": Z[0, :, 0], "b": Z[0, :, 1]})
    P = pl.DataFrame({"a": Z[1, :, 0], "b": Z[1] @ [0.8, 0.6]})
    evidence = evidence_of(P, Q)
    assert [one["kind"] for one in evidence["test"]["drivers"]] == ["correlation"] * 2
    assert len(changed_columns(evidence)) == 1
