"""Public names, written once below `if TYPE_CHECKING:`, and imported at first use: a light job loads nothing heavy."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def lazily(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a module whose public names are written once in its `file`."""
    module_of = public_names(Path(file))

    def find(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(module_of[name]), name)
        setattr(sys.modules[package], name, value)  # the next look-up does not come here
        return value

    return find, lambda: sorted(module_of), list(module_of)


def public_names(file: Path) -> dict[str, str]:
    """Return the names that a module imports below `if TYPE_CHECKING:`, in order, with their modules. * is resolved."""
    module_of: dict[str, str] = {}
    for block in ast.parse(file.read_text(encoding="utf-8")).body:
        if not (isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"):
            continue
        for line in block.body:
            if isinstance(line, ast.ImportFrom) and line.module and line.names[0].name == "*":
                spec = find_spec(line.module)  # its source is read, it is not imported
                module_of |= public_names(Path(str(spec and spec.origin)))
            elif isinstance(line, ast.ImportFrom) and line.module:
                module_of |= dict.fromkeys([alias.name for alias in line.names], line.module)
    return module_of
