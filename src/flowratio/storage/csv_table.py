"""A CSV file, read in blocks as unchanged text."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc

from flowratio.samples.files import unreadable
from flowratio.storage.csv_layout import csv_layout, line_of, no_rows, not_utf8
from flowratio.storage.table_file import BATCH_ROWS, Frames, TableFile, batch_frame

_OPEN_QUOTE = "{} has a quote that is not closed. Close it."
_BLOCK_BYTES = 1 << 22  # of a CSV file that are parsed at a time: no row may be longer than two of them


class CsvTable(TableFile):
    """A CSV file of unchanged text. A blank line is left out, or is a missing value if there is one column."""

    def __init__(self, path: Path, name: str, separator: str) -> None:
        self.layout = csv_layout(path, name, separator)
        super().__init__(path, name, self.layout.columns)
        self.index = [column for column in self.columns if not column]
        self.n_rows, self.separator = self.layout.n_rows, self.layout.separator

    def pieces(self, names: list[str], rows: int, skip: int) -> Frames:
        bad_rows: list[pc.InvalidRow] = []

        def refuse(row: pc.InvalidRow) -> str:
            bad_rows.append(row)
            return "error"

        reading = pc.ReadOptions(column_names=self.columns, block_size=_BLOCK_BYTES, use_threads=False)
        parsing = pc.ParseOptions(delimiter=self.separator, newlines_in_values=True, invalid_row_handler=refuse)
        parsing.ignore_empty_lines = len(self.columns) > 1
        conversion = pc.ConvertOptions(strings_can_be_null=True, null_values=[""])
        conversion.quoted_strings_can_be_null = False  # a missing value has not even quotes, and is written so again
        conversion.column_types = dict.fromkeys(self.columns, pa.string())
        last_column, last_value = self.columns[-1], ""
        conversion.include_columns = list(dict.fromkeys([*names, last_column]))
        try:
            with pa.OSFile(str(self.path)) as file:
                file.seek(self.layout.offset)
                for batch in pc.open_csv(file, reading, parsing, conversion):
                    skipped = min(skip, len(batch))
                    skip -= skipped
                    yield batch_frame(batch.slice(skipped).select(names))
                    last_value = (batch.column(last_column)[-1].as_py() or "") if len(batch) else ""
        except pa.ArrowInvalid as error:
            raise self._error(bad_rows, error) from error
        if len(last_value.splitlines()) > 1 and not self._ends_with_quote():
            raise ValueError(_OPEN_QUOTE.format(self.name))

    def count_rows(self) -> int:
        return sum(map(len, self.pieces(self.columns[:1], BATCH_ROWS, 0)))

    def place(self, row: int) -> str:
        line = line_of(self.path, self.layout, row)
        return super().place(row) if line is None else f"line {line} of {self.name}"

    def _ends_with_quote(self) -> bool:
        with open(self.path, "rb") as file:
            file.seek(max(self.layout.offset, self.path.stat().st_size - 4096))
            return file.read().rstrip().endswith(b'"')

    def _error(self, bad_rows: list[pc.InvalidRow], error: Exception) -> ValueError:
        if bad_rows:
            row = bad_rows[0]
            line = line_of(self.path, self.layout, (row.number or 1) - 1)
            where = f"row {row.number} below the header" if line is None else f"line {line}"
            counts = f"{row.actual_columns} values in {where}, but its header has {row.expected_columns} names"
            return ValueError(f"{self.name} has {counts}. Both must agree. Look for a stray separator or quote.")
        with open(self.path, "rb") as file:
            file.seek(self.layout.offset)
            n_quotes, n_bytes = 0, 0
            while block := file.read(_BLOCK_BYTES):
                n_quotes, n_bytes = n_quotes + block.count(b'"'), n_bytes + len(block.strip())
        if n_bytes == 0:
            return no_rows(self.name)
        if n_quotes % 2:
            return ValueError(_OPEN_QUOTE.format(self.name))
        return not_utf8(self.path, self.name) or unreadable(self.name, "CSV", error)
