from __future__ import annotations

import json
import math
import warnings
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from flowratio._support.numbers import finite
from flowratio.applications import column_descriptions
from flowratio.applications.category_shares import category_shares, changed_categories, frequent_categories
from flowratio.applications.column_descriptions import described
from flowratio.diagnostics.balance import Balance
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.auto.auto import AutoRatio
from flowratio.ratios.base import RatioEstimator
from flowratio.ratios.classifier.classifier import ClassifierRatio
from flowratio.ratios.featurized.featurized import FeaturizedRatio
from flowratio.report import evidence as module
from flowratio.report.category_changes import category_sentences
from flowratio.report.evidence import FILE, Origin, gather, read_evidence, write_evidence
from flowratio.tables.columns import Column, learn_column
from flowratio.tables.formats import CellFormat, Kind
from flowratio.training.run import History

ORIGIN: Origin = {
    "command": "flowratio fit p.csv q.csv -o model",
    "date": "2026-01-02T03:04:05+00:00",
    "seed": 3,
    "seconds": 1.5,
    "file_p": "p.csv",
    "file_q": "q.csv",
    "n_p": 300,
    "n_q": 300,
    "proportion": 0.5,
}


def table(n: int, shift: float, rng: np.random.Generator) -> pl.DataFrame:
    """Make a mixed table whose column "age" is shifted, and whose "job" is a little."""
    jobs = rng.choice(["clerk", "baker", "judge"], n, p=[0.3 + shift / 10, 0.3, 0.4 - shift / 10])
    gap = rng.random(n) < 0.1 + shift / 20
    return pl.DataFrame(
        {
            "noise": rng.normal(size=n),
            "age": [None if missing else float(age) for missing, age in zip(gap, rng.normal(shift, 1, n), strict=True)],
            "job": jobs.tolist(),
            "since": [date(2020, 1, 1) + timedelta(days=int(d)) for d in rng.integers(0, 900, n)],
            "member": (rng.random(n) < 0.4).tolist(),
            "rooms": rng.integers(1, 6, n).tolist(),
            "country": ["NL"] * n,
        }
    )


@pytest.fixture(scope="module")
def samples() -> tuple[pl.DataFrame, pl.DataFrame]:
    rng = np.random.default_rng(0)
    return table(700, 1.0, rng), table(600, 0.0, rng)


@pytest.fixture(scope="module")
def ratio(samples: tuple[pl.DataFrame, pl.DataFrame]) -> RatioEstimator:
    P, Q = samples
    return ClassifierRatio("logistic", random_state=0).fit_samples(P[:300], Q[:300])


@pytest.fixture(scope="module")
def evidence(ratio: RatioEstimator, samples: tuple[pl.DataFrame, pl.DataFrame]) -> dict[str, Any]:
    P, Q = samples
    return gather(ratio, P[300:], Q[300:], origin=ORIGIN)


def column(evidence: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in evidence["columns"] if one["name"] == name)


def test_written_and_read_it_is_the_same(evidence: dict[str, Any], tmp_path: Path) -> None:
    assert write_evidence(evidence, tmp_path) == tmp_path / FILE
    assert read_evidence(tmp_path) == {**evidence, "origin": {**evidence["origin"], "model": str(tmp_path)}}
    json.dumps(evidence, allow_nan=False)


def test_how_it_was_made(evidence: dict[str, Any]) -> None:
    origin = evidence["origin"]
    assert {name: origin[name] for name in ORIGIN} == ORIGIN
    assert (origin["checked_p"], origin["checked_q"]) == (400, 300)
    assert {"flowratio", "python", "torch"} <= origin["versions"].keys()


def test_numbers_of_a_column(evidence: dict[str, Any], samples: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    age = column(evidence, "age")
    for sample, frame in zip("pq", samples, strict=True):
        values = frame["age"][300:]
        known = values.drop_nulls().to_numpy()
        description = age["numbers"][sample]
        assert age["missing"][sample] == pytest.approx(values.null_count() / len(values), rel=1e-3)
        assert description["mean"] == pytest.approx(known.mean(), rel=1e-6)
        assert description["sd"] == pytest.approx(known.std(), rel=1e-3)
        np.testing.assert_allclose(description["quartiles"], np.quantile(known, [0, 0.25, 0.5, 0.75, 1]), rtol=1e-6)
        shares, _ = np.histogram(
            np.clip(known, *np.array(age["histogram"]["edges"])[[0, -1]]), age["histogram"]["edges"]
        )
        # a value on an edge, which is rounded, may change its bar
        np.testing.assert_allclose(age["histogram"][sample], shares / len(known), atol=1.5 / len(known))
        assert sum(age["histogram"][sample]) == pytest.approx(1, abs=2e-3)


def test_dates_are_days_and_whole_numbers_have_bars_of_their_own(evidence: dict[str, Any]) -> None:
    assert column(evidence, "since")["kind"] == "date"
    assert 18_262 <= column(evidence, "since")["numbers"]["p"]["quartiles"][0] <= 18_280  # 2020-01-01 is day 18 262
    assert column(evidence, "rooms")["histogram"]["edges"] == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]


def test_frequent_categories_a_column(evidence: dict[str, Any], samples: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    shares = {one["category"]: one for one in column(evidence, "job")["categories"]}
    assert shares["clerk"]["p"] == pytest.approx((samples[0]["job"][300:] == "clerk").mean(), rel=1e-3)
    assert shares["clerk"]["q"] == pytest.approx((samples[1]["job"][300:] == "clerk").mean(), rel=1e-3)
    assert {one["category"] for one in column(evidence, "member")["categories"]} == {"true", "false"}
    assert column(evidence, "country")["categories"] == [{"category": "NL", "p": 1.0, "q": 1.0}]


def test_numbers_are_rounded() -> None:
    assert (finite(1234.5678), finite(math.nan)) == (1235.0, None)


def test_rare_frequent_categories_many_are_one() -> None:
    levels = frequent_categories(
        category_shares(pl.Series([f"a{k}" for k in range(30)] + ["b"] * 30), pl.Series(["b"]))
    )
    assert levels[0] == {"category": "b", "p": 0.5, "q": 1.0}
    assert levels[-1]["category"] == "11 other categories"
    assert sum(one["p"] for one in levels) == pytest.approx(1, abs=1e-3)


def test_new_vanished_and_changed_categories() -> None:
    p = pl.Series(["a"] * 50 + ["b"] * 30 + ["new"] * 20)
    q = pl.Series(["a"] * 50 + ["b"] * 80 + ["old"] * 70)
    evidence = changed_categories(category_shares(p, q), len(p), len(q))
    assert (evidence["n_new"], evidence["share_new"], evidence["new"]) == (
        1,
        0.2,
        [{"category": "new", "p": 0.2, "q": 0.0, "is_clear": True}],
    )
    assert (evidence["n_vanished"], evidence["share_vanished"]) == (1, 0.35)
    assert [one["category"] for one in evidence["changed"]] == ["a"]  # b: 0.3 and 0.4, 1.7 standard errors
    column = {"name": "town", "changes": evidence}
    files = {"file_p": "p.csv", "file_q": "q.csv"}
    words = category_sentences(
        {"origin": files, "columns": [column], "diagnosis": {"grouping": {"town": 0.12}, "balance": {"names": []}}}
    )
    assert words == [
        "Column town has 1 category only in p.csv (20\u00a0% of its rows)"
        " and 1 category only in q.csv (35\u00a0% of its rows).",
        "In column town, 12\u00a0% of rows have a category with fewer than 5 rows."
        " The ratio of such a category is not estimated on its own.",
    ]


def test_shares_of_changed_categories_are_those_of_all_rows() -> None:
    p = pl.Series("town", [None] * 100 + ["a"] * 50 + ["b"] * 30 + ["new"] * 20)
    q = pl.Series("town", [None] * 50 + ["a"] * 50 + ["b"] * 80 + ["old"] * 70)
    changes = described(learn_column(pl.concat([p, q]), 20), p, q)["changes"]
    assert (changes["share_new"], changes["share_vanished"]) == (0.1, 0.28)  # 20 of 200 rows, 70 of 250
    assert changes["new"] == [{"category": "new", "p": 0.1, "q": 0.0, "is_clear": True}]
    # b has the same share of all rows nearly, and does not differ beyond chance among the cells
    assert changes["changed"] == [{"category": "a", "p": 0.25, "q": 0.2, "is_clear": True}]


def test_driver_compares_one_category_before_and_after() -> None:
    one = np.ones(3)
    balance = Balance(["a = x", "a = y", "b"], np.array([-0.9, 0.5, 0.1]), np.array([0.05, 0.3, 0.0]), one, one, one)
    driver = module._driver(balance, np.array([0, 1]))
    assert (driver["of"], driver["before"], driver["after"]) == ("a = x", -0.9, 0.05)
    assert driver["worst_after"] == {"name": "a = y", "before": 0.5, "after": 0.3}
    assert module._driver(balance, np.array([2]))["worst_after"] is None


def test_drivers_are_the_deviations_of_their_terms(
    evidence: dict[str, Any], ratio: RatioEstimator, samples: tuple[pl.DataFrame, pl.DataFrame]
) -> None:
    """A linear log r is a sum over source columns, and a column's effect is the deviation of its term."""
    assert ratio.encoder_ is not None
    X_p, X_q = (ratio.design(frame[300:]).matrix for frame in samples)
    X = np.concatenate([X_p, X_q])
    steps = np.eye(X.shape[1])
    slopes = ratio.log_ratio_prepared(X[:1] + steps) - ratio.log_ratio_prepared(X[:1])
    half = np.repeat([0.5 / len(X_p), 0.5 / len(X_q)], [len(X_p), len(X_q)])
    for j, source in enumerate(ratio.encoder_.columns_):
        own = ratio.encoder_.groups_ == j
        term = X[:, own] @ slopes[own]
        deviation = math.sqrt(half @ (term - half @ term) ** 2)
        # three permutations of 700 rows: a relative error of some per cent
        assert column(evidence, source.name)["driver"]["effect"] == pytest.approx(deviation, rel=0.1, abs=1e-6)
    assert evidence["columns"][0]["name"] == "age"
    assert sum(one["driver"]["share"] for one in evidence["columns"]) == pytest.approx(1, abs=1e-3)
    assert column(evidence, "country")["driver"]["share"] == 0


def test_kept_rows_give_the_balance_of_the_diagnosis(evidence: dict[str, Any]) -> None:
    rows, balance = evidence["rows"], evidence["diagnosis"]["balance"]
    assert (len(rows["log_p"]), len(rows["log_q"])) == (400, 300)
    w = np.exp(rows["log_q"])
    for k, j in enumerate(rows["columns"]):
        p, q = np.array(rows["p"][k]), np.array(rows["q"][k])
        # values have four digits
        assert (p.mean() - q.mean()) / rows["scale"][k] == pytest.approx(balance["before"][j], abs=2e-3)
        assert (p.mean() - q @ w / w.sum()) / rows["scale"][k] == pytest.approx(balance["after"][j], abs=2e-3)
    size = np.maximum(np.abs(balance["before"]), np.abs(balance["after"]))[rows["columns"]]
    assert np.all(np.diff(size) <= 0)


def test_only_some_rows_and_columns_are_kept(
    ratio: RatioEstimator, samples: tuple[pl.DataFrame, pl.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, most in (("_LOG_RATIOS", 50), ("_ROWS", 20), ("_COLUMNS", 2)):
        monkeypatch.setattr(module, name, most)
    P, Q = (frame[300:] for frame in samples)
    rows = gather(ratio, P, Q, origin=ORIGIN)["rows"]
    assert (len(rows["log_p"]), len(rows["log_q"])) == (50, 50)
    assert np.shape(rows["p"]) == np.shape(rows["q"]) == (2, 20)
    assert set(rows["log_p"]) <= {float(f"{value:.4g}") for value in ratio.log_ratio(P)}


class Stretched:
    """A map whose second column is by far the widest, and its third the next."""

    def __init__(self, n_columns: int) -> None:
        self.n_columns = n_columns
        self.history_ = History(epoch=[1, 2], train_loss=[3.0, math.nan], held_out_loss=[2.5, 2.0], best_epoch=2)

    def encode(self, X: np.ndarray) -> np.ndarray:
        Z = np.random.default_rng(0).normal(size=(len(X), 4)) * [0.1, 10.0, 3.0, 0.1]
        return Z[:, : self.n_columns]


def test_latent_picture_and_training(ratio: RatioEstimator, samples: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    X_p, X_q = (ratio.design(frame[300:]).matrix for frame in samples)
    for n_columns in (1, 2, 4):
        latent = module._latent(ratio, Stretched(n_columns), X_p, X_q)
        assert len(latent["names"]) == len(latent["p"]) == min(n_columns, 2)
        assert (len(latent["p"][0]), len(latent["q"][0])) == (400, 300)
    Z = np.concatenate([latent["p"], latent["q"]], axis=1)
    # deviations of 700 draws: 3 % each
    np.testing.assert_allclose(Z.std(axis=1), [10, 3], rtol=0.1)
    training = module._training(Stretched(1))
    assert training is not None
    assert training["train_loss"] == [3, None]
    assert training["held_out_loss"] == [2.5, 2]


def test_latent_space_only_of_a_ratio_with_a_flow(samples: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    P, Q = (frame.select("noise", "age") for frame in samples)
    flow = FlowFeaturizer(max_epochs=2, hidden=(8,), n_blocks=1, random_state=0)
    in_z = FeaturizedRatio("logistic", featurizer=flow, random_state=0)
    for ratio in (in_z, ClassifierRatio("logistic", random_state=0)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # two epochs are few
            ratio.fit_samples(P[:300], Q[:300])
        evidence = gather(ratio, P[300:], Q[300:], featurizer=in_z.mixture_flow(), origin=ORIGIN)
        has_flow = ratio is in_z
        assert [evidence[name] is not None for name in ("latent", "training")] == [has_flow, has_flow]


def test_parts_without_content_are_none(evidence: dict[str, Any]) -> None:
    assert [evidence[name] for name in ("latent", "training", "candidates")] == [None, None, None]


def test_candidates(samples: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    P, Q = samples
    auto = AutoRatio(["lda", "logistic"], n_folds=2, random_state=0)
    ratio = auto.fit_samples(P[:300], Q[:300])
    description = gather(ratio, P[300:], Q[300:], origin=ORIGIN)["candidates"]
    assert {one["name"] for one in description["table"]} == {"lda", "logistic"}
    assert description["verdict"] == ratio.results_.verdict
    assert description["table"][0]["score"] == pytest.approx(ratio.results_.candidates[0].score, rel=1e-3)


LARGEST = float(np.finfo(np.float64).max)
ODD = [
    [2.5],
    [1e300, -1e300],
    [7.0, 7.0],
    [0.1, 0.1, 9.0],
    [1e15, 1e15 + 1],
    [-(2.0**63), 1.0, 2.0, 3.0],
    [-1e17, 5.0],
    [LARGEST, -LARGEST, LARGEST],
    [LARGEST, LARGEST],
]


@pytest.mark.parametrize("values", ODD)
def test_histogram_of_odd_values(values: list[float]) -> None:
    description = column_descriptions._histogram(np.array(values), np.array(values[:1]))
    assert description is not None
    assert len(description["edges"]) <= column_descriptions._BINS + 2
    assert np.all(np.diff(description["edges"]) > 0)
    assert (sum(description["p"]), sum(description["q"])) == (pytest.approx(1, abs=1e-3), 1)


@pytest.mark.parametrize("values", ODD)
def test_moments_of_odd_values(values: list[float]) -> None:
    description = column_descriptions._moments(np.array(values))
    assert description is not None
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    spread = float(sum((value - mean) ** 2 for value in exact) / len(exact) / max(map(abs, exact)) ** 2)
    size = max(map(abs, values))
    # means of 12 digits, deviations of 4
    assert description["mean"] / size == pytest.approx(float(mean / Fraction(size)), rel=1e-11, abs=1e-15)
    assert description["sd"] / size == pytest.approx(math.sqrt(spread), rel=1e-3, abs=1e-15)
    assert description["quartiles"][::4] == pytest.approx([min(values), max(values)], rel=1e-11)
    json.dumps(description, allow_nan=False)


def test_words_in_a_constant_of_truth_values_and_identifiers() -> None:
    constant = Column("on", Kind.CONSTANT, CellFormat(Kind.BOOLEAN), 1.0)
    description = described(constant, constant.parse(pl.Series("on", ["maybe", "true", ""])), pl.Series("on", ["true"]))
    assert description["missing"]["p"] == pytest.approx(1 / 3, abs=1e-3)
    assert {one["category"]: one["p"] for one in description["categories"]} == {"true": 0.5, "maybe": 0.5}
    description = described(
        Column("id", Kind.IDENTIFIER, CellFormat(Kind.CATEGORY), "(other)"), *(pl.Series("id", ["a", "b"]),) * 2
    )
    assert description["categories"] == [{"category": "a value of its own", "p": 1.0, "q": 1.0}]


def test_column_that_is_all_gaps_in_one_sample(
    evidence: dict[str, Any], samples: tuple[pl.DataFrame, pl.DataFrame]
) -> None:
    P, Q = (frame.select("noise", "age") for frame in samples)
    ratio = ClassifierRatio("logistic", random_state=0).fit_samples(P[:300], Q[:300])
    description = column(
        gather(ratio, P[300:].with_columns(age=pl.lit(None, pl.Float64)), Q[300:], origin=ORIGIN), "age"
    )
    assert description["numbers"]["p"] is None
    assert description["missing"]["p"] == 1
    assert sum(description["histogram"]["p"]) == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, ["has no file", "A report needs a model that `flowratio fit` wrote"]),
        ('{"format": "flowratio evi', ["cut short or not JSON", "fit again"]),
        ("[" * 100_000, ["cut short or not JSON"]),
        ("\udcff", ["cut short or not JSON"]),
        ("[1, 2]", ["not evidence of flowratio"]),
        ('{"format": "flowratio evidence", "version": 8}', ["format version 8", "version 7. Upgrade flowratio."]),
        ('{"format": "flowratio evidence", "version": 6}', ["format version 6", "version 7. Fit the model again."]),
        ('{"format": "flowratio evidence", "version": 7}', ["was changed after it was written"]),
    ],
)
def test_file_that_cannot_be_read(content: str | None, words: list[str], tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / FILE).write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises((ValueError, FileNotFoundError)) as raised:
        read_evidence(tmp_path)
    said = str(raised.value)
    assert [word for word in words if word not in said] == []
    assert "\n" not in said


def test_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"There is no folder .*nowhere\. A report needs a model"):
        read_evidence(tmp_path / "nowhere")


def test_change_of_a_number_is_noticed(evidence: dict[str, Any], tmp_path: Path) -> None:
    path = write_evidence(evidence, tmp_path)
    path.write_text(path.read_text().replace('"seed": 3', '"seed": 4'))
    with pytest.raises(ValueError, match="was changed"):
        read_evidence(tmp_path)
