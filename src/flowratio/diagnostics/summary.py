"""A diagnosis as text: the verdict, its reasons, then the numbers."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

import numpy as np

from flowratio._support.wording import in_percent, more_columns, shown
from flowratio.diagnostics.balance import Balance
from flowratio.diagnostics.identities import Identity
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.diagnostics.verdict import Verdict, is_within_chance, verdict_text
from flowratio.weights import largest_k_hat

if TYPE_CHECKING:
    from flowratio.diagnostics.diagnosis import Diagnosis

_WIDTH = 100
_UNKNOWN = 100.0  # nats: a standard error of a log-mean from which on it says nothing
_COLUMNS = 8  # listed, the worst or most important first
MEANING = {
    Verdict.RELIABLE: "no check speaks against weighting q (`X_q`) to match p (`X_p`).",
    Verdict.CARE: "read the points below before you weight q (`X_q`) to match p (`X_p`).",
    Verdict.DO_NOT_USE: "weighting q (`X_q`) to match p (`X_p`) would mislead.",
}


def summary_of(diagnosis: Diagnosis) -> str:
    """Return the text."""
    points = textwrap.TextWrapper(_WIDTH, initial_indent="  - ", subsequent_indent="    ", break_on_hyphens=False)
    lines = [
        *_verdict(diagnosis, points),
        *map(points.fill, _notes(diagnosis)),
        f"\nRows: {diagnosis.n_p} of p (y = 1), {diagnosis.n_q} of q. r = p/q. {_origin(diagnosis)}",
        score_sentence(diagnosis.score, diagnosis.score_error),
        f"Rows of p have the larger log r in {in_percent(diagnosis.direction.auc, 1)} of pairs.",
        *_form(diagnosis),
        *_overlap(diagnosis),
        *_identities(diagnosis),
        *_reliability(diagnosis),
        *_balance(diagnosis),
        *_importance(diagnosis),
    ]
    return "\n".join(lines)


def short_text(diagnosis: Diagnosis) -> str:
    """Return the verdict, its reasons, effective sample size, worst balance and notes, in a few lines."""
    points = textwrap.TextWrapper(_WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
    lines = [
        *_verdict(diagnosis, points),
        _ess_sentence(diagnosis),
        _worst_balance(diagnosis.balance),
        *(textwrap.fill(text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False) for text in _notes(diagnosis)),
    ]
    return "\n".join(lines)


def _ess_sentence(diagnosis: Diagnosis) -> str:
    overlap = diagnosis.overlap
    if overlap.is_absent or diagnosis.separating:
        return "Effective sample size (ESS): it cannot be estimated, because p and q do not overlap."
    return f"Effective sample size (ESS): {overlap.ess_text} of {overlap.n_q:.0f} rows of q."


def _worst_balance(balance: Balance) -> str:
    """Return the largest differences of column means, that after weighting with its standard error."""
    before, sizes = float(np.abs(balance.before).max(initial=0.0)), np.abs(balance.after)
    worst = int(sizes.argmax())
    after = f"{sizes[worst]:.2f} ± {balance.standard_error[worst]:.2f}"
    after += " (within chance)" * bool(sizes[worst] > THRESHOLDS.difference and is_within_chance(balance))
    differences = f"Largest difference of column means: {before:.2f} before and {after} after weighting"
    return f"{differences}, in standard deviations (good up to {THRESHOLDS.difference:g})."


def _verdict(diagnosis: Diagnosis, points: textwrap.TextWrapper) -> list[str]:
    """Return the verdict, and its reasons as points."""
    reasons = [*diagnosis.warnings, *(f"Advice: {words}" for words in diagnosis.advice)]
    return [verdict_text(diagnosis.verdict, MEANING[diagnosis.verdict]), *map(points.fill, reasons)]


def _notes(diagnosis: Diagnosis) -> list[str]:
    return [f"Note: {words}" for words in diagnosis.notes]


def _origin(diagnosis: Diagnosis) -> str:
    if not diagnosis.n_folds:
        return "They must be held-out rows."
    return f"Each row is scored by a model that was not fitted to it ({diagnosis.n_folds} folds)."


def _form(diagnosis: Diagnosis) -> list[str]:
    rest, spread = diagnosis.residual, diagnosis.stability
    size = f", with an effective sample size of {rest.n_overlap:.0f} where p and q overlap"
    lines = [
        f"Form: a flexible classifier improves the score by {fixed(rest.gain, 4)} ± {rest.standard_error:.4f} nats "
        f"(0 or less = right form){size * (not diagnosis.overlap.is_absent)}."
    ]
    if spread is not None:
        lines.append(
            f"Stability: variance of log r on rows of p {spread:.3g} nats² (good below {THRESHOLDS.stability})."
        )
    lines += [
        f"Grouping: {in_percent(share, 1)} of rows have a rare category in {shown(name)}."
        for name, share in diagnosis.grouping.items()
    ]
    return lines


def _overlap(diagnosis: Diagnosis) -> list[str]:
    overlap = diagnosis.overlap
    k_hat_q, k_hat_p = k_hat_text(overlap.k_hat_q), k_hat_text(overlap.k_hat_p)
    ends = f"{overlap.ess_low:.1f} to {overlap.ess_high:.1f}"
    is_apart = overlap.is_absent or bool(diagnosis.separating)
    ess, ends = ("no overlap", "") if is_apart else (f"{overlap.ess_q:.1f}", ends)
    ess_p = "no overlap" if is_apart else f"{overlap.ess_p:.1f}"
    headroom = "no overlap" if is_apart else f"{overlap.headroom:.2f}"
    return [
        "\nOverlap                            weights r on q    weights 1/r on p",
        f"  rows                            {overlap.n_q:15.0f}  {overlap.n_p:18.0f}",
        f"  effective sample size           {ess:>15}  {ess_p:>18}",
        f"  … within one standard error     {ends:>15}".rstrip(),
        f"  log n_q − KL(p ‖ q), nats        {headroom:>15}  (3.5 or more is good, below 2 is too little)",
        f"  Pareto k̂                         {k_hat_q:>15}  {k_hat_p:>18}",
        f"  … good below (not sufficient)   {largest_k_hat(overlap.n_q):15.2f}  {largest_k_hat(overlap.n_p):18.2f}",
        f"  Rows of p beyond q: {np.count_nonzero(overlap.p_beyond_q)} of {diagnosis.n_p}, and of q beyond p: "
        f"{np.count_nonzero(overlap.q_beyond_p)} of {diagnosis.n_q} (fewer than one row of the other expected there).",
    ]


def k_hat_text(k_hat: float) -> str:
    """Write a Pareto k̂: -inf means that all large weights are equal, inf that there are too few to fit a tail."""
    if math.isfinite(k_hat):
        return f"{k_hat:.2f}"
    return "no tail" if k_hat < 0 else "unknown"


def score_text(score: float, score_error: float, digits: int = 3) -> str:
    """Write a score with its standard error. It is 0 if it is below 0 by no more than chance."""
    score = score if score < -THRESHOLDS.z * score_error else max(score, 0.0)
    return f"{fixed(score, digits)} ± {score_error:.{digits}f}"


def score_sentence(score: float, score_error: float, digits: int = 3) -> str:
    """Return what the score is, with its standard error and its range."""
    size = f"Held-out score: {score_text(score, score_error, digits)} nats (0 = identical, 0.69 = fully separable)"
    return f"{size}, a lower bound of the Jensen-Shannon divergence."


def fixed(value: float, digits: int) -> str:
    """Write a number with so many digits, and 0 without a sign."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def _identities(diagnosis: Diagnosis) -> list[str]:
    means, overlap, bounded = diagnosis.identities, diagnosis.overlap, diagnosis.identities.bounded
    return [
        "\nIdentities of the true ratio",
        f"  mean_q r = 1:    {_identity(means.ratio_q, overlap.reliable_q)}",
        f"  mean_p 1/r = 1:  {_identity(means.inverse_p, overlap.reliable_p)}",
        f"  mean_q[r/(1+r)] = mean_p[1/(1+r)]: {bounded.mean_q:.4f} and {bounded.mean_p:.4f}, z = {_z(bounded.z)}, r "
        f"is off by {fixed(bounded.log_factor, 3)} nats",
    ]


def _identity(of: Identity, reliable: bool) -> str:
    doubt = "" if reliable else " (not reliable: k̂ is too large, or the effective sample size too small)"
    if of.standard_error > _UNKNOWN:
        return f"unknown, because a few ratios decide it{doubt}"
    return f"log of the mean {fixed(of.log_mean, 3)} ± {of.standard_error:.3f}, z = {_z(of.z)}{doubt}"


def _z(z: float) -> str:
    return f"{z:+.1f}" if abs(z) < 1000 else f"beyond {math.copysign(1000, z):+.0f}"


def _reliability(diagnosis: Diagnosis) -> list[str]:
    curve = diagnosis.reliability
    slope = f"slope {curve.slope:.2f} ± {curve.slope_error:.2f}" if curve.slope_error < 100 else "slope unknown"
    size = f"expected error {curve.error:.4f}, by chance {curve.noise:.4f}"
    return [
        f"\nReliability: {size}, χ² = {curve.chi2:.1f} of {curve.n_bins} bins, p-value {curve.p_value:.2g}, {slope}"
    ]


def _balance(diagnosis: Diagnosis) -> list[str]:
    columns, left = diagnosis.balance, diagnosis.leftover
    worst = columns.worst(_COLUMNS)
    width, auc = (
        max([6, *(len(shown(columns.names[j])) for j in worst)]),
        f"{in_percent(left.auc, 1)} ± {in_percent(left.standard_error, 1)}",
    )
    table = [
        f"  {shown(columns.names[j]):<{width}}  {columns.before[j]:+8.3f}  {columns.after[j]:+8.3f} ± "
        f"{columns.standard_error[j]:.3f}      {columns.deviation_before[j]:8.3f}  {columns.deviation_after[j]:8.3f}"
        for j in worst
    ]
    return [
        f"\nBalance {'':<{width - 6}}   mean difference, before → after   deviation of q / p, before → after",
        *table,
        *_rest(len(columns.names)),
        f"  A classifier is right in {auc} of pairs after weighting (about 50 % is chance, far below means too few "
        f"rows, z = {_z(left.z)}).",
    ]


def _importance(diagnosis: Diagnosis) -> list[str]:
    effects = diagnosis.importance
    width = max([6, *map(len, effects.names[:_COLUMNS])])
    table = [
        f"  {name:<{width}}  {effect:8.3f} nats  {in_percent(share, 1):>7}"
        for name, effect, share in zip(effects.names[:_COLUMNS], effects.effect, effects.share, strict=False)
    ]
    return ["\nColumns that move log r (standard deviation that each adds)", *table, *_rest(len(effects.names))]


def _rest(n: int) -> list[str]:
    return [f"  {line}" for line in more_columns(n, _COLUMNS).splitlines()]
