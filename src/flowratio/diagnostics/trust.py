"""What the verdict *reliable* needs beyond good weights: the right form, a stable fit, and every category seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowratio._support.wording import first_of, in_percent, listed, shown
from flowratio.diagnostics.reliability import Reliability
from flowratio.diagnostics.residual import Residual
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.diagnostics.verdict import Finding, Lean
from flowratio.tables.columns import FEWEST_OF_CATEGORY

if TYPE_CHECKING:
    from flowratio.tables.encoder import TableEncoder


_LARGEST_ERROR = 100.0  # nats: the size of a larger standard error of log r has no meaning


def is_confirmed(rest: Residual) -> bool:
    """Return whether held-out rows confirm that a more flexible ratio is better, by more than chance and enough."""
    return rest.z > THRESHOLDS.residual and rest.error_p > THRESHOLDS.residual_error


def wrong_form(rest: Residual, advice: str = "Use a more flexible ratio.") -> list[Finding]:
    """Check that a flexible classifier finds nothing that the ratio misses, and that it could find something."""
    if is_confirmed(rest):
        gain = f"improves its held-out score by {rest.gain:.3g} ± {rest.standard_error:.2g} nats"
        words = f"The ratio has the wrong form: a flexible classifier {gain}, and changes log r by"
        words += f" {rest.error_p**0.5:.2g} nats on rows of p."
        words += f" {advice}" * bool(advice)
        return [Finding(words, rest.z > THRESHOLDS.z and rest.error_p > THRESHOLDS.residual_error_grave)]
    if rest.n_overlap < THRESHOLDS.fewest_overlap:
        size = f"The effective sample size where p and q overlap is {rest.n_overlap:.0f}"
        size += f", below {THRESHOLDS.fewest_overlap:.0f}"
        return [Finding(f"{size}: a wrong form of the ratio cannot be excluded. Get more rows.", False)]
    return []


def fitted_rows(share: float) -> list[Finding]:
    """Find training rows among the rows of a check, by their share: they do not show whether the ratio is right."""
    if share < THRESHOLDS.fitted:
        return []
    words = f"{in_percent(share)} of the training rows are among these rows, which do not show the errors of the ratio."
    return [Finding(f"{words} Give held-out rows, or an unfitted ratio.", False)]


def unstable(stability: float | None) -> list[Finding]:
    """Check that the models of the folds agree on rows of p."""
    if stability is None or stability <= THRESHOLDS.stability:
        return []
    error, good = f"about {stability**0.5:.2g}", f"{THRESHOLDS.stability**0.5:.1g}"
    error = error if stability**0.5 <= _LARGEST_ERROR else f"more than {_LARGEST_ERROR:.0f}"
    words = f"log r depends on which rows are fitted: its standard error on rows of p is {error} nats (good below"
    words += f" {good}). Get more rows, or use a simpler ratio."
    return [Finding(words, stability > THRESHOLDS.stability_grave)]


def wrong_slope(curve: Reliability, deviation: float) -> list[Finding]:
    """Check that log r is neither too steep nor too flat, also where class probabilities are nearly right.

    `deviation` is the standard deviation of log r: the slope of a ratio that is nearly constant does not matter.
    """
    off = abs(curve.slope - 1)
    is_small = 1 / THRESHOLDS.slope_alone < curve.slope < THRESHOLDS.slope_alone or curve.error < curve.noise
    if is_small or off < THRESHOLDS.slope_z * curve.slope_error or off * deviation < THRESHOLDS.slope_effect:
        return []
    lean = Lean.OVERCONFIDENT if curve.slope < 1 else Lean.UNDERCONFIDENT
    size = f"log r should be multiplied by {max(curve.slope, 0.0):.2f} ± {curve.slope_error:.2f}"
    return [Finding(f"The ratio is {lean}: {size} (1 is right).", False)]


def rare_columns(shares: dict[str, float], least: float = THRESHOLDS.grouping) -> str:
    """Name the text columns with rows in rare categories, by their share. Empty if all are below `least`."""
    columns = sorted((-share, name) for name, share in shares.items() if share > least)
    phrases = [
        f"{shown(name)} ({in_percent(-share, 0 if -share > 0.095 else 1)} of the rows)" for share, name in columns
    ]
    return first_of(phrases, 3)


def grouped(grouping: dict[str, float]) -> list[Finding]:
    """Name the text columns with many categories that are too rare to be estimated."""
    if not (columns := rare_columns(grouping)):
        return []
    problem = f"Categories with fewer than {FEWEST_OF_CATEGORY} rows cannot be estimated one by one: {columns}"
    return [Finding(f"{problem}. Merge categories, or get more rows.", False)]


def identifier_note(encoder: TableEncoder | None) -> str:
    """Return which columns were left out as identifiers. Empty if there are none."""
    identifiers = [] if encoder is None else encoder.identifiers()
    return f"Left out as identifiers: {listed(identifiers)}." if identifiers else ""
