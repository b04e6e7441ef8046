from __future__ import annotations

import json
from pathlib import Path

from flowratio_paper.adaptation_trials import HONEST, selected, unweighted
from flowratio_paper.mixtures import BY_CLASS, EXACT
from flowratio_paper.running import reproduce


def test_quick(tmp_path: Path) -> None:
    report, paths = reproduce("mixtures", "quick", tmp_path, verbose=False)
    assert [path.name for path in paths] == ["mixtures-quick.json", "mixtures-quick.png"]
    results = [one["result"] for one in json.loads(paths[0].read_text())["runs"]]
    assert len(results) == 2
    none = unweighted(results).mean()
    # one component has ten rows in the source: far from enough to change this order
    for result in results:
        assert result[BY_CLASS][0] < 0.02 < result[EXACT][0] < result["none"][0]
    for method in ("KMM", "KLIEP"):
        for space in ("x", "z"):
            assert 0 <= selected(results, space, method, HONEST).mean() < none
    table, errors = report.tables
    assert [line[0] for line in table.lines[:3]] == ["none", EXACT, BY_CLASS]
    assert "[.236]" in table.lines[0][2]
    assert list(errors.head) == ["method", "x", "z"]
    words = [claim.words for claim in report.claims]
    assert len(set(words)) == len(words)
    assert sum(one.startswith("Table 5") for one in words) == 4
