"""Ratios by the names that other classes, and the command line, take for them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from flowratio.ratios.base import OverlapWarning, RatioEstimator
from flowratio.ratios.classifier.classifier import CLASSIFIERS, ClassifierRatio
from flowratio.ratios.kernel.kliep import KLIEP
from flowratio.ratios.kernel.kmm import KMM
from flowratio.ratios.kernel.lsif import RULSIF, ULSIF
from flowratio.ratios.neural.difference import FlowDifferenceRatio
from flowratio.ratios.neural.telescoping import TelescopingRatio
from flowratio.samples.weighting import is_whole

_OTHERS: dict[str, Callable[[], RatioEstimator]] = {
    "kmm": KMM,
    "kliep": KLIEP,
    "ulsif": ULSIF,
    "rulsif": RULSIF,
    "difference": FlowDifferenceRatio,
    "telescoping": TelescopingRatio,
}
NAMES = (*CLASSIFIERS, *_OTHERS)


def new_ratio(ratio: Any, seed: int, verbose: bool = False) -> Any:
    """Return an unfitted ratio of a name, or a clone of one that is given.

    Parameters
    ----------
    ratio
        A name of `NAMES`, or an object with `fit(X, y)` and `log_ratio(X)`.
    seed
        Fills in a `random_state` that is None.
    verbose
        Whether to turn on a progress bar that is off.
    """
    if isinstance(ratio, str):
        if ratio not in NAMES:
            raise ValueError(f"`ratio` is {ratio!r}: give a ratio, or one of {', '.join(NAMES)}.")
        made: Any = _OTHERS[ratio]() if ratio in _OTHERS else ClassifierRatio(ratio)
    elif isinstance(ratio, type) or not all(callable(getattr(ratio, name, None)) for name in ("fit", "log_ratio")):
        raise TypeError(
            f"`ratio` is {ratio!r}: give an object with `fit(X, y)` and `log_ratio(X)`, such as `KLIEP()` or "
            f"`ClassifierRatio(a_classifier)`, or one of {', '.join(NAMES)}."
        )
    else:
        made = clone(ratio, safe=False)
    return seeded_like(made, seed, verbose)


def log_ratio_of(ratio: Any) -> Callable[[Any], Any]:
    """Return the function from rows to log r of a fitted ratio, or of a pipeline that ends with one."""
    last = ratio.steps[-1][1] if hasattr(ratio, "steps") else ratio
    if isinstance(ratio, type) or not callable(getattr(last, "log_ratio", None)):
        raise TypeError(
            f"`ratio` is {ratio!r}: give a fitted ratio, an object with `log_ratio(X)`, such as "
            "`ClassifierRatio().fit_samples(X_p, X_q)`."
        )
    return ratio.log_ratio if last is ratio else ratio.score_samples


def is_ready(ratio: Any) -> bool:
    """Return whether a ratio, or a pipeline that ends with one, is fitted; what has no `fit` needs none."""
    last = ratio.steps[-1][1] if hasattr(ratio, "steps") else ratio
    if isinstance(ratio, type) or not callable(getattr(last, "log_ratio", None)):
        return False
    try:
        check_is_fitted(ratio)
    except NotFittedError:
        return False
    except TypeError:  # it has no `fit`
        return True
    return True


def seeded_like(made: Any, seed: int, verbose: bool) -> Any:
    """Give an estimator the seed and the progress bar of the one that made it, where it has none of its own."""
    settings = made.get_params(deep=False) if hasattr(made, "get_params") else {}
    if settings.get("random_state", seed) is None:
        made.set_params(random_state=seed)
    if settings.get("verbose") is False and verbose:
        made.set_params(verbose=True)
    return made


def with_those_inside(params: dict[str, Any], ratio: Any, deep: bool) -> dict[str, Any]:
    """Return settings with `ratio` as it was given and, if `deep`, its own as `ratio__…`."""
    params["ratio"] = ratio
    if deep and hasattr(ratio, "get_params") and not isinstance(ratio, type):
        params |= {f"ratio__{name}": value for name, value in ratio.get_params().items()}
    return params


def fitted(ratio: Any, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> Any:
    """Fit a ratio to rows with weights; for one that takes no weights whole ones become repeated rows."""
    if has_fit_parameter(ratio, "sample_weight"):
        return ratio.fit(X, y, sample_weight=w)
    if not is_whole(w):
        raise ValueError(f"`sample_weight` is given, but {ratio!r} takes none: give whole numbers, or another ratio.")
    often = np.repeat(np.arange(len(X)), w.astype(np.int64))
    return ratio.fit(X[often], y[often])


@contextmanager
def silent() -> Iterator[None]:
    """Keep to itself what ratios say of each fit, where there are many."""
    with warnings.catch_warnings():
        for category in (OverlapWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        yield
