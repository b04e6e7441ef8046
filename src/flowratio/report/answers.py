"""Evidence as plain sentences: whether two files differ, what changed, and whether weights help.

Every change is written from the file that is weighted (q) to the file that it should match (p): old → new.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any

from flowratio._support.numbers import count, fixed, percent
from flowratio._support.wording import counted
from flowratio.applications.column_changes import ChangeKind
from flowratio.applications.plain_changes import Change, changes_of_column
from flowratio.diagnostics.overlap import no_overlap, size_text
from flowratio.report.drift import differs, is_significant
from flowratio.report.names import file_names, legible_evidence

MAX_CHANGES = 8  # columns that are listed as changed
_IMPORTANT = 0.05  # share of the squared changes of log r from which on a column is listed without a test
_SIZES = ((0.55, "very small"), (0.65, "small"), (0.8, "clear"), (0.95, "large"), (math.inf, "very large"))
_SAMPLE = re.compile(r"\b(of |from |about |like |where )([pq])\b(?![-\w]| =)|()\b([pq])(?= has | lies )")
_BOTH = re.compile(r"(?<![\w'`-])p( and | from | ‖ )q(?![\w'`-])")
_UNTRIED = {
    "no time": "for lack of time",
    "not needed": "because the result was clear without them",
    "failed": "after an error",
}


def changed_columns(evidence: dict[str, Any], most: int = MAX_CHANGES) -> list[str]:
    """Return texts for the columns that changed most, the clearest change first.

    Examples are "citizen = No: 23 % → 9 %", "median age: 34 → 41" and "missing values of income: 1 % → 12 %". A column
    with new or vanished categories has a text for each of the first two of them. The arrow points from the file that
    is weighted (q, the second one of `fit`) to the file that it should match (p). The list is empty if no difference is
    found. Names are legible: control characters are escaped, and long names are shortened.
    """
    return [str(change) for change in changes_of(legible_evidence(evidence), most)]


def more_changes(evidence: dict[str, Any], most: int) -> str:
    """Return how many columns changed clearly beyond the first ones. Empty if there are none."""
    n_more = evidence["test"]["n_clear"] - most if is_significant(evidence["test"]) else 0
    return f"and {counted(n_more, 'more column')}" if n_more > 0 else ""


def changes_of(evidence: dict[str, Any], most: int = MAX_CHANGES) -> list[Change]:
    """Return the clearest changes of legible evidence. Without a clear column, those that move log r most."""
    columns = {column["name"]: column for column in evidence["columns"]}
    if is_significant(evidence["test"]):
        drivers = [one for one in evidence["test"]["drivers"] if is_significant(one)]
        if drivers:
            return [
                change for one in drivers[:most] for change in changes_of_column(columns[one["column"]], one, drivers)
            ]
    if not differs(evidence):
        return []
    important = [column for column in evidence["columns"] if (column["driver"]["share"] or 0) >= _IMPORTANT]
    return [
        change
        for column in important[:most]
        for change in changes_of_column(column, {"kind": ChangeKind.MEAN.value}, [])
    ]


def drift_sentence(evidence: dict[str, Any]) -> str:
    """Return whether the files differ, with the p-value."""
    test = evidence["test"]
    if test is None:
        of_test = "The test needs a column that varies"
    else:
        of_test = f"p = {test['p_value']:.2g}, {test['n_permutations']} permutations"
    if is_significant(test):
        return f"The files differ ({of_test})."
    if not differs(evidence):
        return f"No difference found ({of_test})."
    reason = "The files differ. The model distinguishes held-out rows of the two files."
    return f"{reason} The test of single columns and correlations finds no difference ({of_test})."


def size_sentence(evidence: dict[str, Any]) -> str:
    """Return how large the difference is: the share of pairs that the model orders correctly."""
    auc, (p, q) = evidence["diagnosis"]["direction"]["auc"], file_names(evidence["origin"])
    size = next(text for limit, text in _SIZES if auc <= limit)
    task = f"Given one row of {p} and one of {q}, the model finds the row of {p} in {percent(auc)} of pairs"
    return f"{f'The difference is {size}. ' * differs(evidence)}{task} (50 % = identical, 100 % = fully separable)."


def weight_sentence(evidence: dict[str, Any]) -> str:
    """Return how many rows of p the weighted rows of q replace."""
    n_q = evidence["diagnosis"]["n_q"]
    p, q = file_names(evidence["origin"])
    if is_apart(evidence):
        return f"No weights can turn rows of {q} into rows of {p}: the files do not overlap."
    weighted = f"the {count(n_q)} weighted rows of {q} carry as much information"
    return f"Effective sample size (ESS): {weighted} as {ess_text(evidence)} rows without weights."


def headroom_sentence(evidence: dict[str, Any]) -> str:
    """Return whether q has enough rows for the weights."""
    p, q = file_names(evidence["origin"])
    if is_apart(evidence):
        return "log n − KL cannot be estimated: the files do not overlap."
    nats = fixed(evidence["diagnosis"]["overlap"]["headroom"], 1)
    return f"log n − KL({p} ‖ {q}), n = rows of {q}: {nats} nats (3.5 or more is good, below 2 is too little)."


def ess_text(evidence: dict[str, Any]) -> str:
    """Return the effective sample size of the weights with its error."""
    overlap = evidence["diagnosis"]["overlap"]
    return size_text(overlap["ess_q"], overlap["ess_low"], overlap["ess_high"], lambda size: count(round(size, 1)))


def is_apart(evidence: dict[str, Any]) -> bool:
    """Return whether the files do not overlap."""
    overlap = evidence["diagnosis"]["overlap"]
    return bool(evidence["diagnosis"]["separating"]) or no_overlap(overlap["share_p_beyond_q"], overlap["headroom"])


def unweighted_sentence(origin: dict[str, Any]) -> str:
    """Return what to do if no difference is found."""
    p, q = file_names(origin)
    return f"You do not need weights. Use {q} unchanged for questions about {p}."


def with_file_names(text: str, origin: dict[str, Any]) -> str:
    """Return a sentence about p and q with the names of the files."""
    p, q = file_names(origin)
    text = _BOTH.sub(lambda match: f"{p}{match[1]}{q}", text)
    return _SAMPLE.sub(lambda match: (match[1] or "") + (p if "p" in (match[2], match[4]) else q), text)


def candidate_sentence(candidates: dict[str, Any]) -> str:
    """Return how many candidates of the automatic choice were not tried, and why."""
    statuses = Counter(one["status"] for one in candidates["table"])
    n, n_untried = statuses.total(), sum(statuses[status] for status in _UNTRIED)
    n_stopped = statuses["stopped early"]
    stopped = f" {n_stopped} {'was' if n_stopped == 1 else 'were'} stopped early for a clearly worse score."
    ending = stopped * (n_stopped > 0)
    if not n_untried:
        return f"All {n} candidates were tried.{ending}" if n > 1 else "The only candidate was tried."
    reasons = [f"{statuses[status]} {reason}" for status, reason in _UNTRIED.items() if statuses[status]]
    verb = "were" if n_untried > 1 else "was"
    return f"{n_untried} of {n} candidates {verb} not fully tried: {', '.join(reasons)}.{ending}"
