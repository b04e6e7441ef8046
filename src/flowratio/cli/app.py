"""The command line: parse, call, print.

The exit code is 0; 2 with one line that says what came, the rule and the way out; or 130 after Ctrl-C. torch and
scikit-learn are imported by the command that needs them, so that help comes at once.
"""

from __future__ import annotations

import shlex
import sys
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from flowratio import __version__
from flowratio.cli.console import command_line, leave, notes, print_found, print_json, print_table
from flowratio.cli.options import (
    AsJson,
    Budget,
    Columns,
    Exclude,
    MethodHelp,
    Quiet,
    Seed,
    TableP,
    TableQ,
    check_cap,
    check_choice,
    check_folder,
    check_held_out,
    check_power,
    check_standard_input,
)
from flowratio_paper import NAMES, PRESETS

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

    from flowratio.tables.encoder import TableEncoder

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)

_OF_CHOICE = 0.7  # share of the budget of `fit` that the choice has: a flow, and the judgement, come after it
_QUICK = "quick: a small problem, to see that it runs; its numbers and verdicts are not to be held against the paper's."


class Sample(str, Enum):
    """One of the two samples."""

    p = "p"
    q = "q"


def main() -> None:
    """Run the command line and leave with its exit code."""
    leave(lambda: app(prog_name="flowratio", standalone_mode=False))


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"flowratio {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Density ratios r(x) = p(x) / q(x) from two samples, in the latent space of a normalizing flow.

    Example: flowratio fit new.csv old.csv -o model && flowratio score model old.csv -o weights.csv
    """
    del version
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure, the model and its page.")] = Path("flowratio-demo"),
    seed: Seed = 0,
    rows: Annotated[int, typer.Option(min=50, max=1_000_000, help="Rows of each sample.", hidden=True)] = 3_000,
    quiet: Quiet = False,
) -> None:
    """Estimate r = p/q for p = N(0, I) and q = N((3, 3), I), in x, in z and by the automatic choice.

    The ratio is known, so the table has errors against the truth. The folder gets ratios.png, the estimates against the
    truth; report.html, a page on the chosen ratio; and model/, for the other commands.

    Example: flowratio demo --out my-demo --seed 1
    """
    check_folder(out)
    from flowratio.cli.demo import NEAR, run_demo
    from flowratio.ratios.registry import silent

    print(f"p = N((0, 0), I), the numerator, and q = N((3, 3), I), the denominator: {rows} rows of each.", flush=True)
    with silent():  # p and q hardly overlap, as the page says
        estimates, model = run_demo(out, rows, seed, command_line(), not quiet)
    print_table(
        ("ratio", "mean squared error of log r", f"where |log r| < {NEAR:g}", "seconds"),
        [(one.name, f"{one.error:.3g}", f"{one.error_near:.3g}", f"{one.seconds:.1f}") for one in estimates],
    )
    print(model.ratio.ratio_.results_)
    print("The flow is invertible, so r(x) = p(x) / q(x) = p_Z(z) / q_Z(z): a ratio learned in z is the ratio in x.")
    print("Here log r is linear in x, and a linear ratio in x is hard to beat: the automatic choice finds it.")
    print(f"figure: {out / 'ratios.png'}\npage:   {out / 'report.html'}\nmodel:  {out / 'model'}")


@app.command()
def fit(
    p: TableP,
    q: TableQ,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the model.")],
    method: Annotated[str, typer.Option(help=MethodHelp)] = "auto",
    budget: Budget = 240.0,
    columns: Columns = None,
    exclude: Exclude = None,
    held_out: Annotated[
        float, typer.Option(callback=check_held_out, help="Share of the rows that judge the ratio, 2000 at most.")
    ] = 0.2,
    no_flow: Annotated[
        bool, typer.Option("--no-flow", help="Train no flow for a ratio that needs none: quicker, no `sample`.")
    ] = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Fit r = p/q to the rows of two files, and judge it on rows that were set aside.

    Columns may hold numbers, text, dates and gaps. The folder serves `score`, `report` and `sample`.

    Example: flowratio fit new.csv old.csv -o model --budget 60 --exclude id
    """
    from flowratio.ratios.auto.auto import named_ratio
    from flowratio.report.model import check_model_folder, fit_tables

    check_model_folder(out)
    ratio = named_ratio(method, budget if no_flow else _OF_CHOICE * budget)
    P, Q = _two_tables(p, q, columns, exclude)
    with notes():
        model = fit_tables(
            P,
            Q,
            ratio,
            held_out=held_out,
            flow=not no_flow,
            seed=seed,
            files=(p, q),
            command=command_line(),
            verbose=not quiet,
        )
        model.save(out)
    diagnosis = model.evidence["diagnosis"]
    if as_json:
        kept = {name: model.evidence[name] for name in ("made", "diagnosis", "candidates")}
        print_json({"model": str(out), **kept})
        return
    made = model.evidence["made"]
    print(
        f"r = p/q of p = {p} and q = {q}: fitted to {made['n_p']} and {made['n_q']} rows, judged on "
        f"{made['held_out_p']} and {made['held_out_q']} others, in {made['seconds']:.0f} seconds."
    )
    print(_described(model.ratio.encoder_))
    if hasattr(model.ratio.ratio_, "results_"):
        print(model.ratio.ratio_.results_)
    left, overlap = diagnosis["leftover"], diagnosis["overlap"]
    print(
        f"Held-out score {diagnosis['score']:.4f} ± {diagnosis['score_error']:.4f} nats (0: no difference, 0.69: told "
        f"apart without error); effective rows of q: {overlap['draws_q']:.0f} of {overlap['n_q']:.0f}; after weighting "
        f"a classifier is right in {left['auc']:.0%} of pairs (50 %: a guess)."
    )
    print(f"Verdict: {diagnosis['verdict']}.")
    for words in diagnosis["warnings"]:
        print(f"- {words}")
    ending = ".parquet" if q.lower().endswith((".parquet", ".pq")) else ".csv"
    print(f"model: {out}\nNext: flowratio score {shlex.quote(str(out))} {shlex.quote(q)} -o scores{ending}")
    print(f"      flowratio report {shlex.quote(str(out))} -o report.html")


@app.command()
def score(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of `flowratio fit`.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="Rows: CSV, Parquet, NPY, NPZ, or - for CSV.")],
    out: Annotated[str, typer.Option("--out", "-o", help="CSV or Parquet, or - for CSV.")] = "-",
    gamma: Annotated[
        float,
        typer.Option(
            "--flatten", callback=check_power, metavar="GAMMA", help="Weights of r to this power, such as 0.5."
        ),
    ] = 1.0,
    largest: Annotated[
        float | None,
        typer.Option("--truncate", callback=check_cap, metavar="CAP", help="Largest weight, in units of the mean."),
    ] = None,
    scores_only: Annotated[bool, typer.Option("--scores-only", help="Leave the columns of DATA out.")] = False,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Parts of the file that are scored at a time.")] = 2,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Add log_ratio, in nats, and weight, whose mean is 1, to each row of a file of any size.

    Rows come in batches and leave in their order. If it is killed, the same line goes on where it was.

    Example: flowratio score model old.parquet -o weights.parquet
    """
    from flowratio.report.model import load_ratio
    from flowratio.storage.scoring import score_file

    with notes():
        scored = score_file(
            load_ratio(model),
            data,
            out,
            model_folder=model,
            gamma=gamma,
            largest=largest,
            scores_only=scores_only,
            workers=workers,
            verbose=not quiet,
        )
    to = sys.stderr if out == "-" else sys.stdout  # standard output is for the rows
    if as_json:
        print_json(scored.to_dict(), to)
    elif out != "-" or not quiet:
        print(scored, file=to)


@app.command()
def report(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of `flowratio fit`.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file.")] = Path("report.html"),
    p: Annotated[str | None, typer.Option("--p", metavar="P", help="Other rows of p to judge the ratio on.")] = None,
    q: Annotated[str | None, typer.Option("--q", metavar="Q", help="Other rows of q, with --p.")] = None,
) -> None:
    """Write one HTML page on a ratio: what differs, how well it is known, and whether to trust the weights.

    The page needs no network. It tells of the rows that `fit` set aside; or, with --p and --q, of others.

    Example: flowratio report model -o report.html
    """
    if (p is None) != (q is None):
        raise typer.BadParameter("give rows of both samples, or none", param_hint="--p, --q")
    from flowratio.report.evidence import gather, read_evidence
    from flowratio.report.model import Model
    from flowratio.report.page import write_report
    from flowratio.storage.writing import check_output

    check_output(out, (".html", ".htm"))
    if p is None or q is None:
        evidence = read_evidence(model)
    else:
        loaded = Model.load(model)
        P, Q = _two_tables(p, q, None, None)
        P, Q = (_parsed(path, table, loaded.ratio.encoder_) for path, table in ((p, P), (q, Q)))
        made = {**loaded.evidence["made"], "command": command_line(), "file_p": p, "file_q": q}
        with notes():
            evidence = gather(loaded.ratio, P, Q, featurizer=loaded.featurizer, made=cast("Any", made))
    write_report(evidence, out)
    print(f"page: {out}")


@app.command("test")
def compare(
    p: TableP,
    q: TableQ,
    method: Annotated[str | None, typer.Option(help="A ratio, such as logistic or boosting.")] = None,
    permutations: Annotated[int, typer.Option(min=1, help="The smallest p-value is 1 / (this + 1).")] = 200,
    columns: Columns = None,
    exclude: Exclude = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Test whether the rows of two files come from one law, and name the columns that drive a difference.

    Example: flowratio test new.csv old.csv --exclude id
    """
    if method == "auto":
        raise typer.BadParameter("it would choose anew for each permutation: name one ratio", param_hint="--method")
    from flowratio.applications.testing import two_sample_test
    from flowratio.ratios.auto.auto import named_ratio

    ratio = None if method is None else named_ratio(method)
    X_p, X_q, groups = _two_matrices(p, q, columns, exclude)
    with notes():
        found = two_sample_test(
            X_p, X_q, ratio, n_permutations=permutations, groups=groups, random_state=seed, verbose=not quiet
        )
    print_found(found, as_json)


@app.command()
def divergence(
    p: TableP,
    q: TableQ,
    kind: Annotated[str, typer.Option(help="kl, reverse-kl, js, pearson, tv or hellinger.")] = "kl",
    method: Annotated[str, typer.Option(help=MethodHelp)] = "auto",
    budget: Budget = 60.0,
    columns: Columns = None,
    exclude: Exclude = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Measure how far apart the laws of two files are, with a standard error.

    Example: flowratio divergence new.csv old.csv --kind js --method boosting
    """
    from flowratio.applications.divergences import KINDS
    from flowratio.applications.divergences import divergence as measure
    from flowratio.ratios.auto.auto import named_ratio

    check_choice(kind, [*KINDS], "--kind")
    ratio = named_ratio(method, budget)
    X_p, X_q, _ = _two_matrices(p, q, columns, exclude)
    with notes():
        found = measure(X_p, X_q, cast("Any", kind), ratio=ratio, random_state=seed, verbose=not quiet)
    print_found(found, as_json)


@app.command()
def mi(
    x: Annotated[str, typer.Argument(metavar="X", help="Rows of X: CSV, Parquet, NPY, NPZ, or -.")],
    y: Annotated[str, typer.Argument(metavar="Y", help="Rows of Y, in the same order.")],
    given: Annotated[str | None, typer.Option(metavar="Z", help="Rows of Z: I(X; Y | Z).")] = None,
    method: Annotated[str, typer.Option(help=MethodHelp)] = "auto",
    budget: Budget = 60.0,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Measure what the rows of one file tell of those of another: the mutual information, in nats and bits.

    Example: flowratio mi pixels.npy labels.csv --method boosting
    """
    check_standard_input(x, y, given)
    from flowratio.applications.information import mutual_information
    from flowratio.ratios.auto.auto import named_ratio
    from flowratio.storage.reading import read_table

    ratio = named_ratio(method, budget)
    tables = [(path, read_table(path)) for path in (x, y, given) if path is not None]
    with notes():
        matrices = [_matrix(path, table) for path, table in tables]
        found = mutual_information(*matrices, ratio=ratio, random_state=seed, verbose=not quiet)
    print_found(found, as_json)


@app.command()
def sample(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of `flowratio fit`.")],
    n: Annotated[int, typer.Option("-n", min=1, help="Number of rows.")] = 1000,
    toward: Annotated[Sample, typer.Option(help="Draw rows of p, or of q.")] = Sample.p,
    out: Annotated[str, typer.Option("--out", "-o", help="CSV or Parquet, or - for CSV.")] = "-",
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Draw new rows of p, or of q, from the flow of both samples, by sampling-importance-resampling.

    Example: flowratio sample model -n 500 --toward p -o new-rows.csv
    """
    from flowratio.report.model import Model
    from flowratio.storage.writing import TABLE_ENDINGS, check_output, for_pandas, write_table

    check_output(out, TABLE_ENDINGS, standard_output=True)
    with notes():
        table, drawn = Model.load(model).sample(n, toward.value, seed=seed, verbose=not quiet)
    write_table(iter([table]), out, for_pandas(table))
    if out != "-":
        print(
            f"{n} rows toward {toward.value}: {out}\n{drawn.unique_share:.0%} of them are distinct; they were drawn "
            f"from {drawn.effective_sample_size:.0f} effective candidates of {len(drawn.log_w)}."
        )


@app.command()
def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(NAMES)}, or all.")],
    preset: Annotated[str, typer.Option(help="quick, laptop or paper: how much of it.")] = "quick",
    seeds: Annotated[int | None, typer.Option(min=1, help="How often everything is repeated.")] = None,
    jobs: Annotated[int, typer.Option(min=1, max=256, help="Processes.")] = 2,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for results and figures.")] = Path("results"),
    restart: Annotated[bool, typer.Option("--restart", help="Forget results that are there.")] = False,
    report: Annotated[
        bool, typer.Option("--report", help="Run nothing: write tables and figures again of what is there.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Run an experiment of the paper, and print its table beside the paper's numbers, with a verdict on each claim.

    Each result is written when it is there: if it is killed, the same line goes on where it was.

    Example: flowratio reproduce mixtures --preset quick
    """
    check_choice(name, (*NAMES, "all"), "NAME")
    check_choice(preset, PRESETS, "--preset")
    check_folder(out)
    if restart and report:
        raise ValueError("--restart forgets results, and --report is of those that are there: give one of them.")
    from flowratio_paper.running import experiment, results_file
    from flowratio_paper.running import reproduce as run
    from flowratio_paper.stages import forget

    names = NAMES if name == "all" else (name,)
    for one in names if restart else ():  # all at once: the line without --restart goes on with none of old
        forget(results_file(one, preset, out))
    for one in names:
        found, paths = run(one, preset, out, seeds=seeds, jobs=jobs, report_only=report, verbose=not quiet)
        print(experiment(one).TITLE)
        if preset == "quick":
            print(_QUICK)
        print(f"{found}\n{' '.join(map(str, paths))}", flush=True)


def _two_tables(
    p: str, q: str, columns: list[str] | None, exclude: list[str] | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    check_standard_input(p, q)
    from flowratio.storage.reading import read_table

    P, Q = read_table(p, columns), read_table(q, columns)
    known = {name for path, table in ((p, P), (q, Q)) for name in (table.columns if path == "-" else _columns(path))}
    for name in exclude or ():
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"`--exclude` names {name!r}, which is no column of {p} or {q}.{hint}")
    P, Q = (table.drop(exclude or (), strict=False) for table in (P, Q))
    if not P.columns or not Q.columns:
        raise ValueError(f"No column is left: `--columns` and `--exclude` must leave at least one of {p} and {q}.")
    return P, Q


def _columns(path: str) -> list[str]:
    """Return the names of all columns of a file."""
    from flowratio.storage.reading import open_table

    with open_table(path) as table:
        return list(table.columns)


def _two_matrices(
    p: str, q: str, columns: list[str] | None, exclude: list[str] | None
) -> tuple[pl.DataFrame, pl.DataFrame, list[str]]:
    """Return two tables of numbers, encoded alike, and the column of the files that each of theirs comes from."""
    import polars as pl

    from flowratio.report.model import places_named
    from flowratio.tables.cells import check_formats, pooled
    from flowratio.tables.encoder import TableEncoder

    P, Q = _two_tables(p, q, columns, exclude)
    with notes(), places_named((p, q), len(P)):
        X = pooled(P, Q, (p, q))
        check_formats(P, Q, (p, q))
        encoder = TableEncoder().fit(X)
        if not encoder.names_:
            raise ValueError(
                "Every column is constant or an identifier: there is nothing to compare. Give at least one that varies."
            )
        X_p, X_q = (pl.DataFrame(encoder.transform(table), schema=encoder.names_) for table in (P, Q))
    return X_p, X_q, [encoder.columns_[k].name for k in encoder.groups_]


def _matrix(path: str, table: pl.DataFrame) -> np.ndarray:
    """Return the rows of a file as numbers, (n, m)."""
    from flowratio.report.model import places_named
    from flowratio.tables.encoder import TableEncoder

    with places_named((path, path), len(table)):
        return TableEncoder().fit(table).transform(table)


def _parsed(path: str, table: pl.DataFrame, encoder: TableEncoder) -> pl.DataFrame:
    """Return the rows of a file as what an encoder reads them as, once all can be read."""
    from flowratio.report.model import places_named

    with places_named((path, path), len(table)):
        encoder.transform(table)
        return encoder.parse(table)


def _described(encoder: TableEncoder) -> str:
    """Say what the columns are."""
    kinds: dict[str, list[str]] = {}
    for column in encoder.columns_:
        kinds.setdefault(column.kind, []).append(column.name)
    left_out = ("constant", "identifier")
    lines = [f"  {kind}: {', '.join(names)}{' (left out)' * (kind in left_out)}" for kind, names in kinds.items()]
    return "\n".join([f"Columns, {len(encoder.names_)} as numbers:", *lines])


if __name__ == "__main__":
    main()
