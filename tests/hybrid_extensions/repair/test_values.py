"""Every value comes out of a repair as the snapshot has read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from hybrid_extensions.comparison.duckdb_database import create_empty_table, insert_arrow
from hybrid_extensions.repair.compared_rows import ENVELOPE, SOURCE, read_deletes, read_target
from hybrid_extensions.repair.differences import find_differences
from hybrid_extensions.repair.rewrite import rewrite
from sources.common.schema import parse_schema
from sources.storage.tables.delta import delta_table
from tests.hybrid_extensions.repair.repair_case import LOG_END, VERSION, RepairCase

FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
# By type: what is most likely to become another value.
VALUES: dict[str, list[Any]] = {
    "tinyint": [-(2**7), 2**7 - 1],
    "smallint": [-(2**15), 2**15 - 1],
    "int": [-(2**31), 2**31 - 1],
    "bigint": [-(2**63), 2**63 - 1],
    "float": [float("nan"), -0.0, float("inf")],
    "double": [float("nan"), -0.0, 5e-324],
    "boolean": [True, False],
    "decimal(38,10)": [Decimal("-9999999999999999999999999999.9999999999"), Decimal(0)],
    "string": ["", "a\0b é🙂'\"\n"],
    "binary": [b"", b"\0\xff"],
    "date": [FIRST.date(), date(9999, 12, 31)],
    "timestamp": [FIRST, LAST],
    "array<string>": [[], ["", None, "x"]],
    "array<binary>": [[b"\0", None]],
    "array<timestamp>": [[FIRST, LAST, None]],
    "map<string,string>": [[], [("a", ""), ("b", None)]],
}
SCHEMA = parse_schema({"id": "bigint", **{f"c{at}": kind for at, kind in enumerate(VALUES)}})


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        made.execute("CREATE SCHEMA audit; SET TimeZone = 'UTC'")
        yield made


def test_what_is_written_is_what_was_read_and_equals_it(
    tmp_path: Path, connection: duckdb.DuckDBPyConnection
) -> None:
    columns = [values + [None] * (4 - len(values)) for values in VALUES.values()]
    database = pa.table([pa.array(range(4)), *columns], schema=SCHEMA)
    case = RepairCase(tmp_path)
    kinds = {"id": "bigint", **{f"c{at}": kind for at, kind in enumerate(VALUES)}}
    captured = replace(case.table.captured, columns=kinds)
    table = replace(case.table, captured=captured, names={name: name for name in kinds})
    position, lsn = pa.field("_position", pa.string()), pa.field("_lsn", pa.int64())
    empty = pa.schema([*SCHEMA, position, lsn]).empty_table()
    write_deltalake(table.target.url, empty)
    create_empty_table(connection, SOURCE, SCHEMA)
    insert_arrow(connection, SOURCE, database)
    connection.execute(f"CREATE TABLE {ENVELOPE} AS SELECT NULL AS _position, 300 AS _lsn")
    read_target(connection, table, delta_table(table.target))
    read_deletes(connection, table)
    assert find_differences(connection, table, VERSION, LOG_END).missing == 4
    rewrite(connection, table, VERSION, "r1", case.scratch)
    found = DeltaTable(table.target.url).to_pyarrow_table().select(SCHEMA.names).sort_by("id")
    assert repr(found.to_pylist()) == repr(database.to_pylist())
    with duckdb.connect() as again:
        again.execute("CREATE SCHEMA audit; SET TimeZone = 'UTC'")
        create_empty_table(again, SOURCE, SCHEMA)
        insert_arrow(again, SOURCE, database)
        again.execute(f"CREATE TABLE {ENVELOPE} AS SELECT NULL AS _position, 300 AS _lsn")
        read_target(again, table, delta_table(table.target))
        read_deletes(again, table)
        assert find_differences(again, table, VERSION, LOG_END).to_repair == 0
