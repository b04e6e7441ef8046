"""A permutation test: exact under the null, never 0, and it names the columns that drive a difference."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy.stats import kstest, norm, rankdata

from flowratio import ULSIF, ClassifierRatio, RatioEstimator
from flowratio.applications.column_changes import ChangeKind, ColumnChanges
from flowratio.applications.rank_scores import RankScores
from flowratio.applications.testing import TwoSampleTest, two_sample_test
from flowratio.ratios.registry import named_ratio


@pytest.mark.parametrize("ratio", [None, "logistic"])
def test_p_values_are_uniform_under_the_null(ratio: str | None) -> None:
    results = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X_p, X_q = rng.standard_t(4, (30, 2)), rng.standard_t(4, (40, 2))
        results.append(two_sample_test(X_p, X_q, ratio, n_permutations=39, random_state=seed).p_value)
    # multiples of 1/40: spread evenly below each of them they are uniform
    spread = np.array(results) - np.random.default_rng(0).uniform(0, 1 / 40, 200)
    assert kstest(spread, "uniform").pvalue > 0.001


@pytest.mark.parametrize("ratio", [None, "logistic", "lda", "qda", "boosting", ClassifierRatio("logistic")])
def test_a_shift_is_noticed_and_named(ratio: str | RatioEstimator | None) -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(size=(150, 4)), rng.normal(size=(200, 4))
    X_p[:, 2] += 1.5
    columns = ["a", "b", "shifted", "d"]
    result = two_sample_test(
        pd.DataFrame(X_p, columns=columns),
        pd.DataFrame(X_q, columns=columns),
        ratio,
        n_permutations=19,
        random_state=0,
    )
    assert result.p_value == 1 / 20
    assert result.drivers.names[0] == "shifted"
    assert result.drivers.p_value[0] == 1 / 20
    assert result.drivers.change[0] == "mean"
    assert (result.drivers.p_value[1:] > 1 / 20).all()
    assert result.conclusion == "The files differ (p = 0.05, 19 permutations). Largest change: shifted."
    assert (result.importance is None) == (ratio is None)


@pytest.mark.parametrize("name", ["logistic", "lda", "boosting", "ulsif"])
def test_a_name_and_its_object_give_the_same_test(name: str) -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(0.3, 1, (60, 2)), rng.normal(size=(80, 2))
    by_name, by_object = (
        two_sample_test(X_p, X_q, ratio, n_permutations=5, random_state=0) for ratio in (name, named_ratio(name))
    )
    assert by_name.statistic == by_object.statistic
    np.testing.assert_array_equal(by_name.null, by_object.null)
    np.testing.assert_array_equal(by_name.drivers.p_value, by_object.drivers.p_value)


def test_rows_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(ULSIF, "fit", refuse)
    X = np.random.default_rng(0).normal(size=(20, 2))
    assert two_sample_test(X, X, ULSIF(), n_permutations=2, random_state=0).p_value > 0.05


@pytest.mark.parametrize("change", ["mean", "variance", "tails", "two modes", "correlation"])
def test_what_is_seen_without_a_ratio(change: str) -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(size=(500, 4)), rng.normal(size=(600, 4))
    modes = 0.9 * rng.choice([-1.0, 1.0], 500) + math.sqrt(1 - 0.81) * rng.normal(size=500)
    X_p[:, 2] = {
        "mean": X_p[:, 2] + 0.4,
        "variance": X_p[:, 2] * 1.4,
        "tails": rng.standard_t(3, 500) / math.sqrt(3),  # of variance 1, as those below
        "two modes": modes,
        "correlation": 0.4 * X_p[:, 1] + math.sqrt(1 - 0.16) * X_p[:, 2],
    }[change]
    result = two_sample_test(X_p, X_q, n_permutations=99, random_state=0)
    assert result.p_value == 1 / 100
    named = result.drivers.names[: 2 if change == "correlation" else 1]
    assert set(named) == ({"x2", "x3"} if change == "correlation" else {"x3"})
    assert result.drivers.clear == named
    words = {"mean": "mean", "variance": "spread", "correlation": "correlation with x"}
    assert result.drivers.change[0].startswith(words.get(change, "shape"))


def test_a_small_shift_of_one_column_among_many_is_noticed() -> None:
    p_values = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X_p, X_q = rng.normal(size=(1000, 10)), rng.normal(size=(1000, 10))
        X_p[:, 4] += 0.2
        p_values.append(two_sample_test(X_p, X_q, n_permutations=39, random_state=seed).p_value)
    # the shift is 4.5 standard errors, and the largest of 95 normal scores rarely 3.5: noticed in five of six
    assert np.count_nonzero(np.array(p_values) <= 0.05) >= 15


def test_scores_are_differences_of_means() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, (25, 3)).astype(float)  # with ties
    order = rng.permutation(25)
    curves, products, correlations = RankScores(X, 10, np.arange(3)).measures(order)
    U = norm.ppf((rankdata(X, axis=0) - 0.5) / 25)
    for k, h in enumerate((U, U**2 - 1, U**3 - 3 * U, U**4 - 6 * U**2 + 3)):
        np.testing.assert_allclose(curves[k], _z(h, order, 10), atol=1e-10)
    np.testing.assert_allclose(products[0, 1:], _z(U[:, :1] * U[:, 1:], order, 10), atol=1e-10)
    np.testing.assert_allclose(products[1, 2], _z(U[:, 1] * U[:, 2], order, 10), atol=1e-10)
    r_p, r_q = (np.corrcoef(U[rows].T) for rows in (order[:10], order[10:]))
    change = abs(math.atanh(r_p[0, 2]) - math.atanh(r_q[0, 2])) / math.sqrt(1 / 7 + 1 / 12)
    assert correlations[0, 2] == pytest.approx(change)
    assert correlations[2, 0] == pytest.approx(change)


def _z(features: np.ndarray, order: np.ndarray, n_p: int) -> np.ndarray:
    """Return differences of means in units of their standard deviation over all permutations."""
    n = len(order)
    difference = features[order[:n_p]].mean(axis=0) - features[order[n_p:]].mean(axis=0)
    return difference / (features.std(axis=0, ddof=1) * math.sqrt(1 / n_p + 1 / (n - n_p)))


def test_monotone_maps_of_columns_change_nothing() -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(0.2, 1, (50, 2)), rng.normal(size=(60, 2))
    one = two_sample_test(X_p, X_q, n_permutations=9, random_state=0)
    two = two_sample_test(X_p**3, X_q**3, n_permutations=9, random_state=0)
    np.testing.assert_array_equal(one.null, two.null)
    assert one.statistic == two.statistic


@pytest.mark.parametrize("shape", [(6, 1), (6, 20)])
def test_one_column_and_more_columns_than_rows(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    result = two_sample_test(rng.normal(size=shape), 9 + rng.normal(size=shape), n_permutations=99, random_state=0)
    assert result.p_value < 0.05  # 2 of 924 deals part the samples


def test_a_change_of_correlation_is_noticed_by_qda_only() -> None:
    rng = np.random.default_rng(0)
    X_q = rng.normal(size=(400, 2))
    X_p = rng.normal(size=(400, 2)) @ np.linalg.cholesky([[1, 0.7], [0.7, 1]]).T
    assert two_sample_test(X_p, X_q, "qda", n_permutations=39, random_state=0).p_value == 1 / 40
    assert two_sample_test(X_p, X_q, "logistic", n_permutations=39, random_state=0).p_value > 0.05


def test_identical_samples_are_not_rejected() -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    assert two_sample_test(X, X, n_permutations=19, random_state=0).p_value > 0.05


def test_a_column_that_is_constant_and_one_that_tells_all() -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = np.ones((50, 3)), np.ones((50, 3))
    X_p[:, 1], X_q[:, 1] = rng.normal(size=50), rng.normal(size=50) + 100
    result = two_sample_test(X_p, X_q, n_permutations=19, random_state=0)
    assert result.p_value == 1 / 20
    assert result.drivers.names[0] == "x2"
    assert np.isfinite([result.statistic, result.drivers.effect[0], result.drivers.standard_error[0]]).all()
    assert result.drivers.effect[1:].tolist() == [0.0, 0.0]


class _Forgetful:
    """A ratio of the first column that refuses rows it was fitted to, unless these were all there are."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> _Forgetful:
        self.seen = set() if len(X) == 50 else set(X[:, 0].tolist())
        return self

    def log_ratio(self, X: np.ndarray) -> np.ndarray:
        assert not self.seen.intersection(X[:, 0].tolist())
        return X[:, 0]


def test_rows_are_told_by_ratios_that_have_not_seen_them() -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(size=(20, 2)), rng.normal(size=(30, 2))
    X_p[:, 0] += 2
    result = two_sample_test(X_p, X_q, _Forgetful(), n_permutations=19, random_state=0)
    assert result.importance is not None
    assert result.importance.share.tolist() == [1.0, 0.0]
    all_of_them = np.append(result.null, result.statistic)
    assert all_of_them.mean() == pytest.approx(0, abs=1e-12)
    assert all_of_them.std() == pytest.approx(1)


def test_same_seed_same_numbers() -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(size=(50, 2)), rng.normal(size=(60, 2))
    one, two = (two_sample_test(X_p, X_q, n_permutations=9, random_state=3) for _ in range(2))
    assert one.p_value == two.p_value
    np.testing.assert_array_equal(one.null, two.null)
    np.testing.assert_array_equal(one.drivers.effect, two.drivers.effect)


@pytest.mark.usefixtures("terminal")
def test_progress_is_shown_if_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(size=(20, 2)), rng.normal(size=(20, 2))
    two_sample_test(X_p, X_q, n_permutations=5, random_state=0)
    assert capsys.readouterr() == ("", "")
    two_sample_test(X_p, X_q, n_permutations=5, random_state=0, verbose=True)
    assert "permutations" in capsys.readouterr().err


def test_bad_input() -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match=r"`n_permutations` is 0\. Use an integer of 1 or more"):
        two_sample_test(X, X, n_permutations=0)
    with pytest.raises(ValueError, match="`X_p` has 2 columns but `X_q` has 1"):
        two_sample_test(X, X[:, :1])
    with pytest.raises(ValueError, match="smaller sample has 3 rows"):
        two_sample_test(X, X[:3])
    with pytest.raises(ValueError, match="`ratio` is 'qdaa'"):
        two_sample_test(X, X, "qdaa")
    with pytest.raises(ValueError, match="`classifier` is 'qdaa'"):
        two_sample_test(X, X, ClassifierRatio("qdaa"))
    with pytest.raises(ValueError, match="40 infinite values"):
        two_sample_test(np.full((20, 2), np.inf), X)


def test_drivers_of_groups() -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(size=(200, 3)), rng.normal(size=(200, 3))
    X_p[:, 1:] += 1
    result = two_sample_test(X_p, X_q, n_permutations=19, groups=["a", "b", "b"], random_state=0)
    assert result.drivers.names == ["b", "a"]
    # two independent shifts by 1: each log r has the variance 1 + 1/4
    assert abs(result.drivers.effect[0] - math.sqrt(2.5)) < 2 * result.drivers.standard_error[0]
    with pytest.raises(ValueError, match=r"`groups` has 2 names, but there are 3 columns"):
        two_sample_test(X_p, X_q, groups=["a", "b"])


def legend_title(test: TwoSampleTest) -> str:
    legend = test.plot().axes[0].get_legend()
    assert legend is not None
    return legend.get_title().get_text()


def test_no_drivers_without_a_difference() -> None:
    rng = np.random.default_rng(1)
    X_p, X_q = rng.normal(size=(100, 3)), rng.normal(size=(100, 3))
    for ratio in (None, "lda"):
        result = two_sample_test(X_p, X_q, ratio, n_permutations=39, random_state=0)
        assert result.p_value > 0.05
        assert (result.drivers.names, result.to_dict()["drivers"], result.importance) == ([], [], None)
        assert str(result) == f"No difference found (p = {result.p_value:.2g}, 39 permutations)."
        assert "Largest" not in result._repr_html_()
        assert legend_title(result) == ""


def test_drivers_are_in_the_dictionary_the_page_and_the_figure() -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(size=(100, 12)), rng.normal(size=(100, 12))
    X_p[:, [0, 4]] += 1
    result = two_sample_test(X_p, X_q, n_permutations=39, random_state=0)
    assert result.conclusion.endswith(("Largest changes: x1, x5.", "Largest changes: x5, x1."))
    first = result.to_dict()["drivers"][0]
    assert list(first) == ["column", "change", "kind", "partner", "values", "effect", "standard_error", "p_value"]
    assert (first["column"], first["p_value"]) == (result.drivers.names[0], 0.025)
    assert f">{first['column']}</th>" in result._repr_html_()
    assert legend_title(result) == "Largest changes: " + ", ".join(result.drivers.clear) + "."
    axes = Figure().add_subplot()
    result.drivers.draw(axes)
    assert [text.get_text() for text in axes.get_yticklabels()] == result.drivers.names[:10]
    lines = str(result.drivers).splitlines()
    assert lines[0].split() == ["column", "effect", "(nats)", "corrected", "p", "change"]
    assert lines[1].split()[0] == first["column"]
    assert lines[-3] == "… and 2 more columns"
    # a Gaussian that is shifted by 0.2 or by 1 standard deviation has these effects
    meaning = "(0 = unchanged, 0.2 = small, as a shift by 0.2 standard deviations is, 1 = large)"
    assert lines[-1].startswith("effect: how much a column differs on its own")
    assert lines[-1].endswith(meaning)
    assert meaning in result._repr_html_()


def test_numbers_are_rounded_to_what_matters() -> None:
    effect, error = np.array([0.412, 0.0, 0.1, 3.94, 391.7]), np.array([0.063, 0.34, 0.2, 1.26, 34.2])
    p_value = np.array([1 / 201, 1 / 101, 0.0447, 0.996, 1e-5])
    changes = ColumnChanges(
        list("abcde"), np.arange(5), effect, error, p_value, [ChangeKind.MEAN] * 5, [None] * 5, [""] * 5
    )
    cells = [line.split("  ") for line in str(changes).splitlines()[1:-2]]
    rows = [[cell.strip() for cell in row if cell] for row in cells]
    assert [row[1] for row in rows] == ["0.41 ± 0.06", "< 0.44", "< 0.38", "3.9 ± 1.3", "392 ± 34"]
    assert [row[2] for row in rows] == ["0.005", "0.01", "0.045", "1", "0.00001"]


def test_a_change_that_no_column_shows() -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(size=(300, 3)), rng.normal(size=(300, 3))
    X_p[:, 1] = norm.ppf(2 * norm.cdf(np.abs(X_p[:, 0])) - 1)  # the same margins, and no correlation
    result = two_sample_test(X_p, X_q, "boosting", n_permutations=19, random_state=0)
    assert result.p_value == 0.05
    assert result.drivers.clear == []
    assert "No single column differs clearly. These move log r most: x" in str(result)
    assert result.importance is not None
    assert set(result.importance.names[:2]) == {"x1", "x2"}


def test_levels_of_a_category_do_not_outweigh_a_number() -> None:
    rng = np.random.default_rng(0)
    tables = []
    for shift, shares in ((3.0, [0.2, 0.3, 0.2, 0.3]), (0.0, [0.4, 0.3, 0.2, 0.1])):
        job = rng.choice(4, 400, p=shares)
        tables.append(np.column_stack([rng.normal(shift, 1, 400), *(job == k for k in range(4))]))
    groups = ["age", *["job"] * 4]
    result = two_sample_test(tables[0], tables[1], n_permutations=39, groups=groups, random_state=0)
    assert result.drivers.names == ["age", "job"]
    # log r is 3 (age - 1.5), of deviation 3 · √(1 + 1.5²), and within ±1.1 for the job
    assert abs(result.drivers.effect[0] - 3 * math.sqrt(3.25)) < 2 * result.drivers.standard_error[0]
    assert result.drivers.effect[1] < 1.5


def test_changes_are_shown_in_their_own_units_from_old_to_new() -> None:
    rng = np.random.default_rng(0)
    names = [f"c{k}" for k in range(25)]
    old, new = (pd.DataFrame({"town": rng.choice(names, 1500), "x": rng.normal(size=1500)}) for _ in range(2))
    new.loc[:89, "town"], new["x"] = "Newtown", new["x"] + 2
    result = two_sample_test(new, old, n_permutations=99, random_state=0)
    texts = dict(zip(result.drivers.names, result.drivers.values, strict=True))
    assert texts["town"] == "town = Newtown: 0 % → 6 % (new)"
    before, after = (float(word.replace("−", "-")) for word in texts["x"].removeprefix("median x: ").split(" → "))
    assert (before, after) == (pytest.approx(0, abs=0.13), pytest.approx(2, abs=0.13))  # 4 standard errors
    assert str(result).splitlines()[0] == result.conclusion
    assert {line.strip() for line in str(result).splitlines()[1:]} == set(texts.values())
    assert "Arrows point from old.csv to new.csv." in result.drivers.text("new.csv", "old.csv")


def test_rank_correlation_in_arrays() -> None:
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(2, 1500, 2))
    result = two_sample_test(Z[0] @ [[1, 0.8], [0, 0.6]], Z[1], n_permutations=99, random_state=0)
    assert all(text.startswith("rank correlation of x") for text in result.drivers.values)


def test_a_column_that_separates_the_samples_is_named() -> None:
    rng = np.random.default_rng(0)
    old, new = (pd.DataFrame({"day": start + rng.integers(0, 9, 300), "x": rng.normal(size=300)}) for start in (0, 9))
    result = two_sample_test(new, old, n_permutations=99, random_state=0)
    assert result.separating == ["day"]
    assert "day alone separates the samples. To compare the other columns, repeat without this column." in str(result)
    assert two_sample_test(new[["x"]] + 1, old[["x"]], n_permutations=99, random_state=0).separating == []
