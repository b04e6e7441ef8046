"""What `fit` prints about a model: whether the files differ, what changed, and whether to use the weights."""

from __future__ import annotations

from typing import Any

from flowratio._support.numbers import plain_spaces
from flowratio._support.wording import LONGEST_PATH, in_percent, shown
from flowratio.diagnostics.summary import score_sentence
from flowratio.diagnostics.verdict import separated, verdict_text
from flowratio.report.answers import (
    MAX_CHANGES,
    changed_columns,
    drift_sentence,
    headroom_sentence,
    more_changes,
    unweighted_sentence,
    weight_sentence,
    with_file_names,
)
from flowratio.report.category_changes import category_sentences
from flowratio.report.drift import differs
from flowratio.report.names import file_names, legible_evidence
from flowratio.report.steps import separation_sentence


def answers(evidence: dict[str, Any], most: int | None = None) -> str:
    """Return whether two files differ, the columns that changed, the effective sample size and the verdict.

    `most` is the largest number of reasons of the verdict. None for all.
    """
    evidence = legible_evidence(evidence)
    diagnosis, (p, q) = evidence["diagnosis"], file_names(evidence["origin"])
    changes = [f"  {text}" for text in [*changed_columns(evidence), more_changes(evidence, MAX_CHANGES)] if text]
    separation = separation_sentence(evidence)
    lines = [
        *filter(None, [separation]),
        drift_sentence(evidence),
        *([f"Changes from {q} to {p}:", *changes] if changes else []),
    ]
    lines += [weight_sentence(evidence) if differs(evidence) else unweighted_sentence(evidence["origin"])]
    first = [finding.words for finding in separated(diagnosis["separating"])]  # it is the first line
    problems = [text for text in diagnosis["warnings"] if text not in first]
    reasons = [*problems, *(f"Advice: {text}" for text in diagnosis["advice"])]
    n_more = len(reasons[:0] if most is None else reasons[most:])
    more = [f"- The report has {n_more} more reason{'s' * (n_more > 1)}."] if n_more else []
    points = [*(f"- {text}" for text in reasons[:most]), *more, *(f"Note: {text}" for text in diagnosis["notes"])]
    lines += [verdict_text(diagnosis["verdict"], ""), *(with_file_names(text, evidence["origin"]) for text in points)]
    return plain_spaces("\n".join(lines))


def details(evidence: dict[str, Any]) -> str:
    """Return the numbers of the checks."""
    diagnosis, origin = evidence["diagnosis"], evidence["origin"]
    p, q = file_names(origin)
    auc = diagnosis["leftover"]["auc"]
    lines = [
        f"r = {p} / {q}. The weight of a row of {q} is r, divided by its mean.",
        "Fitted to {n_p:,} and {n_q:,} rows in {seconds:.1f} seconds.".format(**origin),
        f"Checked in {diagnosis['n_folds']} folds: each row is scored by a model that was not fitted to it.",
        score_sentence(diagnosis["score"], diagnosis["score_error"], 4),
        headroom_sentence(evidence),
        f"After weighting, a classifier of numbers and frequent categories is right in {in_percent(auc)} of pairs"
        " (about 50 % = it finds no difference, far below = too few rows to judge).",
        *(shown(text, LONGEST_PATH) for text in category_sentences(evidence)),
    ]
    return plain_spaces("\n".join(lines))
