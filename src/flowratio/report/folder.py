"""Replace a model folder as a whole: a killed save leaves the old model or the new one.

Only the standard library is imported, so that the command line can check its folders at once.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from pathlib import Path

from flowratio._support.wording import quoted
from flowratio.storage.model_files import is_model, model_file

FILE = "evidence.json"
FLOW = "flow"
_KILLED = r"\.[0-9a-f]{8}\."  # prefix of files and folders of writers that were killed
_OWN = re.compile(rf"({_KILLED})?(model\.json|{re.escape(FILE)}|tensors-[0-9a-f]{{16}}\.safetensors)")


def check_model_folder(folder: Path) -> None:
    """Refuse a path that is not new, empty or only a model. Complete or remove what a killed save left there."""
    target = Path(os.path.realpath(folder))
    if target.exists() and not target.is_dir():
        raise OSError(errno.ENOTDIR, f"{folder} is a file, but a model is a folder. Choose another path.")
    if target.is_dir() and any(target.iterdir()) and not is_model(target):
        raise OSError(errno.EEXIST, f"{folder} has files that are not a model of flowratio. Choose another folder.")
    if target.is_dir() and (others := _others(target)):
        problem = f"{folder} has {quoted(others[0])} next to a model"
        raise OSError(errno.EEXIST, f"{problem}. A new model replaces the whole folder. Choose another one.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        restore_folder(target)
        for path in _temporaries(target):
            shutil.rmtree(path, ignore_errors=True)
        probe = temporary_folder(target)
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        raise OSError(error.errno, f"Cannot write {folder} ({error.strerror}). Choose another path.") from error


def check_model(folder: Path) -> None:
    """Refuse a folder that is not a model. Complete what a killed save left there."""
    restore_folder(Path(os.path.realpath(folder)))
    model_file(folder)


def _others(folder: Path) -> list[str]:
    """Return the names of files in a folder that are not part of a model."""
    names: list[str] = []
    for path in folder.iterdir():
        if path.name == FLOW and path.is_dir() and not path.is_symlink():
            names += [f"{FLOW}/{name}" for name in _others(path)]
        elif not (_OWN.fullmatch(path.name) and path.is_file()):
            names.append(path.name)
    return sorted(names)


def temporary_folder(folder: Path) -> Path:
    """Return a new path next to a folder, on the same disk."""
    return folder.with_name(f".{secrets.token_hex(4)}.{folder.name}")


def _temporaries(folder: Path) -> list[Path]:
    """Return the temporary folders that killed saves left next to a folder."""
    name = re.compile(_KILLED + re.escape(folder.name))
    paths = [path for path in folder.parent.iterdir() if name.fullmatch(path.name)]
    return [path for path in paths if path.is_dir() and not path.is_symlink() and not _others(path)]


def replace_folder(new: Path, target: Path) -> None:
    """Rename a new folder to its target. The old folder is renamed away first, and removed last."""
    if not target.exists():
        os.rename(new, target)
        return
    shutil.copymode(target, new)
    old = temporary_folder(target)
    os.rename(target, old)
    try:
        os.rename(new, target)  # a kill before this leaves two complete folders: `restore_folder` takes the newer one
    except BaseException:
        os.rename(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def restore_folder(target: Path) -> None:
    """If a save was killed before its last rename, do that rename."""
    if target.exists() or not target.parent.is_dir():
        return
    complete = [path for path in _temporaries(target) if is_model(path) and (path / FILE).exists()]
    if complete:
        os.rename(max(complete, key=lambda path: (path / FILE).stat().st_mtime_ns), target)
