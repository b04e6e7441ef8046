from __future__ import annotations

import base64
import copy
import hashlib
import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from flowratio._support.numbers import count, fixed, in_units, moment, percent, sig, signed
from flowratio.cli.app import score
from flowratio.ratios.classifier.classifier import ClassifierRatio
from flowratio.report.answers import changes_of
from flowratio.report.evidence import Origin, gather
from flowratio.report.page import _safe_json, html, write_report
from flowratio.report.steps import SCORE_COLUMNS

IMAGE, SCRIPT = "<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>"
ORIGIN: Origin = {
    "command": "flowratio fit 'a&b.csv' \"<b>.csv\" -o model",
    "date": "2026-01-02T03:04:05+00:00",
    "seed": 3,
    "seconds": 1.5,
    "file_p": "a&b.csv",
    "file_q": "<b>.csv",
    "n_p": 200,
    "n_q": 200,
    "proportion": 0.5,
}


@pytest.fixture(scope="module")
def evidence() -> dict[str, Any]:
    """Look at a ratio of two tables with hostile names, in full: also with what no flow and no choice has left."""
    rng = np.random.default_rng(0)
    P, Q = (
        pl.DataFrame(
            {
                IMAGE: rng.normal(mean, 1, 900),
                SCRIPT: rng.choice([IMAGE, SCRIPT, "`code`", "{{ 7 * 7 }}"], 900).tolist(),
                "plain": rng.normal(size=900),
            }
        )
        for mean in (1.0, 0.0)
    )
    ratio = ClassifierRatio("logistic", random_state=0).fit_samples(P[:200], Q[:200])
    evidence = gather(ratio, P[200:], Q[200:], origin=ORIGIN)
    evidence["latent"] = {"names": [IMAGE, SCRIPT], "p": [[0.5] * 200] * 2, "q": [[0.1] * 200] * 2}
    evidence["training"] = {"epoch": [1, 2], "train_loss": [2, 1], "held_out_loss": [2, None], "best_epoch": 1}
    evidence["training"]["stopped"] = "patience"
    one = {
        "name": IMAGE,
        "score": 0.1,
        "error": None,
        "seconds": 1.0,
        "weight": 0.0,
        "note": SCRIPT,
        "status": "no time",
    }
    evidence["candidates"] = {"verdict": f"The flow helped. {SCRIPT}", "table": [one]}
    return evidence


class Page(HTMLParser):
    """What a page holds: its elements, their attributes, its text, its scripts and its style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[str] = []
        self.style = ""
        self.open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.open = tag

    def handle_endtag(self, tag: str) -> None:
        self.open = ""

    def handle_data(self, data: str) -> None:
        if self.open == "script":
            self.scripts.append(data)
        elif self.open == "style":
            self.style += data
        else:
            self.words.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def page(evidence: dict[str, Any]) -> Page:
    return Page(html(evidence))


def test_hostile_names_are_words(page: Page, evidence: dict[str, Any]) -> None:
    assert page.named("img") == []
    assert len(page.named("script")) == len(page.scripts) == 2
    assert [name for _, of in page.elements for name in of if name.startswith("on")] == []
    text = "".join(page.words)
    assert IMAGE in text
    assert SCRIPT in text
    assert "{{ 7 * 7 }}" in text
    drawn = json.loads(page.scripts[0])
    assert [one["name"] for one in drawn["columns"]] == [one["name"] for one in evidence["columns"]]


def test_nothing_is_loaded(page: Page) -> None:
    assert [of for _, of in page.elements if "src" in of] == []
    assert [of["href"] for of in page.named("link")] == ["data:,"]
    assert [of["href"] for of in page.named("a")] == ["#answers"]
    source = page.scripts[1] + page.style
    assert re.findall(r"https?://[^\"'\s]+", source) == ["http://www.w3.org/2000/svg"]  # a name, not an address
    assert re.findall(r"fetch|XMLHttpRequest|WebSocket|innerHTML|eval\(|import\(|@import|url\(", source) == []


def test_only_its_own_script_may_run(page: Page) -> None:
    policy = next(of["content"] for of in page.named("meta") if of.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    digest = base64.b64encode(hashlib.sha256(page.scripts[1].encode()).digest()).decode()
    assert policy.startswith("default-src 'none'; ")
    assert f"script-src 'sha256-{digest}';" in policy


def words_of(evidence: dict[str, Any]) -> str:
    return " ".join("".join(Page(html(evidence)).words).split()).replace("\u00a0", " ")


def test_text_and_tables_stand_without_a_script(page: Page, evidence: dict[str, Any]) -> None:
    text = words_of(evidence)
    assert "The files differ (p = 0.005, 200 permutations)." in text
    assert "Yes. After weighting, <b>.csv matches a&b.csv." in text
    assert f"median {IMAGE}" in text
    assert "scripts are off here" in text
    for words in ("Log-ratio of the rows", "Reliability", "Latent space", "Training of the flow", "Candidates"):
        assert words in text
    assert "1 of 1 candidates was not fully tried: 1 for lack of time." in text
    assert ORIGIN["command"] in text
    assert "2 January 2026, 03:04 UTC" in text
    n_rows = len(evidence["columns"]) + len(changes_of(evidence))
    assert len([of for of in page.named("tr") if "data-column" in of]) == n_rows


def test_questions_come_in_order(page: Page) -> None:
    questions = [
        "Do the files differ?",
        "What changed?",
        "Can <b>.csv be weighted to match a&b.csv?",
        "What should I do?",
        "Details",
    ]
    text = "".join(page.words)
    positions = [text.index(question) for question in questions]
    assert positions == sorted(positions)
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert max(b - a for a, b in pairwise(levels)) == 1


@pytest.mark.parametrize("verdict", ["reliable", "use with care", "do not use"])
@pytest.mark.parametrize("p_value", [0.005, 0.5])
@pytest.mark.parametrize("score", [0.3, 0.0])
def test_badge_of_the_drift_is_never_green(
    verdict: str, p_value: float, score: float, evidence: dict[str, Any]
) -> None:
    """The badge of the weights may be green. It names the weights."""
    changed = {**evidence, "test": {**evidence["test"], "p_value": p_value}}
    changed["diagnosis"] = {**evidence["diagnosis"], "verdict": verdict, "score": score, "score_error": 0.01}
    changed["diagnosis"]["flexible_score"] = 0.0
    badges = re.findall(r'<p class="(\w+)"><span class="badge"><span [^>]*>.</span>([^<]*)</span>', html(changed))
    differs = p_value < 0.05 or score > 0
    drift = ("care", "The files differ") if differs else ("neutral", "No difference found")
    tones = {"reliable": "good", "use with care": "care", "do not use": "bad"}
    weights = (tones[verdict], f"Weights: {verdict}") if differs else ("neutral", "Weights: not needed")
    assert badges == [drift, weights]
    assert [text for tone, text in badges if tone == "good" and not text.startswith("Weights: ")] == []


def test_sections_without_evidence_are_left_out(evidence: dict[str, Any]) -> None:
    text = html({**evidence, "latent": None, "training": None, "candidates": None})
    for words in ("Latent space", "Training of the flow", "Candidates</h3>"):
        assert words not in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"verdict": "do not use"}, "Do not use these weights"),
        ({"verdict": "do not use"}, "Or get more rows of"),
        ({"verdict": "use with care"}, "Read the problems below before you use the weights"),
        ({"direction": {"auc": 0.2, "standard_error": 0.01, "z": -30.0}}, "Check whether the two files are swapped"),
        ({"overlap": {"ess_q": 3.0}}, "Get more rows of"),
        ({"overlap": {"headroom": 1.0}}, "Get more rows of"),
        ({"remedy": {"words": "Cap", "option": "--cap 20"}}, "-o weights.csv --cap 20"),
        (
            {"overlap": {"ess_q": 80.0, "ess_low": 50.0, "ess_high": 110.0}},
            "as much information as 80 ± 30 rows without weights",
        ),
        ({"overlap": {"headroom": -1.0}}, "because the files do not overlap"),
        ({"overlap": {"share_p_beyond_q": 0.9}}, "the files do not overlap."),
        ({"overlap": {"share_p_beyond_q": 0.3}}, "has no counterpart in"),
        (
            {"reliability": {"p_value": 1e-9, "error": 0.2, "noise": 0.01, "slope": 2.0, "slope_error": 0.1}},
            "Fit with a weaker penalty, or use a more flexible ratio. The class probabilities are off",
        ),
        (
            {"reliability": {"p_value": 1e-9, "error": 0.2, "noise": 0.01, "slope": 0.5, "slope_error": 0.1}},
            "Fit with a stronger penalty or more rows, or calibrate. The class probabilities are off",
        ),
        (
            {"warnings": ["Weighting"], "balance": {"worst": [1.0, 0.4]}},
            "Adjust also for the columns that still differ",
        ),
    ],
)
def test_advice_fits_the_numbers(change: dict[str, Any], words: str, evidence: dict[str, Any]) -> None:
    assert words not in html(evidence)
    changed = copy.deepcopy(evidence)
    for name, value in change.items():
        old = changed["diagnosis"][name]
        changed["diagnosis"][name] = {**(old or {}), **value} if isinstance(value, dict) else value
    assert words in html(changed)


def test_new_and_vanished_categories_are_listed(evidence: dict[str, Any]) -> None:
    changed = copy.deepcopy(evidence)
    new = {"category": SCRIPT, "p": 0.25, "q": 0.0, "is_clear": True}
    changes = {"n_new": 40, "share_new": 0.5, "new": [new], "n_vanished": 0, "share_vanished": 0.0, "vanished": []}
    column = next(one for one in changed["columns"] if one["kind"] == "category")
    column["changes"] = {
        **changes,
        "changed": [{"category": "b", "p": 0.09, "q": 0.23, "is_clear": True}],
        "n_clear": 41,
    }
    changed["test"]["drivers"].insert(0, {"column": column["name"], "kind": "mean", "p_value": 0.005})
    assert "Only in" not in words_of(evidence)
    text = words_of(changed)
    assert f"Only in a&b.csv (new): {SCRIPT} (25 %) and 39 more, together 50 % of its rows." in text
    assert "Most changed: b 23 % → 9 %." in text
    assert "No weights can represent a category that occurs only in a&b.csv." in text
    column["changes"] |= {"n_new": 0, "new": []}
    assert "No weights can represent" not in words_of(changed)


def test_commands_name_the_files(evidence: dict[str, Any]) -> None:
    origin = {**evidence["origin"], "file_p": "data/my new.csv", "file_q": "data/old's.parquet", "model": "my model"}
    text = words_of({**evidence, "origin": origin})
    assert "flowratio score 'my model' 'data/old'\"'\"'s.parquet' -o weights.parquet" in text
    assert 'pd.read_parquet("weights.parquet")' in text
    unusable = {**evidence, "origin": origin, "diagnosis": {**evidence["diagnosis"], "verdict": "do not use"}}
    text = words_of(unusable).split("What should I do?")[1].split("Details")[0]
    assert "flowratio score" not in text
    assert "flowratio fit 'data/my new.csv' 'data/old'\"'\"'s.parquet' -o 'my model-2' --exclude" in text


def test_no_difference_needs_no_weights(evidence: dict[str, Any]) -> None:
    diagnosis = {**evidence["diagnosis"], "score": 0.0, "flexible_score": 0.0}
    text = words_of({**evidence, "test": {**evidence["test"], "p_value": 0.4}, "diagnosis": diagnosis})
    assert "No difference found (p = 0.4, 200 permutations)." in text
    assert "No column changed by more than chance." in text
    assert "You do not need weights, because no difference was found." in text
    assert "You do not need weights. Use <b>.csv unchanged for questions about a&b.csv." in text


@pytest.mark.parametrize("verdict", ["use with care", "do not use"])
def test_no_difference_keeps_the_verdict_on_the_weights(verdict: str, evidence: dict[str, Any]) -> None:
    diagnosis = {**evidence["diagnosis"], "score": -0.002, "flexible_score": 0.0, "verdict": verdict}
    diagnosis["warnings"] = ["One (4 %)."]
    changed = {**evidence, "test": {**evidence["test"], "p_value": 0.4}, "diagnosis": diagnosis}
    text = words_of(changed)
    assert f"The verdict on the weights of this model is: {verdict}." in text
    assert "flowratio score" not in text.split("What should I do?")[1].split("Details")[0]
    assert "Held-out score, nats0.000 ±" in text  # it is never negative
    assert "One (4\u00a0%)." in html(changed)


def test_one_description_of_the_columns_of_score(evidence: dict[str, Any]) -> None:
    docs = (Path(__file__).parents[3] / "docs" / "command-line.md").read_text(encoding="utf-8")
    texts = [" ".join((text or "").replace("`", "").split()) for text in (docs, score.__doc__, SCORE_COLUMNS)]
    for words in ("log_ratio is log r in nats.", "r divided by the mean of r over the rows of", "so its mean is 1."):
        assert [words in text for text in texts] == [True] * 3
    for words in (
        "Weights of separately scored files are not comparable",
        "score one file with all rows, or use log_ratio",
    ):
        assert [words in text for text in texts] == [True, True, False]
    assert texts[2] in words_of(evidence)
    assert "np.exp(log_r)" not in html(evidence)


def test_notes_are_no_problems(evidence: dict[str, Any]) -> None:
    diagnosis = {**evidence["diagnosis"], "warnings": [], "notes": ["11 of 17 candidates were not fully tried."]}
    text = words_of({**evidence, "diagnosis": diagnosis})
    assert "Note: 11 of 17 candidates were not fully tried." in text
    assert "candidates was not fully tried" in text  # another sentence
    assert "Problems" not in text


def test_what_was_not_tried_is_stated_once(evidence: dict[str, Any]) -> None:
    note = "The budget was enough to try 0 of 1 candidates. All would take a budget of about 9 s."
    diagnosis, candidates = {**evidence["diagnosis"], "notes": [note]}, {**evidence["candidates"], "untried": note}
    text = words_of({**evidence, "diagnosis": diagnosis, "candidates": candidates})
    assert text.count("not fully tried") == 0
    assert text.count(note) == 1


def test_categories_of_a_column_that_did_not_change_clearly_are_not_listed(evidence: dict[str, Any]) -> None:
    changed = copy.deepcopy(evidence)
    column = next(one for one in changed["columns"] if one["kind"] == "category")
    assert column["name"] not in [change.column for change in changes_of(changed)]
    column["changes"]["changed"] = [{"category": "b", "p": 0.03, "q": 0.02}]
    assert "Most changed" not in words_of(changed)
    column["changes"] |= {
        "n_new": 1,
        "share_new": 0.2,
        "new": [{"category": "c", "p": 0.2, "q": 0.0, "is_clear": False}],
    }
    assert "Only in a&b.csv (new): c (20 %)." in words_of(changed)


def test_names_are_escaped_and_shortened() -> None:
    rng = np.random.default_rng(0)
    column, word = "\x1b[2Ja\u202e\n" + "x" * 5_000, "y" * 3_000 + "\x07"
    P, Q = (
        pl.DataFrame({column: rng.choice([word, "c", "d"], 500, p=p).tolist(), "b\t": rng.normal(size=500)})
        for p in ([0.6, 0.2, 0.2], [0.2, 0.4, 0.4])
    )
    ratio = ClassifierRatio("logistic", random_state=0).fit_samples(P[:200], Q[:200])
    origin: Origin = {
        **ORIGIN,
        "file_p": "new\x1b.csv",
        "file_q": "old\u202e.csv",
        "command": "flowratio fit new\x1b.csv",
    }
    evidence = gather(ratio, P[200:], Q[200:], origin=origin)
    evidence["diagnosis"]["warnings"] = [f"Rows of p lie beyond every row of q in {column} = {word} (40%)."]
    text = html(evidence)
    assert [repr(one) for one in sorted(set(text)) if one < " " and one != "\n"] == []
    assert "\u202e" not in text
    assert r"\x1b[2Ja\u202e\nxxx" in text
    assert "flowratio score model $'old\\xe2\\x80\\xae.csv' -o weights.csv" in text.replace("&#39;", "'")
    assert re.findall("x{81}|y{81}", text) == []


def test_warnings_have_code(evidence: dict[str, Any]) -> None:
    diagnosis = {**evidence["diagnosis"], "warnings": ["See `weights.temper` & <others>."]}
    assert "See <code>weights.temper</code> &amp; &lt;others&gt;." in html({**evidence, "diagnosis": diagnosis})


def test_dates_that_no_calendar_has() -> None:
    rng = np.random.default_rng(0)
    far = [253_402_300_799_000, -62_167_219_200_000, 0]  # 9999-12-31 23:59:59, 0000-01-01 and 1970-01-01
    P, Q = (
        pl.DataFrame({"since": pl.Series(rng.choice(far, 400, p=shares)).cast(pl.Datetime("ms"))})
        for shares in ([0.4, 0.3, 0.3], [0.3, 0.4, 0.3])
    )
    ratio = ClassifierRatio("logistic", random_state=0).fit_samples(P[:200], Q[:200])
    text = html(gather(ratio, P[200:], Q[200:], origin=ORIGIN))
    assert "9999-12-31" in text
    assert "0000-01-01" in text


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (1e300, "275760-09-13"),
        (-1e300, "-271821-04-20"),
        (-0.5, "1969-12-31"),
        (0.5, "1970-01-01"),
        (2932896.99, "9999-12-31"),
        (-719528.0, "0000-01-01"),
    ],
)
def test_any_number_is_a_date(days: float, text: str) -> None:
    assert in_units({"kind": "date"}, days) == text


@pytest.mark.parametrize(
    ("written", "texts"),
    [
        ([sig(x) for x in (0.012345, 1234.5, 0.5, -2e-7, 0.0)], ["0.0123", "1\u202f230", "0.500", "−2.00e-7", "0"]),
        ([sig(None), fixed(None), signed(None), percent(None)], ["–"] * 4),
        ([signed(x) for x in (0.4, -0.014, 1e6, 0.001)], ["+0.40", "−0.01", "> 1000", "0.00"]),
        ([fixed(x) for x in (0.12, -1e-9)], ["0.1200", "0.0000"]),
        ([count(x) for x in (12345, 12.34, 3.0, 48213.7)], ["12\u202f345", "12", "3", "48\u202f214"]),
        (
            [moment(text) for text in ("2026-03-01T09:12:33+00:00", "in spring")],
            ["1 March 2026, 09:12 UTC", "in spring"],
        ),
        (
            [percent(x) for x in (0.5, 0.0123, 0, 0.0002, 0.997, 0.9999, 1.0)],
            ["50\xa0%", "1.2\xa0%", "0\xa0%", "<\xa00.1\xa0%", "99.7\xa0%", ">\xa099.9\xa0%", "100\xa0%"],
        ),
    ],
)
def test_numbers_are_written_for_people(written: list[str], texts: list[str]) -> None:
    assert written == texts


def test_json_in_a_script_element_has_no_tags() -> None:
    assert _safe_json("</script>") == '"\\u003c/script\\u003e"'


def test_size_of_a_large_page(evidence: dict[str, Any]) -> None:
    """30 columns of 1000 rows, 5000 log-ratios: the most that `gather` keeps."""
    rng = np.random.default_rng(0)
    large = copy.deepcopy(evidence)
    values = [[float(f"{value:.4g}") for value in row] for row in rng.normal(size=(30, 1000))]
    large["rows"] |= {"p": values, "q": values, "scale": [1.0] * 30, "columns": list(range(30))}
    large["rows"] |= dict.fromkeys(("log_p", "log_q"), values[0] * 5)
    names = {"names": [f"column {j}" for j in range(30)]}
    numbers = {name: [0.1] * 30 for name in ("before", "after", "standard_error")}
    large["diagnosis"]["balance"] |= names | numbers | {"n_columns": 30}
    assert len(html(large).encode()) < 1_000_000


def test_file_is_replaced_and_a_folder_is_not(evidence: dict[str, Any], tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    target.write_text("old")
    assert write_report(evidence, target) == target
    assert target.read_text(encoding="utf-8") == html(evidence)
    with pytest.raises(OSError, match="it is a folder"):
        write_report(evidence, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_same_evidence_same_page(evidence: dict[str, Any]) -> None:
    assert html(evidence) == html(copy.deepcopy(evidence))


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(0.0999999, 3, "0.100"), (999.9, 3, "1\u202f000"), (1e6, 3, "1.00e6"), (-1.25, 2, "−1.2"), (float("inf"), 3, "–")],
)
def test_significant_digits(value: float, digits: int, text: str) -> None:
    assert sig(value, digits) == text


def new_town(evidence: dict[str, Any]) -> dict[str, Any]:
    """Return evidence in which a category of a text column is clearly new."""
    changed = copy.deepcopy(evidence)
    column = next(one for one in changed["columns"] if one["kind"] == "category")
    column["name"] = "town"
    new = {"category": "Newtown", "p": 0.06, "q": 0.0, "is_clear": True}
    column["changes"] |= {"n_new": 1, "share_new": 0.06, "new": [new], "n_clear": 1}
    changed["diagnosis"] |= {"verdict": "use with care", "warnings": ["Rows have no counterpart."]}
    changed["diagnosis"]["overlap"]["share_p_beyond_q"] = 0.06
    command = "flowratio fit new.csv old.csv -o model --exclude id --no-flow --force --seed=7"
    changed["origin"] |= {"file_p": "new.csv", "file_q": "old.csv", "command": command}
    return changed


def test_rows_of_a_new_category_are_to_be_left_out(evidence: dict[str, Any]) -> None:
    text = words_of(new_town(evidence))
    assert "The files differ. 6.0 % of new.csv has no counterpart in old.csv. Weight with care." in text
    assert "Leave out the rows of new.csv whose town does not occur in old.csv (at least 6.0 %)." in text
    assert "new[new['town'].isin(old['town'])].to_csv('new-matching.csv', index=False)" in text
    assert "flowratio fit new-matching.csv old.csv -o model-2 --exclude id --no-flow --seed=7" in text
    assert text.index("Leave out the rows") < text.index(
        "compute a weight" if "compute a weight" in text else "Compute"
    )


def test_columns_that_cannot_match_are_not_to_be_adjusted_for(evidence: dict[str, Any]) -> None:
    changed = new_town(evidence)
    changed["diagnosis"]["balance"] |= {"names": ["town = Newtown"], "before": [0.4], "after": [0.4]}
    changed["diagnosis"]["balance"] |= {"standard_error": [0.01], "worst": [0.4, 0.4]}
    changed["rows"] |= {"columns": [0], "p": [[0.0]], "q": [[0.0]], "scale": [1.0]}
    assert "Adjust also" not in words_of(changed)
    changed["diagnosis"]["balance"]["names"] = ["age"]
    assert "Adjust also" in words_of(changed)


def test_separating_column_comes_first_and_once(evidence: dict[str, Any]) -> None:
    changed = copy.deepcopy(evidence)
    changed["diagnosis"] |= {"separating": ["plain"], "verdict": "do not use"}
    changed["diagnosis"]["overlap"] |= {"headroom": -46339693.0, "ess_q": 2.0}
    text = words_of(changed)
    todo = text.split("What should I do?")[1].split("Details")[0]
    assert (
        todo.split("Do not weight")[0].count("plain separates the files completely. Repeat with --exclude plain.") == 1
    )
    assert "-o model-2 --exclude plain" in todo
    assert "Get more rows" not in todo
    assert "−4.6e7" not in text
    assert "it cannot be estimated, because the files do not overlap" in text


def test_category_that_changed_most_has_a_name_in_its_chart(evidence: dict[str, Any]) -> None:
    drawn = json.loads(Page(html(new_town(evidence))).scripts[0])["columns"]
    assert next(one for one in drawn if one["name"] == "town")["largest"][0]["category"] == "Newtown"
