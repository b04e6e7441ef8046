"""Conformal prediction under shift: calibrated on a source, and right as often as promised on a target."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowratio._support.validation import is_number

_ROUNDING = 1e-12  # of a share: weights that reach the coverage but for the last bits do reach it


def conformal_quantile(scores: Any, log_r_calibration: Any, log_r_test: Any, coverage: float = 0.9) -> np.ndarray:
    r"""Return for each test row the bound that a score of its own law stays below with a given probability.

    Calibration rows are of the source q, test rows of the target p, and r = p/q, p is the target. Each calibration
    score counts by its weight, and the test row's own weight stands at infinity, as its score is not known:

    .. math:: \hat s(x) = \inf\Big\{ s : \sum_{i : s_i \le s} r(x_i)
                          \ge (1 - \alpha) \Big( \sum_i r(x_i) + r(x) \Big) \Big\}

    If r is the true ratio, the score of a row drawn from p is at most :math:`\hat s(x)` with probability
    :math:`1 - \alpha` or more, whatever the model and the sizes of the samples. If r = 1 this is the
    :math:`\lceil (n + 1)(1 - \alpha) \rceil`-th smallest score. It is infinite if the test row weighs so much that the
    calibration rows say too little about it.

    Parameters
    ----------
    scores
        How badly the model fits each calibration row, such as \|y - f(x)\|, of shape (n,). The model must not have
        been fitted to these rows.
    log_r_calibration
        log r of the calibration rows, of shape (n,); -inf for a row that does not count.
    log_r_test
        log r of the test rows, of shape (m,). A constant that is added to both cancels.
    coverage
        The probability :math:`1 - \alpha`, between 0 and 1.

    Returns
    -------
    bound
        Of shape (m,): the prediction set of a test row holds every y whose score is at most this.

    References
    ----------
    .. [1] Tibshirani, Foygel Barber, Candès, Ramdas (2019). *Conformal prediction under covariate shift.* NeurIPS.

    Examples
    --------
    Split-conformal intervals: one half of the source fits the model, the other calibrates it.

    >>> from sklearn.linear_model import LinearRegression
    >>> from flowratio.ratios import ClassifierRatio
    >>> rng = np.random.default_rng(0)
    >>> X, X_target = rng.normal(0, 1, size=(2000, 1)), rng.normal(1, 0.5, size=(2000, 1))
    >>> y, y_target = (np.sin(rows[:, 0]) + 0.3 * rows[:, 0] * rng.normal(size=2000) for rows in (X, X_target))
    >>> model = LinearRegression().fit(X[:1000], y[:1000])
    >>> ratio = ClassifierRatio("quadratic").fit_samples(X_target, X)
    >>> bound = conformal_quantile(
    ...     abs(y[1000:] - model.predict(X[1000:])), ratio.log_ratio(X[1000:]), ratio.log_ratio(X_target)
    ... )
    >>> float(np.mean(abs(y_target - model.predict(X_target)) <= bound).round(1))  # in model.predict(X) ± bound
    0.9
    """
    s, log_c, log_t = (
        _checked(values, name, zero)
        for values, name, zero in (
            (scores, "scores", False),
            (log_r_calibration, "log_r_calibration", True),
            (log_r_test, "log_r_test", True),
        )
    )
    if len(s) == 0 or len(s) != len(log_c):
        raise ValueError(
            f"`scores` has {len(s)} values and `log_r_calibration` {len(log_c)}: give one of each for every "
            "calibration row, and at least one row."
        )
    if not (is_number(coverage) and 0 < coverage < 1):
        raise ValueError(f"`coverage` is {coverage!r}: give a number between 0 and 1, such as 0.9.")
    if np.isneginf(log_c).all():
        return np.full(len(log_t), np.inf)  # no calibration row is of the target
    order = np.argsort(s)
    mass = np.cumsum(np.exp(log_c[order] - log_c.max()))  # (n,)
    log_total = np.logaddexp(np.log(mass[-1]), log_t - log_c.max())  # (m,), with the test row's own
    needed = np.exp(np.minimum(log_total, 700.0)) * (coverage * (1 - _ROUNDING))
    return np.append(s[order], np.inf)[np.searchsorted(mass, needed)]


def _checked(values: Any, name: str, may_be_zero: bool) -> np.ndarray:
    """Return numbers, of shape (n,): finite ones, or -inf where a weight may be zero."""
    try:
        values = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` is not an array of numbers ({error}): give one number a row.") from error
    if values.ndim != 1:
        raise ValueError(f"`{name}` has shape {values.shape}: give one number a row, of shape (n,).")
    is_nan = np.isnan(values)
    unsound = is_nan | (np.isposinf(values) if may_be_zero else np.isinf(values))
    if unsound.any():
        found = "NaN" if is_nan.any() else "infinite"
        raise ValueError(
            f"`{name}` is {found} in {np.count_nonzero(unsound)} of {len(values)} rows: give finite numbers"
            f"{', or -inf for a weight of zero' if may_be_zero else ''}."
        )
    return values
