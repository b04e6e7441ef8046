"""Hook of mkdocs: run the Python blocks of a page from top to bottom, and show below each block what it prints.

The outputs of a page are stored in build/outputs/ until its blocks or the library change.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tempfile
import warnings
from contextlib import chdir, redirect_stdout

from library_files import ROOT, library_digest
from mkdocs.exceptions import PluginError
from mkdocs.structure.pages import Page

OUTPUTS = ROOT / "build" / "outputs"
BLOCK = re.compile(r"^```python\n(.*?)^```$\n?", re.DOTALL | re.MULTILINE)


def on_page_markdown(markdown: str, page: Page, **more: object) -> str:
    """Return a page with its outputs."""
    try:
        return with_outputs(markdown)
    except Exception as error:
        raise PluginError(f"{page.file.src_uri}: a block fails with {error!r}. Fix the block.") from error


def with_outputs(markdown: str) -> str:
    """Return Markdown in which a block of output follows every Python block that prints."""
    blocks = BLOCK.findall(markdown)
    if not any("print(" in block for block in blocks):
        return markdown
    outputs = iter(stored_outputs(blocks))
    return BLOCK.sub(lambda match: match[0] + as_block(next(outputs)), markdown)


def as_block(output: str) -> str:
    """Return a fenced block of output, or nothing if nothing was printed."""
    return f'\n```text title="Output"\n{output.rstrip()}\n```\n' if output.strip() else ""


def stored_outputs(blocks: list[str]) -> list[str]:
    """Return what each block prints, from build/outputs/ if these blocks ran before with the same library."""
    key = hashlib.sha256(json.dumps([blocks, library_digest()]).encode()).hexdigest()[:24]
    path = OUTPUTS / f"{key}.json"
    if not path.exists():
        outputs = printed(blocks)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(outputs), encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


def printed(blocks: list[str]) -> list[str]:
    """Run blocks in one namespace, in an empty folder, and return what each of them prints."""
    namespace: dict[str, object] = {"__name__": "page"}
    outputs = []
    with tempfile.TemporaryDirectory() as folder, chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("error")
        for block in blocks:
            with redirect_stdout(io.StringIO()) as stream:
                exec(compile(block, "<page>", "exec"), namespace)  # noqa: S102
            outputs.append(stream.getvalue())
    return outputs
