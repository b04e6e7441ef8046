r"""New rows of p, or of q, from a flow of both: sampling, importance weighting, resampling.

A flow that was trained on rows of both samples draws from :math:`h = \pi p + (1 - \pi) q`. Many candidates z are
drawn, each is weighted by

.. math:: \frac{p}{h} = \frac{r}{\pi r + 1 - \pi} \quad\text{or}\quad \frac{q}{h} = \frac{1}{\pi r + 1 - \pi}

and few are drawn from these by their weights. The ratio is the same in x and in z, so that the candidates need not be
decoded: only the chosen are.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from typing_extensions import Self

from flowratio._support.progress import progress
from flowratio._support.validation import RandomState, is_count, seed_from
from flowratio.flows import Flow
from flowratio.flows.base import new_generator
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.base import chunks
from flowratio.ratios.featurized.featurized import FeaturizedRatio
from flowratio.ratios.featurized.joint import JointFeaturizedRatio
from flowratio.ratios.inverse import InverseRatio
from flowratio.ratios.neural.networks import evaluate
from flowratio.weights import check_proportion, effective_sample_size, pareto_smooth, rebalance, self_normalize

Score = Callable[[np.ndarray], Any]
_LARGEST_SHARE = 0.1  # of the effective candidates, that can be drawn without replacement and without a word


class DepletedWarning(UserWarning):
    """So many rows were drawn without replacement that they are not of the target, but lean toward the mixture."""


class Drawn(NamedTuple):
    """Rows that a `TargetedSampler` has drawn, and what they rest on.

    Parameters
    ----------
    X
        The rows, of shape (n, d).
    Z
        The same in latent space, of shape (n, d_z).
    log_w
        Log-weights of all candidates, of shape (n * n_candidates,), or of shape (n,) if none was weighted.
    effective_sample_size
        How many equally weighted candidates the weights are worth. Much below n, the rows repeat each other.
    unique_share
        Share of the rows that are distinct candidates.
    k_hat
        Shape of the tail of the weights: see `flowratio.weights.pareto_smooth`.
    """

    X: np.ndarray
    Z: np.ndarray
    log_w: np.ndarray
    effective_sample_size: float
    unique_share: float
    k_hat: float


class TargetedSampler(BaseEstimator):
    r"""Draw new rows of p, or of q, from a flow that was trained on rows of both; r = p/q, p is y = 1.

    Sampling-importance-resampling: `n_candidates` candidates for each row are drawn from the flow, weighted toward the
    target, and the rows are drawn from all of them together. In latent space only the chosen are decoded.

    Parameters
    ----------
    featurizer
        A fitted `FlowFeaturizer`: the candidates come from its flow. None for that of `ratio`.
    ratio
        A fitted ratio: a `FeaturizedRatio` or `JointFeaturizedRatio`, which brings its own flow; or, with `featurizer`,
        any ratio that was fitted to `featurizer.transform(X)` (`space="z"`) or to rows of x (`space="x"`). Behind
        `scaling="image"` z has the noise of the candidates only by `featurizer.encode(X, rng)`.
    space
        Where the candidates are weighted: `"z"`, or `"x"`, for which all of them are decoded first.
    proportion
        Share π of p in the rows that the flow was trained on. If None: n_p / (n_p + n_q) of the rows that the ratio
        was fitted to, or one half if it says `mixture="balanced"`. Give it where the flow had other rows than the
        ratio, or weighted ones; and 0 where the q of the ratio is the flow itself: where it was fitted to rows of the
        target as p and to draws of the flow as q. Such weights make up for what the flow has not learned.
    n_candidates
        Candidates for each row that is drawn. The weights are at most 1/π (toward p), so that of N candidates about
        π N are effective, or more.
    replace
        Whether a candidate can be drawn more than once. Without, rows are drawn one after the other from what is left,
        which is the less of the target the more were drawn: of all candidates, they would be the mixture. A
        `DepletedWarning` says so if they are more than a tenth of the effective candidates.
    random_state
        Seed: the same number gives the same rows at every call, a generator goes on. Global ones are never used.
    verbose
        Whether to show a progress bar while candidates are weighted.

    References
    ----------
    .. [1] Choi, Liao, Ermon (2021). *Featurized Density Ratio Estimation.* UAI.
    .. [2] Rubin (1987). *The calculation of posterior distributions by data augmentation: Comment.* JASA.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X_p, X_q = rng.normal(0.5, 1, size=(400, 2)), rng.normal(-0.5, 1, size=(400, 2))
    >>> model = FeaturizedRatio("logistic", featurizer=FlowFeaturizer(max_epochs=10), random_state=0)
    >>> sampler = TargetedSampler(ratio=model.fit_samples(X_p, X_q), random_state=0)
    >>> bool(abs(sampler.sample(500, toward="p").mean() - 0.5) < 0.2)
    True
    >>> bool(abs(sampler.sample(500, toward="q").mean() + 0.5) < 0.2)
    True
    >>> sampler.draw(500, toward="p").unique_share > 0.9
    True
    """

    def __init__(
        self,
        featurizer: FlowFeaturizer | None = None,
        ratio: Any = None,
        *,
        space: Literal["z", "x"] = "z",
        proportion: float | None = None,
        n_candidates: int = 100,
        replace: bool = True,
        random_state: RandomState = None,
        verbose: bool = False,
    ) -> None:
        self.featurizer = featurizer
        self.ratio = ratio
        self.space = space
        self.proportion = proportion
        self.n_candidates = n_candidates
        self.replace = replace
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_clone__(self) -> Self:
        """Return another sampler of the same flow and ratio, which stay fitted."""
        return type(self)(**self.get_params(deep=False))

    def sample(self, n: int = 1, toward: Literal["p", "q"] | None = "p") -> np.ndarray:
        """Draw rows of x, of shape (n, d).

        Parameters
        ----------
        n
            Number of rows.
        toward
            `"p"` or `"q"`; None for the mixture, as the flow draws it.
        """
        return self._draw(n, toward).X

    def draw(self, n: int = 1, toward: Literal["p", "q"] | None = "p") -> Drawn:
        """Draw rows of x, and say what they rest on.

        Parameters
        ----------
        n, toward
            As in `sample`.
        """
        return self._draw(n, toward)

    def _draw(self, n: int, toward: Literal["p", "q"] | None) -> Drawn:
        self._check_settings(n, toward)
        featurizer, seed = self._source(), seed_from(self.random_state)
        if toward is None:
            Z = _gathered(featurizer.flow_, n, seed, np.arange(n))
            return Drawn(featurizer.decode(Z), Z, np.zeros(n), float(n), 1.0, -math.inf)
        score, proportion, n_all = self._score(featurizer), self._proportion(), n * self.n_candidates
        log_w = rebalance(self._scored(featurizer.flow_, score, n_all, seed), proportion, toward)
        n_effective = effective_sample_size(log_w)
        chosen = _resampled(log_w, n, self.replace, np.random.default_rng([seed, 1]))
        if not self.replace and n > _LARGEST_SHARE * n_effective:
            _warn_of_depletion(n, n_effective, n_all)
        Z = _gathered(featurizer.flow_, n_all, seed, chosen)
        return Drawn(
            X=featurizer.decode(Z),
            Z=Z,
            log_w=log_w,
            effective_sample_size=n_effective,
            unique_share=len(np.unique(chosen)) / n,
            k_hat=pareto_smooth(log_w).k_hat,
        )

    def _check_settings(self, n: Any, toward: Any) -> None:
        for name, value in (("n", n), ("n_candidates", self.n_candidates)):
            if not is_count(value):
                raise ValueError(f"`{name}` is {value!r}: give a whole number of 1 or more.")
        if toward not in ("p", "q", None):
            raise ValueError(f"`toward` is {toward!r}: give 'p', 'q', or None for the mixture of both.")
        if self.space not in ("z", "x"):
            raise ValueError(f"`space` is {self.space!r}: give 'z' or 'x'.")
        if self.proportion is not None:
            check_proportion(self.proportion)
        if self.proportion == 0 and toward == "q":
            raise ValueError(
                "`proportion` is 0, so that candidates are of q already: give toward='p', for the numerator of the "
                "ratio, or None for candidates as they are."
            )

    def _source(self) -> FlowFeaturizer:
        """Return the fitted map whose flow draws the candidates."""
        given = self.featurizer
        if given is None:
            check_is_fitted(_checked_ratio(self.ratio))
            given = getattr(self.ratio, "featurizer_", None)
        if hasattr(self.featurizer, "log_ratio"):
            raise TypeError(f"`featurizer` is {self.featurizer!r}, a ratio: write `TargetedSampler(ratio=…)`.")
        if not isinstance(given, FlowFeaturizer):
            raise TypeError(
                f"`featurizer` is {self.featurizer!r}, and `ratio` a {type(self.ratio).__name__}: give a fitted "
                "`FlowFeaturizer`, or as `ratio` a `FeaturizedRatio` with a flow, which brings it along."
            )
        if self._is_own() and getattr(self.ratio, "alpha", None) == 1:
            raise ValueError(
                "`ratio` was trained with `alpha=1`: its flow is no density, and cannot be drawn from. Use `alpha` "
                "below 1, or give a `featurizer` and `space='x'`."
            )
        check_is_fitted(given)
        return given

    def _is_own(self) -> bool:
        """Return whether the flow is that of the ratio."""
        return self.featurizer is None or self.featurizer is getattr(self.ratio, "featurizer_", None)

    def _score(self, featurizer: FlowFeaturizer) -> Score:
        """Return the function from candidates z, of shape (m, d_z), to log r, of shape (m,)."""
        ratio = _checked_ratio(self.ratio)
        if hasattr(ratio, "fit"):
            check_is_fitted(ratio)
        has_own = isinstance(ratio, FeaturizedRatio | JointFeaturizedRatio)
        if self.space == "z" and has_own and not self._is_own():
            raise ValueError(
                "`featurizer` is given, and `ratio` has another of its own: leave `featurizer` out, give the ratio of "
                "z alone, or weight in x by `space='x'`."
            )
        if not self._is_own():
            _check_columns(ratio, featurizer, self.space)
        if self.space == "x":
            return lambda Z: ratio.log_ratio(featurizer.decode(Z))
        if isinstance(ratio, JointFeaturizedRatio):
            return lambda Z: evaluate(ratio.network_, Z)[:, 0]
        return ratio.ratio_.log_ratio if isinstance(ratio, FeaturizedRatio) else ratio.log_ratio

    def _proportion(self) -> float:
        if self.proportion is not None:
            return float(self.proportion)
        if self._is_own() and getattr(self.ratio, "mixture", "pooled") == "balanced":
            return 0.5
        if not hasattr(self.ratio, "log_odds_"):
            raise ValueError(
                f"`proportion` is None, and {self.ratio!r} does not tell how many rows of p and q there were: give the "
                "share of p in the rows that the flow was trained on."
            )
        return float(expit(self.ratio.log_odds_))

    def _scored(self, flow: Flow, score: Score, n: int, seed: int) -> np.ndarray:
        """Return log r of all candidates, of shape (n,)."""
        log_r = np.empty(n)
        n_batches = sum(1 for _ in chunks(n, flow.n_features))
        with warnings.catch_warnings(), progress(n_batches, "candidates", self.verbose) as step:
            warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)  # they were compared
            for part, Z in _candidates(flow, n, seed):
                found = np.asarray(score(Z), np.float64)
                if found.shape != (len(Z),) or not (found < np.inf).all():
                    raise ValueError(
                        f"`log_ratio` of {self.ratio!r} gave {found.shape} values for {len(Z)} rows, "
                        f"{np.count_nonzero(~(found < np.inf))} of them NaN or inf: it must give one number a row."
                    )
                log_r[part] = found
                step()
        return log_r


def _candidates(flow: Flow, n: int, seed: int) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield n candidates z a batch at a time, the same for the same seed: where they stand, and they, (m, d_z)."""
    generator = new_generator().manual_seed(seed)
    for part in chunks(n, flow.n_features):
        part = slice(part.start, min(part.stop, n))
        yield part, flow.base_sample(part.stop - part.start, generator).detach().cpu().double().numpy()


def _gathered(flow: Flow, n: int, seed: int, chosen: np.ndarray) -> np.ndarray:
    """Return the chosen of n candidates, (m,) to (m, d_z). All are drawn again: at no time are they in memory."""
    Z = np.empty((len(chosen), flow.n_features))
    for part, batch in _candidates(flow, n, seed):
        here = np.flatnonzero((part.start <= chosen) & (chosen < part.stop))
        Z[here] = batch[chosen[here] - part.start]
    return Z


def _resampled(log_w: np.ndarray, n: int, replace: bool, rng: np.random.Generator) -> np.ndarray:
    """Return n positions of candidates, drawn by their weights, of shape (n,)."""
    if replace:
        return rng.choice(len(log_w), n, p=self_normalize(log_w))
    n_positive = np.count_nonzero(log_w > -np.inf)
    if n > n_positive:
        raise ValueError(
            f"`n` is {n}, but {n_positive} of {len(log_w)} candidates have a positive weight: without replacement, "
            "give more `n_candidates` or a smaller `n`, or use `replace=True`."
        )
    # the largest of log w plus Gumbel noise is a draw by w, the next one a draw from the rest, and so on
    key = log_w + rng.gumbel(size=len(log_w))
    largest = np.argpartition(key, -n)[-n:]
    return largest[np.argsort(-key[largest])]


def _warn_of_depletion(n: int, n_effective: float, n_all: int) -> None:
    warnings.warn(
        f"{n} rows were drawn without replacement, and {n_all} candidates are worth {n_effective:.0f}: the rows lean "
        f"toward the mixture of both samples. Use `n_candidates` of {math.ceil(n_all / _LARGEST_SHARE / n_effective)} "
        "or more, or `replace=True`.",
        DepletedWarning,
        stacklevel=4,
    )


def _checked_ratio(ratio: Any) -> Any:
    if isinstance(ratio, type) or not callable(getattr(ratio, "log_ratio", None)):
        raise TypeError(
            f"`ratio` is {ratio!r}: give a fitted ratio, such as `FeaturizedRatio().fit_samples(X_p, X_q)`."
        )
    if isinstance(ratio, InverseRatio):
        raise TypeError(f"`ratio` is {ratio!r}, which is q/p: give the ratio p/q, and choose by `toward`.")
    return ratio


def _check_columns(ratio: Any, featurizer: FlowFeaturizer, space: str) -> None:
    """Refuse a ratio that was fitted to other columns than the candidates have."""
    d = featurizer.flow_.n_features if space == "z" else featurizer.n_features_in_
    if getattr(ratio, "n_features_in_", d) != d:
        raise ValueError(
            f"`ratio` was fitted to {ratio.n_features_in_} columns, but {space} of `featurizer` has {d}: fit it to "
            f"{'`featurizer.transform(X)`' if space == 'z' else 'the rows that `featurizer` was fitted to'}."
        )
    names, names_x = (getattr(of, "feature_names_in_", None) for of in (ratio, featurizer))
    if names is None or names_x is None:
        return
    if space == "z" and list(names) == list(names_x):
        raise ValueError("`ratio` was fitted to columns of x: fit it to `featurizer.transform(X)`, or use `space='x'`.")
    if space == "x" and list(names) != list(names_x):
        raise ValueError(
            f"`ratio` was fitted to the columns {list(names)[:8]}, but `featurizer` to {list(names_x)[:8]}: both must "
            "have the same, in the same order."
        )
