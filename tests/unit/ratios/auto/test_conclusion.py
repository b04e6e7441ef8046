from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flowratio import AutoRatio, FeaturizedRatio, FlowFeaturizer
from flowratio.ratios.auto.conclusion import _only_latent, _without_score, rounded_up, untried_sentence
from flowratio.ratios.auto.results import AutoResults, Candidate, Status


def latent(name: str, status: Status, detail: str = "") -> Candidate:
    return Candidate(name, True, status=status, detail=detail)


@pytest.mark.parametrize(("seconds", "text"), [(0.2, 1), (3.2, 4), (99.5, 100), (101, 110), (1234, 1300), (240, 240)])
def test_seconds_are_rounded_up_to_two_digits(seconds: float, text: int) -> None:
    assert rounded_up(seconds) == text


def test_what_was_not_tried_is_listed_with_a_budget() -> None:
    entries = [Candidate("lda", False), *(Candidate(name, False, status=Status.NO_TIME) for name in ("kliep", "mlp"))]
    expected = "The budget was enough to try 1 of 3 candidates in full, and the best are used."
    expected += " All would take a budget of about 250 s."
    assert untried_sentence(entries, 200.0) == expected  # a quarter more
    assert untried_sentence(entries[:1], 200.0) == ""


def test_stopped_early_is_not_the_same_as_no_help() -> None:
    stopped = latent("mlp in z", Status.STOPPED, "after 1 of 5 folds")
    worse = "The candidates in latent space were clearly worse after 1 of 5 folds."
    assert _without_score([stopped]) == worse
    unknown = _without_score([stopped, latent("kliep in z", Status.NO_TIME)])
    assert unknown.endswith(
        "(missing: kliep in z), so it is unknown whether the flow helps. Use a larger budget to find out."
    )
    nothing = "No candidate in latent space was fully evaluated, so it is unknown whether the flow helps."
    assert _without_score([latent("mlp in z", Status.NO_TIME)]) == f"{nothing} Use a larger budget to find out."
    assert _without_score([latent("mlp in z", Status.FAILED)]) == nothing
    assert _without_score([]) == ""  # nobody asked


def test_the_flow_is_not_compared_with_no_ratio() -> None:
    stopped = [Candidate(name, False, status=Status.STOPPED, detail="after 1 of 2 folds") for name in ("lda", "qda")]
    expected = "The flow helped: the candidates without it were clearly worse after 1 of 2 folds."
    assert _only_latent(stopped) == expected
    untried = Candidate("mlp", False, status=Status.NO_TIME)
    assert "so it is unknown whether the flow helps. Use a larger budget" in _only_latent([*stopped, untried])
    assert _only_latent([]) == ""


def test_the_flow_is_clearly_worse_after_some_folds() -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(0.7, 1, (600, 2)), rng.normal(size=(600, 2))
    flow = FlowFeaturizer(n_blocks=1, hidden=(8,), max_epochs=2, patience=2)

    class Wrong(FeaturizedRatio):
        def _log_ratio(self, X: Any) -> Any:
            return -super()._log_ratio(X)

    ratio = AutoRatio({"lda": "lda", "in z": Wrong("lda", featurizer=flow)}, random_state=0).fit_samples(X_p, X_q)
    assert ratio.results_.verdict == "The candidates in latent space were clearly worse after 1 of 5 folds."


def test_weights_below_one_are_explained_where_they_are_printed() -> None:
    entries = [Candidate("lda", False, weight=0.6), Candidate("mlp", False, weight=0.28)]
    results = AutoResults(entries, "The flow helped.")
    note = "The rest, 0.12, is the weight of r = 1, which shrinks log r toward 0."
    assert str(results).splitlines()[-2:] == [note, "The flow helped."]
    assert note in results._repr_html_()
    for weights in ((0.6, 0.4), (0.0, 0.0)):
        entries = [Candidate(str(k), False, weight=weight) for k, weight in enumerate(weights)]
        assert "The rest" not in str(AutoResults(entries))
