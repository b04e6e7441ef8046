"""README and docs: every Python block and every command runs, every public name is in the reference."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl
import pytest
import typer.main
from matplotlib.figure import Figure
from scripts import loaded

import flowratio
from flowratio.cli import demo, motivating
from flowratio.cli.app import app, main
from flowratio.ratios.registry import RATIOS
from flowratio_paper import NAMES
from flowratio_paper.data import FILES
from flowratio_paper.running import Outcome, experiment

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
REPRODUCTION = sorted((DOCS / "reproduction").glob("*.md"))
NUMBER = re.compile(r"(?<![\w.])\d*\.\d+(?:e-?\d+)?(?![\d.])")  # with decimals, without a sign
PROTOCOL = {".99"}  # a share of the mixtures, which is not in the results
RESULTS = sorted(path for preset in ("laptop", "paper") for path in (ROOT / "results").glob(f"*-{preset}.json"))
SCRIPTS = sorted((DOCS / "gallery").glob("plot_*.py"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
OUTPUT = re.compile(r"\n\n```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NOT_RUN = ("pip", "make", "reproduce")  # tests/journeys and tests/paper run `reproduce`
PLACEHOLDERS = {"P": "new.csv", "Q": "old.csv", "X": "x.csv", "Y": "y.csv", "DATA": "old.csv", "OUT": "out.csv"}
PLACEHOLDERS |= {"MODEL": "model", "N": "7", "SECONDS": "5"}
SMALLER = {"demo": ["--rows", "50"]}
QUICK = ("lda", "logistic", "qda")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run_in_order(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run them in one namespace, next to the tables of the demo. A block of text after a block is its output."""
    text = page.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    old, new, retired = (tmp_path / name for name in demo.TABLES)
    demo.write_tables((old, new, retired), 3_000, 0)
    blocks = list(BLOCK.finditer(text))
    assert len(blocks) == text.count("```python")
    namespace: dict[str, object] = {"__name__": page.stem}
    for block in blocks:
        # blank lines in front: a traceback gives the line of the page
        source = "\n" * text.count("\n", 0, block.start(1)) + block[1]
        exec(compile(source, str(page), "exec"), namespace)  # noqa: S102
        output = capsys.readouterr().out
        if printed := OUTPUT.match(text, block.end()):
            assert output == printed[1]


def commands(page: Path) -> Iterator[list[str]]:
    """Yield the words of each command on a page, with its optional words in brackets."""
    for block in CONSOLE.findall(page.read_text(encoding="utf-8")):
        for line in re.sub(r"\n +", " ", block).splitlines():
            prompt, *words = shlex.split(re.sub(r" \[(--.*?)\]", r" \1", line), comments=True)
            assert prompt == "$"
            yield words


def test_commands_and_their_options_exist() -> None:
    group = typer.main.get_group(app).commands
    lines = [
        (page.name, words[1:])
        for page in [*PAGES, *REPRODUCTION]
        for words in commands(page)
        if words[0] == "flowratio"
    ]
    assert {words[0] for _, words in lines} == set(group)  # every command is on a page
    for page, (name, *words) in lines:
        options = {option for parameter in group[name].params for option in parameter.opts}
        own = words[: words.index("|")] if "|" in words else words
        used = {word for word in own if word.startswith("-") and word != "-"}
        assert used <= options, f"{page}: {name}"


@pytest.mark.parametrize("name", typer.main.get_group(app).commands)
def test_every_option_is_in_the_section_of_its_command(name: str) -> None:
    sections = (DOCS / "command-line.md").read_text(encoding="utf-8").split("\n## ")[1:]
    section = next(text for text in sections if f"\n`{name}` " in text and f"$ flowratio {name}" in text)
    options = [one for one in typer.main.get_group(app).commands[name].params if one.param_type_name == "option"]
    names = [option for one in options if not getattr(one, "hidden", False) for option in one.opts]
    assert [option for option in names if f"`{option}" not in section] == []


def test_experiments_and_their_data_are_named() -> None:
    text = (DOCS / "command-line.md").read_text(encoding="utf-8")
    assert [name for name in (*NAMES, *FILES) if not re.search(rf"(?<![\w/-]){re.escape(name)}(?![\w.-])", text)] == []


def write_tables(folder: Path) -> None:
    """Write every file that a page reads: p and q have different means, x and y are correlated."""
    rng = np.random.default_rng(0)
    for name, shift in (("new", 1), ("old", 0), ("p", 1), ("q", 0)):
        columns = {"a": rng.normal(shift, 1, 60), "b": rng.choice(["u", "v"], 60), "c": rng.integers(0, 9, 60)}
        pl.DataFrame(columns).write_csv(folder / f"{name}.csv")
    x = rng.normal(size=60)
    pl.DataFrame({"x": x}).write_csv(folder / "x.csv")
    pl.DataFrame({"y": x + rng.normal(size=60)}).write_csv(folder / "y.csv")
    columns = {"age": x, "income": rng.normal(size=60), "spend": x + rng.normal(size=60)}
    pl.DataFrame(columns).write_csv(folder / "data.csv")


@pytest.mark.parametrize("page", [page for page in PAGES if any(commands(page))], ids=lambda page: page.name)
def test_commands_run_in_order(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Run the commands in one folder, with few rows and few candidates. A file replaces each name in capitals."""
    monkeypatch.chdir(tmp_path)
    for name, entry in RATIOS.items():
        monkeypatch.setitem(RATIOS, name, replace(entry, candidate=name in QUICK))
    for module in (demo, motivating):
        monkeypatch.setattr(module, "CANDIDATES", list(QUICK))
    write_tables(tmp_path)
    for command in commands(page):
        if {*command[:2]} & {*NOT_RUN}:
            continue
        assert command[0] == "flowratio"
        words = [PLACEHOLDERS.get(word, word) for word in command]
        own = words[: words.index("|")] if "|" in words else words
        monkeypatch.setattr(sys, "argv", [*own, *SMALLER.get(own[1], ())])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capfd.readouterr()
        assert end.value.code == 0, f"{shlex.join(command)}: {err}"
        if "-o" in own:
            assert Path(own[own.index("-o") + 1]).exists()
        else:
            assert out
        if own != words:
            reader = [sys.executable if word == "python" else word for word in words[len(own) + 1 :]]
            assert subprocess.run(reader, input=out, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def tables() -> Iterator[ModuleType]:
    """The script that fills the pages, with its folder on the path, as for a script that is run."""
    sys.path.insert(0, str(DOCS))
    yield loaded(DOCS / "reproduction_tables.py")
    sys.path.remove(str(DOCS))


def test_the_tables_of_the_reproduction_are_those_of_the_results(tables: ModuleType) -> None:
    assert {page.stem for page in REPRODUCTION} == {*NAMES, "index"}
    for page in REPRODUCTION:
        text = page.read_text(encoding="utf-8")
        marks = tables.MARK.findall(text)
        assert text.count("<!-- end -->") == len(marks) > 0, page.name
        assert tables.filled(text) == text, f"{page.name}: run `python docs/reproduction_tables.py`"
    for path in RESULTS:
        name, _, preset = path.stem.rpartition("-")
        text = path.with_suffix(".md").read_text(encoding="utf-8")
        assert text == tables.results_page(name, preset), f"{name}: run `python docs/reproduction_tables.py`"
    assert {path.stem.rpartition("-")[0] for path in RESULTS if path.stem.endswith("-laptop")} == {*NAMES}


@pytest.mark.parametrize("page", REPRODUCTION, ids=lambda page: page.stem)
def test_numbers_in_the_text_of_the_reproduction_are_in_the_results(page: Path, tables: ModuleType) -> None:
    """A number with decimals is one of the results or of the protocol. On the summary, those of tables are too."""
    names = NAMES if page.stem == "index" else [page.stem]
    presets = [path.stem.rpartition("-")[::2] for path in RESULTS if path.stem.rpartition("-")[0] in names]
    numbers = [float(one) for run in presets for one in NUMBER.findall(tables.results_page(*run))]
    text = page.read_text(encoding="utf-8")
    text = text if page.stem == "index" else tables.MARK.sub("", text)
    unknown = {one for one in NUMBER.findall(text) if not any(is_rounded(one, value) for value in numbers)}
    assert unknown <= PROTOCOL


def is_rounded(text: str, value: float) -> bool:
    """Whether a text is a value rounded to its decimals, as a number or in percent."""
    half = 0.5 * 10.0 ** -len(text.partition(".")[2].partition("e")[0])
    half *= 10 ** float(text.partition("e")[2] or 0)
    return min(abs(float(text) - value), abs(float(text) - 100 * value)) <= half * (1 + 1e-9)


def test_results_of_another_preset_are_refused(
    tables: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "toy-paper.json"
    path.write_bytes((ROOT / "results" / "toy-laptop.json").read_bytes())
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    tables.load.cache_clear()
    with pytest.raises(ValueError, match=r"toy-paper\.json has results of toy with the preset laptop\. Run"):
        tables.load("toy", "paper")
    tables.load.cache_clear()


def test_a_wrong_number_is_noticed() -> None:
    assert is_rounded("0.74", 0.744)
    assert is_rounded("3.9", 0.0391)  # in percent
    assert not is_rounded("0.745", 0.744)
    assert not is_rounded("3.0e-08", 3.0e-09)


def test_the_reproduction_is_short() -> None:
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in REPRODUCTION) <= 5500


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_tables_and_verdicts_are_those_of_the_runs(path: Path) -> None:
    results = json.loads(path.read_text(encoding="utf-8"))
    module = experiment(results["experiment"])
    settings = module.PRESETS[results["preset"]]
    seeds = results["settings"]["seeds"]
    assert 1 < seeds <= settings.seeds  # a part of a long run: its tables show the number of runs
    settings = replace(settings, seeds=seeds)
    assert json.loads(json.dumps(asdict(settings))) == results["settings"]
    runs = {json.dumps(run["task"]): Outcome(**run) for run in results["runs"]}
    outcomes = [runs[json.dumps(task)] for task in module.tasks(settings)]
    report = json.loads(json.dumps(asdict(module.report(settings, outcomes))))
    remedy = f"run `flowratio reproduce {results['experiment']} --preset {results['preset']} --report`"
    assert (report["tables"], report["claims"]) == (results["tables"], results["claims"]), remedy


def test_reference_has_every_public_name_in_the_order_of_the_path() -> None:
    pages = re.findall(r"api/\w+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    reference = loaded(DOCS / "hooks" / "reference.py")
    texts = [reference.expanded((DOCS / page).read_text(encoding="utf-8")) for page in pages]
    names = [name for text in texts for name in re.findall(r"^::: (.*)$", text, re.MULTILINE)]
    assert names == [f"{getattr(flowratio, name).__module__}.{name}" for name in flowratio.__all__]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_gallery_scripts_run(script: Path) -> None:
    """With few rows, every panel has data. The build of the pages uses all rows."""
    figure = loaded(script).main(n=100)
    assert isinstance(figure, Figure)
    assert all(axes.has_data() for axes in figure.get_axes())
