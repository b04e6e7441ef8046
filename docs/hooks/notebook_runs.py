"""Execute notebooks in a fresh kernel of this Python. Nothing is written outside of a temporary folder and build/."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from library_files import ROOT, library_digest
from nbclient import NotebookClient

RUNS = ROOT / "build" / "notebooks"
SECONDS = 600  # for one cell, on a busy machine


def executed(notebook: Any) -> Any:
    """Run the cells of a notebook in an empty folder, and return the notebook with their outputs."""
    with tempfile.TemporaryDirectory() as folder:
        manager = AsyncKernelManager(
            kernel_spec_manager=KernelSpecManager(kernel_dirs=[]),  # the kernel of this Python, whatever is installed
            connection_file=str(Path(folder, "connection.json")),
            transport="tcp" if sys.platform == "win32" else "ipc",  # no other user can connect
        )
        settings = {"timeout": SECONDS, "coalesce_streams": True, "resources": {"metadata": {"path": folder}}}
        client = NotebookClient(notebook, km=manager, **settings)
        client.execute(env=environment(folder), cleanup_kc=True)
    return notebook


def environment(folder: str) -> dict[str, str]:
    """Return the environment of a kernel: this library, a new user without settings, files in a folder only."""
    names = ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    env = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    return {**env, **{name: str(Path(folder, name)) for name in names}, "PYTHONPATH": path}


def stored_run(path: Path) -> Any:
    """Return a notebook with outputs, from build/notebooks/ if it ran before with the same library."""
    source = path.read_bytes()
    key = hashlib.sha256(source + library_digest().encode()).hexdigest()[:24]
    run = RUNS / f"{path.stem}-{key}.ipynb"
    if not run.exists():
        notebook = executed(nbformat.reads(source.decode(), as_version=4))
        if problems := [text for text in error_texts(notebook) if "Warning" in text]:
            raise RuntimeError(f"{path.name} issues a warning: {problems[0]}")
        run.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, run)
    return nbformat.read(run, as_version=4)


def error_texts(notebook: Any) -> Iterator[str]:
    """Yield what the cells of a notebook wrote to standard error."""
    for output in (one for cell in notebook.cells for one in cell.get("outputs", [])):
        if output.get("name") == "stderr":
            yield output.text
