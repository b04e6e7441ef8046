"""The command line as a new user meets it: two files, a model, weights, a page; and everything that can be wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

import flowratio.cli.app
from flowratio import load
from flowratio.storage.reading import read_table

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

Run = Callable[..., tuple[int, str, str]]
COMMANDS = ("demo", "fit", "score", "report", "test", "divergence", "mi", "sample", "reproduce")


def people(n: int, seed: int, older: bool) -> pl.DataFrame:
    """Draw rows like those of a census; in one of two samples they are older, work more, and fewer are clerks."""
    rng = np.random.default_rng([seed, older])
    age = rng.normal(38 + 8 * older, 9, n).round()
    jobs = ["clerk", "nurse", "judge", "baker"]
    hours = [None if gap else value for gap, value in zip(rng.random(n) < 0.15, rng.normal(40, 8, n), strict=True)]
    return pl.DataFrame(
        {
            "age": age.astype(int),
            "job": rng.choice(jobs, n, p=[0.2, 0.3, 0.2, 0.3] if older else [0.4, 0.3, 0.2, 0.1]),
            "hours": hours,
            "joined": [str(np.datetime64("2020-01-01") + int(day)) for day in rng.integers(0, 900, n)],
            "married": rng.random(n) < 0.5,
            "country": ["here"] * n,
            "noise": rng.normal(size=n),
        }
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("people")
    for name, older in (("p", True), ("q", False)):
        frame = people(400, 0, older)
        frame.write_csv(folder / f"{name}.csv")
        frame.with_columns(pl.col("joined").str.to_date()).write_parquet(folder / f"{name}.parquet")
    return folder


@pytest.fixture(scope="module")
def model(files: Path) -> Path:
    """Fit once, in a process of its own."""
    words = ["fit", "p.csv", "q.csv", "-o", "model", "--method", "logistic", "--quiet"]
    done = flowratio_process(*words, cwd=files)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("The files differ (p = 0.005, 200 permutations).\nChanges from q.csv to p.csv:\n")
    assert re.search(r"^  median age: 3\d → 4\d$", done.stdout, re.MULTILINE)
    assert re.search(r"^  job = clerk: [34]\d % → [12]\d % \(\d more categor.* changed\)$", done.stdout, re.MULTILINE)
    assert re.search(r"^Verdict: reliable\.$", done.stdout, re.MULTILINE)  # log r is linear
    assert "country" in done.stdout  # constant, and said to be left out
    return files / "model"


def flowratio_process(*args: str, cwd: Path, **settings: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error::DeprecationWarning", "-m", "flowratio", *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, **settings)


# The path


def test_score_adds_two_columns_in_the_order_of_the_rows(model: Path, files: Path, tmp_path: Path, run: Run) -> None:
    code, out, err = run("score", model, files / "q.csv", "-o", tmp_path / "scores.csv", "--quiet")
    assert (code, err) == (0, "")
    assert "400" in out
    scored, given = pl.read_csv(tmp_path / "scores.csv"), pl.read_csv(files / "q.csv")
    assert scored.columns == [*given.columns, "log_ratio", "weight"]
    assert scored.drop("log_ratio", "weight").equals(given)
    log_r = load(model).log_ratio(given)
    np.testing.assert_allclose(scored["log_ratio"], log_r, rtol=1e-12)
    np.testing.assert_allclose(scored["weight"], np.exp(log_r) / np.exp(log_r).mean(), rtol=1e-9)
    # weighted by r, rows of q have the mean age of p, 8 years above: of deviation 9, and few weights are large
    older = np.average(scored["age"].to_numpy(), weights=scored["weight"].to_numpy())
    assert older == pytest.approx(46, abs=3)


def test_parquet_in_and_out_is_the_same(model: Path, files: Path, tmp_path: Path, run: Run) -> None:
    for name in ("csv", "parquet"):
        assert run("score", model, files / f"q.{name}", "-o", tmp_path / f"of-{name}.parquet", "--quiet")[0] == 0
    of_csv, of_parquet = (pl.read_parquet(tmp_path / f"of-{name}.parquet") for name in ("csv", "parquet"))
    np.testing.assert_allclose(of_csv["log_ratio"], of_parquet["log_ratio"], rtol=1e-12)


def test_a_pipe(model: Path, files: Path) -> None:
    text = (files / "q.csv").read_text()
    done = flowratio_process("score", "model", "-", "--scores-only", "--quiet", cwd=files, input=text)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert (lines[0], len(lines)) == ("log_ratio,weight", 401)


def test_report_of_the_fit_and_of_other_rows(model: Path, files: Path, tmp_path: Path, run: Run) -> None:
    code, out, _ = run("report", model, "-o", tmp_path / "page.html")
    assert (code, out) == (0, f"page: {tmp_path / 'page.html'}\n")
    page = (tmp_path / "page.html").read_text()
    assert "fit p.csv q.csv -o model" in page
    assert all(f"{name}" in page for name in ("age", "job", "hours"))
    for name, older in (("p", True), ("q", False)):
        people(300, 1, older).write_csv(tmp_path / f"new-{name}.csv")
    other = ["--p", tmp_path / "new-p.csv", "--q", tmp_path / "new-q.csv"]
    assert run("report", model, "-o", tmp_path / "other.html", *other)[0] == 0
    assert "new-p.csv" in (tmp_path / "other.html").read_text()
    assert run("report", model, "--p", files / "p.csv")[0] == 2


def test_the_page_opens_in_a_browser(model: Path, tmp_path: Path, run: Run, chromium: Chrome) -> None:
    assert run("report", model, "-o", tmp_path / "page.html")[0] == 0
    chromium.get((tmp_path / "page.html").as_uri())
    assert [entry for entry in chromium.get_log("browser") if entry["level"] == "SEVERE"] == []
    assert "q.csv" in chromium.find_element("css selector", "h1").text


def test_the_planted_drivers_are_named(model: Path, files: Path, run: Run) -> None:
    evidence = json.loads((model / "evidence.json").read_text())
    effects = {column["name"]: column["driver"]["effect"] for column in evidence["columns"] if column.get("driver")}
    first = sorted(effects, key=lambda name: -effects[name])[:2]
    assert set(first) == {"age", "job"}
    code, out, _ = run("test", files / "p.csv", files / "q.csv", "--permutations", 60, "--quiet", "--json")
    found = json.loads(out)
    assert (code, found["p_value"]) == (0, pytest.approx(1 / 61))
    assert {driver["column"] for driver in found["drivers"][:2]} == {"age", "job"}
    keys = {"column", "effect", "standard_error", "p_value", "change", "kind", "partner", "values"}
    assert set(found["drivers"][0]) == keys
    code, out, _ = run("test", files / "p.csv", files / "q.csv", "--permutations", 60, "--quiet")
    first, _, head, *rows = out.splitlines()
    assert first.startswith("The files differ (p = 0.016, 60 permutations). Largest changes: ")
    assert head.split() == ["column", "effect", "(nats)", "corrected", "p", "change"]
    assert {row.split()[0] for row in rows[:2]} == {"age", "job"}
    code, out, _ = run("test", files / "p.csv", files / "p.csv", "--permutations", 60, "--quiet")
    assert out == "No difference found (p = 1, 60 permutations).\n"


def test_samples_toward_p_are_older(model: Path, tmp_path: Path, run: Run) -> None:
    ages = {}
    for toward in ("p", "q"):
        path = tmp_path / f"{toward}.csv"
        assert run("sample", model, "-n", 200, "--toward", toward, "-o", path, "--quiet")[0] == 0
        drawn = pl.read_csv(path)
        assert drawn.columns == people(2, 0, True).columns
        assert drawn["age"].dtype == pl.Int64
        assert set(drawn["job"]) <= {"clerk", "nurse", "judge", "baker"}
        ages[toward] = drawn["age"].mean()
    assert ages["p"] > ages["q"] + 3  # 8 years apart; 200 rows of deviation 9 leave 0.9


def test_divergence_and_information(files: Path, tmp_path: Path, run: Run) -> None:
    code, out, _ = run("divergence", files / "p.csv", files / "q.csv", "--method", "lda", "--json", "--quiet")
    found = json.loads(out)
    assert code == 0
    assert 0.2 < found["value"] < 1.5  # of the age alone: 8²/(2·9²) = 0.40; of the job: 0.19
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 1))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", x + rng.normal(size=(500, 1)))  # I = log(2) / 2
    code, out, _ = run("mi", tmp_path / "x.npy", tmp_path / "y.npy", "--method", "qda", "--json", "--quiet")
    found = json.loads(out)
    assert code == 0
    assert found["value"] == pytest.approx(np.log(2) / 2, abs=4 * found["standard_error"])
    code, out, _ = run("mi", tmp_path / "x.npy", tmp_path / "y.npy", "--json", "--quiet")  # the automatic choice
    assert "copula" in json.loads(out)["reason"]


def test_information_of_columns_of_one_file(tmp_path: Path, run: Run) -> None:
    rng = np.random.default_rng(0)
    age, income = rng.normal(size=(2, 400)).round(6)
    table = pl.DataFrame({"age": age, "income": income, "spend": (age + rng.normal(size=400)).round(6)})
    table.write_csv(tmp_path / "data.csv")
    words = ["--method", "qda", "--quiet"]

    def of_files(x: list[str], y: list[str]) -> tuple[int, str, str]:
        table.select(x).write_csv(tmp_path / "x.csv")
        table.select(y).write_csv(tmp_path / "y.csv")
        return run("mi", tmp_path / "x.csv", tmp_path / "y.csv", *words)

    data, others = tmp_path / "data.csv", of_files(["age", "income"], ["spend"])
    assert others[0] == 0
    assert run("mi", data, "--y", "spend", *words) == others
    assert run("mi", data, "--x", "age,income", "--y", "spend", *words) == others
    assert run("mi", data, "--y", "spend", "--exclude", "age", *words) == of_files(["income"], ["spend"])
    assert run("mi", data, "--x", "age", "--y", "spend,income", *words) == of_files(["age"], ["spend", "income"])


def test_given_names_columns_or_a_file(tmp_path: Path, run: Run) -> None:
    rng = np.random.default_rng(0)
    age = rng.normal(size=(400, 1)).round(6)
    table = pl.DataFrame(np.hstack([age, (age + rng.normal(size=(400, 3))).round(6)]), ["age", "a b", "pay", "spend"])
    table.write_csv(tmp_path / "data.csv")
    table.select(years="age").write_csv(tmp_path / "z.csv")
    data, words = tmp_path / "data.csv", ["--method", "qda", "--quiet"]
    columns = run("mi", data, "--x", "a b,pay", "--y", "spend", "--given", "age", *words)
    assert columns[0] == 0
    assert run("mi", data, "--y", "spend", "--given", "age", *words) == columns  # X has all other columns
    assert run("mi", data, "--y", "spend", "--given", tmp_path / "z.csv", "--exclude", "age", *words) == columns
    two = run("mi", data, "--x", "pay", "--y", "spend", "--given", "age,a b", *words)
    assert two[0] == 0
    assert two != columns


def test_an_identifier_in_x_is_used_and_named(tmp_path: Path, run: Run) -> None:
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"user_id": np.arange(1000, 1200), "age": rng.normal(size=200), "pay": rng.normal(size=200)})
    table.write_csv(tmp_path / "data.csv")
    words = ["--y", "pay", "--method", "qda", "--quiet"]
    _, out, err = run("mi", tmp_path / "data.csv", "--x", "age,user_id", *words)
    assert out.startswith("Mutual information: ")
    note = "data.csv has 'user_id', which looks like an identifier, with distinct integers. It is used."
    assert err.count(note) == err.count("\n") == 1
    assert "It is used" not in run("mi", tmp_path / "data.csv", *words)[2]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--x jop --y age", "`--x` has 'jop', which data.csv does not have."),
        ("--y aeg", "`--y` has 'aeg'"),
        ("--y age --given jop", "`--given` has 'jop', which is neither a column of data.csv nor a file."),
        ("--y age --exclude jop", "`--exclude` names 'jop'"),
    ],
)
def test_names_of_columns_are_checked_before_anything_heavy_is_loaded(words: str, problem: str, tmp_path: Path) -> None:
    people(50, 0, True).write_csv(tmp_path / "data.csv")
    code = """
import sys
from flowratio.cli.app import main
try:
    main()
finally:
    print(sorted({"torch", "sklearn", "scipy", "matplotlib"} & sys.modules.keys()))
"""
    command = [sys.executable, "-W", "error", "-c", code, "mi", "data.csv", *words.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "[]\n"), done.stderr
    assert done.stderr.startswith(f"flowratio: {problem}")
    assert done.stderr.count("\n") == 1


def test_without_a_flow_there_is_a_page_and_no_sample(files: Path, tmp_path: Path, run: Run) -> None:
    words = ["-o", tmp_path / "m", "--method", "lda", "--no-flow", "--quiet"]
    assert run("fit", files / "p.csv", files / "q.csv", *words)[0] == 0
    assert run("report", tmp_path / "m", "-o", tmp_path / "page.html")[0] == 0
    code, _, err = run("sample", tmp_path / "m", "-n", 5)
    assert (code, err.count("\n"), "--no-flow" in err) == (2, 1, True)


def test_weights_can_be_tempered_and_capped(model: Path, files: Path, tmp_path: Path, run: Run) -> None:
    options = ["--temper", 0.5, "--cap", 3, "-o", tmp_path / "s.csv", "--quiet"]
    assert run("score", model, files / "q.csv", *options)[0] == 0
    weight = pl.read_csv(tmp_path / "s.csv")["weight"].to_numpy()
    assert weight.mean() == pytest.approx(1)
    assert weight.max() == pytest.approx(3)
    assert run("score", model, files / "q.csv", "--temper", -1)[0] == 2


@pytest.mark.parametrize("kind", ["folder", "pattern", "feather", "jsonl", "latin-1"])
def test_every_command_reads_other_kinds_of_tables(
    model: Path, files: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    encoding = ["--encoding", "latin-1"] if kind == "latin-1" else []
    paths = []
    for name in ("p", "q"):
        frame = pl.read_csv(files / f"{name}.csv")
        match kind:
            case "feather":
                frame.write_ipc(f"{name}.feather")
            case "jsonl":
                frame.write_ndjson(f"{name}.jsonl")
            case "latin-1":
                Path(f"{name}.latin-1").write_bytes(
                    frame.with_columns(country=pl.lit("là")).write_csv().encode("latin-1")
                )
            case _:
                Path(name).mkdir()
                for k in range(4):
                    frame[100 * k : 100 * (k + 1)].write_parquet(f"{name}/part-{k}.parquet")
        paths.append({"folder": name, "pattern": f"{name}/part-*"}.get(kind, f"{name}.{kind}"))
    assert run("fit", *paths, "-o", "m", "--method", "logistic", "--no-flow", "--quiet", *encoding)[0] == 0
    assert run("score", model, paths[1], "-o", "s.csv", "--quiet", *encoding)[0] == 0
    assert run("score", model, files / "q.csv", "-o", "of-csv.csv", "--quiet")[0] == 0
    scores, of_csv = (pl.read_csv(name)["log_ratio"] for name in ("s.csv", "of-csv.csv"))
    np.testing.assert_allclose(scores, of_csv, rtol=1e-12)
    assert run("test", *paths, "--permutations", 20, "--quiet", *encoding)[0] == 0
    if kind != "latin-1":  # `report` has no encoding
        assert run("report", model, "--p", paths[0], "--q", paths[1], "-o", "page.html")[0] == 0


def test_columns_can_be_chosen(files: Path, tmp_path: Path, run: Run) -> None:
    chosen = ["--columns", "age,job", "--method", "lda", "--quiet", "-o", tmp_path / "m"]
    assert run("fit", files / "p.csv", files / "q.csv", *chosen)[0] == 0
    assert [column.name for column in load(tmp_path / "m").encoder_.columns_] == ["age", "job"]
    code, _, err = run("fit", files / "p.csv", files / "q.csv", "--columns", "agee", "-o", tmp_path / "n")
    assert (code, err.count("\n")) == (2, 1)
    assert "'age'" in err


def test_the_automatic_choice_prints_its_table(files: Path, tmp_path: Path, run: Run) -> None:
    code, out, _ = run("fit", files / "p.csv", files / "q.csv", "-o", tmp_path / "m", "--budget", 2, "--quiet")
    assert code == 0
    assert re.search(r"^candidate +score", out, re.MULTILINE)
    assert re.search(r"^logistic +", out, re.MULTILINE)
    assert out.count("The budget was enough to try") == 1
    assert re.search(r"^(?!- ).*(the flow |latent space)", out, re.MULTILINE | re.IGNORECASE)


def test_a_model_is_replaced_only_by_force(
    files: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["fit", files / "p.csv", files / "q.csv", "-o", tmp_path / "m", "--method", "lda", "--no-flow", "--quiet"]
    assert run(*words)[0] == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr("flowratio.storage.reading.read_table", None)  # nothing is read before the error
        code, out, err = run(*words)
    problem = f"{tmp_path / 'm'} already has a model"
    advice = "Use --force to replace it, or choose another folder with -o."
    assert (code, out, err) == (2, "", f"flowratio: {problem}. {advice}\n")
    assert {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()} == before
    code, out, _ = run(*words, "--force", "--json", "--seed", 1)
    assert (code, json.loads(out)["origin"]["seed"]) == (0, 1)
    # Gaussian ages of equal variance and four jobs have a log-ratio that is linear: lda has the right form
    assert json.loads(out)["diagnosis"]["verdict"] == "reliable"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m"]


def test_odd_names_are_escaped_and_shortened(tmp_path: Path, run: Run) -> None:
    odd, long = "a\x1b[31mge\u202e", "income " + 900 * "very long "
    for name, older in (("p", True), ("q", False)):
        frame = people(200, 0, older).select(pl.col("age").alias(odd), pl.col("hours").alias(long), "job")
        frame = frame.with_columns(job=pl.col("job") + "\x07" + 3000 * "!")
        frame.write_parquet(tmp_path / f"{name}.parquet")
    p, q = tmp_path / "p.parquet", tmp_path / "q.parquet"
    for words in (
        ["fit", p, q, "-o", tmp_path / "m", "--method", "additive", "--quiet"],
        ["test", p, q, "--permutations", 40, "--quiet"],
        ["divergence", p, q, "--method", "lda", "--quiet", "--columns", odd],
        ["fit", p, q, "-o", tmp_path / "n", "--exclude", "b" * 5000],
        ["fit", tmp_path / ("\x1b[31m" + "n" * 220), q, "-o", tmp_path / "n"],
        ["fit", "x" * 9000, q, "-o", tmp_path / "n"],
        ["score", tmp_path / "m", q, "-o", tmp_path / ("o" * 9000 + ".csv")],
        ["y" * 9000],
    ):
        _, out, err = run(*words)
        assert all(character.isprintable() for character in (out + err).replace("\n", ""))
        assert max(map(len, (out + err).splitlines())) < 900, words[0]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_a_kill_in_the_middle_of_scoring(model: Path, tmp_path: Path) -> None:
    many = pl.concat([pl.read_csv(model.parent / "q.csv")] * 1500)  # 600 000 rows: seconds
    many.write_parquet(tmp_path / "many.parquet")
    words = [sys.executable, "-m", "flowratio", "score", str(model), "many.parquet", "--quiet", "--workers", "1"]
    whole = subprocess.run([*words, "-o", "whole.parquet"], cwd=tmp_path, capture_output=True, text=True)
    assert whole.returncode == 0, whole.stderr
    process = subprocess.Popen([*words, "-o", "out.parquet"], cwd=tmp_path)
    while not any(path.stat().st_size > 600_000 for path in tmp_path.glob(".*out.parquet*/*")):
        assert process.poll() is None, "it has ended before the kill"
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "out.parquet").exists()
    again = subprocess.run([*words, "-o", "out.parquet"], cwd=tmp_path, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert "resumed" in again.stdout
    assert (tmp_path / "out.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["many.parquet", "out.parquet", "whole.parquet"]


# What can be wrong


def write_bad_files(folder: Path) -> None:
    (folder / "empty.csv").write_bytes(b"")
    (folder / "header.csv").write_text("age,job\n")
    (folder / "twice.csv").write_text("age,age\n1,2\n3,4\n")
    (folder / "bytes.csv").write_bytes(b"age,job\n1,\xff\xfe\n2,b\n")
    (folder / "nothing.parquet").write_bytes(b"")
    (folder / "other.csv").write_text("years,job\n1,a\n2,b\n3,c\n4,d\n5,e\n")
    (folder / "fixed.csv").write_text("age,job\n" + "1,a\n" * 9)
    (folder / "ages.csv").write_text("age;job\n" + "".join(f"{k};a\n" for k in range(9)))
    people(9, 0, True).with_columns(hours=pl.lit("inf")).write_csv(folder / "endless.csv")
    dates = pl.col("joined").str.to_date().dt.strftime("%d.%m.%Y")
    people(9, 0, True).with_columns(dates).write_csv(folder / "german.csv")
    pl.DataFrame({"age": [1, 2]}).write_parquet(folder / "typed.parquet")
    (folder / "survey.sav").write_bytes(b"$FL2@(#) SPSS DATA FILE")
    (folder / "folder").mkdir()
    (folder / "model").mkdir()
    (folder / "model" / "model.json").write_text('{"format": "flowratio", "version": 1')
    (folder / "newer").mkdir()
    (folder / "newer" / "model.json").write_text('{"format": "flowratio", "version": 99, "flowratio": "9.0"}')


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["fit", "none.csv", "q.csv", "-o", "m"], ["none.csv"]),
        (["fit", "folder", "q.csv", "-o", "m"], ["folder is a folder without files"]),
        (["fit", "newer", "q.csv", "-o", "m"], ["newer is the folder of a model"]),
        (["fit", "none-*.csv", "q.csv", "-o", "m"], ["No file matches none-*.csv"]),
        (["fit", "t*.*", "q.csv", "-o", "m"], ["'twice.csv' (CSV) and 'typed.parquet' (Parquet)", "one kind"]),
        (["fit", "survey.sav", "q.csv", "-o", "m"], ["survey.sav is an SPSS file", "CSV"]),
        (["test", "p.csv", "survey.sav"], ["survey.sav is an SPSS file", "CSV"]),
        (["score", "newer", "survey.sav"], ["survey.sav is an SPSS file", "CSV"]),
        (["fit", "empty.csv", "q.csv", "-o", "m"], ["empty.csv"]),
        (["fit", "header.csv", "q.csv", "-o", "m"], ["header.csv", "row"]),
        (["fit", "twice.csv", "q.csv", "-o", "m"], ["twice.csv", "age"]),
        (["fit", "bytes.csv", "q.csv", "-o", "m"], ["bytes.csv", "UTF-8"]),
        (["fit", "nothing.parquet", "q.csv", "-o", "m"], ["nothing.parquet"]),
        (["fit", "other.csv", "other.csv", "-o", "q.csv"], ["q.csv", "file"]),
        (["fit", "other.csv", "fixed.csv", "-o", "m"], ["years", "age"]),
        (["fit", "fixed.csv", "fixed.csv", "-o", "m"], ["constant"]),
        (["fit", "-", "-", "-o", "m"], ["standard input"]),
        (["fit", "p.csv", "q.csv", "-o", "m", "--method", "logistik"], ["logistik", "'logistic'"]),
        (["fit", "p.csv", "q.csv", "-o", "m", "--budget", "0"], ["--budget 0", "above 0"]),
        (["fit", "p.csv", "q.csv", "-o", "m", "--folds", "1"], ["--folds", "greater than or equal to 2"]),
        (["fit", "p.csv", "q.csv", "-o", "m", "--exclude", "nme"], ["nme"]),
        (["fit", "p.csv", "q.csv", "-o", "m", "--columns", "age,job", "--exclude", "jbo"], ["'jbo'", "mean 'job'?"]),
        (["fit", "p.csv", "q.csv"], ["--out"]),
        (["fit", "p.csv", "q.csv", "-o", "m", "--columns", "agee"], ["`--columns`", "'age'"]),
        (["fit", "other.csv", "p.csv", "-o", "m"], ["'years' only in", "`--exclude`"]),
        (["fit", "p.csv", "endless.csv", "-o", "m"], ["infinite", "`--exclude`"]),
        (["fit", "p.csv", "german.csv", "-o", "m"], ["'joined'", "`p.csv`", "31.01.2024", "`--exclude`"]),
        (["test", "p.csv", "german.csv"], ["'joined'", "`german.csv`", "2024-01-31"]),
        (["divergence", "german.csv", "p.csv", "--method", "lda"], ["'joined'", "`german.csv`", "2024-01-31"]),
        (["test", "p.csv", "q.csv", "--method", "logistik"], ["'logistic'"]),
        (["test", "p.csv", "q.csv", "--method", "auto"], ["--method", "one ratio"]),
        (["test", "fixed.csv", "fixed.csv"], ["constant", "varies"]),
        (["mi", "-", "-"], ["standard input"]),
        (["mi", "p.csv", "fixed.csv", "--method", "qda"], ["`fixed.csv` has 9 rows", "`p.csv` has 50"]),
        (["mi", "p.csv", "q.csv", "--method", "lda"], ["`--method` is 'lda'", "'qda'"]),
        (["mi", "endless.csv", "q.csv", "--method", "qda"], ["infinite", "`--exclude`"]),
        (["mi", "p.csv"], ["Y is missing", "--y spend", "second file"]),
        (["mi", "p.csv", "--x", "age"], ["Y is missing", "--y spend", "second file"]),
        (["mi", "p.csv", "q.csv", "--y", "age"], ["columns of one file"]),
        (["mi", "p.csv", "--x", "age,job", "--y", "job"], ["Both have 'job'"]),
        (["mi", "p.csv", "--y", "ag"], ["`--y` has 'ag'", "'age', 'job', 'hours'", "mean 'age'?"]),
        (["mi", "p.csv", "--x", "jobs", "--y", "age"], ["`--x` has 'jobs'", "'age', 'job', 'hours'", "mean 'job'?"]),
        (["mi", "p.csv", "--y", "age", "--exclude", "age"], ["`--y` has 'age'", "'job'"]),
        (["mi", "p.csv", "--y", "age", "--exclude", "jbo"], ["`--exclude` names 'jbo'", "mean 'job'?"]),
        (["mi", "p.csv", "--y", "age", "--given", "jbo"], ["`--given` has 'jbo'", "neither a column", "mean 'job'?"]),
        (["mi", "p.csv", "--y", "age", "--given", "job,age"], ["`--y` and `--given` both have 'age'"]),
        (["mi", "ages.csv", "--y", "age", "--given", "job"], ["`--y` and `--given` have all columns of ages.csv"]),
        (["mi", "ages.csv", "--y", "age,job"], ["`--y` has all columns of ages.csv", "at least one"]),
        (["score", "folder", "q.csv"], ["folder has no file model.json", "not a model"]),
        (["score", "none", "q.csv", "--temper", "-1"], ["--temper -1", "0 or more"]),
        (["score", "none", "q.csv", "--cap", "0.5"], ["--cap 0.5", "1 or more"]),
        (["score", "none", "q.csv"], ["none"]),
        (["score", "model", "q.csv"], ["model.json"]),
        (["score", "newer", "q.csv"], ["99", "Upgrade"]),
        (["score", "newer", "q.csv", "--workers", "0"], ["--workers 0"]),
        (["report", "model", "-o", "page.html"], ["model"]),
        (["report", "none", "-o", "page.html"], ["none"]),
        (["report", "model", "-o", "folder"], ["folder"]),
        (["divergence", "p.csv", "q.csv", "--kind", "chi", "--method", "lda"], ["chi", "pearson"]),
        (["sample", "none", "-n", "5"], ["none"]),
        (["sample", "none", "-n", "0"], ["-n 0"]),
        (["sample", "none", "--toward", "r"], ["--toward r", "p"]),
        (["reproduce", "mixture"], ["mixture", "mixtures"]),
        (["reproduce", "mixtures", "--preset", "fast"], ["fast", "laptop"]),
        (["demo", "--seed", "-1"], ["--seed -1", "integer from 0 to 2**63 - 1"]),
        (["demo", "--rows", "3"], ["--rows 3", "50"]),
        (["demo", "--out", "p.csv"], ["p.csv", "folder"]),
        (["dem"], ["dem", "No such command", "flowratio --help"]),
        (["demo", "--sed", "1"], ["--sed", "No such option", "flowratio demo --help"]),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    args: list[str], words: list[str], tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bad_files(tmp_path)
    for name in ("p", "q"):
        people(50, 0, name == "p").write_csv(tmp_path / f"{name}.csv")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1, err
    assert err.startswith("flowratio: ")
    assert [word for word in words if word not in err] == [], err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_column_that_is_constant_in_one_file_serves(tmp_path: Path, run: Run) -> None:
    for name in ("p", "q"):
        frame = people(60, 0, name == "p")
        frame.with_columns(married=pl.lit(True) if name == "p" else pl.col("married")).write_csv(tmp_path / name)
    words = ["-o", tmp_path / "m", "--method", "logistic", "--quiet"]
    assert run("fit", tmp_path / "p", tmp_path / "q", *words)[0] == 0


def test_a_column_of_one_file_can_be_excluded(tmp_path: Path, run: Run) -> None:
    people(60, 0, True).with_columns(id=pl.int_range(60)).write_csv(tmp_path / "p.csv")
    people(60, 0, False).write_csv(tmp_path / "q.csv")
    words = ["fit", tmp_path / "p.csv", tmp_path / "q.csv", "-o", tmp_path / "m", "--method", "lda", "--quiet"]
    code, _, err = run(*words)
    assert (code, err.count("\n"), "'id'" in err, "exclude" in err) == (2, 1, True, True)
    assert run(*words, "--exclude", "id")[0] == 0


def test_what_a_command_says_names_no_setting_of_python(model: Path, files: Path, tmp_path: Path, run: Run) -> None:
    given = pl.read_csv(files / "q.csv")
    given.with_columns(weight=pl.lit(1.0)).write_csv(tmp_path / "weighted.csv")
    given.drop("age").write_csv(tmp_path / "fewer.csv")
    given.with_columns(hours=pl.lit("inf")).write_csv(tmp_path / "endless.csv")
    for words, found in (
        (["score", model, tmp_path / "weighted.csv"], "with `--scores-only`"),
        (["score", model, tmp_path / "endless.csv"], "`flowratio fit --exclude`"),
        (["report", model, "--p", tmp_path / "fewer.csv", "--q", files / "q.csv"], "fewer.csv has no column 'age'"),
    ):
        code, _, err = run(*words, "-o", tmp_path / ("x.html" if words[0] == "report" else "x.csv"))
        assert (code, err.count("\n"), found in err) == (2, 1, True), err


def test_a_page_on_other_rows_tells_where_a_cell_is_wrong(model: Path, files: Path, tmp_path: Path, run: Run) -> None:
    given = pl.read_csv(files / "q.csv", infer_schema=False)
    given[9, "age"] = "old"
    given.write_csv(tmp_path / "bad.csv")
    for p, q in ((files / "p.csv", tmp_path / "bad.csv"), (tmp_path / "bad.csv", files / "q.csv")):
        code, _, err = run("report", model, "--p", p, "--q", q, "-o", tmp_path / "page.html")
        assert (code, err.count("\n")) == (2, 1)
        assert f"'old' in line 11 of {tmp_path / 'bad.csv'}, which is not a number" in err


@pytest.mark.parametrize("kind", [ZeroDivisionError, pl.exceptions.PanicException])
def test_what_no_one_foresaw_is_one_line(
    kind: type[BaseException], files: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise kind("of nothing")

    monkeypatch.setattr("flowratio.storage.reading.read_table", fail)
    monkeypatch.chdir(files)
    code, _, err = run("test", "p.csv", "q.csv")
    assert (code, err.count("\n")) == (2, 1)
    assert f"{kind.__name__}: of nothing" in err
    monkeypatch.setenv("FLOWRATIO_TRACEBACK", "1")
    monkeypatch.setattr(sys, "argv", ["flowratio", "test", "p.csv", "q.csv"])
    with pytest.raises(kind):
        flowratio.cli.app.main()


def test_unseen_levels_are_counted_beside_a_pipe(model: Path, tmp_path: Path, run: Run) -> None:
    people(30, 0, False).with_columns(job=pl.lit("pilot")).write_csv(tmp_path / "new.csv")
    code, out, err = run("score", model, tmp_path / "new.csv")
    assert (code, len(out.splitlines())) == (0, 31)
    assert "30 rows of 'job'" in err


def test_a_semicolon_is_found(tmp_path: Path, run: Run) -> None:
    for name in ("p", "q"):
        people(60, 0, name == "p").write_csv(tmp_path / f"{name}.csv", separator=";")
    words = ["-o", tmp_path / "m", "--method", "lda", "--quiet", "--no-flow"]
    assert run("fit", tmp_path / "p.csv", tmp_path / "q.csv", *words)[0] == 0
    for out in ("once.csv", "twice.csv"):  # what is written is read again
        source = tmp_path / ("q.csv" if out == "once.csv" else "scores.csv")
        assert run("score", tmp_path / "m", source, "-o", tmp_path / out, "--quiet")[0] == 0
        assert (tmp_path / out).read_text().startswith("age;job;hours;joined;married;country;noise;log_ratio;weight\n")
        scores = read_table(tmp_path / out)
        scores.drop("log_ratio", "weight").write_csv(tmp_path / "scores.csv", separator=";")
    assert (tmp_path / "once.csv").read_text() == (tmp_path / "twice.csv").read_text()


def test_identifiers_overlap_and_durations(tmp_path: Path, run: Run) -> None:
    rng = np.random.default_rng(0)
    for name, start in (("p", 1000), ("q", 0)):
        pl.DataFrame(
            {
                "who": [f"K{start + k}" for k in range(80)],
                "number": np.arange(80) + start,
                "wait": pl.Series((1e6 * rng.exponential(60, 80)).astype(int)).cast(pl.Duration("us")),
                "tags": [[1]] * 80,
            }
        ).write_parquet(tmp_path / f"{name}.parquet")
    p, q, m = (tmp_path / name for name in ("p.parquet", "q.parquet", "m"))
    code, out, err = run("fit", p, q, "-o", m, "--method", "logistic", "--quiet", "--no-flow", "--exclude", "tags")
    assert (code, len(err.splitlines())) == (0, 1)  # nothing of effective draws, which the verdict has
    assert "Left out 'number', because the values are distinct integers, like row numbers" in err
    assert "Left out 'who', because most rows have their own value there" in err
    assert "identifier: who, number (left out)" in out
    assert f"flowratio score {m} {q} -o weights.parquet" in out
    assert run("score", m, q, "-o", tmp_path / "w.parquet", "--quiet")[0] == 0
    code, _, err = run("score", m, q, "-o", tmp_path / "w.csv", "--quiet")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "column 'tags' of type List" in err
    pl.read_parquet(q).drop("tags").write_parquet(q)
    assert run("score", m, q, "-o", tmp_path / "w.csv", "--quiet")[0] == 0
    # seconds are what the model has: the file that was written is scored alike
    pl.read_csv(tmp_path / "w.csv").drop("log_ratio", "weight").write_csv(tmp_path / "again.csv")
    assert run("score", m, tmp_path / "again.csv", "-o", tmp_path / "w2.csv", "--quiet")[0] == 0
    first, second = (pl.read_csv(tmp_path / name)["log_ratio"] for name in ("w.csv", "w2.csv"))
    np.testing.assert_allclose(first, second, rtol=1e-12)


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_estimates_name_identifiers_once(tmp_path: Path, run: Run, form: str) -> None:
    rng = np.random.default_rng(0)
    for name, start in (("p", 1000), ("q", 0)):
        columns = {"order_id": np.arange(120) + start, "who": [f"K{start + k}" for k in range(120)]}
        frame = pl.DataFrame({**columns, "x": rng.normal(size=120), "y": rng.normal(size=120)})
        frame.write_parquet(tmp_path / f"{name}.parquet")
        frame.write_csv(tmp_path / f"{name}.csv")
    p, q = (tmp_path / f"{name}.{form}" for name in "pq")
    commands = [
        ("divergence", p, q, "--method", "logistic"),
        ("test", p, q, "--permutations", "19"),
        ("mi", p, "--y", "y", "--method", "qda"),
        ("mi", p, q, "--method", "qda"),
        ("mi", p, "--x", "x,who", "--y", "y", "--method", "qda"),
    ]
    for words in commands:
        code, out, err = run(*words, "--quiet")
        assert (code, err) == (0, "")
        named_twice = 2 if words[:3] == ("mi", p, q) else 1  # once in X, and once in Y
        is_left_out = "x,who" not in words
        assert out.count("'order_id'") == named_twice * is_left_out
        assert out.count("'who'") == named_twice
        code, out, err = run(*words, "--quiet", "--json")
        assert (code, err) == (0, "")
        assert json.loads(out)["left_out"] == (["order_id", "who"] * named_twice if is_left_out else ["who"])
    code, out, _ = run("mi", p, "--x", "order_id", "--y", "y", "--method", "qda", "--quiet")  # as the user chose
    assert (code, "Left out" in out) == (0, False)


# Help


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_an_example(command: str, run: Run) -> None:
    code, out, err = run(command, "--help")
    assert (code, err) == (0, "")
    assert f"Example: flowratio {command}" in out


def test_help_and_version(run: Run) -> None:
    for args in ([], ["--help"]):
        code, out, err = run(*args)
        assert (code, err) == (0, "")
        assert all(command in out for command in COMMANDS)
    assert run("--version") == (0, f"flowratio {flowratio.__version__}\n", "")


def test_the_package_is_the_command_line() -> None:
    done = subprocess.run([sys.executable, "-m", "flowratio", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"flowratio {flowratio.__version__}\n", "")


def test_help_loads_nothing_heavy() -> None:
    code = """
import sys
sys.argv = ["flowratio", "fit", "--help"]
from flowratio.cli.app import main
try:
    main()
finally:
    print(sorted({"torch", "sklearn", "scipy", "numpy", "matplotlib", "polars", "pyarrow"} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("fit none.csv q.csv -o m", "There is no file none.csv"),
        ("fit q.csv none.csv -o m", "There is no file none.csv"),
        ("fit q.csv q.csv -o q.csv", "q.csv is a file"),
        ("fit q.csv q.csv -o q.csv/m", "Cannot write q.csv/m"),
        ("fit q.csv q.csv -o model", "model already has a model"),
        ("score none q.csv", "There is no folder none"),
        ("score model none.csv", "There is no file none.csv"),
        ("score model q.csv -o none/x.csv", "Cannot write none/x.csv"),
        ("report none", "There is no folder none"),
        ("report model -o none/x.html", "Cannot write none/x.html"),
        ("report model --p none.csv --q q.csv", "There is no file none.csv"),
        ("test q.csv none-*.csv", "No file matches none-*.csv"),
        ("divergence none.csv q.csv", "There is no file none.csv"),
        ("mi q.csv q.csv --given none.csv", "There is no file none.csv"),
        ("sample none", "There is no folder none"),
        ("sample model -o none/x.csv", "Cannot write none/x.csv"),
    ],
)
def test_paths_are_checked_before_anything_heavy_is_loaded(words: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("age\n1\n2\n")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.json").write_text('{\n "format": "flowratio",')
    code = """
import sys
from flowratio.cli.app import main
try:
    main()
finally:
    print(sorted({"torch", "sklearn", "scipy", "numpy", "matplotlib", "polars", "pyarrow"} & sys.modules.keys()))
"""
    command = [sys.executable, "-W", "error", "-c", code, *words.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "[]\n"), done.stderr
    assert done.stderr.startswith(f"flowratio: {problem}")
    assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "q.csv"]


def test_completion_can_be_shown() -> None:
    environment = {**os.environ, "_FLOWRATIO_COMPLETE": "source_bash"}
    command = "from flowratio.cli.app import main; main()"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, env=environment)
    assert "complete" in done.stdout


def test_files_with_different_columns_are_refused(tmp_path: Path, run: Run) -> None:
    (tmp_path / "ab.csv").write_text("a,b\n1,2\n3,4\n5,6\n")
    (tmp_path / "a.csv").write_text("a\n1\n2\n3\n")
    for command in ("test", "divergence"):
        code, _, error = run(command, tmp_path / "ab.csv", tmp_path / "a.csv", "--method", "logistic")
        assert code == 2
        assert "different columns: 'b' only in" in error


def test_fit_gives_a_hint_about_categories_that_differ_only_in_case(tmp_path: Path, run: Run) -> None:
    for name, cities in (("p", ["Rome", "Oslo"]), ("q", ["rome", "oslo"])):
        pl.DataFrame({"city": cities * 20, "x": np.arange(40.0)}).write_csv(tmp_path / f"{name}.csv")
    words = ["-o", tmp_path / "m", "--method", "logistic", "--no-flow", "--quiet"]
    code, _, error = run("fit", tmp_path / "p.csv", tmp_path / "q.csv", *words)
    assert code == 0
    assert "only in case" in error


def test_score_repeats_the_verdict_on_weights_that_must_not_be_used(tmp_path: Path, run: Run) -> None:
    rng = np.random.default_rng(0)
    for name, shift in (("p", 9), ("q", 0)):
        pl.DataFrame({"a": rng.normal(shift, 1, 80)}).write_csv(tmp_path / f"{name}.csv")
    p, q, m = (tmp_path / name for name in ("p.csv", "q.csv", "m"))
    assert run("fit", p, q, "-o", m, "--method", "logistic", "--no-flow", "--quiet")[0] == 0
    code, _, err = run("score", m, q, "-o", tmp_path / "w.csv", "--quiet")
    assert code == 0
    assert f"The verdict on {m} is 'do not use'." in err
