"""Conformal prediction under covariate shift: calibrated on a source, with the nominal coverage on a target."""

from __future__ import annotations

import numpy as np

from flowratio._support.callers import warn_caller
from flowratio._support.types import Vector, VectorLike
from flowratio._support.validation import check_fraction
from flowratio.applications.weight_checks import warn_of_swapped_samples
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.samples.weighting import mean_and_error
from flowratio.weights import finite_vector

_ROUNDING = 1e-12  # of a share: weights that reach the coverage up to rounding do reach it
_NEAR_ONE = 0.1  # error of the mean weight of source rows, which is 1 for the true ratio


def conformal_quantile(
    scores: VectorLike, log_r_calibration: VectorLike, log_r_test: VectorLike, coverage: float = 0.9
) -> Vector:
    r"""Return for each of m test rows a bound, of shape (m,), on its score that holds with a given probability.

    The prediction set of a test row has every y whose score is at most the bound. Calibration rows come from the source
    q, test rows from the target p, and r = p/q. Each calibration score counts by its weight. The test row's own weight
    is put at infinity, because its score is unknown:

    .. math:: \hat s(x) = \inf\Big\{ s : \sum_{i : s_i \le s} r(x_i)
                          \ge (1 - \alpha) \Big( \sum_i r(x_i) + r(x) \Big) \Big\}

    If r is the true ratio, the score of a row drawn from p is at most :math:`\hat s(x)` with probability
    :math:`1 - \alpha` or more, whatever the model and the sample sizes. The bound is infinite if the test row weighs so
    much that the calibration rows do not determine it. Then more calibration rows near the test row are needed.

    Parameters
    ----------
    scores
        Errors of the model on the calibration rows, such as \|y - f(x)\|, of shape (n,). The model must not have been
        fitted to these rows.
    log_r_calibration, log_r_test
        log r of the calibration rows, of shape (n,), and of the test rows, of shape (m,). -inf for a row that does not
        count. A constant that is added to both cancels. A warning is issued if they look like weights, or if the
        samples look swapped.
    coverage
        The probability :math:`1 - \alpha`, between 0 and 1.

    References
    ----------
    .. [1] Tibshirani, Foygel Barber, Candès, Ramdas (2019). *Conformal prediction under covariate shift.* NeurIPS.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from flowratio import ClassifierRatio
    >>> rng = np.random.default_rng(0)
    >>> X, X_target = rng.normal(0, 1, size=(2000, 1)), rng.normal(1, 0.5, size=(2000, 1))
    >>> y, y_target = (np.sin(rows[:, 0]) + 0.3 * rows[:, 0] * rng.normal(size=2000) for rows in (X, X_target))
    >>> model = LinearRegression().fit(X[:1000], y[:1000])  # the other half calibrates
    >>> ratio = ClassifierRatio("quadratic").fit_samples(X_target, X)
    >>> errors = abs(y[1000:] - model.predict(X[1000:]))
    >>> bound = conformal_quantile(errors, ratio.log_ratio(X[1000:]), ratio.log_ratio(X_target))
    >>> float(np.mean(abs(y_target - model.predict(X_target)) <= bound).round(1))  # in model.predict(X) ± bound
    0.9
    """
    s = finite_vector(scores, "scores")
    log_c = finite_vector(log_r_calibration, "log_r_calibration", may_be_zero=True)
    log_t = finite_vector(log_r_test, "log_r_test", may_be_zero=True, may_be_empty=True)
    if len(s) != len(log_c):
        raise ValueError(f"`scores` has {len(s)} values and `log_r_calibration` has {len(log_c)}. Give equal numbers.")
    check_fraction(coverage, "coverage")
    _warn_of_weights(log_c)
    warn_of_swapped_samples(log_t, log_c, ("log_r_test", "log_r_calibration"))
    if np.isneginf(log_c).all():
        return np.full(len(log_t), np.inf)  # no calibration row counts
    order = np.argsort(s)
    mass = np.cumsum(np.exp(log_c[order] - log_c.max()))  # (n,)
    log_total = np.logaddexp(np.log(mass[-1]), log_t - log_c.max())  # (m,), with the test row's own
    needed = np.exp(np.minimum(log_total, 700.0)) * (coverage * (1 - _ROUNDING))
    return np.append(s[order], np.inf)[np.searchsorted(mass, needed)]


def _warn_of_weights(log_r: Vector) -> None:
    """Issue a warning if log r of source rows looks like weights r: no value is negative, and their mean is 1.

    The mean of log r over the source is not positive, except for a constant that was added.
    """
    if len(log_r) < THRESHOLDS.fewest_ess or log_r.min() < 0 or np.ptp(log_r) == 0:
        return
    mean, error = mean_and_error(log_r, np.full(len(log_r), 1 / len(log_r)))
    if abs(mean - 1) > max(THRESHOLDS.z * error, _NEAR_ONE):
        return
    problem = f"`log_r_calibration` looks like weights: no value is negative, and their mean is {mean:.2g}"
    warn_caller(f"{problem}. Give log-ratios, such as `ratio.log_ratio(X)`, also for `log_r_test`.")
