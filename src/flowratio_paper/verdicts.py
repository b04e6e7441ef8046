"""What a few runs can tell: means with standard errors, and differences that lie beyond them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


def standard_error(values: np.ndarray, of_one: float = math.nan) -> np.ndarray:
    """Return the standard error of the mean over runs, (t, …) to (…), and `of_one` where there is only one."""
    if len(values) < 2:
        return np.full(values.shape[1:], of_one)
    return values.std(axis=0, ddof=1) / math.sqrt(len(values))


def with_error(values: np.ndarray, form: str = ".3f", error_form: str | None = None) -> str:
    """Return mean ± standard error over runs, (t,); the mean alone for one run, which tells no error.

    Parameters
    ----------
    values
        One for each run.
    form, error_form
        How the mean is written, and the error if not as the mean without its sign.

    Examples
    --------
    >>> with_error(np.array([1.0, 2.0, 3.0]), "+.2f")
    '+2.00 ± 0.58'
    >>> with_error(np.array([1.0]))
    '1.000'
    """
    bar = f" ± {float(standard_error(values)):{error_form or form.lstrip('+')}}" if len(values) > 1 else ""
    return f"{values.mean():{form}}{bar}"


def of_runs(n: int, what: str = "run") -> str:
    """Return what the numbers of a table are.

    Parameters
    ----------
    n
        How many runs there are.
    what
        The word for one of them.

    Examples
    --------
    >>> of_runs(3)
    'mean ± standard error of 3 runs'
    >>> of_runs(1, "trial")
    'one trial'
    """
    return f"one {what}" if n == 1 else f"mean ± standard error of {n} {what}s"


def beyond(differences: np.ndarray) -> bool | None:
    """Return whether the mean of differences over runs, (t,), is above 0; None within two standard errors of it."""
    return Gain(differences).holds


def every(verdicts: Sequence[bool | None]) -> bool | None:
    """Return whether all of some verdicts are yes; None if none is no and some cannot be told."""
    return False if False in verdicts else None if None in verdicts else True


@dataclass(frozen=True)
class Gain:
    """What one method has more than another, run by run.

    Parameters
    ----------
    by_run
        Differences, of shape (t,).
    of_draws
        Standard error of their mean if all runs were alike: few runs may show less than that by chance.
    shared
        Standard error by what all runs share, such as test rows: it comes on top of what the runs show.
    """

    by_run: np.ndarray
    of_draws: float = 0.0
    shared: float = 0.0

    @property
    def error(self) -> float:
        """Standard error of the mean difference; of one run that which the runs do not show."""
        return math.hypot(max(self.of_draws, float(standard_error(self.by_run, 0.0))), self.shared)

    @property
    def holds(self) -> bool | None:
        """Whether it is above 0; None within two standard errors, and for one run."""
        if len(self.by_run) < 2 or abs(self.by_run.mean()) <= 2 * self.error:
            return None
        return bool(self.by_run.mean() > 0)

    def __str__(self) -> str:
        return f"{self.by_run.mean():+.3f} ± {self.error:.3f}" + ", one run" * (len(self.by_run) == 1)
