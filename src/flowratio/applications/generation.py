r"""New rows of p, or of q, from a flow of both: sampling, importance weighting, resampling.

The ratio is the same in x and in z, so only the selected candidates are decoded.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _num_samples, check_is_fitted
from typing_extensions import Self

from flowratio._support.chunks import chunks
from flowratio._support.errors import ArgumentError
from flowratio._support.progress import progress
from flowratio._support.types import Matrix, TableLike, Vector
from flowratio._support.validation import RandomState, check_choice, check_count, seed_from
from flowratio.applications.draw_check import DrawCheck, check_draws
from flowratio.flows import Flow
from flowratio.flows.base import new_generator
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.base import RatioEstimator
from flowratio.ratios.featurized.featurized import FeaturizedRatio
from flowratio.ratios.featurized.joint import JointFeaturizedRatio
from flowratio.ratios.inverse import InverseRatio
from flowratio.ratios.neural.networks import evaluate
from flowratio.weights import check_proportion, effective_sample_size, pareto_smooth, rebalance, self_normalize

if TYPE_CHECKING:
    from flowratio.tables.encoder import TableEncoder

Score = Callable[[Matrix], Any]
_LARGEST_SHARE = 0.1  # of the effective candidates, that can be drawn without replacement and without a warning
_N_CANDIDATES = 100  # for each row
_TABLE_POOL = 200_000  # candidates for rows of a table: as many as take seconds
_FEWEST_EFFECTIVE = 10  # candidates of the target for each row of a table
_FEWEST_CHECKED, _MOST_CHECKED = 200, 10_000  # draws that are compared with real rows


class DepletedWarning(UserWarning):
    """So many rows were drawn without replacement that they resemble the mixture more than the target."""


class TargetedSample(NamedTuple):
    """Rows from a `TargetedSampler`, and how reliable they are."""

    X: Any  # the rows, of shape (n, d): an array, or a data frame of polars for a ratio of mixed tables
    Z: Matrix  # the same in latent space, of shape (n, d_z)
    log_w: Vector  # of all candidates, of shape (n * n_candidates,), or zeros of shape (n,) for the mixture
    effective_sample_size: float  # of the candidates. Much below n, the rows repeat each other
    unique_share: float  # share of the rows that are distinct candidates
    k_hat: float  # shape of the tail of the weights: see `flowratio.weights.pareto_smooth`


class TargetedSampler(BaseEstimator):
    r"""Draw new rows of p, or of q, from a flow that was trained on rows of both. r = p/q, p is y = 1.

    The flow draws candidates from :math:`h = \pi p + (1 - \pi) q`. The rows are drawn from the candidates by the weight

    .. math:: \frac{p}{h} = \frac{r}{\pi r + 1 - \pi} \quad\text{or}\quad \frac{q}{h} = \frac{1}{\pi r + 1 - \pi}

    For a ratio of mixed tables each candidate is decoded to the nearest row of a table, with one category in each
    column and numbers and dates in their fitted range, before it is weighted. `sample` then returns a data frame.

    Parameters
    ----------
    ratio, featurizer
        A fitted `FeaturizedRatio`, `JointFeaturizedRatio`, or `AutoRatio` with a flow. Or any ratio that was fitted to
        `featurizer.transform(X)` (`space="z"`) or to rows of x (`space="x"`), with the fitted `FlowFeaturizer` that
        draws the candidates. With `scaling="image"` fit the ratio to `featurizer.encode(X, rng)`, with their noise.
    space
        Where the candidates are weighted: `"z"`, or `"x"`, for which all of them are decoded first. Rows of a mixed
        table are always weighted in x.
    proportion
        Share π of p in the rows that the flow was trained on. If None: n_p / (n_p + n_q) of the rows of the ratio, or
        one half for `mixture="balanced"`. Give it if the flow was trained on other rows, or on weighted rows. Give 0 if
        the ratio was fitted to rows of the target as p and draws of the flow as q: such weights correct the flow.
    n_candidates
        Candidates for each row. The weights are at most 1/π (toward p), so that of N candidates π N or more are
        effective. None for 100. For tables None is 100 for up to 2000 rows, and fewer for more rows: 200 000 in all,
        and at least 10 effective ones for each row.
    replace
        Whether a candidate can be drawn more than once. Without replacement, rows resemble the mixture more, the more
        are drawn. A `DepletedWarning` is issued if they are more than a tenth of the effective candidates.
    random_state, verbose
        Seed: an integer gives the same rows at every call, a generator continues. Whether to show a progress bar.

    References
    ----------
    .. [1] Choi, Liao, Ermon (2021). *Featurized Density Ratio Estimation.* UAI.
    .. [2] Rubin (1987). *The calculation of posterior distributions by data augmentation: Comment.* JASA.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X_p, X_q = rng.normal(0.5, 1, size=(400, 2)), rng.normal(-0.5, 1, size=(400, 2))
    >>> model = FeaturizedRatio("logistic", featurizer=FlowFeaturizer(max_epochs=10), random_state=0)
    >>> sampler = TargetedSampler(model.fit_samples(X_p, X_q), random_state=0)
    >>> bool(abs(sampler.sample(500, toward="p").mean() - 0.5) < 0.2)
    True
    """

    def __init__(
        self,
        ratio: Any,
        featurizer: FlowFeaturizer | None = None,
        *,
        space: Literal["z", "x"] = "z",
        proportion: float | None = None,
        n_candidates: int | None = None,
        replace: bool = True,
        random_state: RandomState = None,
        verbose: bool = False,
    ) -> None:
        self.ratio = ratio
        self.featurizer = featurizer
        self.space = space
        self.proportion = proportion
        self.n_candidates = n_candidates
        self.replace = replace
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_clone__(self) -> Self:
        """Return another sampler of the same flow and ratio, which stay fitted."""
        return type(self)(**self.get_params(deep=False))

    def sample(self, n: int = 1, toward: Literal["p", "q"] | None = "p") -> Any:
        """Draw rows of x, of shape (n, d): an array, or a data frame of polars if the ratio is of mixed tables.

        `toward` is `"p"` or `"q"`, or None for the mixture, as the flow draws it.
        """
        return self._draw(n, toward).X

    def draw(self, n: int = 1, toward: Literal["p", "q"] | None = "p") -> TargetedSample:
        """Draw rows of x, as `sample` does, and return them with their weights and how reliable they are."""
        return self._draw(n, toward)

    def check(
        self,
        X_target: TableLike,
        toward: Literal["p", "q"] = "p",
        n: int | None = None,
        *,
        ratio: Any = None,
        n_folds: int = 5,
    ) -> DrawCheck:
        """Draw n rows and check them against real rows of the target, (m, d), that no model was fitted to.

        The weights of the candidates show nothing about rows that the flow draws wrongly. This check does. `n` is None
        for as many draws as real rows, from 200 to 10 000. `ratio` and `n_folds` are those of the classifier: see
        `flowratio.applications.draw_check.check_draws`.
        """
        n_target = _num_samples(X_target)
        size = min(max(n_target, _FEWEST_CHECKED), _MOST_CHECKED) if n is None else n
        draws = self._draw(size, toward).X
        return check_draws(X_target, draws, ratio=ratio, n_folds=n_folds, random_state=seed_from(self.random_state))

    def _draw(self, n: int, toward: Literal["p", "q"] | None) -> TargetedSample:
        self._check_settings(n, toward)
        featurizer, seed = self._source(), seed_from(self.random_state)
        decode = self._decoding(featurizer)
        if toward is None:
            Z = _gathered(featurizer.flow_, n, seed, np.arange(n))
            return TargetedSample(decode(Z), Z, np.zeros(n), float(n), 1.0, -math.inf)
        score, proportion = self._score(featurizer), self._proportion()
        n_all = n * self._n_candidates(n, proportion if toward == "p" else 1 - proportion)
        log_w = rebalance(self._scored(featurizer.flow_, score, n_all, seed), proportion, toward)
        n_effective = effective_sample_size(log_w)
        positions = _resampled(log_w, n, self.replace, np.random.default_rng([seed, 1]))
        if not self.replace and n > _LARGEST_SHARE * n_effective:
            _warn_of_depletion(n, n_effective, n_all)
        Z = _gathered(featurizer.flow_, n_all, seed, positions)
        unique_share = len(np.unique(positions)) / n
        return TargetedSample(decode(Z), Z, log_w, n_effective, unique_share, pareto_smooth(log_w).k_hat)

    def _check_settings(self, n: Any, toward: Any) -> None:
        check_count(n, "n")
        check_count(self.n_candidates, "n_candidates", optional=True)
        if toward not in ("p", "q", None):
            raise ArgumentError("toward", f"`toward` is {toward!r}. Use 'p', 'q', or None for the mixture of both.")
        check_choice(self.space, "space", ["z", "x"])
        if self.proportion is not None:
            check_proportion(self.proportion)
        if self.proportion == 0 and toward == "q":
            raise ValueError("`proportion` is 0, so candidates come from q. Use toward='p', or None for no weights.")

    @property
    def _encoder(self) -> TableEncoder | None:
        return getattr(self.ratio, "encoder_", None)

    def _n_candidates(self, n: int, share: float) -> int:
        """Return the number of candidates for each of n rows of a sample that has this share of the mixture."""
        if self.n_candidates is not None:
            return self.n_candidates
        if self._encoder is None:
            return _N_CANDIDATES
        return min(_N_CANDIDATES, max(_TABLE_POOL // n, math.ceil(_FEWEST_EFFECTIVE / share) if share else 0))

    def _source(self) -> FlowFeaturizer:
        """Return the fitted map whose flow draws the candidates."""
        featurizer = self.featurizer
        if featurizer is None:
            check_is_fitted(_checked_ratio(self.ratio))
            featurizer = getattr(self.ratio, "featurizer_", None)
            if isinstance(self.ratio, RatioEstimator) and featurizer is None:
                featurizer = self.ratio.mixture_flow()
        if isinstance(self.ratio, FlowFeaturizer) or hasattr(self.featurizer, "log_ratio"):
            raise TypeError("The arguments are in the wrong order. Use `TargetedSampler(ratio, featurizer)`.")
        if not isinstance(featurizer, FlowFeaturizer):
            name = type(self.ratio).__name__
            article = "an" if name[0] in "AEIO" else "a"
            problem = f"`featurizer` is {self.featurizer!r}, and `ratio` is {article} {name} with no flow"
            raise TypeError(f"{problem}. Give a fitted `FlowFeaturizer`, or a `FeaturizedRatio` with a flow.")
        if self._is_own() and getattr(self.ratio, "alpha", None) == 1:
            problem = "`ratio` was trained with `alpha=1`, so its flow is not a density and cannot be sampled"
            raise ValueError(f"{problem}. Use `alpha` below 1, or give a `featurizer` and `space='x'`.")
        check_is_fitted(featurizer)
        return featurizer

    def _is_own(self) -> bool:
        """Return whether the flow is that of the ratio."""
        return self.featurizer is None or self.featurizer is getattr(self.ratio, "featurizer_", None)

    def _decoding(self, featurizer: FlowFeaturizer) -> Callable[[Matrix], Any]:
        """Return the function from z, of shape (m, d_z), to rows of x, or to rows of a table."""
        if (encoder := self._encoder) is None:
            return featurizer.decode
        frequent = tuple(column.code_part for column in encoder.columns_ if column.code_part is not None)
        odds = self.ratio.mixture_odds() if featurizer.n_features_in_ > len(encoder.names_) else None

        def decode(Z: Matrix) -> Any:
            # without `decode`, which rounds each indicator of a category by itself, to none or to many
            rows = featurizer.inverse_transform(Z)
            rows = rows if odds is None else odds.restored(rows, frequent)
            return encoder.inverse_transform(encoder.confined(rows))

        return decode

    def _score(self, featurizer: FlowFeaturizer) -> Score:
        """Return the function from candidates z, of shape (m, d_z), to log r, of shape (m,)."""
        ratio, encoder, decode = _checked_ratio(self.ratio), self._encoder, self._decoding(featurizer)
        if hasattr(ratio, "fit"):
            check_is_fitted(ratio)
        if encoder is not None:
            return lambda Z: _log_ratio(ratio, encoder.encode(decode(Z))[0])
        has_own = isinstance(ratio, FeaturizedRatio | JointFeaturizedRatio)
        if self.space == "z" and has_own and not self._is_own():
            problem = "`ratio` has a flow, and `featurizer` is another one"
            raise ValueError(f"{problem}. Leave `featurizer` out, give a ratio fitted to z, or use `space='x'`.")
        if not self._is_own():
            _check_columns(ratio, featurizer, self.space)
        if self.space == "x" or (self._is_own() and not (has_own and ratio.is_latent())):  # it needs x too
            return lambda Z: _log_ratio(ratio, decode(Z))
        if isinstance(ratio, JointFeaturizedRatio):
            return lambda Z: evaluate(ratio.network_, Z)[:, 0]
        latent = ratio.ratio_ if isinstance(ratio, FeaturizedRatio) else ratio
        return lambda Z: _log_ratio(latent, Z)

    def _proportion(self) -> float:
        if self.proportion is not None:
            return float(self.proportion)
        if self._is_own() and getattr(self.ratio, "mixture", "pooled") == "balanced":
            return 0.5
        if not hasattr(self.ratio, "log_odds_"):
            problem = f"`proportion` is None, and {self.ratio!r} has no `log_odds_`"
            raise ValueError(f"{problem}. Give the share of p in the rows that the flow was trained on.")
        return float(expit(self.ratio.log_odds_))

    def _scored(self, flow: Flow, score: Score, n: int, seed: int) -> Vector:
        """Return log r of all candidates, of shape (n,)."""
        log_r = np.empty(n)
        n_batches = sum(1 for _ in chunks(n, flow.n_features))
        with warnings.catch_warnings(), progress(n_batches, "batches of candidates", self.verbose) as step:
            warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)  # they were compared
            for part, Z in _candidates(flow, n, seed):
                values = np.asarray(score(Z), np.float64)
                if values.shape != (len(Z),) or not (values < np.inf).all():
                    bad = f"{np.count_nonzero(~(values < np.inf))} of them NaN or inf"
                    problem = f"`log_ratio` of {self.ratio!r} returned {values.shape} values for {len(Z)} rows, {bad}"
                    raise ValueError(f"{problem}. It must return one number for each row.")
                log_r[part] = values
                step()
        return log_r


def _log_ratio(ratio: Any, X: Matrix) -> Any:
    """Return log r of candidates. That of a foreign ratio may be -inf: such a candidate is never drawn."""
    return ratio.log_ratio_prepared(X) if isinstance(ratio, RatioEstimator) else ratio.log_ratio(X)


def _candidates(flow: Flow, n: int, seed: int) -> Iterator[tuple[slice, Matrix]]:
    """Yield n candidates z in batches, the same for the same seed: their positions, and z, of shape (m, d_z)."""
    generator = new_generator().manual_seed(seed)
    for part in chunks(n, flow.n_features):
        yield part, flow.base_sample(part.stop - part.start, generator).detach().cpu().double().numpy()


def _gathered(flow: Flow, n: int, seed: int, positions: np.ndarray) -> Matrix:
    """Return some of n candidates, (m,) to (m, d_z). All are drawn again, so that they are never all in memory."""
    Z = np.empty((len(positions), flow.n_features))
    for part, batch in _candidates(flow, n, seed):
        here = np.flatnonzero((part.start <= positions) & (positions < part.stop))
        Z[here] = batch[positions[here] - part.start]
    return Z


def _resampled(log_w: Vector, n: int, replace: bool, rng: np.random.Generator) -> np.ndarray:
    """Return n positions of candidates, drawn by their weights, of shape (n,)."""
    if replace:
        return rng.choice(len(log_w), n, p=self_normalize(log_w))
    n_positive = np.count_nonzero(log_w > -np.inf)
    if n > n_positive:
        problem = f"`n` is {n}, but {n_positive} of {len(log_w)} candidates have a positive weight"
        raise ValueError(f"{problem}. Use more `n_candidates`, a smaller `n`, or `replace=True`.")
    # the largest of log w plus Gumbel noise is a draw by w, the next one a draw from the rest, and so on
    key = log_w + rng.gumbel(size=len(log_w))
    largest = np.argpartition(key, -n)[-n:]
    return largest[np.argsort(-key[largest])]


def _warn_of_depletion(n: int, n_effective: float, n_all: int) -> None:
    problem = f"{n} rows were drawn without replacement from {n_effective:.0f} effective candidates of {n_all}"
    remedy = f"Use `n_candidates` of {math.ceil(n_all / _LARGEST_SHARE / n_effective)} or more, or `replace=True`."
    words = f"{problem}, so they resemble the mixture of both samples. {remedy}"
    warnings.warn(words, DepletedWarning, stacklevel=4)


def _checked_ratio(ratio: Any) -> Any:
    if isinstance(ratio, type) or not callable(getattr(ratio, "log_ratio", None)):
        raise TypeError(f"`ratio` is {ratio!r}. Give a fitted ratio, such as `FeaturizedRatio().fit(X, y)`.")
    if isinstance(ratio, InverseRatio):
        raise TypeError(f"`ratio` is {ratio!r}, which is q/p. Give the ratio p/q, and choose by `toward`.")
    return ratio


def _check_columns(ratio: Any, featurizer: FlowFeaturizer, space: str) -> None:
    """Refuse a ratio that was fitted to other columns than the candidates have."""
    d = featurizer.flow_.n_features if space == "z" else featurizer.n_features_in_
    if getattr(ratio, "n_features_in_", d) != d:
        remedy = f"Fit it to {'`featurizer.transform(X)`' if space == 'z' else 'the rows of `featurizer`'}."
        problem = f"`ratio` was fitted to {ratio.n_features_in_} columns, but {space} of `featurizer` has {d}"
        raise ValueError(f"{problem}. {remedy}")
    names, names_x = (getattr(of, "feature_names_in_", None) for of in (ratio, featurizer))
    if names is None or names_x is None:
        return
    if space == "z" and list(names) == list(names_x):
        raise ValueError("`ratio` was fitted to columns of x. Fit it to `featurizer.transform(X)`, or use `space='x'`.")
    if space == "x" and list(names) != list(names_x):
        problem = f"`ratio` was fitted to the columns {list(names)[:8]}, but `featurizer` to {list(names_x)[:8]}"
        raise ValueError(f"{problem}. Both must have the same columns in the same order.")
