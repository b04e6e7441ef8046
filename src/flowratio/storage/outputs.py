"""Whether a file can be written, before the work. Only the standard library is imported."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from flowratio._support.errors import ArgumentError

if TYPE_CHECKING:
    from flowratio._support.types import PathLike

TABLE_ENDINGS = (".csv", ".parquet")


def check_output(path: PathLike, endings: Sequence[str], *, standard_output: bool = False) -> None:
    """Refuse a path that cannot be written, before the work. With `standard_output`, "-" is allowed."""
    rule = f"end with {' or '.join(endings)}"
    if os.fspath(path) == "-" and standard_output:
        return
    if os.fspath(path) == "-":
        raise ArgumentError("out", f"Cannot write to standard output ('-'). Use the path of a file. It must {rule}.")
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"Cannot write {path}, because it is a folder. Use the path of a file.")
    if target.suffix.lower() not in endings:
        other = ", or be '-'" if standard_output else ""
        raise ArgumentError("out", f"Cannot write {path}. Its name must {rule}{other}.")
    try:
        TemporaryFile(dir=Path(os.path.realpath(target)).parent).close()
    except OSError as error:
        reason = f"Cannot write {path} ({error.strerror}). Make sure that its folder exists and can be written."
        raise type(error)(reason) from error
