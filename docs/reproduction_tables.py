"""Write the tables and verdicts of results/NAME-laptop.json to the page docs/reproduction.md, between its marks.

A part of the page begins with `<!-- NAME PART -->` and ends with `<!-- end -->`. PART is the number of a table,
`claims`, or `made` for the command, the commit and the time. Command: python docs/reproduction_tables.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from flowratio_paper.reports import Claim, PaperTable
from flowratio_paper.verdicts import Answer

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reproduction.md"
COMPARISON, MANY = re.compile(r"\b([xz])(?:, our flow)? is (at least as good as (?:x|no weights))"), 8
MARK = re.compile(r"^<!-- ([\w-]+) (\w+) -->\n.*?^<!-- end -->$", re.DOTALL | re.MULTILINE)


def filled(text: str) -> str:
    """Return the page with the results between its marks."""
    return MARK.sub(lambda mark: f"<!-- {mark[1]} {mark[2]} -->\n{part(mark[1], mark[2])}\n<!-- end -->", text)


def part(name: str, kind: str) -> str:
    """Return a table, the claims, or their origin, in Markdown."""
    results = json.loads((ROOT / "results" / f"{name}-laptop.json").read_text(encoding="utf-8"))
    if kind == "made":
        return origin(results)
    if kind == "claims":
        return verdicts([Claim(one["words"], Answer(one["verdict"]), one["measured"]) for one in results["claims"]])
    table = PaperTable(**results["tables"][int(kind)])
    return f"*{table.title}*\n\n{table.markdown()}"


def verdicts(claims: list[Claim]) -> str:
    """Return a table of claims. Of many comparisons of x and z, return the counts of their answers."""
    comparisons: dict[str, list[Answer]] = {}
    others = []
    for one in claims:
        if match := COMPARISON.search(one.words):
            comparisons.setdefault(f"{match[1]} is {match[2]}", []).append(one.verdict)
        else:
            others.append(one)
    rows = others if sum(map(len, comparisons.values())) > MANY else claims
    lines = [["**no**" if one.verdict is Answer.NO else str(one.verdict), one.words, one.measured] for one in rows]
    table = PaperTable("", ["holds", "claim", "measured"], lines)
    if rows is claims:
        return table.markdown()
    counts = []
    for words, answers in sorted(comparisons.items()):
        counts.append(f"{words}: {', '.join(f'{answers.count(answer)} {answer}' for answer in Answer)}")
    return f"{table.markdown()}\n\nComparisons of our variants: {'. '.join(counts)}. Each of them is in `results/`."


def origin(results: dict[str, Any]) -> str:
    """Return the command, the commit and the time of all runs together."""
    minutes = sum(run["seconds"] for run in results["runs"]) / 60
    how = f"`{results['command']}`, commit {results['commit']}"
    return f"{how}: {len(results['runs'])} tasks, {minutes:.1f} minutes of one core in all."


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
