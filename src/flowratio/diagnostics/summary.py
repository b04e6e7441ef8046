"""A diagnosis as a text for people: the verdict, its reasons, then the numbers."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

import numpy as np

from flowratio.diagnostics.identities import Identity
from flowratio.weights import largest_k_hat

if TYPE_CHECKING:
    from flowratio.diagnostics.diagnosis import Diagnosis

_WIDTH = 100
_COLUMNS = 8  # listed, the worst or most important first
_MEANING = {
    "good": "nothing speaks against weights r on rows of q.",
    "usable with care": "there is something to look at before weights r on rows of q are used.",
    "do not trust": "weights r on rows of q would mislead.",
}


def summary_of(found: Diagnosis) -> str:
    """Return the text."""
    reasons = [
        textwrap.fill(words, _WIDTH, initial_indent="  - ", subsequent_indent="    ", break_on_hyphens=False)
        for words in found.warnings
    ]
    lines = [
        f"Verdict: {found.verdict}: {_MEANING[found.verdict]}",
        *reasons,
        "",
        f"Rows: {found.n_p} of p (y = 1), {found.n_q} of q; r = p/q. Held-out rows are assumed.",
        f"Score: {fixed(found.score, 3)} ± {found.score_error:.3f} nats, of at most log 2 = 0.693. Rows of p have the "
        f"larger log r in {found.direction.auc:.1%} of pairs.",
        *_overlap(found),
        *_identities(found),
        *_calibration(found),
        *_balance(found),
        *_importance(found),
    ]
    return "\n".join(lines)


def _overlap(found: Diagnosis) -> list[str]:
    seen = found.overlap
    k_hat_q, k_hat_p = k_hat_text(seen.k_hat_q), k_hat_text(seen.k_hat_p)
    return [
        "",
        "Overlap                            weights r on q    weights 1/r on p",
        f"  rows                            {seen.n_q:15.0f}  {seen.n_p:18.0f}",
        f"  effective sample size           {seen.ess_q:15.1f}  {seen.ess_p:18.1f}",
        f"  … as both samples tell          {seen.draws_q:15.1f}  {seen.draws_p:18.1f}",
        f"  Pareto k̂                         {k_hat_q:>15}  {k_hat_p:>18}",
        f"  … to be trusted up to           {largest_k_hat(seen.n_q):15.2f}  {largest_k_hat(seen.n_p):18.2f}",
        f"  Rows of p beyond q: {np.count_nonzero(seen.p_beyond_q)} of {found.n_p}; of q beyond p: "
        f"{np.count_nonzero(seen.q_beyond_p)} of {found.n_q} (fewer than one row of the other sample expected there).",
    ]


def k_hat_text(k_hat: float) -> str:
    """Write a Pareto k̂: -inf is that of weights that are all alike, inf where there are too few to tell.

    Examples
    --------
    >>> k_hat_text(0.514), k_hat_text(-math.inf), k_hat_text(math.inf)
    ('0.51', 'no tail', 'unknown')
    """
    if math.isfinite(k_hat):
        return f"{k_hat:.2f}"
    return "no tail" if k_hat < 0 else "unknown"


def fixed(value: float, digits: int) -> str:
    """Write a number with so many digits, and 0 without a sign.

    Examples
    --------
    >>> fixed(-1e-9, 3), fixed(-0.0126, 3)
    ('0.000', '-0.013')
    """
    return f"{round(value, digits) + 0.0:.{digits}f}"


def _identities(found: Diagnosis) -> list[str]:
    same, seen = found.identities, found.overlap
    bounded = same.bounded
    return [
        "",
        "Identities of the true ratio",
        f"  mean_q r = 1:    {_identity(same.ratio_q, seen.reliable_q)}",
        f"  mean_p 1/r = 1:  {_identity(same.inverse_p, seen.reliable_p)}",
        f"  mean_q[r/(1+r)] = mean_p[1/(1+r)]: {bounded.mean_q:.4f} and {bounded.mean_p:.4f}, z = {_z(bounded.z)}; r "
        f"is off by {fixed(bounded.log_factor, 3)} nats",
    ]


def _identity(of: Identity, reliable: bool) -> str:
    doubt = "" if reliable else " (means little: k̂ is too large, or draws are too few)"
    return f"log of the mean {fixed(of.log_mean, 3)} ± {of.standard_error:.3f}, z = {_z(of.z)}{doubt}"


def _z(z: float) -> str:
    return f"{z:+.1f}" if abs(z) < 1000 else f"beyond {math.copysign(1000, z):+.0f}"


def _calibration(found: Diagnosis) -> list[str]:
    curve = found.calibration
    return [
        "",
        f"Calibration: expected error {curve.error:.4f}, by chance {curve.noise:.4f}; χ² = {curve.chi2:.1f} of "
        f"{curve.n_bins} bins, p-value {curve.p_value:.2g}; {_slope(curve.slope, curve.slope_error)}",
    ]


def _slope(slope: float, error: float) -> str:
    """Write by what log r should be multiplied."""
    return f"slope {slope:.2f} ± {error:.2f}" if error < 100 else "slope unknown"


def _balance(found: Diagnosis) -> list[str]:
    columns, left = found.balance, found.leftover
    worst = np.argsort(-np.maximum(np.abs(columns.before), np.abs(columns.after)), kind="stable")[:_COLUMNS]
    width = max([6, *(len(columns.names[j]) for j in worst)])
    table = [
        f"  {columns.names[j]:<{width}}  {columns.before[j]:+8.3f}  {columns.after[j]:+8.3f} ± "
        f"{columns.standard_error[j]:.3f}      {columns.deviation_before[j]:8.3f}  {columns.deviation_after[j]:8.3f}"
        for j in worst
    ]
    return [
        "",
        f"Balance {'':<{width - 6}}   mean difference, before → after   deviation of q / p, before → after",
        *table,
        *_more(len(columns.names)),
        f"  A classifier is right in {left.auc:.1%} ± {left.standard_error:.1%} of pairs after weighting (z = "
        f"{_z(left.z)}).",
    ]


def _importance(found: Diagnosis) -> list[str]:
    told = found.importance
    width = max([6, *map(len, told.names[:_COLUMNS])])
    table = [
        f"  {name:<{width}}  {effect:8.3f} nats  {share:6.1%}"
        for name, effect, share in zip(told.names[:_COLUMNS], told.effect, told.share, strict=False)
    ]
    return ["", "What moves log r (standard deviation it brings)", *table, *_more(len(told.names))]


def _more(n: int) -> list[str]:
    return [f"  … and {n - _COLUMNS} more columns"] if n > _COLUMNS else []
