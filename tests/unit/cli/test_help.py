"""Help: complete at every width, with `-h` and `--help`, and with every choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import typer.main

from flowratio.applications.divergences import KINDS
from flowratio.cli.app import app
from flowratio.cli.options import method_names
from flowratio_paper import NAMES, PRESETS

Run = Callable[..., tuple[int, str, str]]
COMMANDS: dict[str, Any] = dict(getattr(typer.main.get_group(app), "commands", {}))
CHOICES = [("fit", method_names()), ("divergence", KINDS), ("reproduce", [*NAMES, *PRESETS]), ("sample", ["p or q"])]


def help_of(run: Run, *words: str) -> str:
    """Return a help text without its line breaks, some of which are after a hyphen."""
    code, out, err = run(*words, "-h")
    assert (code, err) == (0, "")
    return " ".join(out.split()).replace("- ", "-")


@pytest.mark.parametrize("columns", ["50", "80", "120"])
def test_the_list_of_commands_is_complete(columns: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    text = help_of(run)
    for name, command in COMMANDS.items():
        first = command.help.partition("\n")[0]
        assert f" {name} {first}" in text
    assert "..." not in text.replace("[ARGS]...", "")
    assert max(map(len, run("--help")[1].splitlines())) <= int(columns)


@pytest.mark.parametrize("columns", ["50", "80", "120"])
@pytest.mark.parametrize("name", COMMANDS)
def test_help_texts_of_options_are_complete(name: str, columns: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    text = help_of(run, name)
    for option in COMMANDS[name].params:
        if not option.hidden:
            assert option.help.replace("- ", "-") in text
    assert run(name, "-h") == run(name, "--help")


@pytest.mark.parametrize(("name", "choices"), CHOICES)
def test_choices_are_listed(name: str, choices: list[str], run: Run) -> None:
    text = help_of(run, name)
    assert [choice for choice in choices if choice not in text] == []
