"""Figures of ratios, weights and diagnoses, readable in black and white.

Each function draws into `axes`, if there are any, and returns the figure. A notebook shows it. To save it, call
`figure.savefig(path)`.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from flowratio._support.wording import in_percent
from flowratio.diagnostics.summary import fixed, k_hat_text, score_text
from flowratio.weights import effective_sample_size, finite_vector, self_normalize

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from flowratio.diagnostics.balance import Balance
    from flowratio.diagnostics.diagnosis import Diagnosis
    from flowratio.diagnostics.importance import Importance
    from flowratio.diagnostics.reliability import Reliability

_MOST_POINTS = 5_000  # of a scatter: evenly spaced ones of more
_MOST_COLUMNS = 20
_LONGEST_NAME = 24
_FARTHEST = 3.0  # standard deviations: differences beyond it are drawn there, with an arrow and the number
_LIGHTEST = 0.8  # of a color map: lighter points vanish on white paper


def plot_estimates(log_r: Any, true_log_r: Any, near: float = 5.0, axes: Axes | None = None) -> Figure:
    """Draw estimated against true log-ratios in nats, each of shape (n,).

    Rows whose true log r is within `near` nats of 0 are drawn dark, with an error of their own. Beyond, r is so large
    or small that its error hardly matters.
    """
    log_r, truth = finite_vector(log_r, "log_r"), finite_vector(true_log_r, "true_log_r")
    if log_r.shape != truth.shape:
        raise ValueError(f"`log_r` has {len(log_r)} values but `true_log_r` has {len(truth)}. Give one of each a row.")
    axes, figure = _axes(axes, (4.5, 4.5))
    is_near = np.abs(truth) <= near
    for of, color, marker, name in ((~is_near, "0.6", "x", "beyond"), (is_near, "black", "o", "within")):
        if of.any():
            error = np.sqrt(np.mean((log_r[of] - truth[of]) ** 2))
            label = f"{name} {near:g} nats of 0: error {error:.3g} nats"
            some = _some(np.flatnonzero(of))
            axes.plot(truth[some], log_r[some], marker, color=color, markersize=2.5, alpha=0.6, label=label)
    ends = [min(truth.min(), log_r.min()), max(truth.max(), log_r.max())]
    axes.plot(ends, ends, "--", color="0.3", linewidth=1, label="equal")
    axes.set(xlabel="true log r (nats)", ylabel="estimated log r (nats)", title="Estimated against true log r")
    axes.legend(frameon=False, fontsize="small", markerscale=2)
    return figure


def plot_log_ratios(log_p: Any, log_q: Any, axes: Axes | None = None) -> Figure:
    """Draw histograms of log r in nats on rows of p and of q, of shapes (n_p,) and (n_q,)."""
    log_p, log_q = finite_vector(log_p, "log_p"), finite_vector(log_q, "log_q")
    axes, figure = _axes(axes, (5.5, 3.5))
    both = np.concatenate([log_p, log_q])
    low, high = float(both.min()), float(both.max())
    if high - low < 1e-9 * max(1.0, abs(high)):
        low, high = low - 0.5, high + 0.5
    edges: Any = np.linspace(low, high, 2 + int(min(60, 2 * len(both) ** (1 / 3))))
    axes.hist(log_q, edges, density=True, histtype="stepfilled", color="0.8", edgecolor="0.4", label="rows of q")
    axes.hist(log_p, edges, density=True, histtype="step", color="black", linewidth=1.5, hatch="///", label="rows of p")
    axes.axvline(0, color="black", linestyle=":", linewidth=1)
    axes.set(xlabel="log r (nats)", ylabel="density", title="log r under p and q")
    axes.set_ylim(0, 1.2 * axes.get_ylim()[1])  # room for the legend
    axes.legend(frameon=False, fontsize="small", ncols=2, loc="upper center")
    return figure


def plot_latent(Z: Any, log_r: Any, axes: Axes | None = None) -> Figure:
    """Draw latent rows colored by log r: two columns, or the two main directions of more.

    `Z` has shape (n, d): what `FlowFeaturizer.transform` returns, or any rows. `log_r` is in nats, of shape (n,).
    """
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    Z, log_r = np.asarray(Z, np.float64), finite_vector(log_r, "log_r")
    if Z.ndim != 2 or Z.shape[1] < 1 or len(Z) != len(log_r):
        raise ValueError(f"`Z` has shape {Z.shape}. Give a matrix with one row for each of {len(log_r)} log-ratios.")
    axes, figure = _axes(axes, (5.2, 4.2))
    names = ("first latent column", "second latent column")
    if Z.shape[1] == 1:
        Z, names = np.hstack([Z, log_r[:, None]]), ("latent column", "log r (nats)")
    elif Z.shape[1] > 2:
        D = Z - Z.mean(axis=0)
        variance, directions = np.linalg.eigh(D.T @ D)
        share = variance[:-3:-1].sum() / max(variance.sum(), np.finfo(np.float64).tiny)
        Z = D @ directions[:, :-3:-1]
        names = (f"first principal direction (both: {in_percent(share)})", "second principal direction")
    some = _some(np.argsort(np.abs(log_r), kind="stable"))  # the largest last, on top
    color_map = ListedColormap(colormaps["cividis"](np.linspace(0, _LIGHTEST, 256)))
    points = axes.scatter(*Z[some, :2].T, c=log_r[some], s=8, cmap=color_map, linewidths=0)
    figure.colorbar(points, ax=axes, label="log r (nats)")
    axes.set(xlabel=names[0], ylabel=names[1], title="Latent space")
    return figure


def plot_reliability(reliability: Reliability | Diagnosis, axes: Axes | None = None) -> Figure:
    """Draw the share of p against the probability of p, with intervals of 95 %, of a `Diagnosis` or its field."""
    curve: Reliability = _field(reliability, "reliability", "observed")
    axes, figure = _axes(axes, (4.2, 4.2))
    axes.plot([0, 1], [0, 1], "--", color="0.5", linewidth=1, label="true ratio")
    reach = [curve.observed - curve.low, curve.high - curve.observed]
    style: dict[str, Any] = {"fmt": "o-", "color": "black", "linewidth": 1, "markersize": 4, "capsize": 2.5}
    axes.errorbar(curve.predicted, curve.observed, yerr=reach, label="this ratio", **style)
    axes.set(xlabel="predicted probability of p, r / (1 + r)", ylabel="observed share of p", title="Reliability")
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    title = f"error {curve.error:.3f}\nby chance {curve.noise:.3f}"
    _legend(axes, title, loc="best", edgecolor="none", framealpha=0.85)
    return figure


def plot_balance(balance: Balance | Diagnosis, axes: Axes | None = None) -> Figure:
    """Draw mean differences before and after weighting, of up to 20 columns, of a `Diagnosis` or its field."""
    columns: Balance = _field(balance, "balance", "before")
    worst = columns.worst(_MOST_COLUMNS)
    axes, figure = _axes(axes, (5.5, 1.6 + 0.25 * len(worst)))
    at = np.arange(len(worst))[::-1]
    before, after = (np.clip(of[worst], -_FARTHEST, _FARTHEST) for of in (columns.before, columns.after))
    axes.hlines(at, before, after, color="0.75", linewidth=1)
    axes.axvline(0, color="black", linewidth=0.8)
    for limit in (-0.1, 0.1):
        axes.axvline(limit, color="0.4", linestyle=":", linewidth=1)
    axes.plot(before, at, "o", color="black", markerfacecolor="white", label="before")
    axes.plot(after, at, "o", color="black", label="after")
    for values in (columns.before[worst], columns.after[worst]):
        _mark_beyond(axes, values, at)
    _name_rows(axes, [columns.names[j] for j in worst], at, len(columns.names))
    axes.set(xlabel="standardized mean difference, p minus q", title="Balance before and after weighting")
    axes.legend(frameon=False, loc="best", title="dotted: ±0.1", fontsize="small", title_fontsize="small")
    return figure


def _mark_beyond(axes: Axes, values: np.ndarray, at: np.ndarray) -> None:
    """Write the differences that the axis is too short for, with an arrow."""
    for value, y in zip(values, at, strict=True):
        if abs(value) > _FARTHEST:
            text, side = (f"{value:.3g} →", "right") if value > 0 else (f"← {value:.3g}", "left")
            axes.annotate(text, (np.clip(value, -_FARTHEST, _FARTHEST), y + 0.28), ha=side, fontsize="x-small")


def plot_weights(log_w: Any, axes: Axes | None = None) -> Figure:
    """Draw the Lorenz curve of weights: what share of all weight the lightest rows have.

    `log_w` are log-weights, of shape (n,): log r of rows of q, for weights toward p. -inf is a weight of zero.
    """
    w = np.sort(self_normalize(log_w))
    axes, figure = _axes(axes, (4.2, 4.2))
    rows, weight = np.linspace(0, 1, len(w) + 1), np.concatenate([[0.0], np.cumsum(w)])
    gini = max(0.0, 1 - float(np.sum(weight[1:] + weight[:-1])) / len(w))  # not -0.00, by rounding
    axes.plot([0, 1], [0, 1], "--", color="0.5", linewidth=1, label="equal weights")
    axes.plot(rows, weight, "-", color="black", linewidth=1.5, label=f"Gini {gini:.2f}")
    axes.fill_between(rows, weight, rows, color="0.9", linewidth=0)
    axes.set(xlabel="share of rows, lightest first", ylabel="share of weight", title="Weights")
    axes.set(xlim=(0, 1), ylim=(0, 1.005), aspect="equal")
    title = f"effective sample size {effective_sample_size(log_w):.0f} of {len(w)}"
    _legend(axes, title, loc="upper left", frameon=False)
    return figure


def plot_importance(importance: Importance | Diagnosis, axes: Axes | None = None) -> Figure:
    """Draw how much each column moves log r, the 20 most important ones, of a `Diagnosis` or its field."""
    effects: Importance = _field(importance, "importance", "effect")
    n = min(len(effects.names), _MOST_COLUMNS)
    axes, figure = _axes(axes, (5.5, 1.3 + 0.25 * n))
    at = np.arange(n)[::-1]
    axes.barh(at, effects.effect[:n], xerr=effects.standard_error[:n], color="0.6", edgecolor="black")
    _name_rows(axes, effects.names[:n], at, len(effects.names))
    axes.set(xlabel="standard deviation that it adds to log r (nats)", title="Columns that move log r")
    axes.set_xlim(0, None if effects.effect.any() else 1)
    return figure


def plot_diagnosis(diagnosis: Diagnosis) -> Figure:
    """Draw five panels and the verdict."""
    from flowratio._support.figures import new_figure

    n_columns = min(len(diagnosis.balance.names), _MOST_COLUMNS)
    height = 2.2 + 0.2 * max(n_columns, 5)
    figure = new_figure(13, 4.2 + height)
    rows: Any = figure.subfigures(2, 1, height_ratios=[4.2, height])  # each row has margins of its own
    (first, second, third), (fourth, fifth, last) = (row.subplots(1, 3) for row in rows)
    plot_log_ratios(diagnosis.log_p, diagnosis.log_q, first)
    plot_reliability(diagnosis.reliability, second)
    plot_weights(diagnosis.log_w, third)
    plot_balance(diagnosis.balance, fourth)
    plot_importance(diagnosis.importance, fifth)
    _write_verdict(diagnosis, last)
    return figure


def _write_verdict(diagnosis: Diagnosis, axes: Axes) -> None:
    overlap, bounded = diagnosis.overlap, diagnosis.identities.bounded
    ess = f"effective sample size {overlap.ess_text}"
    lines = [
        f"{diagnosis.n_p} rows of p, {diagnosis.n_q} of q",
        f"held-out score {score_text(diagnosis.score, diagnosis.score_error)} nats",
        "p and q do not overlap" if overlap.is_absent else ess,
        f"log n_q − KL {overlap.headroom:.1f} nats (good from 3.5)",
        f"Pareto k̂ {k_hat_text(overlap.k_hat_q)}",
        f"r off by {fixed(bounded.log_factor, 3)} nats (z = {fixed(bounded.z, 1)})",
        f"classifier after weighting: {in_percent(diagnosis.leftover.auc, 1)} of pairs",
        "",
        *("– " + textwrap.shorten(words, 110, placeholder=" …") for words in diagnosis.warnings[:5]),
    ]
    text = "\n".join(textwrap.fill(line, 50, subsequent_indent="   ") for line in lines)
    axes.axis("off")
    axes.set_title(f"Verdict: {diagnosis.verdict}", fontweight="bold")
    axes.text(0.02, 0.95, text, va="top", transform=axes.transAxes, fontsize="small")


def _axes(axes: Axes | None, size: tuple[float, float]) -> tuple[Axes, Any]:
    """Return axes, new ones if there are none, and their figure."""
    if axes is not None:
        return axes, axes.figure
    from flowratio._support.figures import new_figure

    figure = new_figure(*size)
    return figure.add_subplot(), figure


def _legend(axes: Axes, title: str, **style: Any) -> None:
    axes.legend(title=title, fontsize="small", title_fontsize="small", **style).set_alignment("left")


def _field(source: Any, name: str, has: str) -> Any:
    """Return the field of a diagnosis, or the argument if it is that field."""
    part = getattr(source, name, source)
    if not hasattr(part, has):
        raise TypeError(f"`{name}` is {source!r}. Give a `Diagnosis`, which `diagnose` returns, or its `{name}`.")
    return part


def _some(positions: np.ndarray) -> np.ndarray:
    """Return evenly spaced ones of many positions."""
    return positions[:: -(-len(positions) // _MOST_POINTS)]


def _name_rows(axes: Axes, names: list[str], at: np.ndarray, n_all: int) -> None:
    half = (_LONGEST_NAME - 1) // 2  # names that are alike often differ at their ends
    short = [name if len(name) <= _LONGEST_NAME else f"{name[:half]}…{name[-half:]}" for name in names]
    axes.set_yticks(at, short, fontsize="small")
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.set_ylabel("column" if len(names) == n_all else f"column ({len(names)} of {n_all})")
