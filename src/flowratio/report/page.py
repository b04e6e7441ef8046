"""Evidence as one page: a single HTML file with its own style and script, which loads nothing and sends nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from flowratio._support.atomic import replacing
from flowratio._support.numbers import count, fixed, in_units, moment, percent, sig, signed
from flowratio._support.wording import shown
from flowratio.applications.plain_changes import is_zero_or_one
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.report import answers
from flowratio.report.category_changes import category_lines, rare_sentences
from flowratio.report.drift import differs
from flowratio.report.names import MAX_SENTENCE, file_names, legible_evidence
from flowratio.report.steps import SCORE_COLUMNS, score_command, separation_sentence, steps_of

_TONES = {"reliable": ("good", "✓"), "use with care": ("care", "!"), "do not use": ("bad", "✕")}
_ANSWERS = {
    "good": "Yes. After weighting, {q} matches {p}.",
    "care": "Yes, with care. Read the problems below before you use the weights.",
    "bad": "No. After weighting, {q} does not match {p}. Do not use these weights.",
}
_HEADLINES = {
    "good": "The files differ. After weighting, {q} matches {p}.",
    "care": "The files differ. Weight {q} with care to match {p}.",
    "bad": "The files differ. Do not weight {q} to match {p}.",
}
_ALIKE = ("No difference found between {q} and {p}.", "You do not need weights, because no difference was found.")
_DRAWN = 3  # categories in a small chart
_PLURALS = {"category": "text", "constant": "one value", "identifier": "identifiers, left out"}


def write_report(evidence: dict[str, Any], path: str | os.PathLike[str]) -> Path:
    """Write the page of the evidence from `gather` or `read_evidence`, whole or not at all, and return its path.

    Only `read_evidence` knows the folder of the model. The commands on other pages have the folder `model`.
    """
    text = html(evidence)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return Path(path)


def html(evidence: dict[str, Any]) -> str:
    """Return the page of the evidence from `gather` or `read_evidence`."""
    loader: Any = PackageLoader("flowratio.report", "assets")
    pages = Environment(autoescape=True, loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    pages.filters |= {one.__name__: one for one in (sig, signed, fixed, count, percent, moment, code)}
    script, style = (loader.get_source(pages, f"report.{kind}")[0] for kind in ("js", "css"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assets = {"script": Markup(script), "style": Markup(style), "script_hash": f"sha256-{digest}"}
    content = _content(legible_evidence(evidence), evidence["origin"])
    payload = Markup(_safe_json(_payload(content)))
    return pages.get_template("report.html.jinja").render(**content, **assets, payload=payload)


def code(text: str) -> Markup:
    """Escape a text, and set everything in backticks as code. No line ends before a percent sign."""
    text = re.sub(r"(?<=\d) %", "\u00a0%", text)
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _safe_json(value: Any) -> str:
    """Return JSON that can stand inside a script element: without `<`, `>` and `&`."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _content(evidence: dict[str, Any], origin: dict[str, Any]) -> dict[str, Any]:
    """Return legible evidence with everything that the page derives from it. `origin` has the exact file names."""
    balance, (p, q) = _balance(evidence), file_names(origin)
    columns = [{**one, "noun": one["kind"], "typical": _typical(one)} for one in evidence["columns"]]
    for column in columns:
        column["largest"] = _largest_changes(column)
        column["noun"] += ", left out" * (column["kind"] == "identifier")
    return {
        **evidence,
        "command": shown(origin["command"], MAX_SENTENCE),
        "files": {"p": p, "q": q},
        "columns": columns,
        "drift": _drift(evidence),
        "changes": _changes(evidence),
        "more_changes": answers.more_changes(evidence, answers.MAX_CHANGES),
        "category_lists": _category_lists(evidence),
        "rare_sentences": rare_sentences(evidence),
        "verdict": _verdict(evidence, balance),
        "is_apart": answers.is_apart(evidence),
        "ess_text": answers.ess_text(evidence),
        "steps": steps_of(evidence, origin),
        "score_command": score_command(origin),
        "score_columns": SCORE_COLUMNS,
        "samples": _samples(columns),
        "balance": balance,
        "weights": _weights(evidence["rows"]["log_q"]),
        "numbers": [row for column in columns if "numbers" in column for row in _numbers(column)],
        "candidates": _candidates(evidence),
    }


def _payload(content: dict[str, Any]) -> dict[str, Any]:
    """Return the data of the script."""
    diagnosis, balance, weights = content["diagnosis"], content["balance"], content["weights"]
    of_column = ("name", "kind", "histogram", "largest")
    return {
        "files": content["files"],
        "score": content["score_command"],
        "rows": {name: content["rows"][name] for name in ("log_p", "log_q", "p", "q", "scale")},
        "n_q": diagnosis["n_q"],
        "reliability": {name: diagnosis["reliability"][name] for name in ("predicted", "observed", "low", "high")},
        "balance": balance["table"],
        "columns": [{name: one[name] for name in of_column if name in one} for one in content["columns"]],
        "latent": content["latent"],
        "training": content["training"],
        "fitted": {
            "now-ess": "0" if content["is_apart"] else count(diagnosis["overlap"]["ess_q"]),
            "now-worst": sig(balance["worst_after"]),
            "now-mean": sig(balance["mean_after"]),
            "now-half": percent(weights["half"]),
            "now-largest": sig(weights["largest"]),
        },
    }


def _drift(evidence: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to the first question. Its badge is never green: a test cannot show that files are equal."""
    is_different = differs(evidence)
    badge = ("care", "≠", "The files differ") if is_different else ("neutral", "=", "No difference found")
    score = evidence["diagnosis"]["score"]  # a lower bound of a divergence, which is never below 0
    texts = {"sentence": answers.drift_sentence(evidence), "size": answers.size_sentence(evidence)}
    texts["score"] = fixed(None if score is None else max(score, 0.0), 3)
    return {**dict(zip(("tone", "sign", "name"), badge, strict=True)), **texts, "differs": is_different}


def _changes(evidence: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the columns that changed most, with the positions of their charts. A correlation has none."""
    positions: dict[str, int | None] = {column["name"]: j for j, column in enumerate(evidence["columns"])}
    changes = []
    for change in answers.changes_of(evidence):
        position = None if change.is_dependence else positions.pop(change.column, None)  # one chart for each column
        changes.append({**change._asdict(), "position": position})
    return changes


def _category_lists(evidence: dict[str, Any]) -> list[dict[str, Any]]:
    """Return new and vanished categories of text columns, and changed categories of columns that changed clearly."""
    p, q = file_names(evidence["origin"])
    clear = {change.column for change in answers.changes_of(evidence, len(evidence["columns"]))}
    lists = []
    for column in evidence["columns"]:
        if changes := column.get("changes"):
            lines = category_lines(changes, p, q, has_changed=column["name"] in clear)
            lists.append({"name": column["name"], "lines": lines, "has_new": changes["n_new"] > 0})
    return [one for one in lists if one["lines"]]


def _verdict(evidence: dict[str, Any], balance: dict[str, Any]) -> dict[str, Any]:
    """Return the verdict on the weights, and its reasons."""
    diagnosis, origin = evidence["diagnosis"], evidence["origin"]
    names = dict(zip("pq", file_names(origin), strict=True))
    tone, sign = _TONES[diagnosis["verdict"]]
    name, headline, answer = f"Weights: {diagnosis['verdict']}", _HEADLINES[tone], _ANSWERS[tone]
    sentences = [answers.weight_sentence(evidence), _balance_sentence(balance)]
    if not differs(evidence):
        tone, sign, name = "neutral", "=", "Weights: not needed"
        headline, answer = _ALIKE
        sentences.insert(0, f"The verdict on the weights of this model is: {diagnosis['verdict']}.")
    beyond = evidence["diagnosis"]["overlap"]["share_p_beyond_q"]
    if separation := separation_sentence(evidence):
        headline = f"The files differ. {separation}"
    elif tone == "care" and beyond > THRESHOLDS.beyond:
        headline = f"The files differ. {percent(beyond)} of {{p}} has no counterpart in {{q}}. Weight with care."
        answer = f"For {percent(1 - beyond)} of {{p}}, with care. Read the problems below before you use the weights."
    texts = {key: [answers.with_file_names(text, origin) for text in diagnosis[key]] for key in ("warnings", "notes")}
    return {
        "tone": tone,
        "sign": sign,
        "name": name,
        "headline": headline if separation else headline.format(**names),
        "answer": answer.format(**names),
        "sentences": sentences,
        "problems": texts["warnings"],
        "notes": texts["notes"],
    }


def _balance_sentence(balance: dict[str, Any]) -> str:
    """Return the largest difference of a column before and after weighting."""
    before, after = balance["worst_before"], balance["worst_after"]
    texts = [sig(size, 2) if size <= 1000 else "more than 1000" for size in (before, after)]
    change = f"{'falls' if after < before else 'rises'} from {texts[0]} to {texts[1]}"
    change = f"stays at {texts[0]}" if texts[0] == texts[1] else change
    words = f"The largest difference between column means {change} standard deviations"
    return f"{words} (0 = identical, good up to {THRESHOLDS.difference:g})."


def _candidates(evidence: dict[str, Any]) -> dict[str, Any] | None:
    """Return the candidates of the automatic choice with sentences about them. None without a choice."""
    candidates = evidence["candidates"]
    if candidates is None:
        return None
    verdict = answers.with_file_names(candidates["verdict"], evidence["origin"])
    is_noted = candidates.get("untried", "") in evidence["diagnosis"]["notes"]  # once on a page is enough
    return {**candidates, "verdict": verdict, "untried": "" if is_noted else answers.candidate_sentence(candidates)}


def _samples(columns: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the share of missing values in each sample, and the kinds of columns."""
    kinds = Counter(column["kind"] for column in columns)
    missing = {f"missing_{k}": sum(column["missing"][k] for column in columns) / max(len(columns), 1) for k in "pq"}
    words = ", ".join(f"{n} of {_PLURALS.get(kind, f'{kind}s')}" for kind, n in kinds.most_common())
    return {**missing, "kinds": words}


def _balance(evidence: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of the chart, the worst first, and the worst and mean of all columns."""
    balance, positions = evidence["diagnosis"]["balance"], evidence["rows"]["columns"]
    keys = {"name": "names", "before": "before", "after": "after", "error": "standard_error"}
    table = [{key: balance[name][j] for key, name in keys.items()} for j in positions]
    return {
        "table": table,
        "n_columns": balance["n_columns"],
        "worst_before": balance["worst"][0],
        "worst_after": balance["worst"][1],
        "mean_after": sum(abs(one["after"]) for one in table) / max(len(table), 1),
    }


def _weights(log_q: list[float]) -> dict[str, float]:
    """Return the largest weight, in units of the mean, and the share of the rows with half of the weight."""
    log_w = np.sort(log_q)[::-1]
    weights = np.exp(log_w - log_w[0])
    rows = int(np.searchsorted(np.cumsum(weights), weights.sum() / 2)) + 1
    return {"largest": float(1 / weights.mean()), "half": rows / len(weights)}


def _typical(column: dict[str, Any]) -> dict[str, str]:
    """Return one number of a column in both samples: its mean, or the share of the category that differs most."""
    if "numbers" in column:
        p, q = (column["numbers"][sample] for sample in "pq")
        if is_zero_or_one(column):
            return {"what": "share of 1", "p": percent(p and p["mean"]), "q": percent(q and q["mean"])}
        return {"what": "mean", "p": in_units(column, p and p["mean"]), "q": in_units(column, q and q["mean"])}
    if not column["categories"]:
        return {"what": "all missing", "p": "–", "q": "–"}
    largest = _largest_changes(column)[0]
    return {"what": f"share of {largest['category']}", "p": percent(largest["p"]), "q": percent(largest["q"])}


def _largest_changes(column: dict[str, Any]) -> list[dict[str, Any]]:
    """Return up to three categories: clearly new and vanished ones, then those that differ most. Of a boolean, true."""
    changes = column.get("changes") or {}
    absent = [one for kind in ("new", "vanished") for one in changes.get(kind, []) if one["is_clear"]]
    others = [one for one in [*changes.get("changed", []), *column.get("categories", [])] if "n_others" not in one]
    absent, others = (sorted(of, key=lambda one: -abs(one["p"] - one["q"])) for of in (absent, others))
    others.sort(key=lambda one: one["category"] != "true" or column["kind"] != "boolean")
    by_name = {one["category"]: {key: one[key] for key in ("category", "p", "q")} for one in [*absent, *others]}
    return list(by_name.values())[:_DRAWN]


def _numbers(column: dict[str, Any]) -> list[dict[str, Any]]:
    """Return two rows of a table, those of q and p."""
    rows = []
    for sample in "qp":
        moments = column["numbers"][sample] or {"mean": None, "sd": None, "quartiles": [None] * 5}
        sd = sig(moments["sd"]) + " days" * (column["kind"] == "date" and column["numbers"][sample] is not None)
        mean, *quartiles = (in_units(column, value) for value in (moments["mean"], *moments["quartiles"]))
        rows.append({"name": column["name"], "sample": sample, "css": f"of-{sample}", "cells": [mean, sd, *quartiles]})
    return rows
