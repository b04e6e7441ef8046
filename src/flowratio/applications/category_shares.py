"""Categories of a text column in both samples: their shares, and which are new, vanished or most changed."""

from __future__ import annotations

import math
from typing import Any, TypedDict

import numpy as np
import polars as pl

from flowratio.samples.category_counts import differs_clearly

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


def _shares(row: dict[str, Any]) -> dict[str, Any]:
    return {"category": row["category"], "p": _rounded(row["p"]), "q": _rounded(row["q"])}


def _rounded(share: Any) -> float:
    return float(f"{share:.4g}") if math.isfinite(share) else 0.0
