"""What every estimate returns: a value with its standard error, an interval, and a verdict with its reason."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from scipy.special import ndtri

from flowratio._support import markup
from flowratio._support.validation import check_fraction
from flowratio._support.wording import Words
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.diagnostics.verdict import TestVerdict, Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from flowratio.tables.encoder import TableEncoder

Estimate = TypeVar("Estimate", bound="BoundEstimate")


class Limit(Words):
    """Why the true value may lie far above an estimate."""

    NONE = "none"
    LOWER_BOUND = "lower bound"
    CEILING = "near the ln n ceiling"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Result(ABC):
    """An estimate, its standard error, the verdict whether to use it (for a test, its conclusion), and the reason."""

    value: float
    standard_error: float
    verdict: Verdict | TestVerdict
    reason: str

    @abstractmethod
    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the two ends of an interval with this probability of covering the true value."""

    @abstractmethod
    def _draw(self, axes: Axes) -> None:
        """Draw the estimate and what it rests on."""

    def _title(self) -> str:
        """Return what the value is, with its unit."""
        return type(self).__name__

    def _numbers(self) -> list[tuple[str, str]]:
        """Return names and texts of the numbers that a notebook shows."""
        value, error = f"{self.value:.4g}", f"{self.standard_error:.2g}"
        return [("estimate", value), ("standard error", error), ("95 % interval", interval_text(self.interval()))]

    def to_dict(self) -> dict[str, Any]:
        """Return the result with the interval of 95 %, ready for JSON. An open end is None."""
        ends = [end if math.isfinite(end) else None for end in self.interval()]
        numbers = {"value": self.value, "standard_error": self.standard_error, "interval": ends}
        return {**numbers, "verdict": self.verdict.value, "reason": self.reason}

    def plot(self) -> Figure:
        """Return a figure of the estimate with its interval. A notebook shows it. To save it, use `savefig`."""
        from flowratio._support.figures import new_figure

        figure = new_figure(6, 2.6)
        axes = figure.add_subplot()
        self._draw(axes)
        axes.set_title(f"{self.verdict}".capitalize(), fontsize="medium")
        return figure

    def _repr_html_(self) -> str:
        return markup.lead(f"Verdict: {self.verdict}.", self.reason) + markup.table(self._title(), (), self._numbers())

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class BoundEstimate(Result):
    """An estimate by a bound on held-out rows and the same bound on the fitted rows. It is never below 0."""

    raw: float  # before it is cut off at 0: the mean of the two that follow, or the first if they are far apart
    held_out: float  # the bound from held-out rows; may be negative where there is little to see
    in_sample: float  # the same on the fitted rows: the more it is above `held_out`, the more the ratio is overfitted
    confirmed: float  # the part of `held_out` that does not depend on the form of the ratio: of ratios up to √n
    limit: Limit  # why the true value may be far larger
    left_out: tuple[str, ...] = ()  # columns that were left out as identifiers

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return a Gaussian interval with this probability of covering the true value.

        If there is a `limit`, or the ratio is wrong, it reaches from the confirmed part to the largest possible value.
        """
        largest = self._largest()
        if self.limit is not Limit.NONE or is_wrong(self.held_out, self.standard_error):
            return gaussian_interval(min(self.raw, self.confirmed), self.standard_error, level, largest)[0], largest
        low, _ = gaussian_interval(self.raw, self.standard_error, level, largest)
        return low, gaussian_interval(self.raw, self._upper_error(), level, largest)[1]

    def _largest(self) -> float:
        return math.inf

    def _upper_error(self) -> float:
        return self.standard_error

    def to_dict(self) -> dict[str, Any]:
        """Return the result with the interval of 95 %, ready for JSON. An open end is None."""
        bounds = {"raw": self.raw, "held_out": self.held_out, "in_sample": self.in_sample, "confirmed": self.confirmed}
        return {**super().to_dict(), **bounds, "limit": self.limit.value, "left_out": [*self.left_out]}

    def _numbers(self) -> list[tuple[str, str]]:
        parts = {"held-out rows alone": self.held_out, "fitted rows alone": self.in_sample}
        bounds = [(name, _short(max(value, 0.0))) for name, value in parts.items()]  # it is never below 0
        limits = [] if self.limit is Limit.NONE else [("limit", self.limit.value)]
        return [*super()._numbers(), *bounds, *limits]

    def _draw(self, axes: Axes) -> None:
        low, high = self.interval()
        end = high if math.isfinite(high) else 1.25 * max(self.value, low) + self.standard_error
        axes.hlines(0, low, end, color="0.5", linewidth=3, label=f"95 % interval: {interval_text((low, high))}")
        if not math.isfinite(high):
            axes.plot(end, 0, ">", color="0.5")
        axes.plot(self.value, 0, "o", color="black", label=f"estimate: {self.value:.4g}")
        axes.set(yticks=[], xlim=(0, None), ylim=(-1, 1.5), xlabel=self._title())
        axes.legend(frameon=False, loc="upper center", ncols=2, fontsize="small")


def _short(value: float) -> str:
    return f"{round(value, 4) + 0.0:.4g}"  # 0 instead of -1e-17


def gaussian_interval(raw: float, error: float, level: float, largest: float = math.inf) -> tuple[float, float]:
    """Return the two ends of a Gaussian interval, cut off at 0 and at the largest possible value."""
    check_fraction(level, "level")
    reach = float(ndtri(0.5 + level / 2)) * error
    return min(max(raw - reach, 0.0), largest), min(max(raw + reach, 0.0), largest)


class LeftOut(NamedTuple):
    """Columns that were left out as identifiers, and a sentence that names them with the reason."""

    names: tuple[str, ...] = ()
    text: str = ""

    @classmethod
    def of(cls, encoder: TableEncoder | None, variable: str | None = None) -> LeftOut:
        """Return the identifiers of a fitted encoder. `variable` is the name of the table, if there are several."""
        text = "" if encoder is None else encoder.identifier_text()
        if encoder is None or not text:
            return cls()
        text = text if variable is None else f"In `{variable}`: {text[:1].lower()}{text[1:]}"
        return cls(tuple(encoder.identifiers()), text)

    def joined(self, other: LeftOut) -> LeftOut:
        """Return the columns of both, each with its sentence."""
        return LeftOut(self.names + other.names, " ".join(filter(None, [self.text, other.text])))

    def added_to(self, result: Estimate) -> Estimate:
        """Return a result that names these columns too."""
        if not self.names:
            return result
        reason = f"{result.reason} {self.text}".strip()
        return replace(result, reason=reason, left_out=(*result.left_out, *self.names))


class Conclusion(NamedTuple):
    """Whether to use an estimate, how far above it the true value may lie, and why."""

    verdict: Verdict
    limit: Limit
    reason: str


def bounds_of(
    held_out: float, in_sample: float, confirmed: float, error: float, conclusion: Conclusion, largest: float = math.inf
) -> dict[str, Any]:
    """Return the fields of a `BoundEstimate`. `largest` is the largest possible value."""
    raw = held_out if conclusion.verdict is Verdict.DO_NOT_USE else held_out + (in_sample - held_out) / 2
    estimates = {"value": min(max(raw, 0.0), largest), "standard_error": error, "raw": raw}
    return {**estimates, "held_out": held_out, "in_sample": in_sample, "confirmed": confirmed, **conclusion._asdict()}


def is_wrong(held_out: float, standard_error: float) -> bool:
    """Return whether a ratio does worse than r = 1 on held-out rows: the true bound is never negative."""
    return held_out < -max(THRESHOLDS.small, 2 * standard_error)


def interval_text(ends: tuple[float, float]) -> str:
    """Return an interval in words: '0.25 to 1.5', or '0.25 or more'."""
    low, high = ends
    return f"{low:.4g} or more" if high == math.inf else f"{low:.4g} to {high:.4g}"
