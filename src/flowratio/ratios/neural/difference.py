r"""Two densities, one ratio: a flow is fitted to each sample, and log r is the difference of their log-densities.

.. math:: \log r(x) = \log \hat p(x) - \log \hat q(x)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from torch import nn

from flowratio._support.validation import RandomState, seed_from
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.base import RatioEstimator
from flowratio.samples.weighting import systematic
from flowratio.scaling.discrete import DiscreteColumns
from flowratio.scaling.standardizer import Standardizer

_NOISE = 1e-4  # standard deviations of the pooled columns
_MARGIN = 1.0  # the same: how far beyond the training rows the flows are trusted
_MANY_COLUMNS = 50  # with fewer than 10 rows for each of more columns, small flows do better than wide ones
_MAX_REPEATED = 200_000  # rows of a sample to which weights may repeat fewer


class FlowDifferenceRatio(RatioEstimator):
    r"""Subtract the log-densities of two flows, one fitted to each sample: r = p/q, p is y = 1.

    .. math:: \log r(x) = \log \hat p(x) - \log \hat q(x)

    The baseline of all that learn the ratio itself: it solves two harder problems, but does not mind how far apart p
    and q are. Both flows are drawn and trained with one seed, so that p and q swapped negate log r, and
    one sample given twice has log r = 0.

    Parameters
    ----------
    featurizer
        The `FlowFeaturizer` of which each sample gets a clone, with its flow, its scaling and its training; a default
        one if None, but a small one for more than 50 columns with fewer than 10 rows each. Its `random_state` gives way
        to that of the ratio; with a `checkpoint`, the two runs are kept in its folders `p` and `q`.
    random_state
        Seed: the same gives the same bits on the same machine. Global generators are never used.
    verbose
        Whether to show a progress bar for each of the flows.

    Attributes
    ----------
    featurizer_p_, featurizer_q_
        The two fitted densities, of standardized rows, in float64.
    kept_
        Positions of the columns of which both densities are, of shape (d_z,): not those that are constant, or a linear
        combination of others, in both samples together.
    low_, high_
        Corners of the box in which the flows are trusted, of shape (d_z,), in standardized units.

    Notes
    -----
    *A column that only one sample holds constant*, or as a combination of others, has no density there, and r is 0 or
    infinite. Both samples are therefore blurred by normal noise of 1e-4 pooled standard deviations, so that both
    densities are of the same columns, and log r is large but finite. Nothing finer than this is resolved.

    *Far rows.* Beyond the training rows a flow makes up its tails. Rows are scored at the nearest point of a box that
    reaches one pooled standard deviation beyond the rows of both samples: log r is continuous, and bounded.

    *Weights* repeat rows. Weights that are not whole numbers repeat a row so often that the total up to it, in an order
    of the rows' own, is right to half a row; no sample is repeated to more than 200 000 rows.

    Each sample keeps its own scaling, by which the flow begins at a Gaussian with the moments of its sample. Scaling
    both alike was seldom better, and often far behind, on shifts, changes of covariance and mixtures of few rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ratio = FlowDifferenceRatio(FlowFeaturizer(max_epochs=20, patience=20), random_state=0)
    >>> _ = ratio.fit_samples(rng.normal(1, 1, size=(300, 1)), rng.normal(0, 1, size=(300, 1)))
    >>> bool(abs(ratio.log_ratio([[1.0]])[0] - 0.5) < 0.25)  # log r(x) = x - 1/2
    True
    """

    featurizer_p_: FlowFeaturizer
    featurizer_q_: FlowFeaturizer
    kept_: np.ndarray
    low_: np.ndarray
    high_: np.ndarray

    def __init__(
        self,
        featurizer: FlowFeaturizer | None = None,
        *,
        random_state: RandomState = None,
        verbose: bool = False,
    ) -> None:
        self.featurizer = featurizer
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> None:
        self._check_featurizer()
        seed = seed_from(self.random_state)
        self.kept_ = Standardizer().fit_array(X).columns_
        X = X[:, self.kept_]
        self.low_, self.high_ = X.min(axis=0) - _MARGIN, X.max(axis=0) + _MARGIN
        discrete = DiscreteColumns.learn(X)  # of both: the cells of a value have one width, which cancels
        self.featurizer_p_, self.featurizer_q_ = (
            self._fit_density(X[y == label], w[y == label], discrete, seed, name)
            for label, name in ((1, "p"), (0, "q"))
        )

    def _check_featurizer(self) -> None:
        given = self.featurizer
        if given is None:
            return
        if not isinstance(given, FlowFeaturizer):
            raise ValueError(f"`featurizer` is {given!r}: give a `FlowFeaturizer`, or None for a default one.")
        if isinstance(given.flow, nn.Module):
            raise ValueError(
                "`featurizer` has a pretrained flow, which would be the density of p and of q alike: give the name of "
                "a flow, or a function that makes one."
            )
        if isinstance(given.scaling, str) and given.scaling == "image":
            raise ValueError(
                "`featurizer` has `scaling` 'image', which takes whole numbers, but a ratio hands on standardized "
                "rows: leave `scaling` at 'auto'."
            )

    def _fit_density(
        self, X: np.ndarray, w: np.ndarray, discrete: DiscreteColumns, seed: int, name: str
    ) -> FlowFeaturizer:
        X, rng = _repeated(X, w), np.random.default_rng([seed, 0, 5])
        X = discrete.jitter(X + _NOISE * rng.standard_normal(X.shape), rng)
        featurizer: Any = _default(*X.shape) if self.featurizer is None else clone(self.featurizer)
        featurizer.set_params(random_state=seed, verbose=self.verbose or featurizer.verbose)
        if featurizer.checkpoint is not None:
            featurizer.set_params(checkpoint=Path(featurizer.checkpoint) / name)
        featurizer.fit(X)
        featurizer.flow_.double()  # float32 differs in its last digits with the number of rows that are scored at once
        return featurizer

    def _log_ratio(self, X: np.ndarray) -> np.ndarray:
        X = np.clip(X[:, self.kept_], self.low_, self.high_)
        return self.featurizer_p_.score_samples(X) - self.featurizer_q_.score_samples(X)


def _default(n: int, d: int) -> FlowFeaturizer:
    """Return the featurizer for n rows of d columns."""
    if d > _MANY_COLUMNS and n < 10 * d:
        return FlowFeaturizer(hidden=(32, 32), learning_rate=5e-4)
    return FlowFeaturizer()


def _repeated(X: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Repeat rows as often as their weights say, (m, d) to (n, d), at least 2.

    Examples
    --------
    >>> _repeated(np.array([[1.0], [2.0]]), np.array([1.0, 3.0])).ravel().tolist()
    [1.0, 2.0, 2.0, 2.0]
    """
    return X[systematic(w, max(2, len(X), min(round(w.sum()), _MAX_REPEATED)), 0.5)]
