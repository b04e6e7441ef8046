from __future__ import annotations

import json
from pathlib import Path

from flowratio_paper.running import Outcome, reproduce
from flowratio_paper.toy import PRESETS, strategies, values
from flowratio_paper.toy_fits import AUTO, LOGISTIC_X, LOGISTIC_Z
from flowratio_paper.verdicts import Answer


def test_quick(tmp_path: Path) -> None:
    report, paths = reproduce("toy", "quick", tmp_path, verbose=False)
    names = ["toy-quick.json", "toy-quick.png", "toy-quick-encodings.png", "toy-quick-data.png"]
    assert [path.name for path in paths] == names
    assert paths[0].stat().st_size < 300_000
    outcomes = [Outcome(**one) for one in json.loads(paths[0].read_text())["runs"]]
    settings = PRESETS["quick"]
    for method in strategies(settings):
        for penalty in settings.penalties:
            # log r = 0 has an error of 81 + 18
            assert 0 < values(outcomes, method, penalty, "all")[0] < 60
    # right in x and wrong in z: the error of a linear fit to 2500 rows each is far below one
    linear, latent, auto = (values(outcomes, name, None, "all")[0] for name in (LOGISTIC_X, LOGISTIC_Z, AUTO))
    assert max(linear, auto) < 1 < 5 < latent
    first, near, plain, scaled = report.tables
    assert [line[0] for line in first.lines] == [line[0] for line in near.lines] == strategies(settings)
    assert [line[0] for line in scaled.lines] == ["joint 0.1"]
    assert "[8.7]" in first.lines[0][2]
    assert "[7.7]" in first.lines[1][2]
    assert "[151]" in plain.lines[1][1]
    assert {claim.verdict for claim in report.claims} == {Answer.INCONCLUSIVE}  # one run
