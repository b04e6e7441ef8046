"""A cross-fitted choice of the ratio: candidates of many families, scored on held-out rows, then combined."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from flowratio._support.errors import ArgumentError
from flowratio._support.progress import uneven_progress
from flowratio._support.types import Matrix, Vector
from flowratio._support.validation import RandomState, check_choice, check_n_folds, is_number, seed_from
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.auto.combination import choose_stack, hedge
from flowratio.ratios.auto.conclusion import on_flow, untried_sentence
from flowratio.ratios.auto.convex import ConvexRatio
from flowratio.ratios.auto.fitting import thinned
from flowratio.ratios.auto.race import Race
from flowratio.ratios.auto.results import AutoResults, Candidate, Status
from flowratio.ratios.base import RatioEstimator, Requires
from flowratio.ratios.categories import CategoryOdds
from flowratio.ratios.featurized.featurized import FeaturizedRatio, check_featurizer, is_fitted
from flowratio.ratios.registry import RATIOS, fit_prepared, is_additive, log_ratio_prepared, named_ratio, silent
from flowratio.samples.folding import random_ranks
from flowratio.samples.two_samples import TwoSamples

_DISAGREEMENT = 8.0  # nats between the fits of a candidate, a factor of 3,000, at which it counts half
_OVERLAP_ROWS = 200_000  # rows of both samples that show the overlap: to score more takes a part of the budget
_LARGEST_CHANGE = 1e6  # nats: larger ones count as this, so that no weight is 0


class BudgetWarning(UserWarning):
    """The time was too short, or the rows too few, to score any candidate."""


class AutoRatio(RatioEstimator):
    """Estimate r = p/q (p is y = 1) by the ratio, or the combination of few ratios, that suits the data.

    Candidates of many families are fitted to all folds but one and scored on that one, by the likelihood of y with both
    samples counting one half (`RatioEstimator.score`). log r is a convex combination of few candidates, each the mean
    over its folds. `results_` shows the scores, and whether the latent space of a flow helped.

    Parameters
    ----------
    candidates
        Names, such as `"mlp"` or `"mlp in z"`, ratios, or a dict from names to ratios, the simplest first. None for the
        default ones, from LDA to telescoping in latent space.
    combine
        `"stack"` for a convex combination of log-ratios, `"best"` for a single one.
    n_folds
        Number of folds. Folds and rows beyond the first 20 000 held-out rows are not scored.
    time_budget
        Seconds. None for no limit. Short trials on some of the rows measure the time. A candidate that would exceed its
        share is fitted to fewer rows or left out, and the training of networks and flows is interrupted.
    random_state, verbose
        Seed: the same seed gives the same bits on the same machine, if the budget leaves out the same candidates.
        Whether to show a progress bar, with the current candidate and the time left.

    Attributes
    ----------
    results_
        An `AutoResults`: candidates with scores, seconds and weights, and a verdict on the flow. It has `to_frame()`.
    names_, shares_, models_
        Names of the candidates in the combination, their weights, of shape (m,), and a list of fitted ratios for each,
        one for each scored fold. The rest up to 1 is the weight of r = 1.
    effective_sample_size_, inverse_sample_size_, uncovered_share_
        As in every ratio. If there are more than 200,000 rows, 200,000 of them stand for all.

    Notes
    -----
    The combination starts with the first candidate that is about as good as the best one. Others join while the
    held-out likelihood gains more than noise. With n scored rows, the maximum likelihood weights of all candidates
    count 1000 / (n + 1000), and those of the few the rest: with few rows, a mean of many is safer than a choice.

    Held-out rows do not show how wrong an extreme log-ratio is. So a candidate counts less at a row where its fits to
    different folds disagree: 1 / (1 + v / 64) of its weight for a variance of v nats². The others take its place.

    All candidates get one fold before any gets more. A candidate is stopped early if it is clearly worse than the
    others after a fold. The rest is skipped once a candidate separates p from q without error. If there is not enough
    time for all folds of the others, the best one comes first, then those with the highest score per second. Candidates
    of one latent space share one flow in each fold. `results_` lists what there was no time for, and a budget that
    would suffice.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ratio = AutoRatio(["logistic", "qda"], random_state=0)
    >>> _ = ratio.fit_samples(rng.normal(1, 1, size=(500, 2)), rng.normal(0, 1, size=(500, 2)))
    >>> ratio.names_, ratio.log_ratio([[1.0, 1.0]]).round(1).tolist()  # log r(x) = x₁ + x₂ - 1
    (['logistic'], [1.0])
    """

    requires = Requires(units="own", categories="codes")  # equal rows are in different folds, as new rows are

    def __init__(
        self,
        candidates: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        combine: Literal["stack", "best"] = "stack",
        n_folds: int = 5,
        time_budget: float | None = 240.0,
        random_state: RandomState = None,
        verbose: bool = False,
    ) -> None:
        self.candidates, self.combine, self.n_folds = candidates, combine, n_folds
        self.time_budget, self.random_state, self.verbose = time_budget, random_state, verbose

    def _fit_units(self, samples: TwoSamples) -> None:
        start = time.perf_counter()  # the budget includes the preparation of the rows
        self._check_settings()
        self._fit(self._prepare_rows(samples), start)

    def _fit(self, samples: TwoSamples, start: float | None = None) -> None:
        """Choose among the candidates. `start` is the time at which the budget began, now if it is None."""
        start = time.perf_counter() if start is None else start
        candidates, seed = self._candidates(in_folds=True), seed_from(self.random_state)
        for ratio in candidates.values():
            if isinstance(ratio, FeaturizedRatio) and is_fitted(ratio.featurizer):
                check_featurizer(ratio.featurizer, samples)
        n_folds = min(self.n_folds, samples.n_least // 2)  # a fit needs 2 rows of a sample
        if n_folds < 2:
            reason = f"The samples have {samples.n_p} and {samples.n_q} distinct rows, too few to score any candidate"
            self._fall_back(samples, [], f"{reason}. The ratio is logistic regression. Give at least 4 rows of each.")
            return
        fold = random_ranks(samples, np.random.default_rng([seed, 0, 6])) % n_folds
        race = Race(samples, fold, seed, self.time_budget, start)
        bar = uneven_progress(len(candidates) + 1, "steps", self.verbose, race.expected_left)
        with silent(), bar as begin:  # the scores show what a fit warns of
            race.run(candidates, begin)
        if problem := self._settle(race):
            self._fall_back(samples, race.candidates, f"{problem}. The ratio is logistic regression. Give more time.")

    def _settle(self, race: Race) -> str:
        """Combine the candidates with a score. If there is none, return why."""
        entries, statuses = race.candidates, {one.status for one in race.candidates}
        if statuses == {Status.FAILED}:
            reasons = "; ".join(f"{one.name}: {one.detail.rstrip('.')}" for one in entries)
            raise ValueError(f"All {len(entries)} candidates have failed ({reasons}). Fix the data, or use others.")
        if not race.scored:
            return f"`time_budget` is {self.time_budget:g} seconds, too short to score any candidate"
        self._combine(race)
        return ""

    def _combine(self, race: Race) -> None:
        scored, log_ratios = race.scored, race.log_ratios()
        few = choose_stack(log_ratios, race.held_out, max_columns=1 if self.combine == "best" else None)
        weights = few if self.combine == "best" else hedge(few, log_ratios, race.held_out)
        self.names_, self.models_ = [], []
        for (name, one), weight in zip(scored.items(), weights[1:], strict=True):
            one.candidate.weight = float(weight)
            if weight > 0:
                self.names_.append(name)
                self.models_.append([fit.model for fit in one.fits[: race.n_folds]])
        self.shares_ = weights[1:][weights[1:] > 0]
        ranking = sorted(race.candidates, key=lambda one: math.inf if math.isnan(one.score) else -one.score)
        untried = untried_sentence(race.candidates, race.elapsed() + race.needed)
        of_flow = on_flow(race, log_ratios, few)
        self.results_ = AutoResults(ranking, " ".join(filter(None, [of_flow, untried])), untried, of_flow)

    def _fall_back(self, samples: TwoSamples, entries: list[Candidate], message: str) -> None:
        """Use the logistic baseline, and issue a warning."""
        warnings.warn(message, BudgetWarning, stacklevel=6)
        start = time.perf_counter()
        self.models_ = [[fit_prepared(named_ratio("logistic"), samples)]]
        self.names_, self.shares_ = ["logistic"], np.ones(1)
        seconds = time.perf_counter() - start
        baseline = Candidate("logistic", False, seconds=seconds, weight=1.0, status=Status.BASELINE)
        others = [one for one in entries if one.name != "logistic"]
        reason = "No candidate was scored."
        self.results_ = AutoResults([baseline, *others], f"{reason} {message}", message, reason)

    def selection(self) -> ConvexRatio:
        """Return the combination, unfitted, to fit it to other rows without another choice."""
        check_is_fitted(self)
        ratios = {"logistic": "logistic", **self._candidates()}  # the baseline may not be a candidate
        members = [ratios[name] for name in self.names_]
        note, seed = self.results_.untried, self.random_state
        return ConvexRatio(members, self.shares_.tolist(), note=note, random_state=seed)

    def untried(self) -> str:
        """Return what there was no time to try, in words. Empty if all was tried, and before a fit."""
        return self.results_.untried if hasattr(self, "results_") else ""

    def is_additive(self) -> bool:
        return all(map(is_additive, self._candidates().values()))

    def mixture_flow(self) -> FlowFeaturizer | None:
        """Return the flow of the candidate with the largest share that has one."""
        return None if (member := self._member_with_flow()) is None else member.mixture_flow()

    def mixture_odds(self) -> CategoryOdds | None:
        return None if (member := self._member_with_flow()) is None else member.mixture_odds()

    def _member_with_flow(self) -> RatioEstimator | None:
        ratios = [self.models_[k][0] for k in np.argsort(-self.shares_)]
        members = (ratio for ratio in ratios if isinstance(ratio, RatioEstimator))
        return next((ratio for ratio in members if ratio.mixture_flow() is not None), None)

    def _log_ratio(self, X: Matrix) -> Vector:
        total, weighted = np.zeros(len(X)), np.zeros(len(X))
        for share, models in zip(self.shares_, self.models_, strict=True):
            mean, variance = _mean_and_variance(models, X)
            weight = share / (1 + variance / _DISAGREEMENT**2)
            weighted += weight * mean
            total += weight
        return self.shares_.sum() * weighted / np.maximum(total, 1e-300)  # without candidates r = 1

    def _overlap_rows(self, samples: TwoSamples) -> TwoSamples:
        return samples.part(thinned(np.arange(len(samples.X)), samples.n_p, _OVERLAP_ROWS))

    def _check_settings(self) -> None:
        check_choice(self.combine, "combine", ("stack", "best"))
        check_n_folds(self.n_folds)
        budget = self.time_budget
        if budget is not None and not (is_number(budget) and budget > 0):
            raise ArgumentError("time_budget", f"`time_budget` is {budget!r}. Use seconds above 0, or None.")

    def _candidates(self, in_folds: bool = False) -> dict[str, Any]:
        """Return the unfitted candidates, for a fit in each fold or for a single fit."""
        candidates = self.candidates
        if candidates is None:
            return {name: entry.build(in_folds) for name, entry in RATIOS.items() if entry.candidate}
        if isinstance(candidates, str) or not isinstance(candidates, Mapping | Sequence) or not candidates:
            raise ValueError(f"`candidates` is {candidates!r}. Use a list of names or ratios, or a dict of ratios.")
        if isinstance(candidates, Mapping):
            return dict(candidates)
        by_name: dict[str, Any] = {}
        for one in candidates:
            name = one if isinstance(one, str) else one.__name__ if isinstance(one, type) else type(one).__name__
            while name in by_name:
                name += "'"
            by_name[name] = named_ratio(one, "candidates", in_folds) if isinstance(one, str) else one
        return by_name


def _mean_and_variance(models: list[Any], X: Matrix) -> tuple[Vector, Vector]:
    """Return mean and variance over the fits of a candidate of log r, each (n,). One fit has no variance."""
    mean, squares = np.zeros(len(X)), np.zeros(len(X))
    for k, model in enumerate(models, start=1):  # one pass: fits may be many and rows millions
        change = log_ratio_prepared(model, X) - mean
        mean += change / k
        squares += np.clip(change, -_LARGEST_CHANGE, _LARGEST_CHANGE) ** 2 * (1 - 1 / k)
    return mean, squares / max(len(models) - 1, 1)
