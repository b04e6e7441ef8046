from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from flowratio_paper.motivating import METHODS, PRESETS, TITLE
from flowratio_paper.running import reproduce
from flowratio_paper.verdicts import Answer


def test_quick(tmp_path: Path) -> None:
    report, paths = reproduce("motivating", "quick", tmp_path, verbose=False)
    assert [path.name for path in paths] == ["motivating-quick.json", "motivating-quick.png"]
    (table,) = report.tables
    assert [line[0] for line in table.lines] == [f"{m:g}" for m in PRESETS["quick"].shifts]
    assert list(table.head[1:4]) == list(METHODS)
    # at m = 6 samples of 300 overlap once in 10⁶ draws; at m = 1 slopes are off by a tenth; at m = 3 there are ten
    # times the rows of the paper's bound but not of the exact one, and most slopes are off by half or infinite
    verdicts = [claim.verdict for claim in report.claims]
    assert [*verdicts[:2], *verdicts[3:]] == [Answer.YES] * 5
    assert verdicts[2] is not Answer.YES


def test_quick_says_that_it_is_no_comparison(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    code, out, err = run("reproduce", "motivating", "-o", tmp_path, "--jobs", "1", "--quiet")
    assert (code, err) == (0, "")
    title, first, second = out.splitlines()[:3]
    assert title == TITLE
    assert first.startswith("quick is a small problem that shows that everything runs. Do not compare")
    assert second.startswith("Slope / true slope")
