"""Progress bars for what takes long, on standard error, if asked for and if somebody looks: not in files and pipes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, Task


@contextmanager
def progress(
    total: int, what: str, verbose: bool, note: Callable[[], str] = lambda: ""
) -> Iterator[Callable[[], None]]:
    """Yield a function to call after each of so many steps.

    Parameters
    ----------
    total
        Number of steps.
    what
        What they are.
    verbose
        Whether to show anything.
    note
        Returns what else to say, and is asked whenever the bar is drawn.
    """
    if not verbose:
        yield lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    words, told = TextColumn("{task.description}"), _told(lambda task: note())
    with bar(words, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), told) as shown:
        task = shown.add_task(what, total=total)
        yield lambda: shown.advance(task)


@contextmanager
def uneven_progress(
    total: int, what: str, verbose: bool, seconds_left: Callable[[int], float]
) -> Iterator[Callable[[str], None]]:
    """Yield a function to call with the name of each step before it: for steps of which some take far longer.

    Parameters
    ----------
    total
        Number of steps.
    what
        What they are, in the plural.
    verbose
        Whether to show anything.
    seconds_left
        Returns about how many seconds so many steps will take, of which the first is at work; infinity if nobody knows.
    """
    if not verbose:
        yield lambda name: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

    words = TextColumn(f"{what}{{task.description}}")
    left = _told(lambda task: "" if task.finished else in_words(seconds_left(int(task.remaining or 0))))
    with bar(BarColumn(), MofNCompleteColumn(), words, left) as shown:
        task, done = shown.add_task("", total=total), count()
        yield lambda name: shown.update(task, description=f", now {name}", completed=next(done), refresh=True)
        shown.update(task, description="", completed=total)


def bar(*columns: ProgressColumn) -> Progress:
    """Return a bar of these columns, which shows nothing where nobody looks."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(*columns, console=console, disable=not (console.is_terminal or console.is_jupyter))


def _told(words: Callable[[Task], str]) -> ProgressColumn:
    """Return a column of a bar that asks what to say whenever it is drawn."""
    from rich.progress import ProgressColumn
    from rich.text import Text

    class Told(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(words(task))

    return Told()


def in_words(seconds: float) -> str:
    """Write how long something will take.

    Examples
    --------
    >>> in_words(61.2), in_words(3725), in_words(-1), in_words(math.inf)
    ('about 1:01 left', 'about 1:02:05 left', 'about 0:00 left', '')
    """
    if math.isinf(seconds):
        return ""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"about {hours}:{minutes:02}:{rest:02} left" if hours else f"about {minutes}:{rest:02} left"
