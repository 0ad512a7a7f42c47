"""A real PostgreSQL table and a Delta table: equal, or what is different."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from hybrid_extensions.cdc.compared.compared_table import ComparedTable
from hybrid_extensions.compare.compare_source import SourceComparison, compare_table
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from sources.common.schema import parse_schema
from sources.storage.folder import Folder
from tests.extensions import skip_without
from tests.services.captured_database import own_database

pytestmark = pytest.mark.slow

COLUMNS = {
    "id": "bigint",
    "raw": "binary",
    "ratio": "double",
    "tags": "array<string>",
    "sizes": "array<double>",
    "blobs": "array<binary>",
    "days": "array<date>",
}
VALUES: list[tuple[Any, ...]] = [
    (1, b"\x00\xff", float("nan"), ['a,"b', None, ""], [float("nan"), 0.1], [b"\x00", b""], []),
    (2, None, float("-inf"), [], [float("inf"), None], None, None),
]


@pytest.fixture
def dsn(postgres: LocalPostgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    skip_without("postgres")
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    with own_database(postgres) as made:
        yield made


def compared(dsn: str, path: Path, rows: list[tuple[Any, ...]]) -> SourceComparison:
    """Compare the values in PostgreSQL with these rows in Delta."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE compared (id bigint, raw bytea, ratio double precision, tags text[], "
            "sizes double precision[], blobs bytea[], days date[])"
        )
        for row in VALUES:
            connection.execute("INSERT INTO compared VALUES (%s, %s, %s, %s, %s, %s, %s)", row)
    columns = parse_schema(COLUMNS)
    arrays = [
        pa.array(values, field.type)
        for values, field in zip(zip(*rows, strict=True), columns, strict=True)
    ]
    write_deltalake(str(path), pa.table(arrays, schema=columns))
    asked = ComparedTable(dsn, "public.compared", COLUMNS, Folder(path))
    return compare_table(asked)


def test_equal_rows_with_arrays_bytes_and_numbers_that_are_not_finite(
    dsn: str, tmp_path: Path
) -> None:
    found = compared(dsn, tmp_path / "t", VALUES)
    assert (found.ok, found.rows, found.found) == (True, 2, 2), found.examples


@pytest.mark.parametrize(
    ("column", "other"), [("tags", ["a"]), ("blobs", [b"\x01", b""]), ("sizes", [0.0, 0.1])]
)
def test_another_value_within_an_array_is_a_difference(
    dsn: str, tmp_path: Path, column: str, other: list[Any]
) -> None:
    at = list(COLUMNS).index(column)
    changed = (*VALUES[0][:at], other, *VALUES[0][at + 1 :])
    found = compared(dsn, tmp_path / "t", [changed, VALUES[1]])
    assert (found.only_in_source, found.only_in_target) == (1, 1)
