"""Whether tempered or capped weights are better: only what held-out rows confirm is worth advice."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flowratio._support.types import Vector
from flowratio.diagnostics.scored_sample import ScoredSample
from flowratio.weights import cap, self_normalize, temper

_POWERS = (0.5, 0.75)
_CAPS = (5.0, 10.0, 20.0, 50.0)  # times the mean
_BETTER = 0.8  # factor of the root mean square difference that is worth a change of the weights


class Remedy(NamedTuple):
    """A change of the weights, and root mean square standardized differences of column means with and without it."""

    words: str
    option: str  # of `flowratio score`
    call: str  # in Python
    before: float
    after: float

    def in_python(self) -> str:
        """Return the advice with a call of Python."""
        return self._text(self.call)

    def on_command_line(self) -> str:
        """Return the advice with an option of the command line."""
        return self._text(self.option)

    def _text(self, how: str) -> str:
        size = f"from {self.before:.2g} to {self.after:.2g} standard deviations (root mean square)"
        effect = f"on held-out rows this lowers the differences of column means {size}"
        return f"{self.words} (`{how}`): {effect}."


def confirmed_remedy(p: ScoredSample, q: ScoredSample, rng: np.random.Generator) -> Remedy | None:
    """Return the change of the weights r on rows of q that brings column means closest to those of p.

    The loss is the mean over columns of squared standardized differences: bias and variance of weighted means, and a
    part from rows of p that all weights share. A remedy is chosen on one half of the rows and confirmed on the other.
    It counts if both halves choose the same one, and if it lowers the root of the loss by a fifth on each. None if
    there is none.
    """
    scale = np.sqrt((p.share @ (p.X - p.share @ p.X) ** 2 + q.share @ (q.X - q.share @ q.X) ** 2) / 2)
    used = scale > 0
    if not used.any() or min(len(p.X), len(q.X)) < 4:
        return None
    halves = [rng.permutation(len(sample.X)) % 2 for sample in (p, q)]
    losses = [_losses(_half(p, halves[0] == k), _half(q, halves[1] == k), scale, used) for k in (0, 1)]
    option, other = (min(of_half, key=lambda option: of_half[option]) for of_half in losses)
    if option != other or not option:
        return None
    before, after = (np.sqrt([of_half[key] for of_half in losses]) for key in ("", option))
    if not (after < _BETTER * before).all():
        return None
    words, call = _words()[option]
    return Remedy(words, option, call, float(before.mean()), float(after.mean()))


def _words() -> dict[str, tuple[str, str]]:
    """Return each change of the weights in words and as a call of Python, by its option."""
    call, words = "self_normalize({}(ratio.log_ratio(X_q), {:g}))", {}
    for gamma in _POWERS:
        words[_power_option(gamma)] = f"Raise the weights to the power {gamma:g}", call.format("temper", gamma)
    for largest in _CAPS:
        words[_cap_option(largest)] = f"Cap the weights at {largest:g} times their mean", call.format("cap", largest)
    return words


def _power_option(gamma: float) -> str:
    return f"--temper {gamma:g}"


def _cap_option(largest: float) -> str:
    return f"--cap {largest:g}"


def _half(sample: ScoredSample, rows: Vector) -> ScoredSample:
    share = sample.share[rows]
    return ScoredSample(sample.X[rows], sample.log_r[rows], share / share.sum())


def _losses(p: ScoredSample, q: ScoredSample, scale: Vector, used: Vector) -> dict[str, float]:
    """Return the loss of each change of the weights, by its option. That of the unchanged weights is empty."""
    mean_p, X_q, log_w = p.share @ p.X[:, used], q.X[:, used], q.log_weights()
    weights = {"": log_w}
    for gamma in _POWERS:
        weights[_power_option(gamma)] = temper(q.log_r, gamma) + np.log(q.share)
    for largest in _CAPS:
        weights[_cap_option(largest)] = cap(log_w, largest)
    means = {option: self_normalize(logs) @ X_q for option, logs in weights.items()}
    return {option: float(np.mean(((mean_p - mean) / scale[used]) ** 2)) for option, mean in means.items()}
