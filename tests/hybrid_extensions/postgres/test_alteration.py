"""What is done to a table that no change reports, asked of a real server."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from hybrid_extensions.postgres.watch.alteration import find_alteration, keeps_values
from hybrid_extensions.postgres.watch.catalog_definition import RowsOf, read_definition
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from sources.common.table_definition import PostgresColumn, PostgresDefinition, PostgresFile

Connection = psycopg.Connection[Any]
COLUMNS = ["id", "v", "w", "n"]
PLAIN = (
    "CREATE TABLE t (id int PRIMARY KEY, v int, w varchar(9), n numeric(12,4))",
    "INSERT INTO t SELECT x, x, 'abc' || x, x / 3.0 FROM generate_series(1, 99) x",
)
PARTS = (
    "CREATE TABLE t (id int PRIMARY KEY, v int, w text, n int) PARTITION BY RANGE (id)",
    "CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (50)",
    "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (50) TO (100)",
    "CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (100) TO (200)",
    "INSERT INTO t SELECT x, x FROM generate_series(1, 99) x",
)
MOOD = (
    "CREATE TYPE mood AS ENUM ('sad', 'glad')",
    "CREATE TABLE t (id int PRIMARY KEY, v mood, w mood[], n int)",
    "INSERT INTO t VALUES (1, 'sad')",
)


@pytest.fixture(scope="module")
def server() -> Iterator[Connection]:
    with (
        LocalPostgres() as made,
        psycopg.connect(made.dsn, password=made.password, autocommit=True) as opened,
    ):
        yield opened


@pytest.fixture
def connection(server: Connection) -> Iterator[Connection]:
    schema = f"s{uuid.uuid4().hex[:8]}"
    server.execute(f"CREATE SCHEMA {schema}")
    server.execute(f"SET search_path = {schema}")
    yield server
    server.execute(f"DROP SCHEMA {schema} CASCADE")


def found(connection: Connection, *looks: tuple[str, ...]) -> str | None:
    """What is found at one of several looks, between which statements are executed."""
    row = connection.execute("SELECT current_schema()").fetchone()
    assert row is not None
    table = f"{row[0]}.t"
    before = read_definition(connection, table)
    for statements in looks:
        for each in statements:
            connection.execute(each)
        assert before is not None
        now = read_definition(connection, table)
        names = {name: name for name in COLUMNS}
        if (what := find_alteration(before, now, names, RowsOf(connection))) is not None:
            return what
        before = now
    return None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "statements", "expected"),
    [
        (PLAIN, ["DROP TABLE t"], "is no longer there"),
        (PLAIN, ["ALTER TABLE t RENAME TO u"], "is no longer there"),
        (PLAIN, ["ALTER TABLE t RENAME TO u", "CREATE TABLE t (LIKE u)"], "is a different table"),
        (PLAIN, ["DROP TABLE t", PLAIN[0]], "is a different table now"),
        (
            PLAIN,
            ["ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id, v)"],
            "another primary key now: `id`, `v` instead of `id`",
        ),
        (PLAIN, ["ALTER TABLE t DROP CONSTRAINT t_pkey"], "key now: none instead of `id`"),
        (PLAIN, ["ALTER TABLE t ALTER n TYPE numeric(12,1)"], r"`n` of type numeric\(12,1\) now"),
        (PLAIN, ["ALTER TABLE t ALTER w TYPE varchar(2) USING left(w, 2)"], "`w` of type char"),
        (PLAIN, ["ALTER TABLE t ALTER v TYPE text"], "`v` of type text now, which was integer"),
        (PLAIN, ["ALTER TABLE t ALTER v TYPE int USING v * 10"], "a statement on column `v`"),
        (
            PLAIN,
            [
                "ALTER TABLE t ALTER n TYPE numeric(14,4), ALTER v TYPE int USING v * 10",
                "GRANT SELECT ON t TO PUBLIC",
            ],
            "a statement on column `v`",
        ),
        (PLAIN, ["ALTER TABLE t ALTER w TYPE text USING upper(w)"], "a statement on column `w`"),
        (PLAIN, ["ALTER TABLE t ALTER n TYPE numeric(14,4) USING n + 1"], "on column `n`"),
        (PLAIN, ["ALTER TABLE t DROP v", "ALTER TABLE t ADD v int"], "another column named `v`"),
        (
            PLAIN,
            [
                "ALTER TABLE t RENAME v TO x",
                "ALTER TABLE t RENAME id TO v",
                "ALTER TABLE t RENAME x TO id",
            ],
            "another",
        ),
        (PLAIN, ["ALTER TABLE t ADD x int, ALTER v TYPE int USING v * 10"], "on column `v`"),
        (PLAIN, ["ALTER TABLE t SET UNLOGGED", "ALTER TABLE t SET LOGGED"], "as SET LOGGED does"),
        (
            PLAIN,
            [
                "BEGIN; ALTER TABLE t SET UNLOGGED; UPDATE t SET v = 7; ALTER TABLE t SET LOGGED; "
                "COMMIT"
            ],
            "as SET LOGGED does",
        ),
        (PLAIN, ["ALTER TABLE t REPLICA IDENTITY NOTHING"], "REPLICA IDENTITY NOTHING now"),
        (
            MOOD,
            ["ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'"],
            "`sad` in column `v`, a value of mood",
        ),
        (MOOD, ["ALTER TABLE t ALTER w TYPE text"], "`w` of type text now, which was mood"),
        (PARTS, ["DROP TABLE t0"], "has lost partition .*t0"),
        (PARTS, ["ALTER TABLE t DETACH PARTITION t1"], "has lost partition .*t1"),
        (
            PARTS,
            [
                "ALTER TABLE t DETACH PARTITION t0",
                "UPDATE t0 SET v = 7",
                "ALTER TABLE t ATTACH PARTITION t0 FOR VALUES FROM (0) TO (50)",
            ],
            "detached and attached again",
        ),
        (PARTS, ["TRUNCATE t1"], "partition .*t1 that was truncated by itself"),
        (PARTS, ["TRUNCATE t1", "INSERT INTO t VALUES (60, 1)"], "t1 that was truncated"),
        (
            PARTS,
            ["TRUNCATE t1", "INSERT INTO t VALUES (60, 1)", "ALTER TABLE t ADD x int", "ANALYZE t"],
            "t1 that was truncated",
        ),
        (PARTS, ["BEGIN; TRUNCATE t1; INSERT INTO t VALUES (60, 1); COMMIT"], "t1 that was trunc"),
        (
            PARTS,
            [
                "CREATE TABLE t3 (LIKE t INCLUDING ALL)",
                "INSERT INTO t3 VALUES (300, 1)",
                "ALTER TABLE t ATTACH PARTITION t3 FOR VALUES FROM (300) TO (400)",
            ],
            "t3 with rows that were there before",
        ),
        (
            PARTS,
            [
                "BEGIN; CREATE TABLE t3 (LIKE t INCLUDING ALL); INSERT INTO t3 VALUES (300, 1); "
                "ALTER TABLE t ATTACH PARTITION t3 FOR VALUES FROM (300) TO (400); COMMIT"
            ],
            "t3 with rows that were there before",
        ),
    ],
)
def test_what_no_change_reports_is_found(
    connection: Connection, made: tuple[str, ...], statements: list[str], expected: str
) -> None:
    for statement in made:
        connection.execute(statement)
    what = found(connection, tuple(statements))
    assert what is not None
    assert re.search(expected, what), what


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "statements"),
    [
        (PLAIN, ["ALTER TABLE t ALTER v TYPE bigint", "ALTER TABLE t ALTER n TYPE numeric(14,4)"]),
        (PLAIN, ["ALTER TABLE t ALTER w TYPE varchar(20)", "ALTER TABLE t ALTER w TYPE text"]),
        (PLAIN, ["ALTER TABLE t ADD x uuid DEFAULT gen_random_uuid()"]),
        (PLAIN, ["ALTER TABLE t ALTER v TYPE bigint, ALTER w TYPE text, ALTER n TYPE numeric"]),
        (PLAIN, ["ALTER TABLE t ALTER w TYPE text", "VACUUM FULL t", "UPDATE t SET v = 2"]),
        (PLAIN, ["ALTER TABLE t ADD x int DEFAULT 3", "VACUUM FULL t", "ANALYZE t"]),
        (PLAIN, ["ALTER TABLE t ALTER v SET DEFAULT 3", "VACUUM FULL t"]),
        (
            PLAIN,
            ["TRUNCATE t", "INSERT INTO t VALUES (1, 1)", "ALTER TABLE t ALTER v SET NOT NULL"],
        ),
        (PLAIN, ["ALTER TABLE t DROP n", "ALTER TABLE t RENAME v TO x", "CREATE INDEX ON t (w)"]),
        (PLAIN, ["CLUSTER t USING t_pkey", "REINDEX TABLE t", "UPDATE t SET v = v + 1"]),
        (PLAIN, ["ALTER TABLE t REPLICA IDENTITY FULL", "ALTER TABLE t DISABLE TRIGGER ALL"]),
        (MOOD, ["ALTER TYPE mood ADD VALUE 'mad' BEFORE 'sad'", "ALTER TYPE mood RENAME TO m"]),
        (MOOD, ["ALTER TABLE t ALTER v TYPE text", "ALTER TABLE t ALTER v TYPE varchar"]),
        (PARTS, ["CREATE TABLE t3 PARTITION OF t FOR VALUES FROM (200) TO (300)", "VACUUM FULL t"]),
        (
            PARTS,
            [
                "BEGIN; CREATE TABLE t3 PARTITION OF t FOR VALUES FROM (200) TO (300); "
                "INSERT INTO t VALUES (201, 1); COMMIT",
                "DELETE FROM t WHERE id < 60",
            ],
        ),
        (PARTS, ["TRUNCATE t", "INSERT INTO t VALUES (1, 1)"]),
        (PARTS, ["ALTER TABLE t ALTER v TYPE bigint", "ALTER TABLE t ADD x int DEFAULT 7"]),
    ],
)
def test_what_changes_report_or_leaves_all_values_goes_on(
    connection: Connection, made: tuple[str, ...], statements: list[str]
) -> None:
    for statement in made:
        connection.execute(statement)
    assert found(connection, *((each,) for each in statements)) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "statements"),
    [
        (
            PLAIN,
            [
                "ALTER TABLE t ALTER v TYPE bigint, ALTER w SET DEFAULT 'x'",
                "VACUUM FULL t",
                "ALTER TABLE t ADD x timestamptz DEFAULT clock_timestamp()",
                "UPDATE t SET v = 1 WHERE id < 9",
            ],
        ),
        (PLAIN, ["ALTER TABLE t ALTER v TYPE bigint, ALTER w SET DEFAULT 'x'"]),
        # Whatever rewrites rows writes the entry of a column with a default of before, too.
        (
            (*PLAIN, "ALTER TABLE t DROP n", "ALTER TABLE t ADD n int DEFAULT 7"),
            ["ALTER TABLE t ALTER id TYPE bigint"],
        ),
        (
            (*PLAIN, "ALTER TABLE t DROP n", "ALTER TABLE t ADD n int DEFAULT 7"),
            ["ALTER TABLE t ADD x uuid DEFAULT gen_random_uuid()"],
        ),
        (PLAIN, ["BEGIN; TRUNCATE t; INSERT INTO t VALUES (1, 1), (2, 2); COMMIT"]),
        (
            PLAIN,
            [
                "BEGIN; ALTER TABLE t ALTER w SET DEFAULT 'x'; TRUNCATE t; "
                "INSERT INTO t VALUES (1, 1); ALTER TABLE t ADD CHECK (v > 0); "
                "CREATE INDEX ON t (v); COMMIT"
            ],
        ),
        (PARTS, ["BEGIN; TRUNCATE t; INSERT INTO t VALUES (1, 1), (60, 1); COMMIT"]),
        (
            PARTS,
            [
                "BEGIN; INSERT INTO t VALUES (110, 1); DO $$ BEGIN "
                "CREATE TABLE t3 PARTITION OF t FOR VALUES FROM (200) TO (300); "
                "EXCEPTION WHEN duplicate_table THEN NULL; END $$; "
                "INSERT INTO t VALUES (201, 1); COMMIT"
            ],
        ),
        (PARTS, ["UPDATE t SET v = 7", "VACUUM FULL t1"]),
        # What pg_repack does: rows are copied, then files are swapped.
        (
            PARTS,
            [
                "CREATE TABLE copied AS TABLE t1",
                "UPDATE pg_class a SET relfilenode = b.relfilenode FROM pg_class b "
                "WHERE ARRAY[a.oid, b.oid] IN (ARRAY['t1'::regclass::oid, 'copied'::regclass], "
                "ARRAY['copied'::regclass::oid, 't1'::regclass])",
            ],
        ),
    ],
)
def test_all_of_it_between_two_looks_goes_on_too(
    connection: Connection, made: tuple[str, ...], statements: list[str]
) -> None:
    for statement in made:
        connection.execute(statement)
    assert found(connection, tuple(statements)) is None


@pytest.mark.slow
def test_rows_of_a_transaction_that_is_older_than_their_partition_go_on(
    connection: Connection, server: Connection
) -> None:
    for statement in PARTS:
        connection.execute(statement)
    row = connection.execute("SELECT current_schema()").fetchone()
    assert row is not None
    with psycopg.connect(server.info.dsn, password=server.info.password) as older:
        older.execute(f"SET search_path = {row[0]}")
        older.execute("SELECT pg_current_xact_id()")

        def insert_and_commit() -> None:
            older.execute("INSERT INTO t VALUES (201, 1)")
            older.commit()

        before = read_definition(connection, f"{row[0]}.t")
        connection.execute("CREATE TABLE t3 PARTITION OF t FOR VALUES FROM (200) TO (300)")
        insert_and_commit()
    now = read_definition(connection, f"{row[0]}.t")
    assert before is not None
    names = {name: name for name in COLUMNS}
    assert find_alteration(before, now, names, RowsOf(connection)) is None


class NoRows:
    def has_older(self, oid: str, transaction: str) -> bool:
        raise AssertionError(oid)

    def has_earlier(self, oid: str, transaction: str, command: int) -> bool:
        raise AssertionError(oid)

    def has_rewritten(self, oid: str, transaction: str) -> bool:
        raise AssertionError(oid)

    def has_older_than_file(self, oid: str, horizon: str) -> bool:
        raise AssertionError(oid)


def test_a_table_is_judged_by_the_catalog_alone() -> None:
    column = PostgresColumn(number=1, type="integer", changed_by="700")
    file = PostgresFile(name="public.t", node="16400", written_by="700")
    before = PostgresDefinition(
        oid="16400",
        identity="d",
        key=["id"],
        columns={"id": column},
        files={"16400": file},
        horizon="710",
    )
    same = find_alteration(before, before, {"id": "id"}, NoRows())
    other = before.model_copy(update={"oid": "16500"})
    again = find_alteration(before, other, {"id": "id"}, NoRows())
    assert (same, again) == (
        None,
        "is a different table now: the captured one was dropped or renamed",
    )


def test_an_upgrade_that_writes_each_entry_of_the_catalog_again_goes_on() -> None:
    def written_by(transaction: str, created_by: str) -> PostgresDefinition:
        column = PostgresColumn(number=1, type="integer", changed_by=transaction)
        file = PostgresFile(
            name="public.t1",
            node="16403",
            written_by=transaction,
            attached_by=transaction,
            created_by=created_by,
        )
        return PostgresDefinition(
            oid="16400",
            identity="d",
            key=["id"],
            columns={"id": column},
            files={"16403": file},
            horizon=transaction,
        )

    old, names = written_by("700", "690"), {"id": "id"}
    assert find_alteration(old, written_by("900", "890"), names, NoRows()) is None
    attached = find_alteration(old, written_by("900", "690"), names, NoRows())
    assert attached == "has partition public.t1 that was detached and attached again"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("integer", "bigint", True),
        ("bigint", "integer", False),
        ("integer", "numeric(19,0)", True),
        ("integer", "numeric", True),
        ("integer", "double precision", False),
        ("real", "double precision", True),
        ("numeric(12,4)", "numeric(14,6)", True),
        ("numeric(12,4)", "numeric(14,2)", False),
        ("numeric(12,4)", "numeric(12,5)", False),
        ("numeric", "numeric(30,4)", False),
        ("character varying(9)", "character varying(10)", True),
        ("character varying(9)", "text", True),
        ("character varying(9)", "character varying(8)", False),
        ("character(9)", "text", False),
        ("text", "character varying(9)", False),
        ("text", "character varying", True),
        ("timestamp(3) without time zone", "timestamp(6) without time zone", True),
        ("timestamp(3) without time zone", "timestamp without time zone", True),
        ("timestamp without time zone", "timestamp with time zone", False),
        ("text", "json", False),
    ],
)
def test_a_wider_type_keeps_each_value(old: str, new: str, expected: bool) -> None:
    assert keeps_values(old, new) is expected
