"""A topic's ``select``: what its declaration is checked for, and what the plan says of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
import yaml

from sources.common.positions import TopicPartition
from sources.common.sql.select import OnlySparkError
from sources.common.topic_log import LogRecord
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.config.source.event_time import EventTime
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError, StateError
from sources.kafka.client.sampled_event_times import SampledTimes, sampled_times
from sources.planning.plan import draft_plan
from tests.e2e.case import Case
from tests.extensions import needs
from tests.minimal import minimal_declaration

SCHEMA = {"order": "string", "ms": "bigint", "amount": "string"}
SELECT = {"id": "CAST(substring(order, 3) AS bigint)", "at": "timestamp_millis(ms)"}
HISTORY = {
    "type": "files",
    "name": "history",
    "path": "in/*",
    "format": "json",
    "schema": {"id": "bigint", "at": "timestamp"},
}


def load(folder: Path, *before: dict[str, Any], **live: Any) -> LoadedPipeline:
    topic = {"name": "live", "type": "kafka", "topic": "t", "schema": SCHEMA, "select": SELECT}
    topic |= {} if before else {"start": "earliest"}
    document = minimal_declaration(*before, {**topic, **live})
    path = folder / "pipeline.yaml"
    path.write_text(yaml.safe_dump(document))
    return load_pipeline(path, {})


def topic(**fields: Any) -> KafkaSource:
    declared = {"type": "kafka", "name": "live", "topic": "t", "schema": SCHEMA, "select": SELECT}
    return KafkaSource.model_validate({**declared, **fields})


def test_columns_are_those_of_the_expressions_over_value_and_record() -> None:
    include = {"key": "key", "headers": "headers", "part": "partition"}
    select = {
        **SELECT,
        "amount": "CAST(amount AS decimal(9,2))",
        "customer": "CAST(key AS string)",
        "trace": "CAST(headers[0].value AS string)",
        "part": "part",
    }
    source = topic(include=include, select=select)
    read = source.columns_after({})
    assert list(read) == [*include, *SCHEMA]
    assert source.selected(read) == {
        "id": "bigint",
        "at": "timestamp",
        "amount": "decimal(9,2)",
        "customer": "string",
        "trace": "string",
        "part": "int",
    }


def test_without_a_select_the_columns_stay_as_they_were_written() -> None:
    assert topic(select={}).selected({"id": "integer"}) == {"id": "integer"}


@needs("expressions")
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"select": {**SELECT, "x": "nothing"}}, "uses a column `nothing`, which does not exist"),
        ({"select": {**SELECT, "x": "key"}}, "Use one of these columns: amount, ms, order."),
        ({"select": {**SELECT, "x": "upper(order)"}}, "before Spark runs. Write CAST("),
        ({"select": {**SELECT, "x": "CAST(sum(ms) AS int)"}}, "is not evaluated row by row"),
        ({"select": {**SELECT, "x": "CAST(order AS"}}, "`select.x: CAST(order AS` is not SQL"),
        ({"schema": None}, "`select` needs a `schema`"),
        (
            {"format": "raw", "schema": None, "select": {"x": "CAST(text AS string)"}},
            "uses a column `text`, which does not exist. Use one of these columns: value.",
        ),
    ],
)
def test_what_can_not_be_planned_is_refused_when_the_file_is_read(
    tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, **changes)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("history", "select", "told"),
    [
        (HISTORY, {"id": SELECT["id"]}, "`live` has no column `at`, which source `history` has"),
        (
            HISTORY,
            {**SELECT, "more": "order"},
            "`history` has no column `more`, which source `live` has",
        ),
        (
            {**HISTORY, "format": "parquet", "schema": None, "select": {"at": "t", "who": "w"}},
            {"at": SELECT["at"]},
            "`live` has no column `who`, which source `history` has",
        ),
        (
            {**HISTORY, "partitions": {"day": "date"}},
            SELECT,
            "`live` has no column `day`, which source `history` has",
        ),
    ],
)
def test_columns_that_only_one_source_has_are_told_when_the_file_is_read(
    tmp_path: Path, history: dict[str, Any], select: dict[str, str], told: str
) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, history, select=select)
    assert told in str(caught.value)
    load(tmp_path, HISTORY)


def test_a_select_may_not_change_under_a_checkpoint(tmp_path: Path) -> None:
    load(tmp_path).open_generation(create=True)
    again = dict(reversed(SELECT.items()))
    assert load(tmp_path, select=again).open_generation(create=False) is not None
    changed = {**SELECT, "at": "timestamp_seconds(ms)"}
    with pytest.raises(StateError, match=r"`sources\.live\.value` of pipeline `orders` changed"):
        load(tmp_path, select=changed).open_generation(create=False)


# What a sample says of event times.


def record(value: bytes | None, **more: Any) -> LogRecord:
    return LogRecord(TopicPartition("t", 2), 7, 1_000_000, value, **more)


def ahead(source: KafkaSource, *sample: LogRecord, event_time: str = "at") -> int:
    times = EventTime(column=event_time, not_before=datetime(1960, 1, 1, tzinfo=UTC))
    return sampled_times(source, source.columns_after({}), times, 0, sample).ahead_ms


@needs("expressions")
def test_event_times_of_a_sample_are_those_that_select_makes() -> None:
    sample = [record(json.dumps({"order": "o-1", "ms": ms}).encode()) for ms in (5, 1_003_000, 7)]
    assert ahead(topic(), *sample) == 3000
    # What can't be read, or has no event time, says nothing.
    bad = [record(b"no"), record(None), record(b'{"ms": "x"}'), record(b'{"ms": null}')]
    assert ahead(topic(), *bad, *sample, *bad) == 3000
    assert ahead(topic(), *bad) == 0
    assert ahead(topic()) == 0


@needs("expressions")
def test_event_times_outside_of_their_bounds_count_for_nothing_in_a_sample() -> None:
    day = 86_400_000
    now, future = 20_000 * day, 47_000 * day
    times = [now + 700, future, 0, now - 5, now + 2 * day - 1, now + 2 * day]
    values = [json.dumps({"order": "o-1", "ms": ms}).encode() for ms in times]
    place = TopicPartition("t", 2)
    sample = [LogRecord(place, at, now - 1000, value) for at, value in enumerate(values)]
    source = topic()
    found = sampled_times(
        source, source.columns_after({}), EventTime(column="at"), now, [*sample, record(b"no")]
    )
    assert found == SampledTimes(
        records=6,
        outside=3,
        first_outside="topic `t`, partition 2, offset 1, with 2098-09-06T00:00:00Z",
        lowest_ms=now - 5,
        highest_ms=now + 2 * day - 1,
        ahead_ms=2 * day + 999,
    )
    assert found.in_words() == (
        "6 sampled, 2024-10-03T23:59:59.995Z to 2024-10-05T23:59:59.999Z, "
        "3 outside of the bounds of `event_time`"
    )


@needs("expressions")
@pytest.mark.parametrize(
    ("schema", "value", "expression"),
    [
        ({"at": "timestamp"}, {"at": "1970-01-01T00:16:45+00:00"}, None),
        ({"at": "timestamp"}, {"at": "1970-01-01T00:16:45.000000999"}, "at"),
        ({"p": "struct<at:timestamp>"}, {"p": {"at": "1970-01-01T00:16:45Z"}}, "p.at"),
        ({"p": "array<timestamp>"}, {"p": ["1970-01-01T00:16:45Z"]}, "p[0]"),
        ({"p": "map<string,timestamp>"}, {"p": {"at": "1970-01-01T00:16:45Z"}}, "p['at']"),
        ({"p": "struct<d:date>"}, {"p": {"d": "1970-01-02"}}, "p.d - INTERVAL '85395' SECOND"),
    ],
)
def test_times_are_texts_in_json(
    schema: dict[str, str], value: Any, expression: str | None
) -> None:
    select = {} if expression is None else {"at": f"CAST({expression} AS timestamp)"}
    source = topic(schema=schema, select=select)
    assert ahead(source, record(json.dumps(value).encode())) == 5000


@needs("expressions")
@pytest.mark.parametrize(
    ("include", "expression"),
    [
        ({"k": "key"}, "timestamp_millis(CAST(CAST(k AS string) AS bigint))"),
        ({"h": "headers"}, "timestamp_millis(CAST(CAST(h[0].value AS string) AS bigint))"),
        ({"o": "offset", "p": "partition"}, "timestamp_seconds((o - p) * 201)"),
        ({"at": "timestamp"}, "timestamp_micros(unix_micros(at) + 5000000)"),
    ],
)
def test_what_the_record_says_of_itself_may_tell_the_event_time(
    include: dict[str, str], expression: str
) -> None:
    source = topic(format="raw", schema=None, include=include, select={"at": expression})
    found = record(b"", key=b"1005000", headers=[("t", b"1005000"), ("x", None)])
    assert ahead(source, found) == 5000
    # Without a key or headers there is no time.
    assert ahead(source, record(b"")) == (0 if {"k", "h"} & set(include) else 5000)


def test_the_records_own_time_is_never_ahead() -> None:
    source = topic(select={**SELECT, "at": "arrived"}, include={"arrived": "timestamp"})
    assert ahead(source, record(b'{"ms": 99999999999}')) == 0


@needs("expressions")
def test_avro_tells_event_times_too(tmp_path: Path) -> None:
    fields = [{"name": "order", "type": "string"}, {"name": "ms", "type": "long"}]
    schema = {"type": "record", "name": "Order", "fields": fields}
    (tmp_path / "order.avsc").write_text(json.dumps(schema))
    out = BytesIO()
    row = {"order": "o-1", "ms": 1_002_000}
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    source = topic(format="avro", avro_schema=str(tmp_path / "order.avsc"))
    assert ahead(source, record(out.getvalue()), record(b"\xff")) == 2000


@needs("expressions")
def test_an_event_time_that_can_not_be_evaluated_is_told() -> None:
    select = {"at": "CAST(to_timestamp(order, 'yyyy') AS timestamp)"}
    with pytest.raises(InputError, match=r"`live`: `select\.at: .*form that only Spark reads: yes"):
        ahead(topic(select=select), record(b'{"order": "yesterday"}'))


# With a broker.


def selected(**changes: Any) -> Callable[[dict[str, Any]], None]:
    declared = {
        "schema": {"id": "bigint", "at": "timestamp", "v": "double"},
        "select": {"id": "id", "at": "at", "v": "v"},
        **changes,
    }
    return lambda document: document["sources"][1].update(declared)


@pytest.mark.kafka
@pytest.mark.slow
class TestThePlan:
    """What is refused, and what is warned of."""

    def refusal(self, case: Case, **changes: Any) -> list[list[str]]:
        with pytest.raises(InputError) as caught:
            draft_plan(case.pipeline(selected(**changes)))
        assert caught.value.hint.startswith(("Correct `schema` or `select`", "Change `schema` or"))
        lines = caught.value.message.splitlines()
        assert lines[0] == "The columns of the sources differ:"
        return [[cell.strip() for cell in line.split("|")] for line in lines[1:]]

    def test_selected_columns_are_compared_side_by_side(self, tmp_path: Path, servers: str) -> None:
        case = Case(tmp_path, servers)
        case.write_history()
        case.produce(range(500, 510))
        select = {"id": "CAST(id AS int)", "at": "at", "w": "v"}
        assert self.refusal(case, select=select) == [
            ["column", "source `history`", "source `live`"],
            ["id", "bigint", "int"],
            ["v", "double", "(missing)"],
            ["w", "(missing)", "double"],
        ]

    def test_records_are_compared_with_what_is_selected_from(
        self, tmp_path: Path, servers: str
    ) -> None:
        case = Case(tmp_path, servers)
        case.write_history()
        case.produce(range(500, 510))
        schema = {"id": "string", "at": "timestamp", "w": "double"}
        select = {"id": "CAST(id AS bigint)", "at": "at", "v": "w"}
        assert self.refusal(case, schema=schema, select=select) == [
            ["column", "source `live`", f"topic `{case.topic}`"],
            ["id", "string", "integer, as in 500"],
            ["w", "double", "(missing)"],
            ["v", "(missing)", "present"],
        ]

    def test_event_times_ahead_of_their_records_are_told_as_selected(
        self, tmp_path: Path, servers: str
    ) -> None:
        case = Case(tmp_path, servers)
        case.write_history()
        case.produce(range(500, 1000))
        plan, _ = draft_plan(case.pipeline(selected()))
        assert not [text for text in plan.warnings if "before their event time" in text]
        late = {"id": "id", "at": "timestamp_seconds(id * 3450000)", "v": "v"}
        read = {"id": "bigint", "v": "double"}
        plan, _ = draft_plan(case.pipeline(selected(schema=read, select=late)))
        assert [text for text in plan.warnings if "before their event time" in text]
        assert plan.topics[0].read == read
        assert plan.topics[0].columns == plan.columns_by_name

    def test_a_topic_whose_event_times_only_spark_computes_is_planned_without_a_sample(
        self, tmp_path: Path, servers: str
    ) -> None:
        case = Case(tmp_path, servers)
        case.write_history()
        case.produce(range(500, 1000))
        tokyo = {
            "id": "id",
            "v": "v",
            "at": "CAST(from_utc_timestamp(at, 'Asia/Tokyo') AS timestamp)",
        }
        plan, _ = draft_plan(case.pipeline(selected(select=tokyo)))
        assert plan.topics[0].event_times == SampledTimes()
        (told,) = [text for text in plan.warnings if "of its sample are not shown" in text]
        assert "only Spark can compute this one: the function `from_utc_timestamp`" in told

        def without_key(document: dict[str, Any]) -> None:
            selected(select=tokyo)(document)
            del document["key"]

        # Then the event times decide which rows history has delivered.
        with pytest.raises(OnlySparkError, match="from_utc_timestamp") as caught:
            draft_plan(case.pipeline(without_key))
        assert "Declare the pipeline's `key`" in caught.value.hint
