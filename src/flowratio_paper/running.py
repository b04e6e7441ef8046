"""How an experiment is run: tasks in one or more processes, each result on disk at once, then tables and figures.

An experiment is a module with the names of `Experiment`. Its results are one JSON file with the settings, the command,
versions, the commit and the numbers of every task. A task that is in the file is not run again.
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
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from importlib import import_module
from importlib.metadata import version
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Protocol

from flowratio_paper.figure_style import style
from flowratio_paper.progress import progress
from flowratio_paper.reports import Report
from flowratio_paper.stages import Workspace, end_forgetting, forget, is_forgotten, replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Task = dict[str, Any]
_FORMAT = "flowratio experiment"


@dataclass(frozen=True)
class Outcome:
    """A task and its result.

    Parameters
    ----------
    task
        Plain values that distinguish it from the other tasks.
    result
        Numbers, texts, and lists of them.
    seconds
        Processor time, with stages that were on disk, and without the part of a stage that was killed.
    """

    task: Task
    result: dict[str, Any]
    seconds: float


class Experiment(Protocol):
    """What the module of an experiment has."""

    TITLE: str  # what it reproduces, in a line
    PRESETS: Mapping[str, Any]  # a dataclass of settings, with `seeds`, for "quick", "laptop" and "paper"

    def tasks(self, settings: Any) -> list[Task]:
        """Return all tasks, the quickest first."""
        ...

    def run(self, settings: Any, task: Task, workspace: Workspace) -> dict[str, Any]:
        """Run a task, in a process of its own or in this one. A long one records its stages in `workspace`."""
        ...

    def report(self, settings: Any, outcomes: list[Outcome]) -> Report:
        """Return tables and claims."""
        ...

    def draw(self, settings: Any, outcomes: list[Outcome], keep: Path) -> dict[str, Figure]:
        """Return the figures, by name. `keep` is the folder of the workspace."""
        ...


def experiment(name: str) -> Experiment:
    """Return the module of an experiment. Its name has hyphens where the file has underscores."""
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
    """Run the missing tasks of an experiment, and write its results, its tables and its figures.

    Parameters
    ----------
    name
        Name of the experiment.
    preset
        `"quick"`, `"laptop"` or `"paper"`.
    folder
        Folder of NAME-PRESET.json and the figures.
    seeds
        Number of repetitions. None for that of the preset or, with `report_only`, for that of the file.
    jobs
        Number of processes.
    restart
        Whether to forget existing results. Their file stays until there is a new result.
    report_only
        Whether to run nothing, and to write tables, verdicts and figures again from existing results of any commit.
    verbose
        Whether to show progress: a bar, or one line a minute if there is no terminal.
    """
    module, path = experiment(name), results_file(name, preset, folder)
    settings = module.PRESETS[preset]
    seeds = _seeds_of(path) if report_only and seeds is None else seeds
    settings = settings if seeds is None else replace(settings, seeds=seeds)
    about = {"experiment": name, "title": module.TITLE, "preset": preset, "settings": asdict(settings)}
    results, keep = ResultsFile(path, about), path.with_suffix("")
    if restart:
        forget(path)
    results.resume(of_any_commit=report_only)
    tasks = module.tasks(settings)
    missing = [task for task in tasks if not results.has(task)]
    if report_only and not path.exists():
        raise ValueError(f"{path} does not exist. Omit --report to run the experiment, or use another --out.")
    if report_only and missing:
        raise ValueError(f"{path} lacks {len(missing)} of {len(tasks)} tasks. Omit --report to run them.")
    with progress(len(missing), name, verbose and len(missing) > 0, keep) as step:
        for outcome in _each(name, settings, missing, keep, jobs):
            results.add(outcome)
            step()
    outcomes = [results.outcomes[_key(task)] for task in tasks]
    source = path if len(missing) < len(tasks) else None
    with _reading(source):
        report = module.report(settings, outcomes)
    results.write(report)
    return report, [path, *_draw(module, settings, outcomes, path, source)]


def _draw(module: Experiment, settings: Any, outcomes: list[Outcome], path: Path, source: Path | None) -> list[Path]:
    """Write the figures next to the results, and return their paths."""
    paths = []
    with style():
        with _reading(source):
            figures = module.draw(settings, outcomes, path.with_suffix(""))
        for part, figure in figures.items():
            paths.append(path.with_name(f"{path.stem}{f'-{part}' * bool(part)}.png"))
            with replacing(paths[-1]) as temporary:
                figure.savefig(temporary)
    return paths


@contextmanager
def _reading(path: Path | None) -> Iterator[None]:
    """Name the file whose results lack something. Without a file all results are new, and the error is a bug."""
    try:
        yield
    except (LookupError, TypeError, AttributeError) as error:
        if path is None:
            raise
        raise ValueError(
            f"{path} has results that cannot be read ({error!r}). Use --restart to run all tasks again, or another "
            "--out."
        ) from error


def results_file(name: str, preset: str, folder: Path) -> Path:
    """Return the path of the results of an experiment."""
    return folder / f"{name}-{preset}.json"


def _seeds_of(path: Path) -> int | None:
    """Return the number of repetitions in a file. None if it cannot be read: `ResultsFile` raises the error."""
    try:
        return int(json.loads(path.read_text())["settings"]["seeds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


class ResultsFile:
    """The results of an experiment on disk.

    Parameters
    ----------
    path
        The JSON file.
    about
        The experiment and its settings. Results of other settings, or of another commit, are refused.
    """

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path = path
        self.command = shlex.join(["flowratio", *sys.argv[1:]])
        self.about = json.loads(json.dumps({"format": _FORMAT, **about}))
        self.origin = {"command": self.command, "commit": commit(), "versions": versions()}
        self.reported_by = self.origin["commit"]
        self.outcomes: dict[str, Outcome] = {}

    def resume(self, of_any_commit: bool = False) -> None:
        """Read the file. Results of another commit, or forgotten ones, are read only to report them."""
        if not self.path.exists() or (is_forgotten(self.path) and not of_any_commit):
            return
        try:
            content = json.loads(self.path.read_text())
            outcomes = [Outcome(one["task"], one["result"], one["seconds"]) for one in content["runs"]]
            about = {name: content[name] for name in self.about}
            origin = {name: content[name] for name in self.origin}
            same_seeds = about["settings"]["seeds"] == self.about["settings"]["seeds"]
            about["settings"] = {**about["settings"], "seeds": self.about["settings"]["seeds"]}
            about["title"] = self.about["title"]  # its words may have changed
            # a task without a seed has all seeds in it
            by_key = {_key(one.task): one for one in outcomes if same_seeds or "seed" in one.task}
        except OSError as error:
            raise OSError(f"{self.path} cannot be read ({error.strerror}). Use another --out.") from error
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{self.path} is not a result of this experiment, or is damaged ({error!r}). Delete it to resume with "
                "the stages next to it, use --restart to run all tasks again, or use another --out."
            ) from error
        self._refuse_others(about)
        for name in ("commit", "versions"):
            if origin[name] != self.origin[name] and not of_any_commit:
                raise ValueError(
                    f"{self.path} has results of {name} {_listed(origin[name])}, but this is "
                    f"{_listed(self.origin[name])}. Use --restart to run all tasks again, or another --out."
                )
        self.outcomes, self.origin = by_key, origin

    def _refuse_others(self, about: dict[str, Any]) -> None:
        """Raise an error if a file is of another experiment, preset or settings than this run."""
        remedy = "Use --restart to run all tasks again, or another --out."
        for name in ("experiment", "preset"):
            if about.get(name) != self.about.get(name):
                raise ValueError(
                    f"{self.path} has results of the {name} {about[name]}, but this is {self.about[name]}. {remedy}"
                )
        if about != self.about:
            raise ValueError(f"{self.path} has results of other settings. {remedy}")

    def has(self, task: Task) -> bool:
        """Return whether there is a result of a task."""
        return _key(task) in self.outcomes

    def add(self, outcome: Outcome) -> None:
        """Add a result, here and on disk."""
        self.outcomes[_key(outcome.task)] = outcome
        self.origin["command"] = self.command  # a command that runs nothing is not the origin
        self.write(Report())
        end_forgetting(self.path)

    def write(self, report: Report) -> None:
        """Write the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        head = {**self.about, **self.origin, "reported_by": self.reported_by, **asdict(report)}
        runs = ",\n".join(f"  {json.dumps(asdict(one))}" for one in self.outcomes.values())  # a line each
        with replacing(self.path) as temporary:
            temporary.write_text(json.dumps(head, indent=1)[:-2] + f',\n "runs": [\n{runs}\n ]\n}}\n')


def _listed(origin: str | dict[str, str]) -> str:
    return origin if isinstance(origin, str) else ", ".join(f"{name} {number}" for name, number in origin.items())


def _key(task: Task) -> str:
    return json.dumps(task, sort_keys=True)


def _each(name: str, settings: Any, tasks: list[Task], keep: Path, jobs: int) -> Iterator[Outcome]:
    """Run tasks, and yield each outcome as soon as it is there."""
    calls = [(name, settings, task, keep, commit()) for task in tasks]
    if jobs == 1 or len(tasks) < 2:
        for call in calls:
            yield _run(*call)
        return
    with _processes(min(jobs, len(tasks))) as pool:
        for future in as_completed([pool.submit(_run, *call) for call in calls]):
            yield future.result()


@contextmanager
def _processes(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Yield processes that end at once if the block fails, or if this process is killed."""
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
    """End this process as soon as the one that started it has ended: a task may take hours."""
    parent = parent_process()
    if parent is not None:
        Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def _run(name: str, settings: Any, task: Task, keep: Path, of_commit: str) -> Outcome:
    """Run a task, unless the code of this process is not that of the commit: results would name the commit."""
    start, module, workspace = time.process_time(), experiment(name), Workspace(keep)
    if commit() != of_commit:
        raise ValueError(
            f"The package was changed. A process of --jobs has commit {commit()}, but the run began with {of_commit}. "
            "Undo the change to resume, or use --restart to run all tasks again."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a fit warns of shows in its numbers
        result = module.run(settings, task, workspace)
    return Outcome(task, result, round(time.process_time() - start + workspace.earlier_seconds, 3))


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that the numbers depend on."""
    names = ("flowratio", "numpy", "scipy", "scikit-learn", "torch")
    return {"python": sys.version.split()[0], **{name: version(name) for name in names}}


@lru_cache(maxsize=1)
def commit() -> str:
    """Return the commit that last changed the package, with a mark for later changes, or else the version.

    It is read once: what changes while a process runs is no part of that process.
    """
    sources = Path(__file__).parents[1]
    try:
        last = _git(sources, "log", "-1", "--format=%h", "--abbrev=12", "--", ".")
        changes = _git(sources, "diff", "HEAD", "--", ".")
    except (OSError, subprocess.SubprocessError):
        last, changes = "", ""
    if not last:  # no checkout, or one of another project
        return version("flowratio")
    return last + (f"-changed-{hashlib.sha256(changes.encode()).hexdigest()[:8]}" if changes else "")


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
