"""Every function × every container of rows: text, dates, booleans and missing values, one column, other column orders.

The same content gives the same numbers, whatever library holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from flowratio import (
    KLIEP,
    KMM,
    RULSIF,
    ULSIF,
    AutoRatio,
    ClassifierRatio,
    FeaturizedRatio,
    FlowFeaturizer,
    ImportanceWeighted,
    OverlapWarning,
    TargetedSampler,
    TargetScorer,
    augmentation_weights,
    conformal_quantile,
    diagnose,
    divergence,
    effective_sample_size,
    kl_score,
    mutual_information,
    stack,
    two_sample_test,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::flowratio.ratios.base.OverlapWarning"),  # samples of a contract are small
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

N = 120
Y = np.random.default_rng(2).integers(0, 2, N)
PRESETS = ["logistic", "lda", "qda", "quadratic", "additive", "boosting"]


def draw(shift: float, seed: int) -> pl.DataFrame:
    """Return a table with numbers, text, dates, booleans and missing values of two types."""
    rng = np.random.default_rng(seed)
    shares = [0.5 - 0.2 * shift, 0.3, 0.2 + 0.2 * shift]
    age = rng.integers(20, 60, N).astype(float)
    age[rng.random(N) < 0.1] = np.nan
    return pl.DataFrame(
        {
            "pay": rng.normal(shift, 1, N).round(3),
            "city": rng.choice(["Oslo", "Bergen", "Tromsø"], N, p=shares),
            "day": np.datetime64("2024-01-01") + rng.integers(0, 300, N).astype("timedelta64[D]"),
            "member": rng.random(N) < 0.4 + 0.2 * shift,
            "age": pl.Series(age, nan_to_null=True),
            "job": np.array(["clerk", "baker", None], dtype=object)[rng.choice(3, N)].tolist(),
        }
    ).with_columns(pl.col("day").cast(pl.Date))


def objects(frame: pl.DataFrame) -> pd.DataFrame:
    table = frame.to_pandas()
    return table.assign(
        day=pd.to_datetime(table["day"]), city=table["city"].astype(object), job=table["job"].astype(object)
    )


def categories(frame: pl.DataFrame) -> pd.DataFrame:
    return objects(frame).astype({"city": "category", "job": "category"})


CONTAINERS: dict[str, Callable[[pl.DataFrame], Any]] = {
    "pandas, objects": objects,
    "pandas, Arrow types": lambda frame: frame.to_pandas(use_pyarrow_extension_array=True),
    "pandas, categories": categories,
    "pandas, nullable types": lambda frame: objects(frame).convert_dtypes(),
    "polars, categories": lambda frame: frame.with_columns(pl.col("city", "job").cast(pl.Categorical)),
    "Arrow": pl.DataFrame.to_arrow,
    "another column order": lambda frame: frame.select(frame.columns[::-1]),
}
P, Q = draw(0.6, 0), draw(0.0, 1)


def model_of_y() -> Any:
    """Return a pipeline that selects two columns by name. Its one-hot encoder takes no missing values of pandas."""
    return make_pipeline(make_column_transformer((OneHotEncoder(), ["city", "member"])), LogisticRegression())


def fit(P: Any, Q: Any, ratio: Any = "logistic") -> Any:
    return (ClassifierRatio(ratio, random_state=0) if isinstance(ratio, str) else ratio).fit_samples(P, Q)


def conformal(P: Any, Q: Any) -> Any:
    ratio = fit(P, Q)
    return conformal_quantile(np.arange(float(N)), ratio.log_ratio(Q), ratio.log_ratio(P))


def draws(P: Any, Q: Any) -> Any:
    flow = FlowFeaturizer(n_blocks=1, hidden=(4,), max_epochs=1)
    ratio = FeaturizedRatio("logistic", featurizer=flow, random_state=0).fit_samples(P, Q)
    rows = TargetedSampler(ratio, n_candidates=4, random_state=0).sample(20)
    return rows.select("pay", pl.col("city").cast(pl.Enum(["Oslo", "Bergen", "Tromsø"])).to_physical()).to_numpy()


def weighted(P: Any, Q: Any, **settings: Any) -> Any:
    ratio = ClassifierRatio("logistic")
    model = ImportanceWeighted(model_of_y(), ratio, random_state=0, **settings).fit(Q, Y, X_target=P)
    return np.concatenate([model.sample_weight_, model.predict_proba(P)[:, 1]])


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    **{name: lambda P, Q, name=name: fit(P, Q, name).log_ratio(Q) for name in PRESETS},
    "KMM": lambda P, Q: fit(P, Q, KMM(random_state=0)).log_ratio(Q),
    "KLIEP": lambda P, Q: fit(P, Q, KLIEP(n_centers=10, n_folds=2, random_state=0)).log_ratio(Q),
    "ULSIF": lambda P, Q: fit(P, Q, ULSIF(n_centers=20, random_state=0)).log_ratio(Q),
    "RULSIF": lambda P, Q: fit(P, Q, RULSIF(n_centers=20, random_state=0)).log_ratio(Q),
    "AutoRatio": lambda P, Q: fit(P, Q, AutoRatio(["logistic", "boosting"], n_folds=2, random_state=0)).log_ratio(Q),
    "inverse": lambda P, Q: fit(P, Q).inverse().weights(P),
    "ImportanceWeighted": weighted,
    "ImportanceWeighted, folds": lambda P, Q: weighted(P, Q, n_folds=2),
    "TargetScorer": lambda P, Q: TargetScorer("neg_log_loss", fit(P, Q))(model_of_y().fit(Q, Y), Q, Y),
    "divergence": lambda P, Q: divergence(P, Q, ratio="logistic", n_folds=2, random_state=0).value,
    "two_sample_test": lambda P, Q: two_sample_test(P, Q, n_permutations=9, random_state=0).value,
    "two_sample_test, ratio": lambda P, Q: two_sample_test(P, Q, "logistic", n_permutations=2, random_state=0).value,
    "mutual_information": lambda P, Q: mutual_information(P, Q, ratio="qda", n_folds=2, random_state=0).value,
    "augmentation_weights": lambda P, Q: augmentation_weights(P, Q, "logistic", n_folds=2, random_state=0),
    "augmentation_weights, fitted": lambda P, Q: augmentation_weights(P, Q, fit(P, Q)),
    "conformal_quantile": conformal,
    "diagnose": lambda P, Q: diagnose(fit(P, Q), P, Q, random_state=0).log_w,
    "kl_score": lambda P, Q: kl_score(fit(P, Q), *stack(P, Q)),
    "score": lambda P, Q: fit(P, Q).score(*stack(P, Q)),
    "stack": lambda P, Q: ClassifierRatio("logistic").fit(*stack(P, Q)).log_ratio(Q),
    "TargetedSampler": draws,
}
DEPENDS_ON_ORDER = {"TargetedSampler"}  # a flow of other columns draws other rows


@cache
def reference(name: str) -> np.ndarray:
    return np.asarray(FUNCTIONS[name](P, Q), np.float64)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_mixed_tables(name: str, container: str) -> None:
    if container == "another column order" and name in DEPENDS_ON_ORDER:
        pytest.skip("a flow of other columns draws other rows")
    convert = CONTAINERS[container]
    result = np.asarray(FUNCTIONS[name](convert(P), convert(Q)), np.float64)
    assert np.isfinite(result).all()
    # sums over columns in another order round in another way
    np.testing.assert_allclose(result, reference(name), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in {"mutual_information", "TargetedSampler"}])
def test_samples_of_two_libraries_and_column_orders(name: str) -> None:
    result = FUNCTIONS[name](categories(P).iloc[:, ::-1], Q)
    np.testing.assert_allclose(np.asarray(result), reference(name), rtol=1e-6, atol=1e-6)


# Numbers

NUMBERS_P, NUMBERS_Q = (table.select("pay", age=pl.col("age").fill_null(40.0)) for table in (P, Q))
NUMBERS: dict[str, Callable[[pl.DataFrame], Any]] = {
    "array": lambda frame: frame.to_numpy(),
    "list": lambda frame: frame.to_numpy().tolist(),
    "pandas": pl.DataFrame.to_pandas,
    "pandas, Arrow types": lambda frame: frame.to_pandas(use_pyarrow_extension_array=True),
    "pandas, nullable types": lambda frame: frame.to_pandas().astype("Float64"),
    "Arrow": pl.DataFrame.to_arrow,
}
OF_NUMBERS = [
    name for name in FUNCTIONS if "ImportanceW" not in name and name not in {"TargetScorer", "TargetedSampler"}
]


@pytest.mark.parametrize("container", NUMBERS)
@pytest.mark.parametrize("name", OF_NUMBERS)
def test_numbers(name: str, container: str) -> None:
    convert = NUMBERS[container]
    result, expected = FUNCTIONS[name](convert(NUMBERS_P), convert(NUMBERS_Q)), FUNCTIONS[name](NUMBERS_P, NUMBERS_Q)
    np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-9)  # sums of rows round by their order in memory


# the two variables of a mutual information have columns of their own
@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("name", [name for name in OF_NUMBERS if name != "mutual_information"])
def test_numbers_are_matched_by_name(name: str, library: str) -> None:
    tables: list[Any] = [table.to_pandas() if library == "pandas" else table for table in (NUMBERS_P, NUMBERS_Q)]
    p, q = tables
    np.testing.assert_array_equal(FUNCTIONS[name](p, q[["age", "pay"]]), FUNCTIONS[name](p, q))
    other = q.rename(columns={"pay": "wage"}) if library == "pandas" else q.rename({"pay": "wage"})
    with pytest.raises(ValueError, match=r"'pay' only in `X_(p|real)`, 'wage' only in `X_(q|synthetic)`"):
        FUNCTIONS[name](p, other)


# One column


VECTORS: dict[str, Callable[[pl.Series], Any]] = {
    "series of polars": lambda column: column,
    "series of pandas": pl.Series.to_pandas,
    "unnamed series of pandas": lambda column: column.to_pandas().rename(None),
    "pandas, Arrow type": lambda column: column.to_pandas(use_pyarrow_extension_array=True),
    "list": pl.Series.to_list,
    "Arrow array": pl.Series.to_arrow,
    "Arrow chunks": lambda column: pa.chunked_array([column[:50].to_arrow(), column[50:].to_arrow()]),
    "array": pl.Series.to_numpy,
    "one column of an array": lambda column: column.to_numpy().reshape(-1, 1),
}
OF_ONE_COLUMN = [name for name in OF_NUMBERS if name not in {"quadratic", "KMM"}]


@pytest.mark.parametrize("column", ["pay", "city", "day", "age"])
@pytest.mark.parametrize("container", VECTORS)
def test_one_column_of_any_type(column: str, container: str) -> None:
    convert = VECTORS[container]
    model = ClassifierRatio("logistic").fit_samples(P[column].to_frame(), Q[column].to_frame())
    other = ClassifierRatio("logistic").fit_samples(convert(P[column]), convert(Q[column]))
    np.testing.assert_allclose(other.log_ratio(convert(Q[column])), model.log_ratio(Q[[column]]), rtol=1e-12)
    if "unnamed" not in container and "series" in container:
        assert other.feature_names_in_.tolist() == [column]


@pytest.mark.parametrize("container", ["series of pandas", "list", "array", "Arrow array"])
@pytest.mark.parametrize("name", OF_ONE_COLUMN)
def test_one_column(name: str, container: str) -> None:
    convert = VECTORS[container]
    expected = FUNCTIONS[name](NUMBERS_P[["pay"]], NUMBERS_Q[["pay"]])
    np.testing.assert_array_equal(FUNCTIONS[name](convert(NUMBERS_P["pay"]), convert(NUMBERS_Q["pay"])), expected)


def test_series_of_two_names_are_one_column() -> None:
    a, b = P["pay"].to_pandas().rename("pay 2023"), Q["pay"].to_pandas().rename("pay 2024")
    model = ClassifierRatio("logistic").fit_samples(a, b)
    assert model.feature_names_in_.tolist() == ["pay 2023"]
    expected = model.log_ratio(b.to_frame("pay 2023"))
    for rows in (b, b.to_numpy(), b.tolist(), pl.Series("pay 2024", b)):
        np.testing.assert_array_equal(model.log_ratio(rows), expected)
    with pytest.raises(ValueError, match="feature names should match"):
        model.log_ratio(b.to_frame())


def test_fit_with_labels_and_several_columns_refuse_one_dimension() -> None:
    x = NUMBERS_P["pay"].to_numpy()
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        ClassifierRatio("logistic").fit(x, Y)
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        fit(NUMBERS_P.to_numpy(), NUMBERS_Q.to_numpy()).log_ratio(x[:2])


# Missing values in arrays


def with_missing(X: np.ndarray, where: Any) -> np.ndarray:
    X = X.copy()
    X[where] = np.nan
    return X


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("where", [np.s_[::4, 1], np.s_[:, 1]], ids=["some", "all of one sample"])
def test_arrays_with_missing_values(name: str, where: Any) -> None:
    p, q = with_missing(NUMBERS_P.to_numpy(), where), NUMBERS_Q.to_numpy()
    model = fit(p, q, name)
    for rows in (p, q):
        assert np.isfinite(model.log_ratio(rows)).all()
    frame_p, frame_q = (pd.DataFrame(rows, columns=pd.Index(["x1", "x2"])) for rows in (p, q))
    np.testing.assert_array_equal(fit(frame_p, frame_q, name).log_ratio(frame_q), model.log_ratio(q))
    both = fit(p, with_missing(q, np.s_[1::3, 1]), name)
    assert np.isfinite(both.log_ratio(p)).all()


@pytest.mark.parametrize("name", ["logistic", "boosting"])
def test_sparse_frames_of_missing_values(name: str) -> None:
    p, q = (pd.DataFrame(with_missing(table.to_numpy(), np.s_[::3])) for table in (NUMBERS_P, NUMBERS_Q))
    sparse_p, sparse_q = (table.astype(pd.SparseDtype(float, np.nan)) for table in (p, q))
    np.testing.assert_array_equal(fit(sparse_p, sparse_q, name).log_ratio(sparse_q), fit(p, q, name).log_ratio(q))


# Columns that separate the samples

SEPARATING: dict[str, tuple[Any, Any, str]] = {
    "constant in each sample": ([2023.0] * N, [2024.0] * N, "column `last` separates the samples"),
    "disjoint ranges": (np.arange(N) / N, 5 + np.arange(N) / N, "column `last` separates the samples"),
    "no category in common": (["Oslo", "Bergen"] * (N // 2), ["Rome", "Paris"] * (N // 2), "column `last` separates"),
    "missing in p": ([None] * N, np.arange(N) % 7.0, "column `last` is missing in all rows of p and in no other row"),
    "missing in q": (np.arange(N) % 7.0, [None] * N, "column `last` is missing in all rows of q and in no other row"),
}


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("case", SEPARATING)
def test_columns_that_separate_the_samples_are_named(name: str, case: str) -> None:
    of_p, of_q, words = SEPARATING[case]
    p, q = NUMBERS_P.with_columns(last=pl.Series(of_p)), NUMBERS_Q.with_columns(last=pl.Series(of_q))
    with pytest.warns(OverlapWarning, match=words) as records:
        model = fit(p, q, name)
    assert 'see the page "Limits" (docs/limits.md)' in str(records[0].message)
    # 120 rows that one column separates are evidence for |log r| above log 120 = 4.8, short of what shrinks a fit
    assert model.log_ratio(p).min() > 1
    assert model.log_ratio(q).max() < -1
    # the floor of variances gives lda and qda log r of about log 120: the other columns decide on few rows
    assert model.uncovered_share_ > (0.9 if name in ("lda", "qda") else 1 - 1e-9)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("case", SEPARATING)
def test_ratios_of_separate_samples_are_bounded(name: str, case: str) -> None:
    of_p, of_q, _ = SEPARATING[case]
    p, q = NUMBERS_P.with_columns(last=pl.Series(of_p)), NUMBERS_Q.with_columns(last=pl.Series(of_q))
    model = fit(p, q, name)
    # log r of two Gaussians grows with the squared distance: 119 to 179 for the disjoint ranges
    bound = 300 if name in ("lda", "qda") else 100
    assert max(np.abs(model.log_ratio(rows)).max() for rows in (p, q)) < bound
    assert model.log_ratio(p).min() > 0 > model.log_ratio(q).max()


@pytest.mark.parametrize("name", ["logistic", "quadratic", "additive", "qda"])
def test_missing_values_in_a_part_of_one_sample(name: str) -> None:
    p = NUMBERS_P.with_columns(age=pl.when(pl.arange(0, pl.len()) % 5 > 0).then("age"))
    with pytest.warns(OverlapWarning, match="column `age` is missing in rows of p only") as records:
        model = fit(p, NUMBERS_Q, name)
    # the warning has the effective sample size of the weights, and not a small one of its own
    ess = effective_sample_size(model.log_ratio(NUMBERS_Q))
    assert ess > N / 3
    assert 0.2 <= model.uncovered_share_ < 0.25  # rows with a missing value, and at most a few others
    assert f"{100 * model.uncovered_share_:.0f} % of the rows of p lie where q has hardly any rows" in str(
        records[0].message
    )
    assert f"the effective sample size of {ess:.3g} of {N} does not show it" in str(records[0].message)


@pytest.mark.parametrize("name", PRESETS)
def test_one_definition_of_the_effective_sample_size(name: str) -> None:
    model = fit(P, Q, name)
    assert model.effective_sample_size_ == pytest.approx(effective_sample_size(model.log_ratio(Q)))
    assert model.inverse_sample_size_ == pytest.approx(effective_sample_size(-model.log_ratio(P)))
