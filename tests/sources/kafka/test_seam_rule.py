"""By which rule rows of the seam are recognized where the sink orders changes."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from sources.common.database_snapshot import PostgresSnapshot
from sources.common.positions import EndPosition, HeldOffsets, PartitionStart, StartPosition
from sources.common.topic_log import LogRecord
from sources.config.pipeline import Pipeline
from sources.config.source.kafka_source import KafkaSource
from sources.errors import SeamError
from sources.kafka.seam import check_compaction, check_start, seam_rule, seam_warnings
from tests.minimal import minimal_model
from tests.sources.kafka.test_start_offsets import T0, T1, history, holds

START = StartPosition(
    source="live",
    evidence="timestamp",
    time_ms=0,
    partitions={T0: PartitionStart(start=1, log_start=0, log_end=9, reason="")},
)
TAKEN = PostgresSnapshot(lsn=1, xmin=1, xmax=1, in_progress=[], taken_ms=7)


def pipeline(**declared: Any) -> Pipeline:
    sink = {"path": "s", "mode": "merge", "key": ["id"], **declared.pop("sink", {})}
    return minimal_model(
        {"type": "files", "name": "history", "path": "*", "format": "parquet"},
        {"type": "kafka", "name": "live", "topic": "t"},
        sink=sink,
        **declared,
    )


ORDERED = {"sequence": "version"}


@pytest.mark.parametrize(
    ("declared", "rule"),
    [
        pytest.param({"key": ["id"], "sink": ORDERED}, "replay", id="updates are merged again"),
        pytest.param({"sink": ORDERED}, "replay", id="also without a key"),
        pytest.param(
            {"key": ["id"], "sink": {**ORDERED, "deleted": "gone"}}, "replay", id="deletes too"
        ),
        pytest.param({"key": ["id", "version"], "sink": ORDERED}, "key", id="a key of versions"),
        pytest.param(
            {"key": ["id", "a"], "sink": {"sequence": ["a", "b"]}}, "replay", id="half a version"
        ),
        pytest.param(
            {"key": ["id"], "seam_filter": "key", "sink": ORDERED}, "key", id="a declared rule"
        ),
        pytest.param({"key": ["id"]}, "key", id="no order"),
    ],
)
def test_a_sink_that_orders_changes_gets_updates_of_the_seam_again(
    declared: dict[str, Any], rule: str
) -> None:
    assert seam_rule(pipeline(**declared), [history(0)], START, {T0: 9}) == rule


def test_offsets_are_better_than_merging_again() -> None:
    held = HeldOffsets(next={T0: 1}, exact=True, holes={})
    start = START.model_copy(update={"evidence": "offsets"})
    declared = pipeline(key=["id"], sink=ORDERED)
    assert seam_rule(declared, [history(0, offsets=held)], start, {T0: 9}) == "none"


def warned(**declared: Any) -> list[str]:
    found = seam_warnings(pipeline(**declared), "key", history(0), START, 0)
    return [text for text in found if "`sink.sequence` is not declared" in text]


def test_the_plan_says_where_updates_cannot_be_told_from_delivered_rows() -> None:
    (text,) = warned(key=["id"])
    assert "is refused when it is read" in text
    (text,) = warned(key=["id"], seam_filter="key")
    assert "is dropped" in text
    # Rows of the target are not those of the input, or rows never change.
    assert not warned(key=["id"], sink={"key": ["day"]})
    assert not warned(key=["id"], sink={"mode": "append"})


def test_the_plan_says_where_an_archive_begins_later_than_its_topic() -> None:
    held = HeldOffsets(next={T0: 9}, exact=True, holes={T0: [(0, 5), (7, 8)]})
    part = PartitionStart(start=9, log_start=8, log_end=9, reason="")
    start = StartPosition(source="live", evidence="offsets", time_ms=None, partitions={T0: part})
    found = seam_warnings(pipeline(), "none", history(0, offsets=held), start, 0)
    assert found == [
        "History begins at offset 5 of topic `t`, partition 0: records before it are in no file, "
        "and Kafka has deleted the first of them."
    ]
    whole = start.model_copy(update={"partitions": {T0: part.model_copy(update={"log_start": 0})}})
    assert seam_warnings(pipeline(), "none", history(0, offsets=held), whole, 0) == []


def test_of_several_partitions_the_first_that_begins_later_is_named_and_the_others_counted() -> (
    None
):
    held = HeldOffsets(next={T0: 9, T1: 9}, exact=True, holes={T1: [(0, 2)], T0: [(0, 5)]})
    part = PartitionStart(start=9, log_start=8, log_end=9, reason="")
    start = START.model_copy(update={"time_ms": None, "partitions": {T0: part, T1: part}})
    (text,) = seam_warnings(pipeline(), "none", history(0, offsets=held), start, 0)
    assert text.startswith("History begins at offset 5 of topic `t`, partition 0 (and 1 more part")
    # Offsets that files only suggest tell no beginning; neither does a hole within history.
    suggested = held.model_copy(update={"exact": False})
    assert not seam_warnings(pipeline(), "none", history(0, offsets=suggested), start, 0)
    inside = held.model_copy(update={"holes": {T0: [(1, 5)], T1: [(3, 4)]}})
    assert not seam_warnings(pipeline(), "none", history(0, offsets=inside), start, 0)


def test_the_plan_says_why_some_rows_of_the_seam_are_older_for_a_while() -> None:
    for previous, told in (
        (history(0), "as an update has the key of the row that it changes"),
        (history(0, sequence=5), "Of the snapshot the log position is known, but not which"),
    ):
        (text,) = seam_warnings(pipeline(), "replay", previous, START, 0)
        assert told in text


def test_the_plan_warns_of_event_times_that_run_ahead_by_more_than_the_lateness() -> None:
    declared = pipeline(key=["id"], allowed_lateness="5 s", sink=ORDERED)
    found = {
        ahead_ms: seam_warnings(declared, "none", history(0), START, ahead_ms)
        for ahead_ms in (5_000, 5_001)
    }
    assert found[5_000] == []
    (text,) = found[5_001]
    assert "which is more than `allowed_lateness`" in text
    by_offsets = START.model_copy(update={"time_ms": None})
    assert seam_warnings(declared, "none", history(0), by_offsets, 5_001) == []


def test_the_plan_warns_of_a_start_that_no_record_is_at_or_after() -> None:
    behind = PartitionStart(start=9, log_start=0, log_end=9, reason="")
    start = START.model_copy(update={"partitions": {T0: behind}})
    (text,) = seam_warnings(pipeline(), "none", history(0), start, 0)
    assert "may hold a row with a wrong clock" in text
    # An empty partition has none, and one that has some is enough.
    empty = PartitionStart(start=0, log_start=0, log_end=0, reason="")
    for part in (empty, START.partitions[T0]):
        matched = start.model_copy(update={"partitions": {T0: behind, T1: part}})
        assert seam_warnings(pipeline(), "none", history(0), matched, 0) == []


def test_how_the_last_source_ended_decides_not_how_the_first_one_did() -> None:
    """A snapshot, then files of later changes: the topic follows the files."""
    snapshot, files = history(0, snapshot=TAKEN), history(1)
    declared = pipeline(key=["id"])
    assert seam_rule(declared, [files, snapshot], START, {T0: 9}) == "sequence"
    assert seam_rule(declared, [snapshot, files], START, {T0: 9}) == "key"
    first, last = history(0, sequence=5), history(1)
    assert seam_rule(declared, [last, first], START, {T0: 9}) == "sequence"
    assert seam_rule(declared, [first, last], START, {T0: 9}) == "key"


def test_nothing_is_filtered_only_where_all_of_history_has_exact_offsets_of_each_partition() -> (
    None
):
    def rule(*ends: EndPosition, **more: int) -> str:
        parts = {
            at: PartitionStart(start=0, log_start=0, log_end=more.get(name, 5), reason="")
            for at, name in ((T0, "first"), (T1, "second"))
        }
        start = START.model_copy(update={"evidence": "offsets", "partitions": parts})
        return seam_rule(pipeline(key=["id"]), ends, start, {T0: 9, T1: 9})

    both = {T0: 0, T1: 0}
    assert rule(holds(both)) == "none"
    assert rule(holds(both), holds(both)) == "none"
    assert rule(holds(both, exact=False), holds(both)) == "key"
    assert rule(history(0), holds(both)) == "key"
    # A partition that history does not know matters as soon as it has a record.
    assert rule(holds({T0: 0})) == "key"
    assert rule(holds({T0: 0}), second=0) == "none"


@pytest.mark.parametrize(
    ("policy", "mode", "on_gap", "is_refused"),
    [
        ("compact", "append", "fail", True),
        ("compact,delete", "append", "fail", True),
        ("delete", "append", "fail", False),
        ("compact", "merge", "fail", False),
        ("compact", "append", "accept", False),
    ],
)
def test_a_compacted_topic_lacks_rows_that_a_table_of_all_rows_needs(
    policy: str, mode: str, on_gap: str, is_refused: bool
) -> None:
    source = KafkaSource.model_validate(
        {"type": "kafka", "name": "live", "topic": "t", "on_gap": on_gap}
    )
    settings = {"t": {"cleanup.policy": policy}}
    with pytest.raises(SeamError, match="Topic `t` is compacted") if is_refused else nullcontext():
        check_compaction(pipeline(key=["id"], sink={"mode": mode}), source, settings)


@pytest.mark.parametrize("at_ms", [-1, 0])
def test_a_look_up_by_time_needs_records_with_a_time(at_ms: int) -> None:
    by_time = START.model_copy(update={"time_ms": 5})
    sample = [LogRecord(T0, 3, at_ms, b"{}")]
    with (
        pytest.raises(SeamError, match="offset 3 has no timestamp") if at_ms < 0 else nullcontext()
    ):
        check_start("key", [history(0)], by_time, sample)
    check_start("key", [history(0)], START.model_copy(update={"time_ms": None}), sample)


def test_sampled_times_decide_nothing_where_there_is_no_key() -> None:
    sampled = history(0).model_copy(update={"event_times": "sampled"})
    check_start("key", [sampled], START, [])
    check_start("event_time", [history(0)], START, [])
    with pytest.raises(SeamError, match="Event times of source `history` were sampled"):
        check_start("event_time", [sampled, history(0)], START, [])
