"""The table of options against the commands, and the names of ratios against the registry."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import typer.main

from flowratio.cli import console
from flowratio.cli.app import app
from flowratio.cli.options import OPTIONS, argument_names, method_names
from flowratio.ratios import registry

COMMANDS: dict[str, Any] = dict(getattr(typer.main.get_group(app), "commands", {}))


def test_every_command_is_in_the_table() -> None:
    assert set(OPTIONS) == set(COMMANDS)


@pytest.mark.parametrize("command", OPTIONS)
def test_options_of_the_table_exist(command: str) -> None:
    for option in OPTIONS[command].values():
        owner = command
        if option.startswith("flowratio "):
            _, owner, option = option.split()
        options = {name for parameter in COMMANDS[owner].params for name in parameter.opts}
        assert option in options, f"{command}: {option}"


def test_files_take_the_place_of_arguments() -> None:
    names = argument_names("mi", {"X": "x.csv", "Y": "-", "Z": None})
    assert (names["X"], names["Y"], names["Z"]) == ("x.csv", "standard input", "--given")


def test_methods_are_those_of_the_registry() -> None:
    names = method_names()
    assert {"auto", "logistic", "mlp-in-z"} <= {*names}
    ratios = getattr(registry, "RATIOS", None)
    assert ratios is None or names == [name.replace(" ", "-") for name in ratios]
    help_text = {one.name: one.help for one in COMMANDS["fit"].params}["method"]
    assert all(name in help_text for name in names)


def test_no_regular_expression_reads_an_error() -> None:
    source = Path(str(console.__file__)).read_text(encoding="utf-8")
    assert re.search(r"^import re\b|re\.(sub|match|search)", source, re.MULTILINE) is None


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_each_option_has_a_help_text(command: str) -> None:
    options = [one for one in COMMANDS[command].params if isinstance(one, click.Option) and one.name != "help"]
    assert [one.name for one in options if not one.help] == []


def test_tables_of_a_command_are_read_without_torch() -> None:
    """A misspelled column is reported before torch is loaded, which takes seconds."""
    read = "import sys, flowratio.cli.tables, flowratio.cli.headers"
    code = f"{read}; print('torch' in sys.modules, 'sklearn' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "False False\n"
    )
