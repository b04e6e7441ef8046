"""What every scaler promises: the classes of `flowratio.scaling`, and the names of its registry."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from flowratio import scaling
from flowratio.scaling import SCALINGS
from flowratio.scaling.base import Scaler

Build = Callable[[], Scaler]
N, D = 400, 3

# Rows of every kind that a scaler may ask for: it gets the first that it does not refuse.
ROWS = {
    "skewed": np.random.default_rng(0).gamma(2.0, size=(N, D)) * [1.0, 30.0, 0.01] + [0.0, 500.0, -1.0],
    "between 0 and 1": np.random.default_rng(0).uniform(0.05, 0.95, (N, D)),
    "whole numbers": np.random.default_rng(0).integers(1, 255, (N, D)).astype(float),
}


def builders() -> dict[str, Build]:
    """Find every scaler that builds without arguments, and those with names."""
    builds: dict[str, Build] = dict(SCALINGS)
    for name, value in vars(scaling).items():
        if isinstance(value, type) and issubclass(value, Scaler) and not inspect.isabstract(value):
            parameters = inspect.signature(value).parameters.values()
            if all(p.default is not inspect.Parameter.empty for p in parameters):
                builds[name] = value
    return builds


BUILDERS = builders()
every_scaler = pytest.mark.parametrize("build", BUILDERS.values(), ids=list(BUILDERS))


def rows_for(build: Build) -> np.ndarray:
    reasons = []
    for X in ROWS.values():
        try:
            build().fit(X)
        except ValueError as reason:
            reasons.append(str(reason))
        else:
            return X
    raise AssertionError(f"no rows for {build}: {reasons}")


class Given:
    """A generator that draws what it is given: the derivative by the noise of a dequantizer is that by x."""

    def __init__(self, value: np.ndarray) -> None:
        self.value = value

    def random(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.value.reshape(shape)


def shifted(scaler: Scaler, X: np.ndarray, shift: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """Map X + shift; where x is whole, the shift is that of the noise around ½."""
    if scaler.stochastic:
        noise: Any = Given(np.full(X.shape, 0.5) + shift)
        return scaler.forward(X, noise)
    return scaler.forward(X + shift)


def test_scalers_are_found() -> None:
    assert {"standard", "gaussian", "image", "none"} <= BUILDERS.keys()
    assert {"Standardizer", "Gaussianizer", "Dequantizer", "Logit"} <= BUILDERS.keys()
    classes = {c for c in vars(scaling).values() if isinstance(c, type) and issubclass(c, Scaler)}
    assert {c for c in classes if not inspect.isabstract(c)} <= {type(build()) for build in BUILDERS.values()}


@every_scaler
def test_log_det_is_that_of_the_slopes(build: Build) -> None:
    X = rows_for(build)
    scaler = build().fit(X)
    _, log_det = shifted(scaler, X, 0.0)
    h = np.where(scaler.stochastic, 0.01, 1e-5 * X.std(0))
    slopes = np.empty((N, D, D))  # of z_i in x_j
    for j in range(D):
        up, down = (shifted(scaler, X, sign * h * (np.arange(D) == j))[0] for sign in (1, -1))
        slopes[:, :, j] = (up - down) / (2 * np.broadcast_to(h, D)[j])
    # central differences err by h² of the third derivative and by rounding over h, both below 1e-6; a row in a hundred
    # stands at a knot, where the second derivative jumps and the error is of order h, 1e-5 of the slope
    np.testing.assert_allclose(np.linalg.slogdet(slopes)[1], log_det, rtol=0, atol=2e-4)


@every_scaler
def test_inverse_both_ways_with_the_log_det_of_x_to_z(build: Build) -> None:
    X = rows_for(build)
    scaler = build().fit(X)
    Z, log_det = scaler.forward(X)
    assert Z.shape == (N, scaler.n_features_out_)
    assert log_det.shape == (N,)
    assert Z.dtype == log_det.dtype == np.float64
    X_back, log_det_back = scaler.inverse(Z)
    np.testing.assert_allclose(X_back, X, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(log_det_back, log_det, rtol=0, atol=1e-8)
    np.testing.assert_allclose(scaler.forward(X_back)[0], Z, rtol=0, atol=1e-8)
    np.testing.assert_array_equal(scaler.transform(X), Z)
    np.testing.assert_array_equal(scaler.inverse_transform(Z), X_back)


@every_scaler
def test_rows_do_not_see_each_other(build: Build) -> None:
    X = rows_for(build)
    scaler = build().fit(X)
    Z, log_det = scaler.forward(X)
    Z_some, log_det_some = scaler.forward(X[10:17])
    np.testing.assert_allclose(Z_some, Z[10:17], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(log_det_some, log_det[10:17], rtol=1e-12, atol=1e-12)


@every_scaler
def test_is_strictly_increasing_in_each_column(build: Build) -> None:
    X = rows_for(build)
    scaler = build().fit(X)
    order = np.argsort(X, axis=0)
    Z = np.take_along_axis(scaler.forward(X)[0], order, axis=0)
    apart = np.diff(np.take_along_axis(X, order, axis=0), axis=0) > 0
    assert (np.diff(Z, axis=0)[apart] > 0).all()


@every_scaler
def test_fit_is_a_function_of_the_rows_and_global_generators_stay(build: Build) -> None:
    X = rows_for(build)
    before = str(np.random.get_state())  # noqa: NPY002 - to see it untouched
    a, b = (build().fit(X).forward(X)[0] for _ in range(2))
    np.testing.assert_array_equal(a, b)
    assert str(np.random.get_state()) == before  # noqa: NPY002


@every_scaler
def test_noise_is_that_of_the_generator_alone(build: Build) -> None:
    X = rows_for(build)
    scaler = build().fit(X)
    a, b, c = (scaler.forward(X, np.random.default_rng(seed))[0] for seed in (0, 0, 1))
    np.testing.assert_array_equal(a, b)
    assert np.array_equal(a, c) != scaler.stochastic
    assert np.array_equal(a, scaler.forward(X)[0]) != scaler.stochastic


@every_scaler
def test_clone_is_unfitted_and_equal_in_settings(build: Build) -> None:
    X = rows_for(build)
    scaler = build().fit(X)
    twin: Any = clone(scaler)
    assert not hasattr(twin, "n_features_in_")
    np.testing.assert_array_equal(twin.fit(X).transform(X), scaler.transform(X))


@every_scaler
def test_names_of_columns_are_kept(build: Build) -> None:
    frame = pd.DataFrame(rows_for(build), columns=["age", "height", "weight"])
    scaler = build().fit(frame).set_output(transform="pandas")
    assert list(scaler.get_feature_names_out()) == ["age", "height", "weight"]
    Z = scaler.transform(frame)
    assert isinstance(Z, pd.DataFrame)
    assert list(Z.columns) == ["age", "height", "weight"]
    with pytest.raises(ValueError, match="same order"):
        scaler.transform(frame[["height", "age", "weight"]])


@every_scaler
def test_wrong_number_of_columns_is_refused(build: Build) -> None:
    X = rows_for(build)
    scaler = build().fit(X)
    with pytest.raises(ValueError, match=r"`X` has shape \(400, 2\). Use rows with 3 columns"):
        scaler.forward(X[:, :2])
    with pytest.raises(ValueError, match=r"`Z` has shape \(400, 2\)"):
        scaler.inverse(X[:, :2])


def learns_its_units(build: Build) -> bool:
    """Tell whether a scaler centres and scales what it sees; others hold for given units, such as those of an image."""
    X = rows_for(build)
    scaler = build().fit(X)
    Z = scaler.transform(X)
    return not scaler.stochastic and np.allclose(Z.mean(0), 0, atol=0.01) and np.allclose(Z.std(0), 1, atol=0.05)


LEARNING = {name: build for name, build in BUILDERS.items() if learns_its_units(build)}


@pytest.mark.parametrize("build", LEARNING.values(), ids=list(LEARNING))
@pytest.mark.parametrize(("unit", "shift"), [(1e-4, 0.0), (1e4, 0.0), (1.0, 1e6), (-1.0, 0.0)])
def test_one_density_in_all_units(build: Build, unit: float, shift: float) -> None:
    X = rows_for(build)
    Z, log_det = build().fit(X).forward(X)
    Z_units, log_det_units = build().fit(unit * X + shift).forward(unit * X + shift)
    # beside 1e6 a value of 0.01 keeps 1e-8 of itself
    np.testing.assert_allclose(np.sign(unit) * Z_units, Z, rtol=0, atol=1e-6)
    np.testing.assert_allclose(log_det_units, log_det - D * np.log(abs(unit)), rtol=0, atol=1e-5)


def test_scalers_that_learn_their_units_are_found() -> None:
    assert {"standard", "gaussian"} <= LEARNING.keys() < BUILDERS.keys()
