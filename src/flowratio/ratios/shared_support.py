"""Whether weighted rows of q can represent p: the effective sample size, and the words of a warning."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from flowratio._support.row_counts import is_whole
from flowratio._support.types import Vector
from flowratio._support.wording import in_percent, shown
from flowratio.samples.separating import SeparatingColumn, separating_columns
from flowratio.samples.two_samples import TwoSamples
from flowratio.weights import MIN_ESS, MIN_ESS_SHARE, effective_sample_size, effective_sample_size_of_ratio, is_small

LIMITS = 'the page "Limits" (docs/limits.md)'
_MOST_NAMED = 3  # columns in a warning
_WIDE = 0.1  # share of the rows: with 200 rows or more such an effective sample size is large enough
_BY_CHANCE = 1e-3  # probability with which two samples of one distribution may have a column with separate ranges


class SharedSupport(NamedTuple):
    """How well rows of q, weighted by a power of r, represent p."""

    ess: float  # effective sample size of the weights (Kish)
    n: float  # number of rows of q, or their effective number if their own weights differ
    is_far: Vector | None  # rows of p, (n_p,), where q has hardly any rows, if these decide. None if there are none
    w_p: Vector | None = None  # weights of the rows of p, (n_p,). None if all are equal

    @property
    def is_poor(self) -> bool:
        """Whether weights depend on a handful of rows of q, or miss a part of p."""
        return is_small(self.ess, self.n) or self.is_far is not None

    @property
    def far_share(self) -> float:
        """The share of p that `is_far` marks, by weight."""
        return 0.0 if self.is_far is None else float(np.average(self.is_far, weights=self.w_p))

    def problem(self, samples: TwoSamples | None, names: tuple[str, str] = ("p", "q"), advice: str = "") -> str:
        """Return the text of a warning. `names` are those of p and q, `advice` is for columns that do not separate."""
        is_far = None if is_small(self.ess, self.n) else self.is_far
        columns = [] if samples is None else separating_columns(samples, is_far)
        reason = f", because {_listed(columns)}" if columns else ""
        size, (p, q) = f"{self.ess:.3g} of {self.n:.0f}", names
        remedy = _remedy(len(columns), p, q) if columns else advice
        if is_small(self.ess, self.n):
            is_wide = self.ess > _WIDE * self.n
            cause = "there are few rows" if is_wide else f"{p} and {q} hardly overlap"
            reason = reason or f", because {cause}. Weights depend on a handful of rows of {q}"
            return f"The effective sample size is {size}{reason}. {remedy}"
        far = f"{_percent(self.far_share)} of the rows of {p} lie where {q} has hardly any rows{reason}"
        effect = f"No weights of {q} can represent them, and the effective sample size of {size} does not show it"
        return f"{far}. {effect}. {remedy}"


def shared_support(log_p: Vector, w_p: Vector, log_q: Vector, w_q: Vector, gamma: float = 1.0) -> SharedSupport:
    r"""Measure how well rows of q, weighted by :math:`r^\gamma`, represent p.

    log r and the counts of rows have shapes (n_p,) and (n_q,). The weights of rows of q alone cannot show that no row
    of q lies where p does. The rows of p do show it, by :math:`\mathrm{mean}_q r^2 = \mathrm{mean}_p r`.
    """
    n = kish(np.zeros(len(w_q)), w_q)
    ess = kish(gamma * log_q, w_q)
    is_far = None
    if is_small(effective_sample_size_of_ratio(log_p, w_p, log_q, w_q, n, gamma), n):
        # mean_p r is above this limit, so some rows of p are too
        least = n / min(MIN_ESS, max(MIN_ESS_SHARE * n, 1.0))
        is_far = log_p > min(math.log(least), float(log_p.max()) - 1e-9)
    return SharedSupport(ess, n, is_far, w_p)


def with_separate_ranges(support: SharedSupport, samples: TwoSamples) -> SharedSupport:
    """Mark all rows of p as far from q if a column has separate ranges in the two samples, beyond chance.

    The log-ratios of a method that goes back to r = 1 far from all rows do not show it.
    """
    (low_p, low_q), (high_p, high_q) = ([of(X, axis=0) for X in (samples.X_p, samples.X_q)] for of in (np.min, np.max))
    n_p, n_q = min(samples.n_p, 99), min(samples.n_q, 99)
    log_chance = math.log(2 * samples.X.shape[1]) - math.log(math.comb(n_p + n_q, n_p))
    is_separate = bool(((low_p > high_q) | (high_p < low_q)).any()) and log_chance < math.log(_BY_CHANCE)
    return support._replace(is_far=np.ones(samples.n_p, bool)) if is_separate else support


def kish(log_r: Vector, w: Vector) -> float:
    r"""Return the effective sample size of rows with weights, :math:`(\sum_i w_i r_i)^2 / \sum_i (w_i r_i)^2`.

    Both have shape (n,), and the weights are positive. If all weights are integers, a row counts as so many rows.
    """
    if not is_whole(w):
        return effective_sample_size(log_r + np.log(w))
    r = np.exp(log_r - log_r.max())
    return float((w @ r) ** 2 / (w @ r**2))


def _remedy(n_columns: int, p: str, q: str) -> str:
    """Return what to do about columns that alone separate p from q."""
    columns, them = ("the column", "it") if n_columns == 1 else ("the columns", "them")
    drop = f"Leave {columns} out of the ratio if the outcome does not depend on {them}"
    return f"{drop}. Otherwise restrict {p} to rows like those of {q}, or see {LIMITS}."


def _percent(share: float) -> str:
    return in_percent(share) if share >= 0.005 else "Less than 1 %"


def _listed(columns: list[SeparatingColumn]) -> str:
    """Return a phrase such as "columns `site` and `year` separate the samples"."""
    largest = columns[:_MOST_NAMED]
    names: dict[str, list[str]] = {}
    for column in largest:
        names.setdefault(column.effect, []).append(f"`{shown(column.name)}`")
    n_more = len(columns) - len(largest)
    more = f", and {n_more} more column{'s' * (n_more > 1)} differ so" * bool(n_more)
    return " and ".join(_phrase(own, effect) for effect, own in names.items()) + more


def _phrase(names: list[str], effect: str) -> str:
    if len(names) == 1:
        return f"column {names[0]} {effect}"
    verb, _, rest = effect.partition(" ")
    plural = {"separates": "separate", "is": "are", "has": "have"}[verb]
    return f"columns {', '.join(names[:-1])} and {names[-1]} {plural} {rest}"
