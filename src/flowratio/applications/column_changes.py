"""Which columns changed between two samples: how much, with a p-value that is corrected for the number of columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from flowratio._support import markup
from flowratio._support.types import Vector
from flowratio._support.wording import Words, more_columns, shown
from flowratio.diagnostics.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_SHOWN = 10  # columns in a table or a figure
_HEAD = ("column", "effect (nats)", "corrected p", "change")
_ORDER = "The clearest change comes first. Arrows point from {q} to {p}."
_MEANING = (
    "effect: how much a column differs on its own, as the standard deviation of its log r (0 = unchanged, 0.2 = small, "
    "as a shift by 0.2 standard deviations is, 1 = large)"
)
_LONGEST_CHANGE = 150  # characters of the change of a column
_Z_ONE_SIDED = 1.645  # of a Gaussian: 95 % lie below


class ChangeKind(Words):
    """What changed most in a column."""

    MEAN = "mean"
    SPREAD = "spread"
    SHAPE = "shape"
    CORRELATION = "correlation"
    CATEGORIES = "categories"
    MISSING = "missing values"


@dataclass(frozen=True, eq=False)
class ColumnChanges:
    r"""How much each column changed between two samples, the clearest change first. Empty if no change is found.

    .. math:: \mathrm{effect}_j = \sqrt{\operatorname{Var} \log r_j(x_j)}, \qquad r_j = p_j / q_j

    where :math:`p_j` and :math:`q_j` are the distributions of column j alone, and both samples count one half. It is 0
    if they are equal, 0.2 for a Gaussian that is shifted by 0.2 standard deviations, 1.1 for a shift by 1. An effect
    below 0.2 is small, above 1 it is large. It is not a divergence: the Kullback-Leibler divergence of a Gaussian
    with effect 0.4 is about 0.08 nats. The variance of the log-ratio of the dependence is added if the correlation with
    another column changed. Every array has the shape (d,).

    Tables show an effect below its standard error as "< 0.4": the upper end of its one-sided 95 % interval.
    """

    names: list[str]
    columns: np.ndarray  # their positions in the table, or the numbers of the groups
    effect: Vector  # in nats
    standard_error: Vector  # of `effect`
    p_value: Vector  # corrected for the number of columns: the probability that chance gives any column such a change
    kinds: list[ChangeKind]  # what changed most
    partners: list[str | None]  # the other column of a changed correlation, or None
    values: list[str]  # such as "median age: 34 → 41", from q to p. Empty if the change is not clear, and for groups

    @classmethod
    def none(cls) -> ColumnChanges:
        """Return the changes of samples that do not differ."""
        return cls([], np.zeros(0, np.int64), np.zeros(0), np.zeros(0), np.zeros(0), [], [], [])

    @property
    def change(self) -> list[str]:
        """What changed most, in words."""
        return [_words(kind, partner) for kind, partner in zip(self.kinds, self.partners, strict=True)]

    @property
    def clear(self) -> list[str]:
        """Names of the columns with a corrected p-value of 0.05 or less."""
        return [name for name, p in zip(self.names, self.p_value, strict=True) if p <= THRESHOLDS.alpha]

    def to_list(self) -> list[dict[str, Any]]:
        """Return one dictionary for each column, ready for JSON."""
        numbers = zip(self.effect.tolist(), self.standard_error.tolist(), self.p_value.tolist(), strict=True)
        rows = [dict(zip(("effect", "standard_error", "p_value"), row, strict=True)) for row in numbers]
        names = ("column", "change", "kind", "partner", "values")
        kinds = [kind.value for kind in self.kinds]
        texts = zip(self.names, self.change, kinds, self.partners, self.values, strict=True)
        return [{**dict(zip(names, text, strict=True)), **row} for text, row in zip(texts, rows, strict=True)]

    def to_html(self) -> str:
        """Return a table of the first columns. Empty if there are none."""
        if not self.names:
            return ""
        more = more_columns(len(self.names), MAX_SHOWN)
        note = ". ".join(filter(None, [more, _ORDER.format(p="X_p", q="X_q") + f" {_MEANING}"]))
        return markup.table("Largest changes", _HEAD, self._cells()) + markup.paragraph(note)

    _repr_html_ = to_html

    def draw(self, axes: Axes) -> None:
        """Draw the effects of the first columns with their standard errors."""
        at = np.arange(min(len(self.names), MAX_SHOWN))[::-1]
        effect, error = self.effect[: len(at)], self.standard_error[: len(at)]
        color = ["0.4" if p <= THRESHOLDS.alpha else "0.85" for p in self.p_value[: len(at)]]
        axes.barh(at, effect, xerr=error, color=color, edgecolor="black")
        axes.set_yticks(at, [shown(name) for name in self.names[: len(at)]])
        axes.set(xlabel="effect (nats), dark if the corrected p ≤ 0.05", xlim=(0, None))

    def __str__(self) -> str:
        return self.text()

    def text(self, p: str = "X_p", q: str = "X_q") -> str:
        """Return a table of the first columns, with the names of the two samples."""
        rows = [_HEAD, *self._cells()]
        widths = [max(len(row[k]) for row in rows) for k in range(len(_HEAD))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        order = _ORDER.format(p=p, q=q)
        notes = [more_columns(len(self.names), MAX_SHOWN), order, _MEANING] if self.names else []
        return "\n".join([*lines, *filter(None, notes)])

    def _cells(self) -> list[tuple[str, ...]]:
        """Return the cells of the first columns as text."""
        words = [values or change for values, change in zip(self.values, self.change, strict=True)]
        columns = zip(self.names, self.effect, self.standard_error, self.p_value, words, strict=True)
        first = islice(columns, MAX_SHOWN)
        return [
            (shown(name), _effect_text(effect, error), p_text(p), shown(change, _LONGEST_CHANGE))
            for name, effect, error, p, change in first
        ]


def _words(kind: ChangeKind, partner: str | None) -> str:
    if kind is ChangeKind.CORRELATION:
        return f"correlation with {partner}"
    return "share of missing values" if kind is ChangeKind.MISSING else kind.value


def _effect_text(effect: float, error: float) -> str:
    """Return an effect with its standard error, or its upper limit if it is below its standard error."""
    if effect < error:  # the error of a root: the variance has a Gaussian error
        limit = math.sqrt(effect**2 + _Z_ONE_SIDED * ((effect + error) ** 2 - effect**2))
        return f"< {limit:.{_decimals(limit)}f}"
    decimals = _decimals(error)
    return f"{effect:.{decimals}f} ± {error:.{decimals}f}"


def _decimals(error: float) -> int:
    """Return how many decimals show two digits of an error. The maximum is two."""
    return 2 if error < 1 else int(error < 10)


def p_text(p: float) -> str:
    """Return a p-value with two digits, or one if it is below 0.01. It never has an exponent."""
    return np.format_float_positional(float(f"{p:.2g}" if p >= 0.01 else f"{p:.1g}"), trim="-")
