"""Candidates on the same folds: one fold of each, then the other folds of those that may help, within a budget."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from flowratio._support.types import Matrix, Vector
from flowratio.ratios.auto.combination import HeldOut, can_help, choose_stack
from flowratio.ratios.auto.fitting import Entrant, Fit, Fitter, fold_costs, in_latent_space, thinned
from flowratio.ratios.auto.limits import can_be_limited
from flowratio.ratios.auto.results import Candidate, Status
from flowratio.ratios.auto.schedule import affordable
from flowratio.samples.two_samples import TwoSamples

_SCORED_ROWS = 20_000  # rows that are enough for a score: folds and rows beyond them are not scored
_TRIAL_VALUES, _TRIAL_ROWS = 100_000, (100, 500)  # values and rows of the first trial. Each further trial has 4 × more
_MIN_VALUES_FOR_TRIAL, _MIN_ROWS_FOR_TRIAL = 200_000, 4_000  # below both, fits are fast enough to go without a trial
_TRAINED_VALUES = 2_000_000  # values up to which training that can be interrupted goes without a trial
_MIN_ROWS = 1_000  # fewer rows do not show what a candidate can do
_FIRST_ROUND, _ONLY_ROUND = 0.5, 0.6  # share of the budget for one fold of each, if there are more folds, and if not
_MAX_SHARES = 2.0  # shares of the time that a fit to all rows may take, because many candidates need less than theirs
_GRACE = 1.2  # times its share of the budget, after which the first round ends
_BEST = 3  # candidates that keep the time for all their folds: a combination of fewer is worse
_RESERVE = 0.05  # share of the budget for the combination
_MIN_ROWS_TO_STOP = 100  # held-out rows that can show that a candidate is clearly worse
_MORE_ROWS = 0.8  # share of the time that is left, for fits of one candidate to more rows
_MIN_GROWTH = 1.5  # a fit to more rows must have so many times the rows, to be worth its time
_SETTLED = "the others separate p and q already"
_SETTLED_ERRORS, _SETTLED_LOSS = 3.0, 0.01  # standard errors and nats of the held-out loss, below which the race ends


class Race:
    """Candidates on the same folds of `samples`, shape (n,), with a budget in seconds for all of them.

    The budget runs from `start`, a value of `time.perf_counter`. None for now.
    """

    def __init__(
        self, samples: TwoSamples, fold: Vector, seed: int, budget: float | None, start: float | None = None
    ) -> None:
        self.start = time.perf_counter() if start is None else start
        self.step_start: float | None = None
        self.budget = math.inf if budget is None else float(budget)
        n_folds = int(fold.max()) + 1
        n_scored_folds = min(n_folds, math.ceil(_SCORED_ROWS * n_folds / len(samples.X)))
        tests = [np.flatnonzero(fold == k) for k in range(n_scored_folds)]
        if n_scored_folds == 1:
            tests = [thinned(tests[0], samples.n_p, _SCORED_ROWS)]
        folds = [(np.flatnonzero(fold != k), test) for k, test in enumerate(tests)]
        self.fitter = Fitter(samples, folds, seed)
        self.n_folds = self.n_planned_folds = len(folds)
        y, w = samples.y, samples.w
        share = np.where(y == 1, w / samples.w_p.sum(), w / samples.w_q.sum()) / 2
        self._all_held_out = HeldOut(np.where(y == 1, 1.0, -1.0), share).rows(np.concatenate(tests))
        self.entrants: dict[str, Entrant] = {}
        self.late: list[Entrant] = []  # candidates whose first fold takes more than its share of the time
        self.durations: list[float] = []  # seconds of each step that is done
        self.needed = 0.0  # seconds of what there was no time for

    @property
    def candidates(self) -> list[Candidate]:
        return [one.candidate for one in self.entrants.values()]

    @property
    def held_out(self) -> HeldOut:
        """The held-out rows of all folds that count."""
        return self._held_out(self.n_folds)

    @property
    def scored(self) -> dict[str, Entrant]:
        """Candidates with a score, the simplest first."""
        return {name: one for name, one in self.entrants.items() if one.candidate.status is Status.SCORED and one.fits}

    def log_ratios(self) -> Matrix:
        """Return log-ratios of the held-out rows: 0, for r = 1, and a column for each candidate with a score."""
        return self._columns([*self.scored.values()], self.n_folds)

    def seconds_left(self) -> float:
        """Return how much of the budget is left, without a reserve for the combination."""
        if math.isinf(self.budget):
            return math.inf
        return (1 - _RESERVE) * self.budget - self.elapsed()

    def elapsed(self) -> float:
        return time.perf_counter() - self.start

    def expected_left(self, n: int) -> float:
        """Return the expected seconds for the current step and the n - 1 after it. The last step is more folds."""
        left = max(0.0, self.budget - self.elapsed())
        if len(self.durations) < n:
            return left
        rest = (n - 1) * max(self.durations, default=0.0)  # as slow as the slowest so far
        more_folds = (self.n_folds - 1) * (sum(self.durations) + rest)
        return max(0.0, min(left, rest + more_folds - (time.perf_counter() - (self.step_start or self.start))))

    def run(self, candidates: Mapping[str, Any], begin: Callable[[str], None] = lambda name: None) -> None:
        """Fit and score candidates, the simplest first. `begin` is called before each, and before the last step."""
        for name, ratio in candidates.items():
            self.entrants[name] = Entrant(Candidate(name, in_latent_space(ratio)), ratio)
        if self._first_round_settles(begin) or self._late_folds_settle():
            settled = [one for one in self.entrants.values() if len(one.fits) < self.n_folds]
            self._drop(settled, Status.NOT_NEEDED, _SETTLED)
        self._begin_step("more folds of the best", begin)
        entrants = self._stop_losers(1)
        self._more_rows(entrants)
        self._more_folds(entrants)
        self._score()

    # One fold of each

    def _first_round_settles(self, begin: Callable[[str], None]) -> bool:
        """Fit the first fold of each candidate. Return whether one of them ends the race.

        With a budget the cheapest come first: those that a trial shows to be within their share, then the others in the
        order of their time, then training, which can be interrupted.
        """
        everyone = [*self.entrants.values()]
        trained = [one for one in everyone if math.isfinite(self.budget) and can_be_limited(one.ratio)]
        slow, n_left = list[Entrant](), len(everyone)
        for one in [one for one in everyone if one not in trained]:
            self._begin_step(one.candidate.name, begin)
            self._measure(one, self._share(n_left))
            if one.expected_seconds(self.fitter.n_rows) > _MAX_SHARES * self._share(n_left):
                slow.append(one)
                continue
            if self._first_fold_settles(one, self._share(n_left)):
                return True
            n_left -= 1
        for one in [*sorted(slow, key=lambda one: one.expected_seconds(self.fitter.n_rows)), *trained]:
            if one in trained:
                self._begin_step(one.candidate.name, begin)
                self._measure(one, self._share(n_left))
            if self._first_fold_settles(one, self._share(n_left)):
                return True
            n_left -= 1
        return False

    def _begin_step(self, name: str, begin: Callable[[str], None]) -> None:
        now = time.perf_counter()
        if self.step_start is not None:
            self.durations.append(now - self.step_start)
        self.step_start = now
        begin(name)

    def _first_fold_settles(self, one: Entrant, share: float) -> bool:
        """Fit the first fold of a candidate. Return whether it ends the race."""
        self._first_fold(one, share)
        return self._is_settled(one)

    def _share(self, n_left: int) -> float:
        """Return the seconds that each of the candidates without a fold may take for it."""
        if math.isinf(self.budget):
            return math.inf
        return max(self._first_round() - self.elapsed(), 0.2 * self.seconds_left()) / n_left

    def _first_round(self) -> float:
        return (_FIRST_ROUND if self.n_folds > 1 else _ONLY_ROUND) * self.budget

    def _measure(self, one: Entrant, share: float) -> None:
        """Fit a candidate to few rows, then to more, until the time of a fit to all rows is clear."""
        self._attempt(one, lambda: self._measure_trials(one, share))

    def _measure_trials(self, one: Entrant, share: float) -> None:
        n, d = self.fitter.n_rows, self.fitter.samples.X.shape[1]
        n_rows = min(max(_TRIAL_VALUES // d, _TRIAL_ROWS[0]), _TRIAL_ROWS[1])
        small = n <= _MIN_ROWS_FOR_TRIAL and n * d <= _MIN_VALUES_FOR_TRIAL
        if math.isinf(share) or small or n < 2 * n_rows or (n * d <= _TRAINED_VALUES and can_be_limited(one.ratio)):
            return
        while n_rows < n and self._is_worth_a_trial(one, share) and self.seconds_left() > 0:
            trial = self.fitter.trial(one.ratio, n_rows, share / 8)
            flow = 0.0 if self.fitter.has_map(one.ratio, 0) else trial.saved_seconds
            one.add_timing(trial, flow)
            n_rows = n if trial.cut else 4 * n_rows

    def _is_worth_a_trial(self, one: Entrant, share: float) -> bool:
        """Return whether another trial, with 4 × the rows, takes little time. A second one shows how the time grows."""
        return not one.timings or (2 if len(one.timings) == 1 else 6) * one.timings[-1][1] <= share

    def _first_fold(self, one: Entrant, share: float) -> None:
        """Fit a candidate to all folds but the first, on as many rows as its share of the time allows."""
        if one.candidate.status is not Status.SCORED:  # it failed in a trial
            return
        over = can_be_limited(one.ratio) and self.scored and _GRACE * self._first_round() < self.elapsed()
        if over or not self._fits_within(one, share, min(_MAX_SHARES * share, max(share, self.seconds_left() / 2))):
            self.late.append(one)

    def _fits_within(self, one: Entrant, share: float, limit: float) -> bool:
        """Fit the first fold of a candidate: to all rows up to a limit in seconds, and to fewer within its share.

        Return whether there was time for enough rows.
        """
        n, trained = self.fitter.n_rows, can_be_limited(one.ratio)
        enough = one.expected_seconds(n) <= limit
        n_rows = 0 if self.seconds_left() <= 0 else n if enough else one.rows_within(share, n)
        if 0 < n_rows < n and trained and not one.candidate.in_latent_space:
            n_rows = min(n, 4 * n_rows)  # the training ends in time, and more rows for fewer epochs are better
        if n_rows < min(n, _MIN_ROWS):
            return False
        self._attempt(one, lambda: self._add(one, self.fitter.fold(one.ratio, 0, n_rows, limit)))
        return True

    def _late_folds_settle(self) -> bool:
        """Fit first folds that take more than their share, the cheapest first. Return whether one ends the race.

        The best candidates so far keep the time for their other folds. All other time is for first folds.
        """
        late = sorted(self.late, key=self._expected_seconds)
        for k, one in enumerate(late):
            free = self.seconds_left() - self._seconds_of_best()
            least = self._expected_seconds(one, _MIN_ROWS)
            limit = max(free / (len(late) - k), 1.01 * least)
            if least > free or free <= 0 or not self._fits_within(one, limit, limit):
                self._out_of_time([one])
            elif self._is_settled(one):
                return True
        return False

    def _expected_seconds(self, one: Entrant, max_rows: float = math.inf) -> float:
        """Return about how long a first fold takes: that of the others on average, if nothing was measured."""
        others = [other.fits[0].seconds for other in self.entrants.values() if other.fits]
        mean = sum(others) / max(len(others), 1)
        return one.expected_seconds(int(min(max_rows, self.fitter.n_rows))) if one.timings else mean

    def _seconds_of_best(self) -> float:
        """Return the seconds of the other folds of the best candidates so far."""
        ranking = sorted(self.scored.values(), key=lambda one: self._held_out(1).mean(self._first_losses(one)))
        return (self.n_folds - 1) * sum(fold_costs(ranking[:_BEST]))

    def _add(self, one: Entrant, fit: Fit) -> None:
        one.fits.append(fit)
        one.add_timing(fit)

    def _attempt(self, one: Entrant, action: Callable[[], None]) -> None:
        """Call a function. If it fails the candidate has failed, and the others continue."""
        start = time.perf_counter()
        try:
            action()
        except Exception as error:  # a candidate may fail in any way
            one.fits.clear()
            message = " ".join(str(error).split()) or type(error).__name__
            one.candidate.status, one.candidate.detail = Status.FAILED, message
        one.candidate.seconds += time.perf_counter() - start

    def _is_settled(self, one: Entrant) -> bool:
        """Return whether a candidate separates nearly all held-out rows, on all folds: the rest is below its noise."""
        while one.fits:
            held_out = self._held_out(len(one.fits))
            losses = held_out.losses(one.log_r)
            if held_out.mean(losses) > min(_SETTLED_ERRORS * held_out.standard_error(losses), _SETTLED_LOSS):
                return False
            if len(one.fits) == self.n_folds:
                return True
            if one.seconds_of_fold > self.seconds_left():
                return False
            self._next_fold(one)
        return False

    # More folds, and more rows, of those that may help

    def _more_rows(self, entrants: list[Entrant]) -> None:
        """Fit the first fold of the best candidates again, to more rows, if they were fitted to few and there is time.

        There must be time for the other folds, too.
        """
        n, reserved = self.fitter.n_rows, 0.0
        if math.isinf(self.budget) or all(one.fits[0].n_rows == n for one in entrants):
            return
        for one in sorted(entrants, key=lambda one: self._held_out(1).mean(self._first_losses(one))):
            seconds = (self.seconds_left() - reserved) / self.n_folds
            n_rows = one.rows_within(_MORE_ROWS * seconds, n) if seconds > 0 else 0
            if n_rows >= min(_MIN_GROWTH * one.fits[0].n_rows, n) > one.fits[0].n_rows:
                start = time.perf_counter()
                with suppress(Exception):  # a candidate may fail in any way. The first fit remains
                    self._refit(one, n_rows, seconds)
                one.candidate.seconds += time.perf_counter() - start
            reserved += (self.n_folds - 1) * one.seconds_of_fold

    def _refit(self, one: Entrant, n_rows: int, seconds: float) -> None:
        """Replace the fit of the first fold by one to more rows, if this has a smaller loss."""
        self.fitter.forget_map(one.ratio, 0)  # of few rows
        fit = self.fitter.fold(one.ratio, 0, n_rows, seconds)
        one.add_timing(fit)
        held_out = self._held_out(1)
        if held_out.mean(held_out.losses(fit.log_r)) < held_out.mean(self._first_losses(one)):
            one.fits = [fit]

    def _first_losses(self, one: Entrant) -> Vector:
        return self._held_out(1).losses(one.fits[0].log_r)

    def _more_folds(self, entrants: list[Entrant]) -> None:
        """Fit the other folds of candidates. If there is not enough time for all, the best ones come first."""
        if not entrants:
            return
        n_more, waiting = self.n_folds - 1, list[Entrant]()
        if n_more and math.isfinite(self.budget):
            held_out = self._held_out(1)
            losses = [self._first_losses(one) for one in entrants]
            scores = [math.log(2) - held_out.mean(loss) for loss in losses]
            best = losses[int(np.argmax(scores))]
            errors = [held_out.standard_error(loss - best) for loss in losses]
            costs = fold_costs(entrants)
            chosen, n_more = affordable(scores, errors, costs, self.seconds_left(), n_more)
            waiting = [one for k, one in enumerate(entrants) if k not in chosen]
            waiting.sort(key=lambda one: -scores[entrants.index(one)] / max(costs[entrants.index(one)], 1e-9))
            self.n_folds = 1 + n_more
        self.n_folds = self._folds_of([one for one in entrants if one not in waiting])
        for one in waiting:  # others may have been stopped, and left time
            seconds = (self.n_folds - len(one.fits)) * (one.seconds_of_fold + one.fits[0].saved_seconds)
            if seconds > self.seconds_left() or self._folds_of([one]) < self.n_folds:
                self._out_of_time([one])

    def _folds_of(self, entrants: list[Entrant]) -> int:
        """Fit the other folds of some candidates, round by round, without those that are clearly worse.

        Return the number of folds that there was time for.
        """
        for k in range(1, self.n_folds):
            for one in entrants:
                if len(one.fits) > k or one.candidate.status is not Status.SCORED:
                    continue
                if one.seconds_of_fold > self.seconds_left() + _RESERVE * self.budget:  # slower than expected
                    return k
                self._next_fold(one)
            self._stop_losers(k + 1)
        return self.n_folds

    def _next_fold(self, one: Entrant) -> None:
        # a flow that another candidate trained in the first fold may have to be trained now
        limit = math.inf if math.isinf(self.budget) else 2 * (one.seconds_of_fold + one.fits[0].saved_seconds) + 1
        n_rows = one.fits[0].n_rows
        max_rows = n_rows if n_rows < self.fitter.n_rows else len(self.fitter.samples.X)  # folds differ by a row or two
        self._attempt(one, lambda: self._add(one, self.fitter.fold(one.ratio, len(one.fits), max_rows, limit)))

    def _stop_losers(self, n_folds: int) -> list[Entrant]:
        """Stop candidates that cannot help the best combination on some folds, and return the others."""
        entrants = [one for one in self._alive() if len(one.fits) >= n_folds]
        held_out = self._held_out(n_folds)
        if len(entrants) < 2 or n_folds >= self.n_folds or len(held_out.sign) < _MIN_ROWS_TO_STOP:
            return entrants
        columns = self._columns(entrants, n_folds)
        weights = choose_stack(columns, held_out)
        leader = columns @ weights
        for one, weight, log_r in zip(entrants, weights[1:], columns.T[1:], strict=True):
            if weight == 0 and not can_help(leader, log_r, held_out, len(entrants)):
                if self._handicaps(one):
                    self._out_of_time([one])
                else:
                    self._drop([one], Status.STOPPED, f"after {n_folds} of {self.n_planned_folds} folds")
        return self._alive()

    # What is left of it

    def _alive(self) -> list[Entrant]:
        return [*self.scored.values()]

    def _drop(self, entrants: list[Entrant], status: Status, detail: str) -> None:
        for one in entrants:
            if one.candidate.status is Status.SCORED:
                one.candidate.status, one.candidate.detail = status, detail

    def _out_of_time(self, entrants: list[Entrant]) -> None:
        """Leave candidates out, with the time that all their folds need."""
        for one in entrants:
            first = self._expected_seconds(one)
            needed = self.n_planned_folds * first
            needed *= 4 if any(fit.cut for fit in one.fits) else 1  # what a training needs that was cut is unknown
            self.needed += needed
            notes = [f"{len(one.fits)} of {self.n_planned_folds} folds"] if one.fits else []
            notes += [] if one.fits or not first else [f"first fold needs about {first:.2g} s"]
            notes += self._handicaps(one)
            notes += [f"about {max(1, round(needed))} s needed"] if one.fits and needed else []
            self._drop([one], Status.NO_TIME, ", ".join(notes))

    def _score(self) -> None:
        for one in self._alive():
            losses = self.held_out.losses(self._columns([one], self.n_folds)[:, 1])
            one.candidate.score = math.log(2) - self.held_out.mean(losses)
            one.candidate.standard_error = self.held_out.standard_error(losses)
            one.candidate.detail = ", ".join(self._handicaps(one))

    def _handicaps(self, one: Entrant) -> list[str]:
        """Return why the fits of a candidate do not show all that it can do."""
        n_rows, n = one.fits[0].n_rows if one.fits else 0, self.fitter.n_rows
        notes = [f"fitted to {n_rows} of {n} rows"] if 0 < n_rows < n else []
        return notes + ["training cut short"] * any(fit.cut for fit in one.fits)

    def _held_out(self, n_folds: int) -> HeldOut:
        n = sum(len(test) for _, test in self.fitter.folds[:n_folds])
        return self._all_held_out.rows(np.arange(len(self._all_held_out.sign)) < n)

    def _columns(self, entrants: list[Entrant], n_folds: int) -> Matrix:
        parts = [np.concatenate([fit.log_r for fit in one.fits[:n_folds]]) for one in entrants]
        n = sum(len(test) for _, test in self.fitter.folds[:n_folds])
        return np.column_stack([np.zeros(n), *parts])
