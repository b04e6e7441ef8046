"""Three parts of `ClassifierRatio` that scikit-learn offers too: speed, accuracy and memory of both, in one run.

- logistic: `NewtonLogisticRegression` and `LogisticRegression(solver="newton-cholesky")`.
- additive: `Hinges` and `SplineTransformer`, in front of the same logistic regression.
- gaussian: `GaussianDiscriminant`, and `LinearDiscriminantAnalysis` and `QuadraticDiscriminantAnalysis` with shrinkage.

Claim: no part of scikit-learn is both as fast and as accurate as ours. If one is, it replaces ours. Times of logistic
regression are the minimum of 3–5 rounds. The others are one fit for each of five seeds (minimum over seeds). All times
are processor seconds on one thread. Scores are those of `RatioEstimator.score` on 4000 held-out rows.
Results go to `results/replacements.json`.
Cost: about 5 minutes. Command: python benchmarks/replacements.py
"""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from _accuracy_problems import N_HELD_OUT, PROBLEMS, Problem
from _memory import added_mb
from _tables import print_table
from _timing import all_turns, one_thread, timed
from scipy.special import expit, log_expit
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler

from flowratio.ratios.classifier.gaussian import GaussianDiscriminant
from flowratio.ratios.classifier.presets import Hinges, NewtonLogisticRegression, TunedLogisticRegression

RESULTS = Path(__file__).parents[1] / "results" / "replacements.json"
SIZES = tuple((n, d) for n in (10_000, 100_000, 1_000_000) for d in (2, 10, 50))
PENALTY, N_SEEDS = 10.0, 5
ADDITIVE, GAUSSIAN = (12, 13, 14, 15, 19), (2, 6, 15, 16, 17)  # numbers of problems
N_ROWS = (60, 300)  # rows of each sample, for 10 to 40 columns
Factory = Callable[[], Any]


def main() -> None:
    one_thread()
    print(f"scikit-learn {sklearn.__version__}, numpy {np.__version__}, 1 thread, processor time")
    results = {"logistic": logistic(), "additive": additive(), "gaussian": gaussian()}
    head = {"command": "python benchmarks/replacements.py", "scikit-learn": sklearn.__version__}
    RESULTS.write_text(json.dumps(head | results, indent=1) + "\n")


# Logistic regression


def logistic() -> list[dict[str, Any]]:
    results = [_logistic_of(n, d) for n, d in SIZES]
    header = ("rows × columns", "solver", "seconds", "added MB", "error of coefficients")
    print_table(
        header,
        (
            (f"{r['n']:,} × {r['d']}", name, f"{s:.3f}", f"{r['added_mb'][name]:.0f}", f"{r['error'][name]:.1e}")
            for r in results
            for name, s in r["seconds"].items()
        ),
    )
    return results


def _logistic_of(n: int, d: int) -> dict[str, Any]:
    rng = np.random.default_rng([n, d])
    X = rng.normal(size=(n, d))
    y = (X @ rng.normal(size=d) / math.sqrt(d) + rng.logistic(size=n) > 0.5).astype(int)
    models: dict[str, Any] = {
        "ours": NewtonLogisticRegression(PENALTY),
        "newton-cholesky": LogisticRegression(C=PENALTY, solver="newton-cholesky"),
        "newton-cholesky, tol 1e-8": LogisticRegression(C=PENALTY, solver="newton-cholesky", tol=1e-8),
    }
    memory = {name: round(added_mb(lambda model=model: model.fit(X, y)), 1) for name, model in models.items()}
    turns = {name: (lambda model=model: model.fit(X, y)) for name, model in models.items()}
    rounds = all_turns(turns, 3 if n * d > 10**7 else 5, time.process_time)
    theta = _optimum(X, y)
    errors = {
        name: float(np.abs(np.append(model.coef_[0], model.intercept_) - theta).max()) for name, model in models.items()
    }
    seconds = {name: round(min(times), 4) for name, times in rounds.items()}
    return {"n": n, "d": d, "seconds": seconds, "added_mb": memory, "error": errors}


def _optimum(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return coefficients and intercept, (d + 1,), after 15 whole Newton steps: the loss here is far from separable."""
    A, penalty = np.column_stack([X, np.ones(len(X))]), np.append(np.full(X.shape[1], 1 / PENALTY), 0.0)
    theta = np.zeros(len(penalty))
    for _ in range(15):
        p = expit(A @ theta)
        gradient = A.T @ (p - y) + penalty * theta
        hessian = np.diag(penalty)
        for start in range(0, len(A), 1 << 14):
            part = slice(start, start + (1 << 14))
            hessian += A[part].T @ (A[part] * (p[part] * (1 - p[part]))[:, None])
        theta -= np.linalg.solve(hessian, gradient)
    return theta


# Held-out scores


def _compare(title: str, problems: Sequence[Problem], factories: dict[str, Factory], n: int | None) -> dict[str, Any]:
    """Fit every model to every problem, print scores, errors of log r and times, and return them."""
    results: dict[str, Any] = {}

    def lines() -> Iterator[Sequence[str]]:
        for name, factory in factories.items():
            of_model = {problem.name: _fits(problem, factory, n) for problem in problems}
            results[name] = of_model
            means = np.mean(list(of_model.values()), axis=0)
            cells = [f"{score:.4f} ({error:.2f})" for score, error, _ in of_model.values()]
            yield (name, *cells, f"{means[0]:.4f}", f"{1000 * means[2]:.1f} ms")

    header = [f"{title}: score (squared error of log r)", *(p.name for p in problems), "mean score", "fit"]
    print_table(header, lines())
    truth = {p.name: float(np.mean([_score(p.log_r(p.held_out(s))) for s in range(N_SEEDS)])) for p in problems}
    print(f"The true ratio scores {', '.join(f'{value:.4f} ({name})' for name, value in truth.items())}.")
    return {"truth": truth, "score, squared error, seconds": results}


def _fits(problem: Problem, factory: Factory, n: int | None) -> list[float]:
    """Return mean score, median squared error of log r, and the least seconds, over draws of a problem."""
    fits = []
    for seed in range(N_SEEDS):
        X_p, X_q = (sample[:n] for sample in problem.draw(seed))
        X, y = np.concatenate([X_p, X_q]), np.repeat([1, 0], [len(X_p), len(X_q)])
        mean = (X_p.mean(axis=0) + X_q.mean(axis=0)) / 2
        scale = np.sqrt(((X_p - mean) ** 2).mean(axis=0) / 2 + ((X_q - mean) ** 2).mean(axis=0) / 2)
        X, held_out = (X - mean) / scale, problem.held_out(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn on columns that others repeat
            model, seconds = timed(lambda X=X, y=y: factory().fit(X, y))
        log_r = model.decision_function((held_out - mean) / scale) - math.log(len(X_p) / len(X_q))
        fits.append([_score(log_r), float(np.mean((log_r - problem.log_r(held_out)) ** 2)), seconds])
    scores, errors, times = np.array(fits).T
    return [round(float(value), 5) for value in (scores.mean(), np.median(errors), times.min())]


def _score(log_r: np.ndarray) -> float:
    """Return the score of log r on held-out rows, those of p first."""
    sign = np.repeat([1, -1], N_HELD_OUT)
    return math.log(2) + float(log_expit(sign * log_r).mean())


def additive() -> dict[str, Any]:
    factories: dict[str, Factory] = {
        "ours": lambda: make_pipeline(Hinges(), StandardScaler(), TunedLogisticRegression())
    }
    for degree in (1, 2, 3):
        for n_knots in (5, 7):
            spline = SplineTransformer(
                n_knots, degree=degree, knots="quantile", extrapolation="linear", include_bias=False
            )
            factories[f"spline of degree {degree}, {n_knots} knots"] = lambda spline=spline: make_pipeline(
                clone(spline), StandardScaler(), TunedLogisticRegression()
            )
    return _compare("additive", [p for p in PROBLEMS if p.number in ADDITIVE], factories, None)


def gaussian() -> dict[str, Any]:
    problems = [p for p in PROBLEMS if p.number in GAUSSIAN]
    factories: dict[str, Factory] = {
        "ours, one covariance": lambda: GaussianDiscriminant(shared=True),
        "LDA, lsqr, auto": lambda: LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
        "LDA, eigen, auto": lambda: LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto"),
        "ours, two covariances": GaussianDiscriminant,
        "QDA, eigen, auto": lambda: QuadraticDiscriminantAnalysis(solver="eigen", shrinkage="auto"),
        "QDA, reg_param 0.1": lambda: QuadraticDiscriminantAnalysis(reg_param=0.1),
        "QDA, reg_param 0.5": lambda: QuadraticDiscriminantAnalysis(reg_param=0.5),
        "QDA, reg_param by 5 folds": _tuned_qda,
    }
    return {f"{n} rows": _compare(f"{n} rows of each sample", problems, factories, n) for n in N_ROWS}


def _tuned_qda() -> Any:
    grid = {"reg_param": [0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99]}
    return GridSearchCV(QuadraticDiscriminantAnalysis(), grid, scoring="neg_log_loss", cv=5)


if __name__ == "__main__":
    main()
