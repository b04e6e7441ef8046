"""Prose follows the guide: no archaic words, no long sentences, no semicolons in the README."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import prose
import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ["src/**/*.py", "benchmarks/*.py"]
PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/README.md", "results/accuracy.md", "docs/**/*.md"]
PAGES += ["docs/notebooks/*.ipynb", "docs/gallery/*.py", "src/flowratio/report/assets/report.html.jinja"]
CHECKED_PAGES = [*PAGES, *SOURCES]
CHECKED_WORDS = ["docs/hooks/*.py"]
NO_SEMICOLONS = CHECKED_PAGES


text_blocks = cache(prose.text_blocks)  # of a file, which several tests read


def files(patterns: list[str]) -> list[Path]:
    return [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]


@pytest.mark.parametrize("path", files([*CHECKED_PAGES, *CHECKED_WORDS]), ids=lambda path: path.name)
def test_words_are_those_of_the_field(path: Path) -> None:
    assert [problem for block in text_blocks(path) for problem in prose.avoided_words(block)] == []


@pytest.mark.parametrize("path", files(CHECKED_PAGES), ids=lambda path: path.name)
def test_sentences_are_short(path: Path) -> None:
    assert [problem for block in text_blocks(path) for problem in prose.long_sentences(block)] == []


@pytest.mark.parametrize("path", files(NO_SEMICOLONS), ids=lambda path: path.name)
def test_prose_has_no_semicolons(path: Path) -> None:
    assert [problem for block in text_blocks(path) for problem in prose.semicolons(block)] == []


@pytest.mark.parametrize("path", files([*CHECKED_PAGES, *CHECKED_WORDS]), ids=lambda path: path.name)
def test_percent_signs_follow_a_space(path: Path) -> None:
    assert prose.tight_percent(path.read_text(encoding="utf-8")) == []


def test_checker_finds_tight_percent_signs() -> None:
    assert prose.tight_percent("It is 50% of rows, or {share:.0%}.") == ["50%", ":.0%}"]
    assert prose.tight_percent('50 % of rows, "%d-%m", 90\u00a0%, n % 2') == []


def test_patterns_match_files() -> None:
    for pattern in [*CHECKED_PAGES, *CHECKED_WORDS, *NO_SEMICOLONS]:
        assert list(ROOT.glob(pattern)), pattern


@pytest.mark.parametrize(
    "sentence",
    [
        "The rows follow a normal law.",
        "An OverlapWarning tells why.",
        "The samples can be told apart.",
        "It is used as it is.",
        "The logit, less the log-odds, is log r.",
        "A column of text has 20 levels.",
        "Missing cells are gaps.",
        "Use some hundreds of rows.",
        "The error is 3 at most.",
        "There are 50 effective rows.",
        "The labels are dealt out by chance.",
    ],
)
def test_checker_finds_words_to_avoid(sentence: str) -> None:
    assert len(prose.avoided_words(sentence)) == 1


@pytest.mark.parametrize(
    "sentence",
    [
        "The test at the level 5 % has a confidence level of 95 %.",
        "The error is less than 3, and there are fewer holidays.",
        "The duality gap is small, at most 1e-6.",
        "The lawn, besides the flaw, retells nothing.",
    ],
)
def test_checker_accepts_other_meanings(sentence: str) -> None:
    assert prose.avoided_words(sentence) == []


def test_checker_finds_semicolons() -> None:
    assert len(prose.semicolons("One; two.")) == 1
    assert prose.semicolons("I(X; Y) is 0.") == []
    assert prose.semicolons(r".. math:: \max_C \; C(x)") == []


def test_checker_counts_words() -> None:
    assert prose.long_sentences("word " * 35 + "end. Short.") == [f"36 words: {'word ' * 35}end."]
    assert prose.long_sentences(("word " * 34 + "end. ") * 2) == []
    assert prose.sentences("See Fig. 2, e.g. there. flowratio works! *Yes.* No") == [
        "See Fig. 2, e.g. there.",
        "flowratio works!",
        "*Yes.",
        "No",
    ]


def test_checker_reads_prose_only() -> None:
    page = "# Head\n\nA `law; x` [link](tell.md).\n\n```python\ntold = 1; x\n```\n- one\n- two\n\n| a | b |\n"
    assert prose.markdown_blocks(page) == ["# Head", "A CODE link.", "- one", "- two", "a", "b"]
    template = "<style>p { a: b; }</style><p>One <b>two</b> {{ x }}.</p>{% if a %}<p>Three</p>"
    assert prose.template_blocks(template) == ["One two VALUE.", "Three"]
    source = '"""One two."""\nx = "key"\ny = f"three and {x} four `law` a"\n'
    assert prose.python_blocks(source) == ["One two.", "three and", "four CODE a"]
