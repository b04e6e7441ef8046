"""The paper package is a user of the library: it imports public names only."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import flowratio
import flowratio_paper

MODULES = sorted(Path(str(flowratio_paper.__file__)).parent.glob("*.py"))


def private_imports(source: str) -> list[str]:
    """Return the imports of a module from the library other than `from flowratio import <public name>`."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            lines += [one.name for one in node.names if one.name.split(".")[0] == "flowratio"]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            names = [one.name for one in node.names]
            if node.module == "flowratio":
                lines += [name for name in names if name not in flowratio.__all__]
            elif node.module.startswith("flowratio."):
                lines += [f"{node.module}.{name}" for name in names]
    return lines


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_imports_public_names_only(path: Path) -> None:
    assert private_imports(path.read_text(encoding="utf-8")) == []


def test_no_class_shares_a_name_with_the_library() -> None:
    names = [
        node.name
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert not set(names) & set(flowratio.__all__)


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("from flowratio import KMM, stack", []),
        ("from flowratio_paper.data import find", []),
        ("from flowratio import _support", ["_support"]),
        ("import flowratio.weights", ["flowratio.weights"]),
        ("def f():\n    from flowratio.weights import temper", ["flowratio.weights.temper"]),
    ],
)
def test_private_imports_are_detected(source: str, lines: list[str]) -> None:
    assert private_imports(source) == lines
