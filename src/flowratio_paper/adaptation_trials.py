r"""Trials of domain adaptation: weights from KMM and KLIEP, in x and in z, for a classifier that is fitted in x.

Source rows are labelled, target rows are not. A source row counts by its ratio r = p/q: p is the target (y = 1 for
the ratio), q the source. The ratio is learned from x, or from z = f(x) with f a flow of both samples, without any
label. The classifier always sees x. Its error on labelled rows of the target is what the tables show.

*How a setting is chosen.* KMM has no way of its own to choose γ of its kernel :math:`e^{-\gamma \|x - x'\|^2}` and the
largest weight B. The paper's code takes those of the least error on labelled target rows: an **oracle**, which no user
has. Beside it stands an honest choice, by the **held-out score**: the cross-validated likelihood of which sample a row
is from (`RatioEstimator.score`). It needs no labels, and its best ratio is the true one. By the same score KLIEP
chooses its bandwidth itself. **IWCV** is the cross-validated error on source rows, each counted by its weight. It needs
labels of the source alone, but compares weights by themselves: those that rest on a few rows that are easily told look
best, whether or not the target looks so. Of equal ones the first is taken: of KMM the smoothest, of
KLIEP its own choice.

*Where we part from the paper.* Its code chose by the oracle. "KLIEP" has a constant function beside the kernels, and
takes the widest bandwidth whose held-out score, as above, is within one standard error of the best; the published one
has no constant, and takes the bandwidth of the best mean log r of held-out rows of p. A block of the flow has two
hidden layers, as in the paper's code, where its table says `n_hidden` 1; the flow is stopped by rows held out of the
pooled sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.kernel.kliep import KLIEP
from flowratio.ratios.kernel.kmm import KMM
from flowratio.samples.stacking import stack
from flowratio_paper.running import Claim
from flowratio_paper.verdicts import beyond, standard_error

SPACES = ("x", "z", "z, our flow")
# the quadratic program as it stands, and KLIEP of kernels and a constant; then ours
METHODS = ("KMM", "KMM, our gap", "KLIEP", "KLIEP, our start")
PENALTIES = (0.1, 1.0, 10.0, 100.0)  # C of the support vector machines
HONEST, IWCV, ORACLE, FIXED = "held-out score", "IWCV", "oracle", "oracle, one for all"
_PROGRAM_GAP = 1e-7
_N_FOLDS = 5
_PAPER_TRIALS = 30
BETTER, EQUAL, OPEN, WORSE = "better", "equal", "cannot be told", "worse"


@dataclass(frozen=True)
class TrialSettings:
    """What is compared in each trial.

    Parameters
    ----------
    seeds
        Number of trials.
    gammas, bounds
        The grid of KMM: γ in the units of the space, and B. KLIEP's oracle looks at the same γ.
    methods, spaces
        Some of `METHODS` and `SPACES`.
    flow_epochs
        Epochs of the flows; None for the paper's 100, and what our flow takes by itself.
    """

    seeds: int
    gammas: tuple[float, ...] = (0.01, 0.1, 0.5, 1.0)
    bounds: tuple[float, ...] = (1.0, 10.0, 100.0, 1000.0)
    methods: tuple[str, ...] = METHODS
    spaces: tuple[str, ...] = SPACES
    flow_epochs: int | None = None


@dataclass(frozen=True)
class Trial:
    """Rows of a source with labels, rows of a target, and rows of the target with labels to test on.

    Parameters
    ----------
    X_source, y_source
        Of shapes (n, d) and (n,).
    X_target
        Of shape (m, d).
    X_test, y_test
        Of shapes (k, d) and (k,).
    """

    X_source: np.ndarray
    y_source: np.ndarray
    X_target: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def scaled(trial: Trial, scaling: str) -> Trial:
    """Standardize the rows of a trial whose test rows are its target rows.

    Parameters
    ----------
    trial
        Raw rows.
    scaling
        `"shared"`: source and target together, by one scaler. `"separate"`: each by its own, as the paper has it: then
        the same x has one place in the source and another in the target.
    """
    source, target = trial.X_source, trial.X_target
    if scaling == "separate":
        source, target = StandardScaler().fit_transform(source), StandardScaler().fit_transform(target)
    else:
        scaler = StandardScaler().fit(np.concatenate([source, target]))
        source, target = scaler.transform(source), scaler.transform(target)
    return replace(trial, X_source=source, X_target=target, X_test=target)


def run_trial(
    trial: Trial, classifiers: Sequence[Any], settings: TrialSettings, seed: int, true_log_r: np.ndarray | None = None
) -> dict[str, Any]:
    """Return the errors of the classifiers without weights, and with those of each method in each space.

    Parameters
    ----------
    trial
        The rows.
    classifiers
        That take `sample_weight`; k of them.
    settings
        What is compared.
    seed
        Of the flows, folds and centres.
    true_log_r
        log r of the source rows, of shape (n,), if it is known.

    Returns
    -------
    "none", the k errors without weights; by space and method "errors" of all candidates, each of k numbers, the like on
    source rows under "source_errors" if there are several, "scores" of KMM's candidates, and "log_r_errors", mean
    squared, where the truth is known.
    """
    result: dict[str, Any] = {"none": errors(classifiers, trial, None)}
    for space in settings.spaces:
        p, q = encoded(trial, space, settings.flow_epochs, seed)
        result[space] = {
            method: _compared(candidates(method, settings, p, q, seed), p, q, trial, classifiers, true_log_r, seed)
            for method in settings.methods
        }
    return result


def errors(classifiers: Sequence[Any], trial: Trial, weights: np.ndarray | None) -> list[float]:
    """Return the share of test rows that each classifier gets wrong, if it is fitted to weighted source rows."""
    found = []
    for one in classifiers:
        made: Any = clone(one)
        made.fit(trial.X_source, trial.y_source, sample_weight=weights)
        found.append(round(float(np.mean(made.predict(trial.X_test) != trial.y_test)), 4))
    return found


def source_errors(classifiers: Sequence[Any], trial: Trial, weights: np.ndarray, seed: int) -> list[float]:
    """Return the weighted share of source rows that each classifier gets wrong if it is fitted without their fold."""
    X, y = trial.X_source, trial.y_source
    folds = StratifiedKFold(_N_FOLDS, shuffle=True, random_state=seed)
    wrong = np.empty((len(classifiers), len(y)))
    for rest, held_out in folds.split(X, y):
        for k, one in enumerate(classifiers):
            made: Any = clone(one)
            made.fit(X[rest], y[rest], sample_weight=weights[rest])
            wrong[k, held_out] = made.predict(X[held_out]) != y[held_out]
    return [round(float(np.average(row, weights=weights)), 4) for row in wrong]


def support_vector_machines() -> list[Any]:
    """Return those of the paper, one for each C of `PENALTIES`."""
    gamma: Any = 0.1
    return [SVC(C=C, gamma=gamma) for C in PENALTIES]


def encoded(trial: Trial, space: str, epochs: int | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of the target and of the source in a space: as they are, or through a flow of both."""
    if space == "x":
        return trial.X_target, trial.X_source
    flow = FlowFeaturizer.from_paper("uci") if space == "z" else FlowFeaturizer()
    flow.set_params(random_state=seed, **({} if epochs is None else {"max_epochs": epochs}))
    flow.fit(np.concatenate([trial.X_target, trial.X_source]))
    return flow.transform(trial.X_target), flow.transform(trial.X_source)


def candidates(method: str, settings: TrialSettings, p: np.ndarray, q: np.ndarray, seed: int) -> list[Any]:
    """Return the ratios of a method: KMM over its grid; KLIEP with its own choice first, then over γ."""
    widths = [bandwidth(gamma, p, q) for gamma in settings.gammas]
    if method.startswith("KMM"):
        gap = _PROGRAM_GAP if method == "KMM" else None
        grid = [(width, bound) for width in widths for bound in settings.bounds]
        return [KMM(width, max_weight=bound, gap=gap, random_state=seed) for width, bound in grid]
    start = None if method == "KLIEP" else "log-linear"
    return [KLIEP(width, start=start, random_state=seed) for width in (None, *widths)]


def bandwidth(gamma: float, p: np.ndarray, q: np.ndarray) -> float:
    r"""Return σ of :math:`e^{-\gamma \|x - x'\|^2}` in standard deviations of rows, both samples counting one half."""
    variance = (p.var(axis=0) + q.var(axis=0)) / 2 + ((p.mean(axis=0) - q.mean(axis=0)) / 2) ** 2
    return float((2 * gamma * variance.mean()) ** -0.5)


def _compared(
    ratios: list[Any],
    p: np.ndarray,
    q: np.ndarray,
    trial: Trial,
    classifiers: Sequence[Any],
    true_log_r: np.ndarray | None,
    seed: int,
) -> dict[str, list[Any]]:
    X, y = stack(p, q)
    found: dict[str, list[Any]] = {"errors": []}
    for ratio in ratios:
        if isinstance(ratio, KMM):
            folds = StratifiedKFold(_N_FOLDS, shuffle=True, random_state=seed)
            found.setdefault("scores", []).append(round(float(cross_val_score(ratio, X, y, cv=folds).mean()), 4))
        w = ratio.fit(X, y).weights(q)
        found["errors"].append(errors(classifiers, trial, w))
        if len(ratios) > 1:
            found.setdefault("source_errors", []).append(source_errors(classifiers, trial, w, seed))
        if true_log_r is not None:
            wrong = float(np.mean((ratio.log_ratio(q) - true_log_r) ** 2))
            found.setdefault("log_r_errors", []).append(round(wrong, 3))
    return found


def choices(method: str) -> tuple[str, ...]:
    """Return the ways in which a setting of a method is chosen, those that a user has first."""
    return (HONEST, IWCV, ORACLE, FIXED) if method.startswith("KMM") else (HONEST, IWCV, ORACLE)


def chosen(results: Sequence[Mapping[str, Any]], space: str, method: str, choice: str) -> np.ndarray:
    """Return errors by trial and classifier, of shape (t, k), for the settings that are chosen.

    Parameters
    ----------
    results
        Of trials, as `run_trial` returns them.
    space, method
        What weights come from.
    choice
        One of `choices(method)`. An oracle looks at the labels of the target: for each trial, or for all of them.
    """
    found = np.array([result[space][method]["errors"] for result in results])  # (t, candidates, k)
    if choice == ORACLE:
        return found.min(axis=1)
    if choice == FIXED:
        best = found.mean(axis=0).argmin(axis=0)  # (k,)
        return found[:, best, np.arange(found.shape[2])]
    trials, k = np.arange(len(found)), np.arange(found.shape[2])
    if choice == IWCV:
        on_source = np.array([result[space][method]["source_errors"] for result in results])
        return found[trials[:, None], on_source.argmin(axis=1), k]
    return found[trials, picked(results, space, method)]


def picked(results: Sequence[Mapping[str, Any]], space: str, method: str) -> np.ndarray:
    """Return which candidate the honest choice takes in each trial, of shape (t,)."""
    return np.array([np.argmax(result[space][method].get("scores", [0.0])) for result in results])


def unweighted(results: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """Return errors without weights by trial and classifier, of shape (t, k)."""
    return np.array([result["none"] for result in results])


def cells(values: np.ndarray, paper: Sequence[float] | None = None) -> list[str]:
    """Return mean ± standard error by classifier, (t, k) to k texts, with the paper's number in brackets."""
    beside = [""] * values.shape[1] if paper is None else [f" [{_short(number)}]" for number in paper]
    bars = ["" if np.isnan(error) else f" ± {_short(error)}" for error in standard_error(values)]
    means = [_short(mean) for mean in values.mean(axis=0)]
    return ["".join(parts) for parts in zip(means, bars, beside, strict=True)]


def _short(number: float) -> str:
    return f"{number:.3f}".removeprefix("0")


def compared(ours: np.ndarray, other: np.ndarray) -> list[str]:
    """Return for each classifier whether errors are less than others of the same trials, of shape (t, k) both.

    `BETTER` and `WORSE` are beyond two standard errors of the differences, `EQUAL` is the same in every trial.
    """
    names = {True: BETTER, False: WORSE, None: OPEN}
    differences = (other - ours).T
    return [names[beyond(one)] if one.any() else EQUAL if len(one) > 1 else OPEN for one in differences]


def at_least_as_good(words: str, ours: np.ndarray, other: np.ndarray, labels: Sequence[str]) -> Claim:
    """Return the claim that errors are no larger than others: less for some classifier, or all equal, and never more.

    Parameters
    ----------
    words
        The claim.
    ours, other
        Errors of the same trials, of shape (t, k).
    labels
        Of the k classifiers.
    """
    found = compared(ours, other)
    holds = False if WORSE in found else True if BETTER in found or set(found) == {EQUAL} else None
    return Claim(words, holds, _measured(ours, other, labels))


def mostly_better(words: str, ours: np.ndarray, other: np.ndarray, labels: Sequence[str]) -> Claim:
    """Return the claim that errors are less than others for nearly all classifiers: all but one at most."""
    found = compared(ours, other)
    n_not = found.count(WORSE) + found.count(EQUAL)
    holds = True if found.count(BETTER) >= len(found) - 1 else False if n_not > 1 else None
    return Claim(words, holds, _measured(ours, other, labels))


def never(words: str, what: str, pairs: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Claim:
    """Return the claim that errors are nowhere significantly `BETTER`, or `WORSE`, than others.

    Parameters
    ----------
    words
        The claim.
    what
        `BETTER` or `WORSE`: what they are not.
    pairs
        By name the errors and those of the same trials that they are compared to, of shape (t, k).
    """
    found = {name: compared(*pair) for name, pair in pairs.items()}
    n_trials = min(len(ours) for ours, _ in pairs.values())
    holds = None if n_trials < 2 else not any(what in one for one in found.values())
    return Claim(words, holds, "; ".join(f"{name}: {_counted(one)}" for name, one in found.items()))


def _counted(found: Sequence[str]) -> str:
    return ", ".join(f"{what} {found.count(what)}" for what in (BETTER, EQUAL, OPEN, WORSE) if what in found)


def _measured(ours: np.ndarray, other: np.ndarray, labels: Sequence[str]) -> str:
    differences, found = ours - other, compared(ours, other)
    pairs = zip(differences.mean(axis=0), standard_error(differences), strict=True)
    bars = [f"{mean:+.3f}" if np.isnan(error) else f"{mean:+.3f} ± {error:.3f}" for mean, error in pairs]
    if len(labels) == 1:
        return f"{found[0]}: difference {bars[0]}"
    told = ", ".join(f"{label} {bar}" for label, bar in zip(labels, bars, strict=True))
    return f"{_counted(found)}; difference: {told}"


def as_published(words: str, ours: np.ndarray, paper: Sequence[float], spread: Sequence[float]) -> Claim:
    """Return the claim that errors are the paper's, all within two standard errors of the difference.

    Parameters
    ----------
    words
        The claim.
    ours
        Errors, of shape (t, k).
    paper, spread
        The paper's means and standard deviations over 30 trials, k of each.
    """
    if len(ours) < 2:
        return Claim(words, None, "one trial")
    error = np.hypot(standard_error(ours), np.asarray(spread) / np.sqrt(_PAPER_TRIALS))
    apart = (ours.mean(axis=0) - np.asarray(paper)) / error
    told = f"{', '.join(f'{one:+.1f}' for one in apart)} standard errors apart"
    return Claim(words, bool((np.abs(apart) <= 2).all()), told)


def draw_errors(axes: Any, errors_of: Mapping[str, np.ndarray], paper: Mapping[str, Sequence[float]]) -> None:
    """Draw errors against C, (t, 4) for each name, with standard errors, and the paper's in grey.

    Parameters
    ----------
    axes
        Of matplotlib.
    errors_of
        Errors without weights, under "none", and by space.
    paper
        The paper's means, by the same names.
    """
    styles = {"none": (":", "D"), "x": ("--", "o"), "z": ("-", "s"), "z, our flow": ("-.", "^")}
    aside = {name: np.array(PENALTIES) * 1.12 ** (k - 1) for k, name in enumerate(styles)}  # none hides another
    for name, values in errors_of.items():
        line, marker = styles[name]
        bars, fill = standard_error(values) if len(values) > 1 else None, "white" if name == "none" else "black"
        shape: Any = {"fmt": marker + line, "color": "black", "mfc": fill, "ms": 5, "lw": 1.2, "capsize": 2}
        axes.errorbar(aside[name], values.mean(axis=0), yerr=bars, label=name, **shape)
    for name, means in paper.items():
        line, marker = styles[name]
        axes.plot(aside[name], means, marker + line, color="0.65", mfc="none", ms=5, label=f"{name}, paper")
    axes.set_xscale("log")
    axes.set_xticks(PENALTIES, [f"{C:g}" for C in PENALTIES])
    axes.minorticks_off()
    axes.set_xlabel("C")
