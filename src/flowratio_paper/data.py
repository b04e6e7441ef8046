"""Public data sets of the experiments, from a folder on this machine or from their public home.

A file is looked for in the folder of the environment variable `FLOWRATIO_DATA`, then in `../shared/data` next to the
checkout, then in the user's cache. Otherwise it is downloaded into the cache. Its SHA-256 is always checked. For a file
that users write themselves the arrays are checked, because compression differs.
"""

from __future__ import annotations

import io
import os
import shlex
import sys
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO
from urllib.request import Request, urlopen

import numpy as np

from flowratio_paper.stages import replacing

VARIABLE = "FLOWRATIO_DATA"
_SECONDS = 60  # without an answer of a server
_DAMAGED = (  # what NumPy raises for a damaged NPZ file
    OSError,
    ValueError,
    KeyError,
    EOFError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
    TypeError,  # an array that stands alone
    AttributeError,  # the same, in Python 3.10
)


@dataclass(frozen=True)
class DataFile:
    """Where a file comes from, and its checksum.

    Parameters
    ----------
    sha256
        Checksum of its bytes, in hexadecimal digits.
    url
        Address of its public home. Empty if it has none.
    arrays
        Names of the arrays in an NPZ file whose bytes are checked, one after the other, in place of those of the file.
    recipe
        How to write a file without a home. `{path}` stands for its path.
    """

    sha256: str
    url: str
    arrays: tuple[str, ...] = ()
    recipe: str = ""


_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
FILES: dict[str, DataFile] = {
    "mnist/train-images-idx3-ubyte.gz": DataFile(
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        f"{_MNIST}/train-images-idx3-ubyte.gz",
    ),
    "mnist/train-labels-idx1-ubyte.gz": DataFile(
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        f"{_MNIST}/train-labels-idx1-ubyte.gz",
    ),
    "mnist/t10k-images-idx3-ubyte.gz": DataFile(
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        f"{_MNIST}/t10k-images-idx3-ubyte.gz",
    ),
    "mnist/t10k-labels-idx1-ubyte.gz": DataFile(
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        f"{_MNIST}/t10k-labels-idx1-ubyte.gz",
    ),
    "omniglot/omniglot28.npz": DataFile(
        "a76f2cf0ddc78742aa335bdc8477ec50d23584dbbbe1b9e6e4b7415a8f36f34a",
        "",
        ("images", "label"),
        "Unzip images_background.zip and images_evaluation.zip of https://github.com/brendenlake/omniglot (python/) "
        "into one FOLDER and run `python -m flowratio_paper.characters FOLDER {path}`",
    ),
    "uci/breast-cancer-wisconsin.data": DataFile(
        "402c585309c399237740f635ef9919dc512cca12cbeb20de5e563a4593f22b64",
        f"{_UCI}/breast-cancer-wisconsin/breast-cancer-wisconsin.data",
    ),
    "uci/transfusion.data": DataFile(
        "516d3efd776889daa0c3fce6a2fdd382cfbdaf50cdd4d945f2aa40abef4696e0",
        f"{_UCI}/blood-transfusion/transfusion.data",
    ),
    "uci/winequality-red.csv": DataFile(
        "4a402cf041b025d4566d954c3b9ba8635a3a8a01e039005d97d6a710278cf05e",
        f"{_UCI}/wine-quality/winequality-red.csv",
    ),
    "uci/winequality-white.csv": DataFile(
        "76c3f809815c17c07212622f776311faeb31e87610d52c26d87d6e361b169836",
        f"{_UCI}/wine-quality/winequality-white.csv",
    ),
}


def find(name: str, files: Mapping[str, DataFile] = FILES) -> Path:
    """Return the path of a data file. It is downloaded if it is not on this machine.

    Parameters
    ----------
    name
        Its path below a folder of data, such as `"uci/transfusion.data"`.
    files
        All data files, by name.
    """
    if name not in files:
        raise ValueError(f"{name!r} is not a data file of the experiments. Use one of {', '.join(files)}.")
    for folder in folders():
        path = folder / name
        if path.is_file():
            _check(path.read_bytes(), files[name], f"{path} has", "Remove or replace it")
            return path
    return _downloaded(name, files[name], cache() / name)


def folders() -> list[Path]:
    """Return the folders in which data are looked for, in this order."""
    paths = [cache()]
    checkout = Path(__file__).resolve().parents[3]
    if (checkout / "pyproject.toml").is_file():
        paths.insert(0, checkout.parent / "shared" / "data")
    named = os.environ.get(VARIABLE)
    if named:
        if not Path(named).is_dir():
            raise OSError(
                f"{VARIABLE} is {named!r}, which is not a folder. Set it to the folder of the data, or unset it."
            )
        paths.insert(0, Path(named))
    return paths


def cache() -> Path:
    """Return the folder of downloads in the user's cache."""
    home = Path.home()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or home / ".cache"
    return Path(base) / "flowratio"


def _downloaded(name: str, file: DataFile, path: Path) -> Path:
    if not file.url:
        recipe = file.recipe.format(path=shlex.quote(str(path)))
        raise OSError(
            f"{name} is not on this machine, and has no public home to download it from. "
            f"{recipe or f'Put the file with SHA-256 {file.sha256} at {path}'}, or put it at {name} below a folder and "
            f"set {VARIABLE} to that folder."
        )
    try:
        with urlopen(Request(file.url, headers={"User-Agent": "flowratio"}), timeout=_SECONDS) as answer:
            content = answer.read()
    except (OSError, HTTPException) as error:  # no network, no such host or page, or silence
        reason = getattr(error, "reason", None) or error
        raise OSError(
            f"{name} is not on this machine and cannot be downloaded from {file.url} ({reason}). Connect to the "
            f"network, or put the file at {name} below a folder and set {VARIABLE} to that folder."
        ) from error
    _check(content, file, f"The download from {file.url} has", f"Try again, or put the right file at {path}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"{path.parent} cannot be created ({error.strerror}). Download {file.url} to {name} below another folder "
            f"and set {VARIABLE} to that folder."
        ) from error
    with replacing(path) as temporary:
        temporary.write_bytes(content)
    return path


def _check(content: bytes, file: DataFile, subject: str, way_out: str) -> None:
    checksum = _checksum(content, file.arrays)
    if checksum != file.sha256:
        of = f" of its arrays {' and '.join(file.arrays)}" if file.arrays else ""
        raise ValueError(
            f"{subject} the SHA-256 {checksum}, but it must be {file.sha256}{of}. The file is damaged, or another "
            f"one. {way_out}."
        )


def _checksum(content: bytes, arrays: tuple[str, ...]) -> str:
    """Return the SHA-256 of the arrays of a file, or of its bytes if there are none or they cannot be read."""
    try:
        if arrays:
            values = arrays_of(io.BytesIO(content), arrays).values()
            return sha256(b"".join(array.tobytes() for array in values)).hexdigest()
    except ValueError:
        pass  # another file: the checksum of its bytes differs, too
    return sha256(content).hexdigest()


def arrays_of(file: BinaryIO, names: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """Return arrays of an open NPZ file. A damaged one is a ValueError.

    Parameters
    ----------
    file
        The file.
    names
        Names of the arrays. None for all.
    """
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in (arrays.files if names is None else names)}
    except _DAMAGED as error:
        raise ValueError(str(error)) from error
