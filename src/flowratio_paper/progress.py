"""Progress of an experiment on standard error: a bar in a terminal or a notebook, elsewhere one line a minute."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

from flowratio_paper.stages import count_stages

if TYPE_CHECKING:
    from rich.console import Console

_LINE_SECONDS = 60.0  # between two lines in a file or a pipe


def progress(total: int, name: str, verbose: bool, keep: Path) -> AbstractContextManager[Callable[[], object]]:
    """Return a context that yields a function to call after each task. The stages of long tasks are counted too.

    Parameters
    ----------
    total, name
        Number of tasks, and name of the experiment.
    verbose
        Whether to show anything.
    keep
        The folder of the stages.
    """
    if not verbose:
        return nullcontext(lambda: None)
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal or console.is_jupyter:
        return _bar(total, name, keep, console)
    return _lines(total, name, keep)


def _stages(keep: Path) -> str:
    n_stages = count_stages(keep)
    return f"stages done: {n_stages}" if n_stages else ""


@contextmanager
def _bar(total: int, name: str, keep: Path, console: Console) -> Iterator[Callable[[], object]]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Stages(ProgressColumn):
        def render(self, task: object) -> Text:
            return Text(_stages(keep))

    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), Stages())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(name, total=total)
        yield lambda: bar.advance(task)


@contextmanager
def _lines(total: int, name: str, keep: Path) -> Iterator[Callable[[], object]]:
    """Print a line at the start, and then one line a minute."""
    outcomes: list[None] = []  # an entry for each completed task
    end = Event()

    def write() -> None:
        text = ", ".join(filter(None, [f"{len(outcomes)}/{total} tasks", _stages(keep)]))
        sys.stderr.write(f"flowratio: {name}, {text}\n")
        sys.stderr.flush()

    def run() -> None:
        while not end.wait(_LINE_SECONDS):
            write()

    write()
    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        yield lambda: outcomes.append(None)
    finally:
        end.set()
        thread.join()
