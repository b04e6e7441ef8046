"""The demo as a new user runs it: it names the planted drift, and its two reports have opposite verdicts."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import multivariate_normal

from flowratio import load
from flowratio.cli import demo, motivating
from flowratio.cli.demo import CHANGE, FILES
from flowratio.cli.demo_data import customers
from flowratio.report.answers import changed_columns
from flowratio.report.model import fit_tables

Run = Callable[..., tuple[int, str, str]]
P, Q = multivariate_normal([0, 0]), multivariate_normal([3, 3])


def test_closed_form() -> None:
    X = np.random.default_rng(0).normal(1.5, 3, (100, 2))
    np.testing.assert_allclose(motivating.true_log_ratio(X), P.logpdf(X) - Q.logpdf(X), rtol=1e-12, atol=1e-12)


def test_the_tables_are_mixed_and_differ_in_two_columns() -> None:
    old, new = (customers(20_000, np.random.default_rng(k), age=age) for k, age in enumerate((41, 47)))
    assert {dtype.base_type() for dtype in old.dtypes} == {pl.Int64, pl.Float64, pl.String, pl.Date}
    assert old.null_count().sum_horizontal().item() > 0
    assert new["age"].mean() - old["age"].mean() == pytest.approx(6, abs=0.5)  # type: ignore[operator]
    for name in ("income", "visits"):
        a, b = (one[name].drop_nulls().to_numpy() for one in (old, new))
        assert abs(a.mean() - b.mean()) < 4 * np.hypot(a.std(), b.std()) / np.sqrt(len(b))


@pytest.mark.parametrize("seed", [0, 1])
def test_weights_of_the_main_job_are_reliable(seed: int) -> None:
    rng = np.random.default_rng(seed)
    old, new = customers(3000, rng), customers(3000, rng, **CHANGE)
    model = fit_tables(new, old, "logistic", flow=False, seed=seed)
    assert model.evidence["diagnosis"]["verdict"] == "reliable"
    assert {text.split(":")[0] for text in changed_columns(model.evidence)} == {"median age", "citizen = No"}


def test_every_step_of_the_demo(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (demo, motivating):
        monkeypatch.setattr(module, "CANDIDATES", ["logistic", "additive"])
    folder = tmp_path / "new" / "demo"
    code, out, err = run("demo", "--rows", 300, "--seed", 3, "--out", folder, "--quiet")
    assert (code, err) == (0, "")
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    assert (folder / "ratios.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    for name, text in FILES.items():
        assert f"  {folder / name}: {text}" in out
    assert [f"Step {k} of 6. " in out for k in range(1, 7)] == [True] * 6
    changes = out.partition("Changes from customers-2025.csv to customers-2026.csv:\n")[2].splitlines()
    assert {" ".join(line.split()[:2]) for line in changes[:2]} == {"median age:", "citizen ="}
    verdicts = re.findall(r"report[\w-]*\.html: .* with the verdict '(.*)'", out)
    assert verdicts[1] == "do not use"
    for name, verdict in zip(("model", "model-retired"), verdicts, strict=True):
        evidence = json.loads((folder / name / "evidence.json").read_text(encoding="utf-8"))
        assert evidence["diagnosis"]["verdict"] == verdict
    # weighted by r, the old table has the mean age of the new one: 6 years more, with a standard error of 1.1
    weighted, new = pl.read_csv(folder / "weighted-2025.csv"), pl.read_csv(folder / "customers-2026.csv")
    mean = np.average(weighted["age"].to_numpy(), weights=weighted["weight"].to_numpy())
    assert mean == pytest.approx(new["age"].mean(), abs=4)
    row = re.search(r"mean age +│ +([\d.]+) +│ +([\d.]+) +│ +([\d.]+)", out)
    assert row is not None
    assert [float(text) for text in row.groups()[1:]] == [
        pytest.approx(mean, abs=0.06),
        pytest.approx(new["age"].mean(), abs=0.06),
    ]
    assert load(folder / "model").log_ratio(new).shape == (300,)


def test_a_folder_with_other_files_is_refused(tmp_path: Path, run: Run) -> None:
    (tmp_path / "thesis.txt").write_text("Chapter 1")
    code, out, err = run("demo", "--out", tmp_path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "thesis.txt. Use --out" in err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_ctrl_c_is_one_message_and_leaves_complete_files(tmp_path: Path) -> None:
    # the handler is set by hand: a shell starts its background jobs with SIGINT ignored
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from flowratio.cli.app import main; main()"
    )
    command = [sys.executable, "-c", code, "demo", "--quiet", "--out", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("Step 2"):
                break
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.strip().startswith("flowratio: interrupted. Every file is unchanged or complete.")
    assert "Traceback" not in err
    tables = ["customers-2025.csv", "customers-2026.csv", "retired.csv"]
    assert sorted(path.name for path in tmp_path.iterdir()) == tables
    assert {pl.read_csv(tmp_path / name).height for name in tables} == {3000}
