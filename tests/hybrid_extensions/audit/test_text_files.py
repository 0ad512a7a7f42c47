"""CSV and JSON lines of unusual forms: the audit reads what the runs read, by other means."""

from __future__ import annotations

import bz2
import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hybrid_extensions.audit.readers.text_rows.text_file_rows import load_rows, load_texts
from hybrid_extensions.comparison.duckdb_database import duckdb_types, open_database
from hybrid_extensions.text_files.csv.records import CsvRecords
from sources.common.schema import parse_schema
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.format_registry import format_of
from sources.formats.base import TEXT_COLUMNS
from sources.formats.file_regions import Region
from sources.formats.open_file import read_region
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from tests.hybrid_extensions.audit.audit_case import Case, row

NAMES = {"id": "bigint", "name": "string"}
ONE = {"name": "string"}
DEEP = b'{"id": 1, "name": "a", "more": ' + b"[" * 300 + b"]" * 300 + b"}\n"
Options = dict[str, Any]

# Name of the file, content, options of CSV, columns, and the rows that are right.
FILES: dict[str, tuple[str, bytes, Options, dict[str, str], list[tuple[Any, ...]]]] = {
    "no header": ("a.csv", b'1,a\n2,"b, c"\n', {"header": False}, NAMES, [(1, "a"), (2, "b, c")]),
    "no header and returns": ("a.csv", b"1,a\r2,b", {"header": False}, NAMES, [(1, "a"), (2, "b")]),
    "bz2": ("a.csv.bz2", bz2.compress(b"id,name\n1,a\n"), {}, NAMES, [(1, "a")]),
    "mixed ends": (
        "a.csv",
        b"id,name\r\n1,a\n2,b\r3,c\r\n",
        {},
        NAMES,
        [(1, "a"), (2, "b"), (3, "c")],
    ),
    "blank lines of one column": ("a.csv", b"name\na\n\nb\n\n", {}, ONE, [("a",), ("b",)]),
    "blank lines before the header": ("a.csv", b"\n\nid,name\n\n1,a\n", {}, NAMES, [(1, "a")]),
    "a mark": ("a.csv", b"\xef\xbb\xbfid,name\n1,a\n", {}, NAMES, [(1, "a")]),
    "quotes within": (
        "a.csv",
        b'id,name\n1,5" x\n2,"a""b"\n',
        {},
        NAMES,
        [(1, '5" x'), (2, 'a"b')],
    ),
    "names of others twice": ("a.csv", b"id,x,name,x\n1,2,a,3\n", {}, NAMES, [(1, "a")]),
    "escaped": (
        "a.csv",
        rb"""id,name
1,"He said \"hi\" twice"
2,C:\temp
3,"C:\\temp, x"
4,"5\""
5,"6\""
""",
        {"escape": "\\"},
        NAMES,
        [
            (1, 'He said "hi" twice'),
            (2, "C:\\temp"),
            (3, "C:\\temp, x"),
            (4, '5"'),
            (5, '6"'),
        ],
    ),
    "utf-16": (
        "a.csv",
        "id,name\n1,ö\n".encode("utf-16"),
        {"encoding": "utf-16"},
        NAMES,
        [(1, "ö")],
    ),
    "latin-1 packed": (
        "a.csv.gz",
        gzip.compress("id,größe,name\n1,2,ö\n".encode("latin-1")),
        {"encoding": "latin-1"},
        NAMES,
        [(1, "ö")],
    ),
    "several lines": (
        "a.csv",
        b'id,name\n1,"a\nb"\n2,"c\r\n""d"""\n',
        {"multiline": True},
        NAMES,
        [(1, "a\nb"), (2, 'c\r\n"d"')],
    ),
    "several lines escaped": (
        "a.csv",
        b'id,name\n1,"a\n\\"b"\n2,"c\\\\"\n',
        {"multiline": True, "escape": "\\"},
        NAMES,
        [(1, 'a\n"b'), (2, "c\\")],
    ),
    "quoted nulls": ("a.csv", b'id,name\n1,""\n2,\n', {}, NAMES, [(1, ""), (2, None)]),
    "other nulls": (
        "a.csv",
        b'id;name\n1;"NULL"\n2;NULL\n3;\n',
        {"null": ["NULL"], "delimiter": ";"},
        NAMES,
        [(1, "NULL"), (2, None), (3, "")],
    ),
    "json with returns": (
        "a.json",
        b'{"id": 1, "name": "a"}\r{"id": 2}\r\n{"id": 3}\n',
        {},
        NAMES,
        [(1, "a"), (2, None), (3, None)],
    ),
    "json with a mark": (
        "a.json",
        b'\xef\xbb\xbf{"id": 1}\n{"id": 2}',
        {},
        NAMES,
        [(1, None), (2, None)],
    ),
    "json with marks within": (
        "a.json",
        b'{"id": 1}\n\xef\xbb\xbf{"id": 2}\n\xef\xbb\xbf\n{"id": 3}',
        {},
        NAMES,
        [(1, None), (2, None), (3, None)],
    ),
    "json with floats between two others": (
        "a.json",
        b'{"f": 7.038531e-26}\n{"f": 1.00000017881393432617187499}\n{"f": 3.4028235677973366e38}',
        {},
        {"f": "float"},
        [(float(np.float32(number)),) for number in (7.0385307e-26, 1.0000001, 3.4028235e38)],
    ),
    "json with half of a character elsewhere": (
        "a.json",
        b'{"id": 1, "more": "\\ud800", "\\ud800": 1}\n{"id": 2}\n',
        {},
        NAMES,
        [(1, None), (2, None)],
    ),
    "deep json": ("a.json", DEEP, {}, NAMES, [(1, "a")]),
    "json with words in texts": (
        "a.json",
        b'{"id": 1, "name": ["NaN", "inf"]}\n{"id": 2, "name": ["a", "information"]}\n',
        {},
        {"id": "bigint", "name": "array<string>"},
        [(1, ["NaN", "inf"]), (2, ["a", "information"])],
    ),
    "deflate": (
        "a.csv.deflate",
        zlib.compress(b"1,a\n2,b\n", 0),
        {"header": False},
        {"n": "string", "name": "string"},
        [("1", "a"), ("2", "b")],
    ),
    "json in deflate": ("a.json.deflate", zlib.compress(b'{"id": 1}\n'), {}, NAMES, [(1, None)]),
    "json in bz2": ("a.json.bz2", bz2.compress(b'{"id": 1}\n'), {}, NAMES, [(1, None)]),
}


def declared(path: Path, options: Options, columns: dict[str, str], policy: str) -> FileSource:
    kind = "json" if ".json" in path.name else "csv"
    source = {"type": "files", "name": "history", "path": path.name, "format": kind}
    more = {"csv": options} if kind == "csv" else {}
    return FileSource.model_validate({**source, "schema": columns, "on_bad_record": policy, **more})


def by_runs(source: FileSource, path: Path) -> list[tuple[Any, ...]]:
    size = path.stat().st_size
    region = Region(str(path), 0, size, size)
    columns = parse_schema(source.columns or {})
    batches = read_region(format_of(source), region, columns, Stores(S3Settings()))
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def by_audit(source: FileSource, path: Path) -> list[tuple[Any, ...]]:
    (path.parent / "db").mkdir()
    kinds = duckdb_types(source.columns or {})
    columns = ", ".join(f"CAST({name} AS {kind})" for name, kind in kinds.items())
    with open_database(path.parent / "db", "1GB") as connection:
        rows = load_rows(connection, source, {str(path): {}}, "history.1")
        return [*connection.execute(f"SELECT {columns} FROM {rows} ORDER BY ALL").fetchall()]


@pytest.mark.parametrize("policy", ["fail", "drop"])
@pytest.mark.parametrize("case", FILES)
def test_runs_and_audit_read_the_rows_that_are_right(
    tmp_path: Path, case: str, policy: str
) -> None:
    name, content, options, columns, right = FILES[case]
    if options.get("multiline") and policy == "drop":
        pytest.skip("refused when it is declared")
    path = tmp_path / name
    path.write_bytes(content)
    source = declared(path, options, columns, policy)
    assert by_runs(source, path) == right
    assert by_audit(source, path) == right


def test_a_file_of_blank_lines_next_to_others_has_no_row(tmp_path: Path) -> None:
    for name, content in (("a.csv", "\n\n"), ("b.csv", "id,name\n1,a\n,\n"), ("c.csv", "id,name")):
        (tmp_path / name).write_text(content)
    source = declared(tmp_path / "a.csv", {}, NAMES, "fail")
    (tmp_path / "db").mkdir()
    with open_database(tmp_path / "db", "1GB") as connection:
        paths: dict[str, dict[str, str | None]] = {
            str(path): {} for path in sorted(tmp_path.glob("*.csv"))
        }
        rows = load_rows(connection, source, paths, "history.1")
        found = connection.execute(f"SELECT id, name FROM {rows} ORDER BY ALL").fetchall()
    assert found == [("1", "a"), (None, None)]


TEXTS = {
    "ends": ("a.log", b"a\r\nb\nc\rd\r\r\ne\n\nf", ["a", "b", "c", "d", "", "e", "", "f"]),
    "marks": ("a.log", "\ufeffa\n\ufeffb\n".encode(), ["a", "\ufeffb"]),
    "packed": ("a.log.gz", gzip.compress(b"a\n") + gzip.compress(b"b\x0b\x1c"), ["a", "b\x0b\x1c"]),
}


@pytest.mark.parametrize("case", TEXTS)
def test_lines_of_text_are_those_of_spark(tmp_path: Path, case: str) -> None:
    name, content, right = TEXTS[case]
    path = tmp_path / name
    path.write_bytes(content)
    declaration = {"type": "files", "name": "h", "path": name, "format": "text"}
    source = FileSource.model_validate({**declaration, "select": {"value": "value"}})
    region = Region(str(path), 0, path.stat().st_size, path.stat().st_size)
    batches = read_region(format_of(source), region, TEXT_COLUMNS, Stores(S3Settings()))
    assert [row["value"] for batch in batches for row in batch.to_pylist()] == right
    (tmp_path / "db").mkdir()
    with open_database(tmp_path / "db", "1GB") as connection:
        rows = load_texts(connection, {str(path): {"p": "x"}}, "h.1")
        found = connection.execute(f"SELECT * FROM {rows}").fetchall()
    assert found == [(text, "x") for text in right]


def test_a_line_that_is_no_text_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"a\n\xff\n")
    (tmp_path / "db").mkdir()
    with (
        open_database(tmp_path / "db", "1GB") as connection,
        pytest.raises(InputError, match=r"a\.log, byte 2: the line is not UTF-8"),
    ):
        load_texts(connection, {str(path): {}}, "h.1")


BAD = {
    "a.csv": [
        *[b'id,name\n1,"a"b\n', b'id,name\n1,"a\n2,b\n', b"id,name\n1,\xff\n"],
        *[b"id,nome\n1,a\n", b'id,name\n1,"a\\"b"\n'],
    ],
    "a.json": [
        *[b'{"id": 1}\n{"id": "x"}\n', b'{"id": 1, "id": 2}\n'],
        '{"id": 1}'.encode("utf-16-le"),
        b'{"id": 1, "name": "\\ud800"}\n{"id": 2}',
    ],
}


@pytest.mark.parametrize(
    ("name", "content"), [(name, each) for name, contents in BAD.items() for each in contents]
)
def test_what_runs_refuse_the_audit_refuses_too(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    source = declared(path, {}, NAMES, "fail")
    with pytest.raises(InputError, match=name):
        by_runs(source, path)
    with pytest.raises(InputError, match=name):
        by_audit(source, path)


@pytest.mark.parametrize(
    ("kind", "written"),
    [("decimal(38,35)", "{}"), ("struct<n:decimal(38,35),s:string>", '{{"n": {}, "s": "x"}}')],
)
def test_a_decimal_of_very_many_digits_is_bad_whatever_they_are(
    tmp_path: Path, kind: str, written: str
) -> None:
    path = tmp_path / "a.json"
    numbers = [written.format(f"1.{'0' * digits}") for digits in (45, 30)]
    path.write_text("".join(f'{{"id": {at}, "n": {n}}}\n' for at, n in enumerate(numbers, 1)))
    columns = {"id": "bigint", "n": kind}
    source = declared(path, {}, columns, "drop")
    assert [row[0] for row in by_audit(source, path)] == [2]
    with pytest.raises(InputError, match="byte 0: a decimal has more than 38 digits"):
        by_runs(source, path)


@pytest.mark.parametrize("kind", ["string", "map<string,string>"])
def test_objects_are_nested_as_deeply_as_in_spark(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.json"
    lines = [
        f'{{"id": {at}, "text": "{"[" * 2000}", "more": {"[" * depth}{"]" * depth}}}'
        for at, depth in enumerate([900, 1000])
    ]
    path.write_text("\n".join(lines))
    source = declared(path, {}, {"id": "bigint", "m": kind}, "drop")
    with pytest.raises(InputError, match="nested more than 1,000 levels deep") as told:
        by_runs(source, path)
    assert f"byte {len(lines[0]) + 1}: " in told.value.message
    assert by_audit(source, path) == [(0, None)]
    path.write_text(lines[0])
    assert by_runs(source, path) == [(0, None)]


def test_columns_that_no_row_has_are_told_as_run_and_audit_share_their_names(
    tmp_path: Path,
) -> None:
    case = Case(tmp_path)
    case.history([row(1)])
    other = {"at": "2013-01-01T02:00:00Z", "id": 2, "Origin": "LGA", "delay": 1.0}
    (tmp_path / "late.json").write_text(json.dumps(other))
    wrong = row(2, origin=None, seats=None, delay=1.0)
    case.target([row(1), wrong])
    report = case.audit(key=["id"])
    assert report.missing == report.unexpected == 0
    told = [note for note in report.notes if "no row has a value of" in note]
    assert len(told) == 1
    assert 'Source `late`: no row has a value of "origin", "seats".' in told[0]


def test_a_run_that_would_read_a_file_wrongly_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'id,name\n1,"a""b"\n2,"x"y\n')
    source = declared(path, {}, NAMES, "drop")
    monkeypatch.setattr(CsvRecords, "for_arrow", lambda _, text: text)
    assert by_runs(source, path) == [(1, 'a"b'), (2, "xy")]
    assert by_audit(source, path) == [(1, 'a"b')]
