r"""New rows of p, or of q, from a flow of both: sampling, importance weighting, resampling.

The ratio is the same in x and in z, so only the selected candidates are decoded. Two-stage sampling decodes a number of
candidates and weights them again in x: see `refinement`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _num_samples, check_is_fitted
from typing_extensions import Self

from flowratio._support.chunks import chunks
from flowratio._support.errors import ArgumentError
from flowratio._support.types import Matrix, TableLike, Vector
from flowratio._support.validation import RandomState, check_choice, check_count, seed_from
from flowratio.applications.against_draws import AgainstDraws
from flowratio.applications.candidate_scores import check_columns, checked_log_r, checked_ratio, log_ratio, scoring
from flowratio.applications.candidates import candidates, gathered, resampled
from flowratio.applications.draw_check import DrawCheck, check_draws
from flowratio.applications.refinement import N_DECODED, N_DECODED_ONCE, decoded, refining_ratio
from flowratio.flows import Flow
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.base import RatioEstimator
from flowratio.ratios.featurized.featurized import FeaturizedRatio
from flowratio.ratios.featurized.joint import JointFeaturizedRatio
from flowratio.ratios.neural.networks import evaluate
from flowratio.weights import check_proportion, effective_sample_size, pareto_smooth, rebalance

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
    # weights of all candidates, of shape (n * n_candidates,). With `refine` those of the decoded candidates, of shape
    # (n * n_decoded,). Zeros of shape (n,) for the mixture
    log_w: Vector
    effective_sample_size: float  # of these. Much below n, the rows repeat each other
    unique_share: float  # share of the rows that are distinct candidates
    k_hat: float  # shape of the tail of the weights: see `flowratio.weights.pareto_smooth`
    check: DrawCheck | None = None  # of the rows against real rows of the target, if `draw` has these


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
    refine
        A ratio p/q that was fitted to rows of x, for two-stage sampling: the accuracy of `space="x"` at a fraction of
        its cost. `ratio`, in latent space (z), selects `n_decoded` candidates for each row. Only these are decoded, and
        `refine` decides their weights. Rows of a mixed table are weighted in x already, so `refine` is refused there.
    correction
        Of `against_draws(featurizer, X)`, for a flow that is not perfect. X has rows of p and q as the flow was fitted
        to, with the same share of p. The correction lowers weights of candidates that the flow draws too often. It is
        used if its held-out score is above 0 by two standard errors.
    proportion
        Share π of p in the rows that the flow was trained on. If None: n_p / (n_p + n_q) of the rows of the ratio, or
        one half for `mixture="balanced"`. Give it if the flow was trained on other rows, or on weighted rows. It is 0
        for a ratio of rows of the target to draws of the flow, such as `against_draws(featurizer, X_target)`.
    n_candidates
        Candidates for each row. The weights are at most 1/π (toward p), so that of N candidates π N or more are
        effective. None for 100. For tables None is 100 for up to 2000 rows, and fewer for more rows: 200 000 in all,
        and at least 10 effective ones for each row.
    n_decoded
        Candidates for each row that are decoded with `refine`. None for 5, or for 25 without replacement. If it is not
        below `n_candidates`, the weights are those of `refine` with `space="x"`.
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
        refine: Any = None,
        correction: AgainstDraws | None = None,
        proportion: float | None = None,
        n_candidates: int | None = None,
        n_decoded: int | None = None,
        replace: bool = True,
        random_state: RandomState = None,
        verbose: bool = False,
    ) -> None:
        self.ratio = ratio
        self.featurizer = featurizer
        self.space = space
        self.refine = refine
        self.correction = correction
        self.proportion = proportion
        self.n_candidates = n_candidates
        self.n_decoded = n_decoded
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

    def draw(
        self, n: int = 1, toward: Literal["p", "q"] | None = "p", *, X_target: TableLike | None = None
    ) -> TargetedSample:
        """Draw rows of x, as `sample` does, and return them with their weights and how reliable they are.

        `X_target` are real rows of the target, (m, d), that no model was fitted to. The result then has a `check` of
        the rows against them, as `flowratio.applications.draw_check.check_draws` returns it.
        """
        drawn = self._draw(n, toward)
        if X_target is None:
            return drawn
        return drawn._replace(check=check_draws(X_target, drawn.X, random_state=seed_from(self.random_state)))

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
            Z = gathered(featurizer.flow_, n, seed, np.arange(n))
            return TargetedSample(decode(Z), Z, np.zeros(n), float(n), 1.0, -math.inf)
        score, proportion = self._score(featurizer), self._proportion()
        refine, correction = self._refine(featurizer), self._correction(featurizer)
        n_all = n * self._n_candidates(n, proportion if toward == "p" else 1 - proportion)
        log_r, log_c = self._scored(featurizer.flow_, score, decode, correction, n_all, seed)
        log_w, second = rebalance(log_r, proportion, toward) + log_c, None
        if refine is not None:
            n_each = self.n_decoded or (N_DECODED if self.replace else N_DECODED_ONCE)
            second = decoded(refine, correction, featurizer, log_w, n * n_each, seed, self.verbose)
            log_w = rebalance(second.log_r, proportion, toward) + second.log_c - second.log_chance
        n_effective = effective_sample_size(log_w)
        positions = resampled(log_w, n, self.replace, np.random.default_rng([seed, 1]))
        if not self.replace and n > _LARGEST_SHARE * n_effective:
            self._warn_of_depletion(n, n_effective, len(log_w))
        if second is None:
            Z = gathered(featurizer.flow_, n_all, seed, positions)
            X = decode(Z)
        else:
            X, Z = second.X[positions], second.Z[positions]
        unique_share = len(np.unique(positions)) / n
        return TargetedSample(X, Z, log_w, n_effective, unique_share, pareto_smooth(log_w).k_hat)

    def _refine(self, featurizer: FlowFeaturizer) -> Any:
        """Return the ratio of the second stage, or None."""
        if self.refine is None:
            return None
        if self._is_in_x():
            where = "rows of a table" if self._encoder is not None else "candidates of this ratio"
            where = "candidates with `space='x'`" if self.space == "x" else where
            raise ValueError(f"`refine` is set, but {where} are all decoded and weighted in x already. Leave it out.")
        if isinstance(self.refine, AgainstDraws) and self._proportion() > 0:
            problem = f"`refine` is a ratio to draws, but `proportion` is {self._proportion():.3g}"
            raise ValueError(f"{problem}. Give the ratio p/q in x, and the ratio to draws as `correction`.")
        return refining_ratio(self.refine, self.ratio, featurizer)

    def _correction(self, featurizer: FlowFeaturizer) -> AgainstDraws | None:
        """Return the ratio to the draws, if there is one and its held-out score is above that of no correction."""
        correction = self.correction
        if correction is None:
            return None
        if not isinstance(correction, AgainstDraws):
            raise TypeError(f"`correction` is {correction!r}. Give the result of `against_draws(featurizer, X)`.")
        if correction.featurizer.flow_ is not featurizer.flow_:
            advice = "Use the flow of the sampler: `against_draws(ratio.featurizer_, X)`"
            raise ValueError(f"`correction` was fitted to draws of another flow. {advice}.")
        if self._proportion() == 0:
            raise ValueError("`correction` is set, but `ratio` is a ratio to draws already. Leave `correction` out.")
        if self._encoder is not None:
            raise ValueError("`correction` is set, but rows of a table have no correction. Leave it out.")
        if correction.space == "x" and self.refine is None and not self._is_in_x():
            problem = "`correction` was fitted in x, but candidates are weighted in z"
            raise ValueError(f"{problem}. Give a ratio in x as `refine`, or fit the correction with `space='z'`.")
        return correction if correction.is_useful else None

    def _check_settings(self, n: Any, toward: Any) -> None:
        check_count(n, "n")
        check_count(self.n_candidates, "n_candidates", optional=True)
        check_count(self.n_decoded, "n_decoded", optional=True)
        if toward not in ("p", "q", None):
            raise ArgumentError("toward", f"`toward` is {toward!r}. Use 'p', 'q', or None for the mixture of both.")
        check_choice(self.space, "space", ["z", "x"])
        if self.proportion is not None:
            check_proportion(self.proportion)
        is_to_draws = isinstance(self.ratio, AgainstDraws)
        if is_to_draws and self.ratio.space != self.space:
            space = self.ratio.space
            raise ValueError(f"`ratio` was fitted in {space}. Use `space={space!r}`.")
        if (self.proportion == 0 or (is_to_draws and self.proportion is None)) and toward == "q":
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
            check_is_fitted(checked_ratio(self.ratio))
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

    def _is_in_x(self) -> bool:
        """Return whether all candidates are decoded before they are weighted by `ratio`."""
        if self._encoder is not None or self.space == "x":
            return True
        # an `AutoRatio` has ratios of x too, and a `FeaturizedRatio` may have features or a base in x
        return self._is_own() and not (
            isinstance(self.ratio, FeaturizedRatio | JointFeaturizedRatio) and self.ratio.is_latent()
        )

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
        """Return the function from candidates, codes z or decoded rows, to log r, of shape (m,)."""
        ratio, encoder = checked_ratio(self.ratio), self._encoder
        if hasattr(ratio, "fit"):
            check_is_fitted(ratio)
        if encoder is not None:
            return lambda rows: log_ratio(ratio, encoder.encode(rows)[0])
        has_own = isinstance(ratio, FeaturizedRatio | JointFeaturizedRatio)
        if self.space == "z" and has_own and not self._is_own():
            problem = "`ratio` has a flow, and `featurizer` is another one"
            raise ValueError(f"{problem}. Leave `featurizer` out, give a ratio fitted to z, or use `space='x'`.")
        if not self._is_own():
            check_columns(ratio, featurizer, self.space)
        if self._is_in_x():
            return lambda X: log_ratio(ratio, X)
        if isinstance(ratio, JointFeaturizedRatio):
            return lambda Z: evaluate(ratio.network_, Z)[:, 0]
        latent = ratio.ratio_ if isinstance(ratio, FeaturizedRatio) else ratio
        return lambda Z: log_ratio(latent, Z)

    def _proportion(self) -> float:
        if self.proportion is not None:
            return float(self.proportion)
        if isinstance(self.ratio, AgainstDraws):
            return 0.0
        if self._is_own() and getattr(self.ratio, "mixture", "pooled") == "balanced":
            return 0.5
        if not hasattr(self.ratio, "log_odds_"):
            problem = f"`proportion` is None, and {self.ratio!r} has no `log_odds_`"
            raise ValueError(f"{problem}. Give the share of p in the rows that the flow was trained on.")
        return float(expit(self.ratio.log_odds_))

    def _scored(
        self,
        flow: Flow,
        score: Score,
        decode: Callable[[Matrix], Any],
        correction: AgainstDraws | None,
        n: int,
        seed: int,
    ) -> tuple[Vector, Vector]:
        """Return log r of all candidates, and the log of the correction as far as their space allows it, (n,) each."""
        log_r, log_c, is_in_x = np.empty(n), np.zeros(n), self._is_in_x()
        n_batches = sum(1 for _ in chunks(n, flow.n_features))
        with scoring(n_batches, "batches of candidates", self.verbose) as step:
            for part, Z in candidates(flow, n, seed):
                rows = decode(Z) if is_in_x else Z
                log_r[part] = checked_log_r(self.ratio, score(rows), len(Z))
                if correction is not None and (is_in_x or correction.space == "z"):
                    log_c[part] = correction.log_correction(Z, rows)
                step()
        return log_r, log_c

    def _warn_of_depletion(self, n: int, n_effective: float, n_all: int) -> None:
        argument = "n_candidates" if self.refine is None else "n_decoded"
        problem = f"{n} rows were drawn without replacement from {n_effective:.0f} effective candidates of {n_all}"
        remedy = f"Use `{argument}` of {math.ceil(n_all / _LARGEST_SHARE / n_effective)} or more, or `replace=True`."
        words = f"{problem}, so they resemble the mixture of both samples. {remedy}"
        warnings.warn(words, DepletedWarning, stacklevel=4)
