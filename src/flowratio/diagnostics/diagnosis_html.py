"""A diagnosis in a notebook: the verdict, its reasons, then tables of numbers with their good ranges."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from flowratio._support.markup import lead, paragraph, points, table
from flowratio._support.wording import in_percent, more_columns, shown
from flowratio.diagnostics.balance import Balance
from flowratio.diagnostics.summary import MEANING, fixed, k_hat_text, score_text
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.weights import largest_k_hat

if TYPE_CHECKING:
    from flowratio.diagnostics.diagnosis import Diagnosis

_MAX_COLUMNS = 10  # in a table, the worst or most important first


def html_of(diagnosis: Diagnosis) -> str:
    """Return the verdict, its reasons, and tables of the checks, of balance and of columns."""
    advice = [f"Advice: {words}" for words in diagnosis.advice]
    return "".join(
        [
            lead(f"Verdict: {diagnosis.verdict}.", MEANING[diagnosis.verdict]),
            points([*diagnosis.warnings, *advice, *(f"Note: {words}" for words in diagnosis.notes)]),
            table("Checks of the ratio r = p/q", ("check", "value", "good range"), _checks(diagnosis)),
            balance_table(diagnosis.balance),
            _importance_table(diagnosis),
        ]
    )


def balance_table(balance: Balance, difference: str = "p minus q") -> str:
    """Return the differences of the worst columns, before and after weighting."""
    worst, before, after = balance.worst(_MAX_COLUMNS), balance.before.tolist(), balance.after.tolist()
    rows = [(shown(balance.names[j]), _signed(before[j]), _signed(after[j])) for j in worst]
    caption = f"Standardized mean differences, {difference} (good within ±{THRESHOLDS.difference})"
    return table(caption, ("column", "before", "after weighting"), rows) + paragraph(
        more_columns(len(balance.names), _MAX_COLUMNS)
    )


def _checks(diagnosis: Diagnosis) -> list[tuple[str, str, str]]:
    overlap, curve, rest = diagnosis.overlap, diagnosis.reliability, diagnosis.residual
    ess = "no overlap" if overlap.is_absent else f"{overlap.ess_text} of {overlap.n_q:.0f}"
    score, auc = f"{score_text(diagnosis.score, diagnosis.score_error)} nats", diagnosis.leftover.auc
    return [
        ("rows", f"{diagnosis.n_p} of p, {diagnosis.n_q} of q", ""),
        ("held-out score", score, f"0 = identical, {math.log(2):.2f} = fully separable"),
        ("effective sample size (ESS)", ess, f"{THRESHOLDS.small_ess:.0f} or more"),
        ("log n_q − KL(p ‖ q)", f"{overlap.headroom:.1f} nats", f"{THRESHOLDS.headroom} or more"),
        ("Pareto k̂", k_hat_text(overlap.k_hat_q), f"below {largest_k_hat(overlap.n_q):.2f}"),
        ("calibration error", f"{curve.error:.3f}", f"near {curve.noise:.3f}, its value by chance"),
        ("gain of a flexible classifier", f"{fixed(rest.gain, 4)} ± {rest.standard_error:.4f} nats", "0 or less"),
        ("pairs that a classifier separates after weighting", in_percent(auc, 1), "near 50 %"),
    ]


def _importance_table(diagnosis: Diagnosis) -> str:
    effects = diagnosis.importance
    rows = [
        (shown(name), f"{effect:.2f}", in_percent(share))
        for name, effect, share in zip(effects.names[:_MAX_COLUMNS], effects.effect, effects.share, strict=False)
    ]
    head = ("column", "standard deviation that it adds (nats)", "share")
    return table("Columns that move log r", head, rows) + paragraph(more_columns(len(effects.names), _MAX_COLUMNS))


def _signed(value: float) -> str:
    return f"{round(value, 2) + 0.0:+.2f}"  # not -0.00
