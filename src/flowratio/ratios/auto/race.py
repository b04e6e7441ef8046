"""Candidates on the same folds: who is fitted, judged, given up or left out, and what each of them took."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.auto.combination import HeldOut, can_help, choose_stack
from flowratio.ratios.featurized.featurized import FeaturizedRatio, is_fitted
from flowratio.ratios.featurized.joint import JointFeaturizedRatio
from flowratio.ratios.registry import fitted, new_ratio
from flowratio.scaling.base import Scaler

_SCORED_ROWS = 20_000  # rows on which candidates are judged: folds beyond them are not scored
_PILOT_ROWS = 1_000  # rows of each sample in a trial that tells how long a fit will take
_SETTLED = 3.0  # standard errors of the held-out loss, below which nothing better can be told from it
_HARDLY_ANY = 0.01  # nats of the held-out loss, above which there is something to tell
_FEWEST_DRAWN = 4_000  # rows of both samples up to which no trial is worth it


@dataclass
class Candidate:
    """What became of a candidate.

    Parameters
    ----------
    name
        Its name.
    in_latent_space
        Whether it is a ratio of the latent space of a flow.
    score
        Cross-fitted score in nats, as of `RatioEstimator.score`; NaN if it was not judged on all folds.
    standard_error
        Of the score.
    seconds
        Spent on its fits; a flow that candidates share counts for the first.
    weight
        In the stack.
    note
        Why it has no score, where it has none.
    """

    name: str
    in_latent_space: bool
    score: float = math.nan
    standard_error: float = math.nan
    seconds: float = 0.0
    weight: float = 0.0
    note: str = ""


@dataclass
class Results:
    """The candidates in the order of their scores, and what is to be said of the flow. It prints as a table."""

    candidates: list[Candidate] = field(default_factory=list)
    verdict: str = ""

    def __str__(self) -> str:
        width = max([len("candidate"), *(len(found.name) for found in self.candidates)])
        lines = [f"{'candidate':<{width}}  {'score':>8}  {'± s.e.':>8}  {'seconds':>8}  {'weight':>6}"]
        for found in self.candidates:
            line = f"{found.name:<{width}}  {_cell(found.score, 8, 4)}  {_cell(found.standard_error, 8, 4)}"
            weight = f"{found.weight:6.2f}" if found.weight else f"{'':6}"
            lines.append(f"{line}  {found.seconds:8.2f}  {weight}{'  ' * bool(found.note)}{found.note}".rstrip())
        return "\n".join([*lines, self.verdict])

    __repr__ = __str__


def _cell(value: float, width: int, digits: int) -> str:
    return f"{'–':>{width}}" if math.isnan(value) else f"{value:{width}.{digits}f}"


class Race:
    """Candidates on the same folds: their fits, their log-ratios of rows they have not seen, and the time they took.

    Parameters
    ----------
    X, y, w
        Rows, those of p first, labels and weights, of shapes (n, d), (n,) and (n,).
    fold
        The fold of every row, of shape (n,).
    seed
        Of the candidates.
    budget
        Seconds in all; None for no limit.
    """

    def __init__(
        self, X: np.ndarray, y: np.ndarray, w: np.ndarray, fold: np.ndarray, seed: int, budget: float | None
    ) -> None:
        self.X, self.y, self.w, self.seed = X, y, w, seed
        self.started = time.perf_counter()
        self.budget = math.inf if budget is None else float(budget)
        n_folds = int(fold.max()) + 1
        n_judged = min(n_folds, math.ceil(_SCORED_ROWS * n_folds / len(X)))
        self.folds = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_judged)]
        scored = np.concatenate([aside for _, aside in self.folds])
        self.n_scored = len(scored)
        share = np.where(y == 1, w / w[y == 1].sum(), w / w[y == 0].sum()) / 2
        self.held_out = HeldOut(np.where(y == 1, 1.0, -1.0), share).rows(scored)
        self.found: dict[str, Candidate] = {}
        self.log_ratios: dict[str, np.ndarray] = {}  # of those that were judged on all folds
        self.models: dict[str, list[Any]] = {}
        self.flows: dict[tuple[str, int], FlowFeaturizer | Scaler] = {}
        self.leader = np.zeros(self.n_scored)
        self.took: list[float] = []  # seconds of each that is done
        self.began = self.started  # of the candidate at work

    def left(self) -> float:
        """Return the seconds that are left."""
        return self.budget - (time.perf_counter() - self.started)

    def expected_left(self, n: int) -> float:
        """Return about how many seconds are left for the last n candidates, of which the first is at work.

        Each of them counts as long as the slowest so far. While fewer than n are done, all that is known is the budget:
        the simplest come first, and tell little of the others.
        """
        if len(self.took) < n:
            return max(0.0, self.left())
        slowest = max(self.took, default=0.0)
        expected = n * slowest - min(slowest, time.perf_counter() - self.began)
        return max(0.0, min(self.left(), expected))

    def run(self, name: str, ratio: Any) -> None:
        """Fit a candidate fold by fold, until it is done, given up, or out of time."""
        self.began = time.perf_counter()
        found = self.found[name] = Candidate(name, _in_latent_space(ratio))
        if self._is_settled():
            found.note = "not tried: p and q are told apart without it"
            return
        models: list[Any] = []
        parts: list[np.ndarray] = []
        try:
            expected = self._expected_seconds(ratio)
            for k, (rest, aside) in enumerate(self.folds):
                if expected * (len(self.folds) - k) > self.left():
                    found.note = "no time"
                    if math.isfinite(expected):
                        found.note += f": about {max(1, round(expected * len(self.folds)))} s needed"
                    break
                since = time.perf_counter()
                models.append(self._fitted(ratio, rest, k))
                parts.append(models[-1].log_ratio(self.X[aside]))
                expected = max(expected, time.perf_counter() - since)
                if k + 1 < len(self.folds) and not self._may_win(parts):
                    found.note = f"given up after {k + 1} of {len(self.folds)} folds"
                    break
        except Exception as error:  # a candidate may fail as it likes: the others go on
            found.note = f"failed: {' '.join(str(error).split()) or type(error).__name__}"
        now = time.perf_counter()
        found.seconds, self.began = now - self.began, now
        self.took.append(found.seconds)
        if not found.note:
            self._finish(name, models, np.concatenate(parts))

    def _finish(self, name: str, models: list[Any], log_r: np.ndarray) -> None:
        if not np.isfinite(log_r).all():
            self.found[name].note = "failed: log-ratios that are not finite"
            return
        self.models[name], self.log_ratios[name] = models, log_r
        losses = self.held_out.losses(log_r)
        self.found[name].score = math.log(2) - self.held_out.mean(losses)
        self.found[name].standard_error = self.held_out.standard_error(losses)
        log_ratios = np.column_stack([np.zeros(self.n_scored), *self.log_ratios.values()])
        self.leader = log_ratios @ choose_stack(log_ratios, self.held_out)

    def _is_settled(self) -> bool:
        """Return whether the stack tells nearly every held-out row: what is left to gain is less than its noise."""
        losses = self.held_out.losses(self.leader)
        return self.held_out.mean(losses) < min(_SETTLED * self.held_out.standard_error(losses), _HARDLY_ANY)

    def _may_win(self, parts: list[np.ndarray]) -> bool:
        n = sum(map(len, parts))
        return can_help(self.leader[:n], np.concatenate(parts), self.held_out.rows(np.arange(self.n_scored) < n))

    def _expected_seconds(self, ratio: Any) -> float:
        """Return about how long one fit takes, from a trial on some of the rows; 0 where it cannot matter."""
        rest = self.folds[0][0]
        if self.left() <= 0:
            return math.inf
        if math.isinf(self.budget) or len(rest) <= _FEWEST_DRAWN:
            return 0.0
        first, n = self._trial(ratio, rest, _PILOT_ROWS)
        expected = first * len(rest) / n
        if first * math.sqrt(len(rest) / n) < self.left() / len(self.folds) < expected:  # it may grow more slowly
            second, m = self._trial(ratio, rest, 4 * _PILOT_ROWS)
            growth = min(max(math.log(second / first) / math.log(m / n), 0.5), 1.0)
            expected = second * (len(rest) / m) ** growth
        return expected

    def _trial(self, ratio: Any, rest: np.ndarray, most: int) -> tuple[float, int]:
        """Return the seconds that a candidate takes for some of the rows, and how many these are."""
        of_p, of_q = rest[self.y[rest] == 1], rest[self.y[rest] == 0]
        some = np.concatenate([of[:: math.ceil(len(of) / most)] for of in (of_p, of_q)])
        since = time.perf_counter()
        new = new_ratio(ratio, self.seed)
        key = _flow_key(ratio)
        if key is not None and all((key, k) in self.flows for k in range(len(self.folds))):
            new.set_params(featurizer=self.flows[key, 0])
        fitted(new, self.X[some], self.y[some], self.w[some]).log_ratio(self.X[some])
        return time.perf_counter() - since, len(some)

    def _fitted(self, ratio: Any, rest: np.ndarray, k: int) -> Any:
        """Return a candidate fitted to all folds but one, in the latent space that others of this fold have."""
        made = new_ratio(ratio, self.seed + k)
        key = _flow_key(ratio)
        if key is not None and (key, k) in self.flows:
            made.set_params(featurizer=self.flows[key, k])
        made = fitted(made, self.X[rest], self.y[rest], self.w[rest])
        if key is not None:
            self.flows.setdefault((key, k), made.featurizer_)
        return made


def _in_latent_space(ratio: Any) -> bool:
    """Return whether a candidate is a ratio in the latent space of a flow."""
    if isinstance(ratio, FeaturizedRatio):
        return ratio.featurizer is None or isinstance(ratio.featurizer, FlowFeaturizer)
    return isinstance(ratio, JointFeaturizedRatio)


def _flow_key(ratio: Any) -> str | None:
    """Return what candidates of one latent space have in common; None for others."""
    if not isinstance(ratio, FeaturizedRatio) or is_fitted(ratio.featurizer):
        return None
    if not isinstance(getattr(ratio.featurizer, "flow", ""), str):
        return None  # a flow or a function of the user's
    return f"{ratio.featurizer!r} {ratio.mixture} {ratio.random_state}"
