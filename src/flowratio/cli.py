"""The command line: parse, call, print.

The exit code is 0; 2 with one line that says what came, the rule and the way out; or 130 after Ctrl-C. torch and
scikit-learn are imported by the command that needs them, so that help comes at once.
"""

from __future__ import annotations

import math
import os
import shlex
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from flowratio import __version__

if TYPE_CHECKING:
    import numpy as np

    from flowratio import FlowFeaturizer

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

# the base of all that the parser refuses, which typer has kept in several places
_UsageError = cast("type[Exception]", typer.BadParameter.__mro__[1])
_SHIFT = 3.0  # mean of both columns of q; that of p is 0
_SHOWN = 1000  # rows of each sample in the figure


def main() -> None:
    """Run the command line and leave with its exit code."""
    code = 2
    try:
        code = app(prog_name="flowratio", standalone_mode=False) or 0
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except _UsageError as error:
        _say(_refusal(error))
    except OSError as error:
        # words of our own stand alone in `strerror`
        _say(error.strerror if error.strerror and not error.filename else str(error))
    except (ValueError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and type(error).__name__ != "TrainingDiverged":  # its module loads torch
            raise
        _say(str(error))
    if code == 130:
        _say("interrupted: every file is as it was before, or complete.")
    sys.exit(code)


def _say(words: str) -> None:
    print(f"flowratio: {' '.join(words.split())}", file=sys.stderr)


def _refusal(error: Any) -> str:
    """Return what was typed, what the parser has against it, and where the rules are."""
    command = error.ctx.command_path if error.ctx else "flowratio"
    words = error.format_message()
    return f"{shlex.join(sys.argv[1:])}: {words}{'' if words[-1:] in '.?' else '.'} See {command} --help."


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"flowratio {__version__}")
        raise typer.Exit


def _check_seed(seed: int) -> int:
    if not 0 <= seed < 2**63:
        raise typer.BadParameter("a seed is a whole number from 0 to 2**63 - 1")
    return seed


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Density ratios r(x) = p(x) / q(x) from two samples, in the latent space of a normalizing flow.

    Example: flowratio demo
    """
    del version
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure and the model.")] = Path("flowratio-demo"),
    seed: Annotated[int, typer.Option(callback=_check_seed, help="Whole number: the same gives the same result.")] = 0,
    rows: Annotated[int, typer.Option(min=50, max=1_000_000, help="Rows of each sample.", hidden=True)] = 20_000,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Fit a flow to rows of p = N(0, I) and q = N((3, 3), I), and check what can be checked.

    The density is known, so the table has the truth beside what was measured. The folder gets latent.png, the rows
    before and after the flow, and model/, for flowratio.load.

    Example: flowratio demo --out my-demo --seed 1
    """
    _check_folder(out)
    # at this size threads wait for each other longer than they compute
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import numpy as np

    from flowratio import load, save

    print(f"p = N((0, 0), I), the numerator, and q = N((3, 3), I), the denominator: {rows} rows of each.", flush=True)
    rng = np.random.default_rng(seed)
    started = time.perf_counter()
    featurizer = _fit(*_draw(rows, rng), seed, verbose=not quiet)
    seconds = time.perf_counter() - started
    X_p, X_q = _draw(rows, rng)  # fresh rows: the flow has not seen them
    X = np.concatenate([X_p, X_q])
    Z = featurizer.transform(X)
    _draw_figure(featurizer, X_p[:_SHOWN], X_q[:_SHOWN], out / "latent.png")
    save(featurizer, out / "model")
    n_different = int((load(out / "model").transform(X) != Z).sum())
    _print_table(_measure(featurizer, X, Z), n_different, seconds)
    print("The flow is invertible, so r(x) = p(x) / q(x) = p_Z(z) / q_Z(z): a ratio learned in z is the ratio in x.")
    print(f"figure: {out / 'latent.png'}\nmodel:  {out / 'model'} (flowratio.load reads it)")


def _check_folder(out: Path) -> None:
    """Make the folder and a file in it, before time is spent on what could not be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()
    except OSError as error:
        rule = "it must be a folder that can be written, or the path of a new one"
        raise typer.BadParameter(f"{out} does not serve ({error.strerror}): {rule}", param_hint="--out") from error


def _draw(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(0, 1, (n, 2)), rng.normal(_SHIFT, 1, (n, 2))


def _fit(X_p: np.ndarray, X_q: np.ndarray, seed: int, verbose: bool) -> FlowFeaturizer:
    """Fit to both samples pooled, and say each warning in one line."""
    from flowratio import FlowFeaturizer, stack

    X, _ = stack(X_p, X_q)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        featurizer = FlowFeaturizer(random_state=seed, verbose=verbose).fit(X)
    for warning in caught:
        _say(f"note: {warning.message}")
    return featurizer


def _log_ratio(X: np.ndarray) -> np.ndarray:
    """Return log r in closed form, (n, 2) to (n,): ½|x − m|² − ½|x|² with m = (3, 3), so 9 − 3 (x1 + x2)."""
    return _SHIFT**2 - _SHIFT * X.sum(axis=1)


def _log_density(X: np.ndarray) -> np.ndarray:
    """Return the log-density of the pooled rows, ½p + ½q = q (1 + r) / 2, in closed form, (n, 2) to (n,)."""
    import numpy as np

    log_q = -0.5 * ((X - _SHIFT) ** 2).sum(axis=1) - math.log(2 * math.pi)
    return log_q + np.logaddexp(0, _log_ratio(X)) - math.log(2)


def _measure(featurizer: FlowFeaturizer, X: np.ndarray, Z: np.ndarray) -> list[tuple[str, str, str]]:
    """Return what was measured on fresh rows, each as its name, its value and its ideal, that of the true density."""
    import numpy as np

    back = featurizer.inverse_transform(Z)
    off = np.abs(back - X).max()
    ratio_off = np.abs(_log_ratio(back) - _log_ratio(X)).max()
    correlation = np.corrcoef(Z, rowvar=False)[0, 1]
    return [
        ("log-likelihood, nats a row", f"{featurizer.score(X):.4f}", f"{_log_density(X).mean():.4f}"),
        ("x to z and back: largest error in x", f"{off:.1e}", "0"),
        ("... in log r(x) = 9 - 3 (x1 + x2)", f"{ratio_off:.1e}", "0"),
        ("mean of z, farthest from 0", f"{np.abs(Z.mean(axis=0)).max():.3f}", "0"),
        ("standard deviation of z, farthest from 1", f"{np.abs(Z.std(axis=0) - 1).max():.3f}", "0"),
        ("correlation of z1 and z2", f"{abs(correlation):.3f}", "0"),
    ]


def _print_table(measured: list[tuple[str, str, str]], n_different: int, seconds: float) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("on as many fresh rows", "measured", "ideal")
    for line in measured:
        table.add_row(*line)
    table.add_row("values of z that a saved, loaded model changes", str(n_different), "0")
    table.add_row("seconds of training", f"{seconds:.1f}", "")
    Console().print(table)


def _draw_figure(featurizer: FlowFeaturizer, X_p: np.ndarray, X_q: np.ndarray, path: Path) -> None:
    """Draw the rows, and the line where r = 1, before and after the flow."""
    import numpy as np
    from matplotlib.figure import Figure

    from flowratio.files import replacing

    across = np.linspace(-1, 4, 200)
    line = np.column_stack([across, _SHIFT - across])
    figure = Figure(figsize=(9, 5), layout="constrained")
    for k, (name, to) in enumerate({"x": lambda X: X, "z": featurizer.transform}.items()):
        axes = figure.add_subplot(1, 2, k + 1, title="latent z" if k else "data x", aspect="equal")
        axes.set(adjustable="datalim", xlabel=f"${name}_1$", ylabel=f"${name}_2$")
        axes.plot(*to(X_p).T, "o", color="black", markersize=2, label="p, the numerator")
        axes.plot(*to(X_q).T, "+", color="0.6", markersize=5, label="q, the denominator", zorder=1.5)
        axes.plot(*to(line).T, "-", color="white", linewidth=3.5)
        axes.plot(*to(line).T, "--", color="black", linewidth=1.5, label="r = p/q = 1")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=150)


if __name__ == "__main__":
    main()
