"""How the benchmarks print: Markdown tables, with numbers next to their bounds."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table, each row when it comes."""
    print(f"\n| {' | '.join(header)} |\n|{'---|' * len(header)}", flush=True)
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def short(value: float) -> str:
    """Write a number with two or three digits that count: 0.012, 0.50, 12.3, 1234. A dash if there is none."""
    if math.isnan(value):
        return "–"
    digits = next((k for k, limit in ((3, 0.1), (2, 10), (1, 100)) if abs(value) < limit), 0)
    return f"{value:.{digits}f}"


def verdict(reached: bool) -> str:
    """Return whether a bound is met, as text."""
    return "PASS" if reached else "short"


def run_sections(sections: dict[str, Callable[[], None]]) -> None:
    """Run the sections that the command line names, or all."""
    names = sys.argv[1:] or list(sections)
    if unknown := [name for name in names if name not in sections]:
        sys.exit(f"{', '.join(unknown)}: no such section. Choose from {', '.join(sections)}, or name none for all.")
    for name in names:
        sections[name]()
