from __future__ import annotations

import json
from pathlib import Path

from flowratio.experiments.adaptation_trials import HONEST, chosen, unweighted
from flowratio.experiments.mixtures import BY_CLASS, EXACT
from flowratio.experiments.running import reproduce


def test_quick(tmp_path: Path) -> None:
    report, paths = reproduce("mixtures", "quick", tmp_path, verbose=False)
    assert [path.name for path in paths] == ["mixtures-quick.json", "mixtures-quick.png"]
    results = [one["result"] for one in json.loads(paths[0].read_text())["runs"]]
    assert len(results) == 2
    none = unweighted(results).mean()
    # all runs see the same ten rows of a class: the order holds in each of them
    for result in results:
        assert result[BY_CLASS][0] < 0.02 < result[EXACT][0] < result["none"][0]
    for method in ("KMM", "KLIEP"):
        for space in ("x", "z"):
            assert 0 <= chosen(results, space, method, HONEST).mean() < none
    table, wrong = report.tables
    assert [line[0] for line in table.lines[:3]] == ["none", EXACT, BY_CLASS]
    assert "[.236]" in table.lines[0][2]
    assert list(wrong.head) == ["method", "x", "z"]
    assert any(claim.holds for claim in report.claims)
