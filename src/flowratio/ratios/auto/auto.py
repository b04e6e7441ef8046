"""The ratio that suits the data: candidates of many families, judged on rows that they have not seen, then combined."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from flowratio._support.errors import ArgumentError
from flowratio._support.progress import uneven_progress
from flowratio._support.types import Matrix, Vector
from flowratio._support.validation import RandomState, check_n_folds, is_number, seed_from
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.auto.combination import choose_stack, hedge
from flowratio.ratios.auto.convex import ConvexRatio
from flowratio.ratios.auto.race import Race
from flowratio.ratios.auto.results import AutoResults, Candidate, Status
from flowratio.ratios.base import RatioEstimator, Requires
from flowratio.ratios.featurized.featurized import FeaturizedRatio, check_columns, is_fitted
from flowratio.ratios.registry import RATIOS, fit_prepared, log_ratio_prepared, named_ratio, silent
from flowratio.samples.folding import folds
from flowratio.samples.two_samples import TwoSamples


class BudgetWarning(UserWarning):
    """The time was too short, or the rows too few, to judge any candidate."""


class AutoRatio(RatioEstimator):
    """Estimate r = p/q (p is y = 1) by the ratio, or the few ratios together, that suit the data.

    Candidates of many families are fitted to all folds but one and judged on that one, by the likelihood of y with both
    samples counting one half (`RatioEstimator.score`). log r is then a convex combination of few of them, each the mean
    over its folds. A candidate in latent space is taken where it helps, and `results_` says whether it did.

    Parameters
    ----------
    candidates
        Names (of `results_`, or of ratios, such as `"mlp"`), ratios, or a dict from names to ratios, the simplest
        first; None for the default ones, from logistic regression to telescoping in latent space.
    combine
        `"stack"` for a convex combination of log-ratios; `"best"` for one of them.
    n_folds
        Parts that the rows are cut into. Not more of them are judged than it takes to judge 20 000 rows.
    time_budget
        Seconds; None for no limit. A candidate that cannot be done by then is left out: a short trial on some of the
        rows tells how long it would take. No fit is cut off: it may be exceeded by the length of one.
    random_state
        Seed: the same gives the same bits on the same machine, if the budget leaves out the same candidates. Global
        generators are never used.
    verbose
        Whether to show a progress bar, with the candidate at work and about how much time is left.

    Attributes
    ----------
    results_
        A table of candidates, with scores, standard errors, seconds and weights in the stack, and a sentence that says
        whether the latent space helped.
    names_, shares_
        Names of the candidates in the stack, and their weights, of shape (m,). These add up to at most 1: what is left
        is the weight of r = 1, which is taken where p and q can hardly be told apart.
    models_
        A list of fitted ratios for each of them, one for each fold that was judged.

    Notes
    -----
    *The stack* begins with the first candidate that is nearly level with the best one, and others join it
    while the held-out likelihood gains more than chance gives. Far from the boundary of p and q the likelihood tells
    good from better only by many rows: there the simple ones extrapolate best. With n rows that were judged, the
    weights that make the likelihood greatest over all candidates count as 1000 / (n + 1000) beside those of the few:
    where rows are few, no choice among the candidates is safe, and a mean of many is.

    *Early end.* After each fold a candidate is given up that is clearly behind the others so far and would have no
    weight beside them; and all that are left, once the stack tells p from q without error. Flows and folds are shared:
    candidates of one latent space train one flow a fold.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ratio = AutoRatio(["logistic", "qda"], random_state=0)
    >>> _ = ratio.fit_samples(rng.normal(1, 1, size=(500, 2)), rng.normal(0, 1, size=(500, 2)))
    >>> ratio.names_, ratio.log_ratio([[1.0, 1.0]]).round(1).tolist()  # log r(x) = x₁ + x₂ - 1
    (['logistic'], [1.0])
    """

    requires: ClassVar[Requires] = Requires(units="own", rows="distinct")  # a row is in one fold, whatever its weight

    results_: AutoResults
    names_: list[str]
    shares_: np.ndarray
    models_: list[list[Any]]

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
        self.candidates = candidates
        self.combine = combine
        self.n_folds = n_folds
        self.time_budget = time_budget
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, samples: TwoSamples) -> None:
        self._check_settings()
        candidates, seed = self._candidates(), seed_from(self.random_state)
        for ratio in candidates.values():
            if isinstance(ratio, FeaturizedRatio) and is_fitted(ratio.featurizer):
                check_columns(ratio.featurizer, samples)
        n_p, n_q = samples.n_p, samples.n_q
        n_folds = min(self.n_folds, n_p // 2, n_q // 2)  # a fit needs 2 rows of a sample
        if n_folds < 2:
            why = f"The samples have {n_p} and {n_q} distinct rows, too few to score any candidate"
            self._fall_back(samples, [], f"{why}. The ratio is logistic regression. Give at least 4 rows of each.")
            return
        rng = np.random.default_rng([seed, 0, 6])
        fold = np.concatenate([folds(n_p, n_folds, rng), folds(n_q, n_folds, rng)])
        race = Race(samples, fold, seed, self.time_budget)
        bar = uneven_progress(len(candidates), "candidates", self.verbose, race.expected_left)
        with silent(), bar as begin:  # what a fit warns of shows in the scores
            for name, ratio in candidates.items():
                begin(name)
                race.run(name, ratio)
        self._settle(race, samples)

    def _settle(self, race: Race, samples: TwoSamples) -> None:
        """Combine the candidates with a score, or fall back if there is none."""
        entries = list(race.candidates.values())
        statuses = {one.status for one in entries}
        if statuses == {Status.FAILED}:
            reasons = "; ".join(f"{one.name}: {one.detail.rstrip('.')}" for one in entries)
            raise ValueError(f"All {len(entries)} candidates have failed ({reasons}). Fix the data, or use others.")
        if not race.log_ratios and Status.NO_TIME in statuses:
            why = f"A budget of {self.time_budget:g} seconds is too short to score any candidate"
            self._fall_back(samples, entries, f"{why}. The ratio is logistic regression. Give more time.")
            return
        self._combine(race)  # of none, if r = 1 is better than all

    def _combine(self, race: Race) -> None:
        names = [*race.log_ratios]
        log_ratios = np.column_stack([np.zeros(race.n_scored), *race.log_ratios.values()])
        few = choose_stack(log_ratios, race.held_out, most=1 if self.combine == "best" else None)
        weights = few if self.combine == "best" else hedge(few, log_ratios, race.held_out)
        for name, weight in zip(names, weights[1:], strict=True):
            race.candidates[name].weight = float(weight)
        chosen = [k for k in range(len(names)) if weights[k + 1] > 0]
        self.names_ = [names[k] for k in chosen]
        self.shares_ = weights[1:][chosen]
        self.models_ = [race.models[name] for name in self.names_]
        self.results_ = AutoResults(
            sorted(race.candidates.values(), key=lambda one: -one.score if math.isfinite(one.score) else math.inf),
            _verdict(race, log_ratios, few, names),
        )

    def _fall_back(self, samples: TwoSamples, entries: list[Candidate], why: str) -> None:
        """Take the logistic baseline, and warn why."""
        warnings.warn(why, BudgetWarning, stacklevel=6)
        started = time.perf_counter()
        self.models_ = [[fit_prepared(named_ratio("logistic"), samples)]]
        self.names_, self.shares_ = ["logistic"], np.ones(1)
        seconds = time.perf_counter() - started
        baseline = Candidate("logistic", False, seconds=seconds, weight=1.0, status=Status.BASELINE)
        others = [one for one in entries if one.name != "logistic"]
        self.results_ = AutoResults([baseline, *others], f"No candidate was scored. {why}")

    def chosen(self) -> ConvexRatio:
        """Return what was chosen, unfitted: to fit it to other rows without another choice."""
        check_is_fitted(self)
        ratios = {"logistic": "logistic", **self._candidates()}  # the baseline may not be among them
        return ConvexRatio(
            [ratios[name] for name in self.names_], self.shares_.tolist(), random_state=self.random_state
        )

    def mixture_flow(self) -> FlowFeaturizer | None:
        """Return the flow of the candidate with the largest share that has one."""
        ratios = [self.models_[k][0] for k in np.argsort(-self.shares_)]
        flows = (ratio.mixture_flow() for ratio in ratios if isinstance(ratio, RatioEstimator))
        return next((flow for flow in flows if flow is not None), None)

    def _log_ratio(self, X: Matrix) -> Vector:
        log_r = np.zeros(len(X))
        for weight, models in zip(self.shares_, self.models_, strict=True):
            for model in models:
                log_r += weight / len(models) * log_ratio_prepared(model, X)
        return log_r

    def _check_settings(self) -> None:
        if self.combine not in ("stack", "best"):
            raise ValueError(f"`combine` is {self.combine!r}: give 'stack' or 'best'.")
        check_n_folds(self.n_folds)
        if self.time_budget is not None and not (is_number(self.time_budget) and self.time_budget > 0):
            text = f"`time_budget` is {self.time_budget!r}. Use seconds above 0, or None for no limit."
            raise ArgumentError("time_budget", text)

    def _candidates(self) -> dict[str, Any]:
        """Return the candidates by name."""
        candidates = self.candidates
        if candidates is None:
            return {name: entry.build() for name, entry in RATIOS.items() if entry.candidate}
        if isinstance(candidates, str) or not isinstance(candidates, Mapping | Sequence) or not candidates:
            raise ValueError(f"`candidates` is {candidates!r}. Use a list of names or ratios, or a dict of ratios.")
        if isinstance(candidates, Mapping):
            return dict(candidates)
        by_name: dict[str, Any] = {}
        for one in candidates:
            name = one if isinstance(one, str) else one.__name__ if isinstance(one, type) else type(one).__name__
            while name in by_name:
                name += "'"
            by_name[name] = named_ratio(one, "candidates") if isinstance(one, str) else one
        return by_name


def _verdict(race: Race, log_ratios: np.ndarray, weights: np.ndarray, names: list[str]) -> str:
    """Say in one sentence whether the latent space helped."""
    if not weights[1:].any():
        return "No ratio is better than r = 1: p and q can hardly be told apart."
    latent = np.array([False, *(race.candidates[name].in_latent_space for name in names)])
    if not latent.any():
        if any(one.in_latent_space and one.status is Status.STOPPED for one in race.candidates.values()):
            return "The flow did not help: no candidate in latent space was near the others."
        return "Whether the flow helps is not known: no candidate in latent space was judged."
    stack = race.held_out.losses(log_ratios @ weights)
    used = bool(weights[latent].any())
    if used:
        others = log_ratios[:, ~latent]
        other = race.held_out.losses(others @ choose_stack(others, race.held_out))
    else:
        other = min((race.held_out.losses(column) for column in log_ratios[:, latent].T), key=race.held_out.mean)
    gain, error = race.held_out.mean(other - stack), race.held_out.standard_error(other - stack)
    if used and gain > error:
        return f"The flow helped: by {gain:.4f} ± {error:.4f} nats of score over the best without it."
    if used:
        return f"The flow hardly helped: by {gain:.4f} ± {error:.4f} nats of score over the best without it."
    if gain > error:
        return f"The flow did not help: the best in latent space is {gain:.4f} ± {error:.4f} nats of score behind."
    return f"The flow made no difference: the best in latent space is level, to {abs(gain):.4f} ± {error:.4f} nats."
