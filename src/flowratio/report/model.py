"""A model folder: the ratio of two tables, a flow of both samples, and its evidence by cross-fitting."""

from __future__ import annotations

import os
import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from flowratio.applications.generation import TargetedSample, TargetedSampler
from flowratio.diagnostics.evaluation import cross_fitted
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.base import OverlapWarning, RatioEstimator
from flowratio.ratios.fold_scores import FEWEST_ROWS
from flowratio.ratios.registry import new_ratio, silent
from flowratio.report.evidence import Origin, gather, read_evidence, write_evidence
from flowratio.report.folder import FLOW, check_model_folder, replace_folder, restore_folder, temporary_folder
from flowratio.samples.two_samples import two_samples
from flowratio.scaling.base import ScalingWarning
from flowratio.storage.reading import place_in
from flowratio.storage.saving import load, save
from flowratio.tables.cells import CellError, check_formats, pooled
from flowratio.tables.encoder import TableEncoder
from flowratio.tables.formats import TextFormat
from flowratio.tables.hints import warn_of_spellings
from flowratio.tables.recognition import GUESS

_MAX_OF_FLOW = 10_000  # rows of a sample to which the flow of a ratio in x is fitted
_FLOW_EPOCHS = 10  # of that flow: about half of what it takes to converge


@dataclass(frozen=True)
class Model:
    """The content of a model folder."""

    ratio: Any  # fitted to rows of the two tables
    featurizer: FlowFeaturizer | None  # of the encoded rows of both tables: that of the ratio, if it has one
    evidence: dict[str, Any]  # results of `gather`

    def save(self, folder: Path) -> None:
        """Write a folder, or replace one that has a model and nothing else. A killed save leaves a complete model."""
        check_model_folder(folder)
        target = Path(os.path.realpath(folder))
        temporary = temporary_folder(target)
        try:
            save(self.ratio, temporary)
            if self.featurizer is not None:
                save(self.featurizer, temporary / FLOW)
            write_evidence(self.evidence, temporary)  # last: a folder with it is complete
            replace_folder(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def sample(
        self, n: int, toward: Literal["p", "q"], *, seed: int = 0, verbose: bool = False
    ) -> tuple[pl.DataFrame, TargetedSample]:
        """Draw n new rows of p or of q, as a table, and return the draw that they come from.

        Each candidate of the flow becomes the nearest row of a table before it is weighted. There are 100 candidates
        for each row, and fewer for more than 2000 rows.
        """
        if self.featurizer is None:
            raise ValueError("The model has no flow to draw rows from. Fit it again without --no-flow.")
        share = self.evidence["origin"]["proportion"]
        sampler = TargetedSampler(self.ratio, self.featurizer, proportion=share, random_state=seed, verbose=verbose)
        sample = sampler.draw(n, toward)
        return sample.X, sample

    @classmethod
    def load(cls, folder: Path) -> Model:
        """Read what `save` wrote."""
        ratio = load_ratio(folder)
        return cls(ratio, load(folder / FLOW) if (folder / FLOW).is_dir() else None, read_evidence(folder))


def load_ratio(folder: Path) -> Any:
    """Read only the ratio of a model folder."""
    restore_folder(Path(os.path.realpath(folder)))
    ratio = load(folder)
    if not isinstance(ratio, RatioEstimator):
        raise ValueError(f"{folder} has a {type(ratio).__name__}, not a ratio. Use a folder of `flowratio fit`.")
    return ratio


@contextmanager
def _without_overlap_warnings() -> Iterator[None]:
    """Ignore warnings whose subject the evidence reports on held-out rows, and those about columns of the matrix."""
    with warnings.catch_warnings():
        for category in (OverlapWarning, ScalingWarning):
            warnings.simplefilter("ignore", category)
        yield


@_without_overlap_warnings()
def fit_tables(
    P: pl.DataFrame,
    Q: pl.DataFrame,
    ratio: Any,
    *,
    n_folds: int = 5,
    flow: bool = True,
    seed: int = 0,
    files: tuple[str, str] = ("P", "Q"),
    text_format: TextFormat = GUESS,
    encoding: str | None = None,
    command: str = "",
    verbose: bool = False,
) -> Model:
    """Fit a ratio (or its name) and a flow to all rows of two tables with the same columns, and check the ratio.

    The check is by cross-fitting: every row is scored by a model that was fitted to other folds, `n_folds` in all. Each
    of these models is fitted to at most 100 000 rows of each table. `flow` trains a flow for a ratio without one:
    latent plots and new rows need it. `files` and `encoding` are for errors, `files` and `command` for the evidence.
    """
    start = time.perf_counter()
    _check_rows(P, Q, files)
    everything = pooled(P, Q, files)
    check_formats(P, Q, files, text_format)
    warn_of_spellings(P, Q, files, text_format)
    rng = np.random.default_rng([seed, 0, 12])
    with places_named(files, len(P), encoding):
        encoder = TableEncoder(text_format=text_format).fit(everything, np.repeat([1, 0], [len(P), len(Q)]))
    P, Q = encoder.parse(P), encoder.parse(Q)  # text is parsed once
    model = new_ratio(ratio, seed, verbose).fit_samples(P, Q, encoder=encoder)
    featurizer, proportion = model.mixture_flow(), len(P) / (len(P) + len(Q))
    if featurizer is None and flow:
        part_p, part_q = (_subsample(table, _MAX_OF_FLOW, rng) for table in (P, Q))
        X = np.concatenate([model.design(table).matrix for table in (part_p, part_q)])
        with silent():  # it stops early on purpose
            featurizer = FlowFeaturizer(max_epochs=_FLOW_EPOCHS, random_state=seed, verbose=verbose).fit(X)
        proportion = len(part_p) / len(X)
    origin: Origin = {
        "command": command,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "seed": seed,
        "seconds": time.perf_counter() - start,
        "file_p": files[0],
        "file_q": files[1],
        "n_p": len(P),
        "n_q": len(Q),
        "proportion": proportion,
    }
    unfitted = model.selection() if hasattr(model, "selection") else ratio
    samples = two_samples(P, Q, encoder=encoder)
    evaluation = cross_fitted(unfitted, samples, seed, n_folds, model=model, verbose=verbose)
    return Model(model, featurizer, gather(model, P, Q, evaluation=evaluation, featurizer=featurizer, origin=origin))


@contextmanager
def places_named(files: tuple[str, str], n_p: int, encoding: str | None = None) -> Iterator[None]:
    """Name the file and the row of a cell that cannot be read. The rows of the first file come first."""
    try:
        yield
    except CellError as error:
        in_q = error.row >= n_p
        raise error.at(place_in(files[in_q], error.row - n_p * in_q, encoding)) from error


def _check_rows(P: pl.DataFrame, Q: pl.DataFrame, files: tuple[str, str]) -> None:
    for table, name in zip((P, Q), files, strict=True):
        if len(table) < FEWEST_ROWS:
            reason = "two to fit and two to check the fit"
            raise ValueError(f"{name} has {len(table)} rows. Use at least {FEWEST_ROWS} rows: {reason}.")


def _subsample(table: pl.DataFrame, n: int, rng: np.random.Generator) -> pl.DataFrame:
    return table if len(table) <= n else table[np.sort(rng.choice(len(table), n, replace=False))]
