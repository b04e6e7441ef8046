r"""Identities that hold for the true ratio and for no multiple of it, and the factor by which an estimate is off.

.. math:: \mathrm{mean}_q\, r = 1, \qquad \mathrm{mean}_p\, \frac1r = 1, \qquad
          \mathrm{mean}_q \frac{r}{1 + r} = \mathrm{mean}_p \frac{1}{1 + r}

Where r or 1/r has a heavy tail, standard errors of the first two are not reliable. The third is bounded. Shifting log r
until it holds gives the log of the factor: the acceptance ratio of Bennett (1976, Journal of Computational Physics).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from flowratio.diagnostics.scored_sample import LOG_LARGEST, ScoredSample, errors_off
from flowratio.samples.weighting import log_mean_exp, mean_and_error


@dataclass(frozen=True)
class Identity:
    """A mean that is 1 for the true ratio."""

    log_mean: float  # in nats
    standard_error: float  # of the log
    z: float  # how many standard errors the mean is from 1

    @property
    def mean(self) -> float:
        """The mean itself. If it is too large, the largest float."""
        return math.exp(min(self.log_mean, LOG_LARGEST))


@dataclass(frozen=True)
class BoundedIdentity:
    """Two bounded means that are equal for the true ratio."""

    mean_q: float  # mean_q[r / (1 + r)], from 0 to 1
    mean_p: float  # mean_p[1 / (1 + r)], from 0 to 1
    standard_error: float  # of their difference
    z: float  # how many standard errors `mean_q` is above `mean_p`: positive where r is too large
    log_factor: float  # log of the factor by which r is too large, in nats


@dataclass(frozen=True)
class Identities:
    """The identities of r = p/q (p is y = 1): mean_q r = 1, mean_p 1/r = 1, and the bounded one."""

    ratio_q: Identity
    inverse_p: Identity
    bounded: BoundedIdentity


def identities(p: ScoredSample, q: ScoredSample) -> Identities:
    """Compare the means of two samples that are equal for the true ratio."""
    return Identities(_mean_is_one(q, p, 1), _mean_is_one(p, q, -1), _bounded(p, q))


def _mean_is_one(of: ScoredSample, other: ScoredSample, sign: int) -> Identity:
    """Compare the mean of r (of 1/r if `sign` is -1) with 1.

    By mean_q r² = mean_p r the rows of the other sample estimate the error too. The larger one counts.
    """
    log_mean = log_mean_exp(sign * of.log_r, of.share)
    _, error = mean_and_error(np.exp(sign * of.log_r - log_mean), of.share)
    log_square = log_mean_exp(sign * other.log_r, other.share) - log_mean  # of r divided by its mean
    variance = math.exp(min(log_square, LOG_LARGEST)) - 1
    relative_error = math.sqrt(max(float(error) ** 2, variance / of.n))
    off = 1 - math.exp(min(-log_mean, LOG_LARGEST))  # mean - 1, in units of the mean as the error is
    return Identity(log_mean, relative_error, errors_off(off, relative_error))


def _bounded(p: ScoredSample, q: ScoredSample) -> BoundedIdentity:
    mean_q, error_q = map(float, mean_and_error(expit(q.log_r), q.share))
    mean_p, error_p = map(float, mean_and_error(expit(-p.log_r), p.share))
    error = math.hypot(error_q, error_p)

    def excess(log_factor: float) -> float:
        return float(q.share @ expit(q.log_r - log_factor) - p.share @ expit(log_factor - p.log_r))

    log_r = np.concatenate([p.log_r, q.log_r])
    log_factor: Any = brentq(excess, log_r.min() - 1, log_r.max() + 1, xtol=1e-9) if mean_q != mean_p else 0.0
    return BoundedIdentity(mean_q, mean_p, error, errors_off(mean_q - mean_p, error), float(log_factor))
