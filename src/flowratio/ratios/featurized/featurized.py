r"""The ratio in latent space: an invertible map z = f(x), learned from both samples, then any ratio of z.

.. math:: r(x) = \frac{p(x)}{q(x)}
               = \frac{p_Z(f(x))\, |\det \partial f|}{q_Z(f(x))\, |\det \partial f|} = r_Z(f(x))
"""

from __future__ import annotations

import warnings
from copy import copy, deepcopy
from typing import Any, Literal

import numpy as np
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted
from typing_extensions import Self

from flowratio._support.validation import RandomState, seed_from
from flowratio.flows.base import like
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.base import OverlapWarning, RatioEstimator
from flowratio.ratios.registry import fitted, new_ratio, seeded_like, with_those_inside
from flowratio.samples.rows import ArrayRows, WeightedRows
from flowratio.scaling.base import Scaler

_MOST_DRAWS, _NOISY_ROWS = 5, 50_000  # of the noise for each row, and how many rows they may come to


class FeaturizedRatio(RatioEstimator):
    """Estimate r = p/q (p is y = 1) in the latent space of a flow that was trained on both samples together.

    Separate training of Choi et al. (2021), Algorithm 1: a flow f is fitted to the mixture of p and q, both samples are
    mapped to z = f(x), and any method estimates the ratio of z. The map is invertible, so that the ratio is the same.
    What changes is the geometry in which it is learned: together the samples are a standard normal there. No divergence
    between them becomes smaller. `AutoRatio` tells whether the map helps.

    Behind a scaling with noise, such as `"image"`, networks, `"logistic"`, `"kliep"` and `"kmm"` are fitted to up to
    five draws of it for each row, and hold a row out in all of them: with one draw a network learns the noise by heart.
    Other ratios, which hold out or count each draw as a row, have one. With none they would know no z that the flow
    draws.

    Parameters
    ----------
    ratio
        The ratio of z: a name (`"logistic"`, `"quadratic"`, `"boosting"`, `"mlp"`, `"kmm"`, `"kliep"`, `"ulsif"`,
        `"rulsif"`, `"telescoping"`, …), a ratio, or any object with `fit(X, y)` and `log_ratio(X)`. It is cloned.
    featurizer
        The map. A `FlowFeaturizer`, or a scaler such as `Gaussianizer()`, is cloned and fitted to both samples. One
        that is fitted already is used as it is, also by clones of this ratio: one flow can serve many ratios. None for
        `FlowFeaturizer()`.
    mixture
        What the map is fitted to: `"pooled"`, all rows alike, or `"balanced"`, both samples in equal parts.
    random_state
        Seed: the same gives the same bits on the same machine. It fills in that of `ratio` and `featurizer` where these
        have none. Global generators are never used.
    verbose
        Whether to show progress bars.

    Attributes
    ----------
    featurizer_
        The fitted map, from x in its own units to z, with `transform`; a flow is in float64. A `FlowFeaturizer` has
        also `score_samples`, the log-density of the mixture, and `sample`.
    ratio_
        The fitted ratio of z.

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

    featurizer_: FlowFeaturizer | Scaler
    ratio_: Any
    _own_units = True

    def __init__(
        self,
        ratio: Any = "mlp",
        *,
        featurizer: FlowFeaturizer | Scaler | None = None,
        mixture: Literal["pooled", "balanced"] = "pooled",
        random_state: RandomState = None,
        verbose: bool = False,
    ) -> None:
        self.ratio = ratio
        self.featurizer = featurizer
        self.mixture = mixture
        self.random_state = random_state
        self.verbose = verbose

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings; with `deep` also those of `ratio` and `featurizer`, as `ratio__…`."""
        return with_those_inside(super().get_params(deep), vars(self)["ratio"], deep)

    def __sklearn_clone__(self) -> Self:
        """Clone, but for a featurizer that is fitted: clones share what was fitted."""
        made: Any = super().__sklearn_clone__()
        if is_fitted(self.featurizer):
            made.featurizer = copy(self.featurizer)
        return made

    def set_params(self, **params: Any) -> Self:
        """Set settings, also those of `ratio` and `featurizer`, as `ratio__…` and `featurizer__…`."""
        inside = [name for name in params if name.startswith("featurizer__")]
        if inside and is_fitted(params.get("featurizer", self.featurizer)):
            raise ValueError(
                f"`{inside[0]}` is given, but `featurizer` is fitted already, and is used as it is: give one that is "
                "not, such as `clone(featurizer)`."
            )
        for of, given in (("ratio", vars(self)["ratio"]), ("featurizer", self.featurizer)):
            inside = [name for name in params if name.startswith(f"{of}__")]
            if inside and not hasattr(params.get(of, given), "set_params"):
                made = "ClassifierRatio('boosting')" if of == "ratio" else "FlowFeaturizer()"
                raise ValueError(
                    f"`{inside[0]}` is given, but `{of}` is {params.get(of, given)!r}, which has no settings: give an "
                    f"object, such as `{made}`."
                )
        return super().set_params(**params)

    def _fit(self, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> None:
        seed = seed_from(self.random_state)
        ratio = new_ratio(vars(self)["ratio"], seed, self.verbose)
        check_mixture(self.mixture)
        names = getattr(self, "feature_names_in_", None)
        if is_fitted(self.featurizer):
            self.featurizer_ = in_float64(check_columns(self.featurizer, X.shape[1], names))
        else:
            self.featurizer_ = self._fitted_map(X, mixed(y, w, self.mixture), names, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverlapWarning)  # it is told once, of this ratio
            draws = self._draws(X, ratio, np.random.default_rng([seed, 6]))
            self.ratio_ = fitted(ratio, draws[0], y, w) if len(draws) == 1 else ratio.fit_draws(draws, y, w)

    def _draws(self, X: np.ndarray, ratio: Any, rng: np.random.Generator) -> list[np.ndarray]:
        """Return z of the rows, (n, d_z), with several draws of the noise if the scaling has any and the ratio may."""
        scaler = self.featurizer_.scaler_ if isinstance(self.featurizer_, FlowFeaturizer) else self.featurizer_
        several = scaler.stochastic and getattr(ratio, "_takes_draws", False)
        n_draws = min(max(_NOISY_ROWS // len(X), 1), _MOST_DRAWS) if several else 1
        return [encoded(self.featurizer_, X, rng) for _ in range(n_draws)]

    def _fitted_map(self, X: np.ndarray, w: np.ndarray, names: np.ndarray | None, seed: int) -> FlowFeaturizer | Scaler:
        given = self.featurizer
        if given is not None and not isinstance(given, FlowFeaturizer | Scaler):
            raise TypeError(
                f"`featurizer` is {given!r}: give a `FlowFeaturizer`, a scaler of flowratio, such as `Gaussianizer()`, "
                "or None for a default flow."
            )
        made: Any = seeded_like(FlowFeaturizer() if given is None else clone(given), seed, self.verbose)
        rows = weighted(X, w, names)
        if isinstance(made, FlowFeaturizer):
            return in_float64(made.fit(rows))
        made.fit_array(next(rows.blocks(rows.n_rows)), names)
        if names is not None:
            made.feature_names_in_ = names
        return made

    def _log_ratio(self, X: np.ndarray) -> np.ndarray:
        log_r = np.asarray(self.ratio_.log_ratio(encoded(self.featurizer_, X)), np.float64)
        if log_r.shape != (len(X),) or not np.isfinite(log_r).all():
            raise ValueError(
                f"`log_ratio` of {self.ratio_!r} gave {log_r.shape} values for {len(X)} rows, "
                f"{np.count_nonzero(~np.isfinite(log_r))} of them not finite: it must give one finite number a row."
            )
        return log_r


def is_fitted(featurizer: Any) -> bool:
    """Return whether a featurizer was fitted before it was given."""
    if featurizer is None:
        return False
    try:
        check_is_fitted(featurizer)
    except (NotFittedError, TypeError):
        return False
    return True


def check_mixture(mixture: Any) -> None:
    """Refuse what is no mixture that a map can be fitted to."""
    if mixture not in ("pooled", "balanced"):
        raise ValueError(f"`mixture` is {mixture!r}: give 'pooled' or 'balanced'.")


def mixed(y: np.ndarray, w: np.ndarray, mixture: str) -> np.ndarray:
    """Return the weights of rows in the mixture that a map is fitted to, of shape (n,)."""
    if mixture == "pooled":
        return w
    total_q, total_p = np.bincount(y, w)
    return w * np.where(y == 1, total_q, total_p) / (total_p + total_q) * 2


def weighted(X: np.ndarray, w: np.ndarray, names: np.ndarray | None) -> ArrayRows:
    """Return rows that come as often as their weights say, and have names if there are any."""
    rows = ArrayRows(X) if (w == w[0]).all() else WeightedRows(X, w)
    rows.feature_names = None if names is None else list(names)
    return rows


def encoded(featurizer: FlowFeaturizer | Scaler, X: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
    """Map sound rows to z, (n, d) to (n, d_z).

    Parameters
    ----------
    featurizer, X
        The map and rows of x.
    rng
        Of the noise of a scaling that has some. A ratio of z that is fitted without it knows the middles of cells
        alone, where draws of the flow never are.
    """
    return featurizer.encode(X, rng) if isinstance(featurizer, FlowFeaturizer) else featurizer.forward(X, rng)[0]


def in_float64(featurizer: Any) -> Any:
    """Return a featurizer whose flow is in float64: the last digits of float32 hang on the rows beside a row."""
    if not isinstance(featurizer, FlowFeaturizer) or like(featurizer.flow_).dtype == torch.float64:
        return featurizer
    exact = copy(featurizer)
    exact.flow_ = deepcopy(featurizer.flow_).double().eval()
    return exact


def check_columns(featurizer: Any, d: int, names: np.ndarray | None) -> Any:
    """Refuse a fitted featurizer of other columns."""
    if not isinstance(featurizer, FlowFeaturizer | Scaler):
        raise TypeError(f"`featurizer` is {featurizer!r}: give a `FlowFeaturizer` or a scaler.")
    known = getattr(featurizer, "feature_names_in_", None)
    if featurizer.n_features_in_ != d:
        raise ValueError(
            f"`featurizer` was fitted to {featurizer.n_features_in_} columns, but `X` has {d}: fit it to these "
            "columns, or give one that is not fitted, such as `FlowFeaturizer()`."
        )
    if names is not None and known is not None and list(names) != list(known):
        other = [f"{a!r} in place of {b!r}" for a, b in zip(names, known, strict=True) if a != b]
        raise ValueError(
            f"`featurizer` was fitted to other columns than `X` has: {', '.join(other[:8])}. Give the columns in the "
            "order in which it was fitted, or a featurizer that is not fitted."
        )
    return featurizer
