"""The kind of a file, by its ending and its first bytes. A file of another program is refused by its name.

Only the standard library is imported, so that the command line can check its files at once.
"""

from __future__ import annotations

import json
import zipfile
from enum import Enum
from pathlib import Path
from typing import NamedTuple

_HEAD_BYTES = 512
_LINE_BYTES = 1 << 20  # of the first line of JSON lines


class FileKind(Enum):
    """A kind of file that can be read. The value is what errors call it."""

    CSV = "CSV"
    PARQUET = "Parquet"
    ARROW = "Arrow (Feather)"
    JSON_LINES = "JSON lines"
    EXCEL = "Excel"
    NPY = "NPY"
    NPZ = "NPZ"
    GZIP = "gzip"


class _Foreign(NamedTuple):
    """A kind of file that cannot be read: what it is, what to do, its endings, and how such files begin."""

    name: str
    advice: str
    endings: tuple[str, ...] = ()
    beginnings: tuple[bytes, ...] = ()


_RULE = "A table must be CSV, Parquet, Feather, JSON lines, Excel (.xlsx), NPY or NPZ"
_ENDINGS = {
    **dict.fromkeys((".csv", ".tsv", ".tab", ".txt"), FileKind.CSV),
    **dict.fromkeys((".parquet", ".pq"), FileKind.PARQUET),
    **dict.fromkeys((".feather", ".arrow", ".arrows", ".ipc"), FileKind.ARROW),
    **dict.fromkeys((".jsonl", ".ndjson"), FileKind.JSON_LINES),
    **dict.fromkeys((".xlsx", ".xlsm"), FileKind.EXCEL),
    ".npy": FileKind.NPY,
    ".npz": FileKind.NPZ,
    ".gz": FileKind.GZIP,
}
_BINARY = {FileKind.PARQUET, FileKind.ARROW, FileKind.EXCEL, FileKind.NPY, FileKind.NPZ, FileKind.GZIP}
_FIRST_BYTES = {
    b"ARROW1\0\0": FileKind.ARROW,
    b"\xff\xff\xff\xff": FileKind.ARROW,  # a stream of Arrow
    b"\x93NUMPY": FileKind.NPY,
    b"\x1f\x8b": FileKind.GZIP,
}
_AS_CSV, _UNPACK = "Save the table as CSV", "Unpack it, and use the file in it"
_AS_EXCEL = "Save it as .xlsx or as CSV"
_AS_LINES = "Write one JSON object per line, such as df.to_json(path, orient='records', lines=True)"
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # of Office documents before 2007
_STATA_10 = tuple(bytes([version, order, 1]) for version in (113, 114, 115) for order in (1, 2))
_PICKLED = tuple(bytes([0x80, protocol]) for protocol in (2, 3, 4, 5))
_EXCEL_BINARY = _Foreign("a binary Excel workbook", _AS_EXCEL, (".xlsb",))
_OPEN_DOCUMENT = _Foreign("an OpenDocument file", _AS_EXCEL, (".ods", ".odt"))
_WORD = _Foreign("a Word document", _AS_CSV, (".doc", ".docx", ".rtf"))
_FEATHER_1 = _Foreign("a Feather file of version 1", "Write it again as version 2, or as Parquet")
_DUCKDB = _Foreign("a DuckDB database", "Export one table with COPY table TO 'table.parquet'", (".duckdb",))
_TAR = _Foreign("a tar archive", _UNPACK, (".tar", ".tgz"))
_HTML = _Foreign("a web page (HTML)", "Download the file itself, or save its table as CSV", (".html", ".htm"))
_XML = _Foreign("an XML file", _AS_CSV, (".xml",))
_COMPRESSED = _Foreign(
    "compressed in a way that is not gzip",
    _UNPACK,
    (".bz2", ".xz", ".zst", ".7z", ".rar", ".lz4"),
    (b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf", b"Rar!\x1a"),
)
_FOREIGN = (
    *(_EXCEL_BINARY, _OPEN_DOCUMENT, _WORD, _FEATHER_1, _DUCKDB, _TAR, _HTML, _XML, _COMPRESSED),
    _Foreign("an old Excel workbook (.xls)", _AS_EXCEL, (".xls",), (_OLE,)),
    _Foreign("an SPSS file", "Save it as CSV in SPSS", (".sav", ".zsav", ".por"), (b"$FL2@(#)", b"$FL3@(#)")),
    _Foreign("a Stata file", "Use pandas.read_stata and to_parquet", (".dta",), (b"<stata_dta>", *_STATA_10)),
    _Foreign(
        "a SAS file",
        "Use pandas.read_sas and to_parquet",
        (".sas7bdat", ".xpt"),
        (b"\0" * 12 + b"\xc2\xea\x81\x60", b"HEADER RECORD*******"),
    ),
    _Foreign(
        "a pickle, which is never loaded because it can run code",
        "Write the table with to_parquet",
        (".pkl", ".pickle", ".joblib"),
        _PICKLED,
    ),
    _Foreign(
        "an R data file",
        "Write the table in R with write.csv(table, path, row.names = FALSE)",
        (".rds", ".rda", ".rdata"),
        (b"X\n\0\0\0", b"RDX2\n", b"RDX3\n"),
    ),
    _Foreign("an HDF5 file", "Use pandas.read_hdf and to_parquet", (".h5", ".hdf5", ".hdf"), (b"\x89HDF\r\n\x1a\n",)),
    _Foreign("a MATLAB file", "Use writetable in MATLAB", (".mat",), (b"MATLAB 5.0 MAT-file",)),
    _Foreign("an SQLite database", "Export one table as CSV", (".db", ".sqlite", ".sqlite3"), (b"SQLite format 3\0",)),
    _Foreign(
        "a Git LFS pointer, which has the address of a file and not its rows",
        "Run `git lfs pull` in the repository to download the file",
        beginnings=(b"version https://git-lfs.github.com/spec/",),
    ),
    _Foreign("an ORC file", "Use pandas.read_orc and to_parquet", (".orc",)),
    _Foreign("an Avro file", "Use polars.read_avro and write_parquet", (".avro",), (b"Obj\x01",)),
    _Foreign("a PDF document", _AS_CSV, (".pdf",), (b"%PDF-",)),
    _Foreign("a YAML file", _AS_CSV, (".yaml", ".yml")),
    _Foreign("one JSON document", _AS_LINES, (".json",)),
    _Foreign(
        "an image",
        "Write the pixels of all images as one matrix with np.save",
        (".png", ".jpg", ".jpeg", ".gif", ".tif", ".tiff"),
        (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF89a"),
    ),
)
_MARKS = {8: (b"DUCK", _DUCKDB), 257: (b"ustar", _TAR), 4: (b"1AY&SY", _COMPRESSED)}  # by their place, in binary files
_AT_BOTH_ENDS = {b"PAR1": FileKind.PARQUET, b"FEA1": _FEATHER_1}  # text may begin with one: a column PAR1


def file_kind(path: Path, name: str, ending: str | None = None) -> FileKind:
    """Return the kind of a file, by its ending or else by its first bytes. Errors call the file `name`.

    `ending` is that of the path if None. A file that cannot be read raises an error that names what it is.
    """
    head = _beginning(path, name)
    ending = path.suffix.lower() if ending is None else ending.lower()
    content = _kind_of_content(path, head)
    if isinstance(content, _Foreign):
        raise _refusal(name, content)
    if ending in _ENDINGS:
        kind = _ENDINGS[ending]
        if content is None and kind in _BINARY and _is_text(head):
            content = FileKind.CSV
        if content not in (None, kind):
            raise _wrong_ending(path, name, content)
        return kind
    foreign = next((one for one in _FOREIGN if ending in one.endings), None)
    if content is None and foreign is not None:
        raise _refusal(name, foreign)
    return content or FileKind.CSV


def _wrong_ending(path: Path, name: str, content: FileKind) -> ValueError:
    ending = next(ending for ending, kind in _ENDINGS.items() if kind is content)
    new = path.stem.removesuffix(ending) + ending  # rows.csv.gz may be text
    article = "an" if content.value[0] in "AEN" else "a"
    return ValueError(f"{name} is {article} {content.value} file. Rename it to {new}.")


def _is_text(head: bytes) -> bool:
    """Return whether the first bytes of a file are text: no control characters except white space."""
    return not any(byte < 32 and byte not in b"\t\n\r\f" for byte in head)


def _refusal(name: str, foreign: _Foreign) -> ValueError:
    return ValueError(f"{name} is {foreign.name}. {_RULE}. {foreign.advice}.")


def _beginning(path: Path, name: str) -> bytes:
    """Return the first bytes of a file that exists and is not empty."""
    if not path.exists():
        raise FileNotFoundError(f"There is no file {name}. Check the path.")
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise type(error)(f"Cannot read {name} ({error.strerror}). Check its permissions.") from error
    if not head:
        raise ValueError(f"{name} is empty (0 bytes). A table must have at least one row. Write the file again.")
    return head


def _kind_of_content(path: Path, head: bytes) -> FileKind | _Foreign | None:
    """Return the kind of which the first bytes are typical. None for text and for all that is not known."""
    if head.startswith(b"PK\x03\x04"):
        return _kind_of_archive(path)
    kind = next((kind for beginning, kind in _FIRST_BYTES.items() if head.startswith(beginning)), None)
    kind = kind or next((foreign for foreign in _FOREIGN if head.startswith(foreign.beginnings)), None)
    if kind is not None:
        return kind
    for mark, kind in _AT_BOTH_ENDS.items():
        if head.startswith(mark) and _ends_with(path, mark):
            return kind
    for place, (mark, kind) in _MARKS.items():
        if head[place : place + len(mark)] == mark and b"\0" in head:
            return kind
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if text.startswith((b"<!doctype html", b"<html")):
        return _HTML
    if text.startswith(b"<?xml"):
        return _XML
    return FileKind.JSON_LINES if text.startswith(b"{") and _has_json_line(path) else None


def _kind_of_archive(path: Path) -> FileKind | _Foreign | None:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return None  # damaged: the reader of the ending describes it
    if "xl/workbook.xml" in names:
        return FileKind.EXCEL
    if "xl/workbook.bin" in names:
        return _EXCEL_BINARY
    if "word/document.xml" in names:
        return _WORD
    if "mimetype" in names:
        return _OPEN_DOCUMENT
    if not names or any(name.endswith(".npy") for name in names):
        return FileKind.NPZ
    return _Foreign(f"a zip archive of {', '.join(map(repr, names[:3]))}{', …' * (len(names) > 3)}", _UNPACK)


def _ends_with(path: Path, mark: bytes) -> bool:
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - len(mark)))
        return file.read() == mark


def _has_json_line(path: Path) -> bool:
    """Return whether the first line that is not blank is one JSON object."""
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        line = next((line for line in iter(lambda: file.readline(_LINE_BYTES), "") if line.strip()), "")
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return len(line) >= _LINE_BYTES
