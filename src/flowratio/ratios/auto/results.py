"""The table of candidates that `AutoRatio` leaves."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from flowratio._support import markup
from flowratio._support.wording import Words, shown

if TYPE_CHECKING:
    import polars as pl


class Status(Words):
    """Why a candidate has a score, or why it has none."""

    SCORED = "scored"
    STOPPED = "stopped early"
    NO_TIME = "no time"
    NOT_NEEDED = "not needed"
    FAILED = "failed"
    BASELINE = "baseline, not scored"


@dataclass
class Candidate:
    """A candidate, its held-out score and its part in the result."""

    name: str
    in_latent_space: bool  # of a flow
    score: float = math.nan  # cross-fitted, in nats, as in `RatioEstimator.score`. NaN without a score on all folds
    standard_error: float = math.nan  # of the score
    seconds: float = 0.0  # time of its fits. A flow that candidates share counts for the first
    weight: float = 0.0  # in the combination
    status: Status = Status.SCORED
    detail: str = ""  # more about the status, such as the message of an error

    def __post_init__(self) -> None:
        self.status = Status(self.status)  # saved models hold its value

    @property
    def note(self) -> str:
        """The status in words. For a candidate with a score, what limited its fits, if anything did."""
        if self.status is Status.SCORED:
            return self.detail
        if self.status is Status.NOT_NEEDED:  # of many candidates: the table has the reason once
            return self.status.value
        return f"{self.status.value}: {self.detail}" if self.detail else self.status.value

    def cells(self) -> tuple[str, ...]:
        """Return the texts of a row of the table: name, score, standard error, seconds, weight and note."""
        score, error = ("–" if math.isnan(value) else f"{value:.4f}" for value in (self.score, self.standard_error))
        weight = f"{self.weight:.2f}" if self.weight else ""
        return shown(self.name), score, error, f"{self.seconds:.2f}", weight, self.note


@dataclass
class AutoResults:
    """The candidates in the order of their scores, and a verdict: on the flow, and on what was not tried.

    It prints as a table.
    """

    candidates: list[Candidate] = field(default_factory=list)
    verdict: str = ""
    untried: str = ""  # the part of the verdict on what was not tried, for other verdicts. Empty if all was
    on_flow: str = ""  # the other part of the verdict

    def to_frame(self) -> pl.DataFrame:
        """Return the table as a polars data frame, one row for each candidate."""
        import polars as pl

        rows = [{**asdict(one), "status": one.status.value} for one in self.candidates]
        return pl.DataFrame(rows, schema=list(Candidate.__dataclass_fields__))

    @property
    def settled_note(self) -> str:
        """Why candidates were not needed. Empty if there are none."""
        details = [one.detail for one in self.candidates if one.status is Status.NOT_NEEDED]
        return f"Not needed: {details[0]}." if details else ""

    @property
    def weight_note(self) -> str:
        """What the weights do not add up to 1 for. Empty if they do, and if no candidate has a weight."""
        total = sum(one.weight for one in self.candidates)
        if total == 0 or round(1 - total, 2) <= 0:
            return ""
        return f"The rest, {1 - total:.2f}, is the weight of r = 1, which shrinks log r toward 0."

    def table(self) -> str:
        """Return the candidates and their scores as text, without the verdict."""
        heads = ("candidate", "score", "± s.e.", "seconds", "weight", "")
        rows = [heads, *(one.cells() for one in self.candidates)]
        width = max(len(name) for name, *_ in rows)
        lines = [
            f"{name:<{width}}  {score:>8}  {error:>8}  {seconds:>8}  {weight:>6}  {note}".rstrip()
            for name, score, error, seconds, weight, note in rows
        ]
        return "\n".join([*lines, *filter(None, [self.settled_note, self.weight_note])])

    def __str__(self) -> str:
        return "\n".join(filter(None, [self.table(), self.verdict]))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        heads = ("candidate", "score (nats)", "standard error", "seconds", "weight", "note")
        table = markup.table("Candidates, best score first", heads, (one.cells() for one in self.candidates))
        return (
            markup.paragraph(self.verdict)
            + table
            + markup.paragraph(self.settled_note)
            + markup.paragraph(self.weight_note)
        )
