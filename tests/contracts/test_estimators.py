"""Every estimator is a good citizen of scikit-learn: its own checks, data frames, clones, pipelines, searches."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import flowratio
import flowratio.latent
import flowratio.scaling
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.scaling.base import Scaler

# a run of two epochs is cut short on purpose, and rows of the checks have constant and collinear columns
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::flowratio.scaling.base.ScalingWarning"),
]

# Settings without which a class cannot be built, or is slow.
SETTINGS: dict[str, Any] = {
    "max_epochs": 2,
    "n_blocks": 2,
    "hidden": (8,),
    "random_state": 0,
    "steps": [flowratio.Standardizer(), flowratio.Gaussianizer()],
}


def modules_of(package: ModuleType) -> list[pkgutil.ModuleInfo]:
    return list(pkgutil.iter_modules(package.__path__, f"{package.__name__}."))


def estimators() -> Iterator[BaseEstimator]:
    """Walk the package for estimators, and build each."""
    for info in (*modules_of(flowratio.scaling), *modules_of(flowratio.latent)):
        for value in vars(import_module(info.name)).values():
            if not isinstance(value, type) or not issubclass(value, BaseEstimator) or value.__module__ != info.name:
                continue
            if not inspect.isabstract(value) and not issubclass(
                value, flowratio.RatioEstimator | flowratio.TableEncoder
            ):
                names = inspect.signature(value).parameters
                yield value(**{name: setting for name, setting in SETTINGS.items() if name in names})


ESTIMATORS = list(estimators())


def checks() -> list[Any]:
    return [pair for estimator in ESTIMATORS for pair in estimator_checks_generator(estimator)]


def name_of(value: Any) -> str:
    return type(value).__name__ if isinstance(value, BaseEstimator) else str(value.func.__name__)


def test_estimators_are_found() -> None:
    names = {type(estimator).__name__ for estimator in ESTIMATORS}
    assert {"FlowFeaturizer", "Standardizer", "Gaussianizer", "Dequantizer", "Logit", "ScalerChain"} <= names
    public = [getattr(flowratio, name) for name in flowratio.__all__]
    classes = [value for value in public if isinstance(value, type) and issubclass(value, BaseEstimator)]
    # ratios have their own contracts, in test_ratios.py; ImportanceWeighted needs a target, and is checked with its
    # unit tests; TargetedSampler is never fitted; TableEncoder and TableRatio take what the checks demand to be refused
    # (text, gaps), and are in test_tables.py
    elsewhere = {value.__name__ for value in classes if issubclass(value, flowratio.RatioEstimator)}
    elsewhere |= {"ImportanceWeighted", "TargetedSampler", "TableEncoder"}
    assert {value.__name__ for value in classes} <= names | elsewhere


def takes_any_rows(estimator: BaseEstimator) -> bool:
    fresh: Any = clone(estimator)
    try:
        fresh.fit(np.random.default_rng(0).normal(size=(50, 2)))
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(("estimator", "check"), checks(), ids=name_of)
def test_of_scikit_learn(estimator: BaseEstimator, check: Callable[[BaseEstimator], None]) -> None:
    try:
        check(estimator)
    except (ValueError, AssertionError) as error:
        # The rows of the checks are normal numbers. A scaler of numbers from 0 to 1 alone, or of whole ones, refuses
        # them in its own words, and what the check asks about them does not arise.
        text = f"{error} {error.__cause__} {error.__context__}"
        if takes_any_rows(estimator) or not isinstance(estimator, Scaler) or "counted from 0). Use" not in text:
            raise


def featurizer(**changed: Any) -> FlowFeaturizer:
    return FlowFeaturizer(**{"n_blocks": 2, "hidden": (8,), "max_epochs": 2, "random_state": 0, **changed})


def table(n: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"age": rng.gamma(9, 5, n), "height": rng.normal(1.7, 0.1, n)})


@pytest.mark.parametrize(("library", "frame"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
@pytest.mark.parametrize("source", [pd.DataFrame, pl.DataFrame, np.asarray])
def test_featurizer_gives_the_frames_it_is_asked_for(library: str, frame: type, source: Callable[..., Any]) -> None:
    X = source(table().to_dict("list")) if source is not np.asarray else table().to_numpy()
    plain = featurizer().fit_transform(X)
    fitted = featurizer().set_output(transform=library).fit(X)
    Z = fitted.transform(X)
    assert isinstance(Z, frame)
    assert list(Z.columns) == list(fitted.get_feature_names_out()) == ["flowfeaturizer0", "flowfeaturizer1"]
    np.testing.assert_array_equal(np.asarray(Z), plain)
    # the way back takes what the way there gave
    np.testing.assert_allclose(fitted.inverse_transform(Z), table().to_numpy(), rtol=1e-3)


def test_featurizer_clone_is_unfitted_and_fits_to_the_same_bits() -> None:
    fitted = featurizer().fit(table())
    twin: Any = clone(fitted)
    assert twin.get_params() == fitted.get_params()
    assert not hasattr(twin, "flow_")
    np.testing.assert_array_equal(twin.fit(table()).transform(table()), fitted.transform(table()))


def test_featurizer_clone_with_a_pretrained_flow_has_its_own() -> None:
    flow = flowratio.MAF(2, n_blocks=2, hidden=(8,))
    model = FlowFeaturizer(flow)
    twin: Any = clone(model)
    assert isinstance(twin.flow, flowratio.MAF)
    assert twin.flow is not flow
    np.testing.assert_array_equal(twin.fit_transform(table()), model.fit_transform(table()))


def test_featurizer_in_a_pipeline() -> None:
    X, rng = table(400), np.random.default_rng(1)
    y = (X["age"] + rng.normal(size=400) > 45).astype(int)
    pipeline: Any = make_pipeline(StandardScaler(), featurizer(max_epochs=5), LogisticRegression()).fit(X, y)
    assert pipeline.score(X, y) > 0.9  # a noise of 1 beside an age with a spread of 15
    assert pipeline[:-1].get_feature_names_out().tolist() == ["flowfeaturizer0", "flowfeaturizer1"]
    densities = make_pipeline(StandardScaler(), featurizer()).fit(X)
    np.testing.assert_array_equal(densities.score_samples(X), densities[-1].score_samples(densities[0].transform(X)))


def test_featurizer_in_a_search_over_blocks() -> None:
    X = table(300)
    search = GridSearchCV(featurizer(), {"n_blocks": [1, 3]}, cv=3).fit(X)
    assert search.best_params_["n_blocks"] in (1, 3)
    assert search.best_estimator_.flow_.config()["n_blocks"] == search.best_params_["n_blocks"]
    # the score of a candidate is the mean log-density of the rows left out
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert scores[0] != scores[1]
    assert search.best_score_ == scores.max()
    assert search.score(X) == search.best_estimator_.score(X)
