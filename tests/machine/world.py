"""The raw input that the machine keeps, as files and a topic, and the table that it makes."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from hybrid_extensions.servers.broker import create_topic
from sources.config.loader import LoadedPipeline, load_pipeline
from tests.services.processes import wait_for

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
LATENESS = 20
"""Minutes by which a record comes late at most."""
COLUMNS = pa.schema([("id", pa.string()), ("at", pa.timestamp("us", "UTC")), ("v", pa.float64())])
SMALL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
ODD = [None, "", " ", "null", "-0", "0", "é", "'", '"', "a\nb", "%2F", "..", "k0 ", "K1"]
TRANSFORMS = "def identity(rows):\n    return rows\n"


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """Return one database for all comparisons: opening one takes longer than they do."""
    return duckdb.connect(config={"threads": 1})


@dataclass(frozen=True)
class Row:
    """A row of raw input.

    Attributes:
        id: Its key; null is one like any other.
        minute: Its event time, in minutes since the beginning.
        year: Year that a wrong clock said instead; such a row belongs into no table.
    """

    id: str | None
    minute: int
    year: int | None = None

    @property
    def at(self) -> datetime:
        """Its event time."""
        moment = BEGIN + timedelta(minutes=self.minute)
        return moment if self.year is None else moment.replace(year=self.year, day=1)

    def as_tuple(self) -> tuple[str | None, datetime, float]:
        """The row as it stands in a table."""
        return self.id, self.at, self.minute / 2

    def as_json(self) -> bytes:
        """The row as the value of a record."""
        document = {"id": self.id, "at": f"{self.at:%Y-%m-%dT%H:%M:%SZ}", "v": self.minute / 2}
        return json.dumps(document).encode()


@dataclass(frozen=True)
class Sent:
    """A record of the topic as it is now."""

    partition: int
    offset: int
    row: Row


def set_field(document: dict[str, Any], field: str, value: Any) -> None:
    """Set a field of a declaration, by its dotted name; None removes it."""
    place: Any = document
    *way, last = field.split(".")
    for part in way:
        place = place[int(part) if part.isdigit() else part]
    if value is None:
        place.pop(last, None)
    else:
        place[last] = value


class World:
    """All raw input, and the files and the topic that hold it.

    Args:
        folder: Its own, empty.
        servers: Address of the broker.

    Attributes:
        rows: Every row that ever was, in order of arrival.
        archived: Rows in the files.
        sent: Records of the present topic, deleted ones included.
        deleted_to: Log start by partition.
        always: Fields of the declaration that are set in any case.
    """

    def __init__(self, folder: Path, servers: str) -> None:
        self.folder = folder
        self.servers = servers
        self.topic = f"machine-{uuid.uuid4().hex[:8]}"
        self.partitions = 2
        self.rows: list[Row] = []
        self.archived: set[Row] = set()
        self.sent: list[Sent] = []
        self.deleted_to: dict[int, int] = {}
        self._minute = 0
        self._files = 0
        self._odd = list(ODD)
        self.admin = AdminClient({"bootstrap.servers": servers})
        self._producer = self._connect()
        create_topic(servers, self.topic, self.partitions, {"retention.ms": "-1"})
        (folder / "in").mkdir(parents=True)
        (folder / "transforms.py").write_text(TRANSFORMS)
        self.always: dict[str, Any] = {}
        self.document = self.declaration()
        self.write_declaration()

    # What arrives.

    def append(self, count: int, late: int = 0, odd: int = 0) -> None:
        """Add records to the topic: in order of event time, then one that comes late."""
        for number in range(count):
            self._minute += 1
            back = min(late, LATENESS) if number == count - 1 else 0
            key: str | None = f"k{len(self.rows)}"
            if odd and self._odd:
                key, odd = self._odd.pop(0), odd - 1
            self._send(Row(key, max(self._minute - back, 0)))
        assert self._producer.flush(30) == 0

    def append_wrong_clock(self, year: int) -> None:
        """Add a record whose event time no clock that is right can have."""
        self._send(Row(f"k{len(self.rows)}", self._minute, year))
        assert self._producer.flush(30) == 0

    def _send(self, row: Row) -> None:
        partition = len(self.rows) % self.partitions
        self.rows.append(row)

        def delivered(error: Any, message: Any) -> None:
            assert error is None, error
            self.sent.append(Sent(message.partition(), message.offset(), row))

        self._producer.produce(
            self.topic,
            row.as_json(),
            partition=partition,
            # The record's own timestamp is the broker's business: it refuses the future.
            timestamp=int((BEGIN + timedelta(minutes=row.minute)).timestamp() * 1000),
            on_delivery=delivered,
        )

    def archive(self) -> None:
        """Write all rows that no file holds yet to a new file, as an archiver does."""
        new = [row for row in self.rows if row not in self.archived]
        if not new:
            return
        new.sort(key=lambda row: row.minute)
        half = (len(new) + 1) // 2
        for part in filter(None, (new[:half], new[half:])):
            table = pa.Table.from_pylist(
                [dict(zip(COLUMNS.names, row.as_tuple(), strict=True)) for row in part], COLUMNS
            )
            pq.write_table(table, self.folder / "in" / f"{self._files:03d}.parquet")
            self._files += 1
        self.archived |= set(new)

    def shorten(self, records: int) -> None:
        """Delete the oldest records that are left of each partition."""
        below = []
        for part in range(self.partitions):
            end = sum(each.partition == part for each in self.sent)
            start = min(self.deleted_to.get(part, 0) + records, end)
            if start > self.deleted_to.get(part, 0):
                self.deleted_to[part] = start
                below.append(TopicPartition(self.topic, part, start))
        if below:
            for done in self.admin.delete_records(below).values():
                done.result()

    def grow(self) -> None:
        """Give the topic one more partition."""
        self.partitions += 1
        wanted = [NewPartitions(self.topic, self.partitions)]
        self.admin.create_partitions(wanted)[self.topic].result()
        wait_for(lambda: self._known() == self.partitions, "the new partition")
        self._producer = self._connect()

    def recreate(self) -> None:
        """Delete the topic, which is archived before, and create another one of its name.

        Of records that nothing holds and no plan ever saw nobody can know.
        """
        self.archive()
        self.delete_topic()
        wait_for(lambda: self._known() == 0, "the topic's end")
        create_topic(self.servers, self.topic, self.partitions, {"retention.ms": "-1"})
        self.sent, self.deleted_to = [], {}
        self._producer = self._connect()

    def delete_topic(self) -> None:
        """Delete the topic."""
        self.admin.delete_topics([self.topic])[self.topic].result()

    def _connect(self) -> Producer:
        """Return a producer; one that was there before knows the old partitions for a while."""
        settings = {"bootstrap.servers": self.servers, "max.in.flight": 1, "linger.ms": 0}
        return Producer(settings)

    def _known(self) -> int:
        topics = self.admin.list_topics(timeout=10).topics
        found = topics.get(self.topic)
        return 0 if found is None or found.error is not None else len(found.partitions)

    # What people declare.

    def declaration(self) -> dict[str, Any]:
        """The declaration as it is at first."""
        document: dict[str, Any] = {
            "name": "m",
            "event_time": "at",
            "key": ["id"],
            "allowed_lateness": f"{LATENESS} min",
            "sources": [
                {
                    "name": "history",
                    "type": "files",
                    "path": "in/*.parquet",
                    "format": "parquet",
                    "batch": {"files": 1},
                },
                {
                    "name": "live",
                    "type": "kafka",
                    "topic": self.topic,
                    "bootstrap_servers": self.servers,
                    "trigger_interval": "100 ms",
                },
            ],
            "transform": "transforms:identity",
            "sink": {"path": "out", "mode": "append", "key": ["id"]},
            "state": "state",
            "spark": {"conf": dict(SMALL)},
        }
        for field, value in self.always.items():
            set_field(document, field, value)
        return document

    def write_declaration(self) -> None:
        """Write the declaration as it stands to its file."""
        (self.folder / "m.yaml").write_text(yaml.safe_dump(self.document))

    def load(self) -> LoadedPipeline:
        """Load the declaration, as each command does."""
        return load_pipeline(self.folder / "m.yaml")

    # What is right.

    def truth(self) -> pa.Table:
        """Every row that ever was and whose clock was right, once."""
        right = [row.as_tuple() for row in self.rows if row.year is None]
        rows = [dict(zip(COLUMNS.names, row, strict=True)) for row in right]
        return pa.Table.from_pylist(rows, COLUMNS)

    def wrong(self, path: str) -> dict[str, int]:
        """Compare a table with all raw input, in DuckDB; empty if they are equal.

        Returns:
            Numbers of rows that are missing and superfluous.
        """
        try:
            found = DeltaTable(path).to_pyarrow_table(columns=COLUMNS.names)
        except (TableNotFoundError, OSError):
            found = COLUMNS.empty_table()
        with _database().cursor() as connection:
            connection.register("found", found.cast(COLUMNS))
            connection.register("truth", self.truth())
            counts = {
                name: connection.sql(
                    f"SELECT count(*) FROM (FROM {left} EXCEPT ALL FROM {right})"
                ).fetchall()[0][0]
                for name, left, right in (
                    ("missing", "truth", "found"),
                    ("superfluous", "found", "truth"),
                )
            }
        return {name: count for name, count in counts.items() if count}

    def kept_by_nobody(self) -> Counter[str | None]:
        """Rows that neither a file nor the topic holds any more, by key."""
        there = {
            each.row for each in self.sent if each.offset >= self.deleted_to.get(each.partition, 0)
        }
        gone = (row for row in self.rows if row not in there | self.archived)
        return Counter(row.id for row in gone if row.year is None)
