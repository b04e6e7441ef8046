"""Evidence as one page: a single HTML file with its own style and script, which loads nothing and sends nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import re
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from flowratio._support.atomic import replacing
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.diagnostics.verdict import Verdict, reliability_advice

_ALIKE = 0.55  # share of pairs in which p is found, up to which two samples hardly differ
_MOST_DAYS = 1e8  # from 1970: dates of the script of the page end there
_DRIVERS = 3  # named in the verdict
_TONES = {
    Verdict.RELIABLE: ("good", "✓", "Reliable"),
    Verdict.CARE: ("care", "!", "Use with care"),
    Verdict.DO_NOT_USE: ("bad", "✕", "Do not use"),
}
_NOUNS = {
    "number": ("number", "numbers"),
    "integer": ("whole number", "whole numbers"),
    "boolean": ("truth value", "truth values"),
    "category": ("category", "categories"),
    "date": ("date", "dates"),
    "constant": ("constant", "one value"),
    "identifier": ("identifier, left out", "identifiers, left out"),
}


def write_report(evidence: dict[str, Any], path: str | os.PathLike[str]) -> Path:
    """Write the page, whole or not at all, and return its path.

    Parameters
    ----------
    evidence
        What `flowratio.report.evidence.gather` or `read_evidence` returned.
    path
        The file to write or to replace.
    """
    text = html(evidence)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return Path(path)


def html(evidence: dict[str, Any]) -> str:
    """Return the page as a text.

    Parameters
    ----------
    evidence
        What `flowratio.report.evidence.gather` or `read_evidence` returned.
    """
    environment = Environment(
        autoescape=True,
        loader=PackageLoader("flowratio.report", "assets"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "sig": sig,
        "signed": signed,
        "fixed": fixed,
        "count": count,
        "percent": percent,
        "moment": moment,
        "code": _code,
    }
    script, style = (_source(environment, f"report.{kind}") for kind in ("js", "css"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    told = _told(evidence)
    return environment.get_template("report.html.jinja").render(
        **told,
        script=Markup(script),
        script_hash=f"sha256-{digest}",
        style=Markup(style),
        payload=Markup(_safe_json(_payload(told))),
    )


def _source(environment: Environment, name: str) -> str:
    """Return a file of the page as it is; it is our own, and needs no escape."""
    loader: Any = environment.loader
    return loader.get_source(environment, name)[0]


def _safe_json(value: Any) -> str:
    r"""Return JSON that can stand inside a script element: no `<`, no `&`, no line that ends in the middle.

    Examples
    --------
    >>> _safe_json("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _told(evidence: dict[str, Any]) -> dict[str, Any]:
    """Return the evidence with what the page derives from it."""
    columns = [
        {**column, "noun": _NOUNS[column["kind"]][0], "typical": _typical(column)} for column in evidence["columns"]
    ]
    return {
        **evidence,
        "columns": columns,
        "verdict": _verdict(evidence),
        "samples": _samples(columns),
        "balance": _balance(evidence),
        "weights": _weights(evidence["rows"]["log_q"]),
        "numbers": [row for column in columns if "numbers" in column for row in _numbers(column)],
    }


def _payload(told: dict[str, Any]) -> dict[str, Any]:
    """Return what the script draws from."""
    diagnosis, balance, weights = told["diagnosis"], told["balance"], told["weights"]
    return {
        "rows": {name: told["rows"][name] for name in ("log_p", "log_q", "p", "q", "scale")},
        "n_q": diagnosis["n_q"],
        "reliability": {name: diagnosis["reliability"][name] for name in ("predicted", "observed", "low", "high")},
        "balance": balance["table"],
        "columns": [
            {name: column[name] for name in ("name", "kind", "histogram", "levels") if name in column}
            for column in told["columns"]
        ],
        "latent": told["latent"],
        "training": told["training"],
        "fitted": {
            "now-ess": count(diagnosis["overlap"]["ess_q"]),
            "now-worst": sig(balance["worst_after"]),
            "now-mean": sig(balance["mean_after"]),
            "now-half": percent(weights["half"]),
            "now-largest": sig(weights["largest"]),
        },
    }


def _verdict(evidence: dict[str, Any]) -> dict[str, Any]:
    """Say in words what the numbers come to."""
    diagnosis, made = evidence["diagnosis"], evidence["made"]
    tone, sign, name = _TONES[Verdict(diagnosis["verdict"])]
    p, q = made["file_p"], made["file_q"]
    headline = {
        "good": f"Weighted, the rows of {q} can stand in for those of {p}.",
        "care": f"Weighted, the rows of {q} can stand in for those of {p}, but look at the points below first.",
        "bad": f"Do not use these weights: they would not make the rows of {q} stand in for those of {p}.",
    }[tone]
    before = max((abs(value) for value in diagnosis["balance"]["before"]), default=0.0)
    if tone == "good" and diagnosis["direction"]["auc"] <= _ALIKE and before <= THRESHOLDS.difference:
        headline = f"The rows of {q} look like those of {p}, with or without weights."
    return {
        "tone": tone,
        "sign": sign,
        "name": name,
        "headline": headline,
        "sentences": [_difference(evidence), _worth(diagnosis)],
        "advice": _advice(evidence),
    }


def _worth(diagnosis: dict[str, Any]) -> str:
    """Say how many rows of p the weighted rows of q replace."""
    worth, draws = diagnosis["overlap"]["ess_q"], diagnosis["overlap"]["draws_q"]
    told = f"Once weighted, the {count(diagnosis['n_q'])} held-out rows of q are worth {count(worth)} rows of p"
    return f"{told}, and only {count(draws)} by what the rows of p say." if draws < 0.8 * worth else f"{told}."


def _difference(evidence: dict[str, Any]) -> str:
    """Say how different the samples are, and by what."""
    auc = evidence["diagnosis"]["direction"]["auc"]
    size = next(
        words
        for limit, words in (
            (_ALIKE, "can hardly be told apart"),
            (0.7, "differ a little"),
            (0.9, "differ clearly"),
            (math.inf, "differ so much that they hardly overlap"),
        )
        if auc <= limit
    )
    told = f"The two files {size}: shown one row of each, the model finds the one of p in {percent(auc)} of cases"
    driven = [column for column in evidence["columns"] if (column["driver"]["share"] or 0) >= 0.05][:_DRIVERS]
    if not driven or auc <= _ALIKE:
        return f"{told}, where a guess finds it in 50 %."
    named = [f"{column['name']} ({percent(column['driver']['share'])})" for column in driven]
    listed = " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)
    return f"{told}, where a guess finds it in 50 %. What drives the difference: {listed}."


def _advice(evidence: dict[str, Any]) -> list[str]:
    """Say what to do, the gravest first."""
    diagnosis, overlap = evidence["diagnosis"], evidence["diagnosis"]["overlap"]
    told = []
    if diagnosis["direction"]["auc"] < 0.5 and diagnosis["direction"]["z"] < -THRESHOLDS.z:
        told.append("See whether the two files were swapped: p, the first, is the one that rows shall look like.")
    if overlap["draws_q"] <= THRESHOLDS.small_ess:
        told.append("Get more rows of q where p is, or settle for less: temper the weights with the slider below.")
    elif (overlap["k_hat_q"] or 0) > (evidence["k_hat"]["limit"] or 0):
        told.append("Cap the largest weights: find a cap with the slider below, for `flowratio score --cap`.")
    if overlap["share_p_beyond_q"] > THRESHOLDS.beyond:
        told.append("Say to whom results apply: part of p has no counterpart in q, and weighting cannot make one.")
    curve = diagnosis["reliability"]
    if curve["p_value"] < THRESHOLDS.chance and curve["error"] - curve["noise"] > THRESHOLDS.reliability:
        told.append(f"{reliability_advice(curve['slope'], curve['slope_error'])}: the probabilities are off.")
    after = [abs(value) for value in diagnosis["balance"]["after"]]
    if diagnosis["warnings"] and max(after, default=0.0) > THRESHOLDS.difference:
        told.append("Look under Balance for the columns that weighting leaves apart, and adjust for them as well.")
    if Verdict(diagnosis["verdict"]) is not Verdict.DO_NOT_USE:
        told.append(
            "Weight rows with `flowratio score MODEL DATA -o OUT`, and use its column `weight` in every mean, fit or "
            "test that shall hold for p."
        )
    return told or ["Fit again with more rows of both samples, or leave out the columns that set them apart."]


def _samples(columns: list[dict[str, Any]]) -> dict[str, Any]:
    kinds = Counter(column["kind"] for column in columns)
    gaps = {
        f"gaps_{sample}": sum(column["gaps"][sample] for column in columns) / max(len(columns), 1) for sample in "pq"
    }
    return {**gaps, "kinds": ", ".join(f"{n} of {_NOUNS[kind][1]}" for kind, n in kinds.most_common())}


def _balance(evidence: dict[str, Any]) -> dict[str, Any]:
    """Return the columns that are drawn, the worst first, and what all columns come to."""
    told = evidence["diagnosis"]["balance"]
    before, after = ([abs(value) for value in told[name]] for name in ("before", "after"))
    table = [
        {
            "name": told["names"][j],
            "before": told["before"][j],
            "after": told["after"][j],
            "error": told["standard_error"][j],
        }
        for j in evidence["rows"]["columns"]
    ]
    drawn = [abs(one["after"]) for one in table]
    return {
        "table": table,
        "worst_before": max(before, default=0.0),
        "worst_after": max(after, default=0.0),
        "mean_after": sum(drawn) / max(len(drawn), 1),
    }


def _weights(log_q: list[float]) -> dict[str, float]:
    """Return the largest weight, of a mean of 1, and what share of the rows carries half of the weight."""
    top = max(log_q)
    weights = sorted((math.exp(value - top) for value in log_q), reverse=True)
    total, carried, rows = sum(weights), 0.0, 0
    while carried < total / 2:
        carried += weights[rows]
        rows += 1
    return {"largest": len(weights) * weights[0] / total, "half": rows / len(weights)}


def _typical(column: dict[str, Any]) -> dict[str, str]:
    """Return one number of a column in both samples: its mean, or the share of the level that differs most."""
    if "numbers" in column:
        p, q = (column["numbers"][sample] for sample in "pq")
        return {"what": "mean", "p": _value(column, p and p["mean"]), "q": _value(column, q and q["mean"])}
    if not column["levels"]:
        return {"what": "all gaps", "p": "–", "q": "–"}
    level = max(column["levels"], key=lambda one: (one["level"] == "true", abs(one["p"] - one["q"])))
    return {"what": f"share of {level['level']}", "p": percent(level["p"]), "q": percent(level["q"])}


def _numbers(column: dict[str, Any]) -> list[dict[str, Any]]:
    """Return two rows of a table, those of p and q."""
    rows = []
    for sample in "pq":
        found = column["numbers"][sample]
        values = [found["mean"], *found["quartiles"]] if found else [None] * 6
        cells = [_value(column, value) for value in values]
        deviation = sig(found["sd"]) if found else "–"
        unit = " days" if column["kind"] == "date" and found else ""
        rows.append({"name": column["name"], "sample": sample, "css": f"of-{sample}"})
        rows[-1]["cells"] = [cells[0], deviation + unit, *cells[1:]]
    return rows


def _value(column: dict[str, Any], value: float | None) -> str:
    """Write a value in its own units: days since 1970 as a date.

    Examples
    --------
    >>> _value({"kind": "date"}, 2932896.99), _value({"kind": "date"}, -719528.0)
    ('9999-12-31', '0000-01-01')
    """
    if column["kind"] != "date" or value is None:
        return sig(value)
    return str(np.datetime64(math.floor(min(max(value, -_MOST_DAYS), _MOST_DAYS)), "D"))


def _code(words: str) -> Markup:
    """Escape a text, and set what stands in backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(words))))


def sig(value: float | None, digits: int = 3) -> str:
    r"""Write a number with so many significant digits.

    Examples
    --------
    >>> sig(0.012345), sig(1234.5), sig(0.5), sig(-2e-7), sig(None)
    ('0.0123', '1\u202f230', '0.500', '−2.00e-7', '–')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    power = math.floor(math.log10(abs(rounded)))
    if not -4 <= power < 6:
        mantissa, exponent = f"{rounded:.{digits - 1}e}".split("e")
        return f"{mantissa}e{int(exponent)}".replace("-", "−", 1) if rounded < 0 else f"{mantissa}e{int(exponent)}"
    return f"{rounded:,.{max(0, digits - 1 - power)}f}".replace(",", "\u202f").replace("-", "−")


def signed(value: float | None) -> str:
    """Write a difference with its sign and two decimals, at most 1000 of it.

    Examples
    --------
    >>> signed(0.4), signed(-0.014), signed(1e6), signed(0.001)
    ('+0.40', '−0.01', '> 1000', '0.00')
    """
    if value is None:
        return "–"
    if abs(value) > 1000:
        return "> 1000" if value > 0 else "< −1000"
    text = f"{value:+.2f}".replace("-", "−")
    return text[1:] if float(f"{value:.2f}") == 0 else text


def fixed(value: float | None) -> str:
    """Write a score with four decimals, by which candidates are compared.

    Examples
    --------
    >>> fixed(0.12), fixed(-1e-9), fixed(None)
    ('0.1200', '0.0000', '–')
    """
    return "–" if value is None else f"{round(value, 4) + 0.0:.4f}".replace("-", "−")


def count(value: float) -> str:
    r"""Write a number of rows, in groups of three digits.

    Examples
    --------
    >>> count(12345), count(12.34), count(3.0), count(48213.7)
    ('12\u202f345', '12.3', '3', '48\u202f214')
    """
    return f"{value:,.0f}".replace(",", "\u202f") if value >= 100 or value == round(value) else sig(value)


def moment(date: str) -> str:
    """Write a date of ISO form for people; any other stays as it is.

    Examples
    --------
    >>> moment("2026-03-01T09:12:33+00:00"), moment("in spring")
    ('1 March 2026, 09:12 UTC', 'in spring')
    """
    try:
        when = datetime.fromisoformat(date)
    except ValueError:
        return date
    return f"{when.day} {when:%B %Y, %H:%M} {when.tzname() or ''}".rstrip()


def percent(share: float | None) -> str:
    r"""Write a share in percent.

    Examples
    --------
    >>> percent(0.5), percent(0.0123), percent(0), percent(0.0002), percent(1.0)
    ('50\xa0%', '1.2\xa0%', '0\xa0%', '<\xa00.1\xa0%', '100\xa0%')
    """
    if share is None:
        return "–"
    if 0 < share < 0.001:
        return "<\u00a00.1\u00a0%"
    return f"{100 * share:.1f}\u00a0%" if 0 < share < 0.0995 else f"{100 * share:.0f}\u00a0%"
