"""The numbers by which every verdict is decided, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from flowratio.weights import MIN_ESS


@dataclass(frozen=True)
class Thresholds:
    """Thresholds of diagnoses, divergences, mutual information, tests and scored files, next to those of weights.py."""

    # chance
    z: float = 3.0  # standard errors beyond chance: 1 in 370 for a Gaussian
    z_skewed: float = 4.0  # the same for means of r and 1/r, whose errors are skewed
    chance: float = 1e-3  # p-values below it are beyond chance
    alpha: float = 0.05  # level of a two-sample test, the usual one
    skew: float = 0.5  # standard errors added for weighted means of a few rows, which are skewed
    rounding: float = 1e-9  # nats: a score below it is 0
    # effective sample size and overlap
    harmless: float = 0.9  # share of the rows that is left as effective sample size by weights that hardly matter
    small_ess: float = MIN_ESS  # a report advises to temper the weights
    fewest_ess: float = 10.0  # below it nothing can be said about weighted means
    fewest_in_tail: float = 25.0  # rows, below which a tail cannot be fitted
    beyond: float = 0.01  # share of p where fewer than one row of q is expected: worth a warning
    beyond_grave: float = 0.25  # the same share: a quarter of p is lost
    absent: float = 0.5  # share of the rows of p that lie beyond q, above which the samples do not overlap
    outside: float = 0.15  # share of p outside the range of q in a column. Gaussians 2 deviations apart have 14 %
    outside_grave: float = 0.4  # the same share: nearly half of p is lost
    heavy_k_hat: float = 1.0  # from here on the mean weight is not finite
    fewest_in_file: float = 2.0  # effective rows of a scored file: below it one row has nearly all the weight
    fewest_share_in_file: float = 0.01  # the same as a share of the rows
    headroom: float = 3.5  # log n_q − KL in nats: below it weighted means are inaccurate
    headroom_grave: float = 2.0  # the same: q has fewer than 8 rows for each that the weights need
    inflation: float = 2.0  # factor by which rows of p show larger errors of weighted means than rows of q
    # what "reliable" needs, chosen on half of the problems of benchmarks/verdicts.py
    fitted: float = 0.5  # share of the training rows that are among the rows of a check: by chance 0.2 are
    stability: float = 0.1  # nats²: jackknife variance of log r on rows of p
    stability_grave: float = 2.0  # the same: it overstates the variance of random fits by up to 3
    residual: float = 2.5  # standard errors of the gain of a flexible classifier
    residual_error: float = 0.05  # nats²: mean squared correction of log r on rows of p that matters
    residual_error_grave: float = 1.5  # the same: ratios are off by a factor of 3
    fewest_overlap: float = 200.0  # effective rows where p and q overlap, to find a wrong form
    slope_alone: float = 1.25  # a factor of log r that matters if class probabilities are nearly right
    slope_z: float = 2.5  # standard errors of that factor
    slope_effect: float = 0.1  # nats: standard deviation of the change of log r by that factor
    far: float = 0.5  # ranges of q beyond its ends: no row of q says anything about a row of p that far out
    grouping: float = 0.05  # share of rows with a category that is too rare to be estimated
    grouping_stated: float = 0.001  # the same share, from which it is stated
    worse: float = 0.01  # p-value of a column that differs more after weighting than before, for all columns together
    # wrong ratios
    worse_than_none: float = 0.01  # nats below 0: an estimate of r = 1 scores a little less than 0
    factor: float = 1.2  # a constant factor of r that matters
    factor_of_mean: float = 1.25  # the same for mean_q r and mean_p 1/r
    slope: float = 1.15  # a factor of log r that matters
    reliability: float = 0.025  # error of class probabilities beyond chance that matters
    reliability_grave: float = 0.25  # the same error: half of what a guess has
    difference: float = 0.1  # standardized mean difference after weighting, by Austin (2009)
    difference_grave: float = 0.5  # the same difference: a medium effect, by Cohen (1988)
    auc: float = 0.6  # of a classifier after weighting
    auc_grave: float = 0.7  # the same: as good as many useful classifiers
    # divergences and mutual information
    small: float = 0.05  # nats, or a divergence without unit: differences below it do not matter
    overfit: float = 0.25  # share of the value by which fitted rows may exceed held-out rows
    standard_error: float = 0.25  # of mutual information, as a share of it
    fewest_checked: float = 50.0  # effective rows in the overlap, below which a flexible check sees too little
    misfit: float = 0.01  # nats or a divergence: what a flexible check may find beyond a ratio
    missing: float = 0.05  # the same as a share of the value, if it is beyond chance
    growth: float = 0.05  # share of the value that it may grow by with twice as many rows
    too_large: float = 0.05  # share of rows with a ratio that the other sample cannot confirm
    fewest_shared: float = 5.0  # rows on the side of the other sample, below which the overlap is unknown
    fewest_squares: float = 50.0  # effective sample size of squared ratios, for Pearson's divergence
    neighbors: float = 0.05  # squared distance of neighbors in Z, as a share of that of any two rows


THRESHOLDS = Thresholds()
