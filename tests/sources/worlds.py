"""Random worlds on both sides of a seam: what was appended, listed, archived and deleted.

What the user promises, and no more, holds in each world:

- Records come late by ``allowed_lateness`` at most: none is appended whose event time lies further
  behind the highest one that was appended before, whatever the partition.
- When history is listed it holds every record that was appended by then and happened before its
  complete-through time; of later ones it may hold any. (A declared complete-through time may be
  earlier or later than its end minus the lateness, as long as every earlier record is in history.)
- A record's timestamp is not before its event time.

Kafka may delete any prefix of a partition at any moment, archived or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from sources.common.positions import EndPosition, HeldOffsets, Offsets, TopicPartition
from sources.common.topic_log import LogRecord
from tests.sources.kafka.model_log import ModelLog

PLACES = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)]
BEGIN_MS = 1000
Key = tuple[TopicPartition, int]


@dataclass(frozen=True)
class Entry:
    """Something that takes up an offset: a record, whose key that is, or a control record.

    Attributes:
        is_chosen: Archived, where that is free.
        is_left_out: Not archived, where a file is missing.
    """

    at: TopicPartition
    offset: int
    event_ms: int
    timestamp_ms: int
    is_record: bool = True
    is_chosen: bool = False
    is_left_out: bool = False

    @property
    def key(self) -> Key:
        return self.at, self.offset

    def append_to(self, log: ModelLog) -> None:
        if self.is_record:
            record = LogRecord(self.at, self.offset, self.timestamp_ms, b"{}")
            log.records[self.at].append(record)
        else:
            log.markers[self.at].append((self.offset, self.timestamp_ms))


@dataclass
class World:
    """All that is ever appended; and what had happened when.

    Attributes:
        partitions: Of one topic or two.
        entries: In the order in which they were appended.
        listed: How many of them were there when history was listed.
        handed: How many when the hand-over was made.
        lateness_ms: ``allowed_lateness``.
        deleted_to: Log start when the hand-over was made.
        segments: First offsets of those of Kafka's files that were still there.
        open_from: First offset of a transaction that was open then.
        history: What the files hold.
        through_ms: History is complete up to here.
        end_ms: Highest event time of history, or less, if that was sampled.
    """

    partitions: list[TopicPartition]
    entries: list[Entry]
    listed: int
    handed: int
    lateness_ms: int
    deleted_to: Offsets
    segments: dict[TopicPartition, list[int]] = field(default_factory=dict)
    open_from: Offsets = field(default_factory=dict)
    history: list[Entry] = field(default_factory=list)
    through_ms: int = BEGIN_MS
    end_ms: int = BEGIN_MS

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """For Hypothesis."""
        held = self.held
        lines = [
            f"lateness {self.lateness_ms}, through {self.through_ms}, end {self.end_ms}, "
            f"log starts {self.deleted_to}, segments {self.segments}, open {self.open_from}"
        ]
        for number, entry in enumerate(self.entries):
            lines += ["-- listed --"] * (number == self.listed)
            lines += ["-- handed over --"] * (number == self.handed)
            kind = f"event {entry.event_ms}" if entry.is_record else "control record"
            where = "archived" if entry.key in held else ""
            lines.append(
                f"{entry.at.topic}-{entry.at.partition}@{entry.offset} {kind}, "
                f"timestamp {entry.timestamp_ms} {where}"
            )
        printer.text("\n  ".join(["world:", *lines, ""]))

    @property
    def records(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.is_record]

    @property
    def held(self) -> set[Key]:
        """Keys of history."""
        return {record.key for record in self.history}

    @property
    def seam_end(self) -> Offsets:
        """Log ends when history was listed."""
        return self.ends(self.entries[: self.listed])

    @property
    def is_deleted_from(self) -> bool:
        return any(self.deleted_to.values())

    def log(self) -> ModelLog:
        """The topics as they are when the hand-over is made."""
        log = ModelLog(
            {at: [] for at in self.partitions},
            dict(self.deleted_to),
            markers={at: [] for at in self.partitions},
            segments=dict(self.segments),
            open_from=dict(self.open_from),
        )
        for entry in self.entries[: self.handed]:
            entry.append_to(log)
        return log

    def ends(self, entries: Sequence[Entry]) -> Offsets:
        return dict.fromkeys(self.partitions, 0) | {e.at: e.offset + 1 for e in entries}

    def everything(self) -> Counter[Key]:
        return Counter(record.key for record in self.records)

    def nowhere(self, deleted_to: Offsets) -> Counter[Key]:
        """What was deleted before it was archived."""
        held = self.held
        gone = (record for record in self.records if record.offset < deleted_to[record.at])
        return Counter(record.key for record in gone if record.key not in held)

    def end(self, **more: Any) -> EndPosition:
        return EndPosition(
            source="history",
            event_time_ms=self.end_ms,
            complete_through_ms=self.through_ms,
            event_times="sampled",
            splits=1,
            rows=len(self.history),
            **more,
        )


SMALL = st.integers(0, 9)
# Most partitions are whole.
DELETED = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 5])
QUIET_MS = 20
# What is appended next: partition, event time against the newest one, how much later its timestamp
# is, what comes before it (1: a control record, 2: offsets that compaction emptied), and whether
# it is chosen or left out.
STEP = st.tuples(
    st.integers(0, 2),
    st.integers(-5, 2),
    st.integers(0, 2),
    st.integers(0, 3),
    st.booleans(),
    st.integers(0, 3),
)
# Left to itself, Hypothesis prefers shorter lists.
STEPS = st.integers(1, 14).flatmap(lambda n: st.lists(STEP, min_size=n, max_size=n))


@st.composite
def topics(draw: st.DrawFn) -> World:
    """What is appended, listed and deleted; history holds nothing yet."""
    partitions = PLACES[: draw(st.sampled_from([1, 1, 2, 3]))]
    lateness_ms = draw(st.sampled_from([0, 0, 2, 5]))
    steps = [(0, *step) for step in draw(STEPS)]
    # A quiet time: a log that begins before it may reach back far enough.
    quiet = draw(SMALL) % len(steps)
    steps[quiet] = (QUIET_MS, *steps[quiet][1:])
    entries = _append(steps, partitions, lateness_ms, draw(st.booleans()), draw(SMALL))
    first = next(number for number, entry in enumerate(entries, 1) if entry.is_record)
    listed = max(len(entries) - draw(SMALL), first)
    world = World(
        partitions=partitions,
        entries=entries,
        listed=listed,
        handed=max(len(entries) - draw(SMALL) // 2, listed),
        lateness_ms=lateness_ms,
        deleted_to={},
    )
    ends = world.ends(entries[: world.handed])
    world.deleted_to = {at: min(draw(DELETED), ends[at]) for at in partitions}
    return world


def _append(
    steps: list[tuple[int, int, int, int, int, bool, int]],
    partitions: list[TopicPartition],
    lateness_ms: int,
    by_append_time: bool,
    ahead_ms: int,
) -> list[Entry]:
    """Entries of a log whose timestamps are times of creation, or of appending.

    Control records have the broker's clock, which may be ahead of all event times.
    """
    entries: list[Entry] = []
    ends = dict.fromkeys(partitions, 0)
    newest = clock = BEGIN_MS
    for pause, place, move, delay, before, is_chosen, left_out in steps:
        at = partitions[place % len(partitions)]
        newest += pause
        event_ms = newest + max(move, -lateness_ms)
        if before == 1:
            clock += 0 if by_append_time else ahead_ms
            entries.append(Entry(at, ends[at], 0, clock, is_record=False))
        ends[at] += before in (1, 2)
        clock = max(clock, event_ms + delay)
        stamp = clock if by_append_time else event_ms + delay
        entries.append(Entry(at, ends[at], event_ms, stamp, True, is_chosen, left_out == 0))
        ends[at] += 1
        newest = max(newest, event_ms)
    return entries


@st.composite
def dated(draw: st.DrawFn, *, segments: bool = False) -> World:
    """Worlds whose history knows nothing but the time up to which it is complete.

    Args:
        draw: Hypothesis.
        segments: Whether deletions may leave Kafka's files behind.
    """
    world = draw(topics())
    there = [entry for entry in world.entries[: world.listed] if entry.is_record]
    chosen = [entry for entry in there if entry.is_chosen] or there[:1]
    world.end_ms = max(entry.event_ms for entry in chosen) - draw(st.sampled_from([0, 0, 0, 1]))
    world.through_ms = world.end_ms - world.lateness_ms
    declared = draw(st.sampled_from(["not", "early", "late", "late"]))
    if declared == "early":
        world.through_ms -= draw(st.integers(1, 3))
    world.history = [e for e in there if e in chosen or e.event_ms < world.through_ms]
    if declared == "late":
        held = world.held
        lacking = [entry.event_ms for entry in world.records if entry.key not in held]
        world.through_ms = max(world.through_ms, min(lacking, default=world.end_ms + 2))
    _delete_what_history_lacks(draw, world)
    _leave_open(draw, world)
    if segments:
        for at, first in world.deleted_to.items():
            cuts = {0, draw(SMALL), draw(SMALL)}
            removed = max(cut for cut in cuts if cut <= first) if draw(st.booleans()) else 0
            world.segments[at] = sorted(cut for cut in cuts if cut >= removed)
    return world


@st.composite
def snapshots(draw: st.DrawFn) -> tuple[World, dict[Key, int], int]:
    """A database's changes, the log position of each, and that of a snapshot.

    Changes commit in the order of their event times but for the lateness; the topic may still
    lack some that the snapshot has.
    """
    world = draw(topics())
    late = draw(st.lists(st.integers(0, world.lateness_ms), max_size=len(world.records)))
    late += [0] * (len(world.records) - len(late))
    order = sorted(zip(world.records, late, strict=True), key=lambda e: e[0].event_ms + e[1])
    sequences = {record.key: number for number, (record, _) in enumerate(order, 100)}
    taken = draw(st.integers(100, 99 + len(order)))
    world.history = [record for record in world.records if sequences[record.key] <= taken]
    _end_with_history(world)
    _delete_what_history_lacks(draw, world)
    return world, sequences, taken


@st.composite
def numbered(draw: st.DrawFn) -> tuple[World, HeldOffsets]:
    """Worlds whose history tells its offsets exactly; it may lack some before the last one."""
    world = draw(topics())
    next_offsets: Offsets = {}
    holes: dict[TopicPartition, list[tuple[int, int]]] = {}
    for at in world.partitions:
        archived = _prefix(draw, world, at)
        if not archived:
            continue
        archived = [*(entry for entry in archived[:-1] if not entry.is_left_out), archived[-1]]
        world.history += archived
        next_offsets[at] = archived[-1].offset + 1
        begins = [0, *(entry.offset + 1 for entry in archived)]
        found = [(begin, e.offset) for begin, e in zip(begins, archived, strict=False)]
        holes |= {at: [hole for hole in found if hole[0] < hole[1]]}
    _end_with_history(world)
    return world, HeldOffsets(next=next_offsets, exact=True, holes=holes)


@st.composite
def bounded_below(draw: st.DrawFn) -> tuple[World, HeldOffsets]:
    """Worlds whose history holds all below an offset, and any of those above."""
    world = draw(topics())
    next_offsets: Offsets = {}
    for at in world.partitions:
        archived = _prefix(draw, world, at)
        if not archived:
            continue
        after = archived[-1].offset + 1
        later = [e for e in world.entries[: world.listed] if e.at == at and e.offset >= after]
        archived += [entry for entry in later if entry.is_record and entry.is_chosen]
        world.history += archived
        next_offsets[at] = max(after - draw(st.integers(0, 3)), 1)
    _end_with_history(world)
    return world, HeldOffsets(next=next_offsets, exact=False, holes={})


@st.composite
def suggested(draw: st.DrawFn) -> tuple[World, HeldOffsets]:
    """Worlds whose history is complete by time, and whose offsets tell nothing for sure."""
    world = draw(dated())
    ends = {entry.at: entry.offset + 1 for entry in sorted(world.history, key=lambda e: e.key)}
    next_offsets = {at: max(end - draw(st.integers(0, 3)), 1) for at, end in ends.items()}
    return world, HeldOffsets(next=next_offsets, exact=False, holes={})


def _delete_what_history_lacks(draw: st.DrawFn, world: World) -> None:
    """Sometimes the log starts right behind such a record, at an older one if there is any."""
    held = world.held
    there = [entry for entry in world.entries[: world.handed] if entry.is_record]
    lacking = [entry for entry in there if entry.key not in held]
    pairs = pairwise(sorted(there, key=lambda entry: entry.key))
    hidden = [
        entry
        for entry, after in pairs
        if entry.key not in held and entry.at == after.at and after.event_ms < world.through_ms
    ]
    if not lacking or draw(st.integers(0, 1 if hidden else 2)):
        return
    gone = draw(st.sampled_from(hidden or lacking[:3]))
    world.deleted_to = dict.fromkeys(world.partitions, 0) | {gone.at: gone.offset + 1}


def _leave_open(draw: st.DrawFn, world: World) -> None:
    """Sometimes a transaction is open that began after all that history holds of a partition."""
    at = draw(st.sampled_from(world.partitions))
    first = max([world.deleted_to[at], *(e.offset + 1 for e in world.history if e.at == at)])
    end = world.ends(world.entries[: world.handed])[at]
    if first < end and draw(st.integers(0, 3)) == 0:
        world.open_from[at] = draw(st.integers(first, end - 1))


def _prefix(draw: st.DrawFn, world: World, at: TopicPartition) -> list[Entry]:
    there = [e for e in world.entries[: world.listed] if e.at == at and e.is_record]
    return there[: max(len(there) - draw(SMALL) // 3, 0)]


def _end_with_history(world: World) -> None:
    world.end_ms = max((record.event_ms for record in world.history), default=BEGIN_MS)
    world.through_ms = world.end_ms - world.lateness_ms
