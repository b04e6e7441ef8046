"""A convex combination of log-ratios with fixed weights, such as the selection of `AutoRatio`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flowratio._support.types import Matrix, Vector
from flowratio._support.validation import RandomState, is_number, seed_from
from flowratio.ratios.base import RatioEstimator, Requires
from flowratio.ratios.registry import fit_prepared, is_additive, log_ratio_prepared, new_ratio
from flowratio.samples.two_samples import TwoSamples


class ConvexRatio(RatioEstimator):
    r"""Estimate r = p/q, p is y = 1, by a convex combination of log-ratios.

    .. math:: \log r = \sum_k \lambda_k \log r_k, \qquad \lambda_k \ge 0, \quad \sum_k \lambda_k \le 1

    The rest up to 1 is the share of r = 1.

    Parameters
    ----------
    ratios, shares, random_state
        Ratios or their names, their shares λ, of shape (m,), equal if None, and the seed of the ratios that have none.
        The fitted ratios are in `ratios_`.
    note
        What the automatic choice did not try, if these ratios are its choice. Verdicts include it. None for others.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ratio = ConvexRatio(["lda", "logistic"]).fit_samples(rng.normal(1, 1, (500, 2)), rng.normal(0, 1, (500, 2)))
    >>> ratio.log_ratio([[1.0, 1.0]]).round(1).tolist()  # log r(x) = x₁ + x₂ - 1
    [1.0]
    """

    requires = Requires(units="own", rows="distinct", categories="codes")

    def __init__(
        self,
        ratios: Sequence[Any] = ("logistic",),
        shares: Sequence[float] | None = None,
        *,
        note: str | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.ratios, self.shares, self.note, self.random_state = ratios, shares, note, random_state

    def _fit(self, samples: TwoSamples) -> None:
        self._shares()
        seed = seed_from(self.random_state)
        self.ratios_ = [fit_prepared(new_ratio(ratio, seed, argument="ratios"), samples) for ratio in self.ratios]

    def _log_ratio(self, X: Matrix) -> Vector:
        log_r = np.zeros(len(X))
        for share, ratio in zip(self._shares(), self.ratios_, strict=True):
            log_r += share * log_ratio_prepared(ratio, X)
        return log_r

    def is_additive(self) -> bool:
        return all(map(is_additive, self.ratios))

    def untried(self) -> str | None:
        """Return what the automatic choice did not try, in words. None if there was no automatic choice."""
        return self.note

    def _shares(self) -> list[float]:
        if isinstance(self.ratios, str) or not isinstance(self.ratios, Sequence):
            raise ValueError(f"`ratios` is {self.ratios!r}. Use a list of ratios or names.")
        m = len(self.ratios)
        shares = [1 / m] * m if self.shares is None else list(self.shares)
        valid = all(is_number(share) and 0 <= share <= 1 for share in shares) and sum(shares) <= 1 + 1e-9
        if len(shares) != m or not valid:
            rule = f"Use one number from 0 to 1 for each of the {m} ratios. Their sum must be 1 or less."
            raise ValueError(f"`shares` is {self.shares!r}. {rule}")
        return shares
