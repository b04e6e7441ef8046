"""Log-ratios of candidates of a flow: checks of the ratio before, and of its values after."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from flowratio._support.progress import progress
from flowratio._support.types import Matrix, Vector
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.base import RatioEstimator
from flowratio.ratios.inverse import InverseRatio

_EXAMPLE = "a fitted ratio, such as `FeaturizedRatio().fit(X, y)`"


@contextmanager
def scoring(n_batches: int, name: str, verbose: bool) -> Iterator[Callable[[], None]]:
    """Show the progress of batches of candidates, without warnings about names of columns."""
    with warnings.catch_warnings(), progress(n_batches, name, verbose) as step:
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)  # they were compared
        yield step


def checked_log_r(ratio: Any, log_r: Any, n: int) -> Vector:
    """Return log r of n candidates, (n,). That of a foreign ratio may be -inf: such a candidate is never drawn."""
    values = np.asarray(log_r, np.float64)
    if values.shape != (n,) or not (values < np.inf).all():
        bad = f"{np.count_nonzero(~(values < np.inf))} of them NaN or inf"
        problem = f"`log_ratio` of {ratio!r} returned {values.shape} values for {n} rows, {bad}"
        raise ValueError(f"{problem}. It must return one number for each row.")
    return values


def log_ratio(ratio: Any, X: Matrix) -> Any:
    """Return log r of candidates. That of a foreign ratio may be -inf: such a candidate is never drawn."""
    return ratio.log_ratio_prepared(X) if isinstance(ratio, RatioEstimator) else ratio.log_ratio(X)


def checked_ratio(ratio: Any, name: str = "ratio", example: str = _EXAMPLE) -> Any:
    """Return a ratio unchanged, or refuse an object that is none. Errors call it `name`."""
    if isinstance(ratio, type) or not callable(getattr(ratio, "log_ratio", None)):
        raise TypeError(f"`{name}` is {ratio!r}. Give {example}.")
    if isinstance(ratio, InverseRatio):
        raise TypeError(f"`{name}` is {ratio!r}, which is q/p. Give the ratio p/q, and choose by `toward`.")
    return ratio


def check_columns(ratio: Any, featurizer: FlowFeaturizer, space: str, name: str = "ratio") -> None:
    """Refuse a ratio that was fitted to other columns than the candidates have."""
    d = featurizer.flow_.n_features if space == "z" else featurizer.n_features_in_
    if getattr(ratio, "n_features_in_", d) != d:
        remedy = f"Fit it to {'`featurizer.transform(X)`' if space == 'z' else 'the rows of `featurizer`'}."
        problem = f"`{name}` was fitted to {ratio.n_features_in_} columns, but {space} of `featurizer` has {d}"
        raise ValueError(f"{problem}. {remedy}")
    names, names_x = (getattr(of, "feature_names_in_", None) for of in (ratio, featurizer))
    if names is None or names_x is None:
        return
    if space == "z" and list(names) == list(names_x):
        raise ValueError("`ratio` was fitted to columns of x. Fit it to `featurizer.transform(X)`, or use `space='x'`.")
    if space == "x" and list(names) != list(names_x):
        problem = f"`{name}` was fitted to the columns {list(names)[:8]}, but `featurizer` to {list(names_x)[:8]}"
        raise ValueError(f"{problem}. Both must have the same columns in the same order.")
