from __future__ import annotations

import inspect
import math
import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import (
    BaggingClassifier,
    HistGradientBoostingClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.feature_selection import RFE, RFECV, SelectKBest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    KFold,
    TunedThresholdClassifierCV,
    cross_validate,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.utils import all_estimators, check_array
from sklearn.utils.estimator_checks import check_estimator

from flowratio import AutoRatio, ClassifierRatio, TableEncoder
from flowratio.applications import adaptation
from flowratio.applications.adaptation import ImportanceWeighted
from flowratio.applications.target_scorer import TargetScorer
from flowratio.applications.weighted_fit import ResampledWarning
from flowratio.ratios.base import OverlapWarning
from flowratio.samples.two_samples import TwoSamples
from flowratio.weights import effective_sample_size, pareto_smooth

N, N_TARGET = 120, 90


class KnownRatio(BaseEstimator):
    """log r(x) of N(slope, 1) over N(0, 1) in x₁, whatever it is fitted to; it keeps what it was fitted to."""

    def __init__(self, slope: float = 1.0) -> None:
        self.slope = slope

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KnownRatio:
        self.X_, self.y_, self.w_ = np.asarray(X), np.asarray(y), sample_weight
        return self

    def log_ratio(self, X: Any) -> np.ndarray:
        return self.slope * np.asarray(X, np.float64)[:, 0] - self.slope**2 / 2


def test_an_identifier_is_named_once_in_a_fit() -> None:
    X, y, X_target = draw(200, 200)
    tables = [
        pd.DataFrame({"customer_id": np.arange(200) + start, "x": A[:, 0]}) for start, A in ((0, X), (500, X_target))
    ]
    with pytest.warns(UserWarning, match="Left out 'customer_id', because the values are distinct integers") as records:
        ImportanceWeighted(make_pipeline(TableEncoder(), LogisticRegression()), "logistic").fit(
            tables[0], y, X_target=tables[1]
        )
    assert len(records) == 1


class NoShift(BaseEstimator):
    """r = 1, for rows of any columns: fitted from the start."""

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Any, y: Any) -> NoShift:
        return self

    def log_ratio(self, X: Any) -> np.ndarray:
        return np.zeros(len(check_array(X)))


def draw(n: int = N, n_target: int = N_TARGET, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X, y of two classes, and X_target."""
    rng = np.random.default_rng(seed)
    X, X_target = rng.normal(size=(n, 2)), rng.normal(0.8, 1, size=(n_target, 2))
    return X, (X[:, 0] ** 2 + 0.5 * rng.normal(size=n) > 0.7).astype(int), X_target


def cloned(estimator: Any) -> Any:
    return clone(estimator)


def expected_weights(X: np.ndarray, slope: float = 1.0) -> np.ndarray:
    w = np.exp(slope * X[:, 0])
    return w / w.mean()


def test_the_estimator_is_fitted_with_the_ratio_as_weights() -> None:
    X, y, X_target = draw()
    model = ImportanceWeighted(LogisticRegression(), KnownRatio()).fit(X, y, X_target=X_target)
    w = expected_weights(X)
    np.testing.assert_allclose(model.sample_weight_, w, rtol=1e-12)
    assert model.effective_sample_size_ == pytest.approx(w.sum() ** 2 / (w @ w))
    assert model.k_hat_ == pareto_smooth(X[:, 0]).k_hat
    reference = LogisticRegression().fit(X, y, sample_weight=w)
    np.testing.assert_allclose(model.estimator_.coef_, reference.coef_, rtol=1e-9)
    for name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        np.testing.assert_allclose(getattr(model, name)(X_target), getattr(reference, name)(X_target), rtol=1e-9)
    assert model.score(X, y) == reference.score(X, y)
    assert model.score(X, y, sample_weight=w) == pytest.approx(reference.score(X, y, w))
    assert model.classes_.tolist() == [0, 1]


def test_the_target_is_the_numerator() -> None:
    X, y, X_target = draw()
    model = ImportanceWeighted(LogisticRegression(), KnownRatio()).fit(X, y, X_target=X_target)
    np.testing.assert_array_equal(model.ratio_.X_, np.concatenate([X_target, X]))
    assert model.ratio_.y_.tolist() == [1] * N_TARGET + [0] * N


def test_gamma_flattens_and_smooth_smooths() -> None:
    X, y, X_target = draw()
    flat = ImportanceWeighted(LogisticRegression(), KnownRatio(), gamma=0.25).fit(X, y, X_target=X_target)
    np.testing.assert_allclose(flat.sample_weight_, expected_weights(X, 0.25), rtol=1e-12)
    smooth = ImportanceWeighted(LogisticRegression(), KnownRatio(2), smooth=True).fit(X, y, X_target=X_target)
    log_w = pareto_smooth(2 * X[:, 0]).log_w
    np.testing.assert_allclose(smooth.sample_weight_, np.exp(log_w) / np.exp(log_w).mean(), rtol=1e-12)
    assert not np.allclose(smooth.sample_weight_, expected_weights(X, 2))
    none = ImportanceWeighted(LogisticRegression(), KnownRatio(), gamma=0).fit(X, y, X_target=X_target)
    np.testing.assert_allclose(none.sample_weight_, 1.0)
    assert none.effective_sample_size_ == pytest.approx(N)


def test_the_ratio_multiplies_a_copy_of_the_users_weights_and_sees_them() -> None:
    X, y, X_target = draw()
    counts = np.random.default_rng(1).integers(0, 4, size=N).astype(float)
    given = counts.copy()
    model = ImportanceWeighted(LogisticRegression(), KnownRatio()).fit(X, y, X_target=X_target, sample_weight=given)
    np.testing.assert_array_equal(given, counts)
    w = counts * np.exp(X[:, 0])
    np.testing.assert_allclose(model.sample_weight_, w * counts.sum() / w.sum(), rtol=1e-12)
    np.testing.assert_array_equal(model.ratio_.w_, np.concatenate([np.ones(N_TARGET), counts[counts > 0]]))
    with np.errstate(divide="ignore"):
        assert model.effective_sample_size_ == pytest.approx(effective_sample_size(np.log(w)))


@pytest.mark.parametrize("ratio", ["logistic", "qda"])
def test_a_weight_counts_rows(ratio: str) -> None:
    X, y, X_target = draw()
    counts = np.random.default_rng(1).integers(0, 4, size=N)
    often = np.repeat(np.arange(N), counts)
    weighted = ImportanceWeighted(Ridge(), ratio).fit(X, y, X_target=X_target, sample_weight=counts)
    repeated = ImportanceWeighted(Ridge(), ratio).fit(X[often], y[often], X_target=X_target)
    # the same sums in another order
    np.testing.assert_allclose(weighted.estimator_.coef_, repeated.estimator_.coef_, rtol=1e-6)
    assert weighted.sample_weight_.sum() == pytest.approx(repeated.sample_weight_.sum())


def test_folds_weight_rows_by_ratios_that_have_not_seen_them() -> None:
    X, y, X_target = draw()

    class ByHeart(KnownRatio):
        def log_ratio(self, X: Any) -> np.ndarray:
            seen = {row.tobytes() for row in self.X_[self.y_ == 0]}
            return np.array([float(row.tobytes() in seen) for row in np.asarray(X)])

    for n_folds, seen in ((None, 1.0), (3, 0.0)):
        model = ImportanceWeighted(Ridge(), ByHeart(), n_folds=n_folds, random_state=0)
        model.fit(X, y, X_target=X_target)
        assert (model.ratio_.log_ratio(X) == 1).all()  # fitted to all rows
        np.testing.assert_array_equal(model._log_ratios(X, X_target, np.ones(N), 0)[1], seen)


def test_another_reason_than_text_stays() -> None:
    X, y, X_target = draw()
    source, target = (
        pd.DataFrame({"age": rows[:, 0], "self": ["a", "b"] * (len(rows) // 2)}) for rows in (X, X_target)
    )
    source.loc[3, "age"] = np.nan
    model = make_pipeline(make_column_transformer((OneHotEncoder(), ["self"]), remainder="passthrough"), Ridge())
    with pytest.raises(ValueError, match="Input X contains NaN"):
        ImportanceWeighted(model, "logistic", random_state=0).fit(source, y, X_target=target)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_a_model_that_takes_no_text(kind: Any) -> None:
    X, y, X_target = draw()
    columns = [{"age": rows[:, 0], "city": ["a", "b"] * (len(rows) // 2)} for rows in (X, X_target)]
    source, target = map(kind, columns)
    words = "`estimator` is Ridge, which cannot be fitted to text or dates. It takes numbers, but not column 'city'. "
    words += "Use `make_pipeline(TableEncoder(), Ridge())`, or a `OneHotEncoder` for such columns."
    with pytest.raises(ValueError, match=re.escape(words)) as refusal:
        ImportanceWeighted(Ridge(), "logistic").fit(source, y, X_target=target)
    assert "could not convert string to float" in str(refusal.value.__cause__)
    model = make_pipeline(TableEncoder(), Ridge())  # the advice works
    assert ImportanceWeighted(model, "logistic").fit(source, y, X_target=target).predict(target).shape == (N_TARGET,)
    pipeline = make_pipeline(make_column_transformer((OneHotEncoder(), ["city"]), remainder="passthrough"), Ridge())
    source, target = (kind({**one, "job": one["city"]}) for one in columns)
    with pytest.raises(ValueError, match=r"not column 'job'. Use `make_pipeline\(TableEncoder\(\), estimator\)`"):
        ImportanceWeighted(pipeline, "logistic").fit(source, y, X_target=target)


def test_other_errors_of_a_model_stay_as_they_are() -> None:
    X, y, X_target = draw()
    source, target = (pd.DataFrame({"age": rows[:, 0], "city": "a"}) for rows in (X, X_target))
    model = make_pipeline(TableEncoder(), Ridge(alpha=-1.0))
    with pytest.raises(ValueError, match="alpha") as refusal:
        ImportanceWeighted(model, "logistic").fit(source, y, X_target=target)
    assert refusal.value.__cause__ is None


def test_the_choice_of_an_automatic_ratio_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, X_target = draw()
    n_choices = 0

    class Counted(AutoRatio):
        def _fit_units(self, samples: TwoSamples) -> None:
            nonlocal n_choices
            n_choices += 1
            super()._fit_units(samples)

    model = ImportanceWeighted(Ridge(), Counted(["lda", "logistic"]), n_folds=3, random_state=0)
    model.fit(X, y, X_target=X_target)
    assert n_choices == 1
    assert np.corrcoef(np.log(model.sample_weight_), model.ratio_.log_ratio(X))[0, 1] > 0.9
    monkeypatch.setattr(adaptation, "AutoRatio", KnownRatio)  # in place of the default, which takes its time
    np.testing.assert_allclose(
        ImportanceWeighted(Ridge()).fit(X, y, X_target=X_target).sample_weight_, expected_weights(X), rtol=1e-12
    )


def test_a_ratio_that_takes_no_weights_is_fitted_to_repeated_rows() -> None:
    class Unweighted(BaseEstimator):
        def fit(self, X: Any, y: Any) -> Unweighted:
            self.X_ = X
            return self

        def log_ratio(self, X: Any) -> np.ndarray:
            return X[:, 0]

    X, y, X_target = draw()
    counts = np.random.default_rng(1).integers(0, 4, size=N)
    frame, target = pd.DataFrame(X), pd.DataFrame(X_target)
    model = ImportanceWeighted(Ridge(), Unweighted()).fit(frame, y, X_target=target, sample_weight=counts)
    np.testing.assert_array_equal(model.ratio_.X_, np.concatenate([X_target, np.repeat(X, counts, axis=0)]))
    with pytest.raises(ValueError, match=r"takes no weights\. Use integers, or another ratio"):
        model.fit(X, y, X_target=X_target, sample_weight=counts + 0.5)


def test_estimators_without_weights_are_fitted_to_rows_drawn_by_weight() -> None:
    X, y, X_target = draw()
    w = expected_weights(X)
    fits = []
    for _ in range(2):
        model = ImportanceWeighted(KNeighborsClassifier(1), KnownRatio(), random_state=3)
        with pytest.warns(ResampledWarning, match="KNeighborsClassifier takes no `sample_weight`"):
            model.fit(X, y, X_target=X_target)
        fits.append(model.estimator_._fit_X)
    np.testing.assert_array_equal(*fits)
    assert len(fits[0]) == N
    often = np.array([(fits[0] == row).all(axis=1).sum() for row in X])
    assert (np.abs(often - w) < 1).all()  # systematic: a fraction off at most


def test_resampling_frames_and_series() -> None:
    X, y, X_target = draw()
    for library in (pd, pl):
        frames = [library.DataFrame({"a": rows[:, 0], "b": rows[:, 1]}) for rows in (X, X_target)]
        model = ImportanceWeighted(KNeighborsRegressor(), KnownRatio(), random_state=0)
        with pytest.warns(ResampledWarning):
            model.fit(frames[0], library.Series(y), X_target=frames[1])
        assert model.predict(frames[1]).shape == (N_TARGET,)


def test_it_is_what_the_estimator_inside_is() -> None:
    assert is_classifier(ImportanceWeighted(LogisticRegression()))
    assert not is_regressor(ImportanceWeighted(LogisticRegression()))
    assert is_regressor(ImportanceWeighted(make_pipeline(StandardScaler(), Ridge())))
    assert not hasattr(ImportanceWeighted(Ridge()), "predict_proba")
    assert not hasattr(ImportanceWeighted(Ridge()), "classes_")
    assert hasattr(ImportanceWeighted(LogisticRegression()), "predict_proba")
    assert not hasattr(ImportanceWeighted(SVC()), "predict_proba")
    with pytest.raises(NotFittedError):
        ImportanceWeighted(Ridge()).predict([[1.0]])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("estimator", [LogisticRegression(), Ridge()])
def test_scikit_learns_own_checks(estimator: Any) -> None:
    # without a fitted ratio there is no fit(X, y): the target must come from somewhere
    check_estimator(ImportanceWeighted(estimator, NoShift()))


def test_settings_of_both_inside_can_be_read_and_set() -> None:
    model = ImportanceWeighted(LogisticRegression(C=2.0), ClassifierRatio("lda"))
    params = model.get_params()
    assert params["estimator__C"] == 2.0
    assert params["ratio__classifier"] == "lda"
    model.set_params(estimator__C=3.0, ratio__classifier="qda")
    made = cloned(model)
    assert made.estimator is not model.estimator
    assert made.get_params()["estimator__C"] == 3.0
    assert made.ratio.classifier == "qda"


def test_a_fitted_ratio_is_used_as_it_is_and_shared_by_clones() -> None:
    X, y, X_target = draw()
    ratio = ClassifierRatio("logistic").fit_samples(X_target, X)
    model = cloned(ImportanceWeighted(LogisticRegression(), ratio))
    model.fit(X[:60], y[:60])
    assert model.ratio_ is ratio
    np.testing.assert_allclose(model.sample_weight_, ratio.weights(X[:60]), rtol=1e-12)
    with pytest.raises(ValueError, match="`ratio` is fitted"):
        model.fit(X, y, X_target=X_target)
    with pytest.raises(ValueError, match="`ratio__classifier` cannot be set"):
        model.set_params(ratio__classifier="lda")
    with pytest.raises(ValueError, match="Leave out `X_target` and `n_folds`"):
        cloned(model).set_params(n_folds=3).fit(X, y)
    unfitted = cloned(ImportanceWeighted(LogisticRegression(), ClassifierRatio("logistic")))
    assert unfitted.fit(X, y, X_target=X_target).ratio_ is not unfitted.ratio


@pytest.mark.parametrize("library", [pd, pl])
def test_data_frames(library: Any) -> None:
    X, y, X_target = draw()
    names = ["age", "height"]
    frame, target = (library.DataFrame(dict(zip(names, rows.T, strict=True))) for rows in (X, X_target))
    model = ImportanceWeighted(LogisticRegression(), "logistic").fit(frame, y, X_target=target)
    plain = ImportanceWeighted(LogisticRegression(), "logistic").fit(X, y, X_target=X_target)
    np.testing.assert_allclose(model.sample_weight_, plain.sample_weight_, rtol=1e-12)
    assert model.feature_names_in_.tolist() == names
    assert model.ratio_.feature_names_in_.tolist() == names
    assert model.n_features_in_ == 2
    np.testing.assert_array_equal(model.predict(target), plain.predict(X_target))
    by_name = ImportanceWeighted(LogisticRegression(), "logistic").fit(frame, y, X_target=target[["height", "age"]])
    np.testing.assert_allclose(by_name.sample_weight_, model.sample_weight_, rtol=1e-9)
    with pytest.raises(ValueError, match="have different columns \\('age' only in `X`\\)"):
        model.fit(frame, y, X_target=target[["height"]])
    with pytest.raises(ValueError, match="feature names"):
        model.predict(target[["height", "age"]])
    np.testing.assert_array_equal(model.predict(target), plain.predict(X_target))  # a failed fit changes nothing


def test_bad_input_is_refused() -> None:
    X, y, X_target = draw()
    model = ImportanceWeighted(LogisticRegression(), "lda")
    for match, arguments in (
        ("`X_target` is None", (X, y)),
        ("`X_target` has 1 columns but `X` has 2", (X, y, X_target[:, :1])),
        ("`X_target` has 1 infinite", (X, y, np.where(X_target == X_target[3, 1], np.inf, X_target))),
        ("`X` has 2 infinite", (np.where(np.arange(N)[:, None] == 3, np.inf, X), y, X_target)),
        ("inconsistent numbers of samples", (X, y[:-1], X_target)),
        ("`sample_weight` has shape", (X, y, X_target, np.ones(N - 1))),
        ("`sample_weight` is not an array of numbers", (X, y, X_target, ["a"] * N)),
        ("zero", (X, y, X_target, np.zeros(N))),
        ("negative on 1 of 120 rows", (X, y, X_target, np.where(np.arange(N) == 5, -1.0, 1.0))),
    ):
        with pytest.raises(ValueError, match=match):
            model.fit(*arguments)
    for match, params in (
        ("`gamma` is -1", {"gamma": -1}),
        ("`gamma` is nan", {"gamma": math.nan}),
        (r"`smooth` is 'no'\. Use True or False", {"smooth": "no"}),
        ("`n_folds` is 1", {"n_folds": 1}),
        ("`ratio` is 'logistik'", {"ratio": "logistik"}),
        ("`random_state` is -1", {"random_state": -1}),
    ):
        with pytest.raises(ValueError, match=match):
            cloned(model).set_params(**params).fit(X, y, X_target=X_target)
    bad: Any = LogisticRegression
    with pytest.raises(TypeError, match="`estimator` is"):
        ImportanceWeighted(bad, "lda").fit(X, y, X_target=X_target)
    ratio = ClassifierRatio("lda").fit_samples(X_target, X)
    with pytest.raises(ValueError, match="expecting 2 features"):
        ImportanceWeighted(Ridge(), ratio).fit(X[:, :1], y)


def test_a_fit_that_fails_changes_nothing() -> None:
    X, y, X_target = draw()
    model = ImportanceWeighted(LogisticRegression(), "lda").fit(X, y, X_target=X_target)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="class"):  # the ratio is fitted by then
        model.fit(X, np.zeros(N, int), X_target=X_target + 0.1)
    assert all(vars(model)[name] is value for name, value in before.items())


def test_a_pipeline_inside_gives_the_weights_to_its_last_step() -> None:
    X, y, X_target = draw()
    inner = make_pipeline(StandardScaler(), make_pipeline(SelectKBest(k=1), LogisticRegression()))
    model = ImportanceWeighted(inner, KnownRatio()).fit(X, y, X_target=X_target)
    w = expected_weights(X)
    reference = cloned(inner).fit(X, y, pipeline__logisticregression__sample_weight=w)
    np.testing.assert_allclose(model.decision_function(X_target), reference.decision_function(X_target), rtol=1e-9)
    assert not np.allclose(model.decision_function(X_target), cloned(inner).fit(X, y).decision_function(X_target))


@pytest.mark.parametrize(
    ("outer", "plain"),
    [
        (GridSearchCV(Ridge(), {"alpha": [3.0]}), Ridge(3.0)),
        (GridSearchCV(make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": [3.0]}), None),
        (TransformedTargetRegressor(Ridge(3.0), func=np.asarray, inverse_func=np.asarray), Ridge(3.0)),
    ],
)
def test_what_passes_keywords_on_takes_weights(outer: Any, plain: Any) -> None:
    X, y, X_target = draw()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResampledWarning)
        model = ImportanceWeighted(outer, KnownRatio()).fit(X, y.astype(float), X_target=X_target)
    w = expected_weights(X)
    if plain is None:
        reference = make_pipeline(StandardScaler(), Ridge(3.0)).fit(X, y, ridge__sample_weight=w)
    else:
        reference = cloned(plain).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(model.predict(X_target), reference.predict(X_target), rtol=1e-9)


def test_a_search_over_estimators_without_weights_is_resampled() -> None:
    X, y, X_target = draw()
    model = ImportanceWeighted(GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 5]}), KnownRatio())
    with pytest.warns(
        ResampledWarning, match=r"KNeighborsClassifier takes no `sample_weight`\. GridSearchCV is fitted to"
    ):
        model.fit(X, y, X_target=X_target)


def without_arguments(kind: str) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {name: made for name, made in all_estimators(kind) if name != "SelfTrainingClassifier"}  # of nothing
    needs = inspect.Parameter.empty
    settings = {name: list(inspect.signature(made).parameters.values()) for name, made in found.items()}
    return [found[name] for name, of in settings.items() if all(one.default is not needs for one in of)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("made", [*without_arguments("classifier"), *without_arguments("regressor")])
def test_weights_are_never_in_the_way_of_a_fit(made: Any) -> None:
    X, y, _ = draw(40)
    quick = {"n_estimators": 3, "max_iter": 5, "max_subpopulation": 10, "cv": 2}
    estimator = made()
    estimator.set_params(**{name: value for name, value in quick.items() if name in estimator.get_params()})
    for inner in (estimator, make_pipeline(StandardScaler(), estimator)):
        said = ""
        try:
            ImportanceWeighted(inner, NoShift(), random_state=0).fit(X, y)
        except (TypeError, ValueError) as error:  # of other things, such as two columns, or one column of y
            said = str(error)
        assert "weight" not in said
        assert "keyword" not in said


L, K = LogisticRegression(), KNeighborsClassifier()


@pytest.mark.parametrize(
    ("estimator", "refuses"),
    [
        (OneVsRestClassifier(L), "OneVsRestClassifier takes no `sample_weight` without metadata routing"),
        (OneVsOneClassifier(L), "OneVsOneClassifier takes no"),
        (OutputCodeClassifier(L, random_state=0), "OutputCodeClassifier takes no"),
        (TunedThresholdClassifierCV(L, cv=2), "TunedThresholdClassifierCV takes no"),
        (FixedThresholdClassifier(L), "FixedThresholdClassifier takes no"),
        (make_pipeline(StandardScaler(), OneVsRestClassifier(L)), r"OneVsRestClassifier takes .*\. Pipeline is fitted"),
        (make_pipeline(StandardScaler(), K), r"KNeighborsClassifier takes no `sample_weight`\. Pipeline is fitted"),
        (GridSearchCV(OneVsRestClassifier(L), {"estimator__C": [1.0]}), r"OneVsRestClassifier takes .*\. GridSearchCV"),
        (RFECV(L, cv=2), "RFECV takes no"),
        (VotingClassifier([("l", L), ("k", K)]), r"KNeighborsClassifier takes no `sample_weight`\. VotingClassifier"),
        (VotingClassifier([("l", make_pipeline(StandardScaler(), L))]), "Pipeline takes no `sample_weight` without"),
        (StackingClassifier([("k", K)], cv=2), "KNeighborsClassifier takes no"),
        (StackingClassifier([("l", L)], K, cv=2), "KNeighborsClassifier takes no"),
        (CalibratedClassifierCV(K, cv=2), "KNeighborsClassifier takes no"),
        (CalibratedClassifierCV(make_pipeline(StandardScaler(), L), cv=2), "Pipeline takes no"),
        (BaggingClassifier(K, n_estimators=2), "KNeighborsClassifier takes no"),
    ],
)
def test_what_is_made_of_others_and_takes_no_weights_is_resampled(estimator: Any, refuses: str) -> None:
    X, y, X_target = draw()
    model = ImportanceWeighted(estimator, KnownRatio(), random_state=0)
    with pytest.warns(ResampledWarning, match=refuses):
        model.fit(X, y, X_target=X_target)
    assert model.predict(X_target).shape == (N_TARGET,)


@pytest.mark.parametrize(
    "estimator",
    [
        VotingClassifier([("a", L), ("b", SVC()), ("c", "drop")]),
        StackingClassifier([("a", L)], cv=2),
        RFE(L, n_features_to_select=1),
        CalibratedClassifierCV(L, cv=2),
    ],
)
def test_what_is_made_of_others_that_take_weights_is_given_them(estimator: Any) -> None:
    X, y, X_target = draw()  # warnings are errors
    model = ImportanceWeighted(estimator, KnownRatio()).fit(X, y, X_target=X_target)
    reference = cloned(estimator).fit(X, y, sample_weight=expected_weights(X))
    np.testing.assert_array_equal(model.predict(X_target), reference.predict(X_target))
    assert (model.predict(X_target) != cloned(estimator).fit(X, y).predict(X_target)).any()


def test_with_routing_one_against_the_rest_takes_weights() -> None:
    X, y, X_target = draw()
    with config_context(enable_metadata_routing=True):
        inner = OneVsRestClassifier(LogisticRegression().set_fit_request(sample_weight=True))
        model = ImportanceWeighted(inner, KnownRatio()).fit(X, y, X_target=X_target)
    plain = LogisticRegression().fit(X, y, sample_weight=expected_weights(X))
    np.testing.assert_allclose(model.estimator_.estimators_[0].coef_, plain.coef_, rtol=1e-6)


@pytest.mark.parametrize("last", ["passthrough", None])
def test_a_pipeline_without_an_estimator_is_refused(last: Any) -> None:
    X, y, X_target = draw()
    inner: Any = Pipeline([("scaler", StandardScaler()), ("last", last)])
    with pytest.raises(TypeError, match="`estimator` is a pipeline that ends with"):
        ImportanceWeighted(make_pipeline(StandardScaler(), inner), KnownRatio()).fit(X, y, X_target=X_target)


def test_a_target_beyond_the_source_leaves_no_rows() -> None:
    rng = np.random.default_rng(0)
    X, X_target = rng.normal(size=(500, 1)), rng.normal(100, 1, size=(500, 1))
    y = rng.normal(size=500)
    model = ImportanceWeighted(Ridge(), "logistic")
    text = "100 % of the rows of the target lie where the source has hardly any rows, because column `x1` separates"
    with pytest.warns(OverlapWarning, match=text) as caught:
        model.fit(X, y, X_target=X_target)
    assert [warning.filename for warning in caught] == [__file__]
    # the weights of the source rows alone do not show it
    assert model.effective_sample_size_ == pytest.approx(effective_sample_size(np.log(model.sample_weight_)))
    assert model.effective_sample_size_ > 100
    assert model.ratio_.effective_sample_size_ == pytest.approx(model.effective_sample_size_)
    assert model.ratio_.uncovered_share_ == 1.0
    with pytest.warns(OverlapWarning, match="100 % of the rows of the target") as caught:
        ImportanceWeighted(Ridge(), model.ratio_).fit(X, y)
    assert [warning.filename for warning in caught] == [__file__]
    flat = ImportanceWeighted(Ridge(), "logistic", gamma=0).fit(X, y, X_target=X_target)
    assert flat.effective_sample_size_ == pytest.approx(500)


@pytest.mark.parametrize("gamma", [0.3, 0.5, 0.8])
def test_draws_of_flattened_weights_are_those_of_a_large_sample(gamma: float) -> None:
    # p = N(1.5, 1), q = N(0, 1): mean_q r^g = exp(g (g - 1) m² / 2), so that draws are n exp(-g² m²)
    rng = np.random.default_rng(0)
    X, X_target = rng.normal(size=(5000, 1)), rng.normal(1.5, 1, size=(5000, 1))
    model = ImportanceWeighted(Ridge(), KnownRatio(1.5), gamma=gamma).fit(X, rng.normal(size=5000), X_target=X_target)
    # r^2g is lognormal with sigma = 3 g, so that its mean over 5000 rows has this relative standard error
    error = math.sqrt(math.expm1((3 * gamma) ** 2) / 5000)
    assert model.effective_sample_size_ == pytest.approx(5000 * math.exp(-((1.5 * gamma) ** 2)), rel=3 * error)
    assert model.effective_sample_size_ == pytest.approx(effective_sample_size(np.log(model.sample_weight_)))


def test_a_fitted_pipeline_and_anything_with_log_ratios_are_ratios() -> None:
    class Plain:
        def log_ratio(self, X: Any) -> np.ndarray:
            return pipeline.score_samples(X)

    X, y, X_target = draw()
    rows, is_p = np.concatenate([X_target, X]), np.repeat([1, 0], [N_TARGET, N])
    pipeline: Any = make_pipeline(StandardScaler(), ClassifierRatio("logistic")).fit(rows, is_p)
    w = np.exp(pipeline.score_samples(X))
    fitted = LogisticRegression().fit(X, y)
    right = fitted.predict(X) == y
    for ratio in (pipeline, Plain()):
        model = cloned(ImportanceWeighted(LogisticRegression(), ratio)).fit(X, y)
        np.testing.assert_allclose(model.sample_weight_, w / w.mean(), rtol=1e-12)
        assert TargetScorer("accuracy", ratio)(fitted, X, y) == pytest.approx((w @ right) / w.sum())
    table = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "u", "v")})
    of_target = pd.DataFrame({"a": X_target[:, 0], "b": np.where(X_target[:, 1] > 0, "u", "v")})
    ratio = ClassifierRatio("logistic").fit_samples(of_target, table)
    inner = make_pipeline(make_column_transformer((OneHotEncoder(), ["b"]), remainder="passthrough"), L)
    model = ImportanceWeighted(inner, ratio).fit(table, y)
    np.testing.assert_allclose(model.sample_weight_, ratio.weights(table), rtol=1e-12)
    assert 0 < TargetScorer("accuracy", ratio)(model, table, y) <= 1


def test_a_plain_class_is_fitted_once_it_has_a_name_with_an_underscore() -> None:
    class Plain:
        def fit(self, X: Any, y: Any) -> Plain:
            self.ratio_ = ClassifierRatio("logistic").fit(X, y)
            return self

        def log_ratio(self, X: Any) -> np.ndarray:
            return self.ratio_.log_ratio(X)

    X, y, X_target = draw()
    model = cloned(ImportanceWeighted(LogisticRegression(), Plain())).fit(X, y, X_target=X_target)
    fitted = ImportanceWeighted(LogisticRegression(), model.ratio_).fit(X, y)
    np.testing.assert_allclose(fitted.sample_weight_, model.sample_weight_, rtol=1e-12)


def test_a_pipeline_inside_with_routing() -> None:
    X, y, X_target = draw()
    with config_context(enable_metadata_routing=True):
        silent = make_pipeline(StandardScaler(), Ridge())
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            ImportanceWeighted(silent, KnownRatio()).fit(X, y, X_target=X_target)
        inner = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=False), Ridge().set_fit_request(sample_weight=True)
        )
        model = ImportanceWeighted(inner, KnownRatio()).fit(X, y, X_target=X_target)
    plain = ImportanceWeighted(make_pipeline(StandardScaler(), Ridge()), KnownRatio()).fit(X, y, X_target=X_target)
    np.testing.assert_allclose(model.predict(X), plain.predict(X), rtol=1e-12)


def test_the_last_step_of_a_pipeline() -> None:
    X, y, X_target = draw()
    scaler = StandardScaler().fit(X)
    reference = ImportanceWeighted(LogisticRegression(), "logistic")
    reference.fit(scaler.transform(X), y, X_target=scaler.transform(X_target))
    with config_context(enable_metadata_routing=True):
        last = ImportanceWeighted(LogisticRegression(), "logistic").set_fit_request(X_target=True)
        pipe: Any = make_pipeline(StandardScaler(), last, transform_input=["X_target"])
        pipe.fit(X, y, X_target=X_target)
    np.testing.assert_allclose(pipe[-1].sample_weight_, reference.sample_weight_, rtol=1e-9)
    # without routing the target comes as it is given, in the units of the last step
    pipe = make_pipeline(StandardScaler(), ImportanceWeighted(LogisticRegression(), "logistic"))
    pipe.fit(X, y, importanceweighted__X_target=scaler.transform(X_target))
    np.testing.assert_allclose(pipe[-1].sample_weight_, reference.sample_weight_, rtol=1e-9)


@pytest.mark.parametrize("routing", [False, True])
def test_cross_validation_passes_the_whole_target_if_it_has_another_length(routing: bool) -> None:
    X, y, X_target = draw()
    u = np.random.default_rng(1).uniform(0.5, 2, size=N)
    with config_context(enable_metadata_routing=routing):
        model: Any = ImportanceWeighted(LogisticRegression(), KnownRatio())
        if routing:
            model.set_fit_request(X_target=True, sample_weight=True).set_score_request(sample_weight=False)
        found = cross_validate(
            model, X, y, cv=3, params={"X_target": X_target, "sample_weight": u}, return_estimator=True,
            return_indices=True,
        )  # fmt: skip
    for one, train in zip(found["estimator"], found["indices"]["train"], strict=True):
        np.testing.assert_array_equal(one.ratio_.X_, np.concatenate([X_target, X[train]]))
        w = one.ratio_.w_[N_TARGET:]  # relative weights: they add up to the rows that they are worth
        np.testing.assert_allclose(w / w.sum(), u[train] / u[train].sum(), rtol=1e-12)
        assert w.sum() == pytest.approx(w.sum() ** 2 / (w @ w))


def test_cross_validation_by_a_fitted_ratio_cuts_nothing() -> None:
    X, y, X_target = draw(n_target=N)
    cut = cross_validate(
        ImportanceWeighted(Ridge(), KnownRatio()), X, y, params={"X_target": X_target}, cv=KFold(3),
        return_estimator=True,
    )  # fmt: skip
    # as many rows as X: scikit-learn takes them for rows of X, which the docstring warns of
    assert all(len(one.ratio_.X_) == 2 * (2 * N // 3) for one in cut["estimator"])
    ratio = ClassifierRatio("logistic").fit_samples(X_target, X)
    model = ImportanceWeighted(Ridge(), ratio)
    found = cross_validate(model, X, y, cv=KFold(3), return_estimator=True, return_indices=True)
    for one, train in zip(found["estimator"], found["indices"]["train"], strict=True):
        np.testing.assert_allclose(one.sample_weight_, ratio.weights(X[train]), rtol=1e-12)


def test_a_search_over_the_settings_of_both() -> None:
    X, y, X_target = draw()
    search = GridSearchCV(
        ImportanceWeighted(LogisticRegression(), KnownRatio()), {"estimator__C": [0.1, 1.0], "gamma": [0.0, 1.0]}
    )
    search.fit(X, y, X_target=X_target)
    assert set(search.best_params_) == {"estimator__C", "gamma"}


def test_boosting_takes_the_weights() -> None:
    X, y, X_target = draw()
    model = ImportanceWeighted(HistGradientBoostingClassifier(max_iter=5), KnownRatio())
    assert model.fit(X, y, X_target=X_target).predict_proba(X_target).shape == (N_TARGET, 2)
