"""Records of a topic as the audit stores them, without a broker: all of them, each once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from hybrid_extensions.audit.readers import topic_reader
from hybrid_extensions.audit.readers.topic_reader import TopicReader
from sources.common.positions import Offsets, TopicPartition
from sources.common.schema import parse_schema
from sources.config.loader import LoadedPipeline
from sources.config.source.kafka_source import KafkaSource
from tests.minimal import minimal_pipeline

AT = TopicPartition("t", 0)
COLUMNS = {"id": "bigint", "at": "timestamp", "shop": "string"}


@dataclass(frozen=True)
class Message:
    """A record, by the methods of the Kafka client's."""

    place: int
    sent: bytes | None
    of: bytes | None = None

    def topic(self) -> str:
        return AT.topic

    def partition(self) -> int:
        return AT.partition

    def offset(self) -> int:
        return self.place

    def timestamp(self) -> tuple[int, int]:
        return 1, 1000 + self.place

    def key(self) -> bytes | None:
        return self.of

    def value(self) -> bytes | None:
        return self.sent

    def headers(self) -> None:
        return None


def declared(folder: Path, **more: Any) -> LoadedPipeline:
    source = {
        "type": "kafka",
        "name": "live",
        "topic": "t",
        "bootstrap_servers": "b:9092",
        "schema": {"id": "bigint", "at": "timestamp"},
        **more,
    }
    sink = {"path": "out", "mode": "merge", "key": ["id"], "sequence": "at", "deleted": "gone"}
    history = {"type": "files", "name": "history", "path": "in/*.parquet", "format": "parquet"}
    deletes = more.get("on_tombstone") == "delete"
    return minimal_pipeline(folder, history, source, **({"sink": sink} if deletes else {}))


def read(
    monkeypatch: pytest.MonkeyPatch,
    loaded: LoadedPipeline,
    columns: Mapping[str, str],
    messages: list[Message],
    first: Offsets | None = None,
    end: Offsets | None = None,
) -> list[dict[str, Any]]:
    """What the table has of a topic with these messages, in the order of offsets."""

    class Log:
        def __init__(self, _: KafkaSource) -> None:
            pass

        def log_start(self) -> Offsets:
            return {AT: messages[0].place}

        def log_end(self) -> Offsets:
            return {AT: messages[-1].place + 1}

        def scan(
            self, starts: Offsets, ends: Offsets, take: Callable[[TopicPartition, Any], bool]
        ) -> None:
            for message in messages:
                if starts[AT] <= message.place < ends[AT]:
                    assert take(AT, message)

    monkeypatch.setattr(topic_reader, "KafkaLog", Log)
    source = loaded.pipeline.sources[-1]
    assert isinstance(source, KafkaSource)
    schema = parse_schema(dict(columns))
    with duckdb.connect() as connection:
        connection.execute("SET timezone = 'UTC'")
        reader = TopicReader(source, first, end)
        reader.insert_into(connection, "records", {each.name: each.type for each in schema})
        table = connection.sql("SELECT * FROM records ORDER BY _offset").to_arrow_table()
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def test_each_record_is_there_once_however_many_are_inserted_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_reader, "BATCH_RECORDS", 2)
    messages = [Message(place, b'{"id": %d}' % place) for place in range(3, 8)]
    rows = read(monkeypatch, declared(tmp_path), {"id": "bigint", "at": "timestamp"}, messages)
    assert [(row["_offset"], row["_timestamp_ms"], row["_value"]) for row in rows] == [
        (place, 1000 + place, f'{{"id": {place}}}') for place in range(3, 8)
    ]
    assert {row["_reason"] for row in rows} == {None}


@pytest.mark.parametrize(
    ("first", "end", "places"),
    [
        (None, None, range(3, 8)),
        ({AT: 5}, None, range(5, 8)),
        # Kafka has deleted what lies before its log start.
        ({AT: 1}, None, range(3, 8)),
        (None, {AT: 6}, range(3, 6)),
        (None, {AT: 20}, range(3, 8)),
        # A partition that a bounded topic does not name was created later.
        (None, {}, range(0)),
    ],
)
def test_the_range_of_offsets_ends_where_the_topic_does(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: Offsets | None,
    end: Offsets | None,
    places: range,
) -> None:
    messages = [Message(place, b"{}") for place in range(3, 8)]
    columns = {"id": "bigint", "at": "timestamp"}
    rows = read(monkeypatch, declared(tmp_path), columns, messages, first, end)
    assert [row["_offset"] for row in rows] == [*places]


def test_columns_of_the_record_are_not_looked_for_in_its_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = declared(tmp_path, include={"shop": "key", "place": "offset"})
    columns = {"id": "bigint", "at": "timestamp", "shop": "string", "place": "bigint"}
    sent = b'{"id": 1, "shop": "of the value"}'
    messages = [Message(0, sent, b"of the key"), Message(1, sent), Message(2, sent, b"\xff")]
    rows = read(monkeypatch, loaded, columns, messages)
    assert [(row["shop"], row["place"], row["_reason"]) for row in rows] == [
        ("of the key", 0, None),
        (None, 1, None),
        (None, None, "the key is not UTF-8 text"),
    ]


def test_a_record_without_a_value_is_bad_or_left_out_or_the_row_that_it_deletes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = {"id": "bigint", "at": "timestamp"}
    messages = [Message(0, b'{"id": 1}', b"1"), Message(1, None, b"1"), Message(2, b"\xff")]

    def reasons(**more: Any) -> dict[int, str | None]:
        kinds = {**columns, **({"gone": "boolean"} if more.get("include") else {})}
        rows = read(monkeypatch, declared(tmp_path, **more), kinds, messages)
        for row in rows:
            if row.get("gone"):
                assert row["_value"].startswith('{"id": 1, "at": "1970-01-01 00:00:01.001')
        return {row["_offset"]: row["_reason"] for row in rows}

    bad = "the value is not UTF-8 text"
    refused = reasons()
    assert (refused[0], refused[2]) == (None, bad)
    assert str(refused[1]).startswith("the record has no value")
    assert reasons(on_tombstone="ignore") == {0: None, 2: bad}
    deletes = {"on_tombstone": "delete", "include": {"gone": "tombstone"}}
    assert reasons(**deletes) == {0: None, 1: None, 2: bad}
