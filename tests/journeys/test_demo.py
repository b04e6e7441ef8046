from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

import flowratio
from flowratio import MAF, FlowFeaturizer, cli, load

P = multivariate_normal([0, 0])
Q = multivariate_normal([3, 3])


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    """Run the entry point in this process: its exit code, standard output and standard error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["flowratio", *args])
        with pytest.raises(SystemExit) as left:
            cli.main()
    code = left.value.code
    assert isinstance(code, int)
    out, err = capsys.readouterr()
    return code, out, err


def table(out: str) -> dict[str, list[str]]:
    """Read the printed table: what was measured, and its ideal, by name."""
    lines = [re.split(r"\s*[│|]\s*", line.strip("│| ")) for line in out.splitlines() if line[:1] in "│|"]
    return {name: values for name, *values in lines}


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the demo take a flow as it is, where the test is not about the training."""

    def fit(X_p: np.ndarray, X_q: np.ndarray, seed: int, verbose: bool) -> FlowFeaturizer:
        return FlowFeaturizer(flow=MAF(2, generator=torch.Generator()), scaling="standard").fit(
            np.concatenate([X_p, X_q])
        )

    monkeypatch.setattr(cli, "_fit", fit)


def test_demo_in_a_process_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-m", "flowratio.cli", "demo", "--rows", "60", "--seed", "3", "--out"]
    done = subprocess.run([*command, str(tmp_path / "new" / "demo")], capture_output=True, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert "epochs" in done.stderr
    folder = tmp_path / "new" / "demo"
    assert sorted(path.name for path in folder.iterdir()) == ["latent.png", "model"]
    assert (folder / "latent.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert str(folder / "latent.png") in done.stdout
    assert str(folder / "model") in done.stdout
    check_numbers(table(done.stdout), folder / "model")

    code, out, err = run(capsys, "demo", "--rows", "60", "--seed", "3", "--out", str(tmp_path / "again"), "--quiet")
    assert (code, "epochs" in err) == (0, False)
    first, again = table(done.stdout), table(out)
    assert {**first, "seconds of training": []} == {**again, "seconds of training": []}


def check_numbers(measured: dict[str, list[str]], folder: Path) -> None:
    """Compute the numbers of the table again, from the saved model and the same draws."""
    rng = np.random.default_rng(3)
    _, _, X_p, X_q = (rng.normal(mean, 1, (60, 2)) for mean in (0, 3, 0, 3))
    X, model = np.concatenate([X_p, X_q]), load(folder)
    true = np.logaddexp(P.logpdf(X), Q.logpdf(X)) - np.log(2)
    assert measured["log-likelihood, nats a row"] == [f"{model.score(X):.4f}", f"{true.mean():.4f}"]
    Z = model.transform(X)
    assert measured["mean of z, farthest from 0"][0] == f"{np.abs(Z.mean(0)).max():.3f}"
    assert measured["standard deviation of z, farthest from 1"][0] == f"{np.abs(Z.std(0) - 1).max():.3f}"
    assert measured["correlation of z1 and z2"][0] == f"{abs(np.corrcoef(Z.T)[0, 1]):.3f}"
    assert measured["values of z that a saved, loaded model changes"] == ["0", "0"]
    # the round trip runs in float32, with values up to about 7
    assert float(measured["x to z and back: largest error in x"][0]) < 1e-4
    assert float(measured["... in log r(x) = 9 - 3 (x1 + x2)"][0]) < 6e-4


def test_closed_forms() -> None:
    X = np.random.default_rng(0).normal(1.5, 3, (100, 2))
    np.testing.assert_allclose(cli._log_ratio(X), P.logpdf(X) - Q.logpdf(X), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(cli._log_density(X), np.log((P.pdf(X) + Q.pdf(X)) / 2), rtol=1e-12)


@pytest.mark.usefixtures("untrained")
def test_second_run_replaces_the_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in ("0", "1"):
        code, _, err = run(capsys, "demo", "--out", str(tmp_path), "--rows", "50", "--seed", seed)
        assert (code, err) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latent.png", "model"]
    assert len(list((tmp_path / "model").iterdir())) == 2


def test_warning_is_a_note_of_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(self: FlowFeaturizer, X: np.ndarray) -> FlowFeaturizer:
        warnings.warn("not\nconverged", UserWarning, stacklevel=1)
        return self

    monkeypatch.setattr(FlowFeaturizer, "fit", fit)
    cli._fit(np.zeros((2, 2)), np.ones((2, 2)), 0, verbose=False)
    assert capsys.readouterr().err == "flowratio: note: not converged\n"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["dem"], ["dem", "No such command", "flowratio --help"]),
        (["demo", "--sed", "1"], ["--sed", "No such option", "flowratio demo --help"]),
        (["demo", "--seed", "one"], ["--seed one", "integer", "flowratio demo --help"]),
        (["demo", "--seed", "-1"], ["--seed -1", "whole number from 0 to 2**63 - 1"]),
        (["demo", "--seed", str(2**63)], [f"--seed {2**63}", "whole number from 0 to 2**63 - 1"]),
        (["demo", "--rows", "3"], ["--rows 3", "50"]),
        (["demo", "more"], ["demo more", "unexpected"]),
        (["demo", "--out"], ["--out", "requires an argument"]),
    ],
)
def test_bad_option_is_one_line(args: list[str], words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *args)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("flowratio: ")
    assert [word for word in words if word not in err] == []


@pytest.mark.parametrize("name", ["file", "file/folder"])
def test_out_that_cannot_be_a_folder(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    code, out, err = run(capsys, "demo", "--out", str(tmp_path / name))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{tmp_path / name} does not serve" in err
    assert "must be a folder that can be written" in err
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.usefixtures("untrained")
@pytest.mark.parametrize(("taken", "words"), [("model", "Cannot make the folder"), ("latent.png/", "Cannot write")])
def test_file_that_is_in_the_way(taken: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    way = tmp_path / taken
    way.mkdir() if taken.endswith("/") else way.write_text("mine")
    code, _, err = run(capsys, "demo", "--out", str(tmp_path), "--rows", "50")
    assert (code, err.count("\n")) == (2, 1)
    assert words in err
    assert str(way) in err


@pytest.mark.parametrize("args", [[], ["--help"], ["demo", "--help"]])
def test_help_has_an_example(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *args)
    assert (code, err) == (0, "")
    assert "Example: flowratio demo" in out
    assert "--rows" not in out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version") == (0, f"flowratio {flowratio.__version__}\n", "")


def test_help_loads_nothing_heavy() -> None:
    code = """
import sys
sys.argv = ["flowratio", "demo", "--help"]
from flowratio import cli
try:
    cli.main()
finally:
    print(sorted({"torch", "sklearn", "scipy", "numpy", "matplotlib"} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_ctrl_c_is_one_line_and_leaves_no_file(tmp_path: Path) -> None:
    # the handler is set by hand: a shell starts its background jobs with SIGINT ignored
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); import flowratio.cli as c; c.main()"
    )
    command = [sys.executable, "-c", code, "demo", "--quiet", "--out", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("p = N(")  # the training of 40 000 rows begins
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.strip() == "flowratio: interrupted: every file is as it was before, or complete."
    assert list(tmp_path.iterdir()) == []
