from __future__ import annotations

import json
from pathlib import Path

from flowratio_paper.known_maps import FOLD, MAPS
from flowratio_paper.running import reproduce
from flowratio_paper.theory import ESTIMATORS, PRESETS, SPACES
from flowratio_paper.verdicts import Answer


def test_quick(tmp_path: Path) -> None:
    report, paths = reproduce("theory", "quick", tmp_path, verbose=False)
    figures = [f"theory-quick-{part}.png" for part in ("lemma-1", "corollary-1", "corollary-2")]
    assert [path.name for path in paths] == ["theory-quick.json", *figures]
    runs = json.loads(paths[0].read_text())["runs"]
    quick = PRESETS["quick"]
    assert len(runs) == quick.seeds * (len(MAPS) + 1 + len(quick.methods))
    for run in runs:
        if run["task"]["part"] == "lemma" and run["task"]["map"] != FOLD:
            assert run["result"]["float64"] < 1e-8
            assert run["result"]["jacobian"] > 0.5  # the map is there
    for method in quick.methods:
        actual = [run["result"] for run in runs if run["task"].get("method") == method]
        for space in ("x", "z"):  # ten times the rows: errors fall at least by half, on average
            assert sum(one[space][-1] for one in actual) < 0.5 * sum(one[space][0] for one in actual)
    lemma, bias, consistency = report.tables
    assert len(lemma.lines) == len(MAPS)
    assert len(bias.lines) == len(ESTIMATORS) * len(SPACES) + 1  # and a fold
    assert len(consistency.lines) == 2 * len(quick.methods)
    # the lemma, corollary 1, that counts of two samples have a bias, and that a fold brings one: no matter of luck
    assert [claim.verdict for claim in report.claims[:7]] == [*[Answer.YES] * 5, Answer.NO, Answer.YES]
