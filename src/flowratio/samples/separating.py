"""Columns that alone separate two samples, so that no weights on rows of q can match p.

Such a column has disjoint ranges, is constant in each sample but different, has no category in common, or is missing
in one sample only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.stats import binom

from flowratio._support.types import Vector
from flowratio.samples.two_samples import TwoSamples

_SEPARATES = 0.95  # total variation of one column: at least 97.5 % of the rows can be labeled right by it
_EXPLAINS = 0.5  # share of the rows of p far from q that have a value which does not occur in q
_MOST_ROWS = 5_000  # rows of each sample that are sorted
_LEAST_SHARED = 10.0  # rows in common by chance, from which on categories without such rows are no accident
_FEW_VALUES = 0.2  # distinct values per row, up to which shares of values are compared


class SeparatingColumn(NamedTuple):
    """The name of a column of the table, and what it does, such as "separates the samples"."""

    name: str
    effect: str


class _Values(NamedTuple):
    """The values of one column of the table."""

    name: str
    x: Vector | None  # numbers, or codes of categories, (n,). None if it only has an indicator of missing values
    is_missing: Vector  # (n,)
    is_category: bool


def separating_columns(samples: TwoSamples, is_far: Vector | None = None) -> list[SeparatingColumn]:
    """Return the columns that separate two samples, those that do it best first.

    `is_far` marks rows of p, (n_p,), that lie where q has hardly any rows. A column is returned too if these rows have
    values of it that do not occur in q.
    """
    columns: list[tuple[float, SeparatingColumn]] = []
    for values in _sources(samples):
        distance = _total_variation(values, samples.n_p)
        if distance >= _SEPARATES:
            columns.append((1 + distance, SeparatingColumn(values.name, _effect(values, samples.n_p))))
        elif is_far is not None and is_far.any():
            share, effect = _only_in_p(values, samples.n_p, is_far)
            if share >= _EXPLAINS:
                columns.append((share, SeparatingColumn(values.name, effect)))
    return [column for _, column in sorted(columns, key=lambda pair: -pair[0])]


def one_sided_shares(samples: TwoSamples) -> dict[str, tuple[float, float]]:
    """Return, for each text column, the shares of rows of p and of q with a category that the other does not have."""
    if samples.encoder is None:
        return {}
    shares = {}
    for name, (codes, names) in samples.encoder.category_codes(samples.X).items():
        counts = [np.bincount(codes[part] + 1, samples.w[part], len(names) + 1)[1:] for part in samples.parts]
        of_p, of_q = (own[other == 0].sum() for own, other in (counts, counts[::-1]))
        shares[name] = (float(of_p / samples.w_p.sum()), float(of_q / samples.w_q.sum()))
    return shares


def _sources(samples: TwoSamples) -> Iterator[_Values]:
    """Yield the columns of the table that the matrix was made from."""
    X, encoder = samples.X, samples.encoder
    if encoder is None:
        for j, name in enumerate(samples.column_names):
            yield _Values(name, X[:, j], np.isnan(X[:, j]), is_category=False)
        return
    codes = set(samples.codes)
    for k, column in enumerate(encoder.columns_):
        places = np.flatnonzero(encoder.groups_ == k)
        missing = encoder.missing_position(k)
        rest = places if missing is None else places[places != missing]
        is_missing: Vector = np.zeros(len(X), bool) if missing is None else X[:, missing] > 0.5
        if not len(rest):
            yield _Values(column.name, None, is_missing, is_category=False)
        elif column.n_categories:
            own = [j for j in rest if j in codes]
            x = X[:, own[0]] if own else X[:, rest] @ np.arange(1.0, 1 + len(rest))
            yield _Values(column.name, x, is_missing, is_category=True)
        else:
            yield _Values(column.name, X[:, rest[0]], is_missing, is_category=False)


def _total_variation(values: _Values, n_p: int) -> float:
    """Return the largest difference of probabilities of a set of values: values below a threshold, or any of few."""
    if values.is_category and values.x is not None:
        return _categories_apart(np.where(values.is_missing, -2.0, values.x), n_p)  # the code of new categories is -1
    parts = [_some(part) for part in (np.arange(n_p), np.arange(n_p, len(values.is_missing)))]
    missing = [float(values.is_missing[rows].mean()) for rows in parts]
    if values.x is None:
        return abs(missing[0] - missing[1])
    distances = [abs(missing[0] - missing[1])]
    for place in (-np.inf, np.inf):  # a missing value is below or above all others
        x_p, x_q = (np.where(values.is_missing[rows], place, values.x[rows]) for rows in parts)
        distances.append(_shares_apart(x_p, x_q))
    return max(distances)


def _shares_apart(x_p: Vector, x_q: Vector) -> float:
    points = np.unique(np.concatenate([x_p, x_q]))
    below = [np.searchsorted(np.sort(x), points, "right") / len(x) for x in (x_p, x_q)]
    ordered = float(np.abs(below[0] - below[1]).max())
    if len(points) > _FEW_VALUES * (len(x_p) + len(x_q)):
        return ordered
    shares = [np.diff(part, prepend=0.0) for part in below]
    return max(ordered, float(np.abs(shares[0] - shares[1]).sum() / 2))


def _categories_apart(codes: Vector, n_p: int) -> float:
    r"""Return the total variation of categories beyond chance, from the codes of all rows, (n,).

    Shuffled labels give :math:`E_0 > 0`, and 1 if each row has its own category. The result is
    :math:`(V - E_0) / (1 - E_0)`. A category with n rows, of which A are in p by chance, adds
    :math:`|A - n \pi| N / (N_p N_q)` to 2V, with the share :math:`\pi` of p. For a binomial A, the mean of it is known
    (De Moivre).
    """
    _, category = np.unique(codes, return_inverse=True)
    in_p = np.bincount(category[:n_p], minlength=int(category.max()) + 1)
    size, n_q = np.bincount(category), len(codes) - n_p
    share = n_p / len(codes)
    unit = len(codes) / (2 * n_p * n_q)
    v = unit * float(np.abs(in_p - size * share).sum())
    above = np.floor(size * share) + 1
    chance = unit * float(np.sum(2 * above * (1 - share) * binom.pmf(above, size, share)))
    if (1 - chance) * min(n_p, n_q) < _LEAST_SHARED:
        return 0.0
    return (v - chance) / (1 - chance)


def _effect(values: _Values, n_p: int) -> str:
    in_p, in_q = values.is_missing[:n_p], values.is_missing[n_p:]
    for only, other, sample in ((in_p, in_q, "p"), (in_q, in_p, "q")):
        if only.mean() >= _SEPARATES and not other.any():
            return f"is missing in {'all' * bool(only.all()) or 'most'} rows of {sample} and in no other row"
    return "separates the samples"


def _only_in_p(values: _Values, n_p: int, is_far: Vector) -> tuple[float, str]:
    """Return the share of some rows of p, (n_p,), whose value does not occur in q, and what the column does."""
    missing_p, missing_q = values.is_missing[:n_p][is_far], values.is_missing[n_p:]
    share_missing = 0.0 if missing_q.any() else float(missing_p.mean())
    if values.x is None:
        return share_missing, "is missing in rows of p only"
    x_p, x_q = values.x[:n_p][is_far], values.x[n_p:][~missing_q]
    if values.is_category:
        is_new = ~np.isin(x_p, np.unique(x_q)) & ~missing_p
    elif len(x_q):
        is_new = ((x_p < x_q.min()) | (x_p > x_q.max())) & ~missing_p
    else:
        is_new = ~missing_p
    if share_missing >= is_new.mean():
        return share_missing, "is missing in rows of p only"
    noun = "categories" if values.is_category else "values"
    return share_missing + float(is_new.mean()), f"has {noun} in p that do not occur in q"


def _some(rows: Vector) -> Vector:
    """Return positions unchanged, or a random part of them if there are many."""
    return rows if len(rows) <= _MOST_ROWS else np.random.default_rng(0).choice(rows, _MOST_ROWS, replace=False)
