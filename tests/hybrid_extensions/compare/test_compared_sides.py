"""Both sides of a comparison, without a database."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from hybrid_extensions.cdc.compared.compared_table import ComparedTable
from hybrid_extensions.compare import compared_sides as module
from hybrid_extensions.compare.compare_source import compare_table
from hybrid_extensions.comparison.duckdb_database import exact_cast
from hybrid_extensions.mariadb import compared_rows as mariadb
from hybrid_extensions.postgres import compared_rows as postgres
from sources.common.schema import parse_type
from sources.errors import InputError
from sources.storage.folder import Folder

LONG_ROWS = "SELECT range AS id, repeat('x', 4000000) || range AS note FROM range(60)"


def test_rows_that_need_more_memory_than_a_comparison_takes_are_an_error_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MEMORY_LIMIT", "20MB")
    rows = SimpleNamespace(write_rows=lambda *_: LONG_ROWS, quote=str)
    monkeypatch.setattr(module, "rows_of", lambda _: rows)
    write_deltalake(str(tmp_path / "out"), pa.table({"id": [1], "note": ["x"]}))
    columns = {"id": "bigint", "note": "string"}
    asked = ComparedTable("own://db", "public.orders", columns, Folder(tmp_path / "out"))
    with pytest.raises(
        InputError, match=r"^The rows of `public\.orders` can't be compared: "
    ) as seen:
        compare_table(asked)
    assert "`ignored_columns`" in seen.value.hint


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        # A CAST would make the target's values of them.
        ("decimal(10,2)", "12.5001", "more digits than DECIMAL"),
        ("int", "12.5", "more digits than INT"),
        ("int", "3000000000", "INT32"),
        ("decimal(10,2)", "123456789.00", "DECIMAL"),
        ("decimal(10,2)", "NaN", "NaN"),
        ("date", "no date", "no date"),
    ],
)
def test_a_value_that_no_longer_fits_its_column_is_an_error_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, value: str, why: str
) -> None:
    query = f"SELECT {exact_cast('note', parse_type(kind))} AS note FROM (SELECT '{value}' AS note)"
    rows = SimpleNamespace(write_rows=lambda *_: query, quote=str)
    monkeypatch.setattr(module, "rows_of", lambda _: rows)
    written = pa.table({"note": pa.array([None], parse_type(kind))})
    write_deltalake(str(tmp_path / "out"), written)
    asked = ComparedTable("own://db", "public.orders", {"note": kind}, Folder(tmp_path / "out"))
    with pytest.raises(InputError, match=why) as seen:
        compare_table(asked)
    assert "`widened_columns`" in seen.value.hint


def test_each_kind_of_database_reads_numbers_so() -> None:
    kind = parse_type("decimal(10,2)")
    assert postgres._parsed("note", kind) == exact_cast("note", kind)
    assert mariadb._parsed("note", kind, "decimal") == exact_cast("note", kind)


@pytest.mark.parametrize(
    ("kind", "value"), [("decimal(10,2)", "-12.5000"), ("decimal(10,2)", "7"), ("int", "-12.00")]
)
def test_zeros_behind_the_point_are_no_further_digits(kind: str, value: str) -> None:
    read = exact_cast("note", parse_type(kind))
    query = f"SELECT {read} FROM (SELECT '{value}' AS note)"
    [(found,)] = duckdb.connect().execute(query).fetchall()
    assert found == Decimal(value)


@pytest.mark.parametrize(
    ("declared", "source", "stored", "is_equal"),
    [
        ("float", "0.1::FLOAT", "0.1::DOUBLE", False),
        ("float", "0.1::FLOAT", "0.1::FLOAT::DOUBLE", True),
        ("double", "0.1::DOUBLE", "0.1::FLOAT", False),
        ("decimal(10,2)", "1.50::DECIMAL(10,2)", "1.5011::DECIMAL(12,4)", False),
        ("decimal(10,2)", "1.50::DECIMAL(10,2)", "1.5::DECIMAL(12,4)", True),
        ("date", "'2024-01-01'::DATE", "'2024-01-01 10:00:00+00'::TIMESTAMPTZ", False),
        ("date", "'2024-01-01'::DATE", "'2024-01-01 00:00:00+00'::TIMESTAMPTZ", True),
        ("bigint", "1::BIGINT", "1.4::DOUBLE", False),
        ("int", "7", "7::BIGINT", True),
    ],
)
def test_a_value_of_the_target_is_not_rounded_to_the_type_of_the_database(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    declared: str,
    source: str,
    stored: str,
    is_equal: bool,
) -> None:
    rows = SimpleNamespace(write_rows=lambda *_: f"SELECT 1 AS id, {source} AS v", quote=str)
    monkeypatch.setattr(module, "rows_of", lambda _: rows)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        target = connection.sql(f"SELECT 1 AS id, {stored} AS v").to_arrow_table()
    write_deltalake(str(tmp_path / "out"), target)
    columns = {"id": "int", "v": declared}
    asked = ComparedTable("own://db", "public.orders", columns, Folder(tmp_path / "out"))
    assert compare_table(asked).ok is is_equal
