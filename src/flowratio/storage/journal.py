"""Resume after a kill: a folder in which a run records its progress."""

from __future__ import annotations

from flowratio._support.journal import Batches, Entry, Journal

__all__ = ["Batches", "Entry", "Journal"]
