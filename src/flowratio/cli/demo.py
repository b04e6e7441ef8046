"""The demo: find drift in two files, weight one file to match the other, and see when weights do not help."""

from __future__ import annotations

import errno
import shlex
from pathlib import Path

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

from flowratio._support.numbers import percent, plain_spaces
from flowratio.cli.demo_data import customers
from flowratio.cli.fit_text import answers
from flowratio.cli.motivating import NEAR, estimates_of
from flowratio.ratios.auto.auto import AutoRatio
from flowratio.ratios.registry import silent
from flowratio.report.drift import is_significant
from flowratio.report.model import Model, fit_tables
from flowratio.report.page import write_report
from flowratio.storage.reading import read_table
from flowratio.storage.scoring import score_file
from flowratio.storage.writing import write_table

FILES = {
    "customers-2025.csv": "the old table",
    "customers-2026.csv": "the new table: customers are older, and more of them are citizens",
    "model": "the density ratio of the two tables, for the other commands",
    "weighted-2025.csv": "the old table with weights that match it to the new table",
    "report.html": "the report on the model",
    "ratios.png": "the paper's example: estimates against the true ratio",
    "retired.csv": "a table of retired customers",
    "model-retired": "the density ratio of retired customers and the old table",
    "report-retired.html": "the report on that model",
}
TABLES = ("customers-2025.csv", "customers-2026.csv", "retired.csv")
_REPORTS = ("report.html", "report-retired.html")
CANDIDATES = ["logistic", "additive", "quadratic", "boosting", "mlp", "mlp in z"]  # one of each family: 5 to 15 seconds
_REASONS = 3  # reasons of a verdict that are printed
CHANGE = {"age": 47.0, "non_citizens": 0.09}  # what changed in 2026
_RETIRED = {"age": 76.0, "spread": 4.0}


def run_demo(out: Path, rows: int, seed: int, verbose: bool) -> None:
    """Write the tables, fit, weight and report, and print each step with its result."""
    check_demo_folder(out)
    old, new, retired = (out / name for name in TABLES)
    kinds = "numbers, text, dates and missing values"
    _step(1, f"Write two tables of {rows:,} customers, of 2025 and 2026, with {kinds}.")
    write_tables((old, new, retired), rows, seed)
    _step(2, f"Fit the density ratio of the two tables. The demo compares {len(CANDIDATES)} candidates, `fit` more.")
    model = _fit(new, old, out / "model", seed, verbose, AutoRatio(CANDIDATES, n_folds=2, time_budget=None))
    _step(3, "Weight the table of 2025 so that it matches the table of 2026.")
    weighted = out / "weighted-2025.csv"
    _command("score", out / "model", old, "-o", weighted)
    score_file(model.ratio, old, weighted, model_folder=out / "model", verbose=verbose)
    Console().print(_balance(model, new, weighted))
    _step(4, "Write the report, one page that you open in a browser.")
    _command("report", out / "model", "-o", out / "report.html")
    write_report(model.evidence, out / "report.html")
    _step(5, "Run the paper's example: two Gaussians with a known ratio.")
    _show_example(rows, seed, out / "ratios.png", verbose)
    _step(6, "Try to weight the table of 2025 so that it matches retired customers. Hardly any customer is that old.")
    other = _fit(retired, old, out / "model-retired", seed, verbose, "logistic")
    write_report(other.evidence, out / "report-retired.html")
    verdicts = {name: one.evidence["diagnosis"]["verdict"] for name, one in zip(_REPORTS, (model, other), strict=True)}
    print("\nFiles:")
    for name, text in FILES.items():
        print(f"  {out / name}: {text}{f', with the verdict {verdicts[name]!r}' if name in verdicts else ''}")


def write_tables(paths: tuple[Path, Path, Path], rows: int, seed: int) -> None:
    """Write the tables of 2025 and 2026, and that of retired customers."""
    rng = np.random.default_rng(seed)
    for path, settings in zip(paths, ({}, CHANGE, _RETIRED), strict=True):
        write_table(iter([customers(rows, rng, **settings)]), path)


def check_demo_folder(out: Path) -> None:
    """Refuse a folder with files that are not of a demo."""
    others = sorted(path.name for path in out.iterdir() if path.name not in FILES)
    if others:
        problem = f"{out} has files that the demo does not write, such as {others[0]}"
        raise OSError(errno.EEXIST, f"{problem}. Use --out with the path of a new folder.")


def _step(number: int, text: str) -> None:
    print(f"\nStep {number} of 6. {text}", flush=True)


def _command(*words: object) -> None:
    """Print the command that does the same."""
    print(f"$ flowratio {shlex.join(map(str, words))}", flush=True)


def _fit(p: Path, q: Path, folder: Path, seed: int, verbose: bool, ratio: AutoRatio | str) -> Model:
    """Fit a ratio to two files, save the model, and print what `fit` prints."""
    method = ["--method", ratio] if isinstance(ratio, str) else []
    words = ["fit", str(p), str(q), "-o", str(folder), *method, "--no-flow"]
    _command(*words)
    command = shlex.join(["flowratio", *words])
    tables, files = (read_table(p), read_table(q)), (str(p), str(q))
    model = fit_tables(*tables, ratio, flow=False, seed=seed, files=files, command=command, verbose=verbose)
    model.save(folder)
    print(answers(model.evidence, most=_REASONS), flush=True)
    return model


def _balance(model: Model, new: Path, weighted: Path) -> Table:
    """Return a table of the columns that changed: before weighting, after weighting, and in the other file."""
    P, Q = (model.ratio.encoder_.parse(read_table(path)) for path in (new, weighted))
    weights = read_table(weighted)["weight"].cast(pl.Float64)
    table = Table("column", "2025", "2025, weighted", "2026", title="Balance before and after weighting")
    for driver in model.evidence["test"]["drivers"]:
        if is_significant(driver):
            table.add_row(*_typical(P[driver["column"]], Q[driver["column"]], weights))
    return table


def _typical(p: pl.Series, q: pl.Series, weights: pl.Series) -> tuple[str, ...]:
    """Return the name of a number of a column, and this number before weighting, after it, and in the other file."""
    if p.dtype.is_temporal():
        days = _means(p.cast(pl.Date).to_physical(), q.cast(pl.Date).to_physical(), weights)
        return f"mean {p.name}", *(str(np.datetime64(round(day), "D")) for day in days)
    if p.dtype.is_numeric():
        return f"mean {p.name}", *(f"{mean:.1f}" for mean in _means(p, q, weights))
    categories = p.drop_nulls().unique().sort().to_list()
    shares = {one: _means(p == one, q == one, weights) for one in categories}
    largest = max(categories, key=lambda one: (round(abs(shares[one][0] - shares[one][2]), 3), -shares[one][0]))
    return f"{p.name} = {largest}", *(plain_spaces(percent(share)) for share in shares[largest])


def _means(p: pl.Series, q: pl.Series, weights: pl.Series) -> tuple[float, float, float]:
    """Return the mean of q, the weighted mean of q, and the mean of p. Missing values do not count."""
    x, w = q.cast(pl.Float64), weights.filter(q.is_not_null())
    x_p = p.cast(pl.Float64).drop_nulls().to_numpy()
    x_q = x.drop_nulls().to_numpy()
    return float(x_q.mean()), float(np.average(x_q, weights=w.to_numpy())), float(x_p.mean())


def _show_example(rows: int, seed: int, figure: Path, verbose: bool) -> None:
    """Print the errors of three estimates of a known ratio."""
    with silent():  # the two Gaussians hardly overlap
        estimates = estimates_of(rows, seed, figure, verbose)
    table = Table("ratio", "error of log r", f"where |log r| < {NEAR:g}", title="Mean squared error (nats²)")
    for one in estimates:
        table.add_row(one.name, f"{one.error:.3g}", f"{one.error_near:.3g}")
    Console().print(table)
    print("A flow is invertible, so the ratio in latent space equals the ratio in x. Here log r is linear in x.")
    print("The automatic choice finds this simple form, which networks only approximate.")
