"""What the command line prints: one line for each error and warning, tables and JSON."""

from __future__ import annotations

import json
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Any, TextIO, cast

import typer

from flowratio._support.errors import ArgumentError, renamed
from flowratio._support.wording import LONGEST_PATH, shown

# the base class of all errors of the parser, which is in another module in each version of typer
_UsageError = cast("type[Exception]", typer.BadParameter.__mro__[1])
_EXPECTED = ("TrainingDiverged", "PanicException")  # by name, because their modules load torch and polars
_LONGEST_LINE = 2_000  # characters of an error or a warning: longer than each text of ours with a few long names
_RESUMED = ("score", "reproduce")  # commands that resume after a kill


def leave(run: Callable[[], int | None]) -> None:
    """Run a command line and exit with its code: 0, 2 after an error, 130 after Ctrl-C."""
    # with tables of usual size threads wait for each other longer than they compute
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without UTF-8 shows a question mark for an arrow
    code = 2
    try:
        code = run() or 0
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except BrokenPipeError:  # the reader has closed the pipe
        code = 0
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except _UsageError as error:
        say(_refusal(error))
    except OSError as error:
        # an error of ours has its whole text in `strerror`
        say(error.strerror if error.strerror and not error.filename else str(error))
    except BaseException as error:
        is_expected = isinstance(error, Exception) or type(error).__name__ in _EXPECTED
        if not is_expected or os.environ.get("FLOWRATIO_TRACEBACK"):
            raise
        say(_text(error))
    if code == 130:  # typer returns it too
        say(f"interrupted. Every file is unchanged or complete. {_way_on(sys.argv[1:])}")
    sys.exit(code)


def _way_on(words: Sequence[str]) -> str:
    if not words or words[0] not in _RESUMED:
        return "The same command starts again from the beginning."
    return f"The same command{' without --restart' * ('--restart' in words)} resumes."


def _text(error: BaseException) -> str:
    if isinstance(error, ValueError) or type(error).__name__ == _EXPECTED[0]:
        return str(error)
    rule = "This is a bug in flowratio. Report it with the output of the same command under FLOWRATIO_TRACEBACK=1."
    return f"{type(error).__name__}: {error}. {rule}"


def say(text: str) -> None:
    """Print one line to standard error. Control characters are escaped, and long arguments are shortened."""
    for word in sys.argv[1:]:
        if len(word) > LONGEST_PATH:
            text = text.replace(word, shown(word, LONGEST_PATH))
    print(f"flowratio: {shown(' '.join(text.split()), _LONGEST_LINE)}", file=sys.stderr)


def _refusal(error: Any) -> str:
    """Return what was typed, what the parser refuses, and which help to read."""
    command = error.ctx.command_path if error.ctx else "flowratio"
    text = error.format_message()
    return f"{shlex.join(sys.argv[1:])}: {text}{'' if text[-1:] in '.?' else '.'} See {command} --help."


@contextmanager
def messages(names: Mapping[str, str]) -> Iterator[None]:
    """Print each warning once, as one line. Warnings and errors name the option or file for each argument in Python."""
    lines: set[str] = set()

    def show(message: Warning | str, *_: Any) -> None:
        line = f"note: {renamed(message, names)}"
        if line not in lines:
            lines.add(line)
            say(line)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        try:
            yield
        except ArgumentError as error:
            raise ValueError(renamed(error, names)) from error


def command_line() -> str:
    """Return the command as it was typed."""
    return shlex.join(["flowratio", *sys.argv[1:]])


def print_result(result: Any, as_json: bool, file: TextIO | None = None) -> None:
    """Print a result as text, or as one JSON object: a dictionary or its `to_dict()`."""
    if as_json:
        result = json.dumps(result if isinstance(result, dict) else result.to_dict(), indent=1, allow_nan=False)
    print(result, file=file)
