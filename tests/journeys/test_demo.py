from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import multivariate_normal

from flowratio import load
from flowratio.cli import demo

P, Q = multivariate_normal([0, 0]), multivariate_normal([3, 3])


def table(out: str) -> dict[str, list[str]]:
    """Read the printed table: errors and seconds by ratio."""
    lines = [re.split(r"\s*[│|]\s*", line.strip("│| ")) for line in out.splitlines() if line[:1] in "│|"]
    return {name: values for name, *values in lines}


def test_closed_form() -> None:
    X = np.random.default_rng(0).normal(1.5, 3, (100, 2))
    np.testing.assert_allclose(demo.true_log_ratio(X), P.logpdf(X) - Q.logpdf(X), rtol=1e-12, atol=1e-12)


def test_demo_in_a_process_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "demo"
    command = [sys.executable, "-m", "flowratio", "demo", "--rows", "200", "--seed", "3", "--out", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["model", "ratios.png", "report.html"]
    assert (folder / "ratios.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    for name in ("ratios.png", "report.html", "model"):
        assert str(folder / name) in done.stdout
    measured = table(done.stdout)
    assert list(measured) == ["a network in x", "the same network in z", "AutoRatio"]
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(mean, 1, (200, 2)) for mean in (0, 3, 0, 3)][2:])  # those that were judged
    log_r = load(folder / "model").log_ratio(pl.DataFrame(X, schema=["x1", "x2"]))
    error = np.mean((log_r - P.logpdf(X) + Q.logpdf(X)) ** 2)
    assert float(measured["AutoRatio"][0]) == pytest.approx(error, rel=0.01)  # three digits
    # log r has a standard deviation of 10: a constant is off by 100; a slope of 160 rows by a fifth, so by 4
    assert error < 15


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_ctrl_c_is_one_message_and_leaves_no_file(tmp_path: Path) -> None:
    # the handler is set by hand: a shell starts its background jobs with SIGINT ignored
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from flowratio.cli.app import main; main()"
    )
    command = [sys.executable, "-c", code, "demo", "--quiet", "--out", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("p = N(")  # the training begins
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.strip().startswith("flowratio: interrupted. Every file is unchanged or complete.")
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []
