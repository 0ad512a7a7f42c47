"""Bad rows of files: the audit finds the same ones as the runs, by other means."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import assume, given
from hypothesis import strategies as st

from hybrid_extensions.audit.readers.text_rows.text_file_rows import load_lines, load_rows
from hybrid_extensions.comparison.duckdb_database import open_database
from sources.common.schema import parse_schema
from sources.common.sql.sql_names import column_list
from sources.config.source.bad_record_policy import BadRecordCount, bad_count_name
from sources.config.source.file_source import FileSource
from sources.files.format_registry import format_of
from sources.formats.file_regions import Region
from sources.formats.lines import BadRow
from sources.formats.open_file import read_region
from sources.planning.plan import make_plan
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from spark_jobs.inside.readers.staged_bad_records import STAGED
from tests.hybrid_extensions.audit.audit_case import COLUMNS, Case, row, wrong
from tests.hybrid_extensions.text_files.test_lines import (
    BAD_CSV,
    BAD_JSON,
    KINDS,
    good_csv,
    good_json,
    is_taken_for_utf16,
)
from tests.properties import examples
from tests.random_tables.both_readers import comparable

STORES = Stores(S3Settings())


def source(kind: str, columns: dict[str, str], **more: Any) -> FileSource:
    declared = {"type": "files", "name": "late", "path": "*", "format": kind, "schema": columns}
    return FileSource.model_validate({**declared, "on_bad_record": "drop", **more})


def by_runs(declared: FileSource, path: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """Good rows, and where bad ones begin, as the runs have it."""
    assert declared.columns is not None
    size = path.stat().st_size
    bad: list[BadRow] = []
    region = Region(str(path), 0, size, size)
    columns = parse_schema(declared.columns)
    batches = read_region(format_of(declared), region, columns, STORES, bad.append)
    return [row for batch in batches for row in batch.to_pylist()], [row.offset for row in bad]


def by_audit(declared: FileSource, path: Path, folder: Path) -> tuple[list[Any], list[int]]:
    """The same as the audit has it; the rows as DuckDB has them."""
    folder.mkdir()
    with open_database(folder, "1GB") as connection:
        table = load_lines(connection, declared, {str(path): {}}, "late.1", "audit.bad")
        names = column_list(declared.columns or {})
        rows = connection.execute(f"SELECT {names} FROM {table} ORDER BY _offset").fetchall()
        bad = connection.execute("SELECT _offset FROM audit.bad ORDER BY ALL").fetchall()
    return rows, [offset for (offset,) in bad]


NUMBERS = ["1", "-1", "-0", "1.5", "1e3", "127", "128", "9223372036854775808", "0.1", "1.555"]
TIMES = [
    *["2024-01-01", "2024-01-01T12:00:00Z", "2024-01-01 12:00:00", "2024-01-01T12:00"],
    *["2024-01-01T12:00:00+02:00", "2024-01-01T12:00:00+0200", "2024-01-01T12:00:00.123456-02"],
    *["1969-12-31 23:59:59.9999999", "2024-01-01T12:00:00.123456789012+02:00", "-2024-01-01"],
    *["2024-01-01T12:00:00.1234567Z", "2024-01-01T24:00:00Z", "2024-01-01T23:59:60Z"],
    *["2024-13-01", "2024-02-30", "2024-1-1", "2024/01/01", "20240101", "2024-01-01Z", "12:00"],
    *["2024-01-01T12:00:00 Z", "2024-01-01t12:00:00", "2024-01-01T12:00:00.Z", "10000-01-01"],
    *["2024-01-01T12", "2024-01-01 12Z", "2024-01-01T12+02:00", "2024-01-01T12:00:00+23:59"],
    *["2024-01-01T12:00:00+24:00", "2024-01-01T12:00:00+24", "2024-01-01T12:00:00+02:60"],
    *["epoch", "infinity", "today", " 2024-01-01", "2024-01-01 ", ""],
]
WORDS = ["true", "True", "TRUE", "t", "yes", "tRue", "x", " ", "nan", "+inf", "Infinity", "1d"]
ODD = ["+1", "01", "0x1F", "1_000", " 7", "7 ", ".5", "5.", ".", "1e", "--1", "1,5", "12345678.12"]
SCALARS = ["boolean", "tinyint", "int", "bigint", "float", "double", "decimal(9,2)", "string"]
SCALARS += ["timestamp", "date"]


@pytest.mark.parametrize("kind", SCALARS)
def test_whether_a_text_fits_is_told_alike_in_csv(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "late.csv"
    texts = [*NUMBERS, *TIMES, *WORDS, *ODD, '"1"', '""', '"x', '"true"', "é", "NA"]
    path.write_text("n;x\n" + "".join(f"{n};{text}\n" for n, text in enumerate(texts)))
    declared = source(
        "csv", {"n": "int", "x": kind}, csv={"delimiter": ";", "null": ["NA", "NULL"]}
    )
    good, bad = by_runs(declared, path)
    rows, found = by_audit(declared, path, tmp_path / "scratch")
    assert bad == found
    assert [each["n"] for each in good] == [int(n) for n, _ in rows]
    assert [each["x"] is None for each in good] == [x is None for _, x in rows]


@pytest.mark.parametrize(
    "kind", [*SCALARS, "array<int>", "struct<a:int,b:array<struct<c:date>>>", "array<string>"]
)
def test_whether_a_value_fits_is_told_alike_in_json(tmp_path: Path, kind: str) -> None:
    if "date" in kind and kind != "date":
        kind = kind.replace("date", "timestamp")
    path = tmp_path / "late.json"
    values = [*NUMBERS, *(json.dumps(text) for text in [*NUMBERS, *TIMES, *WORDS, *ODD])]
    values += ["true", "null", "[]", "{}", "[1]", "[null]", '["x"]', "[1.5]", '[{"c": 1}]', "[[]]"]
    values += ['{"a": 1}', '{"a": "1"}', '{"b": [{"c": "2024-01-01"}]}', '{"b": [{"c": "x"}]}']
    values += ['{"a": 1, "a": 2}', '{"b": [{"c": null, "c": null}]}', '{"x": 1, "x": 2}']
    values += ['{"b": [{"c": null}, null]}', '{"b": [1]}', '{"b": {}}', '1, "x": 2', "01", "'a'"]
    path.write_text("".join(f'{{"n": {n}, "x": {text}}}\n' for n, text in enumerate(values)))
    declared = source("json", {"n": "int", "x": kind})
    good, bad = by_runs(declared, path)
    rows, found = by_audit(declared, path, tmp_path / "scratch")
    assert bad == found
    assert [(each["n"], each["x"] is None) for each in good] == [(n, x is None) for n, x in rows]


ODD_JSON = {
    "decimal(12,2)": ["1e-77", "123e-10000000", '"1e2"', "1.999", "1E3", "true"],
    "decimal(38,10)": ["1e20", "1e27", "-1e-11", "0.12345678905", "1234567890123456789.0123456789"],
    "timestamp": [f'"{text}"' for text in TIMES],
    "binary": ['"AAE="', '"AA"', '"x"', '""', "1"],
    "double": ["1e400", "NaN", '"-INF"', '"1.5"', "Infinity", "5e-324"],
    "int": ["1.0", '"1"', "2147483648", "[]"],
}


@pytest.mark.parametrize(
    ("shape", "around"),
    [
        ("%s", "%s"),
        ("array<%s>", "[null, %s]"),
        ("struct<a:array<map<string,%s>>>", '{"a": [{"k": %s}]}'),
    ],
)
def test_odd_values_inside_of_others_are_those_of_the_runs(
    tmp_path: Path, shape: str, around: str
) -> None:
    columns = {"n": "int", **{f"c{at}": shape % kind for at, kind in enumerate(ODD_JSON)}}
    texts = [(at, around % text) for at, of in enumerate(ODD_JSON.values()) for text in of]
    lines = [f'{{"n": {n}, "c{at}": {text}}}\n' for n, (at, text) in enumerate(texts)]
    path = tmp_path / "late.json"
    path.write_text("".join(lines))
    declared = source("json", columns)
    good, bad = by_runs(declared, path)
    kinds = parse_schema(columns)
    expected = [[comparable(row[field.name], field.type) for field in kinds] for row in good]
    (tmp_path / "all").mkdir()
    with open_database(tmp_path / "all", "1GB") as connection:
        table = load_lines(connection, declared, {str(path): {}}, "late.1", "audit.bad")
        assert shown(connection, table, columns) == expected
        found = connection.execute("SELECT _offset FROM audit.bad ORDER BY ALL").fetchall()
    assert [offset for (offset,) in found] == bad
    path.write_text("".join(lines[row["n"]] for row in good))
    (tmp_path / "good").mkdir()
    with open_database(tmp_path / "good", "1GB") as connection:
        failing = source("json", columns, on_bad_record="fail")
        table = load_rows(connection, failing, {str(path): {}}, "late.1")
        assert shown(connection, table, columns) == expected


def shown(connection: Any, table: str, columns: dict[str, str]) -> list[list[Any]]:
    """The rows of a table, in the order of `n`."""
    found = connection.sql(f"SELECT {column_list(columns)} FROM {table} ORDER BY n")
    rows = found.to_arrow_table()
    return [
        [comparable(row[field.name], field.type) for field in rows.schema]
        for row in rows.to_pylist()
    ]


@examples(25)
@given(
    kind=st.sampled_from(["json", "csv"]),
    numbers=st.lists(st.integers(-6, 25), max_size=30),
    is_packed=st.booleans(),
    end=st.sampled_from([b"\n", b"\r\n"]),
)
def test_bad_lines_are_found_where_the_runs_find_them(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    numbers: list[int],
    is_packed: bool,
    end: bytes,
) -> None:
    folder = tmp_path_factory.mktemp("lines")
    good, wrong = (good_json, BAD_JSON) if kind == "json" else (good_csv, BAD_CSV)
    lines = [wrong[n % len(wrong)] if n > 0 else good(n) if n else b"" for n in numbers]
    content = end.join(lines)
    assume(not is_taken_for_utf16(content))
    path = folder / ("late.gz" if is_packed else "late")
    path.write_bytes(gzip.compress(content) if is_packed else content)
    declared = source(kind, KINDS, **({"csv": {"header": False}} if kind == "csv" else {}))
    rows, bad = by_runs(declared, path)
    found, places = by_audit(declared, path, folder / "scratch")
    assert bad == places
    assert [(each["id"], each["name"]) for each in rows] == [(int(r[0]), r[1]) for r in found]


@pytest.mark.parametrize("more", [{}, {"discovery_interval": "1 s"}], ids=["files", "folder"])
def test_bad_rows_are_no_input_and_must_all_have_been_met(
    tmp_path: Path, more: dict[str, str]
) -> None:
    case = Case(tmp_path)
    (tmp_path / "transforms.py").write_text("def identity(rows):\n    return rows\n")
    rows = [row(n) for n in range(6)]
    case.history(rows[:3])
    lines = [json.dumps({**each, "at": each["at"].isoformat()}) for each in rows[3:]]
    (tmp_path / "late.json").write_text("\n".join([lines[0], "null", *lines[1:], '{"id": "x"}']))
    late = {"type": "files", "name": "late", "path": "*.json", "format": "json", "schema": COLUMNS}
    late = {**late, **more, "on_bad_record": "quarantine"}
    history = {"type": "files", "name": "history", "path": "history/*", "format": "parquet"}
    changed = {"sources": [history, late]}
    case.target(rows)
    loaded = case.loaded(**changed)
    report = case.audit(**changed)
    assert wrong(report) == {}
    assert [(line.found, line.counted) for line in report.bad_records] == [(2, None)]
    make_plan(loaded)
    # What arrives later is another plan's.
    (tmp_path / "later.json").write_text("x")
    line = case.audit(**changed).bad_records[0]
    assert (line.found, line.counted, line.lacking, line.outcome) == (2, 0, 2, "differs")
    generation = loaded.require_generation()
    generation.replace(bad_count_name("late"), BadRecordCount(source="late", total=2, last_batch=0))
    path = str(tmp_path / "late.json")
    offset = len(lines[0]) + 1
    found = [(path, None, at) for at in (offset, (tmp_path / "late.json").read_text().rindex("{"))]
    for number, (place, part, at) in enumerate(found):
        kept = pa.Table.from_pylist([{"place": place, "partition": part, "offset": at}], STAGED)
        write_deltalake(str(generation.path("quarantine/late")), kept, mode="append")
        line = case.audit(**changed).bad_records[0]
        assert (line.lacking, line.outcome) == (1 - number, "agrees" if number else "differs")
