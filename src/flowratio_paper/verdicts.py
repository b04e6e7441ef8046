"""What a small number of runs can show: means with standard errors, and verdicts on differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np


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
    """Return whether the mean of differences over runs, (t,), is above 0, by more than two standard errors."""
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
    """

    by_run: np.ndarray
    of_draws: float = 0.0
    shared: float = 0.0

    @property
    def error(self) -> float:
        """Standard error of the mean difference. For one run, only the part that does not need several runs."""
        return math.hypot(max(self.of_draws, float(standard_error(self.by_run, 0.0))), self.shared)

    @property
    def verdict(self) -> Answer:
        """Whether the gain is above 0. It is inconclusive within two standard errors, and for one run."""
        if len(self.by_run) < 2 or abs(self.by_run.mean()) <= 2 * self.error:
            return Answer.INCONCLUSIVE
        return Answer.of(self.by_run.mean() > 0)

    def __str__(self) -> str:
        return f"{self.by_run.mean():+.3f} ± {self.error:.3f}" + ", one run" * (len(self.by_run) == 1)
