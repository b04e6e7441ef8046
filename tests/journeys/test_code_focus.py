"""Code blocks of the docs that scroll can be focused, also after the theme has removed their place in the tab order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

SCRIPT = Path(__file__).parents[2] / "docs" / "assets" / "focus.js"
CODE = "<pre><code style='display:block;width:50px;overflow:auto'>{}</code></pre>"


def test_code_that_scrolls_can_be_focused(chromium: Chrome, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    script = SCRIPT.read_text(encoding="utf-8")
    page.write_text(
        f"<body>{CODE.format('x' * 80)}{CODE.format('x')}<script>{script}</script></body>", encoding="utf-8"
    )
    chromium.get(page.as_uri())
    state = "return [...document.querySelectorAll('code')].map((one) => one.tabIndex)"
    assert chromium.execute_script(state) == [0, -1]
    chromium.execute_script("document.querySelector('code').removeAttribute('tabindex')")
    assert chromium.execute_script(state) == [0, -1]


def test_every_page_of_the_docs_has_the_script() -> None:
    assert "extra_javascript:\n  - assets/focus.js\n" in (SCRIPT.parents[2] / "mkdocs.yml").read_text(encoding="utf-8")
