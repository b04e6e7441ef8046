"""Candidates on the same folds: who is fitted, judged, given up or left out, and what each of them took."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from flowratio._support.types import Vector
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.auto.combination import HeldOut, can_help, choose_stack
from flowratio.ratios.auto.results import Candidate, Status
from flowratio.ratios.featurized.featurized import FeaturizedRatio, is_fitted
from flowratio.ratios.featurized.joint import JointFeaturizedRatio
from flowratio.ratios.registry import fit_prepared, log_ratio_prepared, new_ratio
from flowratio.samples.two_samples import TwoSamples
from flowratio.scaling.base import Scaler

_SCORED_ROWS = 20_000  # rows on which candidates are judged: folds beyond them are not scored
_PILOT_ROWS = 1_000  # rows of each sample in a trial that tells how long a fit will take
_SETTLED = 3.0  # standard errors of the held-out loss, below which nothing better can be told from it
_HARDLY_ANY = 0.01  # nats of the held-out loss, above which there is something to tell
_FEWEST_DRAWN = 4_000  # rows of both samples up to which no trial is worth it


class Race:
    """Candidates on the same folds: their fits, their log-ratios of rows they have not seen, and the time they took.

    Parameters
    ----------
    samples
        The rows of both samples.
    fold
        The fold of every row, of shape (n,).
    seed
        Of the candidates.
    budget
        Seconds in all; None for no limit.
    """

    def __init__(self, samples: TwoSamples, fold: Vector, seed: int, budget: float | None) -> None:
        self.samples, self.seed = samples, seed
        self.started = time.perf_counter()
        self.budget = math.inf if budget is None else float(budget)
        n_folds = int(fold.max()) + 1
        n_scored_folds = min(n_folds, math.ceil(_SCORED_ROWS * n_folds / len(samples.X)))
        self.folds = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_scored_folds)]
        rows = np.concatenate([aside for _, aside in self.folds])
        self.n_scored = len(rows)
        y, w = samples.y, samples.w
        share = np.where(y == 1, w / samples.w_p.sum(), w / samples.w_q.sum()) / 2
        self.held_out = HeldOut(np.where(y == 1, 1.0, -1.0), share).rows(rows)
        self.candidates: dict[str, Candidate] = {}
        self.log_ratios: dict[str, np.ndarray] = {}  # of the candidates with a score on all folds
        self.models: dict[str, list[Any]] = {}
        self.flows: dict[tuple[str, int], FlowFeaturizer | Scaler] = {}
        self.leader = np.zeros(self.n_scored)
        self.durations: list[float] = []  # seconds of each candidate that is done
        self.began = self.started  # of the candidate at work

    def left(self) -> float:
        """Return the seconds that are left."""
        return self.budget - (time.perf_counter() - self.started)

    def expected_left(self, n: int) -> float:
        """Return about how many seconds are left for the last n candidates, of which the first is at work.

        Each of them counts as long as the slowest so far. While fewer than n are done, all that is known is the budget:
        the simplest come first, and tell little of the others.
        """
        if len(self.durations) < n:
            return max(0.0, self.left())
        slowest = max(self.durations, default=0.0)
        expected = n * slowest - min(slowest, time.perf_counter() - self.began)
        return max(0.0, min(self.left(), expected))

    def run(self, name: str, ratio: Any) -> None:
        """Fit a candidate fold by fold, until it is done, stopped, or out of time."""
        self.began = time.perf_counter()
        candidate = self.candidates[name] = Candidate(name, _in_latent_space(ratio))
        if self._is_settled():
            candidate.status, candidate.detail = Status.NOT_NEEDED, "the others separate p and q already"
            return
        models: list[Any] = []
        parts: list[np.ndarray] = []
        try:
            self._run_folds(candidate, ratio, models, parts)
        except Exception as error:  # a candidate may fail in any way. The others go on
            candidate.status, candidate.detail = Status.FAILED, " ".join(str(error).split()) or type(error).__name__
        now = time.perf_counter()
        candidate.seconds, self.began = now - self.began, now
        self.durations.append(candidate.seconds)
        if candidate.status is Status.SCORED:
            self._finish(name, models, np.concatenate(parts))

    def _run_folds(self, candidate: Candidate, ratio: Any, models: list[Any], parts: list[np.ndarray]) -> None:
        expected, n_folds = self._expected_seconds(ratio), len(self.folds)
        for k, (rest, aside) in enumerate(self.folds):
            if expected * (n_folds - k) > self.left():
                candidate.status = Status.NO_TIME
                if math.isfinite(expected):
                    candidate.detail = f"about {max(1, round(expected * n_folds))} s needed"
                return
            since = time.perf_counter()
            models.append(self._fitted(ratio, rest, k))
            parts.append(log_ratio_prepared(models[-1], self.samples.X[aside]))
            expected = max(expected, time.perf_counter() - since)
            if k + 1 < n_folds and not self._may_win(parts):
                candidate.status, candidate.detail = Status.STOPPED, f"after {k + 1} of {n_folds} folds"
                return

    def _finish(self, name: str, models: list[Any], log_r: np.ndarray) -> None:
        if not np.isfinite(log_r).all():
            self.candidates[name].status = Status.FAILED
            self.candidates[name].detail = "log-ratios that are not finite"
            return
        self.models[name], self.log_ratios[name] = models, log_r
        losses = self.held_out.losses(log_r)
        self.candidates[name].score = math.log(2) - self.held_out.mean(losses)
        self.candidates[name].standard_error = self.held_out.standard_error(losses)
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
        of_p, of_q = rest[rest < self.samples.n_p], rest[rest >= self.samples.n_p]
        some = np.concatenate([of[:: math.ceil(len(of) / most)] for of in (of_p, of_q)])
        since = time.perf_counter()
        new = new_ratio(ratio, self.seed)
        key = _flow_key(ratio)
        if key is not None and all((key, k) in self.flows for k in range(len(self.folds))):
            new.set_params(featurizer=self.flows[key, 0])
        log_ratio_prepared(fit_prepared(new, self.samples.part(some)), self.samples.X[some])
        return time.perf_counter() - since, len(some)

    def _fitted(self, ratio: Any, rest: np.ndarray, k: int) -> Any:
        """Return a candidate fitted to all folds but one, in the latent space that others of this fold have."""
        model = new_ratio(ratio, self.seed + k)
        key = _flow_key(ratio)
        if key is not None and (key, k) in self.flows:
            model.set_params(featurizer=self.flows[key, k])
        model = fit_prepared(model, self.samples.part(rest))
        if key is not None:
            self.flows.setdefault((key, k), model.featurizer_)
        return model


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
