"""What rows from before a column hold, asked of a real server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from hybrid_extensions.cdc.databases.captured_table import NewColumns, UnknownDefault
from hybrid_extensions.postgres.added_columns import find_added_columns
from hybrid_extensions.postgres.watch.catalog_definition import read_definition
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from sources.common.database_snapshot import PostgresSnapshot
from sources.config.source.snapshot import SnapshotOptions
from sources.errors import InputError, UnavailableError
from tests.services.captured_database import own_database
from tests.sources.decoding.value_case import changes_source

pytestmark = pytest.mark.slow
KNOWN = ["id", "name"]


class Table:
    """A table with three rows, which is made for each test."""

    name = "public.t"

    def __init__(self, dsn: str) -> None:
        self.options = SnapshotOptions(dsn=dsn, slot="s")
        self.source = changes_source({"id": "int"}, table=self.name)
        self.connection = psycopg.connect(dsn, autocommit=True)
        self.execute(
            "DROP TABLE IF EXISTS t CASCADE",
            "CREATE TABLE t (id int PRIMARY KEY, name text)",
            "INSERT INTO t SELECT n, 'x' FROM generate_series(1, 3) n",
        )

    def execute(self, *statements: str) -> None:
        for statement in statements:
            self.connection.execute(statement)

    def asked(self, *new: str, seen: int | None = None, **changed: Any) -> NewColumns:
        snapshot = None
        if seen is not None:
            snapshot = PostgresSnapshot(lsn=0, xmin=seen, xmax=seen, in_progress=[], taken_ms=0)
        asked = NewColumns(self.options, self.source, "shop", new, KNOWN, [], snapshot)
        return asked._replace(**changed)

    def find(self, *new: str, seen: int | None = None) -> list[tuple[str, Any]]:
        found = find_added_columns(self.asked(*new, seen=seen))
        return [(found[name].type, found[name].default) for name in new]

    def refuse(self, *new: str) -> str:
        with pytest.raises(UnknownDefault) as caught:
            self.find(*new)
        return str(caught.value)


@pytest.fixture(scope="module")
def dsn(postgres: LocalPostgres) -> Iterator[str]:
    with own_database(postgres) as made:
        yield made


@pytest.fixture
def table(dsn: str, postgres: LocalPostgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    made = Table(dsn)
    yield made
    made.connection.close()


@pytest.mark.parametrize(
    ("declared", "kind", "default"),
    [
        ("int", "int", None),
        ("int NOT NULL DEFAULT 7", "int", 7),
        ("bigint DEFAULT -9", "bigint", -9),
        ("boolean DEFAULT false", "boolean", False),
        ("double precision DEFAULT 0.1", "double", 0.1),
        ("real DEFAULT 0.1", "float", 0.1),
        ("numeric(12,2) DEFAULT 1.5", "decimal(12,2)", "1.50"),
        ("numeric DEFAULT 1.50", "string", "1.50"),
        ("text DEFAULT 'it''s {\"a\", NULL}'", "string", 'it\'s {"a", NULL}'),
        ("text DEFAULT ''", "string", ""),
        ("char(3) DEFAULT 'a'", "string", "a  "),
        ("date DEFAULT '2024-02-29'", "date", "2024-02-29"),
        (
            "timestamptz DEFAULT '2024-01-01 02:00:00.5+02'",
            "timestamp",
            "2024-01-01 00:00:00.5+00",
        ),
        ("uuid", "string", None),
        ("bytea", "binary", None),
    ],
)
def test_rows_from_before_hold_the_default_of_that_time(
    table: Table, declared: str, kind: str, default: Any
) -> None:
    table.execute(
        f"ALTER TABLE t ADD c {declared}",
        # What comes later is for rows that are written later.
        "ALTER TABLE t ALTER c DROP DEFAULT",
        "INSERT INTO t SELECT 9, 'y', c FROM t LIMIT 1",
    )
    assert table.find("c") == [(kind, default)]


def test_a_default_that_is_computed_once_is_known(table: Table) -> None:
    table.execute("ALTER TABLE t ADD c timestamptz DEFAULT now()")
    row = table.connection.execute("SELECT min(c), max(c) FROM t").fetchone()
    assert row is not None
    found = find_added_columns(table.asked("c"))
    assert (found["c"].value, found["c"].value) == row


@pytest.mark.parametrize("name", ["discount_%", "%s off", 'a"b', "c'd", "{e}"])
def test_a_column_may_have_any_name(table: Table, name: str) -> None:
    table.execute(f"ALTER TABLE t ADD {sql.Identifier(name).as_string()} int")
    assert table.find(name) == [("int", None)]


def test_numbers_at_the_snapshot_tell_added_columns_from_others(table: Table) -> None:
    at_snapshot = read_definition(table.connection, table.name)
    table.execute("ALTER TABLE t DROP name", "ALTER TABLE t ADD c int DEFAULT 7")
    dropped = table.asked("c", seen=1, definition=at_snapshot)
    assert find_added_columns(dropped)["c"].default == 7
    # The last column, which no declaration needs to know.
    at_snapshot = read_definition(table.connection, table.name)
    table.execute("ALTER TABLE t RENAME c TO d")
    with pytest.raises(UnknownDefault, match="`d` was not added but renamed"):
        find_added_columns(table.asked("d", definition=at_snapshot))


def test_rows_that_changed_since_say_nothing(table: Table) -> None:
    table.execute("ALTER TABLE t ADD c int", "UPDATE t SET c = id WHERE id < 3")
    assert table.find("c") == [("int", None)]
    table.execute("ALTER TABLE t ALTER c SET DEFAULT 7", "INSERT INTO t VALUES (4, 'x')")
    # The entry in the catalog is now as young as the changes.
    assert "have values in it" in table.refuse("c")


@pytest.mark.parametrize(
    "statements",
    [
        ["ALTER TABLE t ADD c uuid DEFAULT gen_random_uuid()"],
        ["ALTER TABLE t ADD c serial"],
        ["ALTER TABLE t ADD c int DEFAULT 7", "VACUUM FULL t"],
        [
            "ALTER TABLE t ADD c int DEFAULT 7",
            "ALTER TABLE t ALTER c DROP DEFAULT",
            "VACUUM FULL t",
        ],
        ["ALTER TABLE t ADD c int DEFAULT 7", "ALTER TABLE t ALTER name TYPE varchar(9)"],
        [
            "ALTER TABLE t ADD c int DEFAULT 7",
            "ALTER TABLE t ALTER id TYPE bigint",
            "VACUUM FULL t",
        ],
    ],
)
def test_a_default_that_postgres_does_not_know_is_refused(
    table: Table, statements: list[str]
) -> None:
    table.execute(*statements)
    assert "PostgreSQL stores no default for them" in table.refuse("c")


def test_several_are_asked_for_at_once(table: Table) -> None:
    table.execute("ALTER TABLE t ADD c int DEFAULT 7, ADD d text")
    assert table.find("c", "d") == [("int", 7), ("string", None)]


def test_a_default_of_a_type_that_can_not_be_followed_is_refused(table: Table) -> None:
    table.execute(
        "ALTER TABLE t ADD c interval, ADD d int GENERATED ALWAYS AS (id) STORED",
        "ALTER TABLE t ADD e bytea DEFAULT 'x', ADD f timestamptz DEFAULT 'infinity'",
    )
    assert table.refuse("c") == (
        "`c` can't be added: type interval has no common form in snapshot and changes"
    )
    assert "`d` can't be added: it is generated" in table.refuse("d")
    assert "`e` has a default, of type binary" in table.refuse("e")
    assert "the default of `f`, infinity, can't be stored as timestamp" in table.refuse("f")
    assert table.refuse("gone") == "`gone` can't be added: the table no longer has it"


def test_a_renamed_column_is_not_taken_for_an_added_one(table: Table) -> None:
    table.execute("ALTER TABLE t RENAME id TO number")
    assert "`number` was not added but renamed" in table.refuse("number")
    table.execute("ALTER TABLE t RENAME number TO id", "ALTER TABLE t RENAME name TO title")
    # The last one: its rows have values.
    assert "have values in it" in table.refuse("title")


def test_an_added_column_with_the_name_of_a_dropped_one_is_refused(table: Table) -> None:
    before = table.connection.execute("SELECT pg_current_snapshot()::text").fetchone()
    assert before is not None
    table.execute("ALTER TABLE t ADD c int DEFAULT 7")
    table.execute("ALTER TABLE t DROP c", "ALTER TABLE t ADD c int DEFAULT 8")
    assert "a column was dropped from table `public.t` after" in table.refuse("c")
    with pytest.raises(UnknownDefault):
        table.find("c", seen=int(before[0].split(":")[0]))
    after = table.connection.execute("SELECT pg_current_snapshot()::text").fetchone()
    assert after is not None
    assert table.find("c", seen=int(after[0].split(":")[1])) == [("int", 8)]


def test_a_database_that_does_not_answer_is_said(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "wrong")
    with pytest.raises(InputError, match=r"could not be asked for the columns of table `public.t`"):
        table.find("c")
    table.options = SnapshotOptions(dsn="host=localhost port=1 user=x", slot="s")
    with pytest.raises(UnavailableError):
        table.find("c")
