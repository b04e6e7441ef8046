"""How the folder of a model is recognized. Only the standard library is imported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flowratio._support.types import PathLike

MODEL_FILE = "model.json"
_HEAD = b'{\n "format": "flowratio",'  # how every `model.json` of ours begins


def is_model(folder: Path) -> bool:
    """Return whether the `model.json` of a folder begins like those of `save`."""
    path = folder / MODEL_FILE
    return path.is_file() and path.read_bytes().startswith(_HEAD)


def model_file(folder: PathLike) -> Path:
    """Return the path of the `model.json` of a folder. Refuse a folder without it."""
    path = Path(folder) / MODEL_FILE
    if not path.parent.exists():
        raise FileNotFoundError(f"There is no folder {folder}. Check the path.")
    if not path.parent.is_dir():
        raise NotADirectoryError(f"{folder} is a file, but a model is a folder. Use the folder that `save` wrote.")
    if not path.is_file():
        raise FileNotFoundError(f"{folder} has no file {MODEL_FILE}, so it is not a model. Check the path.")
    return path
