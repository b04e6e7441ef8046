"""Where one sample has rows and the other has none, a divergence cannot be confirmed: the notes and the verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from flowratio._support.wording import in_percent, quoted
from flowratio.applications.result import Limit
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.diagnostics.trust import rare_columns
from flowratio.diagnostics.verdict import Verdict
from flowratio.samples.separating import one_sided_shares
from flowratio.samples.two_samples import TwoSamples
from flowratio.tables.columns import FEWEST_OF_CATEGORY

if TYPE_CHECKING:
    from flowratio.applications.divergences import Divergence

_UNBOUNDED = {"kl": ("p", "q"), "reverse-kl": ("q", "p"), "pearson": ("p", "q")}  # numerator and denominator


def with_support(result: Divergence, samples: TwoSamples) -> Divergence:
    """Return the result with notes on rows that the other sample cannot confirm, and a lower verdict for them.

    These are rare categories, categories that only one sample has, and, for divergences without an upper bound, rows
    far outside the range of the other sample. There log r is extrapolated.
    """
    open_notes, notes = _rare(samples, THRESHOLDS.grouping), []
    for name, (of_p, of_q) in one_sided_shares(samples).items():
        if max(of_p, of_q) > THRESHOLDS.too_large:
            rows = f"{in_percent(of_p)} of the rows of p and {in_percent(of_q)} of the rows of q"
            note = f"In {quoted(name)}, {rows} have a category that the other sample does not have."
            is_infinite = result.kind in _UNBOUNDED and (of_q if result.kind == "reverse-kl" else of_p) > 0
            (open_notes if is_infinite else notes).append(note)
    if result.kind in _UNBOUNDED:
        open_notes += _extrapolated(samples, *_UNBOUNDED[result.kind])
    if not (notes or open_notes):
        return replace(result, reason=" ".join([result.reason, *_rare(samples, THRESHOLDS.grouping_stated)]))
    verdict = Verdict.CARE if result.verdict is Verdict.RELIABLE else result.verdict
    limit = result.limit
    if open_notes and limit is Limit.NONE and verdict is Verdict.CARE:
        limit, open_notes = Limit.LOWER_BOUND, [*open_notes, "So the value is a lower bound."]
    return replace(result, reason=" ".join([result.reason, *notes, *open_notes]), verdict=verdict, limit=limit)


def _rare(samples: TwoSamples, least: float) -> list[str]:
    columns = "" if samples.encoder is None else rare_columns(samples.encoder.rare_shares_, least)
    problem = f"Categories with fewer than {FEWEST_OF_CATEGORY} rows cannot be compared one by one"
    return [f"{problem}: {columns}."] if columns else []


def _extrapolated(samples: TwoSamples, of: str, other: str) -> list[str]:
    """Count the rows of one sample that lie far outside the range of the other, in the column with most of them."""
    rows = dict(zip("pq", (samples.plain[part] for part in samples.parts), strict=True))
    low, high = rows[other].min(axis=0), rows[other].max(axis=0)
    with np.errstate(over="ignore"):
        reach = THRESHOLDS.far * (high - low)
        n_far = ((rows[of] < low - reach) | (rows[of] > high + reach)).sum(axis=0)
    n_far = np.where(high > low, n_far, 0)  # an indicator that is 0 in the other sample is a category
    j = int(np.argmax(n_far))
    if not n_far[j]:
        return []
    column = [name for k, name in enumerate(samples.column_names) if k not in samples.codes][j]
    count = f"{n_far[j]} row{'s' * bool(n_far[j] > 1)} of {of} lie{'s' * bool(n_far[j] == 1)}"
    return [f"{count} far from every row of {other} in {quoted(column)}, where log r is extrapolated."]
