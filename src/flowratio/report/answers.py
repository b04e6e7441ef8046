"""Evidence as plain sentences: whether two files differ, what changed, and whether weights help.

Every change is written from the file that is weighted (q) to the file that it should match (p): old → new.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any, NamedTuple

from flowratio._support.wording import counted
from flowratio.applications.column_changes import ChangeKind
from flowratio.diagnostics.overlap import no_overlap, size_text
from flowratio.report.drift import differs, is_significant
from flowratio.report.names import file_names, legible_evidence
from flowratio.report.numbers import count, fixed, pair, percent, shares

MAX_CHANGES = 8  # columns that are listed as changed
_IMPORTANT = 0.05  # share of the squared changes of log r from which on a column is listed without a test
_MORE = 0.01  # total variation beyond the largest change of a share, from which on it is stated
_SIZES = ((0.55, "very small"), (0.65, "small"), (0.8, "clear"), (0.95, "large"), (math.inf, "very large"))
_SAMPLE = re.compile(r"\b(of |from |about |like |where )([pq])\b(?![-\w]| =)|()\b([pq])(?= has | lies )")
_BOTH = re.compile(r"(?<![\w'`-])p( and | from | ‖ )q(?![\w'`-])")
_UNTRIED = {
    "no time": "for lack of time",
    "not needed": "because the result was clear without them",
    "failed": "after an error",
}


class Change(NamedTuple):
    """A change of a column, in its own units."""

    column: str
    what: str  # such as "median age" or "citizen = No"
    before: str  # in the file of q
    after: str  # in the file of p
    note: str = ""  # on other changes of the column

    def __str__(self) -> str:
        return f"{self.what}: {self.before} → {self.after}{f' ({self.note})' * bool(self.note)}"


def changed_columns(evidence: dict[str, Any], most: int = MAX_CHANGES) -> list[str]:
    """Return a text for each of the columns that changed most, the clearest change first.

    Examples are "citizen = No: 23 % → 9 %", "median age: 34 → 41" and "missing values of income: 1 % → 12 %". The arrow
    points from the file that is weighted (q, the second one of `fit`) to the file that it should match (p). The list is
    empty if no difference is found. Names are legible: control characters are escaped, and long names are shortened.
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
            return [_change(columns[one["column"]], one) for one in drivers[:most]]
    if not differs(evidence):
        return []
    important = [column for column in evidence["columns"] if (column["driver"]["share"] or 0) >= _IMPORTANT]
    return [_change(column, {"kind": ChangeKind.MEAN.value}) for column in important[:most]]


def _change(column: dict[str, Any], driver: dict[str, Any]) -> Change:
    """Return what changed in a column. `driver` is its result of the test."""
    name, kind = column["name"], ChangeKind(driver["kind"])
    if kind is ChangeKind.CORRELATION:
        texts = [fixed(driver.get(sample), 2) for sample in "qp"]
        return Change(name, f"correlation of {name} and {driver['partner']}", texts[0], texts[1])
    largest = max(_category_changes(column), key=_rank, default=None)
    of_missing = abs(column["missing"]["p"] - column["missing"]["q"])
    is_missing = kind is ChangeKind.MISSING or (largest is not None and of_missing > abs(largest["p"] - largest["q"]))
    if is_missing or (largest is None and not _has_values(column)):
        return Change(name, f"missing values of {name}", *shares(column["missing"]["q"], column["missing"]["p"]))
    if largest is not None:
        before, after = shares(largest["q"], largest["p"])
        return Change(name, f"{name} = {largest['category']}", before, after, _note_on_others(column, largest))
    return _change_of_numbers(column, kind)


def _note_on_others(column: dict[str, Any], largest: dict[str, Any]) -> str:
    """Return how much all categories changed together. Empty if that is hardly more than the largest change."""
    total = column.get("changes", {}).get("total_variation", 0.0)
    if total - abs(largest["p"] - largest["q"]) < _MORE:
        return ""
    return f"largest of several changes: {percent(total)} of the rows would have to change their category"


def _rank(category: dict[str, Any]) -> tuple[float, float]:
    """Return a key by which the largest change of a share comes last, and of equal changes that of the rarest."""
    return round(abs(category["p"] - category["q"]), 3), -category["p"] - category["q"]


def _category_changes(column: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the categories of a column with their shares. Of a boolean, only true."""
    categories = [one for one in column.get("categories", []) if "n_others" not in one]
    is_boolean = column["kind"] == "boolean"
    return [one for one in categories if one["category"] == "true"] or categories if is_boolean else categories


def is_zero_or_one(column: dict[str, Any]) -> bool:
    """Return whether a column of integers has no other values than 0 and 1. Its mean is then the share of 1."""
    moments = [one for one in column.get("numbers", {}).values() if one is not None]
    ends = [(one["quartiles"][0], one["quartiles"][4]) for one in moments]
    return column["kind"] == "integer" and all(low >= 0 and high <= 1 for low, high in ends)


def _has_values(column: dict[str, Any]) -> bool:
    return all(column.get("numbers", {}).get(sample) is not None for sample in "pq")


def _change_of_numbers(column: dict[str, Any], kind: ChangeKind) -> Change:
    """Return the change of the share of 1, of the median or mean, or of the middle half of the values."""
    name, p, q = column["name"], column["numbers"]["p"], column["numbers"]["q"]
    if is_zero_or_one(column):
        return Change(name, f"{name} = 1", *shares(q["mean"], p["mean"]))
    if kind is ChangeKind.MEAN:
        medians = pair(column, q["quartiles"][2], p["quartiles"][2])
        if medians[0] != medians[1]:
            return Change(name, f"median {name}", *medians)
        return Change(name, f"mean {name}", *pair(column, q["mean"], p["mean"]))
    low, high = (pair(column, q["quartiles"][k], p["quartiles"][k]) for k in (1, 3))
    texts = [f"{low[k]} to {high[k]}" for k in (0, 1)]
    if texts[0] != texts[1]:
        return Change(name, f"middle half of {name}", texts[0], texts[1])
    return Change(name, f"standard deviation of {name}", *pair({"kind": "number"}, q["sd"], p["sd"]))


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
    rows = f"the {count(n_q)} rows of {q} carry as much information as {ess_text(evidence)} rows of {p}"
    return f"After weighting, {rows} (effective sample size, ESS)."


def ess_text(evidence: dict[str, Any]) -> str:
    """Return the effective sample size of the weights with its error."""
    overlap = evidence["diagnosis"]["overlap"]
    return size_text(overlap["ess_q"], overlap["ess_low"], overlap["ess_high"], count)


def is_apart(evidence: dict[str, Any]) -> bool:
    """Return whether the files do not overlap."""
    overlap = evidence["diagnosis"]["overlap"]
    return no_overlap(overlap["share_p_beyond_q"], overlap["headroom"])


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
