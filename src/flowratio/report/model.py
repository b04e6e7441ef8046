"""Two tables to a model folder, and back: the ratio, a flow of both samples, and what held-out rows say of them."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import secrets
import shutil
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from flowratio.applications.generation import TargetedSample, TargetedSampler
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.auto.auto import AutoRatio
from flowratio.ratios.base import OverlapWarning
from flowratio.ratios.featurized.featurized import FeaturizedRatio
from flowratio.ratios.registry import silent
from flowratio.ratios.table_ratio import TableRatio
from flowratio.report.evidence import FILE, Made, gather, read_evidence, write_evidence
from flowratio.scaling.base import ScalingWarning
from flowratio.storage.reading import place_in
from flowratio.storage.saving import is_model, load, save
from flowratio.tables.cells import CellError, check_formats, pooled
from flowratio.tables.encoder import TableEncoder

if TYPE_CHECKING:
    import polars as pl

_MOST_HELD_OUT = 2_000  # rows of a sample
_MOST_OF_FLOW = 10_000  # rows of a sample that the flow of a ratio in x is trained on
_FLOW_EPOCHS = 10  # of that flow: about half of what it would take to its end
_FLOW = "flow"
_OURS = re.compile(  # files of a model folder, and of writers that were killed
    rf"(\.[0-9a-f]{{8}}\.)?(model\.json|{re.escape(FILE)}|tensors-[0-9a-f]{{16}}\.safetensors)"
)
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


@dataclass(frozen=True)
class Model:
    """What a model folder holds.

    Parameters
    ----------
    ratio
        Fitted to rows of the two tables.
    featurizer
        A flow of the encoded rows of both: that of the ratio, if it has one. None if there is no flow.
    evidence
        What rows that neither has seen say of them, as of `gather`.
    """

    ratio: TableRatio
    featurizer: FlowFeaturizer | None
    evidence: dict[str, Any]

    def save(self, folder: Path) -> None:
        """Write a folder, or replace one that holds a model and nothing else: whole or not at all."""
        check_model_folder(folder)
        target = Path(os.path.realpath(folder))
        temporary = _beside(target)
        try:
            save(self.ratio, temporary)
            if self.featurizer is not None:
                save(self.featurizer, temporary / _FLOW)
            write_evidence(self.evidence, temporary)
            _swap(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def sample(
        self, n: int, toward: Literal["p", "q"], *, seed: int = 0, verbose: bool = False
    ) -> tuple[pl.DataFrame, TargetedSample]:
        """Draw new rows of p or of q, and return them as a table, with what they rest on.

        Candidates of the flow become rows of a table, with one level of each category, before they are weighted. There
        are 100 for each row, but no more than 200 000 in all, unless that is fewer than 10 of the target for a row.
        Columns have the types, the decimals and the formats of the tables that were fitted; numbers and dates are in
        their range there, and those that had a few values only have one of these.

        Parameters
        ----------
        n
            Number of rows.
        toward
            Of which sample.
        seed
            Of the draw.
        verbose
            Whether to show a progress bar.
        """
        sampler = TargetedSampler(
            self.ratio,
            self._flow,
            proportion=self.evidence["made"]["proportion"],
            random_state=seed,
            verbose=verbose,
        )
        drawn = sampler.draw(n, toward)
        encoder = self.ratio.encoder_
        table = self.decode(drawn.Z)
        return table, drawn._replace(X=encoder.transform(table))

    def decode(self, Z: np.ndarray) -> pl.DataFrame:
        """Return the rows of a table that latent codes are nearest to, of shape (n, d_z)."""
        # as the flow left them: its own `decode` rounds the indicators of a category one by one, to none or to many
        encoder = self.ratio.encoder_
        return encoder.inverse_transform(encoder.confined(self._flow.inverse_transform(Z)))

    @property
    def _flow(self) -> FlowFeaturizer:
        if self.featurizer is None:
            raise ValueError("The model has no flow to draw rows from: fit it again without `--no-flow`.")
        return self.featurizer

    @classmethod
    def load(cls, folder: Path) -> Model:
        """Read what `save` wrote."""
        featurizer = load(folder / _FLOW) if (folder / _FLOW).is_dir() else None
        return cls(load_ratio(folder), featurizer, read_evidence(folder))


def load_ratio(folder: Path) -> TableRatio:
    """Read the ratio of a model folder alone."""
    ratio = load(folder)
    if not isinstance(ratio, TableRatio):
        kind = type(ratio).__name__
        raise ValueError(f"{folder} holds a {kind}, not the ratio of two tables. Give a folder of `flowratio fit`.")
    return ratio


def check_model_folder(folder: Path) -> None:
    """Refuse a path where a model could not be written, before any time is spent; remove what killed fits left there.

    A folder is replaced as a whole: it must be empty, or a model with nothing beside it.
    """
    target = Path(os.path.realpath(folder))
    if target.exists() and not target.is_dir():
        raise OSError(errno.ENOTDIR, f"{folder} is a file, and a model is a folder. Choose another path.")
    if target.is_dir() and any(target.iterdir()) and not is_model(target):
        raise OSError(errno.EEXIST, f"{folder} has files that are no model of flowratio. Choose another folder.")
    others = _others(target) if target.is_dir() else []
    if others:
        raise OSError(
            errno.EEXIST,
            f"{folder} has {others[0]!r} beside a model, and a new model takes the place of the folder as a whole. "
            "Move it, or choose another folder.",
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_temporaries(target)
        probe = _beside(target)
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        raise OSError(error.errno, f"Cannot write {folder} ({error.strerror}). Choose another path.") from error


def _others(folder: Path) -> list[str]:
    """Return what is in a folder, and not of a model."""
    found: list[str] = []
    for path in folder.iterdir():
        if path.name == _FLOW and path.is_dir() and not path.is_symlink():
            found += [f"{_FLOW}/{name}" for name in _others(path)]
        elif not (_OURS.fullmatch(path.name) and path.is_file()):
            found.append(path.name)
    return sorted(found)


def _beside(folder: Path) -> Path:
    return folder.with_name(f".{secrets.token_hex(4)}.{folder.name}")


def _remove_temporaries(folder: Path) -> None:
    """Remove what writers of a folder left beside it when they were killed; no other may be at work on it."""
    name = re.compile(r"\.[0-9a-f]{8}\." + re.escape(folder.name))
    for left in folder.parent.iterdir():
        if not name.fullmatch(left.name) or not left.is_dir() or left.is_symlink() or _others(left):
            continue
        if folder.exists() or not (left / FILE).exists():  # a whole one may be the only model that there is
            shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _told_elsewhere() -> Iterator[None]:
    """Keep to itself what rows that are set aside tell better, and what is said of the columns of the matrix."""
    with warnings.catch_warnings():
        for category in (OverlapWarning, ScalingWarning):
            warnings.simplefilter("ignore", category)
        yield


@_told_elsewhere()
def fit_tables(
    P: pl.DataFrame,
    Q: pl.DataFrame,
    ratio: Any,
    *,
    held_out: float = 0.2,
    flow: bool = True,
    seed: int = 0,
    files: tuple[str, str] = ("P", "Q"),
    command: str = "",
    verbose: bool = False,
) -> Model:
    """Fit a ratio r = p/q and a flow to rows of two tables, and judge them on the others.

    What the columns hold, and their levels, are learned from all rows, so that those set aside can be read; this has no
    look at which table a row is of, and tells the ratio nothing of them.

    Parameters
    ----------
    P, Q
        Tables with the same columns.
    ratio
        Any ratio, or its name.
    held_out
        Share of the rows of each table that is set aside to judge the ratio, at most 2000 of them.
    flow
        Whether to train a flow of both tables for a ratio that has none: latent pictures and new rows come of it.
    seed
        Of the rows that are set aside, of the ratio and of the flow.
    files
        Names of the tables, for errors and for the evidence.
    command
        What was typed, for the evidence.
    verbose
        Whether to show progress bars.
    """
    started = time.perf_counter()
    everything = pooled(P, Q, files)
    check_formats(P, Q, files)
    rng = np.random.default_rng([seed, 0, 12])
    with places_named(files, len(P)):
        encoder = TableEncoder().fit(everything)
    P, Q = encoder.parse(P), encoder.parse(Q)  # read once; what comes sees numbers, dates, words and gaps
    (P, P_out), (Q, Q_out) = (_split(table, held_out, rng, name) for table, name in zip((P, Q), files, strict=True))
    model = TableRatio(ratio, random_state=seed, verbose=verbose).fit_samples(P, Q, encoder=encoder)
    featurizer, proportion = _flow_of(model.ratio_), len(P) / (len(P) + len(Q))
    if featurizer is None and flow:
        some_p, some_q = (_some(table, _MOST_OF_FLOW, rng) for table in (P, Q))
        X = np.concatenate([encoder.transform(table) for table in (some_p, some_q)])
        with silent():  # it is cut short on purpose
            featurizer = FlowFeaturizer(max_epochs=_FLOW_EPOCHS, random_state=seed, verbose=verbose).fit(X)
        proportion = len(some_p) / len(X)
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


@contextmanager
def places_named(files: tuple[str, str], n_p: int) -> Iterator[None]:
    """Say of a cell that cannot be read in which of two files it is, the rows of the first before the others."""
    try:
        yield
    except CellError as error:
        in_q = error.row >= n_p
        raise error.at(place_in(files[in_q], error.row - n_p * in_q)) from error


def _split(table: pl.DataFrame, share: float, rng: np.random.Generator, name: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows to fit, and those to set aside, each in their order."""
    n_out = max(2, min(_MOST_HELD_OUT, round(share * len(table))))
    if len(table) - n_out < 2:
        raise ValueError(f"{name} has {len(table)} rows: give at least 4, two to fit and two to judge the ratio.")
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
    """Put a new folder in the place of an old one, which is then where the new one was, or gone."""
    if not folder.exists():
        os.rename(new, folder)
        return
    shutil.copymode(folder, new)
    if _exchanged(new, folder):
        return
    old = _beside(folder)
    os.rename(folder, old)
    try:
        os.rename(new, folder)
    except BaseException:
        os.rename(old, folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _exchanged(a: Path, b: Path) -> bool:
    """Exchange two folders in one step, so that there is one at any time; return whether the system can."""
    if sys.platform != "linux":
        return False
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    return rename is not None and rename(_HERE, os.fsencode(a), _HERE, os.fsencode(b), _EXCHANGE) == 0
