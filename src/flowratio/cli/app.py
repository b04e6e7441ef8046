"""The command line: parse, call, print.

The exit code is 0, or 2 after an error, with one line: what is wrong, what is allowed, what to do. It is 130 after
Ctrl-C. torch and scikit-learn are imported by the command that needs them, so that help comes at once.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast

import typer
from typer import Argument, BadParameter, Option

from flowratio import __version__
from flowratio._support.wording import in_percent
from flowratio.cli import options as opt
from flowratio.cli.console import command_line, leave, messages, print_result, say
from flowratio.cli.paths import check_paths
from flowratio.cli.tables import read_tables

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)

Command = TypeVar("Command", bound=Callable[..., None])

_SHARE_OF_CHOICE = 0.7  # of the budget of `fit`: the flow and the checks come after the automatic choice
_PAGES = (".html", ".htm")
_EXPERIMENTS = ", ".join(import_module("flowratio_paper").NAMES)  # by name: flowratio does not depend on it
_QUICK = "quick is a small problem that shows that everything runs. Do not compare its numbers with the paper."
_RATIOS = opt.METHODS.removesuffix(", auto")
_KINDS = "kl, reverse-kl, js, pearson, tv or hellinger"


def main() -> None:
    """Run the command line and exit with its code."""
    leave(lambda: app(prog_name="flowratio", standalone_mode=False))


def _command(name: str | None = None) -> Callable[[Command], Command]:
    """Register a function as a command. The list of commands has the first line of its docstring, in full."""

    def register(function: Command) -> Command:
        first = (function.__doc__ or "").partition("\n")[0]
        return app.command(name, short_help=first)(function)

    return register


def _version(wanted: bool) -> None:
    if wanted:
        print(f"flowratio {__version__}")
        raise typer.Exit


@app.callback(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
def _start(
    context: typer.Context,
    version: Annotated[bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Compare two files: find data drift, see which columns changed, and weight one file to match the other.

    Example: flowratio fit new.csv old.csv -o model && flowratio score model old.csv -o weights.csv
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


@_command()
def demo(
    out: opt.FolderOut = Path("flowratio-demo"),
    seed: opt.Seed = 0,
    rows: Annotated[int, Option(min=50, max=1_000_000, help="Rows of each table.", hidden=True)] = 3_000,
    quiet: opt.Quiet = False,
) -> None:
    """Find drift in two example files, weight one file to match the other, and write reports.

    It also runs the paper's example, and shows a case in which weights do not help. It takes less than a minute.

    Example: flowratio demo --out my-demo --seed 1
    """
    opt.check_folder(out)
    from flowratio.cli.demo import run_demo

    run_demo(out, rows, seed, not quiet)


@_command()
def fit(
    p: opt.TableP,
    q: opt.TableQ,
    out: Annotated[Path, Option("--out", "-o", metavar="MODEL", help="Folder for the model.")],
    method: opt.Method = "auto",
    budget: opt.Budget = 240.0,
    columns: opt.Columns = None,
    exclude: opt.Exclude = None,
    decimal: opt.Decimal = None,
    date_format: opt.DateFormat = None,
    encoding: opt.Encoding = None,
    folds: opt.Folds = 5,
    no_flow: Annotated[
        bool, Option("--no-flow", help="Train no extra flow. This is faster, but `sample` needs a flow.")
    ] = False,
    force: Annotated[bool, Option("--force", help="Replace the model if the folder already has one.")] = False,
    seed: opt.Seed = 0,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
) -> None:
    """Fit the density ratio r = p/q of two files, name the columns that changed, and check the fit.

    Columns may hold numbers, text, dates and missing values. `score`, `report` and `sample` use the model folder.

    Example: flowratio fit new.csv old.csv -o model --budget 60 --exclude id
    """
    text = opt.TextOptions(decimal, date_format, encoding)
    with messages(opt.argument_names("fit", {"X_p": p, "X_q": q})):
        check_paths(tables=[p, q], new_model=out, force=force)
        P, Q = read_tables([p, q], columns, exclude, text)
        from flowratio.cli.fit_text import answers, details
        from flowratio.cli.inputs import column_kinds, named_method
        from flowratio.report.model import fit_tables
        from flowratio.report.steps import score_command, shell_word

        ratio = named_method(method, budget if no_flow else _SHARE_OF_CHOICE * budget)
        model = fit_tables(
            P,
            Q,
            ratio,
            n_folds=folds,
            flow=not no_flow,
            seed=seed,
            files=(p, q),
            text_format=text.format,
            encoding=encoding,
            command=command_line(),
            verbose=not quiet,
        )
        model.save(out)
    if as_json:
        parts = {name: model.evidence[name] for name in ("origin", "diagnosis", "candidates")}
        print_result({"model": str(out), **parts}, as_json)
        return
    print(answers(model.evidence), end="\n\n")
    print(details(model.evidence))
    if model.ratio.encoder_ is not None:
        print(column_kinds(model.ratio.encoder_))
    if hasattr(model.ratio, "results_"):  # of an AutoRatio
        print(f"{model.ratio.results_.table()}\n{model.ratio.results_.on_flow}")  # the rest is with the verdict above
    print(f"\nmodel: {out}\nNext: flowratio report {shell_word(str(out))} -o report.html")
    print(f"      {score_command({**model.evidence['origin'], 'model': str(out)})}")


@_command()
def score(
    model: opt.ModelFolder,
    data: Annotated[str, Argument(metavar="DATA", help=f"Rows: {opt.KINDS}.")],
    out: opt.RowsOut = "-",
    gamma: opt.Power = 1.0,
    largest: opt.Cap = None,
    scores_only: Annotated[bool, Option("--scores-only", help="Leave out the columns of DATA.")] = False,
    encoding: opt.Encoding = None,
    workers: Annotated[
        int, Option(min=1, max=64, metavar="N", help="Number of batches to score at the same time.")
    ] = 2,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
) -> None:
    """Add the columns log_ratio and weight to each row of a file.

    log_ratio is log r in nats. weight is r divided by the mean of r over the rows of DATA, so its mean is 1. With
    --temper and --cap, weight uses the tempered and capped r.

    Weights of separately scored files are not comparable, because each file has its own mean. To compare rows of
    several files, score one file with all rows, or use log_ratio.

    The file may be of any size. Rows keep their order. If the run is killed, the same command resumes.

    Example: flowratio score model old.parquet -o weights.parquet
    """
    with messages(opt.argument_names("score", {})):
        check_paths(tables=[data], model=model, out=out)
        from flowratio.diagnostics.verdict import Verdict
        from flowratio.report.evidence import verdict_in
        from flowratio.report.model import load_ratio
        from flowratio.storage.scoring import score_file

        if verdict_in(model) == Verdict.DO_NOT_USE.value:
            reasons = f"See the reasons with flowratio report {shlex.quote(str(model))}."
            say(f"note: The verdict on {model} is 'do not use'. {reasons}")
        scores = score_file(
            load_ratio(model),
            data,
            out,
            model_folder=model,
            gamma=gamma,
            largest=largest,
            scores_only=scores_only,
            encoding=encoding,
            workers=workers,
            verbose=not quiet,
        )
    if as_json or out != "-" or not quiet:
        print_result(scores, as_json, sys.stderr if out == "-" else sys.stdout)  # standard output is for the rows


@_command()
def report(
    model: opt.ModelFolder,
    out: Annotated[Path, Option("--out", "-o", metavar="FILE", help="HTML file.")] = Path("report.html"),
    p: Annotated[str | None, Option("--p", metavar="P", help="Other rows of p for the checks. Needs --q.")] = None,
    q: Annotated[str | None, Option("--q", metavar="Q", help="Other rows of q for the checks. Needs --p.")] = None,
) -> None:
    """Write one HTML page on a model: what changed, and whether to use the weights.

    The page needs no network. It shows the checks of `fit`, or checks on other rows with --p and --q.

    Example: flowratio report model -o report.html
    """
    if (p is None) != (q is None):
        raise BadParameter("Give rows of both samples, or of none.", param_hint="--p, --q")
    with messages(opt.argument_names("report", {"X_p": p, "X_q": q})):
        check_paths(tables=[path for path in (p, q) if path is not None], model=model, out=str(out), endings=_PAGES)
        from flowratio.cli.inputs import parsed
        from flowratio.report.evidence import gather, read_evidence
        from flowratio.report.model import Model
        from flowratio.report.page import write_report

        if p is None or q is None:
            evidence = read_evidence(model)
        else:
            saved = Model.load(model)
            P, Q = parsed([p, q], read_tables([p, q], None, None, opt.TextOptions()), saved.ratio.encoder_)
            origin = {**saved.evidence["origin"], "command": command_line(), "file_p": p, "file_q": q}
            evidence = gather(saved.ratio, P, Q, featurizer=saved.featurizer, origin=cast("Any", origin))
        write_report(evidence, out)
    print(f"page: {out}")


@_command("test")
def compare(
    p: opt.TableP,
    q: opt.TableQ,
    method: Annotated[
        str | None, Option(metavar="NAME", help=f"Without it, a fast rank test. Otherwise a ratio: {_RATIOS}.")
    ] = None,
    permutations: Annotated[
        int, Option(min=1, metavar="N", help="Number of permutations. The smallest p-value is 1 / (N + 1).")
    ] = 200,
    columns: opt.Columns = None,
    exclude: opt.Exclude = None,
    decimal: opt.Decimal = None,
    date_format: opt.DateFormat = None,
    encoding: opt.Encoding = None,
    seed: opt.Seed = 0,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
) -> None:
    """Test whether two files have the same distribution, and name the columns that changed.

    Example: flowratio test new.csv old.csv --exclude id
    """
    if method == "auto":
        raise BadParameter("auto would choose again for each permutation. Name one ratio.", param_hint="--method")
    text = opt.TextOptions(decimal, date_format, encoding)
    with messages(opt.argument_names("test", {"X_p": p, "X_q": q})):
        check_paths(tables=[p, q])
        tables = read_tables([p, q], columns, exclude, text)
        from flowratio.applications.testing import two_sample_test
        from flowratio.cli.inputs import comparable, named_method
        from flowratio.report.steps import exclude_option

        ratio = None if method is None else named_method(method)
        (P, Q), left_out = comparable([p, q], tables, text)
        result = two_sample_test(P, Q, ratio, n_permutations=permutations, random_state=seed, verbose=not quiet)
    result = result.without(left_out)
    if as_json:
        print_result(result, as_json)
        return
    print(result.conclusion)
    if option := exclude_option(result.separating):
        print(f"Repeat with {' '.join(option)}.")
    if result.drivers.names:
        print(f"\n{result.drivers.text(p, q)}")


@_command()
def divergence(
    p: opt.TableP,
    q: opt.TableQ,
    kind: Annotated[str, Option(metavar="KIND", help=f"Divergence: {_KINDS}.")] = "kl",
    method: opt.Method = "auto",
    budget: opt.Budget = 60.0,
    columns: opt.Columns = None,
    exclude: opt.Exclude = None,
    decimal: opt.Decimal = None,
    date_format: opt.DateFormat = None,
    encoding: opt.Encoding = None,
    seed: opt.Seed = 0,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
) -> None:
    """Estimate a divergence: how much the distributions of two files differ.

    Example: flowratio divergence new.csv old.csv --kind js --method boosting
    """
    text = opt.TextOptions(decimal, date_format, encoding)
    with messages(opt.argument_names("divergence", {"X_p": p, "X_q": q})):
        check_paths(tables=[p, q])
        tables = read_tables([p, q], columns, exclude, text)
        from flowratio.applications import divergences
        from flowratio.cli.inputs import comparable, named_method

        opt.check_one_of(kind.lower(), [*divergences.KINDS], "--kind")
        ratio = named_method(method, budget)
        (P, Q), left_out = comparable([p, q], tables, text)
        measure = cast("Any", kind.lower())
        result = divergences.divergence(P, Q, measure, ratio=ratio, random_state=seed, verbose=not quiet)
    print_result(left_out.added_to(result), as_json)


@_command()
def mi(
    x: Annotated[str, Argument(metavar="X", help=f"Rows of X, or one table with X and Y: {opt.KINDS}.")],
    y: Annotated[str | None, Argument(metavar="Y", help="Rows of Y, in the same order. Not with --y.")] = None,
    x_columns: opt.ColumnsOfX = None,
    y_columns: opt.ColumnsOfY = None,
    given: Annotated[
        str | None, Option(metavar="Z", help="Columns of Z in one file, or a file, for I(X; Y | Z).")
    ] = None,
    method: opt.Method = "auto",
    exclude: opt.Exclude = None,
    decimal: opt.Decimal = None,
    date_format: opt.DateFormat = None,
    encoding: opt.Encoding = None,
    seed: opt.Seed = 0,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
) -> None:
    """Estimate the mutual information of columns of one file, or of two files whose rows belong together.

    Example: flowratio mi data.csv --x age,income --y spend
    """
    opt.check_variables(y, x_columns, y_columns)
    text = opt.TextOptions(decimal, date_format, encoding)
    paths = [path for path in (x, y) if path is not None]
    files = {"X": x, "Y": y, "Z": given} if y else {"X": "--x", "Y": "--y"}
    with messages(opt.argument_names("mi", files)):
        check_paths(tables=paths if given is None or y_columns else [*paths, given])
        from flowratio.cli import headers

        z_columns = headers.columns_given(given, x, exclude, encoding) if given and y_columns else None
        paths = paths if given is None or z_columns else [*paths, given]
        check_paths(tables=paths)
        headers.check_columns(paths, {"x": x_columns, "y": y_columns, "given": z_columns}, exclude, encoding)
        tables = read_tables(paths, None, exclude, text)
        from flowratio.applications.information import mutual_information
        from flowratio.cli.inputs import divided, named_method, result_names_identifiers, variable

        ratio = None if method == "auto" else named_method(method)  # without a ratio: copulas and their corrections
        if y_columns:
            parts = divided(x, tables[0], x_columns, y_columns, z_columns)
            paths, tables = [x] * len(parts) + paths[1:], [*parts, *tables[1:]]
        chosen = map(bool, (x_columns, y_columns, z_columns))  # a choice may name an identifier
        inputs = [variable(*one, text) for one in zip(paths, tables, "XYZ", chosen, strict=False)]
        with result_names_identifiers():
            values = [value for value, _ in inputs]
            result = mutual_information(*values, ratio=ratio, random_state=seed, verbose=not quiet)
        for _, left_out in inputs:
            result = left_out.added_to(result)
    print_result(result, as_json)


@_command()
def sample(
    model: opt.ModelFolder,
    n: Annotated[int, Option("-n", min=1, metavar="N", help="Number of rows.")] = 1000,
    toward: Annotated[
        Literal["p", "q"], Option(metavar="SAMPLE", help="Sample that the new rows resemble: p or q.")
    ] = "p",
    out: opt.RowsOut = "-",
    seed: opt.Seed = 0,
    quiet: opt.Quiet = False,
) -> None:
    """Draw new rows that resemble p or q.

    The rows come from the normalizing flow of the model, by sampling-importance-resampling.

    Example: flowratio sample model -n 500 --toward p -o new-rows.csv
    """
    with messages(opt.argument_names("sample", {})):
        check_paths(model=model, out=out)
        from flowratio.report.model import Model
        from flowratio.storage.writing import for_pandas, write_table

        table, draws = Model.load(model).sample(n, toward, seed=seed, verbose=not quiet)
        write_table(iter([table]), out, for_pandas(table))
    if out != "-":
        print(f"{n} rows toward {toward}: {out}\n{in_percent(draws.unique_share)} of the rows are distinct.", end=" ")
        ess = f"an effective sample size of {draws.effective_sample_size:.0f}"
        print(f"They were drawn from {len(draws.log_w)} candidates with {ess}.")


@_command()
def reproduce(
    name: Annotated[str, Argument(metavar="NAME", help=f"Experiment: {_EXPERIMENTS} or all.")],
    preset: Annotated[
        str,
        Option(metavar="SIZE", help="Size of the experiment: quick, laptop (up to an hour) or paper (up to a week)."),
    ] = "quick",
    seeds: Annotated[int | None, Option(min=1, metavar="N", help="Number of repetitions.")] = None,
    jobs: Annotated[int, Option(min=1, max=256, metavar="N", help="Number of processes.")] = 2,
    out: opt.FolderOut = Path("results"),
    restart: Annotated[bool, Option("--restart", help="Start from the beginning, not from earlier results.")] = False,
    report: Annotated[
        bool, Option("--report", help="Run nothing. Write tables and figures of earlier results again.")
    ] = False,
    quiet: opt.Quiet = False,
) -> None:
    """Run an experiment of the paper, and compare its results with the paper's numbers.

    Each result is written as soon as it is there. If the run is killed, the same command resumes.

    Example: flowratio reproduce mixtures --preset quick
    """
    paper = import_module("flowratio_paper")  # by name: flowratio does not depend on it
    opt.check_one_of(name, (*paper.NAMES, "all"), "NAME")
    opt.check_one_of(preset, paper.PRESETS, "--preset")
    opt.check_folder(out)
    if restart and report:
        raise ValueError("--restart deletes earlier results, and --report needs them. Give only one of the two.")
    runs, stages = import_module("flowratio_paper.running"), import_module("flowratio_paper.stages")
    experiments = paper.NAMES if name == "all" else (name,)
    for one in experiments if restart else ():  # all at once: without --restart the same command resumes none of them
        stages.forget(runs.results_file(one, preset, out))
    for one in experiments:
        result, paths = runs.reproduce(one, preset, out, seeds=seeds, jobs=jobs, report_only=report, verbose=not quiet)
        print(runs.experiment(one).TITLE)
        if preset == "quick":
            print(_QUICK)
        print(f"{result}\n{' '.join(map(str, paths))}", flush=True)


if __name__ == "__main__":
    main()
