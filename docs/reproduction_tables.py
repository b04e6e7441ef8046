"""Write the results of the experiments to Markdown: all of them to results/, and parts to the pages docs/reproduction/.

Each results/NAME-PRESET.json becomes results/NAME-PRESET.md with all tables and claims. On a page, a part begins with
`<!-- NAME PART ROWS COLUMNS -->` and ends with `<!-- end -->`. PART is the number of a table, or `claims`. ROWS and
COLUMNS are numbers, such as `0,3-5`, or `all`. `<!-- summary -->` and `<!-- NAME origin -->` have no numbers. Command:
python docs/reproduction_tables.py
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from reproduction_summary import SUMMARY, Line

from flowratio_paper.reports import PaperTable

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
PAGES = ROOT / "docs" / "reproduction"
MARK = re.compile(r"^<!-- (summary|[\w-]+ origin|[\w-]+ \w+ \S+ \S+) -->\n.*?^<!-- end -->$", re.DOTALL | re.MULTILINE)
CELL = re.compile(r"\{(\d)\|([^|]+)\|([^}]+)\}")
ERROR = re.compile(r" ± [\d.]+( %)?")
PUBLISHED = re.compile(r" \[[\d.]+\]$")


def path_of(name: str, preset: str) -> Path:
    """Return the path of the results of an experiment."""
    return RESULTS / f"{name}-{preset}.json"


@cache
def load(name: str, preset: str = "laptop") -> dict[str, Any]:
    """Return the results of an experiment. A file of another experiment or preset is refused."""
    path = path_of(name, preset)
    results = json.loads(path.read_text(encoding="utf-8"))
    if (results["experiment"], results["preset"]) != (name, preset):
        raise ValueError(
            f"{path} has results of {results['experiment']} with the preset {results['preset']}. Run `flowratio "
            f"reproduce {name} --preset {preset}`, or delete the file."
        )
    return results


def filled(text: str) -> str:
    """Return a page with the results between its marks."""
    return MARK.sub(lambda mark: f"<!-- {mark[1]} -->\n{part(mark[1])}\n<!-- end -->", text)


def part(mark: str) -> str:
    """Return what belongs to a mark, in Markdown."""
    if mark == "summary":
        return summary()
    name, kind, *places = mark.split()
    if kind == "origin":
        return origin(name)
    table = claims(load(name)) if kind == "claims" else PaperTable(**load(name)["tables"][int(kind)])
    rows, columns = (numbers(one, n) for one, n in zip(places, (len(table.lines), len(table.head)), strict=True))
    lines = [[table.lines[row][column] for column in columns] for row in rows]
    title = f"*{table.title}*\n\n" if table.title else ""
    return title + PaperTable(table.title, [table.head[column] for column in columns], lines).markdown()


def numbers(places: str, n: int) -> list[int]:
    """Return the numbers in a text such as `0,3-5`, or all below n."""
    ends = [[0, n - 1]] if places == "all" else [list(map(int, one.split("-"))) for one in places.split(",")]
    return [place for one in ends for place in range(one[0], one[-1] + 1)]


def claims(results: dict[str, Any]) -> PaperTable:
    """Return the table of claims. A *no* is bold."""
    lines = [[holds(one["verdict"]), one["words"], one["measured"]] for one in results["claims"]]
    return PaperTable("", ["holds", "claim", "measured"], lines)


def holds(verdict: str) -> str:
    """Return a verdict in Markdown."""
    return "**no**" if verdict == "no" else verdict


def origin(name: str) -> str:
    """Return a link to all results, the command, the time of all runs together, and the same for the preset paper."""
    links = f"[All tables and claims](../../results/{name}-laptop.md)"
    text = f"{links}. Command: `flowratio reproduce {name} --preset laptop` ({minutes(name, 'laptop')})."
    if not path_of(name, "paper").exists():
        return text
    return f"{text} Preset `paper`: [results](../../results/{name}-paper.md) ({minutes(name, 'paper')})."


def minutes(name: str, preset: str) -> str:
    """Return the time of all runs together."""
    return f"{sum(run['seconds'] for run in load(name, preset)['runs']) / 60:.1f} minutes on one core"


def summary() -> str:
    """Return the table of the paper's claims."""
    head = ["in the paper", "claim", "paper", "ours", "holds", "preset `paper`", "reason"]
    lines = []
    for line in SUMMARY:
        where = f"[{line.where}]({line.name}.md)"
        verdict = holds(claim_of(line, "laptop")["verdict"])
        lines.append([where, line.claim, line.paper, ours(line, "laptop"), verdict, by_paper(line), line.reason])
    return PaperTable("", head, lines).markdown()


def claim_of(line: Line, preset: str) -> dict[str, str]:
    """Return the claim in the results that has the verdict."""
    (claim,) = [one for one in load(line.name, preset)["claims"] if one["words"] == line.words]
    return claim


def by_paper(line: Line) -> str:
    """Return means and verdict by the preset paper, if it was run. Equal means are not repeated."""
    if not path_of(line.name, "paper").exists():
        return "not run"
    means, others = (ERROR.sub("", ours(line, preset)) for preset in ("paper", "laptop"))
    return f"{'same' if means == others else means}: {holds(claim_of(line, 'paper')['verdict'])}"


def ours(line: Line, preset: str) -> str:
    """Return our numbers: cells of tables, written as {TABLE|ROW|COLUMN}, or {measured}, the start of the claim's."""
    text = line.ours.replace("{measured}", claim_of(line, preset)["measured"].partition(",")[0])
    return CELL.sub(lambda place: cell(load(line.name, preset), int(place[1]), place[2], place[3]), text)


def cell(results: dict[str, Any], table: int, row: str, column: str) -> str:
    """Return a cell without the paper's number. The row has its first cells as a name, joined by slashes."""
    content = results["tables"][table]
    n = row.count("/") + 1
    (line,) = [one for one in content["lines"] if "/".join(one[:n]) == row]
    return PUBLISHED.sub("", line[content["head"].index(column)])


def results_page(name: str, preset: str = "laptop") -> str:
    """Return all tables and claims of an experiment in Markdown."""
    results = load(name, preset)
    tables = [PaperTable(**table) for table in results["tables"]]
    parts = [f"# {results['title']}", f"Command: `{results['command']}`, commit {results['commit']}."]
    parts += [f"## {table.title}\n\n{table.markdown()}" for table in tables]
    parts += [
        "## Claims",
        "Numbers in parentheses after a difference are its 95 % interval.",
        claims(results).markdown(),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Write all files."""
    for preset in ("laptop", "paper"):
        for path in sorted(RESULTS.glob(f"*-{preset}.json")):
            name = path.name.removesuffix(f"-{preset}.json")
            path.with_suffix(".md").write_text(results_page(name, preset), encoding="utf-8")
    for page in sorted(PAGES.glob("*.md")):
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
