"""What a real PostgreSQL holds becomes exactly the declared columns, or does not fit them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from hybrid_extensions.cdc.databases.captured_table import Misfit, QueryError
from hybrid_extensions.postgres.rows import Database, selected
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from sources.common.schema import parse_schema
from tests.services.captured_database import own_database

pytestmark = pytest.mark.slow

UUID_TEXT = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
FITS: list[tuple[str, str, str, Any]] = [
    # PostgreSQL's type, its literal, the column's type, its value.
    ("bigint", "-9223372036854775808", "bigint", -(2**63)),
    ("bigint", "7", "tinyint", 7),
    ("smallint", "-32768", "bigint", -32768),
    ("bigint", "9007199254740993", "double", 9007199254740992.0),
    ("oid", "4294967295", "bigint", 4294967295),
    ("bigint", "5", "string", "5"),
    ("text", "'5'", "bigint", 5),
    ("numeric", "7", "bigint", 7),
    ("numeric(12,2)", "-9999999999.99", "decimal(12,2)", Decimal("-9999999999.99")),
    ("numeric", "0", "decimal(12,2)", Decimal("0.00")),
    ("numeric", "1e-10", "decimal(38,10)", Decimal("1e-10")),
    ("numeric", "99999999999999999999", "decimal(20,0)", Decimal("99999999999999999999")),
    ("numeric", "'Infinity'", "double", float("inf")),
    ("numeric", "1.50", "string", "1.50"),
    ("double precision", "'-Infinity'", "double", float("-inf")),
    ("double precision", "1e-300", "double", 1e-300),
    ("real", "0.1", "float", 0.10000000149011612),
    # As its digits say: the change log of the same table delivers these.
    ("real", "0.1", "double", 0.1),
    ("boolean", "false", "boolean", False),
    ("boolean", "true", "string", "t"),
    ("text", "''", "string", ""),
    ("text", "E'a\\nb\"\\t,'", "string", 'a\nb"\t,'),
    ("text", "'NULL'", "string", "NULL"),
    ("varchar(5)", "'grün'", "string", "grün"),
    ("char(5)", "'ab'", "string", "ab   "),
    ("bytea", "'\\x00ff'", "binary", b"\x00\xff"),
    ("bytea", "''", "binary", b""),
    ("date", "'0001-01-01'", "date", date(1, 1, 1)),
    ("date", "'9999-12-31'", "date", date(9999, 12, 31)),
    ("date", "'2024-02-29'", "string", "2024-02-29"),
    (
        "timestamptz",
        "'2024-02-29 12:34:56.789012+02'",
        "timestamp",
        datetime(2024, 2, 29, 10, 34, 56, 789012, UTC),
    ),
    (
        "timestamp",
        "'1969-12-31 23:59:59.999999'",
        "timestamp",
        datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
    ),
    ("timestamptz", "'2024-02-29 12:00+02'", "string", "2024-02-29 10:00:00+00"),
    ("date", "'2024-02-29'", "timestamp", datetime(2024, 2, 29, tzinfo=UTC)),
    (
        "uuid",
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
        "string",
        UUID_TEXT,
    ),
    ("json", "'{\"a\":  1}'", "string", '{"a":  1}'),
    ("inet", "'10.0.0.1'", "string", "10.0.0.1"),
    ("interval", "'1 day 2 hours'", "string", "1 day 02:00:00"),
    ("int[]", "'{1,NULL}'", "string", "{1,NULL}"),
    ("int[]", "'{1,NULL,-3}'", "array<int>", [1, None, -3]),
    ("int[]", "'{}'", "array<bigint>", []),
    ("bigint[]", "'{9007199254740993}'", "array<bigint>", [9007199254740993]),
    ("text[]", "ARRAY['a,b', NULL, '', '{x}']", "array<string>", ["a,b", None, "", "{x}"]),
    ("varchar(5)[]", "ARRAY['grün']", "array<string>", ["grün"]),
    ("uuid[]", "'{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'", "array<string>", [UUID_TEXT]),
    ("boolean[]", "'{t,f}'", "array<boolean>", [True, False]),
    ("real[]", "'{NaN,0.5}'", "array<float>", [float("nan"), 0.5]),
    ("double precision[]", "'{1e-300,Infinity}'", "array<double>", [1e-300, float("inf")]),
    ("numeric(12,2)[]", "'{1.5,-2}'", "array<decimal(12,2)>", [Decimal("1.50"), Decimal("-2.00")]),
    ("date[]", "'{2024-02-29,NULL}'", "array<date>", [date(2024, 2, 29), None]),
    ("bytea[]", "ARRAY['\\x00ff'::bytea]", "array<binary>", [b"\x00\xff"]),
    ("mood", "'sad'", "string", "sad"),
    ("above_zero", "5", "int", 5),
    ("pair", "ROW(NULL, 2)", "string", "(,2)"),
]
MISFITS = [
    ("bigint", "2147483648", "int", "column `v` has a value that is no int"),
    ("numeric", "1.5", "bigint", "is no bigint"),
    ("numeric", "'NaN'", "decimal(12,2)", r"is no decimal\(12,2\)"),
    ("numeric", "1.005", "decimal(12,2)", r"is no decimal\(12,2\)"),
    ("numeric", "100", "decimal(4,2)", r"is no decimal\(4,2\)"),
    ("text", "'x'", "double", "is no double"),
    ("boolean", "true", "int", "is no int"),
    ("money", "1.5", "bigint", "is no bigint"),
    ("int[]", "'{2147483647}'", "array<smallint>", "is no array<smallint>"),
    # The driver alone would read it as {1,2,3,4}.
    ("int[]", "'{{1,2},{3,4}}'", "array<int>", "column `v` has an array of more than one dim"),
    ("int", "1", "array<int>", "of PostgreSQL's type integer, which is no array<int>"),
    ("text[]", "'{a}'", "array<binary>", r"type text\[\], which is no array<binary>"),
    ("date[]", "'{infinity}'", "array<date>", "infinite, or not in year 1 to 9999"),
    ("timestamptz[]", "'{infinity}'", "array<timestamp>", "infinite, or not in year 1 to 9999"),
    ("text", "'x'", "binary", "of PostgreSQL's type text, which is no binary"),
    ("date", "'infinity'", "date", "infinite, or not in year 1 to 9999"),
    ("date", "'0044-03-15 BC'", "date", "infinite, or not in year 1 to 9999"),
    ("date", "'10000-01-01'", "date", "infinite, or not in year 1 to 9999"),
    ("timestamptz", "'infinity'", "timestamp", "infinite, or not in year 1 to 9999"),
    ("timestamp", "'-infinity'", "timestamp", "infinite, or not in year 1 to 9999"),
    ("timestamptz", "'10000-01-01Z'", "timestamp", "infinite, or not in year 1 to 9999"),
]  # fmt: skip


class Case:
    """A connection that exports snapshots, and what reads under them."""

    def __init__(self, dsn: str) -> None:
        self.conninfo = make_conninfo(dsn, options="-c timezone=UTC")
        self.connection = psycopg.connect(self.conninfo, autocommit=True)
        self.database = Database(self.conninfo)

    def table(self, kind: str, *literals: str) -> None:
        """Make the table with one column ``v``."""
        self.connection.execute("DROP TABLE IF EXISTS one")
        self.connection.execute(f"CREATE TABLE one (v {kind})")
        for literal in literals:
            self.connection.execute(f"INSERT INTO one VALUES ({literal})")

    def export(self) -> str:
        """Begin a transaction; returns the name of its snapshot."""
        self.connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        row = self.connection.execute("SELECT pg_export_snapshot()").fetchone()
        assert row is not None
        return str(row[0])

    def read(self, kind: str, exported: str | None = None) -> list[Any]:
        """The column's values, declared as this type."""
        columns = parse_schema({"v": kind})
        row = self.connection.execute(
            "SELECT atttypid::regtype::text FROM pg_attribute "
            "WHERE attrelid = 'one'::regclass AND attname = 'v'"
        ).fetchone()
        assert row is not None
        exported = self.export() if exported is None else exported
        try:
            query = sql.SQL("SELECT {} FROM one").format(selected(columns, {"v": row[0]}))
            batches = list(self.database.rows(exported, query, columns))
        finally:
            self.connection.execute("COMMIT")
        found: list[Any] = pa.Table.from_batches(batches, columns)["v"].to_pylist()
        return found


@pytest.fixture(scope="module")
def case(postgres: LocalPostgres) -> Iterator[Case]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSWORD", postgres.password)
        with own_database(postgres) as dsn:
            made = Case(dsn)
            with made.connection as connection, made.database:
                connection.execute("CREATE TYPE mood AS ENUM ('sad', 'glad')")
                connection.execute("CREATE DOMAIN above_zero AS int CHECK (VALUE > 0)")
                connection.execute("CREATE TYPE pair AS (a int, b int)")
                yield made


@pytest.mark.parametrize(("kind", "literal", "column", "value"), FITS)
def test_a_value_and_a_null_come_as_declared(
    case: Case, kind: str, literal: str, column: str, value: Any
) -> None:
    case.table(kind, literal, "NULL")
    found = case.read(column)
    if isinstance(value, datetime):
        found[0] = found[0].astimezone(UTC)
    assert repr(found) == repr([value, None])


@pytest.mark.parametrize(("kind", "literal", "column", "told"), MISFITS)
def test_a_value_that_does_not_fit_is_refused(
    case: Case, kind: str, literal: str, column: str, told: str
) -> None:
    case.table(kind, literal)
    with pytest.raises(Misfit, match=told):
        case.read(column)


def test_not_a_number_is_one_of_the_floats(case: Case) -> None:
    for kind in ("double precision", "real", "numeric"):
        case.table(kind, "'NaN'")
        assert repr(case.read("double")) == "[nan]"


def test_an_empty_table_has_no_rows(case: Case) -> None:
    case.table("bigint")
    assert case.read("bigint") == []


def test_rows_that_came_after_the_snapshot_are_not_seen(case: Case) -> None:
    case.table("bigint", "1")
    exported = case.export()
    with psycopg.connect(case.conninfo) as other:
        other.execute("INSERT INTO one VALUES (2)")
    assert case.read("bigint", exported) == [1]
    assert case.read("bigint") == [1, 2]


def test_a_query_that_fails_before_or_in_the_midst_of_its_rows(case: Case) -> None:
    case.table("bigint", "1")
    with pytest.raises(QueryError, match="snapshot"):
        case.read("bigint", "00000000-00000000-1")
    # In the midst of the rows.
    columns = parse_schema({"v": "int"})
    query = sql.SQL("SELECT 1 / (1 - v)::int AS v FROM one")
    exported = case.export()
    with pytest.raises(QueryError, match="division by zero"):
        list(case.database.rows(exported, query, columns))
    case.connection.execute("COMMIT")


def test_threads_read_one_database_at_the_same_time(case: Case) -> None:
    case.table("bigint", *map(str, range(50)))
    columns = parse_schema({"v": "bigint"})
    exported = case.export()

    def read(number: int) -> list[Any]:
        query = sql.SQL("SELECT v FROM one WHERE v % 10 = {}").format(sql.Literal(number % 10))
        batches = case.database.rows(exported, query, columns)
        rows: list[Any] = pa.Table.from_batches(batches, columns)["v"].to_pylist()
        return rows

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(read, range(40)))
    case.connection.execute("COMMIT")
    assert [sorted(rows) for rows in found] == [[*range(n % 10, 50, 10)] for n in range(40)]


def test_a_database_that_is_not_there() -> None:
    with pytest.raises(QueryError, match="refused"):
        Database("host=127.0.0.1 port=1 user=nobody dbname=none")
