"""The folder of the repository, and a hash of the library: stored outputs of other sources are not used."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def library_digest() -> str:
    """Return a hash of all source files of the library."""
    files = sorted((ROOT / "src" / "flowratio").rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
