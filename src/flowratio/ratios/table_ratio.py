"""The ratio of two mixed tables: an encoder and any ratio of its matrix, as one."""

from __future__ import annotations

import warnings
from copy import copy
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from typing_extensions import Self

from flowratio._support.validation import RandomState, seed_from, unchanged_on_failure
from flowratio.ratios.auto.auto import AutoRatio
from flowratio.ratios.base import OverlapWarning, RatioEstimator
from flowratio.ratios.inverse import InverseRatio
from flowratio.ratios.registry import fitted, new_ratio, with_those_inside
from flowratio.samples.weighting import checked_weights
from flowratio.tables.cells import check_formats, pooled, to_frame
from flowratio.tables.encoder import TableEncoder


class UnseenWarning(UserWarning):
    """Rows that are scored have levels or gaps that no row had when the table was fitted, or values far beyond all."""


class RowScores(NamedTuple):
    """log r of n rows, of shape (n,), and the number of rows with unseen values by column."""

    log_r: np.ndarray
    unseen: dict[str, int]


class TableRatio(RatioEstimator):
    """Estimate r = p/q (p is y = 1) of two tables with numbers, categories, dates and gaps.

    A `TableEncoder` learns the columns from both samples together, and a ratio is fitted to the matrix that it makes.

    Parameters
    ----------
    ratio
        The ratio of the matrix: a name (`"logistic"`, `"boosting"`, `"mlp"`, …), a ratio, or any object with
        `fit(X, y)` and `log_ratio(X)`. It is cloned. None for `AutoRatio()`.
    max_levels
        Levels of a category that are told apart, the most frequent ones.
    random_state
        Seed: fills in that of `ratio` if it has none.
    verbose
        Whether to show a progress bar.

    Attributes
    ----------
    encoder_
        The fitted `TableEncoder`.
    ratio_
        The fitted ratio of the matrix.

    Examples
    --------
    >>> import polars as pl
    >>> P = pl.DataFrame({"job": ["clerk"] * 30 + ["baker"] * 10})
    >>> Q = pl.DataFrame({"job": ["clerk"] * 20 + ["baker"] * 20})
    >>> ratio = TableRatio("logistic").fit_samples(P, Q)
    >>> ratio.ratio(pl.DataFrame({"job": ["clerk", "baker"]})).round(1).tolist()  # 30/20 and 10/20
    [1.5, 0.5]
    """

    encoder_: TableEncoder
    ratio_: Any

    def __init__(
        self,
        ratio: Any = None,
        *,
        max_levels: int = 20,
        random_state: RandomState = None,
        verbose: bool = False,
    ) -> None:
        self.ratio = ratio
        self.max_levels = max_levels
        self.random_state = random_state
        self.verbose = verbose

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings; with `deep` also those of `ratio`, as `ratio__…`."""
        return with_those_inside(super().get_params(deep), vars(self)["ratio"], deep)

    @property
    def _rows(self) -> Literal["given"]:
        return "given"  # the ratio inside orders and counts them

    @property
    def _sign(self) -> int:
        return getattr(vars(self).get("ratio_"), "_sign", 1)

    def fit_samples(
        self,
        X_p: Any,
        X_q: Any,
        sample_weight_p: Any = None,
        sample_weight_q: Any = None,
        *,
        encoder: TableEncoder | None = None,
    ) -> Self:
        """Fit to two tables, r = p/q.

        Parameters
        ----------
        X_p, X_q
            Rows drawn from p (the numerator) and from q: data frames of polars or pandas, pyarrow tables, or matrices.
            Columns are matched by name; both must have the same, and write numbers and dates in the same way.
        sample_weight_p, sample_weight_q
            How often each row counts, of shapes (n_p,) and (n_q,); 1 if None.
        encoder
            A fitted encoder, such as one that has seen more rows than these; None to fit one to both samples.
        """
        P, Q = to_frame(X_p, "X_p"), to_frame(X_q, "X_q")
        for frame, name in ((P, "X_p"), (Q, "X_q")):
            if frame.height < 2 or not frame.width:
                raise ValueError(f"`{name}` has shape {frame.shape}: a sample must have at least 2 rows and 1 column.")
        w = None
        if sample_weight_p is not None or sample_weight_q is not None:
            w_p = checked_weights(sample_weight_p, P.height, "sample_weight_p")
            w = np.concatenate([w_p, checked_weights(sample_weight_q, Q.height, "sample_weight_q")])
        X, y = pooled(P, Q), np.repeat([1, 0], [P.height, Q.height])
        if encoder is None:
            check_formats(P, Q)
        with unchanged_on_failure(self):
            self._fit_encoded(TableEncoder(self.max_levels).fit(X) if encoder is None else encoder, X, y, w)
        return self

    def _fit_checked(self, X: Any, y: Any, sample_weight: Any) -> None:
        self._fit_encoded(TableEncoder(self.max_levels).fit(X), X, y, sample_weight)

    def _fit_encoded(self, encoder: TableEncoder, X: Any, y: Any, sample_weight: Any) -> None:
        seed_from(self.random_state)
        self.encoder_ = encoder
        if not self.encoder_.names_:
            kind = "constant" + " or an identifier" * any(one.kind == "identifier" for one in encoder.columns_)
            raise ValueError(f"Every column of `X` is {kind}: there is no ratio. Give at least one that varies.")
        super()._fit_checked(self.encoder_.transform(X), y, sample_weight)

    def _fit(self, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> None:
        given = vars(self)["ratio"]
        made = new_ratio(AutoRatio() if given is None else given, seed_from(self.random_state), self.verbose)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverlapWarning)  # it is told once, of this ratio
            self.ratio_ = fitted(made, X, y, w)

    def _centre_and_scale(self, X: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(X.shape[1]), np.ones(X.shape[1])  # the ratio inside standardizes

    def _standardized(self, X: np.ndarray) -> np.ndarray:
        return X

    def _log_ratio(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.ratio_.log_ratio(X), np.float64)

    def log_ratio(self, X: Any) -> np.ndarray:
        """Return log r in nats of the n rows of a table, of shape (n,); an `UnseenWarning` counts what is new in it."""
        check_is_fitted(self)
        matrix, unseen = self.encoder_.encode(X)
        if unseen:
            found = ", ".join(f"{name!r} ({n} row{'s' * (n != 1)})" for name, n in list(unseen.items())[:8])
            warnings.warn(
                f"`X` holds what was not there at fit, in {found}{' and others' * (len(unseen) > 8)}: new levels and "
                "gaps count as '(other)', or as the most frequent value. What they do to the ratio is not known.",
                UnseenWarning,
                stacklevel=2,
            )
        return super().log_ratio(matrix)

    def score_rows(self, X: Any) -> RowScores:
        """Return log r of the rows of a table, and the number of rows with unseen values by column."""
        matrix, unseen = self.encoder_.encode(X)
        return RowScores(self.ratio_.log_ratio(matrix), unseen)

    def inverse(self) -> RatioEstimator:
        """Return 1/r = q/p, without another fit. It shares what was fitted with this one."""
        check_is_fitted(self)
        if not isinstance(self.ratio_, RatioEstimator):
            raise TypeError(f"`ratio` is {self.ratio_!r}, which cannot be turned over: give a ratio of flowratio.")
        made, given = copy(self), vars(self)["ratio"]
        made.ratio_ = self.ratio_.inverse()
        if isinstance(made.ratio_, InverseRatio):
            seed: Any = self.random_state
            made.ratio = InverseRatio(new_ratio(AutoRatio() if given is None else given, seed))
        else:
            made.ratio = given.estimator
        made.effective_draws_, made._inverse_draws = self._inverse_draws, self.effective_draws_
        return made

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags
