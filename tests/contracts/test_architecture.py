"""The shape of the package: few files at the root, short modules and functions, one name for one thing."""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import flowratio
from flowratio import RatioEstimator

tomllib = pytest.importorskip("tomllib")  # Python 3.11
ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "flowratio"
MODULES = sorted(PACKAGE.rglob("*.py"))
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
SWITCHES = r"\b(?:_own_units|_rows|_sign|_takes_draws|_n_draws|_SILENT|_watch|ContextVar|renameat2|ctypes)\b"


def functions(module: Path) -> Iterator[tuple[str, int]]:
    """Yield each function with its number of lines of code: no docstring, comments or blank lines."""
    text = module.read_text(encoding="utf-8")
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            first = node.body[0]
            is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            skipped = range(first.lineno, (first.end_lineno or 0) + 1) if is_docstring else range(0)
            numbers = [n for n in range(node.lineno, (node.end_lineno or 0) + 1) if n not in skipped]
            code = [n for n in numbers if lines[n - 1].strip() and not lines[n - 1].strip().startswith("#")]
            yield f"{module.name}:{node.name}", len(code)


def test_few_modules_at_the_root() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= 4


def test_modules_and_functions_are_short() -> None:
    assert [path.name for path in MODULES if len(path.read_text(encoding="utf-8").splitlines()) > 450] == []
    assert [name for path in MODULES for name, n in functions(path) if n > 60] == []


def test_no_two_public_classes_share_a_name() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in MODULES]
    names = Counter(node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef))
    assert [name for name, n in names.items() if n > 1 and not name.startswith("_")] == []


def test_modules_share_no_name_but_that_of_a_base_class() -> None:
    names = Counter(path.stem for path in MODULES if path.stem != "__init__")
    assert {name for name, n in names.items() if n > 1} == {"base"}


def test_layers_and_the_contract_without_torch_are_short() -> None:
    layers = next(one for one in CONTRACTS if one["type"] == "layers" and one.get("containers") == ["flowratio"])
    without_torch = next(one for one in CONTRACTS if one["type"] == "forbidden")
    assert len(layers["layers"]) == 13
    assert len(without_torch["source_modules"]) <= 15


def test_no_hidden_switches() -> None:
    hits = [(path.name, hit) for path in MODULES for hit in re.findall(SWITCHES, path.read_text(encoding="utf-8"))]
    assert hits == []


def test_the_core_of_the_featurized_ratio_is_short() -> None:
    lines = inspect.getsource(flowratio.FeaturizedRatio._fit).splitlines()
    assert len(lines) <= 4  # the signature and three statements
    assert len(inspect.getsource(flowratio.FeaturizedRatio._log_ratio).splitlines()) == 2


def test_a_ratio_writes_two_methods() -> None:
    assert RatioEstimator.__abstractmethods__ == {"_fit", "_log_ratio"}
