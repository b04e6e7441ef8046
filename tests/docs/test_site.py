"""The site: hooks that write parts of pages, and phrases that readers search for."""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import ModuleType

import pytest
from scripts import loaded

import flowratio

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def hook(name: str) -> ModuleType:
    pytest.importorskip("mkdocs")
    return loaded(DOCS / "hooks" / f"{name}.py")


def test_output_follows_each_block_that_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = hook("outputs")
    monkeypatch.setattr(outputs, "OUTPUTS", tmp_path)
    page = "A\n\n```python\nx = 1\n```\n\nB\n\n```python\nprint(x + 1)\n```\n\nC\n"
    expected = page.replace("\n\nC\n", '\n\n```text title="Output"\n2\n```\n\nC\n')
    assert outputs.with_outputs(page) == expected
    monkeypatch.setattr(outputs, "printed", None)  # the second time, the stored outputs are used
    assert outputs.with_outputs(page) == expected


def test_pages_without_print_do_not_run() -> None:
    page = "```python\nraise ValueError\n```\n"
    assert hook("outputs").with_outputs(page) == page


def test_summary_has_every_public_name_with_a_line_and_a_link() -> None:
    page = hook("reference").expanded((DOCS / "api" / "index.md").read_text(encoding="utf-8"))
    rows = re.findall(r"^\| \[`(\w+)`\]\((\w+\.md)#([\w.]+)\) \| (.+) \|$", page, re.MULTILINE)
    assert {name for name, *_ in rows} == {*flowratio.__all__}
    assert all(path.endswith(f".{name}") and line.strip() for name, _, path, line in rows)


def test_gallery_has_a_thumbnail_for_each_section() -> None:
    gallery = hook("gallery")
    sources = {script.name: script.read_text(encoding="utf-8") for script in gallery.SCRIPTS}
    targets = re.findall(r'<a href="#(\w+)"><img src="\1\.png"', gallery.thumbnails(sources))
    assert targets == [name.removesuffix(".py") for name in sources]
    assert all(f"{{ #{target} }}" in gallery.section(f"{target}.py", sources[f"{target}.py"]) for target in targets)


@pytest.mark.parametrize("part", ['<script src="https://x.org/a.js">', '<a data-md-component="source">'])
def test_pages_that_use_the_network_are_refused(part: str) -> None:
    assert hook("offline").FETCHED.search(part)
    assert not hook("offline").FETCHED.search('<a href="https://x.org/">')


@pytest.mark.parametrize(
    "phrase", ["data drift", "importance weights", "missing values", "covariate shift", "mutual information"]
)
def test_phrases_that_readers_search_for_are_on_pages(phrase: str) -> None:
    pages = [path for path in DOCS.glob("*.md") if phrase in path.read_text(encoding="utf-8").lower()]
    assert len(pages) >= 2


def test_links_to_the_glossary_lead_to_a_term() -> None:
    glossary = (DOCS / "glossary.md").read_text(encoding="utf-8")
    terms = {re.sub(r"\W+", "-", term.lower()) for term in re.findall(r"^### (.+)$", glossary, re.MULTILINE)}
    links = {
        link for path in DOCS.glob("*.md") for link in re.findall(r"glossary\.md#([\w-]+)", path.read_text("utf-8"))
    }
    assert len(links) > 10
    assert links <= terms


def test_search_has_a_name_for_screen_readers() -> None:
    page = '<div class="md-search" data-md-component="search" role="dialog">'
    assert hook("accessibility").named(page) == f'{page[:-1]} aria-label="Search">'


METHODS = {  # on the page: in results/accuracy.md
    "flowratio `AutoRatio()`": "AutoRatio",
    "flowratio `TelescopingRatio()`": "telescoping",
    'flowratio `ClassifierRatio("qda")`': "qda",
    'flowratio `ClassifierRatio("logistic")`': "logistic",
    "scikit-learn, quadratic logistic regression": "sklearn quadratic",
    "scikit-learn logistic regression": "sklearn logistic",
    "scikit-learn gradient boosting": "sklearn boosting",
    "best library for each problem, chosen with the true ratio": "oracle of peers",
}


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_comparison_has_the_errors_of_the_benchmark() -> None:
    """The geometric mean over the problems that were not used for design counts errors below 0.0001 as that."""
    text = (ROOT / "results" / "accuracy.md").read_text(encoding="utf-8")
    groups = [cells(row)[2] for row in re.findall(r"^\| \d+ \|.*", text, re.MULTILINE)]
    table = text.split("## Every method, all rows")[1].split("##")[0]
    rows = {cells(row)[0]: cells(row)[1:] for row in table.splitlines() if row.startswith("|")}
    page = (DOCS / "flowratio-or-x.md").read_text(encoding="utf-8").split("| method |")[1].split("\n\n")[0]
    compared = [cells(row) for row in page.splitlines()[2:]]
    assert len(compared) >= 10
    for method, report, everything, _ in compared:
        row = rows[METHODS.get(method, method)]
        errors = [max(float(cell), 1e-4) for cell, group in zip(row, groups, strict=False) if group == "report"]
        mean = math.exp(sum(map(math.log, errors)) / len(errors))
        assert float(report) == pytest.approx(mean, rel=0.03)
        assert float(everything.split()[0]) == pytest.approx(float(row[len(groups)].split()[0]), rel=0.03)
