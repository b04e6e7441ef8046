"""`diagnose` as a whole: good ratios pass, wrong ones are caught, and all input that ratios take is taken."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.spatial import KDTree
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from flowratio.diagnostics.diagnosis import Diagnosis, diagnose
from flowratio.ratios.advice import advice_on_form
from flowratio.ratios.auto.convex import ConvexRatio
from flowratio.ratios.classifier.classifier import ClassifierRatio
from flowratio.ratios.kernel.kmm import KMM
from flowratio.samples.stacking import stack
from flowratio.tables.encoder import TableEncoder

SHIFT = math.sqrt(2)  # KL 1


class Known:
    """A ratio by its log."""

    def __init__(self, log_ratio: Callable[[np.ndarray], np.ndarray]) -> None:
        self.function = log_ratio

    def log_ratio(self, X: Any) -> np.ndarray:
        return self.function(np.asarray(X))


TRUTH = Known(lambda X: SHIFT * X[:, 0] - SHIFT**2 / 2)


def draw(n: int, seed: int, d: int = 2, shift: float = SHIFT) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X_p, X_q = rng.normal(size=(n, d)), rng.normal(size=(n, d))
    X_p[:, 0] += shift
    return X_p, X_q


def nearest(X_p: np.ndarray, X_q: np.ndarray, size: float) -> Known:
    """Return the ratio that has learned its rows by heart."""
    tree_p, tree_q = KDTree(X_p), KDTree(X_q)
    return Known(lambda X: np.where(tree_p.query(X)[0] < tree_q.query(X)[0], size, -size))


def told(diagnosis: Diagnosis, words: str) -> bool:
    return any(words in warning for warning in diagnosis.warnings)


# Verdicts


def test_well_fitted_ratios_get_no_warning() -> None:
    found = []
    for seed in range(20):
        ratio = ClassifierRatio("logistic").fit_samples(*draw(1000, 1000 + seed))
        found.append(diagnose(ratio, *draw(1000, 2000 + seed), random_state=0, n_repeats=1))
    assert sum(not one.warnings for one in found) >= 18  # 1 in 20 by chance: 3 or more of 20 in 1 of 13 runs
    assert all(one.verdict != "do not use" for one in found)


@pytest.mark.parametrize("seed", range(5))
def test_inverted_ratio_is_caught(seed: int) -> None:
    found = diagnose(Known(lambda X: -TRUTH.log_ratio(X)), *draw(1000, seed), random_state=0)
    assert found.verdict == "do not use"
    assert found.warnings[0].startswith("The ratio may be inverted")
    assert abs(found.balance.after[0]) > abs(found.balance.before[0])
    assert not told(diagnose(TRUTH, *draw(1000, seed), random_state=0), "inverted")


def test_inverted_ratio_of_laws_with_one_mean_is_caught() -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(0, 1.5, (800, 1)), rng.normal(0, 1, (800, 1))
    inverted = Known(lambda X: -0.5 * X[:, 0] ** 2 * (1 - 1 / 1.5**2) + math.log(1.5))
    assert told(diagnose(inverted, X_p, X_q, random_state=0), "may be inverted")


@pytest.mark.parametrize("factor", [3.0, 1 / 3.0, 100.0, 0.01])
def test_wrong_factor_is_caught_and_told(factor: float) -> None:
    found = diagnose(Known(lambda X: TRUTH.log_ratio(X) + math.log(factor)), *draw(1000, 0), random_state=0)
    assert found.verdict == "use with care"  # self-normalized weights do not suffer
    assert len(found.warnings) == 1
    assert told(found, "r is too " + ("large" if factor > 1 else "small") + " by a factor of about")
    assert told(found, "Divide it" if factor > 1 else "Multiply it")
    assert found.identities.bounded.log_factor == pytest.approx(math.log(factor), abs=0.25)
    # a factor cancels in the effective sample size
    assert found.overlap.ess_q == pytest.approx(diagnose(TRUTH, *draw(1000, 0)).overlap.ess_q)
    np.testing.assert_array_equal(found.log_p, TRUTH.log_ratio(draw(1000, 0)[0]) + math.log(factor))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("slope", "how", "cure"),
    [
        (2.0, "overconfident", "a stronger penalty or more rows"),
        (0.5, "underconfident", "a weaker penalty, or use a more flexible ratio"),
    ],
)
def test_advice_goes_the_right_way(slope: float, how: str, cure: str, seed: int) -> None:
    found = diagnose(Known(lambda X: slope * TRUTH.log_ratio(X)), *draw(1000, seed), random_state=0)
    assert told(found, f"the ratio is {how}")
    assert told(found, f"Fit with {cure}")
    assert not told(found, "Use a more flexible ratio")
    assert found.reliability.slope == pytest.approx(1 / slope, rel=0.25)


@pytest.mark.parametrize("seed", range(3))
def test_column_that_a_ratio_misses_is_named(seed: int) -> None:
    X_p, X_q = draw(1000, seed, d=3)
    X_p[:, 2] += 0.8
    found = diagnose(TRUTH, X_p, X_q, random_state=0)
    assert told(found, "The ratio misses x3.")
    assert told(found, "Use a more flexible ratio, such as 'quadratic', 'boosting' or 'auto'.")
    assert not told(found, "penalty")


def test_column_whose_spread_a_ratio_misses_is_named() -> None:
    X_p, X_q = draw(2000, 0, d=3)
    X_p[:, 1] *= 2.0
    found = diagnose(TRUTH, X_p, X_q, random_state=0)
    assert told(found, "The ratio has the wrong form")
    assert told(found, "After weighting, a simple classifier still distinguishes p from q")
    assert told(found, "The ratio misses x2.")


def test_tail_that_cannot_be_told_is_no_heavy_tail() -> None:
    X_p, X_q = draw(1000, 0, shift=0.0)
    X_p[:4, 0] = X_q[:4, 0] = 100.0
    nearly_even = diagnose(Known(lambda X: 0.05 * (X[:, 0] > 50)), X_p, X_q, random_state=0)
    assert nearly_even.overlap.k_hat_q == math.inf
    assert nearly_even.overlap.ess_q > 999
    assert nearly_even.verdict == "reliable"
    few = diagnose(Known(lambda X: 0.3 * X[:, 0]), X_p[500:], draw(20, 1, shift=0.0)[1], random_state=0)
    assert told(few, "Too few rows to fit the tail of the weights: Pareto k̂ is unknown")


@pytest.mark.parametrize("size", [3.0, 800.0])
def test_overfitted_ratio_is_caught_on_held_out_rows_only(size: float) -> None:
    fitted = draw(1000, 0)
    ratio = nearest(*fitted, size)
    found = diagnose(ratio, *draw(1000, 1), random_state=0)
    assert found.verdict == "do not use"
    assert told(found, "overconfident")
    assert told(found, "worse than no ratio")
    assert not told(diagnose(ratio, *fitted, random_state=0), "overconfident")


def test_no_overlap_is_caught() -> None:
    X_p, X_q = draw(500, 0, shift=10.0)
    found = diagnose(Known(lambda X: 10 * X[:, 0] - 50), X_p, X_q, random_state=0)
    assert found.verdict == "do not use"
    assert told(found, "p and q do not overlap")
    assert found.overlap.p_beyond_q.all()


def test_constant_ratio_of_two_laws_leaves_imbalance() -> None:
    found = diagnose(Known(lambda X: np.zeros(len(X))), *draw(500, 0), random_state=0)
    assert told(found, "standardized mean differences are above 0.1 in 1 of 2 columns: x1 (+1.")
    assert told(found, "still distinguishes p from q")


def test_heavy_tail_is_caught() -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = np.exp(rng.exponential(2.0, (2000, 1))), np.exp(rng.exponential(0.95, (2000, 1)))
    log_r = Known(lambda X: -np.log(X[:, 0]) * (1 / 2.0 - 1 / 0.95) + math.log(0.95 / 2.0))
    found = diagnose(log_r, X_p, X_q, random_state=0)  # under q, r is Pareto with 1 - 0.95 / 2 in the exponent
    assert found.overlap.k_hat_q == pytest.approx(0.95 * (1 / 0.95 - 1 / 2.0), abs=0.2)
    steep = diagnose(Known(lambda X: 2 * log_r.log_ratio(X)), X_p, X_q, random_state=0)
    assert told(steep, "Pareto k̂")
    assert "not reliable" in steep.summary()


def test_large_samples_are_not_blamed_for_small_errors() -> None:
    slightly_off = Known(lambda X: 1.03 * TRUTH.log_ratio(X) + 0.03)
    found = diagnose(slightly_off, *draw(50_000, 0), random_state=0, n_repeats=1)
    assert abs(found.identities.bounded.z) > 3
    assert found.verdict == "reliable"


# What comes out


def test_numbers_of_a_known_ratio() -> None:
    X_p, X_q = draw(5000, 0)
    found = diagnose(TRUTH, X_p, X_q, random_state=0)
    np.testing.assert_array_equal(found.log_p, TRUTH.log_ratio(X_p))
    assert found.importance.columns.tolist() == [0, 1]
    spread = np.std(np.concatenate([X_p[:, 0], X_q[:, 0]]))  # 2000 rows of three repeats
    assert found.importance.effect[0] == pytest.approx(SHIFT * spread, rel=0.06)
    ratio = ClassifierRatio("logistic").fit_samples(X_p, X_q)
    assert diagnose(ratio, X_p, X_q).score == pytest.approx(ratio.score(*stack(X_p, X_q)), abs=1e-12)


def test_dictionary_is_ready_for_json_and_keeps_the_flags() -> None:
    X_p, X_q = draw(50, 0)
    found = diagnose(Known(lambda X: 10 * TRUTH.log_ratio(X)), X_p, X_q, random_state=0)
    back = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert back["verdict"] == found.verdict
    assert back["overlap"]["p_beyond_q"] == np.flatnonzero(found.log_p > math.log(50)).tolist()
    assert back["balance"]["before"] == found.balance.before.tolist()
    assert back["leftover"]["auc"] == found.leftover.auc
    assert set(back).isdisjoint({"log_p", "log_q", "log_w"})


def test_numbers_that_are_not_finite_become_none() -> None:
    found = diagnose(Known(lambda X: np.zeros(len(X))), *draw(10, 0), random_state=0)
    assert found.overlap.k_hat_q == -math.inf
    assert found.to_dict()["overlap"]["k_hat_q"] is None


def test_summary_begins_with_the_verdict_and_its_reasons() -> None:
    bad = diagnose(Known(lambda X: -TRUTH.log_ratio(X)), *draw(300, 0, d=12), random_state=0)
    lines = bad.summary().splitlines()
    assert lines[0].startswith("Verdict: do not use")
    assert lines[1].startswith("  - The ratio may be inverted")
    assert "  … and 4 more columns" in lines
    assert f"{bad.score:.3f}" in bad.summary()
    assert repr(bad) == f"<Diagnosis: do not use, {len(bad.warnings)} warnings>"


@pytest.mark.parametrize("size", [0.0, 800.0])
@pytest.mark.parametrize("n", [2, 3, 30])
def test_extreme_ratios_and_few_rows_give_finite_numbers(size: float, n: int) -> None:
    found = diagnose(Known(lambda X: size * np.sign(X[:, 0])), *draw(n, 0), random_state=0)
    plain = found.to_dict()
    k_hats = [plain["overlap"].pop(name) for name in ("k_hat_q", "k_hat_p")]
    assert all(k is None or math.isfinite(k) for k in k_hats)
    assert plain.pop("stability") is None  # the ratio was not cross-fitted
    assert plain["balance"].pop("sources") is not None
    assert plain.pop("remedy") is None
    assert "null" not in json.dumps(plain, allow_nan=False)
    assert found.summary()


def test_same_seed_same_numbers_and_nothing_is_changed() -> None:
    X_p, X_q = draw(200, 0)
    ratio = ClassifierRatio("logistic").fit_samples(X_p, X_q)
    before, copies = dict(vars(ratio)), (X_p.copy(), X_q.copy())
    one, two = (diagnose(ratio, X_p, X_q, random_state=3).to_dict() for _ in range(2))
    assert one == two
    assert vars(ratio) == before
    np.testing.assert_array_equal([X_p, X_q], copies)


# What goes in


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames_give_the_same_numbers_and_their_names(frame: Any) -> None:
    X_p, X_q = draw(200, 0)
    plain = diagnose(ClassifierRatio("logistic").fit_samples(X_p, X_q), X_p, X_q, random_state=0)
    F_p, F_q = (frame({"age": X[:, 0], "income": X[:, 1]}) for X in (X_p, X_q))
    ratio = ClassifierRatio("logistic").fit_samples(F_p, F_q)
    framed = diagnose(ratio, F_p, F_q, random_state=0)
    assert framed.balance.names == framed.importance.names == ["age", "income"]
    np.testing.assert_allclose(framed.importance.effect, plain.importance.effect)
    np.testing.assert_allclose(framed.balance.after, plain.balance.after)
    swapped = [F[["income", "age"]] for F in (F_p, F_q)]
    by_name = diagnose(ratio, *swapped, random_state=0)
    np.testing.assert_array_equal(by_name.log_q, framed.log_q)
    with pytest.raises(ValueError, match="feature names should match"):
        diagnose(ratio, *(frame({"age": X[:, 0], "pay": X[:, 1]}) for X in (X_p, X_q)))


def test_whole_weights_count_rows_and_rows_of_weight_zero_do_not() -> None:
    (X_p, X_q), rng = draw(60, 0), np.random.default_rng(0)
    w_p, w_q = rng.integers(0, 3, 60), rng.integers(0, 4, 60)
    found = diagnose(TRUTH, X_p, X_q, sample_weight_p=w_p, sample_weight_q=w_q, random_state=0)
    expected = diagnose(TRUTH, np.repeat(X_p, w_p, axis=0), np.repeat(X_q, w_q, axis=0), random_state=0)
    assert found.overlap.ess_q == pytest.approx(expected.overlap.ess_q)
    assert vars(found.identities.bounded) == pytest.approx(vars(expected.identities.bounded))
    np.testing.assert_allclose(found.reliability.observed, expected.reliability.observed)
    np.testing.assert_allclose(found.balance.after, expected.balance.after)
    assert len(found.overlap.p_beyond_q) == 60


def test_weights_that_are_not_whole_shift_the_sample() -> None:
    X_p, X_q = draw(4000, 0)
    # rows of q weighted by the true ratio are rows of p, and the ratio of p to p is 1
    flat = diagnose(Known(lambda X: np.zeros(len(X))), X_p, X_q, sample_weight_q=np.exp(TRUTH.log_ratio(X_q)))
    assert flat.verdict == "reliable"
    assert abs(flat.balance.before[0]) < 0.15


def test_pipeline_that_ends_with_a_ratio() -> None:
    X, y = stack(*draw(300, 0))
    pipeline = make_pipeline(StandardScaler(), ClassifierRatio("logistic")).fit(X, y)
    assert diagnose(pipeline, *draw(300, 1), random_state=0).score > 0.1


def test_pipeline_that_encodes_a_table() -> None:
    (P, p_out), (Q, q_out) = ([_table(shift, seed) for seed in (0, 1)] for shift in (1.0, 0.0))
    y = np.repeat([1, 0], [len(P), len(Q)])
    pipeline = make_pipeline(TableEncoder(), ClassifierRatio("lda")).fit(pl.concat([P, Q]), y)
    diagnosis = diagnose(pipeline, p_out, q_out, random_state=0)
    assert diagnosis.score > 0.05
    assert diagnosis.importance.names[0] == "age"
    np.testing.assert_allclose(diagnosis.log_p, pipeline.score_samples(p_out))


def _table(shift: float, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng([seed, int(shift)])
    return pl.DataFrame({"age": rng.normal(shift, 1, 200), "job": rng.choice(["baker", "clerk", "judge"], 200)})


@pytest.mark.parametrize("n", [0, 1])
def test_a_table_with_too_few_rows_is_refused(n: int) -> None:
    P, Q = _table(1.0, 0), _table(0.0, 0)
    ratio = ClassifierRatio("lda").fit_samples(P, Q)
    with pytest.raises(ValueError, match=f"`X_p` has {n} rows?. A sample must have at least 2 rows"):
        diagnose(ratio, P[:n], Q)
    with pytest.raises(ValueError, match=f"`X_q` has {n} rows?. A sample must have at least 2 rows"):
        diagnose(ratio, P, Q[:n])


@pytest.mark.parametrize("form", [np.asarray, pd.DataFrame, pl.DataFrame])
def test_missing_values_for_a_ratio_of_numbers_are_refused(form: Callable[[Any], Any]) -> None:
    X_p, X_q = draw(300, 0)
    ratio = ClassifierRatio("lda").fit_samples(X_p, X_q)
    X_q[3, 1] = np.nan
    with pytest.raises(ValueError, match="`X_q` has text, dates or missing values, which `ratio` was not fitted to"):
        diagnose(ratio, form(X_p), form(X_q))


@pytest.mark.parametrize("unit", [1e-200, 1e-4, 1e150])
def test_units_do_not_matter(unit: float) -> None:
    X_p, X_q = draw(100, 0)
    plain = diagnose(TRUTH, X_p, X_q, random_state=0)
    scaled = Known(lambda X: TRUTH.log_ratio(X / unit))
    other = diagnose(scaled, unit * X_p, unit * X_q, random_state=0)
    np.testing.assert_allclose(other.balance.after, plain.balance.after, rtol=1e-6)
    assert other.leftover == pytest.approx(plain.leftover, rel=1e-4)
    assert other.warnings == plain.warnings


@pytest.mark.parametrize("ratio", [ClassifierRatio, LogisticRegression(), None])
def test_what_is_no_ratio_is_refused(ratio: Any) -> None:
    with pytest.raises(TypeError, match=r"`ratio` is .*\. Use "):
        diagnose(ratio, *draw(10, 0))


def test_unfitted_pipelines_and_other_columns_are_refused() -> None:
    with pytest.raises(NotFittedError):
        diagnose(make_pipeline(StandardScaler(), ClassifierRatio("logistic")), *draw(10, 0))
    ratio = ClassifierRatio("logistic").fit_samples(*draw(300, 0, d=3))
    with pytest.raises(ValueError, match="2 features, but"):
        diagnose(ratio, *draw(10, 0))


def test_wrong_rows_and_weights_are_refused() -> None:
    X_p, X_q = draw(10, 0)
    with pytest.raises(ValueError, match="`X_q` has shape"):
        diagnose(TRUTH, X_p, X_q[:1])
    with pytest.raises(
        ValueError, match=r"`X_p` has 2 columns but `X_q` has 1\. Both samples must have the same columns"
    ):
        diagnose(TRUTH, X_p, X_q[:, :1])
    with pytest.raises(ValueError, match="`sample_weight_p` has shape"):
        diagnose(TRUTH, X_p, X_q, sample_weight_p=np.ones(3))
    with pytest.raises(ValueError, match="`sample_weight_q` is negative on 10 of 10 rows"):
        diagnose(TRUTH, X_p, X_q, sample_weight_q=-np.ones(10))
    with pytest.raises(ValueError, match="is positive on 1 rows"):
        diagnose(TRUTH, X_p, X_q, sample_weight_q=np.eye(10)[0])
    with pytest.raises(ValueError, match="`sample_weight_p` is zero on all 10 rows"):
        diagnose(TRUTH, X_p, X_q, sample_weight_p=np.zeros(10))
    with pytest.raises(ValueError, match="`n_repeats` is 0"):
        diagnose(TRUTH, X_p, X_q, n_repeats=0)
    with pytest.raises(
        ValueError, match=r"for 20 rows, with 20 NaN and 0 infinite values\. .* finite number for each row"
    ):
        diagnose(Known(lambda X: np.full(len(X), np.nan)), X_p, X_q)


# Cross-fitting


def test_unfitted_ratio_is_cross_fitted_on_all_rows() -> None:
    X_p, X_q = draw(400, 0)
    found = diagnose(ClassifierRatio("logistic"), X_p, X_q, random_state=0)
    assert (found.n_folds, found.n_p, found.n_q, len(found.log_q)) == (5, 400, 400, 400)
    assert found.verdict == "reliable"
    assert np.mean((found.log_p - TRUTH.log_ratio(X_p)) ** 2) < 0.1  # 3 coefficients of 640 rows: 0.02
    again = diagnose("logistic", X_p, X_q, random_state=0)
    np.testing.assert_array_equal(again.log_p, found.log_p)
    fitted = ClassifierRatio("logistic").fit_samples(X_p, X_q)
    assert np.abs(found.log_p - fitted.log_ratio(X_p)).max() > 0  # no model has seen the row
    assert found.stability is not None
    # 3 coefficients of 800 rows, with a Fisher information of about 0.15 a row: 3 / 120
    assert found.stability == pytest.approx(0.025, abs=0.025)


def test_memory_of_rows_is_no_evidence() -> None:
    """A ratio that has learned its rows by heart looks perfect on them, and is caught by the cross-fit."""

    class Nearest:
        def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: Any = None) -> Nearest:
            self.known_ = nearest(X[y == 1], X[y == 0], 3.0)
            return self

        def log_ratio(self, X: np.ndarray) -> np.ndarray:
            return self.known_.log_ratio(X)

    X_p, X_q = draw(300, 0, shift=0.5)
    assert diagnose(Nearest(), X_p, X_q, random_state=0).verdict == "do not use"


@pytest.mark.parametrize(("ratio", "n_shared"), [("logistic", 200), ("boosting", 200), ("logistic", 360)])
def test_effective_sample_size_of_many_categories_is_that_of_the_true_ratio(ratio: str, n_shared: int) -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 400, 3000), rng.integers(400 - n_shared, 800 - n_shared, 3000)
    P, Q = (pl.DataFrame({"shop": [f"s{k}" for k in of], "x": rng.normal(size=3000)}) for of in codes)
    diagnosis = diagnose(ClassifierRatio(ratio, random_state=0), P, Q, random_state=0)
    # r is 0 on rows of q with another shop, and constant on the others. A shop has 7.5 rows of each sample. Shrunken
    # log-odds of so few rows have a variance below 0.15, which lowers the size by as much
    assert diagnosis.overlap.ess_q == pytest.approx(3000 * n_shared / 400, rel=0.15)
    # the log-odds of true ratios that vary as much would be shrunken as well, so the error has room for it
    assert diagnosis.overlap.ess_low > 0.65 * diagnosis.overlap.ess_q
    assert diagnosis.verdict != "reliable"
    assert diagnosis.log_q.max() > 3  # of held-out rows whose shop has no other row of q. Scores use it
    assert diagnosis.log_w.max() < np.quantile(diagnosis.log_w, 0.9) + 3


def test_what_the_automatic_choice_did_not_try_is_part_of_the_verdict() -> None:
    note = "2 of 3 candidates were not fully tried for lack of time. A budget of about 60 s would suffice."
    samples, others = draw(1000, 0, shift=0.5), draw(1000, 1, shift=0.5)
    unfitted = ConvexRatio(["logistic"], note=note)
    fitted = ConvexRatio(["logistic"], note=note).fit_samples(*samples)
    for diagnosis in (diagnose(unfitted, *samples, random_state=0), diagnose(fitted, *others, random_state=0)):
        assert diagnosis.verdict == "reliable"  # all checks pass
        assert (diagnosis.warnings, diagnosis.notes) == ([], [note])
        assert f"Note: {note}" in " ".join(str(diagnosis).split())
        assert "0 warnings>" in repr(diagnosis)
        assert note.split(".")[0] in " ".join(diagnosis.summary().split())


@pytest.mark.parametrize(
    ("ratio", "advice"),
    [
        ("logistic", "Use a more flexible ratio, such as 'quadratic', 'boosting' or 'auto'."),
        (ClassifierRatio("boosting", calibration=None), "Use a more flexible ratio, such as 'quadratic' or 'auto'."),
        (make_pipeline(StandardScaler(), ClassifierRatio("quadratic")), "such as 'boosting' or 'auto'."),
        ("auto", ""),
        (None, ""),
        (ConvexRatio(["lda"], note=""), ""),
    ],
)
def test_advice_names_no_ratio_that_was_used(ratio: Any, advice: str) -> None:
    assert advice_on_form(ratio).endswith(advice)
    assert bool(advice_on_form(ratio)) == bool(advice)


def test_a_constant_that_separates_has_no_advice_on_the_slope() -> None:
    X_p, X_q = draw(300, 0)
    X_p[:, 1], X_q[:, 1] = 1.0, 2.0
    diagnosis = diagnose(KMM(), X_p, X_q, random_state=0)
    assert diagnosis.verdict == "do not use"
    assert told(diagnosis, "x2 alone separates p and q: p and q do not overlap")
    assert "Effective sample size (ESS): it cannot be estimated" in str(diagnosis)
    assert diagnosis.advice == []
    for words in ("Use 1/r", "The ratio is", "00000", "flexible ratio"):
        assert not told(diagnosis, words)


def test_no_flexible_ratio_is_advice_for_a_column_that_separates() -> None:
    X_p, X_q = draw(500, 0)
    X_p[:, 1] += 50.0
    diagnosis = diagnose(TRUTH, X_p, X_q, random_state=0)
    assert told(diagnosis, "x2 alone separates p and q")
    assert not told(diagnosis, "flexible ratio")


def test_wrong_form_is_caught_on_all_rows() -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(size=(600, 3)), rng.normal(size=(600, 3))
    X_p[:, 1] = 0.8 * X_p[:, 0] + 0.6 * X_p[:, 1]  # all margins are equal
    linear = diagnose("logistic", X_p, X_q, random_state=0)
    assert linear.verdict != "reliable"
    assert told(linear, "The ratio has the wrong form")
    assert diagnose("qda", X_p, X_q, random_state=0).verdict == "reliable"


@pytest.mark.parametrize("ratio", ["logistic", "boosting"])
def test_a_file_against_itself_is_not_inverted(ratio: str) -> None:
    X = np.random.default_rng(0).normal(size=(400, 4))
    found = diagnose(ratio, X, X[::-1], random_state=0)
    assert found.direction.auc == pytest.approx(0.5)
    assert found.leftover.auc == pytest.approx(0.5, abs=0.03)
    assert not told(found, "inverted")
    assert found.verdict != "do not use"


def test_few_treated_and_many_controls_are_used_with_care() -> None:
    """185 rows of p in a corner of 8000 rows of q, as in evaluations of a program: the ratio is good, rows are few."""
    rng = np.random.default_rng(0)
    shift = np.array([1.6, -1.2, 0.6, 0.0])  # KL 2.2
    X_p, X_q = shift + rng.normal(size=(185, 4)), rng.normal(size=(8000, 4))
    found = diagnose("logistic", X_p, X_q, random_state=0)
    assert found.n_q == len(found.log_w) == 8000
    assert found.verdict == "use with care"
    assert 40 < found.overlap.ess_q < 400  # n exp(-4.4) is 98 for the true ratio
    assert found.overlap.ess_low < found.overlap.ess_q < found.overlap.ess_high
    assert np.abs(found.balance.before).max() > 1
    assert np.abs(found.balance.after).max() < 0.35  # 3 standard errors of 98 rows
    assert not any("power" in words for words in found.advice)  # tempering would bring the imbalance back


def test_capping_is_advice_where_held_out_rows_confirm_it() -> None:
    """Noise in log r makes some weights huge. A cap removes the noise, and a cap does no harm without it."""
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(size=(2000, 8)), rng.normal(size=(2000, 8))
    log_r = np.where(rng.random(4000) < 0.002, 7.0, 0.0)
    noisy = Known(lambda X: log_r if len(X) == 4000 else np.zeros(len(X)))
    found = diagnose(noisy, X_p, X_q, random_state=0)
    assert len(found.advice) == 1
    assert found.advice[0].startswith(
        "Cap the weights at 5 times their mean (`self_normalize(cap(ratio.log_ratio(X_q), 5))`): on held-out rows this "
        "lowers"
    )
    assert found.to_dict()["advice"][0].startswith("Cap the weights at 5 times their mean (`--cap 5`): on held-out")
    assert diagnose(TRUTH, *draw(1000, 0), random_state=0).advice == []


def test_no_change_of_weights_is_advice_without_overlap() -> None:
    """A cap may bring column means a little closer, but no weights represent rows of p that lie beyond q."""
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(size=(1000, 8)), rng.normal(size=(1000, 8))
    log_r = np.where(rng.random(2000) < 0.004, 7.0, 0.0)
    noisy = Known(lambda X: log_r if len(X) == 2000 else np.zeros(len(X)))
    assert diagnose(noisy, X_p, X_q, random_state=0).advice
    X_p[:600, 0] += 50.0  # more than half of the rows of p lie beyond q
    assert diagnose(noisy, X_p, X_q, random_state=0).advice == []


def test_balance_has_every_category() -> None:
    rng = np.random.default_rng(0)
    P, Q = (
        pl.DataFrame({"age": rng.normal(size=500), "town": rng.choice(["a", "b", "c"], 500, p=shares).tolist()})
        for shares in ([0.8, 0.1, 0.1], [0.3, 0.35, 0.35])
    )
    found = diagnose("logistic", P, Q, random_state=0).balance
    assert set(found.names) == {"age", "town = a", "town = b", "town = c"}
    j = found.names.index("town = a")  # the most frequent category, which has no indicator in the matrix
    p, q = (float(np.mean(frame["town"].to_numpy() == "a")) for frame in (P, Q))
    assert found.before[j] == pytest.approx((p - q) / math.sqrt((p * (1 - p) + q * (1 - q)) / 2))
    assert abs(found.after[j]) < 0.1 < abs(found.before[j])
    assert found.sources is not None
    assert found.sources.tolist() == [0, 1, 1, 1]


def test_training_rows_are_recognized() -> None:
    """Boosting is overfitted where p = q. Its own rows would show the opposite."""
    rng = np.random.default_rng(0)
    X_p, X_q, new_p, new_q = rng.normal(size=(4, 600, 3))
    ratio = ClassifierRatio("boosting", random_state=0).fit_samples(X_p, X_q)
    own = diagnose(ratio, X_p, X_q, random_state=0)
    assert own.verdict == "use with care"
    assert own.warnings[0].startswith("100 % of the training rows are among these rows")
    assert not any("multiplied" in words for words in own.warnings)
    assert own.advice == []
    assert not any("training rows" in words for words in diagnose(ratio, new_p, new_q, random_state=0).warnings)


def test_constant_columns_need_no_check_of_the_form() -> None:
    diagnosis = diagnose("logistic", np.ones((50, 1)), np.ones((60, 1)), random_state=0)
    assert diagnosis.residual.gain == 0


def shops(seed: int, n: int = 1500, n_shops: int = 200) -> tuple[pl.DataFrame, pl.DataFrame, float]:
    """Return one text column of each sample, and the effective sample size of the true ratio."""
    rng = np.random.default_rng(seed)
    share_p, share_q = rng.dirichlet(np.full(n_shops, 3.0)), rng.dirichlet(np.full(n_shops, 3.0))
    codes_p, codes_q = (rng.choice(n_shops, n, p=share) for share in (share_p, share_q))
    P, Q = (pl.DataFrame({"shop": [f"shop {code}" for code in codes]}) for codes in (codes_p, codes_q))
    w = (share_p / share_q)[codes_q]
    return P, Q, float(w.sum() ** 2 / (w @ w))


def test_the_effective_sample_size_of_many_categories_has_an_honest_error() -> None:
    n_covered = 0
    for seed in (0, 2, 4):  # log-odds of 7 rows each are shrunken, so weights are too equal
        P, Q, truth = shops(seed)
        diagnosis = diagnose("boosting", P, Q, n_repeats=1, random_state=0)
        overlap = diagnosis.overlap
        n_covered += overlap.ess_low < truth < overlap.ess_high
        assert overlap.ess_q - overlap.ess_low > 1.3 * (overlap.ess_high - overlap.ess_q)  # shrinkage has one sign
        size = f"{overlap.ess_q:.0f} ({overlap.ess_low:.0f} to {overlap.ess_high:.0f}) of 1500"
        assert f"Effective sample size (ESS): {size} rows of q" in str(diagnosis)
        assert size in diagnosis._repr_html_()
        assert diagnosis.verdict != "reliable"
    assert n_covered >= 2


def test_samples_that_do_not_overlap_have_no_effective_sample_size() -> None:
    rng = np.random.default_rng(0)
    diagnosis = diagnose("logistic", rng.normal(100, 1, (400, 1)), rng.normal(size=(400, 1)), random_state=0)
    assert diagnosis.overlap.ess_q > 300  # the weights are nearly equal
    assert diagnosis.overlap.is_absent
    assert told(diagnosis, "p and q do not overlap")
    for advice in ("Fit with", "more flexible", "Use 1/r"):  # no other ratio helps
        assert not told(diagnosis, advice)
    text = diagnosis.summary()
    assert "effective sample size                no overlap" in text
    assert f"{diagnosis.overlap.ess_q:.0f}" not in text
    assert ">no overlap</td>" in diagnosis._repr_html_()


def test_rows_of_new_categories_have_no_counterpart() -> None:
    """A ratio of rare categories is finite. It does not show that no row of q has their category."""
    rng = np.random.default_rng(0)
    names, shares = [f"c{k}" for k in range(30)], np.full(30, 1 / 30)
    P, Q = (
        pl.DataFrame({"town": rng.choice(names, n, p=shares).tolist(), "x": rng.normal(size=n)}) for n in (2000, 2000)
    )
    P = P.with_columns(town=pl.when(pl.int_range(2000) < 120).then(pl.lit("new")).otherwise("town"))
    diagnosis = diagnose("logistic", P, Q, random_state=0)
    assert diagnosis.overlap.share_p_beyond_q >= 0.06
    assert diagnosis.overlap.share_q_beyond_p < 0.01
    assert diagnosis.verdict == "use with care"
    assert any(text.startswith("120 rows of p (6.0 %) have no counterpart") for text in diagnosis.warnings)
