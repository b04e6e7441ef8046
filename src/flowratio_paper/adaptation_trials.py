r"""Trials of domain adaptation: weights from KMM and KLIEP, in x and in z, for a classifier that is fitted in x.

Source rows have labels, target rows do not. The weight of a source row is its ratio r = p/q: p is the target (y = 1 for
the ratio), q the source. The ratio is estimated in x, or in latent space z = f(x) with f a flow of both samples. It
needs no labels. The classifier is always fitted in x. The tables show its error on labeled rows of the target.

*How a setting is selected.* KMM does not select γ of its kernel :math:`e^{-\gamma \|x - x'\|^2}` and the largest weight
B. The paper's code takes those with the lowest error on labeled target rows: an **oracle**, which no user has. A
user can select by the **held-out score**: the cross-validated likelihood of the sample that a row is from
(`RatioEstimator.score`). It needs no labels, and the true ratio has the best score. KLIEP selects its bandwidth by the
same score. **IWCV** is the cross-validated error on source rows, weighted. It needs labels of the source only. Weights
that favor a few easy rows look best by IWCV, even if the target has few such rows. Of equal settings the first is
taken: the smoothest KMM, and KLIEP's own selection.

*Differences from the paper.* Its code used the oracle. "KLIEP" has a constant function in addition to the kernels. It
takes the widest bandwidth whose held-out score is within one standard error of the best. The published KLIEP has no
constant, and takes the bandwidth with the best mean log r of held-out rows of p. A block of the flow has two hidden
layers, as in the paper's code, where its table has `n_hidden` 1. Held-out rows of the pooled sample stop the flow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from flowratio import KLIEP, KMM, FlowFeaturizer, stack
from flowratio_paper.figure_style import MARKERS, OF_SPACE
from flowratio_paper.reports import Claim
from flowratio_paper.settings import paper_featurizer
from flowratio_paper.verdicts import Answer, beyond, standard_error, welch_quantile, with_interval

SPACES = ("x", "z", "z, our flow")
KMM_GAPS = {"KMM": 1e-7, "KMM, our gap": None}  # the exact quadratic program, and the default of the library
_KLIEP_STARTS: dict[str, Any] = {"KLIEP": None, "KLIEP, our start": "log-linear"}  # the same
METHODS = (*KMM_GAPS, *_KLIEP_STARTS)
PENALTIES = (0.1, 1.0, 10.0, 100.0)  # C of the support vector machines
HONEST, IWCV, ORACLE, FIXED = "held-out score", "IWCV", "oracle", "oracle, one for all"
_N_FOLDS = 5
_PAPER_TRIALS = 30


class Comparison(str, Enum):
    """How errors compare with others of the same trials."""

    BETTER = "better"
    EQUAL = "equal"
    INCONCLUSIVE = "inconclusive"
    WORSE = "worse"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class TrialSettings:
    """What is compared in each trial.

    Parameters
    ----------
    seeds
        Number of trials.
    gammas, bounds
        The grid of KMM: γ in the units of the space, and B. The oracle of KLIEP has the same γ.
    methods, spaces
        Items of `METHODS` and `SPACES`.
    flow_epochs
        Epochs of the flows. None for the 100 of the paper, and the default of our flow.
    """

    seeds: int
    gammas: tuple[float, ...] = (0.01, 0.1, 0.5, 1.0)
    bounds: tuple[float, ...] = (1.0, 10.0, 100.0, 1000.0)
    methods: tuple[str, ...] = METHODS
    spaces: tuple[str, ...] = SPACES
    flow_epochs: int | None = None


@dataclass(frozen=True)
class Trial:
    """Labeled rows of a source, rows of a target, and labeled rows of the target for the test.

    Parameters
    ----------
    X_source, y_source
        Rows and labels, of shapes (n, d) and (n,).
    X_target
        Rows, of shape (m, d).
    X_test, y_test
        Rows and labels, of shapes (k, d) and (k,).
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
        `"shared"`: one scaler for source and target. `"separate"`: a scaler for each, as in the paper. The same x then
        has one value in the source and another in the target.
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
        k classifiers that take `sample_weight`.
    settings
        What is compared.
    seed
        Seed of the flows, folds and centers.
    true_log_r
        True log r of the source rows, of shape (n,), or None.

    Returns
    -------
    "none" has the k errors without weights. By space and method, "errors" has k numbers for each candidate.
    "source_errors" has the errors on source rows, if there are several candidates. "scores" are those of KMM.
    "log_r_errors" are mean squared errors, with `true_log_r`.
    """
    result: dict[str, Any] = {"none": errors(classifiers, trial, None)}
    for space in settings.spaces:
        p, q = in_space(trial, space, settings.flow_epochs, seed)
        result[space] = {
            method: _tried(candidates(method, settings, p, q, seed), p, q, trial, classifiers, true_log_r, seed)
            for method in settings.methods
        }
    return result


def errors(classifiers: Sequence[Any], trial: Trial, weights: np.ndarray | None) -> list[float]:
    """Return the error rate on test rows of each classifier, fitted to weighted source rows."""
    rates = []
    for one in classifiers:
        classifier: Any = clone(one)
        classifier.fit(trial.X_source, trial.y_source, sample_weight=weights)
        rates.append(round(float(np.mean(classifier.predict(trial.X_test) != trial.y_test)), 4))
    return rates


def source_errors(classifiers: Sequence[Any], trial: Trial, weights: np.ndarray, seed: int) -> list[float]:
    """Return the weighted, cross-validated error rate on source rows of each classifier."""
    X, y = trial.X_source, trial.y_source
    folds = StratifiedKFold(_N_FOLDS, shuffle=True, random_state=seed)
    is_wrong = np.empty((len(classifiers), len(y)))
    for rest, held_out in folds.split(X, y):
        for k, one in enumerate(classifiers):
            classifier: Any = clone(one)
            classifier.fit(X[rest], y[rest], sample_weight=weights[rest])
            is_wrong[k, held_out] = classifier.predict(X[held_out]) != y[held_out]
    return [round(float(np.average(row, weights=weights)), 4) for row in is_wrong]


def support_vector_machines() -> list[Any]:
    """Return those of the paper, one for each C of `PENALTIES`."""
    gamma: Any = 0.1
    return [SVC(C=C, gamma=gamma) for C in PENALTIES]


def in_space(trial: Trial, space: str, epochs: int | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of the target and of the source in a space: x, or the latent space of a flow of both."""
    if space == "x":
        return trial.X_target, trial.X_source
    flow = paper_featurizer("uci") if space == "z" else FlowFeaturizer()
    flow.set_params(random_state=seed, **({} if epochs is None else {"max_epochs": epochs}))
    flow.fit(np.concatenate([trial.X_target, trial.X_source]))
    return flow.transform(trial.X_target), flow.transform(trial.X_source)


def candidates(method: str, settings: TrialSettings, p: np.ndarray, q: np.ndarray, seed: int) -> list[Any]:
    """Return the ratios of a method: KMM over its grid, KLIEP with its own bandwidth first, then over γ."""
    widths = [bandwidth(gamma, p, q) for gamma in settings.gammas]
    if method in KMM_GAPS:
        grid = [(width, bound) for width in widths for bound in settings.bounds]
        return [KMM(width, max_weight=bound, gap=KMM_GAPS[method], random_state=seed) for width, bound in grid]
    return [KLIEP(width, start=_KLIEP_STARTS[method], random_state=seed) for width in (None, *widths)]


def bandwidth(gamma: float, p: np.ndarray, q: np.ndarray) -> float:
    r"""Return σ of :math:`e^{-\gamma \|x - x'\|^2}` in standard deviations of rows, both samples counting one half."""
    variance = (p.var(axis=0) + q.var(axis=0)) / 2 + ((p.mean(axis=0) - q.mean(axis=0)) / 2) ** 2
    return float((2 * gamma * variance.mean()) ** -0.5)


def _tried(
    ratios: list[Any],
    p: np.ndarray,
    q: np.ndarray,
    trial: Trial,
    classifiers: Sequence[Any],
    true_log_r: np.ndarray | None,
    seed: int,
) -> dict[str, list[Any]]:
    X, y = stack(p, q)
    numbers: dict[str, list[Any]] = {"errors": []}
    for ratio in ratios:
        if isinstance(ratio, KMM):
            folds = StratifiedKFold(_N_FOLDS, shuffle=True, random_state=seed)
            numbers.setdefault("scores", []).append(round(float(cross_val_score(ratio, X, y, cv=folds).mean()), 4))
        w = ratio.fit(X, y).weights(q)
        numbers["errors"].append(errors(classifiers, trial, w))
        if len(ratios) > 1:
            numbers.setdefault("source_errors", []).append(source_errors(classifiers, trial, w, seed))
        if true_log_r is not None:
            error = float(np.mean((ratio.log_ratio(q) - true_log_r) ** 2))
            numbers.setdefault("log_r_errors", []).append(round(error, 3))
    return numbers


def choices(method: str) -> tuple[str, ...]:
    """Return the ways to select a setting of a method, those that a user has first."""
    return (HONEST, IWCV, ORACLE, FIXED) if method in KMM_GAPS else (HONEST, IWCV, ORACLE)


def selected(results: Sequence[Mapping[str, Any]], space: str, method: str, choice: str) -> np.ndarray:
    """Return errors by trial and classifier, of shape (t, k), for the selected settings.

    Parameters
    ----------
    results
        Results of trials, from `run_trial`.
    space, method
        Origin of the weights.
    choice
        One of `choices(method)`. An oracle uses the labels of the target: for each trial, or for all of them.
    """
    rates = np.array([result[space][method]["errors"] for result in results])  # (t, candidates, k)
    if choice == ORACLE:
        return rates.min(axis=1)
    if choice == FIXED:
        best = rates.mean(axis=0).argmin(axis=0)  # (k,)
        return rates[:, best, np.arange(rates.shape[2])]
    trials, k = np.arange(len(rates)), np.arange(rates.shape[2])
    if choice == IWCV:
        on_source = np.array([result[space][method]["source_errors"] for result in results])
        return rates[trials[:, None], on_source.argmin(axis=1), k]
    return rates[trials, honest_candidates(results, space, method)]


def honest_candidates(results: Sequence[Mapping[str, Any]], space: str, method: str) -> np.ndarray:
    """Return the candidate with the best held-out score in each trial, of shape (t,)."""
    return np.array([np.argmax(result[space][method].get("scores", [0.0])) for result in results])


def unweighted(results: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """Return errors without weights by trial and classifier, of shape (t, k)."""
    return np.array([result["none"] for result in results])


def cells(values: np.ndarray, paper: Sequence[float] | None = None) -> list[str]:
    """Return mean ± standard error by classifier, (t, k) to k texts, with the paper's number in brackets."""
    published = [""] * values.shape[1] if paper is None else [f" [{_short(number)}]" for number in paper]
    bars = ["" if np.isnan(error) else f" ± {_short(error)}" for error in standard_error(values)]
    means = [_short(mean) for mean in values.mean(axis=0)]
    return ["".join(parts) for parts in zip(means, bars, published, strict=True)]


def _short(number: float) -> str:
    return f"{number:.3f}".removeprefix("0")


def comparisons(ours: np.ndarray, other: np.ndarray) -> list[Comparison]:
    """Return for each classifier how errors compare with others of the same trials, both of shape (t, k).

    `BETTER` and `WORSE` are beyond the 95 % interval of the paired differences, `EQUAL` is the same in every trial.
    """
    by_answer = {
        Answer.YES: Comparison.BETTER,
        Answer.NO: Comparison.WORSE,
        Answer.INCONCLUSIVE: Comparison.INCONCLUSIVE,
    }
    differences = (other - ours).T
    return [by_answer[beyond(one)] if one.any() or len(one) < 2 else Comparison.EQUAL for one in differences]


def at_least_as_good(words: str, ours: np.ndarray, other: np.ndarray, labels: Sequence[str]) -> Claim:
    """Return the claim that errors are never higher than others, and lower for one classifier or equal for all.

    Parameters
    ----------
    words
        The claim.
    ours, other
        Errors of the same trials, of shape (t, k).
    labels
        Names of the k classifiers.
    """
    by_classifier = comparisons(ours, other)
    answer = Answer.INCONCLUSIVE
    if Comparison.WORSE in by_classifier:
        answer = Answer.NO
    elif Comparison.BETTER in by_classifier or set(by_classifier) == {Comparison.EQUAL}:
        answer = Answer.YES
    return Claim(words, answer, _measured(ours, other, labels))


def mostly_better(words: str, ours: np.ndarray, other: np.ndarray, labels: Sequence[str]) -> Claim:
    """Return the claim that errors are lower than others for all classifiers, or for all but one."""
    by_classifier = comparisons(ours, other)
    n_not = by_classifier.count(Comparison.WORSE) + by_classifier.count(Comparison.EQUAL)
    is_mostly_better = by_classifier.count(Comparison.BETTER) >= len(by_classifier) - 1
    answer = Answer.YES if is_mostly_better else Answer.NO if n_not > 1 else Answer.INCONCLUSIVE
    return Claim(words, answer, _measured(ours, other, labels))


def never(words: str, comparison: Comparison, pairs: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Claim:
    """Return the claim that errors are never significantly `BETTER`, or `WORSE`, than others.

    Parameters
    ----------
    words
        The claim.
    comparison
        `BETTER` or `WORSE`.
    pairs
        By name, errors and others of the same trials, of shape (t, k).
    """
    by_name = {name: comparisons(*pair) for name, pair in pairs.items()}
    answer = Answer.of(not any(comparison in one for one in by_name.values()))
    if min(len(ours) for ours, _ in pairs.values()) < 2:
        answer = Answer.INCONCLUSIVE
    return Claim(words, answer, ". ".join(f"{name}: {_counts(one)}" for name, one in by_name.items()))


def _counts(by_classifier: Sequence[Comparison]) -> str:
    return ", ".join(f"{one} {by_classifier.count(one)}" for one in Comparison if one in by_classifier)


def _measured(ours: np.ndarray, other: np.ndarray, labels: Sequence[str]) -> str:
    differences, by_classifier = ours - other, comparisons(ours, other)
    bars = [with_interval(one) for one in differences.T]
    if len(labels) == 1:
        return f"{by_classifier[0]}: difference {bars[0]}"
    by_label = ", ".join(f"{label} {bar}" for label, bar in zip(labels, bars, strict=True))
    return f"{_counts(by_classifier)}. Difference: {by_label}"


def as_published(words: str, ours: np.ndarray, paper: Sequence[float], spread: Sequence[float]) -> Claim:
    """Return the claim that errors are those of the paper, within the 95 % interval of Welch: trials are not paired.

    Parameters
    ----------
    words
        The claim.
    ours
        Errors, of shape (t, k).
    paper, spread
        k means of the paper and their standard deviations over 30 trials.
    """
    if len(ours) < 2:
        return Claim(words, Answer.INCONCLUSIVE, "one trial")
    errors = standard_error(ours), np.asarray(spread) / np.sqrt(_PAPER_TRIALS)
    limits = welch_quantile(*errors, len(ours), _PAPER_TRIALS)
    distance = (ours.mean(axis=0) - np.asarray(paper)) / np.hypot(*errors)
    measured = f"differences of {', '.join(f'{one:+.1f}' for one in distance)} standard errors"
    measured += f", limits {', '.join(f'{one:.2f}' for one in limits)}"
    return Claim(words, Answer.of((np.abs(distance) <= limits).all()), measured)


def draw_errors(axes: Any, errors_of: Mapping[str, np.ndarray], paper: Mapping[str, Sequence[float]]) -> None:
    """Draw errors against C, (t, 4) for each name, with standard errors, and those of the paper as hollow markers.

    Parameters
    ----------
    axes
        Axes of matplotlib.
    errors_of
        Errors without weights, as "none", and by space.
    paper
        Means of the paper, by the same names.
    """
    for k, (name, marker) in enumerate(MARKERS.items()):
        at = np.array(PENALTIES) * 1.33 ** (k - 1)  # side by side, so that no marker hides another
        shape: Any = {"color": OF_SPACE[name], "ms": 4.5, "lw": 1.2}
        label = "no weights" if name == "none" else f"weights from {name}"
        if name in errors_of:
            values = errors_of[name]
            bars = standard_error(values) if len(values) > 1 else None
            axes.errorbar(at, values.mean(axis=0), yerr=bars, fmt=f"{marker}-", capsize=2, label=label, **shape)
        if name in paper:
            axes.plot(at, paper[name], f"{marker}:", mfc="white", label=f"{label}, paper", **shape)
    axes.set_xscale("log")
    axes.set_xticks(PENALTIES, [f"{C:g}" for C in PENALTIES])
    axes.minorticks_off()
