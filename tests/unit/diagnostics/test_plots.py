"""Figures: they show the data that they are asked for, have labels, and can be drawn."""

from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from flowratio.diagnostics.balance import Balance
from flowratio.diagnostics.diagnosis import Diagnosis, diagnose
from flowratio.diagnostics.importance import Importance
from flowratio.diagnostics.plots import (
    plot_balance,
    plot_estimates,
    plot_importance,
    plot_latent,
    plot_log_ratios,
    plot_reliability,
    plot_weights,
)
from flowratio.diagnostics.reliability import reliability
from flowratio.diagnostics.scored_sample import ScoredSample

RNG = np.random.default_rng(0)
LOG_R = RNG.normal(size=200)


def sample(log_r: np.ndarray) -> ScoredSample:
    return ScoredSample(np.zeros((len(log_r), 1)), log_r, np.full(len(log_r), 1 / len(log_r)))


def of_columns(d: int) -> Balance:
    values = np.linspace(-1, 1, d)
    return Balance([f"x{j}" for j in range(d)], values, values / 10, np.full(d, 0.1), np.ones(d), np.ones(d))


def ranked(d: int) -> Importance:
    return Importance([f"x{j}" for j in range(d)], np.arange(d), np.arange(d, 0, -1.0), np.zeros(d), np.ones(d) / d)


def drawn(figure: Figure) -> int:
    """Draw a figure, and return how many bytes it has as PNG."""
    file = io.BytesIO()
    FigureCanvasAgg(figure).print_png(file)
    return len(file.getvalue())


def first(figure: Figure) -> Any:
    return figure.axes[0]


FIGURES: dict[str, Any] = {
    "estimates": lambda **where: plot_estimates(LOG_R + 0.1, LOG_R, **where),
    "log_ratios": lambda **where: plot_log_ratios(LOG_R + 1, LOG_R, **where),
    "latent": lambda **where: plot_latent(RNG.normal(size=(200, 3)), LOG_R, **where),
    "reliability": lambda **where: plot_reliability(reliability(sample(LOG_R + 1), sample(LOG_R)), **where),
    "balance": lambda **where: plot_balance(of_columns(5), **where),
    "weights": lambda **where: plot_weights(LOG_R, **where),
    "importance": lambda **where: plot_importance(ranked(5), **where),
}


@pytest.mark.parametrize("name", FIGURES)
def test_figures_have_labels_and_are_drawn(name: str) -> None:
    figure = FIGURES[name]()
    axes = figure.axes[0]
    assert axes.get_xlabel()
    assert axes.get_ylabel()
    assert axes.get_title()
    assert drawn(figure) > 5000  # an empty one has some 2000


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_drawn_into_given_axes(name: str) -> None:
    figure = Figure()
    axes = figure.add_subplot(1, 2, 1)
    assert FIGURES[name](axes=axes) is figure
    assert axes.has_data()


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_grey(name: str) -> None:
    for axes in FIGURES[name]().axes:
        for line in axes.lines:
            red, green, blue, _ = to_rgba(line.get_color())
            assert red == green == blue


def test_estimates_are_told_near_and_far() -> None:
    truth = np.array([-9.0, -1.0, 2.0, 8.0])
    axes = first(plot_estimates(truth + np.array([3.0, 1.0, -1.0, 3.0]), truth))
    far, near, diagonal = axes.lines
    assert far.get_xydata().tolist() == [[-9.0, -6.0], [8.0, 11.0]]
    assert near.get_xydata().tolist() == [[-1.0, 0.0], [2.0, 1.0]]
    assert diagonal.get_xydata().tolist() == [[-9.0, -9.0], [11.0, 11.0]]
    assert (far.get_label(), near.get_label()) == (
        "beyond 5 nats of 0: error 3 nats",
        "within 5 nats of 0: error 1 nats",
    )
    with pytest.raises(ValueError, match="4 values but `true_log_r` has 3"):
        plot_estimates(truth, truth[:3])


def test_histograms_have_area_one_and_all_rows() -> None:
    axes = first(plot_log_ratios(LOG_R + 3, LOG_R))
    for patch in axes.patches:
        x, y = patch.get_xy().T
        area = np.sum((x[1:] - x[:-1]) * (y[1:] + y[:-1])) / 2  # around the outline: over the top and back at 0
        assert abs(area) == pytest.approx(1, rel=1e-6)
    assert first(plot_log_ratios(np.zeros(5), np.zeros(4))).get_xlim()[0] < 0  # one value


def test_latent_rows_of_many_columns_are_seen_along_their_main_directions() -> None:
    Z = RNG.normal(size=(300, 5)) * [0.1, 3.0, 0.1, 2.0, 0.1]
    axes = first(plot_latent(Z, Z[:, 1]))
    points = axes.collections[0]
    seen, colour = np.asarray(points.get_offsets()), np.asarray(points.get_array())
    assert abs(np.corrcoef(seen[:, 0], colour)[0, 1]) > 0.99
    assert seen.std(axis=0) == pytest.approx([3.0, 2.0], rel=0.15)
    two = first(plot_latent(Z[:, :2], Z[:, 0])).collections[0]
    assert sorted(np.asarray(two.get_offsets())[:, 0]) == pytest.approx(sorted(Z[:, 0]))
    assert drawn(plot_latent(Z[:, :1], Z[:, 0])) > 5000
    with pytest.raises(ValueError, match="`Z` has shape"):
        plot_latent(Z, Z[:7, 0])


def test_many_points_are_thinned_out() -> None:
    many = np.random.default_rng(0).normal(size=20_001)
    shown = first(plot_estimates(many, many, near=100.0)).lines[0].get_xdata()
    assert 4000 <= len(np.asarray(shown)) <= 5000


def test_reliability_shows_the_curve_and_its_intervals() -> None:
    found = reliability(sample(LOG_R + 1), sample(LOG_R))
    axes = first(plot_reliability(found))
    bars = axes.containers[0]
    np.testing.assert_allclose(bars[0].get_xydata(), np.stack([found.predicted, found.observed], axis=1))
    ends = np.array(bars[2][0].get_segments())[:, :, 1]
    np.testing.assert_allclose(ends, np.stack([found.low, found.high], axis=1), atol=1e-12)


def test_balance_shows_the_worst_columns_hollow_before_and_filled_after() -> None:
    found = of_columns(31)
    axes = first(plot_balance(found))
    before, after = [line for line in axes.lines if line.get_marker() == "o"]
    assert len(np.asarray(before.get_xdata())) == 20
    assert set(np.abs(np.asarray(before.get_xdata())).round(9)) == set(np.sort(np.abs(found.before))[11:].round(9))
    np.testing.assert_allclose(np.asarray(after.get_xdata()), np.asarray(before.get_xdata()) / 10)
    assert before.get_markerfacecolor() == "white"
    assert after.get_markerfacecolor() == "black"
    named = {label.get_text(): tick for label, tick in zip(axes.get_yticklabels(), axes.get_yticks(), strict=True)}
    at = dict(zip(np.asarray(before.get_ydata()).tolist(), np.asarray(before.get_xdata()).tolist(), strict=True))
    assert at[named["x0"]] == -1.0
    assert at[named["x30"]] == 1.0
    assert axes.get_ylabel() == "column (20 of 31)"


def test_lorenz_curve_and_gini_by_hand() -> None:
    axes = first(plot_weights(np.log([3.0, 1.0])))
    curve = axes.lines[1]
    np.testing.assert_allclose(curve.get_xydata(), [[0, 0], [0.5, 0.25], [1, 1]])
    assert curve.get_label() == "Gini 0.25"  # 1 - 2 (1/16 + 5/16)
    assert axes.get_legend().get_title().get_text() == "effective sample size 2 of 2"  # 16 / 10
    assert drawn(plot_weights(np.array([800.0, -800.0]))) > 5000


def test_importance_shows_bars_of_the_effects() -> None:
    axes = first(plot_importance(ranked(25)))
    assert [bar.get_width() for bar in axes.patches] == list(range(25, 5, -1))
    assert axes.get_yticklabels()[0].get_text() == "x0"


def test_diagnosis_composes_all_panels() -> None:
    X_p, X_q = RNG.normal(1, 1, (100, 2)), RNG.normal(size=(100, 2))

    class Shift:
        def log_ratio(self, X: np.ndarray) -> np.ndarray:
            return X.sum(axis=1) - 1

    found = diagnose(Shift(), X_p, X_q, random_state=0)
    figure = found.plot()
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == [
        "log r under p and q",
        "Reliability",
        "Weights",
        "Balance before and after weighting",
        "Columns that move log r",
        f"Verdict: {found.verdict}",
    ]
    assert drawn(figure) > 20_000
    weights = figure.axes[2].lines[1].get_ydata()
    np.testing.assert_allclose(np.diff(np.asarray(weights)), np.sort(np.exp(found.log_q) / np.exp(found.log_q).sum()))


def test_no_window_and_no_global_state() -> None:
    before = "matplotlib.pyplot" in sys.modules
    for make in FIGURES.values():
        make()
    assert ("matplotlib.pyplot" in sys.modules) == before


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([], "`log_p` has shape"),
        ([[1.0]], "`log_p` has shape"),
        ([np.nan, 0.0], "`log_p` is NaN or infinite in 1 of 2 rows"),
        ([np.inf], "`log_p` is NaN or infinite in 1 of 1 rows"),
        (["a"], "`log_p` is not an array of numbers"),
    ],
)
def test_wrong_values_are_refused(values: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        plot_log_ratios(values, [1.0])


def test_a_weight_of_zero_is_a_weight() -> None:
    curve = first(plot_weights([0.0, -np.inf, 0.0])).lines[1]
    np.testing.assert_allclose(curve.get_xydata(), [[0, 0], [1 / 3, 0], [2 / 3, 0.5], [1, 1]])
    with pytest.raises(ValueError, match="`log_w` is NaN or infinite in 1 of 2 rows"):
        plot_weights([0.0, np.nan])


def diagnosed(log_ratio: Any, names: list[str] | None = None) -> Diagnosis:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(1, 1, (300, 2)), rng.normal(size=(300, 2))

    class Known:
        feature_names_in_ = names

        def log_ratio(self, X: np.ndarray) -> np.ndarray:
            return log_ratio(X)

    return diagnose(Known(), X_p, X_q, random_state=0)


def test_a_diagnosis_is_taken_for_its_fields() -> None:
    found = diagnosed(lambda X: X.sum(axis=1) - 1)
    for plot, field in ((plot_reliability, "reliability"), (plot_balance, "balance"), (plot_importance, "importance")):
        whole, part = first(plot(found)), first(plot(getattr(found, field)))
        assert [line.get_xydata().tolist() for line in whole.lines] == [
            line.get_xydata().tolist() for line in part.lines
        ]
        wrong: Any = None
        with pytest.raises(TypeError, match=rf"`{field}` is None\. Give a `Diagnosis`, which .* or its `{field}`"):
            plot(wrong)


def test_long_names_differ_where_they_do() -> None:
    names = [f"a_very_long_prefix_of_all_columns_{j}" for j in range(10)]
    found = ranked(10)
    axes = first(plot_importance(Importance(names, found.columns, found.effect, found.standard_error, found.share)))
    shown = [label.get_text() for label in axes.get_yticklabels()]
    assert len(set(shown)) == 10
    assert all(len(name) <= 24 for name in shown)
    assert shown[0].startswith("a_very_long")


def test_a_constant_ratio_is_shown_without_signs_of_rounding() -> None:
    found = diagnosed(lambda X: np.full(len(X), -1e-17))
    figure = found.plot()
    assert "-0.00" not in found.summary()
    assert not any("-0.00" in text.get_text() for text in figure.axes[5].texts)
    assert figure.axes[2].lines[1].get_label() == "Gini 0.00"
    assert figure.axes[4].get_xlim()[0] == 0


def test_figure_and_verdict_name_one_effective_sample_size() -> None:
    found = diagnosed(lambda X: X.sum(axis=1) - 1)
    figure = found.plot()
    legend: Any = figure.axes[2].get_legend()
    title = legend.get_title().get_text()
    size = f"effective sample size {found.overlap.ess_q:.0f}"
    assert title.startswith(size)
    (verdict,) = [text.get_text() for text in figure.axes[5].texts]
    assert f"effective sample size {found.overlap.ess_text}" in verdict


def test_differences_beyond_the_axis_have_an_arrow_and_their_number() -> None:
    one = np.ones(3)
    columns = Balance(["a", "b", "c"], np.array([5.2, -40.0, 0.5]), np.array([0.1, -3.5, 0.0]), one / 10, one, one)
    axes = first(plot_balance(columns))
    assert sorted(text.get_text() for text in axes.texts) == sorted(["5.2 →", "← -40", "← -3.5"])
    assert max(abs(x) for line in axes.lines[-2:] for x in line.get_xdata()) == 3.0


@pytest.mark.parametrize("sign", [1, -1])
def test_legend_of_the_reliability_hides_no_point(sign: int) -> None:
    found = diagnosed(lambda X: sign * (X.sum(axis=1) - 1))
    figure = plot_reliability(found)
    drawn(figure)
    axes = first(figure)
    box = axes.get_legend().get_window_extent()
    points = axes.transData.transform(np.stack([found.reliability.predicted, found.reliability.observed], axis=1))
    assert not any(box.contains(x, y) for x, y in points)


def test_latent_rows_are_dark_enough_for_white_paper() -> None:
    points = first(plot_latent(RNG.normal(size=(50, 2)), np.linspace(-3, 3, 50))).collections[0]
    points.update_scalarmappable()
    luminance = np.asarray(points.get_facecolors())[:, :3] @ [0.299, 0.587, 0.114]
    assert luminance.max() < 0.75
    assert (np.diff(np.sort(luminance)) > 0).all()  # log r can be read in grey
