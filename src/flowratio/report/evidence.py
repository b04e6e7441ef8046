"""What a fit shows for itself: numbers from held-out rows, as one JSON file beside the model.

A report is drawn from it alone: neither the rows nor the model are needed again.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from typing_extensions import NotRequired

from flowratio import __version__
from flowratio._support.atomic import replacing
from flowratio.tables.cells import cells_of
from flowratio.tables.formats import CellFormat, Kind
from flowratio.weights import largest_k_hat

if TYPE_CHECKING:
    import polars as pl

    from flowratio.diagnostics.diagnosis import Diagnosis
    from flowratio.ratios.table_ratio import TableRatio
    from flowratio.tables.columns import Column
    from flowratio.tables.encoder import TableEncoder

FILE = "evidence.json"
_FORMAT, _VERSION = "flowratio evidence", 1
_LOG_RATIOS = 5_000  # of each sample that are kept
_ROWS, _COLUMNS = 1_000, 30  # of the rows that are kept with their encoded columns
_BINS = 24
_LEVELS = 20  # of a category that are told apart
_FARTHEST = 1e300  # differences of values up to here are floats
_OUTER = 0.005  # share of the rows on either side that the outermost bars of a histogram take in


class Made(TypedDict):
    """How a model came about, as the caller knows it.

    Parameters
    ----------
    command
        What was typed.
    date
        When, in words or ISO form.
    seed
        By which the same command gives the same model.
    seconds
        The fit took.
    file_p, file_q
        Names of the two files.
    n_p, n_q
        Rows of each that the model was fitted to.
    proportion
        Share of p in the rows that the flow was trained on.
    held_out_p, held_out_q
        Rows of each that were held out of the fit; `gather` counts them.
    versions
        Of flowratio, Python and the libraries, by name; `gather` looks them up.
    """

    command: str
    date: str
    seed: int
    seconds: float
    file_p: str
    file_q: str
    n_p: int
    n_q: int
    proportion: float
    held_out_p: NotRequired[int]
    held_out_q: NotRequired[int]
    versions: NotRequired[dict[str, str]]


def gather(ratio: TableRatio, P: Any, Q: Any, *, featurizer: Any = None, made: Made) -> dict[str, Any]:
    """Look at a fitted ratio r = p/q (p is y = 1) on held-out rows, and return all that a report needs.

    Parameters
    ----------
    ratio
        A fitted `TableRatio`.
    P, Q
        Rows of p and of q that the ratio was *not* fitted to, as frames.
    featurizer
        A fitted map of encoded rows with `transform`, such as a `FlowFeaturizer`; None for no latent picture.
    made
        How the model came about.

    Returns
    -------
    dict
        Plain numbers, texts, lists and dictionaries, with the keys `made`, `columns` (what each source column looks
        like in both samples, and how much it moves log r), `diagnosis` (`Diagnosis.to_dict()`), `k_hat` (in words),
        `rows` (log r, and encoded columns of some rows), `latent`, `training` and `candidates` (None where there is
        nothing to tell).
    """
    from flowratio.diagnostics.diagnosis import diagnose

    encoder = ratio.encoder_
    X_p, X_q = encoder.transform(P), encoder.transform(Q)
    found = diagnose(ratio, P, Q, random_state=0)
    rng = np.random.default_rng(0)
    some_p, some_q = (rng.permutation(len(X))[:_LOG_RATIOS] for X in (X_p, X_q))
    few_p, few_q = some_p[:_ROWS], some_q[:_ROWS]
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "made": {**made, "held_out_p": len(X_p), "held_out_q": len(X_q), "versions": _versions()},
        "columns": _columns(encoder, P, Q, found),
        "diagnosis": found.to_dict(),
        "k_hat": _k_hats(found),
        "rows": {
            "log_p": _rounded(found.log_p[some_p]),
            "log_q": _rounded(found.log_q[some_q]),
            **_encoded(X_p, X_q, few_p, few_q, found),
        },
        "latent": None if featurizer is None else _latent(featurizer, X_p[few_p], X_q[few_q]),
        "training": _training(featurizer),
        "candidates": _candidates(ratio.ratio_),
    }


def write_evidence(evidence: dict[str, Any], folder: str | os.PathLike[str]) -> Path:
    """Write evidence into the folder of a model, whole or not at all, and return the path of the file.

    Parameters
    ----------
    evidence
        What `gather` returned.
    folder
        The folder, which must be there.
    """
    path = Path(folder) / FILE
    with replacing(path) as temporary:
        temporary.write_text(json.dumps({**evidence, "sha256": _digest(evidence)}, allow_nan=False), encoding="utf-8")
    return path


def read_evidence(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the evidence in the folder of a model.

    Parameters
    ----------
    folder
        The folder that `flowratio fit` wrote.
    """
    path = Path(folder) / FILE
    if not path.is_file():
        there = f"{folder} has no file {FILE}" if Path(folder).is_dir() else f"There is no folder {folder}"
        raise FileNotFoundError(f"{there}: a report needs a model that `flowratio fit` wrote. Check the path.")
    again = "Copy the folder again as a whole, or fit again"
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is cut short or no JSON ({error}). {again}.") from error
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ValueError(f"{path} is JSON, but no evidence of flowratio. {again}.")
    if isinstance(document.get("version"), int) and document["version"] > _VERSION:
        raise ValueError(
            f"{path} has format version {document['version']}, and this flowratio reads versions up to {_VERSION}. "
            "Upgrade flowratio to make a report of it."
        )
    if document.pop("sha256", None) != _digest(document):
        raise ValueError(f"{path} was changed after it was written: its content and its digest differ. {again}.")
    return document


def _digest(evidence: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(evidence, sort_keys=True).encode()).hexdigest()


def _versions() -> dict[str, str]:
    return {
        "flowratio": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "scikit-learn", "torch", "polars")},
    }


def _k_hats(found: Diagnosis) -> dict[str, Any]:
    """Write both k̂ in words, as JSON has no infinity, which some of them are; and up to where that of q is trusted."""
    from flowratio.diagnostics.summary import k_hat_text

    overlap = found.overlap
    limit = _finite(largest_k_hat(overlap.n_q))
    return {"q": k_hat_text(overlap.k_hat_q), "p": k_hat_text(overlap.k_hat_p), "limit": limit}


def _columns(encoder: TableEncoder, P: Any, Q: Any, found: Diagnosis) -> list[dict[str, Any]]:
    """Describe the source columns, the one that moves log r most first; constants come last."""
    P, Q, told = encoder.parse(P), encoder.parse(Q), found.importance
    moves = dict(
        zip(told.columns.tolist(), zip(told.effect, told.standard_error, told.share, strict=True), strict=True)
    )
    described = []
    for j in [*moves, *(j for j in range(len(encoder.columns_)) if j not in moves)]:
        column, own = encoder.columns_[j], encoder.groups_ == j
        effect, error, share = moves.get(j, (0.0, 0.0, 0.0))
        before, after = _largest(found.balance.before[own]), _largest(found.balance.after[own])
        driver = {"effect": effect, "error": error, "share": share, "before": before, "after": after}
        looks = _described(column, cells_of(P[column.name]), cells_of(Q[column.name]))
        described.append({**looks, "driver": {name: _finite(value) for name, value in driver.items()}})
    return described


def _largest(differences: np.ndarray) -> float:
    return float(differences[np.argmax(np.abs(differences))]) if len(differences) else 0.0


def _described(column: Column, p: pl.Series, q: pl.Series) -> dict[str, Any]:
    """Describe a column in both samples: its gaps, and its numbers (dates as days since 1970) or its levels."""
    told: dict[str, Any] = {"name": column.name, "kind": column.kind}
    told["gaps"] = {"p": _finite(p.null_count() / len(p)), "q": _finite(q.null_count() / len(q))}
    p, q = p.drop_nulls(), q.drop_nulls()
    if column.kind in ("number", "integer", "date"):
        values_p, values_q = (column.form.read(cells).to_numpy() for cells in (p, q))
        told["numbers"] = {"p": _moments(values_p), "q": _moments(values_q)}
        told["histogram"] = _histogram(values_p, values_q)
    else:
        told["levels"] = _levels(*(_words(column, cells) for cells in (p, q)))
    return told


def _words(column: Column, cells: pl.Series) -> list[str]:
    if column.kind == "boolean":
        cells = CellFormat(Kind.BOOLEAN).read(cells) > 0.5
    if column.kind == "identifier":
        return ["a value of its own"] * len(cells)
    return CellFormat(Kind.CATEGORY).read(cells).to_list()


def _moments(values: np.ndarray) -> dict[str, Any] | None:
    """Return mean, standard deviation and the five quartiles; None of no values."""
    if not len(values):
        return None
    unit = 2.0 ** max(0, math.frexp(np.abs(values).max())[1] - 500)  # sums of squares of larger values are no floats
    values = values / unit
    quartiles = np.quantile(values, [0, 0.25, 0.5, 0.75, 1])
    # 12 digits: a second before midnight of a date, in days since 1970, is not the next day
    exact = [_finite(value * unit, 12) for value in (values.mean(), *quartiles)]
    return {"mean": exact[0], "sd": _finite(values.std() * unit), "quartiles": exact[1:]}


def _histogram(p: np.ndarray, q: np.ndarray) -> dict[str, list[Any]] | None:
    """Return shares of the rows in bars with common edges; the outermost ones take in what is beyond."""
    pooled = np.clip(np.concatenate([p, q]), -_FARTHEST, _FARTHEST)
    if not len(pooled):
        return None
    low, high = np.quantile(pooled, [_OUTER, 1 - _OUTER])
    low, high = (low, high) if high > low else (float(pooled.min()), float(pooled.max()))
    if high == low:
        low, high = low - max(1.0, abs(low)) / 2, high + max(1.0, abs(low)) / 2
    if not np.any(pooled % 1) and max(-low, high) < 2**53:  # bars of whole numbers have whole widths
        width = math.ceil((high - low + 1) / _BINS)
        edges = math.floor(low) - 0.5 + width * np.arange(math.ceil((high - math.floor(low) + 1) / width) + 1)
    else:
        edges = np.linspace(low, high, _BINS + 1)
    counts = [np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0] / max(len(values), 1) for values in (p, q)]
    return {"edges": edges.tolist(), "p": _rounded(counts[0]), "q": _rounded(counts[1])}


def _levels(p: list[str], q: list[str]) -> list[dict[str, Any]]:
    """Return the levels with their shares, the most frequent first; the rare ones of many as one."""
    shares: dict[str, list[float]] = {}
    for k, words in enumerate((p, q)):
        for level in words:
            shares.setdefault(level, [0.0, 0.0])[k] += 1 / len(words)
    ordered = sorted(shares.items(), key=lambda one: (-sum(one[1]), one[0]))
    told = [{"level": level, "p": _finite(of_p), "q": _finite(of_q)} for level, (of_p, of_q) in ordered[:_LEVELS]]
    if len(ordered) > _LEVELS:
        rest = np.sum([both for _, both in ordered[_LEVELS:]], axis=0)
        told.append({"level": f"{len(ordered) - _LEVELS} others", "p": _finite(rest[0]), "q": _finite(rest[1])})
    return told


def _encoded(
    X_p: np.ndarray, X_q: np.ndarray, few_p: np.ndarray, few_q: np.ndarray, found: Diagnosis
) -> dict[str, Any]:
    """Return encoded columns of a few rows, those that differ most first, each less its smallest value.

    A standardized mean difference is that of the kept values by `scale`, as in `Balance`.
    """
    size = np.maximum(np.abs(found.balance.before), np.abs(found.balance.after))
    order = np.argsort(-size, kind="stable")[:_COLUMNS]
    A_p, A_q = X_p[:, order], X_q[:, order]
    origin = np.minimum(A_p.min(axis=0), A_q.min(axis=0))
    with np.errstate(over="ignore", invalid="ignore"):  # what is no float then is left out
        scale = np.hypot(A_p.std(axis=0), A_q.std(axis=0)) / math.sqrt(2)
        few_p, few_q = A_p[few_p] - origin, A_q[few_q] - origin
    return {
        "columns": order.tolist(),
        "scale": _rounded(np.where((scale > 0) & np.isfinite(scale), scale, 1.0)),
        "p": [_rounded(column) for column in few_p.T],
        "q": [_rounded(column) for column in few_q.T],
    }


def _latent(featurizer: Any, X_p: np.ndarray, X_q: np.ndarray) -> dict[str, Any]:
    """Return two latent columns, or the two main directions of more; of one, that alone."""
    Z = np.asarray(featurizer.transform(np.concatenate([X_p, X_q])), np.float64)
    names = [f"latent column {j + 1}" for j in range(min(Z.shape[1], 2))]
    if Z.shape[1] > 2:
        D = Z - Z.mean(axis=0)
        variance, directions = np.linalg.eigh(D.T @ D)
        told = variance[-2:].sum() / max(variance.sum(), np.finfo(np.float64).tiny)
        Z, names = D @ directions[:, :-3:-1], ["main direction 1", f"main direction 2 (both: {told:.0%} of the spread)"]
    n_p = len(X_p)
    return {
        "names": names,
        "p": [_rounded(column) for column in Z[:n_p].T],
        "q": [_rounded(column) for column in Z[n_p:].T],
    }


def _training(featurizer: Any) -> dict[str, Any] | None:
    history = getattr(featurizer, "history_", None)
    if history is None or not history.epoch:
        return None
    return {
        "epoch": list(history.epoch),
        "train_loss": _rounded(history.train_loss, 6),
        "held_out_loss": _rounded(history.held_out_loss, 6),
        "best_epoch": history.best_epoch,
        "stopped": history.stop_reason,
    }


def _candidates(ratio: Any) -> dict[str, Any] | None:
    """Return what became of the candidates of an `AutoRatio`."""
    results = getattr(ratio, "results_", None)
    if results is None:
        return None
    return {
        "verdict": results.verdict,
        "table": [
            {
                "name": one.name,
                "score": _finite(one.score),
                "error": _finite(one.standard_error),
                "seconds": _finite(one.seconds),
                "weight": _finite(one.weight),
                "note": one.note,
            }
            for one in results.candidates
        ],
    }


def _finite(value: float, digits: int = 4) -> float | None:
    """Round to significant digits; None for what is no finite number.

    Examples
    --------
    >>> _finite(1234.5678), _finite(math.nan)
    (1235.0, None)
    """
    rounded = float(f"{value:.{digits}g}")
    return rounded if math.isfinite(rounded) else float(value) if math.isfinite(value) else None


def _rounded(values: Iterable[float], digits: int = 4) -> list[float | None]:
    """Round many; whole numbers lose their point, which takes less room."""
    rounded = [_finite(value, digits) for value in values]
    return [int(value) if value is not None and value == int(value) else value for value in rounded]
