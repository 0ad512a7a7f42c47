"""Input of both contenders: files of JSON lines, and a topic that continues them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb
from confluent_kafka import Producer

from benchmarks.topics import deliver, send
from hybrid_extensions.servers.broker import create_topic

TOPIC = "events"
COLUMNS = {"id": "bigint", "at": "timestamp", "user": "string", "value": "double"}
FILES, PARTITIONS = 32, 4
# Events of a second; a user has 72 in an hour.
RATE = 20
# The last event of each partition, a day later, which moves the watermark past all others.
LAST_USER = "end"
_USERS = 1000
_BEGIN_S = 1_704_067_200
_DAY_S = 86_400
# Both ends of the files are whole seconds, so that a start by time is exact for Flink as well.
_UNIT = FILES * RATE


@dataclass(frozen=True)
class Inputs:
    """Files and topic, and the same records of the topic as a file, for the comparison.

    Attributes:
        folder: Folder of the files.
        rows: Rows of the files.
        servers: Address of the broker.
    """

    folder: Path
    rows: int
    servers: str

    @property
    def history(self) -> Path:
        """Folder of the files of JSON lines."""
        return self.folder / "history"

    @property
    def records(self) -> Path:
        """File of the topic's records."""
        return self.folder / "topic.json"

    @property
    def overlap(self) -> int:
        """Rows at the end of the files that are in the topic, too."""
        return self.rows // 100 // RATE * RATE

    @property
    def records_count(self) -> int:
        """Number of records of the topic: the overlap, as many new ones as history, the last."""
        return self.overlap + self.rows + PARTITIONS

    @property
    def history_end_ms(self) -> int:
        """Event time of the last row of the files, in ms since 1970."""
        return (_BEGIN_S + (self.rows - 1) // RATE) * 1000


def prepare(folder: Path, rows: int, servers: str) -> Inputs:
    """Write the files, and create and fill the topic.

    Args:
        folder: Folder for the files.
        rows: Number of rows of the files, rounded down to what divides evenly, and of new ones in
            the topic.
        servers: Address of the broker.
    """
    inputs = Inputs(folder, max(rows // _UNIT, 1) * _UNIT, servers)
    write_files(inputs)
    _fill(inputs)
    return inputs


def write_files(inputs: Inputs) -> None:
    """Write the files of history, and the file of the topic's records."""
    inputs.history.mkdir(parents=True)
    each = inputs.rows // FILES
    for number in range(FILES):
        _write(inputs.history / f"{number:03}.json", number * each, (number + 1) * each)
    _write(inputs.records, inputs.rows - inputs.overlap, 2 * inputs.rows, last=True)


def _write(path: Path, first: int, end: int, *, last: bool = False) -> None:
    """Write the events of a range of ids as JSON lines; ``last`` adds those of partitions."""
    rows = f"""
        SELECT id, {_BEGIN_S} + id // {RATE} AS s, 'user' || (id % {_USERS}) AS "user"
        FROM range({first}, {end}) AS ids(id)"""
    if last:
        later = f"{_BEGIN_S + _DAY_S} + {end} // {RATE}"
        rows += f"""
        UNION ALL SELECT id, {later}, '{LAST_USER}' FROM range({end}, {end + PARTITIONS}) t(id)"""
    with duckdb.connect() as connection:
        connection.execute(f"""
            COPY (
                SELECT id, strftime(make_timestamp(s * 1000000), '%Y-%m-%dT%H:%M:%SZ') AS "at",
                    "user", id * 0.5 AS value
                FROM ({rows}) ORDER BY id
            ) TO '{path}' (FORMAT json)""")


def _fill(inputs: Inputs) -> None:
    """Produce the records in turn to the partitions, with their event times as timestamps."""
    create_topic(inputs.servers, TOPIC, PARTITIONS, {"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": inputs.servers, "linger.ms": 50})
    first, end = inputs.rows - inputs.overlap, 2 * inputs.rows
    with inputs.records.open("rb") as lines:
        for id_, line in enumerate(lines, first):
            at_s = _BEGIN_S + min(id_, end) // RATE + (_DAY_S if id_ >= end else 0)
            send(producer, TOPIC, line.rstrip(), partition=id_ % PARTITIONS, timestamp=at_s * 1000)
    deliver(producer)
