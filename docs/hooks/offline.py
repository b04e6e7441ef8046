"""Hook of mkdocs: refuse a page that would fetch anything from elsewhere."""

from __future__ import annotations

import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.pages import Page

FETCHED = re.compile(
    r'<(?:script|img|iframe|source)[^>]*\ssrc="(?:https?:)?//[^"]*"|<link[^>]*href="(?:https?:)?//[^"]*"'
    r'|data-md-component="source"'  # the script of the theme asks GitHub for the number of stars
)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Return the page unchanged, if nothing in it comes from elsewhere."""
    if match := FETCHED.search(output):
        raise PluginError(f"{page.file.src_uri} would fetch {match[0]}. Keep it in docs/, or leave it out.")
    return output
