r"""Flow and ratio in one training: a classifier of z decides beside the likelihood how the flow maps x.

.. math:: L = \alpha\, L_\mathrm{sup} + (1 - \alpha)\, L_\mathrm{flow}, \qquad
          L_\mathrm{flow} = -\mathrm{mean} \log p_f(x)

.. math:: L_\mathrm{sup} = \tfrac12 \mathrm{mean}_p \log(1 + e^{-g(f(x))})
                         + \tfrac12 \mathrm{mean}_q \log(1 + e^{g(f(x))})
"""

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

from flowratio._support.validation import RandomState, check_hidden, is_number, seed_from
from flowratio.flows import Flow
from flowratio.flows.base import like
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.base import RatioEstimator
from flowratio.ratios.featurized.featurized import check_mixture, encoded, in_float64, is_fitted, mixed, weighted
from flowratio.ratios.neural.networks import MLP, SETTLE, PairedRows, choose_hidden, evaluate
from flowratio.ratios.registry import seeded_like
from flowratio.scaling.base import Scaler
from flowratio.training.loop import train
from flowratio.training.run import History

_MAX_HELD_OUT = 20_000  # rows of a sample


class JointFeaturizedRatio(RatioEstimator):
    r"""Estimate r = p/q (p is y = 1) by a flow and a network of its latent space that are trained together.

    .. math:: \alpha\, L_\mathrm{sup} + (1 - \alpha)\, L_\mathrm{flow}

    The joint and, with `alpha=1`, the discriminative training of Choi et al. (2021): L_sup is the loss of a classifier
    of z = f(x), whose logit is log r, and L_flow the negative log-likelihood of the flow. The flow runs once a step for
    both. With `alpha=1` nothing keeps z normal: the flow is an invertible network before the classifier.

    Parameters
    ----------
    alpha
        Weight of the classifier, above 0 and at most 1.
    featurizer
        The `FlowFeaturizer` whose flow, scaling and training settings are used; it is cloned, and one that is fitted is
        refused. None for a default one.
    hidden
        Widths of the hidden layers of the classifier; three of 32 to 200 units if None, as in `ClassifierRatio`.
    mixture
        What L_flow is of: `"pooled"`, all rows alike, or `"balanced"`, both samples in equal parts.
    random_state
        Seed: the same gives the same bits on the same machine. It fills in that of `featurizer`, if this has none.
        Global generators are never used.
    verbose
        Whether to show a progress bar.

    Attributes
    ----------
    featurizer_
        The fitted map, from x in its own units to z, in float64, with `transform`, `inverse_transform`,
        `score_samples` and `sample`.
    network_
        The fitted classifier of z; its output is log r.
    history_
        Losses by epoch, with `plot`.

    References
    ----------
    .. [1] Choi, Liao, Ermon (2021). *Featurized Density Ratio Estimation.* UAI.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X_p, X_q = rng.normal(0.5, 1, size=(500, 2)), rng.normal(0, 1, size=(500, 2))
    >>> model = JointFeaturizedRatio(featurizer=FlowFeaturizer(max_epochs=20, patience=3), random_state=0)
    >>> log_r = model.fit_samples(X_p, X_q).log_ratio([[1.0, 1.0]])  # the truth is 3/4
    >>> bool(abs(log_r[0] - 0.75) < 0.3)
    True
    >>> model.featurizer_.transform(X_q).shape
    (500, 2)
    """

    featurizer_: FlowFeaturizer
    network_: MLP
    history_: History
    _own_units = True

    def __init__(
        self,
        alpha: float = 0.5,
        *,
        featurizer: FlowFeaturizer | None = None,
        hidden: Sequence[int] | None = None,
        mixture: Literal["pooled", "balanced"] = "pooled",
        random_state: RandomState = None,
        verbose: bool = False,
    ) -> None:
        self.alpha = alpha
        self.featurizer = featurizer
        self.hidden = hidden
        self.mixture = mixture
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> None:
        self._check_settings()
        seed = seed_from(self.random_state)
        featurizer = self._initialized(X, mixed(y, w, self.mixture), seed)
        flow = featurizer.flow_
        hidden = self.hidden or choose_hidden(int(min(y.sum(), (1 - y).sum())), flow.n_features)
        network = MLP(flow.n_features, hidden, generator=torch.Generator().manual_seed(seed)).to(like(flow).device)
        share = torch.tensor([0.5, 0.5])
        if self.mixture == "pooled":
            share = torch.tensor([w[y == 1].sum(), w[y == 0].sum()]) / w.sum()
        loss = _JointLoss(flow, network, float(self.alpha), share.to(like(flow)))
        scaler, prepare = featurizer.scaler_, None
        if scaler.stochastic:  # noise is drawn anew in every pass
            prepare = partial(_scaled_pairs, scaler)
        else:
            X = featurizer.scaled(X)
        pairs = PairedRows(X[y == 1], w[y == 1], X[y == 0], w[y == 0])
        n_held_out = min(round(featurizer.validation_fraction * pairs.n_rows), _MAX_HELD_OUT)
        rest, held_out = pairs.split(n_held_out, np.random.default_rng([seed, 0, 2]))
        recipe = featurizer.recipe_for(2 * rest.n_rows, flow.n_features)
        self.history_ = train(
            nn.ModuleList([flow, network]),
            loss,
            rest,
            held_out,
            replace(recipe, batch_size=max(1, recipe.batch_size // 2), settle=SETTLE),
            seed=seed,
            prepare=prepare,
            verbose=featurizer.verbose,
            checkpoint=featurizer.checkpoint,
            callback=featurizer.callback,
        )
        featurizer.history_ = self.history_
        self.featurizer_, self.network_ = in_float64(featurizer), network

    def _initialized(self, X: np.ndarray, w: np.ndarray, seed: int) -> FlowFeaturizer:
        made: Any = FlowFeaturizer() if self.featurizer is None else clone(self.featurizer)
        rows = weighted(X, w, getattr(self, "feature_names_in_", None))
        return seeded_like(made, seed, self.verbose).initialize(rows)

    def _log_ratio(self, X: np.ndarray) -> np.ndarray:
        return evaluate(self.network_, encoded(self.featurizer_, X))[:, 0]

    def _check_settings(self) -> None:
        if is_number(self.alpha) and self.alpha == 0:
            raise ValueError(
                "`alpha` is 0, which leaves the ratio out of the training: use `FeaturizedRatio`, which trains the "
                "flow first and the ratio after it."
            )
        if not (is_number(self.alpha) and 0 < self.alpha <= 1):
            raise ValueError(f"`alpha` is {self.alpha!r}: give a number above 0 and at most 1.")
        check_hidden(self.hidden)
        check_mixture(self.mixture)
        given = self.featurizer
        if given is not None and not isinstance(given, FlowFeaturizer):
            raise TypeError(f"`featurizer` is {given!r}: give a `FlowFeaturizer`, or None for a default one.")
        if is_fitted(given) or isinstance(getattr(given, "flow", None), nn.Module):
            raise ValueError(
                "`featurizer` is fitted already, or has a pretrained flow, but joint training trains the flow: use "
                "`FeaturizedRatio`, or give a featurizer that is not fitted."
            )


class _JointLoss:
    """The loss of a batch of scaled pairs, a row of p beside a row of q, (b, 2 d).

    Parameters
    ----------
    flow, network
        The map, and the classifier of z.
    alpha
        Weight of the classifier.
    share
        Shares of p and q in the mixture, of shape (2,).
    """

    def __init__(self, flow: Flow, network: MLP, alpha: float, share: Tensor) -> None:
        self.flow, self.network, self.alpha, self.share = flow, network, alpha, share
        self.sign = torch.tensor([-1.0, 1.0], device=share.device)

    def __call__(self, pairs: Tensor) -> Tensor:
        z, log_det = self.flow(pairs.view(-1, self.flow.n_features))
        loss = self.alpha * softplus(self.sign * self.network(z).view(-1, 2)).mean()
        if self.alpha < 1:
            log_p = (self.flow.base_log_prob(z) + log_det).view(-1, 2) @ self.share
            loss = loss - (1 - self.alpha) * log_p.mean()
        return loss


def _scaled_pairs(scaler: Scaler, pairs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    scaled, _ = scaler.forward(pairs.reshape(2 * len(pairs), -1), rng)
    return scaled.reshape(len(pairs), -1).astype(np.float32)
