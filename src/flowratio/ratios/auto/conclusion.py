"""The verdict on a race, in words: whether the latent space helped, and what there was no time for."""

from __future__ import annotations

import math

import numpy as np

from flowratio._support.types import Matrix, Vector
from flowratio.ratios.auto.combination import choose_stack
from flowratio.ratios.auto.race import Race
from flowratio.ratios.auto.results import Candidate, Status

_UNKNOWN = "so it is unknown whether the flow helps"
_MORE_TIME = "Use a larger budget to find out."
_MARGIN = 1.25  # times the measured seconds, in the advice


def untried_sentence(candidates: list[Candidate], seconds: float) -> str:
    """Return what there was no time for, and the budget that all candidates need. Empty if there was enough."""
    n = sum(one.status is Status.NO_TIME for one in candidates)
    if not n:
        return ""
    size = f"{len(candidates) - n} of {len(candidates)} candidates in full"
    rest = f"All would take a budget of about {rounded_up(_MARGIN * seconds)} s"
    return f"The budget was enough to try {size}, and the best are used. {rest}."


def rounded_up(seconds: float) -> int:
    """Return seconds with two digits, rounded up."""
    unit = 10 ** max(0, math.floor(math.log10(max(seconds, 1.0))) - 1)
    return unit * math.ceil(seconds / unit)


def on_flow(race: Race, log_ratios: Matrix, weights: Vector) -> str:
    """Return whether the latent space of a flow helped. `weights` are those of the columns `log_ratios`."""
    if not weights[1:].any():
        return "No candidate is better than r = 1: p and q hardly differ."
    latent = np.array([False, *(one.candidate.in_latent_space for one in race.scored.values())])
    if not latent.any():
        return _without_score([one for one in race.candidates if one.in_latent_space])
    if latent[1:].all():  # nothing without the flow to compare with
        return _only_latent([one for one in race.candidates if not one.in_latent_space])
    stack = race.held_out.losses(log_ratios @ weights)
    if weights[latent].any():  # the combination against the best one without the flow
        others = log_ratios[:, ~latent]
        gains = race.held_out.losses(others @ choose_stack(others, race.held_out)) - stack
        sign, words = 1, ("helped", "hardly helped")
    else:  # the best candidate in latent space against the combination
        problem = _incomplete(race)
        if problem:
            return f"{problem}, {_UNKNOWN}. {_MORE_TIME}"
        best = min((race.held_out.losses(column) for column in log_ratios[:, latent].T), key=race.held_out.mean)
        gains = stack - best
        sign, words = -1, ("did not help", "made no difference")
    gain, error = race.held_out.mean(gains), race.held_out.standard_error(gains)
    return f"The flow {words[0 if sign * gain > error else 1]}: {gain:+.4f} ± {error:.4f} nats of score."


def _only_latent(others: list[Candidate]) -> str:
    """Return what is known if only candidates in latent space have a score. Empty if there are no others."""
    if not others:
        return ""
    if all(one.status is Status.STOPPED for one in others):
        return f"The flow helped: the candidates without it were clearly worse {min(one.detail for one in others)}."
    return f"Not every candidate without the flow was fully evaluated, {_UNKNOWN}. {_MORE_TIME}"


def _without_score(latent: list[Candidate]) -> str:
    """Return what is known if no candidate in latent space has a score. Empty if there is none."""
    stopped = [one for one in latent if one.status is Status.STOPPED]
    if not latent:
        return ""
    if not stopped:
        more = f" {_MORE_TIME}" * any(one.status is Status.NO_TIME for one in latent)
        return f"No candidate in latent space was fully evaluated, {_UNKNOWN}.{more}"
    if len(stopped) < len(latent):
        others = ", ".join(one.name for one in latent if one not in stopped)
        return f"Not every candidate in latent space was fully evaluated (missing: {others}), {_UNKNOWN}. {_MORE_TIME}"
    n_folds = min(one.detail for one in stopped)
    return f"The candidates in latent space were clearly worse {n_folds}."


def _incomplete(race: Race) -> str:
    """Return why the candidates in latent space were not fully evaluated. Empty if they were."""
    if race.n_folds < race.n_planned_folds:
        return f"There was time for {race.n_folds} of {race.n_planned_folds} folds"
    latent = [one for one in race.scored.values() if one.candidate.in_latent_space]
    if all(one.candidate.detail for one in latent):
        return f"The candidates in latent space had too little time ({latent[0].candidate.detail})"
    return ""
