from __future__ import annotations

import shlex
import subprocess

import pytest

from flowratio._support.wording import shown
from flowratio.report.names import MAX_LENGTH, file_names
from flowratio.report.steps import score_command, shell_word


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain name é 日本", "plain name é 日本"),
        ("a\x1b[31m\tb\n", r"a\x1b[31m\tb\n"),
        ("a\u202eb\u2028", r"a\u202eb\u2028"),
        ("می\u200cخواهم", "می\u200cخواهم"),
    ],
)
def test_control_characters_are_escaped(name: str, text: str) -> None:
    assert shown(name, MAX_LENGTH) == text


@pytest.mark.parametrize("name", ["x" * 10_000 + "end", "\x00" * 5_000 + "end", "a" * 79 + "\nend"])
def test_long_names_are_shortened(name: str) -> None:
    text = shown(name, MAX_LENGTH)
    assert len(text) == MAX_LENGTH
    assert "…" in text
    assert text.endswith("end")


def test_files_are_named_without_folders_if_they_differ() -> None:
    assert file_names({"file_p": "a/new.csv", "file_q": "b/old.csv"}) == ("new.csv", "old.csv")
    assert file_names({"file_p": "a/x.csv", "file_q": "b/x.csv"}) == ("a/x.csv", "b/x.csv")


@pytest.mark.parametrize("name", ["plain.csv", "my file's.csv", "a\n\x1b\\'b\u202e.csv", "é $HOME `x`.csv"])
def test_bash_reads_a_quoted_name(name: str) -> None:
    text = shell_word(name)
    assert text.replace("é", "e").isprintable()
    printed = subprocess.run(["bash", "-c", f"printf %s {text}"], capture_output=True, check=True).stdout
    assert printed.decode() == name


def test_command_has_the_folder_of_the_model() -> None:
    origin = {"file_q": "my old.csv", "model": "runs/my model"}
    assert shlex.split(score_command(origin)) == [
        *("flowratio", "score", "runs/my model", "my old.csv", "-o", "weights.csv"),
    ]
