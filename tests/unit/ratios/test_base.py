"""The base class by means of a ratio that is known: what a method sees, scores, odds, overlap, errors."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import expit
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from flowratio import AutoRatio, ClassifierRatio, ConvexRatio, FeaturizedRatio, FlowDifferenceRatio, FlowFeaturizer
from flowratio._support.chunks import chunks
from flowratio.latent import featurizer
from flowratio.ratios import base
from flowratio.ratios.base import OverlapWarning, RatioEstimator, Requires
from flowratio.ratios.inverse import InverseRatio
from flowratio.ratios.scores import kl_score
from flowratio.samples.two_samples import TwoSamples
from flowratio.samples.weighting import weighted_moments
from flowratio.scaling import base as scaler_base


class Tilt(RatioEstimator):
    """log r = slope · (sum of standardized columns) + offset; r = p/q, p is y = 1. It keeps what it was fitted to."""

    def __init__(self, slope: float = 1.0, offset: float = 0.0) -> None:
        self.slope = slope
        self.offset = offset

    def _fit(self, samples: TwoSamples) -> None:
        self.rows_ = samples.X, samples.y, samples.w

    def _log_ratio(self, X: np.ndarray) -> np.ndarray:
        return self.slope * X.sum(axis=1) + self.offset


class Shift(RatioEstimator):
    """log r = x - 1/2 in the units of the input: that of N(1, 1) and N(0, 1), r = p/q, p is y = 1."""

    requires = Requires(units="own")

    def __init__(self, scale: float = 1.0, power: float = 1.0) -> None:
        self.scale = scale
        self.power = power

    def _fit(self, samples: TwoSamples) -> None:
        pass

    def _log_ratio(self, X: np.ndarray) -> np.ndarray:
        return self.power * (X[:, 0] - 0.5) + math.log(self.scale)


def two_samples(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return rng.normal(y, 1.0)[:, None], y


X, Y = two_samples(60)
steep = pytest.mark.filterwarnings("ignore::flowratio.ratios.base.OverlapWarning")  # larger than the rows have it


# What a method sees


def test_a_method_declares_the_form_of_its_rows_and_steers_nothing_else() -> None:
    assert {field.name for field in fields(Requires)} == {"units", "rows", "noise", "categories"}


@pytest.mark.parametrize("form", ["distinct", "repeated"])
def test_method_sees_rows_of_p_first_counted_and_standardized(form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tilt, "requires", Requires(rows=form))
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 4, (40, 2)) * [1.0, 100.0] + [5.0, -300.0]
    y, w = rng.integers(0, 2, 40), rng.integers(0, 3, 40)
    Z, labels, weights = Tilt().fit(rows, y, w).rows_
    for label in (1, 0):
        of, own = labels == label, (y == label) & (w > 0)
        expected, index = np.unique(rows[own], axis=0, return_inverse=True)
        counts = np.bincount(index.ravel(), w[own]) if form == "distinct" else np.ones(w[own].sum())
        assert sorted(weights[of]) == sorted(counts)
        assert len(np.unique(Z[of], axis=0)) == len(expected)
    assert (np.diff(labels) <= 0).all()
    # both samples count one half
    share = weights / np.where(labels == 1, 2 * weights[labels == 1].sum(), 2 * weights[labels == 0].sum())
    np.testing.assert_allclose(share @ Z, 0, atol=1e-14)
    np.testing.assert_allclose(share @ Z**2, 1, rtol=1e-13)


def test_a_factor_of_weights_that_are_not_whole_does_not_matter() -> None:
    w = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    models = [Tilt().fit(X, Y, factor * w) for factor in (1.0, 1e-12, 1e300)]
    for model in models[1:]:
        np.testing.assert_allclose(model.rows_[2], models[0].rows_[2], rtol=1e-12)
    of_p = models[0].rows_[1] == 1
    # Kish: the squared sum over the sum of squares
    assert models[0].rows_[2][of_p].sum() == pytest.approx(w[Y == 1].sum() ** 2 / (w[Y == 1] ** 2).sum())


def test_too_many_repeated_rows_stay_weights() -> None:
    w = 1e9 + np.random.default_rng(0).integers(0, 3, len(X))
    model = Tilt().fit(X, Y, w)
    assert len(model.rows_[0]) == len(X)
    assert sorted(model.rows_[2]) == sorted(w)


def test_what_whole_weights_have_in_common_does_not_matter() -> None:
    once, five_times = Tilt().fit(X, Y), Tilt().fit(X, Y, np.full(len(X), 5.0))
    for seen, again in zip(once.rows_, five_times.rows_, strict=True):
        np.testing.assert_allclose(again, seen, rtol=1e-12, atol=1e-14)


def test_kl_score_takes_a_pipeline_and_no_other_classifier() -> None:
    pipeline = make_pipeline(StandardScaler(), Tilt()).fit(X, Y)
    assert kl_score(pipeline, X, Y) == pytest.approx(kl_score(Tilt().fit(X, Y), X, Y))
    with pytest.raises(TypeError, match="Use a ratio of flowratio, or a pipeline that ends with one"):
        kl_score(LogisticRegression().fit(X, Y), X, Y)


def test_far_rows_are_scored_where_a_method_can_bear_them() -> None:
    model = Tilt().fit(X, Y)
    assert model.log_ratio([[1e300], [-1e300], [1e9]]).tolist() == [1e6, -1e6, 1e6]


def test_constant_column_is_ignored() -> None:
    model = Tilt().fit(np.insert(X, 0, 3.0, axis=1), Y)
    assert model.scale_[0] == math.inf
    log_r = Tilt().fit(X, Y).log_ratio([[0.5]])[0]
    np.testing.assert_allclose(model.log_ratio([[3.0, 0.5], [77.0, 0.5]]), log_r, rtol=1e-12)


def test_class_of_one_row_that_counts_twice() -> None:
    y = np.arange(60) == 7
    model = Tilt().fit(X, y, np.where(y, 2.0, 1.0))
    assert model.log_odds_ == pytest.approx(math.log(2 / 59))
    with pytest.raises(ValueError, match=r"The sample p .* has 1 row of positive weight"):
        Tilt().fit(X, y, np.where(y, 1.9, 1.0))


@pytest.mark.parametrize("labels", [[False, True], [0, 1], [0.0, 1.0]])
def test_one_or_true_is_p(labels: list[Any]) -> None:
    model = Tilt().fit(X, np.array(labels)[Y])
    np.testing.assert_array_equal(model.classes_, labels)
    assert model.rows_[1].sum() == 30
    np.testing.assert_array_equal(model.predict([[9.0], [-9.0]]), [labels[1], labels[0]])


@pytest.mark.parametrize("labels", [["p", "q"], ["q", "p"], [-1, 1], [3, 8], ["0", "1"]])
def test_other_labels_are_refused_with_a_hint(labels: list[Any]) -> None:
    with pytest.raises(
        ValueError, match=r"`y` has the labels .*Use 1 or True on rows of p .*`fit_samples\(X_p, X_q\)`"
    ):
        Tilt().fit(X, np.array(labels)[Y])


@pytest.mark.parametrize(
    "second", [np.zeros((60, 2)), np.zeros((40, 3)), pl.DataFrame({"a": [1.0, 2.0], "b": [1.0, 3.0]})]
)
def test_a_second_sample_instead_of_labels_is_refused(second: Any) -> None:
    with pytest.raises(ValueError, match=r"looks like a second sample. Use `fit_samples\(X_p, X_q\)`"):
        Tilt().fit(X, second)


@steep
def test_validation_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for module in (base, featurizer, scaler_base):
        original = module.validate_data

        def counted(*args: Any, _original: Any = original, _name: str = module.__name__, **kwargs: Any) -> Any:
            calls.append(_name)
            return _original(*args, **kwargs)

        monkeypatch.setattr(module, "validate_data", counted)
    flow = FlowFeaturizer(n_blocks=1, hidden=(8,), max_epochs=40)
    for model in (
        FeaturizedRatio("mlp", featurizer=flow, random_state=0),
        AutoRatio(["logistic", "mlp"], n_folds=2, random_state=0),
        FlowDifferenceRatio(flow, random_state=0),
        ConvexRatio(["lda", "logistic"]),
        InverseRatio(ClassifierRatio("logistic")),
    ):
        calls.clear()
        model.fit_samples(X[Y == 1], X[Y == 0])
        assert len(calls) == 1, model
        model.log_ratio(X)
        assert len(calls) == 2, model


@pytest.mark.parametrize("name", ["p", "q"])
def test_weights_of_a_sample_fit_its_rows(name: str) -> None:
    weights: dict[str, Any] = {f"sample_weight_{name}": np.ones(3)}
    words = rf"`sample_weight_{name}` has shape \(3,\) but `X_{name}` has 30 rows"
    with pytest.raises(ValueError, match=words):
        Tilt().fit_samples(X[Y == 1], X[Y == 0], **weights)


def test_weights_of_one_sample_only() -> None:
    model = Tilt().fit_samples(X[Y == 1], X[Y == 0], sample_weight_q=np.full(30, 3.0))
    assert model.log_odds_ == pytest.approx(-math.log(3))


def test_not_fitted() -> None:
    for call in (Tilt().log_ratio, Tilt().weights, Tilt().predict_proba):
        with pytest.raises(NotFittedError):
            call(X)
    with pytest.raises(NotFittedError):
        Tilt().inverse()


# Scores


def brute_score(log_r: np.ndarray, y: np.ndarray) -> float:
    p = expit(log_r)
    return math.log(2) + np.log(p[y == 1]).mean() / 2 + np.log(1 - p[y == 0]).mean() / 2


def test_score_is_the_balanced_likelihood() -> None:
    model, (X_new, y_new) = Shift().fit(X, Y), two_samples(50, seed=1)
    kept = np.arange(50) % 3 > 0  # unequal samples
    X_new, y_new = X_new[kept], y_new[kept]
    assert model.score(X_new, y_new) == pytest.approx(brute_score(X_new[:, 0] - 0.5, y_new), rel=1e-12)
    w = np.arange(len(y_new)) % 4
    expected = model.score(np.repeat(X_new, w, axis=0), np.repeat(y_new, w))
    assert model.score(X_new, y_new, sample_weight=w) == pytest.approx(expected, rel=1e-12)


@steep
def test_kl_score_is_the_objective_of_kliep() -> None:
    model, (X_new, y_new) = Shift().fit(X, Y), two_samples(50, seed=1)
    log_r = X_new[:, 0] - 0.5
    expected = log_r[y_new == 1].mean() - math.log(np.exp(log_r[y_new == 0]).mean())
    assert kl_score(model, X_new, y_new) == pytest.approx(expected, rel=1e-12)
    assert kl_score(Shift(scale=5.0).fit(X, Y), X_new, y_new) == pytest.approx(expected, rel=1e-12)
    w = np.arange(50) % 4
    repeated = kl_score(model, np.repeat(X_new, w, axis=0), np.repeat(y_new, w))
    assert kl_score(model, X_new, y_new, w) == pytest.approx(repeated, rel=1e-12)


@steep
def test_scores_of_the_truth_are_divergences() -> None:
    n = 40_000
    X_new, y_new = two_samples(n, seed=2)
    p, q = (lambda x: stats.norm.pdf(x, 1, 1)), (lambda x: stats.norm.pdf(x, 0, 1))
    jensen_shannon = quad(lambda x: p(x) * np.log(2 * p(x) / (p(x) + q(x))), -9, 9)[
        0
    ]  # q, the mirror of p, has as much
    model = Shift().fit(X, Y)
    # log(r / (1 + r)) and x - 1/2 have standard deviations of 0.4 and 1, the mean of r one of √(e - 1) = 1.3
    assert model.score(X_new, y_new) == pytest.approx(jensen_shannon, abs=4 * 0.4 / math.sqrt(n))
    assert kl_score(model, X_new, y_new) == pytest.approx(0.5, abs=4 * 1.7 / math.sqrt(n / 2))
    for worse in (Shift(scale=1.3), Shift(scale=0.7), Shift(power=1.3), Shift(power=0.7)):
        assert worse.fit(X, Y).score(X_new, y_new) < model.score(X_new, y_new)


@steep
def test_bounds_of_the_score() -> None:
    assert Tilt(slope=0.0).fit(X, Y).score(X, Y) == pytest.approx(0, abs=1e-15)
    far, y = np.array([[-5.0], [-4.0], [4.0], [5.0]]), np.array([0, 0, 1, 1])
    assert Tilt(slope=1e3).fit(X, Y).score(far, y) == pytest.approx(math.log(2))
    assert Tilt(slope=-1e3).fit(X, Y).score(far, y) < -1e3  # finite, however wrong


def test_score_with_a_class_of_no_weight() -> None:
    with pytest.raises(ValueError, match="`sample_weight` is zero on all rows of a class"):
        Shift().fit(X, Y).score(X, Y, sample_weight=Y)


# Ratios and weights


@steep
def test_ratios_too_large_for_a_float() -> None:
    model = Tilt(slope=1e3).fit(X, Y)
    rows = np.array([[50.0], [40.0], [-50.0]])
    r = model.ratio(rows)
    assert r[0] == r[1] == pytest.approx(np.finfo(np.float64).max)
    assert r[2] == 0
    np.testing.assert_allclose(model.weights(rows), [3, 0, 0], atol=1e-12)  # in logs the larger is still larger
    np.testing.assert_allclose(model.weights(rows, normalize="sum"), [1, 0, 0], atol=1e-12)


def test_chunks_cover_all_rows_and_are_bounded() -> None:
    for n, d in ((1, 1), (8192, 3), (8193, 3), (20_000, 900), (100, 10**7)):
        parts = list(chunks(n, d))
        rows = np.concatenate([np.arange(n)[part] for part in parts])
        np.testing.assert_array_equal(rows, np.arange(n))
        assert max(part.stop - part.start for part in parts) <= max(64, 2**20 // d)


# The inverse


def test_inverse_shares_the_fit_and_turns_back() -> None:
    model = Shift().fit(X, Y)
    inverse = model.inverse()
    assert isinstance(inverse, InverseRatio)
    assert inverse.inverse() is model
    np.testing.assert_array_equal(inverse.log_ratio(X), -model.log_ratio(X))
    np.testing.assert_array_equal(inverse.ratio(X), np.exp(-model.log_ratio(X)))
    assert inverse.score(X, Y) == pytest.approx(model.score(X, Y), abs=1e-15)
    np.testing.assert_allclose(inverse.predict_proba(X), model.predict_proba(X), atol=1e-15)
    # the divergence the other way, KL(q ‖ p)
    expected = -(X[Y == 0, 0] - 0.5).mean() - math.log(np.exp(0.5 - X[Y == 1, 0]).mean())
    assert kl_score(inverse, X, Y) == pytest.approx(expected, rel=1e-12)


def test_inverse_that_is_fitted_itself() -> None:
    inverse = InverseRatio(Shift()).fit(X, Y)
    np.testing.assert_array_equal(inverse.log_ratio(X), -Shift().fit(X, Y).log_ratio(X))
    assert inverse.log_odds_ == 0
    assert repr(inverse).endswith("r = q/p, p is y = 1>")


# Moments


@pytest.mark.parametrize("shift", [0.0, 1e6, -1e9])
def test_moments_are_those_of_numpy(shift: float) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal([0, 3, -2], [1, 1e-3, 1e4], (50, 3)) + shift
    share = rng.random(50)
    share /= share.sum()
    mean, scale = weighted_moments(rows, share)
    centred = rows - rows.mean(axis=0)  # exact enough: what is left has the size of the spread
    expected = share @ centred
    np.testing.assert_allclose(mean, rows.mean(axis=0) + expected, rtol=1e-14)
    np.testing.assert_allclose(scale, np.sqrt(share @ (centred - expected) ** 2), rtol=1e-4 if shift else 1e-12)


def test_moments_of_columns_that_are_constant_up_to_rounding() -> None:
    rows = np.column_stack([np.full(20, 0.1), 1e9 + np.arange(20) % 2 * 1e-7, np.arange(20.0)])
    _, scale = weighted_moments(rows, np.full(20, 0.05))
    assert np.isinf(scale).tolist() == [True, True, False]


def test_values_whose_squares_overflow() -> None:
    with pytest.raises(ValueError, match=r"values of size 1\.0e\+200, whose squares overflow\. Change the units"):
        Tilt().fit(X * [[1.0]] + np.where(np.arange(60) == 5, 1e200, 0)[:, None], Y)


# Overlap


def test_effective_draws_of_two_normals() -> None:
    rows, y = two_samples(20_000, seed=3)
    # mean_q r² = exp(1): 10 000 rows of q are worth 3700; the mean of r² has a heavy tail, and is known to some 10 %
    assert Shift().fit(rows, y).effective_sample_size_ == pytest.approx(10_000 / math.e, rel=0.15)


def test_overlap_warning_names_the_draws_and_the_line() -> None:
    with pytest.warns(
        OverlapWarning, match=r"^The effective sample size is \d\.\d+ of 30, because there are few rows\."
    ) as told:
        Tilt(slope=2.0).fit(X, Y)
    assert told[0].filename == __file__


def test_no_overlap_warning_where_there_is_overlap() -> None:
    Shift().fit(X, Y)  # warnings are errors
    Shift().fit(*two_samples(8))  # nor for a handful of rows
