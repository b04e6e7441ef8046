"""Two tables to a model folder, and back: the ratio, a flow of both samples, and what held-out rows say of them."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from flowratio.applications.generation import Drawn, TargetedSampler
from flowratio.evidence import Made, gather, read_evidence, write_evidence
from flowratio.featurizer import FlowFeaturizer
from flowratio.persistence import load, save
from flowratio.ratios.auto import AutoRatio
from flowratio.ratios.featurized import FeaturizedRatio
from flowratio.tables import TableRatio

if TYPE_CHECKING:
    import polars as pl

_MOST_HELD_OUT = 2_000  # rows of a sample
_MOST_OF_FLOW = 10_000  # rows of a sample that the flow of a ratio in x is trained on
_FLOW = "flow"


@dataclass(frozen=True)
class Model:
    """What a model folder holds.

    Parameters
    ----------
    ratio
        Fitted to rows of the two tables.
    featurizer
        A flow of the encoded rows of both: that of the ratio, if it has one.
    evidence
        What rows that neither has seen say of them, as of `gather`.
    """

    ratio: TableRatio
    featurizer: FlowFeaturizer
    evidence: dict[str, Any]

    def save(self, folder: Path) -> None:
        """Write a folder, or replace one that holds a model: whole or not at all."""
        temporary = folder.with_name(f".{secrets.token_hex(4)}.{folder.name}")
        try:
            save(self.ratio, temporary)
            save(self.featurizer, temporary / _FLOW)
            write_evidence(self.evidence, temporary)
            _swap(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def sample(
        self, n: int, toward: Literal["p", "q"], *, seed: int = 0, verbose: bool = False
    ) -> tuple[pl.DataFrame, Drawn]:
        """Draw new rows of p or of q, and return them as a table, with what they rest on."""
        sampler = TargetedSampler(
            self.featurizer,
            self.ratio.ratio_,
            space="x",
            proportion=self.evidence["made"]["proportion"],
            random_state=seed,
            verbose=verbose,
        )
        drawn = sampler.draw(n, toward)
        return self.ratio.encoder_.inverse_transform(drawn.X), drawn

    @classmethod
    def load(cls, folder: Path) -> Model:
        """Read what `save` wrote."""
        return cls(load_ratio(folder), load(folder / _FLOW), read_evidence(folder))


def load_ratio(folder: Path) -> TableRatio:
    """Read the ratio of a model folder alone."""
    ratio = load(folder)
    if not isinstance(ratio, TableRatio):
        kind = type(ratio).__name__
        raise ValueError(f"{folder} holds a {kind}, not the ratio of two tables. Give a folder of `flowratio fit`.")
    return ratio


def check_model_folder(folder: Path) -> None:
    """Refuse a path where a model could not be written, before any time is spent."""
    if folder.exists() and not folder.is_dir():
        raise OSError(errno.ENOTDIR, f"{folder} is a file, and a model is a folder. Choose another path.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "model.json").is_file():
        raise OSError(errno.EEXIST, f"{folder} has files that are no model of flowratio. Choose another folder.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        probe = folder.with_name(f".{secrets.token_hex(4)}.{folder.name}")
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        raise OSError(error.errno, f"Cannot write {folder} ({error.strerror}). Choose another path.") from error


def fit_tables(
    P: pl.DataFrame,
    Q: pl.DataFrame,
    ratio: Any,
    *,
    held_out: float = 0.2,
    seed: int = 0,
    files: tuple[str, str] = ("P", "Q"),
    command: str = "",
    verbose: bool = False,
) -> Model:
    """Fit a ratio r = p/q and a flow to rows of two tables, and judge them on the others.

    Parameters
    ----------
    P, Q
        Tables with the same columns.
    ratio
        Any ratio, or its name.
    held_out
        Share of the rows of each table that is set aside to judge the ratio, at most 2000 of them.
    seed
        Of the rows that are set aside, of the ratio and of the flow.
    files
        Names of the tables, for the evidence.
    command
        What was typed, for the evidence.
    verbose
        Whether to show progress bars.
    """
    started = time.perf_counter()
    rng = np.random.default_rng([seed, 0, 12])
    (P, P_out), (Q, Q_out) = (_split(table, held_out, rng) for table in (P, Q))
    model = TableRatio(ratio, random_state=seed, verbose=verbose).fit_samples(P, Q)
    featurizer, proportion = _flow_of(model.ratio_), len(P) / (len(P) + len(Q))
    if featurizer is None:
        some_p, some_q = (_some(table, _MOST_OF_FLOW, rng) for table in (P, Q))
        pooled = np.concatenate([model.encoder_.transform(table) for table in (some_p, some_q)])
        featurizer = FlowFeaturizer(random_state=seed, verbose=verbose).fit(pooled)
        proportion = len(some_p) / len(pooled)
    made: Made = {
        "command": command,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "seed": seed,
        "seconds": time.perf_counter() - started,
        "file_p": files[0],
        "file_q": files[1],
        "n_p": len(P),
        "n_q": len(Q),
        "proportion": proportion,
    }
    return Model(model, featurizer, gather(model, P_out, Q_out, featurizer=featurizer, made=made))


def _split(table: pl.DataFrame, share: float, rng: np.random.Generator) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows to fit, and those to set aside, each in their order."""
    n_out = max(2, min(_MOST_HELD_OUT, round(share * len(table))))
    if len(table) - n_out < 2:
        raise ValueError(f"A table has {len(table)} rows: give at least 4, two to fit and two to judge the ratio.")
    aside = np.zeros(len(table), dtype=bool)
    aside[rng.choice(len(table), n_out, replace=False)] = True
    return table.filter(~aside), table.filter(aside)


def _some(table: pl.DataFrame, most: int, rng: np.random.Generator) -> pl.DataFrame:
    return table if len(table) <= most else table[np.sort(rng.choice(len(table), most, replace=False))]


def _flow_of(ratio: Any) -> FlowFeaturizer | None:
    """Return the flow of a ratio in latent space; None if it has none, or none that is a density."""
    candidates = [ratio]
    if isinstance(ratio, AutoRatio):
        candidates = [ratio.models_[k][0] for k in np.argsort(-ratio.weights_)]
    for one in candidates:
        featurizer = getattr(one, "featurizer_", None)
        if isinstance(one, FeaturizedRatio) and isinstance(featurizer, FlowFeaturizer):
            return featurizer
    return None


def _swap(new: Path, folder: Path) -> None:
    """Put a new folder in the place of an old one, which is removed."""
    if not folder.exists():
        os.rename(new, folder)
        return
    old = folder.with_name(f".{secrets.token_hex(4)}.{folder.name}")
    os.rename(folder, old)
    try:
        os.rename(new, folder)
    except BaseException:
        os.rename(old, folder)
        raise
    shutil.rmtree(old, ignore_errors=True)
