from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


def missing(words: str) -> None:
    """Skip a test for want of a browser; on the machine that checks every commit, fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(words)
    pytest.skip(words)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chrome]:
    paths = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in paths:
        missing("No browser to open the report in: apt-get install chromium chromium-driver")
    try:
        from selenium.webdriver import Chrome, ChromeOptions, ChromeService
    except ImportError:
        missing("No driver of the browser: pip install selenium")
        raise
    options = ChromeOptions()
    options.binary_location = paths[0] or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options, ChromeService(paths[1]))
    yield driver
    driver.quit()
