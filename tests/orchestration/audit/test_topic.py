"""The audit of a topic: read to its end by position, whatever lies between its records."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from services.broker import create_topic
from sources.errors import InputError
from tests.orchestration.audit.audit_case import COLUMNS, Case, Row, row, wrong

pytestmark = pytest.mark.kafka
ROWS = [row(number) for number in range(40)]


@dataclass(frozen=True)
class Live:
    """A pipeline of ten rows of history and a topic of two partitions."""

    case: Case
    servers: str
    topic: str

    def send(
        self, values: list[bytes | None], partition: int = 0, commit: bool = True, **more: Any
    ) -> None:
        """Write in one transaction; its end takes up an offset too."""
        settings = {"bootstrap.servers": self.servers, "transactional.id": uuid.uuid4().hex}
        producer = Producer(settings)
        producer.init_transactions()
        producer.begin_transaction()
        for at, value in enumerate(values):
            producer.produce(self.topic, value, partition=partition, timestamp=1_000 + at, **more)
        producer.flush()
        (producer.commit_transaction if commit else producer.abort_transaction)()

    def sources(self, schema: dict[str, str] | None = None) -> list[dict[str, Any]]:
        """The declaration of both."""
        history = {"type": "files", "name": "history", "path": "history/*", "format": "parquet"}
        live = {
            "type": "kafka",
            "name": "live",
            "topic": self.topic,
            "bootstrap_servers": self.servers,
            "schema": schema,
        }
        return [history, live]

    def refusal(self, schema: dict[str, str] | None = None) -> str:
        with pytest.raises(InputError) as caught:
            self.case.audit(sources=self.sources(schema))
        return str(caught.value)


@pytest.fixture
def live(tmp_path: Path, servers: str) -> Live:
    live = Live(Case(tmp_path), servers, f"flights-{uuid.uuid4().hex}")
    create_topic(servers, live.topic, 2, {"retention.ms": "-1"})
    live.case.history(ROWS[:10])
    return live


def as_json(rows: list[Row]) -> list[bytes | None]:
    return [json.dumps({**row, "at": row["at"].isoformat()}).encode() for row in rows]


@pytest.mark.parametrize(("isolation", "read"), [("read_committed", 15), ("read_uncommitted", 25)])
def test_offsets_without_records_do_not_hold_it_up(live: Live, isolation: str, read: int) -> None:
    live.send(as_json(ROWS[5:15]))
    live.send(as_json(ROWS[15:20]))
    live.send(as_json(ROWS[20:30]), partition=1, commit=False)
    live.case.target(ROWS[: read + 5])
    history, topic = live.sources()
    report = live.case.audit(sources=[history, {**topic, "isolation": isolation}])
    assert report.ok
    assert report.input_rows.sources == {"history": 10, "live": read}
    assert report.input_rows.distinct == read + 5


def test_a_row_of_the_topic_that_is_missing_is_named(live: Live) -> None:
    live.send(as_json(ROWS[5:30]), partition=1)
    live.case.target([row for row in ROWS[:30] if row["id"] != 23])
    report = live.case.audit(sources=live.sources(COLUMNS))
    assert wrong(report) == {"missing": 1}
    assert report.examples["missing"][0].key == {"id": 23, "origin": "JFK"}


def test_deleted_and_valueless_records_and_an_empty_partition(live: Live) -> None:
    live.send(as_json(ROWS[:20]))
    live.send([None, *as_json(ROWS[20:22]), None])
    admin = AdminClient({"bootstrap.servers": live.servers})
    for future in admin.delete_records([TopicPartition(live.topic, 0, 8)]).values():
        future.result()
    live.case.target(ROWS[:22])
    report = live.case.audit(sources=live.sources())
    assert report.ok
    assert report.input_rows.sources == {"history": 10, "live": 14}
    assert report.notes == [
        "Source `live`: 2 records of its topics have no value, and do not count as rows."
    ]


def test_a_topic_without_records(live: Live) -> None:
    live.case.target(ROWS[:10])
    report = live.case.audit(sources=live.sources())
    assert report.ok
    assert report.input_rows.sources == {"history": 10, "live": 0}


def test_sql_sees_where_a_record_lies(live: Live) -> None:
    live.send(as_json(ROWS[10:12]), partition=1)
    live.case.target(ROWS[10:12])
    query = (
        "SELECT * EXCLUDE (_topic, _partition, _offset, _timestamp_ms) FROM live "
        "WHERE _partition = 1 AND _offset IN (0, 1) AND _timestamp_ms = 1000 + _offset"
    )
    assert live.case.audit(sources=live.sources(), audit=live.case.sql(query)).ok


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b'{"id": 1', 'is not a JSON object: {"id": 1'),
        (b"[1]", "is not a JSON object: [1]"),
        (b"", "is not a JSON object"),
        (b"\xff", "the value is not UTF-8 text"),
        (b'{"id": "x"}', '`id` does not fit BIGINT: "x"'),
        (b'{"at": "yesterday"}', '`at` does not fit TIMESTAMP WITH TIME ZONE: "yesterday"'),
    ],
)
def test_a_value_that_can_not_be_decoded_is_refused_by_its_offset(
    live: Live, value: bytes, told: str
) -> None:
    live.send([*as_json(ROWS[:3]), value], partition=1)
    with pytest.raises(InputError) as caught:
        live.case.audit(sources=live.sources())
    text, fields = str(caught.value), caught.value.fields
    assert fields == {"source": "live", "topic": live.topic, "partition": 1, "offset": 3}
    assert f"Topic `{live.topic}`, partition 1, offset 3" in text
    assert told in text


@pytest.mark.parametrize("policy", ["drop", "quarantine"])
def test_bad_records_that_are_allowed_are_told_and_are_no_rows(live: Live, policy: str) -> None:
    bad = [b"[1]", b"\xff", None, b'{"id": "7"}', b'{"seats": 1.5}', b'{"delay": "2"}']
    live.send([*as_json(ROWS[10:12]), *bad, *as_json(ROWS[12:14])])
    live.case.target(ROWS[:14])
    history, topic = live.sources()
    report = live.case.audit(sources=[history, {**topic, "on_bad_record": policy}])
    assert report.ok
    assert report.notes == []
    assert report.input_rows.sources == {"history": 10, "live": 4}
    line = report.bad_records[0]
    assert (line.source, line.policy, line.found, line.counted) == ("live", policy, 6, None)


def test_rows_are_made_as_select_says(live: Live) -> None:
    def other(row: Row) -> bytes:
        at = int(row["at"].timestamp() * 1000)
        return json.dumps(
            {"no": f"f-{row['id']}", "at": {"ms": at}, "late": str(row["delay"]), "x": 1}
        ).encode()

    # `x` is in no column that comes out, and the record is bad nevertheless.
    bad = b'{"no": "f-1", "at": {"ms": 1}, "late": "1", "x": "one"}'
    headers = [("seats", b"7"), ("from", "Zürich\\".encode())]
    live.send([*map(other, ROWS[5:15]), bad], headers=headers)
    history, topic = live.sources({"no": "string", "at": "struct<ms:bigint>", "late": "string"})
    topic["schema"]["x"] = "int"
    declared = {
        "include": {"h": "headers", "number": "offset"},
        "on_bad_record": "drop",
        "select": {
            "at": "timestamp_millis(at.ms)",
            "id": "CAST(substring(no, 3) AS bigint)",
            "origin": "CAST(h[1].value AS string)",
            "delay": "CAST(late AS double)",
            "seats": "CAST(CAST(h[0].value AS string) AS int)",
            "number": "number",
        },
    }
    expected = [{**row, "origin": "Zürich\\", "seats": 7} for row in ROWS[5:15]]
    live.case.target([*ROWS[:10], *expected])
    report = live.case.audit(sources=[history, {**topic, **declared}])
    assert report.ok
    assert report.input_rows.sources == {"history": 10, "live": 10}
    assert report.bad_records[0].found == 1
    # The log's own columns stay, for those who ask for them.
    query = (
        "SELECT * EXCLUDE (_topic, _partition, _offset, _timestamp_ms, number) FROM live "
        "WHERE _offset = number"
    )
    sql = live.case.sql(query)
    live.case.target_again(expected)
    assert live.case.audit(sources=[history, {**topic, **declared}], audit=sql).ok


def test_a_topic_that_does_not_exist(live: Live) -> None:
    gone = Live(live.case, live.servers, "gone")
    assert f"There is no topic `gone` on {live.servers}." in gone.refusal()
