"""Which candidates get more folds if there is not enough time for all of them."""

from __future__ import annotations

from collections.abc import Sequence


def affordable(scores: Sequence[float], costs: Sequence[float], seconds: float, n_more: int) -> tuple[set[int], int]:
    """Return the positions of candidates that get more folds, and the number of these folds.

    The best candidate comes first. If there is no time for all its folds it gets fewer. The others follow in the order
    of score per second, while there is time for as many folds.

    Parameters
    ----------
    scores, costs
        Score of each candidate on the first fold, in nats, and seconds of a fold, (m,) each.
    seconds, n_more
        Time that is left, and number of folds after the first.
    """
    best = max(range(len(scores)), key=lambda k: scores[k])
    if n_more * sum(costs) <= seconds:
        return set(range(len(scores))), n_more
    n_more = min(n_more, max(0, int(seconds / max(costs[best], 1e-9))))
    if n_more == 0:  # the first fold decides
        return set(range(len(scores))), 0
    chosen, left = {best}, seconds - n_more * costs[best]
    for k in sorted(range(len(scores)), key=lambda k: -scores[k] / max(costs[k], 1e-9)):
        if k not in chosen and n_more * costs[k] <= left:
            chosen.add(k)
            left -= n_more * costs[k]
    return chosen, n_more
