"""The options that commands share, their rules, and the option for each argument in Python."""

from __future__ import annotations

import ast
import csv
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

from typer import Argument, BadParameter, Option

import flowratio
from flowratio._support.wording import listed, nearest, quoted

if TYPE_CHECKING:
    from flowratio.tables.formats import TextFormat

_TABLES = {name: f"--{name}" for name in ("columns", "exclude", "decimal", "encoding")} | {
    "date_format": "--date-format"
}
_RATIO = {"ratio": "--method", "estimator": "--method", "classifier": "--method", "time_budget": "--budget"}
_SEED = {"random_state": "--seed"}
_OF_FIT = {argument: f"flowratio fit {option}" for argument, option in (_TABLES | _RATIO).items()}
# For each command, the option for an argument in Python: errors and warnings name the option.
OPTIONS: dict[str, Mapping[str, str]] = {
    "demo": _SEED,
    "fit": _TABLES | _RATIO | _SEED | {"n_folds": "--folds"},
    "score": {**_OF_FIT, "encoding": "--encoding", "gamma": "--temper", "largest": "--cap"}
    | {"scores_only": "--scores-only", "workers": "--workers"},
    "report": _OF_FIT | {"X_p": "--p", "X_q": "--q"},
    "test": _TABLES | _RATIO | _SEED | {"time_budget": "--method", "n_permutations": "--permutations"},
    "divergence": _TABLES | _RATIO | _SEED | {"kind": "--kind"},
    "mi": {**_TABLES, **_RATIO, **_SEED, "columns": "--exclude", "Z": "--given", "time_budget": "--method"}
    | {"x": "--x", "y": "--y", "given": "--given"},
    "sample": _OF_FIT | _SEED | {"n": "-n", "toward": "--toward"},
    "reproduce": {},
}


def argument_names(command: str, files: Mapping[str, str | None]) -> dict[str, str]:
    """Return what messages of a command call each argument: its option, or the file that was given for it."""
    names = {argument: "standard input" if path == "-" else path for argument, path in files.items() if path}
    return {**OPTIONS[command], **names}


def method_names() -> list[str]:
    """Return the names of ratios, with hyphens, from the source of the registry: help imports no scikit-learn."""
    path = Path(str(flowratio.__file__)).parent / "ratios" / "registry.py"
    for line in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.target.id == "RATIOS":
            keys = line.value.keys if isinstance(line.value, ast.Dict) else []
            return [str(key.value).replace(" ", "-") for key in keys if isinstance(key, ast.Constant)]
    raise LookupError(f"{path} has no table RATIOS.")


class TextOptions(NamedTuple):
    """How the text files of a command are written. None means: detect it."""

    decimal: str | None = None
    date_format: str | None = None
    encoding: str | None = None

    @property
    def format(self) -> TextFormat:
        from flowratio.tables.formats import TextFormat

        return TextFormat(cast("Any", self.decimal), self.date_format)


def rule(holds: Callable[[float], bool], text: str) -> Callable[[float | None], float | None]:
    """Return a check of a number, whose error is the text."""

    def check(value: float | None) -> float | None:
        if value is not None and not holds(value):
            raise BadParameter(text)
        return value

    return check


def names_in(lines: Sequence[str] | None) -> list[str] | None:
    """Split names at commas. A name with a comma stands in double quotes."""
    if not lines:
        return None
    names = [name for line in csv.reader(lines, skipinitialspace=True) for name in line if name]
    if not names:
        raise BadParameter("No column is named. Give names with commas between them, such as age,income.")
    return names


_check_seed = rule(lambda seed: 0 <= seed < 2**63, "Use an integer from 0 to 2**63 - 1.")
_check_budget = rule(lambda seconds: 0 < seconds < float("inf"), "Use seconds above 0, such as 60.")
_check_power = rule(lambda power: 0 <= power < float("inf"), "Use a power of 0 or more, such as 0.5.")
_check_cap = rule(lambda cap: 1 <= cap < float("inf"), "Use 1 or more, in units of the mean weight, such as 20.")

Seed = Annotated[
    int, Option(callback=_check_seed, metavar="N", help="Integer of 0 or more. The same seed gives the same result.")
]
Quiet = Annotated[bool, Option("--quiet", help="Show no progress.")]
AsJson = Annotated[bool, Option("--json", help="Print one JSON object instead of text.")]
Columns = Annotated[list[str] | None, Option(callback=names_in, metavar="A,B", help="Use only these columns.")]
Exclude = Annotated[list[str] | None, Option(callback=names_in, metavar="A,B", help="Leave out these columns.")]
ColumnsOfX = Annotated[
    list[str] | None,
    Option("--x", callback=names_in, metavar="A,B", help="Columns of X in one file. Without it, all others."),
]
ColumnsOfY = Annotated[
    list[str] | None, Option("--y", callback=names_in, metavar="A,B", help="Columns of Y in one file.")
]
Decimal = Annotated[str | None, Option(metavar="MARK", help="Decimal mark of numbers in text: . or ,")]
DateFormat = Annotated[str | None, Option(metavar="FORMAT", help="Date format of text, such as %m/%d/%Y or %d-%b-%y.")]
Encoding = Annotated[str | None, Option(metavar="NAME", help="Encoding of CSV and JSON files, such as latin-1.")]
KINDS = (
    "CSV, Parquet, Feather, JSON lines, Excel, NPY or NPZ. A file, a folder of parts, "
    "a pattern in quotes, or - for standard input"
)
TableP = Annotated[str, Argument(metavar="P", help=f"Rows of p, the numerator, such as the new data: {KINDS}.")]
TableQ = Annotated[str, Argument(metavar="Q", help="Rows of q, the denominator, such as the old data.")]
ModelFolder = Annotated[Path, Argument(metavar="MODEL", help="Folder that `flowratio fit` wrote.")]
RowsOut = Annotated[
    str, Option("--out", "-o", metavar="FILE", help="CSV or Parquet file, or - for CSV to standard output.")
]
FolderOut = Annotated[Path, Option("--out", "-o", metavar="FOLDER", help="Folder for all files.")]
Budget = Annotated[
    float, Option(callback=_check_budget, metavar="SECONDS", help="Time in which --method auto chooses a ratio.")
]
Folds = Annotated[
    int, Option(min=2, max=20, metavar="N", help="Folds of the checks: each row is scored by a fit without it.")
]
Power = Annotated[
    float, Option("--temper", callback=_check_power, metavar="GAMMA", help="Power of the weights, such as 0.5.")
]
Cap = Annotated[
    float | None, Option("--cap", callback=_check_cap, metavar="MAX", help="Largest weight, if the mean is 1.")
]
METHODS = ", ".join(method_names())
Method = Annotated[str, Option(metavar="NAME", help=f"Ratio: {METHODS}.")]


def check_one_of(value: str, choices: Sequence[str], hint: str) -> None:
    """Refuse a value that is not one of the choices, and suggest the nearest one."""
    if value not in choices:
        raise BadParameter(
            f"{quoted(value)} is not one of {', '.join(choices)}.{nearest(value, choices)}", param_hint=hint
        )


def check_variables(path_y: str | None, x: Sequence[str] | None, y: Sequence[str] | None) -> None:
    """Refuse one file without columns of Y, two files with columns, and a column that is in X and in Y."""
    if path_y is None and not y:
        problem = "Y is missing. Name columns of the file, such as --y spend, or give a second file."
        raise BadParameter(problem, param_hint="--y")
    if path_y is not None and (x or y):
        raise BadParameter(
            "They choose columns of one file. Leave them out, or give only one file.", param_hint="--x, --y"
        )
    both = [name for name in x or () if name in (y or ())]
    if both:
        problem = f"Both have {listed(both)}. Name each column once, in --x or in --y."
        raise BadParameter(problem, param_hint="--x, --y")


def check_folder(out: Path) -> None:
    """Create the folder and a file in it, before time is spent on results that could not be written."""
    if out.exists() and not out.is_dir():
        raise BadParameter(f"{out} is a file. Give a folder, or the path of a new one.", param_hint="--out")
    try:
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()
    except OSError as error:
        fault = f"Cannot write to {out} ({error.strerror}). Give a writable folder, or the path of a new one."
        raise BadParameter(fault, param_hint="--out") from error
