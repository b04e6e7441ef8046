"""What to do next: steps with commands that are ready to paste, with the names of the user's own files."""

from __future__ import annotations

import shlex
from pathlib import PurePath
from typing import Any, NamedTuple

from flowratio._support.wording import escaped
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.diagnostics.verdict import Verdict, reliability_advice
from flowratio.report.answers import unweighted_sentence, with_file_names
from flowratio.report.drift import differs
from flowratio.report.names import file_names

SCORE_COLUMNS = (
    "`score` writes the columns of the file, then `log_ratio` and `weight`. `log_ratio` is log r in nats. `weight` is "
    "r divided by the mean of r over the rows of that file, so its mean is 1."
)
_SEPARATING = 0.1  # share of the squared changes of log r from which on a column may separate the files
_PARQUET = (".parquet", ".pq")


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


def _weights_file(origin: dict[str, Any]) -> str:
    return "weights.parquet" if origin["file_q"].lower().endswith(_PARQUET) else "weights.csv"


def steps_of(evidence: dict[str, Any], origin: dict[str, Any]) -> list[Step]:
    """Return the steps, the most important one first. `origin` has the exact names of the files."""
    if not differs(evidence):
        return _unweighted(origin)
    if Verdict(evidence["diagnosis"]["verdict"]) is Verdict.DO_NOT_USE:
        return _instead(evidence, origin)
    return _weighted(evidence, origin)


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
    return [first, Step(use, _python_example(evidence, name)), *_care(evidence)]


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
    if is_weighted and overlap["share_p_beyond_q"] > THRESHOLDS.beyond:
        steps.append(f"State for whom your results hold. Part of {p} has no counterpart in {q}.")
    if curve["p_value"] < THRESHOLDS.chance and curve["error"] - curve["noise"] > THRESHOLDS.reliability:
        steps.append(f"{reliability_advice(curve['slope'], curve['slope_error'])}. The class probabilities are off.")
    if is_weighted and diagnosis["warnings"] and diagnosis["balance"]["worst"][1] > THRESHOLDS.difference:
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
    steps = [Step(f"Do not weight {q}. You can still use the changes that this page lists. They do not need weights.")]
    columns = _separating(evidence)
    if columns:
        folder = f"{PurePath(origin.get('model', 'model')).name}-2"
        words = ["flowratio", "fit", origin["file_p"], origin["file_q"], "-o", folder, "--exclude", ",".join(columns)]
        text = "Fit again without the columns that separate the files, if your question does not need them."
        steps.append(Step(text, " ".join(map(shell_word, words))))
    steps.append(Step(f"Or get more rows of {q} that look like {p}, and fit again."))
    steps += [Step(with_file_names(text, origin)) for text in evidence["diagnosis"]["advice"]]
    is_beyond = evidence["diagnosis"]["overlap"]["share_p_beyond_q"] > THRESHOLDS.beyond
    limit = Step(f"Or limit your question to the part of {p} that has a counterpart in {q}.")
    return [*steps, *[limit] * is_beyond, *_care(evidence, is_weighted=False)]


def _separating(evidence: dict[str, Any]) -> list[str]:
    """Return up to three columns that move log r most, if other columns remain. Their names fit on a command line."""
    varying = [one for one in evidence["columns"] if one["kind"] not in ("constant", "identifier")]
    important = [one["name"] for one in varying if (one["driver"]["share"] or 0) >= _SEPARATING][:3]
    is_plain = all(name.isprintable() and "," not in name and "…" not in name for name in important)
    return important if is_plain and 0 < len(important) < len(varying) else []
