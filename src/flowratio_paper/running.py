"""How an experiment is run: tasks in one or more processes, each result on disk at once, then table and figure.

An experiment is a module with the names of `Experiment`. Its results are one JSON file, which holds the settings, the
command, versions, the commit and every run's numbers: what is there is not run again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from importlib.metadata import version
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Protocol

from flowratio._support.atomic import replacing
from flowratio._support.progress import progress
from flowratio_paper.stages import earlier_seconds, end_forgetting, forget, is_forgotten

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Task = dict[str, Any]
_FORMAT = "flowratio experiment"


@dataclass(frozen=True)
class Done:
    """A task and what came of it.

    Parameters
    ----------
    task
        What was run: plain values that tell it from the other tasks.
    result
        Numbers, texts, and lists of them.
    seconds
        Of processor time that it took, with stages that were on disk; not what a stage took until it was killed.
    """

    task: Task
    result: dict[str, Any]
    seconds: float


@dataclass(frozen=True)
class Claim:
    """Something that the paper says, and whether it holds here.

    Parameters
    ----------
    words
        The claim.
    holds
        Whether it does; None if it cannot be told.
    measured
        The numbers that say so.
    """

    words: str
    holds: bool | None
    measured: str

    def __str__(self) -> str:
        return f"{ {True: 'yes', False: 'NO', None: 'cannot be told'}[self.holds] }: {self.words} ({self.measured})"


@dataclass(frozen=True)
class Table:
    """Lines beside the paper's numbers.

    Parameters
    ----------
    title
        What it shows.
    head
        Names of the columns.
    lines
        Cells, as texts.
    """

    title: str
    head: Sequence[str]
    lines: Sequence[Sequence[str]]

    def __str__(self) -> str:
        rows = [[str(cell) for cell in line] for line in (self.head, *self.lines)]
        widths = [max(len(row[k]) for row in rows) for k in range(len(self.head))]
        text = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([self.title, *text])

    def markdown(self) -> str:
        """Return the same for a page."""
        rows = [self.head, ["---"] * len(self.head), *self.lines]
        return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)


@dataclass
class Report:
    """What the runs of an experiment come to.

    Parameters
    ----------
    tables
        Beside the paper's numbers.
    claims
        With verdicts.
    """

    tables: list[Table] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [str(table) for table in self.tables]
        return "\n\n".join([*parts, "\n".join(str(claim) for claim in self.claims)]).strip()


class Experiment(Protocol):
    """What the module of an experiment has."""

    TITLE: str  # what it reproduces, in a line
    PRESETS: Mapping[str, Any]  # a dataclass of settings, with `seeds`, for "quick", "laptop" and "paper"

    def tasks(self, settings: Any) -> list[Task]:
        """Return what is to be run, the quickest first."""
        ...

    def run(self, settings: Any, task: Task, keep: Path) -> dict[str, Any]:
        """Run a task, in a process of its own or in this one; `keep` is a folder for checkpoints and images."""
        ...

    def report(self, settings: Any, done: list[Done]) -> Report:
        """Return tables and verdicts of what is done so far."""
        ...

    def draw(self, settings: Any, done: list[Done], keep: Path) -> dict[str, Figure]:
        """Return the figures, by name."""
        ...


def experiment(name: str) -> Experiment:
    """Return the module of an experiment; its name has hyphens where the file has underscores."""
    return import_module(f"flowratio_paper.{name.replace('-', '_')}")  # pyright: ignore[reportReturnType]


def reproduce(
    name: str,
    preset: str,
    folder: Path,
    *,
    seeds: int | None = None,
    jobs: int = 1,
    restart: bool = False,
    report_only: bool = False,
    verbose: bool = True,
) -> tuple[Report, list[Path]]:
    """Run an experiment, or what is left of it, and write its results, its tables and its figures.

    Parameters
    ----------
    name
        Of the experiment.
    preset
        `"quick"`, `"laptop"` or `"paper"`.
    folder
        Where NAME-PRESET.json and the figures go.
    seeds
        How often everything is repeated; None for what the preset says, or, to report, for what there is.
    jobs
        Processes.
    restart
        Whether to forget results that are there; the file stays until there is a new one.
    report_only
        Whether to run nothing, and to write tables, verdicts and figures again of runs that are there, whatever commit
        they are of.
    verbose
        Whether to show a progress bar.
    """
    found = experiment(name)
    path = results_file(name, preset, folder)
    settings = _settings(found, preset, _seeds_of(path) if report_only and seeds is None else seeds)
    results = Results(path, {"experiment": name, "title": found.TITLE, "preset": preset, "settings": asdict(settings)})
    keep = path.with_suffix("")  # a folder, of which only tasks that write files make use
    if restart:
        forget(path)
    results.resume(of_any_commit=report_only)
    wanted = found.tasks(settings)
    tasks = [task for task in wanted if not results.has(task)]
    if report_only and not path.exists():
        raise ValueError(f"{path} is not there: leave --report out to run the experiment, or give another --out.")
    if report_only and tasks:
        raise ValueError(f"{path} lacks {len(tasks)} of {len(wanted)} runs: leave --report out to run them.")
    with progress(len(tasks), name, verbose and len(tasks) > 0, lambda: _stages_of(keep)) as step:
        for done in _each(name, settings, tasks, keep, jobs):
            results.add(done)
            step()
    done = [results.done[_key(task)] for task in wanted]
    source = path if len(tasks) < len(wanted) else None
    with _reading(source):
        report = found.report(settings, done)
    results.write(report)
    with _reading(source):
        figures = found.draw(settings, done, keep)
    paths = [path]
    for part, figure in figures.items():
        paths.append(folder / f"{name}-{preset}{f'-{part}' * bool(part)}.png")
        with replacing(paths[-1]) as temporary:
            figure.savefig(temporary, dpi=110)
    return report, paths


@contextmanager
def _reading(path: Path | None) -> Iterator[None]:
    """Name the file whose runs lack what is read of them; without one, as all runs are of this process, it is a bug."""
    try:
        yield
    except (LookupError, TypeError, AttributeError) as error:
        if path is None:
            raise
        raise ValueError(
            f"{path} has runs that cannot be read ({error!r}). Give --restart to run all of it again, or another --out."
        ) from error


def results_file(name: str, preset: str, folder: Path) -> Path:
    """Return where the results of an experiment are, or will be."""
    return folder / f"{name}-{preset}.json"


def _stages_of(keep: Path) -> str:
    """Return how many stages of long runs are on disk, for a bar that counts whole runs."""
    try:
        n = sum(path.suffix in (".json", ".npz") and path.stem != "run" for path in keep.glob("*/*"))
    except OSError:  # a run that is done removes its checkpoint just now
        return ""
    return f"stages done: {n}" if n else ""


def _settings(found: Experiment, preset: str, seeds: int | None) -> Any:
    settings = found.PRESETS[preset]
    return settings if seeds is None else replace(settings, seeds=seeds)


def _seeds_of(path: Path) -> int | None:
    """Return how often the experiment of a file was repeated; None if it cannot be told, as `Results` tells then."""
    try:
        return int(json.loads(path.read_text())["settings"]["seeds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


class Results:
    """The results of an experiment on disk.

    Parameters
    ----------
    path
        The JSON file.
    about
        What was run: results of other settings, or of another commit, are not gone on with.
    """

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path = path
        self.command = shlex.join(["flowratio", *sys.argv[1:]])
        self.about = json.loads(json.dumps({"format": _FORMAT, **about}))
        self.made = {"command": self.command, "commit": commit(), "versions": versions()}
        self.reported_by = self.made["commit"]
        self.done: dict[str, Done] = {}

    def resume(self, of_any_commit: bool = False) -> None:
        """Take over what is there; of another commit, or what is forgotten, only to report of it."""
        if not self.path.exists() or (is_forgotten(self.path) and not of_any_commit):
            return
        try:
            kept = json.loads(self.path.read_text())
            runs = [Done(one["task"], one["result"], one["seconds"]) for one in kept["runs"]]
            about, made = {name: kept[name] for name in self.about}, {name: kept[name] for name in self.made}
            same_seeds = about["settings"]["seeds"] == self.about["settings"]["seeds"]
            about["settings"] = {**about["settings"], "seeds": self.about["settings"]["seeds"]}
            about["title"] = self.about["title"]  # its words may have changed
            # a task without a seed has all of them in it
            done = {_key(one.task): one for one in runs if same_seeds or "seed" in one.task}
        except OSError as error:
            raise OSError(f"{self.path} cannot be read ({error.strerror}): give another --out.") from error
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{self.path} is no result of this experiment, or is damaged ({error!r}). Delete it to go on with the "
                "stages beside it, if there are any; or give --restart to run all of it again, or another --out."
            ) from error
        if about != self.about:
            raise ValueError(f"{self.path} has results of other settings. Give --restart, or another --out.")
        for what in ("commit", "versions"):
            if made[what] != self.made[what] and not of_any_commit:
                raise ValueError(
                    f"{self.path} has results of {what} {_told(made[what])}, and this is {_told(self.made[what])}. "
                    "Give --restart to run all of it again, or another --out."
                )
        self.done, self.made = done, made

    def has(self, task: Task) -> bool:
        """Return whether a task is done."""
        return _key(task) in self.done

    def add(self, done: Done) -> None:
        """Keep a result, here and on disk."""
        self.done[_key(done.task)] = done
        self.made["command"] = self.command  # a line that runs nothing has made nothing
        self.write(Report())
        end_forgetting(self.path)

    def write(self, report: Report) -> None:
        """Write the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        head = {**self.about, **self.made, "reported_by": self.reported_by}
        said = {"tables": [asdict(table) for table in report.tables], "claims": [asdict(one) for one in report.claims]}
        runs = ",\n".join(f"  {json.dumps(asdict(one))}" for one in self.done.values())  # a line each
        text = json.dumps({**head, **said}, indent=1)[:-2] + f',\n "runs": [\n{runs}\n ]\n}}\n'
        with replacing(self.path) as temporary:
            temporary.write_text(text)


def _told(made: str | dict[str, str]) -> str:
    return made if isinstance(made, str) else ", ".join(f"{name} {number}" for name, number in made.items())


def _key(task: Task) -> str:
    return json.dumps(task, sort_keys=True)


def _each(name: str, settings: Any, tasks: list[Task], keep: Path, jobs: int) -> Iterator[Done]:
    """Run tasks, and yield each when it is done."""
    if jobs == 1 or len(tasks) < 2:
        for task in tasks:
            yield _run(name, settings, task, keep, commit())
        return
    left = list(tasks)
    with _processes(jobs) as pool:
        pending: set[Future[Done]] = set()
        while left or pending:
            while left and len(pending) < jobs:
                pending.add(pool.submit(_run, name, settings, left.pop(0), keep, commit()))
            ready, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in sorted(ready, key=lambda one: one.exception() is not None):  # what is done is kept first
                yield future.result()


@contextmanager
def _processes(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Yield processes that end at once if what is done inside fails, or if this process is killed."""
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_end_with_parent)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in (pool._processes or {}).values():
            process.terminate()
        raise
    pool.shutdown()


def _end_with_parent() -> None:
    """End this process as soon as the one that started it is gone: a task of hours would go on for nobody."""
    parent = parent_process()
    if parent is not None:
        Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def _run(name: str, settings: Any, task: Task, keep: Path, of_commit: str) -> Done:
    """Run a task, unless this process has other code than the one whose commit is given: results would name that."""
    started, found = time.process_time(), experiment(name)
    if commit() != of_commit:
        raise ValueError(
            f"The package was changed: a process of --jobs has commit {commit()}, and the run began with {of_commit}. "
            "Undo the change to go on, or give --restart to run all of it again."
        )
    with warnings.catch_warnings(), earlier_seconds() as earlier:
        warnings.simplefilter("ignore")  # what a fit says shows in its numbers
        result = found.run(settings, task, keep)
    return Done(task, result, round(time.process_time() - started + sum(earlier.values()), 3))


def versions() -> dict[str, str]:
    """Return those of Python and of what the numbers rest on."""
    names = ("flowratio", "numpy", "scipy", "scikit-learn", "torch")
    return {"python": sys.version.split()[0], **{name: version(name) for name in names}}


@lru_cache(maxsize=1)
def commit() -> str:
    """Return the commit that last changed the package, with a mark for what differs from it since; else the version.

    It is asked for once: what is changed while a process runs has no part in what it runs.
    """
    package = Path(__file__).parents[1]
    try:
        last = _git(package, "log", "-1", "--format=%h", "--abbrev=12", "--", ".")
        changed = _git(package, "diff", "HEAD", "--", ".")
    except (OSError, subprocess.SubprocessError):
        last, changed = "", ""
    if not last:  # no checkout, or one of another project
        return version("flowratio")
    return last + (f"-changed-{hashlib.sha256(changed.encode()).hexdigest()[:8]}" if changed else "")


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
