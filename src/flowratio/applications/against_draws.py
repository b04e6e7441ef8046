r"""The ratio of a sample to what a flow draws: it corrects weights for a flow that is not perfect.

The weights p/h are right for candidates of the mixture h of p and q. A flow draws them from another distribution g. The
ratio of rows of the mixture to draws of the flow corrects the weights:

.. math:: \frac{p}{g} = \frac{p}{h} \cdot \frac{h}{g}, \qquad
          \text{or bounded, } \frac{p}{h} \cdot \min\Big(1,\ \frac{h}{g}\Big)

The bounded weights only make candidates rarer that the flow draws too often. They draw from the distribution
:math:`\min(g, h)` in the place of h, whose total variation distance from h is never larger than that of g. The ratio is
fitted in latent space (z), where draws cost nothing, or in x, where they must be decoded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.special import log_expit
from sklearn.utils.validation import check_is_fitted

from flowratio._support.types import Matrix, TableLike, Vector, VectorLike
from flowratio._support.validation import RandomState, check_choice, check_count, seed_from
from flowratio.applications.candidates import candidates
from flowratio.applications.label_ratios import LabelRatios, fit_label_ratios
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.registry import fit_prepared, log_ratio_prepared, new_ratio
from flowratio.samples.stacking import to_matrix
from flowratio.samples.two_samples import TwoSamples
from flowratio.training.run import Recipe

_HELD_OUT = 0.1  # of the rows
_FEWEST_ROWS = 20  # of a sample. Its score needs two
_MAX_VERSIONS, _MAX_NOISY_ROWS = 5, 50_000  # noisy versions of each row, and rows in all versions
_FEWEST_DRAWS = 10_000  # of z, which cost nothing
_FEWEST_SCORED = 2000  # draws for the score
_STEPS, _BATCH = 1000, 128  # of the network for labels


@dataclass(frozen=True, eq=False)
class AgainstDraws:
    """The ratio of a sample to draws of a flow. Of `against_draws`.

    A `TargetedSampler` takes it as `correction`, if the sample has the rows of p and q that the flow was fitted to. For
    a sample of the target alone it takes it as `ratio`, with `toward="p"`.
    """

    featurizer: FlowFeaturizer  # whose flow draws
    ratio: Any  # sample / draws, fitted in `space`
    space: Literal["z", "x"]
    score: float  # nats on held-out rows and new draws: 0 = not distinguished, 0.69 = no draw looks real
    standard_error: float  # of the score
    labels: tuple[Any, ...] = ()  # of the samples that were distinguished, if there were any

    @property
    def is_useful(self) -> bool:
        """Whether the score is beyond chance, by two standard errors. A ratio of 1, no correction, has the score 0."""
        return self.score > 2 * self.standard_error

    def log_ratio(self, X: Matrix) -> Vector:
        """Return the log of sample / draws in nats: rows of `space`, (n, d), to (n,)."""
        return log_ratio_prepared(self.ratio, np.asarray(X))

    def log_correction(self, Z: Matrix, X: Matrix) -> Vector:
        """Return log min(1, sample / draws) of candidates, codes (m, d_z) and rows (m, d), to (m,)."""
        return np.minimum(self.log_ratio(X if self.space == "x" else Z), 0.0)

    def of(self, label: Any) -> AgainstDraws:
        """Return the ratio of the rows with one label to draws, with the score of all rows."""
        if label not in self.labels:
            raise ValueError(f"`label` is {label!r}. Use one of the labels that were fitted: {list(self.labels)}.")
        return replace(self, ratio=self.ratio.of(self.labels.index(label)), labels=())


def against_draws(
    featurizer: FlowFeaturizer,
    X: TableLike,
    y: VectorLike | None = None,
    ratio: Any = "mlp",
    *,
    space: Literal["z", "x"] = "z",
    X_held_out: TableLike | None = None,
    n_draws: int | None = None,
    n_versions: int | None = None,
    recipe: Recipe | None = None,
    random_state: RandomState = None,
    verbose: bool = False,
) -> AgainstDraws:
    r"""Fit the ratio of a sample to what a flow draws, and score it on held-out rows and new draws.

    .. math:: S(r) = \log 2 + \tfrac12 \mathrm{mean}_{\mathrm{sample}} \log\frac{r}{1 + r}
                     + \tfrac12 \mathrm{mean}_{\mathrm{draws}} \log\frac{1}{1 + r}

    Parameters
    ----------
    featurizer
        Fitted, such as the `featurizer_` of a `FeaturizedRatio`.
    X, X_held_out
        Rows, (n, d), at least 20: those of p and q together for a `correction`, or those of the target. The score uses
        other rows, (m, d), best those that no model was fitted to. With None, a tenth of X is held out.
    y
        Labels of the rows of X, (n,), such as 1 for p and 0 for q. One network then distinguishes the labels and draws
        in z, which is clearly better for images. It replaces `ratio`, and each pass has new draws.
    ratio
        An unfitted ratio or its name. For images in x: `NetworkRatio("cnn")`.
    space
        `"z"`, or `"x"`, where all draws are decoded.
    n_draws
        Draws to which the ratio is fitted. None for as many as rows, in z at least 10 000.
    n_versions
        Versions of each row in z with different noise, if the flow was trained on noise, as with `scaling="image"`.
        None for up to five. Of two samples with labels, the smaller one has more versions.
    recipe
        Training of the network for `y`. None for 1000 steps or 10 passes of AdamW.
    random_state, verbose
        Seed of draws, noise and ratio, and whether to show a progress bar.

    References
    ----------
    .. [1] Grover et al. (2019). *Bias Correction of Learned Generative Models using … Importance Weighting.* NeurIPS.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ring = rng.normal(size=(1000, 2))
    >>> ring /= np.hypot(*ring.T)[:, None] * rng.normal(1, 0.1, size=(1000, 1))
    >>> flow = FlowFeaturizer(n_blocks=1, max_epochs=5, random_state=0).fit(ring)
    >>> correction = against_draws(flow, ring, ratio="boosting", random_state=0)
    >>> correction.is_useful
    True
    """
    _check(featurizer, space, n_draws, n_versions, y, recipe)
    seed = seed_from(random_state)
    rng = np.random.default_rng([seed, 0, 19])
    rows, held_out, label, labels = _split(featurizer, X, X_held_out, y, rng)
    in_z = space == "z"
    if labels:
        fitted = _label_ratios(featurizer, rows, label, n_versions, recipe, rng, seed, verbose)
    else:
        n_each = _n_versions(featurizer, len(rows), n_versions)
        versions = [_codes(featurizer, rows, rng) for _ in range(n_each)] if in_z else [rows]
        n = n_draws or max(len(versions) * len(rows), _FEWEST_DRAWS if in_z else 0)
        fitted = fit_prepared(
            new_ratio(ratio, seed, verbose), _samples(versions, _draws(featurizer, n, rng, in_z=in_z))
        )
    new_draws = _draws(featurizer, max(len(held_out), _FEWEST_SCORED), rng, in_z=in_z)
    real = _codes(featurizer, held_out, rng) if in_z else held_out
    score, error = _score(log_ratio_prepared(fitted, real), log_ratio_prepared(fitted, new_draws))
    return AgainstDraws(featurizer, fitted, space, score, error, labels)


def _check(featurizer: Any, space: str, n_draws: Any, n_versions: Any, y: Any, recipe: Any) -> None:
    check_choice(space, "space", ["z", "x"])
    check_count(n_draws, "n_draws", optional=True)
    check_count(n_versions, "n_versions", optional=True)
    if not isinstance(featurizer, FlowFeaturizer):
        raise TypeError(f"`featurizer` is {featurizer!r}. Use a fitted `FlowFeaturizer`.")
    check_is_fitted(featurizer)
    if y is None and recipe is not None:
        raise ValueError("`recipe` is for the network of labels `y`. Give `y`, or set the training of `ratio`.")
    if y is not None and (space == "x" or n_draws is not None):
        problem = "`y` is given, and a network of labels is trained on new draws in z"
        raise ValueError(f"{problem}. Leave `y` out, or `space` and `n_draws`.")


def _split(
    featurizer: FlowFeaturizer, X: Any, X_held_out: Any, y: Any, rng: np.random.Generator
) -> tuple[Matrix, Matrix, np.ndarray, tuple[Any, ...]]:
    """Return the rows to fit, those of the score, the position of the label of each row to fit, and the labels."""
    rows = _checked(featurizer, X, "X")
    values, positions = (np.array([]), np.zeros(len(rows), int)) if y is None else np.unique(y, return_inverse=True)
    if positions.shape != (len(rows),) or (y is not None and np.bincount(positions).min() < _FEWEST_ROWS):
        problem = f"`y` has {positions.size} labels, and `X` has {len(rows)} rows"
        raise ValueError(f"{problem}. Give one label for each row, and at least {_FEWEST_ROWS} rows of each label.")
    labels = tuple(values.tolist())
    if X_held_out is not None:
        return rows, _checked(featurizer, X_held_out, "X_held_out"), positions, labels
    order, n_held_out = rng.permutation(len(rows)), round(_HELD_OUT * len(rows))
    fitted, other = np.sort(order[n_held_out:]), np.sort(order[:n_held_out])
    return rows[fitted], rows[other], positions[fitted], labels


def _label_ratios(
    featurizer: FlowFeaturizer,
    rows: Matrix,
    label: np.ndarray,
    n_versions: int | None,
    recipe: Recipe | None,
    rng: np.random.Generator,
    seed: int,
    verbose: bool,
) -> LabelRatios:
    """Fit one network to the labels and draws. A tenth of the rows of each label selects its weights."""
    shares = np.bincount(label) / len(label)
    samples = [rows[label == j] for j in range(len(shares))]
    n_selecting = [max(1, round(_HELD_OUT * len(sample))) for sample in samples]
    rest = [sample[n:] for sample, n in zip(samples, map(int, n_selecting), strict=True)]
    n_largest = max(map(len, rest))
    n_least = _n_versions(featurizer, n_largest, n_versions)
    codes = []
    for sample in rest:
        n = round(n_least * n_largest / len(sample)) if n_least > 1 else 1
        codes.append(np.concatenate([_codes(featurizer, sample, rng).astype(np.float32) for _ in range(n)]))
    selecting = [_codes(featurizer, sample[:n], rng) for sample, n in zip(samples, n_selecting, strict=True)]
    draw = partial(_draws, featurizer, in_z=True)
    if recipe is None:
        max_epochs = max(10, math.ceil(_STEPS * _BATCH / max(map(len, codes))))
        recipe = Recipe(max_epochs, _BATCH, 1e-3, weight_decay=0.1, patience=max(5, max_epochs // 6))
    return fit_label_ratios(codes, selecting, draw, shares, recipe, seed, verbose)


def _checked(featurizer: FlowFeaturizer, X: Any, name: str) -> Matrix:
    rows, d = to_matrix(X, name), featurizer.n_features_in_
    if len(rows) < _FEWEST_ROWS or rows.shape[1] != d or not np.isfinite(rows).all():
        rule = f"Use at least {_FEWEST_ROWS} rows of {d} finite numbers, as `featurizer` was fitted to"
        raise ValueError(f"`{name}` has shape {rows.shape}, or missing values. {rule}.")
    return rows


def _score(log_rows: Vector, log_draws: Vector) -> tuple[float, float]:
    """Return the score of held-out rows and draws, (m,) and (l,), and its standard error."""
    gains = log_expit(log_rows), log_expit(-log_draws)
    error = math.sqrt(sum(float(gain.var(ddof=1)) / len(gain) for gain in gains)) / 2
    return math.log(2) + sum(float(gain.mean()) for gain in gains) / 2, error


def _n_versions(featurizer: FlowFeaturizer, n: int, n_versions: int | None) -> int:
    """Return how many noisy versions of each of n rows are fitted."""
    has_noise = featurizer.scaler_.stochastic or featurizer.discrete_ is not None
    return (n_versions or min(max(_MAX_NOISY_ROWS // n, 1), _MAX_VERSIONS)) if has_noise else 1


def _codes(featurizer: FlowFeaturizer, X: Matrix, rng: np.random.Generator) -> Matrix:
    """Map rows to z with the noise of the training of the flow: draws have it too."""
    rows = X if featurizer.discrete_ is None else featurizer.discrete_.jitter(X, rng)
    return featurizer.encode(rows, rng)


def _draws(featurizer: FlowFeaturizer, n: int, rng: np.random.Generator, *, in_z: bool) -> Matrix:
    """Return n draws of the flow, of shape (n, d_z) in z, or (n, d) in x."""
    batches = candidates(featurizer.flow_, n, int(rng.integers(2**31)))
    return np.concatenate([Z if in_z else featurizer.decode(Z) for _, Z in batches])


def _samples(versions: Sequence[Matrix], draws: Matrix) -> TwoSamples:
    """Return versions of rows, (n, d) each, as p, and draws, (m, d), as q. Versions of a row are one group."""
    n_rows, n_p = len(versions[0]), len(versions) * len(versions[0])
    groups = np.concatenate([np.tile(np.arange(n_rows), len(versions)), n_rows + np.arange(len(draws))])
    X = np.concatenate([*versions, draws.astype(versions[0].dtype, copy=False)])
    log_odds = math.log(n_p / len(draws))
    return TwoSamples(X, n_p, np.ones(len(X)), log_odds, groups if len(versions) > 1 else None)
