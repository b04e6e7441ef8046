"""The map in CONTRIBUTING.md has every folder of the package, in the order of the layers."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "flowratio"


def map_lines() -> list[tuple[str, str]]:
    """Return path and description of each line of the map."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```text\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 1
    pairs = [line.split(maxsplit=1) for line in blocks[0].splitlines()]
    return [(path, description) for path, description in pairs]


def layers() -> list[set[str]]:
    """Return the layers of import-linter, the lowest first."""
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = re.search(r'^containers = \["flowratio"\]\nlayers = (\[.*?^\])', settings, re.DOTALL | re.MULTILINE)
    assert block is not None
    return [set(re.split(r" [|:] ", layer)) for layer in reversed(ast.literal_eval(block[1]))]


def test_map_has_every_folder_and_nothing_else() -> None:
    folders = {f"{path.parent.relative_to(PACKAGE).as_posix()}/" for path in PACKAGE.rglob("*") if path.is_file()}
    folders = {folder for folder in folders if "__pycache__" not in folder and folder != "./"}
    modules = {path.name for path in PACKAGE.glob("*.py")}
    paths = [path for path, _ in map_lines()]
    assert len(paths) == len({*paths})
    assert {*paths} == folders | modules


def test_map_is_in_the_order_of_the_layers() -> None:
    level = {name: k for k, names in enumerate(layers()) for name in names}
    levels = [level[path.split("/")[0].removesuffix(".py")] for path, _ in map_lines() if path != "__init__.py"]
    assert levels == sorted(levels)


def test_new_ratio_and_flow_name_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = [path for path in re.findall(r"`((?:src|tests)/[\w./]+)`", text) if "NAME" not in path]
    assert len(paths) > 5
    assert [path for path in paths if not (ROOT / path).exists()] == []
