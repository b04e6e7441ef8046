"""The methods of targeted generation on MNIST, what the paper reports for them, and the draws of one cell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flowratio_paper.image_distributions import BACKGROUND, DIGITS
from flowratio_paper.running import Outcome
from flowratio_paper.targeted_generation import PERCS, Settings
from flowratio_paper.verdicts import standard_error

# candidates of the flow are resampled by their weights (sampling-importance-resampling, SIR)
METHODS = {
    "z": "weights from z",
    "draws": "weights from z (against draws)",
    "two-stage": "weights from z, then x",
    "corrected": "weights from z, then x (against draws)",
    "x": "weights from x",
    "regular": "no weights",
}
RATIOS = {
    "z": "p/q in z",
    "draws": "q to draws of the flow in z",
    "corrected": "p and q to draws of the flow in x",
    "x": "p/q in x",
}
PAPER = {
    DIGITS: {
        "z": (0.447, 0.518, 0.777, 0.860),
        "x": (0.441, 0.528, 0.639, 0.754),
        "regular": (0.406, 0.457, 0.596, 0.720),
    },
    BACKGROUND: {
        "z": (0.186, 0.377, 0.580, 0.732),
        "x": (0.085, 0.202, 0.345, 0.528),
        "regular": (0.084, 0.196, 0.304, 0.493),
    },
}
# Papamakarios, Pavlakou, Murray (2017): MAF of 5 blocks, test images of MNIST. Nats of logits, bits of a pixel
MAF_LOGIT, MAF_BITS = -1300.5, 1.89


def recorded(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the methods of all runs. Those of an earlier version do not have the newest methods."""
    return [method for method in METHODS if all(method in one.result["methods"] for one in outcomes)]


def published(task: str, method: str, perc: float) -> float | None:
    """Return the share that the paper reports."""
    return PAPER[task][method][PERCS.index(perc)] if method in PAPER.get(task, {}) and perc in PERCS else None


@dataclass(frozen=True)
class Cell:
    """The draws of a method in the runs of one task and perc.

    Parameters
    ----------
    draws
        By run: see `targeted_generation`.
    samples
        Images of each run.
    weighted
        Whether they were resampled from candidates by weights.
    """

    draws: list[dict[str, Any]]
    samples: int
    weighted: bool

    @property
    def shares(self) -> np.ndarray:
        """Share of the target in each run, of shape (t,)."""
        return np.array([one["share"] for one in self.draws])

    @property
    def outliers(self) -> np.ndarray:
        """Share of strange images in each run, of shape (t,)."""
        return np.array([one["strange"] for one in self.draws])

    @property
    def of_draws(self) -> float:
        r"""Standard error of their mean if all runs are alike.

        For n images and an effective sample size of m, the variance of a share s is about :math:`s (1 - s) (1/n +
        1/m)`. Without weights it is :math:`s (1 - s) / n`. Weights of the target are larger than the others, so this is
        too large for s near 1 and too small for s near 0.
        """
        return self._of_draws(float(self.shares.mean()))

    @property
    def of_outliers(self) -> float:
        """The same of the share of strange images."""
        return self._of_draws(float(self.outliers.mean()))

    def _of_draws(self, share: float) -> float:
        sizes = [one["effective"] * one["candidates"] if self.weighted else math.inf for one in self.draws]
        return math.sqrt(share * (1 - share) * sum(1 / self.samples + 1 / m for m in sizes)) / len(self.draws)

    @property
    def error(self) -> float:
        """Standard error of the mean share: that over the runs, or that of the draws if it is larger."""
        return max(self.of_draws, float(standard_error(self.shares, 0.0)))

    @property
    def strange(self) -> float:
        """Share of strange images, a mean over runs."""
        return float(self.outliers.mean())

    @property
    def target_shares(self) -> tuple[str, str]:
        """Share of the target in strange images, and in the others. A dash if there are none."""
        strange = float(np.mean([one["strange_target"] for one in self.draws]))
        parts = (strange, self.strange), (self.shares.mean() - strange, 1 - self.strange)
        first, second = (f"{target / share:.3f}" if share > 0 else "–" for target, share in parts)
        return first, second


def cell(settings: Settings, outcomes: Sequence[Outcome], task: str, method: str, perc: float) -> Cell:
    """Return the draws of a method for a task and perc, run by run."""
    draws = [one.result["methods"][method] for one in outcomes if one.task["task"] == task and one.task["perc"] == perc]
    return Cell(draws, settings.samples, weighted=method != "regular")
