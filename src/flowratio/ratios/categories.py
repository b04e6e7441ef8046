r"""Log-odds of categories: how the code of a category becomes two numbers that a ratio can use.

A category with a rows of p and b rows of q, of N_p and N_q rows, has the shrunken log-odds

.. math:: \ell = \log\frac{a + s\pi}{b + s(1 - \pi)} - \log\frac{\pi}{1 - \pi}, \qquad \pi = \frac{N_p}{N_p + N_q}

Each row counts only the rows of the other folds, so that its own label has no effect on its log-odds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import betaln

from flowratio._support.row_counts import is_whole
from flowratio._support.types import Matrix, Vector
from flowratio.samples.two_samples import TwoSamples

_N_FOLDS = 10
_STRENGTHS = 2.0 ** np.arange(-2, 17)  # prior strengths s, in rows
_MIN_GAIN = 2.0  # nats by which a finite s must be more likely than no differences between categories
_NEAR = 0.25  # nats of log-odds between categories that may be exchanged when a row is decoded


@dataclass(frozen=True, eq=False)
class CategoryOdds:
    """What replaces each column of codes: log-odds of the category, and whether it is not in the other sample.

    The second number is 1 for a category that is only in p, -1 for one that is only in q, and 0 otherwise. A missing
    value and a category that did not occur at fit have two zeros. If the categories do not differ between the samples
    beyond chance, all numbers are 0.
    """

    positions: tuple[int, ...]  # of the k columns of codes in the matrix
    log_odds: tuple[Vector, ...]  # of every category, by code, for each column of codes
    absence: tuple[Vector, ...]  # 1, -1 or 0, by code, for each column of codes
    shares: tuple[Vector, ...]  # of the rows of both samples, by code, for each column of codes
    strengths: tuple[float, ...]  # s, for each column of codes. Infinite if the categories do not differ

    def replaced(self, X: Matrix) -> Matrix:
        """Replace codes of rows that were not fitted, (n, m) to (n, m + k)."""
        pairs = []
        for position, log_odds, absence in zip(self.positions, self.log_odds, self.absence, strict=True):
            codes = X[:, position].astype(np.int64)
            code = np.where((codes >= 0) & (codes < len(log_odds)), codes, -1)
            pairs.append([np.append(values, 0.0)[code] for values in (log_odds, absence)])
        return _with_pairs(X, self.positions, pairs)

    def restored(self, X: Matrix, first: tuple[int, ...]) -> Matrix:
        """Return rows with codes, (n, m + k) to (n, m): the inverse of `replaced`, for rows that a flow draws.

        Each row gets the code of a category with nearly the same log-odds, as often as the category occurs. The digits
        of the log-odds decide, so that the same row has the same category. Codes below `first`, in each of the k
        columns, have an indicator before "(other)". An indicator is set to 0 where it contradicts the sign of the
        absence, which a flow draws more precisely.
        """
        places = _places(self.positions, X.shape[1] - len(self.positions))
        out = X[:, places]
        for k, (position, n) in enumerate(zip(self.positions, first, strict=True)):
            sign = np.clip(np.round(X[:, places[position] + 1]), -1, 1)
            indicators = out[:, position - n : position - 1]  # of codes 1 to n - 1
            indicators[sign[:, None] != np.append(self.absence[k], np.zeros(n))[1:n]] = 0.0  # 0 if it did not occur
            is_rare = out[:, position - 1] > 0.5
            out[:, position] = self._near(k, X[:, places[position]], sign, np.where(is_rare, n, 0), n)
        return out

    def _near(self, k: int, log_odds: Vector, sign: Vector, start: Vector, first: int) -> Vector:
        """Return a code for each row, (n,), from `first` on if its `start` is `first`, and below if it is 0."""
        codes, out = np.flatnonzero(self.shares[k] > 0), np.zeros(len(log_odds))
        for s, begin in np.unique(np.column_stack([sign, start]), axis=0):
            rows, same = (sign == s) & (start == begin), codes[self.absence[k][codes] == s]
            best = same[(same >= first) == (begin > 0)]
            some = next((part for part in (best, same, codes) if len(part)), np.zeros(1, np.int64))
            some = some[np.argsort(self.log_odds[k][some], kind="stable")]
            out[rows] = some[_chosen(self.log_odds[k][some], self.shares[k][some], log_odds[rows])]
        return out


def _chosen(values: Vector, shares: Vector, x: Vector) -> Vector:
    """Return for each x, (n,), the position of one of the near ascending values, (m,), as often as its share.

    If no value is near, all of them are: otherwise the outermost value would be chosen too often.
    """
    low, high = np.searchsorted(values, x - _NEAR, "left"), np.searchsorted(values, x + _NEAR, "right")
    low, high = np.where(low < high, low, 0), np.where(low < high, high, len(values))
    total = np.concatenate([[0.0], np.cumsum(shares)])
    u = np.modf(np.abs(x) * 1e5)[0]
    position = np.searchsorted(total, total[low] + u * (total[high] - total[low]), "right") - 1
    return np.clip(position, low, high - 1)


def with_category_odds(samples: TwoSamples) -> tuple[CategoryOdds, TwoSamples]:
    """Replace columns of codes by cross-fitted log-odds, (n, m) to (n, m + k), and return what replaces them later.

    Equal rows are merged, ordered and shared out to the folds, so that the order of the input does not matter, and a
    row of weight 2 equals two rows.
    """
    rows, fold = _in_folds(samples)
    of_p, share_p = rows.y == 1, float(rows.w_p.sum() / rows.w.sum())
    columns, pairs = [], []
    for position in rows.codes:
        codes = rows.X[:, position].astype(np.int64)
        counts = _counts(codes, fold, of_p, rows.w)
        total = counts.sum(axis=1)  # (2, K)
        strength = prior_strength(total[0], total[1], share_p)
        columns.append((*_odds(total, strength, share_p), total.sum(axis=0) / total.sum().clip(1e-300), strength))
        others = _odds(total[:, None] - counts, strength, share_p)  # each of shape (n_folds, K)
        has_code = codes >= 0
        pairs.append([np.where(has_code, values[fold, np.where(has_code, codes, 0)], 0.0) for values in others])
    log_odds, absence, shares, strengths = map(tuple, zip(*columns, strict=True))
    X = _with_pairs(rows.X, rows.codes, pairs)
    names = None if rows.names is None else names_with_odds(rows.names, rows.codes)
    odds = CategoryOdds(rows.codes, log_odds, absence, shares, strengths)
    return odds, replace(rows, X=X, names=names, encoder=None, codes=())


def names_with_odds(names: tuple[str, ...], codes: tuple[int, ...]) -> tuple[str, ...]:
    """Return the names of the columns after codes are replaced, m to m + k."""
    pairs = [
        (f"{name} log-odds", f"{name} only in one sample") if j in codes else (name,) for j, name in enumerate(names)
    ]
    return tuple(name for pair in pairs for name in pair)


def prior_strength(a: Vector, b: Vector, share_p: float) -> float:
    """Return the prior strength s that makes counts of categories in p and q, (K,) each, most likely.

    The share of p in each category has a Beta(s π, s (1 - π)) distribution. It is infinite if the categories do not
    differ beyond chance.
    """
    s_p, s_q = _STRENGTHS * share_p, _STRENGTHS * (1 - share_p)
    there = a + b > 0
    a, b = a[there], b[there]
    same = a.sum() * math.log(share_p) + b.sum() * math.log1p(-share_p)
    gains = [float(np.sum(betaln(a + x, b + y) - betaln(x, y))) - same for x, y in zip(s_p, s_q, strict=True)]
    best = int(np.argmax(gains))
    return float(_STRENGTHS[best]) if gains[best] > _MIN_GAIN else math.inf


def _odds(counts: np.ndarray, strength: float, share_p: float) -> tuple[np.ndarray, np.ndarray]:
    """Return log-odds and absence of categories from their counts in p and q, (2, …) to (…)."""
    a, b = counts
    if math.isinf(strength):
        return np.zeros(a.shape), np.zeros(a.shape)
    log_odds = np.log(a + strength * share_p) - np.log(b + strength * (1 - share_p))
    absence = (a > 0).astype(np.float64) - (b > 0)
    return log_odds - math.log(share_p / (1 - share_p)), absence


def _counts(codes: Vector, fold: Vector, of_p: Vector, w: Vector) -> np.ndarray:
    """Return the weights by sample, fold and category, (2, n_folds, K). Codes below 0 do not count."""
    n_categories, has_code = int(codes.max(initial=0)) + 1, codes >= 0
    cell = (np.where(of_p, 0, _N_FOLDS) + fold) * n_categories + codes
    counts = np.bincount(cell[has_code], w[has_code], 2 * _N_FOLDS * n_categories)
    return counts.reshape(2, _N_FOLDS, n_categories)


def _in_folds(samples: TwoSamples) -> tuple[TwoSamples, Vector]:
    """Return the rows in an order of their own, and the fold of each row, of shape (n,).

    Folds are random and do not depend on the labels: within each sample, they depend on its rows alone.
    """
    if samples.groups is not None:
        groups, group = np.unique(samples.groups, return_inverse=True)
        return samples, np.random.default_rng(len(groups)).permutation(len(groups))[group] % _N_FOLDS
    if is_whole(samples.w):
        samples = samples.reordered(samples.standardized(*samples.moments()).X, repeat=False)
    else:  # weights of equal rows cannot be shared out
        order = [np.lexsort((samples.w[part], *samples.X[part].T[::-1])) for part in samples.parts]
        positions = np.concatenate([order[0], samples.n_p + order[1]])
        samples = replace(samples, X=samples.X[positions], w=samples.w[positions])
    parts = [_shared_out(samples.X[part][:, list(samples.codes)], samples.w[part]) for part in samples.parts]
    (rows_p, w_p, fold_p), (rows_q, w_q, fold_q) = parts
    X = samples.X[np.concatenate([rows_p, samples.n_p + rows_q])]
    rows = replace(samples, X=X, n_p=len(rows_p), w=np.concatenate([w_p, w_q]))
    return rows, np.concatenate([fold_p, fold_q])


def _shared_out(codes: Matrix, w: Vector) -> tuple[Vector, Vector, Vector]:
    """Return positions, weights and folds of rows. A row of integer weight above 1 is in several folds."""
    whole = is_whole(w)
    rng = np.random.default_rng([19, int(abs((w if whole else np.ones(len(w))) @ codes.sum(axis=1)))])
    fold = rng.permutation(len(w)) % _N_FOLDS
    if not whole or w.max() == 1:
        return np.arange(len(w)), w, fold
    several = np.flatnonzero(w > 1)
    n = rng.multinomial(w[several].astype(np.int64), np.full(_N_FOLDS, 1 / _N_FOLDS))  # (m, n_folds)
    row, of_fold = np.nonzero(n)
    single = np.flatnonzero(w == 1)
    positions = np.concatenate([single, several[row]])
    order = np.argsort(positions, kind="stable")
    weights = np.concatenate([np.ones(len(single)), n[row, of_fold]])
    return positions[order], weights[order], np.concatenate([fold[single], of_fold])[order]


def _with_pairs(X: Matrix, positions: tuple[int, ...], pairs: list[list[Vector]]) -> Matrix:
    """Return a matrix with two columns in the place of each of k columns, (n, m) to (n, m + k)."""
    out = np.empty((len(X), X.shape[1] + len(positions)))
    places = _places(positions, X.shape[1])
    out[:, places] = X
    for position, (log_odds, absence) in zip(positions, pairs, strict=True):
        out[:, places[position]], out[:, places[position] + 1] = log_odds, absence
    return out


def _places(positions: tuple[int, ...], m: int) -> Vector:
    """Return where each of m columns is, after a column is inserted behind each of the positions, (m,)."""
    return np.arange(m) + np.searchsorted(np.array(positions), np.arange(m))
