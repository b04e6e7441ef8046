"""Flow and ratio trained together: the loss is that of a classifier of z, plus the likelihood of the flow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor, nn
from torch.nn.functional import softplus

from flowratio._support.types import Matrix, Vector
from flowratio._support.validation import RandomState, check_choice, check_hidden, is_number, seed_from
from flowratio.flows import Flow
from flowratio.flows.base import like
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.base import RatioEstimator, Requires
from flowratio.ratios.featurized.featurized import FEATURES, MIXTURES, encoded, in_float64, is_fitted, mixture_rows
from flowratio.ratios.neural.ensemble import SmoothEnsemble
from flowratio.ratios.neural.network_ratio import HIDDEN
from flowratio.ratios.neural.networks import MAX_HELD_OUT, MLP, SETTLE, PairedRows, choose_hidden, evaluate
from flowratio.ratios.registry import seeded_like
from flowratio.samples.two_samples import TwoSamples
from flowratio.scaling.base import Scaler
from flowratio.training.loop import train
from flowratio.training.run import Callback, History


class JointFeaturizedRatio(RatioEstimator):
    r"""Estimate r = p/q (p is y = 1) by a flow and a network on its latent space that are trained together.

    .. math:: L = \alpha\, L_\mathrm{sup} + (1 - \alpha)\, L_\mathrm{flow}, \qquad
              L_\mathrm{flow} = -\mathrm{mean} \log p_f(x)

    .. math:: L_\mathrm{sup} = \tfrac12 \mathrm{mean}_p \log(1 + e^{-g(f(x))})
                             + \tfrac12 \mathrm{mean}_q \log(1 + e^{g(f(x))})

    This is the joint training of Choi et al. (2021) [1]_. L_sup is the loss of a classifier of z = f(x), whose logit is
    log r. `alpha=1` is their discriminative training, after which z need not be Gaussian.

    Parameters
    ----------
    alpha
        Weight of the classifier, above 0 and at most 1.
    featurizer
        An unfitted `FlowFeaturizer`, for its flow, scaling and training settings. It is cloned. None for a default one.
    network, features
        `"mlp"` or `"relu"`, as in `NetworkRatio`, and the columns that it gets: `"z"`, as in the paper, or `"x+z"`,
        with scaled x. None for `"x+z"` with `"mlp"` and for `"z"` with `"relu"`.
    hidden
        Widths of the hidden layers of the classifier, by default as in `NetworkRatio`.
    mixture
        Rows of L_flow: `"pooled"` (every row counts the same) or `"balanced"` (each sample counts one half).
    random_state, callback, verbose
        As in `NetworkRatio`. `featurizer` gets the same seed if it has none. The callback gets flow and network
        as one module.

    Attributes
    ----------
    featurizer_
        The fitted map from x, in the units of the input, to z, with a flow in float64.
    network_, history_
        The fitted classifier in latent space, whose output is log r, and the losses by epoch, with `plot`.

    References
    ----------
    .. [1] Choi, Liao, Ermon (2021). *Featurized Density Ratio Estimation.* UAI.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X_p, X_q = rng.normal(0.5, 1, size=(500, 2)), rng.normal(0, 1, size=(500, 2))
    >>> model = JointFeaturizedRatio(featurizer=FlowFeaturizer(max_epochs=20, patience=3), random_state=0)
    >>> log_r = model.fit_samples(X_p, X_q).log_ratio([[1.0, 1.0]])  # the truth is 3/4
    >>> bool(abs(log_r[0] - 0.75) < 0.3), model.featurizer_.transform(X_q).shape
    (True, (500, 2))
    """

    requires = Requires(units="own")
    featurizer_: FlowFeaturizer

    def __init__(
        self,
        alpha: float = 0.5,
        *,
        featurizer: FlowFeaturizer | None = None,
        network: Literal["mlp", "relu"] = "mlp",
        features: Literal["z", "x+z"] | None = None,
        hidden: Sequence[int] | None = None,
        mixture: Literal["pooled", "balanced"] = "pooled",
        random_state: RandomState = None,
        callback: Callback | None = None,
        verbose: bool = False,
    ) -> None:
        self.alpha, self.featurizer, self.hidden, self.mixture = alpha, featurizer, hidden, mixture
        self.network, self.features = network, features
        self.random_state, self.callback, self.verbose = random_state, callback, verbose

    def _fit(self, samples: TwoSamples) -> None:
        self._check_settings()
        seed = seed_from(self.random_state)
        unfitted: Any = FlowFeaturizer() if self.featurizer is None else clone(self.featurizer)
        rows = mixture_rows(samples, self.mixture)
        featurizer = seeded_like(unfitted, seed, self.verbose).initialize(rows)
        self.features_ = self.features or ("x+z" if self.network == "mlp" else "z")
        network = self._new_network(featurizer.flow_, samples, seed)
        self.history_ = self._train(featurizer, network, samples, seed)
        featurizer.history_ = self.history_
        self.featurizer_, self.network_ = in_float64(featurizer), network.double().eval()

    def _new_network(self, flow: Flow, samples: TwoSamples, seed: int) -> MLP | SmoothEnsemble:
        d, generator = flow.n_features * (2 if self.features_ == "x+z" else 1), torch.Generator().manual_seed(seed)
        if self.network == "mlp":
            return SmoothEnsemble(d, self.hidden or HIDDEN, generator=generator).to(like(flow).device)
        hidden = self.hidden or choose_hidden(samples.n_least, flow.n_features)
        return MLP(d, hidden, generator=generator).to(like(flow).device)

    def is_latent(self) -> bool:
        """Return whether log r is a function of z alone."""
        return self.features_ == "z"

    def _train(
        self, featurizer: FlowFeaturizer, network: MLP | SmoothEnsemble, samples: TwoSamples, seed: int
    ) -> History:
        flow, scaler, n_p = featurizer.flow_, featurizer.scaler_, samples.n_p
        share = torch.tensor([0.5, 0.5])
        if self.mixture == "pooled":
            share = torch.tensor([samples.w_p.sum(), samples.w_q.sum()]) / samples.w.sum()
        prepare = partial(_scaled_pairs, scaler) if scaler.stochastic else None  # new noise in every pass
        X = samples.X if scaler.stochastic else featurizer.scaled(samples.X)
        pairs = PairedRows(X[:n_p], samples.w_p, X[n_p:], samples.w_q)
        n_held_out = min(round(featurizer.validation_fraction * pairs.n_rows), MAX_HELD_OUT)
        rest, held_out = pairs.split(n_held_out, np.random.default_rng([seed, 0, 2]))
        recipe = featurizer.recipe_for(2 * rest.n_rows, flow.n_features)
        return train(
            nn.ModuleList([flow, network]),
            _JointLoss(flow, network, self.features_, float(self.alpha), share.to(like(flow))),
            rest,
            held_out,
            replace(recipe, batch_size=max(1, recipe.batch_size // 2), settle=SETTLE),
            seed=seed,
            prepare=prepare,
            verbose=featurizer.verbose,
            checkpoint=featurizer.checkpoint,
            callback=self.callback,
        )

    def _log_ratio(self, X: Matrix) -> Vector:
        Z = encoded(self.featurizer_, X)
        inputs = Z if self.features_ == "z" else np.hstack([self.featurizer_.scaler_.forward(X)[0], Z])
        return evaluate(self.network_, inputs)[:, 0]

    def _check_settings(self) -> None:
        if is_number(self.alpha) and self.alpha == 0:
            raise ValueError("`alpha` is 0, which leaves the ratio out of the training. Use `FeaturizedRatio`.")
        if not (is_number(self.alpha) and 0 < self.alpha <= 1):
            raise ValueError(f"`alpha` is {self.alpha!r}. Use a number above 0 and at most 1.")
        check_hidden(self.hidden)
        check_choice(self.mixture, "mixture", MIXTURES)
        check_choice(self.network, "network", ("mlp", "relu"))
        if self.features is not None:
            check_choice(self.features, "features", FEATURES)
        if self.featurizer is not None and not isinstance(self.featurizer, FlowFeaturizer):
            raise TypeError(f"`featurizer` is {self.featurizer!r}. Use a `FlowFeaturizer`, or None for a default one.")
        if is_fitted(self.featurizer) or isinstance(getattr(self.featurizer, "flow", None), nn.Module):
            problem = "`featurizer` is fitted or has a pretrained flow, but joint training trains the flow"
            raise ValueError(f"{problem}. Use an unfitted featurizer, or `FeaturizedRatio`.")


class _JointLoss:
    """The loss of scaled pairs of a row of p and a row of q, (b, 2 d). `share` is that of each in the mixture, (2,)."""

    def __init__(self, flow: Flow, network: MLP | SmoothEnsemble, features: str, alpha: float, share: Tensor) -> None:
        self.flow, self.network, self.features = flow, network, features
        self.alpha, self.share = alpha, share
        self.sign = torch.tensor([-1.0, 1.0], device=share.device)

    def __call__(self, pairs: Tensor) -> Tensor:
        x = pairs.view(-1, self.flow.n_features)
        z, log_det = self.flow(x)
        inputs = z if self.features == "z" else torch.cat([x, z], dim=1)
        network = self.network
        logits = network.members(inputs) if isinstance(network, SmoothEnsemble) else network(inputs)
        loss = self.alpha * softplus(self.sign * logits.view(-1, 2)).mean()
        if self.alpha < 1:
            log_p = (self.flow.base_log_prob(z) + log_det).view(-1, 2) @ self.share
            loss = loss - (1 - self.alpha) * log_p.mean()
        return loss


def _scaled_pairs(scaler: Scaler, pairs: Matrix, rng: np.random.Generator) -> Matrix:
    scaled, _ = scaler.forward(pairs.reshape(2 * len(pairs), -1), rng)
    return scaled.reshape(len(pairs), -1).astype(np.float32)
