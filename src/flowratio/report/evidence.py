"""The numbers of a report: computed from held-out rows and kept as one JSON file next to the model.

A report needs this file only, neither the rows nor the model.
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
from flowratio._support.types import Matrix, Vector
from flowratio.ratios.base import Design, RatioEstimator
from flowratio.tables.cells import cells_of, pooled
from flowratio.tables.encoder import TableEncoder
from flowratio.weights import largest_k_hat

if TYPE_CHECKING:
    import polars as pl

    from flowratio.diagnostics.diagnosis import Diagnosis
    from flowratio.tables.columns import Column

FILE = "evidence.json"
_FORMAT, _VERSION = "flowratio evidence", 1
_LOG_RATIOS = 5_000  # log-ratios of each sample
_ROWS, _COLUMNS = 1_000, 30  # rows of each sample with their encoded columns
_BINS = 24
_LEVELS = 20  # categories of a column, the others are counted together
_FARTHEST = 1e300  # differences of values up to here are floats
_OUTER = 0.005  # share of the rows on either side that the outermost bars of a histogram include


class Origin(TypedDict):
    """How a model was made, from the caller of `gather`.

    Parameters
    ----------
    command, date, seed, seconds
        The command, its time in ISO form, its seed, and the duration of the fit.
    file_p, file_q, n_p, n_q
        Names of the two files, and the number of rows of each that the model was fitted to.
    proportion
        Share of p in the rows that the flow was trained on.
    held_out_p, held_out_q, versions
        Numbers of held-out rows, and the versions of flowratio, Python and the libraries. `gather` adds them.
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


def gather(
    ratio: RatioEstimator, P: pl.DataFrame, Q: pl.DataFrame, *, featurizer: Any = None, origin: Origin
) -> dict[str, Any]:
    """Check a fitted ratio r = p/q (p is y = 1) on held-out rows, and return everything that a report needs.

    Parameters
    ----------
    ratio
        A fitted ratio.
    P, Q
        Rows of p and of q that the ratio was *not* fitted to.
    featurizer
        A fitted `FlowFeaturizer` of encoded rows. None for no latent picture.
    origin
        How the model was made.

    Returns
    -------
    dict
        Plain numbers, texts, lists and dictionaries, with the keys `origin`, `columns` (each source column in both
        samples, and how much it changes log r), `diagnosis` (`Diagnosis.to_dict()`), `k_hat` (as text), `rows` (log r,
        and encoded columns of some rows), `latent`, `training` and `candidates` (each None if there is none).
    """
    from flowratio.diagnostics.diagnosis import diagnose

    design = ratio.design(P)
    X_p, X_q = design.matrix, ratio.design(Q).matrix
    diagnosis = diagnose(ratio, P, Q, random_state=0)
    rng = np.random.default_rng(0)
    some_p, some_q = (rng.permutation(len(X))[:_LOG_RATIOS] for X in (X_p, X_q))
    few_p, few_q = some_p[:_ROWS], some_q[:_ROWS]
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "origin": {**origin, "held_out_p": len(X_p), "held_out_q": len(X_q), "versions": _versions()},
        "columns": _columns(ratio.encoder_, design, P, Q, diagnosis),
        "diagnosis": diagnosis.to_dict(),
        "k_hat": _k_hats(diagnosis),
        "rows": {
            "log_p": _rounded(diagnosis.log_p[some_p]),
            "log_q": _rounded(diagnosis.log_q[some_q]),
            **_encoded(X_p, X_q, few_p, few_q, diagnosis),
        },
        "latent": None if featurizer is None else _latent(featurizer, X_p[few_p], X_q[few_q]),
        "training": _training(featurizer),
        "candidates": _candidates(getattr(ratio, "results_", None)),
    }


def write_evidence(evidence: dict[str, Any], folder: str | os.PathLike[str]) -> Path:
    """Write the result of `gather` into an existing model folder, whole or not at all, and return the path."""
    path = Path(folder) / FILE
    with replacing(path) as temporary:
        temporary.write_text(json.dumps({**evidence, "sha256": _digest(evidence)}, allow_nan=False), encoding="utf-8")
    return path


def read_evidence(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the evidence from a folder that `flowratio fit` wrote."""
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
    if isinstance(document.get("version"), int) and document["version"] > _VERSION:
        raise ValueError(
            f"{path} has format version {document['version']}. This flowratio reads versions up to {_VERSION}. Upgrade "
            "flowratio."
        )
    if document.pop("sha256", None) != _digest(document):
        raise ValueError(f"{path} was changed after it was written: its digest does not match. {remedy}")
    return document


def _digest(evidence: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(evidence, sort_keys=True).encode()).hexdigest()


def _versions() -> dict[str, str]:
    return {
        "flowratio": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "scikit-learn", "torch", "polars")},
    }


def _k_hats(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return both k̂ as text, because JSON has no infinity, and the limit of that of q."""
    from flowratio.diagnostics.summary import k_hat_text

    overlap = diagnosis.overlap
    limit = _finite(largest_k_hat(overlap.n_q))
    return {"q": k_hat_text(overlap.k_hat_q), "p": k_hat_text(overlap.k_hat_p), "limit": limit}


def _columns(
    encoder: TableEncoder | None, design: Design, P: pl.DataFrame, Q: pl.DataFrame, diagnosis: Diagnosis
) -> list[dict[str, Any]]:
    """Describe the source columns, that with the largest effect on log r first, constants last."""
    encoder = encoder or TableEncoder().fit(pooled(P.select(design.columns), Q.select(design.columns)))
    P, Q, importance, balance = encoder.parse(P), encoder.parse(Q), diagnosis.importance, diagnosis.balance
    numbers = zip(importance.effect, importance.standard_error, importance.share, strict=True)
    effects = dict(zip(importance.columns.tolist(), numbers, strict=True))
    column_of = {column.name: column for column in encoder.columns_}
    described = []
    for j in [*effects, *(j for j in range(len(design.columns)) if j not in effects)]:
        name, own = design.columns[j], design.groups == j
        effect, error, share = effects.get(j, (0.0, 0.0, 0.0))
        driver = {"effect": effect, "error": error, "share": share}
        driver |= {"before": _largest(balance.before[own]), "after": _largest(balance.after[own])}
        described.append(_described(column_of[name], cells_of(P[name]), cells_of(Q[name])))
        described[-1]["driver"] = {key: _finite(value) for key, value in driver.items()}
    return described


def _largest(differences: Vector) -> float:
    return float(differences[np.argmax(np.abs(differences))]) if len(differences) else 0.0


def _described(column: Column, p: pl.Series, q: pl.Series) -> dict[str, Any]:
    """Describe parsed cells of both samples: missing values, and numbers (dates as days since 1970) or categories."""
    gaps = {"p": _finite(p.null_count() / len(p)), "q": _finite(q.null_count() / len(q))}
    description: dict[str, Any] = {"name": column.name, "kind": column.kind, "gaps": gaps}
    p, q = p.drop_nulls(), q.drop_nulls()
    if column.kind in ("number", "integer", "date"):
        values_p, values_q = _numbers(p), _numbers(q)
        description["numbers"] = {"p": _moments(values_p), "q": _moments(values_q)}
        description["histogram"] = _histogram(values_p, values_q)
    else:
        description["levels"] = _levels(_categories(column, p), _categories(column, q))
    return description


def _numbers(cells: pl.Series) -> Vector:
    """Return cells as floats, of shape (n,): dates as days since 1970."""
    import polars as pl

    if cells.dtype.is_temporal():
        return cells.dt.epoch("us").cast(pl.Float64).to_numpy() / 86_400e6
    return cells.cast(pl.Float64).to_numpy()


def _categories(column: Column, cells: pl.Series) -> list[str]:
    import polars as pl

    if column.kind == "identifier":
        return ["a value of its own"] * len(cells)
    if column.kind == "boolean":
        cells = cells.cast(pl.Float64) > 0.5
    words = cells.cast(pl.String)
    return (words.str.strip_suffix(".0") if cells.dtype.is_float() else words).to_list()


def _moments(values: Vector) -> dict[str, Any] | None:
    """Return mean, standard deviation and the five quartiles, None if there are no values."""
    if not len(values):
        return None
    unit = 2.0 ** max(0, math.frexp(np.abs(values).max())[1] - 500)  # squares of larger values overflow
    values = values / unit
    quartiles = np.quantile(values, [0, 0.25, 0.5, 0.75, 1])
    # 12 digits: a second before midnight of a date, in days since 1970, is not the next day
    exact = [_finite(value * unit, 12) for value in (values.mean(), *quartiles)]
    return {"mean": exact[0], "sd": _finite(values.std() * unit), "quartiles": exact[1:]}


def _histogram(p: Vector, q: Vector) -> dict[str, list[Any]] | None:
    """Return the share of rows in each bar, with common edges. The outermost bars include all values beyond."""
    pooled = np.clip(np.concatenate([p, q]), -_FARTHEST, _FARTHEST)
    if not len(pooled):
        return None
    low, high = np.quantile(pooled, [_OUTER, 1 - _OUTER])
    low, high = (low, high) if high > low else (float(pooled.min()), float(pooled.max()))
    if high == low:
        low, high = low - max(1.0, abs(low)) / 2, high + max(1.0, abs(low)) / 2
    if not np.any(pooled % 1) and max(-low, high) < 2**53:  # bars of integers have integer widths
        width = math.ceil((high - low + 1) / _BINS)
        edges = math.floor(low) - 0.5 + width * np.arange(math.ceil((high - math.floor(low) + 1) / width) + 1)
    else:
        edges = np.linspace(low, high, _BINS + 1)
    counts = [np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0] / max(len(values), 1) for values in (p, q)]
    return {"edges": edges.tolist(), "p": _rounded(counts[0]), "q": _rounded(counts[1])}


def _levels(p: list[str], q: list[str]) -> list[dict[str, Any]]:
    """Return the categories with their shares, the most frequent first. Rare ones are counted together."""
    shares: dict[str, list[float]] = {}
    for k, words in enumerate((p, q)):
        for level in words:
            shares.setdefault(level, [0.0, 0.0])[k] += 1 / len(words)
    ordered = sorted(shares.items(), key=lambda one: (-sum(one[1]), one[0]))
    rows = [{"level": level, "p": _finite(of_p), "q": _finite(of_q)} for level, (of_p, of_q) in ordered[:_LEVELS]]
    if len(ordered) > _LEVELS:
        rest = np.sum([both for _, both in ordered[_LEVELS:]], axis=0)
        rows.append({"level": f"{len(ordered) - _LEVELS} others", "p": _finite(rest[0]), "q": _finite(rest[1])})
    return rows


def _encoded(X_p: Matrix, X_q: Matrix, few_p: Vector, few_q: Vector, diagnosis: Diagnosis) -> dict[str, Any]:
    """Return encoded columns of a few rows, those that differ most first, each minus its smallest value.

    Divided by `scale`, a difference of means is a standardized mean difference, as in `Balance`.
    """
    size = np.maximum(np.abs(diagnosis.balance.before), np.abs(diagnosis.balance.after))
    order = np.argsort(-size, kind="stable")[:_COLUMNS]
    A_p, A_q = X_p[:, order], X_q[:, order]
    origin = np.minimum(A_p.min(axis=0), A_q.min(axis=0))
    with np.errstate(over="ignore", invalid="ignore"):  # overflow becomes None
        scale = np.hypot(A_p.std(axis=0), A_q.std(axis=0)) / math.sqrt(2)
        few_p, few_q = A_p[few_p] - origin, A_q[few_q] - origin
    return {
        "columns": order.tolist(),
        "scale": _rounded(np.where((scale > 0) & np.isfinite(scale), scale, 1.0)),
        "p": [_rounded(column) for column in few_p.T],
        "q": [_rounded(column) for column in few_q.T],
    }


def _latent(featurizer: Any, X_p: Matrix, X_q: Matrix) -> dict[str, Any]:
    """Return the latent columns, or the two main directions if there are more than two."""
    Z = np.asarray(featurizer.encode(np.concatenate([X_p, X_q])), np.float64)
    names = [f"latent column {j + 1}" for j in range(min(Z.shape[1], 2))]
    if Z.shape[1] > 2:
        D = Z - Z.mean(axis=0)
        variance, directions = np.linalg.eigh(D.T @ D)
        share = variance[-2:].sum() / max(variance.sum(), np.finfo(np.float64).tiny)
        Z, names = (
            D @ directions[:, :-3:-1],
            ["main direction 1", f"main direction 2 (both: {share:.0%} of the spread)"],
        )
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


def _candidates(results: Any) -> dict[str, Any] | None:
    """Return the table of the candidates of an `AutoRatio`."""
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
    """Round to significant digits, None for a number that is not finite.

    Examples
    --------
    >>> _finite(1234.5678), _finite(math.nan)
    (1235.0, None)
    """
    rounded = float(f"{value:.{digits}g}")
    return rounded if math.isfinite(rounded) else float(value) if math.isfinite(value) else None


def _rounded(values: Iterable[float], digits: int = 4) -> list[float | None]:
    """Round many numbers. Integers lose their point, which takes less space."""
    rounded = [_finite(value, digits) for value in values]
    return [int(value) if value is not None and value == int(value) else value for value in rounded]
