from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from flowratio import ClassifierRatio
from flowratio.ratios.classifier import gaussian, noise
from flowratio.ratios.classifier.gaussian import GaussianDiscriminant
from flowratio.ratios.classifier.gaussian_rows import moments_of, variance_floors, wide_density
from flowratio.ratios.classifier.noise import Noisy, expected_noise_shares

COVARIANCE_P = np.array([[1.0, 0.6, 0.2], [0.6, 1.5, -0.3], [0.2, -0.3, 0.7]])
COVARIANCE_Q = np.array([[1.4, -0.3, 0.0], [-0.3, 0.8, 0.1], [0.0, 0.1, 1.1]])
MEAN_P = np.array([0.5, 0.0, -0.3])


def draw(n_p: int, n_q: int, seed: int = 0, covariance_q: np.ndarray = COVARIANCE_Q) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X_p = rng.normal(size=(n_p, 3)) @ np.linalg.cholesky(COVARIANCE_P).T + MEAN_P
    X_q = rng.normal(size=(n_q, 3)) @ np.linalg.cholesky(covariance_q).T
    return np.concatenate([X_p, X_q]), np.repeat([1, 0], [n_p, n_q])


def log_ratio(model: GaussianDiscriminant, X: np.ndarray) -> np.ndarray:
    return model.decision_function(X) - model.log_odds_


@pytest.mark.parametrize("shared", [False, True])
def test_many_rows_give_the_true_densities(shared: bool) -> None:
    covariance_q = COVARIANCE_P if shared else COVARIANCE_Q
    X, y = draw(200_000, 100_000, covariance_q=covariance_q)
    model = GaussianDiscriminant(shared).fit(X, y)
    X_new = np.random.default_rng(1).normal(size=(500, 3))
    log_density: Any = multivariate_normal.logpdf
    truth = log_density(X_new, MEAN_P, COVARIANCE_P) - log_density(X_new, np.zeros(3), covariance_q)
    # a moment of 100 000 rows has an error of 0.3 %; a squared distance of at most 25 is made of it
    np.testing.assert_allclose(log_ratio(model, X_new), truth, rtol=0, atol=0.15)
    assert model.log_odds_ == pytest.approx(math.log(2))


def plug_in(X_p: np.ndarray, X_q: np.ndarray, X: np.ndarray, shared: bool) -> np.ndarray:
    """Return log r of rows (m, d) by the plain moments of samples, (k, n, d) each, to (k, m)."""
    log_densities = []
    centered = [sample - sample.mean(axis=1, keepdims=True) for sample in (X_p, X_q)]
    scatters = [np.swapaxes(C, 1, 2) @ C for C in centered]
    dofs = [X_p.shape[1] - 1, X_q.shape[1] - 1]
    if shared:
        scatters, dofs = [scatters[0] + scatters[1]] * 2, [sum(dofs)] * 2
    for sample, scatter, dof in zip((X_p, X_q), scatters, dofs, strict=True):
        D = X - sample.mean(axis=1, keepdims=True)  # (k, m, d)
        distance = (D * np.swapaxes(np.linalg.solve(scatter / dof, np.swapaxes(D, 1, 2)), 1, 2)).sum(axis=2)
        log_densities.append(-0.5 * distance - 0.5 * np.linalg.slogdet(scatter / dof)[1][:, None])
    return log_densities[0] - log_densities[1]


def errors(covariance_p: np.ndarray, covariance_q: np.ndarray, shared: bool) -> tuple[float, float]:
    """Return mean squared errors of log r over many small samples, with noise shrunk and with plain moments."""
    n_p, n_q, k = 30, 45, 300
    rng = np.random.default_rng(0)
    root_p, root_q = np.linalg.cholesky(covariance_p), np.linalg.cholesky(covariance_q)
    X_p, X_q = rng.normal(size=(k, n_p, 3)) @ root_p.T + MEAN_P, rng.normal(size=(k, n_q, 3)) @ root_q.T
    X = np.concatenate([rng.normal(size=(50, 3)) @ root_p.T + MEAN_P, rng.normal(size=(50, 3)) @ root_q.T])
    log_density: Any = multivariate_normal.logpdf
    truth = log_density(X, MEAN_P, covariance_p) - log_density(X, np.zeros(3), covariance_q)
    y = np.repeat([1, 0], [n_p, n_q])
    models = [GaussianDiscriminant(shared).fit(np.concatenate(pair), y) for pair in zip(X_p, X_q, strict=True)]
    ours = np.array([log_ratio(model, X) for model in models])
    return float(np.mean((ours - truth) ** 2)), float(np.mean((plug_in(X_p, X_q, X, shared) - truth) ** 2))


@pytest.mark.parametrize("covariance", [np.eye(3), COVARIANCE_P], ids=["independent", "correlated"])
def test_plain_moments_are_worse_where_covariances_are_alike(covariance: np.ndarray) -> None:
    ours, plain = errors(covariance, covariance, shared=False)
    assert ours < plain / 2  # 12 parameters of covariances are noise, of 18 in all
    ours, plain = errors(covariance, covariance, shared=True)
    assert ours < 1.3 * plain  # means of 0 to 2 standard errors, which are taken for noise in part


@pytest.mark.parametrize(
    ("covariance_p", "covariance_q"),
    [(COVARIANCE_P, COVARIANCE_Q), (np.diag([0.25, 0.36, 0.49]), np.diag([1.0, 2.0, 1.4]))],
    ids=["correlations", "variances"],
)
def test_plain_moments_are_not_much_better_where_covariances_differ(
    covariance_p: np.ndarray, covariance_q: np.ndarray
) -> None:
    ours, plain = errors(covariance_p, covariance_q, shared=False)
    assert ours < 2 * plain  # what is taken for noise is at most as large as the noise


def test_few_changes_are_found_among_many_columns() -> None:
    d, n, changed = 20, 400, [3, 11]
    mean, scale = np.zeros(d), np.ones(d)
    mean[changed], scale[changed] = 1.5, 0.7
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(mean, scale, (n, d)), rng.normal(size=(n, d))
    X = np.concatenate([rng.normal(mean, scale, (1000, d)), rng.normal(size=(1000, d))])
    univariate: Any = norm
    truth = (univariate.logpdf(X, mean, scale) - univariate.logpdf(X)).sum(axis=1)
    model = GaussianDiscriminant().fit(np.concatenate([X_p, X_q]), np.repeat([1, 0], n))
    ours = np.mean((log_ratio(model, X) - truth) ** 2)
    plain = np.mean((plug_in(X_p[None], X_q[None], X, shared=False)[0] - truth) ** 2)
    assert ours < plain / 10  # 8 parameters of 460 are not those of q
    few = [*changed, 0, 1, 2]
    error = np.mean((plug_in(X_p[None][..., few], X_q[None][..., few], X[:, few], shared=False)[0] - truth) ** 2)
    assert ours < error  # as if all but five columns were known to be alike


def test_columns_that_are_nearly_others_are_not_shrunk_each_for_itself() -> None:
    rng, d, n = np.random.default_rng(0), 20, 3000
    loadings = 5 * rng.normal(size=(d, 2))
    covariance_q = loadings @ loadings.T + np.eye(d)  # nearly two columns
    A = np.eye(d) + 0.03 * rng.normal(size=(d, d)) / math.sqrt(d)
    covariance_p = A @ covariance_q @ A.T
    root_p, root_q = np.linalg.cholesky(covariance_p), np.linalg.cholesky(covariance_q)
    X_p, X_q, T_p, T_q = (rng.normal(size=(n, d)) @ root.T for root in (root_p, root_q) * 2)
    X = np.concatenate([T_p, T_q])
    log_density: Any = multivariate_normal.logpdf
    truth = log_density(X, np.zeros(d), covariance_p) - log_density(X, np.zeros(d), covariance_q)
    model = GaussianDiscriminant().fit(np.concatenate([X_p, X_q]), np.repeat([1, 0], n))
    plain = np.mean((plug_in(X_p[None], X_q[None], X, shared=False)[0] - truth) ** 2)
    assert np.mean((log_ratio(model, X) - truth) ** 2) < 2 * plain  # what is taken for noise is at most as large


def test_one_covariance_makes_log_r_linear() -> None:
    model = GaussianDiscriminant(shared=True).fit(*draw(40, 60))
    rng = np.random.default_rng(1)
    a, b, t = rng.normal(size=(20, 3)), rng.normal(size=(20, 3)), rng.normal(size=(20, 1))
    on_the_line = (1 - t[:, 0]) * model.decision_function(a) + t[:, 0] * model.decision_function(b)
    np.testing.assert_allclose(model.decision_function((1 - t) * a + t * b), on_the_line, rtol=0, atol=1e-10)
    two = GaussianDiscriminant().fit(*draw(40, 60))
    between = (1 - t[:, 0]) * two.decision_function(a) + t[:, 0] * two.decision_function(b)
    assert np.abs(two.decision_function((1 - t) * a + t * b) - between).max() > 0.1


@pytest.mark.parametrize("shared", [False, True])
def test_weights_count_rows(shared: bool) -> None:
    X, y = draw(15, 20)
    w = np.random.default_rng(1).integers(1, 5, 35)
    weighted = GaussianDiscriminant(shared).fit(X, y, w.astype(float))
    repeated = GaussianDiscriminant(shared).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), rtol=0, atol=1e-10)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("n_p", "n_q", "d"), [(5, 7, 40), (2, 2, 3), (2, 50, 10), (11, 11, 10), (12, 12, 10)])
def test_more_columns_than_rows(shared: bool, n_p: int, n_q: int, d: int) -> None:
    rng = np.random.default_rng(0)
    X, y = np.concatenate([rng.normal(2, 1, (n_p, d)), rng.normal(0, 1, (n_q, d))]), np.repeat([1, 0], [n_p, n_q])
    model = GaussianDiscriminant(shared).fit(X, y)
    log_r = log_ratio(model, X)
    assert np.isfinite(log_r).all()
    if shared:  # with two covariances one of two rows decides alone
        assert log_r[y == 1].mean() > 0 > log_r[y == 0].mean()


def test_columns_that_are_constant_within_a_sample() -> None:
    X, y = draw(30, 30)
    X = np.column_stack([X, y, np.zeros(60), X[:, 0]])  # tells p from q; tells nothing; is there twice
    for shared in (False, True):
        assert np.isfinite(GaussianDiscriminant(shared).fit(X, y).decision_function(X)).all()


@pytest.mark.parametrize("name", ["lda", "qda"])
def test_the_odds_are_taken_out_once(name: str) -> None:
    X, y = draw(300, 3000)
    ratio = ClassifierRatio(name).fit(X, y)
    direct = GaussianDiscriminant(shared=name == "lda").fit((X - ratio.mean_) / ratio.scale_, y)
    np.testing.assert_allclose(
        ratio.log_ratio(X), log_ratio(direct, (X - ratio.mean_) / ratio.scale_), rtol=0, atol=1e-9
    )
    np.testing.assert_allclose(ratio.decision_function(X), ratio.log_ratio(X) + math.log(0.1), rtol=0, atol=1e-9)


# More columns than rows, and columns without a variance


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("d", [58, 60, 62, 300])
def test_the_form_of_rows_and_the_form_of_columns_agree(shared: bool, d: int) -> None:
    rng = np.random.default_rng(0)
    mixing = np.eye(d) + rng.normal(size=(d, d)) / math.sqrt(d)
    samples = [(rng.normal(size=(n, d)) @ mixing + 0.3 * k, np.ones(n)) for k, n in enumerate((35, 25))]
    floors = variance_floors(*samples)
    p, q = (moments_of(*sample, floor) for sample, floor in zip(samples, floors, strict=True))
    r_p, r_q = gaussian._correlations(p), gaussian._correlations(q)
    by_columns = gaussian._dense_density(p, r_p, q, r_q, shared)  # d × d
    by_rows = wide_density(p, q, shared)  # 60 × 60
    D = rng.normal(size=(50, d))
    np.testing.assert_allclose(by_rows.distances(D), by_columns.distances(D), rtol=1e-8)
    assert by_rows.constant == pytest.approx(by_columns.constant, rel=1e-10)


@pytest.mark.filterwarnings("ignore::flowratio.ratios.base.OverlapWarning")
@pytest.mark.parametrize("name", ["lda", "qda"])
def test_many_more_columns_than_rows(name: str) -> None:
    rng, n, d = np.random.default_rng(0), 100, 2000
    shift = np.where(np.arange(d) < 20, 1.0, 0.0)
    ratio = ClassifierRatio(name).fit_samples(rng.normal(size=(n, d)) + shift, rng.normal(size=(n, d)))
    X_p, X_q = rng.normal(size=(500, d)) + shift, rng.normal(size=(500, d))
    log_r = ratio.log_ratio(np.concatenate([X_p, X_q]))
    # the truth has a mean of ±10 and separates all rows. A shift of 1 is 7 standard errors of a difference of means
    assert np.mean(np.where(np.arange(1000) < 500, log_r, -log_r) > 0) > 0.95


@pytest.mark.filterwarnings("ignore::flowratio.ratios.base.OverlapWarning")
@pytest.mark.parametrize("n", [50, 5000])
@pytest.mark.parametrize("name", ["lda", "qda"])
def test_different_constants_have_a_log_ratio_that_n_rows_can_show(name: str, n: int) -> None:
    rng = np.random.default_rng(0)
    X_p = np.column_stack([rng.normal(size=n), np.full(n, 2024.0)])
    X_q = np.column_stack([rng.normal(size=n), np.full(n, 2023.0)])
    ratio = ClassifierRatio(name).fit_samples(X_p, X_q)
    # log(1 + n) of the constants. The first column adds noise: n rows show its mean to 1/√n, and rows reach to 4
    np.testing.assert_allclose(ratio.log_ratio(X_p), math.log1p(n), atol=1 + 8 * math.sqrt(2 / n))
    np.testing.assert_allclose(ratio.log_ratio(X_q), -math.log1p(n), atol=1 + 8 * math.sqrt(2 / n))


def test_a_column_that_varies_in_one_sample_only() -> None:
    rng, n = np.random.default_rng(0), 1000
    X_p, X_q = np.zeros((n, 1)), rng.normal(size=(n, 1))
    log_r = ClassifierRatio("qda").fit_samples(X_p, X_q).log_ratio(np.array([[0.0], [1.0], [3.0]]))
    assert log_r[0] > 0 > log_r[1] > log_r[2]
    assert np.abs(log_r).max() < 5 * math.log1p(n)  # it was 10⁸


def test_a_narrow_column_is_not_a_constant() -> None:
    rng, n = np.random.default_rng(0), 20_000
    X_p, X_q = rng.normal(0, 0.01, (n, 1)), rng.normal(size=(n, 1))
    log_r = ClassifierRatio("qda").fit_samples(X_p, X_q).log_ratio(np.array([[0.0], [0.02]]))
    gaussian_log_density: Any = norm.logpdf
    truth = gaussian_log_density([0.0, 0.02], 0, 0.01) - gaussian_log_density([0.0, 0.02])
    np.testing.assert_allclose(log_r, truth, atol=0.1)  # a variance of 20 000 rows is known to 1 %


def test_shares_of_noise_of_many_entries_need_few_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    value = rng.normal(size=20_000) * 0.1
    value[:20] += 1.0  # rare
    entries = Noisy(value, np.full(20_000, 0.01))
    exact = expected_noise_shares(entries)
    monkeypatch.setattr(noise, "_MAX_ENTRIES", 2_000)
    sketched = expected_noise_shares(entries)
    np.testing.assert_allclose(sketched, exact, atol=0.02)
    assert sketched[:20].max() < 0.2
    assert np.median(sketched[20:]) > 0.9
