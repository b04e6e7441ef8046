"""Telescoping: the ratio of two distant distributions is a product of ratios of neighbors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from flowratio._support.types import Matrix, Vector
from flowratio._support.validation import RandomState, check_choice, check_training_settings, seed_from
from flowratio.flows.base import choose_device, like
from flowratio.ratios.base import RatioEstimator
from flowratio.ratios.neural import networks
from flowratio.ratios.neural.gaussian_path import GaussianPath, gaussian_path
from flowratio.ratios.neural.networks import MLP, Network, evaluate
from flowratio.samples.two_samples import TwoSamples
from flowratio.training.loop import train
from flowratio.training.run import Callback, History

_STEP_LENGTH = 1.5  # maximum distance of neighbors, in standard deviations
_MAX_BRIDGES = 20
_REACH = 4.0  # standard deviations of the wider sample up to which the Gaussian part grows
_REPEATS = 4  # pairs that each held-out row is in


class TelescopingRatio(RatioEstimator):
    r"""Estimate r = p/q (p is y = 1) by telescoping: log r is a sum over a chain of intermediate distributions [1]_.

    .. math:: \log r(x) = \sum_{k=0}^{m-1} \log\frac{p_k(x)}{p_{k+1}(x)}, \qquad
              x_k = \sqrt{1 - \alpha_k^2}\, x_p + \alpha_k\, x_q, \quad 0 = \alpha_0 < \dots < \alpha_m = 1

    The intermediate distribution :math:`p_k` is that of :math:`x_k`. Rows of p and q are paired at random, again in
    each epoch. One network has an output for each of the m steps and is trained with a logistic loss on neighbors. A
    single classifier learns little if it separates p from q without error.

    Parameters
    ----------
    n_bridges
        Number of steps m from p to q. 1 is a classifier of p against q. None chooses it from the data: see the notes.
    mixing
        Spacing of the intermediate distributions. `"even"`: neighbors are equally far apart by their moments.
        `"linear"`: :math:`\alpha_k = k / m`. `"angular"`: :math:`\alpha_k = \sin(\pi k / 2m)`.
    hidden
        Widths of the hidden layers. (100, 100, 100) if None.
    max_epochs, batch_size, learning_rate, weight_decay, patience, validation_fraction
        Settings of the training, as in `NetworkRatio`. If None, they are chosen from the number of rows.
    random_state, device, callback, verbose
        As in `NetworkRatio`.

    Attributes
    ----------
    n_bridges_, mixing_, path_length_
        Number of steps m, coefficients α, of shape (m + 1,), and the length of the path in the notes.
    network_, history_
        The fitted network: the log-ratio of every step. Losses by epoch, summed over the steps, with `plot`.

    Notes
    -----
    In coordinates where the covariances of p and q are both diagonal, Gaussians with the moments of the intermediate
    distributions, means μ and variances v, move along a path of length [2]_

    .. math:: \int \sqrt{\textstyle\sum_i \dot\mu_i^2 / v_i + \tfrac12 \dot v_i^2 / v_i^2}

    There is one step for each 1.5 of this length, from 1 to 20 steps. The part due to sampling noise is subtracted
    first.

    Each output of the network starts at the log-ratio of two Gaussians, in coordinates that look Gaussian in both
    samples. This extrapolates better. It grows up to 4 standard deviations of the wider sample.

    References
    ----------
    .. [1] Rhodes, Xu, Gutmann (2020). *Telescoping Density-Ratio Estimation.* NeurIPS.
    .. [2] Atkinson, Mitchell (1981). *Rao's distance measure.*

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X_p, X_q = rng.normal(1.8, 1, size=(1000, 1)), rng.normal(size=(1000, 1))
    >>> ratio = TelescopingRatio(random_state=0).fit_samples(X_p, X_q)
    >>> ratio.n_bridges_, bool(abs(ratio.log_ratio([[0.9]])[0]) < 0.5)  # log r(x) = 1.8 x - 1.62
    (2, True)
    """

    def __init__(
        self,
        n_bridges: int | None = None,
        *,
        mixing: Literal["even", "linear", "angular"] = "even",
        hidden: Sequence[int] | None = None,
        max_epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        patience: int | None = None,
        validation_fraction: float = 0.1,
        random_state: RandomState = None,
        device: str = "auto",
        callback: Callback | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_bridges, self.mixing, self.hidden = n_bridges, mixing, hidden
        self.max_epochs, self.batch_size, self.learning_rate = max_epochs, batch_size, learning_rate
        self.weight_decay, self.patience = weight_decay, patience
        self.validation_fraction, self.random_state = validation_fraction, random_state
        self.device, self.callback, self.verbose = device, callback, verbose

    def _fit(self, samples: TwoSamples) -> None:
        check_training_settings(self, counts=("n_bridges",))
        check_choice(self.mixing, "mixing", ("even", "linear", "angular"))
        seed = seed_from(self.random_state)
        path = gaussian_path(samples)
        self.path_length_ = float(path.lengths()[1][-1])
        n_steps = math.ceil(self.path_length_ / _STEP_LENGTH)
        self.n_bridges_ = int(self.n_bridges or min(max(n_steps, 1), _MAX_BRIDGES))
        self.mixing_ = path.coefficients(self.n_bridges_, self.mixing)
        generator = torch.Generator().manual_seed(seed)
        network = StepNetwork(samples.X.shape[1], self.hidden or (100, 100, 100), self.n_bridges_, generator=generator)
        network.begin_at(path, self.mixing_)
        self.network_ = network.to(choose_device(self.device))
        self.history_ = self._train(samples, seed)
        self.network_.double().eval()

    def _train(self, samples: TwoSamples, seed: int) -> History:
        rows = networks.paired(samples)
        n_held_out = max(round(self.validation_fraction * rows.n_rows), min(64, rows.n_rows // 4), 1)
        rng = np.random.default_rng([seed, 0, 2])
        rest, held_out = rows.split(min(n_held_out, networks.MAX_HELD_OUT), rng)
        x_p, x_q = np.hsplit(held_out, 2)  # the same rows in other pairs: otherwise similar rows are in one pair
        held_out = np.concatenate([np.hstack([x_p, rng.permutation(x_q)]) for _ in range(_REPEATS)])
        network, kind = self.network_, like(self.network_)
        alpha = torch.tensor(self.mixing_, dtype=kind.dtype, device=kind.device)

        def loss(pairs: Tensor) -> Tensor:  # (b, 2 d)
            return step_losses(network, waymarks(pairs, alpha)).sum()

        recipe = networks.choose_recipe(rest.n_rows, networks.recipe_settings(self))
        return train(network, loss, rest, held_out, recipe, seed=seed, verbose=self.verbose, callback=self.callback)

    def _log_ratio(self, X: Matrix) -> Vector:
        return evaluate(self.network_, X).sum(axis=1)


class StepNetwork(Network):
    """The log-ratio of every step, (n, d) to (n, m): that of two Gaussians, plus the output of an MLP."""

    basis: Tensor
    bound: Tensor
    square: Tensor
    slope: Tensor
    constant: Tensor

    def __init__(
        self, n_features: int, hidden: Sequence[int], n_outputs: int, *, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.n_features, self.hidden, self.n_outputs = n_features, tuple(hidden), n_outputs
        self.mlp = MLP(n_features, hidden, n_outputs, generator=generator)
        self.width = self.mlp.width
        for parameter in self.mlp.layers[-1].parameters():
            nn.init.zeros_(parameter)  # training starts at the Gaussians
        d, m = n_features, n_outputs
        shapes = {"basis": (d, d), "bound": (d,), "square": (m, d), "slope": (m, d), "constant": (m,)}
        for name, shape in shapes.items():
            self.register_buffer(name, torch.zeros(shape))

    def begin_at(self, path: GaussianPath, mixing: Vector) -> None:
        """Set the Gaussian part to a path at coefficients of shape (m + 1,)."""
        mean, variance = path.moments(mixing)  # (m + 1, d)
        square = 0.5 * path.normal * (1 / variance[1:] - 1 / variance[:-1])
        slope = path.normal * (mean[:-1] / variance[:-1] - mean[1:] / variance[1:])
        constant = 0.5 * np.diff(mean**2 / variance + np.log(variance), axis=0) @ path.normal
        bound = np.abs(mean[[0, -1]]).max(axis=0) + _REACH * np.sqrt(variance[[0, -1]].max(axis=0))
        values = {"basis": path.basis, "bound": bound, "square": square, "slope": slope, "constant": constant}
        for name, value in values.items():
            self.get_buffer(name).copy_(torch.tensor(value))

    def forward(self, x: Tensor) -> Tensor:
        u = torch.clamp(x @ self.basis, -self.bound, self.bound)
        return u.square() @ self.square.T + u @ self.slope.T + self.constant + self.mlp(x)


def waymarks(pairs: Tensor, mixing: Tensor) -> Tensor:
    """Return rows of the intermediate distributions from pairs, (b, 2 d) and (m + 1,) to (m + 1, b, d)."""
    x_p, x_q = pairs.chunk(2, dim=1)
    alpha = mixing[:, None, None]
    return (1 - alpha**2).sqrt() * x_p + alpha * x_q


def step_losses(network: Network, x: Tensor) -> Tensor:
    """Return the logistic loss of each step between neighbors, (m + 1, b, d) to (m,)."""
    f = network(x.flatten(0, 1)).view(len(x), -1, network.n_outputs)  # (m + 1, b, m)
    above, below = (part.diagonal(dim1=0, dim2=2) for part in (f[:-1], f[1:]))  # (b, m)
    return 0.5 * (softplus(-above) + softplus(below)).mean(0)
