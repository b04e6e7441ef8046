r"""Telescoping: the ratio of two distributions that are far apart is a product of ratios of neighbours.

.. math:: \frac{p(x)}{q(x)} = \prod_{k=0}^{m-1} \frac{p_k(x)}{p_{k+1}(x)}, \qquad p_0 = p, \quad p_m = q

A classifier that tells p from q without fail learns nothing of their ratio; neighbours it cannot tell so well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from scipy.linalg import eigh
from torch import Tensor, nn
from torch.nn.functional import softplus

from flowratio._support.validation import RandomState, check_training_settings, seed_from
from flowratio.flows.base import choose_device, like
from flowratio.ratios.base import RatioEstimator
from flowratio.ratios.neural.networks import MAX_HELD_OUT, MLP, Network, choose_recipe, evaluate, paired
from flowratio.samples.two_samples import TwoSamples
from flowratio.scaling.whitener import shrunk_correlation
from flowratio.training.loop import train
from flowratio.training.run import Callback, History

_BRIDGE_LENGTH = 1.5  # standard deviations by which neighbours are apart at most
_MAX_BRIDGES = 20
_MAX_JOINT = 512  # columns up to which correlations are looked at
_SMALLEST_VARIANCE = 1e-6  # of a column of one sample, in units of the pooled variance
_REACH = 4.0  # standard deviations of the wider sample up to which the Gaussian part grows
_REPEATS = 4  # how often each held-out row stands in a pair
_RECIPE = ("max_epochs", "batch_size", "learning_rate", "weight_decay", "patience")


class TelescopingRatio(RatioEstimator):
    r"""Lead from p to q over bridges, and add up the log-ratios of neighbours: r = p/q, p is y = 1 [1]_.

    .. math:: \log r(x) = \sum_{k=0}^{m-1} \log\frac{p_k(x)}{p_{k+1}(x)}, \qquad
              x_k = \sqrt{1 - \alpha_k^2}\, x_p + \alpha_k\, x_q, \quad 0 = \alpha_0 < \dots < \alpha_m = 1

    A waymark :math:`p_k` is the distribution of :math:`x_k`, where rows of p and q are paired at random, anew in each
    epoch, and mixed about the pooled mean. Each bridge tells a waymark from the next by a logistic loss; all share one
    network, with an output for each, that adds to what Gaussians of the same moments would give.

    Parameters
    ----------
    n_bridges
        Number of bridges m; chosen from the data if None, see the notes. One bridge is a classifier of p against q.
    mixing
        How the waymarks are spaced: `"even"`, so that neighbours are equally far apart by the moments of the samples;
        `"linear"`, :math:`\alpha_k = k / m`; `"angular"`, :math:`\alpha_k = \sin(\pi k / 2m)`.
    hidden
        Widths of the hidden layers; (100, 100, 100) if None.
    max_epochs, batch_size, learning_rate, weight_decay, patience
        Settings of the training; chosen from the number of rows if None. A batch is half p and half q.
    validation_fraction
        Share of the rows of each sample held out to decide when to stop; more of small samples.
    random_state
        Seed: the same gives the same bits on the same machine. Global generators are never used.
    device
        `"auto"` for a GPU if there is one, or a name that torch knows.
    callback
        Called with the network and the number of epochs after each held-out evaluation.
    verbose
        Whether to show a progress bar.

    Attributes
    ----------
    n_bridges_
        Number of bridges m.
    mixing_
        The coefficients α, of shape (m + 1,), from 0 to 1.
    path_length_
        How far p is from q along the waymarks, in standard deviations; see the notes.
    network_
        The trained network: the log-ratio of every bridge.
    history_
        Losses by epoch, summed over the bridges, with `plot`.

    Notes
    -----
    *Number of bridges.* In the coordinates in which the covariances of p and q are both diagonal, Gaussians with the
    moments of the waymarks, means μ and variances v, move along a path of length [2]_

    .. math:: \int \sqrt{\textstyle\sum_i \dot\mu_i^2 / v_i + \tfrac12 \dot v_i^2 / v_i^2}

    which is the distance of the means, in standard deviations, where the variances are equal. There is a bridge for
    every 1.5 of it, a divergence of 1.1 nats where only the means differ; at least 1 and at most 20. What samples of
    that size would differ by if p were q is taken off before.

    *Gaussian part.* Every output of the network begins at the log-ratio of those Gaussians for its bridge, and training
    adds what they miss. Rows far from both neighbours of a bridge are its weak point: there a network of this kind
    extrapolates by straight lines, whereas this part is right for Gaussians anywhere. It is made of those coordinates
    alone that look normal in both samples (skewness below ½, kurtosis within 1 of 3, and what chance adds): moments say
    little of heavy tails. It grows up to 4 standard deviations of the wider sample, and stays there.

    References
    ----------
    .. [1] Rhodes, Xu, Gutmann (2020). *Telescoping Density-Ratio Estimation.* NeurIPS.
    .. [2] Atkinson, Mitchell (1981). *Rao's distance measure.*

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ratio = TelescopingRatio(random_state=0)
    >>> _ = ratio.fit_samples(rng.normal(1.8, 1, size=(1000, 1)), rng.normal(size=(1000, 1)))
    >>> ratio.n_bridges_
    2
    >>> bool(abs(ratio.log_ratio([[0.9]])[0]) < 0.5)  # log r(x) = 1.8 x - 1.62
    True
    """

    n_bridges_: int
    mixing_: np.ndarray
    path_length_: float
    network_: Bridges
    history_: History

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
        self.n_bridges = n_bridges
        self.mixing = mixing
        self.hidden = hidden
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.device = device
        self.callback = callback
        self.verbose = verbose

    def _fit(self, samples: TwoSamples) -> None:
        self._check_settings()
        seed = seed_from(self.random_state)
        path = gaussian_path(samples.X_p, samples.w_p, samples.X_q, samples.w_q)
        self.path_length_ = float(path.lengths()[1][-1])
        n_bridges = math.ceil(self.path_length_ / _BRIDGE_LENGTH)
        self.n_bridges_ = int(self.n_bridges or min(max(n_bridges, 1), _MAX_BRIDGES))
        self.mixing_ = mixing_coefficients(self.n_bridges_, self.mixing, path)
        generator = torch.Generator().manual_seed(seed)
        network = Bridges(samples.X.shape[1], self.hidden or (100, 100, 100), self.n_bridges_, generator=generator)
        network.begin_at(path, self.mixing_)
        self.network_ = network.to(choose_device(self.device))
        self.history_ = self._train(samples, seed)
        self.network_.double().eval()

    def _check_settings(self) -> None:
        check_training_settings(self, counts=("n_bridges",))
        if self.mixing not in ("even", "linear", "angular"):
            raise ValueError(f"`mixing` is {self.mixing!r}: give 'even', 'linear' or 'angular'.")

    def _train(self, samples: TwoSamples, seed: int) -> History:
        rows = paired(samples)
        n_held_out = max(round(self.validation_fraction * rows.n_rows), min(64, rows.n_rows // 4), 1)
        rng = np.random.default_rng([seed, 0, 2])
        rest, held_out = rows.split(min(n_held_out, MAX_HELD_OUT), rng)
        held_out = np.concatenate([_paired_anew(held_out, rng) for _ in range(_REPEATS)])
        given = {name: getattr(self, name) for name in _RECIPE if getattr(self, name) is not None}
        network, kind = self.network_, like(self.network_)
        alpha = torch.tensor(self.mixing_, dtype=kind.dtype, device=kind.device)

        def loss(pairs: Tensor) -> Tensor:  # (b, 2 d)
            return bridge_losses(network, waymarks(pairs, alpha)).sum()

        recipe = choose_recipe(rest.n_rows, given)
        return train(network, loss, rest, held_out, recipe, seed=seed, verbose=self.verbose, callback=self.callback)

    def _log_ratio(self, X: np.ndarray) -> np.ndarray:
        return evaluate(self.network_, X).sum(axis=1)


class Bridges(Network):
    """The log-ratio of every bridge, (n, d) to (n, m): that of two Gaussians, and what an MLP adds.

    Parameters
    ----------
    n_features
        Number of columns d.
    hidden
        Widths of the hidden layers of the MLP.
    n_outputs
        Number of bridges m.
    generator
        Source of the initial weights; None for a new one of seed 0. The global generator is never used.

    Examples
    --------
    >>> Bridges(3, (16, 16), 2)(torch.zeros(5, 3)).shape
    torch.Size([5, 2])
    """

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
            nn.init.zeros_(parameter)  # training begins at the Gaussians
        self.register_buffer("basis", torch.zeros(n_features, n_features))
        self.register_buffer("bound", torch.zeros(n_features))
        self.register_buffer("square", torch.zeros(n_outputs, n_features))
        self.register_buffer("slope", torch.zeros(n_outputs, n_features))
        self.register_buffer("constant", torch.zeros(n_outputs))

    def begin_at(self, path: GaussianPath, mixing: np.ndarray) -> None:
        """Set the Gaussian part: bridges between the waymarks of a path at coefficients of shape (m + 1,)."""
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


@dataclass(frozen=True)
class GaussianPath:
    """Gaussians with the moments of the waymarks, in coordinates u = x @ basis in which all covariances are diagonal.

    Parameters
    ----------
    basis
        Of shape (d, d).
    mean_p, mean_q, variance_p, variance_q
        Moments of u in the two samples, of shape (d,).
    normal
        Whether a coordinate of u looks normal in both samples, of shape (d,).
    """

    basis: np.ndarray
    mean_p: np.ndarray
    mean_q: np.ndarray
    variance_p: np.ndarray
    variance_q: np.ndarray
    normal: np.ndarray

    def moments(self, mixing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances of the waymarks at coefficients (m,), each of shape (m, d)."""
        added = mixing[:, None]
        kept = np.sqrt(1 - added**2)
        return kept * self.mean_p + added * self.mean_q, kept**2 * self.variance_p + added**2 * self.variance_q

    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """Return angles from 0 to π/2, whose sines are coefficients, and the lengths of the path up to there."""
        angle = np.arctan(np.concatenate([[0.0], np.geomspace(1e-5, 1e5, 512), [np.inf]]))  # fine at both ends
        kept, added = np.cos(angle)[:, None], np.sin(angle)[:, None]
        variance = kept**2 * self.variance_p + added**2 * self.variance_q
        speed_mean = (kept * self.mean_q - added * self.mean_p) ** 2 / variance
        speed_variance = 0.5 * (2 * kept * added * (self.variance_q - self.variance_p) / variance) ** 2
        speed = np.sqrt((speed_mean + speed_variance).sum(axis=1))
        return angle, np.concatenate([[0.0], np.cumsum((speed[1:] + speed[:-1]) / 2 * np.diff(angle))])


def gaussian_path(X_p: np.ndarray, w_p: np.ndarray, X_q: np.ndarray, w_q: np.ndarray) -> GaussianPath:
    """Return the path between Gaussians with the moments of two samples, less what chance makes of them.

    Differences of the means, and of the log-variances, are shrunk by the share of their sum of squares that samples of
    this size have where p is q.

    Parameters
    ----------
    X_p, w_p
        Rows of p and their weights, of shapes (n_p, d) and (n_p,).
    X_q, w_q
        Rows of q and their weights, of shapes (n_q, d) and (n_q,).
    """
    mean_p, C_p, n_p, rest_p = _moments(X_p, w_p)
    mean_q, C_q, n_q, rest_q = _moments(X_q, w_q)
    d = len(mean_p)
    if d <= _MAX_JOINT:
        ratio, basis = eigh(C_p, C_q)
    else:
        ratio, basis = np.diag(C_p) / np.diag(C_q), np.diag(np.diag(C_q) ** -0.5)
    ratio = np.maximum(ratio, _SMALLEST_VARIANCE**2)
    basis = basis * ratio**-0.25  # variances are now the root of the ratio in p, and its inverse in q
    chance = (2 / n_p + 2 / n_q) * (d + max(rest_p, rest_q) * d * (d - 1) / 2)
    log_ratio = np.log(ratio)
    log_ratio = log_ratio * max(0.0, 1 - chance / max(float(log_ratio @ log_ratio), 1e-300))
    mean_p, mean_q = mean_p @ basis, mean_q @ basis
    noise_p, noise_q = ratio**0.5 / n_p, ratio**-0.5 / n_q  # squared errors of the means
    gap = (mean_p - mean_q) / (noise_p + noise_q)
    gap = gap * min(1.0, d / max(float((noise_p + noise_q) @ gap**2), 1e-300))  # the part that is owed to chance
    mean_p, mean_q = mean_p - noise_p * gap, mean_q + noise_q * gap
    normal = _looks_normal(X_p @ basis, w_p) & _looks_normal(X_q @ basis, w_q)
    return GaussianPath(basis, mean_p, mean_q, np.exp(log_ratio / 2), np.exp(-log_ratio / 2), normal)


def _moments(X: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Return mean (d,), covariance (d, d), number of rows, and the share of the correlations that is not chance.

    Three rows are taken off: the moments of n normal rows stray as the formulas for large n say of n - 3. As in
    `Whitener`, correlations are shrunk by the share of their sum of squares that is owed to chance.
    """
    share = w / w.sum()
    n_rows, d = 1 / float(share @ share), X.shape[1]
    n = max(n_rows - 3, 1.0)
    mean = share @ X
    centred = (X - mean) * np.sqrt(share)[:, None]
    # a handful of rows may lie close together by chance
    variance = np.maximum((centred**2).sum(axis=0), max(_SMALLEST_VARIANCE, n_rows**-2.0))
    if d == 1 or d > _MAX_JOINT:
        return mean, np.diag(variance), n, 0.0
    scale = np.sqrt(variance)
    R = (centred / scale).T @ (centred / scale)
    np.fill_diagonal(R, 1.0)
    R, signal = shrunk_correlation(R, n, min_share=1e-6)
    return mean, R * np.outer(scale, scale), n, signal**2


def _looks_normal(U: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return which columns have a skewness below ½ and a kurtosis within 1 of 3, or no more than chance would."""
    share = w / w.sum()
    n = 1 / (share @ share)
    Z = U - share @ U
    Z /= np.sqrt(np.maximum(share @ Z**2, 1e-300))
    skewness, excess = share @ Z**3, share @ Z**4 - 3
    return (np.abs(skewness) < 0.5 + 2 * math.sqrt(6 / n)) & (np.abs(excess) < 1 + 2 * math.sqrt(24 / n))


def mixing_coefficients(n_bridges: int, mixing: str, path: GaussianPath) -> np.ndarray:
    """Return the coefficients of the waymarks, of shape (m + 1,), from 0 (rows of p) to 1 (rows of q)."""
    steps = np.arange(n_bridges + 1) / n_bridges
    if mixing == "linear":
        return steps
    angle, length = path.lengths()
    if mixing == "angular" or length[-1] == 0:
        alpha = np.sin(steps * math.pi / 2)
    else:
        alpha = np.sin(np.interp(steps * length[-1], length, angle))
    alpha[[0, -1]] = 0.0, 1.0  # the ends are p and q themselves
    return alpha


def waymarks(pairs: Tensor, mixing: Tensor) -> Tensor:
    """Return the waymarks of pairs of rows, (b, 2 d) and (m + 1,) to (m + 1, b, d)."""
    x_p, x_q = pairs.chunk(2, dim=1)
    alpha = mixing[:, None, None]
    return (1 - alpha**2).sqrt() * x_p + alpha * x_q


def bridge_losses(network: Network, x: Tensor) -> Tensor:
    """Return the logistic loss of each bridge between waymarks, (m + 1, b, d) to (m,)."""
    f = network(x.flatten(0, 1)).view(len(x), -1, network.n_outputs)  # (m + 1, b, m)
    above, below = (part.diagonal(dim1=0, dim2=2) for part in (f[:-1], f[1:]))  # (b, m)
    return 0.5 * (softplus(-above) + softplus(below)).mean(0)


def _paired_anew(pairs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Pair the same rows of p and of q in another way: rows in an order of their own are alike in pairs."""
    d = pairs.shape[1] // 2
    return np.hstack([pairs[:, :d], rng.permutation(pairs[:, d:])])
