"""The claims of targeted generation on MNIST, and whether they hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from flowratio_paper.image_distributions import BACKGROUND, DIGITS, TASKS
from flowratio_paper.mnist_cells import MAF_BITS, MAF_LOGIT, METHODS, cell, published, recorded
from flowratio_paper.reports import Claim
from flowratio_paper.running import Outcome
from flowratio_paper.targeted_generation import Settings
from flowratio_paper.verdicts import Answer, Gain, beyond, every, with_error

_TARGET = 0.93  # share of digits at perc = 1, as an ambition of ours
_LARGEST_COST = 1 / 3  # of the time of weights from x


def claims_of(settings: Settings, outcomes: list[Outcome]) -> list[Claim]:
    """Return the claims of the paper, and ours."""
    methods = recorded(outcomes)
    claims = [
        *[
            _claim_of_order(settings, outcomes, task, method, "regular")
            for method in methods
            if method != "regular"
            for task in TASKS
        ],
        *[_claim_of_spaces(settings, outcomes, better, other) for better, other in (("z", "x"), ("draws", "x"))],
        _claim_of_spaces(settings, outcomes, "draws", "z"),
        *_claims_of_level(settings, outcomes),
        *_claims_of_flow(settings, outcomes),
    ]
    if "two-stage" in methods and "corrected" in methods:  # not in results of earlier versions
        claims += _claims_of_stages(settings, outcomes)
    return claims


def _claims_of_stages(settings: Settings, outcomes: list[Outcome]) -> list[Claim]:
    """Return whether two stages are as good as weights from x, at a fraction of the time, with fewer outliers."""
    claims, two, corrected, x = [], METHODS["two-stage"], METHODS["corrected"], METHODS["x"]
    for task in TASKS:
        gains = _gains(settings, outcomes, task, "two-stage", "x")
        holds = all(gain.by_run.mean() >= -gain.half_width for gain in gains.values())
        words = f"{task}: {two} draw as much of the target as {x}, within the 95 % interval, at every perc"
        claims.append(Claim(words, Answer.of(holds), _listed(gains)))
    for method in ("two-stage", "corrected"):
        costs = [
            float(np.mean([one["seconds"] for one in cell(settings, outcomes, task, method, perc).draws]))
            / float(np.mean([one["seconds"] for one in cell(settings, outcomes, task, "x", perc).draws]))
            for task in TASKS
            for perc in settings.percs
        ]
        words = f"{METHODS[method]} take a third of the time of {x} or less, in every cell"
        claims.append(Claim(words, Answer.of(max(costs) <= _LARGEST_COST), f"up to {max(costs):.2f} of the time"))
    for task in TASKS:
        fewer = {
            f"perc {perc:g}": _fewer_outliers(settings, outcomes, task, "corrected", "x", perc)
            for perc in settings.percs
        }
        words = f"{task}: {corrected} draw fewer outliers than {x} at every perc"
        claims.append(Claim(words, every([gain.verdict for gain in fewer.values()]), _listed(fewer)))
    if settings.percs[-1] == 1:
        ours = cell(settings, outcomes, DIGITS, "corrected", 1.0)
        gain = Gain(ours.shares - _TARGET, ours.of_draws)
        words = f"{DIGITS}: {corrected} draw more of the target than {_TARGET} at perc = 1"
        claims.append(Claim(words, gain.verdict, f"{ours.shares.mean():.3f}, {gain}"))
    return claims


def _fewer_outliers(
    settings: Settings, outcomes: list[Outcome], task: str, better: str, other: str, perc: float
) -> Gain:
    """Return how much smaller the share of outliers of a method is than that of another, run by run."""
    one, two = (cell(settings, outcomes, task, method, perc) for method in (better, other))
    return Gain(two.outliers - one.outliers, math.hypot(one.of_outliers, two.of_outliers))


def _gains(settings: Settings, outcomes: list[Outcome], task: str, better: str, other: str) -> dict[str, Gain]:
    """Return the gain of a method over another for each perc."""
    gains = {}
    for perc in settings.percs:
        one, two = (cell(settings, outcomes, task, method, perc) for method in (better, other))
        gains[f"perc {perc:g}"] = Gain(one.shares - two.shares, math.hypot(one.of_draws, two.of_draws))
    return gains


def _claim_of_order(settings: Settings, outcomes: list[Outcome], task: str, better: str, other: str) -> Claim:
    gains = _gains(settings, outcomes, task, better, other)
    answer = every([gain.verdict for gain in gains.values()])
    return Claim(
        f"{task}: {METHODS[better]} draw more of the target than {METHODS[other]} at every perc", answer, _listed(gains)
    )


def _claim_of_spaces(settings: Settings, outcomes: list[Outcome], better: str, other: str) -> Claim:
    gains = {f"{task}, {p}": g for task in TASKS for p, g in _gains(settings, outcomes, task, better, other).items()}
    verdicts, n_least = [gain.verdict for gain in gains.values()], 0.75 * len(gains)
    n_above, n_open = verdicts.count(Answer.YES), verdicts.count(Answer.INCONCLUSIVE)
    answer = Answer.of(n_above >= n_least)
    if answer is Answer.NO and n_above + n_open >= n_least:
        answer = Answer.INCONCLUSIVE
    words = f"{METHODS[better]} draw more of the target than {METHODS[other]} in at least three of four cells"
    return Claim(words, answer, f"{n_above} of {len(gains)}, {n_open} inconclusive: {_listed(gains)}")


def _claims_of_level(settings: Settings, outcomes: list[Outcome]) -> list[Claim]:
    claims, perc = [], settings.percs[-1]
    for method in ("z", "draws"):
        for task in TASKS:
            ours, paper = cell(settings, outcomes, task, method, perc), published(task, "z", perc)
            if paper is not None:
                words = (
                    f"{task}: {METHODS[method]} draw more of the target than the paper's {paper:.3f} at perc = {perc:g}"
                )
                gain = Gain(ours.shares - paper, ours.of_draws)
                claims.append(Claim(words, gain.verdict, f"{ours.shares.mean():.3f}, {gain}"))
    return claims


def _claims_of_flow(settings: Settings, outcomes: list[Outcome]) -> list[Claim]:
    """Return whether flows are as good as the published one, for comparable images.

    An inverted image has the density of the original, in logit space too, and a mixture of both costs log 2 nats or
    less. So the mixtures of `diff-background` are comparable with all of MNIST.
    """
    claims = []
    for perc in settings.percs:
        flows = [one.result["flow"] for one in outcomes if one.task["task"] == BACKGROUND and one.task["perc"] == perc]
        nats, bits = (np.array([one[name] for one in flows]) for name in ("logit", "bits"))
        words = f"{BACKGROUND}, perc = {perc:g}: the flow is above the log-density published for a MAF of MNIST"
        measured = f"{with_error(nats, '.1f')} nats in logit space and {bits.mean():.3f} bits per pixel"
        claims.append(Claim(words, beyond(nats - MAF_LOGIT), f"{measured}, published {MAF_LOGIT} and {MAF_BITS}"))
    return claims


def _listed(gains: Mapping[Any, Gain]) -> str:
    return ", ".join(f"{name} {gain}" for name, gain in gains.items())
