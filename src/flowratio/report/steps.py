"""What to do next: steps with commands that are ready to paste, with the names of the user's own files."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

from flowratio._support.numbers import percent
from flowratio._support.wording import escaped, first_of
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.diagnostics.verdict import Verdict, reliability_advice
from flowratio.report.answers import unweighted_sentence, with_file_names
from flowratio.report.drift import differs
from flowratio.report.names import file_names

SCORE_COLUMNS = (
    "`score` writes the columns of the file, then `log_ratio` and `weight`. `log_ratio` is log r in nats. `weight` is "
    "r divided by the mean of r over the rows of that file, so its mean is 1."
)
_NAMED = 3  # columns in a sentence
_SEPARATING = 0.1  # share of the squared changes of log r from which on a column may separate the files
_CHANGED = ("--out", "--force", "--quiet", "--json")  # options of `fit` that a new fit does not repeat
_FLAGS = ("--no-flow",)  # options without a value
_PARQUET = (".parquet", ".pq")
_READERS = {".csv": "read_csv", ".parquet": "read_parquet", ".xlsx": "read_excel"}  # of pandas


class Step(NamedTuple):
    """One thing to do."""

    text: str
    command: str = ""  # empty if there is none


def shell_word(word: str) -> str:
    r"""Return a word for a shell. Control characters are written as in $'\n', which bash and zsh read."""
    if escaped(word) == word:
        return shlex.quote(word)
    inside = "".join(_ansi(character) for character in word)
    return f"$'{inside}'"


def _ansi(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if escaped(character) == character:
        return character
    if ord(character) < 0x80:
        return f"\\x{ord(character):02x}"
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def score_command(origin: dict[str, Any], options: str = "") -> str:
    """Return the command that computes weights for the file of q."""
    words = ["flowratio", "score", origin.get("model", "model"), origin["file_q"], "-o", _weights_file(origin)]
    return " ".join(map(shell_word, words)) + options


def fit_command(origin: dict[str, Any], file_p: str | None = None, options: Sequence[str] = ()) -> str:
    """Return the command that fits again with the same options and others, to another file of p if there is one."""
    folder = f"{PurePath(origin.get('model', 'model')).name}-2"
    words = ["flowratio", "fit", file_p or origin["file_p"], origin["file_q"], "-o", folder]
    try:
        typed = shlex.split(origin["command"])
    except ValueError:  # a command of an unknown origin
        typed = []
    own = typed[2:] if typed[:2] == words[:2] else []
    for option, value in zip(own, [*own[1:], ""], strict=False):
        if option.startswith("--") and option.partition("=")[0] not in _CHANGED:
            words += [option] if "=" in option or option in _FLAGS else [option, value]
    return " ".join([*map(shell_word, words), *options])


def _weights_file(origin: dict[str, Any]) -> str:
    return "weights.parquet" if origin["file_q"].lower().endswith(_PARQUET) else "weights.csv"


def steps_of(evidence: dict[str, Any], origin: dict[str, Any]) -> list[Step]:
    """Return the steps, the most important one first. `origin` has the exact names of the files."""
    if not differs(evidence):
        return _unweighted(origin)
    if Verdict(evidence["diagnosis"]["verdict"]) is Verdict.DO_NOT_USE:
        return _instead(evidence, origin)
    return _weighted(evidence, origin)


def separation_sentence(evidence: dict[str, Any]) -> str:
    """Return which columns alone separate the files, and the option that leaves them out. Empty if there are none."""
    columns = evidence["diagnosis"]["separating"]
    if not columns:
        return ""
    verb, them = ("separates", "it") if len(columns) == 1 else ("separate", "them")
    option = exclude_option(columns)
    repeat = f"Repeat with {' '.join(option)}" if option else f"Repeat without {them}"
    return f"{first_of(columns, _NAMED)} {verb} the files completely. {repeat}."


def exclude_option(columns: list[str]) -> list[str]:
    """Return the words of the option that leaves columns out. Empty if their names do not fit on a command line."""
    is_plain = all(name.isprintable() and not {",", "…", '"'} & {*name} for name in columns)
    return ["--exclude", shell_word(",".join(columns))] if is_plain and columns else []


def _weighted(evidence: dict[str, Any], origin: dict[str, Any]) -> list[Step]:
    """Return how to compute and use the weights."""
    p, q = file_names(origin)
    remedy = evidence["diagnosis"]["remedy"]
    first = Step(f"Compute a weight for each row of {q}.", score_command(origin))
    if remedy is not None:
        reason = f"Held-out rows confirm that the option {remedy['option']} improves them."
        first = Step(f"{first.text} {reason}", score_command(origin, f" {remedy['option']}"))
    name = _weights_file(origin)
    use = f"Use the column `weight` of {name} in every mean, fit or test about {p}. An example in Python:"
    matching = _matching_rows(evidence, origin)
    first = first._replace(text="Or use this model. " * bool(matching) + first.text)
    return [*matching, first, Step(use, _python_example(evidence, name)), *_care(evidence)]


def _matching_rows(evidence: dict[str, Any], origin: dict[str, Any]) -> list[Step]:
    """Return how to leave rows of p out that have a new category: no weights can represent them."""
    columns = [column["name"] for column in evidence["columns"] if _new_categories(column)]
    if not columns:
        return []
    p, q = file_names(origin)
    share = max(sum(one["p"] for one in _new_categories(column)) for column in evidence["columns"])
    where = f"whose {' or '.join(columns[:_NAMED])} does not occur in {q}"
    is_plain = len(columns) <= _NAMED and all(name.isprintable() and not {"\\", "…"} & {*name} for name in columns)
    text = f"Leave out the rows of {p} {where} (at least {percent(share)}). No weights of {q} can represent them."
    path = PurePath(origin["file_p"])
    read = _READERS.get(path.suffix.lower())
    if read is None or not is_plain:
        return [Step(f"{text} Then fit again.")]
    rest, write = f"{path.stem}-matching{path.suffix}", read.replace("read", "to")
    keep = " & ".join(f"new[{name!r}].isin(old[{name!r}])" for name in columns)
    index = ", index=False" * (write != "to_parquet")
    code = f"new, old = pd.{read}({origin['file_p']!r}), pd.{read}({origin['file_q']!r})\n"
    code = f"import pandas as pd\n{code}new[{keep}].{write}({rest!r}{index})"
    return [Step(f"{text} In Python:", code), Step("Fit again to the other rows.", fit_command(origin, rest))]


def _new_categories(column: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the categories of a column that clearly occur in p only."""
    changes = column.get("changes")
    return [] if changes is None else [one for one in changes["new"] if one["is_clear"]]


def _python_example(evidence: dict[str, Any], name: str) -> str:
    """Return Python code for a weighted mean of the first column of numbers, or for weights of a fit."""
    read = "read_parquet" if name.endswith(".parquet") else "read_csv"
    lines = ["import numpy as np, pandas as pd", f'rows = pd.{read}("{name}")']
    plain = [one for one in evidence["columns"] if one["kind"] in ("number", "integer") and one["name"].isprintable()]
    column = next((one["name"] for one in plain if not one["missing"]["q"] and not {"\\", "…"} & {*one["name"]}), None)
    if column is None:
        return "\n".join([*lines, 'weights = rows["weight"]  # as sample_weight of a fit'])
    return "\n".join([*lines, f'np.average(rows[{column!r}], weights=rows["weight"])'])


def _care(evidence: dict[str, Any], *, is_weighted: bool = True) -> list[Step]:
    """Return what to do about the problems of a ratio and, if its weights are used, of these."""
    diagnosis, (p, q) = evidence["diagnosis"], file_names(evidence["origin"])
    overlap, curve, steps = diagnosis["overlap"], diagnosis["reliability"], []
    if diagnosis["direction"]["auc"] < 0.5 and diagnosis["direction"]["z"] < -THRESHOLDS.z:
        steps.append(f"Check whether the two files are swapped. After weighting, {q} should look like {p}.")
    if is_weighted and (overlap["ess_q"] <= THRESHOLDS.small_ess or overlap["headroom"] < THRESHOLDS.headroom):
        steps.append(f"Get more rows of {q} that look like {p}.")
    is_new = {f"{one['name']} = {new['category']}" for one in evidence["columns"] for new in _new_categories(one)}
    if is_weighted and overlap["share_p_beyond_q"] > THRESHOLDS.beyond:
        steps.append(f"State for whom your results hold. Part of {p} has no counterpart in {q}.")
    if curve["p_value"] < THRESHOLDS.chance and curve["error"] - curve["noise"] > THRESHOLDS.reliability:
        steps.append(f"{reliability_advice(curve['slope'], curve['slope_error'])}. The class probabilities are off.")
    after = zip(diagnosis["balance"]["names"], diagnosis["balance"]["after"], strict=True)
    rest = max((abs(size) for name, size in after if name not in is_new), default=0.0)  # others cannot match
    if is_weighted and diagnosis["warnings"] and rest > THRESHOLDS.difference:
        steps.append("Adjust also for the columns that still differ. The balance chart above shows them.")
    return [Step(text) for text in steps]


def _unweighted(origin: dict[str, Any]) -> list[Step]:
    words = ["flowratio", "test", origin["file_p"], origin["file_q"]]
    return [
        Step(unweighted_sentence(origin)),
        Step("Test again when you have more rows.", " ".join(map(shell_word, words))),
    ]


def _instead(evidence: dict[str, Any], origin: dict[str, Any]) -> list[Step]:
    """Return what to do if the weights would mislead."""
    p, q = file_names(origin)
    instead = Step(f"Do not weight {q}. You can still use the changes that this page lists. They do not need weights.")
    if separation := separation_sentence(evidence):
        option = exclude_option(evidence["diagnosis"]["separating"])
        return [Step(separation, fit_command(origin, options=option) if option else ""), instead]
    steps = [instead]
    option = exclude_option(_important(evidence))
    if option:
        text = "Fit again without the columns that separate the files, if your question does not need them."
        steps.append(Step(text, fit_command(origin, options=option)))
    steps.append(Step(f"Or get more rows of {q} that look like {p}, and fit again."))
    steps += [Step(with_file_names(text, origin)) for text in evidence["diagnosis"]["advice"]]
    is_beyond = evidence["diagnosis"]["overlap"]["share_p_beyond_q"] > THRESHOLDS.beyond
    limit = Step(f"Or limit your question to the part of {p} that has a counterpart in {q}.")
    return [*steps, *(_matching_rows(evidence, origin) or [limit] * is_beyond), *_care(evidence, is_weighted=False)]


def _important(evidence: dict[str, Any]) -> list[str]:
    """Return up to three columns that move log r most, if other columns remain."""
    varying = [one for one in evidence["columns"] if one["kind"] not in ("constant", "identifier")]
    important = [one["name"] for one in varying if (one["driver"]["share"] or 0) >= _SEPARATING][:3]
    return important if len(important) < len(varying) else []
