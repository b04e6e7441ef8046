"""What the command line says: one line for each error and note, in the words of its options; tables and JSON."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO, cast

import typer

# the base of all that the parser refuses, which typer has kept in several places
_UsageError = cast("type[Exception]", typer.BadParameter.__mro__[1])


# what errors and warnings call a setting in Python, and what it is here
_EXCLUDE = {"mi": "", "score": " with `flowratio fit --exclude`", "report": " with `flowratio fit --exclude`"}
_OPTIONS = {
    r"`columns`": "`--columns`",
    r"`exclude`": "`--exclude`",
    r"`scores_only`": "`--scores-only`",
    r"`time_budget`": "`--budget`",
    r"`RULSIF`": "`--method rulsif`",
    r"`classifier='(\w+)'`": r"`--method \1`",
    r"`classifier`": "`--method`",
    r"`ratio` is <.*>,": "`--method` is",
    r"`ratio`": "`--method`",
    r"[Gg]ive a (lower `learning_rate`( than [^,]*)?|larger `max_iter`, or a larger `gap`)": "try another `--method`",
    r"at `max_epochs` = (\d+)(.*): a larger `max_epochs` may do better": r"after \1 epochs\2",
    r"Use `n_candidates` .*`replace=True`": "Draw fewer rows",
    r"`score`": "the score",
    r"`save`": "`flowratio fit`",
    r"`X_([pq])`": lambda found: found[1].upper(),
    r"^(note: )?`X` (?=has no column|holds)": r"\1The table ",
    r"column of `X`": "column",
    r"`Z` (?=has)": "`--given` ",
}


def leave(run: Callable[[], int | None]) -> None:
    """Run a command line, and leave with its exit code."""
    # at the size of most tables threads wait for each other longer than they compute
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    code = 2
    try:
        code = run() or 0
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except BrokenPipeError:  # whoever reads has enough
        code = 0
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except _UsageError as error:
        say(_refusal(error))
    except OSError as error:
        # words of our own stand alone in `strerror`
        say(error.strerror if error.strerror and not error.filename else str(error))
    except BaseException as error:
        # a panic of polars, which is no `Exception`, is no more to a user than any other error
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        if os.environ.get("FLOWRATIO_TRACEBACK"):
            raise
        known = isinstance(error, ValueError) or type(error).__name__ == "TrainingDiverged"  # its module loads torch
        words = "This should not happen: please report it, with what FLOWRATIO_TRACEBACK=1 shows."
        say(str(error) if known else f"{type(error).__name__}: {error}. {words}")
    if code == 130:
        resumed = sys.argv[1:2] in (["score"], ["reproduce"])
        line = "line without --restart" if resumed and "--restart" in sys.argv else "line"
        again = "goes on where it was" if resumed else "starts it again"
        say(f"interrupted: every file is as it was before, or complete. The same {line} {again}.")
    sys.exit(code)


def say(words: str) -> None:
    """Print a line to standard error."""
    print(f"flowratio: {_in_options(' '.join(words.split()), sys.argv[1:2])}", file=sys.stderr)


def _in_options(words: str, command: list[str]) -> str:
    """Write options for the settings that words for Python name.

    Examples
    --------
    >>> _in_options("`time_budget` is 0: give more", ["fit"]), _in_options("Drop it with `exclude`.", ["score"])
    ('`--budget` is 0: give more', 'Drop it with `flowratio fit --exclude`.')
    """
    words = words.replace(" with `exclude`", "".join(_EXCLUDE.get(name, " with `exclude`") for name in command))
    for pattern, option in _OPTIONS.items():
        words = re.sub(pattern, option, words)
    return words


def _refusal(error: Any) -> str:
    """Return what was typed, what the parser has against it, and where the rules are."""
    command = error.ctx.command_path if error.ctx else "flowratio"
    words = error.format_message()
    return f"{shlex.join(sys.argv[1:])}: {words}{'' if words[-1:] in '.?' else '.'} See {command} --help."


@contextmanager
def notes() -> Iterator[None]:
    """Say each warning in one line, when it comes, and once."""
    said: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in said:
            said.add(str(message))
            say(f"note: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield


def command_line() -> str:
    """Return the command as it was typed."""
    return shlex.join(["flowratio", *sys.argv[1:]])


def print_table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """Print cells in a frame."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*head)
    for line in lines:
        table.add_row(*line)
    Console().print(table)


def print_found(found: Any, as_json: bool) -> None:
    """Print an answer, as text or as JSON."""
    if as_json:
        print_json(found.to_dict())
    else:
        print(found)


def print_json(value: Any, to: TextIO | None = None) -> None:
    """Print one JSON object."""
    print(json.dumps(value, indent=1, allow_nan=False), file=to)
