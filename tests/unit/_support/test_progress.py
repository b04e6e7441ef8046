from __future__ import annotations

import math

import pytest

from flowratio._support.progress import in_words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(61.2, "about 1:01 left"), (3725, "about 1:02:05 left"), (-1, "about 0:00 left"), (math.inf, "")],
)
def test_time_left_in_words(seconds: float, text: str) -> None:
    assert in_words(seconds) == text
