r"""The second stage of targeted sampling: a ratio in latent space (z) selects candidates, a ratio in x weights them.

Candidates are drawn from the mixture h, and candidate i is decoded with the chance :math:`c_i`. A decoded candidate has
the weight

.. math:: \frac{1}{c_i} \cdot \frac{p}{h}(x_i) \quad\text{or}\quad \frac{1}{c_i} \cdot \frac{q}{h}(x_i)

with the ratio in x. The chances cancel in weighted means. So the estimator in latent space decides how many candidates
are effective, but not which distribution the rows have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from flowratio._support.chunks import chunks
from flowratio._support.types import Matrix, Vector
from flowratio.applications.against_draws import AgainstDraws
from flowratio.applications.candidate_scores import check_columns, checked_log_r, checked_ratio, log_ratio, scoring
from flowratio.applications.candidates import gathered, to_decode
from flowratio.latent.featurizer import FlowFeaturizer

# candidates that are decoded for each row. Rows that are drawn without replacement must be a small share of them
N_DECODED, N_DECODED_ONCE = 5, 25
# standard deviations between median and mean of a column. A mean is at most one from its median
_LARGEST_SHIFT = 10


@dataclass(frozen=True, eq=False)
class Decoded:
    """Candidates of the second stage."""

    X: Matrix  # (m, d)
    Z: Matrix  # (m, d_z)
    log_r: Vector  # by the ratio in x, (m,)
    log_c: Vector  # log of the correction, (m,)
    log_chance: Vector  # log of the chance that each was decoded, (m,)


def refining_ratio(refine: Any, ratio: Any, featurizer: FlowFeaturizer) -> Any:
    """Return the ratio in x of the second stage, or refuse it. `ratio` is that of the first stage."""
    checked_ratio(refine, "refine", "a fitted ratio p/q of rows of x, such as `NetworkRatio().fit_samples(X_p, X_q)`")
    if refine is ratio or refine is getattr(ratio, "ratio_", None):
        problem = "`refine` is the ratio of the first stage, so a second stage cannot correct it"
        raise ValueError(f"{problem}. Fit another ratio to rows of x: `NetworkRatio().fit_samples(X_p, X_q)`.")
    if isinstance(refine, AgainstDraws) and refine.space == "z":
        raise ValueError("`refine` was fitted in z. Fit it to rows of x: `against_draws(featurizer, X, space='x')`.")
    if getattr(refine, "encoder_", None) is not None:
        raise ValueError("`refine` was fitted to a mixed table. Fit it to the rows that the flow was fitted to.")
    if hasattr(refine, "fit"):
        check_is_fitted(refine)
    check_columns(refine, featurizer, "x", "refine")
    return refine


def decoded(
    refine: Any,
    correction: AgainstDraws | None,
    featurizer: FlowFeaturizer,
    log_w: Vector,
    m: int,
    seed: int,
    verbose: bool = False,
) -> Decoded:
    """Decode m of n candidates, mostly those with large weights of the first stage, (n,), and score them in x."""
    n = len(log_w)
    positions, log_chance = to_decode(log_w, min(m, n), np.random.default_rng([seed, 2]))
    Z = gathered(featurizer.flow_, n, seed, positions)
    X, log_r, log_c = np.empty((len(Z), featurizer.n_features_in_)), np.empty(len(Z)), np.zeros(len(Z))
    parts = list(chunks(len(Z), featurizer.n_features_in_))
    with scoring(len(parts), "batches of decoded candidates", verbose) as step:
        for part in parts:
            X[part] = featurizer.decode(Z[part])
            log_r[part] = checked_log_r(refine, log_ratio(refine, X[part]), len(X[part]))
            if correction is not None:
                log_c[part] = correction.log_correction(Z[part], X[part])
            step()
    _check_values(refine, X)
    return Decoded(X, Z, log_r, log_c, log_chance)


def _check_values(refine: Any, X: Matrix) -> None:
    """Refuse a ratio that was fitted to values of another size, such as those of z."""
    mean, scale = getattr(refine, "mean_", None), getattr(refine, "scale_", None)
    if not isinstance(mean, np.ndarray) or not isinstance(scale, np.ndarray) or len(mean) != X.shape[1]:
        return
    shift = float(np.median(np.abs(np.median(X, axis=0) - mean) / scale))
    if shift > _LARGEST_SHIFT:
        problem = f"`refine` was fitted to other values: decoded rows are {shift:.0f} standard deviations from its rows"
        raise ValueError(f"{problem}. Fit it to rows of x, not to codes z.")
