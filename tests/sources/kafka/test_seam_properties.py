"""The seam in random worlds: what arrives from files and topic is what was appended, once each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Literal

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from sources.common.positions import (
    EndPosition,
    Gap,
    HeldOffsets,
    PartitionStart,
    StartPosition,
    TopicPartition,
)
from sources.common.topic_log import Log
from sources.config.pipeline import Pipeline
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError, SeamError
from sources.hybrid import SourceSwitchContext
from sources.kafka.seam import SeamRule, seam_rule
from sources.kafka.start.declared_start import GapError, UserFactory, factory_for
from sources.kafka.start.log_checks import check_in_log
from tests.minimal import minimal_model
from tests.properties import examples
from tests.sources.kafka.model_log import ChangingLog, ModelLog
from tests.sources.worlds import (
    Entry,
    Key,
    World,
    bounded_below,
    dated,
    numbered,
    snapshots,
    suggested,
)

pytestmark = pytest.mark.slow  # 5,500 cases
EXAMPLES = examples(500)
NOW_MS = 10**9
IN_SILENCE = "records are in neither history nor log, and nobody said so"
WITHOUT_REASON = "refused, though nothing was ever deleted"


@cache
def pipeline(*key: str) -> Pipeline:
    return minimal_model(
        {"type": "files", "name": "history", "path": "*", "format": "parquet"},
        {"type": "kafka", "name": "live", "topic": "t"},
        key=list(key),
    )


def no_factory(name: str) -> UserFactory:
    raise AssertionError(name)


def decide(
    world: World, previous: EndPosition, log: Log | None = None, **declared: Any
) -> StartPosition:
    topics = sorted({at.topic for at in world.partitions})
    source = KafkaSource.model_validate(
        {"type": "kafka", "name": "live", "topic": topics, **declared}
    )
    factory = factory_for(source, world.lateness_ms, no_factory, lambda: NOW_MS)
    start = factory(SourceSwitchContext(previous, log or world.log()))
    assert set(start.partitions) == set(world.partitions)
    return start


def decide_or_refuse(world: World, previous: EndPosition, **declared: Any) -> StartPosition | None:
    """Where a world starts; None where it is refused for a gap, which has to have a reason."""
    is_hole = bool(world.nowhere(world.deleted_to))
    try:
        start = decide(world, previous, **declared)
    except GapError:
        event("refused: there is a hole" if is_hole else "refused: there might be a hole")
        assert world.is_deleted_from, WITHOUT_REASON
        return None
    event("decided, records were deleted" if world.is_deleted_from else "decided")
    return start


def arriving(
    world: World,
    previous: EndPosition,
    start: StartPosition,
    expected: SeamRule,
    *,
    key: tuple[str, ...] = ("id",),
    sequences: Mapping[Key, int] | None = None,
) -> Counter[Key]:
    """What reaches the transform: history, and the live rows that the seam filter lets pass."""
    rule = seam_rule(pipeline(*key), [previous], start, world.seam_end)
    assert rule == expected
    filters: dict[SeamRule, Callable[[Entry], bool]] = {
        "none": lambda _: False,
        "key": key_filter(world, start),
        "event_time": lambda row: in_seam(world, row) and row.event_ms < world.end_ms + 1,
        "sequence": lambda row: (sequences or {})[row.key] <= (previous.sequence or 0),
    }
    is_held = filters[rule]
    live = [row for row in world.records if row.offset >= start.partitions[row.at].start]
    passed = [row for row in live if not is_held(row)]
    event("the filter removes rows" if len(passed) < len(live) else "the filter removes nothing")
    return Counter(row.key for row in [*world.history, *passed])


def in_seam(world: World, row: Entry) -> bool:
    return row.offset < world.seam_end[row.at]


def key_filter(world: World, start: StartPosition) -> Callable[[Entry], bool]:
    """Keys of history's last stretch; rows that are older are looked up in the whole of it."""
    times = [world.through_ms] + ([] if start.time_ms is None else [start.time_ms])
    keys_from_ms = min(times) - world.lateness_ms
    held = world.held
    kept = {row.key for row in world.history if row.event_ms >= keys_from_ms}

    def is_held(row: Entry) -> bool:
        is_older = row.event_ms < keys_from_ms
        return in_seam(world, row) and (row.key in kept or (is_older and row.key in held))

    return is_held


@EXAMPLES
@given(dated())
def test_a_time_and_a_key_are_exact_or_refused(world: World) -> None:
    end = world.end()
    start = decide_or_refuse(world, end)
    if start is not None:
        assert not world.nowhere(world.deleted_to), IN_SILENCE
        assert arriving(world, end, start, "key") == world.everything()


@EXAMPLES
@given(dated())
def test_an_accepted_gap_costs_what_is_gone_and_nothing_else(world: World) -> None:
    end = world.end()
    start = decide(world, end, on_gap="accept")
    gone = world.nowhere(world.deleted_to)
    event("something is gone" if gone else "nothing is gone")
    assert {at for at, _ in gone} <= {(gap.topic, gap.partition) for gap in start.gaps}, IN_SILENCE
    assert arriving(world, end, start, "key") == world.everything() - gone


@EXAMPLES
@given(dated(segments=True), st.sampled_from(["fail", "accept"]))
def test_files_of_deleted_records_do_not_mislead_a_look_up(world: World, on_gap: str) -> None:
    end = world.end()
    start = decide_or_refuse(world, end, on_gap=on_gap)
    if start is not None:
        gone = world.nowhere(world.deleted_to)
        assert on_gap == "accept" or not gone, IN_SILENCE
        assert arriving(world, end, start, "key") == world.everything() - gone


@EXAMPLES
@given(dated(), st.lists(st.integers(0, 9), max_size=8))
def test_whatever_happens_while_we_look_is_noticed(world: World, numbers: list[int]) -> None:
    coming = iter(world.entries[world.handed :])

    def change(number: int) -> Callable[[ModelLog], None]:
        def append(log: ModelLog) -> None:
            for _, entry in zip(range(number), coming, strict=False):
                entry.append_to(log)

        def delete(log: ModelLog) -> None:
            at = world.partitions[number % len(world.partitions)]
            log.deleted_to[at] = min(log.deleted_to[at] + 1, log.log_end()[at])

        return append if number < 7 else delete

    log = ChangingLog(world.log(), [change(number) for number in numbers])
    end = world.end()
    try:
        start = decide(world, end, log)
        check_in_log(start, log.now.log_start(), log.now.log_end())
    except (SeamError, InputError) as error:
        event(f"refused: {type(error).__name__}")
        assert any(log.now.deleted_to.values()), WITHOUT_REASON
        return
    event("decided, records were deleted" if any(log.now.deleted_to.values()) else "decided")
    assert not world.nowhere(log.now.deleted_to), IN_SILENCE
    assert arriving(world, end, start, "key") == world.everything()


@EXAMPLES
@given(numbered())
def test_exact_offsets_need_no_filter(case: tuple[World, HeldOffsets]) -> None:
    world, held = case
    end = world.end(offsets=held)
    of_history = world.held
    lacking = [
        row
        for row in world.records
        if row.key not in of_history and row.offset < held.next.get(row.at, 0)
    ]
    is_missing = any(row.offset >= world.deleted_to[row.at] for row in lacking)
    is_behind = any(held.next.get(at, 0) < first for at, first in world.deleted_to.items())
    # Nobody can tell whether offsets that the log no longer has were of control records.
    is_unknown = any(
        0 < first < world.deleted_to[at] for at, some in held.holes.items() for first, _ in some
    )
    try:
        start = decide(world, end)
    except GapError:
        event("refused: a file is missing" if is_missing else "refused: there might be a hole")
        assert is_missing or is_behind or is_unknown
        return
    assert not is_missing
    assert not is_behind
    assert not is_unknown
    # History begins where it begins.
    unknown = Counter(row.key for row in lacking)
    firsts = {at: min(row.offset for row in world.history if row.at == at) for at in held.next}
    assert all(row.offset < firsts[row.at] for row in lacking)
    event("decided, history begins later" if unknown else "decided")
    # Of a partition with records that history says nothing of, keys have to tell.
    tells_all = all(at in held.next or not part.log_end for at, part in start.partitions.items())
    # Unless it starts beyond all that was there when history was listed.
    starts = start.offsets()
    is_beyond = all(starts[at] >= seam_end for at, seam_end in world.seam_end.items())
    rule: SeamRule = "none" if tells_all or is_beyond else "key"
    assert arriving(world, end, start, rule) == world.everything() - unknown


@EXAMPLES
@given(bounded_below() | suggested())
def test_offsets_that_files_only_suggest_and_a_key_are_exact_or_refused(
    case: tuple[World, HeldOffsets],
) -> None:
    world, held = case
    end = world.end(offsets=held)
    start = decide_or_refuse(world, end)
    is_behind = any(held.next.get(at, 0) < first for at, first in world.deleted_to.items())
    if start is not None:
        assert not is_behind
        assert arriving(world, end, start, "key") == world.everything()


@EXAMPLES
@given(snapshots())
def test_a_snapshot_and_its_log_position_are_exact_or_refused(
    case: tuple[World, dict[Key, int], int],
) -> None:
    world, sequences, taken = case
    end = world.end(sequence=taken)
    start = decide_or_refuse(world, end)
    if start is not None:
        assert not world.nowhere(world.deleted_to), IN_SILENCE
        rows = arriving(world, end, start, "sequence", sequences=sequences)
        assert rows == world.everything()


@EXAMPLES
@given(dated())
def test_without_a_key_only_the_rows_that_the_plan_warns_of_are_wrong(world: World) -> None:
    end = world.end()
    start = decide_or_refuse(world, end)
    if start is None:
        return
    held = world.held
    starts = start.offsets()
    seam = [row for row in world.records if row.offset >= starts[row.at] and in_seam(world, row)]
    # "One of them that reached the topic but not the files is lost ..."
    lost = Counter(r.key for r in seam if r.event_ms <= world.end_ms and r.key not in held)
    # "... one that is later but in the files comes twice", if the end of history was sampled.
    twice = Counter(r.key for r in seam if r.event_ms > world.end_ms and r.key in held)
    event(f"lost: {bool(lost)}, twice: {bool(twice)}")
    rows = arriving(world, end, start, "event_time", key=())
    assert world.everything() - rows == lost
    assert rows - world.everything() == twice


@EXAMPLES
@given(dated(), st.data())
def test_fixed_offsets_up_to_what_history_lacks_are_exact(
    world: World, data: st.DataObject
) -> None:
    held = world.held
    ends = world.log().log_end()
    offsets: dict[str, dict[int, int]] = {}
    for at in world.partitions:
        lacking = [row.offset for row in world.records if row.at == at and row.key not in held]
        last = min([*lacking, ends[at]])
        world.deleted_to[at] = min(world.deleted_to[at], last)
        offset = data.draw(st.integers(world.deleted_to[at], last))
        offsets.setdefault(at.topic, {})[at.partition] = offset
    end = world.end()
    start = decide(world, end, start={"offsets": offsets})
    assert start.evidence == "fixed"
    assert arriving(world, end, start, "key") == world.everything()


@EXAMPLES
@given(dated(segments=True), st.integers(-9, 9) | st.none())
def test_any_other_start_is_exact_or_refused(world: World, shift_ms: int | None) -> None:
    end = world.end()
    start: Any = "earliest"
    if shift_ms is not None:
        after_ms = timedelta(milliseconds=world.through_ms + shift_ms)
        start = {"timestamp": datetime(1970, 1, 1, tzinfo=UTC) + after_ms}
    is_after_history = shift_ms is not None and shift_ms > 0
    try:
        found = decide(world, end, start=start)
    except GapError:
        event("refused: it leaves records out" if is_after_history else "refused")
        assert is_after_history or world.is_deleted_from, WITHOUT_REASON
        return
    event("decided, after history" if is_after_history else "decided")
    assert not world.nowhere(world.deleted_to), IN_SILENCE
    assert arriving(world, end, found, "key") == world.everything()


NUMBERS = st.integers(0, 2**63 - 1)
MAYBE = st.none() | NUMBERS
TIMES = st.integers(-(2**60), 2**60)
TEXTS = st.text(max_size=20)
PARTITIONS = st.builds(
    TopicPartition, st.sampled_from(["t", "u.v-w_x", "7"]), st.integers(0, 10_000)
)
HELD = st.builds(
    HeldOffsets,
    next=st.dictionaries(PARTITIONS, NUMBERS, max_size=4),
    exact=st.booleans(),
    holes=st.dictionaries(
        PARTITIONS, st.lists(st.tuples(NUMBERS, NUMBERS), max_size=3), max_size=3
    ),
)
ENDS = st.builds(
    EndPosition,
    source=TEXTS,
    event_time_ms=TIMES,
    complete_through_ms=TIMES,
    event_times=st.sampled_from(["exact", "sampled"]),
    offsets=st.none() | HELD,
    sequence=MAYBE,
    splits=NUMBERS,
    rows=MAYBE,
)
PARTITION_STARTS = st.builds(
    PartitionStart, start=NUMBERS, log_start=NUMBERS, log_end=NUMBERS, reason=TEXTS
)
GAPS = st.builds(
    Gap,
    topic=TEXTS,
    partition=NUMBERS,
    from_ms=st.none() | TIMES,
    to_ms=st.none() | TIMES,
    from_offset=MAYBE,
    to_offset=MAYBE,
    why=TEXTS,
)
EVIDENCE: list[Literal["offsets", "sequence", "timestamp", "fixed", "factory"]]
EVIDENCE = ["offsets", "sequence", "timestamp", "fixed", "factory"]
STARTS = st.builds(
    StartPosition,
    source=TEXTS,
    evidence=st.sampled_from(EVIDENCE),
    time_ms=st.none() | TIMES,
    partitions=st.dictionaries(PARTITIONS, PARTITION_STARTS, max_size=4),
    gaps=st.lists(GAPS, max_size=3),
)


@EXAMPLES
@given(ENDS, STARTS)
def test_positions_are_read_back_as_they_were_written(
    end: EndPosition, start: StartPosition
) -> None:
    assert EndPosition.parse(end.model_dump_json().encode()) == end
    assert StartPosition.parse(start.model_dump_json().encode()) == start
