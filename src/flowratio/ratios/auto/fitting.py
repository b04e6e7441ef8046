"""Fits of candidates to folds, on all rows or on fewer, with one map for all candidates of one latent space."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import joblib
import numpy as np

from flowratio._support.types import Vector
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.auto.limits import fit_limited, was_cut
from flowratio.ratios.auto.results import Candidate
from flowratio.ratios.featurized.featurized import FeaturizedRatio, is_fitted
from flowratio.ratios.featurized.joint import JointFeaturizedRatio
from flowratio.ratios.registry import log_ratio_prepared, new_ratio
from flowratio.samples.two_samples import TwoSamples
from flowratio.scaling.base import Scaler

_GROWTHS = 0.6, 1.5  # least and largest power of the rows: a part of a short fit does not depend on the rows
_FINAL_ROWS = 10_000  # rows of both samples that the combination scores at the end, to measure the overlap


@dataclass(frozen=True)
class Fit:
    """A fitted candidate, its log-ratios of held-out rows, (m,), and what they cost."""

    model: Any
    log_r: Vector
    n_rows: int  # that it was fitted to
    fit_seconds: float
    score_seconds: float  # of the held-out rows of a fold, and of the rows that are scored at the end
    saved_seconds: float  # of the training of a flow that another candidate did
    cut: bool  # whether the training ended for lack of time

    @property
    def seconds(self) -> float:
        return self.fit_seconds + self.score_seconds


@dataclass(eq=False)
class Entrant:
    """A candidate in a race: what was measured of it so far."""

    candidate: Candidate
    ratio: Any
    fits: list[Fit] = field(default_factory=list)  # one for each fold
    timings: list[tuple[int, float]] = field(default_factory=list)  # rows and seconds of its fits, also of trials
    score_seconds: float = 0.0  # of a fold

    def add_timing(self, fit: Fit, flow_seconds: float = 0.0) -> None:
        """Remember the time of a fit or a trial, with that of a flow that was trained before it."""
        self.timings.append((fit.n_rows, fit.fit_seconds + flow_seconds))
        self.score_seconds = fit.score_seconds

    @property
    def log_r(self) -> Vector:
        """Log-ratios of the held-out rows of all folds so far."""
        return np.concatenate([fit.log_r for fit in self.fits])

    @property
    def seconds_of_fold(self) -> float:
        """Mean seconds of its fits to folds."""
        return sum(fit.seconds for fit in self.fits) / len(self.fits)

    def expected_seconds(self, n_rows: int) -> float:
        """Return about how long a fit to so many rows takes. 0 if nothing was measured."""
        if not self.timings:
            return 0.0
        m, seconds = self.timings[-1]
        return self.score_seconds + seconds * (n_rows / m) ** (self._growth() if n_rows > m else 0.0)

    def rows_within(self, seconds: float, n_rows: int) -> int:
        """Return how many of so many rows can be fitted within these seconds. 0 if even the last trial took longer."""
        if self.expected_seconds(n_rows) <= seconds:
            return n_rows
        m, last = self.timings[-1]
        left = seconds - self.score_seconds
        return min(n_rows, int(m * (left / last) ** (1 / self._growth()))) if last <= left else 0

    def _growth(self) -> float:
        """Return the power of the number of rows with which the time grows. One trial does not show it."""
        if len(self.timings) < 2:
            return 1.0
        (n, first), (m, second) = self.timings[-2:]
        if m <= n or first <= 0:
            return 1.0
        return min(max(math.log(max(second / first, 1.0)) / math.log(m / n), _GROWTHS[0]), _GROWTHS[1])


class Fitter:
    """Fits candidates to rows of `samples` that are in no held-out fold."""

    def __init__(self, samples: TwoSamples, folds: list[tuple[Vector, Vector]], seed: int) -> None:
        self.samples, self.folds, self.seed = samples, folds, seed
        self.maps: dict[Hashable, FlowFeaturizer | Scaler] = {}  # by latent space, and fold or number of rows

    @property
    def n_rows(self) -> int:
        """Number of rows of a fit to all folds but the first."""
        return len(self.folds[0][0])

    def fold(self, ratio: Any, k: int, max_rows: int, seconds: float) -> Fit:
        """Fit a candidate to all folds but one, and score that one. The training ends after about `seconds`."""
        train, test = self.folds[k]
        rows = thinned(train, self.samples.n_p, max_rows)
        n_scored = len(test) + min(len(self.samples.X), _FINAL_ROWS)
        return self._fit(ratio, self.seed + k, rows, test, k, seconds, n_scored)

    def has_map(self, ratio: Any, k: int) -> bool:
        """Return whether the flow of a candidate was trained in a fold, by another candidate in its latent space."""
        return (latent_space_key(ratio), k) in self.maps

    def forget_map(self, ratio: Any, k: int) -> None:
        """Let the next candidate in a latent space train the flow of a fold again."""
        self.maps.pop((latent_space_key(ratio), k), None)

    def trial(self, ratio: Any, max_rows: int, seconds: float) -> Fit:
        """Fit a candidate to some of the rows, to measure the time."""
        rows = thinned(self.folds[0][0], self.samples.n_p, max_rows)
        place = f"trial with {len(rows)} rows"
        return self._fit(ratio, self.seed, rows, rows, place, seconds, len(self.folds[0][1]))

    def _fit(
        self, ratio: Any, seed: int, train: Vector, test: Vector, place: Hashable, seconds: float, n_scored: int
    ) -> Fit:
        """Fit and score a candidate. The seconds of the scores are those of so many rows."""
        start, saved = time.perf_counter(), 0.0
        model = new_ratio(ratio, seed)
        space = latent_space_key(ratio)
        if space is not None and (space, place) in self.maps:
            shared = self.maps[space, place]
            saved = _training_seconds(shared)
            model.set_params(featurizer=shared)
        model = fit_limited(model, self.samples.part(train), seconds)
        if space is not None:
            self.maps.setdefault((space, place), model.featurizer_)
        scoring = time.perf_counter()
        log_r = log_ratio_prepared(model, self.samples.X[test])
        if not np.isfinite(log_r).all():
            raise ValueError("log-ratios that are not finite")
        score_seconds = (time.perf_counter() - scoring) * n_scored / len(test)
        return Fit(model, log_r, len(train), scoring - start, score_seconds, saved, was_cut(model))


def _training_seconds(featurizer: FlowFeaturizer | Scaler) -> float:
    history = getattr(featurizer, "history_", None)
    return history.seconds[-1] if history is not None and history.seconds else 0.0


def fold_costs(entrants: list[Entrant]) -> list[float]:
    """Return the seconds of another fold of each candidate. The first one in a latent space trains the flow."""
    costs, spaces = list[float](), set[str | None]()
    for one in entrants:
        space = latent_space_key(one.ratio)
        costs.append(one.seconds_of_fold + (0.0 if space in spaces else one.fits[0].saved_seconds))
        spaces.add(space)
    return costs


def thinned(rows: Vector, n_p: int, max_rows: int) -> Vector:
    """Return at most so many sorted positions (n,) of rows, evenly spaced. The larger sample loses rows first."""
    if len(rows) <= max_rows:
        return rows
    sides = rows[rows < n_p], rows[rows >= n_p]
    least = min(map(len, sides))
    limit = max_rows // 2 if least > max_rows // 2 else max_rows - least
    some = [side[np.linspace(0, len(side) - 1, min(limit, len(side))).astype(np.int64)] for side in sides]
    return np.concatenate(some)


def in_latent_space(ratio: Any) -> bool:
    """Return whether a candidate is a ratio in the latent space of a flow."""
    if isinstance(ratio, FeaturizedRatio):
        return ratio.featurizer is None or isinstance(ratio.featurizer, FlowFeaturizer)
    return isinstance(ratio, JointFeaturizedRatio)


def latent_space_key(ratio: Any) -> str | None:
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
