"""Sentences about new, vanished, changed and rare categories of text columns."""

from __future__ import annotations

from typing import Any

from flowratio._support.numbers import count, percent
from flowratio._support.numbers import shares as texts
from flowratio._support.wording import counted
from flowratio.applications.category_shares import ChangedCategories
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.report.names import file_names, legible_evidence
from flowratio.tables.columns import FEWEST_OF_CATEGORY


def category_sentences(evidence: dict[str, Any]) -> list[str]:
    """Return a sentence for each text column with new or vanished categories, or with rare ones."""
    evidence = legible_evidence(evidence)
    p, q = file_names(evidence["origin"])
    sentences = []
    for column in evidence["columns"]:
        changes = column.get("changes") or {"n_new": 0, "n_vanished": 0}
        parts = [
            f"{counted(changes[f'n_{kind}'], 'category', 'categories')} only in {file}"
            f" ({percent(changes[f'share_{kind}'])} of its rows)"
            for kind, file in (("new", p), ("vanished", q))
            if changes[f"n_{kind}"]
        ]
        if parts:
            sentences.append(f"Column {column['name']} has {' and '.join(parts)}.")
    return sentences + rare_sentences(evidence)


def rare_sentences(evidence: dict[str, Any]) -> list[str]:
    """Return a sentence for each text column in which many rows have a rare category."""
    least = THRESHOLDS.grouping_stated
    shares = {name: share for name, share in evidence["diagnosis"]["grouping"].items() if share >= least}
    problem = f"have a category with fewer than {FEWEST_OF_CATEGORY} rows"
    problem += ". The ratio of such a category is not estimated on its own"
    return [f"In column {name}, {percent(share)} of rows {problem}." for name, share in shares.items()]


def category_lines(changes: ChangedCategories, p: str, q: str, *, has_changed: bool = True) -> list[str]:
    """Return the new, vanished and most changed categories of a column as one line each. Arrows are from q to p.

    `has_changed` is whether the column changed clearly. If not, changed categories are left out: of many, some change
    by chance.
    """
    lines = []
    for kind, sample, file in (("new", "p", p), ("vanished", "q", q)):
        n, share, rows = changes[f"n_{kind}"], changes[f"share_{kind}"], changes[kind]
        listed = ", ".join(f"{one['category']} ({percent(one[sample])})" for one in rows)
        more = f" and {count(n - len(rows))} more, together {percent(share)} of its rows" * (n > len(rows))
        lines += [f"Only in {file} ({kind}): {listed}{more}."] if n else []
    arrows = [f"{one['category']} {' → '.join(texts(one['q'], one['p']))}" for one in changes["changed"]]
    return lines + [f"Most changed: {', '.join(arrows)}."] * bool(arrows and has_changed)
