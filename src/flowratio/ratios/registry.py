"""The one table of ratios: every public class, and every name that stands for a ratio.

Estimators, `AutoRatio`, the command line and the docs read it. A new ratio is its module, its line here, and its unit
test. A module is imported at its first use, so that the names alone do not load torch.
"""
# isort: skip_file

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from flowratio._support.errors import ArgumentError
from flowratio._support.lazy import lazily
from flowratio._support.types import Matrix, TableLike, Vector
from flowratio._support.wording import nearest, quoted
from flowratio.ratios.base import Design, OverlapWarning, RatioEstimator
from flowratio.samples.stacking import column_names, to_matrix
from flowratio.samples.two_samples import TwoSamples
from flowratio._support.row_counts import is_whole

if TYPE_CHECKING:  # the public classes: `flowratio` has these names too
    from flowratio.ratios.inverse import InverseRatio as InverseRatio
    from flowratio.ratios.kernel.kmm import KMM as KMM
    from flowratio.ratios.kernel.kliep import KLIEP as KLIEP
    from flowratio.ratios.kernel.lsif import RULSIF as RULSIF, ULSIF as ULSIF
    from flowratio.ratios.classifier.classifier import ClassifierRatio as ClassifierRatio
    from flowratio.ratios.neural.network_ratio import NetworkRatio as NetworkRatio
    from flowratio.ratios.neural.difference import FlowDifferenceRatio as FlowDifferenceRatio
    from flowratio.ratios.neural.telescoping import TelescopingRatio as TelescopingRatio
    from flowratio.ratios.featurized.featurized import FeaturizedRatio as FeaturizedRatio
    from flowratio.ratios.featurized.joint import JointFeaturizedRatio as JointFeaturizedRatio
    from flowratio.ratios.auto.convex import ConvexRatio as ConvexRatio
    from flowratio.ratios.auto.auto import AutoRatio as AutoRatio

__getattr__, __dir__, __all__ = lazily(__name__, __file__)


@dataclass(frozen=True)
class RatioEntry:
    """What a name stands for."""

    cls: str  # the name of a public class of flowratio
    settings: Mapping[str, Any] = field(default_factory=dict)  # its arguments. A `RatioEntry` among them is built too
    candidate: bool = False  # whether `AutoRatio` tries it by default

    def build(self) -> Any:
        """Return a new, unfitted object."""
        settings = {k: v.build() if isinstance(v, RatioEntry) else v for k, v in self.settings.items()}
        return getattr(import_module("flowratio"), self.cls)(**settings)


def _after_gaussianizing(name: str) -> RatioEntry:
    return RatioEntry("FeaturizedRatio", {"estimator": name, "featurizer": RatioEntry("Gaussianizer")}, candidate=True)


# Candidates are in order of simplicity: of two that are equally good, `AutoRatio` takes the first.
RATIOS: dict[str, RatioEntry] = {
    "lda": RatioEntry("ClassifierRatio", {"classifier": "lda"}, candidate=True),
    "logistic": RatioEntry("ClassifierRatio", {"classifier": "logistic"}, candidate=True),
    "qda": RatioEntry("ClassifierRatio", {"classifier": "qda"}, candidate=True),
    "telescoping": RatioEntry("TelescopingRatio", candidate=True),
    "quadratic": RatioEntry("ClassifierRatio", {"classifier": "quadratic"}, candidate=True),
    "additive": RatioEntry("ClassifierRatio", {"classifier": "additive"}, candidate=True),
    "additive after gaussianizing": _after_gaussianizing("additive"),
    "telescoping after gaussianizing": _after_gaussianizing("telescoping"),
    "kliep": RatioEntry("KLIEP", candidate=True),
    "ulsif": RatioEntry("ULSIF", candidate=True),
    "boosting": RatioEntry("ClassifierRatio", {"classifier": "boosting"}, candidate=True),
    "mlp": RatioEntry("NetworkRatio", {"network": "mlp"}, candidate=True),
    "mlp after gaussianizing": _after_gaussianizing("mlp"),
    "difference": RatioEntry("FlowDifferenceRatio", candidate=True),
    "mlp in z": RatioEntry("FeaturizedRatio", {"estimator": "mlp", "base": None}, candidate=True),  # the base is one too
    "kliep in z": RatioEntry("FeaturizedRatio", {"estimator": "kliep"}, candidate=True),
    "telescoping in z": RatioEntry("FeaturizedRatio", {"estimator": "telescoping"}, candidate=True),
    "cnn": RatioEntry("NetworkRatio", {"network": "cnn"}),
    "kmm": RatioEntry("KMM"),
    "rulsif": RatioEntry("RULSIF"),
    "auto": RatioEntry("AutoRatio"),
}


def named_ratio(name: str, argument: str = "ratio") -> Any:
    """Return the unfitted ratio of a name of `RATIOS`. Hyphens may stand for spaces. Errors call it `argument`."""
    entry = RATIOS.get(name) or RATIOS.get(name.replace("-", " "))
    if entry is None:
        hint = nearest(name, RATIOS)
        raise ArgumentError(
            argument, f"`{argument}` is {quoted(name)}.{hint} Use a ratio, or one of {', '.join(RATIOS)}."
        )
    return entry.build()


def new_ratio(ratio: Any, seed: int, verbose: bool = False, argument: str = "ratio") -> Any:
    """Return an unfitted ratio: that of a name, a clone of an object, or an `AutoRatio` for None.

    `seed` and `verbose` are for a ratio without a seed or a progress bar. Errors call the ratio `argument`.
    """
    if ratio is None or isinstance(ratio, str):
        return seeded_like(named_ratio("auto" if ratio is None else ratio, argument), seed, verbose)
    if isinstance(ratio, type) or not all(callable(getattr(ratio, name, None)) for name in ("fit", "log_ratio")):
        advice = f"an object with `fit(X, y)` and `log_ratio(X)`, such as `KLIEP()`, or one of {', '.join(RATIOS)}"
        raise TypeError(f"`{argument}` is {ratio!r}. Use {advice}.")
    return seeded_like(clone(ratio, safe=False), seed, verbose)


def is_additive(ratio: Any) -> bool:
    """Return whether log r of a ratio, or of its name, is a sum over columns. For another library it is False."""
    ratio = named_ratio(ratio) if isinstance(ratio, str) else ratio
    return isinstance(ratio, RatioEstimator) and ratio.is_additive()


def seeded_like(estimator: Any, seed: int, verbose: bool) -> Any:
    """Give an estimator the seed and the progress bar of the one that contains it, where it has none of its own."""
    settings = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
    if settings.get("random_state", seed) is None:
        estimator.set_params(random_state=seed)
    if settings.get("verbose") is False and verbose:
        estimator.set_params(verbose=True)
    return estimator


def fit_prepared(ratio: Any, samples: TwoSamples) -> Any:
    """Fit a ratio to samples that are checked already. A ratio of another library gets rows, labels and weights."""
    if isinstance(ratio, RatioEstimator):
        return ratio.fit_prepared(samples)
    X, y, w = samples.X, samples.y, samples.w
    if has_fit_parameter(ratio, "sample_weight"):
        return ratio.fit(X, y, sample_weight=w)
    if not is_whole(w):
        raise ValueError(f"`sample_weight` is set, but {ratio!r} takes no weights. Use integers, or another ratio.")
    counts = w.astype(np.int64)
    return ratio.fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))


def log_ratio_prepared(ratio: Any, X: Matrix) -> Vector:
    """Return log r of checked rows by a fitted ratio, of this library or another, (n, d) to (n,), finite."""
    if isinstance(ratio, RatioEstimator):
        return ratio.log_ratio_prepared(X)
    log_r = np.asarray(log_ratio_of(ratio)(X), np.float64)
    if log_r.shape != (len(X),) or not np.isfinite(log_r).all():
        problem = f"{log_r.shape} values for {len(X)} rows, {np.count_nonzero(~np.isfinite(log_r))} of them not finite"
        raise ValueError(f"`log_ratio` of {ratio!r} returned {problem}. It must return one finite number for each row.")
    return log_r


def design_of(ratio: Any, X: TableLike) -> Design:
    """Return the matrix that a fitted ratio computes with, with names and groups of its columns."""
    if isinstance(ratio, RatioEstimator):
        return ratio.design(X)
    matrix = to_matrix(X, "X")
    names = column_names(X, matrix.shape[1])
    return Design(matrix, names, np.arange(len(names)), names, {})


def log_ratio_of(ratio: Any) -> Callable[[Any], Any]:
    """Return the function from rows to log r of a fitted ratio, or of a pipeline that ends with one."""
    if not _has_log_ratio(ratio):
        advice = "an object with `log_ratio(X)`, such as `ClassifierRatio().fit_samples(X_p, X_q)`"
        raise TypeError(f"`ratio` is {ratio!r}. Use a fitted ratio, {advice}.")
    return ratio.score_samples if hasattr(ratio, "steps") else ratio.log_ratio


def _has_log_ratio(ratio: Any) -> bool:
    last = ratio.steps[-1][1] if hasattr(ratio, "steps") else ratio
    return not isinstance(ratio, type) and callable(getattr(last, "log_ratio", None))


def is_ready(ratio: Any) -> bool:
    """Return whether a ratio, or a pipeline that ends with one, is fitted. An object without `fit` is ready."""
    if not _has_log_ratio(ratio):
        return False
    if hasattr(ratio, "fit") and not hasattr(ratio, "__sklearn_tags__"):  # it does not follow scikit-learn
        return any(name.endswith("_") for name in vars(ratio))
    try:
        check_is_fitted(ratio)
    except NotFittedError:
        return False
    except TypeError:
        pass  # it has no `fit`
    return True


@contextmanager
def silent() -> Iterator[None]:
    """Ignore the warnings of single fits where there are many."""
    with warnings.catch_warnings():
        for category in (OverlapWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        yield
