"""Values ↔ JSON nodes and tensors: everything that a saved model can contain.

Every value has a kind, and every class a name, which is looked up in a list and never imported.
"""

from __future__ import annotations

import inspect
import json
import math
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import sklearn
import torch
from sklearn.base import BaseEstimator
from torch import Tensor, nn

from flowratio.flows import Flow
from flowratio.flows.adapters import AdaptedFlow
from flowratio.ratios.neural.networks import Network
from flowratio.storage.sklearn_models import LEARNERS, packed, rebuild, without_private_parts

Node: TypeAlias = Any  # what `json` reads and writes
Classes: TypeAlias = Mapping[tuple[str | None, str], type]

# the numbers that NumPy and safetensors both know
_DTYPES = ("bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)))
_DTYPES += ("float16", "float32", "float64")
_STREAMS = (np.random.Generator, np.random.RandomState, torch.Generator)


def damaged(path: Path, what: str) -> ValueError:
    """Return the error of a file that `save` cannot have written."""
    return ValueError(f"{path} {what}. Save the model again, or restore the folder from a copy.")


def kind_of(cls: type) -> str | None:
    """Return the kind under which objects of a class are saved. None if they are not saved."""
    if issubclass(cls, BaseEstimator):
        return "learner" if LEARNERS.get(cls.__name__) is cls else "estimator"
    if issubclass(cls, Flow | Network):
        return "flow" if issubclass(cls, Flow) else "network"
    return "dataclass" if is_dataclass(cls) else None


class Writer:
    """Values to JSON nodes, with classes by kind and name. Arrays are collected in `tensors`."""

    def __init__(self, classes: Classes) -> None:
        self.classes = classes
        self.tensors: dict[str, Tensor] = {}

    def encode(self, value: Any, at: str) -> Node:
        """Return the node of a value. `at` is its place in the model."""
        value = without_private_parts(value, at)
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
        if self.classes.get((kind_of(type(value)), type(value).__name__)) is type(value):
            return self._encode_object(value, at)
        raise TypeError(_why_not(value, at))

    def _encode_each(self, values: Mapping[str, Any], at: str) -> dict[str, Node]:
        return {str(name): self.encode(value, f"{at}.{name}") for name, value in values.items()}

    def _encode_array(self, value: np.ndarray | np.generic, at: str) -> Node:
        array = np.asarray(value)
        if array.dtype.kind in "OU" and all(isinstance(item, str) for item in array.flat):
            dtype, items = "object" if array.dtype.kind == "O" else "str", [str(item) for item in array.flat]
            return {"kind": "strings", "dtype": dtype, "shape": list(array.shape), "items": items}
        if array.dtype.name not in _DTYPES:
            advice = "Convert it to real numbers of up to 64 bits or to strings."
            raise TypeError(f"`{at}` is of NumPy type {array.dtype}, which cannot be saved. {advice}")
        # the order of the axes in memory stays: the last bits of a product may depend on it
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        native = np.array(array.T if order == "F" else array, dtype=array.dtype.newbyteorder("="), order="C")
        kind = "scalar" if isinstance(value, np.generic) else "array"
        return {"kind": kind, "order": order, **self._keep(torch.from_numpy(native), at)}

    def _keep(self, tensor: Tensor, at: str) -> dict[str, Node]:
        dtype = _dtype_name(tensor)
        if dtype not in (*_DTYPES, "bfloat16") or tensor.layout is not torch.strided or tensor.is_meta:
            raise TypeError(f"`{at}` is a tensor of type {dtype}, {tensor.layout}. Only dense real tensors are saved.")
        name = at
        while name in self.tensors:  # a key with a dot can look like a path
            name += "'"
        # a copy: the file format refuses tensors that share memory
        self.tensors[name] = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        return {"tensor": name, "dtype": dtype, "shape": list(tensor.shape)}

    def _encode_object(self, value: Any, at: str) -> Node:
        kind = kind_of(type(value))
        node = {"kind": kind, "class": type(value).__name__}
        if isinstance(value, Flow | Network):
            config = self._encode_each(value.config(), f"{at}.config")
            return {**node, "config": config, "state": self._encode_each(value.state_dict(), at)}
        if isinstance(value, BaseEstimator):
            version = {"scikit-learn": sklearn.__version__} if kind == "learner" else {}
            return {**node, **version, "state": self._encode_estimator(value, packed(value, at), at)}
        state = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        return {**node, "state": self._encode_each(state, at)}

    def _encode_estimator(self, model: BaseEstimator, values: Mapping[str, Any], at: str) -> dict[str, Node]:
        settings = model.get_params(deep=False)
        state: dict[str, Node] = {}
        for name, value in values.items():
            result = values.get(f"{name}_") if name in settings else None
            tensors = dict(self.tensors)
            if name in settings and (isinstance(value, _STREAMS) or (name == "callback" and callable(value))):
                state[name] = None
                continue
            state[name] = {"kind": "fitted", "name": f"{name}_"}
            if result is not None and (result is value or callable(value)):
                continue
            try:
                state[name] = self.encode(value, f"{at}.{name}")
            except TypeError:  # a setting that cannot be saved is replaced by its fitted result
                if result is None:
                    raise
                self.tensors = tensors
        return state


def _dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _why_not(value: Any, at: str) -> str:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, AdaptedFlow):
        advice = f"Train a flow of flowratio, or save the flow with {value.package} and pass it as `flow` again."
        return f"`{at}` is a flow of {value.package}, which cannot be saved. {advice}"
    if isinstance(value, BaseEstimator | nn.Module):
        advice = f"Use a class of flowratio, or one of these of scikit-learn: {', '.join(LEARNERS)}."
        return f"`{at}` is a {kind}, which cannot be saved. {advice}"
    if callable(value):
        return f"`{at}` is code ({kind}), which is never saved. Use a name or a value instead."
    return f"`{at}` is a {kind}, which cannot be saved. Use numbers, strings, arrays, lists, dicts or paths."


class Reader:
    """JSON nodes and tensors to values, with the classes by kind and name. Every node is checked first."""

    def __init__(self, path: Path, tensors: dict[str, Tensor], classes: Classes) -> None:
        self.path, self.tensors, self.classes = path, tensors, classes
        self._versions: set[str] = set()

    def model(self, node: Node) -> Any:
        if not isinstance(node, dict) or node.get("kind") not in ("estimator", "flow", "learner"):
            raise damaged(self.path, "has no estimator and no flow")
        model = self.decode(node)
        here = sklearn.__version__.split(".")[:2]
        if others := sorted(version for version in self._versions if version.split(".")[:2] != here):
            versions = f"has parts of scikit-learn {', '.join(others)}, but this is {sklearn.__version__}."
            advice = "Numbers may differ. Fit and save the model again, or install that version."
            warnings.warn(f"{self.path} {versions} {advice}", UserWarning, stacklevel=3)
        return model

    def decode(self, node: Node) -> Any:
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
            case {"kind": "flow" | "network" as kind, "class": str(name), "config": dict(config), "state": dict(state)}:
                return self._decode_module(kind, name, self._decode_each(config), self._decode_each(state))
            case {"kind": "estimator", "class": str(name), "state": dict(state)}:
                return self._decode_estimator("estimator", name, state)
            case {"kind": "learner", "class": str(name), "scikit-learn": str(version), "state": dict(state)}:
                self._versions.add(version)
                return self._decode_estimator("learner", name, state)
            case {"kind": "dataclass", "class": str(name), "state": dict(state)}:
                return self._build(self._class("dataclass", name), self._decode_each(state))
        raise damaged(self.path, f"has an unknown value: {json.dumps(node)[:80]}")

    def _decode_each(self, nodes: dict[str, Node]) -> dict[str, Any]:
        return {name: self.decode(node) for name, node in nodes.items()}

    def _decode_strings(self, dtype: str, shape: list[Any], items: list[Any]) -> np.ndarray:
        is_valid = all(type(n) is int and n >= 0 for n in shape) and all(isinstance(item, str) for item in items)
        if not is_valid or math.prod(shape) != len(items):
            raise damaged(self.path, f"has {len(items)} strings as an array of shape {shape}")
        return np.array(items, dtype=object if dtype == "object" else str).reshape(shape)

    def _decode_tensor(self, node: dict[str, Any]) -> Tensor | np.ndarray | np.generic:
        tensor = self.tensors.get(node["tensor"])
        if tensor is None or [node["dtype"], node["shape"]] != [_dtype_name(tensor), list(tensor.shape)]:
            name = f"the tensor {node['tensor']!r}, {node['dtype']} of shape {node['shape']}"
            raise damaged(self.path, f"asks for {name}, which is not in the tensor file")
        if node["kind"] == "tensor":
            return tensor
        if _dtype_name(tensor) not in _DTYPES:
            raise damaged(self.path, f"asks for an array of type {node['dtype']}, which NumPy does not have")
        array = tensor.numpy().T if node.get("order") == "F" else tensor.numpy()
        return array[()] if node["kind"] == "scalar" else array

    def _class(self, kind: str, name: str) -> type[Any]:
        cls = self.classes.get((kind, name))
        if cls is None:
            raise damaged(self.path, f"asks for the {kind} {name!r}, which this version of flowratio does not have")
        return cls

    def _build(self, cls: type, arguments: dict[str, Any]) -> Any:
        try:
            return cls(**arguments)
        except Exception as error:  # each constructor refuses in its own way
            raise damaged(self.path, f"has arguments that {cls.__name__} refuses ({error})") from error

    def _decode_module(self, kind: str, name: str, config: dict[str, Any], state: dict[str, Any]) -> nn.Module:
        cls = self._class(kind, name)
        if "generator" in inspect.signature(cls).parameters:
            config["generator"] = torch.Generator()  # its weights are replaced at once
        module: nn.Module = self._build(cls, config)
        tensors = {key: value for key, value in state.items() if isinstance(value, Tensor)}
        module.to(next((value.dtype for value in tensors.values() if value.is_floating_point()), torch.float32))
        expected = {key: (value.dtype, value.shape) for key, value in module.state_dict().items()}
        actual = {key: (value.dtype, value.shape) for key, value in tensors.items()}
        if actual != expected or len(tensors) < len(state):
            raise damaged(self.path, f"has weights that do not fit the {name} of its arguments")
        module.load_state_dict(tensors)
        return module.eval()

    def _decode_estimator(self, kind: str, name: str, state: dict[str, Node]) -> BaseEstimator:
        cls = self._class(kind, name)
        values, settings = self._decode_state(name, state), inspect.signature(cls).parameters
        # a setting that came with a later version has its default
        defaults = {key: p.default for key, p in settings.items() if p.default is not p.empty}
        of_class = [getattr(cls, key, None) for key in values.keys() - settings.keys()]
        hides = any(callable(value) or isinstance(value, property) for value in of_class)
        if hides or not settings.keys() <= defaults.keys() | values.keys():
            raise damaged(self.path, f"does not have the attributes of a {name}")
        model = object.__new__(cls)
        vars(model).update(defaults | values)
        for value in values.values():
            if isinstance(value, nn.Module):
                _put(value, values.get("device"))
        try:
            rebuild(model)
        except Exception as error:  # scikit-learn refuses in many ways
            raise damaged(self.path, f"has a {name} that cannot be rebuilt ({error})") from error
        return model

    def _decode_state(self, name: str, state: dict[str, Node]) -> dict[str, Any]:
        """Decode the attributes of an estimator, first those that others refer to."""
        links = {key: node for key, node in state.items() if isinstance(node, dict) and node.get("kind") == "fitted"}
        values = self._decode_each({key: node for key, node in state.items() if key not in links})
        for key, node in links.items():
            source = str(node.get("name"))
            if source in links or source not in values:
                raise damaged(self.path, f"asks for {source!r} of {name}, which is not there")
            values[key] = values[source]
        return {key: values[key] for key in state}  # in the order of the constructor again


def _put(module: nn.Module, device: Any) -> None:
    """Move a module to the device of its estimator. If there is no such device, it stays on the CPU."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if isinstance(device, str):
        with suppress(RuntimeError, AssertionError):
            module.to(device)
