"""The numbers of a report, from held-out log-ratios: one JSON file next to the model. A report needs only this file."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import polars as pl
from typing_extensions import NotRequired

from flowratio import __version__
from flowratio._support.atomic import replacing
from flowratio._support.numbers import finite, rounded
from flowratio._support.types import Matrix, Vector
from flowratio._support.wording import in_percent
from flowratio.applications.column_descriptions import described
from flowratio.diagnostics.balance import Balance
from flowratio.diagnostics.compared_columns import compared_columns
from flowratio.diagnostics.diagnosis import Diagnosis, diagnosis_of
from flowratio.diagnostics.evaluation import MAX_FITTED, Evaluation, held_out
from flowratio.diagnostics.summary import k_hat_text
from flowratio.ratios.base import Design, RatioEstimator
from flowratio.report.drift import drift_test, is_significant
from flowratio.report.folder import FILE
from flowratio.tables.cells import cells_of, pooled
from flowratio.tables.encoder import TableEncoder
from flowratio.tables.formats import Kind
from flowratio.weights import largest_k_hat

_FORMAT, _VERSION = "flowratio evidence", 7
_LOG_RATIOS = 5_000  # log-ratios of each sample
_ROWS, _COLUMNS = 1_000, 30  # rows of each sample with their encoded columns
_BALANCE = 300  # columns and categories of the balance table, those that differ most


class Origin(TypedDict):
    """How a model was made, from the caller of `gather`, which adds those of the checks."""

    command: str
    date: str  # ISO form
    seed: int
    seconds: float  # duration of the fit
    file_p: str
    file_q: str
    n_p: int  # rows of each file that the model was fitted to
    n_q: int
    proportion: float  # share of p in the rows that the flow was trained on
    checked_p: NotRequired[int]  # rows of each file that the model was checked on
    checked_q: NotRequired[int]
    max_fitted: NotRequired[int]  # rows of each file that the model of a fold was fitted to, at most
    versions: NotRequired[dict[str, str]]  # of flowratio, Python and the libraries
    model: NotRequired[str]  # folder of the model, from `read_evidence`


def gather(
    ratio: RatioEstimator,
    P: pl.DataFrame,
    Q: pl.DataFrame,
    *,
    evaluation: Evaluation | None = None,
    featurizer: Any = None,
    origin: Origin,
) -> dict[str, Any]:
    """Check a fitted ratio r = p/q on rows P and Q, and return everything that a report needs.

    `evaluation` has cross-fitted log-ratios of these rows. Without it they must be held-out rows. The latent picture
    needs a ratio with a flow, and this `featurizer`. `test`, `latent`, `training` and `candidates` may be None. All
    values are plain numbers, texts, lists and dictionaries.
    """
    design = ratio.design(P)
    X_p, X_q = design.matrix, ratio.design(Q).matrix
    versions = {"flowratio": __version__, "python": platform.python_version()}
    versions |= {name: version(name) for name in ("numpy", "scipy", "scikit-learn", "torch", "polars")}
    encoder = ratio.encoder_ or TableEncoder().fit(pooled(P.select(design.columns), Q.select(design.columns)))
    evaluation = held_out(ratio, P, Q) if evaluation is None else evaluation
    P, Q = encoder.parse(P), encoder.parse(Q)
    test = _test(encoder, P, Q)
    diagnosis = diagnosis_of(evaluation, is_different=is_significant(test))
    overlap = diagnosis.overlap
    k_hats = {"q": k_hat_text(overlap.k_hat_q), "p": k_hat_text(overlap.k_hat_p)}  # JSON has no infinity
    if ratio.mixture_flow() is None:  # a flow that is only there to draw rows says nothing about the ratio
        featurizer = None
    rng = np.random.default_rng(0)
    some_p, some_q = (rng.permutation(len(X))[:_LOG_RATIOS] for X in (X_p, X_q))
    few_p, few_q = some_p[:_ROWS], some_q[:_ROWS]
    log_ratios = {"log_p": rounded(diagnosis.log_p[some_p]), "log_q": rounded(diagnosis.log_q[some_q])}
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "origin": {
            **origin,
            "checked_p": len(X_p),
            "checked_q": len(X_q),
            "max_fitted": MAX_FITTED,
            "versions": versions,
        },
        "test": test,  # whether the files differ
        "columns": _columns(encoder, design, P, Q, diagnosis),  # in both samples, and their effect on log r
        "diagnosis": _shortened(diagnosis),
        "k_hat": {**k_hats, "limit": finite(largest_k_hat(overlap.n_q))},
        "rows": {**log_ratios, **_compared(ratio.encoder_, design, X_q, few_p, few_q, diagnosis.balance)},
        "latent": None if featurizer is None else _latent(ratio, featurizer, X_p[few_p], X_q[few_q]),
        "training": _training(featurizer),
        "candidates": _candidates(getattr(ratio, "results_", None)),
    }


def write_evidence(evidence: dict[str, Any], folder: str | os.PathLike[str]) -> Path:
    """Write the result of `gather` into an existing model folder, whole or not at all, and return the path."""
    path = Path(folder) / FILE
    with replacing(path) as temporary:
        temporary.write_text(json.dumps({**evidence, "sha256": _digest(evidence)}, allow_nan=False), encoding="utf-8")
    return path


def _test(encoder: TableEncoder, P: pl.DataFrame, Q: pl.DataFrame) -> dict[str, Any] | None:
    """Test the columns that a ratio uses: identifiers are left out."""
    names = [column.name for column in encoder.columns_ if column.kind is not Kind.IDENTIFIER]
    return drift_test(P.select(names), Q.select(names)) if names else None


def verdict_in(folder: Path) -> str:
    """Return the verdict on the model of a folder. Empty if there is none that can be read."""
    try:
        return str(read_evidence(folder)["diagnosis"]["verdict"])
    except (OSError, ValueError, KeyError, TypeError):  # a ratio that Python saved has no evidence
        return ""


def read_evidence(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the evidence from a folder that `flowratio fit` wrote. Its origin has the name of the folder."""
    path = Path(folder) / FILE
    if not path.is_file():
        fault = f"{folder} has no file {FILE}" if Path(folder).is_dir() else f"There is no folder {folder}"
        raise FileNotFoundError(f"{fault}. A report needs a model that `flowratio fit` wrote. Check the path.")
    remedy = "Copy the whole folder again, or fit again."
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is cut short or not JSON ({error}). {remedy}") from error
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ValueError(f"{path} is JSON, but not evidence of flowratio. {remedy}")
    edition = document.get("version")
    if isinstance(edition, int) and edition != _VERSION:
        advice = "Upgrade flowratio." if edition > _VERSION else "Fit the model again."
        raise ValueError(f"{path} has format version {edition}. This flowratio reads version {_VERSION}. {advice}")
    if document.pop("sha256", None) != _digest(document):
        raise ValueError(f"{path} was changed after it was written: its digest does not match. {remedy}")
    return {**document, "origin": {**document["origin"], "model": os.fspath(folder)}}


def _digest(evidence: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(evidence, sort_keys=True).encode()).hexdigest()


def _columns(
    encoder: TableEncoder, design: Design, P: pl.DataFrame, Q: pl.DataFrame, diagnosis: Diagnosis
) -> list[dict[str, Any]]:
    """Describe the columns of parsed tables, that with the largest effect on log r first, constants last."""
    importance, balance = diagnosis.importance, diagnosis.balance
    numbers = zip(importance.effect, importance.standard_error, importance.share, strict=True)
    effects = dict(zip(importance.columns.tolist(), numbers, strict=True))
    column_of = {column.name: column for column in encoder.columns_}
    sources = design.groups if balance.sources is None else balance.sources
    descriptions = []
    for j in dict.fromkeys([*effects, *range(len(design.columns))]):
        name, own = design.columns[j], np.flatnonzero(sources == j)
        numbers = map(finite, effects.get(j, (0.0, 0.0, 0.0)))
        driver = {**dict(zip(("effect", "error", "share"), numbers, strict=True)), **_driver(balance, own)}
        description = described(column_of[name], cells_of(P[name]), cells_of(Q[name]))
        descriptions.append({**description, "driver": driver})
    return descriptions


def _driver(balance: Balance, own: Vector) -> dict[str, Any]:
    """Return the difference of a source column: that of its category with the largest difference before weighting.

    If another category differs most after weighting, it is named too. `own` are positions in the balance table.
    """
    if not len(own):
        return {"before": 0.0, "after": 0.0, "of": None, "worst_after": None}
    first, last = (int(own[np.argmax(np.abs(of[own]))]) for of in (balance.before, balance.after))
    worst = {
        "name": balance.names[last],
        "before": finite(balance.before[last]),
        "after": finite(balance.after[last]),
    }
    return {
        "before": finite(balance.before[first]),
        "after": finite(balance.after[first]),
        "of": balance.names[first],
        "worst_after": worst if last != first else None,
    }


def _shortened(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return a diagnosis as a dictionary, with those columns and categories of the balance that differ most, first."""
    document, worst = diagnosis.to_dict(), diagnosis.balance.worst(_BALANCE)
    balance = {k: v and [v[j] for j in worst] for k, v in document["balance"].items()}
    sizes = [float(np.abs(v).max(initial=0.0)) for v in (diagnosis.balance.before, diagnosis.balance.after)]
    return {**document, "balance": {**balance, "n_columns": len(diagnosis.balance.names), "worst": sizes}}


def _compared(
    encoder: TableEncoder | None, design: Design, X_q: Matrix, few_p: Vector, few_q: Vector, balance: Balance
) -> dict[str, Any]:
    """Return the compared columns of a few rows, those that differ most first, each minus its smallest value.

    `design` has the rows of p, `X_q` those of q. Positions are those in the shortened balance table.
    """
    n_p, order = len(design.matrix), balance.worst(_COLUMNS)
    both = design._replace(matrix=np.concatenate([design.matrix, X_q]))
    columns = compared_columns(both, encoder)
    A = np.column_stack([np.zeros((len(both.matrix), 0)), *(columns.values(both.matrix, int(j)) for j in order)])
    A_p, A_q = A[:n_p], A[n_p:]
    origin = np.minimum(A_p.min(axis=0), A_q.min(axis=0))
    with np.errstate(over="ignore", invalid="ignore"):  # overflow becomes None
        # a difference of means divided by it is a standardized mean difference, as in `Balance`
        scale = np.hypot(A_p.std(axis=0), A_q.std(axis=0)) / math.sqrt(2)
        parts = {"p": _rounded_columns(A_p[few_p] - origin), "q": _rounded_columns(A_q[few_q] - origin)}
    scale = rounded(np.where((scale > 0) & np.isfinite(scale), scale, 1.0))
    return {"columns": list(range(len(order))), "scale": scale, **parts}


def _latent(ratio: RatioEstimator, featurizer: Any, X_p: Matrix, X_q: Matrix) -> dict[str, Any]:
    """Return the latent columns, or the two main directions if there are more than two."""
    Z = np.asarray(featurizer.encode(ratio.flow_rows(np.concatenate([X_p, X_q]), featurizer)), np.float64)
    names = [f"latent column {j + 1}" for j in range(min(Z.shape[1], 2))]
    if Z.shape[1] > 2:
        D = Z - Z.mean(axis=0)
        variance, directions = np.linalg.eigh(D.T @ D)
        share = variance[-2:].sum() / max(variance.sum(), np.finfo(np.float64).tiny)
        Z = D @ directions[:, :-3:-1]
        names = ["main direction 1", f"main direction 2 (both: {in_percent(share)} of the spread)"]
    return {"names": names, "p": _rounded_columns(Z[: len(X_p)]), "q": _rounded_columns(Z[len(X_p) :])}


def _training(featurizer: Any) -> dict[str, Any] | None:
    history = getattr(featurizer, "history_", None)
    if history is None or not history.epoch:
        return None
    losses = {name: rounded(getattr(history, name), 6) for name in ("train_loss", "held_out_loss")}
    return {"epoch": [*history.epoch], **losses, "best_epoch": history.best_epoch, "stopped": history.stop_reason}


def _candidates(results: Any) -> dict[str, Any] | None:
    """Return the table of the candidates of an `AutoRatio`."""
    if results is None:
        return None
    numbers = {"score": "score", "error": "standard_error", "seconds": "seconds", "weight": "weight"}
    texts = [{"name": one.name, "status": one.status.value, "note": one.note} for one in results.candidates]
    table = [
        {**text, **{key: finite(getattr(one, name)) for key, name in numbers.items()}}
        for text, one in zip(texts, results.candidates, strict=True)
    ]
    return {"verdict": results.on_flow, "untried": results.untried, "table": table}


def _rounded_columns(X: Matrix) -> list[list[float | None]]:
    return [rounded(column) for column in X.T]
