"""Hook of mkdocs: the search dialog gets a name, which the theme leaves out and screen readers need."""

from __future__ import annotations

DIALOG = 'data-md-component="search" role="dialog"'


def named(page: str) -> str:
    """Return a page whose search dialog has a name."""
    return page.replace(DIALOG, f'{DIALOG} aria-label="Search"')


def on_post_page(output: str, **more: object) -> str:
    """Name the search dialog of a page."""
    return named(output)
