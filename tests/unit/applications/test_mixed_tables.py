"""Every application takes tables with text, dates and missing values."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from flowratio import (
    ClassifierRatio,
    FlowFeaturizer,
    ImportanceWeighted,
    TargetedSampler,
    augmentation_weights,
    diagnose,
    divergence,
    mutual_information,
    two_sample_test,
)

JOBS, SHARES = ["baker", "clerk", "judge"], {"p": [0.6, 0.3, 0.1], "q": [0.2, 0.3, 0.5]}
KL = float(np.dot(SHARES["p"], np.log(np.divide(SHARES["p"], SHARES["q"]))))


def table(sample: str, n: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    days = np.datetime64("2024-01-01") + rng.integers(0, 100, n)
    age = [None if gap else float(value) for gap, value in zip(rng.random(n) < 0.2, rng.normal(40, 9, n), strict=True)]
    return pl.DataFrame({"job": rng.choice(JOBS, n, p=SHARES[sample]), "day": days, "age": age})


P, Q = table("p", 500, 0), table("q", 600, 1)


def as_pandas(frame: pl.DataFrame) -> Any:
    import pandas as pd

    return pd.DataFrame({name: frame[name].to_list() for name in frame.columns})


@pytest.mark.parametrize("form", [lambda frame: frame, as_pandas, pl.DataFrame.to_arrow])
def test_divergence_of_tables(form: Any) -> None:
    kl = divergence(form(P), form(Q), ratio="logistic", n_folds=4, random_state=0)
    assert abs(kl.value - KL) < 4 * kl.standard_error
    assert kl.standard_error < 0.1


def test_a_test_names_the_columns_of_the_table() -> None:
    for ratio in (None, "logistic"):
        result = two_sample_test(P, Q, ratio, n_permutations=19, random_state=0)
        assert result.p_value == 0.05
        assert result.drivers.names[0] == "job"
        assert sorted(result.drivers.names) == ["age", "day", "job"]
    grouped = two_sample_test(P, Q, n_permutations=19, groups=["who", "when", "who"], random_state=0)
    assert grouped.drivers.names == ["who", "when"]
    with pytest.raises(ValueError, match=r"`groups` has 2 names, but there are 3 columns"):
        two_sample_test(P, Q, groups=["who", "when"])


def test_augmentation_weights_of_tables() -> None:
    w = augmentation_weights(P, Q, "logistic", random_state=0)
    weighted = [w[(Q["job"] == job).to_numpy()].sum() / w.sum() for job in JOBS]
    np.testing.assert_allclose(weighted, SHARES["p"], atol=0.08)  # 500 rows know a share to 0.02, 600 weighted to 0.03


def test_importance_weighting_of_tables() -> None:
    numbers = make_column_transformer(("passthrough", ["income"]))
    rng = np.random.default_rng(0)
    source, target = (frame.with_columns(income=pl.Series(rng.normal(size=len(frame)))) for frame in (Q, P))
    y = rng.normal(size=len(source))
    model = ImportanceWeighted(make_pipeline(numbers, LinearRegression()), "logistic", random_state=0)
    for n_folds in (None, 3):
        w = model.set_params(n_folds=n_folds).fit(source, y, X_target=target).sample_weight_
        shares = [w[(source["job"] == job).to_numpy()].sum() / w.sum() for job in JOBS]
        np.testing.assert_allclose(shares, SHARES["p"], atol=0.08)


def test_information_of_categories() -> None:
    rng = np.random.default_rng(0)
    job = rng.choice(JOBS, 1500)
    pay = np.array([JOBS.index(one) for one in job]) * 2.0 + rng.normal(size=1500)
    of_text = mutual_information(job, pay, ratio="quadratic", n_folds=3, random_state=0)
    indicators = np.column_stack([job == name for name in JOBS[1:]]).astype(float)
    of_numbers = mutual_information(indicators, pay, ratio="quadratic", n_folds=3, random_state=0)
    assert 0.4 < of_text.raw < np.log(3)
    assert of_text.raw == pytest.approx(of_numbers.raw, abs=2 * of_numbers.standard_error)
    gaps = pl.DataFrame({"pay": [None if k % 5 == 0 else value for k, value in enumerate(pay.tolist())]})
    some = mutual_information(gaps, pl.Series(job), ratio="quadratic", n_folds=3, random_state=0)
    assert 0.2 < some.raw < of_text.raw
    with pytest.warns(UserWarning, match="Column 'x1' of `Z` is constant"):
        constant = mutual_information(job, pay, np.array(["same"] * 1500), ratio="quadratic", n_folds=3, random_state=0)
    assert constant.raw == pytest.approx(of_text.raw, abs=4 * of_text.standard_error)


def test_a_diagnosis_asks_the_ratio_for_its_columns() -> None:
    ratio = ClassifierRatio("logistic").fit_samples(P[:300], Q[:300])
    diagnosis = diagnose(ratio, P[300:], Q[300:], random_state=0)
    assert ratio.encoder_ is not None
    assert {*ratio.encoder_.names_} < {
        *diagnosis.balance.names
    }  # and the most frequent category, which has no indicator
    assert diagnosis.importance.names[0] == "job"
    assert sorted(diagnosis.importance.names) == ["age", "day", "job"]


def test_rows_of_tables_are_drawn_with_their_types() -> None:
    ratio = ClassifierRatio("logistic").fit_samples(P, Q)
    assert ratio.encoder_ is not None
    X = ratio.encoder_.transform(pl.concat([P, Q]))
    flow = FlowFeaturizer(max_epochs=15, random_state=0, patience=100).fit(X)
    sampler = TargetedSampler(ratio, flow, random_state=0)
    for toward in ("p", "q"):
        draws = sampler.draw(400, toward)
        assert draws.X.schema == P.schema
        assert draws.X["day"].is_between(P["day"].min(), pl.concat([P, Q])["day"].max()).all()
        assert draws.X["age"].null_count() > 0
        shares = [(draws.X["job"] == job).mean() for job in JOBS]
        np.testing.assert_allclose(shares, SHARES[toward], atol=0.15)  # a flow of 15 epochs
        assert len(draws.log_w) == 400 * 100
    assert len(sampler.draw(8000, "p").log_w) == 8000 * 25  # 200 000 candidates in all
