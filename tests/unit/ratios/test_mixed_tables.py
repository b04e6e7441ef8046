"""Ratios of two mixed tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning
from sklearn.pipeline import make_pipeline

from flowratio.diagnostics.diagnosis import diagnose
from flowratio.ratios.classifier.classifier import ClassifierRatio
from flowratio.ratios.inverse import InverseRatio
from flowratio.storage.saving import load, save
from flowratio.tables.cells import pooled
from flowratio.tables.columns import Column
from flowratio.tables.encoder import TableEncoder, UnseenWarning
from flowratio.tables.formats import TextFormat


def logistic(random_state: int | None = None) -> ClassifierRatio:
    return ClassifierRatio("logistic", random_state=random_state)


def as_text(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table as a file of text has it."""
    return frame.select(pl.all().cast(pl.String).fill_null(""))


JOBS = {"clerk": (60, 30), "baker": (20, 30), "judge": (20, 40)}  # rows of p and of q


def samples(scale: int = 20, seed: int = 0) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return two tables whose ratio is known: the job alone tells them apart."""
    tables = []
    for k in (0, 1):
        jobs = [job for job, n in JOBS.items() for _ in range(scale * n[k])]
        noise = np.random.default_rng([seed, k]).normal(size=len(jobs))
        tables.append(pl.DataFrame({"job": jobs, "noise": noise}))
    return tables[0], tables[1]


def test_a_planted_shift_is_found() -> None:
    P, Q = samples()
    ratio = logistic().fit_samples(P.select("job"), Q.select("job"))
    truth = np.log([60 / 30, 20 / 30, 20 / 40])
    # one parameter a level: at the optimum the ratio is that of the counts, but for a slight ridge
    assert np.allclose(ratio.log_ratio(pl.DataFrame({"job": [*JOBS]})), truth, atol=0.02)
    weights = ratio.weights(Q)
    for job, (n, _) in JOBS.items():
        assert weights[(Q["job"] == job).to_numpy()].sum() / len(Q) == pytest.approx(n / 100, abs=0.01)


def test_labels_samples_and_frames_agree() -> None:
    P, Q = samples(2)
    X, y = pl.concat([P, Q]), np.repeat([1, 0], [len(P), len(Q)])
    log_r = logistic().fit_samples(P, Q).log_ratio(X)
    assert np.array_equal(logistic().fit(X, y).log_ratio(X), log_r)
    other = logistic().fit_samples(P.to_pandas(), as_text(Q.select("noise", "job")))
    assert np.array_equal(other.log_ratio(as_text(X)), log_r)
    assert other.score(X, y) == pytest.approx(logistic().fit(X, y).score(X, y), abs=0)
    assert np.array_equal(other.score_samples(X), log_r)


def test_an_encoder_of_more_rows_is_used_as_it_is() -> None:
    P, Q = samples(1)
    more = pooled(P, pl.concat([Q, pl.DataFrame({"job": ["pilot"], "noise": [0.0]})]))
    encoder = TableEncoder().fit(more)
    ratio = logistic().fit_samples(P, Q, encoder=encoder)
    assert ratio.encoder_ is encoder
    assert ratio.log_ratio(more).shape == (201,)  # no level is new: warnings are errors


def test_weights_count_rows() -> None:
    P, Q = samples(2)
    twice = pl.concat([P, P.head(50)])
    w = np.r_[np.full(50, 2.0), np.ones(len(P) - 50)]
    weighted = logistic().fit_samples(P, Q, sample_weight_p=w).log_ratio(Q)
    assert np.allclose(weighted, logistic().fit_samples(twice, Q).log_ratio(Q), atol=1e-9)
    with pytest.raises(ValueError, match="`sample_weight_q` has shape"):
        logistic().fit_samples(P, Q, sample_weight_q=[1.0])


def test_a_pipeline_with_an_encoder_has_indicators_only() -> None:
    """Codes have no order, so all rare categories have the same log r: that of their shares."""
    rng = np.random.default_rng(0)
    P, Q = (pl.DataFrame({"shop": [f"s{k}" for k in 40 * rng.random(3000) ** power]}) for power in (1, 2))
    P, Q = (table.select(pl.col("shop").str.extract(r"(s\d+)")) for table in (P, Q))
    pipeline = make_pipeline(TableEncoder(), logistic()).fit(pl.concat([P, Q]), np.repeat([1, 0], 3000))
    encoder: Any = pipeline[0]
    most = encoder.columns_[0].categories
    rare = [table.filter(~pl.col("shop").is_in(most)) for table in (P, Q)]
    log_r = pipeline.score_samples(pl.concat(rare))
    assert np.ptp(log_r) < 1e-12  # a matrix product can round equal rows differently
    # the log-odds of a rows and b rows have the standard error √(1/a + 1/b)
    a, b = map(len, rare)
    assert log_r[0] == pytest.approx(np.log(a / b), abs=0.1 * np.sqrt(1 / a + 1 / b))


def test_inverse_is_minus_log_r() -> None:
    P, Q = samples(2)
    ratio = logistic().fit_samples(P, Q)
    inverse = ratio.inverse()
    assert np.array_equal(inverse.log_ratio(Q), -ratio.log_ratio(Q))
    assert "r = p/q" in repr(ratio)
    assert "r = q/p" in repr(inverse)
    again: Any = clone(inverse)
    assert np.allclose(again.fit_samples(P, Q).log_ratio(Q), -ratio.log_ratio(Q), atol=1e-9)
    assert np.array_equal(inverse.inverse().log_ratio(Q), ratio.log_ratio(Q))
    assert "r = p/q" in repr(clone(inverse.inverse()))


def test_constant_tables_are_refused() -> None:
    constant = pl.DataFrame({"a": [1, 1], "b": ["x", "x"]})
    with pytest.raises(ValueError, match="Every column is constant or an identifier"):
        logistic().fit_samples(constant, constant)


def test_numbers_need_no_encoder() -> None:
    P = pl.DataFrame({"a": np.arange(40.0), "b": [1, 2, 2, 1] * 10})
    Q = P.with_columns(pl.col("a") + 5)
    ratio = logistic().fit_samples(P, Q)
    assert ratio.encoder_ is None
    assert np.array_equal(
        ratio.log_ratio(Q), logistic().fit_samples(P.to_numpy(), Q.to_numpy()).log_ratio(Q.to_numpy())
    )


def test_unseen_categories_are_a_warning_that_counts() -> None:
    P, Q = samples(1)
    ratio = logistic().fit_samples(P, Q)
    with pytest.warns(UnseenWarning, match=r"'job' \(2 rows\), 'noise' \(1 row\)"):
        log_r = ratio.log_ratio(pl.DataFrame({"job": ["pilot", "poet", "clerk"], "noise": [0.0, None, 0.0]}))
    assert np.isfinite(log_r).all()


def test_saved_is_loaded(tmp_path: Path) -> None:
    P, Q = samples(1)
    for ratio in (logistic(random_state=0), InverseRatio(ClassifierRatio("logistic"))):
        ratio.fit_samples(P, Q)
        save(ratio, tmp_path / "model")
        loaded = load(tmp_path / "model")
        assert ratio.encoder_ is not None
        assert loaded.encoder_.columns_ == ratio.encoder_.columns_
        assert all(isinstance(column, Column) for column in loaded.encoder_.columns_)
        assert np.array_equal(loaded.log_ratio(Q), ratio.log_ratio(Q))
        assert repr(loaded) == repr(ratio)


def test_columns_that_were_left_out_are_not_needed() -> None:
    rng = np.random.default_rng(0)
    tables = [
        pl.DataFrame(
            {"id": [f"{k}-{i}" for i in range(60)], "job": rng.choice(["a", "b"], 60), "x": rng.normal(size=60)}
        )
        for k in "pq"
    ]
    with pytest.warns(UserWarning, match="Left out 'id'"):
        ratio = ClassifierRatio("logistic").fit_samples(*tables)
    without = tables[1].drop("id")
    np.testing.assert_array_equal(ratio.log_ratio(without), ratio.log_ratio(tables[1]))
    with pytest.raises(ValueError, match="no column 'job'"):
        ratio.log_ratio(without.drop("job"))


def test_diagnosis_of_tables() -> None:
    P, Q = samples(5)
    ratio = logistic().fit_samples(P, Q)
    held_p, held_q = samples(4, seed=1)
    diagnosis = diagnose(ratio, held_p, held_q.to_pandas(), random_state=0)
    assert diagnosis.importance.names == ["job", "noise"]  # the two columns of the job are one
    assert diagnosis.importance.columns.tolist() == [0, 1]
    assert ratio.encoder_ is not None
    assert {*ratio.encoder_.names_} < {
        *diagnosis.balance.names
    }  # and the most frequent category, which has no indicator
    assert diagnosis.importance.share[0] > 0.95
    assert np.array_equal(diagnosis.log_p, ratio.log_ratio(held_p))
    assert diagnose(ratio.inverse(), held_q, held_p, random_state=0).verdict == diagnosis.verdict
    assert "training rows" in diagnose(ratio.inverse(), Q, P, random_state=0).warnings[0]


def test_samples_in_two_formats_are_refused() -> None:
    rng = np.random.default_rng(0)
    P = pl.DataFrame({"a": [f"{value:.1f}".replace(".", ",") for value in rng.normal(size=50)]})
    Q = pl.DataFrame({"a": rng.normal(size=50).round(1)})
    with pytest.raises(ValueError, match=r"'a' has '.*,.*' in `X_p` \(number such as 1234,5\) and '.*' in `X_q`"):
        logistic().fit_samples(P, Q)


def test_columns_that_differ_are_named() -> None:
    P, Q = pl.DataFrame({"a": [1, 2], "b": [1, 2]}), pl.DataFrame({"a": [1, 2], "c": [1, 2]})
    with pytest.raises(ValueError, match=r"'b' only in `X_p`, 'c' only in `X_q`\)\. Drop or rename them"):
        logistic().fit_samples(P, Q)
    with pytest.raises(ValueError, match="'b' only in `X_p`, 'c' only in `X_q`"):
        logistic().fit_samples(P.with_columns(a=pl.lit("x")), Q)


def test_a_table_of_identifiers_has_no_ratio() -> None:
    frame = pl.DataFrame({"who": [f"u{k}" for k in range(400)]})
    with (
        pytest.warns(UserWarning, match="Left out"),
        pytest.raises(ValueError, match=r"Every column .*is constant or an identifier"),
    ):
        logistic().fit_samples(frame[:200], frame[200:])


def test_arrays_have_no_names_of_columns() -> None:
    rows = np.random.default_rng(0).normal(size=(60, 2))
    rows[::7, 1] = np.nan
    model = logistic().fit_samples(rows[:30], rows[30:])
    assert model.encoder_ is not None
    assert not hasattr(model, "feature_names_in_")
    assert not hasattr(logistic().fit(rows, np.arange(60) % 2), "feature_names_in_")


def test_the_format_of_an_encoder_settles_doubts() -> None:
    P, Q = pl.DataFrame({"a": ["1.234", "2.345", "3.456"] * 9}), pl.DataFrame({"a": ["1234", "2345", "1"] * 9})
    with pytest.raises(ValueError, match="thousands separator"):
        logistic().fit_samples(P, Q)
    encoder = TableEncoder(text_format=TextFormat(decimal="."))
    fitted = logistic().fit_samples(P, Q, encoder=encoder).encoder_
    assert fitted is not None
    assert fitted.columns_[0].kind == "number"


def test_missing_values_after_a_fit_to_numbers_are_refused() -> None:
    rows = np.random.default_rng(0).normal(size=(60, 2))
    model = logistic().fit_samples(rows[:30], rows[30:])
    with pytest.raises(ValueError, match=r"fitted to numbers without them\. Fit it with such rows"):
        model.log_ratio([[1.0, np.nan]])
    model = logistic().fit(rows, np.arange(60) % 2, encoder=TableEncoder())
    with pytest.warns(UnseenWarning, match=r"'x2' \(1 row\)"):
        assert np.isfinite(model.log_ratio([[1.0, np.nan]])).all()


def test_labels_in_a_column_no_labels_and_no_rows() -> None:
    P, Q = samples(1)
    X, y = pl.concat([P, Q]), np.repeat([1, 0], [len(P), len(Q)])
    with pytest.warns(DataConversionWarning):
        column = logistic().fit(X, y[:, None])
    assert np.array_equal(column.log_ratio(X), logistic().fit(X, y).log_ratio(X))
    with pytest.raises(ValueError, match="`y` is None"):
        logistic().fit(X, None)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="has 0 rows"):
        column.log_ratio(X.head(0))


def test_settings_of_the_inverse_are_its_own() -> None:
    P, Q = samples(1)
    ratio = logistic().fit_samples(P, Q)
    ratio.inverse().set_params(estimator__classifier="qda")
    assert ratio.classifier == "logistic"
