from __future__ import annotations

from flowratio._support.chunks import chunks


def test_wide_rows_come_in_chunks_of_at_least_64() -> None:
    assert list(chunks(100, 1 << 14)) == [slice(0, 64), slice(64, 100)]
