"""What a small number of runs can show: means with standard errors, 95 % intervals, and verdicts on differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from scipy.stats import norm, t

_TAIL = 0.025  # of each side of a 95 % interval


class Answer(str, Enum):
    """Whether a claim holds."""

    YES = "yes"
    NO = "no"
    INCONCLUSIVE = "inconclusive"

    def __str__(self) -> str:
        return self.value

    @classmethod
    def of(cls, holds: bool | np.bool_) -> Answer:
        """Return `YES` or `NO`."""
        return cls.YES if holds else cls.NO

    @property
    def opposite(self) -> Answer:
        """The verdict on the opposite claim."""
        return {Answer.YES: Answer.NO, Answer.NO: Answer.YES}.get(self, self)


def standard_error(values: np.ndarray, of_one: float = math.nan) -> np.ndarray:
    """Return the standard error of the mean over runs, (t, …) to (…), and `of_one` if there is one run."""
    if len(values) < 2:
        return np.full(values.shape[1:], of_one)
    return values.std(axis=0, ddof=1) / math.sqrt(len(values))


def with_error(values: np.ndarray, form: str = ".3f", error_form: str | None = None) -> str:
    """Return mean ± standard error over runs, (t,). One run has no standard error.

    Parameters
    ----------
    values
        One for each run.
    form, error_form
        Format of the mean, and of the error. By default the error has the format of the mean, without its sign.

    Examples
    --------
    >>> with_error(np.array([1.0, 2.0, 3.0]), "+.2f")
    '+2.00 ± 0.58'
    >>> with_error(np.array([1.0]))
    '1.000'
    """
    bar = f" ± {float(standard_error(values)):{error_form or form.lstrip('+')}}" if len(values) > 1 else ""
    return f"{values.mean():{form}}{bar}"


def half_width(values: np.ndarray) -> float:
    r"""Return half of the 95 % t-interval of the mean over runs, (t,). It is infinite for one run.

    .. math:: t_{0.975,\, n - 1} \, s / \sqrt{n}

    For differences of two methods with the same seeds this is the paired interval.
    """
    if len(values) < 2:
        return math.inf
    return float(t.isf(_TAIL, len(values) - 1) * standard_error(values))


def with_interval(values: np.ndarray, form: str = "+.3f") -> str:
    """Return mean (low to high) over runs, (t,): the 95 % t-interval. One run has no interval.

    Parameters
    ----------
    values
        One for each run.
    form
        Format of the three numbers.

    Examples
    --------
    >>> with_interval(np.array([1.0, 2.0, 3.0]), "+.2f")
    '+2.00 (-0.48 to +4.48)'
    >>> with_interval(np.array([1.0]))
    '+1.000'
    """
    return _ranged(float(values.mean()), half_width(values), form)


def _ranged(mean: float, half: float, form: str) -> str:
    return f"{mean:{form}}" + (f" ({mean - half:{form}} to {mean + half:{form}})" if math.isfinite(half) else "")


def welch_quantile(ours: np.ndarray, other: np.ndarray, n: int, n_other: int) -> np.ndarray:
    r"""Return the 97.5 % Student quantile for a difference of two means that share no seeds.

    .. math:: \nu = (a^2 + b^2)^2 \Big/ \Big(\frac{a^4}{n - 1} + \frac{b^4}{m - 1}\Big)

    Parameters
    ----------
    ours, other
        Standard errors a and b of the means, of one shape.
    n, n_other
        Numbers n and m of runs, two or more.

    References
    ----------
    .. [1] Welch (1947). *The generalization of "Student's" problem when several different population variances are
       involved.*

    Examples
    --------
    >>> welch_quantile(np.array([1.0]), np.array([1.0]), 10, 10).round(3)  # 18 degrees of freedom
    array([2.101])
    """
    variances = np.square(ours), np.square(other)
    spread = variances[0] ** 2 / (n - 1) + variances[1] ** 2 / (n_other - 1)
    degrees = np.divide(sum(variances) ** 2, spread, out=np.full(np.shape(spread), math.inf), where=spread > 0)
    return t.isf(_TAIL, degrees)


def of_runs(n: int, noun: str = "run") -> str:
    """Return what the numbers of a table are.

    Parameters
    ----------
    n
        Number of runs.
    noun
        The word for one of them.

    Examples
    --------
    >>> of_runs(3)
    'mean ± standard error of 3 runs'
    >>> of_runs(1, "trial")
    'one trial'
    """
    return f"one {noun}" if n == 1 else f"mean ± standard error of {n} {noun}s"


def beyond(differences: np.ndarray) -> Answer:
    """Return whether the mean of differences over runs, (t,), is above 0, by the 95 % t-interval."""
    return Gain(differences).verdict


def every(verdicts: Sequence[Answer]) -> Answer:
    """Return whether all verdicts are yes. It is inconclusive if none is no and one or more are inconclusive."""
    if Answer.NO in verdicts:
        return Answer.NO
    return Answer.INCONCLUSIVE if Answer.INCONCLUSIVE in verdicts else Answer.YES


@dataclass(frozen=True)
class Gain:
    """The advantage of one method over another, run by run.

    Parameters
    ----------
    by_run
        Differences, of shape (t,).
    of_draws
        Standard error of their mean if all runs were alike. By chance, the spread of a small number of runs is less.
    shared
        Standard error due to what all runs share, such as test rows. It is added to that over the runs.

    Notes
    -----
    The 95 % interval has the Student quantile for the spread over runs, and the Gaussian one for the other two.
    """

    by_run: np.ndarray
    of_draws: float = 0.0
    shared: float = 0.0

    @property
    def half_width(self) -> float:
        """Half of the 95 % interval of the mean difference. It is infinite for one run."""
        gaussian = float(norm.isf(_TAIL))
        return math.hypot(max(gaussian * self.of_draws, half_width(self.by_run)), gaussian * self.shared)

    @property
    def verdict(self) -> Answer:
        """Whether the gain is above 0. It is inconclusive if the 95 % interval contains 0, and for one run."""
        if abs(self.by_run.mean()) <= self.half_width:
            return Answer.INCONCLUSIVE
        return Answer.of(self.by_run.mean() > 0)

    def __str__(self) -> str:
        text = _ranged(float(self.by_run.mean()), self.half_width, "+.3f")
        return text + ", one run" * (len(self.by_run) == 1)
