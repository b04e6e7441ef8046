"""A network that separates p from q is a ratio: its output is log r."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch

from flowratio._support import validation
from flowratio._support.types import Matrix, Vector
from flowratio._support.validation import RandomState, seed_from
from flowratio.flows.base import choose_device
from flowratio.ratios.base import RatioEstimator, Requires
from flowratio.ratios.neural import networks
from flowratio.ratios.neural.ensemble import SmoothEnsemble, ensemble_recipe, train_ensemble
from flowratio.ratios.neural.networks import evaluate
from flowratio.samples.two_samples import TwoSamples
from flowratio.training.run import Callback, Recipe

HIDDEN, _N_NETWORKS = (64, 64, 64), 3
_FILTERS = (64, 64, 64, 64)


class NetworkRatio(RatioEstimator):
    r"""Estimate r(x) = p(x) / q(x), p is y = 1, by a network that separates rows of p from rows of q.

    .. math:: L(f) = \tfrac12 \mathrm{mean}_p \log(1 + e^{-f}) + \tfrac12 \mathrm{mean}_q \log(1 + e^{f})

    has its minimum at f = log p/q. Both samples count one half, so there are no class odds to subtract.

    Parameters
    ----------
    network
        `"mlp"` (the mean of a few smooth networks), `"cnn"` (convolutions, for images), or `"relu"` (one network with
        ReLU, as in the paper).
    hidden
        Widths of the hidden layers. If None: three of 64 units for `"mlp"`, three of 32 to 200 units for `"relu"`. For
        `"cnn"` the numbers of filters, four layers of 64 if None.
    n_networks
        Number of networks of `"mlp"`. Each has its own first weights and held-out rows. None for 3. The other networks
        are single.
    max_epochs, batch_size, learning_rate, weight_decay, patience
        Settings of the training. If None, they are chosen from the number of rows. A batch is half p and half q.
    l2_penalty
        λ of a term λ/2 · |weights|² in the loss, instead of `weight_decay`, which shrinks the weights after each step.
    validation_fraction
        Share of the rows held out to decide when to stop. Small samples hold out more. None for 0.15 (`"mlp"`) or 0.1.
    image_shape
        Channels, height and width of the image in a row. If None: one square channel for `"cnn"`, and no image for
        `"mlp"`, which standardizes each column by itself.
    random_state, device, verbose
        The same seed gives the same results, to the last bit, on the same machine. `device` is the name of a torch
        device, or `"auto"` for a GPU if there is one. `verbose` shows a progress bar.
    callback
        Called with the network and the number of epochs after each held-out evaluation. It is not saved.

    Attributes
    ----------
    network_, history_
        The fitted network, in float64, and losses by epoch, with `plot`.

    Notes
    -----
    `"mlp"`: each network has layers with SiLU and a linear term. The last layer starts at 0, so r = 1 is the first
    candidate, and stays if no step improves the held-out loss. The layers see x clamped to the range of the training
    rows: far outside both samples log r is linear. Training takes up to 2000 steps with a learning rate of 0.002, a
    weight decay of 300/n, from 0.03 to 1, and averaged weights. A batch is a twentieth of the rows, 64 to 2048. It
    stops after 200 steps without progress. n is the effective number of rows of the smaller sample.

    `"relu"`: the hidden layers are 32 wide for n below 500, 64 below 2000, otherwise 10 d, from 100 to 200. Training
    takes 1000 steps or 10 epochs, and stops after a sixth of the epochs without progress. The weights of the first 150
    steps are never selected: on a small validation set they can look best.

    References
    ----------
    .. [1] Choi, Liao, Ermon (2021). *Featurized Density Ratio Estimation.* UAI.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X_p, X_q = rng.normal(1.0, 1.0, size=(500, 1)), rng.normal(0.0, 1.0, size=(500, 1))
    >>> ratio = NetworkRatio("mlp", random_state=0).fit_samples(X_p, X_q)
    >>> bool(abs(ratio.log_ratio([[1.0]])[0] - 0.5) < 0.3)  # log r(x) = x - 1/2
    True
    """

    requires = Requires(noise=True)

    def __init__(
        self,
        network: Literal["mlp", "cnn", "relu"] = "mlp",
        *,
        hidden: Sequence[int] | None = None,
        n_networks: int | None = None,
        max_epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        patience: int | None = None,
        l2_penalty: float | None = None,
        validation_fraction: float | None = None,
        image_shape: Sequence[int] | None = None,
        random_state: RandomState = None,
        device: str = "auto",
        callback: Callback | None = None,
        verbose: bool = False,
    ) -> None:
        self.network, self.hidden, self.n_networks, self.image_shape = network, hidden, n_networks, image_shape
        self.max_epochs, self.batch_size, self.learning_rate = max_epochs, batch_size, learning_rate
        self.weight_decay, self.patience, self.l2_penalty = weight_decay, patience, l2_penalty
        self.validation_fraction, self.random_state = validation_fraction, random_state
        self.device, self.callback, self.verbose = device, callback, verbose

    def _fit(self, samples: TwoSamples) -> None:
        self._check_settings()
        seed, d = seed_from(self.random_state), samples.X.shape[1]
        shape = self._shape(d) if self.network == "cnn" or self.image_shape is not None else None
        self.pixel_scale_, self.pixel_shift_ = (None, None) if shape is None else _pixel_units(self.mean_, self.scale_)
        samples = samples.mapped(self._in_pixels) if shape else samples
        options: dict[str, Any] = {"seed": seed, "callback": self.callback, "verbose": self.verbose}
        if self.validation_fraction is not None:
            options["validation_fraction"] = self.validation_fraction
        device = choose_device(self.device)
        if self.network == "mlp":
            network = self._new_ensemble(d, seed).to(device)
            self.history_ = train_ensemble(network, samples, self._recipe(samples), **options)
        else:
            network = self._new_network(samples, shape, seed).to(device)
            self.history_ = networks.train_classifier(network, samples, self._recipe(samples), **options)
        self.network_ = network.double().eval()  # float64: how rows are batched does not change the output

    def _new_ensemble(self, d: int, seed: int) -> SmoothEnsemble:
        generator = torch.Generator().manual_seed(seed)
        return SmoothEnsemble(d, self.hidden or HIDDEN, self.n_networks or _N_NETWORKS, generator=generator)

    def _new_network(self, samples: TwoSamples, shape: Sequence[int] | None, seed: int) -> networks.Network:
        images, d = self.network == "cnn", samples.X.shape[1]
        hidden = self.hidden or (_FILTERS if images else networks.choose_hidden(samples.n_least, d))
        return networks.new_network(d, shape if images else None, hidden, seed)

    def _recipe(self, samples: TwoSamples) -> Recipe:
        images, n_pairs = self.network == "cnn", networks.n_pairs(samples.n_p, samples.n_q)
        defaults = {} if images else {"weight_decay": networks.choose_decay(samples.n_effective)}
        settings = defaults | networks.recipe_settings(self)
        if self.network == "mlp":
            recipe = ensemble_recipe(n_pairs, settings)
        else:
            recipe = replace(networks.choose_recipe(n_pairs, settings, images), settle=networks.SETTLE)
        if self.l2_penalty is not None:  # the loss is the mean over the networks
            n_networks = self.n_networks or _N_NETWORKS if self.network == "mlp" else 1
            recipe = replace(recipe, optimizer="adam", weight_decay=float(self.l2_penalty) / n_networks)
        return recipe

    def _in_pixels(self, X: Matrix) -> Matrix:
        """Bring standardized columns to one mean and one scale for all pixels."""
        return X if self.pixel_scale_ is None else X * self.pixel_scale_ + self.pixel_shift_

    def _log_ratio(self, X: Matrix) -> Vector:
        return evaluate(self.network_, self._in_pixels(X))[:, 0]

    def _shape(self, d: int) -> tuple[int, ...]:
        if self.image_shape is None:
            side = math.isqrt(d)
            if side**2 != d:
                raise ValueError(f"`X` has {d} columns, which is not a square image. Set `image_shape`: (3, 32, 32), …")
            return 1, side, side
        shape = tuple(self.image_shape) if isinstance(self.image_shape, list | tuple) else (self.image_shape,)
        if len(shape) != 3 or not all(map(validation.is_count, shape)) or math.prod(shape) != d:
            advice = "Use channels, height and width, whose product is the number of columns."
            raise ValueError(f"`image_shape` is {shape} but `X` has {d} columns. {advice}")
        return shape

    def _check_settings(self) -> None:
        validation.check_choice(self.network, "network", ("mlp", "cnn", "relu"))
        validation.check_training_settings(self, counts=("n_networks",))
        if self.network != "mlp" and self.n_networks not in (None, 1):
            problem = f"`n_networks` is {self.n_networks}, but `network` is {self.network!r}, which is a single network"
            raise ValueError(f"{problem}. Use `network='mlp'`, or leave `n_networks` out.")
        validation.check_nonnegative(self.l2_penalty, "l2_penalty", optional=True)
        if self.l2_penalty is not None and self.weight_decay is not None:
            both = f"`l2_penalty` is {self.l2_penalty} and `weight_decay` is {self.weight_decay}"
            raise ValueError(f"{both}. Only one of them can be set. Set the other to None.")


def _pixel_units(mean: Vector, scale: Vector) -> tuple[Vector, Vector]:
    """Return factor and shift, of shape (d,), from standardized columns to one mean and one scale for all pixels."""
    varies = np.isfinite(scale)
    center, top = mean[varies].mean(), scale[varies].max()
    spread = top * np.sqrt(np.mean((scale[varies] / top) ** 2 + ((mean[varies] - center) / top) ** 2))
    return np.where(varies, scale, 0.0) / spread, np.where(varies, mean - center, 0.0) / spread
