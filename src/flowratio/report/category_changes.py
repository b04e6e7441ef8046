"""Categories of a text column in both samples: their shares, and which are new, vanished or most changed."""

from __future__ import annotations

import math
from typing import Any, TypedDict

import numpy as np
import polars as pl

from flowratio._support.wording import counted
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.report.names import file_names, legible_evidence
from flowratio.report.numbers import count, percent
from flowratio.report.numbers import shares as texts
from flowratio.samples.category_counts import differs_clearly
from flowratio.tables.columns import FEWEST_OF_CATEGORY

CATEGORIES = 20  # categories in the table of a column. The others are counted together
_LISTED = 10  # categories in a list of new, vanished or changed ones


class ChangedCategories(TypedDict):
    """New categories occur only in p, vanished ones only in q. Each list has shares of all rows of both samples.

    The `is_clear` of a category is whether its shares differ by more than chance.
    """

    n_new: int
    share_new: float  # of the rows of p
    new: list[dict[str, Any]]
    n_vanished: int
    share_vanished: float  # of the rows of q
    vanished: list[dict[str, Any]]
    changed: list[dict[str, Any]]  # of those in both samples: the largest differences of shares, beyond chance
    n_clear: int  # categories of all kinds that differ by more than chance


def category_shares(p: pl.Series, q: pl.Series) -> pl.DataFrame:
    """Return a row for each category of two columns of text, with its share in each sample, the most frequent first."""
    parts = [
        pl.DataFrame({"category": s.cast(pl.String), "is_p": pl.repeat(k == 0, len(s), eager=True)})
        for k, s in enumerate((p, q))
    ]
    n_p, n_q = max(len(p), 1), max(len(q), 1)
    counts = pl.concat(parts).group_by("category").agg(n=pl.len(), n_p=pl.col("is_p").sum())
    shares = counts.select("category", p=pl.col("n_p") / n_p, q=(pl.col("n") - pl.col("n_p")) / n_q)
    return shares.sort([pl.col("p") + pl.col("q"), "category"], descending=[True, False])


def frequent_categories(shares: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the frequent categories with their shares. The last row counts rare ones together, as `n_others`."""
    rows = [_shares(row) for row in shares[:CATEGORIES].iter_rows(named=True)]
    if shares.height > CATEGORIES:
        rest = shares[CATEGORIES:]
        total = {"category": f"{rest.height} other categories", "p": rest["p"].sum(), "q": rest["q"].sum()}
        rows.append({**_shares(total), "n_others": rest.height})
    return rows


def changed_categories(
    shares: pl.DataFrame, n_p: int, n_q: int, n_rows: tuple[int, int] | None = None
) -> ChangedCategories:
    """Return the new, vanished and most changed categories of `category_shares` of n_p and n_q cells.

    The shares of the result are those of all rows of p and q. `n_rows` has their numbers, None if no cell is missing.
    """
    rows_p, rows_q = (n_p, n_q) if n_rows is None else n_rows
    of_rows = {"p": pl.col("p") * n_p / max(rows_p, 1), "q": pl.col("q") * n_q / max(rows_q, 1)}
    counts = [np.rint(shares[sample].to_numpy() * n) for sample, n in (("p", n_p), ("q", n_q))]
    shares = shares.with_columns(**of_rows, is_clear=pl.Series(differs_clearly(counts[0], counts[1]), dtype=pl.Boolean))
    new, vanished = shares.filter(pl.col("q") == 0), shares.filter(pl.col("p") == 0)
    both = shares.filter((pl.col("p") > 0) & (pl.col("q") > 0) & pl.col("is_clear"))
    largest = [(pl.col("p") - pl.col("q")).abs().round(9), pl.col("p") + pl.col("q")]  # of equal changes, the rarest
    both = both.sort(largest, descending=[True, False])
    return {
        "n_new": new.height,
        "share_new": _rounded(new["p"].sum()),
        "new": _listed(new),
        "n_vanished": vanished.height,
        "share_vanished": _rounded(vanished["q"].sum()),
        "vanished": _listed(vanished),
        "changed": _listed(both),
        "n_clear": int(shares["is_clear"].sum()),
    }


def _listed(shares: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the first categories with their shares."""
    return [{**_shares(row), "is_clear": row["is_clear"]} for row in shares[:_LISTED].iter_rows(named=True)]


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


def _shares(row: dict[str, Any]) -> dict[str, Any]:
    return {"category": row["category"], "p": _rounded(row["p"]), "q": _rounded(row["q"])}


def _rounded(share: Any) -> float:
    return float(f"{share:.4g}") if math.isfinite(share) else 0.0
