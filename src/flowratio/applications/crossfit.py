"""Log-ratios of rows that a ratio has not seen: the ground of every estimate that is to have a standard error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flowratio._support.progress import progress
from flowratio._support.validation import check_n_folds
from flowratio.ratios.auto.auto import AutoRatio
from flowratio.ratios.registry import fitted, new_ratio, silent

_TIME_BUDGET = 60.0  # seconds in which a ratio is chosen, if none is given
FEWEST_ROWS = 4  # of each sample: two folds of two rows


@dataclass(frozen=True)
class Sample:
    """One of two samples, and the fold of each row.

    Parameters
    ----------
    X
        Rows, of shape (n, d).
    w
        How often each counts, of shape (n,).
    fold
        Of each row, from 0 on, of shape (n,).
    """

    X: np.ndarray
    w: np.ndarray
    fold: np.ndarray


@dataclass(frozen=True)
class CrossFitted:
    """Log-ratios of the rows of p and of q by models that have not seen them.

    Parameters
    ----------
    log_p, log_q
        log r of all rows, each by the model that was fitted without its fold, of shapes (n_p,) and (n_q,).
    each_p, each_q
        log r of all rows by every model, those that saw them too, of shapes (n_folds, n_p) and (n_folds, n_q).
    """

    log_p: np.ndarray
    log_q: np.ndarray
    each_p: np.ndarray
    each_q: np.ndarray

    def swapped(self) -> CrossFitted:
        """Return the same of q/p."""
        return CrossFitted(-self.log_q, -self.log_p, -self.each_q, -self.each_p)


def cross_fit(ratio: Any, p: Sample, q: Sample, seed: int, verbose: bool = False) -> CrossFitted:
    """Fit a ratio to all folds but one, in turn, and score that one.

    Parameters
    ----------
    ratio
        A ratio, or its name.
    p, q
        The two samples: a fold is left out in both at once. Rows of weight 0 are scored only.
    seed
        Of ratios that have none.
    verbose
        Whether to show a progress bar.
    """
    n_folds = int(p.fold.max()) + 1
    each_p, each_q = np.empty((n_folds, len(p.X))), np.empty((n_folds, len(q.X)))
    with silent(), progress(n_folds, "folds", verbose) as step:
        for k in range(n_folds):
            of_p, of_q = p.fold != k, q.fold != k
            X = np.concatenate([p.X[of_p], q.X[of_q]])
            y = np.repeat([1, 0], [of_p.sum(), of_q.sum()])
            if (X[0] == X).all():  # there is nothing to tell p from q by: r = 1
                each_p[k], each_q[k] = 0.0, 0.0
            else:
                model = fitted(new_ratio(ratio, seed + k), X, y, np.concatenate([p.w[of_p], q.w[of_q]]))
                each_p[k], each_q[k] = model.log_ratio(p.X), model.log_ratio(q.X)
            step()
    log_p, log_q = each_p[p.fold, np.arange(len(p.X))], each_q[q.fold, np.arange(len(q.X))]
    return CrossFitted(log_p, log_q, each_p, each_q)


def chosen_ratio(ratio: Any, p: Sample, q: Sample, seed: int, verbose: bool = False) -> Any:
    """Return the ratio to cross-fit: what an `AutoRatio` chooses on all rows, so that the choice is made once.

    None is an `AutoRatio` with a minute to choose. The choice sees the rows that are scored later. It is one of few
    numbers, where a fit is one of many.
    """
    auto = new_ratio(AutoRatio(time_budget=_TIME_BUDGET) if ratio is None else ratio, seed)
    if not isinstance(auto, AutoRatio):
        return auto
    auto.set_params(verbose=auto.verbose or verbose)
    X, y = np.concatenate([p.X, q.X]), np.repeat([1, 0], [len(p.X), len(q.X)])
    with silent():
        return auto.fit(X, y, np.concatenate([p.w, q.w])).selection()


def folds(n: int, n_folds: int, rng: np.random.Generator) -> np.ndarray:
    """Return a fold for every row, of shape (n,): all are filled alike."""
    return rng.permutation(n) % n_folds


def check_folds(n_folds: Any, n_least: int) -> int:
    """Return how many folds there are, given the rows of the smaller sample."""
    check_n_folds(n_folds)
    if n_least < FEWEST_ROWS:
        raise ValueError(f"The smaller sample has {n_least} rows: give at least {FEWEST_ROWS} of each.")
    return min(int(n_folds), n_least // 2)
