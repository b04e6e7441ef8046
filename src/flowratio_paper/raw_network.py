"""The paper's MLP of rows in their own units. The networks of the library standardize the rows first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from flowratio import MLP, Recipe, train
from flowratio_paper.image_classifier import outputs

if TYPE_CHECKING:
    from flowratio import History

_MIN_GAIN, _SETTLE = 1e-4, 150  # of the held-out loss, and steps before early stopping: as in `NetworkRatio`


@dataclass
class RawNetwork:
    r"""log r by an MLP of three layers of 100 units that classifies pairs of a row of p and a row of q.

    .. math:: L(f) = \tfrac12 \mathrm{mean}_p \log(1 + e^{-f}) + \tfrac12 \mathrm{mean}_q \log(1 + e^{f})

    Parameters
    ----------
    max_epochs, batch_size, learning_rate
        Settings of the training. A batch is half p and half q.
    l2_penalty
        λ of the term λ/2 · abs(weights)² in the loss.
    validation_fraction
        Share of the rows held out to select the weights.
    random_state
        Seed.

    Attributes
    ----------
    network_, history_
        The fitted network, and its losses by epoch.
    """

    max_epochs: int
    batch_size: int
    learning_rate: float
    l2_penalty: float
    validation_fraction: float
    random_state: int
    network_: MLP = field(init=False)
    history_: History = field(init=False)

    def fit_samples(self, X_p: np.ndarray, X_q: np.ndarray) -> RawNetwork:
        """Fit to two samples of the same size, of shape (n, d) each."""
        d, rng = X_p.shape[1], np.random.default_rng([self.random_state, 0, 2])
        pairs = rng.permutation(np.hstack([X_p, X_q]).astype(np.float32))  # (n, 2 d)
        n_held_out = round(self.validation_fraction * len(pairs))
        network = MLP(d, generator=torch.Generator().manual_seed(self.random_state))
        sign = torch.tensor([-1.0, 1.0])

        def loss(pairs: Tensor) -> Tensor:
            return softplus(sign * network(pairs.reshape(-1, d)).view(-1, 2)).mean()

        recipe = Recipe(
            self.max_epochs,
            self.batch_size // 2,
            self.learning_rate,
            self.l2_penalty,
            optimizer="adam",
            patience=self.max_epochs,
            min_gain=_MIN_GAIN,
            settle=_SETTLE,
        )
        held_out, rows = np.split(pairs, [n_held_out])
        self.history_ = train(network, loss, rows, held_out, recipe, seed=self.random_state)
        self.network_ = network
        return self

    def log_ratio(self, X: np.ndarray) -> np.ndarray:
        """Return log r, (n, d) to (n,)."""
        return outputs(self.network_, X)[:, 0]
