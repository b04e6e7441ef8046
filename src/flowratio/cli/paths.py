"""Check the paths of a command before it imports torch, so that a mistake is reported at once."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

from flowratio._support.wording import LONGEST_PATH, shown


def check_paths(
    *,
    tables: Sequence[str] = (),
    model: Path | None = None,
    new_model: Path | None = None,
    force: bool = False,
    out: str | None = None,
    endings: Sequence[str] | None = None,
) -> None:
    """Refuse tables and a model that are not there, and a new model or a file that cannot be written.

    `force` allows a new model to replace another. `endings` are those of `out`. If None, `out` is a table, or "-" for
    standard output.
    """
    from flowratio.report.folder import check_model, check_model_folder
    from flowratio.storage.outputs import TABLE_ENDINGS, check_output
    from flowratio.storage.sources import check_sources

    check_sources(tables)
    if new_model is not None:
        check_model_folder(new_model)
        _check_new(new_model, force)
    if model is not None:
        check_model(model)
    if out is not None:
        check_output(out, endings or TABLE_ENDINGS, standard_output=endings is None)


def _check_new(folder: Path, force: bool) -> None:
    from flowratio.storage.model_files import is_model

    if is_model(folder) and not force:
        problem = f"{shown(folder, LONGEST_PATH)} already has a model"
        raise FileExistsError(errno.EEXIST, f"{problem}. Use --force to replace it, or choose another folder with -o.")
