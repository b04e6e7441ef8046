"""Log-odds of categories: counts, shrinkage, cross-fitting, and columns with many categories in every ratio."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone

from flowratio.applications.crossfit import cross_fit, folds_of
from flowratio.applications.divergences import divergence
from flowratio.applications.generation import TargetedSampler
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios import categories
from flowratio.ratios.auto.auto import AutoRatio
from flowratio.ratios.auto.convex import ConvexRatio
from flowratio.ratios.categories import CategoryOdds, names_with_odds, prior_strength, with_category_odds
from flowratio.ratios.classifier.classifier import ClassifierRatio
from flowratio.ratios.featurized.featurized import FeaturizedRatio
from flowratio.ratios.inverse import InverseRatio
from flowratio.ratios.registry import RATIOS, new_ratio
from flowratio.samples.two_samples import TwoSamples, two_samples
from flowratio.scaling.gaussianizer import Gaussianizer
from flowratio.storage.saving import load, save
from flowratio.tables.encoder import TableEncoder


def shops(n: int, seed: int, n_shops: int = 400, shift: int = 200) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return two tables with equally frequent shops. `shift` of them are only in p, and as many are only in q."""
    rng = np.random.default_rng(seed)
    draws = [rng.integers(first, first + n_shops, n) for first in (0, shift)]
    tables = [pl.DataFrame({"shop": [f"s{k}" for k in draw], "x": rng.normal(size=n)}) for draw in draws]
    return tables[0], tables[1]


def coded(codes_p: list[int], codes_q: list[int], w: list[float] | None = None) -> TwoSamples:
    """Return samples of one column of codes, between two columns that are constant within a code."""
    codes = np.array([*codes_p, *codes_q], float)
    X = np.column_stack([codes**2, codes, np.zeros(len(codes))])
    weights = np.ones(len(codes)) if w is None else np.array(w)
    n_p = len(codes_p)
    log_odds = math.log(weights[:n_p].sum() / weights[n_p:].sum())
    return TwoSamples(X, n_p, weights, log_odds, names=("a", "shop", "b"), codes=(1,))


def fresh(ratio: Any) -> Any:
    return clone(ratio)


def held_out_score(name: str, samples: TwoSamples, seed: int) -> float:
    scores = cross_fit(
        ClassifierRatio(name, random_state=0), samples, folds_of(samples, 3, np.random.default_rng(seed)), 0
    )
    gains = [np.mean(np.logaddexp(0, -scores.p.log_r)), np.mean(np.logaddexp(0, scores.q.log_r))]
    return math.log(2) - sum(gains) / 2


class TestOdds:
    def test_counts_become_shrunken_log_odds(self) -> None:
        codes_p, codes_q = [0] * 30 + [1] * 5 + [2] * 15, [0] * 10 + [1] * 40 + [3] * 20 + [-1] * 5
        odds, rows = with_category_odds(coded(codes_p, codes_q))
        s, share = odds.strengths[0], 50 / 125
        a, b = np.array([30, 5, 15, 0]), np.array([10, 40, 0, 20])
        expected = np.log((a + s * share) / (b + s * (1 - share))) - math.log(share / (1 - share))
        assert np.allclose(odds.log_odds[0], expected)
        assert odds.absence[0].tolist() == [0, 0, 1, -1]
        new = np.array([[7.0, 2.0, 8.0], [7.0, -1.0, 8.0], [7.0, 4.0, 8.0]])  # the last two have no counts
        assert np.allclose(odds.replaced(new), [[7, expected[2], 1, 8], [7, 0, 0, 8], [7, 0, 0, 8]])
        assert rows.names == ("a", "shop log-odds", "shop only in one sample", "b")
        assert (rows.codes, rows.encoder, rows.w.sum(), rows.X.shape[1]) == ((), None, 125, 4)

    def test_each_row_counts_the_other_folds(self) -> None:
        """Brute force: the counts of a row are those of all rows in other folds."""
        rng = np.random.default_rng(0)
        samples = coded(rng.integers(0, 8, 60).tolist(), rng.integers(4, 12, 90).tolist())
        ordered, fold = categories._in_folds(samples)
        odds, rows = with_category_odds(samples)
        s, share, codes = odds.strengths[0], 60 / 150, ordered.X[:, 1]
        for i in range(len(codes)):
            others = (fold != fold[i]) & (codes == codes[i])
            a, b = (ordered.w[others & (ordered.y == label)].sum() for label in (1, 0))
            expected = math.log((a + s * share) / (b + s * (1 - share))) - math.log(share / (1 - share))
            assert rows.X[i, 1] == pytest.approx(expected)
            assert rows.X[i, 2] == int(a > 0) - int(b > 0)

    def test_prior_strength(self) -> None:
        rng = np.random.default_rng(0)
        for strength in (1.0, 16.0):  # the log-likelihood of 2000 categories is narrower than a factor of 2
            a = rng.binomial(40, rng.beta(strength / 2, strength / 2, 2000))
            assert strength / 2 <= prior_strength(a, 40 - a, 0.5) <= 2 * strength
        same = [prior_strength(a := rng.binomial(5, 0.3, 400), 5 - a, 0.3) for _ in range(50)]
        # a gain of 2 nats or more has a probability of about 2 %, half of that of χ² with one degree of freedom above 4
        assert np.isinf(same).sum() >= 45

    def test_categories_that_do_not_differ_have_no_odds(self) -> None:
        odds, rows = with_category_odds(coded([0, 1, 2, 3] * 20, [0, 1, 2, 3] * 30))
        assert odds.strengths == (math.inf,)
        assert not rows.X[:, 1:3].any()
        assert not odds.replaced(np.array([[0.0, 2.0, 0.0]]))[:, 1:3].any()

    @pytest.mark.parametrize("n_categories", [20, 400])
    def test_labels_do_not_leak_into_the_rows(self, n_categories: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """If p = q, cross-fitted log-odds are not correlated with the label, whatever the shrinkage."""
        monkeypatch.setattr(categories, "_MIN_GAIN", -math.inf)
        monkeypatch.setattr(categories, "_STRENGTHS", np.array([1.0]))
        leak, honest = [], []
        for seed in range(20):
            codes = np.random.default_rng(seed).integers(0, n_categories, (2, 500))
            odds, rows = with_category_odds(coded(codes[0].tolist(), codes[1].tolist()))
            n = rows.w.astype(int)
            honest.append(np.corrcoef(np.repeat(rows.X[:, 1], n), np.repeat(rows.y, n))[0, 1])
            leak.append(np.corrcoef(odds.log_odds[0][codes.ravel()], np.repeat([1, 0], 500))[0, 1])
        # a correlation of 1000 rows has a standard error of 0.03, and the mean of 20 of 0.007
        assert abs(np.mean(honest)) < 3 * 0.007
        assert np.mean(leak) > 0.1

    def test_order_and_copies_of_rows_do_not_matter(self) -> None:
        rng = np.random.default_rng(1)
        codes_p, codes_q = rng.integers(0, 30, 200), rng.integers(15, 45, 100)
        odds, rows = with_category_odds(coded(codes_p.tolist(), codes_q.tolist()))
        other, others = with_category_odds(coded(rng.permutation(codes_p).tolist(), rng.permutation(codes_q).tolist()))
        assert np.array_equal(rows.X, others.X)
        assert np.array_equal(rows.w, others.w)
        assert np.array_equal(odds.log_odds[0], other.log_odds[0])
        (u_p, n_p), (u_q, n_q) = (np.unique(codes, return_counts=True) for codes in (codes_p, codes_q))
        _, weighted = with_category_odds(coded(u_p.tolist(), u_q.tolist(), [*n_p, *n_q]))
        assert np.array_equal(weighted.X, rows.X)

    def test_swapped_samples_have_negative_odds(self) -> None:
        rng = np.random.default_rng(2)
        codes_p, codes_q = rng.integers(0, 30, 200).tolist(), rng.integers(15, 45, 100).tolist()
        odds, rows = with_category_odds(coded(codes_p, codes_q))
        swapped, others = with_category_odds(coded(codes_q, codes_p))
        assert np.allclose(odds.log_odds[0], -swapped.log_odds[0])
        assert np.allclose(rows.X_p[:, 1:3], -others.X_q[:, 1:3])

    def test_relative_weights(self) -> None:
        rng = np.random.default_rng(3)
        codes_p, codes_q = rng.integers(0, 8, 300), rng.integers(4, 12, 300)
        w = rng.uniform(0.5, 2.0, 600)
        order = np.concatenate([rng.permutation(300), 300 + rng.permutation(300)])
        codes = np.concatenate([codes_p, codes_q])
        odds, rows = with_category_odds(coded(codes_p.tolist(), codes_q.tolist(), w.tolist()))
        again, others = with_category_odds(
            coded(codes[order[:300]].tolist(), codes[order[300:]].tolist(), w[order].tolist())
        )
        assert np.allclose(odds.log_odds[0], again.log_odds[0])
        assert np.allclose(rows.X, others.X)
        assert len(rows.X) == 600
        # codes 0 to 3 are only in p, 8 to 11 only in q, and 25 or more rows of each are in other folds
        only = {1: rows.X[:, 0] < 16, -1: rows.X[:, 0] >= 64}
        for sign, mask in only.items():
            assert (rows.X[mask, 2] == sign).all()
        assert not rows.X[~(only[1] | only[-1]), 2].any()

    def test_drawn_log_odds_become_categories_as_often_as_they_occur(self) -> None:
        shares = np.array([0.2, 0.3, 0.1, 0.1, 0.2, 0.1])
        log_odds, absence = np.array([0.0, 0.0, 3.0, 3.1, -3.0, -3.0]), np.array([0.0, 0.0, 1.0, 1.0, -1.0, 0.0])
        odds = CategoryOdds((2,), (log_odds,), (absence,), (shares,), (1.0,))
        rng = np.random.default_rng(0)
        draws = np.column_stack([np.zeros((4000, 2)), rng.normal(3.0, 0.01, 4000), np.ones(4000)])
        codes = odds.restored(draws, (2,))[:, 2]
        # categories 2 and 3 have nearly the same log-odds and share: 4 binomial errors
        assert {*codes} == {2.0, 3.0}
        assert np.mean(codes == 2) == pytest.approx(0.5, abs=4 * math.sqrt(0.25 / 4000))
        # the indicators are those of code 1, which is in both samples, and of "(other)"
        few = np.array([[0.9, 0.0, -9.0, -1.2], [0.0, 1.0, -9.0, 0.2], [0.8, 0.0, 0.01, 0.0]])
        assert odds.restored(few, (2,)).tolist() == [[0, 0, 4], [0, 1, 5], [0.8, 0, 0]]
        assert np.array_equal(odds.restored(draws, (2,)), odds.restored(draws, (2,)))

    def test_names(self) -> None:
        assert names_with_odds(("a", "b"), ()) == ("a", "b")
        assert names_with_odds(("a", "b"), (0,)) == ("a log-odds", "a only in one sample", "b")


@pytest.mark.filterwarnings("ignore::flowratio.ratios.base.OverlapWarning")  # half of p is nowhere in q
class TestShops:
    @pytest.mark.parametrize(("name", "n"), [("logistic", 3_000), ("logistic", 10_000), ("boosting", 3_000)])
    def test_total_variation_of_shops(self, name: str, n: int) -> None:
        # half of the rows of each file are of shops that the other file does not have
        result = divergence(*shops(n, 0), "tv", ratio=name, random_state=0)
        assert result.value == pytest.approx(0.5, abs=0.1)

    @pytest.mark.parametrize("name", ["logistic", "boosting"])
    def test_equal_shops_are_no_difference(self, name: str) -> None:
        # the held-out score of a ratio that learned noise is negative, and its standard error is below 0.002
        scores = [held_out_score(name, two_samples(*shops(600, seed, 300, 0)), seed) for seed in range(4)]
        assert max(scores) < 0.004
        assert np.mean(scores) < 0.001

    def test_a_shop_in_one_file_is_seen_by_auto(self) -> None:
        P, Q = (table.select("shop") for table in shops(2_000, 0, 60, 30))  # equal rows: each shop is one row
        auto: Any = AutoRatio(["logistic", "boosting"], random_state=0).fit_samples(P, Q)
        truth = np.array([np.inf if int(shop[1:]) < 30 else 0.0 for shop in P["shop"]])
        log_r = auto.log_ratio(P)
        assert log_r[truth > 0].min() > 1.5
        # 33 rows in each file: the log-odds of a shop have a standard error of 0.25
        assert np.abs(log_r[truth == 0]).mean() < 0.5
        assert auto.category_odds_ is None
        assert auto.models_[0][0].category_odds_ is not None

    @pytest.mark.parametrize(
        "ratio",
        [
            ClassifierRatio("logistic"),
            ClassifierRatio("boosting", random_state=0),
            InverseRatio(ClassifierRatio("logistic")),
            FeaturizedRatio("logistic", featurizer=Gaussianizer(), random_state=0),
            ConvexRatio(["logistic", "lda"]),
            AutoRatio(["logistic", "lda"], random_state=0),
        ],
        ids=lambda ratio: type(ratio).__name__,
    )
    def test_saved_cloned_inverted(self, ratio: Any, tmp_path: Path) -> None:
        P, Q = shops(300, 0, 40, 20)
        model = fresh(ratio).fit_samples(P, Q)
        log_r = model.log_ratio(Q)
        save(model, tmp_path / "model")
        assert np.array_equal(load(tmp_path / "model").log_ratio(Q), log_r)
        assert np.array_equal(model.inverse().log_ratio(Q), -log_r)
        assert np.array_equal(fresh(model).fit_samples(P, Q).log_ratio(Q), log_r)
        order = np.random.default_rng(0).permutation(300)
        again = fresh(ratio).fit_samples(P[order], Q[order[::-1]]).log_ratio(Q)
        assert np.allclose(again, log_r, atol=1e-6)

    def test_a_refit_forgets_the_odds(self) -> None:
        ratio = ClassifierRatio("logistic").fit_samples(*shops(300, 0, 40, 20))
        assert ratio.category_odds_ is not None
        rng = np.random.default_rng(0)
        assert ratio.fit_samples(rng.normal(size=(20, 2)), rng.normal(size=(20, 2))).category_odds_ is None

    def test_design_has_the_columns_of_the_encoder(self) -> None:
        P, Q = shops(300, 0, 40, 20)
        model = ClassifierRatio("logistic").fit_samples(P, Q)
        design = model.design(Q)
        assert design.names[-2:] == ["shop (category)", "x"]
        assert design.groups.tolist() == [0] * 21 + [1]
        assert np.array_equal(model.log_ratio_prepared(design.matrix), model.log_ratio(Q))

    def test_a_fitted_map_is_checked_after_the_codes(self) -> None:
        P, Q = shops(300, 0, 40, 20)
        first = FeaturizedRatio("logistic", featurizer=Gaussianizer(), random_state=0).fit_samples(P, Q)
        shared = FeaturizedRatio("logistic", featurizer=first.featurizer_, random_state=0)
        assert np.allclose(fresh(shared).fit_samples(P, Q).log_ratio(Q), first.log_ratio(Q))
        auto = AutoRatio([shared], random_state=0).fit_samples(P, Q)
        assert np.isfinite(auto.log_ratio(Q)).all()


@pytest.mark.filterwarnings("ignore")  # of so few rows and epochs
@pytest.mark.parametrize("own", [True, False], ids=["flow of log-odds", "flow of codes"])
def test_drawn_rows_have_real_shops(own: bool) -> None:
    P, Q = shops(1_000, 0, 40, 20)  # s0 to s19 are only in p, s40 to s59 only in q
    flow = FlowFeaturizer(max_epochs=10, random_state=0)
    if own:
        ratio: Any = FeaturizedRatio("logistic", featurizer=flow, random_state=0).fit_samples(P, Q)
        sampler = TargetedSampler(ratio, random_state=0)
    else:
        ratio = ClassifierRatio("logistic").fit_samples(P, Q)
        sampler = TargetedSampler(ratio, flow.fit(ratio.design(pl.concat([P, Q])).matrix), random_state=0)
    targets: Any = (("p", range(20), range(40, 60)), ("q", range(40, 60), range(20)))
    for toward, only, never in targets:
        draws = sampler.sample(400, toward)["shop"].to_list()
        numbers = np.array([int(shop[1:]) for shop in draws])  # "(other)" is not a shop
        # 4 binomial errors of 400 rows are 0.1, and 0.1 more for a flow of 10 epochs
        assert np.isin(numbers, only).mean() == pytest.approx(0.5, abs=0.2)
        assert np.isin(numbers, never).mean() < 0.05
        assert np.bincount(numbers).max() < 0.2 * 400  # each of 40 shops has 1/40
        assert len(np.unique(numbers)) > 30


@pytest.mark.filterwarnings("ignore")  # of so few rows and epochs
@pytest.mark.parametrize("name", [name for name in RATIOS if name != "cnn"])  # which takes images
def test_thousands_of_categories_with_every_ratio(name: str) -> None:
    rng = np.random.default_rng(0)
    many = pl.DataFrame({"shop": [f"s{k}" for k in rng.integers(0, 5_000, 25_000)], "x": rng.normal(size=25_000)})
    encoder = TableEncoder().fit(many)
    assert encoder.columns_[0].n_categories > 4_900
    P, Q = (table.with_columns(pl.col("x") + k) for k, table in enumerate(shops(60, 1, 20, 10)))
    ratio = new_ratio(name, 0)
    quick: dict[str, Any] = {"candidates": ["logistic", "lda"]} if name == "auto" else {"max_epochs": 2}
    settings = {key: value for key, value in quick.items() if key in ratio.get_params()}
    if " in z" in name or name == "difference":
        settings["featurizer"] = FlowFeaturizer(max_epochs=2)
    log_r = ratio.set_params(**settings).fit_samples(P, Q, encoder=encoder).log_ratio(many[:200])
    assert log_r.shape == (200,)
    assert np.isfinite(log_r).all()


@pytest.mark.filterwarnings("ignore::flowratio.OverlapWarning")  # a third of the shops of p are not in q
@pytest.mark.parametrize("by_labels", [True, False])
def test_weights_of_rows_with_categories(by_labels: bool) -> None:
    """Integer weights equal repeated rows, and rows of weight 0 equal rows that are dropped."""
    (P, Q), rng = shops(300, 3, 60, 20), np.random.default_rng(4)
    w = [rng.integers(0, 4, 300) for _ in range(2)]
    again = [table[np.repeat(np.arange(300), one)] for table, one in zip((P, Q), w, strict=True)]
    expected = ClassifierRatio("logistic").fit_samples(*again)
    ratio = ClassifierRatio("logistic")
    if by_labels:
        ratio.fit(pl.concat([P, Q]), np.repeat([1, 0], 300), np.concatenate(w))
    else:
        ratio.fit_samples(P, Q, *w)
    assert ratio.encoder_ is not None
    assert expected.encoder_ is not None
    assert ratio.encoder_.columns_ == expected.encoder_.columns_
    assert np.allclose(ratio.log_ratio(again[0]), expected.log_ratio(again[0]), atol=1e-6)
    assert expected.uncovered_share_ > 0.1
    assert ratio.uncovered_share_ == pytest.approx(expected.uncovered_share_)
    samples = two_samples(P, Q, *w)
    assert samples.encoder is not None
    assert samples.encoder.columns_ == expected.encoder_.columns_
