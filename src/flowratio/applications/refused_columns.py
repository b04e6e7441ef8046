"""Why a model refuses a table: columns of text, dates or categories, where it takes only numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from sklearn.base import clone
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

from flowratio._support.errors import ArgumentError
from flowratio._support.types import TableLike
from flowratio._support.wording import listed
from flowratio.ratios.registry import silent
from flowratio.tables.cells import to_frame
from flowratio.tables.detection import is_mixed

_MAX_ROWS = 500  # of the fit that shows whether numbers in the place of text help
_MAX_TRIED = 8  # columns that are tried one by one
_N_NUMBERS = 5  # different values in the place of text


def refusal_of_text(estimator: Any, X: TableLike, y: Any) -> ArgumentError | None:
    """Return an error on the columns that made a fit fail because they are not numbers. None for another reason.

    The model is fitted again, to a part of the rows with numbers in these columns. If that works, they are the reason.
    """
    if not is_mixed(X) or isinstance(estimator, BaseSearchCV):  # a search is many fits
        return None
    frame = to_frame(X)
    others = [name for name in frame.columns if not (frame[name].dtype.is_numeric() or frame[name].dtype == pl.Boolean)]
    if not others or not _fits(estimator, X, frame, others, y):
        return None
    if len(others) <= _MAX_TRIED:
        others = [name for name in others if not _fits(estimator, X, frame, [*{*others} - {name}], y)]
    if not others:  # each column can be fitted, so another reason went away
        return None
    name = type(estimator).__name__
    columns = f"column{'s' * (len(others) > 1)} {listed(others)}"
    problem = f"`estimator` is {name}, which cannot be fitted to text or dates. It takes numbers, but not {columns}"
    example = f"make_pipeline(TableEncoder(), {'estimator' if isinstance(estimator, Pipeline) else f'{name}()'})"
    return ArgumentError("estimator", f"{problem}. Use `{example}`, or a `OneHotEncoder` for such columns.")


def _fits(estimator: Any, X: TableLike, frame: pl.DataFrame, columns: list[str], y: Any) -> bool:
    """Return whether the model can be fitted with numbers in the place of some columns."""
    rows = np.unique(np.linspace(0, frame.height - 1, _MAX_ROWS).astype(int))
    numbers = pl.Series(np.arange(len(rows)) % _N_NUMBERS, dtype=pl.Float64)
    part: Any = frame[rows].with_columns([numbers.alias(name) for name in columns])
    if not isinstance(X, pl.DataFrame):
        part = part.to_pandas() if hasattr(X, "columns") else part.to_numpy()
    model: Any = clone(estimator)
    try:
        with silent():
            model.fit(part, _safe_indexing(y, rows))
    except Exception:  # each model refuses in its own way
        return False
    return True
