r"""Mutual information: the divergence of the rows (x, y) from rows with shuffled y.

.. math:: I(X; Y) = \mathrm{KL}\big(p(x, y) \,\|\, p(x)\, p(y)\big)

Given Z, y is shuffled among rows that are near in z, which makes rows q, whatever the deal is:

.. math:: I(X; Y \mid Z) = \mathrm{KL}(p(x, y, z) \,\|\, q(x, y, z)) - \mathrm{KL}(p(y, z) \,\|\, q(y, z))
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from flowratio._support.errors import ArgumentError
from flowratio._support.types import Matrix, TableLike, Vector, VectorLike
from flowratio._support.validation import RandomState, seed_from
from flowratio._support.wording import counted, in_percent, quoted
from flowratio.applications.crossfit import FEWEST_ROWS, check_folds, cross_fit, ratio_to_fit
from flowratio.applications.dependence import Dependence, dependence, tail_ratios
from flowratio.applications.divergences import clipped_terms, is_above, kl_terms, variance_of_fits
from flowratio.applications.margins import normal_scores
from flowratio.applications.result import BoundEstimate, Conclusion, Limit, bounds_of, interval_text, is_wrong
from flowratio.applications.shuffles import by_row, distance, nearest_rows, shuffled
from flowratio.applications.variables import Variables, variables_of
from flowratio.diagnostics.residual import residual
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.diagnostics.verdict import Verdict, verdict_text
from flowratio.ratios.auto.auto import AutoRatio
from flowratio.ratios.registry import is_additive, new_ratio
from flowratio.samples.folding import folds
from flowratio.samples.two_samples import TwoSamples

_N_DEALS = 8  # shuffled rows for each row of the sample, on which ratios are scored
_N_NEAR = 4  # the same, where y is shuffled among rows near in z
_UNSEEN = 3.0  # n times the nats of a pair of columns that chance hides: a correlation of 2.4 standard errors
_MOST_FITTED = 20_000  # shuffled rows, if n is not larger
_MOST_DEALT = 2_000_000  # shuffled rows
_CONDITIONAL = ("qda", "quadratic", "boosting", "mlp")  # candidates for I(X; Y | Z): all of them see dependence
_LOWER_BOUND = "only the lower end of the interval is known."
_ANOTHER, _MORE_ROWS = "Use another ratio, or the default.", "Use more rows."  # the second one after the default
_ROOM = math.sqrt(3)  # standard errors above the value, for what all learners miss: the upper half is twice the lower
_SMALLEST = 5e-5  # nats: a smaller number is printed as 0
_FEWEST_PAIRS = 200.0  # effective pairs that resemble rows of the sample, below which nothing can be confirmed
_PAIRS_PER_ROW = 0.1  # the same for each row: with fewer, learners see the same pairs again and again


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MutualInformation(BoundEstimate):
    """An estimate of mutual information in nats. It prints as two lines, with the standard error after ±.

    An interval that begins at 0, or has no upper end, does not follow from the standard error. Then ± is not printed.

    `resolution` is what chance hides in a sample of this size, and what flexible learners may miss, in nats. The upper
    end of the interval includes it.
    """

    resolution: float

    @property
    def bits(self) -> float:
        """The information in bits."""
        return self.value / math.log(2)

    def _upper_error(self) -> float:
        return math.hypot(self.standard_error, self.resolution)

    def to_dict(self) -> dict[str, Any]:
        """Return everything, with bits and the interval of 95 %, ready for JSON. An open end is None."""
        return {**super().to_dict(), "resolution": self.resolution, "bits": self.bits}

    def _title(self) -> str:
        return "Mutual information (nats)"

    def _numbers(self) -> list[tuple[str, str]]:
        value = _text(self.value, 4) + ", a lower bound" * (self.limit is Limit.LOWER_BOUND)
        estimates = {"estimate": value, "standard error": _text(self.standard_error)}
        numbers = [(name, estimates.get(name, text)) for name, text in super()._numbers()]
        return [*numbers, ("estimate in bits", _text(self.bits, 4))]

    def __str__(self) -> str:
        low, high = self.interval()
        low = low if low >= _SMALLEST else 0.0
        error = f" ± {_text(self.standard_error)}" * (low > 0 and high < math.inf and self.standard_error >= _SMALLEST)
        value = _text(self.value, 3)
        nothing = "0 nats or more" if self.limit is Limit.LOWER_BOUND else "0"
        numbers = nothing if value == "0" else f"{value}{error} nats, {_text(self.bits, 3)} bits"
        ends = f"{interval_text((low, high))} nats" if high < math.inf else f"from {low:.4g} nats, upper end unknown"
        verdict = verdict_text(self.verdict, self.reason)
        return f"Mutual information: {numbers} (95 % interval: {ends})\n{verdict}"


def mutual_information(
    X: TableLike | VectorLike,
    Y: TableLike | VectorLike,
    Z: TableLike | VectorLike | None = None,
    *,
    ratio: Any = None,
    n_folds: int = 10,
    random_state: RandomState = None,
    verbose: bool = False,
) -> MutualInformation:
    r"""Estimate I(X; Y), or I(X; Y | Z), by cross-fitting, with a standard error and a verdict.

    p is the joint sample: the rows (x, y). q is the product: rows of x with the y of another row. r = p/q is fitted on
    some folds, and scored on the others. y is shuffled within folds, so that no value of a scored fold was fitted.

    Parameters
    ----------
    X, Y
        Rows of the two variables, of shapes (n, d_x) or (n,), and (n, d_y) or (n,): arrays, or tables with text, dates
        and missing values. Each indicator of a category counts as a column.
    Z
        Variables to condition on, of shape (n, d_z) or (n,). None for I(X; Y).
    ratio
        A ratio, or its name, that sees how columns depend on each other, such as `"qda"`, `"quadratic"`, `"boosting"`
        or `"mlp"`. None for a copula (Gaussian or Student's t) with flexible corrections (boosting, a network), which
        is the most accurate. It took 7–10 seconds for 2,000 rows, and 19 seconds for 10,000 rows.
    n_folds, random_state, verbose
        Number of folds, seed of the folds, of the shuffles and of the ratio, and whether to show progress bars.

    Notes
    -----
    A missing value counts as a value of its own. A column that is constant issues a warning.

    Every column is first replaced by its normal scores, so a monotone map of a column changes nothing. With
    `ratio=None` and a column of which fewer than 1,000 rows lie within its width given the others, ranks lose too much.
    Then smooth margins and the columns in their own units are compared too. There a monotone map may change the
    estimate, mostly by less than its standard error. Two discrete variables have a table of counts instead.

    With `ratio=None`, and for I(X; Y | Z), the interval is longer above the value than below it. Learners can miss
    information, but on held-out rows they hardly invent it.

    The verdict is `RELIABLE` only if flexible classifiers, evaluated on all folds, find nothing that the estimate
    misses. Otherwise the estimate is a lower bound, and the interval has no upper end. I(X; Y | Z) is the difference
    of two estimates. If rows near in z still differ, as they do for many columns of Z, the verdict is `DO_NOT_USE`.
    Fewer folds bring them nearer. If too few pairs of rows resemble rows of the sample to confirm the estimate, the
    verdict is `CARE`, and `limit` is `Limit.CEILING`.

    References
    ----------
    .. [1] Nguyen, Wainwright, Jordan (2010). *Estimating divergence functionals and the likelihood ratio.* IEEE TIT.
    .. [2] McAllester, Stratos (2020). *Formal Limitations on the Measurement of Mutual Information.* AISTATS.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> y = 0.8 * x + 0.6 * rng.normal(size=2000)  # I = -log(1 - 0.64) / 2 = 0.51 nats
    >>> information = mutual_information(x, np.exp(y), ratio="qda", random_state=0)
    >>> abs(information.raw - 0.5108) < 3 * information.standard_error, str(information.verdict)
    (True, 'reliable')
    """
    _check_ratio(ratio)
    variables = variables_of({"X": X, "Y": Y} if Z is None else {"X": X, "Y": Y, "Z": Z})
    n, seed = variables.n, seed_from(random_state)
    if n < FEWEST_ROWS:
        raise ValueError(f"`X` has {n} rows. Give at least {FEWEST_ROWS}.")
    rng = np.random.default_rng([seed, 0, 9])
    fold = folds(n, check_folds(n_folds, n), rng)
    if (name := variables.constant()) is not None:
        reason = f"`{name}` is constant, so there is no information."
        conclusion = Conclusion(Verdict.RELIABLE, Limit.NONE, reason)
        return _with_notes(MutualInformation(resolution=0.0, **bounds_of(0.0, 0.0, 0.0, 0.0, conclusion)), variables)
    x, y, *rest = variables.parts
    resolution = _UNSEEN * math.sqrt(x.shape[1] * y.shape[1]) / n
    if ratio is None and not rest:
        return _with_notes(_flexible_result(dependence(x, y, fold, seed, verbose), resolution), variables)
    advice = _MORE_ROWS if ratio is None else _ANOTHER
    x, y, *rest = (normal_scores(part) for part in variables.parts)
    n_deals = int(np.clip(_MOST_DEALT // n, 1, _N_DEALS))
    if not rest:
        deals = np.array([shuffled(fold, rng) for _ in range(n_deals)])
        parts = _information(x, y, deals, ratio, fold, seed, verbose, tail_ratios(x, y, fold, deals))
        return _with_notes(_result(parts, resolution, advice), variables)
    z = rest[0]
    ratio = AutoRatio(list(_CONDITIONAL), time_budget=None, random_state=seed) if ratio is None else ratio
    deals = nearest_rows(z, fold, min(n_deals, _N_NEAR), rng)
    whole = _information(np.column_stack([x, z]), y, deals, ratio, fold, seed, verbose)
    parts = whole.minus(_information(z, y, deals, ratio, fold, seed, verbose))
    return _with_notes(_result(parts, resolution, advice, distance(z, deals)), variables)


def _text(nats: float, digits: int = 2) -> str:
    """Return a number of nats as text, and 0 for rounding and for what no sample can show."""
    return f"{nats:.{digits}g}" if abs(nats) >= _SMALLEST else "0"


def _check_ratio(ratio: Any) -> None:
    if is_additive(new_ratio(ratio, 0)):  # the joint distribution and the product have the same columns
        preset = getattr(ratio, "classifier", ratio)
        name = repr(preset) if isinstance(preset, str) else type(ratio).__name__
        problem = f"`ratio` is {name}, a sum over columns, which sees no dependence between them"
        raise ArgumentError("ratio", f"{problem}. Use a ratio such as 'qda', 'quadratic', 'boosting' or 'mlp'.")


@dataclass(frozen=True, eq=False)
class _Parts:
    """Parts of an estimate of a divergence from shuffled rows."""

    rows: Vector  # (n,): what rows add; their mean is the estimate
    without: Vector  # (n_folds,): the estimate without the rows of a fold
    of_fits: Vector  # (n_folds,): what a fit without the fold adds beyond the reach of the correction
    in_sample: float
    confirmed: float
    beyond: float  # share of rows with a ratio above n
    missing: float  # nats that a flexible check finds beyond the ratio
    noise: float  # the standard error of these
    overlap: float  # effective rows in the overlap, on which the check rests
    subtracted: float = 0.0  # nats of the second divergence, if this is a difference
    missing_there: float = 0.0  # nats that the flexible check finds beyond the second divergence

    def minus(self, other: _Parts) -> _Parts:
        subtracted = float(other.rows.mean())
        names, beyond = ("rows", "without", "of_fits", "in_sample"), max(self.beyond, other.beyond)
        differences: dict[str, Any] = {name: getattr(self, name) - getattr(other, name) for name in names}
        return _Parts(
            **differences,
            confirmed=self.confirmed - subtracted,
            beyond=beyond,
            missing=self.missing,
            noise=self.noise,
            overlap=min(self.overlap, other.overlap),
            subtracted=subtracted,
            missing_there=other.missing,
        )


def _information(
    x: Matrix,
    y: Matrix,
    deals: Matrix,
    ratio: Any,
    fold: Vector,
    seed: int,
    verbose: bool,
    tails: Vector | None = None,
) -> _Parts:
    """Estimate the divergence of rows (x, y), (n, d_x) and (n, d_y), from the same with y shuffled, (m, n).

    `tails` is another column for the flexible check, of rows (x, y) and of all shuffled rows, (n + mn,).
    """
    n = len(x)
    X_q = np.concatenate([np.column_stack([x, y[deal]]) for deal in deals])
    fold_q = np.tile(fold, len(deals))
    n_fitted = n * int(np.clip(_MOST_FITTED // n, 1, len(deals)))  # all of X_q is scored
    X = np.concatenate([np.column_stack([x, y]), X_q[:n_fitted]])
    samples = TwoSamples(X, n, np.ones(len(X)), math.log(n / n_fitted))
    all_folds, more = np.concatenate([fold, fold_q[:n_fitted]]), (X_q[n_fitted:], fold_q[n_fitted:])
    scores = cross_fit(ratio_to_fit(ratio, samples, seed, verbose), samples, all_folds, seed, verbose, more)
    p, q, reach = scores.p, scores.q, math.sqrt(len(X_q))
    of_p, of_q = kl_terms(p.log_r, q.log_r, reach)
    rows = of_p + by_row(of_q.reshape(deals.shape), deals)
    of_fits = p.each @ expit(p.log_r - math.log(reach)) / n
    without = np.array([p.mean_without(k, rows) for k in range(len(of_fits))])
    fitted_p, fitted_q = kl_terms(p.each, q.each[:, :n], reach)
    in_sample = [p.mean_without(k, part) for k, part in enumerate(fitted_p + fitted_q)]
    confirmed = sum(float(part.mean()) for part in clipped_terms(p.log_r, q.log_r, reach))
    beyond = float(np.mean(p.log_r > math.log(n)))
    log_r, is_p = np.concatenate([p.log_r, q.log_r]), np.arange(n + len(X_q)) < n
    all_rows, folds_of_all = np.concatenate([X[:n], X_q]), np.concatenate([fold, fold_q])
    all_rows = all_rows if tails is None else np.column_stack([all_rows, tails])
    each = np.hstack([p.each, q.each])
    check = residual(all_rows, log_r, is_p, np.ones(len(log_r)), seed, fold=folds_of_all, each=each)
    corrected = log_r + check.log_correction
    more_p, more_q = kl_terms(corrected[:n], corrected[n:], reach)
    more = more_p - of_p + by_row((more_q - of_q).reshape(deals.shape), deals)  # of each row, (n,)
    missing = max(float(more.mean()), 0.0)
    return _Parts(
        rows,
        without,
        of_fits,
        float(np.mean(in_sample)),
        confirmed,
        beyond,
        missing,
        float(more.std()) / math.sqrt(n),
        check.n_overlap,
    )


def _result(parts: _Parts, resolution: float, advice: str, distance_z: float | None = None) -> MutualInformation:
    """Return the estimate with its verdict. `advice` is for a ratio of the wrong form.

    `distance_z` is that of rows near in Z, if this is a difference of two estimates.
    """
    held_out, n = float(parts.rows.mean()), len(parts.rows)
    excess = parts.in_sample - held_out
    variance = float(parts.rows.var(ddof=1)) / n + (excess / 2) ** 2 + variance_of_fits(parts.without, parts.of_fits)
    noise = math.sqrt(variance)
    error = math.hypot(noise, max(parts.missing - parts.noise, 0.0), parts.missing_there)
    reason = _unusable(held_out, parts.in_sample, noise, resolution, advice)
    limit = Limit.LOWER_BOUND if reason else Limit.NONE  # what rows near in Z miss may have either sign
    tolerance = max(THRESHOLDS.overfit * abs(held_out), 2 * resolution, THRESHOLDS.small)
    far_z = distance_z or 0.0
    if not reason and max(far_z / THRESHOLDS.neighbors, parts.subtracted / tolerance) > 1:
        reason = f"rows near in Z still differ by {in_percent(far_z)} of the distance of any two, and"
        reason += f" {parts.subtracted:.2g} nats were subtracted for it. The estimate includes what the ratio missed of"
        reason += " these. Use more rows."
    if not reason and parts.missing_there > max(2 * noise, THRESHOLDS.misfit):
        reason = f"the part to subtract is too low by {parts.missing_there:.2g} nats. {advice}"
    conclusion = _conclusion(held_out, noise, parts, advice)
    conclusion = Conclusion(Verdict.DO_NOT_USE, limit, reason) if reason else conclusion
    if conclusion.limit is not Limit.NONE:  # the interval has no upper end, and what is missing is above its lower end
        error = math.hypot(noise, parts.missing_there)
    room = math.hypot(resolution, _ROOM * (parts.missing if distance_z is None else max(parts.missing, error)))
    return MutualInformation(
        resolution=room, **bounds_of(held_out, parts.in_sample, parts.confirmed, error, conclusion)
    )


def _unusable(held_out: float, in_sample: float, error: float, resolution: float, advice: str) -> str:
    """Return why an estimate is not to be used. The text is empty if it is."""
    least = max(2 * resolution, THRESHOLDS.small)
    if is_wrong(held_out, error):
        return f"on held-out rows the ratio does worse than none ({held_out:.3g} nats). {advice}"
    if in_sample - held_out > max(THRESHOLDS.overfit * abs(held_out), least):
        reason = f"the ratio is overfitted: {in_sample:.3g} nats on fitted rows, {held_out:.3g} on held-out rows."
        return f"{reason} Use more rows{', or a simpler ratio' * (advice == _ANOTHER)}."
    if error > max(THRESHOLDS.standard_error * abs(held_out), least):
        return f"the folds disagree, and the standard error is {error:.2g} nats. Use more rows."
    return ""


def _conclusion(held_out: float, noise: float, parts: _Parts, advice: str) -> Conclusion:
    n, excess = len(parts.rows), parts.in_sample - held_out
    if is_above(parts.beyond, THRESHOLDS.too_large, n):
        reason = f"{in_percent(parts.beyond)} of the rows have a ratio above n = {n}, which {n} rows cannot confirm. "
        return Conclusion(Verdict.CARE, Limit.CEILING, f"{reason}The value depends on the form of the ratio.")
    largest = min(2 * noise, max(THRESHOLDS.missing * abs(held_out), THRESHOLDS.small))
    if parts.missing > max(largest, THRESHOLDS.misfit):
        reason = f"{_LOWER_BOUND} The ratio has the wrong form: a flexible check finds"
        if held_out + excess / 2 < max(2 * noise, 2 * _SMALLEST):
            reason = "the ratio sees no dependence, so its result is only a lower bound: a flexible check finds"
        return Conclusion(Verdict.CARE, Limit.LOWER_BOUND, f"{reason} {parts.missing:.2g} nats more. {advice}")
    if parts.overlap < min(THRESHOLDS.fewest_checked, n / 4):
        reason = f"{_LOWER_BOUND} Only {parts.overlap:.0f} shuffled rows resemble rows of the sample, too"
        return Conclusion(Verdict.CARE, Limit.LOWER_BOUND, f"{reason} few to check the form of the ratio.")
    if max(noise, abs(held_out + excess / 2) / 2) < _SMALLEST:
        reason = "the ratio is about 1 on all held-out rows, which shows no information. A flexible check finds"
        reason = f"{reason} {_text(parts.missing)} nats more. The upper end of the interval is what {n} rows can hide."
        return Conclusion(Verdict.RELIABLE, Limit.NONE, reason)
    if abs(held_out + excess / 2) < 2 * noise:
        return Conclusion(Verdict.RELIABLE, Limit.NONE, "the interval includes 0, so the value is not clearly above 0.")
    reason = f"fitted and held-out rows agree to {_text(abs(excess))} nats, and a flexible check finds"
    return Conclusion(Verdict.RELIABLE, Limit.NONE, f"{reason} {_text(parts.missing)} nats more.")


def _flexible_result(parts: Dependence, resolution: float) -> MutualInformation:
    held_out, n = float(parts.rows.mean()), len(parts.rows)
    excess, growth = parts.in_sample - held_out, max(parts.growth, 0.0)
    variance = float(parts.rows.var(ddof=1)) / n + (excess / 2) ** 2
    error = math.sqrt(variance + (growth / 2) ** 2 + (parts.disagreement / 4) ** 2)
    reason = _unusable(held_out, parts.in_sample, math.sqrt(variance), resolution, _MORE_ROWS)
    conclusion = Conclusion(Verdict.DO_NOT_USE, Limit.LOWER_BOUND, reason)
    if not reason:
        conclusion = _flexible_conclusion(parts, held_out, error, resolution)
    room = math.hypot(resolution, _ROOM * error)
    bounds = bounds_of(held_out, parts.in_sample, parts.confirmed, error, conclusion)
    if not reason:  # with an error of c/n the held-out value lacks the growth, and its midpoint with in_sample half
        bounds["raw"] += growth / 2
        bounds["value"] = max(bounds["raw"], 0.0)
    return MutualInformation(resolution=room, **bounds)


def _flexible_conclusion(parts: Dependence, held_out: float, error: float, resolution: float) -> Conclusion:
    if parts.effective_size < max(_FEWEST_PAIRS, _PAIRS_PER_ROW * len(parts.rows)):
        pairs = counted(round(parts.effective_size), "pair")
        reason = f"only {pairs} of x and y from different rows look like real rows. That is too few to confirm"
        reason += f" the value, which depends on the form of the {parts.copula}. {_MORE_ROWS}"
        return Conclusion(Verdict.CARE, Limit.CEILING, reason)
    largest = max(THRESHOLDS.growth * held_out, THRESHOLDS.small / 2, 2 * resolution)
    if parts.growth > largest:
        reason = f"{_LOWER_BOUND} From half of the rows to all rows it grew by {parts.growth:.2g} nats"
        return Conclusion(Verdict.CARE, Limit.LOWER_BOUND, f"{reason}, and more rows may change it.")
    if parts.disagreement > max(THRESHOLDS.overfit * held_out, THRESHOLDS.small, 2 * resolution):
        reason = f"{_LOWER_BOUND} Boosting and a network differ by {parts.disagreement:.2g} nats"
        return Conclusion(Verdict.CARE, Limit.LOWER_BOUND, f"{reason}, so both may miss something.")
    if abs(held_out) < 2 * error:
        methods = "A table of counts shows" if parts.gain is None else "A copula, boosting and a network show"
        reason = f"the interval includes 0. {methods} no information."
        return Conclusion(Verdict.RELIABLE, Limit.NONE, reason)
    if parts.gain is None:
        reason = f"both variables are discrete, so a {parts.copula} misses nothing."
        return Conclusion(Verdict.RELIABLE, Limit.NONE, reason)
    gain, difference = _text(max(parts.gain, 0.0)), _text(parts.disagreement)
    reason = f"boosting and a network find {'nothing' if gain == '0' else f'{gain} nats'} that a {parts.copula} misses."
    return Conclusion(
        Verdict.RELIABLE, Limit.NONE, f"{reason} They differ by {difference} nats." if difference != "0" else reason
    )


def _with_notes(result: MutualInformation, variables: Variables) -> MutualInformation:
    """Return the result with notes on columns that X and Y share, rare categories, missing values and identifiers."""
    if copies := variables.copies():
        verdict = result.verdict if result.verdict is Verdict.DO_NOT_USE else Verdict.CARE
        result = replace(result, reason=copies, verdict=verdict, limit=Limit.LOWER_BOUND)
    result = _with_groups(result, variables) if variables.grouped else result
    if variables.n_missing:
        rows = f"{variables.n_missing} of {counted(variables.n, 'row')}"
        note = f"A value is missing in {rows}. Missing counts as a value of its own."
        result = replace(result, reason=f"{result.reason} {note}")
    return variables.left_out.added_to(result)


def _with_groups(result: MutualInformation, variables: Variables) -> MutualInformation:
    """Return the result with a note on rare categories that count as one."""
    shares = ", ".join(
        f"{in_percent(share)} of the rows of {quoted(name)}" for name, share in variables.grouped.items()
    )
    note = f"The rare categories of text columns count as one: {shares}."
    if max(variables.grouped.values()) <= THRESHOLDS.too_large or result.verdict is Verdict.DO_NOT_USE:
        return replace(result, reason=f"{result.reason} {note}")
    limit = Limit.LOWER_BOUND if result.limit is Limit.NONE else result.limit
    rest = f" {result.reason[:1].upper()}{result.reason[1:]}" if result.verdict is Verdict.CARE else ""
    reason = f"{note} Only the lower end of the interval is known. Use fewer categories, or more rows.{rest}"
    return replace(result, reason=reason, verdict=Verdict.CARE, limit=limit)
