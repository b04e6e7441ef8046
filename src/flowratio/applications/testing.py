"""Do two samples come from one distribution? A permutation test, with the columns that drive a difference."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import expit
from scipy.stats import beta

from flowratio._support import markup
from flowratio._support.progress import progress
from flowratio._support.types import Matrix, TableLike, Vector
from flowratio._support.validation import RandomState, check_choice, check_count, check_fraction, seed_from
from flowratio._support.wording import first_of, shown
from flowratio.applications.column_changes import ColumnChanges, p_text
from flowratio.applications.column_tests import ColumnTests, SourceColumns, source_columns
from flowratio.applications.crossfit import check_folds
from flowratio.applications.plain_changes import values_of
from flowratio.applications.rank_scores import positive_or_inf
from flowratio.applications.result import LeftOut, Result
from flowratio.diagnostics.importance import Importance, importance
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.diagnostics.trust import identifier_note, rare_columns
from flowratio.diagnostics.verdict import TestVerdict
from flowratio.ratios.classifier.classifier import ClassifierRatio
from flowratio.ratios.classifier.presets import PRESETS
from flowratio.ratios.registry import fit_prepared, log_ratio_prepared, new_ratio, silent
from flowratio.samples.folding import folds
from flowratio.samples.separating import separating_columns
from flowratio.samples.two_samples import TwoSamples, two_samples
from flowratio.samples.weighting import weighted_moments
from flowratio.tables.columns import FEWEST_OF_CATEGORY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LogRatio = Callable[[Matrix], Vector]
Fit = Callable[[Matrix, Vector], LogRatio]
_N_REPEATS = 3  # permutations of a column, to see how it moves log r
_MAX_NAMED = 5  # columns in one line of text


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TwoSampleTest(Result):
    """Result of a permutation test. It prints as its conclusion, and a line for each of the clearest changes.

    `value` is the p-value: (b + 1) / (m + 1) if b of m permutations have a statistic at least as large. It is never 0.
    `standard_error` is what the choice of the permutations adds to it, and `interval()` covers the p-value that
    infinitely many permutations would give.
    """

    statistic: float  # how well the labels are predicted, in standard deviations over the permutations, above the mean
    null: Vector  # (m,): the statistic under each permutation
    drivers: ColumnChanges  # the columns, the clearest change first. Empty if no difference is found
    importance: Importance | None = None  # how much each column moves log r. None without a ratio, or a difference
    separating: list[str]  # columns that alone separate the samples. To test the others, repeat without them
    note: str = ""  # what the test can hardly see: rare categories, and identifiers, which were left out
    left_out: tuple[str, ...] = ()  # columns that were left out as identifiers

    @property
    def p_value(self) -> float:
        """The same as `value`."""
        return self.value

    def without(self, columns: LeftOut) -> TwoSampleTest:
        """Return the result with a note on columns that were left out before the test."""
        if not columns.names:
            return self
        reason, note = f"{self.reason.rstrip('.')}. {columns.text}", f"{self.note} {columns.text}".strip()
        return replace(self, reason=reason, note=note, left_out=(*self.left_out, *columns.names))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return an interval of the p-value that infinitely many permutations would give (Clopper and Pearson)."""
        check_fraction(level, "level")
        m = len(self.null)
        b = round(self.p_value * (m + 1)) - 1
        low, high = beta.ppf((1 - level) / 2, b, m - b + 1), beta.ppf((1 + level) / 2, b + 1, m - b)
        return float(low) if b else 0.0, float(high) if b < m else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, the verdict and the drivers, ready for JSON."""
        numbers = {"p_value": self.p_value, **super().to_dict(), "statistic": self.statistic}
        rest = {"drivers": self.drivers.to_list(), "left_out": [*self.left_out]}
        return {**numbers, "n_permutations": len(self.null), **rest}

    def _draw(self, axes: Axes) -> None:
        axes.hist(self.null, bins=20, color="0.8", edgecolor="0.4", label="shuffled labels")
        axes.axvline(self.statistic, color="black", linewidth=2, label=f"statistic, p = {p_text(self.p_value)}")
        axes.set(xlabel="statistic (standard deviations)", ylabel="permutations")
        changes = self._changes() if self.drivers.names else None
        axes.legend(frameon=False, fontsize="small", title=changes, title_fontsize="small")

    def _numbers(self) -> list[tuple[str, str]]:
        low, high = self.interval()
        p_value = f"{p_text(self.p_value)} (95 % interval: {low:.2g} to {high:.2g})"
        return [("p-value", p_value), ("statistic (standard deviations)", f"{self.statistic:.3g}")]

    def _repr_html_(self) -> str:
        verdict = str(self.verdict).capitalize()
        answer = markup.lead(verdict, self.conclusion.removeprefix(verdict).strip())
        table = markup.table("Permutation test", (), self._numbers())
        return answer + self.drivers.to_html() + table

    def __str__(self) -> str:
        first = [f"  {text}" for text in self.drivers.values[:_MAX_NAMED] if text]
        return "\n".join([self.conclusion, *first])

    @property
    def conclusion(self) -> str:
        """The verdict with the p-value, the columns that changed most, and notes, as one line."""
        conclusion = f"{str(self.verdict).capitalize()} (p = {p_text(self.p_value)}, {len(self.null)} permutations)."
        changes = self._changes() if self.verdict is TestVerdict.DIFFER else ""
        return " ".join(filter(None, [conclusion, changes, self._separation(), self.note]))

    def _separation(self) -> str:
        if not self.separating:
            return ""
        names, them = first_of([shown(name) for name in self.separating], _MAX_NAMED), "this column"
        verb, them = ("separates", them) if len(self.separating) == 1 else ("separate", "these columns")
        return f"{names} alone {verb} the samples. To compare the other columns, repeat without {them}."

    def _changes(self) -> str:
        names = [shown(name) for name in self.drivers.clear]
        if names:
            return f"Largest change{'s' * (len(names) > 1)}: {first_of(names, _MAX_NAMED)}."
        if self.importance is None:
            return "No single column differs clearly."
        names = [shown(name) for name in self.importance.names[:2]]
        return f"No single column differs clearly. These move log r most: {', '.join(names)}."


def two_sample_test(
    X_p: TableLike,
    X_q: TableLike,
    ratio: Any = None,
    *,
    statistic: Literal["scores", "ratio"] = "scores",
    n_permutations: int = 200,
    n_folds: int = 2,
    groups: Sequence[str] | None = None,
    random_state: RandomState = None,
    verbose: bool = False,
) -> TwoSampleTest:
    r"""Test whether p = q, from a sample of each.

    A statistic measures how well p is distinguished from q. The measurement is repeated with shuffled labels. Under the
    null hypothesis no order of the labels is special, so the p-value is exact for every n.

    `statistic="scores"`, the default, fits no ratio. It uses the scores of

    .. math:: \log r(x) = \sum_j \sum_{k \le 4} \theta_{jk} h_k(u_j) + \sum_{i < j} \vartheta_{ij} u_i u_j

    at θ = 0, where u are the normal scores of the columns, and h are Hermite polynomials: for locations, scales, shapes
    (skewness, tails, two modes) and correlations. Text columns add counts over all their categories, see
    `CategoryScores`. The statistic combines the clearest change of each kind in a single column with sums of squares
    over all columns, which see many small changes. All have the same scale: -log p, with the tail that the permutations
    show. Locations of single columns have the largest weight. Correlations are compared only if there are enough rows:
    two 0/1 columns must share 5 rows in each sample on average. The default does not see how two columns depend on each
    other beyond their correlation. Use a `ratio` for that.

    If the samples differ, `drivers` lists the columns, the clearest change first, each with its effect. Its p-value is
    corrected for the number of columns, by the largest change of any column in each permutation [4]_.

    Parameters
    ----------
    X_p, X_q
        Rows drawn from p and from q, of shapes (n_p, d) and (n_q, d): arrays, or tables with text, dates and missing
        values. For tables the drivers are the columns of the table.
    ratio
        A ratio, or its name, for `statistic="ratio"`, which a `ratio` implies. None for `AutoRatio()`, which chooses
        again for each permutation: expect hours.
    statistic
        `"scores"`, or `"ratio"`: the mean class probability of held-out rows of p minus that of q. `"logistic"` sees
        means, `"qda"` also variances and correlations, `"boosting"` all changes that are large enough.
    n_permutations, n_folds
        The smallest p-value is 1 / (n_permutations + 1). A ratio is fitted (n_permutations + 1) × n_folds times.
    groups
        The group of each of the d columns: `drivers` are then the groups. None if each column stands alone.
    random_state, verbose
        Seed of the folds, of the permutations and of the ratio, and whether to show a progress bar.

    References
    ----------
    .. [1] Lopez-Paz, Oquab (2017). *Revisiting Classifier Two-Sample Tests.* ICLR.
    .. [2] Phipson, Smyth (2010). *Permutation P-values Should Never Be Zero.* SAGMB.
    .. [3] Chernoff, Savage (1958). *Asymptotic Normality and Efficiency of Certain Nonparametric Test Statistics.*
    .. [4] Westfall, Young (1993). *Resampling-Based Multiple Testing.* Wiley.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X_p, X_q = rng.normal(size=(300, 3)), rng.normal(size=(300, 3))
    >>> X_p[:, 1] *= 1.5
    >>> print(two_sample_test(X_p, X_q, n_permutations=99, random_state=0))
    The files differ (p = 0.01, 99 permutations). Largest change: x2.
      middle half of x2: −0.570 to 0.771 → −0.977 to 0.980
    """
    check_count(n_permutations, "n_permutations")
    check_choice(statistic, "statistic", ["scores", "ratio"])
    samples = two_samples(X_p, X_q, blind=True)
    sources = source_columns(samples, groups)
    n_folds = check_folds(n_folds, min(samples.n_p, samples.n_q))
    seed = seed_from(random_state)
    rng = np.random.default_rng([seed, 0, 8])
    X, n_p, is_number = _standardized(samples), samples.n_p, ~np.isin(np.arange(samples.X.shape[1]), samples.codes)
    tests, fitted = ColumnTests(X[:, is_number], n_p, sources), None
    if ratio is not None or statistic == "ratio":
        fold = np.concatenate([folds(n, n_folds, rng) for n in (n_p, samples.n_q)])  # of positions, not of rows
        fitted = _CrossFitted(X, n_p, fold, _fitting(ratio, seed, samples.codes))
    orders = chain([np.arange(len(X))], (rng.permutation(len(X)) for _ in range(n_permutations)))
    of_ratio = []
    with silent(), progress(n_permutations, "permutations", verbose) as step:
        for k, order in enumerate(orders):
            tests.add(order)
            of_ratio += [] if fitted is None else [fitted.statistics(order)]
            if k:
                step()
    observed, null, p_value = _largest(tests.statistics() if fitted is None else np.array(of_ratio))
    differs, note = p_value <= THRESHOLDS.alpha, _note(samples)
    drivers = tests.changes() if differs else ColumnChanges.none()
    drivers = replace(drivers, values=values_of(drivers, X_p, X_q, samples.encoder))
    return TwoSampleTest(
        value=p_value,
        standard_error=math.sqrt(p_value * (1 - p_value) / (len(null) + 1)),
        statistic=observed,
        null=null,
        drivers=drivers,
        separating=[column.name for column in separating_columns(samples)] if differs else [],
        importance=_importance(fitted, samples, sources, rng) if differs and fitted is not None else None,
        note=note,
        left_out=() if samples.encoder is None else tuple(samples.encoder.identifiers()),
        verdict=TestVerdict.DIFFER if differs else TestVerdict.NO_DIFFERENCE,
        reason=f"p = {p_text(p_value)}, {n_permutations} permutations{'. ' * bool(note)}{note}",
    )


def _standardized(samples: TwoSamples) -> Matrix:
    """Return the rows in standard units, (n, d), with codes of categories unchanged."""
    X = samples.X.astype(np.float64)
    mean, scale = weighted_moments(X, np.full(len(X), 1 / len(X)))
    mean[list(samples.codes)], scale[list(samples.codes)] = 0.0, 1.0
    return (X - mean) / scale


def _largest(values: Matrix) -> tuple[float, Vector, float]:
    """Return the largest of k statistics, that of m permutations, (m,), and the p-value. The first row is observed.

    Each statistic is in units of its spread, (m + 1, k), and 0 if it is the same for all permutations.
    """
    largest = ((values - values.mean(axis=0)) / positive_or_inf(values.std(axis=0))).max(axis=1)
    value, null = float(largest[0]), largest[1:]
    n_as_large = int(np.count_nonzero(null >= value - 1e-12 * abs(value)))  # ties count
    return value, null, (1 + n_as_large) / len(largest)


def _note(samples: TwoSamples) -> str:
    """Name the text columns in which many rows have a rare category, and the identifiers that were left out."""
    if samples.encoder is None:
        return ""
    columns = rare_columns(samples.encoder.rare_shares_, THRESHOLDS.grouping_stated)
    rare = f"Categories with fewer than {FEWEST_OF_CATEGORY} rows are hard to compare: {columns}." if columns else ""
    return " ".join(filter(None, [rare, identifier_note(samples.encoder)]))


def _importance(
    fitted: _CrossFitted, samples: TwoSamples, sources: SourceColumns, rng: np.random.Generator
) -> Importance:
    """Measure how much each group of columns moves log r of a ratio that is fitted to all rows."""
    share = np.repeat([0.5 / samples.n_p, 0.5 / samples.n_q], [samples.n_p, samples.n_q])
    of_matrix = np.arange(samples.X.shape[1]) if samples.encoder is None else samples.encoder.groups_
    with silent():
        log_ratio = fitted.log_ratio()
        return importance(log_ratio, fitted.X, share, sources.names, _N_REPEATS, rng, sources.group[of_matrix])


class _CrossFitted:
    """Log-ratios of held-out rows, under permutations of the rows (n, d) of both. `fold` is of the positions, (n,)."""

    def __init__(self, X: Matrix, n_p: int, fold: np.ndarray, fit: Fit) -> None:
        self.X, self.fold, self.fit = X, fold, fit
        self.is_p = np.arange(len(X)) < n_p

    def statistics(self, order: np.ndarray) -> Vector:
        """Return, for a permutation, the mean class probability of p minus that of q, of shape (1,)."""
        X, probability = self.X[order], np.empty(len(order))
        for k in range(int(self.fold.max()) + 1):
            rest, held_out = self.fold != k, self.fold == k
            probability[held_out] = expit(self.fit(X[rest], self.is_p[rest].astype(int))(X[held_out]))
        return np.array([probability[self.is_p].mean() - probability[~self.is_p].mean()])

    def log_ratio(self) -> LogRatio:
        """Return the log-ratio that is fitted to all rows in their order."""
        return self.fit(self.X, self.is_p.astype(int))


def _fitting(ratio: Any, seed: int, codes: tuple[int, ...]) -> Fit:
    """Return a function that fits a ratio to rows, first those of p, and labels: a preset without another scaling."""
    ratio = new_ratio(ratio, seed)  # refused before anything is fitted
    name = ratio.classifier if isinstance(ratio, ClassifierRatio) and ratio.calibration is None else None
    if isinstance(name, str) and name in PRESETS and not codes:
        return partial(_fitted_preset, name, seed_from(ratio.random_state) % 2**32)

    def fit(X: Matrix, y: Vector) -> LogRatio:
        samples = TwoSamples(X, int(y.sum()), np.ones(len(X)), _log_odds(y), codes=codes)
        return partial(log_ratio_prepared, fit_prepared(new_ratio(ratio, seed), samples))

    return fit


def _fitted_preset(name: str, seed: int, X: Matrix, y: Vector) -> LogRatio:
    classifier = PRESETS[name](X, y, seed).fit(X, y)
    return lambda X: classifier.decision_function(X) - _log_odds(y)


def _log_odds(y: Vector) -> float:
    return math.log(y.sum() / (1 - y).sum())
