r"""Mutual information without a ratio of your own: a copula, and flexible corrections of it, all cross-fitted.

With a copula r₀ and the tilted product t = q r₀ / Z, where Z = mean_q r₀,

.. math:: \mathrm{KL}(p \,\|\, q) = \mathrm{mean}_p \log r_0 - \log Z + \mathrm{KL}(p \,\|\, t)

Rows of t are pairs of rows of one fold, drawn in proportion to r₀. They lie where the rows of p lie, however strong the
dependence is. So classifiers between p and t learn what the copula misses, or confirm that it misses nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from flowratio._support.chunks import chunks
from flowratio._support.progress import progress
from flowratio._support.types import Matrix, Vector
from flowratio.applications.copulas import (
    EllipticalRatio,
    copula_degrees,
    fit_gaussian,
    fit_student,
    student_degrees,
    student_scores,
)
from flowratio.applications.corrections import Corrections, fit_learner
from flowratio.applications.divergences import clipped_terms
from flowratio.applications.margins import is_continuous, normal_scores, robust_units, smooth_scores
from flowratio.applications.shuffles import TiltedProduct, pairs_by_row, pairs_of_folds, shuffled
from flowratio.ratios.registry import silent

LEARNERS = ("boosting", "mlp")  # trees, and a network
_MOST_FITTED, _MOST_DRAWN = 20_000, 8  # rows of t: up to 20,000 or n, and up to 8 for each row of p
_NARROW = 0.2  # conditional width: a dependence of 1.6 nats. Ranks resolve all that is wider
_STRONG = 1000.0  # rows in the conditional width: with fewer, the noise of ranks costs more than 0.003 nats
_TOO_STRONG = 50.0  # with fewer, x and y have equal ranks by chance
_N_HALVES = 3  # folds in which learners are fitted to half of the rows too
_FEWEST_DRAWN = 10  # rows of t in each fold: x and y that determine each other leave only the pairs of a few rows
_ROWS_PER_CELL = 5  # of a table of counts: with fewer, learners that smooth it do better
_FARTHEST = 30.0  # nats: log r₀ as a feature


@dataclass(frozen=True, eq=False)
class Dependence:
    """Parts of an estimate of mutual information."""

    rows: Vector  # (n,): what rows add to the held-out estimate, which is their mean
    in_sample: float
    confirmed: float  # by ratios up to the root of the number of pairs
    copula: str  # the copula of the estimate
    gain: float | None  # nats beyond the copula; None if nothing can be missing
    effective_size: float  # of the pairs that resemble rows of p
    growth: float  # nats that twice as many rows added
    disagreement: float  # nats between boosting and the network


@dataclass(frozen=True, eq=False)
class _Copula:
    """A copula, fitted without each fold, to one kind of scores."""

    name: str
    Z: Matrix  # (n, d)
    fits: list[EllipticalRatio]

    def each(self) -> np.ndarray:
        """Return log r of the rows by every fit, (n_folds, n)."""
        return np.array([fit.log_ratio(self.Z) for fit in self.fits])

    def tilted(self, pairs: list[tuple[Vector, Vector]]) -> TiltedProduct:
        """Return pairs with log r₀ of the fit without their fold."""
        log_r = [self._log_ratio(i, j, k) for k, (i, j) in enumerate(pairs)]
        i, j = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
        return TiltedProduct(i, j, np.concatenate(log_r))

    def _log_ratio(self, i: Vector, j: Vector, k: int) -> np.ndarray:
        out, d_x = np.empty(len(i)), self.fits[k].d_x
        for part in chunks(len(i), self.Z.shape[1]):
            out[part] = self.fits[k].log_ratio(joined(self.Z, d_x, i[part], j[part]))
        return out

    def width(self) -> float:
        """Return the smallest conditional width of a canonical pair, as a share of its marginal width."""
        return min(math.sqrt(1 - fit.largest_correlation() ** 2) for fit in self.fits)

    def column_width(self) -> float:
        """Return the smallest width of a column given all others, as a share of its marginal width."""
        return min(fit.smallest_width() for fit in self.fits)


def joined(Z: Matrix, d_x: int, i: Vector, j: Vector) -> np.ndarray:
    """Return rows with the x of row i and the y of row j."""
    return np.column_stack([Z[i, :d_x], Z[j, d_x:]])


def dependence(x: Matrix, y: Matrix, fold: Vector, seed: int, verbose: bool) -> Dependence:
    """Estimate the dependence of two variables in their own units, (n, d_x) and (n, d_y), with folds (n,)."""
    x, y = (part[:, (part != part[:1]).any(axis=0)] for part in (x, y))  # without constant columns
    cells = _cells(x, y)
    if cells is not None:
        return _table(*cells, fold)
    n, rng, X, d_x = len(x), np.random.default_rng([seed, 0, 10]), np.hstack([x, y]), x.shape[1]
    pairs = pairs_of_folds(fold, X.shape[1], rng)
    copula, each, tilted = _best_copula(_copulas(X, d_x, fold, rng), pairs, fold)
    draws = tilted.draw(n * int(np.clip(_MOST_FITTED // n, 1, _MOST_DRAWN)), rng)
    i, j = tilted.i[draws], tilted.j[draws]
    own = each[fold, np.arange(n)]
    if np.bincount(fold[i], minlength=int(fold.max()) + 1).min() < _FEWEST_DRAWN:  # only the confirmed part is usable
        clipped = clipped_terms(own, tilted.log_r, math.sqrt(len(tilted.log_r)))
        rows = clipped[0] + clipped[1].mean()
        confirmed = float(rows.mean())
        return Dependence(rows, confirmed, confirmed, copula.name, 0.0, tilted.effective_size, 0.0, 0.0)
    features = _features(X, copula, i, j)
    all_folds = np.concatenate([fold, fold[i]])
    learners = _fitted_learners(features, n, all_folds, seed, verbose)
    corrections = Corrections(LEARNERS, learners, all_folds, n, np.concatenate([np.arange(n), i]))
    terms = _Terms(own - tilted.log_z, each - tilted.log_z, corrections)
    of_p, of_t = terms.held_out()
    growth = _growth(features, corrections, seed) if corrections.weights.any() else 0.0
    return Dependence(
        rows=of_p + of_t.mean() + pairs_by_row(of_t, i, j, n) + tilted.influence(n),
        in_sample=terms.in_sample(),
        confirmed=terms.confirmed(tilted, draws),
        copula=copula.name,
        gain=float((of_p - own + tilted.log_z).mean() + of_t.mean()),
        effective_size=tilted.effective_size,
        growth=growth,
        disagreement=corrections.disagreement(),
    )


def _cells(x: Matrix, y: Matrix) -> tuple[Vector, Vector] | None:
    """Return the values of x and of y as codes, (n,) each, if both are discrete and their table has enough rows."""
    values = [np.unique(part, axis=0, return_inverse=True) for part in (x, y)]
    n_cells = math.prod(len(distinct) for distinct, _ in values)
    if n_cells * _ROWS_PER_CELL > len(x):
        return None
    return values[0][1].ravel(), values[1][1].ravel()


def _table(a: Vector, b: Vector, fold: Vector) -> Dependence:
    """Estimate the dependence of two codes (n,) by their table of counts, shrunk to independence by half a row a cell.

    The bias of held-out rows and that of fitted rows are opposite: (cells of the table) / 2 n each.
    """
    rows, shape = np.arange(len(a)), (int(a.max()) + 1, int(b.max()) + 1)
    shares = [np.bincount(codes) / len(a) for codes in (a, b)]
    product = np.outer(*shares)
    tables = []
    for k in range(int(fold.max()) + 1):
        fitted = fold != k
        counts = np.bincount(a[fitted] * shape[1] + b[fitted], minlength=product.size).reshape(shape)
        mass = product.size / 2
        tables.append(np.log((counts + mass * product) / (fitted.sum() + mass) / product))  # mean_q r is 1
    each = np.array(tables)[:, a, b]
    own = each[fold, rows]
    in_sample = float(np.mean([each[k][fold != k].mean() for k in range(len(each))]))
    return Dependence(own, in_sample, float(own.mean()), "table of counts", None, math.inf, 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class _Terms:
    """What rows of p and of t add to the estimate."""

    own: Vector  # (n,): held-out log r₀ - log Z of the rows of p
    each: Matrix  # (n_folds, n): the same by every fit
    corrections: Corrections

    def held_out(self) -> tuple[Vector, Vector]:
        of_p, of_t = self.corrections.terms(self.corrections.stacked_held_out())
        return self.own + of_p, of_t

    def confirmed(self, tilted: TiltedProduct, draws: Vector) -> float:
        r"""Return the bound by ratios up to the root of the number of pairs. `draws` are the pairs of the rows of t.

        .. math:: \mathrm{mean}_p \log \min(r, m) + 1 - \mathrm{mean}_q \min(r, m), \qquad
                  \mathrm{mean}_q \min(r, m) = \mathrm{mean}_t \min(c,\, m Z / r_0), \quad r = c\, r_0 / Z
        """
        corrections, log_m = self.corrections, 0.5 * math.log(len(tilted.log_r))
        log_c = np.minimum(corrections.stacked_held_out(), math.log(corrections.reach))
        of_p = np.minimum(self.own + log_c[: corrections.n], log_m)
        of_t = np.minimum(log_c[corrections.n :], log_m + tilted.log_z - tilted.log_r[draws])
        return float(of_p.mean() + 1 - np.exp(of_t).mean())

    def in_sample(self) -> float:
        """Return the mean estimate on the fitted rows."""
        fold, n, stacked = self.corrections.fold, self.corrections.n, self.corrections.stacked
        estimates = []
        for k, base in enumerate(self.each):
            of_p, of_t = self.corrections.terms(stacked[k])
            estimates.append((base + of_p)[fold[:n] != k].mean() + of_t[fold[n:] != k].mean())
        return float(np.mean(estimates))


def _copulas(X: Matrix, d_x: int, fold: Vector, rng: np.random.Generator) -> list[_Copula]:
    """Return the copulas to compare. Ranks come first: smooth margins are for dependence that ranks do not resolve."""
    deal, continuous = shuffled(fold, rng), is_continuous(X)
    by_rank = _elliptical("normal scores", normal_scores(X), d_x, fold, deal)
    if not (continuous[:d_x].any() and continuous[d_x:].any()):
        return by_rank
    smooth = _elliptical("smooth margins", smooth_scores(X), d_x, fold, deal)
    narrow = min(copula.column_width() for copula in smooth)
    if narrow > _NARROW or narrow * len(X) > _STRONG:
        return by_rank
    if continuous.all():
        Z = robust_units(X)
        smooth.append(_cross_fitted("Student's distribution of the columns", Z, d_x, fold, deal, student_degrees(Z)))
    n_near = min(copula.width() for copula in smooth) * len(X)
    return smooth if n_near < _TOO_STRONG else by_rank + smooth


def tail_ratios(x: Matrix, y: Matrix, fold: Vector, deals: Matrix) -> np.ndarray:
    """Return held-out log r of a t-copula of normal scores, (n, d_x) and (n, d_y), of rows (x, y) and of dealt rows.

    The result has n + mn values, for deals of shape (m, n). It shows dependence in the tails, which few trees see.
    """
    x, y = (part[:, (part != part[:1]).any(axis=0)] for part in (x, y))
    rows = np.arange(len(x))
    _, copula = _elliptical("normal scores", np.hstack([x, y]), x.shape[1], fold, deals[0])
    log_r = np.empty((len(deals) + 1, len(x)))
    for k, fit in enumerate(copula.fits):
        i = rows[fold == k]
        for out, deal in zip(log_r, (rows, *deals), strict=True):
            out[i] = fit.log_ratio(joined(copula.Z, fit.d_x, i, deal[i]))
    return np.clip(log_r.ravel(), -_FARTHEST, _FARTHEST)


def _elliptical(margins: str, Z: Matrix, d_x: int, fold: Vector, deal: Vector) -> list[_Copula]:
    degrees = copula_degrees(Z)
    student = student_scores(Z, degrees)
    return [
        _cross_fitted(f"Gaussian copula of {margins}", Z, d_x, fold, deal, math.inf),
        _cross_fitted(f"t-copula of {margins}", student, d_x, fold, deal, degrees),
    ]


def _cross_fitted(name: str, Z: Matrix, d_x: int, fold: Vector, deal: Vector, degrees: float) -> _Copula:
    Q, fits = joined(Z, d_x, np.arange(len(Z)), deal), []
    for k in range(int(fold.max()) + 1):
        P_k, Q_k = Z[fold != k], Q[fold != k]
        gaussian = math.isinf(degrees)
        fits.append(fit_gaussian(P_k, Q_k, d_x) if gaussian else fit_student(P_k, Q_k, d_x, degrees))
    return _Copula(name, Z, fits)


def _best_copula(
    copulas: list[_Copula], pairs: list[tuple[Vector, Vector]], fold: Vector
) -> tuple[_Copula, Matrix, TiltedProduct]:
    """Return the copula with the largest held-out bound, log r₀ of the rows by every fit, and its tilted product."""
    rows = np.arange(len(fold))

    def scored(copula: _Copula) -> tuple[float, _Copula, Matrix, TiltedProduct]:
        each, tilted = copula.each(), copula.tilted(pairs)
        return float(each[fold, rows].mean()) - tilted.log_z, copula, each, tilted

    return max(map(scored, copulas), key=lambda candidate: candidate[0])[1:]


def _features(X: Matrix, copula: _Copula, i: Vector, j: Vector) -> np.ndarray:
    """Return what learners see of rows of p and t: scores, distances in conditional widths, and log r₀.

    The first fit serves all folds. Fits of their own would show which fold a row belongs to.
    """
    fit = copula.fits[0]
    scores = normal_scores(X) if copula.name.endswith("normal scores") else smooth_scores(X)
    columns, Z = (np.concatenate([of, joined(of, fit.d_x, i, j)]) for of in (scores, copula.Z))
    log_r = np.clip(fit.log_ratio(Z), -_FARTHEST, _FARTHEST)
    return np.column_stack([columns, fit.canonical_residuals(Z), log_r])


def _fitted_learners(F: Matrix, n: int, fold: Vector, seed: int, verbose: bool) -> np.ndarray:
    """Return log(p / t) of all rows by each learner without each fold, (n_learners, n_folds, n + m)."""
    n_folds = int(fold.max()) + 1
    with silent(), progress(n_folds * len(LEARNERS), "fits", verbose) as step:
        outcomes = []
        for name in LEARNERS:
            for k in range(n_folds):
                outcomes.append(fit_learner(name, F, n, fold != k, seed + k))
                step()
    return np.reshape(outcomes, (len(LEARNERS), n_folds, -1))


def _growth(F: Matrix, corrections: Corrections, seed: int) -> float:
    """Return how many nats the held-out estimate has grown by fitting to all rows instead of half of them."""
    n, fold, rng = corrections.n, corrections.fold, np.random.default_rng([seed, 0, 11])
    half, differences = rng.random(len(fold)) < 0.5, []
    with silent():
        for k in range(min(_N_HALVES, int(fold.max()) + 1)):
            weights, out = corrections.weights[k], fold == k
            log_r = np.zeros(len(fold))
            for name, weight in zip(LEARNERS, weights, strict=True):
                if weight > 0:
                    log_r += weight * fit_learner(name, F, n, (fold != k) & half, seed + k)
            whole, part = corrections.terms(corrections.stacked[k]), corrections.terms(log_r)
            of = out[:n], out[n:]
            differences.append(sum(float((a - b)[rows].mean()) for a, b, rows in zip(whole, part, of, strict=True)))
    return float(np.mean(differences))
