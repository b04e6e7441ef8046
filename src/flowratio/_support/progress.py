"""Progress on standard error: a bar in a terminal, a line of text in a notebook, elsewhere one line a minute."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import count
from threading import Event, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_START = time.monotonic()
_LINE_SECONDS = 60.0  # between two lines in a file or a pipe, counted from the start of the process
_NOTEBOOK_SECONDS = 1.0  # between two states of the line in a notebook
_SHORTEST = 2.0  # seconds that a task has taken before a line is printed
_BAR_WIDTH = 10  # leaves 39 characters of text on a line of 50


@dataclass
class Steps:
    """The number of steps of a task, and how many are completed."""

    total: int
    what: str  # a plural noun, such as "folds"
    expected_left: Callable[[int], float] | None = None  # seconds for this many steps. None for those of earlier steps
    completed: int = 0
    note: str = ""
    start: float = field(default_factory=time.monotonic)

    def advance(self) -> None:
        self.completed += 1

    def seconds(self) -> float:
        return time.monotonic() - self.start

    def seconds_left(self) -> float:
        """Return the expected time of the other steps, or infinity if it is not known."""
        left = self.total - self.completed
        if self.expected_left is not None:
            return self.expected_left(left)
        return self.seconds() * left / self.completed if self.completed else math.inf

    def __str__(self) -> str:
        left = in_words(self.seconds_left()) if self.completed < self.total else ""
        return ", ".join(filter(None, [f"{self.completed}/{self.total} {self.what}", left, self.note]))


@contextmanager
def progress(total: int, what: str, verbose: bool) -> Iterator[Callable[[], None]]:
    """Yield a function to call after each of `total` steps."""
    steps = Steps(total, what)
    with display(steps, verbose):
        yield steps.advance


@contextmanager
def uneven_progress(
    total: int, what: str, verbose: bool, seconds_left: Callable[[int], float]
) -> Iterator[Callable[[str], None]]:
    """Yield a function to call with the name of each step, before it. `seconds_left` is for this many steps, or inf."""
    steps, done = Steps(total, what, seconds_left), count()
    with display(steps, verbose) as refresh:

        def begin(name: str) -> None:
            steps.completed, steps.note = next(done), f"now {name}"
            refresh()

        yield begin
        steps.completed, steps.note = total, ""


def display(steps: Steps, verbose: bool) -> AbstractContextManager[Callable[[], None]]:
    """Return a context that shows the steps until it ends. It yields a function that shows their state at once."""
    if not verbose:
        return nullcontext(lambda: None)
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_jupyter:  # the bar of rich needs another package there
        return _notebook_line(steps)
    return _bar(steps, console) if console.is_terminal else _lines(steps)


@contextmanager
def _bar(steps: Steps, console: Console) -> Iterator[Callable[[], None]]:
    from rich.live import Live

    with Live(
        get_renderable=lambda: _row(steps, console.width), console=console, refresh_per_second=5, transient=True
    ) as live:
        yield live.refresh


def _row(steps: Steps, width: int) -> Table:
    """Return a bar and its text. The text is cut at the edge of the terminal."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    text = Text(str(steps))
    text.truncate(width - _BAR_WIDTH - 1, overflow="ellipsis")
    row = Table.grid(padding=(0, 1, 0, 0))
    row.add_row(ProgressBar(steps.total, steps.completed, _BAR_WIDTH), text)
    return row


@contextmanager
def _lines(steps: Steps) -> Iterator[Callable[[], None]]:
    """Print a line whenever a minute of the process is over, so that many short tasks print no more than a long one."""

    def wait() -> float:
        return _LINE_SECONDS - (time.monotonic() - _START) % _LINE_SECONDS

    with _repeated(lambda: _write(f"flowratio: {steps}\n"), steps, wait):
        yield lambda: None


@contextmanager
def _notebook_line(steps: Steps) -> Iterator[Callable[[], None]]:
    """Write one line again and again, from its start on."""
    widths = [0]

    def write() -> None:
        widths.append(len(str(steps)))
        _write(f"\r{steps!s:<{max(widths)}}")

    with _repeated(write, steps, lambda: _NOTEBOOK_SECONDS):
        yield lambda: None
    if len(widths) > 1:
        write()
        _write("\n")


@contextmanager
def _repeated(write: Callable[[], None], steps: Steps, wait: Callable[[], float]) -> Iterator[None]:
    """Call a function in another thread again and again, each time after a wait."""
    end = Event()

    def run() -> None:
        while not end.wait(wait()):
            if steps.seconds() >= _SHORTEST:
                write()

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def in_words(seconds: float) -> str:
    """Return the time left as text, such as 'about 1:01 left'. Empty if it is infinite."""
    if math.isinf(seconds):
        return ""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"about {hours}:{minutes:02}:{rest:02} left" if hours else f"about {minutes}:{rest:02} left"
