"""Plans that no data stands behind, for what is shown of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sources.common.database_snapshot import PostgresSnapshot
from sources.common.positions import (
    EndPosition,
    Evidence,
    HeldOffsets,
    PartitionStart,
    StartPosition,
    TopicPartition,
)
from sources.config.pipeline import Pipeline
from sources.kafka.client.sampled_event_times import SampledTimes
from sources.kafka.retention import Headroom
from sources.kafka.seam import SeamRule
from sources.planning.event_times import EventTimes
from sources.planning.files.file_plan import FilePlan, FoundFiles
from sources.planning.plan import Plan
from sources.planning.topics.topic_plan import RangePlan, TopicPlan
from tests.minimal import minimal_model

COLUMNS = {"id": "bigint", "at": "timestamp"}
FILES: Mapping[str, Any] = {"type": "files", "path": "in/*", "format": "parquet"}
KAFKA: Mapping[str, Any] = {
    "type": "kafka",
    "topic": "flights",
    "bootstrap_servers": "b:1",
    "schema": COLUMNS,
}
HISTORY = {**FILES, "name": "history"}
LIVE = {**KAFKA, "name": "live"}


def ms(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> int:
    """Return a time in UTC in ms since 1970."""
    return int(datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp()) * 1000


BEGIN_MS, END_MS = ms(2013, 1, 1), ms(2013, 9, 30, 23, 56)
COMPLETE_MS = ms(2013, 9, 29, 23, 56)


def pipeline(*sources: Mapping[str, Any], **fields: Any) -> Pipeline:
    """Return a pipeline of these sources: history and live if none is given."""
    return minimal_model(
        *[dict(each) for each in sources or (HISTORY, LIVE)],
        transform="flights:events",
        **{"key": ["id"], "spark": {"master": "local[2]"}, **fields},
    )


def times(outside: int = 0) -> EventTimes:
    """Return event times of history, some of them outside of the bounds."""
    return EventTimes(
        not_before_ms=0,
        not_after_ms=END_MS,
        lowest_ms=BEGIN_MS,
        highest_ms=END_MS,
        evidence="exact",
        outside=outside,
        outside_lowest_ms=0 if outside else None,
        outside_highest_ms=0 if outside else None,
        outside_files=min(outside, 1),
        shown_files=["in/a"] * min(outside, 1),
    )


def end(source: str = "history", **fields: Any) -> EndPosition:
    """Return the end position of history."""
    given = {"event_time_ms": END_MS, "complete_through_ms": COMPLETE_MS, "event_times": "exact"}
    return EndPosition.model_validate(
        {"source": source, "splits": 273, "rows": None, **given, **fields}
    )


def folder(source: str = "live", **fields: Any) -> FoundFiles:
    """Return the listing of a folder."""
    given = {"format": "parquet", "splits_file": "s", "splits": 273, "bytes": 6_400_000}
    given |= {"rows": 252_392, "read": COLUMNS, "columns": COLUMNS, "partitions": []}
    return FoundFiles.model_validate({"source": source, **given, "times": times(), **fields})


def files(
    source: str = "history",
    until: EndPosition | None = None,
    since_ms: int = BEGIN_MS,
    **fields: Any,
) -> FilePlan:
    """Return the plan of a bounded source of files."""
    more = {name: fields.pop(name, None) for name in ("order", "copied")}
    found = dict(folder(source, **fields))
    until = until or end(source)
    return FilePlan.model_validate(
        {**found, "event_min_ms": since_ms, "disorder_ms": 0, "end": until, **more}
    )


def topic(
    rule: SeamRule = "key",
    evidence: Evidence = "timestamp",
    time_ms: int | None = COMPLETE_MS,
    overlap: int = 57_102,
    reading: int | None = None,
    **fields: Any,
) -> TopicPlan:
    """Return the plan of a topic; with ``reading``, of a range of so many offsets."""
    at = TopicPartition("flights", 0)
    start = PartitionStart(start=100, log_start=0, log_end=90_000, reason="because")
    source = str(fields.get("source", "live"))
    planned = None
    if reading is not None:
        planned = RangePlan(ends={at: 100 + reading}, offsets=reading, batches=1, end=end(source))
    given = {
        "source": "live",
        "topics": {"flights": "c/t"},
        "read": COLUMNS,
        "columns": COLUMNS,
        "seam_end": {at: 100 + overlap},
        "log_start": {at: 0},
        "expected_start": StartPosition(
            source=source, evidence=evidence, time_ms=time_ms, partitions={at: start}
        ),
        "seam_rule": rule,
        "timestamp_type": {"flights": "CreateTime"},
        "retention_ms": {"flights": None},
        "headroom": [Headroom(topic="flights", partition=0, offset=100, left_ms=86_400_000)],
        "event_times": SampledTimes(records=1, lowest_ms=END_MS, highest_ms=END_MS),
        "range": planned,
    }
    return TopicPlan.model_validate({**given, **fields})


def plan(*parts: FilePlan | FoundFiles | TopicPlan, warnings: tuple[str, ...] = ()) -> Plan:
    """Return the plan of these sources, in reading order."""
    topics = [part for part in parts if isinstance(part, TopicPlan)]
    return Plan(
        pipeline="p",
        created_ms=END_MS,
        files=[part for part in parts if isinstance(part, FilePlan)],
        archives=topics[:-1],
        topic=topics[-1] if topics else None,
        warnings=list(warnings),
        folder=next((part for part in parts if type(part) is FoundFiles), None),
    )


def held(following: int = 100) -> HeldOffsets:
    """Return exact offsets that files hold."""
    return HeldOffsets(next={TopicPartition("flights", 0): following}, exact=True, holes={})


SNAPSHOT = PostgresSnapshot(lsn=9, xmin=1, xmax=2, in_progress=[], taken_ms=COMPLETE_MS)
