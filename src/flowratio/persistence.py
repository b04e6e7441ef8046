"""A fitted path ↔ a folder: weights as safetensors, the rest as JSON, and nothing in it that could run.

`model.json` has format and version, a digest of itself, name and digest of the tensor file, and the model: every value
by its kind, every class by its name, which is looked up among the classes of flowratio and never imported. Arrays and
weights are in `tensors-<hash>.safetensors`. It is written first; `model.json` is then replaced as a whole, and the
tensors of the model before are removed last: wherever a save is cut off, the folder has the old model or the new one.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors import torch as safetensors
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

import flowratio
from flowratio.files import replacing
from flowratio.flows import FLOWS, Flow
from flowratio.flows.adapters import AdaptedFlow

_Node: TypeAlias = Any  # what `json` reads and writes

_VERSION = 1
_MODEL_FILE = "model.json"
_HEAD = b'{\n "format": "flowratio",'  # how every `model.json` of ours begins
_TENSOR_FILE = re.compile(r"tensors-[0-9a-f]{16}\.safetensors")
_STALE_FILE = re.compile(  # also what a killed save leaves behind
    rf"(\.[0-9a-f]{{8}}\.)?{_TENSOR_FILE.pattern}|\.[0-9a-f]{{8}}\.{re.escape(_MODEL_FILE)}"
)
# the numbers that NumPy and safetensors both know
_DTYPES = ("bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)))
_DTYPES += ("float16", "float32", "float64")
_STREAMS = (np.random.Generator, np.random.RandomState, torch.Generator)


def save(model: BaseEstimator | Flow, folder: str | os.PathLike[str]) -> None:
    """Save a fitted model in a folder, in place of the model that may be there.

    What was fitted is saved to the last bit. Two settings come back as something else: a `random_state` that is a
    generator as None, and a function or a pretrained flow of ours, such as `flow=lambda d: …`, as what was made of it
    (here `flow_`).

    Parameters
    ----------
    model
        A fitted estimator of flowratio, or one of its flows.
    folder
        The folder; it is made if it does not exist. One process may save to it at a time.

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
    writer = _Writer()
    node = writer.encode(model, "model")
    data = safetensors.save(writer.tensors)
    digest = hashlib.sha256(data).hexdigest()
    tensors = {"file": f"tensors-{digest[:16]}.safetensors", "sha256": digest}
    target = _prepared(Path(folder))
    with replacing(target / tensors["file"]) as temporary:
        temporary.write_bytes(data)
    with replacing(target / _MODEL_FILE) as temporary:
        temporary.write_bytes(_document(flowratio.__version__, tensors, node))
    for path in target.iterdir():
        if _STALE_FILE.fullmatch(path.name) and path.name != tensors["file"]:
            with suppress(OSError):  # one that stays takes room, and is never read
                path.unlink()


def load(folder: str | os.PathLike[str]) -> Any:
    """Load the model that `save` left in a folder: the same bits on the same machine.

    Nothing in the folder is run. A model from another device comes to the one that its `device` names, or to the CPU
    if there is no such device here.

    Parameters
    ----------
    folder
        The folder.
    """
    path = Path(folder) / _MODEL_FILE
    if not path.is_file():
        raise _not_there(Path(folder))
    try:
        document = _read_document(path)
        if document["model"].get("kind") not in ("estimator", "flow"):
            raise _damaged(path, "holds no estimator and no flow")
        return _Reader(path, _read_tensor_file(path, document["tensors"])).decode(document["model"])
    except RecursionError as error:
        raise _damaged(path, "is nested too deeply") from error


def _prepared(folder: Path) -> Path:
    """Make the folder, and refuse one whose `model.json` is not ours to replace."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise type(error)(f"Cannot make the folder {folder} ({error.strerror}). Choose another one.") from error
    path = folder / _MODEL_FILE
    if path.is_file() and not path.read_bytes().startswith(_HEAD):
        raise FileExistsError(f"{path} is no model of flowratio. Move it, or choose another folder.")
    return folder


def _document(written: Any, tensors: dict[str, str], node: _Node) -> bytes:
    """Return the bytes of `model.json`: there is one way of writing it, so that any other byte is a change."""
    body = {"format": "flowratio", "version": _VERSION, "flowratio": written, "tensors": tensors, "model": node}
    return _canonical({**body, "sha256": hashlib.sha256(_canonical(body)).hexdigest()})


def _canonical(value: _Node) -> bytes:
    return f"{json.dumps(value, indent=1, allow_nan=False)}\n".encode()


def _not_there(folder: Path) -> OSError:
    if folder.is_dir():
        return FileNotFoundError(f"{folder} has no file {_MODEL_FILE}: `save` wrote no model there. Check the path.")
    if folder.exists():
        return NotADirectoryError(f"{folder} is a file, and a model is a folder. Give the folder that `save` wrote.")
    return FileNotFoundError(f"There is no folder {folder}. Check the path.")


def _damaged(path: Path, what: str) -> ValueError:
    return ValueError(f"{path} {what}. Save the model again, or bring the folder back from a copy.")


def _read_document(path: Path) -> dict[str, Any]:
    """Read `model.json`, and check that it is one of ours, of a version we know, and as it was written."""
    raw = path.read_bytes()
    try:
        document = json.loads(raw.decode())
    except ValueError as error:
        raise _damaged(path, f"is cut short or no JSON ({error})") from error
    if not isinstance(document, dict) or document.get("format") != "flowratio":
        raise ValueError(f"{path} is JSON, but no model of flowratio. Check the path.")
    version, written = document.get("version"), document.get("flowratio")
    if isinstance(version, int) and version > _VERSION:
        raise ValueError(
            f"{path} has format version {version}, written by flowratio {written}; this is flowratio "
            f"{flowratio.__version__}, which reads versions up to {_VERSION}. Upgrade flowratio to load it."
        )
    match document:
        case {"tensors": {"file": str(), "sha256": str()} as tensors, "model": dict(node)}:
            with suppress(ValueError):  # NaN, which Python reads and JSON does not have
                if raw == _document(written, tensors, node):
                    return document
    raise _damaged(path, "was changed after it was saved: its content and its digest do not agree")


def _read_tensor_file(path: Path, entry: dict[str, str]) -> dict[str, Tensor]:
    if not _TENSOR_FILE.fullmatch(entry["file"]):
        raise _damaged(path, f"names the tensor file {entry['file']!r}, which is no name that `save` gives")
    path = path.with_name(entry["file"])
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing, which has the weights of the model. Copy the folder as a whole.")
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise _damaged(path, f"is cut short, changed, or of another model ({len(data)} bytes)")
    try:
        return safetensors.load(data)
    except (SafetensorError, KeyError, RuntimeError) as error:
        raise _damaged(path, f"cannot be read as safetensors ({error})") from error


@cache
def _classes() -> Mapping[tuple[str | None, str], type]:
    """Return by kind and name what may be saved and loaded: the classes beside the public names and the flows."""
    modules = {getattr(flowratio, name).__module__ for name in flowratio.__all__}
    modules |= {flow.__module__ for flow in FLOWS.values()}
    values = [value for module in sorted(modules) for value in vars(sys.modules[module]).values()]
    found = [value for value in values if isinstance(value, type) and value.__module__ in modules]
    return {(_kind(cls), cls.__name__): cls for cls in found if _kind(cls) and not inspect.isabstract(cls)}


def _kind(cls: type) -> str | None:
    if issubclass(cls, BaseEstimator):
        return "estimator"
    return "flow" if issubclass(cls, Flow) else "dataclass" if is_dataclass(cls) else None


def _is_known(value: Any) -> bool:
    return _classes().get((_kind(type(value)), type(value).__name__)) is type(value)


class _Writer:
    """Values to JSON nodes; what belongs in the tensor file gathers in `tensors`."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}

    def encode(self, value: Any, at: str) -> _Node:
        """Return the node of a value; `at` says where in the model it stands."""
        if value is None or type(value) in (bool, int) or isinstance(value, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"kind": "float", "value": str(value)}
        if type(value) is list:
            return [self.encode(item, f"{at}.{i}") for i, item in enumerate(value)]
        if type(value) is tuple:
            return {"kind": "tuple", "items": self.encode(list(value), at)}
        if type(value) is dict and all(isinstance(key, str) for key in value):
            return {"kind": "dict", "items": self._encode_each(value, at)}
        if isinstance(value, Path):
            return {"kind": "path", "value": str(value)}
        if isinstance(value, np.dtype) and value.name in _DTYPES:
            return {"kind": "dtype", "name": value.name}
        if isinstance(value, np.ndarray | np.generic) and not isinstance(value, np.ma.MaskedArray):
            return self._encode_array(value, at)
        if isinstance(value, Tensor):
            return {"kind": "tensor", **self._keep(value, at)}
        if _is_known(value):
            return self._encode_object(value, at)
        raise TypeError(_why_not(value, at))

    def _encode_each(self, values: Mapping[str, Any], at: str) -> dict[str, _Node]:
        return {str(name): self.encode(value, f"{at}.{name}") for name, value in values.items()}

    def _encode_array(self, value: np.ndarray | np.generic, at: str) -> _Node:
        array = np.asarray(value)
        if array.dtype.kind in "OU" and all(isinstance(item, str) for item in array.flat):
            dtype, items = "object" if array.dtype.kind == "O" else "str", [str(item) for item in array.flat]
            return {"kind": "strings", "dtype": dtype, "shape": list(array.shape), "items": items}
        if array.dtype.name not in _DTYPES:
            raise TypeError(
                f"`{at}` is of NumPy type {array.dtype}, which cannot be saved: real numbers of at most 64 bits and "
                "strings can. Convert it first."
            )
        # the order of the axes in memory is kept: the last bits of a product may hang on it
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        native = np.array(array.T if order == "F" else array, dtype=array.dtype.newbyteorder("="), order="C")
        kind = "scalar" if isinstance(value, np.generic) else "array"
        return {"kind": kind, "order": order, **self._keep(torch.from_numpy(native), at)}

    def _keep(self, tensor: Tensor, at: str) -> dict[str, _Node]:
        dtype = _dtype_name(tensor)
        if dtype not in (*_DTYPES, "bfloat16") or tensor.layout is not torch.strided or tensor.is_meta:
            raise TypeError(f"`{at}` is a tensor of type {dtype}, {tensor.layout}: only dense real ones can be saved.")
        name = at
        while name in self.tensors:  # a key with a dot can look like a path
            name += "'"
        # a copy: the file format refuses tensors that share memory
        self.tensors[name] = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        return {"tensor": name, "dtype": dtype, "shape": list(tensor.shape)}

    def _encode_object(self, value: Any, at: str) -> _Node:
        node = {"kind": _kind(type(value)), "class": type(value).__name__}
        if isinstance(value, Flow):
            config = self._encode_each(value.config(), f"{at}.config")
            return {**node, "config": config, "state": self._encode_each(value.state_dict(), at)}
        if isinstance(value, BaseEstimator):
            return {**node, "state": self._encode_estimator(value, at)}
        state = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        return {**node, "state": self._encode_each(state, at)}

    def _encode_estimator(self, model: BaseEstimator, at: str) -> dict[str, _Node]:
        settings = model.get_params(deep=False)
        state: dict[str, _Node] = {}
        for name, value in vars(model).items():
            made = getattr(model, f"{name}_", None) if name in settings else None
            if name in settings and isinstance(value, _STREAMS):
                state[name] = None
            elif made is not None and (made is value or callable(value)):
                state[name] = {"kind": "fitted", "name": f"{name}_"}
            else:
                state[name] = self.encode(value, f"{at}.{name}")
        return state


def _dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _why_not(value: Any, at: str) -> str:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, AdaptedFlow):
        return (
            f"`{at}` is a flow of {value.package}, and what built it is known to that package alone, so that it cannot "
            f"be saved. Train a flow of flowratio, or keep a file of {value.package} and give its flow as `flow` again."
        )
    if isinstance(value, BaseEstimator | nn.Module):
        return f"`{at}` is a {kind}: only classes of flowratio itself are saved, because no others are run at loading."
    if callable(value):
        return f"`{at}` is code ({kind}), which is never saved. Give a name or a value instead."
    return f"`{at}` is a {kind}, which cannot be saved. Numbers, strings, arrays, lists, dicts and paths can."


class _Reader:
    """JSON nodes to values; every node is checked before anything is made of it."""

    def __init__(self, path: Path, tensors: dict[str, Tensor]) -> None:
        self.path, self.tensors = path, tensors

    def decode(self, node: _Node) -> Any:
        """Return the value of a node."""
        match node:
            case None | bool() | int() | float() | str():
                return node
            case list():
                return [self.decode(item) for item in node]
            case {"kind": "float", "value": "nan" | "inf" | "-inf" as value}:
                return float(value)
            case {"kind": "tuple", "items": list(items)}:
                return tuple(self.decode(items))
            case {"kind": "dict", "items": dict(items)}:
                return self._decode_each(items)
            case {"kind": "path", "value": str(value)}:
                return Path(value)
            case {"kind": "dtype", "name": str(name)} if name in _DTYPES:
                return np.dtype(name)
            case {"kind": "strings", "dtype": "object" | "str" as dtype, "shape": list(shape), "items": list(items)}:
                return self._decode_strings(dtype, shape, items)
            case {"kind": "array" | "scalar" | "tensor", "tensor": str(), "dtype": _, "shape": _}:
                return self._decode_tensor(node)
            case {"kind": "flow", "class": str(name), "config": dict(config), "state": dict(state)}:
                return self._decode_flow(name, self._decode_each(config), self._decode_each(state))
            case {"kind": "estimator", "class": str(name), "state": dict(state)}:
                return self._decode_estimator(name, state)
            case {"kind": "dataclass", "class": str(name), "state": dict(state)}:
                return self._build(self._class("dataclass", name), self._decode_each(state))
        raise _damaged(self.path, f"holds a value that is not understood: {json.dumps(node)[:80]}")

    def _decode_each(self, nodes: dict[str, _Node]) -> dict[str, Any]:
        return {name: self.decode(node) for name, node in nodes.items()}

    def _decode_strings(self, dtype: str, shape: list[Any], items: list[Any]) -> np.ndarray:
        sound = all(type(n) is int and n >= 0 for n in shape) and all(isinstance(item, str) for item in items)
        if not sound or math.prod(shape) != len(items):
            raise _damaged(self.path, f"holds {len(items)} strings as an array of shape {shape}")
        return np.array(items, dtype=object if dtype == "object" else str).reshape(shape)

    def _decode_tensor(self, node: dict[str, Any]) -> Tensor | np.ndarray | np.generic:
        tensor = self.tensors.get(node["tensor"])
        if tensor is None or [node["dtype"], node["shape"]] != [_dtype_name(tensor), list(tensor.shape)]:
            wanted = f"the tensor {node['tensor']!r}, {node['dtype']} of shape {node['shape']}"
            raise _damaged(self.path, f"asks for {wanted}, which is not in the tensor file")
        if node["kind"] == "tensor":
            return tensor
        if _dtype_name(tensor) not in _DTYPES:
            raise _damaged(self.path, f"asks for an array of type {node['dtype']}, which NumPy does not have")
        array = tensor.numpy().T if node.get("order") == "F" else tensor.numpy()
        return array[()] if node["kind"] == "scalar" else array

    def _class(self, kind: str, name: str) -> type[Any]:
        found = _classes().get((kind, name))
        if found is None:
            raise _damaged(self.path, f"asks for the {kind} {name!r}, which flowratio {flowratio.__version__} has not")
        return found

    def _build(self, cls: type, arguments: dict[str, Any]) -> Any:
        try:
            return cls(**arguments)
        except Exception as error:  # each constructor refuses in its own way
            raise _damaged(self.path, f"holds arguments that {cls.__name__} refuses ({error})") from error

    def _decode_flow(self, name: str, config: dict[str, Any], state: dict[str, Any]) -> Flow:
        cls = self._class("flow", name)
        if "generator" in inspect.signature(cls).parameters:
            config["generator"] = torch.Generator()  # its weights are replaced at once
        flow: Flow = self._build(cls, config)
        tensors = {key: value for key, value in state.items() if isinstance(value, Tensor)}
        flow.to(next((value.dtype for value in tensors.values() if value.is_floating_point()), torch.float32))
        expected = {key: (value.dtype, value.shape) for key, value in flow.state_dict().items()}
        found = {key: (value.dtype, value.shape) for key, value in tensors.items()}
        if found != expected or len(tensors) < len(state):
            raise _damaged(self.path, f"holds weights that do not fit the {name} that its arguments describe")
        flow.load_state_dict(tensors)
        return flow.eval()

    def _decode_estimator(self, name: str, state: dict[str, _Node]) -> BaseEstimator:
        cls = self._class("estimator", name)
        values, settings = self._decode_state(name, state), inspect.signature(cls).parameters
        # a setting that came with a later version has its default
        defaults = {key: p.default for key, p in settings.items() if p.default is not p.empty}
        of_class = [getattr(cls, key, None) for key in values]
        hides = any(callable(value) or isinstance(value, property) for value in of_class)
        if hides or not settings.keys() <= defaults.keys() | values.keys():
            raise _damaged(self.path, f"does not hold the attributes of a {name}")
        model = object.__new__(cls)
        vars(model).update(defaults | values)
        for value in values.values():
            if isinstance(value, Flow):
                _put(value, values.get("device"))
        return model

    def _decode_state(self, name: str, state: dict[str, _Node]) -> dict[str, Any]:
        """Decode the attributes of an estimator, first those that others refer to."""
        made = {key: node for key, node in state.items() if isinstance(node, dict) and node.get("kind") == "fitted"}
        values = self._decode_each({key: node for key, node in state.items() if key not in made})
        for key, node in made.items():
            source = str(node.get("name"))
            if source in made or source not in values:
                raise _damaged(self.path, f"asks for {source!r} of {name}, which is not there")
            values[key] = values[source]
        return {key: values[key] for key in state}  # in the order of the constructor again


def _put(flow: Flow, device: Any) -> None:
    """Move a flow to the device that its estimator names; without such a device here it stays on the CPU."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if isinstance(device, str):
        with suppress(RuntimeError, AssertionError):
            flow.to(device)
