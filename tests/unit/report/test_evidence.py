from __future__ import annotations

import json
import math
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from flowratio.diagnostics.balance import Balance
from flowratio.ratios.auto.auto import AutoRatio
from flowratio.ratios.base import RatioEstimator
from flowratio.ratios.classifier.classifier import ClassifierRatio
from flowratio.report import evidence as module
from flowratio.report.category_changes import category_sentences, category_shares, changed_categories, levels_of
from flowratio.report.evidence import FILE, Origin, _described, gather, read_evidence, write_evidence
from flowratio.tables.columns import Column, learn_column
from flowratio.tables.formats import CellFormat, Kind
from flowratio.training.run import History

MADE: Origin = {
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
def found(ratio: RatioEstimator, samples: tuple[pl.DataFrame, pl.DataFrame]) -> dict[str, Any]:
    P, Q = samples
    return gather(ratio, P[300:], Q[300:], origin=MADE)


def column(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in found["columns"] if one["name"] == name)


def test_written_and_read_it_is_the_same(found: dict[str, Any], tmp_path: Path) -> None:
    assert write_evidence(found, tmp_path) == tmp_path / FILE
    assert read_evidence(tmp_path) == found
    json.dumps(found, allow_nan=False)


def test_how_it_was_made(found: dict[str, Any]) -> None:
    origin = found["origin"]
    assert {name: origin[name] for name in MADE} == MADE
    assert (origin["checked_p"], origin["checked_q"]) == (400, 300)
    assert {"flowratio", "python", "torch"} <= origin["versions"].keys()


def test_numbers_of_a_column(found: dict[str, Any], samples: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    age = column(found, "age")
    for sample, frame in zip("pq", samples, strict=True):
        values = frame["age"][300:]
        known = values.drop_nulls().to_numpy()
        told = age["numbers"][sample]
        assert age["gaps"][sample] == pytest.approx(values.null_count() / len(values), rel=1e-3)
        assert told["mean"] == pytest.approx(known.mean(), rel=1e-6)
        assert told["sd"] == pytest.approx(known.std(), rel=1e-3)
        np.testing.assert_allclose(told["quartiles"], np.quantile(known, [0, 0.25, 0.5, 0.75, 1]), rtol=1e-6)
        shares, _ = np.histogram(
            np.clip(known, *np.array(age["histogram"]["edges"])[[0, -1]]), age["histogram"]["edges"]
        )
        # a value on an edge, which is rounded, may change its bar
        np.testing.assert_allclose(age["histogram"][sample], shares / len(known), atol=1.5 / len(known))
        assert sum(age["histogram"][sample]) == pytest.approx(1, abs=2e-3)


def test_dates_are_days_and_whole_numbers_have_bars_of_their_own(found: dict[str, Any]) -> None:
    assert column(found, "since")["kind"] == "date"
    assert 18_262 <= column(found, "since")["numbers"]["p"]["quartiles"][0] <= 18_280  # 2020-01-01 is day 18 262
    assert column(found, "rooms")["histogram"]["edges"] == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]


def test_levels_of_a_column(found: dict[str, Any], samples: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    shares = {one["level"]: one for one in column(found, "job")["levels"]}
    assert shares["clerk"]["p"] == pytest.approx((samples[0]["job"][300:] == "clerk").mean(), rel=1e-3)
    assert shares["clerk"]["q"] == pytest.approx((samples[1]["job"][300:] == "clerk").mean(), rel=1e-3)
    assert {one["level"] for one in column(found, "member")["levels"]} == {"true", "false"}
    assert column(found, "country")["levels"] == [{"level": "NL", "p": 1.0, "q": 1.0}]


def test_numbers_are_rounded() -> None:
    assert (module._finite(1234.5678), module._finite(math.nan)) == (1235.0, None)


def test_rare_levels_of_many_are_one() -> None:
    levels = levels_of(category_shares(pl.Series([f"a{k}" for k in range(30)] + ["b"] * 30), pl.Series(["b"])))
    assert levels[0] == {"level": "b", "p": 0.5, "q": 1.0}
    assert levels[-1]["level"] == "11 others"
    assert sum(one["p"] for one in levels) == pytest.approx(1, abs=1e-3)


def test_new_vanished_and_changed_categories() -> None:
    p = pl.Series(["a"] * 50 + ["b"] * 30 + ["new"] * 20)
    q = pl.Series(["a"] * 50 + ["b"] * 80 + ["old"] * 70)
    found = changed_categories(category_shares(p, q), len(p), len(q))
    assert (found["n_new"], found["share_new"], found["new"]) == (1, 0.2, [{"level": "new", "p": 0.2, "q": 0.0}])
    assert (found["n_vanished"], found["share_vanished"]) == (1, 0.35)
    assert [one["level"] for one in found["changed"]] == ["a"]  # b: 0.3 and 0.4, 1.7 standard errors
    column = {"name": "town", "changes": found}
    files = {"file_p": "p.csv", "file_q": "q.csv"}
    words = category_sentences({"origin": files, "columns": [column], "diagnosis": {"grouping": {"town": 0.12}}})
    assert words == [
        "Column town has 1 category only in p.csv (20.0% of its rows)"
        " and 1 category only in q.csv (35.0% of its rows).",
        "12.0% of rows have a category of town with fewer than 5 rows. Their ratios are not estimated one by one.",
    ]


def test_shares_of_changed_categories_are_those_of_all_rows() -> None:
    p = pl.Series("town", [None] * 100 + ["a"] * 50 + ["b"] * 30 + ["new"] * 20)
    q = pl.Series("town", [None] * 50 + ["a"] * 50 + ["b"] * 80 + ["old"] * 70)
    changes = _described(learn_column(pl.concat([p, q]), 20), p, q)["changes"]
    assert (changes["share_new"], changes["share_vanished"]) == (0.1, 0.28)  # 20 of 200 rows, 70 of 250
    assert changes["new"] == [{"level": "new", "p": 0.1, "q": 0.0}]
    # b has the same share of all rows nearly, and does not differ beyond chance among the cells
    assert changes["changed"] == [{"level": "a", "p": 0.25, "q": 0.2}]


def test_driver_compares_one_category_before_and_after() -> None:
    one = np.ones(3)
    balance = Balance(["a = x", "a = y", "b"], np.array([-0.9, 0.5, 0.1]), np.array([0.05, 0.3, 0.0]), one, one, one)
    driver = module._driver(balance, np.array([0, 1]))
    assert (driver["of"], driver["before"], driver["after"]) == ("a = x", -0.9, 0.05)
    assert driver["worst_after"] == {"name": "a = y", "before": 0.5, "after": 0.3}
    assert module._driver(balance, np.array([2]))["worst_after"] is None


def test_drivers_are_the_deviations_of_their_terms(
    found: dict[str, Any], ratio: RatioEstimator, samples: tuple[pl.DataFrame, pl.DataFrame]
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
        assert column(found, source.name)["driver"]["effect"] == pytest.approx(deviation, rel=0.1, abs=1e-6)
    assert found["columns"][0]["name"] == "age"
    assert sum(one["driver"]["share"] for one in found["columns"]) == pytest.approx(1, abs=1e-3)
    assert column(found, "country")["driver"]["share"] == 0


def test_kept_rows_give_the_balance_of_the_diagnosis(found: dict[str, Any]) -> None:
    rows, balance = found["rows"], found["diagnosis"]["balance"]
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
    rows = gather(ratio, P, Q, origin=MADE)["rows"]
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
    P, Q = (frame[300:] for frame in samples)
    for n_columns in (1, 2, 4):
        found = gather(ratio, P, Q, featurizer=Stretched(n_columns), origin=MADE)
        latent = found["latent"]
        assert len(latent["names"]) == len(latent["p"]) == min(n_columns, 2)
        assert (len(latent["p"][0]), len(latent["q"][0])) == (400, 300)
    Z = np.concatenate([latent["p"], latent["q"]], axis=1)
    # deviations of 700 draws: 3 % each
    np.testing.assert_allclose(Z.std(axis=1), [10, 3], rtol=0.1)
    assert found["training"]["train_loss"] == [3, None]
    assert found["training"]["held_out_loss"] == [2.5, 2]


def test_nothing_to_tell_is_none(found: dict[str, Any]) -> None:
    assert [found[name] for name in ("latent", "training", "candidates")] == [None, None, None]


def test_candidates(samples: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    P, Q = samples
    auto = AutoRatio(["lda", "logistic"], n_folds=2, random_state=0)
    ratio = auto.fit_samples(P[:300], Q[:300])
    told = gather(ratio, P[300:], Q[300:], origin=MADE)["candidates"]
    assert {one["name"] for one in told["table"]} == {"lda", "logistic"}
    assert told["verdict"] == ratio.results_.verdict
    assert told["table"][0]["score"] == pytest.approx(ratio.results_.candidates[0].score, rel=1e-3)


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
    told = module._histogram(np.array(values), np.array(values[:1]))
    assert told is not None
    assert len(told["edges"]) <= module._BINS + 2
    assert np.all(np.diff(told["edges"]) > 0)
    assert (sum(told["p"]), sum(told["q"])) == (pytest.approx(1, abs=1e-3), 1)


@pytest.mark.parametrize("values", ODD)
def test_moments_of_odd_values(values: list[float]) -> None:
    told = module._moments(np.array(values))
    assert told is not None
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    spread = float(sum((value - mean) ** 2 for value in exact) / len(exact) / max(map(abs, exact)) ** 2)
    size = max(map(abs, values))
    # means of 12 digits, deviations of 4
    assert told["mean"] / size == pytest.approx(float(mean / Fraction(size)), rel=1e-11, abs=1e-15)
    assert told["sd"] / size == pytest.approx(math.sqrt(spread), rel=1e-3, abs=1e-15)
    assert told["quartiles"][::4] == pytest.approx([min(values), max(values)], rel=1e-11)
    json.dumps(told, allow_nan=False)


def test_words_in_a_constant_of_truth_values_and_identifiers() -> None:
    constant = Column("on", Kind.CONSTANT, CellFormat(Kind.BOOLEAN), 1.0)
    told = _described(constant, constant.parse(pl.Series("on", ["maybe", "true", ""])), pl.Series("on", ["true"]))
    assert told["gaps"]["p"] == pytest.approx(1 / 3, abs=1e-3)
    assert {one["level"]: one["p"] for one in told["levels"]} == {"true": 0.5, "maybe": 0.5}
    told = _described(
        Column("id", Kind.IDENTIFIER, CellFormat(Kind.CATEGORY), "(other)"), *(pl.Series("id", ["a", "b"]),) * 2
    )
    assert told["levels"] == [{"level": "a value of its own", "p": 1.0, "q": 1.0}]


def test_column_that_is_all_gaps_in_one_sample(
    found: dict[str, Any], samples: tuple[pl.DataFrame, pl.DataFrame]
) -> None:
    P, Q = (frame.select("noise", "age") for frame in samples)
    ratio = ClassifierRatio("logistic", random_state=0).fit_samples(P[:300], Q[:300])
    told = column(gather(ratio, P[300:].with_columns(age=pl.lit(None, pl.Float64)), Q[300:], origin=MADE), "age")
    assert told["numbers"]["p"] is None
    assert told["gaps"]["p"] == 1
    assert sum(told["histogram"]["p"]) == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, ["has no file", "A report needs a model that `flowratio fit` wrote"]),
        ('{"format": "flowratio evi', ["cut short or not JSON", "fit again"]),
        ("[" * 100_000, ["cut short or not JSON"]),
        ("\udcff", ["cut short or not JSON"]),
        ("[1, 2]", ["not evidence of flowratio"]),
        ('{"format": "flowratio evidence", "version": 4}', ["format version 4", "version 3. Upgrade flowratio."]),
        ('{"format": "flowratio evidence", "version": 2}', ["format version 2", "version 3. Fit the model again."]),
        ('{"format": "flowratio evidence", "version": 3}', ["was changed after it was written"]),
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


def test_change_of_a_number_is_noticed(found: dict[str, Any], tmp_path: Path) -> None:
    path = write_evidence(found, tmp_path)
    path.write_text(path.read_text().replace('"seed": 3', '"seed": 4'))
    with pytest.raises(ValueError, match="was changed"):
        read_evidence(tmp_path)
