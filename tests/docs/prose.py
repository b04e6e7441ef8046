"""Rules of plain English that a program can check: words to avoid, and the length of sentences.

`text_blocks(path)` returns the prose of a Markdown page, a notebook, a template or a Python file. `avoided_words`,
`long_sentences` and `semicolons` return what is wrong with a block of it.
"""

from __future__ import annotations

import ast
import html
import json
import re
from pathlib import Path

MAX_WORDS = 35
INSTEAD = {  # what to avoid (a regular expression) -> what to write
    r"laws?": "distribution",
    r"truth values?": "boolean",
    r"of second order": "quadratic",
    r"tells?|told|telling": "distinguish, show",
    r"mend(s|ed|ing)?": "fix",
    r"(hang|hangs|hung) on": "depend on",
    r"greatest likelihood": "maximum likelihood",
    r"dealt out": "shuffled, permuted",
    r"as (it is|they are)": "unchanged",
    r"ratios? (of|in) z": "an estimator in latent space (z)",
    r"effective (draws|rows)": "effective sample size (ESS)",
    r"the most(?=[.,:;)])|at most(?=[.,:;)])": "the maximum is",
    r"gaps?|holes?": "missing value",
    r"levels?": "category",
    r"(rows?|data) (that were )?(not|never) seen|unseen rows?|set aside": "held-out rows",
    r"anew": "again",
    r"by heart": "memorize",
    r"(?<=, )less (the|a|an|its|their|that|log)": "minus",
    r"(go|goes) on where": "resumes",
    r"beside": "compared with, next to",
    r"of normal columns": "after Gaussianizing each column",
    r"bridges?": "intermediate distributions (telescoping)",
    r"some (tens|dozens|hundreds|thousands|seconds|minutes|hours)": "a number",
    r"a few (tens|dozens|hundreds?|thousands?|seconds|minutes|hours)": "a number",
}
AVOIDED = {re.compile(rf"\b(?:{pattern})(?!\w)", re.IGNORECASE): words for pattern, words in INSTEAD.items()}
OTHER_MEANINGS = re.compile(  # the same words, where they are the words of the field
    r"(confidence|significance|noise|gr[ae]y|nested|outer|inner|top|nominal|coverage) levels?"
    r"|levels? (of )?(confidence|significance|5|0\.|α|alpha)|at the levels?"
    r"|level by level|levels evenly spaced|/ levels"
    r"|(duality|optimality|critic's|our|smaller) gaps?|gaps? (of|between) (the|real|\d)|soon as (it is|they are)",
    re.IGNORECASE,
)
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|vs|Fig|Eq|eq|cf|al|No)\.$")


def text_blocks(path: Path) -> list[str]:
    """Return the paragraphs, headings, list items and table cells of a file, without code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return python_blocks(text)
    if path.suffix == ".ipynb":
        text = "\n\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] != "code")
    return template_blocks(text) if path.suffix == ".jinja" else markdown_blocks(text)


def markdown_blocks(text: str) -> list[str]:
    """Return the prose of a Markdown page. Code, formulas, comments and the targets of links are left out."""
    text = re.sub(r"^( *)```.*?^\1```$", "\n\n", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->", "\n\n", text, flags=re.DOTALL)
    text = re.sub(r"`[^`]+`", "CODE", text)
    text = re.sub(r"\[([^\[\]]*)\]\([^()\s]*\)", r"\1", text)
    text = re.sub(r"<[^<>]+>", "", text)
    text = re.sub(r"^ *(\||#|[-*] |\d+\. |!!! |\?\?\? |: )", r"\n\n\1", text, flags=re.MULTILINE)  # each is a block
    text = re.sub(r"^ *\|.*", lambda row: row[0].replace("|", "\n\n"), text, flags=re.MULTILINE)
    return _paragraphs(text)


def template_blocks(text: str) -> list[str]:
    """Return the prose of an HTML template, without scripts, styles and expressions."""
    text = re.sub(r"<(script|style)\b.*?</\1>|\{[%#].*?[%#]\}", "\n\n", text, flags=re.DOTALL)
    text = re.sub(r"\{\{.*?\}\}", "VALUE", text, flags=re.DOTALL)
    text = re.sub(r"</?(a|b|strong|em|i|span|code|sub|sup)\b[^<>]*>", "", text)
    return _paragraphs(html.unescape(re.sub(r"<[^<>]*>", "\n\n", text)))


def python_blocks(source: str) -> list[str]:
    """Return the docstrings and the other strings of a Python file that have more than one word."""
    constants = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    strings = [value for value in constants if isinstance(value, str) and " " in value.strip()]
    code = re.compile(r"`[^`]+`|^ *(>>>|\.\.\. |python ).*|^ *\w+(, \w+)*$", re.MULTILINE)  # also names of parameters
    return [paragraph for string in strings for paragraph in _paragraphs(code.sub("CODE", string))]


def _paragraphs(text: str) -> list[str]:
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()]


def avoided_words(block: str) -> list[str]:
    """Return each word of a block that should not be there, with the word to write instead."""
    block = OTHER_MEANINGS.sub("", block)
    return [
        f"{match[0]!r} in {block[max(0, match.start() - 40) : match.end() + 40]!r}: write {words}"
        for pattern, words in AVOIDED.items()
        for match in pattern.finditer(block)
    ]


def tight_percent(text: str) -> list[str]:
    """Return the percentages in a text without a space before the sign, also those of format strings."""
    return re.findall(r"(?<!\w)\d+%(?![\w(])|:[+\d]*\.\d%\}", text)


def sentences(block: str) -> list[str]:
    """Return the sentences of a block."""
    parts = [""]
    for part in re.split(r"(?<=[.!?])(?:[\"'”)*_]*)\s+", block):
        parts[-1] = f"{parts[-1]} {part}".strip()
        if not ABBREVIATION.search(part):
            parts.append("")
    return [part for part in parts if part]


def long_sentences(block: str, max_words: int = MAX_WORDS) -> list[str]:
    """Return the sentences of a block that have too many words."""
    counts = {sentence: len(re.findall(r"\S*\w\S*", sentence)) for sentence in sentences(block)}
    return [f"{count} words: {sentence}" for sentence, count in counts.items() if count > max_words]


def semicolons(block: str) -> list[str]:
    """Return the block if it has a semicolon, except in I(X; Y) and in a formula."""
    return [block] if ";" in re.sub(r"\bI\([^()]*\)|\bI\(X; Y|\\;|\.\. math::.*", "", block) else []
