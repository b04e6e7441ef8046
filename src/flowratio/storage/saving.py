"""Save and load a fitted model: weights as safetensors, the rest as JSON. Nothing that is loaded can run code.

`model.json` has the format and its version, a digest of itself, name and digest of the tensor file, and the model.
`tensors-<hash>.safetensors` has the arrays. It is written first, then `model.json` is replaced, and old tensors are
removed last. A killed save leaves the old model or the new one.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import pkgutil
import re
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors import torch as safetensors
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

import flowratio
from flowratio import ratios
from flowratio._support.atomic import replacing
from flowratio._support.types import PathLike
from flowratio.flows import FLOWS, Flow
from flowratio.scaling.discrete import DiscreteColumns
from flowratio.storage.boosted_trees import BoostedTrees
from flowratio.storage.model_files import MODEL_FILE, is_model, model_file
from flowratio.storage.serialization import Classes, Node, Reader, Writer, damaged, kind_of
from flowratio.storage.sklearn_models import LEARNERS
from flowratio.tables.columns import Column

_VERSION = 2
_TENSOR_FILE = re.compile(r"tensors-[0-9a-f]{16}\.safetensors")
# also what a killed save leaves behind
_STALE_FILE = re.compile(rf"(\.[0-9a-f]{{8}}\.)?{_TENSOR_FILE.pattern}|\.[0-9a-f]{{8}}\.{re.escape(MODEL_FILE)}")


def save(model: BaseEstimator | Flow, folder: PathLike) -> None:
    """Save a fitted model in a folder. An existing model in the folder is replaced.

    Predictions of the loaded model agree to the last bit. Three settings change: a `random_state` that is a generator
    becomes None. A function such as `flow=lambda d: …` becomes its result (`flow_`). A fitted
    `HistGradientBoostingClassifier` becomes `BoostedTrees`. A part that cannot be saved raises a TypeError.

    Parameters
    ----------
    model
        A fitted estimator of flowratio, one of its flows, or an estimator of scikit-learn.
    folder
        The folder, which is created if it does not exist. Only one process at a time may save to it.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from flowratio import Standardizer
    >>> scaler = Standardizer().fit([[1.0, 10.0], [3.0, 40.0], [2.0, 10.0]])
    >>> with TemporaryDirectory() as folder:
    ...     save(scaler, folder)
    ...     load(folder).transform([[2.0, 20.0]]).tolist()
    [[0.0, 0.0]]
    """
    if not isinstance(model, Flow):
        check_is_fitted(model)
    writer = Writer(_classes())
    node = writer.encode(model, "model")
    data = safetensors.save(writer.tensors)
    digest = hashlib.sha256(data).hexdigest()
    tensors = {"file": f"tensors-{digest[:16]}.safetensors", "sha256": digest}
    target = _prepared(Path(folder))
    with replacing(target / tensors["file"]) as temporary:
        temporary.write_bytes(data)
    with replacing(target / MODEL_FILE) as temporary:
        temporary.write_bytes(_document(flowratio.__version__, tensors, node))
    for path in target.iterdir():
        if _STALE_FILE.fullmatch(path.name) and path.name != tensors["file"]:
            with suppress(OSError):  # one that stays takes room, and is never read
                path.unlink()


def load(folder: PathLike) -> Any:
    """Load a model that `save` wrote. Predictions agree to the last bit on the same machine.

    No code in the folder is run. The model is moved to its `device`, or to the CPU if that device is not available. If
    the model was saved with another minor version of scikit-learn, there is a warning.
    """
    path = model_file(folder)
    try:
        document = _read_document(path)
        return Reader(path, _read_tensor_file(path, document["tensors"]), _classes()).model(document["model"])
    except RecursionError as error:
        raise damaged(path, "is nested too deeply") from error


@cache
def _classes() -> Classes:
    modules = {getattr(flowratio, name).__module__ for name in flowratio.__all__}
    modules |= {cls.__module__ for cls in (*FLOWS.values(), DiscreteColumns, Column)}
    modules |= {info.name for info in pkgutil.walk_packages(ratios.__path__, f"{ratios.__name__}.")}
    values = [value for module in sorted(modules) for value in vars(import_module(module)).values()]
    classes = [value for value in values if isinstance(value, type) and value.__module__ in modules]
    classes += [*LEARNERS.values(), BoostedTrees]
    return {(kind_of(cls), cls.__name__): cls for cls in classes if kind_of(cls) and not inspect.isabstract(cls)}


def _prepared(folder: Path) -> Path:
    """Create the folder. Refuse one whose `model.json` is of another program."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise type(error)(f"Cannot create the folder {folder} ({error.strerror}). Choose another one.") from error
    if (folder / MODEL_FILE).is_file() and not is_model(folder):
        raise FileExistsError(f"{folder / MODEL_FILE} is not a model of flowratio. Move it, or choose another folder.")
    return folder


def _document(written: Any, tensors: dict[str, str], node: Node) -> bytes:
    """Return the bytes of `model.json`. They are unique, so that every change is detected."""
    body = {"format": "flowratio", "version": _VERSION, "flowratio": written, "tensors": tensors, "model": node}
    return _canonical({**body, "sha256": hashlib.sha256(_canonical(body)).hexdigest()})


def _canonical(value: Node) -> bytes:
    return f"{json.dumps(value, indent=1, allow_nan=False)}\n".encode()


def _read_document(path: Path) -> dict[str, Any]:
    """Read `model.json`, and check its format, its version and its digest."""
    raw = path.read_bytes()
    try:
        document = json.loads(raw.decode())
    except ValueError as error:
        raise damaged(path, f"is incomplete or not JSON ({error})") from error
    if not isinstance(document, dict) or document.get("format") != "flowratio":
        raise ValueError(f"{path} is JSON, but not a model of flowratio. Check the path.")
    version, written = document.get("version"), document.get("flowratio")
    if isinstance(version, int) and version != _VERSION:
        advice = "Upgrade flowratio." if version > _VERSION else "Fit and save the model again."
        problem = f"{path} was written by flowratio {written} in format version {version}."
        raise ValueError(f"{problem} This flowratio reads version {_VERSION}. {advice}")
    match document:
        case {"tensors": {"file": str(), "sha256": str()} as tensors, "model": dict(node)}:
            with suppress(ValueError):  # NaN, which Python reads and JSON does not have
                if raw == _document(written, tensors, node):
                    return document
    raise damaged(path, "was changed after it was saved, because its content and its digest differ")


def _read_tensor_file(path: Path, entry: dict[str, str]) -> dict[str, Tensor]:
    if not _TENSOR_FILE.fullmatch(entry["file"]):
        raise damaged(path, f"names the tensor file {entry['file']!r}, which `save` does not write")
    path = path.with_name(entry["file"])
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing. It has the weights of the model. Copy the whole folder.")
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise damaged(path, f"is incomplete, changed, or of another model ({len(data)} bytes)")
    try:
        return safetensors.load(data)
    except (SafetensorError, KeyError, RuntimeError) as error:
        raise damaged(path, f"cannot be read as safetensors ({error})") from error
