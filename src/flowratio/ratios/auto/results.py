"""What became of each candidate of `AutoRatio`, as a table."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from enum import Enum
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


class Status(str, Enum):
    """Why a candidate has a score, or why it has none."""

    SCORED = "scored"
    STOPPED = "stopped early"
    NO_TIME = "no time"
    NOT_NEEDED = "not needed"
    FAILED = "failed"
    BASELINE = "baseline, not scored"


@dataclass
class Candidate:
    """A candidate, its held-out score and its part in the result.

    Parameters
    ----------
    name
        Its name.
    in_latent_space
        Whether it works in the latent space of a flow.
    score
        Cross-fitted score in nats, as `RatioEstimator.score` defines it. NaN if it has no score on all folds.
    standard_error
        Of the score.
    seconds
        Time of its fits. A flow that candidates share counts for the first.
    weight
        Its weight in the combination.
    status
        Why it has a score, or why it has none.
    detail
        More about the status, such as the message of an error.
    """

    name: str
    in_latent_space: bool
    score: float = math.nan
    standard_error: float = math.nan
    seconds: float = 0.0
    weight: float = 0.0
    status: Status = Status.SCORED
    detail: str = ""

    @property
    def note(self) -> str:
        """The status in words. Empty for a candidate with a score."""
        if self.status is Status.SCORED:
            return ""
        return f"{self.status.value}: {self.detail}" if self.detail else self.status.value


@dataclass
class AutoResults:
    """The candidates in the order of their scores, and whether the flow helped. It prints as a table."""

    candidates: list[Candidate] = field(default_factory=list)
    verdict: str = ""

    def to_frame(self) -> pl.DataFrame:
        """Return the table as a polars data frame, one row for each candidate."""
        import polars as pl

        rows = [{**asdict(one), "status": one.status.value} for one in self.candidates]
        return pl.DataFrame(rows, schema=_COLUMNS)

    def __str__(self) -> str:
        width = max([len("candidate"), *(len(one.name) for one in self.candidates)])
        lines = [f"{'candidate':<{width}}  {'score':>8}  {'± s.e.':>8}  {'seconds':>8}  {'weight':>6}"]
        for one in self.candidates:
            name, *numbers, note = _cells(one)
            score, error, seconds, weight = numbers
            line = f"{name:<{width}}  {score:>8}  {error:>8}  {seconds:>8}  {weight:>6}"
            lines.append(f"{line}  {note}".rstrip())
        return "\n".join([*lines, self.verdict])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        heads = ("candidate", "score (nats)", "standard error", "seconds", "weight", "")
        rows = [heads, *map(_cells, self.candidates)]
        tags = ["th", *["td"] * len(self.candidates)]
        lines = [
            "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) + "</tr>"
            for tag, row in zip(tags, rows, strict=True)
        ]
        return f"<table>{''.join(lines)}</table><p>{escape(self.verdict)}</p>"


_COLUMNS = ["name", "in_latent_space", "score", "standard_error", "seconds", "weight", "status", "detail"]


def _cells(one: Candidate) -> tuple[str, ...]:
    score, error = ("–" if math.isnan(value) else f"{value:.4f}" for value in (one.score, one.standard_error))
    return one.name, score, error, f"{one.seconds:.2f}", f"{one.weight:.2f}" if one.weight else "", one.note
