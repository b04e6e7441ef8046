"""The ratio in latent space: an invertible map z = f(x), fitted to both samples, then any estimator on z."""

from __future__ import annotations

from copy import copy, deepcopy
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted, has_fit_parameter
from typing_extensions import Self

from flowratio._support.types import Matrix, Vector
from flowratio._support.validation import RandomState, check_choice, seed_from
from flowratio.flows.base import like
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.base import RatioEstimator, Requires
from flowratio.ratios.categories import names_with_odds
from flowratio.ratios.featurized.base_ratio import base_log_ratio, fit_base, is_better_over_base, n_left, over_base
from flowratio.ratios.neural.network_ratio import NetworkRatio
from flowratio.ratios.registry import fit_prepared, is_additive, log_ratio_prepared, new_ratio, seeded_like
from flowratio.samples.rows import ArrayRows, WeightedRows
from flowratio.samples.two_samples import TwoSamples
from flowratio.scaling import Dequantizer, Gaussianizer, Logit, Scaler, ScalerChain, Standardizer

MIXTURES = ("pooled", "balanced")
FEATURES = ("z", "x+z")
BASES = ("lda", "qda", "additive")  # quick, with few parameters, and close to many ratios
_MAX_BASE_COLUMNS = 100  # QDA has as many parameters as the square of the columns
_FEWEST_LEFT = 20  # effective rows that the base leaves to learn from. With fewer it separates the samples
_MAX_VERSIONS, _MAX_NOISY_ROWS = 5, 50_000  # noisy versions of each row, and rows in all versions


class FeaturizedRatio(RatioEstimator):
    r"""Estimate r = p/q (p is y = 1) in the latent space of a flow that is trained on both samples together.

    .. math:: r(x) = \frac{p(x)}{q(x)}
                   = \frac{p_Z(f(x))\, |\det \partial f|}{q_Z(f(x))\, |\det \partial f|} = r_Z(f(x))

    This is separate training, Algorithm 1 of Choi et al. (2021) [1]_. A flow f is fitted to the mixture of p and q. It
    maps both samples to the latent space, z = f(x), where the mixture is a standard Gaussian. Any method then estimates
    the ratio in latent space, which can be easier.

    `estimator` can also see x next to z. A simple base ratio b can be put underneath, so that only the rest is learned:

    .. math:: \log r(x) = b(x) + \log r_\mathrm{rest}(x, f(x))

    Parameters
    ----------
    estimator
        The estimator in latent space (z): a name (`"logistic"`, `"mlp"`, `"kliep"`, …), a ratio, or any object with
        `fit(X, y)` and `log_ratio(X)`. It is cloned.
    featurizer
        The map. A `FlowFeaturizer`, or a scaler such as `Gaussianizer()`, is cloned and fitted to both samples. A
        fitted one is used unchanged, also by clones of this ratio, so one flow can serve many ratios. None for
        `FlowFeaturizer()`.
    features
        Columns that the estimator gets: `"z"`, as in the paper, or `"x+z"`. None for `"x+z"` if it is the network
        `"mlp"` and the featurizer is a flow without noise, and for `"z"` otherwise.
    base
        A ratio in x underneath, its name, or a list of several, which are combined. They are cross-fitted, so they must
        not be fitted. `"auto"` for LDA, QDA and an additive classifier if the estimator is the network `"mlp"`, the
        featurizer is a flow and x has 100 columns or fewer. It is used if the network is better with it on held-out
        rows. None for no base.
    mixture
        Rows that the map is fitted to: `"pooled"` (every row counts the same) or `"balanced"` (each sample counts one
        half).
    random_state, verbose
        The same seed gives the same results, to the last bit, on the same machine. `estimator` and `featurizer`
        get the same seed if they have none. `verbose` shows progress bars.

    Attributes
    ----------
    featurizer_, ratio_
        The fitted map from x, in the units of the input, to z, with a flow in float64. The fitted estimator in latent
        space.
    features_, base_models_, base_shares_, base_constant_
        The features in use. The fitted base ratios, a list for each with one for each fold, their shares, of shape
        (m,), and what is added to the base. Without a base they are empty and 0.

    Notes
    -----
    If the scaling has noise, such as `"image"`, networks, `"logistic"`, `"kliep"` and `"kmm"` are fitted to five noisy
    versions of each row, which are held out together. With one version a network memorizes the noise.

    References
    ----------
    .. [1] Choi, Liao, Ermon (2021). *Featurized Density Ratio Estimation.* UAI.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X_p, X_q = np.exp(rng.normal(0.5, 1, size=(500, 2))), np.exp(rng.normal(0, 1, size=(500, 2)))
    >>> model = FeaturizedRatio("logistic", featurizer=FlowFeaturizer(max_epochs=10), random_state=0)
    >>> log_r = model.fit_samples(X_p, X_q).log_ratio([[1.0, 1.0]])  # the truth is -1/4
    >>> bool(abs(log_r[0] + 0.25) < 0.25)
    True
    >>> others = [FeaturizedRatio(name, featurizer=model.featurizer_) for name in ("kliep", "ulsif")]  # no other flow
    """

    requires = Requires(units="own")
    featurizer_: FlowFeaturizer | Scaler
    ratio_: Any

    def __init__(
        self,
        estimator: Any = "mlp",
        *,
        featurizer: FlowFeaturizer | Scaler | None = None,
        features: Literal["z", "x+z"] | None = None,
        base: Any = "auto",
        mixture: Literal["pooled", "balanced"] = "pooled",
        random_state: RandomState = None,
        verbose: bool = False,
    ) -> None:
        self.estimator, self.featurizer, self.mixture = estimator, featurizer, mixture
        self.features, self.base = features, base
        self.random_state, self.verbose = random_state, verbose

    def _fit(self, samples: TwoSamples) -> None:
        estimator, seed = self._new_estimator()
        self.featurizer_ = self._fitted_featurizer(samples, seed)  # scaling and flow, p and q pooled
        self.ratio_ = fit_prepared(estimator, self._over_base(samples, estimator, seed))

    def _log_ratio(self, X: Matrix) -> Vector:  # (n, d) -> (n,)
        return self._log_base(X) + log_ratio_prepared(self.ratio_, self._features(X))

    def _over_base(self, samples: TwoSamples, estimator: Any, seed: int) -> TwoSamples:
        """Return what the estimator learns from: rows of its features, with weights over the base if there is one."""
        self.features_ = self.features or ("x+z" if self._is_network_on_flow(estimator) else "z")
        inputs = self._inputs(samples, estimator, seed)
        log_base = self._fit_base(samples, inputs, estimator, seed)
        rest, self.base_constant_ = (inputs, 0.0) if log_base is None else over_base(inputs, log_base)
        return rest

    def _log_base(self, X: Matrix) -> Vector:
        """Return the base of rows, (n, d) to (n,). It is 0 without a base."""
        return base_log_ratio(self.base_models_, self.base_shares_, X) + self.base_constant_

    def is_latent(self) -> bool:
        """Return whether log r is a function of z alone, so that `ratio_` needs no rows of x."""
        return self.features_ == "z" and not self.base_models_

    def _features(self, X: Matrix, rng: np.random.Generator | None = None) -> Matrix:
        """Return the columns that the estimator gets, (n, d) to (n, d_z) or (n, d + d_z)."""
        Z = encoded(self.featurizer_, X, rng)
        return Z if self.features_ == "z" else np.hstack([X, Z])

    def mixture_flow(self) -> FlowFeaturizer | None:
        """Return the flow, if the map is one."""
        return self.featurizer_ if isinstance(self.featurizer_, FlowFeaturizer) else None

    def is_additive(self) -> bool:
        parts = [self.estimator, *self._named_bases()]
        return _is_columnwise(self.featurizer) and all(map(is_additive, parts))

    def _new_estimator(self) -> tuple[Any, int]:
        """Check the settings before a flow is trained. Return the unfitted estimator in latent space and the seed."""
        check_choice(self.mixture, "mixture", MIXTURES)
        if self.features is not None:
            check_choice(self.features, "features", FEATURES)
        seed = seed_from(self.random_state)
        estimator = new_ratio(self.estimator, seed, self.verbose, "estimator")
        self._check_base(estimator)
        return estimator, seed

    def _fitted_featurizer(self, samples: TwoSamples, seed: int) -> FlowFeaturizer | Scaler:
        if is_fitted(self.featurizer):
            return in_float64(check_featurizer(self.featurizer, samples))
        unfitted = FlowFeaturizer() if self.featurizer is None else clone(_check_type(self.featurizer))
        featurizer, rows = seeded_like(unfitted, seed, self.verbose), mixture_rows(samples, self.mixture)
        if isinstance(featurizer, FlowFeaturizer):
            return in_float64(featurizer.fit(rows))
        featurizer.fit_array(next(rows.blocks(rows.n_rows)), samples.names)  # without warnings
        if samples.names is not None:
            featurizer.feature_names_in_ = np.array(samples.names, dtype=object)
        return featurizer

    def _is_network_on_flow(self, estimator: Any) -> bool:
        """Return whether x and a base are added by default. With noise z is another space than x."""
        on_flow = isinstance(self.featurizer_, FlowFeaturizer) and not self.featurizer_.scaler_.stochastic
        return on_flow and isinstance(estimator, NetworkRatio) and estimator.network == "mlp"

    def _named_bases(self) -> list[Any]:
        """Return the base ratios that the user names."""
        if self.base is None or (isinstance(self.base, str) and self.base == "auto"):
            return []
        return list(self.base) if isinstance(self.base, list | tuple) else [self.base]

    def _check_base(self, estimator: Any) -> None:
        for ratio in self._named_bases():
            if not isinstance(ratio, str) and is_fitted(ratio):
                problem = f"`base` has {ratio!r}, which is fitted. It is too good on the rows that it was fitted to"
                raise ValueError(f"{problem}. Use an unfitted ratio, which is cross-fitted.")
            if ratio is None:
                raise TypeError(f"`base` is {self.base!r}. Use ratios or their names, or None for no base.")
            new_ratio(ratio, 0, argument="base")
            if not (isinstance(estimator, RatioEstimator) or has_fit_parameter(estimator, "sample_weight")):
                problem = f"`base` is set, but {estimator!r} takes no weights"
                raise ValueError(f"{problem}. Use `base=None`, or an estimator with `fit(X, y, sample_weight)`.")

    def _fit_base(self, samples: TwoSamples, inputs: TwoSamples, estimator: Any, seed: int) -> Vector | None:
        """Cross-fit the base. Return its log r of the rows of `inputs`. None without a base."""
        self.base_models_, self.base_shares_ = [], np.zeros(0)
        ratios = self._named_bases()
        automatic = isinstance(self.base, str) and self.base == "auto" and self._is_network_on_flow(estimator)
        if automatic and samples.X.shape[1] <= _MAX_BASE_COLUMNS:
            ratios = list(BASES)
        base = fit_base(ratios, samples, seed) if ratios else None
        if base is None or not base.models or n_left(samples, base.log_r) < _FEWEST_LEFT:
            return None
        n_versions = len(inputs.X) // len(samples.X)
        log_base = np.concatenate([np.tile(base.log_r[part], n_versions) for part in samples.parts])
        if automatic and not is_better_over_base(lambda: clone(estimator), inputs, log_base, seed):
            return None
        self.base_models_, self.base_shares_ = base.models, base.shares
        return log_base

    def _inputs(self, samples: TwoSamples, estimator: Any, seed: int) -> TwoSamples:
        """Return what the estimator gets, several times if the scaling has noise and it asks for several versions."""
        scaler = self.featurizer_.scaler_ if isinstance(self.featurizer_, FlowFeaturizer) else self.featurizer_
        several = scaler.stochastic and isinstance(estimator, RatioEstimator) and estimator.requires.noise
        n_versions = min(max(_MAX_NOISY_ROWS // len(samples.X), 1), _MAX_VERSIONS) if several else 1
        noisy_map = partial(self._features, rng=np.random.default_rng([seed, 6]))
        return samples.mapped(*[noisy_map] * n_versions)

    def __sklearn_clone__(self) -> Self:
        """Clone, but share a fitted featurizer."""
        twin: Any = super().__sklearn_clone__()
        if is_fitted(self.featurizer):
            twin.featurizer = copy(self.featurizer)
        return twin

    def set_params(self, **params: Any) -> Self:
        """Set settings, also those of `estimator` and `featurizer`, as `estimator__…` and `featurizer__…`."""
        for name, example in (("estimator", "ClassifierRatio('boosting')"), ("featurizer", "FlowFeaturizer()")):
            nested = next((key for key in params if key.startswith(f"{name}__")), None)
            value = params.get(name, getattr(self, name))
            if nested and name == "featurizer" and is_fitted(value):
                problem = f"`{nested}` is set, but `featurizer` is fitted and is used unchanged"
                raise ValueError(f"{problem}. Use an unfitted one, such as `clone(featurizer)`.")
            if nested and not hasattr(value, "set_params"):
                problem = f"`{nested}` is set, but `{name}` is {value!r}, which has no settings"
                raise ValueError(f"{problem}. Use an object, such as `{example}`.")
        return super().set_params(**params)


def is_fitted(featurizer: Any) -> bool:
    """Return whether a featurizer is fitted. None is not."""
    try:
        check_is_fitted(featurizer)
    except (NotFittedError, TypeError):
        return False
    return True


def _is_columnwise(featurizer: Any) -> bool:
    """Return whether a map works column by column, unlike a flow and a `Whitener`."""
    if isinstance(featurizer, ScalerChain):
        return all(map(_is_columnwise, featurizer.steps))
    return isinstance(featurizer, Standardizer | Gaussianizer | Dequantizer | Logit)


def _check_type(featurizer: Any) -> Any:
    """Refuse what is neither a flow nor a scaler of flowratio."""
    if not isinstance(featurizer, FlowFeaturizer | Scaler):
        advice = "Use a `FlowFeaturizer`, a scaler of flowratio, such as `Gaussianizer()`, or None for a default flow."
        raise TypeError(f"`featurizer` is {featurizer!r}. {advice}")
    return featurizer


def mixture_rows(samples: TwoSamples, mixture: str) -> ArrayRows:
    """Return the rows that a map is fitted to, with the weights that they have in the mixture."""
    w = samples.w
    if mixture == "balanced":
        total_p, total_q = samples.w_p.sum(), samples.w_q.sum()
        w = w * np.where(samples.y == 1, total_q, total_p) / (total_p + total_q) * 2
    rows = ArrayRows(samples.X) if (w == w[0]).all() else WeightedRows(samples.X, w)
    rows.feature_names = None if samples.names is None else list(samples.names)
    return rows


def encoded(featurizer: FlowFeaturizer | Scaler, X: Matrix, rng: np.random.Generator | None = None) -> Matrix:
    """Map checked rows to z, (n, d) to (n, d_z). Noise is drawn from `rng`. Without it there is no noise."""
    return featurizer.encode(X, rng) if isinstance(featurizer, FlowFeaturizer) else featurizer.forward(X, rng)[0]


def in_float64(featurizer: Any) -> Any:
    """Return a featurizer whose flow is in float64: the last digits of float32 depend on how rows are batched."""
    if not isinstance(featurizer, FlowFeaturizer) or like(featurizer.flow_).dtype == torch.float64:
        return featurizer
    exact = copy(featurizer)
    exact.flow_ = deepcopy(featurizer.flow_).double().eval()
    return exact


def check_featurizer(featurizer: Any, samples: TwoSamples) -> Any:
    """Refuse a fitted featurizer of another type, or one that was fitted to other columns."""
    _check_type(featurizer)
    # each column of codes becomes two columns before the map
    d, names = samples.X.shape[1] + len(samples.codes), getattr(featurizer, "feature_names_in_", None)
    if featurizer.n_features_in_ != d:
        problem = f"`featurizer` was fitted to {featurizer.n_features_in_} columns, but `X` has {d}"
        raise ValueError(f"{problem}. Fit it to these columns, or use an unfitted one.")
    columns = None if samples.names is None else names_with_odds(samples.names, samples.codes)
    if columns is not None and names is not None and list(columns) != list(names):
        pairs = zip(columns, names, strict=True)
        others = [f"{ours!r} instead of {theirs!r}" for ours, theirs in pairs if ours != theirs]
        problem = f"`featurizer` was fitted to other columns: `X` has {', '.join(others[:8])}"
        raise ValueError(f"{problem}. Put the columns in the order of that fit, or use an unfitted featurizer.")
    return featurizer
