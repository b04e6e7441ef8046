"""Covariate shift on real tables: the error of a simple model with our weights, and with those of other libraries.

Tables of scikit-learn, none downloaded: breast cancer (569 × 30, two classes), wine (178 × 13, three classes) and
diabetes (442 × 10, a number). Columns are standardized. A row goes to the source with a probability that falls from
0.9 to 0.1 along the first principal component z of x, in units of its standard deviation,

    P(source | x) = 0.1 + 0.8 / (1 + exp(3 z)),

and to the target otherwise. So y given x is the same in both, and both have rows of every kind. Methods get the source
with its labels and the target without labels. The error is measured on the target: the share of wrong labels, or the
root of the mean squared error. The model is logistic regression or ridge with defaults. With all columns it has nearly
the right form, and weights can help little. With the first two columns it has the wrong form, and weights decide where
it fits well. The ratio always uses all columns. All methods share the model, and their weights have the mean 1. "true
ratio" has the weights from the odds above. Peers have their defaults, and return the weights of the source rows. The
weights of skada's discriminator are inverted.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from _peers import FIELD, Fit
from _tables import print_table
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from flowratio import AutoRatio
from flowratio.applications.adaptation import ImportanceWeighted
from flowratio.ratios.registry import new_ratio
from flowratio.weights import self_normalize

TABLES: dict[str, Callable[..., Any]] = {
    "breast cancer": load_breast_cancer,
    "wine": load_wine,
    "diabetes": load_diabetes,
}
PEERS = (
    "ADAPT KLIEP",
    "ADAPT uLSIF",
    "ADAPT KMM",
    "skada Gaussian",
    "skada KDE",
    "skada KLIEP",
    "skada Discriminator",
    "skada KMM",
)
N_COLUMNS = (None, 2)  # of the two models. None for all columns
SEEDS = range(10)
TIME_BUDGET = 20.0  # seconds of an `AutoRatio`


@dataclass(frozen=True)
class Split:
    """Labelled rows of a source and of a target, and the true log r, target over source, of the source rows."""

    X: np.ndarray
    y: np.ndarray
    X_target: np.ndarray
    y_target: np.ndarray
    log_r: np.ndarray

    def learner(self, n_columns: int | None) -> Any:
        """Return a linear model of the first columns, or of all."""
        model = LogisticRegression(max_iter=1_000) if self.is_classified else Ridge()
        first = FunctionTransformer(lambda X: X[:, :n_columns])
        return Pipeline([("columns", first), ("model", model)])

    def error(self, model: Any) -> float:
        """Return the error of a fitted model on the target."""
        predicted = model.predict(self.X_target)
        if self.is_classified:
            return float(np.mean(predicted != self.y_target))
        return math.sqrt(np.mean((predicted - self.y_target) ** 2))

    @property
    def is_classified(self) -> bool:
        return self.y.dtype.kind == "i"


Fitted = Callable[[Any], Any]  # an unfitted learner to a fitted one
Method = Callable[[Split, int], Fitted]  # of a split and a seed


def biased_split(table: str, seed: int) -> Split:
    """Split the rows of a table into a source and a target at random."""
    X, y = TABLES[table](return_X_y=True)
    X = StandardScaler().fit_transform(X)
    z = PCA(1, svd_solver="full").fit_transform(X)[:, 0]
    share = 0.1 + 0.8 * expit(-3 * z / z.std())
    source = np.random.default_rng(seed).random(len(X)) < share
    log_r = np.log1p(-share) - np.log(share)  # up to a constant, which cancels
    return Split(X[source], y[source], X[~source], y[~source], log_r[source])


def unweighted(split: Split, seed: int) -> Fitted:
    return lambda learner: learner.fit(split.X, split.y)


def weighted(log_w: np.ndarray, split: Split) -> Fitted:
    w = self_normalize(log_w, total=len(log_w))
    return lambda learner: learner.fit(split.X, split.y, model__sample_weight=w)


def by_truth(split: Split, seed: int) -> Fitted:
    return weighted(split.log_r, split)


def by_peer(fit: Fit) -> Method:
    return lambda split, seed: weighted(fit(split.X_target, split.X, seed)(split.X), split)


def by_ours(ratio: Any) -> Method:
    def fit(split: Split, seed: int) -> Fitted:
        fitted_ratio = new_ratio(ratio, seed).fit_samples(split.X_target, split.X)  # once for all learners
        return lambda learner: ImportanceWeighted(learner, fitted_ratio).fit(split.X, split.y)

    return fit


METHODS: dict[str, Method] = {
    "unweighted": unweighted,
    "true ratio": by_truth,
    "ImportanceWeighted": by_ours(AutoRatio(time_budget=TIME_BUDGET)),
    'ImportanceWeighted, "logistic"': by_ours("logistic"),
} | {name: by_peer(FIELD[name]) for name in PEERS}


def target_errors(table: str, method: str, seeds: Sequence[int] = SEEDS) -> np.ndarray:
    """Return the errors of both models on the target for each seed, (n_seeds, 2). NaN if the method fails."""
    return np.array([_errors(METHODS[method], biased_split(table, seed), seed) for seed in seeds])


def _errors(method: Method, split: Split, seed: int) -> list[float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about overlap, and those of peers
        try:
            train = method(split, seed)
            return [split.error(train(split.learner(n_columns))) for n_columns in N_COLUMNS]
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):
            return [math.nan] * len(N_COLUMNS)


def with_standard_error(values: np.ndarray, digits: int) -> str:
    """Write mean ± standard error over seeds, or the number of seeds for which the method fails."""
    if n_lost := np.count_nonzero(np.isnan(values)):
        return f"fails for {n_lost} of {len(values)} seeds"
    error = values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{values.mean():.{digits}f} ± {error:.{digits}f}"


def rows(table: str, seeds: Sequence[int]) -> Iterator[list[str]]:
    """Yield a row for each method: its errors, and their paired differences to those of the unweighted fit."""
    reference = target_errors(table, "unweighted", seeds)  # (n_seeds, 2)
    digits = 1 if reference.mean() > 1 else 3
    for name in METHODS:
        errors = target_errors(table, name, seeds)
        pairs = [(errors[:, k], errors[:, k] - reference[:, k]) for k in range(len(N_COLUMNS))]
        yield [name, *(with_standard_error(values, digits) for pair in pairs for values in pair)]


def covariate_shift(seeds: Sequence[int] = SEEDS) -> None:
    """Print a table for each data set."""
    header = ["weights", "error, all columns", "minus unweighted", "error, two columns", "minus unweighted"]
    for table in TABLES:
        splits = [biased_split(table, seed) for seed in seeds]
        n_source, n_target = np.mean([(len(split.X), len(split.X_target)) for split in splits], axis=0)
        print(f"\n{table}: {n_source:.0f} source and {n_target:.0f} target rows, {len(seeds)} seeds. Below 0 is better")
        print_table(header, rows(table, seeds))
