r"""Do drawn rows look like real rows of the target? A classifier is fitted to both and scores held-out rows.

It estimates the ratio of real rows to draws. A set A of rows that is more frequent among the draws shows what is wrong:

.. math:: \mathrm{unlike} = \mathrm{mean}_{\mathrm{draws}} [x \in A] - \mathrm{mean}_{\mathrm{real}} [x \in A],
          \qquad A = \{ x : \text{real} / \text{draws} < 1/2 \}

At least this share of the draws cannot come from the target, whatever the classifier is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flowratio._support.types import TableLike, Vector
from flowratio._support.validation import RandomState, seed_from
from flowratio._support.wording import in_percent
from flowratio.applications.crossfit import CrossFitted, cross_fit, folds_of, ratio_to_fit
from flowratio.applications.result import Result, gaussian_interval, interval_text
from flowratio.applications.weight_checks import reason_of
from flowratio.diagnostics.scored_sample import Separation, separation
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.diagnostics.verdict import Finding, verdict_of, verdict_text
from flowratio.samples.two_samples import TwoSamples, two_samples

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RATIOS = "logistic", "boosting"  # the first for few rows, the second for any form
_LOG_HALF = -math.log(2)  # log-ratio below which a row is at least twice as frequent among the draws
_UNLIKE, _UNLIKE_GRAVE = 0.03, 0.2  # shares of draws that matter, and that spoil most uses
_AUC_GRAVE = 0.8  # four of five pairs are distinguished
_LARGEST_ERROR = 0.05  # standard error of a share from which on 15 % of wrong draws can go unseen
_MOST_ROWS = 10_000  # of each sample: enough for a standard error of a share of 0.005


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class DrawCheck(Result):
    """Whether drawn rows look like real rows of the target. It prints as two lines.

    `value` is the AUC: the share of pairs in which a classifier distinguishes a real row from a draw. It is 0.5 for
    perfect draws, and 1 if no draw looks real.
    """

    unlike: float  # share of the draws that look unlike the target, from 0 to 1. A lower bound
    unlike_error: float  # its standard error
    log_target: Vector  # held-out log of real / draws, of the real rows, (n_target,)
    log_draws: Vector  # the same of the draws, (n_draws,), in their order: low values look unlike the target

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return a Gaussian interval of the AUC with this probability of covering its true value."""
        return gaussian_interval(self.value, self.standard_error, level, largest=1.0)

    def to_dict(self) -> dict[str, Any]:
        """Return everything except log-ratios, ready for JSON."""
        shares = {"unlike": self.unlike, "unlike_error": self.unlike_error}
        return {**super().to_dict(), **shares, "n_target": len(self.log_target), "n_draws": len(self.log_draws)}

    def _numbers(self) -> list[tuple[str, str]]:
        unlike = f"{in_percent(self.unlike)} ± {in_percent(self.unlike_error)}"
        return [*super()._numbers(), ("draws that look unlike the target", unlike)]

    def _draw(self, axes: Axes) -> None:
        both = np.concatenate([self.log_target, self.log_draws])
        edges: Any = np.linspace(both.min() - 0.1, both.max() + 0.1, 30)
        axes.hist(self.log_target, edges, density=True, color="0.8", edgecolor="0.4", label="real rows")
        axes.hist(self.log_draws, edges, density=True, histtype="step", color="black", label="draws")
        axes.axvline(_LOG_HALF, color="black", linestyle=":", linewidth=1)
        axes.set(xlabel="log of real / draws (nats)", ylabel="density")
        axes.legend(frameon=False, fontsize="small")

    def __str__(self) -> str:
        auc = f"AUC of real rows against draws: {self.value:.3f} ± {self.standard_error:.2g}"
        auc = f"{auc} (0.5 = perfect draws, 95 %: {interval_text(self.interval())})"
        unlike = f"{in_percent(self.unlike)} ± {in_percent(self.unlike_error)} of the draws look unlike the target"
        return f"{auc}, {unlike}\n{verdict_text(self.verdict, self.reason)}"


def check_draws(
    X_target: TableLike, X_draws: TableLike, *, ratio: Any = None, n_folds: int = 5, random_state: RandomState = None
) -> DrawCheck:
    """Check drawn rows, (m, d), against real rows of the target, (n, d). At least 200 real rows give a useful answer.

    Parameters
    ----------
    X_target, X_draws
        Real rows that no model was fitted to, and draws: arrays or tables with the same columns.
    ratio
        The classifier: a ratio or its name. None for `"logistic"` or `"boosting"`, the one that distinguishes better.
    n_folds, random_state
        Number of folds, and seed of the folds and of the ratio. Of more than 10 000 rows, random ones are used.

    References
    ----------
    .. [1] Lopez-Paz, Oquab (2017). *Revisiting Classifier Two-Sample Tests.* ICLR.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 2))
    >>> wrong = np.vstack([rng.normal(size=(800, 2)), rng.normal(6, 1, size=(200, 2))])  # a fifth is far off
    >>> check = check_draws(X, wrong, random_state=0)
    >>> round(check.unlike, 1), str(check.verdict)
    (0.2, 'use with care')
    """
    seed = seed_from(random_state)
    rng = np.random.default_rng([seed, 0, 17])
    samples = _some(two_samples(X_target, X_draws, arguments=("X_target", "X_draws")), rng)
    fold = folds_of(samples, n_folds, rng)
    results = []
    for one in _RATIOS if ratio is None else (ratio,):
        scores = cross_fit(ratio_to_fit(one, samples, seed), samples, fold, seed)
        share_p, share_q = (np.full(n, 1 / n) for n in (samples.n_p, samples.n_q))
        results.append((separation(scores.p.log_r, share_p, scores.q.log_r, share_q), scores))
    return _conclusion(*max(results, key=lambda result: result[0].auc))


def _some(samples: TwoSamples, rng: np.random.Generator) -> TwoSamples:
    parts = [rng.permutation(n)[:_MOST_ROWS] for n in (samples.n_p, samples.n_q)]
    if max(samples.n_p, samples.n_q) <= _MOST_ROWS:
        return samples
    return samples.part(np.concatenate([np.sort(parts[0]), samples.n_p + np.sort(parts[1])]))


def _share_error(share: float, n: int) -> float:
    """Return the standard error of a share of n rows, by one success and one failure more: 0 of n is uncertain too."""
    return math.sqrt((n * share + 1) * (n * (1 - share) + 1) / (n + 2) ** 3)


def _conclusion(auc: Separation, scores: CrossFitted) -> DrawCheck:
    log_p, log_q = scores.p.log_r, scores.q.log_r
    shares = [float(np.mean(log_r < _LOG_HALF)) for log_r in (log_p, log_q)]
    errors = [_share_error(share, len(log_r)) for share, log_r in zip(shares, (log_p, log_q), strict=True)]
    unlike, error = max(shares[1] - shares[0], 0.0), math.hypot(*errors)
    findings = []
    if unlike > max(_UNLIKE, THRESHOLDS.z * error):
        words = f"{in_percent(unlike)} of the draws lie where real rows of the target are rare."
        findings.append(Finding(words, unlike - 2 * error > _UNLIKE_GRAVE))
    # of perfect draws only chance is left: each pair of folds, fitted and scored, counts twice
    if auc.z > THRESHOLDS.z * math.sqrt(2) and auc.auc > THRESHOLDS.auc:
        words = f"A classifier distinguishes draws from real rows in {in_percent(auc.auc)} of pairs (50 % is a guess)."
        findings.append(Finding(words, auc.auc - 2 * auc.standard_error > _AUC_GRAVE))
    if findings:
        findings.append(Finding("Train a better flow, or look at the draws with the lowest `log_draws`.", False))
    elif error > _LARGEST_ERROR:
        unseen = f"up to {in_percent(THRESHOLDS.z * error)} of wrong draws can go unseen. Use more rows."
        findings.append(Finding(f"With {len(log_p)} real rows and {len(log_q)} draws, {unseen}", False))
    good = (
        f"{in_percent(unlike, 1)} of {len(log_q)} draws look unlike the target, compared with {len(log_p)} real rows."
    )
    fields = {"verdict": verdict_of(findings), "reason": reason_of(findings, good)}
    fields |= {"unlike": unlike, "unlike_error": error, "log_target": log_p, "log_draws": log_q}
    return DrawCheck(value=auc.auc, standard_error=auc.standard_error, **fields)
