"""Candidates on the same folds: their fits, their held-out log-ratios, and the time they take."""

from __future__ import annotations

import math
import time
from typing import Any

import joblib
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

_SCORED_ROWS = 20_000  # rows that are enough for a score: folds beyond them are not scored
_TRIAL_ROWS = 1_000  # rows of each sample in a trial that measures the time of a fit
_MIN_ROWS_FOR_TRIAL = 4_000  # rows of both samples up to which a fit is fast enough to go without a trial
_SETTLED_ERRORS, _SETTLED_LOSS = 3.0, 0.01  # standard errors and nats of the held-out loss, below which the race ends


class Race:
    """Candidates on the same folds of `samples`, shape (n,), with a budget in seconds for all of them."""

    def __init__(self, samples: TwoSamples, fold: Vector, seed: int, budget: float | None) -> None:
        self.samples, self.seed = samples, seed
        self.budget = math.inf if budget is None else float(budget)
        n_folds = int(fold.max()) + 1
        n_scored_folds = min(n_folds, math.ceil(_SCORED_ROWS * n_folds / len(samples.X)))
        self.folds = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_scored_folds)]
        rows = np.concatenate([test for _, test in self.folds])
        self.n_scored = len(rows)
        y, w = samples.y, samples.w
        share = np.where(y == 1, w / samples.w_p.sum(), w / samples.w_q.sum()) / 2
        self.held_out = HeldOut(np.where(y == 1, 1.0, -1.0), share).rows(rows)
        self.candidates: dict[str, Candidate] = {}
        self.log_ratios: dict[str, Vector] = {}  # of the candidates with a score on all folds
        self.models: dict[str, list[Any]] = {}
        self.maps: dict[tuple[str, int], FlowFeaturizer | Scaler] = {}  # by latent space and fold
        self.leader = np.zeros(self.n_scored)  # log r of the best combination so far
        self.durations: list[float] = []  # seconds of each candidate that is done
        self.start = self.candidate_start = time.perf_counter()

    def seconds_left(self) -> float:
        """Return how much of the budget is left."""
        return self.budget - (time.perf_counter() - self.start)

    def expected_left(self, n: int) -> float:
        """Return the expected seconds for the current candidate and the n - 1 after it, from the slowest so far."""
        if len(self.durations) < n:
            return max(0.0, self.seconds_left())
        slowest = max(self.durations, default=0.0)
        expected = n * slowest - min(slowest, time.perf_counter() - self.candidate_start)
        return max(0.0, min(self.seconds_left(), expected))

    def run(self, name: str, ratio: Any) -> None:
        """Fit a candidate fold by fold, until it is done, stopped, or out of time."""
        self.candidate_start = time.perf_counter()
        candidate = self.candidates[name] = Candidate(name, _in_latent_space(ratio))
        if self._is_settled():
            candidate.status, candidate.detail = Status.NOT_NEEDED, "the others separate p and q already"
            return
        models: list[Any] = []
        parts: list[Vector] = []
        try:
            self._run_folds(candidate, ratio, models, parts)
        except Exception as error:  # a candidate may fail in any way. The others continue
            candidate.status, candidate.detail = Status.FAILED, " ".join(str(error).split()) or type(error).__name__
        now = time.perf_counter()
        candidate.seconds, self.candidate_start = now - self.candidate_start, now
        self.durations.append(candidate.seconds)
        if candidate.status is Status.SCORED:
            self._finish(candidate, models, np.concatenate(parts))

    def _run_folds(self, candidate: Candidate, ratio: Any, models: list[Any], parts: list[Vector]) -> None:
        expected, n_folds = self._expected_seconds(ratio), len(self.folds)
        for k, (train, test) in enumerate(self.folds):
            if expected * (n_folds - k) > self.seconds_left():
                candidate.status = Status.NO_TIME
                if math.isfinite(expected):
                    candidate.detail = f"about {max(1, round(expected * n_folds))} s needed"
                return
            start = time.perf_counter()
            models.append(self._fitted(ratio, train, k))
            parts.append(log_ratio_prepared(models[-1], self.samples.X[test]))
            expected = max(expected, time.perf_counter() - start)
            if k + 1 < n_folds and not self._may_help(parts):
                candidate.status, candidate.detail = Status.STOPPED, f"after {k + 1} of {n_folds} folds"
                return

    def _finish(self, candidate: Candidate, models: list[Any], log_r: Vector) -> None:
        """Score a candidate, and update the best combination."""
        if not np.isfinite(log_r).all():
            candidate.status, candidate.detail = Status.FAILED, "log-ratios that are not finite"
            return
        self.models[candidate.name], self.log_ratios[candidate.name] = models, log_r
        losses = self.held_out.losses(log_r)
        candidate.score = math.log(2) - self.held_out.mean(losses)
        candidate.standard_error = self.held_out.standard_error(losses)
        log_ratios = np.column_stack([np.zeros(self.n_scored), *self.log_ratios.values()])
        self.leader = log_ratios @ choose_stack(log_ratios, self.held_out)

    def _is_settled(self) -> bool:
        """Return whether the best combination separates nearly all held-out rows: the rest is less than its noise."""
        losses = self.held_out.losses(self.leader)
        return self.held_out.mean(losses) < min(_SETTLED_ERRORS * self.held_out.standard_error(losses), _SETTLED_LOSS)

    def _may_help(self, parts: list[Vector]) -> bool:
        n = sum(map(len, parts))
        return can_help(self.leader[:n], np.concatenate(parts), self.held_out.rows(np.arange(self.n_scored) < n))

    def _expected_seconds(self, ratio: Any) -> float:
        """Return about how long one fit takes, from a trial on some of the rows. 0 where it does not matter."""
        train = self.folds[0][0]
        if self.seconds_left() <= 0:
            return math.inf
        if math.isinf(self.budget) or len(train) <= _MIN_ROWS_FOR_TRIAL:
            return 0.0
        first, n = self._trial(ratio, train, _TRIAL_ROWS)
        expected = first * len(train) / n
        # the time may grow more slowly than the rows
        if first * math.sqrt(len(train) / n) < self.seconds_left() / len(self.folds) < expected:
            second, m = self._trial(ratio, train, 4 * _TRIAL_ROWS)
            growth = min(max(math.log(second / first) / math.log(m / n), 0.5), 1.0)
            expected = second * (len(train) / m) ** growth
        return expected

    def _trial(self, ratio: Any, train: Vector, max_rows: int) -> tuple[float, int]:
        """Return the seconds that a candidate takes for some of the rows, and the number of these rows."""
        sides = train[train < self.samples.n_p], train[train >= self.samples.n_p]
        rows = np.concatenate([side[:: math.ceil(len(side) / max_rows)] for side in sides])
        start = time.perf_counter()
        model = new_ratio(ratio, self.seed)
        key = _latent_space_key(ratio)
        if key is not None and all((key, k) in self.maps for k in range(len(self.folds))):
            model.set_params(featurizer=self.maps[key, 0])
        log_ratio_prepared(fit_prepared(model, self.samples.part(rows)), self.samples.X[rows])
        return time.perf_counter() - start, len(rows)

    def _fitted(self, ratio: Any, train: Vector, k: int) -> Any:
        """Return a candidate fitted to all folds but one. Candidates of one latent space share the map of a fold."""
        model = new_ratio(ratio, self.seed + k)
        key = _latent_space_key(ratio)
        if key is not None and (key, k) in self.maps:
            model.set_params(featurizer=self.maps[key, k])
        model = fit_prepared(model, self.samples.part(train))
        if key is not None:
            self.maps.setdefault((key, k), model.featurizer_)
        return model


def _in_latent_space(ratio: Any) -> bool:
    """Return whether a candidate is a ratio in the latent space of a flow."""
    if isinstance(ratio, FeaturizedRatio):
        return ratio.featurizer is None or isinstance(ratio.featurizer, FlowFeaturizer)
    return isinstance(ratio, JointFeaturizedRatio)


def _latent_space_key(ratio: Any) -> str | None:
    """Return what candidates of one latent space have in common. None for others, and for flows of the user."""
    if not isinstance(ratio, FeaturizedRatio) or is_fitted(ratio.featurizer):
        return None
    if not isinstance(getattr(ratio.featurizer, "flow", ""), str):
        return None
    featurizer: Any = ratio.featurizer
    settings = featurizer.get_params() if hasattr(featurizer, "get_params") else {"": featurizer}
    values = {name: _digest(value) for name, value in settings.items()}
    return f"{type(featurizer)} {values} {ratio.mixture} {ratio.random_state}"


def _digest(value: Any) -> str:
    """Return a text that is the same for equal values, in full, which a repr is not."""
    try:
        return str(joblib.hash(value))
    except Exception:  # a value of a user that cannot be pickled may fail in any way
        return str(id(value))
