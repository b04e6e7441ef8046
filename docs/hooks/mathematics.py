"""Hook of mkdocs: mathematics becomes MathML when the pages are built, so that a reader needs no script for it.

A block is fenced as `math`, on GitHub too. In a line it is `#!math …` in backticks. `docstrings.py` writes both.
"""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig

LOG = re.compile(r"(?<!<msub>|<msup>)<mi>log</mi>")  # not one that has an index


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Register the functions that write formulas, for both extensions of Markdown."""
    settings = config.mdx_configs
    settings.setdefault("pymdownx.superfences", {})["custom_fences"] = [
        {"name": "math", "class": "math", "format": block}
    ]
    settings.setdefault("pymdownx.inlinehilite", {})["custom_inline"] = [
        {"name": "math", "class": "math", "format": inline}
    ]
    return config


def block(source: str, language: str, css_class: str, options: Any, md: Any, **more: Any) -> str:
    """Return a formula that stands alone."""
    return f'<div class="formula" tabindex="0">{_spaced(convert(source, display="block"))}</div>'


def inline(source: str, language: str, css_class: str, md: Any) -> str:
    """Return a formula in a line."""
    return _spaced(convert(source))


def _spaced(mathml: str) -> str:
    """Put a thin space after each log, which the converter leaves out."""
    return LOG.sub(r'\g<0><mspace width="0.17em"/>', mathml)
