from __future__ import annotations

import json
from pathlib import Path

from flowratio_paper.mutual_information import PRESETS, strategies, truth
from flowratio_paper.running import reproduce
from flowratio_paper.verdicts import Answer


def test_quick(tmp_path: Path) -> None:
    report, paths = reproduce("mutual-information", "quick", tmp_path, verbose=False)
    stem = "mutual-information-quick"
    assert [path.name for path in paths] == [f"{stem}.json", f"{stem}.png", f"{stem}-curves.png"]
    settings = PRESETS["quick"]
    exact = truth(settings.columns, settings.correlation)
    runs = json.loads(paths[0].read_text())["runs"]
    actual = {one["task"]["strategy"]: one["result"]["runs"] for one in runs if one["task"]["part"] == "strategy"}
    assert list(actual) == strategies(settings)
    for ones in actual.values():
        for one in ones:
            # 2000 rows: a network may miss a third, one that took p for q would be below 0
            assert 0.6 * exact < one["nats"] < 1.4 * exact
            assert one["curve"][one["epochs"].index(one["kept_epoch"])] == one["nats"]
    for way in ("baseline", "separate"):
        free, bound = actual[way]
        assert bound["nats"] < free["nats"]  # the penalty shrinks logits
    curve = [one for one in runs if one["task"]["part"] == "curve"]
    for one in curve:
        at = truth(one["task"]["columns"], one["task"]["correlation"])
        for nats, error in zip(one["result"]["nats"], one["result"]["standard_errors"], strict=True):
            assert abs(nats - at) < 4 * error + 1e-3  # of 2000 rows chance hides 3 · d / 2000 nats
    assert [len(table.lines) for table in report.tables] == [len(actual), 4, 2, len(curve)]
    verdicts = {claim.words: claim.verdict for claim in report.claims}
    # of one run only what has standard errors of its own, or is said of each run, can be told
    assert {
        answer for words, answer in verdicts.items() if "over ρ and d" not in words and "in each run" not in words
    } == {Answer.INCONCLUSIVE}
    assert Answer.INCONCLUSIVE not in {answer for words, answer in verdicts.items() if "over ρ and d" in words}
