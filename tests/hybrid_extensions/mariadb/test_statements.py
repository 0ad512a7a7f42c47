"""What older rows hold in a column that a statement adds, against what a real MariaDB says."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from hybrid_extensions.cdc.databases.captured_table import NewColumns, UnknownDefault
from hybrid_extensions.mariadb.added_columns import statements_of
from hybrid_extensions.mariadb.log.schema_changes import SchemaChange
from hybrid_extensions.mariadb.log.statements import Alteration
from hybrid_extensions.mariadb.server import connect, parse_address
from hybrid_extensions.mariadb.snapshot.columns import Column
from hybrid_extensions.mariadb.tables import describe_columns, describe_table
from hybrid_extensions.servers.databases.mariadb import LocalMariaDb
from sources.common.database_snapshot import BinlogSnapshot
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.snapshot import SnapshotOptions
from sources.decoding.changes.added_columns import AddedColumn

SNAPSHOT = BinlogSnapshot(file=1, offset=1000, domain=0, sequence=10, taken_ms=0)


@pytest.fixture
def table(mariadb: LocalMariaDb, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    name = f"shop_{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv("MYSQL_PWD", mariadb.password)
    mariadb.execute(
        f"CREATE DATABASE {name} CHARACTER SET utf8mb4",
        f"CREATE TABLE {name}.t (id INT PRIMARY KEY)",
        f"INSERT INTO {name}.t VALUES (1)",
    )
    yield f"{name}.t"
    mariadb.execute(f"DROP DATABASE {name}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "definition",
    [
        "INT",
        "INT DEFAULT 5",
        "INT NOT NULL DEFAULT -5",
        "INT NOT NULL",
        "INT NULL DEFAULT NULL",
        "INT DEFAULT '7'",
        "TINYINT(1) NOT NULL DEFAULT TRUE",
        "BIGINT UNSIGNED DEFAULT 18446744073709551615",
        "DECIMAL(10,2) NOT NULL DEFAULT 1.5",
        "DECIMAL(10,2) NOT NULL",
        "DOUBLE DEFAULT 0.25",
        "FLOAT DEFAULT 0.1",
        "VARCHAR(20) DEFAULT 'it''s'",
        "VARCHAR(20) NOT NULL",
        "CHAR(5) DEFAULT 'ab'",
        "TEXT DEFAULT 'a longer one, with é'",
        "ENUM('p','q') NOT NULL",
        "ENUM('p','q') DEFAULT 'q'",
        "ENUM('p','q')",
        "DATE DEFAULT '2020-01-02'",
        "DATETIME DEFAULT '2020-01-02 03:04:05'",
        "DATETIME(6) DEFAULT '2020-01-02 03:04:05.123456'",
        "YEAR DEFAULT 2020",
        "INT(11) UNSIGNED ZEROFILL NOT NULL DEFAULT 3 COMMENT 'a, b' FIRST, ALGORITHM=INSTANT",
    ],
)
def test_a_constant_is_what_the_server_gives_to_older_rows(
    mariadb: LocalMariaDb, table: str, definition: str
) -> None:
    statement = f"ALTER TABLE {table} ADD COLUMN c {definition}"
    mariadb.execute(statement)
    with connect(parse_address(mariadb.dsn(table.partition(".")[0])), "test") as connection:
        column = describe_columns(connection, table)["c"]
        kind = describe_table(connection, table).columns["c"]
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT c FROM {table}")
            [(held,)] = cursor.fetchall()
    found = AddedColumn(type=kind, default=Alteration(statement).value_of(column)).value
    if hasattr(found, "tzinfo") and found.tzinfo is not None:
        found = found.replace(tzinfo=None)
    assert found == (pytest.approx(held) if kind == "float" else held)


@pytest.mark.parametrize(
    ("definition", "kind", "full", "why"),
    [
        ("VARCHAR(36) DEFAULT (uuid())", "varchar", "varchar(36)", r"\(\(UUID\(\)\)\) is no const"),
        ("DATETIME DEFAULT CURRENT_TIMESTAMP", "datetime", "datetime", "is no constant"),
        ("INT DEFAULT (1 + 1)", "int", "int(11)", "is no constant"),
        ("INT DEFAULT 1.5", "int", "int(11)", r"default of `c` \(1.5\) is no constant"),
        ("INT NOT NULL AUTO_INCREMENT UNIQUE", "int", "int(11)", "is AUTO_INCREMENT"),
        ("SERIAL", "bigint", "bigint(20) unsigned", "is AUTO_INCREMENT"),
        ("CHAR(5) DEFAULT 'a '", "char", "char(5)", "is no constant"),
        (r"VARCHAR(9) DEFAULT 'a\\b'", "varchar", "varchar(9)", "is no constant"),
        ("DATETIME DEFAULT '2020-01-02 03:04:05.5'", "datetime", "datetime", "is no constant"),
        ("DATETIME DEFAULT '20200102'", "datetime", "datetime", "is no constant"),
        ("TIMESTAMP DEFAULT '2020-01-02 03:04:05'", "timestamp", "timestamp", "is no constant"),
        ("TIMESTAMP NOT NULL", "timestamp", "timestamp", "is NOT NULL without a default"),
        ("DATE NOT NULL", "date", "date", "is NOT NULL without a default"),
        ("YEAR DEFAULT 20", "year", "year(4)", "is no constant"),
        ("VARBINARY(4) DEFAULT 'ab'", "varbinary", "varbinary(4)", "is no constant"),
        ("FLOAT(10,2) DEFAULT 0.125", "float", "float(10,2)", "is no constant"),
        # A later statement may have made it a plain column.
        ("INT AS (v * 2) STORED", "int", "int(11)", "added with `GENERATED ALWAYS AS"),
        ("INT GENERATED ALWAYS AS (v) STORED NOT NULL", "int", "int(11)", "added with `GENERATED"),
        # Which the parser takes for a comment.
        ("INT /*!50000 DEFAULT 6 */", "int", "int(11)", "not sure to be understood"),
        ("INT /*M! DEFAULT 6 */", "int", "int(11)", "not sure to be understood"),
        # Of a session in latin1.
        ("VARCHAR(9) DEFAULT 'gr\ufffdn'", "varchar", "varchar(9)", "not sure to be understood"),
    ],
)
def test_what_each_row_has_of_its_own_or_looks_otherwise_is_refused(
    definition: str, kind: str, full: str, why: str
) -> None:
    column = Column("c", kind, full, True, True, None)
    with pytest.raises(UnknownDefault, match=why):
        Alteration(f"ALTER TABLE t ADD COLUMN c {definition}").value_of(column)


class Statements:
    """Statements of one table after another, as the connector reports them."""

    def __init__(self) -> None:
        self.changes = [
            SchemaChange("CREATE TABLE t", ["id", "name"], True, "", 1, 500),
            SchemaChange("ALTER TABLE t ADD x INT", ["id", "name", "x"], False, "0-1-9", 1, 900),
        ]

    def then(self, statement: str, *columns: str, is_read: bool = False) -> Statements:
        number = 9 + len(self.changes)
        self.changes.append(
            SchemaChange(statement, [*columns], is_read, f"0-1-{number}", 1, 100 * number)
        )
        return self

    def find(self, *names: str, renamed: tuple[str, ...] = ()) -> dict[str, str]:
        source: dict[str, Any] = {"name": "c", "type": "kafka", "topic": "t"}
        new = NewColumns(
            SnapshotOptions(dsn="mariadb://u@db/shop"),
            KafkaSource.model_validate({**source, "bootstrap_servers": "b:1"}),
            "shop",
            names,
            ["id", "name", "x"],
            renamed,
            SNAPSHOT,
        )
        found = statements_of(self.changes, SNAPSHOT, new)
        return {name: change.statement for name, change in found.items()}


def test_the_statement_after_the_snapshot_that_added_a_column_is_found() -> None:
    add_a, add_b = "ALTER TABLE t ADD a INT DEFAULT 1", "ALTER TABLE t ADD b INT"
    made = (
        Statements()
        .then(add_a, "id", "name", "x", "a")
        .then("ALTER TABLE t ALTER a SET DEFAULT 2", "id", "name", "x", "a")
        .then("TRUNCATE TABLE t", "id", "name", "x", "a")
        .then(add_b, "id", "name", "x", "a", "b")
        .then("CREATE TABLE t", "id", "name", "x", "a", "b", is_read=True)
    )
    assert made.find("a", "b") == {"a": add_a, "b": add_b}
    assert made.find("c") == {}


def test_a_declared_new_name_is_no_obstacle() -> None:
    made = Statements().then("ALTER TABLE t RENAME COLUMN name TO title", "id", "title", "x")
    add = "ALTER TABLE t ADD a INT"
    made.then(add, "id", "title", "x", "a")
    assert made.find("a", renamed=("title",)) == {"a": add}


@pytest.mark.parametrize(
    ("made", "name", "why"),
    [
        (
            Statements()
            .then("ALTER TABLE t RENAME COLUMN name TO title", "id", "title", "x")
            .then("ALTER TABLE t ADD name INT", "id", "title", "x", "name"),
            "title",
            "may hold what another one held under its name",
        ),
        (
            Statements().then("ALTER TABLE t CHANGE name title INT", "id", "title", "x"),
            "title",
            "may hold what another one held",
        ),
        (
            Statements().then(
                "ALTER TABLE t DROP name, ADD name INT, ADD a INT", "id", "name", "x", "a"
            ),
            "a",
            "may hold what another one held",
        ),
        (
            Statements()
            .then("ALTER TABLE t ADD a INT", "id", "name", "x", "a")
            .then("ALTER TABLE t DROP a", "id", "name", "x")
            .then("ALTER TABLE t ADD a INT DEFAULT 7", "id", "name", "x", "a"),
            "a",
            "a column `a` was dropped or renamed before this one was added",
        ),
        (
            Statements().then("RENAME TABLE t TO u, v TO t", "id", "name", "x", "a"),
            "a",
            "may hold what another one held",
        ),
        (
            Statements().then("CREATE TABLE t", "id", "name", "x", "a", is_read=True),
            "a",
            "read the table's definition from the server once more",
        ),
        (Statements(), "x", "the table had it at the snapshot"),
    ],
)
def test_a_column_that_may_hold_what_another_one_held_is_refused(
    made: Statements, name: str, why: str
) -> None:
    with pytest.raises(UnknownDefault, match=why):
        made.find(name)


def test_without_the_definition_at_the_snapshot_nothing_is_followed() -> None:
    made = Statements()
    made.changes.clear()
    made.then("ALTER TABLE t ADD a INT", "id", "name", "x", "a")
    made.changes[0] = made.changes[0]._replace(gtid="0-1-11")
    with pytest.raises(UnknownDefault, match="no definition of the table from before the snapshot"):
        made.find("a")
