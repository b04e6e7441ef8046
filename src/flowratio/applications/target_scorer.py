"""Importance-weighted validation: score a model on labeled source rows as if they came from the target."""

from __future__ import annotations

import inspect
from copy import copy
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer
from sklearn.utils.validation import _num_samples
from typing_extensions import Self

from flowratio._support.types import TableLike, VectorLike
from flowratio.applications.copied_columns import warn_of_copies
from flowratio.applications.weight_checks import warn_of_inversion
from flowratio.ratios.registry import is_ready, log_ratio_of
from flowratio.samples.pairing import check_pairs
from flowratio.samples.weighting import checked_weights
from flowratio.weights import self_normalize


class TargetScorer:
    r"""Estimate the target score of a model from labeled source rows.

    It is a `scoring` of `cross_validate` and `GridSearchCV`. Each row counts by its ratio r = p/q, p is the target:

    .. math:: \sum_i r(x_i)\, s(f(x_i), y_i) \Big/ \sum_i r(x_i)

    Parameters
    ----------
    scoring
        Name of a scorer of scikit-learn, or a result of `make_scorer`. Its metric must take `sample_weight`.
    ratio
        A ratio that was fitted to rows of the target (y = 1) and of the source, with the columns of the model. It uses
        no labels, so it may be fitted to the rows that are scored. A warning is issued if it looks inverted.

    Notes
    -----
    A score has no interval. For an interval, or to compare two models, use `target_mean` of their losses. A warning is
    issued if a column of X is a copy of y.

    References
    ----------
    .. [1] Sugiyama et al. (2007). *Covariate shift adaptation by importance weighted cross validation.* JMLR.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from sklearn.model_selection import cross_val_score
    >>> from flowratio import ClassifierRatio, ImportanceWeighted
    >>> rng = np.random.default_rng(0)
    >>> X, X_target = rng.normal(0, 1, size=(2000, 1)), rng.normal(1, 0.5, size=(2000, 1))
    >>> y = np.maximum(X[:, 0], 0)
    >>> ratio = ClassifierRatio("quadratic").fit_samples(X_target, X)
    >>> scoring = TargetScorer("neg_mean_absolute_error", ratio)
    >>> scores = cross_val_score(ImportanceWeighted(LinearRegression(), ratio), X, y, scoring=scoring)
    >>> bool(scores.mean() > cross_val_score(LinearRegression(), X, y, scoring=scoring).mean())
    True
    """

    def __init__(self, scoring: Any, ratio: Any) -> None:
        scorer: Any = get_scorer(scoring)
        metric = getattr(scorer, "_score_func", None)
        if metric is None:
            raise TypeError(f"`scoring` is {scoring!r}. Give the name of a scorer, or a result of `make_scorer`.")
        if "sample_weight" not in inspect.signature(metric).parameters:
            raise ValueError(f"`scoring` is {scoring!r}, and its metric takes no `sample_weight`. Use one that does.")
        if not is_ready(ratio):
            raise ValueError(f"`ratio` is {ratio!r}, which is not fitted. Fit it with `fit_samples(X_target, X)`.")
        self.scorer, self.ratio = scorer, ratio

    def __call__(self, estimator: Any, X: TableLike, y: Any, sample_weight: VectorLike | None = None) -> float:
        """Return the weighted score of a fitted estimator on labeled source rows."""
        check_pairs({"X": X, "y": y, "sample_weight": sample_weight})
        counts = checked_weights(sample_weight, _num_samples(X), "sample_weight")
        log_r = np.asarray(log_ratio_of(self.ratio)(X), np.float64)
        warn_of_inversion(log_r, counts, "X_target", "X")
        warn_of_copies(y, X, "X", "y")
        w = self_normalize(log_r, total=len(y)) * counts
        return self.scorer(estimator, X, y, sample_weight=w)

    def get_metadata_routing(self) -> Any:
        """Return the metadata request of the scorer inside."""
        return self.scorer.get_metadata_routing()

    def set_score_request(self, *, sample_weight: bool | str | None) -> Self:
        """Request weights of rows, where metadata are routed: True, False, None for an error, or their name."""
        self.scorer = copy(self.scorer).set_score_request(sample_weight=sample_weight)
        return self

    def __repr__(self) -> str:
        return f"TargetScorer({self.scorer!r}, {self.ratio!r})"

    def _accept_sample_weight(self) -> bool:
        return True  # searches ask for it
