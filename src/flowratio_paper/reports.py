"""The report of an experiment: tables next to the paper's numbers, and claims with verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from flowratio_paper.verdicts import Answer


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, or of ours, and whether it holds here.

    Parameters
    ----------
    words
        The claim.
    verdict
        Whether it holds.
    measured
        The numbers behind the verdict.
    """

    words: str
    verdict: Answer
    measured: str

    def __str__(self) -> str:
        return f"{self.verdict}: {self.words} ({self.measured})"


@dataclass(frozen=True)
class PaperTable:
    """A table next to the paper's numbers.

    Parameters
    ----------
    title
        What it shows.
    head
        Names of the columns.
    lines
        Cells, as texts.
    """

    title: str
    head: Sequence[str]
    lines: Sequence[Sequence[str]]

    def __str__(self) -> str:
        rows = [[str(cell) for cell in line] for line in (self.head, *self.lines)]
        widths = [max(len(row[k]) for row in rows) for k in range(len(self.head))]
        text = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([self.title, *text])

    def markdown(self) -> str:
        """Return the table in Markdown, without its title."""
        rows = [self.head, ["---"] * len(self.head), *self.lines]
        return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)


@dataclass
class Report:
    """The tables and claims of an experiment."""

    tables: list[PaperTable] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [str(table) for table in self.tables]
        return "\n\n".join([*parts, "\n".join(str(claim) for claim in self.claims)]).strip()
