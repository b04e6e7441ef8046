"""Check the paths of a command before it imports torch, so that a mistake is reported at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def check_paths(
    *,
    tables: Sequence[str] = (),
    model: Path | None = None,
    new_model: Path | None = None,
    out: str | None = None,
    endings: Sequence[str] | None = None,
) -> None:
    """Refuse tables and a model that are not there, and a new model or a file that cannot be written.

    `endings` are those of `out`. If None, `out` is a table, or "-" for standard output.
    """
    from flowratio.report.folder import check_model, check_model_folder
    from flowratio.storage.outputs import TABLE_ENDINGS, check_output
    from flowratio.storage.sources import check_sources

    check_sources(tables)
    if new_model is not None:
        check_model_folder(new_model)
    if model is not None:
        check_model(model)
    if out is not None:
        check_output(out, endings or TABLE_ENDINGS, standard_output=endings is None)
