"""Put the tables and verdicts of results/NAME-laptop.json on the page docs/reproduction.md, between its marks.

A mark is `<!-- NAME WHAT -->`, and what it stands for ends at `<!-- end -->`. WHAT is the number of a table, `claims`,
or `made` for the command, the commit and the time. Command: python docs/reproduction_tables.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from flowratio_paper.running import Claim, Table

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reproduction.md"
COMPARISON, MANY = re.compile(r"\b([xz])(?:, our flow)? is (at least as good as (?:x|no weights))"), 8
MARK = re.compile(r"^<!-- ([\w-]+) (\w+) -->\n.*?^<!-- end -->$", re.DOTALL | re.MULTILINE)


def filled(text: str) -> str:
    """Return the page with what the results say between its marks."""
    return MARK.sub(lambda found: f"<!-- {found[1]} {found[2]} -->\n{part(found[1], found[2])}\n<!-- end -->", text)


def part(name: str, what: str) -> str:
    """Return a table, the verdicts, or how they were made, in Markdown."""
    results = json.loads((ROOT / "results" / f"{name}-laptop.json").read_text(encoding="utf-8"))
    if what == "made":
        return made(results)
    if what == "claims":
        return verdicts([Claim(**one) for one in results["claims"]])
    table = Table(**results["tables"][int(what)])
    return f"*{table.title}*\n\n{table.markdown()}"


def verdicts(claims: list[Claim]) -> str:
    """Return a table of claims; of many comparisons of x and z, how many hold."""
    compared: dict[str, list[bool | None]] = {}
    rest = []
    for one in claims:
        if found := COMPARISON.search(one.words):
            compared.setdefault(f"{found[1]} is {found[2]}", []).append(one.holds)
        else:
            rest.append(one)
    shown = rest if sum(map(len, compared.values())) > MANY else claims
    words = {True: "yes", False: "**no**", None: "cannot be told"}
    table = Table("", ["holds", "claim", "measured"], [[words[one.holds], one.words, one.measured] for one in shown])
    if shown is claims:
        return table.markdown()
    told = []
    for what, found in sorted(compared.items()):
        yes, no, cannot = (found.count(holds) for holds in (True, False, None))
        told.append(f"{what}: {yes} yes, {no} no, {cannot} cannot be told")
    return f"{table.markdown()}\n\nOf comparisons of our variants, {', and '.join(told)}; `results/` has each."


def made(results: dict[str, Any]) -> str:
    """Return the command, the commit and the time of all runs together."""
    minutes = sum(run["seconds"] for run in results["runs"]) / 60
    how = f"`{results['command']}`, commit {results['commit']}"
    return f"{how}: {len(results['runs'])} tasks, {minutes:.1f} minutes of one core in all."


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
