"""Which candidates get more folds if there is not enough time for all of them."""

from __future__ import annotations

from collections.abc import Sequence

_CLEARLY = 2.0  # standard errors


def affordable(
    scores: Sequence[float], errors: Sequence[float], costs: Sequence[float], seconds: float, n_more: int
) -> tuple[set[int], int]:
    """Return the positions of candidates that get more folds, and the number of these folds.

    The best candidate comes first, or one that is not clearly worse if there is time for all folds of that one only. If
    there is no such candidate the best one gets fewer folds. The others follow in the order of score per second, while
    there is time for as many folds.

    Parameters
    ----------
    scores, errors, costs
        Score of each candidate on the first fold, in nats, standard error of its difference to the best score, and
        seconds of a fold, (m,) each.
    seconds, n_more
        Time that is left, and number of folds after the first.
    """
    everyone = range(len(scores))
    if n_more * sum(costs) <= seconds:
        return {*everyone}, n_more
    best = max(everyone, key=lambda k: scores[k])
    equal = [k for k in everyone if scores[best] - scores[k] <= _CLEARLY * errors[k] and n_more * costs[k] <= seconds]
    first = max(equal, key=lambda k: scores[k], default=best)
    n_more = min(n_more, max(0, int(seconds / max(costs[first], 1e-9))))
    if n_more == 0:  # the first fold decides
        return {*everyone}, 0
    chosen, left = {first}, seconds - n_more * costs[first]
    for k in sorted(everyone, key=lambda k: -scores[k] / max(costs[k], 1e-9)):
        if k not in chosen and n_more * costs[k] <= left:
            chosen.add(k)
            left -= n_more * costs[k]
    return chosen, n_more
