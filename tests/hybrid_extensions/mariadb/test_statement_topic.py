"""What a look at a table of a real MariaDB makes of the topic of statements, and of lost rights."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from hybrid_extensions.cdc.databases.altered_table import Names, TableWatch
from hybrid_extensions.cdc.databases.captured_table import CapturedTable
from hybrid_extensions.mariadb.log.schema_changes import read_statements
from hybrid_extensions.mariadb.table_look import look_at_table
from hybrid_extensions.servers.broker import create_topic
from hybrid_extensions.servers.databases.mariadb import LocalMariaDb
from sources.common.database_snapshot import BinlogSnapshot
from sources.common.positions import TopicPartition
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.snapshot import SnapshotOptions
from sources.config.table.sink import Sink
from sources.errors import InputError

pytestmark = [pytest.mark.slow, pytest.mark.kafka]
COLUMNS = {"id": "int", "v": "int"}
SNAPSHOT = BinlogSnapshot(file=1, offset=1000, domain=0, sequence=10, taken_ms=0)


class Case:
    """A database with a table, and the topics of a connector that nobody runs."""

    def __init__(self, mariadb: LocalMariaDb, servers: str) -> None:
        self.mariadb, self.servers = mariadb, servers
        self.name = f"shop_{uuid.uuid4().hex[:8]}"
        mariadb.execute(f"CREATE DATABASE {self.name}")
        mariadb.execute(f"CREATE TABLE {self.name}.t (id int PRIMARY KEY, v int)")
        create_topic(servers, self.name)

    def write(self, value: object) -> None:
        producer = Producer({"bootstrap.servers": self.servers})
        producer.produce(self.name, json.dumps(value))
        producer.flush()

    def define(self, statement: str, sequence: int) -> None:
        columns = [
            {"name": name, "typeExpression": "INT", "optional": name != "id"} for name in COLUMNS
        ]
        table = {"primaryKeyColumnNames": ["id"], "columns": columns}
        changes = [{"type": "ALTER", "id": f'"{self.name}"."t"', "table": table}]
        source = {"file": "binlog.000001", "pos": 90 * sequence, "gtid": f"0-1-{sequence}"}
        record = {"source": source, "databaseName": self.name, "ddl": statement}
        self.write({**record, "tableChanges": changes})

    def look(self, before: TableWatch | None = None, user: str | None = None) -> TableWatch:
        dsn = self.mariadb.dsn(self.name) if user is None else self.mariadb.dsn(self.name, user)
        table = f"{self.name}.t"
        topic = KafkaSource.model_validate(
            {
                "name": "changes",
                "type": "kafka",
                "topic": f"{self.name}.{table}",
                "bootstrap_servers": self.servers,
                "format": "debezium",
                "table": table,
                "schema": COLUMNS,
            }
        )
        captured = CapturedTable(
            source="snapshot",
            name=table,
            options=SnapshotOptions(dsn=dsn),
            columns=COLUMNS,
            ignored=[],
            sink=Sink(path="out", mode="merge", key=["id"]),
        )
        assert topic.changes is not None
        names = Names(COLUMNS, topic.changes)
        return look_at_table(captured, topic, names, before or self.first, SNAPSHOT)

    @property
    def first(self) -> TableWatch:
        seen = self.look(TableWatch(looked_ms=1))
        return TableWatch(looked_ms=1, definition=seen.definition)


@pytest.fixture
def case(mariadb: LocalMariaDb, servers: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    monkeypatch.setenv("MYSQL_PWD", mariadb.password)
    made = Case(mariadb, servers)
    yield made
    mariadb.execute(f"DROP DATABASE {made.name}")


def state(seen: TableWatch) -> tuple[str | None, Any]:
    return seen.unknown, seen.altered


def test_statements_that_the_topic_may_lack_are_told(case: Case) -> None:
    empty = case.look()
    assert state(empty) == (None, None)
    assert f"`{case.name}` has no definition of table `{case.name}.t`" in str(empty.doubt)
    assert "run `hybrid compare P`" in str(empty.doubt)

    case.define("CREATE TABLE t (…)", 9)
    seen = case.look()
    assert (*state(seen), seen.doubt) == (None, None, None)
    case.define("ALTER TABLE t COMMENT 'x'", 11)
    case.define("ALTER TABLE t COMMENT 'y'", 12)
    admin = AdminClient({"bootstrap.servers": case.servers})
    for future in admin.delete_records([KafkaPartition(case.name, 0, 2)]).values():
        future.result()
    deleted = case.look(seen)
    assert state(deleted) == (None, None)
    assert "were deleted before they were read (offsets 1 to 1)" in str(deleted.doubt)
    # It stays, and what comes later still counts.
    case.define("DROP TABLE t", 13)
    later = case.look(deleted)
    assert later.doubt == deleted.doubt
    assert later.statements == {TopicPartition(case.name, 0): 4}
    again = case.look(seen.model_copy(update={"statements": {TopicPartition(case.name, 0): 99}}))
    assert "was created again" in str(again.doubt)


def test_a_topic_of_statements_that_is_missing_is_no_empty_one(servers: str) -> None:
    declared = {"name": "changes", "type": "kafka", "format": "debezium", "table": "shop.t"}
    waits = {"topic": "shop.shop.t", "bootstrap_servers": servers, "missing_topic": "wait"}
    topic = KafkaSource.model_validate({**declared, **waits, "schema": COLUMNS})
    name = f"none_{uuid.uuid4().hex[:8]}"
    with pytest.raises(InputError, match=f"There is no topic `{name}`"):
        read_statements(topic, name, {})


def test_a_record_of_another_form_is_no_traceback(case: Case) -> None:
    case.define("CREATE TABLE t (…)", 9)
    seen = case.look()
    case.write([1])
    case.write({"source": {"file": "", "pos": 1}})
    later = case.look(seen)
    assert state(later) == (None, None)
    assert "holds another record than that of a statement" in str(later.doubt)
    assert later.statements == {TopicPartition(case.name, 0): 3}


def test_a_right_that_was_revoked_is_no_finding_about_the_table(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.define("CREATE TABLE t (…)", 9)
    user = f"r{case.name[-8:]}"
    case.mariadb.execute(f"CREATE USER {user}@'127.0.0.1' IDENTIFIED BY 'geheim'")
    case.mariadb.execute(f"GRANT SELECT ON {case.name}.* TO {user}@'127.0.0.1'")
    seen = case.look()
    monkeypatch.setenv("MYSQL_PWD", "geheim")
    revoked = case.look(seen, user)
    assert revoked.altered is None
    assert "GRANT BINLOG MONITOR ON" in str(revoked.unknown)


def test_what_others_wrote_into_a_statement_is_kept_in_short(case: Case) -> None:
    case.define("CREATE TABLE t (…)", 9)
    seen = case.look()
    secret = "CONNECTION='mysql://u:p@ss@db/x' PASSWORD='a b'"
    case.define(f"ALTER TABLE t TRUNCATE PARTITION p0 {secret} {'x' * 900}", 11)
    altered = case.look(seen).altered
    assert altered is not None
    assert altered.statement is not None
    assert "mysql://***db/x' PASSWORD***" in altered.statement
    assert len(altered.statement) <= 300
