"""The theory of Choi et al. (2021): an invertible map leaves the ratio as it is (Lemma 1), and with it what estimators
of the ratio promise: no bias (Corollary 1), consistency (Corollary 2). Each test fails where the property does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import expit, logit
from scipy.stats import multivariate_normal

from flowratio import KLIEP, ClassifierRatio, FeaturizedRatio, FlowFeaturizer, RatioEstimator
from flowratio.flows import FLOWS, Flow

pytestmark = pytest.mark.filterwarnings("ignore::flowratio.ratios.base.OverlapWarning")

# Lemma 1: p(x)/q(x) = p_Z(f(x))/q_Z(f(x)) for an invertible f

MEAN_P, SCALE_P = np.array([0.8, -0.5]), np.array([0.9, 1.3])
MEAN_Q, SCALE_Q = np.array([0.0, 0.2]), np.array([1.2, 0.8])
ANGLE = 0.7
ROTATION = np.array([[math.cos(ANGLE), -math.sin(ANGLE)], [math.sin(ANGLE), math.cos(ANGLE)]])
SHEAR = np.array([[2.0, -0.3], [0.5, 0.1]])  # determinant 0.35
Density = Callable[[np.ndarray], np.ndarray]


def normal(X: np.ndarray, mean: Any, scale: Any) -> np.ndarray:
    return stats.norm.logpdf(X, mean, scale).sum(axis=1)


def log_r(X: np.ndarray) -> np.ndarray:
    return normal(X, MEAN_P, SCALE_P) - normal(X, MEAN_Q, SCALE_Q)


def rows(n: int = 200) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(MEAN_P, SCALE_P, (n, 2)), rng.normal(MEAN_Q, SCALE_Q, (n, 2))])


class Map(NamedTuple):
    """A map of rows, and the density of z for normal x of a mean and deviations, by a closed form of its own."""

    f: Density
    log_density: Callable[[np.ndarray, np.ndarray], Density]


def linear(A: np.ndarray, b: np.ndarray) -> Map:
    def log_density(mean: np.ndarray, scale: np.ndarray) -> Density:
        return multivariate_normal(A @ mean + b, A @ np.diag(scale**2) @ A.T).logpdf

    return Map(lambda X: X @ A.T + b, log_density)


def log_normal(mean: np.ndarray, scale: np.ndarray) -> Density:
    return lambda Z: stats.lognorm.logpdf(Z, scale, scale=np.exp(mean)).sum(axis=1)


def johnson(mean: np.ndarray, scale: np.ndarray) -> Density:
    return lambda Z: stats.johnsonsu.logpdf(Z, -mean / scale, 1 / scale).sum(axis=1)


MAPS = {
    "affine": linear(SHEAR, np.array([3.0, -1.0])),
    "rotation": linear(ROTATION, np.zeros(2)),
    "exponential": Map(np.exp, log_normal),
    "hyperbolic sine": Map(np.sinh, johnson),
}


@pytest.mark.parametrize("name", MAPS)
def test_lemma_1_under_maps_with_a_closed_form(name: str) -> None:
    X, (f, log_density) = rows(), MAPS[name]
    in_z = log_density(MEAN_P, SCALE_P)(f(X)) - log_density(MEAN_Q, SCALE_Q)(f(X))
    np.testing.assert_allclose(in_z, log_r(X), rtol=0, atol=1e-10)
    if name != "rotation":  # the Jacobian is there: the densities themselves are others
        assert np.abs(log_density(MEAN_P, SCALE_P)(f(X)) - normal(X, MEAN_P, SCALE_P)).max() > 0.1


def random_flow(name: str) -> Flow:
    """Return a flow in float64 with random weights, so large that the map is far from the identity."""
    make: Any = FLOWS[name]
    flow = make(2, n_blocks=3, hidden=(16,), generator=torch.Generator().manual_seed(0)).double().eval()
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.mul_(2)
    return flow


def jacobian_log_det(flow: Flow, x: torch.Tensor) -> np.ndarray:
    """Return log |det ∂f/∂x| of rows by automatic differentiation of the map alone, (n, d) to (n,)."""
    x = x.clone().requires_grad_()
    z = flow(x)[0]
    gradients = [torch.autograd.grad(z[:, j].sum(), x, retain_graph=True)[0] for j in range(z.shape[1])]
    return torch.linalg.slogdet(torch.stack(gradients, dim=1))[1].detach().numpy()


@pytest.mark.parametrize("name", FLOWS)
def test_lemma_1_under_flows(name: str) -> None:
    X, flow = rows(), random_flow(name)
    x = torch.from_numpy(X)
    with torch.no_grad():
        z, log_det = flow(x)
        x_again, _ = flow.inverse(z)
    # the density of z: that of x where z came from, over the Jacobian. One by autograd at f⁻¹(z), one by the flow
    log_p_z = normal(x_again.numpy(), MEAN_P, SCALE_P) - jacobian_log_det(flow, x_again)
    log_q_z = normal(X, MEAN_Q, SCALE_Q) - log_det.numpy()
    np.testing.assert_allclose(log_p_z - log_q_z, log_r(X), rtol=0, atol=1e-10)
    assert np.std(log_det.numpy()) > 0.1  # the Jacobian is there, and no constant


@pytest.mark.parametrize("name", ["projection", "fold"])
def test_lemma_1_fails_where_the_map_is_not_invertible(name: str) -> None:
    X = rows()
    if name == "projection":
        in_z = stats.norm.logpdf(X[:, 0], MEAN_P[0], SCALE_P[0]) - stats.norm.logpdf(X[:, 0], MEAN_Q[0], SCALE_Q[0])
    else:  # x₁ loses its sign: two points of x share one of z
        mirrored = X * [-1, 1]
        in_z = np.logaddexp(normal(X, MEAN_P, SCALE_P), normal(mirrored, MEAN_P, SCALE_P))
        in_z -= np.logaddexp(normal(X, MEAN_Q, SCALE_Q), normal(mirrored, MEAN_Q, SCALE_Q))
    assert np.abs(in_z - log_r(X)).max() > 1


@pytest.mark.parametrize("name", FLOWS)
def test_a_ratio_in_a_known_latent_space_is_the_ratio_of_mapped_rows(name: str) -> None:
    rng = np.random.default_rng(1)
    X_p, X_q = rng.normal(MEAN_P, SCALE_P, (300, 2)), rng.normal(MEAN_Q, SCALE_Q, (250, 2))
    flow = random_flow(name)

    def mapped(X: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return flow(torch.from_numpy(X))[0].numpy()

    for ratio in (ClassifierRatio("quadratic"), KLIEP(random_state=0)):
        model = FeaturizedRatio(ratio, featurizer=FlowFeaturizer(flow)).fit_samples(X_p, X_q)
        by_hand = ratio.fit_samples(mapped(X_p), mapped(X_q))
        np.testing.assert_allclose(model.log_ratio(rows()), by_hand.log_ratio(mapped(rows())), rtol=0, atol=1e-8)


# Corollary 1: an estimator without bias has none in z

N_CELLS = 4  # of each column
P_OF_CELLS = np.arange(1.0, N_CELLS**2 + 1).reshape(N_CELLS, N_CELLS) / (N_CELLS**2 * (N_CELLS**2 + 1) / 2)


def draw_cells(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of p, which is constant in each cell of the unit square, and of the uniform q, (n, 2) each."""
    cells = rng.choice(N_CELLS**2, n, p=P_OF_CELLS.ravel())
    corners = np.column_stack(np.divmod(cells, N_CELLS))
    return (corners + rng.random((n, 2))) / N_CELLS, rng.random((n, 2))


def counts(X: np.ndarray, n_draws: int) -> np.ndarray:
    """Return how many rows of each draw lie in each cell, (n_draws · n, 2) to (n_draws, 16)."""
    i, j = np.minimum((X * N_CELLS).astype(int), N_CELLS - 1).T
    cells = np.repeat(np.arange(n_draws), len(X) // n_draws) * N_CELLS**2 + i * N_CELLS + j
    return np.bincount(cells, minlength=n_draws * N_CELLS**2).reshape(n_draws, -1)


@torch.no_grad()
def there_and_back(X: np.ndarray) -> np.ndarray:
    """Return f⁻¹(f(x)), whose cell is that of z = f(x) where cells are curved: f is a flow after a logit."""
    flow = random_flow("maf")
    z, _ = flow(torch.from_numpy(logit(X)))
    assert (z.numpy() - logit(X)).std() > 0.5  # no identity
    return expit(flow.inverse(z)[0].numpy())


def test_corollary_1() -> None:
    n, n_draws = 100, 2000
    X_p, X_q = draw_cells(np.random.default_rng(0), n * n_draws)
    truth = P_OF_CELLS.ravel() * N_CELLS**2  # r(x) everywhere in a cell, not only on average

    def errors(ratios: np.ndarray) -> np.ndarray:
        return np.abs(ratios.mean(axis=0) - truth) / (ratios.std(axis=0) / math.sqrt(n_draws))

    in_x = counts(X_p, n_draws) / n * N_CELLS**2  # the mass of q in a cell is known, and carried to z with it
    in_z = counts(there_and_back(X_p), n_draws) / n * N_CELLS**2
    assert (errors(in_x) < 4).all()
    assert (errors(in_z) < 4).all()
    np.testing.assert_array_equal(in_z, in_x)  # the map loses no row, and moves none to another cell
    # the check sees a bias: the mean of an inverse count is not the inverse of the mean
    assert (errors(counts(X_p, n_draws) / np.maximum(counts(X_q, n_draws), 1)) > 4).any()


# Corollary 2: a consistent estimator is consistent in z


def hills(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    return 0.8 * rng.normal(size=(n, 2)) + np.where(rng.random((n, 1)) < 0.5, -1.2, 1.2), 1.6 * rng.normal(size=(n, 2))


def hills_log_r(X: np.ndarray) -> np.ndarray:
    return np.logaddexp(normal(X, -1.2, 0.8), normal(X, 1.2, 0.8)) - math.log(2) - normal(X, 0, 1.6)


@cache
def latent_space() -> FlowFeaturizer:
    return FlowFeaturizer(random_flow("maf")).fit(rows())


def new(name: str, space: str) -> RatioEstimator:
    ratio: Any = KLIEP(random_state=0) if name == "kliep" else ClassifierRatio(name, random_state=0)
    return ratio if space == "x" else FeaturizedRatio(ratio, featurizer=latent_space())


@pytest.mark.parametrize("space", ["x", "z"])
@pytest.mark.parametrize("name", ["kliep", "boosting"])
def test_corollary_2_error_falls_with_n(name: str, space: str) -> None:
    X = np.concatenate(hills(np.random.default_rng(9), 2000))
    X = X[np.abs(hills_log_r(X)) < 3]  # where rows of both samples come as n grows: consistency is one of each x
    errors = []
    for n in (250, 1000, 4000):
        models = [new(name, space).fit_samples(*hills(np.random.default_rng(seed), n)) for seed in range(3)]
        errors.append(np.mean([(model.log_ratio(X) - hills_log_r(X)) ** 2 for model in models]))
    # four times the rows: an estimator of kernels or trees has about half the error; 3/4 leaves room for chance
    assert errors[1] < 0.75 * errors[0]
    assert errors[2] < 0.75 * errors[1]


@pytest.mark.parametrize("space", ["x", "z"])
def test_corollary_2_a_true_model_has_the_parametric_rate(space: str) -> None:
    shift, X = np.array([1.0, -0.5]), np.random.default_rng(9).normal(size=(2000, 2))
    A = SHEAR.T if space == "z" else np.eye(2)  # log r is linear in z too
    errors = []
    for n in (250, 4000):
        samples = [np.random.default_rng(seed).normal(size=(2, n, 2)) for seed in range(40)]
        models = [ClassifierRatio("logistic").fit_samples((P + shift) @ A, Q @ A) for P, Q in samples]
        errors.append(np.mean([(model.log_ratio(X @ A) - (X @ shift - 0.625)) ** 2 for model in models]))
    # the error of three parameters is in proportion to 1/n: 16 times less, where 40 draws of a chi-square of three
    # degrees tell a mean to √(2/3/40) = 13 %
    assert 16 / 2 < errors[0] / errors[1] < 16 * 2
