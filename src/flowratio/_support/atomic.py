"""Files that are complete or absent."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flowratio._support.types import PathLike

_N_CHARACTERS = 40  # of the name of a file, in the names of files that belong to it
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def replacing(path: PathLike) -> Iterator[Path]:
    """Yield a temporary path next to a file, then rename it. A reader sees the old file or the new one.

    If the block fails, the temporary file is removed and the old file stays.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, f"Cannot write {path}, because it is a folder or a device. Use the path of a file.")
    temporary = target.with_name(f".{secrets.token_hex(4)}.{short_name(target)}")
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except OSError as error:
        raise _write_error(error.errno or errno.EIO, path) from error
    try:
        yield temporary
        if target.exists():
            shutil.copymode(target, temporary)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        text = re.search(r"\(os error (\d+)\)", str(error))  # safetensors has no other way to report it
        code = getattr(error, "errno", None) or int(text[1] if text else 0)
        if code in (*_DISK_FULL, errno.EROFS):
            raise _write_error(code, path) from error
        raise


def short_name(target: Path) -> str:
    """Return a part for the names of files that belong to a file: a hash of its name, and the end of it."""
    return f"{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:8]}.{target.name[-_N_CHARACTERS:]}"


def remove_temporaries(path: PathLike) -> None:
    """Remove temporary files of killed writers of a file. Nobody else may be writing it."""
    target = Path(os.path.realpath(path))
    name = re.compile(r"\.[0-9a-f]{8}\." + re.escape(short_name(target)))
    for temporary in target.parent.iterdir():
        if name.fullmatch(temporary.name):
            temporary.unlink(missing_ok=True)


def _write_error(code: int, path: PathLike) -> OSError:
    advice = "Free some space" if code in _DISK_FULL else "Make sure that its folder exists and can be written"
    return OSError(code, f"Cannot write {path} ({os.strerror(code)}). {advice}, or choose another path.")
