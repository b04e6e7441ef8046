from __future__ import annotations

from flowratio._support.wording import listed, nearest


def test_long_list_is_cut() -> None:
    assert (listed(["age", "job"]), listed(range(10))) == ("'age', 'job'", "0, 1, 2, 3, 4, 5, 6, 7 and 2 more")


def test_nearest_choice_is_suggested() -> None:
    assert (nearest("agee", ["age", "job"]), nearest("x", ["age", "job"])) == (" Did you mean 'age'?", "")
