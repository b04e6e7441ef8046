"""Names of files, columns and categories for people: control characters are escaped, long names are shortened."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import PurePath
from typing import Any

from flowratio._support.wording import shown

MAX_LENGTH = 80  # characters of a name
MAX_SENTENCE = 1_500  # characters of a text with names in it


def legible_evidence(evidence: dict[str, Any]) -> dict[str, Any]:
    """Return evidence in which every text is legible, also sentences that contain long names."""
    long_names = _distinct(sorted(name for name in _names(evidence) if len(name) > MAX_LENGTH))
    pattern = re.compile("|".join(map(re.escape, sorted(long_names, key=len, reverse=True))) or r"(?!)")

    def text_of(text: str) -> str:
        if text in long_names or len(text) <= MAX_LENGTH:
            return long_names.get(text) or shown(text, MAX_LENGTH)
        return shown(pattern.sub(lambda match: long_names[match.group()], text), MAX_SENTENCE)

    def plain(value: Any) -> Any:
        if isinstance(value, str):
            return text_of(value)
        if isinstance(value, dict):
            return {text_of(key): plain(part) for key, part in value.items()}
        return [plain(part) for part in value] if isinstance(value, list) else value

    paths = {key: evidence["origin"][key] for key in ("file_p", "file_q")}  # `file_names` shortens them
    legible = plain(evidence)
    return {**legible, "origin": {**legible["origin"], **paths}}


def _distinct(names: list[str]) -> dict[str, str]:
    """Return short names that all differ: the second one of a kind ends in " (2)"."""
    counts: Counter[str] = Counter()
    texts = {}
    for name in names:
        text = shown(name, MAX_LENGTH)
        counts[text] += 1
        texts[name] = text if counts[text] == 1 else f"{text} ({counts[text]})"
    return texts


def _names(evidence: dict[str, Any]) -> set[str]:
    """Return the names of files, columns and categories in the evidence."""
    names = {evidence["origin"]["file_p"], evidence["origin"]["file_q"], *evidence["diagnosis"]["balance"]["names"]}
    for column in evidence["columns"]:
        changes = column.get("changes") or {}
        parts = [column.get("categories", []), *(changes.get(kind, []) for kind in ("new", "vanished", "changed"))]
        names |= {column["name"], *(one["category"] for part in parts for one in part)}
    return names


def file_names(origin: dict[str, Any]) -> tuple[str, str]:
    """Return short names of both files, first that of p: without their folders, if they still differ."""
    paths = [origin["file_p"], origin["file_q"]]
    short = [PurePath(path).name or path for path in paths]
    p, q = (shown(name, MAX_LENGTH) for name in (short if short[0] != short[1] else paths))
    return p, q
