r"""Means over a target of what was measured on other rows: weighted (Hájek), and doubly robust.

With shares t of the target rows and s of the measured rows, each with sum 1, and a prediction m of the value:

.. math:: \hat\theta_{\text{Hájek}} = \sum_i s_i y_i, \qquad
          \hat\theta_{\text{DR}} = \sum_i t_i m(x_i) + \sum_i s_i (y_i - m(x_i))

The error of the doubly robust mean is the product of the errors of the ratio and of the prediction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy.special import expit
from scipy.stats import t as student

from flowratio._support.errors import ArgumentError
from flowratio._support.row_counts import is_whole
from flowratio._support.types import Matrix, Vector, VectorLike
from flowratio._support.validation import check_choice, check_fraction
from flowratio.applications.result import Result, interval_text
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.diagnostics.verdict import Finding, Verdict, verdict_text
from flowratio.weights import finite_vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Method = Literal["doubly-robust", "hajek"]
METHODS = ("doubly-robust", "hajek")
_FEW_DF = 30.0  # degrees of freedom: an interval of 95 % is over 2 % wider than 2 standard errors
_LARGEST_DF = 1e6  # degrees of freedom: Student's distribution is the Gaussian
_ERRORS_APART = 1.2  # factor between two standard errors from which coverage of 95 % can be 98 %
_FARTHEST = 10.0  # standard deviations of a column
_MOST_COLUMNS = 100
_RIDGE = 1e-6  # of the mean curvature: for columns that depend on each other
_ROUNDING = 1e-9  # of the largest absolute value: differences below it are rounding
_DIFFERENCE = 2.0  # standard errors between two predictions: the part within chance is in the standard error
_SMALL_BIAS = 0.5  # standard errors: an interval of 95 % that is off by as much covers in 92 % of samples


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MeanEstimate(Result):
    """A mean, or a difference of means, with an interval of Student's distribution.

    `weighted` is the estimate without a prediction of the values (Hájek), and `unweighted` the one without weights. The
    degrees of freedom are those of Satterthwaite. If a handful of rows decide, they are few, and the interval is wider
    than 2 standard errors. With the verdict *do not use* no interval is printed, because the standard error ignores the
    reasons of the verdict.
    """

    method: Method
    weighted: float
    unweighted: float
    degrees_of_freedom: float

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return an interval with this probability of covering the true value."""
        check_fraction(level, "level")
        reach = float(student.ppf(0.5 + level / 2, self.degrees_of_freedom)) * self.standard_error
        return self.value - reach, self.value + reach

    def to_dict(self) -> dict[str, Any]:
        """Return the result with the interval of 95 %, ready for JSON."""
        others = {"weighted": self.weighted, "unweighted": self.unweighted}
        return {**super().to_dict(), "method": self.method, **others, "degrees_of_freedom": self.degrees_of_freedom}

    def _numbers(self) -> list[tuple[str, str]]:
        if self.verdict is Verdict.DO_NOT_USE:
            return [("estimate", f"{self.value:.4g}"), ("without weights", f"{self.unweighted:.4g}")]
        others = {"weights alone": self.weighted, "without weights": self.unweighted}
        return [*super()._numbers(), *((name, f"{value:.4g}") for name, value in others.items())]

    def _draw(self, axes: Axes) -> None:
        low, high = self.interval()
        axes.hlines(0, low, high, color="0.5", linewidth=3, label=f"95 % interval: {interval_text((low, high))}")
        axes.plot(self.value, 0, "o", color="black", label=f"estimate: {self.value:.4g}")
        axes.plot(self.unweighted, 0, "x", color="black", label=f"without weights: {self.unweighted:.4g}")
        axes.set(yticks=[], ylim=(-1, 1.5), xlabel=self._title())
        axes.legend(frameon=False, loc="upper center", ncols=2, fontsize="small")

    def __str__(self) -> str:
        return f"{self._title()}: {self.value:.4g}{self._spread()}\n{verdict_text(self.verdict, self.reason)}"

    def _spread(self) -> str:
        """Return the standard error and the interval in words. Without overlap they would be far too small."""
        if self.verdict is Verdict.DO_NOT_USE:
            return " (no interval: it would ignore the problems below)"
        t = f", Student's t with {self.degrees_of_freedom:.0f} degrees of freedom"
        few = t * (self.degrees_of_freedom < _FEW_DF)
        return f" ± {self.standard_error:.2g} (95 % interval: {interval_text(self.interval())}{few})"


class WeightedMean(NamedTuple):
    """A mean over target rows of a value that was measured on source rows. Every vector is of shape (n,)."""

    hajek: float
    correction: float  # mean prediction of the target minus that of the weighted source: 0 if weights balance it
    known: Vector  # what each row adds to `hajek` beyond the mean, if the ratio is known
    response: Vector  # what `hajek` gains if log r grows by 1 at each row
    adjusted: Vector  # what each row adds to `hajek + correction` beyond the mean, whatever the ratio is
    largest: float  # absolute value of the source rows

    def minus(self, other: WeightedMean) -> WeightedMean:
        """Return the difference of two means over the same rows."""
        parts: Any = [a - b for a, b in zip(self, other, strict=True)]
        return WeightedMean(*parts)._replace(largest=max(self.largest, other.largest))

    @property
    def robust(self) -> float:
        """The doubly robust mean."""
        return self.hajek + self.correction

    @property
    def rounding(self) -> float:
        """The size of differences that are rounding only."""
        return _ROUNDING * self.largest


class Share(NamedTuple):
    """Shares of rows, (n,), with sum 1 and 0 outside a group, and the derivatives of their logs by log r."""

    of: Vector
    slope: Vector | float
    is_target: bool = False  # whether the group is the target: its mean needs no prediction


def weighted_mean(values: Vector, prediction: Vector, target: Vector, source: Share, counts: Vector) -> WeightedMean:
    """Return the mean over target rows of values that were measured on source rows.

    All vectors have the shape (n,). `target` has shares with sum 1, which are 0 outside. `values` count on source rows
    only. A row counts for as many rows as `counts` has.
    """
    share, rest = source.of, values - prediction
    hajek = float(share @ values)
    return WeightedMean(
        hajek,
        correction=float(target @ prediction - share @ prediction),
        known=_parts(values, share, counts),
        response=share * source.slope * (values - hajek),
        adjusted=_parts(prediction, target, counts) + _parts(rest, share, counts),
        largest=float(np.abs(values[share > 0]).max()),
    )


def _parts(values: Vector, share: Vector, counts: Vector) -> Vector:
    """Return what each row adds to a weighted mean beyond it: squared and added up, its variance."""
    free = max(1 - float(share @ (share / counts)), np.finfo(np.float64).eps)  # 0 if one row has all the weight
    return share * (values - share @ values) / math.sqrt(free)


class Spread(NamedTuple):
    """The standard error of a sum over rows, and its degrees of freedom."""

    error: float
    df: float


def spread(parts: Vector, counts: Vector) -> Spread:
    r"""Return the standard error of a sum of independent parts of rows, (n,), by Satterthwaite's formula.

    .. math:: \mathrm{se}^2 = \sum_i \psi_i^2, \qquad
              \mathrm{df} = 2\, \mathrm{se}^4 \Big/ \Big(\sum_i \psi_i^4 - \mathrm{se}^4 / n\Big)
    """
    largest = float(np.abs(parts).max())
    if largest == 0:
        return Spread(0.0, _LARGEST_DF)
    each = np.square(parts / largest / counts)  # of each of the rows that a row counts for
    variance = float(counts @ each)
    excess = float(counts @ np.square(each)) - variance**2 / counts[parts != 0].sum()
    df = float(2 * variance**2 / max(excess, 2 * variance**2 / _LARGEST_DF))
    return Spread(largest * math.sqrt(variance), min(max(df, 1.0), _LARGEST_DF))


def row_counts(*weights: Vector) -> Vector:
    """Return for how many rows each row of some samples counts, (n,): its integer weight, or 1 for other weights."""
    return np.concatenate([w if is_whole(w) else np.ones(len(w)) for w in weights])


class Tangent(NamedTuple):
    """What a fitted ratio depends on: columns of all rows, (n, d), which rows are p, weights and log-odds, (n,)."""

    X: Matrix
    is_p: np.ndarray
    w: Vector
    logit: Vector

    def influence(self, mean: WeightedMean) -> Vector:
        r"""Return what each row adds to a weighted mean, (n,), if log r is a fitted linear function of the columns.

        Maximum likelihood of the odds moves the coefficients by :math:`H^{-1} w (T - e) x` for each row, with
        :math:`H = \sum w\, e (1 - e)\, x x^\top`. The mean moves with them, which mostly makes it more accurate.
        """
        F = self._columns(mean.response)
        rest, e = expit(-self.logit), expit(self.logit)
        H = F.T @ (F * (self.w * e * rest)[:, None])
        size = H.diagonal().mean()
        if size < np.finfo(np.float64).tiny:  # the ratio separates p from q: no row moves it
            return mean.known
        pull = F @ np.linalg.solve(H + _RIDGE * size * np.eye(len(H)), F.T @ mean.response)
        return mean.known + self.w * np.where(self.is_p, rest, -e) * pull

    def _columns(self, response: Vector) -> Matrix:
        """Return a constant and standardized columns, (n, k): the ones that move the mean most, if there are many."""
        center, scale = self.X.mean(axis=0), self.X.std(axis=0)
        Z = np.clip((self.X - center) / np.where(scale > 0, scale, np.inf), -_FARTHEST, _FARTHEST)
        largest = np.argsort(-np.abs(response @ Z), kind="stable")[:_MOST_COLUMNS]
        return np.column_stack([np.ones(len(Z)), Z[:, np.sort(largest)]])


class MeanWithSpread(NamedTuple):
    """A value with its spread, and what is wrong with it."""

    value: float
    spread: Spread
    findings: list[Finding]


class Reference(NamedTuple):
    """The same mean with a prediction of the values that is better on held-out rows, and its model."""

    mean: WeightedMean
    model: str


def estimate_of(
    mean: WeightedMean, method: Method, counts: Vector, tangent: Tangent, reference: Reference | None = None
) -> MeanWithSpread:
    """Return the value of a method. Its findings compare the two methods, and the predictions of two models.

    A reference shows what the prediction misses. What a doubly robust mean differs from it is part of its error.
    """
    if method == "hajek":
        mean = reference.mean if reference else mean
        return _weighted(mean, spread(mean.adjusted, counts), spread(tangent.influence(mean), counts))
    estimate = _robust(mean, spread(mean.adjusted, counts), counts)
    return _compared(estimate, mean, reference, counts) if reference else estimate


def _compared(estimate: MeanWithSpread, mean: WeightedMean, reference: Reference, counts: Vector) -> MeanWithSpread:
    """Return a doubly robust mean whose standard error includes the difference from a better prediction."""
    difference, findings = reference.mean.robust - mean.robust, list(estimate.findings)
    chance = spread(reference.mean.adjusted - mean.adjusted, counts).error
    if abs(difference) > max(_DIFFERENCE * chance, mean.rounding):
        words = f"The outcome model has the wrong form: {reference.model!r} predicts better, and gives"
        words = f"{words} {reference.mean.robust:.4g} instead of {mean.robust:.4g}."
        findings.append(Finding(f"{words} Use `outcome_model={reference.model!r}`.", False))
    error = math.hypot(estimate.spread.error, difference)
    return MeanWithSpread(estimate.value, estimate.spread._replace(error=error), findings)


def _weighted(mean: WeightedMean, adjusted: Spread, fitted: Spread) -> MeanWithSpread:
    """Return the weighted mean. Its standard error depends on how flexible the ratio is: the largest one is used."""
    smaller, larger = sorted([adjusted, fitted])
    findings = []
    if larger.error > max(_ERRORS_APART * smaller.error, mean.rounding):
        words = f"The standard error depends on how flexible the ratio is: it is between {smaller.error:.2g} and"
        findings.append(Finding(f"{words} {larger.error:.2g}. Use `method='doubly-robust'`.", False))
    if abs(mean.correction) > max(_SMALL_BIAS * larger.error, mean.rounding):
        words = f"The weights do not balance the predicted values: a doubly robust estimate is {mean.robust:.4g}, not"
        findings.append(Finding(f"{words} {mean.hajek:.4g}. Use `method='doubly-robust'`.", False))
    return MeanWithSpread(mean.hajek, larger, findings)


def _robust(mean: WeightedMean, adjusted: Spread, counts: Vector) -> MeanWithSpread:
    change = spread(mean.known - mean.adjusted, counts).error  # of the correction, if the ratio is known
    if abs(mean.correction) <= max(THRESHOLDS.z * max(change, adjusted.error), mean.rounding):
        return MeanWithSpread(mean.robust, adjusted, [])
    words = f"Weights alone give {mean.hajek:.4g}, the doubly robust estimate is {mean.robust:.4g}: more apart than by"
    finding = Finding(f"{words} chance, so the ratio is wrong. Try another `ratio`.", False)
    return MeanWithSpread(mean.robust, adjusted, [finding])


def checked_method(method: Any) -> Method:
    """Return one of `METHODS`."""
    name: Any = method.lower().replace("_", "-").replace("á", "a") if isinstance(method, str) else method
    check_choice(name, "method", METHODS)
    return name


def checked_values(values: VectorLike, n: int, name: str, rows: str) -> Vector:
    """Return finite numbers, one for each of n rows, (n,)."""
    numbers = finite_vector(values, name)
    if len(numbers) != n:
        raise ArgumentError(
            name, f"`{name}` has {len(numbers)} values but `{rows}` has {n} rows. Give one for each row."
        )
    return numbers
