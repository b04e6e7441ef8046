"""Progress bars on standard error. They show in a terminal or a notebook, not in files and pipes."""

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
    """Yield a function to call after each of `total` steps. `note` returns more text for the bar, at each drawing."""
    if not verbose:
        yield lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with bar(*columns, _text_column(lambda task: note())) as shown:
        task = shown.add_task(what, total=total)
        yield lambda: shown.advance(task)


@contextmanager
def uneven_progress(
    total: int, what: str, verbose: bool, seconds_left: Callable[[int], float]
) -> Iterator[Callable[[str], None]]:
    """Yield a function to call with the name of each step, before it. `seconds_left` is for this many steps, or inf."""
    if not verbose:
        yield lambda name: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

    left = _text_column(lambda task: "" if task.finished else in_words(seconds_left(int(task.remaining or 0))))
    with bar(BarColumn(), MofNCompleteColumn(), TextColumn(f"{what}{{task.description}}"), left) as shown:
        task, done = shown.add_task("", total=total), count()
        yield lambda name: shown.update(task, description=f", now {name}", completed=next(done), refresh=True)
        shown.update(task, description="", completed=total)


def bar(*columns: ProgressColumn) -> Progress:
    """Return a bar of these columns. It shows nothing outside a terminal or a notebook."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(*columns, console=console, disable=not (console.is_terminal or console.is_jupyter))


def _text_column(text: Callable[[Task], str]) -> ProgressColumn:
    """Return a column of a bar whose text is computed whenever the bar is drawn."""
    from rich.progress import ProgressColumn
    from rich.text import Text

    class TextColumn(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(text(task))

    return TextColumn()


def in_words(seconds: float) -> str:
    """Return the time left as text, such as 'about 1:01 left'. Empty if it is infinite."""
    if math.isinf(seconds):
        return ""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"about {hours}:{minutes:02}:{rest:02} left" if hours else f"about {minutes}:{rest:02} left"
