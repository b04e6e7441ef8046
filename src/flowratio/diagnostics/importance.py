r"""Which columns move log r: how much log r changes when a column is permuted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from flowratio._support.types import Matrix, Vector
from flowratio._support.wording import in_percent, more_columns, shown
from flowratio.samples.weighting import systematic

_MAX_SHOWN = 10  # columns in the text
_MOST_ROWS = 2_000
_MOST_SCORED = 1_000_000  # rows in all, if they are not fewer than a hundred for each column
_VALUES_AT_ONCE = 1 << 22


@dataclass(frozen=True, eq=False)
class Importance:
    r"""How much each column moves log r, where both samples count one half.

    .. math:: I_j = \sqrt{\tfrac12\, E\big(\log r(x) - \log r(x')\big)^2}

    where x' is x with column j from another row: the standard deviation in nats that the column adds to log r, alone
    and with others (the total effect of Jansen 1999, Computer Physics Communications). Every array has the shape (d,).
    """

    names: list[str]  # of the d columns, the most important one first
    columns: np.ndarray  # their positions in X, or the numbers of the groups that were permuted together
    effect: Vector  # I, in nats
    standard_error: Vector  # of `effect`, from the repeats; 0 for one repeat
    share: Vector  # I² divided by the sum of I² over columns; 0 if no column moves log r

    def __str__(self) -> str:
        width = max([6, *(len(shown(name)) for name in self.names[:_MAX_SHOWN])])
        rows = zip(self.names[:_MAX_SHOWN], self.effect, self.standard_error, self.share, strict=False)
        lines = [
            f"{shown(name):<{width}}  {f'{effect:.2f} ± {error:.2f}':<13}  {in_percent(share)}"
            for name, effect, error, share in rows
        ]
        more = more_columns(len(self.names), _MAX_SHOWN)
        return "\n".join([f"{'column':<{width}}  effect (nats)  share", *lines, *filter(None, [more])])


def importance(
    log_ratio: Callable[[Matrix], Vector],
    X: Matrix,
    share: Vector,
    names: list[str],
    n_repeats: int,
    rng: np.random.Generator,
    groups: np.ndarray | None = None,
) -> Importance:
    """Permute one column, or one group of columns, at a time, and measure how log r changes.

    `X` has the rows of both samples, of shape (n, d), and `share` their weights, which add up to 1, of shape (n,).
    `names` are those of the columns, or of the groups if `groups` has a group for each column, of shape (d,).
    """
    d = X.shape[1]
    groups = np.arange(d) if groups is None else groups
    numbers = np.unique(groups)
    n = min(len(X), _MOST_ROWS, max(100, _MOST_SCORED // (len(numbers) * n_repeats)))
    order = rng.permutation(len(X))
    rows = X[order[systematic(share[order], n, rng.random())]]
    base = log_ratio(rows)
    permutations = [(groups == g, rng.permutation(n)) for g in numbers for _ in range(n_repeats)]
    at_once = max(1, _VALUES_AT_ONCE // (n * d))
    squares: list[float] = []
    for start in range(0, len(permutations), at_once):
        part = permutations[start : start + at_once]
        blocks = np.tile(rows, (len(part), 1)).reshape(len(part), n, d)
        for block, (of, order) in zip(blocks, part, strict=True):
            block[:, of] = rows[order][:, of]
        change = log_ratio(blocks.reshape(-1, d)).reshape(len(part), n) - base
        squares += np.mean(change**2, axis=1).tolist()
    return _sorted(np.array(squares).reshape(len(numbers), n_repeats) / 2, names, numbers)


def _sorted(variance: Matrix, names: list[str], groups: np.ndarray) -> Importance:
    """Summarize variances of shape (d, n_repeats) of groups of shape (d,)."""
    n_repeats = variance.shape[1]
    effect = np.sqrt(variance.mean(axis=1))
    spread = np.sqrt(variance).std(axis=1, ddof=1) / np.sqrt(n_repeats) if n_repeats > 1 else np.zeros(len(variance))
    order = np.argsort(-effect, kind="stable")
    share = effect**2 / max(float(effect @ effect), np.finfo(np.float64).tiny)
    columns = groups[order]
    return Importance([names[j] for j in columns], columns, effect[order], spread[order], share[order])
