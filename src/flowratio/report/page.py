"""Evidence as one page: a single HTML file with its own style and script, which loads nothing and sends nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from flowratio._support.atomic import replacing
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.diagnostics.verdict import reliability_advice
from flowratio.report.category_changes import category_sentences
from flowratio.report.numbers import count, fixed, in_units, moment, percent, sig, signed

_ALIKE = 0.55  # share of pairs that the ratio orders correctly, up to which two samples hardly differ
_DRIVERS = 3  # columns named in the verdict
_TONES = {"reliable": ("good", "✓"), "use with care": ("care", "!"), "do not use": ("bad", "✕")}
_HEADLINES = {
    "good": "After weighting, {q} matches {p}.",
    "care": "After weighting, {q} matches {p}, but read the points below first.",
    "bad": "Do not use these weights: after weighting, {q} does not match {p}.",
    "alike": "{q} looks like {p}, with or without weights.",
}
_SIZES = ((_ALIKE, "hardly differ"), (0.7, "differ a little"), (0.9, "differ clearly"), (math.inf, "hardly overlap"))
_PLURALS = {"category": "categories", "constant": "one value", "identifier": "identifiers, left out"}


def write_report(evidence: dict[str, Any], path: str | os.PathLike[str]) -> Path:
    """Write the page of the evidence from `gather` or `read_evidence`, whole or not at all, and return its path."""
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
    content = _content(evidence)
    payload = Markup(_safe_json(_payload(content)))
    return pages.get_template("report.html.jinja").render(**content, **assets, payload=payload)


def _safe_json(value: Any) -> str:
    """Return JSON that can stand inside a script element: without `<`, `>` and `&`."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _content(evidence: dict[str, Any]) -> dict[str, Any]:
    """Return the evidence with everything that the page derives from it."""
    balance = _balance(evidence)
    columns = [{**one, "noun": one["kind"], "typical": _typical(one)} for one in evidence["columns"]]
    for column in columns:
        column["noun"] += ", left out" * (column["kind"] == "identifier")
    return {
        **evidence,
        "columns": columns,
        "verdict": _verdict(evidence, balance),
        "categories": [column for column in columns if _has_changes(column)],
        "category_sentences": category_sentences(evidence),
        "samples": _samples(columns),
        "balance": balance,
        "weights": _weights(evidence["rows"]["log_q"]),
        "numbers": [row for column in columns if "numbers" in column for row in _numbers(column)],
    }


def _has_changes(column: dict[str, Any]) -> bool:
    changes = column.get("changes") or {}
    return any(changes.get(kind) for kind in ("new", "vanished", "changed"))


def _payload(content: dict[str, Any]) -> dict[str, Any]:
    """Return the data of the script."""
    diagnosis, balance, weights = content["diagnosis"], content["balance"], content["weights"]
    of_column = ("name", "kind", "histogram", "categories")
    return {
        "rows": {name: content["rows"][name] for name in ("log_p", "log_q", "p", "q", "scale")},
        "n_q": diagnosis["n_q"],
        "reliability": {name: diagnosis["reliability"][name] for name in ("predicted", "observed", "low", "high")},
        "balance": balance["table"],
        "columns": [{name: one[name] for name in of_column if name in one} for one in content["columns"]],
        "latent": content["latent"],
        "training": content["training"],
        "fitted": {
            "now-ess": count(diagnosis["overlap"]["ess_q"]),
            "now-worst": sig(balance["worst_after"]),
            "now-mean": sig(balance["mean_after"]),
            "now-half": percent(weights["half"]),
            "now-largest": sig(weights["largest"]),
        },
    }


def _verdict(evidence: dict[str, Any], balance: dict[str, Any]) -> dict[str, Any]:
    """Return the verdict, its reasons and the next steps as text."""
    diagnosis, origin = evidence["diagnosis"], evidence["origin"]
    tone, sign = _TONES[diagnosis["verdict"]]
    is_balanced = balance["worst_before"] <= THRESHOLDS.difference
    is_alike = tone == "good" and diagnosis["direction"]["auc"] <= _ALIKE and is_balanced
    headline = _HEADLINES["alike" if is_alike else tone].format(p=origin["file_p"], q=origin["file_q"])
    sentences, advice = [_difference(evidence), _worth(diagnosis, origin)], _advice(evidence, balance, tone)
    texts = {"headline": headline, "sentences": sentences, "advice": advice}
    return {"tone": tone, "sign": sign, "name": diagnosis["verdict"].capitalize(), **texts}


def _worth(diagnosis: dict[str, Any], origin: dict[str, Any]) -> str:
    """Say how many rows of p the weighted rows of q replace."""
    size, rows = diagnosis["overlap"], f"the {count(diagnosis['n_q'])} rows of {origin['file_q']}"
    worth = f"{count(size['ess_q'])} ± {count(size['ess_error'])} rows of {origin['file_p']}"
    return f"After weighting, {rows} are worth {worth} (the effective sample size)."


def _difference(evidence: dict[str, Any]) -> str:
    """Say how much the samples differ, and in which columns."""
    auc, p = evidence["diagnosis"]["direction"]["auc"], evidence["origin"]["file_p"]
    size = next(text for limit, text in _SIZES if auc <= limit)
    text = f"The two files {size}: from one row of each, the model finds the row of {p} in {percent(auc)} of cases"
    drivers = [column for column in evidence["columns"] if (column["driver"]["share"] or 0) >= 0.05][:_DRIVERS]
    if not drivers or auc <= _ALIKE:
        return f"{text} (50 % = a guess)."
    names = [f"{column['name']} ({percent(column['driver']['share'])})" for column in drivers]
    listed = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return f"{text} (50 % = a guess). What drives the difference: {listed}."


def _advice(evidence: dict[str, Any], balance: dict[str, Any], tone: str) -> list[str]:
    """Return the next steps, the most important one first. Held-out rows confirm every change of the weights."""
    diagnosis, overlap, origin = evidence["diagnosis"], evidence["diagnosis"]["overlap"], evidence["origin"]
    p, q = origin["file_p"], origin["file_q"]
    steps = []
    if diagnosis["direction"]["auc"] < 0.5 and diagnosis["direction"]["z"] < -3:
        steps.append(f"Check whether the two files are swapped. The rows should look like {p}, the first file.")
    if overlap["ess_q"] <= THRESHOLDS.small_ess or overlap["headroom"] < THRESHOLDS.headroom:
        steps.append(f"Get more rows of {q} that look like {p}.")
    steps += diagnosis["advice"]
    if overlap["share_p_beyond_q"] > 0.01:
        steps.append(f"State for whom the results hold: part of {p} has no counterpart in {q}.")
    curve = diagnosis["reliability"]
    if curve["p_value"] < 1e-3 and curve["error"] - curve["noise"] > 0.025:
        steps.append(f"{reliability_advice(curve['slope'], curve['slope_error'])}: the probabilities are off.")
    if diagnosis["warnings"] and balance["worst_after"] > THRESHOLDS.difference:
        steps.append("Look under Balance for the columns that still differ, and adjust for them as well.")
    if tone != "bad":
        use = f"use the column `weight` in every mean, fit or test about {p}"
        steps.append(f"Compute weights with `flowratio score MODEL DATA -o OUT`, and {use}.")
    return steps or ["Fit again with more rows of both files, or leave out the columns that separate them."]


def _samples(columns: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the share of missing values in each sample, and the kinds of columns."""
    kinds = Counter(column["kind"] for column in columns)
    missing = {f"missing_{k}": sum(column["missing"][k] for column in columns) / max(len(columns), 1) for k in "pq"}
    return {
        **missing,
        "kinds": ", ".join(f"{n} of {_PLURALS.get(kind, f'{kind}s')}" for kind, n in kinds.most_common()),
    }


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
        return {"what": "mean", "p": in_units(column, p and p["mean"]), "q": in_units(column, q and q["mean"])}
    if not column["categories"]:
        return {"what": "all missing", "p": "–", "q": "–"}
    category = max(column["categories"], key=lambda one: (one["category"] == "true", abs(one["p"] - one["q"])))
    return {"what": f"share of {category['category']}", "p": percent(category["p"]), "q": percent(category["q"])}


def _numbers(column: dict[str, Any]) -> list[dict[str, Any]]:
    """Return two rows of a table, those of p and q."""
    rows = []
    for sample in "pq":
        moments = column["numbers"][sample] or {"mean": None, "sd": None, "quartiles": [None] * 5}
        sd = sig(moments["sd"]) + " days" * (column["kind"] == "date" and column["numbers"][sample] is not None)
        mean, *quartiles = (in_units(column, value) for value in (moments["mean"], *moments["quartiles"]))
        rows.append({"name": column["name"], "sample": sample, "css": f"of-{sample}", "cells": [mean, sd, *quartiles]})
    return rows


def code(text: str) -> Markup:
    """Escape a text, and set everything in backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))
