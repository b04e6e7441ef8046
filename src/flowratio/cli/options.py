"""The options that commands share, and their rules."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer


def _check_seed(seed: int) -> int:
    if not 0 <= seed < 2**63:
        raise typer.BadParameter("a seed is a whole number from 0 to 2**63 - 1")
    return seed


def _check_budget(budget: float) -> float:
    if not 0 < budget < float("inf"):
        raise typer.BadParameter("give seconds above 0, such as 60")
    return budget


def check_held_out(share: float) -> float:
    """Refuse what is no share."""
    if not 0 < share < 1:
        raise typer.BadParameter("give a share between 0 and 1, such as 0.2")
    return share


def check_power(gamma: float) -> float:
    """Refuse powers below 0."""
    if not 0 <= gamma < float("inf"):
        raise typer.BadParameter("give a power of 0 or more, such as 0.5; 1 keeps the weights as they are")
    return gamma


def check_cap(cap: float | None) -> float | None:
    """Refuse a largest weight that is not above 0."""
    if cap is not None and not cap > 0:
        raise typer.BadParameter("give the largest weight in units of the mean, above 0, such as 20")
    return cap


def _names(given: Sequence[str] | None) -> list[str] | None:
    """Split names at commas; one with a comma stands in double quotes."""
    if not given:
        return None
    found = [name for line in csv.reader(given, skipinitialspace=True) for name in line if name]
    if not found:
        raise typer.BadParameter("no column is named: give names with commas between them, such as age,income")
    return found


Seed = Annotated[int, typer.Option(callback=_check_seed, help="Whole number: the same gives the same result.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bars.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Columns = Annotated[
    list[str] | None, typer.Option(callback=_names, metavar="A,B", help="Use these columns, and no others.")
]
Exclude = Annotated[list[str] | None, typer.Option(callback=_names, metavar="A,B", help="Leave these columns out.")]
TableP = Annotated[str, typer.Argument(metavar="P", help="Rows of p, the numerator: CSV, Parquet, NPY, NPZ, or -.")]
TableQ = Annotated[str, typer.Argument(metavar="Q", help="Rows of q, the denominator.")]
Budget = Annotated[
    float,
    typer.Option(
        callback=_check_budget, metavar="SECONDS", help="Time for the automatic choice; the flow comes on top."
    ),
]
MethodHelp = "auto, or one ratio, such as logistic, boosting, mlp, kliep or mlp-in-z."


def check_choice(given: str, choices: Sequence[str], hint: str) -> None:
    """Refuse a name that is not among the choices, and say which is nearest."""
    if given not in choices:
        near = get_close_matches(given, choices, 1)
        words = f" Did you mean {near[0]}?" if near else ""
        raise typer.BadParameter(f"{given!r} is none of {', '.join(choices)}.{words}", param_hint=hint)


def check_folder(out: Path) -> None:
    """Make the folder and a file in it, before time is spent on what could not be written."""
    if out.exists() and not out.is_dir():
        raise typer.BadParameter(f"{out} is a file: give a folder, or the path of a new one", param_hint="--out")
    try:
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()
    except OSError as error:
        rule = "it must be a folder that can be written, or the path of a new one"
        raise typer.BadParameter(f"{out} does not serve ({error.strerror}): {rule}", param_hint="--out") from error


def check_standard_input(*files: str | None) -> None:
    """Refuse standard input in two places."""
    if files.count("-") > 1:
        raise typer.BadParameter("only one of the files can be standard input")
