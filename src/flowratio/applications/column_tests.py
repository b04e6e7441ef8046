"""Tests of each column of two samples, under the permutations of a joint test, corrected for their number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from flowratio._support.types import Matrix, Vector
from flowratio.applications.category_scores import N_STATISTICS, CategoryScores
from flowratio.applications.column_changes import ChangeKind, ColumnChanges
from flowratio.applications.column_effect import (
    Variance,
    effect_of,
    variance_of_categories,
    variance_of_number,
    variance_of_pair,
)
from flowratio.applications.rank_scores import RankMeasures, RankScores, positive_or_inf
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.samples.two_samples import TwoSamples

# share of the false alarms that each kind of change of a column may cause: most changes are of the location
_LOCATION, _SCALE, _SHAPE, _CORRELATION = 0.7, 0.15, 0.05, 0.1
# the same for the joint test, relative to each other: of the clearest column, and of each sum over all
_OF_CLEAREST = np.array([0.4, 0.15, 0.12, 0.15, 0.2])  # location, scale, shape, correlation, categories
_OF_SUM = 0.04
_TAIL = 0.25  # share of the permutations that show the tail of a statistic
# in the order of the statistics. Missing values are one of the others, by where the change is
_KINDS = (ChangeKind.MEAN, ChangeKind.SPREAD, ChangeKind.SHAPE, ChangeKind.CORRELATION, ChangeKind.CATEGORIES)


@dataclass(frozen=True, eq=False)
class SourceColumns:
    """The columns that a test is about, each with its numbers or the codes of its categories."""

    names: list[str]  # of the groups
    group: np.ndarray  # (s,): the group of each source column
    of_matrix: np.ndarray  # (d,): the source column of each column of the matrix. No codes are in the matrix
    is_missing: np.ndarray  # (d,): whether a column of the matrix shows where another one has missing values
    codes: dict[int, Vector]  # by source column: all categories of its rows, (n,), the last one for missing values
    n_categories: dict[int, int]  # by source column: without missing values


class ColumnTests:
    """Tests of all columns, by ranks and counts, under permutations of the rows (n, d) of both samples."""

    def __init__(self, X: Matrix, n_p: int, sources: SourceColumns) -> None:
        self.X, self.n_p, self.sources = X, n_p, sources
        self.ranks = RankScores(X, n_p, sources.of_matrix)
        self.categories = {k: CategoryScores(codes, n_p) for k, codes in sources.codes.items()}
        self.of_ranks: list[Vector] = []  # (5,) of each permutation
        self.of_columns: list[Matrix] = []  # (4, d)
        self.of_categories: list[Matrix] = []  # (c, 4)

    def add(self, order: np.ndarray) -> None:
        """Measure one permutation. The first one must be the order of the input."""
        measures = self.ranks.measures(order)
        if not self.of_ranks:
            self.correlations = measures.correlations
        self.of_ranks.append(self.ranks.statistics(measures))
        self.of_columns.append(_by_column(measures))
        of_categories = [scores.statistics(order) for scores in self.categories.values()]
        self.of_categories.append(np.array(of_categories).reshape(-1, N_STATISTICS))

    def statistics(self) -> Matrix:
        """Return the statistic of all permutations, of shape (m + 1, 1): -log p of the clearest change.

        It is the clearest change of each kind, or a sum over all columns, each with its share of the false alarms.
        """
        sums = [_standardized(np.array(self.of_ranks))]
        if self.categories:
            sums.append(_standardized(self._categories().sum(axis=1)))
        of_sums = -log_ndtr(-np.column_stack(sums))
        parts = np.column_stack([self._surprise().max(axis=1), of_sums])  # (m + 1, 5 + k)
        share = np.append(_OF_CLEAREST, np.full(of_sums.shape[1], _OF_SUM))
        is_used = np.any(parts != parts[0], axis=0)  # not without such a column, or such a pair of columns
        surprise = _fitted_tails(parts[:, is_used], moves=True) + np.log(share[is_used])
        return surprise.max(axis=1, keepdims=True, initial=-np.inf if is_used.any() else 0.0)

    def _categories(self) -> np.ndarray:
        """Return statistics of counts in units of their spread over the permutations, of shape (m + 1, c, 4)."""
        return _standardized(np.array(self.of_categories))

    def changes(self) -> ColumnChanges:
        """Return the changes of all groups of columns, the clearest one first."""
        surprise = self._surprise()  # (m + 1, s, 5)
        largest = surprise.max(axis=(1, 2))[1:]  # over all columns: the correction
        observed = surprise[0]
        numbers = np.unique(self.sources.group[observed.max(axis=1) > -np.inf])  # without constants
        members = [np.flatnonzero(self.sources.group == number) for number in numbers]
        clarity = np.array([observed[sources].max() for sources in members])  # many columns have the smallest p-value
        p_value = np.array([_p_value(one, largest) for one in clarity])
        effects = np.array([self._effect(sources, observed, largest) for sources in members])
        order = np.lexsort([-effects[:, 0], -clarity])
        kinds = [self._kind(members[k], observed) for k in order]
        return ColumnChanges(
            names=[self.sources.names[number] for number in numbers[order]],
            columns=numbers[order],
            effect=effects[order, 0],
            standard_error=effects[order, 1],
            p_value=p_value[order],
            kinds=kinds,
            partners=[
                self._partner(members[k]) if kind is ChangeKind.CORRELATION else None
                for k, kind in zip(order, kinds, strict=True)
            ],
            values=[""] * len(order),
        )

    def _effect(self, sources: Vector, observed: Matrix, largest: Vector) -> tuple[float, float]:
        """Return the effect of some source columns, with that of a changed correlation, and its standard error."""
        variances = [self._variance(int(source)) for source in sources if observed[source].max() > -np.inf]
        if _p_value(observed[sources, 3].max(), largest) <= THRESHOLDS.alpha:
            j, k = self._strongest(sources)
            variances.append(variance_of_pair(self.X[:, j], self.X[:, k], self.n_p))
        return effect_of(variances)

    def _surprise(self) -> np.ndarray:
        """Return -log p of all permutations, source columns and kinds of change, of shape (m + 1, s, 5)."""
        of_matrix, z = self.sources.of_matrix, np.array(self.of_columns)  # (m + 1, 4, d)
        n_partners = np.maximum(self.ranks.is_pair.sum(axis=1), 1)
        n_tests = np.stack([np.ones(len(of_matrix)), np.ones(len(of_matrix)), np.full(len(of_matrix), 2), n_partners])
        n_parts = np.bincount(of_matrix)[of_matrix]
        share = np.array([_LOCATION, _SCALE, _SHAPE, _CORRELATION])[:, None]
        by_matrix = _fitted_tails(-math.log(2) - log_ndtr(-z)) - np.log(n_tests * n_parts / share)
        result = np.full((len(z), len(self.sources.group), len(_KINDS)), -np.inf)
        for s in range(len(self.sources.group)):
            parts = of_matrix == s
            if parts.any():
                result[:, s, :4] = by_matrix[:, :, parts].max(axis=2)
        for s, of_categories in zip(self.categories, self._categories().swapaxes(0, 1), strict=True):
            result[:, s, :3] = -np.inf  # indicators of frequent categories: the counts of all say more
            of_counts = _fitted_tails(-log_ndtr(-of_categories), n_errors=0).max(axis=1)
            result[:, s, 4] = of_counts - math.log(N_STATISTICS / (1 - _CORRELATION))
        return result

    def _variance(self, source: int) -> Variance:
        """Return the variance of log r of a source column."""
        if source in self.categories:
            a, b = self.categories[source].count(np.arange(len(self.X)))
            return variance_of_categories(a.astype(np.float64), b.astype(np.float64))
        parts = np.flatnonzero(self.sources.of_matrix == source)
        numbers, missing = parts[~self.sources.is_missing[parts]], parts[self.sources.is_missing[parts]]
        j = numbers[0] if len(numbers) else missing[0]
        has_both = len(numbers) and len(missing)
        is_missing = self.X[:, missing[0]] > self.X[:, missing[0]].min() if has_both else np.zeros(len(self.X), bool)
        return variance_of_number(self.X[:, j], self.ranks.U[:, j], is_missing, self.n_p)

    def _strongest(self, sources: Vector) -> tuple[int, int]:
        """Return the two columns of the matrix whose correlation changed most. The first is one of the sources."""
        correlations = self.correlations * np.isin(self.sources.of_matrix, sources)[:, None]
        j, k = np.unravel_index(int(correlations.argmax()), correlations.shape)
        return int(j), int(k)

    def _partner(self, sources: Vector) -> str:
        """Return the name of the column whose correlation with some source columns changed most."""
        return self.sources.names[self.sources.group[self.sources.of_matrix[self._strongest(sources)[1]]]]

    def _kind(self, sources: Vector, observed: Matrix) -> ChangeKind:
        """Return what changed most in some source columns."""
        kind = int(observed[sources].max(axis=0).argmax())
        if kind == 4:
            source = int(sources[observed[sources, kind].argmax()])
            is_missing = self.categories[source].most_changed() == self.sources.n_categories[source]
            return ChangeKind.MISSING if is_missing else _KINDS[kind]
        if kind < 3:
            parts = np.flatnonzero(self.sources.of_matrix == sources[observed[sources, kind].argmax()])
            if self.sources.is_missing[parts[self.of_columns[0][kind, parts].argmax()]]:
                return ChangeKind.MISSING
        return _KINDS[kind]


def _by_column(measures: RankMeasures) -> Matrix:
    """Return the sizes of location, scale, shape and change of correlation of each column, (4, d)."""
    z = np.abs(measures.curves)
    return np.stack([z[0], z[1], z[2:].max(axis=0), measures.correlations.max(axis=1)])


def _standardized(values: np.ndarray) -> np.ndarray:
    """Return statistics in units of their spread over the permutations, which are the first axis."""
    return (values - values.mean(axis=0)) / positive_or_inf(values.std(axis=0))


def _fitted_tails(surprise: np.ndarray, moves: bool = False, n_errors: float = 2.0) -> np.ndarray:
    """Return -log p of statistics, (m + 1, ...), with the tail that they have over the permutations.

    Where p is right, the upper quarter of -log p exceeds its threshold by 1 on average. It does by more if the tail of
    the statistic is heavier, for example for rare categories. `moves` makes the threshold right too. `n_errors` are the
    standard errors by which a tail must be too heavy: 0 for statistics that often are.
    """
    threshold = np.quantile(surprise, 1 - _TAIL, axis=0)
    above = np.maximum(surprise - threshold, 0.0)
    n = _TAIL * len(surprise)
    # without the largest, which may be the change: of n it exceeds the threshold by 1 + 1/2 + ... + 1/n on average
    excess = (above.sum(axis=0) - above.max(axis=0)) / (n - math.log(n) - np.euler_gamma)
    scale = np.maximum(excess / (1 + n_errors / math.sqrt(n)), 1.0)
    result = np.minimum(surprise, threshold) + above / scale
    return result - threshold - math.log(_TAIL) if moves else result


def _p_value(surprise: float, largest: Vector) -> float:
    """Return a corrected p-value, by the largest surprise of any column under each of m permutations, (m,)."""
    n_as_large = int(np.count_nonzero(largest >= surprise - 1e-12 * abs(surprise)))  # ties count
    return (1 + n_as_large) / (len(largest) + 1)


def source_columns(samples: TwoSamples, groups: Sequence[str] | None) -> SourceColumns:
    """Return the columns of two samples, in their groups if there are any."""
    encoder, n = samples.encoder, samples.X.shape[1]
    if encoder is None:
        names = samples.column_names
        of_matrix, is_missing, codes, sizes = np.arange(n), np.zeros(n, bool), {}, {}
    else:
        names = [column.name for column in encoder.columns_]
        is_code = np.isin(np.arange(n), samples.codes)
        of_matrix = encoder.groups_[~is_code]
        missing = [encoder.missing_position(k) for k in range(len(names))]
        is_missing = np.isin(np.arange(n), [k for k in missing if k is not None])[~is_code]
        texts = {names.index(name): of for name, of in encoder.category_codes(samples.X).items()}
        sizes = {k: len(of.names) for k, of in texts.items()}
        codes = {k: np.where(of.codes < 0, sizes[k], of.codes) for k, of in texts.items()}
    if groups is None:
        return SourceColumns(names, np.arange(len(names)), of_matrix, is_missing, codes, sizes)
    if len(groups) != len(names):
        raise ValueError(f"`groups` has {len(groups)} names, but there are {len(names)} columns. Give one for each.")
    of_groups = list(dict.fromkeys(groups))
    group = np.array([of_groups.index(name) for name in groups])
    return SourceColumns(of_groups, group, of_matrix, is_missing, codes, sizes)
