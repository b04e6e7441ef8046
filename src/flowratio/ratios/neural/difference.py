"""A flow is fitted to each sample, and log r is the difference of their log-densities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from torch import nn

from flowratio._support.types import Matrix, Vector
from flowratio._support.validation import RandomState, seed_from
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.base import RatioEstimator
from flowratio.samples.rows import ArrayRows
from flowratio.samples.two_samples import TwoSamples
from flowratio.samples.weighting import systematic
from flowratio.scaling.discrete import DiscreteColumns
from flowratio.scaling.standardizer import Standardizer
from flowratio.training.run import Callback

_NOISE = 1e-4  # standard deviations of the pooled columns
_MARGIN = 1.0  # pooled standard deviations beyond the training rows in which the flows are trusted
_MANY_COLUMNS = 50  # with more columns, and fewer than 10 rows for each, small flows do better than wide ones
_MAX_REPEATED = 200_000  # rows of a sample after weights repeat them


class FlowDifferenceRatio(RatioEstimator):
    r"""Subtract the log-densities of two flows, one fitted to each sample: r = p/q, p is y = 1.

    .. math:: \log r(x) = \log \hat p(x) - \log \hat q(x)

    This is the baseline for all methods that learn the ratio directly. It also works if p and q are far apart. Both
    flows are trained with one seed, so swapping p and q negates log r, and equal samples have log r = 0.

    Parameters
    ----------
    featurizer
        A `FlowFeaturizer`, cloned for each sample. A `checkpoint` gets the folders `p` and `q`. None for a default one,
        which is small if there are more than 50 columns and fewer than 10 rows for each.
    random_state, callback, verbose
        The same seed gives the same results, to the last bit, on the same machine. `callback` is called after each
        evaluation of each flow, as in `FlowFeaturizer`. None for that of `featurizer`. `verbose` shows a progress bar
        for each flow.

    Attributes
    ----------
    featurizer_p_, featurizer_q_
        The two fitted densities of standardized rows, in float64.
    columns_, low_, high_
        Positions of the columns that the densities use: neither constant nor linear combinations of others. Corners of
        the box in which the flows are trusted, in standardized units. Each has shape (d_z,).

    Notes
    -----
    Both samples get Gaussian noise of 1e-4 pooled standard deviations, so that log r is finite where a column is
    constant in one sample. The tails of a flow are arbitrary. So rows are scored at the nearest point of a box that
    ends one pooled standard deviation beyond the training rows. Weights repeat rows, up to 200 000 rows of a sample.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ratio = FlowDifferenceRatio(FlowFeaturizer(max_epochs=20, patience=20), random_state=0)
    >>> _ = ratio.fit_samples(rng.normal(1, 1, size=(300, 1)), rng.normal(0, 1, size=(300, 1)))
    >>> bool(abs(ratio.log_ratio([[1.0]])[0] - 0.5) < 0.25)  # log r(x) = x - 1/2
    True
    """

    def __init__(
        self,
        featurizer: FlowFeaturizer | None = None,
        *,
        random_state: RandomState = None,
        callback: Callback | None = None,
        verbose: bool = False,
    ) -> None:
        self.featurizer, self.random_state = featurizer, random_state
        self.callback, self.verbose = callback, verbose

    def _fit(self, samples: TwoSamples) -> None:
        self._check_featurizer()
        seed = seed_from(self.random_state)
        self.columns_ = Standardizer().fit_array(samples.X).columns_
        X, w, y = samples.X[:, self.columns_], samples.w, samples.y
        self.low_, self.high_ = X.min(axis=0) - _MARGIN, X.max(axis=0) + _MARGIN
        discrete = DiscreteColumns.learn(X)  # of both samples: the cell of a value has one width, which cancels
        self.featurizer_p_ = self._fit_density(X[y == 1], w[y == 1], discrete, seed, "p")
        self.featurizer_q_ = self._fit_density(X[y == 0], w[y == 0], discrete, seed, "q")

    def _check_featurizer(self) -> None:
        featurizer = self.featurizer
        if featurizer is None:
            return
        if not isinstance(featurizer, FlowFeaturizer):
            raise ValueError(f"`featurizer` is {featurizer!r}. Use a `FlowFeaturizer`, or None for a default one.")
        if isinstance(featurizer.flow, nn.Module):
            problem = "`featurizer` has a pretrained flow, but p and q need a flow each"
            raise ValueError(f"{problem}. Use the name of a flow, or a function that returns one.")
        if isinstance(featurizer.scaling, str) and featurizer.scaling == "image":
            problem = "`featurizer` has `scaling` 'image', which needs integers, but it gets standardized rows"
            raise ValueError(f"{problem}. Use `scaling='auto'`.")

    def _fit_density(self, X: Matrix, w: Vector, discrete: DiscreteColumns, seed: int, name: str) -> FlowFeaturizer:
        X, rng = _repeated(X, w), np.random.default_rng([seed, 0, 5])
        X = discrete.jitter(X + _NOISE * rng.standard_normal(X.shape), rng)
        n, d = X.shape
        is_wide = d > _MANY_COLUMNS and n < 10 * d
        default = FlowFeaturizer(hidden=(32, 32), learning_rate=5e-4) if is_wide else FlowFeaturizer()
        featurizer: Any = default if self.featurizer is None else clone(self.featurizer)
        featurizer.set_params(random_state=seed, verbose=self.verbose or featurizer.verbose)
        if self.callback is not None:
            featurizer.set_params(callback=self.callback)
        if featurizer.checkpoint is not None:
            featurizer.set_params(checkpoint=Path(featurizer.checkpoint) / name)
        featurizer.fit(ArrayRows(X))
        featurizer.flow_.double()  # the last digits of float32 depend on how rows are batched
        return featurizer

    def _log_ratio(self, X: Matrix) -> Vector:
        X = np.clip(X[:, self.columns_], self.low_, self.high_)
        return self.featurizer_p_.log_density(X) - self.featurizer_q_.log_density(X)


def _repeated(X: Matrix, w: Vector) -> Matrix:
    """Repeat rows in proportion to their weights, (m, d) to (n, d), with n at least 2."""
    return X[systematic(w, max(2, len(X), min(round(w.sum()), _MAX_REPEATED)), 0.5)]
