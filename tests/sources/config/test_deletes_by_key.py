"""Declaring that records without a value delete rows, and what that needs."""

from __future__ import annotations

from typing import Any

import pytest

from sources.common.positions import TopicPartition
from sources.common.topic_log import LogRecord
from sources.config.pipeline import Pipeline
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError
from sources.planning.topics.tombstone_check import tombstone_warnings
from sources.planning.topics.topic_sample import fit_sample
from tests.minimal import minimal_model
from tests.sources.decoding.value_case import changes_source

LIVE: dict[str, Any] = {
    "name": "live",
    "type": "kafka",
    "topic": "t",
    "start": "earliest",
    "schema": {"id": "bigint", "at": "timestamp", "city": "string"},
    "include": {"gone": "tombstone"},
    "on_tombstone": "delete",
}
MERGE = {"path": "out", "mode": "merge", "key": ["id"], "sequence": "at", "deleted": "gone"}
APPEND = {"path": "out", "mode": "append", "key": ["id"]}


def declared(sink: dict[str, Any] = MERGE, **changed: Any) -> Pipeline:
    return minimal_model({**LIVE, **changed}, sink=sink)


SELECT = {"id": "id", "at": "at", "gone": "gone"}


def live(**changed: Any) -> KafkaSource:
    (source,) = declared(**changed).topics
    return source


def test_a_sink_that_merges_by_the_event_time_or_the_offset_deletes() -> None:
    assert live().row_of_key == (("id",), "at")
    by_offset = {**MERGE, "sequence": "no"}
    assert declared(by_offset, include={"gone": "tombstone", "no": "offset"}).topics[0].row_of_key


def test_with_select_the_key_has_the_names_before_it() -> None:
    renamed = live(
        schema={"no": "bigint", "happened": "timestamp", "city": "string"},
        select={
            "id": "no",
            "at": "happened",
            "gone": "gone",
            "town": "CAST(upper(city) AS STRING)",
        },
    )
    assert renamed.row_of_key == (("no",), "happened")


@pytest.mark.parametrize(
    ("sink", "changed", "told"),
    [
        (APPEND, {}, r"needs `sink\.mode: merge`, as appended rows are not removed"),
        ({**MERGE, "sequence": "city"}, {}, r"needs `sink\.sequence` to be .* event time `at`"),
        ({**MERGE, "sequence": None, "deleted": None}, {}, r"needs `sink\.sequence` to be"),
        (
            {**MERGE, "deleted": None},
            {"include": {}},
            r"`include: \{_deleted: tombstone\}` .*`sink\.deleted: _deleted`, .*CAST\(false AS B",
        ),
        (MERGE, {"include": {}}, r"`include: \{gone: tombstone\}` for this source"),
        (
            MERGE,
            {"select": {**SELECT, "id": "CAST(id + 1 AS BIGINT)"}},
            "`select.id` to be a column as it is",
        ),
        (
            MERGE,
            {"select": {**SELECT, "at": "CAST(at + INTERVAL 1 HOUR AS TIMESTAMP)"}},
            "`select.at` to be a col",
        ),
        (MERGE, {"select": {"id": "id", "at": "at"}}, r"\(and in `select`, as `gone: gone`\)"),
        (MERGE, {"format": "raw", "schema": None}, "needs no `format: raw`"),
        (
            {**MERGE, "key": ["k"]},
            {"include": {"gone": "tombstone", "k": "key"}},
            "`sink.key` to be columns of the records' keys, which `k` is not",
        ),
        (MERGE, {"on_tombstone": "ignore"}, "`tombstone`, which is always false here"),
        (APPEND, {"on_tombstone": "skip", "include": {}}, "on_tombstone"),
    ],
)
def test_what_would_not_delete_is_refused(
    sink: dict[str, Any], changed: dict[str, Any], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        declared(sink, **changed)


def test_changes_of_debezium_tell_deletes_themselves() -> None:
    with pytest.raises(
        ValueError, match="no meaning with `format: debezium`, whose changes contain"
    ):
        changes_source({"id": "bigint"}, on_tombstone="delete")


def record(offset: int, value: bytes | None, key: bytes | None) -> LogRecord:
    return LogRecord(TopicPartition("t", 0), offset, 0, value, key)


GOOD = record(0, b'{"id": 1, "at": "2024-01-01T00:00:00Z", "city": "a"}', b"1")


class TestTheSampleOfAPlan:
    def fit(self, source: KafkaSource, *records: LogRecord) -> list[str]:
        columns = source.declared_columns
        assert columns is not None
        pipeline = declared().model_copy(update={"sources": [source]})
        return fit_sample(pipeline, source, "history", columns, [GOOD, *records])[0]

    @pytest.mark.parametrize("policy", ["fail", "drop", "quarantine"])
    def test_it_is_refused_until_it_is_declared(self, policy: str) -> None:
        by_default = {"on_tombstone": "refuse", "include": {}, "on_bad_record": policy}
        (source,) = declared(APPEND, **by_default).topics
        with pytest.raises(InputError, match=r"partition 0, offset 1: .* a key and no val") as told:
            self.fit(source, record(1, None, b"1"))
        assert "`on_tombstone: delete`" in told.value.hint
        # The ways out.
        assert self.fit(live(), record(1, None, b"1")) == []
        ignoring = {"on_tombstone": "ignore", "include": {}, "on_bad_record": policy}
        assert self.fit(declared(APPEND, **ignoring).topics[0], record(1, None, b"1")) == []

    def test_a_key_that_tells_no_row_is_refused_unless_bad_records_are_tolerated(self) -> None:
        with pytest.raises(InputError, match=r"offset 1: .* key b'x' does not tell which row"):
            self.fit(live(), record(1, None, b"x"))
        assert self.fit(live(on_bad_record="drop"), record(1, None, b"x")) == []

    def test_a_key_of_other_columns_is_named(self) -> None:
        source = live(schema={"no": "bigint", "at": "timestamp"})
        with pytest.raises(InputError, match="`id` is no column of the records, which have no, at"):
            self.fit(source, record(1, None, b"1"))

    def test_a_compacted_topic_is_warned_about(self) -> None:
        compacted = {"t": {"cleanup.policy": "compact,delete"}, "u": {"cleanup.policy": "delete"}}
        by_default = {"on_tombstone": "refuse", "include": {}}
        (source,) = declared(APPEND, **by_default).topics
        (text,) = tombstone_warnings(source, compacted)
        assert text.startswith("Topic `t` is compacted")
        assert tombstone_warnings(live(), compacted) == []
