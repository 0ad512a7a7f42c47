"""Rounds: further listings of history that grows while it is read, until the gap is small.

A round is a plan of the files that arrived since. Like the plan it is written before it is read.
The source ends when no further round is due.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sources.common.durations import duration, span_ms
from sources.common.positions import EndPosition, Offsets, StartPosition
from sources.common.state_document import Record
from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.files.listing.new_files import list_arrived, paths_of
from sources.files.listing.split_table import FileListing
from sources.hybrid import SourceSwitchContext
from sources.kafka.client.kafka_log import KafkaLog
from sources.kafka.seam_end import seam_end_now
from sources.kafka.start.declared_start import GapError
from sources.planning.context import PipelineContext
from sources.planning.event_times import event_range_ms
from sources.planning.files.file_plan import (
    FilePlan,
    keep_splits,
    plan_files,
    plans_alike,
    read_splits,
)
from sources.planning.plan import Plan
from sources.planning.topics.topic_plan import start_factory
from sources.state.generation import Generation

EXTEND_ROUNDS = 20
"""Highest number of rounds by ``on_gap: extend``; after them a gap ends the run."""


class Round(Record):
    """Round of a file source: a further listing of its folder after its plan was read.

    Attributes:
        number: Number of the round, from 1.
        files: Plan of the files that arrived since the last listing.
        seam_end: High watermark of each partition of the next topic, read right after this listing:
            records that are appended later are in none of these files.
        why: Why the round is due, in words.
        behind_ms: How many milliseconds the lowest event time of its files lies before the highest
            one read earlier; 0 if it does not.
    """

    VERSION = 2

    number: int
    files: FilePlan
    seam_end: Offsets
    why: str
    behind_ms: int


@dataclass(frozen=True)
class History:
    """Plan of a bounded file source, with all of its rounds so far.

    Attributes:
        parts: Never empty: the plan of the source, and one more for each round (a further
            listing of its folder).
        seam_end: High watermark of each partition of the next topic at the last listing; empty if
            no topic follows.
    """

    parts: list[FilePlan]
    seam_end: Offsets

    @property
    def disorder_ms(self) -> int:
        """Largest step back in event time between micro-batches or rounds, in milliseconds.

        That is, how far one of them reaches back behind the highest event time read before it.
        """
        reached = [part.end.event_time_ms for part in self.parts]
        back = [max(reached[:at]) - part.event_min_ms for at, part in enumerate(self.parts) if at]
        return max([*(part.disorder_ms for part in self.parts), *back])

    @property
    def end(self) -> EndPosition:
        """End position of the source once all parts are read; computed from the plans."""
        ends = [part.end for part in self.parts]
        rows = [end.rows for end in ends if end.rows is not None]
        sampled = any(end.event_times == "sampled" for end in ends)
        return EndPosition(
            source=ends[0].source,
            event_time_ms=max(end.event_time_ms for end in ends),
            complete_through_ms=max(end.complete_through_ms for end in ends),
            event_times="sampled" if sampled else "exact",
            # The last listing includes the offsets of all files.
            offsets=ends[-1].offsets,
            sequence=ends[-1].sequence,
            snapshot=ends[-1].snapshot,
            definition=ends[-1].definition,
            splits=sum(end.splits for end in ends),
            rows=sum(rows) if len(rows) == len(ends) else None,
        )


def history_of(generation: Generation, plan: Plan, source: str) -> History:
    """Return everything that is planned of a file source so far: its plan and its rounds.

    Args:
        generation: State of the generation, which holds the rounds.
        plan: Plan of the generation.
        source: Name of the bounded file source.

    Raises:
        KeyError: The plan has no such file source.
        StateError: A round is damaged.
        UnavailableError: The state's store does not answer.
    """
    parts = [plan.files_of(source)]
    seam_end = plan.topics[0].seam_end if plan.topics else {}
    while (made := generation.read(_name(source, len(parts)), Round)) is not None:
        parts.append(made.files)
        seam_end = made.seam_end
    return History(parts, seam_end)


def next_round(context: PipelineContext, source: FileSource) -> Round | None:
    """Plan and write another round of a source that was read to its end; None if none is due.

    A round is due if files have arrived, and either the topic is further ahead than the source
    allows (``converge``) or the files may close a gap (``on_gap: extend``). After None the source
    has ended. None as well if no topic follows.

    Args:
        context: The pipeline and its state.
        source: The file source.

    Raises:
        InputError: A new file can't be read, has other columns than planned, or has rows whose
            event time does not count and ``event_time.outside`` is ``fail``; or a broker or storage
            refuses.
        UnavailableError: A broker or storage does not answer.
        GapError: There is a gap to the next topic, which does not accept it, and no file has
            arrived that may close it. The source stays unfinished, so that a later run tries again.
        SeamError: The hand-over could not be made for another reason.
        StateError: There is no plan, or the state folder can't be written.
    """
    loaded, generation, plan = context.loaded, context.generation, context.plan
    live = loaded.pipeline.next_topic(source.name)
    if live is None:
        return None
    history = history_of(generation, plan, source.name)
    expected = plan.topic_of(live.name).expected_start
    why, gap = _due(loaded, source, live, history, expected)
    earlier = [] if why is None else [read_splits(part, generation) for part in history.parts]
    listing = None
    if why is not None:
        first = history.parts[0]
        known = paths_of(earlier)
        is_parsed = first.parsed is not None
        listing = list_arrived(
            loaded, source, known, first.read, first.columns, is_parsed=is_parsed
        )
    if listing is not None and event_range_ms(listing.splits) is None:
        # Files without rows change nothing; rows outside of the bounds are read or counted.
        listing = listing if pc.sum(listing.splits["outside"]).as_py() else None
    if why is None or listing is None:
        if gap is not None:
            # The source stays unfinished: the next run tries again.
            raise gap
        return None
    seam_end = seam_end_now(KafkaLog(live))
    others = plans_alike(loaded.pipeline, source, plan.files[:-1])
    alike = [*(read_splits(part, generation) for part in others), *earlier]
    return make_round(context, source, history, listing, Due(why, seam_end, alike))


class Due(NamedTuple):
    """What is known of a round besides its files.

    Attributes:
        why: Why it is due, in words.
        seam_end: High watermark of each partition of the next topic, as :class:`Round` has it.
        alike: Split tables whose offsets the end position has to include.
    """

    why: str
    seam_end: Offsets
    alike: Sequence[pa.Table] = ()


def make_round(
    context: PipelineContext,
    source: FileSource,
    history: History,
    listing: FileListing,
    due: Due,
) -> Round:
    """Plan the files of a further listing, and write them as a round before anything reads them.

    Args:
        context: The pipeline and its state.
        source: The file source.
        history: What was planned of it before.
        listing: Files that arrived since.
        due: What else is known of it.

    Returns:
        The round; if another process wrote one of its number first, that one.

    Raises:
        InputError, UnavailableError, StateError: As :func:`next_round`.
    """
    loaded, generation = context.loaded, context.generation
    part, _ = plan_files(loaded, source, listing, due.alike, history.end.event_time_ms)
    keep_splits(part, listing, generation)
    number = len(history.parts)
    made = Round(
        number=number,
        files=part,
        seam_end=due.seam_end,
        why=due.why,
        behind_ms=max(history.end.event_time_ms - part.event_min_ms, 0),
    )
    return generation.put_if_absent(_name(source.name, number), made)


def _due(
    loaded: LoadedPipeline,
    source: FileSource,
    live: KafkaSource,
    history: History,
    expected: StartPosition,
) -> tuple[str | None, GapError | None]:
    """Return why a round is due, if it is; and the gap that is open, if there is one."""
    log = KafkaLog(live)
    done = len(history.parts) - 1
    gap = None
    try:
        factory = start_factory(loaded, live, history.seam_end, expected)
        factory(SourceSwitchContext(history.end, log))
    except GapError as error:
        gap = error
    if gap is not None and live.on_gap == "extend" and done < EXTEND_ROUNDS:
        return gap.message, gap
    if source.converge is not None and done < source.converge.rounds:
        newest_ms = max((at for at in log.newest_ms().values() if at is not None), default=None)
        limit_ms = span_ms(source.converge.gap)
        if newest_ms is not None and newest_ms - history.end.event_time_ms > limit_ms:
            ahead_s = (newest_ms - history.end.event_time_ms) / 1000
            return f"the topic is {duration(ahead_s)} ahead", gap
    return None, gap


def _name(source: str, number: int) -> str:
    return f"rounds/{source}-{number}.json"
